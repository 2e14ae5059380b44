/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Synthetic captures; see capture_builder.h. Site ids: 2 * func for the entry, 2 * func + 1 for the exit. */
#include "capture_builder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef NDEBUG
#error "the builder reports failures through assert"
#endif

#define SESSIONS_MAX 8

struct builder {
	char path[64];
	struct capture_writer *cw;
	struct capture_reader *cr;
	struct session *sessions[SESSIONS_MAX];
	uint32_t session_cnt;
	uint64_t end_ns;
	uint32_t names, funcs;
	uint32_t tgid, tid, ring;
	struct value_words values; /* of the next ring record */
	uint8_t values_flags;      /* 0: none */
};

static void control(struct builder *b, struct ptb_rec_hdr *h, uint8_t kind, size_t len)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	assert(!capture_writer__control(b->cw, h));
}

static void ring_rec(struct builder *b, struct ptb_rec_hdr *h, uint8_t kind, size_t len, uint64_t ts)
{
	size_t bytes = b->values.cnt * sizeof(b->values.words[0]);
	struct ptb_rec_hdr *whole;

	h->kind = kind;
	h->len = (uint16_t)len;
	h->ts_ns = ts;
	h->tgid = b->tgid;
	h->tid = b->tid;
	if (!b->values_flags) {
		assert(!capture_writer__ring(b->cw, b->ring, h, h->len));
		return;
	}
	whole = malloc(len + bytes);
	assert(whole && len + bytes <= UINT16_MAX);
	h->len = (uint16_t)(len + bytes);
	h->flags |= b->values_flags;
	memcpy(whole, h, len);
	memcpy((char *)whole + len, b->values.words, bytes);
	assert(!capture_writer__ring(b->cw, b->ring, whole, whole->len));
	free(whole);
	b->values_flags = 0;
	b->values.cnt = 0;
}

void builder__values(struct builder *b, const struct value_words *w)
{
	b->values = *w;
	b->values_flags = PTB_F_ARGS;
}

struct builder *builder__new(uint64_t begin_ns, uint64_t end_ns)
{
	struct ptb_window w = { .h.ts_ns = begin_ns, .begin = 1 };
	struct builder *b = calloc(1, sizeof(*b));
	int fd;

	assert(b);
	snprintf(b->path, sizeof(b->path), "/tmp/ptbpf-test-XXXXXX");
	fd = mkstemp(b->path);
	assert(fd >= 0);
	close(fd);
	assert(!capture_writer__open(b->path, &b->cw));
	b->end_ns = end_ns;
	b->tgid = b->tid = 1;
	control(b, &w.h, PTB_REC_WINDOW, sizeof(w));
	return b;
}

void builder__free(struct builder *b)
{
	for (uint32_t i = 0; i < b->session_cnt; i++)
		session__free(b->sessions[i]);
	capture_reader__close(b->cr);
	capture_writer__close(b->cw);
	unlink(b->path);
	free(b);
}

/* ---- control records ---- */

static void text_rec(struct builder *b, uint8_t kind, uint32_t id, const char *text, size_t len)
{
	char buf[sizeof(struct ptb_text) + 8192] __attribute__((aligned(8))) = { 0 };
	struct ptb_text *t = (void *)buf;

	assert(len <= 8192 - 8);
	t->id = id;
	t->text_len = (uint32_t)len;
	memcpy(buf + sizeof(*t), text, len);
	control(b, &t->h, kind, sizeof(*t) + ((len + 7) & ~(size_t)7));
}

uint32_t builder__name(struct builder *b, const char *text)
{
	text_rec(b, PTB_REC_NAME, ++b->names, text, strlen(text));
	return b->names;
}

static void site(struct builder *b, uint32_t id, uint32_t func, uint32_t role, uint32_t lib)
{
	struct ptb_site s = { .id = id, .func = func, .role = role, .lib = lib, .offset = id * 16ULL };

	control(b, &s.h, PTB_REC_SITE, sizeof(s));
}

uint32_t builder__func(struct builder *b, const char *name, uint32_t kind, bool has_exit)
{
	struct ptb_func f = { .func = ++b->funcs, .kind = kind };
	uint32_t lib = builder__name(b, "/usr/lib/libtorch_cpu.so");

	f.name = builder__name(b, name);
	control(b, &f.h, PTB_REC_FUNC, sizeof(f));
	site(b, 2 * f.func, f.func, PTB_ROLE_ENTER, lib);
	if (has_exit)
		site(b, 2 * f.func + 1, f.func, PTB_ROLE_EXIT, lib);
	return f.func;
}

uint32_t builder__op(struct builder *b, const char *name)
{
	return builder__func(b, name, PTB_FUNC_OP, true);
}

void builder__refused(struct builder *b, const char *name, uint32_t kind, uint32_t reason)
{
	struct ptb_func f = { .func = ++b->funcs, .kind = kind, .reason = reason };

	f.name = builder__name(b, name);
	control(b, &f.h, PTB_REC_FUNC, sizeof(f));
}

void builder__process(struct builder *b, uint32_t tgid, const char *comm, const char *exe, uint64_t start_ns)
{
	struct ptb_process p = { .h.ts_ns = start_ns, .h.tgid = tgid, .h.tid = tgid };

	p.comm = builder__name(b, comm);
	p.cmdline = builder__name(b, "python3 train.py");
	p.exe = builder__name(b, exe);
	control(b, &p.h, PTB_REC_PROCESS, sizeof(p));
}

void builder__thread_name(struct builder *b, uint32_t tgid, uint32_t tid, const char *comm)
{
	struct ptb_thread t = { .h.tgid = tgid, .h.tid = tid };

	t.comm = builder__name(b, comm);
	control(b, &t.h, PTB_REC_THREAD, sizeof(t));
}

static void addr_name(struct builder *b, uint8_t kind, uint32_t tgid, uint64_t addr,
		      const char *name, uint32_t flags)
{
	struct ptb_addr_name a = { .h.tgid = tgid, .addr = addr, .flags = flags };

	a.name = builder__name(b, name);
	control(b, &a.h, kind, sizeof(a));
}

void builder__opdef(struct builder *b, uint32_t tgid, uint64_t addr, const char *name, bool unobserved)
{
	addr_name(b, PTB_REC_OPDEF, tgid, addr, name, unobserved ? PTB_OPDEF_UNOBSERVED : 0);
}

void builder__node_type(struct builder *b, uint32_t tgid, uint64_t vptr, const char *name)
{
	addr_name(b, PTB_REC_NODE_TYPE, tgid, vptr, name, 0);
}

void builder__schema(struct builder *b, uint32_t func, const char *text)
{
	struct ptb_schema s = { .func = func };

	s.name = builder__name(b, text);
	control(b, &s.h, PTB_REC_SCHEMA, sizeof(s));
}

void builder__opdef_schema(struct builder *b, uint32_t tgid, uint64_t opdef, const char *text)
{
	struct ptb_schema s = { .h.tgid = tgid, .opdef = opdef };

	s.name = builder__name(b, text);
	control(b, &s.h, PTB_REC_SCHEMA, sizeof(s));
}

void builder__keys(struct builder *b, uint32_t tgid, const struct session_keys *keys)
{
	struct ptb_keys k = { .h.tgid = tgid,
			      .autograd = keys->autograd,
			      .nested = keys->nested,
			      .no_strides = keys->no_strides,
			      .sparse_csr = keys->sparse_csr };

	control(b, &k.h, PTB_REC_KEYS, sizeof(k));
}

void builder__lost(struct builder *b, uint64_t begin_ns, uint64_t end_ns, uint64_t cnt)
{
	struct ptb_lost l = { .h.ts_ns = begin_ns, .end_ns = end_ns, .cnt = cnt };

	control(b, &l.h, PTB_REC_LOST, sizeof(l));
}

void builder__counter(struct builder *b, uint32_t id, uint64_t value)
{
	struct ptb_counter c = { .id = id, .value = value };

	control(b, &c.h, PTB_REC_COUNTER, sizeof(c));
}

void builder__meta(struct builder *b, const char *key, const char *json)
{
	char text[4096];
	int n = snprintf(text, sizeof(text), "%s%c%s", key, '\0', json);

	assert(n > 0 && n < (int)sizeof(text));
	text_rec(b, PTB_REC_META, 0, text, (size_t)n);
}

static void thread_text(struct builder *b, uint8_t kind, uint32_t tgid, uint32_t tid, const char *text)
{
	size_t len = strlen(text);
	union {
		struct ptb_text rec;
		char room[8192];
	} u = { .rec.h.tgid = tgid, .rec.h.tid = tid };

	assert(sizeof(u.rec) + len + 8 <= sizeof(u));
	u.rec.text_len = (uint32_t)len;
	memcpy(u.room + sizeof(u.rec), text, len);
	control(b, &u.rec.h, kind, (uint32_t)(sizeof(u.rec) + len + 7) & ~7u);
}

void builder__job(struct builder *b, uint32_t tgid, const char *json)
{
	thread_text(b, PTB_REC_JOB, tgid, 0, json);
}

void builder__native_stack(struct builder *b, uint32_t tgid, uint32_t tid, const char *text)
{
	thread_text(b, PTB_REC_NATIVE_STACK, tgid, tid, text);
}

void builder__clock(struct builder *b, uint64_t mono_ns, uint64_t real_ns, uint64_t err_ns)
{
	struct ptb_clock c = { .h.ts_ns = mono_ns, .real_ns = real_ns, .err_ns = err_ns };

	control(b, &c.h, PTB_REC_CLOCK, sizeof(c));
}

/* ---- ring records ---- */

void builder__thread(struct builder *b, uint32_t tgid, uint32_t tid)
{
	b->tgid = tgid;
	b->tid = tid;
}

void builder__ring(struct builder *b, uint32_t ring)
{
	b->ring = ring;
}

void builder__enter(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp)
{
	struct ptb_op_enter r = { .h.site = 2 * func, .sp = sp };

	ring_rec(b, &r.h, PTB_REC_OP_ENTER, sizeof(r), ts);
}

void builder__exit(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp)
{
	struct ptb_op_exit r = { .h.site = 2 * func + 1, .sp = sp };

	ring_rec(b, &r.h, PTB_REC_OP_EXIT, sizeof(r), ts);
}

void builder__args_more(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp)
{
	struct ptb_op_enter r = { .h.site = 2 * func, .sp = sp };

	ring_rec(b, &r.h, PTB_REC_ARGS_MORE, sizeof(r), ts);
}

void builder__catch(struct builder *b, uint64_t ts, uint64_t sp)
{
	struct ptb_op_exit r = { .sp = sp };

	ring_rec(b, &r.h, PTB_REC_CATCH, sizeof(r), ts);
}

void builder__boxed(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, uint64_t opdef)
{
	struct ptb_boxed_enter r = { .h.site = 2 * func, .sp = sp, .opdef = opdef };

	ring_rec(b, &r.h, PTB_REC_BOXED_ENTER, sizeof(r), ts);
}

/* Copies `fixed` and a text behind it; *text_len is inside `fixed`. */
static void ring_text(struct builder *b, struct ptb_rec_hdr *fixed, size_t sz, uint32_t *text_len,
		      uint8_t kind, uint64_t ts, const char *text)
{
	char buf[512] __attribute__((aligned(8))) = { 0 };
	size_t len = text ? strlen(text) : 0;

	assert(sz + len + 8 <= sizeof(buf));
	*text_len = (uint32_t)len;
	memcpy(buf, fixed, sz);
	if (len)
		memcpy(buf + sz, text, len);
	ring_rec(b, (void *)buf, kind, sz + ((len + 7) & ~(size_t)7), ts);
}

void builder__named(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, const char *text)
{
	struct ptb_named_enter r = { .h.site = 2 * func, .sp = sp };

	ring_text(b, &r.h, sizeof(r), &r.text_len, PTB_REC_NAMED_ENTER, ts, text);
}

void builder__node(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, uint64_t vptr,
		   uint64_t seq, uint64_t fwd_thread, const char *text)
{
	struct ptb_node_enter r = {
		.h.site = 2 * func, .sp = sp, .node = 0x5000, .vptr = vptr, .seq = seq, .fwd_thread = fwd_thread
	};

	ring_text(b, &r.h, sizeof(r), &r.text_len, PTB_REC_NODE_ENTER, ts, text);
}

void builder__scope_name(struct builder *b, uint64_t ts, uint64_t sp, const char *text)
{
	struct ptb_scope_name r = { .sp = sp };

	ring_text(b, &r.h, sizeof(r), &r.text_len, PTB_REC_SCOPE_NAME, ts, text);
}

void builder__scope_begin(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle,
			  uint32_t scope, const char *text)
{
	struct ptb_scope_begin r = { .sp = sp, .handle = handle, .scope = scope };

	ring_text(b, &r.h, sizeof(r), &r.text_len, PTB_REC_SCOPE_BEGIN, ts, text);
}

void builder__scope_end(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle)
{
	struct ptb_scope_end r = { .sp = sp, .handle = handle };

	ring_rec(b, &r.h, PTB_REC_SCOPE_END, sizeof(r), ts);
}

void builder__annotate(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle, const char *text)
{
	builder__scope_name(b, ts - 1, sp, text);
	builder__scope_begin(b, ts, sp - 0x40, handle, 7, NULL);
}

void builder__rf_begin(struct builder *b, uint64_t ts, const struct ptb_rf_begin *fields, const char *text)
{
	struct ptb_rf_begin r = *fields;

	ring_text(b, &r.h, sizeof(r), &r.text_len, PTB_REC_RF_BEGIN, ts, text);
}

void builder__rf_end(struct builder *b, uint64_t ts, uint64_t rf)
{
	struct ptb_rf_end r = { .rf = rf };

	ring_rec(b, &r.h, PTB_REC_RF_END, sizeof(r), ts);
}

void builder__seq(struct builder *b, uint64_t ts, uint64_t sp, uint64_t seq)
{
	struct ptb_seq r = { .sp = sp, .seq = seq };

	ring_rec(b, &r.h, PTB_REC_SEQ, sizeof(r), ts);
}

void builder__task(struct builder *b, uint32_t kind, uint64_t ts, uint32_t child_tgid,
		   uint32_t child_tid, bool group_dead, const char *comm)
{
	struct ptb_task r = { .child_tgid = child_tgid, .child_tid = child_tid, .group_dead = group_dead };

	strncpy(r.comm, comm ? comm : "", sizeof(r.comm) - 1);
	ring_rec(b, &r.h, (uint8_t)kind, sizeof(r), ts);
}

void builder__mem_alloc(struct builder *b, uint64_t ts, uint64_t sp, uint64_t addr, uint64_t bytes)
{
	struct ptb_mem_alloc r = { .sp = sp, .addr = addr, .bytes = bytes };

	ring_rec(b, &r.h, PTB_REC_MEM_ALLOC, sizeof(r), ts);
}

void builder__mem_free(struct builder *b, uint64_t ts, uint64_t sp, uint64_t addr)
{
	struct ptb_mem_free r = { .sp = sp, .addr = addr };

	ring_rec(b, &r.h, PTB_REC_MEM_FREE, sizeof(r), ts);
}

void builder__ring_rec(struct builder *b, struct ptb_rec_hdr *rec, uint8_t kind, size_t len, uint64_t ts)
{
	ring_rec(b, rec, kind, len, ts);
}

void builder__round(struct builder *b, uint64_t watermark_ns)
{
	assert(!capture_writer__round(b->cw, watermark_ns));
}

void builder__raw(struct builder *b, const struct ptb_rec_hdr *rec)
{
	if (rec->kind >= PTB_REC_USER_FIRST)
		assert(!capture_writer__control(b->cw, rec));
	else
		assert(!capture_writer__ring(b->cw, b->ring, rec, rec->len));
}

/* ---- use ---- */

static void write_window_end(struct builder *b)
{
	struct ptb_window w = { .h.ts_ns = b->end_ns, .reason = PTB_STOP_DURATION };

	if (b->end_ns)
		control(b, &w.h, PTB_REC_WINDOW, sizeof(w));
	b->end_ns = 0;
}

const char *builder__path(struct builder *b)
{
	if (b->cw) {
		write_window_end(b);
		assert(!capture_writer__close(b->cw));
		b->cw = NULL;
	}
	return b->path;
}

static struct capture_reader *reader(struct builder *b)
{
	const char *path = builder__path(b);

	if (!b->cr)
		assert(!capture_reader__open(path, capture__open(path), &b->cr));
	return b->cr;
}

struct session *builder__session(struct builder *b, const struct session_opts *opts)
{
	struct session *s = NULL;

	assert(b->session_cnt < SESSIONS_MAX);
	assert(!session__open(reader(b), opts, &s));
	b->sessions[b->session_cnt++] = s;
	return s;
}
