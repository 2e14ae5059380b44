/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers and texts of others for people; see report.h. */
#include <stdarg.h>

#include "base/text.h"
#include "report/report.h"

#define CUT_MARK 3 /* "..." */

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
	const char *unit = ns < 999500 ? "us" : ns < 999500000 ? "ms" : "s";
	double v = (double)ns / (ns < 999500 ? 1e3 : ns < 999500000 ? 1e6 : 1e9);

	return cell__format("%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, unit);
}

size_t cell__put_text(FILE *out, const char *text, size_t max)
{
	size_t width = term_text__width(text), head, room, tail;

	if (width <= max)
		return term_text__put(out, text, max);
	/* what tells names apart is mostly at their end: "torch/nn/.../linear.py:125 in forward" */
	head = max > CUT_MARK ? (max - CUT_MARK) / 2 : 0;
	room = max > CUT_MARK ? max - CUT_MARK - head : 0;
	tail = term_text__fit(text, width - room);
	while (text[tail] && term_text__width(text + tail) > room) /* half of a wide character */
		tail += term_text__fit(text + tail, 2);
	width = term_text__put(out, text, head);
	fputs("...", out);
	return width + CUT_MARK + term_text__put(out, text + tail, SIZE_MAX);
}

struct cell unit__ns(double v)
{
	return cell__duration(v > 0 ? (uint64_t)v : 0);
}

#define OR_DASH(name, unit)                                                                        \
	struct cell unit__##name##_or_dash(double v)                                               \
	{                                                                                          \
		return v < 0 || v > 0 ? unit(v) : cell__format("-");                               \
	}
OR_DASH(ns, unit__ns)
OR_DASH(count, unit__count)
OR_DASH(bytes, cell__bytes)

struct cell unit__count(double v)
{
	return cell__count(v > 0 ? (uint64_t)v : 0);
}

struct cell unit__share(double v)
{
	return cell__format("%.1f %%", 100 * v);
}
