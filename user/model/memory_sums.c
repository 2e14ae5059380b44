/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that slices are charged with. Every process and every thread has running sums; a slice is
 * charged with what they grew by while it was open, so an event costs the same however deep the
 * stack is. Owns what a slice carries for it; must not emit events.
 *
 * torch charges every slice of the process that was open at the time (pytorch
 * torch/autograd/profiler.py, in_interval()): the process's sums. The thread's own are exact. Both
 * include the children.
 */
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/memory_priv.h"

/* All fields of struct slice_memory. Sums of what damaged records say wrap around. */
/* clang-format off */
#define SLICE_MEMORY(X)                                                                       \
	X(cpu_all) X(device_all) X(cpu_own) X(device_own) X(allocs) X(frees) X(faults)        \
	X(major_faults) X(fault_bytes) X(reclaim_ns) X(compact_ns) X(rss_delta)
/* clang-format on */

#define ADD(to, what) ((to) = (__typeof__(to))((uint64_t)(to) + (uint64_t)(what)))

static void subtract(struct slice_memory *from, const struct slice_memory *what)
{
#define X(field) ADD(from->field, 0 - (uint64_t)what->field);
	SLICE_MEMORY(X)
#undef X
}

static struct slice_memory sums_now(const struct memory_thread *mt)
{
	struct slice_memory s = mt->own;

	s.cpu_all = mt->proc->cpu;
	s.device_all = mt->proc->device;
	s.rss_delta = mt->proc->rss_delta;
	return s;
}

/* c10::DeviceType; which is which: _cpu_memory_usage(), _device_memory_usage() there. */
enum device_class memory__device_class(int32_t device_type)
{
	switch (device_type) {
	case 0: /* CPU */
	case 2: /* MKLDNN */
	case 5: /* IDEEP */
		return DEVICE_CPU;
	case 1:  /* CUDA */
	case 6:  /* HIP */
	case 12: /* XPU */
	case 20: /* PrivateUse1 */
		return DEVICE_ACCELERATOR;
	default:
		return DEVICE_OTHER;
	}
}

void sums__charge(struct memory_thread *mt, int32_t device_type, int64_t bytes)
{
	switch (memory__device_class(device_type)) {
	case DEVICE_CPU:
		ADD(mt->own.cpu_own, bytes);
		ADD(mt->proc->cpu, bytes);
		break;
	case DEVICE_ACCELERATOR:
		ADD(mt->own.device_own, bytes);
		ADD(mt->proc->device, bytes);
		break;
	case DEVICE_OTHER:
		break;
	}
}

void sums__kernel(struct memory_thread *mt, const struct ptb_kmem *r)
{
	mt->own.faults += (uint64_t)r->minor + r->major;
	mt->own.major_faults += r->major;
	mt->own.fault_bytes += r->fault_bytes;
	mt->own.reclaim_ns += r->reclaim_ns;
	mt->own.compact_ns += r->compact_ns;
	ADD(mt->proc->rss_delta, r->rss_delta);
}

/* ---- processes and threads ---- */

struct memory_proc *memory__known_proc(const struct memory *mem, uint32_t tgid)
{
	const uint64_t *i = hashmap__get(&mem->proc_by_tgid, tgid, 0);

	return i ? mem->procs[*i] : NULL;
}

static struct memory_proc *memory_proc_of(struct model *m, uint32_t tgid)
{
	struct memory *mem = m->memory;
	struct memory_proc *p = memory__known_proc(mem, tgid);

	if (p)
		return p;
	vec_reserve((void **)&mem->procs, &mem->proc_cap, (uint64_t)mem->proc_cnt + 1, sizeof(p));
	hashmap__put(&mem->proc_by_tgid, tgid, 0, mem->proc_cnt);
	p = xcalloc(1, sizeof(*p));
	mem->procs[mem->proc_cnt++] = p;
	p->tgid = tgid;
	p->gen = ++mem->next_gen;
	p->step = -1;
	return p;
}

void memory__thread_new(struct model *m, struct thread *t)
{
	if (!m->memory)
		return;
	t->mem = xcalloc(1, sizeof(*t->mem));
	t->mem->proc = memory_proc_of(m, t->tgid);
	t->mem->step = -1;
}

void memory__thread_announced(struct thread *t)
{
	if (!t->mem)
		return;
	/* its step, if it has one, began with the window, before anything was summed up */
	t->mem->since = (struct slice_memory){ 0 };
	if (t->cnt && t->stack[0].mem)
		t->stack[0].mem->begin = (struct slice_memory){ 0 };
}

void memory__mark(struct thread *t)
{
	t->mem->since = sums_now(t->mem);
}

/* ---- slices ---- */

static struct entry_memory *new_entry(struct model *m)
{
	struct entry_memory *em = m->memory->spare;

	if (em) {
		m->memory->spare = em->next;
		*em = (struct entry_memory){ 0 };
	} else {
		em = xcalloc(1, sizeof(*em));
	}
	return em;
}

void memory__begin(struct model *m, struct thread *t, struct entry *e)
{
	e->mem = new_entry(m);
	e->mem->begin = sums_now(t->mem);
	t->mem->proc->open++;
	if (!e->is_step)
		return;
	e->mem->is_step = true;
	t->mem->step = steps__number(e);
	t->mem->proc->step = t->mem->step;
	t->mem->proc->step_tid = t->tid;
}

static void leave_entry(struct thread *t, const struct entry *e)
{
	struct memory_proc *p = t->mem->proc;

	p->open--;
	if (!e->mem->is_step)
		return;
	t->mem->step = -1;
	if (p->step_tid == t->tid)
		p->step = -1;
}

void memory__cut(struct thread *t, const struct entry *at)
{
	t->mem->cut_at = at ? at->mem : NULL;
}

void memory__end(struct thread *t, const struct entry *e)
{
	leave_entry(t, e);
	e->mem->sum = t->mem->cut_at ? t->mem->cut_at->begin : sums_now(t->mem);
	subtract(&e->mem->sum, &e->mem->begin);
}

void memory__hide(struct model *m, struct thread *t, struct entry *e)
{
	leave_entry(t, e);
	memory__drop(m, e);
}

void memory__drop(struct model *m, struct entry *e)
{
	e->mem->next = m->memory->spare;
	m->memory->spare = e->mem;
	e->mem = NULL;
}

void memory__open_at_begin(struct model *m, struct thread *t, struct entry *e)
{
	e->mem = new_entry(m);
	e->mem->sum = sums_now(t->mem);
	subtract(&e->mem->sum, &t->mem->since);
}

void memory__put_into(const struct entry *e, struct slice *sl)
{
	sl->mem = &e->mem->sum;
}
