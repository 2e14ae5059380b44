/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libcuda.so.1: the exported functions and the table behind them. */
#include "driver.h"

#define DEAD 0x321cba00

static int state;

#define X(name, args, names) CUresult(*name) args;
static struct {
	DRIVER_MEMORY_CALLS(X)
} table =
#undef X
#define X(name, args, names) .name = work_##name,
	{ DRIVER_MEMORY_CALLS(X) };
#undef X

#define X(name, args, names)                     \
	CUresult name args                       \
	{                                        \
		if (state == DEAD)               \
			return CUDA_ERROR_DEINITIALIZED; \
		return table.name names;         \
	}
DRIVER_MEMORY_CALLS(X)
#undef X

CUresult cuInit(unsigned int flags)
{
	int error;

	if (mock_cuda_must_fail("cuInit", &error))
		return error;
	__asm__ volatile("" : : "r"(&table), "r"(&state) : "memory"); /* others may change them */
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
