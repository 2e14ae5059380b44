/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `ptbpf why`: where a step's time goes, what costs most of it, and what to change. A document
 * (report/report.h); docs/why.md says what it means.
 */
#ifndef WHY_WHY_H
#define WHY_WHY_H

#include "export/output.h"

extern const struct output why_report;

#endif /* WHY_WHY_H */
