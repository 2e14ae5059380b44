/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * GPU records of a capture: read and put on CLOCK_MONOTONIC once (gpu_read.c, gpu_clock.c), linked
 * to slices in every pass (gpu_link.c). All of them are kept, as CUPTI delivers them in no order
 * and often after the calls that launched them: a loop of launches takes 17 bytes of a capture for
 * a call and its kernel, and may take 20 times that here and in the sinks together. So what many
 * records have in common is kept once. Private to the model.
 */
#ifndef MODEL_GPU_PRIV_H
#define MODEL_GPU_PRIV_H

#include "model/model_priv.h"

#define GPU_NONE UINT32_MAX
#define GPU_TIME_SLACK_NS 1000000 /* clocks that differ by less do not make a time impossible */

/* ---- gpu_clock.c ---- */

struct gpu_pair {
	uint64_t gpu_ns, mono_ns, err_ns;
};

/* How one process's CUPTI time relates to CLOCK_MONOTONIC: linear between its pairs. */
struct gpu_clock {
	struct gpu_pair *pairs; /* after the fit: rising in both times */
	uint32_t cnt, cap;
	uint64_t err_ns; /* bound of a converted time, inside the pairs */
	uint32_t slope_first,
		/* pairs that the slope before the first, after the last is taken from */
		slope_last;
};

void gpu_clock__add(struct gpu_clock *c, const struct ptb_gpu_clock *r);
/* Leaves the pairs that agree; returns how many did not. */
uint32_t gpu_clock__fit(struct gpu_clock *c);
/* False: there is no such time, or no pair. */
bool gpu_clock__to_mono(const struct gpu_clock *c, uint64_t gpu_ns, uint64_t *mono_ns);

/* ---- gpu_read.c ---- */

struct gpu_proc {
	uint32_t tgid;
	struct gpu_clock clock;
	/* While CUPTI reported its calls those that probes saw are the same ones. In CUPTI's time,
	 * after the fit on CLOCK_MONOTONIC; until 0: it reported none. */
	uint64_t api_from, api_until;
	uint64_t last_ns; /* when the last record arrived, CLOCK_MONOTONIC */
};

struct gpu_call_context { /* of calls, in the current pass */
	struct op_context at;
	uint64_t annotation_slice; /* the innermost annotation or step, 0: none */
	const char *annotation_name;
	bool annotation_within; /* model.when */
};

struct gpu_call { /* of the runtime or driver API */
	/* of CUPTI's until the clocks are known, as in struct gpu_work */
	uint64_t begin_ns, end_ns;
	const struct ptb_rec_hdr *rec; /* see struct gpu_slice */
	const char *name, *kernel_name;
	uint64_t work_ns; /* kernels, copies, fills that it launched */
	uint32_t tgid, tid, correlation;
	uint32_t call_context; /* of the current pass: index */
	uint32_t stack;        /* Python's, recorded with it; 0: none */
	bool driver, host_only;
	/* inside the runtime call that has the same number, or makes it: not emitted */
	bool nested;
};

struct gpu_work { /* all that runs on a device, and overhead */
	uint64_t begin_ns, end_ns;
	const struct ptb_rec_hdr *rec;
	const char *name;
	uint32_t tgid, device, context, stream, correlation;
	uint32_t call; /* that launched it, GPU_NONE */
	enum gpu_what what;
	bool before_launch;
	bool outside; /* of the window: not emitted */
};

struct gpu_bytes;

struct gpu_stack { /* Python's last one that was recorded on a thread */
	uint64_t ts_ns;
	uint32_t stack;
};

/* ---- gpu_graph.c ---- */

struct gpu_node { /* of a CUDA graph, as it was captured */
	uint64_t at_ns, node;
	uint32_t tgid, tid;
	uint32_t origin; /* of the current pass: index; GPU_NONE: not within the window */
};

struct gpu_graphs {
	struct gpu_node *nodes; /* in order of time */
	uint32_t node_cnt, node_cap;
	struct hashmap node_ids;  /* (node, tgid) -> index */
	struct hashmap originals; /* (node, tgid) -> node of which it is a copy */
	/* of the current pass */
	struct gpu_origin *origins;
	uint32_t origin_cnt, origin_cap;
	uint32_t next; /* nodes before this one are placed */
};

void gpu_graph__add(struct gpu_graphs *gg, const struct ptb_gpu_graph_node *r);
void gpu_graph__order(struct gpu_graphs *gg); /* once all are there */
void gpu_graph__free(struct gpu_graphs *gg);
void gpu_graph__begin(struct gpu_graphs *gg); /* of a pass */
/* Places the nodes that were captured before ts. */
void gpu_graph__until(struct model *m, uint64_t ts);
/* What was open when the node of process tgid, or what it is a copy of, was captured; NULL: that
 * was not recorded. */
const struct gpu_origin *gpu_graph__origin(const struct gpu_graphs *gg, uint32_t tgid,
					   uint64_t node);

struct gpu {
	struct facts *facts;
	struct gpu_bytes *bytes; /* copies of records */
	struct hashmap copies;   /* (hash, length) -> copy */
	struct gpu_proc *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids; /* tgid -> index */
	struct gpu_call *calls;  /* in order of begin, outer ones first */
	uint32_t call_cnt, call_cap;
	struct gpu_work *works; /* by device, stream, begin */
	uint32_t work_cnt, work_cap;
	struct gpu_call_context *call_contexts;
	uint32_t call_context_cnt, call_context_cap;
	struct hashmap device_by_id;           /* (tgid, device) -> struct ptb_gpu_device * */
	const struct ptb_gpu_device **devices; /* one per id, by id */
	uint32_t device_cnt, device_cap;
	struct hashmap names; /* name id -> text as it is shown */
	struct gpu_stack *stacks;
	uint32_t stack_cnt, stack_cap;
	struct hashmap stack_ids; /* (tgid, tid) -> index */
	struct gpu_graphs graphs;
	uint64_t begin_ns, end_ns;
	uint64_t clock_err_ns;
	uint32_t clock_cnt;
	uint64_t bad, outside, no_clock, host_dropped;
	uint64_t wrong_times; /* that nothing can have had: CUPTI's clock is wrong */
};

/* Reads what the capture has, between the two times. *out is NULL where there is nothing. */
int gpu__read(struct capture_reader *cr, struct facts *f, uint64_t begin_ns, uint64_t end_ns,
	      struct gpu **out);
void gpu__free(struct gpu *g); /* NULL is fine */
/* NULL: not known */
const struct ptb_gpu_device *gpu__device(const struct gpu *g, uint32_t tgid, uint32_t id);
/* ---- gpu_names.c ---- */

/* A kernel's name demangled, an API call's without its version; interned. */
const char *gpu__kernel_name(struct facts *f, const char *raw);
const char *gpu__api_name(struct facts *f, const char *raw);
/* Of a record of another kind: "Memcpy HtoD (Pageable -> Device)"; interned or a literal. */
const char *gpu__work_name(struct facts *f, const struct ptb_rec_hdr *rec);

/* ---- gpu_order.c ---- */

/* Calls and work in their order, each call with what it launched. */
void gpu__order(struct gpu *g);

#endif /* MODEL_GPU_PRIV_H */
