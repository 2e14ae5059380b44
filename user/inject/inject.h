/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loads the agent's library into a running process that was not prepared: only when the user asks
 * for it. On CPython 3.14 and later through the interpreter's own remote execution (PEP 768), else
 * by ptrace: one thread, at a safe point, for a bounded time, everything put back. When in doubt it
 * refuses.
 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct remote_mem;

enum inject_method { INJECT_NONE, INJECT_REMOTE_EXEC, INJECT_PTRACE };

struct inject_opts {
	/* absolute; for a target that has no such file it is copied, while it is loaded */
	const char *lib_path;
	/* opened before anything was learnt of the process, so that a program which it executes
	 * later is not loaded into; NULL: opened now. The caller's to close */
	struct remote_mem *mem;
	uint64_t limit_ns;       /* for all of it; 0: 5 s */
	enum inject_method only; /* for tests: this one or none; INJECT_NONE: as above */
};

struct inject_result {
	enum inject_method method;
	uint64_t stopped_ns; /* how long a thread was stopped or diverted */
	uint32_t tries;      /* ptrace: moments inspected until one was safe */
	char why[256];       /* refused: a sentence */
};

/* 0: the library is loaded (its constructor has run). Negative errno: refused or failed, res->why
 * says why, and the process continues unchanged. */
int inject__load(pid_t pid, const struct inject_opts *opts, struct inject_result *res);

/* "remote execution (PEP 768)", "ptrace" */
const char *inject__method_text(enum inject_method method);

#endif /* INJECT_INJECT_H */
