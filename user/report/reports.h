/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The reports: a row each, of the kind of export/output.h. */
#ifndef REPORT_REPORTS_H
#define REPORT_REPORTS_H

#include "export/output.h"

extern const struct output operators_report, memory_report, gpus_report, skew_report, lines_report,
	modules_report, sampled_operators_report;

/* Does the report have such a column? */
bool report__is_sort_key(const struct output *report, const char *key);

#endif /* REPORT_REPORTS_H */
