/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Is a run of bytes a record? The one place that checks a record's length against its row in
 * PTB_REC_KINDS, for the writer and the reader. Must not interpret anything else.
 */
#ifndef CAPTURE_RECORD_CHECK_H
#define CAPTURE_RECORD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptb_event.h"

/* Length of the record at p, or 0 when the bytes cannot be walked any further from here. p is aligned
 * to 8, `left` bytes are readable. */
uint32_t record__len(const void *p, size_t left);

/* Bytes of a kind's fixed part; 0: not known. */
uint32_t record__fixed_size(uint8_t kind);
/* Of a kind; some readers read what threads did, in the order of time. */
enum ptb_reader record__reader(uint8_t kind);
bool record__is_by_thread(uint8_t kind);

/* The record (whose length record__len() accepted) holds its row's fixed part and its text. Kinds that
 * are not known pass: a newer writer may have more. */
bool record__well_formed(const struct ptb_rec_hdr *rec);

/* The text of such a record; NULL, and 0, if its kind has none. */
const char *record__text(const struct ptb_rec_hdr *rec, uint32_t *len);
/* Bytes up to what follows the text. */
uint32_t record__text_end(const struct ptb_rec_hdr *rec);

#endif /* CAPTURE_RECORD_CHECK_H */
