/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An exported function of libcudart checks whether a tool has subscribed. Without a tool it calls a
 * local function and returns that function's result, without an instruction that could be probed.
 * With one it calls the tool before and after the same local function. The local function calls the
 * driver through a pointer and stores the driver's error.
 *
 * "Work" is a call through a pointer, or a call of a function of this file that may make one.
 * Functions of other libraries (threads, memory, texts) are not the driver. A call of an unknown
 * function is work.
 */
#include "plan/plan_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

#define FOLLOW_MAX 3 /* functions that pass the call on */
/* a function that may reach more functions than these is assumed to call through a pointer */
#define REACH_MAX 96

enum { OUT_YES = 1, OUT_NO = 2 };

void cuda_ends__init(struct cuda_ends *ce, struct plan_build *b)
{
	memset(ce, 0, sizeof(*ce));
	ce->b = b;
}

void cuda_ends__free(struct cuda_ends *ce)
{
	hashmap__clear(&ce->calls_out);
	free(ce->todo);
}

/* ---- which functions may call through a pointer ---- */

/* The import that a call or jump leads to; NULL: code of this file, or a pointer. */
static const char *import_of(const struct plan_build *b, const struct flow_node *n)
{
	const struct insn_operand *to = &n->in.ops[0];

	if (n->in.cls == INSN_CALL || n->in.cls == INSN_JMP)
		return elf_file__plt_name(b->lc->ef, n->in.target);
	return operand__is_fixed(to) ? elf_file__plt_name(b->lc->ef, (uint64_t)to->value) : NULL;
}

static bool is_call(const struct flow_node *n)
{
	return insn__is_call(&n->in) || n->leaves;
}

static void add_todo(struct cuda_ends *ce, uint32_t *cnt, uint64_t addr)
{
	for (uint32_t i = 0; i < *cnt; i++)
		if (ce->todo[i] == addr)
			return;
	vec_push(ce->todo, *cnt, ce->todo_cap, addr);
}

/* Does the reached function itself call through a pointer? Adds the functions that it calls. */
static void inspect_callee(struct cuda_ends *ce, uint64_t addr, uint32_t *cnt, bool *out)
{
	struct plan_build *b = ce->b;
	uint64_t *known = hashmap__get(&ce->calls_out, addr, 0);
	enum ptb_refusal why;

	if (known) {
		*out = *known == OUT_YES;
		return;
	}
	flow__build(&b->aux, &b->lc->src, addr, &why);
	*out = why != PTB_REFUSE_NONE;
	for (uint32_t i = 0; !*out && i < b->aux.cnt; i++) {
		const struct flow_node *n = &b->aux.nodes[i];

		if (!is_call(n) || import_of(b, n))
			continue;
		if (n->in.cls == INSN_CALL || n->in.cls == INSN_JMP)
			add_todo(ce, cnt, n->in.target);
		else
			*out = true;
	}
}

static void may_call_out(struct cuda_ends *ce, uint64_t addr, bool *out)
{
	uint32_t cnt = 0;
	add_todo(ce, &cnt, addr);

	*out = false;
	for (uint32_t i = 0; !*out && i < cnt; i++) {
		inspect_callee(ce, ce->todo[i], &cnt, out);
		*out |= cnt > REACH_MAX;
	}
	if (*out) {
		hashmap__put(&ce->calls_out, addr, 0, OUT_YES);
		return;
	}
	for (uint32_t i = 0; i < cnt; i++) /* none of them does */
		hashmap__put(&ce->calls_out, ce->todo[i], 0, OUT_NO);
}

void cuda_ends__mark(struct cuda_ends *ce)
{
	struct plan_build *b = ce->b;
	struct flow *f = &b->flow;
	bool out;
	exit_finder__prepare(&b->finder, f);

	for (uint32_t i = 0; i < f->cnt; i++) {
		const struct flow_node *n = &f->nodes[i];

		if (!is_call(n) || import_of(b, n))
			continue;
		out = true;
		if (n->in.cls == INSN_CALL || n->in.cls == INSN_JMP)
			may_call_out(ce, n->in.target, &out);
		b->finder.work[i] = out;
	}
}

/* ---- which function does the work of another ---- */

static bool direct(const struct flow_node *n)
{
	return n->in.cls == INSN_CALL || (n->leaves && n->in.cls == INSN_JMP);
}

static bool calls_it(const struct flow_node *n, uint64_t target)
{
	return direct(n) && n->in.target == target;
}

/* Does the function do the work, whatever follows it (as the notification of a tool)? Every path to
 * the last work calls it, and none calls it twice. */
static void is_worker(struct plan_build *b, const uint8_t *last, uint64_t target, bool *yes)
{
	uint8_t *seen = b->finder.late;
	struct flow *f = &b->flow;

	*yes = true;
	for (uint32_t i = 0; i < f->cnt; i++)
		seen[i] = calls_it(&f->nodes[i], target) ? FLOW_STOP : 0;
	if (!seen[0])
		seen[0] = FLOW_SEEN;
	flow__reach(f, seen, false);
	for (uint32_t i = 0; i < f->cnt; i++)
		if (last[i] && seen[i] == FLOW_SEEN)
			*yes = false;
	for (uint32_t i = 0; i < f->cnt; i++)
		seen[i] = calls_it(&f->nodes[i], target);
	flow__reach(f, seen, true);
	for (uint32_t i = 0; i < f->cnt; i++)
		if (calls_it(&f->nodes[i], target) && flow__leads_to(f, i, seen))
			*yes = false;
}

/* After exit_sites__after_work() of the function. *target 0: no function, or an uncertain one. */
static void find_worker(struct plan_build *b, uint64_t *target)
{
	const uint8_t *last = b->finder.last;
	struct flow *f = &b->flow;
	uint64_t found = 0;
	bool yes;

	*target = 0;
	for (uint32_t i = 0; i < f->cnt; i++) {
		if (!last[i] || !direct(&f->nodes[i]) || f->nodes[i].in.target == found)
			continue;
		is_worker(b, last, f->nodes[i].in.target, &yes);
		if (yes && found)
			return; /* two functions: ambiguous */
		if (yes)
			found = f->nodes[i].in.target;
	}
	*target = found;
}

/* ---- the contents of eax at an exit ---- */

/* Is the last writer of eax before the node a call through a pointer on every path? */
static bool returns_result(struct plan_build *b, uint32_t node)
{
	struct flow *f = &b->flow;
	uint8_t *seen = b->finder.late;
	bool more = true;

	memset(seen, 0, f->cnt);
	seen[node] = 1;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < f->cnt; i++) {
			if (seen[i] != 1)
				continue;
			seen[i] = 2;
			more = true;
			if (f->pred_at[i] == f->pred_at[i + 1])
				return false; /* the entry */
			for (uint32_t k = f->pred_at[i]; k < f->pred_at[i + 1]; k++) {
				const struct flow_node *n = &f->nodes[f->preds[k]];

				if (n->in.cls == INSN_CALL_IND && !import_of(b, n))
					continue;
				if (is_call(n) || insn__may_write(&n->in, arch.result))
					return false;
				if (!seen[f->preds[k]])
					seen[f->preds[k]] = 1;
			}
		}
	}
	return true;
}

void cuda_ends__find(struct cuda_ends *ce, struct exit_sites *ex, bool *result)
{
	struct plan_build *b = ce->b;
	enum ptb_refusal why;
	uint64_t target;

	*result = false;
	for (uint32_t depth = 0;; depth++) {
		cuda_ends__mark(ce);
		exit_sites__after_work(&b->finder, &b->flow, ex);
		if (ex->why == PTB_REFUSE_NONE || depth == FOLLOW_MAX)
			break;
		find_worker(b, &target);
		if (!target)
			break;
		flow__build(&b->flow, &b->lc->src, target, &why);
		if (why != PTB_REFUSE_NONE)
			break;
	}
	if (ex->why != PTB_REFUSE_NONE)
		return;
	*result = true;
	for (uint32_t i = 0; i < ex->cnt; i++)
		*result &= returns_result(b, ex->nodes[i]);
}
