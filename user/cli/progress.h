/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* attach --progress-fd: lines of JSON for the program that started it (schemas/formats/progress.schema.json). */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

#include "cli/opts.h"
#include "cli/outputs.h"
#include "record/run.h"

struct progress {
	int fd; /* 0: nobody reads */
};

/* The descriptor of an option's value, 0: none. It is not passed on to other programs. 0 or -EINVAL (reported). */
int progress__open(struct progress *p, int fd);
/* The probes are in place, which took so long. */
void progress__attached(const struct progress *p, struct run *run, uint64_t took_ns);
/* The window begins. */
void progress__begun(const struct progress *p, struct run *run);
/* Nothing is attached any more. capture: NULL: there is none. */
void progress__sealed(const struct progress *p, struct run *run, const struct pid_list *pids,
		      const char *capture);
/* Nothing follows. r: what was exported; NULL: nothing. */
void progress__done(const struct progress *p, int code, const struct outputs_result *r);

#endif /* CLI_PROGRESS_H */
