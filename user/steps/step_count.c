/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * See step_count.h.
 *
 * A thread's open annotations are kept in the order of their begin, as far as the capture has them:
 * those that began before the window are in it only where an agent recorded them. What was open
 * when records were lost ends when its end comes, but nothing waits for that any more.
 */
#define LOG_DOMAIN "steps"
#include "steps/step_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "ptb_event.h"

#define OPEN_MAX 24
#define SLACK_NS 2000000 /* from a probe's reading of the clock to its record */

struct step_open {
	uint64_t id, sp, begin_ns, text;
	uint64_t losses; /* before it began */
	enum step_what what;
	bool agent, frame;
};

struct tally {
	uint64_t ends;
	/* the first step's begin, where that is known, else its end; the last one's end */
	uint64_t first_ns, last_ns;
	/* when the last awaited one ended, and the one after it; 0: not yet */
	uint64_t done_ns, surplus_ns;
};

enum { DERIVED, OWN, TALLIES };

struct step_thread {
	uint32_t tgid, tid;
	uint32_t phase; /* of the tallies */
	struct step_open *open;
	uint32_t open_cnt, open_cap;
	bool named, due;
	enum step_what name_what;
	uint64_t name_ns, name_sp, name_text;
	/* names only: of the announced step that began last; 0: none has */
	uint64_t own_ns, own_losses;
	uint64_t mark; /* text that marks this thread's steps: the first one of the phase */
	struct tally tallies[TALLIES];
};

struct step_proc {
	uint32_t tgid;
	uint32_t own_phase; /* announced steps itself then */
	bool ended;
	const struct tally *best; /* of its threads */
};

struct step_count {
	struct step_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_by_id; /* (tgid, tid) -> index */
	struct hashmap owners;       /* (tgid, open object) -> tid of the thread that it began on */
	struct step_proc *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_by_id; /* tgid -> index */
	struct step_event *queue;
	uint32_t queue_cnt, queue_cap;
	uint64_t losses;
	uint32_t phase;
	uint64_t since_ns;
	uint64_t need[TALLIES];
	uint64_t step_ns;
	bool names_only;
	bool over_threads; /* reported */
	const struct step_hooks *hooks;
};

struct step_count *step_count__new(const struct step_hooks *hooks, bool names_only)
{
	struct step_count *sc = xcalloc(1, sizeof(*sc));

	sc->hooks = hooks;
	sc->names_only = names_only;
	return sc;
}

void step_count__free(struct step_count *sc)
{
	if (!sc)
		return;
	for (uint32_t i = 0; i < sc->thread_cnt; i++)
		free(sc->threads[i].open);
	hashmap__clear(&sc->thread_by_id);
	hashmap__clear(&sc->owners);
	hashmap__clear(&sc->proc_by_id);
	free(sc->threads);
	free(sc->procs);
	free(sc->queue);
	free(sc);
}

/* NULL: nothing is known of it. */
static struct step_proc *known_proc(const struct step_count *sc, uint32_t tgid)
{
	const uint64_t *i = hashmap__get(&sc->proc_by_id, tgid, 0);

	return i ? &sc->procs[*i] : NULL;
}

static struct step_proc *find_proc(struct step_count *sc, uint32_t tgid)
{
	struct step_proc *p = known_proc(sc, tgid);

	if (p)
		return p;
	hashmap__put(&sc->proc_by_id, tgid, 0, sc->proc_cnt);
	vec_push(sc->procs, sc->proc_cnt, sc->proc_cap, (struct step_proc){ .tgid = tgid });
	return &sc->procs[sc->proc_cnt - 1];
}

bool step_count__announces(const struct step_count *sc, uint32_t tgid)
{
	const struct step_proc *p = known_proc(sc, tgid);

	return p && p->own_phase == sc->phase;
}

/* The thread has an annotation of that name. */
static void note_name(struct step_count *sc, struct step_thread *t, enum step_what what,
		      uint64_t text)
{
	if (what == STEP_OWN)
		find_proc(sc, t->tgid)->own_phase = sc->phase;
	if (what != STEP_MARK || t->mark)
		return;
	t->mark = text;
	if (sc->hooks && sc->hooks->marked)
		sc->hooks->marked(sc->hooks->arg, t->tgid, t->tid);
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
	if (!add || sc->thread_cnt >= LIMIT_STEP_THREADS)
		return NULL;
	find_proc(sc, tgid);
	vec_push(sc->threads, sc->thread_cnt, sc->thread_cap,
		 (struct step_thread){ .tgid = tgid, .tid = tid });
	hashmap__put(&sc->thread_by_id, tgid, tid, sc->thread_cnt - 1);
	return &sc->threads[sc->thread_cnt - 1];
}

/* Nothing more is known of the open ones from index `from` on. */
static void drop_open(struct step_count *sc, struct step_thread *t, uint32_t from)
{
	while (t->open_cnt > from)
		if (!t->open[--t->open_cnt].frame)
			hashmap__del(&sc->owners, t->tgid, t->open[t->open_cnt].id);
}

static void drop_thread(struct step_count *sc, uint32_t i)
{
	struct step_thread *t = &sc->threads[i], *last = &sc->threads[sc->thread_cnt - 1];

	drop_open(sc, t, 0);
	free(t->open);
	hashmap__put(&sc->thread_by_id, last->tgid, last->tid, i);
	hashmap__del(&sc->thread_by_id, t->tgid, t->tid);
	*t = *last;
	sc->thread_cnt--;
}

/* Another thread may have its number later. Where there is a count, steps that it has ended are
 * part of it, and what is open may end on another thread. */
static void end_thread(struct step_count *sc, uint32_t tgid, uint32_t tid)
{
	const struct step_thread *t = find_thread(sc, tgid, tid, false);

	if (t && (sc->names_only ||
		  (!t->open_cnt && !t->tallies[DERIVED].ends && !t->tallies[OWN].ends)))
		drop_thread(sc, (uint32_t)(t - sc->threads));
}

void step_count__forget(struct step_count *sc, uint32_t tgid)
{
	struct step_proc *p = known_proc(sc, tgid), *last;

	for (uint32_t i = sc->thread_cnt; i--;)
		if (sc->threads[i].tgid == tgid)
			drop_thread(sc, i);
	if (!p)
		return;
	last = &sc->procs[--sc->proc_cnt];
	hashmap__put(&sc->proc_by_id, last->tgid, 0, (uint64_t)(p - sc->procs));
	hashmap__del(&sc->proc_by_id, tgid, 0);
	*p = *last;
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
		const struct step_open o = t->open[i];

		if (o.agent) {
			t->open[n++] = o;
			note_name(sc, t, o.what, o.text);
		} else if (!o.frame) {
			hashmap__del(&sc->owners, t->tgid, o.id);
		}
	}
	t->open_cnt = n;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void count_end(const struct step_count *sc, struct step_thread *t, int which,
		      uint64_t begin_ns, uint64_t at_ns)
{
	struct tally *ta = &t->tallies[which];
	/* an agent's events may have any order */
	uint64_t ts = later(at_ns, later(begin_ns, ta->last_ns));
	const struct step_end e = { .tgid = t->tgid,
				    .tid = t->tid,
				    .begin_ns = which == OWN ? begin_ns : ta->last_ns,
				    .end_ns = ts };

	if (sc->hooks && step_count__announces(sc, t->tgid) == (which == OWN))
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
static void end_from(struct step_count *sc, struct step_thread *t, uint32_t i, uint64_t ts)
{
	while (t->open_cnt > i) {
		const struct step_open o = t->open[t->open_cnt - 1];

		drop_open(sc, t, t->open_cnt - 1);
		if (o.what == STEP_OWN && o.begin_ns >= sc->since_ns)
			count_end(sc, t, OWN, o.begin_ns, ts);
		t->due |= o.what == STEP_MARK && o.text == t->mark;
	}
	for (uint32_t k = 0; k < t->open_cnt; k++)
		if (t->open[k].losses == sc->losses)
			return;
	if (t->due)
		count_end(sc, t, DERIVED, ts, ts);
	t->due = false;
}

/* The thread is at sp: frames at or below it are gone, and who announced a name below it has
 * returned. */
static void thread_at(struct step_count *sc, struct step_thread *t, uint64_t sp, uint64_t ts)
{
	uint32_t i = t->open_cnt;

	t->named &= sp <= t->name_sp;
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

/* The thread that the object is open on, and its place there; NULL: on none. */
static struct step_thread *find_owner(struct step_count *sc, uint32_t tgid, uint64_t id,
				      uint32_t *i)
{
	const uint64_t *tid = hashmap__get(&sc->owners, tgid, id);
	struct step_thread *t = tid ? find_thread(sc, tgid, (uint32_t)*tid, false) : NULL;

	*i = t ? find_open(t, id, false) : UINT32_MAX;
	return *i == UINT32_MAX ? NULL : t;
}

static void open_one(struct step_count *sc, struct step_thread *t, const struct step_event *ev,
		     enum step_what what, uint64_t text)
{
	const struct step_open o = { .id = ev->id,
				     .sp = ev->sp,
				     .begin_ns = ev->ts_ns,
				     .text = text,
				     .losses = sc->losses,
				     .what = what,
				     .agent = !ev->sp,
				     .frame = ev->kind == STEP_ENTER };

	note_name(sc, t, what, text);
	if (t->open_cnt == OPEN_MAX ||
	    !vec_try_reserve((void **)&t->open, &t->open_cap, t->open_cnt + 1, sizeof(o)) ||
	    (!o.frame && !hashmap__try_put(&sc->owners, t->tgid, o.id, t->tid))) {
		t->due |= what == STEP_MARK && text == t->mark; /* it ends before what it is in */
		return;
	}
	t->open[t->open_cnt++] = o;
}

static void on_begin(struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	bool named = t && t->named && ev->sp && ev->sp < t->name_sp &&
		     ev->ts_ns <= t->name_ns + PTB_NAME_VALID_NS;
	uint32_t i;
	struct step_thread *owner = find_owner(sc, ev->tgid, ev->id, &i);

	if (owner && ev->before && (ev->text || !named))
		return; /* its name is known from its constructor */
	if (owner)
		/* another object at this address: that one's end was not seen */
		end_from(sc, owner, i, ev->ts_ns);
	if (named)
		open_one(sc, t, ev, t->name_what, t->name_text);
	else if (ev->text)
		open_one(sc, t, ev, ev->what, ev->text);
	if (named)
		t->named = false;
}

static void on_name(struct step_count *sc, struct step_thread *t, const struct step_event *ev)
{
	t->named = true;
	t->name_what = ev->what;
	t->name_text = ev->text;
	t->name_sp = ev->sp;
	t->name_ns = ev->ts_ns;
	note_name(sc, t, ev->what, ev->text);
}

/* Ends are not recorded: a step ends when the next one begins. */
static void begin_named(const struct step_count *sc, struct step_thread *t,
			const struct step_event *ev)
{
	if (ev->what == STEP_OWN) {
		if (t->own_ns && t->own_losses == sc->losses)
			count_end(sc, t, OWN, t->own_ns, ev->ts_ns);
		t->own_ns = ev->ts_ns;
		t->own_losses = sc->losses;
	} else if (ev->what == STEP_MARK && ev->text == t->mark) {
		count_end(sc, t, DERIVED, ev->ts_ns, ev->ts_ns);
	}
}

void step_count__event(struct step_count *sc, const struct step_event *ev)
{
	bool opens = ev->kind == STEP_NAME || ev->kind == STEP_ENTER ||
		     (ev->kind == STEP_BEGIN && ev->text);
	struct step_thread *t = find_thread(sc, ev->tgid, ev->tid, opens);
	uint32_t i;

	if (!t && opens)
		return;
	if (t && t->phase != sc->phase && ev->ts_ns >= sc->since_ns)
		begin_phase(sc, t);
	if (t && ev->sp)
		thread_at(sc, t, ev->sp, ev->ts_ns);
	switch (ev->kind) {
	case STEP_NAME:
		on_name(sc, t, ev);
		if (sc->names_only)
			begin_named(sc, t, ev);
		break;
	case STEP_BEGIN:
		on_begin(sc, t, ev);
		break;
	case STEP_END: /* perhaps on another thread than it began on */
		t = find_owner(sc, ev->tgid, ev->id, &i);
		if (t)
			end_from(sc, t, i, ev->ts_ns);
		break;
	case STEP_ENTER:
		open_one(sc, t, ev, ev->what, ev->text);
		break;
	case STEP_EXIT:
		i = t ? find_open(t, ev->id, true) : UINT32_MAX;
		if (i != UINT32_MAX)
			end_from(sc, t, i, ev->ts_ns);
		break;
	case STEP_AT:
		break;
	case STEP_PROCESS_END:
		if (sc->names_only)
			step_count__forget(sc, ev->tgid);
		else if (known_proc(sc, ev->tgid))
			known_proc(sc, ev->tgid)->ended = true;
		break;
	case STEP_THREAD_END:
		end_thread(sc, ev->tgid, ev->tid);
		break;
	}
}

void step_count__put(struct step_count *sc, const struct step_event *ev)
{
	vec_push(sc->queue, sc->queue_cnt, sc->queue_cap, *ev);
}

static int by_time(const void *a, const void *b)
{
	return sort__cmp(((const struct step_event *)a)->ts_ns,
			 ((const struct step_event *)b)->ts_ns);
}

/* A thread's records are in the rings of the processors that it ran on. */
void step_count__round(struct step_count *sc, uint64_t until_ns)
{
	uint32_t i;

	if (!sc->queue_cnt)
		return;
	sort__array(sc->queue, sc->queue_cnt, sizeof(*sc->queue), by_time);
	for (i = 0; i < sc->queue_cnt && sc->queue[i].ts_ns + SLACK_NS < until_ns; i++)
		step_count__event(sc, &sc->queue[i]);
	sc->queue_cnt -= i;
	memmove(sc->queue, sc->queue + i, sc->queue_cnt * sizeof(*sc->queue));
}

void step_count__lost(struct step_count *sc)
{
	sc->losses++;
	if (sc->hooks && sc->hooks->lost)
		sc->hooks->lost(sc->hooks->arg);
}

void step_count__await(struct step_count *sc, uint64_t now_ns, uint64_t derived, uint64_t own)
{
	sc->phase++;
	sc->since_ns = now_ns;
	sc->need[DERIVED] = derived;
	sc->need[OWN] = own;
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
