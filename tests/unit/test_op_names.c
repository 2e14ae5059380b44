/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Schema texts of a made-up library: whole texts, tails, two readings, namespaces, texts that are none. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "plan/plan_priv.h"
#include "suite.h"

/* The texts lie in this program's own read-only data, which is read like a library's. */
static const char *const texts[] __attribute__((used)) = {
	"ptbtest_add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
	"ptbtest_add.Tensor(Tensor self, Tensor other) -> Tensor",
	"ptbns::ptbtest_neg(Tensor self) -> Tensor",
	"special_ptbtest_erf.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
	"ptbtest_cat.out(Tensor[] tensors, *, Tensor(a!) out) -> Tensor(a!)",
	"ptbtest_cat_out(Tensor[] qx, Tensor(a!) out) -> Tensor(a!)",
	"ptbtest_no schema (a) -> b",
	"ptbtest_two.dots.here(Tensor self) -> Tensor",
};

static struct op_texts *own_texts(struct lib_code *lc, struct elf_file **ef)
{
	struct op_texts *t = NULL;

	CU_ASSERT_EQUAL_FATAL(elf_file__open("/proc/self/exe", ef), 0);
	lib_code__init(lc, *ef, &torch_names);
	op_texts__new(lc, &t);
	return t;
}

static void expect(const struct op_texts *t, const char *cls, const char *want,
		   enum op_text_match match, bool agrees, const char *name)
{
	char got[OP_NAME_MAX];
	bool agreed;
	enum op_text_match m = op_texts__find(t, cls, strlen(cls), want, &agreed, got);

	if (m != match || agreed != agrees || (name && strcmp(got, name)))
		printf(" %s: match %d agrees %d name %s;", cls, m, agreed, got);
	CU_ASSERT_EQUAL(m, match);
	CU_ASSERT_EQUAL(agreed, agrees);
	if (name)
		CU_ASSERT_STRING_EQUAL(got, name);
}

TEST("schema texts")
{
	struct elf_file *ef;
	struct lib_code lc;
	struct op_texts *t = own_texts(&lc, &ef);

	CU_ASSERT_FATAL(t != NULL && texts[0] != NULL);
	expect(t, "ptbtest_add_Tensor", NULL, OP_TEXT_ONE, false, "ptbtest_add.Tensor");
	expect(t, "ptbtest_add_Tensor", "aten::ptbtest_add.Tensor", OP_TEXT_ONE, true, NULL);
	expect(t, "ptbtest_add_Tensor", "aten::ptbtest_add", OP_TEXT_ONE, false, NULL);
	expect(t, "ptbtest_neg", NULL, OP_TEXT_ONE, false, "ptbtest_neg");
	/* only as the tail of a longer text */
	expect(t, "ptbtest_erf_out", "aten::ptbtest_erf.out", OP_TEXT_ONE, true, "ptbtest_erf.out");
	/* two readings of one class name: each confirms itself */
	expect(t, "ptbtest_cat_out", "aten::ptbtest_cat.out", OP_TEXT_MORE, true, NULL);
	expect(t, "ptbtest_cat_out", "aten::ptbtest_cat_out", OP_TEXT_MORE, true, NULL);
	expect(t, "ptbtest_cat_out", NULL, OP_TEXT_MORE, false, NULL);
	expect(t, "ptbtest_no", NULL, OP_TEXT_NONE, false, "");
	expect(t, "ptbtest_two_dots_here", NULL, OP_TEXT_NONE, false, "");
	expect(t, "ptbtest_absent", NULL, OP_TEXT_NONE, false, "");
	expect(t, "", NULL, OP_TEXT_NONE, false, "");
	op_texts__free(t);
	lib_code__free(&lc);
	elf_file__close(ef);
}

TEST("demangled names")
{
	static const char *const rows[][2] = {
		{ "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
		  "at::_ops::add_Tensor::call" },
		{ "_ZN5torch8autograd4NodeclEOSt6vectorIN2at6TensorESaIS4_EE",
		  "torch::autograd::Node::operator()" },
		{ "_ZN12_GLOBAL__N_117THPFunction_applyEP7_objectS1_S1_",
		  "(anonymous namespace)::THPFunction_apply" },
		{ "_ZN3c104swapERiS0_.isra.0", "c10::swap" },
		{ "_pytorch_record_function_enter", "_pytorch_record_function_enter" },
		{ "_Zrubbish", "_Zrubbish" },
		{ "", "" },
	};
	char buf[OP_NAME_MAX], tiny[8];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cxx_name__short(rows[i][0], buf, sizeof(buf));
		CU_ASSERT_STRING_EQUAL(buf, rows[i][1]);
	}
	cxx_name__short(rows[0][0], tiny, sizeof(tiny));
	CU_ASSERT_STRING_EQUAL(tiny, "at::_op");
}

SUITE("op_names")
