/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Runs the analysis in a child of ours. It walks through hundreds of megabytes of mapped library, which
 * must not count as memory of a collector that may run for hours, and a file that somebody truncates
 * meanwhile kills only the child (SIGBUS).
 */
#ifndef PLAN_PLAN_CHILD_H
#define PLAN_PLAN_CHILD_H

#include <stddef.h>
#include <stdint.h>

#include "plan/lib_plan.h"

typedef int (*plan_make_fn)(const struct torch_proc *tp, struct torch_plan *plan);

/* Lets a child call make and hands back the encoded plan (from malloc, also to be freed after an
 * error). 0 or negative errno; how the child ended is said. */
int plan_child__make(const struct torch_proc *tp, plan_make_fn make, uint8_t **image, size_t *len);

#endif /* PLAN_PLAN_CHILD_H */
