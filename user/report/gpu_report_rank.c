/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `report --gpu` concludes at the end of the stream: how busy devices and streams were, how
 * long work waited between its launch and its begin, which operator launches most of a kernel. See
 * report_priv.h.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

const struct gr_cause_row gr_causes[] = {
#define X(name, text, sentence) { text, sentence },
	GR_CAUSES(X)
#undef X
};

const char *gr__copy_text(const struct gpu_report *gr, char *buf, const struct gr_copy *c)
{
	const char *name = GR_TEXT(gr, c->name);

	if (c->device != c->to_device)
		snprintf(buf, GR_COPY_MAX, "%.100s, GPU %u to GPU %u", name, c->device,
			 c->to_device);
	else
		snprintf(buf, GR_COPY_MAX, "%s", name);
	return buf;
}

/* ---- order ---- */

static int by_stream(const void *a, const void *b)
{
	const struct gr_work *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_device(const void *a, const void *b)
{
	const struct gr_work *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Most time first. */
/* clang-format off */
#define BY_TIME(name, type)                                              \
	static int name(const void *a, const void *b)                    \
	{                                                                \
		const struct type *x = a, *y = b;                        \
                                                                         \
		return x->ns == y->ns ? 0 : x->ns < y->ns ? 1 : -1;      \
	}
/* clang-format on */

BY_TIME(by_kernel_time, gr_kernel)
BY_TIME(by_copy_time, gr_copy)
BY_TIME(by_api_time, gr_api)
BY_TIME(by_overhead_time, gr_overhead)
BY_TIME(by_why_time, gr_why)

#define SORT(list, cnt, cmp) sort__array(list, cnt, sizeof((list)[0]), cmp)

/* ---- busy ---- */

struct cover { /* the union of intervals that come in order of their begins */
	uint64_t until, ns;
};

static void cover__add(struct cover *c, const struct session_info *info, uint64_t begin,
		       uint64_t end)
{
	if (begin < info->begin_ns)
		begin = info->begin_ns;
	if (end > info->end_ns)
		end = info->end_ns;
	if (begin < c->until)
		begin = c->until;
	if (end <= begin)
		return;
	c->ns += end - begin;
	c->until = end;
}

static void find_streams(struct gpu_report *gr)
{
	struct cover kernels = { 0 }, work = { 0 };
	struct gr_stream *st = NULL;

	SORT(gr->work, gr->work_cnt, by_stream);
	for (uint32_t i = 0; i < gr->work_cnt; i++) {
		const struct gr_work *w = &gr->work[i];

		if (!st || st->device != w->device || st->stream != w->stream) {
			vec_push(gr->streams, gr->stream_cnt, gr->stream_cap,
				 (struct gr_stream){ .device = w->device, .stream = w->stream });
			st = &gr->streams[gr->stream_cnt - 1];
			kernels = work = (struct cover){ 0 };
		}
		if (w->kind == GR_KERNEL)
			cover__add(&kernels, gr->info, w->begin, w->end);
		cover__add(&work, gr->info, w->begin, w->end);
		st->kernels += w->kind == GR_KERNEL;
		st->copies += w->kind != GR_KERNEL;
		st->kernel_ns = kernels.ns;
		st->work_ns = work.ns;
	}
}

/* ---- from the launch to the begin ---- */

static void fill_latency(struct gr_latency *l, uint64_t *values, uint64_t cnt)
{
	sort__u64(values, cnt);
	*l = (struct gr_latency){ .cnt = cnt };
	if (!cnt)
		return;
	l->median = values[(cnt - 1) / 2];
	l->p90 = values[(cnt - 1) * 9 / 10];
	l->p99 = values[(cnt - 1) * 99 / 100];
}

/* Work is sorted by stream here: its predecessor in the list ran before it on the stream. */
static void find_latencies(struct gpu_report *gr, struct gr_device *d)
{
	uint64_t *all = xcalloc(d->last_work - d->first_work + 1, sizeof(*all));
	uint64_t *idle = xcalloc(d->last_work - d->first_work + 1, sizeof(*idle));
	uint64_t all_cnt = 0, idle_cnt = 0, busy_until = 0;
	uint32_t stream = UINT32_MAX;

	for (uint64_t i = d->first_work; i < d->last_work; i++) {
		const struct gr_work *w = &gr->work[i];
		uint64_t ns = w->begin > w->launch_end ? w->begin - w->launch_end : 0;

		if (w->stream != stream)
			busy_until = 0;
		stream = w->stream;
		if (w->launch_end) {
			all[all_cnt++] = ns;
			if (busy_until <= w->launch_end)
				idle[idle_cnt++] = ns;
		}
		busy_until = w->end > busy_until ? w->end : busy_until;
	}
	fill_latency(&d->all, all, all_cnt);
	fill_latency(&d->idle_stream, idle, idle_cnt);
	free(all);
	free(idle);
}

/* Work that is launched and has not begun: +1 when the call returns, -1 when it begins. */
static void find_depth(const struct gpu_report *gr, struct gr_device *d)
{
	uint64_t cnt = 0, depth = 0, at = 0, b = 0, first = 0;
	uint64_t *up = xcalloc(d->last_work - d->first_work + 1, sizeof(*up));
	uint64_t *down = xcalloc(d->last_work - d->first_work + 1, sizeof(*down));
	double area = 0.0;

	for (uint64_t i = d->first_work; i < d->last_work; i++) {
		const struct gr_work *w = &gr->work[i];

		if (!w->launch_end || w->begin <= w->launch_end)
			continue;
		up[cnt] = w->launch_end;
		down[cnt++] = w->begin;
	}
	sort__u64(up, cnt);
	sort__u64(down, cnt);
	at = first = up[0];
	for (uint64_t i = 0; b < cnt;) {
		bool rise = i < cnt && up[i] < down[b];
		uint64_t now = rise ? up[i] : down[b];

		area += (double)depth * (double)(now - at);
		at = now;
		depth = rise ? depth + 1 : depth - 1;
		d->depth_max = depth > d->depth_max ? depth : d->depth_max;
		i += rise;
		b += !rise;
	}
	d->depth_mean = at > first ? area / (double)gr__window_ns(gr) : 0.0;
	free(up);
	free(down);
}

/* ---- devices ---- */

static int by_id(const void *a, const void *b)
{
	const struct gr_device *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Devices with work, and those without. Work is sorted by device here, and so are the session's
 * devices. */
static void find_devices(struct gpu_report *gr)
{
	uint32_t at = 0, known = 0, first, id;

	while (at < gr->work_cnt || known < gr->info->device_cnt) {
		const struct ptb_gpu_device *props =
			known < gr->info->device_cnt ? gr->info->devices[known] : NULL;

		id = at < gr->work_cnt ? gr->work[at].device : props->id;
		if (props && props->id < id)
			id = props->id;
		if (props && props->id == id)
			known++;
		else
			props = NULL;
		for (first = at; at < gr->work_cnt && gr->work[at].device == id;)
			at++;
		vec_push(gr->devices, gr->device_cnt, gr->device_cap,
			 (struct gr_device){
				 .id = id, .props = props, .first_work = first, .last_work = at });
	}
	SORT(gr->devices, gr->device_cnt, by_id);
}

/* Work is sorted by device and begin here. */
static void fill_device(struct gpu_report *gr, struct gr_device *d)
{
	struct cover kernels = { 0 }, work = { 0 };

	for (uint64_t i = d->first_work; i < d->last_work; i++) {
		const struct gr_work *w = &gr->work[i];

		d->kernels += w->kind == GR_KERNEL;
		d->copies += w->kind == GR_COPY;
		d->fills += w->kind == GR_FILL;
		if (w->kind == GR_KERNEL)
			cover__add(&kernels, gr->info, w->begin, w->end);
		cover__add(&work, gr->info, w->begin, w->end);
	}
	d->kernel_ns = kernels.ns;
	d->work_ns = work.ns;
}

static void find_kernel_ops(struct gpu_report *gr)
{
	for (uint32_t i = 0; i < gr->kernel_op_cnt; i++) {
		const struct gr_kernel_op *o = &gr->kernel_ops[i];
		struct gr_kernel *k = &gr->kernels[o->kernel];

		if (o->ns >= k->op_ns) {
			k->op = o->op;
			k->op_ns = o->ns;
		}
	}
}

void gr_rank__all(struct gpu_report *gr)
{
	find_streams(gr);
	find_devices(gr);
	for (uint32_t i = 0; i < gr->device_cnt; i++)
		find_latencies(gr, &gr->devices[i]);
	/* by device already: first_work and last_work stay valid */
	SORT(gr->work, gr->work_cnt, by_device);
	for (uint32_t i = 0; i < gr->device_cnt; i++) {
		fill_device(gr, &gr->devices[i]);
		find_depth(gr, &gr->devices[i]);
		gr_gaps__find(gr, &gr->devices[i]);
	}
	find_kernel_ops(gr);
	SORT(gr->kernels, gr->kernel_cnt, by_kernel_time);
	SORT(gr->copies, gr->copy_cnt, by_copy_time);
	SORT(gr->apis, gr->api_cnt, by_api_time);
	SORT(gr->overheads, gr->overhead_cnt, by_overhead_time);
	SORT(gr->whys, gr->why_cnt, by_why_time);
	gr_graphs__rank(&gr->graphs);
	gr_gaps__sort(gr);
}
