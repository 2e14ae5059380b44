/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Folded stacks (torch's export_stacks): a pure function of the session model. */
#ifndef EXPORT_STACKS_H
#define EXPORT_STACKS_H

#include "model/session.h"

/* torch's, and those of stack_tree.h that torch does not have. */
#define STACKS_METRICS                                                                                  \
	"self_cpu_time_total, self_cuda_time_total, self_xpu_time_total, self_privateuse1_time_total, " \
	"cpu_memory_allocated, cpu_memory_live, cuda_memory_allocated, cuda_memory_live, page_faults, " \
	"page_fault_bytes, sampled_cpu_time, sampled_wait_time"

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. Finish counts lines that the file has no
 * room for in totals. */
struct stacks;
int stacks__open(const char *path, const struct session *s, const char *metric, struct stacks **out);
struct session_sink stacks__sink(struct stacks *st);
int stacks__finish(struct stacks *st, struct session_totals *totals);
void stacks__free(struct stacks *st);

#endif /* EXPORT_STACKS_H */
