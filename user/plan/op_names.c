/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Way A: the cold path of X::call runs an unexported function that creates the typed handle:
 *
 *	lea  handle(%rip),%rdi; call create_X_typed_handle
 *	create...: lea name(%rip),%rdx; lea overload(%rip),%rcx; call findSchemaOrThrow@plt
 *
 * or has that call inlined. See op_names.h.
 */
#include "plan/op_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "code/reg_track.h"

static bool literal(const struct lib_code *lc, const struct flow *f, uint32_t at, uint8_t reg,
		    const char **out)
{
	int64_t addr;

	if (reg_track__before(f, at, reg, &addr) != VALUE_ADDR)
		return false;
	*out = lib_code__text(lc, (uint64_t)addr, OP_NAME_MAX);
	return *out;
}

/* "aten::add" and the like: a namespace and a name. */
static bool plausible(const char *name)
{
	const char *p;

	for (p = name; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		      (*p >= '0' && *p <= '9') || *p == '_' || *p == ':' || *p == '.'))
			return false;
	return p != name;
}

/* Takes the name from the first call of findSchemaOrThrow in the graph. */
static bool name_from(struct lib_code *lc, const struct flow *f, struct op_name_a *out)
{
	const char *name, *overload;
	uint32_t i;

	for (i = 0; i < f->cnt; i++) {
		const struct insn *in = &f->nodes[i].in;

		if (in->cls != INSN_CALL || !(lib_code__callee(lc, in->target) & CALLEE_FIND_SCHEMA))
			continue;
		if (!literal(lc, f, i, arch.arg[2], &name) || !literal(lc, f, i, arch.arg[3], &overload) ||
		    !plausible(name) || (*overload && !plausible(overload)))
			return false;
		snprintf(out->name, sizeof(out->name), *overload ? "%s.%s" : "%s", name, overload);
		return true;
	}
	return false;
}

int op_names__way_a(struct lib_code *lc, const struct flow *f, struct flow *aux, struct op_name_a *out)
{
	enum ptb_refusal why;
	int64_t handle;
	uint32_t i;
	int err;

	out->name[0] = 0;
	out->handle = 0;
	for (i = 0; i < f->cnt; i++) {
		const struct insn *in = &f->nodes[i].in;

		if (in->cls != INSN_CALL ||
		    !(lib_code__callee(lc, in->target) & CALLEE_IN(CALLEE_FIND_SCHEMA)))
			continue;
		err = flow__build(aux, &lc->src, in->target, &why);
		if (err)
			return err;
		if (why != PTB_REFUSE_NONE || !name_from(lc, aux, out))
			continue;
		if (reg_track__before(f, i, arch.arg[0], &handle) == VALUE_ADDR)
			out->handle = (uint64_t)handle;
		return 0;
	}
	name_from(lc, f, out);
	return 0;
}
