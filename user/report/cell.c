/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers and texts of others for people; see report.h. */
#include <stdarg.h>

#include "base/text.h"
#include "report/report.h"

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

struct cell unit__ns(double v)
{
	return cell__duration(v > 0 ? (uint64_t)v : 0);
}

struct cell unit__count(double v)
{
	return cell__count(v > 0 ? (uint64_t)v : 0);
}

struct cell unit__share(double v)
{
	return cell__format("%.1f %%", 100 * v);
}
