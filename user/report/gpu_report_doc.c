/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --gpu` as a document: first whether each GPU is busy, and if not why, in a few lines,
 * then lists, only of what there is data for. Key names are a contract:
 * schemas/formats/gpu_report.schema.json.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/report_priv.h"

#define REASONS_ON_TOP 4

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0.0;
}

static double window_share(const struct gpu_report *gr, uint64_t ns)
{
	return (double)ns / (double)gr__window_ns(gr);
}

/* ---- the first lines ---- */

static void say_head(struct doc *d, const struct gpu_report *gr)
{
	const struct session_info *info = gr->info;
	uint32_t i;

	doc__say(d, "GPUs of ");
	for (i = 0; i < info->process_cnt && i < 3; i++) {
		const char *comm = info->processes[i].comm;

		doc__say(d, "%sprocess %u (", i ? ", " : "", info->processes[i].tgid);
		doc__cut(d, comm ? comm : "", "", 32);
		doc__say(d, ")");
	}
	if (i < info->process_cnt)
		doc__say(d, " and %u more", info->process_cnt - i);
	doc__line(d, ", %.3f s", (double)gr__window_ns(gr) / 1e9);
}

/* "synchronisation: cudaStreamSynchronize in aten::item" */
static const char *reason_text(const struct gpu_report *gr, const struct gr_reason *why,
			       char buf[640])
{
	char where[512];

	gr__where_text(gr, where, sizeof(where), why);
	snprintf(buf, 640, "%s%s%s", gr_causes[why->cause].text, *where ? ": " : "", where);
	return buf;
}

static void say_reasons(struct doc *d, const struct gpu_report *gr, const struct gr_device *dev)
{
	uint32_t n = 0;
	char text[640];

	for (uint32_t i = 0; i < gr->why_cnt && n < REASONS_ON_TOP; i++) {
		const struct gr_why *y = &gr->whys[i];

		if (y->device != dev->id)
			continue;
		doc__say(d, "           %5.1f %%  %10s  ",
			 100 * share(y->ns, dev->idle_ns + dev->short_ns),
			 cell__duration(y->ns).text);
		doc__cut(d, reason_text(gr, &y->why, text), "", 0);
		doc__end_line(d);
		n++;
	}
}

static void say_device(struct doc *d, const struct gpu_report *gr, const struct gr_device *dev)
{
	const struct gr_latency *l = &dev->idle_stream;
	uint64_t idle = dev->idle_ns + dev->short_ns;

	doc__say(d, "  GPU %u  ", dev->id);
	doc__cut(d, dev->props ? session__name(gr->s, dev->props->name) : "", "", 40);
	doc__end_line(d);
	if (dev->last_work == dev->first_work) {
		doc__line(d, "    busy           never: nothing was launched on it");
		return;
	}
	doc__say(d, "    busy           %.1f %% of the time with kernels",
		 100 * window_share(gr, dev->kernel_ns));
	if (dev->copies + dev->fills)
		doc__say(d, ", %.1f %% with copies and fills too",
			 100 * window_share(gr, dev->work_ns));
	doc__end_line(d);
	if (idle) {
		doc__line(d, "    no kernel for  %s, because", cell__duration(idle).text);
		say_reasons(d, gr, dev);
	}
	if (l->cnt)
		doc__line(
			d,
			"    launches       begin %s later on an idle stream (median; p90 %s, p99 %s)",
			cell__duration(l->median).text, cell__duration(l->p90).text,
			cell__duration(l->p99).text);
	if (dev->all.cnt)
		doc__line(d,
			  "    queue          %.1f launches deep on average, %" PRIu64 " at most",
			  dev->depth_mean, dev->depth_max);
}

/* ---- devices ---- */

static void add_latency(struct doc *d, const char *key, const struct gr_latency *l)
{
	doc__object(d, key);
	DOC(d, FACT("count", l->cnt), FACT("median_ns", l->median), FACT("p90_ns", l->p90),
	    FACT("p99_ns", l->p99));
	doc__end(d);
}

static void add_devices(struct doc *d, const struct gpu_report *gr)
{
	uint32_t causes[GR_CAUSE_CNT], cause_cnt;

	doc__all(d, "gpus", gr->device_cnt, NULL);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_device *dev = &gr->devices[i];

		if (gr->info->has_gpu)
			say_device(d, gr, dev);
		DOC(d, FACT("id", dev->id),
		    FACT("name", dev->props ? session__name(gr->s, dev->props->name) : ""),
		    FACT("kernels", dev->kernels), FACT("copies", dev->copies),
		    FACT("fills", dev->fills), FACT("kernel_busy_ns", dev->kernel_ns),
		    FACT("busy_ns", dev->work_ns),
		    FACT("kernel_busy_share", window_share(gr, dev->kernel_ns)),
		    FACT("busy_share", window_share(gr, dev->work_ns)),
		    FACT("gap_ns", dev->idle_ns), FACT("gap_count", dev->gap_cnt),
		    FACT("short_gap_ns", dev->short_ns), FACT("short_gap_count", dev->short_cnt));
		for (uint32_t c = cause_cnt = 0; c < GR_CAUSE_CNT; c++)
			if (dev->cause_cnt[c])
				causes[cause_cnt++] = c;
		doc__all(d, "causes", cause_cnt, NULL);
		for (uint32_t n; doc__next(d, &n);)
			DOC(d, FACT("cause", gr_causes[causes[n]].text),
			    FACT("count", dev->cause_cnt[causes[n]]),
			    FACT("ns", dev->cause_ns[causes[n]]));
		add_latency(d, "latency_idle_stream", &dev->idle_stream);
		add_latency(d, "latency", &dev->all);
		DOC(d, FACT("queue_depth_mean", dev->depth_mean),
		    FACT("queue_depth_max", dev->depth_max));
	}
	if (gr->info->has_gpu && !gr->work_cnt)
		doc__line(d, "  No GPU was active in the window.");
}

/* ---- lists of the text: rows of all devices ---- */

static void add_cause_table(struct doc *d, const struct gpu_report *gr)
{
	static const struct doc_column columns[] = {
		{ ".gpu", "GPU", 3, NULL, 0, 0 },      { ".share", "share", 7, unit__share, 0, 0 },
		{ ".ns", "time", 11, unit__ns, 0, 0 }, { ".gaps", "gaps", 8, NULL, 0, 0 },
		{ ".cause", "cause", -1, NULL, 0, 0 }, { 0 },
	};

	doc__title(d, "Time without a kernel, by cause (%u gaps of %d us or more)", gr->gap_cnt,
		   GR_GAP_MIN_NS / 1000);
	doc__all(d, NULL, gr->gap_cnt ? gr->device_cnt * (GR_CAUSE_CNT + 1) : 0, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_device *dev = &gr->devices[i / (GR_CAUSE_CNT + 1)];
		uint32_t c = i % (GR_CAUSE_CNT + 1);
		bool is_short = c == GR_CAUSE_CNT;
		uint64_t cnt = is_short ? dev->short_cnt : dev->cause_cnt[c];
		uint64_t ns = is_short ? dev->short_ns : dev->cause_ns[c];

		if (!cnt)
			continue;
		DOC(d, FACT(".gpu", dev->id),
		    FACT(".share", share(ns, dev->idle_ns + dev->short_ns)), FACT(".ns", ns),
		    FACT(".gaps", cnt));
		if (is_short)
			doc__cell(d, ".cause", "from one kernel to the next: shorter than %d us",
				  GR_GAP_MIN_NS / 1000);
		else
			doc__cell(d, ".cause", "%s: %s", gr_causes[c].text, gr_causes[c].sentence);
	}
}

static void add_latency_table(struct doc *d, const struct gpu_report *gr)
{
	static const struct doc_column columns[] = {
		{ ".gpu", "GPU", 3, NULL, 0, 0 },
		{ ".launches", "launches", 9, NULL, 0, 0 },
		{ ".median", "median", 11, unit__ns, 0, 0 },
		{ ".p90", "p90", 11, unit__ns, 0, 0 },
		{ ".p99", "p99", 11, unit__ns, 0, 0 },
		{ ".what", NULL, -1, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "From the end of the launching call to the start of its work");
	doc__all(d, NULL, gr->work_cnt ? gr->device_cnt * 2 : 0, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_device *dev = &gr->devices[i / 2];
		const struct gr_latency *l = i % 2 ? &dev->all : &dev->idle_stream;

		if (l->cnt)
			DOC(d, FACT(".gpu", dev->id), FACT(".launches", l->cnt),
			    FACT(".median", l->median), FACT(".p90", l->p90), FACT(".p99", l->p99),
			    FACT(".what", i % 2 ? "all work, with what waited behind other work" :
						  "onto an idle stream"));
	}
}

/* ---- gaps ---- */

static void add_reason(struct doc *d, const struct gpu_report *gr, const struct gr_reason *why)
{
	static const char *const where[] = { "python", "operator", "call", "" };
	uint32_t op = why->where == GR_IN_OP ? why->what : why->op;
	uint32_t call = why->where == GR_IN_CALL ? why->what : 0;
	char text[640];

	DOC(d, FACT("cause", gr_causes[why->cause].text), FACT("where", where[why->where]),
	    FACT("operator", GR_TEXT(gr, op)), FACT("call", call ? GR_TEXT(gr, call) : ""),
	    FACT("annotation", GR_TEXT(gr, why->annotation)),
	    FACT(".reason", reason_text(gr, why, text)));
}

static void add_gaps(struct doc *d, const struct gpu_report *gr)
{
	static const struct doc_column reasons[] = {
		{ "device", "GPU", 3, NULL, 0, 0 },
		{ "ns", "time", 11, unit__ns, 0, 0 },
		{ "count", "gaps", 8, NULL, 0, 0 },
		{ "longest_ns", "longest", 11, unit__ns, 0, 0 },
		{ ".reason", "cause: where", 0, NULL, 0, 0 },
		{ 0 },
	};
	static const struct doc_column gaps[] = {
		{ "device", "GPU", 3, NULL, 0, 0 },
		{ "ns", "time", 11, unit__ns, 0, 0 },
		{ ".at", "at", 14, NULL, 0, 0 },
		{ ".reason", "cause: where", 0, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "Host activity in these gaps");
	DOC(d, FACT("reason_count", gr->why_cnt));
	doc__list(d, "reasons", gr->why_cnt, reasons);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_why *y = &gr->whys[i];

		DOC(d, FACT("device", y->device));
		add_reason(d, gr, &y->why);
		DOC(d, FACT("count", y->cnt), FACT("ns", y->ns), FACT("longest_ns", y->max_ns));
	}
	doc__title(d, "Longest gaps");
	DOC(d, FACT("gap_count", gr->gap_cnt));
	doc__list(d, "gaps", gr->gap_cnt, gaps);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_gap *g = &gr->gaps[i];
		uint64_t at = g->begin - gr->info->begin_ns;

		doc__cell(d, ".at", "%+12.6f s", (double)at / 1e9);
		DOC(d, FACT("device", g->device), FACT("begin_ns", at),
		    FACT("ns", g->end - g->begin));
		add_reason(d, gr, &g->why);
	}
}

/* ---- kernels ---- */

/* Without activities these are launches, and the times those of the launching calls. */
static void add_kernels(struct doc *d, const struct gpu_report *gr)
{
	const struct doc_column work[] = {
		{ "ns", "share", 7, NULL, (double)gr->kernel_ns, 0 },
		{ "ns", "total", 11, unit__ns, 0, 0 },
		{ "count", "count", 8, NULL, 0, 0 },
		{ ".mean", "mean", 10, unit__ns, 0, 0 },
		{ "longest_ns", "longest", 10, unit__ns, 0, 0 },
		{ "name", "name, operator that launches most of it", 0, NULL, 0, 0 },
		{ 0 },
	};
	static const struct doc_column launches[] = {
		{ "count", "launches", 8, NULL, 0, 0 },
		{ "ns", "in the call", 11, unit__ns, 0, 0 },
		{ "name", "name, operator that launches most", 0, NULL, 0, 0 },
		{ 0 },
	};
	char below[512];

	doc__title(d, gr->info->has_gpu ? "Kernels: %s in all" : "Kernels launched",
		   cell__duration(gr->kernel_ns).text);
	DOC(d, FACT("kernel_ns", gr->kernel_ns), FACT("kernel_count", gr->kernel_cnt));
	doc__list(d, "kernels", gr->kernel_cnt, gr->info->has_gpu ? work : launches);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_kernel *k = &gr->kernels[i];

		DOC(d, FACT("name", GR_TEXT(gr, k->name)), FACT("count", k->cnt), FACT("ns", k->ns),
		    FACT("shortest_ns", k->min_ns), FACT("longest_ns", k->max_ns),
		    FACT("operator", GR_TEXT(gr, k->op)), FACT("operator_ns", k->op_ns),
		    FACT(".mean", k->ns / k->cnt));
		snprintf(below, sizeof(below), "<- %s", GR_TEXT(gr, k->op));
		if (k->op)
			doc__below(d, below, "");
	}
}

/* What captured it, "forward > aten::linear > aten::addmm": of a long text the end is kept. */
static void add_origin(struct doc *d, const struct gpu_report *gr, const struct gr_origin *c)
{
	bool known = c->within != GR_UNKNOWN;
	const char *within = known ? GR_TEXT(gr, c->within) : "", *last = within;

	DOC(d, FACT("known", known), FACT("operator", GR_TEXT(gr, c->op)), FACT("within", within),
	    FACT("count", c->cnt), FACT("ns", c->ns));
	for (const char *next = strstr(within, " > "); next; next = strstr(next + 1, " > "))
		last = next;
	if (!known || !*within)
		doc__cell(d, ".what", known ? "  (no operator)" : "  (not known)");
	else
		doc__cell(d, ".what", "  %.*s", (int)(last - within), within);
	doc__tail(d, last);
}

static void add_graphs(struct doc *d, const struct gpu_report *gr)
{
	const struct gr_graphs *gs = &gr->graphs;
	const struct doc_column columns[] = {
		{ "ns", "share", 7, NULL, (double)gs->ns, 0 },
		{ "ns", "total", 11, unit__ns, 0, 0 },
		{ "count", "count", 8, NULL, 0, 0 },
		{ ".what", "captured in", 0, NULL, 0, 0 },
		{ 0 },
	};
	struct doc_column origins[sizeof(columns) / sizeof(*columns)];

	memcpy(origins, columns, sizeof(columns));
	for (uint32_t n = 0; columns[n].key; n++)
		origins[n].heading = NULL;
	doc__title(d, "CUDA graphs: %s in all, by what captured it", cell__duration(gs->ns).text);
	DOC(d, FACT("graph_count", gs->graph_cnt), FACT("graph_ns", gs->ns),
	    FACT("graph_work_unknown", gs->unknown));
	doc__list(d, "graphs", gs->graph_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_graph *g = &gs->graphs[i];

		doc__cell(d, ".what", "graph %u of process %u, %" PRIu64 " launches", g->graph,
			  g->tgid, g->launches);
		DOC(d, FACT("pid", g->tgid), FACT("graph", g->graph), FACT("launches", g->launches),
		    FACT("count", g->cnt), FACT("ns", g->ns),
		    FACT("captured_in_count", g->origin_cnt));
		doc__list(d, "captured_in", g->origin_cnt, origins);
		for (uint32_t k; doc__next(d, &k);)
			add_origin(d, gr, &gs->origins[g->first_origin + k]);
	}
	if (gs->graph_cnt && gs->unknown)
		doc__line(
			d,
			"  Of %" PRIu64
			" kernels, copies and fills it is not known what captured them: that was before "
			"the window, or --activities cpu,cuda,graphs was not given",
			gs->unknown);
}

/* ---- copies, streams, calls ---- */

static void add_copies(struct doc *d, const struct gpu_report *gr)
{
	static const struct doc_column columns[] = {
		{ "ns", "total", 11, unit__ns, 0, 0 },
		{ "count", "count", 8, NULL, 0, 0 },
		{ "bytes", "bytes", 11, cell__bytes, 0, 0 },
		{ ".bandwidth", "bandwidth", 13, NULL, 0, 0 },
		{ "name", "direction", -1, NULL, 0, 0 },
		{ 0 },
	};
	char name[GR_COPY_MAX];

	doc__title(d, "Copies and fills");
	DOC(d, FACT("copy_count", gr->copy_cnt));
	doc__list(d, "copies", gr->copy_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_copy *c = &gr->copies[i];

		doc__cell(d, ".bandwidth", "%.2f GB/s", share(c->bytes, c->ns));
		DOC(d, FACT("name", gr__copy_text(gr, name, c)), FACT("fill", c->fill),
		    FACT("device", c->device), FACT("to_device", c->to_device),
		    FACT("count", c->cnt), FACT("bytes", c->bytes), FACT("ns", c->ns),
		    FACT("longest_ns", c->max_ns));
	}
}

static void add_streams(struct doc *d, const struct gpu_report *gr)
{
	const double window = (double)gr__window_ns(gr);
	const struct doc_column columns[] = {
		{ "device", "GPU", 3, NULL, 0, 0 },
		{ "stream", "stream", 7, NULL, 0, 0 },
		{ "kernels", "kernels", 9, NULL, 0, 0 },
		{ "kernel_busy_ns", "busy", 9, NULL, window, 0 },
		{ "busy_ns", "all work", 9, NULL, window, 0 },
		{ "copies", "copies", 9, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "Streams");
	DOC(d, FACT("stream_count", gr->stream_cnt));
	doc__list(d, "streams", gr->stream_cnt, columns);
	for (uint32_t i; doc__next(d, &i);) {
		const struct gr_stream *st = &gr->streams[i];

		DOC(d, FACT("device", st->device), FACT("stream", st->stream),
		    FACT("kernels", st->kernels), FACT("copies", st->copies),
		    FACT("kernel_busy_ns", st->kernel_ns), FACT("busy_ns", st->work_ns),
		    FACT("busy_share", window_share(gr, st->work_ns)));
	}
}

static void add_call(struct doc *d, const struct gpu_report *gr, const struct gr_api *a)
{
	const struct gr_reason at = {
		.where = GR_IN_CALL, .what = a->name, .op = a->op, .annotation = a->annotation
	};
	char where[512], note[128] = "";

	DOC(d, FACT("name", GR_TEXT(gr, a->name)), FACT("driver", a->driver),
	    FACT("host_only", a->host_only), FACT("waits", a->waits),
	    FACT("operator", GR_TEXT(gr, a->op)), FACT("annotation", GR_TEXT(gr, a->annotation)),
	    FACT("count", a->cnt), FACT("ns", a->ns), FACT("longest_ns", a->max_ns),
	    FACT("bytes", a->bytes), FACT("errors", a->errors), FACT("no_result", a->no_result),
	    FACT(".mean", a->ns / a->cnt), a->bytes ? FACT(".bytes", a->bytes) : NO_FACT,
	    FACT(".where", gr__where_text(gr, where, sizeof(where), &at)));
	if (a->errors)
		snprintf(note, sizeof(note), ", %" PRIu64 " failed", a->errors);
	if (a->no_result)
		snprintf(note + strlen(note), sizeof(note) - strlen(note),
			 ", of %" PRIu64 " the return was not seen", a->no_result);
	doc__tail(d, note);
}

static void add_calls(struct doc *d, const struct gpu_report *gr)
{
	static const struct doc_column columns[] = {
		{ "ns", "total", 11, unit__ns, 0, 0 },
		{ "count", "count", 8, NULL, 0, 0 },
		{ ".mean", "mean", 10, unit__ns, 0, 0 },
		{ ".bytes", "bytes", 11, cell__bytes, 0, 0 },
		{ ".where", "call", 0, NULL, 0, 0 },
		{ 0 },
	};
	static const struct doc_column overheads[] = {
		{ "ns", NULL, 11, unit__ns, 0, 0 },
		{ "count", NULL, 8, NULL, 0, 0 },
		{ "name", NULL, 0, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(d, "Calls of CUDA on the host%s", gr->info->has_gpu ? "" : ", seen by uprobes");
	DOC(d, FACT("launch_count", gr->launches), FACT("launch_ns", gr->launch_ns),
	    FACT("call_count", gr->api_cnt));
	doc__list(d, "calls", gr->api_cnt, columns);
	for (uint32_t i; doc__next(d, &i);)
		add_call(d, gr, &gr->apis[i]);
	doc__title(d, "Cost of recording, as CUPTI reports it");
	doc__all(d, "overheads", gr->overhead_cnt, overheads);
	for (uint32_t i; doc__next(d, &i);)
		DOC(d, FACT("name", GR_TEXT(gr, gr->overheads[i].name)),
		    FACT("count", gr->overheads[i].cnt), FACT("ns", gr->overheads[i].ns));
}

/* ---- how it was recorded ---- */

/* Why agents did not record GPUs, as the recorder wrote it. */
static void say_agents(struct doc *d, const struct gpu_report *gr)
{
	const char *json = session__meta(gr->s, "agent");
	cJSON *agents = json ? cJSON_Parse(json) : NULL;
	const cJSON *a;

	cJSON_ArrayForEach(a, agents)
	{
		const cJSON *pid = cJSON_GetObjectItemCaseSensitive(a, "pid");
		const char *why =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "gpu_why"));
		bool recorded = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(a, "gpu"));

		if (!cJSON_IsNumber(pid) || !why || !*why)
			continue;
		doc__say(d, "  The agent in process %.0f %s GPU activities: ", pid->valuedouble,
			 recorded ? "stopped reporting" : "reported no");
		doc__cut(d, why, "", 300);
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(a, "host_calls")))
			doc__say(d, "; CUDA calls are from uprobes");
		doc__end_line(d);
	}
	cJSON_Delete(agents);
}

static void say_host(struct doc *d, const struct gpu_report *gr)
{
	uint64_t wait_ns = 0, waits = 0;

	for (uint32_t i = 0; i < gr->api_cnt; i++) {
		waits += gr->apis[i].waits ? gr->apis[i].cnt : 0;
		wait_ns += gr->apis[i].waits ? gr->apis[i].ns : 0;
	}
	doc__line(
		d,
		"  No agent recorded the GPU's work. CUDA calls of the host, recorded by uprobes:");
	doc__line(d, "  %" PRIu64 " launches, copies and fills, %.0f per second, %s in them",
		  gr->launches, (double)gr->launches / ((double)gr__window_ns(gr) / 1e9),
		  cell__duration(gr->launch_ns).text);
	doc__line(d,
		  "  the host waited for the GPU %" PRIu64
		  " times, %s in all, %.1f %% of one thread's time",
		  waits, cell__duration(wait_ns).text, 100 * window_share(gr, wait_ns));
}

static void say_trust(struct doc *d, const struct gpu_report *gr)
{
	if (!gr->info->has_gpu)
		return;
	doc__gap(d);
	doc__say(d, "GPU times are accurate to %s",
		 cell__duration(gr->info->gpu_clock_err_ns).text);
	if (gr->before_launch)
		doc__say(d, "; %" PRIu64 " of %u began before their launch by more than that",
			 gr->before_launch, gr->work_cnt);
	if (gr->unlinked)
		doc__say(d, "; %" PRIu64 " of %u have no launch in the capture", gr->unlinked,
			 gr->work_cnt);
	doc__end_line(d);
}

int gr_doc__finish(void *o, const struct output_args *args)
{
	struct gpu_report *gr = o;
	struct doc d;

	gr_rank__all(gr);
	doc__begin(&d, args);
	say_head(&d, gr);
	if (!gr->info->has_gpu && gr->info->has_cuda_calls)
		say_host(&d, gr);
	else if (!gr->info->has_gpu)
		doc__line(
			&d,
			"  No CUDA activity was recorded: attach with --gpu auto to a process that "
			"uses CUDA");
	DOC(&d, FACT("activities", gr->info->has_gpu), FACT("host_calls", gr->info->has_cuda_calls),
	    FACT("gap_min_ns", GR_GAP_MIN_NS), FACT("work_count", gr->work_cnt),
	    FACT("unlinked", gr->unlinked), FACT("before_launch", gr->before_launch));
	add_devices(&d, gr);
	add_cause_table(&d, gr);
	add_gaps(&d, gr);
	add_kernels(&d, gr);
	add_graphs(&d, gr);
	add_copies(&d, gr);
	add_streams(&d, gr);
	add_latency_table(&d, gr);
	add_calls(&d, gr);
	say_agents(&d, gr);
	say_trust(&d, gr);
	return doc__finish(&d);
}
