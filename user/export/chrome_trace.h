/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The Chrome trace, as Kineto writes it: a pure function of the session model. */
#ifndef EXPORT_CHROME_TRACE_H
#define EXPORT_CHROME_TRACE_H

#include "model/session.h"

struct chrome_opts {
	const char *trace_name; /* final path, for "traceName" */
	const char *host_name;
	uint32_t tgid; /* of this process alone, 0: of all */
};

/*
 * Writes `path` (export/out_file.h); gzip if it ends in ".gz". A sink during
 * session__run(), then finish. 0 or negative errno, logged with the path.
 */
struct chrome_trace;
int chrome_trace__open(const char *path, const struct session *s, const struct chrome_opts *opts,
		       struct chrome_trace **out);
struct session_sink chrome_trace__sink(struct chrome_trace *ct);
/* Writes thread names, span, window end, the loss account; closes and renames. Counts in totals what it left out. */
int chrome_trace__finish(struct chrome_trace *ct, struct session_totals *totals);
/* Drops what was not finished; NULL is fine. */
void chrome_trace__free(struct chrome_trace *ct);

#endif /* EXPORT_CHROME_TRACE_H */
