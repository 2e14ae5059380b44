/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * key_averages(): sums over slices by name, with torch's rules (formats: pytorch
 * torch/autograd/profiler_util.py): children fold into a parent of the same name when they are its
 * only child, ProfilerStep#<n> is one row. Calls to CUDA's API are rows and children of what they
 * are made in. Synchronisation and events are no rows: they are no work of a device (torch adds
 * them to its time). A sink of the session; the table and JSON are printed from it.
 */
#ifndef MODEL_KEY_AVERAGES_H
#define MODEL_KEY_AVERAGES_H

#include "model/session.h"

struct ka_row {
	const char *key;
	bool is_annotation;
	bool is_instant; /* [memory], [OutOfMemory]: events of memory, not slices */
	/* of its first event, as in a trace: "cpu_op", "kernel"; NULL: not said */
	const char *category;
	uint64_t count;
	uint64_t cpu_total_ns, self_cpu_ns;
	uint64_t first_begin_ns; /* order of first appearance */
	const char *shapes;      /* Python list text "[[2, 3], []]"; "" when not grouped by shape */
	const char *stack;       /* of opts.stack_text; "" when not grouped by it */
	uint64_t flops;          /* sum; 0 when not asked for */
	/* a row of GPU work: kernels, copies, fills by name, annotations on devices */
	bool is_device;
	/* GPU work launched in it; of a device row: itself */
	uint64_t device_total_ns, self_device_ns;
	int64_t cpu_mem, self_cpu_mem, device_mem, self_device_mem; /* bytes; 0 when not recorded */
	uint64_t wait_ns[WAITS_CNT]; /* of self_cpu_ns; 0 when not recorded */
};

/* A slice that torch lists, and what it lists it with. */
struct ka_event {
	const struct slice *sl;
	uint64_t self_cpu_ns, self_device_ns;
};

struct ka_opts {
	bool by_shape; /* torch's group_by_input_shape */
	bool with_flops;
	bool exact_memory; /* what an operator's own thread did in it; false: torch's rule */
	/* Rows are also by what this says of a slice (torch's group_by_stack_n); "": nothing. No
	 * such function: they are not */
	const char *(*stack_text)(void *arg, const struct slice *sl);
	void *stack_arg;
	/*
	 * Each event, NULL: not wanted. Gives it a number, by which take_back() takes it back when
	 * its parent swallows it.
	 */
	void (*event)(void *arg, const struct ka_event *ev, uint64_t *nr);
	void (*take_back)(void *arg, uint64_t nr);
	void *event_arg;
};

struct key_averages;
struct key_averages *key_averages__new(const struct ka_opts *opts); /* opts NULL: none */
void key_averages__free(struct key_averages *ka);
struct session_sink key_averages__sink(struct key_averages *ka);
/* Rows after the run, in order of first appearance; valid until free. */
const struct ka_row *key_averages__rows(struct key_averages *ka, uint32_t *cnt);

#endif /* MODEL_KEY_AVERAGES_H */
