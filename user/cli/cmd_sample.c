/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_opts.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_opts.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/cmd.h"
#include "cli/conf.h"
#include "cli/sample_steps.h"
#include "sample/control.h"
#include "sample/http_server.h"
#include "sample/window_dir.h"

#define SAMPLES_HZ 99 /* of a job that hangs */

#define SCHEDULE_DEFAULT "wait=55s,active=5s"
#define SCHEDULE_OF_EVENTS "none" /* with --open-on */
#define OPEN_INTERVAL_NS 600000000000ULL
#define OPEN_INTERVAL_UNSET UINT64_MAX

/* clang-format off */
#define CHILDREN_OPT \
	{ OPT_FLAG, 0, "children", offsetof(struct run_cfg, rec.children), NULL, \
	  "also child processes, those forked within a window included" }

static const struct opt_def sample_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "targets" },
	{ OPT_PIDS, 'p', "pid", offsetof(struct sample_cfg, run.pids), "PID[,PID...]", "these processes, until all have ended" },
	{ OPT_FLAG, 0, "all-torch", offsetof(struct sample_cfg, select.all_torch), NULL,
	  "every process that has PyTorch loaded when a window begins" },
	{ OPT_STR, 0, "comm", offsetof(struct sample_cfg, select.comm), "PATTERN",
	  "likewise those whose name (/proc/PID/comm) matches, as in 'pt_*'" },
	{ OPT_STR, 0, "cgroup", offsetof(struct sample_cfg, select.cgroup), "PATH",
	  "likewise those in this control group or below it" },
	{ OPT_INT, 0, "process-limit", offsetof(struct sample_cfg, process_limit), "N",
	  "so many of them in a window, others in the next ones, in turn (default: 32 if no other process has PyTorch, else 16)" },
	CHILDREN_OPT,
	{ OPT_STR, 0, "config", offsetof(struct sample_cfg, config), "FILE",
	  "read options from it, too, in lines NAME=VALUE; the command line wins; SIGHUP reads it again" },
	{ OPT_GROUP, 0, "", 0, NULL, "windows" },
	{ OPT_STR, 0, "schedule", offsetof(struct sample_cfg, schedule), "LIST",
	  "wait=TIME,warmup=TIME,active=TIME,repeat=N,skip_first=TIME,skip_first_wait=0 or 1, as torch.profiler.schedule; numbers without units are steps; none: only windows that ptbpf trigger requests (default: wait=55s,active=5s)" },
	{ OPT_STR, 0, "open-on", offsetof(struct sample_cfg, open_on), "LIST",
	  "open a window when it happens in a process: slow=1.5x (a step takes so many times the median of the last ones), grows=1GiB (its resident memory does), hang=60s (no step ends for so long: a window of samples), annotation=NAME (it begins), oom (PyTorch cannot allocate memory); without --schedule there are no other windows" },
	{ OPT_DURATION, 0, "open-interval", offsetof(struct sample_cfg, open_interval_ns), "TIME",
	  "at least so long between two such windows for one kind of event in one process (10m)" },
	{ OPT_DURATION, 0, "flight", offsetof(struct sample_cfg, run.rec.flight_ns), "TIME",
	  "with --pid: these windows begin so long before the event; all that a window records is then recorded all the time, at the cost of that, and kept in memory" },
	{ OPT_SIZE, 0, "flight-buffer", offsetof(struct sample_cfg, run.rec.flight_bytes), "SIZE",
	  "memory for it; what does not fit is dropped, the oldest first (default: 64MiB)" },
	{ OPT_DURATION, 0, "step-timeout", offsetof(struct sample_cfg, run.rec.steps.timeout_ns), "TIME",
	  "in steps: end a window in which none ends for so long (60s)" },
	{ OPT_STR, 0, "max-overhead", offsetof(struct sample_cfg, max_overhead), "PERCENT",
	  "record a process for a shorter time, and in fewer windows, so that kernel probes cost it no more of its time than this on average (0.5%)" },
	STEP_OPTS,
	{ OPT_GROUP, 0, "", 0, NULL, "files" },
	{ OPT_STR, 0, "dir", offsetof(struct sample_cfg, dir), "DIR",
	  "directory of captures, traces and the log " WINDOW_LOG },
	{ OPT_CHOICE, 0, "traces", offsetof(struct sample_cfg, traces), "FORMAT=none, json, json.gz",
	  "write a Chrome trace of each window, named as tensorboard_trace_handler names it (default: none)" },
	{ OPT_SIZE, 0, "max-disk", offsetof(struct sample_cfg, max_disk), "SIZE",
	  "delete the oldest windows when all take more than this" },
	{ OPT_STR, 0, "on-window", offsetof(struct sample_cfg, on_window), "COMMAND",
	  "run by sh after each window, with PTBPF_WINDOW, PTBPF_CAPTURE, PTBPF_TRACE and PTBPF_EXIT in its environment" },
	{ OPT_STR, 0, "metrics", offsetof(struct sample_cfg, metrics), "ADDRESS",
	  "serve OpenMetrics at http://ADDRESS/metrics: PORT or :PORT (on 127.0.0.1), HOST:PORT, [::1]:PORT" },
	{ OPT_STR, 0, "control", offsetof(struct sample_cfg, control), "PATH",
	  "Unix socket of an HTTP server for ptbpf trigger, ptbpf status and others; off: none (default: in " CONTROL_DIR ", by the name of --dir)" },
	{ OPT_FLAG, 'q', "quiet", offsetof(struct sample_cfg, run.quiet), NULL, "print only warnings and errors" },
	RECORDING_OPTS,
	SOURCE_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};
/* clang-format on */

const struct cmd_usage sample_usage = {
	.name = "sample",
	.synopsis = "--pid PID[,PID...] | --all-torch | --comm PATTERN | --cgroup PATH  --dir DIR [options] | --config FILE",
	.summary = "Records windows by a schedule, for as long as the processes live. Between windows nothing is attached,\n"
		   "and the processes run at their own speed. SIGTERM and Ctrl-C end it after the window in hand.",
	.examples = "  sudo ptbpf sample --pid 4242 --dir /var/tmp/windows\n"
		    "  sudo ptbpf sample --all-torch --schedule wait=10m,warmup=1s,active=2s --dir /var/lib/ptbpf --max-disk 2GiB\n",
	.opts = sample_opts,
};

static bool selects(const struct sample_cfg *cfg)
{
	return cfg->select.all_torch || cfg->select.comm || cfg->select.cgroup;
}

/* Options of the programs that record, as they were given: those that live__check() derives
 * would contradict them. */
void sample_settings__set_words(struct sample_settings *set)
{
	static const struct opt_def recording[] = {
		CHILDREN_OPT, STEP_OPTS, RECORDING_OPTS, SOURCE_OPTS, { OPT_GROUP, 0, NULL, 0, NULL, NULL }
	};
	static const struct opt_def sampling[] = {
		CHILDREN_OPT, STEP_OPTS, SOURCE_OPTS, { OPT_GROUP, 0, NULL, 0, NULL, NULL }
	};
	static const struct opt_def *const following = sampling + 1; /* no children */
	const struct run_cfg *run = &set->cfg.run;
	struct window_options *o = &set->options;

	opts__words(recording, NULL, run, &o->args);
	words__add(&o->samples_args, "--sample-stacks=%d", SAMPLES_HZ);
	opts__words(sampling, "agent", run, &o->samples_args);
	opts__words(following, "agent", run, &set->follow_args);
	if (set->cfg.open_on)
		words__add(&set->follow_args, "--open-on=%s", set->cfg.open_on);
	if (set->cfg.max_overhead)
		words__add(&set->follow_args, "--max-overhead=%s", set->cfg.max_overhead);
}

static void free_words(struct sample_settings *set)
{
	words__free(&set->options.args);
	words__free(&set->options.samples_args);
	words__free(&set->follow_args);
}

static int check_events(struct sample_settings *set)
{
	struct sample_cfg *cfg = &set->cfg;

	if (!cfg->schedule)
		cfg->schedule = cfg->open_on ? SCHEDULE_OF_EVENTS : SCHEDULE_DEFAULT;
	if (!cfg->open_on && cfg->open_interval_ns != OPEN_INTERVAL_UNSET) {
		pr_error("sample: --open-interval needs --open-on");
		return -1;
	}
	if (cfg->open_interval_ns == OPEN_INTERVAL_UNSET)
		cfg->open_interval_ns = OPEN_INTERVAL_NS;
	if (!cfg->open_on)
		return 0;
	if (cfg->run.no_steps) {
		pr_error("sample: --open-on follows steps: it excludes --no-steps");
		return -1;
	}
	log__set_context(conf__where(set->conf, cfg->open_on));
	return event_rules__parse(cfg->open_on, &set->events);
}

/* What happens is held all the time: that has a cost which no limit can keep down. */
static int check_flight(struct sample_settings *set)
{
	struct sample_cfg *cfg = &set->cfg;
	const char *why =
		!cfg->open_on      ? "needs --open-on: no other windows begin before their reason" :
		!cfg->run.pids.cnt ? "needs --pid: processes cannot join what is held" :
		cfg->max_overhead ? "excludes --max-overhead: its probes are attached all the time" :
		cfg->run.rec.sample_hz ? "excludes --sample-stacks" :
					 NULL;

	if (live__check_flight(&cfg->run))
		return -1;
	if (!cfg->run.rec.flight_ns || !why)
		return 0;
	pr_error("sample: --flight %s", why);
	return -1;
}

/* Errors about a value name its line, others the file. */
static int check(struct sample_settings *set)
{
	struct sample_cfg *cfg = &set->cfg;

	log__set_context(cfg->config);
	if ((cfg->run.pids.cnt > 0) == selects(cfg)) {
		pr_error("sample: either --pid, or --all-torch, --comm or --cgroup is required; see 'ptbpf sample --help'");
		return -1;
	}
	if (cfg->process_limit != SAMPLE_LIMIT_AUTO &&
	    (cfg->process_limit < 1 || cfg->process_limit > PROC_SELECT_MAX)) {
		pr_error("sample: %d is not a valid value for --process-limit (1 to %d)",
			 cfg->process_limit, PROC_SELECT_MAX);
		return -1;
	}
	if (!cfg->dir) {
		pr_error("sample: --dir is required; see 'ptbpf sample --help'");
		return -1;
	}
	sample_settings__set_words(set);
	if (live__check(&cfg->run))
		return -1;
	if (check_events(set) || check_flight(set))
		return -1;
	log__set_context(conf__where(set->conf, cfg->schedule));
	if (schedule__parse(cfg->schedule, &set->schedule) ||
	    sample_steps__check(&set->schedule, &cfg->run, &set->options.steps))
		return -1;
	log__set_context(conf__where(set->conf, cfg->max_overhead));
	if (cfg->max_overhead &&
	    (quantity__percent(cfg->max_overhead, &set->max_overhead) || !set->max_overhead)) {
		pr_error("sample: '%s' is not a valid value for --max-overhead (0.5%%)",
			 cfg->max_overhead);
		return -1;
	}
	log__set_context(conf__where(set->conf, cfg->metrics));
	if (cfg->metrics && !http_listen__valid(cfg->metrics)) {
		pr_error("sample: '%s' is not a valid value for --metrics (9464, 127.0.0.1:9464, [::1]:9464)",
			 cfg->metrics);
		return -1;
	}
	log__set_context(conf__where(set->conf, cfg->control));
	if (set->schedule.none && !cfg->open_on && cfg->control &&
	    !strcmp(cfg->control, SAMPLE_CONTROL_OFF)) {
		pr_error("sample: --schedule none needs a control socket: without --control off");
		return -1;
	}
	set->options.duration_ns = set->schedule.in_steps ? 0 : set->schedule.active;
	return 0;
}

/* The file, and the command line over it, which has been parsed into `line`. */
static int read_file(struct sample_settings *set, const struct sample_cfg *line, int argc, char **argv)
{
	struct sample_cfg *cfg = &set->cfg;
	const char *again;

	if (conf__read(line->config, &sample_usage, cfg, &set->conf))
		return OPTS_ERROR;
	again = cfg->config;
	if (again) {
		log__set_context(conf__where(set->conf, again));
		pr_error("'config' is an option of the command line only");
		log__set_context(NULL);
		return OPTS_ERROR;
	}
	if (line->run.pids.cnt || selects(line)) {
		cfg->run.pids.cnt = 0;
		cfg->select = (struct proc_select){ .comm = NULL };
	}
	return opts__parse(&sample_usage, cfg, argc, argv, NULL) < 0 ? OPTS_ERROR : 0;
}

int sample_settings__load(int argc, char **argv, struct sample_settings **out)
{
	static const struct sample_cfg none = { .run = { .row_limit = OUTPUT_ROWS_DEFAULT },
						.open_interval_ns = OPEN_INTERVAL_UNSET,
						.process_limit = SAMPLE_LIMIT_AUTO };
	struct sample_settings *set = xcalloc(1, sizeof(*set));
	struct sample_cfg line = none;
	int err = OPTS_ERROR;

	set->holders = 1;
	set->cfg = none;
	err = opts__parse(&sample_usage, &line, argc, argv, NULL);
	if (err >= 0 && !line.config)
		set->cfg = line;
	else if (err >= 0)
		err = read_file(set, &line, argc, argv);
	if (err >= 0)
		err = check(set) ? OPTS_ERROR : 0;
	log__set_context(NULL);
	if (err)
		sample_settings__release(set);
	else
		*out = set;
	return err;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* An option that differs and cannot change, NULL: none. */
static const char *fixed_change(const struct sample_cfg *a, const struct sample_cfg *b)
{
	if (a->run.pids.cnt != b->run.pids.cnt ||
	    memcmp(a->run.pids.pids, b->run.pids.pids, a->run.pids.cnt * sizeof(pid_t)) != 0)
		return "pid";
	if (!same_text(a->metrics, b->metrics))
		return "metrics";
	if (!same_text(a->control, b->control))
		return "control";
	return same_text(a->dir, b->dir) ? NULL : "dir";
}

int sample_settings__reload(int argc, char **argv, const struct sample_settings *old,
			    struct sample_settings **out)
{
	const char *fixed;
	int err = sample_settings__load(argc, argv, out);

	if (!err && (fixed = fixed_change(&old->cfg, &(*out)->cfg))) {
		pr_error("%s: '%s' cannot change while ptbpf runs; restart it for that",
			 old->cfg.config, fixed);
		sample_settings__release(*out);
		err = OPTS_ERROR;
	}
	if (err) { /* they have been set from the new ones */
		log__enable_domains(old->cfg.run.log);
		log__set_quiet(old->cfg.run.quiet);
	}
	return err;
}

struct sample_settings *sample_settings__hold(struct sample_settings *set)
{
	set->holders++;
	return set;
}

void sample_settings__release(struct sample_settings *set)
{
	if (!set || --set->holders)
		return;
	free_words(set);
	if (set->base)
		sample_settings__release(set->base);
	else
		conf__free(set->conf);
	free(set);
}
