/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the PyTorch wheels that tests may use, and runs Python programs with them. */
#ifndef TESTS_TORCH_ENV_H
#define TESTS_TORCH_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TORCH_ENV_MAX 8

struct torch_env {
	char root[256];   /* the virtual environment */
	char libs[512];   /* its torch/lib */
	const char *name; /* "torch-2.15.0": last part of root */
};

/* Environments torch-* below ${PTBPF_ENV_DIR:-/var/tmp/ptbpf-envs}; the count. */
size_t torch_env__find(struct torch_env envs[TORCH_ENV_MAX]);
/* Prints what was searched for and returns the exit code of a skipped test. */
int torch_env__skip(void);

/* A Python program that prints lines, then READY, then sleeps until its standard input is closed.
 */
struct torch_child {
	pid_t pid;
	int in;
	char *out; /* what it printed before READY */
};
bool torch_child__start(const struct torch_env *env, const char *code, struct torch_child *child);
void torch_child__stop(struct torch_child *child);

#endif /* TESTS_TORCH_ENV_H */
