/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who hit (ids), where it goes (rings), and texts. Every record leaves through emit_* here, so that
 * every loss is counted here. Knows nothing of PyTorch.
 */
#ifndef PTB_EMIT_BPF_H
#define PTB_EMIT_BPF_H

struct hit {
	__u64 ts_ns;
	__u32 site;
	__u32 proc;
	__u32 args; /* argument program */
	__u32 tgid;
	__u32 tid;
	bool quiet; /* a loss of it is no loss: calibration */
};

/* Number of a struct pid in ptbpf's namespace, 0 if it has none there. */
static __always_inline __u32 pid_nr(struct pid *pid)
{
	struct upid *up;
	__u32 level = ns_level;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	up = (void *)pid + bpf_core_field_offset(pid->numbers) +
	     level * bpf_core_type_size(struct upid);
	if (BPF_CORE_READ(up, ns, ns.inum) != ns_inum)
		return 0;
	return (__u32)BPF_CORE_READ(up, nr);
}

static __always_inline __u32 task_tid(struct task_struct *t)
{
	return ns_level ? pid_nr(BPF_CORE_READ(t, thread_pid)) : (__u32)BPF_CORE_READ(t, pid);
}

static __always_inline __u32 task_tgid(struct task_struct *t)
{
	return ns_level ? pid_nr(BPF_CORE_READ(t, group_leader, thread_pid)) :
			  (__u32)BPF_CORE_READ(t, tgid);
}

static __always_inline void current_ids(__u32 *tgid, __u32 *tid)
{
	if (ns_level) {
		struct task_struct *t = (void *)bpf_get_current_task();

		*tgid = task_tgid(t);
		*tid = task_tid(t);
	} else {
		__u64 id = bpf_get_current_pid_tgid();

		*tgid = (__u32)(id >> 32);
		*tid = (__u32)id;
	}
}

/* A link that serves several processes: which one is it? False: none that is traced, and that is
 * counted. */
static __always_inline bool proc_by_tgid(struct hit *hit)
{
	__u32 lib = (hit->proc - PTB_PROC_SHARED) & (PTB_SHARED_MAX - 1), tgid = hit->tgid;
	const struct ptb_shared_proc *p = bpf_map_lookup_elem(&shared_procs, &tgid);

	if (!p || !p->proc[lib]) {
		count(PTB_CNT_FOREIGN);
		return false;
	}
	hit->proc = p->proc[lib] - 1u;
	return true;
}

/* The site that was hit by current process hit->tgid. False: not one of ours. */
static __always_inline bool site_find(struct pt_regs *ctx, struct hit *hit, __u32 prog)
{
	__u64 cookie;

	if (site_by_ip) {
		struct ptb_ip_key key = { .ip = PT_REGS_IP(ctx), .tgid = hit->tgid, .prog = prog };
		__u64 *found = bpf_map_lookup_elem(&site_of_ip, &key);

		if (!found) {
			count(PTB_CNT_FOREIGN);
			return false;
		}
		cookie = *found;
	} else {
		cookie = bpf_get_attach_cookie(ctx);
	}
	hit->site = PTB_COOKIE_SITE(cookie);
	hit->proc = PTB_COOKIE_PROC(cookie);
	hit->args = PTB_COOKIE_ARGS(cookie);
	return !by_tgid || hit->proc < PTB_PROC_SHARED || proc_by_tgid(hit);
}

/* kmem.bpf.h */
static __always_inline void kmem_boundary(const struct hit *hit);

/* Who hit, when and where. False: the site is not one of ours. */
static __always_inline bool hit_begin(struct pt_regs *ctx, struct hit *hit, __u32 prog)
{
	hit->quiet = false;
	hit->ts_ns = bpf_ktime_get_ns();
	current_ids(&hit->tgid, &hit->tid);
	return site_find(ctx, hit, prog);
}

/* Only in processes that are traced, or about to be, it is a part of what probes cost them. */
static __always_inline void hit_outside(struct pt_regs *ctx)
{
	__u32 tgid, tid;

	current_ids(&tgid, &tid);
	if (by_tgid && PTB_COOKIE_PROC(bpf_get_attach_cookie(ctx)) >= PTB_PROC_SHARED &&
	    !bpf_map_lookup_elem(&shared_procs, &tgid))
		return;
	count_bare(PTB_CNT_OUT_OF_WINDOW, tgid);
}

/* The same for programs that run in windows only: false outside of them. */
static __always_inline bool hit_begin_in_window(struct pt_regs *ctx, struct hit *hit, __u32 prog)
{
	if (!*(volatile __u32 *)&active) {
		hit_outside(ctx);
		return false;
	}
	if (!hit_begin(ctx, hit, prog))
		return false;
	if (kernel_memory)
		kmem_boundary(hit);
	return true;
}

/*
 * A program of PTB_PROGS, by the name of its function: what it does at a hit. ptbpf.bpf.c has the
 * functions that are attached, which call it.
 */
#define PROBE(func) static __always_inline int func##_hit(struct pt_regs *ctx, struct hit *hit)

static __always_inline void hdr_fill(struct ptb_rec_hdr *h, __u32 len, __u8 kind, __u8 flags,
				     const struct hit *hit)
{
	h->len = (__u16)len;
	h->kind = kind;
	h->flags = flags;
	h->site = hit->site;
	h->ts_ns = hit->ts_ns;
	h->tgid = hit->tgid;
	h->tid = hit->tid;
}

/*
 * The reader polls by itself often enough; it is woken only when a piece is more than half full,
 * which is checked on every 64th record or so: a hash of the time is as good as a counter. The
 * time's own low bits are not: a clock that advances in steps of 10 ns (HPET) may never have six of
 * them 0. A time of 0 is always checked.
 */
static __always_inline __u64 wake_flags(void *ring, __u64 ts_ns)
{
	if (ts_ns * 0x9e3779b97f4a7c15ULL >> 58)
		return BPF_RB_NO_WAKEUP;
	return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) > ring_half ? BPF_RB_FORCE_WAKEUP :
									BPF_RB_NO_WAKEUP;
}

static __always_inline __u32 ring_of_cpu(void)
{
	return bpf_get_smp_processor_id() & ring_mask & (PTB_RING_MAX - 1);
}

static __always_inline void ring_full(const struct hit *hit)
{
	__u32 idx = ring_of_cpu();

	if (hit->quiet)
		return;
	__sync_val_compare_and_swap(&loss_first_ns[idx], 0, hit->ts_ns);
	loss_last_ns[idx] = hit->ts_ns;
	__sync_fetch_and_add(&loss_cnt[idx], 1);
	count_bare(PTB_CNT_RING_FULL, hit->tgid);
}

/* Of this processor's ring: 0: the piece that is being filled, 1: the next one. Nothing is kept
 * meanwhile: the stack of programs is small. */
static __always_inline void *ring_piece(__u32 ahead)
{
	__u32 idx = ring_of_cpu(),
	      key = idx * PTB_RING_PIECES +
		    ((ring_at[idx] + ahead) & (ring_pieces - 1) & (PTB_RING_PIECES - 1));

	return bpf_map_lookup_elem(&rings, &key);
}

/* The piece is full, and the next one had room. */
static __always_inline void ring_go_on(void)
{
	__u32 idx = ring_of_cpu();

	ring_at[idx] = (ring_at[idx] + 1) & (ring_pieces - 1);
}

/* A record in its ring, to be filled and submitted; `rec` NULL: there is none, and that is
 * counted. */
struct slot {
	void *ring; /* a piece of it */
	void *rec;
};

static __always_inline struct slot ring_reserve(const struct hit *hit, __u64 len)
{
	struct slot s = { .ring = ring_piece(0) };

	if (s.ring)
		s.rec = bpf_ringbuf_reserve(s.ring, len, 0);
	if (!s.rec && ring_pieces > 1) {
		s.ring = ring_piece(1);
		if (s.ring)
			s.rec = bpf_ringbuf_reserve(s.ring, len, 0);
		if (s.rec)
			ring_go_on();
	}
	if (!s.rec)
		ring_full(hit);
	return s;
}

static __always_inline struct slot slot_reserve(const struct hit *hit, __u32 len, __u8 kind,
						__u8 flags)
{
	struct slot s = ring_reserve(hit, len);

	if (s.rec)
		hdr_fill(s.rec, len, kind, flags, hit);
	return s;
}

static __always_inline void slot_submit(const struct slot *s, const struct hit *hit)
{
	bpf_ringbuf_submit(s->rec, wake_flags(s->ring, hit->ts_ns));
}

/* The hot path: a record of header and stack pointer. */
static __always_inline int emit_sp_flags(const struct hit *hit, __u8 kind, __u8 flags, __u64 sp)
{
	struct slot s = slot_reserve(hit, sizeof(struct ptb_op_enter), kind, flags);
	struct ptb_op_enter *r = s.rec;

	if (!r)
		return 0;
	r->sp = sp;
	slot_submit(&s, hit);
	return 0;
}

static __always_inline int emit_sp(const struct hit *hit, __u8 kind, __u64 sp)
{
	return emit_sp_flags(hit, kind, 0, sp);
}

/* wakes: the reader may be woken, which must not be under the lock of a run queue. */
static __always_inline bool emit_bytes(const struct hit *hit, void *rec, __u64 len, bool wakes)
{
	void *ring = ring_piece(0);

	if (ring && !bpf_ringbuf_output(ring, rec, len,
					wakes ? wake_flags(ring, hit->ts_ns) : BPF_RB_NO_WAKEUP))
		return true;
	ring = ring_pieces > 1 ? ring_piece(1) : NULL;
	if (ring && !bpf_ringbuf_output(ring, rec, len,
					wakes ? wake_flags(ring, hit->ts_ns) : BPF_RB_NO_WAKEUP)) {
		ring_go_on();
		return true;
	}
	ring_full(hit);
	return false;
}

/* Any finished record; len is a multiple of 8. False: lost, and counted. */
static __always_inline bool emit_copy(const struct hit *hit, void *rec, __u64 len)
{
	return emit_bytes(hit, rec, len, true);
}

/* ---- texts ---- */

/*
 * A thread that builds a text can be preempted by another probed one on the same CPU, so there are
 * a few scratch areas per CPU; NULL, counted, when all are taken.
 */
static __always_inline struct scratch *scratch_get(void)
{
#pragma unroll
	for (__u32 i = 0; i < PTB_SCRATCH_CNT; i++) {
		__u32 key = i;
		struct scratch *s = bpf_map_lookup_elem(&scratch_mem, &key);

		if (s && !__sync_lock_test_and_set(&s->busy, 1))
			return s;
	}
	count(PTB_CNT_RECURSION);
	return NULL;
}

static __always_inline void scratch_put(struct scratch *s)
{
	*(volatile __u32 *)&s->busy = 0;
}

/* One more than allowed and the terminator: cut is visible. */
#define TEXT_READ_MAX (PTB_TEXT_MAX + 2)

struct text {
	__u32 len;
	__u8 flags;
};

/* Zeroes the bytes after the text up to the next multiple of 8; dst has room for TEXT_READ_MAX + 8.
 */
static __always_inline __u32 text_pad(char *dst, __u32 len)
{
	__u32 rest = len & 7;
	__u32 word = len & 0x1f8;

	if (rest) {
		__u64 *w = (void *)(dst + word);

		*w &= (1ULL << (8 * rest)) - 1;
		word += 8;
	}
	return word;
}

static __always_inline void text_bound(struct text *t)
{
	if (t->len > PTB_TEXT_MAX) {
		t->len = PTB_TEXT_MAX;
		t->flags |= PTB_F_TEXT_CUT;
		count(PTB_CNT_TEXT_CUT);
	}
}

static __always_inline void text_fault(struct text *t)
{
	t->len = 0;
	t->flags |= PTB_F_READ_FAULT;
	count(PTB_CNT_READ_FAULT);
}

static __always_inline void text_read_cstr(struct text *t, char *dst, __u64 addr)
{
	long n = bpf_probe_read_user_str(dst, TEXT_READ_MAX, (void *)addr);

	if (n <= 0) {
		text_fault(t);
		return;
	}
	t->len = (__u32)n - 1;
	text_bound(t);
}

static __always_inline void text_read_mem(struct text *t, char *dst, __u64 addr, __u64 len)
{
	t->len = len > PTB_TEXT_MAX ? PTB_TEXT_MAX + 1 : (__u32)len;
	text_bound(t);
	if (t->len && bpf_probe_read_user(dst, t->len & 0x1ff, (void *)addr))
		text_fault(t);
}

/* libstdc++'s std::string at addr: {pointer, length}, before C++11's ABI one pointer to the
 * characters behind {length, capacity, references}. */
static __always_inline void text_read_string(struct text *t, char *dst, __u64 addr, bool old_abi)
{
	__u64 v[2] = {};
	int err;

	if (old_abi) {
		err = bpf_probe_read_user(&v[0], sizeof(v[0]), (void *)addr);
		err = err ?: bpf_probe_read_user(&v[1], sizeof(v[1]), (void *)(v[0] - 24));
	} else {
		err = bpf_probe_read_user(v, sizeof(v), (void *)addr);
	}
	if (err) {
		text_fault(t);
		return;
	}
	text_read_mem(t, dst, v[0], v[1]);
}

/*
 * Finishes a text record in scratch: `fixed` bytes of known fields, then the text. The caller has
 * filled all but the header.
 */
static __always_inline bool emit_text(struct scratch *s, const struct hit *hit, __u8 kind,
				      __u32 fixed, const struct text *t)
{
	__u32 len = t->len > PTB_TEXT_MAX ? PTB_TEXT_MAX : t->len;
	__u32 total = fixed + text_pad((char *)s->rec + fixed, len);

	hdr_fill((void *)s->rec, total, kind, t->flags, hit);
	return emit_copy(hit, s->rec, total & 0x3ff);
}

static __always_inline struct ptb_proc_cfg *hit_cfg(const struct hit *hit)
{
	__u32 key = hit->proc;

	return bpf_map_lookup_elem(&proc_cfg, &key);
}

/* One word of the target; 0 and the flag on a fault. */
static __always_inline __u64 read_word(__u64 addr, __u8 *flags)
{
	__u64 v = 0;

	if (bpf_probe_read_user(&v, sizeof(v), (void *)addr)) {
		*flags |= PTB_F_READ_FAULT;
		count(PTB_CNT_READ_FAULT);
		return 0;
	}
	return v;
}

#endif /* PTB_EMIT_BPF_H */
