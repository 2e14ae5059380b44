/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of the reader share: the open file and a walk over its blocks. */
#ifndef CAPTURE_CAPTURE_PRIV_H
#define CAPTURE_CAPTURE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "capture/capture.h"
#include "capture/capture_format.h"

struct capture_reader {
	/* NULL: a file; else nothing of the following but counts */
	const struct capture_join *join;
	int fd;
	char *path;
	uint64_t first_block; /* file offset */
	uint64_t valid_end;   /* end of the last whole valid block that is read */
	uint64_t file_sz;
	bool sealed;
	uint64_t bad_records;
	bool oldest_known; /* RING blocks say how old their oldest record is */
	uint64_t *oldest;  /* by number of blocks before: time of the oldest record from there on */
	uint32_t oldest_cnt, oldest_cap;
	uint64_t late;
	ZSTD_DCtx *zstd;
	uint8_t *stored; /* CAPTURE_STORED_MAX: a payload as in the file */
	uint8_t *raw;    /* CAPTURE_RAW_MAX: its records */
};

/*
 * Reads the block at *pos and moves *pos behind it. 1: a block, 0: end of the valid part, negative
 * errno. With `limit` UINT64_MAX the checksums are what marks the end; later walks stop at
 * valid_end.
 */
int capture_reader__next_block(struct capture_reader *cr, uint64_t *pos, uint64_t limit,
			       struct capture_block_hdr *h);

/* The records of the block just read: *raw points to h->raw_len bytes, aligned to 8, valid until
 * the next block. 0 or -EBADMSG. */
int capture_reader__payload(struct capture_reader *cr, const struct capture_block_hdr *h,
			    const uint8_t **raw);

/* Calls fn for each well-formed record of raw[0..len) whose kind is of the block's type; counts the
 * others in bad_records. */
int capture_reader__each(struct capture_reader *cr, uint16_t type, const uint8_t *raw, uint32_t len,
			 rec_fn fn, void *arg);

/* Of a reader of several captures: a record of one of them as one of the whole, or NULL; counts
 * bad ones. */
const struct ptb_rec_hdr *capture_reader__part_record(struct capture_reader *cr, uint32_t part,
						      const struct ptb_rec_hdr *rec);

/*
 * Blocks of a capture that is kept in memory until somebody wants it: those of definitions stay,
 * those of events go when they are older than the time that is kept, or when all take more than the
 * bytes allowed. Blocks are bytes; knows no record.
 */

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
/* Drops what is older than keep_ns at this time. */
void block_hold__expire(struct block_hold *bh, uint64_t now_ns);
void block_hold__drop(struct block_hold *bh, uint64_t until_ns); /* what is older than that */
/* From this time on nothing has gone; 0: nothing has at all. */
uint64_t block_hold__since(const struct block_hold *bh);
uint64_t block_hold__bytes(const struct block_hold *bh);
/* Definitions first, the others in the order in which they came. Ends with the first call that
 * returns non-zero, which it returns. */
int block_hold__each(const struct block_hold *bh, int (*fn)(void *arg, const struct held_block *b),
		     void *arg);

#endif /* CAPTURE_CAPTURE_PRIV_H */
