/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where CPython (3.14 and later) wants a script's name for remote execution (PEP 768), read off the table that
 * the interpreter carries for that purpose: Include/internal/pycore_debug_offsets.h. The groups between those
 * that are needed grow from version to version, so the last one is found by its shape, and all is checked
 * against the live interpreter. Hostile bytes: everything is bounded.
 */
#ifndef INJECT_PY_REMOTE_H
#define INJECT_PY_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PY_OFFSETS_READ 2048 /* of _PyRuntime, more than the table has */

struct py_offsets {
	uint32_t minor;
	bool free_threaded;
	uint64_t interpreters_head;        /* in _PyRuntime */
	uint64_t threads_main, enabled;    /* in PyInterpreterState */
	uint64_t eval_breaker, support;    /* in PyThreadState */
	uint64_t pending, path, path_size; /* in it, at support */
};

/* 0, or -ENOTSUP and a sentence (static storage). */
int py_offsets__parse(const uint8_t *bytes, size_t len, struct py_offsets *out, const char **why);

struct py_remote {
	struct py_offsets off;
	uint64_t interp, tstate; /* the main interpreter, the main thread */
};

/* 0; -ENOTSUP: it has none, or one that is switched off (why: a sentence). */
int py_remote__find(pid_t pid, struct py_remote *out, const char **why);

#endif /* INJECT_PY_REMOTE_H */
