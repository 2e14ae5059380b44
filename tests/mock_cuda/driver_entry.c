/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libcuda.so.1: the exported functions and the table behind them, which a tool replaces by its own.
 *   MOCK_CUDA_INIT_MS=N  what cuInit() takes; half of it before it calls what CUDA_INJECTION64_PATH names
 */
#include "driver.h"
#include "mock_tools.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEAD 0x321cba00

static int state;
static enum { NOT_YET, STARTING, STARTED } initialized;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER; /* as long as cuInit() runs */
static __thread bool is_starting;

#define X(name, args, names) CUresult(*name) args;
static struct {
	DRIVER_CALLS(X)
} table =
#undef X
#define X(name, args, names) .name = work_##name,
	{ DRIVER_CALLS(X) };
#undef X

/* clang-format off */
#define X(name, args, names)                     \
	CUresult name args                       \
	{                                        \
		if (state == DEAD)               \
			return CUDA_ERROR_DEINITIALIZED; \
		return table.name names;         \
	}                                        \
                                                 \
	static CUresult told_##name args         \
	{                                        \
		CUresult result;                 \
                                                 \
		mock_call_begin(MOCK_DRIVER, #name); \
		result = work_##name names;      \
		mock_call_end(result);           \
		return result;                   \
	}
/* clang-format on */
DRIVER_CALLS(X)
#undef X

void mock_driver__set_tools(bool on)
{
#define X(name, args, names)                                                                       \
	__atomic_store_n(&table.name, on ? told_##name : work_##name, __ATOMIC_RELEASE);
	DRIVER_CALLS(X)
#undef X
}

bool mock_cuda_initialized(bool starting)
{
	return __atomic_load_n(&initialized, __ATOMIC_ACQUIRE) >= (starting ? STARTING : STARTED);
}

bool mock_driver__started(void)
{
	if (is_starting) {
		fprintf(stderr, "mock_cuda: the driver is called from within its cuInit()\n");
		abort();
	}
	pthread_mutex_lock(&init_lock);
	pthread_mutex_unlock(&init_lock);
	return mock_cuda_initialized(false);
}

/* As the real one: loads the library of CUDA_INJECTION64_PATH and calls its initialisation. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*start)(void) = lib ? (int (*)(void))(uintptr_t)dlsym(lib, "InitializeInjection") : NULL;

	if (start)
		start();
}

static void start(void)
{
	const char *ms = getenv("MOCK_CUDA_INIT_MS");
	useconds_t us = ms ? (useconds_t)atoi(ms) * 500 : 0;

	__atomic_store_n(&initialized, STARTING, __ATOMIC_RELEASE);
	is_starting = true;
	usleep(us);
	inject();
	usleep(us);
	is_starting = false;
	__atomic_store_n(&initialized, STARTED, __ATOMIC_RELEASE);
}

CUresult cuInit(unsigned int flags)
{
	int error;

	if (mock_cuda_must_fail("cuInit", &error))
		return error;
	__asm__ volatile("" : : "r"(&table), "r"(&state) : "memory"); /* others may change them */
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&init_lock);
	if (initialized == NOT_YET)
		start();
	pthread_mutex_unlock(&init_lock);
	return CUDA_SUCCESS;
}
