/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reports of the mocks to a tool (the mock of libcupti): calls of both interfaces and work of the mock device.
 * Part of the mock of libcuda, as in reality. Times are CLOCK_MONOTONIC, ns; CUPTI converts them to its clock.
 */
#ifndef MOCK_TOOLS_H
#define MOCK_TOOLS_H

#include "mock_state.h"

enum mock_what {
	MOCK_CALL,
	MOCK_KERNEL,
	MOCK_MEMCPY,
	MOCK_PEER,
	MOCK_MEMSET,
	MOCK_SYNC,
	MOCK_EVENT
};
enum mock_domain { MOCK_DRIVER = 1, MOCK_RUNTIME = 2 }; /* CUpti_CallbackDomain */

struct mock_activity {
	enum mock_what what;
	const char *name; /* of the call, of the kernel */
	uint64_t begin, end, bytes, node, pthread;
	uint32_t correlation, device, context, stream, graph, tid;
	uint32_t grid[3], block[3], shared;
	uint32_t copy_kind, src_kind, dst_kind; /* CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind */
	uint32_t dst_device, value;
	uint32_t event, sync_kind; /* CUpti_ActivitySynchronizationType */
	enum mock_domain domain;
	int result;
	bool nested; /* a call within a call */
};

typedef void (*mock_report_fn)(const struct mock_activity *);

/* NULL: no tool any more. */
MOCK_API void mock_cuda_listen(mock_report_fn report);
MOCK_API extern int mock_cuda_listening;
/* Called for each node of a graph that is made; original: that it is a copy of, NULL: none. NULL: no tool any more. */
typedef void (*mock_node_fn)(const struct mock_activity *node, const struct mock_activity *original);
MOCK_API void mock_cuda_watch_nodes(mock_node_fn node_made);
/* cuInit() has returned; starting: or was called. */
MOCK_API bool mock_cuda_initialized(bool starting);

/* Around a call: calls within calls have the correlation of the outermost. */
MOCK_API void mock_call_begin(enum mock_domain domain, const char *name);
MOCK_API void mock_call_end(int result);

/* Fills in correlation and thread, and reports. */
void mock_tools__report(struct mock_activity *a);
void mock_tools__node_made(const struct mock_activity *node, const struct mock_activity *original);
/* Puts the tools' functions into the driver's table, or the plain ones back (driver_entry.c). */
void mock_driver__set_tools(bool on);
/* cuInit() has returned; waits for a running call, dies if the caller is within it (driver_entry.c). */
bool mock_driver__started(void);
uint64_t mock_tools__now(void);

#endif /* MOCK_TOOLS_H */
