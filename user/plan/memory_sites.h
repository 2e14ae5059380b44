/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The functions that report memory: the reports of torch's allocators, and the memory calls of libcudart
 * and libcuda. Only programs that record memory attach them (user/probe); the plan has them always.
 */
#ifndef PLAN_MEMORY_SITES_H
#define PLAN_MEMORY_SITES_H

#include "plan/plan_build.h"

/* Adds what b->lc has of them. 0 or negative errno. */
int memory_sites__add(struct plan_build *b);

/* cuda_sites.c: of libcudart and libcuda. */
int cuda_sites__add(struct plan_build *b);

#endif /* PLAN_MEMORY_SITES_H */
