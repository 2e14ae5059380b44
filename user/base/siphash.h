/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * SipHash-1-3 (Aumasson, Bernstein: SipHash, a fast short-input PRF) under a key that the process draws at
 * random when it first needs one: who makes a file cannot know which of its keys will collide. Results
 * differ from run to run; nothing that is written may depend on them.
 */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash__bytes(const void *data, size_t len);
/* The function itself, under a given key: for its test. */
uint64_t siphash__keyed(const uint64_t key[2], const void *data, size_t len);

#endif /* BASE_SIPHASH_H */
