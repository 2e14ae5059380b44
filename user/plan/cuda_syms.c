/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One pass over the symbols; see plan_priv.h. */
#include "plan/plan_priv.h"

#include <elf.h>
#include <string.h>

#include "base/containers.h"

bool cuda_syms__has(const struct cuda_syms *cs, uint64_t addr)
{
	for (uint32_t i = 0; i < cs->cnt; i++)
		if (cs->items[i].addr == addr)
			return true;
	return false;
}

static bool on_cuda_sym(const struct elf_sym *sym, void *arg)
{
	struct cuda_syms *cs = arg;

	if (!sym->defined || !sym->addr || sym->type != STT_FUNC ||
	    strncmp(sym->name + 2 * (sym->name[0] == '_'), "cu", 2) != 0)
		return true;
	for (uint32_t i = 0; i < cs->row_cnt; i++) {
		if (cs->names(cs->role, sym->name, i) && !cuda_syms__has(cs, sym->addr))
			vec_push(cs->items, cs->cnt, cs->cap,
				 (struct cuda_sym){ .addr = sym->addr, .row = i });
	}
	return true;
}

void cuda_syms__find(struct cuda_syms *cs, const struct plan_build *b, cuda_row_fn names,
		     uint32_t row_cnt)
{
	*cs = (struct cuda_syms){ .role = b->role, .names = names, .row_cnt = row_cnt };
	elf_file__for_each_sym(b->lc->ef, on_cuda_sym, cs);
}
