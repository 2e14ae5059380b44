/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The keys that a writer of JSON gave an object. */
#ifndef TESTS_JSON_KEYS_H
#define TESTS_JSON_KEYS_H

#include <cjson/cJSON.h>
#include <stdio.h>

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

#endif /* TESTS_JSON_KEYS_H */
