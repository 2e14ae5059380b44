/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checks that the analysed instructions are still at the sites. The kernel copies the instruction
 * from the file's page cache and puts its breakpoint into the process's memory without comparing
 * the two (kernel/events/uprobes.c, copy_insn() and uprobe_write_opcode()). So both are compared
 * here: the file, through the descriptor that is probed, and every executable mapping of it in the
 * process, which the process may have changed.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "probe/probe_impl.h"

#define BATCH 256

static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

static bool in_file(const struct probe_site *s, const uint8_t *got)
{
	return !memcmp(got, s->insn, s->insn_len);
}

/*
 * A breakpoint replaces the first byte. Linux 6.18 replaces a five-byte no-op by a call
 * (arch/x86/kernel/uprobes.c, arch_uprobe_optimize()).
 */
static bool is_armed(const struct probe_site *s, const uint8_t *got)
{
	if (got[0] == 0xcc)
		return !memcmp(got + 1, s->insn + 1, s->insn_len - 1u);
	return s->insn_len == sizeof(nop5) && !memcmp(s->insn, nop5, sizeof(nop5)) &&
	       got[0] == 0xe8;
}

static int differs(pid_t tgid, const struct probe_lib *lib, uint64_t offset, const char *where)
{
	pr_error("'%s' of process %d is not probed: the instruction at offset 0x%" PRIx64
		 " %s is not the one that was analysed",
		 lib->name, (int)tgid, offset, where);
	return -ESTALE;
}

static int check_file(pid_t tgid, const struct probe_lib *lib, int fd)
{
	uint8_t got[PROBE_INSN_MAX];

	for (uint32_t i = 0; i < lib->cnt; i++) {
		const struct probe_site *s = &lib->sites[i];
		ssize_t n;

		if (!s->insn_len || s->insn_len > PROBE_INSN_MAX || s->offset > INT64_MAX)
			return -EINVAL;
		do
			n = pread(fd, got, s->insn_len, (off_t)s->offset);
		while (n < 0 && errno == EINTR);
		if (n != (ssize_t)s->insn_len || !in_file(s, got))
			return differs(tgid, lib, s->offset, "of the file");
	}
	return 0;
}

/* ---- the process's memory ---- */

struct batch {
	pid_t tgid;
	const struct probe_lib *lib;
	const struct probe_site *sites[BATCH];
	struct iovec local[BATCH], remote[BATCH];
	uint8_t bytes[BATCH][PROBE_INSN_MAX];
	uint32_t cnt;
	size_t len;
	struct remote_mem *mem; /* used if process_vm_readv() is not allowed */
	/* By program: the linked ones, whose sites need breakpoints; NULL: none. */
	struct bpf_program *const *armed;
	bool quiet;
};

static bool has_probe(const struct batch *b, const struct probe_site *s)
{
	return b->armed && b->armed[s->prog] && !s->refused;
}

static int check_bytes(const struct batch *b, uint32_t i)
{
	const struct probe_site *s = b->sites[i];

	if (!is_armed(s, b->bytes[i]) && !in_file(s, b->bytes[i]))
		return b->quiet ? -ESTALE : differs(b->tgid, b->lib, s->offset, "in its memory");
	return has_probe(b, s) && !is_armed(s, b->bytes[i]) ? -ENOENT : 0;
}

/* One by one: slower, but works under system-call filters that do not know process_vm_readv(). */
static int read_each(struct batch *b)
{
	int err = b->mem ? 0 : remote_mem__open(b->tgid, false, &b->mem);

	for (uint32_t i = 0; i < b->cnt && !err; i++) {
		ssize_t n = remote_mem__read(b->mem, (uintptr_t)b->remote[i].iov_base, b->bytes[i],
					     b->remote[i].iov_len);

		if (n != (ssize_t)b->remote[i].iov_len)
			err = n == -ESRCH ? -ESRCH : -EFAULT;
	}
	return err;
}

static int flush(struct batch *b)
{
	int err = 0;

	if (!b->cnt)
		return 0;
	if (proc_mem__readv(b->tgid, b->local, b->remote, b->cnt) != (ssize_t)b->len)
		err = errno == ESRCH ? -ESRCH : read_each(b);
	for (uint32_t i = 0; i < b->cnt && !err; i++)
		err = check_bytes(b, i);
	b->cnt = 0;
	b->len = 0;
	return err;
}

static bool is_in(const struct code_map *m, const struct probe_site *s)
{
	return s->offset >= m->off && s->offset - m->off < m->end - m->start &&
	       s->insn_len <= m->end - m->start - (s->offset - m->off);
}

static int check_mapping(struct batch *b, const struct code_map *m)
{
	int err = 0;

	for (uint32_t i = 0; i < b->lib->cnt && !err; i++) {
		const struct probe_site *s = &b->lib->sites[i];
		uint64_t addr = m->start + (s->offset - m->off);

		if (!is_in(m, s))
			continue;
		b->sites[b->cnt] = s;
		b->local[b->cnt] = (struct iovec){ b->bytes[b->cnt], s->insn_len };
		b->remote[b->cnt] = (struct iovec){ (void *)(uintptr_t)addr, s->insn_len };
		b->len += s->insn_len;
		if (++b->cnt == BATCH)
			err = flush(b);
	}
	return err ? err : flush(b);
}

/* Some programs copy a part of their code to huge pages. */
static int find_unmapped(const struct batch *b, const struct code_maps *maps)
{
	for (uint32_t i = 0; i < b->lib->cnt; i++) {
		uint32_t m = 0;

		while (m < maps->cnt && !is_in(&maps->items[m], &b->lib->sites[i]))
			m++;
		if (m == maps->cnt && has_probe(b, &b->lib->sites[i]))
			return -ENOENT;
	}
	return 0;
}

/* False if the process has executed another program in the meantime. */
static bool is_mapped(pid_t tgid, const struct probe_lib *lib)
{
	struct code_maps maps;
	bool yes = !code_maps__read(&maps, tgid, lib->access_path) && maps.cnt;

	code_maps__free(&maps);
	return yes;
}

static int compare_memory(pid_t tgid, const struct code_maps *maps, const struct probe_lib *lib,
			  bool quiet, struct bpf_program *const *armed)
{
	struct batch *b = xcalloc(1, sizeof(*b));
	int err;

	b->tgid = tgid;
	b->lib = lib;
	b->quiet = quiet;
	b->armed = armed;
	err = find_unmapped(b, maps);
	for (uint32_t i = 0; i < maps->cnt && !err; i++)
		err = check_mapping(b, &maps->items[i]);
	remote_mem__close(b->mem);
	free(b);
	return err == -EFAULT && !is_mapped(tgid, lib) ? -ESRCH : err;
}

int site_check__memory(pid_t tgid, const struct code_maps *maps, const struct probe_lib *lib,
		       struct bpf_program *const *armed)
{
	return compare_memory(tgid, maps, lib, true, armed);
}

/* The kernel places breakpoints wherever the file of this name is mapped, and reports no error if
 * the process has mapped another file. */
static int not_armed(pid_t tgid, const struct probe_lib *lib)
{
	pr_error(
		"'%s' of process %d is not probed: the process runs other code than that of the file "
		"(an overlay makes a new file of one that is changed, by chown or touch, too)",
		lib->name, (int)tgid);
	pr_hint("restart the process");
	return -ESTALE;
}

static int check_memory(pid_t tgid, const struct code_maps *all, const struct probe_lib *lib,
			struct bpf_program *const *armed)
{
	struct code_maps maps = { 0 };
	int err = code_maps__pick(all, tgid, lib->access_path, &maps);

	/* otherwise it has executed another program, or a warning has been printed */
	if (!err && maps.cnt)
		err = compare_memory(tgid, &maps, lib, false, armed);
	code_maps__free(&maps);
	if (err == -ENOENT)
		return not_armed(tgid, lib);
	if (err && err != -ESTALE && err != -ESRCH)
		pr_error("the code of process %d cannot be compared with '%s': %s", (int)tgid,
			 lib->name, errstr(err));
	return err;
}

int site_check__lib(pid_t tgid, const struct code_maps *all, const struct probe_lib *lib,
		    struct bpf_program *const *armed)
{
	int fd, err;

	if (!lib->cnt)
		return 0;
	fd = open(lib->access_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		pr_error("cannot read '%s' of process %d: %s", lib->name, (int)tgid, errstr(err));
		return err;
	}
	err = check_file(tgid, lib, fd);
	close(fd);
	return err ? err : check_memory(tgid, all, lib, armed);
}
