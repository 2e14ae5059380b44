/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How an interpreter's layout is found. */
#ifndef PYTHON_PYTHON_PRIV_H
#define PYTHON_PYTHON_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "python/python.h"
#include "target/elf.h"

/* What the ELF file of a program or library says about a CPython in it. Asked in the child
 * (target/elf.h). */

/* Addresses are ELF vaddrs, 0: not known. */
struct py_file_facts {
	/* _PyRuntime: there is an interpreter in the file, or a copy of its state */
	uint64_t runtime;
	uint64_t code_type; /* PyCode_Type */
	uint64_t key;       /* autoTSSkey's key, as PyGILState_GetThisThreadState() uses it */
	/* word with the distance of _Py_tss_gilstate from the thread's pointer */
	uint64_t tls_slot;
	/* what the code passes to __tls_get_addr(); the variable is `tls` bytes behind the
	 * result */
	uint64_t tls_pair;
	int64_t tls;      /* without it: that distance, where the code has it; 0: it does not */
	uint64_t version; /* PY_VERSION_HEX, or without its two lower bytes */
};

/* An elf_question's function: answers with a struct py_file_facts, or with nothing where there is
 * no CPython. */
int py_file_facts__learn(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);

/* The verification of a layout on a live process. Private to user/python. */

/*
 * facts: with runtime addresses (but tls and version), as hostile as the process. until_ns: the
 * processor time (clock__cpu_ns()) at which it ends without a result. Fills all of *pi but the
 * object. 0; -ENOTSUP and pi->why; -ECANCELED: a signal is pending; another negative errno: the
 * process cannot be read.
 */
int py_calibrate__run(pid_t pid, const struct py_file_facts *facts, uint64_t until_ns,
		      struct py_interp *pi);

/* The thread to which a thread state belongs, by its thread pointer. 0: none that lives. */
uint64_t py_tstate__thread(pid_t pid, const struct ptb_py_layout *l, uint64_t tstate);

/* The interpreter's lock, as it is in memory. Mutexes and conditions are of glibc on x86-64. */
struct py_gil {
	uint64_t interval; /* us */
	uint64_t last_holder;
	uint64_t locked; /* an int and padding */
	uint64_t switch_number;
	uint64_t cond[6], mutex[5], switch_cond[6], switch_mutex[5];
};

/* Where in these bytes the only lock is; len: none is there, or several. */
size_t py_gil__scan(const uint8_t *bytes, size_t len, struct py_gil *out);

#endif /* PYTHON_PYTHON_PRIV_H */
