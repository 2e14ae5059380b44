/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rows of reports; each prints on standard output. */
#define LOG_DOMAIN "report"
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>

#include "base/std_out.h"
#include "export/py_text.h"

#define ROWS_OF_LISTS 10
#define ROWS_OF_LINES 25

static struct report_opts report_opts(const struct output_args *args)
{
	return (struct report_opts){ .row_limit = args->row_limit, .json = args->json };
}

/* ---- operators ---- */

struct operators {
	struct key_averages *ka;
	struct py_groups *groups;
};

static void free_operators(void *o)
{
	struct operators *ops = o;

	if (!ops)
		return;
	key_averages__free(ops->ka);
	py_groups__free(ops->groups);
	free(ops);
}

static int open_operators(const struct output_args *args, void **out)
{
	struct operators *ops = calloc(1, sizeof(*ops));
	struct ka_opts opts = { .by_shape = args->by_shape > 0,
				.with_flops = args->with_flops > 0,
				.exact_memory = args->exact_memory > 0 };

	if (!ops)
		return -ENOMEM;
	if (args->group_by_stack_n) {
		ops->groups = py_groups__new(args->s, (uint32_t)args->group_by_stack_n);
		opts.stack_text = py_groups__text;
		opts.stack_arg = ops->groups;
	}
	if (!args->group_by_stack_n || ops->groups)
		ops->ka = key_averages__new(&opts);
	*out = ops;
	if (ops->ka)
		return 0;
	free_operators(ops);
	return -ENOMEM;
}

static struct session_sink operators_sink(void *o)
{
	return key_averages__sink(((struct operators *)o)->ka);
}

static int print_operators(void *o, const struct output_args *args, struct session_totals *totals)
{
	const struct session_info *info = session__info(args->s);
	const struct table_opts opts = { .sort_by = args->sort_by,
					 .row_limit = args->row_limit,
					 .profile_memory = info->has_memory,
					 .device_time = info->has_gpu,
					 .by_stack = args->group_by_stack_n > 0 };
	const struct ka_row *rows;
	uint32_t cnt;
	int err;

	rows = key_averages__rows(((struct operators *)o)->ka, &cnt);
	if (!rows)
		return -ENOMEM;
	err = args->json ? table__print_json(rows, cnt, &opts, args->s, totals, stdout) :
			   table__print(rows, cnt, &opts, stdout);
	return std_out__end("the table", err);
}

const struct output operators_report = {
	.open = open_operators,
	.sink = operators_sink,
	.finish = print_operators,
	.free = free_operators,
};

/* ---- memory, GPUs ---- */

static int open_memory(const struct output_args *args, void **out)
{
	*out = mem_report__new(args->s);
	return *out ? 0 : -ENOMEM;
}

static struct session_sink memory_sink(void *o)
{
	return mem_report__sink(o);
}

static int print_memory(void *o, const struct output_args *args, struct session_totals *totals)
{
	const struct report_opts opts = report_opts(args);

	return std_out__end("the report", mem_report__print(o, totals, &opts, stdout));
}

static void free_memory(void *o)
{
	mem_report__free(o);
}

const struct output memory_report = {
	.needs = NEEDS_MEMORY,
	.rows = ROWS_OF_LISTS,
	.open = open_memory,
	.sink = memory_sink,
	.finish = print_memory,
	.free = free_memory,
};

static int open_gpus(const struct output_args *args, void **out)
{
	*out = gpu_report__new(args->s);
	return *out ? 0 : -ENOMEM;
}

static struct session_sink gpus_sink(void *o)
{
	return gpu_report__sink(o);
}

static int print_gpus(void *o, const struct output_args *args, struct session_totals *totals)
{
	const struct report_opts opts = report_opts(args);

	return std_out__end("the report", gpu_report__print(o, totals, &opts, stdout));
}

static void free_gpus(void *o)
{
	gpu_report__free(o);
}

const struct output gpus_report = {
	.needs = NEEDS_GPU,
	.rows = ROWS_OF_LISTS,
	.open = open_gpus,
	.sink = gpus_sink,
	.finish = print_gpus,
	.free = free_gpus,
};

/* ---- ranks ---- */

static int open_skew(const struct output_args *args, void **out)
{
	*out = rank_times__new(args->s);
	return *out ? 0 : -ENOMEM;
}

static struct session_sink skew_sink(void *o)
{
	return rank_times__sink(o);
}

static int print_skew(void *o, const struct output_args *args, struct session_totals *totals)
{
	const struct report_opts opts = report_opts(args);
	const struct rank_times_result *r;
	int err = rank_times__finish(o, &r);

	if (!err)
		err = skew_report__print(args->s, r, totals, &opts, stdout);
	return err == -ENODATA ? err : std_out__end("the report", err);
}

static void free_skew(void *o)
{
	rank_times__free(o);
}

const struct output skew_report = {
	.rows = ROWS_OF_LISTS,
	.open = open_skew,
	.sink = skew_sink,
	.finish = print_skew,
	.free = free_skew,
};

/* ---- lines, modules, operators in samples ---- */

static int open_lines(const struct output_args *args, void **out)
{
	*out = line_report__new(args->s, args->output == &sampled_operators_report);
	return *out ? 0 : -ENOMEM;
}

static struct session_sink lines_sink(void *o)
{
	return line_report__sink(o);
}

static int print_lines(void *o, const struct output_args *args, struct session_totals *totals)
{
	const struct line_opts opts = { .report = report_opts(args),
					.sort_by = args->sort_by,
					.modules = args->output == &modules_report,
					.operators = args->output == &sampled_operators_report,
					.all_lines = args->all_lines };

	return std_out__end("the report", line_report__print(o, totals, &opts, stdout));
}

static void free_lines(void *o)
{
	line_report__free(o);
}

#define LINES                                                                                      \
	.rows = ROWS_OF_LINES, .open = open_lines, .sink = lines_sink, .finish = print_lines,      \
	.free = free_lines

const struct output lines_report = { .needs = NEEDS_STACKS, LINES };
const struct output modules_report = {
	.needs = NEEDS_STACKS | NEEDS_MODULES,
	LINES,
};
const struct output sampled_operators_report = {
	.needs = NEEDS_STACKS | NEEDS_SAMPLED_OPERATORS,
	LINES,
};

bool report__is_sort_key(const struct output *report, const char *key)
{
	return report == &operators_report ? table__is_sort_key(key) : line_report__is_sort_key(key);
}
