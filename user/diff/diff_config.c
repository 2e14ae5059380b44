/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How the two programs ran and were recorded: what differs, and what makes them incomparable. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "diff/diff_priv.h"
#include "export/facts_json.h"

typedef void (*config_fn)(const struct diff_side *ds, char *buf, size_t cap);

/* ---- of one side; "": nothing is known ---- */

static void put_command(const struct diff_side *ds, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", ds->proc->cmdline);
}

static void put_host(const struct diff_side *ds, char *buf, size_t cap)
{
	session_json__meta_text(ds->s, "host", buf, cap);
}

static void put_torch(const struct diff_side *ds, char *buf, size_t cap)
{
	session_json__meta_text(ds->s, "torch", buf, cap);
}

static void put_torch_library(const struct diff_side *ds, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", session__torch_lib(ds->s));
}

static void put_python(const struct diff_side *ds, char *buf, size_t cap)
{
	const char *json = session__meta(ds->s, "python");
	cJSON *tree = json ? cJSON_ParseWithOpts(json, NULL, 1) : NULL;
	const cJSON *one, *pid;

	cJSON_ArrayForEach(one, tree)
	{
		const char *version =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "version"));

		pid = cJSON_GetObjectItemCaseSensitive(one, "pid");
		if (cJSON_IsNumber(pid) && pid->valuedouble == ds->proc->pid && version)
			snprintf(buf, cap, "%s", version);
	}
	cJSON_Delete(tree);
}

static void put_cpus(const struct diff_side *ds, char *buf, size_t cap)
{
	struct job_cpus cpus;

	if (!job_json__cpus(ds->s, ds->proc, &cpus))
		return;
	snprintf(buf, cap, "%u", cpus.allowed);
	if (cpus.quota > 0)
		snprintf(buf, cap, "%u, %.3g of them at a time", cpus.allowed, cpus.quota);
}

static void put_omp(const struct diff_side *ds, char *buf, size_t cap)
{
	struct job_cpus cpus;

	job_json__cpus(ds->s, ds->proc, &cpus);
	if (cpus.omp_threads >= 0)
		snprintf(buf, cap, "%lld", (long long)cpus.omp_threads);
	else
		snprintf(buf, cap, "not set");
}

static void put_threads(const struct diff_side *ds, char *buf, size_t cap)
{
	if (session__info(ds->s)->has_sched)
		snprintf(buf, cap, "%u", ds->threads);
}

static void put_ranks(const struct diff_side *ds, char *buf, size_t cap)
{
	struct job_rank rank;

	if (job_json__rank_of(ds->proc, &rank))
		snprintf(buf, cap, "%u", rank.world_size);
}

static void put_gpu(const struct diff_side *ds, char *buf, size_t cap)
{
	const struct session_info *info = session__info(ds->s);

	for (uint32_t i = 0; i < info->device_cnt; i++)
		if (info->devices[i]) {
			snprintf(buf, cap, "%s", session__name(ds->s, info->devices[i]->name));
			return;
		}
}

static void put_steps(const struct diff_side *ds, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", ds->derived ? "derived" : "the program's own ProfilerStep");
}

static void put_recording(const struct diff_side *ds, char *buf, size_t cap)
{
	const struct session_info *i = session__info(ds->s);
	const struct {
		bool on;
		const char *name;
	} list[] = {
		{ i->has_shapes, "shapes" },        { i->has_results, "results" },
		{ i->has_memory, "memory" },        { i->has_kernel_memory, "kernel memory" },
		{ i->has_py_stacks, "stacks" },     { i->has_modules, "modules" },
		{ i->has_sched, "threads' waits" }, { i->has_gpu, "GPU activities" },
		{ i->with_samples, "samples" },
	};
	size_t len = (size_t)snprintf(buf, cap, "%s", ds->proc->source ? "agent" : "kernel probes");

	for (size_t k = 0; k < sizeof(list) / sizeof(*list) && len < cap; k++)
		if (list[k].on)
			len += (size_t)snprintf(buf + len, cap - len, ", %s", list[k].name);
}

static const struct {
	const char *what;
	config_fn put;
} rows[] = {
	{ "command", put_command },     { "host", put_host },
	{ "PyTorch", put_torch },       { "PyTorch library", put_torch_library },
	{ "Python", put_python },       { "CPUs", put_cpus },
	{ "OMP_NUM_THREADS", put_omp }, { "threads that work", put_threads },
	{ "ranks", put_ranks },         { "GPU", put_gpu },
	{ "steps", put_steps },         { "recorded", put_recording },
};

void diff_config__find(struct diff *d)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct diff_config c = { .what = "" };

		snprintf(c.what, sizeof(c.what), "%s", rows[i].what);
		for (uint32_t side = 0; side < DIFF_SIDES; side++)
			rows[i].put(&d->side[side], c.value[side], sizeof(c.value[side]));
		if (strcmp(c.value[DIFF_A], c.value[DIFF_B]) != 0)
			vec_push(d->configs, d->config_cnt, d->config_cap, c);
	}
}

/* ---- what cannot be compared ---- */

static bool differs(const struct diff *d, const char *what)
{
	for (uint32_t i = 0; i < d->config_cnt; i++)
		if (!strcmp(d->configs[i].what, what))
			return true;
	return false;
}

static bool is_recorded_otherwise(struct diff *d)
{
	const struct diff_side *a = &d->side[DIFF_A], *b = &d->side[DIFF_B];
	double cost = a->cost > b->cost ? a->cost : b->cost;

	if (d->by_later || !differs(d, "recorded") || cost < DIFF_COST_SHARE)
		return false;
	snprintf(
		d->reason, sizeof(d->reason),
		"recorded in other ways, which cost %.1f%% and %.1f%% of the time: record both alike",
		100 * a->cost, 100 * b->cost);
	return true;
}

static bool has_one_gpu_work(struct diff *d)
{
	const struct diff_side *a = &d->side[DIFF_A], *b = &d->side[DIFF_B];

	if (!session__info(a->s)->has_gpu || !session__info(b->s)->has_gpu ||
	    !a->totals.gpu_work == !b->totals.gpu_work)
		return false;
	snprintf(d->reason, sizeof(d->reason), "%s works on a GPU, the other one does not",
		 a->totals.gpu_work ? a->name : b->name);
	return true;
}

static bool is_other_program(struct diff *d)
{
	double share = diff_match__share(d);

	if (share >= DIFF_MATCHED_SHARE)
		return false;
	snprintf(d->reason, sizeof(d->reason),
		 "other operators: of their calls %.0f%% are in both captures", 100 * share);
	return true;
}

struct shape_sums {
	double all, other; /* calls a step; of them with shapes that are not in the other capture */
	double most;
	uint32_t place, text[DIFF_SIDES]; /* of the shapes with most calls */
};

static uint64_t calls_with(const struct diff *d, const struct diff_place *p, uint32_t side,
			   uint64_t shapes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->node_cnt[side]; i++) {
		const uint64_t *n =
			hashmap__get(&d->side[side].nodes[p->nodes[side][i]].shapes, shapes, 0);

		sum += n ? *n : 0;
	}
	return sum;
}

static void take_shapes(const struct diff *d, uint32_t place, uint32_t side, struct shape_sums *s)
{
	const struct diff_place *p = &d->places[place];
	double most = 0;

	for (uint32_t i = 0; i < p->node_cnt[side]; i++) {
		const struct diff_node *n = &d->side[side].nodes[p->nodes[side][i]];
		const struct hashmap_slot *slot;

		for (uint64_t pos = 0; (slot = hashmap__next(&n->shapes, &pos));) {
			double calls = (double)slot->val / d->side[side].cnt;
			bool other = !calls_with(d, p, !side, slot->k0);

			s->all += calls;
			s->other += other ? calls : 0;
			if (other &&
			    (calls > most || (calls >= most && slot->k0 < s->text[side]))) {
				most = calls;
				s->text[side] = (uint32_t)slot->k0;
			}
		}
	}
}

/* Of places that both have; the example is the one with most calls, and the first of those. */
static bool has_other_shapes(struct diff *d)
{
	struct shape_sums sum = { .all = 0 };
	char name[256];

	for (uint32_t p = 1; p < d->place_cnt; p++) {
		struct shape_sums one = { .all = 0 };

		for (uint32_t side = 0; side < DIFF_SIDES; side++)
			if (d->places[p].name[DIFF_A] && d->places[p].name[DIFF_B])
				take_shapes(d, p, side, &one);
		sum.all += one.all;
		sum.other += one.other;
		if (!one.text[DIFF_A] || !one.text[DIFF_B] || one.other <= sum.most)
			continue;
		sum.most = one.other;
		sum.place = p;
		memcpy(sum.text, one.text, sizeof(sum.text));
	}
	if (!sum.place)
		return false;
	diff_place__name(d, sum.place, name, sizeof(name));
	if (sum.other < DIFF_SHAPES_SHARE * sum.all) {
		struct diff_config c = { .what = "shapes" };

		for (uint32_t side = 0; side < DIFF_SIDES; side++)
			snprintf(c.value[side], sizeof(c.value[side]), "%.80s %s", name,
				 strtab__text(d->texts, sum.text[side]));
		vec_push(d->configs, d->config_cnt, d->config_cap, c);
		return false;
	}
	snprintf(d->reason, sizeof(d->reason),
		 "other shapes, in %.0f%% of the calls: %.80s of %.120s, and of %.120s",
		 100 * sum.other / sum.all, name, strtab__text(d->texts, sum.text[DIFF_A]),
		 strtab__text(d->texts, sum.text[DIFF_B]));
	return true;
}

bool diff_config__is_comparable(struct diff *d)
{
	if (differs(d, "steps")) {
		snprintf(d->reason, sizeof(d->reason),
			 "steps are the program's own in one capture, and derived in the other");
		return false;
	}
	return !has_one_gpu_work(d) && !is_other_program(d) && !has_other_shapes(d) &&
	       !is_recorded_otherwise(d);
}
