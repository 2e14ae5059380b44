/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See job_json.h. */
#include "export/job_json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"

#define NUMBER_MAX 0xffffffffu

static const struct {
	const char *key;
	bool number;
} facts[] = {
	{ "ns_pid", true },        { "cgroup", false },
	{ "container_id", false }, { "container_runtime", false },
	{ "pod_uid", false },
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

/* -1: none, or another value. */
static int64_t number_of(const cJSON *object, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);

	if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > NUMBER_MAX ||
	    floor(v->valuedouble) < v->valuedouble)
		return -1;
	return (int64_t)v->valuedouble;
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

bool job_json__rank_of(const struct session_process *p, struct job_rank *out)
{
	cJSON *tree = parse(p);
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment");
	int64_t numbers[JOB_VAR_CNT];
	bool found;

	for (int v = 0; v < JOB_VAR_CNT; v++)
		numbers[v] = job_vars[v].number ? number_of(env, job_vars[v].name) : -1;
	found = job_vars__rank(numbers, out);
	cJSON_Delete(tree);
	return found;
}

bool job_json__rank(const struct session_info *info, uint32_t tgid, struct job_rank *out)
{
	struct job_rank r;
	bool found = false;

	for (uint32_t i = 0; i < info->process_cnt && !cancel__pending(); i++) {
		const struct session_process *p = &info->processes[i];

		if ((tgid && p->tgid != tgid) || !job_json__rank_of(p, &r) || (found && r.by_slurm))
			continue;
		*out = r;
		found = true;
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

	for (uint32_t i = 0; i < info->process_cnt && !found && !cancel__pending(); i++) {
		const struct session_process *p = &info->processes[i];
		cJSON *tree = tgid && p->tgid != tgid ? NULL : parse(p);
		const cJSON *env = cJSON_GetObjectItemCaseSensitive(tree, "environment");
		const char *text =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(env, job_vars[v].name));

		found = text && strlen(text) <= JOB_TEXT_MAX;
		if (found)
			memcpy(buf, text, strlen(text) + 1);
		cJSON_Delete(tree);
	}
	return found;
}
