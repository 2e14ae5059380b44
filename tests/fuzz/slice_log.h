/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects what a session reports, and checks what must hold for every session. */
#ifndef TESTS_SLICE_LOG_H
#define TESTS_SLICE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "model/session.h"

struct slice_log {
	struct slice *slices; /* as reported, without their values; names belong to the session */
	uint32_t cnt, cap;
	struct fwdbwd *flows;
	uint32_t flow_cnt, flow_cap;
	struct session_totals totals;
};

/* Runs the session; aborts on an error, and on a slice whose values, schema or number make no
 * sense. */
struct slice_log *slice_log__run(struct session *s);
void slice_log__free(struct slice_log *log);

/*
 * What holds for every session: ids are unique; end > begin; slices of a thread nest strictly (no
 * common times, hence 2 ns of self time); a parent is reported, is on the same thread and encloses; flows
 * have both slices. Returns false and prints the first violation.
 */
bool slice_log__valid(const struct slice_log *log);

#endif /* TESTS_SLICE_LOG_H */
