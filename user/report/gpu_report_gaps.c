/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Why a device was idle: each time in which no kernel ran is held against what was launched next,
 * and against what the launching thread did until then. One cause per gap, that of its longest
 * part. See report_priv.h.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define LATENCY_DEFAULT_NS 5000 /* of a launch on an idle stream */
#define LATENCY_TIMES 4         /* work that begins later than this many latencies was queued */
#define CALLS_BACK 16           /* calls that may lie inside the one that is searched for */
#define ANNOTATIONS_ON 64

struct finder {
	struct gpu_report *gr;
	struct gr_device *d;
	uint64_t copy;        /* index of the first copy that may still matter */
	uint32_t last_thread; /* that launched what ran before the gap */
};

static uint64_t overlap(uint64_t a_begin, uint64_t a_end, uint64_t b_begin, uint64_t b_end)
{
	uint64_t begin = a_begin > b_begin ? a_begin : b_begin, end = a_end < b_end ? a_end : b_end;

	return end > begin ? end - begin : 0;
}

/* ---- what a thread did ---- */

/* The first that ends after `at`; the list is in order of ends. */
static uint32_t first_after(const struct gr_span *list, uint32_t cnt, uint64_t at)
{
	uint32_t lo = 0, hi = cnt;

	BISECT(lo, hi, mid, list[mid].end <= at);
	return lo;
}

/* The operator that took most of the interval; 0: none took part. sum: of all operators. */
static uint32_t op_in(const struct gr_thread *t, uint64_t begin, uint64_t end, uint64_t *sum)
{
	uint32_t best = 0;
	uint64_t most = 0;

	*sum = 0;
	for (uint32_t i = first_after(t->ops, t->op_cnt, begin);
	     i < t->op_cnt && t->ops[i].begin < end; i++) {
		uint64_t ns = overlap(t->ops[i].begin, t->ops[i].end, begin, end);

		*sum += ns;
		if (ns > most) {
			most = ns;
			best = t->ops[i].name;
		}
	}
	return best;
}

/* The innermost one: in the order of their ends it is the first that has begun. */
static uint32_t annotation_at(const struct gr_thread *t, uint64_t at)
{
	uint32_t i = first_after(t->annotations, t->annotation_cnt, at);

	for (uint32_t n = 0; i < t->annotation_cnt && n < ANNOTATIONS_ON; i++, n++)
		if (t->annotations[i].begin <= at)
			return t->annotations[i].name;
	return 0;
}

/* The call that took most of the interval; one that waited when the interval began, and ended not
 * long before its end, counts as if it had taken all: the host could not launch earlier. */
static const struct gr_call *call_in(const struct gr_thread *t, uint64_t begin, uint64_t end,
				     uint64_t *most)
{
	const struct gr_call *best = NULL;
	uint32_t lo = 0, hi = t->call_cnt;

	*most = 0;
	BISECT(lo, hi, mid, t->calls[mid].begin < begin);
	for (lo = lo > CALLS_BACK ? lo - CALLS_BACK : 0;
	     lo < t->call_cnt && t->calls[lo].begin < end; lo++) {
		const struct gr_call *c = &t->calls[lo];
		uint64_t ns = overlap(c->begin, c->end, begin, end);

		if (ns && c->waits && c->begin < begin && end < c->end + GR_AFTER_SYNC_NS)
			ns = end - begin;
		if (ns > *most) {
			*most = ns;
			best = c;
		}
	}
	return best;
}

/* What the thread did in the interval in which it launched nothing; false: nothing of it was
 * recorded. */
static bool host_in(const struct gpu_report *gr, uint32_t thread, uint64_t begin, uint64_t end,
		    struct gr_reason *why)
{
	const struct gr_thread *t;
	const struct gr_call *c;
	uint64_t call_ns, op_ns;
	uint32_t op;

	why->cause = GR_BY_NO_LAUNCH;
	why->where = GR_NOWHERE;
	if (thread == UINT32_MAX)
		return false;
	t = &gr->threads[thread];
	why->annotation = annotation_at(t, begin + (end - begin) / 2);
	c = call_in(t, begin, end, &call_ns);
	op = op_in(t, begin, end, &op_ns);
	if (c && call_ns * 2 > end - begin) {
		why->cause = c->waits ? GR_BY_SYNC : GR_BY_NO_LAUNCH;
		why->where = GR_IN_CALL;
		why->what = c->name;
		why->op = c->op;
		if (c->annotation)
			why->annotation = c->annotation;
	} else if (op && op_ns * 2 > end - begin) {
		why->where = GR_IN_OP;
		why->what = op;
	} else {
		why->where = GR_IN_PYTHON;
	}
	return c || op || why->annotation;
}

/* ---- causes ---- */

/* The time of the gap in which copies or fills of the device ran. */
static uint64_t copied_ns(struct finder *f, uint64_t begin, uint64_t end)
{
	const struct gpu_report *gr = f->gr;
	uint64_t ns = 0, until = begin;
	bool passed = true;

	for (uint64_t i = f->copy; i < f->d->last_work && gr->work[i].begin < end; i++) {
		const struct gr_work *w = &gr->work[i];
		uint64_t from = w->begin > until ? w->begin : until;

		if (w->kind == GR_KERNEL || w->end <= begin) {
			f->copy += passed; /* never visited again */
			continue;
		}
		passed = false;
		ns += overlap(from, w->end, begin, end);
		until = w->end > until ? w->end : until;
	}
	return ns;
}

/* Work begins some time after its launch. If it begins much later, it was queued behind other
 * work. */
static enum gr_cause after_launch(const struct gr_device *d, const struct gr_work *next)
{
	uint64_t usual = d->idle_stream.median > LATENCY_DEFAULT_NS ? d->idle_stream.median :
								      LATENCY_DEFAULT_NS;

	return next->begin <= next->launch_end + LATENCY_TIMES * usual ? GR_BY_LATENCY :
									 GR_BY_QUEUED;
}

static struct gr_reason reason_of(struct finder *f, uint64_t begin, uint64_t end,
				  const struct gr_work *next)
{
	struct gr_reason why = { .cause = GR_BY_UNKNOWN, .where = GR_NOWHERE };
	uint32_t thread = next ? next->thread : f->last_thread;
	uint64_t launched = next ? next->launch_begin : end;

	if (copied_ns(f, begin, end) * 2 > end - begin) {
		why.cause = GR_BY_COPY;
		return why;
	}
	if (next && !next->launch_end)
		return why;
	if (launched <= begin) {
		why.cause = after_launch(f->d, next);
		return why;
	}
	if (launched < end && end - launched > launched - begin) {
		why.cause = after_launch(f->d, next);
		return why;
	}
	if (launched > end) /* the clocks' error */
		launched = end;
	/* a thread that did nothing was waiting for another one's work (backward: autograd's
	 * threads) */
	if (!host_in(f->gr, thread, begin, launched, &why) && f->last_thread != thread)
		host_in(f->gr, f->last_thread, begin, launched, &why);
	return why;
}

/* ---- sums ---- */

static void add_why(struct gpu_report *gr, const struct gr_gap *g)
{
	uint64_t ns = g->end - g->begin;
	uint64_t k0 = (uint64_t)g->device << 40 | (uint64_t)g->why.cause << 36 |
		      (uint64_t)g->why.where << 32 | g->why.what;
	uint64_t k1 = (uint64_t)g->why.op << 32 | g->why.annotation;
	struct gr_why *y = list__keyed(KEYED_LIST(gr, whys, why), k0, k1);

	y->device = g->device;
	y->why = g->why;
	y->cnt++;
	y->ns += ns;
	y->max_ns = ns > y->max_ns ? ns : y->max_ns;
}

static void add_gap(struct finder *f, uint64_t begin, uint64_t end, const struct gr_work *next)
{
	struct gpu_report *gr = f->gr;
	struct gr_device *d = f->d;
	struct gr_gap g;

	if (end <= begin)
		return;
	if (end - begin < GR_GAP_MIN_NS) {
		d->short_cnt++;
		d->short_ns += end - begin;
		return;
	}
	g = (struct gr_gap){
		.begin = begin, .end = end, .device = d->id, .why = reason_of(f, begin, end, next)
	};
	d->gap_cnt++;
	d->idle_ns += end - begin;
	d->cause_cnt[g.why.cause]++;
	d->cause_ns[g.why.cause] += end - begin;
	if (g.why.cause == GR_BY_NO_LAUNCH)
		d->host_ns[g.why.where] += end - begin;
	vec_push(gr->gaps, gr->gap_cnt, gr->gap_cap, g);
	add_why(gr, &g);
}

void gr_gaps__find(struct gpu_report *gr, struct gr_device *d)
{
	struct finder f = { .gr = gr, .d = d, .copy = d->first_work, .last_thread = UINT32_MAX };
	uint64_t busy_until = gr->info->begin_ns, end = gr->info->end_ns;

	for (uint64_t i = d->first_work; i < d->last_work; i++) {
		const struct gr_work *w = &gr->work[i];

		if (w->kind == GR_KERNEL && w->begin > busy_until && busy_until < end)
			add_gap(&f, busy_until, w->begin < end ? w->begin : end, w);
		if (w->kind == GR_KERNEL && w->end > busy_until)
			busy_until = w->end;
		if (w->thread != UINT32_MAX)
			f.last_thread = w->thread;
	}
	if (busy_until < end && d->last_work > d->first_work)
		add_gap(&f, busy_until, end, NULL);
}

static int by_length(const void *a, const void *b)
{
	const struct gr_gap *x = a, *y = b;
	uint64_t l = x->end - x->begin, r = y->end - y->begin;

	if (l != r)
		return l < r ? 1 : -1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void gr_gaps__sort(struct gpu_report *gr)
{
	sort__array(gr->gaps, gr->gap_cnt, sizeof(*gr->gaps), by_length);
}

const char *gr__where_text(const struct gpu_report *gr, char *buf, size_t cap,
			   const struct gr_reason *why)
{
	const char *what = GR_TEXT(gr, why->what), *op = GR_TEXT(gr, why->op);
	const char *annotation = GR_TEXT(gr, why->annotation);
	const char *in = *op ? " in " : "";
	const char *a = *annotation ? " in \"" : "", *b = *annotation ? "\"" : "";

	if (why->where == GR_IN_PYTHON)
		what = "Python, no operator";
	else if (why->where == GR_NOWHERE)
		what = "";
	snprintf(buf, cap, "%s%s%s%s%s%s", what, in, op, a, annotation, b);
	return buf;
}
