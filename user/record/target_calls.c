/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which operators a process has called, from its memory: the first call of at::_ops::X::call sets a
 * static variable, the handle. So only these need probes, a few hundred of thousands, and placing
 * them hardly disturbs the process.
 */
#include "record/targets.h"

#include <stdlib.h>

#include "base/containers.h"
#include "base/mem.h"
#include "target/proc.h"

static bool is_unset(pid_t pid, uint64_t handle)
{
	uint64_t opdef;

	return !remote__read(pid, handle, &opdef, sizeof(opdef)) && !opdef;
}

bool target_calls__skip(struct target *t, const struct torch_proc *tp, const struct plan_func *pf)
{
	uint64_t handle = pf->handle + tp->libs[pf->lib].load_bias;
	struct target_calls *c = &t->calls;

	if (pf->kind != PTB_FUNC_OP || !pf->handle)
		return false;
	if (c->cnt && c->handles[c->cnt - 1] == handle) /* the sites of a function are neighbours */
		return true;
	if (!is_unset(t->pid, handle))
		return false;
	vec_push(c->handles, c->cnt, c->cap, handle);
	return true;
}

uint32_t target_calls__new(const struct target *t)
{
	const struct target_calls *c = &t->calls;
	struct remote_piece *pieces = xcalloc(c->cnt + 1ULL, sizeof(*pieces));
	uint64_t *opdefs = xcalloc(c->cnt + 1ULL, sizeof(*opdefs));
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < c->cnt; i++)
		pieces[i] = (struct remote_piece){ .addr = c->handles[i],
						   .buf = &opdefs[i],
						   .len = sizeof(*opdefs) };
	remote__read_pieces(t->pid, pieces, c->cnt); /* none can be read if it has ended */
	for (uint32_t i = 0; i < c->cnt; i++)
		cnt += pieces[i].ok && opdefs[i];
	free(pieces);
	free(opdefs);
	return cnt;
}

void target_calls__clear(struct target_calls *c)
{
	free(c->handles);
	*c = (struct target_calls){ .cnt = 0 };
}
