/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The mock device's streams: work runs in the order of its stream, at computed times. */
#ifndef MOCK_DRIVER_EXEC_H
#define MOCK_DRIVER_EXEC_H

#include "driver.h"
#include "mock_tools.h"

struct CUstream_st {
	uint32_t id;  /* CUPTI's */
	uint64_t end; /* of the last that was put in */
	CUgraph capturing;
};

struct CUfunc_st {
	char name[240];
};

#define MAX_NODES 256
struct CUgraph_st {
	uint32_t id, cnt;
	struct mock_activity nodes[MAX_NODES];
};

/* NULL: the default stream, which CUPTI calls 7. */
struct CUstream_st *exec__stream(CUstream stream);
/* A node's id has the graph's in its upper half, and is unique. original: the node of another graph of which it is a copy. */
void exec__add_node(CUgraph g, const struct mock_activity *a, const struct mock_activity *original);
/* Runs it for so long, or makes a node of it while the stream is captured. */
void exec__put(CUstream stream, struct mock_activity *a, uint64_t ns);
/* As exec__put(), of a node. */
void exec__run(struct CUstream_st *s, struct mock_activity *a, uint64_t ns);
void exec__wait_until(uint64_t ns);
#define EXEC_KERNEL_NS 4000
#define EXEC_NS(bytes) (1000 + (bytes) / 16)

#endif /* MOCK_DRIVER_EXEC_H */
