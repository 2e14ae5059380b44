/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See arg_expect.h. */
#include "arg_expect.h"

#include <string.h>

#include "args/values.h"
#include "suite.h"

struct ptb_proc_cfg cfg;
struct ptb_arg_prog prog;
uint64_t w[PTB_LOC_CNT];
struct payload out;

/* ---- expectations ---- */

uint32_t at; /* word of `out` that is checked next */

uint64_t head(uint8_t kind, uint8_t flags, uint16_t aux, uint32_t n)
{
	struct ptb_val v = { kind, flags, aux, n };
	uint64_t word;

	memcpy(&word, &v, sizeof(word));
	return word;
}

void expect(uint64_t word)
{
	CU_ASSERT_FATAL(at < out.cnt);
	if (out.words[at] != word)
		printf("\n  word %u: %lx, expected %lx\n", at, (unsigned long)out.words[at],
		       (unsigned long)word);
	CU_ASSERT_EQUAL(out.words[at], word);
	at++;
}

void expect_val(uint8_t kind, uint16_t aux, uint32_t n)
{
	expect(head(kind, 0, aux, n));
}

void expect_int(uint64_t v)
{
	expect_val(PTB_VAL_INT, 0, 0);
	expect(v);
}

struct ptb_val first_val(void)
{
	struct ptb_val v;

	memcpy(&v, out.words, sizeof(v));
	return v;
}

void expect_end(void)
{
	CU_ASSERT_EQUAL(at, out.cnt);
	CU_ASSERT(!out.cut);
	CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
}

void begin(bool old)
{
	arena__reset();
	arena__facts(&cfg, old);
	memset(&prog, 0, sizeof(prog));
	memset(w, 0, sizeof(w));
	at = 0;
}

struct ptb_arg_op *add_op(uint8_t op)
{
	struct ptb_arg_op *o = &prog.ops[prog.in_cnt++];

	o->op = op;
	o->as = PTB_VAL_INT;
	o->loc[0] = 0;
	o->loc[1] = 1;
	o->loc[2] = PTB_LOC_NONE;
	o->has_off = PTB_LOC_NONE;
	return o;
}

void run(bool full)
{
	at = 0;
	arena__run(ARENA_INPUTS, &cfg, &prog, w, full, &out);
}

void run_as(enum arena_run what, uint64_t a, uint64_t b, bool full)
{
	w[0] = a;
	w[1] = b;
	at = 0;
	arena__run(what, &cfg, &prog, w, full, &out);
}

/* ---- objects ---- */

const struct shape matrix = { 2, { 3, 5 }, { 5, 1 }, 7, 15, 6, 0, 0xff };
static const uint64_t storage_data = 0x123450;

/* A TensorImpl; its address. */
uint64_t put_impl(const struct shape *s)
{
	const struct ptb_tensor_cfg *t = &cfg.tensor;
	uint8_t impl[256] = {};
	uint64_t storage[8] = {}, dims[40];
	uint64_t ndim = s->ndim, storage_addr, ptr, keys = 0x8001;

	memcpy((uint8_t *)storage + t->storage_data_off, &storage_data, 8);
	storage_addr = arena__put(storage, sizeof(storage));
	memcpy(impl + t->storage_off, &storage_addr, 8);
	memcpy(impl + t->sizes_off, &ndim, 8);
	if (ndim <= 5) {
		memcpy(impl + t->sizes_off + 8, s->sizes, 8 * ndim);
		memcpy(impl + t->sizes_off + 48, s->strides, 8 * ndim);
	} else {
		memcpy(dims, s->sizes, 8 * ndim);
		memcpy(dims + ndim, s->strides, 8 * ndim);
		ptr = arena__put(dims, 16 * ndim);
		memcpy(impl + t->sizes_off + 8, &ptr, 8);
	}
	memcpy(impl + t->storage_offset_off, &s->offset, 8);
	memcpy(impl + t->numel_off, &s->numel, 8);
	impl[t->dtype_off] = s->dtype;
	impl[t->device_off + (t->device_has_first ? 0 : 2)] = 1;
	impl[t->device_off + (t->device_has_first ? 1 : 0)] = s->device;
	impl[t->device_off + (t->device_has_first ? 2 : 1)] = s->index;
	memcpy(impl + t->key_set_off, &keys, 8);
	return arena__put(impl, sizeof(impl));
}

uint64_t put_word(uint64_t word)
{
	return arena__put(&word, sizeof(word));
}

void expect_tensor(const struct shape *s, uint64_t impl, bool full)
{
	expect(head(PTB_VAL_TENSOR, full ? PTB_VAL_F_IDS | PTB_VAL_F_STORAGE : 0,
		    (uint16_t)(s->dtype | s->device << 8), s->ndim | (uint32_t)s->index << 8 | 1u << 16));
	expect(0x8001);
	expect((uint64_t)s->numel);
	if (full) {
		expect(impl);
		expect(storage_data);
		expect((uint64_t)s->offset);
	}
	for (uint32_t i = 0; i < s->ndim; i++)
		expect((uint64_t)s->sizes[i]);
	for (uint32_t i = 0; i < s->ndim; i++)
		expect((uint64_t)s->strides[i]);
}
