/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects what a session reports, for tests to read, and checks what must hold for every session. */
#ifndef TESTS_SLICE_LOG_H
#define TESTS_SLICE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "capture_builder.h"
#include "model/session.h"

struct slice_log {
	struct slice *slices; /* as reported; names belong to the session, values are copies */
	uint32_t cnt, cap;
	struct fwdbwd *flows;
	uint32_t flow_cnt, flow_cap;
	uint32_t threads;
	struct session_totals totals;
};

/* Runs the session and checks the log; aborts on an error. */
struct slice_log *slice_log__run(struct session *s);
/* The same of a builder's capture; the log is slice_log__valid(), or the test fails. */
struct slice_log *slice_log__of(struct builder *b, const struct session_opts *opts);
void slice_log__free(struct slice_log *log);
void slice_log__done(struct slice_log *log, struct builder *b); /* frees both */
/* The nth (from 0) slice of that name by begin; NULL if there are fewer. */
const struct slice *slice_log__nth(const struct slice_log *log, const char *name, uint32_t n);
const struct slice *slice_log__get(const struct slice_log *log, const char *name); /* nth 0 */
/* The same; the test ends if there are fewer. */
const struct slice *slice_log__must(const struct slice_log *log, const char *name, uint32_t n);
uint32_t slice_log__count(const struct slice_log *log, const char *name);

/*
 * What holds for every session: ids are unique; end > begin; slices of a thread nest strictly (no
 * common times, hence 2 ns of self time); a parent is reported, is on the same thread and encloses; flows
 * have both slices; values are whole. Returns false and prints the first violation.
 */
bool slice_log__valid(const struct slice_log *log);

#endif /* TESTS_SLICE_LOG_H */
