/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the ELF file of a program or library says about a CPython in it. Asked in the child (target/elf_child.h). */
#ifndef PYTHON_FILE_FACTS_H
#define PYTHON_FILE_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "target/elf_file.h"

/* Addresses are ELF vaddrs, 0: not known. */
struct py_file_facts {
	uint64_t runtime; /* _PyRuntime: there is an interpreter in the file, or a copy of its state */
	uint64_t code_type; /* PyCode_Type */
	uint64_t key;       /* autoTSSkey's key, as PyGILState_GetThisThreadState() uses it */
	uint64_t tls_slot; /* word with the distance of _Py_tss_gilstate from the thread's pointer */
	uint64_t tls_pair; /* what the code passes to __tls_get_addr(); the variable is `tls` bytes behind the result */
	int64_t tls;      /* without it: that distance, where the code has it; 0: it does not */
	uint64_t version; /* PY_VERSION_HEX, or without its two lower bytes */
};

/* An elf_question's function: answers with a struct py_file_facts, or with nothing where there is no CPython. */
int py_file_facts__learn(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);

#endif /* PYTHON_FILE_FACTS_H */
