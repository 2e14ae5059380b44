/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Converts an agent's operators to RF_BEGIN and RF_END. The window's edges are as sharp as those of
 * kernel probes: operators that ended before the window or began after it are not recorded, and
 * those that were open at its begin are marked.
 */
#define LOG_DOMAIN "agent"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/recorder_agent.h"
#include "target/torch.h"

/* ---- times ---- */

#define NEAR_TICKS (1ULL << 62) /* two readings on one machine are never further apart */

int agent_clock__add(struct agent_clock *c, uint64_t ticks, uint64_t mono_ns)
{
	const struct agent_clock_pair *last = c->cnt ? &c->pairs[c->cnt - 1] : NULL;

	if (last &&
	    (ticks <= last->ticks || mono_ns <= last->mono_ns || ticks - last->ticks > NEAR_TICKS))
		return -EINVAL;
	/* chunks that wait for a clock pair are later than the removed pairs */
	if (c->cnt >= LIMIT_AGENT_CLOCKS) {
		c->cnt -= LIMIT_AGENT_CLOCKS / 2;
		memmove(c->pairs, c->pairs + LIMIT_AGENT_CLOCKS / 2, c->cnt * sizeof(*c->pairs));
		c->at = 0;
	}
	vec_push(c->pairs, c->cnt, c->cap, (struct agent_clock_pair){ ticks, mono_ns });
	return 0;
}

bool agent_clock__covers(const struct agent_clock *c, uint64_t ticks)
{
	return c->ns || (c->cnt > 1 && ticks <= c->pairs[c->cnt - 1].ticks);
}

/* The last pair before these ticks that has a later one. */
static uint32_t find_pair(struct agent_clock *c, uint64_t ticks)
{
	uint32_t first = 0, last = c->cnt - 2;

	if (c->at <= last && c->pairs[c->at].ticks < ticks && ticks <= c->pairs[c->at + 1].ticks)
		return c->at;
	while (first < last) {
		uint32_t mid = first + (last - first + 1) / 2;

		if (c->pairs[mid].ticks < ticks)
			first = mid;
		else
			last = mid - 1;
	}
	return c->at = first;
}

uint64_t agent_clock__mono(struct agent_clock *c, uint64_t ticks)
{
	const struct agent_clock_pair *a, *b;
	__int128 ns;

	if (c->ns)
		return ticks;
	if (c->cnt < 2)
		return 0;
	a = &c->pairs[find_pair(c, ticks)];
	b = a + 1;
	ns = (__int128)a->mono_ns + ((__int128)ticks - (__int128)a->ticks) *
					    (__int128)(b->mono_ns - a->mono_ns) /
					    (__int128)(b->ticks - a->ticks);
	return ns < 0 || ns > INT64_MAX ? 0 : (uint64_t)ns;
}

void agent_clock__free(struct agent_clock *c)
{
	free(c->pairs);
	*c = (struct agent_clock){ 0 };
}

/*
 * ---- open operators ----
 *
 * Each is in two circles in the order of their begins: one of all, one of its stream. An agent
 * chooses the objects, streams and order of its records, so nothing here searches.
 */

/* Keys in `ids`: (object, BY_OBJECT) -> the entry; (0, OF_ALL), (stream, OF_STREAM) -> the first
 * entry of a circle. */
enum { OF_ALL, OF_STREAM, BY_OBJECT };

static struct agent_open *find_open(const struct agent_opens *o, uint64_t key, int kind)
{
	const uint64_t *known = hashmap__get(&o->ids, key, (uint64_t)kind);

	return known ? (struct agent_open *)*known : NULL;
}

/* The oldest in the stream; stream 0: of all streams. NULL: none. */
static struct agent_open *first_open(const struct agent_opens *o, uint32_t stream)
{
	return o->cnt ? find_open(o, stream, stream ? OF_STREAM : OF_ALL) : NULL;
}

static void join(struct agent_opens *o, struct agent_open *e, uint64_t key, int circle)
{
	struct agent_open *first = find_open(o, key, circle);

	e->next[circle] = e->prev[circle] = e;
	if (!first) {
		hashmap__put(&o->ids, key, (uint64_t)circle, (uint64_t)e);
		return;
	}
	e->next[circle] = first;
	e->prev[circle] = first->prev[circle];
	first->prev[circle]->next[circle] = e;
	first->prev[circle] = e;
}

static void leave(struct agent_opens *o, struct agent_open *e, uint64_t key, int circle)
{
	if (e->next[circle] == e)
		hashmap__del(&o->ids, key, (uint64_t)circle);
	else if (find_open(o, key, circle) == e)
		hashmap__put(&o->ids, key, (uint64_t)circle, (uint64_t)e->next[circle]);
	e->prev[circle]->next[circle] = e->next[circle];
	e->next[circle]->prev[circle] = e->prev[circle];
}

static size_t size_of(const struct ptb_rf_begin *rec)
{
	return offsetof(struct agent_open, rec) + rec->h.len;
}

static void remove_open(struct agent_opens *o, struct agent_open *e)
{
	leave(o, e, 0, OF_ALL);
	leave(o, e, e->stream, OF_STREAM);
	hashmap__del(&o->ids, e->rec.rf, BY_OBJECT);
	o->cnt--;
	o->bytes -= size_of(&e->rec);
	free(e);
}

/* Keeps a copy of rec, in place of an older one of the same object. */
static void keep_open(struct recorder *r, struct agent_opens *o, uint32_t stream,
		      const struct ptb_rf_begin *rec)
{
	struct agent_open *e = find_open(o, rec->rf, BY_OBJECT);
	size_t size = size_of(rec);

	if (e)
		/* another object at this address, whose end did not come */
		remove_open(o, e);
	if (o->cnt >= LIMIT_AGENT_OPEN || o->bytes + size > LIMIT_AGENT_OPEN_BYTES ||
	    !mem_limit__allows(size + hashmap__growth(&o->ids))) {
		agent__over(r);
		return;
	}
	e = xmalloc(size);
	memcpy(&e->rec, rec, rec->h.len);
	e->stream = stream;
	hashmap__put(&o->ids, rec->rf, BY_OBJECT, (uint64_t)e);
	join(o, e, 0, OF_ALL);
	join(o, e, stream, OF_STREAM);
	o->cnt++;
	o->bytes += size;
}

void agent_open__clear(struct agent_opens *o)
{
	struct agent_open *e;

	while ((e = first_open(o, 0)))
		remove_open(o, e);
	hashmap__clear(&o->ids);
}

/* ---- records ---- */

union rf_record {
	struct ptb_rf_begin begin;
	struct ptb_rf_end end;
	struct ptb_rec_hdr h;
	char room[sizeof(struct ptb_rf_begin) + PTB_CHUNK_MAX + 8];
};

static void put_op(struct recorder *r, const struct ptb_rec_hdr *h)
{
	recorder__peek(r, h);
	recorder__put_ring(r, AGENT_RING_OPS, h);
}

static uint64_t opdef_of(const struct agent_proc *p, uint64_t schema)
{
	if (!schema || schema & PTB_OPEN_NAME || p->schema_off < 0 ||
	    schema < (uint64_t)p->schema_off)
		return schema; /* still the same for all calls of the operator */
	return schema - (uint64_t)p->schema_off;
}

/* A schema's name and overload as the agent sends them; false: malformed. */
static bool sent_name(const struct ptb_arec_name *n, char *name, size_t cap)
{
	const char *text = (const char *)(n + 1);
	uint32_t len = n->r.aux & 0xffff, more = n->r.aux >> 16, padded = (len + 7) & ~7u;

	if (padded + more > n->r.len - sizeof(*n))
		return false;
	snprintf(name, cap, "%.*s%s%.*s", (int)len, text, more ? "." : "", (int)more,
		 text + padded);
	return true;
}

/* Adds the agent's text only if the dispatcher lacks the whole name. */
static void learn_op_name(struct recorder *r, struct agent_proc *p, const struct ptb_arec *a)
{
	const struct ptb_arec_name *n = (const void *)a;
	uint64_t opdef = opdef_of(p, n->schema);
	char name[513], sent[513];

	if (!opdef || hashmap__get(&r->opdefs, p->tgid, opdef) ||
	    !recorder__has_room(r, &r->opdefs, p->tgid))
		return;
	if (!sent_name(n, sent, sizeof(sent))) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	if (p->schema_off < 0 || opdef & PTB_OPEN_NAME ||
	    live_ops__name_at((pid_t)p->tgid, opdef, p->old_string_abi, name, sizeof(name)))
		memcpy(name, sent, sizeof(name));
	recorder__opdef(r, p->tgid, opdef, name, 0);
}

/* Sets all fields of a record's head except the length. */
static void fill_op_head(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
			 const struct ptb_arec *a, uint64_t ts, union rf_record *u)
{
	u->h.kind = a->kind == PTB_AREC_BEGIN ? PTB_REC_RF_BEGIN : PTB_REC_RF_END;
	u->h.flags = (uint8_t)(PTB_F_AGENT | (a->flags & PTB_AREC_ARGS ? PTB_F_ARGS : 0) |
			       (a->flags & PTB_AREC_ARGS_CUT ? PTB_F_ARGS_CUT : 0) |
			       (a->flags & PTB_AREC_TEXT_CUT ? PTB_F_TEXT_CUT : 0));
	u->h.ts_ns = ts;
	u->h.tgid = p->tgid;
	u->h.tid = agent__tid(r, p, c->tid);
}

/* false: malformed. */
static bool make_begin(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a, uint64_t ts, union rf_record *u,
		       uint64_t *stack_number)
{
	const struct ptb_arec_begin *b = (const void *)a;
	const char *rest = (const char *)(b + 1), *end = (const char *)a + a->len;
	uint32_t text = a->aux >> 8;

	memset(&u->begin, 0, sizeof(u->begin));
	u->begin.rf = b->rf;
	u->begin.opdef = opdef_of(p, b->schema);
	u->begin.seq = b->seq;
	u->begin.logical = c->logical;
	u->begin.scope = a->aux & 0xff;
	if (a->flags & PTB_AREC_FWD) {
		if (end - rest < 8)
			return false;
		memcpy(&u->begin.fwd_thread, rest, 8);
		rest += 8;
	}
	*stack_number = 0;
	if (a->flags & PTB_AREC_STACK) {
		if (end - rest < 8)
			return false;
		memcpy(stack_number, rest, 8);
		rest += 8;
	}
	if (text > (size_t)(end - rest))
		return false;
	u->begin.text_len = text;
	memcpy(&u->begin + 1, rest, (size_t)(end - rest)); /* the padded text, and the values */
	u->h.len = (uint16_t)(sizeof(u->begin) + (size_t)(end - rest));
	fill_op_head(r, p, c, a, ts, u);
	return true;
}

static void make_end(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		     const struct ptb_arec *a, uint64_t ts, union rf_record *u)
{
	const struct ptb_arec_end *e = (const void *)a;

	memset(&u->end, 0, sizeof(u->end));
	u->end.rf = e->rf;
	memcpy(&u->end + 1, e + 1, a->len - sizeof(*e));
	u->h.len = (uint16_t)(sizeof(u->end) + a->len - sizeof(*e));
	fill_op_head(r, p, c, a, ts, u);
}

/* ---- the window's begin ---- */

static void forget_open(struct agent_opens *opens, uint64_t rf)
{
	struct agent_open *o = find_open(opens, rf, BY_OBJECT);

	if (o)
		remove_open(opens, o);
}

void agent_ops__record_open(struct recorder *r, struct agent_proc *p, uint32_t stream)
{
	struct agent_open *o;

	while ((o = first_open(&p->open, stream))) {
		o->rec.h.ts_ns = r->begin_ns;
		o->rec.h.flags |= PTB_F_OPEN;
		put_op(r, &o->rec.h);
		if (r->holding)
			keep_open(r, &p->now_open, o->stream, &o->rec);
		remove_open(&p->open, o);
	}
}

void agent_ops__record_held(struct recorder *r, struct agent_proc *p, uint64_t since_ns)
{
	struct agent_open *first = first_open(&p->now_open, 0), *o = first;

	while (o) {
		struct ptb_rec_hdr h = o->rec.h;

		if (h.ts_ns < since_ns) { /* later ones have a record that is held */
			o->rec.h.ts_ns = since_ns;
			o->rec.h.flags |= PTB_F_OPEN;
			put_op(r, &o->rec.h);
		}
		o->rec.h = h;
		o = o->next[OF_ALL] == first ? NULL : o->next[OF_ALL];
	}
}

static void before_window(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
			  const struct ptb_arec *a, union rf_record *u)
{
	uint64_t stack_number;

	if (a->kind == PTB_AREC_END)
		forget_open(&p->open, ((const struct ptb_arec_end *)a)->rf);
	else if (!make_begin(r, p, c, a, 0, u, &stack_number))
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
	else
		keep_open(r, &p->open, c->stream, &u->begin);
}

/*
 * Writes the operator's Python stack before the operator. There is none if the operator began
 * before the window (*op marks that), has no frames, or lost its stack (counted at the loss).
 */
static void put_stack_of(struct recorder *r, struct agent_proc *p, struct ptb_rec_hdr *op,
			 uint64_t number)
{
	const uint64_t *id = hashmap__get(&p->stacks, number, 0);
	const uint64_t *least = hashmap__get(&p->streams, number >> 32, 3);
	struct ptb_py_stack s = { .h = *op };

	/* The agent reads its clock after the probe has read the Python stack. If the window began
	 * between the two, the operator has no stack, and later ones of its thread have. */
	if (!id && least && number < *least) {
		op->ts_ns = r->begin_ns;
		op->flags |= PTB_F_OPEN;
	}
	if (!id)
		return;
	s.h.len = sizeof(s);
	s.h.kind = PTB_REC_PY_STACK;
	s.h.flags = PTB_F_AGENT;
	s.id = *id;
	hashmap__del(&p->stacks, number, 0);
	put_op(r, &s.h);
}

/* Steps count before and after the window, too. */
static void count_step(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a, uint64_t ts)
{
	uint64_t stack_number;
	union rf_record u;

	if (a->kind == PTB_AREC_END)
		make_end(r, p, c, a, ts, &u);
	else if (!make_begin(r, p, c, a, ts, &u, &stack_number))
		return;
	recorder__steps_record(r, &u.h);
}

/* Does it end with the next record, as most operators do? */
static bool ends_next(const struct ptb_chunk *c, const struct ptb_arec *a, uint64_t rf)
{
	const char *next = (const char *)a + a->len, *end = (const char *)c + c->len;
	const struct ptb_arec_end *e = (const void *)next;

	return (size_t)(end - next) >= sizeof(*e) && e->r.kind == PTB_AREC_END && e->rf == rf;
}

static void follow_open(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
			const struct ptb_arec *a, const union rf_record *u)
{
	if (a->kind == PTB_AREC_END) {
		if (u->end.rf != p->ends_next)
			forget_open(&p->now_open, u->end.rf);
		return;
	}
	p->ends_next = ends_next(c, a, u->begin.rf) ? u->begin.rf : 0;
	if (!p->ends_next)
		keep_open(r, &p->now_open, c->stream, &u->begin);
}

void agent_ops__record(struct recorder *r, struct agent_proc *p, const struct ptb_chunk *c,
		       const struct ptb_arec *a)
{
	uint64_t ts, stack_number;
	union rf_record u;

	if (a->kind == PTB_AREC_NAME) {
		learn_op_name(r, p, a);
		return;
	}
	if (a->kind != PTB_AREC_BEGIN && a->kind != PTB_AREC_END)
		return;
	ts = agent_clock__mono(&p->clock, a->ticks);
	if (!ts || agent__is_ahead(p, ts)) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	}
	if (r->steps)
		count_step(r, p, c, a, ts);
	if (!r->begin_ns || ts < r->begin_ns) {
		before_window(r, p, c, a, &u);
		return;
	}
	if (r->end_ns && ts > r->end_ns)
		return;
	agent_ops__record_open(r, p, c->stream);
	if (a->kind == PTB_AREC_END) {
		make_end(r, p, c, a, ts, &u);
	} else if (!make_begin(r, p, c, a, ts, &u, &stack_number)) {
		agent__count(r, PTB_CNT_AGENT_BAD, 1);
		return;
	} else if (stack_number) {
		put_stack_of(r, p, &u.h, stack_number);
	}
	put_op(r, &u.h);
	if (r->holding)
		follow_open(r, p, c, a, &u);
}
