/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames and stacks by their contents; see facts.h. A process's frame is known by all fields of its
 * record: a code object that took another one's address has another check, or else two names, and
 * then none is believed.
 */
#include "model/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define UNREAD UINT32_MAX /* in place of a stack's number */

struct raw_frame {
	uint64_t code;
	int32_t at;
	uint32_t check, tgid;
	/* of the call of a module: that, and the frame without it; both frames */
	uint32_t module, plain;
	uint32_t pad;
};

struct raw_stack {
	uint32_t frame_cnt, flags;
	uint32_t frames[PTB_PY_FRAMES_MAX];
};

struct py_frame_fact {
	uint32_t func, file; /* NAME ids, 0: not known */
	int32_t line, first; /* of PTB_PY_CLASS: first says that file is a path */
	bool ambiguous;
};

struct py_module {
	uint32_t frame; /* PTB_PY_CLASS */
	uint32_t depth; /* in the first stack that it is in, from the outermost frame on */
	uint64_t first_ns;
	uint32_t nr; /* among those of its class */
};

/* 0: there are too many. */
static uint32_t number_of(struct py_stacks *ps, const struct raw_frame *raw)
{
	uint32_t id;

	if (!ps->frames)
		ps->frames = strtab__new();
	id = strtab__add(ps->frames, (const char *)raw, sizeof(*raw));
	if (id >= PY_FRAME_NATIVE)
		return 0;
	vec_reserve((void **)&ps->facts, &ps->fact_cap, id, sizeof(*ps->facts));
	return id;
}

/* module: a frame of PTB_PY_CLASS; 0: none. */
static uint32_t frame_number(struct py_stacks *ps, uint32_t tgid, const struct ptb_py_frame *pf,
			     uint32_t module)
{
	struct raw_frame raw = { .code = pf->code & ~(uint64_t)PTB_PY_NATIVE,
				 .at = pf->at,
				 .check = pf->check,
				 .tgid = tgid };

	if (module) {
		raw.plain = number_of(ps, &raw);
		raw.module = module;
	}
	return number_of(ps, &raw);
}

/* A module is in the stack, so many frames below the outermost one. */
static void note_module(struct py_stacks *ps, uint32_t frame, uint64_t ts_ns, uint32_t depth)
{
	struct py_module *m = list__keyed(KEYED_LIST(ps, modules, module), frame, 0);

	if (!m->frame || ts_ns < m->first_ns || (ts_ns == m->first_ns && depth < m->depth))
		*m = (struct py_module){ .frame = frame, .first_ns = ts_ns, .depth = depth };
}

/* Outer ones begin before inner ones. */
static int cmp_modules(const void *pa, const void *pb)
{
	const struct py_module *a = pa, *b = pb;

	if (a->first_ns != b->first_ns)
		return sort__cmp(a->first_ns, b->first_ns);
	return a->depth != b->depth ? sort__cmp(a->depth, b->depth) : sort__cmp(a->frame, b->frame);
}

void py_stacks__number_modules(struct py_stacks *ps)
{
	struct hashmap cnts = { 0 }; /* class of a process -> its modules */

	sort__array(ps->modules, ps->module_cnt, sizeof(*ps->modules), cmp_modules);
	hashmap__clear(&ps->module_ids);
	for (uint32_t i = 0; i < ps->module_cnt; i++) {
		struct py_module *m = &ps->modules[i];
		struct raw_frame raw;
		uint64_t *cnt, class;

		memcpy(&raw, strtab__text(ps->frames, m->frame), sizeof(raw));
		class = (uint64_t)raw.tgid << 32 | raw.check;
		cnt = hashmap__get(&cnts, raw.code, class);
		m->nr = cnt ? (uint32_t)*cnt : 0;
		hashmap__put(&cnts, raw.code, class, m->nr + 1ULL);
		hashmap__put(&ps->module_ids, m->frame, 0, i);
	}
	hashmap__clear(&cnts);
}

void py_stacks__line(struct py_stacks *ps, const struct ptb_py_line *r)
{
	const struct py_frame_fact now = {
		.func = r->func, .file = r->file, .line = r->line, .first = r->first
	};
	uint32_t id = frame_number(ps, r->h.tgid, &r->frame, 0);
	struct py_frame_fact *known;

	known = &ps->facts[id - 1];
	if (!now.func || known->ambiguous)
		return;
	if (r->frame.code & PTB_PY_CLASS && known->func == now.func) {
		if (now.first)
			*known = now;
		return;
	}
	if (known->func && memcmp(known, &now, sizeof(now)))
		*known = (struct py_frame_fact){ .ambiguous = true };
	else
		*known = now;
}

/* stack: its number, or UNREAD. An id that has two meanings has none. */
static void remember(struct py_stacks *ps, const struct ptb_py_stack_def *r, uint32_t stack)
{
	uint64_t *known = hashmap__get(&ps->by_id, r->h.tgid, r->id);

	if (!known) {
		hashmap__put(&ps->by_id, r->h.tgid, r->id, stack);
		return;
	}
	if (*known != stack)
		*known = 0;
}

void py_stacks__define(struct py_stacks *ps, const struct ptb_py_stack_def *r)
{
	const struct ptb_py_frame *pf = (const void *)(r + 1);
	struct raw_stack raw = { .flags = r->flags & (PTB_PY_CUT | PTB_PY_FAULT) };
	uint32_t *frame, module = 0;

	ps->seen = true;
	if (r->id && !r->frame_cnt && raw.flags) {
		remember(ps, r, UNREAD);
		return;
	}
	if (!r->id || !r->frame_cnt || r->frame_cnt > PTB_PY_FRAMES_MAX ||
	    r->frame_cnt > (r->h.len - sizeof(*r)) / sizeof(*pf)) {
		ps->bad_records++;
		return;
	}
	for (uint32_t i = 0; i < r->frame_cnt; i++) {
		bool is_class = pf[i].code & PTB_PY_CLASS;

		frame = is_class ? &module : &raw.frames[raw.frame_cnt++];
		*frame = frame_number(ps, r->h.tgid, &pf[i], is_class ? 0 : module);
		if (is_class) {
			note_module(ps, module, r->h.ts_ns, r->frame_cnt - i);
			continue;
		}
		module = 0;
		if (pf[i].code & PTB_PY_NATIVE)
			*frame |= PY_FRAME_NATIVE;
	}
	if (!raw.frame_cnt) {
		ps->bad_records++;
		return;
	}
	if (!ps->stacks)
		ps->stacks = strtab__new();
	remember(ps, r,
		 strtab__add(ps->stacks, (const char *)&raw,
			     offsetof(struct raw_stack, frames) +
				     raw.frame_cnt * sizeof(raw.frames[0])));
}

void py_stacks__clear(struct py_stacks *ps)
{
	strtab__free(ps->frames);
	strtab__free(ps->stacks);
	free(ps->facts);
	free(ps->modules);
	hashmap__clear(&ps->module_ids);
	hashmap__clear(&ps->by_id);
}

/* As remember() got it; 0: it has no meaning. */
static uint32_t meaning_of(const struct py_stacks *ps, uint32_t tgid, uint64_t id)
{
	const uint64_t *known = id ? hashmap__get(&ps->by_id, tgid, id) : NULL;

	return known ? (uint32_t)*known : 0;
}

uint32_t py_stacks__find(const struct py_stacks *ps, uint32_t tgid, uint64_t id)
{
	uint32_t stack = meaning_of(ps, tgid, id);

	return stack != UNREAD ? stack : 0;
}

bool py_stacks__is_unread(const struct py_stacks *ps, uint32_t tgid, uint64_t id)
{
	return meaning_of(ps, tgid, id) == UNREAD;
}

struct py_frame py_stacks__frame(const struct py_stacks *ps, const struct facts *f, uint32_t frame)
{
	static const char unknown[] = PY_UNKNOWN;
	struct py_frame pf = { .func = unknown, .file = unknown };
	const struct py_frame_fact *fact;
	const uint64_t *module;
	struct raw_frame raw;

	if (!ps->frames || !frame || frame > strtab__cnt(ps->frames))
		return pf;
	memcpy(&raw, strtab__text(ps->frames, frame), sizeof(raw));
	pf.code = raw.code;
	pf.at = raw.at;
	module = raw.module ? hashmap__get(&ps->module_ids, raw.module, 0) : NULL;
	if (module && *facts__name(f, ps->facts[raw.module - 1].func)) {
		pf.module = facts__name(f, ps->facts[raw.module - 1].func);
		pf.module_nr = ps->modules[*module].nr;
		pf.module_id = raw.module;
		if (ps->facts[raw.module - 1].first)
			pf.module_path = facts__name(f, ps->facts[raw.module - 1].file);
	}
	fact = &ps->facts[(raw.plain ? raw.plain : frame) - 1];
	if (!*facts__name(f, fact->func))
		return pf;
	pf.func = facts__name(f, fact->func);
	if (*facts__name(f, fact->file))
		pf.file = facts__name(f, fact->file);
	pf.line = fact->line;
	pf.first = fact->first;
	return pf;
}

struct py_stack py_stacks__stack(const struct py_stacks *ps, uint32_t stack)
{
	const struct raw_stack *raw;

	if (!ps->stacks || !stack || stack > strtab__cnt(ps->stacks))
		return (struct py_stack){ 0 };
	raw = (const void *)strtab__text(ps->stacks, stack);
	return (struct py_stack){ .frames = raw->frames,
				  .frame_cnt = raw->frame_cnt,
				  .flags = raw->flags };
}
