/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * key_averages().table() as torch prints it, byte for byte, with the columns of the CPU, of a GPU
 * and of memory; and for machines the same rows in the same order with exact numbers. Order,
 * layout and number formats: _build_table() in pytorch torch/autograd/profiler_util.py; key names
 * of the JSON are a contract: schemas/formats/report.schema.json.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "report/report.h"

#define COLUMN_WIDTH 12
#define NAME_WIDTH_MAX 55
#define NAME_CUT (NAME_WIDTH_MAX - 3) /* a name this long or longer is cut here and ends in "..." */
#define SHAPES_WIDTH_MAX 80           /* shapes are cut there, without dots */
#define SOURCE_WIDTH_MAX 75
#define TEXT_MARGIN 4

/* ---- order and sums ---- */

/* Microseconds as torch holds them. */
static double us(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static double average_us(const struct ka_row *r, uint64_t total_ns)
{
	return r->count ? us(total_ns) / (double)r->count : 0.0;
}

/* clang-format off */
/* TABLE_SORT_KEYS, each with its value in a row; "key" sorts by the text. */
#define SORT_KEYS(X)                                                     \
	X(self_cpu_time_total, r->self_cpu_ns)                           \
	X(cpu_time_total, r->cpu_total_ns)                               \
	X(cpu_time, average_us(r, r->cpu_total_ns))                      \
	X(self_cuda_time_total, r->self_device_ns)                       \
	X(cuda_time_total, r->device_total_ns)                           \
	X(cuda_time, average_us(r, r->device_total_ns))                  \
	X(self_device_time_total, r->self_device_ns)                     \
	X(device_time_total, r->device_total_ns)                         \
	X(device_time, average_us(r, r->device_total_ns))                \
	X(count, r->count)                                               \
	X(key, 0)                                                        \
	X(flops, r->flops)                                               \
	X(cpu_memory_usage, r->cpu_mem)                                  \
	X(self_cpu_memory_usage, r->self_cpu_mem)                        \
	X(cuda_memory_usage, r->device_mem)                              \
	X(self_cuda_memory_usage, r->self_device_mem)                    \
	X(device_memory_usage, r->device_mem)                            \
	X(self_device_memory_usage, r->self_device_mem)

enum sort_key {
#define X(name, value) SORT_##name,
	SORT_KEYS(X)
#undef X
	SORT_KEY_CNT
};
/* clang-format on */

/* SORT_KEY_CNT: no such key. */
static enum sort_key find_key(const char *name)
{
#define X(name, value) #name,
	static const char *const names[] = { SORT_KEYS(X) };
#undef X
	uint32_t i = 0;

	while (i < SORT_KEY_CNT && strcmp(names[i], name) != 0)
		i++;
	return (enum sort_key)i;
}

bool table__is_sort_key(const char *key)
{
	return find_key(key) != SORT_KEY_CNT;
}

/* A long double holds each 64-bit integer and each double exactly. */
static long double sort_value(const struct ka_row *r, enum sort_key key)
{
	switch (key) {
#define X(name, value)                                                                             \
	case SORT_##name:                                                                          \
		return value;
		SORT_KEYS(X)
#undef X
	default:
		return 0;
	}
}

static int cmp_rows(const void *pa, const void *pb, void *arg)
{
	const struct ka_row *a = *(const struct ka_row *const *)pa;
	const struct ka_row *b = *(const struct ka_row *const *)pb;
	enum sort_key key = *(const enum sort_key *)arg;
	long double x = sort_value(a, key), y = sort_value(b, key);
	int c = (x < y) - (x > y); /* descending */

	if (key == SORT_key)
		/* bytes of UTF-8 sort as code points, as Python's str */
		c = strcmp(b->key, a->key);
	return c ? c : (a > b) - (a < b); /* both point into one array: its order breaks ties */
}

/* Rows in the order of sort_by (descending, stable), to be freed. */
static const struct ka_row **sorted_rows(const struct ka_row *rows, uint32_t cnt,
					 const char *sort_by)
{
	enum sort_key key = sort_by ? find_key(sort_by) : SORT_KEY_CNT;
	const struct ka_row **list = xcalloc(cnt ? cnt : 1, sizeof(*list));

	for (uint32_t i = 0; i < cnt; i++)
		list[i] = &rows[i];
	if (key != SORT_KEY_CNT)
		sort__array_r(list, cnt, sizeof(*list), cmp_rows, &key);
	return list;
}

/*
 * What shares are of, us, added in the given order as torch adds it (its rounding is the
 * order's).
 */
struct sums {
	double self_cpu;
	/* of GPU work itself: not of the operators that launched it, nor of annotations */
	double device;
};

static struct sums sums_of(const struct ka_row *const *rows, uint32_t cnt)
{
	struct sums sums = { 0.0, 0.0 };

	for (uint32_t i = 0; i < cnt; i++) {
		sums.self_cpu += us(rows[i]->self_cpu_ns);
		if (rows[i]->is_device && !rows[i]->is_annotation)
			sums.device += us(rows[i]->self_device_ns);
	}
	return sums;
}

/* ---- torch's formats ---- */

static struct cell time_text(double us)
{
	if (us >= 1e6)
		return cell__format("%.3fs", us / 1e6);
	if (us >= 1e3)
		return cell__format("%.3fms", us / 1e3);
	return cell__format("%.3fus", us);
}

static struct cell ns_text(double ns)
{
	return time_text(ns / 1000.0);
}

static struct cell percent_text(double v)
{
	return isnan(v) ? cell__format("NaN") : cell__format("%.2f%%", v);
}

static struct cell short_percent(double v)
{
	return isnan(v) ? cell__format("-") : cell__format("%.1f%%", v);
}

static struct cell memory_text(double bytes)
{
	static const char *const units[] = { "KB", "MB", "GB" };
	double v = bytes;
	int i = -1;

	while (i < 2 && fabs(v) >= 1024.0) {
		v /= 1024.0;
		i++;
	}
	return i < 0 ? cell__format("%.0f B", v) : cell__format("%.2f %s", v, units[i]);
}

/* Bytes of the first characters of a text: of each that is no UTF-8 one. */
static int bytes_of(const char *text, size_t chars)
{
	const char *p = text, *end = text + strlen(text);
	uint32_t c;

	for (; chars && p < end; chars--) {
		size_t n = utf8__decode(p, end, &c);

		p += n ? n : 1;
	}
	return (int)(p - text);
}

/* ---- columns ---- */

/* The unit fits the smallest number: auto_scale_flops(). */
static const char *choose_flops(uint64_t smallest, double *scale)
{
	static const char *const headings[] = { "Total FLOPs",  "Total KFLOPs", "Total MFLOPs",
						"Total GFLOPs", "Total TFLOPs", "Total PFLOPs" };
	double unit = floor(log10((double)smallest) / 3);

	unit = unit > 5 ? 5 : unit;
	*scale = pow(10, unit * -3.0);
	return headings[(int)unit];
}

static size_t longest_frame(const char *stack)
{
	size_t longest = 0, n;
	char text[4096];

	for (; stack && *stack; stack += strspn(stack, "\n")) {
		n = strcspn(stack, "\n");
		snprintf(text, sizeof(text), "%.*s", (int)n, stack);
		stack += n;
		n = utf8__chars(text);
		longest = n > longest ? n : longest;
	}
	return longest;
}

static int text_column(size_t longest, size_t max)
{
	return (int)(longest + TEXT_MARGIN < max ? longest + TEXT_MARGIN : max);
}

/* What the rows have: the columns and widths that depend on them. */
struct extent {
	size_t name, shapes, source; /* longest */
	bool any_shapes, device_mem, device_time;
	uint64_t flops; /* the smallest; 0: none */
	double flops_scale;
	uint64_t wait_ns[WAITS_CNT]; /* by column: OTHER with SLEEP */
};

static struct extent extent_of(const struct ka_row *rows, uint32_t cnt)
{
	struct extent e = { 0 };

	for (const struct ka_row *r = rows; r < rows + cnt; r++) {
		size_t name = utf8__chars(r->key), source = longest_frame(r->stack);
		size_t shapes = r->shapes ? utf8__chars(r->shapes) : 0;

		e.name = name > e.name ? name : e.name;
		e.shapes = shapes > e.shapes ? shapes : e.shapes;
		e.source = source > e.source ? source : e.source;
		/* the column is there when any row has shapes, or may have: "[]" is none */
		e.any_shapes |= shapes && strcmp(r->shapes, "[]") != 0;
		e.device_mem |= r->self_device_mem > 0;
		e.device_time |= r->self_device_ns > 0;
		if (r->flops && (!e.flops || r->flops < e.flops))
			e.flops = r->flops;
		for (uint32_t g = 0; g < WAITS_CNT; g++)
			e.wait_ns[g == WAITS_SLEEP ? WAITS_OTHER : g] += r->wait_ns[g];
	}
	return e;
}

#define W COLUMN_WIDTH

static const struct doc_column cpu_columns[] = {
	{ "self_cpu_percent", "Self CPU %", W, percent_text, 0, 0 },
	{ "self_cpu_ns", "Self CPU", W, ns_text, 0, 0 },
	{ "cpu_total_percent", "CPU total %", W, percent_text, 0, 0 },
	{ "cpu_total_ns", "CPU total", W, ns_text, 0, 0 },
	{ ".cpu_avg", "CPU time avg", W, time_text, 0, 0 },
};
static const struct doc_column device_columns[] = {
	{ "self_device_ns", "Self CUDA", W, ns_text, 0, 0 },
	{ "self_device_percent", "Self CUDA %", W, percent_text, 0, 0 },
	{ "device_total_ns", "CUDA total", W, ns_text, 0, 0 },
	{ ".device_avg", "CUDA time avg", W, time_text, 0, 0 },
};
/* The same for a terminal, which has the name first. */
static const struct doc_column fit_cpu_columns[] = {
	{ "self_cpu_ns", "Self CPU", 9, unit__ns, 0, 0 },
	{ "self_cpu_percent", "%", 6, short_percent, 0, 0 },
	{ "cpu_total_ns", "CPU total", 9, unit__ns, 0, 3 },
	{ "cpu_total_percent", "%", 6, short_percent, 0, 7 },
	{ "cpu_avg_ns", "CPU avg", 9, unit__ns, 0, 9 },
};
static const struct doc_column fit_device_columns[] = {
	{ "self_device_ns", "Self CUDA", 9, unit__ns, 0, 0 },
	{ "self_device_percent", "%", 6, short_percent, 0, 6 },
	{ "device_total_ns", "CUDA total", 10, unit__ns, 0, 4 },
	{ "device_avg_ns", "CUDA avg", 9, unit__ns, 0, 8 },
};
static const struct doc_column fit_memory_columns[] = {
	{ "cpu_mem_bytes", "CPU Mem", 10, cell__bytes, 0, 5 },
	{ "self_cpu_mem_bytes", "Self CPU Mem", 12, cell__bytes, 0, 0 },
	{ "device_mem_bytes", "CUDA Mem", 10, cell__bytes, 0, 5 },
	{ "self_device_mem_bytes", "Self CUDA Mem", 13, cell__bytes, 0, 0 },
};
static const struct doc_column memory_columns[] = {
	{ "cpu_mem_bytes", "CPU Mem", W, memory_text, 0, 0 },
	{ "self_cpu_mem_bytes", "Self CPU Mem", W, memory_text, 0, 0 },
	{ "device_mem_bytes", "CUDA Mem", W, memory_text, 0, 0 },
	{ "self_device_mem_bytes", "Self CUDA Mem", W, memory_text, 0, 0 },
};

/* By enum wait_group; sleep is another one. */
static const struct doc_column fit_wait_columns[WAITS_CNT] = {
	[WAITS_CPU] = { "cpu_wait_ns", "wait: CPU", 9, unit__ns_or_dash, 0, 1 },
	[WAITS_GIL] = { "gil_wait_ns", "wait: GIL", 9, unit__ns_or_dash, 0, 1 },
	[WAITS_LOCK] = { "lock_wait_ns", "wait: lock", 10, unit__ns_or_dash, 0, 8 },
	[WAITS_IO] = { "io_wait_ns", "wait: I/O", 9, unit__ns_or_dash, 0, 8 },
	[WAITS_OTHER] = { "other_wait_ns", "wait: other", 11, unit__ns_or_dash, 0, 9 },
};

#define ADD(to, list, cnt) (memcpy(to, list, (cnt) * sizeof(*(list))), (to) += (cnt))

/*
 * torch gives FLOPs the place of the source, and the other way round, where it has both, but not
 * their widths.
 */
static void choose_columns(struct doc_column *to, struct extent *e, const struct table_opts *opts)
{
	int source_width = -text_column(e->source, SOURCE_WIDTH_MAX);
	const char *flops = e->flops ? choose_flops(e->flops, &e->flops_scale) : NULL;

	*to++ = (struct doc_column){ ".name", "Name", text_column(e->name, NAME_WIDTH_MAX),
				     NULL,    0,      0 };
	ADD(to, cpu_columns, 5);
	ADD(to, device_columns, opts->device_time && e->device_time ? 4 : 0);
	ADD(to, memory_columns, !opts->profile_memory ? 0 : e->device_mem ? 4 : 2);
	*to++ = (struct doc_column){ "count", "# of Calls", W, NULL, 0, 0 };
	if (e->any_shapes)
		*to++ = (struct doc_column){ ".shapes",
					     "Input Shapes",
					     text_column(e->shapes, SHAPES_WIDTH_MAX),
					     NULL,
					     0,
					     0 };
	if (e->source)
		*to++ = (struct doc_column){
			e->flops ? ".flops" : ".source", "Source Location", source_width, NULL, 0, 0
		};
	if (e->flops)
		*to++ = (struct doc_column){
			e->source ? ".source" : ".flops", flops, W, NULL, 0, 0
		};
	*to = (struct doc_column){ 0 };
}

/* Its texts have the width of the rows that are shown. */
static void choose_fit_columns(struct doc_column *to, struct extent *e,
			       const struct table_opts *opts, const struct ka_row *const *rows,
			       uint32_t shown)
{
	size_t name = sizeof("Name"), shapes = sizeof("Input Shapes"), width;

	for (uint32_t i = 0; i < shown; i++) {
		width = term_text__width(rows[i]->key);
		name = width > name ? width : name;
		width = rows[i]->shapes ? term_text__width(rows[i]->shapes) : 0;
		shapes = width > shapes ? width : shapes;
	}
	*to++ = (struct doc_column){ ".key", "Name", -(int)name, NULL, 0, 0 };
	ADD(to, fit_cpu_columns, 5);
	if (opts->waits)
		*to++ = (struct doc_column){ ".on_cpu_ns", "on CPU", 9, unit__ns, 0, 10 };
	for (uint32_t g = 0; g < WAITS_CNT; g++)
		if (e->wait_ns[g])
			*to++ = fit_wait_columns[g];
	ADD(to, fit_device_columns, opts->device_time && e->device_time ? 4 : 0);
	ADD(to, fit_memory_columns, !opts->profile_memory ? 0 : e->device_mem ? 4 : 2);
	*to++ = (struct doc_column){ "count", "Calls", 7, unit__count, 0, 0 };
	if (e->flops)
		*to++ = (struct doc_column){ ".flops", choose_flops(e->flops, &e->flops_scale),
					     12,       NULL,
					     0,        2 };
	if (e->any_shapes)
		*to++ = (struct doc_column){
			".all_shapes", "Input Shapes", -(int)shapes, NULL, 0, 1
		};
	*to = (struct doc_column){ 0 };
}

/* ---- rows ---- */

/* Of the sum, in percent; NaN where there is none. */
static double share(double us, double sum)
{
	return sum > 0.0 ? us * 100.0 / sum : (double)NAN;
}

static const char *category(const struct ka_row *r)
{
	if (r->category)
		return r->category;
	return r->is_annotation ? "user_annotation" :
	       r->is_instant    ? "cpu_instant_event" :
				  "cpu_op";
}

/* The lines of a row's last cell: frames, of a long one its end, and an empty line below. */
static void add_source(struct doc *d, const char *stack, const struct extent *e)
{
	size_t width = (size_t)text_column(e->source, SOURCE_WIDTH_MAX);
	char text[4096];

	do {
		size_t n = strcspn(stack, "\n");

		snprintf(text, sizeof(text), "%.*s", (int)n, stack);
		stack += n + (stack[n] == '\n');
		n = utf8__chars(text);
		doc__cell(d, ".source", "%s%s", n > width ? "..." : "",
			  text + (n > width ? bytes_of(text, n - width + 3) : 0));
		doc__next_line(d);
	} while (*stack);
	doc__cell(d, ".source", "%s", "");
}

/* On a terminal: below the row. */
static void say_source(struct doc *d, const char *stack)
{
	for (; *stack; stack += strspn(stack, "\n")) {
		size_t n = strcspn(stack, "\n");
		char *text = xstrndup(stack, n);

		doc__say(d, "    ");
		doc__cut(d, text, "", 0);
		doc__end_line(d);
		free(text);
		stack += n;
	}
}

/* What only the text shows, or shows in its own way. */
static void add_text_cells(struct doc *d, const struct ka_row *r, const struct extent *e)
{
	const char *shapes = r->shapes ? r->shapes : "";
	bool cut = utf8__chars(r->key) >= NAME_CUT;

	doc__cell(d, ".name", "%.*s%s", bytes_of(r->key, cut ? NAME_CUT : SIZE_MAX), r->key,
		  cut ? "..." : "");
	DOC(d, FACT(".cpu_avg", average_us(r, r->cpu_total_ns)),
	    FACT(".device_avg", average_us(r, r->device_total_ns)));
	DOC(d, FACT(".key", r->key), FACT(".all_shapes", shapes));
	doc__cell(d, ".shapes", "%.*s", bytes_of(shapes, SHAPES_WIDTH_MAX), shapes);
	if (r->flops)
		doc__cell(d, ".flops", "%8.3f", (double)r->flops * e->flops_scale);
	else
		doc__cell(d, ".flops", "--");
}

static void add_stack(struct doc *d, const char *stack)
{
	char text[4096];

	doc__array(d, "stack");
	for (; *stack; stack += strspn(stack, "\n")) {
		size_t n = strcspn(stack, "\n");

		snprintf(text, sizeof(text), "%.*s", (int)n, stack);
		DOC(d, FACT(NULL, (const char *)text));
		stack += n;
	}
	doc__end_array(d);
}

/* Of the time in the operator itself. Sums that are written later than the waits were may say more
 * than there is. */
static void add_waits(struct doc *d, const struct ka_row *r)
{
	uint64_t other = r->wait_ns[WAITS_SLEEP] + r->wait_ns[WAITS_OTHER], all = other;

	for (uint32_t g = WAITS_CPU; g <= WAITS_IO; g++)
		all += r->wait_ns[g];
	DOC(d, FACT(".on_cpu_ns", r->self_cpu_ns > all ? r->self_cpu_ns - all : 0),
	    FACT("cpu_wait_ns", r->wait_ns[WAITS_CPU]), FACT("gil_wait_ns", r->wait_ns[WAITS_GIL]),
	    FACT("lock_wait_ns", r->wait_ns[WAITS_LOCK]), FACT("io_wait_ns", r->wait_ns[WAITS_IO]),
	    FACT("other_wait_ns", other));
}

static void add_row(struct doc *d, const struct ka_row *r, const struct extent *e,
		    const struct sums *sums, const struct table_opts *opts)
{
	uint64_t begin = d->args->s ? session__info(d->args->s)->begin_ns : 0;

	add_text_cells(d, r, e);
	DOC(d, FACT("key", r->key), FACT("category", category(r)), FACT("count", r->count),
	    FACT("self_cpu_ns", r->self_cpu_ns),
	    FACT("self_cpu_percent", share(us(r->self_cpu_ns), sums->self_cpu)),
	    FACT("cpu_total_ns", r->cpu_total_ns),
	    FACT("cpu_total_percent", share(us(r->cpu_total_ns), sums->self_cpu)),
	    FACT("cpu_avg_ns", r->count ? (double)r->cpu_total_ns / (double)r->count : 0.0));
	if (opts->device_time)
		DOC(d, FACT("self_device_ns", r->self_device_ns),
		    FACT("self_device_percent", share(us(r->self_device_ns), sums->device)),
		    FACT("device_total_ns", r->device_total_ns),
		    FACT("device_avg_ns",
			 r->count ? (double)r->device_total_ns / (double)r->count : 0.0));
	DOC(d, FACT("first_begin_ns", r->first_begin_ns > begin ? r->first_begin_ns - begin : 0),
	    r->shapes && *r->shapes ? FACT("input_shapes", r->shapes) : NO_FACT);
	if (opts->by_stack)
		add_stack(d, r->stack);
	if (e->flops)
		DOC(d, FACT("flops", r->flops));
	if (opts->profile_memory)
		DOC(d, FACT("cpu_mem_bytes", r->cpu_mem),
		    FACT("self_cpu_mem_bytes", r->self_cpu_mem),
		    FACT("device_mem_bytes", r->device_mem),
		    FACT("self_device_mem_bytes", r->self_device_mem));
	if (opts->waits)
		add_waits(d, r);
	if (e->source && d->torch)
		add_source(d, r->stack ? r->stack : "", e);
	else if (e->source && !d->args->json)
		say_source(d, r->stack ? r->stack : "");
}

int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		 const struct output_args *args)
{
	const struct ka_row **list;
	struct doc_column columns[DOC_COLUMNS_MAX];
	struct extent e = extent_of(rows, cnt);
	struct sums sums;
	struct doc d;

	if (!cnt && !args->json)
		return 0; /* torch: the empty string */
	doc__begin(&d, args);
	list = sorted_rows(rows, cnt, args->sort_by);
	d.torch = d.no_losses = !args->columns;
	if (d.torch)
		choose_columns(columns, &e, opts);
	else
		choose_fit_columns(columns, &e, opts, list, report__shown(cnt, args->row_limit));
	sums = sums_of(list, cnt);
	DOC(&d, args->sort_by ? FACT("sort_by", args->sort_by) : fact__null("sort_by"),
	    FACT("row_count", cnt));
	doc__list(&d, "rows", cnt, columns);
	for (uint32_t i; doc__next(&d, &i);)
		add_row(&d, list[i], &e, &sums, opts);
	doc__line(&d, "Self CPU time total: %s", time_text(sums.self_cpu).text);
	if (opts->device_time && e.device_time)
		doc__line(&d, "Self CUDA time total: %s", time_text(sums.device).text);
	if (!d.torch && args->totals->partial_ns)
		doc__line(&d, "Before the first whole step and after the last one: %s",
			  cell__duration(args->totals->partial_ns).text);
	free(list);
	return doc__finish(&d);
}
