/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The page's steps in order of time: of each thread that makes some, with those that stand out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "page/page_priv.h"
#include "report/report.h"

#define SERIES_MAX 16
#define STEPS_MAX 2000
#define SLOW_MAX 500 /* of these, that are there for being slow */
#define SLOW_STEPS 8 /* of fewer none is called slow */
#define SLOW_IQR 1.5 /* the rule of box plots */
#define SLOW_SHARE 1.05

struct step {
	uint64_t begin_ns, ns;
	int64_t nr;
};

struct step_series {
	uint32_t tgid, tid;
	bool derived;
	uint64_t all_ns;
	struct step *steps;
	uint32_t step_cnt, step_cap;
};

struct page_steps {
	const struct session *s;
	struct step_series *series;
	uint32_t series_cnt, series_cap;
	struct hashmap series_ids;
};

static int open_steps(const struct output_args *args, void **out)
{
	struct page_steps *ps = xcalloc(1, sizeof(*ps));

	ps->s = args->s;
	*out = ps;
	return 0;
}

static void free_steps(void *o)
{
	struct page_steps *ps = o;

	if (!ps)
		return;
	for (uint32_t i = 0; i < ps->series_cnt; i++)
		free(ps->series[i].steps);
	free(ps->series);
	hashmap__clear(&ps->series_ids);
	free(ps);
}

static void take_slice(void *arg, const struct slice *sl)
{
	struct page_steps *ps = arg;
	struct step_series *ss;
	const char *nr;

	if (!slice__is_whole_step(sl))
		return;
	ss = list__keyed(KEYED_LIST(ps, series, series), sl->tgid, sl->tid);
	ss->tgid = sl->tgid;
	ss->tid = sl->tid;
	ss->derived |= sl->flags & SLICE_DERIVED;
	ss->all_ns += sl->end_ns - sl->begin_ns;
	nr = strchr(sl->name, '#');
	vec_push(ss->steps, ss->step_cnt, ss->step_cap,
		 (struct step){ sl->begin_ns, sl->end_ns - sl->begin_ns,
				nr ? strtoll(nr + 1, NULL, 10) : -1 });
}

static struct session_sink steps_sink(void *o)
{
	return (struct session_sink){ .arg = o, .slice = take_slice };
}

/* ---- the document ---- */

static int by_time_in_steps(const void *a, const void *b)
{
	const struct step_series *x = a, *y = b;

	return sort__cmp(y->all_ns, x->all_ns);
}

static int by_begin(const void *a, const void *b)
{
	return sort__cmp(((const struct step *)a)->begin_ns, ((const struct step *)b)->begin_ns);
}

static uint64_t quantile(const uint64_t *sorted, uint32_t cnt, uint32_t percent)
{
	return sorted[(uint64_t)(cnt - 1) * percent / 100];
}

/* A longer one is slow; infinite: there are too few to say. */
static double slow_above(const uint64_t *sorted, uint32_t cnt)
{
	double q1 = (double)quantile(sorted, cnt, 25), q3 = (double)quantile(sorted, cnt, 75);
	double least = SLOW_SHARE * (double)quantile(sorted, cnt, 50);

	return cnt < SLOW_STEPS ? INFINITY : fmax(q3 + SLOW_IQR * (q3 - q1), least);
}

/* [number, begin, duration], ns. Of many every n-th, and the slowest of those that are slow. */
static void put_list(struct jsonw *w, const struct step_series *ss, const uint64_t *sorted,
		     double slow_ns, uint64_t begin_ns)
{
	uint32_t cnt = ss->step_cnt, every = 1;
	double kept_ns = slow_ns;

	if (cnt > STEPS_MAX) {
		every = (cnt + STEPS_MAX - SLOW_MAX - 1) / (STEPS_MAX - SLOW_MAX);
		kept_ns = fmax(slow_ns, (double)sorted[cnt - SLOW_MAX - 1]);
	}
	JSONW_U64(w, "every", every);
	JSONW_ARR(w, "list");
	for (uint32_t i = 0; i < cnt; i++) {
		const struct step *st = &ss->steps[i];

		if (i % every && (double)st->ns <= kept_ns)
			continue;
		jsonw__begin_arr(w);
		jsonw__i64(w, st->nr);
		jsonw__u64(w, st->begin_ns > begin_ns ? st->begin_ns - begin_ns : 0);
		jsonw__u64(w, st->ns);
		jsonw__end_arr(w);
	}
	jsonw__end_arr(w);
}

/* What followed without probes on operators. */
static void put_later(struct jsonw *w, const struct page_steps *ps, const struct step_series *ss)
{
	uint32_t cnt;
	const uint64_t *later = session__later_steps(ps->s, ss->tgid, ss->tid, &cnt);
	uint64_t *sorted = cnt ? vec_dup(later, cnt, sizeof(*later)) : NULL;

	JSONW_U64(w, "later_count", cnt);
	if (!cnt)
		return;
	sort__u64(sorted, cnt);
	JSONW_U64(w, "later_median_ns", quantile(sorted, cnt, 50));
	free(sorted);
}

static void put_series(struct jsonw *w, const struct page_steps *ps, struct step_series *ss)
{
	uint32_t cnt = ss->step_cnt, slow = 0;
	uint64_t *sorted = xcalloc(cnt, sizeof(*sorted));
	double slow_ns;

	for (uint32_t i = 0; i < cnt; i++)
		sorted[i] = ss->steps[i].ns;
	sort__u64(sorted, cnt);
	sort__array(ss->steps, cnt, sizeof(*ss->steps), by_begin);
	slow_ns = slow_above(sorted, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		slow += (double)sorted[i] > slow_ns;
	jsonw__begin_obj(w);
	JSONW_U64(w, "pid", ss->tgid);
	JSONW_U64(w, "tid", ss->tid);
	JSONW_BOOL(w, "derived", ss->derived);
	JSONW_U64(w, "count", cnt);
	JSONW_U64(w, "median_ns", quantile(sorted, cnt, 50));
	JSONW_U64(w, "p10_ns", quantile(sorted, cnt, 10));
	JSONW_U64(w, "p90_ns", quantile(sorted, cnt, 90));
	JSONW_U64(w, "longest_ns", sorted[cnt - 1]);
	JSONW_DOUBLE(w, "slow_above_ns", slow_ns);
	JSONW_U64(w, "slow", slow);
	put_later(w, ps, ss);
	put_list(w, ss, sorted, slow_ns, session__info(ps->s)->begin_ns);
	jsonw__end_obj(w);
	free(sorted);
}

static int finish_steps(void *o, const struct output_args *args)
{
	struct page_steps *ps = o;
	struct jsonw w;

	if (!ps->series_cnt)
		return 0;
	sort__array(ps->series, ps->series_cnt, sizeof(*ps->series), by_time_in_steps);
	page_json__begin(&w, args);
	JSONW_U64(&w, "series_count", ps->series_cnt);
	JSONW_ARR(&w, "series");
	for (uint32_t i = 0; i < ps->series_cnt && i < SERIES_MAX; i++)
		put_series(&w, ps, &ps->series[i]);
	jsonw__end_arr(&w);
	return page_json__end(&w);
}

const struct output page_steps = {
	.open = open_steps,
	.sink = steps_sink,
	.finish = finish_steps,
	.free = free_steps,
};
