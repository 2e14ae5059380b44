/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `ptbpf diff`: two captures of programs that step. How much longer a step of the second one takes,
 * how sure that is, and what accounts for it. docs/diff.md says what the figures mean.
 */
#ifndef DIFF_DIFF_H
#define DIFF_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "export/output.h"

enum diff_verdict { DIFF_SLOWER, DIFF_FASTER, DIFF_SAME, DIFF_INCONCLUSIVE, DIFF_NOT_COMPARABLE };

struct diff_args {
	const struct output_args *out; /* json, columns, row_limit */
	struct session *s[2];          /* before, after */
	const char *names[2];          /* of the captures */
	bool markdown;
	double fail_above; /* a share; negative: not asked for */
};

struct diff_answer {
	bool fails;     /* slower than fail_above, at the stated confidence */
	bool undecided; /* too few steps to say so, or not comparable */
	bool incomplete;
	char said[1024]; /* why it fails, or is undecided or incomplete */
};

/* Reads both and prints. 0 or negative errno, logged. */
int diff__print(const struct diff_args *args, struct diff_answer *answer);

#endif /* DIFF_DIFF_H */
