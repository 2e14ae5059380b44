/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* String interning: equal texts get one id, from 1; 0 means none. Texts live until free. */
#ifndef BASE_STRTAB_H
#define BASE_STRTAB_H

#include <stddef.h>
#include <stdint.h>

struct strtab;

struct strtab *strtab__new(void);
void strtab__free(struct strtab *st);
/* Id of the text (len bytes, may hold any byte but is kept NUL-terminated). */
uint32_t strtab__add(struct strtab *st, const char *text, size_t len);
/* The same of what others make grow; 0: the limit on memory (mem_limit.h) does not allow it. */
uint32_t strtab__try_add(struct strtab *st, const char *text, size_t len);
/* Id of a text that was added; 0: it was not. */
uint32_t strtab__find(const struct strtab *st, const char *text, size_t len);
const char *strtab__text(const struct strtab *st, uint32_t id); /* "" for 0 and unknown ids */
uint32_t strtab__cnt(const struct strtab *st);                  /* ids 1..cnt are valid */

#endif /* BASE_STRTAB_H */
