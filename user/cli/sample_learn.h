/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* In the process of a window: what it reads of its processes before it is to attach to them, and which of them takes too much for that. */
#ifndef CLI_SAMPLE_LEARN_H
#define CLI_SAMPLE_LEARN_H

#include "cli/sample_window.h"

/* What this process and the children that read files for it have taken, and the time. */
struct learn_times {
	uint64_t cpu_ns, mono_ns;
};
/* From now on it reads this one. */
struct learn_times sample_learn__begin(const struct sample_window_spec *spec, pid_t pid);
/* To read or attach to the process took what was spent since then; failed: for nothing. */
void sample_learn__note(struct slow_process *slow, pid_t pid, const struct learn_times *since,
			bool failed);
/* Reads the libraries of the processes while there is time: what it learns is known then.
 * learned[i]: it has read those of process i. */
void sample_learn__targets(const struct sample_window_spec *spec, struct slow_process *slow,
			   bool *learned);

#endif /* CLI_SAMPLE_LEARN_H */
