/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A Chrome trace that a test writes of a made-up session and reads again. */
#ifndef TESTS_CHROME_DOC_H
#define TESTS_CHROME_DOC_H

#include "export/output.h"
#include "json_keys.h"

static inline void *open_chrome(const char *path, const struct session *s, struct session_sink *sink)
{
	const struct output_args args = { .s = s, .path = path };
	void *ct = NULL;

	CU_ASSERT_EQUAL_FATAL(chrome_output.open(&args, &ct), 0);
	*sink = chrome_output.sink(ct);
	return ct;
}

static inline cJSON *finish_chrome(void *ct, struct session_totals *totals, const char *path,
				   char *raw, unsigned int cap)
{
	const struct output_args args = { .path = path };

	CU_ASSERT_EQUAL_FATAL(chrome_output.finish(ct, &args, totals), 0);
	chrome_output.free(ct);
	return load_json(path, raw, cap);
}

#endif /* TESTS_CHROME_DOC_H */
