/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Plans on disk, one file per set of libraries, named after their build-ids. Only a file that root
 * owns and nobody else can write is believed, and only as far as every index and length fits.
 */
#ifndef PLAN_PLAN_CACHE_H
#define PLAN_PLAN_CACHE_H

#include "plan/lib_plan.h"

#define PLAN_CACHE_DIR "/var/cache/ptbpf"

/* 0: *out is the cached plan; -ENOENT or another negative errno: there is none to use. */
int plan_cache__read(const struct torch_proc *tp, const char *dir, struct torch_plan **out);
/* Failure is of no consequence: the plan is made again next time. */
void plan_cache__write(const struct torch_proc *tp, const char *dir, const struct torch_plan *plan);

#endif /* PLAN_PLAN_CACHE_H */
