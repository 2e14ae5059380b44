/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What reports share; see report_out.h. */
#include "report/report_out.h"

#include <errno.h>
#include <stdarg.h>

#include "base/cancel.h"
#include "base/term_text.h"
#include "export/loss_account.h"
#include "export/session_json.h"

struct cell cell__format(const char *fmt, ...)
{
	struct cell c;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c.text, sizeof(c.text), fmt, ap);
	va_end(ap);
	return c;
}

/* The largest of the 7 units that leaves 1 or more, with one decimal; the first without. */
static struct cell scaled(double v, double step, const char *const units[7])
{
	double abs = v < 0 ? -v : v;
	int u = 0;

	for (; abs >= step - 0.05 && u < 6; u++)
		abs /= step;
	return cell__format("%s%.*f%s", v < 0 ? "-" : "", u ? 1 : 0, abs, units[u]);
}

struct cell cell__bytes(double v)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };

	return scaled(v, 1024, units);
}

struct cell cell__count(uint64_t v)
{
	static const char *const units[] = { "", " k", " M", " G", " T", " P", " E" };

	return scaled((double)v, 1000, units);
}

struct cell cell__change(double v)
{
	return cell__format("%s%s", v > 0 ? "+" : "", cell__bytes(v).text);
}

struct cell cell__duration(uint64_t ns)
{
	if (ns >= 1000000000)
		return cell__format("%.3f s", (double)ns / 1e9);
	if (ns >= 1000000)
		return cell__format("%.3f ms", (double)ns / 1e6);
	return cell__format("%.1f us", (double)ns / 1e3);
}

size_t cell__put_text(FILE *out, const char *text, size_t max)
{
	size_t width = term_text__width(text);
	bool cut = width > max;

	width = term_text__put(out, text, cut ? (max > 3 ? max - 3 : 0) : max);
	if (cut)
		fputs("...", out);
	return width + (cut ? 3 : 0);
}

void cell__put_last(FILE *out, const char *text, size_t used, size_t least)
{
	cell__put_text(out, text, used + least < REPORT_LINE ? REPORT_LINE - used : least);
}

void report__title(FILE *out, const char *fmt, ...)
{
	va_list ap;

	fputc('\n', out);
	va_start(ap, fmt);
	vfprintf(out, fmt, ap);
	va_end(ap);
	fputc('\n', out);
}

void report__put_rest(FILE *out, uint32_t shown, uint32_t cnt)
{
	if (shown < cnt)
		fprintf(out, "  ... %u more (--row-limit)\n", cnt - shown);
}

void report__put_incomplete(FILE *out, const struct session_info *info, const struct session_totals *totals)
{
	char account[2048];

	if (loss_account__incomplete(info, totals, account, sizeof(account)))
		fprintf(out, "\nThe capture is incomplete and the figures are bounds: %s\n", account);
}

int report__flush(FILE *out)
{
	if (!fflush(out) && !ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

static int to_report(void *out, const void *data, size_t len)
{
	return cancel__pending() ? -ECANCELED : jsonw__to_stream(out, data, len);
}

int report_json__begin(struct jsonw *w, FILE *out, const struct session *s,
		       const struct session_totals *totals)
{
	int err = jsonw__init(w, to_report, out, 64 * 1024);

	if (err)
		return err;
	w->max = session__info(s)->output_max;
	jsonw__begin_obj(w);
	JSONW_U64(w, "schema_version", 1);
	session_json__write(w, s);
	session_json__write_totals(w, session__info(s), totals);
	return 0;
}

int report_json__end(struct jsonw *w, FILE *out, struct session_totals *totals)
{
	int err;

	if (w->left_out)
		JSONW_U64(w, "not_written", w->left_out);
	totals->not_written += w->left_out;
	jsonw__end_obj(w);
	jsonw__newline(w);
	err = jsonw__flush(w);
	if (!err && fflush(out))
		err = -errno;
	jsonw__free(w);
	return err;
}
