/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export/et_values: each kind of value as ExecutionTraceObserver of the official wheel 2.15.0 wrote it, the
 * four arrays always of equal length, and what is missing counted.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/et_priv.h"
#include "fake_session.h"
#include "random.h"
#include "suite.h"
#include "text_out.h"
#include "value_words.h"

#define FLOAT 6
#define LONG 4

static struct value_words words;
static struct et_ids ids;
static struct et_missing missing;

static void write_flags(uint32_t flags)
{
	struct slice sl = fake_slice(1, "aten::x", 1, 2);
	struct slice_values sv = vw__values(&words);
	struct jsonw w;

	sv.flags = flags;
	out_len = 0;
	missing = (struct et_missing){ 0 };
	CU_ASSERT_EQUAL_FATAL(jsonw__init(&w, to_out, NULL, 0), 0);
	et_values__write(&w, &sv, sl.keys, &ids, &missing);
	CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
	jsonw__free(&w);
	words.cnt = 0;
}

static void fresh_ids(void)
{
	hashmap__clear(&ids.seen);
	ids = (struct et_ids){ 0 };
}

static void compare(const char *values, const char *shapes, const char *types, const char *strides)
{
	static char want[1 << 16];

	snprintf(want, sizeof(want),
		 "{\"values\": [%s], \"shapes\": [%s], \"types\": [%s], \"strides\": [%s]}", values,
		 shapes, types, strides);
	CU_ASSERT_STRING_EQUAL(out, want);
	if (strcmp(out, want))
		printf("\n     got %.600s\nexpected %.600s\n", out, want);
}

static void expect(const char *values, const char *shapes, const char *types, const char *strides)
{
	write_flags(VALUES_PRESENT);
	compare(values, shapes, types, strides);
}

static void scalar(const char *value, const char *type)
{
	expect(value, "[]", type, "[]");
	CU_ASSERT_EQUAL(missing.unknown + missing.cut, 0);
}

static void test_doubles(void)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {
		{ 0.0, "0.000000" },
		{ -0.0, "-0.000000" },
		{ 0.5, "0.500000" },
		{ 2.0, "2.000000" },
		{ 1e-8, "0.000000" },
		{ 1e-5, "0.000010" },
		{ 1.0 / 3, "0.333333" },
		{ 123456.789, "123456.789000" },
		{ 1e17, "100000000000000000.000000" },
		{ 1e22, "10000000000000000000000.000000" },
		{ -2.0, "-2.000000" },
		{ 999999.5, "999999.500000" },
		{ INFINITY, "\"inf\"" },
		{ -INFINITY, "\"-inf\"" },
		{ NAN, "\"nan\"" },
		{ -NAN, "\"-nan\"" },
		{ 1e100, "10000000000000000159028911097599180468360808563945281389781327557747838772170381060813469"
			 "985856815104.000000" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vw__double(&words, rows[i].v);
		scalar(rows[i].text, "\"Double\"");
	}
	vw__double(&words, 1.7976931348623157e308); /* the longest there is */
	vw__double(&words, -1.7976931348623157e308);
	write_flags(VALUES_PRESENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "858368.000000, -1797"));
}

static void test_scalars(void)
{
	vw__int(&words, INT64_MIN);
	scalar("-9223372036854775808", "\"Int\"");
	vw__bool(&words, true);
	scalar("true", "\"Bool\"");
	vw__none(&words);
	scalar("\"<None>\"", "\"None\"");
	vw__complex(&words, 1, 2);
	scalar("\"<ComplexDouble>\"", "\"ComplexDouble\"");
	vw__device(&words, 0, -1);
	scalar("\"cpu\"", "\"Device\"");
	vw__device(&words, 0, 1);
	scalar("\"cpu:1\"", "\"Device\"");
	vw__device(&words, 1, -1);
	scalar("\"cuda\"", "\"Device\"");
	vw__device(&words, 1, 0);
	scalar("\"cuda:0\"", "\"Device\"");
	vw__device(&words, 14, -1);
	scalar("\"meta\"", "\"Device\"");
	vw__opaque(&words, PTB_OPAQUE_Generator);
	scalar("\"<Generator>\"", "\"Generator\"");
	vw__opaque(&words, PTB_OPAQUE_GenericDict);
	scalar("\"<GenericDict>\"", "\"GenericDict\"");
	vw__opaque(&words, PTB_OPAQUE_SymInt);
	scalar("\"<SymInt>\"", "\"SymInt\"");
	vw__ints(&words, 2, (const int64_t[]){ 3, -(1LL << 62) - 1 }); /* the second: a tagged pointer */
	expect("[3, \"<SymInt>\"]", "[[], []]", "\"GenericList[Int,SymInt]\"", "[[], []]");
}

static void test_strings(void)
{
	static const char odd[] = "a\0b";

	vw__string(&words, "");
	scalar("\"\"", "\"String\"");
	vw__string(&words, "q\"uo\\te\n\x01");
	scalar("\"q\\\"uo\\\\te\\n\\u0001\"", "\"String\"");
	vw__string(&words, "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"); /* as text; 2.15.0 breaks it, 2.5.1 does not */
	scalar("\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\"", "\"String\"");
	vw__string(&words, "\xff\xc3"); /* no UTF-8, and a sequence without its end */
	scalar("\"\\u00ff\\u00c3\"", "\"String\"");
	vw__raw(&words, PTB_VAL_STRING, 0, 3, 3, odd, 3);
	scalar("\"a\\u0000b\"", "\"String\"");
}

static void test_lists(void)
{
	static const int64_t ints[] = { 1, 2, 3 };
	static const double doubles[] = { 0.5, INFINITY };
	static const uint8_t bools[] = { 1, 0 };

	vw__ints(&words, 3, ints);
	expect("[1, 2, 3]", "[[], [], []]", "\"GenericList[Int,Int,Int]\"", "[[], [], []]");
	vw__ints(&words, 0, ints);
	expect("[]", "[]", "\"GenericList[]\"", "[]");
	vw__doubles(&words, 2, doubles);
	expect("[0.500000, \"inf\"]", "[[], []]", "\"GenericList[Double,Double]\"", "[[], []]");
	vw__bools(&words, 2, bools);
	expect("[true, false]", "[[], []]", "\"GenericList[Bool,Bool]\"", "[[], []]");
	vw__list(&words, PTB_VAL_TUPLE, 2, 2);
	vw__int(&words, 1);
	vw__double(&words, 2.5);
	expect("[1, 2.500000]", "[[], []]", "\"Tuple[Int,Double]\"", "[[], []]");
	vw__list(&words, PTB_VAL_LIST, 2, 2);
	vw__ints(&words, 2, ints);
	vw__ints(&words, 1, ints);
	expect("[[1, 2], [1]]", "[[[], []], [[]]]",
	       "\"GenericList[GenericList[Int,Int],GenericList[Int]]\"", "[[[], []], [[]]]");
	vw__list(&words, PTB_VAL_LIST, 1, 1);
	vw__string(&words, "x");
	expect("[\"x\"]", "[[]]", "\"GenericList[String]\"", "[[]]");
	CU_ASSERT_EQUAL(missing.unknown + missing.cut, 0);
}

/* The ids of tensors and storages with these numbers: 2 * (2^22 + n) + 1. */
#define T1 "8388611"
#define T2 "8388613"
#define T3 "8388615"
#define T4 "8388617"
#define T7 "8388623"
#define S9 "8388627"
#define S10 "8388629"
#define S11 "8388631"

/* As the model names them: the numbers in place of the TensorImpl's address. */
static struct vw_tensor tensor(uint64_t nr, uint64_t storage)
{
	uint64_t impl = nr | storage << 32;

	return (struct vw_tensor){ .dtype = FLOAT,
				   .ndim = 2,
				   .sizes = { 2, 3 },
				   .flags = PTB_VAL_F_IDS | PTB_VAL_F_STORAGE,
				   .impl = impl,
				   .storage = storage << 12 };
}

static void test_tensors(void)
{
	struct vw_tensor t = tensor(1, 9), gpu = tensor(2, 9);
	struct vw_tensor zero = { .dtype = LONG,
				  .flags = PTB_VAL_F_IDS | PTB_VAL_F_STORAGE,
				  .impl = 3 | 10ULL << 32,
				  .storage = 0xa000 };

	fresh_ids();
	gpu.device_type = 1;
	gpu.has_index = true;
	gpu.index = 3;
	gpu.offset = 7;
	vw__tensor(&words, &t);
	vw__tensor(&words, &gpu);
	vw__tensor(&words, &t);
	vw__tensor(&words, &zero);
	expect("[" T1 ", " S9 ", 0, 6, 4, \"cpu\"], [" T2 ", " S9 ", 7, 6, 4, \"cuda:3\"], [" T1
	       ", " S9 ", 0, 6, 4, \"cpu\"], "
	       "[" T3 ", " S10 ", 0, 1, 8, \"cpu\"]",
	       "[2, 3], [2, 3], [2, 3], []",
	       "\"Tensor(float)\", \"Tensor(float)\", \"Tensor(float)\", \"Tensor(long int)\"",
	       "[3, 1], [3, 1], [3, 1], []");
	CU_ASSERT_EQUAL(ids.cnt[ET_TENSOR], 3);
	CU_ASSERT_EQUAL(ids.cnt[ET_STORAGE], 2);
	/* an empty or meta tensor: its storage has no data, and is one for all of them */
	t = tensor(4, 11);
	t.storage = zero.storage = 0;
	zero.impl = 3 | 11ULL << 32;
	vw__tensor(&words, &t);
	vw__tensor(&words, &zero);
	expect("[" T4 ", " S11 ", 0, 6, 4, \"cpu\"], [" T3 ", " S11 ", 0, 1, 8, \"cpu\"]",
	       "[2, 3], []", "\"Tensor(float)\", \"Tensor(long int)\"", "[3, 1], []");
	CU_ASSERT_EQUAL(missing.unknown + missing.cut, 0);
}

static void test_odd_tensors(void)
{
	struct vw_tensor sparse = tensor(1, 0), nested = tensor(2, 9), sym = tensor(3, 9);

	fresh_ids();
	sparse.flags = PTB_VAL_F_IDS;
	sparse.keys = FAKE_KEY_SPARSE; /* no storage: neither offset nor device; strides are what is there */
	sparse.own_strides = true;
	vw__tensor(&words, &sparse);
	expect("[" T1 ", 0, 0, 0, 0, \"\"]", "[2, 3]", "\"Tensor(float)\"", "[0, 0]");
	sparse.keys = FAKE_KEY_CSR;
	vw__tensor(&words, &sparse);
	expect("[" T1 ", 0, 0, 0, 0, \"\"]", "[2, 3]", "\"Tensor(float)\"", "[]");
	sym.flags |= PTB_VAL_F_SYMBOLIC;
	vw__tensor(&words, &sym);
	expect("[" T3 ", 0, 0, 0, 0, \"\"]", "[]", "\"Tensor(float)\"", "[]");
	nested.keys = FAKE_KEY_NESTED;
	vw__tensor(&words, &nested);
	expect("[" T2 ", " S9 ", 0, 6, 4, \"cpu\"]", "[]", "\"Tensor(float)\"", "[]");
	CU_ASSERT_EQUAL(missing.unknown, 1); /* its number of elements */
	vw__undefined(&words, 7);
	vw__list(&words, PTB_VAL_OPT_TENSORS, 3, 3);
	vw__none(&words);
	vw__undefined(&words, 7);
	nested.keys = 0;
	vw__tensor(&words, &nested);
	expect("[" T7 ", 0, 0, 0, 0, \"\"], [\"<None>\", [" T7 ", 0, 0, 0, 0, \"\"], [" T2 ", " S9
	       ", 0, 6, 4, \"cpu\"]]",
	       "[], [[], [], [2, 3]]",
	       "\"Tensor(nullptr (uninitialized))\", "
	       "\"GenericList[None,Tensor(nullptr (uninitialized)),Tensor(float)]\"",
	       "[], [[], [], [3, 1]]");
	CU_ASSERT_EQUAL(missing.unknown + missing.cut, 0);
}

static void test_unknown(void)
{
	struct vw_tensor odd = tensor(1, 9), bare = { .dtype = FLOAT, .ndim = 1, .sizes = { 3 } };

	fresh_ids();
	vw__unknown(&words);
	vw__pending(&words, 0);
	vw__opaque(&words, PTB_OPAQUE_Int);
	vw__opaque(&words, 99);
	expect("\"<Unknown>\", \"<Unknown>\", \"<Unknown>\", \"<Unknown>\"", "[], [], [], []",
	       "\"Unknown\", \"Unknown\", \"Unknown\", \"Unknown\"", "[], [], [], []");
	CU_ASSERT_EQUAL(missing.unknown, 4);
	odd.dtype = 250;
	odd.device_type = 250;
	vw__tensor(&words, &odd);
	expect("[" T1 ", " S9 ", 0, 6, 0, \"Unknown\"]", "[2, 3]", "\"Tensor(Unknown)\"", "[3, 1]");
	CU_ASSERT_EQUAL(missing.unknown, 2);
	vw__tensor(&words, &bare); /* no identity was recorded */
	expect("[0, 0, 0, 3, 4, \"cpu\"]", "[3]", "\"Tensor(float)\"", "[1]");
	CU_ASSERT_EQUAL(missing.unknown, 1);
	CU_ASSERT_EQUAL(missing.cut, 0);
}

static void test_cut(void)
{
	struct vw_tensor deep = tensor(1, 9);
	static const int64_t two[] = { 1, 2 };

	fresh_ids();
	vw__raw(&words, PTB_VAL_INTS, PTB_VAL_F_CUT, 2, 5000, two, 16);
	expect("[1, 2, \"<Cut>\"]", "[[], [], []]", "\"GenericList[Int,Int,Unknown]\"", "[[], [], []]");
	CU_ASSERT_EQUAL(missing.cut, 1);
	vw__raw(&words, PTB_VAL_STRING, PTB_VAL_F_CUT, 3, 9000, "abc", 3);
	expect("\"abc<Cut>\"", "[]", "\"String\"", "[]");
	CU_ASSERT_EQUAL(missing.cut, 1);
	deep.ndim = 18;
	deep.flags |= PTB_VAL_F_DIMS_CUT;
	vw__tensor(&words, &deep);
	write_flags(VALUES_PRESENT);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(out, "\"shapes\": [[]], \"types\": [\"Tensor(float)\"], \"strides\": [[]]}"));
	CU_ASSERT_EQUAL(missing.cut, 1);
	vw__int(&words, 4);
	write_flags(VALUES_PRESENT | VALUES_CUT);
	compare("4, \"<Cut>\"", "[], []", "\"Int\", \"Unknown\"", "[], []");
	CU_ASSERT_EQUAL(missing.cut, 1);
	CU_ASSERT_EQUAL(missing.unknown, 0);
}

static int array_size(const cJSON *side, const char *key)
{
	return cJSON_GetArraySize(cJSON_GetArrayItem(cJSON_GetObjectItem(side, key), 0));
}

/* torch stops after 4097 elements, in all four arrays. */
static void test_long_list(void)
{
	static int64_t many[5000];
	cJSON *side;
	const char *types, *p;
	int n = 1;

	vw__ints(&words, 5000, many);
	write_flags(VALUES_PRESENT);
	CU_ASSERT_EQUAL(missing.cut, 0);
	side = cJSON_Parse(out);
	CU_ASSERT_PTR_NOT_NULL_FATAL(side);
	CU_ASSERT_EQUAL(array_size(side, "values"), 4097);
	CU_ASSERT_EQUAL(array_size(side, "shapes"), 4097);
	CU_ASSERT_EQUAL(array_size(side, "strides"), 4097);
	types = cJSON_GetArrayItem(cJSON_GetObjectItem(side, "types"), 0)->valuestring;
	for (p = types; (p = strchr(p, ',')); p++)
		n++;
	CU_ASSERT_EQUAL(n, 4097);
	cJSON_Delete(side);
}

static void test_nothing(void)
{
	expect("", "", "", "");
	vw__int(&words, 1);
	write_flags(0); /* not recorded */
	compare("", "", "", "");
}

static void test_many(void)
{
	cJSON *side;

	for (int i = 0; i < 100; i++) /* more than are kept decoded */
		vw__int(&words, i);
	write_flags(VALUES_PRESENT);
	side = cJSON_Parse(out);
	CU_ASSERT_PTR_NOT_NULL_FATAL(side);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "values")), 100);
	CU_ASSERT_EQUAL(cJSON_GetArrayItem(cJSON_GetObjectItem(side, "values"), 99)->valueint, 99);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "types")), 100);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "shapes")), 100);
	CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "strides")), 100);
	cJSON_Delete(side);
}

static void put_everything(void)
{
	static const int64_t ints[] = { 1, -2, 3 };
	static const uint8_t bools[] = { 1, 0, 1 };
	struct vw_tensor t = tensor(1, 9);

	vw__tensor(&words, &t);
	vw__ints(&words, 3, ints);
	vw__bools(&words, 3, bools);
	vw__list(&words, PTB_VAL_TENSORS, 2, 2);
	vw__tensor(&words, &t);
	vw__undefined(&words, 7);
	vw__string(&words, "text \xe4\xb8\xad");
	vw__list(&words, PTB_VAL_TUPLE, 2, 2);
	vw__list(&words, PTB_VAL_LIST, 1, 1);
	vw__double(&words, 0.1);
	vw__complex(&words, 1, 2);
	vw__device(&words, 1, 2);
	vw__opaque(&words, PTB_OPAQUE_Stream);
	vw__bool(&words, true);
	vw__none(&words);
}

/* For any capture the text is JSON and its arrays have the same length. */
static void test_damaged(void)
{
	uint32_t flags;
	cJSON *side;
	int n;

	fresh_ids();
	for (uint32_t round = 0; round < 20000; round++) {
		put_everything();
		for (uint32_t i = 0; i < 1 + next_random() % 4; i++)
			((unsigned char *)words.words)[next_random() % (words.cnt * 8)] =
				(unsigned char)next_random();
		flags = VALUES_PRESENT | (next_random() & VALUES_CUT);
		write_flags(flags);
		side = cJSON_Parse(out);
		CU_ASSERT_PTR_NOT_NULL_FATAL(side);
		n = cJSON_GetArraySize(cJSON_GetObjectItem(side, "values"));
		CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "shapes")), n);
		CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "types")), n);
		CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(side, "strides")), n);
		cJSON_Delete(side);
	}
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "doubles", test_doubles },
		{ "scalars", test_scalars },
		{ "strings", test_strings },
		{ "lists", test_lists },
		{ "tensors", test_tensors },
		{ "odd tensors", test_odd_tensors },
		{ "unknown", test_unknown },
		{ "cut", test_cut },
		{ "long list", test_long_list },
		{ "nothing", test_nothing },
		{ "many", test_many },
		{ "damaged", test_damaged },
		CU_TEST_INFO_NULL,
	};
	int rc;

	fresh_ids();
	rc = run_suite("et_values", tests);
	hashmap__clear(&ids.seen);
	return rc;
}
