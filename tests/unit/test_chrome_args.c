/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export/chrome_args: each kind of value as torch.profiler(record_shapes=True) of the official wheel 2.15.0
 * printed it (2.5.1 prints the same), and missing values are marked.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/arg_text.h"
#include "export/chrome_priv.h"
#include "fake_session.h"
#include "suite.h"
#include "text_out.h"
#include "value_words.h"

#define FLOAT 6
#define ARGS_MANY 100 /* more than the writer keeps decoded */

static struct value_words words;
static struct op_schemas schemas;
static struct chrome_args_opts opts = { .schemas = &schemas };
static const char *boxed_schema; /* the slice is a boxed call of it */
static const char *name = "aten::x";
static struct slice_values results;

/* Writes the arguments of a slice with these inputs as one object into `out`. */
static uint32_t write_args(uint32_t flags)
{
	struct slice sl = fake_slice(1, name, 1, 2);
	struct jsonw w;
	uint32_t missing;

	sl.in = vw__values(&words);
	sl.out = results;
	sl.in.flags = flags;
	if (boxed_schema) {
		sl.kind = PTB_FUNC_BOXED;
		sl.schema = boxed_schema;
	}
	out_len = 0;
	out[0] = '\0';
	CU_ASSERT_EQUAL_FATAL(jsonw__init(&w, to_out, NULL, 0), 0);
	jsonw__begin_obj(&w);
	missing = chrome_args__write(&w, &sl, &opts);
	jsonw__end_obj(&w);
	CU_ASSERT_EQUAL(jsonw__flush(&w), 0);
	jsonw__free(&w);
	words.cnt = 0;
	return missing;
}

static void expect_missing(uint32_t missing, const char *concrete, const char *type,
			   const char *strides, const char *dims)
{
	static char want[1 << 16];

	snprintf(want, sizeof(want),
		 "{\"Concrete Inputs\": [%s], \"Input type\": [%s], \"Input Strides\": [%s], \"Input Dims\": [%s]}",
		 concrete, type, strides, dims);
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), missing);
	CU_ASSERT_STRING_EQUAL(out, want);
	if (strcmp(out, want))
		printf("\n     got %.600s\nexpected %.600s\n", out, want);
}

static void expect(const char *concrete, const char *type, const char *strides, const char *dims)
{
	expect_missing(0, concrete, type, strides, dims);
}

static void scalar(const char *text)
{
	char quoted[128];

	snprintf(quoted, sizeof(quoted), "\"%s\"", text);
	expect(quoted, "\"Scalar\"", "[]", "[]");
}

static void test_doubles(void)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {
		{ 0.0, "0." },
		{ -0.0, "0." },
		{ 0.5, "0.5" },
		{ 1.0, "1." },
		{ -2.0, "-2." },
		{ 1e-8, "1e-08" },
		{ 1e-5, "1.0000000000000001e-05" },
		{ 1e-4, "0.0001" },
		{ 0.1, "0.10000000000000001" },
		{ 1.0 / 3, "0.33333333333333331" },
		{ 123456.789, "123456.789" },
		{ 999999.5, "999999.5" },
		{ 1e17, "100000000000000000." },
		{ 1e20, "1e+20" },
		{ 1e22, "1e+22" },
		{ 1e100, "1e+100" },
		{ 9007199254740992.0, "9007199254740992." },
		{ 1.5e300, "1.5000000000000001e+300" },
		{ 1e-300, "1e-300" },
		{ 5e-324, "4.9406564584124654e-324" },
		{ INFINITY, "inf" },
		{ -INFINITY, "-inf" },
		{ NAN, "nan" },
		{ -NAN, "-nan" },
		/* the largest whose cast to int64_t is exact, and the first that has none */
		{ 9223372036854774784.0, "9223372036854774784." },
		{ 0x1p63, "9.2233720368547758e+18" },
		{ -0x1p63, "-9223372036854775808." },
		{ -0x1.0000000000001p63, "-9.2233720368547779e+18" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vw__double(&words, rows[i].v);
		scalar(rows[i].text);
	}
}

static void test_scalars(void)
{
	vw__int(&words, -5);
	scalar("-5");
	vw__int(&words, INT64_MIN);
	scalar("-9223372036854775808");
	vw__bool(&words, true);
	scalar("True");
	vw__bool(&words, false);
	scalar("False");
	vw__complex(&words, 1, 2);
	scalar("1.+2.j");
	vw__complex(&words, 0.1, 0.2);
	scalar("0.10000000000000001+0.20000000000000001j");
	vw__complex(&words, -0.0, -1.5);
	scalar("0.-1.5j");
	vw__complex(&words, INFINITY, NAN);
	scalar("inf-nanj");
}

static void test_what_torch_does_not_record(void)
{
	vw__none(&words);
	vw__string(&words, "a \"text\"");
	vw__device(&words, 1, 0);
	vw__undefined(&words, 0x1234);
	vw__opaque(&words, PTB_OPAQUE_Generator);
	vw__list(&words, PTB_VAL_TUPLE, 1, 1);
	vw__int(&words, 1);
	expect("\"\", \"\", \"\", \"\", \"\", \"\"", "\"\", \"\", \"\", \"\", \"\", \"\"",
	       "[], [], [], [], [], []", "[], [], [], [], [], []");
}

static void test_tensors(void)
{
	struct vw_tensor t = { .dtype = FLOAT, .ndim = 2, .sizes = { 2, 3 } };
	struct vw_tensor view = {
		.dtype = 15, .ndim = 2, .sizes = { 3, 2 }, .own_strides = true, .strides = { 1, 3 }
	};
	struct vw_tensor zero = { .dtype = 4 };

	vw__tensor(&words, &t);
	vw__tensor(&words, &view);
	vw__tensor(&words, &zero);
	expect("\"\", \"\", \"\"", "\"float\", \"c10::BFloat16\", \"long int\"",
	       "[3, 1], [1, 3], []", "[2, 3], [3, 2], []");
	t.keys = FAKE_KEY_SPARSE;
	vw__tensor(&words, &t);
	t.keys = FAKE_KEY_CSR;
	t.no_strides = true;
	vw__tensor(&words, &t);
	expect("\"\", \"\"", "\"float\", \"float\"", "[], []", "[2, 3], [2, 3]");
	t = (struct vw_tensor){ .dtype = FLOAT, .ndim = 2, .sizes = { 2, 3 }, .keys = FAKE_KEY_NESTED };
	vw__tensor(&words, &t);
	t.keys = 0;
	t.flags = PTB_VAL_F_SYMBOLIC;
	vw__tensor(&words, &t);
	expect("\"\", \"\"", "\"\", \"\"", "[], []", "[], []");
}

static void put_tensors(uint8_t kind, uint32_t n, uint16_t present)
{
	static const int64_t sizes[] = { 2, 3 };

	vw__list(&words, kind, n, present);
	while (present--)
		vw__shape(&words, 2, sizes);
}

static void test_tensor_lists(void)
{
	struct vw_tensor sparse = { .dtype = FLOAT, .ndim = 1, .sizes = { 3 }, .keys = FAKE_KEY_SPARSE };
	struct vw_tensor nested = { .dtype = FLOAT, .ndim = 1, .sizes = { 3 }, .keys = FAKE_KEY_NESTED };
	static const int64_t none[] = { 0 };

	put_tensors(PTB_VAL_TENSORS, 0, 0);
	expect("\"\"", "\"TensorList\"", "[]", "[]");
	vw__list(&words, PTB_VAL_TENSORS, 2, 2);
	vw__shape(&words, 0, none);
	vw__tensor(&words, &sparse);
	expect("\"\"", "\"TensorList\"", "[[], []]", "[[], [3]]");
	put_tensors(PTB_VAL_TENSORS, 2, 2);
	expect("\"\"", "\"TensorList\"", "[[3, 1], [3, 1]]", "[[2, 3], [2, 3]]");
	put_tensors(PTB_VAL_TENSORS, 31, 31);
	expect("\"\"", "\"TensorList\"", "[]", "[]");
	put_tensors(PTB_VAL_TENSORS, 1000, 31); /* longer than torch shows: nothing is missing */
	expect("\"\"", "\"TensorList\"", "[]", "[]");
	vw__list(&words, PTB_VAL_TENSORS, 2, 2);
	vw__shape(&words, 0, none);
	vw__tensor(&words, &nested);
	expect("\"\"", "\"\"", "[]", "[]");
	vw__list(&words, PTB_VAL_TENSORS, 1, 1);
	vw__undefined(&words, 0);
	expect("\"\"", "\"\"", "[]", "[]");
	put_tensors(PTB_VAL_OPT_TENSORS, 1, 1); /* List[Optional[Tensor]] is no list of tensors */
	expect("\"\"", "\"\"", "[]", "[]");
	put_tensors(PTB_VAL_OPT_TENSORS, 0, 0); /* but an empty one is a list of anything */
	expect("\"[]\"", "\"ScalarList\"", "[]", "[]");
	put_tensors(PTB_VAL_LIST, 1, 1);
	expect("\"\"", "\"TensorList\"", "[[3, 1]]", "[[2, 3]]");
}

static void test_boxed_lists(void)
{
	boxed_schema = "ns::x(Tensor[] a, *, Tensor?[] b, Tensor(a!)[] c, int[] d) -> (Tensor, Tensor?[])";
	put_tensors(PTB_VAL_LIST, 0, 0);
	put_tensors(PTB_VAL_LIST, 0, 0);
	put_tensors(PTB_VAL_LIST, 0, 0);
	put_tensors(PTB_VAL_LIST, 0, 0);
	expect("\"\", \"[]\", \"\", \"[]\"",
	       "\"TensorList\", \"ScalarList\", \"TensorList\", \"ScalarList\"", "[], [], [], []",
	       "[], [], [], []");
	put_tensors(PTB_VAL_TENSORS, 1, 1);
	put_tensors(PTB_VAL_TENSORS, 1, 1);
	put_tensors(PTB_VAL_TENSORS, 1, 1);
	put_tensors(PTB_VAL_TENSORS, 1, 1); /* the schema is another's: as without */
	expect("\"\", \"\", \"\", \"\"", "\"TensorList\", \"\", \"TensorList\", \"TensorList\"",
	       "[[3, 1]], [], [[3, 1]], [[3, 1]]", "[[2, 3]], [], [[2, 3]], [[2, 3]]");
	boxed_schema = "";
	put_tensors(PTB_VAL_TENSORS, 1, 1);
	expect("\"\"", "\"TensorList\"", "[[3, 1]]", "[[2, 3]]");
	boxed_schema = NULL;
}

static void test_thirty_tensors(void)
{
	static char strides[512], dims[512];

	for (int i = 0; i < 30; i++) {
		snprintf(strides + strlen(strides), 16, i ? ", [3, 1]" : "[[3, 1]");
		snprintf(dims + strlen(dims), 16, i ? ", [2, 3]" : "[[2, 3]");
	}
	strcat(strides, "]");
	strcat(dims, "]");
	put_tensors(PTB_VAL_TENSORS, 30, 30);
	expect("\"\"", "\"TensorList\"", strides, dims);
}

static void test_scalar_lists(void)
{
	static const int64_t ints[31] = { 64, 32, -1 };
	static const double doubles[] = { 0.0, 0.5, 1e-9 };
	static const uint8_t bools[] = { 1, 0 };

	vw__ints(&words, 3, ints);
	expect("\"[64, 32, -1]\"", "\"ScalarList\"", "[]", "[]");
	vw__ints(&words, 0, ints);
	expect("\"[]\"", "\"ScalarList\"", "[]", "[]");
	vw__ints(&words, 31, ints);
	expect("\"\"", "\"\"", "[]", "[]");
	vw__ints(&words, 30, ints);
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"[64, 32, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
					   "0, 0, 0, 0, 0, 0, 0, 0, 0]\""));
	vw__doubles(&words, 3, doubles);
	expect("\"[0., 0.5, 1.0000000000000001e-09]\"", "\"ScalarList\"", "[]", "[]");
	vw__bools(&words, 2, bools);
	expect("\"[True, False]\"", "\"ScalarList\"", "[]", "[]");
	vw__list(&words, PTB_VAL_LIST, 3, 3);
	vw__int(&words, 1);
	vw__double(&words, 2);
	vw__bool(&words, true);
	expect("\"[1, 2., True]\"", "\"ScalarList\"", "[]", "[]");
	vw__list(&words, PTB_VAL_LIST, 1, 1);
	vw__complex(&words, 0, 1);
	expect("\"[0.+1.j]\"", "\"ScalarList\"", "[]", "[]");
	vw__list(&words, PTB_VAL_LIST, 1, 1);
	vw__string(&words, "x");
	expect("\"\"", "\"\"", "[]", "[]");
	vw__list(&words, PTB_VAL_LIST, 1, 1);
	vw__ints(&words, 1, ints);
	expect("\"\"", "\"\"", "[]", "[]");
}

static void test_missing(void)
{
	struct vw_tensor deep = { .dtype = FLOAT, .ndim = 17, .flags = PTB_VAL_F_DIMS_CUT };
	struct vw_tensor odd = { .dtype = 250, .ndim = 1, .sizes = { 3 } };

	vw__unknown(&words);
	expect_missing(CHROME_ARGS_UNKNOWN, "\"\"", "\"\"", "[]", "[]");
	vw__pending(&words, 0);
	expect_missing(CHROME_ARGS_UNKNOWN, "\"\"", "\"\"", "[]", "[]");
	vw__opaque(&words, PTB_OPAQUE_SymInt);
	expect_missing(CHROME_ARGS_UNKNOWN, "\"\"", "\"Scalar\"", "[]", "[]");
	vw__tensor(&words, &odd);
	expect_missing(CHROME_ARGS_UNKNOWN, "\"\"", "\"\"", "[1]", "[3]");
	vw__tensor(&words, &deep);
	expect_missing(CHROME_ARGS_CUT, "\"\"", "\"float\"", "[]", "[]");
	put_tensors(PTB_VAL_TENSORS, 3, 1);
	expect_missing(CHROME_ARGS_CUT, "\"\"", "\"TensorList\"", "[[3, 1]]", "[[2, 3]]");
	vw__list(&words, PTB_VAL_LIST, 3, 1);
	vw__int(&words, 7);
	expect_missing(CHROME_ARGS_CUT, "\"[7]\"", "\"ScalarList\"", "[]", "[]");
	vw__int(&words, 7);
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT | VALUES_CUT), CHROME_ARGS_CUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"Input type\": [\"Scalar\"]"));
}

static void test_no_inputs(void)
{
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_STRING_EQUAL(out, "{}"); /* torch omits empty values */
	vw__int(&words, 7);
	CU_ASSERT_EQUAL(write_args(0), 0);
	CU_ASSERT_STRING_EQUAL(out, "{}");
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT | VALUES_CUT), CHROME_ARGS_CUT);
	CU_ASSERT_STRING_EQUAL(out, "{}");
}

/* An operator without inputs differs from one whose inputs are not known. */
static void test_unknown_inputs(void)
{
	boxed_schema = "aten::x(Tensor self) -> Tensor";
	CU_ASSERT_EQUAL(write_args(0), 0); /* arguments are not recorded */
	opts.inputs = true;
	CU_ASSERT_EQUAL(write_args(0), CHROME_ARGS_UNKNOWN);
	CU_ASSERT_STRING_EQUAL(out, "{}");
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	boxed_schema = NULL;
	opts.inputs = false;
}

/* More than are kept decoded, with the last of another kind. */
/* The arguments of an all_reduce of NCCL, as the wheel 2.11.0 has them, and what torch.profiler wrote of it (nccl 2.28, one GPU). */
static void put_collective(const char *group)
{
	const int64_t splits[] = { 5, 7 };

	vw__list(&words, PTB_VAL_TENSORS, 1, 1);
	vw__shape(&words, 1, (const int64_t[]){ 18914304 });
	vw__list(&words, PTB_VAL_TUPLE, 2, 2);
	vw__int(&words, 3);
	vw__bool(&words, false);
	vw__list(&words, PTB_VAL_TUPLE, 2, 2);
	vw__string(&words, group);
	vw__string(&words, "default_pg");
	vw__int(&words, 0);
	vw__string(&words, "allreduce");
	vw__ints(&words, 2, splits);
	vw__list(&words, PTB_VAL_LIST, 0, 0);
	vw__int(&words, 0);
	vw__int(&words, 1);
	vw__int(&words, 1);
}

static void test_collective(void)
{
	static struct value_words out_words;

	name = "record_param_comms";
	vw__shape(&out_words, 1, (const int64_t[]){ 100 });
	vw__shape(&out_words, 1, (const int64_t[]){ 11 });
	results = vw__values(&out_words);
	put_collective("\"0\\");
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(out, "\"Collective name\": \"allreduce\", \"dtype\": \"Float\", \"In msg nelems\": 18914304, "
			    "\"Out msg nelems\": 111, \"In split size\": \"[5, 7]\", \"Out split size\": \"[]\", "
			    "\"Global rank start\": 0, \"Global rank stride\": 1, \"Group size\": 1, "
			    "\"Process Group Name\": \"\\\"0\\\\\", \"Process Group Description\": \"default_pg\", "
			    "\"Rank\": 0"));
	results = (struct slice_values){ .words = NULL };
	put_collective("0");
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_PTR_NULL(strstr(out, "Out msg nelems"));
	vw__int(&words, 1); /* another list of arguments than this one */
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_PTR_NULL(strstr(out, "Collective name"));
	name = "aten::x";
}

static void test_many(void)
{
	int i, n = ARGS_MANY;
	const char *p;

	for (i = 0; i < n - 1; i++)
		vw__int(&words, i);
	put_tensors(PTB_VAL_TENSORS, 1, 1);
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, ", \"98\", \"\"], \"Input type\": "));
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"Scalar\", \"TensorList\"], "));
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "[], [[2, 3]]]}"));
	for (i = 0, p = out; (p = strstr(p, "\"Scalar\"")); p++)
		i++;
	CU_ASSERT_EQUAL(i, n - 1);
}

/* Words from a broken capture: what makes sense is shown, nothing else is read. */
static void test_hostile(void)
{
	uint64_t body[2] = { 0 };

	vw__int(&words, 1);
	vw__raw(&words, PTB_VAL_TENSOR, 0, FLOAT, 200 | 1 << 16, body, 16); /* dims that are not there */
	expect("\"1\"", "\"Scalar\"", "[]", "[]");
	vw__list(&words, PTB_VAL_TENSORS, 2, 2);
	vw__int(&words, 1); /* no tensor, and no second */
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), 0);
	CU_ASSERT_STRING_EQUAL(out, "{}");
	vw__list(&words, PTB_VAL_TENSORS, 1, 1);
	vw__int(&words, 1);
	expect("\"\"", "\"\"", "[]", "[]");
	vw__tensor(&words, &(struct vw_tensor){
				   .dtype = FLOAT, .ndim = 20, .sizes = { 1 }, .own_strides = true });
	CU_ASSERT_EQUAL(write_args(VALUES_PRESENT), CHROME_ARGS_CUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"Input type\": [\"float\"]"));
}

/* For any capture the text is JSON and its arrays have the same length. */
static void test_damaged(void)
{
	static const char *const keys[] = { "Concrete Inputs", "Input type", "Input Strides",
					    "Input Dims" };
	static const int64_t ints[] = { 1, -2, 3 };
	uint64_t x = 0x9e3779b97f4a7c15ULL;
	cJSON *doc;

	for (uint32_t round = 0; round < 20000; round++) {
		put_tensors(PTB_VAL_TENSORS, 3, 3);
		vw__ints(&words, 3, ints);
		put_tensors(PTB_VAL_LIST, 1, 1);
		vw__double(&words, 0.1);
		vw__list(&words, PTB_VAL_LIST, 2, 2);
		vw__bool(&words, true);
		vw__complex(&words, 1, 2);
		for (uint32_t i = 0; i < 1 + round % 4; i++) {
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
			((unsigned char *)words.words)[(x >> 33) % (words.cnt * 8)] =
				(unsigned char)(x >> 24);
		}
		write_args(VALUES_PRESENT);
		doc = cJSON_Parse(out);
		CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
		for (uint32_t k = 1; k < 4; k++)
			CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(doc, keys[k])),
					cJSON_GetArraySize(cJSON_GetObjectItem(doc, keys[0])));
		cJSON_Delete(doc);
	}
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "doubles", test_doubles },
		{ "scalars", test_scalars },
		{ "what torch does not record", test_what_torch_does_not_record },
		{ "tensors", test_tensors },
		{ "lists of tensors", test_tensor_lists },
		{ "lists of boxed calls", test_boxed_lists },
		{ "thirty tensors", test_thirty_tensors },
		{ "lists of scalars", test_scalar_lists },
		{ "missing", test_missing },
		{ "no inputs", test_no_inputs },
		{ "inputs that are not known", test_unknown_inputs },
		{ "collective", test_collective },
		{ "many", test_many },
		{ "hostile", test_hostile },
		{ "damaged", test_damaged },
		CU_TEST_INFO_NULL,
	};

	return run_suite("chrome_args", tests);
}
