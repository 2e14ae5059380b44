/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See torch.h. A file may be the agent's by its name or, where none of that name is active, by
 * the name of the control block in its first bytes. It is the agent's by what it has: USDT sites of
 * ours with semaphores that can be written, and an exported control block that says in the
 * process's memory that it is one. All of it is the target's word, so every address is checked
 * against the file's segments and the process's mappings before it is used; a write goes only where
 * a check was made through the same descriptor, which is bound to one address space: a process that
 * has since called exec is not touched.
 */
#define LOG_DOMAIN "agent"
#include "target/torch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc_read.h"
#include "target/elf.h"
#include "target/proc.h"

#define MAGIC "PTBAGENT"
/* clang-format off */
#define TLS_MAX (1 << 24)
/* clang-format on */

static const char *const site_names[PTB_AGENT_SITE_CNT] = {
#define X(name, nr, text, what) [nr] = text,
	PTB_AGENT_SITES(X)
#undef X
};

const char *agent__why_text(uint32_t why)
{
	static const char *const texts[] = {
#define X(name, nr, text) [nr] = text,
		PTB_AGENT_WHYS(X)
#undef X
	};

	return why < sizeof(texts) / sizeof(*texts) && texts[why] ? texts[why] : "";
}

void agent_lib__clear(struct agent_lib *al)
{
	free(al->path);
	free(al->access_path);
	if (al->fd > 0)
		close(al->fd);
	memset(al, 0, sizeof(*al));
}

/* ---- what the file says ---- */

struct file_facts {                                  /* all 0: it has none */
	uint64_t site[PTB_AGENT_SITE_CNT];           /* file offsets */
	uint64_t semaphore[PTB_AGENT_SITE_CNT];      /* file offsets */
	uint64_t semaphore_addr[PTB_AGENT_SITE_CNT]; /* ELF vaddr */
	uint64_t ctl_addr, ctl_size, open_addr;      /* ELF vaddr */
};

struct fact_finder {
	const struct elf_file *ef;
	struct file_facts f;
};

static bool take_site(const struct usdt_site *site, void *arg)
{
	struct fact_finder *ff = arg;
	uint64_t off, semaphore;

	if (strcmp(site->provider, PTB_AGENT_PROVIDER) != 0)
		return true;
	off = elf_file__addr_to_off(ff->ef, site->addr);
	semaphore = elf_file__addr_to_off(ff->ef, site->semaphore);
	if (off == UINT64_MAX || !elf_file__is_text(ff->ef, site->addr) || !site->semaphore ||
	    semaphore == UINT64_MAX || site->semaphore % sizeof(uint16_t))
		return true;
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		if (ff->f.site[i] || strcmp(site->name, site_names[i]) != 0)
			continue;
		ff->f.site[i] = off;
		ff->f.semaphore[i] = semaphore;
		ff->f.semaphore_addr[i] = site->semaphore;
	}
	return true;
}

static bool take_object(const struct elf_sym *sym, void *arg)
{
	struct fact_finder *ff = arg;

	if (!sym->defined || sym->type != STT_OBJECT)
		return true;
	if (!strcmp(sym->name, PTB_AGENT_OPEN_SYMBOL) && sym->size >= sizeof(struct ptb_agent_open))
		ff->f.open_addr = sym->addr;
	if (!strcmp(sym->name, PTB_AGENT_CTL_SYMBOL)) {
		ff->f.ctl_addr = sym->addr;
		ff->f.ctl_size = sym->size;
	}
	return true;
}

/* Runs in a child (elf.h). */
static int find_facts(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct fact_finder ff = { .ef = ef };

	(void)arg;
	elf_file__for_each_usdt(ef, take_site, &ff);
	elf_file__for_each_sym(ef, take_object, &ff);
	elf_answer__give(&ff.f, sizeof(ff.f), out, len);
	return 0;
}

static bool take_facts(const struct mapped_file *mf, struct file_facts *f, struct agent_lib *al)
{
	if (!elf_answer__get(&mf->answer, f, sizeof(*f)))
		return false;
	memcpy(al->site, f->site, sizeof(al->site));
	memcpy(al->semaphore, f->semaphore, sizeof(al->semaphore));
	al->load_bias = mf->load_bias;
	al->ctl = f->ctl_addr ? f->ctl_addr + mf->load_bias : 0;
	al->open = f->open_addr ? f->open_addr + mf->load_bias : 0;
	return true;
}

/* ---- what the process says ---- */

/* The kernel raises a semaphore only in a private, writable mapping of the file itself. */
static bool is_writable(const struct proc_maps *maps, const struct proc_map *code, uint64_t addr,
			uint64_t len)
{
	for (uint32_t i = 0; i < maps->cnt; i++) {
		const struct proc_map *m = &maps->items[i];

		if (addr >= m->start && addr < m->end)
			return m->write && len <= m->end - addr && m->ino == code->ino &&
			       m->dev_major == code->dev_major && m->dev_minor == code->dev_minor;
	}
	return false;
}

static int explain(char *why, size_t cap, int err, const char *text)
{
	snprintf(why, cap, "%s", text);
	return err;
}

static int check_ctl(const struct ptb_agent_ctl *ctl, char *why, size_t cap)
{
	if (!memcmp(ctl->magic, MAGIC, sizeof(ctl->magic) - 1) &&
	    !ctl->magic[sizeof(ctl->magic) - 1])
		return explain(why, cap, -EAGAIN,
			       "it is inactive because the process has neither "
			       "Python nor torch");
	if (memcmp(ctl->magic, MAGIC, sizeof(ctl->magic)) != 0)
		return explain(why, cap, -EPROTO, "its control block is not valid");
	if (ctl->abi != PTB_AGENT_ABI || ctl->size != sizeof(*ctl)) {
		snprintf(why, cap,
			 "it is of another version of ptbpf: ABI %u of %u bytes, not %u of %zu",
			 ctl->abi, ctl->size, PTB_AGENT_ABI, sizeof(*ctl));
		return -EPROTO;
	}
	return 0;
}

static int read_ctl(const struct remote_mem *rm, uint64_t addr, struct ptb_agent_ctl *out,
		    char *why, size_t cap)
{
	ssize_t n = remote_mem__read(rm, addr, out, sizeof(*out));

	if (n == -ESRCH) /* its address space is gone */
		return -ESRCH;
	if (n != (ssize_t)sizeof(*out))
		return explain(why, cap, -EPROTO, "its control block cannot be read");
	return check_ctl(out, why, cap);
}

int agent_lib__read(pid_t pid, const struct agent_lib *al, struct ptb_agent_ctl *out)
{
	struct remote_mem *rm;
	int err = remote_mem__open(pid, false, &rm);
	char why[128];

	if (!err)
		err = read_ctl(rm, al->ctl, out, why, sizeof(why));
	remote_mem__close(rm);
	return err == -EAGAIN ? -EPROTO : err;
}

int agent_lib__read_open(pid_t pid, const struct agent_lib *al, struct ptb_agent_open *out)
{
	struct remote_mem *rm;
	ssize_t n = al->open ? remote_mem__open(pid, false, &rm) : -EPROTO;

	if (n < 0)
		return (int)n;
	n = remote_mem__read(rm, al->open, out, sizeof(*out));
	remote_mem__close(rm);
	if (n == -ESRCH)
		return -ESRCH;
	/* thread-local variables of libraries are below the thread's pointer */
	return n == (ssize_t)sizeof(*out) && out->size == sizeof(*out) && out->tls < 0 &&
			       out->tls > -TLS_MAX && out->tls % 8 == 0 ?
		       0 :
		       -EPROTO;
}

/* Another tracer may have written them before: the same are left alone, its requests stand on
 * them. */
static int write_cfg(const struct remote_mem *rm, uint64_t ctl_addr,
		     const struct ptb_agent_cfg *cfg)
{
	const uint32_t none = 0, abi = PTB_AGENT_ABI, size = sizeof(*cfg);
	const uint64_t abi_addr = ctl_addr + offsetof(struct ptb_agent_ctl, cfg_abi);
	struct ptb_agent_ctl now;
	char why[128];
	int err = read_ctl(rm, ctl_addr, &now, why, sizeof(why));

	if (err)
		return err == -EAGAIN ? -EPROTO : err;
	if (now.cfg_abi == abi && now.cfg_size == size && !memcmp(&now.cfg, cfg, sizeof(*cfg)))
		return 0;
	err = remote_mem__write(rm, abi_addr, &none, sizeof(none));
	if (!err)
		err = remote_mem__write(rm, ctl_addr + offsetof(struct ptb_agent_ctl, cfg), cfg,
					sizeof(*cfg));
	if (!err)
		err = remote_mem__write(rm, ctl_addr + offsetof(struct ptb_agent_ctl, cfg_size),
					&size, sizeof(size));
	return err ? err : remote_mem__write(rm, abi_addr, &abi, sizeof(abi));
}

int agent_lib__configure(pid_t pid, const struct agent_lib *al, const struct ptb_agent_cfg *cfg)
{
	struct remote_mem *rm;
	int err = remote_mem__open(pid, true, &rm);

	if (!err)
		err = write_cfg(rm, al->ctl, cfg);
	remote_mem__close(rm);
	return err;
}

/* ---- both together ---- */

static int check_memory(pid_t pid, const struct proc_maps *maps, const struct proc_map *code,
			const struct file_facts *f, const struct agent_lib *al, uint32_t *state,
			char *why, size_t cap)
{
	struct ptb_agent_ctl ctl;
	struct remote_mem *rm;
	int err;

	if (!al->site[PTB_AGENT_SITE_CHUNK])
		return explain(why, cap, -EPROTO,
			       "it has no USDT site \"" PTB_AGENT_PROVIDER
			       ":chunk\" with a semaphore");
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++)
		if (al->site[i] && !is_writable(maps, code, f->semaphore_addr[i] + al->load_bias,
						sizeof(uint16_t)))
			return explain(why, cap, -EPROTO,
				       "its semaphores are not in writable memory");
	if (!al->ctl || f->ctl_size < sizeof(ctl.magic) ||
	    !is_writable(maps, code, al->ctl, sizeof(ctl)))
		return explain(why, cap, -EPROTO, "it exports no control block");
	err = remote_mem__open(pid, false, &rm);
	if (!err)
		err = read_ctl(rm, al->ctl, &ctl, why, cap);
	remote_mem__close(rm);
	if (!err)
		*state = ctl.state;
	return err;
}

struct search {
	pid_t pid;
	struct proc_maps maps;
	uint32_t files;    /* that were examined */
	uint64_t spent_ns; /* with them */
};

/* One mapped file that has the agent's name. */
static int examine_agent(struct search *s, const struct proc_map *map, struct agent_lib *out,
			 uint32_t *state, char *why, size_t cap)
{
	const struct elf_question q = { .fn = find_facts, .spent_ns = &s->spent_ns };
	struct mapped_file mf;
	struct file_facts f;
	int err;

	memset(out, 0, sizeof(*out));
	why[0] = 0;
	s->files++;
	err = mapped_file__ask(s->pid, map, &q, &mf);
	if (err)
		return err == -ECANCELED ? err :
					   explain(why, cap, -EPROTO, "its file cannot be read");
	out->fd = mf.fd;
	mf.fd = 0;
	out->path = xstrdup(map->path);
	out->access_path = mapped_file__fd_path(out->fd);
	if (!take_facts(&mf, &f, out))
		err = explain(why, cap, -EPROTO, "its file cannot be read");
	if (!err)
		err = check_memory(s->pid, &s->maps, map, &f, out, state, why, cap);
	mapped_file__clear(&mf);
	if (err)
		pr_debug("%s in process %d: %s", map->path, s->pid, why[0] ? why : errstr(err));
	if (err && err != -EAGAIN)
		agent_lib__clear(out);
	return err;
}

/* A copy of another name has the control block's among the names that the dynamic linker reads.
 * They are near the file's begin. */
static bool names_ctl(pid_t pid, const struct proc_map *code)
{
	char buf[8192];
	ssize_t n = mapped_file__head(pid, code, buf, sizeof(buf));

	return n > 0 && memmem(buf, (size_t)n, PTB_AGENT_CTL_SYMBOL, sizeof(PTB_AGENT_CTL_SYMBOL));
}

/* By the file's name, or, among the other files, which are opened for that, by what it names. */
static bool may_be_agent(const struct search *s, uint32_t i, bool by_name)
{
	const struct proc_map *map = &s->maps.items[i];
	bool named = strstr(proc_map__base(map), AGENT_LIB_STEM);

	if (!map->exec || named != by_name)
		return false;
	return by_name || (proc_maps__is_first(&s->maps, i) && names_ctl(s->pid, map));
}

/* Of several copies the one whose thread runs: the others have seen that and do nothing. */
int agent_lib__find(pid_t pid, struct agent_lib *out, char *why, size_t cap)
{
	struct search s = { .pid = pid };
	struct agent_lib found;
	uint32_t state = 0, cnt;
	int err, result = -ENOENT;
	char text[160];

	memset(out, 0, sizeof(*out));
	snprintf(why, cap, "it is not loaded");
	err = proc_maps__read(pid, &s.maps);
	if (err) {
		snprintf(why, cap, "%s", errstr(err));
		return err;
	}
	cnt = s.maps.cnt;
	for (uint32_t i = 0;
	     i < 2 * cnt && !(state & PTB_AGENT_ALIVE) && s.files < LIMIT_AGENT_FILES; i++) {
		if (!may_be_agent(&s, i % cnt, i < cnt))
			continue;
		err = examine_agent(&s, &s.maps.items[i % cnt], &found, &state, text, sizeof(text));
		if (!err ? result || (state & PTB_AGENT_ALIVE) :
			   result && (err == -EAGAIN || result != -EAGAIN)) {
			agent_lib__clear(out);
			*out = found;
			result = err;
			snprintf(why, cap, "%s", err && !text[0] ? errstr(err) : text);
		} else {
			agent_lib__clear(&found);
		}
	}
	proc_maps__free(&s.maps);
	return result;
}
