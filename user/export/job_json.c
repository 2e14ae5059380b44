/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See facts_json.h. */
#include "export/facts_json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 0xffffffffu

static const struct {
	const char *key;
	bool number;
} facts[] = {
	{ "ns_pid", true },
	{ "cgroup", false },
	{ "container_id", false },
	{ "container_runtime", false },
	{ "pod_uid", false },
	{ "cpus", false },
	{ "cpu_quota_percent", true },
	{ "gpus", true },
};

/* NULL: no JSON, or no object. */
static cJSON *parse(const struct session_process *p)
{
	cJSON *tree = p->job && *p->job ? cJSON_ParseWithOpts(p->job, NULL, 1) : NULL;

	if (cJSON_IsObject(tree))
		return tree;
	cJSON_Delete(tree);
	return NULL;
}

static bool is_number(const cJSON *v)
{
	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= NUMBER_MAX &&
	       floor(v->valuedouble) >= v->valuedouble;
}

/* -1: none, or another value. */
static int64_t number_of(const cJSON *object, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);

	return is_number(v) ? (int64_t)v->valuedouble : -1;
}

static void put_member(struct jsonw *w, const cJSON *object, const char *key, bool number)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
	int64_t v = number ? number_of(object, key) : -1;

	if (number ? v < 0 : !text)
		return;
	jsonw__key(w, key);
	if (number)
		jsonw__i64(w, v);
	else
		jsonw__str(w, text);
}

void job_json__write(struct jsonw *w, const struct session_process *p)
{
	cJSON *tree = parse(p);
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment");

	if (!tree)
		return;
	JSONW_OBJ(w, "job");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		put_member(w, tree, facts[i].key, facts[i].number);
	JSONW_OBJ(w, "environment");
	for (int v = 0; v < JOB_VAR_CNT; v++)
		put_member(w, env, job_vars[v].name, job_vars[v].number);
	jsonw__end_obj(w);
	jsonw__end_obj(w);
	cJSON_Delete(tree);
}

/* What torch.distributed itself says, if it is initialized. */
static bool distributed_rank(const cJSON *groups, struct job_rank *out)
{
	int64_t rank = number_of(groups, "rank"), size = number_of(groups, "world_size");

	if (rank < 0 || size <= rank || size > INT32_MAX)
		return false;
	*out = (struct job_rank){ .rank = (uint32_t)rank, .world_size = (uint32_t)size };
	return true;
}

static bool environment_rank(const cJSON *env, struct job_rank *out)
{
	int64_t numbers[JOB_VAR_CNT];

	for (int v = 0; v < JOB_VAR_CNT; v++)
		numbers[v] = job_vars[v].number ? number_of(env, job_vars[v].name) : -1;
	return job_vars__rank(numbers, out);
}

bool job_json__rank_of(const struct session_process *p, struct job_rank *out)
{
	cJSON *tree = parse(p);
	bool found = distributed_rank(cJSON_GetObjectItemCaseSensitive(tree, "distributed"), out) ||
		     environment_rank(cJSON_GetObjectItemCaseSensitive(tree, "environment"), out);

	cJSON_Delete(tree);
	return found;
}

static void put_ranks(struct jsonw *w, const cJSON *ranks)
{
	const cJSON *rank;

	JSONW_ARR(w, "ranks");
	for (rank = ranks ? ranks->child : NULL; rank; rank = rank->next)
		if (is_number(rank))
			jsonw__u64(w, (uint64_t)rank->valuedouble);
	jsonw__end_arr(w);
}

static void put_group_names(struct jsonw *w, const cJSON *group)
{
	put_member(w, group, "pg_name", false);
	put_member(w, group, "pg_desc", false);
	put_member(w, group, "backend_config", false);
}

static void put_group(struct jsonw *w, const cJSON *group)
{
	jsonw__begin_obj(w);
	put_group_names(w, group);
	put_member(w, group, "pg_size", true);
	put_ranks(w, cJSON_GetObjectItemCaseSensitive(group, "ranks"));
	jsonw__end_obj(w);
}

/* Of a group of all ranks they are left out. */
static void put_et_group(struct jsonw *w, const cJSON *group, const struct job_rank *r,
			 int64_t group_cnt)
{
	const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(group, "ranks");
	int64_t size = number_of(group, "pg_size");

	jsonw__begin_obj(w);
	put_group_names(w, group);
	put_ranks(w, size == r->world_size ? NULL : ranks);
	JSONW_I64(w, "group_size", size);
	JSONW_I64(w, "group_count", group_cnt);
	jsonw__end_obj(w);
}

char *job_json__groups(const struct session_process *p)
{
	cJSON *tree = parse(p);
	const cJSON *groups = cJSON_GetObjectItemCaseSensitive(tree, "distributed");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(groups, "pg_config"), *group;
	struct jsonw_memory m = { .len = 0 };
	char *text = NULL;
	struct job_rank r;
	struct jsonw w;

	if (list && distributed_rank(groups, &r)) {
		jsonw__init(&w, jsonw__to_memory, &m, 4096);
		jsonw__begin_arr(&w);
		cJSON_ArrayForEach(group, list)
			put_et_group(&w, group, &r, number_of(groups, "pg_count"));
		jsonw__end_arr(&w);
		text = jsonw__take(&w, &m);
	}
	cJSON_Delete(tree);
	return text;
}

bool job_json__distributed(struct jsonw *w, const struct session_process *p)
{
	cJSON *tree = parse(p);
	const cJSON *groups = cJSON_GetObjectItemCaseSensitive(tree, "distributed");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(groups, "pg_config"), *group;
	struct job_rank r;
	bool found = distributed_rank(groups, &r);

	if (found) {
		jsonw__begin_obj(w);
		put_member(w, groups, "backend", false);
		put_member(w, groups, "rank", true);
		put_member(w, groups, "world_size", true);
		put_member(w, groups, "pg_count", true);
		if (list)
			JSONW_ARR(w, "pg_config");
		cJSON_ArrayForEach(group, list) put_group(w, group);
		if (list)
			jsonw__end_arr(w);
		jsonw__end_obj(w);
	}
	cJSON_Delete(tree);
	return found;
}

const struct session_process *job_json__rank(const struct session_info *info, uint32_t tgid,
					     struct job_rank *out)
{
	const struct session_process *found = NULL;
	struct job_rank r;

	for (uint32_t i = 0; i < info->process_cnt; i++) {
		const struct session_process *p = &info->processes[i];

		if ((tgid && p->tgid != tgid) || !job_json__rank_of(p, &r) || (found && r.by_slurm))
			continue;
		*out = r;
		found = p;
		if (!r.by_slurm)
			break;
	}
	return found;
}

/* Its parent, if that is in the capture, has the same rank: a loader's worker, for instance. */
static bool inherits_rank(const struct session *s, const struct session_process *p, uint32_t rank)
{
	const struct session_process *parent = session__process(s, p->parent_tgid);
	struct job_rank r;

	return parent && job_json__rank_of(parent, &r) && r.rank == rank;
}

uint32_t job_json__ranks(const struct session *s, struct job_rank_of *list, uint32_t max)
{
	const struct session_info *info = session__info(s);
	uint32_t n = 0, at;

	for (uint32_t i = 0; i < info->process_cnt; i++) {
		struct job_rank_of r = { .tgid = info->processes[i].tgid };

		if (!job_json__rank_of(&info->processes[i], &r.rank) ||
		    inherits_rank(s, &info->processes[i], r.rank.rank))
			continue;
		if (n++ >= max)
			continue;
		for (at = n - 1; at && list[at - 1].rank.rank > r.rank.rank; at--)
			list[at] = list[at - 1];
		list[at] = r;
	}
	return n;
}

bool job_json__text(const struct session_info *info, uint32_t tgid, enum job_var v,
		    char buf[JOB_TEXT_MAX + 1])
{
	bool found = false;

	for (uint32_t i = 0; i < info->process_cnt && !found; i++) {
		const struct session_process *p = &info->processes[i];
		cJSON *tree = tgid && p->tgid != tgid ? NULL : parse(p);
		const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment");
		const char *text = cJSON_GetStringValue(
			cJSON_GetObjectItemCaseSensitive(env, job_vars[v].name));

		found = text && strlen(text) <= JOB_TEXT_MAX;
		if (found)
			memcpy(buf, text, strlen(text) + 1);
		cJSON_Delete(tree);
	}
	return found;
}

/* Is it in "0-3,8"? */
static bool in_list(const char *list, unsigned long cpu)
{
	char *end;

	for (const char *at = list; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
	}
	return false;
}

bool job_json__cpus(const struct session *s, const struct session_process *p, struct job_cpus *out)
{
	const char *meta = session__meta(s, "cpu_idle");
	cJSON *tree = parse(p), *idle = meta ? cJSON_ParseWithOpts(meta, NULL, 1) : NULL;
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment"), *v;
	const char *list = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tree, "cpus"));
	int64_t quota = number_of(tree, "cpu_quota_percent"), gpus = number_of(tree, "gpus"),
		ranks = number_of(env, job_vars[JOB_LOCAL_WORLD_SIZE].name);
	unsigned long cpu = 0;

	*out = (struct job_cpus){ .quota = quota > 0 ? (double)quota / 100 : 0,
				  .gpus = gpus > 0 ? (uint32_t)gpus : 0,
				  .ranks = ranks > 0 ? (uint32_t)ranks : 1,
				  .omp_threads =
					  number_of(env, job_vars[JOB_OMP_NUM_THREADS].name) };
	cJSON_ArrayForEach(v, idle)
	{
		bool own = in_list(list ? list : "", cpu++);

		out->allowed += own;
		*(own ? &out->idle : &out->others) +=
			is_number(v) ? fmin(v->valuedouble, 100) / 100 : 0;
	}
	cJSON_Delete(tree);
	cJSON_Delete(idle);
	return out->allowed;
}
