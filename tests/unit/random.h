/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Random numbers, the same ones in every run. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

#endif /* TESTS_RANDOM_H */
