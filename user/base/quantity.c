/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See text.h. */
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

/* A non-negative number, and what follows it. */
static int parse_number(const char *text, double *v, char **end)
{
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*v = strtod(text, end);
	return errno || *end == text ? -EINVAL : 0;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t len)
{
	for (; units->name; units++)
		if (strlen(units->name) == len && !strncasecmp(name, units->name, len))
			return units;
	return NULL;
}

/* Such a number with an optional unit. -EINVAL on anything else. */
static int parse_scaled(const char *text, const struct unit *units, uint64_t *out)
{
	const struct unit *unit;
	double v;
	char *end;

	if (parse_number(text, &v, &end))
		return -EINVAL;
	unit = find_unit(units, end, strlen(end));
	if (!unit || !(v * unit->factor < 9.0e18))
		return -EINVAL;
	*out = (uint64_t)(v * unit->factor);
	return 0;
}

/* "1m30s": several numbers have a unit each, and the larger ones come first. */
int quantity__duration(const char *text, uint64_t *ns)
{
	static const struct unit units[] = { { "s", 1e9 },  { "ms", 1e6 },   { "us", 1e3 },
					     { "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 },
					     { "", 1e9 },   { NULL, 0 } };
	double sum = 0, v, last = 9.0e18;
	const struct unit *unit;
	bool any = false;
	char *end;

	do {
		size_t len;

		if (parse_number(text, &v, &end))
			return -EINVAL;
		len = strcspn(end, "0123456789");
		unit = find_unit(units, end, len);
		if (!unit || unit->factor >= last || ((any || end[len]) && !len))
			return -EINVAL;
		last = unit->factor;
		sum += v * unit->factor;
		text = end + len;
		any = true;
	} while (*text);
	if (!(sum < 9.0e18))
		return -EINVAL;
	*ns = (uint64_t)sum;
	return 0;
}

int quantity__size(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = { { "", 1 },
					     { "b", 1 },
					     { "k", 1024 },
					     { "kib", 1024 },
					     { "kb", 1024 },
					     { "m", 1048576 },
					     { "mib", 1048576 },
					     { "mb", 1048576 },
					     { "g", 1073741824 },
					     { "gib", 1073741824 },
					     { "gb", 1073741824 },
					     { NULL, 0 } };

	return parse_scaled(text, units, bytes);
}

int quantity__percent(const char *text, double *share)
{
	char *end;

	if (parse_number(text, share, &end) || strcmp(end, "%") != 0)
		return -EINVAL;
	*share /= 100;
	return 0;
}
