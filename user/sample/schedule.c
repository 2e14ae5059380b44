/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See schedule.h. */
#define LOG_DOMAIN "schedule"
#include "sample/schedule.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define CYCLE_MAX (366ULL * 24 * 3600 * 1000000000) /* a year: sums of these do not overflow */
#define COUNT_MAX 1000000000ULL

struct units {
	bool steps, times;
};

struct key {
	const char *name;
	size_t offset;
	bool count; /* of cycles, not of steps, nor a time */
};

static const struct key keys[] = {
	{ "wait", offsetof(struct schedule, wait), false },
	{ "warmup", offsetof(struct schedule, warmup), false },
	{ "active", offsetof(struct schedule, active), false },
	{ "skip_first", offsetof(struct schedule, skip_first), false },
	{ "repeat", offsetof(struct schedule, repeat), true },
	{ "skip_first_wait", offsetof(struct schedule, skip_first_wait), true },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static int parse_count(const char *text, uint64_t *n)
{
	size_t len = strspn(text, "0123456789");

	if (!len || text[len] || len > 10)
		return -EINVAL;
	for (*n = 0; *text; text++)
		*n = *n * 10 + (uint64_t)(*text - '0');
	return *n > COUNT_MAX ? -EINVAL : 0;
}

/* A time has a unit; a plain number is steps, as in torch's schedule; 0 is both. */
static int parse_length(const char *text, uint64_t *v, struct units *units)
{
	bool plain = strspn(text, "0123456789") == strlen(text), unit;
	int err = plain ? parse_count(text, v) : quantity__duration(text, v);

	unit = text[strlen(text) - 1] < '0' || text[strlen(text) - 1] > '9';
	if (err || plain == unit || (unit && *v > CYCLE_MAX))
		return -EINVAL;
	units->steps |= plain && *v;
	units->times |= !plain;
	return 0;
}

/* One "key=value" of len bytes; *seen: a bit for each key so far. */
static int parse_item(const char *item, size_t len, struct schedule *s, uint32_t *seen,
		      struct units *units)
{
	char value[32] = "";
	size_t name = strcspn(item, "=");
	uint64_t v = 0;

	if (name >= len || len - name - 1 >= sizeof(value) || len - name == 1)
		return -EINVAL;
	memcpy(value, item + name + 1, len - name - 1);
	for (uint32_t i = 0; i < KEYS; i++) {
		if (strlen(keys[i].name) != name || memcmp(keys[i].name, item, name))
			continue;
		if (*seen & 1u << i ||
		    (keys[i].count ? parse_count(value, &v) : parse_length(value, &v, units)))
			return -EINVAL;
		*seen |= 1u << i;
		if (keys[i].offset == offsetof(struct schedule, skip_first_wait))
			s->skip_first_wait = v != 0;
		else
			*(uint64_t *)((char *)s + keys[i].offset) = v;
		return 0;
	}
	return -EINVAL;
}

int schedule__parse(const char *text, struct schedule *s)
{
	const char *at = text;
	struct units units = { false, false };
	uint32_t seen = 0;
	size_t len;

	*s = (struct schedule){ .none = !strcmp(text, "none") };
	if (s->none)
		return 0;
	for (; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (parse_item(at, len, s, &seen, &units)) {
			pr_error(
				"--schedule %s: '%.*s' is not valid; expected are wait, warmup, active and skip_first with "
				"times (55s, 500ms) or numbers of steps, repeat with a number, skip_first_wait with 0 or 1, each once, or none alone",
				text, (int)len, at);
			return -EINVAL;
		}
	}
	if (units.steps && units.times) {
		pr_error(
			"--schedule %s has steps and times: use numbers of steps for all of wait, warmup, active and "
			"skip_first, or times for all",
			text);
		return -EINVAL;
	}
	s->in_steps = units.steps;
	if (!s->active) {
		pr_error("--schedule %s: active is required, and more than 0", text);
		return -EINVAL;
	}
	return 0;
}

bool schedule__window(const struct schedule *s, uint64_t k, struct schedule_window *w)
{
	uint64_t cycle = s->wait + s->warmup + s->active, start;

	if (s->none || (s->repeat && k >= s->repeat) || k > COUNT_MAX * 1000 ||
	    k > UINT64_MAX / 4 / cycle)
		return false;
	start = s->skip_first + k * cycle + (s->skip_first_wait ? 0 : s->wait);
	*w = (struct schedule_window){ .warmup = start,
				       .begin = start + s->warmup,
				       .end = start + s->warmup + s->active };
	return true;
}
