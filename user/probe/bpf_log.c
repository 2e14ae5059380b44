/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Messages of libbpf into our log, domain "libbpf". Its warnings are expected while features are
 * tried and links bisected, so they are debug messages unless the caller says that a failure is
 * news.
 */
#define LOG_DOMAIN "libbpf"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "probe/probe_impl.h"

static bool loud;

__attribute__((format(printf, 2, 0))) static int print_libbpf(enum libbpf_print_level level,
							      const char *fmt, va_list ap)
{
	char *text, *line, *save;

	if (vasprintf(&text, fmt, ap) < 0)
		return 0;
	line = strtok_r(text, "\n", &save);
	if (line && level == LIBBPF_WARN && loud)
		pr_warn("%s", line); /* a verifier's log is for --log=libbpf */
	for (; line; line = strtok_r(NULL, "\n", &save))
		pr_debug("%s", line);
	free(text);
	return 0;
}

void bpf_log__init(void)
{
	libbpf_set_print(print_libbpf);
}

void bpf_log__set_loud(bool on)
{
	loud = on;
}
