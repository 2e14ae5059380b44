// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Allocators: the arguments of torch's own reporting functions, in registers
 * (c10/core/CPUAllocator.h, c10/core/Allocator.h), and memory calls of libcudart and libcuda from
 * entry to return. Does not track live blocks and charges none to an operator: the model does.
 */

/* c10::Device is two bytes in one register: type, index. */
static __always_inline void emit_report(const struct hit *hit, __u8 kind,
					const struct ptb_mem_report *v, __u64 device)
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
	struct slot s = slot_reserve(hit, sizeof(struct ptb_mem_alloc), PTB_REC_MEM_ALLOC, 0);
	struct ptb_mem_alloc *r = s.rec;

	if (!r)
		return 0;
	r->sp = PT_REGS_SP(ctx);
	r->addr = PT_REGS_PARM2(ctx);
	r->bytes = PT_REGS_PARM3(ctx);
	slot_submit(&s, hit);
	return 0;
}

/* ProfiledCPUMemoryReporter::Delete(void *ptr) */
PROBE(mem_delete)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_mem_free), PTB_REC_MEM_FREE, 0);
	struct ptb_mem_free *r = s.rec;

	if (!r)
		return 0;
	r->sp = PT_REGS_SP(ctx);
	r->addr = PT_REGS_PARM2(ctx);
	slot_submit(&s, hit);
	return 0;
}

/* c10::reportMemoryUsageToProfiler(void *ptr, int64_t size, size_t allocated, size_t reserved,
 * Device) */
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

/* The arguments that are passed in registers; PTB_API_NONE reads 0. */
struct call_regs {
	__u64 v[16];
};

static __always_inline void emit_api(const struct hit *hit, const struct api_call *c, __u64 addr,
				     __u32 flags, __u8 hdr_flags)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_mem_api), PTB_REC_MEM_API, hdr_flags);
	struct ptb_mem_api *r = s.rec;

	if (!r)
		return;
	r->h.site = (__u32)c->site;
	r->sp = c->head.sp;
	r->begin_ns = c->begin_ns;
	r->addr = addr;
	r->bytes = c->bytes;
	r->flags = flags;
	r->pad = 0;
	slot_submit(&s, hit);
}

static __always_inline void emit_api_no_result(const struct hit *hit, const void *call)
{
	const struct api_call *c = call;

	emit_api(hit, c, c->addr, PTB_API_NO_RESULT, 0);
	count(PTB_CNT_API_NO_RESULT);
}

static const struct call_use memory_use = {
	.map = &api_calls,
	.size = sizeof(struct api_call),
	.depth = PTB_API_DEPTH,
	.dropped = emit_api_no_result,
};

PROBE(api_enter)
{
	__u64 sp = PT_REGS_SP(ctx);
	struct api_calls *cs = NULL;
	struct api_call call = { .head = { .sp = sp, .args = hit->args } };
	struct call_regs regs = {};

	regs_args(ctx, regs.v);
	call.begin_ns = hit->ts_ns;
	call.site = hit->site;
	call.addr = regs.v[PTB_API_ADDR(hit->args)];
	call.bytes = regs.v[PTB_API_SIZE(hit->args)];
	call.out = regs.v[PTB_API_OUT(hit->args)];
	if (call.out)
		bpf_probe_read_user(&call.before, sizeof(call.before), (void *)call.out);
	if (!(hit->args & PTB_API_NO_EXIT))
		cs = calls_get(&memory_use, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cs) {
		emit_api_no_result(hit, &call);
		return 0;
	}
	calls_prune(&memory_use, &cs->calls, hit, sp);
	*(struct api_call *)calls_push(&memory_use, &cs->calls, hit, sp, hit->args) = call;
	return 0;
}

/* What a failed call leaves behind is not the same everywhere: 0, or what was there before. */
static __always_inline void api_result(const struct hit *hit, const struct api_call *c)
{
	__u64 addr = c->addr;
	__u32 flags = 0;
	__u8 hdr_flags = 0;

	if (PTB_API_OUT(c->head.args) != PTB_API_NONE) {
		addr = c->out ? read_word(c->out, &hdr_flags) : 0;
		if (addr && addr == c->before)
			flags = PTB_API_SAME;
	}
	emit_api(hit, c, addr, flags, hdr_flags);
}

PROBE(api_exit)
{
	/* NULL: it was entered before the window */
	struct api_calls *cs = calls_get(&memory_use, 0);
	struct api_call *c =
		cs ? calls_pop(&memory_use, &cs->calls, hit, PT_REGS_SP(ctx), hit->args) : NULL;

	if (c)
		api_result(hit, c);
	return 0;
}
