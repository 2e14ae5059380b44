/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sink of `report --memory`: sums by process, device, operator. Its memory is bounded by the
 * number of distinct operators, annotations and shapes, not by that of events. Draws no
 * conclusions; see report_priv.h.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"

#define PAGE_BYTES 4096 /* x86-64 */

static int open_report(const struct output_args *args, void **out)
{
	struct mem_report *mr = xcalloc(1, sizeof(*mr));

	mr->s = args->s;
	mr->info = session__info(args->s);
	py_lines__init(&mr->lines, args->s);
	text_ids__init(&mr->texts);
	*out = mr;
	return 0;
}

static void free_report(void *o)
{
	struct mem_report *mr = o;

	if (!mr)
		return;
	text_ids__free(&mr->texts);
	py_lines__free(&mr->lines);
	hashmap__clear(&mr->who_ids);
	hashmap__clear(&mr->group_ids);
	hashmap__clear(&mr->kernel_ids);
	hashmap__clear(&mr->proc_ids);
	hashmap__clear(&mr->device_ids);
	hashmap__clear(&mr->api_ids);
	hashmap__clear(&mr->op_threads);
	free(mr->procs);
	free(mr->devices);
	free(mr->groups);
	free(mr->kernels);
	free(mr->apis);
	free(mr->ooms);
	free(mr);
}

static struct mr_who who_of(struct mem_report *mr, const char *op, const char *outer,
			    const char *annotation, uint32_t stack)
{
	struct mr_who who = { .op = text_ids__get(&mr->texts, op),
			      .annotation = text_ids__get(&mr->texts, annotation),
			      .line = py_lines__id(&mr->lines, mr->s, &mr->texts, stack) };

	who.outer = outer && op && !strcmp(outer, op) ? who.op : text_ids__get(&mr->texts, outer);
	return who;
}

static struct mr_who who_at(struct mem_report *mr, const struct op_context *at)
{
	return who_of(mr, at->op, at->outer_op, at->annotation, at->stack);
}

/* ---- where sums belong ---- */

static struct mr_proc *get_proc(struct mem_report *mr, uint32_t tgid)
{
	uint32_t before = mr->proc_cnt;
	struct mr_proc *p = list__keyed(KEYED_LIST(mr, procs, proc), tgid, 0);

	if (mr->proc_cnt > before) {
		p->tgid = tgid;
		p->first_step = p->last_step = p->rss_peak_step = -1;
		mr_growth__init(&p->growth);
	}
	return p;
}

static uint64_t device_key(int32_t type, int32_t index)
{
	return (uint64_t)(uint32_t)type << 32 | (uint32_t)index;
}

static uint32_t proc_nr(const struct mem_report *mr, const struct mr_proc *p)
{
	return (uint32_t)(p - mr->procs);
}

static struct mr_device *get_device(struct mem_report *mr, uint32_t proc, int32_t type,
				    int32_t index)
{
	uint32_t before = mr->device_cnt;
	struct mr_device *d =
		list__keyed(KEYED_LIST(mr, devices, device), proc, device_key(type, index));

	if (mr->device_cnt > before) {
		d->proc = proc;
		d->type = type;
		d->index = index;
		d->peak_step = -1;
		mr_growth__init(&d->growth);
	}
	return d;
}

/* A number for who, from 1. */
static uint32_t who_id(struct mem_report *mr, const struct mr_who *who)
{
	uint64_t k0 = (uint64_t)who->outer << 32 | who->op;
	uint64_t k1 = (uint64_t)who->line << 32 | who->annotation,
		 *nr = hashmap__get(&mr->who_ids, k0, k1);

	if (nr)
		return (uint32_t)*nr;
	hashmap__put(&mr->who_ids, k0, k1, ++mr->who_cnt);
	return mr->who_cnt;
}

static struct mr_group *get_group(struct mem_report *mr, uint32_t proc, uint32_t device,
				  const struct mr_who *who, uint32_t shapes)
{
	uint32_t who_nr = who_id(mr, who);
	uint64_t k0 = (uint64_t)who_nr << 32 | shapes, k1 = (uint64_t)proc << 32 | device;
	struct mr_group *g = list__keyed(KEYED_LIST(mr, groups, group), k0, k1);

	if (!g->shape_cnt)
		*g = (struct mr_group){ .proc = proc,
					.device = device,
					.who = *who,
					.shapes = shapes,
					.shape_cnt = 1 };
	return g;
}

struct mr_group *mr__group_of(struct mem_report *mr, const struct memory_block *b)
{
	struct mr_who who = who_of(mr, b->op, b->outer_op, b->annotation, b->stack);
	struct mr_proc *p = get_proc(mr, b->tgid);
	struct mr_device *d = get_device(mr, proc_nr(mr, p), b->device_type, b->device_index);

	return get_group(mr, proc_nr(mr, p), (uint32_t)(d - mr->devices), &who,
			 text_ids__get(&mr->texts, b->shapes));
}

static struct mr_kernel *get_kernel(struct mem_report *mr, uint32_t proc, const struct mr_who *who,
				    uint32_t unseen_tid)
{
	uint32_t who_nr = who_id(mr, who);
	struct mr_kernel *k = list__keyed(KEYED_LIST(mr, kernels, kernel), who_nr,
					  (uint64_t)unseen_tid << 32 | proc);

	k->proc = proc;
	k->who = *who;
	k->unseen_tid = unseen_tid;
	return k;
}

static bool is_unseen(const struct op_context *at)
{
	return !strcmp(at->op, SESSION_OP_UNSEEN);
}

static struct mr_kernel *kernel_at(struct mem_report *mr, const struct mr_proc *p,
				   const struct op_context *at)
{
	struct mr_who who = who_at(mr, at);

	return get_kernel(mr, proc_nr(mr, p), &who, is_unseen(at) ? at->tid : 0);
}

/* An operator or annotation: from now on the process does what it is for. */
static void runs_from_now(struct mr_proc *p)
{
	if (!p->runs)
		mr_growth__init(&p->growth);
	p->runs = true;
}

/* ---- steps ---- */

static void step_at(struct mr_proc *p, int64_t step)
{
	if (step <= p->last_step)
		return;
	if (p->first_step < 0)
		p->first_step = step;
	p->last_step = step;
	p->steps++;
}

/* ---- the size of the process ---- */

static void rss_at(struct mem_report *mr, struct mr_proc *p, uint64_t ts, int64_t step,
		   const uint64_t rss[PTB_RSS_KINDS])
{
	if (!mr__resident(rss))
		return;
	if (!p->has_rss)
		memcpy(p->rss_begin, rss, sizeof(p->rss_begin));
	if (!p->has_rss || !p->runs) {
		memcpy(p->rss_before, rss, sizeof(p->rss_before));
		p->brk_before = p->sum.brk_bytes;
	}
	mr_growth__at(&p->growth, step, mr__time_period(mr, ts), mr__resident(p->rss));
	memcpy(p->rss, rss, sizeof(p->rss));
	if (!p->has_rss || mr__resident(rss) > mr__resident(p->rss_peak)) {
		memcpy(p->rss_peak, rss, sizeof(p->rss_peak));
		p->rss_peak_ts = ts;
		p->rss_peak_step = step;
	}
	p->has_rss = true;
}

void mr__count_samples(struct mem_report *mr, uint64_t until)
{
	while (mr->rss_next < mr->info->rss_cnt && mr->info->rss[mr->rss_next].ts_ns <= until) {
		const struct session_rss *r = &mr->info->rss[mr->rss_next++];
		struct mr_proc *p = get_proc(mr, r->tgid);

		rss_at(mr, p, r->ts_ns, p->last_step, r->rss);
	}
}

/* ---- torch's blocks ---- */

/*
 * What each group had at the highest total, without a copy of all at each new one: a group that
 * changes notes its bytes first, if it has not since the last highest total.
 */
static void note_peak(const struct mr_device *d, struct mr_group *g)
{
	if (g->peak_seen == d->peak_nr)
		return;
	g->peak_seen = d->peak_nr;
	g->peak = g->live;
	g->peak_cnt = g->live_cnt;
}

static void count_block(struct mem_report *mr, struct mr_device *d, const struct memory_event *ev)
{
	bool alloc = ev->what == MEMORY_ALLOC;
	struct mr_group *g;

	if (alloc) {
		d->allocs++;
		d->alloc_bytes += ev->bytes > 0 ? (uint64_t)ev->bytes : 0;
	} else {
		d->frees++;
		if (ev->block || d->type)
			d->free_bytes += ev->bytes < 0 ? (uint64_t)-ev->bytes : 0;
	}
	if (!ev->block)
		return;
	g = mr__group_of(mr, ev->block);
	note_peak(d, g);
	if (alloc) {
		g->allocs++;
		g->alloc_bytes += ev->block->bytes;
		g->live += ev->block->bytes;
		g->live_cnt++;
	} else {
		g->live -= ev->block->bytes < g->live ? ev->block->bytes : g->live;
		g->live_cnt -= g->live_cnt > 0;
	}
}

/*
 * Of the CPU the sum of the window's blocks: its allocator and the one of mapped files and shared
 * memory (pytorch aten/src/ATen/MapAllocator.cpp) each report a total of their own. Other
 * allocators know what they have.
 */
static uint64_t total_after(const struct mr_device *d, const struct memory_event *ev)
{
	if (d->type)
		return ev->allocated;
	return ev->block ? d->now + (uint64_t)ev->bytes : d->now;
}

static void count_change(struct mem_report *mr, struct mr_proc *p, const struct memory_event *ev)
{
	uint32_t proc = proc_nr(mr, p);
	struct mr_device *d = get_device(mr, proc, ev->device_type, ev->device_index);

	if (!d->allocs && !d->frees && d->type && (int64_t)ev->allocated >= ev->bytes)
		/* before its first event */
		d->begin = d->now = d->peak = ev->allocated - (uint64_t)ev->bytes;
	mr_growth__at(&d->growth, ev->at.step, mr__time_period(mr, ev->ts_ns), d->now);
	count_block(mr, d, ev);
	d->now = total_after(d, ev);
	d->reserved = d->type ? ev->reserved : 0;
	if (d->reserved > d->reserved_peak)
		d->reserved_peak = d->reserved;
	if (d->now <= d->peak)
		return;
	d->peak = d->now;
	d->peak_nr++;
	d->peak_ts = ev->ts_ns;
	d->peak_step = ev->at.step;
	d->peak_who = who_at(mr, &ev->at);
	d->has_rss_at_peak = p->has_rss;
	memcpy(d->rss_at_peak, p->rss, sizeof(d->rss_at_peak));
}

static struct mr_oom *add_oom(struct mem_report *mr, const struct mr_proc *p,
			      const struct op_context *at, uint64_t ts)
{
	const struct mr_oom o = {
		.proc = proc_nr(mr, p), .ts = ts, .step = at->step, .who = who_at(mr, at)
	};

	vec_push(mr->ooms, mr->oom_cnt, mr->oom_cap, o);
	return &mr->ooms[mr->oom_cnt - 1];
}

static void count_oom(struct mem_report *mr, struct mr_proc *p, const struct memory_event *ev)
{
	struct mr_oom *o;

	p->ooms++;
	if (mr->oom_cnt >= MR_OOM_MAX)
		return;
	o = add_oom(mr, p, &ev->at, ev->ts_ns);
	o->bytes = ev->bytes > 0 ? (uint64_t)ev->bytes : 0;
	o->allocated = ev->allocated;
	o->device_type = ev->device_type;
	o->device_index = ev->device_index;
}

static void count_api(struct mem_report *mr, const struct mr_proc *p, const struct memory_event *ev)
{
	uint32_t proc = proc_nr(mr, p), name = text_ids__get(&mr->texts, ev->name);
	struct mr_api *a = list__keyed(KEYED_LIST(mr, apis, api), proc, name);

	a->proc = proc;
	a->name = name;
	a->calls++;
	a->bytes += ev->bytes > 0 ? (uint64_t)ev->bytes : 0;
	a->no_result += ev->no_result;
	if (!ev->no_result && ev->begin_ns && ev->begin_ns < ev->ts_ns)
		a->ns += ev->ts_ns - ev->begin_ns;
}

static void count_memory(void *arg, const struct memory_event *ev)
{
	struct mem_report *mr = arg;
	struct mr_proc *p;

	mr__count_samples(mr, ev->ts_ns);
	p = get_proc(mr, ev->at.tgid);
	step_at(p, ev->at.step);
	if (ev->at.slice || ev->at.step >= 0)
		runs_from_now(p);
	if (ev->what == MEMORY_ALLOC || ev->what == MEMORY_FREE)
		count_change(mr, p, ev);
	if (ev->what == MEMORY_OOM)
		count_oom(mr, p, ev);
	if (ev->what == MEMORY_API)
		count_api(mr, p, ev);
	p->freed_unknown += ev->what == MEMORY_FREE_UNKNOWN;
}

/* ---- the kernel ---- */

static void add_kmem(struct mr_kernel *k, const struct ptb_kmem *r)
{
	k->faults += (uint64_t)r->minor + r->major;
	k->major += r->major;
	k->fault_bytes += r->fault_bytes;
	k->reclaims += r->reclaims;
	k->compactions += r->compactions;
	k->reclaim_ns += r->reclaim_ns;
	k->compact_ns += r->compact_ns;
	k->map_bytes += r->map_bytes;
	k->unmap_bytes += r->unmap_bytes;
	k->advise_bytes += r->advise_bytes;
	k->brk_bytes += r->brk_bytes;
}

static void add_kernel(struct mr_kernel *to, const struct mr_kernel *k)
{
	to->faults += k->faults;
	to->major += k->major;
	to->fault_bytes += k->fault_bytes;
	to->reclaims += k->reclaims;
	to->compactions += k->compactions;
	to->reclaim_ns += k->reclaim_ns;
	to->compact_ns += k->compact_ns;
	to->longest_ns = k->longest_ns > to->longest_ns ? k->longest_ns : to->longest_ns;
	to->map_bytes += k->map_bytes;
	to->unmap_bytes += k->unmap_bytes;
	to->advise_bytes += k->advise_bytes;
	to->brk_bytes += k->brk_bytes;
}

static void count_kmem(struct mem_report *mr, struct mr_proc *p, const struct op_context *at,
		       const struct ptb_kmem *r)
{
	struct mr_kernel *k = kernel_at(mr, p, at);
	uint64_t rss[PTB_RSS_KINDS];

	add_kmem(k, r);
	add_kmem(&p->sum, r);
	for (uint32_t i = 0; i < PTB_RSS_KINDS; i++)
		rss[i] = r->rss[i];
	rss_at(mr, p, r->h.ts_ns, at->step, rss);
}

static void count_stall(struct mem_report *mr, const struct mr_proc *p, const struct op_context *at,
			const struct ptb_kmem_stall *st)
{
	uint64_t ns = st->begin_ns && st->begin_ns < st->h.ts_ns ? st->h.ts_ns - st->begin_ns : 0;
	struct mr_kernel *k = kernel_at(mr, p, at);

	if (ns > k->longest_ns) /* the sums include it */
		k->longest_ns = ns;
}

static void count_happening(struct mem_report *mr, struct mr_proc *p, const struct op_context *at,
			    const struct ptb_kmem_event *e)
{
	struct mr_oom *o;

	if (e->what == PTB_KMEM_HUGE_PAGE)
		p->huge_pages++;
	if (e->what == PTB_KMEM_MIGRATE)
		p->migrated += e->pages;
	if (e->what != PTB_KMEM_OOM_KILL)
		return;
	p->oom_kills++;
	if (mr->oom_cnt >= MR_OOM_MAX)
		return;
	o = add_oom(mr, p, at, e->h.ts_ns);
	o->kill = true;
	o->bytes = e->pages * PAGE_BYTES;
	o->by_tgid = e->by_tgid;
	o->by_tid = e->by_tid;
}

static void count_kernel_record(void *arg, const struct kernel_event *ev)
{
	struct mem_report *mr = arg;
	const struct ptb_rec_hdr *h = ev->rec;
	struct mr_proc *p;

	mr__count_samples(mr, h->ts_ns);
	p = get_proc(mr, h->tgid);
	step_at(p, ev->at.step);
	if (ev->at.slice || ev->at.step >= 0)
		runs_from_now(p);
	/* the sums include single calls */
	if (h->kind == PTB_REC_KMEM)
		count_kmem(mr, p, &ev->at, (const struct ptb_kmem *)h);
	if (h->kind == PTB_REC_KMEM_STALL)
		count_stall(mr, p, &ev->at, (const struct ptb_kmem_stall *)h);
	if (h->kind == PTB_REC_KMEM_EVENT)
		count_happening(mr, p, &ev->at, (const struct ptb_kmem_event *)h);
}

static void note_slice(void *arg, const struct slice *sl)
{
	struct mem_report *mr = arg;
	const uint64_t *proc = hashmap__get(&mr->proc_ids, sl->tgid, 0);

	if (proc)
		runs_from_now(&mr->procs[*proc]);
	hashmap__put(&mr->op_threads, sl->tgid, sl->tid, 1);
}

/* A thread that has not shown an operator yet may be within one: only at the end it is known which
 * ones never had any. */
void mr__merge_threads(struct mem_report *mr)
{
	uint32_t cnt = mr->kernel_cnt;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct mr_kernel one = mr->kernels[i];
		uint32_t tgid = mr->procs[one.proc].tgid;
		struct mr_who who = one.who;
		struct mr_kernel *all;

		if (!one.unseen_tid)
			continue;
		if (one.unseen_tid != tgid && !hashmap__get(&mr->op_threads, tgid, one.unseen_tid))
			who.op = text_ids__get(&mr->texts, MR_NO_OPS);
		all = get_kernel(mr, one.proc, &who, 0);
		add_kernel(all, &one);
		mr->kernels[i] = (struct mr_kernel){ .proc = one.proc, .who = who };
	}
}

static struct session_sink report_sink(void *o)
{
	return (struct session_sink){
		.arg = o, .slice = note_slice, .memory = count_memory, .kernel = count_kernel_record
	};
}

const struct output memory_report = {
	.needs = NEEDS_MEMORY,
	.rows = ROWS_OF_LISTS,
	.open = open_report,
	.sink = report_sink,
	.finish = mr_doc__finish,
	.free = free_report,
};

const struct output memory_headline = {
	.open = open_report,
	.sink = report_sink,
	.finish = mr_doc__headline,
	.free = free_report,
};
