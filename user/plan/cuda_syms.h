/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Functions of libcudart and libcuda that a table names, each address once: two names of the same code are one
 * function, with the first name. */
#ifndef PLAN_CUDA_SYMS_H
#define PLAN_CUDA_SYMS_H

#include "plan/plan_build.h"

struct cuda_sym {
	uint64_t addr;
	uint32_t row;
};

/* Is the symbol of a library in this role a name of the row? */
typedef bool (*cuda_row_fn)(enum torch_lib_role role, const char *symbol, uint32_t row);

struct cuda_syms {
	struct cuda_sym *items;
	uint32_t cnt, cap;
	enum torch_lib_role role;
	cuda_row_fn names;
	uint32_t row_cnt;
};

/* Items are the caller's to free. */
void cuda_syms__find(struct cuda_syms *cs, const struct plan_build *b, cuda_row_fn names,
		     uint32_t row_cnt);
bool cuda_syms__has(const struct cuda_syms *cs, uint64_t addr);

#endif /* PLAN_CUDA_SYMS_H */
