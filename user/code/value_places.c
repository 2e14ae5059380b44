/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The typical shape, official wheel: the doubles are spilled on entry and read back before the kernel.
 *
 *	movsd  %xmm0,0x18(%rsp)
 *	...	call getStepCallbacksUnlessEmpty	<- the late site: 0x18(%rsp) on every path
 *	movsd  0x18(%rsp),%xmm0
 *	call   *%rax
 *
 * A slot is named by its distance from rsp at the entry, so rsp- and rbp-based accesses meet. Slots whose
 * address is taken could change behind the analysis; compilers take none of a spilled register.
 */
#include "code/value_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define XMM_BIT(r) (1ULL << VALUE_XMM(r))
#define GPR_BIT(r) (1ULL << VALUE_GPR(r))
#define SLOT_BIT(s) (1ULL << (32 + (s)))
#define XMM_ALL 0xffffULL
#define SLOT_ALL 0xffffffff00000000ULL
/* rax, rcx, rdx, rsi, rdi, r8..r11: what a callee may overwrite */
#define GPR_VOLATILE (0x0fc7ULL << 16)

void value_places__free(struct value_places *v)
{
	free(v->in);
	free(v->queue);
	free(v->queued);
	memset(v, 0, sizeof(*v));
}

/* ---- slots ---- */

static int32_t frame_off(const struct value_state *st, const struct value_mem *m)
{
	int32_t base = m->base == REG_RSP ? st->sp : st->bp;

	if (base == VALUE_NO_FRAME || m->disp < -(1 << 24) || m->disp > 1 << 24)
		return VALUE_NO_FRAME;
	return base + (int32_t)m->disp;
}

static bool in_frame(const struct value_mem *m)
{
	return m->base == REG_RSP || m->base == REG_RBP;
}

/* The place bit of a memory operand, 0: none. make: a new slot may be begun. */
static uint64_t slot_of(struct value_places *v, const struct value_state *st,
			const struct value_mem *m, bool make)
{
	int32_t off = frame_off(st, m);
	uint32_t i;

	if (off == VALUE_NO_FRAME || m->indexed)
		return 0;
	for (i = 0; i < v->slot_cnt; i++)
		if (v->slots[i] == off)
			return SLOT_BIT(i);
	if (!make || v->slot_cnt == VALUE_SLOTS)
		return 0;
	v->slots[v->slot_cnt] = off;
	return SLOT_BIT(v->slot_cnt++);
}

/* All slots that a store of so many bytes touches. */
static uint64_t slots_hit(const struct value_places *v, const struct value_state *st,
			  const struct value_mem *m, uint32_t size)
{
	int32_t off = frame_off(st, m);
	uint64_t hit = 0;
	uint32_t i;

	if (m->base == REG_RBP && st->bp == VALUE_NO_FRAME)
		return 0; /* rbp is no frame pointer here: somebody's object */
	if (off == VALUE_NO_FRAME || m->indexed)
		return SLOT_ALL;
	for (i = 0; i < v->slot_cnt; i++)
		if (v->slots[i] < off + (int32_t)size && off < v->slots[i] + 8)
			hit |= SLOT_BIT(i);
	return hit;
}

/* ---- one instruction ---- */

static void kill(struct value_state *st, uint64_t places)
{
	uint32_t i;

	for (i = 0; i < VALUES_MAX; i++)
		st->at[i] &= ~places;
}

static uint64_t place_bit(struct value_places *v, const struct value_state *st,
			  const struct value_operand *o, bool make)
{
	switch (o->kind) {
	case OPERAND_XMM:
		return XMM_BIT(o->reg);
	case OPERAND_GPR:
		return GPR_BIT(o->reg);
	case OPERAND_MEM:
		return in_frame(&o->mem) ? slot_of(v, st, &o->mem, make) : 0;
	default:
		return 0;
	}
}

/* Registers that the instruction may overwrite, of those that hold something. */
static uint64_t overwritten(const struct value_state *st, const struct flow_node *n,
			    const struct insn_ops *ops, bool known)
{
	uint64_t held = 0, hit = 0;
	uint8_t r;
	uint32_t i;

	for (i = 0; i < VALUES_MAX; i++)
		held |= st->at[i];
	for (r = 0; r < 16; r++)
		if ((held & GPR_BIT(r)) && insn__may_write(&n->in, ops, known, r))
			hit |= GPR_BIT(r);
	return hit;
}

static void apply_move(struct value_places *v, struct value_state *st, const struct value_move *mv,
		       const struct value_seeds *seeds)
{
	uint64_t from = place_bit(v, st, &mv->src, false), to, moved = 0;
	uint32_t i;

	for (i = 0; i < VALUES_MAX; i++)
		if (mv->size >= seeds->size && (st->at[i] & from))
			moved |= 1ULL << i;
	to = place_bit(v, st, &mv->dst, moved != 0);
	if (mv->dst.kind == OPERAND_MEM && in_frame(&mv->dst.mem))
		kill(st, slots_hit(v, st, &mv->dst.mem, mv->store_size));
	else
		kill(st, to);
	for (i = 0; i < VALUES_MAX; i++)
		if (moved & 1ULL << i)
			st->at[i] |= to;
}

/* Memory below the stack pointer is anybody's. */
static uint64_t slots_below(const struct value_places *v, int32_t sp)
{
	uint64_t hit = 0;
	uint32_t i;

	for (i = 0; i < v->slot_cnt; i++)
		if (sp != VALUE_NO_FRAME && v->slots[i] < sp)
			hit |= SLOT_BIT(i);
	return hit;
}

static void transfer(struct value_places *v, const struct flow *f, uint32_t node,
		     const struct value_seeds *seeds, struct value_state *st)
{
	const struct flow_node *n = &f->nodes[node];
	struct value_move mv;
	struct insn_ops ops;
	int32_t was;
	bool known;

	if (n->in.cls == INSN_CALL || n->in.cls == INSN_CALL_IND) {
		kill(st, XMM_ALL | GPR_VOLATILE | slots_below(v, st->sp));
		return;
	}
	if (n->in.cls != INSN_OTHER)
		return;
	known = flow_node__ops(n, &ops);
	if (!known || ops.map == 2) { /* not decoded: it may have written anything but rsp */
		kill(st, ~0ULL);
		st->bp = VALUE_NO_FRAME;
		return;
	}
	value_moves__decode(n, &ops, &mv);
	if (mv.kind == MOVE_COPY) {
		apply_move(v, st, &mv, seeds);
	} else {
		uint64_t dead = overwritten(st, n, &ops, known) | (mv.xmm_dead & XMM_ALL);

		if (mv.store_size && in_frame(&mv.dst.mem))
			dead |= slots_hit(v, st, &mv.dst.mem, mv.store_size);
		kill(st, dead);
	}
	was = st->sp;
	value_moves__frame(n, &ops, &st->sp, &st->bp);
	if (was != VALUE_NO_FRAME && st->sp != VALUE_NO_FRAME && st->sp < was) /* push, sub */
		kill(st, slots_below(v, was));
}

/* ---- the fixed point ---- */

static bool join(struct value_state *to, const struct value_state *from)
{
	bool changed = false;
	uint32_t i;

	if (!to->seen) {
		*to = *from;
		to->seen = true;
		return true;
	}
	for (i = 0; i < VALUES_MAX; i++) {
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

static int prepare(struct value_places *v, const struct flow *f)
{
	uint32_t cap = v->cap, queued_cap = v->cap;

	if (vec_reserve((void **)&v->queue, &v->queue_cap, f->cnt + 1ULL, sizeof(*v->queue)) ||
	    vec_reserve((void **)&v->in, &cap, f->cnt + 1ULL, sizeof(*v->in)) ||
	    vec_reserve((void **)&v->queued, &queued_cap, f->cnt + 1ULL, 1))
		return -ENOMEM;
	v->cap = cap < queued_cap ? cap : queued_cap;
	memset(v->in, 0, f->cnt * sizeof(*v->in));
	memset(v->queued, 0, f->cnt);
	return 0;
}

int value_places__run(struct value_places *v, const struct flow *f, const struct value_seeds *seeds)
{
	uint32_t head = 0, waiting = 0, node, i, to;
	struct value_state st;

	if (prepare(v, f))
		return -ENOMEM;
	if (seeds->start >= f->cnt)
		return -EINVAL;
	v->in[seeds->start] = (struct value_state){ .sp = seeds->sp, .bp = seeds->bp, .seen = true };
	for (i = 0; i < seeds->cnt && i < VALUES_MAX; i++)
		v->in[seeds->start].at[i] = 1ULL << seeds->place[i];
	v->slots[0] = seeds->slot;
	v->slot_cnt = 1;
	v->queue[waiting++] = seeds->start;
	v->queued[seeds->start] = 1;
	while (waiting) {
		node = v->queue[head];
		head = head + 1 == f->cnt ? 0 : head + 1;
		waiting--;
		v->queued[node] = 0;
		st = v->in[node];
		transfer(v, f, node, seeds, &st);
		for (i = 0; i < FLOW_SUCC_MAX(&f->nodes[node]); i++) {
			to = flow__succ(f, &f->nodes[node], i);
			if (to == FLOW_NONE || !join(&v->in[to], &st) || v->queued[to])
				continue;
			v->queue[(head + waiting++) % f->cnt] = to;
			v->queued[to] = 1;
		}
	}
	return 0;
}

/* ---- answers ---- */

bool value_places__loads(const struct value_places *v, const struct flow *f, uint32_t node,
			 uint8_t place, int32_t *slot)
{
	const struct flow_node *n = &f->nodes[node];
	struct value_move mv;
	struct insn_ops ops;

	if (!v->in[node].seen || n->in.cls != INSN_OTHER || !flow_node__ops(n, &ops) || ops.map == 2)
		return false;
	value_moves__decode(n, &ops, &mv);
	if (mv.kind != MOVE_COPY || mv.src.kind != OPERAND_MEM || !in_frame(&mv.src.mem) ||
	    mv.src.mem.indexed)
		return false;
	if ((mv.dst.kind != OPERAND_XMM || place != VALUE_XMM(mv.dst.reg)) &&
	    (mv.dst.kind != OPERAND_GPR || place != VALUE_GPR(mv.dst.reg)))
		return false;
	*slot = frame_off(&v->in[node], &mv.src.mem);
	return *slot != VALUE_NO_FRAME;
}

bool value_places__is_at(const struct value_places *v, uint32_t node, uint32_t value, uint8_t place)
{
	return v->in[node].seen && (v->in[node].at[value] & 1ULL << place);
}

bool value_places__find(const struct value_places *v, uint32_t node, uint32_t value,
			struct value_place *out)
{
	static const uint8_t kept[] = { REG_RBX, REG_RBP, 12, 13, 14, 15 };
	const struct value_state *st = &v->in[node];
	uint32_t i;

	if (!st->seen)
		return false;
	for (i = 0; i < v->slot_cnt; i++) {
		bool by_sp = st->sp != VALUE_NO_FRAME;

		if (!(st->at[value] & SLOT_BIT(i)) || (!by_sp && st->bp == VALUE_NO_FRAME))
			continue;
		*out = (struct value_place){ .in_memory = true,
					     .reg = by_sp ? REG_RSP : REG_RBP,
					     .disp = v->slots[i] - (by_sp ? st->sp : st->bp) };
		return true;
	}
	for (i = 0; i < sizeof(kept); i++)
		if (st->at[value] & GPR_BIT(kept[i])) {
			*out = (struct value_place){ .reg = kept[i] };
			return true;
		}
	return false;
}
