/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Trace, table and summary of a capture; see outputs.h. */
#define LOG_DOMAIN "outputs"
#include "cli/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "capture/capture.h"
#include "cli/cmd.h"
#include "cli/read_child.h"
#include "export/facts_json.h"
#include "ranks/join.h"
#include "report/report.h"
#include "sample/metrics.h"

/*
 * What the window cost the target: every hit times the measured cost of one. A lower bound: it was
 * measured in a tight loop, and a job's caches are colder. The sentence of the summary line; the
 * trace's metadata carries the same figures.
 */
static void cost_text(const struct session_info *info, char *buf, size_t cap)
{
	uint64_t hits = session_info__hits(info), ps = session_info__counter(info, PTB_CNT_COST_PS);
	double window = (double)(info->end_ns - info->begin_ns);
	double cost = session_info__cost_ns(info);

	if (info->sample_hz) {
		cost = (double)session_info__counter(info, PTB_CNT_SAMPLES_NS);
		snprintf(buf, cap,
			 "samples took %.1f ms of the target's threads (%.2f %% of the window)",
			 cost / 1e6, window > 0 ? 100.0 * cost / window : 0.0);
		return;
	}
	if (!ps || window <= 0) {
		snprintf(buf, cap, "cost per probe hit not measured");
		return;
	}
	snprintf(
		buf, cap,
		"%s hits x %.2f us = at least %.0f ms of the target's threads (%.1f %% of the window)",
		cell__count(hits).text, (double)ps / 1e6, cost / 1e6, 100.0 * cost / window);
}

/* "; operators of 2 processes by the agent", whose cost is not in the hits; "" where there is
 * none. */
static void agent_text(const struct session_info *info, char *buf, size_t cap)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < info->process_cnt; i++)
		n += info->processes[i].source == 1;
	buf[0] = '\0';
	if (n && n == info->process_cnt)
		snprintf(buf, cap, "operators by the agent; ");
	else if (n)
		snprintf(buf, cap, "operators of %u process%s by the agent; ", n,
			 n == 1 ? "" : "es");
}

/* "; steps end with 'train' (PTBPF_STEP_ON)"; nothing where no process's environment names what. */
static void print_step_on(const struct session_info *info)
{
	const char *first = NULL;
	bool others = false;

	for (uint32_t i = 0; i < info->process_cnt; i++) {
		const char *name = info->processes[i].step_on;

		first = first ? first : name;
		others |= name && strcmp(name, first) != 0;
	}
	if (!first || info->sample_hz)
		return;
	fputs("; steps end with '", stderr);
	term_text__put(stderr, first, SIZE_MAX);
	fputs(others ? "' and others (PTBPF_STEP_ON)" : "' (PTBPF_STEP_ON)", stderr);
}

static void print_summary(const struct outputs *o, const struct session *s,
			  const struct session_totals *t, uint64_t threads, uint64_t file_bytes)
{
	const struct session_info *info = session__info(s);
	char cost[160], agent[96];
	uint64_t lost = session_info__counter(info, PTB_CNT_RING_FULL);
	uint32_t unseen = loss_account__unseen_operators(info);
	struct unseen_open open = loss_account__unseen_open(info, t);

	cost_text(info, cost, sizeof(cost));
	agent_text(info, agent, sizeof(agent));
	if (info->sample_hz)
		snprintf(agent, sizeof(agent), "%s samples%s; ", cell__count(t->samples).text,
			 t->samples_ops ? ", open operators by the agent" : "");
	term_text__put(stderr, o->args.capture, SIZE_MAX);
	fprintf(stderr,
		": %.2f s, %u process%s, %llu thread%s, %s slices, %s; lost %llu; unwound frames "
		"%llu; operators not visible %u; %s%s",
		(double)(info->end_ns - info->begin_ns) / 1e9, info->process_cnt,
		info->process_cnt == 1 ? "" : "es", (unsigned long long)threads,
		threads == 1 ? "" : "s", cell__count(t->slices).text,
		cell__bytes((double)file_bytes).text, (unsigned long long)lost,
		(unsigned long long)t->unwound, unseen, agent, cost);
	if (t->when) {
		fputs("; in '", stderr);
		term_text__put(stderr, t->when, SIZE_MAX);
		fprintf(stderr, "' only (%llu annotation%s): %s slices and events left out",
			(unsigned long long)t->when_found, t->when_found == 1 ? "" : "s",
			cell__count(t->when_left_out).text);
	}
	print_step_on(info);
	if (t->truncated_annotations || t->truncated_ops)
		fprintf(stderr,
			"; cut where they cross an annotation: %llu annotation%s, %llu operator%s",
			(unsigned long long)t->truncated_annotations,
			t->truncated_annotations == 1 ? "" : "s",
			(unsigned long long)t->truncated_ops, t->truncated_ops == 1 ? "" : "s");
	fprintf(stderr, "%s%s\n", open.text[0] ? "; " : "", open.text);
}

static void count_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	(void)tgid;
	(void)tid;
	++*(uint64_t *)arg;
}

/* What one pass over the capture feeds. */
struct sink_set {
	struct session_sink sinks[OUTPUTS_FILES + 2 + WINDOW_METRICS_SINKS];
	uint32_t cnt;
	uint64_t threads;
	struct {
		struct output_args args;
		void *o;
	} list[OUTPUTS_FILES + 1];
	uint32_t list_cnt;
	struct window_metrics *wm;
};

/* file: which of the outputs; OUTPUTS_FILES: none, it is a report. */
static int open_output(struct sink_set *ss, const struct reader *r, const struct output *output,
		       uint32_t file)
{
	struct output_args *args = &ss->list[ss->list_cnt].args;
	void **o = &ss->list[ss->list_cnt].o;
	int err;

	*args = r->o.args;
	args->output = output;
	args->diff_fd = r->files->diff;
	if (file < OUTPUTS_FILES) {
		args->path = r->o.files[file].path;
		args->tgid = r->o.files[file].tgid;
		args->fd = r->files->outputs[file];
	}
	err = output__check_recorded(args);
	if (!err)
		err = output->open(args, o);
	if (err)
		return err;
	ss->list_cnt++;
	ss->sinks[ss->cnt++] = output->sink(*o);
	return 0;
}

static int open_sinks(struct sink_set *ss, const struct reader *r)
{
	const struct outputs *o = &r->o;
	int err = 0;

	ss->sinks[ss->cnt++] = (struct session_sink){ .arg = &ss->threads, .thread = count_thread };
	for (uint32_t i = 0; i < OUTPUTS_FILES && o->files[i].path && !err; i++)
		err = open_output(ss, r, o->files[i].output, i);
	if (!err && o->report)
		err = open_output(ss, r, o->report, OUTPUTS_FILES);
	if (err || !o->metrics)
		return err;
	ss->wm = window_metrics__new(r->s, &r->users);
	ss->cnt += window_metrics__sinks(ss->wm, &ss->sinks[ss->cnt]);
	return 0;
}

/* What the child makes of a window, beside the files. */
struct answer {
	struct outputs_result result;
	struct metrics_window metrics;
	struct metrics_op ops[]; /* of it */
};

static int run_sinks(const struct reader *r, struct session_totals *totals, uint64_t *threads,
		     struct metrics_window *metrics)
{
	struct sink_set ss = { .cnt = 0 };
	int err = open_sinks(&ss, r);

	if (!err)
		err = session__run(r->s, ss.sinks, ss.cnt, totals);
	for (uint32_t i = 0; i < ss.list_cnt && !err; i++)
		err = ss.list[i].args.output->finish(ss.list[i].o, &ss.list[i].args);
	if (!err && ss.wm)
		window_metrics__finish(ss.wm, totals, metrics);
	*threads = ss.threads;
	while (ss.list_cnt--)
		ss.list[ss.list_cnt].args.output->free(ss.list[ss.list_cnt].o);
	window_metrics__free(ss.wm);
	return err;
}

static bool is_on(const struct session *s, const char *key)
{
	const char *json = session__meta(s, key);

	return json && !strcmp(json, "true");
}

/* A capture is a foreign file: what is no sort key or number in it is as if it were not there. */
static const char *recorded_sort_key(const struct session *s, char *buf, size_t cap)
{
	session_json__meta_text(s, "sort_by", buf, cap);
	return report__is_sort_key(&operators_report, buf) || !strcmp(buf, OUTPUTS_UNSORTED) ?
		       buf :
		       OUTPUTS_SORTED;
}

static int recorded_row_limit(const struct session *s)
{
	const char *json = session__meta(s, "row_limit");
	char *end;
	long v = json ? strtol(json, &end, 10) : 0;

	return json && end != json && !*end && v >= -1 && v <= INT_MAX ? (int)v : 100;
}

/* Fills in options that were not given: as the recording was, else as `report` alone does it. */
static void take_recorded(struct outputs *o, const struct session *s, char *buf, size_t cap)
{
	struct output_args *a = &o->args;

	if (session__info(s)->sample_hz && o->report == &operators_report && !a->group_by_stack_n)
		o->report = &lines_report; /* it has no operators */
	a->s = s;
	a->by_shape = a->by_shape ? a->by_shape > 0 : is_on(s, "by_shape");
	a->with_flops = a->with_flops ? a->with_flops > 0 : is_on(s, "with_flops");
	a->exact_memory = a->exact_memory ? a->exact_memory > 0 : is_on(s, "exact_memory");
	if (!a->sort_by)
		a->sort_by = o->report == &operators_report ? recorded_sort_key(s, buf, cap) :
							      OUTPUTS_SORTED;
	if (!strcmp(a->sort_by, OUTPUTS_UNSORTED))
		a->sort_by = NULL;
	if (a->row_limit == OUTPUT_ROWS_DEFAULT)
		a->row_limit = o->report && o->report->rows ? o->report->rows :
							      recorded_row_limit(s);
}

int outputs__take(struct outputs *o, const char *command, const struct opt_words *words)
{
	o->captures = words->list;
	o->capture_cnt = words->cnt;
	if (!words->cnt)
		pr_error("%s: a capture is required; see 'ptbpf %s --help'", command, command);
	else if (o->step_on && o->no_steps)
		pr_error("%s: --step-on and --no-steps exclude each other", command);
	else
		return 0;
	return -EINVAL;
}

/* ---- the child ---- */

static struct outputs_result result_of(const struct session_info *info,
				       const struct session_totals *totals)
{
	uint64_t window = info->end_ns - info->begin_ns;
	struct outputs_result r = {
		.window_ns = window,
		.slices = totals->slices,
		.steps = totals->steps - totals->partial_steps + totals->own_steps,
		.lost = session_info__counter(info, PTB_CNT_RING_FULL),
		.stop_reason = info->stop_reason,
		.cost_share = -1,
	};

	if (window && session_info__counter(info, PTB_CNT_COST_PS))
		r.cost_share = session_info__cost_ns(info) / (double)window;
	if (window && info->sample_hz)
		r.cost_share =
			(double)session_info__counter(info, PTB_CNT_SAMPLES_NS) / (double)window;
	if (!loss_account__incomplete(info, totals, r.incomplete, sizeof(r.incomplete)))
		r.incomplete[0] = '\0';
	return r;
}

static int write_outputs(struct reader *r, uint8_t **bytes, size_t *len)
{
	struct session_totals totals = { 0 };
	struct metrics_window metrics = { 0 };
	struct answer *answer;
	uint64_t threads = 0;
	char sort_by[64];
	int err;

	r->o.args.totals = &totals;
	take_recorded(&r->o, r->s, sort_by, sizeof(sort_by));
	err = run_sinks(r, &totals, &threads, &metrics);
	if (err)
		return err;
	if (r->o.summary)
		print_summary(&r->o, r->s, &totals, threads,
			      capture_reader__bytes(join__reader(r->j)));
	*len = sizeof(*answer) + metrics.op_cnt * sizeof(*answer->ops);
	answer = xcalloc(1, *len);
	answer->result = result_of(session__info(r->s), &totals);
	answer->metrics = metrics;
	if (metrics.op_cnt)
		memcpy(answer->ops, metrics.ops, metrics.op_cnt * sizeof(*answer->ops));
	*bytes = (void *)answer;
	return 0;
}

static int read_captures(void *arg, const struct read_files *files, uint8_t **bytes, size_t *len)
{
	struct reader *r = arg;
	const struct outputs *o = &r->o;
	const struct join_opts jopts = { .paths = o->captures,
					 .cnt = o->capture_cnt,
					 .fds = files->captures,
					 .by_collectives = o->align &&
							   !strcmp(o->align, "collectives") };
	const struct session_opts sopts = { .step_on = o->step_on,
					    .no_steps = o->no_steps,
					    .when = o->when };
	int err = join__open(&jopts, &r->j);

	r->files = files;
	if (!err)
		err = session__open(join__reader(r->j), &sopts, &r->s);
	return err ? err : r->fn(r, bytes, len); /* what it has goes with the process */
}

/* ---- the parent ---- */

/* "rank0.ptb and 3 more" */
static void put_name(const struct outputs *o, char *buf, size_t cap)
{
	if (o->capture_cnt > 1)
		snprintf(buf, cap, "%s and %u more", o->captures[0], o->capture_cnt - 1);
	else
		snprintf(buf, cap, "%s", o->captures[0]);
}

static void choose_width(struct output_args *a, const char *table)
{
	if (a->json || (table && !strcmp(table, "torch")))
		return;
	a->columns = terminal__columns(STDOUT_FILENO);
	a->colour = a->columns && terminal__colour(STDOUT_FILENO);
	if (!a->columns && table)
		a->columns = terminal__assumed();
}

int outputs__ask(const struct outputs *o, reader_fn fn, size_t max, uint8_t **answer, size_t *len)
{
	char name[PATH_MAX + 32];
	struct reader r = { .o = *o, .fn = fn };
	struct read_job job = { .name = name,
				.captures = o->captures,
				.capture_cnt = o->capture_cnt,
				.capture_fd = o->capture_fd,
				.diff = o->args.diff,
				.fn = read_captures,
				.arg = &r,
				.answer_max = max };
	int err;

	put_name(o, name, sizeof(name));
	r.o.args.capture = name;
	choose_width(&r.o.args, o->table);
	for (uint32_t i = 0; i < OUTPUTS_FILES; i++)
		job.outputs[i] = o->files[i].path;
	if (o->metrics)
		window_metrics__read_users(&r.users);
	err = read_child__run(&job, answer, len);
	hashmap__clear(&r.users);
	return err;
}

/* The operators' names and numbers may be anything; no count or text leads beyond its end. */
static bool take_answer(const struct outputs *o, const struct answer *a, size_t len,
			struct outputs_result *result)
{
	struct metrics_window *w = o->metrics;

	if (len < sizeof(*a) || a->metrics.op_cnt > METRICS_WINDOW_OPS ||
	    a->metrics.gpu_cnt > METRICS_GPUS ||
	    len != sizeof(*a) + a->metrics.op_cnt * sizeof(*a->ops))
		return false;
	*result = a->result;
	result->incomplete[sizeof(result->incomplete) - 1] = '\0';
	if (!w)
		return true;
	*w = a->metrics;
	w->ops = vec_dup(a->ops, w->op_cnt, sizeof(*w->ops));
	w->op_cap = w->op_cnt;
	for (uint32_t i = 0; i < w->op_cnt; i++)
		w->ops[i].name[sizeof(w->ops[i].name) - 1] = '\0';
	return true;
}

void outputs__say_incomplete(const struct outputs_result *r)
{
	fputs("ptbpf: incomplete: ", stderr);
	term_text__put(stderr, r->incomplete, SIZE_MAX);
	fputc('\n', stderr);
}

int outputs__write(const struct outputs *o)
{
	struct outputs_result result;
	uint8_t *answer = NULL;
	size_t len = 0;
	int err =
		outputs__ask(o, write_outputs,
			     sizeof(struct answer) + METRICS_WINDOW_OPS * sizeof(struct metrics_op),
			     &answer, &len);

	bool good = !err && take_answer(o, (const void *)answer, len, &result);

	if (!err && !good)
		pr_error("'%s' has taken over the process that read it", o->captures[0]);
	free(answer);
	if (!good)
		return EXIT_FAILED;
	for (uint32_t i = 0; i < OUTPUTS_FILES && o->files[i].path && o->summary; i++) {
		const struct output *f = o->files[i].output;

		pr_info("%s: %s%s%s%s", f->title, o->files[i].path, f->viewer ? " (" : "",
			f->viewer ? f->viewer : "", f->viewer ? ")" : "");
	}
	if (o->result)
		*o->result = result;
	if (!result.incomplete[0])
		return EXIT_DONE;
	if (o->summary || !o->result)
		outputs__say_incomplete(&result);
	return EXIT_INCOMPLETE;
}
