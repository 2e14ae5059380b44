/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The report without an option: the table of operators (table.c), and in JSON the same. */
#include <stdlib.h>

#include "base/mem.h"
#include "export/texts.h"
#include "report/report.h"

struct operators {
	struct key_averages *ka;
	struct py_groups *groups;
};

static void free_report(void *o)
{
	struct operators *ops = o;

	if (!ops)
		return;
	key_averages__free(ops->ka);
	py_groups__free(ops->groups);
	free(ops);
}

static int open_report(const struct output_args *args, void **out)
{
	struct operators *ops = xcalloc(1, sizeof(*ops));
	struct ka_opts opts = { .by_shape = args->by_shape > 0,
				.with_flops = args->with_flops > 0,
				.exact_memory = args->exact_memory > 0 };

	if (args->group_by_stack_n) {
		ops->groups = py_groups__new(args->s, (uint32_t)args->group_by_stack_n);
		opts.stack_text = py_groups__text;
		opts.stack_arg = ops->groups;
	}
	ops->ka = key_averages__new(&opts);
	*out = ops;
	return 0;
}

static struct session_sink report_sink(void *o)
{
	return key_averages__sink(((struct operators *)o)->ka);
}

static int finish_report(void *o, const struct output_args *args)
{
	const struct session_info *info = session__info(args->s);
	const struct table_opts opts = { .profile_memory = info->has_memory,
					 .device_time = info->has_gpu,
					 .by_stack = args->group_by_stack_n > 0,
					 .waits = info->has_sched };
	uint32_t cnt;
	const struct ka_row *rows = key_averages__rows(((struct operators *)o)->ka, &cnt);

	return table__print(rows, cnt, &opts, args);
}

const struct output operators_report = {
	.open = open_report,
	.sink = report_sink,
	.finish = finish_report,
	.free = free_report,
};
