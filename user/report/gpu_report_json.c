/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --gpu --json`: the same conclusions with exact numbers. Key names are a contract:
 * schemas/formats/gpu_report.schema.json.
 */
#include <errno.h>

#include "base/jsonw.h"
#include "export/session_json.h"
#include "report/gpu_report_priv.h"

struct printer {
	struct jsonw w;
	const struct gpu_report *gr;
	const struct gpu_report_opts *opts;
};

static void put_u64(struct printer *p, const char *key, uint64_t v)
{
	jsonw__key(&p->w, key);
	jsonw__u64(&p->w, v);
}

static void put_str(struct printer *p, const char *key, const char *text)
{
	jsonw__key(&p->w, key);
	jsonw__str(&p->w, text);
}

static void put_bool(struct printer *p, const char *key, bool v)
{
	jsonw__key(&p->w, key);
	jsonw__bool(&p->w, v);
}

static void put_number(struct printer *p, const char *key, double v)
{
	jsonw__key(&p->w, key);
	jsonw__double(&p->w, v);
}

static void begin_list(struct printer *p, const char *key)
{
	jsonw__break(&p->w);
	jsonw__key(&p->w, key);
	jsonw__begin_arr(&p->w);
}

static void begin_row(struct printer *p)
{
	jsonw__break(&p->w);
	jsonw__begin_obj(&p->w);
}

static uint32_t shown(const struct printer *p, uint32_t cnt)
{
	return gr__shown(cnt, p->opts->row_limit);
}

static double share(const struct printer *p, uint64_t ns)
{
	return (double)ns / (double)gr__window_ns(p->gr);
}

static void put_latency(struct printer *p, const char *key, const struct gr_latency *l)
{
	jsonw__key(&p->w, key);
	jsonw__begin_obj(&p->w);
	put_u64(p, "count", l->cnt);
	put_u64(p, "median_ns", l->median);
	put_u64(p, "p90_ns", l->p90);
	put_u64(p, "p99_ns", l->p99);
	jsonw__end_obj(&p->w);
}

static void put_where(struct printer *p, const struct gr_reason *why)
{
	static const char *const where[] = { "python", "operator", "call", "" };

	put_str(p, "cause", gr__cause_text(why->cause));
	put_str(p, "where", where[why->where]);
	put_str(p, "operator", GR_TEXT(p->gr, why->where == GR_IN_OP ? why->what : why->op));
	put_str(p, "call", why->where == GR_IN_CALL ? GR_TEXT(p->gr, why->what) : "");
	put_str(p, "annotation", GR_TEXT(p->gr, why->annotation));
}

static void put_device(struct printer *p, const struct gr_device *d)
{
	uint32_t c;

	begin_row(p);
	put_u64(p, "id", d->id);
	put_str(p, "name", d->props ? session__name(p->gr->s, d->props->name) : "");
	put_u64(p, "kernels", d->kernels);
	put_u64(p, "copies", d->copies);
	put_u64(p, "fills", d->fills);
	put_u64(p, "kernel_busy_ns", d->kernel_ns);
	put_u64(p, "busy_ns", d->work_ns);
	put_number(p, "kernel_busy_share", share(p, d->kernel_ns));
	put_number(p, "busy_share", share(p, d->work_ns));
	put_u64(p, "gap_ns", d->idle_ns);
	put_u64(p, "gap_count", d->gap_cnt);
	put_u64(p, "short_gap_ns", d->short_ns);
	put_u64(p, "short_gap_count", d->short_cnt);
	begin_list(p, "causes");
	for (c = 0; c < GR_CAUSE_CNT; c++) {
		if (!d->cause_cnt[c])
			continue;
		begin_row(p);
		put_str(p, "cause", gr__cause_text(c));
		put_u64(p, "count", d->cause_cnt[c]);
		put_u64(p, "ns", d->cause_ns[c]);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
	put_latency(p, "latency_idle_stream", &d->idle_stream);
	put_latency(p, "latency", &d->all);
	put_number(p, "queue_depth_mean", d->depth_mean);
	put_u64(p, "queue_depth_max", d->depth_max);
	jsonw__end_obj(&p->w);
}

static void put_gaps(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t i;

	put_u64(p, "reason_count", gr->why_cnt);
	begin_list(p, "reasons");
	for (i = 0; i < shown(p, gr->why_cnt); i++) {
		begin_row(p);
		put_u64(p, "device", gr->whys[i].device);
		put_where(p, &gr->whys[i].why);
		put_u64(p, "count", gr->whys[i].cnt);
		put_u64(p, "ns", gr->whys[i].ns);
		put_u64(p, "longest_ns", gr->whys[i].max_ns);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
	put_u64(p, "gap_count", gr->gap_cnt);
	begin_list(p, "gaps");
	for (i = 0; i < shown(p, gr->gap_cnt); i++) {
		begin_row(p);
		put_u64(p, "device", gr->gaps[i].device);
		put_u64(p, "begin_ns", gr->gaps[i].begin - gr->info->begin_ns);
		put_u64(p, "ns", gr->gaps[i].end - gr->gaps[i].begin);
		put_where(p, &gr->gaps[i].why);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_kernels(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t i;

	/* without activities these are launches, and the times those of the launching calls */
	put_u64(p, "kernel_ns", gr->kernel_ns);
	put_u64(p, "kernel_count", gr->kernel_cnt);
	begin_list(p, "kernels");
	for (i = 0; i < shown(p, gr->kernel_cnt); i++) {
		const struct gr_kernel *k = &gr->kernels[i];

		begin_row(p);
		put_str(p, "name", GR_TEXT(gr, k->name));
		put_u64(p, "count", k->cnt);
		put_u64(p, "ns", k->ns);
		put_u64(p, "shortest_ns", k->min_ns);
		put_u64(p, "longest_ns", k->max_ns);
		put_str(p, "operator", GR_TEXT(gr, k->op));
		put_u64(p, "operator_ns", k->op_ns);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_copies(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	char name[GR_COPY_MAX];
	uint32_t i;

	put_u64(p, "copy_count", gr->copy_cnt);
	begin_list(p, "copies");
	for (i = 0; i < shown(p, gr->copy_cnt); i++) {
		const struct gr_copy *c = &gr->copies[i];

		begin_row(p);
		put_str(p, "name", gr__copy_text(gr, name, c));
		put_bool(p, "fill", c->fill);
		put_u64(p, "device", c->device);
		put_u64(p, "to_device", c->to_device);
		put_u64(p, "count", c->cnt);
		put_u64(p, "bytes", c->bytes);
		put_u64(p, "ns", c->ns);
		put_u64(p, "longest_ns", c->max_ns);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_streams(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t i;

	put_u64(p, "stream_count", gr->stream_cnt);
	begin_list(p, "streams");
	for (i = 0; i < shown(p, gr->stream_cnt); i++) {
		const struct gr_stream *st = &gr->streams[i];

		begin_row(p);
		put_u64(p, "device", st->device);
		put_u64(p, "stream", st->stream);
		put_u64(p, "kernels", st->kernels);
		put_u64(p, "copies", st->copies);
		put_u64(p, "kernel_busy_ns", st->kernel_ns);
		put_u64(p, "busy_ns", st->work_ns);
		put_number(p, "busy_share", share(p, st->work_ns));
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_apis(struct printer *p)
{
	const struct gpu_report *gr = p->gr;
	uint32_t i;

	put_u64(p, "launch_count", gr->launches);
	put_u64(p, "launch_ns", gr->launch_ns);
	put_u64(p, "call_count", gr->api_cnt);
	begin_list(p, "calls");
	for (i = 0; i < shown(p, gr->api_cnt); i++) {
		const struct gr_api *a = &gr->apis[i];

		begin_row(p);
		put_str(p, "name", GR_TEXT(gr, a->name));
		put_bool(p, "driver", a->driver);
		put_bool(p, "host_only", a->host_only);
		put_bool(p, "waits", a->waits);
		put_str(p, "operator", GR_TEXT(gr, a->op));
		put_str(p, "annotation", GR_TEXT(gr, a->annotation));
		put_u64(p, "count", a->cnt);
		put_u64(p, "ns", a->ns);
		put_u64(p, "longest_ns", a->max_ns);
		put_u64(p, "bytes", a->bytes);
		put_u64(p, "errors", a->errors);
		put_u64(p, "no_result", a->no_result);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
	begin_list(p, "overheads");
	for (i = 0; i < gr->overhead_cnt; i++) {
		begin_row(p);
		put_str(p, "name", GR_TEXT(gr, gr->overheads[i].name));
		put_u64(p, "count", gr->overheads[i].cnt);
		put_u64(p, "ns", gr->overheads[i].ns);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

int gr_json__print(struct gpu_report *gr, const struct session_totals *totals,
		   const struct gpu_report_opts *opts, FILE *out)
{
	struct printer p = { .gr = gr, .opts = opts };
	int err = jsonw__init(&p.w, jsonw__to_stream, out, 64 * 1024);
	uint32_t i;

	if (err)
		return err;
	jsonw__begin_obj(&p.w);
	put_u64(&p, "schema_version", 1);
	session_json__write(&p.w, gr->s, PTBPF_VERSION);
	session_json__write_totals(&p.w, gr->info, totals);
	put_bool(&p, "activities", gr->info->has_gpu);
	put_bool(&p, "host_calls", gr->info->has_cuda_calls);
	put_u64(&p, "gap_min_ns", GR_GAP_MIN_NS);
	put_u64(&p, "work_count", gr->work_cnt);
	put_u64(&p, "unlinked", gr->unlinked);
	put_u64(&p, "before_launch", gr->before_launch);
	begin_list(&p, "gpus");
	for (i = 0; i < gr->device_cnt; i++)
		put_device(&p, &gr->devices[i]);
	jsonw__end_arr(&p.w);
	put_gaps(&p);
	put_kernels(&p);
	put_copies(&p);
	put_streams(&p);
	put_apis(&p);
	jsonw__end_obj(&p.w);
	jsonw__newline(&p.w);
	err = jsonw__flush(&p.w);
	if (!err && fflush(out))
		err = -errno;
	jsonw__free(&p.w);
	return err;
}
