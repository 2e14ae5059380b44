/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sums by name. The reference below does what torch/autograd/profiler_util.py does, with all events at
 * hand; the streaming sums must be equal on random programs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "capture_builder.h"
#include "model/key_averages.h"
#include "slice_log.h"
#include "suite.h"

#define BEGIN 1000000
#define END 900000000

/* ---- the reference: EventList._populate_cpu_children, _remove_dup_nodes, key_averages ---- */

struct event {
	const struct slice *sl;
	const char *name;
	int64_t parent; /* index, -1: none */
	bool gone;
};

static bool dropped(const char *name)
{
	return !strcmp(name, "aten::is_leaf") || !strncmp(name, "profiler::_record_function", 26);
}

static int cmp_event(const void *a, const void *b)
{
	const struct slice *x = ((const struct event *)a)->sl, *y = ((const struct event *)b)->sl;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static bool is_async(const struct event *e)
{
	return e->sl->flags & SLICE_OTHER_THREAD_END;
}

static void link_parents(struct event *ev, uint32_t cnt)
{
	int64_t *stack = calloc(cnt + 1, sizeof(*stack));
	uint32_t i, depth = 0;

	for (i = 0; i < cnt; i++) {
		if (i && ev[i].sl->tid != ev[i - 1].sl->tid)
			depth = 0;
		ev[i].parent = -1;
		if (is_async(&ev[i]))
			continue;
		while (depth) {
			const struct slice *p = ev[stack[depth - 1]].sl;

			if (ev[i].sl->begin_ns < p->end_ns && ev[i].sl->end_ns <= p->end_ns)
				break;
			depth--;
		}
		if (depth)
			ev[i].parent = stack[depth - 1];
		stack[depth++] = i;
	}
	free(stack);
}

static uint32_t children(const struct event *ev, uint32_t cnt, int64_t of, uint64_t *ns)
{
	uint32_t i, n = 0;

	*ns = 0;
	for (i = 0; i < cnt; i++) {
		if (ev[i].gone || ev[i].parent != of)
			continue;
		n++;
		*ns += ev[i].sl->end_ns - ev[i].sl->begin_ns;
	}
	return n;
}

static void fold(struct event *ev, uint32_t cnt)
{
	bool again = true;

	while (again) {
		uint32_t i, k;

		again = false;
		for (i = 0; i < cnt; i++) {
			int64_t p = ev[i].parent;
			uint64_t ns;

			if (ev[i].gone || p < 0 || strcmp(ev[p].name, ev[i].name) ||
			    children(ev, cnt, p, &ns) != 1)
				continue;
			for (k = 0; k < cnt; k++)
				if (ev[k].parent == (int64_t)i)
					ev[k].parent = p;
			ev[i].gone = again = true;
		}
	}
}

/* What a program allocated and freed: in_interval() of MemRecordsAcc. */
struct allocations {
	struct {
		uint64_t ts;
		int64_t bytes;
		uint32_t tid;
		bool device, seen; /* seen: some slice was open */
	} v[1024];
	uint32_t cnt;
};

/* exact: the slice's own thread only. */
static int64_t charged(struct allocations *al, const struct slice *sl, bool device, bool exact)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < al->cnt; i++) {
		if (al->v[i].ts < sl->begin_ns || al->v[i].ts > sl->end_ns || (exact && al->v[i].tid != sl->tid))
			continue;
		al->v[i].seen = true;
		sum += al->v[i].device == device ? al->v[i].bytes : 0;
	}
	return sum;
}

static int64_t children_charged(const struct event *ev, uint32_t cnt, int64_t of, struct allocations *al,
				bool device, bool exact)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < cnt; i++)
		if (!ev[i].gone && ev[i].parent == of)
			sum += charged(al, ev[i].sl, device, exact);
	return sum;
}

static void reference(const struct slice_log *log, struct allocations *al, bool exact, const char *key,
		      bool annotation, struct ka_row *out)
{
	struct event *ev = calloc(log->cnt + 1, sizeof(*ev));
	uint32_t i, cnt = 0;

	for (i = 0; i < log->cnt; i++) {
		const char *name = log->slices[i].name;

		if (dropped(name))
			continue;
		ev[cnt].sl = &log->slices[i];
		ev[cnt++].name = strncmp(name, "ProfilerStep#", 13) ? name : "ProfilerStep*";
	}
	qsort(ev, cnt, sizeof(*ev), cmp_event);
	link_parents(ev, cnt);
	fold(ev, cnt);
	*out = (struct ka_row){ 0 };
	for (i = 0; i < cnt; i++) {
		uint64_t dur = ev[i].sl->end_ns - ev[i].sl->begin_ns, ns;

		if (ev[i].gone || strcmp(ev[i].name, key) ||
		    (ev[i].sl->cat == SLICE_USER_ANNOTATION) != annotation)
			continue;
		children(ev, cnt, (int64_t)i, &ns);
		out->count++;
		out->cpu_total_ns += dur;
		out->self_cpu_ns += is_async(&ev[i]) ? 0 : dur - ns;
		out->cpu_mem += charged(al, ev[i].sl, false, exact);
		out->device_mem += charged(al, ev[i].sl, true, exact);
		if (is_async(&ev[i]))
			continue;
		out->self_cpu_mem += charged(al, ev[i].sl, false, exact) -
				     children_charged(ev, cnt, (int64_t)i, al, false, exact);
		out->self_device_mem += charged(al, ev[i].sl, true, exact) -
					children_charged(ev, cnt, (int64_t)i, al, true, exact);
	}
	free(ev);
}

/* ---- */

struct sums {
	struct key_averages *ka;
	const struct ka_row *rows;
	uint32_t cnt;
};

static struct sums sum_opts(struct session *s, const struct ka_opts *opts)
{
	struct sums r = { .ka = key_averages__new(opts) };
	struct session_sink sink = key_averages__sink(r.ka);
	struct session_totals totals;

	CU_ASSERT_EQUAL_FATAL(session__run(s, &sink, 1, &totals), 0);
	r.rows = key_averages__rows(r.ka, &r.cnt);
	return r;
}

static struct sums sum(struct session *s)
{
	return sum_opts(s, NULL);
}

static const struct ka_row *row(const struct sums *r, const char *key)
{
	uint32_t i;

	for (i = 0; i < r->cnt; i++)
		if (!strcmp(r->rows[i].key, key))
			return &r->rows[i];
	return NULL;
}

static void totals(void)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t linear = builder__op(b, "aten::linear"), add = builder__op(b, "aten::add.Tensor"),
		 out = builder__op(b, "aten::add.out"), leaf = builder__op(b, "aten::is_leaf");
	struct sums r;
	int i;

	for (i = 0; i < 3; i++) {
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
	uint64_t i;

	static const char *const texts[] = { "ProfilerStep#3", "ProfilerStep#4", "_ZN2at4testEv", "f",
					     "Pf", "aten::f", "not mangled" };

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
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
	uint32_t i, f;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		b = builder__new(BEGIN, END);
		f = builder__op(b, cases[i].op);
		call(b, f, 2000000, &cases[i].w);
		call(b, f, 2001000, &cases[i].w);
		call(b, f, 2002000, NULL); /* shapes not known */
		r = sum_with(builder__session(b, NULL), false, true);
		CU_ASSERT_EQUAL(r.rows[0].flops, 2 * cases[i].want);
		key_averages__free(r.ka);
		r = sum(builder__session(b, NULL));
		CU_ASSERT_EQUAL(r.rows[0].flops, 0); /* not asked for */
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

/* A child of the same name is swallowed whatever its shapes are, and its operations with it. */
static void folding_with_shapes(void)
{
	struct value_words one = shapes((int64_t[]){ 2, 3, -1, -2 }), two = shapes((int64_t[]){ 4, -1, -2 });
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

/* ---- random programs against the reference ---- */

static const char *const op_names[] = { "aten::a", "aten::b", "aten::is_leaf", "aten::a.out" };

/* Allocates or frees somewhere; sp below the innermost frame. */
static void random_memory(struct builder *b, struct allocations *al, uint64_t ts, uint32_t tid, uint64_t sp)
{
	struct ptb_mem_report r = { .sp = sp, .device_type = 1 };
	bool device = random() % 3 == 0;
	uint32_t i = al->cnt, freed = i ? (uint32_t)random() % i : 0;
	int64_t bytes = 1 + random() % 100000;

	if (i >= 1024)
		return;
	if (i && random() % 2 && al->v[freed].bytes > 0) { /* the address is the allocation's index */
		device = al->v[freed].device;
		bytes = al->v[freed].seen ? 0 : -al->v[freed].bytes; /* seen: freed already */
		al->v[freed].seen = true;
		i = freed;
	}
	r.bytes = bytes;
	r.addr = 0x100000 + i * 0x1000;
	if (device && bytes)
		builder__ring_rec(b, &r.h, PTB_REC_MEM_REPORT, sizeof(r), ts);
	else if (bytes > 0)
		builder__mem_alloc(b, ts, sp, r.addr, (uint64_t)bytes);
	else
		builder__mem_free(b, ts, sp, bytes ? r.addr : 0x50);
	if (bytes) {
		al->v[al->cnt].ts = ts;
		al->v[al->cnt].bytes = bytes;
		al->v[al->cnt].tid = tid;
		al->v[al->cnt++].device = device;
	}
}

/* The row of what no slice was charged with; its events are those that are not seen. */
static void check_alone(struct allocations *al, const struct ka_row *r)
{
	int64_t cpu = 0, device = 0;
	uint64_t cnt = 0;
	uint32_t i;

	for (i = 0; i < al->cnt; i++) {
		if (al->v[i].seen)
			continue;
		cnt++;
		*(al->v[i].device ? &device : &cpu) += al->v[i].bytes;
	}
	CU_ASSERT_EQUAL(r ? r->count : 0, cnt);
	if (!r)
		return;
	CU_ASSERT_TRUE(r->is_instant);
	CU_ASSERT_EQUAL(r->cpu_total_ns, 0);
	CU_ASSERT_EQUAL(r->cpu_mem, cpu);
	CU_ASSERT_EQUAL(r->self_cpu_mem, cpu);
	CU_ASSERT_EQUAL(r->device_mem, device);
	CU_ASSERT_EQUAL(r->self_device_mem, device);
}

static void check_rows(const struct slice_log *log, struct session *s, struct allocations *al, bool exact)
{
	struct ka_opts opts = { .exact_memory = exact };
	struct sums r = sum_opts(s, &opts);
	uint32_t i, k = 0;

	for (i = 0; i < al->cnt; i++)
		al->v[i].seen = false;
	for (i = 0; i < log->cnt; i++)
		charged(al, &log->slices[i], false, exact);
	for (i = 0; i < r.cnt; i++) {
		struct ka_row want;

		if (r.rows[i].is_instant)
			continue;
		reference(log, al, exact, r.rows[i].key, r.rows[i].is_annotation, &want);
		CU_ASSERT_EQUAL(r.rows[i].count, want.count);
		CU_ASSERT_EQUAL(r.rows[i].cpu_total_ns, want.cpu_total_ns);
		CU_ASSERT_EQUAL(r.rows[i].self_cpu_ns, want.self_cpu_ns);
		CU_ASSERT_EQUAL(r.rows[i].cpu_mem, want.cpu_mem);
		CU_ASSERT_EQUAL(r.rows[i].self_cpu_mem, want.self_cpu_mem);
		CU_ASSERT_EQUAL(r.rows[i].device_mem, want.device_mem);
		CU_ASSERT_EQUAL(r.rows[i].self_device_mem, want.self_device_mem);
		k += (uint32_t)want.count;
	}
	CU_ASSERT_TRUE(k > 50);
	check_alone(al, row(&r, "[memory]"));
	key_averages__free(r.ka);
}

static void random_program(unsigned int seed)
{
	struct builder *b = builder__new(BEGIN, END);
	uint32_t f[4], open[3][64], depth[3] = { 0 };
	uint64_t ts = 2000000, handle = 0, mark[3] = { 0 };
	struct slice_log *log;
	struct allocations al = { .cnt = 0 };
	struct session *s;
	uint32_t i;

	srandom(seed);
	builder__meta(b, "profile_memory", "true");
	for (i = 0; i < 4; i++)
		f[i] = builder__op(b, op_names[i]);
	for (i = 0; i < 600; i++) {
		uint32_t t = 1 + (uint32_t)(random() % 2);
		uint32_t *d = &depth[t];

		ts += 500 + (uint64_t)(random() % 100); /* more than ends are moved apart by */
		builder__thread(b, 1, t);
		if (random() % 100 < 30) {
			random_memory(b, &al, ts, t, 0x90000 - *d * 256 + 100);
		} else if (*d && random() % 100 < 50) {
			uint32_t top = open[t][--*d];

			builder__exit(b, f[top], ts, 0x90000 - *d * 256 - 128);
		} else if (random() % 100 < 85 && *d < 60) {
			uint32_t op = (uint32_t)(random() % 4);

			builder__enter(b, f[op], ts, 0x90000 - *d * 256);
			open[t][(*d)++] = op;
		} else if (!mark[t]) {
			mark[t] = ++handle;
			builder__annotate(b, ts, 0x90000 - *d * 256, mark[t],
					  random() % 2 ? "aten::a" : "mine");
		} else {
			builder__thread(b, 1, random() % 2 ? t : 3 - t);
			builder__scope_end(b, ts, 0x1000, mark[t]);
			mark[t] = 0;
		}
	}
	s = builder__session(b, NULL);
	log = slice_log__run(s);
	CU_ASSERT_TRUE(slice_log__valid(log));
	check_rows(log, s, &al, false);
	check_rows(log, s, &al, true);
	slice_log__free(log);
	builder__free(b);
}

static void random_programs(void)
{
	unsigned int seed;

	for (seed = 1; seed <= 100; seed++)
		random_program(seed);
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
	{ "random programs", random_programs },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("key_averages", tests);
}
