/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a diverted thread needs to know of its process's code: the loader's and the C library's functions that
 * are called, and the code in which a thread must not be diverted. Reads files and memory, writes nothing.
 */
#ifndef INJECT_TARGET_CODE_H
#define INJECT_TARGET_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/elf_child.h"

enum code_kind {
	CODE_LOADER,    /* ld.so: nothing of it may be on the stack */
	CODE_LIBC,      /* libc, and libpthread and libdl where they are files of their own */
	CODE_ALLOCATOR, /* another library that is malloc here */
};

struct code_object {
	enum code_kind kind;
	uint64_t start, end; /* runtime range of the executable mappings */
	uint64_t load_bias;
	int fd; /* the open file; 0: not open (tests) */
	struct elf_outline outline;
};

struct code_range {
	uint64_t start, end;
	bool calls_out; /* calls functions that it was given, while it holds a lock */
};

#define CODE_OBJECTS_MAX 16
#define CODE_RANGES_MAX 96

struct target_code {
	struct code_object objs[CODE_OBJECTS_MAX];
	uint32_t obj_cnt;
	struct code_range busy[CODE_RANGES_MAX]; /* functions of libc that hold locks of the loader's or the allocator's kind */
	uint32_t busy_cnt;
	uint64_t dlopen; /* runtime addresses */
	uint64_t dlopen_flags;
	bool two_dlopens; /* by two files that are called as the C library's are */
	uint64_t swab; /* void swab(const void *from, void *to, ssize_t n): plain code that copies */
	uint64_t restore_rt;  /* `mov $15, %rax; syscall`: where a signal handler returns to */
	uint64_t errno_tpoff; /* errno of a thread, from its fs base */
};

/* 0; -ENOTSUP: nothing can be loaded into this process; another negative errno. why: a sentence, if not 0. */
int target_code__find(pid_t pid, struct target_code *out, char *why, size_t cap);
void target_code__clear(struct target_code *cp);

/* The object whose text holds addr, NULL: none of these. */
const struct code_object *target_code__object(const struct target_code *cp, uint64_t addr);
/* Reads the 8 bytes of the object's file before addr. False: they are not in its text. */
bool code_object__before(const struct code_object *o, uint64_t addr, uint8_t bytes[8]);
/* The function of `busy` that holds addr, NULL: none. */
const struct code_range *target_code__busy(const struct target_code *cp, uint64_t addr);

#endif /* INJECT_TARGET_CODE_H */
