/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* capture/block_hold and a capture that is held: what goes, what stays, what is in the file afterwards. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/capture_priv.h"
#include "scratch_dir.h"
#include "suite.h"

#define SEC 1000000000ULL

static char seen[256];

static int see(void *arg, const struct held_block *b)
{
	size_t len = strlen(seen);

	CU_ASSERT_PTR_NULL(arg);
	memcpy(seen + len, b->data, b->len);
	seen[len + b->len] = '\0';
	return 0;
}

/* The data of all, one after the other. */
static const char *all(const struct block_hold *bh)
{
	seen[0] = '\0';
	CU_ASSERT_EQUAL(block_hold__each(bh, see, NULL), 0);
	return seen;
}

static int put(struct block_hold *bh, const char *text, uint64_t newest_ns, bool defines)
{
	return block_hold__put(bh, &(struct held_block){ .data = text,
							 .len = strlen(text),
							 .newest_ns = newest_ns,
							 .defines = defines });
}

TEST("age")
{
	struct block_hold *bh = block_hold__new(10 * SEC, 1 << 20);

	CU_ASSERT_PTR_NOT_NULL_FATAL(bh);
	put(bh, "a", 1 * SEC, false);
	put(bh, "D", 1 * SEC, true);
	put(bh, "b", 5 * SEC, false);
	put(bh, "-", 0, false); /* without a time, as marks between blocks */
	put(bh, "c", 11 * SEC, false);
	block_hold__expire(bh, 11 * SEC);
	CU_ASSERT_STRING_EQUAL(all(bh), "Dab-c");
	CU_ASSERT_EQUAL(block_hold__since(bh), 0);
	block_hold__expire(bh, 11 * SEC + 1);
	CU_ASSERT_STRING_EQUAL(all(bh), "Db-c");
	CU_ASSERT_EQUAL(block_hold__since(bh), 1 * SEC + 1);
	block_hold__expire(bh, 16 * SEC);
	CU_ASSERT_STRING_EQUAL(all(bh), "Dc");
	CU_ASSERT_EQUAL(block_hold__since(bh), 5 * SEC + 1);
	put(bh, "d", 4 * SEC, false); /* a late one */
	block_hold__expire(bh, 100 * SEC);
	CU_ASSERT_STRING_EQUAL(all(bh), "D");
	CU_ASSERT_EQUAL(block_hold__since(bh), 11 * SEC + 1);
	block_hold__free(bh);
	block_hold__free(NULL);
}

TEST("size")
{
	static const char big[1000];
	struct block_hold *bh = block_hold__new(1000 * SEC, 100000);
	struct held_block b = { .data = big, .len = sizeof(big) };
	uint32_t defined = 0;

	for (uint64_t i = 1; i <= 1000; i++) {
		b.newest_ns = i * SEC;
		b.defines = i % 10 == 0;
		defined += !block_hold__put(bh, &b) && b.defines;
		CU_ASSERT(block_hold__bytes(bh) <= 100000);
	}
	CU_ASSERT(defined > 40 && defined < 50);
	CU_ASSERT(block_hold__bytes(bh) > 98000);
	CU_ASSERT(block_hold__since(bh) > 900 * SEC && block_hold__since(bh) < 960 * SEC);
	b.defines = true;
	CU_ASSERT_EQUAL(block_hold__put(bh, &b), -ENOSPC);
	block_hold__free(bh);
}

/* ---- in a capture ---- */

static uint64_t times[4096], controls[64];
static uint32_t time_cnt, control_cnt;

static int see_record(void *arg, const struct ptb_rec_hdr *h)
{
	(void)arg;
	if (h->kind == PTB_REC_OP_EXIT)
		times[time_cnt++] = h->ts_ns;
	return 0;
}

static int see_control(void *arg, const struct ptb_rec_hdr *h)
{
	(void)arg;
	controls[control_cnt++] = h->kind == PTB_REC_CLOCK ? h->ts_ns : 0;
	return 0;
}

static void op(struct capture_writer *cw, uint64_t ts)
{
	struct ptb_op_exit x = {
		.h = { .kind = PTB_REC_OP_EXIT, .len = sizeof(x), .ts_ns = ts, .tgid = 1, .tid = 1 }
	};

	CU_ASSERT_EQUAL(capture_writer__ring(cw, (uint32_t)(ts / SEC % 2), &x, sizeof(x)), 0);
}

static void clock_at(struct capture_writer *cw, uint64_t ts)
{
	struct ptb_clock c = { .h = { .kind = PTB_REC_CLOCK, .len = sizeof(c), .ts_ns = ts } };

	CU_ASSERT_EQUAL(capture_writer__passing(cw, &c.h), 0);
}

/* A minute, of which ten seconds are held; then five more that are written as they come. */
TEST("capture")
{
	const char *path = at("held.ptb");
	struct ptb_counter def = { .h = { .kind = PTB_REC_COUNTER, .len = sizeof(def), .ts_ns = 1 } };
	struct capture_reader *cr = NULL;
	struct capture_writer *cw = NULL;
	uint64_t since = 0, t;

	CU_ASSERT_EQUAL_FATAL(capture_writer__open(path, &cw), 0);
	CU_ASSERT_EQUAL(capture_writer__hold(cw, 10 * SEC, 1 << 20), 0);
	for (t = 100 * SEC; t < 160 * SEC; t += SEC / 10) {
		op(cw, t);
		if (t % SEC == 0) {
			clock_at(cw, t);
			CU_ASSERT_EQUAL(capture_writer__round(cw, t), 0);
			CU_ASSERT_EQUAL(capture_writer__flush(cw), 0);
			capture_writer__expire(cw, t);
		}
		if (t == 100 * SEC)
			CU_ASSERT_EQUAL(capture_writer__control(cw, &def.h), 0);
	}
	CU_ASSERT(capture_writer__bytes(cw) < 100); /* nothing but the file's header */
	CU_ASSERT_EQUAL(capture_writer__release(cw, &since, NULL, NULL), 0);
	CU_ASSERT(since > 146 * SEC && since <= 149 * SEC);
	for (; t < 165 * SEC; t += SEC / 10)
		op(cw, t);
	clock_at(cw, t);
	CU_ASSERT_EQUAL(capture_writer__round(cw, t), 0);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);

	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT(capture_reader__sealed(cr));
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see_record, NULL), 0);
	CU_ASSERT_EQUAL(times[time_cnt - 1], 165 * SEC - SEC / 10);
	for (t = since - since % (SEC / 10) + SEC / 10; time_cnt && t < 165 * SEC; t += SEC / 10) {
		bool found = false;

		for (uint32_t i = 0; i < time_cnt; i++)
			found |= times[i] == t;
		CU_ASSERT(found);
	}
	for (uint32_t i = 1; i < time_cnt; i++) {
		CU_ASSERT(times[i] > times[i - 1]);
	}
	CU_ASSERT_EQUAL(capture_reader__control(cr, see_control, NULL), 0);
	CU_ASSERT_EQUAL(controls[0], 0); /* the definition comes first */
	CU_ASSERT(control_cnt > 10 && control_cnt < 16);
	for (uint32_t i = 1; i < control_cnt; i++) {
		CU_ASSERT(controls[i] >= 148 * SEC);
	}
	capture_reader__close(cr);
}

/* More definitions than there is room for: they are dropped and counted, and the capture goes on. */
TEST("more definitions than fit")
{
	struct ptb_counter def = { .h = { .kind = PTB_REC_COUNTER, .len = sizeof(def), .ts_ns = 1 } };
	struct capture_writer *cw = NULL;
	uint64_t since = 0, x = 88172645463325252ull;

	CU_ASSERT_EQUAL_FATAL(capture_writer__open(at("full.ptb"), &cw), 0);
	CU_ASSERT_EQUAL(capture_writer__hold(cw, 10 * SEC, 1 << 20), 0);
	for (uint32_t i = 0; i < 200000; i++) {
		x ^= x << 13; /* which cannot be compressed */
		x ^= x >> 7;
		x ^= x << 17;
		def.value = x;
		CU_ASSERT_EQUAL_FATAL(capture_writer__control(cw, &def.h), 0);
	}
	CU_ASSERT(capture_writer__dropped(cw) > 10000);
	op(cw, 100 * SEC);
	CU_ASSERT_EQUAL(capture_writer__release(cw, &since, NULL, NULL), 0);
	CU_ASSERT_EQUAL(capture_writer__control(cw, &def.h), 0);
	CU_ASSERT_EQUAL(capture_writer__close(cw), 0);
}

/* Windows of what goes on being held: a capture of each, with all definitions, while older records go. */
TEST("copies")
{
	struct ptb_counter def = { .h = { .kind = PTB_REC_COUNTER, .len = sizeof(def), .ts_ns = 1 } };
	struct capture_writer *cw = NULL, *copy = NULL;
	struct capture_reader *cr = NULL;

	CU_ASSERT_EQUAL_FATAL(capture_writer__open("", &cw), 0);
	CU_ASSERT_EQUAL(capture_writer__control(cw, &def.h), 0); /* in the file, before it is held */
	CU_ASSERT_EQUAL(capture_writer__hold(cw, 1000 * SEC, 1 << 20), 0);
	for (uint64_t t = 100; t < 103; t++) {
		int fd;

		CU_ASSERT_EQUAL(capture_writer__control(cw, &def.h), 0);
		op(cw, t * SEC);
		op(cw, t * SEC + SEC / 2);
		CU_ASSERT_EQUAL_FATAL(capture_writer__copy(cw, &copy), 0);
		clock_at(copy, t * SEC); /* is in the copy alone */
		fd = capture_writer__dup(copy);
		CU_ASSERT_EQUAL(capture_writer__close(copy), 0);
		capture_writer__drop(cw, (t + 1) * SEC);
		time_cnt = control_cnt = 0;
		CU_ASSERT_EQUAL_FATAL(capture_reader__open("copy", fd, &cr), 0);
		CU_ASSERT(capture_reader__sealed(cr));
		CU_ASSERT_EQUAL(capture_reader__stream(cr, see_record, NULL), 0);
		CU_ASSERT(time_cnt == 2 && times[0] == t * SEC && times[1] == t * SEC + SEC / 2);
		CU_ASSERT_EQUAL(capture_reader__control(cr, see_control, NULL), 0);
		CU_ASSERT(control_cnt == t - 97 && controls[control_cnt - 1] == t * SEC);
		capture_reader__close(cr);
	}
	capture_writer__discard(cw);
}

int main(void)
{
	return run_suite_in_scratch("block_hold");
}
