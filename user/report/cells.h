/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers and foreign texts as reports for people print them. Knows no report. */
#ifndef REPORT_CELLS_H
#define REPORT_CELLS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CELL 48
/* Each into buf of CELL bytes, which is returned. */
const char *cell__bytes(char *buf, double v);       /* "1.5 GiB" */
const char *cell__duration(char *buf, uint64_t ns); /* "1.234 ms" */

/* The target's text, escaped (base/term_text.h), in at most `max` characters, "..." where it is cut; returns how many. */
size_t cell__put_text(FILE *out, const char *text, size_t max);

#endif /* REPORT_CELLS_H */
