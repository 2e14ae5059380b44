/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is missing: one place for the summary line, the trace's account and the exit code. */
#ifndef EXPORT_LOSS_ACCOUNT_H
#define EXPORT_LOSS_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/session.h"

/* PTB_COUNTERS; the last row has no text. */
extern const struct loss_counter {
	uint32_t id;
	bool loss;
	const char *name, *text;
} loss_counters[];

/* All intervals in which records were lost. */
struct loss_intervals {
	uint64_t records, ns;
};
struct loss_intervals loss_account__intervals(const struct session_info *info);

/*
 * Refused functions that hide calls of operators. Not counted: operators of which only the end is not probed, and C++
 * functions outside of at::_ops that may dispatch some operator, but which one is not known.
 */
uint32_t loss_account__unseen_operators(const struct session_info *info);
/* What may have been open in the whole window, unseen; empty: nothing. */
struct unseen_open {
	char text[320];
};
struct unseen_open loss_account__unseen_open(const struct session_info *info,
					     const struct session_totals *t);
/* True when anything is missing that the user must know of (exit code 3); fills one sentence. */
bool loss_account__incomplete(const struct session_info *info, const struct session_totals *totals,
			      char *text, size_t cap);

#endif /* EXPORT_LOSS_ACCOUNT_H */
