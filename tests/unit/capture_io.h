/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the tests of the capture file share: a temporary path, small records, and what was read. */
#ifndef TESTS_CAPTURE_IO_H
#define TESTS_CAPTURE_IO_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/capture.h"
#include "suite.h"

static char path[64];

static inline void new_path(void)
{
	int fd;

	snprintf(path, sizeof(path), "/tmp/ptbpf-test-XXXXXX");
	fd = mkstemp(path);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	close(fd);
}

static inline struct ptb_op_enter op(uint64_t ts, uint32_t site)
{
	return (struct ptb_op_enter){ .h = { .len = sizeof(struct ptb_op_enter),
					     .kind = PTB_REC_OP_ENTER,
					     .site = site,
					     .ts_ns = ts } };
}

static inline void put(struct capture_writer *cw, uint32_t ring, uint64_t ts, uint32_t site)
{
	struct ptb_op_enter r = op(ts, site);

	CU_ASSERT_EQUAL(capture_writer__ring(cw, ring, &r, sizeof(r)), 0);
}

static inline void put_counter(struct capture_writer *cw, uint32_t id)
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

static inline int see(void *arg, const struct ptb_rec_hdr *rec)
{
	struct seen *s = arg;

	if (s->cnt < 100000) {
		s->ts[s->cnt] = rec->ts_ns;
		s->ids[s->cnt] = rec->kind == PTB_REC_COUNTER ?
					 ((const struct ptb_counter *)(const void *)rec)->id :
					 rec->site;
	}
	s->cnt++;
	return s->stop_at && s->cnt == s->stop_at ? -ECANCELED : 0;
}

static inline uint8_t *load(size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(1 << 22);

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	*len = fread(data, 1, 1 << 22, f);
	fclose(f);
	return data;
}

static inline void store(const uint8_t *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fwrite(data, 1, len, f), len);
	fclose(f);
}

#endif /* TESTS_CAPTURE_IO_H */
