/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A page with the tree of calls of one session, or of two and their difference: a pure function of the session model. */
#ifndef EXPORT_FLAMEGRAPH_H
#define EXPORT_FLAMEGRAPH_H

#include "model/session.h"

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. */
struct flamegraph;
int flamegraph__open(const char *path, struct flamegraph **out);
/* The next session (of two), before its run, with the name of its capture. 0 or -ENOMEM. */
int flamegraph__begin(struct flamegraph *fg, const struct session *s, const char *name);
struct session_sink flamegraph__sink(struct flamegraph *fg);
/* After each run, what it lacks. */
void flamegraph__end(struct flamegraph *fg, const struct session_totals *totals);
int flamegraph__finish(struct flamegraph *fg);
void flamegraph__free(struct flamegraph *fg);

#endif /* EXPORT_FLAMEGRAPH_H */
