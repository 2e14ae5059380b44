/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the windows of `sample` add to its metrics. */
#ifndef CLI_SAMPLE_METRICS_H
#define CLI_SAMPLE_METRICS_H

#include "sample/metrics.h"
#include "sample/window.h"

void sample_metrics__init(struct metrics *m);
/* A window is due, of which spec has the processes. */
void sample_metrics__due(struct metrics *m, const struct sample_window_spec *spec);
void sample_metrics__skipped(struct metrics *m);
/* It has ended, with that exit code. */
void sample_metrics__ended(struct metrics *m, const struct sample_window *w, int code);
/* From malloc. */
char *sample_metrics__text(struct metrics *m, bool openmetrics, size_t *len);

#endif /* CLI_SAMPLE_METRICS_H */
