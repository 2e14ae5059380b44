/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the capture says of each target's source of operators and GPU activity; see targets.h. */
#include <errno.h>
#include <string.h>

#include "base/jsonw.h"
#include "record/recorder_agent.h"
#include "record/targets.h"

struct json_text {
	char text[8192];
	size_t len;
};

static int append_json(void *arg, const void *data, size_t len)
{
	struct json_text *j = arg;

	if (len >= sizeof(j->text) - j->len)
		return -E2BIG;
	memcpy(j->text + j->len, data, len);
	j->len += len;
	j->text[j->len] = '\0';
	return 0;
}

static void agent_json(struct jsonw *w, const struct target *t)
{
	const struct target_agent *ta = t->agent;

	jsonw__begin_obj(w);
	JSONW_KEY(w, "pid");
	jsonw__i64(w, t->pid);
	JSONW_KEY(w, "source");
	jsonw__str(w, ta && ta->ops ? "agent" : "probes");
	JSONW_KEY(w, "why");
	jsonw__str(w, t->agent_why);
	JSONW_KEY(w, "gpu");
	jsonw__bool(w, ta && ta->gpu);
	JSONW_KEY(w, "host_calls");
	jsonw__bool(w, t->cuda.called);
	JSONW_KEY(w, "gpu_why");
	jsonw__str(w, ta ? agent__why_text(ta->gpu_why) : "");
	JSONW_KEY(w, "injected");
	jsonw__bool(w, ta && ta->injected);
	JSONW_KEY(w, "cupti_version");
	jsonw__u64(w, ta ? ta->cupti_version : 0);
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
	struct json_text j = { .len = 0 };
	struct jsonw w;
	uint32_t i, n = 0;

	if (jsonw__init(&w, append_json, &j, 1024))
		return;
	jsonw__begin_arr(&w);
	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent || ts->items[i].agent_why[0]) {
			agent_json(&w, &ts->items[i]);
			n++;
		}
	jsonw__end_arr(&w);
	if (!jsonw__flush(&w) && n)
		recorder__meta(rec, "agent", j.text);
	jsonw__free(&w);
}
