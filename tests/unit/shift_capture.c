/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * shift_capture FROM TO HOST MONO_NS REAL_NS: the capture as a machine HOST would have recorded it whose CLOCK_MONOTONIC is ahead by
 * MONO_NS, and whose Unix time by REAL_NS: wrong by so much.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "ranks/ranks_priv.h"

struct shift {
	struct capture_writer *cw;
	struct remap map;
	const char *host;
	int64_t real_ns;
	uint32_t records;
	uint64_t buf[8192];
};

static int put_meta(struct shift *s, const char *key, const char *text)
{
	union {
		struct ptb_text rec;
		char room[1024];
	} u = { .rec = { .h = { .kind = PTB_REC_META, .ts_ns = 1 } } };
	int n = snprintf(u.room + sizeof(u.rec), sizeof(u.room) - sizeof(u.rec) - 8, "%s%c\"%s\"",
			 key, '\0', text);

	u.rec.text_len = (uint32_t)n;
	u.rec.h.len = (uint16_t)((sizeof(u.rec) + (size_t)n + 7) & ~(size_t)7);
	return capture_writer__control(s->cw, &u.rec.h);
}

static int on_control(void *arg, const struct ptb_rec_hdr *rec)
{
	struct shift *s = arg;
	const char *key = (const char *)((const struct ptb_text *)(const void *)rec + 1);
	struct ptb_clock *c = (void *)s->buf;

	if (rec->kind == PTB_REC_META && !strcmp(key, "host"))
		return put_meta(s, "host", s->host);
	if (rec->kind == PTB_REC_META && !strcmp(key, "boot_id"))
		return put_meta(s, "boot_id", s->host);
	if (!remap__record(&s->map, rec, s->buf))
		return -1;
	if (rec->kind == PTB_REC_CLOCK)
		c->real_ns += (uint64_t)s->real_ns;
	return capture_writer__control(s->cw, (const void *)s->buf);
}

static int on_ring(void *arg, const struct ptb_rec_hdr *rec)
{
	struct shift *s = arg;
	const struct ptb_rec_hdr *h = (const void *)s->buf;

	if (!remap__record(&s->map, rec, s->buf) || capture_writer__ring(s->cw, 0, h, h->len))
		return -1;
	return ++s->records % 1000 ? 0 : capture_writer__round(s->cw, h->ts_ns);
}

int main(int argc, char **argv)
{
	static struct shift s;
	static struct remap_space space;
	struct capture_reader *cr;
	int ret;

	if (argc != 6)
		return 2;
	s.host = argv[3];
	s.map = (struct remap){ .space = &space, .shift_ns = atoll(argv[4]), .end_ns = UINT64_MAX };
	s.real_ns = atoll(argv[5]);
	if (capture_reader__open(argv[1], capture__open(argv[1]), &cr) ||
	    capture_writer__open(argv[2], &s.cw))
		return 1;
	ret = capture_reader__control(cr, on_control, &s);
	if (!ret)
		ret = capture_reader__stream(cr, on_ring, &s);
	if (!ret)
		ret = capture_writer__close(s.cw);
	capture_reader__close(cr);
	remap__clear(&s.map);
	return ret ? 1 : 0;
}
