// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Programs about ptbpf itself: `calib` does the work of an operator hit whether the window is open
 * or not, so that its cost can be measured before a target is touched; `pidns_depth` is run once by
 * user space.
 */

PROBE(calib)
{
	hit->quiet = true;
	return emit_sp(hit, PTB_REC_OP_ENTER, PT_REGS_SP(ctx));
}

__u32 self_ns_level = 0;

/* Run by BPF_PROG_TEST_RUN in the caller's own context: how deep is its pid namespace? */
SEC("raw_tp/sys_enter")
int pidns_depth(void *ctx)
{
	struct task_struct *t = (void *)bpf_get_current_task();

	self_ns_level = BPF_CORE_READ(t, thread_pid, level);
	return 0;
}
