/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * key_averages().table() as torch prints it, byte for byte, with the columns of a CPU run. Layout and
 * number formats: _build_table() in pytorch torch/autograd/profiler_util.py.
 */
#define LOG_DOMAIN "table"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "export/table_rows.h"

#define COLUMN_WIDTH 12
#define NAME_WIDTH_MAX 55
#define NAME_CUT (NAME_WIDTH_MAX - 3) /* a name this long or longer is cut here and ends in "..." */
#define NAME_MARGIN 4
#define CELL_MAX 64

static const char *const headers[] = { "Self CPU %",   "Self CPU",     "CPU total %",
				       "CPU total",    "CPU time avg", "# of Calls" };
#define COLUMN_CNT (sizeof(headers) / sizeof(headers[0]))

/* Bytes of the character at p: a whole UTF-8 sequence, or one byte where there is none. */
static size_t char_len(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t n = u[0] >= 0xf0 && u[0] < 0xf8 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc2 ? 2 : 1, i;

	if (u[0] < 0xc2 || u[0] >= 0xf8)
		return 1;
	for (i = 1; i < n; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 1;
	return n;
}

static size_t char_cnt(const char *text)
{
	size_t n = 0;

	for (; *text; text += char_len(text))
		n++;
	return n;
}

/* Names are the target's bytes: what could steer a terminal or is no text becomes '?'. */
static bool printable(const char *p, size_t len)
{
	unsigned char a = (unsigned char)p[0], b = (unsigned char)(len > 1 ? p[1] : 0);

	if (len == 1)
		return a >= 0x20 && a < 0x7f;
	return !(a == 0xc2 && b < 0xa0); /* U+0080..U+009F */
}

/* The name right-aligned in width characters (never cut to it), at most `max` of its characters. */
static void print_name(FILE *out, const char *name, size_t width)
{
	size_t cnt = char_cnt(name), shown = cnt >= NAME_CUT ? NAME_CUT : cnt;
	size_t used = cnt >= NAME_CUT ? NAME_CUT + 3 : cnt, i, n;

	for (i = used; i < width; i++)
		fputc(' ', out);
	for (i = 0; i < shown; i++, name += n) {
		n = char_len(name);
		if (printable(name, n))
			fwrite(name, 1, n, out);
		else
			fputc('?', out);
	}
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

static void print_dashes(FILE *out, size_t n)
{
	while (n--)
		fputc('-', out);
	fputs("  ", out);
}

static void print_separator(FILE *out, size_t name_width)
{
	size_t i;

	print_dashes(out, name_width);
	for (i = 0; i < COLUMN_CNT; i++)
		print_dashes(out, COLUMN_WIDTH);
	fputc('\n', out);
}

static void print_row(FILE *out, const struct ka_row *r, size_t name_width, double sum)
{
	double self = table_rows__us(r->self_cpu_ns), total = table_rows__us(r->cpu_total_ns);
	char cell[CELL_MAX];

	print_name(out, r->key, name_width);
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
	snprintf(cell, sizeof(cell), "%" PRIu64, r->count);
	print_cell(out, cell);
	fputc('\n', out);
}

static size_t name_column(const struct ka_row *rows, uint32_t cnt)
{
	size_t longest = 0;
	uint32_t i;

	for (i = 0; i < cnt; i++) {
		size_t n = char_cnt(rows[i].key);

		if (n > longest)
			longest = n;
	}
	return longest + NAME_MARGIN < NAME_WIDTH_MAX ? longest + NAME_MARGIN : NAME_WIDTH_MAX;
}

/* What a stream says about itself after the last byte. */
static int stream_error(FILE *out, const char *what)
{
	int err;

	errno = 0;
	if (!fflush(out) && !ferror(out))
		return 0;
	err = errno ? -errno : -EIO;
	pr_error("cannot write the %s: %s", what, errstr(err));
	return err;
}

int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts, FILE *out)
{
	size_t name_width = name_column(rows, cnt), i;
	const struct ka_row **list;
	char cell[CELL_MAX];
	uint32_t shown = table_rows__shown(cnt, opts);
	double sum;

	if (!cnt)
		return 0; /* torch: the empty string */
	list = table_rows__sorted(rows, cnt, opts);
	if (!list) {
		pr_error("cannot sort %u table rows: %s", cnt, errstr(ENOMEM));
		return -ENOMEM;
	}
	sum = table_rows__self_sum(list, cnt);
	print_separator(out, name_width);
	print_name(out, "Name", name_width);
	for (i = 0; i < COLUMN_CNT; i++)
		print_cell(out, headers[i]);
	fputc('\n', out);
	print_separator(out, name_width);
	for (i = 0; i < shown; i++)
		print_row(out, list[i], name_width, sum);
	print_separator(out, name_width);
	format_time(cell, sum);
	fprintf(out, "Self CPU time total: %s\n", cell);
	free(list);
	return stream_error(out, "table");
}
