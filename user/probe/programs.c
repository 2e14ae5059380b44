/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What of the BPF object is loaded for a session: one that records names only loads and allocates nothing for
 * arguments.
 */
#include <bpf/libbpf.h>

#include "probe/probe_impl.h"
#include "probe/programs.h"

/* The columns "loaded" of PTB_PROGS. */
#define LOADED_ALL true
#define LOADED_VALUES (opts->args != PROBE_ARGS_NONE)
#define LOADED_RESULTS (opts->args == PROBE_ARGS_FULL)
#define LOADED_MEMORY (opts->memory)
#define LOADED_CUDA (opts->cuda_calls)
#define LOADED_AGENT (opts->agent)
#define LOADED_IDENTITIES (opts->identities)

static void choose(const struct ptbpf_bpf *s, const struct probe_set_opts *opts, struct bpf_program **out)
{
#define X(name, func, loaded, text) out[PTB_PROG_##name] = LOADED_##loaded ? s->progs.func : NULL;
	PTB_PROGS(X)
#undef X
#define X(name, func, loaded, text) bpf_program__set_autoload(s->progs.func, LOADED_##loaded);
	PTB_PROGS(X)
#undef X
}

int programs__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts, struct bpf_program **out)
{
	bool values = opts->args != PROBE_ARGS_NONE, full = opts->args == PROBE_ARGS_FULL;
	int cpus = libbpf_num_possible_cpus();

	if (cpus <= 0)
		return cpus ? cpus : -EINVAL;
	choose(s, opts, out);
	s->rodata->args_on = values;
	s->rodata->args_full = full;
	if (values)
		bpf_map__set_max_entries(s->maps.arg_scratch_mem, (uint32_t)cpus * PROGRAMS_SCRATCH_CNT);
	else
		bpf_map__set_max_entries(s->maps.arg_progs, 1);
	bpf_map__set_autocreate(s->maps.no_programs, false); /* of code that is never reached */
	bpf_map__set_autocreate(s->maps.arg_scratch_mem, values);
	bpf_map__set_autocreate(s->maps.call_frames, full);
	bpf_map__set_autocreate(s->maps.api_calls, opts->memory);
	bpf_map__set_autocreate(s->maps.cuda_frames, opts->cuda_calls);
	return 0;
}
