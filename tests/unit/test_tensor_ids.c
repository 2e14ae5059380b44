/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which tensor an address means at a time: with ends recorded, and without. */
#include "args/values.h"
#include "base/limits.h"
#include "model/model_priv.h"
#include "suite.h"
#include "value_words.h"

#define PID 7
#define NEVER 0

static struct tensor_ids ids;
static uint64_t now;

struct seen {
	uint32_t tensor, storage;
};

/* A tensor as an operator that began at `begin` takes or gives it. */
static struct seen see(uint32_t tgid, uint64_t impl, uint64_t data, enum tensor_role role,
		       uint64_t begin, uint64_t lost)
{
	struct vw_tensor t = {
		.dtype = 6, .ndim = 1, .sizes = { 4 }, .flags = PTB_VAL_F_IDS, .impl = impl, .storage = data
	};
	struct value_words w = { .cnt = 0 };
	struct slice_values sv;
	struct value_iter it;
	struct value v;
	const struct tensor_place at = {
		.tgid = tgid, .ts_ns = ++now, .begin_ns = begin, .lost_until = lost, .role = role
	};

	vw__list(&w, PTB_VAL_TENSORS, 1, 1);
	vw__tensor(&w, &t);
	tensor_ids__name(&ids, &at, w.words, w.cnt);
	sv = vw__values(&w);
	it = values__begin(&sv);
	CU_ASSERT_TRUE_FATAL(values__next(&it, &v));
	it = values__begin(&v.elems);
	CU_ASSERT_TRUE_FATAL(values__next(&it, &v));
	CU_ASSERT_EQUAL(v.storage, data);
	return (struct seen){ v.tensor, v.storage_id };
}

static struct seen given(uint64_t impl, uint64_t data)
{
	return see(PID, impl, data, TENSOR_GIVEN, now + 1, NEVER);
}

static struct seen made(uint64_t impl, uint64_t data)
{
	return see(PID, impl, data, TENSOR_NEW, now + 1, NEVER);
}

static void end(uint64_t impl, uint64_t data, uint32_t refs)
{
	const struct ptb_tensor_end r = { .h = { .tgid = PID }, .impl = impl, .data = data, .refs = refs };

	tensor_ids__end(&ids, &r);
}

static void fresh(bool ends)
{
	tensor_ids__clear(&ids);
	ids.ends = ends;
	now = 100;
}

TEST("addresses are reused")
{
	struct seen a, b, view;

	fresh(true);
	a = made(0x10, 0x1000);
	b = given(0x10, 0x1000);
	CU_ASSERT(a.tensor == b.tensor && a.storage == b.storage && a.tensor != a.storage);
	view = see(PID, 0x20, 0x1000, TENSOR_VIEW, now, NEVER);
	CU_ASSERT(view.tensor != a.tensor && view.storage == a.storage);
	end(0x10, 0x1000, 2); /* the view still has the storage */
	b = given(0x10, 0x1000);
	CU_ASSERT(b.tensor != a.tensor && b.storage == a.storage);
	end(0x10, 0x1000, 2);
	end(0x20, 0x1000, 1);
	b = given(0x30, 0x1000);
	CU_ASSERT_NOT_EQUAL(b.storage, a.storage);
	b = see(PID + 1, 0x30, 0x1000, TENSOR_GIVEN, now, NEVER); /* another process's */
	CU_ASSERT_NOT_EQUAL(b.storage, given(0x30, 0x1000).storage);
	CU_ASSERT_EQUAL(given(0x40, 0).storage, given(0x50, 0).storage);
}

/* The tensor that a view is of ends within the end of the view: each counts the other's reference. */
TEST("ends within ends")
{
	struct seen a;

	fresh(true);
	a = made(0x10, 0x1000);
	see(PID, 0x20, 0x1000, TENSOR_VIEW, now, NEVER);
	end(0x20, 0x1000, 2);
	end(0x10, 0x1000, 2);
	CU_ASSERT_NOT_EQUAL(given(0x30, 0x1000).storage, a.storage);
	/* three, of which a copy that was not recorded is left */
	fresh(true);
	a = made(0x10, 0x1000);
	see(PID, 0x20, 0x1000, TENSOR_VIEW, now, NEVER);
	end(0x20, 0x1000, 3);
	end(0x10, 0x1000, 3);
	CU_ASSERT_EQUAL(given(0x30, 0x1000).storage, a.storage);
	end(0, 0x1000, 1); /* and given up by a tensor of which weak references remain */
	CU_ASSERT_NOT_EQUAL(given(0x30, 0x1000).storage, a.storage);
}

TEST("other data for a tensor")
{
	struct seen a, b;

	fresh(true);
	a = made(0x10, 0x1000);
	b = given(0x10, 0x2000); /* set_(), resize_() */
	CU_ASSERT(a.tensor == b.tensor && a.storage != b.storage);
	CU_ASSERT_NOT_EQUAL(given(0x20, 0x1000).storage, a.storage);
	tensor_ids__freed(&ids, PID, 0x2000);
	CU_ASSERT_NOT_EQUAL(given(0x10, 0x2000).storage, b.storage);
	/* still referenced from elsewhere, then by the tensor of a result */
	fresh(true);
	a = made(0x10, 0x1000);
	end(0x10, 0x1000, 2);
	CU_ASSERT_EQUAL(given(0x20, 0x1000).storage, a.storage);
	end(0x20, 0x1000, 5);
	CU_ASSERT_NOT_EQUAL(made(0x30, 0x1000).storage, a.storage);
}

/* Without ends the schema decides; what was inside an operator is what it returns. */
TEST("no ends are recorded")
{
	struct seen a, b;
	uint64_t outer;

	fresh(false);
	a = made(0x10, 0x1000);
	CU_ASSERT_EQUAL(given(0x10, 0x1000).tensor, a.tensor);
	outer = now + 1;
	b = made(0x10, 0x1000);
	CU_ASSERT(b.tensor != a.tensor && b.storage != a.storage);
	a = see(PID, 0x10, 0x1000, TENSOR_NEW, outer, NEVER);
	CU_ASSERT(b.tensor == a.tensor && b.storage == a.storage);
	b = see(PID, 0x10, 0x1000, TENSOR_VIEW, now + 1, NEVER);
	CU_ASSERT(b.tensor != a.tensor && b.storage == a.storage);
	CU_ASSERT_NOT_EQUAL(given(0x10, 0x3000).tensor, b.tensor);
	/* the same after records were lost */
	fresh(true);
	a = made(0x10, 0x1000);
	CU_ASSERT_EQUAL(made(0x10, 0x1000).tensor, a.tensor);
	b = see(PID, 0x10, 0x1000, TENSOR_NEW, now + 1, now);
	CU_ASSERT(b.tensor != a.tensor && b.storage != a.storage);
}

TEST("another program")
{
	struct seen a;

	fresh(true);
	tensor_ids__new_program(&ids, PID);
	a = made(0x10, 0x1000);
	tensor_ids__new_program(&ids, PID);
	CU_ASSERT_NOT_EQUAL(given(0x10, 0x1000).tensor, a.tensor);
}

TEST("roles by schemas")
{
	static const struct {
		const char *schema;
		enum tensor_role role;
	} rows[] = {
		{ "", TENSOR_GIVEN },
		{ "aten::mm(Tensor self, Tensor mat2) -> Tensor", TENSOR_NEW },
		{ "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", TENSOR_VIEW },
		{ "aten::split(Tensor(a -> *) self, int n) -> Tensor(a)[]", TENSOR_VIEW },
		{ "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)", TENSOR_GIVEN },
		{ "aten::f(Tensor(a!) x) -> (Tensor, Tensor)", TENSOR_NEW },
	};

	fresh(true);
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++)
		CU_ASSERT_EQUAL(tensor_ids__role(&ids, rows[i / 2].schema), rows[i / 2].role);
	tensor_ids__clear(&ids);
}

/* Beyond the limit each has a new number wherever it is seen; where one has ended there is room again. */
TEST("more than the limit")
{
	const struct tensor_place at = { .tgid = PID, .role = TENSOR_GIVEN };
	const uint32_t ids_at = 1 + sizeof(struct ptb_val_tensor) / sizeof(uint64_t);
	struct value_words w = { .cnt = 0 };
	struct seen first, over;
	uint64_t i;

	fresh(true);
	first = given(64, 64);
	vw__tensor(&w, &(struct vw_tensor){
			       .dtype = 6, .ndim = 1, .sizes = { 4 }, .flags = PTB_VAL_F_IDS, .impl = 1 });
	for (i = 2; i <= LIMIT_TENSORS; i++) { /* see() without its checks */
		w.words[ids_at] = w.words[ids_at + 1] = 64 * i;
		tensor_ids__name(&ids, &at, w.words, w.cnt);
	}
	CU_ASSERT_EQUAL(ids.over, 0);
	over = given(64 * i, 64 * i);
	CU_ASSERT_EQUAL(ids.over, 2);
	CU_ASSERT_NOT_EQUAL(given(64 * i, 64 * i).tensor, over.tensor);
	CU_ASSERT_EQUAL(ids.over, 4);
	CU_ASSERT_EQUAL(given(64, 64).tensor, first.tensor);
	end(128, 128, 1);
	over = given(64 * i, 64 * i);
	CU_ASSERT_EQUAL(given(64 * i, 64 * i).tensor, over.tensor);
	CU_ASSERT_EQUAL(given(64 * i, 64 * i).storage, over.storage);
	CU_ASSERT_EQUAL(ids.over, 4);
	tensor_ids__clear(&ids);
}

SUITE("tensor_ids")
