/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --by line` and `--by module` from the tree of calls. A row has for itself what is
 * called without the frame of another row between; its total is all below it, once, however often
 * it is in a stack.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/stack_tree.h"

struct line_row {
	uint32_t file, line,
		/* texts of the tree; of a module: func is its name; all 0: operators in no such
		 * frame */
		func;
	uint32_t path, shown; /* of a module, as the tree's */
	bool has_path;
	uint32_t outer; /* of a module: the row, + 1, of the module that called it first; 0: none */
	uint32_t nr;    /* order of first appearance */
	bool library;
	enum line_special { LINE_OF_PROGRAM, LINE_LOADER, LINE_OUTSIDE } special;
	uint64_t seen; /* the node that was last added to its total, + 1 */
	int64_t self[STACK_METRIC_CNT], total[STACK_METRIC_CNT];
};

struct line_report {
	const struct session *s;
	struct stack_tree *tree, *own; /* own: NULL: it is shared */
	struct line_row *rows;
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids; /* file, line; module, path -> index */
	uint32_t *order;        /* of the rows that are printed: indices */
	/* which report it is; of its lines those of libraries, too */
	bool modules, operators, all_lines;
	int64_t sums[STACK_METRIC_CNT];
};

static void free_report(void *o)
{
	struct line_report *lr = o;

	if (!lr)
		return;
	stack_tree__free(lr->own);
	hashmap__clear(&lr->row_ids);
	free(lr->rows);
	free(lr->order);
	free(lr);
}

static int open_report(const struct output_args *args, void **out)
{
	struct line_report *lr = xcalloc(1, sizeof(*lr));

	lr->s = args->s;
	lr->modules = args->output == &modules_report;
	lr->operators = args->output == &sampled_operators_report;
	lr->all_lines = args->all_lines;
	if (!args->tree || lr->operators) {
		lr->own = stack_tree__new();
		stack_tree__begin(lr->own, args->s);
	}
	lr->tree = lr->own ? lr->own : args->tree;
	if (lr->operators)
		stack_tree__group_by_operator(lr->tree);
	*out = lr;
	return 0;
}

static struct session_sink report_sink(void *o)
{
	const struct line_report *lr = o;

	return lr->own ? stack_tree__sink(lr->own) : (struct session_sink){ .arg = NULL };
}

/* ---- sums ---- */

/* Row of a frame, or of what has none (NULL). */
static struct line_row *find_row(struct line_report *lr, const struct stack_frame *f)
{
	uint32_t before = lr->row_cnt;
	uint32_t k0 = !f ? 0 : lr->modules ? f->module : lr->operators ? f->name : f->file;
	uint32_t k1 = !f || lr->operators ? 0 : lr->modules ? f->path : (uint32_t)f->line;
	struct line_row *r = list__keyed(KEYED_LIST(lr, rows, row), k0, k1);

	if (lr->row_cnt > before && f)
		*r = (struct line_row){ .file = lr->operators ? 0 : f->file,
					.line = lr->modules ? 0 : k1,
					.path = f->path,
					.shown = f->shown,
					.has_path = f->has_path,
					.func = lr->modules ? f->module : f->name,
					.library = f->kind == STACK_LIBRARY };
	r->nr = (uint32_t)(r - lr->rows);
	return r;
}

static void sum_values(int64_t *to, const int64_t *values)
{
	for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
		stack_sum__add(&to[m], values[m]);
}

static bool has_row(const struct line_report *lr, const struct stack_frame *f)
{
	return lr->modules ? f->module : lr->all_lines || f->kind == STACK_PYTHON;
}

/*
 * The frame that the node's own values belong to: the innermost one with a row, of lines else the
 * innermost one of all.
 */
static uint32_t own_frame(const struct line_report *lr, const struct stack_node *nodes,
			  const struct stack_frame *frames, uint32_t python)
{
	uint32_t n = python;

	while (n && !has_row(lr, &frames[nodes[n].frame]))
		n = nodes[nodes[n].parent].python;
	return n || lr->modules ? n : python;
}

/* Samples know the innermost operator only, so its total is its own. */
static void add_operator(struct line_report *lr, const struct stack_frame *f, const int64_t *values)
{
	struct line_row *r = find_row(lr, f);

	sum_values(r->self, values);
	sum_values(r->total, values);
}

static void add_node(struct line_report *lr, uint32_t i, const int64_t *values)
{
	uint32_t cnt, own, inner = 0;
	const struct stack_node *nodes = stack_tree__nodes(lr->tree, &cnt);
	const struct stack_frame *frames = stack_tree__frames(lr->tree, &cnt);
	struct line_row *r;

	own = own_frame(lr, nodes, frames, nodes[i].python);
	r = find_row(lr, own ? &frames[nodes[own].frame] : NULL);
	sum_values(r->self, values);
	if (!own)
		sum_values(r->total, values);
	for (uint32_t n = own; n; n = nodes[nodes[n].parent].python) {
		const struct stack_frame *f = &frames[nodes[n].frame];

		if (n != own && !has_row(lr, f))
			continue;
		r = find_row(lr, f);
		if (r->seen != (uint64_t)i + 1)
			sum_values(r->total, values);
		r->seen = (uint64_t)i + 1;
		if (inner && inner != r->nr + 1 && !lr->rows[inner - 1].outer)
			lr->rows[inner - 1].outer = r->nr + 1;
		inner = r->nr + 1;
	}
}

/* Rows of time that no operator has. */
static struct line_row *special_row(struct line_report *lr, uint32_t file, uint32_t line,
				    enum line_special kind)
{
	struct line_row *r =
		list__keyed(KEYED_LIST(lr, rows, row), file, (uint64_t)kind << 32 | line);

	r->file = file;
	r->line = line;
	r->special = kind;
	r->nr = (uint32_t)(r - lr->rows);
	return r;
}

/* What of its time the main thread waited for the data loader, at the line of its loop. */
static void add_loader(struct line_report *lr, const struct stack_node *nodes,
		       const struct stack_frame *frames, uint32_t i)
{
	uint32_t n = own_frame(lr, nodes, frames, nodes[i].python);
	const struct stack_frame *f = n ? &frames[nodes[n].frame] : NULL;
	struct line_row *r;

	if (lr->modules || lr->operators || !nodes[i].self[0][STACK_CPU] ||
	    strncmp(stack_tree__text(lr->tree, frames[nodes[i].frame].name), SESSION_LOADER,
		    sizeof(SESSION_LOADER) - 1) != 0)
		return;
	r = special_row(lr, f ? f->file : 0, f ? (uint32_t)f->line : 0, LINE_LOADER);
	r->self[STACK_CPU] += nodes[i].self[0][STACK_CPU];
	r->total[STACK_CPU] = r->self[STACK_CPU];
}

static void sum_rows(struct line_report *lr)
{
	uint32_t cnt, frame_cnt;
	const struct stack_node *nodes = stack_tree__nodes(lr->tree, &cnt);
	const struct stack_frame *frames = stack_tree__frames(lr->tree, &frame_cnt);

	for (uint32_t i = 1; i < cnt; i++) {
		enum stack_kind around = (enum stack_kind)frames[nodes[nodes[i].parent].frame].kind;
		int64_t values[STACK_METRIC_CNT];
		bool any = false;

		memcpy(values, nodes[i].self[0], sizeof(values));
		if (around == STACK_OPERATOR || around == STACK_ANNOTATION)
			values[STACK_CALLS] = 0; /* Python did not call it */
		if (frames[nodes[i].frame].kind == STACK_ANNOTATION)
			add_loader(lr, nodes, frames, i);
		/* the program's own code between operators */
		if (frames[nodes[i].frame].kind == STACK_ANNOTATION)
			values[STACK_CALLS] = values[STACK_CPU] = 0;
		for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
			any |= values[m] != 0;
		sum_values(lr->sums, values);
		if (any && lr->operators)
			add_operator(lr, &frames[nodes[i].frame], values);
		else if (any)
			add_node(lr, i, values);
	}
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

/* What CPU time is in samples. */
static const struct line_key sampled_keys[] = { { "self", STACK_RUNNING, false },
						{ "total", STACK_RUNNING, true } };

static const struct line_key *find_line_key(const char *name)
{
	for (size_t i = 0; i < sizeof(line_keys) / sizeof(*line_keys); i++)
		if (!strcmp(line_keys[i].name, name))
			return &line_keys[i];
	return NULL;
}

bool report__is_sort_key(const struct output *report, const char *key)
{
	return report == &operators_report ? table__is_sort_key(key) : find_line_key(key) != NULL;
}

struct row_order {
	const struct line_row *rows;
	const struct line_key *key; /* NULL: order of first appearance */
};

static int cmp_rows(const void *pa, const void *pb, void *arg)
{
	const struct row_order *o = arg;
	const struct line_row *a = &o->rows[*(const uint32_t *)pa],
			      *b = &o->rows[*(const uint32_t *)pb];
	const struct line_key *key = o->key;
	int64_t x = key ? (key->total ? a->total : a->self)[key->metric] : 0;
	int64_t y = key ? (key->total ? b->total : b->self)[key->metric] : 0;

	if (x == y && key && key->metric == STACK_RUNNING) {
		x = (key->total ? a->total : a->self)[STACK_WAITING];
		y = (key->total ? b->total : b->self)[STACK_WAITING];
	}
	if (x != y)
		return x < y ? 1 : -1;
	return (a->nr > b->nr) - (a->nr < b->nr);
}

static void order_rows(struct line_report *lr, const char *sort_by)
{
	struct row_order o = { .rows = lr->rows, .key = sort_by ? find_line_key(sort_by) : NULL };

	if (o.key && o.key->metric == STACK_CPU && session__info(lr->s)->sample_hz)
		o.key = &sampled_keys[o.key->total];
	lr->order = xcalloc(lr->row_cnt ? lr->row_cnt : 1, sizeof(*lr->order));
	for (uint32_t i = 0; i < lr->row_cnt; i++)
		lr->order[i] = i;
	sort__array_r(lr->order, lr->row_cnt, sizeof(*lr->order), cmp_rows, &o);
}

/* ---- modules ---- */

#define MODULE_PREFIX "nn.Module: "
#define MODULE_DEPTH_MAX 32 /* of those around a module that are named */

static const char *module_name(const struct line_report *lr, const struct line_row *r)
{
	const char *text = stack_tree__text(lr->tree, r->func);
	size_t len = strlen(MODULE_PREFIX);

	return strncmp(text, MODULE_PREFIX, len) ? text : text + len;
}

/* The modules around a module and itself, outermost first; those of a recursion once. Returns
 * their number. */
static uint32_t module_path(const struct line_report *lr, const struct line_row *r,
			    const struct line_row *path[MODULE_DEPTH_MAX])
{
	const struct line_row *up = r;
	uint32_t n = 0;

	do {
		memmove(path + 1, path, n * sizeof(*path));
		path[0] = up;
		n++;
		up = up->outer ? &lr->rows[up->outer - 1] : NULL;
	} while (up && up != r && n < MODULE_DEPTH_MAX);
	return n;
}

/* The modules around a module and itself, "outer > inner". */
static void path_text(const struct line_report *lr, const struct line_row *r, char *buf, size_t cap)
{
	const struct line_row *path[MODULE_DEPTH_MAX];
	uint32_t n = module_path(lr, r, path);
	size_t len = 0;

	for (uint32_t i = 0; i < n && len < cap; i++)
		len += (size_t)snprintf(buf + len, cap - len, "%s%s", i ? " > " : "",
					module_name(lr, path[i]));
}

/* ---- columns ---- */

#define X(id, key, name, unit) [STACK_##id] = { "self." #key, "total." #key },
static const struct {
	const char *self, *total;
} fact_keys[] = { STACK_METRICS(X) };
#undef X

static const struct line_column {
	const char *heading;
	enum stack_metric metric;
	bool total, share;
	struct cell (*unit)(double v);
	int drop;
} line_columns[] = {
	{ "self CPU", STACK_CPU, false, true, unit__ns_or_dash, 0 },
	{ "total CPU", STACK_CPU, true, true, unit__ns_or_dash, 6 },
	{ "self GPU", STACK_GPU, false, true, unit__ns_or_dash, 0 },
	{ "total GPU", STACK_GPU, true, true, unit__ns_or_dash, 5 },
	{ "allocated", STACK_CPU_ALLOC, false, false, unit__bytes_or_dash, 8 },
	{ "not freed", STACK_CPU_LIVE, false, false, unit__bytes_or_dash, 2 },
	{ "GPU alloc", STACK_GPU_ALLOC, false, false, unit__bytes_or_dash, 7 },
	{ "not freed", STACK_GPU_LIVE, false, false, unit__bytes_or_dash, 1 },
	{ "faults", STACK_FAULTS, false, false, unit__count_or_dash, 9 },
	{ "on CPU", STACK_RUNNING, false, true, unit__ns_or_dash, 0 },
	{ "total", STACK_RUNNING, true, true, unit__ns_or_dash, 5 },
	{ "off CPU", STACK_WAITING, false, true, unit__ns_or_dash, 4 },
	{ "total", STACK_WAITING, true, true, unit__ns_or_dash, 6 },
	{ "wait: CPU", STACK_WAIT_CPU, false, true, unit__ns_or_dash, 0 },
	{ "GIL", STACK_WAIT_GIL, false, true, unit__ns_or_dash, 0 },
	{ "lock", STACK_WAIT_LOCK, false, true, unit__ns_or_dash, 0 },
	{ "I/O", STACK_WAIT_IO, false, true, unit__ns_or_dash, 0 },
	{ "other", STACK_WAIT_OTHER, false, true, unit__ns_or_dash, 4 },
	{ "calls", STACK_CALLS, false, false, unit__count_or_dash, 3 },
};
#define LINE_COLUMN_CNT (sizeof(line_columns) / sizeof(*line_columns))

/* Those of which the capture has something. */
static void find_columns(const struct line_report *lr, const char *what,
			 struct doc_column columns[DOC_COLUMNS_MAX])
{
	const struct session_info *info = session__info(lr->s);
	double window = (double)(info->end_ns - info->begin_ns);
	uint32_t n = 0;

	for (size_t i = 0; i < LINE_COLUMN_CNT; i++) {
		const struct line_column *c = &line_columns[i];
		const char *key = c->total ? fact_keys[c->metric].total : fact_keys[c->metric].self;
		int64_t sum = lr->sums[c->metric];

		if (!sum || (lr->operators && c->total))
			continue;
		columns[n] =
			(struct doc_column){ key, c->heading, n ? 10 : 9, c->unit, 0, c->drop * 2 };
		n++;
		if (c->share)
			columns[n++] = (struct doc_column){ key,    "%",
							    7,      NULL,
							    window, c->drop ? c->drop * 2 + 1 : 0 };
	}
	columns[n++] = (struct doc_column){ ".what", what, -1, NULL, 0, 0 };
	columns[n] = (struct doc_column){ 0 };
}

/* ---- the document ---- */

static void add_values(struct doc *d, const struct line_report *lr, const char *object,
		       const int64_t *v)
{
	const struct session_info *info = session__info(lr->s);

	doc__object(d, object);
#define X(id, key, name, unit)                                                                     \
	if (STACK_##id < STACK_RUNNING || stack_metric__recorded(info, STACK_##id))                \
		DOC(d, FACT(#key, v[STACK_##id]));
	STACK_METRICS(X)
#undef X
	doc__end(d);
}

/* What stands in the place of a function. */
static const char *const specials[] = {
	[LINE_LOADER] = "(data loader)",
	[LINE_OUTSIDE] = "(Python, outside operators)",
};

static void add_place(struct doc *d, const struct line_report *lr, const struct line_row *r)
{
	const char *file = stack_tree__text(lr->tree, r->file);
	const char *func = stack_tree__text(lr->tree, r->func);

	if (lr->operators) {
		DOC(d, FACT("operator", func), FACT(".what", func));
		return;
	}
	if (r->special)
		func = specials[r->special];
	DOC(d, FACT("file", file), FACT("line", r->line), FACT("function", func),
	    FACT("library", r->library));
	if (r->special && r->line)
		doc__cell(d, ".what", "%s:%u %s", file, r->line, func);
	else if (r->special)
		doc__cell(d, ".what", "%s", func);
	else if (!r->file)
		doc__cell(d, ".what",
			  session__info(lr->s)->has_py_stacks ?
				  "(no Python frames)" :
				  "(operators, recorded without --with-stack)");
	else if (r->line)
		doc__cell(d, ".what", "%s:%u in %s", file, r->line, func);
	else
		doc__cell(d, ".what", "%s in %s", file, func);
}

static void add_module(struct doc *d, const struct line_report *lr, const struct line_row *r)
{
	const struct line_row *path[MODULE_DEPTH_MAX];
	uint32_t n = r->func ? module_path(lr, r, path) : 0;
	char text[4096];

	doc__array(d, "path");
	for (uint32_t i = 0; i < n; i++)
		DOC(d, FACT(NULL, module_name(lr, path[i])));
	doc__end_array(d);
	path_text(lr, r, text, sizeof(text));
	DOC(d,
	    r->has_path ? FACT("attribute_path", stack_tree__text(lr->tree, r->path)) :
			  fact__null("attribute_path"),
	    FACT(".what", !r->func ? "(in no module)" :
			  r->shown ? stack_tree__text(lr->tree, r->shown) :
				     text));
}

static void add_head(struct doc *d, const struct line_report *lr)
{
	const struct session_info *info = session__info(lr->s);

	doc__say(d, "%s, %.3f s, %u process%s: ",
		 lr->modules   ? "Modules" :
		 lr->operators ? "Open operators" :
				 "Lines of code",
		 (double)(info->end_ns - info->begin_ns) / 1e9, info->process_cnt,
		 info->process_cnt == 1 ? "" : "es");
	if (info->sample_hz)
		doc__line(
			d,
			"%s on CPUs, %s not running, of all threads together, in %u samples a second",
			unit__ns_or_dash((double)lr->sums[STACK_RUNNING]).text,
			unit__ns_or_dash((double)lr->sums[STACK_WAITING]).text, info->sample_hz);
	else
		doc__line(d, "%s in operators", unit__ns((double)lr->sums[STACK_CPU]).text);
	if (lr->operators)
		doc__line(d, "The innermost operator that was open; " STACK_OP_NONE
			     ": the thread was in none; " STACK_OP_UNKNOWN
			     ": it has begun none since the request, or has no agent.");
	else
		doc__line(
			d, "self: %s; total: all that is below it; %%: of the window.",
			lr->modules ?
				"in the module and in no module within it" :
			lr->all_lines ?
				info->sample_hz ? "what the line does" : "what the line calls" :
			info->sample_hz ?
				"what the line does itself or through libraries (--all-lines: without them)" :
				"what the line calls itself or through libraries (--all-lines: without them)");
	if (!info->sample_hz)
		doc__line(d, "Backward operators belong to the %s of their forward operator.",
			  lr->modules ? "module" : "line");
	doc__gap(d);
}

static int print_doc(struct line_report *lr, const struct output_args *args)
{
	const char *one = lr->modules ? "module" : lr->operators ? "operator" : "line";
	struct doc_column columns[DOC_COLUMNS_MAX];
	char many[16], count[16];
	struct doc d;
	doc__begin(&d, args);

	snprintf(many, sizeof(many), "%ss", one);
	snprintf(count, sizeof(count), "%s_count", one);
	add_head(&d, lr);
	DOC(&d, args->sort_by ? FACT("sort_by", args->sort_by) : fact__null("sort_by"),
	    lr->modules || lr->operators ? NO_FACT : FACT("all_lines", lr->all_lines));
	add_values(&d, lr, "sums", lr->sums);
	DOC(&d, FACT(count, lr->row_cnt));
	find_columns(lr, one, columns);
	doc__list(&d, many, lr->row_cnt, columns);
	for (uint32_t i; doc__next(&d, &i);) {
		const struct line_row *r = &lr->rows[lr->order[i]];

		if (lr->modules)
			add_module(&d, lr, r);
		else
			add_place(&d, lr, r);
		add_values(&d, lr, "self", r->self);
		if (!lr->operators)
			add_values(&d, lr, "total", r->total);
	}
	return doc__finish(&d);
}

/* The row of the innermost line of the stack, else that of no line. */
static struct line_row *outside_row(struct line_report *lr, uint32_t tgid, uint32_t stack)
{
	uint32_t cnt, node = stack_tree__node(lr->tree, tgid, stack), own;
	const struct stack_node *nodes = stack_tree__nodes(lr->tree, &cnt);
	const struct stack_frame *frames = stack_tree__frames(lr->tree, &cnt), *f;

	own = own_frame(lr, nodes, frames, nodes[node].python);
	f = &frames[nodes[own].frame];
	return own ? special_row(lr, f->file, (uint32_t)f->line, LINE_OUTSIDE) :
		     special_row(lr, 0, 0, LINE_OUTSIDE);
}

/* Of the main thread, of the busiest process. */
static void add_outside(struct line_report *lr, const struct output_args *args)
{
	struct outside_time *list;
	struct thread_time t;
	uint32_t cnt;

	if (lr->modules || lr->operators || !args->times || session__info(lr->s)->sample_hz ||
	    !thread_times__busiest(args->times, &t) || !t.python_ns)
		return;
	cnt = thread_times__outside(args->times, &t, &list);
	for (uint32_t i = 0; i < cnt; i++) {
		struct line_row *r = outside_row(lr, t.tgid, list[i].stack);

		r->self[STACK_CPU] += (int64_t)list[i].ns;
		r->total[STACK_CPU] = r->self[STACK_CPU];
	}
	free(list);
}

static int finish_report(void *o, const struct output_args *args)
{
	sum_rows(o);
	add_outside(o, args);
	order_rows(o, args->sort_by);
	return print_doc(o, args);
}

#define LINES                                                                                      \
	.rows = ROWS_OF_LINES, .open = open_report, .sink = report_sink, .finish = finish_report,  \
	.free = free_report

const struct output lines_report = { .needs = NEEDS_LINES, LINES };
const struct output modules_report = { .needs = NEEDS_STACKS | NEEDS_MODULES, LINES };
const struct output sampled_operators_report = { .needs = NEEDS_STACKS | NEEDS_SAMPLED_OPERATORS,
						 LINES };
