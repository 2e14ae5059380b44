/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions for shells; private to docs.c. */
#ifndef CLI_DOCS_SHELL_H
#define CLI_DOCS_SHELL_H

#include <stdio.h>

int docs__shell(const char *shell, FILE *out); /* "bash", "zsh", "fish"; else -EINVAL */

#endif /* CLI_DOCS_SHELL_H */
