/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Prints the schema of every operator of a set of torch libraries as the plan has it, one per line:
 * plan_schemas LIBC10 LIBTORCH_CPU LIBTORCH_PYTHON. Operators without one are printed by their name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "target/elf.h"

static bool open_libs(char **paths, struct torch_proc *tp)
{
	struct elf_file *ef;

	memset(tp, 0, sizeof(*tp));
	for (uint32_t role = TORCH_LIB_C10; role <= TORCH_LIB_PYTHON; role++) {
		struct torch_lib *lib = &tp->libs[role];

		lib->path = lib->access_path = paths[role];
		if (elf_file__open(lib->path, &ef))
			return false;
		lib->present = true;
		lib->build_id_sz = elf_file__build_id(ef, lib->build_id, BUILD_ID_MAX);
		elf_file__close(ef);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct torch_plan *plan = NULL;
	struct torch_proc tp;

	if (argc != 4 || !open_libs(argv + 1, &tp) || torch_plan__new(tp.libs, NULL, false, &plan))
		return 1;
	for (uint32_t i = 0; i < plan->func_cnt; i++) {
		const struct plan_func *f = &plan->funcs[i];

		if (f->kind == PTB_FUNC_OP && f->handle)
			puts(f->schema ? f->schema : f->name);
	}
	torch_plan__free(plan);
	return 0;
}
