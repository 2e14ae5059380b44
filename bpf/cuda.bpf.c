// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * CUDA's launches, copies, fills and synchronisation as the host calls them: arguments are read at
 * the entry, the record is emitted at the return. A call that is made inside another one
 * (libcudart's of the driver) is that one's work: it is counted, and no record is emitted. What a
 * GPU does with the calls is not seen here.
 */

/* The call's arguments: what registers hold, and the words that the caller put on the stack. */
struct cuda_regs {
	__u64 v[6], sp;
};

static __always_inline void cuda_regs(struct cuda_regs *r, struct pt_regs *ctx)
{
	regs_args(ctx, r->v);
	r->sp = PT_REGS_SP(ctx);
}

/* The n-th word on the stack, behind the return address. */
static __always_inline __u64 stack_word(const struct cuda_regs *r, __u32 n, __u8 *flags)
{
	return read_word(r->sp + 8 + 8 * n, flags);
}

/* w * h * d of three words of the target's memory. */
static __always_inline __u64 extent(__u64 addr, __u32 words, __u8 *flags)
{
	__u64 v[3] = { 1, 1, 1 };

	if (bpf_probe_read_user(v, 8 * (words & 3), (void *)addr)) {
		*flags |= PTB_F_READ_FAULT;
		count(PTB_CNT_READ_FAULT);
		return 0;
	}
	return v[0] * v[1] * v[2];
}

/* x and y of a dim3 are one register, z is the next. */
static __always_inline void dim3_regs(__u32 dim[3], __u64 xy, __u64 z)
{
	dim[0] = (__u32)xy;
	dim[1] = (__u32)(xy >> 32);
	dim[2] = (__u32)z;
}

/* cudaLaunchConfig_t and CUlaunchConfig (driver_types.h, cuda.h) begin alike. */
static __always_inline void read_config(struct ptb_cuda_call *c, __u64 addr)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared, stream;
	} v = {};

	if (bpf_probe_read_user(&v, sizeof(v), (void *)addr)) {
		c->h.flags |= PTB_F_READ_FAULT;
		count(PTB_CNT_READ_FAULT);
		return;
	}
#pragma unroll
	for (__u32 i = 0; i < 3; i++) {
		c->grid[i] = v.grid[i];
		c->block[i] = v.block[i];
	}
	c->shared = (__u32)v.shared;
	c->stream = v.stream;
}

static __always_inline void read_launch(struct ptb_cuda_call *c, const struct cuda_regs *r,
					__u32 shape)
{
	if (shape == PTB_CUDA_LAUNCH_CONFIG) {
		c->func = r->v[1];
		read_config(c, r->v[0]);
		return;
	}
	c->func = r->v[0];
	if (shape == PTB_CUDA_LAUNCH) {
		dim3_regs(c->grid, r->v[1], r->v[2]);
		dim3_regs(c->block, r->v[3], r->v[4]);
		c->shared = (__u32)stack_word(r, 0, &c->h.flags);
		c->stream = stack_word(r, 1, &c->h.flags);
		return;
	}
	c->grid[0] = (__u32)r->v[1];
	c->grid[1] = (__u32)r->v[2];
	c->grid[2] = (__u32)r->v[3];
	c->block[0] = (__u32)r->v[4];
	c->block[1] = (__u32)r->v[5];
	c->block[2] = (__u32)stack_word(r, 0, &c->h.flags);
	c->shared = (__u32)stack_word(r, 1, &c->h.flags);
	c->stream = stack_word(r, 2, &c->h.flags);
}

/* cudaMemcpy3DParms (driver_types.h): arrays at 0 and 64 count elements, not bytes; extent at 128,
 * kind at 152. */
static __always_inline void read_copy_3d(struct ptb_cuda_call *c, __u64 addr)
{
	__u64 arrays = read_word(addr, &c->h.flags) | read_word(addr + 64, &c->h.flags);

	c->bytes = arrays ? 0 : extent(addr + 128, 3, &c->h.flags);
	c->copy_kind = (__u32)read_word(addr + 152, &c->h.flags);
}

static __always_inline void read_copy(struct ptb_cuda_call *c, const struct cuda_regs *r,
				      __u32 shape)
{
	switch (shape) {
	case PTB_CUDA_COPY_ASYNC:
		c->stream = r->v[4];
		/* fallthrough */
	case PTB_CUDA_COPY:
		c->bytes = r->v[2];
		c->copy_kind = (__u32)r->v[3];
		break;
	case PTB_CUDA_COPY_SYMBOL_ASYNC:
		c->stream = r->v[5];
		/* fallthrough */
	case PTB_CUDA_COPY_SYMBOL:
		c->bytes = r->v[2];
		c->copy_kind = (__u32)r->v[4];
		break;
	case PTB_CUDA_COPY_2D_ASYNC:
		c->stream = stack_word(r, 1, &c->h.flags);
		/* fallthrough */
	case PTB_CUDA_COPY_2D:
		c->bytes = r->v[4] * r->v[5];
		c->copy_kind = (__u32)stack_word(r, 0, &c->h.flags);
		break;
	case PTB_CUDA_COPY_PEER_ASYNC:
		c->stream = r->v[5];
		/* fallthrough */
	case PTB_CUDA_COPY_PEER:
		c->bytes = r->v[4];
		break;
	case PTB_CUDA_COPY_3D_ASYNC:
		c->stream = r->v[1];
		/* fallthrough */
	case PTB_CUDA_COPY_3D:
		read_copy_3d(c, r->v[0]);
		break;
	}
}

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D (cuda.h): the extent in bytes, rows and slices is at the end. */
static __always_inline void read_cu_copy(struct ptb_cuda_call *c, const struct cuda_regs *r,
					 __u32 shape)
{
	switch (shape) {
	case PTB_CUDA_CU_COPY_ASYNC:
		c->stream = r->v[3];
		/* fallthrough */
	case PTB_CUDA_CU_COPY:
		c->bytes = r->v[2];
		break;
	case PTB_CUDA_CU_COPY_2D_ASYNC:
		c->stream = r->v[1];
		/* fallthrough */
	case PTB_CUDA_CU_COPY_2D:
		c->bytes = extent(r->v[0] + 112, 2, &c->h.flags);
		break;
	case PTB_CUDA_CU_COPY_3D_ASYNC:
		c->stream = r->v[1];
		/* fallthrough */
	case PTB_CUDA_CU_COPY_3D:
		c->bytes = extent(r->v[0] + 176, 3, &c->h.flags);
		break;
	}
}

static __always_inline void read_set(struct ptb_cuda_call *c, const struct cuda_regs *r, __u32 args)
{
	switch (PTB_CUDA_SHAPE(args)) {
	case PTB_CUDA_SET_ASYNC:
		c->stream = r->v[3];
		/* fallthrough */
	case PTB_CUDA_SET:
		c->bytes = r->v[2] << PTB_CUDA_UNIT(args);
		break;
	case PTB_CUDA_SET_2D_ASYNC:
		c->stream = r->v[5];
		/* fallthrough */
	case PTB_CUDA_SET_2D:
		c->bytes = (r->v[3] * r->v[4]) << PTB_CUDA_UNIT(args);
		break;
	case PTB_CUDA_SET_3D_ASYNC:
		c->stream = r->v[1];
		/* fallthrough */
	case PTB_CUDA_SET_3D: /* both structures are on the stack; the first has four words */
		c->bytes = extent(r->sp + 8 + 32, 3, &c->h.flags);
		break;
	}
}

static __always_inline void cuda_read(struct ptb_cuda_call *c, const struct cuda_regs *r,
				      __u32 args)
{
	__u32 shape = PTB_CUDA_SHAPE(args), kind = PTB_CUDA_KIND(args);

	c->stream = ~0ULL;
	c->copy_kind = kind == PTB_CUDA_NO_KIND ? 0xff : kind;
	if (shape >= PTB_CUDA_LAUNCH && shape <= PTB_CUDA_CU_LAUNCH)
		read_launch(c, r, shape);
	else if (shape >= PTB_CUDA_COPY && shape <= PTB_CUDA_COPY_3D_ASYNC)
		read_copy(c, r, shape);
	else if (shape >= PTB_CUDA_CU_COPY && shape <= PTB_CUDA_CU_COPY_3D_ASYNC)
		read_cu_copy(c, r, shape);
	else if (shape >= PTB_CUDA_SET && shape <= PTB_CUDA_SET_3D_ASYNC)
		read_set(c, r, args);
	else if (shape == PTB_CUDA_STREAM)
		c->stream = r->v[0];
	else if (shape == PTB_CUDA_EVENT_RECORD || shape == PTB_CUDA_GRAPH)
		c->stream = r->v[1];
	if (shape == PTB_CUDA_GRAPH)
		c->func = r->v[0];
}

/* ---- open calls ---- */

static __always_inline void emit_cuda(const struct hit *hit, const struct ptb_cuda_call *c,
				      __u32 flags)
{
	struct slot s = slot_reserve(hit, sizeof(*c), PTB_REC_CUDA_CALL, 0);
	struct ptb_cuda_call *r = s.rec;
	struct ptb_rec_hdr h;

	if (!r)
		return;
	h = r->h;
	*r = *c;
	h.site = c->h.site;
	h.flags = c->h.flags;
	r->h = h;
	r->flags |= flags;
	slot_submit(&s, hit);
}

static __always_inline void emit_cuda_no_end(const struct hit *hit, const struct ptb_cuda_call *c)
{
	emit_cuda(hit, c, PTB_API_NO_RESULT);
	count(PTB_CNT_CUDA_NO_END);
}

static __always_inline void cuda_dropped(const struct hit *hit, const void *frame)
{
	const struct cuda_frame *f = frame;

	if (f->state == CUDA_OPEN)
		emit_cuda_no_end(hit, &f->call);
}

static const struct call_use cuda_use = {
	.map = &cuda_frames,
	.size = sizeof(struct cuda_frame),
	.depth = PTB_CUDA_DEPTH,
	.dropped = cuda_dropped,
};

static __always_inline bool in_cudart(const struct ptb_proc_cfg *cfg, __u64 addr)
{
#pragma unroll
	for (__u32 i = 0; i < PTB_CUDART_MAX; i++)
		if (addr >= cfg->cudart[i].start && addr < cfg->cudart[i].end)
			return true;
	return false;
}

/*
 * Is the call the work of the one that is open on this thread? It is if libcudart calls it. Where
 * libcudart's code is not known, every call inside one whose end is seen counts as its work.
 */
static __always_inline bool cuda_is_nested(struct cuda_frames *cs, const struct hit *hit, __u64 sp)
{
	struct ptb_proc_cfg *cfg = hit_cfg(hit);
	__u8 flags = 0;

	if (!cs->calls.cnt)
		return false;
	if (!cfg || !cfg->cudart[0].end) {
		const struct cuda_frame *f = calls_top(&cuda_use, &cs->calls);

		return f->state != CUDA_EMITTED;
	}
	return in_cudart(cfg, read_word(sp, &flags));
}

PROBE(cuda_enter)
{
	struct cuda_frames *cs = calls_get(&cuda_use, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct cuda_regs regs;
	struct cuda_frame *f;
	bool nested;

	if (!cs) {
		count(PTB_CNT_RECURSION);
		return 0;
	}
	cuda_regs(&regs, ctx);
	calls_prune(&cuda_use, &cs->calls, hit, regs.sp);
	nested = cuda_is_nested(cs, hit, regs.sp);
	f = calls_push(&cuda_use, &cs->calls, hit, regs.sp, hit->args);
	__builtin_memset(&f->call, 0, sizeof(f->call));
	f->state = CUDA_OPEN;
	f->call.sp = regs.sp;
	f->call.begin_ns = hit->ts_ns;
	f->call.h.site = hit->site;
	if (nested) {
		f->state = CUDA_NESTED;
		count(PTB_CNT_CUDA_NESTED);
		return 0;
	}
	cuda_read(&f->call, &regs, hit->args);
	if (!(hit->args & PTB_API_NO_EXIT))
		return 0; /* CUDA_OPEN */
	f->state = CUDA_EMITTED;
	emit_cuda_no_end(hit, &f->call);
	return 0;
}

PROBE(cuda_exit)
{
	/* NULL: it was entered before the window */
	struct cuda_frames *cs = calls_get(&cuda_use, 0);
	struct cuda_frame *f =
		cs ? calls_pop(&cuda_use, &cs->calls, hit, PT_REGS_SP(ctx), hit->args) : NULL;
	__u32 flags = 0;

	if (!f || f->state != CUDA_OPEN)
		return 0;
	if (hit->args & PTB_CUDA_RESULT) {
		f->call.result = (__s32)PT_REGS_RC(ctx);
		flags = PTB_CUDA_HAS_RESULT;
	}
	emit_cuda(hit, &f->call, flags);
	return 0;
}
