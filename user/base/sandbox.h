/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Runs a function on hostile input in a child process that can only compute: no privileges (a user
 * that has no other process, no capabilities), a seccomp filter that allows memory, time and
 * writing to its own pipes and to what it is given to write, no file but the given descriptors,
 * limits on memory, processor time, wall-clock time and output. It dies with its parent, and nobody
 * can attach to it. What comes back may be anything, since the input may have taken over the child:
 * the caller checks every byte, and runs inputs of different owners in different children.
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

struct sandbox_limits {
	uint64_t mem_bytes; /* address space beyond what the parent has: mapped input and heap */
	uint32_t cpu_s;
	uint32_t wall_ms; /* 0: no limit, as for one that waits for the reader of a pipe */
	size_t out_bytes;
	uint64_t file_bytes; /* of each file that it is given to write */
};

#define SANDBOX_FILES 16

struct sandbox_job {
	const char *what; /* the input, for messages: "'libtorch_cpu.so' of process 12" */
	/* Runs in the child. *out: from malloc, NULL or the answer. 0 or negative errno. Its
	 * messages are printed by the parent. */
	int (*fn)(void *arg, uint8_t **out, size_t *len);
	void *arg;
	const int *fds; /* stay open in the child */
	uint32_t fd_cnt;
	const int *files;  /* likewise, and it may write to them; one that has any runs once */
	uint32_t file_cnt; /* up to SANDBOX_FILES */
	struct sandbox_limits limits;
};

/*
 * Waits for the child, but not longer than until a signal is pending (base/cancel.h). 0 and *out
 * (the caller's to free), *len; fn's own error, with nothing in *out; -ECANCELED: a signal is
 * pending; -ETIMEDOUT, -E2BIG, -EIO (reported once): it was ended at a limit, or by a signal of its
 * own; -EINTR (reported): twice, or while it wrote files, by a signal of somebody else, which says
 * nothing about the input. A child that cannot be ended, since it waits for a file system that does
 * not answer, is left behind; another negative errno (reported): no child could be made, or its
 * answer not be read.
 */
int sandbox__run(const struct sandbox_job *job, uint8_t **out, size_t *len);

/* fn is called every few ms while a child is waited for, so that other work of the caller goes on;
 * it may start no child itself. NULL: none. One for the whole process. */
void sandbox__set_idle(void (*fn)(void *arg), void *arg);
void sandbox__idle(void); /* calls it: for other waits */

#endif /* BASE_SANDBOX_H */
