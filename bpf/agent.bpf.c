// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The agent's transport: a chunk (ptb_agent.h) that a thread of the target hands to the tracer is
 * copied from its memory into the ring as it is. Reads nothing of its contents: the length is in a
 * register, and user space checks what is inside.
 *
 * Chunks come whether the window is open or not, because they hold records of what was before, and
 * the agent sends its last ones after the window. Their records bear site 0: a chunk is transport,
 * not a hit of the plan, and must not be counted as one (PTB_CNT_HITS is the number of records with
 * a site).
 *
 * The program does not wait for a page that is not there, although the kernel lets programs at
 * uprobes sleep: whoever serves the page could hold it for ever, and with it the removal of every
 * uprobe of the machine. The agent reads each page just before the site.
 */

_Static_assert(sizeof(struct ptb_agent_data) + PTB_CHUNK_MAX <= 0xfff8,
	       "a record's length has 16 bits");

/*
 * A reservation's size must be a constant, so there are a few of them, and the rest of one stays
 * unused: copied once, straight into the ring, from `cap` / 2 to `cap` bytes. False: the memory
 * could not be read.
 */
static __always_inline bool chunk_put(const struct hit *hit, __u64 addr, __u32 len, const __u32 cap)
{
	struct slot s = { .rec = NULL };
	struct ptb_agent_data *r;

	if (len <= cap)
		s = ring_reserve(hit, sizeof(*r) + cap);
	r = s.rec;
	if (!r)
		return true;
	if (bpf_probe_read_user(r + 1, len, (void *)addr)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return false;
	}
	hdr_fill(&r->h, sizeof(*r) + len, PTB_REC_AGENT_DATA, 0, hit);
	r->bytes = len;
	r->pad = 0;
	/* a few of them fill what 64 small records hardly touch: each one checks whether the reader
	 * must be woken */
	bpf_ringbuf_submit(r, wake_flags(s.ring, 0));
	return true;
}

static __always_inline bool chunk_copy(const struct hit *hit, __u64 addr, __u32 len)
{
	if (len <= 512)
		return chunk_put(hit, addr, len, 512);
	if (len <= 1024)
		return chunk_put(hit, addr, len, 1024);
	if (len <= 2048)
		return chunk_put(hit, addr, len, 2048);
	if (len <= 4096)
		return chunk_put(hit, addr, len, 4096);
	if (len <= 8192)
		return chunk_put(hit, addr, len, 8192);
	if (len <= PTB_CHUNK_FULL)
		return chunk_put(hit, addr, len, PTB_CHUNK_FULL);
	if (len <= 32768)
		return chunk_put(hit, addr, len, 32768);
	return chunk_put(hit, addr, len, PTB_CHUNK_MAX);
}

/* A chunk that could not be had: the reader learns whose and when. */
static __always_inline void chunk_fault(const struct hit *hit)
{
	struct slot s;
	struct ptb_agent_data *r;

	count(PTB_CNT_CHUNK_FAULT);
	s = slot_reserve(hit, sizeof(*r), PTB_REC_AGENT_DATA, PTB_F_READ_FAULT);
	r = s.rec;
	if (!r)
		return;
	r->bytes = 0;
	r->pad = 0;
	slot_submit(&s, hit);
}

PROBE(agent_chunk)
{
	__u64 addr = PT_REGS_PARM1(ctx), len = PT_REGS_PARM2(ctx);

	if (len < sizeof(struct ptb_chunk) || len > PTB_CHUNK_MAX || len % 8) {
		chunk_fault(hit);
		return 0;
	}
	if (!chunk_copy(hit, addr, (__u32)len))
		chunk_fault(hit);
	return 0;
}

/* The agent is about to record an operator of this thread. */
PROBE(agent_stack)
{
	__u64 number = PT_REGS_PARM1(ctx);

	if (py_stacks && number)
		py_stack(hit, PT_REGS_SP(ctx), number);
	return 0;
}

/* An operator begins or ends: what happened to its thread until now is in the ring already
 * (kmem_boundary()). */
PROBE(agent_edge)
{
	count_bare(PTB_CNT_AGENT_EDGES, hit->tgid);
	return 0;
}

/* A probe on the site is the request: it raises the site's semaphore. The site itself does not
 * run. */
PROBE(agent_request)
{
	return 0;
}
