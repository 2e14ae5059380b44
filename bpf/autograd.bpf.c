// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The backward graph: nodes about to run, and the sequence numbers that tie them to the operators
 * of the forward pass. Offsets come from the process's configuration; an unknown one yields no
 * value.
 */

/* PyNode -> its Python object -> the object's class (ob_type at +8) -> tp_name (at +24) */
static __always_inline void node_class(struct text *t, char *dst, __u64 obj_slot)
{
	__u64 p = read_word(obj_slot, &t->flags);

	if (!t->flags)
		p = read_word(p + 8, &t->flags);
	if (!t->flags)
		p = read_word(p + 24, &t->flags);
	if (!t->flags)
		text_read_cstr(t, dst, p);
}

/* All of the record but its header; the class name into the room behind it. */
static __always_inline void node_fill(struct pt_regs *ctx, struct ptb_node_enter *r, struct text *t,
				      const struct ptb_proc_cfg *cfg, __u64 node)
{
	r->sp = PT_REGS_SP(ctx);
	r->node = node;
	r->vptr = read_word(node, &t->flags);
	r->seq = ~0ULL;
	if (cfg->node_seq_off != PTB_OFF_UNKNOWN)
		r->seq = read_word(node + cfg->node_seq_off, &t->flags);
	r->fwd_thread = 0;
	if (cfg->node_thread_off != PTB_OFF_UNKNOWN)
		r->fwd_thread = read_word(node + cfg->node_thread_off, &t->flags);
	if (r->vptr && r->vptr == cfg->pynode_vptr && cfg->pynode_obj_off != PTB_OFF_UNKNOWN)
		node_class(t, (char *)(r + 1), node + cfg->pynode_obj_off);
	r->text_len = t->len;
	r->pad = 0;
}

static __always_inline void emit_node(struct pt_regs *ctx, const struct hit *hit, __u64 node)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text t = {};
	struct scratch *s;

	if (!cfg)
		return;
	s = scratch_get();
	if (!s)
		return;
	node_fill(ctx, (void *)s->rec, &t, cfg, node);
	emit_text(s, hit, PTB_REC_NODE_ENTER, sizeof(struct ptb_node_enter), &t);
	scratch_put(s);
}

/* Engine::evaluate_function(shared_ptr<GraphTask>&, Node*, ...): rdx = Node* */
SEC("uprobe.multi")
int node_enter(struct pt_regs *ctx)
{
	struct hit hit;

	if (hit_begin(ctx, &hit, PTB_PROG_NODE_ENTER))
		emit_node(ctx, &hit, PT_REGS_PARM3(ctx));
	return 0;
}

/* variable_list Node::operator()(variable_list &&): rdi = result, rsi = Node* */
SEC("uprobe.multi")
int node_call(struct pt_regs *ctx)
{
	struct hit hit;

	if (hit_begin(ctx, &hit, PTB_PROG_NODE_CALL))
		emit_node(ctx, &hit, PT_REGS_PARM2(ctx));
	return 0;
}

/*
 * Thread-local storage through glibc's dynamic thread vector: the thread pointer's second word points
 * to 16-byte slots by module, slot -1 holds their number.
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

SEC("uprobe.multi")
int seq_probe(struct pt_regs *ctx)
{
	struct ptb_proc_cfg *cfg;
	struct ptb_seq r = {};
	struct tls tls;
	struct hit hit;
	__u8 flags = 0;

	if (!hit_begin(ctx, &hit, PTB_PROG_SEQ))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg)
		return 0;
	if (cfg->seq_tls_module) {
		tls_open(&tls, &flags);
		r.seq = tls_seq(cfg, &tls, &flags);
	} else {
		flags = PTB_F_READ_FAULT;
	}
	hdr_fill(&r.h, sizeof(r), PTB_REC_SEQ, flags, &hit);
	r.sp = PT_REGS_SP(ctx);
	emit_copy(&hit, &r, sizeof(r));
	return 0;
}
