/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * TorchScript functions. A call of a scripted function or method, from Python or C++, ends up in
 * GraphExecutorImplBase::run(Stack&), which makes an interpreter, runs it and returns; the
 * functions before it (GraphFunction::run, GraphExecutor::run) leave by tail calls and have no end.
 * It has no exported symbol; exported GraphExecutor::run is two instructions:
 *
 *	mov (%rdi),%rdi; jmp GraphExecutorImplBase::run
 *
 * The function's name is a member, right before num_inputs (torch/csrc/jit/runtime/
 * graph_executor_impl.h: graph, function_name_, num_inputs), and run() begins by comparing the
 * stack's size with num_inputs. The interpreter's own calls are inlined and not seen here.
 */
#include "plan/plan_priv.h"

/* The target of GraphExecutor::run's jump; 0: it has another form. */
static uint64_t forwarded_to(const struct flow *f)
{
	uint32_t at = 0;
	bool loaded = false;

	for (uint32_t i = 0; i < 4 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		const struct insn *in = &f->nodes[at].in;

		if (in->cls == INSN_JMP)
			return loaded && (in->target < f->parts[0].start ||
					  in->target >= f->parts[0].end) ?
				       in->target :
				       0;
		if (insn__is_load(in) && in->ops[1].reg == arch.arg[0] &&
		    in->ops[0].reg == arch.arg[0] && !in->ops[1].value)
			loaded = true;
		else if (in->form != FORM_NOP)
			return 0;
	}
	return 0;
}

/* num_inputs is in the first comparison of a register with a member of `this`. */
static uint16_t name_offset(const struct flow *f, bool old_string_abi)
{
	int64_t string_sz = old_string_abi ? 8 : 32;
	uint32_t at = 0;

	for (uint32_t i = 0; i < 24 && at != FLOW_NONE; i++, at = f->nodes[at].fall) {
		const struct insn *in = &f->nodes[at].in;
		const struct insn_operand *member =
			&in->ops[in->ops[0].kind == OPERAND_MEM ? 0 : 1];

		if (in->cls != INSN_OTHER)
			break;
		if (in->form != FORM_COMPARE || in->ops[1].kind == OPERAND_IMM ||
		    member->kind != OPERAND_MEM || member->reg != arch.arg[0])
			continue;
		if (member->value < 8 + string_sz || member->value > 256)
			break;
		return (uint16_t)(member->value - string_sz);
	}
	return PTB_OFF_UNKNOWN;
}

static void mark_interpreter(struct plan_build *b)
{
	for (uint32_t i = 0; i < b->flow.cnt; i++)
		b->finder.work[i] =
			lib_code__calls(b->lc, &b->flow.nodes[i].in, CALLEE_INTERPRETER);
}

int script_sites__add(struct plan_build *b)
{
	const struct sym_list *l = &b->lc->topics[TOPIC_SCRIPT];
	struct func_probe fp = { .name = "GraphExecutor::run",
				 .kind = PTB_FUNC_SCRIPT,
				 .enter = PTB_PROG_SCRIPT_ENTER,
				 .mark = mark_interpreter };
	enum ptb_refusal why;

	if (!l->cnt) {
		if (b->role == TORCH_LIB_CPU)
			plan_build__func(b, fp.name, 0, PTB_FUNC_SCRIPT, PTB_REFUSE_NO_SYMBOL);
		return 0;
	}
	flow__build(&b->flow, &b->lc->src, l->syms[0].addr, &why);
	fp.entry = why == PTB_REFUSE_NONE ? forwarded_to(&b->flow) : 0;
	if (!fp.entry) {
		plan_build__func(b, fp.name, l->syms[0].addr, PTB_FUNC_SCRIPT,
				 PTB_REFUSE_LAYOUT_UNKNOWN);
		return 0;
	}
	flow__build(&b->flow, &b->lc->src, fp.entry, &why);
	if (why == PTB_REFUSE_NONE) {
		b->plan->layout.script_name_off =
			name_offset(&b->flow, b->plan->layout.old_string_abi);
		if (b->plan->layout.script_name_off == PTB_OFF_UNKNOWN)
			why = PTB_REFUSE_LAYOUT_UNKNOWN;
	}
	return plan_build__probe_built(b, &fp, why);
}
