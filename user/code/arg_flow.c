/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Forward data flow of the arguments, to a fixed point; see arg_flow.h. */
#include "code/arg_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define PASSES_MAX 256 /* real functions need a few; code made to need many must not hold us up */
#define ALL_ARGS ((1u << ARG_FLOW_ARGS) - 1)

static const uint8_t arg_regs[ARG_FLOW_ARGS] = { REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9 };

/* What one node does, with the operands if they are understood. */
struct step {
	const struct flow_node *n;
	struct insn_ops o;
	bool known;
};

static struct step step_of(const struct flow_node *n)
{
	struct step s = { .n = n };

	s.known = flow_node__ops(n, &s.o) && s.o.map < 2;
	return s;
}

static uint8_t held(const uint8_t regs[REG_CNT], uint8_t reg)
{
	return reg < REG_CNT ? regs[reg] : 0;
}

static uint8_t all_held(const uint8_t regs[REG_CNT])
{
	uint8_t all = 0;
	uint32_t i;

	for (i = 0; i < REG_CNT; i++)
		all |= regs[i];
	return all;
}

static uint8_t passed(const uint8_t regs[REG_CNT])
{
	uint8_t all = 0;
	uint32_t i;

	for (i = 0; i < ARG_FLOW_ARGS; i++)
		all |= regs[arg_regs[i]];
	return all;
}

static bool is_call(const struct flow_node *n)
{
	return n->in.cls == INSN_CALL || n->in.cls == INSN_CALL_IND;
}

static bool is_push(const struct step *s)
{
	return s->known && !s->o.map && s->o.opcode >= 0x50 && s->o.opcode <= 0x57;
}

/* cmp and test, in all their forms: they keep nothing. */
static bool only_compares(const struct insn_ops *o)
{
	uint8_t op = o->opcode, ext = o->reg & 7;

	if (o->map || !o->has_modrm)
		return false;
	return (op >= 0x38 && op <= 0x3b) || op == 0x84 || op == 0x85 ||
	       ((op == 0x80 || op == 0x81 || op == 0x83) && ext == 7) ||
	       ((op == 0xf6 || op == 0xf7) && ext < 2);
}

/* Instructions with a memory operand that only read it: the result goes to a register. */
static bool only_loads(const struct insn_ops *o)
{
	uint8_t op = o->opcode;

	if (o->map == 1) /* 0f: conditional moves, movzx, movsx, bsf, no-ops, vectors from memory */
		return (op >= 0x40 && op <= 0x4f) || op == 0xb6 || op == 0xb7 || op == 0xbe ||
		       op == 0xbf || op == 0xbc || op == 0xbd || op == 0xaf || op == 0x1f ||
		       op == 0x1e || op == 0x10 || op == 0x12 || op == 0x16 || op == 0x28 ||
		       op == 0x6e || op == 0x6f;
	if (op < 0x40)
		return (op & 7) == 2 || (op & 7) == 3;
	return op == 0x8a || op == 0x8b || op == 0x8d || op == 0x63 || op == 0x69 || op == 0x6b ||
	       (op == 0xff && (o->reg & 7) >= 2);
}

/* ModRM.reg names no register: immediates, shifts, inc, not, setcc. */
static bool reg_is_opcode(const struct insn_ops *o)
{
	uint8_t op = o->opcode;

	if (o->map == 1)
		return op >= 0x90 && op <= 0x9f;
	return (op >= 0x80 && op <= 0x83) || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 ||
	       (op >= 0xd0 && op <= 0xd3) || op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff;
}

/* Arguments that the instruction puts where they are not followed any more. */
static uint8_t spills(const struct step *s, const uint8_t regs[REG_CNT])
{
	const struct insn_ops *o = &s->o;

	if (s->n->in.cls != INSN_OTHER)
		return 0;
	if (!s->known)
		return all_held(regs);
	if (is_push(s))
		return held(regs, o->rm);
	if (!o->has_modrm || only_compares(o))
		return 0;
	if (o->map == 1 && (o->opcode == 0x6e || o->opcode == 0x2a)) /* into a vector register */
		return held(regs, o->rm);
	if (!o->mem || only_loads(o) || reg_is_opcode(o))
		return 0;
	return o->map == 1 && o->opcode != 0xb1 && o->opcode != 0xc1 ? 0 : held(regs, o->reg);
}

/* A result of 32 bits or fewer is no pointer, and no argument in full. */
static bool is_narrow(const struct insn_ops *o)
{
	if (!o->has_modrm && o->opcode >= 0x58 && o->opcode <= 0x5f)
		return false;
	return !o->rex_w;
}

/* What a register that the instruction writes may hold after it. */
static uint8_t result(const struct arg_flow *af, const struct step *s, const uint8_t regs[REG_CNT])
{
	const struct insn_ops *o = &s->o;
	uint8_t dst, src;
	int64_t value;

	if (!s->known)
		return all_held(regs) | af->spilled;
	if (is_narrow(o) || insn_ops__is_const(o, &dst, &value))
		return 0;
	if (insn_ops__mov_rr(o, &dst, &src))
		return held(regs, src);
	if (insn_ops__is_load(o))
		return af->spilled;
	if (insn_ops__is_lea(o))
		return held(regs, o->base) | held(regs, o->index);
	if (!o->has_modrm && o->opcode >= 0x58 && o->opcode <= 0x5f) /* pop */
		return af->spilled;
	if (!o->has_modrm) /* xchg with rax */
		return held(regs, REG_RAX) | held(regs, o->rm);
	return (uint8_t)((reg_is_opcode(o) ? 0 : held(regs, o->reg)) |
			 (o->mem ? af->spilled : held(regs, o->rm)));
}

/* Does what it writes hold what it held, or a number? Sign extensions, strings, immediates of a byte. */
static bool keeps(const struct step *s)
{
	const struct insn_ops *o = &s->o;

	return s->known && !o->has_modrm && !(o->opcode >= 0x58 && o->opcode <= 0x5f) &&
	       !(o->opcode >= 0x91 && o->opcode <= 0x97) && !(o->opcode >= 0xb8 && o->opcode <= 0xbf);
}

/* The state behind a node. */
static void apply(struct arg_flow *af, const struct step *s, const uint8_t before[REG_CNT],
		  uint8_t after[REG_CNT])
{
	uint8_t value;
	uint8_t r;

	memcpy(after, before, REG_CNT);
	af->spilled |= spills(s, before);
	if (is_call(s->n)) {
		for (r = 0; r < REG_CNT; r++)
			if (insn__may_write(&s->n->in, &s->o, s->known, r))
				after[r] = 0;
		after[REG_RAX] = passed(before) | af->spilled; /* as memcpy() returns its first */
		return;
	}
	if (keeps(s))
		return;
	value = result(af, s, before);
	for (r = 0; r < REG_CNT; r++)
		if (r != REG_RSP && insn__may_write(&s->n->in, &s->o, s->known, r))
			after[r] = value;
}

static bool join(uint8_t to[REG_CNT], const uint8_t from[REG_CNT])
{
	bool more = false;
	uint32_t r;

	for (r = 0; r < REG_CNT; r++) {
		more |= (from[r] & ~to[r]) != 0;
		to[r] |= from[r];
	}
	return more;
}

int arg_flow__follow(struct arg_flow *af, const struct flow *f)
{
	uint8_t after[REG_CNT], spilled;
	bool more = true;
	uint32_t i, k, to, passes;

	if (vec_reserve((void **)&af->regs, &af->cap, f->cnt + 1ULL, sizeof(*af->regs)))
		return -ENOMEM;
	memset(af->regs, 0, f->cnt * sizeof(*af->regs));
	af->spilled = 0;
	for (i = 0; i < ARG_FLOW_ARGS && f->cnt; i++)
		af->regs[0][arg_regs[i]] = (uint8_t)(1u << i);
	for (passes = 0; more && passes < PASSES_MAX; passes++) { /* masks only grow */
		more = false;
		spilled = af->spilled;
		for (i = 0; i < f->cnt; i++) {
			struct step s = step_of(&f->nodes[i]);

			apply(af, &s, af->regs[i], after);
			for (k = 0; k < FLOW_SUCC_MAX(&f->nodes[i]); k++) {
				to = flow__succ(f, &f->nodes[i], k);
				if (to != FLOW_NONE)
					more |= join(af->regs[to], after);
			}
		}
		more |= spilled != af->spilled;
	}
	if (more) { /* anything may be anywhere */
		memset(af->regs, ALL_ARGS, f->cnt * sizeof(*af->regs));
		af->spilled = ALL_ARGS;
	}
	return 0;
}

void arg_flow__free(struct arg_flow *af)
{
	free(af->regs);
	memset(af, 0, sizeof(*af));
}

/* ---- questions ---- */

/* Does it write memory other than by push? */
static bool writes_memory(const struct step *s)
{
	const struct insn_ops *o = &s->o;

	if (s->n->in.cls != INSN_OTHER || is_push(s))
		return false;
	if (!s->known)
		return true;
	if (!o->has_modrm) /* movs, stos */
		return !o->map && (o->opcode == 0xa4 || o->opcode == 0xa5 || o->opcode == 0xaa ||
				   o->opcode == 0xab);
	return o->mem && !only_loads(o) && !only_compares(o);
}

static bool in_own_frame(const struct step *s)
{
	return s->known && (s->o.base == REG_RSP || s->o.base == REG_RBP);
}

bool arg_flow__stores(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args)
{
	const uint8_t *regs = af->regs[node];
	struct step s = step_of(&f->nodes[node]);
	uint8_t through;

	if (!writes_memory(&s))
		return false;
	if (!s.known)
		through = all_held(regs);
	else if (!s.o.has_modrm)
		through = regs[REG_RDI];
	else
		through = held(regs, s.o.base) | held(regs, s.o.index);
	return (through & args) != 0;
}

bool arg_flow__uses(const struct arg_flow *af, const struct flow *f, uint32_t node, uint8_t args)
{
	const struct flow_node *n = &f->nodes[node];
	struct step s = step_of(n);

	if (is_call(n) || n->leaves)
		return ((passed(af->regs[node]) | af->spilled) & args) != 0;
	return arg_flow__stores(af, f, node, args) ||
	       ((af->spilled & args) && writes_memory(&s) && !in_own_frame(&s));
}

bool arg_flow__forwards(const struct arg_flow *af, uint32_t node, uint8_t args)
{
	uint32_t i;

	for (i = 0; i < ARG_FLOW_ARGS; i++)
		if ((args & 1u << i) && af->regs[node][arg_regs[i]] != 1u << i)
			return false;
	return true;
}
