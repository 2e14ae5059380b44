/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sink of `report --gpu`: keeps the intervals that conclusions need (work, calls, outermost operators), sums up
 * the rest by name. Draws no conclusions; see gpu_report_priv.h.
 */
#define LOG_DOMAIN "gpu"
#include "report/gpu_report_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/vec.h"

struct gpu_report *gpu_report__new(const struct session *s)
{
	struct gpu_report *gr = calloc(1, sizeof(*gr));

	if (!gr)
		return NULL;
	gr->s = s;
	gr->info = session__info(s);
	gr->texts = strtab__new();
	if (!gr->texts) {
		free(gr);
		return NULL;
	}
	return gr;
}

void gpu_report__free(struct gpu_report *gr)
{
	uint32_t i;

	if (!gr)
		return;
	for (i = 0; i < gr->thread_cnt; i++) {
		free(gr->threads[i].ops);
		free(gr->threads[i].annotations);
		free(gr->threads[i].calls);
	}
	strtab__free(gr->texts);
	hashmap__clear(&gr->thread_ids);
	hashmap__clear(&gr->kernel_ids);
	hashmap__clear(&gr->kernel_op_ids);
	hashmap__clear(&gr->api_ids);
	hashmap__clear(&gr->why_ids);
	hashmap__clear(&gr->device_ids);
	hashmap__clear(&gr->known_texts);
	free(gr->work);
	free(gr->threads);
	free(gr->kernels);
	free(gr->kernel_ops);
	free(gr->copies);
	free(gr->apis);
	free(gr->overheads);
	free(gr->devices);
	free(gr->streams);
	free(gr->gaps);
	free(gr->whys);
	free(gr);
}

void *gr__append(void **items, uint32_t *cnt, uint32_t *cap, size_t sz)
{
	char *e;

	if (vec_reserve(items, cap, (uint64_t)*cnt + 1, sz)) {
		pr_error("cannot sum up GPU work: %s", errstr(ENOMEM));
		return NULL;
	}
	e = (char *)*items + sz * (*cnt)++;
	memset(e, 0, sz);
	return e;
}

/* 0 for no text and when out of memory; who is asked for memory next will say so. */
static uint32_t text_id(struct gpu_report *gr, const char *text)
{
	const uint64_t *known;
	uint32_t id;

	if (!text || !*text)
		return 0;
	known = hashmap__get(&gr->known_texts, (uintptr_t)text, 0);
	if (known && !strcmp(strtab__text(gr->texts, (uint32_t)*known), text))
		return (uint32_t)*known;
	id = strtab__add(gr->texts, text, strlen(text));
	return id && !hashmap__put(&gr->known_texts, (uintptr_t)text, 0, id) ? id : 0;
}

static uint32_t thread_of(struct gpu_report *gr, uint32_t tgid, uint32_t tid)
{
	const uint64_t *at = hashmap__get(&gr->thread_ids, tgid, tid);
	struct gr_thread *t;

	if (at)
		return (uint32_t)*at;
	t = GR_APPEND(gr, threads, thread_cnt, thread_cap);
	if (!t || hashmap__put(&gr->thread_ids, tgid, tid, gr->thread_cnt - 1))
		return UINT32_MAX;
	t->tgid = tgid;
	t->tid = tid;
	return gr->thread_cnt - 1;
}

/* Children come before their parents: what lies inside the operator is at the end of the list. */
static int on_slice(void *arg, const struct slice *sl)
{
	struct gpu_report *gr = arg;
	uint32_t at = thread_of(gr, sl->tgid, sl->tid);
	struct gr_thread *t;
	struct gr_span *sp;

	if (at == UINT32_MAX)
		return -ENOMEM;
	t = &gr->threads[at];
	if (sl->cat == SLICE_USER_ANNOTATION) {
		if (sl->flags & SLICE_DERIVED || !strncmp(sl->name, "ProfilerStep#", 13))
			return 0;
		sp = GR_APPEND(t, annotations, annotation_cnt, annotation_cap);
	} else {
		while (t->op_cnt && t->ops[t->op_cnt - 1].begin >= sl->begin_ns)
			t->op_cnt--;
		sp = GR_APPEND(t, ops, op_cnt, op_cap);
	}
	if (!sp)
		return -ENOMEM;
	*sp = (struct gr_span){ .begin = sl->begin_ns, .end = sl->end_ns, .name = text_id(gr, sl->name) };
	return 0;
}

/* ---- calls ---- */

/* The host stands in it until the GPU has done something. */
static bool waits(enum gpu_api_kind kind, const char *name)
{
	return kind == GPU_API_SYNC ||
	       (kind == GPU_API_COPY && !strstr(name, "Async") && !strstr(name, "Peer"));
}

static struct gr_api *api_of(struct gpu_report *gr, const struct gr_api *a)
{
	uint64_t flags = (uint64_t)a->driver << 32 | (uint64_t)a->host_only << 33 | a->name;
	uint64_t place = (uint64_t)a->op << 32 | a->annotation;
	const uint64_t *at = hashmap__get(&gr->api_ids, flags, place);
	struct gr_api *new;

	if (at)
		return &gr->apis[*at];
	new = GR_APPEND(gr, apis, api_cnt, api_cap);
	if (!new || hashmap__put(&gr->api_ids, flags, place, gr->api_cnt - 1))
		return NULL;
	*new = *a;
	return new;
}

static int keep_call(struct gpu_report *gr, const struct gpu_slice *g, const struct gr_api *a)
{
	uint32_t at = thread_of(gr, g->at.tgid, g->at.tid);
	struct gr_call *c;

	if (at == UINT32_MAX)
		return -ENOMEM;
	c = GR_APPEND(&gr->threads[at], calls, call_cnt, call_cap);
	if (!c)
		return -ENOMEM;
	*c = (struct gr_call){ .begin = g->begin_ns,
			       .end = g->end_ns,
			       .name = a->name,
			       .op = text_id(gr, g->at.op),
			       .annotation = text_id(gr, g->at.annotation),
			       .waits = a->waits };
	return 0;
}

/* A launch that only the host saw has the kernel's name, where there is one: those are summed up like kernels. */
static int count_kernel(struct gpu_report *gr, const char *name, const char *op, uint64_t ns)
{
	uint32_t id = text_id(gr, name && *name ? name : "(not known)"), op_id = text_id(gr, op);
	const uint64_t *at = hashmap__get(&gr->kernel_ids, id, 0);
	struct gr_kernel *k = at ? &gr->kernels[*at] : GR_APPEND(gr, kernels, kernel_cnt, kernel_cap);
	struct gr_kernel_op *o;
	uint32_t nr;

	if (!k || (!at && hashmap__put(&gr->kernel_ids, id, 0, gr->kernel_cnt - 1)))
		return -ENOMEM;
	nr = (uint32_t)(k - gr->kernels);
	k->name = id;
	k->min_ns = !k->cnt || ns < k->min_ns ? ns : k->min_ns;
	k->max_ns = ns > k->max_ns ? ns : k->max_ns;
	k->cnt++;
	k->ns += ns;
	at = hashmap__get(&gr->kernel_op_ids, nr, op_id);
	o = at ? &gr->kernel_ops[*at] : GR_APPEND(gr, kernel_ops, kernel_op_cnt, kernel_op_cap);
	if (!o || (!at && hashmap__put(&gr->kernel_op_ids, nr, op_id, gr->kernel_op_cnt - 1)))
		return -ENOMEM;
	o->kernel = nr;
	o->op = op_id;
	o->cnt++;
	o->ns += ns;
	return 0;
}

static int on_call(struct gpu_report *gr, const struct gpu_slice *g)
{
	const struct ptb_cuda_call *c = (const void *)g->rec;
	const struct ptb_gpu_api *r = (const void *)g->rec;
	uint64_t ns = g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
	struct gr_api key = { .driver = g->driver, .host_only = g->host_only }, *a;
	int err = 0;

	key.kind = gpu_api__kind(g->name);
	key.name = text_id(gr, g->name);
	key.waits = waits(key.kind, g->name);
	if (key.waits) { /* where it waits is what one wants to know of these */
		key.op = text_id(gr, g->at.op);
		key.annotation = text_id(gr, g->at.annotation);
	}
	a = api_of(gr, &key);
	if (!a)
		return -ENOMEM;
	a->cnt++;
	a->ns += ns;
	a->max_ns = ns > a->max_ns ? ns : a->max_ns;
	if (g->host_only) {
		a->bytes += c->bytes;
		a->errors += (c->flags & PTB_CUDA_HAS_RESULT) && c->result;
		a->no_result += !!(c->flags & PTB_API_NO_RESULT);
		if (key.kind == GPU_API_LAUNCH && !gr->info->has_gpu)
			err = count_kernel(gr, g->kernel_name, g->at.op, ns);
	} else {
		a->errors += !!r->result;
	}
	if (gpu_api__is_launch(key.kind) && !g->driver) {
		gr->launches++;
		gr->launch_ns += ns;
	}
	return err ? err : keep_call(gr, g, a);
}

/* ---- work ---- */

static int count_copy(struct gpu_report *gr, const struct gpu_slice *g, uint64_t ns)
{
	const struct ptb_gpu_memory *m = (const void *)g->rec;
	struct gr_copy key = { .fill = g->what == GPU_MEMSET,
			       .name = text_id(gr, g->name),
			       .device = g->device,
			       .to_device = g->device };
	struct gr_copy *c = NULL;
	uint32_t i;

	if (m->flags & PTB_GPU_PEER) {
		key.device = m->src_device;
		key.to_device = m->dst_device;
	}
	effort__spend(gr->copy_cnt);
	for (i = 0; i < gr->copy_cnt && !c; i++) {
		const struct gr_copy *o = &gr->copies[i];

		if (o->name == key.name && o->device == key.device && o->to_device == key.to_device)
			c = &gr->copies[i];
	}
	if (!c) {
		c = GR_APPEND(gr, copies, copy_cnt, copy_cap);
		if (!c)
			return -ENOMEM;
		*c = key;
	}
	c->cnt++;
	c->bytes += m->bytes;
	c->ns += ns;
	c->max_ns = ns > c->max_ns ? ns : c->max_ns;
	return 0;
}

/* For one more device, if it is one. */
static bool has_room(struct gpu_report *gr, uint32_t device)
{
	if (hashmap__get(&gr->device_ids, device, 0))
		return true;
	return gr->device_ids.live < LIMIT_REPORT_DEVICES &&
	       !hashmap__put(&gr->device_ids, device, 0, 1);
}

static int on_work(struct gpu_report *gr, const struct gpu_slice *g)
{
	uint64_t ns = g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
	uint32_t thread = UINT32_MAX;
	struct gr_work *wk;
	int err;

	if (!has_room(gr, g->device))
		return SESSION_SINK_LEFT_OUT;
	if (g->at.tid) {
		thread = thread_of(gr, g->at.tgid, g->at.tid);
		if (thread == UINT32_MAX)
			return -ENOMEM;
	}
	wk = GR_APPEND(gr, work, work_cnt, work_cap);
	if (!wk)
		return -ENOMEM;
	*wk = (struct gr_work){ .begin = g->begin_ns,
				.end = g->end_ns,
				.launch_begin = g->launch_begin_ns,
				.launch_end = g->launch_end_ns,
				.device = g->device,
				.stream = g->stream,
				.thread = thread,
				.kind = g->what == GPU_KERNEL ? GR_KERNEL :
					g->what == GPU_MEMCPY ? GR_COPY :
								GR_FILL };
	gr->unlinked += !g->launch_end_ns;
	gr->before_launch += g->before_launch;
	if (g->what != GPU_KERNEL)
		return count_copy(gr, g, ns);
	gr->kernel_ns += ns;
	err = count_kernel(gr, g->name, g->at.op, ns);
	return err;
}

static int on_overhead(struct gpu_report *gr, const struct gpu_slice *g)
{
	uint32_t name = text_id(gr, g->name);
	struct gr_overhead *o = NULL;
	uint32_t i;

	effort__spend(gr->overhead_cnt);
	for (i = 0; i < gr->overhead_cnt && !o; i++)
		if (gr->overheads[i].name == name)
			o = &gr->overheads[i];
	if (!o)
		o = GR_APPEND(gr, overheads, overhead_cnt, overhead_cap);
	if (!o)
		return -ENOMEM;
	o->name = name;
	o->cnt++;
	o->ns += g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
	return 0;
}

static int on_gpu(void *arg, const struct gpu_slice *g)
{
	struct gpu_report *gr = arg;

	if (!g->rec || !g->name)
		return 0;
	switch (g->what) {
	case GPU_API:
		return on_call(gr, g);
	case GPU_KERNEL:
	case GPU_MEMCPY:
	case GPU_MEMSET:
		return on_work(gr, g);
	case GPU_OVERHEAD:
		return on_overhead(gr, g);
	default:
		return 0;
	}
}

struct session_sink gpu_report__sink(struct gpu_report *gr)
{
	return (struct session_sink){ .arg = gr, .slice = on_slice, .gpu = on_gpu };
}

int gpu_report__print(struct gpu_report *gr, const struct session_totals *totals,
		      const struct report_opts *opts, FILE *out)
{
	int err = gr_rank__all(gr);

	if (!err)
		return opts->json ? gr_json__print(gr, totals, opts, out) :
				    gr_text__print(gr, totals, opts, out);
	if (err != -ECANCELED) /* for which main() has a message */
		pr_error("cannot rank GPU work: %s", errstr(err));
	return err;
}
