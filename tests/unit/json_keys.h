/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Access to JSON that was written; a key must exist and have its type, or the test ends. */
#ifndef TESTS_JSON_KEYS_H
#define TESTS_JSON_KEYS_H

#include <CUnit/CUnit.h>
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

/* Keys of an object in order, "a,b,c"; until the next call. */
static inline const char *keys(const cJSON *o)
{
	static char list[512];
	const cJSON *v;
	size_t n = 0;

	list[0] = '\0';
	cJSON_ArrayForEach(v, o)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? "," : "", v->string);
	return list;
}

static inline const cJSON *get(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	if (!v)
		fprintf(stderr, "no \"%s\"\n", key);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	return v;
}

static inline bool has(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

static inline double num(const cJSON *o, const char *key)
{
	CU_ASSERT_TRUE_FATAL(cJSON_IsNumber(get(o, key)));
	return get(o, key)->valuedouble;
}

static inline const char *str(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(get(o, key));

	CU_ASSERT_PTR_NOT_NULL_FATAL(s);
	return s;
}

/* The document in a file, compressed or not; its text stays in `raw`. */
static inline cJSON *load_json(const char *path, char *raw, unsigned int cap)
{
	gzFile gz = gzopen(path, "rb");
	cJSON *doc;
	int n;

	CU_ASSERT_PTR_NOT_NULL_FATAL(gz);
	n = gzread(gz, raw, cap - 1);
	CU_ASSERT_FATAL(n > 0);
	raw[n] = '\0';
	CU_ASSERT_EQUAL(gzclose(gz), Z_OK);
	doc = cJSON_Parse(raw);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	return doc;
}

#endif /* TESTS_JSON_KEYS_H */
