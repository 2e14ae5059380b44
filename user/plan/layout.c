/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each fact has one witness in the binary, and stays unknown without it:
 *
 * string ABI         the name of RecordFunction::before or record_function_enter_new says `Ss` (one
 *                    pointer) or `__cxx11`.
 * Node fields        torch/csrc/autograd/function.h: sequence_nr_ follows the base classes' fields.
 *                    With enable_shared_from_this (vptr, weak_ptr) it is at 24, with
 *                    intrusive_ptr_target (vptr, counts) at 16; thread_id_ is 24 bytes further.
 *                    Which of the two: how SavedVariable::unpack's name spells its pointer to Node.
 * PyNode::obj        PyNode::name() loads it, then ob_type (8), then tp_name (24).
 * name of a script   see script_sites.c.
 * string in IValue   behind the header of intrusive_ptr_target. record_function_enter_new allocates
 *                    such an object (PythonRecordFunction) and constructs the RecordFunction that
 *                    is its first member: `lea header(%reg),%rdi; call
 *                    RecordFunction(RecordScope)`.
 */
#include "plan/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/args_priv.h"

void layout__init(struct plan_layout *l)
{
	memset(l, 0, sizeof(*l));
	l->node_seq_off = l->node_thread_off = PTB_OFF_UNKNOWN;
	l->pynode_obj_off = l->script_name_off = l->string_ivalue_off = PTB_OFF_UNKNOWN;
	l->variable_off = PTB_OFF_UNKNOWN;
	tensor_layout__init(l);
	rf_layout__init(l);
}

void layout__refuse(char why[LAYOUT_WHY_SZ], const char *reason)
{
	if (!why[0])
		snprintf(why, LAYOUT_WHY_SZ, "%s", reason);
}

void layout__agree(char why[LAYOUT_WHY_SZ], uint16_t *field, uint64_t off, uint64_t max,
		   const char *member, const char *object)
{
	char reason[LAYOUT_WHY_SZ];

	if (off >= max)
		return;
	if (*field == PTB_OFF_UNKNOWN) {
		*field = (uint16_t)off;
	} else if (*field != off) {
		snprintf(reason, sizeof(reason), "two derivations of %s in %s give %u and %u",
			 member, object, *field, (uint32_t)off);
		layout__refuse(why, reason);
	}
}

static const struct addr_name *only(const struct plan_build *b, enum sym_topic topic)
{
	const struct sym_list *l = &b->lc->topics[topic];

	return l->cnt ? &l->syms[0] : NULL;
}

static void learn_string_abi(struct plan_build *b)
{
	static const uint8_t topics[] = { TOPIC_SCOPE_NEW, TOPIC_RF_BEFORE };

	for (uint32_t i = 0; i < sizeof(topics); i++) {
		const struct sym_list *l = &b->lc->topics[topics[i]];

		for (uint32_t k = 0; k < l->cnt; k++) {
			const char *args = strrchr(l->syms[k].name, 'E');

			args = strstr(l->syms[k].name, "enter_newE") ?
				       strstr(l->syms[k].name, "enter_newE") :
				       args;
			if (strstr(l->syms[k].name, "__cxx11"))
				return;
			if (args && strstr(args, "Ss")) {
				b->plan->layout.old_string_abi = true;
				return;
			}
		}
	}
}

static void learn_node_layout(struct plan_build *b)
{
	const struct addr_name *owner = only(b, TOPIC_NODE_OWNER);
	struct plan_layout *l = &b->plan->layout;
	bool shared, intrusive;

	if (!owner)
		return;
	shared = strstr(owner->name, "shared_ptrINS0_4NodeE");
	intrusive = strstr(owner->name, "intrusive_ptrINS0_4NodeE");
	if (shared == intrusive)
		return;
	l->node_seq_off = shared ? 24 : 16;
	l->node_thread_off = (uint16_t)(l->node_seq_off + 24);
}

/* The load of a pointer from a member of an object; NULL: the instruction is no such load. */
static const struct insn *member_load(const struct flow_node *n)
{
	return insn__is_load(&n->in) && n->in.ops[0].size == 8 &&
			       operand__is_member(&n->in.ops[1]) ?
		       &n->in :
		       NULL;
}

/* Does the node load from `off` in the object that `from` loaded a pointer to? */
static const struct insn *load_from(const struct flow_node *n, const struct insn *from, int64_t off)
{
	const struct insn *in = member_load(n);

	return in && in->ops[1].reg == from->ops[0].reg && in->ops[1].value == off ? in : NULL;
}

/* Finds obj = disp(this); type = 8(obj); name = 24(type), where nothing in between hides the
 * chain. */
static uint16_t find_type_name_chain(const struct flow *f)
{
	const struct insn *a, *b;
	uint32_t n1, n2;

	for (uint32_t i = 0; i < f->cnt; i++) {
		a = member_load(&f->nodes[i]);
		if (!a || a->ops[1].value < 16 || a->ops[1].value >= PTB_OFF_UNKNOWN)
			continue;
		n1 = f->nodes[i].fall;
		for (uint32_t j = 0; j < 6 && n1 != FLOW_NONE; j++, n1 = f->nodes[n1].fall) {
			b = load_from(&f->nodes[n1], a, 8);
			n2 = b ? f->nodes[n1].fall : FLOW_NONE;
			for (uint32_t k = 0; k < 6 && n2 != FLOW_NONE; k++, n2 = f->nodes[n2].fall)
				if (load_from(&f->nodes[n2], b, 24))
					return (uint16_t)a->ops[1].value;
		}
	}
	return PTB_OFF_UNKNOWN;
}

static void learn_pynode(struct plan_build *b)
{
	const struct addr_name *name = only(b, TOPIC_PYNODE_NAME);
	enum ptb_refusal why;

	if (!name)
		return;
	flow__build(&b->flow, &b->lc->src, name->addr, &why);
	if (why == PTB_REFUSE_NONE)
		b->plan->layout.pynode_obj_off = find_type_name_chain(&b->flow);
}

/* Finds the last `lea disp(%reg),%rdi` before a call of the RecordFunction(RecordScope)
 * constructor. */
static void learn_object_header(struct plan_build *b)
{
	const struct addr_name *fn = only(b, TOPIC_SCOPE_NEW);
	enum ptb_refusal why;
	uint32_t at;

	if (!fn)
		return;
	flow__build(&b->flow, &b->lc->src, fn->addr, &why);
	if (why != PTB_REFUSE_NONE)
		return;
	for (uint32_t i = 0; i < b->flow.cnt; i++) {
		if (!lib_code__calls(b->lc, &b->flow.nodes[i].in, CALLEE_RF_SCOPE))
			continue;
		at = b->flow.nodes[i].prev;
		for (uint32_t k = 0; k < 16 && at != FLOW_NONE; k++, at = b->flow.nodes[at].prev) {
			const struct insn *in = &b->flow.nodes[at].in;

			if (in->form != FORM_ADDRESS || in->ops[0].reg != arch.arg[0])
				continue;
			if (in->ops[1].value == 16 || in->ops[1].value == 24)
				b->plan->layout.string_ivalue_off = (uint16_t)in->ops[1].value;
			return;
		}
	}
}

void layout__learn(struct plan_build *b)
{
	const struct addr_name *s = only(b, TOPIC_SINGLETON);

	b->plan->layout.singletons[b->role] = s ? s->addr : 0;
	if (b->role == TORCH_LIB_CPU) {
		learn_string_abi(b);
		learn_node_layout(b);
		learn_object_header(b);
	}
	tensor_layout__learn(b);
	learn_pynode(b);
}

void layout__finish(struct plan_build *b)
{
	struct torch_plan *p = b->plan;

	/* where the engine's code includes the node's call, the node's inputs are the engine's */
	p->layout.node_inputs_from_buffer = true;
	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (p->sites[i].prog == PTB_PROG_NODE_CALL)
			p->layout.node_inputs_from_buffer = false;

	/* On 1.13 Python's record_function calls the legacy operator, whose text is on the boxed
	 * stack only. Where that operator is never called the check costs nothing. */
	p->layout.scope_from_boxed = p->layout.string_ivalue_off != PTB_OFF_UNKNOWN;
	tensor_layout__finish(&p->layout);
	rf_layout__finish(&p->layout);
}

/* A vtable's symbol; objects point 16 bytes into it (Itanium C++ ABI 2.5.2). */
void layout__add_classes(struct plan_build *b)
{
	static const char prefix[] = "vtable for ";
	const struct sym_list *l = &b->lc->topics[TOPIC_VTABLE];

	for (uint32_t i = 0; i < l->cnt; i++) {
		char *text = demangle(l->syms[i].name, NULL);

		if (text && !strncmp(text, prefix, sizeof(prefix) - 1)) {
			plan_build__class(b, l->syms[i].addr + 16, text + sizeof(prefix) - 1);
			if (!strcmp(l->syms[i].name, "_ZTVN5torch8autograd6PyNodeE"))
				b->plan->layout.pynode_vptr = l->syms[i].addr + 16;
		}
		free(text);
	}
}
