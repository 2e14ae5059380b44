/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A Chrome trace that a test writes of a made-up session and reads again. */
#ifndef TESTS_CHROME_DOC_H
#define TESTS_CHROME_DOC_H

#include "export/chrome_trace.h"
#include "json_keys.h"

static inline struct chrome_trace *open_chrome(const char *path, const struct session *s,
					       struct session_sink *sink)
{
	struct chrome_opts opts = { .host_name = "box" };
	struct chrome_trace *ct = NULL;

	CU_ASSERT_EQUAL_FATAL(chrome_trace__open(path, s, &opts, &ct), 0);
	*sink = chrome_trace__sink(ct);
	return ct;
}

static inline cJSON *finish_chrome(struct chrome_trace *ct, struct session_totals *totals,
				   const char *path, char *raw, unsigned int cap)
{
	CU_ASSERT_EQUAL_FATAL(chrome_trace__finish(ct, totals), 0);
	chrome_trace__free(ct);
	return load_json(path, raw, cap);
}

#endif /* TESTS_CHROME_DOC_H */
