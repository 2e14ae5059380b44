/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pieces of the Chrome trace writer; private to chrome_*.c. Layout: kineto output_json.cpp. */
#ifndef EXPORT_CHROME_PRIV_H
#define EXPORT_CHROME_PRIV_H

#include "base/jsonw.h"
#include "export/exporter.h"

/* CLOCK_MONOTONIC to the trace's time: ns since baseTimeNanoseconds. */
struct chrome_clock {
	uint64_t base_unix_ns;
	int64_t mono_to_unix_ns;
};

struct chrome_clock chrome_clock__init(const struct session_info *info);
uint64_t chrome_clock__rel(const struct chrome_clock *c, uint64_t mono_ns); /* negative: 0 */

/* chrome_meta.c: everything from the opening brace to the opening bracket of traceEvents, and after it. */
void chrome_meta__head(struct jsonw *w, const struct session *s, const struct chrome_opts *opts,
		       const struct chrome_clock *clock);
void chrome_meta__tail(struct jsonw *w, const struct session_info *info,
		       const struct session_totals *totals, const char *trace_name);

/* chrome_args.c: torch's keys for a slice's inputs; tells what of them is missing. */
struct chrome_args_opts {
	bool no_concrete; /* torch's record_concrete_inputs off */
};
#define CHROME_ARGS_UNKNOWN 0x1 /* a value is not known, and stands there as one that torch would not show */
#define CHROME_ARGS_CUT 0x2     /* inputs, elements or dimensions that torch would show are left out */
uint32_t chrome_args__write(struct jsonw *w, const struct slice *sl, const struct chrome_args_opts *opts);

/* chrome_events.c: one event each, on its own line; times are already relative. */
void chrome_event__slice(struct jsonw *w, const struct slice *sl, const struct chrome_args_opts *opts,
			 uint64_t begin, uint64_t end);
void chrome_event__flow(struct jsonw *w, char ph, uint64_t id, uint32_t pid, uint32_t tid, uint64_t ts);
void chrome_event__process(struct jsonw *w, const struct session_process *p, uint64_t ts);
void chrome_event__thread(struct jsonw *w, uint32_t pid, uint32_t tid, const char *comm, uint64_t ts);
void chrome_event__lost(struct jsonw *w, uint32_t pid, const struct session_lost *lost, uint64_t begin,
			uint64_t end);
void chrome_event__span(struct jsonw *w, uint64_t begin, uint64_t end);

#endif /* EXPORT_CHROME_PRIV_H */
