/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Logs libbpf's messages in the domain "libbpf". Its warnings are expected while features are tried
 * and links are bisected, so all are debug messages.
 */
#define LOG_DOMAIN "libbpf"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "probe/probe_impl.h"

__attribute__((format(printf, 2, 0))) static int print_libbpf(enum libbpf_print_level level,
							      const char *fmt, va_list ap)
{
	char *text, *line, *save;

	if (vasprintf(&text, fmt, ap) < 0)
		return 0;
	line = strtok_r(text, "\n", &save);
	(void)level;
	for (; line; line = strtok_r(NULL, "\n", &save))
		pr_debug("%s", line);
	free(text);
	return 0;
}

void bpf_log__init(void)
{
	libbpf_set_print(print_libbpf);
}
