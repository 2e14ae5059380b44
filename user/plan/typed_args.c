/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * c10d::ProcessGroup::allreduce(vector<Tensor>& tensors, AllreduceOptions const& opts) calls the
 * operator c10d::allreduce_(Tensor[], ProcessGroup, ReduceOp, Tensor?, bool, int). If there are
 * callbacks, it does so by
 *
 *	Dispatcher::callWithDispatchKeySlowPath<R, A...>(handle, callbacks, keys, kernel, A...)
 *
 * The name has the types A, and the System V rules give the location of each argument of this call.
 * A value that arrives there unchanged from the function's entry is read at the entry: an argument
 * of the function, a field behind one, such as opts.timeout, or the reference to an ArrayRef with
 * the begin of a vector behind one. Values that the function makes (barrier's tensor, copies of
 * vectors) are UNKNOWN, and all are if the name or the call is missing. The function returns only
 * the operator's Work, so resulting lists of tensors are UNKNOWN, too.
 */
#include "plan/args_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "code/code.h"

#define OWN_ARGS 4    /* of callWithDispatchKeySlowPath, before the operator's own */
#define FIELDS_MAX 64 /* loads from behind an argument, and addresses in the frame */
#define FRAME_MAX 65536
#define RESULTS_MAX 4
#define FIELD_OFF_MAX 1024

/* The origin of a word of the call: the entry's word `loc`, or memory behind it. */
struct origin {
	bool known, field, address; /* field: memory at loc + off; address: loc + off itself */
	uint8_t loc, bytes;         /* bytes: the valid ones */
	uint16_t off;
};

/* An instruction that loads a field, or makes its address or that of an object in the frame. */
struct field {
	struct origin from;
	int32_t frame; /* its address minus rsp at the entry; VALUE_NO_FRAME: it is a field */
	uint32_t node;
	uint8_t reg; /* register that it arrives in */
	int32_t sp, bp;
};

struct typed_call {
	struct value_locations locations;
	struct field fields[FIELDS_MAX];
	uint32_t field_cnt, node; /* node: the call */
	struct arg_type types[ARG_TYPES_MAX];
	struct arg_location at[ARG_TYPES_MAX];
	/* By argument: its first word, or that of the ArrayRef that it refers to. */
	struct origin words[ARG_TYPES_MAX];
	/* By argument: that ArrayRef's location in the frame; VALUE_NO_FRAME: unknown. */
	int32_t refs[ARG_TYPES_MAX];
	uint32_t cnt;                 /* including OWN_ARGS */
	uint8_t results[RESULTS_MAX]; /* opcodes */
	uint8_t result_cnt;
};

/* ---- the call ---- */

static const char *name_at(const struct sym_list *l, uint64_t addr)
{
	uint32_t low = 0, high = l->cnt;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (l->syms[mid].addr == addr)
			return l->syms[mid].name;
		if (l->syms[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* The name of the only slow path that the function calls; NULL: unknown. */
static const char *find_call(const struct plan_build *b, struct typed_call *c)
{
	const char *found = NULL;

	for (uint32_t i = 0; i < b->flow.cnt; i++) {
		const struct insn *in = &b->flow.nodes[i].in;
		const char *name = in->cls == INSN_CALL ?
					   name_at(&b->lc->topics[TOPIC_SLOW_PATH], in->target) :
					   NULL;

		if (name && found)
			return NULL;
		if (name) {
			found = name;
			c->node = i;
		}
	}
	return found;
}

/* The parameters in "R c10::Dispatcher::callWithDispatchKeySlowPath<R, A...>(handle, callbacks,
 * keys, kernel, A...)", behind the '('. */
static const char *parameters(const char *demangled)
{
	static const char func[] = "callWithDispatchKeySlowPath<";
	const char *p = strstr(demangled, func);
	int depth = 1;

	for (p = p ? p + sizeof(func) - 1 : NULL; p && *p && depth; p++)
		depth += *p == '<' || *p == '(' ? 1 : *p == '>' || *p == ')' ? -1 : 0;
	return p && *p == '(' ? p + 1 : NULL;
}

/* Is it returned through a pointer that is passed first? Objects that are not trivial to copy are;
 * references and numbers are not. */
static bool is_hidden(const char *demangled)
{
	return !strncmp(demangled, "std::tuple<", 11) || !strncmp(demangled, "std::vector<", 12) ||
	       !strncmp(demangled, "c10::intrusive_ptr<", 19) ||
	       !strncmp(demangled, "at::Tensor c10::", 16);
}

static bool is_plain(const char *demangled)
{
	return !strncmp(demangled, "void ", 5) || !strncmp(demangled, "bool ", 5) ||
	       !strncmp(demangled, "long ", 5) || !strncmp(demangled, "at::Tensor& ", 12);
}

/* The operator's results: only objects are named, the others are unknown. */
static void read_results(const char *demangled, struct typed_call *c)
{
	static const char tuple[] = "std::tuple<", object[] = "c10::intrusive_ptr<";
	bool many = !strncmp(demangled, tuple, sizeof(tuple) - 1);
	const char *p = demangled + (many ? sizeof(tuple) - 1 : 0);
	int depth;

	if (!strncmp(p, "void ", 5))
		return;
	do {
		p += strspn(p, " ");
		c->results[c->result_cnt++] =
			strncmp(p, object, sizeof(object) - 1) ? PTB_ARG_UNKNOWN : PTB_ARG_OPAQUE;
		for (depth = 0; *p && depth >= 0 && (depth || *p != ','); p++)
			depth += *p == '<' ? 1 : *p == '>' ? -1 : 0;
	} while (many && *p++ == ',' && c->result_cnt < RESULTS_MAX);
}

/* Types and locations of the call's arguments. False: not understood. */
static bool read_types(const struct plan_build *b, struct typed_call *c)
{
	const char *mangled = find_call(b, c), *params;
	char *demangled = mangled ? demangle(mangled, NULL) : NULL;
	int cnt = -1;

	if (demangled && (is_hidden(demangled) || is_plain(demangled))) {
		params = parameters(demangled);
		cnt = params ? arg_types__list(params, OPTIONAL_NONE, c->types) : -1;
	}
	if (cnt >= OWN_ARGS && cnt - OWN_ARGS + RESULTS_MAX <= PTB_ARG_OPS_MAX) {
		c->cnt = (uint32_t)cnt;
		for (uint32_t i = 0; i < OWN_ARGS; i++) /* a word each; their texts may be long */
			c->types[i] = (struct arg_type){ .kind = ARG_REFERENCE };
		arg_types__locate(c->types, c->cnt, is_hidden(demangled), c->at);
		for (uint32_t i = 0; i < c->cnt; i++)
			c->refs[i] = VALUE_NO_FRAME;
		read_results(demangled, c);
	}
	free(demangled);
	return c->cnt != 0;
}

/* ---- origins of words ---- */

static bool is_there(const struct typed_call *c, uint32_t value, uint8_t loc)
{
	if (loc < PTB_LOC_STACK)
		return value_locations__is_at(&c->locations, c->node, value,
					      (uint8_t)VALUE_GPR(arch.arg[loc]));
	return value_locations__is_on_stack(&c->locations, c->node, value,
					    8 * (loc - PTB_LOC_STACK));
}

/* Is the argument passed in words? */
static bool has_place(const struct typed_call *c, uint32_t i)
{
	return c->at[i].known && c->at[i].loc[0] != PTB_LOC_NONE;
}

static bool is_word(const struct typed_call *c, uint32_t value, uint32_t i)
{
	int32_t sp = c->locations.in[c->node].sp;

	if (c->types[i].kind == ARG_TENSORS_REF)
		return c->refs[i] != VALUE_NO_FRAME && sp != VALUE_NO_FRAME &&
		       value_locations__is_on_stack(&c->locations, c->node, value, c->refs[i] - sp);
	return is_there(c, value, c->at[i].loc[0]);
}

static void note_words(struct typed_call *c, uint32_t value, const struct origin *from)
{
	for (uint32_t i = OWN_ARGS; i < c->cnt; i++)
		if (has_place(c, i) && !c->words[i].known && is_word(c, value, i))
			c->words[i] = *from;
}

/* The words of the entry that are followed: the registers, and the first one on the stack. */
#define ENTRY_WORDS (PTB_LOC_STACK + 1)

/* The memory operand of node n. False: neither a field nor an object in the frame. */
static bool find_origin(const struct typed_call *c, uint32_t n, const struct insn *in,
			struct field *fd)
{
	const struct value_state *st = &c->locations.in[n];
	const struct insn_operand *m = &in->ops[1];
	int32_t base = m->reg == arch.sp ? st->sp : m->reg == arch.fp ? st->bp : VALUE_NO_FRAME;

	fd->frame = VALUE_NO_FRAME;
	if (in->form == FORM_ADDRESS && base != VALUE_NO_FRAME && m->value > -FRAME_MAX &&
	    m->value < FRAME_MAX) {
		fd->frame = base + (int32_t)m->value;
		return st->seen;
	}
	if (m->reg == arch.sp || m->reg == arch.fp || m->value < 0 || m->value > FIELD_OFF_MAX)
		return false;
	for (uint32_t k = 0; k < ENTRY_WORDS; k++) {
		if (!value_locations__is_at(&c->locations, n, k, (uint8_t)VALUE_GPR(m->reg)))
			continue;
		fd->from = (struct origin){ .known = true,
					    .field = in->form == FORM_MOVE,
					    .address = in->form == FORM_ADDRESS,
					    .loc = (uint8_t)k,
					    .bytes = in->form == FORM_MOVE ? in->copied : 8,
					    .off = (uint16_t)m->value };
		return true;
	}
	return false;
}

static void find_fields(struct typed_call *c, const struct flow *f)
{
	for (uint32_t n = 0; n < f->cnt && c->field_cnt < FIELDS_MAX; n++) {
		const struct insn *in = &f->nodes[n].in;
		const struct insn_operand *to = &in->ops[0], *m = &in->ops[1];
		uint32_t fall = f->nodes[n].fall;
		struct field fd = { .node = n, .reg = to->reg };

		if ((in->form != FORM_MOVE && in->form != FORM_ADDRESS) || in->cls != INSN_OTHER ||
		    in->opaque || fall == FLOW_NONE || to->kind != OPERAND_GPR ||
		    m->kind != OPERAND_MEM || m->reg >= REG_CNT || m->index != REG_NONE || m->tls ||
		    !find_origin(c, n, in, &fd))
			continue;
		fd.sp = c->locations.in[fall].sp;
		fd.bp = c->locations.in[fall].bp;
		c->fields[c->field_cnt++] = fd;
	}
}

/* Does every path from the entry to the call contain the instruction? */
static void is_before_call(struct plan_build *b, const struct typed_call *c, uint32_t node,
			   bool *before)
{
	uint8_t *seen = xcalloc(b->flow.cnt, 1);

	seen[0] = FLOW_SEEN;
	seen[node] = FLOW_STOP;
	flow__reach(&b->flow, seen, false);
	*before = seen[c->node] != FLOW_SEEN;
	free(seen);
}

/* bytes: 4 for an int, which the operator gets as int64_t. */
static int follow_entry(struct plan_build *b, struct typed_call *c, uint8_t bytes)
{
	struct value_seeds seeds = {
		.bp = VALUE_NO_FRAME, .cnt = ENTRY_WORDS, .size = bytes, .slot = 8
	};
	int err;

	for (uint32_t k = 0; k < PTB_LOC_STACK; k++)
		seeds.location[k] = (uint8_t)VALUE_GPR(arch.arg[k]);
	seeds.location[PTB_LOC_STACK] = VALUE_SLOT;
	err = value_locations__run(&c->locations, &b->flow, &seeds);
	if (err)
		return err;
	for (uint32_t k = 0; k < ENTRY_WORDS; k++)
		note_words(c, k,
			   &(struct origin){ .known = true, .loc = (uint8_t)k, .bytes = bytes });
	return 0;
}

static void note_refs(struct typed_call *c, int32_t frame)
{
	for (uint32_t i = OWN_ARGS; i < c->cnt; i++)
		if (c->types[i].kind == ARG_TENSORS_REF && has_place(c, i) &&
		    is_there(c, 0, c->at[i].loc[0]))
			c->refs[i] = frame;
}

/* refs: addresses in the frame, which must be known before the contents of ArrayRefs there. */
static int follow_fields(struct plan_build *b, struct typed_call *c, bool refs)
{
	int err = 0;

	for (uint32_t i = 0; i < c->field_cnt && !err; i++) {
		const struct field *fd = &c->fields[i];
		struct value_seeds seeds = { .start = b->flow.nodes[fd->node].fall,
					     .sp = fd->sp,
					     .bp = fd->bp,
					     .cnt = 1,
					     .location = { (uint8_t)VALUE_GPR(fd->reg) },
					     .size = refs ? 8 : fd->from.bytes };
		bool before;

		if (refs != (fd->frame != VALUE_NO_FRAME))
			continue;
		is_before_call(b, c, fd->node, &before);
		if (!before)
			continue;
		err = value_locations__run(&c->locations, &b->flow, &seeds);
		if (!err && refs)
			note_refs(c, fd->frame);
		else if (!err)
			note_words(c, 0, &fd->from);
	}
	return err;
}

/* ---- the program ---- */

/* Is the function's word `loc` a std::vector<Tensor>&? The function is a member that returns an
 * object: its words are the result's address, `this`, then its parameters, of one word each as far
 * as needed. */
static bool is_tensor_vector(const char *demangled, uint8_t loc)
{
	static const char vec[] = "std::vector<at::Tensor, std::allocator<at::Tensor> >";
	const char *p = demangled ? strchr(demangled, '(') : NULL;
	int depth = 0, nr = 2;

	if (!p || strncmp(demangled, "c10d::ProcessGroup::", 20))
		return false;
	for (p++; *p && nr < loc; p++) {
		depth += *p == '<' || *p == '(' ? 1 : *p == '>' || *p == ')' ? -1 : 0;
		nr += *p == ',' && !depth;
	}
	p += *p == ' ';
	if (nr != loc || strncmp(p, vec, sizeof(vec) - 1))
		return false;
	p += sizeof(vec) - 1;
	return *p == '&' || !strncmp(p, " const&", 7);
}

static void compile_number(const struct origin *o, uint8_t as, struct ptb_arg_op *op)
{
	uint32_t bytes = as == PTB_VAL_BOOL ? 1 : 8;

	if (o->address || (o->field && o->bytes < bytes))
		return;
	op->flags = !o->field && o->bytes < bytes ? PTB_ARG_F_INT32 : 0;
	op->op = o->field ? PTB_ARG_PTR_INT : PTB_ARG_WORD;
	op->as = as;
	op->val_off = o->off;
}

static void compile_tensor(const struct origin *o, uint8_t optional, struct ptb_arg_op *op)
{
	if (o->field || o->bytes < 8 ||
	    (optional && (optional != OPTIONAL_STD || o->off + 8u >= PTB_LOC_NONE)))
		return;
	op->op = PTB_ARG_PTR_TENSOR;
	op->val_off = o->off;
	if (optional)
		op->has_off = (uint8_t)(o->off + 8);
}

static void compile_vector(uint8_t kind, const struct origin *o, const char *demangled,
			   struct ptb_arg_op *op)
{
	bool tensors = kind == ARG_TENSORS || kind == ARG_TENSORS_REF;

	if (tensors ? !o->field || o->off || !is_tensor_vector(demangled, o->loc) :
		      (kind != ARG_TENSOR_LISTS && kind != ARG_INT_VECTOR) || o->field ||
			      o->bytes < 8)
		return;
	op->op = PTB_ARG_VECTOR;
	op->as = tensors ? PTB_VAL_TENSORS : kind == ARG_TENSOR_LISTS ? PTB_VAL_LIST : PTB_VAL_INTS;
	op->val_off = o->off;
}

/* A value without a location: UNKNOWN, or OPAQUE for an object. */
static struct ptb_arg_op placeless(uint8_t opcode)
{
	struct ptb_arg_op op = { .op = opcode,
				 .loc = { PTB_LOC_NONE, PTB_LOC_NONE, PTB_LOC_NONE },
				 .has_off = PTB_LOC_NONE };

	if (opcode == PTB_ARG_OPAQUE) {
		op.as = PTB_VAL_OPAQUE;
		op.aux = PTB_OPAQUE_Object;
	}
	return op;
}

static struct ptb_arg_op compile_arg(const struct typed_call *c, uint32_t i, const char *demangled)
{
	const struct arg_type *t = &c->types[i];
	const struct origin *o = &c->words[i];
	struct ptb_arg_op op = placeless(t->kind == ARG_OBJECT ? PTB_ARG_OPAQUE : PTB_ARG_UNKNOWN);

	if (t->kind == ARG_OBJECT || !o->known)
		return op;
	if (t->kind == ARG_TENSOR)
		compile_tensor(o, t->optional, &op);
	else if (t->kind == ARG_INT && !t->optional)
		compile_number(o, PTB_VAL_INT, &op);
	else if (t->kind == ARG_BOOL && !t->optional)
		compile_number(o, PTB_VAL_BOOL, &op);
	else if (!t->optional)
		compile_vector(t->kind, o, demangled, &op);
	if (op.op != PTB_ARG_UNKNOWN)
		op.loc[0] = o->loc;
	return op;
}

static void add_program(struct plan_build *b, const struct typed_call *c, uint32_t func,
			const char *mangled)
{
	char *demangled = mangled ? demangle(mangled, NULL) : NULL;
	struct ptb_arg_prog prog = { .in_cnt = (uint8_t)(c->cnt - OWN_ARGS),
				     .out_cnt = c->result_cnt,
				     .result_loc = PTB_LOC_NONE };
	uint32_t args;

	for (uint32_t i = OWN_ARGS; i < c->cnt; i++) {
		struct ptb_arg_op *op = &prog.ops[i - OWN_ARGS];

		*op = compile_arg(c, i, demangled);
		b->plan->funcs[func].unplaced =
			(uint16_t)(b->plan->funcs[func].unplaced + (op->op == PTB_ARG_UNKNOWN));
		if (op->loc[0] == PTB_LOC_STACK)
			prog.stack_words = 1;
	}
	for (uint32_t i = 0; i < c->result_cnt; i++)
		prog.ops[prog.in_cnt + i] = placeless(c->results[i]);
	free(demangled);
	plan_build__prog(b, &prog, &args);
	for (uint32_t i = b->plan->site_cnt; i && b->plan->sites[i - 1].func == func; i--)
		if (b->plan->sites[i - 1].role != PTB_ROLE_POINT)
			b->plan->sites[i - 1].args = args;
}

int typed_args__add(struct plan_build *b, uint32_t func, const char *mangled)
{
	struct typed_call *c = xcalloc(1, sizeof(*c));
	int err = 0;

	if (read_types(b, c) && c->cnt > OWN_ARGS) {
		err = follow_entry(b, c, 8);
		find_fields(c, &b->flow);
		if (!err)
			err = follow_fields(b, c, true);
		if (!err)
			err = follow_fields(b, c, false);
		if (!err)
			err = follow_entry(b, c, 4);
		if (!err)
			add_program(b, c, func, mangled);
	}
	value_locations__free(&c->locations);
	free(c);
	return err;
}
