/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Every dispatched or scheduled function calls at::getStepCallbacksUnlessEmpty(scope) first. Its
 * callers outside at::_ops are:
 *
 * scope 0 (FUNCTION): callBoxed (by its symbol, or in stripped files by its use of arguments), and
 *   C++ functions with an inlined typed handle, such as c10d::ProcessGroup::allreduce. These name
 *   their operator as at::_ops::X::call does. They are probed in the same way if every call of them
 *   dispatches the operator and only converts arguments before.
 * scope 1 (BACKWARD_FUNCTION): Node::operator().
 *
 * Other callers are listed with the reason NO_NAME.
 */
#include "plan/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "code/code.h"
#include "plan/args_priv.h"

/* at::RecordScope, pytorch aten/src/ATen/record_function.h */
enum { SCOPE_FUNCTION = 0, SCOPE_BACKWARD_FUNCTION = 1 };

/* Has the function been added by a rule of its own? */
static bool is_known(const struct lib_code *lc, uint64_t addr)
{
	return lib_code__has_sym(lc, TOPIC_OPS, addr) || lib_code__has_sym(lc, TOPIC_BOXED, addr) ||
	       lib_code__has_sym(lc, TOPIC_NODE_CALL, addr);
}

struct callers {
	struct addr_name *funcs; /* calling functions in the order of addresses */
	uint32_t cnt, cap;
};

/* Finds the callers of getStepCallbacksUnlessEmpty that have not been added by rules of their
 * own. */
static void find_callers(struct plan_build *b, struct callers *c)
{
	uint64_t start, end;
	lib_code__all_calls(b->lc);

	for (uint32_t i = 0; i < b->lc->site_cnt; i++) {
		if (!(b->lc->sites[i].flags & CALLEE_GET_CALLBACKS) ||
		    !elf_file__func_range(b->lc->ef, b->lc->sites[i].at, &start, &end) ||
		    (c->cnt && c->funcs[c->cnt - 1].addr == start) || is_known(b->lc, start))
			continue;
		vec_push(c->funcs, c->cnt, c->cap, (struct addr_name){ .addr = start });
	}
}

/* ---- what a register argument is used for ---- */

/*
 * callBoxed(this, OperatorHandle const&, Stack*) reads through the handle at once (`mov (%reg),
 * ...` loads the OperatorDef*) and never through `this`. A clone without `this` has the handle in
 * rdi. Returns 0 for rdi, 1 for rsi, -1 if neither is read near the entry.
 */
static int handle_reg(const struct flow *f, uint64_t entry)
{
	uint8_t alias[2] = { arch.arg[0], arch.arg[1] }; /* the argument's present register */
	bool live[2][REG_CNT] = { { false } };
	uint32_t at = flow__at(f, entry);

	live[0][alias[0]] = live[1][alias[1]] = true;
	for (uint32_t i = 0; i < 64 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		const struct insn *in = &f->nodes[at].in;

		for (uint32_t a = 0; a < 2; a++)
			if (insn__is_load(in) && operand__is_member(&in->ops[1]) &&
			    !in->ops[1].value && live[a][in->ops[1].reg])
				return (int)a;
		if (insn__is_copy(in)) {
			for (uint32_t a = 0; a < 2; a++)
				live[a][in->ops[0].reg] = live[a][in->ops[1].reg];
			continue;
		}
		for (uint32_t r = 0; r < REG_CNT; r++)
			if (insn__may_write(in, (uint8_t)r))
				live[0][r] = live[1][r] = false;
	}
	return -1;
}

/* ---- boxed calls ---- */

/*
 * All copies must use the same register, because the programs know one per process. The first copy
 * decides (all are from one compiler); others are refused.
 */
static int add_boxed(struct plan_build *b, uint64_t addr, bool *decided)
{
	struct func_probe fp = { .name = "callBoxed",
				 .entry = addr,
				 .kind = PTB_FUNC_BOXED,
				 .enter = PTB_PROG_BOXED_ENTER,
				 .mark = plan_build__mark_kernel_calls };
	enum ptb_refusal why;
	int reg;

	flow__build(&b->flow, &b->lc->src, addr, &why);
	if (why == PTB_REFUSE_NONE) {
		reg = handle_reg(&b->flow, addr);
		if (reg < 0 || (*decided && b->plan->layout.boxed_handle_reg != reg)) {
			why = PTB_REFUSE_LAYOUT_UNKNOWN;
		} else {
			b->plan->layout.boxed_handle_reg = (uint8_t)reg;
			*decided = true;
		}
	}
	return plan_build__probe_built(b, &fp, why);
}

/* Does the function read at displacement 8 of the register's value at the entry (the end of the
 * vector in a Stack)? The prologue may have copied that value to a register that survives calls. */
static bool reads_vector_end(const struct flow *f, uint64_t entry, uint8_t reg)
{
	uint32_t at = flow__at(f, entry);
	uint8_t copy = REG_NONE;

	for (uint32_t i = 0; i < 32 && at != FLOW_NONE && copy == REG_NONE;
	     i++, at = f->nodes[at].fall)
		if (insn__is_copy(&f->nodes[at].in) && f->nodes[at].in.ops[1].reg == reg)
			copy = f->nodes[at].in.ops[0].reg;
	for (uint32_t i = 0; i < f->cnt && copy != REG_NONE; i++) {
		const struct insn *in = &f->nodes[i].in;

		if ((insn__is_load(in) || in->form == FORM_ADD) && in->ops[1].kind == OPERAND_MEM &&
		    in->ops[1].reg == copy && in->ops[1].value == 8)
			return true;
	}
	return false;
}

/* Does a function without a name use its arguments as callBoxed does, with the stack in the
 * register after the handle's? reg: the handle's register if known, else -1. */
static bool is_boxed_shape(struct plan_build *b, uint64_t addr, int reg)
{
	int found = handle_reg(&b->flow, addr);

	return found >= 0 && (reg < 0 || found == reg) &&
	       reads_vector_end(&b->flow, addr, arch.arg[found + 1]);
}

static bool boxed_decided(const struct torch_plan *p)
{
	for (uint32_t i = 0; i < p->func_cnt; i++)
		if (p->funcs[i].kind == PTB_FUNC_BOXED &&
		    (p->funcs[i].reason == PTB_REFUSE_NONE ||
		     p->funcs[i].reason == PTB_REFUSE_NO_EXIT))
			return true;
	return false;
}

static int add_boxed_syms(struct plan_build *b)
{
	const struct sym_list *l = &b->lc->topics[TOPIC_BOXED];
	bool decided = boxed_decided(b->plan);
	int err = 0;

	for (uint32_t i = 0; i < l->cnt && !err; i++)
		err = add_boxed(b, l->syms[i].addr, &decided);
	return err;
}

/* ---- backward nodes ---- */

static int add_node_call(struct plan_build *b, uint64_t addr)
{
	struct func_probe fp = { .name = "Node::operator()",
				 .entry = addr,
				 .kind = PTB_FUNC_NODE_CALL,
				 .enter = PTB_PROG_NODE_CALL,
				 .mark = plan_build__mark_kernel_calls };

	return plan_build__probe(b, &fp);
}

/* ---- typed calls of one operator ---- */

/* Calls that are not part of the operator's preparation: other operators, and code that is not
 * visible. */
static bool does_other_work(struct plan_build *b, const struct insn *in)
{
	return in->cls == INSN_CALL_IND ||
	       lib_code__calls(b->lc, in,
			       CALLEE_OPERATOR | CALLEE_SEQ | CALLEE_PYTHON |
				       CALLEE_IN(CALLEE_GET_CALLBACKS));
}

/*
 * Does every call of the function call the operator once and do little else? No if a path from the
 * entry to a return skips the callbacks, or if something other than a conversion of arguments
 * precedes them.
 */
static void is_one_dispatch(struct plan_build *b, bool *one)
{
	struct flow *f = &b->flow;
	uint8_t *seen = xcalloc(f->cnt, 1);

	*one = true;
	for (uint32_t i = 0; i < f->cnt; i++)
		if (lib_code__calls(b->lc, &f->nodes[i].in, CALLEE_GET_CALLBACKS))
			seen[i] = FLOW_STOP;
	if (!seen[0])
		seen[0] = FLOW_SEEN;
	flow__reach(f, seen, false);
	for (uint32_t i = 0; i < f->cnt; i++)
		if (seen[i] == FLOW_SEEN && (f->nodes[i].in.cls == INSN_RET || f->nodes[i].leaves ||
					     does_other_work(b, &f->nodes[i].in)))
			*one = false;
	free(seen);
}

static int add_typed_call(struct plan_build *b, uint64_t addr, const char *mangled)
{
	struct func_probe fp = { .entry = addr,
				 .kind = PTB_FUNC_OP,
				 .enter = PTB_PROG_OP_ENTER,
				 .mark = plan_build__mark_kernel_calls };
	enum ptb_refusal why = PTB_REFUSE_NO_NAME;
	char plain[OP_NAME_MAX];
	struct op_name_a a;
	bool one = false;
	int err;

	op_names__from_code(b->lc, &b->flow, &b->aux, &a);
	is_one_dispatch(b, &one);
	if (mangled)
		cxx_name__short(mangled, plain, sizeof(plain));
	else
		snprintf(plain, sizeof(plain), "function at 0x%llx", (unsigned long long)addr);
	fp.name = plain;
	if (a.name[0] && one) {
		fp.name = a.name;
		why = PTB_REFUSE_NONE;
	}
	err = plan_build__probe_built(b, &fp, why);
	if (err)
		return err;
	b->plan->funcs[plan_build__last(b)].handle = a.handle;
	return b->plan->site_cnt &&
			       b->plan->sites[b->plan->site_cnt - 1].func == plan_build__last(b) ?
		       typed_args__add(b, plan_build__last(b), mangled) :
		       0;
}

/* ---- all callers ---- */

/* The function is Node::operator() itself if there is no branch between its entry and the call. */
static bool begins_with(const struct flow *f, uint64_t entry, uint32_t call)
{
	uint32_t at = flow__at(f, entry);

	for (uint32_t i = 0; i < 64 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		if (at == call)
			return true;
		if (f->nodes[at].in.cls != INSN_OTHER && f->nodes[at].in.cls != INSN_CALL)
			return false;
	}
	return false;
}

static int add_caller(struct plan_build *b, const struct addr_name *fn)
{
	bool decided = boxed_decided(b->plan);
	uint32_t call;
	enum ptb_refusal why;
	int64_t scope = -1;

	flow__build(&b->flow, &b->lc->src, fn->addr, &why);
	if (why != PTB_REFUSE_NONE)
		return 0;
	call = lib_code__find_call(b->lc, &b->flow, CALLEE_GET_CALLBACKS);
	/* The bytes only resemble a call, or an exception handler calls. */
	if (call == FLOW_NONE ||
	    flow__value_before(&b->flow, call, arch.arg[1], &scope) != VALUE_CONST)
		return 0;
	if (scope == SCOPE_BACKWARD_FUNCTION) {
		if (begins_with(&b->flow, fn->addr, call))
			return add_node_call(b, fn->addr);
		/* without a frame of its own its entry and exit would have the same stack pointer,
		 * which distinguishes frames; Engine::evaluate_function still shows the node */
		plan_build__func(b, "Node::operator() (inlined)", fn->addr, PTB_FUNC_NODE_CALL,
				 PTB_REFUSE_NO_ENTRY);
		return 0;
	}
	if (scope != SCOPE_FUNCTION)
		return 0;
	if (!b->lc->has_symtab && !fn->name &&
	    is_boxed_shape(b, fn->addr, decided ? b->plan->layout.boxed_handle_reg : -1))
		return add_boxed(b, fn->addr, &decided);
	return add_typed_call(b, fn->addr, fn->name);
}

static int missing(struct plan_build *b)
{
	bool boxed = false, node = false;

	if (b->role != TORCH_LIB_CPU)
		return 0;
	for (uint32_t i = 0; i < b->plan->func_cnt; i++) {
		boxed |= b->plan->funcs[i].kind == PTB_FUNC_BOXED;
		node |= b->plan->funcs[i].kind == PTB_FUNC_NODE_CALL;
	}
	if (!boxed)
		plan_build__func(b, "callBoxed", 0, PTB_FUNC_BOXED, PTB_REFUSE_NO_SYMBOL);
	if (!node)
		plan_build__func(b, "Node::operator()", 0, PTB_FUNC_NODE_CALL,
				 PTB_REFUSE_NO_SYMBOL);
	return 0;
}

int callback_sites__add(struct plan_build *b)
{
	const struct sym_list *nodes = &b->lc->topics[TOPIC_NODE_CALL];
	struct callers c = { 0 };
	int err;

	err = add_boxed_syms(b);
	for (uint32_t i = 0; i < nodes->cnt && !err; i++)
		err = add_node_call(b, nodes->syms[i].addr);
	if (!err)
		find_callers(b, &c);
	if (!err)
		lib_code__name_addrs(b->lc, c.funcs, c.cnt);
	for (uint32_t i = 0; i < c.cnt && !err; i++)
		err = add_caller(b, &c.funcs[i]);
	free(c.funcs);
	if (err)
		return err;
	missing(b);
	return 0;
}
