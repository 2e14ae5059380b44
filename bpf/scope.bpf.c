// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Names and scopes: record_function and its relatives, compiled regions, TorchScript functions,
 * custom autograd functions. Reads the texts that the target holds anyway, and their arguments where these are
 * recorded; decides nothing about what they mean.
 */

_Static_assert(sizeof(struct ptb_named_enter) == sizeof(struct ptb_scope_name), "same layout");

/* Where the text of a named record is built: its fixed part ends in {text_len, pad} after the stack pointer. */
static __always_inline char *named_text(struct text_rec *b)
{
	return (char *)b->rec + sizeof(struct ptb_named_enter);
}

/* The fixed part, when the text is there. True: values may follow. */
static __always_inline bool named_fill(struct pt_regs *ctx, struct text_rec *b)
{
	struct ptb_named_enter *r = b->rec;

	r->sp = PT_REGS_SP(ctx);
	r->text_len = b->text.len;
	r->pad = 0;
	if (!b->run.s)
		return false;
	text_rec_values(b, sizeof(*r));
	return true;
}

static __always_inline int emit_named(struct text_rec *b, const struct hit *hit, __u8 kind)
{
	text_rec_emit(b, hit, kind, sizeof(struct ptb_named_enter));
	return 0;
}

/* Is the name that has been read recorded? If not, the record is dropped. own: it is an annotation's, whatever it is. */
static __always_inline bool name_passes(struct pt_regs *ctx, const struct hit *hit,
					struct text_rec *b, bool own)
{
	if (!when_on || when_announce(hit, PT_REGS_SP(ctx), when_matches(named_text(b), &b->text), own))
		return true;
	count_bare(PTB_CNT_WHEN_OUTSIDE, hit->tgid);
	text_rec_drop(b);
	return false;
}

/* THPFunction_apply(PyObject *cls, PyObject *inputs): PyTypeObject::tp_name is at +24 in every CPython */
PROBE(pyfunc_enter)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text_rec b;
	__u64 name;

	if (!cfg || !text_rec_begin(&b, hit, cfg->python.type_tuple))
		return 0;
	name = read_word(PT_REGS_PARM1(ctx) + 24, &b.text.flags);
	if (!b.text.flags)
		text_read_cstr(&b.text, named_text(&b), name);
	if (named_fill(ctx, &b))
		args_tuple(&b.run, PT_REGS_PARM2(ctx), true);
	return emit_named(&b, hit, PTB_REC_NAMED_ENTER);
}

/* GraphExecutorImplBase: function_name_, then num_inputs; rsi = Stack& */
PROBE(script_enter)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	__u64 name, cnt = 0;
	struct text_rec b;

	if (!cfg || !text_rec_begin(&b, hit, true))
		return 0;
	name = PT_REGS_PARM1(ctx) + cfg->script_name_off;
	if (cfg->script_name_off == PTB_OFF_UNKNOWN) {
		b.text.flags = PTB_F_READ_FAULT;
	} else {
		text_read_string(&b.text, named_text(&b), name, cfg->old_string_abi);
		if (b.run.s)
			cnt = read_word(name + (cfg->old_string_abi ? 8 : 32), &b.text.flags);
	}
	if (named_fill(ctx, &b))
		args_stack(&b.run, PT_REGS_PARM2(ctx), cnt, false);
	return emit_named(&b, hit, PTB_REC_NAMED_ENTER);
}

/* rsi: the name; rdx: the std::optional argument */
PROBE(scope_string)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text_rec b;

	if (!cfg || !text_rec_begin(&b, hit, true))
		return 0;
	text_read_string(&b.text, named_text(&b), PT_REGS_PARM2(ctx), cfg->old_string_abi);
	if (!name_passes(ctx, hit, &b, true))
		return 0;
	if (named_fill(ctx, &b))
		args_opt_string(&b.run, PT_REGS_PARM3(ctx));
	return emit_named(&b, hit, PTB_REC_SCOPE_NAME);
}

/* rdi: text. Its context in rsi ("0/0") is an argument of the scope, not part of its name. */
PROBE(scope_cstr)
{
	struct text_rec b;

	if (!text_rec_begin(&b, hit, false))
		return 0;
	text_read_cstr(&b.text, named_text(&b), PT_REGS_PARM1(ctx));
	if (!name_passes(ctx, hit, &b, false))
		return 0;
	named_fill(ctx, &b);
	return emit_named(&b, hit, PTB_REC_SCOPE_NAME);
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

PROBE(scope_pyargs)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text_rec b;
	__u64 pair[2];

	if (!cfg || !text_rec_begin(&b, hit, cfg->python.type_tuple))
		return 0;
	pyargs_read(ctx, pair, &b.text);
	pystr_read(&b.text, named_text(&b), pair[0], &cfg->python);
	if (!name_passes(ctx, hit, &b, true))
		return 0;
	if (named_fill(ctx, &b))
		args_tuple(&b.run, pair[1], false);
	return emit_named(&b, hit, PTB_REC_SCOPE_NAME);
}

/* ---- RecordFunction objects ---- */

static __always_inline void scope_remember(const struct hit *hit, __u64 handle,
					   const struct scope_state *s)
{
	struct ptb_scope_key key = { .handle = handle, .tgid = hit->tgid };

	if (bpf_map_update_elem(&scopes, &key, s, BPF_ANY))
		count(PTB_CNT_SCOPES_FULL);
}

/* What the constructor said; a caller may have inlined it. */
static __always_inline struct scope_state scope_remembered(const struct hit *hit, __u64 handle)
{
	struct ptb_scope_key key = { .handle = handle, .tgid = hit->tgid };
	struct scope_state *s = bpf_map_lookup_elem(&scopes, &key);

	return s ? *s : (struct scope_state){ .scope = PTB_SCOPE_UNKNOWN };
}

/* With --when: is the begin of an object recorded, which may be an occurrence's? A name of its own may come later. */
static __always_inline bool object_passes(const struct hit *hit, __u64 handle, __u64 sp,
					  __u32 itself, struct scope_state *s)
{
	when_object(hit, sp, itself, s);
	if (!s->outside)
		return true;
	count_bare(PTB_CNT_WHEN_OUTSIDE, hit->tgid);
	if (s->occurrence || s->scope == WHEN_USER_SCOPE)
		scope_remember(hit, handle, s);
	return false;
}

/* Without text; the name, if any, came before. */
PROBE(scope_ctor)
{
	struct ptb_scope_begin r = {};
	struct scope_state s = {};
	__u8 flags = 0;

	r.sp = PT_REGS_SP(ctx);
	r.handle = PT_REGS_PARM1(ctx);
	r.scope = (__u8)PT_REGS_PARM2(ctx); /* RecordScope is a byte: the rest of esi is undefined */
	s.scope = r.scope;
	if (when_on && !object_passes(hit, r.handle, r.sp, WHEN_OTHER, &s))
		return 0;
	r.caller = read_word(r.sp, &flags); /* the site is the entry: the return address is on top */
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_BEGIN, flags, hit);
	if (emit_copy(hit, &r, sizeof(r)) || s.occurrence)
		scope_remember(hit, r.handle, &s);
	return 0;
}

static __always_inline char *begin_text(struct text_rec *b)
{
	return (char *)b->rec + sizeof(struct ptb_scope_begin);
}

/* With --when: is the object that names itself recorded? While torch's profiler runs, others than annotations do, too. */
static __always_inline bool before_passes(struct pt_regs *ctx, const struct hit *hit,
					  struct text_rec *b, struct scope_state *s)
{
	__u32 itself = WHEN_OTHER;

	if (s->occurrence)
		return !s->outside;
	if (s->scope == WHEN_USER_SCOPE)
		itself = when_names_itself(hit, PT_REGS_SP(ctx), when_matches(begin_text(b), &b->text));
	return object_passes(hit, PT_REGS_PARM1(ctx), PT_REGS_SP(ctx), itself, s);
}

static __always_inline int emit_begin(struct pt_regs *ctx, const struct hit *hit, struct text_rec *b)
{
	__u64 handle = PT_REGS_PARM1(ctx);
	struct scope_state s = scope_remembered(hit, handle);
	struct ptb_scope_begin *r = b->rec;

	if (when_on && !before_passes(ctx, hit, b, &s)) {
		text_rec_drop(b);
		return 0;
	}
	r->sp = PT_REGS_SP(ctx);
	r->handle = handle;
	r->caller = 0;
	r->scope = s.scope;
	r->text_len = b->text.len;
	if (text_rec_emit(b, hit, PTB_REC_SCOPE_BEGIN, sizeof(*r)) || s.occurrence)
		scope_remember(hit, handle, &s);
	return 0;
}

PROBE(before_cstr)
{
	struct text_rec b;

	if (!text_rec_begin(&b, hit, false))
		return 0;
	text_read_cstr(&b.text, begin_text(&b), PT_REGS_PARM2(ctx));
	return emit_begin(ctx, hit, &b);
}

PROBE(before_str)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text_rec b;

	if (!cfg || !text_rec_begin(&b, hit, false))
		return 0;
	text_read_string(&b.text, begin_text(&b), PT_REGS_PARM2(ctx), cfg->old_string_abi);
	return emit_begin(ctx, hit, &b);
}

/*
 * before(std::variant<std::string_view, ...>, long): the variant is passed on the stack,
 * string_view is {length, pointer}, the index a byte. Only a string makes a record: the other
 * alternative is an operator's schema, and operators have probes of their own.
 */
PROBE(before_var)
{
	struct {
		__u64 len, ptr, index;
	} var = {};
	struct text_rec b;

	if (bpf_probe_read_user(&var, sizeof(var), (void *)(PT_REGS_SP(ctx) + 8))) {
		count(PTB_CNT_READ_FAULT);
		return 0;
	}
	if (var.index & 0xff || !text_rec_begin(&b, hit, false))
		return 0;
	text_read_mem(&b.text, begin_text(&b), var.ptr, var.len);
	return emit_begin(ctx, hit, &b);
}

/* end() runs again from the destructor, and for objects that never began: only the first call makes a record, if the begin has one. */
PROBE(scope_end)
{
	struct ptb_scope_end r = {};
	struct scope_state s = {};
	struct ptb_scope_key key = {};

	key.handle = PT_REGS_PARM1(ctx);
	key.tgid = hit->tgid;
	if (when_on)
		s = scope_remembered(hit, key.handle);
	if (bpf_map_delete_elem(&scopes, &key))
		return 0;
	if (when_on && s.occurrence)
		when_end(s.occurrence);
	if (s.outside) {
		count_bare(PTB_CNT_WHEN_OUTSIDE, hit->tgid);
		return 0;
	}
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_END, 0, hit);
	r.sp = PT_REGS_SP(ctx);
	r.handle = key.handle;
	emit_copy(hit, &r, sizeof(r));
	return 0;
}
