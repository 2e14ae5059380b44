/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between the state machine of thinned windows (sample/thin.h), the options of a recording, and what a window has cost. */
#ifndef CLI_SAMPLE_THIN_H
#define CLI_SAMPLE_THIN_H

#include "cli/live.h"
#include "sample/thin.h"

struct recorder;
struct sample_window;

/* Nothing is known of the costs of these options yet. */
void sample_thin__reset(struct thin *t, const struct run_cfg *cfg);
/* thin__next(), with a message when that is another level. */
enum thin_level sample_thin__next(struct thin *t, uint64_t nr, double allowed_ns, uint64_t window_ns);
/* A window has ended. */
void sample_thin__learn(struct thin *t, const struct sample_window *w);
/* In a window's process: leaves out what the level leaves out. 0 or negative errno (reported). */
int sample_thin__apply(enum thin_level level, struct run_cfg *cfg);
void sample_thin__meta(enum thin_level level, struct recorder *rec);

#endif /* CLI_SAMPLE_THIN_H */
