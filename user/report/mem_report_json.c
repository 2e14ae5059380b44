/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory --json`: the same conclusions with exact numbers. Key names are a contract:
 * schemas/formats/memory_report.schema.json.
 */
#include <math.h>

#include "export/mem_names.h"
#include "report/mem_report_priv.h"

#define PEAK_TOP 10

struct printer {
	struct jsonw *w;
	const struct mem_report *mr;
	const struct mr_view *v;
	const struct report_opts *opts;
};

static void json_mem_step(struct printer *p, const char *key, int64_t step)
{
	jsonw__key(p->w, key);
	if (step >= 0)
		jsonw__i64(p->w, step);
	else
		jsonw__null(p->w);
}

static void json_mem_time(struct printer *p, const char *key, uint64_t ts)
{
	jsonw__key(p->w, key);
	jsonw__u64(p->w, ts > p->mr->info->begin_ns ? ts - p->mr->info->begin_ns : 0);
}

static void json_mem_who(struct printer *p, const struct mr_who *who)
{
	JSONW_STR(p->w, "operator", MR_TEXT(p->mr, who->op));
	JSONW_STR(p->w, "outer_operator", MR_TEXT(p->mr, who->outer));
	JSONW_STR(p->w, "annotation", MR_TEXT(p->mr, who->annotation));
	if (p->mr->info->has_py_stacks)
		JSONW_STR(p->w, "line", MR_TEXT(p->mr, who->line));
}

static void json_mem_rss(struct printer *p, const char *key, bool known, const uint64_t rss[PTB_RSS_KINDS])
{
	jsonw__key(p->w, key);
	if (!known) {
		jsonw__null(p->w);
		return;
	}
	jsonw__begin_obj(p->w);
	JSONW_U64(p->w, "total", mr__resident(rss));
	JSONW_U64(p->w, "file", rss[PTB_RSS_FILE]);
	JSONW_U64(p->w, "anonymous", rss[PTB_RSS_ANON]);
	JSONW_U64(p->w, "shared", rss[PTB_RSS_SHMEM]);
	JSONW_U64(p->w, "swap", rss[PTB_RSS_SWAP]);
	jsonw__end_obj(p->w);
}

static void json_mem_slope(struct printer *p, const struct mr_growths *g)
{
	double slope = 0.0;
	bool known = mr_growth__slope(g, p->v->by_step, &slope);

	JSONW_DOUBLE(p->w, "growth_per_period", known ? slope : NAN); /* null */
}

static void json_mem_device(struct printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, true, top, PEAK_TOP) : 0;

	jsonw__begin_row(p->w);
	JSONW_STR(p->w, "device", mem_name__device(d->type, d->index).text);
	JSONW_I64(p->w, "device_type", d->type);
	JSONW_I64(p->w, "device_index", d->index);
	JSONW_U64(p->w, "allocations", d->allocs);
	JSONW_U64(p->w, "allocated_bytes", d->alloc_bytes);
	JSONW_U64(p->w, "frees", d->frees);
	JSONW_U64(p->w, "freed_bytes", d->free_bytes);
	JSONW_U64(p->w, "begin", d->begin);
	JSONW_U64(p->w, "end", d->now);
	JSONW_U64(p->w, "reserved_peak", d->reserved_peak);
	json_mem_slope(p, &d->growth);
	JSONW_OBJ(p->w, "peak");
	JSONW_U64(p->w, "bytes", d->peak);
	json_mem_time(p, "ns", d->peak_nr ? d->peak_ts : 0);
	json_mem_step(p, "step", d->peak_step);
	json_mem_who(p, &d->peak_who);
	json_mem_rss(p, "rss", d->has_rss_at_peak, d->rss_at_peak);
	REPORT_JSON_LIST(p->w, "live");
	for (uint32_t i = 0; i < cnt; i++) {
		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_U64(p->w, "bytes", top[i].peak);
		JSONW_U64(p->w, "blocks", top[i].peak_cnt);
		json_mem_who(p, &top[i].who);
		JSONW_STR(p->w, "shapes", MR_TEXT(p->mr, top[i].shapes));
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
	jsonw__end_obj(p->w);
	jsonw__end_obj(p->w);
}

static void json_mem_group(struct printer *p, const struct mr_group *g)
{
	const struct mr_device *d = &p->mr->devices[g->device];

	jsonw__begin_row(p->w);
	JSONW_STR(p->w, "device", mem_name__device(d->type, d->index).text);
	json_mem_who(p, &g->who);
	JSONW_STR(p->w, "shapes", MR_TEXT(p->mr, g->shapes));
	JSONW_U64(p->w, "bytes", g->kept);
	JSONW_U64(p->w, "blocks", g->kept_cnt);
	JSONW_U64(p->w, "periods", g->periods);
	json_mem_step(p, "first_period", g->first_period);
	json_mem_step(p, "last_period", g->last_period);
}

static void json_mem_leaks(struct printer *p)
{
	JSONW_U64(p->w, "growing_count", p->v->leak_cnt);
	REPORT_JSON_LIST(p->w, "growing");
	for (uint32_t i = 0; i < report__shown(p->v->leak_cnt, p->opts->row_limit); i++) {
		const struct mr_group *g = &p->v->leaks[i];

		if (jsonw__leave_out(p->w))
			continue;
		json_mem_group(p, g);
		JSONW_U64(p->w, "shape_count", g->shape_cnt);
		JSONW_DOUBLE(p->w, "bytes_per_period", (double)g->kept_before / p->v->periods_before);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_mem_live(struct printer *p)
{
	uint64_t bytes = 0, blocks = 0;

	for (uint32_t i = 0; i < p->v->live_cnt; i++) {
		bytes += p->v->live[i]->kept;
		blocks += p->v->live[i]->kept_cnt;
	}
	JSONW_U64(p->w, "live_bytes", bytes);
	JSONW_U64(p->w, "live_blocks", blocks);
	JSONW_U64(p->w, "live_count", p->v->live_cnt);
	REPORT_JSON_LIST(p->w, "live");
	for (uint32_t i = 0; i < report__shown(p->v->live_cnt, p->opts->row_limit); i++) {
		if (jsonw__leave_out(p->w))
			continue;
		json_mem_group(p, p->v->live[i]);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_mem_kernel_sums(struct printer *p, const struct mr_kernel *k)
{
	JSONW_U64(p->w, "minor_faults", k->faults - k->major);
	JSONW_U64(p->w, "major_faults", k->major);
	JSONW_U64(p->w, "fault_bytes", k->fault_bytes);
	JSONW_U64(p->w, "mapped_bytes", k->map_bytes);
	JSONW_U64(p->w, "unmapped_bytes", k->unmap_bytes);
	JSONW_U64(p->w, "advised_bytes", k->advise_bytes);
	JSONW_I64(p->w, "heap_bytes", k->brk_bytes);
	JSONW_U64(p->w, "reclaims", k->reclaims);
	JSONW_U64(p->w, "reclaim_ns", k->reclaim_ns);
	JSONW_U64(p->w, "compactions", k->compactions);
	JSONW_U64(p->w, "compaction_ns", k->compact_ns);
}

static void json_mem_kernels(struct printer *p, const char *key, const struct mr_kernel **rows,
			     uint32_t cnt)
{
	jsonw__break(p->w);
	jsonw__key(p->w, key);
	jsonw__begin_arr(p->w);
	for (uint32_t i = 0; i < report__shown(cnt, p->opts->row_limit); i++) {
		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		json_mem_who(p, &rows[i]->who);
		json_mem_kernel_sums(p, rows[i]);
		JSONW_U64(p->w, "longest_stall_ns", rows[i]->longest_ns);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_mem_kernel(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	jsonw__break(p->w);
	jsonw__key(p->w, "kernel");
	if (!p->mr->info->has_kernel_memory) {
		jsonw__null(p->w);
		return;
	}
	jsonw__begin_obj(p->w);
	json_mem_kernel_sums(p, &pr->sum);
	JSONW_U64(p->w, "huge_page_collapses", pr->huge_pages);
	JSONW_U64(p->w, "migrated_pages", pr->migrated);
	JSONW_U64(p->w, "by_faults_count", p->v->fault_cnt);
	json_mem_kernels(p, "by_faults", p->v->faults, p->v->fault_cnt);
	JSONW_U64(p->w, "by_stalls_count", p->v->stall_cnt);
	json_mem_kernels(p, "by_stalls", p->v->stalls, p->v->stall_cnt);
	jsonw__end_obj(p->w);
}

static void json_mem_apis(struct printer *p)
{
	REPORT_JSON_LIST(p->w, "calls");
	for (uint32_t i = 0; i < p->v->api_cnt; i++) {
		const struct mr_api *a = p->v->apis[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "name", MR_TEXT(p->mr, a->name));
		JSONW_U64(p->w, "calls", a->calls);
		JSONW_U64(p->w, "bytes", a->bytes);
		JSONW_U64(p->w, "ns", a->ns);
		JSONW_U64(p->w, "no_result", a->no_result);
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_mem_ooms(struct printer *p)
{
	JSONW_U64(p->w, "out_of_memory_count", p->v->proc->ooms);
	JSONW_U64(p->w, "oom_kill_count", p->v->proc->oom_kills);
	REPORT_JSON_LIST(p->w, "out_of_memory");
	for (uint32_t i = 0; i < p->v->oom_cnt; i++) {
		const struct mr_oom *o = p->v->ooms[i];

		if (jsonw__leave_out(p->w))
			continue;
		jsonw__begin_row(p->w);
		JSONW_STR(p->w, "by", o->kill ? "kernel" : "torch");
		json_mem_time(p, "ns", o->ts);
		json_mem_step(p, "step", o->step);
		json_mem_who(p, &o->who);
		if (o->kill) {
			JSONW_U64(p->w, "resident_bytes", o->bytes);
			JSONW_U64(p->w, "asking_pid", o->by_tgid);
			JSONW_U64(p->w, "asking_tid", o->by_tid);
		} else {
			JSONW_U64(p->w, "asked_bytes", o->bytes);
			JSONW_U64(p->w, "allocated_bytes", o->allocated);
			JSONW_STR(p->w, "device", mem_name__device(o->device_type, o->device_index).text);
		}
		jsonw__end_obj(p->w);
	}
	jsonw__end_arr(p->w);
}

static void json_mem_sizes(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	jsonw__break(p->w);
	jsonw__key(p->w, "rss");
	if (!pr->has_rss) {
		jsonw__null(p->w);
		return;
	}
	jsonw__begin_obj(p->w);
	json_mem_rss(p, "begin", true, pr->rss_begin);
	json_mem_rss(p, "end", true, pr->rss);
	json_mem_rss(p, "peak", true, pr->rss_peak);
	json_mem_time(p, "peak_ns", pr->rss_peak_ts);
	json_mem_step(p, "peak_step", pr->rss_peak_step);
	json_mem_slope(p, &pr->growth);
	jsonw__end_obj(p->w);
}

static void json_mem_process(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	jsonw__begin_row(p->w);
	JSONW_U64(p->w, "pid", pr->tgid);
	JSONW_STR(p->w, "period", p->v->by_step ? "step" : "tenth");
	JSONW_U64(p->w, "period_count", (uint64_t)p->v->periods_before + 1);
	json_mem_step(p, "first_step", pr->first_step);
	json_mem_step(p, "last_step", pr->last_step);
	JSONW_U64(p->w, "freed_unknown", pr->freed_unknown);
	json_mem_ooms(p);
	REPORT_JSON_LIST(p->w, "devices");
	for (uint32_t i = 0; i < p->v->device_cnt; i++)
		if (!jsonw__leave_out(p->w))
			json_mem_device(p, p->v->devices[i]);
	jsonw__end_arr(p->w);
	json_mem_sizes(p);
	json_mem_leaks(p);
	json_mem_live(p);
	json_mem_kernel(p);
	json_mem_apis(p);
	jsonw__end_obj(p->w);
}

int mr_json__print(struct mem_report *mr, const struct mr_view *views, uint32_t cnt,
		   struct session_totals *totals, const struct report_opts *opts, FILE *out)
{
	struct jsonw w;
	struct printer p = { .w = &w, .mr = mr, .opts = opts };
	int err = report_json__begin(&w, out, mr->s, totals);

	if (err)
		return err;
	JSONW_BOOL(&w, "profile_memory", mr->info->has_memory);
	JSONW_BOOL(&w, "kernel_memory", mr->info->has_kernel_memory);
	JSONW_U64(&w, "growing_periods_min", MR_LEAK_PERIODS_MIN);
	REPORT_JSON_LIST(&w, "processes");
	for (uint32_t i = 0; i < cnt; i++) {
		p.v = &views[i];
		if (!jsonw__leave_out(&w))
			json_mem_process(&p);
	}
	jsonw__end_arr(&w);
	return report_json__end(&w, out, totals);
}
