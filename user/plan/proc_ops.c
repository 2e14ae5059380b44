/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See plan.h. */
#define LOG_DOMAIN "proc_ops"
#include "plan/plan.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void proc_ops__init(struct proc_ops *po, const struct torch_proc *tp, struct torch_plan *plan)
{
	*po = (struct proc_ops){ .tp = tp, .plan = plan };
}

void proc_ops__free(struct proc_ops *po)
{
	live_ops__free(&po->table);
}

uint32_t proc_ops__singletons(const struct torch_proc *tp, const struct torch_plan *plan,
			      uint64_t singletons[TORCH_LIB_ROLES])
{
	uint32_t n = 0;

	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++)
		if (tp->libs[role].present && plan->layout.singletons[role])
			singletons[n++] = plan->layout.singletons[role] + tp->libs[role].load_bias;
	return n;
}

static int read_table(struct proc_ops *po)
{
	uint64_t singletons[TORCH_LIB_ROLES], t0 = clock__mono_ns();
	uint32_t n = proc_ops__singletons(po->tp, po->plan, singletons);
	int err = n ? live_ops__read(po->tp->pid, singletons, n, po->plan->layout.old_string_abi,
				     po->plan->observed_off, &po->table) :
		      -ENOENT;

	if (!err && po->table.observed_known)
		po->plan->observed_off = po->table.observed_off;
	po->cost_ns = clock__mono_ns() - t0;
	return err;
}

int proc_ops__table(struct proc_ops *po, const struct live_ops **out)
{
	if (!po->table_read)
		po->table_err = read_table(po);
	po->table_read = true;
	*out = &po->table;
	return po->table_err;
}

static int find_schemas(struct proc_ops *po)
{
	const struct plan_layout *l = &po->plan->layout;
	struct live_schema_layout *schemas = &po->schemas;
	const struct live_ops *ops;
	int err = proc_ops__table(po, &ops);

	if (err)
		return err;
	schemas->old_string_abi = l->old_string_abi;
	schemas->object_header = l->tensor.object_header;
	memcpy(schemas->ivalue_kind, l->tensor.ivalue_kind, sizeof(schemas->ivalue_kind));
	if (l->interned_strings && po->tp->libs[TORCH_LIB_CPU].present)
		schemas->interned = l->interned_strings + po->tp->libs[TORCH_LIB_CPU].load_bias;
	err = live_schema__derive(po->tp->pid, ops, schemas);
	if (err)
		pr_debug("process %d: the schemas of its operators cannot be read: %s", po->tp->pid,
			 errstr(err));
	return err;
}

int proc_ops__schemas(struct proc_ops *po, const struct live_schema_layout **out)
{
	if (!po->schemas_read)
		po->schemas_err = find_schemas(po);
	po->schemas_read = true;
	*out = &po->schemas;
	return po->schemas_err;
}

int64_t proc_ops__schema_offset(struct proc_ops *po)
{
	const struct live_schema_layout *l;
	int err = proc_ops__schemas(po, &l);

	return err ? err : l->schema_off;
}
