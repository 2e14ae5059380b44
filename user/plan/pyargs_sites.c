/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * torch.autograd._record_function_with_args_enter(name, *args): a scope whose name and arguments
 * exist as Python objects only, unless a profiler runs. Its code is what pybind11 calls for that
 * name (torch/csrc/autograd/init.cpp), which has no symbol of its own in a stripped library:
 *
 *	lea  "_record_function_with_args_enter"(%rip),%rbp
 *	...
 *	lea  function(%rip),%rcx
 *	mov  %rcx,0x30(%rax)		function_record::impl (pybind11/attr.h), behind name, doc,
 *					signature and the vector args
 */
#include "plan/plan_priv.h"

#include <string.h>

#define IMPL_OFF 0x30
#define LOOK_AHEAD 120 /* instructions behind the literal */

static const char text[] = "_record_function_with_args_enter";

struct finder {
	struct plan_build *b;
	uint64_t func;
	bool any, ambiguous;
};

/* The function that is stored as impl behind `addr`; 0: none. */
static uint64_t stored_function(struct finder *f, uint64_t addr)
{
	struct lib_code *lc = f->b->lc;
	uint64_t in_reg[REG_CNT] = { 0 }, start, end;
	struct insn in;

	for (uint32_t n = 0; n < LOOK_AHEAD; n++, addr += in.len) {
		const struct insn_operand *to = &in.ops[0], *from = &in.ops[1];

		if (!lib_code__decode(lc, f->b->flow.dec, addr, lc->text_end, &in) ||
		    in.cls == INSN_RET)
			return 0;
		if (in.form == FORM_ADDRESS && operand__is_fixed(from)) {
			in_reg[to->reg] = elf_file__is_text(lc->ef, (uint64_t)from->value) ?
						  (uint64_t)from->value :
						  0;
			continue;
		}
		if (insn__is_plain_move(&in, OPERAND_MEM, OPERAND_GPR) && to->size == 8 &&
		    operand__is_member(to) && to->value == IMPL_OFF && in_reg[from->reg] &&
		    elf_file__func_range(lc->ef, in_reg[from->reg], &start, &end) &&
		    start == in_reg[from->reg])
			return start;
		for (uint32_t reg = 0; reg < REG_CNT; reg++)
			if (insn__may_write(&in, (uint8_t)reg))
				in_reg[reg] = 0;
	}
	return 0;
}

static bool on_name_literal(void *arg, const struct code_ref *ref)
{
	struct finder *f = arg;
	uint64_t func = stored_function(f, ref->next);

	f->any = true;
	if (func && f->func && func != f->func)
		f->ambiguous = true;
	if (func)
		f->func = func;
	return true;
}

int pyargs_sites__add(struct plan_build *b)
{
	struct func_probe fp = { .name = text,
				 .kind = PTB_FUNC_SCOPE,
				 .enter = PTB_PROG_SCOPE_PYARGS };
	struct finder f = { .b = b };

	if (b->role != TORCH_LIB_PYTHON)
		return 0;
	lib_code__scan_text_refs(b->lc, text, on_name_literal, &f);
	if (!f.any)
		return 0; /* this version has no such scopes */
	if (!f.func || f.ambiguous) {
		plan_build__func(b, text, 0, PTB_FUNC_SCOPE, PTB_REFUSE_NO_SYMBOL);
		return 0;
	}
	fp.entry = f.func;
	return plan_build__probe(b, &fp);
}
