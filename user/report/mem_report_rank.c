/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the sums of `report --memory` mean: which blocks were kept, which of them grow, what comes
 * first. The rules are in report_priv.h; prints nothing.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

/* ---- periods of time ---- */

uint32_t mr__time_period(const struct mem_report *mr, uint64_t ts)
{
	uint64_t begin = mr->info->begin_ns,
		 len = mr->info->end_ns > begin ? mr->info->end_ns - begin : 0;

	if (!len || ts <= begin)
		return 0;
	if (ts >= mr->info->end_ns)
		return MR_TIME_PERIODS - 1;
	return (uint32_t)((double)(ts - begin) / (double)len * MR_TIME_PERIODS);
}

/* ---- blocks that were kept ---- */

/* Sums of what was kept from one period by one group; the list is sorted to count periods. */
struct kept {
	uint32_t group, proc;
	int64_t period;
	uint64_t bytes, cnt;
};

struct keeper {
	struct mem_report *mr;
	struct kept *items;
	uint32_t item_cnt, item_cap;
	struct hashmap item_ids; /* (group, period) -> index */
};

static bool by_step(const struct mr_proc *p)
{
	return p->steps > 0;
}

/* Blocks from before the first step belong to no period: -1. */
static int64_t period_of(const struct mem_report *mr, const struct mr_proc *p,
			 const struct memory_block *b)
{
	return by_step(p) ? b->step : (int64_t)mr__time_period(mr, b->ts_ns);
}

static void keep(struct keeper *k, const struct memory_block *b)
{
	struct mr_group *g;
	struct kept *kept;
	uint32_t nr;
	int64_t period;

	g = mr__group_of(k->mr, b);
	nr = (uint32_t)(g - k->mr->groups);
	period = period_of(k->mr, &k->mr->procs[g->proc], b);
	kept = list__keyed(KEYED_LIST(k, items, item), nr, (uint64_t)period);
	kept->group = nr;
	kept->proc = g->proc;
	kept->period = period;
	kept->bytes += b->bytes;
	kept->cnt++;
}

static int64_t last_period(const struct mr_proc *p)
{
	return by_step(p) ? p->last_step : MR_TIME_PERIODS - 1;
}

/* Adds what is kept from one period to a group; its periods come in any order, each once. */
static void add_kept(struct mr_group *g, const struct kept *k, int64_t last)
{
	bool first = !g->kept_cnt;

	g->kept += k->bytes;
	g->kept_cnt += k->cnt;
	if (first || k->period < g->first_period)
		g->first_period = k->period;
	if (first || k->period > g->last_period)
		g->last_period = k->period;
	if (k->period < 0)
		return;
	g->periods++;
	if (k->period >= last)
		return;
	g->periods_before++;
	g->kept_before += k->bytes;
}

/* ---- leaks ---- */

/* Counted in steps where the process has any: parts of the window would cut through steps. */
static uint32_t periods_before(const struct mr_proc *p)
{
	if (by_step(p))
		return p->steps - 1;
	return MR_TIME_PERIODS - 1;
}

static bool grows(const struct mr_group *g, uint32_t before)
{
	return g->periods_before >= MR_LEAK_PERIODS_MIN && g->periods_before * 2 > before;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0; /* descending */
}

static int cmp_leak(const void *a, const void *b)
{
	const struct mr_group *x = a, *y = b;
	int c = cmp_u64(x->kept_before, y->kept_before);

	return c ? c : cmp_u64(x->kept, y->kept);
}

/* By who, then by period: one operator's periods over all shapes, next to each other. */
static int cmp_kept(const void *a, const void *b, void *arg)
{
	const struct mem_report *mr = arg;
	const struct kept *x = a, *y = b;
	const struct mr_group *g = &mr->groups[x->group], *h = &mr->groups[y->group];
	int c = g->device < h->device ? -1 : g->device > h->device;

	if (!c)
		c = memcmp(&g->who, &h->who, sizeof(g->who));
	if (!c)
		c = x->period < y->period ? -1 : x->period > y->period;
	return c ? c : x->group < y->group ? -1 : x->group > y->group;
}

static bool same_who(const struct mem_report *mr, const struct kept *a, const struct kept *b)
{
	const struct mr_group *g = &mr->groups[a->group], *h = &mr->groups[b->group];

	return g->device == h->device && !memcmp(&g->who, &h->who, sizeof(g->who));
}

/*
 * An operator whose inputs have another shape each time leaks in groups that do not grow: items is
 * all that it kept, in order of periods. False if one of its groups grows by itself, or all of them
 * do not.
 */
static bool sum_shapes(const struct mem_report *mr, const struct kept *items, uint32_t cnt,
		       uint32_t before, struct mr_group *sum)
{
	int64_t last = last_period(&mr->procs[items->proc]);
	uint64_t most = 0;
	uint32_t j;

	*sum = mr->groups[items->group];
	sum->kept = sum->kept_cnt = sum->kept_before = sum->periods = sum->periods_before = 0;
	sum->shape_cnt = 0;
	for (uint32_t i = 0; i < cnt; i = j) {
		struct kept k = items[i];

		for (j = i + 1; j < cnt && items[j].period == k.period; j++) {
			k.bytes += items[j].bytes;
			k.cnt += items[j].cnt;
		}
		add_kept(sum, &k, last);
	}
	for (uint32_t i = 0; i < cnt; i++) {
		const struct mr_group *g = &mr->groups[items[i].group];

		if (grows(g, before))
			return false;
		if (g->first_period == items[i].period) /* each group once */
			sum->shape_cnt++;
		if (g->kept > most) {
			most = g->kept;
			sum->shapes = g->shapes;
		}
	}
	return sum->shape_cnt > 1 && grows(sum, before);
}

static void find_leaks(struct mem_report *mr, struct mr_view *v, struct keeper *k)
{
	struct mr_group sum;
	uint32_t j;

	for (uint32_t i = 0; i < mr->group_cnt; i++)
		if (mr->groups[i].proc == v->nr && grows(&mr->groups[i], v->periods_before))
			vec_push(v->leaks, v->leak_cnt, v->leak_cap, mr->groups[i]);
	for (uint32_t i = 0; i < k->item_cnt; i = j) {
		for (j = i + 1; j < k->item_cnt && same_who(mr, &k->items[i], &k->items[j]); j++)
			;
		if (k->items[i].proc == v->nr &&
		    sum_shapes(mr, &k->items[i], j - i, v->periods_before, &sum))
			vec_push(v->leaks, v->leak_cnt, v->leak_cap, sum);
	}
	sort__array(v->leaks, v->leak_cnt, sizeof(*v->leaks), cmp_leak);
}

/* ---- what grows beside torch's blocks ---- */

static double grown(const struct mr_proc *p, uint32_t kind)
{
	return (double)p->rss[kind] - (double)p->rss_before[kind];
}

static void find_other(const struct mem_report *mr, struct mr_view *v)
{
	const struct mr_proc *p = v->proc;
	struct mr_other o = { 0 };
	double one;

	if (!p->runs || !mr_growth__noisy_slope(&p->growth, v->by_step, &o.per_period))
		return;
	for (uint32_t i = 0; i < v->device_cnt; i++)
		if (!v->devices[i]->type &&
		    mr_growth__slope(&v->devices[i]->growth, v->by_step, &one))
			o.torch += one;
	if (o.per_period < 0 || o.torch * 2 > o.per_period)
		return;
	o.torch = o.torch > 0 ? o.torch : 0; /* what it gives back, others take */
	o.anonymous = grown(p, PTB_RSS_ANON);
	o.shared = grown(p, PTB_RSS_SHMEM);
	o.file = grown(p, PTB_RSS_FILE);
	if (mr->info->has_kernel_memory && p->sum.brk_bytes > p->brk_before && o.anonymous > 0) {
		o.heap = (double)(p->sum.brk_bytes - p->brk_before);
		o.heap = o.heap < o.anonymous ? o.heap : o.anonymous;
		o.anonymous -= o.heap;
	}
	v->other = o;
}

/* ---- lists ---- */

static int cmp_live(const void *a, const void *b)
{
	const struct mr_group *x = *(const struct mr_group *const *)a,
			      *y = *(const struct mr_group *const *)b;
	int c = cmp_u64(x->kept, y->kept);

	return c ? c : x < y ? -1 : x > y;
}

static int cmp_peak(const void *a, const void *b)
{
	const struct mr_group *x = a, *y = b;
	int c = cmp_u64(x->peak, y->peak);

	if (!c)
		c = memcmp(&x->who, &y->who, sizeof(x->who));
	return c ? c : x->shapes < y->shapes ? -1 : x->shapes > y->shapes;
}

static int cmp_who(const void *a, const void *b)
{
	const struct mr_group *x = a, *y = b;

	return memcmp(&x->who, &y->who, sizeof(x->who));
}

static int cmp_faults(const void *a, const void *b)
{
	const struct mr_kernel *x = *(const struct mr_kernel *const *)a,
			       *y = *(const struct mr_kernel *const *)b;
	int c = cmp_u64(x->fault_bytes, y->fault_bytes);

	if (!c)
		c = cmp_u64(x->faults, y->faults);
	return c ? c : x < y ? -1 : x > y;
}

static int cmp_stalls(const void *a, const void *b)
{
	const struct mr_kernel *x = *(const struct mr_kernel *const *)a,
			       *y = *(const struct mr_kernel *const *)b;
	int c = cmp_u64(x->reclaim_ns + x->compact_ns, y->reclaim_ns + y->compact_ns);

	if (!c)
		c = cmp_u64(x->longest_ns, y->longest_ns);
	return c ? c : x < y ? -1 : x > y;
}

static int cmp_apis(const void *a, const void *b)
{
	const struct mr_api *x = *(const struct mr_api *const *)a,
			    *y = *(const struct mr_api *const *)b;
	int c = cmp_u64(x->ns, y->ns);

	return c ? c : x < y ? -1 : x > y;
}

/* Pointers to those elements of a list that are of the view's process and pass a condition. */
/* clang-format off */
#define PICK(v, out, out_cnt, items, cnt, cond)                           \
	do {                                                              \
		uint32_t n_;                                              \
		(v)->out = xcalloc((size_t)(cnt) + 1, sizeof(*(v)->out)); \
		for (n_ = 0; n_ < (cnt); n_++)                            \
			if ((items)[n_].proc == (v)->nr && (cond))        \
				(v)->out[(v)->out_cnt++] = &(items)[n_];  \
	} while (0)
/* clang-format on */

/* Arrays of pointers to const are not what sort__array() declares. */
#define SORT(list, cnt, cmp) sort__array((void *)(uintptr_t)(list), cnt, sizeof(*(list)), cmp)

static void fill_view(struct mem_report *mr, struct mr_view *v, uint32_t nr, struct keeper *k)
{
	v->proc = &mr->procs[nr];
	v->nr = nr;
	v->by_step = by_step(v->proc);
	v->periods_before = periods_before(v->proc);
	PICK(v, devices, device_cnt, mr->devices, mr->device_cnt, true);
	PICK(v, live, live_cnt, mr->groups, mr->group_cnt, mr->groups[n_].kept_cnt);
	PICK(v, faults, fault_cnt, mr->kernels, mr->kernel_cnt,
	     mr->kernels[n_].faults || mr->kernels[n_].map_bytes || mr->kernels[n_].unmap_bytes ||
		     mr->kernels[n_].brk_bytes);
	PICK(v, stalls, stall_cnt, mr->kernels, mr->kernel_cnt,
	     mr->kernels[n_].reclaim_ns || mr->kernels[n_].compact_ns);
	PICK(v, apis, api_cnt, mr->apis, mr->api_cnt, true);
	PICK(v, ooms, oom_cnt, mr->ooms, mr->oom_cnt, true);
	SORT(v->live, v->live_cnt, cmp_live);
	SORT(v->faults, v->fault_cnt, cmp_faults);
	SORT(v->stalls, v->stall_cnt, cmp_stalls);
	SORT(v->apis, v->api_cnt, cmp_apis);
	find_leaks(mr, v, k);
	find_other(mr, v);
}

static int cmp_view(const void *a, const void *b)
{
	const struct mr_view *x = a, *y = b;
	int c = cmp_u64(x->proc->weight, y->proc->weight);

	return c ? c : x->nr < y->nr ? -1 : x->nr > y->nr;
}

/* The process that takes most memory comes first. */
static void weigh(struct mem_report *mr)
{
	for (uint32_t i = 0; i < mr->proc_cnt; i++)
		mr->procs[i].weight = mr__resident(mr->procs[i].rss_peak);
	for (uint32_t i = 0; i < mr->device_cnt; i++) {
		struct mr_proc *p = &mr->procs[mr->devices[i].proc];

		if (mr->devices[i].peak > p->weight)
			p->weight = mr->devices[i].peak;
	}
}

struct mr_view *mr_rank__new(struct mem_report *mr)
{
	struct keeper k = { .mr = mr };
	const struct memory_block *live;
	struct mr_view *list;
	uint32_t i, live_cnt;

	mr__count_samples(mr, UINT64_MAX);
	for (i = 0; i < mr->group_cnt; i++)
		mr->groups[i].kept = mr->groups[i].kept_cnt = mr->groups[i].kept_before =
			mr->groups[i].periods = mr->groups[i].periods_before = 0;
	live = session__live_blocks(mr->s, &live_cnt);
	if (mr->info->has_memory)
		for (i = 0; i < live_cnt; i++)
			keep(&k, &live[i]);
	for (i = 0; i < k.item_cnt; i++)
		add_kept(&mr->groups[k.items[i].group], &k.items[i],
			 last_period(&mr->procs[k.items[i].proc]));
	sort__array_r(k.items, k.item_cnt, sizeof(*k.items), cmp_kept, mr);
	mr__merge_threads(mr);
	weigh(mr);
	list = xcalloc((size_t)mr->proc_cnt + 1, sizeof(*list));
	for (i = 0; i < mr->proc_cnt; i++) {
		list[i].proc = &mr->procs[i];
		list[i].nr = i;
	}
	sort__array(list, mr->proc_cnt, sizeof(*list), cmp_view);
	for (i = 0; i < mr->proc_cnt; i++)
		fill_view(mr, &list[i], list[i].nr, &k);
	free(k.items);
	hashmap__clear(&k.item_ids);
	return list;
}

void mr_rank__free(struct mr_view *views, uint32_t cnt)
{
	for (uint32_t i = 0; views && i < cnt; i++) {
		free((void *)(uintptr_t)views[i].devices);
		free(views[i].leaks);
		free((void *)(uintptr_t)views[i].live);
		free((void *)(uintptr_t)views[i].faults);
		free((void *)(uintptr_t)views[i].stalls);
		free((void *)(uintptr_t)views[i].apis);
		free((void *)(uintptr_t)views[i].ooms);
	}
	free(views);
}

/* Merges groups that differ only in shapes. Returns how many are left. */
static uint32_t sum_same_who(struct mr_group *all, uint32_t cnt)
{
	uint32_t n = 0;

	sort__array(all, cnt, sizeof(*all), cmp_who);
	for (uint32_t i = 0; i < cnt; i++) {
		if (n && !cmp_who(&all[n - 1], &all[i])) {
			all[n - 1].peak += all[i].peak;
			all[n - 1].peak_cnt += all[i].peak_cnt;
		} else {
			all[n++] = all[i];
		}
	}
	return n;
}

uint32_t mr_rank__at_peak(const struct mem_report *mr, const struct mr_device *d, bool by_shapes,
			  struct mr_group *out, uint32_t top)
{
	struct mr_group *all = xcalloc((size_t)mr->group_cnt + 1, sizeof(*all));
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < mr->group_cnt; i++) {
		const struct mr_group *g = &mr->groups[i];
		struct mr_group *copy = &all[cnt];

		if (&mr->devices[g->device] != d)
			continue;
		*copy = *g;
		if (g->peak_seen != d->peak_nr) { /* unchanged since the peak */
			copy->peak = g->live;
			copy->peak_cnt = g->live_cnt;
		}
		cnt += copy->peak > 0;
	}
	if (!by_shapes)
		cnt = sum_same_who(all, cnt);
	sort__array(all, cnt, sizeof(*all), cmp_peak);
	if (cnt > top)
		cnt = top;
	if (cnt)
		memcpy(out, all, cnt * sizeof(*all));
	free(all);
	return cnt;
}
