/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The terminal of ptbpf top. One for the process; it is as it was when the process ends. */
#ifndef CLI_TOP_TERM_H
#define CLI_TOP_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_BACK_TAB, KEY_ESC = 27 };

void top_term__open(void);
void top_term__close(void);
bool top_term__has_keys(void); /* standard input is a terminal, too */
void top_term__size(int *columns, int *lines);
/* Replaces what is shown, in one write. */
void top_term__show(const char *text, size_t len);
bool top_term__resized(void); /* since the last call */
/* SIGTSTP (Ctrl-Z) has come: the caller closes it, and opens it again after __stop(), which returns
 * when the process goes on. */
bool top_term__wants_stop(void);
void top_term__stop(void);
/* It has gone on after a SIGSTOP: others may have changed the terminal. */
bool top_term__continued(void);
/* Those that were pressed, at most max; a byte, or KEY_*. Returns how many. */
uint32_t top_term__keys(int *keys, uint32_t max);

#endif /* CLI_TOP_TERM_H */
