/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes a pickle of Python (protocol 2) from its outermost value to its innermost, with the
 * opcodes that both pickle.load() and the reader in torch's MemoryViz.js know. Equal texts, and
 * values that are remembered, are in it once.
 */
#ifndef EXPORT_PICKLE_H
#define EXPORT_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/containers.h"

struct pickle {
	FILE *f;
	struct strtab *texts;
	struct hashmap memo; /* kind, number -> place in the reader's memo */
	uint32_t memo_cnt;
};

struct pickle_list {
	uint32_t cnt;
};

void pickle__init(struct pickle *p); /* f is the user's to set before the first value */
void pickle__free(struct pickle *p);
void pickle__begin(struct pickle *p);
void pickle__end(struct pickle *p);

void pickle__int(struct pickle *p, int64_t v);
void pickle__u64(struct pickle *p, uint64_t v);
void pickle__bool(struct pickle *p, bool v);
/* A text of the capture: what is no plain UTF-8 is '?'. */
void pickle__text(struct pickle *p, const char *text);
/* The same of a literal, known by its address. */
void pickle__literal(struct pickle *p, const char *text);
uint32_t pickle__text_id(struct pickle *p, const char *text); /* 0: the empty one */
const char *pickle__known_text(const struct pickle *p, uint32_t id);
void pickle__pair(struct pickle *p); /* the tuple of the last two values */

/* A dict has keys, which are literals, each with its value behind it. */
void pickle__begin_dict(struct pickle *p);
void pickle__end_dict(struct pickle *p);

struct pickle_list pickle__begin_list(struct pickle *p);
void pickle__item(struct pickle *p, struct pickle_list *l); /* it follows */
void pickle__end_list(struct pickle *p, const struct pickle_list *l);

/* The last value, of a kind from 2 on, to be recalled in its place. */
void pickle__remember(struct pickle *p, uint32_t kind, uint32_t number);
/* false: there is none, the caller writes it */
bool pickle__recall(struct pickle *p, uint32_t kind, uint32_t number);

#endif /* EXPORT_PICKLE_H */
