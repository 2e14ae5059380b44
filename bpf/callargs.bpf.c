// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Calls whose arguments need no program: boxed stacks, backward nodes, TorchScript functions, and
 * annotations and custom functions with Python objects. Each makes the record of its plain sibling in
 * scope.bpf.c or autograd.bpf.c, and values behind it; where no values can be had it is that sibling.
 */

/* The values begin behind the text; `fixed` bytes before it. */
static __always_inline void text_args_begin(struct arg_scratch *s, __u32 fixed, const struct text *t)
{
	__u32 len = t->len > PTB_TEXT_MAX ? PTB_TEXT_MAX : t->len;

	args_begin(s, fixed + text_pad((char *)s->rec + fixed, len), args_full);
}

/* Configuration and scratch of a call without a program; false: neither. */
static __always_inline bool call_begin(struct arg_run *r, struct hit *hit)
{
	hit->args = 0; /* the entry that is always there */
	if (!run_begin(r, hit))
		return false;
	r->s = args_get();
	return r->s != NULL;
}

static __always_inline void named_begin(struct pt_regs *ctx, struct arg_scratch *s,
					const struct text *t)
{
	struct ptb_named_enter *r = (void *)s->rec;

	r->sp = PT_REGS_SP(ctx);
	r->text_len = t->len;
	r->pad = 0;
	text_args_begin(s, sizeof(*r), t);
}

static __always_inline char *args_named_text(struct arg_scratch *s)
{
	return (char *)s->rec + sizeof(struct ptb_named_enter);
}

/* ---- boxed calls ---- */

/* Numbers of arguments and results: c10::FunctionSchema's two std::vector<Argument> in OperatorDef. */
static __always_inline bool schema_counts(const struct ptb_tensor_cfg *t, __u64 opdef, __u64 *args,
					  __u64 *results)
{
	__u64 in[2] = {}, out[2] = {};

	if (!t->argument_size ||
	    bpf_probe_read_user(in, sizeof(in), (void *)(opdef + t->schema_args_off)) ||
	    bpf_probe_read_user(out, sizeof(out), (void *)(opdef + t->schema_returns_off)))
		return false;
	*args = (in[1] - in[0]) / t->argument_size;
	*results = (out[1] - out[0]) / t->argument_size;
	return *args <= PTB_LIST_FULL_MAX && *results <= PTB_LIST_FULL_MAX;
}

/* As emit_boxed_scope(): the name, and its optional argument, are the last two of the stack. */
static __always_inline void emit_boxed_scope_args(struct pt_regs *ctx, const struct hit *hit,
						  struct arg_run *r, __u64 stack)
{
	__u64 vec[2] = {}, payload;
	struct text t = {};

	if (bpf_probe_read_user(vec, sizeof(vec), (void *)stack) || vec[1] < vec[0] ||
	    vec[1] - vec[0] < 32) {
		text_fault(&t);
	} else {
		payload = read_word(vec[1] - 32, &t.flags);
		if (!t.flags)
			text_read_string(&t, args_named_text(r->s), payload + r->cfg->string_ivalue_off,
					 r->cfg->old_string_abi);
	}
	named_begin(ctx, r->s, &t);
	args_stack(r, stack, 1, true);
	args_emit(hit, r->s, PTB_REC_SCOPE_NAME, t.flags);
}

static __always_inline void emit_boxed_args(struct pt_regs *ctx, const struct hit *hit,
					    struct arg_run *r, __u64 handle, __u64 stack)
{
	struct ptb_boxed_enter *rec = (void *)r->s->rec;
	__u64 in = 0, out = 0, opdef, sp = PT_REGS_SP(ctx);
	struct call_frames *fs = NULL;
	__u8 flags = 0;

	opdef = read_word(handle, &flags);
	rec->sp = sp;
	rec->opdef = opdef;
	args_begin(r->s, sizeof(*rec), args_full);
	if (args_full) {
		fs = frames_get(BPF_LOCAL_STORAGE_GET_F_CREATE);
		state_value(r->s, r->cfg, hit, fs);
	}
	if (!flags && schema_counts(&r->cfg->tensor, opdef, &in, &out)) {
		args_stack(r, stack, in, false);
		if (args_full)
			frames_push(fs, sp, stack, PTB_FRAME_BOXED, (__u32)out);
	} else {
		r->s->cut = 1;
		count(PTB_CNT_ARGS_FAULT);
	}
	args_emit(hit, r->s, PTB_REC_BOXED_ENTER, flags);
	if (opdef && opdef == r->cfg->scope_enter_opdef)
		emit_boxed_scope_args(ctx, hit, r, stack);
}

SEC("uprobe.multi")
int boxed_enter_args(struct pt_regs *ctx)
{
	struct boxed_regs regs = boxed_regs(ctx);
	struct ptb_proc_cfg *cfg;
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BOXED_ENTER_ARGS))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg)
		return 0;
	boxed_regs_order(&regs, cfg);
	if (!call_begin(&r, &hit)) {
		emit_boxed(ctx, &hit, cfg, &regs);
		return 0;
	}
	emit_boxed_args(ctx, &hit, &r, regs.handle, regs.stack);
	args_put(r.s);
	return 0;
}

SEC("uprobe.multi")
int boxed_exit_results(struct pt_regs *ctx)
{
	__u64 sp = PT_REGS_SP(ctx);
	struct call_frame *f;
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BOXED_EXIT_RESULTS))
		return 0;
	hit.args = 0;
	if (!run_begin(&r, &hit))
		return emit_sp(&hit, PTB_REC_OP_EXIT, sp);
	f = frames_pop(sp, PTB_FRAME_BOXED);
	if (!f) {
		count(PTB_CNT_RESULTS_NO_FRAME);
		return emit_sp(&hit, PTB_REC_OP_EXIT, sp);
	}
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(&hit, PTB_REC_OP_EXIT, PTB_F_ARGS | PTB_F_ARGS_CUT, sp);
	((struct ptb_op_exit *)r.s->rec)->sp = sp;
	args_begin(r.s, sizeof(struct ptb_op_exit), args_full);
	args_stack(&r, f->result, f->cnt, false);
	args_emit(&hit, r.s, PTB_REC_OP_EXIT, 0);
	args_put(r.s);
	return 0;
}

/* ---- backward nodes ---- */

static __always_inline int emit_node_args(struct pt_regs *ctx, struct hit *hit, __u64 node,
					  __u64 inputs)
{
	struct text t = {};
	struct arg_run r;

	if (!call_begin(&r, hit)) {
		emit_node(ctx, hit, node);
		return 0;
	}
	node_fill(ctx, (void *)r.s->rec, &t, r.cfg, node);
	text_args_begin(r.s, sizeof(struct ptb_node_enter), &t);
	args_tensors(&r, inputs);
	args_emit(hit, r.s, PTB_REC_NODE_ENTER, t.flags);
	args_put(r.s);
	return 0;
}

/* rcx = InputBuffer&, which begins with its std::vector<Variable> */
SEC("uprobe.multi")
int node_enter_args(struct pt_regs *ctx)
{
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_NODE_ENTER_ARGS))
		return 0;
	return emit_node_args(ctx, &hit, PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx));
}

SEC("uprobe.multi")
int node_call_args(struct pt_regs *ctx)
{
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_NODE_CALL_ARGS))
		return 0;
	return emit_node_args(ctx, &hit, PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
}

/* ---- TorchScript, annotations, custom functions ---- */

/* GraphExecutorImplBase: function_name_, then num_inputs; rsi = Stack& */
SEC("uprobe.multi")
int script_enter_args(struct pt_regs *ctx)
{
	__u64 self = PT_REGS_PARM1(ctx), cnt = 0;
	struct text t = {};
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCRIPT_ENTER_ARGS))
		return 0;
	if (!call_begin(&r, &hit)) {
		emit_script(ctx, &hit);
		return 0;
	}
	if (r.cfg->script_name_off == PTB_OFF_UNKNOWN) {
		t.flags = PTB_F_READ_FAULT;
	} else {
		__u64 name = self + r.cfg->script_name_off;

		text_read_string(&t, args_named_text(r.s), name, r.cfg->old_string_abi);
		cnt = read_word(name + (r.cfg->old_string_abi ? 8 : 32), &t.flags);
	}
	named_begin(ctx, r.s, &t);
	args_stack(&r, PT_REGS_PARM2(ctx), cnt, false);
	args_emit(&hit, r.s, PTB_REC_NAMED_ENTER, t.flags);
	args_put(r.s);
	return 0;
}

SEC("uprobe.multi")
int scope_string_args(struct pt_regs *ctx)
{
	struct text t = {};
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_STRING_ARGS))
		return 0;
	if (!call_begin(&r, &hit)) {
		emit_scope_string(ctx, &hit);
		return 0;
	}
	text_read_string(&t, args_named_text(r.s), PT_REGS_PARM2(ctx), r.cfg->old_string_abi);
	named_begin(ctx, r.s, &t);
	args_opt_string(&r, PT_REGS_PARM3(ctx));
	args_emit(&hit, r.s, PTB_REC_SCOPE_NAME, t.flags);
	args_put(r.s);
	return 0;
}

/* THPFunction_apply(PyObject *cls, PyObject *inputs) */
SEC("uprobe.multi")
int pyfunc_enter_args(struct pt_regs *ctx)
{
	struct ptb_proc_cfg *cfg;
	struct text t = {};
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_PYFUNC_ENTER_ARGS))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg || !cfg->python.type_tuple || !call_begin(&r, &hit)) {
		emit_pyfunc(ctx, &hit);
		return 0;
	}
	pyfunc_name(ctx, args_named_text(r.s), &t);
	named_begin(ctx, r.s, &t);
	args_tuple(&r, PT_REGS_PARM2(ctx), true);
	args_emit(&hit, r.s, PTB_REC_NAMED_ENTER, t.flags);
	args_put(r.s);
	return 0;
}

/*
 * pybind11's function_call: {function_record &, arguments}: the name, and the tuple of all others. The
 * arguments are a std::vector<handle>, from pybind11 3.0 on {bool in_line, u32 size, handle[6]}
 * (detail/argument_vector.h); a vector's first word is an address, which no odd number is.
 */
static __always_inline void pyargs_read(struct pt_regs *ctx, __u64 pair[2], struct text *t)
{
	__u64 v[3] = {};

	pair[0] = pair[1] = 0;
	if (bpf_probe_read_user(v, sizeof(v), (void *)(PT_REGS_PARM1(ctx) + 8))) {
		text_fault(t);
	} else if ((v[0] & 0xff) == 1 && v[0] >> 32 == 2) {
		pair[0] = v[1];
		pair[1] = v[2];
	} else if (v[1] - v[0] != 16 || bpf_probe_read_user(pair, 16, (void *)v[0])) {
		text_fault(t);
	}
}

/* Compact ASCII; anything else is no name that could be read. */
static __always_inline void pystr_read(struct text *t, char *dst, __u64 str,
				       const struct ptb_python_cfg *py)
{
	__u64 head[3] = {};
	__u32 state = 0;

	if (t->flags || !py->type_str || bpf_probe_read_user(head, sizeof(head), (void *)str) ||
	    head[PY_TYPE_WORD] != py->type_str ||
	    bpf_probe_read_user(&state, sizeof(state), (void *)(str + py->str_state_off)) ||
	    (state & PY_STR_ASCII) != PY_STR_ASCII)
		text_fault(t);
	else
		text_read_mem(t, dst, str + py->ascii_off, head[PY_VALUE_WORD]);
}

/* Where only names are recorded. */
SEC("uprobe.multi")
int scope_pyname(struct pt_regs *ctx)
{
	struct ptb_proc_cfg *cfg;
	struct text t = {};
	struct scratch *s;
	struct hit hit;
	__u64 pair[2];

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_PYARGS))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg)
		return 0;
	s = scratch_get();
	if (!s)
		return 0;
	pyargs_read(ctx, pair, &t);
	pystr_read(&t, named_text(s), pair[0], &cfg->python);
	emit_named(ctx, &hit, PTB_REC_SCOPE_NAME, s, &t);
	scratch_put(s);
	return 0;
}

SEC("uprobe.multi")
int scope_pyargs(struct pt_regs *ctx)
{
	struct text t = {};
	struct arg_run r;
	struct hit hit;
	__u64 pair[2];
	bool values;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_PYARGS))
		return 0;
	hit.args = 0;
	values = run_begin(&r, &hit);
	if (!r.cfg || !r.prog)
		return 0;
	r.s = args_get();
	if (!r.s)
		return 0;
	pyargs_read(ctx, pair, &t);
	pystr_read(&t, args_named_text(r.s), pair[0], &r.cfg->python);
	named_begin(ctx, r.s, &t);
	if (values && r.cfg->python.type_tuple) {
		args_tuple(&r, pair[1], false);
		args_emit(&hit, r.s, PTB_REC_SCOPE_NAME, t.flags);
	} else {
		scratch_emit(&hit, r.s, PTB_REC_SCOPE_NAME, t.flags);
	}
	args_put(r.s);
	return 0;
}
