/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes the merged capture: the control records of each, then the records of their rings, round by round, always of the capture
 * that is furthest behind, so that a reader has to hold no more than of one that was recorded so. Owns the order of the file.
 */
#define LOG_DOMAIN "merge"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/effort.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "ranks/merge_priv.h"

/* Of each capture: rings are there so that records of one time stay in order, which needs no more than these. */
#define RINGS 16
#define TEXT_RECORD_MAX 60000

/* ---- our own records ---- */

static int put(struct merge *m, struct ptb_rec_hdr *h, uint8_t kind, size_t len)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	return capture_writer__control(m->cw, h);
}

static int put_text(struct merge *m, uint8_t kind, uint32_t id, const char *text, size_t len)
{
	struct ptb_text *t = (void *)m->buf;
	size_t whole = (sizeof(*t) + len + 7) & ~(size_t)7;

	if (len > TEXT_RECORD_MAX)
		return -E2BIG;
	memset(m->buf, 0, whole);
	t->id = id;
	t->text_len = (uint32_t)len;
	memcpy(t + 1, text, len);
	return put(m, &t->h, kind, whole);
}

static int put_meta(struct merge *m, const char *key, const char *json)
{
	size_t k = strlen(key) + 1, j = strlen(json);
	char *both = malloc(k + j);
	int err = -ENOMEM;

	if (!both)
		return err;
	memcpy(both, key, k);
	memcpy(both + k, json, j);
	err = put_text(m, PTB_REC_META, 0, both, k + j);
	free(both);
	return err;
}

static int put_meta_json(struct merge *m, const char *key,
			 void (*write)(struct jsonw *w, const void *arg), const void *arg)
{
	struct jsonw_text json = { .len = 0 };
	struct jsonw w;
	int err = jsonw__init(&w, jsonw__to_text, &json, 1024);

	if (err)
		return err;
	write(&w, arg);
	err = jsonw__flush(&w);
	jsonw__free(&w);
	return err ? err : put_meta(m, key, json.text);
}

/* ---- metadata ---- */

static uint64_t widest_bound(const struct merge *m)
{
	uint64_t widest = 0;

	for (uint32_t i = 0; i < m->machine_cnt; i++) {
		uint64_t b = merge_clock__bound(&m->machines[i].clock);

		widest = b > widest ? b : widest;
	}
	return widest;
}

static void write_summary(struct jsonw *w, const void *arg)
{
	const struct merge *m = arg;

	jsonw__begin_obj(w);
	JSONW_U64(w, "captures", m->cnt);
	JSONW_U64(w, "machines", m->machine_cnt);
	JSONW_STR(w, "align", m->opts->by_collectives ? "collectives" : "clocks");
	JSONW_U64(w, "clock_error_ns", widest_bound(m));
	JSONW_U64(w, "processes_matched", m->matched);
	JSONW_U64(w, "processes_unmatched", m->unmatched);
	JSONW_U64(w, "collectives_matched", m->collectives);
	jsonw__end_obj(w);
}

struct input_arg {
	const struct merge *m;
	const struct merge_input *in;
};

/* The last part of a path: where it was read is nobody's business. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void write_input(struct jsonw *w, const void *arg)
{
	const struct merge_input *in = ((const struct input_arg *)arg)->in;
	const struct merge_machine *mc = &((const struct input_arg *)arg)->m->machines[in->machine];

	jsonw__begin_obj(w);
	JSONW_STR(w, "file", base_name(in->path));
	JSONW_STR(w, "host", in->host);
	JSONW_U64(w, "machine", in->machine);
	JSONW_U64(w, "pid_shift", in->map.pid_shift);
	JSONW_I64(w, "begin_unix_ns", (int64_t)in->begin_ns + in->map.shift_ns);
	JSONW_U64(w, "duration_ns", in->end_ns - in->begin_ns);
	JSONW_BOOL(w, "sealed", in->sealed);
	JSONW_U64(w, "clock_pairs", mc->clock.pairs);
	JSONW_U64(w, "clock_error_ns", merge_clock__bound(&mc->clock));
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
	const struct merge *m = arg;
	char text[MERGE_TEXT_MAX] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < m->cnt; i++) {
		const char *host = m->inputs[i].host;
		uint32_t k = 0;

		while (k < i && strcmp(m->inputs[k].host, host) != 0)
			k++;
		if (k == i && *host && len + strlen(host) + 3 < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
						len ? ", " : "", host);
	}
	jsonw__str(w, text);
}

/* Lists of processes, with the numbers that they have now. */
static void add_list(const struct merge_input *in, cJSON *list, const char *json)
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
static int put_list(struct merge *m, const char *key, cJSON *list)
{
	char *text;
	int err;

	if (!cJSON_GetArraySize(list))
		return 0;
	while ((text = cJSON_PrintUnformatted(list)) && strlen(text) > TEXT_RECORD_MAX - 64) {
		int n = cJSON_GetArraySize(list);

		free(text);
		pr_warn("what is known of %d %s of processes is left out: too many", n - n / 2, key);
		while (cJSON_GetArraySize(list) > n / 2)
			cJSON_DeleteItemFromArray(list, n / 2);
	}
	err = text ? put_meta(m, key, text) : -ENOMEM;
	free(text);
	return err;
}

static int put_own_meta(struct merge *m)
{
	int err = put_meta(m, "version", "\"" PTBPF_VERSION "\"");
	char key[32];

	if (!err)
		err = put_meta_json(m, "host", write_hosts, m);
	if (!err)
		err = put_meta_json(m, "merged", write_summary, m);
	for (uint32_t i = 0; i < m->cnt && !err; i++) {
		const struct input_arg arg = { m, &m->inputs[i] };

		snprintf(key, sizeof(key), "merged.%u", i);
		err = put_meta_json(m, key, write_input, &arg);
		if (!err && !m->inputs[i].sealed)
			err = put_meta(m, "merged_unsealed", "true");
	}
	return err;
}

/* ---- control records ---- */

struct copy {
	struct merge *m;
	struct merge_input *in;
	cJSON *agents, *pythons;
	uint32_t records;
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
	static const char *const own[] = { "version",       "host", "boot_id",
					   "pid_namespace", "pid",  NULL };
	static const char *const any[] = { "gpu", "cuda_calls", NULL };
	const char *key = (const char *)(t + 1), *nul = memchr(key, '\0', t->text_len);
	char *json;
	int err = 0;

	if (!nul || is_key(key, own) || !strncmp(key, "merged", 6))
		return 0;
	json = strndup(nul + 1, t->text_len - (size_t)(nul + 1 - key));
	if (!json)
		return -ENOMEM;
	if (!strcmp(key, "agent"))
		add_list(c->in, c->agents, json);
	else if (!strcmp(key, "python"))
		add_list(c->in, c->pythons, json);
	else if (c->in == c->m->inputs || is_key(key, any))
		err = put_text(c->m, PTB_REC_META, 0, key, t->text_len);
	free(json);
	return err;
}

static int copy_control(void *arg, const struct ptb_rec_hdr *rec)
{
	struct copy *c = arg;
	struct ptb_rec_hdr *h = (void *)c->m->buf;
	uint64_t begin;

	if (cancel__pending())
		return -ECANCELED;
	if (rec->kind == PTB_REC_META)
		return copy_meta(c, (const void *)rec);
	if (rec->kind == PTB_REC_WINDOW || rec->kind == PTB_REC_CLOCK || rec->kind == PTB_REC_ORIGIN ||
	    (rec->kind == PTB_REC_COUNTER && !rec->tgid) || !remap__record(&c->in->map, rec, c->m->buf))
		return 0;
	begin = remap__time(&c->in->map, c->in->begin_ns);
	if (h->kind == PTB_REC_PROCESS && h->ts_ns < begin)
		h->ts_ns = begin; /* it is watched from there on */
	return capture_writer__control(c->m->cw, h);
}

static int put_origins(struct merge *m, uint32_t i)
{
	struct merge_input *in = &m->inputs[i];
	uint32_t host = ++m->space.last[REMAP_NAME];
	int err = put_text(m, PTB_REC_NAME, host, in->host, strlen(in->host));

	for (uint32_t k = 0; k < in->proc_cnt && !err; k++) {
		struct ptb_origin o = { .h.ts_ns = remap__time(&in->map, in->begin_ns),
					.h.tgid = remap__pid(&in->map, in->procs[k].tgid),
					.input = i,
					.pid = in->procs[k].tgid,
					.host = host,
					.begin_ns = remap__time(&in->map, in->begin_ns),
					.end_ns = remap__time(&in->map, in->end_ns) };

		if (o.h.tgid)
			err = put(m, &o.h, PTB_REC_ORIGIN, sizeof(o));
	}
	return err;
}

static int put_window(struct merge *m, bool begin)
{
	struct ptb_window w = { .begin = begin, .reason = m->inputs[0].stop_reason };

	for (uint32_t i = 0; i < m->cnt; i++) {
		struct merge_input *in = &m->inputs[i];
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
	return put(m, &w.h, PTB_REC_WINDOW, sizeof(w));
}

static int put_clock(struct merge *m)
{
	uint64_t t = remap__time(&m->inputs[0].map, m->inputs[0].begin_ns);
	struct ptb_clock c = { .h.ts_ns = t, .real_ns = t, .err_ns = widest_bound(m) };

	return put(m, &c.h, PTB_REC_CLOCK, sizeof(c));
}

static int put_controls(struct merge *m)
{
	struct copy c = { .m = m, .agents = cJSON_CreateArray(), .pythons = cJSON_CreateArray() };
	int err = c.agents && c.pythons ? put_window(m, true) : -ENOMEM;

	if (!err)
		err = put_clock(m);
	for (uint32_t i = 0; i < m->cnt && !err; i++) {
		c.in = &m->inputs[i];
		err = capture_reader__control(c.in->cr, copy_control, &c);
		c.in->map.left_out += capture_reader__bad_records(c.in->cr);
		if (!err)
			err = put_origins(m, i);
	}
	if (!err)
		err = put_list(m, "agent", c.agents);
	if (!err)
		err = put_list(m, "python", c.pythons);
	cJSON_Delete(c.agents);
	cJSON_Delete(c.pythons);
	return err ? err : put_own_meta(m);
}

/* ---- rings ---- */

static int copy_ring_record(void *arg, uint32_t ring, const struct ptb_rec_hdr *rec)
{
	struct copy *c = arg;
	const struct ptb_rec_hdr *h = (const void *)c->m->buf;

	if (!(++c->records & 4095) && cancel__pending())
		return -ECANCELED;
	if (!remap__record(&c->in->map, rec, c->m->buf))
		return 0;
	return capture_writer__ring(c->m->cw, (uint32_t)(c->in - c->m->inputs) * RINGS + ring % RINGS,
				    h, h->len);
}

/* NULL: all are at their ends. */
static struct merge_input *furthest_behind(struct merge *m)
{
	struct merge_input *in = NULL;

	for (uint32_t i = 0; i < m->cnt; i++)
		if (!m->inputs[i].done && (!in || m->inputs[i].passed_ns < in->passed_ns))
			in = &m->inputs[i];
	return in;
}

static int put_rings(struct merge *m)
{
	struct copy c = { .m = m };
	uint64_t until;
	int ret;

	while ((c.in = furthest_behind(m))) {
		until = 0;
		ret = capture_reader__round(c.in->cr, &c.in->pos, copy_ring_record, &c, &until);
		if (ret < 0)
			return ret;
		c.in->done = !ret;
		if (!ret)
			c.in->map.left_out += capture_reader__bad_records(c.in->cr);
		until = remap__time(&c.in->map, until);
		if (until > c.in->passed_ns)
			c.in->passed_ns = until;
		c.in = furthest_behind(m);
		ret = c.in ? capture_writer__round(m->cw, c.in->passed_ns) : 0;
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- counters ---- */

/* What is spent at the same time on each machine, or is no sum. */
static bool is_maximum(uint32_t id)
{
	return id == PTB_CNT_ATTACH_NS || id == PTB_CNT_DETACH_NS || id == PTB_CNT_PLAN_NS ||
	       id == PTB_CNT_COLLECTOR_RSS || id == PTB_CNT_UNWRITTEN_NS;
}

static uint64_t combined(const struct merge *m, uint32_t id)
{
	uint64_t sum = 0, hits = 0;
	double cost = 0;

	for (uint32_t i = 0; i < m->cnt; i++) {
		const uint64_t *v = m->inputs[i].counters;

		sum = is_maximum(id) ? (v[id] > sum ? v[id] : sum) : sum + v[id];
		hits += v[PTB_CNT_HITS];
		cost += (double)v[PTB_CNT_HITS] * (double)v[PTB_CNT_COST_PS];
	}
	if (id == PTB_CNT_COST_PS) /* so that hits times this is what all of them cost */
		return hits && cost < 1e18 ? (uint64_t)(cost / (double)hits) :
					     m->inputs[0].counters[id];
	return sum;
}

static int put_counters(struct merge *m)
{
	uint64_t left_out = 0;
	int err = 0;

	for (uint32_t i = 0; i < m->cnt; i++)
		left_out += m->inputs[i].map.left_out;
	for (uint32_t id = 0; id < sizeof(m->inputs[0].counters) / sizeof(uint64_t) && !err; id++) {
		struct ptb_counter c = { .h.ts_ns = 1, .id = id, .value = combined(m, id) };
		bool any = false;

		for (uint32_t i = 0; i < m->cnt; i++)
			any |= m->inputs[i].has_counter[id];
		if (id == PTB_CNT_MERGE_LEFT_OUT)
			c.value = left_out;
		if (any || c.value)
			err = put(m, &c.h, PTB_REC_COUNTER, sizeof(c));
	}
	return err;
}

int merge__write(struct merge *m)
{
	uint64_t bytes = 0;
	int err;

	for (uint32_t i = 0; i < m->cnt; i++)
		bytes += capture_reader__bytes(m->inputs[i].cr);
	err = capture_writer__open(m->opts->output, &m->cw);
	if (err)
		return err;
	effort__begin(bytes);
	err = put_controls(m);
	if (!err)
		err = put_rings(m);
	if (!err)
		err = put_counters(m);
	if (!err)
		err = put_window(m, false);
	effort__end();
	if (err) {
		capture_writer__discard(m->cw);
		if (err != -ECANCELED && !log__has_error())
			pr_error("cannot write %s: %s", m->opts->output, errstr(err));
		return err;
	}
	return capture_writer__close(m->cw);
}
