/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Indirect jumps. A switch of position-independent code looks like this (gcc and clang):
 *
 *	cmp    $0x5,%eax		bound: 6 entries
 *	ja     default
 *	lea    table(%rip),%rdx
 *	movslq (%rdx,%rax,4),%rax	entry: distance from the table
 *	add    %rdx,%rax
 *	notrack jmp *%rax
 *
 * with other instructions in between. What does not fit is a tail call if the frame was left before
 * it; everything else is refused, because a graph that misses edges gives wrong exit sites.
 */
#include "code/flow_priv.h"

#include <errno.h>
#include <string.h>

#include "base/vec.h"

#define BACK_MAX 64 /* instructions inspected before the jump */

struct table_jump {
	uint64_t table; /* address, 0: not found */
	uint64_t cnt;   /* entries, 0: no bound found */
	bool load, add, epilogue;
};

/* The node before `at`: the one that falls into it, else one that jumps to it. */
static uint32_t step_back(const struct flow *f, uint32_t at, bool *jumped)
{
	uint32_t i;

	*jumped = false;
	if (f->nodes[at].prev != FLOW_NONE)
		return f->nodes[at].prev;
	*jumped = true;
	for (i = 0; i < f->cnt; i++)
		if (f->nodes[i].jump == at)
			return i;
	return FLOW_NONE;
}

/* "If above" falls into the switch, "if not above" jumps to it. */
static bool guards(const struct insn *in, bool jumped)
{
	return in->cls == INSN_JCC && in->cond == (jumped ? arch.not_above : arch.above);
}

/* Takes what one instruction shows of the table. *base: register that holds its address. */
static void inspect(const struct insn *in, struct table_jump *tj, uint8_t *target, uint8_t *base)
{
	const struct insn_operand *to = &in->ops[0], *from = &in->ops[1];

	if (!tj->add && in->form == FORM_ADD && from->kind == OPERAND_GPR && to->reg == *target) {
		tj->add = true;
		*base = from->reg;
	} else if (tj->add && !tj->load && in->form == FORM_MOVE && from->kind == OPERAND_MEM &&
		   from->size == 4 && to->size == 8 && from->scale == 4 &&
		   (to->reg == *target || to->reg == *base)) {
		/* the sum is commutative: the entry may be in either register */
		tj->load = !from->value;
		*base = from->reg;
	} else if (tj->load && !tj->table && in->form == FORM_ADDRESS && operand__is_fixed(from) &&
		   to->reg == *base) {
		tj->table = (uint64_t)from->value;
	} else if (tj->load && !tj->table && insn__is_copy(in) && to->reg == *base) {
		*base = from->reg;
	} else if (!tj->add && insn__is_copy(in) && to->reg == *target) {
		*target = from->reg;
	}
}

/* Leaving the frame: pop, leave, add or lea to the stack pointer. */
static bool is_epilogue(const struct insn *in)
{
	if (in->form == FORM_POP || in->form == FORM_LEAVE)
		return true;
	if (in->form == FORM_ADD ? in->ops[1].kind != OPERAND_IMM : in->form != FORM_ADDRESS)
		return false;
	return in->ops[0].kind == OPERAND_GPR && in->ops[0].reg == arch.sp;
}

static void scan_back(const struct flow *f, uint32_t at, uint8_t target, struct table_jump *tj)
{
	uint8_t base = REG_NONE;
	uint32_t i, n = at;
	bool guarded = false, jumped;

	for (i = 0; i < BACK_MAX && !(tj->table && tj->cnt); i++) {
		const struct insn *in;
		int64_t bound;

		n = step_back(f, n, &jumped);
		if (n == FLOW_NONE)
			return;
		in = &f->nodes[n].in;
		if (guards(in, jumped)) {
			guarded = true;
			continue;
		}
		if (in->cls == INSN_JCC)
			guarded = false;
		if (i < 16 && is_epilogue(in))
			tj->epilogue = true;
		if (guarded && !tj->cnt && in->form == FORM_COMPARE && in->ops[1].kind == OPERAND_IMM) {
			bound = in->ops[1].value;
			tj->cnt = bound >= 0 && bound < FLOW_TABLE_MAX ? (uint64_t)bound + 1 :
									 FLOW_TABLE_MAX + 1;
			guarded = false;
			continue;
		}
		inspect(in, tj, &target, &base);
	}
}

static bool in_parts(const struct flow *f, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < f->part_cnt; i++)
		if (addr >= f->parts[i].start && addr < f->parts[i].end)
			return true;
	return false;
}

static bool table_entry(const struct flow *f, uint64_t table, uint64_t i, uint64_t *addr)
{
	const uint8_t *p = f->src->data(f->src->arg, table + 4 * i, 4);
	int32_t rel;

	if (!p)
		return false;
	memcpy(&rel, p, sizeof(rel));
	*addr = table + (uint64_t)(int64_t)rel;
	return true;
}

/* Without a bound (the compiler knew the values) the table ends where its entries leave the
 * function: anything else there would have to lie within a few KiB of it by chance. */
static uint64_t count_entries(const struct flow *f, uint64_t table)
{
	uint64_t i, addr;

	for (i = 0; i < FLOW_TABLE_MAX; i++)
		if (!table_entry(f, table, i, &addr) || !in_parts(f, addr))
			break;
	return i;
}

static int add_targets(struct flow *f, uint32_t at, const struct table_jump *tj, enum ptb_refusal *why)
{
	uint32_t first = f->target_cnt, to;
	uint64_t i, addr;
	int err = 0;

	if (vec_reserve((void **)&f->targets, &f->target_cap, f->target_cnt + tj->cnt,
			sizeof(*f->targets)))
		return -ENOMEM;
	f->target_cnt += (uint32_t)tj->cnt;
	for (i = 0; i < tj->cnt; i++)
		f->targets[first + i] = FLOW_NONE;
	for (i = 0; i < tj->cnt; i++) {
		if (!table_entry(f, tj->table, i, &addr)) {
			*why = PTB_REFUSE_COMPUTED_JUMP;
			return 0;
		}
		to = flow_priv__target(f, at, addr, why, &err);
		if (err || *why != PTB_REFUSE_NONE)
			return err;
		if (to == FLOW_NONE) {
			*why = PTB_REFUSE_COMPUTED_JUMP;
			return 0;
		}
		f->targets[first + i] = to;
	}
	f->nodes[at].table = first;
	f->nodes[at].table_cnt = (uint32_t)tj->cnt;
	return 0;
}

int flow_priv__resolve_indirect(struct flow *f, uint32_t at, enum ptb_refusal *why)
{
	struct table_jump tj = { 0 };
	const struct insn_operand *to = &f->nodes[at].in.ops[0];

	if (to->kind == OPERAND_MEM) { /* a table of addresses, or a call through a vtable or the GOT */
		if (to->index != REG_NONE)
			*why = PTB_REFUSE_COMPUTED_JUMP;
		f->nodes[at].leaves = true;
		return 0;
	}
	scan_back(f, at, to->reg, &tj);
	if (!tj.add && tj.epilogue) {
		f->nodes[at].leaves = true;
		return 0;
	}
	if (tj.table && !tj.cnt)
		tj.cnt = count_entries(f, tj.table);
	if (!tj.table || !tj.cnt || tj.cnt > FLOW_TABLE_MAX) {
		*why = PTB_REFUSE_COMPUTED_JUMP;
		return 0;
	}
	return add_targets(f, at, &tj, why);
}
