/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory` as a document: of each process first a summary in a few lines, then lists,
 * only of what was recorded. Key names are a contract: schemas/formats/memory_report.schema.json.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "export/texts.h"
#include "report/report_priv.h"

#define PEAK_TOP 10

static struct doc_fact step_fact(const char *key, int64_t step)
{
	return step >= 0 ? FACT(key, step) : fact__null(key);
}

/* As facts, and as the last column. */
static void add_who(struct mr_printer *p, const struct mr_who *who)
{
	struct mr_who_text t = mr_say__who(p, who);

	DOC(p->d, FACT("operator", MR_TEXT(p->mr, who->op)),
	    FACT("outer_operator", MR_TEXT(p->mr, who->outer)),
	    FACT("annotation", MR_TEXT(p->mr, who->annotation)),
	    p->mr->info->has_py_stacks ? FACT("line", MR_TEXT(p->mr, who->line)) : NO_FACT,
	    FACT(".who", t.text));
	doc__tail(p->d, t.line);
}

static void add_rss(struct mr_printer *p, const char *key, bool known,
		    const uint64_t rss[PTB_RSS_KINDS])
{
	if (!known) {
		DOC(p->d, fact__null(key));
		return;
	}
	doc__object(p->d, key);
	DOC(p->d, FACT("total", mr__resident(rss)), FACT("file", rss[PTB_RSS_FILE]),
	    FACT("anonymous", rss[PTB_RSS_ANON]), FACT("shared", rss[PTB_RSS_SHMEM]),
	    FACT("swap", rss[PTB_RSS_SWAP]));
	doc__end(p->d);
}

static struct doc_fact slope_fact(const struct mr_printer *p, const struct mr_growths *g)
{
	double slope = 0.0;
	bool known = mr_growth__slope(g, p->v->by_step, &slope);

	return FACT("growth_per_period", known ? slope : (double)NAN); /* null */
}

/* ---- torch's blocks ---- */

static void add_device(struct mr_printer *p, const struct mr_device *d)
{
	struct mr_group top[PEAK_TOP];
	uint32_t cnt = d->peak_nr ? mr_rank__at_peak(p->mr, d, true, top, PEAK_TOP) : 0;

	mr_say__device(p, d);
	DOC(p->d, FACT("device", mem_name__device(d->type, d->index).text),
	    FACT("device_type", d->type), FACT("device_index", d->index),
	    FACT("allocations", d->allocs), FACT("allocated_bytes", d->alloc_bytes),
	    FACT("frees", d->frees), FACT("freed_bytes", d->free_bytes), FACT("begin", d->begin),
	    FACT("end", d->now), FACT("reserved_peak", d->reserved_peak),
	    slope_fact(p, &d->growth));
	doc__object(p->d, "peak");
	DOC(p->d, FACT("bytes", d->peak),
	    FACT("ns", d->peak_nr ? mr__since_begin(p->mr, d->peak_ts) : 0),
	    step_fact("step", d->peak_step));
	add_who(p, &d->peak_who);
	add_rss(p, "rss", d->has_rss_at_peak, d->rss_at_peak);
	doc__all(p->d, "live", cnt, NULL);
	for (uint32_t i; doc__next(p->d, &i);) {
		DOC(p->d, FACT("bytes", top[i].peak), FACT("blocks", top[i].peak_cnt));
		add_who(p, &top[i].who);
		DOC(p->d, FACT("shapes", MR_TEXT(p->mr, top[i].shapes)));
	}
	doc__end(p->d);
}

static void add_group(struct mr_printer *p, const struct mr_group *g)
{
	const struct mr_device *d = &p->mr->devices[g->device];
	char more[64] = "";

	DOC(p->d, FACT("device", mem_name__device(d->type, d->index).text));
	add_who(p, &g->who);
	DOC(p->d, FACT("shapes", MR_TEXT(p->mr, g->shapes)), FACT("bytes", g->kept),
	    FACT("blocks", g->kept_cnt), FACT("periods", g->periods),
	    step_fact("first_period", g->first_period), step_fact("last_period", g->last_period));
	if (g->shape_cnt > 1)
		snprintf(more, sizeof(more), " and %u other shapes", g->shape_cnt - 1);
	if (*mr_say__shapes(p, g->shapes) || *more)
		doc__below(p->d, mr_say__shapes(p, g->shapes), more);
}

static void add_growing(struct mr_printer *p)
{
	const struct mr_view *v = p->v;
	const struct doc_column columns[] = {
		{ "bytes_per_period", v->by_step ? "per step" : "per tenth", 10, cell__bytes, 0,
		  0 },
		{ "bytes", "kept", 10, cell__bytes, 0, 0 },
		{ "blocks", "blocks", 8, NULL, 0, 0 },
		{ ".periods", v->by_step ? "steps" : "tenths", 9, NULL, 0, 0 },
		{ ".who", "operator in annotation, input shapes", 0, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(
		p->d,
		"Growing: blocks never freed, from at least %u %ss and over half of those before the last",
		MR_LEAK_PERIODS_MIN, v->by_step ? "step" : "tenth");
	DOC(p->d, FACT("growing_count", v->leak_cnt));
	doc__list(p->d, "growing", v->leak_cnt, columns);
	for (uint32_t i; doc__next(p->d, &i);) {
		const struct mr_group *g = &v->leaks[i];

		add_group(p, g);
		DOC(p->d, FACT("shape_count", g->shape_cnt),
		    FACT("bytes_per_period", (double)g->kept_before / v->periods_before));
		doc__cell(p->d, ".periods", "%4u/%-4u", g->periods, v->periods_before + 1);
	}
}

/* "12..59", "59", "before" */
static struct cell from_periods(const struct mr_group *g)
{
	if (g->last_period < 0)
		return cell__format("before");
	if (g->first_period == g->last_period)
		return cell__format("%" PRId64, g->last_period);
	return cell__format("%" PRId64 "..%" PRId64, g->first_period < 0 ? 0 : g->first_period,
			    g->last_period);
}

static void add_live(struct mr_printer *p)
{
	const struct mr_view *v = p->v;
	const struct doc_column columns[] = {
		{ "bytes", "bytes", 10, cell__bytes, 0, 0 },
		{ "blocks", "blocks", 8, NULL, 0, 0 },
		{ ".periods", v->by_step ? "of step" : "of tenth", 12, NULL, 0, 0 },
		{ ".who", "operator in annotation, input shapes", 0, NULL, 0, 0 },
		{ 0 },
	};
	uint64_t bytes = 0, blocks = 0;

	for (uint32_t i = 0; i < v->live_cnt; i++) {
		bytes += v->live[i]->kept;
		blocks += v->live[i]->kept_cnt;
	}
	doc__title(p->d, "Live at the end, allocated in the window: %s in %" PRIu64 " block%s",
		   cell__bytes((double)bytes).text, blocks, plural(blocks, "s"));
	DOC(p->d, FACT("live_bytes", bytes), FACT("live_blocks", blocks),
	    FACT("live_count", v->live_cnt));
	doc__list(p->d, "live", v->live_cnt, columns);
	for (uint32_t i; doc__next(p->d, &i);) {
		const struct mr_group *g = v->live[i];
		const struct mr_device *d = &p->mr->devices[g->device];

		doc__cell(p->d, ".periods", "%s", from_periods(g).text);
		if (d->type)
			doc__cell(p->d, ".who", "%s: %s", mem_name__device(d->type, d->index).text,
				  mr_say__who(p, &g->who).text);
		add_group(p, g);
	}
}

static void add_ooms(struct mr_printer *p)
{
	DOC(p->d, FACT("out_of_memory_count", p->v->proc->ooms),
	    FACT("oom_kill_count", p->v->proc->oom_kills));
	doc__all(p->d, "out_of_memory", p->v->oom_cnt, NULL);
	for (uint32_t i; doc__next(p->d, &i);) {
		const struct mr_oom *o = p->v->ooms[i];

		DOC(p->d, FACT("by", o->kill ? "kernel" : "torch"),
		    FACT("ns", mr__since_begin(p->mr, o->ts)), step_fact("step", o->step));
		add_who(p, &o->who);
		if (o->kill) {
			DOC(p->d, FACT("resident_bytes", o->bytes), FACT("asking_pid", o->by_tgid),
			    FACT("asking_tid", o->by_tid));
		} else {
			DOC(p->d, FACT("asked_bytes", o->bytes),
			    FACT("allocated_bytes", o->allocated),
			    FACT("device", mem_name__device(o->device_type, o->device_index).text));
		}
	}
}

static void add_other(struct mr_printer *p)
{
	const struct mr_other *o = &p->v->other;

	if (o->per_period <= 0) {
		DOC(p->d, fact__null("growth_beside_torch"));
		return;
	}
	doc__object(p->d, "growth_beside_torch");
	DOC(p->d, FACT("bytes_per_period", o->per_period - o->torch),
	    p->mr->info->has_kernel_memory ? FACT("heap", o->heap) : fact__null("heap"),
	    FACT("anonymous", o->anonymous), FACT("shared", o->shared), FACT("file", o->file));
	doc__end(p->d);
}

static void add_sizes(struct mr_printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	doc__break(p->d);
	if (!pr->has_rss) {
		DOC(p->d, fact__null("rss"));
		return;
	}
	mr_say__rss(p);
	doc__object(p->d, "rss");
	add_rss(p, "begin", true, pr->rss_begin);
	add_rss(p, "end", true, pr->rss);
	add_rss(p, "peak", true, pr->rss_peak);
	DOC(p->d, FACT("peak_ns", mr__since_begin(p->mr, pr->rss_peak_ts)),
	    step_fact("peak_step", pr->rss_peak_step), slope_fact(p, &pr->growth));
	add_other(p);
	doc__end(p->d);
}

/* ---- what the kernel did ---- */

static void add_kernel_sums(struct mr_printer *p, const struct mr_kernel *k)
{
	DOC(p->d, FACT("minor_faults", k->faults - k->major), FACT("major_faults", k->major),
	    FACT("fault_bytes", k->fault_bytes), FACT("mapped_bytes", k->map_bytes),
	    FACT("unmapped_bytes", k->unmap_bytes), FACT("advised_bytes", k->advise_bytes),
	    FACT("heap_bytes", k->brk_bytes), FACT("reclaims", k->reclaims),
	    FACT("reclaim_ns", k->reclaim_ns), FACT("compactions", k->compactions),
	    FACT("compaction_ns", k->compact_ns));
}

static void add_kernel_list(struct mr_printer *p, const char *key, const struct mr_kernel **rows,
			    uint32_t cnt, const struct doc_column *columns)
{
	doc__list(p->d, key, cnt, columns);
	for (uint32_t i; doc__next(p->d, &i);) {
		const struct mr_kernel *k = rows[i];

		add_who(p, &k->who);
		add_kernel_sums(p, k);
		DOC(p->d, FACT("longest_stall_ns", k->longest_ns), FACT(".faults", k->faults),
		    FACT(".net",
			 (double)k->map_bytes - (double)k->unmap_bytes + (double)k->brk_bytes),
		    FACT(".stalls", k->reclaims + k->compactions));
		if (k->longest_ns)
			DOC(p->d, FACT(".longest", k->longest_ns));
	}
}

static void add_kernel(struct mr_printer *p)
{
	static const struct doc_column faults[] = {
		{ "fault_bytes", "brought in", 10, cell__bytes, 0, 0 },
		{ ".faults", "faults", 9, NULL, 0, 0 },
		{ "major_faults", "major", 7, NULL, 0, 0 },
		{ ".net", "mapped, net", 11, cell__change, 0, 0 },
		{ ".who", "operator in annotation", 0, NULL, 0, 0 },
		{ 0 },
	}, stalls[] = {
		{ "reclaim_ns", "reclaim", 11, unit__ns, 0, 0 },
		{ "compaction_ns", "compaction", 11, unit__ns, 0, 0 },
		{ ".stalls", "times", 8, NULL, 0, 0 },
		{ ".longest", "longest", 11, unit__ns, 0, 0 },
		{ ".who", "operator in annotation", 0, NULL, 0, 0 },
		{ 0 },
	};
	const struct mr_kernel *sum = &p->v->proc->sum;

	doc__break(p->d);
	if (!p->mr->info->has_kernel_memory) {
		DOC(p->d, fact__null("kernel"));
		return;
	}
	doc__object(p->d, "kernel");
	add_kernel_sums(p, sum);
	DOC(p->d, FACT("huge_page_collapses", p->v->proc->huge_pages),
	    FACT("migrated_pages", p->v->proc->migrated));
	doc__title(p->d, "Page faults: %" PRIu64 ", %" PRIu64 " of them major, brought in %s",
		   sum->faults, sum->major, cell__bytes((double)sum->fault_bytes).text);
	DOC(p->d, FACT("by_faults_count", p->v->fault_cnt));
	add_kernel_list(p, "by_faults", p->v->faults, p->v->fault_cnt, faults);
	doc__title(p->d,
		   "Threads stalled for memory: %" PRIu64 " times %s in reclaim, %" PRIu64
		   " times %s in compaction",
		   sum->reclaims, cell__duration(sum->reclaim_ns).text, sum->compactions,
		   cell__duration(sum->compact_ns).text);
	DOC(p->d, FACT("by_stalls_count", p->v->stall_cnt));
	add_kernel_list(p, "by_stalls", p->v->stalls, p->v->stall_cnt, stalls);
	doc__end(p->d);
}

static void add_calls(struct mr_printer *p)
{
	static const struct doc_column columns[] = {
		{ "name", "call", -24, NULL, 0, 0 },
		{ "calls", "times", 8, NULL, 0, 0 },
		{ ".bytes", "asked for", 11, cell__bytes, 0, 0 },
		{ "ns", "time", 11, unit__ns, 0, 0 },
		{ ".note", NULL, -1, NULL, 0, 0 },
		{ 0 },
	};

	doc__title(p->d, "CUDA memory calls");
	doc__all(p->d, "calls", p->v->api_cnt, columns);
	for (uint32_t i; doc__next(p->d, &i);) {
		const struct mr_api *a = p->v->apis[i];

		DOC(p->d, FACT("name", MR_TEXT(p->mr, a->name)), FACT("calls", a->calls),
		    FACT("bytes", a->bytes), FACT("ns", a->ns), FACT("no_result", a->no_result));
		if (a->bytes)
			DOC(p->d, FACT(".bytes", a->bytes));
		if (a->no_result)
			doc__cell(p->d, ".note", "of %" PRIu64 " the return was not seen",
				  a->no_result);
	}
}

static void add_process(struct mr_printer *p)
{
	const struct mr_proc *pr = p->v->proc;

	mr_say__head(p);
	DOC(p->d, FACT("pid", pr->tgid), FACT("period", p->v->by_step ? "step" : "tenth"),
	    FACT("period_count", (uint64_t)p->v->periods_before + 1),
	    step_fact("first_step", pr->first_step), step_fact("last_step", pr->last_step),
	    FACT("freed_unknown", pr->freed_unknown));
	add_ooms(p);
	doc__all(p->d, "devices", p->v->device_cnt, NULL);
	for (uint32_t i; doc__next(p->d, &i);)
		add_device(p, p->v->devices[i]);
	add_sizes(p);
	add_growing(p);
	add_live(p);
	mr_say__balance(p);
	add_kernel(p);
	add_calls(p);
}

int mr_doc__finish(void *o, const struct output_args *args)
{
	struct mem_report *mr = o;
	struct doc d;
	struct mr_printer p = { .d = &d, .mr = mr };
	struct mr_view *views = mr_rank__new(mr);
	bool grows = false;

	doc__begin(&d, args);
	DOC(&d, FACT("profile_memory", mr->info->has_memory),
	    FACT("kernel_memory", mr->info->has_kernel_memory),
	    FACT("growing_periods_min", MR_LEAK_PERIODS_MIN));
	doc__all(&d, "processes", mr->proc_cnt, NULL);
	for (uint32_t i; doc__next(&d, &i);) {
		p.v = &views[i];
		if (i)
			doc__gap(&d);
		add_process(&p);
		grows = grows || p.v->leak_cnt;
	}
	mr_rank__free(views, mr->proc_cnt);
	if (!mr->info->has_memory) {
		doc__gap(&d);
		doc__line(&d,
			  "torch's allocations were not recorded: attach with --profile-memory");
	}
	if (!mr->info->has_kernel_memory) {
		doc__gap(&d);
		doc__line(
			&d,
			"The Linux kernel's part (faults, maps, reclaim) was not recorded: attach with --kernel-memory");
	}
	if (grows && !mr->info->has_py_stacks) {
		doc__gap(&d);
		doc__line(&d, "for the line of code: record with --with-stack");
	}
	return doc__finish(&d);
}

int mr_doc__headline(void *o, const struct output_args *args)
{
	struct mem_report *mr = o;
	struct mr_view *views = mr_rank__new(mr);
	struct doc d;
	struct mr_printer p = { .d = &d, .mr = mr };

	doc__begin(&d, args);
	for (uint32_t i = 0; i < mr->proc_cnt; i++) {
		p.v = &views[i];
		if (p.v->proc->tgid == args->tgid)
			mr_say__growth(&p);
	}
	mr_rank__free(views, mr->proc_cnt);
	return doc__finish(&d);
}
