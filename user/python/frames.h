/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames and code objects of a process, read from outside while it runs: whatever is read may have changed since, so
 * an error means "not now". Bounded on any memory.
 */
#ifndef PYTHON_FRAMES_H
#define PYTHON_FRAMES_H

#include <stdint.h>
#include <sys/types.h>

#include "ptb_python.h"
#include "python/text.h"

struct py_frame {
	uint64_t code;
	int32_t at;  /* bytes into its bytecode; negative: not begun */
	bool native; /* native frames lie between it and its caller */
};

/* The frames of a thread, innermost first. Their number; -EFAULT: not readable; -EINVAL: no such frames. */
int py_frames__walk(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate, struct py_frame *out,
		    uint32_t max);

struct py_code {
	char file[PY_TEXT_MAX], name[PY_TEXT_MAX]; /* name: qualified where the version has it */
	int32_t first;
	uint32_t check; /* bpf/py_check.h */
	uint8_t *table; /* from malloc */
	uint32_t table_len;
	bool cut; /* a text is longer, or the table too long to be read */
};

/* 0; -EINVAL: it is no code object; another negative errno. *out needs py_code__clear() on success. */
int py_code__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out);
void py_code__clear(struct py_code *code);
/* The class's name; like py_code__read(). */
int py_class__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out);
int32_t py_code__line(const struct py_code *code, const struct ptb_py_layout *l, int32_t at);

#endif /* PYTHON_FRAMES_H */
