/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sums by name: folding, steps, shapes, operations. */
#include <stdlib.h>
#include <string.h>

#include "capture_builder.h"
#include "ka_sums.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 900000000

static struct sums sum(struct session *s)
{
	return sum_opts(s, NULL);
}

static void totals(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t linear = builder__op(b, "aten::linear"), add = builder__op(b, "aten::add.Tensor"),
		 out = builder__op(b, "aten::add.out"), leaf = builder__op(b, "aten::is_leaf");
	struct sums r;

	for (int i = 0; i < 3; i++) {
		uint64_t ts = 2000000 + (uint64_t)i * 10000;

		builder__enter(b, linear, ts, 0x9000);
		builder__enter(b, leaf, ts + 50, 0x8800); /* never in the table; its child is linear's */
		builder__enter(b, add, ts + 100, 0x8000);
		builder__exit(b, add, ts + 400, 0x7f00);
		builder__exit(b, leaf, ts + 450, 0x8700);
		builder__enter(b, out, ts + 500, 0x8000);
		builder__exit(b, out, ts + 600, 0x7f00);
		builder__exit(b, linear, ts + 1000, 0x8f00);
	}
	r = sum(builder__session(b, NULL));
	CU_ASSERT_EQUAL_FATAL(r.cnt, 2);
	CU_ASSERT_STRING_EQUAL(r.rows[0].key, "aten::linear"); /* order of first appearance */
	CU_ASSERT_EQUAL(r.rows[0].count, 3);
	CU_ASSERT_EQUAL(r.rows[0].cpu_total_ns, 3000);
	CU_ASSERT_EQUAL(r.rows[0].self_cpu_ns, 3 * (1000 - 400));
	CU_ASSERT_EQUAL(r.rows[0].first_begin_ns, 2000000);
	CU_ASSERT_STRING_EQUAL(r.rows[1].key, "aten::add");
	CU_ASSERT_EQUAL(r.rows[1].count, 6);
	CU_ASSERT_EQUAL(r.rows[1].self_cpu_ns, 1200);
	key_averages__free(r.ka);
	builder__free(b);
}

/* A chain of one name folds into one; two children do not. */
static void folding(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	const struct ka_row *rf;
	struct sums r;

	builder__enter(b, f, 2000000, 0x9000);
	builder__enter(b, f, 2000100, 0x8000);
	builder__enter(b, f, 2000200, 0x7000);
	builder__enter(b, g, 2000300, 0x6000);
	builder__exit(b, g, 2000500, 0x5f00);
	builder__exit(b, f, 2000600, 0x6f00);
	builder__exit(b, f, 2000700, 0x7f00);
	builder__exit(b, f, 2001000, 0x8f00);
	builder__enter(b, f, 2002000, 0x9000);
	builder__enter(b, f, 2002100, 0x8000);
	builder__exit(b, f, 2002200, 0x7f00);
	builder__enter(b, g, 2002300, 0x8000);
	builder__exit(b, g, 2002400, 0x7f00);
	builder__exit(b, f, 2003000, 0x8f00);
	r = sum(builder__session(b, NULL));
	rf = row(&r, "aten::f");
	CU_ASSERT_EQUAL(rf->count, 3);
	CU_ASSERT_EQUAL(rf->cpu_total_ns, 1000 + 1000 + 100);
	CU_ASSERT_EQUAL(rf->self_cpu_ns, 800 + 800 + 100);
	key_averages__free(r.ka);
	builder__free(b);
}

static void names(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct sums r;

	static const char *const texts[] = {
		"ProfilerStep#3", "ProfilerStep#4", "_ZN2at4testEv", "f", "Pf",
		"aten::f",        "not mangled"
	};

	for (uint64_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		builder__annotate(b, 2000000 + i * 1000, 0x9000, 1, texts[i]);
		builder__scope_end(b, 2000500 + i * 1000, 0x9000, 1);
	}
	builder__enter(b, f, 3000000, 0x9000);
	builder__exit(b, f, 3000010, 0x8f00);
	r = sum(builder__session(b, NULL));
	CU_ASSERT_EQUAL(r.cnt, 7);
	CU_ASSERT_EQUAL(row(&r, "ProfilerStep*")->count, 2);
	CU_ASSERT_TRUE(row(&r, "ProfilerStep*")->is_annotation);
	CU_ASSERT_PTR_NOT_NULL(row(&r, "at::test()"));
	CU_ASSERT_PTR_NOT_NULL(row(&r, "f"));
	CU_ASSERT_PTR_NOT_NULL(row(&r, "float*"));
	CU_ASSERT_PTR_NOT_NULL(row(&r, "not mangled"));
	CU_ASSERT_TRUE(row(&r, "aten::f")->is_annotation); /* its own row: the operator has another */
	CU_ASSERT_FALSE(r.rows[6].is_annotation);
	CU_ASSERT_EQUAL(r.rows[6].cpu_total_ns, 10);
	key_averages__free(r.ka);
	builder__free(b);
}

/* Began here, ended there: counted, but neither parent nor child nor self time. */
static void async(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f");
	struct sums r;

	builder__thread(b, 1, 1);
	builder__annotate(b, 2000000, 0xa000, 1, "outer");
	builder__annotate(b, 2000100, 0x9800, 2, "async");
	builder__enter(b, f, 2000200, 0x9000);
	builder__exit(b, f, 2000300, 0x8f00);
	builder__thread(b, 1, 2);
	builder__scope_end(b, 2000500, 0x9000, 2);
	builder__thread(b, 1, 1);
	builder__scope_end(b, 2001000, 0xa000, 1);
	r = sum(builder__session(b, NULL));
	CU_ASSERT_EQUAL(row(&r, "async")->self_cpu_ns, 0);
	CU_ASSERT_EQUAL(row(&r, "async")->cpu_total_ns, 400);
	CU_ASSERT_EQUAL(row(&r, "outer")->self_cpu_ns, 900);
	key_averages__free(r.ka);
	builder__free(b);
}

/* What was open when the window began is above all that came before its end. */
static void open_at_begin(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct sums r;

	builder__enter(b, f, BEGIN + 1000, 0x8000);
	builder__exit(b, f, BEGIN + 1500, 0x7f00);
	builder__exit(b, g, BEGIN + 2000, 0x8500);
	r = sum(builder__session(b, NULL));
	CU_ASSERT_EQUAL(row(&r, "aten::g")->self_cpu_ns, row(&r, "aten::g")->cpu_total_ns - 500);
	CU_ASSERT_STRING_EQUAL(r.rows[0].key, "aten::g");
	key_averages__free(r.ka);
	builder__free(b);
}

/* ---- input shapes and operations ---- */

static struct sums sum_with(struct session *s, bool by_shape, bool with_flops)
{
	struct ka_opts opts = { .by_shape = by_shape, .with_flops = with_flops };

	return sum_opts(s, &opts);
}

static void call(struct builder *b, uint32_t func, uint64_t ts, const struct value_words *w)
{
	if (w)
		builder__values(b, w);
	builder__enter(b, func, ts, 0x9000);
	builder__exit(b, func, ts + 100, 0x8f00);
}

/* A value of every kind, as torch would write it. */
static void shape_texts(void)
{
	static const int64_t sizes[] = { 2, 3, 1000000 };
	static const struct session_keys keys = { .nested = 0x40 };
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::f"), g = builder__op(b, "aten::g");
	struct vw_tensor nested = { .ndim = 2, .sizes = { 2, 2 }, .keys = 0x41 };
	struct vw_tensor symbolic = { .ndim = 1, .sizes = { 5 }, .flags = PTB_VAL_F_SYMBOLIC };
	struct vw_tensor many = { .ndim = 20, .flags = PTB_VAL_F_DIMS_CUT };
	struct value_words w = { 0 };
	struct sums r;

	builder__keys(b, 1, &keys);
	call(b, f, 2000000, NULL);
	call(b, f, 2001000, &w);
	vw__shape(&w, 0, sizes);
	call(b, f, 2002000, &w);
	vw__shape(&w, 3, sizes);
	vw__list(&w, PTB_VAL_TENSORS, 1, 1);
	vw__shape(&w, 1, sizes);
	vw__undefined(&w, 0);
	vw__int(&w, 1);
	vw__tensor(&w, &nested);
	vw__tensor(&w, &symbolic);
	call(b, f, 2003000, &w);
	vw__unknown(&w);
	vw__tensor(&w, &many);
	call(b, f, 2004000, &w);
	w.cnt = 0;
	vw__shape(&w, 1, sizes);
	builder__values_cut(b, &w);
	call(b, f, 2005000, NULL);
	call(b, f, 2006000, &w);
	call(b, f, 2007000, &w);
	call(b, g, 2008000, &w);
	builder__annotate(b, 3000000, 0xa000, 1, "mine");
	builder__scope_end(b, 3001000, 0xa000, 1);
	r = sum_with(builder__session(b, NULL), true, false);
	CU_ASSERT_EQUAL_FATAL(r.cnt, 9);
	CU_ASSERT_STRING_EQUAL(r.rows[0].shapes, "?"); /* not recorded is not "none" */
	CU_ASSERT_STRING_EQUAL(r.rows[1].shapes, "[]");
	CU_ASSERT_STRING_EQUAL(r.rows[2].shapes, "[[]]");
	CU_ASSERT_STRING_EQUAL(r.rows[3].shapes, "[[], [2, 3, 1000000], [], [], [], [], []]");
	CU_ASSERT_STRING_EQUAL(r.rows[4].shapes, "[[], [2, 3, 1000000], [], [], [], [], [], ?, [...]]");
	CU_ASSERT_STRING_EQUAL(r.rows[5].shapes, "[[2], ...]");
	CU_ASSERT_STRING_EQUAL(r.rows[6].shapes, "[[2]]");
	CU_ASSERT_EQUAL(r.rows[6].count, 2);
	CU_ASSERT_STRING_EQUAL(r.rows[7].key, "aten::g");
	CU_ASSERT_STRING_EQUAL(r.rows[7].shapes, "[[2]]");
	CU_ASSERT_STRING_EQUAL(r.rows[8].shapes, "[]");
	CU_ASSERT_EQUAL(r.rows[8].flops, 0);
	key_averages__free(r.ka);
	r = sum_with(builder__session(b, NULL), false, false);
	CU_ASSERT_EQUAL(r.cnt, 3);
	CU_ASSERT_STRING_EQUAL(r.rows[0].shapes, "");
	key_averages__free(r.ka);
	builder__free(b);
}

/* Sizes, then whatever else the operator takes; -1 ends a shape, -2 the list. */
static struct value_words shapes(const int64_t *v)
{
	struct value_words w = { 0 };

	while (*v != -2) {
		uint32_t n = 0;

		while (v[n] >= 0)
			n++;
		vw__shape(&w, n, v);
		v += n + 1;
	}
	return w;
}

static struct value_words conv(const int64_t *v, uint32_t pair_len, int64_t stride, int64_t padding,
			       int64_t dilation, int64_t groups)
{
	struct value_words w = shapes(v);

	vw__none(&w); /* bias */
	vw__ints(&w, pair_len, (int64_t[]){ stride, stride, stride });
	vw__ints(&w, pair_len, (int64_t[]){ padding, padding, padding });
	vw__ints(&w, pair_len, (int64_t[]){ dilation, dilation, dilation });
	vw__int(&w, groups);
	return w;
}

struct flops_case {
	const char *op;
	struct value_words w;
	uint64_t want;
};

/* clang-format off */
/* Figures of torch.profiler (with_flops=True) for the same calls. */
static void flops(void)
{
	struct flops_case cases[] = {
		{ "aten::mm", shapes((int64_t[]){ 2, 3, -1, 3, 4, -1, -2 }), 48 },
		{ "aten::mm.out", shapes((int64_t[]){ 4, 2, -1, 2, 3, -1, -2 }), 48 },
		{ "aten::mm", shapes((int64_t[]){ 0, 3, -1, 3, 4, -1, -2 }), 0 },
		{ "aten::mm", shapes((int64_t[]){ 2, 0, -1, 0, 4, -1, -2 }), 0 },
		{ "aten::mm", shapes((int64_t[]){ -1, 3, 4, -1, -2 }), 0 },
		{ "aten::mm", shapes((int64_t[]){ 2, 3, -1, -2 }), 0 },
		{ "aten::addmm", shapes((int64_t[]){ 7, -1, 2, 3, -1, 3, 7, -1, -2 }), 84 },
		{ "aten::addmm", shapes((int64_t[]){ 2, 3, -1, 3, 7, -1, -2 }), 0 },
		{ "aten::bmm", shapes((int64_t[]){ 5, 2, 3, -1, 5, 3, 7, -1, -2 }), 420 },
		{ "aten::bmm", shapes((int64_t[]){ 0, 2, 3, -1, 0, 3, 7, -1, -2 }), 0 },
		{ "aten::baddbmm", shapes((int64_t[]){ 5, 2, 7, -1, 5, 2, 3, -1, 5, 3, 7, -1, -2 }), 420 },
		{ "aten::mul.Tensor", shapes((int64_t[]){ 2, 3, -1, 2, 3, -1, -2 }), 6 },
		{ "aten::add.Tensor", shapes((int64_t[]){ -1, 2, 3, -1, -2 }), 1 },
		{ "aten::add_.Tensor", shapes((int64_t[]){ 2, 3, -1, 2, 3, -1, -2 }), 0 },
		{ "aten::conv2d", conv((int64_t[]){ 2, 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 2, 2, 1, 1, 3), 3456 },
		{ "aten::conv2d", conv((int64_t[]){ 1, 4, 9, 7, -1, 8, 4, 3, 3, -1, -2 }, 2, 1, 2, 2, 1), 36288 },
		{ "aten::conv2d", conv((int64_t[]){ 2, 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 2, 0, 1, 1, 3), 0 },
		{ "aten::conv2d", conv((int64_t[]){ 2, 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 2, 1, 1, 1, 0), 0 },
		{ "aten::conv2d", conv((int64_t[]){ 2, 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 1, 1, 1, 1, 1), 0 },
		{ "aten::conv2d", conv((int64_t[]){ 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 2, 1, 1, 1, 1), 0 },
		{ "aten::conv1d", conv((int64_t[]){ 2, 3, 8, 8, -1, 6, 1, 3, 3, -1, -2 }, 2, 1, 1, 1, 1), 0 },
	};
	struct vw_tensor nested = { .ndim = 2, .sizes = { 2, 2 }, .keys = 0x40 };
	static const struct session_keys keys = { .nested = 0x40 };
	struct value_words w = { 0 };
	struct builder *b;
	struct sums r;
	uint32_t f;

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b = builder__new(BEGIN, END);
		f = builder__op(b, cases[i].op);
		call(b, f, 2000000, &cases[i].w);
		call(b, f, 2001000, &cases[i].w);
		call(b, f, 2002000, NULL); /* shapes not known */
		r = sum_with(builder__session(b, NULL), false, true);
		CU_ASSERT_EQUAL(r.rows[0].flops, 2 * cases[i].want);
		key_averages__free(r.ka);
		r = sum(builder__session(b, NULL));
		CU_ASSERT_EQUAL(r.rows[0].flops, 0); /* not requested */
		key_averages__free(r.ka);
		builder__free(b);
	}
	b = builder__new(BEGIN, END);
	builder__keys(b, 1, &keys);
	f = builder__op(b, "aten::mul");
	vw__tensor(&w, &nested);
	call(b, f, 2000000, &w);
	w.cnt = 0;
	vw__undefined(&w, 0);
	call(b, f, 2001000, &w);
	r = sum_with(builder__session(b, NULL), false, true);
	CU_ASSERT_EQUAL(r.rows[0].flops, 0);
	key_averages__free(r.ka);
	builder__free(b);
}
/* clang-format on */

/* A child of the same name is folded, whatever its shapes are, together with its operations. */
static void folding_with_shapes(void)
{
	struct value_words one = shapes((int64_t[]){ 2, 3, -1, -2 }),
			   two = shapes((int64_t[]){ 4, -1, -2 });
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f = builder__op(b, "aten::mul");
	struct sums r;

	builder__values(b, &one);
	builder__enter(b, f, 2000000, 0x9000);
	builder__values(b, &two);
	builder__enter(b, f, 2000100, 0x8000);
	builder__exit(b, f, 2000200, 0x7f00);
	builder__exit(b, f, 2000300, 0x8f00);
	r = sum_with(builder__session(b, NULL), true, true);
	CU_ASSERT_EQUAL_FATAL(r.cnt, 1);
	CU_ASSERT_STRING_EQUAL(r.rows[0].shapes, "[[2, 3]]");
	CU_ASSERT_EQUAL(r.rows[0].flops, 6);
	CU_ASSERT_EQUAL(r.rows[0].count, 1);
	key_averages__free(r.ka);
	builder__free(b);
}

static const CU_TestInfo tests[] = {
	{ "totals and self times", totals },
	{ "folding", folding },
	{ "names", names },
	{ "async annotations", async },
	{ "open at the window's begin", open_at_begin },
	{ "input shapes", shape_texts },
	{ "operations", flops },
	{ "folding with shapes", folding_with_shapes },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("key_averages", tests);
}
