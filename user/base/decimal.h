/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Integers as decimal text, without printf(): a trace has millions of them. Nothing is NUL-terminated. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DECIMAL_MAX 20 /* digits of a 64-bit integer, with its sign */

/* The digits of v, so that they stop before `end`; returns the first. */
static inline char *decimal__u64(uint64_t v, char *end)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return end;
}

/* v at buf; returns its length. */
static inline size_t decimal__i64(char *buf, int64_t v)
{
	char tmp[DECIMAL_MAX], *end = tmp + sizeof(tmp);
	char *p = decimal__u64(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, end);

	if (v < 0)
		*--p = '-';
	memcpy(buf, p, (size_t)(end - p));
	return (size_t)(end - p);
}

/* "2, 3" */
static inline size_t decimal__i64s(char *buf, const int64_t *v, uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (i) {
			memcpy(buf + len, ", ", 2);
			len += 2;
		}
		len += decimal__i64(buf + len, v[i]);
	}
	return len;
}

#endif /* BASE_DECIMAL_H */
