/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * at::sequence_number::get_and_increment(): the number that links an operator to the backward node
 * it makes. The number is read from the thread's storage before it is incremented:
 *
 *	sub  $8,%rsp; lea pair(%rip),%rdi; call __tls_get_addr; mov 0x1d0(%rax),%rdx; ...
 *
 * `pair` in the GOT is {module, offset}; the displacement of the access is added. The call is the
 * site if the kernel emulates it; with the padded form of the general-dynamic model (data16
 * prefixes) it does not, and then the calls of the function are the sites.
 */
#include "plan/plan_priv.h"

#define SEQ_CALLS_MAX 16384

static const char name[] = "get_and_increment";

/* The access after the call: the first load through its result. */
static bool find_disp(const struct flow *f, uint32_t call, int64_t *disp)
{
	uint32_t at = f->nodes[call].fall;

	for (uint32_t i = 0; i < 8 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		const struct insn *in = &f->nodes[at].in;

		if (insn__is_load(in) && operand__is_member(&in->ops[1]) &&
		    in->ops[1].reg == arch.result) {
			*disp = in->ops[1].value;
			return true;
		}
		if (insn__may_write(in, arch.result))
			return false;
	}
	return false;
}

/* Finds the location of the number. False: the code has another form. */
static bool find_storage(struct plan_build *b, uint32_t *call)
{
	struct flow *f = &b->flow;
	int64_t pair, disp;
	uint32_t i = lib_code__find_call(b->lc, f, CALLEE_TLS);

	if (i == FLOW_NONE || flow__value_before(f, i, arch.arg[0], &pair) != VALUE_ADDR ||
	    !find_disp(f, i, &disp) || disp < 0)
		return false;
	b->plan->layout.seq_tls_got = (uint64_t)pair;
	b->plan->layout.seq_tls_disp = (uint64_t)disp;
	*call = i;
	return true;
}

/* An emulated instruction on every path before the number is read, straight behind the entry. */
static uint32_t early_site(const struct flow *f, uint64_t entry, uint32_t call)
{
	uint32_t at = flow__at(f, entry);

	for (uint32_t i = 0; i < 32 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		if (f->nodes[at].in.emulated)
			return at;
		if (at == call || f->nodes[at].in.cls != INSN_OTHER)
			return FLOW_NONE;
	}
	return FLOW_NONE;
}

/* Adds every call of the function in this library. */
static int add_calls(struct plan_build *b, uint32_t func, uint32_t *added)
{
	struct lib_code *lc = b->lc;
	struct insn in;
	int err = 0;

	lib_code__all_calls(lc);
	for (uint32_t i = 0; i < lc->site_cnt && !err && *added < SEQ_CALLS_MAX; i++) {
		if (!(lc->sites[i].flags & CALLEE_SEQ))
			continue;
		if (!lib_code__decode(lc, b->flow.dec, lc->sites[i].at, lc->sites[i].next, &in) ||
		    !in.emulated)
			continue;
		err = plan_build__site(b, func, &in, PTB_PROG_SEQ, PTB_ROLE_POINT, 0);
		(*added)++;
	}
	return err;
}

/* Adds the function itself if its entry can be probed, or else its calls. */
static int add_function(struct plan_build *b, uint64_t addr)
{
	uint32_t call, site = FLOW_NONE, idx, calls = 0;
	enum ptb_refusal why;
	int err;

	flow__build(&b->flow, &b->lc->src, addr, &why);

	if (why == PTB_REFUSE_NONE && !find_storage(b, &call))
		why = PTB_REFUSE_LAYOUT_UNKNOWN;
	if (why == PTB_REFUSE_NONE) {
		site = early_site(&b->flow, addr, call);
		why = site == FLOW_NONE ? PTB_REFUSE_NO_ENTRY : PTB_REFUSE_NONE;
	}
	plan_build__func(b, name, addr, PTB_FUNC_SEQ, why);
	idx = plan_build__last(b);
	if (why == PTB_REFUSE_NONE)
		return plan_build__site(b, idx, &b->flow.nodes[site].in, PTB_PROG_SEQ,
					PTB_ROLE_POINT, 0);
	if (why != PTB_REFUSE_NO_ENTRY)
		return 0;
	err = add_calls(b, idx, &calls);
	if (!err && calls) {
		b->plan->funcs[idx].reason = PTB_REFUSE_NONE;
		b->seq_func = idx + 1;
	}
	return err;
}

int seq_sites__add(struct plan_build *b)
{
	const struct sym_list *l = &b->lc->topics[TOPIC_SEQ];
	uint32_t calls = 0;

	if (l->cnt)
		return add_function(b, l->syms[0].addr);
	if (b->role == TORCH_LIB_CPU) {
		plan_build__func(b, name, 0, PTB_FUNC_SEQ, PTB_REFUSE_NO_SYMBOL);
		return 0;
	}
	return b->seq_func ? add_calls(b, b->seq_func - 1, &calls) : 0;
}
