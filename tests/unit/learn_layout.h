/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A plan's layout alone, without its sites: a second instead of ten. */
#ifndef TESTS_LEARN_LAYOUT_H
#define TESTS_LEARN_LAYOUT_H

#include "plan/plan.h"
#include "torch_env.h"

/* Learns from these files, by enum torch_lib_role; NULL: that library is missing. */
void learn_layout__files(struct torch_plan *plan, const char *const *paths);
/* From the libraries of an environment, which are read once in a process; plan is the caller's to change. */
void learn_layout__env(struct torch_plan *plan, const struct torch_env *env);

#endif /* TESTS_LEARN_LAYOUT_H */
