/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames and stacks by their contents; see py_stacks.h. A process's frame is known by all fields of its record: a
 * code object that took another one's address has another check, or else two names, and then none is believed.
 */
#include "model/py_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/vec.h"
#include "model/facts.h"

struct raw_frame {
	uint64_t code;
	int32_t at;
	uint32_t check, tgid, pad;
};

struct raw_stack {
	uint32_t frame_cnt, flags;
	uint32_t frames[PTB_PY_FRAMES_MAX];
};

struct py_frame_fact {
	uint32_t func, file; /* NAME ids, 0: not known */
	int32_t line, first;
	bool ambiguous;
};

/* 0: out of memory. */
static uint32_t frame_number(struct py_stacks *ps, uint32_t tgid, const struct ptb_py_frame *pf)
{
	struct raw_frame raw = { .code = pf->code & ~(uint64_t)PTB_PY_NATIVE,
				 .at = pf->at,
				 .check = pf->check,
				 .tgid = tgid };
	uint32_t id;

	if (!ps->frames)
		ps->frames = strtab__new();
	id = ps->frames ? strtab__add(ps->frames, (const char *)&raw, sizeof(raw)) : 0;
	if (id >= PY_FRAME_NATIVE ||
	    (id && vec_reserve((void **)&ps->facts, &ps->fact_cap, id, sizeof(*ps->facts))))
		return 0;
	return id;
}

int py_stacks__line(struct py_stacks *ps, const struct ptb_py_line *r)
{
	const struct py_frame_fact now = {
		.func = r->func, .file = r->file, .line = r->line, .first = r->first
	};
	uint32_t id = frame_number(ps, r->h.tgid, &r->frame);
	struct py_frame_fact *known;

	if (!id)
		return -ENOMEM;
	known = &ps->facts[id - 1];
	if (!now.func || known->ambiguous)
		return 0;
	if (known->func && memcmp(known, &now, sizeof(now)))
		*known = (struct py_frame_fact){ .ambiguous = true };
	else
		*known = now;
	return 0;
}

int py_stacks__define(struct py_stacks *ps, const struct ptb_py_stack_def *r)
{
	const struct ptb_py_frame *pf = (const void *)(r + 1);
	struct raw_stack raw = { .frame_cnt = r->frame_cnt,
				 .flags = r->flags & (PTB_PY_CUT | PTB_PY_FAULT) };
	uint64_t *known;
	uint32_t id;

	ps->seen = true;
	if (!r->id || !r->frame_cnt || r->frame_cnt > PTB_PY_FRAMES_MAX ||
	    r->frame_cnt > (r->h.len - sizeof(*r)) / sizeof(*pf)) {
		ps->bad_records++;
		return 0;
	}
	for (uint32_t i = 0; i < r->frame_cnt; i++) {
		raw.frames[i] = frame_number(ps, r->h.tgid, &pf[i]);
		if (!raw.frames[i])
			return -ENOMEM;
		if (pf[i].code & PTB_PY_NATIVE)
			raw.frames[i] |= PY_FRAME_NATIVE;
	}
	if (!ps->stacks)
		ps->stacks = strtab__new();
	id = ps->stacks ? strtab__add(ps->stacks, (const char *)&raw,
				      offsetof(struct raw_stack, frames) +
					      r->frame_cnt * sizeof(raw.frames[0])) :
			  0;
	if (!id)
		return -ENOMEM;
	known = hashmap__get(&ps->by_id, r->h.tgid, r->id);
	if (!known)
		return hashmap__put(&ps->by_id, r->h.tgid, r->id, id);
	if (*known != id)
		*known = 0;
	return 0;
}

void py_stacks__clear(struct py_stacks *ps)
{
	strtab__free(ps->frames);
	strtab__free(ps->stacks);
	free(ps->facts);
	hashmap__clear(&ps->by_id);
}

uint32_t py_stacks__find(const struct py_stacks *ps, uint32_t tgid, uint64_t id)
{
	const uint64_t *known = id ? hashmap__get(&ps->by_id, tgid, id) : NULL;

	return known ? (uint32_t)*known : 0;
}

struct py_frame py_stacks__frame(const struct py_stacks *ps, const struct facts *f, uint32_t frame)
{
	static const char unknown[] = PY_UNKNOWN;
	struct py_frame pf = { .func = unknown, .file = unknown };
	const struct py_frame_fact *fact;
	struct raw_frame raw;

	if (!ps->frames || !frame || frame > strtab__cnt(ps->frames))
		return pf;
	memcpy(&raw, strtab__text(ps->frames, frame), sizeof(raw));
	pf.code = raw.code;
	pf.at = raw.at;
	fact = &ps->facts[frame - 1];
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
	return (struct py_stack){ .frames = raw->frames, .frame_cnt = raw->frame_cnt, .flags = raw->flags };
}
