/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: the exported functions and the table behind them, which a tool replaces by its own. */
#include "driver.h"
#include "mock_tools.h"

#include <dlfcn.h>
#include <stdlib.h>

#define DEAD 0x321cba00

static int state, initialized;

#define X(name, args, names) CUresult(*name) args;
static struct {
	DRIVER_CALLS(X)
} table =
#undef X
#define X(name, args, names) .name = work_##name,
	{ DRIVER_CALLS(X) };
#undef X

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
DRIVER_CALLS(X)
#undef X

void mock_driver__set_tools(bool on)
{
#define X(name, args, names) __atomic_store_n(&table.name, on ? told_##name : work_##name, __ATOMIC_RELEASE);
	DRIVER_CALLS(X)
#undef X
}

bool mock_cuda_initialized(void)
{
	return __atomic_load_n(&initialized, __ATOMIC_ACQUIRE);
}

/* As the real one: what CUDA_INJECTION64_PATH names is loaded and asked to initialise itself. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*start)(void) = lib ? (int (*)(void))(uintptr_t)dlsym(lib, "InitializeInjection") : NULL;

	if (start)
		start();
}

CUresult cuInit(unsigned int flags)
{
	int error;

	if (mock_cuda_must_fail("cuInit", &error))
		return error;
	__asm__ volatile("" : : "r"(&table), "r"(&state) : "memory"); /* others may change them */
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!__atomic_exchange_n(&initialized, 1, __ATOMIC_ACQ_REL))
		inject();
	return CUDA_SUCCESS;
}
