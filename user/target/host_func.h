/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernels of a live process, which the host knows by their stubs. */
#ifndef TARGET_HOST_FUNC_H
#define TARGET_HOST_FUNC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_funcs; /* symbol tables of the libraries that were asked about; one per session */

struct host_funcs *host_funcs__new(void);     /* NULL: out of memory */
void host_funcs__free(struct host_funcs *hf); /* NULL is fine */

/*
 * The kernel that is launched as addr (the first argument of cudaLaunchKernel: a host stub, or from CUDA 13 a
 * handle), demangled as CUPTI names it ("void at::native::f<4>(int)", without "__device_stub__"). hold: of the process
 * (target/pid_hold.h); once it has ended, stubs in mappings that are known are still named. 0, -ENOENT: no library of
 * the process knows it, -ESRCH: it has ended, -ETIMEDOUT, -E2BIG: beyond a limit of LIMIT_KERNEL_*, -ECANCELED: a
 * signal is pending, or another negative errno.
 */
int host_funcs__kernel(struct host_funcs *hf, pid_t pid, int hold, uint64_t addr, char *buf, size_t cap);

#endif /* TARGET_HOST_FUNC_H */
