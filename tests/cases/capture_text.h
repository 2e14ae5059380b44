/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef TESTS_CAPTURE_TEXT_H
#define TESTS_CAPTURE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_BYTES 65536

/* Ends the program. */
void fail(const char *what, const char *word);
/* *end: what is behind it. */
uint64_t number(const char *word, char **end);
/* Of a quoted text the bytes, in place; returns how many. */
size_t unquote(char *text);

/* args_text.c: writes the words of these values; returns how many bytes. */
size_t args_text(char *to, char *text);

#endif /* TESTS_CAPTURE_TEXT_H */
