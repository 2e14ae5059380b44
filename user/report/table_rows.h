/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Order and numbers of the table's rows, shared by the text and the JSON form. Private to table*.c. */
#ifndef REPORT_TABLE_ROWS_H
#define REPORT_TABLE_ROWS_H

#include "report/table.h"

/* Rows in the order of opts->sort_by (descending, stable); malloc'ed, NULL on out of memory. */
const struct ka_row **table_rows__sorted(const struct ka_row *rows, uint32_t cnt,
					 const struct table_opts *opts);
/* How many of cnt rows are shown. */
uint32_t table_rows__shown(uint32_t cnt, const struct table_opts *opts);
/* Microseconds as torch holds them: ns / 1000 as a double. */
double table_rows__us(uint64_t ns);
/* What shares are of, us, added in the given order as torch adds it (its rounding is the order's). */
struct table_sums {
	double self_cpu;
	double device; /* of GPU work itself: not of the operators that launched it, nor of annotations */
};
struct table_sums table_rows__sums(const struct ka_row *const *rows, uint32_t cnt);

#endif /* REPORT_TABLE_ROWS_H */
