/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * torch.Tensor as a Python object (torch/csrc/autograd/python_variable.h, struct THPVariable). The
 * offset of its TensorImpl* (up to about 2.8 behind a flag of MaybeOwned) is derived from the
 * getter of its attribute _cdata: PyLong_FromVoidPtr(self->cdata.unsafeGetTensorImpl()).
 */
#include <string.h>

#include "plan/args_priv.h"

#define MARK 0x5b000000u

static uint64_t variable_word(void *arg, uint32_t obj, uint64_t off, uint32_t size)
{
	(void)arg;
	(void)obj;
	return size == 8 ? MARK + off : 0;
}

/* What the getter asks first (is there a __torch_function__?) is answered with no. */
static enum leaf_call takes_impl(void *arg, struct leaf_run *r, const char *callee)
{
	uint64_t *off = arg;

	if (strcmp(callee, "PyLong_FromVoidPtr") != 0)
		return CALL_ZERO;
	*off = r->unknown[arch.arg[0]] ? UINT64_MAX : r->reg[arch.arg[0]] - MARK;
	return CALL_STOP;
}

void python_layout__learn(struct plan_build *b, struct leaf_run *r)
{
	const struct sym_list *getters = &b->lc->topics[TOPIC_CDATA];
	uint64_t off = UINT64_MAX;

	if (!getters->cnt)
		return;
	/* autograd/python_variable.h: set when torch.nn is imported */
	b->plan->layout.parameter_class = tensor_layout__object(b, "ParameterClass");
	r->mem = variable_word;
	r->on_call = takes_impl;
	r->arg = &off;
	leaf_run__call(r, getters->syms[0].addr, LEAF_OBJ(0), 0, 0);
	r->on_call = NULL;
	if (off < 16 || off > 64)
		return;
	b->plan->layout.variable_off = (uint16_t)off;
	b->plan->layout.variable_class = tensor_layout__object(b, "THPVariableClass");
}
