/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The agent's library in live processes is found, read and written; other files are refused. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_target.h"
#include "base/proc_read.h"
#include "suite.h"
#include "target/elf.h"

/* ---- a live agent ---- */

/* Sites are no-operations, semaphores are those that the target polls. */
static void run_find(const char *path, const uint8_t *nop, size_t nop_len)
{
	struct agent_target at;
	struct elf_file *ef;

	agent_target__start(&at, path);
	CU_ASSERT_STRING_EQUAL(strrchr(at.al.path, '/') + 1, PTB_AGENT_FILE);
	CU_ASSERT_EQUAL_FATAL(elf_file__open(at.al.access_path, &ef), 0);
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		uint64_t addr = elf_file__off_to_addr(ef, at.al.site[i]);
		const uint8_t *code = elf_file__bytes(ef, addr, nop_len, NULL);

		CU_ASSERT_FATAL(code != NULL);
		CU_ASSERT(!memcmp(code, nop, nop_len));
		semaphore_set(&at, i, 1);
		CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), 1u << i);
		semaphore_set(&at, i, 0);
	}
	elf_file__close(ef);
	CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), 0);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("found, its sites and semaphores are those of the process")
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	run_find(TARGET_AGENT_NOP1, (const uint8_t *)"\x90", 1);
	run_find(TARGET_AGENT_NOP5, nop5, sizeof(nop5));
}

static void write_open(const struct agent_target *at, const struct ptb_agent_open *open)
{
	struct remote_mem *rm;

	CU_ASSERT_EQUAL_FATAL(remote_mem__open(at->t.pid, true, &rm), 0);
	CU_ASSERT_EQUAL(remote_mem__write(rm, at->al.open, open, sizeof(*open)), 0);
	remote_mem__close(rm);
}

/* Nothing but an address below the thread's pointer is taken. */
TEST("where open operators are")
{
	static const int64_t bad[] = { 0, 8, -4, -(1ll << 24), INT64_MIN };
	struct ptb_agent_open open;
	struct agent_target at;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	CU_ASSERT_EQUAL(agent_lib__read_open(at.t.pid, &at.al, &open), 0);
	CU_ASSERT_EQUAL(open.tls, -64);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		open.tls = bad[i];
		write_open(&at, &open);
		CU_ASSERT_EQUAL(agent_lib__read_open(at.t.pid, &at.al, &open), -EPROTO);
	}
	open = (struct ptb_agent_open){ .size = sizeof(open) + 8, .tls = -64 };
	write_open(&at, &open);
	CU_ASSERT_EQUAL(agent_lib__read_open(at.t.pid, &at.al, &open), -EPROTO);
	at.al.open = 0;
	CU_ASSERT_EQUAL(agent_lib__read_open(at.t.pid, &at.al, &open), -EPROTO);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("no agent, no process")
{
	struct agent_lib al;
	char why[160];
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(agent_lib__find(getpid(), &al, why, sizeof(why)), -ENOENT);
	CU_ASSERT_STRING_NOT_EQUAL(why, "");
	CU_ASSERT_PTR_NULL(al.path);
	CU_ASSERT_EQUAL(agent_lib__find(pid, &al, why, sizeof(why)), -ESRCH);
	CU_ASSERT_EQUAL(agent_lib__read(pid, &al, &(struct ptb_agent_ctl){ 0 }), -ESRCH);
	CU_ASSERT_EQUAL(agent_lib__configure(pid, &al, &(struct ptb_agent_cfg){ 0 }), -ESRCH);
	agent_lib__clear(&al);
}

TEST("settings are written, and the rest is left alone")
{
	struct ptb_agent_cfg cfg = { .rf.size = 0x150, .rf.fn_off = 0x28, .tensor.shapes_on = 1 };
	struct ptb_agent_ctl ctl;
	struct agent_target at;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
	CU_ASSERT_EQUAL(ctl.state, PTB_AGENT_ALIVE);
	CU_ASSERT_EQUAL(ctl.cfg_abi, 0);
	for (int i = 0; i < 3; i++) {
		cfg.rf.seq_off = (uint16_t)(i / 2); /* new, the same again, another */
		CU_ASSERT_EQUAL(agent_lib__configure(at.t.pid, &at.al, &cfg), 0);
		CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
		CU_ASSERT_EQUAL(ctl.cfg_abi, PTB_AGENT_ABI);
		CU_ASSERT_EQUAL(ctl.cfg_size, sizeof(cfg));
		CU_ASSERT(!memcmp(&ctl.cfg, &cfg, sizeof(cfg)));
		CU_ASSERT_EQUAL(ctl.state, PTB_AGENT_ALIVE);
	}
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

static void poke(const struct agent_target *at, size_t off, const void *bytes, size_t len)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", at->t.pid);
	fd = open(path, O_RDWR);
	CU_ASSERT_EQUAL_FATAL(pwrite(fd, bytes, len, (off_t)(at->al.ctl + off)), (ssize_t)len);
	close(fd);
}

/* A control block that is none any more is not written to, and not believed. */
TEST("a control block that is none")
{
	static const struct {
		size_t off, len;
		const char *bytes, *word;
		int find;
	} damages[] = {
		{ offsetof(struct ptb_agent_ctl, magic), 8, "PTBAGENX", "not valid", -EPROTO },
		{ offsetof(struct ptb_agent_ctl, magic) + 7, 1, "\0", "inactive", -EAGAIN },
		{ offsetof(struct ptb_agent_ctl, abi), 1, "\x7f", "ABI 127", -EPROTO },
		{ offsetof(struct ptb_agent_ctl, size), 1, "\x08", "version", -EPROTO },
	};
	const struct ptb_agent_cfg cfg = { .rf.size = 1 };
	struct ptb_agent_ctl ctl, good;
	struct agent_target at;
	struct agent_lib al;
	char why[160];

	agent_target__start(&at, TARGET_AGENT_NOP1);
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &good), 0);
	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		poke(&at, damages[i].off, damages[i].bytes, damages[i].len);
		CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), -EPROTO);
		CU_ASSERT_EQUAL(agent_lib__configure(at.t.pid, &at.al, &cfg), -EPROTO);
		CU_ASSERT_EQUAL(agent_lib__find(at.t.pid, &al, why, sizeof(why)), damages[i].find);
		CU_ASSERT_EQUAL(al.path != NULL, damages[i].find == -EAGAIN);
		agent_lib__clear(&al);
		CU_ASSERT(strstr(why, damages[i].word) != NULL);
		poke(&at, 0, &good, 16);
		CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
		CU_ASSERT(!memcmp(&ctl, &good, sizeof(ctl)));
	}
	at.al.ctl += 8;
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), -EPROTO);
	at.al.ctl = 0;
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), -EPROTO);
	CU_ASSERT_EQUAL(agent_lib__configure(at.t.pid, &at.al, &cfg), -EPROTO);
	at.al.ctl = ~7ull;
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), -EPROTO);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

/* Another program under the same number: what was found before is not there, nothing is written. */
TEST("exec")
{
	const struct ptb_agent_cfg cfg = { .rf.size = 1 };
	struct agent_target at;
	struct ptb_agent_ctl ctl;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	target__send(&at.t, "exec");
	target__read_sites(&at.t);
	CU_ASSERT_EQUAL(agent_lib__configure(at.t.pid, &at.al, &cfg), -EPROTO);
	agent_target__find(&at);
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
	CU_ASSERT_EQUAL(ctl.cfg_abi, 0);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

/* ---- files ---- */

static uint8_t *read_file(const char *path, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	uint8_t *bytes;

	CU_ASSERT_FATAL(fd >= 0 && !fstat(fd, &st));
	*len = (size_t)st.st_size;
	bytes = malloc(*len);
	CU_ASSERT_FATAL(bytes && read(fd, bytes, *len) == (ssize_t)*len);
	close(fd);
	return bytes;
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	close(fd);
}

static void copy_file(const char *from, const char *to)
{
	size_t len;
	uint8_t *bytes = read_file(from, &len);

	write_file(to, bytes, len);
	free(bytes);
}

/* The library is deleted while it is mapped, then replaced by another: the mapped one is read. */
TEST("a library that was deleted or replaced")
{
	char dir[] = "/tmp/test_agent_lib.XXXXXX", lib[64], exe[64];
	struct ptb_agent_ctl ctl;
	struct agent_target at;

	CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
	snprintf(lib, sizeof(lib), "%s/" PTB_AGENT_FILE, dir);
	snprintf(exe, sizeof(exe), "%s/target", dir);
	copy_file(FAKE_AGENT_LIB, lib);
	copy_file(TARGET_AGENT_NOP1, exe);
	setenv("LD_LIBRARY_PATH", dir, 1); /* before the run path's, which is the build's */
	agent_target__start(&at, exe);
	unsetenv("LD_LIBRARY_PATH");
	CU_ASSERT_STRING_EQUAL(at.al.path, lib);
	CU_ASSERT_EQUAL(unlink(lib), 0);
	for (int i = 0; i < 2; i++) {
		agent_target__find(&at);
		CU_ASSERT_STRING_EQUAL(at.al.path, lib);
		CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
		semaphore_set(&at, PTB_AGENT_SITE_GPU, 1);
		CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), 1u << PTB_AGENT_SITE_GPU);
		semaphore_set(&at, PTB_AGENT_SITE_GPU, 0);
		write_file(lib, "another", 7);
	}
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
	unlink(lib);
	unlink(exe);
	rmdir(dir);
}

/* By whatever name it was loaded: maps names the file that a symbolic link leads to. */
TEST("a library of another name")
{
	char dir[] = "/tmp/test_agent_lib.XXXXXX", lib[64], link[64];
	struct agent_target at;

	CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
	snprintf(lib, sizeof(lib), "%s/libprofiling.so", dir);
	snprintf(link, sizeof(link), "%s/" PTB_AGENT_FILE, dir);
	copy_file(FAKE_AGENT_LIB, lib);
	CU_ASSERT_EQUAL_FATAL(symlink(lib, link), 0);
	setenv("LD_LIBRARY_PATH", dir, 1);
	agent_target__start(&at, TARGET_AGENT_NOP1);
	unsetenv("LD_LIBRARY_PATH");
	CU_ASSERT_STRING_EQUAL(at.al.path, lib);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
	unlink(link);
	unlink(lib);
	rmdir(dir);
}

/* A child process that has this file mapped as code; returns the message about it. */
static int find_in_file(const char *path, char *why, size_t cap)
{
	struct agent_lib al;
	int ready[2], err;
	char byte;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDONLY);

		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED &&
		    write(ready[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	CU_ASSERT_EQUAL_FATAL(read(ready[0], &byte, 1), 1);
	err = agent_lib__find(pid, &al, why, cap);
	CU_ASSERT(err < 0 && !al.path);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	return err;
}

/* The agent's name alone makes no agent. */
TEST("files with the agent's name")
{
	char dir[] = "/tmp/test_agent_lib.XXXXXX", lib[64], why[160];
	static const char text[8192] = "#!/bin/sh\n";

	CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
	snprintf(lib, sizeof(lib), "%s/" PTB_AGENT_FILE, dir);
	write_file(lib, text, sizeof(text));
	CU_ASSERT_EQUAL(find_in_file(lib, why, sizeof(why)), -EPROTO);
	CU_ASSERT_STRING_NOT_EQUAL(why, "");
	copy_file(TARGET_AGENT_NOP1, lib); /* ELF, without our sites */
	CU_ASSERT_EQUAL(find_in_file(lib, why, sizeof(why)), -EPROTO);
	CU_ASSERT_STRING_NOT_EQUAL(why, "");
	copy_file(FAKE_AGENT_LIB, lib); /* only mapped, not loaded: no data */
	CU_ASSERT_EQUAL(find_in_file(lib, why, sizeof(why)), -EPROTO);
	CU_ASSERT_STRING_NOT_EQUAL(why, "");
	unlink(lib);
	rmdir(dir);
}

/* ---- notes ---- */

struct seen {
	const uint8_t *begin, *end; /* of the notes */
	uint32_t cnt, wrong;
	uint64_t addr, semaphore;
};

static bool see(const struct usdt_site *site, void *arg)
{
	struct seen *s = arg;
	const uint8_t *p = (const uint8_t *)site->provider, *n = (const uint8_t *)site->name;

	s->cnt++;
	s->addr = site->addr;
	s->semaphore = site->semaphore;
	if (s->begin)
		s->wrong += p < s->begin || n <= p || n + strlen(site->name) >= s->end ||
			    p + strlen(site->provider) >= n;
	return true;
}

static size_t put_note(uint8_t *to, const char *provider, const char *name, uint64_t addr,
		       uint64_t base, uint64_t semaphore)
{
	const uint64_t words[3] = { addr, base, semaphore };
	Elf64_Nhdr nh = { .n_namesz = 8, .n_type = 3 };
	size_t len = sizeof(nh) + 8 + sizeof(words);

	memcpy(to + sizeof(nh), "stapsdt", 8);
	memcpy(to + sizeof(nh) + 8, words, sizeof(words));
	len += (size_t)sprintf((char *)to + len, "%s", provider) + 1;
	len += (size_t)sprintf((char *)to + len, "%s", name) + 1;
	to[len++] = 0; /* no arguments */
	nh.n_descsz = (uint32_t)(len - sizeof(nh) - 8);
	memcpy(to, &nh, sizeof(nh));
	while (len % 4)
		to[len++] = 0;
	return len;
}

/* Notes as libelf gives them, in memory that ends where they do. */
static bool walk_notes(const uint8_t *notes, size_t sz, uint64_t base, struct seen *s)
{
	const Elf64_Ehdr eh = { .e_ident = ELFMAG "\2\1\1", .e_version = EV_CURRENT };
	uint8_t *image = malloc(sizeof(eh) + sz);
	Elf_Data *data;
	bool all;
	Elf *elf;

	CU_ASSERT_FATAL(image != NULL);
	memcpy(image, &eh, sizeof(eh));
	memcpy(image + sizeof(eh), notes, sz);
	s->begin = image + sizeof(eh);
	s->end = s->begin + sz;
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)image, sizeof(eh) + sz);
	data = elf ? elf_getdata_rawchunk(elf, sizeof(eh), sz, ELF_T_NHDR) : NULL;
	CU_ASSERT_FATAL(data != NULL);
	all = usdt_notes__walk(data, base, see, s);
	elf_end(elf);
	free(image);
	return all;
}

TEST("notes, and notes that were moved")
{
	struct seen s = { 0 };
	uint8_t buf[512];
	size_t len = put_note(buf, "other", "x", 1, 2, 3);

	len += put_note(buf + len, "ptbpf", "chunk", 0x1100, 0x2000, 0x413a);
	CU_ASSERT(walk_notes(buf, len, 0x2000, &s));
	CU_ASSERT_EQUAL(s.cnt, 2);
	CU_ASSERT_EQUAL(s.addr, 0x1100);
	CU_ASSERT_EQUAL(s.semaphore, 0x413a);
	CU_ASSERT(walk_notes(buf, len, 0x5000, &s)); /* moved by prelink */
	CU_ASSERT_EQUAL(s.addr, 0x4100);
	CU_ASSERT_EQUAL(s.semaphore, 0x713a);
	CU_ASSERT(walk_notes(buf, len, 0, &s)); /* no base: as it is */
	CU_ASSERT_EQUAL(s.addr, 0x1100);
	len = put_note(buf, "ptbpf", "chunk", 0x1100, 0x2000, 0);
	CU_ASSERT(walk_notes(buf, len, 0x5000, &s));
	CU_ASSERT_EQUAL(s.semaphore, 0); /* none stays none */
	s.cnt = 0;
	CU_ASSERT(walk_notes(buf, 0, 0, &s));
	for (size_t cut = 0; cut + 5 < len; cut++) /* up to the last byte of its last text */
		CU_ASSERT(walk_notes(buf, cut, 0, &s));
	CU_ASSERT_EQUAL(s.cnt, 0);
}

static uint64_t seed = 88172645463325252u;

static uint64_t random_word(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Notes with a few bytes changed. */
TEST("damaged notes")
{
	uint8_t good[1024];
	struct seen s = { 0 };
	size_t len = 0;

	for (int i = 0; i < 6; i++)
		len += put_note(good + len, "ptbpf", "outputs", 0x1100, 0x2000, 0x413a);
	for (int i = 0; i < 200000; i++) {
		size_t sz = i % 3 ? len : random_word() % (len + 1);
		uint8_t bad[sizeof(good)];

		memcpy(bad, good, sz);
		for (uint64_t k = random_word() % 8; k && sz; k--)
			bad[random_word() % sz] = (uint8_t)(random_word() % 4 ? random_word() : 0xff);
		CU_ASSERT(walk_notes(bad, sz, random_word(), &s));
	}
	CU_ASSERT(s.cnt > 100000);
	CU_ASSERT_EQUAL(s.wrong, 0);
}

/* The library itself with bytes changed in its headers and notes. */
TEST("damaged libraries")
{
	int saved = dup(2), null = open("/dev/null", O_WRONLY);
	struct seen s = { 0 };
	uint32_t opened = 0;
	size_t len;
	uint8_t *good = read_file(FAKE_AGENT_LIB, &len), *bad = malloc(len);
	Elf64_Ehdr eh;

	CU_ASSERT_FATAL(bad != NULL);
	memcpy(&eh, good, sizeof(eh));
	fflush(stderr);
	dup2(null, 2); /* 3,000 messages that it is damaged */
	for (int i = 0; i < 3000; i++) {
		int fd = memfd_create("agent", 0);
		struct elf_file *ef;
		char path[32];

		memcpy(bad, good, len);
		for (int k = 0; k < 1 + i % 16; k++) {
			uint64_t where[] = { random_word() % sizeof(eh),
					     eh.e_shoff + random_word() %
								  (eh.e_shnum * sizeof(Elf64_Shdr)),
					     random_word() % len };

			bad[where[(i + k) % 3] % len] = (uint8_t)random_word();
		}
		CU_ASSERT_FATAL(fd >= 0 && write(fd, bad, len) == (ssize_t)len);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (!elf_file__open(path, &ef)) {
			opened++;
			elf_file__for_each_usdt(ef, see, &s);
			elf_file__close(ef);
		}
		close(fd);
	}
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	close(null);
	free(good);
	free(bad);
	CU_ASSERT(opened > 100);
	CU_ASSERT(s.cnt > opened);
}

TEST("reasons")
{
	CU_ASSERT_STRING_EQUAL(agent__why_text(PTB_AGENT_WHY_NONE), "");
	CU_ASSERT(strstr(agent__why_text(PTB_AGENT_WHY_NO_CUPTI), "CUPTI") != NULL);
	CU_ASSERT_STRING_EQUAL(agent__why_text(1000), "");
	CU_ASSERT_STRING_EQUAL(agent__why_text(~0u), "");
}

SUITE("agent_lib")
