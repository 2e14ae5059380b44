/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which BPF program serves a site in which mode, and what of the object is loaded for it: a session
 * that records names only loads and allocates nothing for arguments.
 */
#include <string.h>

#include <bpf/libbpf.h>

#include "probe/probe_impl.h"
#include "probe/programs.h"

void programs__map(struct ptbpf_bpf *s, enum probe_args args, struct bpf_program **out)
{
	bool values = args != PROBE_ARGS_NONE;
	struct bpf_program *const progs[PTB_PROG_CNT] = {
		[PTB_PROG_OP_ENTER] = s->progs.op_enter,
		[PTB_PROG_OP_EXIT] = s->progs.op_exit,
		[PTB_PROG_BOXED_ENTER] = s->progs.boxed_enter,
		[PTB_PROG_NODE_ENTER] = s->progs.node_enter,
		[PTB_PROG_PYFUNC_ENTER] = s->progs.pyfunc_enter,
		[PTB_PROG_SCRIPT_ENTER] = s->progs.script_enter,
		[PTB_PROG_SCOPE_STRING] = s->progs.scope_string,
		[PTB_PROG_SCOPE_CSTR] = s->progs.scope_cstr,
		[PTB_PROG_SCOPE_CTOR] = s->progs.scope_ctor,
		[PTB_PROG_BEFORE_CSTR] = s->progs.before_cstr,
		[PTB_PROG_BEFORE_STR] = s->progs.before_str,
		[PTB_PROG_BEFORE_VAR] = s->progs.before_var,
		[PTB_PROG_SCOPE_END] = s->progs.scope_end,
		[PTB_PROG_SEQ] = s->progs.seq_probe,
		[PTB_PROG_CALIB] = s->progs.calib,
		[PTB_PROG_CATCH] = s->progs.catch_enter,
		[PTB_PROG_NODE_CALL] = s->progs.node_call,
		[PTB_PROG_OP_LATE] = s->progs.op_late,
		[PTB_PROG_OP_ENTER_ARGS] = s->progs.op_enter_args,
		[PTB_PROG_OP_EXIT_RESULTS] = s->progs.op_exit_results,
		[PTB_PROG_BOXED_ENTER_ARGS] = s->progs.boxed_enter_args,
		[PTB_PROG_BOXED_EXIT_RESULTS] = s->progs.boxed_exit_results,
		[PTB_PROG_NODE_ENTER_ARGS] = s->progs.node_enter_args,
		[PTB_PROG_NODE_CALL_ARGS] = s->progs.node_call_args,
		[PTB_PROG_PYFUNC_ENTER_ARGS] = s->progs.pyfunc_enter_args,
		[PTB_PROG_SCRIPT_ENTER_ARGS] = s->progs.script_enter_args,
		[PTB_PROG_SCOPE_STRING_ARGS] = s->progs.scope_string_args,
		[PTB_PROG_SCOPE_PYARGS] = values ? s->progs.scope_pyargs : s->progs.scope_pyname,
		[PTB_PROG_MEM_NEW] = s->progs.mem_new,
		[PTB_PROG_MEM_DELETE] = s->progs.mem_delete,
		[PTB_PROG_MEM_REPORT] = s->progs.mem_report,
		[PTB_PROG_MEM_OOM] = s->progs.mem_oom,
		[PTB_PROG_MEM_CPU_OOM] = s->progs.mem_cpu_oom,
		[PTB_PROG_API_ENTER] = s->progs.api_enter,
		[PTB_PROG_API_EXIT] = s->progs.api_exit,
		[PTB_PROG_CUDA_ENTER] = s->progs.cuda_enter,
		[PTB_PROG_CUDA_EXIT] = s->progs.cuda_exit,
		[PTB_PROG_AGENT_CHUNK] = s->progs.agent_chunk,
		[PTB_PROG_AGENT_WISH] = s->progs.agent_wish,
		[PTB_PROG_OPDEF_GONE] = s->progs.opdef_gone,
		[PTB_PROG_TENSOR_END] = s->progs.tensor_end,
		[PTB_PROG_TENSOR_RELEASE] = s->progs.tensor_release,
	};

	_Static_assert(PTB_PROG_CNT == 42, "a new program needs a row above and below");
	/* two programs for one row */
	bpf_program__set_autoload(s->progs.scope_pyargs, values);
	bpf_program__set_autoload(s->progs.scope_pyname, !values);
	memcpy(out, progs, sizeof(progs));
}

/* Arguments need programs of their own, and of these some only with identities; so does memory. */
static bool is_loaded(uint32_t prog, const struct probe_set_opts *opts)
{
	enum probe_args args = opts->args;

	switch (prog) {
	case PTB_PROG_MEM_NEW:
	case PTB_PROG_MEM_DELETE:
	case PTB_PROG_MEM_REPORT:
	case PTB_PROG_MEM_OOM:
	case PTB_PROG_MEM_CPU_OOM:
	case PTB_PROG_API_ENTER:
	case PTB_PROG_API_EXIT:
		return opts->memory;
	case PTB_PROG_CUDA_ENTER:
	case PTB_PROG_CUDA_EXIT:
		return opts->cuda_calls;
	case PTB_PROG_AGENT_CHUNK:
	case PTB_PROG_AGENT_WISH:
		return opts->agent;
	case PTB_PROG_OP_LATE:
	case PTB_PROG_OP_ENTER_ARGS:
	case PTB_PROG_BOXED_ENTER_ARGS:
	case PTB_PROG_NODE_ENTER_ARGS:
	case PTB_PROG_NODE_CALL_ARGS:
	case PTB_PROG_PYFUNC_ENTER_ARGS:
	case PTB_PROG_SCRIPT_ENTER_ARGS:
	case PTB_PROG_SCOPE_STRING_ARGS:
		return args != PROBE_ARGS_NONE;
	case PTB_PROG_OP_EXIT_RESULTS:
	case PTB_PROG_BOXED_EXIT_RESULTS:
		return args == PROBE_ARGS_FULL;
	case PTB_PROG_TENSOR_END:
	case PTB_PROG_TENSOR_RELEASE:
		return opts->identities;
	default:
		return true;
	}
}

int programs__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts,
			struct bpf_program **progs)
{
	enum probe_args args = opts->args;
	int cpus = libbpf_num_possible_cpus();

	if (cpus <= 0)
		return cpus ? cpus : -EINVAL;
	s->rodata->args_full = args == PROBE_ARGS_FULL;
	for (uint32_t i = 0; i < PTB_PROG_CNT; i++)
		if (progs[i] && !is_loaded(i, opts))
			bpf_program__set_autoload(progs[i], false);
	if (args == PROBE_ARGS_NONE) {
		bpf_map__set_max_entries(s->maps.arg_progs, 1);
		bpf_map__set_autocreate(s->maps.arg_scratch_mem, false);
	} else {
		bpf_map__set_max_entries(s->maps.arg_scratch_mem,
					 (uint32_t)cpus * PROGRAMS_SCRATCH_CNT);
	}
	if (args != PROBE_ARGS_FULL)
		bpf_map__set_autocreate(s->maps.call_frames, false);
	bpf_map__set_autocreate(s->maps.api_calls, opts->memory);
	bpf_map__set_autocreate(s->maps.cuda_frames, opts->cuda_calls);
	return 0;
}

/* The row of PTB_PROGS whose program serves the site; PTB_PROG_CNT: none in this mode. */
uint32_t programs__variant(const struct probe_set_opts *opts, const struct ptb_proc_cfg *cfg,
			   const struct probe_site *site)
{
	bool values = opts->args != PROBE_ARGS_NONE, full = opts->args == PROBE_ARGS_FULL;

	switch (site->prog) {
	case PTB_PROG_OP_ENTER:
		return values && site->args ? PTB_PROG_OP_ENTER_ARGS : PTB_PROG_OP_ENTER;
	case PTB_PROG_OP_EXIT:
		return full && site->args ? PTB_PROG_OP_EXIT_RESULTS : PTB_PROG_OP_EXIT;
	case PTB_PROG_BOXED_EXIT_RESULTS:
		return full ? PTB_PROG_BOXED_EXIT_RESULTS : PTB_PROG_OP_EXIT;
	case PTB_PROG_OP_LATE:
		return values && site->args ? PTB_PROG_OP_LATE : PTB_PROG_CNT;
	case PTB_PROG_BOXED_ENTER:
		return values ? PTB_PROG_BOXED_ENTER_ARGS : PTB_PROG_BOXED_ENTER;
	case PTB_PROG_NODE_ENTER:
		return values && cfg->tensor.node_inputs_from_buffer ? PTB_PROG_NODE_ENTER_ARGS
								     : PTB_PROG_NODE_ENTER;
	case PTB_PROG_NODE_CALL:
		return values ? PTB_PROG_NODE_CALL_ARGS : PTB_PROG_NODE_CALL;
	case PTB_PROG_PYFUNC_ENTER:
		return values ? PTB_PROG_PYFUNC_ENTER_ARGS : PTB_PROG_PYFUNC_ENTER;
	case PTB_PROG_SCRIPT_ENTER:
		return values ? PTB_PROG_SCRIPT_ENTER_ARGS : PTB_PROG_SCRIPT_ENTER;
	case PTB_PROG_SCOPE_STRING:
		return values ? PTB_PROG_SCOPE_STRING_ARGS : PTB_PROG_SCOPE_STRING;
	default:
		return is_loaded(site->prog, opts) ? site->prog : PTB_PROG_CNT;
	}
}
