/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How to reach the very file that a process has mapped, across mount namespaces and after deletion. Private
 * to target. */
#ifndef TARGET_MAPPED_FILE_H
#define TARGET_MAPPED_FILE_H

#include "target/elf_file.h"
#include "target/proc_maps.h"

/*
 * Opens the file of an executable mapping. *fd: the open file, the caller's to close; NULL: not kept. A name
 * may stand for another file at any time, so whatever is done with the file later goes through this descriptor.
 * *load_bias: runtime address - ELF vaddr. 0; -ENOEXEC: not a regular ELF file, or another file is there now
 * (logged once); another negative errno, then nothing is handed out.
 */
int mapped_file__open(pid_t pid, const struct proc_map *map, int *fd, struct elf_file **ef,
		      uint64_t *load_bias);
/* The name of an open file for functions that take a path, the kernel's among them; from malloc, valid while fd
 * is open. NULL: no memory. */
char *mapped_file__fd_path(int fd);
/* Where the file's byte map->off is linked; UINT64_MAX: in no executable segment. */
uint64_t mapped_file__linked_addr(const struct elf_file *ef, const struct proc_map *map);

#endif /* TARGET_MAPPED_FILE_H */
