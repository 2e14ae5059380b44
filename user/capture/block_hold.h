/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Blocks of a capture that is kept in memory until somebody wants it: those of definitions stay, those of events go when they are
 * older than the time that is kept, or when all take more than the bytes allowed. Blocks are bytes; knows no record.
 */
#ifndef CAPTURE_BLOCK_HOLD_H
#define CAPTURE_BLOCK_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_hold;

/* NULL: no memory. */
struct block_hold *block_hold__new(uint64_t keep_ns, uint64_t max_bytes);
void block_hold__free(struct block_hold *bh); /* NULL is fine */

struct held_block {
	const void *data; /* copied */
	size_t len;
	uint64_t newest_ns; /* time of its newest record, 0: it has none */
	uint16_t type;      /* the caller's */
	bool defines;       /* later blocks need it for as long as there are any */
};

/* 0; -ENOSPC: definitions would take more than half of what is allowed. */
int block_hold__put(struct block_hold *bh, const struct held_block *b);
/* Everything before this time has been put: older blocks go. */
void block_hold__round(struct block_hold *bh, uint64_t watermark_ns);
/* From this time on nothing has gone; 0: nothing has at all. */
uint64_t block_hold__since(const struct block_hold *bh);
uint64_t block_hold__bytes(const struct block_hold *bh);
/* Definitions first, the others in the order in which they came. Ends with the first call that returns non-zero, which it returns. */
int block_hold__each(const struct block_hold *bh, int (*fn)(void *arg, const struct held_block *b),
		     void *arg);

#endif /* CAPTURE_BLOCK_HOLD_H */
