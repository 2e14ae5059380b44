/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent and ptbpf know of CUPTI's records against a real cupti_activity.h: compiled by test_cupti_layout.py once per set of
 * headers, which defines the records of that version. As a program it prints kinds and sizes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

/* cuda.h's names of the device attributes that are read */
#define ATTRIBUTE_THREADS_PER_BLOCK CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
#define ATTRIBUTE_SHARED_PER_BLOCK CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK
#define ATTRIBUTE_WARP_SIZE CU_DEVICE_ATTRIBUTE_WARP_SIZE
#define ATTRIBUTE_REGS_PER_BLOCK CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
#define ATTRIBUTE_CLOCK_KHZ CU_DEVICE_ATTRIBUTE_CLOCK_RATE
#define ATTRIBUTE_SM_CNT CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
#define ATTRIBUTE_MEMORY_KHZ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
#define ATTRIBUTE_MEMORY_BITS CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
#define ATTRIBUTE_THREADS_PER_SM CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
#define ATTRIBUTE_MAJOR CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
#define ATTRIBUTE_MINOR CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
#define ATTRIBUTE_SHARED_PER_SM CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
#define ATTRIBUTE_REGS_PER_SM CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR
#define ATTRIBUTE_BLOCKS_PER_SM CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR

/* Ours has the same names for numbers that are the headers'. */
enum {
	REAL_SUCCESS = CUPTI_SUCCESS,
	REAL_MULTIPLE = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
	REAL_FORCED = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED,
	REAL_SYSTEM = CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM,
	REAL_THREAD = CUPTI_ACTIVITY_OBJECT_THREAD,
	REAL_DRIVER = CUPTI_CB_DOMAIN_DRIVER_API,
	REAL_RUNTIME = CUPTI_CB_DOMAIN_RUNTIME_API,
	REAL_RESOURCE = CUPTI_CB_DOMAIN_RESOURCE,
	REAL_CREATED = CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
	REAL_CLONED = CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
};
#include "cupti/cupti_layout.h"
#include "cupti_api.h"
#include "ptb_agent.h"

_Static_assert(REAL_SUCCESS == CUPTI_SUCCESS &&
		       REAL_MULTIPLE == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
		       REAL_FORCED == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED &&
		       REAL_SYSTEM == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM &&
		       REAL_THREAD == CUPTI_ACTIVITY_OBJECT_THREAD &&
		       REAL_DRIVER == CUPTI_CB_DOMAIN_DRIVER_API &&
		       REAL_RUNTIME == CUPTI_CB_DOMAIN_RUNTIME_API &&
		       REAL_RESOURCE == CUPTI_CB_DOMAIN_RESOURCE &&
		       REAL_CREATED == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED &&
		       REAL_CLONED == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
	       "numbers");
#define X(name, nr, bytes, record) _Static_assert((int)CUPTI_ACTIVITY_KIND_##name == nr, "kind");
PTB_CUPTI_KINDS(X)
#undef X

_Static_assert(CU_GRAPH_NODE_TYPE_KERNEL == 0 && CU_GRAPH_NODE_TYPE_MEMCPY == 1 &&
		       CU_GRAPH_NODE_TYPE_MEMSET == 2 && CU_GRAPH_NODE_TYPE_HOST == CUPTI_NODE_TYPES_WORK,
	       "types of nodes");
#define SAME(type, field, ours, our_field)                                                         \
	_Static_assert(offsetof(type, field) == offsetof(struct ours, our_field), #type "." #field)
SAME(CUpti_ResourceData, resourceDescriptor, cupti_resource_data, data);
SAME(CUpti_GraphData, node, cupti_graph_data, node);
SAME(CUpti_GraphData, originalNode, cupti_graph_data, original_node);
SAME(CUpti_GraphData, nodeType, cupti_graph_data, node_type);
_Static_assert(sizeof(CUpti_GraphData) >= sizeof(struct cupti_graph_data), "CUpti_GraphData");

/* clang-format off */
#define IS_AT(type, field, off, is)                                       \
	_Static_assert(offsetof(type, field) == (off), #type "." #field); \
	_Static_assert(sizeof(((type *)0)->field) == sizeof(is), #type "." #field);
/* clang-format on */
#define X(record, field, off, type) IS_AT(REAL_##record, field, off, type)
CUPTI_KERNEL_FIELDS(X)
#ifdef HAS_KERNEL11
CUPTI_KERNEL11_FIELDS(X)
#endif
CUPTI_MEMCPY_FIELDS(X)
CUPTI_PEER_FIELDS(X)
CUPTI_MEMSET_FIELDS(X)
CUPTI_API_FIELDS(X)
CUPTI_OVERHEAD_FIELDS(X)
CUPTI_SYNC_FIELDS(X)
CUPTI_EVENT_FIELDS(X)
#ifdef HAS_EVENT2
CUPTI_EVENT2_FIELDS(X)
#endif
#undef X
#define X(record, field, off, type)                                                                \
	IS_AT(REAL_MEMCPY, field, off, type) IS_AT(REAL_PEER, field, off, type)
CUPTI_COPY_FIELDS(X)
#undef X
_Static_assert(offsetof(REAL_OVERHEAD, objectId) + offsetof(CUpti_ActivityObjectKindId, pt.threadId) ==
		       OVERHEAD_THREAD,
	       "overhead's thread");
_Static_assert(offsetof(REAL_KERNEL, end) == CUPTI_KERNEL_END &&
		       offsetof(REAL_KERNEL, name) == CUPTI_KERNEL_NAME &&
		       offsetof(REAL_API, cbid) == CUPTI_API_CBID,
	       "what the agent reads");
#define X(record, field, off, type)                                                                \
	_Static_assert(off + sizeof(type) <= CUPTI_KERNEL_USED, #field " is not sent");
CUPTI_KERNEL_FIELDS(X)
#undef X
#define X(record, field, off, type)                                                                \
	_Static_assert(off >= CUPTI_KERNEL_PRIORITY, #field " is not sent");
CUPTI_KERNEL11_FIELDS(X)
#undef X
#define X(name, nr) _Static_assert(ATTRIBUTE_##name == nr, "attribute");
PTB_GPU_ATTRS(X)
#undef X

/* Kind, bytes of its record, those that are needed. */
/* clang-format off */
#define SIZES(X)                                                                                          \
	X(MEMCPY, REAL_MEMCPY) X(MEMSET, REAL_MEMSET) X(DRIVER, REAL_API) X(RUNTIME, REAL_API)            \
	X(CONCURRENT_KERNEL, REAL_KERNEL) X(OVERHEAD, REAL_OVERHEAD) X(MEMCPY2, REAL_PEER)                \
	X(CUDA_EVENT, REAL_EVENT) X(SYNCHRONIZATION, REAL_SYNC)
/* clang-format on */

int main(void)
{
	static const size_t needs[] = {
#define X(name, nr, bytes, record) [nr] = bytes,
		PTB_CUPTI_KINDS(X)
#undef X
	};

	printf("version %d\n", CUPTI_API_VERSION);
#define X(name, type)                                                                              \
	printf("%d %zu %zu\n", PTB_CUPTI_##name, sizeof(type), needs[PTB_CUPTI_##name]);
	SIZES(X)
#undef X
	return 0;
}
