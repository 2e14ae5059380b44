/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The tree of calls as html/flamegraph.js reads it, without what is too narrow to be seen. */
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/mem.h"
#include "export/stack_tree.h"

static const struct {
	const char *name, *unit;
} metrics[] = {
#define X(id, key, name, unit) { name, unit },
	STACK_METRICS(X)
#undef X
};

struct flame_data {
	const struct stack_tree *tree;
	const struct stack_node *nodes;
	const struct stack_frame *frames;
	uint32_t cnt, frame_cnt, sessions;
	bool metrics[STACK_METRIC_CNT]; /* that anything has */
	/* number of a node among those that are written: its own, or that of its caller which has
	 * its sums */
	uint32_t *at;
	bool *kept;
	uint32_t kept_cnt;
	uint32_t *frame_at, *text_at; /* the same of frames and texts; UINT32_MAX: not written */
};

/* Metrics of which no node has any are not offered; if none has, the first is. */
static void choose_metrics(struct flame_data *fd)
{
	bool any = false;

	for (uint32_t i = 0; i < fd->cnt; i++)
		for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
			any |= fd->metrics[m] |= fd->nodes[i].self[0][m] > 0 ||
						 fd->nodes[i].self[1][m] > 0;
	fd->metrics[STACK_CPU] |= !any;
}

/* Nodes with that share of any metric in either session, and what is above them. */
static void keep_wide(struct flame_data *fd, double least)
{
	int64_t *sums = xcalloc(fd->cnt, sizeof(*sums));

	for (uint32_t run = 0; run < fd->sessions; run++)
		for (uint32_t m = 0; m < STACK_METRIC_CNT; m++) {
			if (!fd->metrics[m])
				continue;
			for (uint32_t i = 0; i < fd->cnt; i++)
				sums[i] = fd->nodes[i].self[run][m];
			for (uint32_t i = fd->cnt - 1; i; i--)
				stack_sum__add(&sums[fd->nodes[i].parent], sums[i]);
			for (uint32_t i = 0; i < fd->cnt; i++)
				fd->kept[i] |= sums[i] > 0 &&
					       (double)sums[i] >= least * (double)sums[0];
		}
	free(sums);
}

static void number_nodes(struct flame_data *fd)
{
	for (uint32_t i = fd->cnt - 1; i; i--)
		fd->kept[fd->nodes[i].parent] |= fd->kept[i];
	fd->kept[0] = true;
	fd->kept_cnt = 0;
	for (uint32_t i = 0; i < fd->cnt; i++)
		fd->at[i] = fd->kept[i] ? fd->kept_cnt++ : fd->at[fd->nodes[i].parent];
}

/* The least share, which is raised until the nodes are as few as requested. */
static double choose_nodes(struct flame_data *fd, double least, uint32_t max)
{
	for (;; least *= 2) {
		memset(fd->kept, least <= 0, fd->cnt * sizeof(*fd->kept));
		if (least > 0)
			keep_wide(fd, least);
		number_nodes(fd);
		if (least <= 0 || fd->kept_cnt <= max)
			return least;
	}
}

static void put_frames(struct jsonw *w, struct flame_data *fd)
{
	uint32_t texts = stack_tree__text_cnt(fd->tree) + 1, n = 0;

	memset(fd->frame_at, 0xff, fd->frame_cnt * sizeof(*fd->frame_at));
	memset(fd->text_at, 0xff, texts * sizeof(*fd->text_at));
	for (uint32_t i = 0; i < fd->cnt; i++)
		if (fd->kept[i])
			fd->frame_at[fd->nodes[i].frame] = 0;
	for (uint32_t i = 0; i < fd->frame_cnt; i++)
		if (!fd->frame_at[i])
			fd->text_at[stack_frame__shown(&fd->frames[i])] =
				fd->text_at[fd->frames[i].file] = 0;
	JSONW_ARR(w, "strings");
	for (uint32_t i = 0; i < texts; i++)
		if (!fd->text_at[i]) {
			fd->text_at[i] = n++;
			jsonw__str(w, stack_tree__text(fd->tree, i));
		}
	jsonw__end_arr(w);
	JSONW_ARR(w, "frames");
	n = 0;
	for (uint32_t i = 0; i < fd->frame_cnt; i++) {
		const struct stack_frame *f = &fd->frames[i];

		if (fd->frame_at[i])
			continue;
		fd->frame_at[i] = n++;
		jsonw__begin_arr(w);
		jsonw__u64(w, f->kind);
		jsonw__u64(w, fd->text_at[stack_frame__shown(f)]);
		jsonw__u64(w, fd->text_at[f->file]);
		jsonw__i64(w, f->line);
		jsonw__end_arr(w);
	}
	jsonw__end_arr(w);
}

static void put_nodes(struct jsonw *w, const struct flame_data *fd)
{
	JSONW_ARR(w, "parent");
	for (uint32_t i = 0; i < fd->cnt; i++)
		if (fd->kept[i])
			jsonw__i64(w, i ? (int64_t)fd->at[fd->nodes[i].parent] : -1);
	jsonw__end_arr(w);
	JSONW_ARR(w, "frame");
	for (uint32_t i = 0; i < fd->cnt; i++)
		if (fd->kept[i])
			jsonw__u64(w, fd->frame_at[fd->nodes[i].frame]);
	jsonw__end_arr(w);
}

static void put_metric(struct jsonw *w, const struct flame_data *fd, uint32_t run, uint32_t m)
{
	int64_t *own = xcalloc(fd->kept_cnt, sizeof(*own));

	for (uint32_t i = 0; i < fd->cnt; i++)
		stack_sum__add(&own[fd->at[i]], fd->nodes[i].self[run][m]);
	jsonw__begin_arr(w);
	for (uint32_t i = 0; i < fd->kept_cnt; i++)
		jsonw__i64(w, own[i]);
	jsonw__end_arr(w);
	free(own);
}

static void put_data(struct jsonw *w, struct flame_data *fd)
{
	JSONW_ARR(w, "metrics");
	for (uint32_t m = 0; m < STACK_METRIC_CNT; m++) {
		if (!fd->metrics[m])
			continue;
		jsonw__begin_obj(w);
		JSONW_STR(w, "name", metrics[m].name);
		JSONW_STR(w, "unit", metrics[m].unit);
		jsonw__end_obj(w);
	}
	jsonw__end_arr(w);
	put_frames(w, fd);
	put_nodes(w, fd);
	JSONW_ARR(w, "self");
	for (uint32_t run = 0; run < fd->sessions; run++) {
		jsonw__begin_arr(w);
		for (uint32_t m = 0; m < STACK_METRIC_CNT; m++)
			if (fd->metrics[m])
				put_metric(w, fd, run, m);
		jsonw__end_arr(w);
	}
	jsonw__end_arr(w);
}

double flame_data__put(struct jsonw *w, const struct stack_tree *st, uint32_t sessions,
		       double least, uint32_t max)
{
	struct flame_data fd = { .tree = st, .sessions = sessions };

	fd.nodes = stack_tree__nodes(st, &fd.cnt);
	fd.frames = stack_tree__frames(st, &fd.frame_cnt);
	fd.at = xcalloc(fd.cnt, sizeof(*fd.at));
	fd.kept = xcalloc(fd.cnt, sizeof(*fd.kept));
	fd.frame_at = xcalloc(fd.frame_cnt, sizeof(*fd.frame_at));
	fd.text_at = xcalloc(stack_tree__text_cnt(st) + 1ULL, sizeof(*fd.text_at));
	choose_metrics(&fd);
	least = choose_nodes(&fd, least, max);
	put_data(w, &fd);
	free(fd.at);
	free(fd.kept);
	free(fd.frame_at);
	free(fd.text_at);
	return least;
}
