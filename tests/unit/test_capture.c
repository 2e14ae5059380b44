/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The capture file as it should be: round trip, order over rings, what a writer accepts and leaves. */
#include <errno.h>
#include <sys/resource.h>

#include "capture/capture_format.h"
#include "capture_io.h"
#include "random.h"

TEST("round trip")
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
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
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

/* Reads the capture back: cnt records, none earlier than the one before it, none too late to be put in order. */
static void check_ordered(uint32_t cnt)
{
	struct capture_reader *cr;
	uint32_t unordered = 0;

	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL_FATAL(seen.cnt, cnt);
	for (uint32_t i = 1; i < seen.cnt; i++)
		unordered += seen.ts[i] < seen.ts[i - 1];
	CU_ASSERT_EQUAL(unordered, 0);
	CU_ASSERT_EQUAL(capture_reader__late(cr), 0);
	capture_reader__close(cr);
	unlink(path);
}

/* Rings are nearly in order; a record may come late, and rounds overlap. */
TEST("order over rings")
{
	enum { ROUNDS = 50, PER = 400, MS = 1000000 };
	struct capture_writer *cw;
	uint32_t want = 0;

	srandom(7);
	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (uint32_t k = 0; k < ROUNDS; k++) {
		for (uint32_t i = 0; i < PER; i++) {
			uint64_t ts = (uint64_t)(k + 10) * 10 * MS + i * 25000;

			if (random() % 50 == 0) /* the program was preempted for up to 1.5 ms */
				ts -= (uint64_t)(random() % (3 * MS / 2));
			put(cw, (uint32_t)random() % 4, ts, ++want);
		}
		CU_ASSERT_EQUAL(capture_writer__round(cw, (uint64_t)(k + 11) * 10 * MS), 0);
		CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	check_ordered(want);
}

/* Ties: ring, then position. A record later than the slack is waited for. */
TEST("ties and stragglers")
{
	static const uint32_t want[] = { 9, 1, 2, 3, 4, 5, 6 };
	struct capture_writer *cw;
	struct capture_reader *cr;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	put(cw, 1, 5000, 3);
	put(cw, 1, 5000, 4);
	capture_writer__flush(cw); /* ring 1 is first in the file */
	put(cw, 0, 5000, 1);
	put(cw, 0, 5000, 2);
	put(cw, 1, 5001, 5);
	capture_writer__round(cw, 100000000);
	capture_writer__flush(cw);
	put(cw, 0, 200000000, 6);
	put(cw, 1, 4000, 9); /* 96 ms later than the last round promised */
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL_FATAL(seen.cnt, 7);
	for (uint32_t i = 0; i < 7; i++)
		CU_ASSERT_EQUAL(seen.ids[i], want[i]);
	CU_ASSERT_EQUAL(capture_reader__late(cr), 0);
	capture_reader__close(cr);
	unlink(path);
}

/*
 * A slow machine: each round brings records of a ring that are older than several rounds before. They are put in
 * order as long as the window holds what waits for them; after that each is reported once, and counted.
 */
TEST("late for rounds")
{
	enum { ROUNDS = 60, PER = 50, MS = 1000000, LATE = 7 };
	struct capture_writer *cw;
	uint32_t want = 0;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	CU_ASSERT_EQUAL(capture_writer__round(cw, MS),
			0); /* nothing yet: the rounds' numbers are those of the file */
	CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	for (uint32_t k = LATE; k < ROUNDS; k++) {
		for (uint32_t i = 0; i < PER; i++) {
			put(cw, 0, (uint64_t)k * 100 * MS + i * MS, ++want);
			put(cw, 1024, (uint64_t)(k - k % LATE) * 100 * MS + i * MS + 7, ++want);
		}
		CU_ASSERT_EQUAL(capture_writer__round(cw, (uint64_t)(k + 1) * 100 * MS), 0);
		CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	check_ordered(want);
}

/* One round holds more than the window, one ring after the other: none is late while the window holds one of them. */
TEST("late in a round")
{
	enum { PER_RING = 1600, LEN = 64 * 1024 - 8 }; /* 100 MB each */
	static union {
		struct ptb_op_enter r;
		uint64_t words[LEN / 8];
	} u;
	struct capture_writer *cw;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	u.r = op(0, 1);
	u.r.h.len = LEN;
	for (uint32_t i = 0; i < 2 * PER_RING; i++) {
		uint32_t ring = i / PER_RING;

		u.r.h.ts_ns = 1000 + 2 * (i % PER_RING) + ring;
		for (uint32_t k = 0; k < 256; k++) /* a reader believes no file that compresses everything */
			u.words[16 + k] = next_random();
		CU_ASSERT_EQUAL(capture_writer__ring(cw, ring, &u.r, LEN), 0);
	}
	CU_ASSERT_EQUAL(capture_writer__round(cw, 1000 + 2 * PER_RING), 0);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	check_ordered(2 * PER_RING);
}

/* The oldest record is last, after more than the window holds: reported once, and counted. */
TEST("later than the window")
{
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i, cnt = 6000000; /* 192 MB raw, more than the window holds */

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (i = 0; i < cnt; i++) {
		struct ptb_op_enter r = op(1000 + i, i);

		if (capture_writer__ring(cw, 0, &r, sizeof(r)) ||
		    (i % 10000 == 0 && capture_writer__round(cw, 1000 + i)))
			break;
	}
	CU_ASSERT_EQUAL(i, cnt);
	put(cw, 1, 999, 1);
	put(cw, 1, 1000 + cnt, 1);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL(seen.cnt, cnt + 2);
	CU_ASSERT_EQUAL(capture_reader__late(cr), 1);
	capture_reader__close(cr);
	unlink(path);
}

/* What a killed writer leaves: all that came up to the last flush. */
TEST("killed")
{
	struct capture_reader *cr;
	struct capture_writer *cw;

	new_path();
	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		put(cw, 0, 1000 + i, i);
		if (i % 100 == 99)
			CU_ASSERT_EQUAL(capture_writer__round(cw, 1000 + i), 0);
	}
	/* while it is being written */
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture_writer__dup(cw), &cr), 0);
	CU_ASSERT_FALSE(capture_reader__sealed(cr));
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_TRUE(seen.cnt >= 20000 - CAPTURE_BLOCK_SZ / sizeof(struct ptb_op_enter) - 100);
	capture_reader__close(cr);
	capture_writer__close(cw);
	unlink(path);
}

/* No round block at all: the window is bounded and nothing is lost. */
TEST("without rounds")
{
	struct capture_writer *cw;
	struct capture_reader *cr;
	uint32_t i, cnt = 6000000; /* 192 MB raw, more than the window holds */
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
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	memset(&seen, 0, sizeof(seen));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, &seen), 0);
	CU_ASSERT_EQUAL(seen.cnt, cnt);
	getrusage(RUSAGE_SELF, &ru);
#ifndef __SANITIZE_ADDRESS__ /* its own memory would be counted */
	CU_ASSERT_TRUE(ru.ru_maxrss < 600 * 1024);
#endif
	capture_reader__close(cr);
	unlink(path);
}

SUITE("capture")
