/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process that holds the lock of its own memory: it reads a page of a FUSE file through /proc/self/mem, which its server does not answer for
 * HOLD_S. It ends by itself, whatever becomes of the test.
 */
#ifndef TESTS_LOCK_HOLDER_H
#define TESTS_LOCK_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HOLD_S 5

struct lock_holder {
	pid_t pid, server;
	int to, from;
	uint64_t page; /* of the file, in its memory, once it is mapped */
};

/* It maps this file as code. uid: who has mounted the file system of FUSE. False: FUSE is not to be had here. */
bool lock_holder__start(struct lock_holder *h, const char *code, uid_t uid);
void lock_holder__map(struct lock_holder *h); /* the FUSE file */
/* The lock is held for reading when it returns; and, with `block`, another thread waits for it, so that no reader gets it any more. */
void lock_holder__hold(struct lock_holder *h, bool block);
bool lock_holder__was_answered(struct lock_holder *h); /* waits for that; false: the server's connection was aborted */
void lock_holder__end(struct lock_holder *h);

#endif /* TESTS_LOCK_HOLDER_H */
