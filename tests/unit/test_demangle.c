/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bounded demangler: the same as __cxa_demangle() for what is in real libraries, nothing for what would be too
 * long or take too long. With arguments: compares both over the names on standard input, one a line.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "suite.h"

char *__cxa_demangle(const char *mangled, char *buf, size_t *len, int *status);

static bool same(const char *name)
{
	uint64_t spent_ns = 0;
	char *ours = demangle(name, &spent_ns), *theirs = __cxa_demangle(name, NULL, NULL, NULL);
	bool equal = ours && theirs ? !strcmp(ours, theirs) : ours == theirs;

	if (!equal)
		fprintf(stderr, "%s: %s, not %s\n", name, ours ? ours : "-", theirs ? theirs : "-");
	free(ours);
	free(theirs);
	return equal;
}

TEST("names")
{
	static const char *const names[] = {
		"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
		"i",
		"St4pairIiiE",
		"",
		"_Z",
		"aten::add",
		"_ZN5torch8autograd9generated14AddmmBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE",
		"f",
		"forward",
		"x",
		"N5torch8autograd14AccumulateGradE",
		"_ZTVN2at10TensorBaseE",
		"_GLOBAL__sub_I_x",
		"_ZZ4mainENKUlvE_clEv",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CU_ASSERT_TRUE(same(names[i]));
}

/* Each pair is of two of the one before: 237 bytes expand to more than a terabyte. */
TEST("a name that expands")
{
	char name[300] = "_Z1fSt4pairIiiE";
	size_t n = strlen(name);

	for (int i = 0; n < 237; i++) {
		char c = (char)(i < 10 ? '0' + i : 'A' + i - 10);

		n += (size_t)snprintf(name + n, sizeof(name) - n, "S_IS%c_S%c_E", c, c);
	}
	CU_ASSERT_PTR_NULL(demangle(name, NULL));
	CU_ASSERT_PTR_NULL(demangle(name + 4, NULL));
}

TEST("a name that is too long")
{
	static char name[LIMIT_MANGLED + 100];

	memset(name, 'P', sizeof(name) - 2);
	name[sizeof(name) - 2] = 'i';
	CU_ASSERT_PTR_NULL(demangle(name, NULL));
}

/* A pack expansion of a type that is two of a type that is two of ...: in all of them a pack is searched for, before any text. */
static void endless_name(char *name, size_t cap)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t n = (size_t)snprintf(name, cap, "_Z1fDp1aI");

	for (int i = 1; i < 36; i++)
		n += (size_t)snprintf(name + n, cap - n, "S_I");
	n += (size_t)snprintf(name + n, cap - n, "iiE");
	for (int i = 1; i < 36; i++)
		n += (size_t)snprintf(name + n, cap - n, "S%c_E", digits[i - 1]);
}

static void *check_endless(void *arg)
{
	const uint64_t all_ns = LIMIT_DEMANGLE_ALL_MS * 1000000ull,
		       one_ns = LIMIT_DEMANGLE_MS * 1000000ull;
	uint64_t spent_ns = 0, other_ns = 0;
	char name[512], *text;

	(void)arg;
	endless_name(name, sizeof(name));
	for (uint64_t i = 1; i <= 3; i++) {
		CU_ASSERT_PTR_NULL(demangle(name + 4 * (i % 2), &spent_ns));
		CU_ASSERT_EQUAL(spent_ns, i * one_ns);
	}
	text = demangle("_Z1fi", &spent_ns);
	CU_ASSERT_FATAL(text != NULL);
	CU_ASSERT_STRING_EQUAL(text, "f(int)");
	free(text);
	CU_ASSERT(spent_ns > 3 * one_ns && spent_ns < 4 * one_ns);
	spent_ns = all_ns;
	CU_ASSERT_PTR_NULL(demangle("_Z1fi", &spent_ns)); /* those of one process or file: */
	CU_ASSERT_EQUAL(spent_ns, all_ns);
	text = demangle("_Z1fi", &other_ns);
	CU_ASSERT_PTR_NOT_NULL(text);
	free(text);
	return NULL;
}

/* Also in threads, each by its own time. */
TEST("names that take too long")
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, check_endless, NULL), 0);
	check_endless(NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static int compare_lines(void)
{
	unsigned long cnt = 0, bad = 0;
	static char line[1 << 16];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strlen(line) >= LIMIT_MANGLED)
			continue;
		cnt++;
		bad += !same(line);
	}
	printf("%lu names, %lu differ\n", cnt, bad);
	return bad || !cnt;
}

int main(int argc, char **argv)
{
	(void)argv;
	return argc > 1 ? compare_lines() : run_suite("demangle");
}
