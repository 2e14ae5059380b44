/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * From a capture to what the user requested: trace, table, summary line, exit code. Needs neither root
 * nor the target; live commands and `report`/`export` go through the same function.
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "export/mem_timeline.h"
#include "report/table.h"

struct metrics;
struct metrics_window;

#define OUTPUTS_INCOMPLETE_MAX 1024

/* What the summary line says, for other programs. */
struct outputs_result {
	uint64_t window_ns, slices, lost;
	uint64_t steps;       /* whole ones */
	uint32_t stop_reason; /* enum ptb_stop_reason */
	double cost_share;    /* of the window, at least that; negative: not measured */
	char incomplete[OUTPUTS_INCOMPLETE_MAX]; /* what is missing, "": nothing */
};

struct outputs {
	const char *capture;
	int capture_fd; /* the open file, which outputs__write() closes; 0: what has that name is opened */
	const char *trace; /* NULL: no Chrome trace */
	const char *et;    /* NULL: no Execution Trace */
	uint32_t pid; /* of which process a trace or a timeline is; 0: Chrome trace: all, others: the first */
	const char *timeline;                   /* NULL: no memory timeline */
	uint32_t timeline_format;               /* enum timeline_format */
	const char *timeline_device;            /* NULL: torch's choice */
	const char *stacks;                     /* NULL: no folded stacks */
	const char *stacks_metric;              /* of STACKS_METRICS */
	const char *threads;                    /* NULL: no stacks of threads */
	const char *flamegraph;                 /* NULL: no flame graph */
	const char *diff;                       /* its second capture; NULL: none */
	int by_shape, with_flops, exact_memory; /* the table's rows and columns: 1, -1: not, 0: as recorded */
	int group_by_stack_n;                   /* of the table: that many frames, 0: not */
	bool table, memory, gpu; /* on stdout: operators, what memory was used for, what GPUs did */
	bool lines, all_lines;   /* on stdout: what lines of code did; those of libraries as well */
	bool skew;               /* on stdout: which rank the others wait for */
	bool modules, operators; /* with lines: what modules did instead, or operators in samples */
	bool json;               /* for machines */
	const char *sort_by; /* of OUTPUTS_SORT_KEYS; OUTPUTS_UNSORTED: order of first appearance; NULL: as recorded */
	int row_limit;       /* OUTPUTS_ROWS_DEFAULT: as recorded */
	const char *step_on; /* NULL and not no_steps: as recorded */
	bool no_steps;
	bool summary;                        /* one line on stderr, and what is missing */
	struct outputs_result *result;       /* NULL: not requested */
	struct metrics_window *metrics;      /* likewise; */
	const struct metrics *known_metrics; /* what they will be added to */
};

#define OUTPUTS_UNSORTED "none"
#define OUTPUTS_SORTED "self_cpu_time_total" /* unless an option or the recording says otherwise */
#define OUTPUTS_SORT_KEYS TABLE_SORT_KEYS ", " OUTPUTS_UNSORTED
#define OUTPUTS_ROWS_DEFAULT INT_MIN
#define OUTPUTS_LINES 25

/* Of report and export: a capture is named, and no options exclude each other. 0 or -EINVAL (reported). */
int outputs__check(const char *command, const struct outputs *o);
/* Exit code of the command. Options that are not set are those of the recording. */
int outputs__write(const struct outputs *o);

#endif /* CLI_OUTPUTS_H */
