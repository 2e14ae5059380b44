/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory in one pass: what a process and a thread carry, and the blocks that are live. Shared by memory.c
 * and memory_sums.c only.
 */
#ifndef MODEL_MEMORY_PRIV_H
#define MODEL_MEMORY_PRIV_H

#include "model/input_shapes.h"
#include "model/model_priv.h"

struct memory_proc {
	uint32_t tgid;
	uint32_t gen; /* unique; a new one when another program or process takes the number */
	int64_t cpu, device, rss_delta; /* of all its threads since the window began */
	uint64_t allocated; /* live bytes of the CPU's allocator, of those allocated in the window */
	uint64_t open;      /* visible slices of its threads */
	int64_t step;       /* that began last and is open, -1: none */
	uint32_t step_tid;
};

/* The last report of the CPU's allocator, to know its repetition. */
enum report_kind { SEEN_NOTHING, SEEN_NEW, SEEN_DELETE, SEEN_OOM };
struct report_seen {
	enum report_kind what;
	uint64_t addr, bytes; /* DELETE of an unknown block: 0 bytes */
};

struct memory_thread {
	struct memory_proc *proc;
	struct slice_memory own;   /* since the thread began; the fields that are its own */
	struct slice_memory since; /* sums when it began to be watched, or its step began */
	struct report_seen seen;
	int64_t step;                      /* its open ProfilerStep, -1: none */
	const struct entry_memory *cut_at; /* the entry that ends now ended when this one began; NULL: now */
};

/* Of an open slice. */
struct entry_memory {
	struct entry_memory *next; /* in memory.spare */
	struct slice_memory begin; /* sums then */
	struct slice_memory sum;   /* what came until its end */
	bool is_step;
};

struct block {
	struct memory_block b;
	uint64_t order;
	uint32_t gen;
	uint32_t next_free; /* index + 1 */
	bool live;
	bool counted; /* in memory_proc.allocated */
};

struct blocks {
	struct block *v;
	uint32_t cnt, cap, first_free; /* index + 1, 0: none */
	uint64_t live, next_order;
	struct hashmap by_addr;    /* (address, process and device) -> index */
	struct shapes_text shapes; /* of the current operator */
	uint64_t shapes_bytes;     /* kept as texts so far */
};

struct memory {
	struct memory_proc **procs;
	uint32_t proc_cnt, proc_cap, next_gen;
	struct hashmap proc_by_tgid; /* tgid -> index */
	struct entry_memory *spare;
	struct blocks blocks;
	struct slice_values op_in; /* of the current event's context */
};

/* ---- memory_sums.c ---- */

/* The thread allocated (or freed: negative) so much. */
void sums__charge(struct memory_thread *mt, int32_t device_type, int64_t bytes);
void sums__kernel(struct memory_thread *mt, const struct ptb_kmem *r);
struct memory_proc *memory__known_proc(const struct memory *mem, uint32_t tgid);

#endif /* MODEL_MEMORY_PRIV_H */
