/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument interpreter on the host: IValues, lists in lists, Python objects, limits, hostile numbers,
 * and a fault at every read in turn.
 */
#include <string.h>

#include "arg_expect.h"
#include "args/values.h"
#include "suite.h"

/* ---- IValues ---- */

struct ival {
	uint64_t payload, tag;
};

static uint64_t put_list(const struct ival *items, uint32_t cnt)
{
	uint64_t obj[8] = {}, begin_addr = arena__put(items, cnt * sizeof(*items));
	uint32_t at_word = cfg.tensor.object_header / 8;

	obj[at_word] = begin_addr;
	obj[at_word + 1] = begin_addr + cnt * sizeof(*items);
	return arena__put(obj, sizeof(obj));
}

static uint64_t put_stack(const struct ival *items, uint32_t cnt)
{
	uint64_t vec[3];

	vec[0] = arena__put(items, cnt * sizeof(*items));
	vec[1] = vec[2] = vec[0] + cnt * sizeof(*items);
	return arena__put(vec, sizeof(vec));
}

/* Thirteen IValues of every kind, and one below them. */
static void put_ivalues(struct ival stack[20], uint64_t impl)
{
	uint64_t str[6] = {}, complex[6] = {}, tuple[10] = {}, big[10] = {};
	struct ival three[3] = { { 1, 5 }, { 1, 10 }, { 0, 0 } };

	str[2] = arena__put("hello", 5);
	str[3] = 5;
	complex[2] = 0x11;
	complex[3] = 0x22;
	tuple[2] = 2; /* in line */
	tuple[3] = 4, tuple[4] = 5, tuple[5] = 0x33, tuple[6] = 3;
	big[3] = arena__put(three, sizeof(three));
	big[4] = big[3] + sizeof(three);
	stack[0] = (struct ival){ 123, 99 }; /* below the arguments */
	stack[1] = (struct ival){ impl, 1 };
	stack[2] = (struct ival){ 7, 5 };
	stack[3] = (struct ival){ 0x3ff, 3 };
	stack[4] = (struct ival){ 0xffffff00, 10 };
	stack[5] = (struct ival){ arena__put(str, sizeof(str)), 12 | 1ull << 40 };
	stack[6] = (struct ival){ arena__put(complex, sizeof(complex)), 4 };
	stack[7] = (struct ival){ 0x0301, 18 };
	stack[8] = (struct ival){ 0, 26 };
	stack[9] = (struct ival){ 0, 0 };
	stack[10] = (struct ival){ arena__put(tuple, sizeof(tuple)), 11 };
	stack[11] = (struct ival){ arena__put(big, sizeof(big)), 11 };
	stack[12] = (struct ival){ 0, 39 };
	stack[13] = (struct ival){ 0, 40 };
}

/* Whether a tensor is an nn.Parameter follows from the type of its Python object, if there is one, and only in full mode. */
TEST("parameters")
{
	enum { PARAMETER_TYPE = 0x2220 };
	const uint64_t parameter[2] = { 1, PARAMETER_TYPE }, other[2] = { 1, PARAMETER_TYPE + 0x10 };
	uint64_t obj, impl;
	uint8_t flags;
	uint32_t which, reads;

	for (uint32_t i = 0; i < 2 * 4 * 2; i++) {
		begin(i & 1);
		cfg.tensor.parameter_type = i < 8 ? PARAMETER_TYPE : 0;
		impl = put_impl(&matrix);
		which = i / 2 % 4;
		if (which < 2)
			obj = arena__put(which ? other : parameter, 16) | 1; /* a flag of older builds */
		else
			obj = which == 2 ? 0 : 8; /* none, and one that cannot be read */
		memcpy((uint8_t *)arena__at(impl) + cfg.tensor.sizes_off - 8, &obj, 8);
		w[0] = put_word(impl);
		add_op(PTB_ARG_PTR_TENSOR);
		run(true);
		flags = (uint8_t)(PTB_VAL_F_IDS | PTB_VAL_F_STORAGE | (i < 2 ? PTB_VAL_F_PARAMETER : 0));
		expect(head(PTB_VAL_TENSOR, flags, (uint16_t)(matrix.dtype | matrix.device << 8),
			    matrix.ndim | (uint32_t)matrix.index << 8 | 1u << 16));
		reads = arena.reads; /* since begin() */
		run(false);
		expect(head(PTB_VAL_TENSOR, 0, (uint16_t)(matrix.dtype | matrix.device << 8),
			    matrix.ndim | (uint32_t)matrix.index << 8 | 1u << 16));
		/* one read more for its storage, one for an object if there is one */
		CU_ASSERT_EQUAL(reads - (arena.reads - reads), 1 + (i < 8 && obj));
	}
}

TEST("IValues")
{
	struct ival stack[20] = {};
	uint64_t impl;

	begin(false);
	impl = put_impl(&matrix);
	put_ivalues(stack, impl);
	run_as(ARENA_STACK, put_stack(stack, 14), 13, true);
	expect_tensor(&matrix, impl, true);
	expect_int(7);
	expect_val(PTB_VAL_DOUBLE, 0, 0);
	expect(0x3ff);
	expect_val(PTB_VAL_BOOL, 0, 0);
	expect_val(PTB_VAL_STRING, 5, 5);
	expect(0x6f6c6c6568);
	expect_val(PTB_VAL_COMPLEX, 0, 0);
	expect(0x11);
	expect(0x22);
	expect_val(PTB_VAL_DEVICE, 1, 3);
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_Generator);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_val(PTB_VAL_TUPLE, 2, 2);
	expect_int(4);
	expect_val(PTB_VAL_DOUBLE, 0, 0);
	expect(0x33);
	expect_val(PTB_VAL_TUPLE, 3, 3);
	expect_int(1);
	expect_val(PTB_VAL_BOOL, 0, 1);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_val(PTB_VAL_UNKNOWN, 0, 0);
	expect(head(PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 0));
	expect_end();
	run_as(ARENA_STACK, w[0], 15, true); /* more than there are */
	CU_ASSERT(out.cut);
	CU_ASSERT_EQUAL(out.cnt, 0);
	run_as(ARENA_STACK_BARE, w[0], 5, true);
	at = 2;
	CU_ASSERT_EQUAL(out.words[0], head(PTB_VAL_TUPLE, 0, 2, 2)); /* not None */
}

static void expect_list(const struct ival *items, uint32_t cnt, uint8_t kind)
{
	struct ival one = { put_list(items, cnt), 14 };

	run_as(ARENA_STACK, put_stack(&one, 1), 1, true);
	expect_val(kind, (uint16_t)cnt, cnt);
}

TEST("lists of IValues")
{
	static const struct ival ints[3] = { { 1, 5 }, { 2, 5 }, { 3, 5 } },
				 mixed[3] = { { 1, 5 }, { 2, 5 }, { 3, 3 } },
				 doubles[2] = { { 1, 3 }, { 2, 3 } }, strings[1] = { { 0, 0 } };
	struct ival bools[11], tensors[2];

	begin(false);
	expect_list(ints, 3, PTB_VAL_INTS);
	expect(1), expect(2), expect(3);
	expect_end();
	expect_list(doubles, 2, PTB_VAL_DOUBLES);
	expect(1), expect(2);
	expect_end();
	expect_list(mixed, 3, PTB_VAL_LIST);
	expect_int(1);
	expect_int(2);
	expect_val(PTB_VAL_DOUBLE, 0, 0);
	expect(3);
	expect_end();
	for (uint32_t i = 0; i < 11; i++)
		bools[i] = (struct ival){ i % 3 == 0, 10 };
	expect_list(bools, 11, PTB_VAL_BOOLS);
	expect(0x0001000001000001);
	expect(0x000100);
	expect_end();
	expect_list(ints, 0, PTB_VAL_LIST);
	expect_end();
	expect_list(strings, 1, PTB_VAL_OPT_TENSORS); /* [None] */
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_end();
	tensors[0] = (struct ival){ put_impl(&matrix), 1 };
	tensors[1] = (struct ival){ 1, 5 };
	expect_list(tensors, 2, PTB_VAL_LIST);
	expect_tensor(&matrix, tensors[0].payload, true);
	expect_int(1);
	expect_end();
}

/* [[1, 2], [3]]; deeper than the limit; a list that contains itself */
TEST("lists in lists")
{
	struct ival leaf[2] = { { 1, 5 }, { 2, 5 } }, next;
	uint64_t obj, *vec;

	begin(false);
	{
		struct ival outer[2] = { { put_list(leaf, 2), 14 }, { put_list(leaf, 1), 14 } };

		expect_list(outer, 2, PTB_VAL_LIST);
		expect_val(PTB_VAL_INTS, 2, 2);
		expect(1), expect(2);
		expect_val(PTB_VAL_INTS, 1, 1);
		expect(1);
		expect_end();
	}
	next = (struct ival){ put_list(leaf, 2), 14 };
	for (uint32_t i = 0; i < 3; i++)
		next = (struct ival){ put_list(&next, 1), 14 };
	run_as(ARENA_STACK, put_stack(&next, 1), 1, true);
	for (uint32_t i = 0; i < PTB_NEST_MAX; i++)
		expect_val(PTB_VAL_LIST, 1, 1);
	expect(head(PTB_VAL_LIST, PTB_VAL_F_CUT, 0, 2));
	expect_end();
	next = (struct ival){ 0, 14 };
	obj = put_list(&next, 1);
	vec = (uint64_t *)arena__at(obj) + cfg.tensor.object_header / 8;
	((struct ival *)arena__at(vec[0]))->payload = obj;
	next.payload = obj;
	run_as(ARENA_STACK, put_stack(&next, 1), 1, true);
	for (uint32_t i = 0; i < PTB_NEST_MAX; i++)
		expect_val(PTB_VAL_LIST, 1, 1);
	expect(head(PTB_VAL_LIST, PTB_VAL_F_CUT, 0, 1));
	expect_end();
}

/* Lists of lists of lists as wide as they may be: work and bytes are bounded. */
TEST("wide lists in lists")
{
	static struct ival row[600];
	struct ival one;
	uint64_t list;

	begin(false);
	for (uint32_t i = 0; i < 600; i++)
		row[i] = (struct ival){ i, i == 599 ? 3 : 5 };
	for (uint32_t k = 0; k < 3; k++) {
		list = put_list(row, 600);
		for (uint32_t i = 0; i < 600; i++)
			row[i] = (struct ival){ list, 14 };
	}
	one = (struct ival){ list, 14 };
	run_as(ARENA_STACK, put_stack(&one, 1), 1, true);
	CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
	CU_ASSERT(out.cnt > 3000);
	CU_ASSERT(arena.reads < 8000);
	CU_ASSERT_EQUAL(first_val().flags, PTB_VAL_F_CUT);
	run_as(ARENA_STACK, put_stack(&one, 1), 1, false);
	CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
	CU_ASSERT(!arena.wild);
}

/* More than fits: whole values, then a mark. */
TEST("more than a record holds")
{
	static struct ival stack[512];
	uint64_t impl;

	begin(false);
	impl = put_impl(&(struct shape){ 16, { 1 }, { 1 }, 0, 1, 6, 0, 0xff });
	for (uint32_t i = 0; i < 512; i++)
		stack[i] = (struct ival){ impl, 1 };
	run_as(ARENA_STACK, put_stack(stack, 512), 512, true);
	CU_ASSERT(out.cut);
	CU_ASSERT_EQUAL(out.cnt % (6 + 32), 0);
	CU_ASSERT(out.cnt * 8 <= PTB_ARGS_BYTES_MAX && out.cnt * 8 > PTB_ARGS_BYTES_MAX - 320);
	CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
	stack[0] = (struct ival){ put_list(stack, 512), 14 };
	run_as(ARENA_STACK, put_stack(stack, 1), 1, true);
	CU_ASSERT(!out.cut); /* the list is marked */
	CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
	CU_ASSERT_EQUAL(first_val().flags, PTB_VAL_F_CUT);
	CU_ASSERT_EQUAL(first_val().n, 512);
	CU_ASSERT_EQUAL(first_val().aux, (out.cnt - 1) / 38);
}

TEST("hostile numbers")
{
	static const uint64_t counts[] = { 1ull << 63, ~0ull,      1ull << 32, (1ull << 32) - 1,
					   513,        1ull << 61, 0x7fffffff };
	uint64_t vec[3];

	begin(false);
	for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		begin(false);
		w[0] = ARENA_BASE + 64;
		w[1] = counts[i];
		add_op(PTB_ARG_WORDS);
		add_op(PTB_ARG_TENSORS);
		add_op(PTB_ARG_SCALARS);
		add_op(PTB_ARG_STRING);
		run(true);
		CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
		CU_ASSERT(out.cnt > 3);
		w[0] = ~0ull - 7;
		run(true);
		CU_ASSERT_EQUAL(values__survey(out.words, out.cnt).words, out.cnt);
		vec[0] = counts[i];
		vec[1] = 16;
		run_as(ARENA_STACK, arena__put(vec, sizeof(vec)), 1, true);
		CU_ASSERT(out.cut);
		vec[0] = 16;
		vec[1] = counts[i];
		run_as(ARENA_STACK, arena__put(vec, sizeof(vec)), counts[i], true);
		CU_ASSERT(out.cut);
		run_as(ARENA_TENSORS, arena__put(vec, sizeof(vec)), 0, true);
		CU_ASSERT(out.cut);
	}
}

/* ---- faults ---- */

/* Runs `what` with each of its reads failing in turn, and with all from it on. */
static void fail_everywhere(enum arena_run what, uint64_t a, uint64_t b)
{
	static struct payload whole;
	uint32_t reads;

	if (what == ARENA_INPUTS)
		run(true);
	else
		run_as(what, a, b, true);
	whole = out;
	arena.reads = 0;
	run_as(what, what == ARENA_INPUTS ? w[0] : a, what == ARENA_INPUTS ? w[1] : b, true);
	reads = arena.reads;
	CU_ASSERT(reads > 0);
	for (uint32_t i = 0; i < 2 * reads; i++) {
		struct value_survey survey;
		uint32_t faults = arena.counters[PTB_CNT_ARGS_FAULT];

		arena.reads = 0;
		arena.fail_at = i / 2;
		arena.fail_after = i % 2;
		at = 0;
		arena__run(what, &cfg, &prog, w, true, &out);
		survey = values__survey(out.words, out.cnt);
		CU_ASSERT_EQUAL(survey.words, out.cnt);
		/* it is marked, or (an optional part) correct without it */
		CU_ASSERT(out.cut || survey.flags & (PTB_VAL_F_FAULT | PTB_VAL_F_CUT) ||
			  (out.cnt == whole.cnt && !memcmp(out.words, whole.words, 8 * out.cnt)));
		CU_ASSERT(arena.counters[PTB_CNT_ARGS_FAULT] > faults ||
			  !memcmp(out.words, whole.words, 8 * out.cnt));
	}
	arena.fail_at = -1;
	arena.fail_after = false;
}

TEST("faults at every read")
{
	struct shape deep = { 6, { 1, 2, 3, 4, 5, 6 }, { 6, 5, 4, 3, 2, 1 }, -1, 720, 7, 0, 0xff };
	uint64_t scalar[6] = { 1, 0, 8, 0, 1 }, str[6] = {}, complex[6] = {};
	struct ival items[3] = { { 1, 5 }, { 2, 5 }, { 3, 3 } }, stack[6];

	begin(false);
	w[0] = put_word(put_impl(&deep));
	w[1] = arena__put(scalar, sizeof(scalar));
	w[2] = w[0]; /* a list of one tensor */
	w[3] = 1;
	add_op(PTB_ARG_PTR_TENSOR);
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_PTR_SCALAR, .loc = { 1 }, .has_off = 32 };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_TENSORS, .loc = { 2, 3 } };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_WORDS, .loc = { 2, 3, PTB_LOC_NONE } };
	*add_op(0) = (struct ptb_arg_op){ .op = PTB_ARG_STRING, .loc = { 2, 3, PTB_LOC_NONE } };
	fail_everywhere(ARENA_INPUTS, 0, 0);
	str[2] = arena__put("hello", 5);
	str[3] = 5;
	stack[0] = (struct ival){ put_list(items, 3), 14 };
	stack[1] = (struct ival){ arena__put(str, sizeof(str)), 12 };
	stack[2] = (struct ival){ arena__put(complex, sizeof(complex)), 4 };
	stack[3] = (struct ival){ put_impl(&deep), 1 };
	stack[4] = (struct ival){ put_list(stack, 4), 14 };
	stack[5] = (struct ival){ 9, 5 };
	fail_everywhere(ARENA_STACK, put_stack(stack, 6), 6);
}

/* ---- Python objects ---- */

static uint64_t put_py(uint64_t type, const uint64_t *body, uint32_t words)
{
	uint64_t obj[16] = { 3, type };

	memcpy(obj + 2, body, 8 * words);
	return arena__put(obj, sizeof(obj));
}

static uint64_t put_py_tuple(const uint64_t *items, uint32_t cnt)
{
	uint64_t body[12] = { cnt };

	memcpy(body + 1, items, 8 * cnt);
	return put_py(0x1005, body, cnt + 1);
}

/* long of up to three digits: size field and digits, as the CPython of `cfg` has them */
static uint64_t put_py_int(uint64_t type, bool negative, uint64_t value)
{
	uint64_t digits = value >> 60 ? 3 : value >> 30 ? 2 : value ? 1 : 0;
	uint64_t body[3], tag = digits << 3 | (negative ? 2 : value ? 0 : 1);

	body[0] = cfg.python.long_size_shift ? tag : negative ? -digits : digits;
	body[1] = (value & 0x3fffffff) | (value >> 30 & 0x3fffffff) << 32;
	body[2] = value >> 60;
	return put_py(type, body, 3);
}

static uint64_t put_py_str(const char *text, uint32_t state)
{
	uint64_t obj[16] = { 1, 0x1004, strlen(text), 0, state };

	memcpy((uint8_t *)obj + cfg.python.ascii_off, text, strlen(text) + 1);
	return arena__put(obj, sizeof(obj));
}

static void check_python_values(bool old)
{
	uint64_t items[10], impl, type[40] = {}, sub;

	begin(old);
	impl = put_impl(&matrix);
	type[32] = 0x1008; /* tp_base at +256 */
	sub = arena__put(type, sizeof(type));
	items[0] = put_py_int(0x1001, false, 0);
	items[1] = put_py_int(0x1001, true, 5);
	items[2] = put_py_int(0x1001, false, (uint64_t)INT64_MAX);
	items[3] = put_py_int(0x1001, true, 1ull << 63);
	items[4] = put_py_int(0x1003, false, 1);
	items[5] = put_py(0x1002, &(uint64_t){ 0x3ff0000000000000 }, 1);
	items[6] = cfg.python.none;
	items[7] = put_py(sub, &impl, 1);
	items[8] = put_py_str("text", 0x64);
	run_as(ARENA_TUPLE, put_py_tuple(items, 9), 0, true);
	expect_int(0);
	expect_int((uint64_t)-5);
	expect_int((uint64_t)INT64_MAX);
	expect_int(1ull << 63);
	expect_val(PTB_VAL_BOOL, 0, 1);
	expect_val(PTB_VAL_DOUBLE, 0, 0);
	expect(0x3ff0000000000000);
	expect_val(PTB_VAL_NONE, 0, 0);
	expect_tensor(&matrix, impl, true);
	expect_val(PTB_VAL_STRING, 4, 4);
	expect(0x74786574);
	expect_end();
}

/* What a custom function records: no texts, no objects, no containers of such. */
static void check_python_function(bool old)
{
	uint64_t items[5], list_items[2], body[2], text, yes;

	begin(old);
	text = put_py_str("text", 0x64);
	yes = put_py_int(0x1003, false, 1);
	list_items[0] = put_py_int(0x1001, true, 5);
	list_items[1] = put_py_int(0x1001, false, 0);
	body[0] = 2;
	body[1] = arena__put(list_items, sizeof(list_items));
	items[0] = text;
	items[1] = put_py(0x1006, body, 2);
	items[2] = put_py_tuple((uint64_t[]){ yes, text }, 2);
	items[3] = put_py(0x2222, body, 2);
	items[4] = put_py_int(0x1001, false, 77);
	run_as(ARENA_TUPLE_BARE, put_py_tuple(items, 5), 0, false);
	expect_val(PTB_VAL_INTS, 2, 2);
	expect((uint64_t)-5);
	expect(0);
	expect_int(77);
	expect_end();
}

/* Subclasses of tuple (torch.Size) and list, complex numbers. */
static void check_python_subclasses(bool old)
{
	uint64_t items[3], type[40] = {}, list_items[2], two, number;

	begin(old);
	two = put_py_int(0x1001, false, 2);
	number = put_py_int(0x1001, false, 77);
	type[21] = 1ull << 26; /* tp_flags at +168 */
	items[0] = put_py(arena__put(type, sizeof(type)), (uint64_t[]){ 2, two, number }, 3);
	type[21] = 1ull << 25;
	list_items[0] = list_items[1] = number;
	items[1] = put_py(arena__put(type, sizeof(type)),
			  (uint64_t[]){ 2, arena__put(list_items, sizeof(list_items)) }, 2);
	items[2] = put_py(0x1009, (uint64_t[]){ 0x3ff0000000000000, 0x4000000000000000 }, 2);
	run_as(ARENA_TUPLE, put_py_tuple(items, 3), 0, true);
	expect_val(PTB_VAL_TUPLE, 2, 2);
	expect_int(2);
	expect_int(77);
	expect_val(PTB_VAL_INTS, 2, 2);
	expect(77);
	expect(77);
	expect_val(PTB_VAL_COMPLEX, 0, 0);
	expect(0x3ff0000000000000);
	expect(0x4000000000000000);
	expect_end();
}

static void check_python_odd(bool old)
{
	uint64_t items[3], list_items[2], body[2];

	begin(old);
	list_items[0] = list_items[1] = put_py_int(0x1001, false, 77);
	body[0] = 2;
	body[1] = arena__put(list_items, sizeof(list_items));
	items[0] = put_py_str("\xc3\xa9", 0x44);     /* not ASCII */
	items[1] = put_py_int(0x1001, false, ~0ull); /* no int64 */
	items[2] = put_py(0x2222, body, 2);
	run_as(ARENA_TUPLE, put_py_tuple(items, 3), 0, false);
	expect_val(PTB_VAL_UNKNOWN, 0, 0);
	expect_val(PTB_VAL_UNKNOWN, 0, 0);
	expect_val(PTB_VAL_OPAQUE, 0, PTB_OPAQUE_PyObject);
	expect_end();
	fail_everywhere(ARENA_TUPLE, put_py_tuple(items + 1, 2), 0);
	run_as(ARENA_TUPLE, items[2], 0, false); /* no tuple */
	CU_ASSERT(out.cut);
	CU_ASSERT_EQUAL(out.cnt, 0);
}

TEST("Python objects")
{
	for (int old = 0; old < 2; old++) {
		check_python_values(old);
		check_python_function(old);
		check_python_subclasses(old);
		check_python_odd(old);
	}
}

TEST("an optional string")
{
	uint64_t str[6] = {}, old[6] = {};

	begin(false);
	str[0] = arena__put("0/0", 3);
	str[1] = 3;
	str[4] = 1; /* std::optional: its flag is last */
	run_as(ARENA_OPT_STRING, arena__put(str, sizeof(str)), 0, false);
	expect_val(PTB_VAL_STRING, 3, 3);
	expect(0x302f30);
	expect_end();
	str[4] = 0x100;
	run_as(ARENA_OPT_STRING, arena__put(str, sizeof(str)), 0, false);
	expect_end();
	run_as(ARENA_OPT_STRING, 0, 0, false);
	CU_ASSERT(out.cut);
	begin(true);
	old[0] = 3; /* length, capacity, references, text */
	old[3] = 0x302f30;
	str[0] = 1;
	str[1] = arena__put(old, sizeof(old)) + 24;
	run_as(ARENA_OPT_STRING, arena__put(str, sizeof(str)), 0, false);
	expect_val(PTB_VAL_STRING, 3, 3);
	expect(0x302f30);
	expect_end();
}

TEST("vectors")
{
	static const uint8_t kinds[] = { PTB_VAL_LIST, PTB_VAL_INTS, PTB_VAL_LIST, PTB_VAL_INTS };
	uint64_t mem[6] = {}, begin_end[2], wrong[2] = { 64, 32 };

	begin(false);
	begin_end[0] = arena__put(mem, sizeof(mem)); /* two empty vectors, or six numbers */
	begin_end[1] = begin_end[0] + sizeof(mem);
	w[0] = w[1] = arena__put(begin_end, sizeof(begin_end));
	w[2] = w[3] = arena__put(wrong, sizeof(wrong));
	for (uint8_t i = 0; i < 4; i++)
		*add_op(PTB_ARG_VECTOR) =
			(struct ptb_arg_op){ .op = PTB_ARG_VECTOR, .as = kinds[i], .loc = { i } };
	run(false);
	expect_val(PTB_VAL_LIST, 2, 2);
	expect_val(PTB_VAL_TENSORS, 0, 0);
	expect_val(PTB_VAL_TENSORS, 0, 0);
	expect_val(PTB_VAL_INTS, 6, 6);
	for (uint32_t i = 0; i < 8; i++)
		expect(i < 6 ? 0 : head(PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 0));
	expect_end();
}

SUITE("arg_objects")
