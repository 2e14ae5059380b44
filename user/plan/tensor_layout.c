/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Offsets in TensorImpl (pytorch c10/core/TensorImpl.h), found twice:
 *
 * in libtorch_cpu  at::_ops::X::call(Tensor const&, ...) computes the dispatch key set: it loads
 *                  the TensorImpl* that its argument points to, and from that key_set_. Most
 *                  functions do it first of all: the majority's displacement counts.
 * in libc10        exported members of TensorImpl, run on a made-up object: has_storage() looks at
 *                  storage_, set_autograd_meta() at autograd_meta_ (extra_meta_ follows),
 *                  numel_custom(), storage_offset_custom() and sizes_custom() at their fields and
 *                  key_set_, device_custom() at the two parts of device_opt_, whose order thus
 *                  becomes known.
 *
 * The fields at the end of the object have kept their distances to key_set_ in all versions; where
 * both ways give one, they must agree, or no tensor of this build is read.
 */
#include "plan/args_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "plan/plan_priv.h"

/* Distances from key_set_ back to the fields before it. */
#define KS_SIZES 112
#define KS_STORAGE_OFFSET 24
#define KS_NUMEL 16
#define KS_DTYPE 8
#define KS_DEVICE 6

#define VOTE_INSNS 96
#define VOTE_MIN 50  /* functions that must have been counted */
#define IMPL_MAX 512 /* TensorImpl has 176 to 192 bytes */

void tensor_layout__init(struct plan_layout *l)
{
	struct ptb_tensor_cfg *t = &l->tensor;

	t->storage_off = t->extra_meta_off = t->sizes_off = t->storage_offset_off = t->numel_off =
		t->dtype_off = t->device_off = t->key_set_off = t->storage_data_off =
			PTB_OFF_UNKNOWN;
	t->schema_args_off = t->schema_returns_off = PTB_OFF_UNKNOWN;
	t->scalar_int = t->scalar_double = t->scalar_bool = t->scalar_complex = 0xff;
}

static void refuse_tensor(struct plan_layout *l, const char *reason)
{
	layout__refuse(l->no_shapes_why, reason);
}

static void agree_tensor(struct plan_layout *l, uint16_t *field, uint64_t off, const char *member)
{
	layout__agree(l->no_shapes_why, field, off, IMPL_MAX, member, "TensorImpl");
}

/* ---- libtorch_cpu ---- */

/*
 * The first access to 8 bytes of the object that *(second argument) points to (the first argument
 * is the result's address). No branches are followed: before an operator asks for its key set, it
 * branches only to cold code.
 */
static uint32_t first_impl_member(struct plan_build *b, uint64_t addr)
{
	uint32_t args = 1u << arch.arg[1], impls = 0;
	struct insn in;

	for (uint32_t n = 0; n < VOTE_INSNS; n++, addr += in.len) {
		const struct insn_operand *to = &in.ops[0], *from = &in.ops[1], *mem;

		if (!lib_code__decode(b->lc, b->flow.dec, addr, b->lc->text_end, &in) ||
		    insn__is_call(&in) || in.cls == INSN_RET || in.cls == INSN_JMP_IND ||
		    in.cls == INSN_STOP)
			return 0;
		mem = operand__is_member(to) ? to : from;
		if (operand__is_member(mem) && mem->size == 8 && impls >> mem->reg & 1 &&
		    in.form != FORM_ADDRESS && mem->value > 0 && mem->value < IMPL_MAX)
			return (uint32_t)mem->value;
		if (insn__is_load(&in) && to->size == 8 && operand__is_member(from) &&
		    !from->value && args >> from->reg & 1) {
			args &= ~(1u << to->reg);
			impls |= 1u << to->reg;
		} else if (insn__is_copy(&in) && to->size == 8) {
			args = (args & ~(1u << to->reg)) | (args >> from->reg & 1) << to->reg;
			impls = (impls & ~(1u << to->reg)) | (impls >> from->reg & 1) << to->reg;
		} else {
			args &= ~(uint32_t)in.writes;
			impls &= ~(uint32_t)in.writes;
		}
	}
	return 0;
}

static void learn_from_operators(struct plan_build *b)
{
	static const char first_arg[] = "4callERKNS_6TensorE";
	const struct sym_list *l = &b->lc->topics[TOPIC_OPS];
	uint32_t votes[IMPL_MAX] = { 0 }, off, all = 0, best = 0;

	for (uint32_t i = 0; i < l->cnt; i++) {
		const char *at = strstr(l->syms[i].name, first_arg);

		if (!at)
			continue;
		off = first_impl_member(b, l->syms[i].addr);
		if (!off)
			continue;
		all++;
		if (++votes[off] > votes[best])
			best = off;
	}
	if (all >= VOTE_MIN && votes[best] * 4 >= all * 3)
		agree_tensor(&b->plan->layout, &b->plan->layout.tensor.key_set_off, best,
			     "key_set_");
}

/* ---- libc10 ---- */

/* A made-up object: words are MAGIC + their offset, bytes are chosen. */
#define MAGIC 0x5a000000u

struct fake_impl {
	uint64_t word; /* added to the offset; with `plain` the word itself */
	bool plain;
	uint8_t byte;
	uint32_t odd_byte; /* number of the byte read, from 1, that is 1 instead */
	uint32_t bytes_read;
};

static uint64_t impl_mem(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	struct fake_impl *f = arg;

	(void)obj;
	if (size == 1)
		return ++f->bytes_read == f->odd_byte ? 1 : f->byte;
	return f->plain ? f->word : f->word + off;
}

static enum leaf_end run_on_tensor(struct leaf_run *r, const char *name, struct fake_impl *f)
{
	r->mem = impl_mem;
	r->arg = f;
	r->on_call = NULL;
	return leaf_run__call(r, lib_code__function(r->lc, name), LEAF_OBJ(0), LEAF_OBJ(1), 0);
}

/* The last read of `size` bytes of the object; UINT64_MAX: none. */
static uint64_t last_read(const struct leaf_run *r, uint32_t size)
{
	uint64_t off = UINT64_MAX;

	for (uint32_t i = 0; i < r->read_cnt; i++)
		if (!r->reads[i].obj && r->reads[i].size == size)
			off = r->reads[i].off;
	return off;
}

/* An accessor returns the word of its field. */
static uint64_t returned_field(struct leaf_run *r, const char *name, uint8_t reg)
{
	struct fake_impl f = { .word = MAGIC };

	if (run_on_tensor(r, name, &f) != LEAF_RETURNED || r->unknown[reg])
		return UINT64_MAX;
	return r->reg[reg] - MAGIC;
}

/* With the policy bits set, numel_custom() first checks whether Python is in key_set_. */
static uint64_t key_set_read(struct leaf_run *r)
{
	struct fake_impl f = { .plain = true, .byte = 0x18 };

	run_on_tensor(r, "_ZNK3c1010TensorImpl12numel_customEv", &f);
	return r->read_cnt == 2 ? last_read(r, 8) : UINT64_MAX;
}

/* device_custom() returns *device_opt_, 2 bytes, after it has checked the optional's byte. */
static void learn_device(struct leaf_run *r, struct plan_layout *l)
{
	uint64_t has, device;

	for (uint32_t n = 1; n <= 4; n++) {
		struct fake_impl f = { .plain = true, .odd_byte = n };

		if (run_on_tensor(r, "_ZNK3c1010TensorImpl13device_customEv", &f) != LEAF_RETURNED)
			continue;
		has = last_read(r, 1);
		device = last_read(r, 2);
		if (has + 1 == device)
			l->tensor.device_has_first = 1;
		else if (has != device + 2)
			continue;
		agree_tensor(l, &l->tensor.device_off, has < device ? has : device, "device_opt_");
		return;
	}
	refuse_tensor(l, "the order of device_opt_ in TensorImpl is not known");
}

static void learn_members(struct leaf_run *r, struct plan_layout *l)
{
	struct ptb_tensor_cfg *t = &l->tensor;
	struct fake_impl f = { .plain = true };
	uint64_t off;

	if (run_on_tensor(r, "_ZNK3c1010TensorImpl11has_storageEv", &f) == LEAF_RETURNED &&
	    r->read_cnt == 1)
		agree_tensor(l, &t->storage_off, last_read(r, 8), "storage_");
	run_on_tensor(
		r,
		"_ZN3c1010TensorImpl17set_autograd_metaESt10unique_ptrINS_21AutogradMetaInterfaceE"
		"St14default_deleteIS2_EE",
		&f);
	off = last_read(r, 8);
	if (off < IMPL_MAX)
		agree_tensor(l, &t->extra_meta_off, off + 8, "extra_meta_");
	agree_tensor(l, &t->key_set_off, key_set_read(r), "key_set_");
	agree_tensor(l, &t->numel_off,
		     returned_field(r, "_ZNK3c1010TensorImpl12numel_customEv", arch.result),
		     "numel_");
	agree_tensor(l, &t->storage_offset_off,
		     returned_field(r, "_ZNK3c1010TensorImpl21storage_offset_customEv",
				    arch.result),
		     "storage_offset_");
	agree_tensor(l, &t->sizes_off,
		     returned_field(r, "_ZNK3c1010TensorImpl12sizes_customEv", arch.result2),
		     "sizes_and_strides_");
	learn_device(r, l);
}

struct find_object {
	const char *name;
	uint64_t addr;
};

static bool on_object(const struct elf_sym *sym, void *arg)
{
	struct find_object *f = arg;

	if (!sym->defined || strcmp(sym->name, f->name) != 0)
		return true;
	f->addr = sym->addr;
	return false;
}

uint64_t tensor_layout__object(const struct plan_build *b, const char *name)
{
	struct find_object f = { .name = name };

	elf_file__for_each_sym(b->lc->ef, on_object, &f);
	return f.addr;
}

static void learn_c10(struct plan_build *b, struct leaf_run *r)
{
	struct plan_layout *l = &b->plan->layout;

	l->undefined_impl = tensor_layout__object(b, "_ZN3c1019UndefinedTensorImpl10_singletonE");
	learn_members(r, l);
	dispatch_keys__learn(r, l);
	local_state__learn(r, l);
	scalar_tags__learn(r, l);
}

/* ---- interned strings ---- */

static enum leaf_call takes_strings(void *arg, struct leaf_run *r, const char *callee)
{
	uint64_t *addr = arg;

	if (strcmp(callee, "_ZN3c1015InternedStrings6stringENS_6SymbolE") != 0)
		return CALL_FOLLOW;
	*addr = r->unknown[arch.arg[0]] ? 0 : r->reg[arch.arg[0]];
	return CALL_STOP;
}

/* Symbol::toUnqualString() asks the static object of c10::globalStrings()
 * (interned_strings.cpp). */
static void learn_strings(struct leaf_run *r, struct plan_layout *l)
{
	uint64_t func = lib_code__function(r->lc, "_ZNK3c106Symbol14toUnqualStringEv"), addr = 0;

	r->mem = NULL;
	r->on_call = takes_strings;
	r->arg = &addr;
	r->guards_made = true;
	if (leaf_run__call(r, func, LEAF_OBJ(0), 0, 0) == LEAF_STOPPED)
		l->interned_strings = addr;
	r->guards_made = false;
	r->on_call = NULL;
}

void tensor_layout__learn(struct plan_build *b)
{
	struct leaf_run *r = xcalloc(1, sizeof(*r));

	r->lc = b->lc;
	r->dec = b->flow.dec;
	if (b->role == TORCH_LIB_CPU) {
		learn_from_operators(b);
		learn_strings(r, &b->plan->layout);
		ivalue_tags__learn(b, r);
	}
	rf_layout__learn(b, r);
	python_layout__learn(b, r);
	/* libc10, or the only file of a static build */
	if (lib_code__function(b->lc, "_ZN3c108GradMode10is_enabledEv"))
		learn_c10(b, r);
	free(r);
}

/* ---- all of it ---- */

void tensor_layout__finish(struct plan_layout *l)
{
	struct ptb_tensor_cfg *t = &l->tensor;
	uint16_t ks = t->key_set_off;

	t->shapes_on = 0;
	if (ks == PTB_OFF_UNKNOWN || ks < KS_SIZES) {
		refuse_tensor(l, "key_set_ was not found in TensorImpl");
		return;
	}
	if (t->storage_off != 16 && t->storage_off != 24)
		refuse_tensor(l, "storage_ was not found in TensorImpl");
	if (t->device_off == PTB_OFF_UNKNOWN)
		refuse_tensor(l, "device_opt_ was not found in TensorImpl");
	agree_tensor(l, &t->sizes_off, ks - KS_SIZES, "sizes_and_strides_");
	agree_tensor(l, &t->storage_offset_off, ks - KS_STORAGE_OFFSET, "storage_offset_");
	agree_tensor(l, &t->numel_off, ks - KS_NUMEL, "numel_");
	agree_tensor(l, &t->dtype_off, ks - KS_DTYPE, "data_type_");
	agree_tensor(l, &t->device_off, ks - KS_DEVICE, "device_opt_");
	/* storage_, autograd_meta_, extra_meta_ are the first members (TensorImpl.h) */
	agree_tensor(l, &t->extra_meta_off, t->storage_off + 16u, "extra_meta_");
	/* all three kinds of object begin with the same intrusive_ptr_target */
	t->object_header = (uint8_t)t->storage_off;
	t->storage_data_off = t->storage_off;
	if (l->string_ivalue_off != PTB_OFF_UNKNOWN && l->string_ivalue_off != t->storage_off)
		refuse_tensor(l, "headers of tensors and of strings differ");
	if (!l->undefined_impl)
		refuse_tensor(l, "the undefined tensor's object was not found");
	t->shapes_on = !l->no_shapes_why[0];
}

bool tensor_layout__plausible(uint32_t dtype, uint32_t ndim, const int64_t *sizes, int64_t numel,
			      int64_t storage_offset, uint64_t storage)
{
	int64_t product = 1;

	if (dtype >= 48 || ndim > 64 || numel < 0 || storage_offset < 0 || storage >> 56)
		return false;
	for (uint32_t i = 0; i < ndim; i++)
		if (sizes[i] < 0 || __builtin_mul_overflow(product, sizes[i], &product))
			return false;
	return product == numel;
}

static void print_keys(const struct plan_layout *l, FILE *out)
{
	const struct ptb_keys *k = &l->keys;
	const struct ptb_tensor_cfg *t = &l->tensor;

	fprintf(out,
		"  key bits: autograd %#" PRIx64 ", nested %#" PRIx64 ", no strides %#" PRIx64
		", sparse CSR %#" PRIx64 "; by default included %#" PRIx64 ", excluded %#" PRIx64
		"\n",
		(uint64_t)k->autograd, (uint64_t)k->nested, (uint64_t)k->no_strides,
		(uint64_t)k->sparse_csr, (uint64_t)t->keys_default_included,
		(uint64_t)t->keys_default_excluded);
	fprintf(out,
		"  thread-local: grad mode %#" PRIx64 "+%" PRIu64 " mask %#x, key sets %#" PRIx64
		"+%" PRIu64 "\n",
		l->grad_tls_got, (uint64_t)t->grad_tls_off, t->grad_mask, l->keys_tls_got,
		(uint64_t)t->keys_tls_off);
}

void tensor_layout__print(const struct plan_layout *l, FILE *out)
{
	const struct ptb_tensor_cfg *t = &l->tensor;

	if (!t->shapes_on) {
		fputs("no shapes: ", out);
		term_text__put(out, l->no_shapes_why, SIZE_MAX);
		fputc('\n', out);
		return;
	}
	fprintf(out,
		"tensors: storage %u, extra_meta %u, sizes %u, storage_offset %u, numel %u, dtype %u, "
		"device %u (%s), key_set %u, object header %u\n",
		t->storage_off, t->extra_meta_off, t->sizes_off, t->storage_offset_off,
		t->numel_off, t->dtype_off, t->device_off,
		t->device_has_first ? "has, type, index" : "type, index, has", t->key_set_off,
		t->object_header);
	print_keys(l, out);
	fprintf(out, "  Scalar tags: int %u, double %u, bool %u, complex %u; IValue kinds:",
		t->scalar_int, t->scalar_double, t->scalar_bool, t->scalar_complex);
	for (uint32_t i = 0; i < PTB_IVALUE_TAGS && t->ivalue_kind[i]; i++)
		if ((t->ivalue_kind[i] & 0xff) == PTB_VAL_OPAQUE)
			fprintf(out, " %u.%u", t->ivalue_kind[i] & 0xff, t->ivalue_kind[i] >> 8);
		else
			fprintf(out, " %u", t->ivalue_kind[i]);
	fprintf(out, "\n");
}
