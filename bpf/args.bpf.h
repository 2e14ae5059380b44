/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records with values behind them, where arguments are recorded (args_on): the scratch area in
 * which they are built, and what the interpreter (arg_interp.h) needs of the registers and of the
 * thread.
 */
#ifndef PTB_ARGS_BPF_H
#define PTB_ARGS_BPF_H

/* A large scratch area of this CPU; NULL when all are taken: not a loss, the record goes
 * without. */
static __always_inline struct arg_scratch *args_get(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

#pragma unroll
	for (__u32 i = 0; i < PTB_SCRATCH_CNT; i++) {
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

/* Ends the record in scratch: `flags` besides those of the values. False: lost, and counted. */
static __always_inline bool args_emit(const struct hit *hit, struct arg_scratch *s, __u8 kind,
				      __u8 flags)
{
	if (s->cut)
		count(PTB_CNT_ARGS_CUT);
	hdr_fill((void *)s->rec, s->pos, kind, flags | PTB_F_ARGS | (s->cut ? PTB_F_ARGS_CUT : 0),
		 hit);
	return emit_copy(hit, s->rec, s->pos & ARG_REC_MASK);
}

/* The registers that calls keep, by enum ptb_arg_reg: they may hold a late double, its frame, a
 * result. */
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

/*
 * The thread's state. A block that it never touched: sequence number 0, grad mode on, no keys
 * beside the default ones (c10/core/AutogradState.h, c10/core/impl/LocalDispatchKeySet.h). Grad
 * mode and keys are both libc10's: near each other, one read has both.
 */
static __always_inline void state_value(struct arg_scratch *s, const struct ptb_proc_cfg *cfg,
					const struct hit *hit, struct call_frames *fs)
{
	const struct ptb_tensor_cfg *t = &cfg->tensor;
	__u64 seq = cfg->seq_tls_module ? 0 : ~0ull, lo, len, grad_at, keys_at, keys[2] = {};
	__u8 flags = 0, grad = 0xff;
	struct tls_addrs *p;
	__u32 mode;

	if (!fs) {
		args_state(s, PTB_STATE_GRAD, true, ~0ull, keys);
		return;
	}
	p = &fs->tls;
	tls_addrs(p, cfg, hit, &flags);
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

/* ---- calls whose results are awaited ---- */

static const struct call_use awaited = {
	.map = &call_frames,
	.size = sizeof(struct call_frame),
	.depth = PTB_FRAMES_MAX,
};

/* fs may be NULL: the exit will count that */
static __always_inline void awaited_push(struct call_frames *fs, const struct hit *hit, __u64 sp,
					 __u32 args, __u64 result, __u64 cnt)
{
	struct call_frame *f;

	if (!fs)
		return;
	calls_prune(&awaited, &fs->calls, hit, sp);
	f = calls_push(&awaited, &fs->calls, hit, sp, args);
	f->result = result;
	f->cnt = cnt;
}

static __always_inline struct call_frame *awaited_pop(const struct hit *hit, __u64 sp, __u32 args)
{
	struct call_frames *fs = calls_get(&awaited, 0);
	struct call_frame *f = fs ? calls_pop(&awaited, &fs->calls, hit, sp, args) : NULL;

	if (!f)
		count(PTB_CNT_RESULTS_NO_FRAME);
	return f;
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

/* ---- records with a text ---- */

/* A record under construction: a fixed part, a text, and values behind it if `run.s`. */
struct text_rec {
	struct arg_run run;
	struct scratch *s; /* without values: where it is built */
	void *rec;         /* in the one or in the other */
	struct text text;
};

/* False: no room to build it. values: they are to be read, where arguments are recorded at all. */
static __always_inline bool text_rec_begin(struct text_rec *b, struct hit *hit, bool values)
{
	b->s = NULL;
	b->run.s = NULL;
	b->text = (struct text){};
	if (args_on && values && call_begin(&b->run, hit)) {
		b->rec = b->run.s->rec;
		return true;
	}
	b->run.s = NULL;
	b->s = scratch_get();
	if (!b->s)
		return false;
	b->rec = b->s->rec;
	return true;
}

/* The values begin behind the text; `fixed` bytes before it. */
static __always_inline void text_rec_values(struct text_rec *b, __u32 fixed)
{
	__u32 len = b->text.len > PTB_TEXT_MAX ? PTB_TEXT_MAX : b->text.len;

	args_begin(b->run.s, fixed + text_pad((char *)b->run.s->rec + fixed, len), args_full);
}

/* All but the header is there; with values behind the text if they were begun. False: lost, and
 * counted. */
static __always_inline bool text_rec_emit(struct text_rec *b, const struct hit *hit, __u8 kind,
					  __u32 fixed)
{
	bool ok;

	if (b->run.s) {
		ok = args_emit(hit, b->run.s, kind, b->text.flags);
		args_put(b->run.s);
	} else {
		ok = emit_text(b->s, hit, kind, fixed, &b->text);
		scratch_put(b->s);
	}
	return ok;
}

#endif /* PTB_ARGS_BPF_H */
