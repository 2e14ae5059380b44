/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Around a recording; see live.h. */
#define LOG_DOMAIN "live"
#include "cli/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/text.h"
#include "capture/capture.h"
#include "cli/cmd.h"
#include "cli/outputs.h"
#include "record/recorder.h"
#include "report/report.h"
#include "target/proc_info.h"

#define SAMPLE_HZ_MAX 1000
#define FLIGHT_MAX_NS 3600000000000ULL
#define FLIGHT_BYTES (64ULL << 20)
#define FLIGHT_BYTES_MIN (4ULL << 20)

/* Is the word in a list like "cpu,cuda"? */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *at;

	for (at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

/* Words of a list, each once, and something to record among them. */
static bool activities_ok(const char *list)
{
	static const char *const words[] = { "cpu", "cuda", "sync", "graphs" };
	size_t len = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		len += has_word(list, words[i]) ? strlen(words[i]) + 1 : 0;
	return strlen(list) + 1 == len && (has_word(list, "cuda") || !strcmp(list, "cpu"));
}

static enum probe_args args_of(const struct run_cfg *cfg)
{
	if (cfg->execution_trace)
		return PROBE_ARGS_FULL;
	return cfg->record_shapes || cfg->with_flops || cfg->by_shape ? PROBE_ARGS_SHAPES :
									PROBE_ARGS_NONE;
}

static enum agent_mode agent_of(const struct run_cfg *cfg)
{
	if (!cfg->agent || !strcmp(cfg->agent, "auto"))
		return AGENT_AUTO;
	return strcmp(cfg->agent, "off") ? AGENT_INJECT : AGENT_OFF;
}

/* Fills what the options mean together into cfg->rec. A value of --activities that means nothing:
 * -EINVAL (reported). */
static int resolve_options(struct run_cfg *cfg)
{
	const char *list = cfg->activities;

	if (list && !activities_ok(list)) {
		pr_error(
			"--activities %s: valid values are cpu, cuda and, with cuda, sync and graphs "
			"(cpu,cuda,sync,graphs)",
			list);
		return -EINVAL;
	}
	cfg->rec.args = args_of(cfg);
	cfg->rec.agent = agent_of(cfg);
	cfg->rec.ops = !list || has_word(list, "cpu");
	cfg->rec.gpu = (!list || has_word(list, "cuda")) &&
		       (!cfg->gpu || strcmp(cfg->gpu, "off") != 0);
	cfg->rec.sync = list && has_word(list, "sync");
	cfg->rec.stacks |= cfg->rec.modules;
	cfg->rec.graphs = cfg->rec.gpu && list && has_word(list, "graphs");
	return 0;
}

static int check_rate(const char *option, int hz)
{
	if (hz >= 0 && hz <= SAMPLE_HZ_MAX)
		return 0;
	pr_error("--%s %d: valid values are 1 to %d", option, hz, SAMPLE_HZ_MAX);
	return -EINVAL;
}

/* --sample-stacks: samples need nothing of torch, and come with nothing else. */
static int resolve_samples(struct run_cfg *cfg)
{
	const struct {
		bool on;
		const char *name;
	} others[] = {
		{ cfg->rec.with_samples, "with-samples" },
		{ cfg->rec.modules, "with-modules" },
		{ cfg->rec.stacks, "with-stack" },
		{ cfg->record_shapes, "record-shapes" },
		{ cfg->with_flops, "with-flops" },
		{ cfg->by_shape, "group-by-input-shape" },
		{ cfg->et, "et" },
		{ cfg->execution_trace, "execution-trace" },
		{ cfg->rec.memory, "profile-memory" },
		{ cfg->rec.kernel_memory, "kernel-memory" },
		{ cfg->rec.sched, "sched" },
		{ cfg->activities && strcmp(cfg->activities, "cpu") != 0,
		  "activities other than cpu" },
		{ !cfg->activities && cfg->rec.agent == AGENT_INJECT,
		  "agent inject without --activities cpu" },
		{ cfg->dry_run, "dry-run" },
	};

	if (check_rate("sample-stacks", cfg->rec.sample_hz) ||
	    check_rate("with-samples", cfg->rec.with_samples))
		return -EINVAL;
	if (!cfg->rec.sample_hz)
		return 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].on) {
			pr_error(
				"--sample-stacks records samples only, without probes: it excludes --%s",
				others[i].name);
			return -EINVAL;
		}
	cfg->rec.stacks = true;
	cfg->rec.ops = cfg->rec.gpu = false;
	if (!cfg->activities) /* which operator is open costs the program a callback for each */
		cfg->rec.agent = AGENT_OFF;
	return 0;
}

int live__check(struct run_cfg *cfg)
{
	if (!log__enable_domains(cfg->log)) {
		pr_error("'%s' is not a valid value for --log (" LOG_DOMAINS ", all)", cfg->log);
		return -EINVAL;
	}
	log__set_quiet(cfg->quiet);
	if (live_files__check(cfg) || resolve_options(cfg) || resolve_samples(cfg))
		return -EINVAL;
	if (cfg->exact_memory && !cfg->rec.memory) {
		pr_error("--exact-memory needs --profile-memory");
		return -EINVAL;
	}
	if (cfg->step_on && cfg->no_steps) {
		pr_error("--step-on and --no-steps exclude each other");
		return -EINVAL;
	}
	return 0;
}

int live__parse_overhead(const char *command, const char *text, double *share)
{
	*share = 0;
	if (!strcmp(text, MAX_OVERHEAD_OFF) || (!quantity__percent(text, share) && *share > 0))
		return 0;
	pr_error("%s: '%s' is not a valid value for --max-overhead (0.5%%, off)", command, text);
	return -EINVAL;
}

int live__check_flight(struct run_cfg *cfg)
{
	struct record_opts *rec = &cfg->rec;

	if (!rec->flight_ns && !rec->flight_bytes)
		return 0;
	if (!rec->flight_ns || rec->flight_ns > FLIGHT_MAX_NS) {
		pr_error(rec->flight_ns ? "--flight: at most an hour can be held" :
					  "--flight-buffer needs --flight");
		return -EINVAL;
	}
	if (!rec->flight_bytes)
		rec->flight_bytes = FLIGHT_BYTES;
	if (rec->flight_bytes < FLIGHT_BYTES_MIN) {
		pr_error("--flight-buffer: at least 4MiB are needed");
		return -EINVAL;
	}
	if (rec->max_memory && rec->flight_bytes > rec->max_memory / 2) {
		pr_error("--flight-buffer: it may take at most half of --max-memory");
		return -EINVAL;
	}
	if (!rec->max_memory)
		rec->max_memory = LIMIT_MEMORY + rec->flight_bytes;
	return 0;
}

/* Options that later reports and exports take for theirs. */
static void write_output_opts(struct recorder *rec, const struct run_cfg *cfg)
{
	const struct {
		const char *key;
		bool on;
	} flags[] = { { "no_steps", cfg->no_steps },
		      { "by_shape", cfg->by_shape },
		      { "with_flops", cfg->with_flops },
		      { "exact_memory", cfg->exact_memory },
		      { "overload_names", cfg->overload_names } };
	const struct {
		const char *key, *text;
	} texts[] = { { "step_on", cfg->step_on },
		      { "sort_by", cfg->sort_by },
		      { "activities", cfg->activities } };
	char num[32];

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (flags[i].on)
			recorder__meta(rec, flags[i].key, "true");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].text)
			recorder__meta_text(rec, texts[i].key, texts[i].text);
	snprintf(num, sizeof(num), "%d", cfg->pids.cnt ? cfg->pids.pids[0] : 0);
	recorder__meta(rec, "pid", num);
	snprintf(num, sizeof(num), "%d", cfg->row_limit);
	if (cfg->row_limit != OUTPUT_ROWS_DEFAULT)
		recorder__meta(rec, "row_limit", num);
}

/* "python train.py (4242)" */
static void put_who(struct live *live, const struct run_cfg *cfg, pid_t pid)
{
	char *cmdline = cfg->pids.cnt > 1 ? NULL : proc_info__cmdline(pid);
	char name[128];

	if (cmdline)
		snprintf(live->who, sizeof(live->who), "%s (%d)",
			 command__short(name, sizeof(name), cmdline), pid);
	else
		snprintf(live->who, sizeof(live->who), "%u processes", cfg->pids.cnt);
	free(cmdline);
}

int live__open(struct live *live, const struct run_cfg *cfg, pid_t pid)
{
	int err;

	live->cfg = cfg;
	put_who(live, cfg, pid);
	live_files__choose(live, cfg, pid);
	/* written last; what cannot be created must be known before the window, not after it */
	if (live_files__can_write(live))
		return EXIT_FAILED;
	err = run__open(&cfg->rec, live->capture, &live->run);
	if (!err)
		write_output_opts(run__recorder(live->run), cfg);
	if (err && !log__has_error())
		pr_error("cannot begin to record '%s': %s", live->capture, errstr(err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

void live__announce(struct live *live)
{
	live->run_err = run__activate(live->run);
	live->announced = true;
	if (!live->run_err)
		progress__begun(&live->progress, live->run);
	if (live->cfg->rec.flight_ns && !live->run_err)
		pr_info("attached to %u process%s; the last %.3g s are held until SIGUSR1, Ctrl-C or the target's end",
			run__traced(live->run), run__traced(live->run) == 1 ? "" : "es",
			(double)live->cfg->rec.flight_ns / 1e9);
	if (live->cfg->rec.flight_ns)
		return;
	if (run__traced(live->run))
		pr_info("attached to %u process%s; recording%s", run__traced(live->run),
			run__traced(live->run) == 1 ? "" : "es",
			live->cfg->rec.duration_ns ? "" : " until Ctrl-C or the target's end");
}

/* "python train.py (4242): 12 of 45 s, 98 k records, 3 MiB, lost 0; Ctrl-C ends it" */
void live__show(struct live *live, struct run *run)
{
	const struct run_cfg *cfg = live->cfg;
	uint64_t now_ns = clock__mono_ns();
	struct run_status s;
	char of[32] = "";

	if (now_ns < live->shown_ns + LOG_LINE_NS)
		return;
	live->shown_ns = now_ns;
	s = run__status(run);

	if (cfg->rec.duration_ns)
		snprintf(of, sizeof(of), " of %.3g", (double)cfg->rec.duration_ns / 1e9);
	if (s.begin_ns && !run__is_holding(run))
		log__line("%s: %.0f%s s, %s records, %s, lost %llu; Ctrl-C ends it", live->who,
			  (double)(now_ns - s.begin_ns) / 1e9, of, cell__count(s.records).text,
			  cell__bytes((double)s.bytes).text, (unsigned long long)s.lost);
}

static void say_shortened(const struct live *live)
{
	double ns = (double)live->cfg->rec.duration_ns;

	if (!live->cfg->max_cost_ns || run__stop_reason(live->run) != PTB_STOP_COST)
		return;
	pr_info("recorded %.2g s of %.3g s: the probes have cost %s process %.2g%% of that time (--max-overhead)",
		(double)(clock__mono_ns() - run__status(live->run).begin_ns) / 1e9, ns / 1e9,
		run__traced(live->run) == 1 ? "the" : "a",
		100 * (double)run__cost_ns(live->run) / ns);
}

int live__loop(struct live *live, run_tick_fn tick, void *arg)
{
	if (!live->run_err)
		live->run_err = run__loop(live->run, tick, arg);
	log__line(NULL);
	say_shortened(live);
	if (!live->announced && run__stop_reason(live->run) == PTB_STOP_NO_STEP)
		return EXIT_FAILED; /* the caller reports it */
	if (!live->announced) {
		pr_error("nothing was recorded: %s",
			 live->run_err ?
				 errstr(live->run_err) :
			 run__stop_reason(live->run) == PTB_STOP_COST ?
				 "its warm-up cost all that the window may cost" :
			 live->cfg->rec.sample_hz ?
				 "interrupted, or the target ended, before Python ran in it" :
				 "interrupted, or the target ended, before PyTorch was loaded");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

int live__seal(struct live *live)
{
	live->write_err = run__finish(live->run, &live->capture_fd);
	if (live->write_err == CAPTURE_UNNAMED) {
		if (live->capture_fd >= 0)
			close(live->capture_fd);
		return EXIT_FAILED;
	}
	if (live->capture_fd < 0) {
		pr_error("'%s' cannot be opened again: %s", live->capture,
			 errstr(live->capture_fd));
		pr_hint("ptbpf report %s", live->capture);
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

int live__export(struct live *live)
{
	const struct run_cfg *cfg = live->cfg;
	const char *captures[] = { live->capture };
	struct outputs_result result = { .window_ns = 0 };
	struct outputs o = { .captures = captures,
			     .capture_cnt = 1,
			     .capture_fd = live->capture_fd,
			     .report = cfg->report        ? cfg->report :
				       cfg->no_table      ? NULL :
				       cfg->rec.sample_hz ? &lines_report :
							    &operators_report,
			     .args = { .by_shape = cfg->by_shape,
				       .with_flops = cfg->with_flops,
				       .exact_memory = cfg->exact_memory,
				       .overload_names = cfg->overload_names,
				       .sort_by = cfg->sort_by,
				       .json = cfg->json,
				       .row_limit = cfg->row_limit == OUTPUT_ROWS_DEFAULT &&
								    !cfg->report ?
							    20 :
							    cfg->row_limit },
			     .table = cfg->table,
			     .step_on = cfg->step_on,
			     .no_steps = cfg->no_steps,
			     .summary = live->no_summary ? OUTPUTS_QUIET : OUTPUTS_SUMMARY,
			     .requested_ns = cfg->rec.duration_ns,
			     .result = &result,
			     .metrics = live->metrics };
	int code;

	if (!live->write_err && !live->run_err && cancel__pending()) {
		close(live->capture_fd);
		pr_error("interrupted after the window: '%s' is complete, but nothing was "
			 "exported from it",
			 live->capture);
		pr_hint("ptbpf report %s; ptbpf export %s --format chrome", live->capture,
			live->capture);
		return EXIT_FAILED;
	}
	memcpy(o.files, live->files, sizeof(o.files));
	code = outputs__write(&o);
	if (live->result)
		*live->result = result;
	if ((result.nothing || (cfg->rec.with_samples && !result.slices)) && cfg->rec.ops &&
	    !live->no_summary && code == EXIT_DONE) {
		no_operators__say(cfg, result.window_ns);
		code = EXIT_INCOMPLETE;
	}
	if (live->write_err && code == EXIT_DONE)
		code = EXIT_INCOMPLETE;
	return live->run_err && !live->write_err ? EXIT_FAILED : code;
}

int live__record(struct live *live, run_tick_fn tick, void *arg)
{
	int code = live__loop(live, tick, arg);

	if (!code)
		code = live__seal(live);
	if (code)
		return code;
	progress__sealed(&live->progress, live->run, &live->cfg->pids, live->capture, NULL, 0);
	return live__export(live);
}

void live__free(struct live *live)
{
	run__free(live->run);
}
