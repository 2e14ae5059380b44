/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of scopes that torch's own code opens by its RECORD_FUNCTION macro with a literal
 * ("detach", "DistributedDataParallel.forward"). The macro makes the RecordFunction object whether
 * or not a profiler runs, and tests for one only before it would name it: the constructor's return
 * address says which macro it was, the code behind it which literal it would pass (pytorch
 * aten/src/ATen/record_function.h).
 *
 *	call RecordFunction(RecordScope)         <- return address = the caller's identity
 *	...
 *	lea  "detach"(%rip),%rax ; movq $6,len   string_view of the literal, 2.6 on
 *	lea  "detach"(%rip),%rsi ; call before   char const*, older
 *
 * Only an unambiguous literal counts; a scope whose name is computed at run time stays unnamed
 * here.
 */
#include "plan/plan_priv.h"

#include <string.h>

#define LOOK_AHEAD 600   /* instructions behind the constructor */
#define HAND_OVER_MAX 40 /* longest function, in instructions, that only calls before() */
#define TEXTS_MAX 8
#define NAME_LEN_MAX 96

struct literal {
	const char *text;
	size_t len;
};

struct lookup {
	struct plan_build *b;
	struct literal texts[TEXTS_MAX];
	uint32_t cnt;
	const char *second_arg; /* the literal in the second argument since the last call */
	const char *name;
	bool ambiguous;
	int64_t imms[LOOK_AHEAD];
	uint32_t imm_cnt;
};

/* Names that people write: printable, not a path, not a format. */
static bool is_name(const char *text)
{
	const char *p;

	for (p = text; *p; p++)
		if (*p < 0x20 || *p > 0x7e || *p == '%' || *p == '/')
			return false;
	return p > text;
}

static void found(struct lookup *l, const char *name)
{
	if (l->name && strcmp(l->name, name))
		l->ambiguous = true;
	l->name = name;
}

/*
 * Is target before(), or a small function that leads to it, usually by a tail jump? Up to 2.5 the
 * macro calls record_function_with_scope(guard, literal, inputs).
 */
static bool leads_to_before(struct lookup *l, uint64_t target)
{
	struct lib_code *lc = l->b->lc;
	uint64_t start, end, addr;
	struct insn in;
	uint32_t n;

	if (lib_code__callee(lc, target) & CALLEE_RF_BEFORE)
		return true;
	if (!elf_file__func_range(lc->ef, target, &start, &end) || start != target)
		return false;
	for (n = 0, addr = start; n < HAND_OVER_MAX && addr < end; n++, addr += in.len) {
		if (!lib_code__decode(lc, l->b->flow.dec, addr, end, &in))
			return false;
		if ((in.cls == INSN_JMP || in.cls == INSN_CALL) &&
		    lib_code__callee(lc, in.target) & CALLEE_RF_BEFORE)
			return true;
	}
	return false;
}

static void on_insn(struct lookup *l, const struct insn *in)
{
	struct lib_code *lc = l->b->lc;
	const char *text;

	if (in->cls == INSN_CALL) {
		if (l->second_arg && leads_to_before(l, in->target))
			found(l, l->second_arg);
		l->second_arg = NULL;
		return;
	}
	if (in->form == FORM_ADDRESS && operand__is_fixed(&in->ops[1])) {
		text = lib_code__text(lc, (uint64_t)in->ops[1].value, NAME_LEN_MAX);
		if (!text || !is_name(text))
			return;
		if (in->ops[0].reg == arch.arg[1])
			l->second_arg = text;
		if (l->cnt < TEXTS_MAX)
			l->texts[l->cnt++] = (struct literal){ .text = text, .len = strlen(text) };
	} else if ((in->form == FORM_CONST || in->form == FORM_MOVE) &&
		   in->ops[1].kind == OPERAND_IMM && in->ops[0].size >= 4 && in->ops[1].value > 0 &&
		   in->ops[1].value < NAME_LEN_MAX && l->imm_cnt < LOOK_AHEAD) {
		l->imms[l->imm_cnt++] = in->ops[1].value;
	}
}

/* string_view literals: a text and its length are constants in the same stretch of code. */
static void match_lengths(struct lookup *l)
{
	for (uint32_t i = 0; i < l->cnt; i++)
		for (uint32_t j = 0; j < l->imm_cnt; j++)
			if ((size_t)l->imms[j] == l->texts[i].len && l->texts[i].len > 2) {
				found(l, l->texts[i].text);
				break;
			}
}

static void add_caller_name(struct plan_build *b, const struct call_site *site)
{
	struct lookup l = { .b = b };
	uint64_t start, end, addr = site->next;
	struct insn in;

	if (!elf_file__func_range(b->lc->ef, site->at, &start, &end))
		return;
	for (uint32_t n = 0; n < LOOK_AHEAD && addr < end; n++, addr += in.len) {
		if (!lib_code__decode(b->lc, b->flow.dec, addr, end, &in))
			break;
		if (n && lib_code__calls(b->lc, &in, CALLEE_RF_SCOPE))
			break; /* the next macro in the same function */
		on_insn(&l, &in);
	}
	if (!l.name)
		match_lengths(&l);
	if (l.name && !l.ambiguous)
		plan_build__caller(b, site->next, l.name);
}

void scope_callers__add(struct plan_build *b)
{
	lib_code__all_calls(b->lc);

	for (uint32_t i = 0; i < b->lc->site_cnt; i++)
		if (b->lc->sites[i].flags & CALLEE_RF_SCOPE)
			add_caller_name(b, &b->lc->sites[i]);
}
