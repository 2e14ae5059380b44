/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The begin of a recording: checks of the machine and of rights, programs, the capture; see
 * run.h. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sandbox.h"
#include "probe/probe_set.h"
#include "record/recorder.h"

static void on_task(void *arg, const struct ptb_task *task)
{
	struct run *run = arg;
	struct target *t = NULL;

	if (task->h.kind == PTB_REC_EXIT && task->h.tid == task->h.tgid && !task->group_dead)
		t = targets__find(&run->targets, (pid_t)task->h.tgid);
	if (t)
		t->main_ended_ns = task->h.ts_ns;
	if (task->h.kind == PTB_REC_THREAD_NEW || task->h.kind == PTB_REC_EXIT)
		return; /* pidfds show the ends of processes */
	if (run->task_cnt >= LIMIT_TASK_EVENTS)
		run->targets.over_processes++;
	else
		vec_push(run->tasks, run->task_cnt, run->task_cap, *task);
}

/* The rings go on filling while a child reads a file, which may take seconds. */
static void drain_meanwhile(void *arg)
{
	struct run *run = arg;

	if (!(run->targets.active || run->warming_up) || !run->targets.rec || run->draining)
		return;
	probe_set__sample_now(run->targets.ps);
	run->draining = true;
	run__drain_rings(run); /* an error occurs again in the next round */
	run->draining = false;
}

/* Likewise while an agent's chunks are unpacked. */
static void read_meanwhile(void *arg)
{
	struct run *run = arg;

	probe_set__sample_now(run->targets.ps);
	run__read_rings(run); /* an error occurs again in the next round */
}

int run__check(void)
{
	char detail[256] = "";
	const struct feature *f = kern_features__blocker(detail, sizeof(detail));

	if (!f)
		return 0;
	pr_error("cannot trace on this machine: %s: %s", f->title, detail);
	pr_hint("%s", f->hint);
	return -EPERM;
}

/* Kernel probes need more kernel features for arguments than for names; an agent decodes arguments
 * itself. */
static int choose_args(struct run *run)
{
	const struct feature *f = NULL;
	char detail[256] = "";

	run->targets.kernel_args = run->opts.args;
	if (run->targets.kernel_args != PROBE_ARGS_NONE)
		f = kern_features__args_blocker(detail, sizeof(detail));
	if (!f)
		return 0;
	if (run->opts.agent == AGENT_OFF) {
		pr_error("uprobes cannot read arguments on this machine: %s: %s", f->title, detail);
		pr_hint("%s, or use the agent", f->hint);
		return -ENOTSUP;
	}
	pr_warn("uprobes cannot read arguments on this machine (%s): only agents record them",
		detail);
	run->targets.kernel_args = PROBE_ARGS_NONE;
	return 0;
}

static void write_meta(struct run *run)
{
	enum probe_args args = run->opts.args;
	char host[256] = "", missing[256] = "", hz[16];
	int rate = run->opts.sample_hz ? run->opts.sample_hz : run->opts.with_samples;

	gethostname(host, sizeof(host) - 1);
	recorder__meta_text(run->targets.rec, "version", PTBPF_VERSION);
	recorder__meta_text(run->targets.rec, "host", host);
	recorder__machine(run->targets.rec);
	recorder__meta_text(run->targets.rec, "links",
			    probe_set__uses_multi(run->targets.ps) ? "uprobe_multi" : "perf");
	if (args != PROBE_ARGS_NONE)
		recorder__meta_text(run->targets.rec, "args",
				    args == PROBE_ARGS_FULL ? "full" : "shapes");
	snprintf(hz, sizeof(hz), "%d", rate);
	if (rate)
		recorder__meta(run->targets.rec, run->opts.sample_hz ? "sample_hz" : "with_samples",
			       hz);
	if (run->opts.stacks && !run->opts.sample_hz)
		recorder__meta(run->targets.rec, "with_stack", "true");
	if (run->opts.modules)
		recorder__meta(run->targets.rec, "with_modules", "true");
	if (run->opts.memory)
		recorder__meta(run->targets.rec, "profile_memory", "true");
	if (run->opts.sched)
		recorder__meta(run->targets.rec, "sched", "true");
	if (run->opts.kernel_memory) {
		recorder__meta(run->targets.rec, "kernel_memory", "true");
		run->no_tracepoint =
			probe_set__missing_kmem(run->targets.ps, missing, sizeof(missing));
		if (run->no_tracepoint) {
			pr_warn("this Linux kernel does not report: %s", missing);
			recorder__meta_text(run->targets.rec, "kernel_memory_missing", missing);
		}
	}
	recorder__clock(run->targets.rec);
}

struct recorder *run__recorder(const struct run *run)
{
	return run->targets.rec;
}

static struct run *new_run(const struct record_opts *opts)
{
	struct run *run = xcalloc(1, sizeof(*run));

	run->opts = *opts;
	run->targets.opts = &run->opts;
	run->pace_ms = 10;
	return run;
}

/* Loads the programs and measures the cost of a probe. 0 or negative errno (reported). */
static int load(struct run *run)
{
	const struct record_opts *opts = &run->opts;
	struct probe_set_opts popts = {
		.ring_bytes = opts->ring_bytes,
		.force_perf = opts->perf_uprobes,
		.follow_tasks = true,
		.watch_children = opts->children,
		.args = run->targets.kernel_args,
		.identities = opts->args == PROBE_ARGS_FULL,
		.memory = opts->memory,
		.oom = opts->steps.oom != NULL,
		.stacks = opts->stacks,
		.sample_hz = (uint32_t)(opts->sample_hz ? opts->sample_hz : opts->with_samples),
		.samples_beside = opts->with_samples > 0,
		.kernel_memory = opts->kernel_memory,
		.sched = opts->sched,
		.cuda_calls = opts->gpu,
		.agent = opts->agent != AGENT_OFF
	};
	int err = probe_set__load(&popts, &run->targets.ps);

	if (!err && !opts->sample_hz)
		run->cost_ps = probe_set__measure_cost(run->targets.ps);
	if (run->cost_ps < 0)
		pr_debug("the cost of a probe could not be measured: %s",
			 errstr((int)run->cost_ps));
	return err;
}

/* Needs the programs and the capture. */
static int start(struct run *run)
{
	int err = probe_set__start(run->targets.ps);

	if (!err && cancel__pending())
		err = -ECANCELED;
	if (err)
		return err;
	write_meta(run);
	sandbox__set_idle(drain_meanwhile, run);
	recorder__set_drain(run->targets.rec, read_meanwhile);
	return 0;
}

int run__open(const struct record_opts *opts, const char *capture_path, struct run **out)
{
	struct run *run = new_run(opts);
	int err;

	err = cancel__pending() ? -ECANCELED : run__check();
	if (!err)
		err = mem_limit__set(run->opts.max_memory ? run->opts.max_memory : LIMIT_MEMORY);
	if (!err)
		err = choose_args(run);
	if (!err)
		err = recorder__open(capture_path, on_task, run, &run->opts, &run->targets.rec);
	if (!err)
		err = load(run);
	if (!err)
		err = start(run);
	if (err)
		/* also removes the partial file; an older file at capture_path stays */
		run__free(run);
	else
		*out = run;
	return err;
}

void run__free(struct run *run)
{
	if (!run)
		return;
	sandbox__set_idle(NULL, NULL);
	probe_set__free(run->targets.ps);
	recorder__discard(run->targets.rec);
	targets__free(&run->targets);
	cost_meter__clear(&run->hits);
	cost_meter__clear(&run->samples);
	cpu_times__clear(&run->cpus);
	free(run->tasks);
	free(run->polls);
	free(run);
}
