/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A configuration file: lines NAME=VALUE with the long options of a command, yes or no for one that takes no value, each
 * at most once. Blank lines and those that begin with # are skipped.
 */
#ifndef CLI_CONF_H
#define CLI_CONF_H

#include "cli/opts.h"

struct conf;

/*
 * Reads the options into cfg, whose texts are those of *out. Refuses what users other than root, the effective one and
 * sudo's caller may have written, since a command in it runs with ptbpf's rights. 0 or negative errno (reported, with
 * file and line).
 */
int conf__read(const char *path, const struct cmd_usage *usage, void *cfg, struct conf **out);
/* For log__set_context(), valid until the next call: "FILE:LINE" of a value that was read; NULL: it was not. */
const char *conf__where(struct conf *conf, const char *value);
void conf__free(struct conf *conf); /* NULL is fine */

#endif /* CLI_CONF_H */
