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

static __always_inline int emit_node(struct pt_regs *ctx, struct hit *hit,
				     const struct ptb_proc_cfg *cfg, __u64 node, __u64 inputs,
				     bool values)
{
	struct text_rec b;

	if (!text_rec_begin(&b, hit, values))
		return 0;
	node_fill(ctx, b.rec, &b.text, cfg, node);
	if (b.run.s) {
		text_rec_values(&b, sizeof(struct ptb_node_enter));
		args_tensors(&b.run, inputs);
	}
	text_rec_emit(&b, hit, PTB_REC_NODE_ENTER, sizeof(struct ptb_node_enter));
	return 0;
}

/*
 * Engine::evaluate_function(shared_ptr<GraphTask>&, Node*, InputBuffer&, ...): rdx, rcx. The buffer
 * begins with its std::vector<Variable>.
 */
PROBE(node_enter)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);

	if (!cfg)
		return 0;
	return emit_node(ctx, hit, cfg, PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx),
			 cfg->tensor.node_inputs_from_buffer);
}

/* variable_list Node::operator()(variable_list &&): rdi = result, rsi = Node*, rdx = inputs */
PROBE(node_call)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);

	return cfg ? emit_node(ctx, hit, cfg, PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), true) : 0;
}

PROBE(seq_probe)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct ptb_seq r = {};
	struct tls tls;
	__u8 flags = 0;

	if (!cfg)
		return 0;
	if (cfg->seq_tls_module) {
		tls_open(&tls, &flags);
		r.seq = tls_seq(cfg, &tls, &flags);
	} else {
		flags = PTB_F_READ_FAULT;
	}
	hdr_fill(&r.h, sizeof(r), PTB_REC_SEQ, flags, hit);
	r.sp = PT_REGS_SP(ctx);
	emit_copy(hit, &r, sizeof(r));
	return 0;
}
