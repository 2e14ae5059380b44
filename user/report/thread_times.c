/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where the time of each process's main thread went; see report.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/report_priv.h"

struct level { /* of what closed at one depth and has no enclosing slice yet */
	uint64_t ns[TIME_CLASSES];
};

struct timed_thread {
	struct thread_time t;
	struct level *levels;
	uint32_t level_cap, level_cnt;
	bool backward; /* it runs what autograd's engine gives to it */
	uint64_t longest_load;
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
	struct hashmap classes; /* address of a name -> enum time_class + 1 */
};

struct thread_times *thread_times__new(const struct session *s)
{
	struct thread_times *tt = xcalloc(1, sizeof(*tt));

	tt->s = s;
	tt->beside = session__info(s)->with_samples;
	return tt;
}

void thread_times__free(struct thread_times *tt)
{
	if (!tt)
		return;
	for (uint32_t i = 0; i < tt->thread_cnt; i++)
		free(tt->threads[i].levels);
	free(tt->threads);
	free(tt->backwards);
	free(tt->outsides);
	hashmap__clear(&tt->outside_ids);
	hashmap__clear(&tt->thread_ids);
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

/* TIME_CLASSES: it is of none, and what is in it counts as it does without it. */
static enum time_class find_class(const char *name, uint32_t cat)
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
	bool op = cat == SLICE_CPU_OP;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].op == op && !strncmp(name, rows[i].prefix, strlen(rows[i].prefix)))
			return rows[i].class;
	return op ? TIME_OPERATORS : TIME_CLASSES;
}

static enum time_class class_of(struct thread_times *tt, const char *name, uint32_t cat)
{
	uint64_t *known = hashmap__get(&tt->classes, (uintptr_t)name, cat);

	if (known)
		return (enum time_class) * known;
	hashmap__put(&tt->classes, (uintptr_t)name, cat, find_class(name, cat));
	return find_class(name, cat);
}

static struct level *level_at(struct timed_thread *t, uint32_t depth)
{
	while (t->level_cnt <= depth)
		vec_push(t->levels, t->level_cnt, t->level_cap, (struct level){ .ns = { 0 } });
	return &t->levels[depth];
}

/* Children come before what encloses them. */
static void take_slice(void *arg, const struct slice *sl)
{
	struct thread_times *tt = arg;
	struct timed_thread *t = thread_of(tt, sl->tgid, sl->tid);
	enum time_class class = class_of(tt, sl->name, sl->cat);
	uint64_t dur = sl->end_ns - sl->begin_ns;
	struct level within = { .ns = { 0 } }, *at;

	while (t->level_cnt > sl->depth + 1)
		for (uint32_t c = 0, n = --t->level_cnt; c < TIME_CLASSES; c++)
			within.ns[c] += t->levels[n].ns[c];
	at = level_at(t, sl->depth);
	if (class == TIME_OPERATORS) { /* what is special in it stays that */
		within.ns[class] = dur;
		for (uint32_t c = 0; c < TIME_CLASSES; c++)
			if (c != class)
				within.ns[class] -= within.ns[c] < within.ns[class] ?
							    within.ns[c] :
							    within.ns[class];
		if (sl->backward && !t->backward)
			vec_push(tt->backwards, tt->backward_cnt, tt->backward_cap,
				 (uint32_t)(t - tt->threads));
		t->backward |= sl->backward;
	} else if (class != TIME_CLASSES) {
		within = (struct level){ .ns = { 0 } };
		within.ns[class] = dur;
	}
	for (uint32_t c = 0; c < TIME_CLASSES; c++)
		at->ns[c] += within.ns[c];
	if (class == TIME_LOADER && dur > t->longest_load) {
		t->longest_load = dur;
		t->t.loader = sl->name;
		t->t.loader_stack = sl->stack;
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

	if (!is_outside(tt, ps))
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

bool thread_times__main(struct thread_times *tt, uint32_t tgid, struct thread_time *out)
{
	const struct session_info *info = session__info(tt->s);
	const struct timed_thread *best = NULL;
	uint64_t window = info->end_ns - info->begin_ns, most = 0;

	for (uint32_t i = 0; i < tt->thread_cnt; i++) {
		struct timed_thread *t = &tt->threads[i];
		uint64_t sum;

		for (; t->level_cnt; t->level_cnt--)
			for (uint32_t c = 0; c < TIME_CLASSES; c++)
				t->t.ns[c] += t->levels[t->level_cnt - 1].ns[c];
		if (t->t.tgid != tgid || (t->backward && t->t.tid != tgid))
			continue;
		sum = sum_of(&t->t) + t->t.sampled_ns[SAMPLE_RUNNING] +
		      t->t.sampled_ns[SAMPLE_QUEUED];
		if (t->t.tid == tgid) /* unless another thread does nearly everything */
			sum = sum * 10 + t->t.sampled_ns[SAMPLE_BLOCKED] / 1000;
		if (sum > most) {
			most = sum;
			best = t;
		}
	}
	if (!best || !window)
		return false;
	*out = best->t;
	out->window_ns = window;
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
