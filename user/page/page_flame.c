/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The page's flame graph: the data of export/html/flamegraph.js. The tree is the page's. */
#include "base/jsonw.h"
#include "export/stack_tree.h"
#include "page/page_priv.h"

#define LEAST_SHARE 0.0005
#define NODES_MAX 10000

static int open_flame(const struct output_args *args, void **out)
{
	stack_tree__begin(args->tree, args->s);
	*out = args->tree;
	return 0;
}

static struct session_sink flame_sink(void *o)
{
	return stack_tree__sink(o);
}

static int finish_flame(void *o, const struct output_args *args)
{
	const struct session_info *info = session__info(args->s);
	struct jsonw w;
	uint32_t cnt;
	double least;

	stack_tree__nodes(o, &cnt);
	if (cnt < 2)
		return 0;
	page_json__begin(&w, args);
	JSONW_U64(&w, "node_count", cnt);
	JSONW_BOOL(&w, "cut", stack_tree__is_cut(o));
	JSONW_U64(&w, "sample_hz", info->sample_hz);
	JSONW_BOOL(&w, "has_stacks", info->has_py_stacks);
	least = flame_data__put(&w, o, 1, LEAST_SHARE, NODES_MAX);
	JSONW_DOUBLE(&w, "least", least);
	return page_json__end(&w);
}

static void free_flame(void *o)
{
	(void)o; /* the page's */
}

const struct output page_flame = {
	.open = open_flame,
	.sink = flame_sink,
	.finish = finish_flame,
	.free = free_flame,
};
