/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A Perfetto trace, made of what the writers of the Chrome trace write: it takes their events as
 * tokens instead of as text, so both formats show the same. Owns how an event of one is an event of
 * the other; knows no records.
 *
 * Args of an event become debug annotations. An event's own keys come before its args, so its
 * packet is begun when they open and ended with the event. Keys that say nothing here are left out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "export/chrome_priv.h"
#include "export/perfetto_priv.h"

enum depth { DEPTH_ROOT = 1, DEPTH_EVENTS, DEPTH_EVENT, DEPTH_ARGS };

static const struct {
	const char *text;
	enum special is;
} specials[] = {
	{ "Record function id", KEY_LEFT_OUT }, /* as "External id" */
	{ "Ev Idx", KEY_LEFT_OUT },             /* as well, from 0 */
	{ "traceName", KEY_LEFT_OUT },          /* the file's own */
	{ "Call stack", KEY_CALL_STACK },
	{ "ptbpf.stands_for_us", KEY_WEIGHT },
	{ "name", KEY_NAME },
	{ "correlation", KEY_CORRELATION },
	{ "context", KEY_CONTEXT },
	{ "inContext", KEY_CONTEXT },
	{ "stream", KEY_STREAM },
	{ "grid", KEY_GRID },
	{ "block", KEY_BLOCK },
	{ "cuda_runtime", CAT_CALL },
	{ "cuda_driver", CAT_CALL },
	{ "kernel", CAT_KERNEL },
	{ "gpu_memcpy", CAT_WORK },
	{ "gpu_memset", CAT_WORK },
	{ "cuda_sync", CAT_ROW },
	{ "cuda_event", CAT_ROW },
	{ "gpu_user_annotation", CAT_ROW },
	{ "overhead", CAT_ROW },
	{ "ac2g", CAT_LAUNCH_FLOW }, /* by the work's correlation here */
	{ "process_name", META_PROCESS },
	{ "thread_name", META_THREAD },
	{ "traceEvents", KEY_EVENTS },
};

static const struct arg_fields annotation_fields = { DICT_KEY, 1, 2, 3, 4, 5, 6, 17 };
static const struct arg_fields gpu_arg_fields = { DICT_GPU_KEY, 1, 4, 4, 3, 5, 6, 7 };

static enum special special_of(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
		if (!strncmp(specials[i].text, text, len) && !specials[i].text[len])
			return specials[i].is;
	return PLAIN;
}

static uint32_t intern_special(struct perfetto *p, enum dict which, const char *text, size_t len,
			       uint8_t *is)
{
	uint32_t id = perfetto_file__intern(&p->file, which, text, len);

	if (id > p->specials[which].is_cnt)
		vec_push(p->specials[which].is, p->specials[which].is_cnt,
			 p->specials[which].is_cap, (uint8_t)special_of(text, len));
	*is = p->specials[which].is[id - 1];
	return id;
}

/* Its own keys are all there. */
static void begin_args(struct perfetto *p)
{
	p->to = &p->file.out;
	p->fields = &annotation_fields;
	if (perfetto__is_work(p)) {
		p->to = &p->launch;
		p->fields = &gpu_arg_fields;
		p->launch.len = 0;
	} else if (p->ev.ph == 'X' || p->ev.ph == 'i' || p->ev.ph == 'T') {
		perfetto_event__begin(p);
	}
}

/* ---- its own keys ---- */

static void take_own_text(struct perfetto *p, const char *text, size_t len)
{
	struct perfetto_event *ev = &p->ev;

	switch (p->key[0]) {
	case 'p':
		if (p->key[1] == 'h')
			ev->ph = *text;
		else
			ev->elsewhere = true; /* pid */
		break;
	case 's':
		ev->scope = *text;
		break;
	case 'b':
		ev->enclosing = true; /* bp */
		break;
	case 'c':
		ev->cat = intern_special(p, DICT_CATEGORY, text, len, &ev->is);
		break;
	case 'n':
		if (ev->ph == 'M')
			ev->is = (uint8_t)special_of(text, len);
		else
			ev->name = perfetto_file__intern(&p->file, DICT_NAME, text, len);
		break;
	default:
		break;
	}
}

static void take_own_number(struct perfetto *p, const struct jsonw_token *t)
{
	struct perfetto_event *ev = &p->ev;

	switch (p->key[0]) {
	case 'p':
		ev->pid = t->i;
		break;
	case 'i':
		ev->id = t->u;
		break;
	case 'd':
		ev->dur = t->u;
		break;
	default: /* tid, ts */
		if (p->key[1] == 'i')
			ev->tid = (uint32_t)t->u;
		else
			ev->begin = t->u;
		break;
	}
}

/* ---- args ---- */

/* Opens the argument that is to be written; false: it is left out. */
static bool begin_arg(struct perfetto *p, size_t *arg)
{
	uint32_t field = EVENT_ANNOTATION;

	if (p->key_is == KEY_LEFT_OUT)
		return false;
	if (p->fields == &gpu_arg_fields)
		field = LAUNCH_ARG;
	else if (p->open[p->depth].array)
		field = ANNOTATION_ARRAY;
	else if (p->depth > (p->in_events ? (uint32_t)DEPTH_ARGS : (uint32_t)DEPTH_ROOT))
		field = ANNOTATION_DICT;
	*arg = pb__begin(p->to, field);
	if (!p->open[p->depth].array)
		pb__u64(p->to, p->fields->name, p->key_id);
	return true;
}

static void put_text_value(struct perfetto *p, const char *text, size_t len)
{
	uint32_t iid = perfetto_file__intern(&p->file, DICT_VALUE, text, len);

	if (iid)
		pb__u64(p->to, p->fields->text_iid, iid);
	else
		perfetto__put_text(p->to, p->fields->text, text, len);
}

static void put_arg(struct perfetto *p, const struct jsonw_token *t)
{
	const struct arg_fields *f = p->fields;
	size_t arg;

	if (!begin_arg(p, &arg))
		return;
	switch (t->kind) {
	case JSONW_TOKEN_U64:
		pb__u64(p->to, f->u64, t->u);
		break;
	case JSONW_TOKEN_I64:
		pb__u64(p->to, f->i64, t->u); /* two's complement, as the format has it */
		break;
	case JSONW_TOKEN_BOOL:
		pb__u64(p->to, f->boolean, t->u);
		break;
	case JSONW_TOKEN_US:
		pb__double(p->to, f->number, (double)t->u / 1000);
		break;
	case JSONW_TOKEN_DOUBLE:
		pb__double(p->to, f->number, t->d);
		break;
	case JSONW_TOKEN_STR:
		put_text_value(p, t->text, t->len);
		break;
	default:
		break;
	}
	pb__end(p->to, arg);
}

static void take_arg(struct perfetto *p, const struct jsonw_token *t)
{
	struct perfetto_event *ev = &p->ev;
	bool text = t->kind == JSONW_TOKEN_STR;

	if (p->in_events && ev->ph == 'C') {
		perfetto_event__counter(p, t->kind == JSONW_TOKEN_DOUBLE ? t->d : (double)t->u);
	} else if (p->in_events && ev->ph == 'M') {
		if (text && p->key_is == KEY_NAME)
			snprintf(p->name, sizeof(p->name), "%s", t->text);
	} else if (p->to == &p->launch && p->open[p->depth].array) {
		if (ev->dim_cnt < 3)
			ev->dims[p->key_is == KEY_BLOCK][ev->dim_cnt++] = (uint32_t)t->u;
	} else {
		if (p->key_is < KEY_NUMBERS && !p->open[p->depth].array)
			ev->number[p->key_is] = t->u;
		put_arg(p, t);
	}
}

static void take_value(struct perfetto *p, const struct jsonw_token *t)
{
	if (!p->in_events || p->depth != DEPTH_EVENT)
		take_arg(p, t);
	else if (t->kind == JSONW_TOKEN_STR)
		take_own_text(p, t->text, t->len);
	else
		take_own_number(p, t);
}

/* ---- texts in pieces ---- */

static void begin_text(struct perfetto *p)
{
	p->in_text = true;
	p->text.len = 0;
	p->frame_cnt = 0;
}

/* A stack comes frame by frame, innermost first, with a ";" behind each. */
static void take_piece(struct perfetto *p, const char *text, size_t len)
{
	if (p->key_is != KEY_CALL_STACK)
		pb__raw(&p->text, text, len);
	else if (len > 1)
		vec_push(p->frames, p->frame_cnt, p->frame_cap,
			 perfetto_file__intern(&p->file, DICT_FUNCTION, text, len));
}

static void end_text(struct perfetto *p)
{
	const struct jsonw_token t = { .kind = JSONW_TOKEN_STR,
				       .text = p->text.len ? (const char *)p->text.p : "",
				       .len = p->text.len };

	if (!p->in_text)
		return;
	p->in_text = false;
	if (p->key_is != KEY_CALL_STACK) {
		take_value(p, &t);
		return;
	}
	for (uint32_t i = 0; i < p->frame_cnt / 2; i++) { /* outermost first */
		uint32_t other = p->frames[i];

		p->frames[i] = p->frames[p->frame_cnt - 1 - i];
		p->frames[p->frame_cnt - 1 - i] = other;
	}
	p->ev.stack = perfetto_file__intern(&p->file, DICT_CALLSTACK, (const char *)p->frames,
					    p->frame_cnt * sizeof(*p->frames));
}

/* ---- the document ---- */

static void begin_level(struct perfetto *p, bool array)
{
	bool nested = p->depth >= DEPTH_ROOT; /* an argument that has others in it */
	size_t arg = 0;

	if (p->depth == DEPTH_ROOT && array && p->key_is == KEY_EVENTS) {
		p->in_events = true;
		nested = false;
	} else if (p->in_events && p->depth == DEPTH_EVENTS) {
		memset(&p->ev, 0, sizeof(p->ev));
		nested = false;
	} else if (p->in_events && p->depth == DEPTH_EVENT) {
		begin_args(p);
		nested = false;
	} else if (p->to == &p->launch) {
		p->ev.has_dims |= p->key_is == KEY_GRID;
		p->ev.dim_cnt = 0;
		nested = false;
	}
	if (nested && !begin_arg(p, &arg))
		arg = 0;
	p->depth++; /* what chrome_*.c write is some five levels deep */
	p->open[p->depth].begin = arg;
	p->open[p->depth].array = array;
}

static void end_level(struct perfetto *p)
{
	if (p->open[p->depth].begin)
		pb__end(p->to, p->open[p->depth].begin);
	if (p->in_events && p->depth == DEPTH_EVENT) {
		perfetto_event__finish(p);
	} else if (p->in_events && p->depth == DEPTH_EVENTS) {
		p->in_events = false;
		p->to = &p->capture;
		p->fields = &annotation_fields;
	} else if (p->depth == DEPTH_ROOT) {
		perfetto_event__capture(p);
	}
	p->depth--;
}

static void take_key(struct perfetto *p, const char *text, size_t len)
{
	p->key_is = PLAIN;
	if (p->in_events && p->depth == DEPTH_EVENT)
		memcpy(p->key, text, sizeof(p->key)); /* with what is behind it */
	else
		p->key_id = intern_special(p, p->fields->keys, text, len, &p->key_is);
}

void perfetto__take(void *arg, const struct jsonw_token *t)
{
	struct perfetto *p = arg;

	if (t->kind == JSONW_TOKEN_PIECE) {
		take_piece(p, t->text, t->len);
		return;
	}
	end_text(p);
	switch (t->kind) {
	case JSONW_TOKEN_BEGIN_OBJ:
	case JSONW_TOKEN_BEGIN_ARR:
		begin_level(p, t->kind == JSONW_TOKEN_BEGIN_ARR);
		break;
	case JSONW_TOKEN_END:
		end_level(p);
		break;
	case JSONW_TOKEN_KEY:
		take_key(p, t->text, t->len);
		break;
	case JSONW_TOKEN_TEXT:
		begin_text(p);
		take_piece(p, t->text, t->len);
		break;
	default:
		take_value(p, t);
		break;
	}
}

/* ---- the file ---- */

static void put_clock(struct pb *b, uint64_t id, uint64_t ns)
{
	size_t clock = pb__begin(b, SNAPSHOT_CLOCK);

	pb__u64(b, CLOCK_ID, id);
	pb__u64(b, CLOCK_TIME, ns);
	pb__end(b, clock);
}

/* The first packet: times are by a clock that begins with the window, and so are short. */
static void put_head(struct perfetto *p, const struct session_info *info)
{
	struct pb *b = &p->file.out;
	size_t packet = perfetto_file__begin(&p->file, PERFETTO_BEGIN_NS,
					     SEQUENCE_CLEARED | SEQUENCE_NEEDS_STATE);
	size_t part = pb__begin(b, PACKET_CLOCK_SNAPSHOT);

	put_clock(b, CLOCK_OWN_ID, PERFETTO_BEGIN_NS);
	put_clock(b, CLOCK_MONOTONIC_ID, info->begin_ns);
	put_clock(b, CLOCK_REALTIME_ID, info->begin_ns + (uint64_t)info->mono_to_unix_ns);
	pb__u64(b, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
	pb__end(b, part);
	part = pb__begin(b, PACKET_DEFAULTS);
	pb__u64(b, DEFAULTS_CLOCK, CLOCK_OWN_ID);
	pb__end(b, part);
	pb__u64(b, PACKET_FIRST_ON_SEQUENCE, 1);
	perfetto_file__end(&p->file, packet);
}

struct perfetto *perfetto__new(const struct session *s, const struct chrome_clock *clock,
			       struct out_file *of)
{
	const struct session_info *info = session__info(s);
	struct perfetto *p = xcalloc(1, sizeof(*p));

	perfetto_file__init(&p->file, of);
	p->s = s;
	p->origin = chrome_clock__rel(clock, info->begin_ns) - PERFETTO_BEGIN_NS;
	p->to = &p->capture;
	p->fields = &annotation_fields;
	put_head(p, info);
	return p;
}

void perfetto__free(struct perfetto *p)
{
	if (!p)
		return;
	perfetto_file__free(&p->file);
	for (int i = 0; i < DICT_CNT; i++)
		free(p->specials[i].is);
	free(p->capture.p);
	free(p->launch.p);
	free(p->text.p);
	free(p->frames);
	free(p);
}
