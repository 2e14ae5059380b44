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

static void count_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	(void)tgid;
	(void)tid;
	++*(uint64_t *)arg;
}

/* How far the pass over the capture is, on a terminal. */
struct pass {
	uint64_t begin_ns, window_ns;
	uint32_t cnt;
	const char *title;
};

static void show_pass(struct pass *p, uint64_t ts_ns)
{
	uint64_t done = ts_ns > p->begin_ns ? ts_ns - p->begin_ns : 0;

	if (++p->cnt % 4096 || !p->window_ns)
		return;
	log__line("%s %.0f%%", p->title,
		  100 * (double)(done < p->window_ns ? done : p->window_ns) / (double)p->window_ns);
}

static void pass_slice(void *arg, const struct slice *sl)
{
	show_pass(arg, sl->end_ns);
}

static void pass_sample(void *arg, const struct py_sample *ps)
{
	show_pass(arg, ps->ts_ns);
}

/* What one pass over the capture feeds. */
struct sink_set {
	struct pass pass;
	struct session_sink sinks[4 + (OUTPUTS_FILES + 1) * OUTPUT_SINKS + OVERVIEW_SINKS +
				  WINDOW_METRICS_SINKS];
	uint32_t cnt;
	uint64_t threads;
	struct {
		struct output_args args;
		void *o;
	} list[OUTPUTS_FILES + 1];
	uint32_t list_cnt;
	struct thread_times *times;
	struct overview *overview;
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
	args->times = ss->times;
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
	if (output->sinks)
		ss->cnt += output->sinks(*o, &ss->sinks[ss->cnt]);
	else
		ss->sinks[ss->cnt++] = output->sink(*o);
	return 0;
}

/* Of what is in some annotations only, the rest of the window would be called Python's. */
static bool needs_times(const struct outputs *o)
{
	bool page = false;

	for (uint32_t i = 0; i < OUTPUTS_FILES && o->files[i].path; i++)
		page |= o->files[i].output == &page_output;
	return !o->when && (page || o->report == &lines_report ||
			    (o->report && overview__has(o->report) && !o->args.json));
}

static int open_sinks(struct sink_set *ss, const struct reader *r)
{
	const struct outputs *o = &r->o;
	int err = 0;

	ss->sinks[ss->cnt++] = (struct session_sink){ .arg = &ss->threads, .thread = count_thread };
	ss->sinks[ss->cnt++] = (struct session_sink){ .arg = &ss->pass,
						      .slice = pass_slice,
						      .sample = pass_sample };
	if (needs_times(o)) {
		ss->times = thread_times__new(r->s);
		ss->sinks[ss->cnt++] = thread_times__sink(ss->times);
	}
	for (uint32_t i = 0; i < OUTPUTS_FILES && o->files[i].path && !err; i++)
		err = open_output(ss, r, o->files[i].output, i);
	if (!err && o->report)
		err = open_output(ss, r, o->report, OUTPUTS_FILES);
	if (!err && o->report && ss->times && o->summary != OUTPUTS_QUIET)
		ss->overview = overview__new(&ss->list[ss->list_cnt - 1].args);
	ss->cnt += overview__sinks(ss->overview, &ss->sinks[ss->cnt]);
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

/* Arguments of a text on stderr, which is made in memory. */
static struct output_args on_stderr(const struct reader *r, const struct output_args *args,
				    char **text, size_t *len)
{
	struct output_args err = *args;

	err.out = xmemstream(text, len);
	err.json = false;
	err.columns = r->err_columns;
	err.colour = r->err_colour;
	return err;
}

/* In one write, so that no other output comes between its parts. */
static void write_stderr(FILE *f, char *const *text, const size_t *len)
{
	fclose(f);
	fflush(stdout);
	fwrite(*text, 1, *len, stderr);
	free(*text);
}

/* On standard output, unless that has torch's text and nothing else. */
static void put_overview(const struct reader *r, struct overview *ov,
			 const struct output_args *args)
{
	struct output_args err;
	char *text = NULL;
	size_t len = 0;

	if (args->output != &operators_report || args->columns) {
		overview__put(ov, args);
		return;
	}
	err = on_stderr(r, args, &text, &len);
	overview__put(ov, &err);
	write_stderr(err.out, &text, &len);
}

static int run_sinks(const struct reader *r, struct session_totals *totals, uint64_t *threads,
		     struct metrics_window *metrics)
{
	const struct session_info *info = session__info(r->s);
	struct sink_set ss = {
		.pass = { info->begin_ns, info->end_ns - info->begin_ns, 0,
			  r->o.files[0].path ? "writing the files" : "reading the capture" },
	};
	int err = open_sinks(&ss, r);

	if (!err)
		err = session__run(r->s, ss.sinks, ss.cnt, totals);
	log__line(NULL);
	if (!err && ss.overview)
		put_overview(r, ss.overview, &ss.list[ss.list_cnt - 1].args);
	for (uint32_t i = 0; i < ss.list_cnt && !err; i++)
		err = ss.list[i].args.output->finish(ss.list[i].o, &ss.list[i].args);
	if (!err && ss.wm)
		window_metrics__finish(ss.wm, totals, metrics);
	*threads = ss.threads;
	while (ss.list_cnt--)
		ss.list[ss.list_cnt].args.output->free(ss.list[ss.list_cnt].o);
	overview__free(ss.overview);
	thread_times__free(ss.times);
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
	if (session__info(s)->with_samples && o->report == &sampled_operators_report)
		o->report = &operators_report; /* it has all of them */
	a->s = s;
	a->by_shape = a->by_shape ? a->by_shape > 0 : is_on(s, "by_shape");
	a->with_flops = a->with_flops ? a->with_flops > 0 : is_on(s, "with_flops");
	a->exact_memory = a->exact_memory ? a->exact_memory > 0 : is_on(s, "exact_memory");
	a->overload_names = a->overload_names ? a->overload_names > 0 : is_on(s, "overload_names");
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
		.nothing = !totals->slices && !totals->gpu_work && !totals->gpu_calls &&
			   !totals->samples,
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

static void put_summary(const struct reader *r, const struct session_totals *totals,
			uint64_t threads)
{
	struct output_args args;
	size_t len = 0;
	char *text = NULL;

	if (r->o.summary == OUTPUTS_QUIET ||
	    (r->o.summary == OUTPUTS_IF_MISSING && !r->o.when &&
	     !loss_account__incomplete(session__info(r->s), totals, NULL, 0)))
		return;
	args = on_stderr(r, &r->o.args, &text, &len);
	summary__put(&args, threads, r->o.requested_ns);
	write_stderr(args.out, &text, &len);
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
	put_summary(r, &totals, threads);
	*len = sizeof(*answer) + metrics.op_cnt * sizeof(*answer->ops);
	answer = xcalloc(1, *len);
	answer->result = result_of(session__info(r->s), &totals);
	answer->result.capture_bytes = capture_reader__bytes(join__reader(r->j));
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
	r.err_columns = terminal__columns(STDERR_FILENO);
	r.err_colour = terminal__colour(STDERR_FILENO);
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
	if (o->report && o->summary == OUTPUTS_IF_MISSING && result.nothing)
		pr_warn("there is no operator, annotation, GPU activity or sample in '%s'",
			o->captures[0]);
	if (o->summary == OUTPUTS_SUMMARY)
		pr_info("capture: %s (%s)", o->captures[0],
			cell__bytes((double)result.capture_bytes).text);
	if (o->summary == OUTPUTS_SUMMARY && !o->files[0].path)
		pr_info("no trace: ptbpf export %s writes one", o->captures[0]);
	for (uint32_t i = 0; i < OUTPUTS_FILES && o->files[i].path && o->summary; i++) {
		const struct output *f = o->files[i].output;

		if (!strcmp(o->files[i].path, OUTPUT_STDOUT))
			continue;
		pr_info("%s: %s%s%s%s", f->title, o->files[i].path, f->viewer ? " (" : "",
			f->viewer ? f->viewer : "", f->viewer ? ")" : "");
	}
	if (o->result)
		*o->result = result;
	if (!result.incomplete[0])
		return EXIT_DONE;
	if (o->summary)
		outputs__say_incomplete(&result);
	return EXIT_INCOMPLETE;
}
