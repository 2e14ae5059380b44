/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Questions about the ELF files of others. A file is parsed only in a child without privileges
 * (base/sandbox.h), one child per file: a file that takes over its child, loops, or is cut while it is read,
 * spoils the answers about itself and no others. Answers are plain data, and are as hostile as the file.
 * Private to target, inject and python.
 */
#ifndef TARGET_ELF_CHILD_H
#define TARGET_ELF_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/elf_file.h"
#include "target/file_id.h"

struct elf_question {
	/* Runs in the child. *out: from malloc, at most LIMIT_ELF_ANSWER bytes without pointers. 0 or negative errno. */
	int (*fn)(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);
	const void *arg; /* of fn: with it, the key under which the answer is cached */
	size_t arg_sz;
	uint64_t *spent_ns; /* sum of the time of questions that belong together; NULL: this one only */
};

#define ELF_EXEC_SEG_MAX 16
#define ELF_MARK_MAX 64

/* What is always answered; checked, so that no sum of these numbers overflows. */
struct elf_outline {
	struct elf_exec_seg {
		uint64_t addr, off, file_sz;
	} segs[ELF_EXEC_SEG_MAX]; /* executable segments */
	uint32_t seg_cnt;
	uint32_t mark_sz; /* bytes that memory must hold where the file is mapped: its build-id, or its header */
	uint64_t mark_addr; /* ELF vaddr; UINT64_MAX: they are not mapped */
	uint8_t mark[ELF_MARK_MAX];
};

struct elf_answer {
	struct file_id id; /* of the file before it was read */
	struct elf_outline outline;
	uint8_t *data; /* what fn answered */
	size_t len;
};

/*
 * name: of the file, for messages. Answers and failures are remembered where an identity is of one file only (file_id__is_lasting()). 0; -ENOEXEC:
 * not ELF x86-64, or damaged, or cut meanwhile; -ETIMEDOUT, -E2BIG, -EFBIG: beyond a limit; -ECANCELED: a signal is
 * pending; fn's own error; another negative errno. Failures are logged when they happen.
 */
int elf_child__ask(int fd, const char *name, const struct elf_question *q, struct elf_answer *out);
void elf_answer__clear(struct elf_answer *a);
/*
 * From now on answers about files on disks are also kept in this directory (NULL: PLAN_CACHE_DIR) and
 * taken from there: one ptbpf after the other asks the same.
 */
void elf_child__use_cache(const char *dir);
/* This program's own build-id, of BUILD_ID_MAX bytes, so that what another build made is not used;
 * zeroes if it has none. */
const uint8_t *elf_child__tool_id(void);

/* Copies an answer of a fixed size; false: it has another one. */
bool elf_answer__get(const struct elf_answer *a, void *to, size_t sz);
/* As fn: where the outline is all that is asked for. */
int elf_answer__nothing(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);
/* For fn: answers with a copy. */
void elf_answer__give(const void *from, size_t sz, uint8_t **out, size_t *len);

#endif /* TARGET_ELF_CHILD_H */
