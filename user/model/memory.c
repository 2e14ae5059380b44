/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory records become events: each with what was open on its thread, and what is known of its
 * block. Owns the join of allocations and frees, and the running totals; must not know nesting or
 * who prints.
 *
 * The CPU's allocator reports a free by its address only, so what a block was is kept here; what
 * was allocated before the window is not known. Other allocators say sizes and totals themselves.
 * While torch's own profiler records memory, the CPU's reporter passes every call on to
 * reportMemoryUsageToProfiler() or reportOutOfMemoryToProfiler() (pytorch
 * c10/core/CPUAllocator.cpp): the same event once more. What else comes from there for the CPU are
 * shared and mapped files (aten/src/ATen/MapAllocator.cpp), which the reporter does not see; their
 * totals are those that they give themselves.
 *
 * An address that is given out while its block is still live was freed in between, and that record
 * is lost: the free is emitted first, without a context, as inferred.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

#define CPU 0 /* c10::DeviceType */
#define CUDA 1
#define SHAPES_TEXT_MAX 2048 /* of one operator; the list of a whole model's gradients is longer */
#define SHAPES_BUDGET (16ULL << 20) /* of all operators; training repeats few */
#define SHAPES_CUT "[...]"

/* ---- contexts ---- */

static const struct entry *locate(struct model *m, const struct thread *t, uint64_t ts_ns,
				  struct op_context *at)
{
	const struct memory_proc *p = t->mem->proc;
	const struct entry *op;

	*at = op_context__none(t->tgid, t->tid);
	at->enclosed = p->open > 0;
	at->step = t->mem->step >= 0 ? t->mem->step : p->step;
	op = stack__context(t, at).op;
	if (thread__py_stack(t, ts_ns))
		at->stack = thread__py_stack(t, ts_ns);
	if (!op && !t->seen && !t->born)
		at->op = SESSION_OP_UNSEEN;
	if (op && args__inputs(op, &m->memory->op_in))
		at->op_in = &m->memory->op_in;
	return op;
}

/* Of a process, but of none of its threads that is known. */
static void locate_process(const struct model *m, uint32_t tgid, uint32_t tid,
			   struct op_context *at)
{
	const struct memory_proc *p = memory__known_proc(m->memory, tgid);

	*at = op_context__none(tgid, tid);
	if (p) {
		at->step = p->step;
		at->enclosed = p->open > 0;
	}
}

static void emit_memory(struct model *m, const struct memory_event *ev)
{
	bool within = ev->what == MEMORY_FREE && ev->block ? ev->block->within : ev->at.within;

	if (!model__leaves_out(m, within))
		MODEL_EMIT(m, memory, ev);
}

/* ---- live blocks: found by process, device and address; their memory is bounded by those that
 * live at once ---- */

static uint64_t block_key(uint32_t gen, const struct memory_block *b)
{
	return (uint64_t)gen << 32 | (uint64_t)(uint16_t)b->device_type << 16 |
	       (uint16_t)b->device_index;
}

/* The live block at that address; NULL: none. */
static struct block *find_block(struct blocks *bs, uint32_t gen, const struct memory_block *at)
{
	const uint64_t *i = hashmap__get(&bs->by_addr, at->addr, block_key(gen, at));

	return i ? &bs->v[*i] : NULL;
}

/* Takes it out; *b stays readable until the next one is added. */
static void remove_block(struct blocks *bs, struct block *b)
{
	hashmap__del(&bs->by_addr, b->b.addr, block_key(b->gen, &b->b));
	b->live = false;
	b->next_free = bs->first_free;
	bs->first_free = (uint32_t)(b - bs->v) + 1;
	bs->live--;
}

static struct block *add_block(struct blocks *bs, uint32_t gen, const struct memory_block *proto)
{
	uint32_t i = bs->first_free ? bs->first_free - 1 : bs->cnt;

	vec_reserve((void **)&bs->v, &bs->cap, (uint64_t)i + 1, sizeof(*bs->v));
	hashmap__put(&bs->by_addr, proto->addr, block_key(gen, proto), i);
	if (i == bs->cnt)
		bs->cnt++;
	else
		bs->first_free = bs->v[i].next_free;
	bs->v[i] =
		(struct block){ .b = *proto, .gen = gen, .order = bs->next_order++, .live = true };
	bs->live++;
	return &bs->v[i];
}

static void drop_blocks_of(struct blocks *bs, uint32_t gen)
{
	for (uint32_t i = 0; i < bs->cnt && bs->live; i++)
		if (bs->v[i].live && bs->v[i].gen == gen)
			remove_block(bs, &bs->v[i]);
}

static int cmp_order(const void *a, const void *b, void *arg)
{
	const struct block *v = arg, *x = &v[*(const uint32_t *)a], *y = &v[*(const uint32_t *)b];

	return sort__cmp(x->order, y->order);
}

/* Live ones in order of allocation; malloc'ed, NULL and *cnt 0 when there are none. */
static void list_blocks(const struct blocks *bs, struct memory_block **list, uint32_t *cnt)
{
	uint32_t *live, n = 0;

	if (!bs->live)
		return;
	live = xcalloc(bs->live, sizeof(*live));
	*list = xcalloc(bs->live, sizeof(**list));
	for (uint32_t i = 0; i < bs->cnt; i++)
		if (bs->v[i].live)
			live[n++] = i;
	sort__array_r(live, n, sizeof(*live), cmp_order, bs->v);
	for (uint32_t i = 0; i < n; i++)
		(*list)[i] = bs->v[live[i]].b;
	free(live);
	*cnt = n;
}

/* The text of the operator's input shapes, interned; "" when they were not recorded. */
static const char *shapes_text(struct model *m, const struct thread *t, const struct entry *op,
			       const struct slice_values *in)
{
	struct slice sl = { .kind = op->kind, .in = *in, .keys = t->keys };
	struct blocks *bs = &m->memory->blocks;
	uint32_t known = strtab__cnt(m->f->texts), id;

	if (!(in->flags & VALUES_PRESENT))
		return "";
	if (op->args->shapes)
		return op->args->shapes;
	op->args->shapes = SHAPES_CUT;
	input_shapes__text(&sl, &bs->shapes);
	if (bs->shapes.len > SHAPES_TEXT_MAX || bs->shapes_bytes > SHAPES_BUDGET)
		return SHAPES_CUT;
	id = strtab__add(m->f->texts, bs->shapes.text, bs->shapes.len);
	if (id > known)
		bs->shapes_bytes += bs->shapes.len + 1;
	return op->args->shapes = strtab__text(m->f->texts, id);
}

/* ---- allocations and frees ---- */

/* Where the event's block is, or would be. */
static struct memory_block block_at(const struct memory_event *ev)
{
	return (struct memory_block){ .addr = ev->addr,
				      .device_type = ev->device_type,
				      .device_index = ev->device_index };
}

static void uncount(struct memory_proc *p, const struct block *b)
{
	if (b->counted)
		p->allocated -= b->b.bytes;
}

/* The address is given out again: its block was freed, which was not recorded. */
static void emit_lost_free(struct model *m, struct memory_thread *mt, struct block *b,
			   const struct memory_event *next)
{
	struct memory_block gone = b->b;
	struct memory_event ev = *next;

	uncount(mt->proc, b);
	/* before what was given out: the allocator's total, or where that is not known the CPU's */
	ev.allocated = b->counted || next->allocated < (uint64_t)next->bytes ?
			       mt->proc->allocated :
			       next->allocated - (uint64_t)next->bytes;
	remove_block(&m->memory->blocks, b);
	locate_process(m, gone.tgid, next->at.tid, &ev.at);
	ev.what = MEMORY_FREE;
	ev.bytes = -(int64_t)gone.bytes;
	ev.block = &gone;
	ev.inferred = true;
	m->totals->frees_inferred++;
	emit_memory(m, &ev);
}

/* A new block; ev has all but its context and block. counted: by the CPU's own reporter. */
static void allocate(struct model *m, struct thread *t, struct memory_event *ev, bool counted)
{
	const struct entry *op = locate(m, t, ev->ts_ns, &ev->at);
	struct memory_proc *p = t->mem->proc;
	struct memory_block proto = block_at(ev);
	struct block *b = find_block(&m->memory->blocks, p->gen, &proto);

	if (b)
		emit_lost_free(m, t->mem, b, ev);
	proto.bytes = (uint64_t)ev->bytes;
	proto.ts_ns = ev->ts_ns;
	proto.op_slice = ev->at.op_slice;
	proto.op = ev->at.op;
	proto.outer_op = ev->at.outer_op;
	proto.annotation = ev->at.annotation;
	proto.shapes = op && ev->at.op_in ? shapes_text(m, t, op, ev->at.op_in) : "";
	proto.step = ev->at.step;
	proto.within = ev->at.within;
	proto.stack = ev->at.stack;
	proto.tgid = t->tgid;
	proto.tid = t->tid;
	b = add_block(&m->memory->blocks, p->gen, &proto);
	b->counted = counted;
	if (counted) {
		p->allocated += proto.bytes;
		ev->allocated = p->allocated;
	}
	ev->what = MEMORY_ALLOC;
	ev->block = &b->b;
	t->mem->own.allocs++;
	sums__charge(t->mem, ev->device_type, ev->bytes);
	emit_memory(m, ev);
}

/* ev as above; bytes 0: not known to who frees. Returns the bytes. */
static uint64_t release(struct model *m, struct thread *t, struct memory_event *ev)
{
	struct memory_block gone = block_at(ev);
	struct memory_proc *p = t->mem->proc;
	struct block *b = find_block(&m->memory->blocks, p->gen, &gone);
	bool own_totals = !ev->bytes; /* the CPU's reporter: totals are kept here */

	locate(m, t, ev->ts_ns, &ev->at);
	if (b) {
		uncount(p, b);
		gone = b->b;
		remove_block(&m->memory->blocks, b);
		ev->block = &gone;
		ev->bytes = ev->bytes ? ev->bytes : -(int64_t)gone.bytes;
	}
	if (own_totals)
		ev->allocated = p->allocated;
	ev->what = ev->bytes ? MEMORY_FREE : MEMORY_FREE_UNKNOWN;
	m->totals->freed_unknown += ev->what == MEMORY_FREE_UNKNOWN;
	t->mem->own.frees++;
	sums__charge(t->mem, ev->device_type, ev->bytes);
	emit_memory(m, ev);
	return 0 - (uint64_t)ev->bytes;
}

/* ---- one function per kind of record ---- */

static void on_mem_alloc(struct model *m, struct thread *t, const struct ptb_mem_alloc *r)
{
	struct memory_event ev = { .ts_ns = r->h.ts_ns,
				   .addr = r->addr,
				   .bytes = (int64_t)r->bytes,
				   .device_type = CPU,
				   .device_index = -1 };

	if (!r->bytes) /* torch counts none either */
		return;
	if (r->bytes > INT64_MAX) {
		m->totals->bad_records++;
		return;
	}
	allocate(m, t, &ev, true);
	t->mem->seen = (struct report_seen){ SEEN_NEW, r->addr, r->bytes };
}

static void on_mem_free(struct model *m, struct thread *t, const struct ptb_mem_free *r)
{
	struct memory_event ev = {
		.ts_ns = r->h.ts_ns, .addr = r->addr, .device_type = CPU, .device_index = -1
	};

	tensor_ids__freed(&m->tensors, t->tgid, r->addr);
	t->mem->seen = (struct report_seen){ SEEN_DELETE, r->addr, release(m, t, &ev) };
}

static bool repeats(const struct report_seen *seen, const struct ptb_mem_report *r)
{
	if (r->device_type != CPU)
		return false;
	switch (seen->what) {
	case SEEN_NEW:
		return r->addr == seen->addr && r->bytes > 0 && (uint64_t)r->bytes == seen->bytes;
	case SEEN_DELETE:
		return r->addr == seen->addr && r->bytes < 0 &&
		       (!seen->bytes || 0 - (uint64_t)r->bytes == seen->bytes);
	default:
		return false;
	}
}

static void on_report(struct model *m, struct thread *t, const struct ptb_mem_report *r)
{
	struct memory_event ev = { .ts_ns = r->h.ts_ns,
				   .addr = r->addr,
				   .bytes = r->bytes,
				   .allocated = r->allocated,
				   .reserved = r->reserved,
				   .device_type = r->device_type,
				   .device_index = r->device_index };
	bool again = repeats(&t->mem->seen, r);

	t->mem->seen = (struct report_seen){ 0 };
	if (again || !r->bytes)
		return;
	if (r->bytes == INT64_MIN) {
		m->totals->bad_records++;
	} else if (r->bytes > 0) {
		allocate(m, t, &ev, false);
	} else {
		tensor_ids__freed(&m->tensors, t->tgid, r->addr);
		release(m, t, &ev);
	}
}

static void on_oom(struct model *m, struct thread *t, const struct ptb_mem_report *r)
{
	struct memory_event ev = { .ts_ns = r->h.ts_ns,
				   .what = MEMORY_OOM,
				   .bytes = r->bytes,
				   .allocated = r->allocated,
				   .reserved = r->reserved,
				   .device_type = r->device_type,
				   .device_index = r->device_index };
	const struct report_seen *seen = &t->mem->seen;
	bool again = seen->what == SEEN_OOM && seen->bytes == (uint64_t)r->bytes &&
		     r->device_type == CPU;

	t->mem->seen = (struct report_seen){ 0 };
	if (again)
		return;
	if (r->device_type == CPU) {
		t->mem->seen = (struct report_seen){ SEEN_OOM, 0, (uint64_t)r->bytes };
		ev.allocated = t->mem->proc->allocated;
	}
	locate(m, t, ev.ts_ns, &ev.at);
	emit_memory(m, &ev);
}

static void on_mem_api(struct model *m, struct thread *t, const struct ptb_mem_api *r)
{
	const struct site_fact *site = facts__site(m->f, r->h.site);
	struct memory_event ev = { .ts_ns = r->h.ts_ns,
				   .what = MEMORY_API,
				   .addr = r->addr,
				   .bytes = (int64_t)r->bytes,
				   .device_type = CUDA,
				   .device_index = -1,
				   .begin_ns = r->begin_ns,
				   .no_result = r->flags & PTB_API_NO_RESULT };

	if (!site || r->begin_ns > r->h.ts_ns || r->bytes > INT64_MAX) {
		m->totals->bad_records++;
		return;
	}
	ev.name = m->f->funcs[site->func].op.full;
	ev.maybe_failed = r->flags & PTB_API_SAME;
	locate(m, t, ev.ts_ns, &ev.at);
	emit_memory(m, &ev);
}

static void on_kernel(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	struct kernel_event ev = { .rec = h };

	if (!t) {
		locate_process(m, h->tgid, h->tid, &ev.at);
	} else {
		if (h->kind == PTB_REC_KMEM)
			sums__kernel(t->mem, (const void *)h);
		locate(m, t, h->ts_ns, &ev.at);
	}
	if (!model__leaves_out(m, ev.at.within))
		MODEL_EMIT(m, kernel, &ev);
}

/* ---- dispatch ---- */

static void on_torch(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	/* every one has the stack pointer first */
	const struct ptb_mem_free *any = (const void *)h;
	const struct ptb_mem_api *api = (const void *)h;

	/* a call whose return was not seen is emitted when it is known to be over: its sp is of the
	 * past */
	if (h->kind != PTB_REC_MEM_API || !(api->flags & PTB_API_NO_RESULT))
		stack__at(m, t, any->sp, h->ts_ns);
	switch (h->kind) {
	case PTB_REC_MEM_ALLOC:
		on_mem_alloc(m, t, (const void *)h);
		break;
	case PTB_REC_MEM_FREE:
		on_mem_free(m, t, (const void *)h);
		break;
	case PTB_REC_MEM_REPORT:
		on_report(m, t, (const void *)h);
		break;
	case PTB_REC_MEM_OOM:
		on_oom(m, t, (const void *)h);
		break;
	case PTB_REC_MEM_API:
		on_mem_api(m, t, api);
		break;
	}
}

void memory__record(struct model *m, const struct ptb_rec_hdr *h)
{
	struct thread *t;

	if (!m->memory)
		return;
	if (h->kind == PTB_REC_KMEM_EVENT || !h->tid) {
		/* emitted for any thread, also of processes that are not traced: makes no thread
		 * known */
		t = h->tid ? model__known_thread(m, h->tgid, h->tid) : NULL;
		if (h->kind >= PTB_REC_KMEM)
			on_kernel(m, t, h);
		else
			m->totals->bad_records++;
		return;
	}
	t = model__thread(m, h->tgid, h->tid);
	if (h->kind >= PTB_REC_KMEM)
		on_kernel(m, t, h);
	else
		on_torch(m, t, h);
	steps__advance(m, t, h->ts_ns);
}

/* ---- the pass ---- */

void memory__new_process(struct model *m, uint32_t tgid, bool drop_blocks)
{
	struct memory_proc *p = m->memory ? memory__known_proc(m->memory, tgid) : NULL;

	if (!p)
		return;
	if (drop_blocks)
		drop_blocks_of(&m->memory->blocks, p->gen);
	p->gen = ++m->memory->next_gen;
	p->allocated = 0;
}

void memory__open(struct model *m)
{
	m->memory = xcalloc(1, sizeof(*m->memory));
}

void memory__live(const struct model *m, struct memory_block **list, uint32_t *cnt)
{
	*list = NULL;
	*cnt = 0;
	if (m->memory)
		list_blocks(&m->memory->blocks, list, cnt);
}

void memory__clear(struct model *m)
{
	struct memory *mem = m->memory;
	struct entry_memory *em, *next;

	if (!mem)
		return;
	for (uint32_t i = 0; i < m->thread_cnt; i++) {
		struct thread *t = m->threads[i];

		for (uint32_t k = 0; k < t->cnt; k++) /* open ones, if the pass was stopped */
			free(t->stack[k].mem);
		free(t->mem);
	}
	for (em = mem->spare; em; em = next) {
		next = em->next;
		free(em);
	}
	for (uint32_t i = 0; i < mem->proc_cnt; i++)
		free(mem->procs[i]);
	free(mem->procs);
	hashmap__clear(&mem->proc_by_tgid);
	free(mem->blocks.v);
	free(mem->blocks.shapes.text);
	hashmap__clear(&mem->blocks.by_addr);
	free(mem);
	m->memory = NULL;
}
