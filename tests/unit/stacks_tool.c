/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * stacks_tool CAPTURE NAME: for each call of operator or CUDA function NAME, or allocation of so many bytes if it is a number, in order
 * of time, an object of JSON: process, thread, flags of its Python stack, and the frames, innermost first, each [file, function, line], or [] where the code object was gone; null: no stack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/jsonw.h"
#include "capture/capture.h"

#define NAMES_MAX (1u << 20)
#define SITES_MAX (1u << 16)

static const struct ptb_text *names[NAMES_MAX];
static uint32_t func_names[SITES_MAX], site_funcs[SITES_MAX];
static struct hashmap lines, ops, defs, last; /* (code, position) -> ptb_py_line; (tgid, address) -> name;
						* (tgid, id) -> ptb_py_stack_def; (tgid, tid) -> ptb_py_stack */
static struct jsonw out;
static const char *wanted;

static void *copy(const struct ptb_rec_hdr *h)
{
	void *p = malloc(h->len + 1u);

	if (!p)
		exit(1);
	return memcpy(p, h, h->len);
}

static uint64_t position(const struct ptb_py_frame *f)
{
	return (uint64_t)(uint32_t)f->at << 32 | f->check;
}

/* Addresses of processes differ where it matters: forks have the same code objects at the same addresses. */
static int note_control(void *arg, const struct ptb_rec_hdr *h)
{
	const struct ptb_text *t = (const void *)h;
	const struct ptb_func *f = (const void *)h;
	const struct ptb_site *s = (const void *)h;
	const struct ptb_py_line *l = (const void *)h;
	const struct ptb_addr_name *op = (const void *)h;

	(void)arg;
	if (h->kind == PTB_REC_OPDEF && !op->flags)
		hashmap__put(&ops, h->tgid, op->addr, op->name);
	else if (h->kind == PTB_REC_NAME && t->id < NAMES_MAX)
		names[t->id] = copy(h);
	else if (h->kind == PTB_REC_FUNC && f->func < SITES_MAX)
		func_names[f->func] = f->name;
	else if (h->kind == PTB_REC_SITE && s->id < SITES_MAX)
		site_funcs[s->id] = s->func;
	else if (h->kind == PTB_REC_PY_LINE)
		hashmap__put(&lines, l->frame.code ^ (uint64_t)h->tgid << 48, position(&l->frame),
			     (uint64_t)copy(h));
	return 0;
}

static void write_name(uint32_t id)
{
	const struct ptb_text *t = id < NAMES_MAX ? names[id] : NULL;

	if (t) {
		jsonw__str_begin(&out);
		jsonw__str_put(&out, (const char *)(t + 1), t->text_len);
		jsonw__str_end(&out);
	} else {
		jsonw__str(&out, "?");
	}
}

static void write_frame(uint32_t tgid, struct ptb_py_frame f)
{
	const struct ptb_py_line *l;
	const uint64_t *v;

	f.code &= ~(uint64_t)PTB_PY_NATIVE;
	v = hashmap__get(&lines, f.code ^ (uint64_t)tgid << 48, position(&f));
	l = v ? (const void *)*v : NULL;
	jsonw__begin_arr(&out);
	if (l && l->func) {
		write_name(l->file);
		write_name(l->func);
		jsonw__i64(&out, l->line);
	}
	jsonw__end_arr(&out);
}

static void write_stack(const struct ptb_rec_hdr *h, const struct ptb_py_stack *st)
{
	const uint64_t *v = st && st->h.ts_ns == h->ts_ns ? hashmap__get(&defs, h->tgid, st->id) : NULL;
	const struct ptb_py_stack_def *d = v ? (const void *)*v : NULL;
	const struct ptb_py_frame *frames = (const void *)(d + 1);

	jsonw__begin_row(&out);
	JSONW_U64(&out, "pid", h->tgid);
	JSONW_U64(&out, "tid", h->tid);
	JSONW_U64(&out, "flags", d ? d->flags : 0);
	jsonw__key(&out, "stack");
	if (d) {
		jsonw__begin_arr(&out);
		for (uint32_t i = 0; i < d->frame_cnt; i++)
			write_frame(h->tgid, frames[i]);
		jsonw__end_arr(&out);
	} else {
		jsonw__null(&out);
	}
	jsonw__end_obj(&out);
}

static bool is_wanted(const struct ptb_rec_hdr *h)
{
	uint32_t func = h->site < SITES_MAX ? site_funcs[h->site] : 0;
	const struct ptb_text *t = func ? names[func_names[func]] : NULL;
	const uint64_t *op;

	if (h->kind == PTB_REC_MEM_ALLOC)
		return ((const struct ptb_mem_alloc *)(const void *)h)->bytes ==
		       strtoull(wanted, NULL, 10);
	if (h->kind == PTB_REC_RF_BEGIN) {
		op = hashmap__get(&ops, h->tgid, ((const struct ptb_rf_begin *)(const void *)h)->opdef);
		t = op && *op < NAMES_MAX ? names[*op] : NULL;
	} else if (h->kind != PTB_REC_OP_ENTER && h->kind != PTB_REC_CUDA_CALL) {
		return false;
	}
	return t && t->text_len == strlen(wanted) && !memcmp(t + 1, wanted, t->text_len);
}

static int note_def(void *arg, const struct ptb_rec_hdr *h)
{
	const struct ptb_py_stack_def *d = (const void *)h;

	(void)arg;
	if (h->kind == PTB_REC_PY_STACK_DEF && !hashmap__get(&defs, h->tgid, d->id))
		hashmap__put(&defs, h->tgid, d->id, (uint64_t)copy(h));
	return 0;
}

static int note_record(void *arg, const struct ptb_rec_hdr *h)
{
	uint64_t *v;

	(void)arg;
	if (h->kind == PTB_REC_PY_STACK) {
		v = hashmap__get(&last, h->tgid, h->tid);
		if (v)
			free((void *)*v);
		hashmap__put(&last, h->tgid, h->tid, (uint64_t)copy(h));
	}
	if (is_wanted(h)) {
		v = hashmap__get(&last, h->tgid, h->tid);
		write_stack(h, v ? (const void *)*v : NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct capture_reader *cr;

	if (argc != 3 || capture_reader__open(argv[1], capture__open(argv[1]), &cr))
		return 2;
	wanted = argv[2];
	jsonw__init(&out, jsonw__to_stream, stdout, 1 << 16);
	jsonw__begin_arr(&out);
	if (capture_reader__control(cr, note_control, NULL) ||
	    capture_reader__stream(cr, note_def, NULL) || capture_reader__stream(cr, note_record, NULL))
		return 1;
	jsonw__end_arr(&out);
	return jsonw__flush(&out) ? 1 : 0;
}
