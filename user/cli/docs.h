/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Man pages and shell completions, written from the same rows as --help; the build runs it once for each. */
#ifndef CLI_DOCS_H
#define CLI_DOCS_H

#include <stdio.h>

/* "man" (ptbpf.1), "man-attach" (ptbpf-attach.1) and so on for each command, "bash", "zsh", "fish".
 * -EINVAL, with a sentence, for anything else. */
int docs__print(const char *what, FILE *out);

#endif /* CLI_DOCS_H */
