/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The process groups of torch.distributed in a process: what torch.profiler writes of them as
 * `distributedInfo`. */
#ifndef RECORD_PROCESS_GROUPS_H
#define RECORD_PROCESS_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A JSON object from malloc, without pg_config where not all of that could be read or it is too
 * much. NULL: torch.distributed is not initialized, or could not be read. tensor_class: address of
 * a pointer to the type torch.Tensor (libtorch_python's THPVariableClass), 0: not known.
 * old_string_abi: as of remote__read_string().
 */
char *process_groups__read(pid_t pid, uint64_t tensor_class, bool old_string_abi);

#endif /* RECORD_PROCESS_GROUPS_H */
