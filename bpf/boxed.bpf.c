// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Boxed calls of operators, whose arguments and results are IValues on a stack, and operators that
 * leave the dispatcher.
 */

/* OperatorHandle* and Stack* of a boxed call, once ordered. */
struct boxed_regs {
	__u64 handle, stack, third;
};

static __always_inline struct boxed_regs boxed_regs(struct pt_regs *ctx)
{
	__u64 handle = PT_REGS_PARM1(ctx), stack = PT_REGS_PARM2(ctx), third = PT_REGS_PARM3(ctx);

	/* else the compiler selects between addresses in ctx, which the verifier refuses */
	barrier_var(handle);
	barrier_var(stack);
	barrier_var(third);
	return (struct boxed_regs){ handle, stack, third };
}

static __always_inline void boxed_regs_order(struct boxed_regs *regs,
					     const struct ptb_proc_cfg *cfg)
{
	if (cfg->boxed_handle_reg) {
		regs->handle = regs->stack;
		regs->stack = regs->third;
	}
}

/*
 * profiler::_record_function_enter*(String name, String? args): the name and its argument are the
 * last two IValues (16 bytes: payload, tag) of the boxed stack, a std::vector {begin, end,
 * capacity}.
 */
static __always_inline void emit_boxed_scope(struct pt_regs *ctx, struct hit *hit,
					     const struct ptb_proc_cfg *cfg, __u64 stack)
{
	__u64 vec[2] = {}, payload;
	struct text_rec b;

	if (!text_rec_begin(&b, hit, true))
		return;
	if (bpf_probe_read_user(vec, sizeof(vec), (void *)stack) || vec[1] < vec[0] ||
	    vec[1] - vec[0] < 32) {
		text_fault(&b.text);
	} else {
		payload = read_word(vec[1] - 32, &b.text.flags);
		if (!b.text.flags)
			text_read_string(&b.text, named_text(&b), payload + cfg->string_ivalue_off,
					 cfg->old_string_abi);
	}
	if (named_fill(ctx, &b))
		args_stack(&b.run, stack, 1, true);
	emit_named(&b, hit, PTB_REC_SCOPE_NAME);
}

/* Numbers of arguments and results: c10::FunctionSchema's two std::vector<Argument> in
 * OperatorDef. */
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

/* Inputs, the thread's state; leaves a frame for the exit. r->s: where the record is built. */
static __always_inline void boxed_inputs(const struct hit *hit, struct arg_run *r, __u64 sp,
					 __u64 opdef, __u64 stack)
{
	struct call_frames *fs = NULL;
	__u64 in = 0, out = 0;

	if (args_full) {
		fs = calls_get(&awaited, BPF_LOCAL_STORAGE_GET_F_CREATE);
		state_value(r->s, r->cfg, hit, fs);
	}
	if (opdef && schema_counts(&r->cfg->tensor, opdef, &in, &out)) {
		args_stack(r, stack, in, false);
		if (args_full)
			awaited_push(fs, hit, sp, PTB_FRAME_BOXED, stack, out);
	} else {
		r->s->cut = 1;
		count(PTB_CNT_ARGS_FAULT);
	}
}

static __always_inline void emit_boxed(struct pt_regs *ctx, struct hit *hit, __u64 opdef,
				       __u64 stack, __u8 flags)
{
	struct ptb_boxed_enter rec = {}, *r;
	struct arg_run run;

	if (!args_on || !call_begin(&run, hit)) {
		hdr_fill(&rec.h, sizeof(rec), PTB_REC_BOXED_ENTER, flags, hit);
		rec.sp = PT_REGS_SP(ctx);
		rec.opdef = opdef;
		emit_copy(hit, &rec, sizeof(rec));
		return;
	}
	r = (void *)run.s->rec;
	r->sp = PT_REGS_SP(ctx);
	r->opdef = opdef;
	args_begin(run.s, sizeof(*r), args_full);
	boxed_inputs(hit, &run, PT_REGS_SP(ctx), opdef, stack);
	args_emit(hit, run.s, PTB_REC_BOXED_ENTER, flags);
	args_put(run.s);
}

PROBE(boxed_enter)
{
	struct boxed_regs regs = boxed_regs(ctx);
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	__u8 flags = 0;
	__u64 opdef;

	if (!cfg)
		return 0;
	boxed_regs_order(&regs, cfg);
	opdef = read_word(regs.handle, &flags); /* OperatorHandle begins with its OperatorDef* */
	emit_boxed(ctx, hit, opdef, regs.stack, flags);
	if (opdef && opdef == cfg->scope_enter_opdef)
		emit_boxed_scope(ctx, hit, cfg, regs.stack);
	return 0;
}

PROBE(boxed_exit)
{
	__u64 sp = PT_REGS_SP(ctx);
	struct call_frame *f;
	struct arg_run r;

	hit->args = 0;
	if (!run_begin(&r, hit))
		return emit_sp(hit, PTB_REC_OP_EXIT, sp);
	f = awaited_pop(hit, sp, PTB_FRAME_BOXED);
	if (!f)
		return emit_sp(hit, PTB_REC_OP_EXIT, sp);
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(hit, PTB_REC_OP_EXIT, PTB_F_ARGS | PTB_F_ARGS_CUT, sp);
	((struct ptb_op_exit *)r.s->rec)->sp = sp;
	args_begin(r.s, sizeof(struct ptb_op_exit), args_full);
	args_stack(&r, f->result, f->cnt, false);
	args_emit(hit, r.s, PTB_REC_OP_EXIT, 0);
	args_put(r.s);
	return 0;
}

/* ---- operators that leave ---- */

/* A short std::string into dst. Returns its length. */
static __always_inline __u32 overload_name(char dst[64], __u64 addr, bool old_abi)
{
	__u8 flags = 0;
	__u64 text = read_word(addr, &flags),
	      len = read_word(old_abi ? text - 24 : addr + 8, &flags);

	len = len < 64 ? len : 63;
	if (flags || !len || bpf_probe_read_user(dst, len & 63, (void *)text))
		return 0;
	return (__u32)len;
}

/* c10::Dispatcher::deregisterDef_(OperatorHandle const&, OperatorName const&): {name,
 * overload_name} */
PROBE(opdef_gone)
{
	__u64 handle = PT_REGS_PARM2(ctx), name = PT_REGS_PARM3(ctx);
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct ptb_opdef_gone *r;
	struct text_rec b;

	if (!cfg || !text_rec_begin(&b, hit, false))
		return 0;
	r = b.rec;
	r->opdef = read_word(handle, &b.text.flags);
	r->over_len = overload_name(r->overload, name + (cfg->old_string_abi ? 8 : 32),
				    cfg->old_string_abi);
	text_read_string(&b.text, (char *)(r + 1), name, cfg->old_string_abi);
	r->text_len = b.text.len;
	text_rec_emit(&b, hit, PTB_REC_OPDEF_GONE, sizeof(*r));
	return 0;
}
