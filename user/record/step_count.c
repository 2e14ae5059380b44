/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See step_count.h.
 *
 * A thread's open annotations are kept in the order of their begin, as far as the capture has them: those that began before
 * the window are in it only where an agent recorded them.
 */
#define LOG_DOMAIN "steps"
#include "record/step_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/hashmap.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"

#define OPEN_MAX 24
#define SLACK_NS 2000000        /* from a probe's reading of the clock to its record */
#define NAME_VALID_NS 100000000 /* as in model/scopes.c */

struct step_open {
	uint64_t id, sp, begin_ns, text;
	enum step_what what;
	bool agent, frame;
};

struct tally {
	uint64_t ends;
	uint64_t first_ns, last_ns; /* the first step's begin, where that is known, else its end; the last one's end */
	uint64_t done_ns, surplus_ns; /* when the last awaited one ended, and the one after it; 0: not yet */
};

enum { DERIVED, OWN, TALLIES };

struct step_thread {
	uint32_t tgid, tid;
	uint32_t phase; /* of the tallies */
	struct step_open open[OPEN_MAX];
	uint32_t open_cnt;
	bool named, due;
	enum step_what name_what;
	uint64_t name_ns, name_sp, name_text;
	uint64_t own_ns; /* names only: of the announced step that began last; 0: none has */
	uint64_t mark;   /* text that marks this thread's steps: the first one of the phase */
	struct tally tallies[TALLIES];
};

struct step_proc {
	uint32_t tgid;
	uint32_t own_phase; /* announced steps itself then */
	bool ended;
	const struct tally *best; /* of its threads */
};

struct queued {
	struct step_event ev;
	uint64_t nr;
};

struct step_count {
	struct step_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_by_id;
	struct step_proc *procs;
	uint32_t proc_cnt, proc_cap;
	struct queued *queue;
	uint32_t queue_cnt, queue_cap;
	uint64_t queue_nr;
	uint32_t phase;
	uint64_t since_ns;
	uint64_t need[TALLIES];
	uint64_t step_ns;
	bool names_only;
	bool over_threads; /* reported */
	const struct step_hooks *hooks;
};

struct step_count *step_count__new(void)
{
	return xcalloc(1, sizeof(struct step_count));
}

void step_count__free(struct step_count *sc)
{
	if (!sc)
		return;
	hashmap__clear(&sc->thread_by_id);
	free(sc->threads);
	free(sc->procs);
	free(sc->queue);
	free(sc);
}

void step_count__set_hooks(struct step_count *sc, const struct step_hooks *hooks)
{
	sc->hooks = hooks;
}

void step_count__names_only(struct step_count *sc)
{
	sc->names_only = true;
}

static struct step_proc *find_proc(struct step_count *sc, uint32_t tgid)
{
	for (uint32_t i = 0; i < sc->proc_cnt; i++)
		if (sc->procs[i].tgid == tgid)
			return &sc->procs[i];
	vec_push(sc->procs, sc->proc_cnt, sc->proc_cap, (struct step_proc){ .tgid = tgid });
	return &sc->procs[sc->proc_cnt - 1];
}

static void announces_own(struct step_count *sc, uint32_t tgid)
{
	struct step_proc *p = find_proc(sc, tgid);

	p->own_phase = sc->phase;
}

static struct step_thread *find_thread(struct step_count *sc, uint32_t tgid, uint32_t tid, bool add)
{
	const uint64_t *known = hashmap__get(&sc->thread_by_id, tgid, tid);

	if (known)
		return &sc->threads[*known];
	if (add && sc->thread_cnt >= LIMIT_STEP_THREADS && !sc->over_threads) {
		pr_warn("more than %d threads have annotations: steps of the others are not counted",
			LIMIT_STEP_THREADS);
		sc->over_threads = true;
	}
	if (!add || sc->thread_cnt >= LIMIT_STEP_THREADS || !find_proc(sc, tgid))
		return NULL;
	vec_push(sc->threads, sc->thread_cnt, sc->thread_cap,
		 (struct step_thread){ .tgid = tgid, .tid = tid });
	hashmap__put(&sc->thread_by_id, tgid, tid, sc->thread_cnt - 1);
	return &sc->threads[sc->thread_cnt - 1];
}

static void drop_thread(struct step_count *sc, uint32_t i)
{
	const struct step_thread *last = &sc->threads[--sc->thread_cnt];
	uint64_t *at = hashmap__get(&sc->thread_by_id, last->tgid, last->tid);

	if (at)
		*at = i;
	hashmap__del(&sc->thread_by_id, sc->threads[i].tgid, sc->threads[i].tid);
	if (i < sc->thread_cnt)
		sc->threads[i] = *last;
}

/* Another thread may have its number later. Where there is a count, steps that it has ended are part of it, and what is open may end on another thread. */
static void end_thread(struct step_count *sc, uint32_t tgid, uint32_t tid)
{
	const uint64_t *known = hashmap__get(&sc->thread_by_id, tgid, tid);
	const struct step_thread *t = known ? &sc->threads[*known] : NULL;

	if (t && (sc->names_only || (!t->open_cnt && !t->tallies[DERIVED].ends && !t->tallies[OWN].ends)))
		drop_thread(sc, (uint32_t)*known);
}

void step_count__forget(struct step_count *sc, uint32_t tgid)
{
	for (uint32_t i = sc->thread_cnt; i--;)
		if (sc->threads[i].tgid == tgid)
			drop_thread(sc, i);
	for (uint32_t i = sc->proc_cnt; i--;)
		if (sc->procs[i].tgid == tgid)
			sc->procs[i] = sc->procs[--sc->proc_cnt];
}

/* The thread's first event since the count began. */
static void begin_phase(struct step_count *sc, struct step_thread *t)
{
	uint32_t n = 0;

	t->phase = sc->phase;
	t->named = t->due = false;
	t->mark = t->own_ns = 0;
	memset(t->tallies, 0, sizeof(t->tallies));
	for (uint32_t i = 0; i < t->open_cnt; i++) {
		if (!t->open[i].agent)
			continue;
		if (t->open[i].what == STEP_MARK && !t->mark)
			t->mark = t->open[i].text;
		if (t->open[i].what == STEP_OWN)
			announces_own(sc, t->tgid);
		t->open[n++] = t->open[i];
	}
	t->open_cnt = n;
}

static bool announces(const struct step_count *sc, uint32_t tgid)
{
	for (uint32_t i = 0; i < sc->proc_cnt; i++)
		if (sc->procs[i].tgid == tgid)
			return sc->procs[i].own_phase == sc->phase;
	return false;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void count_end(const struct step_count *sc, struct step_thread *t, int which,
		      uint64_t begin_ns, uint64_t at_ns)
{
	struct tally *ta = &t->tallies[which];
	uint64_t ts = later(at_ns, later(begin_ns, ta->last_ns)); /* an agent's events may have any order */
	const struct step_end e = { .tgid = t->tgid,
				    .tid = t->tid,
				    .begin_ns = which == OWN ? begin_ns : ta->last_ns,
				    .end_ns = ts };

	if (sc->hooks && announces(sc, t->tgid) == (which == OWN))
		sc->hooks->ended(sc->hooks->arg, &e);
	if (!ta->ends++)
		ta->first_ns = begin_ns;
	ta->last_ns = ts;
	if (ta->ends == sc->need[which])
		ta->done_ns = ts;
	else if (ta->ends == sc->need[which] + 1 && ts > ta->done_ns)
		ta->surplus_ns = ts;
}

/* Ends the open ones from index i on: what is open in one that ends, ends with it. */
static void end_from(const struct step_count *sc, struct step_thread *t, uint32_t i, uint64_t ts)
{
	while (t->open_cnt > i) {
		const struct step_open *o = &t->open[--t->open_cnt];

		if (o->what == STEP_OWN && o->begin_ns >= sc->since_ns)
			count_end(sc, t, OWN, o->begin_ns, ts);
		t->due |= o->what == STEP_MARK && o->text == t->mark;
	}
	if (!t->due || t->open_cnt)
		return;
	t->due = false;
	count_end(sc, t, DERIVED, ts, ts);
}

/* Frames at or below the stack pointer are gone. */
static void drop_dead(const struct step_count *sc, struct step_thread *t, uint64_t sp, uint64_t ts)
{
	uint32_t i = t->open_cnt;

	for (uint32_t k = t->open_cnt; k--;)
		if (t->open[k].frame && t->open[k].sp <= sp)
			i = k;
	if (i < t->open_cnt)
		end_from(sc, t, i, ts);
}

static uint32_t find_open(const struct step_thread *t, uint64_t id, bool frame)
{
	uint32_t i = t->open_cnt;

	while (i-- && !(t->open[i].id == id && t->open[i].frame == frame))
		;
	return i; /* UINT32_MAX: none */
}

static void open_one(struct step_count *sc, struct step_thread *t, const struct step_event *ev,
		     enum step_what what, uint64_t text)
{
	if (what == STEP_MARK && !t->mark)
		t->mark = text;
	if (what == STEP_OWN)
		announces_own(sc, t->tgid);
	if (t->open_cnt < OPEN_MAX)
		t->open[t->open_cnt++] = (struct step_open){ .id = ev->id,
							     .sp = ev->sp,
							     .begin_ns = ev->ts_ns,
							     .text = text,
							     .what = what,
							     .agent = !ev->sp,
							     .frame = ev->kind == STEP_ENTER };
}

static void on_begin(struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	uint32_t i = find_open(t, ev->id, false);
	bool named = t->named && ev->sp && ev->sp < t->name_sp && ev->ts_ns <= t->name_ns + NAME_VALID_NS;

	if (i != UINT32_MAX && ev->text && ev->sp)
		return; /* its name is known from its constructor */
	if (i != UINT32_MAX)
		end_from(sc, t, i, ev->ts_ns); /* another object at this address: that one's end was not seen */
	if (named)
		open_one(sc, t, ev, t->name_what, t->name_text);
	else if (ev->text)
		open_one(sc, t, ev, ev->what, ev->text);
	t->named &= !named;
}

static void on_name(struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	t->named = true;
	t->name_what = ev->what;
	t->name_text = ev->text;
	t->name_sp = ev->sp;
	t->name_ns = ev->ts_ns;
	if (ev->what == STEP_MARK && !t->mark)
		t->mark = ev->text;
	if (ev->what == STEP_OWN)
		announces_own(sc, t->tgid);
}

/* Ends are not recorded: a step ends when the next one begins. */
static void begin_named(const struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	if (ev->what == STEP_OWN) {
		if (t->own_ns)
			count_end(sc, t, OWN, t->own_ns, ev->ts_ns);
		t->own_ns = ev->ts_ns;
	} else if (ev->what == STEP_MARK && ev->text == t->mark) {
		count_end(sc, t, DERIVED, ev->ts_ns, ev->ts_ns);
	}
}

/* Objects may end on another thread than they began on. */
static void on_end(struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	uint32_t i = t ? find_open(t, ev->id, false) : UINT32_MAX;

	for (uint32_t k = 0; k < sc->thread_cnt && i == UINT32_MAX; k++)
		if (sc->threads[k].tgid == ev->tgid && sc->threads[k].open_cnt) {
			t = &sc->threads[k];
			i = find_open(t, ev->id, false);
		}
	if (i != UINT32_MAX)
		end_from(sc, t, i, ev->ts_ns);
}

static void apply(struct step_count *sc, const struct step_event *ev)
{
	bool opens = ev->kind == STEP_BEGIN || ev->kind == STEP_NAME || ev->kind == STEP_ENTER;
	bool ends = ev->kind == STEP_END || ev->kind == STEP_THREAD_END || ev->kind == STEP_PROCESS_END;
	struct step_thread *t = find_thread(sc, ev->tgid, ev->tid, opens);

	if (!t && !ends)
		return;
	if (t && t->phase != sc->phase && ev->ts_ns >= sc->since_ns)
		begin_phase(sc, t);
	switch (ev->kind) {
	case STEP_NAME:
		on_name(sc, t, ev);
		if (sc->names_only)
			begin_named(sc, t, ev);
		break;
	case STEP_BEGIN:
		on_begin(sc, t, ev);
		break;
	case STEP_END:
		on_end(sc, t, ev);
		break;
	case STEP_PROCESS_END:
		if (sc->names_only)
			step_count__forget(sc, ev->tgid);
		break;
	case STEP_THREAD_END:
		end_thread(sc, ev->tgid, ev->tid);
		break;
	case STEP_ENTER:
		drop_dead(sc, t, ev->sp, ev->ts_ns);
		open_one(sc, t, ev, ev->what, ev->text);
		break;
	case STEP_EXIT: {
		uint32_t i;

		drop_dead(sc, t, ev->sp, ev->ts_ns);
		i = find_open(t, ev->id, true);
		if (i != UINT32_MAX)
			end_from(sc, t, i, ev->ts_ns);
		break;
	}
	}
}

void step_count__agent(struct step_count *sc, const struct step_event *ev)
{
	apply(sc, ev);
}

void step_count__put(struct step_count *sc, const struct step_event *ev)
{
	const struct queued q = { .ev = *ev, .nr = sc->queue_nr++ };

	vec_push(sc->queue, sc->queue_cnt, sc->queue_cap, q);
}

static int by_time(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;

	if (x->ev.ts_ns != y->ev.ts_ns)
		return x->ev.ts_ns < y->ev.ts_ns ? -1 : 1;
	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

/* A thread's records are in the rings of the processors that it ran on. */
void step_count__round(struct step_count *sc, uint64_t until_ns)
{
	uint32_t i;

	if (!sc->queue_cnt)
		return;
	qsort(sc->queue, sc->queue_cnt, sizeof(*sc->queue), by_time);
	for (i = 0; i < sc->queue_cnt && sc->queue[i].ev.ts_ns + SLACK_NS < until_ns; i++)
		apply(sc, &sc->queue[i].ev);
	sc->queue_cnt -= i;
	memmove(sc->queue, sc->queue + i, sc->queue_cnt * sizeof(*sc->queue));
}

void step_count__lost(struct step_count *sc)
{
	for (uint32_t i = 0; i < sc->thread_cnt; i++) {
		sc->threads[i].open_cnt = 0;
		sc->threads[i].own_ns = 0;
	}
	if (sc->hooks && sc->hooks->lost)
		sc->hooks->lost(sc->hooks->arg);
}

void step_count__process_ended(struct step_count *sc, uint32_t tgid)
{
	for (uint32_t i = 0; i < sc->proc_cnt; i++)
		if (sc->procs[i].tgid == tgid)
			sc->procs[i].ended = true;
}

static void await(struct step_count *sc, uint64_t now_ns, uint64_t derived, uint64_t own)
{
	sc->phase++;
	sc->since_ns = now_ns;
	sc->need[DERIVED] = derived;
	sc->need[OWN] = own;
}

void step_count__await_ends(struct step_count *sc, uint64_t now_ns, uint32_t ends)
{
	await(sc, now_ns, ends, ends);
}

void step_count__await_whole(struct step_count *sc, uint64_t now_ns, uint32_t whole)
{
	await(sc, now_ns, (uint64_t)whole + 1, whole);
}

/* Of each process: the thread with the most steps. */
static void choose_best(struct step_count *sc)
{
	for (uint32_t i = 0; i < sc->proc_cnt; i++)
		sc->procs[i].best = NULL;
	for (uint32_t i = 0; i < sc->thread_cnt; i++) {
		const struct step_thread *t = &sc->threads[i];
		struct step_proc *p = find_proc(sc, t->tgid);
		const struct tally *ta;

		if (t->phase != sc->phase)
			continue;
		ta = &t->tallies[p->own_phase == sc->phase ? OWN : DERIVED];
		if (ta->ends && (!p->best || ta->ends > p->best->ends))
			p->best = ta;
	}
}

static uint64_t mean_step(const struct step_count *sc, const struct step_proc *p)
{
	uint64_t steps = p->best->ends - (p->own_phase != sc->phase);

	return steps ? (p->best->last_ns - p->best->first_ns) / steps : 0;
}

enum step_verdict step_count__verdict(struct step_count *sc, uint64_t now_ns, uint64_t timeout_ns)
{
	const struct step_proc *last = NULL; /* the one that was awaited longest */
	bool awaited = false, stalled = false;

	choose_best(sc);
	for (uint32_t i = 0; i < sc->proc_cnt; i++) {
		const struct step_proc *p = &sc->procs[i];

		if (!p->best || (p->ended && !p->best->done_ns))
			continue;
		if (!p->best->done_ns && now_ns <= p->best->last_ns + timeout_ns)
			awaited = true;
		stalled |= !p->best->done_ns;
		if (!last || p->best->last_ns - p->best->first_ns >
				     last->best->last_ns - last->best->first_ns)
			last = p;
	}
	if (!last)
		return now_ns > sc->since_ns + timeout_ns ? STEPS_STALLED : STEPS_AWAITED;
	if (mean_step(sc, last))
		sc->step_ns = mean_step(sc, last);
	if (awaited)
		return STEPS_AWAITED;
	return stalled ? STEPS_STALLED : STEPS_DONE;
}

uint64_t step_count__surplus_ns(struct step_count *sc)
{
	const struct tally *slowest = NULL;

	step_count__round(sc, UINT64_MAX);
	choose_best(sc);
	for (uint32_t i = 0; i < sc->proc_cnt; i++) {
		const struct tally *ta = sc->procs[i].best;

		if (ta && !ta->done_ns)
			return UINT64_MAX; /* what was awaited did not come */
		if (ta && (!slowest || ta->done_ns > slowest->done_ns))
			slowest = ta;
	}
	return slowest && slowest->surplus_ns ? slowest->surplus_ns : UINT64_MAX;
}

uint64_t step_count__step_ns(const struct step_count *sc)
{
	return sc->step_ns;
}
