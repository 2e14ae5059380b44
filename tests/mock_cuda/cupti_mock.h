/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The mock of libcupti. Environment, read at the first call:
 *   MOCK_CUPTI_VERSION=22      result of cuptiGetVersion(); records have that version's layout
 *   MOCK_CUPTI_OFFSET_NS, MOCK_CUPTI_DRIFT_PPM  its clock against CLOCK_MONOTONIC
 *   MOCK_CUPTI_REORDER=1       records of a batch backwards, and those of kernels after everything else
 *   MOCK_CUPTI_DROP=N          each Nth record is dropped and counted
 *   MOCK_CUPTI_FAIL=name:error[,...]  that function returns the error, always
 *   MOCK_CUPTI_BATCH_MS=N      how often its own thread puts records into buffers (10)
 *   MOCK_CUPTI_NESTED=1        the driver's calls within the runtime's are recorded too, with the same correlation
 *   MOCK_CUPTI_WRONG=N         of every Nth call's kernel the times are, in turn: none, reversed, an hour early, an hour late
 *   MOCK_CUPTI_HEAP=1          keeps the buffers' functions outside of its data
 *   MOCK_CUPTI_EARLY=0         refuses calls until cuInit() has returned
 * A function of the interface also fails on request by mock_cuda_fail("cuptiActivityEnable", error, times).
 */
#ifndef MOCK_CUPTI_MOCK_H
#define MOCK_CUPTI_MOCK_H

#include "mock_tools.h"

typedef int CUptiResult;
#define CUPTI_SUCCESS 0
#define CUPTI_ERROR_INVALID_PARAMETER 1
#define CUPTI_ERROR_INVALID_KIND 21
#define CUPTI_ERROR_MAX_LIMIT_REACHED 12
#define CUPTI_ERROR_NOT_INITIALIZED 15
#define CUPTI_ERROR_INVALID_OPERATION 7
#define CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED 39

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void (*callback_fn)(void *user, uint32_t domain, uint32_t cbid, const void *info);

struct mock_cupti_settings {
	uint32_t version, drop, batch_ms;
	int64_t offset, drift_ppm;
	bool reorder, nested, heap, early;
	const char *fail;
	uint32_t wrong;
};
const struct mock_cupti_settings *mock_cupti__settings(void);
uint64_t mock_cupti__time(uint64_t mono_ns);
/* A call of the interface: 0, or the requested error. */
CUptiResult mock_cupti__enter(const char *name);

/* cbid of an exported name without its version, 0: none. */
uint32_t mock_cupti__cbid(enum mock_domain domain, const char *name);

/* The record of an activity; its bytes, at most RECORD_MAX. */
#define RECORD_MAX 256
size_t mock_cupti__record(uint8_t *to, const struct mock_activity *a);
size_t mock_cupti__record_size(const uint8_t *record);
/* CUpti_ActivityKind */
uint32_t mock_cupti__kind(const struct mock_activity *a);

MOCK_API CUptiResult cuptiGetVersion(uint32_t *version);
MOCK_API CUptiResult cuptiGetTimestamp(uint64_t *at);
MOCK_API CUptiResult cuptiSubscribe(void **subscriber, callback_fn callback, void *user);
MOCK_API CUptiResult cuptiUnsubscribe(void *subscriber);
MOCK_API CUptiResult cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t cbid);
MOCK_API CUptiResult cuptiGetGraphNodeId(void *node, uint64_t *id);
MOCK_API CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char **name);
MOCK_API CUptiResult cuptiActivityRegisterCallbacks(request_fn request, complete_fn complete);
MOCK_API CUptiResult cuptiActivityEnable(int kind);
MOCK_API CUptiResult cuptiActivityDisable(int kind);
MOCK_API CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on);
MOCK_API CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on);
MOCK_API CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on);
MOCK_API CUptiResult cuptiActivityFlushAll(uint32_t flag);
MOCK_API CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);
MOCK_API CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
MOCK_API CUptiResult cuptiSetThreadIdType(int type);
MOCK_API CUptiResult cuptiGetThreadIdType(int *type);
MOCK_API CUptiResult cuptiActivityGetEnabledKinds(void *subscriber, int *kinds, uint32_t *size,
						  uint32_t *cnt);

/* For tests: kinds that are enabled now, as bits; records made, and those for which there was no buffer. */
MOCK_API uint64_t mock_cupti_kinds(void);
MOCK_API bool mock_cupti_subscribed(void);
MOCK_API void mock_cupti_pause(bool on); /* no function of a pair is called meanwhile, but by a flush, which waits */
MOCK_API uint64_t mock_cupti_made(void);
MOCK_API uint64_t mock_cupti_lost(void);
/* Bytes of a record of that version. */
MOCK_API size_t mock_cupti_size(uint32_t version, uint32_t kind);
/* Settings are read again. */
MOCK_API void mock_cupti_reload(void);

#endif /* MOCK_CUPTI_MOCK_H */
