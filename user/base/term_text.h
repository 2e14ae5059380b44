/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Texts of others (targets, their files, captures, command lines) on a terminal: each character that could steer
 * it, hide, or turn the order of its neighbours becomes one '?', and so does each byte that is no UTF-8. What is
 * printed has as many characters as term_text__width() says. Line ends are escaped, too: a name has one line.
 */
#ifndef BASE_TERM_TEXT_H
#define BASE_TERM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The UTF-8 sequence at p, before end: its length (1..4) and its character; 0 where none starts. */
size_t utf8__decode(const char *p, const char *end, uint32_t *c);

/* No control character (C0, DEL, C1), no control of direction, nothing that has no width or ends a line. */
bool term_char__plain(uint32_t c);

/* Characters that the text takes when printed. */
size_t term_text__width(const char *text);
/* The first `chars` characters of the text to out; returns how many there were. */
size_t term_text__put(FILE *out, const char *text, size_t chars);
/* The escaped text into buf, NUL-terminated, cut between characters where it is too long. Returns buf. */
char *term_text__copy(char *buf, size_t cap, const char *text);

#endif /* BASE_TERM_TEXT_H */
