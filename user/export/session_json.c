/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The session's facts as JSON; see facts_json.h. Key names are a contract: schemas/formats/. */
#include "export/facts_json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"

/* META records that a document repeats; their text is JSON already. */
static const char *const capture_keys[] = {
	"version", "host",      "kernel",     "torch",        "args",         "activities",
	"step_on", "no_steps",  "by_shape",   "with_flops",   "exact_memory", "overload_names",
	"sort_by", "row_limit", "with_stack", "with_modules", "sample_hz",    "with_samples",
	"python",  "trigger",   "event",      "flight",       "switched_off", "sched",
};

/* The text of a number of the capture, for which there may be none. */
#define TEXT_OF(texts, nr)                                                                         \
	((nr) < sizeof(texts) / sizeof((texts)[0]) && (texts)[nr] && *(texts)[nr] ? (texts)[nr] :  \
										    "not known")

#define X(name, nr, text) [nr] = text,
static const char *const refusal_texts[] = { PTB_REFUSALS(X) };
static const char *const func_kind_texts[] = { PTB_FUNC_KINDS(X) };
static const char *const stop_texts[] = { PTB_STOP_REASONS(X) };
#undef X

const char *session_json__stop_text(uint32_t reason)
{
	return TEXT_OF(stop_texts, reason);
}

/* ---- values of META records: JSON, if their writer was ours ---- */

#define META_DEPTH_MAX 8
#define META_VALUES_MAX 4096
#define META_MEMBERS_MAX 64 /* of one object: each is compared with those before it */

/* Adds what is in the tree to *cnt; false: more than a META of ours has. */
static bool is_small(const cJSON *v, uint32_t depth, uint32_t *cnt)
{
	const cJSON *child;

	if (depth > META_DEPTH_MAX || ++*cnt > META_VALUES_MAX ||
	    (cJSON_IsObject(v) && cJSON_GetArraySize(v) > META_MEMBERS_MAX))
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
 * A capture is a foreign file: its JSON is parsed and written anew, never copied, since parsers
 * take more than JSON allows (bytes that are no UTF-8, numbers without end). What is no JSON, or
 * too much, is a string.
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

static void put_meta_value(struct jsonw *w, const char *json)
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

/* With three decimals. */
static void write_ms(struct jsonw *w, const char *key, double ns)
{
	jsonw__key(w, key);
	jsonw__double(w, floor(ns / 1e3 + 0.5) / 1e3);
}

/* A time by the begin of the window; 0 if it is earlier. */
static void write_after_begin(struct jsonw *w, const char *key, const struct session_info *info,
			      uint64_t ns)
{
	write_ms(w, key, ns > info->begin_ns ? (double)(ns - info->begin_ns) : 0.0);
}

static void write_targets(struct jsonw *w, const struct session_info *info)
{
	JSONW_ARR(w, "targets");
	for (uint32_t i = 0; i < info->process_cnt && !w->err; i++) {
		const struct session_process *p = &info->processes[i];

		jsonw__begin_obj(w);
		JSONW_U64(w, "pid", p->tgid);
		JSONW_U64(w, "parent_pid", p->parent_tgid);
		JSONW_STR(w, "comm", p->comm);
		JSONW_STR(w, "command_line", p->cmdline);
		JSONW_STR(w, "executable", p->exe);
		JSONW_STR(w, "source", p->source ? "agent" : "kernel probes");
		write_after_begin(w, "probed_after_ms", info, p->start_ns);
		JSONW_U64(w, "uncovered_ns", p->gap_ns);
		if (p->unprobed_ns)
			write_after_begin(w, "unprobed_after_ms", info, p->unprobed_ns);
		if (p->step_on)
			JSONW_STR(w, "step_on", p->step_on);
		if (info->merged) {
			JSONW_STR(w, "host", p->host);
			JSONW_U64(w, "recorded_pid", p->pid);
			JSONW_U64(w, "capture", p->input);
		}
		job_json__write(w, p);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
}

static void write_window(struct jsonw *w, const struct session_info *info)
{
	JSONW_OBJ(w, "window");
	JSONW_I64(w, "begin_unix_ns", (int64_t)info->begin_ns + info->mono_to_unix_ns);
	JSONW_U64(w, "duration_ns",
		  info->end_ns > info->begin_ns ? info->end_ns - info->begin_ns : 0);
	JSONW_U64(w, "clock_error_ns", info->clock_err_ns);
	JSONW_STR(w, "stopped_by", session_json__stop_text(info->stop_reason));
	JSONW_BOOL(w, "sealed", info->sealed);
	jsonw__end_obj(w);
}

static void write_probes(struct jsonw *w, const struct session_info *info)
{
	JSONW_OBJ(w, "probes");
	JSONW_U64(w, "attached", session_info__counter(info, PTB_CNT_PROBES));
	JSONW_U64(w, "functions", info->func_cnt);
	JSONW_U64(w, "sites", info->site_cnt);
	write_ms(w, "plan_ms", (double)session_info__counter(info, PTB_CNT_PLAN_NS));
	write_ms(w, "attach_ms", (double)session_info__counter(info, PTB_CNT_ATTACH_NS));
	write_ms(w, "detach_ms", (double)session_info__counter(info, PTB_CNT_DETACH_NS));
	jsonw__end_obj(w);
}

static void write_refused(struct jsonw *w, const struct session_info *info)
{
	JSONW_OBJ(w, "refused");
	JSONW_U64(w, "count", info->refusal_cnt);
	JSONW_ARR(w, "functions");
	for (uint32_t i = 0; i < info->refusal_cnt && i < FACTS_REFUSALS_MAX; i++) {
		const struct session_refusal *r = &info->refusals[i];

		jsonw__begin_obj(w);
		JSONW_STR(w, "name", r->name);
		JSONW_STR(w, "kind", TEXT_OF(func_kind_texts, r->kind));
		JSONW_STR(w, "reason", TEXT_OF(refusal_texts, r->reason));
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

/* Every counter that counted something, whether a loss or not, with its sentence. */
static void write_loss(struct jsonw *w, const struct session_info *info)
{
	struct loss_intervals lost = loss_account__intervals(info);
	const struct loss_counter *r;

	JSONW_OBJ(w, "loss");
	JSONW_U64(w, "lost_records", lost.records);
	JSONW_U64(w, "lost_intervals", info->lost_cnt);
	JSONW_U64(w, "lost_intervals_ns", lost.ns);
	JSONW_ARR(w, "counters");
	for (r = loss_counters; r->text; r++) {
		if (!*r->text || !session_info__counter(info, r->id))
			continue;
		jsonw__begin_obj(w);
		JSONW_STR(w, "name", r->name);
		JSONW_U64(w, "value", session_info__counter(info, r->id));
		JSONW_BOOL(w, "loss", r->loss);
		JSONW_STR(w, "text", r->text);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

static void write_cost(struct jsonw *w, const struct session_info *info)
{
	double ns = session_info__cost_ns(info);
	double window = info->end_ns > info->begin_ns ? (double)(info->end_ns - info->begin_ns) :
							0.0;

	JSONW_OBJ(w, "cost");
	JSONW_DOUBLE(w, "per_hit_ns",
		     (double)session_info__counter(info, PTB_CNT_COST_PS) / 1000.0);
	JSONW_U64(w, "hits", session_info__hits(info));
	write_ms(w, "estimated_total_ms", ns);
	/* of one thread's time; several threads share the sum */
	JSONW_DOUBLE(w, "percent_of_window",
		     window > 0.0 ? floor(ns / window * 1e5 + 0.5) / 1e3 : NAN);
	write_ms(w, "collector_cpu_ms",
		 (double)session_info__counter(info, PTB_CNT_COLLECTOR_CPU_NS));
	JSONW_U64(w, "collector_rss_bytes", session_info__counter(info, PTB_CNT_COLLECTOR_RSS));
	jsonw__end_obj(w);
}

static void write_capture(struct jsonw *w, const struct session *s)
{
	JSONW_OBJ(w, "capture");
	for (size_t i = 0; i < sizeof(capture_keys) / sizeof(capture_keys[0]); i++) {
		const char *json = session__meta(s, capture_keys[i]);

		if (!json)
			continue;
		jsonw__key(w, capture_keys[i]);
		put_meta_value(w, json);
	}
	jsonw__end_obj(w);
}

/* The captures that are read as one, and how: user/ranks/join_control.c. */
static void write_merged(struct jsonw *w, const struct session *s)
{
	const char *json = session__meta(s, "merged");
	char key[32];

	JSONW_OBJ(w, "merged");
	JSONW_KEY(w, "how");
	put_meta_value(w, json);
	JSONW_ARR(w, "captures");
	for (uint32_t i = 0; i < LIMIT_CAPTURES; i++) {
		snprintf(key, sizeof(key), "merged.%u", i);
		json = session__meta(s, key);
		if (!json)
			break;
		put_meta_value(w, json);
	}
	jsonw__end_arr(w);
	jsonw__end_obj(w);
}

/* Sources of GPU activities; of each process with an agent what the recorder wrote about it. */
static void write_gpu(struct jsonw *w, const struct session *s, const struct session_info *info)
{
	const char *agents = session__meta(s, "agent");
	cJSON *tree = agents ? parse_meta(agents) : NULL;

	if (info->has_gpu || info->has_cuda_calls) {
		JSONW_OBJ(w, "cuda");
		JSONW_BOOL(w, "activities", info->has_gpu);
		JSONW_BOOL(w, "host_calls", info->has_cuda_calls);
		JSONW_U64(w, "clock_error_ns", info->gpu_clock_err_ns);
		JSONW_U64(w, "clock_pairs", info->gpu_clock_cnt);
		jsonw__end_obj(w);
	}
	if (cJSON_IsArray(tree)) {
		jsonw__key(w, "agents");
		put_tree(w, tree);
	}
	cJSON_Delete(tree);
}

void session_json__write(struct jsonw *w, const struct session *s)
{
	const struct session_info *info = session__info(s);

	JSONW_STR(w, "version", PTBPF_VERSION);
	write_targets(w, info);
	write_window(w, info);
	write_probes(w, info);
	write_refused(w, info);
	write_loss(w, info);
	write_cost(w, info);
	write_gpu(w, s, info);
	write_capture(w, s);
	if (info->merged)
		write_merged(w, s);
}

static void write_optional_totals(struct jsonw *w, const struct session_info *info,
				  const struct session_totals *t)
{
	if (t->when) {
		JSONW_STR(w, "when", t->when);
		JSONW_U64(w, "when_found", t->when_found);
		JSONW_U64(w, "when_left_out", t->when_left_out);
	}
	if (info->sample_hz || info->with_samples) {
		JSONW_U64(w, "samples", t->samples);
		JSONW_U64(w, "samples_running", t->samples_running);
		JSONW_U64(w, "samples_unread", t->samples_unread);
		JSONW_U64(w, "samples_operator_known", t->samples_ops);
	}
	if (info->has_py_stacks) {
		JSONW_U64(w, "stacks", t->stacks);
		JSONW_U64(w, "stacks_unread", t->stacks_unread);
		JSONW_U64(w, "stacks_unknown", t->stacks_unknown);
	}
	if (t->gpu_graph_work) {
		JSONW_U64(w, "gpu_graph_work", t->gpu_graph_work);
		JSONW_U64(w, "gpu_graph_unknown", t->gpu_graph_unknown);
	}
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
		{ "truncated_operators", t->truncated_ops },
		{ "silent_threads", t->silent_threads },
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
		{ "gpu_wrong_times", t->gpu_wrong_times },
		{ "gpu_host_dropped", t->gpu_host_dropped },
		{ "bad_records", t->bad_records },
		{ "late_records", t->late_records },
		{ "tensors_over", t->tensors_over },
	};
	char text[2048];
	bool incomplete = loss_account__incomplete(info, t, text, sizeof(text));

	JSONW_OBJ(w, "totals");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		jsonw__key(w, rows[i].key);
		jsonw__u64(w, rows[i].value);
	}
	write_optional_totals(w, info, t);
	jsonw__end_obj(w);
	JSONW_BOOL(w, "complete", !incomplete);
	JSONW_STR(w, "account", text);
}

double session_json__full_collections(const struct session *s, uint32_t tgid)
{
	const char *json = session__meta(s, "python");
	cJSON *all = json ? parse_meta(json) : NULL;
	const cJSON *one, *pid, *full;
	double cnt = -1;

	cJSON_ArrayForEach(one, all)
	{
		pid = cJSON_GetObjectItemCaseSensitive(one, "pid");
		full = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(one, "collections"), 2);
		if (cJSON_IsNumber(pid) && pid->valuedouble == tgid && cJSON_IsNumber(full))
			cnt = full->valuedouble;
	}
	cJSON_Delete(all);
	return cnt;
}
