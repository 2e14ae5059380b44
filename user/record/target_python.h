/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The CPython of one target: what its stacks are read with, or why they are not. */
#ifndef RECORD_TARGET_PYTHON_H
#define RECORD_TARGET_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/jsonw.h"
#include "ptb_python.h"
#include "python/interp.h"

struct targets;
struct target;

enum python_state {
	PYTHON_UNKNOWN, /* not searched for yet, or stacks are not recorded */
	PYTHON_NONE,    /* there is none in the process */
	PYTHON_READ,
	PYTHON_REFUSED,
};

struct target_python {
	enum python_state state;
	struct ptb_py_layout layout; /* READ; REFUSED: the version, if it is known */
	struct py_code_end code_end;
	uint32_t code_ends; /* as in a layout: which process of the probe set counts them */
	char why[PY_INTERP_WHY + 64]; /* REFUSED */
};

/* Finds and verifies it, which takes some time; says and counts what is refused. Not if its state is known. */
void target_python__find(struct targets *ts, struct target *t);
/*
 * The same for a process that may not be ready yet: 0; -EAGAIN: there is no Python in it, or none that runs (t->python.why);
 * -ETIMEDOUT: to find out takes too long, which is reported and counted; another negative errno.
 */
int target_python__await(struct targets *ts, struct target *t);
/* From now on stacks are recorded at the probes of process `idx` of the probe set. */
void target_python__use(struct targets *ts, struct target *t, uint32_t idx);
/* META "python", if stacks are recorded. */
void target_python__meta(const struct targets *ts);

#endif /* RECORD_TARGET_PYTHON_H */
