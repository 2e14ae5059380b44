/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What this kernel and this process may do, each by trying it (not by version). Rows for `doctor` and
 * for the sentence that `attach` prints when it cannot start.
 */
#ifndef PROBE_KERN_FEATURES_H
#define PROBE_KERN_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

enum feature_state { FEATURE_YES, FEATURE_NO, FEATURE_UNKNOWN };

struct feature {
	const char *title; /* "uprobe_multi links" */
	bool needed;       /* without it attach cannot work (else: slower, or less) */
	enum feature_state (*check)(char *detail, size_t cap); /* detail: one line for the user */
	const char *hint;                                      /* the one action that fixes a NO */
};

extern const struct feature kern_features[];
extern const size_t kern_feature_cnt;

/* First needed feature that is missing, or NULL; detail as above. */
const struct feature *kern_features__blocker(char *detail, size_t cap);
/* The same for what arguments of operators and Python stacks need beside. */
const struct feature *kern_features__args_blocker(char *detail, size_t cap);

#endif /* PROBE_KERN_FEATURES_H */
