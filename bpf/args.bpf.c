// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Operators with their arguments: the same records as op.bpf.c and values behind them. The hot path of
 * --record-shapes and --execution-trace; what is read is the argument program's business.
 */

/* A large scratch area of this CPU; NULL when all are taken: not a loss, the record goes without. */
static __always_inline struct arg_scratch *args_get(void)
{
	__u32 cpu = bpf_get_smp_processor_id(), i;

#pragma unroll
	for (i = 0; i < PTB_SCRATCH_CNT; i++) {
		__u32 key = cpu * PTB_SCRATCH_CNT + i;
		struct arg_scratch *s = bpf_map_lookup_elem(&arg_scratch_mem, &key);

		if (s && !__sync_lock_test_and_set(&s->busy, 1))
			return s;
	}
	count(PTB_CNT_ARGS_FAULT);
	return NULL;
}

static __always_inline void args_put(struct arg_scratch *s)
{
	*(volatile __u32 *)&s->busy = 0;
}

/* What a program with arguments needs; false: the plain record is all there is. */
static __always_inline bool run_begin(struct arg_run *r, const struct hit *hit)
{
	__u32 key = hit->args;

	r->s = NULL;
	r->cfg = hit_cfg(hit);
	r->prog = bpf_map_lookup_elem(&arg_progs, &key);
	return r->cfg && r->prog && r->cfg->tensor.shapes_on;
}

/* Ends the record in scratch as it is. */
static __always_inline void scratch_emit(const struct hit *hit, struct arg_scratch *s, __u8 kind,
					 __u8 flags)
{
	hdr_fill((void *)s->rec, s->pos, kind, flags, hit);
	emit_copy(hit, s->rec, s->pos & ARG_REC_MASK);
}

/* Ends the record in scratch: `flags` besides those of the values. */
static __always_inline void args_emit(const struct hit *hit, struct arg_scratch *s, __u8 kind,
				      __u8 flags)
{
	if (s->cut)
		count(PTB_CNT_ARGS_CUT);
	scratch_emit(hit, s, kind, flags | PTB_F_ARGS | (s->cut ? PTB_F_ARGS_CUT : 0));
}

/* The registers that carry arguments. */
static __always_inline void words_args(struct pt_regs *ctx, struct arg_scratch *s)
{
	s->words[0] = PT_REGS_PARM1(ctx);
	s->words[1] = PT_REGS_PARM2(ctx);
	s->words[2] = PT_REGS_PARM3(ctx);
	s->words[3] = PT_REGS_PARM4(ctx);
	s->words[4] = PT_REGS_PARM5(ctx);
	s->words[5] = ctx->r9;
}

/* The registers that calls keep, by enum ptb_arg_reg: they may hold a late double, its frame, a result. */
static __always_inline void words_kept(struct pt_regs *ctx, struct arg_scratch *s, __u32 first)
{
	s->words[first + PTB_REG_RSP] = PT_REGS_SP(ctx);
	s->words[first + PTB_REG_RBP] = ctx->rbp;
	s->words[first + PTB_REG_RBX] = ctx->rbx;
	s->words[first + PTB_REG_R12] = ctx->r12;
	s->words[first + PTB_REG_R13] = ctx->r13;
	s->words[first + PTB_REG_R14] = ctx->r14;
	s->words[first + PTB_REG_R15] = ctx->r15;
}

/* Finds the places that are not known yet. A block that is not allocated has none. */
static __always_inline void tls_find(struct tls_places *p, const struct ptb_proc_cfg *cfg,
				     __u8 *flags)
{
	const struct ptb_tensor_cfg *t = &cfg->tensor;
	__u64 block;
	struct tls tls;

	tls_open(&tls, flags);
	if (cfg->seq_tls_module && !p->seq) {
		block = tls_block(&tls, cfg->seq_tls_module, flags);
		p->seq = block ? block + cfg->seq_tls_offset : 0;
	}
	if (t->grad_tls_module && !p->grad) {
		block = tls_block(&tls, t->grad_tls_module, flags);
		p->grad = block ? block + t->grad_tls_off : 0;
	}
	if (t->keys_tls_module && !p->keys) {
		block = tls_block(&tls, t->keys_tls_module, flags);
		p->keys = block ? block + t->keys_tls_off : 0;
	}
}

/* The places of this thread's variables in this process, as far as they are known. */
static __always_inline void tls_places(struct tls_places *p, const struct ptb_proc_cfg *cfg,
				       const struct hit *hit, __u8 *flags)
{
	struct task_struct *t = bpf_get_current_task_btf();

	if (p->fsbase != t->thread.fsbase || p->exec_id != t->self_exec_id || p->proc != hit->proc) {
		p->fsbase = t->thread.fsbase;
		p->exec_id = t->self_exec_id;
		p->proc = hit->proc;
		p->seq = p->grad = p->keys = 0;
	}
	if ((cfg->seq_tls_module && !p->seq) || (cfg->tensor.grad_tls_module && !p->grad) ||
	    (cfg->tensor.keys_tls_module && !p->keys))
		tls_find(p, cfg, flags);
}

/*
 * The thread's state. A block that it never touched: sequence number 0, grad mode on, no keys beside
 * the default ones (c10/core/AutogradState.h, c10/core/impl/LocalDispatchKeySet.h). Grad mode and keys
 * are both libc10's: near each other, one read has both.
 */
static __always_inline void state_value(struct arg_scratch *s, const struct ptb_proc_cfg *cfg,
					const struct hit *hit, struct call_frames *fs)
{
	const struct ptb_tensor_cfg *t = &cfg->tensor;
	__u64 seq = cfg->seq_tls_module ? 0 : ~0ull, lo, len, grad_at, keys_at, keys[2] = {};
	__u8 flags = 0, grad = 0xff;
	struct tls_places *p;
	__u32 mode;

	if (!fs) {
		args_state(s, PTB_STATE_GRAD, true, ~0ull, keys);
		return;
	}
	p = &fs->tls;
	tls_places(p, cfg, hit, &flags);
	grad_at = p->grad;
	keys_at = p->keys;
	lo = grad_at < keys_at ? grad_at : keys_at;
	len = grad_at < keys_at ? keys_at + 16 - lo : grad_at + 8 - lo;
	if (lo && len <= ARG_IMPL_MAX) {
		const __u8 *mem = (const __u8 *)s->tmp;

		barrier_var(len);
		if (len <= ARG_IMPL_MAX && !bpf_probe_read_user(s->tmp, len, (void *)lo)) {
			grad = mem[(grad_at - lo) & (ARG_IMPL_MAX - 1)];
			keys[0] = *(const __u64 *)(mem + ((keys_at - lo) & (ARG_IMPL_MAX - 1)));
			keys[1] = *(const __u64 *)(mem + ((keys_at - lo) & (ARG_IMPL_MAX - 1)) + 8);
		} else {
			flags |= PTB_F_READ_FAULT;
		}
	} else {
		if (grad_at && bpf_probe_read_user(&grad, 1, (void *)grad_at))
			flags |= PTB_F_READ_FAULT;
		if (keys_at && bpf_probe_read_user(keys, sizeof(keys), (void *)keys_at))
			flags |= PTB_F_READ_FAULT;
	}
	keys[0] ^= t->keys_default_included;
	keys[1] ^= t->keys_default_excluded;
	if (!grad && t->grad_made_late)
		mode = PTB_STATE_GRAD | PTB_STATE_UNMADE;
	else
		mode = grad & t->grad_mask ? PTB_STATE_GRAD : 0;
	if (p->seq) /* without grad mode nothing gets the number */
		seq = mode ? read_word(p->seq, &flags) : ~0ull;
	args_state(s, mode, flags != 0, seq, keys);
}

SEC("uprobe.multi")
int op_enter_args(struct pt_regs *ctx)
{
	struct arg_run r;
	struct hit hit;
	__u64 sp = PT_REGS_SP(ctx);
	__u32 bytes;

	if (!hit_begin(ctx, &hit, PTB_PROG_OP_ENTER_ARGS))
		return 0;
	if (!run_begin(&r, &hit))
		return emit_sp(&hit, PTB_REC_OP_ENTER, sp);
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(&hit, PTB_REC_OP_ENTER, PTB_F_ARGS | PTB_F_ARGS_CUT, sp);
	words_args(ctx, r.s);
	bytes = 8 * r.prog->stack_words;
	if (bytes && bytes <= 8 * (PTB_LOC_CNT - PTB_LOC_STACK)) {
		barrier_var(bytes);
		if (bytes <= 8 * (PTB_LOC_CNT - PTB_LOC_STACK))
			bpf_probe_read_user(r.s->words + PTB_LOC_STACK, bytes, (void *)(sp + 8));
	}
	((struct ptb_op_enter *)r.s->rec)->sp = sp;
	args_begin(r.s, sizeof(struct ptb_op_enter), args_full);
	if (args_full) {
		struct call_frames *fs = frames_get(BPF_LOCAL_STORAGE_GET_F_CREATE);

		state_value(r.s, r.cfg, &hit, fs);
		if (r.prog->out_cnt)
			frames_push(fs, sp, word_of(r.s, r.prog->result_loc), hit.args, 0);
	}
	r.s->near = r.prog->by_ref > 1 ? sp : 0;
	args_ops(&r, 0, r.prog->in_cnt);
	args_emit(&hit, r.s, PTB_REC_OP_ENTER, 0);
	args_put(r.s);
	return 0;
}

SEC("uprobe.multi")
int op_exit_results(struct pt_regs *ctx)
{
	struct call_frame *f;
	struct arg_run r;
	struct hit hit;
	__u64 sp = PT_REGS_SP(ctx);

	if (!hit_begin(ctx, &hit, PTB_PROG_OP_EXIT_RESULTS))
		return 0;
	if (!run_begin(&r, &hit) || !r.prog->out_cnt)
		return emit_sp(&hit, PTB_REC_OP_EXIT, sp);
	f = frames_pop(sp, hit.args);
	if (!f) {
		count(PTB_CNT_RESULTS_NO_FRAME);
		return emit_sp(&hit, PTB_REC_OP_EXIT, sp);
	}
	r.s = args_get();
	if (!r.s)
		return emit_sp_flags(&hit, PTB_REC_OP_EXIT, PTB_F_ARGS | PTB_F_ARGS_CUT, sp);
	r.s->words[0] = f->result;
	r.s->words[1] = PT_REGS_RC(ctx);
	words_kept(ctx, r.s, PTB_LOC_KEPT);
	((struct ptb_op_exit *)r.s->rec)->sp = sp;
	args_begin(r.s, sizeof(struct ptb_op_exit), args_full);
	args_ops(&r, r.prog->in_cnt, r.prog->out_cnt);
	args_emit(&hit, r.s, PTB_REC_OP_EXIT, 0);
	args_put(r.s);
	return 0;
}

/* Doubles arrive in vector registers, which BPF does not see; at this call they are in the frame. */
SEC("uprobe.multi")
int op_late(struct pt_regs *ctx)
{
	struct arg_run r;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_OP_LATE) || !run_begin(&r, &hit))
		return 0;
	r.s = args_get();
	if (!r.s)
		return 0;
	words_kept(ctx, r.s, 0);
	((struct ptb_op_enter *)r.s->rec)->sp = PT_REGS_SP(ctx);
	args_begin(r.s, sizeof(struct ptb_op_enter), args_full);
	args_ops(&r, 0, r.prog->in_cnt);
	args_emit(&hit, r.s, PTB_REC_ARGS_MORE, 0);
	args_put(r.s);
	return 0;
}
