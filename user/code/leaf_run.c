/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory, calls and the flow of control of code.h. */
#include "code/code.h"

#include <string.h>

#define STACK_BASE 0x7e0000000000ULL
#define STEPS_MAX 20000
#define RETURN_TO 0x7dfffffffff0ULL /* the caller of the outermost function */

void leaf_run__reset(struct leaf_run *r)
{
	memset(r->reg, 0, sizeof(r->reg));
	r->reg[arch.sp] = STACK_BASE + LEAF_STACK - 256;
	memset(r->unknown, 0, sizeof(r->unknown));
	r->read_cnt = r->write_cnt = r->tls_cnt = r->depth = r->steps = 0;
	r->int_to_double = false;
	r->flags_known = false;
	memset(r->stack, 0, sizeof(r->stack));
	memset(r->stack_known, 0, sizeof(r->stack_known));
}

/* ---- memory ---- */

static void set_known(struct leaf_run *r, uint64_t off, uint32_t size, bool known)
{
	for (uint32_t i = 0; i < size; i++, off++) {
		if (known)
			r->stack_known[off / 8] |= (uint8_t)(1u << off % 8);
		else
			r->stack_known[off / 8] &= (uint8_t) ~(1u << off % 8);
	}
}

static bool all_known(const struct leaf_run *r, uint64_t off, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++, off++)
		if (!(r->stack_known[off / 8] & 1u << off % 8))
			return false;
	return true;
}

static bool in_stack(uint64_t addr, uint32_t size)
{
	return addr >= STACK_BASE && addr - STACK_BASE <= LEAF_STACK - size;
}

static bool in_object(uint64_t addr, uint32_t *obj, uint64_t *off)
{
	if (addr < LEAF_OBJ(0) || addr >= LEAF_OBJ(LEAF_OBJ_MAX + LEAF_TLS_MAX))
		return false;
	*obj = (uint32_t)((addr - LEAF_OBJ(0)) / LEAF_OBJ_SIZE);
	*off = (addr - LEAF_OBJ(0)) % LEAF_OBJ_SIZE;
	return true;
}

bool leaf_run__load(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v, bool *known)
{
	const uint8_t *p;
	uint64_t off;
	uint32_t obj;

	*v = 0;
	*known = size <= 8;
	if (in_stack(addr, size)) {
		*known = *known && all_known(r, addr - STACK_BASE, size);
		memcpy(v, r->stack + (addr - STACK_BASE), size < 8 ? size : 8);
		return true;
	}
	if (in_object(addr, &obj, &off)) {
		if (r->read_cnt < LEAF_READS)
			r->reads[r->read_cnt++] =
				(struct leaf_read){ .obj = obj, .size = size, .off = off };
		if (r->mem)
			*v = r->mem(r->arg, obj, off, size);
		return true;
	}
	p = lib_code__data(r->lc, addr, size);
	if (!p) {
		*known = r->guards_made && size == 1; /* .bss, or what the loader fills */
		*v = *known;
		return true;
	}
	memcpy(v, p, size < 8 ? size : 8);
	return true;
}

bool leaf_run__store(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t v, bool known)
{
	uint64_t off;
	uint32_t obj;

	if (in_stack(addr, size)) {
		off = addr - STACK_BASE;
		memcpy(r->stack + off, &v, size < 8 ? size : 8);
		set_known(r, off, size, known && size <= 8);
		return true;
	}
	if (!in_object(addr, &obj, &off))
		return r->lenient;
	if (r->write_cnt < LEAF_READS) /* noted, but objects keep what the caller said */
		r->writes[r->write_cnt++] = (struct leaf_write){
			.obj = obj, .size = size, .off = off, .v = v, .known = known && size <= 8
		};
	return true;
}

bool leaf_run__stack(const struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v)
{
	*v = 0;
	if (size > 8 || !in_stack(addr, size) || !all_known(r, addr - STACK_BASE, size))
		return false;
	memcpy(v, r->stack + (addr - STACK_BASE), size);
	return true;
}

bool leaf_run__push(struct leaf_run *r, uint64_t v, bool known)
{
	r->reg[arch.sp] -= 8;
	return in_stack(r->reg[arch.sp], 8) && leaf_run__store(r, r->reg[arch.sp], 8, v, known);
}

bool leaf_run__pop(struct leaf_run *r, uint64_t *v, bool *known)
{
	if (!in_stack(r->reg[arch.sp], 8) || !leaf_run__load(r, r->reg[arch.sp], 8, v, known))
		return false;
	r->reg[arch.sp] += 8;
	return true;
}

/* ---- calls ---- */

/* A call that is not followed: its result is not known. */
static void skip_call(struct leaf_run *r)
{
	for (uint32_t i = 0; i < REG_CNT; i++)
		if (arch.lost & 1u << i)
			r->unknown[i] = 0xff;
	r->flags_known = false;
}

/* The thread's block of a module: an object for each pair that is asked for. */
static bool tls_call(struct leaf_run *r)
{
	uint64_t pair = r->reg[arch.arg[0]];
	uint32_t n;

	for (n = 0; n < r->tls_cnt && r->tls_got[n] != pair; n++)
		;
	if (n == LEAF_TLS_MAX || r->unknown[arch.arg[0]])
		return false;
	r->tls_got[n] = pair;
	if (n == r->tls_cnt)
		r->tls_cnt++;
	skip_call(r);
	r->reg[arch.result] = LEAF_OBJ(LEAF_OBJ_MAX + n);
	r->unknown[arch.result] = 0;
	return true;
}

static enum leaf_end do_call(struct leaf_run *r, uint64_t slot, uint64_t target, uint64_t back,
			     bool *stop)
{
	const char *name = elf_file__plt_name(r->lc->ef, slot ? slot : target);
	uint64_t local = name ? lib_code__function(r->lc, name) : target;
	enum leaf_call what = CALL_FOLLOW;

	*stop = true;
	if (name && !strcmp(name, "__tls_get_addr")) {
		r->at = back;
		*stop = !tls_call(r);
		return LEAF_LOST;
	}
	if (r->on_call)
		what = r->on_call(r->arg, r, name ? name : "");
	if (what == CALL_STOP)
		return LEAF_STOPPED;
	if (lib_code__callee(r->lc, target) & CALLEE_NORETURN)
		return LEAF_NORETURN;
	*stop = false;
	if (what == CALL_ZERO || !local || r->depth >= LEAF_DEPTH) {
		skip_call(r);
		if (what == CALL_ZERO)
			r->reg[arch.result] = r->unknown[arch.result] = 0;
		r->at = back;
		return LEAF_RETURNED;
	}
	r->depth++;
	*stop = !leaf_run__push(r, back, true);
	r->at = local;
	return LEAF_LOST;
}

/* `ret`, and the end of a function that was entered by a jump. */
static enum leaf_end do_return(struct leaf_run *r, bool *stop)
{
	uint64_t to;
	bool known;

	*stop = true;
	if (!leaf_run__pop(r, &to, &known) || !known)
		return LEAF_LOST;
	if (to == RETURN_TO)
		return LEAF_RETURNED;
	if (r->depth)
		r->depth--;
	r->at = to;
	*stop = false;
	return LEAF_RETURNED;
}

/* Where an indirect call or jump goes: a GOT slot's name, or a known value. */
static bool indirect_target(struct leaf_run *r, const struct insn_operand *o, uint64_t *slot,
			    uint64_t *target)
{
	uint64_t addr;
	bool known;

	*slot = *target = 0;
	if (o->kind == OPERAND_GPR) {
		*target = r->reg[o->reg];
		return !r->unknown[o->reg];
	}
	if (o->kind != OPERAND_MEM || !leaf_insn__addr(r, o, &addr))
		return false;
	if (elf_file__plt_name(r->lc->ef, addr)) {
		*slot = *target = addr;
		return true;
	}
	return leaf_run__load(r, addr, 8, target, &known) && known;
}

static bool in_text(const struct leaf_run *r, uint64_t addr)
{
	return addr >= r->lc->text_start && addr < r->lc->text_end;
}

static bool do_condition(struct leaf_run *r, const struct insn *in)
{
	if ((!r->flags_known && !r->lenient) || in->cond == COND_NONE)
		return false;
	r->at = r->flags_known && leaf_run__condition(r, in->cond) ? in->target :
								     in->addr + in->len;
	return true;
}

/* A call of what is not known. */
static enum leaf_end past_call(struct leaf_run *r, const struct insn *in, bool *stop)
{
	if (!r->lenient || in->cls != INSN_CALL_IND)
		return LEAF_LOST;
	skip_call(r);
	r->at = in->addr + in->len;
	*stop = false;
	return LEAF_RETURNED;
}

static enum leaf_end do_branch(struct leaf_run *r, const struct insn *in, bool *stop)
{
	uint64_t next = in->addr + in->len, slot = 0, target = in->target;

	*stop = true;
	switch (in->cls) {
	case INSN_JCC:
		*stop = !do_condition(r, in);
		return *stop ? LEAF_LOST : LEAF_RETURNED;
	case INSN_RET:
		return do_return(r, stop);
	case INSN_CALL_IND:
	case INSN_JMP_IND:
		if (!indirect_target(r, &in->ops[0], &slot, &target))
			return past_call(r, in, stop);
		if (in->cls == INSN_CALL_IND)
			return do_call(r, slot, target, next, stop);
		break;
	case INSN_CALL:
		return do_call(r, 0, target, next, stop);
	case INSN_JMP:
		break;
	default:
		return LEAF_NORETURN;
	}
	if (slot || elf_file__plt_name(r->lc->ef, target)) { /* a tail call: ours returns with it */
		uint64_t to;
		bool known;

		if (!leaf_run__pop(r, &to, &known) || !known)
			return LEAF_LOST;
		if (to == RETURN_TO) { /* followed like any call, then there is nothing behind it */
			uint64_t name_at = slot ? slot : target;
			const char *name = elf_file__plt_name(r->lc->ef, name_at);
			uint64_t local = lib_code__function(r->lc, name);

			if (r->on_call && r->on_call(r->arg, r, name) == CALL_STOP)
				return LEAF_STOPPED;
			if (!local || !leaf_run__push(r, to, true))
				return LEAF_LOST;
			r->at = local;
			*stop = false;
			return LEAF_RETURNED;
		}
		return do_call(r, slot, target, to, stop);
	}
	r->at = target;
	*stop = !in_text(r, target);
	return LEAF_LOST;
}

enum leaf_end leaf_run__go(struct leaf_run *r, uint64_t entry)
{
	const uint8_t *bytes;
	enum leaf_end end;
	struct insn in;
	uint64_t avail;
	bool stop;

	if (!leaf_run__push(r, RETURN_TO, true))
		return LEAF_LOST;
	for (r->at = entry; r->steps < STEPS_MAX; r->steps++) {
		bytes = in_text(r, r->at) ? elf_file__bytes(r->lc->ef, r->at, 1, &avail) : NULL;
		if (!bytes || !insn_decoder__decode(r->dec, bytes, avail, r->at, &in))
			return LEAF_LOST;
		if (in.cls != INSN_OTHER) {
			end = do_branch(r, &in, &stop);
			if (stop)
				return end;
			continue;
		}
		r->at += in.len;
		if (!leaf_insn__step(r, &in))
			return LEAF_LOST;
	}
	return LEAF_LOST;
}

enum leaf_end leaf_run__call(struct leaf_run *r, uint64_t entry, uint64_t arg0, uint64_t arg1,
			     uint64_t arg2)
{
	leaf_run__reset(r);
	r->reg[arch.arg[0]] = arg0;
	r->reg[arch.arg[1]] = arg1;
	r->reg[arch.arg[2]] = arg2;
	return entry ? leaf_run__go(r, entry) : LEAF_LOST;
}
