// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Names and scopes: record_function and its relatives, compiled regions, TorchScript functions,
 * custom autograd functions, boxed operator calls. Reads the texts that the target holds anyway;
 * decides nothing about what they mean.
 */

/* A record whose fixed part ends in {text_len, pad} after the stack pointer. */
static __always_inline void emit_named(struct pt_regs *ctx, const struct hit *hit, __u8 kind,
				       struct scratch *s, const struct text *t)
{
	struct ptb_named_enter *r = (void *)s->rec;

	r->sp = PT_REGS_SP(ctx);
	r->text_len = t->len;
	r->pad = 0;
	emit_text(s, hit, kind, sizeof(*r), t);
}

/* Where the text of such a record is built. */
static __always_inline char *named_text(struct scratch *s)
{
	return (char *)s->rec + sizeof(struct ptb_named_enter);
}

_Static_assert(sizeof(struct ptb_named_enter) == sizeof(struct ptb_scope_name), "same layout");

/* custom autograd.Function: rdi = its Python class; PyTypeObject::tp_name is at +24 in every
 * CPython */
static __always_inline void pyfunc_name(struct pt_regs *ctx, char *dst, struct text *t)
{
	__u64 name = read_word(PT_REGS_PARM1(ctx) + 24, &t->flags);

	if (!t->flags)
		text_read_cstr(t, dst, name);
}

static __always_inline void emit_pyfunc(struct pt_regs *ctx, const struct hit *hit)
{
	struct scratch *s = scratch_get();
	struct text t = {};

	if (!s)
		return;
	pyfunc_name(ctx, named_text(s), &t);
	emit_named(ctx, hit, PTB_REC_NAMED_ENTER, s, &t);
	scratch_put(s);
}

SEC("uprobe.multi")
int pyfunc_enter(struct pt_regs *ctx)
{
	struct hit hit;

	if (hit_begin(ctx, &hit, PTB_PROG_PYFUNC_ENTER))
		emit_pyfunc(ctx, &hit);
	return 0;
}

static __always_inline void emit_script(struct pt_regs *ctx, const struct hit *hit)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text t = {};
	struct scratch *s;

	if (!cfg)
		return;
	s = scratch_get();
	if (!s)
		return;
	if (cfg->script_name_off == PTB_OFF_UNKNOWN)
		t.flags = PTB_F_READ_FAULT;
	else
		text_read_string(&t, named_text(s), PT_REGS_PARM1(ctx) + cfg->script_name_off,
				 cfg->old_string_abi);
	emit_named(ctx, hit, PTB_REC_NAMED_ENTER, s, &t);
	scratch_put(s);
}

SEC("uprobe.multi")
int script_enter(struct pt_regs *ctx)
{
	struct hit hit;

	if (hit_begin(ctx, &hit, PTB_PROG_SCRIPT_ENTER))
		emit_script(ctx, &hit);
	return 0;
}

static __always_inline void emit_scope_string(struct pt_regs *ctx, const struct hit *hit)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	struct text t = {};
	struct scratch *s;

	if (!cfg)
		return;
	s = scratch_get();
	if (!s)
		return;
	text_read_string(&t, named_text(s), PT_REGS_PARM2(ctx), cfg->old_string_abi);
	emit_named(ctx, hit, PTB_REC_SCOPE_NAME, s, &t);
	scratch_put(s);
}

SEC("uprobe.multi")
int scope_string(struct pt_regs *ctx)
{
	struct hit hit;

	if (hit_begin(ctx, &hit, PTB_PROG_SCOPE_STRING))
		emit_scope_string(ctx, &hit);
	return 0;
}

/* rdi: text. Its context in rsi ("0/0") is an argument of the scope, not part of its name. */
SEC("uprobe.multi")
int scope_cstr(struct pt_regs *ctx)
{
	struct text t = {};
	struct scratch *s;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_CSTR))
		return 0;
	s = scratch_get();
	if (!s)
		return 0;
	text_read_cstr(&t, named_text(s), PT_REGS_PARM1(ctx));
	emit_named(ctx, &hit, PTB_REC_SCOPE_NAME, s, &t);
	scratch_put(s);
	return 0;
}

/* ---- RecordFunction objects ---- */

static __always_inline void scope_remember(const struct hit *hit, __u64 handle, __u32 scope)
{
	struct scope_key key = {.handle = handle, .tgid = hit->tgid};

	bpf_map_update_elem(&scopes, &key, &scope, BPF_ANY);
}

/* What the constructor said; a caller may have inlined it. */
static __always_inline __u32 scope_remembered(const struct hit *hit, __u64 handle)
{
	struct scope_key key = {.handle = handle, .tgid = hit->tgid};
	__u32 *scope = bpf_map_lookup_elem(&scopes, &key);

	return scope ? *scope : PTB_SCOPE_UNKNOWN;
}

/* Without text; the name, if any, came before. */
SEC("uprobe.multi")
int scope_ctor(struct pt_regs *ctx)
{
	struct ptb_scope_begin r = {};
	struct hit hit;
	__u8 flags = 0;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_CTOR))
		return 0;
	r.sp = PT_REGS_SP(ctx);
	r.handle = PT_REGS_PARM1(ctx);
	r.caller =
		read_word(r.sp, &flags); /* the site is the entry: the return address is on top */
	r.scope =
		(__u8)PT_REGS_PARM2(ctx); /* RecordScope is a byte: the rest of esi is undefined */
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_BEGIN, flags, &hit);
	if (emit_copy(&hit, &r, sizeof(r)))
		scope_remember(&hit, r.handle, r.scope);
	return 0;
}

static __always_inline char *begin_text(struct scratch *s)
{
	return (char *)s->rec + sizeof(struct ptb_scope_begin);
}

static __always_inline void emit_begin(struct pt_regs *ctx, const struct hit *hit,
				       struct scratch *s, const struct text *t)
{
	struct ptb_scope_begin *r = (void *)s->rec;
	__u64 handle = PT_REGS_PARM1(ctx);

	r->sp = PT_REGS_SP(ctx);
	r->handle = handle;
	r->caller = 0;
	r->scope = scope_remembered(hit, handle);
	r->text_len = t->len;
	if (emit_text(s, hit, PTB_REC_SCOPE_BEGIN, sizeof(*r), t))
		scope_remember(hit, handle, r->scope);
}

SEC("uprobe.multi")
int before_cstr(struct pt_regs *ctx)
{
	struct text t = {};
	struct scratch *s;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BEFORE_CSTR))
		return 0;
	s = scratch_get();
	if (!s)
		return 0;
	text_read_cstr(&t, begin_text(s), PT_REGS_PARM2(ctx));
	emit_begin(ctx, &hit, s, &t);
	scratch_put(s);
	return 0;
}

SEC("uprobe.multi")
int before_str(struct pt_regs *ctx)
{
	struct ptb_proc_cfg *cfg;
	struct text t = {};
	struct scratch *s;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BEFORE_STR))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg)
		return 0;
	s = scratch_get();
	if (!s)
		return 0;
	text_read_string(&t, begin_text(s), PT_REGS_PARM2(ctx), cfg->old_string_abi);
	emit_begin(ctx, &hit, s, &t);
	scratch_put(s);
	return 0;
}

/*
 * before(std::variant<std::string_view, ...>, long): the variant is passed on the stack,
 * string_view is {length, pointer}, the index a byte. Only a string makes a record: the other
 * alternative is an operator's schema, and operators have probes of their own.
 */
SEC("uprobe.multi")
int before_var(struct pt_regs *ctx)
{
	struct {
		__u64 len, ptr, index;
	} var = {};
	struct text t = {};
	struct scratch *s;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BEFORE_VAR))
		return 0;
	if (bpf_probe_read_user(&var, sizeof(var), (void *)(PT_REGS_SP(ctx) + 8))) {
		count(PTB_CNT_READ_FAULT);
		return 0;
	}
	if (var.index & 0xff)
		return 0;
	s = scratch_get();
	if (!s)
		return 0;
	text_read_mem(&t, begin_text(s), var.ptr, var.len);
	emit_begin(ctx, &hit, s, &t);
	scratch_put(s);
	return 0;
}

/* end() runs again from the destructor, and for objects that never began: only the first is news.
 */
SEC("uprobe.multi")
int scope_end(struct pt_regs *ctx)
{
	struct ptb_scope_end r = {};
	struct scope_key key = {};
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_SCOPE_END))
		return 0;
	key.handle = PT_REGS_PARM1(ctx);
	key.tgid = hit.tgid;
	if (bpf_map_delete_elem(&scopes, &key))
		return 0;
	hdr_fill(&r.h, sizeof(r), PTB_REC_SCOPE_END, 0, &hit);
	r.sp = PT_REGS_SP(ctx);
	r.handle = key.handle;
	emit_copy(&hit, &r, sizeof(r));
	return 0;
}

/* ---- boxed calls ---- */

/*
 * profiler::_record_function_enter*(String name, String? args): the name is the last but one IValue
 * (16 bytes: payload, tag) of the boxed stack, a std::vector {begin, end, capacity}.
 */
static __always_inline void emit_boxed_scope(struct pt_regs *ctx, const struct hit *hit,
					     const struct ptb_proc_cfg *cfg, __u64 stack)
{
	__u64 vec[2] = {}, payload;
	struct text t = {};
	struct scratch *s = scratch_get();

	if (!s)
		return;
	if (bpf_probe_read_user(vec, sizeof(vec), (void *)stack) || vec[1] < vec[0] ||
	    vec[1] - vec[0] < 32) {
		text_fault(&t);
	} else {
		payload = read_word(vec[1] - 32, &t.flags);
		if (!t.flags)
			text_read_string(&t, named_text(s), payload + cfg->string_ivalue_off,
					 cfg->old_string_abi);
	}
	emit_named(ctx, hit, PTB_REC_SCOPE_NAME, s, &t);
	scratch_put(s);
}

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
	return (struct boxed_regs){handle, stack, third};
}

static __always_inline void boxed_regs_order(struct boxed_regs *regs,
					     const struct ptb_proc_cfg *cfg)
{
	if (cfg->boxed_handle_reg) {
		regs->handle = regs->stack;
		regs->stack = regs->third;
	}
}

static __always_inline void emit_boxed(struct pt_regs *ctx, const struct hit *hit,
				       const struct ptb_proc_cfg *cfg, const struct boxed_regs *regs)
{
	struct ptb_boxed_enter r = {};
	__u8 flags = 0;

	r.opdef = read_word(regs->handle, &flags); /* OperatorHandle begins with its OperatorDef* */
	hdr_fill(&r.h, sizeof(r), PTB_REC_BOXED_ENTER, flags, hit);
	r.sp = PT_REGS_SP(ctx);
	emit_copy(hit, &r, sizeof(r));
	if (r.opdef && r.opdef == cfg->scope_enter_opdef)
		emit_boxed_scope(ctx, hit, cfg, regs->stack);
}

SEC("uprobe.multi")
int boxed_enter(struct pt_regs *ctx)
{
	struct boxed_regs regs = boxed_regs(ctx);
	struct ptb_proc_cfg *cfg;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_BOXED_ENTER))
		return 0;
	cfg = hit_cfg(&hit);
	if (!cfg)
		return 0;
	boxed_regs_order(&regs, cfg);
	emit_boxed(ctx, &hit, cfg, &regs);
	return 0;
}

/* ---- operators that leave ---- */

static __always_inline char *gone_text(struct scratch *s)
{
	return (char *)s->rec + sizeof(struct ptb_opdef_gone);
}

/* A short std::string into dst. Returns its length. */
static __always_inline __u32 overload_name(char dst[64], __u64 addr, bool old_abi)
{
	__u8 flags = 0;
	__u64 text = read_word(addr, &flags), len = read_word(old_abi ? text - 24 : addr + 8, &flags);

	len = len < 64 ? len : 63;
	if (flags || !len || bpf_probe_read_user(dst, len & 63, (void *)text))
		return 0;
	return (__u32)len;
}

/* c10::Dispatcher::deregisterDef_(OperatorHandle const&, OperatorName const&): {name, overload_name} */
SEC("uprobe.multi")
int opdef_gone(struct pt_regs *ctx)
{
	__u64 handle = PT_REGS_PARM2(ctx), name = PT_REGS_PARM3(ctx);
	struct ptb_opdef_gone *r;
	struct ptb_proc_cfg *cfg;
	struct text t = {};
	struct scratch *s;
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_OPDEF_GONE))
		return 0;
	cfg = hit_cfg(&hit);
	s = cfg ? scratch_get() : NULL;
	if (!s)
		return 0;
	r = (void *)s->rec;
	r->opdef = read_word(handle, &t.flags);
	r->over_len = overload_name(r->overload, name + (cfg->old_string_abi ? 8 : 32), cfg->old_string_abi);
	text_read_string(&t, gone_text(s), name, cfg->old_string_abi);
	r->text_len = t.len;
	emit_text(s, &hit, PTB_REC_OPDEF_GONE, sizeof(*r), &t);
	scratch_put(s);
	return 0;
}
