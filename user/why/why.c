/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From what is seen to verdicts; see why_priv.h. */
#include "why/why.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "export/gpu_text.h"
#include "why/why_priv.h"

static const struct why_rule *const rules[] = {
#define X(name) &rule_##name,
	WHY_RULES(X)
#undef X
};
#define RULE_CNT (sizeof(rules) / sizeof(*rules))
#define LATER_STEPS 3 /* of fewer there is no spread */

struct why {
	const struct session *s;
	struct thread_times *times;
	struct thread_times *own_times; /* NULL: they are shared */
	struct why_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
	struct hashmap takers;       /* address and category of a name -> bits of rules */
	struct hashmap stack_takers; /* number of a stack -> the same */
	struct py_lines lines;
	struct text_ids texts;
	void *reports[RULE_CNT];
	uint32_t gpu_rules; /* bits */
	uint64_t *later_ns; /* of the steps after the probes, ascending */
};

/* ---- for rules ---- */

const struct session *why__session(const struct why *w)
{
	return w->s;
}

uint32_t why__line(struct why *w, uint32_t stack)
{
	return py_lines__id(&w->lines, w->s, &w->texts, stack);
}

const char *why__text(const struct why *w, uint32_t text)
{
	return text_ids__text(&w->texts, text);
}

const char *why__at(const struct why_case *c, uint32_t line, char buf[PY_TEXT_MAX + 8])
{
	snprintf(buf, PY_TEXT_MAX + 8, "%s%s", line ? " at " : "", why__text(c->w, line));
	return buf;
}

const char *why__per(const struct why_case *c)
{
	return c->by_step ? " a step" : " in the window";
}

#define CAUSE_TEXT(field)                                                                          \
	void why_cause__##field(struct why_cause *out, const char *fmt, ...)                       \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		va_start(ap, fmt);                                                                 \
		vsnprintf(out->field, sizeof(out->field), fmt, ap);                                \
		va_end(ap);                                                                        \
	}
CAUSE_TEXT(evidence)
CAUSE_TEXT(change)
CAUSE_TEXT(next)

void why_cause__takes(const struct why_case *c, struct why_cause *out, double share)
{
	out->share = out->weight = share;
	out->step_ns = (uint64_t)(share * (double)c->mean_ns + 0.5);
}

void why_cause__costs(const struct why_case *c, struct why_cause *out, uint64_t ns)
{
	double share = time__share(ns, c->whole_ns);

	if (share > 0 && !rules[c->rule]->throughout)
		share = why_later__share(c->thread->later, c->rule, share);
	why_cause__takes(c, out, share);
}

void why_cause__of_finding(struct why_cause *out, struct findings *found, double weight)
{
	findings__sort(found);
	if (!found->cnt)
		return;
	out->share = weight ? 0 : found->list[0].weight;
	out->weight = weight ? weight : out->share;
	why_cause__evidence(out, "%s", found->list[0].text);
	why_cause__next(out, "%s", found->list[0].next);
}

void why_cause__next_line(const struct why_case *c, struct why_cause *out)
{
	if (session__info(c->args->s)->has_py_stacks)
		why_cause__next(out, "ptbpf report %s --by line", c->args->capture);
	else
		why_cause__next(out, "sudo ptbpf attach --pid %u -d 5s --with-stack", c->proc->pid);
}

/* ---- what is seen ---- */

static void *state_of(struct why_thread *t, size_t rule)
{
	if (!t->states[rule])
		t->states[rule] = xcalloc(1, rules[rule]->state + 1);
	return t->states[rule];
}

/* Bits of the rules that take slices of that name. */
static uint64_t takers_of(struct why *w, const struct slice *sl)
{
	uint64_t *known = hashmap__get(&w->takers, (uintptr_t)sl->name, sl->cat), bits = 0;

	if (known)
		return *known;
	for (size_t i = 0; i < RULE_CNT; i++)
		if (rules[i]->takes && rules[i]->takes(sl))
			bits |= 1u << i;
	hashmap__put(&w->takers, (uintptr_t)sl->name, sl->cat, bits);
	return bits;
}

static struct why_thread *thread_of(struct why *w, uint32_t tgid, uint32_t tid)
{
	struct why_thread *t = list__keyed(KEYED_LIST(w, threads, thread), tgid, tid);

	if (!t->probed_until)
		t->probed_until = session__probed_until(w->s, tgid);
	t->tgid = tgid;
	t->tid = tid;
	return t;
}

struct why_thread *why__thread_nr(struct why *w, uint32_t nr)
{
	return nr < w->thread_cnt ? &w->threads[nr] : NULL;
}

struct why_thread *why__thread(struct why *w, uint32_t tgid, uint32_t tid)
{
	const uint64_t *nr = hashmap__get(&w->thread_ids, tgid, tid);

	return nr ? &w->threads[*nr] : NULL;
}

void *why__state(struct why *w, uint32_t tgid, uint32_t tid, const struct why_rule *rule)
{
	const struct why_thread *t = why__thread(w, tgid, tid);

	for (size_t r = 0; r < RULE_CNT && t; r++)
		if (rules[r] == rule)
			return t->states[r];
	return NULL;
}

static void take_slice(void *arg, const struct slice *sl, const struct time_within *in)
{
	struct why *w = arg;
	struct why_seen seen = { .w = w,
				 .t = thread_of(w, sl->tgid, sl->tid),
				 .sl = sl,
				 .in = in,
				 .begin_ns = sl->begin_ns,
				 .end_ns = sl->end_ns };

	why_loops__slice(&seen);
	for (uint64_t bits = takers_of(w, sl); bits; bits &= bits - 1) {
		size_t i = (size_t)__builtin_ctzll(bits);

		seen.rule = (uint32_t)i;
		rules[i]->slice(&seen, state_of(seen.t, i));
	}
	if (!slice__is_step(sl))
		return;
	vec_push(seen.t->whole, seen.t->step_cnt, seen.t->step_cap, slice__is_whole_step(sl));
	seen.t->whole_cnt += slice__is_whole_step(sl);
}

/* Bits of the rules that take samples with that stack. */
static uint64_t takers_of_stack(struct why *w, uint32_t stack)
{
	uint64_t *known = hashmap__get(&w->stack_takers, stack, 0), bits = 0;
	struct py_stack st;

	if (known)
		return *known;
	st = session__py_stack(w->s, stack);
	for (uint32_t i = 0; i < st.frame_cnt; i++) {
		struct py_frame f = session__py_frame(w->s, st.frames[i] & ~PY_FRAME_NATIVE);

		for (size_t r = 0; r < RULE_CNT; r++)
			if (rules[r]->takes_frame && rules[r]->takes_frame(&f))
				bits |= 1u << r;
	}
	hashmap__put(&w->stack_takers, stack, 0, bits);
	return bits;
}

/* Does the rule take a wait or a sample of that time? */
static bool is_for(size_t r, struct why_seen *seen, uint64_t ts_ns)
{
	const struct why_rule *rule = rules[r];
	uint64_t until = seen->t->probed_until;

	seen->rule = (uint32_t)r;
	seen->throughout = rule->throughout && until < session__info(seen->w->s)->end_ns;
	return seen->throughout || ts_ns <= until;
}

static void take_sample(void *arg, const struct py_sample *ps)
{
	struct why *w = arg;
	struct why_seen seen = { .w = w, .t = thread_of(w, ps->tgid, ps->tid) };

	why_later__sample(&seen, ps);
	for (uint64_t bits = takers_of_stack(w, ps->stack); bits; bits &= bits - 1) {
		size_t i = (size_t)__builtin_ctzll(bits);

		if (is_for(i, &seen, ps->ts_ns))
			rules[i]->sample(&seen, ps, state_of(seen.t, i));
	}
	for (size_t r = 0; r < RULE_CNT; r++)
		if (rules[r]->all_samples && is_for(r, &seen, ps->ts_ns))
			rules[r]->all_samples(&seen, ps, state_of(seen.t, r));
}

void why__take_loop(const struct why_seen *seen, const struct why_loop *l)
{
	struct why_seen own = *seen;

	own.begin_ns = l->begin_ns;
	own.end_ns = l->begin_ns + l->ns;
	for (size_t i = 0; i < RULE_CNT; i++) {
		own.rule = (uint32_t)i;
		if (rules[i]->loop && rules[i]->loop(&own, l, state_of(seen->t, i)))
			return;
	}
}

/* ---- waits ---- */

enum time_class why__class_at(const struct op_context *at)
{
	enum time_class class = time_class__of_annotation(at->annotation);

	return class == TIME_CLASSES && at->op_slice ? TIME_OPERATORS : class;
}

static void take_wait(void *arg, const struct sched_event *ev)
{
	struct why_thread *t = thread_of(arg, ev->at.tgid, ev->at.tid);
	struct why_seen seen = { .w = arg, .t = t };
	enum time_class class = why__class_at(&ev->at);

	if (ev->end_ns > t->probed_until)
		why_later__wait(&seen, ev);
	if (!t->waits)
		t->waits = xcalloc(1, sizeof(*t->waits));
	for (uint32_t k = 0; k < PTB_WAIT_CNT && ev->end_ns <= t->probed_until; k++)
		if (ev->ns[k])
			why_amount__add(&seen, &t->waits->of[class][k], ev->ns[k], 1);
	for (size_t r = 0; r < RULE_CNT; r++)
		if (rules[r]->sched && is_for(r, &seen, ev->end_ns))
			rules[r]->sched(&seen, ev, state_of(t, r));
}

static void count_wait(struct why_thread *t, const struct gpu_slice *g)
{
	enum time_class class = why__class_at(&g->at);

	if (t->whole_cnt && g->at.step < 0)
		return;
	t->gpu_wait_ns[class] += g->end_ns - g->begin_ns;
}

static void take_gpu(void *arg, const struct gpu_slice *g)
{
	struct why *w = arg;
	struct why_thread *t = why__thread(w, g->at.tgid, g->at.tid);

	if (!t)
		return;
	if (g->what == GPU_API && gpu_api__kind(g->name) == GPU_API_SYNC)
		count_wait(t, g);
	for (uint32_t bits = w->gpu_rules; bits; bits &= bits - 1) {
		size_t i = (size_t)__builtin_ctz(bits);

		rules[i]->gpu(t, g, state_of(t, i));
	}
}

/* ---- the output ---- */

/* Before the run it is not known whether samples came with operators. */
static uint32_t lacks(const struct output_args *args)
{
	const struct session_info *info = session__info(args->s);

	return (args->totals->slices || !info->sample_hz ? 0 : WHY_OPERATORS) |
	       (info->has_memory ? 0 : WHY_MEMORY) | (info->has_gpu ? 0 : WHY_GPU) |
	       (info->process_cnt > 1 ? 0 : WHY_RANKS) |
	       (info->sample_hz || info->with_samples ? 0 : WHY_SAMPLES) |
	       (info->has_sched ? 0 : WHY_SCHED);
}

static void free_why(void *o)
{
	struct why *w = o;

	if (!w)
		return;
	for (uint32_t i = 0; i < w->thread_cnt; i++) {
		struct why_thread *t = &w->threads[i];

		for (size_t r = 0; r < RULE_CNT; r++) {
			if (t->states[r] && rules[r]->free)
				rules[r]->free(t->states[r]);
			free(t->states[r]);
		}
		free(t->whole);
		free(t->waits);
		why_later__free(t->later);
		free(t->levels);
	}
	for (size_t r = 0; r < RULE_CNT; r++)
		if (rules[r]->report)
			rules[r]->report->free(w->reports[r]);
	free(w->threads);
	hashmap__clear(&w->thread_ids);
	hashmap__clear(&w->takers);
	hashmap__clear(&w->stack_takers);
	thread_times__free(w->own_times);
	text_ids__free(&w->texts);
	py_lines__free(&w->lines);
	free(w->later_ns);
	free(w);
}

static int open_why(const struct output_args *args, void **out)
{
	struct why *w = xcalloc(1, sizeof(*w));
	uint32_t missing = lacks(args);
	int err = 0;

	w->s = args->s;
	text_ids__init(&w->texts);
	py_lines__init(&w->lines, args->s);
	w->times = args->times;
	if (!w->times || !thread_times__set_hook(w->times, take_slice, w)) {
		w->times = w->own_times = thread_times__new(args->s);
		thread_times__set_hook(w->times, take_slice, w);
	}
	for (size_t r = 0; r < RULE_CNT && !err; r++) {
		if (rules[r]->gpu)
			w->gpu_rules |= 1u << r;
		if (rules[r]->report && !(rules[r]->needs & missing))
			err = rules[r]->report->open(args, &w->reports[r]);
	}
	if (err)
		free_why(w);
	else
		*out = w;
	return err;
}

static uint32_t sinks_of(void *o, struct session_sink *list)
{
	struct why *w = o;
	uint32_t n = 0;

	if (w->own_times)
		list[n++] = thread_times__sink(w->times);
	if (session__info(w->s)->has_gpu)
		list[n++] = (struct session_sink){ .arg = w, .gpu = take_gpu };
	if (session__info(w->s)->has_sched)
		list[n++] = (struct session_sink){ .arg = w, .sched = take_wait };
	if (session__info(w->s)->sample_hz || session__info(w->s)->with_samples)
		list[n++] = (struct session_sink){ .arg = w, .sample = take_sample };
	for (size_t r = 0; r < RULE_CNT; r++)
		if (w->reports[r])
			list[n++] = rules[r]->report->sink(w->reports[r]);
	return n;
}

/* The thread that makes steps, else the busiest one. */
static bool choose(struct why_case *c)
{
	const struct session_info *info = session__info(c->w->s);
	struct thread_time t;

	c->proc = thread_times__busiest(c->w->times, &c->t);
	for (uint32_t i = 0; i < info->process_cnt && !c->t.steps.cnt; i++)
		if (thread_times__main(c->w->times, info->processes[i].tgid, &t) && t.steps.cnt) {
			c->t = t;
			c->proc = &info->processes[i];
		}
	return c->proc;
}

/* Shares of the steps with operators: of classes, and of what has none and waits for nothing but a
 * CPU. */
static void known_parts(const struct why_case *c, double known[WHY_PART_PYTHON + 1])
{
	struct why_waits *waits = c->thread->waits;
	double rest = 1;

	for (uint32_t i = 0; i <= TIME_CLASSES; i++) {
		known[i] = i < TIME_CLASSES ? time__share(c->in.ns[i], c->whole_ns) : 0;
		rest -= known[i];
		for (uint32_t k = 0; k < PTB_WAIT_CNT && waits; k++) {
			double ns = (double)why_amount__ns(c->thread, &waits->of[i][k]);

			if (i == TIME_CLASSES && k != PTB_WAIT_CPU)
				rest -= ns / (double)c->whole_ns;
			else if (k == PTB_WAIT_GIL)
				known[i] -= ns / (double)c->whole_ns;
		}
		known[i] = known[i] > 0 ? known[i] : 0;
	}
	known[WHY_PART_PYTHON] = waits ? rest : time__share(c->in.gaps_ns, c->whole_ns);
}

/* Steps of the time without operators are what the program's steps are without probes. */
static void measure_later(struct why_case *c, double parts[WHY_PARTS])
{
	const struct session_info *info = session__info(c->w->s);
	double known[WHY_PART_PYTHON + 1];
	uint64_t sum = 0;
	uint32_t cnt;
	const uint64_t *later = session__later_steps(c->w->s, c->t.tgid, c->t.tid, &cnt);

	c->later_ns = info->end_ns - session__probed_until(c->w->s, c->t.tgid);
	if (c->thread && c->thread->later && c->whole_ns) {
		known_parts(c, known);
		if (why_later__parts(c->thread, c->later_ns, known, parts))
			c->later_parts = parts;
	}
	if (cnt >= LATER_STEPS) {
		for (uint32_t i = 0; i < cnt; i++)
			sum += later[i];
		c->mean_ns = sum / cnt;
		c->step_ns = c->w->later_ns = vec_dup(later, cnt, sizeof(*later));
		sort__u64(c->w->later_ns, cnt);
		c->step_cnt = cnt;
		if (!c->by_step)
			c->steps = c->whole_ns / (c->mean_ns + 1) + 1;
		c->by_step = true;
	}
}

static void measure(struct why_case *c, double parts[WHY_PARTS])
{
	const struct session_info *info = session__info(c->w->s);
	const struct step_times *st = &c->t.steps;

	c->thread = why__thread(c->w, c->t.tgid, c->t.tid);
	c->by_step = st->cnt;
	c->step_ns = c->t.step_ns;
	c->step_cnt = st->cnt;
	c->steps = st->cnt ? st->cnt : 1;
	c->whole_ns = st->cnt ? st->all_ns : c->t.window_ns;
	c->sampled = lacks(c->args) & WHY_OPERATORS;
	if (c->sampled)
		c->whole_ns = thread_time__samples(&c->t);
	c->in = st->cnt ? st->in : c->t.in;
	if (!st->cnt) /* with what autograd's threads do for it */
		memcpy(c->in.ns, c->t.ns, sizeof(c->in.ns));
	c->probes = time__share((uint64_t)session_info__cost_ns(info), c->t.window_ns);
	for (uint32_t i = 0; i < c->w->thread_cnt; i++)
		c->w->threads[i].steps_share =
			time__share(c->whole_ns, info->end_ns - info->begin_ns);
	c->mean_ns = c->whole_ns / c->steps;
	measure_later(c, parts);
}

static int finish_why(void *o, const struct output_args *args)
{
	struct why *w = o;
	struct why_case c = { .w = w, .args = args };
	struct why_verdict verdicts[RULE_CNT];
	double parts[WHY_PARTS];

	for (uint32_t i = 0; i < w->thread_cnt; i++)
		why_loops__end(&(struct why_seen){ .w = w, .t = &w->threads[i] });
	if (choose(&c))
		measure(&c, parts);
	for (size_t r = 0; r < RULE_CNT; r++) {
		struct why_verdict *v = &verdicts[r];

		*v = (struct why_verdict){ .rule = rules[r],
					   .lacks = rules[r]->needs & lacks(args) };
		c.rule = (uint32_t)r;
		if (!v->lacks && c.thread)
			rules[r]->judge(&c, state_of(c.thread, r), w->reports[r], &v->cause);
		v->lacks |= v->cause.lacks;
	}
	return why_doc__put(&c, verdicts, RULE_CNT, args);
}

const struct output why_report = {
	.rows = WHY_CAUSES_SHOWN,
	.open = open_why,
	.sinks = sinks_of,
	.finish = finish_why,
	.free = free_why,
};
