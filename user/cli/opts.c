/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Option rows: parsing and help; see opts.h. */
#include "cli/opts.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "sample/sample.h"

static int parse_pids(const char *text, struct pid_list *list)
{
	while (*text) {
		char *end;
		long v = strtol(text, &end, 10);

		if (end == text || v <= 0 || v > INT_MAX || (*end && *end != ','))
			return -EINVAL;
		if (list->cnt == OPT_PIDS_MAX)
			return -E2BIG;
		list->pids[list->cnt++] = (pid_t)v;
		text = *end ? end + 1 : end;
	}
	return list->cnt ? 0 : -EINVAL;
}

const char *opts__choices(const struct opt_def *d)
{
	return d->type == OPT_CHOICE ? strchr(d->arg, '=') + 1 : NULL;
}

int opts__arg_len(const struct opt_def *d)
{
	return d->arg ? (int)strcspn(d->arg, "=") : 0;
}

/* Is value one of "a, b, c"? */
static bool is_listed(const char *list, const char *value)
{
	size_t len;

	for (; *list; list += len + strspn(list + len, ", ")) {
		len = strcspn(list, ",");
		if (strlen(value) == len && !memcmp(list, value, len))
			return true;
	}
	return false;
}

static int store(const struct opt_def *def, void *cfg, const char *value)
{
	void *dst = (char *)cfg + def->offset;
	char *end;
	long v;

	switch (def->type) {
	case OPT_FLAG:
		*(bool *)dst = true;
		return 0;
	case OPT_SWITCH:
		*(int *)dst = value ? -1 : 1;
		return 0;
	case OPT_STR:
		*(const char **)dst = value;
		return *value ? 0 : -EINVAL;
	case OPT_CHOICE:
		*(const char **)dst = value;
		return is_listed(opts__choices(def), value) ? 0 : -EINVAL;
	case OPT_INT:
		v = strtol(value, &end, 10);
		if (end == value || *end || v < INT_MIN || v > INT_MAX)
			return -EINVAL;
		*(int *)dst = (int)v;
		return 0;
	case OPT_DURATION:
		/* a window of no time; 0 is what the absence of -d means, a window without an
		 * end */
		return quantity__duration(value, dst) || (def->letter == 'd' && !*(uint64_t *)dst) ?
			       -EINVAL :
			       0;
	case OPT_SIZE:
		return quantity__size(value, dst);
	case OPT_PIDS:
		return parse_pids(value, dst);
	case OPT_GROUP:
		break;
	}
	return -EINVAL;
}

/* An option that is not set has no word. */
static void add_word(const struct opt_def *d, const void *src, struct words *words)
{
	const char *text;

	switch (d->type) {
	case OPT_FLAG:
		if (*(const bool *)src)
			words__add(words, "--%s", d->name);
		break;
	case OPT_STR:
	case OPT_CHOICE:
		text = *(const char *const *)src;
		if (text)
			words__add(words, "--%s=%s", d->name, text);
		break;
	case OPT_INT:
		if (*(const int *)src)
			words__add(words, "--%s=%d", d->name, *(const int *)src);
		break;
	case OPT_SIZE:
		if (*(const uint64_t *)src)
			words__add(words, "--%s=%" PRIu64, d->name, *(const uint64_t *)src);
		break;
	case OPT_GROUP:
	case OPT_SWITCH:
	case OPT_DURATION:
	case OPT_PIDS:
		break;
	}
}

void opts__words(const struct opt_def *defs, const char *except, const void *cfg,
		 struct words *words)
{
	for (const struct opt_def *d = defs; !opts__is_end(d); d++)
		if (d->type != OPT_GROUP && (!except || strcmp(d->name, except) != 0))
			add_word(d, (const char *)cfg + d->offset, words);
}

bool opts__is_end(const struct opt_def *d)
{
	return !d->name && !d->help;
}

static bool is_off(const char *name, const char *word, size_t len)
{
	return len == strlen(name) + 3 && !memcmp(word, "no-", 3) &&
	       !memcmp(word + 3, name, len - 3);
}

bool opts__takes_value(const struct opt_def *d)
{
	return d->type != OPT_FLAG && d->type != OPT_SWITCH;
}

/*
 * The row of "--name", "--name=value", "-x" or, of a switch, "--no-name". *value: what follows '='
 * or the letter, else NULL. *off: it was "--no-name".
 */
static const struct opt_def *match(const struct opt_def *defs, const char *word, const char **value,
				   bool *off)
{
	const struct opt_def *d;
	size_t len;

	*value = NULL;
	*off = false;
	if (word[1] != '-') {
		for (d = defs; !opts__is_end(d); d++)
			if (d->letter && d->letter == word[1]) {
				*value = word[2] ? word + 2 : NULL;
				return d;
			}
		return NULL;
	}
	len = strcspn(word + 2, "=");
	for (d = defs; !opts__is_end(d); d++) {
		*off = d->type == OPT_SWITCH && is_off(d->name, word + 2, len);
		if (*off ||
		    (d->name && strlen(d->name) == len && !memcmp(d->name, word + 2, len))) {
			*value = word[2 + len] ? word + 3 + len : NULL;
			return d;
		}
	}
	return NULL;
}

const char *opts__expected(const struct opt_def *d)
{
	switch (d->type) {
	case OPT_CHOICE:
		return opts__choices(d);
	case OPT_DURATION:
		return OPTS_TIME;
	case OPT_SIZE:
		return OPTS_SIZE;
	case OPT_INT:
		return "a whole number";
	default:
		return d->arg;
	}
}

const struct opt_def *opts__find(const struct cmd_usage *usage, const char *name)
{
	const struct opt_def *d;

	for (d = usage->opts; !opts__is_end(d); d++)
		if (d->type != OPT_GROUP && !strcmp(d->name, name))
			return d;
	return NULL;
}

int opts__set(const struct opt_def *d, void *cfg, const char *value)
{
	bool no = !strcmp(value, "no"), ok;

	if (opts__takes_value(d))
		ok = !store(d, cfg, value);
	else if (!no && strcmp(value, "yes") != 0)
		ok = false;
	else
		ok = (d->type == OPT_FLAG && no) || !store(d, cfg, no ? "no" : NULL);
	if (!ok)
		pr_error("'%s' is not a valid value for %s (%s)", value, d->name,
			 opts__takes_value(d) ? opts__expected(d) : "yes or no");
	return ok ? 0 : -EINVAL;
}

static void say_unknown(const struct cmd_usage *usage, const char *word)
{
	struct guess g = { .word = word + 2, .len = strcspn(word, "=") - 2 };

	for (const struct opt_def *d = usage->opts; word[1] == '-' && !opts__is_end(d); d++)
		if (d->type != OPT_GROUP)
			guess__try(&g, d->name);
	if (g.best)
		pr_error("%s: unknown option '%s'; did you mean --%s?", usage->name, word, g.best);
	else
		pr_error("%s: unknown option '%s'; see 'ptbpf %s --help'", usage->name, word,
			 usage->name);
}

/* One option at argv[*i], which moves on when the value is the next word. */
static int parse_option(const struct cmd_usage *usage, void *cfg, int argc, char **argv, int *i)
{
	const char *value;
	bool off;
	const struct opt_def *d = match(usage->opts, argv[*i], &value, &off);

	if (!d) {
		say_unknown(usage, argv[*i]);
		return OPTS_ERROR;
	}
	if (!opts__takes_value(d) && value) {
		pr_error("%s: option --%s takes no value", usage->name, d->name);
		return OPTS_ERROR;
	}
	if (opts__takes_value(d) && !value) {
		bool last = *i + 1 >= argc;

		if (d->type == OPT_INT && strchr(d->arg, '=') && (last || argv[*i + 1][0] == '-')) {
			value = strchr(d->arg, '=') + 1;
			return store(d, cfg, value);
		}
		if (last) {
			pr_error("%s: option --%s needs a value (%s)", usage->name, d->name,
				 opts__expected(d));
			return OPTS_ERROR;
		}
		value = argv[++*i];
	}
	if (store(d, cfg, off ? "no" : value)) {
		pr_error("%s: '%s' is not a valid value for --%s "
			 "(%s)",
			 usage->name, value, d->name, opts__expected(d));
		return OPTS_ERROR;
	}
	return 0;
}

/* A word where pids may stand. */
static int take_pids(const struct cmd_usage *usage, void *cfg, const char *word)
{
	if (!store(opts__find(usage, "pid"), cfg, word))
		return 0;
	if (*word < '0' || *word > '9')
		pr_error("%s: '%s' is no pid%s; 'ptbpf ps' lists processes with PyTorch",
			 usage->name, word,
			 opts__find(usage, "name") ?
				 ": by its script a process is named with --name" :
				 "");
	else
		pr_error("%s: '%s' is not a valid pid (PID[,PID...])", usage->name, word);
	return OPTS_ERROR;
}

int opts__parse(const struct cmd_usage *usage, void *cfg, int argc, char **argv,
		struct opt_words *words)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			opts__help(usage, argv[i][1] == '-', stdout);
			return OPTS_HELP;
		}
		if (argv[i][0] == '-' && argv[i][1]) {
			if (parse_option(usage, cfg, argc, argv, &i))
				return OPTS_ERROR;
		} else if (usage->command) {
			return i;
		} else if (usage->pids) {
			if (take_pids(usage, cfg, argv[i]))
				return OPTS_ERROR;
		} else if (words && words->cnt < words->max) {
			words->list[words->cnt++] = argv[i];
		} else {
			pr_error("%s: unexpected argument '%s'; see 'ptbpf %s --help'", usage->name,
				 argv[i], usage->name);
			return OPTS_ERROR;
		}
	}
	return argc;
}
