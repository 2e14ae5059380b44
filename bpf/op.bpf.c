// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Operator entry and exit, the two hottest programs: time, ids and the stack pointer, and what the
 * argument program of the site reads, if it has one. Boxed calls are in boxed.bpf.c.
 */

/* Inputs, the thread's state; leaves a frame for the exit. r->s: where the record is built. */
static __always_inline void op_inputs(struct pt_regs *ctx, const struct hit *hit, struct arg_run *r)
{
	__u32 bytes = 8 * r->prog->stack_words;
	__u64 sp = PT_REGS_SP(ctx);

	regs_args(ctx, r->s->words);
	if (bytes && bytes <= 8 * (PTB_LOC_CNT - PTB_LOC_STACK)) {
		barrier_var(bytes);
		if (bytes <= 8 * (PTB_LOC_CNT - PTB_LOC_STACK))
			bpf_probe_read_user(r->s->words + PTB_LOC_STACK, bytes, (void *)(sp + 8));
	}
	((struct ptb_op_enter *)r->s->rec)->sp = sp;
	args_begin(r->s, sizeof(struct ptb_op_enter), args_full);
	if (args_full) {
		struct call_frames *fs = calls_get(&awaited, BPF_LOCAL_STORAGE_GET_F_CREATE);

		state_value(r->s, r->cfg, hit, fs);
		if (r->prog->out_cnt)
			awaited_push(fs, hit, sp, hit->args, word_of(r->s, r->prog->result_loc), 0);
	}
	r->s->near = r->prog->by_ref > 1 ? sp : 0;
	args_ops(r, 0, r->prog->in_cnt);
}

PROBE(op_enter)
{
	struct arg_run r;

	if (!args_on || !hit->args || !run_begin(&r, hit))
		return emit_sp(hit, PTB_REC_OP_ENTER, PT_REGS_SP(ctx));
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(hit, PTB_REC_OP_ENTER, PTB_F_ARGS | PTB_F_ARGS_CUT,
				     PT_REGS_SP(ctx));
	op_inputs(ctx, hit, &r);
	args_emit(hit, r.s, PTB_REC_OP_ENTER, 0);
	args_put(r.s);
	return 0;
}

PROBE(op_exit)
{
	__u64 sp = PT_REGS_SP(ctx);
	struct call_frame *f;
	struct arg_run r;

	if (!args_full || !hit->args || !run_begin(&r, hit) || !r.prog->out_cnt)
		return emit_sp(hit, PTB_REC_OP_EXIT, sp);
	f = awaited_pop(hit, sp, hit->args);
	if (!f)
		return emit_sp(hit, PTB_REC_OP_EXIT, sp);
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(hit, PTB_REC_OP_EXIT, PTB_F_ARGS | PTB_F_ARGS_CUT, sp);
	r.s->words[0] = f->result;
	r.s->words[1] = PT_REGS_RC(ctx);
	words_kept(ctx, r.s, PTB_LOC_KEPT);
	((struct ptb_op_exit *)r.s->rec)->sp = sp;
	args_begin(r.s, sizeof(struct ptb_op_exit), args_full);
	args_ops(&r, r.prog->in_cnt, r.prog->out_cnt);
	args_emit(hit, r.s, PTB_REC_OP_EXIT, 0);
	args_put(r.s);
	return 0;
}

/* Doubles arrive in vector registers, which BPF does not see; at this call they are in the
 * frame. */
PROBE(op_late)
{
	struct arg_run r;

	if (!hit->args || !run_begin(&r, hit))
		return 0;
	r.s = args_get();
	if (!r.s)
		return 0;
	words_kept(ctx, r.s, 0);
	((struct ptb_op_enter *)r.s->rec)->sp = PT_REGS_SP(ctx);
	args_begin(r.s, sizeof(struct ptb_op_enter), args_full);
	args_ops(&r, 0, r.prog->in_cnt);
	args_emit(hit, r.s, PTB_REC_ARGS_MORE, 0);
	args_put(r.s);
	return 0;
}

/* __cxa_begin_catch(): an exception has been caught by the function that calls it */
PROBE(catch_enter)
{
	return emit_sp(hit, PTB_REC_CATCH, PT_REGS_SP(ctx));
}
