/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What nvcc leaves on the host for kernels: stubs under their kernels' names, stubs under their own, and the
 * static variables in which stubs keep handles (crt/host_runtime.h). */
#include "fake_kernels.h"

void __cudaGetKernel(void **handle, const void *stub) __attribute__((weak));

/* clang-format off */
#define STUB(nr, linkage, symbol)                                  \
	linkage int stub_##nr(void) __asm__(symbol);               \
	__attribute__((noinline, used)) linkage int stub_##nr(void) \
	{                                                          \
		return nr;                                         \
	}
/* clang-format on */

/* clang-format off */
STUB(0, , "_ZN3lib6kernelILi4EfEEvPKT0_i")
STUB(1, static, "_ZL35__device_stub__ZN3lib5otherEPiS0_ilPiS_il")
STUB(2, static, "_ZL20__device_stub__plaini")
STUB(3, , "no_kernel")
/* clang-format on */

static void *handle_0 __asm__("_ZZL33__device_stub__ZN3lib6secondEPiilPiilE8__handle");
static void *handle_1 __asm__("_ZZ28__device_stub__Z5thirdIlEvT_vE8__handle");
static void *not_one __asm__("_ZZ9somethingvE8__handle");

int fake_kernels__fill(struct fake_kernels *k, const void *first, const void *second)
{
	if (__cudaGetKernel)
		return -1;
	*k = (struct fake_kernels){ .stubs = { (const void *)stub_0, (const void *)stub_1,
					       (const void *)stub_2, (const void *)stub_3 } };
	*(void *volatile *)&handle_0 = (void *)first;
	*(void *volatile *)&handle_1 = (void *)second;
	*(void *volatile *)&not_one = (void *)0x1234;
	return 0;
}
