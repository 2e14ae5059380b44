/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A recording whose last seconds are held in memory until they are requested. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "capture/capture.h"
#include "probe/probe_set.h"
#include "record/recorder_agent.h"

#define CUT_NS 3000000000ULL /* blocks and rounds last a second: so much more or less is held */

int run__hold(struct run *run, uint64_t now)
{
	int err =
		recorder__hold(run->targets.rec, now, run->opts.flight_ns, run->opts.flight_bytes);

	run->holding = !err;
	if (err)
		pr_error("what happens cannot be held in memory: %s", errstr(err));
	return err;
}

bool run__is_holding(const struct run *run)
{
	return run->holding;
}

static struct run_snapshot *snapshot(struct run *run, uint32_t nr)
{
	return &run->snapshots[nr % RUN_SNAPSHOTS];
}

void run__take_snapshot(struct run *run, uint64_t now)
{
	struct run_snapshot *s;

	if (run->snapshot_cnt &&
	    now < snapshot(run, run->snapshot_cnt - 1)->ts_ns +
			    (run->opts.flight_ns + CUT_NS) / (RUN_SNAPSHOTS - 2))
		return;
	s = snapshot(run, run->snapshot_cnt++);
	s->ts_ns = now;
	for (uint32_t id = 0; id < PTB_CNT_MAP; id++)
		s->counters[id] = probe_set__counter(run->targets.ps, id);
}

/* Excludes what was counted before the window, as far as snapshots show it. */
static void set_counters(struct run *run)
{
	uint32_t last = run->snapshot_cnt;

	while (last && run->snapshot_cnt - last < RUN_SNAPSHOTS) {
		const struct run_snapshot *s = snapshot(run, --last);

		if (s->ts_ns > run->begin_ns)
			continue;
		memcpy(run->before, s->counters, sizeof(run->before));
		return;
	}
}

void run__release(struct run *run, const char *why)
{
	uint64_t since, now;
	char text[160];
	double held;

	run__drain(run); /* an error occurs again in the next round */
	now = clock__mono_ns();
	recorder__release(run->targets.rec, &since);
	run->holding = false;
	run->opened_ns = now;
	if (since > run->begin_ns)
		run->begin_ns = since < now ? since : now;
	held = (double)(now - run->begin_ns) / 1e9;
	set_counters(run);
	recorder__window(run->targets.rec, true, run->begin_ns, 0);
	snprintf(text, sizeof(text), "%.2f s before %s", held, why);
	recorder__meta_text(run->targets.rec, "flight", text);
	if (since && now - run->begin_ns + CUT_NS < run->opts.flight_ns)
		pr_warn("only the last %.2f s fitted into --flight-buffer", held);
	pr_info("the last %.2f s before %s are written", held, why);
}

struct run_window run__end_window(struct run *run)
{
	struct run_window w = { .begin_ns = run->cut_begin_ns ? run->cut_begin_ns : run->begin_ns };

	probe_set__flush_sums(run->targets.ps);
	w.end_ns = clock__mono_ns();
	run__drain_rings(run); /* an error occurs again in the next round */
	run__sample_memory(run, w.end_ns);
	probe_set__renew_sums(run->targets.ps);
	run->cut_begin_ns = clock__mono_ns();
	for (uint32_t id = 0; id < PTB_CNT_MAP; id++) {
		run->cut[id] = run__counted(run, id);
		run->before[id] += run->cut[id];
	}
	return w;
}

static void put_counters(struct run *run)
{
	for (uint32_t id = 0; id < PTB_CNT_MAP; id++)
		if (run->cut[id])
			recorder__counter(run->targets.rec, id, run->cut[id]);
	if (run->cost_ps > 0)
		recorder__counter(run->targets.rec, PTB_CNT_COST_PS, (uint64_t)run->cost_ps);
}

int run__cut(struct run *run, const struct run_window *w, int *fd)
{
	struct recorder *r = run->targets.rec;
	struct capture_writer *held = r->cw, *copy;
	uint64_t since_ns = r->begin_ns;
	int err = run__drain(run);

	if (!err)
		err = capture_writer__copy(held, &copy);
	if (err)
		return err;
	r->cw = copy;
	r->holding = false;
	recorder__agents_open(r, w->begin_ns);
	recorder__clock(r);
	recorder__window(r, true, w->begin_ns, 0);
	recorder__window(r, false, w->end_ns, PTB_STOP_DURATION);
	run__gpu_meta(run);
	put_counters(run);
	r->cw = held;
	r->holding = true;
	r->begin_ns = since_ns;
	*fd = capture_writer__dup(copy);
	err = capture_writer__close(copy);
	capture_writer__drop(held, w->end_ns);
	return err ? err : *fd < 0 ? *fd : 0;
}
