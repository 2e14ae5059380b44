/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where a test's jsonw writes: one text that the test reads. Set out_len to 0 before a new one. */
#ifndef TESTS_TEXT_OUT_H
#define TESTS_TEXT_OUT_H

#include <errno.h>
#include <string.h>

static char out[1 << 20];
static size_t out_len;

static int to_out(void *arg, const void *data, size_t len)
{
	(void)arg;
	if (len >= sizeof(out) - out_len)
		return -ENOSPC;
	memcpy(out + out_len, data, len);
	out_len += len;
	out[out_len] = '\0';
	return 0;
}

#endif /* TESTS_TEXT_OUT_H */
