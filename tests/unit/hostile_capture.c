/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Captures that are made to exhaust their reader, each named after what it attacks:
 *	hostile_capture NAME FILE [SCALE]
 *	hostile_capture --list
 * SCALE multiplies the number of records. Every file is well-formed: each record passes the reader's checks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "capture/capture.h"
#include "capture/capture_format.h"
#include "hostile_capture.h"

static struct capture_writer *cw;
static uint32_t names;
uint64_t hostile_scale = 1;

static void die(const char *what)
{
	fprintf(stderr, "hostile_capture: %s\n", what);
	exit(1);
}

void put_control(void *rec, uint8_t kind, size_t len)
{
	struct ptb_rec_hdr *h = rec;

	h->kind = kind;
	h->len = (uint16_t)len;
	if (capture_writer__control(cw, h))
		die("cannot write a control record");
}

void put_ring(void *rec, uint8_t kind, size_t len, uint64_t ts)
{
	struct ptb_rec_hdr *h = rec;

	h->kind = kind;
	h->len = (uint16_t)len;
	h->ts_ns = ts;
	if (!h->tgid)
		h->tgid = TGID;
	if (!h->tid)
		h->tid = h->tgid;
	if (capture_writer__ring(cw, 0, h, h->len))
		die("cannot write a record");
}

void put_round(uint64_t watermark_ns)
{
	if (capture_writer__round(cw, watermark_ns) || capture_writer__flush(cw))
		die("cannot write a round");
}

static void put_text(uint8_t kind, uint32_t id, const char *text, size_t len)
{
	static union {
		struct ptb_text t;
		char bytes[65536];
	} rec;

	if (len > 65000)
		die("a text is too long");
	memset(&rec, 0, sizeof(rec.t) + len + 8);
	rec.t.id = id;
	rec.t.text_len = (uint32_t)len;
	memcpy(rec.bytes + sizeof(rec.t), text, len);
	put_control(&rec, kind, sizeof(rec.t) + ((len + 7) & ~(size_t)7));
}

uint32_t put_name(const char *text)
{
	put_text(PTB_REC_NAME, ++names, text, strlen(text));
	return names;
}

void put_meta(const char *key, const char *json)
{
	static char text[64000];
	int n = snprintf(text, sizeof(text), "%s%c%s", key, '\0', json);

	put_text(PTB_REC_META, 0, text, (size_t)n);
}

void put_func(uint32_t func, const char *name, uint32_t kind)
{
	struct ptb_func f = { .func = func, .kind = kind, .name = put_name(name) };
	struct ptb_site s = { .id = 2 * func, .func = func, .role = PTB_ROLE_ENTER };

	put_control(&f, PTB_REC_FUNC, sizeof(f));
	put_control(&s, PTB_REC_SITE, sizeof(s));
	s.id++;
	s.role = PTB_ROLE_EXIT;
	put_control(&s, PTB_REC_SITE, sizeof(s));
}

void put_process(uint32_t tgid)
{
	struct ptb_process p = { .h.ts_ns = BEGIN_NS, .h.tgid = tgid, .h.tid = tgid };

	p.comm = put_name("python");
	p.cmdline = p.exe = p.comm;
	put_control(&p, PTB_REC_PROCESS, sizeof(p));
}

void put_clock(uint64_t mono_ns, uint64_t real_ns, uint64_t err_ns)
{
	struct ptb_clock c = { .h.ts_ns = mono_ns, .real_ns = real_ns, .err_ns = err_ns };

	put_control(&c, PTB_REC_CLOCK, sizeof(c));
}

void put_enter(uint32_t func, uint64_t ts, uint64_t sp)
{
	struct ptb_op_enter r = { .h.site = 2 * func, .sp = sp };

	put_ring(&r, PTB_REC_OP_ENTER, sizeof(r), ts);
}

void put_exit(uint32_t func, uint64_t ts, uint64_t sp)
{
	struct ptb_op_exit r = { .h.site = 2 * func + 1, .sp = sp };

	put_ring(&r, PTB_REC_OP_EXIT, sizeof(r), ts);
}

void put_scope(uint64_t ts, uint64_t sp, uint64_t handle, const char *text)
{
	struct {
		struct ptb_scope_name n;
		char text[512];
	} name = { .n = { .sp = sp + 16, .text_len = (uint32_t)strlen(text) } };
	struct ptb_scope_begin b = { .sp = sp, .handle = handle, .scope = 7 };

	memcpy(name.text, text, name.n.text_len);
	put_ring(&name, PTB_REC_SCOPE_NAME, sizeof(name.n) + ((name.n.text_len + 7) & ~7u), ts);
	put_ring(&b, PTB_REC_SCOPE_BEGIN, sizeof(b), ts);
}

void put_scope_end(uint64_t ts, uint64_t sp, uint64_t handle)
{
	struct ptb_scope_end e = { .sp = sp, .handle = handle };

	put_ring(&e, PTB_REC_SCOPE_END, sizeof(e), ts);
}

/* Repeats the last block of records before the end block `times` times: what compresses so well that
 * writing it record by record would take as long as reading it. */
static void repeat_tail(const char *path, uint64_t times)
{
	static uint8_t buf[8 << 20];
	struct capture_file_hdr fh;
	struct capture_block_hdr h;
	size_t used = 0, end;
	FILE *f = fopen(path, "r+b");
	long at;

	if (!f || fread(&fh, sizeof(fh), 1, f) != 1)
		die("cannot read the file");
	fseek(f, (long)fh.header_sz, SEEK_SET);
	for (at = ftell(f); fread(&h, sizeof(h), 1, f) == 1 && h.type != CAPTURE_END; at = ftell(f)) {
		if (h.type != CAPTURE_RING) {
			fseek(f, (long)h.stored_len, SEEK_CUR);
			continue;
		}
		memcpy(buf, &h, sizeof(h));
		if (fread(buf + sizeof(h), 1, h.stored_len, f) != h.stored_len)
			die("cannot read a block");
		used = sizeof(h) + h.stored_len;
	}
	if (h.type != CAPTURE_END || !used)
		die("there is no block to repeat");
	memcpy(buf + used, &h, sizeof(h));
	end = sizeof(h);
	fseek(f, at, SEEK_SET);
	for (uint64_t i = 0; i < times; i++)
		fwrite(buf, 1, used, f);
	fwrite(buf + used, 1, end, f);
	if (fclose(f))
		die("cannot write");
}

int main(int argc, char **argv)
{
	struct ptb_window w = { .h.ts_ns = BEGIN_NS, .begin = 1 };
	const struct hostile_case *c;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (c = hostile_cases; c->name; c++)
			printf("%s %s\n", c->name, c->reports);
		return 0;
	}
	for (c = hostile_cases; argc > 2 && c->name && strcmp(c->name, argv[1]);)
		c++;
	if (argc < 3 || !c->name)
		die("usage: hostile_capture NAME FILE [SCALE]");
	if (argc > 3)
		hostile_scale = strtoull(argv[3], NULL, 10);
	remove(argv[2]);
	if (capture_writer__open(argv[2], &cw))
		die("cannot create the file");
	put_control(&w, PTB_REC_WINDOW, sizeof(w));
	w.begin = 0;
	w.h.ts_ns = END_NS;
	put_control(&w, PTB_REC_WINDOW, sizeof(w));
	put_clock(BEGIN_NS, 1700000000000000000, 100);
	put_process(TGID);
	put_func(OP, "aten::add.Tensor", PTB_FUNC_OP);
	put_func(BOXED, "callBoxed", PTB_FUNC_BOXED);
	put_func(NODE, "autograd::engine::evaluate_function", PTB_FUNC_NODE_CALL);
	c->put();
	if (capture_writer__close(cw))
		die("cannot close the file");
	if (c->repeat)
		repeat_tail(argv[2], c->repeat * hostile_scale);
	return 0;
}
