/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sink of `report --gpu`: keeps the intervals that conclusions need (work, calls, outermost
 * operators), sums up the rest by name. Draws no conclusions; see report_priv.h.
 */
#include "report/report_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"

static int open_report(const struct output_args *args, void **out)
{
	struct gpu_report *gr = xcalloc(1, sizeof(*gr));

	gr->s = args->s;
	gr->info = session__info(args->s);
	text_ids__init(&gr->texts);
	*out = gr;
	return 0;
}

static void free_report(void *o)
{
	struct gpu_report *gr = o;

	if (!gr)
		return;
	for (uint32_t i = 0; i < gr->thread_cnt; i++) {
		free(gr->threads[i].ops);
		free(gr->threads[i].annotations);
		free(gr->threads[i].calls);
	}
	text_ids__free(&gr->texts);
	gr_graphs__free(&gr->graphs);
	hashmap__clear(&gr->thread_ids);
	hashmap__clear(&gr->kernel_ids);
	hashmap__clear(&gr->kernel_op_ids);
	hashmap__clear(&gr->copy_ids);
	hashmap__clear(&gr->api_ids);
	hashmap__clear(&gr->overhead_ids);
	hashmap__clear(&gr->why_ids);
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

static struct gr_thread *get_thread(struct gpu_report *gr, uint32_t tgid, uint32_t tid)
{
	struct gr_thread *t = list__keyed(KEYED_LIST(gr, threads, thread), tgid, tid);

	t->tgid = tgid;
	t->tid = tid;
	return t;
}

/* Only outermost operators are kept. Children come before their parents, so those inside this one
 * are at the end. */
static void keep_slice(void *arg, const struct slice *sl)
{
	struct gpu_report *gr = arg;
	struct gr_thread *t = get_thread(gr, sl->tgid, sl->tid);
	bool annotation = sl->cat == SLICE_USER_ANNOTATION;
	struct gr_span sp = { .begin = sl->begin_ns, .end = sl->end_ns };

	if (annotation && (sl->flags & SLICE_DERIVED || step_name__is(sl->name)))
		return;
	sp.name = text_ids__get(&gr->texts, sl->name);
	if (annotation)
		vec_push(t->annotations, t->annotation_cnt, t->annotation_cap, sp);
	while (!annotation && t->op_cnt && t->ops[t->op_cnt - 1].begin >= sl->begin_ns)
		t->op_cnt--;
	if (!annotation)
		vec_push(t->ops, t->op_cnt, t->op_cap, sp);
}

/* ---- calls ---- */

/* Calls in which the host waits for the GPU. */
static bool waits_for_gpu(enum gpu_api_kind kind, const char *name)
{
	return kind == GPU_API_SYNC ||
	       (kind == GPU_API_COPY && !strstr(name, "Async") && !strstr(name, "Peer"));
}

static struct gr_api *get_api(struct gpu_report *gr, const struct gr_api *key)
{
	uint64_t name = (uint64_t)key->driver << 32 | (uint64_t)key->host_only << 33 | key->name;
	uint64_t site = (uint64_t)key->op << 32 | key->annotation;
	struct gr_api *a = list__keyed(KEYED_LIST(gr, apis, api), name, site);

	if (!a->cnt)
		*a = *key;
	return a;
}

static void keep_call(struct gpu_report *gr, const struct gpu_slice *g, const struct gr_api *a)
{
	struct gr_thread *t = get_thread(gr, g->at.tgid, g->at.tid);
	const struct gr_call c = { .begin = g->begin_ns,
				   .end = g->end_ns,
				   .name = a->name,
				   .op = text_ids__get(&gr->texts, g->at.op),
				   .annotation = text_ids__get(&gr->texts, g->at.annotation),
				   .waits = a->waits };

	vec_push(t->calls, t->call_cnt, t->call_cap, c);
}

/* A launch that only the host saw has the kernel's name, where there is one: those are summed up
 * like kernels. */
static void count_kernel(struct gpu_report *gr, const char *name, const char *op, uint64_t ns)
{
	uint32_t id = text_ids__get(&gr->texts, name && *name ? name : "(not known)"),
		 op_id = text_ids__get(&gr->texts, op);
	struct gr_kernel *k = list__keyed(KEYED_LIST(gr, kernels, kernel), id, 0);
	struct gr_kernel_op *o;
	uint32_t nr;

	nr = (uint32_t)(k - gr->kernels);
	k->name = id;
	k->min_ns = !k->cnt || ns < k->min_ns ? ns : k->min_ns;
	k->max_ns = ns > k->max_ns ? ns : k->max_ns;
	k->cnt++;
	k->ns += ns;
	o = list__keyed(KEYED_LIST(gr, kernel_ops, kernel_op), nr, op_id);
	o->kernel = nr;
	o->op = op_id;
	o->cnt++;
	o->ns += ns;
}

static void take_call(struct gpu_report *gr, const struct gpu_slice *g)
{
	const struct ptb_cuda_call *c = (const void *)g->rec;
	const struct ptb_gpu_api *r = (const void *)g->rec;
	uint64_t ns = g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
	struct gr_api key = { .driver = g->driver, .host_only = g->host_only }, *a;

	key.kind = gpu_api__kind(g->name);
	key.name = text_ids__get(&gr->texts, g->name);
	key.waits = waits_for_gpu(key.kind, g->name);
	if (key.waits) { /* these are listed by where the host waits */
		key.op = text_ids__get(&gr->texts, g->at.op);
		key.annotation = text_ids__get(&gr->texts, g->at.annotation);
	}
	a = get_api(gr, &key);
	a->cnt++;
	a->ns += ns;
	a->max_ns = ns > a->max_ns ? ns : a->max_ns;
	if (g->host_only) {
		a->bytes += c->bytes;
		a->errors += (c->flags & PTB_CUDA_HAS_RESULT) && c->result;
		a->no_result += !!(c->flags & PTB_API_NO_RESULT);
		if (key.kind == GPU_API_LAUNCH && !gr->info->has_gpu)
			count_kernel(gr, g->kernel_name, g->at.op, ns);
	} else {
		a->errors += !!r->result;
	}
	if (gpu_api__is_launch(key.kind) && !g->driver) {
		gr->launches++;
		gr->launch_ns += ns;
	}
	keep_call(gr, g, a);
}

/* ---- work ---- */

static void count_copy(struct gpu_report *gr, const struct gpu_slice *g, uint64_t ns)
{
	const struct ptb_gpu_memory *m = (const void *)g->rec;
	struct gr_copy key = { .fill = g->what == GPU_MEMSET,
			       .name = text_ids__get(&gr->texts, g->name),
			       .device = g->device,
			       .to_device = g->device };
	struct gr_copy *c;

	if (m->flags & PTB_GPU_PEER) {
		key.device = m->src_device;
		key.to_device = m->dst_device;
	}
	c = list__keyed(KEYED_LIST(gr, copies, copy), key.name,
			(uint64_t)key.device << 32 | key.to_device);
	if (!c->cnt)
		*c = key;
	c->cnt++;
	c->bytes += m->bytes;
	c->ns += ns;
	c->max_ns = ns > c->max_ns ? ns : c->max_ns;
}

static void take_work(struct gpu_report *gr, const struct gpu_slice *g)
{
	uint64_t ns = g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
	struct gr_thread *t = NULL;
	struct gr_work wk;

	if (g->at.tid)
		t = get_thread(gr, g->at.tgid, g->at.tid);
	wk = (struct gr_work){ .begin = g->begin_ns,
			       .end = g->end_ns,
			       .launch_begin = g->launch_begin_ns,
			       .launch_end = g->launch_end_ns,
			       .device = g->device,
			       .stream = g->stream,
			       .thread = t ? (uint32_t)(t - gr->threads) : UINT32_MAX,
			       .kind = g->what == GPU_KERNEL ? GR_KERNEL :
				       g->what == GPU_MEMCPY ? GR_COPY :
							       GR_FILL };
	vec_push(gr->work, gr->work_cnt, gr->work_cap, wk);
	if (g->graph_node)
		gr_graphs__take(gr, g, ns);
	gr->unlinked += !g->launch_end_ns;
	gr->before_launch += g->before_launch;
	if (g->what == GPU_KERNEL) {
		gr->kernel_ns += ns;
		count_kernel(gr, g->name, g->at.op, ns);
	} else {
		count_copy(gr, g, ns);
	}
}

static void take_overhead(struct gpu_report *gr, const struct gpu_slice *g)
{
	uint32_t name = text_ids__get(&gr->texts, g->name);
	struct gr_overhead *o = list__keyed(KEYED_LIST(gr, overheads, overhead), name, 0);

	o->name = name;
	o->cnt++;
	o->ns += g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
}

static void take_gpu(void *arg, const struct gpu_slice *g)
{
	struct gpu_report *gr = arg;

	if (!g->rec || !g->name)
		return;
	if (gpu_what__is_work(g->what))
		take_work(gr, g);
	if (g->what == GPU_API)
		take_call(gr, g);
	if (g->what == GPU_OVERHEAD)
		take_overhead(gr, g);
}

static struct session_sink report_sink(void *o)
{
	return (struct session_sink){ .arg = o, .slice = keep_slice, .gpu = take_gpu };
}

const struct output gpus_report = {
	.needs = NEEDS_GPU,
	.rows = ROWS_OF_LISTS,
	.open = open_report,
	.sink = report_sink,
	.finish = gr_doc__finish,
	.free = free_report,
};

uint32_t gpu_report__busy(void *o, struct gpu_busy *list, uint32_t max)
{
	struct gpu_report *gr = o;
	uint32_t n;

	gr_rank__all(gr);
	for (n = 0; n < gr->device_cnt && n < max; n++)
		list[n] =
			(struct gpu_busy){ .id = gr->devices[n].id, .ns = gr->devices[n].work_ns };
	return n;
}
