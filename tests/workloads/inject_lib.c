/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A library to be loaded into a running process: its constructor does all that a constructor may do and that
 * must not show afterwards. Counts itself in the program's `inject_loaded`, where there is one.
 */
#include <errno.h>
#include <fenv.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern int inject_loaded __attribute__((weak));

static __thread char tls_block[512]; /* makes the loader work on thread-local storage */

static void *visitor(void *arg)
{
	memset(tls_block, 1, sizeof(tls_block));
	return arg;
}

__attribute__((target("avx"))) static void spoil_vectors(void)
{
	__asm__ volatile("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\tvpcmpeqd %%xmm1, %%xmm1, %%xmm1\n\t"
			 "vpcmpeqd %%xmm8, %%xmm8, %%xmm8\n\tvpcmpeqd %%xmm15, %%xmm15, %%xmm15\n\t"
			 "vzeroall" ::
				 : "xmm0", "xmm1", "xmm8", "xmm15");
}

__attribute__((constructor)) static void inject_lib_init(void)
{
	pthread_t thread;
	char *block;

	for (int i = 1; i < 40; i++) {
		block = malloc((size_t)i * 997);
		if (block)
			memset(block, i, (size_t)i * 997);
		free(block);
	}
	if (!pthread_create(&thread, NULL, visitor, NULL))
		pthread_join(thread, NULL);
	fesetround(FE_UPWARD);
	if (__builtin_cpu_supports("avx"))
		spoil_vectors();
	errno = EINTR;
	if (&inject_loaded)
		__atomic_fetch_add(&inject_loaded, 1, __ATOMIC_SEQ_CST);
}
