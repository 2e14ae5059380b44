/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From the session of a window to what `sample --metrics` says of it. */
#ifndef CLI_WINDOW_METRICS_H
#define CLI_WINDOW_METRICS_H

#include "model/session.h"
#include "sample/metrics.h"

#define WINDOW_METRICS_SINKS 3

struct window_metrics;
struct window_metrics *window_metrics__new(const struct session *s);
/* Fills at most WINDOW_METRICS_SINKS; returns how many. */
uint32_t window_metrics__sinks(struct window_metrics *wm, struct session_sink *sinks);
/* After the run; out->ops_all becomes the caller's. 0 or negative errno. */
int window_metrics__finish(struct window_metrics *wm, const struct session_totals *totals,
			   struct metrics_window *out);
void window_metrics__free(struct window_metrics *wm); /* NULL is fine */

#endif /* CLI_WINDOW_METRICS_H */
