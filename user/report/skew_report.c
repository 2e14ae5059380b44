/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --skew`; see report.h. Key names are a contract:
 * schemas/formats/skew_report.schema.json.
 */
#define LOG_DOMAIN "skew"
#include "report/report_priv.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "ranks/rank_times.h"

static struct cell ms(double ns)
{
	return cell__format("%.3f ms", ns / 1e6);
}

static struct cell rank_name(const struct rank_time *t)
{
	if (t->has_rank)
		return cell__format("rank %u", t->rank.rank);
	return cell__format("process %u", t->proc->tgid);
}

/* "ProfilerStep#12" or "collective 12" */
static struct cell step_name(const struct rank_times_result *r, uint32_t step)
{
	return cell__format(r->by_steps ? STEP_OWN_NAME "%lld" : "collective %lld",
			    (long long)r->step_nrs[step]);
}

/* "(host, pid 100)" */
static const char *origin(const struct rank_time *t, char buf[128])
{
	snprintf(buf, 128, "(%.64s%spid %u)", t->proc->host, *t->proc->host ? ", " : "",
		 t->proc->pid);
	return buf;
}

/* ---- sentences ---- */

static void say_slow(struct doc *d, const struct rank_times_result *r, const struct rank_time *t)
{
	const struct skew_verdict *v = &t->verdict;
	char from[128];

	doc__gap(d);
	doc__style(d, DOC_ALERT);
	doc__say(d, "%s %s is slow: %s%s", rank_name(t).text, origin(t, from),
		 v->first ? "since " : "in the whole window",
		 v->first ? step_name(r, v->first).text : "");
	if (v->last + 1 < r->step_cnt)
		doc__say(d, "%s until %s", v->first ? "" : ",", step_name(r, v->last).text);
	doc__line(d, " (%u %s) it takes %s longer than the others, %.1f %% of a step",
		  v->last - v->first + 1, r->by_steps ? "steps" : "collectives",
		  ms(v->excess_ns).text, 100.0 * v->share);
	if (*t->before) {
		doc__say(d, "  before ");
		doc__cut(d, t->before, "", 60);
		if (r->by_steps)
			doc__say(d, ", collective %u of %u of a step", t->before_nr, t->before_of);
		doc__line(d, ": %s", ms(t->before_ns).text);
	}
	for (uint32_t i = 0; i < report__shown(t->what_cnt, d->args->row_limit); i++) {
		doc__say(d, "  %14s  more in ", ms(t->what[i].excess_ns).text);
		doc__cut(d, t->what[i].name, "", 60);
		doc__line(d, " (%s)", ms(t->what[i].own_ns).text);
	}
}

static void say_verdict(struct doc *d, const struct rank_times_result *r)
{
	bool slow = false;

	doc__say(d, "%u ranks, %u collectives that all called, ", r->rank_cnt, r->matched);
	if (r->by_steps)
		doc__say(d, "%u whole steps of %s", r->step_cnt, ms(r->step_ns).text);
	else
		doc__say(d, "no steps (--step-on): each collective counts as one, of %s",
			 ms(r->step_ns).text);
	doc__line(d, "; clocks within %s",
		  cell__duration(session__info(d->args->s)->clock_err_ns).text);
	if (r->unmatched)
		doc__line(d, "%u further processes call other collectives and are left out",
			  r->unmatched);
	if (r->guessed)
		doc__line(
			d,
			"Not certain: the calls do not show that ranks waited, as with NCCL. A rank that is late by more than half a step looks early");
	for (uint32_t i = 0; i < r->rank_cnt; i++)
		if (r->ranks[i].verdict.slow) {
			say_slow(d, r, &r->ranks[i]);
			slow = true;
		}
	if (slow)
		return;
	doc__gap(d);
	if (r->step_cnt < SKEW_STEPS)
		doc__line(d, "Too few steps to call a rank slow: %d are needed", SKEW_STEPS);
	else
		doc__line(
			d,
			"No rank is slow: none exceeds the others by %.0f %% of a step, beyond its spread",
			100 * SKEW_SHARE);
}

/* ---- lists ---- */

static void add_verdict(struct doc *d, const struct rank_times_result *r, const struct rank_time *t)
{
	const struct skew_verdict *v = &t->verdict;

	DOC(d, FACT("slow", v->slow), FACT("noise_ns", v->noise_ns));
	if (!v->slow)
		return;
	DOC(d, FACT("since", r->step_nrs[v->first]), FACT("until", r->step_nrs[v->last]),
	    FACT("steps", v->last - v->first + 1), FACT("excess_ns", v->excess_ns),
	    FACT("share", v->share));
	doc__object(d, "before");
	DOC(d, FACT("collective", t->before), FACT("number", t->before_nr),
	    FACT("of", t->before_of), FACT("excess_ns", t->before_ns));
	doc__end(d);
	doc__all(d, "causes", t->what_cnt, NULL);
	for (uint32_t i; doc__next(d, &i);)
		DOC(d, FACT("what", t->what[i].name), FACT("own_ns", t->what[i].own_ns),
		    FACT("excess_ns", t->what[i].excess_ns));
}

static void add_ranks(struct doc *d, const struct rank_times_result *r)
{
	const struct doc_column columns[] = {
		{ ".rank", "", -15, NULL, 0, 0 },
		{ "own_ns", "own time", 11, ms, 0, 0 },
		{ "waited_ns", "waited", 11, ms, 0, 0 },
		{ "caused_ns", "others waited", 14, ms, 0, 0 },
		{ "last_in", "last in", 7, NULL, 0, 0 },
		{ ".from", NULL, -1, NULL, 0, 0 },
		{ 0 },
	};
	char from[128];

	doc__title(d, "Ranks");
	doc__all(d, "ranks", r->rank_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct rank_time *t = &r->ranks[i];

		doc__cell(d, ".rank", "%s", rank_name(t).text);
		DOC(d, FACT(".from", origin(t, from)), FACT("pid", t->proc->tgid),
		    t->has_rank ? FACT("rank", t->rank.rank) : NO_FACT, FACT("own_ns", t->own_ns),
		    FACT("waited_ns", t->waited_ns), FACT("caused_ns", t->caused_ns),
		    FACT("last_in", t->last_cnt));
		add_verdict(d, r, t);
	}
}

static void add_waits(struct doc *d, const struct rank_times_result *r)
{
	static const struct doc_column columns[] = {
		{ "ns", NULL, 14, ms, 0, 0 },
		{ ".what", NULL, 0, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "Longest waits: from the first rank's call to that of the last");
	doc__list(d, "waits", r->wait_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct rank_wait *w = &r->waits[i];
		bool in_step = r->by_steps && w->step >= 0;

		DOC(d, FACT("collective", w->name), FACT("at_ns", w->at_ns),
		    w->step >= 0 ? FACT("step", w->step) : NO_FACT,
		    FACT("waiting_pid", r->ranks[w->first].proc->tgid),
		    FACT("for_pid", r->ranks[w->last].proc->tgid), FACT("ns", w->ns));
		doc__cell(d, ".what", "%s for %s at %s%s%s: %s",
			  rank_name(&r->ranks[w->first]).text, rank_name(&r->ranks[w->last]).text,
			  ms((double)w->at_ns).text, in_step ? " in " : "",
			  in_step ? cell__format(STEP_OWN_NAME "%lld", (long long)w->step).text :
				    "",
			  w->name);
	}
}

static int open_report(const struct output_args *args, void **out)
{
	*out = rank_times__new(args->s);
	return 0;
}

static struct session_sink report_sink(void *o)
{
	return rank_times__sink(o);
}

static int finish_report(void *o, const struct output_args *args)
{
	const struct rank_times_result *r = rank_times__finish(o);
	struct doc d;

	if ((r->rank_cnt < 2 || !r->matched) && args->embedded)
		return 0;
	if (r->rank_cnt < 2 || !r->matched) {
		pr_error("the capture has no two processes that called the same collectives");
		pr_hint("ptbpf report --skew takes the captures of several ranks");
		return -ENODATA;
	}
	doc__begin(&d, args);
	say_verdict(&d, r);
	doc__break(&d);
	doc__object(&d, "compared");
	DOC(&d, FACT("collectives", r->matched), FACT("processes_left_out", r->unmatched),
	    FACT("guessed", r->guessed), FACT("steps_are", r->by_steps ? "steps" : "collectives"),
	    FACT("steps", r->step_cnt), FACT("step_ns", r->step_ns));
	doc__end(&d);
	add_ranks(&d, r);
	add_waits(&d, r);
	return doc__finish(&d);
}

static void free_report(void *o)
{
	rank_times__free(o);
}

const struct output skew_report = {
	.rows = ROWS_OF_LISTS,
	.open = open_report,
	.sink = report_sink,
	.finish = finish_report,
	.free = free_report,
};
