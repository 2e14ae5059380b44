/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Runs the analysis of a process's libraries in a child without privileges (base/sandbox.h): the files are
 * their owner's work, and the hundreds of megabytes that it walks through must not count as memory of a
 * collector that may run for hours.
 */
#ifndef PLAN_PLAN_CHILD_H
#define PLAN_PLAN_CHILD_H

#include <stddef.h>
#include <stdint.h>

#include "plan/lib_plan.h"

/* Reads the libraries through their fd; it can open no file. */
typedef int (*plan_make_fn)(const struct torch_lib *libs, struct torch_plan *plan);

/* Lets a child call make and returns the encoded plan, which may be anything: plan_cache__decode() checks it.
 * *image is from malloc. 0; -ECANCELED: a signal is pending; another negative errno (logged by the child, or by
 * sandbox__run). */
int plan_child__make(const struct torch_lib *libs, plan_make_fn make, uint8_t **image, size_t *len);

#endif /* PLAN_PLAN_CHILD_H */
