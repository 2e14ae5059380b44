/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The typical shape, official wheel: the doubles are spilled on entry and read back before the
 * kernel.
 *
 *	movsd  %xmm0,0x18(%rsp)
 *	...	call getStepCallbacksUnlessEmpty	<- the late site: 0x18(%rsp) on every path
 *	movsd  0x18(%rsp),%xmm0
 *	call   *%rax
 *
 * A slot is named by its distance from rsp at the entry, so rsp- and rbp-based accesses meet. Slots
 * whose address is taken could change behind the analysis; compilers take none of a spilled
 * register.
 */
#include "code/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define XMM_BIT(r) (1ULL << VALUE_XMM(r))
#define GPR_BIT(r) (1ULL << VALUE_GPR(r))
#define SLOT_BIT(s) (1ULL << (32 + (s)))
#define XMM_ALL 0xffffULL
#define SLOT_ALL 0xffffffff00000000ULL
#define GPR_LOST ((uint64_t)arch.lost << 16)

void value_locations__free(struct value_locations *v)
{
	free(v->in);
	free(v->queue);
	free(v->queued);
	memset(v, 0, sizeof(*v));
}

/* ---- slots ---- */

static int32_t shifted(int32_t reg, int64_t by)
{
	return reg == VALUE_NO_FRAME || by < -(1 << 24) || by > 1 << 24 ? VALUE_NO_FRAME :
									  reg + (int32_t)by;
}

/* A register less the stack pointer at the entry. */
static int32_t frame_reg(const struct value_state *st, uint8_t reg)
{
	return reg == arch.sp ? st->sp : reg == arch.fp ? st->bp : VALUE_NO_FRAME;
}

static int32_t frame_off(const struct value_state *st, const struct insn_operand *m)
{
	return shifted(frame_reg(st, m->reg), m->value);
}

static bool in_frame(const struct insn_operand *m)
{
	return m->kind == OPERAND_MEM && (m->reg == arch.sp || m->reg == arch.fp);
}

/* The location bit of a slot, 0: none. make: a new one may be begun. */
static uint64_t slot_at(struct value_locations *v, int32_t off, bool make)
{
	if (off == VALUE_NO_FRAME)
		return 0;
	for (uint32_t i = 0; i < v->slot_cnt; i++)
		if (v->slots[i] == off)
			return SLOT_BIT(i);
	if (!make || v->slot_cnt == VALUE_SLOTS)
		return 0;
	v->slots[v->slot_cnt] = off;
	return SLOT_BIT(v->slot_cnt++);
}

/* The same of a memory operand. */
static uint64_t slot_of(struct value_locations *v, const struct value_state *st,
			const struct insn_operand *m, bool make)
{
	return m->index == REG_NONE ? slot_at(v, frame_off(st, m), make) : 0;
}

/* All slots that a store of so many bytes touches. */
static uint64_t slots_hit(const struct value_locations *v, const struct value_state *st,
			  const struct insn_operand *m, uint32_t size)
{
	int32_t off = frame_off(st, m);
	uint64_t hit = 0;

	if (m->reg == arch.fp && st->bp == VALUE_NO_FRAME)
		return 0; /* fp is no frame pointer here: the store is not into the frame */
	if (off == VALUE_NO_FRAME || m->index != REG_NONE)
		return SLOT_ALL;
	for (uint32_t i = 0; i < v->slot_cnt; i++)
		if (v->slots[i] < off + (int32_t)size && off < v->slots[i] + v->size)
			hit |= SLOT_BIT(i);
	return hit;
}

/* ---- one instruction ---- */

static void kill(struct value_state *st, uint64_t locations)
{
	for (uint32_t i = 0; i < VALUES_MAX; i++)
		st->at[i] &= ~locations;
}

static uint64_t location_bit(struct value_locations *v, const struct value_state *st,
			     const struct insn_operand *o, bool make)
{
	switch (o->kind) {
	case OPERAND_VECTOR:
		return o->reg < 16 ? XMM_BIT(o->reg) : 0;
	case OPERAND_GPR:
		return GPR_BIT(o->reg);
	case OPERAND_MEM:
		return in_frame(o) ? slot_of(v, st, o, make) : 0;
	default:
		return 0;
	}
}

/* The values that are there, by number. */
static uint32_t values_at(const struct value_state *st, uint64_t location)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < VALUES_MAX; i++)
		if (st->at[i] & location)
			found |= 1u << i;
	return found;
}

static void put_values(struct value_state *st, uint32_t values, uint64_t to)
{
	for (uint32_t i = 0; i < VALUES_MAX; i++)
		if (values & 1u << i)
			st->at[i] |= to;
}

static void apply_move(struct value_locations *v, struct value_state *st, const struct insn *in,
		       const struct value_seeds *seeds)
{
	uint64_t from = location_bit(v, st, &in->ops[1], false), to;
	uint32_t moved = in->copied >= seeds->size ? values_at(st, from) : 0;

	to = location_bit(v, st, &in->ops[0], moved != 0);
	kill(st, in_frame(&in->ops[0]) ? slots_hit(v, st, &in->ops[0], in->ops[0].size) : to);
	put_values(st, moved, to);
}

/* What an instruction overwrites that is no move. */
static uint64_t overwritten(const struct value_locations *v, const struct value_state *st,
			    const struct insn *in)
{
	uint64_t hit = (uint64_t)in->writes << 16 | (in->low_stays ? 0 : in->vectors & XMM_ALL);

	for (uint32_t i = 0; i < INSN_OPS; i++)
		if (in_frame(&in->ops[i]) && in->ops[i].writes)
			hit |= slots_hit(v, st, &in->ops[i], in->ops[i].size);
	return hit;
}

/* Slots below the stack pointer: they may be overwritten at any time. */
static uint64_t slots_below(const struct value_locations *v, int32_t sp)
{
	uint64_t hit = 0;

	for (uint32_t i = 0; i < v->slot_cnt; i++)
		if (sp != VALUE_NO_FRAME && v->slots[i] < sp)
			hit |= SLOT_BIT(i);
	return hit;
}

/* Follows the stack and the frame pointer. */
static void move_frame(const struct insn *in, struct value_state *st)
{
	const struct insn_operand *to = &in->ops[0], *from = &in->ops[1];
	int32_t bp = st->bp, value = VALUE_NO_FRAME;

	if (in->form == FORM_ADDRESS && from->index == REG_NONE)
		value = frame_off(st, from);
	else if (insn__is_copy(in) && to->size == 8)
		value = frame_reg(st, from->reg);
	else if (in->form == FORM_ADD && from->kind == OPERAND_IMM)
		value = shifted(frame_reg(st, to->reg), from->value);
	else if (in->form == FORM_SUB && from->kind == OPERAND_IMM)
		value = shifted(frame_reg(st, to->reg), -from->value);
	if (insn__may_write(in, arch.fp))
		st->bp = to->kind == OPERAND_GPR && to->reg == arch.fp ? value : VALUE_NO_FRAME;
	if (!insn__may_write(in, arch.sp))
		return;
	if (to->kind == OPERAND_GPR && to->reg == arch.sp && to->writes)
		st->sp = value;
	else if (in->form == FORM_PUSH || in->form == FORM_POP)
		st->sp = shifted(st->sp, in->form == FORM_PUSH ? -8 : 8);
	else
		st->sp = in->form == FORM_LEAVE ? shifted(bp, 8) : VALUE_NO_FRAME;
}

static void transfer(struct value_locations *v, const struct insn *in,
		     const struct value_seeds *seeds, struct value_state *st)
{
	uint32_t pushed = 0;
	int32_t was = st->sp;

	if (insn__is_call(in))
		kill(st, XMM_ALL | GPR_LOST | v->pushed | slots_below(v, st->sp));
	if (in->cls != INSN_OTHER)
		return;
	if (in->opaque) {
		kill(st, ~0ULL);
		st->bp = VALUE_NO_FRAME;
		return;
	}
	if (in->form == FORM_PUSH)
		pushed = values_at(st, location_bit(v, st, &in->ops[0], false));
	if (in->form == FORM_MOVE)
		apply_move(v, st, in, seeds);
	else
		kill(st, overwritten(v, st, in));
	move_frame(in, st);
	if (was != VALUE_NO_FRAME && st->sp != VALUE_NO_FRAME && st->sp < was) /* push, sub */
		kill(st, slots_below(v, was));
	if (pushed) {
		uint64_t to = slot_at(v, st->sp, true);

		v->pushed |= to;
		put_values(st, pushed, to);
	}
}

/* ---- the fixed point ---- */

static bool join_values(struct value_state *to, const struct value_state *from)
{
	bool changed = false;

	if (!to->seen) {
		*to = *from;
		to->seen = true;
		return true;
	}
	for (uint32_t i = 0; i < VALUES_MAX; i++) {
		changed |= (to->at[i] & from->at[i]) != to->at[i];
		to->at[i] &= from->at[i];
	}
	if (to->sp != from->sp && to->sp != VALUE_NO_FRAME) {
		to->sp = VALUE_NO_FRAME;
		changed = true;
	}
	if (to->bp != from->bp && to->bp != VALUE_NO_FRAME) {
		to->bp = VALUE_NO_FRAME;
		changed = true;
	}
	return changed;
}

static int prepare(struct value_locations *v, const struct flow *f)
{
	uint32_t cap = v->cap, queued_cap = v->cap;

	vec_reserve((void **)&v->queue, &v->queue_cap, f->cnt + 1ULL, sizeof(*v->queue));
	vec_reserve((void **)&v->in, &cap, f->cnt + 1ULL, sizeof(*v->in));
	vec_reserve((void **)&v->queued, &queued_cap, f->cnt + 1ULL, 1);
	v->cap = cap < queued_cap ? cap : queued_cap;
	memset(v->in, 0, f->cnt * sizeof(*v->in));
	memset(v->queued, 0, f->cnt);
	return 0;
}

int value_locations__run(struct value_locations *v, const struct flow *f,
			 const struct value_seeds *seeds)
{
	uint32_t head = 0, waiting = 0, node, to;
	struct value_state st;

	prepare(v, f);
	if (seeds->start >= f->cnt)
		return -EINVAL;
	v->in[seeds->start] =
		(struct value_state){ .sp = seeds->sp, .bp = seeds->bp, .seen = true };
	for (uint32_t i = 0; i < seeds->cnt && i < VALUES_MAX; i++)
		v->in[seeds->start].at[i] = 1ULL << seeds->location[i];
	v->slots[0] = seeds->slot;
	v->slot_cnt = 1;
	v->pushed = 0;
	v->size = seeds->size;
	v->queue[waiting++] = seeds->start;
	v->queued[seeds->start] = 1;
	while (waiting) {
		node = v->queue[head];
		head = head + 1 == f->cnt ? 0 : head + 1;
		waiting--;
		v->queued[node] = 0;
		st = v->in[node];
		transfer(v, &f->nodes[node].in, seeds, &st);
		for (uint32_t i = 0; i < FLOW_SUCC_MAX(&f->nodes[node]); i++) {
			to = flow__succ(f, &f->nodes[node], i);
			if (to == FLOW_NONE || !join_values(&v->in[to], &st) || v->queued[to])
				continue;
			v->queue[(head + waiting++) % f->cnt] = to;
			v->queued[to] = 1;
		}
	}
	return 0;
}

/* ---- answers ---- */

bool value_locations__loads(const struct value_locations *v, const struct flow *f, uint32_t node,
			    uint8_t location, int32_t *slot)
{
	const struct insn *in = &f->nodes[node].in;
	const struct insn_operand *to = &in->ops[0], *from = &in->ops[1];

	if (!v->in[node].seen || in->form != FORM_MOVE || !in_frame(from) ||
	    from->index != REG_NONE)
		return false;
	if ((to->kind != OPERAND_VECTOR || location != VALUE_XMM(to->reg)) &&
	    (to->kind != OPERAND_GPR || location != VALUE_GPR(to->reg)))
		return false;
	*slot = frame_off(&v->in[node], from);
	return *slot != VALUE_NO_FRAME;
}

bool value_locations__is_at(const struct value_locations *v, uint32_t node, uint32_t value,
			    uint8_t location)
{
	return v->in[node].seen && (v->in[node].at[value] & 1ULL << location);
}

bool value_locations__is_on_stack(const struct value_locations *v, uint32_t node, uint32_t value,
				  int32_t above)
{
	const struct value_state *st = &v->in[node];

	for (uint32_t i = 0; st->seen && i < v->slot_cnt; i++)
		if (v->slots[i] == shifted(st->sp, above) && v->slots[i] != VALUE_NO_FRAME)
			return st->at[value] & SLOT_BIT(i);
	return false;
}

bool value_locations__find(const struct value_locations *v, uint32_t node, uint32_t value,
			   struct value_location *out)
{
	const struct value_state *st = &v->in[node];

	if (!st->seen)
		return false;
	for (uint32_t i = 0; i < v->slot_cnt; i++) {
		bool by_sp = st->sp != VALUE_NO_FRAME;

		if (!(st->at[value] & SLOT_BIT(i)) || (!by_sp && st->bp == VALUE_NO_FRAME))
			continue;
		*out = (struct value_location){ .in_memory = true,
						.reg = by_sp ? arch.sp : arch.fp,
						.disp = v->slots[i] - (by_sp ? st->sp : st->bp) };
		return true;
	}
	for (uint32_t i = 0; i < ARCH_KEPT; i++)
		if (st->at[value] & GPR_BIT(arch.kept[i])) {
			*out = (struct value_location){ .reg = arch.kept[i] };
			return true;
		}
	return false;
}
