/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "gpu_log.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/containers.h"

/* Calls by time, then the rest by device, stream and time. */
static bool in_order(const struct gpu_slice *a, const struct gpu_slice *b)
{
	if ((a->what == GPU_API) != (b->what == GPU_API))
		return a->what == GPU_API;
	if (a->what != GPU_API) {
		if (a->device != b->device)
			return a->device < b->device;
		if (a->stream != b->stream)
			return a->stream < b->stream;
	}
	return a->begin_ns <= b->begin_ns;
}

static int on_gpu(void *arg, const struct gpu_slice *g)
{
	struct gpu_log *log = arg;

	if (g->end_ns <= g->begin_ns || !g->name || !g->launch_name || !g->kernel_name || !g->at.op ||
	    !g->at.outer_op || !g->at.annotation || (!g->rec) != (g->what == GPU_ANNOTATION) ||
	    (log->cnt && !in_order(&log->v[log->cnt - 1], g))) {
		fprintf(stderr, "GPU slice %u (%u, %s) breaks the contract\n", log->cnt, g->what,
			g->name ? g->name : "");
		abort();
	}
	if (vec_push(log->v, log->cnt, log->cap, *g))
		abort();
	return 0;
}

struct gpu_log *gpu_log__run(struct session *s)
{
	struct gpu_log *log = calloc(1, sizeof(*log));
	struct session_sink sink = { .arg = log, .gpu = on_gpu };

	if (!log || session__run(s, &sink, 1, &log->totals))
		abort();
	return log;
}

void gpu_log__free(struct gpu_log *log)
{
	free(log->v);
	free(log);
}
