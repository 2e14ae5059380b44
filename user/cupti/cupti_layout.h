/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where things are in CUPTI's activity records, from cupti_activity.h of CUDA 11.8, 12.1, 12.4,
 * 12.8, 13.0 and 13.2. From 11.8 (Kernel8, Memcpy5, Memset4) on records have only grown at their
 * ends, so one table serves all: a field is there when the record is long enough. A test holds it
 * against the real headers, whose names these are.
 */
#ifndef CUPTI_LAYOUT_H
#define CUPTI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_ACTIVITY_OBJECT_THREAD 2
/* clang-format off */
/* CUPTI_INVALID_CHANNEL_ID; _CONTEXT_ID and _STREAM_ID before 13.2 */
#define CUPTI_NONE 0xffffffffu
/* clang-format on */

/* X(record, field, offset, type) */
/* clang-format off */
#define CUPTI_KERNEL_FIELDS(X)                        \
	X(KERNEL, registersPerThread, 6, uint16_t)    \
	X(KERNEL, start, 16, uint64_t)                \
	X(KERNEL, end, 24, uint64_t)                  \
	X(KERNEL, deviceId, 40, uint32_t)             \
	X(KERNEL, contextId, 44, uint32_t)            \
	X(KERNEL, streamId, 48, uint32_t)             \
	X(KERNEL, gridX, 52, int32_t)                 \
	X(KERNEL, gridY, 56, int32_t)                 \
	X(KERNEL, gridZ, 60, int32_t)                 \
	X(KERNEL, blockX, 64, int32_t)                \
	X(KERNEL, blockY, 68, int32_t)                \
	X(KERNEL, blockZ, 72, int32_t)                \
	X(KERNEL, staticSharedMemory, 76, int32_t)    \
	X(KERNEL, dynamicSharedMemory, 80, int32_t)   \
	X(KERNEL, localMemoryPerThread, 84, uint32_t) \
	X(KERNEL, correlationId, 92, uint32_t)        \
	X(KERNEL, queued, 120, uint64_t)              \
	X(KERNEL, submitted, 128, uint64_t)           \
	X(KERNEL, graphNodeId, 144, uint64_t)         \
	X(KERNEL, graphId, 156, uint32_t)             \
	X(KERNEL, channelID, 168, uint32_t)           \
	X(KERNEL, channelType, 172, uint32_t)
/* clang-format on */
#define CUPTI_KERNEL11_FIELDS(X) X(KERNEL, priority, 216, int32_t) /* since 13.1 */

/* clang-format off */
#define CUPTI_COPY_FIELDS(X)                  \
	X(COPY, copyKind, 4, uint8_t)         \
	X(COPY, srcKind, 5, uint8_t)          \
	X(COPY, dstKind, 6, uint8_t)          \
	X(COPY, bytes, 8, uint64_t)           \
	X(COPY, start, 16, uint64_t)          \
	X(COPY, end, 24, uint64_t)            \
	X(COPY, deviceId, 32, uint32_t)       \
	X(COPY, contextId, 36, uint32_t)      \
	X(COPY, streamId, 40, uint32_t)

#define CUPTI_MEMCPY_FIELDS(X)                \
	X(MEMCPY, correlationId, 44, uint32_t) \
	X(MEMCPY, graphNodeId, 64, uint64_t)  \
	X(MEMCPY, graphId, 72, uint32_t)      \
	X(MEMCPY, channelID, 76, uint32_t)    \
	X(MEMCPY, channelType, 80, uint32_t)

#define CUPTI_PEER_FIELDS(X)                  \
	X(PEER, srcDeviceId, 44, uint32_t)    \
	X(PEER, srcContextId, 48, uint32_t)   \
	X(PEER, dstDeviceId, 52, uint32_t)    \
	X(PEER, dstContextId, 56, uint32_t)   \
	X(PEER, correlationId, 60, uint32_t)  \
	X(PEER, graphNodeId, 72, uint64_t)    \
	X(PEER, graphId, 80, uint32_t)        \
	X(PEER, channelID, 84, uint32_t)      \
	X(PEER, channelType, 88, uint32_t)

#define CUPTI_MEMSET_FIELDS(X)                \
	X(MEMSET, value, 4, uint32_t)         \
	X(MEMSET, bytes, 8, uint64_t)         \
	X(MEMSET, start, 16, uint64_t)        \
	X(MEMSET, end, 24, uint64_t)          \
	X(MEMSET, deviceId, 32, uint32_t)     \
	X(MEMSET, contextId, 36, uint32_t)    \
	X(MEMSET, streamId, 40, uint32_t)     \
	X(MEMSET, correlationId, 44, uint32_t) \
	X(MEMSET, memoryKind, 50, uint16_t)   \
	X(MEMSET, graphNodeId, 64, uint64_t)  \
	X(MEMSET, graphId, 72, uint32_t)      \
	X(MEMSET, channelID, 76, uint32_t)    \
	X(MEMSET, channelType, 80, uint32_t)

#define CUPTI_API_FIELDS(X)                   \
	X(API, cbid, 4, uint32_t)             \
	X(API, start, 8, uint64_t)            \
	X(API, end, 16, uint64_t)             \
	X(API, threadId, 28, uint32_t)        \
	X(API, correlationId, 32, uint32_t)   \
	X(API, returnValue, 36, uint32_t)

#define CUPTI_OVERHEAD_FIELDS(X)              \
	X(OVERHEAD, overheadKind, 4, uint32_t) \
	X(OVERHEAD, objectKind, 8, uint32_t)  \
	X(OVERHEAD, start, 24, uint64_t)      \
	X(OVERHEAD, end, 32, uint64_t)
/* clang-format on */
#define OVERHEAD_THREAD 16 /* objectId.pt.threadId */

/* clang-format off */
#define CUPTI_SYNC_FIELDS(X)                  \
	X(SYNC, type, 4, uint32_t)            \
	X(SYNC, start, 8, uint64_t)           \
	X(SYNC, end, 16, uint64_t)            \
	X(SYNC, correlationId, 24, uint32_t)  \
	X(SYNC, contextId, 28, uint32_t)      \
	X(SYNC, streamId, 32, uint32_t)       \
	X(SYNC, cudaEventId, 36, uint32_t)

#define CUPTI_EVENT_FIELDS(X)                 \
	X(EVENT, correlationId, 4, uint32_t)  \
	X(EVENT, contextId, 8, uint32_t)      \
	X(EVENT, streamId, 12, uint32_t)      \
	X(EVENT, eventId, 16, uint32_t)
#define CUPTI_EVENT2_FIELDS(X)                /* since 12.8 */ \
	X(EVENT, deviceId, 24, uint32_t)      \
	X(EVENT, deviceTimestamp, 40, uint64_t)

#define CUPTI_ALL_FIELDS(X)                                                             \
	CUPTI_KERNEL_FIELDS(X) CUPTI_KERNEL11_FIELDS(X) CUPTI_COPY_FIELDS(X)            \
	CUPTI_MEMCPY_FIELDS(X) CUPTI_PEER_FIELDS(X) CUPTI_MEMSET_FIELDS(X) CUPTI_API_FIELDS(X) \
	CUPTI_OVERHEAD_FIELDS(X) CUPTI_SYNC_FIELDS(X) CUPTI_EVENT_FIELDS(X) CUPTI_EVENT2_FIELDS(X)
/* clang-format on */

enum cupti_offsets {
#define X(record, field, off, type) record##_##field = off,
	CUPTI_ALL_FIELDS(X)
#undef X
};
#define X(record, field, off, type) typedef type record##_##field##_t;
CUPTI_ALL_FIELDS(X)
#undef X

/* FIELD(bytes, KERNEL, start); HAS_FIELD: is the record of so many bytes long enough? */
/* clang-format off */
#define FIELD(bytes, record, field)                                            \
	__extension__({                                                        \
		record##_##field##_t value_;                                   \
		__builtin_memcpy(&value_, (bytes) + record##_##field, sizeof(value_)); \
		value_;                                                        \
	})
/* clang-format on */
#define HAS_FIELD(len, record, field) ((len) >= record##_##field + sizeof(record##_##field##_t))

#endif /* CUPTI_LAYOUT_H */
