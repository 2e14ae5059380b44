/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sums by name against a reference that does what torch/autograd/profiler_util.py does, with all events at
 * hand: the streaming sums must be equal on random programs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "capture_builder.h"
#include "ka_sums.h"
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
	uint32_t depth = 0;

	for (uint32_t i = 0; i < cnt; i++) {
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
	uint32_t n = 0;

	*ns = 0;
	for (uint32_t i = 0; i < cnt; i++) {
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
		again = false;
		for (uint32_t i = 0; i < cnt; i++) {
			int64_t p = ev[i].parent;
			uint64_t ns;

			if (ev[i].gone || p < 0 || strcmp(ev[p].name, ev[i].name) ||
			    children(ev, cnt, p, &ns) != 1)
				continue;
			for (uint32_t k = 0; k < cnt; k++)
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

	for (uint32_t i = 0; i < al->cnt; i++) {
		if (al->v[i].ts < sl->begin_ns || al->v[i].ts > sl->end_ns ||
		    (exact && al->v[i].tid != sl->tid))
			continue;
		al->v[i].seen = true;
		sum += al->v[i].device == device ? al->v[i].bytes : 0;
	}
	return sum;
}

static int64_t children_charged(const struct event *ev, uint32_t cnt, int64_t of,
				struct allocations *al, bool device, bool exact)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < cnt; i++)
		if (!ev[i].gone && ev[i].parent == of)
			sum += charged(al, ev[i].sl, device, exact);
	return sum;
}

static void reference(const struct slice_log *log, struct allocations *al, bool exact,
		      const char *key, bool annotation, struct ka_row *out)
{
	struct event *ev = calloc(log->cnt + 1, sizeof(*ev));
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < log->cnt; i++) {
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
	for (uint32_t i = 0; i < cnt; i++) {
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

/* ---- random programs against the reference ---- */

static const char *const op_names[] = { "aten::a", "aten::b", "aten::is_leaf", "aten::a.out" };

/* Allocates or frees somewhere; sp below the innermost frame. */
static void random_memory(struct builder *b, struct allocations *al, uint64_t ts, uint32_t tid,
			  uint64_t sp)
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

	for (uint32_t i = 0; i < al->cnt; i++) {
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
	uint32_t k = 0;

	for (uint32_t i = 0; i < al->cnt; i++)
		al->v[i].seen = false;
	for (uint32_t i = 0; i < log->cnt; i++)
		charged(al, &log->slices[i], false, exact);
	for (uint32_t i = 0; i < r.cnt; i++) {
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

	srandom(seed);
	builder__meta(b, "profile_memory", "true");
	for (uint32_t i = 0; i < 4; i++)
		f[i] = builder__op(b, op_names[i]);
	for (uint32_t i = 0; i < 600; i++) {
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
	for (unsigned int seed = 1; seed <= 100; seed++)
		random_program(seed);
}

static const CU_TestInfo tests[] = {
	{ "random programs", random_programs },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("key_averages_random", tests);
}
