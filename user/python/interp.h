/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The CPython of a running process: found among its mapped files by what they define, its layout verified on live
 * threads. Reads only, from outside; the process runs on.
 */
#ifndef PYTHON_INTERP_H
#define PYTHON_INTERP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_python.h"

#define PY_INTERP_WHY 160

/* Where every code object ends: PyCode_Type.tp_dealloc(), in a part of the interpreter's file that is mapped from start to end. */
struct py_code_end {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint8_t insn[2]; /* a push, which the kernel emulates */
	uint8_t insn_len; /* 0: there is no such instruction, or CPython counts code objects that end itself */
};

struct py_interp {
	char *object; /* path of the file that holds the interpreter, as the process names it */
	uint64_t runtime, main; /* addresses of _PyRuntime and of the main interpreter's state */
	struct ptb_py_layout layout;
	struct py_code_end code_end;
	uint32_t thread_cnt;  /* Python threads of the main interpreter; */
	uint32_t checked_cnt; /* so many were examined, */
	uint32_t verified_cnt; /* and for so many thread state, frames, code objects and lines are what they should be */
	uint32_t sub_cnt; /* other interpreters of the process */
	bool late;        /* with why: to find out took too long, so it should not be tried again */
	char why[PY_INTERP_WHY]; /* why stacks cannot be read; "": they can */
};

/*
 * 0: it was verified; -ENOTSUP: it is not usable, see why; -ENOENT: no mapped file defines an interpreter; another
 * negative errno. *out needs py_interp__clear() with 0 and -ENOTSUP.
 */
int py_interp__find(pid_t pid, struct py_interp *out);
void py_interp__clear(struct py_interp *pi);

/* Addresses of the thread states of the main interpreter, at most max; their number, or negative errno. */
int py_interp__threads(pid_t pid, const struct py_interp *pi, uint64_t *tstates, uint32_t max);

#endif /* PYTHON_INTERP_H */
