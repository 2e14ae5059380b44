/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* /proc/PID/maps: texts with everything that a path may hold, and this process's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"
#include "target/proc.h"
#include "target/torch.h"

static const char table[] =
	"55d0c8a00000-55d0c8a01000 r--p 00000000 08:02 173521 /usr/bin/python3.11\n"
	"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
	"7f1000000000-7f1012000000 r-xp 00f83000 fd:0a 42 /a b/libtorch_cpu.so\n"
	"7f1012000000-7f1013000000 r--p 12f83000 fd:0a 42 /a b/libtorch_cpu.so\n"
	"7f2000000000-7f2000001000 r-xp 00002000 00:2f 18446744073709551615 "
	"/tmp/line\\012break/libc10.so (deleted)\n"
	"7f2100000000-7f2100001000 r-xp 00000000 00:01 7 /memfd:libtorch_cpu.so (deleted)\n"
	"7f2200000000-7f2200001000 rwxs 00000000 00:05 9 /dev/zero (deleted)\n"
	"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n"
	"7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0 [vdso]\n"
	"rubbish\n"
	"7f3000001000-7f3000000000 r-xp 00000000 08:02 5 /end/before/start\n"
	"7f3000000000-7f3000001000 r-x 00000000 08:02 5 /short/perms\n"
	"\n"
	"7f4000000000-7f4000001000 r-xp 00000000 08:02 6 /no/newline/at/the/end";

TEST("table")
{
	struct proc_maps maps;

	proc_maps__parse(table, sizeof(table) - 1, &maps);
	CU_ASSERT_EQUAL_FATAL(maps.cnt, 7);
	CU_ASSERT_EQUAL(maps.items[0].start, 0x55d0c8a00000);
	CU_ASSERT_EQUAL(maps.items[0].ino, 173521);
	CU_ASSERT_FALSE(maps.items[0].exec);

	CU_ASSERT_STRING_EQUAL(maps.items[1].path, "/a b/libtorch_cpu.so");
	CU_ASSERT(maps.items[1].exec && !maps.items[1].deleted);
	CU_ASSERT_EQUAL(maps.items[1].end, 0x7f1012000000);
	CU_ASSERT_EQUAL(maps.items[1].off, 0xf83000);
	CU_ASSERT_EQUAL(maps.items[1].dev_major, 0xfd);
	CU_ASSERT_EQUAL(maps.items[1].dev_minor, 0x0a);

	CU_ASSERT_STRING_EQUAL(maps.items[3].path, "/tmp/line\nbreak/libc10.so");
	CU_ASSERT(maps.items[3].deleted);
	CU_ASSERT_EQUAL(maps.items[3].ino, UINT64_MAX);
	CU_ASSERT_STRING_EQUAL(proc_map__base(&maps.items[3]), "libc10.so");
	CU_ASSERT_STRING_EQUAL(maps.items[4].path, "/memfd:libtorch_cpu.so");
	CU_ASSERT_STRING_EQUAL(maps.items[6].path, "/no/newline/at/the/end");
	proc_maps__free(&maps);
	CU_ASSERT_PTR_NULL(maps.items);
}

/* One file has the same inode and the same name. */
TEST("first")
{
	static const char text[] = "10000-11000 r--p 00000000 08:02 7 /a\n"
				   "11000-12000 r-xp 00001000 08:02 7 /b\n"
				   "12000-13000 r-xp 00001000 08:02 7 /a\n"
				   "13000-14000 r-xp 00001000 08:03 7 /a\n"
				   "14000-15000 r-xp 00001000 08:02 8 /a\n"
				   "15000-16000 rwxp 00002000 08:02 7 /a\n"
				   "16000-17000 r-xp 00001000 08:02 7 /b\n";
	static const uint32_t first[] = { 0, 1, 2, 3, 4, 2, 1 };
	struct proc_maps maps;

	proc_maps__parse(text, sizeof(text) - 1, &maps);
	CU_ASSERT_EQUAL_FATAL(maps.cnt, 7);
	for (uint32_t i = 0; i < maps.cnt; i++) {
		CU_ASSERT_EQUAL(proc_maps__is_first(&maps, i), i && first[i] == i);
		CU_ASSERT(!i || maps.items[i].first == first[i]);
	}
	proc_maps__free(&maps);
}

/* As many names of one file as a process may have mappings, which are alike up to their ends: comparing each with each takes minutes. */
TEST("many names")
{
	static char prefix[500];
	struct proc_maps maps;
	char *text = NULL;
	uint32_t firsts = 0;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CU_ASSERT_FATAL(f != NULL);
	memset(prefix, 'x', sizeof(prefix) - 1);
	for (uint32_t i = 0; i < 65530; i++)
		fprintf(f, "%x000-%x000 r-xp 00000000 08:02 7 /%s%05x\n", i + 16, i + 17, prefix,
			i * 7919 % 65536);
	fclose(f);
	proc_maps__parse(text, len, &maps);
	for (uint32_t i = 0; i < maps.cnt; i++)
		firsts += proc_maps__is_first(&maps, i);
	CU_ASSERT_EQUAL(firsts, 65530);
	proc_maps__free(&maps);
	free(text);
}

TEST("name filter")
{
	/* by index into the table: executable, selected by the file's name, not its folder's */
	static const bool may_be[] = { false, true, false, true, true, false, false };
	struct proc_map folder = { .path = (char *)"/opt/torch/lib/libgomp.so", .exec = true };
	struct proc_map renamed = { .path = (char *)"/x/libtorch_cpu-1a2b.so", .exec = true };
	struct proc_maps maps;

	proc_maps__parse(table, sizeof(table) - 1, &maps);
	for (uint32_t i = 0; i < maps.cnt; i++)
		CU_ASSERT_EQUAL(torch_libs__may_be(&maps.items[i]), may_be[i]);
	CU_ASSERT_FALSE(torch_libs__may_be(&folder));
	CU_ASSERT(torch_libs__may_be(&renamed));
	proc_maps__free(&maps);
}

/* Every prefix of the table is a text that a racing reader might see. */
TEST("cut texts")
{
	struct proc_maps maps;

	for (size_t len = 0; len < sizeof(table); len++) {
		proc_maps__parse(table, len, &maps);
		CU_ASSERT(maps.cnt <= 8);
		proc_maps__free(&maps);
	}
}

TEST("own maps")
{
	uint64_t here = (uint64_t)(uintptr_t)run_suite;
	struct proc_maps maps;
	char exe[4096] = "";
	uint32_t hits = 0;

	CU_ASSERT(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	CU_ASSERT_EQUAL_FATAL(proc_maps__read(getpid(), &maps), 0);
	for (uint32_t i = 0; i < maps.cnt; i++) {
		if (here < maps.items[i].start || here >= maps.items[i].end)
			continue;
		hits++;
		CU_ASSERT(maps.items[i].exec);
		CU_ASSERT_STRING_EQUAL(maps.items[i].path, exe);
	}
	CU_ASSERT_EQUAL(hits, 1);
	proc_maps__free(&maps);
	CU_ASSERT(proc_maps__read(1 << 30, &maps) < 0);
}

SUITE("proc_maps")
