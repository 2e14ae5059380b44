/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* --metrics of `sample`: what its windows add, served to whoever asks. Without the option everything here does nothing. */
#ifndef CLI_SAMPLE_METRICS_H
#define CLI_SAMPLE_METRICS_H

#include "cli/sample_window.h"
#include "sample/metrics.h"
#include "sample/metrics_server.h"

struct sample_metrics {
	struct metrics sums;
	struct metrics_server *server; /* NULL: without the option */
};

/* address NULL: without the option. 0 or negative errno (reported). */
int sample_metrics__open(struct sample_metrics *sm, const char *address);
/* A window is due, of which spec has the processes; its own process is to report what sm needs. */
void sample_metrics__due(struct sample_metrics *sm, struct sample_window_spec *spec);
void sample_metrics__skipped(struct sample_metrics *sm);
/* It has ended, with that exit code. */
void sample_metrics__ended(struct sample_metrics *sm, const struct sample_window *w, int code);
/* -1: nothing to poll. */
int sample_metrics__fd(const struct sample_metrics *sm);
/* At most max ms. */
int sample_metrics__wait_ms(const struct sample_metrics *sm, int max);
void sample_metrics__serve(struct sample_metrics *sm);
void sample_metrics__close(struct sample_metrics *sm);

#endif /* CLI_SAMPLE_METRICS_H */
