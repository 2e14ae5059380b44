/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The Execution Trace (schema 1.1.1-chakra.0.0.4): a pure function of the session model. */
#ifndef EXPORT_EXEC_TRACE_H
#define EXPORT_EXEC_TRACE_H

#include <stdint.h>

#include "model/session.h"

/* As the Chrome trace: a sink, then finish. tgid: the process, of which a file has one; 0: the first. */
struct exec_trace;
int exec_trace__open(const char *path, const struct session *s, uint32_t tgid, struct exec_trace **out);
struct session_sink exec_trace__sink(struct exec_trace *et);
int exec_trace__finish(struct exec_trace *et, struct session_totals *totals);
void exec_trace__free(struct exec_trace *et);

#endif /* EXPORT_EXEC_TRACE_H */
