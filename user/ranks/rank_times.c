/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See rank_times.h: the sink, the ranks, their collectives and steps, and the verdict. */
#include "ranks/ranks_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/facts_json.h"

static const char loading[] = SESSION_LOADER "#";

/* ---- the sink ---- */

struct rank_times *rank_times__new(const struct session *s)
{
	struct rank_times *rt = xcalloc(1, sizeof(*rt));

	rt->s = s;
	collectives__init(&rt->calls);
	text_ids__init(&rt->texts);
	rt->loading = text_ids__get(&rt->texts, RANK_LOADING);
	rt->outside = text_ids__get(&rt->texts, RANK_OUTSIDE);
	collectives__begin(&rt->calls, s, 0);
	rt->calls_sink = collectives__sink(&rt->calls);
	return rt;
}

void rank_times__free(struct rank_times *rt)
{
	if (!rt)
		return;
	collectives__clear(&rt->calls);
	text_ids__free(&rt->texts);
	hashmap__clear(&rt->piece_ids);
	free(rt->steps);
	free(rt->pieces);
	free(rt->out.ranks);
	free(rt->out.waits);
	free(rt->lists);
	free(rt->lags);
	free(rt->last_ns);
	free(rt->step_of);
	free(rt->step_nrs);
	free(rt->step_ns);
	free(rt->own);
	free(rt);
}

static void add_piece(struct rank_times *rt, const struct slice *sl, uint32_t name, uint64_t ns)
{
	const uint64_t *proc = hashmap__get(&rt->calls.proc_ids, 0, sl->tgid);
	uint32_t nr = proc ? rt->calls.procs[*proc].cnt : 0;
	struct rt_piece *p =
		list__keyed(KEYED_LIST(rt, pieces, piece), (uint64_t)sl->tgid << 32 | nr, name);

	*p = (struct rt_piece){ .tgid = sl->tgid, .nr = nr, .name = name, .ns = p->ns + ns };
}

/* An operator that only waits. */
static bool is_wait(const char *name)
{
	return !strncmp(name, "c10d::", 6) || !strcmp(name, "_c10d_functional::wait_tensor");
}

static void note_step(struct rank_times *rt, const struct slice *sl)
{
	struct rt_step st = { .tgid = sl->tgid, .begin_ns = sl->begin_ns, .end_ns = sl->end_ns };

	if (!step_name__is(sl->name) ||
	    sl->flags & (SLICE_PARTIAL | SLICE_OPEN_AT_BEGIN | SLICE_UNFINISHED))
		return;
	st.nr = strtoll(sl->name + strlen(STEP_OWN_NAME), NULL, 10);
	vec_push(rt->steps, rt->step_cnt, rt->step_cap, st);
}

static void on_slice(void *arg, const struct slice *sl)
{
	struct rank_times *rt = arg;
	uint64_t whole = sl->end_ns - sl->begin_ns,
		 self = whole > sl->child_ns ? whole - sl->child_ns : 0;

	rt->calls_sink.slice(rt->calls_sink.arg, sl);
	if (sl->tid != sl->tgid && !sl->backward)
		return;
	if (sl->cat == SLICE_USER_ANNOTATION && !strncmp(sl->name, loading, sizeof(loading) - 1))
		add_piece(rt, sl, rt->loading, whole);
	else if (sl->cat == SLICE_USER_ANNOTATION)
		note_step(rt, sl);
	else if (*sl->name && !is_wait(sl->name) &&
		 !slice__is_within(rt->s, sl, SLICE_USER_ANNOTATION, loading))
		add_piece(rt, sl, text_ids__get(&rt->texts, sl->name), self);
}

struct session_sink rank_times__sink(struct rank_times *rt)
{
	return (struct session_sink){ .arg = rt, .slice = on_slice };
}

/* ---- ranks, and what they have in common ---- */

static int cmp_ranks(const void *a, const void *b)
{
	const struct rank_time *x = a, *y = b;
	uint64_t kx = x->has_rank ? x->rank.rank : UINT32_MAX,
		 ky = y->has_rank ? y->rank.rank : UINT32_MAX;

	return kx != ky ? sort__cmp(kx, ky) : sort__cmp(x->proc->tgid, y->proc->tgid);
}

static void find_ranks(struct rank_times *rt)
{
	const struct session_info *info = session__info(rt->s);
	struct rank_times_result *o = &rt->out;

	o->ranks = xcalloc((size_t)info->process_cnt + 1, sizeof(*o->ranks));
	rt->lists = xcalloc((size_t)info->process_cnt + 1, sizeof(*rt->lists));
	rt->lags = xcalloc((size_t)info->process_cnt + 1, sizeof(*rt->lags));
	for (uint32_t i = 0; i < info->process_cnt; i++) {
		struct rank_time r = { .proc = &info->processes[i], .before = "" };

		if (!collectives__of(&rt->calls, 0, r.proc->tgid))
			continue;
		r.has_rank = job_json__rank_of(r.proc, &r.rank);
		o->ranks[o->rank_cnt++] = r;
	}
	sort__array(o->ranks, o->rank_cnt, sizeof(*o->ranks), cmp_ranks);
}

/* Leaves the ranks whose collectives are those of the first one, and finds which of these all
 * have. */
static void match_ranks(struct rank_times *rt)
{
	struct rank_times_result *o = &rt->out;
	const struct rank_calls *first =
		o->rank_cnt ? collectives__of(&rt->calls, 0, o->ranks[0].proc->tgid) : NULL;
	uint32_t n = 0;

	rt->to = first ? first->cnt : 0;
	for (uint32_t i = 0; i < o->rank_cnt; i++) {
		const struct rank_calls *c = collectives__of(&rt->calls, 0, o->ranks[i].proc->tgid);
		struct calls_match m = { .pairs = 1 };

		if (i)
			m = calls_match__find(first, c, 0, 2 * session__info(rt->s)->clock_err_ns);
		if (!m.pairs) {
			o->unmatched++;
			continue;
		}
		o->guessed |= i && (!m.bounds || !calls_match__consistent(&m));
		if (m.lag > rt->from)
			rt->from = m.lag;
		if ((int64_t)c->cnt + m.lag < rt->to)
			rt->to = (int64_t)c->cnt + m.lag;
		o->ranks[n] = o->ranks[i];
		rt->lists[n] = c;
		rt->lags[n++] = m.lag;
	}
	o->rank_cnt = n;
	o->matched = n > 1 && rt->to > rt->from ? (uint32_t)(rt->to - rt->from) : 0;
}

static void find_last_calls(struct rank_times *rt)
{
	rt->last_ns = xcalloc((size_t)rt->out.matched + 1, sizeof(*rt->last_ns));
	rt->step_of = xcalloc((size_t)rt->out.matched + 1, sizeof(*rt->step_of));
	for (int64_t c = rt->from; c < rt->to; c++)
		for (uint32_t r = 0; r < rt->out.rank_cnt; r++) {
			uint64_t at = rt__call(rt, r, c)->begin_ns,
				 *last = &rt->last_ns[c - rt->from];

			*last = at > *last ? at : *last;
		}
}

/* ---- steps ---- */

static int cmp_steps(const void *a, const void *b)
{
	const struct rt_step *x = a, *y = b;

	return sort__cmp(x->begin_ns, y->begin_ns);
}

/* Only the first rank's, in order. */
static void take_steps(struct rank_times *rt)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rt->step_cnt; i++)
		if (rt->steps[i].tgid == rt->out.ranks[0].proc->tgid)
			rt->steps[n++] = rt->steps[i];
	rt->step_cnt = n;
	sort__array(rt->steps, n, sizeof(*rt->steps), cmp_steps);
}

/* The step in which the first rank calls it; -1: in none. */
static int64_t step_at(const struct rank_times *rt, int64_t c)
{
	uint64_t at = rt__call(rt, 0, c)->begin_ns;
	uint32_t lo = 0, hi = rt->step_cnt;

	BISECT(lo, hi, mid, rt->steps[mid].begin_ns <= at);
	return lo && at < rt->steps[lo - 1].end_ns ? (int64_t)lo - 1 : -1;
}

/* Not those of which some rank's window has only a part: the first, and the last if more of it
 * follows. */
static uint32_t number_steps(struct rank_times *rt)
{
	int64_t edge = step_at(rt, rt->from), end = -1, known = -1;
	uint32_t n = 0;

	if (rt->to < (int64_t)rt->lists[0]->cnt && step_at(rt, rt->to) == step_at(rt, rt->to - 1))
		end = step_at(rt, rt->to);
	for (int64_t c = rt->from; c < rt->to; c++) {
		int64_t at = step_at(rt, c);

		rt->step_of[c - rt->from] = -1;
		if (at < 0 || at == edge || at == end)
			continue;
		if (at != known) {
			rt->step_nrs[n] = rt->steps[at].nr;
			rt->step_ns[n++] = (double)(rt->steps[at].end_ns - rt->steps[at].begin_ns);
		}
		known = at;
		rt->step_of[c - rt->from] = (int32_t)n - 1;
	}
	return n;
}

/* Where there are no steps each collective ends one. */
static uint32_t number_collectives(struct rank_times *rt)
{
	uint32_t n = 0;

	rt->step_of[0] = -1;
	for (int64_t c = rt->from + 1; c < rt->to; c++) {
		int64_t i = c - rt->from;

		rt->step_of[i] = (int32_t)n;
		rt->step_nrs[n] = i;
		rt->step_ns[n++] = (double)(rt->last_ns[i] - rt->last_ns[i - 1]);
	}
	return n;
}

static void find_steps(struct rank_times *rt)
{
	struct rank_times_result *o = &rt->out;

	take_steps(rt);
	rt->step_nrs = xcalloc((size_t)o->matched + 1, sizeof(*rt->step_nrs));
	rt->step_ns = xcalloc((size_t)o->matched + 1, sizeof(*rt->step_ns));
	o->by_steps = rt->step_cnt > 0;
	o->step_cnt = o->by_steps ? number_steps(rt) : number_collectives(rt);
	o->step_nrs = rt->step_nrs;
	for (uint32_t s = 0; s < o->step_cnt; s++)
		o->step_ns += rt->step_ns[s] / o->step_cnt;
}

/* ---- times ---- */

double rt__own_before(const struct rank_times *rt, uint32_t rank, int64_t c)
{
	const struct collective *now = rt__call(rt, rank, c), *before = rt__call(rt, rank, c - 1);
	uint64_t begin = rt->last_ns[c - 1 - rt->from];
	bool same_pass = before->backward && now->backward && before->until_ns > now->begin_ns;

	/* it did not wait: the rest of a backward pass, or an asynchronous call */
	if (same_pass || begin > now->begin_ns || !before->waits)
		begin = before->end_ns;
	return now->begin_ns > begin ? (double)(now->begin_ns - begin) : 0;
}

static void sum_own(struct rank_times *rt)
{
	struct rank_times_result *o = &rt->out;

	rt->own = xcalloc((size_t)o->rank_cnt * o->step_cnt + 1, sizeof(*rt->own));
	for (uint32_t r = 0; r < o->rank_cnt; r++) {
		double *own = &rt->own[(size_t)r * o->step_cnt];

		for (int64_t c = rt->from + 1; c < rt->to; c++)
			if (rt->step_of[c - rt->from] >= 0)
				own[rt->step_of[c - rt->from]] += rt__own_before(rt, r, c);
		for (uint32_t s = 0; s < o->step_cnt; s++)
			o->ranks[r].own_ns += own[s] / o->step_cnt;
	}
}

static void keep_wait(struct rank_times_result *o, const struct rank_wait *w)
{
	uint32_t at = o->wait_cnt < RANK_WAITS ? o->wait_cnt++ : RANK_WAITS - 1;

	if (at == RANK_WAITS - 1 && o->waits[at].ns >= w->ns && o->wait_cnt == RANK_WAITS &&
	    o->waits[at].name)
		return;
	for (; at && o->waits[at - 1].ns < w->ns; at--)
		o->waits[at] = o->waits[at - 1];
	o->waits[at] = *w;
}

static void sum_wait(struct rank_times *rt, int64_t c)
{
	struct rank_times_result *o = &rt->out;
	uint64_t last_ns = rt->last_ns[c - rt->from], sum = 0;
	int32_t step = rt->step_of[c - rt->from];
	struct rank_wait w = { .name = strtab__text(rt->calls.texts, rt__call(rt, 0, c)->name),
			       .at_ns = last_ns - session__info(rt->s)->begin_ns,
			       .step = step < 0 ? -1 : rt->step_nrs[step] };

	for (uint32_t r = 0; r < o->rank_cnt; r++) {
		uint64_t ns = last_ns - rt__call(rt, r, c)->begin_ns;

		o->ranks[r].waited_ns += ns;
		sum += ns;
		if (!ns)
			w.last = r;
		if (ns > w.ns) {
			w.ns = ns;
			w.first = r;
		}
	}
	o->ranks[w.last].caused_ns += sum;
	o->ranks[w.last].last_cnt++;
	keep_wait(o, &w);
}

static void judge(struct rank_times *rt)
{
	struct rank_times_result *o = &rt->out;
	struct skew_verdict *v = xcalloc((size_t)o->rank_cnt + 1, sizeof(*v));

	skew__judge(rt->own, rt->step_ns, o->rank_cnt, o->step_cnt, v);
	for (uint32_t r = 0; r < o->rank_cnt; r++)
		o->ranks[r].verdict = v[r];
	free(v);
}

const struct rank_times_result *rank_times__finish(struct rank_times *rt)
{
	collectives__end(&rt->calls);
	find_ranks(rt);
	match_ranks(rt);
	if (!rt->out.matched)
		return &rt->out;
	rt->out.waits = xcalloc(RANK_WAITS, sizeof(*rt->out.waits));
	find_last_calls(rt);
	find_steps(rt);
	sum_own(rt);
	for (int64_t c = rt->from; c < rt->to; c++)
		if (rt__call(rt, 0, c)->waits)
			sum_wait(rt, c);
	judge(rt);
	rt__find_causes(rt);
	return &rt->out;
}
