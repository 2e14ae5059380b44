/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See skew_report.h. */
#define LOG_DOMAIN "skew"
#include "report/skew_report.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/term_text.h"

/* ---- text ---- */

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
	return cell__format(r->by_steps ? SESSION_STEP_NAME "%lld" : "collective %lld",
			    (long long)r->step_nrs[step]);
}

static void put_origin(FILE *out, const struct rank_time *t)
{
	fputs(" (", out);
	if (*t->proc->host) {
		term_text__put(out, t->proc->host, 64);
		fputs(", ", out);
	}
	fprintf(out, "pid %u)", t->proc->pid);
}

static void put_slow(FILE *out, const struct rank_times_result *r, const struct rank_time *t, int row_limit)
{
	const struct skew_verdict *v = &t->verdict;
	uint32_t shown = report__shown(t->what_cnt, row_limit);

	fprintf(out, "\n%s", rank_name(t).text);
	put_origin(out, t);
	fprintf(out, " is slow: ");
	if (v->first)
		fprintf(out, "since %s", step_name(r, v->first).text);
	else
		fprintf(out, "in the whole window");
	if (v->last + 1 < r->step_cnt)
		fprintf(out, "%s until %s", v->first ? "" : ",", step_name(r, v->last).text);
	fprintf(out, " (%u %s) it takes %s longer than the others, %.1f %% of a step\n",
		v->last - v->first + 1, r->by_steps ? "steps" : "collectives",
		ms(v->excess_ns).text, 100.0 * v->share);
	if (*t->before) {
		fprintf(out, "  before ");
		cell__put_text(out, t->before, 60);
		if (r->by_steps)
			fprintf(out, ", collective %u of %u of a step", t->before_nr, t->before_of);
		fprintf(out, ": %s\n", ms(t->before_ns).text);
	}
	for (uint32_t i = 0; i < shown; i++) {
		fprintf(out, "  %14s  more in ", ms(t->what[i].excess_ns).text);
		cell__put_text(out, t->what[i].name, 60);
		fprintf(out, " (%s)\n", ms(t->what[i].own_ns).text);
	}
}

static void put_ranks(FILE *out, const struct rank_times_result *r)
{
	report__title(out, "Ranks");
	fprintf(out, "%-16s %16s %16s %18s %10s\n", "",
		r->by_steps ? "own time of step" : "own time", "waited", "others waited", "last in");
	for (uint32_t i = 0; i < r->rank_cnt; i++) {
		const struct rank_time *t = &r->ranks[i];

		fprintf(out, "%-16s %16s %16s %18s %10u", rank_name(t).text, ms(t->own_ns).text,
			ms((double)t->waited_ns).text, ms((double)t->caused_ns).text, t->last_cnt);
		put_origin(out, t);
		fputc('\n', out);
	}
}

static void put_waits(FILE *out, const struct rank_times_result *r, int row_limit)
{
	uint32_t shown = report__shown(r->wait_cnt, row_limit);

	report__title(out, "Longest waits: from the first rank's call to that of the last");
	for (uint32_t i = 0; i < shown; i++) {
		const struct rank_wait *w = &r->waits[i];

		fprintf(out, "%14s  %s for %s at %s", ms((double)w->ns).text,
			rank_name(&r->ranks[w->first]).text, rank_name(&r->ranks[w->last]).text,
			ms((double)w->at_ns).text);
		if (r->by_steps && w->step >= 0)
			fprintf(out, " in " SESSION_STEP_NAME "%lld", (long long)w->step);
		fputs(": ", out);
		cell__put_text(out, w->name, 60);
		fputc('\n', out);
	}
	report__put_rest(out, shown, r->wait_cnt);
}

static int print_text(const struct session *s, const struct rank_times_result *r,
		      const struct session_totals *totals, int row_limit, FILE *out)
{
	const struct session_info *info = session__info(s);
	bool slow = false;

	errno = 0;
	fprintf(out, "%u ranks, %u collectives that all called, ", r->rank_cnt, r->matched);
	if (r->by_steps)
		fprintf(out, "%u whole steps of %s", r->step_cnt, ms(r->step_ns).text);
	else
		fprintf(out, "no steps (--step-on): each collective counts as one, of %s",
			ms(r->step_ns).text);
	fprintf(out, "; clocks within %s\n", cell__duration(info->clock_err_ns).text);
	if (r->unmatched)
		fprintf(out, "%u further processes call other collectives and are left out\n",
			r->unmatched);
	for (uint32_t i = 0; i < r->rank_cnt; i++)
		if (r->ranks[i].verdict.slow) {
			put_slow(out, r, &r->ranks[i], row_limit);
			slow = true;
		}
	if (!slow && r->step_cnt < SKEW_STEPS)
		fprintf(out, "\nToo few steps to call a rank slow: %d are needed\n", SKEW_STEPS);
	else if (!slow)
		fprintf(out, "\nNo rank is slow: none exceeds the others by %.0f %% of a step, beyond its spread\n",
			100 * SKEW_SHARE);
	put_ranks(out, r);
	put_waits(out, r, row_limit);
	report__put_incomplete(out, info, totals);
	return report__flush(out);
}

/* ---- JSON ---- */

static void json_verdict(struct jsonw *w, const struct rank_times_result *r, const struct rank_time *t)
{
	const struct skew_verdict *v = &t->verdict;

	JSONW_BOOL(w, "slow", v->slow);
	JSONW_DOUBLE(w, "noise_ns", v->noise_ns);
	if (!v->slow)
		return;
	JSONW_I64(w, "since", r->step_nrs[v->first]);
	JSONW_I64(w, "until", r->step_nrs[v->last]);
	JSONW_U64(w, "steps", v->last - v->first + 1);
	JSONW_DOUBLE(w, "excess_ns", v->excess_ns);
	JSONW_DOUBLE(w, "share", v->share);
	JSONW_OBJ(w, "before");
	JSONW_STR(w, "collective", t->before);
	JSONW_U64(w, "number", t->before_nr);
	JSONW_U64(w, "of", t->before_of);
	JSONW_DOUBLE(w, "excess_ns", t->before_ns);
	jsonw__end_obj(w);
	JSONW_ARR(w, "causes");
	for (uint32_t i = 0; i < t->what_cnt; i++) {
		jsonw__begin_obj(w);
		JSONW_STR(w, "what", t->what[i].name);
		JSONW_DOUBLE(w, "own_ns", t->what[i].own_ns);
		JSONW_DOUBLE(w, "excess_ns", t->what[i].excess_ns);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void json_ranks(struct jsonw *w, const struct rank_times_result *r)
{
	REPORT_JSON_LIST(w, "ranks");
	for (uint32_t i = 0; i < r->rank_cnt; i++) {
		const struct rank_time *t = &r->ranks[i];

		if (jsonw__leave_out(w))
			continue;
		jsonw__begin_row(w);
		JSONW_U64(w, "pid", t->proc->tgid);
		if (t->has_rank)
			JSONW_U64(w, "rank", t->rank.rank);
		JSONW_DOUBLE(w, "own_ns", t->own_ns);
		JSONW_U64(w, "waited_ns", t->waited_ns);
		JSONW_U64(w, "caused_ns", t->caused_ns);
		JSONW_U64(w, "last_in", t->last_cnt);
		json_verdict(w, r, t);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void json_waits(struct jsonw *w, const struct rank_times_result *r, int row_limit)
{
	uint32_t shown = report__shown(r->wait_cnt, row_limit);

	REPORT_JSON_LIST(w, "waits");
	for (uint32_t i = 0; i < shown; i++) {
		const struct rank_wait *x = &r->waits[i];

		if (jsonw__leave_out(w))
			continue;
		jsonw__begin_row(w);
		JSONW_STR(w, "collective", x->name);
		JSONW_U64(w, "at_ns", x->at_ns);
		if (x->step >= 0)
			JSONW_I64(w, "step", x->step);
		JSONW_U64(w, "waiting_pid", r->ranks[x->first].proc->tgid);
		JSONW_U64(w, "for_pid", r->ranks[x->last].proc->tgid);
		JSONW_U64(w, "ns", x->ns);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static int print_json(const struct session *s, const struct rank_times_result *r,
		      struct session_totals *totals, int row_limit, FILE *out)
{
	struct jsonw w;
	int err = report_json__begin(&w, out, s, totals);

	if (err)
		return err;
	jsonw__break(&w);
	JSONW_OBJ(&w, "compared");
	JSONW_U64(&w, "collectives", r->matched);
	JSONW_U64(&w, "processes_left_out", r->unmatched);
	JSONW_STR(&w, "steps_are", r->by_steps ? "steps" : "collectives");
	JSONW_U64(&w, "steps", r->step_cnt);
	JSONW_DOUBLE(&w, "step_ns", r->step_ns);
	jsonw__end_obj(&w);
	json_ranks(&w, r);
	json_waits(&w, r, row_limit);
	return report_json__end(&w, out, totals);
}

int skew_report__print(const struct session *s, const struct rank_times_result *r,
		       struct session_totals *totals, const struct report_opts *opts, FILE *out)
{
	if (r->rank_cnt >= 2 && r->matched)
		return opts->json ? print_json(s, r, totals, opts->row_limit, out) :
				    print_text(s, r, totals, opts->row_limit, out);
	pr_error("the capture has no two processes that called the same collectives");
	pr_hint("ptbpf merge joins captures of several ranks");
	return -ENODATA;
}
