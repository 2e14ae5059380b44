/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Appends records to a capture file as checksummed, compressed blocks. Owns the output file and one
 * buffer per ring; must not know what a record means.
 *
 * A round block promises that everything older than its watermark stands before it, so it is
 * written only right after all buffers were written. That happens when a round ends and either
 * CAPTURE_BLOCK_SZ bytes have come since the last one or a second has passed, which bounds both
 * what a killed collector loses and what a reader must hold to sort.
 */
#include "capture/capture.h"

#define LOG_DOMAIN "capture_writer"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "capture/capture_format.h"
#include "capture/capture_priv.h"

#define ZSTD_LEVEL 1
#define FLUSH_NS 1000000000ULL
#define RING_MAX 65536 /* more CPUs than any kernel has */
/* Room on the disk that is kept for the last control records (names, counters, the window's end),
 * compressed. */
#define TAIL_SZ (64u * 1024)
#define RESERVE_STEP (1u << 20)

struct block_buf {
	uint8_t *data; /* CAPTURE_BLOCK_SZ, from the first record on */
	uint32_t len;
	uint32_t rec_cnt;
	uint64_t oldest_ns, newest_ns; /* of its records */
};

struct capture_writer {
	struct new_file *nf;
	int fd; /* of nf */
	char *path;
	int err;  /* first write error; nothing is written after it */
	int full; /* -ENOSPC, -EDQUOT: no room for more ring blocks, only for what ends the file */
	uint64_t file_sz;
	uint64_t reserved; /* the file system keeps room up to this offset */
	bool no_reserve;
	uint64_t covered_ns; /* watermark of the last round block in the file */
	uint64_t dropped;
	struct block_hold *hold; /* blocks go there, NULL: into the file */
	struct block_buf control;
	struct block_buf passing,
		/* control records that do not last, and ring records that do: while blocks are
		 * held */
		lasting;
	struct block_buf *rings;
	uint32_t ring_cnt, ring_cap;
	uint64_t since_round; /* ring bytes that came after the last round block */
	uint64_t watermark_ns;
	uint64_t last_flush_ns;
	ZSTD_CCtx *zstd;
	uint8_t *out; /* one block, header first */
	size_t out_cap;
};

/* ---- opening ---- */

enum capture_old capture__old(const struct new_file *nf)
{
	uint8_t magic[sizeof(((struct capture_file_hdr *)0)->magic)];
	enum capture_old old = CAPTURE_OLD_OTHER;
	int fd = new_file__old(nf);
	struct stat st;

	if (fd < 0)
		return fd == -ENOENT ? CAPTURE_OLD_NONE : CAPTURE_OLD_OTHER;
	if (!fstat(fd, &st) && !st.st_size)
		old = CAPTURE_OLD_NONE;
	else if (pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
		 !memcmp(magic, CAPTURE_MAGIC, sizeof(magic)))
		old = CAPTURE_OLD_CAPTURE;
	close(fd);
	return old;
}

static int write_file_hdr(struct capture_writer *cw)
{
	struct capture_file_hdr h = { .major = CAPTURE_MAJOR,
				      .minor = CAPTURE_MINOR,
				      .header_sz = sizeof(h),
				      .created_ns = clock__pair().real_ns };
	int err;

	memcpy(h.magic, CAPTURE_MAGIC, sizeof(h.magic));
	h.crc = (uint32_t)crc32(0, (const Bytef *)&h, offsetof(struct capture_file_hdr, crc));
	err = new_file__write(new_file__fd(cw->nf), &h, sizeof(h));
	if (!err)
		cw->file_sz = sizeof(h);
	return err;
}

static void writer_free(struct capture_writer *cw)
{
	new_file__free(cw->nf);
	block_hold__free(cw->hold);
	for (uint32_t i = 0; i < cw->ring_cnt; i++)
		free(cw->rings[i].data);
	free(cw->rings);
	free(cw->control.data);
	free(cw->passing.data);
	free(cw->lasting.data);
	ZSTD_freeCCtx(cw->zstd);
	free(cw->out);
	free(cw->path);
	free(cw);
}

int capture_writer__open(const char *path, struct capture_writer **out)
{
	struct capture_writer *cw = xcalloc(1, sizeof(*cw));
	int err;

	cw->fd = -1;
	cw->out_cap = sizeof(struct capture_block_hdr) + ZSTD_compressBound(CAPTURE_BLOCK_SZ);
	cw->path = xstrdup(path);
	cw->zstd = mem__check(ZSTD_createCCtx());
	cw->out = xmalloc(cw->out_cap);
	err = new_file__open(path, *path ? NEW_FILE_REGULAR : NEW_FILE_MEMORY, &cw->nf);
	if (err) {
		writer_free(cw);
		return err;
	}
	new_file__is_readable(cw->nf);
	cw->fd = new_file__fd(cw->nf);
	err = capture__old(cw->nf) == CAPTURE_OLD_OTHER ? -EEXIST : write_file_hdr(cw);
	if (err)
		goto fail;
	cw->last_flush_ns = clock__mono_ns();
	*out = cw;
	return 0;
fail:
	if (err == -EEXIST)
		pr_error("%s exists and is not a capture of ptbpf; it is not replaced", path);
	else
		pr_error("cannot create the capture %s: %s", path, errstr(err));
	writer_free(cw);
	return err;
}

/* ---- blocks ---- */

static int reserve_disk(struct capture_writer *cw, uint64_t need)
{
	if (fallocate(cw->fd, FALLOC_FL_KEEP_SIZE, (off_t)cw->file_sz, (off_t)need))
		return -errno;
	cw->reserved = cw->file_sz + need;
	return 0;
}

/*
 * Room for `len` bytes and the tail behind them, so that a full disk is noticed while the file can
 * still be brought to an end. -ENOSPC or -EDQUOT: there is none. A file system that reserves
 * nothing says so when it is written to.
 */
static int make_room(struct capture_writer *cw, uint64_t len)
{
	int err;

	if (cw->no_reserve || cw->file_sz + len + TAIL_SZ <= cw->reserved)
		return 0;
	err = reserve_disk(cw, len + TAIL_SZ + RESERVE_STEP);
	if (err == -ENOSPC || err == -EDQUOT)
		err = reserve_disk(cw, len + TAIL_SZ);
	if (err == -EOPNOTSUPP || err == -ENOSYS)
		cw->no_reserve = true;
	return err == -ENOSPC || err == -EDQUOT ? err : 0;
}

/* Gives back what was reserved beyond the end of the file. */
static void drop_reserve(struct capture_writer *cw)
{
	if (cw->reserved <= cw->file_sz)
		return;
	/* some file systems do it for one of these only */
	if (ftruncate(cw->fd, (off_t)cw->file_sz) ||
	    fallocate(cw->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)cw->file_sz,
		      (off_t)(cw->reserved - cw->file_sz)))
		pr_debug("%s: %s", cw->path, errstr(errno));
	cw->reserved = 0;
}

/* False: a full disk has no room for blocks of this type. */
static bool has_room(struct capture_writer *cw, uint16_t type, uint64_t len)
{
	if (!cw->full) {
		cw->full = make_room(cw, len);
		if (cw->full)
			pr_error("cannot extend the capture %s: %s", cw->path, errstr(cw->full));
	}
	return !cw->full || type == CAPTURE_CONTROL || type == CAPTURE_END;
}

/*
 * After a failure the file is cut back to its last whole block, so that what was written stays
 * readable, and the writer stays in that error.
 */
static int write_block(struct capture_writer *cw, uint16_t type, const void *block, size_t len)
{
	int err;

	if (!has_room(cw, type, len))
		return cw->full;
	err = new_file__write(new_file__fd(cw->nf), block, len);
	if (!err) {
		cw->file_sz += len;
		return 0;
	}
	pr_error("cannot write the capture %s: %s; the part already written is readable", cw->path,
		 errstr(err));
	cw->err = err;
	if (ftruncate(cw->fd, (off_t)cw->file_sz))
		pr_warn("cannot truncate %s to its last complete block: %s", cw->path,
			errstr(errno));
	return err;
}

/* Of the ring, or of the control stream; of what is held, the records of b say how long it is. */
static int put_block(struct capture_writer *cw, struct capture_block_hdr *h,
		     const struct block_buf *b)
{
	const uint8_t *raw = b ? b->data : NULL;
	uint8_t *payload = cw->out + sizeof(*h);
	size_t sz = 0;

	if (cw->err)
		return cw->err;
	if (h->raw_len) {
		sz = ZSTD_compressCCtx(cw->zstd, payload, cw->out_cap - sizeof(*h), raw, h->raw_len,
				       ZSTD_LEVEL);
		if (ZSTD_isError(sz) || sz >= h->raw_len) {
			sz = h->raw_len;
			memcpy(payload, raw, sz);
		} else {
			h->flags |= CAPTURE_BLOCK_ZSTD;
		}
	}
	h->magic = CAPTURE_BLOCK_MAGIC;
	h->stored_len = (uint32_t)sz;
	h->payload_crc = (uint32_t)crc32(0, payload, (uInt)sz);
	h->header_crc = (uint32_t)crc32(0, (const Bytef *)h,
					offsetof(struct capture_block_hdr, header_crc));
	memcpy(cw->out, h, sizeof(*h));
	if (cw->hold)
		return block_hold__put(cw->hold,
				       &(struct held_block){ .data = cw->out,
							     .len = sizeof(*h) + sz,
							     .newest_ns = b ? b->newest_ns : 0,
							     .type = h->type,
							     .defines = b == &cw->control ||
									b == &cw->lasting });
	return write_block(cw, h->type, cw->out, sizeof(*h) + sz);
}

static int flush_buf(struct capture_writer *cw, struct block_buf *b, uint16_t type, uint32_t ring)
{
	struct capture_block_hdr h = {
		.type = type, .ring = ring, .raw_len = b->len, .rec_cnt = b->rec_cnt
	};
	int err;

	if (type == CAPTURE_RING)
		h.oldest_ns = b->oldest_ns;

	if (!b->len)
		return cw->err;
	err = put_block(cw, &h, b);
	if (err)
		cw->dropped += b->rec_cnt;
	b->len = 0;
	b->rec_cnt = 0;
	b->newest_ns = 0;
	/* definitions have their share: everything else goes on */
	return err == -ENOSPC && cw->hold ? 0 : err;
}

/* Everything that is buffered, then the round block that vouches for it. */
static int flush_all(struct capture_writer *cw)
{
	struct capture_block_hdr round = { .type = CAPTURE_ROUND,
					   .watermark_ns = cw->watermark_ns };

	flush_buf(cw, &cw->control, CAPTURE_CONTROL, 0);
	flush_buf(cw, &cw->passing, CAPTURE_CONTROL, 0);
	flush_buf(cw, &cw->lasting, CAPTURE_RING, 0);
	for (uint32_t i = 0; i < cw->ring_cnt; i++)
		flush_buf(cw, &cw->rings[i], CAPTURE_RING, i);
	if (!cw->err && cw->since_round && !put_block(cw, &round, NULL))
		cw->covered_ns = cw->watermark_ns;
	cw->since_round = 0;
	cw->last_flush_ns = clock__mono_ns();
	return cw->err ? cw->err : cw->full;
}

/* ---- records ---- */

static int append_record(struct capture_writer *cw, struct block_buf *b, uint16_t type,
			 uint32_t ring, const void *rec, uint32_t len)
{
	int err = cw->err ? cw->err : type == CAPTURE_RING ? cw->full : 0;
	uint64_t ts;

	if (!err && !b->data) {
		b->data = xmalloc(CAPTURE_BLOCK_SZ);
	}
	if (!err && b->len + len > CAPTURE_BLOCK_SZ)
		err = flush_buf(cw, b, type, ring);
	if (err) {
		cw->dropped++;
		return err;
	}
	memcpy(b->data + b->len, rec, len);
	ts = ((const struct ptb_rec_hdr *)rec)->ts_ns;
	if (!b->rec_cnt || ts < b->oldest_ns)
		b->oldest_ns = ts;
	if (ts > b->newest_ns)
		b->newest_ns = ts;
	b->len += len;
	b->rec_cnt++;
	return 0;
}

static int append_control(struct capture_writer *cw, struct block_buf *b,
			  const struct ptb_rec_hdr *rec)
{
	uint32_t len = record__len(rec, rec->len);

	if (!len || !record__well_formed(rec)) {
		cw->dropped++;
		return -EINVAL;
	}
	return append_record(cw, b, CAPTURE_CONTROL, 0, rec, len);
}

int capture_writer__control(struct capture_writer *cw, const struct ptb_rec_hdr *rec)
{
	return append_control(cw, &cw->control, rec);
}

int capture_writer__passing(struct capture_writer *cw, const struct ptb_rec_hdr *rec)
{
	return append_control(cw, cw->hold ? &cw->passing : &cw->control, rec);
}

int capture_writer__lasting(struct capture_writer *cw, const struct ptb_rec_hdr *rec)
{
	uint32_t len = record__len(rec, rec->len);

	if (len)
		return append_record(cw, &cw->lasting, CAPTURE_RING, 0, rec, len);
	cw->dropped++;
	return -EINVAL;
}

int capture_writer__hold(struct capture_writer *cw, uint64_t keep_ns, uint64_t max_bytes)
{
	flush_all(cw);
	if (!cw->err)
		cw->hold = block_hold__new(keep_ns, max_bytes);
	return cw->err;
}

void capture_writer__expire(struct capture_writer *cw, uint64_t now_ns)
{
	block_hold__expire(cw->hold, now_ns);
}

void capture_writer__drop(struct capture_writer *cw, uint64_t until_ns)
{
	block_hold__drop(cw->hold, until_ns);
}

static int write_held(void *arg, const struct held_block *b)
{
	struct capture_writer *cw = arg;
	struct capture_block_hdr h;

	memcpy(&h, b->data, sizeof(h));
	if (write_block(cw, b->type, b->data, b->len))
		cw->dropped += h.rec_cnt;
	else if (b->type == CAPTURE_ROUND)
		cw->covered_ns = h.watermark_ns;
	return cw->err;
}

int capture_writer__release(struct capture_writer *cw, uint64_t *since_ns,
			    void (*first)(void *arg, uint64_t since_ns), void *arg)
{
	struct block_hold *bh;

	flush_all(cw);
	bh = cw->hold;
	cw->hold = NULL;
	*since_ns = block_hold__since(bh);
	cw->covered_ns = 0;
	if (first) {
		first(arg, *since_ns);
		flush_all(cw);
	}
	block_hold__each(bh, write_held, cw);
	block_hold__free(bh);
	return cw->err ? cw->err : cw->full;
}

/* The blocks of the file as they are. */
static int copy_file(const struct capture_writer *cw, struct capture_writer *to)
{
	uint64_t at = sizeof(struct capture_file_hdr);
	uint8_t buf[65536];

	while (at < cw->file_sz && !to->err) {
		uint64_t left = cw->file_sz - at;
		ssize_t n = pread(cw->fd, buf, left < sizeof(buf) ? left : sizeof(buf), (off_t)at);

		if (n <= 0)
			return n ? -errno : -EIO;
		to->err = new_file__write(to->fd, buf, (size_t)n);
		to->file_sz += (uint64_t)n;
		at += (uint64_t)n;
	}
	return to->err;
}

int capture_writer__copy(struct capture_writer *cw, struct capture_writer **out)
{
	struct capture_writer *to;
	int err = flush_all(cw);

	if (!err)
		err = capture_writer__open("", &to);
	if (err)
		return err;
	err = copy_file(cw, to);
	if (!err)
		err = block_hold__each(cw->hold, write_held, to);
	if (err)
		capture_writer__discard(to);
	else
		*out = to;
	return err;
}

int capture_writer__ring(struct capture_writer *cw, uint32_t ring, const void *recs, uint32_t len)
{
	const uint8_t *p = recs;
	int err = 0;

	if (ring >= RING_MAX)
		return -EINVAL;
	if (ring >= cw->ring_cnt) {
		vec_reserve((void **)&cw->rings, &cw->ring_cap, (uint64_t)ring + 1,
			    sizeof(*cw->rings));
		cw->ring_cnt = ring + 1;
	}
	while (len) {
		uint32_t n = record__len(p, len);
		int e;

		if (!n) {
			cw->dropped++;
			return -EINVAL;
		}
		e = append_record(cw, &cw->rings[ring], CAPTURE_RING, ring, p, n);
		if (e)
			err = e;
		cw->since_round += n;
		p += n;
		len -= n;
	}
	return err;
}

int capture_writer__round(struct capture_writer *cw, uint64_t watermark_ns)
{
	if (watermark_ns > cw->watermark_ns)
		cw->watermark_ns = watermark_ns;
	if (cw->err)
		return cw->err;
	if (cw->since_round < CAPTURE_BLOCK_SZ && clock__mono_ns() - cw->last_flush_ns < FLUSH_NS)
		return 0;
	return flush_all(cw);
}

int capture_writer__flush(struct capture_writer *cw)
{
	return flush_all(cw);
}

int capture_writer__dup(const struct capture_writer *cw)
{
	int fd = fcntl(cw->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd < 0 ? -errno : fd;
}

bool capture_writer__cut(const struct capture_writer *cw, uint64_t *covered_ns)
{
	*covered_ns = cw->covered_ns;
	return cw->err || cw->full;
}

uint64_t capture_writer__bytes(const struct capture_writer *cw)
{
	return cw->file_sz;
}

uint64_t capture_writer__dropped(const struct capture_writer *cw)
{
	return cw->dropped;
}

/* A file that came under the name during the recording has the same protection as one from
 * before. */
static int give_name(struct capture_writer *cw)
{
	int err = capture__old(cw->nf) == CAPTURE_OLD_OTHER ? -EEXIST : 0;

	if (err)
		pr_error("%s is not a capture of ptbpf; it is not replaced", cw->path);
	else
		err = new_file__commit(cw->nf);
	if (err) {
		pr_hint("the capture is in %s", new_file__partial(cw->nf));
		new_file__keep(cw->nf);
	}
	return err;
}

int capture_writer__close(struct capture_writer *cw)
{
	struct capture_block_hdr end = { .type = CAPTURE_END };
	int err;

	if (!cw)
		return 0;
	flush_all(cw);
	err = put_block(cw, &end, NULL);
	if (!err)
		err = cw->full;
	drop_reserve(cw);
	if (give_name(cw))
		err = CAPTURE_UNNAMED;
	writer_free(cw);
	return err;
}

void capture_writer__discard(struct capture_writer *cw)
{
	if (cw)
		writer_free(cw);
}
