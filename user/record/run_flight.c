/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A recording whose last seconds are held in memory until they are requested. */
#define LOG_DOMAIN "run"
#include "record/run_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "probe/probe_set.h"
#include "record/recorder.h"

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
