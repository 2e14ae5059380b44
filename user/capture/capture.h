/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The capture file (.ptb): append-only checksummed blocks of records. Knows framing, not meaning.
 *
 * Control blocks hold records written by user space (names, plan, processes, losses, counters);
 * ring blocks hold the bytes of one ring buffer in their order; a round block says that every
 * record older than its watermark has been written, except those that later blocks announce in
 * their headers. Readable after a crash up to the last whole block. The layout is drawn in
 * capture_format.h.
 */
#ifndef CAPTURE_CAPTURE_H
#define CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptb_event.h"

struct new_file;

/* What stands under the name of a file that is being written. */
enum capture_old {
	CAPTURE_OLD_NONE,    /* nothing, or an empty file */
	CAPTURE_OLD_CAPTURE, /* a capture, which only another capture may replace */
	CAPTURE_OLD_OTHER,   /* something else, or it cannot be read */
};
enum capture_old capture__old(const struct new_file *nf);

/* ---- writing ---- */
struct capture_writer;

/* Begins a file that will replace `path` when it is closed (base/new_file.h). -EEXIST: what stands
 * there is neither empty nor a capture. Until then `path` is as it was, and the blocks written so
 * far can be read at the partial name, also after a crash. "": it is in memory only. */
int capture_writer__open(const char *path, struct capture_writer **out);
/* Appends one user-space record (control stream). Bytes are copied. */
int capture_writer__control(struct capture_writer *cw, const struct ptb_rec_hdr *rec);
/* Appends records of one ring; whole records only. */
int capture_writer__ring(struct capture_writer *cw, uint32_t ring, const void *recs, uint32_t len);
/*
 * From now on nothing is written: what is appended is held in memory. What is older than keep_ns
 * goes with capture_writer__expire(), the oldest when all takes more than max_bytes. So only what
 * follows is to be in the control stream for good: definitions. 0 or negative errno.
 */
int capture_writer__hold(struct capture_writer *cw, uint64_t keep_ns, uint64_t max_bytes);
void capture_writer__expire(struct capture_writer *cw, uint64_t now_ns);
/* What is older goes, whatever keep_ns. */
void capture_writer__drop(struct capture_writer *cw, uint64_t until_ns);
/* A control record that is of no use without the ring records of its time, with which it is
 * dropped. */
int capture_writer__passing(struct capture_writer *cw, const struct ptb_rec_hdr *rec);
/* A ring record that later ones refer to: it is not dropped. */
int capture_writer__lasting(struct capture_writer *cw, const struct ptb_rec_hdr *rec);
/* Writes what is held; from then on everything is. *since_ns: all records from this time on are
 * there, 0: all are. `first`, which may be NULL, is called with it and adds records that come
 * before. Returns the first write error. */
int capture_writer__release(struct capture_writer *cw, uint64_t *since_ns,
			    void (*first)(void *arg, uint64_t since_ns), void *arg);
/* Another capture, in memory, with all that this one has, which goes on holding it. Records can be
 * added before it is closed. 0 or negative errno (logged). */
int capture_writer__copy(struct capture_writer *cw, struct capture_writer **out);
/* Ends a drain round: all records with ts < watermark_ns are in. Flushes blocks that are full
 * enough. */
int capture_writer__round(struct capture_writer *cw, uint64_t watermark_ns);
/* Writes everything out (not fsync). After a write error further calls return the first error,
 * count what they drop, and what is in the file stays valid. When the disk is full, ring records
 * are dropped so, while there is room for the control records that end the file (about 64 KiB of it
 * is kept, where the file system can). */
int capture_writer__flush(struct capture_writer *cw);
/* Another descriptor of the file, for capture_reader__open() once it is closed: its name may be
 * another file's by then. The caller's, or negative errno. */
int capture_writer__dup(const struct capture_writer *cw);
/* Were ring records dropped because they could not be written? All those before *covered_ns are in
 * the file. */
bool capture_writer__cut(const struct capture_writer *cw, uint64_t *covered_ns);
uint64_t capture_writer__bytes(const struct capture_writer *cw); /* in the file so far */
/* records not written after an error */
uint64_t capture_writer__dropped(const struct capture_writer *cw);
/* Seals (end block), closes, gives the file its name. NULL is fine. Returns 0; the first write
 * error, negative: the file has its name and holds every complete block; CAPTURE_UNNAMED: a message
 * said why it could not have its name, and where it is. */
#define CAPTURE_UNNAMED 1
int capture_writer__close(struct capture_writer *cw);
/* Removes what was written; `path` is as it was. NULL is fine. */
void capture_writer__discard(struct capture_writer *cw);

/* ---- reading ---- */
struct capture_reader;

/* Opens a file that may be one: its descriptor, or negative errno with a sentence logged. */
int capture__open(const char *path);
/* Reads the open file, which it takes, also when it fails; fd may be the answer of capture__open().
 * 0, or negative errno with a sentence logged: not a capture, other version, unreadable. */
int capture_reader__open(const char *path, int fd, struct capture_reader **out);
void capture_reader__close(struct capture_reader *cr);

/* false: the writer died or is alive */
bool capture_reader__sealed(const struct capture_reader *cr);
/* bytes at the end that were cut off */
uint64_t capture_reader__skipped(const struct capture_reader *cr);
uint64_t capture_reader__bytes(const struct capture_reader *cr); /* of the file, as opened */
/* Malformed records that the last control(), stream() or scan() skipped. */
uint64_t capture_reader__bad_records(const struct capture_reader *cr);
/* Records that the last stream() emitted after later ones: more came between than it may hold. */
uint64_t capture_reader__late(const struct capture_reader *cr);

/* Calls fn for each control record, in file order. Stops when fn returns non-zero; returns that. */
typedef int (*rec_fn)(void *arg, const struct ptb_rec_hdr *rec);
int capture_reader__control(struct capture_reader *cr, rec_fn fn, void *arg);

/* Calls fn for each ring record in time order over all rings (ties: ring, then position). Memory is
 * bounded (capture_merge.c). Restarts from the beginning at each call. */
int capture_reader__stream(struct capture_reader *cr, rec_fn fn, void *arg);

/* Calls fn for each ring record in file order, which is cheaper than time order. */
int capture_reader__scan(struct capture_reader *cr, rec_fn fn, void *arg);

/* Several captures read as one, by a reader of its own; what their records are in it others know
 * (ranks/join.h). */
struct capture_join {
	struct capture_reader *const *parts;
	uint32_t cnt;
	void *arg;
	/* Calls fn for each control record of the whole; capture_reader__control(). */
	int (*control)(void *arg, rec_fn fn, void *fn_arg, uint64_t *bad_records);
	/* A ring record of a part as one of the whole, valid until the next call. NULL: it has
	 * no place there, or is *bad. */
	const struct ptb_rec_hdr *(*record)(void *arg, uint32_t part, const struct ptb_rec_hdr *rec,
					    bool *bad);
	/* A time of a part as one of the whole; UINT64_MAX is none, and stays. */
	uint64_t (*time)(void *arg, uint32_t part, uint64_t ns);
};
/* Join and parts must outlive the reader. */
void capture_reader__join(const struct capture_join *join, struct capture_reader **out);
bool capture_reader__is_joined(const struct capture_reader *cr);

/*
 * Is a run of bytes a record? The one place that checks a record's length against its row in
 * PTB_REC_KINDS, for the writer and the reader. Must not interpret anything else.
 */

/* Length of the record at p, or 0 when the bytes cannot be walked any further from here. p is
 * aligned to 8, `left` bytes are readable. */
uint32_t record__len(const void *p, size_t left);

/* Bytes of a kind's fixed part; 0: not known. */
uint32_t record__fixed_size(uint8_t kind);
/* Of a kind; some readers read what threads did, in the order of time. */
enum ptb_reader record__reader(uint8_t kind);
bool record__is_by_thread(uint8_t kind);

/* The record (whose length record__len() accepted) holds its row's fixed part and its text. Kinds
 * that are not known pass: a newer writer may have more. */
bool record__well_formed(const struct ptb_rec_hdr *rec);

/* The text of such a record; NULL, and 0, if its kind has none. */
const char *record__text(const struct ptb_rec_hdr *rec, uint32_t *len);
/* Bytes up to what follows the text. */
uint32_t record__text_end(const struct ptb_rec_hdr *rec);

#endif /* CAPTURE_CAPTURE_H */
