/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Classic BPF as seccomp has it: jumps go forward only, so one walk over the program sees every
 * instruction after all those from which it can be reached. Where two paths meet, what differs
 * between them is not known any more.
 */
#include "inject/seccomp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define ACC BPF_MEMWORDS       /* slots of the accumulator ... */
#define IDX (BPF_MEMWORDS + 1) /* ... and of the index register, after the memory's */
#define SLOT_CNT (BPF_MEMWORDS + 2)

struct state {
	uint32_t v[SLOT_CNT];
	uint32_t known; /* bits of PLACES */
};

struct seccomp_scratch {
	struct state at[SECCOMP_PROG_MAX];
	bool reached[SECCOMP_PROG_MAX];
};

struct seccomp_scratch *seccomp_scratch__new(void)
{
	return xcalloc(1, sizeof(struct seccomp_scratch));
}

void seccomp_scratch__free(struct seccomp_scratch *s)
{
	free(s);
}

/* ---- the check ---- */

/* Is it `base` with an operand of either kind and an operation between these? */
static bool is_operation(uint16_t code, uint16_t base, uint16_t first, uint16_t last)
{
	uint16_t op = BPF_OP(code);

	return (code & ~(op | BPF_X)) == base && op >= first && op <= last;
}

/* One that seccomp_check_filter() takes. `rest`: instructions after it. */
static bool is_sound(const struct sock_filter *in, uint32_t rest)
{
	uint16_t code = in->code;

	switch (code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return in->k % 4 == 0 && in->k < sizeof(struct seccomp_data);
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
	case BPF_ST:
	case BPF_STX:
		return in->k < BPF_MEMWORDS;
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
	case BPF_MISC | BPF_TAX:
	case BPF_MISC | BPF_TXA:
	case BPF_RET | BPF_K:
	case BPF_RET | BPF_A:
	case BPF_ALU | BPF_NEG:
	case BPF_ALU | BPF_XOR | BPF_K:
	case BPF_ALU | BPF_XOR | BPF_X:
		return true;
	case BPF_ALU | BPF_DIV | BPF_K:
		return in->k != 0;
	case BPF_ALU | BPF_LSH | BPF_K:
	case BPF_ALU | BPF_RSH | BPF_K:
		return in->k < 32;
	case BPF_JMP | BPF_JA:
		return in->k < rest;
	default:
		if (is_operation(code, BPF_JMP, BPF_JEQ, BPF_JSET))
			return in->jt < rest && in->jf < rest;
		return is_operation(code, BPF_ALU, BPF_ADD, BPF_RSH);
	}
}

int seccomp_eval__check(const struct seccomp_prog *prog)
{
	if (!prog->len || prog->len > SECCOMP_PROG_MAX ||
	    BPF_CLASS(prog->insns[prog->len - 1].code) != BPF_RET)
		return -EINVAL;
	for (uint32_t i = 0; i < prog->len; i++)
		if (!is_sound(&prog->insns[i], prog->len - 1 - i))
			return -EINVAL;
	return 0;
}

/* ---- the walk ---- */

static void add_answer(struct seccomp_answers *out, uint32_t ret)
{
	for (uint32_t i = 0; i < out->cnt; i++)
		if (out->ret[i] == ret)
			return;
	if (out->cnt == SECCOMP_ANSWERS_MAX)
		out->any = true;
	else
		out->ret[out->cnt++] = ret;
}

static void reach(struct seccomp_scratch *s, uint32_t pc, const struct state *from)
{
	struct state *to = &s->at[pc];

	if (!s->reached[pc]) {
		s->reached[pc] = true;
		*to = *from;
		return;
	}
	to->known &= from->known;
	for (uint32_t i = 0; i < SLOT_CNT; i++)
		if (to->v[i] != from->v[i])
			to->known &= ~(1u << i);
}

static void set_slot(struct state *st, uint32_t slot, uint32_t v, bool known)
{
	st->v[slot] = known ? v : 0;
	st->known = (st->known & ~(1u << slot)) | (uint32_t)known << slot;
}

static void copy_slot(struct state *st, uint32_t to, uint32_t from)
{
	set_slot(st, to, st->v[from], st->known >> from & 1);
}

static void run_load(struct state *st, const struct sock_filter *in,
		     const struct seccomp_call *call)
{
	uint32_t to = BPF_CLASS(in->code) == BPF_LD ? ACC : IDX, word;

	switch (BPF_MODE(in->code)) {
	case BPF_ABS:
		memcpy(&word, (const uint8_t *)&call->data + in->k, sizeof(word));
		set_slot(st, to, word, call->known >> in->k / 4 & 1);
		return;
	case BPF_LEN:
		set_slot(st, to, sizeof(struct seccomp_data), true);
		return;
	case BPF_MEM:
		copy_slot(st, to, in->k);
		return;
	default:
		set_slot(st, to, in->k, true);
	}
}

static uint32_t calculate(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return a << (b & 31);
	case BPF_RSH:
		return a >> (b & 31);
	default: /* BPF_NEG */
		return -a;
	}
}

/* False: it ends here, with an answer. */
static bool run_alu(struct state *st, const struct sock_filter *in, struct seccomp_answers *out)
{
	bool by_x = BPF_SRC(in->code) == BPF_X && BPF_OP(in->code) != BPF_NEG;
	bool x_known = st->known >> IDX & 1, known = st->known >> ACC & 1 && (!by_x || x_known);
	uint32_t b = by_x ? st->v[IDX] : in->k;

	/* Linux net/core/filter.c: a division by 0 ends the program with 0 */
	if (BPF_OP(in->code) == BPF_DIV && by_x && !(x_known && b))
		add_answer(out, 0);
	if (BPF_OP(in->code) == BPF_DIV && by_x && x_known && !b)
		return false;
	if (BPF_OP(in->code) == BPF_AND && (!by_x || x_known) && !b)
		/* half of a mask, as libseccomp makes it for the upper half of an int */
		known = true;
	set_slot(st, ACC, calculate(in->code, st->v[ACC], b), known);
	return true;
}

static bool jump_taken(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGE:
		return a >= b;
	case BPF_JGT:
		return a > b;
	default: /* BPF_JSET */
		return a & b;
	}
}

static void run_jump(struct seccomp_scratch *s, uint32_t pc, const struct sock_filter *in,
		     const struct state *st)
{
	bool by_x = BPF_SRC(in->code) == BPF_X;
	bool known = st->known >> ACC & 1 && (!by_x || st->known >> IDX & 1), yes;

	if (BPF_OP(in->code) == BPF_JA) {
		reach(s, pc + 1 + in->k, st);
		return;
	}
	yes = known && jump_taken(in->code, st->v[ACC], by_x ? st->v[IDX] : in->k);
	if (yes || !known)
		reach(s, pc + 1 + in->jt, st);
	if (!yes)
		reach(s, pc + 1 + in->jf, st);
}

/* True: the next instruction follows. */
static bool run_insn(struct seccomp_scratch *s, uint32_t pc, const struct sock_filter *in,
		     const struct seccomp_call *call, struct seccomp_answers *out)
{
	struct state *st = &s->at[pc];

	switch (BPF_CLASS(in->code)) {
	case BPF_LD:
	case BPF_LDX:
		run_load(st, in, call);
		return true;
	case BPF_ST:
		copy_slot(st, in->k, ACC);
		return true;
	case BPF_STX:
		copy_slot(st, in->k, IDX);
		return true;
	case BPF_ALU:
		return run_alu(st, in, out);
	case BPF_JMP:
		run_jump(s, pc, in, st);
		return false;
	case BPF_MISC:
		copy_slot(st, BPF_MISCOP(in->code) == BPF_TAX ? IDX : ACC,
			  BPF_MISCOP(in->code) == BPF_TAX ? ACC : IDX);
		return true;
	default: /* BPF_RET */
		if (BPF_RVAL(in->code) == BPF_K)
			add_answer(out, in->k);
		else if (st->known >> ACC & 1)
			add_answer(out, st->v[ACC]);
		else
			out->any = true;
		return false;
	}
}

void seccomp_eval__run(struct seccomp_scratch *s, const struct seccomp_prog *prog,
		       const struct seccomp_call *call, struct seccomp_answers *out)
{
	const struct state begin = {
		.known = (1u << SLOT_CNT) - 1
	}; /* accumulator and index are 0; memory is not read before it is written */

	memset(s->reached, 0, prog->len * sizeof(s->reached[0]));
	out->cnt = 0;
	out->any = false;
	reach(s, 0, &begin);
	for (uint32_t pc = 0; pc < prog->len; pc++)
		if (s->reached[pc] && run_insn(s, pc, &prog->insns[pc], call, out))
			reach(s, pc + 1, &s->at[pc]); /* there is one: the last returns */
}

void seccomp_eval__both(const struct seccomp_answers *newer, const struct seccomp_answers *older,
			struct seccomp_answers *out)
{
	struct seccomp_answers both = { .any = newer->any || older->any };

	for (uint32_t i = 0; i < newer->cnt; i++)
		for (uint32_t k = 0; k < older->cnt; k++)
			add_answer(&both, (int32_t)(older->ret[k] & SECCOMP_RET_ACTION_FULL) <
							  (int32_t)(newer->ret[i] &
								    SECCOMP_RET_ACTION_FULL) ?
						  older->ret[k] :
						  newer->ret[i]);
	*out = both;
}
