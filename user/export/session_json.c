/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The session's facts as JSON; see facts.h. Key names are a contract: schemas/formats/. */
#include "export/session_json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/loss_account.h"

/* META records that a document repeats; their text is JSON already. */
static const char *const capture_keys[] = {
	"version",  "host",     "kernel",     "torch",        "args",    "activities", "step_on",
	"no_steps", "by_shape", "with_flops", "exact_memory", "sort_by", "row_limit",
};

static const struct counter_row {
	uint32_t id;
	bool loss;
	const char *name, *text;
} counter_rows[] = {
#define X(name, nr, loss, text) { nr, loss, #name, text },
	PTB_COUNTERS(X)
#undef X
};

#define COUNTER_ROW_CNT (sizeof(counter_rows) / sizeof(counter_rows[0]))

static const char *refusal_text(uint32_t reason)
{
	static const char *const texts[] = {
#define X(name, nr, text) [nr] = text,
		PTB_REFUSALS(X)
#undef X
	};

	if (reason >= sizeof(texts) / sizeof(texts[0]) || !texts[reason] || !*texts[reason])
		return "not known";
	return texts[reason];
}

static const char *func_kind_text(uint32_t kind)
{
	static const char *const texts[] = {
#define X(name, nr, text) [nr] = text,
		PTB_FUNC_KINDS(X)
#undef X
	};

	return kind < sizeof(texts) / sizeof(texts[0]) && texts[kind] ? texts[kind] : "not known";
}

static const char *stop_text(uint32_t reason)
{
	static const char *const texts[] = {
#define X(name, nr, text) [nr] = text,
		PTB_STOP_REASONS(X)
#undef X
	};

	if (reason >= sizeof(texts) / sizeof(texts[0]) || !texts[reason])
		return "not known";
	return texts[reason];
}

/* ---- values of META records: JSON, if their writer was ours ---- */

#define META_DEPTH_MAX 8
#define META_VALUES_MAX 4096

/* Adds what is in the tree to *cnt; false: more than a META of ours has. */
static bool is_small(const cJSON *v, uint32_t depth, uint32_t *cnt)
{
	const cJSON *child;

	if (depth > META_DEPTH_MAX || ++*cnt > META_VALUES_MAX)
		return false;
	cJSON_ArrayForEach(child, v) if (!is_small(child, depth + 1, cnt)) return false;
	return true;
}

static void put_number(struct jsonw *w, double v)
{
	if (v >= -0x1p53 && v <= 0x1p53 && !(floor(v) < v))
		jsonw__i64(w, (int64_t)v);
	else
		jsonw__double(w, v);
}

/* Of keys that are the same the first counts. */
static bool is_repeated(const cJSON *object, const cJSON *member)
{
	return cJSON_GetObjectItemCaseSensitive(object, member->string) != member;
}

static void put_tree(struct jsonw *w, const cJSON *v)
{
	const cJSON *child;

	if (cJSON_IsObject(v)) {
		jsonw__begin_obj(w);
		cJSON_ArrayForEach(child, v)
		{
			if (is_repeated(v, child))
				continue;
			jsonw__key(w, child->string);
			put_tree(w, child);
		}
		jsonw__end_obj(w);
	} else if (cJSON_IsArray(v)) {
		jsonw__begin_arr(w);
		cJSON_ArrayForEach(child, v) put_tree(w, child);
		jsonw__end_arr(w);
	} else if (cJSON_IsString(v)) {
		jsonw__str(w, v->valuestring);
	} else if (cJSON_IsNumber(v)) {
		put_number(w, v->valuedouble);
	} else if (cJSON_IsBool(v)) {
		jsonw__bool(w, cJSON_IsTrue(v));
	} else {
		jsonw__null(w);
	}
}

/*
 * A capture is a foreign file: its JSON is parsed and written anew, never copied, since parsers take more than JSON
 * allows (bytes that are no UTF-8, numbers without end). What is no JSON, or too much, is a string.
 */
static cJSON *parse_meta(const char *json)
{
	cJSON *tree = cJSON_ParseWithOpts(json, NULL, 1);
	uint32_t cnt = 0;

	if (tree && is_small(tree, 0, &cnt))
		return tree;
	cJSON_Delete(tree);
	return NULL;
}

static void put_meta(struct jsonw *w, const char *json)
{
	cJSON *tree = parse_meta(json);

	if (tree)
		put_tree(w, tree);
	else
		jsonw__str(w, json);
	cJSON_Delete(tree);
}

void session_json__meta_text(const struct session *s, const char *key, char *buf, size_t cap)
{
	const char *json = session__meta(s, key);
	cJSON *tree = json ? cJSON_ParseWithOpts(json, NULL, 1) : NULL;
	const char *text = cJSON_GetStringValue(tree);

	snprintf(buf, cap, "%s", text ? text : "");
	cJSON_Delete(tree);
}

/* ---- the facts ---- */

/* Three decimals are what the numbers are worth. */
static void write_ms(struct jsonw *w, const char *key, double ns)
{
	jsonw__key(w, key);
	jsonw__double(w, floor(ns / 1e3 + 0.5) / 1e3);
}

static void write_u64(struct jsonw *w, const char *key, uint64_t v)
{
	jsonw__key(w, key);
	jsonw__u64(w, v);
}

static void write_str(struct jsonw *w, const char *key, const char *text)
{
	jsonw__key(w, key);
	jsonw__str(w, text ? text : "");
}

static void write_targets(struct jsonw *w, const struct session_info *info)
{
	uint32_t i;

	jsonw__key(w, "targets");
	jsonw__begin_arr(w);
	for (i = 0; i < info->process_cnt; i++) {
		const struct session_process *p = &info->processes[i];

		jsonw__begin_obj(w);
		write_u64(w, "pid", p->tgid);
		write_u64(w, "parent_pid", p->parent_tgid);
		write_str(w, "comm", p->comm);
		write_str(w, "command_line", p->cmdline);
		write_str(w, "executable", p->exe);
		write_str(w, "source", p->source ? "agent" : "kernel probes");
		write_ms(w, "probed_after_ms",
			 p->start_ns > info->begin_ns ? (double)(p->start_ns - info->begin_ns) : 0.0);
		write_u64(w, "uncovered_ns", p->gap_ns);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void write_window(struct jsonw *w, const struct session_info *info)
{
	jsonw__key(w, "window");
	jsonw__begin_obj(w);
	jsonw__key(w, "begin_unix_ns");
	jsonw__i64(w, (int64_t)info->begin_ns + info->mono_to_unix_ns);
	write_u64(w, "duration_ns", info->end_ns > info->begin_ns ? info->end_ns - info->begin_ns : 0);
	write_u64(w, "clock_error_ns", info->clock_err_ns);
	write_str(w, "stopped_by", stop_text(info->stop_reason));
	jsonw__key(w, "sealed");
	jsonw__bool(w, info->sealed);
	jsonw__end_obj(w);
}

static void write_probes(struct jsonw *w, const struct session_info *info)
{
	jsonw__key(w, "probes");
	jsonw__begin_obj(w);
	write_u64(w, "attached", session_info__counter(info, PTB_CNT_PROBES));
	write_u64(w, "functions", info->func_cnt);
	write_u64(w, "sites", info->site_cnt);
	write_ms(w, "plan_ms", (double)session_info__counter(info, PTB_CNT_PLAN_NS));
	write_ms(w, "attach_ms", (double)session_info__counter(info, PTB_CNT_ATTACH_NS));
	write_ms(w, "detach_ms", (double)session_info__counter(info, PTB_CNT_DETACH_NS));
	jsonw__end_obj(w);
}

static void write_refused(struct jsonw *w, const struct session_info *info)
{
	uint32_t i;

	jsonw__key(w, "refused");
	jsonw__begin_obj(w);
	write_u64(w, "count", info->refusal_cnt);
	jsonw__key(w, "functions");
	jsonw__begin_arr(w);
	for (i = 0; i < info->refusal_cnt && i < FACTS_REFUSALS_MAX; i++) {
		const struct session_refusal *r = &info->refusals[i];

		jsonw__begin_obj(w);
		write_str(w, "name", r->name);
		write_str(w, "kind", func_kind_text(r->kind));
		write_str(w, "reason", refusal_text(r->reason));
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

/* Every counter that counted something, whether a loss or not, with its sentence. */
static void write_loss(struct jsonw *w, const struct session_info *info)
{
	uint64_t lost = 0, ns = 0;
	uint32_t i;

	for (i = 0; i < info->lost_cnt; i++) {
		lost += info->lost[i].cnt;
		if (info->lost[i].end_ns > info->lost[i].begin_ns)
			ns += info->lost[i].end_ns - info->lost[i].begin_ns;
	}
	jsonw__key(w, "loss");
	jsonw__begin_obj(w);
	write_u64(w, "lost_records", lost);
	write_u64(w, "lost_intervals", info->lost_cnt);
	write_u64(w, "lost_intervals_ns", ns);
	jsonw__key(w, "counters");
	jsonw__begin_arr(w);
	for (i = 0; i < COUNTER_ROW_CNT; i++) {
		const struct counter_row *r = &counter_rows[i];

		if (!*r->text || !session_info__counter(info, r->id))
			continue;
		jsonw__begin_obj(w);
		write_str(w, "name", r->name);
		write_u64(w, "value", session_info__counter(info, r->id));
		jsonw__key(w, "loss");
		jsonw__bool(w, r->loss);
		write_str(w, "text", r->text);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

static void write_cost(struct jsonw *w, const struct session_info *info)
{
	double ns = session_info__cost_ns(info);
	double window = info->end_ns > info->begin_ns ? (double)(info->end_ns - info->begin_ns) : 0.0;

	jsonw__key(w, "cost");
	jsonw__begin_obj(w);
	jsonw__key(w, "per_hit_ns");
	jsonw__double(w, (double)session_info__counter(info, PTB_CNT_COST_PS) / 1000.0);
	write_u64(w, "hits", session_info__counter(info, PTB_CNT_HITS));
	write_ms(w, "estimated_total_ms", ns);
	jsonw__key(w, "percent_of_window"); /* of one thread's time; several threads share the sum */
	if (window > 0.0)
		jsonw__double(w, floor(ns / window * 1e5 + 0.5) / 1e3);
	else
		jsonw__null(w);
	write_ms(w, "collector_cpu_ms", (double)session_info__counter(info, PTB_CNT_COLLECTOR_CPU_NS));
	write_u64(w, "collector_rss_bytes", session_info__counter(info, PTB_CNT_COLLECTOR_RSS));
	jsonw__end_obj(w);
}

static void write_capture(struct jsonw *w, const struct session *s)
{
	size_t i;

	jsonw__key(w, "capture");
	jsonw__begin_obj(w);
	for (i = 0; i < sizeof(capture_keys) / sizeof(capture_keys[0]); i++) {
		const char *json = session__meta(s, capture_keys[i]);

		if (!json)
			continue;
		jsonw__key(w, capture_keys[i]);
		put_meta(w, json);
	}
	jsonw__end_obj(w);
}

/* Who gave what, and why not more: as the recorder wrote it, one object per process with an agent. */
static void write_gpu(struct jsonw *w, const struct session *s, const struct session_info *info)
{
	const char *agents = session__meta(s, "agent");
	cJSON *tree = agents ? parse_meta(agents) : NULL;

	if (info->has_gpu || info->has_cuda_calls) {
		jsonw__key(w, "cuda");
		jsonw__begin_obj(w);
		jsonw__key(w, "activities");
		jsonw__bool(w, info->has_gpu);
		jsonw__key(w, "host_calls");
		jsonw__bool(w, info->has_cuda_calls);
		write_u64(w, "clock_error_ns", info->gpu_clock_err_ns);
		write_u64(w, "clock_pairs", info->gpu_clock_cnt);
		jsonw__end_obj(w);
	}
	if (cJSON_IsArray(tree)) {
		jsonw__key(w, "agents");
		put_tree(w, tree);
	}
	cJSON_Delete(tree);
}

void session_json__write(struct jsonw *w, const struct session *s, const char *tool_version)
{
	const struct session_info *info = session__info(s);

	write_str(w, "version", tool_version);
	write_targets(w, info);
	write_window(w, info);
	write_probes(w, info);
	write_refused(w, info);
	write_loss(w, info);
	write_cost(w, info);
	write_gpu(w, s, info);
	write_capture(w, s);
}

void session_json__write_totals(struct jsonw *w, const struct session_info *info,
				const struct session_totals *t)
{
	const struct {
		const char *key;
		uint64_t value;
	} rows[] = {
		{ "slices", t->slices },
		{ "operators", t->ops },
		{ "annotations", t->annotations },
		{ "steps", t->steps },
		{ "partial_steps", t->partial_steps },
		{ "open_at_begin", t->open_at_begin },
		{ "unfinished", t->unfinished },
		{ "unwound", t->unwound },
		{ "end_lost", t->end_lost },
		{ "unmatched_exits", t->unmatched_exits },
		{ "open_unnamed", t->open_unnamed },
		{ "unresolved_names", t->unresolved_names },
		{ "truncated_annotations", t->truncated_annotations },
		{ "flows", t->flows },
		{ "forgotten_forwards", t->forgotten_forwards },
		{ "freed_unknown", t->freed_unknown },
		{ "live_blocks", t->live_blocks },
		{ "frees_inferred", t->frees_inferred },
		{ "gpu_work", t->gpu_work },
		{ "gpu_unlinked", t->gpu_unlinked },
		{ "gpu_before_launch", t->gpu_before_launch },
		{ "gpu_calls", t->gpu_calls },
		{ "gpu_outside", t->gpu_outside },
		{ "gpu_no_clock", t->gpu_no_clock },
		{ "gpu_host_dropped", t->gpu_host_dropped },
		{ "bad_records", t->bad_records },
		{ "late_records", t->late_records },
		{ "tensors_over", t->tensors_over },
		{ "unread_bytes", t->unread_bytes },
		{ "over_threads", t->over_threads },
		{ "not_written", t->not_written },
		{ "gpu_left_out", t->gpu_left_out },
		{ "stopped", t->stopped },
	};
	char text[2048];
	bool incomplete = loss_account__incomplete(info, t, text, sizeof(text));
	size_t i;

	jsonw__key(w, "totals");
	jsonw__begin_obj(w);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		write_u64(w, rows[i].key, rows[i].value);
	jsonw__end_obj(w);
	jsonw__key(w, "complete");
	jsonw__bool(w, !incomplete);
	write_str(w, "account", text);
}
