/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the time of each process's main thread went; see report.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/report_priv.h"

struct timed_thread {
	struct thread_time t;
	struct time_within *levels; /* of what closed at a depth and has no enclosing slice yet */
	uint32_t level_cap, level_cnt;
	bool backward; /* it runs what autograd's engine gives to it */
	uint64_t longest_load;
	uint64_t *steps; /* how long each whole one took */
	uint32_t step_cnt, step_cap;
};

struct timed_proc {
	uint64_t backward_ns; /* of threads without steps, since the last step ended */
};

struct thread_times {
	const struct session *s;
	bool beside; /* there are samples beside the slices */
	struct timed_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
	uint32_t *backwards; /* threads that run backward operators: indices */
	uint32_t backward_cnt, backward_cap;
	struct outside_time *outsides; /* by thread and stack */
	uint32_t outside_cnt, outside_cap;
	struct hashmap outside_ids;
	struct timed_proc *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids;
	struct hashmap classes; /* address of a name -> enum time_class + 1 */
	time_hook_fn hook;
	void *hook_arg;
};

struct thread_times *thread_times__new(const struct session *s)
{
	struct thread_times *tt = xcalloc(1, sizeof(*tt));

	tt->s = s;
	tt->beside = session__info(s)->with_samples;
	return tt;
}

bool thread_times__set_hook(struct thread_times *tt, time_hook_fn fn, void *arg)
{
	if (tt->hook)
		return false;
	tt->hook = fn;
	tt->hook_arg = arg;
	return true;
}

void thread_times__free(struct thread_times *tt)
{
	if (!tt)
		return;
	for (uint32_t i = 0; i < tt->thread_cnt; i++) {
		free(tt->threads[i].levels);
		free(tt->threads[i].steps);
	}
	free(tt->threads);
	free(tt->backwards);
	free(tt->outsides);
	hashmap__clear(&tt->outside_ids);
	hashmap__clear(&tt->thread_ids);
	free(tt->procs);
	hashmap__clear(&tt->proc_ids);
	hashmap__clear(&tt->classes);
	free(tt);
}

static struct timed_thread *thread_of(struct thread_times *tt, uint32_t tgid, uint32_t tid)
{
	struct timed_thread *t = list__keyed(KEYED_LIST(tt, threads, thread), tgid, tid);

	t->t.tgid = tgid;
	t->t.tid = tid;
	return t;
}

static enum time_class find_class(const char *name, bool op)
{
	/* clang-format off */
	static const struct { const char *prefix; enum time_class class; bool op; } rows[] = {
		{ SESSION_LOADER, TIME_LOADER, false },
		{ "Optimizer.", TIME_OPTIMIZER, false },         /* torch/optim/optimizer.py */
		{ "c10d::", TIME_COLLECTIVES, true },
		{ "gloo:", TIME_COLLECTIVES, false },
		{ "nccl:", TIME_COLLECTIVES, false },
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].op == op && !strncmp(name, rows[i].prefix, strlen(rows[i].prefix)))
			return rows[i].class;
	return op ? TIME_OPERATORS : TIME_CLASSES;
}

enum time_class time_class__of_annotation(const char *name)
{
	return find_class(name ? name : "", false);
}

static enum time_class class_of(struct thread_times *tt, const char *name, uint32_t cat)
{
	uint64_t *known = hashmap__get(&tt->classes, (uintptr_t)name, cat);
	enum time_class class;

	if (known)
		return (enum time_class) * known;
	class = find_class(name, cat == SLICE_CPU_OP);
	hashmap__put(&tt->classes, (uintptr_t)name, cat, class);
	return class;
}

/* A time between two operators that Python, rather than a wait, may take. */
static uint64_t gap(uint64_t from, uint64_t to)
{
	return to > from && to - from < TIME_GAP_MAX_NS ? to - from : 0;
}

static struct time_within *level_at(struct timed_thread *t, uint32_t depth)
{
	while (t->level_cnt <= depth)
		vec_push(t->levels, t->level_cnt, t->level_cap, (struct time_within){ .ops = 0 });
	return &t->levels[depth];
}

static void add_level(struct time_within *sum, const struct time_within *in)
{
	for (uint32_t c = 0; c < TIME_CLASSES; c++)
		sum->ns[c] += in->ns[c];
	sum->ops += in->ops;
	sum->gaps_ns += in->gaps_ns;
}

/* What closed deeper than that: it lies in the slice that closes there now. */
static struct time_within take_inside(struct timed_thread *t, const struct slice *sl)
{
	struct time_within in = { .ops = 0 };

	if (t->level_cnt > sl->depth + 1) {
		const struct time_within *child = &t->levels[sl->depth + 1];

		in.gaps_ns = child->ops ? gap(sl->begin_ns, child->first_ns) +
						  gap(child->last_ns, sl->end_ns) :
					  0;
	}
	while (t->level_cnt > sl->depth + 1)
		add_level(&in, &t->levels[--t->level_cnt]);
	return in;
}

/* How what lies in a slice counts for what the slice lies in. */
static void count_in(struct time_within *in, enum time_class class, uint64_t dur)
{
	if (class == TIME_OPERATORS) { /* what is special in it stays that */
		in->ns[class] = dur;
		for (uint32_t c = 0; c < TIME_CLASSES; c++)
			if (c != class)
				in->ns[class] -= in->ns[c] < in->ns[class] ? in->ns[c] :
									     in->ns[class];
		in->ops = 1;
		in->gaps_ns = 0;
	} else if (class != TIME_CLASSES) {
		*in = (struct time_within){ .ops = 0 };
		in->ns[class] = dur;
	}
}

static void end_step(struct thread_times *tt, struct timed_thread *t, const struct slice *sl,
		     const struct time_within *in)
{
	struct timed_proc *p = list__keyed(KEYED_LIST(tt, procs, proc), t->t.tgid, 0);
	struct step_times *st = &t->t.steps;
	uint64_t rest = sl->end_ns - sl->begin_ns;

	if (slice__is_whole_step(sl)) {
		vec_push(t->steps, t->step_cnt, t->step_cap, rest);
		st->begin_ns = st->cnt++ ? st->begin_ns : sl->begin_ns;
		st->end_ns = sl->end_ns;
		st->all_ns += rest;
		add_level(&st->in, in);
		for (uint32_t c = 0; c < TIME_CLASSES; c++)
			rest -= in->ns[c] < rest ? in->ns[c] : rest;
		st->in.ns[TIME_OPERATORS] += p->backward_ns < rest ? p->backward_ns : rest;
	}
	p->backward_ns = 0;
}

static void note_loader(struct timed_thread *t, const struct slice *sl)
{
	uint64_t dur = sl->end_ns - sl->begin_ns;

	if (dur <= t->longest_load)
		return;
	t->longest_load = dur;
	t->t.loader = sl->name;
	t->t.loader_stack = sl->stack;
}

/* Children come before what encloses them. */
static void take_slice(void *arg, const struct slice *sl)
{
	struct thread_times *tt = arg;
	struct timed_thread *t = thread_of(tt, sl->tgid, sl->tid);
	enum time_class class = class_of(tt, sl->name, sl->cat);
	uint64_t dur = sl->end_ns - sl->begin_ns;
	struct time_within in = take_inside(t, sl), *at = level_at(t, sl->depth);

	if (tt->hook)
		tt->hook(tt->hook_arg, sl, &in);
	if (slice__is_step(sl))
		end_step(tt, t, sl, &in);
	count_in(&in, class, dur);
	at->gaps_ns += at->last_ns ? gap(at->last_ns, sl->begin_ns) : 0;
	at->first_ns = at->last_ns ? at->first_ns : sl->begin_ns;
	at->last_ns = sl->end_ns;
	add_level(at, &in);
	if (class == TIME_LOADER)
		note_loader(t, sl);
	if (class != TIME_OPERATORS || !sl->backward)
		return;
	if (!t->backward)
		vec_push(tt->backwards, tt->backward_cnt, tt->backward_cap,
			 (uint32_t)(t - tt->threads));
	t->backward = true;
	if (!sl->depth && !t->step_cnt) {
		struct timed_proc *p = list__keyed(KEYED_LIST(tt, procs, proc), sl->tgid, 0);

		p->backward_ns += in.ns[TIME_OPERATORS];
	}
}

#define OPEN_MAX 64

/* Was the thread in nothing that has a class, and did it not wait for autograd's threads? */
static bool is_outside(struct thread_times *tt, const struct py_sample *ps)
{
	struct open_slice list[OPEN_MAX];
	uint32_t cnt = session__open_slices(tt->s, ps->tgid, ps->tid, list, OPEN_MAX);

	if (ps->at.op_slice)
		return false;
	while (cnt--)
		if (class_of(tt, list[cnt].name, list[cnt].cat) != TIME_CLASSES)
			return false;
	for (uint32_t i = 0; i < tt->backward_cnt; i++) {
		const struct thread_time *t = &tt->threads[tt->backwards[i]].t;

		if (t->tgid == ps->tgid && t->tid != ps->tid &&
		    session__open_slices(tt->s, t->tgid, t->tid, list, 1))
			return false;
	}
	return true;
}

static void take_beside(struct thread_times *tt, const struct py_sample *ps)
{
	struct outside_time *o;

	if (ps->ts_ns > session__probed_until(tt->s, ps->tgid) || !is_outside(tt, ps))
		return;
	o = list__keyed(KEYED_LIST(tt, outsides, outside), (uint64_t)ps->tgid << 32 | ps->tid,
			ps->stack);
	o->tgid = ps->tgid;
	o->tid = ps->tid;
	o->stack = ps->stack;
	o->ns += ps->ns;
}

static void take_sample(void *arg, const struct py_sample *ps)
{
	struct thread_times *tt = arg;
	struct timed_thread *t;

	if (tt->beside) {
		take_beside(tt, ps);
		return;
	}
	t = thread_of(tt, ps->tgid, ps->tid);
	t->t.sampled_ns[py_sample__state(ps)] += ps->ns;
}

struct session_sink thread_times__sink(struct thread_times *tt)
{
	return (struct session_sink){ .arg = tt, .slice = take_slice, .sample = take_sample };
}

uint32_t thread_times__outside(const struct thread_times *tt, const struct thread_time *t,
			       struct outside_time **list)
{
	struct outside_time *own = NULL;
	uint32_t cnt = 0, cap = 0;
	double sum = 0, all = (double)t->python_ns;

	for (uint32_t i = 0; i < tt->outside_cnt; i++) {
		const struct outside_time *o = &tt->outsides[i];

		if (o->tgid != t->tgid || o->tid != t->tid)
			continue;
		vec_push(own, cnt, cap, *o);
		sum += (double)o->ns;
	}
	for (uint32_t i = 0; i < cnt && sum > all; i++)
		own[i].ns = (uint64_t)(all * (double)own[i].ns / sum);
	if (sum < all)
		vec_push(own, cnt, cap, (struct outside_time){ .ns = (uint64_t)(all - sum) });
	*list = own;
	return cnt;
}

static uint64_t sum_of(const struct thread_time *t)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < TIME_CLASSES; c++)
		sum += t->ns[c];
	return sum;
}

/* The one that waits for autograd's threads has their operators. */
static void add_backward(struct thread_times *tt, struct thread_time *t)
{
	uint64_t rest, ns = 0;

	for (uint32_t i = 0; i < tt->thread_cnt; i++)
		if (tt->threads[i].backward && tt->threads[i].t.tgid == t->tgid &&
		    tt->threads[i].t.tid != t->tid)
			ns += tt->threads[i].t.ns[TIME_OPERATORS];
	rest = t->window_ns - sum_of(t);
	t->ns[TIME_OPERATORS] += ns < rest ? ns : rest;
}

/* What no slice encloses, at the end. */
static void take_open(struct timed_thread *t)
{
	struct time_within in = { .ops = 0 };

	if (!t->level_cnt)
		return;
	while (t->level_cnt)
		add_level(&in, &t->levels[--t->level_cnt]);
	add_level(&t->t.in, &in);
	memcpy(t->t.ns, t->t.in.ns, sizeof(t->t.ns));
	sort__u64(t->steps, t->step_cnt);
}

bool thread_times__main(struct thread_times *tt, uint32_t tgid, struct thread_time *out)
{
	const struct session_info *info = session__info(tt->s);
	const struct timed_thread *best = NULL;
	uint64_t window = session__probed_until(tt->s, tgid) - info->begin_ns, most = 0;

	for (uint32_t i = 0; i < tt->thread_cnt; i++) {
		struct timed_thread *t = &tt->threads[i];
		uint64_t sum;

		take_open(t);
		if (t->t.tgid != tgid || (t->backward && t->t.tid != tgid))
			continue;
		sum = sum_of(&t->t) + t->t.sampled_ns[SAMPLE_RUNNING] +
		      t->t.sampled_ns[SAMPLE_QUEUED];
		if (t->t.tid == tgid) /* unless another thread does nearly everything */
			sum = sum * 10 + t->t.sampled_ns[SAMPLE_BLOCKED] / 1000;
		if (t->step_cnt)
			sum = UINT64_MAX / 2 + t->t.steps.all_ns;
		if (sum > most) {
			most = sum;
			best = t;
		}
	}
	if (!best || !window)
		return false;
	*out = best->t;
	out->window_ns = window;
	out->step_ns = best->steps;
	if (sum_of(out) < window)
		add_backward(tt, out);
	out->python_ns = sum_of(out) < window ? window - sum_of(out) : 0;
	return true;
}

const struct session_process *thread_times__busiest(struct thread_times *tt,
						    struct thread_time *out)
{
	const struct session_info *info = session__info(tt->s);
	const struct session_process *best = NULL;
	uint64_t least = UINT64_MAX;
	struct thread_time t;

	for (uint32_t i = 0; i < info->process_cnt; i++) {
		uint64_t idle;

		if (!thread_times__main(tt, info->processes[i].tgid, &t))
			continue;
		idle = info->sample_hz ? t.sampled_ns[SAMPLE_BLOCKED] : t.python_ns;
		if (!best || idle < least) {
			best = &info->processes[i];
			least = idle;
			*out = t;
		}
	}
	return best;
}
