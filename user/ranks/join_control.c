/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The control records of the whole: one window, one clock, the records of each capture with the
 * ids, times and pids that they have in the whole, where each process comes from, and how the
 * captures were joined. Owns their order, which is that of a recording.
 */
#define LOG_DOMAIN "captures"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "ranks/ranks_priv.h"

#define TEXT_RECORD_MAX 60000

/* ---- our own records ---- */

static int put(struct join *j, struct ptb_rec_hdr *h, uint8_t kind, size_t len)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	return j->emit(j->emit_arg, h);
}

static int put_text(struct join *j, uint8_t kind, uint32_t id, const char *text, size_t len)
{
	struct ptb_text *t = (void *)j->buf;
	size_t whole = (sizeof(*t) + len + 7) & ~(size_t)7;

	if (len > TEXT_RECORD_MAX)
		return -E2BIG;
	memset(j->buf, 0, whole);
	t->id = id;
	t->text_len = (uint32_t)len;
	memcpy(t + 1, text, len);
	return put(j, &t->h, kind, whole);
}

static int put_meta(struct join *j, const char *key, const char *json)
{
	size_t key_len = strlen(key) + 1, json_len = strlen(json);
	char *both = xmalloc(key_len + json_len);
	int err;

	memcpy(both, key, key_len);
	memcpy(both + key_len, json, json_len);
	err = put_text(j, PTB_REC_META, 0, both, key_len + json_len);
	free(both);
	return err;
}

static int put_meta_json(struct join *j, const char *key,
			 void (*write)(struct jsonw *w, const void *arg), const void *arg)
{
	struct jsonw_text json = { .len = 0 };
	struct jsonw w;
	int err;

	jsonw__init(&w, jsonw__to_text, &json, 1024);
	write(&w, arg);
	err = jsonw__flush(&w);
	jsonw__free(&w);
	return err ? err : put_meta(j, key, json.text);
}

/* ---- metadata ---- */

static uint64_t widest_bound(const struct join *j)
{
	uint64_t widest = 0;

	for (uint32_t i = 0; i < j->machine_cnt; i++) {
		uint64_t b = join_clock__bound(&j->machines[i].clock);

		widest = b > widest ? b : widest;
	}
	return widest;
}

static void write_summary(struct jsonw *w, const void *arg)
{
	const struct join *j = arg;

	jsonw__begin_obj(w);
	JSONW_U64(w, "captures", j->cnt);
	JSONW_U64(w, "machines", j->machine_cnt);
	JSONW_STR(w, "align", j->by_collectives ? "collectives" : "clocks");
	JSONW_U64(w, "clock_error_ns", widest_bound(j));
	JSONW_U64(w, "processes_matched", j->matched);
	JSONW_U64(w, "processes_unmatched", j->unmatched);
	JSONW_U64(w, "collectives_matched", j->collectives);
	jsonw__end_obj(w);
}

struct input_arg {
	const struct join *j;
	const struct join_input *in;
};

static void write_input(struct jsonw *w, const void *arg)
{
	const struct join_input *in = ((const struct input_arg *)arg)->in;
	const struct join_machine *mc = &((const struct input_arg *)arg)->j->machines[in->machine];

	jsonw__begin_obj(w);
	/* where it was read is nobody's business */
	JSONW_STR(w, "file", path__base(in->path));
	JSONW_STR(w, "host", in->host);
	JSONW_U64(w, "machine", in->machine);
	JSONW_U64(w, "pid_shift", in->map.pid_shift);
	JSONW_I64(w, "begin_unix_ns", (int64_t)in->begin_ns + in->map.shift_ns);
	JSONW_U64(w, "duration_ns", in->end_ns - in->begin_ns);
	JSONW_BOOL(w, "sealed", in->sealed);
	JSONW_U64(w, "clock_pairs", mc->clock.pairs);
	JSONW_U64(w, "clock_error_ns", join_clock__bound(&mc->clock));
	if (mc->bounds) {
		JSONW_U64(w, "collectives", mc->bounds);
		if (mc->lo_ns != INT64_MIN)
			JSONW_I64(w, "collectives_least_ns", mc->lo_ns);
		if (mc->hi_ns != INT64_MAX)
			JSONW_I64(w, "collectives_most_ns", mc->hi_ns);
		JSONW_BOOL(w, "contradicts_clock", mc->contradicts);
	}
	JSONW_I64(w, "correction_ns", mc->correction_ns);
	jsonw__end_obj(w);
}

static void write_hosts(struct jsonw *w, const void *arg)
{
	const struct join *j = arg;
	char text[JOIN_TEXT_MAX] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < j->cnt; i++) {
		const char *host = j->inputs[i].host;
		uint32_t k = 0;

		while (k < i && strcmp(j->inputs[k].host, host) != 0)
			k++;
		if (k == i && *host && len + strlen(host) + 3 < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						len ? ", " : "", host);
	}
	jsonw__str(w, text);
}

/* Lists of processes, with the numbers that they have now. */
static void add_list(const struct join_input *in, cJSON *list, const char *json)
{
	cJSON *tree = cJSON_ParseWithOpts(json, NULL, 1), *item;

	while (cJSON_IsArray(tree) && (item = cJSON_DetachItemFromArray(tree, 0))) {
		cJSON *pid = cJSON_GetObjectItemCaseSensitive(item, "pid");

		if (cJSON_IsNumber(pid) && pid->valuedouble >= 1 && pid->valuedouble < REMAP_PIDS)
			cJSON_SetNumberValue(pid, remap__pid(&in->map, (uint32_t)pid->valuedouble));
		if (!cJSON_AddItemToArray(list, item))
			cJSON_Delete(item);
	}
	cJSON_Delete(tree);
}

/* As much of a list as one record holds. */
static int put_list(struct join *j, const char *key, cJSON *list)
{
	char *text;
	int err;

	if (!cJSON_GetArraySize(list))
		return 0;
	while (strlen(text = cJSON_PrintUnformatted(list)) > TEXT_RECORD_MAX - 64) {
		int n = cJSON_GetArraySize(list);

		free(text);
		pr_warn("what is known of %d %s of processes is left out: too many", n - n / 2,
			key);
		while (cJSON_GetArraySize(list) > n / 2)
			cJSON_DeleteItemFromArray(list, n / 2);
	}
	err = put_meta(j, key, text);
	free(text);
	return err;
}

static int put_own_meta(struct join *j)
{
	int err = put_meta(j, "version", "\"" PTBPF_VERSION "\"");
	char key[32];

	if (!err)
		err = put_meta_json(j, "host", write_hosts, j);
	if (!err)
		err = put_meta_json(j, "merged", write_summary, j);
	for (uint32_t i = 0; i < j->cnt && !err; i++) {
		const struct input_arg arg = { j, &j->inputs[i] };

		snprintf(key, sizeof(key), "merged.%u", i);
		err = put_meta_json(j, key, write_input, &arg);
	}
	return err;
}

/* ---- control records ---- */

struct copy {
	struct join *j;
	struct join_input *in;
	cJSON *agents, *pythons;
};

static bool is_key(const char *key, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(key, *list))
			return true;
	return false;
}

/* Options are those of the first capture: they are the same, or concern reports. */
static int copy_meta(struct copy *c, const struct ptb_text *t)
{
	static const char *const own[] = { "version", "host",     "boot_id", "pid_namespace",
					   "pid",     "cpu_idle", NULL };
	static const char *const any[] = { "gpu", "cuda_calls", NULL };
	const char *key = (const char *)(t + 1), *nul = memchr(key, '\0', t->text_len);
	char *json;
	int err = 0;

	if (!nul || is_key(key, own) || !strncmp(key, "merged", 6))
		return 0;
	json = xstrndup(nul + 1, t->text_len - (size_t)(nul + 1 - key));
	if (!strcmp(key, "agent"))
		add_list(c->in, c->agents, json);
	else if (!strcmp(key, "python"))
		add_list(c->in, c->pythons, json);
	else if (c->in == c->j->inputs || is_key(key, any))
		err = put_text(c->j, PTB_REC_META, 0, key, t->text_len);
	free(json);
	return err;
}

static int copy_control(void *arg, const struct ptb_rec_hdr *rec)
{
	struct copy *c = arg;
	struct ptb_rec_hdr *h = (void *)c->j->buf;
	uint64_t begin;

	if (rec->kind == PTB_REC_META)
		return copy_meta(c, (const void *)rec);
	if (rec->kind == PTB_REC_WINDOW || rec->kind == PTB_REC_CLOCK ||
	    rec->kind == PTB_REC_ORIGIN || (rec->kind == PTB_REC_COUNTER && !rec->tgid) ||
	    !remap__record(&c->in->map, rec, c->j->buf))
		return 0;
	begin = remap__time(&c->in->map, c->in->begin_ns);
	if (h->kind == PTB_REC_PROCESS && h->ts_ns < begin)
		h->ts_ns = begin; /* it is watched from there on */
	return c->j->emit(c->j->emit_arg, h);
}

static int put_origins(struct join *j, uint32_t i)
{
	struct join_input *in = &j->inputs[i];
	int err;

	if (!in->host_name)
		in->host_name = ++j->space.last[REMAP_NAME];
	err = put_text(j, PTB_REC_NAME, in->host_name, in->host, strlen(in->host));
	for (uint32_t k = 0; k < in->proc_cnt && !err; k++) {
		struct ptb_origin o = { .h.ts_ns = remap__time(&in->map, in->begin_ns),
					.h.tgid = remap__pid(&in->map, in->procs[k].tgid),
					.input = i,
					.pid = in->procs[k].tgid,
					.host = in->host_name,
					.begin_ns = remap__time(&in->map, in->begin_ns),
					.end_ns = remap__time(&in->map, in->end_ns) };

		if (o.h.tgid)
			err = put(j, &o.h, PTB_REC_ORIGIN, sizeof(o));
	}
	return err;
}

static int put_window(struct join *j, bool begin)
{
	struct ptb_window w = { .begin = begin, .reason = j->inputs[0].stop_reason };

	for (uint32_t i = 0; i < j->cnt; i++) {
		struct join_input *in = &j->inputs[i];
		uint64_t t = remap__time(&in->map, begin ? in->begin_ns : in->end_ns);

		if (!i || (begin ? t < w.h.ts_ns : t > w.h.ts_ns))
			w.h.ts_ns = t;
		if (in->stop_reason == PTB_STOP_NO_STEP)
			w.reason = PTB_STOP_NO_STEP;
	}
	if (begin)
		w.reason = 0;
	if (!w.h.ts_ns) {
		pr_error("the windows of the captures have times that are none");
		return -EINVAL;
	}
	return put(j, &w.h, PTB_REC_WINDOW, sizeof(w));
}

static int put_clock(struct join *j)
{
	uint64_t t = remap__time(&j->inputs[0].map, j->inputs[0].begin_ns);
	struct ptb_clock c = { .h.ts_ns = t, .real_ns = t, .err_ns = widest_bound(j) };

	return put(j, &c.h, PTB_REC_CLOCK, sizeof(c));
}

static int put_controls(struct join *j)
{
	struct copy c = { .j = j, .agents = cJSON_CreateArray(), .pythons = cJSON_CreateArray() };
	int err = put_window(j, true);

	if (!err)
		err = put_clock(j);
	for (uint32_t i = 0; i < j->cnt && !err; i++) {
		c.in = &j->inputs[i];
		err = capture_reader__control(c.in->cr, copy_control, &c);
		j->bad_records += capture_reader__bad_records(c.in->cr);
		if (!err)
			err = put_origins(j, i);
	}
	if (!err)
		err = put_list(j, "agent", c.agents);
	if (!err)
		err = put_list(j, "python", c.pythons);
	cJSON_Delete(c.agents);
	cJSON_Delete(c.pythons);
	return err ? err : put_own_meta(j);
}

/* ---- counters ---- */

/* What is spent at the same time on each machine, or is no sum. */
static bool is_maximum(uint32_t id)
{
	return id == PTB_CNT_ATTACH_NS || id == PTB_CNT_DETACH_NS || id == PTB_CNT_PLAN_NS ||
	       id == PTB_CNT_COLLECTOR_RSS || id == PTB_CNT_UNWRITTEN_NS;
}

static uint64_t combined(const struct join *j, uint32_t id)
{
	uint64_t sum = 0, hits = 0;
	double cost = 0;

	for (uint32_t i = 0; i < j->cnt; i++) {
		const uint64_t *v = j->inputs[i].counters;

		sum = is_maximum(id) ? (v[id] > sum ? v[id] : sum) : sum + v[id];
		hits += v[PTB_CNT_HITS];
		cost += (double)v[PTB_CNT_HITS] * (double)v[PTB_CNT_COST_PS];
	}
	if (id == PTB_CNT_COST_PS) /* so that hits times this is what all of them cost */
		return hits && cost < 1e18 ? (uint64_t)(cost / (double)hits) :
					     j->inputs[0].counters[id];
	return sum;
}

static int put_counters(struct join *j)
{
	int err = 0;

	for (uint32_t id = 0; id < sizeof(j->inputs[0].counters) / sizeof(uint64_t) && !err; id++) {
		struct ptb_counter c = { .h.ts_ns = 1, .id = id, .value = combined(j, id) };
		bool any = false;

		for (uint32_t i = 0; i < j->cnt; i++)
			any |= j->inputs[i].has_counter[id];
		if (any)
			err = put(j, &c.h, PTB_REC_COUNTER, sizeof(c));
	}
	return err;
}

int join__control(void *arg, rec_fn fn, void *fn_arg, uint64_t *bad_records)
{
	struct join *j = arg;
	int err;

	j->emit = fn;
	j->emit_arg = fn_arg;
	j->bad_records = 0;
	for (uint32_t i = 0; i < j->cnt; i++)
		j->inputs[i].map.left_out = 0;
	err = put_controls(j);
	if (!err)
		err = put_counters(j);
	if (!err)
		err = put_window(j, false);
	for (uint32_t i = 0; i < j->cnt; i++)
		j->bad_records += j->inputs[i].map.left_out;
	*bad_records = j->bad_records;
	return err;
}
