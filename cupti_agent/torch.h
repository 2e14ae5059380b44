/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent calls in libtorch: pytorch ATen/record_function.h in C, by mangled name.
 */
#ifndef TORCH_H
#define TORCH_H

#include "agent.h"

/* at::RecordFunctionCallback, passed by value */
struct torch_callback {
	void *(*start)(void **context, const void *rf); /* returns where its unique_ptr is */
	void (*end)(const void *rf, void *context);
	double sampling;
	bool scopes[10];
	bool needs_inputs, needs_outputs, needs_ids;
};
_Static_assert(sizeof(struct torch_callback) == 40, "a copy of it is on the callee's stack");

struct torch_funcs {
	uint64_t (*add_global_callback)(struct torch_callback cb);
	void (*remove_callback)(uint64_t handle);
	const char *(*name)(const void *rf); /* these are only needed to check the layout: */
	uint64_t (*num_inputs)(const void *rf);
	uint64_t (*num_outputs)(const void *rf);
	uint64_t (*current_thread_id)(void);
};

/* The functions of the libtorch in this process; NULL: none yet. Waits for the loader, so for an
 * import of torch that is going on. */
const struct torch_funcs *torch__find(void);

/*
 * Every thread takes a lock of torch's when it first runs an operator and after each change of the
 * callbacks. A child that is forked just then would wait for it for ever: its copy is freed for it.
 * Once, after `start` was registered: finds the lock. In the child: frees it.
 */
void torch__find_lock(void *start);
void torch__forked(void);

#endif /* TORCH_H */
