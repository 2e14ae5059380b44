/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a thread keeps its grad mode and its local dispatch key set.
 *
 * grad mode   GradMode::is_enabled() (c10/core/GradMode.h) returns one bit of AutogradState,
 *             through AutogradState::get_tls_state(): run with each bit of the byte set in turn, it
 *             says which.
 * key sets    tls_is_dispatch_keyset_included(ks) and ..._excluded(ks)
 *             (c10/core/impl/LocalDispatchKeySet.h) compare with the thread's words, which are
 *             stored XORed with the defaults: with zeroes in them and one bit in ks, the result is
 *             the defaults. The included defaults must be BackendSelect and ADInplaceOrView as the
 *             keys' names give them: that checks both derivations.
 */
#include <string.h>

#include "plan/args_priv.h"

struct fake_state {
	uint64_t off;  /* of the byte that is read last */
	uint8_t value; /* its value */
};

/* The guards of lazily made objects precede the byte and must read as "made". */
static uint64_t state_byte(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	struct fake_state *f = arg;

	(void)obj;
	return size == 1 && f->off != off ? 1 : f->value;
}

static bool run_grad(struct leaf_run *r, uint64_t func, struct fake_state *f, bool *on)
{
	r->mem = state_byte;
	r->arg = f;
	if (leaf_run__call(r, func, 0, 0, 0) != LEAF_RETURNED || r->unknown[arch.result] & 1 ||
	    !r->read_cnt)
		return false;
	*on = r->reg[arch.result] & 0xff;
	return true;
}

static void learn_grad(struct leaf_run *r, struct plan_layout *l)
{
	uint64_t func = lib_code__function(r->lc, "_ZN3c108GradMode10is_enabledEv");
	struct fake_state f = { .off = UINT64_MAX };
	struct leaf_read last;
	uint64_t got;
	uint32_t mask = 0;
	bool on;

	if (!run_grad(r, func, &f, &on))
		return;
	last = r->reads[r->read_cnt - 1];
	if (last.obj < LEAF_OBJ_MAX)
		return;
	f.off = last.off;
	got = r->tls_got[last.obj - LEAF_OBJ_MAX];
	for (uint32_t bit = 0; bit < 8; bit++) {
		f.value = (uint8_t)(1u << bit);
		if (!run_grad(r, func, &f, &on))
			return;
		mask |= on ? 1u << bit : 0;
	}
	if (!mask || mask & (mask - 1))
		return;
	l->grad_tls_got = got;
	l->tensor.grad_tls_off = last.off;
	l->tensor.grad_mask = (uint8_t)mask;
}

/* Finds the bits that are set by default, and the offset of the word. */
static bool learn_word(struct leaf_run *r, const char *name, uint64_t *got, uint64_t *off,
		       uint64_t *defaults)
{
	uint64_t func = lib_code__function(r->lc, name);
	struct leaf_read *rd;

	*defaults = 0;
	for (uint32_t bit = 0; func && bit < 64; bit++) {
		if (leaf_run__call(r, func, 1ULL << bit, 0, 0) != LEAF_RETURNED ||
		    r->unknown[arch.result] & 1 || r->read_cnt != 1)
			return false;
		rd = &r->reads[0];
		if (rd->obj < LEAF_OBJ_MAX || rd->size != 8)
			return false;
		if (bit && (*off != rd->off || *got != r->tls_got[rd->obj - LEAF_OBJ_MAX]))
			return false;
		*off = rd->off;
		*got = r->tls_got[rd->obj - LEAF_OBJ_MAX];
		if (r->reg[arch.result] & 0xff)
			*defaults |= 1ULL << bit;
	}
	return func != 0;
}

static void learn_keys(struct leaf_run *r, struct plan_layout *l)
{
	uint64_t got[2], off[2], defaults[2], expect;
	int select, inplace;

	r->mem = NULL;
	if (!learn_word(r, "_ZN3c104impl31tls_is_dispatch_keyset_includedENS_14DispatchKeySetE",
			&got[0], &off[0], &defaults[0]) ||
	    !learn_word(r, "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE",
			&got[1], &off[1], &defaults[1]))
		return;
	select = dispatch_keys__bit(r, "BackendSelect");
	inplace = dispatch_keys__bit(r, "ADInplaceOrView");
	if (select < 0 || inplace < 0 || got[0] != got[1] || off[1] != off[0] + 8)
		return;
	expect = 1ULL << select | 1ULL << inplace;
	if (defaults[0] != expect)
		memset(&l->keys, 0, sizeof(l->keys)); /* the bits do not match their names */
	l->keys_tls_got = got[0];
	l->tensor.keys_tls_off = off[0];
	l->tensor.keys_default_included = defaults[0];
	l->tensor.keys_default_excluded = defaults[1];
}

void local_state__learn(struct leaf_run *r, struct plan_layout *l)
{
	r->on_call = NULL;
	learn_grad(r, l);
	learn_keys(r, l);
}
