/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --gpu --json`: the same conclusions with exact numbers. Key names are a contract:
 * schemas/formats/gpu_report.schema.json.
 */
#include "report/gpu_report_priv.h"

struct printer {
	struct jsonw *w;
	const struct gpu_report *gr;
	const struct report_opts *opts;
};

static uint32_t shown(const struct printer *p, uint32_t cnt)
{
	return report__shown(cnt, p->opts->row_limit);
}

static double window_share(const struct printer *p, uint64_t ns)
{
	return (double)ns / (double)gr__window_ns(p->gr);
}

static void json_gpu_latency(struct printer *p, const char *key, const struct gr_latency *l)
{
	jsonw__key(p->w, key);
	jsonw__begin_obj(p->w);
	JSONW_U64(p->w, "count", l->cnt);
	JSONW_U64(p->w, "median_ns", l->median);
	JSONW_U64(p->w, "p90_ns", l->p90);
	JSONW_U64(p->w, "p99_ns", l->p99);
	jsonw__end_obj(p->w);
}

static void json_gpu_where(struct printer *p, const struct gr_reason *why)
{
	static const char *const where[] = { "python", "operator", "call", "" };

	JSONW_STR(p->w, "cause", gr_causes[why->cause].text);
	JSONW_STR(p->w, "where", where[why->where]);
	JSONW_STR(p->w, "operator", GR_TEXT(p->gr, why->where == GR_IN_OP ? why->what : why->op));
	JSONW_STR(p->w, "call", why->where == GR_IN_CALL ? GR_TEXT(p->gr, why->what) : "");
	JSONW_STR(p->w, "annotation", GR_TEXT(p->gr, why->annotation));
}

static void json_gpu_device(struct printer *p, const struct gr_device *d)
{
	jsonw__begin_row(p->w);
	JSONW_U64(p->w, "id", d->id);
	JSONW_STR(p->w, "name", d->props ? session__name(p->gr->s, d->props->name) : "");
	JSONW_U64(p->w, "kernels", d->kernels);
	JSONW_U64(p->w, "copies", d->copies);
	JSONW_U64(p->w, "fills", d->fills);
	JSONW_U64(p->w, "kernel_busy_ns", d->kernel_ns);
	JSONW_U64(p->w, "busy_ns", d->work_ns);
	JSONW_DOUBLE(p->w, "kernel_busy_share", window_share(p, d->kernel_ns));
	JSONW_DOUBLE(p->w, "busy_share", window_share(p, d->work_ns));
	JSONW_U64(p->w, "gap_ns", d->idle_ns);
	JSONW_U64(p->w, "gap_count", d->gap_cnt);
	JSONW_U64(p->w, "short_gap_ns", d->short_ns);
	JSONW_U64(p->w, "short_gap_count", d->short_cnt);
	REPORT_JSON_LIST(p->w, "causes");
	for (uint32_t c = 0; c < GR_CAUSE_CNT; c++) {
		if (!d->cause_cnt[c])
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "cause", gr_causes[c].text);
		JSONW_U64(p->w, "count", d->cause_cnt[c]);
		JSONW_U64(p->w, "ns", d->cause_ns[c]);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
	json_gpu_latency(p, "latency_idle_stream", &d->idle_stream);
	json_gpu_latency(p, "latency", &d->all);
	JSONW_DOUBLE(p->w, "queue_depth_mean", d->depth_mean);
	JSONW_U64(p->w, "queue_depth_max", d->depth_max);
	jsonw__end_obj(p->w);
}

static void json_gpu_gaps(struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	JSONW_U64(p->w, "reason_count", gr->why_cnt);
	REPORT_JSON_LIST(p->w, "reasons");
	for (uint32_t i = 0; i < shown(p, gr->why_cnt); i++) {
		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_U64(p->w, "device", gr->whys[i].device);
		json_gpu_where(p, &gr->whys[i].why);
		JSONW_U64(p->w, "count", gr->whys[i].cnt);
		JSONW_U64(p->w, "ns", gr->whys[i].ns);
		JSONW_U64(p->w, "longest_ns", gr->whys[i].max_ns);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
	JSONW_U64(p->w, "gap_count", gr->gap_cnt);
	REPORT_JSON_LIST(p->w, "gaps");
	for (uint32_t i = 0; i < shown(p, gr->gap_cnt); i++) {
		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_U64(p->w, "device", gr->gaps[i].device);
		JSONW_U64(p->w, "begin_ns", gr->gaps[i].begin - gr->info->begin_ns);
		JSONW_U64(p->w, "ns", gr->gaps[i].end - gr->gaps[i].begin);
		json_gpu_where(p, &gr->gaps[i].why);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_gpu_kernels(struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	/* without activities these are launches, and the times those of the launching calls */
	JSONW_U64(p->w, "kernel_ns", gr->kernel_ns);
	JSONW_U64(p->w, "kernel_count", gr->kernel_cnt);
	REPORT_JSON_LIST(p->w, "kernels");
	for (uint32_t i = 0; i < shown(p, gr->kernel_cnt); i++) {
		const struct gr_kernel *k = &gr->kernels[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "name", GR_TEXT(gr, k->name));
		JSONW_U64(p->w, "count", k->cnt);
		JSONW_U64(p->w, "ns", k->ns);
		JSONW_U64(p->w, "shortest_ns", k->min_ns);
		JSONW_U64(p->w, "longest_ns", k->max_ns);
		JSONW_STR(p->w, "operator", GR_TEXT(gr, k->op));
		JSONW_U64(p->w, "operator_ns", k->op_ns);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_gpu_copies(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	char name[GR_COPY_MAX];

	JSONW_U64(p->w, "copy_count", gr->copy_cnt);
	REPORT_JSON_LIST(p->w, "copies");
	for (uint32_t i = 0; i < shown(p, gr->copy_cnt); i++) {
		const struct gr_copy *c = &gr->copies[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "name", gr__copy_text(gr, name, c));
		JSONW_BOOL(p->w, "fill", c->fill);
		JSONW_U64(p->w, "device", c->device);
		JSONW_U64(p->w, "to_device", c->to_device);
		JSONW_U64(p->w, "count", c->cnt);
		JSONW_U64(p->w, "bytes", c->bytes);
		JSONW_U64(p->w, "ns", c->ns);
		JSONW_U64(p->w, "longest_ns", c->max_ns);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_graphs(struct printer *p)
{
	const struct gr_graphs *gs = &p->gr->graphs;

	JSONW_U64(p->w, "graph_count", gs->graph_cnt);
	JSONW_U64(p->w, "graph_ns", gs->ns);
	JSONW_U64(p->w, "graph_work_unknown", gs->unknown);
	REPORT_JSON_LIST(p->w, "graphs");
	for (uint32_t i = 0; i < shown(p, gs->graph_cnt); i++) {
		const struct gr_graph *g = &gs->graphs[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_U64(p->w, "pid", g->tgid);
		JSONW_U64(p->w, "graph", g->graph);
		JSONW_U64(p->w, "launches", g->launches);
		JSONW_U64(p->w, "count", g->cnt);
		JSONW_U64(p->w, "ns", g->ns);
		JSONW_U64(p->w, "captured_in_count", g->origin_cnt);
		REPORT_JSON_LIST(p->w, "captured_in");
		for (uint32_t k = 0; k < shown(p, g->origin_cnt); k++) {
			const struct gr_origin *c = &gs->origins[g->first_origin + k];
			bool known = c->within != GR_UNKNOWN;

			if (jsonw__leave_out(p->w))
				continue;
			jsonw__begin_row(p->w);
			JSONW_BOOL(p->w, "known", known);
			JSONW_STR(p->w, "operator", GR_TEXT(p->gr, c->op));
			JSONW_STR(p->w, "within", known ? GR_TEXT(p->gr, c->within) : "");
			JSONW_U64(p->w, "count", c->cnt);
			JSONW_U64(p->w, "ns", c->ns);
			jsonw__end_obj(p->w);
		}
		jsonw__end_arr(p->w);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_gpu_streams(struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	JSONW_U64(p->w, "stream_count", gr->stream_cnt);
	REPORT_JSON_LIST(p->w, "streams");
	for (uint32_t i = 0; i < shown(p, gr->stream_cnt); i++) {
		const struct gr_stream *st = &gr->streams[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_U64(p->w, "device", st->device);
		JSONW_U64(p->w, "stream", st->stream);
		JSONW_U64(p->w, "kernels", st->kernels);
		JSONW_U64(p->w, "copies", st->copies);
		JSONW_U64(p->w, "kernel_busy_ns", st->kernel_ns);
		JSONW_U64(p->w, "busy_ns", st->work_ns);
		JSONW_DOUBLE(p->w, "busy_share", window_share(p, st->work_ns));
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_gpu_apis(struct printer *p)
{
	const struct gpu_report *gr = p->gr;

	JSONW_U64(p->w, "launch_count", gr->launches);
	JSONW_U64(p->w, "launch_ns", gr->launch_ns);
	JSONW_U64(p->w, "call_count", gr->api_cnt);
	REPORT_JSON_LIST(p->w, "calls");
	for (uint32_t i = 0; i < shown(p, gr->api_cnt); i++) {
		const struct gr_api *a = &gr->apis[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "name", GR_TEXT(gr, a->name));
		JSONW_BOOL(p->w, "driver", a->driver);
		JSONW_BOOL(p->w, "host_only", a->host_only);
		JSONW_BOOL(p->w, "waits", a->waits);
		JSONW_STR(p->w, "operator", GR_TEXT(gr, a->op));
		JSONW_STR(p->w, "annotation", GR_TEXT(gr, a->annotation));
		JSONW_U64(p->w, "count", a->cnt);
		JSONW_U64(p->w, "ns", a->ns);
		JSONW_U64(p->w, "longest_ns", a->max_ns);
		JSONW_U64(p->w, "bytes", a->bytes);
		JSONW_U64(p->w, "errors", a->errors);
		JSONW_U64(p->w, "no_result", a->no_result);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
	REPORT_JSON_LIST(p->w, "overheads");
	for (uint32_t i = 0; i < gr->overhead_cnt; i++) {
		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "name", GR_TEXT(gr, gr->overheads[i].name));
		JSONW_U64(p->w, "count", gr->overheads[i].cnt);
		JSONW_U64(p->w, "ns", gr->overheads[i].ns);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

int gr_json__print(struct gpu_report *gr, struct session_totals *totals,
		   const struct report_opts *opts, FILE *out)
{
	struct jsonw w;
	struct printer p = { .w = &w, .gr = gr, .opts = opts };
	int err = report_json__begin(&w, out, gr->s, totals);

	if (err)
		return err;
	JSONW_BOOL(&w, "activities", gr->info->has_gpu);
	JSONW_BOOL(&w, "host_calls", gr->info->has_cuda_calls);
	JSONW_U64(&w, "gap_min_ns", GR_GAP_MIN_NS);
	JSONW_U64(&w, "work_count", gr->work_cnt);
	JSONW_U64(&w, "unlinked", gr->unlinked);
	JSONW_U64(&w, "before_launch", gr->before_launch);
	REPORT_JSON_LIST(&w, "gpus");
	for (uint32_t i = 0; i < gr->device_cnt; i++)
		if (!jsonw__leave_out(&w))
			json_gpu_device(&p, &gr->devices[i]);
	jsonw__end_arr(&w);
	json_gpu_gaps(&p);
	json_gpu_kernels(&p);
	json_graphs(&p);
	json_gpu_copies(&p);
	json_gpu_streams(&p);
	json_gpu_apis(&p);
	return report_json__end(&w, out, totals);
}
