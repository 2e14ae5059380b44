/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * torch.autograd._record_function_with_args_enter(name, *args): a scope whose name and arguments exist
 * as Python objects only, unless a profiler runs. Its code is what pybind11 calls for that name
 * (torch/csrc/autograd/init.cpp), which has no symbol of its own in a stripped library:
 *
 *	lea  "_record_function_with_args_enter"(%rip),%rbp
 *	...
 *	lea  function(%rip),%rcx
 *	mov  %rcx,0x30(%rax)		function_record::impl (pybind11/attr.h), behind name, doc,
 *					signature and the vector args
 */
#include "plan/special_sites.h"

#include <errno.h>
#include <string.h>

#define IMPL_OFF 0x30
#define LOOK_AHEAD 120 /* instructions behind the literal */
#define TEXTS_MAX 4

static const char text[] = "_record_function_with_args_enter";

struct finder {
	struct plan_build *b;
	uint64_t texts[TEXTS_MAX];
	uint32_t text_cnt;
	uint64_t func;
	bool ambiguous;
};

static void find_texts(struct finder *f)
{
	const uint8_t *base, *p;
	uint64_t addr, len;
	uint32_t i;
	bool exec;

	for (i = 0; elf_file__segment(f->b->lc->ef, i, &addr, &len, &exec); i++) {
		base = exec ? NULL : elf_file__bytes(f->b->lc->ef, addr, len, NULL);
		for (p = base; p && f->text_cnt < TEXTS_MAX; p++) {
			p = memmem(p, len - (uint64_t)(p - base), text, sizeof(text));
			if (!p)
				break;
			f->texts[f->text_cnt++] = addr + (uint64_t)(p - base);
		}
	}
}

/* The function that is stored as impl behind `addr`; 0: none. */
static uint64_t stored_function(struct finder *f, uint64_t addr)
{
	struct lib_code *lc = f->b->lc;
	uint64_t in_reg[REG_CNT] = { 0 }, avail, start, end;
	struct insn_ops o;
	struct insn in;
	uint32_t n, reg;
	bool known;

	for (n = 0; n < LOOK_AHEAD; n++, addr += in.len) {
		const uint8_t *p = lc->src.text(lc->src.arg, addr, &avail);

		if (!p || !insn_decoder__decode(f->b->flow.dec, p, avail, addr, &in) || in.cls == INSN_RET)
			return 0;
		known = insn__ops(p, &in, &o);
		if (known && insn_ops__is_lea(&o) && o.base == REG_RIP) {
			in_reg[o.reg] =
				elf_file__is_text(lc->ef, (uint64_t)o.disp) ? (uint64_t)o.disp : 0;
			continue;
		}
		if (known && insn_ops__is_store(&o) && o.rex_w && o.base < REG_CNT &&
		    o.index == REG_NONE && o.disp == IMPL_OFF && in_reg[o.reg] &&
		    elf_file__func_range(lc->ef, in_reg[o.reg], &start, &end) && start == in_reg[o.reg])
			return start;
		for (reg = 0; reg < REG_CNT; reg++)
			if (in.cls != INSN_JCC && insn__may_write(&in, &o, known, (uint8_t)reg))
				in_reg[reg] = 0;
	}
	return 0;
}

/* Every `lea text(%rip),%reg`, by its bytes: REX.W 8d, mod 0, rm 5. */
static void find_function(struct finder *f)
{
	struct lib_code *lc = f->b->lc;
	uint64_t avail, at, func;
	const uint8_t *base = lc->src.text(lc->src.arg, lc->text_start, &avail), *p, *stop;
	uint32_t i;
	int32_t rel;

	if (!base || avail < 16)
		return;
	stop = base + avail - 8;
	for (p = base + 1; p < stop && (p = memchr(p, 0x8d, (size_t)(stop - p))); p++) {
		if ((p[1] & 0xc7) != 0x05 || (p[-1] & 0xfb) != 0x48)
			continue;
		memcpy(&rel, p + 2, sizeof(rel));
		at = lc->text_start + (uint64_t)(p - base) + 6;
		for (i = 0; i < f->text_cnt && at + (uint64_t)(int64_t)rel != f->texts[i]; i++)
			;
		func = i < f->text_cnt ? stored_function(f, at) : 0;
		if (func && f->func && func != f->func)
			f->ambiguous = true;
		if (func)
			f->func = func;
	}
}

int pyargs_sites__add(struct plan_build *b)
{
	struct func_probe fp = { .name = text, .kind = PTB_FUNC_SCOPE, .enter = PTB_PROG_SCOPE_PYARGS };
	struct finder f = { .b = b };
	uint32_t idx;

	if (b->role != TORCH_LIB_PYTHON)
		return 0;
	find_texts(&f);
	if (!f.text_cnt)
		return 0; /* this version has no such scopes */
	find_function(&f);
	if (!f.func || f.ambiguous)
		return special_sites__missing(b, text, PTB_FUNC_SCOPE, PTB_REFUSE_NO_SYMBOL);
	fp.entry = f.func;
	return plan_build__probe(b, &fp, &idx);
}
