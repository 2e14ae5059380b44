/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * key_averages().table() as torch prints it, byte for byte, with the columns of the CPU, of a GPU and of memory.
 * Layout and number formats: _build_table() in pytorch torch/autograd/profiler_util.py.
 */
#define LOG_DOMAIN "table"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/term_text.h"
#include "report/table_rows.h"

#define COLUMN_WIDTH 12
#define NAME_WIDTH_MAX 55
#define NAME_CUT (NAME_WIDTH_MAX - 3) /* a name this long or longer is cut here and ends in "..." */
#define SHAPES_WIDTH_MAX 80           /* shapes are cut there, without dots */
#define TEXT_MARGIN 4
#define CELL_MAX 64

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

/* The columns whose presence or width depends on the rows. */
struct layout {
	size_t name_width;
	bool device_time;
	size_t memory_cnt;   /* the first so many of memory_headers */
	size_t shapes_width; /* 0: no such column */
	int flops_unit;      /* index of the header, -1: no such column */
	double flops_scale;
};

/* The name right-aligned in width characters (never cut to it), at most `max` of its characters. */
static void print_name(FILE *out, const char *name, size_t width)
{
	size_t cnt = term_text__width(name), shown = cnt >= NAME_CUT ? NAME_CUT : cnt;
	size_t used = cnt >= NAME_CUT ? NAME_CUT + 3 : cnt, i;

	for (i = used; i < width; i++)
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

static void format_time(char *buf, double us)
{
	if (us >= 1e6)
		snprintf(buf, CELL_MAX, "%.3fs", us / 1e6);
	else if (us >= 1e3)
		snprintf(buf, CELL_MAX, "%.3fms", us / 1e3);
	else
		snprintf(buf, CELL_MAX, "%.3fus", us);
}

static void format_share(char *buf, double us, double sum)
{
	if (sum > 0.0)
		snprintf(buf, CELL_MAX, "%.2f%%", us * 100.0 / sum);
	else
		snprintf(buf, CELL_MAX, "NaN");
}

static void format_memory(char *buf, int64_t bytes)
{
	static const char *const units[] = { "KB", "MB", "GB" };
	double v = (double)bytes;
	int i = -1;

	while (i < 2 && fabs(v) >= 1024.0) {
		v /= 1024.0;
		i++;
	}
	if (i < 0)
		snprintf(buf, CELL_MAX, "%" PRId64 " B", bytes);
	else
		snprintf(buf, CELL_MAX, "%.2f %s", v, units[i]);
}

static void print_dashes(FILE *out, size_t n)
{
	while (n--)
		fputc('-', out);
	fputs("  ", out);
}

static void print_separator(FILE *out, const struct layout *l)
{
	size_t i;

	print_dashes(out, l->name_width);
	for (i = 0; i < COLUMN_CNT; i++)
		print_dashes(out, COLUMN_WIDTH);
	for (i = 0; l->device_time && i < DEVICE_COLUMN_CNT; i++)
		print_dashes(out, COLUMN_WIDTH);
	for (i = 0; i < l->memory_cnt; i++)
		print_dashes(out, COLUMN_WIDTH);
	print_dashes(out, COLUMN_WIDTH);
	if (l->shapes_width)
		print_dashes(out, l->shapes_width);
	if (l->flops_unit >= 0)
		print_dashes(out, COLUMN_WIDTH);
	fputc('\n', out);
}

static void print_headers(FILE *out, const struct layout *l)
{
	size_t i;

	print_name(out, "Name", l->name_width);
	for (i = 0; i < COLUMN_CNT; i++)
		print_cell(out, headers[i]);
	for (i = 0; l->device_time && i < DEVICE_COLUMN_CNT; i++)
		print_cell(out, device_headers[i]);
	for (i = 0; i < l->memory_cnt; i++)
		print_cell(out, memory_headers[i]);
	print_cell(out, "# of Calls");
	if (l->shapes_width)
		fprintf(out, "%*s  ", (int)l->shapes_width, "Input Shapes");
	if (l->flops_unit >= 0)
		print_cell(out, flops_headers[l->flops_unit]);
	fputc('\n', out);
}

static void print_memory(FILE *out, const struct ka_row *r, const struct layout *l)
{
	const int64_t bytes[MEMORY_COLUMNS] = {
		[CPU_MEM] = r->cpu_mem, [SELF_CPU_MEM] = r->self_cpu_mem, [DEVICE_MEM] = r->device_mem, [SELF_DEVICE_MEM] = r->self_device_mem
	};
	char cell[CELL_MAX];
	size_t i;

	for (i = 0; i < l->memory_cnt; i++) {
		format_memory(cell, bytes[i]);
		print_cell(out, cell);
	}
}

static void print_device(FILE *out, const struct ka_row *r, double sum)
{
	double self = table_rows__us(r->self_device_ns), total = table_rows__us(r->device_total_ns);
	char cell[CELL_MAX];

	format_time(cell, self);
	print_cell(out, cell);
	format_share(cell, self, sum);
	print_cell(out, cell);
	format_time(cell, total);
	print_cell(out, cell);
	format_time(cell, r->count ? total / (double)r->count : 0.0);
	print_cell(out, cell);
}

/* Cut without dots, as torch does. */
static void print_shapes(FILE *out, const char *shapes, size_t width)
{
	size_t i;

	for (i = term_text__width(shapes); i < width; i++)
		fputc(' ', out);
	term_text__put(out, shapes, width);
	fputs("  ", out);
}

static void print_row(FILE *out, const struct ka_row *r, const struct layout *l,
		      const struct table_sums *sums)
{
	double sum = sums->self_cpu;
	double self = table_rows__us(r->self_cpu_ns), total = table_rows__us(r->cpu_total_ns);
	char cell[CELL_MAX];

	print_name(out, r->key, l->name_width);
	format_share(cell, self, sum);
	print_cell(out, cell);
	format_time(cell, self);
	print_cell(out, cell);
	format_share(cell, total, sum);
	print_cell(out, cell);
	format_time(cell, total);
	print_cell(out, cell);
	format_time(cell, r->count ? total / (double)r->count : 0.0);
	print_cell(out, cell);
	if (l->device_time)
		print_device(out, r, sums->device);
	print_memory(out, r, l);
	snprintf(cell, sizeof(cell), "%" PRIu64, r->count);
	print_cell(out, cell);
	if (l->shapes_width)
		print_shapes(out, r->shapes, l->shapes_width);
	if (l->flops_unit >= 0) {
		snprintf(cell, sizeof(cell), "%8.3f", (double)r->flops * l->flops_scale);
		print_cell(out, r->flops ? cell : "--");
	}
	fputc('\n', out);
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
	size_t name = 0, shapes = 0, n;
	bool any_shapes = false, any_device = false, any_time = false;
	uint64_t flops = 0;
	uint32_t i;

	for (i = 0; i < cnt; i++) {
		n = term_text__width(rows[i].key);
		name = n > name ? n : name;
		n = rows[i].shapes ? term_text__width(rows[i].shapes) : 0;
		shapes = n > shapes ? n : shapes;
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
	if (flops)
		choose_flops(&l, flops);
	return l;
}

/* What a stream says about itself after the last byte. */
static int stream_error(FILE *out)
{
	errno = 0;
	if (!fflush(out) && !ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts, FILE *out)
{
	struct layout l = choose_layout(rows, cnt, opts);
	const struct ka_row **list;
	char cell[CELL_MAX];
	uint32_t shown = table_rows__shown(cnt, opts), i;
	struct table_sums sums;

	if (!cnt)
		return 0; /* torch: the empty string */
	list = table_rows__sorted(rows, cnt, opts);
	if (!list) {
		pr_error("cannot sort %u table rows: %s", cnt, errstr(ENOMEM));
		return -ENOMEM;
	}
	sums = table_rows__sums(list, cnt);
	print_separator(out, &l);
	print_headers(out, &l);
	print_separator(out, &l);
	for (i = 0; i < shown; i++)
		print_row(out, list[i], &l, &sums);
	print_separator(out, &l);
	format_time(cell, sums.self_cpu);
	fprintf(out, "Self CPU time total: %s\n", cell);
	if (l.device_time) {
		format_time(cell, sums.device);
		fprintf(out, "Self CUDA time total: %s\n", cell);
	}
	free(list);
	return stream_error(out);
}
