/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* `ptbpf report --skew`: which rank the others wait for, since when, and for what. */
#ifndef REPORT_SKEW_REPORT_H
#define REPORT_SKEW_REPORT_H

#include "ranks/rank_times.h"
#include "report/report_out.h"

/* After rank_times__finish(). 0 or negative errno, logged; -ENODATA: there are no two ranks to compare. */
int skew_report__print(const struct session *s, const struct rank_times_result *r,
		       struct session_totals *totals, const struct report_opts *opts, FILE *out);

#endif /* REPORT_SKEW_REPORT_H */
