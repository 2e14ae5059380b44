/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Profiles of speedscope (https://www.speedscope.app/file-format-schema.json): one for each thread,
 * its samples in order of time, or of operators the self time of each in order of their ends; one
 * for the GPU work that each launched, with the kernels.
 */
#define LOG_DOMAIN "speedscope"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/output.h"
#include "export/stack_tree.h"

struct scope_sample {
	uint32_t node;
	bool waited; /* it was not running */
	uint64_t ns;
};

struct scope_profile {
	uint32_t tgid, tid;
	bool gpu;
	uint64_t ns;
	struct scope_sample *samples;
	uint32_t cnt, cap;
};

struct speedscope {
	const struct session *s;
	const struct session_info *info;
	struct out_file *of;
	struct jsonw w;
	uint32_t tgid; /* of this process; 0: of all */
	struct stack_tree *tree;
	struct scope_profile *profiles;
	uint32_t profile_cnt, profile_cap;
	struct hashmap profile_ids;
};

static void keep_charge(void *arg, const struct stack_charge *c)
{
	struct speedscope *sp = arg;
	const bool gpu = c->metric == STACK_GPU;
	struct scope_sample sample = { c->node, c->metric == STACK_WAITING, (uint64_t)c->v };
	struct scope_profile *p;

	if ((sp->tgid && c->tgid != sp->tgid) ||
	    !(gpu || c->metric == STACK_CPU || c->metric == STACK_RUNNING || sample.waited))
		return;
	p = list__keyed(KEYED_LIST(sp, profiles, profile), (uint64_t)c->tgid << 32 | c->tid, gpu);
	p->tgid = c->tgid;
	p->tid = c->tid;
	p->gpu = gpu;
	p->ns += sample.ns;
	if (p->cnt && p->samples[p->cnt - 1].node == sample.node &&
	    p->samples[p->cnt - 1].waited == sample.waited)
		p->samples[p->cnt - 1].ns += sample.ns;
	else
		vec_push(p->samples, p->cnt, p->cap, sample);
}

static void put_frames(struct speedscope *sp, uint32_t *waiting)
{
	const struct stack_frame *frames = stack_tree__frames(sp->tree, waiting);

	JSONW_OBJ(&sp->w, "shared");
	JSONW_ARR(&sp->w, "frames");
	for (uint32_t i = 0; i < *waiting; i++) {
		const struct stack_frame *f = &frames[i];
		const char *file = stack_tree__text(sp->tree, f->file);

		jsonw__begin_row(&sp->w);
		JSONW_STR(&sp->w, "name", stack_tree__text(sp->tree, stack_frame__shown(f)));
		JSONW_STR(&sp->w, "file", *file ? file : stack_kind__name(f->kind));
		if (f->line > 0)
			JSONW_U64(&sp->w, "line", (uint64_t)f->line);
		jsonw__end_obj(&sp->w);
	}
	jsonw__begin_row(&sp->w); /* innermost frame of what did not run */
	JSONW_STR(&sp->w, "name", "(not running)");
	JSONW_STR(&sp->w, "file", stack_kind__name(STACK_GROUP));
	jsonw__end_obj(&sp->w);
	jsonw__end_arr(&sp->w);
	jsonw__end_obj(&sp->w);
}

/* Outermost first. */
static void put_sample(struct speedscope *sp, const struct scope_sample *sample, uint32_t waiting)
{
	uint32_t cnt, depth = 0;
	const struct stack_node *nodes = stack_tree__nodes(sp->tree, &cnt);
	uint32_t *frames;

	for (uint32_t n = sample->node; n; n = nodes[n].parent)
		depth++;
	frames = xmalloc(((size_t)depth + 1) * sizeof(*frames));
	cnt = depth;
	for (uint32_t n = sample->node; n; n = nodes[n].parent)
		frames[--depth] = nodes[n].frame;
	jsonw__begin_arr(&sp->w);
	for (uint32_t i = 0; i < cnt; i++)
		jsonw__u64(&sp->w, frames[i]);
	if (sample->waited)
		jsonw__u64(&sp->w, waiting);
	jsonw__end_arr(&sp->w);
	free(frames);
}

static void put_name(struct speedscope *sp, const struct scope_profile *p)
{
	char name[256], process[32] = "";

	if (sp->info->process_cnt > 1)
		snprintf(process, sizeof(process), " of process %u", p->tgid);
	snprintf(name, sizeof(name), "%sthread %u %s%s", p->gpu ? "GPU work launched by " : "",
		 p->tid, session__thread_label(sp->s, p->tgid, p->tid), process);
	JSONW_STR(&sp->w, "name", name);
}

static void put_profile(struct speedscope *sp, const struct scope_profile *p, uint32_t waiting)
{
	jsonw__begin_row(&sp->w);
	JSONW_STR(&sp->w, "type", "sampled");
	put_name(sp, p);
	JSONW_STR(&sp->w, "unit", "nanoseconds");
	JSONW_U64(&sp->w, "startValue", 0);
	JSONW_U64(&sp->w, "endValue", p->ns);
	JSONW_ARR(&sp->w, "samples");
	for (uint32_t i = 0; i < p->cnt; i++)
		put_sample(sp, &p->samples[i], waiting);
	jsonw__end_arr(&sp->w);
	JSONW_ARR(&sp->w, "weights");
	for (uint32_t i = 0; i < p->cnt; i++)
		jsonw__u64(&sp->w, p->samples[i].ns);
	jsonw__end_arr(&sp->w);
	jsonw__end_obj(&sp->w);
}

/* ---- interface ---- */

static struct session_sink scope_sink(void *o)
{
	return stack_tree__sink(((struct speedscope *)o)->tree);
}

static int finish_scope(void *o, const struct output_args *args)
{
	struct speedscope *sp = o;
	uint32_t waiting;

	jsonw__begin_obj(&sp->w);
	JSONW_STR(&sp->w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	JSONW_STR(&sp->w, "exporter", "ptbpf " PTBPF_VERSION);
	JSONW_STR(&sp->w, "name", path__base(args->capture));
	JSONW_U64(&sp->w, "activeProfileIndex", 0);
	put_frames(sp, &waiting);
	JSONW_ARR(&sp->w, "profiles");
	for (uint32_t i = 0; i < sp->profile_cnt; i++)
		put_profile(sp, &sp->profiles[i], waiting);
	jsonw__end_arr(&sp->w);
	jsonw__end_obj(&sp->w);
	jsonw__newline(&sp->w);
	return out_file__end_json(sp->of, &sp->w);
}

static void free_scope(void *o)
{
	struct speedscope *sp = o;

	if (!sp)
		return;
	for (uint32_t i = 0; i < sp->profile_cnt; i++)
		free(sp->profiles[i].samples);
	out_file__free(sp->of);
	jsonw__free(&sp->w);
	stack_tree__free(sp->tree);
	hashmap__clear(&sp->profile_ids);
	free(sp->profiles);
	free(sp);
}

static int open_scope(const struct output_args *args, void **out)
{
	struct speedscope *sp = xcalloc(1, sizeof(*sp));
	int err = args->tgid ? output__choose_process(args, &sp->tgid) : 0;

	sp->s = args->s;
	sp->info = session__info(args->s);
	sp->tree = stack_tree__new();
	stack_tree__begin(sp->tree, args->s);
	stack_tree__add_kernels(sp->tree);
	stack_tree__watch(sp->tree, keep_charge, sp);
	if (!err)
		out_file__open_json(args, &sp->of, &sp->w);
	if (err)
		free_scope(sp);
	else
		*out = sp;
	return err;
}

const struct output speedscope_output = {
	.title = "profiles",
	.viewer = "speedscope.app",
	.open = open_scope,
	.sink = scope_sink,
	.finish = finish_scope,
	.free = free_scope,
};
