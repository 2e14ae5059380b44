/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every document says about the session besides its events: who was traced, when, with how many
 * probes, what was refused, what was lost, what it cost. Each function writes keys into the open
 * object.
 */
#ifndef EXPORT_SESSION_JSON_H
#define EXPORT_SESSION_JSON_H

#include "base/jsonw.h"
#include "model/session.h"

#define FACTS_REFUSALS_MAX 100 /* refusals listed by name; the rest is a count */

/* Keys known before the first slice: version, targets, window, probes, refused, loss, cost, capture. */
void session_json__write(struct jsonw *w, const struct session *s);
/* Keys known after the run: totals, complete, account. */
void session_json__write_totals(struct jsonw *w, const struct session_info *info,
				const struct session_totals *totals);

/* Of an enum ptb_stop_reason. */
const char *session_json__stop_text(uint32_t reason);

/* The text of a META record that is a JSON string; "" if there is none. */
void session_json__meta_text(const struct session *s, const char *key, char *buf, size_t cap);

#endif /* EXPORT_SESSION_JSON_H */
