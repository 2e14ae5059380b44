/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The plan of one library in one role, and the library, for tests that know its marks (symbols). */
#ifndef TESTS_PLANNED_LIB_H
#define TESTS_PLANNED_LIB_H

#include <CUnit/CUnit.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "plan/plan_priv.h"
#include "target/elf.h"

struct planned {
	struct torch_plan *plan;
	struct elf_file *ef;
	enum torch_lib_role role;
};

static inline bool planned__open(struct planned *p, char *path, enum torch_lib_role role)
{
	struct torch_proc tp = { .pid = getpid() };

	*p = (struct planned){ .role = role };
	tp.libs[role].present = true;
	tp.libs[role].path = tp.libs[role].access_path = path;
	return !torch_plan__new(tp.libs, NULL, false, &p->plan) && !elf_file__open(path, &p->ef);
}

static inline void planned__close(struct planned *p)
{
	torch_plan__free(p->plan);
	elf_file__close(p->ef);
}

struct planned_mark {
	const char *name;
	uint64_t addr;
};

static inline bool planned__on_mark(const struct elf_sym *sym, void *arg)
{
	struct planned_mark *m = arg;

	if (!sym->defined || strcmp(sym->name, m->name) != 0)
		return true;
	m->addr = sym->addr;
	return false;
}

/* Address of a mark, 0: there is none. */
static inline uint64_t planned__mark(const struct planned *p, const char *name)
{
	struct planned_mark m = { .name = name };

	elf_file__for_each_sym(p->ef, planned__on_mark, &m);
	return m.addr;
}

/* The one site of a function in a role, NULL: none. */
static inline const struct plan_site *planned__site(const struct planned *p, uint32_t func, uint8_t role)
{
	const struct plan_site *found = NULL;

	for (uint32_t i = 0; i < p->plan->site_cnt; i++) {
		if (p->plan->sites[i].func != func || p->plan->sites[i].role != role)
			continue;
		CU_ASSERT(found == NULL);
		found = &p->plan->sites[i];
	}
	return found;
}

/* The control flow around the exits of `func`, and the exits as its nodes. Returns their count. */
static inline uint32_t planned__build_around(struct plan_build *b, const struct planned *p,
					     uint32_t func, uint32_t nodes[EXIT_SITES_MAX])
{
	const struct torch_plan *plan = p->plan;
	uint64_t start, end, addr;
	enum ptb_refusal why;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		if (plan->sites[i].func != func || plan->sites[i].role != PTB_ROLE_EXIT)
			continue;
		addr = elf_file__off_to_addr(p->ef, plan->sites[i].offset);
		if (!cnt) {
			CU_ASSERT_FATAL(elf_file__func_range(p->ef, addr, &start, &end));
			flow__build(&b->flow, &b->lc->src, start, &why);
			CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
		}
		CU_ASSERT_FATAL(cnt < EXIT_SITES_MAX);
		nodes[cnt] = flow__at(&b->flow, addr);
		CU_ASSERT_NOT_EQUAL_FATAL(nodes[cnt++], FLOW_NONE);
	}
	return cnt;
}

#endif /* TESTS_PLANNED_LIB_H */
