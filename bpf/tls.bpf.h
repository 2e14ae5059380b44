/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Thread-local variables of the target. Knows where they are, not what they mean.
 */
#ifndef PTB_TLS_BPF_H
#define PTB_TLS_BPF_H

/*
 * Thread-local storage through glibc's dynamic thread vector: the thread pointer's second word
 * points to 16-byte slots by module, slot -1 holds their number.
 */
struct tls {
	__u64 dtv, slots;
};

static __always_inline void tls_open(struct tls *tls, __u8 *flags)
{
	struct task_struct *t = bpf_get_current_task_btf();

	tls->slots = 0;
	tls->dtv = read_word(t->thread.fsbase + 8, flags);
	if (!*flags)
		tls->slots = read_word(tls->dtv - 16, flags);
}

/*
 * The module's block. 0 without a fault: this thread has not touched it yet, nothing is allocated
 * (pointer -1, or no slot), and its variables have their initial values.
 */
static __always_inline __u64 tls_block(const struct tls *tls, __u64 module, __u8 *flags)
{
	__u64 block;

	if (*flags || module > tls->slots)
		return 0;
	block = read_word(tls->dtv + 16 * module, flags);
	return block == ~0ULL ? 0 : block;
}

/* The sequence number that the thread's next autograd node gets. */
static __always_inline __u64 tls_seq(const struct ptb_proc_cfg *cfg, const struct tls *tls,
				     __u8 *flags)
{
	__u64 block = tls_block(tls, cfg->seq_tls_module, flags);

	return block ? read_word(block + cfg->seq_tls_offset, flags) : 0;
}

/* Finds the variables whose addresses are not known yet. In a block that is not allocated they have
 * none. */
static __always_inline void tls_find(struct tls_addrs *p, const struct ptb_proc_cfg *cfg,
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

/* The addresses of this thread's variables in this process, as far as they are known. */
static __always_inline void tls_addrs(struct tls_addrs *p, const struct ptb_proc_cfg *cfg,
				      const struct hit *hit, __u8 *flags)
{
	struct task_struct *t = bpf_get_current_task_btf();

	if (p->fsbase != t->thread.fsbase || p->exec_id != t->self_exec_id ||
	    p->proc != hit->proc) {
		p->fsbase = t->thread.fsbase;
		p->exec_id = t->self_exec_id;
		p->proc = hit->proc;
		p->seq = p->grad = p->keys = 0;
	}
	if ((cfg->seq_tls_module && !p->seq) || (cfg->tensor.grad_tls_module && !p->grad) ||
	    (cfg->tensor.keys_tls_module && !p->keys))
		tls_find(p, cfg, flags);
}

#endif /* PTB_TLS_BPF_H */
