/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* `ptbpf report --memory`: what memory was used for. */
#ifndef REPORT_MEM_REPORT_H
#define REPORT_MEM_REPORT_H

#include "report/report_out.h"

struct mem_report;
struct mem_report *mem_report__new(const struct session *s); /* NULL: out of memory */
struct session_sink mem_report__sink(struct mem_report *mr);
/* After the run. 0 or negative errno, logged. */
int mem_report__print(struct mem_report *mr, struct session_totals *totals,
		      const struct report_opts *opts, FILE *out);
void mem_report__free(struct mem_report *mr);

#endif /* REPORT_MEM_REPORT_H */
