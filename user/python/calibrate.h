/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The verification of a layout on a live process. Private to user/python. */
#ifndef PYTHON_CALIBRATE_H
#define PYTHON_CALIBRATE_H

#include "python/file_facts.h"
#include "python/interp.h"

/*
 * facts: with runtime addresses (but tls and version), as hostile as the process. until_ns: the processor time
 * (clock__cpu_ns()) at which it ends without a result. Fills all of *pi but the object.
 * 0; -ENOTSUP and pi->why; -ECANCELED: a signal is pending; another negative errno: the process cannot be read.
 */
int py_calibrate__run(pid_t pid, const struct py_file_facts *facts, uint64_t until_ns,
		      struct py_interp *pi);

#endif /* PYTHON_CALIBRATE_H */
