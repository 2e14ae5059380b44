/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library whose file changes between the analysis and the link. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/probe_impl.h"
#include "probe_target.h"
#include "suite.h"

#define SITES 30

/* A copy of the target's program, mapped as code here. */
static uint8_t *map_copy(const char *path, struct stat *st)
{
	int in = open(TARGET_CALLS, O_RDONLY | O_CLOEXEC),
	    out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	uint8_t *code;

	CU_ASSERT_FATAL(in >= 0 && out >= 0 && !fstat(in, st));
	CU_ASSERT_EQUAL_FATAL(sendfile(out, in, NULL, (size_t)st->st_size), st->st_size);
	CU_ASSERT_EQUAL_FATAL(fstat(out, st), 0);
	code = mmap(NULL, (size_t)st->st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, out, 0);
	CU_ASSERT_FATAL(code != MAP_FAILED);
	close(in);
	close(out);
	return code;
}

/* Changes a byte through a shared mapping, and puts the time back. */
static void rewrite(const char *path, uint64_t offset, const struct stat *before)
{
	struct timespec times[2] = { before->st_atim, before->st_mtim };
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat now;
	uint8_t *bytes = mmap(NULL, (size_t)before->st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CU_ASSERT_FATAL(fd >= 0 && bytes != MAP_FAILED);
	bytes[offset] ^= 2;
	CU_ASSERT_EQUAL(msync(bytes, (size_t)before->st_size, MS_SYNC), 0);
	munmap(bytes, (size_t)before->st_size);
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	CU_ASSERT_EQUAL(fstat(fd, &now), 0);
	CU_ASSERT(now.st_ino == before->st_ino && now.st_size == before->st_size &&
		  now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
		  now.st_mtim.tv_nsec == before->st_mtim.tv_nsec);
	close(fd);
}

static void fill_sites(struct probe_site *list)
{
	struct target t;

	target__start(&t, TARGET_CALLS);
	for (uint32_t i = 0; i < SITES; i++)
		list[i] = (struct probe_site){ .id = i + 1,
					       .prog = PTB_PROG_OP_ENTER,
					       .offset = target__value(&t, "many_sites") +
							 i * target__value(&t, "many_stride") };
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Same inode, size and time of change: only the bytes differ. */
TEST("a library that is overwritten")
{
	struct probe_set *ps = open_set(0, LINKS_TRACE, false);
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)getpid() };
	char dir[] = "/tmp/ptbpf-rewritten.XXXXXX", path[64];
	struct probe_site list[SITES];
	struct probe_lib lib = { .access_path = path, .sites = list, .cnt = SITES };
	struct stat st;
	uint32_t proc;
	uint8_t *code;

	fill_sites(list);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/lib", dir);
	code = map_copy(path, &st);
	take_insns(&lib);
	CU_ASSERT_EQUAL(probe_set__verify(getpid(), &lib, 1), 0);
	rewrite(path, list[SITES - 1].offset, &st);
	CU_ASSERT_EQUAL(probe_set__verify(getpid(), &lib, 1), -ESTALE);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -ESTALE);
	CU_ASSERT_EQUAL(code[list[0].offset], list[0].insn[0]); /* no breakpoint */
	munmap(code, (size_t)st.st_size);
	unlink(path);
	rmdir(dir);
	probe_set__free(ps);
}

PROBE_SUITE("probe_file")
