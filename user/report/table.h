/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of operators, as torch.profiler's key_averages().table() prints it. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include "model/key_averages.h"
#include "report/report_out.h"

struct table_opts {
	const char *sort_by; /* NULL: order of first appearance; of TABLE_SORT_KEYS */
	int row_limit;       /* -1: all */
	bool profile_memory; /* the columns of memory */
	bool device_time;    /* the columns of GPU time */
	bool by_stack;       /* rows are by Python's frames, too */
};

/* Attributes of torch's FunctionEventAvg. */
#define TABLE_SORT_KEYS                                                                            \
	"self_cpu_time_total, cpu_time_total, cpu_time, self_cuda_time_total, cuda_time_total, "   \
	"cuda_time, self_device_time_total, device_time_total, device_time, count, key, flops, "   \
	"cpu_memory_usage, self_cpu_memory_usage, cuda_memory_usage, self_cuda_memory_usage, "     \
	"device_memory_usage, self_device_memory_usage"
bool table__is_sort_key(const char *key);
int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts, FILE *out);
/* For machines: an object with rows, window, loss account and totals. */
int table__print_json(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		      const struct session *s, struct session_totals *totals, FILE *out);

#endif /* REPORT_TABLE_H */
