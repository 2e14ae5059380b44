/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last sampled Python stack of each thread, and where it stood in C++ if that was recorded, as text for people: where a job hangs. */
#ifndef EXPORT_THREAD_DUMP_H
#define EXPORT_THREAD_DUMP_H

#include "model/session.h"

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. */
struct thread_dump;
int thread_dump__open(const char *path, const struct session *s, struct thread_dump **out);
struct session_sink thread_dump__sink(struct thread_dump *td);
int thread_dump__finish(struct thread_dump *td, struct session_totals *totals);
void thread_dump__free(struct thread_dump *td);

#endif /* EXPORT_THREAD_DUMP_H */
