/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A recording: its window, and the loop from the rings to the capture; see run.h. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "probe/probe_set.h"
#include "record/recorder.h"
#include "record/recorder_agent.h"
#include "steps/step_count.h"
#include "target/proc.h"
#include "target/proc_info.h"

#define PACE_MIN_MS 1
#define PACE_MAX_MS 40
#define PACE_STACKS_MS 10 /* code objects are read before they are freed, if possible */
#define PACE_STEPS_MS 200 /* if only steps are followed */
#define PACE_COST_MS 10   /* a window with a cost limit or steps must end soon after it may */
#define SAMPLE_EVERY_NS 100000000ULL /* interval of the memory figures from /proc */
/* interval of clock pairs, since the wall clock may be slewed */
#define CLOCK_EVERY_NS 10000000000ULL

struct pid_vec {
	pid_t *pids;
	uint32_t cnt, cap;
};

static void on_record(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	const struct ptb_rec_hdr *h = rec;
	struct run *run = arg;

	if (h->site)
		cost_meter__hit(&run->hits, h->tgid);
	else if (h->kind == PTB_REC_PY_SAMPLE &&
		 ((const struct ptb_py_sample *)rec)->flags & PTB_SAMPLE_RAN)
		cost_meter__hit(&run->samples, h->tgid);
	recorder__ring_record(run->targets.rec, ring, rec, len);
}

int run__read_rings(struct run *run)
{
	uint32_t n = probe_set__ring_cnt(run->targets.ps);

	for (uint32_t i = 0; i < n; i++) {
		struct ring_loss loss = { 0 };
		int64_t err = probe_set__drain(run->targets.ps, i, on_record, run);

		if (err < 0) {
			pr_error("ring buffer %u cannot be read: %s", i, errstr((int)err));
			return (int)err;
		}
		probe_set__take_loss(run->targets.ps, i, &loss);
		if (loss.cnt && recorder__steps(run->targets.rec))
			step_count__lost(recorder__steps(run->targets.rec));
		if (loss.cnt && !run->warming_up)
			recorder__lost(run->targets.rec, i, loss.begin_ns, loss.end_ns, loss.cnt);
	}
	return 0;
}

int run__drain_rings(struct run *run)
{
	int err;

	run->watermark = clock__mono_ns();
	err = run__read_rings(run);
	if (!err)
		recorder__round(run->targets.rec, run->watermark);
	return err;
}

void run__sample_memory(struct run *run, uint64_t now)
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
	return run__add_chosen(run, pid, UINT64_MAX);
}

int run__add_chosen(struct run *run, pid_t pid, uint64_t by_ns)
{
	struct target *t = targets__find(&run->targets, pid);
	int err;

	if (t && t->state == TARGET_TRACED)
		return 0;
	if (!t)
		t = targets__add(&run->targets, pid, 0, 0);
	if (!t)
		return -E2BIG;
	/* targets__add() holds the process; targets__attach() checks at its end that it still
	 * lives */
	if (by_ns != UINT64_MAX && !pid_hold__began_by(pid, by_ns)) {
		pr_warn("pid %d: the process that was chosen has ended", pid);
		err = -ESRCH;
	} else {
		err = cancel__pending() ? -ECANCELED : targets__attach(&run->targets, t);
	}
	if (!err && cancel__pending())
		err = -ECANCELED; /* free() of the run removes the probes */

	t = targets__find(&run->targets, pid); /* targets__attach() may have moved it */
	if (err && err != -EAGAIN && t)
		run__mark_gone(run, t);
	return err;
}

int run__await(struct run *run, pid_t pid)
{
	if (!targets__find(&run->targets, pid) && !targets__add(&run->targets, pid, 0, 0))
		return -E2BIG;
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
			/* -EAGAIN: no torch yet; the loop tries again */
			targets__attach(&run->targets, t);
		}
		run__add_descendants(run, kids[i]);
	}
	free(kids);
}

/* Processes with an agent need hardly any probes and share none. */
static int expect_process(struct run *run, pid_t pid, struct pid_vec *v)
{
	pid_t *kids = NULL;
	int err = 0, n = run->opts.children ? proc__children(pid, &kids) : 0;

	if (run->opts.agent != AGENT_OFF && target_agent__is_there(pid))
		err = -EBUSY;
	else
		vec_push(v->pids, v->cnt, v->cap, pid);
	for (int i = 0; i < n && !err; i++)
		err = v->cnt < LIMIT_PROCESSES ? expect_process(run, kids[i], v) : -E2BIG;
	free(kids);
	return err;
}

bool run__can_share(void)
{
	return probe_set__can_share();
}

void run__expect(struct run *run, const pid_t *pids, uint32_t cnt)
{
	struct pid_vec v = { .cnt = 0 };
	int err = 0;

	if (run->opts.sample_hz || run->opts.steps.only || run->opts.flight_ns ||
	    run->opts.called_ops)
		return; /* no probes, few probes, probes for hours, or others in each process */
	for (uint32_t i = 0; i < cnt && !err; i++)
		err = expect_process(run, pids[i], &v);
	if (!err)
		probe_set__expect(run->targets.ps, v.pids, v.cnt);
	free(v.pids);
}

uint64_t run__counted(const struct run *run, uint32_t id)
{
	return probe_set__counter(run->targets.ps, id) - run->before[id];
}

/* Drops the contents of the rings and their losses. */
static void end_warm_up(struct run *run)
{
	probe_set__deactivate(run->targets.ps);
	run__drain_rings(run); /* an error occurs again in the next round */
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
	step_count__await(recorder__steps(run->targets.rec), clock__mono_ns(),
			  run->opts.steps.warmup, run->opts.steps.warmup);
}

bool run__warmed_up(const struct run *run)
{
	return run->warmed_up;
}

int run__activate(struct run *run)
{
	int err = 0;

	if (run->warming_up)
		end_warm_up(run);
	if (run->opts.sched)
		cpu_times__read(&run->cpus);
	probe_set__activate(run->targets.ps);
	run->targets.active = true;
	run->begin_ns = run->opened_ns = run->last_clock_ns = clock__mono_ns();
	if (recorder__steps(run->targets.rec)) {
		uint32_t steps = run->opts.steps.name ? run->opts.steps.active :
							run->opts.least_steps;

		step_count__await(recorder__steps(run->targets.rec), run->begin_ns,
				  (uint64_t)steps + 1, steps);
	}
	if (run->opts.flight_ns)
		err = run__hold(run, run->begin_ns);
	else
		recorder__window(run->targets.rec, true, run->begin_ns, 0);
	run__sample_memory(run, run->begin_ns);
	target_python__count_collections(&run->targets, false);
	for (uint32_t i = 0; i < run->targets.cnt && run->opts.native_stacks; i++)
		if (run->targets.items[i].state == TARGET_TRACED)
			recorder__native_stacks(run->targets.rec, run->targets.ps,
						(uint32_t)run->targets.items[i].pid);
	return err;
}

void run__wake_at(struct run *run, uint64_t mono_ns)
{
	run->wake_ns = mono_ns;
}

bool run__has(struct run *run, pid_t pid)
{
	return targets__find(&run->targets, pid) != NULL;
}

void run__remove(struct run *run, pid_t pid)
{
	struct target *t = targets__find(&run->targets, pid);

	if (t)
		run__mark_gone(run, t);
}

void run__refused(struct run *run, uint32_t cnt)
{
	run->refused_pids = cnt;
}

/* If tensors do not match the derived layout, their process is traced on without arguments. */
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

/* Samples are few, and taking them should not disturb. */
static int max_pace_ms(const struct run *run)
{
	if (run->opts.steps.only)
		return PACE_STEPS_MS;
	if (run->limited || run->opts.steps.name)
		return PACE_COST_MS;
	return run->opts.stacks && !run->opts.sample_hz ? PACE_STACKS_MS : PACE_MAX_MS;
}

int run__drain(struct run *run)
{
	double fill = probe_set__fill(run->targets.ps);
	int err;

	run->draining = true;
	err = run__drain_rings(run);
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

/* Like poll(), but takes samples that are due until another event or the timeout. */
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

/* Waits for a signal, the end of a target, a filling ring, or the pace. run->polls then shows which
 * targets have ended. */
static int wait_events(struct run *run, int timeout_ms)
{
	struct targets *ts = &run->targets;
	uint32_t n = 0, i;

	vec_reserve((void **)&run->polls, &run->poll_cap, (uint64_t)ts->cnt + FIXED_POLLS,
		    sizeof(*run->polls));
	run->polls[n++] = (struct pollfd){ .fd = cancel__fd(), .events = POLLIN };
	run->polls[n++] =
		(struct pollfd){ .fd = probe_set__poll_fd(run->targets.ps), .events = POLLIN };
	run->polls[n++] =
		(struct pollfd){ .fd = probe_set__sample_fd(run->targets.ps), .events = POLLIN };
	for (i = 0; i < ts->cnt; i++)
		run->polls[n++] = (struct pollfd){ .fd = ts->items[i].pidfd, .events = POLLIN };
	if (poll_and_sample(run, n, timeout_ms) < 0 && errno != EINTR)
		return -errno;
	run->signal = cancel__take();
	run->polled = i;
	return 0;
}

/* Children that never loaded torch do not keep a recording alive. */
static bool all_gone(const struct run *run)
{
	for (uint32_t i = 0; i < run->targets.cnt; i++) {
		const struct target *t = &run->targets.items[i];

		if (t->state == TARGET_TRACED || (t->state == TARGET_WAITING && !t->parent))
			return false;
	}
	return run->targets.cnt > 0;
}

uint64_t run__window_end(const struct run *run)
{
	bool ends = run->targets.active && (run->opts.duration_ns || run->opts.flight_ns);
	uint64_t end = ends && !run->holding ? run->opened_ns + run->opts.duration_ns : UINT64_MAX;

	return run->targets.active && run->opts.end_ns && run->opts.end_ns < end ?
		       run->opts.end_ns :
		       end;
}

static int remaining_ms(const struct run *run, uint64_t now)
{
	uint64_t end = run__window_end(run);

	if (run->wake_ns > now && run->wake_ns < end)
		end = run->wake_ns;
	if (now >= end)
		return 0;
	return (end - now) / 1000000 < (uint64_t)run->pace_ms ? (int)((end - now) / 1000000) + 1 :
								run->pace_ms;
}

/* Do steps end the loop: because all have ended, or because none ends in time? */
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
		uint64_t before_wait = clock__mono_ns(), now;
		int err = wait_events(run, remaining_ms(run, before_wait));

		probe_set__sample_now(run->targets.ps);
		if (!err)
			err = run__drain(run);
		if (err)
			return err;
		run__act_on_tasks(run);
		run__reap_exited(run);
		run__try_waiting(run);
		targets__renew_facts(&run->targets);
		targets__settle_agents(&run->targets);
		if (!run->signal) /* a signal ended the reading of a library, which may never end */
			targets__follow_cuda(&run->targets);
		if (tick)
			tick(arg, run);
		now = clock__mono_ns();
		if (now - run->last_clock_ns > CLOCK_EVERY_NS) {
			recorder__clock(run->targets.rec);
			run->last_clock_ns = now;
		}
		if (run->holding)
			run__take_snapshot(run, now);
		if (run->targets.active && (run->opts.memory || run->opts.kernel_memory) &&
		    now - run->last_sample_ns > SAMPLE_EVERY_NS)
			run__sample_memory(run, now);
		if (run->signal)
			run->stop_reason = PTB_STOP_SIGNAL;
		if (run->signal)
			return 0;
		if (now >= run__window_end(run)) {
			run->stop_reason = run__window_end(run) == run->opts.end_ns ?
						   PTB_STOP_NEXT_WINDOW :
						   PTB_STOP_DURATION;
			return 0;
		}
		if (steps_end(run, now))
			return 0;
		if (run->limited && run__over_cost(run)) {
			run->stop_reason = PTB_STOP_COST;
			return 0;
		}
		if (all_gone(run)) {
			run->stop_reason = PTB_STOP_TARGET_EXIT;
			return 0;
		}
		/* The last seconds of a killed job are those of its life: where memory is short,
		 * ptbpf may not run for seconds and learns of its end later. */
		if (run->holding)
			recorder__expire(run->targets.rec, before_wait);
		if (recorder__stats(run->targets.rec).error) {
			run->stop_reason = PTB_STOP_ERROR;
			return recorder__stats(run->targets.rec).error;
		}
	}
}

struct run_status run__status(const struct run *run)
{
	struct recorder_stats s = recorder__stats(run->targets.rec);

	return (struct run_status){ .begin_ns = run->targets.active ? run->opened_ns : 0,
				    .records = s.records,
				    .bytes = s.bytes,
				    .lost = run__counted(run, PTB_CNT_RING_FULL) };
}

const char *run__no_python(struct run *run, pid_t pid)
{
	const struct target *t = targets__find(&run->targets, pid);

	return t ? t->python.why : "";
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
