/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Types from demangled symbols, their locations by the System V rules, and the programs made of them, for
 * both kinds of optional. The locations are those observed in live processes.
 */
#include <stdlib.h>
#include <string.h>

#include "arg_locations.h"
#include "plan/args_priv.h"
#include "suite.h"

static bool compile(const char *params, const char *schema, enum optional_abi abi, struct arg_compiled *c)
{
	struct arg_type types[ARG_TYPES_MAX];
	char symbol[2048];
	struct schema s;
	int cnt;

	snprintf(symbol, sizeof(symbol), "at::_ops::x::call(%s)", params);
	cnt = arg_types__parse(symbol, abi, types);
	if (cnt < 0 || !schema_text__parse(schema, strlen(schema), "", &s, NULL, 0))
		return false;
	return arg_prog__fits(&s, types, (uint32_t)cnt) >= 0 &&
	       arg_prog__compile(&s, types, (uint32_t)cnt, c);
}

#define VIEW "std::basic_string_view<char, std::char_traits<char> >"

/* Parameters, schema, locations of the arguments, word of the result pointer, stack words. */
static const struct row {
	const char *params, *schema;
	enum optional_abi abi;
	const char *locations;
	uint8_t result_loc, stack_words, unplaced, late;
} rows[] = {
	/* add.Tensor, and in location: the result is the argument */
	{ "at::Tensor const&, at::Tensor const&, c10::Scalar const&",
	  "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", OPTIONAL_STD, "rsi rdx rcx",
	  0, 0, 0, 0 },
	{ "at::Tensor&, at::Tensor const&, c10::Scalar const&",
	  "(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", OPTIONAL_STD,
	  "rdi rsi rdx", 0, 0, 0, 0 },
	{ "at::Tensor const&, at::Tensor const&, at::Tensor&",
	  "(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", OPTIONAL_STD,
	  "rdi rsi rdx", 2, 0, 0, 0 },
	/* sum.dim_IntList: OptionalArrayRef on the stack or in two registers */
	{ "at::Tensor const&, c10::OptionalArrayRef<long>, bool, std::optional<c10::ScalarType>",
	  "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
	  OPTIONAL_STD, "rsi [8]+[16]+[24] rdx rcx", 0, 3, 0, 0 },
	{ "at::Tensor const&, c10::OptionalArrayRef<long>, bool, c10::optional<c10::ScalarType>",
	  "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
	  OPTIONAL_C10, "rsi rdx+rcx r8 r9", 0, 0, 0, 0 },
	/* empty.memory_format */
	{ "c10::ArrayRef<c10::SymInt>, std::optional<c10::ScalarType>, std::optional<c10::Layout>, "
	  "std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat>",
	  "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
	  OPTIONAL_STD, "rsi+rdx rcx r8 r9 [8] [16]", 0, 2, 0, 0 },
	/* convolution: a list that needs two registers when one is left goes to the stack whole; the
	 * next argument takes that register */
	{ "at::Tensor const&, at::Tensor const&, std::optional<at::Tensor> const&, "
	  "c10::ArrayRef<c10::SymInt>, c10::ArrayRef<c10::SymInt>, c10::ArrayRef<c10::SymInt>, bool, "
	  "c10::ArrayRef<c10::SymInt>, c10::SymInt",
	  "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
	  OPTIONAL_STD, "rsi rdx rcx r8+r9 [8]+[16] [24]+[32] [40] [48]+[56] [64]", 0, 8, 0, 0 },
	{ "bool, bool, bool, bool, bool, c10::ArrayRef<long>, long, long",
	  "(bool a, bool b, bool c, bool d, bool e, int[] f, int g, int h) -> ()", OPTIONAL_STD,
	  "rdi rsi rdx rcx r8 [8]+[16] r9 [24]", PTB_LOC_NONE, 3, 0, 0 },
	/* doubles, alone and optional */
	{ "at::Tensor const&, std::optional<double>, double, c10::optional<double>, std::optional<at::Generator>",
	  "(Tensor x, float? p, float q, float? r, Generator? generator=None) -> Tensor",
	  OPTIONAL_STD, "rsi xmm0+rdx xmm1 r8+rcx r9", 0, 0, 0, 2 },
	{ "long, long, long, long, long, long, std::optional<double>, double",
	  "(int a, int b, int c, int d, int e, int f, float? g, float h) -> ()", OPTIONAL_STD,
	  "rdi rsi rdx rcx r8 r9 [8]+[16] xmm0", PTB_LOC_NONE, 2, 0, 1 },
	{ "double, double, double, double, double, double, double, double, double, long",
	  "(float a, float b, float c, float d, float e, float f, float g, float h, float i, int j) -> int",
	  OPTIONAL_STD, "xmm0 xmm1 xmm2 xmm3 xmm4 xmm5 xmm6 xmm7 [8] rdi", PTB_LOC_NONE, 1, 0, 8 },
	/* texts */
	{ "at::Tensor const&, " VIEW ", std::optional<" VIEW " >", "(Tensor x, str mode, str? r) -> Tensor",
	  OPTIONAL_STD, "rsi rcx+rdx [16]+[8]+[24]", 0, 3, 0, 0 },
	{ "at::Tensor const&, c10::basic_string_view<char>, std::optional<c10::basic_string_view<char> >",
	  "(Tensor x, str mode, str? r) -> Tensor", OPTIONAL_STD, "rsi rdx+rcx [8]+[16]+[24]", 0, 3,
	  0, 0 },
	{ "at::Tensor const&, c10::basic_string_view<char>, c10::optional<c10::basic_string_view<char> >",
	  "(Tensor x, str mode, str? r) -> Tensor", OPTIONAL_C10, "rsi rdx+rcx r8", 0, 0, 0, 0 },
	/* lists of lists' kind, packed flags, opaque things */
	{ "c10::IListRef<at::Tensor> const&, long", "(Tensor[] tensors, int dim=0) -> Tensor",
	  OPTIONAL_STD, "rsi rdx", 0, 0, 0, 0 },
	{ "at::Tensor const&, c10::List<std::optional<at::Tensor> > const&, std::array<bool, 3ul>",
	  "(Tensor self, Tensor?[] indices, bool[3] mask) -> Tensor[]", OPTIONAL_STD, "rsi rdx rcx",
	  0, 0, 0, 0 },
	{ "at::Tensor&, c10::Storage, c10::Stream, c10::ArrayRef<c10::Scalar>, std::optional<long>",
	  "(Tensor(a!) self, Storage source, Stream s, Scalar[] l, int? n) -> Tensor(a!)",
	  OPTIONAL_STD, "rdi - - r8+r9 [8]+[16]", 0, 2, 0, 0 },
	/* unknown types: names of dimensions; by reference; by value */
	{ "at::Tensor const&, at::Dimname, c10::ArrayRef<at::Dimname>, bool",
	  "(Tensor x, Dimname d, Dimname[] e, bool b) -> Tensor", OPTIONAL_STD, "rsi ? ? r9", 0, 0, 2, 0 },
	{ "at::Tensor const&, at::New const&, at::Other*, long",
	  "(Tensor x, New a, Other b, int c) -> Tensor", OPTIONAL_STD, "rsi ? ? r8", 0, 0, 2, 0 },
	{ "at::Tensor const&, at::New, long", "(Tensor x, New a, int c) -> Tensor", OPTIONAL_STD,
	  "rsi ? ?", 0, 0, 2, 0 },
	{ "signed char, long", "(DeviceIndex i, int c) -> ()", OPTIONAL_STD, "? rsi", PTB_LOC_NONE,
	  0, 1, 0 },
	{ "at::Tensor const&", "(Tensor x) -> Mystery", OPTIONAL_STD, "?", PTB_LOC_NONE, 0, 2, 0 },
};

TEST("locations")
{
	struct arg_compiled c;
	char locations[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];

		if (!compile(r->params, r->schema, r->abi, &c)) {
			printf(" %s;", r->params);
			CU_FAIL("not compiled");
			continue;
		}
		arg_locations(&c.prog, locations, sizeof(locations));
		if (strcmp(locations, r->locations) || c.prog.result_loc != r->result_loc ||
		    c.prog.stack_words != r->stack_words || c.unplaced != r->unplaced ||
		    c.late_cnt != r->late) {
			printf("\n%s\n  %s result %u stack %u unplaced %u late %u\n", r->schema,
			       locations, c.prog.result_loc, c.prog.stack_words, c.unplaced, c.late_cnt);
			CU_FAIL("other locations");
		}
	}
}

/* ---- instructions ---- */

static const struct ptb_arg_op *one_arg(const char *type, const char *schema, enum optional_abi abi)
{
	static struct arg_compiled c;

	CU_ASSERT_FATAL(compile(type, schema, abi, &c));
	CU_ASSERT_FATAL(c.prog.in_cnt == 1);
	return &c.prog.ops[0];
}

static void expect(const struct ptb_arg_op *op, uint8_t opcode, uint8_t as, uint8_t has,
		   uint16_t val, uint8_t flags, uint8_t aux)
{
	CU_ASSERT_EQUAL(op->op, opcode);
	if (as)
		CU_ASSERT_EQUAL(op->as, as);
	CU_ASSERT_EQUAL(op->has_off, has);
	CU_ASSERT_EQUAL(op->val_off, val);
	CU_ASSERT_EQUAL(op->flags, flags);
	CU_ASSERT_EQUAL(op->aux, aux);
}

#define NONE PTB_LOC_NONE

TEST("instructions")
{
	const struct ptb_arg_op *op;

	expect(one_arg("at::Tensor const&", "(Tensor a) -> ()", OPTIONAL_STD), PTB_ARG_PTR_TENSOR,
	       0, NONE, 0, 0, 0);
	expect(one_arg("std::optional<at::Tensor> const&", "(Tensor? a) -> ()", OPTIONAL_STD),
	       PTB_ARG_PTR_TENSOR, 0, 8, 0, 0, 0);
	expect(one_arg("c10::optional<at::Tensor> const&", "(Tensor? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_PTR_TENSOR, 0, 0, 8, 0, 0);
	expect(one_arg("std::optional<c10::Scalar> const&", "(Scalar? a) -> ()", OPTIONAL_STD),
	       PTB_ARG_PTR_SCALAR, 0, 32, 0, 0, 0);
	expect(one_arg("c10::optional<c10::Scalar> const&", "(Scalar? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_PTR_SCALAR, 0, 0, 16, 0, 0);
	expect(one_arg("c10::SymInt", "(SymInt a) -> ()", OPTIONAL_STD), PTB_ARG_PTR_SYMINT, 0,
	       NONE, 0, 0, 0);
	expect(one_arg("c10::optional<c10::SymInt>", "(SymInt? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_PTR_SYMINT, 0, 0, 8, 0, 0);
	expect(one_arg("c10::ScalarType", "(ScalarType a) -> ()", OPTIONAL_STD), PTB_ARG_BYTE,
	       PTB_VAL_INT, NONE, 0, 0, 0);
	expect(one_arg("std::optional<bool>", "(bool? a) -> ()", OPTIONAL_STD), PTB_ARG_OPT_BYTES,
	       PTB_VAL_BOOL, 1, 0, 0, 0);
	expect(one_arg("c10::optional<c10::Layout>", "(Layout? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_OPT_BYTES, PTB_VAL_INT, 0, 1, 0, 0);
	expect(one_arg("std::optional<c10::Device>", "(Device? a) -> ()", OPTIONAL_STD),
	       PTB_ARG_OPT_BYTES, PTB_VAL_DEVICE, 2, 0, 0, 0);
	expect(one_arg("c10::optional<c10::Device>", "(Device? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_OPT_BYTES, PTB_VAL_DEVICE, 0, 1, 0, 0);
	expect(one_arg("std::optional<at::Generator>", "(Generator? a) -> ()", OPTIONAL_STD),
	       PTB_ARG_OPAQUE, 0, 8, 0, 0, PTB_OPAQUE_Generator);
	expect(one_arg("c10::OptionalArrayRef<long>", "(int[]? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_WORDS, PTB_VAL_INTS, NONE, 0, PTB_ARG_F_NULL_NONE, 0);
	expect(one_arg("std::optional<c10::ArrayRef<double> >", "(float[]? a) -> ()", OPTIONAL_STD),
	       PTB_ARG_WORDS, PTB_VAL_DOUBLES, NONE, 0, PTB_ARG_F_DOUBLE, 0);
	expect(one_arg("std::array<bool, 2ul>", "(bool[2] a) -> ()", OPTIONAL_STD),
	       PTB_ARG_BOOL_ARRAY, PTB_VAL_BOOLS, NONE, 0, 0, 2);
	expect(one_arg("c10::optional<c10::basic_string_view<char> >", "(str? a) -> ()", OPTIONAL_C10),
	       PTB_ARG_PTR_STRING, 0, 0, 8, 0, 0);
	/* the flag of an optional int is after it or before it */
	op = one_arg("std::optional<long>", "(int? a) -> ()", OPTIONAL_STD);
	CU_ASSERT(op->op == PTB_ARG_OPT_WORD && op->loc[0] == 0 && op->loc[1] == 1);
	op = one_arg("c10::optional<long>", "(int? a) -> ()", OPTIONAL_C10);
	CU_ASSERT(op->op == PTB_ARG_OPT_WORD && op->loc[0] == 1 && op->loc[1] == 0);
}

/* ---- results ---- */

TEST("results")
{
	const struct ptb_arg_op *op;
	struct arg_compiled c;

	/* the last element of a tuple comes first */
	CU_ASSERT_FATAL(compile("at::Tensor const&",
				"(Tensor x) -> (Tensor values, Tensor indices)", OPTIONAL_STD, &c));
	op = c.prog.ops + 1;
	CU_ASSERT(c.prog.out_cnt == 2 && c.prog.result_loc == 0);
	CU_ASSERT(op[0].op == PTB_ARG_PTR_TENSOR && op[0].val_off == 8 && op[1].val_off == 0);
	CU_ASSERT(op[0].loc[0] == 0 && !op[0].flags);
	/* references */
	CU_ASSERT_FATAL(compile("at::Tensor&, at::Tensor&",
				"(*, Tensor(a!) m, Tensor(b!) i) -> (Tensor(a!), Tensor(b!))",
				OPTIONAL_STD, &c));
	CU_ASSERT(c.prog.ops[2].flags == PTB_ARG_F_DEREF && c.prog.ops[2].val_off == 8);
	CU_ASSERT_EQUAL(c.prog.ops[0].loc[0], 1); /* behind the hidden pointer */
	/* numbers, vectors and small things between */
	CU_ASSERT_FATAL(compile("at::Tensor const&",
				"(Tensor x) -> (bool, Tensor[], float, bool, int, Tensor, SymInt)",
				OPTIONAL_STD, &c));
	op = c.prog.ops + 1;
	CU_ASSERT(op[6].op == PTB_ARG_PTR_SYMINT && op[6].val_off == 0);
	CU_ASSERT(op[5].op == PTB_ARG_PTR_TENSOR && op[5].val_off == 8);
	CU_ASSERT(op[4].op == PTB_ARG_PTR_INT && op[4].as == PTB_VAL_INT && op[4].val_off == 16);
	CU_ASSERT(op[3].as == PTB_VAL_BOOL && op[3].val_off == 24);
	CU_ASSERT(op[2].as == PTB_VAL_DOUBLE && op[2].val_off == 32);
	CU_ASSERT(op[1].op == PTB_ARG_VECTOR && op[1].val_off == 40);
	CU_ASSERT(op[0].as == PTB_VAL_BOOL && op[0].val_off == 64);
	CU_ASSERT_EQUAL(c.unplaced, 0);
	/* an element of unknown size hides those before it, which follow it in memory */
	CU_ASSERT_FATAL(compile("at::Tensor const&", "(Tensor x) -> (Tensor, Mystery, Tensor)",
				OPTIONAL_STD, &c));
	CU_ASSERT(c.unplaced == 2 && c.prog.ops[3].op == PTB_ARG_PTR_TENSOR);
	/* in registers */
	CU_ASSERT_FATAL(compile("at::Tensor const&", "(Tensor x) -> bool", OPTIONAL_STD, &c));
	CU_ASSERT(c.prog.result_loc == PTB_LOC_NONE && c.result == ARG_RESULT_BYTE);
	CU_ASSERT(c.prog.ops[1].op == PTB_ARG_WORD && c.prog.ops[1].loc[0] == 1);
	CU_ASSERT(c.prog.ops[1].as == PTB_VAL_BOOL);
	arg_prog__no_result(&c);
	CU_ASSERT(c.prog.ops[1].op == PTB_ARG_UNKNOWN && c.unplaced == 1);
	CU_ASSERT_FATAL(compile("at::Tensor const&", "(Tensor x) -> Scalar", OPTIONAL_STD, &c));
	CU_ASSERT(c.prog.ops[1].op == PTB_ARG_PTR_SCALAR && c.prog.result_loc == 0);
	CU_ASSERT_FATAL(compile("at::Tensor const&", "(Tensor x) -> Tensor(a)[]", OPTIONAL_STD, &c));
	CU_ASSERT(c.prog.ops[1].op == PTB_ARG_VECTOR);
}

/* ---- late doubles ---- */

TEST("late doubles")
{
	static const struct arg_late_location locations[3] = {
		{ .found = true, .in_memory = true, .reg = PTB_REG_RSP, .disp = 24 },
		{ .found = false },
		{ .found = true, .reg = PTB_REG_R12 },
	};
	struct ptb_arg_prog late;
	struct arg_compiled c;

	CU_ASSERT_FATAL(compile("double, std::optional<double>, double",
				"(float a, float? b, float c) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(c.late_cnt == 3 && c.unplaced == 0);
	arg_prog__late(&c, locations, &late);
	CU_ASSERT(c.unplaced == 1 && c.prog.ops[1].op == PTB_ARG_UNKNOWN);
	CU_ASSERT(c.prog.ops[0].op == PTB_ARG_LATE && c.prog.ops[0].aux == 0);
	CU_ASSERT(c.prog.ops[2].op == PTB_ARG_LATE && c.prog.ops[2].aux == 1);
	CU_ASSERT(late.in_cnt == 2 && late.out_cnt == 0);
	CU_ASSERT(late.ops[0].op == PTB_ARG_SLOT && late.ops[0].aux == 0 &&
		  late.ops[0].disp == 24 && late.ops[0].loc[0] == PTB_REG_RSP);
	CU_ASSERT(late.ops[1].op == PTB_ARG_SLOT_REG && late.ops[1].aux == 1 &&
		  late.ops[1].loc[0] == PTB_REG_R12);
}

/* ---- schemas that do not fit, texts that are no symbols ---- */

TEST("what does not fit")
{
	static const char *const bad[] = {
		"", "at::_ops::x::call", "at::_ops::x::call(", "x::call(long", "x::call(long) const", "x::call(A<long)"
	};
	struct arg_type types[ARG_TYPES_MAX];
	struct arg_compiled c;
	char many[2048] = "x::call(long";

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(arg_types__parse(bad[i], OPTIONAL_STD, types), -1);
	CU_ASSERT_EQUAL(arg_types__parse("x::call()", OPTIONAL_STD, types), 0);
	for (size_t i = 0; i < ARG_TYPES_MAX; i++)
		strcat(many, ", long");
	strcat(many, ")");
	CU_ASSERT_EQUAL(arg_types__parse(many, OPTIONAL_STD, types), -1);
	CU_ASSERT(!compile("long", "(SymInt a) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(!compile("long", "(int? a) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(!compile("long", "(int[] a) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(!compile("long", "(int a, int b) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(!compile("long", "(int a, ...) -> ()", OPTIONAL_STD, &c));
	CU_ASSERT(!arg_prog__compile(NULL, types, 3, &c));
	CU_ASSERT_EQUAL(c.unplaced, 3);
	/* without any optional in the library, what OptionalArrayRef is made of is not known */
	CU_ASSERT_FATAL(compile("c10::OptionalArrayRef<c10::SymInt>, long",
				"(Mystery a, int b) -> ()", OPTIONAL_NONE, &c));
	CU_ASSERT_EQUAL(c.unplaced, 2);
}

SUITE("arg_prog")
