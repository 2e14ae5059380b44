/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Schema texts: printed as torch prints them; other texts are refused; nothing is read beyond the end. */
#include <stdlib.h>
#include <string.h>

#include "args/schema.h"
#include "suite.h"

static bool parse(const char *text, char *out, size_t cap, struct schema *s)
{
	/* an exact copy, so that a sanitizer sees a byte too far */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	bool ok;

	CU_ASSERT_FATAL(copy != NULL);
	memcpy(copy, text, len);
	ok = schema_text__parse(copy, len, "aten::f", s, out, cap);
	free(copy);
	return ok;
}

/* The right side is what torch 2.15.0 and 2.5.1 print for the left one. */
TEST("printing")
{
	static const char *const rows[][2] = {
		{ "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", NULL },
		{ "(Tensor self, SymInt[2] stride=1) -> Tensor",
		  "(Tensor self, SymInt[2] stride=[1, 1]) -> Tensor" },
		{ "(Tensor self, int[2] stride=[1,1]) -> Tensor",
		  "(Tensor self, int[2] stride=1) -> Tensor" },
		{ "(Tensor self, int[1] padding=0) -> Tensor",
		  "(Tensor self, int[1] padding=[0]) -> Tensor" },
		{ "(Tensor self, int[] dim=[-2,-1]) -> Tensor",
		  "(Tensor self, int[] dim=[-2, -1]) -> Tensor" },
		{ "(Tensor self, int[2] stride=[]) -> Tensor", NULL },
		{ "(Tensor self, int[1]? dim=None) -> Tensor", NULL },
		{ "(Tensor x, bool[3] mask=[True,False,True]) -> ()",
		  "(Tensor x, bool[3] mask=[True, False, True]) -> ()" },
		{ "(Tensor x, float p=0.5, float q=1, float eps=1e-05, float big=1e20, float z=-0.0) -> ()",
		  "(Tensor x, float p=0.5, float q=1., float eps=1.0000000000000001e-05, float big=1e+20, float z=-0.) -> ()" },
		{ "(Tensor x, Scalar a=1.0, Scalar b=0.01, float? c=1.0) -> ()",
		  "(Tensor x, Scalar a=1., Scalar b=0.01, float? c=1.) -> ()" },
		{ "(Tensor x, int reduction=Mean, ScalarType? dtype=long) -> ()",
		  "(Tensor x, int reduction=1, ScalarType? dtype=4) -> ()" },
		{ "(Tensor x, MemoryFormat? memory_format=contiguous_format) -> ()",
		  "(Tensor x, MemoryFormat? memory_format=0) -> ()" },
		{ "(Tensor x, str mode='linear') -> ()", "(Tensor x, str mode=\"linear\") -> ()" },
		{ "(Tensor x, str a=\"\\\"'\\\\\", str b=' \\n\\t\\x') -> ()", "" },
		{ "(Tensor x, str a=\"\\\"'\\\\\", str b=' \\n\\t\\f\\v') -> ()",
		  "(Tensor x, str a=\"\\\"\\'\\\\\", str b=\" \\n\\t\\f\\v\") -> ()" },
		{ "(Tensor(a!) self, Tensor(b -> *) x) -> (Tensor(a!), Tensor[](b))", NULL },
		{ "(Tensor(a|b) x) -> Tensor(a|b)", "(Tensor(b|a) x) -> Tensor(b|a)" },
		{ "(Tensor(a!)[] self, Tensor?[] indices) -> (Tensor)",
		  "(Tensor(a!)[] self, Tensor?[] indices) -> Tensor" },
		{ "(Tensor x, Dimname dim, Dimname[]? names) -> (Tensor values, Tensor indices)",
		  "(Tensor x, str dim, str[]? names) -> (Tensor values, Tensor indices)" },
		{ "(DeviceIndex i,   Dict(str,t) d) -> ((str,t)[])",
		  "(int i, Dict(str, t) d) -> ((str, t)[])" },
		{ "(Tensor x, __torch__.torch.classes.c10d.Work w, ...) -> ...", NULL },
		{ "(...) -> (...)", "(...) -> ..." },
		{ "() -> Tensor[]", NULL },
	};
	char out[512], want[512];
	struct schema s;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *expect = rows[i][1] ? rows[i][1] : rows[i][0];
		bool ok = parse(rows[i][0], out, sizeof(out), &s);

		CU_ASSERT_EQUAL(ok, *expect != 0);
		snprintf(want, sizeof(want), "aten::f%s", expect);
		if (ok && strcmp(out, want)) {
			printf("\n%s\n%s\n", out, want);
			CU_FAIL("printed otherwise");
		}
	}
}

TEST("structure")
{
	struct schema s;

	CU_ASSERT_FATAL(parse("(Tensor(a!) self, Tensor?[] i, SymInt[]? size=None, *, float p=1) -> (Tensor(a!), bool)",
			      NULL, 0, &s));
	CU_ASSERT(s.arg_cnt == 4 && s.ret_cnt == 2 && s.default_cnt == 2 && !s.vararg && !s.varret);
	CU_ASSERT(!strcmp(s.args[0].base, "Tensor") && !strcmp(s.args[0].set, "a") && s.args[0].written);
	CU_ASSERT(s.args[1].lists == 1 && s.args[1].elem_opt && !s.args[1].opt);
	CU_ASSERT(!strcmp(s.args[2].base, "SymInt") && s.args[2].lists == 1 && s.args[2].opt);
	CU_ASSERT(!strcmp(s.args[3].base, "float") && s.args[3].has_default);
	CU_ASSERT(s.rets[0].written && !strcmp(s.rets[0].set, "a") && !strcmp(s.rets[1].base, "bool"));
	CU_ASSERT_FATAL(parse("(Tensor x) -> ()", NULL, 0, &s));
	CU_ASSERT(s.ret_cnt == 0);
}

TEST("what is no schema")
{
	static const char *const rows[] = {
		"",
		"(",
		"()",
		"() ->",
		"() -> (",
		"(Tensor) -> ()",
		"(Tensor x -> ()",
		"(Tensor x) -> () x",
		"(Tensor x,, Tensor y) -> ()",
		"(Tensor x=) -> ()",
		"(Tensor[ x) -> ()",
		"(Tensor[99999999999999999999] x) -> ()",
		"(int[1000] x=1) -> ()",
		"(int x=9999999999999999999999) -> ()",
		"(int x=1.2.3) -> ()",
		"(int x=what) -> ()",
		"(str x='abc) -> ()",
		"(str x='abc\\) -> ()",
		"(Tensor( x) -> ()",
		"(Tensor(a x) -> ()",
		"(Tensor(!) x) -> ()",
		"(Dict(str x) -> ()",
		"(* Tensor x) -> ()",
		"(*,) -> ()",
		"() -> (..., ...)",
		"(Tensor x, ) -> ()",
		"(Tensor(a|b|c|d|e|f|g|h|i|j) x) -> ()",
		"(__torch__. x) -> ()",
		"(9x y) -> ()",
		"((((((((((((((str)))))))))))))x) -> ()",
		"(t[][][][][][][][][][][][][] x) -> ()",
	};
	struct schema s;
	char out[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (parse(rows[i], out, sizeof(out), &s)) {
			printf(" taken: %s;", rows[i]);
			CU_FAIL("no schema, but taken");
		}
}

/* Too many arguments, too little room. */
TEST("limits")
{
	char text[2048] = "(", out[2048];
	struct schema s;

	for (uint32_t i = 0; i < SCHEMA_ARGS_MAX; i++)
		strcat(text, i ? ", int a" : "int a");
	strcat(text, ") -> ()");
	CU_ASSERT(parse(text, out, sizeof(out), &s));
	CU_ASSERT_EQUAL(s.arg_cnt, SCHEMA_ARGS_MAX);
	for (uint32_t i = 0; i < strlen(text); i++) {
		memset(out, 0x55, sizeof(out));
		CU_ASSERT(!parse(text, out, i, &s));
		CU_ASSERT_EQUAL(out[i], 0x55);
	}
	strcpy(strstr(text, ") -> ()"), ", int b) -> ()");
	CU_ASSERT(!parse(text, out, sizeof(out), &s));
}

/* Bytes changed at random: any answer will do, but within the bounds (sanitizers watch). */
TEST("damaged texts")
{
	static const char good[] = "(Tensor(a!) self, SymInt[2] p=[1,-1], *, str m='x\\n', float e=1e-5, "
				   "Dict(str, t[])? d=None) -> (Tensor(a!), (int, str)[])";
	char bad[sizeof(good)], out[256];
	struct schema s;
	uint32_t round, taken = 0;

	srand(5);
	for (round = 0; round < 200000; round++) {
		memcpy(bad, good, sizeof(good));
		for (uint32_t k = 0; k < 1 + round % 3; k++)
			bad[(size_t)rand() % (sizeof(good) - 1)] =
				(char)(k & 1 ? 1 + rand() % 255 :
					       good[(size_t)rand() % (sizeof(good) - 1)]);
		bad[round % 5 ? sizeof(good) - 1 : (size_t)rand() % sizeof(good)] = 0;
		if (!parse(bad, out, sizeof(out), &s))
			continue;
		taken++;
		CU_ASSERT(s.arg_cnt <= SCHEMA_ARGS_MAX && s.ret_cnt <= SCHEMA_ARGS_MAX);
		CU_ASSERT(strlen(out) < sizeof(out));
	}
	CU_ASSERT(taken > 0 && taken < round);
}

SUITE("schema_text")
