/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* args/op_schema: arguments and results of schemas; which operators torch's profiler would know by theirs. */
#include "model/memory_priv.h"

#include <string.h>

#include "suite.h"
#include "value_words.h"

static struct op_schemas ms;

static struct op_schema parsed(const char *text)
{
	struct op_schema sc;

	op_schemas__get(&ms, text, &sc);
	return sc;
}

static void kinds(const char *text, const uint8_t *want, uint32_t cnt)
{
	struct op_schema sc = parsed(text);

	CU_ASSERT_PTR_NOT_NULL_FATAL(sc.args);
	CU_ASSERT_EQUAL_FATAL(sc.cnt, cnt);
	CU_ASSERT(!memcmp(sc.args, want, cnt));
}

TEST("arguments")
{
	static const uint8_t add_[] = { OP_ARG_TENSOR | OP_ARG_WRITE, OP_ARG_TENSOR, OP_ARG_OTHER };
	static const uint8_t foreach[] = { OP_ARG_TENSORS | OP_ARG_WRITE, OP_ARG_OTHER };
	static const uint8_t index[] = { OP_ARG_TENSOR, OP_ARG_OPT_TENSORS };
	static const uint8_t conv[] = { OP_ARG_TENSOR, OP_ARG_OPT_TENSOR, OP_ARG_OTHER, OP_ARG_OTHER };
	static const uint8_t view[] = { OP_ARG_TENSOR, OP_ARG_OTHER };
	static const uint8_t opt_out[] = { OP_ARG_OPT_TENSOR | OP_ARG_WRITE,
					   OP_ARG_TENSOR | OP_ARG_WRITE };

	kinds("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
	      add_, 3);
	kinds("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", foreach, 2);
	kinds("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index, 2);
	kinds("aten::conv(Tensor input, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"a, (b\") -> Tensor",
	      conv, 4);
	kinds("aten::view(Tensor(a -> *) self, SymInt[] size) -> Tensor(a)", view, 2);
	kinds("my::op(Tensor(a!)? x, Tensor(b! -> *) out) -> ()", opt_out, 2);
	CU_ASSERT_EQUAL(parsed("aten::nothing() -> int").cnt, 0);
	CU_ASSERT_PTR_NOT_NULL(parsed("aten::nothing() -> int").args);
}

/* What defaults and types hold ends no argument. */
TEST("bounds")
{
	static const struct {
		const char *schema;
		uint32_t nr;
		uint8_t kind;
	} rows[] = {
		{ "aten::cat(Tensor[] tensors, int dim=0) -> Tensor", 0, OP_ARG_TENSORS },
		{ "x::y((int, Tensor[]) a, Tensor[2] b) -> ()", 0, OP_ARG_OTHER },
		{ "x::y((int, Tensor[]) a, Tensor[2] b) -> ()", 1, OP_ARG_TENSORS },
		{ "x::y(str s=\"a, (b\\\" [\", str t='\\',', Tensor[]? c=[1, 2]) -> ()", 2, OP_ARG_TENSORS },
		{ "x::y(int[2] a=[1, 2], *, Tensor(a -> *)[] b) -> ()", 1, OP_ARG_TENSORS },
		{ "x::y(str[] s=[\"a\", \"b\"], float f=-inf, Tensor x) -> ()", 2, OP_ARG_TENSOR },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct op_schema sc = parsed(rows[i].schema);

		CU_ASSERT_FATAL(rows[i].nr < sc.cnt);
		CU_ASSERT_EQUAL(sc.args[rows[i].nr], rows[i].kind);
	}
}

TEST("not schemas")
{
	static const char *const texts[] = { "",
					     "aten::add",
					     "aten::add(",
					     "aten::add(Tensor self",
					     "aten::add(Tensor(a self, int",
					     "f(\"",
					     "f(int[" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CU_ASSERT_PTR_NULL(parsed(texts[i]).args);
}

static void put(struct value_words *w, uint64_t storage)
{
	struct vw_tensor t = { .dtype = 6,
			       .ndim = 1,
			       .sizes = { 2 },
			       .flags = PTB_VAL_F_IDS | PTB_VAL_F_STORAGE,
			       .impl = 8,
			       .storage = storage };

	vw__tensor(w, &t);
}

/* torch knows a schema by the arguments: a tensor without data does not look like one. */
TEST("matches")
{
	struct op_schema two = parsed("aten::mul(Tensor self, Tensor? other) -> Tensor");
	struct op_schema list = parsed("aten::cat(Tensor[] tensors, int dim=0) -> Tensor");
	static struct value_words w;
	struct slice_values sv, none = { NULL, 0, 0 };

	put(&w, 0x1000);
	vw__undefined(&w, 1);
	sv = vw__values(&w);
	CU_ASSERT(mem_flow__matches(&two, &sv));
	w.cnt = 0;
	put(&w, 0x1000);
	put(&w, 0);
	sv = vw__values(&w);
	CU_ASSERT(!mem_flow__matches(&two, &sv));
	w.cnt = 0;
	put(&w, 0);
	vw__none(&w);
	sv = vw__values(&w);
	CU_ASSERT(!mem_flow__matches(&two, &sv));
	w.cnt = 0;
	vw__undefined(&w, 1);
	vw__none(&w);
	sv = vw__values(&w);
	CU_ASSERT(!mem_flow__matches(&two, &sv));
	w.cnt = 0;
	vw__list(&w, PTB_VAL_TENSORS, 2, 2);
	put(&w, 0x1000);
	put(&w, 0x2000);
	vw__int(&w, 0);
	sv = vw__values(&w);
	CU_ASSERT(mem_flow__matches(&list, &sv));
	w.cnt = 0;
	vw__list(&w, PTB_VAL_TENSORS, 2, 2);
	put(&w, 0x1000);
	put(&w, 0);
	vw__int(&w, 0);
	sv = vw__values(&w);
	CU_ASSERT(!mem_flow__matches(&list, &sv));
	/* not recorded: the operator follows from its schema; without one there is no match */
	CU_ASSERT(mem_flow__matches(&two, &none));
	two.args = NULL;
	CU_ASSERT(!mem_flow__matches(&two, &none));
}

/* One schema is read once: the second answer is the first's memory. */
TEST("known")
{
	static const char text[] = "aten::neg(Tensor self) -> Tensor";
	uint32_t before;

	parsed(text);
	before = ms.cnt;
	CU_ASSERT_EQUAL(parsed(text).cnt, 1);
	CU_ASSERT_EQUAL(ms.cnt, before);
	op_schemas__clear(&ms);
}

SUITE("op_schema")
