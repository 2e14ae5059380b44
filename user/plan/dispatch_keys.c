/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bits of TensorImpl::key_set_ (pytorch c10/core/DispatchKeySet.h): first one bit per backend, then
 * functionality k at bit backends + k - 1. c10::toString(BackendComponent) and
 * c10::toString(DispatchKey) return the names of numbers, which give the count of backends and the
 * number of each key.
 */
#include <string.h>

#include "plan/args_priv.h"

#define BACKENDS_MAX 48
#define KEYS_MAX 64 /* functionality keys come first, and each has a bit of 64 */
#define NAME_MAX_LEN 64

const char *leaf_run__text(const struct leaf_run *r, uint8_t reg, uint64_t max)
{
	return r->unknown[reg] ? NULL : lib_code__text(r->lc, r->reg[reg], max);
}

/* The const char* that toString(number) returns; NULL: unknown. */
static const char *name_of(struct leaf_run *r, uint64_t func, uint32_t number)
{
	return leaf_run__call(r, func, number, 0, 0) == LEAF_RETURNED ?
		       leaf_run__text(r, arch.result, NAME_MAX_LEN) :
		       NULL;
}

/* Backends are "CPUBit", "CUDABit", ...; any other number is "UNKNOWN_BACKEND_BIT". */
static uint32_t count_backends(struct leaf_run *r)
{
	uint64_t func = lib_code__function(r->lc, "_ZN3c108toStringENS_16BackendComponentE");
	const char *name;
	uint32_t n;

	for (n = 1; n < BACKENDS_MAX; n++) {
		name = name_of(r, func, n);
		if (!name || (n == 1 && strcmp(name, "CPUBit") != 0))
			return 0;
		if (!strncmp(name, "UNKNOWN", 7))
			break;
	}
	return n < BACKENDS_MAX ? n - 1 : 0;
}

int dispatch_keys__bit(struct leaf_run *r, const char *name)
{
	uint64_t func = lib_code__function(r->lc, "_ZN3c108toStringENS_11DispatchKeyE");
	uint32_t backends = count_backends(r);
	const char *text;

	if (!backends)
		return -1;
	for (uint32_t k = 1; k < KEYS_MAX && backends + k - 1 < 64; k++) {
		text = name_of(r, func, k);
		if (!text)
			return -1;
		if (!strcmp(text, name))
			return (int)(backends + k - 1);
	}
	return -1;
}

static uint64_t mask_of(struct leaf_run *r, const char *const *names)
{
	uint64_t mask = 0;
	int bit;

	for (; *names; names++) {
		bit = dispatch_keys__bit(r, *names);
		if (bit >= 0)
			mask |= 1ULL << bit;
	}
	return mask;
}

void dispatch_keys__learn(struct leaf_run *r, struct plan_layout *l)
{
	/* c10::autograd_dispatch_keyset; the per-backend autograd keys share one functionality */
	static const char *const autograd[] = { "AutogradFunctionality", "AutogradOther",
						"AutogradNestedTensor", NULL };
	static const char *const nested[] = { "NestedTensor", NULL };
	/* TensorImpl::layout() (c10/core/TensorImpl.h): sparse_ks, sparse_csr_ks, mkldnn_ks */
	static const char *const csr[] = { "SparseCsr", "SparseCsrCPU", "SparseCsrCUDA", NULL };
	static const char *const no_strides[] = { "Sparse",        "SparseCsr", "SparseCsrCPU",
						  "SparseCsrCUDA", "MkldnnCPU", NULL };

	r->mem = NULL;
	r->on_call = NULL;
	l->keys.autograd = mask_of(r, autograd);
	l->keys.nested = mask_of(r, nested);
	l->keys.sparse_csr = mask_of(r, csr);
	l->keys.no_strides = mask_of(r, no_strides);
}
