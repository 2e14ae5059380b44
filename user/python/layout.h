/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The layout of one CPython by its version (schemas/python/): constants for 3.9 to 3.12; from 3.13 on most of it comes
 * from the table that the interpreter has at the start of _PyRuntime for debuggers (struct _Py_DebugOffsets).
 */
#ifndef PYTHON_LAYOUT_H
#define PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "ptb_python.h"

#define PY_DEBUG_OFFSETS_READ 1024 /* of _PyRuntime: more than the table has in any version */
#define PY_OBJECT_OFF_MAX 512      /* no field of a thread, frame or object lies further behind */
#define PY_VERSION_TEXT 32

#define PY_VERSION_OF(minor) (3u << 24 | (uint32_t)(minor) << 16)

/*
 * runtime: the first len bytes of _PyRuntime, as hostile as the process. hint: its version (PY_VERSION_HEX or
 * PY_VERSION_OF()) as far as the file has it, 0: not at all; the table has a version of its own. 0; or
 * -ENOTSUP and *why, half a sentence in static storage; out->version is set if it is known.
 */
int py_layout__fill(const uint8_t *runtime, size_t len, uint32_t hint, struct ptb_py_layout *out,
		    const char **why);

/* "3.14.2", "3.15.0b1", or "3.10" where only that is known. */
void py_version__print(uint32_t version, char buf[PY_VERSION_TEXT]);

#endif /* PYTHON_LAYOUT_H */
