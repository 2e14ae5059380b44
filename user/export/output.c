/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What outputs share: what must have been recorded, and the choice of a process. */
#define LOG_DOMAIN "export"
#include "export/output.h"

#include <errno.h>
#include <inttypes.h>

#include "base/log.h"

/* The first that is missing is named: what implies others comes before them. */
static const struct {
	uint32_t what;
	const char *sentence; /* behind the capture's name */
	const char *options;  /* of a recording that has it, each with a blank behind it */
} needs[] = {
	{ NEEDS_SHAPES, "contains no shapes: it was recorded without --record-shapes",
	  "--record-shapes " },
	{ NEEDS_ALLOCATIONS, "contains no allocations: it was recorded without --profile-memory",
	  "--profile-memory " },
	{ NEEDS_MEMORY,
	  "contains no memory events: it was recorded with neither --profile-memory nor --kernel-memory",
	  "--profile-memory " },
	{ NEEDS_MODULES, "contains no modules: it was recorded without --with-modules",
	  "--with-modules " },
	{ NEEDS_SAMPLED_OPERATORS,
	  "has no samples; its table of operators is that of report without --by",
	  "--sample-stacks 99 --activities cpu " },
	{ NEEDS_STACKS, "contains no Python stacks: it was recorded without --with-stack",
	  "--with-stack " },
	{ NEEDS_LINES, "contains no Python stacks: it was recorded without --with-stack",
	  "--with-stack " },
	{ NEEDS_SAMPLES, "contains no samples: it was recorded without --sample-stacks",
	  "--sample-stacks 99 " },
	{ NEEDS_SCHED, "contains no waits of threads: it was recorded without --sched",
	  "--sched " },
	{ NEEDS_GPU, "contains no GPU activity: it was recorded with --gpu off or --activities cpu",
	  "" },
};
#define NEEDS_CNT (sizeof(needs) / sizeof(needs[0]))

static uint32_t recorded(const struct session_info *i)
{
	return (i->has_shapes ? NEEDS_SHAPES : 0U) | (i->has_memory ? NEEDS_ALLOCATIONS : 0U) |
	       (i->has_memory || i->has_kernel_memory ? NEEDS_MEMORY : 0U) |
	       (i->has_py_stacks ? NEEDS_STACKS : 0U) |
	       (i->has_py_stacks || i->with_samples ? NEEDS_LINES : 0U) |
	       (i->sample_hz ? NEEDS_SAMPLED_OPERATORS : 0U) |
	       (i->sample_hz || i->with_samples ? NEEDS_SAMPLES : 0U) |
	       (i->has_modules ? NEEDS_MODULES : 0U) | (i->has_sched ? NEEDS_SCHED : 0U) |
	       (i->has_gpu || i->has_cuda_calls ? NEEDS_GPU : 0U);
}

/* The command of a recording like that one, but with these options. */
static void hint_record(const struct session *s, const char *options)
{
	const struct session_info *info = session__info(s);
	uint64_t seconds = (info->end_ns - info->begin_ns + 500000000) / 1000000000;

	if (session__meta(s, "started"))
		pr_hint("record it again: ptbpf record %s-o run.ptb -- COMMAND", options);
	else
		pr_hint("record it again: ptbpf attach --pid PID -d %" PRIu64 "s %s-o run.ptb",
			seconds ? seconds : 1, options);
}

/* The row of what it lacks, the number of rows: nothing. */
static size_t lacked(const struct output_args *args)
{
	uint32_t missing = args->output->needs;
	size_t i = 0;

	if (args->by_shape > 0 || args->with_flops > 0)
		missing |= NEEDS_SHAPES;
	if (args->exact_memory > 0)
		missing |= NEEDS_ALLOCATIONS;
	if (args->group_by_stack_n)
		missing |= NEEDS_STACKS;
	missing &= ~recorded(session__info(args->s));
	while (i < NEEDS_CNT && !(missing & needs[i].what))
		i++;
	return i;
}

const char *output__lacks(const struct output_args *args)
{
	size_t i = lacked(args);

	return i < NEEDS_CNT ? needs[i].options : NULL;
}

int output__check_recorded(const struct output_args *args)
{
	size_t i = lacked(args);

	if (i == NEEDS_CNT)
		return 0;
	pr_error("'%s' %s", args->capture, needs[i].sentence);
	hint_record(args->s, needs[i].options);
	return -ENODATA;
}

int output__choose_process(const struct output_args *args, uint32_t *tgid)
{
	const struct session_info *info = session__info(args->s);
	uint32_t i = 0;

	while (args->tgid && i < info->process_cnt && info->processes[i].tgid != args->tgid)
		i++;
	if (args->tgid && i == info->process_cnt) {
		pr_error("cannot write '%s': the capture has no process %u", args->path,
			 args->tgid);
		return -ESRCH;
	}
	*tgid = i < info->process_cnt ? info->processes[i].tgid : 0;
	if (info->process_cnt > 1 && !args->tgid)
		pr_warn("'%s' is of process %u; the capture has %u more, which --pid selects",
			args->path, *tgid, info->process_cnt - 1);
	return 0;
}
