// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* System calls of watched threads that change the address space, for the sums of kmem.bpf.c. */

/*
 * A tracepoint of a system call makes every task of the host take the slow path through every
 * system call as long as it is attached: accepted where kernel memory is asked for, and only then.
 */

#define ADV_DONTNEED 4 /* include/uapi/asm-generic/mman-common.h */
#define ADV_FREE 8
#define ADV_REMOVE 9
#define ADV_PAGEOUT 21
#define ADV_DONTNEED_LOCKED 24
#define FLAG_FIXED 0x10 /* include/uapi/linux/mman.h */
#define FLAG_HUGETLB 0x40000
#define MREMAP_FIXED 2
#define MREMAP_DONTUNMAP 4
#define PAGE_CEIL(bytes) ((__s64)(((bytes) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1)))

static __always_inline bool advice_frees(__u64 advice)
{
	return advice == ADV_DONTNEED || advice == ADV_FREE || advice == ADV_REMOVE ||
	       advice == ADV_PAGEOUT || advice == ADV_DONTNEED_LOCKED;
}

/* Calls by which resident memory may go: what faults have brought until now must not be set off
 * against it. */
static __always_inline bool call_shrinks(const struct kmem_acc *acc, __u32 call)
{
	switch (call) {
	case PTB_CALL_MMAP:
		return acc->call_args[3] & FLAG_FIXED;
	case PTB_CALL_MREMAP:
		return acc->call_args[2] < acc->call_args[1] || acc->call_args[3] & MREMAP_FIXED;
	case PTB_CALL_BRK:
		return acc->call_args[0] && acc->call_args[0] < acc->call_brk;
	case PTB_CALL_MADVISE:
		return advice_frees(acc->call_args[2]);
	default:
		return true;
	}
}

/* The most pages that it can free. */
static __always_inline __s64 call_pages(const struct kmem_acc *acc, __u32 call)
{
	__u64 bytes = call == PTB_CALL_BRK ? acc->call_brk - acc->call_args[0] : acc->call_args[1];

	if (call == PTB_CALL_MREMAP)
		bytes += acc->call_args[2];
	return (__s64)(bytes / PAGE_BYTES) + 1;
}

/* Not more arguments than the call has: else the kernel refuses to attach. */
static __always_inline int call_enter(struct syscall_trace_enter *ctx, __u32 call, __u32 args)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kmem_acc *acc = kmem_acc_of(task);
	struct hit hit;

	if (!acc)
		return 0;
	kmem_hit(&hit, bpf_ktime_get_ns());
	acc->call_args[0] = ctx->args[0];
	acc->call_args[1] = args > 1 ? ctx->args[1] : 0;
	acc->call_args[2] = args > 2 ? ctx->args[2] : 0;
	acc->call_args[3] = args > 3 ? ctx->args[3] : 0;
	acc->call_brk = task->mm ? task->mm->brk : 0;
	acc->call_vm = task->mm ? task->mm->total_vm : 0;
	acc->call_ns = hit.ts_ns;
	call_is_shrinking(acc, call_shrinks(acc, call) ? call_pages(acc, call) : 0);
	if (acc->shrinks)
		rss_settle(hit.tgid, acc, task, false);
	return 0;
}

/*
 * By how much the call can have changed the address space: *most, or down to *least where it
 * depends on what was mapped there.
 */
static __always_inline void call_range(const struct kmem_acc *acc, __u32 call, bool good,
				       __s64 *least, __s64 *most)
{
	__s64 was = 0, len, replaced = 0;

	if (call == PTB_CALL_MREMAP) {
		len = PAGE_CEIL(acc->call_args[2]);
		was = acc->call_args[3] & MREMAP_DONTUNMAP ? 0 : PAGE_CEIL(acc->call_args[1]);
		replaced = acc->call_args[3] & MREMAP_FIXED ? len : 0;
	} else if (call == PTB_CALL_MMAP) {
		len = PAGE_CEIL(acc->call_args[1]);
		replaced = acc->call_args[3] & FLAG_FIXED ? len : 0;
	} else {
		len = 0;
		was = PAGE_CEIL(acc->call_args[1]);
	}
	*most = good ? len - was : 0;
	*least = *most - replaced;
	if (*most < 0)
		*most = 0;
}

/*
 * What the call did to the address space: munmap() of nothing succeeds, MAP_FIXED replaces.
 * mm->total_vm has it exactly, but also what other threads of the process did meanwhile: as far as
 * the call cannot have done it, it is theirs. Huge pages of hugetlbfs are longer than what was
 * asked for: no bounds.
 */
static __always_inline void call_change(struct kmem_acc *acc, struct task_struct *task, __u32 call,
					bool good)
{
	__s64 change, least, most;

	if (!task->mm)
		return;
	change = (__s64)(task->mm->total_vm - acc->call_vm) * (__s64)PAGE_BYTES;
	call_range(acc, call, good, &least, &most);
	if (call != PTB_CALL_MMAP || !(acc->call_args[3] & FLAG_HUGETLB)) {
		change = change < least ? least : change;
		change = change > most ? most : change;
	}
	if (change > 0)
		acc->map_bytes += (__u64)change;
	else
		acc->unmap_bytes += (__u64)-change;
}

/* What the call did, into the record and the sums. */
static __always_inline void call_account(struct kmem_acc *acc, struct task_struct *task,
					 struct ptb_kmem_call *r)
{
	bool good = (__u64)r->result < -4096ULL;

	switch (r->call) {
	case PTB_CALL_MMAP:
		r->addr = good ? (__u64)r->result : acc->call_args[0];
		r->bytes = acc->call_args[1];
		r->arg = (__u32)acc->call_args[3];
		call_change(acc, task, r->call, good);
		break;
	case PTB_CALL_MUNMAP:
		r->addr = acc->call_args[0];
		r->bytes = acc->call_args[1];
		call_change(acc, task, r->call, good);
		break;
	case PTB_CALL_MREMAP:
		r->addr = good ? (__u64)r->result : acc->call_args[0];
		r->old_bytes = acc->call_args[1];
		r->bytes = acc->call_args[2];
		call_change(acc, task, r->call, good);
		break;
	case PTB_CALL_BRK:
		r->bytes = (__u64)r->result - acc->call_brk;
		r->addr = acc->call_brk;
		acc->brk_bytes += (__s64)r->bytes;
		if ((__s64)r->bytes < 0) {
			r->addr = (__u64)r->result;
			r->bytes = -r->bytes;
		}
		break;
	case PTB_CALL_MADVISE:
		r->addr = acc->call_args[0];
		r->bytes = acc->call_args[1];
		r->arg = (__u32)acc->call_args[2];
		acc->advise_bytes += good && advice_frees(r->arg) ? r->bytes : 0;
		break;
	}
}

static __always_inline int call_exit(struct syscall_trace_exit *ctx, __u32 call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kmem_acc *acc = kmem_acc_of(task);
	struct ptb_kmem_call r = {};
	struct hit hit;

	if (!acc || !acc->call_ns)
		return 0;
	kmem_hit(&hit, bpf_ktime_get_ns());
	if (acc->shrinks) {
		rss_settle(hit.tgid, acc, task, true);
		call_is_shrinking(acc, 0);
	}
	hdr_fill(&r.h, sizeof(r), PTB_REC_KMEM_CALL, 0, &hit);
	r.begin_ns = acc->call_ns;
	r.result = ctx->ret;
	r.call = call;
	call_account(acc, task, &r);
	acc->calls[call]++;
	kmem_touch(acc);
	if (!acc->begin_ns)
		acc->begin_ns = acc->call_ns;
	acc->call_ns = 0;
	if (r.bytes >= PTB_KMEM_CALL_MIN || r.old_bytes >= PTB_KMEM_CALL_MIN)
		emit_copy(&hit, &r, sizeof(r));
	else
		acc->small_calls++;
	if (hit.ts_ns - acc->begin_ns > SLICE_NS)
		emit_kmem(&hit, acc, task);
	return 0;
}

#define KMEM_CALL(name, call, args)                                                                \
	SEC("tracepoint/syscalls/sys_enter_" #name)                                                \
	int kmem_enter_##name(struct syscall_trace_enter *ctx)                                     \
	{                                                                                          \
		return call_enter(ctx, call, args);                                                \
	}                                                                                          \
	SEC("tracepoint/syscalls/sys_exit_" #name)                                                 \
	int kmem_exit_##name(struct syscall_trace_exit *ctx)                                       \
	{                                                                                          \
		return call_exit(ctx, call);                                                       \
	}

KMEM_CALL(mmap, PTB_CALL_MMAP, 6)
KMEM_CALL(munmap, PTB_CALL_MUNMAP, 2)
KMEM_CALL(mremap, PTB_CALL_MREMAP, 5)
KMEM_CALL(brk, PTB_CALL_BRK, 1)
KMEM_CALL(madvise, PTB_CALL_MADVISE, 3)
