/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read of a CPython interpreter in a process. */
#ifndef PYTHON_PYTHON_H
#define PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_python.h"

/*
 * The layout of one CPython by its version (schemas/python/): constants for 3.9 to 3.12; from 3.13
 * on most of it comes from the table that the interpreter has at the start of _PyRuntime for
 * debuggers (struct _Py_DebugOffsets).
 */

#define PY_DEBUG_OFFSETS_READ 1024 /* of _PyRuntime: more than the table has in any version */
#define PY_OBJECT_OFF_MAX 512      /* no field of a thread, frame or object lies further behind */
#define PY_VERSION_TEXT 32

#define PY_VERSION_OF(minor) (3u << 24 | (uint32_t)(minor) << 16)

/*
 * runtime: the first len bytes of _PyRuntime, as hostile as the process. hint: its version
 * (PY_VERSION_HEX or PY_VERSION_OF()) as far as the file has it, 0: not at all; the table has a
 * version of its own. 0; or -ENOTSUP and *why, half a sentence in static storage; out->version is
 * set if it is known.
 */
int py_layout__fill(const uint8_t *runtime, size_t len, uint32_t hint, struct ptb_py_layout *out,
		    const char **why);

/* "3.14.2", "3.15.0b1", or "3.10" where only that is known. */
void py_version__print(uint32_t version, char buf[PY_VERSION_TEXT]);

/*
 * What CPython's objects mean: line tables and texts, out of bytes that were copied from a process.
 * Knows no process; all input is hostile.
 */

#define PY_TEXT_MAX 4096 /* bytes of UTF-8 with the NUL; a longer text is cut */
#define PY_LINE_TABLE_MAX (1u << 20)

#define PY_NO_LINE (-1)

/*
 * The line of the instruction at a byte offset into a code object's bytecode. at < 0: not begun,
 * which is the first line; PY_NO_LINE: the instruction belongs to none, or the table does not cover
 * it.
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
bool py_str__parse(const struct ptb_py_offsets *off, uint32_t state, uint64_t length,
		   struct py_str *out);
/* To UTF-8; a lone surrogate becomes U+FFFD. Terminated; the number of bytes. *cut: some did not
 * fit. */
size_t py_str__to_utf8(const struct py_str *s, const uint8_t *bytes, char *buf, size_t cap,
		       bool *cut);

/*
 * The CPython of a running process: found among its mapped files by what they define, its layout
 * verified on live threads. Reads only, from outside; the process runs on.
 */

#define PY_INTERP_WHY 160

/* Where every code object ends: PyCode_Type.tp_dealloc(), in a part of the interpreter's file that
 * is mapped from start to end. */
struct py_code_end {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint8_t insn[2]; /* a push, which the kernel emulates */
	/* 0: there is no such instruction, or CPython counts code objects that end itself */
	uint8_t insn_len;
};

struct py_interp {
	char *object; /* path of the file that holds the interpreter, as the process names it */
	uint64_t runtime, main; /* addresses of _PyRuntime and of the main interpreter's state */
	struct ptb_py_layout layout;
	struct py_code_end code_end;
	uint32_t thread_cnt;  /* Python threads of the main interpreter; */
	uint32_t checked_cnt; /* so many were examined, */
	/* and for so many thread state, frames, code objects and lines are what they should be */
	uint32_t verified_cnt;
	uint32_t sub_cnt; /* other interpreters of the process */
	bool late;        /* with why: to find out took too long, so it should not be tried again */
	char why[PY_INTERP_WHY]; /* why stacks cannot be read; "": they can */
};

/*
 * 0: it was verified; -ENOTSUP: it is not usable, see why; -ENOENT: no mapped file defines an
 * interpreter; another negative errno. *out needs py_interp__clear() with 0 and -ENOTSUP.
 */
int py_interp__find(pid_t pid, struct py_interp *out);
void py_interp__clear(struct py_interp *pi);

/* Addresses of the thread states of the main interpreter, at most max; their number, or negative
 * errno. */
int py_interp__threads(pid_t pid, const struct py_interp *pi, uint64_t *tstates, uint32_t max);

/* Finds the lock (GIL) of an interpreter that was verified. 0; -ENOENT: no place in its state looks
 * like it, or several do; another negative errno. */
int py_gil__find(pid_t pid, const struct py_interp *pi, struct ptb_py_gil *out);

/* How often the garbage collector of the main interpreter has run over each generation. 0 or
 * negative errno. */
#define PY_GENERATIONS 3
int py_gc__collections(pid_t pid, const struct ptb_py_layout *l, uint64_t cnt[PY_GENERATIONS]);

/*
 * Frames and code objects of a process, read from outside while it runs: whatever is read may have
 * changed since, so an error means "not now". Bounded on any memory.
 */

struct py_live_frame {
	uint64_t code;
	int32_t at;  /* bytes into its bytecode; negative: not begun */
	bool native; /* native frames lie between it and its caller */
};

/* The frames of a thread, innermost first. Their number; -EFAULT: not readable; -EINVAL: no such
 * frames. */
int py_frames__walk(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate,
		    struct py_live_frame *out, uint32_t max);

struct py_code {
	char file[PY_TEXT_MAX], name[PY_TEXT_MAX]; /* name: qualified where the version has it */
	int32_t first;
	uint32_t check; /* bpf/py_check.h */
	uint8_t *table; /* from malloc */
	uint32_t table_len;
	bool cut; /* a text is longer, or the table too long to be read */
};

/* 0; -EINVAL: it is no code object; another negative errno. *out needs py_code__clear() on
 * success. */
int py_code__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out);
void py_code__clear(struct py_code *code);
/* The class's name; like py_code__read(). */
int py_class__read(pid_t pid, const struct ptb_py_layout *l, uint64_t addr, struct py_code *out);
int32_t py_code__line(const struct py_code *code, const struct ptb_py_layout *l, int32_t at);

/*
 * Objects of a CPython in a running process, read from outside. What is read of dict, str, int and
 * tuple has the same place in all versions from 3.9 on, or its content shows which layout it is, so
 * the version need not be known. In builds without the GIL nothing is found. The process runs on
 * and may be hostile: where an object does not look as it should, the functions return false or 0.
 */

struct py_objects {
	pid_t pid;
	uint32_t reads_left; /* one for each read; without any left, the functions below fail */
};

#define PY_TYPE_DICT 264u   /* PyTypeObject.tp_dict */
#define PY_MODULE_DICT 16u  /* PyModuleObject.md_dict */
#define PY_FUNC_GLOBALS 16u /* PyFunctionObject.func_globals; in 3.9 the word behind it */

uint64_t py_objects__word(struct py_objects *po, uint64_t addr); /* 0: it cannot be read */

/* ASCII alone, with the NUL at most cap bytes. */
bool py_str__read(struct py_objects *po, uint64_t obj, char *buf, size_t cap);
bool py_int__read(struct py_objects *po, uint64_t obj, uint32_t *v); /* from 0 to 2^30 - 1 */
uint64_t py_tuple__first(struct py_objects *po, uint64_t obj); /* its first item; 0: it is empty */

/* The entries of a dict, in order of insertion, or the attributes of an object. */
#define PY_DICT_CHUNK 64u
struct py_dict {
	struct py_objects *po;
	uint64_t at; /* entries that were not read yet */
	uint32_t left;
	uint32_t used;     /* of all entries, those that were not deleted */
	uint32_t size;     /* of an entry, bytes */
	uint32_t pos, cnt; /* of those that were read */
	uint64_t values;   /* not 0: the next value is there, its key is one that objects share */
	uint64_t words[PY_DICT_CHUNK * 3];
};

bool py_dict__begin(struct py_objects *po, uint64_t obj, struct py_dict *d);
bool py_dict__next(struct py_dict *d, uint64_t *key, uint64_t *value);
/* Of an object of a class that is written in Python and has no __slots__. */
bool py_object__attributes(struct py_objects *po, uint64_t obj, struct py_dict *d);
/* The value of the key or attribute; 0: there is none. */
uint64_t py_object__attribute(struct py_objects *po, uint64_t obj, const char *name);
uint64_t py_dict__by_name(struct py_objects *po, uint64_t obj, const char *name);
uint64_t py_dict__by_object(struct py_objects *po, uint64_t obj, uint64_t key);

/* sys.modules: by a function whose globals have the module `sys`, or of an interpreter (layout).
 * 0: not found. */
uint64_t py_modules__of_func(struct py_objects *po, uint64_t func);
uint64_t py_modules__of_interp(struct py_objects *po, uint64_t interp);

/* Names that Python gives to its threads (threading.Thread.name), ASCII alone. */
#define PY_THREAD_NAME 64
/* Of each running one its number in the process's pid namespace and its name. */
typedef void (*py_thread_fn)(void *arg, uint32_t native_id, const char *name);
void py_threads__names(struct py_objects *po, uint64_t modules, py_thread_fn fn, void *arg);

#endif /* PYTHON_PYTHON_H */
