/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The capture file: round trip, order over rings, and every way in which a file can be damaged. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "capture/capture.h"
#include "capture/capture_format.h"
#include "suite.h"

static char path[64];

static void new_path(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/ptbpf-test-XXXXXX");
	fd = mkstemp(path);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	close(fd);
}

static struct ptb_op_enter op(uint64_t ts, uint32_t site)
{
	return (struct ptb_op_enter){ .h = { .len = sizeof(struct ptb_op_enter),
					     .kind = PTB_REC_OP_ENTER, .site = site, .ts_ns = ts } };
}

static void put(struct capture_writer *cw, uint32_t ring, uint64_t ts, uint32_t site)
{
	struct ptb_op_enter r = op(ts, site);

	CU_ASSERT_EQUAL(capture_writer__ring(cw, ring, &r, sizeof(r)), 0);
}

static void put_counter(struct capture_writer *cw, uint32_t id)
{
	struct ptb_counter c = { .h = { .len = sizeof(c), .kind = PTB_REC_COUNTER }, .id = id };

	CU_ASSERT_EQUAL(capture_writer__control(cw, &c.h), 0);
}

/* Collects the sites of records, or the ids of counters. */
struct seen {
	uint32_t ids[100000];
	uint64_t ts[100000];
	uint32_t cnt, stop_at;
};
static struct seen seen;

static int see(void *arg, const struct ptb_rec_hdr *rec)
{
	struct seen *s = arg;

	if (s->cnt < 100000) {
		s->ts[s->cnt] = rec->ts_ns;
		s->ids[s->cnt] = rec->kind == PTB_REC_COUNTER
					 ? ((const struct ptb_counter *)(const void *)rec)->id
					 : rec->site;
	}
	s->cnt++;
	return s->stop_at && s->cnt == s->stop_at ? -ECANCELED : 0;
}

static void round_trip(void)
{
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (i = 0; i < 50000; i++) { /* several blocks */
		put(cw, i % 3, 1000 + i, i);
		if (i % 100 == 0)
			put_counter(cw, i);
		if (i % 1000 == 999)
			CU_ASSERT_EQUAL(capture_writer__round(cw, 1000 + i), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	CU_ASSERT_TRUE(capture_reader__sealed(cr));
	CU_ASSERT_EQUAL(capture_reader__skipped(cr), 0);
	CU_ASSERT_TRUE(capture_reader__bytes(cr) < 50000 * sizeof(struct ptb_op_enter) / 2);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL_FATAL(seen.cnt, 50000);
	for (i = 0; i < 50000 && seen.ids[i] == i; i++)
		;
	CU_ASSERT_EQUAL(i, 50000);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__control(cr, see, &seen), 0);
	CU_ASSERT_EQUAL(seen.cnt, 500);
	CU_ASSERT_EQUAL(seen.ids[499], 49900);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__scan(cr, see, &seen), 0);
	CU_ASSERT_EQUAL(seen.cnt, 50000);
	memset(&seen, 0, sizeof(seen));
	seen.stop_at = 17;
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), -ECANCELED);
	CU_ASSERT_EQUAL(seen.cnt, 17);
	CU_ASSERT_EQUAL(capture_reader__bad_records(cr), 0);
	capture_reader__close(cr);
	unlink(path);
}

/* Rings are nearly in order; a record may come late, and rounds overlap. */
static void order(void)
{
	enum { ROUNDS = 50, PER = 400, MS = 1000000 };
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i, k, want = 0, unordered = 0;

	srandom(7);
	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (k = 0; k < ROUNDS; k++) {
		for (i = 0; i < PER; i++) {
			uint64_t ts = (uint64_t)(k + 10) * 10 * MS + i * 25000;

			if (random() % 50 == 0) /* the program was preempted for up to 1.5 ms */
				ts -= (uint64_t)(random() % (3 * MS / 2));
			put(cw, (uint32_t)random() % 4, ts, ++want);
		}
		CU_ASSERT_EQUAL(capture_writer__round(cw, (uint64_t)(k + 11) * 10 * MS), 0);
		CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL_FATAL(seen.cnt, want);
	for (i = 1; i < seen.cnt; i++)
		unordered += seen.ts[i] < seen.ts[i - 1];
	CU_ASSERT_EQUAL(unordered, 0);
	capture_reader__close(cr);
	unlink(path);
}

/* Ties: ring, then position. A record later than the slack is told all the same, and once. */
static void ties_and_stragglers(void)
{
	static const uint32_t want[] = { 1, 2, 3, 4, 5, 9, 6 };
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	put(cw, 1, 5000, 3);
	put(cw, 1, 5000, 4);
	put(cw, 0, 5000, 1);
	put(cw, 0, 5000, 2);
	put(cw, 1, 5001, 5);
	capture_writer__round(cw, 100000000);
	capture_writer__flush(cw);
	put(cw, 0, 200000000, 6);
	put(cw, 1, 6000, 9); /* 94 ms too late */
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL_FATAL(seen.cnt, 7);
	for (i = 0; i < 7; i++)
		CU_ASSERT_EQUAL(seen.ids[i], want[i]);
	capture_reader__close(cr);
	unlink(path);
}

/* ---- damaged files ---- */

static uint8_t *load(size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(1 << 22);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	*len = fread(data, 1, 1 << 22, f);
	fclose(f);
	return data;
}

static void store(const uint8_t *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(data, 1, len, f), len);
	fclose(f);
}

/* Three flushes of ten records each and as many counters. */
static uint8_t *small_capture(size_t *len)
{
	struct capture_writer *cw;
	uint32_t i;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (i = 0; i < 30; i++) {
		put(cw, i % 2, 1000 + i, i);
		put_counter(cw, i);
		if (i % 10 == 9)
			CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	return load(len);
}

/* Reads all; false if the file does not open. What is told must be a beginning of each ring. */
static bool read_all(uint32_t *recs, uint32_t *controls, bool *sealed, uint64_t *skipped)
{
	struct capture_reader *cr;
	uint32_t i, next[2] = { 0, 1 };

	if (capture_reader__open(path, &cr))
		return false;
	*sealed = capture_reader__sealed(cr);
	*skipped = capture_reader__skipped(cr);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	*recs = seen.cnt;
	for (i = 0; i < seen.cnt; i++) {
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

static void truncated_anywhere(void)
{
	size_t len, cut;
	uint8_t *data = small_capture(&len);
	uint32_t recs, controls, before = 0;
	uint64_t skipped;
	bool sealed;

	for (cut = 0; cut < len; cut++) {
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

/* One bit anywhere (the last two blocks, 80 bytes, hold no records): the file does not open, or tells a beginning of what it held. */
static void flipped_bits(void)
{
	size_t len, at;
	uint8_t *data = small_capture(&len);
	uint32_t recs, controls;
	uint64_t skipped;
	bool sealed;

	for (at = 0; at < len; at++) {
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
	CU_ASSERT_EQUAL(capture_reader__open(path, &cr), err);
}

static void other_files(void)
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
	CU_ASSERT_EQUAL(capture_reader__open(path, &cr), -ENOENT);
}

/* A later minor version: a longer header and block types that this one does not know. */
static void newer_minor(void)
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
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
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

	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	*good = seen.cnt;
	bad = capture_reader__bad_records(cr);
	capture_reader__close(cr);
	return bad;
}

static void malformed_records(void)
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

static void hostile_blocks(void)
{
	uint8_t junk[2048];
	struct capture_block_hdr h = { .type = CAPTURE_RING, .stored_len = 512, .raw_len = 1 << 20,
				       .flags = CAPTURE_BLOCK_ZSTD, .rec_cnt = 100 };
	struct capture_reader *cr;
	uint32_t good;

	memset(junk, 0x5a, sizeof(junk));
	new_path();
	store_block(h, junk); /* not zstd */
	CU_ASSERT_EQUAL(bad_in_stream(&good), 100);
	h.raw_len = CAPTURE_RAW_MAX + 8;
	store_block(h, junk);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__skipped(cr), 552);
	capture_reader__close(cr);
	h.raw_len = 512;
	h.stored_len = UINT32_MAX;
	store_block(h, junk);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	CU_ASSERT_TRUE(capture_reader__skipped(cr) > 0);
	capture_reader__close(cr);
	unlink(path);
}

/* ---- writing ---- */

static void never_overwrites(void)
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
static void disk_full(void)
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

static void bad_input(void)
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

/* What a killed writer leaves: all that came up to the last flush. */
static void killed(void)
{
	struct capture_reader *cr;
	struct capture_writer *cw;
	uint32_t i;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (i = 0; i < 20000; i++) {
		put(cw, 0, 1000 + i, i);
		if (i % 100 == 99)
			CU_ASSERT_EQUAL(capture_writer__round(cw, 1000 + i), 0);
	}
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0); /* while it is being written */
	CU_ASSERT_FALSE(capture_reader__sealed(cr));
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_TRUE(seen.cnt >= 20000 - CAPTURE_BLOCK_SZ / sizeof(struct ptb_op_enter) - 100);
	capture_reader__close(cr);
	capture_writer__close(cw);
	unlink(path);
}

/* No round block at all: the window is bounded and nothing is lost. */
static void without_rounds(void)
{
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i, cnt = 2500000; /* 80 MB raw, more than the window holds */
	struct rusage ru;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (i = 0; i < cnt; i++) {
		struct ptb_op_enter r = op(1000 + i, i);

		if (capture_writer__ring(cw, i & 1, &r, sizeof(r)))
			break;
	}
	CU_ASSERT_EQUAL(i, cnt);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL(seen.cnt, cnt);
	getrusage(RUSAGE_SELF, &ru);
	CU_ASSERT_TRUE(ru.ru_maxrss < 512 * 1024);
	capture_reader__close(cr);
	unlink(path);
}

static const CU_TestInfo tests[] = {
	{ "round trip", round_trip },
	{ "order over rings", order },
	{ "ties and stragglers", ties_and_stragglers },
	{ "cut anywhere", truncated_anywhere },
	{ "flipped bits", flipped_bits },
	{ "other files", other_files },
	{ "a newer minor version", newer_minor },
	{ "malformed records", malformed_records },
	{ "hostile blocks", hostile_blocks },
	{ "never overwrites", never_overwrites },
	{ "disk full", disk_full },
	{ "bad input", bad_input },
	{ "killed", killed },
	{ "without rounds", without_rounds },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	/* the damaged files are reported on stderr, hundreds of times: not wanted here */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return run_suite("capture", tests);
}
