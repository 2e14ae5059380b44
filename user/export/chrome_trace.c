/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The Chrome trace that torch.profiler's export_chrome_trace() writes, in one streaming pass: the
 * order of the file's parts and the state they need (output, clock, threads seen), and its
 * top-level keys: torch's own in torch's order, then ptbpf's. What is known before the first slice
 * stands before traceEvents (streaming consumers stop there), what only a whole pass yields stands
 * in "ptbpf_totals" after it. Must not interpret records.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"
#include "export/facts_json.h"
#include "export/gpu_text.h"
#include "export/output.h"
#include "export/perfetto_priv.h"

/* A quarter of a year: kineto counts from the last multiple, so that a double holds ns and the
 * files of all hosts share one base (libkineto output_json.cpp, ChromeTraceBaseTime). */
#define QUARTER_S 7889238ULL

static struct chrome_clock clock_of(const struct session_info *info)
{
	int64_t unix_ns = (int64_t)info->begin_ns + info->mono_to_unix_ns;
	uint64_t s = unix_ns > 0 ? (uint64_t)unix_ns / 1000000000ULL : 0;

	return (struct chrome_clock){ .base_unix_ns = s / QUARTER_S * QUARTER_S * 1000000000ULL,
				      .mono_to_unix_ns = info->mono_to_unix_ns };
}

uint64_t chrome_clock__rel(const struct chrome_clock *c, uint64_t mono_ns)
{
	int64_t ns = (int64_t)(mono_ns + (uint64_t)c->mono_to_unix_ns - c->base_unix_ns);

	return ns > 0 ? (uint64_t)ns : 0;
}

uint64_t chrome_clock__in_window(const struct chrome_clock *c, const struct session_info *info,
				 uint64_t mono_ns)
{
	if (mono_ns > info->end_ns)
		mono_ns = info->end_ns;
	return chrome_clock__rel(c, mono_ns < info->begin_ns ? info->begin_ns : mono_ns);
}

/* ---- top-level keys ---- */

/* Devices (libkineto DeviceProperties.cpp) and versions, where the capture knows them. */
static void write_device(struct jsonw *w, const struct session *s, const struct ptb_gpu_device *d)
{
	jsonw__begin_row(w);
	JSONW_U64(w, "id", d->id);
	JSONW_STR(w, "name", session__name(s, d->name));
	JSONW_U64(w, "totalGlobalMem", d->memory_bytes);
	JSONW_U64(w, "computeMajor", d->major);
	JSONW_U64(w, "computeMinor", d->minor);
	JSONW_U64(w, "maxThreadsPerBlock", d->max_threads_per_block);
	JSONW_U64(w, "maxThreadsPerMultiprocessor", (uint64_t)d->max_warps_per_sm * d->warp_size);
	JSONW_U64(w, "regsPerBlock", d->regs_per_block);
	JSONW_U64(w, "warpSize", d->warp_size);
	JSONW_U64(w, "sharedMemPerBlock", d->shared_per_block);
	JSONW_U64(w, "numSms", d->sm_cnt);
	JSONW_U64(w, "regsPerMultiprocessor", d->regs_per_sm);
	JSONW_U64(w, "sharedMemPerBlockOptin", gpu_device__shared_optin(d));
	JSONW_U64(w, "sharedMemPerMultiprocessor", d->shared_per_sm);
	jsonw__end_obj(w);
}

static void write_devices(struct jsonw *w, const struct session *s)
{
	const struct session_info *info = session__info(s);

	JSONW_ARR(w, "deviceProperties");
	for (uint32_t i = 0; i < info->device_cnt; i++)
		write_device(w, s, info->devices[i]);
	jsonw__end_arr(w);
}

/* Of the first process whose agent recorded it. */
static double version_of(const cJSON *agents, const char *key)
{
	const cJSON *a;

	cJSON_ArrayForEach(a, agents)
	{
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(a, key);

		if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble < 1e9)
			return v->valuedouble;
	}
	return 0;
}

static void write_versions(struct jsonw *w, const struct session *s)
{
	static const char *const keys[] = { "cupti_version", "cuda_runtime_version",
					    "cuda_driver_version" };
	const char *json = session__meta(s, "agent");
	cJSON *agents = json ? cJSON_Parse(json) : NULL;

	for (size_t i = 0; session__info(s)->has_gpu && i < sizeof(keys) / sizeof(keys[0]); i++) {
		double v = cJSON_IsArray(agents) ? version_of(agents, keys[i]) : 0;

		if (v < 1)
			continue;
		jsonw__break(w);
		jsonw__key(w, keys[i]);
		jsonw__u64(w, (uint64_t)v);
	}
	cJSON_Delete(agents);
}

static uint64_t mix64(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return h ^ h >> 32;
}

/*
 * 32 upper-case hex digits as torch's, but the same for each export of one capture: host, first
 * process and the window's begin make it; version digit 8 of RFC 9562, "custom".
 */
static void make_trace_id(const struct session_info *info, const char *host, char out[33])
{
	uint64_t unix_ns = info->begin_ns + (uint64_t)info->mono_to_unix_ns;
	uint64_t hi = mix64(0x7074627066ULL, unix_ns),
		 lo = mix64(0x747261636532ULL, info->begin_ns);

	if (info->process_cnt) {
		hi = mix64(hi, info->processes[0].tgid);
		lo = mix64(lo, info->processes[0].start_ns ^ info->processes[0].tgid);
	}
	for (; *host; host++) {
		hi = mix64(hi, (unsigned char)*host);
		lo = mix64(lo, hi);
	}
	hi = (hi & ~0xf000ULL) | 0x8000;
	lo = (lo & ~(3ULL << 62)) | 2ULL << 62;
	snprintf(out, 33, "%016" PRIX64 "%016" PRIX64, hi, lo);
}

/* What captures had before each process had its own. False: none. */
static bool old_rank(const struct session *s, struct job_rank *out)
{
	const char *json = session__meta(s, "distributedInfo");
	cJSON *tree = json ? cJSON_Parse(json) : NULL;
	const cJSON *rank = cJSON_GetObjectItemCaseSensitive(tree, "rank");
	const cJSON *world = cJSON_GetObjectItemCaseSensitive(tree, "world_size");
	bool good = cJSON_IsNumber(rank) && cJSON_IsNumber(world) && rank->valueint >= 0 &&
		    world->valueint > rank->valueint;

	if (good)
		*out = (struct job_rank){ .rank = (uint32_t)rank->valueint,
					  .world_size = (uint32_t)world->valueint };
	cJSON_Delete(tree);
	return good;
}

/*
 * Some consumers take rank 0 for every file without a rank and let them overwrite each other, so it
 * is always here: 0 of 1 where none is known.
 */
static void write_rank(struct jsonw *w, const struct session *s, uint32_t tgid)
{
	struct job_rank r = { .world_size = 1 };
	const struct session_process *p = job_json__rank(session__info(s), tgid, &r);

	if (!p && !tgid)
		old_rank(s, &r);
	jsonw__break(w);
	JSONW_KEY(w, "distributedInfo");
	if (p && job_json__distributed(w, p))
		return;
	jsonw__begin_obj(w);
	JSONW_STR(w, "backend", "");
	JSONW_U64(w, "rank", r.rank);
	JSONW_U64(w, "world_size", r.world_size);
	jsonw__end_obj(w);
}

/* As torch: kineto libkineto/src/EnvMetadata.h. */
static void write_job_names(struct jsonw *w, const struct session *s, uint32_t tgid)
{
	char text[JOB_TEXT_MAX + 1];

	for (int v = JOB_PT_PROFILER_JOB_NAME; v <= JOB_PT_PROFILER_JOB_ATTEMPT_INDEX; v++) {
		if (!job_json__text(session__info(s), tgid, (enum job_var)v, text))
			continue;
		jsonw__break(w);
		jsonw__key(w, job_vars[v].name);
		jsonw__str(w, text);
	}
}

/* Of one process of several captures its own. */
static void host_of(const struct session *s, uint32_t tgid, char *buf, size_t cap)
{
	const struct session_process *p = session__info(s)->merged ? session__process(s, tgid) :
								     NULL;

	if (p)
		snprintf(buf, cap, "%s", p->host);
	else
		session_json__meta_text(s, "host", buf, cap);
}

static void write_meta(struct jsonw *w, const struct session *s, uint32_t tgid,
		       const struct chrome_clock *clock)
{
	char host[256], trace_id[33];

	host_of(s, tgid, host, sizeof(host));
	make_trace_id(session__info(s), host, trace_id);
	jsonw__begin_obj(w);
	jsonw__break(w);
	JSONW_U64(w, "schemaVersion", 1);
	jsonw__break(w);
	write_devices(w, s);
	jsonw__break(w);
	JSONW_STR(w, "trace_id", trace_id);
	if (session__info(s)->has_py_stacks && !session__info(s)->sample_hz) {
		jsonw__break(w);
		JSONW_U64(w, "with_stack", 1);
	}
	if (session__info(s)->has_modules) {
		jsonw__break(w);
		JSONW_U64(w, "with_modules", 1);
	}
	if (session__info(s)->has_memory) {
		jsonw__break(w);
		JSONW_U64(w, "profile_memory", 1);
	}
	if (session__info(s)->has_shapes) {
		jsonw__break(w);
		JSONW_U64(w, "record_shapes", 1);
	}
	write_versions(w, s);
	jsonw__break(w);
	JSONW_STR(w, "host_name", host);
	write_job_names(w, s, tgid);
	write_rank(w, s, tgid);
	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf");
	session_json__write(w, s);
	jsonw__end_obj(w);
	jsonw__break(w);
	JSONW_STR(w, "displayTimeUnit", "ms");
	jsonw__break(w);
	JSONW_U64(w, "baseTimeNanoseconds", clock->base_unix_ns);
	jsonw__break(w);
	JSONW_ARR(w, "traceEvents");
}

static void write_gpu_totals(struct jsonw *w, const struct chrome_gpu_totals *t)
{
	JSONW_OBJ(w, "gpu");
	JSONW_U64(w, "work", t->work);
	JSONW_U64(w, "calls", t->calls);
	JSONW_U64(w, "calls_not_shown", t->hidden);
	JSONW_U64(w, "calls_clipped", t->clipped);
	JSONW_U64(w, "calls_clipped_beyond_clock_error", t->clipped_more);
	JSONW_U64(w, "calls_left_out", t->left_out);
	JSONW_U64(w, "flows", t->flows);
	JSONW_U64(w, "annotations", t->annotations);
	JSONW_U64(w, "synchronisations", t->syncs);
	JSONW_U64(w, "events", t->events);
	JSONW_U64(w, "overheads", t->overheads);
	jsonw__end_obj(w);
}

/* ---- the file ---- */

struct seen_thread {
	uint32_t tgid, tid;
};

struct chrome_trace {
	const struct session *s;
	const struct session_info *info;
	uint32_t only; /* the process that it is of, 0: all */
	struct out_file *of;
	struct jsonw w;
	struct perfetto *perfetto; /* takes what is written; NULL: it is JSON */
	struct chrome_clock clock;
	struct chrome_args_opts args;
	struct op_schemas schemas;
	struct chrome_memory *memory;
	struct chrome_sched *sched;
	struct chrome_gpu *gpu;
	struct chrome_python *python;
	struct seen_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids; /* (tgid, tid): those in threads */
};

static uint64_t trace_time(const struct chrome_trace *ct, uint64_t mono_ns)
{
	return chrome_clock__rel(&ct->clock, mono_ns);
}

static bool is_other(const struct chrome_trace *ct, uint32_t tgid)
{
	return ct->only && tgid != ct->only;
}

#define NO_RANK_LAST (1U << 28)
/* Ranks in their order, others behind them. */
static void write_merged_process(struct chrome_trace *ct, const struct session_process *p)
{
	const char *comm = p->comm && *p->comm ? p->comm : "python";
	struct job_rank r = { .rank = 0 };
	bool has_rank = job_json__rank_of(p, &r);
	struct session_process named = *p;
	char name[512], rank[32] = "";

	if (has_rank)
		snprintf(rank, sizeof(rank), "rank %u, ", r.rank);
	snprintf(name, sizeof(name), "%s (%s%s, pid %u)", comm, rank, p->host, p->pid);
	named.comm = name;
	chrome_event__process(&ct->w, p->tgid, &named, "CPU", has_rank ? r.rank : NO_RANK_LAST,
			      trace_time(ct, ct->info->begin_ns));
}

/* What is known before the first slice: metadata, processes, lost intervals. */
static void write_head(struct chrome_trace *ct)
{
	const struct session_info *info = ct->info;

	write_meta(&ct->w, ct->s, ct->only, &ct->clock);
	for (uint32_t i = 0; i < info->process_cnt; i++) {
		const struct session_process *p = &info->processes[i];

		if (is_other(ct, p->tgid))
			continue;
		if (info->merged)
			write_merged_process(ct, p);
		else
			chrome_event__process(&ct->w, p->tgid, p, "CPU", p->tgid,
					      trace_time(ct, info->begin_ns));
	}
	for (uint32_t i = 0; i < info->lost_cnt; i++) {
		const struct session_lost *l = &info->lost[i];
		/* an agent's last chunks come, and may be lost, after the window */
		uint64_t at = chrome_clock__in_window(&ct->clock, info, l->begin_ns);

		chrome_event__lost(&ct->w, info->process_cnt ? info->processes[0].tgid : 0, l, at,
				   at + trace_time(ct, l->end_ns) - trace_time(ct, l->begin_ns));
	}
}

static int begin_trace(struct chrome_trace *ct, const struct output_args *args)
{
	const struct session *s = args->s;

	ct->s = s;
	ct->info = session__info(s);
	if (args->tgid && output__choose_process(args, &ct->only))
		return -ESRCH;
	ct->clock = clock_of(ct->info);
	ct->args.schemas = &ct->schemas;
	ct->args.kernel_memory = ct->info->has_kernel_memory;
	ct->args.inputs = ct->info->has_shapes;
	ct->args.overload_names = args->overload_names > 0;
	ct->memory = chrome_memory__new(&ct->w, ct->info, &ct->clock, ct->only);
	ct->sched = chrome_sched__new(&ct->w, s, &ct->clock);
	ct->gpu = chrome_gpu__new(&ct->w, s, &ct->clock);
	ct->python = chrome_python__new(&ct->w, s, &ct->clock, ct->gpu);
	out_file__open_json(args, &ct->of, &ct->w);
	if (args->output == &perfetto_output) {
		ct->perfetto = perfetto__new(s, &ct->clock, ct->of);
		ct->w.take = perfetto__take;
		ct->w.take_arg = ct->perfetto;
	}
	write_head(ct);
	return 0;
}

static void write_slice(void *arg, const struct slice *sl)
{
	struct chrome_trace *ct = arg;

	if (is_other(ct, sl->tgid))
		return;
	chrome_gpu__slice(ct->gpu, sl);
	chrome_python__slice(ct->python, sl);
	chrome_event__slice(&ct->w, sl, &ct->args, ct->python, trace_time(ct, sl->begin_ns),
			    trace_time(ct, sl->end_ns));
}

static void write_flow(void *arg, const struct fwdbwd *fl)
{
	struct chrome_trace *ct = arg;
	struct chrome_flow from, to;

	if (is_other(ct, fl->fwd_tgid))
		return;
	from = (struct chrome_flow){ fl->id, fl->fwd_tgid, fl->fwd_tid,
				     trace_time(ct, fl->fwd_begin_ns) };
	to = (struct chrome_flow){ fl->id, fl->fwd_tgid, fl->bwd_tid,
				   trace_time(ct, fl->bwd_begin_ns) };
	chrome_event__flow(&ct->w, "fwdbwd", true, &from);
	chrome_event__flow(&ct->w, "fwdbwd", false, &to);
}

static void note_thread(void *arg, uint32_t tgid, uint32_t tid)
{
	struct chrome_trace *ct = arg;
	struct seen_thread *t;

	if (is_other(ct, tgid))
		return;
	t = list__keyed(KEYED_LIST(ct, threads, thread), tgid, tid);
	*t = (struct seen_thread){ .tgid = tgid, .tid = tid };
}

static void write_memory(void *arg, const struct memory_event *ev)
{
	struct chrome_trace *ct = arg;

	if (!is_other(ct, ev->at.tgid))
		chrome_memory__event(ct->memory, ev);
}

static void write_kernel_memory(void *arg, const struct kernel_event *ev)
{
	struct chrome_trace *ct = arg;

	if (!is_other(ct, ev->rec->tgid))
		chrome_memory__kernel(ct->memory, ev);
}

static void write_sample(void *arg, const struct py_sample *ps)
{
	struct chrome_trace *ct = arg;

	if (is_other(ct, ps->tgid))
		return;
	note_thread(ct, ps->tgid, ps->tid); /* a thread without any operator */
	chrome_python__sample(ct->python, ps);
}

static void write_sched(void *arg, const struct sched_event *ev)
{
	struct chrome_trace *ct = arg;

	if (!is_other(ct, ev->at.tgid))
		chrome_sched__event(ct->sched, ev);
}

/* A thread may call CUDA without ever running an operator. */
static void write_gpu_record(void *arg, const struct gpu_slice *g)
{
	struct chrome_trace *ct = arg;

	chrome_python__finish(ct->python);
	if (is_other(ct, g->at.tgid))
		return;
	if (g->what == GPU_API)
		note_thread(ct, g->at.tgid, g->at.tid);
	chrome_gpu__event(ct->gpu, g);
}

static struct session_sink trace_sink(void *o)
{
	return (struct session_sink){ .arg = o,
				      .slice = write_slice,
				      .flow = write_flow,
				      .thread = note_thread,
				      .memory = write_memory,
				      .kernel = write_kernel_memory,
				      .sample = write_sample,
				      .sched = write_sched,
				      .gpu = write_gpu_record };
}

static void write_python_totals(struct jsonw *w, const struct chrome_python_totals *t)
{
	JSONW_OBJ(w, "python");
	JSONW_U64(w, "functions", t->functions);
	JSONW_U64(w, "functions_not_drawn", t->not_drawn);
	jsonw__end_obj(w);
}

static void write_tail(struct chrome_trace *ct, const struct output_args *args)
{
	const struct session_info *info = ct->info;
	struct jsonw *w = &ct->w;

	jsonw__newline(w);
	jsonw__end_arr(w);
	jsonw__break(w);
	JSONW_OBJ(w, "ptbpf_totals");
	if (ct->only)
		JSONW_U64(w, "only_pid", ct->only);
	session_json__write_totals(w, info, args->totals);
	if (info->has_gpu || info->has_cuda_calls)
		write_gpu_totals(w, chrome_gpu__totals(ct->gpu));
	if (info->has_py_stacks)
		write_python_totals(w, chrome_python__totals(ct->python));
	jsonw__end_obj(w);
	jsonw__break(w);
	JSONW_STR(w, "traceName", args->path);
	jsonw__newline(w);
	jsonw__end_obj(w);
	jsonw__newline(w);
}

/* Thread names, span, window end, the loss account. */
static int finish_trace(void *o, const struct output_args *args)
{
	struct chrome_trace *ct = o;
	uint64_t begin = trace_time(ct, ct->info->begin_ns), end = trace_time(ct, ct->info->end_ns);

	chrome_memory__finish(ct->memory);
	chrome_sched__finish(ct->sched);
	chrome_python__finish(ct->python);
	for (uint32_t i = 0; i < ct->thread_cnt; i++) {
		const struct seen_thread *t = &ct->threads[i];
		char name[64];

		snprintf(name, sizeof(name), "thread %u (%s)", t->tid,
			 session__thread_comm(ct->s, t->tgid, t->tid));
		chrome_event__thread(&ct->w, t->tgid, t->tid, t->tid, name,
				     session__thread_name(ct->s, t->tgid, t->tid), begin);
	}
	chrome_gpu__finish(ct->gpu);
	chrome_event__span(&ct->w, begin, end);
	write_tail(ct, args);
	return out_file__end_json(ct->of, &ct->w);
}

static void free_trace(void *o)
{
	struct chrome_trace *ct = o;

	if (!ct)
		return;
	out_file__free(ct->of);
	jsonw__free(&ct->w);
	chrome_memory__free(ct->memory);
	chrome_sched__free(ct->sched);
	chrome_gpu__free(ct->gpu);
	chrome_python__free(ct->python);
	perfetto__free(ct->perfetto);
	hashmap__clear(&ct->thread_ids);
	op_schemas__clear(&ct->schemas);
	free(ct->threads);
	free(ct);
}

static int open_trace(const struct output_args *args, void **out)
{
	struct chrome_trace *ct = xcalloc(1, sizeof(*ct));
	int err = begin_trace(ct, args);

	if (err)
		free_trace(ct);
	else
		*out = ct;
	return err;
}

const struct output chrome_output = {
	.title = "trace",
	.viewer = "ui.perfetto.dev",
	.open = open_trace,
	.sink = trace_sink,
	.finish = finish_trace,
	.free = free_trace,
};

const struct output perfetto_output = {
	.title = "trace",
	.viewer = "ui.perfetto.dev",
	.open = open_trace,
	.sink = trace_sink,
	.finish = finish_trace,
	.free = free_trace,
};
