/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One recording, from the first check to the sealed capture; see run.h.
 *
 * Longer than 600 lines because the phases of a recording work on one state.
 */
#define LOG_DOMAIN "run"
#include "record/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem_limit.h"
#include "base/sandbox.h"
#include "base/vec.h"
#include "probe/kern_features.h"
#include "probe/probe_set.h"
#include "record/cost_meter.h"
#include "record/recorder.h"
#include "record/recorder_agent.h"
#include "record/step_count.h"
#include "record/targets.h"
#include "target/proc_info.h"

#define PACE_MIN_MS 1
#define PACE_MAX_MS 40
#define PACE_STACKS_MS 10 /* code objects are read before they are freed, where possible */
#define PACE_COST_MS 10   /* a window that costs too much, or that has its steps, ends soon */
#define COST_UNKNOWN_PS                                                                            \
	5000000 /* of a hit, where it cannot be measured: more than on any host so far */
#define CHILD_TRY_NS 20000000ULL     /* how often a process without torch is polled */
#define TRIES_SLOWER 6               /* of them, each after twice the time */
#define SAMPLE_EVERY_NS 100000000ULL /* with memory: what /proc says of it */
/* For agents, after a signal: everything ends within a second. */
#define SIGNALLED_WAIT_NS 700000000ULL
#define CLOCK_EVERY_NS 10000000000ULL /* a new clock pair: the wall clock may be slewed */

struct run {
	struct record_opts opts;
	struct targets targets;
	struct ptb_task *tasks; /* drained, and not acted upon yet */
	uint32_t task_cnt, task_cap;
	uint64_t watermark; /* what is older has been drained */
	struct pollfd *polls;
	uint32_t poll_cap, polled; /* polled: processes in the last wait */
	int signal;
	int pace_ms;
	bool draining; /* the rings are being read */
	bool warming_up, warmed_up;
	uint64_t step_ns, surplus_hits;
	uint64_t before[PTB_CNT_MAP]; /* counters of the warm-up */
	uint64_t begin_ns, last_clock_ns, last_sample_ns;
	int64_t cost_ps;
	struct cost_meter hits;
	uint32_t stop_reason, no_tracepoint, refused_pids;
};

static void on_task(void *arg, const struct ptb_task *task)
{
	struct run *run = arg;

	if (task->h.kind == PTB_REC_THREAD_NEW || task->h.kind == PTB_REC_EXIT)
		return; /* ends are seen by the pidfd */
	if (run->task_cnt >= LIMIT_TASK_EVENTS ||
	    vec_push(run->tasks, run->task_cnt, run->task_cap, *task))
		run->targets.over_processes++;
}

static void on_record(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	const struct ptb_rec_hdr *h = rec;
	struct run *run = arg;

	if (h->site)
		cost_meter__hit(&run->hits, h->tgid);
	recorder__ring_record(run->targets.rec, ring, rec, len);
}

/* Empties the rings; reads no process. 0 or negative errno (reported). */
static int drain_rings(struct run *run)
{
	uint32_t n = probe_set__ring_cnt(run->targets.ps);

	run->watermark = clock__mono_ns();
	for (uint32_t i = 0; i < n; i++) {
		struct ring_loss loss = { 0 };
		int64_t err = probe_set__drain(run->targets.ps, i, on_record, run);

		if (err < 0) {
			pr_error("ring buffer %u cannot be read: %s", i, errstr((int)err));
			return (int)err;
		}
		probe_set__take_loss(run->targets.ps, i, &loss);
		if (loss.cnt && run->opts.steps.name)
			step_count__lost(recorder__steps(run->targets.rec));
		if (loss.cnt && !run->warming_up)
			recorder__lost(run->targets.rec, i, loss.begin_ns, loss.end_ns, loss.cnt);
	}
	recorder__round(run->targets.rec, run->watermark);
	return 0;
}

/* While a child reads a file, for seconds perhaps, the rings go on filling. */
static void drain_meanwhile(void *arg)
{
	struct run *run = arg;

	if (!run->targets.active || !run->targets.rec || run->draining)
		return;
	probe_set__sample_now(run->targets.ps);
	run->draining = true;
	drain_rings(run); /* an error comes again in the next round */
	run->draining = false;
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

/* Kernel probes read arguments with more of the kernel than names need; an agent decodes by itself. */
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
		pr_error("kernel probes cannot read arguments on this machine: %s: %s", f->title, detail);
		pr_hint("%s, or use the agent", f->hint);
		return -ENOTSUP;
	}
	pr_warn("kernel probes cannot read arguments on this machine (%s): only agents record them",
		detail);
	run->targets.kernel_args = PROBE_ARGS_NONE;
	return 0;
}

static void write_meta(struct run *run)
{
	enum probe_args args = run->opts.args;
	char host[256] = "", missing[256] = "", hz[16];

	gethostname(host, sizeof(host) - 1);
	recorder__meta_text(run->targets.rec, "version", PTBPF_VERSION);
	recorder__meta_text(run->targets.rec, "host", host);
	recorder__meta_text(run->targets.rec, "links",
			    probe_set__uses_multi(run->targets.ps) ? "uprobe_multi" : "perf");
	if (args != PROBE_ARGS_NONE)
		recorder__meta_text(run->targets.rec, "args", args == PROBE_ARGS_FULL ? "full" : "shapes");
	snprintf(hz, sizeof(hz), "%d", run->opts.sample_hz);
	if (run->opts.stacks)
		recorder__meta(run->targets.rec, run->opts.sample_hz ? "sample_hz" : "with_stack",
			       run->opts.sample_hz ? hz : "true");
	if (run->opts.modules)
		recorder__meta(run->targets.rec, "with_modules", "true");
	if (run->opts.memory)
		recorder__meta(run->targets.rec, "profile_memory", "true");
	if (run->opts.kernel_memory) {
		recorder__meta(run->targets.rec, "kernel_memory", "true");
		run->no_tracepoint = probe_set__missing_kmem(run->targets.ps, missing, sizeof(missing));
		if (run->no_tracepoint) {
			pr_warn("this kernel does not report: %s", missing);
			recorder__meta_text(run->targets.rec, "kernel_memory_missing", missing);
		}
	}
	recorder__clock(run->targets.rec);
}

struct recorder *run__recorder(const struct run *run)
{
	return run->targets.rec;
}

int run__open(const struct record_opts *opts, const char *capture_path, struct run **out)
{
	struct probe_set_opts popts = { .ring_bytes = opts->ring_bytes,
					.force_perf = opts->perf_uprobes,
					.follow_tasks = true,
					.watch_children = opts->children,
					.identities = opts->args == PROBE_ARGS_FULL,
					.memory = opts->memory,
					.stacks = opts->stacks,
					.sample_hz = (uint32_t)opts->sample_hz,
					.kernel_memory = opts->kernel_memory,
					.cuda_calls = opts->gpu,
					.agent = opts->agent != AGENT_OFF };
	struct run *run = calloc(1, sizeof(*run));
	int err;

	if (!run)
		return -ENOMEM;
	run->opts = *opts;
	run->targets.opts = &run->opts;
	run->pace_ms = 10;
	err = cancel__pending() ? -ECANCELED : run__check();
	if (!err)
		err = mem_limit__set(opts->max_memory ? opts->max_memory : LIMIT_MEMORY);
	if (!err)
		err = choose_args(run);
	popts.args = run->targets.kernel_args;
	if (!err)
		err = recorder__open(capture_path, on_task, run, &run->opts, &run->targets.rec);
	if (!err)
		err = probe_set__open(&popts, &run->targets.ps);
	if (!err && !opts->sample_hz)
		run->cost_ps = probe_set__measure_cost(run->targets.ps);
	if (!err && cancel__pending())
		err = -ECANCELED;
	if (err) {
		run__free(run); /* also removes the partial file; an older file at capture_path stays */
		return err;
	}
	if (run->cost_ps < 0)
		pr_debug("the cost of a probe could not be measured: %s", errstr((int)run->cost_ps));
	write_meta(run);
	sandbox__set_idle(drain_meanwhile, run);
	*out = run;
	return 0;
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
	free(run->tasks);
	free(run->polls);
	free(run);
}

/* What /proc says of the targets' memory: at the window's begin and end, and beside memory's records. */
static void sample_memory(struct run *run, uint64_t now)
{
	targets__sample_memory(&run->targets);
	run->last_sample_ns = now;
}

void run__targets_stopped(struct run *run, bool stopped)
{
	run->targets.stopped = stopped;
}

int run__add(struct run *run, pid_t pid)
{
	struct target *t = targets__find(&run->targets, pid);
	int err;

	if (t && t->state == TARGET_TRACED)
		return 0;
	if (!t)
		t = targets__add(&run->targets, pid, 0, 0);
	if (!t)
		return -ENOMEM;
	err = cancel__pending() ? -ECANCELED : targets__attach(&run->targets, t);
	if (!err && cancel__pending())
		err = -ECANCELED; /* the probes go with the run */
	if (err && err != -EAGAIN)
		t->state = TARGET_GONE;
	return err;
}

int run__await(struct run *run, pid_t pid)
{
	if (!targets__find(&run->targets, pid) && !targets__add(&run->targets, pid, 0, 0))
		return -ENOMEM;
	return run->opts.children ? probe_set__watch_task(run->targets.ps, (uint32_t)pid) : 0;
}

void run__add_descendants(struct run *run, pid_t pid)
{
	pid_t *kids = NULL;
	int n = proc__children(pid, &kids);

	for (int i = 0; i < n; i++) {
		struct target *t = targets__find(&run->targets, kids[i]);

		if (!t)
			t = targets__add(&run->targets, kids[i], (uint32_t)pid, 0);
		if (t && t->state == TARGET_WAITING) {
			probe_set__watch_task(run->targets.ps, (uint32_t)kids[i]);
			targets__attach(&run->targets, t); /* -EAGAIN: it has no torch; the loop tries again */
		}
		run__add_descendants(run, kids[i]);
	}
	free(kids);
}

static uint64_t counted(const struct run *run, uint32_t id)
{
	return probe_set__counter(run->targets.ps, id) - run->before[id];
}

/* What is in the rings is not kept, nor what was lost of it. */
static void end_warm_up(struct run *run)
{
	probe_set__deactivate(run->targets.ps);
	drain_rings(run); /* an error comes again in the next round */
	for (uint32_t id = 0; id < PTB_CNT_MAP; id++)
		run->before[id] = probe_set__counter(run->targets.ps, id);
	run->warming_up = false;
	recorder__warm_up(run->targets.rec, false);
}

void run__warm_up(struct run *run)
{
	recorder__warm_up(run->targets.rec, true);
	run->warming_up = true;
	probe_set__activate(run->targets.ps);
	step_count__await_ends(recorder__steps(run->targets.rec), clock__mono_ns(),
			       run->opts.steps.warmup);
}

bool run__warmed_up(const struct run *run)
{
	return run->warmed_up;
}

void run__activate(struct run *run)
{
	if (run->warming_up)
		end_warm_up(run);
	probe_set__activate(run->targets.ps);
	run->targets.active = true;
	run->begin_ns = run->last_clock_ns = clock__mono_ns();
	if (run->opts.steps.name)
		step_count__await_whole(recorder__steps(run->targets.rec), run->begin_ns,
					run->opts.steps.active);
	recorder__window(run->targets.rec, true, run->begin_ns, 0);
	sample_memory(run, run->begin_ns);
}

static void on_fork(struct run *run, const struct ptb_task *task)
{
	struct target *t = targets__find(&run->targets, (pid_t)task->h.tgid);
	bool inherits = t && (t->state == TARGET_TRACED || t->inherits);
	struct target_python python = { 0 };

	if (!run->opts.children || targets__find(&run->targets, (pid_t)task->child_tgid))
		return;
	probe_set__watch_task(run->targets.ps, task->child_tgid);
	if (inherits)
		python = t->python;
	t = targets__add(&run->targets, (pid_t)task->child_tgid, task->h.tgid, task->h.ts_ns);
	if (t) {
		t->inherits = inherits;
		t->python = python;
		run->targets.no_stacks += python.state == PYTHON_REFUSED;
		targets__attach(&run->targets, t);
	}
}

/* What its agent had sent is written. */
static void end_agent(struct run *run, struct target *t)
{
	struct agent_reported last = recorder__agent_end(run->targets.rec, t->pid);

	run->targets.agents_cut += (last.state & PTB_AGENT_SENDS) != 0;
	if (t->agent && last.ever & PTB_AGENT_GPU_ON)
		t->agent->gpu = true; /* the process may have ended before its state was polled */
}

/* What was traced is no more: its probes go. */
static void release_target(struct run *run, struct target *t)
{
	probe_set__remove_process(run->targets.ps, t->proc_idx);
	end_agent(run, t);
	if (t->agent)
		probe_set__remove_process(run->targets.ps, t->agent->proc_idx);
	target_cuda__clear(&t->cuda, run->targets.ps);
}

/* exec gives the process a new memory map: the old probes are gone with the old one. */
static void on_exec(struct run *run, const struct ptb_task *task)
{
	struct target *t = targets__find(&run->targets, (pid_t)task->h.tgid);

	if (!t)
		return;
	if (t->state == TARGET_TRACED) {
		release_target(run, t);
		if (!run->opts.children)
			pr_warn("pid %d executed another program (exec): its trace ends there; "
				"use --children to follow it",
				t->pid);
	}
	t->state = run->opts.children ? TARGET_WAITING : TARGET_GONE;
	t->inherits = false;
	t->python = (struct target_python){ 0 };
	t->born_ns = task->h.ts_ns;
	t->next_try_ns = 0;
}

static void mark_gone(struct run *run, struct target *t)
{
	if (t->state == TARGET_TRACED)
		release_target(run, t);
	else if (t->state == TARGET_WAITING && t->inherits)
		run->targets.children_missed++; /* too short-lived: whatever it ran was not seen */
	t->state = TARGET_GONE;
	if (t->pidfd >= 0)
		close(t->pidfd);
	t->pidfd = -1;
}

void run__remove(struct run *run, pid_t pid)
{
	struct target *t = targets__find(&run->targets, pid);

	if (t)
		mark_gone(run, t);
}

void run__refused(struct run *run, uint32_t cnt)
{
	run->refused_pids = cnt;
}

static int by_time(const void *a, const void *b)
{
	const struct ptb_task *x = a, *y = b;

	return (x->h.ts_ns > y->h.ts_ns) - (x->h.ts_ns < y->h.ts_ns);
}

/* In order of time: an exec may be in a ring that is read before the ring with its process's fork. */
static void act_on_tasks(struct run *run)
{
	uint64_t watermark = run->watermark; /* an attach may drain the rings, and add to the tasks */
	uint32_t i, cnt = run->task_cnt;

	if (!cnt)
		return;
	qsort(run->tasks, cnt, sizeof(*run->tasks), by_time);
	for (i = 0; i < cnt && run->tasks[i].h.ts_ns <= watermark; i++) {
		struct ptb_task task = run->tasks[i];

		if (task.h.kind == PTB_REC_FORK)
			on_fork(run, &task);
		else if (task.h.kind == PTB_REC_EXEC)
			on_exec(run, &task);
	}
	run->task_cnt -= i;
	memmove(run->tasks, run->tasks + i, run->task_cnt * sizeof(*run->tasks));
}

/* Python is searched for in all files of a process, which costs more than a look for torch. */
static uint64_t next_try_after(const struct run *run, struct target *t)
{
	uint32_t tries = run->opts.sample_hz ? t->tries++ : 0;

	return CHILD_TRY_NS << (tries < TRIES_SLOWER ? tries : TRIES_SLOWER);
}

/* Processes that had no torch when last polled. */
static void try_waiting(struct run *run)
{
	uint64_t now = clock__mono_ns();

	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		struct target *t = &run->targets.items[i];
		int err;

		if (t->state != TARGET_WAITING || now < t->next_try_ns)
			continue;
		t->next_try_ns = now + next_try_after(run, t);
		err = run->opts.sample_hz ? 1 : torch_proc__peek(t->pid);
		if (err > 0)
			err = targets__attach(&run->targets, t);
		/* targets__attach() may move the array; the end of a process is reap_exited's, unless it ended before
		 * it was found: then its exec may be among the tasks that are left */
		if (err < 0 && err != -EAGAIN &&
		    (err != -ESRCH || (run->targets.items[i].pidfd < 0 && !run->task_cnt)))
			mark_gone(run, &run->targets.items[i]);
	}
}

/* The derived layout of tensors is wrong for this build: its process is traced on without arguments. */
static void stop_bad_layouts(struct run *run)
{
	uint32_t tgid;

	while ((tgid = recorder__next_bad_layout(run->targets.rec))) {
		struct target *t = targets__find(&run->targets, (pid_t)tgid);

		if (t && t->state == TARGET_TRACED) {
			t->no_args = true;
			probe_set__stop_args(run->targets.ps, t->proc_idx);
		}
		run->targets.no_shapes++;
		pr_warn("pid %u: its tensors do not match the derived layout: its operators are "
			"traced without shapes",
			tgid);
	}
}

/* Samples are few, and those who take them should not disturb. */
static int max_pace_ms(const struct run *run)
{
	if (run->opts.max_cost_ns || run->opts.steps.name)
		return PACE_COST_MS;
	return run->opts.stacks && !run->opts.sample_hz ? PACE_STACKS_MS : PACE_MAX_MS;
}

/* Moves what is in the rings into the capture: one round. 0 or negative errno (reported). */
static int drain(struct run *run)
{
	double fill = probe_set__fill(run->targets.ps);
	int err;

	run->draining = true;
	err = drain_rings(run);
	run->draining = false;
	if (err)
		return err;
	recorder__resolve(run->targets.rec);
	stop_bad_layouts(run);
	if (fill > 0.2 && run->pace_ms > PACE_MIN_MS)
		run->pace_ms /= 2;
	else if (fill < 0.05 && run->pace_ms < max_pace_ms(run))
		run->pace_ms++;
	return 0;
}

enum { POLL_CANCEL, POLL_RINGS, POLL_SAMPLES, FIXED_POLLS };

/* poll(); while it is time for samples only, they are taken and nothing else is done. */
static int poll_and_sample(struct run *run, uint32_t n, int timeout_ms)
{
	uint64_t now, end = clock__mono_ns() + (uint64_t)timeout_ms * 1000000;
	int ret;

	for (;;) {
		ret = poll(run->polls, n, timeout_ms);
		if (ret != 1 || !run->polls[POLL_SAMPLES].revents)
			return ret;
		probe_set__sample_now(run->targets.ps);
		now = clock__mono_ns();
		if (now >= end)
			return 0;
		timeout_ms = (int)((end - now) / 1000000) + 1;
	}
}

/* Waits for a signal, the end of a target, a filling ring, or the pace; keeps the ends of targets in run->polls. */
static int wait_events(struct run *run, int timeout_ms)
{
	struct targets *ts = &run->targets;
	uint32_t n = 0, i;

	if (vec_reserve((void **)&run->polls, &run->poll_cap, (uint64_t)ts->cnt + FIXED_POLLS,
			sizeof(*run->polls)) &&
	    run->poll_cap < FIXED_POLLS)
		return -ENOMEM;
	run->polls[n++] = (struct pollfd){ .fd = cancel__fd(), .events = POLLIN };
	run->polls[n++] = (struct pollfd){ .fd = probe_set__poll_fd(run->targets.ps), .events = POLLIN };
	run->polls[n++] =
		(struct pollfd){ .fd = probe_set__sample_fd(run->targets.ps), .events = POLLIN };
	for (i = 0; i < ts->cnt && n < run->poll_cap; i++)
		run->polls[n++] = (struct pollfd){ .fd = ts->items[i].pidfd, .events = POLLIN };
	if (poll_and_sample(run, n, timeout_ms) < 0 && errno != EINTR)
		return -errno;
	run->signal = cancel__take();
	run->polled = i;
	return 0;
}

/* After the drain: what a process did before it ended (exec) has been acted upon by then. */
static void reap_exited(struct run *run)
{
	for (uint32_t i = 0; i < run->polled; i++)
		if (run->polls[i + FIXED_POLLS].revents & (POLLIN | POLLHUP))
			mark_gone(run, &run->targets.items[i]);
}

/* Nothing left to trace: children that never loaded torch do not keep a recording alive. */
static bool all_gone(const struct run *run)
{
	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		const struct target *t = &run->targets.items[i];

		if (t->state == TARGET_TRACED || (t->state == TARGET_WAITING && !t->parent))
			return false;
	}
	return run->targets.cnt > 0;
}

/* When the window ends; UINT64_MAX: not by the clock. */
static uint64_t window_end(const struct run *run)
{
	uint64_t end = run->opts.duration_ns && run->targets.active ?
			       run->begin_ns + run->opts.duration_ns :
			       UINT64_MAX;

	return run->targets.active && run->opts.end_ns && run->opts.end_ns < end ? run->opts.end_ns : end;
}

static int remaining_ms(const struct run *run, uint64_t now)
{
	uint64_t end = window_end(run);

	if (now >= end)
		return 0;
	return (end - now) / 1000000 < (uint64_t)run->pace_ms ? (int)((end - now) / 1000000) + 1 :
								run->pace_ms;
}

/* The loop ends: all steps have ended, or none does. */
static bool steps_end(struct run *run, uint64_t now)
{
	const struct step_opts *so = &run->opts.steps;
	enum step_verdict v;

	if (!so->name || (!run->targets.active && !run->warming_up))
		return false;
	v = step_count__verdict(recorder__steps(run->targets.rec), now, so->timeout_ns);
	run->step_ns = step_count__step_ns(recorder__steps(run->targets.rec));
	run->warmed_up |= run->warming_up && v == STEPS_DONE;
	if (v == STEPS_AWAITED || (v == STEPS_DONE && run->warming_up && so->active))
		return false;
	run->stop_reason = v == STEPS_DONE ? PTB_STOP_STEPS : PTB_STOP_NO_STEP;
	return true;
}

int run__loop(struct run *run, run_tick_fn tick, void *arg)
{
	for (;;) {
		uint64_t now = clock__mono_ns();
		int err = wait_events(run, remaining_ms(run, now));

		probe_set__sample_now(run->targets.ps);
		if (!err)
			err = drain(run);
		if (err)
			return err;
		act_on_tasks(run);
		reap_exited(run);
		try_waiting(run);
		targets__renew_facts(&run->targets);
		targets__settle_agents(&run->targets);
		targets__follow_cuda(&run->targets);
		if (tick)
			tick(arg, run);
		now = clock__mono_ns();
		if (now - run->last_clock_ns > CLOCK_EVERY_NS) {
			recorder__clock(run->targets.rec);
			run->last_clock_ns = now;
		}
		if (run->targets.active && (run->opts.memory || run->opts.kernel_memory) &&
		    now - run->last_sample_ns > SAMPLE_EVERY_NS)
			sample_memory(run, now);
		if (run->signal) {
			run->stop_reason = PTB_STOP_SIGNAL;
			return 0;
		}
		if (now >= window_end(run)) {
			run->stop_reason = window_end(run) == run->opts.end_ns ? PTB_STOP_NEXT_WINDOW :
										 PTB_STOP_DURATION;
			return 0;
		}
		if (steps_end(run, now))
			return 0;
		if (run->opts.max_cost_ns && run__cost_ns(run) > run->opts.max_cost_ns) {
			run->stop_reason = PTB_STOP_COST;
			return 0;
		}
		if (all_gone(run)) {
			run->stop_reason = PTB_STOP_TARGET_EXIT;
			return 0;
		}
		if (recorder__stats(run->targets.rec).error) {
			run->stop_reason = PTB_STOP_ERROR;
			return recorder__stats(run->targets.rec).error;
		}
	}
}

/* ---- the end: the window closes, agents stop, probes are removed, the capture is sealed ---- */

static void write_counters(struct run *run, uint64_t detach_ns)
{
	struct recorder_stats st = recorder__stats(run->targets.rec);
	struct rusage ru;

	for (uint32_t id = 0; id < PTB_CNT_MAP; id++) {
		uint64_t v = PTB_CNT_IS_BPF(id) ? counted(run, id) : 0;

		v -= id == PTB_CNT_HITS ? run->surplus_hits : 0;
		v += id == PTB_CNT_OUT_OF_WINDOW ? run->surplus_hits : 0;
		if (v)
			recorder__counter(run->targets.rec, id, v);
	}
	recorder__counter(run->targets.rec, PTB_CNT_MISSED, counted(run, PTB_CNT_MISSED));
	recorder__counter(run->targets.rec, PTB_CNT_CAPTURE_DROPPED, st.write_dropped);
	if (run->cost_ps > 0)
		recorder__counter(run->targets.rec, PTB_CNT_COST_PS, (uint64_t)run->cost_ps);
	recorder__counter(run->targets.rec, PTB_CNT_ATTACH_NS, run->targets.attach_ns);
	recorder__counter(run->targets.rec, PTB_CNT_DETACH_NS, detach_ns);
	recorder__counter(run->targets.rec, PTB_CNT_PLAN_NS, run->targets.plan_ns);
	recorder__counter(run->targets.rec, PTB_CNT_PROBES, run->targets.probes);
	recorder__counter(run->targets.rec, PTB_CNT_REFUSED, run->targets.refused);
	recorder__counter(run->targets.rec, PTB_CNT_NAME_UNRESOLVED, st.unresolved);
	recorder__counter(run->targets.rec, PTB_CNT_UNCOVERED_NS, run->targets.uncovered_ns);
	recorder__counter(run->targets.rec, PTB_CNT_CUDA_LATE_NS, run->targets.cuda_late_ns);
	recorder__counter(run->targets.rec, PTB_CNT_CHILDREN_MISSED, run->targets.children_missed);
	recorder__counter(run->targets.rec, PTB_CNT_NO_TRACEPOINT, run->no_tracepoint);
	recorder__counter(run->targets.rec, PTB_CNT_NO_SHAPES, run->targets.no_shapes);
	recorder__counter(run->targets.rec, PTB_CNT_ARGS_UNPLACED, run->targets.unplaced);
	recorder__counter(run->targets.rec, PTB_CNT_NO_STACKS, run->targets.no_stacks);
	recorder__counter(run->targets.rec, PTB_CNT_PY_CODE_GONE, st.py_codes_gone);
	recorder__counter(run->targets.rec, PTB_CNT_PY_CLASS_GONE, st.py_classes_gone);
	for (uint32_t id = PTB_CNT_AGENT_LOST; id <= PTB_CNT_GPU_DROPPED; id++)
		recorder__counter(run->targets.rec, id, recorder__agent_counter(run->targets.rec, id));
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_CUT, run->targets.agents_cut);
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_GAVE_UP, run->targets.agents_gave_up);
	recorder__counter(run->targets.rec, PTB_CNT_AGENT_REFUSED, targets__gpu_refused(&run->targets));
	recorder__counter(run->targets.rec, PTB_CNT_OVER_MEMORY, mem_limit__refused());
	recorder__counter(run->targets.rec, PTB_CNT_OVER_NAMES, st.over_names);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_OPERATORS, st.over_operators);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_LIBS, run->targets.over_libs);
	recorder__counter(run->targets.rec, PTB_CNT_REFUSED_PIDS, run->refused_pids);
	recorder__counter(run->targets.rec, PTB_CNT_FOREIGN_FILES, torch_proc__refused_files());
	recorder__counter(run->targets.rec, PTB_CNT_OVER_PROCESSES, run->targets.over_processes);
	recorder__counter(run->targets.rec, PTB_CNT_OVER_AGENT,
			  recorder__agent_counter(run->targets.rec, PTB_CNT_OVER_AGENT));
	recorder__counter(run->targets.rec, PTB_CNT_COLLECTOR_CPU_NS, clock__cpu_ns());
	if (!getrusage(RUSAGE_SELF, &ru))
		recorder__counter(run->targets.rec, PTB_CNT_COLLECTOR_RSS, (uint64_t)ru.ru_maxrss * 1024);
}

/*
 * Agents stop and send what they have: they poll their semaphores every 50 ms. One that does not within the
 * time it has is left as it is; the kernel lowers its semaphores, and it stops when it runs again.
 */
static void end_agents(struct run *run)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	uint64_t t0 = clock__mono_ns(), limit = run->signal ? SIGNALLED_WAIT_NS : PTB_AGENT_ANSWER_NS;

	targets__dismiss_agents(&run->targets);
	while (!cancel__pending() && !targets__agents_quiet(&run->targets) &&
	       clock__mono_ns() - t0 < limit) {
		drain(run);
		nanosleep(&nap, NULL);
	}
	drain(run);
	for (uint32_t i = 0; i < run->targets.cnt; i++)
		end_agent(run, &run->targets.items[i]);
	targets__agents_meta(&run->targets);
	target_python__meta(&run->targets);
	if (recorder__agent_gpu(run->targets.rec))
		recorder__meta(run->targets.rec, "gpu", "true");
	if (run->opts.gpu)
		recorder__meta(run->targets.rec, "cuda_calls", "true");
}

/* Hits after the last step are hits outside the window: so many as their share of the time. */
static uint64_t cut_steps(struct run *run, uint64_t end)
{
	uint64_t surplus_ns = step_count__surplus_ns(recorder__steps(run->targets.rec));
	double hits = (double)counted(run, PTB_CNT_HITS), ns = (double)(end - run->begin_ns);

	if (surplus_ns > end)
		return end;
	run->surplus_hits = (uint64_t)(hits * (double)(end - surplus_ns) / ns);
	return surplus_ns - 1;
}

/*
 * Where the window ends in the capture: where its records do. Those after that are of some threads only, and an operator
 * whose end is not there would seem to last.
 */
static uint64_t cut_window(struct run *run, uint64_t end)
{
	struct recorder_stats st;

	if (run->opts.steps.name) /* records of later steps are in the file, too, which readers leave out */
		end = cut_steps(run, end);
	recorder__flush(run->targets.rec);
	st = recorder__stats(run->targets.rec);
	if (!st.cut || st.covered_ns >= end)
		return end;
	if (st.covered_ns < run->begin_ns)
		st.covered_ns = run->begin_ns;
	recorder__counter(run->targets.rec, PTB_CNT_UNWRITTEN_NS, end - st.covered_ns);
	run->stop_reason = PTB_STOP_NOT_WRITTEN;
	pr_error("the capture covers the first %.3f s of %.3f s",
		 (double)(st.covered_ns - run->begin_ns) / 1e9, (double)(end - run->begin_ns) / 1e9);
	return st.covered_ns;
}

const char *run__no_python(struct run *run, pid_t pid)
{
	const struct target *t = targets__find(&run->targets, pid);

	return t ? t->python.why : "";
}

/* A version that cannot be read, perhaps: such processes were tried until now. */
static void refuse_waiting(struct run *run)
{
	for (uint32_t i = 0; i < run->targets.cnt && run->opts.sample_hz; i++) {
		struct target *t = &run->targets.items[i];

		if (t->state != TARGET_WAITING || !t->python.layout.version)
			continue;
		t->python.state = PYTHON_REFUSED;
		run->targets.no_stacks++;
		pr_warn("pid %d: no Python stacks: %s", t->pid, t->python.why);
	}
}

int run__finish(struct run *run, int *capture)
{
	uint64_t end, t0;
	int err;

	refuse_waiting(run);
	sample_memory(run, clock__mono_ns());
	if (run->opts.kernel_memory)
		probe_set__flush_kmem(run->targets.ps);
	end = clock__mono_ns();
	probe_set__deactivate(run->targets.ps);
	recorder__window_ends(run->targets.rec, end);
	end_agents(run);
	t0 = clock__mono_ns();
	probe_set__detach(run->targets.ps);
	t0 = clock__mono_ns() - t0;
	drain(run); /* records of programs that ran when the window closed */
	end = cut_window(run, end);
	recorder__clock(run->targets.rec);
	recorder__window(run->targets.rec, false, end, run->stop_reason);
	write_counters(run, t0);
	*capture = recorder__dup_capture(run->targets.rec);
	err = recorder__close(run->targets.rec);
	run->targets.rec = NULL;
	mem_limit__set(0); /* what is made of the capture has limits of its own */
	return err;
}

uint64_t run__cost_ns(struct run *run)
{
	static const uint32_t kinds[] = { PTB_CNT_HITS, PTB_CNT_RING_FULL, PTB_CNT_OUT_OF_WINDOW,
					  PTB_CNT_FOREIGN };
	uint64_t ps = run->cost_ps > 0 ? (uint64_t)run->cost_ps : COST_UNKNOWN_PS, hits = 0;

	if (run->opts.sample_hz)
		return probe_set__counter(run->targets.ps, PTB_CNT_SAMPLES_NS);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		hits += probe_set__counter(run->targets.ps, kinds[i]);
	return cost_meter__of_busiest(&run->hits, hits) * ps / 1000 * RUN_COST_FACTOR;
}

uint32_t run__traced(const struct run *run)
{
	return run->targets.plan_cnt || run->opts.sample_hz ?
		       targets__count(&run->targets, TARGET_TRACED) :
		       0;
}

uint64_t run__step_ns(const struct run *run)
{
	return run->step_ns;
}

uint32_t run__stop_reason(const struct run *run)
{
	return run->stop_reason;
}

int run__signal(const struct run *run)
{
	return run->signal;
}
