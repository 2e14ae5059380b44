/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a window says for --metrics, as a key "metrics" of its last line: written by its own
 * process, read by ptbpf sample. */
#ifndef SAMPLE_METRICS_JSON_H
#define SAMPLE_METRICS_JSON_H

#include <cjson/cJSON.h>

#include "base/jsonw.h"
#include "sample/metrics.h"

/* The key, with w->ops_all. */
void metrics_json__put(struct jsonw *j, const struct metrics_window *w);
/* From a line that has it. known: what it will be added to. */
void metrics_json__get(const cJSON *line, const struct metrics *known, struct metrics_window *w);

#endif /* SAMPLE_METRICS_JSON_H */
