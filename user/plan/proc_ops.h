/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The operators of one live process, read once for all who need them while ptbpf attaches to it. */
#ifndef PLAN_PROC_OPS_H
#define PLAN_PROC_OPS_H

#include "plan/lib_plan.h"
#include "target/live_ops.h"
#include "target/live_schema.h"

struct proc_ops { /* the fields are proc_ops.c's, but for tp, plan and cost_ns */
	const struct torch_proc *tp;
	struct torch_plan *plan; /* its observed_off is set by the first process that is read */
	uint64_t cost_ns;        /* what it took to read the table */
	bool table_read, schemas_read;
	int table_err, schemas_err;
	struct live_ops table;
	struct live_schema_layout schemas;
};

/* tp and plan are borrowed until proc_ops__free(). Reads nothing yet. */
void proc_ops__init(struct proc_ops *po, const struct torch_proc *tp, struct torch_plan *plan);
void proc_ops__free(struct proc_ops *po);

/* The run-time addresses of c10::Dispatcher::singleton()::s, for live_ops__read(). Returns their number. */
uint32_t proc_ops__singletons(const struct torch_proc *tp, const struct torch_plan *plan,
			      uint64_t singletons[TORCH_LIB_ROLES]);

/* The dispatcher's table, read from the process at the first call. 0 or negative errno, the same at every call. *out
 * belongs to po. */
int proc_ops__table(struct proc_ops *po, const struct live_ops **out);

/* How to read schemas from the live process's dispatcher (live_schema__read()). 0, or negative errno: its schemas do
 * not have the layout that is understood. *out belongs to po. */
int proc_ops__schemas(struct proc_ops *po, const struct live_schema_layout **out);

/* From an OperatorDef to its FunctionSchema, which a RecordFunction names it by: bytes, the same for all operators of
 * the process; negative errno: not known. */
int64_t proc_ops__schema_offset(struct proc_ops *po);

#endif /* PLAN_PROC_OPS_H */
