/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf attach: trace running processes until -d, a signal, or their end. */
#define LOG_DOMAIN "attach"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/guards.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/attach_window.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "cli/outputs.h"
#include "cli/which.h"
#include "record/run.h"
#include "record/targets.h"
#include "sample/metrics.h"
#include "target/proc.h"

static const struct opt_def attach_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "target" },
	{ OPT_PIDS, 'p', "pid", offsetof(struct run_cfg, pids), "PID[,PID...]",
	  "processes to attach to; the option's name may be left out", OPT_BASIC },
	{ OPT_STR, 0, "name", offsetof(struct run_cfg, name), "TEXT",
	  "the one process with PyTorch whose script has this name, or whose command line contains it",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "children", offsetof(struct run_cfg, rec.children), NULL,
	  "also trace their child processes, existing and new (data loader workers, ranks)",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "wait", offsetof(struct run_cfg, wait), NULL,
	  "if the process has not loaded PyTorch yet, wait until it does" },
	{ OPT_FLAG, 0, "dry-run", offsetof(struct run_cfg, dry_run), NULL,
	  "print each probe and each refused function with its reason; attach nothing" },
	{ OPT_GROUP, 0, "", 0, NULL, "flight recorder" },
	{ OPT_DURATION, 0, "flight", offsetof(struct run_cfg, rec.flight_ns), "TIME",
	  "keep the last TIME in memory; SIGUSR1, Ctrl-C or the target's end writes them, and -d more after SIGUSR1" },
	{ OPT_SIZE, 0, "flight-buffer", offsetof(struct run_cfg, rec.flight_bytes), "SIZE",
	  "memory for it; what does not fit is dropped, the oldest first (default: 64MiB)" },
	RUN_OPTS,
	EXPERT_OPTS,
	{ OPT_INT, 0, "progress-fd", offsetof(struct run_cfg, progress_fd), "N",
	  "write lines of JSON to this descriptor: attached, begun, sealed, done" },
	{ OPT_INT, 0, "notes-fd", offsetof(struct run_cfg, notes_fd), "N",
	  "read lines KEY=TEXT for the capture from this descriptor when the window begins: trigger, event, switched_off" },
	{ OPT_STR, 0, "window", offsetof(struct run_cfg, window), "LIST",
	  "a window of ptbpf sample: attach=NS,begin=NS,end=NS (CLOCK_MONOTONIC), or warmup=N,active=N,step_timeout=NS, in steps" },
	{ OPT_STR, 0, "max-cost", offsetof(struct run_cfg, max_cost), "LIST",
	  "with --window: PID=NS,...: a process loses its probes when they have cost it so much" },
	{ OPT_STR, 0, "threads", offsetof(struct run_cfg, threads), "FILE",
	  "with --sample-stacks: where each thread is, in Python and C++, as text" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage attach_usage = {
	.name = "attach",
	.synopsis = "PID[,PID...] | --name TEXT [options]",
	.summary =
		"Traces running PyTorch processes, which need no preparation and keep running. Writes a capture\n"
		"and a Chrome trace, and prints a table of operators.",
	.examples = "  sudo ptbpf attach                   lists processes with PyTorch\n"
		    "  sudo ptbpf attach 4242 -d 5s\n"
		    "  sudo ptbpf attach --name train.py -d 10s --trace step.pt.trace.json.gz\n"
		    "  sudo ptbpf attach 4242 --children   until Ctrl-C\n",
	.opts = attach_opts,
	.pids = true,
};

static void dry_run_cuda(const struct run_cfg *cfg, struct targets *ts, const struct torch_proc *tp)
{
	for (uint32_t i = 0; i < tp->cuda_cnt; i++) {
		struct torch_lib libs[TORCH_LIB_ROLES];
		const struct shared_plan *sp;

		torch_cuda_lib__alone(&tp->cuda[i], libs);
		sp = targets__plan(ts, libs, cfg->rec.no_cache);
		putchar('\n');
		term_text__put(stdout, tp->cuda[i].lib.path, SIZE_MAX);
		puts(":");
		if (sp)
			torch_plan__print(sp->plan, libs, stdout);
	}
}

static int dry_run_pid(const struct run_cfg *cfg, pid_t pid)
{
	struct targets ts = { 0 };
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;
	struct shared_plan *sp;
	int err = torch_proc__open(pid, &tp, &why);

	if (err) {
		targets__say_why(pid, why, err);
		return err;
	}
	sp = targets__plan(&ts, tp->libs, cfg->rec.no_cache);
	err = sp ? 0 : -ENOEXEC;
	if (sp) {
		torch_plan__print(sp->plan, tp->libs, stdout);
		dry_run_cuda(cfg, &ts, tp);
	}
	torch_proc__free(tp);
	targets__free(&ts);
	return err;
}

static int dry_run(const struct run_cfg *cfg)
{
	uint32_t refused = 0;

	for (uint32_t i = 0; i < cfg->pids.cnt; i++) {
		int err = dry_run_pid(cfg, cfg->pids.pids[i]);

		if (err == -ECANCELED)
			return EXIT_FAILED;
		refused += err != 0;
	}
	if (refused == cfg->pids.cnt)
		return EXIT_FAILED;
	return refused ? EXIT_INCOMPLETE : EXIT_DONE;
}

/* ---- the processes that are named ---- */

struct named {
	pid_t pid;
	/* to the end of the program: nothing else is traced when the pid becomes another process's
	 * meanwhile */
	int hold;
};

struct named_list {
	struct named items[OPT_PIDS_MAX];
	uint32_t cnt, refused;
};

/* 0 or negative errno (reported). */
static int check_target(const struct run_cfg *cfg, pid_t pid)
{
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;
	int err = cfg->rec.ops ? torch_proc__open(pid, &tp, &why) :
				 torch_proc__open_any(pid, &tp, &why);

	torch_proc__free(tp);
	if (!err || (why == TORCH_PROC_NO_TORCH && (cfg->wait || cfg->rec.children)))
		return 0;
	targets__say_why(pid, why, err);
	if (why == TORCH_PROC_NO_TORCH)
		no_operators__say_children(pid);
	return err;
}

/*
 * Sentences for pids that cannot be traced come before anything is opened or written; the others
 * are traced. 0, or the last error if there are none.
 */
static int check_pids(const struct run_cfg *cfg, struct named_list *list)
{
	int err = 0, last = 0;

	for (uint32_t i = 0; i < cfg->pids.cnt; i++)
		list->items[i] =
			(struct named){ cfg->pids.pids[i], pid_hold__open(cfg->pids.pids[i]) };
	for (uint32_t i = 0; i < cfg->pids.cnt && err != -ECANCELED; i++) {
		err = check_target(cfg, list->items[i].pid);
		if (err)
			last = err;
		else
			list->items[list->cnt++] = list->items[i];
		list->refused += err != 0;
	}
	return err == -ECANCELED || !list->cnt ? last : 0;
}

/* 0; -ECANCELED; another negative errno (reported): it is not traced. */
static int add_one(const struct run_cfg *cfg, const struct named *p, struct run *run)
{
	int err = run__add(run, p->pid);

	if ((!err || err == -EAGAIN) && !pid_hold__alive(p->hold)) {
		pr_error("cannot attach to pid %d: the process has ended", p->pid);
		run__remove(run, p->pid);
		return -ESRCH;
	}
	if (err == -EAGAIN && (cfg->wait || cfg->rec.children))
		err = run__await(run, p->pid);
	else if (err == -EAGAIN && cfg->rec.sample_hz)
		pr_error("cannot attach to pid %d: no Python stacks: %s", p->pid,
			 run__no_python(run, p->pid));
	else if (err == -EAGAIN && cfg->rec.ops)
		targets__say_why(p->pid, TORCH_PROC_NO_TORCH, err);
	else if (err == -EAGAIN)
		pr_error(
			"cannot attach to pid %d: it has loaded neither a CUDA library nor ptbpf's agent",
			p->pid);
	if (!err)
		run__limit_cost(run, p->pid, cfg->max_cost_ns);
	if (!err && cfg->rec.children)
		run__add_descendants(run, p->pid);
	return err;
}

static int add_all(const struct run_cfg *cfg, struct named_list *list, struct run *run)
{
	uint32_t added = 0;
	int err = 0;

	run__expect(run, cfg->pids.pids, cfg->pids.cnt);
	for (uint32_t i = 0; i < list->cnt; i++) {
		err = add_one(cfg, &list->items[i], run);
		if (err == -ECANCELED)
			return err;
		if (err)
			list->refused++;
		else
			added++;
	}
	if (!added)
		return err;
	run__refused(run, list->refused);
	if (!run__traced(run))
		pr_info(cfg->rec.sample_hz ? "waiting for Python" :
					     "waiting for PyTorch to be loaded");
	return 0;
}

/* ---- the flight recorder ---- */

/* 0 or negative errno (reported). */
static int check_flight(struct run_cfg *cfg)
{
	if (live__check_flight(cfg))
		return -EINVAL;
	return cfg->rec.flight_ns ? attach_flight__open() : 0;
}

/* --wait: the window begins, and its duration counts, when the first process is traced. */
static void begin_when_traced(void *arg, struct run *run)
{
	struct live *live = arg;

	if (!live->announced && run__traced(run))
		live__announce(live);
	attach_flight__tick(live->cfg, run);
	live__show(live, run);
}

int attach__run(const struct run_cfg *cfg, struct live *live)
{
	struct named_list list = { .cnt = 0 };
	uint64_t since = clock__mono_ns();
	int code;

	if (check_pids(cfg, &list))
		return EXIT_FAILED;
	code = live__open(live, cfg, list.items[0].pid);
	if (!code && add_all(cfg, &list, live->run))
		code = EXIT_FAILED;
	if (!code) {
		progress__attached(&live->progress, run__traced(live->run),
				   clock__mono_ns() - since, 0, 0);
		begin_when_traced(live, live->run);
		code = live__record(live, begin_when_traced, live);
	}
	live__free(live);
	return code;
}

/* Exit code; 0: the process is known. */
static int choose_process(struct run_cfg *cfg)
{
	if (cfg->name && cfg->pids.cnt) {
		pr_error("attach: --name and --pid exclude each other");
		return EXIT_USAGE;
	}
	if (cfg->name) {
		cfg->pids.cnt = 1;
		return which__named("attach", cfg->name, cfg->pids.pids);
	}
	return cfg->pids.cnt ? EXIT_DONE : which__offer("attach");
}

int cmd_attach(int argc, char **argv)
{
	struct run_cfg cfg = { .row_limit = OUTPUT_ROWS_DEFAULT };
	struct outputs_result result;
	struct metrics_window metrics = { .op_cnt = 0 };
	struct live live = { .result = &result, .metrics = &metrics };
	struct window_opts wo;
	int n = opts__parse(&attach_usage, &cfg, argc, argv, NULL), code;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	code = choose_process(&cfg);
	if (code)
		return code;
	if (live__check(&cfg) || check_flight(&cfg) ||
	    progress__open(&live.progress, cfg.progress_fd) ||
	    (cfg.window && window_opts__parse(cfg.window, &wo)))
		return EXIT_USAGE;
	if (cfg.progress_fd)
		stall__tell(cfg.progress_fd);
	else
		live.metrics = NULL;
	stall__watch(EXIT_FAILED);
	if (cfg.dry_run)
		return dry_run(&cfg);
	live.no_summary = cfg.window != NULL;
	if (cfg.window)
		window_opts__apply(&wo, &cfg);
	code = cfg.window ? attach_window__run(&cfg, &wo, &live) : attach__run(&cfg, &live);
	progress__done(&live.progress, code,
		       code == EXIT_DONE || code == EXIT_INCOMPLETE ? &result : NULL, live.metrics);
	free(metrics.ops);
	return code;
}
