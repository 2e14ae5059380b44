/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From the session of a window to what `sample --metrics` says of it; see metrics.h. */
#include "sample/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/containers.h"
#include "base/mem.h"
#include "model/key_averages.h"
#include "report/report.h"

#define RSS_NS 100000000ULL /* before the window's end: its last readings of /proc */
#define CUT_STEP                                                                                   \
	(SLICE_OPEN_AT_BEGIN | SLICE_UNFINISHED | SLICE_UNWOUND | SLICE_END_LOST |                 \
	 SLICE_THREAD_EXIT | SLICE_TRUNCATED | SLICE_PARTIAL)

struct device { /* what an allocator of a process said last */
	uint64_t allocated, reserved;
};

struct window_metrics {
	const struct session_info *info;
	struct key_averages *ka;
	void *gr; /* of gpus_report; NULL: no GPU data */
	struct device *devices;
	uint32_t device_cnt, device_cap;
	struct hashmap device_ids; /* process; type and index */
	const struct hashmap *users;
	struct strtab *ops;    /* names of operators */
	struct hashmap op_ids; /* (name pointer: the session interns) -> id in ops */
	uint32_t *op_uids;     /* by that id - 1: whose processes have it */
	uint32_t op_uid_cnt, op_uid_cap;
	struct metrics_window w;
};

void window_metrics__read_users(struct hashmap *users)
{
	DIR *proc = opendir("/proc");
	const struct dirent *de;
	struct stat st;

	while (proc && (de = readdir(proc)))
		if (atoi(de->d_name) > 0 && !fstatat(dirfd(proc), de->d_name, &st, 0))
			hashmap__put(users, (uint64_t)atoi(de->d_name), 0, st.st_uid);
	if (proc)
		closedir(proc);
}

/* Those of processes that have ended, or hide whose they are (prctl(2), PR_SET_DUMPABLE), share
 * what one user has. */
static uint32_t uid_of(const struct window_metrics *wm, uint32_t tgid)
{
	const uint64_t *uid = hashmap__get(wm->users, tgid, 0);

	return uid ? (uint32_t)*uid : METRICS_NO_USER;
}

static void take_operator(struct window_metrics *wm, const struct slice *sl)
{
	const uint64_t *known = hashmap__get(&wm->op_ids, (uintptr_t)sl->name, 0);
	uint32_t id = known ? (uint32_t)*known : strtab__add(wm->ops, sl->name, strlen(sl->name));
	uint32_t uid = uid_of(wm, sl->tgid);

	if (id > wm->op_uid_cnt)
		vec_push(wm->op_uids, wm->op_uid_cnt, wm->op_uid_cap, uid);
	if (!known)
		hashmap__put(&wm->op_ids, (uintptr_t)sl->name, 0, id);
	if (wm->op_uids[id - 1] != uid)
		wm->op_uids[id - 1] = METRICS_NO_USER;
}

/* Steps are derived, or of a torch.profiler in the program. */
static void take_slice(void *arg, const struct slice *sl)
{
	struct window_metrics *wm = arg;

	if (sl->cat == SLICE_CPU_OP)
		take_operator(wm, sl);
	if (sl->cat != SLICE_USER_ANNOTATION ||
	    (!step_name__is(sl->name) && !(sl->flags & SLICE_PARTIAL)))
		return;
	if (sl->flags & CUT_STEP)
		wm->w.partial_steps++;
	else
		metrics_window__step(&wm->w, sl->end_ns - sl->begin_ns);
}

static void take_memory(void *arg, const struct memory_event *ev)
{
	struct window_metrics *wm = arg;
	enum device_class class = memory__device_class(ev->device_type);
	uint64_t *sum = &wm->w.alloc_bytes[class == DEVICE_ACCELERATOR];
	struct device *d;

	if ((ev->what != MEMORY_ALLOC && ev->what != MEMORY_FREE) || class == DEVICE_OTHER)
		return;
	if (ev->what == MEMORY_ALLOC && ev->bytes > 0)
		*sum = metrics__sum(*sum, (uint64_t)ev->bytes);
	if (class == DEVICE_CPU)
		return;
	d = list__keyed(KEYED_LIST(wm, devices, device), ev->at.tgid,
			(uint64_t)(uint32_t)ev->device_type << 32 | (uint32_t)ev->device_index);
	d->allocated = ev->allocated;
	d->reserved = ev->reserved;
}

static void take_kernel(void *arg, const struct kernel_event *ev)
{
	struct window_metrics *wm = arg;
	const struct ptb_kmem *r = (const void *)ev->rec;

	if (ev->rec->kind == PTB_REC_KMEM) {
		wm->w.minor_faults += r->minor;
		wm->w.major_faults += r->major;
	}
}

static void take_wait(void *arg, const struct sched_event *ev)
{
	struct window_metrics *wm = arg;

	for (uint32_t i = 0; i < PTB_WAIT_CNT && ev->at.tid == ev->at.tgid; i++)
		wm->w.wait_ns[i] = metrics__sum(wm->w.wait_ns[i], ev->ns[i]);
}

struct window_metrics *window_metrics__new(const struct session *s, const struct hashmap *users)
{
	struct window_metrics *wm = xcalloc(1, sizeof(*wm));

	wm->info = session__info(s);
	wm->users = users;
	wm->ka = key_averages__new(NULL);
	wm->ops = strtab__new();
	if (wm->info->has_gpu)
		gpus_report.open(&(struct output_args){ .s = s }, &wm->gr);
	return wm;
}

uint32_t window_metrics__sinks(struct window_metrics *wm, struct session_sink *sinks)
{
	uint32_t n = 0;

	sinks[n++] = (struct session_sink){ .arg = wm,
					    .slice = take_slice,
					    .memory = take_memory,
					    .kernel = take_kernel,
					    .sched = take_wait };
	sinks[n++] = key_averages__sink(wm->ka);
	if (wm->gr)
		sinks[n++] = gpus_report.sink(wm->gr);
	return n;
}

/* The last readings of processes that lived at the end. */
static void sum_resident(struct window_metrics *wm)
{
	const struct session_info *info = wm->info;
	struct hashmap seen = { .cap = 0 };

	for (uint32_t i = info->rss_cnt; i--;) {
		const struct session_rss *r = &info->rss[i];

		if (r->ts_ns + RSS_NS < info->end_ns)
			break;
		if (hashmap__get(&seen, r->tgid, 0))
			continue;
		for (uint32_t k = 0; k < PTB_RSS_KINDS; k++)
			wm->w.rss[k] += r->rss[k];
		hashmap__put(&seen, r->tgid, 0, 1);
	}
	hashmap__clear(&seen);
}

/* Most time first. */
static int by_time(const void *a, const void *b)
{
	return sort__cmp(((const struct metrics_op *)b)->self_ns,
			 ((const struct metrics_op *)a)->self_ns);
}

static void sum_operators(struct window_metrics *wm)
{
	struct metrics_window *w = &wm->w;
	uint32_t cnt = 0;
	const struct ka_row *rows = key_averages__rows(wm->ka, &cnt);

	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t id = strtab__find(wm->ops, rows[i].key, strlen(rows[i].key));

		if (rows[i].category && !strcmp(rows[i].category, "cpu_op") &&
		    (int64_t)rows[i].self_cpu_ns > 0)
			metrics_window__op(w, rows[i].key,
					   id ? wm->op_uids[id - 1] : METRICS_NO_USER,
					   rows[i].self_cpu_ns);
	}
	sort__array(w->ops, w->op_cnt, sizeof(*w->ops), by_time);
	while (w->op_cnt > METRICS_WINDOW_OPS)
		w->rest_ns += w->ops[--w->op_cnt].self_ns;
}

static void sum_gpus(struct window_metrics *wm)
{
	struct gpu_busy busy[METRICS_GPUS];

	wm->w.gpu_cnt = gpu_report__busy(wm->gr, busy, METRICS_GPUS);
	for (uint32_t i = 0; i < wm->w.gpu_cnt; i++)
		wm->w.gpus[i] = (struct metrics_gpu){ .id = busy[i].id, .busy_ns = busy[i].ns };
}

static void set_cost(struct metrics_window *w, const struct session_info *info)
{
	w->has_cost = info->sample_hz || session_info__counter(info, PTB_CNT_COST_PS);
	w->cost_ns = info->sample_hz ? session_info__counter(info, PTB_CNT_SAMPLES_NS) :
				       (uint64_t)session_info__cost_ns(info);
}

void window_metrics__finish(struct window_metrics *wm, const struct session_totals *totals,
			    struct metrics_window *out)
{
	const struct session_info *info = wm->info;
	struct metrics_window *w = &wm->w;

	if (wm->gr)
		sum_gpus(wm);
	sum_operators(wm);
	sum_resident(wm);
	w->window_ns = info->end_ns - info->begin_ns;
	w->operators = totals->ops;
	set_cost(w, info);
	w->has_memory = info->has_memory;
	w->has_faults = info->has_kernel_memory;
	w->has_waits = info->has_sched;
	w->has_device_memory = wm->device_cnt > 0;
	for (uint32_t i = 0; i < wm->device_cnt; i++) {
		w->device_bytes += wm->devices[i].allocated;
		w->device_reserved_bytes += wm->devices[i].reserved;
	}
	for (uint32_t i = 0; i < PTB_CNT_MAP; i++)
		w->losses[i] = session_info__counter(info, i);
	*out = *w;
	w->ops = NULL;
}

void window_metrics__free(struct window_metrics *wm)
{
	if (!wm)
		return;
	key_averages__free(wm->ka);
	gpus_report.free(wm->gr);
	hashmap__clear(&wm->device_ids);
	hashmap__clear(&wm->op_ids);
	strtab__free(wm->ops);
	free(wm->op_uids);
	free(wm->devices);
	free(wm->w.ops);
	free(wm);
}
