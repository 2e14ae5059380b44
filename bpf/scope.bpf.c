// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Names and scopes: record_function and its relatives, compiled regions, TorchScript functions,
 * custom autograd functions. Reads the texts that the target holds anyway, and their arguments
 * where these are recorded; decides nothing about what they mean.
 */

_Static_assert(sizeof(struct ptb_named_enter) == sizeof(struct ptb_scope_name), "same layout");

/* Where the text of a named record is built: its fixed part ends in {text_len, pad} after the stack
 * pointer. */
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

/* THPFunction_apply(PyObject *cls, PyObject *inputs): PyTypeObject::tp_name is at +24 in every
 * CPython */
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
	named_fill(ctx, &b);
	return emit_named(&b, hit, PTB_REC_SCOPE_NAME);
}

/*
 * pybind11's function_call: {function_record &, arguments}: the name, and the tuple of all others.
 * The arguments are a std::vector<handle>, from pybind11 3.0 on {bool in_line, u32 size, handle[6]}
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
	if (named_fill(ctx, &b))
		args_tuple(&b.run, pair[1], false);
	return emit_named(&b, hit, PTB_REC_SCOPE_NAME);
}

/* ---- RecordFunction objects ---- */

static __always_inline void scope_remember(const struct hit *hit, __u64 handle, __u32 scope)
{
	struct ptb_scope_key key = { .handle = handle, .tgid = hit->tgid };

	if (bpf_map_update_elem(&scopes, &key, &scope, BPF_ANY))
		count(PTB_CNT_SCOPES_FULL);
}

/* What the constructor said; a caller may have inlined it. */
static __always_inline __u32 scope_remembered(const struct hit *hit, __u64 handle)
{
	struct ptb_scope_key key = { .handle = handle, .tgid = hit->tgid };
	__u32 *scope = bpf_map_lookup_elem(&scopes, &key);

	return scope ? *scope : PTB_SCOPE_UNKNOWN;
}

/* Without text; the name, if any, came before. */
PROBE(scope_ctor)
{
	struct ptb_scope_begin r = {};
	__u8 flags = 0;

	r.sp = PT_REGS_SP(ctx);
	r.handle = PT_REGS_PARM1(ctx);
	/* the site is the entry: the return address is on top */
	r.caller = read_word(r.sp, &flags);
	/* RecordScope is a byte: the rest of esi is undefined */
	r.scope = (__u8)PT_REGS_PARM2(ctx);
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_BEGIN, flags, hit);
	if (emit_copy(hit, &r, sizeof(r)))
		scope_remember(hit, r.handle, r.scope);
	return 0;
}

static __always_inline char *begin_text(struct text_rec *b)
{
	return (char *)b->rec + sizeof(struct ptb_scope_begin);
}

static __always_inline int emit_begin(struct pt_regs *ctx, const struct hit *hit,
				      struct text_rec *b)
{
	__u64 handle = PT_REGS_PARM1(ctx);
	__u32 scope = scope_remembered(hit, handle);
	struct ptb_scope_begin *r = b->rec;

	r->sp = PT_REGS_SP(ctx);
	r->handle = handle;
	r->caller = 0;
	r->scope = scope;
	r->text_len = b->text.len;
	if (text_rec_emit(b, hit, PTB_REC_SCOPE_BEGIN, sizeof(*r)))
		scope_remember(hit, handle, scope);
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

/* end() runs again from the destructor, and for objects that never began: only the first call
 * makes a record. */
PROBE(scope_end)
{
	struct ptb_scope_end r = {};
	struct ptb_scope_key key = {};

	key.handle = PT_REGS_PARM1(ctx);
	key.tgid = hit->tgid;
	if (bpf_map_delete_elem(&scopes, &key))
		return 0;
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_END, 0, hit);
	r.sp = PT_REGS_SP(ctx);
	r.handle = key.handle;
	emit_copy(hit, &r, sizeof(r));
	return 0;
}
