// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Allocators: what torch's own reporting functions are told, in registers (c10/core/CPUAllocator.h,
 * c10/core/Allocator.h), and memory calls of libcudart and libcuda from entry to return. Charges nobody and
 * keeps no live blocks: that is the model's.
 */

static __always_inline void emit_alloc(const struct hit *hit, __u64 sp, __u64 addr, __u64 bytes)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_mem_alloc), PTB_REC_MEM_ALLOC, 0);
	struct ptb_mem_alloc *r = s.rec;

	if (!r)
		return;
	r->sp = sp;
	r->addr = addr;
	r->bytes = bytes;
	slot_submit(&s, hit);
}

/* c10::Device is two bytes in one register: type, index. */
static __always_inline void emit_report(const struct hit *hit, __u8 kind, const struct ptb_mem_report *v,
					__u64 device)
{
	struct slot s = slot_reserve(hit, sizeof(*v), kind, 0);
	struct ptb_mem_report *r = s.rec;

	if (!r)
		return;
	r->sp = v->sp;
	r->addr = v->addr;
	r->bytes = v->bytes;
	r->allocated = v->allocated;
	r->reserved = v->reserved;
	r->device_type = (signed char)device;
	r->device_index = (signed char)(device >> 8);
	slot_submit(&s, hit);
}

/* ProfiledCPUMemoryReporter::New(void *ptr, size_t nbytes) */
PROBE(mem_new)
{
	emit_alloc(hit, PT_REGS_SP(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	return 0;
}

/* ProfiledCPUMemoryReporter::Delete(void *ptr) */
PROBE(mem_delete)
{
	struct ptb_mem_free *r;
	struct slot s;

	s = slot_reserve(hit, sizeof(*r), PTB_REC_MEM_FREE, 0);
	r = s.rec;
	if (!r)
		return 0;
	r->sp = PT_REGS_SP(ctx);
	r->addr = PT_REGS_PARM2(ctx);
	slot_submit(&s, hit);
	return 0;
}

/* c10::reportMemoryUsageToProfiler(void *ptr, int64_t size, size_t allocated, size_t reserved, Device) */
PROBE(mem_report)
{
	struct ptb_mem_report v = {};

	v.sp = PT_REGS_SP(ctx);
	v.addr = PT_REGS_PARM1(ctx);
	v.bytes = (__s64)PT_REGS_PARM2(ctx);
	v.allocated = PT_REGS_PARM3(ctx);
	v.reserved = PT_REGS_PARM4(ctx);
	emit_report(hit, PTB_REC_MEM_REPORT, &v, PT_REGS_PARM5(ctx));
	return 0;
}

/* c10::reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device) */
PROBE(mem_oom)
{
	struct ptb_mem_report v = {};

	v.sp = PT_REGS_SP(ctx);
	v.bytes = (__s64)PT_REGS_PARM1(ctx);
	v.allocated = PT_REGS_PARM2(ctx);
	v.reserved = PT_REGS_PARM3(ctx);
	emit_report(hit, PTB_REC_MEM_OOM, &v, PT_REGS_PARM4(ctx));
	return 0;
}

#define DEVICE_CPU 0xff00 /* c10::DeviceType::CPU is 0, no index is -1 */

/* ProfiledCPUMemoryReporter::OutOfMemory(size_t nbytes) */
PROBE(mem_cpu_oom)
{
	struct ptb_mem_report v = {};

	v.sp = PT_REGS_SP(ctx);
	v.bytes = (__s64)PT_REGS_PARM2(ctx);
	emit_report(hit, PTB_REC_MEM_OOM, &v, DEVICE_CPU);
	return 0;
}

/* ---- libcudart, libcuda ---- */

/* The six arguments that are passed in registers; PTB_API_NONE reads 0. */
struct call_regs {
	__u64 v[16];
};

static __always_inline void call_regs(struct call_regs *r, struct pt_regs *ctx)
{
	r->v[0] = PT_REGS_PARM1(ctx);
	r->v[1] = PT_REGS_PARM2(ctx);
	r->v[2] = PT_REGS_PARM3(ctx);
	r->v[3] = PT_REGS_PARM4(ctx);
	r->v[4] = PT_REGS_PARM5(ctx);
	r->v[5] = ctx->r9;
}

static __always_inline void emit_api(const struct hit *hit, const struct api_call *c, __u64 addr,
				     __u32 flags, __u8 hdr_flags)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_mem_api), PTB_REC_MEM_API, hdr_flags);
	struct ptb_mem_api *r = s.rec;

	if (!r)
		return;
	r->h.site = c->site;
	r->sp = c->sp;
	r->begin_ns = c->begin_ns;
	r->addr = addr;
	r->bytes = c->bytes;
	r->flags = flags;
	r->pad = 0;
	slot_submit(&s, hit);
}

static __always_inline void emit_api_no_result(const struct hit *hit, const struct api_call *c)
{
	emit_api(hit, c, c->addr, PTB_API_NO_RESULT, 0);
	count(PTB_CNT_API_NO_RESULT);
}

static __always_inline struct api_calls *api_calls_get(__u64 flags)
{
	struct api_calls *cs = bpf_task_storage_get(&api_calls, bpf_get_current_task_btf(), NULL, flags);
	__u32 window = *(volatile __u32 *)&active;

	if (cs && cs->window != window) {
		cs->window = window;
		cs->cnt = 0;
	}
	return cs;
}

static __always_inline struct api_call *api_calls_top(struct api_calls *cs)
{
	return &cs->ring[(cs->top - 1) & (PTB_API_DEPTH - 1)];
}

/* Calls with an entry at or below sp are over, and their exits were not seen. */
static __always_inline void api_calls_prune(struct api_calls *cs, const struct hit *hit, __u64 sp)
{
	__u32 i;

	for (i = 0; i < PTB_API_DEPTH; i++) {
		struct api_call *c = api_calls_top(cs);

		if (!cs->cnt || c->sp > sp)
			return;
		emit_api_no_result(hit, c);
		cs->top--;
		cs->cnt--;
	}
}

/*
 * A ring, as in frames.bpf.h: where calls are nested too deep the outermost one gives way, so that no exit
 * can be taken for that of another call.
 */
static __always_inline void api_calls_push(struct api_calls *cs, const struct hit *hit,
					   const struct api_call *call)
{
	struct api_call *c;

	cs->top++;
	c = api_calls_top(cs);
	if (cs->cnt < PTB_API_DEPTH)
		cs->cnt++;
	else
		emit_api_no_result(hit, c);
	*c = *call;
}

PROBE(api_enter)
{
	struct api_calls *cs = NULL;
	struct api_call call = {};
	struct call_regs regs = {};

	call_regs(&regs, ctx);
	call.sp = PT_REGS_SP(ctx);
	call.begin_ns = hit->ts_ns;
	call.args = hit->args;
	call.site = hit->site;
	call.addr = regs.v[PTB_API_ADDR(hit->args)];
	call.bytes = regs.v[PTB_API_SIZE(hit->args)];
	call.out = regs.v[PTB_API_OUT(hit->args)];
	if (call.out)
		bpf_probe_read_user(&call.before, sizeof(call.before), (void *)call.out);
	if (!(hit->args & PTB_API_NO_EXIT))
		cs = api_calls_get(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cs) {
		emit_api_no_result(hit, &call);
		return 0;
	}
	api_calls_prune(cs, hit, call.sp);
	api_calls_push(cs, hit, &call);
	return 0;
}

/* What a failed call leaves behind is not the same everywhere: 0, or what was there before. */
static __always_inline void api_result(const struct hit *hit, const struct api_call *c)
{
	__u64 addr = c->addr;
	__u32 flags = 0;
	__u8 hdr_flags = 0;

	if (PTB_API_OUT(c->args) != PTB_API_NONE) {
		addr = c->out ? read_word(c->out, &hdr_flags) : 0;
		if (addr && addr == c->before)
			flags = PTB_API_SAME;
	}
	emit_api(hit, c, addr, flags, hdr_flags);
}

PROBE(api_exit)
{
	__u64 sp = PT_REGS_SP(ctx);
	struct api_calls *cs;
	struct api_call *c;

	cs = api_calls_get(0);
	if (!cs)
		return 0; /* it was entered before the window */
	api_calls_prune(cs, hit, sp);
	c = api_calls_top(cs);
	if (!cs->cnt || c->args != hit->args)
		return 0;
	api_result(hit, c);
	cs->top--;
	cs->cnt--;
	return 0;
}
