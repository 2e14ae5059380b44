/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How to reach the very file that a process has mapped, across mount namespaces and after deletion, and to ask about
 * it. Private to target, inject, code and python. */
#ifndef TARGET_MAPPED_FILE_H
#define TARGET_MAPPED_FILE_H

#include "target/elf_child.h"
#include "target/proc_maps.h"

struct mapped_file {
	int fd; /* the open file: a name may stand for another one at any time; 0: none */
	uint64_t load_bias; /* runtime address - ELF vaddr */
	struct elf_answer answer;
};

/*
 * Asks about the file of an executable mapping. 0; -ENOEXEC: not a regular ELF file, or another file is there now
 * (logged once); -EXDEV: it is served by a process of another user, to which no request is sent (logged once);
 * -ECANCELED: a signal is pending; another negative errno, as elf_child__ask(). *out needs mapped_file__clear() on
 * success only.
 */
int mapped_file__ask(pid_t pid, const struct proc_map *map, const struct elf_question *q,
		     struct mapped_file *out);
void mapped_file__clear(struct mapped_file *mf);
/* The first bytes of a mapped file, unless a user's process serves it: the count, or negative
 * errno. The file may be another one than the mapped one where /proc/PID/map_files is closed. */
ssize_t mapped_file__head(pid_t pid, const struct proc_map *map, void *buf, size_t cap);
/* The name of an open file for functions that take a path, the kernel's among them; from malloc, valid while fd
 * is open. NULL: no memory. */
char *mapped_file__fd_path(int fd);
/* Where the file's byte map->off is linked; UINT64_MAX: in no executable segment. */
uint64_t mapped_file__linked_addr(const struct elf_outline *o, const struct proc_map *map);

#endif /* TARGET_MAPPED_FILE_H */
