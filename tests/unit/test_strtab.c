/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* base/strtab: equal texts share an id, texts stay put, any byte is allowed. */
#include <stdio.h>
#include <string.h>

#include "base/containers.h"
#include "suite.h"

TEST("ids")
{
	struct strtab *st = strtab__new();
	uint32_t a, b;

	CU_ASSERT_PTR_NOT_NULL_FATAL(st);
	CU_ASSERT_EQUAL(strtab__cnt(st), 0);
	a = strtab__add(st, "aten::add", 9);
	b = strtab__add(st, "aten::mul", 9);
	CU_ASSERT_EQUAL(a, 1);
	CU_ASSERT_EQUAL(b, 2);
	CU_ASSERT_EQUAL(strtab__add(st, "aten::add", 9), a);
	CU_ASSERT_EQUAL(strtab__add(st, "aten::add.Tensor", 9), a); /* the length decides */
	CU_ASSERT_EQUAL(strtab__cnt(st), 2);
	CU_ASSERT_STRING_EQUAL(strtab__text(st, a), "aten::add");
	CU_ASSERT_STRING_EQUAL(strtab__text(st, b), "aten::mul");
	strtab__free(st);
}

TEST("unknown ids")
{
	struct strtab *st = strtab__new();

	CU_ASSERT_STRING_EQUAL(strtab__text(st, 0), "");
	CU_ASSERT_STRING_EQUAL(strtab__text(st, 1), "");
	CU_ASSERT_STRING_EQUAL(strtab__text(st, UINT32_MAX), "");
	strtab__free(st);
	strtab__free(NULL);
}

TEST("any bytes")
{
	struct strtab *st = strtab__new();
	uint32_t empty = strtab__add(st, "", 0), nul = strtab__add(st, "\0", 1);
	uint32_t two = strtab__add(st, "a\0b", 3), other = strtab__add(st, "a\0c", 3);

	CU_ASSERT_NOT_EQUAL(empty, 0);
	CU_ASSERT_NOT_EQUAL(empty, nul);
	CU_ASSERT_NOT_EQUAL(two, other);
	CU_ASSERT_EQUAL(strtab__add(st, "a\0b", 3), two);
	CU_ASSERT_EQUAL(memcmp(strtab__text(st, two), "a\0b", 4), 0);
	strtab__free(st);
}

/* Many texts; a text's address never changes while the table grows. */
TEST("many")
{
	struct strtab *st = strtab__new();
	const char *first;
	char text[32];
	int n;

	strtab__add(st, "first", 5);
	first = strtab__text(st, 1);
	for (uint32_t i = 0; i < 100000; i++) {
		n = snprintf(text, sizeof(text), "name %u", i);
		CU_ASSERT_EQUAL_FATAL(strtab__add(st, text, (size_t)n), i + 2);
	}
	CU_ASSERT_PTR_EQUAL(strtab__text(st, 1), first);
	for (uint32_t i = 0; i < 100000; i += 77) {
		n = snprintf(text, sizeof(text), "name %u", i);
		CU_ASSERT_EQUAL_FATAL(strtab__add(st, text, (size_t)n), i + 2);
		CU_ASSERT_STRING_EQUAL_FATAL(strtab__text(st, i + 2), text);
	}
	CU_ASSERT_EQUAL(strtab__cnt(st), 100001);
	strtab__free(st);
}

SUITE("strtab")
