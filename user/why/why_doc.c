/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The verdict as a document. Key names are a contract: schemas/formats/why_report.schema.json.
 */
#include <string.h>

#include "why/why_priv.h"

/* What rules need: how it is recorded; NULL: where it was not, the rule has nothing to judge. */
static const char *const needs[WHY_NEEDS_CNT] = {
	"operators: --activities cpu",
	"--profile-memory",
	"the agent: --agent inject",
	NULL,
	"--with-samples",
	"--sched",
};

enum verdict_kind { VERDICT_CAUSE, VERDICT_SILENT, VERDICT_CANNOT_TELL, VERDICT_NOT_APPLICABLE };
static const char *const kind_names[] = { "cause", "silent", "cannot tell", "not applicable" };

/* The first of its needs that was not recorded. */
static uint32_t lacked(const struct why_verdict *v)
{
	return (uint32_t)__builtin_ctz(v->lacks);
}

static enum verdict_kind kind_of(const struct why_case *c, const struct why_verdict *v)
{
	if (!v->lacks && v->cause.weight >= WHY_SHARE_MIN)
		return VERDICT_CAUSE;
	if (!v->lacks)
		return c->thread ? VERDICT_SILENT : VERDICT_CANNOT_TELL;
	if (v->lacks & WHY_GPU && !c->args->totals->gpu_calls)
		return VERDICT_NOT_APPLICABLE;
	return needs[lacked(v)] ? VERDICT_CANNOT_TELL : VERDICT_NOT_APPLICABLE;
}

static const char *severity(const struct why_cause *cause)
{
	return cause->weight >= WHY_SEVERE ? "severe" :
	       cause->weight >= WHY_MEDIUM ? "medium" :
					     "minor";
}

static int by_weight(const void *a, const void *b)
{
	const struct why_verdict *x = *(struct why_verdict *const *)a,
				 *y = *(struct why_verdict *const *)b;

	return (x->cause.weight < y->cause.weight) - (x->cause.weight > y->cause.weight);
}

/* ---- the step ---- */

/* Of a time that is counted in a class, too: it is not that one's any more. */
static uint64_t take_from(struct time_within *in, uint32_t class, uint64_t ns)
{
	if (class == TIME_CLASSES)
		return ns;
	ns = ns < in->ns[class] ? ns : in->ns[class];
	in->ns[class] -= ns;
	return ns;
}

static uint64_t gpu_waits(const struct why_case *c, struct time_within *in)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; c->thread && i <= TIME_CLASSES; i++)
		sum += take_from(in, i, c->thread->gpu_wait_ns[i]);
	return sum;
}

static const struct time_part wait_parts[PTB_WAIT_CNT] = {
#define X(name, nr, text, group) [PTB_WAIT_##name] = { text, "waits: " text, 0 },
	PTB_WAITS(X)
#undef X
};

static uint32_t waits_of(const struct why_case *c, struct time_within *in, struct time_part *parts)
{
	struct why_waits *waits = c->thread ? c->thread->waits : NULL;

	for (uint32_t k = 0; k < PTB_WAIT_CNT && waits; k++) {
		parts[k] = wait_parts[k];
		for (uint32_t i = wait__everywhere(k) ? 0 : TIME_CLASSES; i <= TIME_CLASSES; i++)
			parts[k].ns +=
				take_from(in, i, why_amount__ns(c->thread, &waits->of[i][k]));
	}
	return waits ? PTB_WAIT_CNT : 0;
}

/* The same of the time in which operators are not recorded. */
static uint32_t later_of(const struct why_case *c, struct time_within *in, struct time_part *parts,
			 uint64_t whole)
{
	for (uint32_t i = 0; i < TIME_CLASSES; i++)
		in->ns[i] = (uint64_t)(c->later_parts[i] * (double)whole);
	in->gaps_ns = (uint64_t)(c->later_parts[WHY_PART_PYTHON] * (double)whole);
	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++) {
		parts[k] = wait_parts[k];
		parts[k].ns = (uint64_t)(c->later_parts[WHY_PART_WAIT + k] * (double)whole);
	}
	return PTB_WAIT_CNT;
}

/* The parts sum to the step: the last one is the rest. Returns how many. */
static uint32_t parts_of(const struct why_case *c, struct time_part *parts, uint64_t *whole)
{
	struct time_part waits[PTB_WAIT_CNT];
	struct time_within in = c->in;
	uint64_t sum = 0, gpu;
	uint32_t cnt, wait_cnt;

	if (c->sampled) {
		*whole = thread_time__samples(&c->t);
		return time_parts__of_samples(parts, c->t.sampled_ns);
	}
	*whole = c->later_parts ? c->mean_ns * c->steps : c->whole_ns;
	gpu = gpu_waits(c, &in);
	wait_cnt = c->later_parts ? later_of(c, &in, waits, *whole) : waits_of(c, &in, waits);
	cnt = time_parts__of(parts, in.ns, 0) - 1; /* without what is outside of operators */
	memcpy(&parts[cnt], waits, wait_cnt * sizeof(*waits));
	cnt += wait_cnt;
	parts[cnt++] = (struct time_part){ "gpu_wait", "waiting for the GPU", gpu };
	for (uint32_t i = 0; i < cnt; i++)
		sum += parts[i].ns;
	sum = *whole > sum ? *whole - sum : 0;
	if (in.gaps_ns > sum || (wait_cnt && !c->later_parts)) /* what does not wait runs */
		in.gaps_ns = sum;
	parts[cnt++] = (struct time_part){ "python",
					   wait_cnt ? "Python" : "Python between operators",
					   in.gaps_ns };
	parts[cnt++] = (struct time_part){ "unexplained", "unexplained", sum - in.gaps_ns };
	return cnt;
}

static uint64_t part_ns(const struct time_part *parts, uint32_t cnt, const char *key)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (!strcmp(parts[i].key, key))
			return parts[i].ns;
	return 0;
}

static uint64_t quantile(const struct why_case *c, uint32_t percent)
{
	return c->step_ns[(uint64_t)(c->step_cnt - 1) * percent / 100];
}

static void put_step(struct doc *d, const struct why_case *c)
{
	doc__object(d, "thread");
	DOC(d, FACT("pid", c->t.tgid), FACT("tid", c->t.tid));
	doc__end(d);
	doc__object(d, "step");
	DOC(d, FACT("steps", c->step_cnt), FACT("mean_ns", c->mean_ns));
	if (c->by_step)
		DOC(d, FACT("median_ns", quantile(c, 50)), FACT("p10_ns", quantile(c, 10)),
		    FACT("p90_ns", quantile(c, 90)));
	doc__end(d);
	time_thread__say(d, &c->t, c->proc);
	doc__end_line(d);
	if (c->by_step)
		doc__say(d, "Step  %s (p10 %s, p90 %s; %s steps): ",
			 unit__ns((double)quantile(c, 50)).text,
			 unit__ns((double)quantile(c, 10)).text,
			 unit__ns((double)quantile(c, 90)).text, cell__count(c->step_cnt).text);
	else
		doc__say(d, "Window  %s, no %s: ", unit__ns((double)c->t.window_ns).text,
			 session__info(c->args->s)->stop_reason == PTB_STOP_COST ||
					 c->proc->unprobed_ns ?
				 "whole step (a longer -d, --step-on)" :
				 "steps (--step-on)");
}

static void put_parts(struct doc *d, const struct why_case *c, struct time_part *parts,
		      uint32_t cnt, uint64_t whole)
{
	doc__all(d, "parts", cnt, NULL);
	for (uint32_t i; doc__next(d, &i);)
		DOC(d, FACT("part", parts[i].key), FACT("ns", parts[i].ns / c->steps),
		    FACT("share", time__share(parts[i].ns, whole)));
	time_parts__say(d, parts, cnt, whole);
	doc__end_line(d);
}

/* ---- causes ---- */

static void say_cause(struct doc *d, const struct why_case *c, const struct why_verdict *v,
		      uint32_t nr)
{
	const struct why_cause *cause = &v->cause;

	doc__gap(d);
	doc__style(d, cause->weight >= WHY_SEVERE ? DOC_ALERT : DOC_TOP);
	doc__say(d, "%u. %s", nr, v->rule->title);
	if (cause->share > 0)
		doc__say(d, ": %.1f%% of %s", 100 * cause->share,
			 c->by_step ? "a step" : "the window");
	doc__line(d, " (%s)", severity(cause));
	doc__line(d, "   why     %s", cause->evidence);
	doc__line(d, "   change  %s", cause->change);
	doc__line(d, "   more    %s", cause->next);
}

static void put_causes(struct doc *d, const struct why_case *c, struct why_verdict **causes,
		       uint32_t cnt)
{
	doc__all(d, "causes", cnt, NULL);
	for (uint32_t i; doc__next(d, &i);) {
		const struct why_cause *cause = &causes[i]->cause;

		DOC(d, FACT("rule", causes[i]->rule->name), FACT("title", causes[i]->rule->title),
		    cause->share > 0 ? FACT("share", cause->share) : NO_FACT,
		    FACT("severity", severity(cause)),
		    cause->step_ns ? FACT("step_ns", cause->step_ns) : NO_FACT,
		    FACT("evidence", cause->evidence), FACT("change", cause->change),
		    FACT("next", cause->next), cause->op ? FACT("operator", cause->op) : NO_FACT,
		    cause->line ? FACT("line", why__text(c->w, cause->line)) : NO_FACT);
		say_cause(d, c, causes[i], i + 1);
	}
	if (cnt)
		return;
	doc__gap(d);
	if (c->thread)
		doc__line(d, "Nothing stands out: no cause that is known here costs %.0f%% of %s.",
			  100 * WHY_SHARE_MIN, c->by_step ? "a step" : "the window");
}

/* ---- rules ---- */

static void put_rules(struct doc *d, const struct why_case *c, const struct why_verdict *verdicts,
		      uint32_t cnt)
{
	doc__all(d, "rules", cnt, NULL);
	for (uint32_t i; doc__next(d, &i);) {
		enum verdict_kind kind = kind_of(c, &verdicts[i]);

		DOC(d, FACT("rule", verdicts[i].rule->name), FACT("verdict", kind_names[kind]),
		    kind == VERDICT_CANNOT_TELL && verdicts[i].lacks ?
			    FACT("needs", needs[lacked(&verdicts[i])]) :
			    NO_FACT);
	}
}

/* "Cannot tell" stands before the first of such lines. */
static const char *cannot_tell(bool *said)
{
	const char *head = *said ? "             " : "Cannot tell  ";

	*said = true;
	return head;
}

static void say_lacks(struct doc *d, const struct why_case *c, const struct why_verdict *verdicts,
		      uint32_t cnt, uint32_t need, bool *said)
{
	bool any = false;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct why_verdict *v = &verdicts[i];

		if (kind_of(c, v) != VERDICT_CANNOT_TELL || !v->lacks || lacked(v) != need)
			continue;
		doc__say(d, "%s%s", any ? ", " : cannot_tell(said), v->rule->title);
		any = true;
	}
	if (any)
		doc__line(d, ": needs %s", needs[need]);
}

/* And what is outside of operators, and too long to be what Python does between two of them. */
static void say_cannot_tell(struct doc *d, const struct why_case *c,
			    const struct why_verdict *verdicts, uint32_t cnt, double unexplained)
{
	bool said = false;

	if (unexplained >= WHY_UNEXPLAINED)
		doc__line(
			d,
			c->later_parts ?
				"%s%.0f%% in lines that did not run while operators were recorded: needs a higher --max-overhead" :
				"%s%.0f%% outside of operators, Python or waiting: needs --sched",
			cannot_tell(&said), 100 * unexplained);
	for (uint32_t n = 0; n < WHY_NEEDS_CNT; n++)
		say_lacks(d, c, verdicts, cnt, n, &said);
}

static void put_verdicts(struct doc *d, const struct why_case *c, struct why_verdict *verdicts,
			 uint32_t cnt)
{
	struct why_verdict *causes[64];
	struct time_part parts[TIME_PARTS_MAX];
	uint32_t part_cnt, cause_cnt = 0;
	uint64_t whole;

	put_step(d, c);
	part_cnt = parts_of(c, parts, &whole);
	put_parts(d, c, parts, part_cnt, whole);
	for (uint32_t i = 0; i < cnt; i++)
		if (kind_of(c, &verdicts[i]) == VERDICT_CAUSE)
			causes[cause_cnt++] = &verdicts[i];
	sort__array(causes, cause_cnt, sizeof(*causes), by_weight);
	put_causes(d, c, causes, report__shown(cause_cnt, d->args->row_limit));
	put_rules(d, c, verdicts, cnt);
	doc__gap(d);
	say_cannot_tell(d, c, verdicts, cnt,
			time__share(part_ns(parts, part_cnt, "unexplained"), whole));
}

int why_doc__put(const struct why_case *c, struct why_verdict *verdicts, uint32_t cnt,
		 const struct output_args *args)
{
	struct doc d;

	doc__begin(&d, args);
	doc__break(&d);
	if (c->proc)
		put_verdicts(&d, c, verdicts, cnt);
	else
		doc__line(
			&d,
			"Cannot tell: the capture has no operator, annotation or sample of any thread.");
	return doc__finish(&d);
}
