/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a CPython keeps threads, frames and code objects: what reads stacks needs to know of one interpreter. The
 * numbers come from schemas/python/ and, from 3.13 on, from the table for debuggers in the interpreter's own memory.
 */
#ifndef PTB_PYTHON_H
#define PTB_PYTHON_H

#include "ptb_event.h" /* fixed-size types, in BPF and in user space */

#define PTB_PY_NONE 0xffffu /* this version has no such field */

/* How a code object maps instructions to lines, and with that the form of an instruction's position in a frame. */
enum ptb_py_lines {
	PTB_PY_LNOTAB = 1, /* 3.9: position in bytes */
	PTB_PY_RANGES,     /* 3.10: position in units of two bytes */
	PTB_PY_LOCATIONS,  /* 3.11: position as a pointer into the bytecode */
};

/* All of one type: user/python/layout.c fills them by number. */
struct ptb_py_offsets {
	__u16 runtime_head; /* _PyRuntime: the list of interpreters; the pointer behind it is the main one */
	__u16 runtime_key; /* autoTSSkey's key; NONE from 3.15 on, where a thread-local variable replaces it */
	__u16 interp_next, interp_threads;
	__u16 tstate_next, tstate_interp, tstate_thread_id;
	__u16 tstate_cframe; /* NONE: the frame is in the thread state, else in the structure to which this points */
	__u16 tstate_frame;
	__u16 frame_code; /* from 3.14 on the low bits are tags: frame_tags */
	__u16 frame_tags; /* bits to clear */
	__u16 frame_previous, frame_instr;
	__u16 frame_owner;  /* one byte; NONE: all frames are of Python functions */
	__u16 frame_native; /* owners from this number on are no frames of Python functions */
	__u16 code_filename, code_name;
	__u16 code_qualname; /* NONE up to 3.10 */
	__u16 code_firstlineno, code_linetable;
	__u16 code_start; /* its bytecode; NONE up to 3.10 */
	__u16 type, type_name;
	__u16 str_state, str_length, str_ascii, str_compact;
	__u16 bytes_size, bytes_data;
	__u16 lines; /* enum ptb_py_lines */
};

struct ptb_py_layout {
	__u32 version; /* PY_VERSION_HEX; the two lower bytes are 0 where only 3.N is known */
	/* The way from a thread's pointer to its thread state, also without the GIL: the word at `slot`, then slot_hops times the
	 * word so many bytes behind it. */
	__s32 slot;
	__u32 slot_hops, slot_hop[2];
	struct ptb_py_offsets off;
	__u64 code_type; /* address of PyCode_Type */
};

#endif /* PTB_PYTHON_H */
