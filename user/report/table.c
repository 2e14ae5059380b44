/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * key_averages().table() as torch prints it, byte for byte, with the columns of the CPU, of a GPU and of memory; and
 * for machines the same rows in the same order with exact numbers. Order, layout and number formats: _build_table() in
 * pytorch torch/autograd/profiler_util.py; key names of the JSON are a contract: schemas/formats/report.schema.json.
 */
#define LOG_DOMAIN "table"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/term_text.h"
#include "report/table.h"

#define COLUMN_WIDTH 12
#define NAME_WIDTH_MAX 55
#define NAME_CUT (NAME_WIDTH_MAX - 3) /* a name this long or longer is cut here and ends in "..." */
#define SHAPES_WIDTH_MAX 80           /* shapes are cut there, without dots */
#define SOURCE_WIDTH_MAX 75
#define TEXT_MARGIN 4

static const char *const headers[] = { "Self CPU %", "Self CPU", "CPU total %", "CPU total",
				       "CPU time avg" };
static const char *const device_headers[] = { "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg" };
#define DEVICE_COLUMN_CNT (sizeof(device_headers) / sizeof(device_headers[0]))
static const char *const memory_headers[] = { "CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem" };
#define COLUMN_CNT (sizeof(headers) / sizeof(headers[0]))

static const char *const flops_headers[] = { "Total FLOPs",  "Total KFLOPs", "Total MFLOPs",
					     "Total GFLOPs", "Total TFLOPs", "Total PFLOPs" };
#define FLOPS_UNITS (sizeof(flops_headers) / sizeof(flops_headers[0]))

enum { CPU_MEM, SELF_CPU_MEM, DEVICE_MEM, SELF_DEVICE_MEM, MEMORY_COLUMNS };

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
		c = strcmp(b->key, a->key); /* bytes of UTF-8 sort as code points, as Python's str */
	return c ? c : (a > b) - (a < b);   /* both point into one array: its order breaks ties */
}

/* Rows in the order of opts->sort_by (descending, stable), to be freed; NULL: out of memory. */
static const struct ka_row **sorted_rows(const struct ka_row *rows, uint32_t cnt,
					 const struct table_opts *opts)
{
	enum sort_key key = opts->sort_by ? find_key(opts->sort_by) : SORT_KEY_CNT;
	const struct ka_row **list = calloc(cnt ? cnt : 1, sizeof(*list));

	if (!list)
		return NULL;
	for (uint32_t i = 0; i < cnt; i++)
		list[i] = &rows[i];
	if (key != SORT_KEY_CNT)
		qsort_r(list, cnt, sizeof(*list), cmp_rows, &key);
	return list;
}

/* What shares are of, us, added in the given order as torch adds it (its rounding is the order's). */
struct sums {
	double self_cpu;
	double device; /* of GPU work itself: not of the operators that launched it, nor of annotations */
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

/* ---- text ---- */

/* The columns whose presence or width depends on the rows. */
struct layout {
	size_t name_width;
	bool device_time;
	size_t memory_cnt;   /* the first so many of memory_headers */
	size_t shapes_width; /* 0: no such column */
	size_t source_width; /* 0: no such column */
	int flops_unit;      /* index of the header, -1: no such column */
	double flops_scale;
};

/* The name right-aligned in `width` characters. */
static void print_name(FILE *out, const char *name, size_t width)
{
	size_t cnt = term_text__width(name), shown = cnt >= NAME_CUT ? NAME_CUT : cnt;
	size_t used = cnt >= NAME_CUT ? NAME_CUT + 3 : cnt;

	for (size_t i = used; i < width; i++)
		fputc(' ', out);
	term_text__put(out, name, shown);
	if (cnt >= NAME_CUT)
		fputs("...", out);
	fputs("  ", out);
}

static void print_cell(FILE *out, const char *text)
{
	fprintf(out, "%*s  ", COLUMN_WIDTH, text);
}

static struct cell time_cell(double us)
{
	if (us >= 1e6)
		return cell__format("%.3fs", us / 1e6);
	if (us >= 1e3)
		return cell__format("%.3fms", us / 1e3);
	return cell__format("%.3fus", us);
}

static struct cell share_cell(double us, double sum)
{
	return sum > 0.0 ? cell__format("%.2f%%", us * 100.0 / sum) : cell__format("NaN");
}

static struct cell memory_cell(int64_t bytes)
{
	static const char *const units[] = { "KB", "MB", "GB" };
	double v = (double)bytes;
	int i = -1;

	while (i < 2 && fabs(v) >= 1024.0) {
		v /= 1024.0;
		i++;
	}
	return i < 0 ? cell__format("%" PRId64 " B", bytes) : cell__format("%.2f %s", v, units[i]);
}

/* A column's header, or the dashes above and below it. */
static void print_head(FILE *out, const char *text, size_t width, bool dashes)
{
	if (!dashes)
		fprintf(out, "%*s", (int)width, text);
	while (dashes && width--)
		fputc('-', out);
	fputs("  ", out);
}

static void print_heads(FILE *out, const char *const *texts, size_t cnt, bool dashes)
{
	for (size_t i = 0; i < cnt; i++)
		print_head(out, texts[i], COLUMN_WIDTH, dashes);
}

static void print_source_head(FILE *out, size_t width, bool dashes)
{
	if (dashes)
		print_head(out, "", width, true);
	else
		fprintf(out, "%-*s  ", (int)width, "Source Location");
}

static void print_header(FILE *out, const struct layout *l, bool dashes)
{
	print_head(out, "Name", l->name_width, dashes);
	print_heads(out, headers, COLUMN_CNT, dashes);
	if (l->device_time)
		print_heads(out, device_headers, DEVICE_COLUMN_CNT, dashes);
	print_heads(out, memory_headers, l->memory_cnt, dashes);
	print_head(out, "# of Calls", COLUMN_WIDTH, dashes);
	if (l->shapes_width)
		print_head(out, "Input Shapes", l->shapes_width, dashes);
	if (l->source_width)
		print_source_head(out, l->source_width, dashes);
	if (l->flops_unit >= 0)
		print_head(out, flops_headers[l->flops_unit], COLUMN_WIDTH, dashes);
	fputc('\n', out);
}

static void print_memory(FILE *out, const struct ka_row *r, const struct layout *l)
{
	const int64_t bytes[MEMORY_COLUMNS] = {
		[CPU_MEM] = r->cpu_mem, [SELF_CPU_MEM] = r->self_cpu_mem, [DEVICE_MEM] = r->device_mem, [SELF_DEVICE_MEM] = r->self_device_mem
	};

	for (size_t i = 0; i < l->memory_cnt; i++)
		print_cell(out, memory_cell(bytes[i]).text);
}

/* The times of the CPU, or of the GPU, of a row. */
static void print_times(FILE *out, double self, double total, uint64_t cnt, double sum, bool device)
{
	if (device)
		print_cell(out, time_cell(self).text);
	print_cell(out, share_cell(self, sum).text);
	if (!device) {
		print_cell(out, time_cell(self).text);
		print_cell(out, share_cell(total, sum).text);
	}
	print_cell(out, time_cell(total).text);
	print_cell(out, time_cell(cnt ? total / (double)cnt : 0.0).text);
}

/* Cut without dots, as torch does. */
static void print_shapes(FILE *out, const char *shapes, size_t width)
{
	for (size_t i = term_text__width(shapes); i < width; i++)
		fputc(' ', out);
	term_text__put(out, shapes, width);
	fputs("  ", out);
}

/* ---- stacks ---- */

/* Of `len` bytes the last `width` characters, of which the first three are dots where it is cut; left-aligned. */
static void print_frame(FILE *out, const char *frame, size_t len, size_t width)
{
	char text[4096];
	const char *tail = text;
	size_t n, cut;

	snprintf(text, sizeof(text), "%.*s", (int)len, frame);
	n = term_text__width(text);
	cut = n > width ? n - width + 3 : 0;
	for (size_t i = 0; i < cut; i++) { /* a character of the text, of any bytes */
		uint32_t c;
		size_t bytes = utf8__decode(tail, text + strlen(text), &c);

		tail += bytes ? bytes : 1;
	}
	if (cut)
		fputs("...", out);
	term_text__put(out, tail, SIZE_MAX);
	fprintf(out, "%*s  ", n < width ? (int)(width - n) : 0, "");
}

static size_t blank_width(const struct layout *l)
{
	size_t cnt = COLUMN_CNT + (l->device_time ? DEVICE_COLUMN_CNT : 0) + l->memory_cnt + 1;
	size_t width = l->name_width + 2 + cnt * (COLUMN_WIDTH + 2);

	if (l->shapes_width)
		width += l->shapes_width + 2;
	return l->flops_unit >= 0 ? width + l->source_width + 2 : width;
}

/*
 * The column of the last cells: torch gives FLOPs the place of the source, and the other way round, where it has both, but
 * not their widths.
 */
static void print_last_frame(FILE *out, const char *frame, size_t len, const struct layout *l)
{
	char text[4096];
	size_t n;

	if (l->flops_unit < 0) {
		print_frame(out, frame, len, l->source_width);
		return;
	}
	snprintf(text, sizeof(text), "%.*s", (int)len, frame);
	n = term_text__width(text);
	fprintf(out, "%*s", n < COLUMN_WIDTH ? (int)(COLUMN_WIDTH - n) : 0, "");
	print_frame(out, frame, len, n < l->source_width ? n : l->source_width);
}

/* Below a row: its other frames, a line each, and an empty one. */
static void print_stack(FILE *out, const char *stack, const struct layout *l)
{
	for (const char *end = strchr(stack, '\n'); end; end = strchr(stack, '\n')) {
		stack = end + 1;
		fprintf(out, "%*s", (int)blank_width(l), "");
		print_last_frame(out, stack, strcspn(stack, "\n"), l);
		fputc('\n', out);
	}
	fprintf(out, "%*s", (int)blank_width(l), "");
	print_last_frame(out, "", 0, l);
	fputc('\n', out);
}

static void print_row(FILE *out, const struct ka_row *r, const struct layout *l, const struct sums *sums)
{
	struct cell flops = r->flops ? cell__format("%8.3f", (double)r->flops * l->flops_scale) :
				       cell__format("--");
	bool both = l->flops_unit >= 0 && l->source_width;
	const char *stack = r->stack ? r->stack : "";

	print_name(out, r->key, l->name_width);
	print_times(out, us(r->self_cpu_ns), us(r->cpu_total_ns), r->count, sums->self_cpu, false);
	if (l->device_time)
		print_times(out, us(r->self_device_ns), us(r->device_total_ns), r->count,
			    sums->device, true);
	print_memory(out, r, l);
	print_cell(out, cell__format("%" PRIu64, r->count).text);
	if (l->shapes_width)
		print_shapes(out, r->shapes, l->shapes_width);
	if (both)
		fprintf(out, "%-*s  ", (int)l->source_width, flops.text);
	else if (l->flops_unit >= 0)
		print_cell(out, flops.text);
	if (l->source_width)
		print_last_frame(out, stack, strcspn(stack, "\n"), l);
	fputc('\n', out);
	if (l->source_width)
		print_stack(out, stack, l);
}

static size_t text_column(size_t longest, size_t max)
{
	return longest + TEXT_MARGIN < max ? longest + TEXT_MARGIN : max;
}

/* The column is there when any row has shapes, or may have: "[]" is none. */
static bool has_shapes(const struct ka_row *r)
{
	return r->shapes && r->shapes[0] && strcmp(r->shapes, "[]") != 0;
}

static size_t longest_frame(const char *stack)
{
	size_t longest = 0, n;
	char text[4096];

	for (; stack && *stack; stack += strspn(stack, "\n")) {
		n = strcspn(stack, "\n");
		snprintf(text, sizeof(text), "%.*s", (int)n, stack);
		stack += n;
		n = term_text__width(text);
		longest = n > longest ? n : longest;
	}
	return longest;
}

/* The unit fits the smallest number: auto_scale_flops(). */
static void choose_flops(struct layout *l, uint64_t smallest)
{
	double unit = log10((double)smallest) / 3;

	if (unit > (double)(FLOPS_UNITS - 1))
		unit = (double)(FLOPS_UNITS - 1);
	l->flops_unit = (int)floor(unit);
	l->flops_scale = pow(10, floor(unit) * -3.0);
}

static struct layout choose_layout(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts)
{
	struct layout l = { .flops_unit = -1 };
	size_t name = 0, shapes = 0, source = 0, n;
	bool any_shapes = false, any_device = false, any_time = false;
	uint64_t flops = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		n = term_text__width(rows[i].key);
		name = n > name ? n : name;
		n = rows[i].shapes ? term_text__width(rows[i].shapes) : 0;
		shapes = n > shapes ? n : shapes;
		n = longest_frame(rows[i].stack);
		source = n > source ? n : source;
		any_shapes |= has_shapes(&rows[i]);
		any_device |= rows[i].self_device_mem > 0;
		any_time |= rows[i].self_device_ns > 0;
		if (rows[i].flops && (!flops || rows[i].flops < flops))
			flops = rows[i].flops;
	}
	l.name_width = text_column(name, NAME_WIDTH_MAX);
	l.device_time = opts->device_time && any_time;
	if (opts->profile_memory)
		l.memory_cnt = any_device ? MEMORY_COLUMNS : DEVICE_MEM;
	if (any_shapes)
		l.shapes_width = text_column(shapes, SHAPES_WIDTH_MAX);
	if (source)
		l.source_width = text_column(source, SOURCE_WIDTH_MAX);
	if (flops)
		choose_flops(&l, flops);
	return l;
}

int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts, FILE *out)
{
	struct layout l = choose_layout(rows, cnt, opts);
	const struct ka_row **list;
	uint32_t shown = report__shown(cnt, opts->row_limit);
	struct sums sums;

	if (!cnt)
		return 0; /* torch: the empty string */
	list = sorted_rows(rows, cnt, opts);
	if (!list) {
		pr_error("cannot sort %u table rows: %s", cnt, errstr(ENOMEM));
		return -ENOMEM;
	}
	sums = sums_of(list, cnt);
	errno = 0;
	print_header(out, &l, true);
	print_header(out, &l, false);
	print_header(out, &l, true);
	for (uint32_t i = 0; i < shown; i++)
		print_row(out, list[i], &l, &sums);
	print_header(out, &l, true);
	fprintf(out, "Self CPU time total: %s\n", time_cell(sums.self_cpu).text);
	if (l.device_time)
		fprintf(out, "Self CUDA time total: %s\n", time_cell(sums.device).text);
	free(list);
	return report__flush(out);
}

/* ---- JSON ---- */

/* Of the sum, in percent; null where there is none. */
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

struct columns {
	struct sums sums;
	uint64_t begin_ns;
	bool flops, memory, device, stacks;
};

/* Innermost frame first. */
static void write_stack(struct jsonw *w, const char *stack)
{
	JSONW_ARR(w, "stack");
	for (; *stack; stack += strspn(stack, "\n")) {
		size_t n = strcspn(stack, "\n");

		jsonw__str_begin(w);
		jsonw__str_put(w, stack, n);
		jsonw__str_end(w);
		stack += n;
	}
	jsonw__end_arr(w);
}

static void write_device(struct jsonw *w, const struct ka_row *r, double sum)
{
	JSONW_U64(w, "self_device_ns", r->self_device_ns);
	JSONW_DOUBLE(w, "self_device_percent", share(us(r->self_device_ns), sum));
	JSONW_U64(w, "device_total_ns", r->device_total_ns);
	JSONW_DOUBLE(w, "device_avg_ns", r->count ? (double)r->device_total_ns / (double)r->count : 0.0);
}

static void write_row(struct jsonw *w, const struct ka_row *r, const struct columns *c)
{
	double sum = c->sums.self_cpu;

	jsonw__begin_row(w);
	JSONW_STR(w, "key", r->key);
	JSONW_STR(w, "category", category(r));
	JSONW_U64(w, "count", r->count);
	JSONW_U64(w, "self_cpu_ns", r->self_cpu_ns);
	JSONW_DOUBLE(w, "self_cpu_percent", share(us(r->self_cpu_ns), sum));
	JSONW_U64(w, "cpu_total_ns", r->cpu_total_ns);
	JSONW_DOUBLE(w, "cpu_total_percent", share(us(r->cpu_total_ns), sum));
	JSONW_DOUBLE(w, "cpu_avg_ns", r->count ? (double)r->cpu_total_ns / (double)r->count : 0.0);
	if (c->device)
		write_device(w, r, c->sums.device);
	JSONW_U64(w, "first_begin_ns",
		  r->first_begin_ns > c->begin_ns ? r->first_begin_ns - c->begin_ns : 0);
	if (r->shapes && r->shapes[0]) {
		JSONW_STR(w, "input_shapes", r->shapes);
	}
	if (c->stacks)
		write_stack(w, r->stack);
	if (c->flops)
		JSONW_U64(w, "flops", r->flops);
	if (c->memory) {
		JSONW_I64(w, "cpu_mem_bytes", r->cpu_mem);
		JSONW_I64(w, "self_cpu_mem_bytes", r->self_cpu_mem);
		JSONW_I64(w, "device_mem_bytes", r->device_mem);
		JSONW_I64(w, "self_device_mem_bytes", r->self_device_mem);
	}
	jsonw__end_obj(w);
}

int table__print_json(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		      const struct session *s, struct session_totals *totals, FILE *out)
{
	const struct ka_row **list = sorted_rows(rows, cnt, opts);
	uint32_t shown = report__shown(cnt, opts->row_limit);
	struct columns c = { .begin_ns = session__info(s)->begin_ns,
			     .memory = opts->profile_memory,
			     .device = opts->device_time,
			     .stacks = opts->by_stack };
	struct jsonw w;
	int err = list ? report_json__begin(&w, out, s, totals) : -ENOMEM;

	if (err) {
		free(list);
		return err;
	}
	c.sums = sums_of(list, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		c.flops |= list[i]->flops > 0;
	jsonw__key(&w, "sort_by");
	if (opts->sort_by)
		jsonw__str(&w, opts->sort_by);
	else
		jsonw__null(&w);
	JSONW_U64(&w, "row_count", cnt);
	JSONW_ARR(&w, "rows");
	for (uint32_t i = 0; i < shown; i++)
		if (!jsonw__leave_out(&w))
			write_row(&w, list[i], &c);
	jsonw__end_arr(&w);
	free(list);
	return report_json__end(&w, out, totals);
}
