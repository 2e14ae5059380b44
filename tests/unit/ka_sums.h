/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rows that a pass over a session gives; for tests of key_averages. */
#ifndef TESTS_KA_SUMS_H
#define TESTS_KA_SUMS_H

#include <CUnit/CUnit.h>
#include <string.h>

#include "model/key_averages.h"

struct sums {
	struct key_averages *ka;
	const struct ka_row *rows;
	uint32_t cnt;
};

/* key_averages__free(ka) when done. */
static inline struct sums sum_opts(struct session *s, const struct ka_opts *opts)
{
	struct sums r = { .ka = key_averages__new(opts) };
	struct session_sink sink = key_averages__sink(r.ka);
	struct session_totals totals;

	CU_ASSERT_EQUAL_FATAL(session__run(s, &sink, 1, &totals), 0);
	r.rows = key_averages__rows(r.ka, &r.cnt);
	return r;
}

/* NULL: there is none. */
static inline const struct ka_row *row(const struct sums *r, const char *key)
{
	for (uint32_t i = 0; i < r->cnt; i++)
		if (!strcmp(r->rows[i].key, key))
			return &r->rows[i];
	return NULL;
}

#endif /* TESTS_KA_SUMS_H */
