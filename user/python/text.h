/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What CPython's objects mean: line tables and texts, out of bytes that were copied from a process. Knows no process;
 * all input is hostile.
 */
#ifndef PYTHON_TEXT_H
#define PYTHON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptb_python.h"

#define PY_TEXT_MAX 4096 /* bytes of UTF-8 with the NUL; a longer text is cut */
#define PY_LINE_TABLE_MAX (1u << 20)

#define PY_NO_LINE (-1)

/*
 * The line of the instruction at a byte offset into a code object's bytecode. at < 0: not begun, which is the first
 * line; PY_NO_LINE: the instruction belongs to none, or the table does not cover it.
 */
int32_t py_line__find(enum ptb_py_lines form, const uint8_t *table, size_t len, int32_t first,
		      int32_t at);

/* How a str object keeps its characters, by the words str_state and str_length of it. */
struct py_str {
	uint32_t char_size; /* 1, 2, 4 */
	uint32_t size;      /* bytes to read, at most PY_TEXT_MAX */
	uint32_t data;      /* where they are in the object */
	bool cut;           /* it is longer */
};

/* False: a legacy str whose characters are elsewhere, or none. */
bool py_str__parse(const struct ptb_py_offsets *off, uint32_t state, uint64_t length, struct py_str *out);
/* To UTF-8; a lone surrogate becomes U+FFFD. Terminated; the number of bytes. *cut: some did not fit. */
size_t py_str__to_utf8(const struct py_str *s, const uint8_t *bytes, char *buf, size_t cap, bool *cut);

#endif /* PYTHON_TEXT_H */
