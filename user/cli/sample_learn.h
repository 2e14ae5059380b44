/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* In the process of a window: what it reads of its processes before it is to attach to them, and which of them takes too much for that. */
#ifndef CLI_SAMPLE_LEARN_H
#define CLI_SAMPLE_LEARN_H

#include "cli/sample_window.h"

/* What this process and the children that read files for it have taken. */
uint64_t sample_learn__cpu_ns(void);
/* To read or attach to the process took what was spent since then; failed: for nothing. */
void sample_learn__note(struct slow_process *slow, pid_t pid, uint64_t since_ns, bool failed);
/* Reads the libraries of the processes while there is time: what it learns is known then. */
void sample_learn__targets(const struct sample_window_spec *spec, struct slow_process *slow);

#endif /* CLI_SAMPLE_LEARN_H */
