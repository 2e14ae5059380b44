/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See event_watch.h. */
#define LOG_DOMAIN "events"
#include "sample/event_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define SLOW_MAX 1000.0
#define HANG_MIN_NS 1000000000ULL

static int parse_slow(const char *value, struct event_rules *r)
{
	char *end;

	if (*value < '0' || *value > '9')
		return -EINVAL;
	r->slow = strtod(value, &end);
	return strcmp(end, "x") != 0 || !(r->slow > 1 && r->slow <= SLOW_MAX) ? -EINVAL : 0;
}

static int parse_grows(const char *value, struct event_rules *r)
{
	return quantity__size(value, &r->grows) || !r->grows ? -EINVAL : 0;
}

static int parse_hang(const char *value, struct event_rules *r)
{
	return quantity__duration(value, &r->hang_ns) || r->hang_ns < HANG_MIN_NS ? -EINVAL : 0;
}

static int parse_annotation(const char *value, struct event_rules *r)
{
	strcpy(r->annotation, value); /* no longer than the item's room */
	return *value ? 0 : -EINVAL;
}

static int parse_oom(const char *value, struct event_rules *r)
{
	r->oom = true;
	return *value ? -EINVAL : 0;
}

static const struct {
	const char *name;
	int (*parse)(const char *value, struct event_rules *r);
} keys[] = {
	{ "slow=", parse_slow }, { "grows=", parse_grows },
	{ "hang=", parse_hang }, { "annotation=", parse_annotation },
	{ "oom", parse_oom },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

/* One item of len bytes; *seen: a bit for each key so far. */
static int parse_item(const char *item, size_t len, struct event_rules *rules, uint32_t *seen)
{
	char value[EVENT_NAME_MAX];

	for (uint32_t i = 0; i < KEYS; i++) {
		size_t name = strlen(keys[i].name);

		if (len < name || memcmp(item, keys[i].name, name) != 0)
			continue;
		if (*seen & 1u << i || len - name >= sizeof(value))
			return -EINVAL;
		*seen |= 1u << i;
		memcpy(value, item + name, len - name);
		value[len - name] = '\0';
		return keys[i].parse(value, rules);
	}
	return -EINVAL;
}

int event_rules__parse(const char *text, struct event_rules *rules)
{
	const char *at = text;
	uint32_t seen = 0;
	size_t len;

	*rules = (struct event_rules){ .slow = 0 };
	for (; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		if (parse_item(at, len, rules, &seen)) {
			pr_error(
				"--open-on %s: '%.*s' is not valid; expected are slow=1.5x, grows=1GiB, hang=60s, annotation=NAME, oom, each once",
				text, (int)len, at);
			return -EINVAL;
		}
	}
	if (seen)
		return 0;
	pr_error("--open-on: the list is empty");
	return -EINVAL;
}
