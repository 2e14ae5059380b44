/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Levelled messages on stderr; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/term_text.h"

static const char *debug_domains;
static const char *error_context;
static bool quiet, has_error;

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
	char text[2048], line[2048];
	int len = 0;
	va_list ap;

	if (level == LOG_DEBUG && !domain_enabled(domain))
		return;
	if (level == LOG_INFO && quiet)
		return;
	has_error |= level == LOG_ERROR;
	if (level == LOG_ERROR && error_context)
		len = snprintf(text, sizeof(text), "%.1000s: ", error_context);
	va_start(ap, fmt);
	vsnprintf(text + len, sizeof(text) - (size_t)len, fmt, ap);
	va_end(ap);
	term_text__copy(line, sizeof(line), text); /* names and paths in it are others' */
	/* one write per message, so that messages of several processes do not mix */
	if (level == LOG_DEBUG)
		fprintf(stderr, "%s%s: %s\n", prefix[level], domain, line);
	else
		fprintf(stderr, "%s%s\n", prefix[level], line);
}

const char *errstr(int err)
{
	const char *s = strerrordesc_np(err < 0 ? -err : err);

	return s ? s : "unknown error";
}
