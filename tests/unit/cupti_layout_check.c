/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's table of records against a real cupti_activity.h: compiled by test_cupti_layout.py once per set of
 * headers, which says which record is that version's. As a program it prints kinds and sizes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_version.h>

/* Ours has the same names for numbers that are the headers'. */
enum {
	REAL_SUCCESS = CUPTI_SUCCESS,
	REAL_MULTIPLE = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
	REAL_FORCED = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED,
	REAL_SYSTEM = CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM,
	REAL_THREAD = CUPTI_ACTIVITY_OBJECT_THREAD,
	REAL_DRIVER = CUPTI_CB_DOMAIN_DRIVER_API,
	REAL_RUNTIME = CUPTI_CB_DOMAIN_RUNTIME_API,
};
#include "cupti_layout.h"

_Static_assert(REAL_SUCCESS == CUPTI_SUCCESS && REAL_MULTIPLE == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
		       REAL_FORCED == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED &&
		       REAL_SYSTEM == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM &&
		       REAL_THREAD == CUPTI_ACTIVITY_OBJECT_THREAD && REAL_DRIVER == CUPTI_CB_DOMAIN_DRIVER_API &&
		       REAL_RUNTIME == CUPTI_CB_DOMAIN_RUNTIME_API,
	       "numbers");
#define X(name, nr, bytes) _Static_assert((int)CUPTI_ACTIVITY_KIND_##name == nr, "kind");
CUPTI_KINDS(X)
#undef X

#define IS_AT(type, field, off, is)                                       \
	_Static_assert(offsetof(type, field) == (off), #type "." #field); \
	_Static_assert(sizeof(((type *)0)->field) == sizeof(is), #type "." #field);
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
#define X(record, field, off, type) IS_AT(REAL_MEMCPY, field, off, type) IS_AT(REAL_PEER, field, off, type)
CUPTI_COPY_FIELDS(X)
#undef X
_Static_assert(offsetof(REAL_OVERHEAD, objectId) + offsetof(CUpti_ActivityObjectKindId, pt.threadId) == OVERHEAD_THREAD,
	       "overhead's thread");

/* Kind, bytes of its record, those that the agent needs. */
#define SIZES(X)                                                                                          \
	X(MEMCPY, REAL_MEMCPY) X(MEMSET, REAL_MEMSET) X(DRIVER, REAL_API) X(RUNTIME, REAL_API)            \
	X(CONCURRENT_KERNEL, REAL_KERNEL) X(OVERHEAD, REAL_OVERHEAD) X(MEMCPY2, REAL_PEER)                \
	X(CUDA_EVENT, REAL_EVENT) X(SYNCHRONIZATION, REAL_SYNC)

int main(void)
{
	static const size_t needs[] = {
#define X(name, nr, bytes) [nr] = bytes,
		CUPTI_KINDS(X)
#undef X
	};

	printf("version %d\n", CUPTI_API_VERSION);
#define X(name, type) printf("%d %zu %zu\n", CUPTI_KIND_##name, sizeof(type), needs[CUPTI_KIND_##name]);
	SIZES(X)
#undef X
	return 0;
}
