/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory in one pass: what a process and a thread carry, and the blocks that are live. Shared by
 * memory.c and memory_sums.c only.
 */
#ifndef MODEL_MEMORY_PRIV_H
#define MODEL_MEMORY_PRIV_H

#include "args/schema.h"
#include "model/facts.h"
#include "model/mem_flow.h"
#include "model/model_priv.h"

struct memory_proc {
	uint32_t tgid;
	uint32_t gen; /* unique; a new one when another program or process takes the number */
	int64_t cpu, device, rss_delta; /* of all its threads since the window began */
	/* live bytes of the CPU's allocator, of those allocated in the window */
	uint64_t allocated;
	uint64_t open; /* visible slices of its threads */
	int64_t step;  /* that began last and is open, -1: none */
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
	int64_t step; /* its open ProfilerStep, -1: none */
	/* the entry that ends now ended when this one began; NULL: now */
	const struct entry_memory *cut_at;
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

/*
 * The steps of mem_flow.h over the same arrays: collected (mem_flow.c), identified (mem_keys.c), a
 * graph (mem_graph.c), categories (mem_category.c, what optimizers keep: mem_state.c), rows
 * (mem_flow.c). Private to them.
 */

#define MEM_NONE UINT32_MAX

#define MEM_OP_BACKWARD 0x01   /* a backward node's own function */
#define MEM_OP_MATCHED 0x02    /* torch would find its schema */
#define MEM_OP_ACCUMULATE 0x04 /* torch::autograd::AccumulateGrad */
#define MEM_OP_TAKES_GRAD 0x08 /* aten::detach, aten::add_ of a tensor */
#define MEM_OP_STEP 0x10 /* the annotation that every optimizer of torch puts around its step() */
#define MEM_OP_HAD_CHILD 0x20 /* something happened in it already */

struct mem_op {
	uint64_t id, parent, begin_ns;
	const char *name; /* of the node that it is part of, else its own */
	uint32_t first_ref, ref_cnt;
	uint32_t node; /* of the graph that it is part of, MEM_NONE */
	uint32_t step; /* the optimizer's step that it is part of, MEM_NONE */
	uint32_t tid;
	uint8_t flags; /* MEM_OP_* */
};

#define MEM_REF_WRITE 0x01     /* the schema says that it is changed */
#define MEM_REF_READ 0x02      /* ... that it is not */
#define MEM_REF_NO_SCHEMA 0x04 /* ... nothing */
#define MEM_REF_MUTABLE 0x07
#define MEM_REF_PARAMETER 0x08 /* its Python object is an nn.Parameter */
#define MEM_REF_FIRST 0x10     /* it is the operator's first argument */

struct mem_ref { /* a tensor among an operator's arguments */
	uint64_t storage, bytes;
	uint32_t tensor; /* its number, see model_priv.h */
	uint32_t key;
	int16_t device_index;
	uint8_t device_type, flags;
	uint8_t arg; /* index of the operator's argument */
};

struct mem_act { /* an allocation, or a free: bytes < 0, of unknown size: 0 */
	uint64_t ts_ns, addr, slice;
	int64_t bytes;
	uint32_t owner, key;
	uint32_t node;
	int16_t device_type, device_index;
};

struct mem_step { /* an annotation Optimizer.step#... */
	uint64_t begin_ns, end_ns;
	uint32_t tid;
	bool open_at_begin;
	bool ended; /* its end is known */
	/* some node of a backward pass began within it: a closure makes gradients there */
	bool backward;
};

struct mem_key {
	uint64_t bytes;
	uint64_t alloc_ns, free_ns; /* 0: not in the window */
	const char *within;         /* see struct mem_row */
	uint32_t owner;
	uint32_t id;      /* tensors that had several blocks have one id */
	uint32_t version; /* the newest */
	uint32_t slot;    /* of its version 0 in arrays by version */
	/* it was allocated and freed in this step of an optimizer, MEM_NONE: not so */
	uint32_t step;
	int16_t device_type, device_index;
	bool tensor; /* some operator had it as an argument */
	bool sized;  /* its allocation or its free has the size */
};

#define MEM_DELETED 2

struct mem_edge {
	uint32_t key;
	int32_t version;     /* before the node, -1: it allocates it */
	uint8_t mutated;     /* 0, 1, MEM_DELETED */
	uint8_t mutable_set; /* MEM_REF_MUTABLE */
};

struct mem_node {
	uint64_t begin_ns;
	uint32_t first_edge, edge_cnt;
	uint32_t step; /* of an optimizer, MEM_NONE */
	bool backward, accumulate;
};

struct mem_flow {
	bool categories;
	struct mem_flow_account account;
	struct op_schemas schemas;

	struct mem_op *ops; /* in order of begin after mem_keys__make() */
	uint32_t op_cnt, op_cap;
	struct mem_ref *refs;
	uint32_t ref_cnt, ref_cap;
	struct mem_act *acts; /* in order of time */
	uint32_t act_cnt, act_cap;
	struct mem_step *steps; /* in no order */
	uint32_t step_cnt, step_cap;

	struct mem_key *keys;
	uint32_t key_cnt, key_cap;
	uint32_t id_cnt;
	uint8_t *grad_id; /* by id: gradients that AccumulateGrad took */

	struct mem_node *nodes; /* in order of time */
	uint32_t node_cnt, node_cap;
	struct mem_edge *edges;
	uint32_t edge_cnt, edge_cap;

	uint32_t slot_cnt;
	uint8_t *category; /* by slot: enum mem_category */
	uint8_t *present;  /* by slot: some node has this version */

	struct mem_row *rows;
	uint32_t row_cnt, row_cap;
};

/* Would torch's profiler, which knows an operator's arguments but not its schema, find this one
 * (SchemaMatcher)? Not when a tensor that must be there is not, or has no data. */
bool mem_flow__matches(const struct op_schema *sc, const struct slice_values *in);

/* Marks in state[], by id, what optimizers keep. */
void mem_state__find(const struct mem_flow *mf, uint8_t *state);

void mem_keys__make(struct mem_flow *mf);
void mem_graph__make(struct mem_flow *mf);
void mem_category__make(struct mem_flow *mf);

/* The operator, NULL: not kept. Only after mem_keys__make() has sorted them. */
struct mem_op *mem_ops__find(const struct mem_flow *mf, const uint32_t *by_id, uint64_t id);
/* Indices of the operators by id. */
uint32_t *mem_ops__by_id(const struct mem_flow *mf);

static inline bool mem_edge__is_input(const struct mem_edge *e)
{
	return e->version >= 0;
}

static inline bool mem_edge__is_output(const struct mem_edge *e)
{
	return e->mutated == 1 || (e->version < 0 && e->mutated != MEM_DELETED);
}

static inline bool mem_edge__is_intermediate(const struct mem_edge *e)
{
	return e->version < 0 && e->mutated == MEM_DELETED;
}

static inline uint32_t mem_edge__in_slot(const struct mem_flow *mf, const struct mem_edge *e)
{
	return mf->keys[e->key].slot + (uint32_t)e->version;
}

static inline uint32_t mem_edge__out_slot(const struct mem_flow *mf, const struct mem_edge *e)
{
	return mf->keys[e->key].slot + (uint32_t)(e->version + 1);
}

#endif /* MODEL_MEMORY_PRIV_H */
