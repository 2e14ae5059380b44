/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CPython in the target: where its types are and how its numbers and texts are laid out, found in the
 * live process, not by its version. Optional: without it, Python objects are opaque and nothing else is
 * lost.
 */
#ifndef TARGET_PYTHON_PROC_H
#define TARGET_PYTHON_PROC_H

#include "ptb_probe.h"
#include "target/torch_proc.h"

/*
 * Fills py; what could not be found stays 0, and with the types all is. variable_class: runtime address
 * of THPVariableClass, a pointer to the type torch.Tensor; 0: not known. 0, or negative errno: no
 * interpreter that is understood.
 */
int python_proc__fill(const struct torch_proc *tp, uint64_t variable_class, uint16_t variable_off,
		      struct ptb_python_cfg *py);

/* Runtime addresses of data or functions of the Python interpreter: the executable's own, or libpython's. 0; -ENOENT:
 * no file has them all; another negative errno. */
int python_proc__symbols(pid_t pid, const char *const *symbols, uint32_t cnt, uint64_t *addrs);

#endif /* TARGET_PYTHON_PROC_H */
