// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Operator entry and exit, the two hottest programs: nothing here but time, ids and the stack
 * pointer. Boxed calls are in scope.bpf.c because they may carry a scope's text.
 */

SEC("uprobe.multi")
int op_enter(struct pt_regs *ctx)
{
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_OP_ENTER))
		return 0;
	return emit_sp(&hit, PTB_REC_OP_ENTER, PT_REGS_SP(ctx));
}

SEC("uprobe.multi")
int op_exit(struct pt_regs *ctx)
{
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_OP_EXIT))
		return 0;
	return emit_sp(&hit, PTB_REC_OP_EXIT, PT_REGS_SP(ctx));
}

/* __cxa_begin_catch(): an exception has been caught by the function that calls it */
SEC("uprobe.multi")
int catch_enter(struct pt_regs *ctx)
{
	struct hit hit;

	if (!hit_begin(ctx, &hit, PTB_PROG_CATCH))
		return 0;
	return emit_sp(&hit, PTB_REC_CATCH, PT_REGS_SP(ctx));
}
