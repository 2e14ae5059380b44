/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See job_vars.h. */
#include "base/job_vars.h"

#include <stdlib.h>
#include <string.h>

const struct job_var_row job_vars[JOB_VAR_CNT] = {
#define X(name, number) [JOB_##name] = { #name, number },
	PTB_JOB_VARS(X)
#undef X
};

int64_t job_vars__number(const char *text)
{
	size_t len = strspn(text, "0123456789");
	int64_t v = len && len <= 10 && !text[len] ? strtoll(text, NULL, 10) : -1;

	return v <= UINT32_MAX ? v : -1;
}

static bool take(int64_t rank, int64_t world_size, struct job_rank *out)
{
	if (rank < 0 || world_size <= rank || world_size > INT32_MAX)
		return false;
	out->rank = (uint32_t)rank;
	out->world_size = (uint32_t)world_size;
	return true;
}

bool job_vars__rank(const int64_t numbers[JOB_VAR_CNT], struct job_rank *out)
{
	*out = (struct job_rank){ .rank = 0 };
	if (take(numbers[JOB_RANK], numbers[JOB_WORLD_SIZE], out))
		return true;
	/* not SLURM_NTASKS: a script outside a step has it, too, and is no task of the job's */
	out->by_slurm = take(numbers[JOB_SLURM_PROCID], numbers[JOB_SLURM_STEP_NUM_TASKS], out);
	return out->by_slurm;
}
