/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* args/values: every kind, truncated and pending values, nesting, invalid words. */
#include <string.h>

#include "suite.h"
#include "value_words.h"

static struct value next(struct value_iter *it)
{
	struct value v = { 0 };

	CU_ASSERT_TRUE_FATAL(values__next(it, &v));
	return v;
}

static void scalars(void)
{
	struct value_words w = { 0 };
	struct slice_values sv;
	struct value_iter it;
	struct value v;

	vw__state(&w, true, 7, 0, 0); /* not a value */
	vw__unknown(&w);
	vw__none(&w);
	vw__int(&w, -5);
	vw__double(&w, 2.5);
	vw__pending(&w, 1);
	vw__bool(&w, true);
	vw__device(&w, 0, -1);
	vw__device(&w, 1, 3);
	vw__complex(&w, 1.0, -2.0);
	vw__opaque(&w, PTB_OPAQUE_Generator);
	sv = vw__values(&w);
	CU_ASSERT_EQUAL(values__count(&sv), 10);
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), w.cnt);
	it = values__begin(&sv);
	CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_UNKNOWN);
	CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_NONE);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_INT);
	CU_ASSERT_EQUAL(v.i, -5);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_DOUBLE);
	CU_ASSERT_EQUAL(v.d, 2.5);
	CU_ASSERT_EQUAL(next(&it).kind, PTB_VAL_UNKNOWN); /* the pending one */
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_BOOL);
	CU_ASSERT_EQUAL(v.i, 1);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_DEVICE);
	CU_ASSERT_EQUAL(v.device_type, 0);
	CU_ASSERT_EQUAL(v.i, -1);
	v = next(&it);
	CU_ASSERT_EQUAL(v.device_type, 1);
	CU_ASSERT_EQUAL(v.i, 3);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_COMPLEX);
	CU_ASSERT_TRUE(v.d == 1.0 && v.imag == -2.0);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_OPAQUE);
	CU_ASSERT_EQUAL(v.i, PTB_OPAQUE_Generator);
	CU_ASSERT_FALSE(values__next(&it, &v));
	CU_ASSERT_FALSE(values__next(&it, &v)); /* stays at the end */
}

static void tensors(void)
{
	struct vw_tensor t = { .dtype = 15,
			       .device_type = 1,
			       .has_index = true,
			       .index = 2,
			       .ndim = 3,
			       .sizes = { 2, 3, 5 },
			       .keys = 0x8001,
			       .flags = PTB_VAL_F_IDS,
			       .impl = 0x1000,
			       .storage = 0x2000,
			       .offset = 4 };
	struct value_words w = { 0 };
	struct slice_values sv;
	struct value_iter it;
	struct value v;

	vw__tensor(&w, &t);
	t.flags = 0;
	t.no_strides = true;
	t.has_index = false;
	vw__tensor(&w, &t);
	t.ndim = 20;
	t.flags = PTB_VAL_F_DIMS_CUT | PTB_VAL_F_IDS;
	vw__tensor(&w, &t);
	vw__undefined(&w, 0x77);
	vw__undefined(&w, 0);
	sv = vw__values(&w);
	it = values__begin(&sv);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_TENSOR);
	CU_ASSERT_EQUAL(v.dtype, 15);
	CU_ASSERT_EQUAL(v.device_type, 1);
	CU_ASSERT_EQUAL(v.device_index, 2);
	CU_ASSERT_EQUAL(v.keys, 0x8001);
	CU_ASSERT_EQUAL(v.numel, 30);
	CU_ASSERT_TRUE(value__impl(&v) == 0x1000 && v.storage == 0x2000 && v.offset == 4);
	CU_ASSERT_EQUAL_FATAL(v.ndim, 3);
	CU_ASSERT_TRUE(v.sizes[0] == 2 && v.sizes[1] == 3 && v.sizes[2] == 5);
	CU_ASSERT_PTR_NOT_NULL_FATAL(v.strides);
	CU_ASSERT_TRUE(v.strides[0] == 15 && v.strides[1] == 5 && v.strides[2] == 1);
	v = next(&it);
	CU_ASSERT_EQUAL(v.ndim, 3);
	CU_ASSERT_EQUAL(v.device_index, -1);
	CU_ASSERT_PTR_NULL(v.strides);
	CU_ASSERT_EQUAL(value__impl(&v), 0);
	v = next(&it);
	CU_ASSERT_EQUAL(v.ndim, 0);
	CU_ASSERT_TRUE(v.flags & PTB_VAL_F_DIMS_CUT);
	CU_ASSERT_EQUAL(v.storage, 0x2000);
	v = next(&it);
	CU_ASSERT_EQUAL(v.kind, PTB_VAL_UNDEFINED);
	CU_ASSERT_EQUAL(value__impl(&v), 0x77);
	v = next(&it);
	CU_ASSERT_EQUAL(value__impl(&v), 0);
	CU_ASSERT_FALSE(values__next(&it, &v));
}

static void lists(void)
{
	static const int64_t ints[] = { 1, -2, 3 };
	static const double doubles[] = { 0.5 };
	static const uint8_t bools[] = { 1, 0, 1, 1, 0, 0, 0, 1, 1 };
	struct value_words w = { 0 };
	struct slice_values sv;
	struct value_iter it, in;
	struct value v, e;
	double d;

	vw__ints(&w, 3, ints);
	vw__doubles(&w, 1, doubles);
	vw__bools(&w, 9, bools);
	vw__string(&w, "hello, world");
	vw__raw(&w, PTB_VAL_STRING, PTB_VAL_F_CUT, 3, 5000, "abc", 3);
	vw__list(&w, PTB_VAL_TENSORS, 40, 2);
	vw__shape(&w, 1, ints);
	vw__undefined(&w, 0);
	vw__list(&w, PTB_VAL_TUPLE, 2, 2);
	vw__list(&w, PTB_VAL_LIST, 1, 1);
	vw__int(&w, 9);
	vw__none(&w);
	vw__list(&w, PTB_VAL_LIST, 0, 0);
	sv = vw__values(&w);
	CU_ASSERT_EQUAL(values__count(&sv), 8);
	it = values__begin(&sv);
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_INTS && v.n == 3 && v.present == 3);
	CU_ASSERT_EQUAL(memcmp(v.data, ints, sizeof(ints)), 0);
	v = next(&it);
	memcpy(&d, v.data, sizeof(d));
	CU_ASSERT_TRUE(v.kind == PTB_VAL_DOUBLES && d == 0.5);
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_BOOLS && v.n == 9 && !memcmp(v.data, bools, 9));
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_STRING && v.n == 12 && !memcmp(v.data, "hello, world", 12));
	v = next(&it);
	CU_ASSERT_TRUE(v.flags & PTB_VAL_F_CUT && v.n == 5000 && v.present == 3);
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_TENSORS && v.n == 40 && v.present == 2);
	CU_ASSERT_TRUE(v.elems.flags & VALUES_CUT);
	CU_ASSERT_EQUAL(values__count(&v.elems), 2);
	in = values__begin(&v.elems);
	CU_ASSERT_EQUAL(next(&in).kind, PTB_VAL_TENSOR);
	CU_ASSERT_EQUAL(next(&in).kind, PTB_VAL_UNDEFINED);
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_TUPLE && !(v.elems.flags & VALUES_CUT));
	in = values__begin(&v.elems);
	e = next(&in);
	CU_ASSERT_TRUE(e.kind == PTB_VAL_LIST && values__count(&e.elems) == 1);
	CU_ASSERT_EQUAL(next(&in).kind, PTB_VAL_NONE);
	v = next(&it);
	CU_ASSERT_TRUE(v.kind == PTB_VAL_LIST && v.n == 0 && values__count(&v.elems) == 0);
}

/* Values after the first incomplete one are not read, those before it are kept. */
static void unsound(void)
{
	struct value_words w = { 0 };
	struct slice_values sv;
	uint32_t whole;

	vw__int(&w, 1);
	vw__string(&w, "0123456789");
	whole = w.cnt;
	for (uint32_t i = 0; i < whole; i++) {
		uint32_t want = i >= 2 ? 2 : 0;

		CU_ASSERT_EQUAL(values__sound_words(w.words, i), want);
	}
	vw__raw(&w, 200, 0, 0, 0, NULL, 0); /* no such kind */
	vw__int(&w, 2);
	sv = vw__values(&w);
	CU_ASSERT_EQUAL(values__count(&sv), 2);
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), whole);
	w.cnt = whole;
	vw__list(&w, PTB_VAL_LIST, 2, 2); /* one element is missing */
	vw__none(&w);
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), whole);
	w.cnt = whole;
	vw__list(&w, PTB_VAL_LIST, 1, 1);
	vw__state(&w, true, 1, 0, 0); /* not a value, so no element */
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), whole);
	w.cnt = whole;
	vw__raw(&w, PTB_VAL_INTS, 0, 0xffff, 0xffffffff, NULL, 0);
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), whole);
	sv = (struct slice_values){ 0 };
	CU_ASSERT_EQUAL(values__count(&sv), 0);
}

static void nesting(void)
{
	struct value_words w = { 0 };

	for (uint32_t depth = 1; depth <= PTB_NEST_MAX + 2; depth++) {
		w.cnt = 0;
		for (uint32_t i = 0; i < depth; i++)
			vw__list(&w, PTB_VAL_LIST, 1, 1);
		vw__int(&w, 1);
		CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), depth <= PTB_NEST_MAX ? w.cnt : 0);
	}
	w.cnt = 0;
	for (uint32_t depth = 0; depth < PTB_NEST_MAX; depth++)
		vw__list(&w, PTB_VAL_LIST, 1, 1);
	vw__list(&w, PTB_VAL_LIST, 5, 0); /* cut for its depth */
	CU_ASSERT_EQUAL(values__sound_words(w.words, w.cnt), w.cnt);
}

static void names(void)
{
	CU_ASSERT_STRING_EQUAL(dtype__cxx_name(6), "float");
	CU_ASSERT_STRING_EQUAL(dtype__cxx_name(4), "long int");
	CU_ASSERT_STRING_EQUAL(dtype__cxx_name(24), "c10::Float8_e4m3fn");
	CU_ASSERT_STRING_EQUAL(dtype__cxx_name(45), "c10::Float4_e2m1fn_x2");
	CU_ASSERT_STRING_EQUAL(dtype__cxx_name(46), "c10::complex<c10::BFloat16>");
	CU_ASSERT_PTR_NULL(dtype__cxx_name(47));
	CU_ASSERT_EQUAL(dtype__itemsize(15), 2);
	CU_ASSERT_EQUAL(dtype__itemsize(10), 16);
	CU_ASSERT_EQUAL(dtype__itemsize(255), 0);
	CU_ASSERT_STRING_EQUAL(device__type_name(0), "cpu");
	CU_ASSERT_STRING_EQUAL(device__type_name(1), "cuda");
	CU_ASSERT_STRING_EQUAL(device__type_name(14), "meta");
	CU_ASSERT_STRING_EQUAL(device__type_name(20), "privateuseone");
	CU_ASSERT_PTR_NULL(device__type_name(21));
}

static const CU_TestInfo tests[] = {
	{ "scalars", scalars }, { "tensors", tensors },
	{ "lists", lists },     { "words that make no sense", unsound },
	{ "nesting", nesting }, { "names", names },
	CU_TEST_INFO_NULL,
};

int main(void)
{
	return run_suite("values", tests);
}
