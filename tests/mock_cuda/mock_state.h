/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Common state of the mock libraries: a device with memory that is counted but never accessed, real host memory,
 * calls that fail on request, counts of calls. It is part of the mock of libcuda; the mock of libcudart uses it as
 * the real one uses the driver.
 */
#ifndef MOCK_STATE_H
#define MOCK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOCK_API __attribute__((visibility("default")))
#define MOCK_WORK static __attribute__((noinline)) /* called by an exported function */

#define MOCK_DEVICE_BYTES (1ULL << 30)     /* what the device has */
#define MOCK_DEVICE_BASE 0x700000000000ULL /* where its addresses begin: none is mapped */
#define MOCK_GRANULARITY (2ULL << 20)      /* of physical and virtual ranges */

/* A range of the device's addresses; 0: the device is full. */
uint64_t mock__take(size_t bytes);
/* Its size; 0: no such range. */
size_t mock__give_back(uint64_t addr);
/* As take and give_back, of addresses and of physical memory alone. */
uint64_t mock__reserve(size_t bytes);
uint64_t mock__new_handle(size_t bytes);
bool mock__drop_handle(uint64_t handle);

/* Whether this call must fail now, with which error. Counts the call. */
MOCK_API bool mock_cuda_must_fail(const char *call, int *error);

/* For the test's program: the next `times` calls of that name return `error`. */
MOCK_API void mock_cuda_fail(const char *call, int error, int times);
MOCK_API uint64_t mock_cuda_calls(const char *call);

#endif /* MOCK_STATE_H */
