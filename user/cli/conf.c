/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cmd.h. */
#define LOG_DOMAIN "conf"
#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"

#define BYTES_MAX (1 << 20)
#define BLANKS " \t\r"

struct conf {
	char *raw;  /* the file */
	char *text; /* a copy, in which values end with a zero */
	char path[PATH_MAX], where[PATH_MAX + 16];
};

static const char *where_at(struct conf *c, uint32_t line)
{
	snprintf(c->where, sizeof(c->where), "%s:%u", c->path, line);
	return c->where;
}

const char *conf__where(struct conf *c, const char *value)
{
	uint32_t line = 1;

	if (!c || !value || value < c->text || value > c->text + strlen(c->raw))
		return NULL;
	for (const char *p = c->raw; p < c->raw + (value - c->text); p++)
		line += *p == '\n';
	return where_at(c, line);
}

/* NULL: only those who may decide what ptbpf does can write to it. */
static const char *untrusted(const struct stat *st)
{
	uint32_t uid = 0, gid = 0;

	if (!S_ISREG(st->st_mode))
		return "it is not a regular file";
	new_file__caller(&uid, &gid);
	if (st->st_uid && st->st_uid != geteuid() && st->st_uid != uid)
		return "it belongs to another user; chown it to root";
	if (st->st_mode & S_IWOTH ||
	    (st->st_mode & S_IWGRP && st->st_gid && st->st_gid != getegid() && st->st_gid != gid))
		return "other users may write to it; chmod it to 644";
	return NULL;
}

/* The whole file, as a text. */
static int read_text(int fd, size_t len, char **out)
{
	char *text = xcalloc(1, len + 1);
	size_t got = 0;
	ssize_t n = 1;

	while (got < len && (n = read(fd, text + got, len - got)) > 0)
		got += (size_t)n;
	if (n < 0 || strlen(text) < got) {
		free(text);
		return n < 0 ? -errno : -EINVAL;
	}
	*out = text;
	return 0;
}

static int open_text(struct conf *c)
{
	int fd = open(c->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), err = 0;
	const char *why = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		err = -errno;
	else if ((why = untrusted(&st)))
		err = -EPERM;
	else if (st.st_size > BYTES_MAX)
		err = -EFBIG;
	else
		err = read_text(fd, (size_t)st.st_size, &c->raw);
	if (fd >= 0)
		close(fd);
	if (err)
		pr_error("the configuration file '%s' cannot be used: %s", c->path,
			 why ? why : errstr(err));
	return err;
}

/* Without blanks at both ends. */
static char *trim(char *text)
{
	size_t len;

	text += strspn(text, BLANKS);
	for (len = strlen(text); len && strchr(BLANKS, text[len - 1]);)
		text[--len] = '\0';
	return text;
}

/* lines: where each row has been set, 0: not yet. */
static int read_line(char *line, uint32_t nr, const struct cmd_usage *usage, void *cfg,
		     uint32_t *lines)
{
	char *value = strchr(line, '=');
	const struct opt_def *d;
	const char *name;

	if (!value) {
		pr_error("'%s' is no NAME=VALUE", line);
		return -EINVAL;
	}
	*value++ = '\0';
	name = trim(line);
	d = opts__find(usage, name);
	if (!d) {
		pr_error(
			"'%s' is no option of ptbpf %s; names are those of its --help, without dashes",
			name, usage->name);
		return -EINVAL;
	}
	if (lines[d - usage->opts]) {
		pr_error("'%s' is already in line %u", name, lines[d - usage->opts]);
		return -EINVAL;
	}
	lines[d - usage->opts] = nr;
	return opts__set(d, cfg, trim(value));
}

static int read_lines(struct conf *c, const struct cmd_usage *usage, void *cfg)
{
	const struct opt_def *end = usage->opts;
	uint32_t *lines, nr = 1;
	char *line = c->text, *next;
	int err = 0;

	while (!opts__is_end(end))
		end++;
	lines = xcalloc((size_t)(end - usage->opts) + 1, sizeof(*lines));
	for (; !err && *line; line = next, nr++) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		line[len] = '\0';
		line = trim(line);
		if (!*line || *line == '#')
			continue;
		log__set_context(where_at(c, nr));
		err = read_line(line, nr, usage, cfg, lines);
	}
	log__set_context(NULL);
	free(lines);
	return err;
}

int conf__read(const char *path, const struct cmd_usage *usage, void *cfg, struct conf **out)
{
	struct conf *c = xcalloc(1, sizeof(*c));
	int err;

	snprintf(c->path, sizeof(c->path), "%s", path);
	err = open_text(c);
	if (!err) {
		c->text = xstrdup(c->raw);
		err = read_lines(c, usage, cfg);
	}
	if (err)
		conf__free(c);
	else
		*out = c;
	return err;
}

void conf__free(struct conf *c)
{
	if (!c)
		return;
	free(c->raw);
	free(c->text);
	free(c);
}
