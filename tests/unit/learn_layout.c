/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See learn_layout.h. */
#include "learn_layout.h"

#include <stdio.h>
#include <string.h>

#include "plan/plan_priv.h"

void learn_layout__files(struct torch_plan *plan, const char *const *paths)
{
	static const uint8_t order[] = { TORCH_LIB_CPU, TORCH_LIB_PYTHON, TORCH_LIB_C10 };
	struct plan_build b;
	struct elf_file *ef;
	struct lib_code lc;

	memset(plan, 0, sizeof(*plan));
	plan_build__init(&b, plan);
	layout__init(&plan->layout);
	for (size_t i = 0; i < sizeof(order); i++) {
		if (!paths[order[i]] || elf_file__open(paths[order[i]], &ef))
			continue;
		lib_code__init(&lc, ef, &torch_names);
		b.lc = &lc;
		b.role = order[i];
		layout__learn(&b);
		lib_code__free(&lc);
		elf_file__close(ef);
	}
	layout__finish(&b);
	plan_build__free(&b);
}

void learn_layout__env(struct torch_plan *plan, const struct torch_env *env)
{
	static const char *const names[] = { "libc10.so", "libtorch_cpu.so", "libtorch_python.so" };
	static struct {
		char libs[sizeof(env->libs)];
		struct torch_plan plan;
	} learnt[TORCH_ENV_MAX];
	const char *list[TORCH_LIB_ROLES] = { 0 };
	char paths[3][600];
	size_t k;

	for (k = 0; k < TORCH_ENV_MAX && learnt[k].libs[0]; k++) {
		if (strcmp(learnt[k].libs, env->libs))
			continue;
		*plan = learnt[k].plan;
		return;
	}
	for (size_t i = 0; i < 3; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", env->libs, names[i]);
		list[i] = paths[i];
	}
	learn_layout__files(plan, list);
	if (k < TORCH_ENV_MAX) {
		strcpy(learnt[k].libs, env->libs);
		learnt[k].plan = *plan;
	}
}
