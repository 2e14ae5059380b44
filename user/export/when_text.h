/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What --when made of a window: the annotations to which it is limited, and how many of them there were. */
#ifndef EXPORT_WHEN_TEXT_H
#define EXPORT_WHEN_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/jsonw.h"
#include "model/session.h"

#define WHEN_TEXT_MAX 320

struct when_counts {
	bool on;                    /* the window is limited; else the rest is 0 */
	uint64_t recorded, skipped; /* annotations; skipped: by --every */
};

struct when_counts when_text__counts(const struct session *s);
/* A key "when" with an object, or nothing. */
void when_text__write(struct jsonw *w, const struct session *s);
/* For the summary line, "" where the window is not limited. It has a name of the target's: not to be printed as it is. */
void when_text__sentence(const struct session *s, char *buf, size_t cap);
/* "3 annotations, 6 skipped by --every"; "" where the window is not limited. */
void when_text__numbers(const struct when_counts *c, char *buf, size_t cap);

#endif /* EXPORT_WHEN_TEXT_H */
