/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bounded demangler: the same as __cxa_demangle() for what is in real libraries, nothing for what would be too
 * long. With arguments: compares both over the names on standard input, one a line.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/limits.h"
#include "suite.h"

char *__cxa_demangle(const char *mangled, char *buf, size_t *len, int *status);

static bool same(const char *name)
{
	char *ours = demangle(name), *theirs = __cxa_demangle(name, NULL, NULL, NULL);
	bool equal = ours && theirs ? !strcmp(ours, theirs) : ours == theirs;

	if (!equal)
		fprintf(stderr, "%s: %s, not %s\n", name, ours ? ours : "-", theirs ? theirs : "-");
	free(ours);
	free(theirs);
	return equal;
}

static void test_names(void)
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
static void test_expanding_name(void)
{
	char name[300] = "_Z1fSt4pairIiiE";
	size_t n = strlen(name);

	for (int i = 0; n < 237; i++) {
		char c = (char)(i < 10 ? '0' + i : 'A' + i - 10);

		n += (size_t)snprintf(name + n, sizeof(name) - n, "S_IS%c_S%c_E", c, c);
	}
	CU_ASSERT_PTR_NULL(demangle(name));
	CU_ASSERT_PTR_NULL(demangle(name + 4));
}

static void test_long_name(void)
{
	static char name[LIMIT_MANGLED + 100];

	memset(name, 'P', sizeof(name) - 2);
	name[sizeof(name) - 2] = 'i';
	CU_ASSERT_PTR_NULL(demangle(name));
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
	static const CU_TestInfo tests[] = {
		{ "names", test_names },
		{ "a name that expands", test_expanding_name },
		{ "a name that is too long", test_long_name },
		CU_TEST_INFO_NULL,
	};

	(void)argv;
	return argc > 1 ? compare_lines() : run_suite("demangle", tests);
}
