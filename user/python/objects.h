/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Objects of a CPython in a running process, read from outside. What is read of dict, str, int and
 * tuple has the same place in all versions from 3.9 on, or its content shows which layout it is, so
 * the version need not be known. In builds without the GIL nothing is found. The process runs on
 * and may be hostile: where an object does not look as it should, the functions return false or 0.
 */
#ifndef PYTHON_OBJECTS_H
#define PYTHON_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* The entries of a dict, in order of insertion. A dict of attributes, whose values are in their
 * object, is not read. */
#define PY_DICT_CHUNK 64u
struct py_dict {
	struct py_objects *po;
	uint64_t at; /* entries that were not read yet */
	uint32_t left;
	uint32_t used;     /* of all entries, those that were not deleted */
	uint32_t size;     /* of an entry, bytes */
	uint32_t pos, cnt; /* of those that were read */
	uint64_t words[PY_DICT_CHUNK * 3];
};

bool py_dict__begin(struct py_objects *po, uint64_t obj, struct py_dict *d);
bool py_dict__next(struct py_dict *d, uint64_t *key, uint64_t *value);
/* The value of the key; 0: there is none. */
uint64_t py_dict__by_name(struct py_objects *po, uint64_t obj, const char *name);
uint64_t py_dict__by_object(struct py_objects *po, uint64_t obj, uint64_t key);

#endif /* PYTHON_OBJECTS_H */
