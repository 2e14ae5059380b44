/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The capture file when things go wrong: cut, flipped, hostile, and a disk that is full. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <zlib.h>

#include "capture/capture_format.h"
#include "capture_io.h"

/* Three flushes of ten records each and as many counters. */
static uint8_t *small_capture(size_t *len)
{
	struct capture_writer *cw;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (uint32_t i = 0; i < 30; i++) {
		put(cw, i % 2, 1000 + i, i);
		put_counter(cw, i);
		if (i % 10 == 9)
			CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	return load(len);
}

/* Reads all; false if the file does not open. The reported records must be the first ones of each ring. */
static bool read_all(uint32_t *recs, uint32_t *controls, bool *sealed, uint64_t *skipped)
{
	struct capture_reader *cr;
	uint32_t next[2] = { 0, 1 };

	if (capture_reader__open(path, capture__open(path), &cr))
		return false;
	*sealed = capture_reader__sealed(cr);
	*skipped = capture_reader__skipped(cr);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	*recs = seen.cnt;
	for (uint32_t i = 0; i < seen.cnt; i++) {
		uint32_t ring = seen.ids[i] % 2;

		CU_ASSERT_EQUAL(seen.ids[i], next[ring]);
		next[ring] += 2;
	}
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__control(cr, see, &seen), 0);
	*controls = seen.cnt;
	capture_reader__close(cr);
	return true;
}

TEST("cut anywhere")
{
	size_t len;
	uint8_t *data = small_capture(&len);
	uint32_t recs, controls, before = 0;
	uint64_t skipped;
	bool sealed;

	for (size_t cut = 0; cut < len; cut++) {
		store(data, cut);
		if (cut < sizeof(struct capture_file_hdr)) {
			CU_ASSERT_FALSE(read_all(&recs, &controls, &sealed, &skipped));
			continue;
		}
		CU_ASSERT_TRUE_FATAL(read_all(&recs, &controls, &sealed, &skipped));
		CU_ASSERT_FALSE(sealed);
		CU_ASSERT_TRUE(skipped < 4096 && skipped <= cut);
		CU_ASSERT_TRUE(recs + controls >= before);
		before = recs + controls;
	}
	CU_ASSERT_EQUAL(before, 60); /* only the end block was missing */
	store(data, len);
	CU_ASSERT_TRUE(read_all(&recs, &controls, &sealed, &skipped));
	CU_ASSERT_TRUE(sealed);
	CU_ASSERT_EQUAL(recs, 30);
	free(data);
	unlink(path);
}

/* One bit anywhere (the last two blocks, 80 bytes, hold no records): the file does not open, or its first records are reported. */
TEST("flipped bits")
{
	size_t len;
	uint8_t *data = small_capture(&len);
	uint32_t recs, controls;
	uint64_t skipped;
	bool sealed;

	for (size_t at = 0; at < len; at++) {
		data[at] ^= (uint8_t)(1 << at % 8);
		store(data, len);
		if (read_all(&recs, &controls, &sealed, &skipped)) {
			CU_ASSERT_TRUE(at >= sizeof(struct capture_file_hdr));
			CU_ASSERT_FALSE(sealed);
			CU_ASSERT_TRUE(skipped > 0);
			CU_ASSERT_TRUE(recs + controls < 60 || at >= len - 80);
		} else {
			CU_ASSERT_TRUE(at < sizeof(struct capture_file_hdr));
		}
		data[at] ^= (uint8_t)(1 << at % 8);
	}
	free(data);
	unlink(path);
}

static void refused(const void *data, size_t len, int err)
{
	struct capture_reader *cr;

	store(data, len);
	CU_ASSERT_EQUAL(capture_reader__open(path, capture__open(path), &cr), err);
}

TEST("other files")
{
	struct capture_file_hdr h = { .major = CAPTURE_MAJOR + 1, .header_sz = sizeof(h) };
	struct capture_reader *cr;
	char text[64] = "hello, this is not a capture";

	new_path();
	refused("", 0, -EINVAL);
	refused(text, sizeof(text), -EINVAL);
	memcpy(h.magic, CAPTURE_MAGIC, sizeof(h.magic));
	refused(&h, sizeof(h), -EPROTONOSUPPORT);
	h.major = CAPTURE_MAJOR;
	refused(&h, sizeof(h), -EBADMSG); /* its checksum */
	unlink(path);
	CU_ASSERT_EQUAL(capture_reader__open(path, capture__open(path), &cr), -ENOENT);
}

/* A later minor version: a longer header and block types that this one does not know. */
TEST("a newer minor version")
{
	struct {
		struct capture_file_hdr h;
		uint64_t more;
		struct capture_block_hdr odd, end;
	} f = { .h = { .major = CAPTURE_MAJOR, .minor = 9, .header_sz = 40 },
		.odd = { .magic = CAPTURE_BLOCK_MAGIC, .type = 77 },
		.end = { .magic = CAPTURE_BLOCK_MAGIC, .type = CAPTURE_END } };
	struct capture_reader *cr;

	_Static_assert(offsetof(__typeof__(f), odd) == 40, "header_sz above");
	memcpy(f.h.magic, CAPTURE_MAGIC, 8);
	f.h.crc = (uint32_t)crc32(0, (void *)&f.h, offsetof(struct capture_file_hdr, crc));
	f.odd.header_crc =
		(uint32_t)crc32(0, (void *)&f.odd, offsetof(struct capture_block_hdr, header_crc));
	f.end.header_crc =
		(uint32_t)crc32(0, (void *)&f.end, offsetof(struct capture_block_hdr, header_crc));
	new_path();
	store((void *)&f, sizeof(f));
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_TRUE(capture_reader__sealed(cr));
	capture_reader__close(cr);
	unlink(path);
}

/* A block with right checksums and wrong content: as a hostile file has it. */
static void store_block(struct capture_block_hdr h, const void *payload)
{
	struct capture_file_hdr f = { .major = CAPTURE_MAJOR, .header_sz = sizeof(f) };
	uint8_t buf[4096];

	memcpy(f.magic, CAPTURE_MAGIC, 8);
	f.crc = (uint32_t)crc32(0, (void *)&f, offsetof(struct capture_file_hdr, crc));
	h.magic = CAPTURE_BLOCK_MAGIC;
	h.payload_crc = (uint32_t)crc32(0, payload, h.stored_len < 2048 ? h.stored_len : 2048);
	h.header_crc = (uint32_t)crc32(0, (void *)&h, offsetof(struct capture_block_hdr, header_crc));
	memcpy(buf, &f, sizeof(f));
	memcpy(buf + sizeof(f), &h, sizeof(h));
	memcpy(buf + sizeof(f) + sizeof(h), payload, 2048);
	store(buf, sizeof(f) + sizeof(h) + (h.stored_len < 2048 ? h.stored_len : 2048));
}

static uint64_t bad_in_stream(uint32_t *good)
{
	struct capture_reader *cr;
	uint64_t bad;

	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	*good = seen.cnt;
	bad = capture_reader__bad_records(cr);
	capture_reader__close(cr);
	return bad;
}

TEST("malformed records")
{
	uint8_t buf[2048] __attribute__((aligned(8))) = { 0 };
	struct ptb_op_enter *r = (void *)buf;
	struct ptb_scope_name *n = (void *)(buf + 32);
	struct capture_block_hdr h = { .type = CAPTURE_RING, .stored_len = 128, .raw_len = 128 };
	uint32_t good;

	new_path();
	*r = op(1, 1);
	n->h = (struct ptb_rec_hdr){ .len = 48, .kind = PTB_REC_SCOPE_NAME, .ts_ns = 2 };
	n->text_len = 8;
	memcpy(buf + 80, buf, 32);
	((struct ptb_rec_hdr *)(void *)(buf + 112))->len = 16; /* shorter than a header */
	store_block(h, buf);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 1);
	CU_ASSERT_EQUAL(good, 3);
	n->text_len = 9; /* beyond its record */
	store_block(h, buf);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 2);
	CU_ASSERT_EQUAL(good, 2);
	n->h.len = 32; /* shorter than its kind; what follows is out of step */
	store_block(h, buf);
	CU_ASSERT_TRUE(bad_in_stream(&good) >= 1);
	CU_ASSERT_TRUE(good >= 1);
	n->h.len = 48;
	n->h.kind = PTB_REC_NAME; /* control records do not come from a ring */
	store_block(h, buf);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 2);
	n->h.kind = 60; /* a kind of the future */
	store_block(h, buf);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 1);
	CU_ASSERT_EQUAL(good, 3);
	r->h.len = 0;
	store_block(h, buf);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 1);
	CU_ASSERT_EQUAL(good, 0);
	unlink(path);
}

TEST("hostile blocks")
{
	uint8_t junk[2048];
	struct capture_block_hdr h = { .type = CAPTURE_RING,
				       .stored_len = 512,
				       .raw_len = 1 << 20,
				       .flags = CAPTURE_BLOCK_ZSTD,
				       .rec_cnt = 100 };
	struct capture_reader *cr;
	uint32_t good;

	memset(junk, 0x5a, sizeof(junk));
	new_path();
	store_block(h, junk); /* not zstd */
	CU_ASSERT_EQUAL(bad_in_stream(&good), 100);
	h.raw_len = CAPTURE_RAW_MAX + 8;
	store_block(h, junk);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__skipped(cr), 552);
	capture_reader__close(cr);
	h.raw_len = 512;
	h.stored_len = UINT32_MAX;
	store_block(h, junk);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_TRUE(capture_reader__skipped(cr) > 0);
	capture_reader__close(cr);
	unlink(path);
}

/* ---- writing ---- */

TEST("never overwrites")
{
	struct capture_writer *cw;
	char text[] = "precious";
	size_t len;
	uint8_t *data;

	new_path();
	store((void *)text, sizeof(text));
	CU_ASSERT_EQUAL(capture_writer__open(path, &cw), -EEXIST);
	data = load(&len);
	CU_ASSERT_EQUAL(len, sizeof(text));
	CU_ASSERT_STRING_EQUAL((char *)data, "precious");
	free(data);
	unlink(path);
	free(small_capture(&len)); /* leaves a capture at another path */
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	CU_ASSERT_EQUAL(capture_writer__bytes(cw), sizeof(struct capture_file_hdr));
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	data = load(&len);
	CU_ASSERT_EQUAL(len, 32 + 40);
	free(data);
	unlink(path);
	CU_ASSERT_EQUAL(capture_writer__open("/nonexistent/x.ptb", &cw), -ENOENT);
	CU_ASSERT_EQUAL(capture_writer__open("/dev/null", &cw), -EEXIST);
	CU_ASSERT_EQUAL(capture_writer__close(NULL), 0);
}

/* The file may not grow: the first error stays, drops are counted, the file is readable. */
TEST("disk full")
{
	struct rlimit old, small;
	struct capture_writer *cw;
	uint32_t i, recs, controls;
	uint64_t skipped, dropped, bytes;
	int err = 0, closed;
	bool sealed;

	new_path();
	signal(SIGXFSZ, SIG_IGN);
	CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &old), 0);
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	small = old;
	small.rlim_cur = 3000;
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (i = 0; i < 3000 && !err; i++) {
		struct ptb_op_enter r = op(1000 + i, i);

		CU_ASSERT_EQUAL(capture_writer__ring(cw, i % 2, &r, sizeof(r)), 0);
		if (i % 10 == 9)
			err = capture_writer__flush(cw);
	}
	CU_ASSERT_EQUAL(err, -EFBIG);
	dropped = capture_writer__dropped(cw);
	CU_ASSERT_TRUE(dropped >= 1 && dropped <= 10);
	{
		struct ptb_op_enter r = op(5000, 1);

		CU_ASSERT_EQUAL(capture_writer__ring(cw, 0, &r, sizeof(r)), -EFBIG);
		CU_ASSERT_EQUAL(capture_writer__round(cw, 9000), -EFBIG);
	}
	CU_ASSERT_EQUAL(capture_writer__dropped(cw), dropped + 1);
	bytes = capture_writer__bytes(cw);
	closed = capture_writer__close(cw);
	setrlimit(RLIMIT_FSIZE, &old);
	CU_ASSERT_EQUAL(closed, -EFBIG);
	CU_ASSERT_TRUE(read_all(&recs, &controls, &sealed, &skipped));
	CU_ASSERT_FALSE(sealed);
	CU_ASSERT_EQUAL(skipped, 0); /* the torn block was cut off */
	CU_ASSERT_EQUAL(recs, i - dropped);
	CU_ASSERT_TRUE(bytes <= 3000);
	unlink(path);
}

TEST("bad input")
{
	struct ptb_op_enter r[2] = { op(1, 1), op(2, 2) };
	struct capture_writer *cw;
	uint32_t good;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	r[1].h.len = 4;
	CU_ASSERT_EQUAL(capture_writer__ring(cw, 0, r, sizeof(r)), -EINVAL);
	CU_ASSERT_EQUAL(capture_writer__dropped(cw), 1);
	CU_ASSERT_EQUAL(capture_writer__ring(cw, 1u << 30, r, 32), -EINVAL);
	r[0].h.kind = PTB_REC_WINDOW; /* right in length, too short for its kind */
	r[0].h.len = 24;
	CU_ASSERT_EQUAL(capture_writer__control(cw, &r[0].h), -EINVAL);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL(bad_in_stream(&good), 0);
	CU_ASSERT_EQUAL(good, 1);
	unlink(path);
}

int main(void)
{
	/* damaged files are reported on stderr, hundreds of times: not wanted here */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return run_suite("capture_damage");
}
