/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The Chrome trace that torch.profiler's export_chrome_trace() writes, in one streaming pass: the order
 * of the file's parts and the state they need (output, clock, threads seen). Must not interpret records.
 */
#define LOG_DOMAIN "chrome_trace"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hashmap.h"
#include "base/log.h"
#include "base/vec.h"
#include "export/chrome_priv.h"
#include "export/out_file.h"

#define TEXT_BUF_SZ (256 * 1024)

struct seen_thread {
	uint32_t tgid, tid;
};

struct chrome_trace {
	const struct session *s;
	const struct session_info *info;
	struct out_file *of;
	struct jsonw w;
	struct chrome_clock clock;
	struct chrome_args_opts args;
	struct op_schemas schemas;
	struct chrome_memory *memory;
	struct chrome_gpu *gpu;
	char *trace_name;
	struct seen_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids; /* (tgid, tid): those in threads */
};

/* The file is as long as one of this capture may be: nothing more but its end. */
static bool is_full(const struct chrome_trace *ct)
{
	return ct->info->output_max && jsonw__bytes(&ct->w) >= ct->info->output_max;
}

static uint64_t rel(const struct chrome_trace *ct, uint64_t mono_ns)
{
	return chrome_clock__rel(&ct->clock, mono_ns);
}

/* What is known before the first slice: metadata, processes, lost intervals. */
static void write_head(struct chrome_trace *ct, const struct chrome_opts *opts)
{
	const struct session_info *info = ct->info;
	uint32_t i;

	chrome_meta__head(&ct->w, ct->s, opts, &ct->clock);
	for (i = 0; i < info->process_cnt; i++)
		chrome_event__process(&ct->w, &info->processes[i], rel(ct, info->begin_ns));
	for (i = 0; i < info->lost_cnt && !is_full(ct); i++) {
		const struct session_lost *l = &info->lost[i];
		/* an agent's last chunks come, and may be lost, after the window */
		uint64_t at = chrome_clock__in_window(&ct->clock, info, l->begin_ns);

		chrome_event__lost(&ct->w, info->process_cnt ? info->processes[0].tgid : 0, l, at,
				   at + rel(ct, l->end_ns) - rel(ct, l->begin_ns));
	}
}

int chrome_trace__open(const char *path, const struct session *s, const struct chrome_opts *opts,
		       struct chrome_trace **out)
{
	struct chrome_trace *ct = calloc(1, sizeof(*ct));
	int err = -ENOMEM;

	if (!ct)
		goto fail;
	ct->s = s;
	ct->info = session__info(s);
	ct->clock = chrome_clock__init(ct->info);
	ct->args.no_concrete = opts->no_concrete_inputs;
	ct->args.schemas = &ct->schemas;
	ct->args.kernel_memory = ct->info->has_kernel_memory;
	ct->trace_name = strdup(opts->trace_name ? opts->trace_name : path);
	if (!ct->trace_name)
		goto fail;
	err = out_file__open(path, &ct->of);
	if (err) {
		chrome_trace__free(ct);
		return err; /* logged where the path is known */
	}
	err = jsonw__init(&ct->w, out_file__write, ct->of, TEXT_BUF_SZ);
	if (err)
		goto fail;
	err = -ENOMEM;
	ct->memory = chrome_memory__new(&ct->w, ct->info, &ct->clock);
	ct->gpu = chrome_gpu__new(&ct->w, s, &ct->clock);
	if (!ct->memory || !ct->gpu)
		goto fail;
	write_head(ct, opts);
	if (ct->w.err) {
		err = ct->w.err;
		chrome_trace__free(ct);
		return err;
	}
	*out = ct;
	return 0;
fail:
	pr_error("cannot write '%s': %s", path, errstr(err));
	chrome_trace__free(ct);
	return err;
}

static int on_slice(void *arg, const struct slice *sl)
{
	struct chrome_trace *ct = arg;
	int err;

	if (is_full(ct))
		return SESSION_SINK_FULL;
	err = chrome_gpu__slice(ct->gpu, sl);
	chrome_event__slice(&ct->w, sl, &ct->args, rel(ct, sl->begin_ns), rel(ct, sl->end_ns));
	return err ? err : ct->w.err;
}

static int on_flow(void *arg, const struct fwdbwd *fl)
{
	struct chrome_trace *ct = arg;

	if (is_full(ct))
		return SESSION_SINK_FULL;
	chrome_event__flow(&ct->w, 's', fl->id, fl->fwd_tgid, fl->fwd_tid, rel(ct, fl->fwd_begin_ns));
	chrome_event__flow(&ct->w, 'f', fl->id, fl->fwd_tgid, fl->bwd_tid, rel(ct, fl->bwd_begin_ns));
	return ct->w.err;
}

static int on_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	struct chrome_trace *ct = arg;

	if (vec_reserve((void **)&ct->threads, &ct->thread_cap, (uint64_t)ct->thread_cnt + 1,
			sizeof(*ct->threads)) ||
	    hashmap__put(&ct->thread_ids, tgid, tid, 1)) {
		pr_error("cannot note thread %u of '%s': %s", tid, ct->trace_name, errstr(ENOMEM));
		return -ENOMEM;
	}
	ct->threads[ct->thread_cnt++] = (struct seen_thread){ .tgid = tgid, .tid = tid };
	return 0;
}

static int on_memory(void *arg, const struct memory_event *ev)
{
	struct chrome_trace *ct = arg;

	return is_full(ct) ? SESSION_SINK_FULL : chrome_memory__event(ct->memory, ev);
}

static int on_kernel(void *arg, const struct kernel_event *ev)
{
	struct chrome_trace *ct = arg;

	return is_full(ct) ? SESSION_SINK_FULL : chrome_memory__kernel(ct->memory, ev);
}

/* A thread may call CUDA without ever running an operator. */
static int on_gpu(void *arg, const struct gpu_slice *g)
{
	struct chrome_trace *ct = arg;
	int err = 0;

	if (is_full(ct))
		return SESSION_SINK_FULL;
	if (g->what == GPU_API && !hashmap__get(&ct->thread_ids, g->at.tgid, g->at.tid))
		err = on_thread(ct, g->at.tgid, g->at.tid);
	return err ? err : chrome_gpu__event(ct->gpu, g);
}

struct session_sink chrome_trace__sink(struct chrome_trace *ct)
{
	return (struct session_sink){ .arg = ct,
				      .slice = on_slice,
				      .flow = on_flow,
				      .thread = on_thread,
				      .memory = on_memory,
				      .kernel = on_kernel,
				      .gpu = on_gpu };
}

int chrome_trace__finish(struct chrome_trace *ct, const struct session_totals *totals)
{
	uint64_t begin = rel(ct, ct->info->begin_ns), end = rel(ct, ct->info->end_ns);
	int err = chrome_memory__finish(ct->memory);
	uint32_t i;

	for (i = 0; i < ct->thread_cnt; i++) {
		const struct seen_thread *t = &ct->threads[i];

		chrome_event__thread(&ct->w, t->tgid, t->tid,
				     session__thread_comm(ct->s, t->tgid, t->tid), begin);
	}
	chrome_gpu__finish(ct->gpu);
	chrome_event__span(&ct->w, begin, end);
	chrome_meta__tail(&ct->w, ct->info, totals, chrome_gpu__totals(ct->gpu), ct->trace_name);
	if (!err)
		err = jsonw__flush(&ct->w);
	if (!err)
		err = out_file__commit(ct->of);
	out_file__free(ct->of);
	ct->of = NULL;
	return err;
}

void chrome_trace__free(struct chrome_trace *ct)
{
	if (!ct)
		return;
	out_file__free(ct->of);
	jsonw__free(&ct->w);
	chrome_memory__free(ct->memory);
	chrome_gpu__free(ct->gpu);
	hashmap__clear(&ct->thread_ids);
	op_schemas__clear(&ct->schemas);
	free(ct->trace_name);
	free(ct->threads);
	free(ct);
}
