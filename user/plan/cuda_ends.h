/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a call of libcudart ends that is only asked of the driver: behind the last call through a pointer, which
 * is how libcudart calls the driver (it never links to it). Judges code, places nothing.
 */
#ifndef PLAN_CUDA_ENDS_H
#define PLAN_CUDA_ENDS_H

#include "base/hashmap.h"
#include "plan/plan_build.h"

struct cuda_ends {
	struct plan_build *b;
	struct hashmap calls_out; /* address of a function -> 1: it may call through a pointer; 2: it does not */
	uint64_t *todo;
	uint32_t todo_cap;
};

void cuda_ends__init(struct cuda_ends *ce, struct plan_build *b);
void cuda_ends__free(struct cuda_ends *ce);

/*
 * The exits of the function in b->flow, or of the one that works for it, which is in b->flow then. *result:
 * at all of them eax is what the driver returned.
 */
void cuda_ends__find(struct cuda_ends *ce, struct exit_sites *ex, bool *result);

/* Marks in b->finder.work what may call the driver, of b->flow. */
void cuda_ends__mark(struct cuda_ends *ce);

#endif /* PLAN_CUDA_ENDS_H */
