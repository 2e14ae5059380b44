/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Follows the processes of a recording that fork, execute a program, load torch, or end. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "probe/probe_set.h"
#include "record/recorder.h"
#include "record/recorder_agent.h"
#include "steps/step_count.h"

#define CHILD_TRY_NS 20000000ULL /* interval of polls of a process without torch */
#define TRIES_SLOWER 6           /* intervals double so many times */

/* Probes that are placed after the window record nothing and delay its end. */
static bool is_over(const struct run *run)
{
	return run->signal || cancel__pending() || clock__mono_ns() >= run__window_end(run);
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
		if (!is_over(run))
			targets__attach(&run->targets, t);
	}
}

void run__end_agent(struct run *run, struct target *t)
{
	struct agent_reported last = recorder__agent_end(run->targets.rec, t->pid);

	run->targets.agents_cut += (last.state & PTB_AGENT_SENDS) != 0;
	run->targets.agents_restarted += last.restarts;
	if (t->agent && last.ever & PTB_AGENT_GPU_ON)
		t->agent->gpu = true; /* the process may have ended before its state was polled */
}

/* Removes the probes of a process that has ended or executes another program. */
static void release_target(struct run *run, struct target *t)
{
	uint64_t share_ns = probe_set__share_ns(run->targets.ps);

	probe_set__remove_process(run->targets.ps, t->proc_idx);
	if (run->opts.steps.only)
		step_count__forget(recorder__steps(run->targets.rec), (uint32_t)t->pid);
	run__end_agent(run, t);
	if (t->agent)
		probe_set__remove_process(run->targets.ps, t->agent->proc_idx);
	target_cuda__clear(&t->cuda, run->targets.ps);
	targets__charge(&run->targets, t, share_ns);
}

/* exec replaces the memory map, and the old probes with it. */
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
	/* a program of which no operator may be recorded would have no verdict */
	t->state = run->opts.children && !t->unprobed ? TARGET_WAITING : TARGET_GONE;
	t->inherits = false;
	t->python = (struct target_python){ 0 };
	t->born_ns = task->h.ts_ns;
	t->next_try_ns = 0;
}

void run__mark_gone(struct run *run, struct target *t)
{
	if (t->state == TARGET_TRACED)
		release_target(run, t);
	else if (t->state == TARGET_WAITING && t->inherits)
		run->targets.children_missed++; /* too short-lived to be seen */
	t->state = TARGET_GONE;
	if (t->pidfd >= 0)
		close(t->pidfd);
	t->pidfd = -1;
}

static int by_time(const void *a, const void *b)
{
	const struct ptb_task *x = a, *y = b;

	return (x->h.ts_ns > y->h.ts_ns) - (x->h.ts_ns < y->h.ts_ns);
}

/* In the order of time: the ring with an exec may be read before the ring with the process's
 * fork. */
void run__act_on_tasks(struct run *run)
{
	/* an attach may drain the rings and add tasks */
	uint64_t watermark = run->watermark;
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

/* A fork that executes another program is not counted. */
void run__count_missed(struct run *run, uint64_t end)
{
	if (run->task_cnt)
		qsort(run->tasks, run->task_cnt, sizeof(*run->tasks), by_time);
	for (uint32_t i = 0; i < run->task_cnt && run->opts.children; i++) {
		const struct ptb_task *task = &run->tasks[i];
		struct target *t = targets__find(&run->targets, (pid_t)task->h.tgid);

		if (task->h.kind == PTB_REC_EXEC && t) {
			t->inherits = false;
		} else if (task->h.kind == PTB_REC_FORK && task->h.ts_ns < end && t &&
			   (t->state == TARGET_TRACED || t->inherits) &&
			   !targets__find(&run->targets, (pid_t)task->child_tgid)) {
			t = targets__add(&run->targets, (pid_t)task->child_tgid, task->h.tgid,
					 task->h.ts_ns);
			if (t)
				t->inherits = true;
		}
	}
	for (uint32_t i = 0; i < run->targets.cnt; i++)
		run->targets.children_missed += run->targets.items[i].state == TARGET_WAITING &&
						run->targets.items[i].inherits;
}

void run__try_waiting(struct run *run)
{
	uint64_t now = clock__mono_ns();

	for (uint32_t i = 0; i < run->targets.cnt && !is_over(run); i++) {
		struct target *t = &run->targets.items[i];
		uint32_t tries;
		int err;

		if (t->state != TARGET_WAITING || now < t->next_try_ns)
			continue;
		/* the search for Python reads all files of a process, which costs more than the one
		 * for torch */
		tries = run->opts.sample_hz ? t->tries++ : 0;
		t->next_try_ns =
			now + (CHILD_TRY_NS << (tries < TRIES_SLOWER ? tries : TRIES_SLOWER));
		err = run->opts.sample_hz ? 1 : torch_proc__peek(t->pid);
		if (err > 0)
			err = targets__attach(&run->targets, t);
		/* targets__attach() may move the array. run__reap_exited() handles the end of a
		 * process, unless it ended before it was found: its exec may then be among the
		 * tasks that are left. */
		if (err < 0 && err != -EAGAIN &&
		    (err != -ESRCH || (run->targets.items[i].pidfd < 0 && !run->task_cnt)))
			run__mark_gone(run, &run->targets.items[i]);
	}
}

void run__reap_exited(struct run *run)
{
	for (uint32_t i = 0; i < run->polled; i++)
		if (run->polls[i + FIXED_POLLS].revents & (POLLIN | POLLHUP))
			run__mark_gone(run, &run->targets.items[i]);
}
