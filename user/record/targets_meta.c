/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the capture says of each target's source of operators and GPU activity; see targets.h. */

#include "base/jsonw.h"
#include "record/recorder_agent.h"
#include "record/targets.h"

static void agent_json(struct jsonw *w, const struct target *t)
{
	const struct target_agent *ta = t->agent;

	jsonw__begin_obj(w);
	JSONW_I64(w, "pid", t->pid);
	JSONW_STR(w, "source", ta && ta->ops ? "agent" : "probes");
	JSONW_STR(w, "why", t->agent_why);
	JSONW_BOOL(w, "gpu", ta && ta->gpu);
	JSONW_BOOL(w, "host_calls", t->cuda.called);
	JSONW_STR(w, "gpu_why", ta ? agent__why_text(ta->gpu_why) : "");
	JSONW_BOOL(w, "injected", ta && ta->injected);
	JSONW_U64(w, "cupti_version", ta ? ta->cupti_version : 0);
	jsonw__end_obj(w);
}

uint64_t targets__gpu_refused(const struct targets *ts)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < ts->cnt; i++)
		n += ts->items[i].agent && target_agent__gpu_refused(ts->items[i].agent);
	return n;
}

void targets__agents_meta(const struct targets *ts, struct recorder *rec)
{
	struct jsonw_text json = { .len = 0 };
	struct jsonw w;
	uint32_t i, n = 0;

	if (jsonw__init(&w, jsonw__to_text, &json, 1024))
		return;
	jsonw__begin_arr(&w);
	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent || ts->items[i].agent_why[0]) {
			agent_json(&w, &ts->items[i]);
			n++;
		}
	jsonw__end_arr(&w);
	if (!jsonw__flush(&w) && n)
		recorder__meta(rec, "agent", json.text);
	jsonw__free(&w);
}
