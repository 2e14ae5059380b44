// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The one BPF object: includes the programs by subject, so that they share maps, inlined helpers
 * and one skeleton; and defines those that are attached to sites.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* BPF_PROG() declares a ctx that most programs do not name */
#pragma clang diagnostic ignored "-Wunused-parameter"

#include "ptb_agent.h"
#include "ptb_event.h"
#include "ptb_probe.h"
#include "ktypes.bpf.h"
#include "arg_state.h"
#include "maps.bpf.h"
#include "emit.bpf.h"
#include "kmem.bpf.h"

#include "arg_interp.h"
#include "calls.bpf.h"
#include "tls.bpf.h"
#include "args.bpf.h"
#include "python.bpf.h"

#include "op.bpf.c"
#include "calib.bpf.c"
#include "scope.bpf.c"
#include "boxed.bpf.c"
#include "autograd.bpf.c"
#include "memory.bpf.c"
#include "tensor.bpf.c"
#include "cuda.bpf.c"
#include "agent.bpf.c"
#include "task.bpf.c"
#include "kmem.bpf.c"
#include "kmem_calls.bpf.c"
#include "sample.bpf.c"
#include "regs.bpf.c"
#include "sched.bpf.c"

/*
 * The programs of PTB_PROGS, which are attached to sites.
 *
 * From Linux 6.13 on the stack of a program of this type is one area of memory per processor. At
 * uprobes such a program can be preempted by the same program in another thread on the same
 * processor, and the two would overwrite each other's stacks. The kernel does so only where no
 * program code contains a tail call (check_max_stack_depth() in kernel/bpf/verifier.c), so each has
 * one, which is dead code and is removed after that check.
 */
#define STACK_NO(hit) false
#define STACK_YES(hit) true
#define STACK_ENTRY(hit) ((hit)->args & PTB_API_NO_EXIT)

#define ATTACHED(name, func, stack, begin)                                                         \
	SEC("uprobe.multi")                                                                        \
	int func(struct pt_regs *ctx)                                                              \
	{                                                                                          \
		struct hit hit;                                                                    \
                                                                                                   \
		if (never)                                                                         \
			bpf_tail_call(ctx, &no_programs, 0);                                       \
		if (!begin(ctx, &hit, PTB_PROG_##name))                                            \
			return 0;                                                                  \
		if (STACK_##stack(&hit) && py_stacks)                                              \
			py_stack(&hit, PT_REGS_SP(ctx), 0);                                        \
		return func##_hit(ctx, &hit);                                                      \
	}

#define X(name, func, loaded, stack, text) ATTACHED(name, func, stack, hit_begin_in_window)
PTB_PROGS_IN_WINDOW(X)
#undef X
#define X(name, func, loaded, stack, text) ATTACHED(name, func, stack, hit_begin)
PTB_PROGS_ALWAYS(X)
#undef X

char LICENSE[] SEC("license") = "Dual BSD/GPL";
