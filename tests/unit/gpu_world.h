/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A made-up process that uses GPUs, reported to sinks as by the model: slices as they close, then calls in order
 * of time, then work by device, stream and time. For tests of what reads GPU slices.
 */
#ifndef TESTS_GPU_WORLD_H
#define TESTS_GPU_WORLD_H

#include "fake_session.h"

#define GW_ITEMS 8192
#define GW_BEGIN 5000000000ULL
#define GW_DEVICES 2

struct gw_item {
	struct gpu_slice g;
	union ptb_gpu_record rec;
};

struct gpu_world {
	struct session s;
	struct session_sink sink;
	struct session_totals totals;
	struct ptb_gpu_device devices[GW_DEVICES];
	const struct ptb_gpu_device *device_list[GW_DEVICES];
	struct gw_item items[GW_ITEMS];
	uint32_t item_cnt;
	uint32_t emitted_cnt; /* of the last gw__emit(); they are still there */
	uint32_t tgid;
	uint32_t correlation; /* last one given out */
	struct op_context at; /* of what comes next */
	bool host_only;
};

/* An "NVIDIA H100" and an "A100"; has_gpu and a clock error of 500 ns. */
void gw__init(struct gpu_world *w);
/* Where calls that come next are made: tid, operator's slice and name (0, NULL: none), annotation. */
void gw__context(struct gpu_world *w, uint32_t tid, uint64_t op_slice, const char *op,
		 const char *annotation);
int gw__slice(struct gpu_world *w, uint64_t id, const char *name, uint64_t begin, uint64_t end);
int gw__annotation(struct gpu_world *w, uint64_t id, const char *name, uint64_t begin, uint64_t end,
		   uint32_t flags);

/* Calls; a new correlation each. */
struct gw_item *gw__call(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end);
struct gw_item *gw__driver(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end,
			   uint32_t correlation);
/* Work that the call launched (NULL: none is known). */
struct gw_item *gw__kernel(struct gpu_world *w, const char *name, uint32_t device, uint32_t stream,
			   uint64_t begin, uint64_t end, const struct gw_item *call);
struct gw_item *gw__copy(struct gpu_world *w, uint32_t kind, uint64_t bytes, uint32_t device,
			 uint32_t stream, uint64_t begin, uint64_t end, const struct gw_item *call);
struct gw_item *gw__fill(struct gpu_world *w, uint64_t bytes, uint32_t device, uint32_t stream,
			 uint64_t begin, uint64_t end, const struct gw_item *call);
struct gw_item *gw__sync(struct gpu_world *w, uint32_t what, uint32_t stream, uint64_t begin,
			 uint64_t end, const struct gw_item *call);
struct gw_item *gw__event(struct gpu_world *w, uint32_t stream, uint64_t at, const struct gw_item *call);
struct gw_item *gw__overhead(struct gpu_world *w, const char *name, uint64_t begin, uint64_t end);
struct gw_item *gw__gpu_annotation(struct gpu_world *w, const char *name, uint64_t slice,
				   uint32_t stream, uint64_t begin, uint64_t end);

/* Reports all that was made to the sink, in the model's order, and forgets it. */
int gw__emit(struct gpu_world *w);

/*
 * Steps of 10 ms from GW_BEGIN + 10 ms on: copy in, forward, backward on another thread, a collective on the second
 * GPU, a graph, an event that another stream waits for, an optimizer, .item(). Slices are reported at once.
 */
int gw__train(struct gpu_world *w, uint32_t steps);

#endif /* TESTS_GPU_WORLD_H */
