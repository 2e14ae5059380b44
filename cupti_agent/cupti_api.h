/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent knows of CUPTI's interface: numbers and functions, from cupti_activity.h,
 * cupti_callbacks.h and cupti_result.h of CUDA 11.8 to 13.2, under the headers' names. Of records
 * it knows where a kernel's name and a call's number are; ptbpf has the layouts (user/cupti). A
 * test holds both against the real headers.
 */
#ifndef CUPTI_API_H
#define CUPTI_API_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_OLDEST 18     /* cuptiGetVersion() of 11.8; 13.0 and later: 130000 */
#define CUPTI_NEWEST 139999 /* the last major version whose headers were read */
#define CUPTI_REJECTS 27    /* from 12.9 on a buffer may be refused; before, CUPTI can crash */

#define CUPTI_SUCCESS 0
#define CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED 39
#define CUPTI_ACTIVITY_FLAG_FLUSH_FORCED 1
#define CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM 1
#define CUPTI_CB_DOMAIN_DRIVER_API 1
#define CUPTI_CB_DOMAIN_RUNTIME_API 2
#define CUPTI_CB_DOMAIN_RESOURCE 3
#define CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED 13
#define CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED 20
#define CUPTI_CBIDS 1024 /* calls have smaller numbers */

/* Offsets in records */
#define CUPTI_KERNEL_END 24
#define CUPTI_KERNEL_NAME 104
#define CUPTI_KERNEL_USED 176     /* ptbpf reads nothing behind this, ... */
#define CUPTI_KERNEL_PRIORITY 216 /* ... unless the record has it (13.1 and later) */
#define CUPTI_API_CBID 4

typedef void (*cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				  size_t valid);
typedef void (*cupti_callback_fn)(void *user, uint32_t domain, uint32_t cbid, const void *info);

/* What the callback of the resource domain gets: CUpti_ResourceData, and for graphs
 * CUpti_GraphData */
struct cupti_graph_data {
	void *graph, *original_graph;
	void *node, *original_node;
	/* CUgraphNodeType: 0 kernel, 1 copy, 2 fill; greater: nothing that a device runs */
	int node_type;
	void *dependency, *exec;
};
struct cupti_resource_data {
	void *context, *handle;
	const struct cupti_graph_data *data;
};
#define CUPTI_NODE_TYPES_WORK 3

/* X(member, exported name, arguments, must it be there?); all return CUptiResult */
/* clang-format off */
#define CUPTI_FUNCTIONS(X)                                                                       \
	X(get_version, "cuptiGetVersion", (uint32_t *), 1)                                       \
	X(get_timestamp, "cuptiGetTimestamp", (uint64_t *), 1)                                   \
	X(register_callbacks, "cuptiActivityRegisterCallbacks",                                  \
	  (cupti_request_fn, cupti_complete_fn), 1)                                              \
	X(enable, "cuptiActivityEnable", (int), 1)                                               \
	X(disable, "cuptiActivityDisable", (int), 1)                                             \
	X(flush_all, "cuptiActivityFlushAll", (uint32_t), 1)                                     \
	X(next_record, "cuptiActivityGetNextRecord", (uint8_t *, size_t, uint8_t **), 1)         \
	X(num_dropped, "cuptiActivityGetNumDroppedRecords", (void *, uint32_t, size_t *), 1)     \
	X(subscribe, "cuptiSubscribe", (void **, cupti_callback_fn, void *), 1)                  \
	X(unsubscribe, "cuptiUnsubscribe", (void *), 1)                                          \
	X(enable_callback, "cuptiEnableCallback", (uint32_t, void *, uint32_t, uint32_t), 0)     \
	X(graph_node_id, "cuptiGetGraphNodeId", (void *, uint64_t *), 0)                         \
	X(callback_name, "cuptiGetCallbackName", (uint32_t, uint32_t, const char **), 1)         \
	X(get_thread_id_type, "cuptiGetThreadIdType", (int *), 0)                                \
	X(set_thread_id_type, "cuptiSetThreadIdType", (int), 0)                                  \
	X(enable_runtime_api, "cuptiActivityEnableRuntimeApi", (uint32_t, uint8_t), 0)           \
	X(enable_driver_api, "cuptiActivityEnableDriverApi", (uint32_t, uint8_t), 0)             \
	X(event_times, "cuptiActivityEnableCudaEventDeviceTimestamps", (uint8_t), 0)             \
	X(enabled_kinds, "cuptiActivityGetEnabledKinds", (void *, int *, uint32_t *, uint32_t *), 0)
/* clang-format on */

struct cupti_api {
#define X(member, name, args, needed) int(*member) args;
	CUPTI_FUNCTIONS(X)
#undef X
};

#endif /* CUPTI_API_H */
