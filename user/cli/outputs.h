/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * From a capture to what the user requested: trace, table, summary line, exit code. Needs neither
 * root nor the target; live commands and `report`/`export` go through the same function.
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "cli/opts.h"
#include "cli/read_child.h"
#include "report/report.h"

struct metrics_window;

#define OUTPUTS_INCOMPLETE_MAX 1024

/* What the summary line says, for other programs. */
struct outputs_result {
	uint64_t window_ns, slices, lost;
	uint64_t capture_bytes;
	bool nothing;         /* no operator, annotation, GPU activity or sample */
	uint64_t steps;       /* whole ones */
	uint32_t stop_reason; /* enum ptb_stop_reason */
	double cost_share;    /* of the window, at least that; negative: not measured */
	char incomplete[OUTPUTS_INCOMPLETE_MAX]; /* what is missing, "": nothing */
};

#define OUTPUTS_FILES READ_CHILD_FILES

struct outputs {
	const char *const *captures; /* one, or several that are read as one session */
	uint32_t capture_cnt;
	/* of one: the open file, which outputs__write() closes; 0: what has that name is opened */
	int capture_fd;
	struct output_file {
		const struct output *output;
		const char *path;
		uint32_t tgid;       /* of struct output_args */
	} files[OUTPUTS_FILES];      /* up to the first without a path */
	const struct output *report; /* on stdout; NULL: none */
	/* What is requested of each of them: its sort_by may be OUTPUTS_UNSORTED, NULL is as
	 * recorded; `output`, `s` and `path` are filled in. */
	struct output_args args;
	/* of OUTPUTS_TABLES: how wide reports are; NULL: as the terminal, without one as torch */
	const char *table;
	const char *when;    /* only what ran in annotations of that name; NULL: all */
	const char *align;   /* of several: by OUTPUTS_ALIGN, NULL: clocks */
	const char *step_on; /* NULL and not no_steps: as recorded */
	bool no_steps;
	/* on stderr: nothing; what is missing and, where something is, the summary; both */
	enum { OUTPUTS_QUIET, OUTPUTS_IF_MISSING, OUTPUTS_SUMMARY } summary;
	uint64_t requested_ns;          /* how long the window should have been, 0: not known */
	struct outputs_result *result;  /* NULL: not requested */
	struct metrics_window *metrics; /* likewise */
	const void *arg;                /* of what outputs__ask() is given */
};

#define OUTPUTS_ALIGN "clocks, collectives"
/* Options of report and export; cfg has a struct outputs `out`, and `quiet`. */
/* clang-format off */
#define QUIET_OPT(cfg)                                                                              \
	{ OPT_FLAG, 'q', "quiet", offsetof(struct cfg, quiet), NULL,                                \
	  "print no messages but warnings and errors", OPT_BASIC }
#define READING_OPTS(cfg)                                                                           \
	{ OPT_STR, 0, "when", offsetof(struct cfg, out.when), "NAME",                               \
	  "only what ran in annotations (record_function, ProfilerStep) of that name, backward and on GPUs, too", OPT_BASIC }, \
	{ OPT_CHOICE, 0, "align", offsetof(struct cfg, out.align), "BY=" OUTPUTS_ALIGN,             \
	  "of several captures: collectives: where collectives contradict a machine's clock, its times are moved; clocks (default): " \
	  "a warning says by how much" },                                                           \
	{ OPT_STR, 0, "step-on", offsetof(struct cfg, out.step_on), "NAME",                         \
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)" },     \
	{ OPT_FLAG, 0, "no-steps", offsetof(struct cfg, out.no_steps), NULL,                        \
	  "do not derive ProfilerStep slices" }
/* clang-format on */

#define OUTPUTS_TABLES "fit, torch"
#define OUTPUTS_TABLE_HELP                                                                         \
	"fit: as wide as the terminal, or as COLUMNS says; torch: as torch.profiler prints it "    \
	"(default: fit on a terminal)"

#define OUTPUTS_UNSORTED "none"
#define OUTPUTS_SORTED "self_cpu_time_total" /* unless an option or the recording says otherwise */
#define OUTPUTS_SORT_KEYS TABLE_SORT_KEYS ", " OUTPUTS_UNSORTED

/* Of report and export: takes the captures that are named. -EINVAL (reported): none is, or
 * options exclude each other. */
int outputs__take(struct outputs *o, const char *command, const struct opt_words *words);
/*
 * In the child that reads the captures (cli/read_child.h): what it was asked, and their session. fn
 * has an answer for the parent, from malloc. 0 or negative errno; some are logged.
 */
struct reader;
typedef int (*reader_fn)(struct reader *r, uint8_t **answer, size_t *len);
struct reader {
	struct outputs o;
	reader_fn fn;
	const struct read_files *files;
	struct hashmap users; /* of metrics: process -> uid */
	int err_columns;      /* of stderr, as in struct output_args */
	bool err_colour;
	struct join *j;
	struct session *s;
};
/* The answer of fn, up to max bytes. 0 or negative errno, logged. */
int outputs__ask(const struct outputs *o, reader_fn fn, size_t max, uint8_t **answer, size_t *len);
void outputs__say_incomplete(const struct outputs_result *r);
/* Exit code of the command. Options that are not set are those of the recording. */
int outputs__write(const struct outputs *o);

/* FILE_OUTPUTS, of which export knows no more than the names: some are of parts above it. */
extern const struct file_output {
	const struct output *output;
	const char *name, *suffixes, *help;
} file_outputs[]; /* ends with a row without an output */
/* That of the name; NULL: there is none such. */
const struct file_output *file_output__find(const char *name);
/* That whose suffix the path has, the longest one; NULL: nobody's. *stem: length of the path
 * without it. */
const struct file_output *file_output__of_path(const char *path, size_t *stem);

/* A Chrome trace of each rank of a capture: what readers of distributed jobs take, such as
 * HolisticTraceAnalysis. */

/* Writes dir/rankN.pt.trace.json.gz; makes the directory if there is none. Exit code of the
 * command. */
int split_ranks__write(const struct outputs *o, const char *dir);

#endif /* CLI_OUTPUTS_H */
