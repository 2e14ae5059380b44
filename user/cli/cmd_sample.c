/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf sample: its options, from the command line and from a configuration file, which can be read
 * again. The daemon is in user/sample.
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "model/session.h"
#include "record/run.h"
#include "sample/control.h"
#include "sample/event_watch.h"
#include "sample/http_server.h"
#include "sample/sample.h"
#include "sample/window_dir.h"

#define SAMPLES_HZ 99 /* of a job that hangs */
#define SCHEDULE_DEFAULT "wait=55s,active=5s"
#define SCHEDULE_OF_EVENTS "none" /* with --open-on */
#define STEP_TIMEOUT_NS 60000000000ULL
#define OPEN_INTERVAL_NS 600000000000ULL
#define OPEN_INTERVAL_UNSET UINT64_MAX
#define PROCESS_LIMIT_UNSET INT32_MIN

_Static_assert(OPT_PIDS_MAX <= PROC_SELECT_MAX, "named processes fit into a window");

struct sample_cfg {
	struct run_cfg run; /* first: rows of options that commands share have offsets in it */
	struct sample_settings set;
	const char *config, *max_overhead;
	int process_limit;
	struct conf *conf;       /* has texts of the options; NULL: no file */
	struct sample_cfg *prev; /* that was read before; windows in hand refer to it */
};

/* clang-format off */
#define CHILDREN_OPT \
	{ OPT_FLAG, 0, "children", offsetof(struct run_cfg, rec.children), NULL, \
	  "also child processes, those forked within a window included" }

static const struct opt_def sample_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "targets" },
	{ OPT_PIDS, 'p', "pid", offsetof(struct sample_cfg, run.pids), "PID[,PID...]",
	  "these processes, until all have ended", OPT_BASIC },
	{ OPT_FLAG, 0, "all-torch", offsetof(struct sample_cfg, set.select.all_torch), NULL,
	  "every process that has PyTorch loaded when a window begins", OPT_BASIC },
	{ OPT_STR, 0, "comm", offsetof(struct sample_cfg, set.select.comm), "PATTERN",
	  "likewise those whose name (/proc/PID/comm) matches, as in 'pt_*'", OPT_BASIC },
	{ OPT_STR, 0, "cgroup", offsetof(struct sample_cfg, set.select.cgroup), "PATH",
	  "likewise those in this control group or below it" },
	{ OPT_INT, 0, "process-limit", offsetof(struct sample_cfg, process_limit), "N",
	  "so many of them in a window, others in the next ones, in turn (default: 32 if no other process has PyTorch, else 16)" },
	CHILDREN_OPT,
	{ OPT_STR, 0, "config", offsetof(struct sample_cfg, config), "FILE",
	  "read options from it, too, in lines NAME=VALUE; the command line wins; SIGHUP reads it again", OPT_BASIC },
	{ OPT_GROUP, 0, "", 0, NULL, "windows" },
	{ OPT_STR, 0, "schedule", offsetof(struct sample_cfg, set.schedule_text), "LIST",
	  "as torch.profiler.schedule has it: wait=10m,warmup=1s,active=2s, and repeat=N, skip_first=TIME, skip_first_wait=1; numbers without units are steps; none: only windows that ptbpf trigger requests (default: wait=55s,active=5s)", OPT_BASIC },
	{ OPT_STR, 0, "open-on", offsetof(struct sample_cfg, set.open_on), "LIST",
	  "open a window when it happens in a process: slow=1.5x (a step takes so many times the median of the last ones), grows=1GiB (its resident memory does), hang=60s (no step ends for so long: a window of samples), annotation=NAME (it begins), oom (PyTorch cannot allocate memory); without --schedule there are no other windows", OPT_BASIC },
	{ OPT_DURATION, 0, "open-interval", offsetof(struct sample_cfg, set.open_interval_ns), "TIME",
	  "at least so long between two such windows for one kind of event in one process (default: 10m)" },
	{ OPT_DURATION, 0, "flight", offsetof(struct sample_cfg, run.rec.flight_ns), "TIME",
	  "with --pid: these windows begin so long before the event; all that a window records is then recorded all the time, at the cost of that, and kept in memory" },
	{ OPT_SIZE, 0, "flight-buffer", offsetof(struct sample_cfg, run.rec.flight_bytes), "SIZE",
	  "memory for it; what does not fit is dropped, the oldest first (default: 64MiB)" },
	{ OPT_DURATION, 0, "step-timeout", offsetof(struct sample_cfg, run.rec.steps.timeout_ns), "TIME",
	  "in steps: end a window in which none ends for so long (default: 60s)" },
	{ OPT_STR, 0, "max-overhead", offsetof(struct sample_cfg, max_overhead), "PERCENT",
	  "record a process for a shorter time, and in fewer windows, so that uprobes cost it no more of its time than this on average; off: no limit (default: " MAX_OVERHEAD "; none with --flight)", OPT_BASIC },
	STEP_OPTS,
	{ OPT_GROUP, 0, "", 0, NULL, "files" },
	{ OPT_STR, 0, "dir", offsetof(struct sample_cfg, set.dir), "DIR",
	  "directory of captures, traces and the log " WINDOW_LOG, OPT_BASIC },
	{ OPT_CHOICE, 0, "traces", offsetof(struct sample_cfg, set.traces), "FORMAT=none, json, json.gz",
	  "write a Chrome trace of each window, named as tensorboard_trace_handler names it (default: none)", OPT_BASIC },
	{ OPT_SIZE, 0, "max-disk", offsetof(struct sample_cfg, set.max_disk), "SIZE",
	  "delete the oldest windows when all take more than this", OPT_BASIC },
	{ OPT_STR, 0, "on-window", offsetof(struct sample_cfg, set.on_window), "COMMAND",
	  "run by sh after each window, with PTBPF_WINDOW, PTBPF_CAPTURE, PTBPF_TRACE and PTBPF_EXIT in its environment" },
	{ OPT_STR, 0, "metrics", offsetof(struct sample_cfg, set.metrics), "ADDRESS",
	  "serve OpenMetrics at http://ADDRESS/metrics: PORT or :PORT (on 127.0.0.1), 0.0.0.0:PORT, [::1]:PORT" },
	{ OPT_STR, 0, "control", offsetof(struct sample_cfg, set.control), "PATH",
	  "Unix socket of an HTTP server for ptbpf trigger, ptbpf status and others; off: none (default: in " CONTROL_DIR ", by the name of --dir)" },
	{ OPT_FLAG, 'q', "quiet", offsetof(struct sample_cfg, run.quiet), NULL, "print only warnings and errors" },
	RECORDING_OPTS,
	SOURCE_OPTS,
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};
/* clang-format on */

const struct cmd_usage sample_usage = {
	.name = "sample",
	.synopsis =
		"PID[,PID...] | --all-torch | --comm PATTERN | --cgroup PATH --dir DIR [options] | --config FILE",
	.summary =
		"Records windows by a schedule, for as long as the processes live. Between windows nothing is attached,\n"
		"and the processes run at their own speed. SIGTERM and Ctrl-C end it after the window in hand.",
	.examples =
		"  sudo ptbpf sample 4242 --dir /var/tmp/windows\n"
		"  sudo ptbpf sample --all-torch --schedule wait=5m,active=2s --dir /var/tmp/w\n",
	.opts = sample_opts,
	.pids = true,
};

static bool selects(const struct sample_settings *set)
{
	return set->select.all_torch || set->select.comm || set->select.cgroup;
}

/*
 * Options of the programs that record, as they were given: those that live__check() derives would
 * contradict them.
 */
static void set_words(struct sample_cfg *cfg)
{
	static const struct opt_def recording[] = {
		CHILDREN_OPT, STEP_OPTS,   RECORDING_OPTS,
		SOURCE_OPTS,  EXPERT_OPTS, { OPT_GROUP, 0, NULL, 0, NULL, NULL }
	};
	static const struct opt_def sampling[] = { CHILDREN_OPT,
						   STEP_OPTS,
						   SOURCE_OPTS,
						   EXPERT_OPTS,
						   { OPT_GROUP, 0, NULL, 0, NULL, NULL } };
	static const struct opt_def *const following = sampling + 1; /* no children */
	struct sample_settings *set = &cfg->set;

	opts__words(recording, NULL, &cfg->run, &set->args);
	words__add(&set->hang_args, "--sample-stacks=%d", SAMPLES_HZ);
	opts__words(sampling, "agent", &cfg->run, &set->hang_args);
	opts__words(following, "agent", &cfg->run, &set->follow_args);
	if (set->open_on)
		words__add(&set->follow_args, "--open-on=%s", set->open_on);
	if (cfg->max_overhead)
		words__add(&set->follow_args, "--max-overhead=%s", cfg->max_overhead);
}

/* ---- checks: 0, or -EINVAL (reported) ---- */

static int check_targets(const struct sample_cfg *cfg)
{
	if ((cfg->run.pids.cnt > 0) == selects(&cfg->set))
		pr_error(
			"sample: either --pid, or --all-torch, --comm or --cgroup is required; see 'ptbpf sample --help'");
	else if (cfg->process_limit != PROCESS_LIMIT_UNSET &&
		 (cfg->process_limit < 1 || cfg->process_limit > PROC_SELECT_MAX))
		pr_error("sample: %d is not a valid value for --process-limit (1 to %d)",
			 cfg->process_limit, PROC_SELECT_MAX);
	else if (!cfg->set.dir)
		pr_error("sample: --dir is required; see 'ptbpf sample --help'");
	else
		return 0;
	return -EINVAL;
}

static int check_events(struct sample_cfg *cfg)
{
	struct sample_settings *set = &cfg->set;
	struct event_rules rules;

	if (!set->schedule_text)
		set->schedule_text = set->open_on ? SCHEDULE_OF_EVENTS : SCHEDULE_DEFAULT;
	if (!set->open_on && set->open_interval_ns != OPEN_INTERVAL_UNSET) {
		pr_error("sample: --open-interval needs --open-on");
		return -EINVAL;
	}
	if (set->open_interval_ns == OPEN_INTERVAL_UNSET)
		set->open_interval_ns = OPEN_INTERVAL_NS;
	if (!set->open_on)
		return 0;
	if (cfg->run.no_steps) {
		pr_error("sample: --open-on follows steps: it excludes --no-steps");
		return -EINVAL;
	}
	log__set_context(conf__where(cfg->conf, set->open_on));
	return event_rules__parse(set->open_on, &rules);
}

/* Probes are attached all the time then: no limit can keep that cost down. */
static int check_flight(struct sample_cfg *cfg)
{
	const char *why = !cfg->set.open_on ?
				  "needs --open-on: no other windows begin before their reason" :
			  !cfg->run.pids.cnt ?
				  "needs --pid: processes cannot join what is held" :
			  cfg->max_overhead ?
				  "excludes --max-overhead: its probes are attached all the time" :
			  cfg->run.rec.sample_hz ? "excludes --sample-stacks" :
						   NULL;

	if (live__check_flight(&cfg->run))
		return -EINVAL;
	if (!cfg->run.rec.flight_ns || !why)
		return 0;
	pr_error("sample: --flight %s", why);
	return -EINVAL;
}

static int check_schedule(struct sample_cfg *cfg)
{
	struct sample_settings *set = &cfg->set;
	uint64_t timeout = cfg->run.rec.steps.timeout_ns;
	const char *why =
		cfg->run.no_steps      ? "--no-steps" :
		cfg->run.rec.sample_hz ? "--sample-stacks, which has no probes to count them" :
		!cfg->run.rec.ops ? "--activities cuda, which does not record what ends a step" :
				    NULL;

	log__set_context(conf__where(cfg->conf, set->schedule_text));
	if (schedule__parse(set->schedule_text, &set->schedule))
		return -EINVAL;
	if (!set->schedule.in_steps && timeout)
		pr_error("--step-timeout needs a --schedule in steps");
	else if (set->schedule.in_steps && why)
		pr_error("a --schedule in steps excludes %s; use times (active=5s)", why);
	else
		return 0;
	return -EINVAL;
}

/* Values that have their own forms. */
static int check_values(struct sample_cfg *cfg)
{
	struct sample_settings *set = &cfg->set;

	log__set_context(conf__where(cfg->conf, cfg->max_overhead));
	if (cfg->max_overhead &&
	    live__parse_overhead("sample", cfg->max_overhead, &set->max_overhead))
		return -EINVAL;
	log__set_context(conf__where(cfg->conf, set->metrics));
	if (set->metrics && !http_listen__valid(set->metrics)) {
		pr_error(
			"sample: '%s' is not a valid value for --metrics (9464, 127.0.0.1:9464, [::1]:9464)",
			set->metrics);
		return -EINVAL;
	}
	log__set_context(conf__where(cfg->conf, set->control));
	if (set->schedule.none && !set->open_on && set->control &&
	    !strcmp(set->control, SAMPLE_CONTROL_OFF)) {
		pr_error("sample: --schedule none needs a control socket: without --control off");
		return -EINVAL;
	}
	return 0;
}

/* Errors about a value name its line, others the file. */
static int check(struct sample_cfg *cfg)
{
	log__set_context(cfg->config);
	if (check_targets(cfg))
		return -EINVAL;
	if (!cfg->max_overhead && !cfg->run.rec.flight_ns)
		cfg->max_overhead = MAX_OVERHEAD;
	else if (cfg->max_overhead && !strcmp(cfg->max_overhead, MAX_OVERHEAD_OFF))
		cfg->max_overhead = NULL;
	set_words(cfg);
	return live__check(&cfg->run) || check_events(cfg) || check_flight(cfg) ||
			       check_schedule(cfg) || check_values(cfg) ?
		       -EINVAL :
		       0;
}

/* The daemon has to know some of the options that other commands have, too. */
static void fill_settings(struct sample_cfg *cfg)
{
	struct sample_settings *set = &cfg->set;
	const struct record_opts *rec = &cfg->run.rec;

	set->pids = cfg->run.pids.pids;
	set->pid_cnt = cfg->run.pids.cnt;
	set->process_limit =
		cfg->process_limit == PROCESS_LIMIT_UNSET ? 0 : (uint32_t)cfg->process_limit;
	set->can_share = run__can_share();
	set->step_name = cfg->run.step_on ? cfg->run.step_on : SESSION_STEP_ON;
	set->step_named = cfg->run.step_on != NULL;
	set->step_timeout_ns = rec->steps.timeout_ns ? rec->steps.timeout_ns : STEP_TIMEOUT_NS;
	set->flight_ns = rec->flight_ns;
	set->flight_bytes = rec->flight_bytes;
	set->cpu = rec->ops;
	set->cuda = rec->gpu;
	set->samples = rec->sample_hz > 0;
	set->activities = cfg->run.activities;
}

/* ---- reading them ---- */

/* The file, and the command line over it, which has been parsed into `line`. */
static int read_file(struct sample_cfg *cfg, const struct sample_cfg *line, int argc, char **argv)
{
	if (conf__read(line->config, &sample_usage, cfg, &cfg->conf))
		return OPTS_ERROR;
	if (cfg->config) {
		log__set_context(conf__where(cfg->conf, cfg->config));
		pr_error("'config' is an option of the command line only");
		return OPTS_ERROR;
	}
	if (line->run.pids.cnt || selects(&line->set)) {
		cfg->run.pids.cnt = 0;
		cfg->set.select = (struct proc_select){ .comm = NULL };
	}
	return opts__parse(&sample_usage, cfg, argc, argv, NULL);
}

static void free_cfg(struct sample_cfg *cfg)
{
	words__free(&cfg->set.args);
	words__free(&cfg->set.hang_args);
	words__free(&cfg->set.follow_args);
	conf__free(cfg->conf);
	free(cfg);
}

/* The command line wins over the file. 0, OPTS_ERROR (reported) or OPTS_HELP (printed). */
static int load(int argc, char **argv, struct sample_cfg **out)
{
	static const struct sample_cfg none = { .run = { .row_limit = OUTPUT_ROWS_DEFAULT },
						.set = { .open_interval_ns = OPEN_INTERVAL_UNSET },
						.process_limit = PROCESS_LIMIT_UNSET };
	struct sample_cfg line = none, *cfg = xcalloc(1, sizeof(*cfg));
	int err = opts__parse(&sample_usage, &line, argc, argv, NULL);

	*cfg = line.config ? none : line;
	if (err >= 0 && line.config)
		err = read_file(cfg, &line, argc, argv);
	if (err >= 0)
		err = check(cfg) ? OPTS_ERROR : 0;
	log__set_context(NULL);
	if (err) {
		free_cfg(cfg);
		return err;
	}
	fill_settings(cfg);
	*out = cfg;
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* An option that differs and cannot change, NULL: none. */
static const char *fixed_change(const struct sample_settings *a, const struct sample_settings *b)
{
	if (a->pid_cnt != b->pid_cnt || memcmp(a->pids, b->pids, a->pid_cnt * sizeof(pid_t)) != 0)
		return "pid";
	return !same_text(a->metrics, b->metrics) ? "metrics" :
	       !same_text(a->control, b->control) ? "control" :
	       !same_text(a->dir, b->dir)         ? "dir" :
						    NULL;
}

struct reload {
	int argc;
	char **argv;
	struct sample_cfg *cfg; /* the last one */
};

static const struct sample_settings *reload(void *arg)
{
	struct reload *r = arg;
	struct sample_cfg *old = r->cfg, *cfg;
	const char *fixed;
	int err = load(r->argc, r->argv, &cfg);

	if (!err && (fixed = fixed_change(&old->set, &cfg->set))) {
		pr_error("%s: '%s' cannot change while ptbpf runs; restart it for that",
			 old->config, fixed);
		free_cfg(cfg);
		err = OPTS_ERROR;
	}
	if (err) { /* load() has set these from the new ones */
		log__enable_domains(old->run.log);
		log__set_quiet(old->run.quiet);
		pr_error("'%s' is not used: the settings remain as they were", old->config);
		return NULL;
	}
	pr_info("'%s' is read again", cfg->config);
	cfg->prev = old;
	r->cfg = cfg;
	return &cfg->set;
}

int cmd_sample(int argc, char **argv)
{
	struct reload r = { argc, argv, NULL };
	int err = load(argc, argv, &r.cfg), code;

	if (err)
		return err == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	log__limit_repeats();
	code = run__check() ? EXIT_FAILED :
			      (int)sample__run(&r.cfg->set, r.cfg->config ? reload : NULL, &r);
	while (r.cfg) {
		struct sample_cfg *cfg = r.cfg;

		r.cfg = cfg->prev;
		free_cfg(cfg);
	}
	return code;
}
