/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a CPython keeps threads, frames and code objects: what reads stacks needs to know of one
 * interpreter. The numbers come from schemas/python/ and, from 3.13 on, from the table for
 * debuggers in the interpreter's own memory.
 */
#ifndef PTB_PYTHON_H
#define PTB_PYTHON_H

#include "ptb_event.h" /* fixed-size types, in BPF and in user space */

#define PTB_PY_NONE 0xffffu /* this version has no such field */

/* How a code object maps instructions to lines, and with that the form of an instruction's position
 * in a frame. */
enum ptb_py_lines {
	PTB_PY_LNOTAB = 1, /* 3.9: position in bytes */
	PTB_PY_RANGES,     /* 3.10: position in units of two bytes */
	PTB_PY_LOCATIONS,  /* 3.11: position as a pointer into the bytecode */
};

/* All of one type: user/python/layout.c fills them by number. */
struct ptb_py_offsets {
	/* _PyRuntime: the list of interpreters; the pointer behind it is the main one */
	__u16 runtime_head;
	/* autoTSSkey's key; NONE from 3.15 on, where a thread-local variable replaces it */
	__u16 runtime_key;
	__u16 interp_next, interp_threads;
	__u16 interp_code_ends;         /* how many code objects have ended; NONE up to 3.13 */
	__u16 interp_gc, gc_collecting; /* of the garbage collector: an int, not 0 while it runs */
	__u16 tstate_next, tstate_interp, tstate_thread_id;
	/* NONE: the frame is in the thread state, else in the structure to which this points */
	__u16 tstate_cframe;
	__u16 tstate_frame;
	__u16 frame_code; /* from 3.14 on the low bits are tags: frame_tags */
	__u16 frame_tags; /* bits to clear */
	__u16 frame_previous, frame_instr;
	__u16 frame_locals; /* the function's variables, its arguments first */
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
	/* The way from a thread's pointer to its thread state, also without the GIL: the word at
	 * `slot`, then slot_hops times the word so many bytes behind it. */
	__s32 slot;
	__u32 slot_hops, slot_hop[2];
	/* a probe counts the code objects that end (PTB_PROG_CODE_END): the process's index for it
	 * + 1; 0: none */
	__u32 code_ends;
	__u32 modules; /* 1: of a call of a torch module the stack says which one (PTB_PY_CLASS) */
	/* Of samples, where the process's agent keeps which operators are open (struct
	 * ptb_agent_open): */
	__u64 open_on; /* address of `on`; 0: none does */
	__s64 open_tls;
	struct ptb_py_offsets off;
	__u64 code_type; /* address of PyCode_Type */
	__u64 interp;    /* of the main interpreter's state */
};

/* The lock of an interpreter (GIL): a thread that waits for a futex in it waits for Python. */
struct ptb_py_gil {
	__u64 start, end; /* its addresses, those of its mutexes and conditions included */
	/* Address of the word with the address of the thread state that has the lock or, while it
	 * is free, had it last. That thread may have ended. */
	__u64 last_holder;
	__u64 tstate_thread_id; /* where a thread state has its thread's pointer (pthread_t) */
};

/* What a walk (py_walk.h) reads at once of a thread state, of a frame, of a frame up to 3.10; */
#define PTB_PY_TSTATE_BYTES 192
#define PTB_PY_FRAME_BYTES 80
#define PTB_PY_FRAME_OBJECT_BYTES 112
/* of a code object, from its type to its line table's pointer; the last words of that are constants
 * of the object. */
#define PTB_PY_CODE_WORDS 17
#define PTB_PY_CHECK_WORDS 11
/* from this version on no two code objects of an interpreter have the same co_version */
#define PTB_PY_NUMBERED 0x030c0000u

#ifndef __bpf__
static inline int ptb_py_is_word(__u32 off, __u32 bytes)
{
	return off + 8 <= bytes && !(off & 7);
}

/* Is all that is needed in what is read at once? */
static inline int ptb_py_fits(const struct ptb_py_offsets *off)
{
	__u32 frame = off->lines == PTB_PY_LOCATIONS ? PTB_PY_FRAME_BYTES :
						       PTB_PY_FRAME_OBJECT_BYTES;
	__u32 first = off->tstate_cframe != PTB_PY_NONE ? off->tstate_cframe : off->tstate_frame;
	__u32 code = (__u32)off->code_linetable - off->type;

	return ptb_py_is_word(first, PTB_PY_TSTATE_BYTES) &&
	       ptb_py_is_word(off->tstate_thread_id, PTB_PY_TSTATE_BYTES) &&
	       ptb_py_is_word(off->frame_code, frame) &&
	       ptb_py_is_word(off->frame_previous, frame) &&
	       ptb_py_is_word(off->frame_instr, frame) &&
	       (off->frame_owner == PTB_PY_NONE || off->frame_owner < frame) &&
	       ptb_py_is_word(code, 8 * PTB_PY_CODE_WORDS) && code >= 8 * PTB_PY_CHECK_WORDS &&
	       off->str_state == off->str_length + 16 && off->bytes_size == off->str_length;
}
#endif

#endif /* PTB_PYTHON_H */
