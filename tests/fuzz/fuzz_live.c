/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any bytes as the memory of a process: the dispatcher's table, schemas and class names are read from there. The bytes
 * lie at one fixed address, so that pointers among them can be found.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/proc.h"
#include "target/torch.h"

#define ARENA_ADDR 0x10000000ul
#define ARENA_SIZE 65536ul

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static uint8_t *arena;
	static const uint64_t singleton = ARENA_ADDR;
	struct live_schema_layout layout = { 0 };
	struct live_ops ops = { 0 };
	uint64_t spent_ns = 0;
	char buf[512];

	if (!arena)
		arena = mmap((void *)ARENA_ADDR, ARENA_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena != (void *)ARENA_ADDR)
		abort();
	memset(arena, 0, ARENA_SIZE);
	memcpy(arena, data, len < ARENA_SIZE ? len : ARENA_SIZE);
	for (uint32_t i = 0; i < 2; i++) {
		if (!live_ops__read(getpid(), &singleton, 1, i, (uint32_t)len, &ops)) {
			live_schema__derive(getpid(), &ops, &layout);
			if (ops.cnt)
				live_schema__read(getpid(), ops.ops[0].opdef, &layout, buf, sizeof(buf));
			live_ops__free(&ops);
		}
		live_ops__name_at(getpid(), ARENA_ADDR + 64, i, buf, sizeof(buf));
	}
	remote__class_name(getpid(), ARENA_ADDR + 128, &spent_ns, buf, sizeof(buf));
	return 0;
}
