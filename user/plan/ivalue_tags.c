/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Numbers of the tags of IValue and Scalar, which shift between versions.
 *
 * IValue   c10::IValue::tagKind() (aten/src/ATen/core/ivalue.h) returns the tag's name; it is
 *          inline, and every library has copies of it. A copy is a function that refers to the
 *          literal "GenericDict", and run with each tag it hands that tag's name to std::string.
 *          Two copies must agree.
 * Scalar   c10::Scalar::log() takes the logarithm: of a complex number by clog(), of an integer
 *          after a conversion, of a double as it is. Negation throws for bool, the first tag behind
 *          complex (c10/core/Scalar.h: HAS_d, HAS_i, [HAS_u,] HAS_z, HAS_b).
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "plan/args_priv.h"

#define TAG_NAME_MAX 32
#define NAMES_MIN 16 /* every version has at least so many tags */
#define REFS_MAX 256
#define COPIES 2

static const struct tag_row {
	const char *name;
	uint16_t kind;
} rows[] = { { "None", PTB_VAL_NONE },
	     { "Tensor", PTB_VAL_TENSOR },
	     { "Double", PTB_VAL_DOUBLE },
	     { "ComplexDouble", PTB_VAL_COMPLEX },
	     { "Int", PTB_VAL_INT },
	     { "Bool", PTB_VAL_BOOL },
	     { "Tuple", PTB_VAL_TUPLE },
	     { "String", PTB_VAL_STRING },
	     { "GenericList", PTB_VAL_LIST },
	     { "Device", PTB_VAL_DEVICE },
#define X(name, nr) { #name, PTB_VAL_OPAQUE | PTB_OPAQUE_##name << 8 },
	     PTB_OPAQUES(X)
#undef X
};

/* 0: no such tag. The first row with the name counts. */
static uint16_t kind_of(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return rows[i].kind;
	return 0;
}

/* An unknown name is still a tag: torch prints it as a word. */
static bool is_word(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')))
			return false;
	return p - s >= 3 && *s >= 'A' && *s <= 'Z';
}

/* ---- IValue ---- */

struct tag_run {
	uint32_t tag;
	const char *name;
};

static uint64_t tag_word(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	struct tag_run *t = arg;

	(void)obj;
	return off == 8 && size == 4 ? t->tag : 0;
}

static enum leaf_call takes_name(void *arg, struct leaf_run *r, const char *callee)
{
	static const uint8_t args[] = { 1, 2, 0, 3 };
	struct tag_run *t = arg;
	const char *text;

	(void)callee;
	for (size_t i = 0; i < sizeof(args); i++) {
		text = leaf_run__text(r, arch.arg[args[i]], TAG_NAME_MAX);
		if (text && is_word(text)) {
			t->name = text;
			return CALL_STOP;
		}
	}
	return CALL_FOLLOW;
}

/* Runs one copy with every tag. by_value: the tag itself is the second argument (gcc's .isra). */
static uint32_t run_copy(struct leaf_run *r, uint64_t func, bool by_value, const char **names)
{
	struct tag_run t;
	uint32_t i, n = 0;

	r->mem = tag_word;
	r->on_call = takes_name;
	r->arg = &t;
	for (i = 0; i < PTB_IVALUE_TAGS; i++) {
		t = (struct tag_run){ .tag = i };
		names[i] = leaf_run__call(r, func, LEAF_OBJ(0), by_value ? i : LEAF_OBJ(1), 0) ==
					   LEAF_STOPPED ?
				   t.name :
				   NULL;
		for (uint32_t k = 0; k < i && names[i]; k++) /* names must differ */
			if (names[k] && !strcmp(names[k], names[i]))
				return 0;
		if (!names[i])
			break;
		n++;
	}
	for (; i < PTB_IVALUE_TAGS; i++)
		names[i] = NULL;
	r->on_call = NULL;
	return n;
}

/* tagKind() returns "InvalidTag(" for other numbers. That is no word, so the list ends there. */
static bool complete(const char **names, uint32_t n)
{
	static const char *const must[] = { "None",  "Tensor", "Double",      "Int",   "Bool",
					    "Tuple", "String", "GenericList", "Device" };
	uint32_t k;

	for (uint32_t i = 0; i < sizeof(must) / sizeof(must[0]); i++) {
		for (k = 0; k < n && strcmp(names[k], must[i]) != 0; k++)
			;
		if (k == n)
			return false;
	}
	return n >= NAMES_MIN;
}

struct refs {
	const struct lib_code *lc;
	uint64_t funcs[REFS_MAX];
	uint32_t func_cnt;
};

static bool on_tag_literal(void *arg, const struct code_ref *ref)
{
	struct refs *refs = arg;
	uint64_t start, end;

	if (elf_file__func_range(refs->lc->ef, ref->at, &start, &end) &&
	    (!refs->func_cnt || refs->funcs[refs->func_cnt - 1] != start))
		refs->funcs[refs->func_cnt++] = start;
	return refs->func_cnt < REFS_MAX;
}

static bool same_names(const char **a, const char **b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static void try_copies(struct leaf_run *r, const struct refs *refs, struct ptb_tensor_cfg *cfg)
{
	const char *names[2][PTB_IVALUE_TAGS];
	uint32_t n, first = 0, copies = 0;

	for (uint32_t i = 0; i < refs->func_cnt && copies < COPIES; i++) {
		const char **to = names[copies ? 1 : 0];

		n = run_copy(r, refs->funcs[i], false, to);
		if (n < NAMES_MIN)
			n = run_copy(r, refs->funcs[i], true, to);
		if (!n || !complete(to, n))
			continue;
		if (copies && (n != first || !same_names(names[0], names[1], n)))
			return;
		first = n;
		copies++;
	}
	if (!copies) /* one is enough if the compiler made only one */
		return;
	for (uint32_t got = 0; got < first; got++) {
		cfg->ivalue_kind[got] = kind_of(names[0][got]);
		if (!cfg->ivalue_kind[got])
			cfg->ivalue_kind[got] = PTB_VAL_OPAQUE | PTB_OPAQUE_Other << 8;
	}
}

void ivalue_tags__learn(struct plan_build *b, struct leaf_run *r)
{
	struct refs *refs = xcalloc(1, sizeof(*refs));

	refs->lc = b->lc;
	lib_code__scan_text_refs(b->lc, "GenericDict", on_tag_literal, refs);
	try_copies(r, refs, &b->plan->layout.tensor);
	free(refs);
}

/* ---- Scalar ---- */

enum scalar_class { SCALAR_NONE, SCALAR_DOUBLE, SCALAR_INT, SCALAR_COMPLEX };

struct scalar_run {
	uint32_t tag;
	enum scalar_class class;
};

static uint64_t scalar_word(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	struct scalar_run *s = arg;

	(void)obj;
	return !off && size == 4 ? s->tag : 0;
}

static enum leaf_call takes_log(void *arg, struct leaf_run *r, const char *callee)
{
	struct scalar_run *s = arg;

	if (!strncmp(callee, "clog", 4))
		s->class = SCALAR_COMPLEX;
	else if (!strcmp(callee, "log") || !strncmp(callee, "log@", 4))
		s->class = r->int_to_double ? SCALAR_INT : SCALAR_DOUBLE;
	else
		return CALL_FOLLOW;
	return CALL_STOP;
}

static enum scalar_class log_class(struct leaf_run *r, uint64_t func, uint32_t tag)
{
	struct scalar_run s = { .tag = tag };

	r->arg = &s;
	r->on_call = takes_log;
	leaf_run__call(r, func, LEAF_OBJ(0), LEAF_OBJ(1), 0);
	r->on_call = NULL;
	return s.class;
}

static bool can_negate(struct leaf_run *r, uint64_t func, uint32_t tag)
{
	struct scalar_run s = { .tag = tag };

	r->arg = &s;
	return leaf_run__call(r, func, LEAF_OBJ(0), LEAF_OBJ(1), 0) == LEAF_RETURNED;
}

#define SCALAR_TAGS 8

void scalar_tags__learn(struct leaf_run *r, struct plan_layout *l)
{
	uint64_t log = lib_code__function(r->lc, "_ZNK3c106Scalar3logEv");
	uint64_t neg = lib_code__function(r->lc, "_ZNK3c106ScalarngEv");
	uint8_t first[SCALAR_COMPLEX + 1] = { 0xff, 0xff, 0xff, 0xff };
	uint32_t tag, class;

	r->mem = scalar_word;
	for (tag = 0; log && neg && tag < SCALAR_TAGS; tag++) {
		class = log_class(r, log, tag);
		if (first[class] == 0xff)
			first[class] = (uint8_t)tag;
	}
	if (first[SCALAR_DOUBLE] == 0xff || first[SCALAR_INT] == 0xff ||
	    first[SCALAR_COMPLEX] == 0xff)
		return;
	tag = first[SCALAR_COMPLEX] + 1u;
	if (!can_negate(r, neg, first[SCALAR_DOUBLE]) || !can_negate(r, neg, first[SCALAR_INT]) ||
	    !can_negate(r, neg, first[SCALAR_COMPLEX]) || can_negate(r, neg, tag))
		return;
	l->tensor.scalar_double = first[SCALAR_DOUBLE];
	l->tensor.scalar_int = first[SCALAR_INT];
	l->tensor.scalar_complex = first[SCALAR_COMPLEX];
	l->tensor.scalar_bool = (uint8_t)tag;
}
