/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --gpu` for people: first whether each GPU is busy, and if not why, in a few lines, then lists. Only what
 * there is data for. Computes nothing that is not in the JSON as well.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/gpu_report_priv.h"

#define REASONS_ON_TOP 4

struct printer {
	const struct gpu_report *gr;
	const struct report_opts *opts;
	FILE *out;
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

/* The last cell of a row that has `used` columns so far. */
static void put_last(const struct printer *p, const char *text, int used)
{
	cell__put_last(p->out, text, (size_t)used, 30);
	fputc('\n', p->out);
}

/* As the last cell: "synchronisation: cudaStreamSynchronize in aten::item". */
static void put_reason(const struct printer *p, const struct gr_reason *why, int used)
{
	char where[512];

	gr__where_text(p->gr, where, sizeof(where), why);
	used += fprintf(p->out, "%s%s", gr_causes[why->cause].text, *where ? ": " : "");
	put_last(p, where, used);
}

/* As the last cell; below it the operator that launches most of it. */
static void put_kernel_name(const struct printer *p, const struct gr_kernel *k, int used)
{
	put_last(p, GR_TEXT(p->gr, k->name), used);
	if (!k->op)
		return;
	fprintf(p->out, "%*s<- ", used, "");
	cell__put_text(p->out, GR_TEXT(p->gr, k->op), 60);
	fputc('\n', p->out);
}

/* ---- the first lines ---- */

static void put_gpu_head(const struct printer *p)
{
	const struct session_info *info = p->gr->info;
	uint32_t i;

	fputs("GPUs of ", p->out);
	for (i = 0; i < info->process_cnt && i < 3; i++) {
		fprintf(p->out, "%sprocess %u (", i ? ", " : "", info->processes[i].tgid);
		cell__put_text(p->out, info->processes[i].comm ? info->processes[i].comm : "", 32);
		fputc(')', p->out);
	}
	if (i < info->process_cnt)
		fprintf(p->out, " and %u more", info->process_cnt - i);
	fprintf(p->out, ", %.3f s\n", (double)gr__window_ns(p->gr) / 1e9);
}

static void put_reasons(const struct printer *p, const struct gr_device *d)
{
	const struct gpu_report *gr = p->gr;
	uint32_t n = 0;

	for (uint32_t i = 0; i < gr->why_cnt && n < REASONS_ON_TOP; i++) {
		const struct gr_why *y = &gr->whys[i];
		int used;

		if (y->device != d->id)
			continue;
		used = fprintf(p->out, "           %5.1f %%  %10s  ",
			       percent(y->ns, d->idle_ns + d->short_ns), cell__duration(y->ns).text);
		put_reason(p, &y->why, used);
		n++;
	}
}

static void put_gpu_latency(const struct printer *p, const struct gr_device *d)
{
	const struct gr_latency *l = &d->idle_stream;

	if (!d->all.cnt)
		return;
	if (l->cnt)
		fprintf(p->out,
			"    launches       begin %s later on an idle stream (median; p90 %s, p99 %s)\n",
			cell__duration(l->median).text, cell__duration(l->p90).text,
			cell__duration(l->p99).text);
	fprintf(p->out, "    queue          %.1f launches deep on average, %" PRIu64 " at most\n",
		d->depth_mean, d->depth_max);
}

static void put_gpu_device(const struct printer *p, const struct gr_device *d)
{
	uint64_t window = gr__window_ns(p->gr), idle = d->idle_ns + d->short_ns;

	fprintf(p->out, "  GPU %u  ", d->id);
	cell__put_text(p->out, d->props ? session__name(p->gr->s, d->props->name) : "", 40);
	fputc('\n', p->out);
	if (d->last_work == d->first_work) {
		fputs("    busy           never: nothing was launched on it\n", p->out);
		return;
	}
	fprintf(p->out, "    busy           %.1f %% of the time with kernels",
		percent(d->kernel_ns, window));
	if (d->copies + d->fills)
		fprintf(p->out, ", %.1f %% with copies and fills too", percent(d->work_ns, window));
	fputc('\n', p->out);
	if (idle)
		fprintf(p->out, "    no kernel for  %s, because\n", cell__duration(idle).text);
	if (idle)
		put_reasons(p, d);
	put_gpu_latency(p, d);
}

/* ---- lists ---- */

static void put_causes(const struct printer *p)
{
	if (!p->gr->gap_cnt)
		return;
	report__title(p->out, "Time without a kernel, by cause (%u gaps of %d us or more)",
		      p->gr->gap_cnt, GR_GAP_MIN_NS / 1000);
	fprintf(p->out, "  %3s %7s %11s %8s  %s\n", "GPU", "share", "time", "gaps", "cause");
	for (uint32_t i = 0; i < p->gr->device_cnt; i++) {
		const struct gr_device *d = &p->gr->devices[i];
		uint64_t idle = d->idle_ns + d->short_ns;

		for (uint32_t c = 0; c < GR_CAUSE_CNT; c++)
			if (d->cause_cnt[c])
				fprintf(p->out, "  %3u %5.1f %% %11s %8" PRIu64 "  %s: %s\n", d->id,
					percent(d->cause_ns[c], idle),
					cell__duration(d->cause_ns[c]).text, d->cause_cnt[c],
					gr_causes[c].text, gr_causes[c].sentence);
		if (d->short_cnt)
			fprintf(p->out,
				"  %3u %5.1f %% %11s %8" PRIu64
				"  from one kernel to the next: shorter than %d us\n",
				d->id, percent(d->short_ns, idle), cell__duration(d->short_ns).text,
				d->short_cnt, GR_GAP_MIN_NS / 1000);
	}
}

static void put_whys(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->why_cnt, p->opts->row_limit);

	if (!gr->why_cnt)
		return;
	report__title(p->out, "Host activity in these gaps");
	fprintf(p->out, "  %3s %11s %8s %11s  %s\n", "GPU", "time", "gaps", "longest", "cause: where");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_why *y = &gr->whys[i];
		int used = fprintf(p->out, "  %3u %11s %8" PRIu64 " %11s  ", y->device,
				   cell__duration(y->ns).text, y->cnt, cell__duration(y->max_ns).text);

		put_reason(p, &y->why, used);
	}
	report__put_rest(p->out, shown, gr->why_cnt);
}

static void put_gpu_gaps(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->gap_cnt, p->opts->row_limit);

	if (!gr->gap_cnt)
		return;
	report__title(p->out, "Longest gaps");
	fprintf(p->out, "  %3s %11s %14s  %s\n", "GPU", "time", "at", "cause: where");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_gap *g = &gr->gaps[i];
		int used = fprintf(p->out, "  %3u %11s %+12.6f s  ", g->device,
				   cell__duration(g->end - g->begin).text,
				   (double)(g->begin - gr->info->begin_ns) / 1e9);

		put_reason(p, &g->why, used);
	}
	report__put_rest(p->out, shown, gr->gap_cnt);
}

static void put_gpu_kernels(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->kernel_cnt, p->opts->row_limit);

	if (!gr->kernel_cnt || !gr->info->has_gpu)
		return;
	report__title(p->out, "Kernels: %s in all", cell__duration(gr->kernel_ns).text);
	fprintf(p->out, "  %7s %11s %8s %10s %10s  %s\n", "share", "total", "count", "mean",
		"longest", "name, operator that launches most of it");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_kernel *k = &gr->kernels[i];
		int used = fprintf(p->out, "  %5.1f %% %11s %8" PRIu64 " %10s %10s  ",
				   percent(k->ns, gr->kernel_ns), cell__duration(k->ns).text, k->cnt,
				   cell__duration(k->ns / k->cnt).text, cell__duration(k->max_ns).text);

		put_kernel_name(p, k, used);
	}
	report__put_rest(p->out, shown, gr->kernel_cnt);
}

/* As the last cell; of a long text its end, where the operator is. */
static void put_origin(const struct printer *p, const struct gr_origin *c, int used)
{
	const char *text = c->within == GR_UNKNOWN ? "(not known)" :
			   c->within               ? GR_TEXT(p->gr, c->within) :
						     "(no operator)";
	size_t len = strlen(text), room = REPORT_LINE - (size_t)used;

	if (len > room) {
		fputs("...", p->out);
		text += len - (room - 3);
	}
	put_last(p, text, used);
}

static void put_graphs(const struct printer *p)
{
	const struct gr_graphs *gs = &p->gr->graphs;
	uint32_t shown = report__shown(gs->graph_cnt, p->opts->row_limit);

	if (!gs->graph_cnt)
		return;
	report__title(p->out, "CUDA graphs: %s in all, by what captured it", cell__duration(gs->ns).text);
	fprintf(p->out, "  %7s %11s %8s  %s\n", "share", "total", "count", "captured in");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_graph *g = &gs->graphs[i];
		uint32_t rows = report__shown(g->origin_cnt, p->opts->row_limit);

		fprintf(p->out,
			"  %5.1f %% %11s %8" PRIu64 "  graph %u of process %u, %" PRIu64 " launches\n",
			percent(g->ns, gs->ns), cell__duration(g->ns).text, g->cnt, g->graph,
			g->tgid, g->launches);
		for (uint32_t k = 0; k < rows; k++) {
			const struct gr_origin *c = &gs->origins[g->first_origin + k];
			int used = fprintf(p->out, "  %5.1f %% %11s %8" PRIu64 "    ",
					   percent(c->ns, gs->ns), cell__duration(c->ns).text, c->cnt);

			put_origin(p, c, used);
		}
		report__put_rest(p->out, rows, g->origin_cnt);
	}
	report__put_rest(p->out, shown, gs->graph_cnt);
	if (gs->unknown)
		fprintf(p->out,
			"  Of %" PRIu64
			" kernels, copies and fills it is not known what captured them: that was before "
			"the window, or --activities cpu,cuda,graphs was not given\n",
			gs->unknown);
}

static void put_gpu_copies(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->copy_cnt, p->opts->row_limit);
	char name[GR_COPY_MAX];

	if (!gr->copy_cnt)
		return;
	report__title(p->out, "Copies and fills");
	fprintf(p->out, "  %11s %8s %11s %13s  %s\n", "total", "count", "bytes", "bandwidth", "direction");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_copy *c = &gr->copies[i];

		fprintf(p->out, "  %11s %8" PRIu64 " %11s %8.2f GB/s  %s\n",
			cell__duration(c->ns).text, c->cnt, cell__bytes((double)c->bytes).text,
			c->ns ? (double)c->bytes / (double)c->ns : 0.0, gr__copy_text(gr, name, c));
	}
	report__put_rest(p->out, shown, gr->copy_cnt);
}

static void put_gpu_streams(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->stream_cnt, p->opts->row_limit);
	uint64_t window = gr__window_ns(gr);

	if (!gr->stream_cnt)
		return;
	report__title(p->out, "Streams");
	fprintf(p->out, "  %3s %7s %9s %9s %9s %9s\n", "GPU", "stream", "kernels", "busy",
		"all work", "copies");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_stream *st = &gr->streams[i];

		fprintf(p->out, "  %3u %7u %9" PRIu64 " %7.1f %% %7.1f %% %9" PRIu64 "\n",
			st->device, st->stream, st->kernels, percent(st->kernel_ns, window),
			percent(st->work_ns, window), st->copies);
	}
	report__put_rest(p->out, shown, gr->stream_cnt);
}

static void put_latencies(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	if (!gr->work_cnt)
		return;
	report__title(p->out, "From the end of the launching call to the start of its work");
	fprintf(p->out, "  %3s %9s %11s %11s %11s\n", "GPU", "launches", "median", "p90", "p99");
	for (uint32_t i = 0; i < gr->device_cnt; i++) {
		const struct gr_latency *rows[] = { &gr->devices[i].idle_stream, &gr->devices[i].all };

		for (uint32_t n = 0; n < 2; n++)
			if (rows[n]->cnt)
				fprintf(p->out, "  %3u %9" PRIu64 " %11s %11s %11s  %s\n",
					gr->devices[i].id, rows[n]->cnt,
					cell__duration(rows[n]->median).text,
					cell__duration(rows[n]->p90).text,
					cell__duration(rows[n]->p99).text,
					n ? "all work, with what waited behind other work" :
					    "onto an idle stream");
	}
}

static void put_gpu_apis(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t shown = report__shown(gr->api_cnt, p->opts->row_limit);
	char name[512];

	if (!gr->api_cnt)
		return;
	report__title(p->out, "Calls of CUDA on the host%s",
		      gr->info->has_gpu ? "" : ", seen by kernel probes");
	fprintf(p->out, "  %11s %8s %10s %11s  %s\n", "total", "count", "mean", "bytes", "call");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_api *a = &gr->apis[i];
		struct gr_reason at = {
			.where = GR_IN_CALL, .what = a->name, .op = a->op, .annotation = a->annotation
		};
		int used = fprintf(p->out, "  %11s %8" PRIu64 " %10s %11s  ", cell__duration(a->ns).text,
				   a->cnt, cell__duration(a->ns / a->cnt).text,
				   a->bytes ? cell__bytes((double)a->bytes).text : "");

		gr__where_text(gr, name, sizeof(name), &at);
		cell__put_last(p->out, name, (size_t)used, 30);
		if (a->errors)
			fprintf(p->out, ", %" PRIu64 " failed", a->errors);
		if (a->no_result)
			fprintf(p->out, ", of %" PRIu64 " the return was not seen", a->no_result);
		fputc('\n', p->out);
	}
	report__put_rest(p->out, shown, gr->api_cnt);
}

static void put_overheads(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	if (!gr->overhead_cnt)
		return;
	report__title(p->out, "Cost of recording, as CUPTI reports it");
	for (uint32_t i = 0; i < gr->overhead_cnt; i++) {
		fprintf(p->out, "  %11s %8" PRIu64 "  ", cell__duration(gr->overheads[i].ns).text,
			gr->overheads[i].cnt);
		put_last(p, GR_TEXT(gr, gr->overheads[i].name), 23);
	}
}

/* Why agents did not record GPUs, as the recorder wrote it. */
static void put_agents(const struct printer *p)
{
	const char *json = session__meta(p->gr->s, "agent");
	cJSON *agents = json ? cJSON_Parse(json) : NULL;
	const cJSON *a;

	cJSON_ArrayForEach(a, agents)
	{
		const cJSON *pid = cJSON_GetObjectItemCaseSensitive(a, "pid");
		const char *why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "gpu_why"));
		bool recorded = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(a, "gpu"));

		if (!cJSON_IsNumber(pid) || !why || !*why)
			continue;
		fprintf(p->out, "  The agent in process %.0f %s GPU activities: ", pid->valuedouble,
			recorded ? "stopped reporting" : "reported no");
		cell__put_text(p->out, why, 300);
		fputs(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(a, "host_calls")) ?
			      "; CUDA calls are from kernel probes\n" :
			      "\n",
		      p->out);
	}
	cJSON_Delete(agents);
}

/* ---- without activities ---- */

static void put_host(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	double seconds = (double)gr__window_ns(gr) / 1e9;
	uint64_t wait_ns = 0, waits = 0;
	uint32_t shown = report__shown(gr->kernel_cnt, p->opts->row_limit);

	for (uint32_t i = 0; i < gr->api_cnt; i++) {
		waits += gr->apis[i].waits ? gr->apis[i].cnt : 0;
		wait_ns += gr->apis[i].waits ? gr->apis[i].ns : 0;
	}
	fputs("  No agent recorded the GPU's work. CUDA calls of the host, recorded by kernel probes:\n",
	      p->out);
	fprintf(p->out, "  %" PRIu64 " launches, copies and fills, %.0f per second, %s in them\n",
		gr->launches, (double)gr->launches / seconds, cell__duration(gr->launch_ns).text);
	fprintf(p->out,
		"  the host waited for the GPU %" PRIu64
		" times, %s in all, %.1f %% of one thread's time\n",
		waits, cell__duration(wait_ns).text, percent(wait_ns, gr__window_ns(gr)));
	put_gpu_apis(p);
	if (!gr->kernel_cnt)
		return;
	report__title(p->out, "Kernels launched");
	fprintf(p->out, "  %8s %11s  %s\n", "launches", "in the call",
		"name, operator that launches most");
	for (uint32_t i = 0; i < shown; i++) {
		const struct gr_kernel *k = &gr->kernels[i];
		int used = fprintf(p->out, "  %8" PRIu64 " %11s  ", k->cnt, cell__duration(k->ns).text);

		put_kernel_name(p, k, used);
	}
	report__put_rest(p->out, shown, gr->kernel_cnt);
}

static void put_trust(const struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	if (!gr->info->has_gpu)
		return;
	fprintf(p->out, "\nGPU times are accurate to %s",
		cell__duration(gr->info->gpu_clock_err_ns).text);
	if (gr->before_launch)
		fprintf(p->out, "; %" PRIu64 " of %u began before their launch by more than that",
			gr->before_launch, gr->work_cnt);
	if (gr->unlinked)
		fprintf(p->out, "; %" PRIu64 " of %u have no launch in the capture", gr->unlinked,
			gr->work_cnt);
	fputc('\n', p->out);
}

static void put_activities(const struct printer *p)
{
	for (uint32_t i = 0; i < p->gr->device_cnt; i++)
		put_gpu_device(p, &p->gr->devices[i]);
	if (!p->gr->work_cnt)
		fputs("  No GPU was active in the window.\n", p->out);
	put_causes(p);
	put_whys(p);
	put_gpu_kernels(p);
	put_graphs(p);
	put_gpu_copies(p);
	put_gpu_streams(p);
	put_latencies(p);
	put_gpu_gaps(p);
	put_gpu_apis(p);
	put_overheads(p);
}

int gr_text__print(struct gpu_report *gr, const struct session_totals *totals,
		   const struct report_opts *opts, FILE *out)
{
	struct printer p = { .gr = gr, .opts = opts, .out = out };

	errno = 0;
	put_gpu_head(&p);
	if (gr->info->has_gpu)
		put_activities(&p);
	else if (gr->info->has_cuda_calls)
		put_host(&p);
	else
		fputs("  No CUDA activity was recorded: attach with --gpu auto to a process that "
		      "uses CUDA\n",
		      out);
	put_agents(&p);
	put_trust(&p);
	report__put_incomplete(out, gr->info, totals);
	return report__flush(out);
}
