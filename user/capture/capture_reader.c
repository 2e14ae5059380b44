/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Opens a capture file, finds how much of it is valid, and walks its blocks and records. Owns every
 * check on foreign bytes; must not interpret records beyond their length.
 *
 * Each walk reads the file again; what is kept is a number per round block.
 */
#include "capture/capture_priv.h"

#define LOG_DOMAIN "capture_reader"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "capture/capture.h"

/* Bytes read, fewer than len only at the end of the file; negative errno. */
static ssize_t read_at(int fd, void *buf, size_t len, uint64_t off)
{
	uint8_t *p = buf;
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, p + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static bool block_hdr_valid(const struct capture_block_hdr *h)
{
	bool packed = h->flags & CAPTURE_BLOCK_ZSTD;

	return h->magic == CAPTURE_BLOCK_MAGIC &&
	       h->header_crc ==
		       crc32(0, (const Bytef *)h, offsetof(struct capture_block_hdr, header_crc)) &&
	       h->stored_len <= CAPTURE_STORED_MAX && h->raw_len <= CAPTURE_RAW_MAX &&
	       (packed || h->stored_len == h->raw_len);
}

int capture_reader__next_block(struct capture_reader *cr, uint64_t *pos, uint64_t limit,
			       struct capture_block_hdr *h)
{
	ssize_t n;

	if (*pos >= limit)
		return 0;
	n = read_at(cr->fd, h, sizeof(*h), *pos);
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)sizeof(*h) || !block_hdr_valid(h))
		return 0;
	n = read_at(cr->fd, cr->stored, h->stored_len, *pos + sizeof(*h));
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)h->stored_len || crc32(0, cr->stored, h->stored_len) != h->payload_crc)
		return 0;
	*pos += sizeof(*h) + h->stored_len;
	return 1;
}

int capture_reader__payload(struct capture_reader *cr, const struct capture_block_hdr *h,
			    const uint8_t **raw)
{
	size_t n;

	if (!(h->flags & CAPTURE_BLOCK_ZSTD)) {
		*raw = cr->stored;
		return 0;
	}
	n = ZSTD_decompressDCtx(cr->zstd, cr->raw, CAPTURE_RAW_MAX, cr->stored, h->stored_len);
	if (ZSTD_isError(n) || n != h->raw_len)
		return -EBADMSG;
	*raw = cr->raw;
	return 0;
}

int capture_reader__each(struct capture_reader *cr, uint16_t type, const uint8_t *raw, uint32_t len,
			 rec_fn fn, void *arg)
{
	bool control = type == CAPTURE_CONTROL;

	while (len) {
		const struct ptb_rec_hdr *rec = (const void *)raw;
		uint32_t n = record__len(raw, len);
		int ret;

		if (!n) { /* where the next record begins is not known */
			cr->bad_records++;
			return 0;
		}
		raw += n;
		len -= n;
		if (!record__well_formed(rec) || (rec->kind >= PTB_REC_USER_FIRST) != control) {
			cr->bad_records++;
			continue;
		}
		ret = fn(arg, rec);
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- opening ---- */

static int read_file_hdr(struct capture_reader *cr)
{
	struct capture_file_hdr h;
	ssize_t n = read_at(cr->fd, &h, sizeof(h), 0);

	if (n < 0) {
		pr_error("cannot read %s: %s", cr->path, errstr((int)n));
		return (int)n;
	}
	if (n < (ssize_t)sizeof(h) || memcmp(h.magic, CAPTURE_MAGIC, sizeof(h.magic))) {
		pr_error("%s is not a capture of ptbpf", cr->path);
		return -EINVAL;
	}
	if (h.major != CAPTURE_MAJOR) {
		pr_error("%s has capture format %u.%u, this ptbpf reads %u.x", cr->path, h.major,
			 h.minor, CAPTURE_MAJOR);
		return -EPROTONOSUPPORT;
	}
	if (h.crc != crc32(0, (const Bytef *)&h, offsetof(struct capture_file_hdr, crc)) ||
	    h.header_sz < sizeof(h) || h.header_sz > CAPTURE_HEADER_MAX) {
		pr_error("the file header of %s is damaged", cr->path);
		return -EBADMSG;
	}
	cr->first_block = h.header_sz;
	cr->oldest_known = h.minor >= 1;
	return 0;
}

/* Notes a block on the first walk: cr->oldest[i] is of block i alone until all are in. */
static void note_oldest(struct capture_reader *cr, const struct capture_block_hdr *h)
{
	vec_reserve((void **)&cr->oldest, &cr->oldest_cap, (uint64_t)cr->oldest_cnt + 1,
		    sizeof(*cr->oldest));
	cr->oldest[cr->oldest_cnt++] = h->type == CAPTURE_RING && cr->oldest_known ? h->oldest_ns :
										     UINT64_MAX;
}

/* Then it is of this block and all that follow. */
static void add_up_oldest(struct capture_reader *cr)
{
	uint32_t i = cr->oldest_cnt;

	while (i-- > 1)
		if (cr->oldest[i] < cr->oldest[i - 1])
			cr->oldest[i - 1] = cr->oldest[i];
}

/* Walks all blocks once, with their checksums. */
static int find_valid_end(struct capture_reader *cr)
{
	uint64_t pos = cr->first_block;
	struct capture_block_hdr h;
	off_t size = lseek(cr->fd, 0, SEEK_END); /* a child of base/sandbox.h may not do fstat() */
	int ret;

	if (size < 0)
		return -errno;
	cr->file_sz = (uint64_t)size;
	cr->valid_end = pos;
	while ((ret = capture_reader__next_block(cr, &pos, UINT64_MAX, &h)) > 0) {
		cr->valid_end = pos;
		note_oldest(cr, &h);
		if (h.type == CAPTURE_END) {
			cr->sealed = true;
			break;
		}
	}
	add_up_oldest(cr);
	if (ret < 0)
		pr_error("cannot read %s: %s", cr->path, errstr(ret));
	else if (capture_reader__skipped(cr))
		pr_warn("%s: %" PRIu64 " bytes at its end are not a complete block and are ignored",
			cr->path, capture_reader__skipped(cr));
	return ret < 0 ? ret : 0;
}

static void hint_partial(const char *path)
{
	char *partial = new_file__find_partial(path);

	if (partial)
		pr_hint("a recording that was killed or still runs keeps its data in %s", partial);
	free(partial);
}

int capture__open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;
	struct stat st;

	if (fd < 0) {
		err = -errno;
		pr_error("cannot open %s: %s", path, errstr(err));
		if (err == -ENOENT)
			hint_partial(path);
		return err;
	}
	/* a pipe without a writer would be waited for, and a device may have no end */
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	pr_error("%s is not a regular file", path);
	close(fd);
	return -EINVAL;
}

int capture_reader__open(const char *path, int fd, struct capture_reader **out)
{
	struct capture_reader *cr;
	int err;

	if (fd < 0)
		return fd;
	cr = xcalloc(1, sizeof(*cr));
	cr->fd = fd;
	cr->path = xstrdup(path);
	cr->zstd = mem__check(ZSTD_createDCtx());
	cr->stored = xmalloc(CAPTURE_STORED_MAX);
	cr->raw = xmalloc(CAPTURE_RAW_MAX);
	err = read_file_hdr(cr);
	if (!err)
		err = find_valid_end(cr);
	if (err)
		capture_reader__close(cr);
	else
		*out = cr;
	return err;
}

void capture_reader__close(struct capture_reader *cr)
{
	if (!cr)
		return;
	if (cr->fd >= 0)
		close(cr->fd);
	ZSTD_freeDCtx(cr->zstd);
	free(cr->oldest);
	free(cr->stored);
	free(cr->raw);
	free(cr->path);
	free(cr);
}

/* ---- walks ---- */

static int walk_blocks(struct capture_reader *cr, uint16_t type, rec_fn fn, void *arg)
{
	uint64_t pos = cr->first_block;
	struct capture_block_hdr h;
	const uint8_t *raw;
	int ret;

	cr->bad_records = 0;
	while ((ret = capture_reader__next_block(cr, &pos, cr->valid_end, &h)) > 0) {
		if (h.type != type)
			continue;
		if (capture_reader__payload(cr, &h, &raw)) {
			cr->bad_records += h.rec_cnt ? h.rec_cnt : 1;
			continue;
		}
		ret = capture_reader__each(cr, type, raw, h.raw_len, fn, arg);
		if (ret)
			return ret;
	}
	return ret;
}

struct part_scan {
	struct capture_reader *cr; /* of the whole */
	uint32_t part;
	rec_fn fn;
	void *arg;
};

static int scan_part_record(void *arg, const struct ptb_rec_hdr *rec)
{
	const struct part_scan *s = arg;

	rec = capture_reader__part_record(s->cr, s->part, rec);
	return rec ? s->fn(s->arg, rec) : 0;
}

const struct ptb_rec_hdr *capture_reader__part_record(struct capture_reader *cr, uint32_t part,
						      const struct ptb_rec_hdr *rec)
{
	bool bad = false;

	rec = cr->join->record(cr->join->arg, part, rec, &bad);
	cr->bad_records += bad;
	return rec;
}

int capture_reader__control(struct capture_reader *cr, rec_fn fn, void *arg)
{
	if (cr->join)
		return cr->join->control(cr->join->arg, fn, arg, &cr->bad_records);
	return walk_blocks(cr, CAPTURE_CONTROL, fn, arg);
}

int capture_reader__scan(struct capture_reader *cr, rec_fn fn, void *arg)
{
	struct part_scan s = { .cr = cr, .fn = fn, .arg = arg };
	int ret = 0;

	if (!cr->join)
		return walk_blocks(cr, CAPTURE_RING, fn, arg);
	cr->bad_records = 0;
	for (; s.part < cr->join->cnt && !ret; s.part++) {
		ret = walk_blocks(cr->join->parts[s.part], CAPTURE_RING, scan_part_record, &s);
		cr->bad_records += cr->join->parts[s.part]->bad_records;
	}
	return ret;
}

void capture_reader__join(const struct capture_join *join, struct capture_reader **out)
{
	struct capture_reader *cr = xcalloc(1, sizeof(*cr));

	cr->join = join;
	cr->fd = -1;
	cr->sealed = cr->oldest_known = true;
	for (uint32_t i = 0; i < join->cnt; i++) {
		const struct capture_reader *part = join->parts[i];

		cr->sealed &= part->sealed;
		cr->oldest_known &= part->oldest_known;
		cr->file_sz += part->file_sz;
		cr->valid_end += part->valid_end;
	}
	*out = cr;
}

bool capture_reader__is_joined(const struct capture_reader *cr)
{
	return cr->join;
}

bool capture_reader__sealed(const struct capture_reader *cr)
{
	return cr->sealed;
}

uint64_t capture_reader__skipped(const struct capture_reader *cr)
{
	return cr->file_sz > cr->valid_end ? cr->file_sz - cr->valid_end : 0;
}

uint64_t capture_reader__bytes(const struct capture_reader *cr)
{
	return cr->file_sz;
}

uint64_t capture_reader__bad_records(const struct capture_reader *cr)
{
	return cr->bad_records;
}

uint64_t capture_reader__late(const struct capture_reader *cr)
{
	return cr->late;
}
