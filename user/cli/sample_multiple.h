/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A window that begins with a step whose number is a multiple of another (ptbpf trigger --start-step-multiple), in the process of the window. First
 * only annotations are probed, until that step is near; then all that the window records, in a warm-up.
 */
#ifndef CLI_SAMPLE_MULTIPLE_H
#define CLI_SAMPLE_MULTIPLE_H

#include "base/jsonw.h"
#include "cli/live.h"
#include "record/step_count.h"
#include "sample/step_multiple.h"

struct sample_window;
struct sample_window_spec;

/* What the process of the window reports of it. */
struct sample_multiple_report {
	uint64_t planned, began; /* steps, 0: not known, not begun */
	enum step_multiple_failure failure;
};

struct sample_multiple {
	const struct sample_window_spec *spec;
	struct step_hooks hooks;
	struct step_multiple sm;
	bool near;
	uint64_t cost_ns; /* of the first part */
	struct sample_multiple_report report;
};

/* Why windows of this kind have no numbers of steps, NULL: they may have. */
const char *sample_multiple__excluded(const struct run_cfg *cfg);
void sample_multiple__init(struct sample_multiple *m, const struct sample_window_spec *spec);
/* The first part: until the step is near. False: it never will be, or a signal came. */
bool sample_multiple__await(struct sample_multiple *m);
/* The second: what the recording counts. */
void sample_multiple__opts(struct sample_multiple *m, struct run_cfg *cfg);
/* In each round of its loop, after run__warm_up(). True: the window has begun. */
bool sample_multiple__tick(struct sample_multiple *m, struct run *run);

/* The key "step" of the window's line in the log, for one of this kind. */
void sample_multiple__put(struct jsonw *j, const struct sample_window *w);

#endif /* CLI_SAMPLE_MULTIPLE_H */
