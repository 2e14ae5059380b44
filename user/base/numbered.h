/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names with a number behind their last '#', by which programs count their steps: "ProfilerStep#12". */
#ifndef BASE_NUMBERED_H
#define BASE_NUMBERED_H

#include <stddef.h>
#include <stdint.h>

#define NUMBERED_NONE UINT64_MAX
#define NUMBERED_DIGITS 18 /* at most: so each number fits */

/* The length of the name with its '#', without the number, which is stored. No such name: len, and NUMBERED_NONE. */
static inline size_t numbered__split(const char *text, size_t len, uint64_t *number)
{
	size_t at = len;
	uint64_t v = 0;

	*number = NUMBERED_NONE;
	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	if (at == len || !at || text[at - 1] != '#' || len - at > NUMBERED_DIGITS)
		return len;
	for (size_t i = at; i < len; i++)
		v = v * 10 + (uint64_t)(text[i] - '0');
	*number = v;
	return at;
}

#endif /* BASE_NUMBERED_H */
