/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How to reach the very file that a process has mapped, across mount namespaces and after deletion. Private
 * to target. */
#ifndef TARGET_MAPPED_FILE_H
#define TARGET_MAPPED_FILE_H

#include "target/elf_file.h"
#include "target/proc_maps.h"

/*
 * Opens the file of an executable mapping. *access_path: as ptbpf can open and probe it, the caller's to
 * free; *load_bias: runtime address - ELF vaddr. 0; -ENOEXEC: not ELF, or another file is there now (said
 * once); another negative errno, then nothing is handed out.
 */
int mapped_file__open(pid_t pid, const struct proc_map *map, char **access_path, struct elf_file **ef,
		      uint64_t *load_bias);
/* Where the file's byte map->off is linked; UINT64_MAX: in no executable segment. */
uint64_t mapped_file__linked_addr(const struct elf_file *ef, const struct proc_map *map);

#endif /* TARGET_MAPPED_FILE_H */
