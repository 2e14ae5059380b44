/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Trace, table and summary of a capture; see outputs.h. */
#define LOG_DOMAIN "outputs"
#include "cli/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/effort.h"
#include "base/log.h"
#include "base/std_out.h"
#include "base/term_text.h"
#include "capture/capture.h"
#include "cli/cmd.h"
#include "cli/window_metrics.h"
#include "export/chrome_trace.h"
#include "export/exec_trace.h"
#include "export/flamegraph.h"
#include "export/loss_account.h"
#include "export/mem_timeline.h"
#include "export/py_text.h"
#include "export/session_json.h"
#include "export/stacks.h"
#include "export/thread_dump.h"
#include "ranks/rank_times.h"
#include "report/gpu_report.h"
#include "report/line_report.h"
#include "report/mem_report.h"
#include "report/report_out.h"
#include "report/skew_report.h"
#include "report/table.h"

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
		snprintf(buf, cap, "samples took %.1f ms of the target's threads (%.2f %% of the window)",
			 cost / 1e6, window > 0 ? 100.0 * cost / window : 0.0);
		return;
	}
	if (!ps || window <= 0) {
		snprintf(buf, cap, "cost per probe hit not measured");
		return;
	}
	snprintf(buf, cap,
		 "%s hits x %.2f us = at least %.0f ms of the target's threads (%.1f %% of the window)",
		 cell__count(hits).text, (double)ps / 1e6, cost / 1e6, 100.0 * cost / window);
}

/* "; operators of 2 processes by the agent", whose cost is not in the hits; "" where there is none. */
static void agent_text(const struct session_info *info, char *buf, size_t cap)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < info->process_cnt; i++)
		n += info->processes[i].source == 1;
	buf[0] = '\0';
	if (n && n == info->process_cnt)
		snprintf(buf, cap, "operators by the agent; ");
	else if (n)
		snprintf(buf, cap, "operators of %u process%s by the agent; ", n, n == 1 ? "" : "es");
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
	term_text__put(stderr, o->capture, SIZE_MAX);
	fprintf(stderr,
		": %.2f s, %u process%s, %llu thread%s, %s slices, %s; lost %llu; unwound frames "
		"%llu; operators not visible %u; %s%s",
		(double)(info->end_ns - info->begin_ns) / 1e9, info->process_cnt,
		info->process_cnt == 1 ? "" : "es", (unsigned long long)threads, threads == 1 ? "" : "s",
		cell__count(t->slices).text, cell__bytes((double)file_bytes).text,
		(unsigned long long)lost, (unsigned long long)t->unwound, unseen, agent, cost);
	print_step_on(info);
	if (t->truncated_annotations || t->truncated_ops)
		fprintf(stderr, "; cut where they cross an annotation: %llu annotation%s, %llu operator%s",
			(unsigned long long)t->truncated_annotations,
			t->truncated_annotations == 1 ? "" : "s",
			(unsigned long long)t->truncated_ops, t->truncated_ops == 1 ? "" : "s");
	fprintf(stderr, "%s%s\n", open.text[0] ? "; " : "", open.text);
}

static int count_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	(void)tgid;
	(void)tid;
	++*(uint64_t *)arg;
	return 0;
}

static int write_table(const struct outputs *o, struct key_averages *ka, const struct session *s,
		       struct session_totals *totals)
{
	struct table_opts opts = { .sort_by = o->sort_by,
				   .row_limit = o->row_limit,
				   .profile_memory = session__info(s)->has_memory,
				   .device_time = session__info(s)->has_gpu,
				   .by_stack = o->group_by_stack_n > 0 };
	const struct ka_row *rows;
	uint32_t cnt;
	int err;

	rows = key_averages__rows(ka, &cnt);
	if (!rows)
		return -ENOMEM;
	err = o->json ? table__print_json(rows, cnt, &opts, s, totals, stdout) :
			table__print(rows, cnt, &opts, stdout);
	return std_out__end("the table", err);
}

/* What one pass over the capture feeds. */
struct sink_set {
	struct session_sink sinks[11 + WINDOW_METRICS_SINKS];
	uint32_t cnt;
	uint64_t threads;
	struct chrome_trace *ct;
	struct exec_trace *et;
	struct mem_timeline *mt;
	struct key_averages *ka;
	struct py_groups *groups;
	struct mem_report *mr;
	struct gpu_report *gr;
	struct stacks *st;
	struct thread_dump *td;
	struct flamegraph *fg;
	struct line_report *lr;
	struct rank_times *rt;
	struct window_metrics *wm;
};

/* Files that are written. */
static int open_exports(struct sink_set *ss, const struct outputs *o, struct session *s)
{
	struct timeline_opts topts = { .format = (enum timeline_format)o->timeline_format,
				       .tgid = o->pid,
				       .device = o->timeline_device };
	char host[256];
	struct chrome_opts copts = { .trace_name = o->trace, .host_name = host, .tgid = o->pid };
	int err;

	session_json__meta_text(s, "host", host, sizeof(host));
	if (o->trace) {
		err = chrome_trace__open(o->trace, s, &copts, &ss->ct);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = chrome_trace__sink(ss->ct);
	}
	if (o->et) {
		err = exec_trace__open(o->et, s, o->pid, &ss->et);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = exec_trace__sink(ss->et);
	}
	if (o->timeline) {
		err = mem_timeline__open(o->timeline, s, &topts, &ss->mt);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = mem_timeline__sink(ss->mt);
	}
	if (o->stacks) {
		err = stacks__open(o->stacks, s, o->stacks_metric, &ss->st);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = stacks__sink(ss->st);
	}
	if (o->threads) {
		err = thread_dump__open(o->threads, s, &ss->td);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = thread_dump__sink(ss->td);
	}
	if (o->flamegraph) {
		err = flamegraph__open(o->flamegraph, &ss->fg);
		if (!err)
			err = flamegraph__begin(ss->fg, s, o->capture);
		if (err)
			return err;
		ss->sinks[ss->cnt++] = flamegraph__sink(ss->fg);
	}
	return 0;
}

static int open_table(struct sink_set *ss, const struct outputs *o, struct session *s)
{
	struct ka_opts kopts = { .by_shape = o->by_shape,
				 .with_flops = o->with_flops,
				 .exact_memory = o->exact_memory };

	if (o->group_by_stack_n) {
		ss->groups = py_groups__new(s, (uint32_t)o->group_by_stack_n);
		if (!ss->groups)
			return -ENOMEM;
		kopts.stack_text = py_groups__text;
		kopts.stack_arg = ss->groups;
	}
	ss->ka = key_averages__new(&kopts);
	if (!ss->ka)
		return -ENOMEM;
	ss->sinks[ss->cnt++] = key_averages__sink(ss->ka);
	return 0;
}

static int open_sinks(struct sink_set *ss, const struct outputs *o, struct session *s)
{
	int err;

	ss->sinks[ss->cnt++] = (struct session_sink){ .arg = &ss->threads, .thread = count_thread };
	err = open_exports(ss, o, s);
	if (err)
		return err;
	if (o->memory) {
		ss->mr = mem_report__new(s);
		if (!ss->mr)
			return -ENOMEM;
		ss->sinks[ss->cnt++] = mem_report__sink(ss->mr);
	}
	if (o->gpu) {
		ss->gr = gpu_report__new(s);
		if (!ss->gr)
			return -ENOMEM;
		ss->sinks[ss->cnt++] = gpu_report__sink(ss->gr);
	}
	if (o->lines) {
		ss->lr = line_report__new(s, o->operators);
		if (!ss->lr)
			return -ENOMEM;
		ss->sinks[ss->cnt++] = line_report__sink(ss->lr);
	}
	if (o->skew) {
		ss->rt = rank_times__new(s);
		if (!ss->rt)
			return -ENOMEM;
		ss->sinks[ss->cnt++] = rank_times__sink(ss->rt);
	}
	if (o->metrics) {
		ss->wm = window_metrics__new(s);
		if (!ss->wm)
			return -ENOMEM;
		ss->cnt += window_metrics__sinks(ss->wm, &ss->sinks[ss->cnt]);
	}
	return o->table ? open_table(ss, o, s) : 0;
}

/* The second capture of a flame graph: its calls stand beside those of the first. */
static int add_second(const struct outputs *o, struct flamegraph *fg)
{
	const struct session_opts sopts = { .no_steps = true };
	struct session_totals totals = { 0 };
	struct capture_reader *cr = NULL;
	struct session_sink sink;
	struct session *s = NULL;
	int err = capture_reader__open(o->diff, &cr);

	if (!err) {
		effort__begin(capture_reader__bytes(cr));
		err = session__open(cr, &sopts, &s);
	}
	if (!err)
		err = flamegraph__begin(fg, s, o->diff);
	if (!err) {
		sink = flamegraph__sink(fg);
		err = session__run(s, &sink, 1, &totals);
	}
	if (!err)
		flamegraph__end(fg, &totals);
	if (err && !log__has_error())
		pr_error("'%s' cannot be read: %s", o->diff, errstr(err));
	session__free(s);
	capture_reader__close(cr);
	return err;
}

static int finish_flamegraph(const struct outputs *o, struct flamegraph *fg,
			     const struct session_totals *totals)
{
	int err = 0;

	flamegraph__end(fg, totals);
	if (o->diff)
		err = add_second(o, fg);
	return err ? err : flamegraph__finish(fg);
}

static int print_line_report(const struct outputs *o, struct line_report *lr, struct session_totals *totals)
{
	const struct line_opts opts = { .report = { .row_limit = o->row_limit, .json = o->json },
					.sort_by = o->sort_by,
					.modules = o->modules,
					.operators = o->operators,
					.all_lines = o->all_lines };

	return std_out__end("the report", line_report__print(lr, totals, &opts, stdout));
}

static int print_skew(struct rank_times *rt, const struct session *s, struct session_totals *totals,
		      const struct report_opts *opts)
{
	const struct rank_times_result *r;
	int err = rank_times__finish(rt, &r);

	if (!err)
		err = skew_report__print(s, r, totals, opts, stdout);
	return err == -ENODATA ? err : std_out__end("the report", err);
}

static void free_sinks(struct sink_set *ss)
{
	chrome_trace__free(ss->ct);
	exec_trace__free(ss->et);
	mem_timeline__free(ss->mt);
	stacks__free(ss->st);
	thread_dump__free(ss->td);
	flamegraph__free(ss->fg);
	mem_report__free(ss->mr);
	gpu_report__free(ss->gr);
	line_report__free(ss->lr);
	rank_times__free(ss->rt);
	window_metrics__free(ss->wm);
	key_averages__free(ss->ka);
	py_groups__free(ss->groups);
}

static int run_sinks(const struct outputs *o, struct session *s, struct session_totals *totals,
		     uint64_t *threads)
{
	const struct report_opts ropts = { .row_limit = o->row_limit, .json = o->json };
	struct sink_set ss = { .cnt = 0 };
	int err = open_sinks(&ss, o, s);

	if (!err) {
		err = session__run(s, ss.sinks, ss.cnt, totals);
		if (!err && cancel__pending())
			err = -ECANCELED;
		if (err && err != -ECANCELED)
			pr_error("%s: %s while reading the capture", o->capture, errstr(err));
	}
	if (!err && ss.ct)
		err = chrome_trace__finish(ss.ct, totals);
	if (!err && ss.et)
		err = exec_trace__finish(ss.et, totals);
	if (!err && ss.mt)
		err = mem_timeline__finish(ss.mt, totals);
	if (!err && ss.st)
		err = stacks__finish(ss.st, totals);
	if (!err && ss.td)
		err = thread_dump__finish(ss.td, totals);
	if (!err && ss.fg)
		err = finish_flamegraph(o, ss.fg, totals);
	if (!err && ss.mr)
		err = std_out__end("the report", mem_report__print(ss.mr, totals, &ropts, stdout));
	if (!err && ss.gr)
		err = std_out__end("the report", gpu_report__print(ss.gr, totals, &ropts, stdout));
	if (!err && ss.lr)
		err = print_line_report(o, ss.lr, totals);
	if (!err && ss.rt)
		err = print_skew(ss.rt, s, totals, &ropts);
	if (!err && ss.wm)
		err = window_metrics__finish(ss.wm, totals, o->known_metrics, o->metrics);
	if (!err && ss.ka)
		err = write_table(o, ss.ka, s, totals);
	*threads = ss.threads;
	free_sinks(&ss);
	return err;
}

/* Asking for what was not recorded gets a sentence, not an empty column. */
static int check_recorded(const struct outputs *o, const struct session *s)
{
	const struct session_info *info = session__info(s);

	if ((o->by_shape || o->with_flops) && !info->has_shapes) {
		pr_error("'%s' contains no shapes: it was recorded without --record-shapes", o->capture);
		return -ENODATA;
	}
	if ((o->timeline || o->exact_memory) && !info->has_memory) {
		pr_error("'%s' contains no allocations: it was recorded without "
			 "--profile-memory",
			 o->capture);
		return -ENODATA;
	}
	if (o->memory && !info->has_memory && !info->has_kernel_memory) {
		pr_error("'%s' contains no memory events: it was recorded with neither --profile-memory nor "
			 "--kernel-memory",
			 o->capture);
		return -ENODATA;
	}
	if ((o->stacks || o->lines || o->group_by_stack_n) && !info->has_py_stacks) {
		pr_error("'%s' contains no Python stacks: it was recorded without --with-stack",
			 o->capture);
		return -ENODATA;
	}
	if (o->threads && !info->sample_hz) {
		pr_error("'%s' contains no samples: it was recorded without --sample-stacks", o->capture);
		return -ENODATA;
	}
	if (o->modules && !info->has_modules) {
		pr_error("'%s' contains no modules: it was recorded without --with-modules", o->capture);
		return -ENODATA;
	}
	if (o->operators && !info->sample_hz) {
		pr_error("'%s' has no samples; its table of operators is that of report without --by",
			 o->capture);
		return -ENODATA;
	}
	if (o->gpu && !info->has_gpu && !info->has_cuda_calls) {
		pr_error("'%s' contains no GPU activity: it was recorded with --gpu off or "
			 "--activities cpu",
			 o->capture);
		return -ENODATA;
	}
	return 0;
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
	return table__is_sort_key(buf) || !strcmp(buf, OUTPUTS_UNSORTED) ? buf : OUTPUTS_SORTED;
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
	if (session__info(s)->sample_hz && o->table && !o->group_by_stack_n) { /* it has no operators */
		o->table = false;
		o->lines = true;
	}
	if (o->stacks && !o->stacks_metric)
		o->stacks_metric = session__info(s)->sample_hz ? "sampled_cpu_time" :
								 "self_cpu_time_total";
	o->by_shape = o->by_shape ? o->by_shape > 0 : is_on(s, "by_shape");
	o->with_flops = o->with_flops ? o->with_flops > 0 : is_on(s, "with_flops");
	o->exact_memory = o->exact_memory ? o->exact_memory > 0 : is_on(s, "exact_memory");
	if (!o->sort_by)
		o->sort_by = o->lines ? OUTPUTS_SORTED : recorded_sort_key(s, buf, cap);
	if (!strcmp(o->sort_by, OUTPUTS_UNSORTED))
		o->sort_by = NULL;
	if (o->row_limit == OUTPUTS_ROWS_DEFAULT)
		o->row_limit = o->memory || o->gpu || o->skew ? 10 :
			       o->lines                       ? OUTPUTS_LINES :
								recorded_row_limit(s);
}

int outputs__check(const char *command, const struct outputs *o)
{
	if (!o->capture)
		pr_error("%s: a capture is required; see 'ptbpf %s --help'", command, command);
	else if (o->step_on && o->no_steps)
		pr_error("%s: --step-on and --no-steps exclude each other", command);
	else
		return 0;
	return -EINVAL;
}

static void fill_result(struct outputs_result *r, const struct session_info *info,
			const struct session_totals *totals, const char *incomplete)
{
	uint64_t window = info->end_ns - info->begin_ns;

	*r = (struct outputs_result){ .window_ns = window,
				      .slices = totals->slices,
				      .steps = totals->steps - totals->partial_steps + totals->own_steps,
				      .lost = session_info__counter(info, PTB_CNT_RING_FULL),
				      .stop_reason = info->stop_reason,
				      .cost_share = -1 };
	if (window && session_info__counter(info, PTB_CNT_COST_PS))
		r->cost_share = session_info__cost_ns(info) / (double)window;
	if (window && info->sample_hz)
		r->cost_share = (double)session_info__counter(info, PTB_CNT_SAMPLES_NS) / (double)window;
	snprintf(r->incomplete, sizeof(r->incomplete), "%s", incomplete);
}

int outputs__write(const struct outputs *asked)
{
	struct outputs all = *asked, *o = &all;
	char sort_by[64];
	struct session_opts sopts = { .step_on = o->step_on, .no_steps = o->no_steps };
	struct session_totals totals = { 0 };
	struct capture_reader *cr = NULL;
	struct session *s = NULL;
	uint64_t threads = 0;
	char text[OUTPUTS_INCOMPLETE_MAX] = "";
	int code = EXIT_FAILED, err;

	err = o->capture_fd ? capture_reader__open_fd(o->capture, o->capture_fd, &cr) :
			      capture_reader__open(o->capture, &cr);
	if (!err) {
		effort__begin(capture_reader__bytes(cr));
		err = session__open(cr, &sopts, &s);
	}
	if (!err)
		take_recorded(o, s, sort_by, sizeof(sort_by));
	if (!err)
		err = check_recorded(o, s);
	if (!err)
		err = run_sinks(o, s, &totals, &threads);
	if (err) {
		if (!log__has_error())
			pr_error("'%s' cannot be read or exported: %s", o->capture, errstr(err));
		goto out;
	}
	code = EXIT_DONE;
	if (o->summary)
		print_summary(o, s, &totals, threads, capture_reader__bytes(cr));
	if (o->summary && o->trace)
		pr_info("trace: %s (open it in ui.perfetto.dev or chrome://tracing)", o->trace);
	if (o->summary && o->et)
		pr_info("Execution Trace: %s", o->et);
	if (o->summary && o->timeline)
		pr_info("memory timeline: %s", o->timeline);
	if (o->summary && o->stacks)
		pr_info("stacks: %s (flamegraph.pl, speedscope)", o->stacks);
	if (o->summary && o->threads)
		pr_info("threads: %s", o->threads);
	if (o->summary && o->flamegraph)
		pr_info("flame graph: %s (open it in a browser)", o->flamegraph);
	if (loss_account__incomplete(session__info(s), &totals, text, sizeof(text))) {
		if (o->summary || !o->result)
			fprintf(stderr, "ptbpf: incomplete: %s\n", text);
		code = EXIT_INCOMPLETE;
	}
	if (o->result)
		fill_result(o->result, session__info(s), &totals, code == EXIT_DONE ? "" : text);
out:
	session__free(s);
	effort__end();
	capture_reader__close(cr);
	return code;
}
