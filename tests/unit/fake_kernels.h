/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library with kernels' stubs, for the test of their names. */
#ifndef TESTS_FAKE_KERNELS_H
#define TESTS_FAKE_KERNELS_H

struct fake_kernels {
	const void *stubs[4];
};

/* Puts two handles where stubs keep them, and reports the stubs' addresses. */
int fake_kernels__fill(struct fake_kernels *k, const void *first, const void *second);

#endif /* TESTS_FAKE_KERNELS_H */
