/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What `sample` does otherwise when its schedule is in steps. */
#ifndef CLI_SAMPLE_STEPS_H
#define CLI_SAMPLE_STEPS_H

#include "base/jsonw.h"
#include "cli/live.h"
#include "sample/schedule.h"
#include "sample/step_wait.h"
#include "sample/window.h"

/* Fills *st, or does nothing if the schedule is in time. Options that contradict it: -EINVAL
 * (reported). */
int sample_steps__check(const struct schedule *s, const struct run_cfg *cfg, struct window_steps *st);

/* Whether window `next` may be started now. *at: when, since start_ns. False: not yet or never; *in_ns: until it may, UINT64_MAX: no
 * sooner than the windows in hand have ended. */
bool sample_steps__due(const struct step_wait *sw, const struct schedule *s, uint64_t next,
		       uint64_t start_ns, const struct sample_window *windows, uint32_t cnt,
		       uint64_t lead_ns, struct schedule_window *at, bool *measure, uint64_t *in_ns);

/* The window has been sealed, or its process has ended before. */
void sample_steps__ended(struct step_wait *sw, struct sample_window *w);
/* No window was started at now_ns; skipped: there will be none in its place. */
void sample_steps__not_started(struct step_wait *sw, uint64_t now_ns, bool skipped);

/* Keys of the window's line in the log. */
void sample_steps__put(struct jsonw *j, const struct sample_window *w);
/* Why there is nothing of the window, "": not because of its steps. */
void sample_steps__why(const struct sample_window *w, char *buf, size_t cap);
#endif /* CLI_SAMPLE_STEPS_H */
