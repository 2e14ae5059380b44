/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --by line` from the tree of calls. A line has for itself what it calls without another line of the program between;
 * its total is all below it, once, however often the line is in a stack.
 */
#define LOG_DOMAIN "lines"
#include "report/line_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/effort.h"
#include "base/list.h"
#include "base/log.h"
#include "base/term_text.h"
#include "export/stack_tree.h"

struct line_row {
	uint32_t file, line, func; /* texts of the tree; file 0: operators without Python's frames */
	uint32_t nr;               /* order of first appearance */
	bool library;
	uint64_t seen; /* the node that was last added to its total, + 1 */
	int64_t self[STACK_METRIC_CNT], total[STACK_METRIC_CNT];
};

struct line_report {
	const struct session *s;
	struct stack_tree *tree;
	struct line_row *rows;
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids; /* file, line -> index */
	int64_t sums[STACK_METRIC_CNT];
};

struct line_report *line_report__new(const struct session *s)
{
	struct line_report *lr = calloc(1, sizeof(*lr));

	if (!lr)
		return NULL;
	lr->s = s;
	lr->tree = stack_tree__new();
	if (lr->tree && !stack_tree__begin(lr->tree, s))
		return lr;
	line_report__free(lr);
	return NULL;
}

void line_report__free(struct line_report *lr)
{
	if (!lr)
		return;
	stack_tree__free(lr->tree);
	hashmap__clear(&lr->row_ids);
	free(lr->rows);
	free(lr);
}

struct session_sink line_report__sink(struct line_report *lr)
{
	return stack_tree__sink(lr->tree);
}

/* ---- sums ---- */

/* Row of a frame, or of what has none (NULL). */
static struct line_row *find_line(struct line_report *lr, const struct stack_frame *f)
{
	uint32_t before = lr->row_cnt;
	struct line_row *r =
		list__keyed(KEYED_LIST(lr, rows, row), f ? f->file : 0, f ? (uint32_t)f->line : 0);

	if (r && lr->row_cnt > before && f)
		*r = (struct line_row){ .file = f->file,
					.line = (uint32_t)f->line,
					.func = f->name,
					.library = f->kind == STACK_LIBRARY };
	if (r)
		r->nr = (uint32_t)(r - lr->rows);
	return r;
}

static void add_values(int64_t *to, const int64_t *values)
{
	for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
		to[m] += values[m];
}

/* The frame that the node's own values belong to: the program's innermost one, or the innermost one of all. */
static uint32_t own_frame(const struct stack_node *nodes, const struct stack_frame *frames,
			  uint32_t python, bool all_lines)
{
	uint32_t n = python;

	while (!all_lines && n && frames[nodes[n].frame].kind != STACK_PYTHON)
		n = nodes[nodes[n].parent].python;
	return n ? n : python;
}

static int add_node(struct line_report *lr, uint32_t i, const int64_t *values, bool all_lines)
{
	uint32_t cnt, own;
	const struct stack_node *nodes = stack_tree__nodes(lr->tree, &cnt);
	const struct stack_frame *frames = stack_tree__frames(lr->tree, &cnt);
	struct line_row *r;

	own = own_frame(nodes, frames, nodes[i].python, all_lines);
	r = find_line(lr, own ? &frames[nodes[own].frame] : NULL);
	if (!r)
		return -ENOMEM;
	add_values(r->self, values);
	if (!own)
		add_values(r->total, values);
	for (uint32_t n = own; n; n = nodes[nodes[n].parent].python) {
		const struct stack_frame *f = &frames[nodes[n].frame];

		effort__spend(4);
		if (n != own && !all_lines && f->kind == STACK_LIBRARY)
			continue;
		r = find_line(lr, f);
		if (!r)
			return -ENOMEM;
		if (r->seen != (uint64_t)i + 1)
			add_values(r->total, values);
		r->seen = (uint64_t)i + 1;
	}
	return 0;
}

static int sum_lines(struct line_report *lr, bool all_lines)
{
	uint32_t cnt, frame_cnt;
	const struct stack_node *nodes = stack_tree__nodes(lr->tree, &cnt);
	const struct stack_frame *frames = stack_tree__frames(lr->tree, &frame_cnt);
	int err = 0;

	for (uint32_t i = 1; i < cnt && !err; i++) {
		enum stack_kind around = (enum stack_kind)frames[nodes[nodes[i].parent].frame].kind;
		int64_t values[STACK_METRIC_CNT];
		bool any = false;

		memcpy(values, nodes[i].self[0], sizeof(values));
		if (around == STACK_OPERATOR || around == STACK_ANNOTATION)
			values[STACK_CALLS] = 0;                     /* Python did not call it */
		if (frames[nodes[i].frame].kind == STACK_ANNOTATION) /* the program's own code between operators */
			values[STACK_CALLS] = values[STACK_CPU] = 0;
		for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
			any |= values[m] != 0;
		add_values(lr->sums, values);
		if (any)
			err = add_node(lr, i, values, all_lines);
		if (i % 4096 == 0 && cancel__pending())
			err = -ECANCELED;
	}
	return err;
}

/* ---- order ---- */

static const struct line_key {
	const char *name;
	enum stack_metric metric;
	bool total;
} line_keys[] = {
	{ "self_cpu_time_total", STACK_CPU, false },
	{ "cpu_time_total", STACK_CPU, true },
	{ "self_cuda_time_total", STACK_GPU, false },
	{ "cuda_time_total", STACK_GPU, true },
	{ "self_device_time_total", STACK_GPU, false },
	{ "device_time_total", STACK_GPU, true },
	{ "count", STACK_CALLS, false },
	{ "self_cpu_memory_usage", STACK_CPU_ALLOC, false },
	{ "cpu_memory_usage", STACK_CPU_ALLOC, true },
	{ "self_cuda_memory_usage", STACK_GPU_ALLOC, false },
	{ "cuda_memory_usage", STACK_GPU_ALLOC, true },
	{ "self_device_memory_usage", STACK_GPU_ALLOC, false },
	{ "device_memory_usage", STACK_GPU_ALLOC, true },
};

static const struct line_key *find_line_key(const char *name)
{
	for (size_t i = 0; i < sizeof(line_keys) / sizeof(*line_keys); i++)
		if (!strcmp(line_keys[i].name, name))
			return &line_keys[i];
	return NULL;
}

bool line_report__is_sort_key(const char *key)
{
	return find_line_key(key);
}

static int cmp_lines(const void *pa, const void *pb, void *arg)
{
	const struct line_row *a = pa, *b = pb;
	const struct line_key *key = arg;
	int64_t x = key ? (key->total ? a->total : a->self)[key->metric] : 0;
	int64_t y = key ? (key->total ? b->total : b->self)[key->metric] : 0;

	if (x != y)
		return x < y ? 1 : -1;
	return (a->nr > b->nr) - (a->nr < b->nr);
}

/* ---- text ---- */

struct line_column {
	const char *head;
	enum stack_metric metric;
	bool total, percent;
};

static const struct line_column line_columns[] = {
	{ "self CPU", STACK_CPU, false, true },
	{ "total CPU", STACK_CPU, true, true },
	{ "self GPU", STACK_GPU, false, true },
	{ "total GPU", STACK_GPU, true, true },
	{ "allocated", STACK_CPU_ALLOC, false, false },
	{ "not freed", STACK_CPU_LIVE, false, false },
	{ "GPU alloc", STACK_GPU_ALLOC, false, false },
	{ "not freed", STACK_GPU_LIVE, false, false },
	{ "faults", STACK_FAULTS, false, false },
	{ "calls", STACK_CALLS, false, false },
};
#define LINE_COLUMN_CNT (sizeof(line_columns) / sizeof(*line_columns))

static struct cell value_cell(enum stack_metric metric, int64_t v)
{
	switch (metric) {
	case STACK_CPU:
	case STACK_GPU:
		return cell__duration(v > 0 ? (uint64_t)v : 0);
	case STACK_CALLS:
	case STACK_FAULTS:
		return cell__count(v > 0 ? (uint64_t)v : 0);
	default:
		return cell__bytes((double)v);
	}
}

static void put_line_head(FILE *out, const struct line_report *lr)
{
	for (size_t i = 0; i < LINE_COLUMN_CNT; i++) {
		if (!lr->sums[line_columns[i].metric])
			continue;
		fprintf(out, "%*s", i ? 12 : 10, line_columns[i].head);
		if (line_columns[i].percent)
			fprintf(out, "%8s", "%");
	}
	fputs("  line\n", out);
}

static void put_line_row(FILE *out, const struct line_report *lr, const struct line_row *r)
{
	char where[32] = "";

	for (size_t i = 0; i < LINE_COLUMN_CNT; i++) {
		const struct line_column *c = &line_columns[i];
		int64_t v = (c->total ? r->total : r->self)[c->metric], sum = lr->sums[c->metric];

		if (!sum)
			continue;
		fprintf(out, "%*s", i ? 12 : 10, v ? value_cell(c->metric, v).text : "-");
		if (c->percent)
			fprintf(out, "%7.1f%%", 100.0 * (double)v / (double)sum);
	}
	fputs("  ", out);
	if (!r->file) {
		fputs("(no Python frames)\n", out);
		return;
	}
	term_text__put(out, stack_tree__text(lr->tree, r->file), SIZE_MAX);
	if (r->line)
		snprintf(where, sizeof(where), ":%u", r->line);
	fprintf(out, "%s in ", where);
	term_text__put(out, stack_tree__text(lr->tree, r->func), SIZE_MAX);
	fputc('\n', out);
}

static int print_lines(struct line_report *lr, const struct session_totals *totals,
		       const struct line_opts *opts, FILE *out)
{
	const struct session_info *info = session__info(lr->s);
	uint32_t shown = report__shown(lr->row_cnt, opts->report.row_limit);

	errno = 0;
	fprintf(out, "Lines of code, %.3f s, %u process%s: %s in operators\n",
		(double)(info->end_ns - info->begin_ns) / 1e9, info->process_cnt,
		info->process_cnt == 1 ? "" : "es", value_cell(STACK_CPU, lr->sums[STACK_CPU]).text);
	fputs("self: what the line calls", out);
	fputs(opts->all_lines ? "; " : " itself or through libraries (--all-lines: without them); ", out);
	fputs("total: all that is below it.\nBackward operators belong to the line of their forward operator.\n\n",
	      out);
	put_line_head(out, lr);
	for (uint32_t i = 0; i < shown; i++)
		put_line_row(out, lr, &lr->rows[i]);
	report__put_rest(out, shown, lr->row_cnt);
	report__put_incomplete(out, info, totals);
	return report__flush(out);
}

/* ---- JSON ---- */

static void write_line_values(struct jsonw *w, const int64_t *v)
{
	jsonw__begin_obj(w);
#define X(id, key, name, unit) JSONW_I64(w, #key, v[STACK_##id]);
	STACK_METRICS(X)
#undef X
	jsonw__end_obj(w);
}

static int print_lines_json(struct line_report *lr, const struct session_totals *totals,
			    const struct line_opts *opts, FILE *out)
{
	uint32_t shown = report__shown(lr->row_cnt, opts->report.row_limit);
	struct jsonw w;
	int err = report_json__begin(&w, out, lr->s, totals);

	if (err)
		return err;
	jsonw__key(&w, "sort_by");
	if (opts->sort_by)
		jsonw__str(&w, opts->sort_by);
	else
		jsonw__null(&w);
	JSONW_BOOL(&w, "all_lines", opts->all_lines);
	jsonw__key(&w, "sums");
	write_line_values(&w, lr->sums);
	JSONW_U64(&w, "line_count", lr->row_cnt);
	REPORT_JSON_LIST(&w, "lines");
	for (uint32_t i = 0; i < shown; i++) {
		const struct line_row *r = &lr->rows[i];

		jsonw__begin_row(&w);
		JSONW_STR(&w, "file", stack_tree__text(lr->tree, r->file));
		JSONW_U64(&w, "line", r->line);
		JSONW_STR(&w, "function", stack_tree__text(lr->tree, r->func));
		JSONW_BOOL(&w, "library", r->library);
		jsonw__key(&w, "self");
		write_line_values(&w, r->self);
		jsonw__key(&w, "total");
		write_line_values(&w, r->total);
		jsonw__end_obj(&w);
	}
	jsonw__end_arr(&w);
	return report_json__end(&w, out);
}

int line_report__print(struct line_report *lr, const struct session_totals *totals,
		       const struct line_opts *opts, FILE *out)
{
	const struct line_key *key = opts->sort_by ? find_line_key(opts->sort_by) : NULL;
	int err = sum_lines(lr, opts->all_lines);

	if (err) {
		pr_error("cannot sum up lines: %s", errstr(err));
		return err;
	}
	if (lr->row_cnt)
		qsort_r(lr->rows, lr->row_cnt, sizeof(*lr->rows), cmp_lines, (void *)(uintptr_t)key);
	return opts->report.json ? print_lines_json(lr, totals, opts, out) :
				   print_lines(lr, totals, opts, out);
}
