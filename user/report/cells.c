/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cells of reports; see cells.h. */
#include "report/cells.h"

#include <stdbool.h>

#include "base/term_text.h"

const char *cell__bytes(char *buf, double v)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double abs = v < 0 ? -v : v;
	size_t u = 0;

	for (; abs >= 1023.95 && u + 1 < sizeof(units) / sizeof(units[0]); u++)
		abs /= 1024;
	snprintf(buf, CELL, u ? "%s%.1f %s" : "%s%.0f %s", v < 0 ? "-" : "", abs, units[u]);
	return buf;
}

const char *cell__duration(char *buf, uint64_t ns)
{
	if (ns >= 1000000000)
		snprintf(buf, CELL, "%.3f s", (double)ns / 1e9);
	else if (ns >= 1000000)
		snprintf(buf, CELL, "%.3f ms", (double)ns / 1e6);
	else
		snprintf(buf, CELL, "%.1f us", (double)ns / 1e3);
	return buf;
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
