/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Builds synthetic captures for tests: a few calls per scenario instead of wire records by hand. Owns
 * the file that it writes (a temporary one, removed by builder__free).
 *
 *	struct builder *b = builder__new(1000, 100000);          window [1000, 100000] ns
 *	uint32_t add = builder__op(b, "aten::add.Tensor");
 *	builder__thread(b, 10, 10);                              the records below are of tgid 10, tid 10
 *	builder__enter(b, add, 2000, 0x7000);                    ts, sp
 *	builder__exit(b, add, 3000, 0x6f00);
 *	struct session *s = builder__session(b, NULL);
 */
#ifndef TESTS_CAPTURE_BUILDER_H
#define TESTS_CAPTURE_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/capture.h"
#include "model/session.h"
#include "value_words.h"

struct builder;

/* A capture with a window of [begin_ns, end_ns]; end_ns 0: the WINDOW end record is left out. Asserts
 * (abort) instead of returning errors, as everything here does. */
struct builder *builder__new(uint64_t begin_ns, uint64_t end_ns);
void builder__free(struct builder *b);

/* ---- control records ---- */
uint32_t builder__name(struct builder *b, const char *text); /* name id */
/* A function with one entry and, if has_exit, one exit site. Returns its function id. */
uint32_t builder__func(struct builder *b, const char *name, uint32_t kind, bool has_exit);
uint32_t builder__op(struct builder *b, const char *name); /* kind OP with exit */
void builder__refused(struct builder *b, const char *name, uint32_t kind, uint32_t reason);
void builder__job(struct builder *b, uint32_t tgid, const char *json);
void builder__native_stack(struct builder *b, uint32_t tgid, uint32_t tid, const char *text);
void builder__process(struct builder *b, uint32_t tgid, const char *comm, const char *exe,
		      uint64_t start_ns);
void builder__thread_name(struct builder *b, uint32_t tgid, uint32_t tid, const char *comm);
void builder__opdef(struct builder *b, uint32_t tgid, uint64_t addr, const char *name, bool unobserved);
void builder__node_type(struct builder *b, uint32_t tgid, uint64_t vptr, const char *name);
void builder__lost(struct builder *b, uint64_t begin_ns, uint64_t end_ns, uint64_t cnt);
void builder__counter(struct builder *b, uint32_t id, uint64_t value);
void builder__meta(struct builder *b, const char *key, const char *json);
void builder__clock(struct builder *b, uint64_t mono_ns, uint64_t real_ns, uint64_t err_ns);

void builder__schema(struct builder *b, uint32_t func, const char *text);
void builder__opdef_schema(struct builder *b, uint32_t tgid, uint64_t opdef, const char *text);
void builder__keys(struct builder *b, uint32_t tgid, const struct session_keys *keys);

/* ---- ring records, of the current thread and ring ---- */
/* The next ring record carries these values (copied). */
void builder__values(struct builder *b, const struct value_words *w);
void builder__thread(struct builder *b, uint32_t tgid, uint32_t tid);
void builder__ring(struct builder *b, uint32_t ring);
void builder__enter(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp);
void builder__exit(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp);
void builder__args_more(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp);
void builder__catch(struct builder *b, uint64_t ts, uint64_t sp); /* a C++ exception is caught */
void builder__boxed(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, uint64_t opdef);
/* kinds PYFUNC and SCRIPT */
void builder__named(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, const char *text);
void builder__node(struct builder *b, uint32_t func, uint64_t ts, uint64_t sp, uint64_t vptr,
		   uint64_t seq, uint64_t fwd_thread, const char *text);
void builder__scope_name(struct builder *b, uint64_t ts, uint64_t sp, const char *text);
void builder__scope_begin(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle,
			  uint32_t scope, const char *text); /* text NULL: constructor only */
void builder__scope_end(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle);
/* What `with record_function(text)` leaves in 2.x: name and constructor. */
void builder__annotate(struct builder *b, uint64_t ts, uint64_t sp, uint64_t handle, const char *text);
/* The agent's records of an object: its fields but for the header and text_len. */
void builder__rf_begin(struct builder *b, uint64_t ts, const struct ptb_rf_begin *fields,
		       const char *text);
void builder__rf_end(struct builder *b, uint64_t ts, uint64_t rf);
void builder__seq(struct builder *b, uint64_t ts, uint64_t sp, uint64_t seq);
void builder__task(struct builder *b, uint32_t kind, uint64_t ts, uint32_t child_tgid,
		   uint32_t child_tid, bool group_dead, const char *comm);
void builder__round(struct builder *b, uint64_t watermark_ns);
void builder__mem_alloc(struct builder *b, uint64_t ts, uint64_t sp, uint64_t addr, uint64_t bytes);
void builder__mem_free(struct builder *b, uint64_t ts, uint64_t sp, uint64_t addr);
/* A ring record whose fields are set but for len, kind, time, process and thread. */
void builder__ring_rec(struct builder *b, struct ptb_rec_hdr *rec, uint8_t kind, size_t len, uint64_t ts);
/* Any record, ring or control by its kind; for malformed ones see the capture writer's tests. */
void builder__raw(struct builder *b, const struct ptb_rec_hdr *rec);

/* ---- use ---- */
/* Seals the file (once) and returns its path. */
const char *builder__path(struct builder *b);
/* Opens a session on the capture; owned by the builder, one per call. */
struct session *builder__session(struct builder *b, const struct session_opts *opts);

#endif /* TESTS_CAPTURE_BUILDER_H */
