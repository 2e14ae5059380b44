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

/* `ja` falls into the switch, `jbe` jumps to it. */
static bool guards(const struct flow_node *n, bool jumped)
{
	uint8_t cc;

	if (n->in.cls != INSN_JCC || n->in.len < 2)
		return false;
	cc = (n->bytes[0] == 0x0f ? n->bytes[1] : n->bytes[0]) & 0xf;
	return cc == (jumped ? 0x6 : 0x7);
}

static bool is_cmp_imm(const struct insn_ops *o)
{
	if (o->map || !o->imm_sz)
		return false;
	return ((o->opcode == 0x83 || o->opcode == 0x81 || o->opcode == 0x80) && (o->reg & 7) == 7) ||
	       o->opcode == 0x3d || o->opcode == 0x3c;
}

/* Takes what one instruction shows of the table. *base: register that holds its address. */
static void look_at(const struct insn_ops *o, struct table_jump *tj, uint8_t *target, uint8_t *base)
{
	uint8_t dst, src;

	if (!tj->add && !o->map && (o->opcode == 0x01 || o->opcode == 0x03) && !o->mem &&
	    (o->opcode == 0x01 ? o->rm : o->reg) == *target) {
		tj->add = true;
		*base = o->opcode == 0x01 ? o->reg : o->rm;
	} else if (tj->add && !tj->load && !o->map && o->opcode == 0x63 && o->mem &&
		   o->scale == 4 && (o->reg == *target || o->reg == *base)) {
		/* the sum is commutative: the entry may be in either register */
		tj->load = true;
		*base = o->base;
		if (o->disp)
			tj->load = false;
	} else if (tj->load && !tj->table && insn_ops__is_lea(o) && o->base == REG_RIP && o->reg == *base) {
		tj->table = (uint64_t)o->disp;
	} else if (tj->load && !tj->table && insn_ops__mov_rr(o, &dst, &src) && dst == *base) {
		*base = src;
	} else if (!tj->add && insn_ops__mov_rr(o, &dst, &src) && dst == *target) {
		*target = src;
	}
}

/* Leaving the frame: pop, leave, add or lea to rsp. */
static bool is_epilogue(const struct insn_ops *o)
{
	if (o->map)
		return false;
	if ((o->opcode >= 0x58 && o->opcode <= 0x5f) || o->opcode == 0xc9)
		return true;
	if ((o->opcode == 0x83 || o->opcode == 0x81) && !(o->reg & 7))
		return o->rm == REG_RSP;
	return insn_ops__is_lea(o) && o->reg == REG_RSP;
}

static void scan_back(const struct flow *f, uint32_t at, uint8_t target, struct table_jump *tj)
{
	uint8_t base = REG_NONE;
	uint32_t i, n = at;
	bool guarded = false, jumped;
	struct insn_ops o;

	for (i = 0; i < BACK_MAX && !(tj->table && tj->cnt); i++) {
		n = step_back(f, n, &jumped);
		if (n == FLOW_NONE)
			return;
		if (guards(&f->nodes[n], jumped)) {
			guarded = true;
			continue;
		}
		if (f->nodes[n].in.cls == INSN_JCC)
			guarded = false;
		if (!flow_node__ops(&f->nodes[n], &o))
			continue;
		if (i < 16 && is_epilogue(&o))
			tj->epilogue = true;
		if (guarded && !tj->cnt && is_cmp_imm(&o)) {
			tj->cnt = o.imm >= 0 && o.imm < FLOW_TABLE_MAX ? (uint64_t)o.imm + 1 :
									 FLOW_TABLE_MAX + 1;
			guarded = false;
			continue;
		}
		look_at(&o, tj, &target, &base);
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
	struct insn_ops o;

	if (!flow_node__ops(&f->nodes[at], &o)) {
		*why = PTB_REFUSE_COMPUTED_JUMP;
		return 0;
	}
	if (o.mem) { /* a table of addresses, or a call through a vtable or the GOT */
		if (o.index != REG_NONE)
			*why = PTB_REFUSE_COMPUTED_JUMP;
		f->nodes[at].leaves = true;
		return 0;
	}
	scan_back(f, at, o.rm, &tj);
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
