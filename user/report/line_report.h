/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* `report --by line` and `--by module`: what operators did, by the line of Python that called them or by the nn.Module that they ran in;
 * of samples `--by operator`; as text or JSON. */
#ifndef REPORT_LINE_REPORT_H
#define REPORT_LINE_REPORT_H

#include "report/report_out.h"

struct line_opts {
	struct report_opts report;
	const char *sort_by; /* line_report__is_sort_key(); NULL: order of first appearance */
	bool modules;        /* rows are modules, not lines; */
	bool operators;      /* or the operators that samples found open */
	bool all_lines; /* also those of libraries; else they count as the line that called them */
};

struct line_report;
struct line_report *line_report__new(const struct session *s, bool operators); /* NULL: out of memory */
void line_report__free(struct line_report *lr);
struct session_sink line_report__sink(struct line_report *lr);
bool line_report__is_sort_key(const char *key);
/* After the run. 0 or negative errno. */
int line_report__print(struct line_report *lr, struct session_totals *totals,
		       const struct line_opts *opts, FILE *out);

#endif /* REPORT_LINE_REPORT_H */
