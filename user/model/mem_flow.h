/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who a block of memory belonged to, as torch's memory profiler reports it (pytorch
 * torch/profiler/_memory_profiler.py): blocks become tensors by their addresses, operators'
 * arguments say which operator made, read and changed each of them, and from that follow the
 * categories. Knows no file format and no clock but the capture's.
 *
 * A tensor's block is a key; what an operator changes in place gets a new version. A row is what
 * happened to one version of one key.
 *
 * Works on what a sink has received, after the run: all operators with tensors and all allocations
 * of the window are kept: 56 bytes for each operator, 32 for each of its tensors; with all that is
 * made of them some 250 bytes for each operator of a training loop.
 */
#ifndef MODEL_MEM_FLOW_H
#define MODEL_MEM_FLOW_H

#include "model/session.h"

/* In torch's order: the numbers that its files carry. */
enum mem_category {
	MEM_PARAMETER,
	MEM_OPTIMIZER_STATE,
	MEM_INPUT,
	MEM_TEMPORARY,
	MEM_ACTIVATION,
	MEM_GRADIENT,
	MEM_AUTOGRAD_DETAIL,
	MEM_UNKNOWN,
	MEM_CATEGORY_CNT
};

enum mem_action { MEM_PREEXISTING = 1, MEM_CREATE, MEM_INCREMENT_VERSION, MEM_DESTROY };

struct mem_row {
	uint64_t ts_ns; /* CLOCK_MONOTONIC; 0: PREEXISTING */
	uint64_t bytes;
	/* outermost operator that it was allocated in, of the session; "" if not known */
	const char *within;
	/* what mem_flow__memory() was given for its allocation; 0: it was not in the window */
	uint32_t owner;
	int16_t device_type, device_index;
	uint8_t action;        /* enum mem_action */
	uint8_t category;      /* enum mem_category, of the version before it */
	uint8_t next_category; /* INCREMENT_VERSION: of the version after it */
};

/* What categories rest on. */
struct mem_flow_account {
	uint64_t ops, tensors; /* operators whose arguments are known, tensors among them */
	uint64_t cut_ops;      /* operators some of whose arguments were cut */
	/* blocks from before the window that may be inputs, or a cut step's activations */
	uint64_t leftovers;
	/* blocks of which it depends on what Python knows: gradient, state, parameter */
	uint64_t undecided;
	bool too_many;      /* more of them than are kept: there are no categories */
	bool no_parameters; /* what a parameter is could not be seen, see mem_category.c */
};

#define MEM_FLOW_TENSORS_MAX (1u << 24) /* more tensors in arguments than these are not kept */

struct mem_flow;

struct mem_flow *mem_flow__new(bool categories); /* false: all is unknown */
void mem_flow__free(struct mem_flow *mf);

/* For the sink: of one process. */
void mem_flow__slice(struct mem_flow *mf, const struct slice *sl);
void mem_flow__memory(struct mem_flow *mf, const struct memory_event *ev, uint32_t owner);

/* After the run: makes the rows. */
void mem_flow__finish(struct mem_flow *mf);
/* In torch's order: by time, then by action. */
const struct mem_row *mem_flow__rows(const struct mem_flow *mf, uint32_t *cnt);
struct mem_flow_account mem_flow__account(const struct mem_flow *mf);

#endif /* MODEL_MEM_FLOW_H */
