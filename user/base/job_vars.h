/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Variables in which launchers pass a process its place in a job and how many threads its operators
 * have, and the job's author the annotation that ends a step. Nothing else of a process's
 * environment is ever kept: it may hold secrets.
 */
#ifndef BASE_JOB_VARS_H
#define BASE_JOB_VARS_H

#include <stdbool.h>
#include <stdint.h>

/*	name, is it a number
 *	RANK ... TORCHELASTIC_*: torchrun (pytorch torch/distributed/elastic/agent/server/
 *	local_elastic_agent.py)
 *	SLURM_*: srun(1); of the STEP only srun sets
 *	PT_PROFILER_*: torch.profiler has them in its traces (kineto libkineto/src/EnvMetadata.h)
 *	OMP_NUM_THREADS: of OpenMP, which torch asks, too
 *	PTBPF_STEP_ON: ours, the default of --step-on for this process */
/* clang-format off */
#define PTB_JOB_VARS(X)                        \
	X(RANK,                          true) \
	X(WORLD_SIZE,                    true) \
	X(LOCAL_RANK,                    true) \
	X(LOCAL_WORLD_SIZE,              true) \
	X(GROUP_RANK,                    true) \
	X(GROUP_WORLD_SIZE,              true) \
	X(MASTER_ADDR,                  false) \
	X(MASTER_PORT,                   true) \
	X(TORCHELASTIC_RUN_ID,          false) \
	X(TORCHELASTIC_RESTART_COUNT,    true) \
	X(SLURM_JOB_ID,                  true) \
	X(SLURM_PROCID,                  true) \
	X(SLURM_NTASKS,                  true) \
	X(SLURM_STEP_NUM_TASKS,          true) \
	X(SLURM_NODEID,                  true) \
	X(SLURM_ARRAY_JOB_ID,            true) \
	X(SLURM_ARRAY_TASK_ID,           true) \
	X(PT_PROFILER_JOB_NAME,         false) \
	X(PT_PROFILER_JOB_VERSION,      false) \
	X(PT_PROFILER_JOB_ATTEMPT_INDEX, false) \
	X(OMP_NUM_THREADS,               true) \
	X(PTBPF_STEP_ON,                false)
/* clang-format on */

enum job_var {
#define X(name, number) JOB_##name,
	PTB_JOB_VARS(X)
#undef X
		JOB_VAR_CNT
};

#define JOB_TEXT_MAX 255 /* bytes of a value that is a text; longer ones are left out */

struct job_var_row {
	const char *name;
	bool number;
};
extern const struct job_var_row job_vars[JOB_VAR_CNT];

/* Digits alone, at most UINT32_MAX; -1: it is something else. */
int64_t job_vars__number(const char *text);

/*
 * The process's rank, by RANK and WORLD_SIZE, else by the task of a step of SLURM. numbers: by enum
 * job_var, -1 where there is none. False: it has none.
 */
struct job_rank {
	uint32_t rank, world_size; /* at most INT32_MAX */
	bool by_slurm;
};
bool job_vars__rank(const int64_t numbers[JOB_VAR_CNT], struct job_rank *out);

#endif /* BASE_JOB_VARS_H */
