/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Forward data flow of the arguments, to a fixed point; see code.h. */
#include "code/code.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define PASSES_MAX 256 /* real functions need a few; code made to need many must not hold us up */
#define ALL_ARGS ((1u << ARG_FLOW_ARGS) - 1)

static uint8_t held(const uint8_t regs[REG_CNT], uint8_t reg)
{
	return reg < REG_CNT ? regs[reg] : 0;
}

static uint8_t all_held(const uint8_t regs[REG_CNT])
{
	uint8_t all = 0;

	for (uint32_t i = 0; i < REG_CNT; i++)
		all |= regs[i];
	return all;
}

static uint8_t passed(const uint8_t regs[REG_CNT])
{
	uint8_t all = 0;

	for (uint32_t i = 0; i < ARG_FLOW_ARGS; i++)
		all |= regs[arch.arg[i]];
	return all;
}

/* What a value that is read from the operand may hold. */
static uint8_t operand_held(const struct arg_flow *af, const uint8_t regs[REG_CNT],
			    const struct insn_operand *o)
{
	if (o->kind == OPERAND_MEM)
		return o->reads ? af->spilled : 0;
	return o->kind == OPERAND_GPR && o->size == 8 ? held(regs, o->reg) : 0;
}

/* Does it write memory other than by push? */
static bool writes_memory(const struct insn *in)
{
	if (in->cls != INSN_OTHER || in->form == FORM_PUSH)
		return false;
	for (uint32_t i = 0; i < INSN_OPS; i++)
		if (in->ops[i].kind == OPERAND_MEM && in->ops[i].writes)
			return true;
	return in->opaque;
}

/* Arguments that the instruction puts where they are not followed any more. */
static uint8_t spills(const struct insn *in, const uint8_t regs[REG_CNT])
{
	bool out = writes_memory(in) || in->form == FORM_PUSH || in->vectors;
	uint8_t all = 0;

	if (in->cls != INSN_OTHER)
		return 0;
	if (in->opaque)
		return all_held(regs);
	for (uint32_t i = 0; i < INSN_OPS && out; i++)
		if (in->ops[i].kind == OPERAND_GPR && in->ops[i].reads)
			all |= held(regs, in->ops[i].reg);
	return all;
}

/* What a register that the instruction writes may hold after it. */
static uint8_t result(const struct arg_flow *af, const struct insn *in, const uint8_t regs[REG_CNT])
{
	uint8_t all = 0;

	if (in->opaque)
		return all_held(regs) | af->spilled;
	if (in->form == FORM_CONST || (in->form == FORM_MOVE && in->copied < 8))
		return 0;
	if (in->form == FORM_ADDRESS)
		return held(regs, in->ops[1].reg) | held(regs, in->ops[1].index);
	if (in->form == FORM_POP)
		return af->spilled;
	if (in->form == FORM_MOVE)
		return operand_held(af, regs, &in->ops[1]);
	for (uint32_t i = 0; i < INSN_OPS; i++)
		all |= operand_held(af, regs, &in->ops[i]);
	return all;
}

/* The operand by which a register is written; NULL: it is written, but by none. */
static const struct insn_operand *written_operand(const struct insn *in, uint8_t reg)
{
	for (uint32_t i = 0; i < INSN_OPS; i++)
		if (in->ops[i].kind == OPERAND_GPR && in->ops[i].writes && in->ops[i].reg == reg)
			return &in->ops[i];
	return NULL;
}

/* The state behind a node. */
static void apply(struct arg_flow *af, const struct insn *in, const uint8_t before[REG_CNT],
		  uint8_t after[REG_CNT])
{
	const struct insn_operand *o;
	uint8_t value;

	memcpy(after, before, REG_CNT);
	af->spilled |= spills(in, before);
	if (insn__is_call(in)) {
		for (uint8_t r = 0; r < REG_CNT; r++)
			if (insn__may_write(in, r))
				after[r] = 0;
		/* as memcpy() returns its first */
		after[arch.result] = passed(before) | af->spilled;
		return;
	}
	value = result(af, in, before);
	for (uint8_t r = 0; r < REG_CNT; r++) {
		if (r == arch.sp || !insn__may_write(in, r))
			continue;
		o = written_operand(in, r);
		if (!o)
			after[r] |= value; /* half of a product, or a pointer that advances */
		else
			after[r] = o->size < 8 ? 0 : value; /* 32 bits or fewer are no pointer */
	}
}

static bool join_regs(uint8_t to[REG_CNT], const uint8_t from[REG_CNT])
{
	bool more = false;

	for (uint32_t r = 0; r < REG_CNT; r++) {
		more |= (from[r] & ~to[r]) != 0;
		to[r] |= from[r];
	}
	return more;
}

void arg_flow__follow(struct arg_flow *af, const struct flow *f)
{
	uint8_t after[REG_CNT], spilled;
	bool more = true;
	uint32_t to;

	vec_reserve((void **)&af->regs, &af->cap, f->cnt + 1ULL, sizeof(*af->regs));
	memset(af->regs, 0, f->cnt * sizeof(*af->regs));
	af->spilled = 0;
	for (uint32_t i = 0; i < ARG_FLOW_ARGS && f->cnt; i++)
		af->regs[0][arch.arg[i]] = (uint8_t)(1u << i);
	for (uint32_t passes = 0; more && passes < PASSES_MAX; passes++) { /* masks only grow */
		more = false;
		spilled = af->spilled;
		for (uint32_t i = 0; i < f->cnt; i++) {
			apply(af, &f->nodes[i].in, af->regs[i], after);
			for (uint32_t k = 0; k < FLOW_SUCC_MAX(&f->nodes[i]); k++) {
				to = flow__succ(f, &f->nodes[i], k);
				if (to != FLOW_NONE)
					more |= join_regs(af->regs[to], after);
			}
		}
		more |= spilled != af->spilled;
	}
	if (more) { /* anything may be anywhere */
		memset(af->regs, ALL_ARGS, f->cnt * sizeof(*af->regs));
		af->spilled = ALL_ARGS;
	}
}

void arg_flow__free(struct arg_flow *af)
{
	free(af->regs);
	memset(af, 0, sizeof(*af));
}

/* ---- questions ---- */

/* Is what it writes in the function's own frame? */
static bool in_own_frame(const struct insn *in)
{
	for (uint32_t i = 0; i < INSN_OPS; i++)
		if (in->ops[i].kind == OPERAND_MEM && in->ops[i].writes &&
		    in->ops[i].reg != arch.sp && in->ops[i].reg != arch.fp)
			return false;
	return !in->opaque;
}

bool arg_flow__stores(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args)
{
	const uint8_t *regs = af->regs[node];
	const struct insn *in = &f->nodes[node].in;
	uint8_t through = 0;

	if (!writes_memory(in))
		return false;
	if (in->opaque)
		through = all_held(regs);
	for (uint32_t i = 0; i < INSN_OPS; i++)
		if (in->ops[i].kind == OPERAND_MEM && in->ops[i].writes)
			through |= held(regs, in->ops[i].reg) | held(regs, in->ops[i].index);
	return (through & args) != 0;
}

bool arg_flow__uses(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args)
{
	const struct flow_node *n = &f->nodes[node];

	if (insn__is_call(&n->in) || n->leaves)
		return ((passed(af->regs[node]) | af->spilled) & args) != 0;
	return arg_flow__stores(af, f, node, args) ||
	       ((af->spilled & args) && writes_memory(&n->in) && !in_own_frame(&n->in));
}

bool arg_flow__forwards(const struct arg_flow *af, uint32_t node, uint8_t args)
{
	for (uint32_t i = 0; i < ARG_FLOW_ARGS; i++)
		if ((args & 1u << i) && af->regs[node][arch.arg[i]] != 1u << i)
			return false;
	return true;
}
