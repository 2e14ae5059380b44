/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names with a number behind their last '#', by which programs count their steps: "ProfilerStep#12". */
#ifndef BASE_NUMBERED_H
#define BASE_NUMBERED_H

#include <stddef.h>

#define NUMBERED_DIGITS 18 /* at most */

/* The length of the name with its '#', without the number. No such name: len. */
static inline size_t numbered__prefix(const char *text, size_t len)
{
	size_t at = len;

	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	if (at == len || !at || text[at - 1] != '#' || len - at > NUMBERED_DIGITS)
		return len;
	return at;
}

#endif /* BASE_NUMBERED_H */
