/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds _PyRuntime in the executable or in libpython, whichever exports it, and the main thread's
 * state. */
#define LOG_DOMAIN "inject"
#include "inject/inject_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "target/proc.h"
#include "target/proc_info.h"

/* Words of _Py_DebugOffsets, the same in every version that has remote execution. */
enum {
	W_COOKIE,
	W_VERSION,
	W_FREE_THREADED,
	W_RUNTIME_SIZE,
	W_FINALIZING,
	W_INTERPRETERS_HEAD,
	W_INTERP_SIZE,
	W_ID,
	W_NEXT,
	W_THREADS_HEAD,
	W_THREADS_MAIN,
	W_REST
};
#define STATE_MAX (8u << 20) /* bytes of a PyInterpreterState: some 400 KiB in 3.14 */
#define TSTATE_MAX 65536u
#define PATH_SIZE_MAX 65536u
#define PATH_SIZE_MIN 128u

/* ---- the table ---- */

/*
 * struct _debugger_support: eval_breaker, remote_debugger_support, remote_debugging_enabled,
 * debugger_pending_call, debugger_script_path, debugger_script_path_size. The flag is an int32_t,
 * the first of its struct, and the text's array follows it.
 */
static bool is_support(const uint64_t *w, uint64_t interp_size)
{
	return w[0] % 8 == 0 && w[0] < TSTATE_MAX && w[1] > w[0] && w[1] < TSTATE_MAX &&
	       w[1] % 4 == 0 && w[2] && w[2] < interp_size && w[2] % 4 == 0 && !w[3] &&
	       (w[4] == 4 || w[4] == 8) && w[5] >= PATH_SIZE_MIN && w[5] <= PATH_SIZE_MAX &&
	       !(w[5] & (w[5] - 1));
}

int py_offsets__parse(const uint8_t *bytes, size_t len, struct py_offsets *out, const char **why)
{
	uint64_t w[PY_OFFSETS_READ / 8];
	size_t cnt = (len < sizeof(w) ? len : sizeof(w)) / 8, at = 0;

	memset(out, 0, sizeof(*out));
	memcpy(w, bytes, cnt * 8);
	*why = "its Python is older than 3.14 and does not run remote scripts";
	if (cnt < W_REST + 6 || memcmp(bytes, "xdebugpy", 8) != 0 || w[W_VERSION] >> 24 != 3 ||
	    (w[W_VERSION] >> 16 & 0xff) < 14)
		return -ENOTSUP;
	*why = "its Python's table for debuggers is not supported";
	/* the first: what follows the table is data */
	for (size_t i = W_REST; i + 6 <= cnt && !at; i++)
		if (is_support(w + i, w[W_INTERP_SIZE]))
			at = i;
	if (!at || w[W_INTERP_SIZE] > STATE_MAX || w[W_THREADS_MAIN] >= w[W_INTERP_SIZE] ||
	    w[W_RUNTIME_SIZE] > STATE_MAX || w[W_INTERPRETERS_HEAD] >= w[W_RUNTIME_SIZE] ||
	    w[W_FREE_THREADED] > 1)
		return -ENOTSUP;
	out->minor = (uint32_t)(w[W_VERSION] >> 16 & 0xff);
	out->free_threaded = w[W_FREE_THREADED];
	out->interpreters_head = w[W_INTERPRETERS_HEAD];
	out->threads_main = w[W_THREADS_MAIN];
	out->eval_breaker = w[at];
	out->support = w[at + 1];
	out->enabled = w[at + 2];
	out->pending = w[at + 3];
	out->path = w[at + 4];
	out->path_size = w[at + 5];
	*why = NULL;
	return 0;
}

/* ---- the live interpreter ---- */

static bool read_word(pid_t pid, uint64_t addr, uint64_t *out)
{
	return !remote__read(pid, addr, out, sizeof(*out));
}

/* The thread's state names its interpreter and its thread id; what is not where the table says, is
 * not it. */
static bool is_main_state(pid_t pid, const struct py_remote *pr)
{
	uint64_t cnt = pr->off.support / 8;
	bool interp = false, tid = false;
	struct thread_status st;
	uint64_t *w = xcalloc(cnt + 1, 8);

	if (!thread_status__read(pid, 0, &st) && !remote__read(pid, pr->tstate, w, cnt * 8))
		for (uint64_t i = 0; i < cnt; i++) {
			interp |= i < 8 && w[i] == pr->interp;
			tid |= w[i] == (uint64_t)st.ns_pid;
		}
	free(w);
	return interp && tid;
}

int py_remote__find(pid_t pid, struct py_remote *out, const char **why)
{
	static const char *const name = "_PyRuntime";
	uint64_t runtime;
	uint8_t bytes[PY_OFFSETS_READ];
	int32_t enabled, pending;
	int err;

	memset(out, 0, sizeof(*out));
	*why = "it has no Python interpreter";
	if (python_proc__symbols(pid, &name, 1, &runtime) ||
	    remote__read(pid, runtime, bytes, sizeof(bytes)))
		return -ENOTSUP;
	err = py_offsets__parse(bytes, sizeof(bytes), &out->off, why);
	if (err)
		return err;
	*why = "its Python's table for debuggers is not consistent with its memory";
	if (!read_word(pid, runtime + out->off.interpreters_head, &out->interp) || !out->interp ||
	    !read_word(pid, out->interp + out->off.threads_main, &out->tstate) || !out->tstate ||
	    remote__read(pid, out->interp + out->off.enabled, &enabled, sizeof(enabled)) ||
	    remote__read(pid, out->tstate + out->off.support + out->off.pending, &pending,
			 sizeof(pending)) ||
	    enabled < 0 || enabled > 1 || pending < 0 || pending > 1 || !is_main_state(pid, out))
		return -ENOTSUP;
	*why = !enabled ? "remote debugging is disabled in its Python" :
	       pending  ? "another debugger's script is pending in its Python" :
			  NULL;
	return *why ? -ENOTSUP : 0;
}
