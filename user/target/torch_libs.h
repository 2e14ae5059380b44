/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the torch libraries among the mappings of a process. Private to target. */
#ifndef TARGET_TORCH_LIBS_H
#define TARGET_TORCH_LIBS_H

#include "target/proc_maps.h"
#include "target/torch_proc.h"

/* The cheap filter: may this mapping be of a torch library? */
bool torch_libs__may_be(const struct proc_map *map);

/*
 * Fills tp->libs and tp->cuda from the mappings. *bad: why one of the mapped files that may be
 * torch libraries could not be read (-EXDEV above all, see mapped_file.h), 0: all could.
 */
int torch_libs__find(struct torch_proc *tp, const struct proc_maps *maps, int *bad);
/* Fills tp->cuda alone, which costs less. */
int torch_libs__find_cuda(struct torch_proc *tp, const struct proc_maps *maps);
void torch_lib__clear(struct torch_lib *lib);
/* 0 or negative errno: out of memory or of file descriptors. */
int torch_lib__copy(struct torch_lib *to, const struct torch_lib *from);

/* The cheap filter for CUDA's libraries, and torch's into which one may be linked. */
bool torch_libs__may_be_cuda(const struct proc_map *map);

#endif /* TARGET_TORCH_LIBS_H */
