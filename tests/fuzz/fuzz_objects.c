/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Damaged objects of CPython in the memory of a process: a dict with a text, a number and a tuple,
 * and an object of a class that has the dict's keys. The input replaces some of their words, each
 * by three bytes: which one, with what kind of value, and the value.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "python/python.h"

#define ARENA_ADDR 0x20000000ul
#define ARENA_SIZE 8192ul
#define WORDS 256u /* that may be damaged */

/* words */
enum {
	DICT = 0,
	KEYS = 8,
	STR = 32,
	INT = 48,
	TUPLE = 56,
	VALUES = 64,
	OBJECT = 72,
	CLASS = 80,
	TYPES = 600
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static uint64_t *arena;

static uint64_t addr_of(uint32_t word)
{
	return ARENA_ADDR + 8ul * word;
}

static void put(uint32_t at, size_t cnt, const uint64_t *words)
{
	memcpy(arena + at, words, 8 * cnt);
}

#define PUT(at, ...) put(at, sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

static uint64_t type_of(uint32_t nr)
{
	return addr_of(TYPES + 16 * (nr % 4));
}

/* As in CPython 3.12. */
static void put_objects(void)
{
	static const char *const names[] = { "dict", "str", "int", "tuple" };

	memset(arena, 0, ARENA_SIZE);
	for (uint32_t i = 0; i < 4; i++) {
		arena[TYPES + 16 * i + 3] = addr_of(TYPES + 16 * i + 8);
		memcpy(arena + TYPES + 16 * i + 8, names[i], strlen(names[i]));
	}
	PUT(DICT, 1, type_of(0), 3, 0, addr_of(KEYS), 0);
	PUT(KEYS, 1, 3 | 3 << 8 | 1 << 16, 5, 3, 0);
	PUT(KEYS + 5, addr_of(STR), addr_of(INT), addr_of(INT), addr_of(TUPLE), addr_of(TUPLE),
	    addr_of(STR));
	PUT(STR, 1, type_of(1), 5, 0, 0x64, 0x6863726f74 /* "torch" */);
	PUT(INT, 1, type_of(2), 8, 5);
	PUT(TUPLE, 1, type_of(3), 1, addr_of(STR), 0);
	PUT(VALUES, addr_of(INT), addr_of(TUPLE), addr_of(STR));
	PUT(OBJECT - 3, addr_of(VALUES) - 1, 0, 0, 1, addr_of(CLASS));
	arena[CLASS + 4] = 16;              /* tp_basicsize */
	arena[CLASS + 36] = UINT64_MAX;     /* tp_dictoffset */
	arena[CLASS + 109] = addr_of(STR);  /* ht_qualname */
	arena[CLASS + 110] = addr_of(KEYS); /* ht_cached_keys */
}

static void replace(const uint8_t *in)
{
	const uint64_t v = in[2], values[] = { v,
					       addr_of((uint32_t)v),
					       type_of((uint32_t)v),
					       1ull << v % 64,
					       0x64 | v << 8,
					       v % 17 | v % 23 << 8 | v % 3 << 16,
					       ~v,
					       v << 8 };

	arena[in[0] % WORDS] = values[in[1] % 8];
}

static void read_object(struct py_objects *po, uint64_t obj)
{
	char text[16];
	uint32_t n;

	if (py_str__read(po, obj, text, sizeof(text)) && !memchr(text, 0, sizeof(text)))
		abort();
	if (py_int__read(po, obj, &n) && n >= 1u << 30)
		abort();
	py_tuple__first(po, obj);
}

static void read_entries(struct py_dict *d)
{
	uint64_t key, value;

	while (py_dict__next(d, &key, &value)) {
		read_object(d->po, key);
		read_object(d->po, value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct py_objects po = { .pid = getpid(), .reads_left = 3000 };
	struct py_dict d;

	if (!arena)
		arena = mmap((void *)ARENA_ADDR, ARENA_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena != (void *)ARENA_ADDR)
		abort();
	put_objects();
	if (py_dict__by_name(&po, ARENA_ADDR, "torch") != addr_of(INT) ||
	    py_object__attribute(&po, addr_of(OBJECT), "torch") != addr_of(INT))
		abort();
	for (size_t i = 0; i + 3 <= len; i += 3)
		replace(data + i);
	py_dict__by_name(&po, ARENA_ADDR, "torch");
	py_dict__by_object(&po, ARENA_ADDR, addr_of(TUPLE));
	if (py_dict__begin(&po, ARENA_ADDR, &d))
		read_entries(&d);
	if (py_object__attributes(&po, addr_of(OBJECT), &d))
		read_entries(&d);
	return 0;
}
