/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Levelled messages on stderr; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

#define REPEATS 1024
#define LINE_SPARE 3 /* for the "^C" that the terminal shows at Ctrl-C, and the cursor */

static const char *debug_domains;
static const char *error_context;
static bool quiet, has_error;

static int columns; /* of the terminal, 0: there is none */
static bool coloured;
static bool line_shown; /* of log__line() */
static uint64_t line_ns;

static bool limited; /* repeats are left out */
static struct repeat {
	uint64_t said; /* a hash of what is said */
	unsigned long pid;
	uint64_t ns;
	uint32_t more; /* left out since then */
} repeats[REPEATS];
static bool repeated; /* the last error or warning was left out, and so is the hint that follows */

/* Is the word in a list that is separated by `sep`? */
static bool is_listed(const char *list, const char *sep, const char *word, size_t len)
{
	size_t n;

	for (; list && *list; list += n + strspn(list + n, sep)) {
		n = strcspn(list, sep);
		if (n == len && !memcmp(list, word, n))
			return true;
	}
	return false;
}

bool log__enable_domains(const char *domains)
{
	size_t n;

	debug_domains = domains;
	for (const char *at = domains; at && *at; at += n + (at[n] == ',')) {
		n = strcspn(at, ",");
		if (!is_listed(LOG_DOMAINS ", all", ", ", at, n))
			return false;
	}
	return true;
}

void log__set_quiet(bool q)
{
	quiet = q;
}

void log__set_terminal(int width, bool colour)
{
	columns = width;
	coloured = colour;
}

void log__line(const char *fmt, ...)
{
	uint64_t now = columns && !quiet ? clock__mono_ns() : 0;
	char text[512];
	va_list ap;

	if (!fmt && line_shown)
		fputs("\r\033[K", stderr);
	if (!fmt)
		line_shown = false;
	if (!fmt || !now || (line_shown && now < line_ns + LOG_LINE_NS))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "\r\033[K");
	term_text__put(stderr, text, (size_t)columns - LINE_SPARE);
	line_shown = true;
	line_ns = now;
}

bool log__has_error(void)
{
	return has_error;
}

void log__set_context(const char *context)
{
	error_context = context;
}

void log__limit_repeats(void)
{
	limited = true;
}

/* The same for lines that differ in their numbers only. */
static uint64_t hash_of(const char *text)
{
	uint64_t h = 14695981039346656037ULL;

	for (; *text; text++)
		if (*text < '0' || *text > '9')
			h = (h ^ (unsigned char)*text) * 1099511628211ULL;
	return h;
}

/* Has such a line been printed about that process a short time ago? *more: how many were left out
 * since then. */
static bool is_repeated(const char *text, uint32_t *more)
{
	const char *at = limited ? strstr(text, "pid ") : NULL;
	unsigned long pid = at ? strtoul(at + 4, NULL, 10) : 0;
	uint64_t now = pid ? clock__mono_ns() : 0, said = hash_of(text);
	struct repeat *r;

	*more = 0;
	if (!pid)
		return false;
	r = &repeats[(said * 31 + pid) % REPEATS];
	if (r->said == said && r->pid == pid) {
		if (now < r->ns + LOG_REPEAT_NS) {
			r->more++;
			return true;
		}
		*more = r->more;
	}
	*r = (struct repeat){ .said = said, .pid = pid, .ns = now };
	return false;
}

static bool domain_enabled(const char *domain)
{
	return is_listed(debug_domains, ",", domain, strlen(domain)) ||
	       is_listed(debug_domains, ",", "all", 3);
}

#define TIMES_MAX 96

static void say_times(uint32_t more, char times[TIMES_MAX])
{
	if (more)
		snprintf(times, TIMES_MAX,
			 " (since the last such line about this process %u were left out)", more);
}

void log__forward(const char *line)
{
	char times[TIMES_MAX] = "";
	uint32_t more = 0;

	if (!strncmp(line, "ptbpf: hint: ", 13)) {
		if (repeated)
			return;
	} else if (!strncmp(line, "ptbpf: ", 7) && strncmp(line, "ptbpf: debug: ", 14) != 0) {
		repeated = is_repeated(line, &more);
		if (repeated)
			return;
	}
	say_times(more, times);
	log__line(NULL);
	fprintf(stderr, "%s%s\n", line, times);
}

void log__print(enum log_level level, const char *domain, const char *fmt, ...)
{
	static const char *const prefix[] = { "ptbpf: ", "ptbpf: warning: ", "ptbpf: hint: ",
					      "ptbpf: ", "ptbpf: debug: " };
	char text[2048], line[2048], times[TIMES_MAX] = "";
	uint32_t more = 0;
	int len = 0;
	va_list ap;

	if (level == LOG_DEBUG && !domain_enabled(domain))
		return;
	if ((level == LOG_INFO && quiet) || (level == LOG_HINT && repeated))
		return;
	has_error |= level == LOG_ERROR;
	if (level == LOG_ERROR && error_context)
		len = snprintf(text, sizeof(text), "%.1000s: ", error_context);
	va_start(ap, fmt);
	vsnprintf(text + len, sizeof(text) - (size_t)len, fmt, ap);
	va_end(ap);
	if (level == LOG_ERROR || level == LOG_WARN) {
		repeated = strstr(fmt, "pid %") && is_repeated(text, &more);
		if (repeated)
			return;
	}
	say_times(more, times);
	term_text__copy(line, sizeof(line), text); /* names and paths in it are others' */
	log__line(NULL);
	/* one write per message, so that messages of several processes do not mix */
	if (level == LOG_DEBUG)
		fprintf(stderr, "%s%s: %s\n", prefix[level], domain, line);
	else if (coloured && level <= LOG_WARN)
		fprintf(stderr, "\033[31m%s%s%s\033[0m\n", prefix[level], line, times);
	else
		fprintf(stderr, "%s%s%s\n", prefix[level], line, times);
}

const char *errstr(int err)
{
	const char *s = strerrordesc_np(err < 0 ? -err : err);

	return s ? s : "unknown error";
}
