/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The interpreter's lock: struct _gil_runtime_state (cpython Include/internal/pycore_gil.h). Up to
 * 3.11 it lies in _PyRuntime, from 3.12 on in the interpreter's state. Where in it differs between
 * versions, what it consists of does not: so the only place that looks like it is it.
 */
#include "python/python.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "python/python_priv.h"
#include "target/proc.h"

#define STATE_BYTES 16384u /* that are searched; up to 3.15 it ends before 8192 */
#define INTERVAL_MAX (1ull << 40)
#define TRIES 20
#define PAUSE_NS 1000000

/* pthread_mutex_t: lock (0 to 2), count (0: not recursive); owner, users; kind (normal but for the
 * bits for lock elision); links of a robust mutex (none) */
#define MUTEX_ELISION 0x300u

static bool is_mutex(const uint64_t m[5])
{
	return m[0] <= 2 && !((uint32_t)m[2] & ~MUTEX_ELISION) && !m[3] && !m[4];
}

/* pthread_cond_t: a flag says that its clock is the monotonic one, which CPython asks for. glibc
 * 2.41 has moved its word. */
#define COND_MONOTONIC (2ull << 32)

static bool is_cond(const uint64_t c[6])
{
	return (c[3] | c[4]) & COND_MONOTONIC;
}

static bool is_gil(const struct py_gil *g)
{
	return g->interval && g->interval <= INTERVAL_MAX && g->last_holder &&
	       !(g->last_holder & 7) && g->locked <= 1 && is_cond(g->cond) && is_mutex(g->mutex) &&
	       is_cond(g->switch_cond) && is_mutex(g->switch_mutex);
}

size_t py_gil__scan(const uint8_t *bytes, size_t len, struct py_gil *out)
{
	size_t found = len;
	struct py_gil g;

	for (size_t at = 0; at + sizeof(g) <= len; at += 8) {
		memcpy(&g, bytes + at, sizeof(g));
		if (!is_gil(&g))
			continue;
		if (found != len)
			return len;
		found = at;
		*out = g;
	}
	return found;
}

static void fill(uint64_t addr, const struct ptb_py_layout *l, struct ptb_py_gil *out)
{
	*out = (struct ptb_py_gil){
		.start = addr,
		.end = addr + sizeof(struct py_gil),
		.last_holder = addr + offsetof(struct py_gil, last_holder),
		.tstate_thread_id = l->off.tstate_thread_id,
	};
}

/* 0; -EAGAIN: it is not there, or its holder changes. */
static int find_once(pid_t pid, const struct py_interp *pi, struct ptb_py_gil *out)
{
	const struct ptb_py_layout *l = &pi->layout;
	uint64_t state = l->version < PY_VERSION_OF(12) ? pi->runtime : pi->main;
	uint8_t bytes[STATE_BYTES];
	ssize_t len = remote__read_some(pid, state, bytes, sizeof(bytes));
	struct py_gil gil;
	size_t at;

	if (len < 0)
		return (int)len;
	at = py_gil__scan(bytes, (size_t)len, &gil);
	if (at == (size_t)len || (gil.locked && !py_tstate__thread(pid, l, gil.last_holder)))
		return -EAGAIN;
	fill(state + at, l, out);
	return 0;
}

int py_gil__find(pid_t pid, const struct py_interp *pi, struct ptb_py_gil *out)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int err = find_once(pid, pi, out);

	for (uint32_t i = 1; i < TRIES && err == -EAGAIN; i++) {
		nanosleep(&pause, NULL);
		err = find_once(pid, pi, out);
	}
	return err == -EAGAIN ? -ENOENT : err;
}
