/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The boundary around foreign captures. Whatever reads one runs in a child that can only compute
 * (base/sandbox.h), under limits in proportion to the size of its input: LIMIT_READ_*. The parent,
 * which may be root, opens all files; those that are written get their names when the child has
 * done all of its work, and else are gone. A signal ends the child at once.
 */
#ifndef CLI_READ_CHILD_H
#define CLI_READ_CHILD_H

#include <stddef.h>
#include <stdint.h>

#define READ_CHILD_FILES 8

/* What the child has open. */
struct read_files {
	const int *captures;
	int diff;
	int outputs[READ_CHILD_FILES];
};

struct read_job {
	const char *name; /* of the captures, for messages */
	const char *const *captures;
	uint32_t capture_cnt;
	int capture_fd; /* of one: the open file, which is taken; 0: what has that name is opened */
	const char *diff; /* another capture; NULL: none */
	const char *
		outputs[READ_CHILD_FILES]; /* up to the first NULL: files to write; OUTPUT_STDOUT */
	/* Runs in the child, and logs why it fails. *answer: from malloc, up to answer_max
	 * bytes. */
	int (*fn)(void *arg, const struct read_files *files, uint8_t **answer, size_t *len);
	void *arg;
	size_t answer_max;
};

/* 0 or negative errno, logged unless it is -ECANCELED. *answer, which the caller frees, is as
 * foreign as the captures. */
int read_child__run(const struct read_job *job, uint8_t **answer, size_t *len);

#endif /* CLI_READ_CHILD_H */
