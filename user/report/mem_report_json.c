/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory --json`: the same conclusions with exact numbers. Key names are a contract:
 * schemas/formats/memory_report.schema.json.
 */
#include <errno.h>

#include "base/jsonw.h"
#include "export/mem_names.h"
#include "export/session_json.h"
#include "report/mem_report_priv.h"

#define PEAK_TOP 10

struct printer {
	struct jsonw w;
	const struct mem_report *mr;
	const struct mr_view *v;
	const struct mem_report_opts *opts;
};

static void put_u64(struct printer *p, const char *key, uint64_t v)
{
	jsonw__key(&p->w, key);
	jsonw__u64(&p->w, v);
}

static void put_i64(struct printer *p, const char *key, int64_t v)
{
	jsonw__key(&p->w, key);
	jsonw__i64(&p->w, v);
}

static void put_str(struct printer *p, const char *key, const char *text)
{
	jsonw__key(&p->w, key);
	jsonw__str(&p->w, text);
}

static void put_number(struct printer *p, const char *key, bool known, double v)
{
	jsonw__key(&p->w, key);
	if (known)
		jsonw__double(&p->w, v);
	else
		jsonw__null(&p->w);
}

static void put_step(struct printer *p, const char *key, int64_t step)
{
	jsonw__key(&p->w, key);
	if (step >= 0)
		jsonw__i64(&p->w, step);
	else
		jsonw__null(&p->w);
}

static void put_time(struct printer *p, const char *key, uint64_t ts)
{
	put_u64(p, key, ts > p->mr->info->begin_ns ? ts - p->mr->info->begin_ns : 0);
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

static void put_who(struct printer *p, const struct mr_who *who)
{
	put_str(p, "operator", MR_TEXT(p->mr, who->op));
	put_str(p, "outer_operator", MR_TEXT(p->mr, who->outer));
	put_str(p, "annotation", MR_TEXT(p->mr, who->annotation));
}

static void put_rss(struct printer *p, const char *key, bool known, const uint64_t rss[PTB_RSS_KINDS])
{
	jsonw__key(&p->w, key);
	if (!known) {
		jsonw__null(&p->w);
		return;
	}
	jsonw__begin_obj(&p->w);
	put_u64(p, "total", mr__resident(rss));
	put_u64(p, "file", rss[PTB_RSS_FILE]);
	put_u64(p, "anonymous", rss[PTB_RSS_ANON]);
	put_u64(p, "shared", rss[PTB_RSS_SHMEM]);
	put_u64(p, "swap", rss[PTB_RSS_SWAP]);
	jsonw__end_obj(&p->w);
}

static void put_slope(struct printer *p, const struct mr_growth *steps, const struct mr_growth *time)
{
	double slope = 0.0;
	bool known = mr_growth__slope(p->v->by_step ? steps : time, &slope);

	put_number(p, "growth_per_period", known, slope);
}

static void put_device(struct printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, true, top, PEAK_TOP) : 0, i;
	char name[MEM_NAME_MAX];

	begin_row(p);
	put_str(p, "device", mem_name__device(name, d->type, d->index));
	put_i64(p, "device_type", d->type);
	put_i64(p, "device_index", d->index);
	put_u64(p, "allocations", d->allocs);
	put_u64(p, "allocated_bytes", d->alloc_bytes);
	put_u64(p, "frees", d->frees);
	put_u64(p, "freed_bytes", d->free_bytes);
	put_u64(p, "begin", d->begin);
	put_u64(p, "end", d->now);
	put_u64(p, "reserved_peak", d->reserved_peak);
	put_slope(p, &d->by_step, &d->by_time);
	jsonw__key(&p->w, "peak");
	jsonw__begin_obj(&p->w);
	put_u64(p, "bytes", d->peak);
	put_time(p, "ns", d->peak_nr ? d->peak_ts : 0);
	put_step(p, "step", d->peak_step);
	put_who(p, &d->peak_who);
	put_rss(p, "rss", d->has_rss_at_peak, d->rss_at_peak);
	begin_list(p, "live");
	for (i = 0; i < cnt; i++) {
		begin_row(p);
		put_u64(p, "bytes", top[i].peak);
		put_u64(p, "blocks", top[i].peak_cnt);
		put_who(p, &top[i].who);
		put_str(p, "shapes", MR_TEXT(p->mr, top[i].shapes));
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
	jsonw__end_obj(&p->w);
	jsonw__end_obj(&p->w);
}

static void put_group(struct printer *p, const struct mr_group *g)
{
	const struct mr_device *d = &p->mr->devices[g->device];
	char name[MEM_NAME_MAX];

	begin_row(p);
	put_str(p, "device", mem_name__device(name, d->type, d->index));
	put_who(p, &g->who);
	put_str(p, "shapes", MR_TEXT(p->mr, g->shapes));
	put_u64(p, "bytes", g->kept);
	put_u64(p, "blocks", g->kept_cnt);
	put_u64(p, "periods", g->periods);
	put_step(p, "first_period", g->first_period);
	put_step(p, "last_period", g->last_period);
}

static void put_leaks(struct printer *p)
{
	uint32_t i;

	put_u64(p, "growing_count", p->v->leak_cnt);
	begin_list(p, "growing");
	for (i = 0; i < mr__shown(p->v->leak_cnt, p->opts->row_limit); i++) {
		const struct mr_group *g = &p->v->leaks[i];

		put_group(p, g);
		put_u64(p, "shape_count", g->shape_cnt);
		put_number(p, "bytes_per_period", true, (double)g->kept_before / p->v->periods_before);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_live(struct printer *p)
{
	uint64_t bytes = 0, blocks = 0;
	uint32_t i;

	for (i = 0; i < p->v->live_cnt; i++) {
		bytes += p->v->live[i]->kept;
		blocks += p->v->live[i]->kept_cnt;
	}
	put_u64(p, "live_bytes", bytes);
	put_u64(p, "live_blocks", blocks);
	put_u64(p, "live_count", p->v->live_cnt);
	begin_list(p, "live");
	for (i = 0; i < mr__shown(p->v->live_cnt, p->opts->row_limit); i++) {
		put_group(p, p->v->live[i]);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_kernel_sums(struct printer *p, const struct mr_kernel *k)
{
	put_u64(p, "minor_faults", k->faults - k->major);
	put_u64(p, "major_faults", k->major);
	put_u64(p, "fault_bytes", k->fault_bytes);
	put_u64(p, "mapped_bytes", k->map_bytes);
	put_u64(p, "unmapped_bytes", k->unmap_bytes);
	put_u64(p, "advised_bytes", k->advise_bytes);
	put_i64(p, "heap_bytes", k->brk_bytes);
	put_u64(p, "reclaims", k->reclaims);
	put_u64(p, "reclaim_ns", k->reclaim_ns);
	put_u64(p, "compactions", k->compactions);
	put_u64(p, "compaction_ns", k->compact_ns);
}

static void put_kernels(struct printer *p, const char *key, const struct mr_kernel **rows, uint32_t cnt)
{
	uint32_t i;

	begin_list(p, key);
	for (i = 0; i < mr__shown(cnt, p->opts->row_limit); i++) {
		begin_row(p);
		put_who(p, &rows[i]->who);
		put_kernel_sums(p, rows[i]);
		put_u64(p, "longest_stall_ns", rows[i]->longest_ns);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_kernel(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	jsonw__break(&p->w);
	jsonw__key(&p->w, "kernel");
	if (!p->mr->info->has_kernel_memory) {
		jsonw__null(&p->w);
		return;
	}
	jsonw__begin_obj(&p->w);
	put_kernel_sums(p, &pr->sum);
	put_u64(p, "huge_page_collapses", pr->huge_pages);
	put_u64(p, "migrated_pages", pr->migrated);
	put_u64(p, "by_faults_count", p->v->fault_cnt);
	put_kernels(p, "by_faults", p->v->faults, p->v->fault_cnt);
	put_u64(p, "by_stalls_count", p->v->stall_cnt);
	put_kernels(p, "by_stalls", p->v->stalls, p->v->stall_cnt);
	jsonw__end_obj(&p->w);
}

static void put_apis(struct printer *p)
{
	uint32_t i;

	begin_list(p, "calls");
	for (i = 0; i < p->v->api_cnt; i++) {
		const struct mr_api *a = p->v->apis[i];

		begin_row(p);
		put_str(p, "name", MR_TEXT(p->mr, a->name));
		put_u64(p, "calls", a->calls);
		put_u64(p, "bytes", a->bytes);
		put_u64(p, "ns", a->ns);
		put_u64(p, "no_result", a->no_result);
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_ooms(struct printer *p)
{
	char name[MEM_NAME_MAX];
	uint32_t i;

	put_u64(p, "out_of_memory_count", p->v->proc->ooms);
	put_u64(p, "oom_kill_count", p->v->proc->oom_kills);
	begin_list(p, "out_of_memory");
	for (i = 0; i < p->v->oom_cnt; i++) {
		const struct mr_oom *o = p->v->ooms[i];

		begin_row(p);
		put_str(p, "by", o->kill ? "kernel" : "torch");
		put_time(p, "ns", o->ts);
		put_step(p, "step", o->step);
		put_who(p, &o->who);
		put_u64(p, o->kill ? "resident_bytes" : "asked_bytes", o->bytes);
		if (o->kill) {
			put_u64(p, "asking_pid", o->by_tgid);
			put_u64(p, "asking_tid", o->by_tid);
		} else {
			put_u64(p, "allocated_bytes", o->allocated);
			put_str(p, "device", mem_name__device(name, o->device_type, o->device_index));
		}
		jsonw__end_obj(&p->w);
	}
	jsonw__end_arr(&p->w);
}

static void put_sizes(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	jsonw__break(&p->w);
	jsonw__key(&p->w, "rss");
	if (!pr->has_rss) {
		jsonw__null(&p->w);
		return;
	}
	jsonw__begin_obj(&p->w);
	put_rss(p, "begin", true, pr->rss_begin);
	put_rss(p, "end", true, pr->rss);
	put_rss(p, "peak", true, pr->rss_peak);
	put_time(p, "peak_ns", pr->rss_peak_ts);
	put_step(p, "peak_step", pr->rss_peak_step);
	put_slope(p, &pr->by_step, &pr->by_time);
	jsonw__end_obj(&p->w);
}

static void put_process(struct printer *p)
{
	const struct mr_proc *pr = p->v->proc;
	uint32_t i;

	begin_row(p);
	put_u64(p, "pid", pr->tgid);
	put_str(p, "period", p->v->by_step ? "step" : "tenth");
	put_u64(p, "period_count", (uint64_t)p->v->periods_before + 1);
	put_step(p, "first_step", pr->first_step);
	put_step(p, "last_step", pr->last_step);
	put_u64(p, "freed_unknown", pr->freed_unknown);
	put_ooms(p);
	begin_list(p, "devices");
	for (i = 0; i < p->v->device_cnt; i++)
		put_device(p, p->v->devices[i]);
	jsonw__end_arr(&p->w);
	put_sizes(p);
	put_leaks(p);
	put_live(p);
	put_kernel(p);
	put_apis(p);
	jsonw__end_obj(&p->w);
}

int mr_json__print(struct mem_report *mr, const struct mr_view *views, uint32_t cnt,
		   const struct session_totals *totals, const struct mem_report_opts *opts, FILE *out)
{
	struct printer p = { .mr = mr, .opts = opts };
	int err = jsonw__init(&p.w, jsonw__to_stream, out, 64 * 1024);
	uint32_t i;

	if (err)
		return err;
	jsonw__begin_obj(&p.w);
	put_u64(&p, "schema_version", 1);
	session_json__write(&p.w, mr->s, PTBPF_VERSION);
	session_json__write_totals(&p.w, mr->info, totals);
	jsonw__key(&p.w, "profile_memory");
	jsonw__bool(&p.w, mr->info->has_memory);
	jsonw__key(&p.w, "kernel_memory");
	jsonw__bool(&p.w, mr->info->has_kernel_memory);
	put_u64(&p, "growing_periods_min", MR_LEAK_PERIODS_MIN);
	begin_list(&p, "processes");
	for (i = 0; i < cnt; i++) {
		p.v = &views[i];
		put_process(&p);
	}
	jsonw__end_arr(&p.w);
	jsonw__end_obj(&p.w);
	jsonw__newline(&p.w);
	err = jsonw__flush(&p.w);
	if (!err && fflush(out))
		err = -errno;
	jsonw__free(&p.w);
	return err;
}
