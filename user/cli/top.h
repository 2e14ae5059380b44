/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf top: `ptbpf frames` (cmd_frames.c) records and makes a frame of each interval; top_draw.c
 * and top_table.c turn a frame into the text of a screen, top_keys.c does what keys say; they know
 * no terminal, which top_term.c has. cmd_top.c brings them together.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <stdio.h>

#include "cli/live.h"
#include "report/report.h"

/* Options of both, whose rows are TOP_OPTS. */
struct top_cfg {
	struct run_cfg run; /* first: rows of options that commands share have offsets in it */
	uint64_t interval_ns;
	bool operators;
	const char *max_overhead;
};
#define TOP_INTERVAL_NS 1000000000ULL
#define TOP_INTERVAL_MIN_NS 200000000ULL
#define TOP_INTERVAL_MAX_NS 60000000000ULL
/* clang-format off */
#define TOP_OPTS \
	{ OPT_PIDS, 'p', "pid", offsetof(struct top_cfg, run.pids), "PID[,PID...]",                          \
	  "the processes; also as words of their own (default: the only one with PyTorch)" },                \
	{ OPT_FLAG, 0, "children", offsetof(struct top_cfg, run.rec.children), NULL,                         \
	  "also their child processes (data loader workers, ranks)" },                                       \
	{ OPT_DURATION, 'i', "interval", offsetof(struct top_cfg, interval_ns), "TIME",                      \
	  "time that each screen shows (default: 1s)" },                                                     \
	{ OPT_FLAG, 'o', "operators", offsetof(struct top_cfg, operators), NULL,                             \
	  "record operators, by the agent for an interval, else by probes, as the key o does later (default: if there is an agent)" },                       \
	{ OPT_STR, 0, "max-overhead", offsetof(struct top_cfg, max_overhead), "PERCENT",                     \
	  "remove these probes when they have cost a process this share of ten seconds; off: never (default: " MAX_OVERHEAD ")" }, \
	{ OPT_STR, 0, "step-on", offsetof(struct top_cfg, run.step_on), "NAME",                              \
	  "count a step at each annotation NAME (default: the one that PTBPF_STEP_ON names in the process's environment, else Optimizer.step)" }, \
	{ OPT_CHOICE, 0, "agent", offsetof(struct top_cfg, run.agent), "MODE=auto, off, inject",             \
	  "ptbpf's agent in the process: auto (use it if loaded), off, inject (load it)" }
/* clang-format on */

/* What is shown of it. */
enum { TOP_PROCESSES = TOP_LISTS, TOP_VIEWS }; /* beside the lists of a frame */

struct top_view {
	int width, height; /* height 0: as many lines as there are */
	bool colour;
	uint32_t kind;            /* a list, or TOP_PROCESSES */
	uint32_t sort[TOP_VIEWS]; /* the column, of those that are never left out */
	bool reversed;
	uint32_t first;  /* row that comes first */
	char filter[64]; /* part of a name, "": none */
	uint32_t prompt; /* what the user writes into `input`; 0: nothing */
	char input[64];
	bool paused, help, recording; /* recording: operators are to come */
	uint64_t interval_ns;
	uint64_t missed_ns; /* before the frame, without a recording */
	char clock[16];
	char message[256]; /* of the recording; foreign */
	/* operators are those of this frame, from so long ago; NULL: of none */
	const struct top_frame *operators;
	uint64_t operators_age_ns;
};

/*
 * Lines of exactly `width` columns, `height` of them, each with a line end but the last; with
 * height 0 as long as their text. frame NULL: none has come.
 */
void top__draw(FILE *out, const struct top_view *v, const struct top_frame *frame);
uint32_t top__columns(uint32_t kind); /* that can be sorted by */
uint32_t top__rows(const struct top_view *v, const struct top_frame *frame); /* with the filter */
/* What a key that changes more than the view asks for; rows: top__rows(). */
enum top_action { TOP_NOTHING, TOP_QUIT, TOP_INTERVAL, TOP_RECORD_OPERATORS };
enum top_action top_keys__press(struct top_view *v, uint32_t rows, int key);
const char *top_keys__prompt(const struct top_view *v); /* NULL: none */
/* The document of a frame as JSON. 0 or negative errno, logged. */
int top__json(const struct top_view *v, const struct top_frame *frame);

/* ---- top_draw.c and top_table.c ---- */

struct screen {
	FILE *out;
	const struct top_view *v;
	const struct top_frame *f;
	int line, at;   /* lines that are written; columns of the open one */
	bool open, off; /* a line is open; there is no room for more */
};

#define STYLE_BOLD "\033[1m"
#define STYLE_HEAD "\033[7m"
#define STYLE_SORT "\033[1;7m"
#define STYLE_ALERT "\033[33m"
#define STYLE_END "\033[0m"

void screen__style(struct screen *s, const char *code);
/* Unless fewer than `left` lines remain below it. */
void screen__begin_line(struct screen *s, int left);
void screen__end_line(struct screen *s);
void screen__put(struct screen *s, const char *text); /* foreign, as far as there is room */
void screen__put_padded(struct screen *s, const char *text, int width, bool left);
void screen__put_name(struct screen *s, const char *text, int max); /* cut in its midst */

double top__share(uint64_t ns, uint64_t of);
double top__a_second(uint64_t cnt, uint64_t ns);
const char *top_table__name(uint32_t kind);
bool top_table__has_rows(const struct screen *s); /* or could have */
/* The view's rows with their headings, at most max. */
void top_table__put(struct screen *s, uint32_t max);
/* For how long operators were recorded, of the process of which it was longest. */
uint64_t top__operators_ns(const struct top_frame *f);

#endif /* CLI_TOP_H */
