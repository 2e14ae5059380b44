/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Levelled messages on stderr; see log.h. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shared_mem.h"
#include "base/term_text.h"

#define REPEATS 1024

static const char *debug_domains;
static const char *error_context;
static bool quiet, has_error;

/* Of several processes without a lock: where two write at a time, a line is printed once more or less. */
static struct repeat {
	const char *fmt; /* what is said */
	unsigned long pid;
	uint64_t ns;
	uint32_t more; /* left out since then */
} * repeats;           /* NULL: they are not limited */

void log__enable_domains(const char *domains)
{
	debug_domains = domains;
}

void log__set_quiet(bool q)
{
	quiet = q;
}

bool log__has_error(void)
{
	return has_error;
}

void log__set_context(const char *context)
{
	error_context = context;
}

int log__limit_repeats(void)
{
	repeats = shared_mem__new(REPEATS * sizeof(*repeats));
	return repeats ? 0 : -ENOMEM;
}

/* Has such a line been printed about that process a short time ago? *more: how many were left out since then. */
static bool is_repeated(const char *fmt, const char *text, uint32_t *more)
{
	const char *at = repeats && strstr(fmt, "pid %") ? strstr(text, "pid ") : NULL;
	unsigned long pid = at ? strtoul(at + 4, NULL, 10) : 0;
	uint64_t now = pid ? clock__mono_ns() : 0;
	struct repeat *r;

	*more = 0;
	if (!pid)
		return false;
	r = &repeats[((uintptr_t)fmt * 31 + pid) % REPEATS];
	if (r->fmt == fmt && r->pid == pid) {
		if (now < r->ns + LOG_REPEAT_NS) {
			r->more++;
			return true;
		}
		*more = r->more;
	}
	*r = (struct repeat){ .fmt = fmt, .pid = pid, .ns = now };
	return false;
}

static bool domain_enabled(const char *domain)
{
	const char *p = debug_domains;
	size_t len = strlen(domain);

	while (p && *p) {
		size_t n = strcspn(p, ",");

		if ((n == len && !memcmp(p, domain, n)) || (n == 3 && !memcmp(p, "all", 3)))
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

void log__print(enum log_level level, const char *domain, const char *fmt, ...)
{
	static const char *const prefix[] = { "ptbpf: ", "ptbpf: warning: ", "ptbpf: hint: ",
					      "ptbpf: ", "ptbpf: debug: " };
	static bool repeated; /* and the hint for it is left out, too */
	char text[2048], line[2048], times[96] = "";
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
		repeated = is_repeated(fmt, text, &more);
		if (repeated)
			return;
	}
	if (more)
		snprintf(times, sizeof(times),
			 " (since the last such line about this process %u were left out)", more);
	term_text__copy(line, sizeof(line), text); /* names and paths in it are others' */
	/* one write per message, so that messages of several processes do not mix */
	if (level == LOG_DEBUG)
		fprintf(stderr, "%s%s: %s\n", prefix[level], domain, line);
	else
		fprintf(stderr, "%s%s%s\n", prefix[level], line, times);
}

const char *errstr(int err)
{
	const char *s = strerrordesc_np(err < 0 ? -err : err);

	return s ? s : "unknown error";
}
