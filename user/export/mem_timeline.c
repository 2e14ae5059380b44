/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The files of torch's export_memory_timeline() (pytorch torch/profiler/_memory_profiler.py,
 * MemoryProfileTimeline): what lived when, by category. Owns the choice of the device, times and
 * layouts of the two JSON forms; who a block belonged to is the model's (mem_flow.h).
 */
#define LOG_DOMAIN "mem_timeline"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/containers.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/mem_timeline_priv.h"
#include "export/texts.h"

#define TEXT_BUF_SZ (256 * 1024)
#define DEVICE_CPU 0 /* c10::DeviceType */
#define DEVICE_CUDA 1
#define DEVICE_TYPES 32
#define HEADLINE_CHARS 400 /* of a line: nothing is cut that a person would read */

struct mem_timeline {
	const struct session *s;
	const struct session_info *info;
	struct out_file *of;
	const char *path;
	uint32_t tgid;
	bool chosen; /* the device was asked for: wanted_* */
	int16_t wanted_type, wanted_index;
	struct mem_flow *flow;

	struct timeline_owner *owners;
	uint32_t owner_cnt, owner_cap;
	struct text_ids texts; /* of them */
	struct py_lines lines;
	struct hashmap owner_ids;      /* ids of the texts -> index */
	const struct output *headline; /* of a page */
	struct output_args headline_args;
	void *headline_out;
	struct timeline_device *devices;
	uint32_t device_cnt, device_cap;
	struct hashmap device_ids; /* type, index -> index in devices */
};

/* ---- rows of one device ---- */

bool timeline__is_row(const struct timeline *tl, const struct mem_row *r)
{
	return r->device_type == tl->device.type && r->device_index == tl->device.index;
}

uint64_t timeline__first_ns(const struct timeline *tl)
{
	for (uint32_t i = 0; i < tl->row_cnt; i++)
		if (tl->rows[i].ts_ns && timeline__is_row(tl, &tl->rows[i]))
			return tl->rows[i].ts_ns;
	return 0;
}

void timeline_walk__begin(struct timeline_walk *w, const struct timeline *tl, uint64_t unit_ns)
{
	*w = (struct timeline_walk){ .tl = tl, .unit_ns = unit_ns };
}

/* Sizes are the capture's, so sums may overflow: they wrap. */
static void add_wrapping(int64_t *sum, int64_t v)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)v);
}

static void walk_row(struct timeline_walk *w, const struct mem_row *r)
{
	int64_t bytes = r->action == MEM_DESTROY || r->action == MEM_INCREMENT_VERSION ?
				-(int64_t)r->bytes :
				(int64_t)r->bytes;

	add_wrapping(&w->sizes[r->category], bytes);
	if (r->action == MEM_INCREMENT_VERSION)
		add_wrapping(&w->sizes[r->next_category], -bytes);
	else
		add_wrapping(&w->total, bytes);
}

bool timeline_walk__next(struct timeline_walk *w)
{
	const struct timeline *tl = w->tl;
	const struct mem_row *r;
	bool any = false;
	uint64_t t;

	for (; w->at < tl->row_cnt; w->at++) {
		r = &tl->rows[w->at];
		if (!timeline__is_row(tl, r))
			continue;
		t = r->ts_ns / w->unit_ns;
		if (any && t != w->t)
			return true;
		w->t = t;
		any = true;
		walk_row(w, r);
	}
	return any;
}

/* ---- JSON ---- */

#define JSON_UNIT_NS 1000 /* torch: to match the times of traces */

/* Blocks from before the window have the time of the first event. */
static void put_times(struct jsonw *w, const struct timeline *tl, int64_t to_unix_ns)
{
	uint64_t first = timeline__first_ns(tl) / JSON_UNIT_NS;
	struct timeline_walk walk;

	timeline_walk__begin(&walk, tl, JSON_UNIT_NS);
	jsonw__begin_arr(w);
	while (timeline_walk__next(&walk))
		jsonw__i64(w, (int64_t)(walk.t ? walk.t : first) + to_unix_ns / JSON_UNIT_NS);
	jsonw__end_arr(w);
}

static void put_sizes(struct jsonw *w, const struct timeline *tl)
{
	struct timeline_walk walk;

	timeline_walk__begin(&walk, tl, JSON_UNIT_NS);
	jsonw__begin_arr(w);
	while (timeline_walk__next(&walk)) {
		jsonw__begin_arr(w);
		jsonw__i64(w, 0); /* the lowest line of the stacked chart */
		for (int i = 0; i < MEM_CATEGORY_CNT; i++)
			jsonw__i64(w, walk.sizes[i]);
		jsonw__end_arr(w);
	}
	jsonw__end_arr(w);
}

static void put_json(struct jsonw *w, const struct timeline *tl, int64_t to_unix_ns)
{
	jsonw__begin_arr(w);
	put_times(w, tl, to_unix_ns);
	put_sizes(w, tl);
	jsonw__end_arr(w);
}

static void put_raw_row(struct jsonw *w, const struct mem_row *r, int64_t to_unix_ns, bool minus,
			uint8_t category)
{
	jsonw__begin_arr(w);
	jsonw__i64(w, r->ts_ns ? (int64_t)r->ts_ns + to_unix_ns : -1);
	jsonw__i64(w, r->action);
	jsonw__i64(w, minus ? -(int64_t)r->bytes : (int64_t)r->bytes);
	jsonw__i64(w, category);
	jsonw__end_arr(w);
}

static void put_raw(struct jsonw *w, const struct timeline *tl, int64_t to_unix_ns)
{
	const struct mem_row *r;

	jsonw__begin_arr(w);
	for (uint32_t i = 0; i < tl->row_cnt; i++) {
		r = &tl->rows[i];
		if (!timeline__is_row(tl, r))
			continue;
		put_raw_row(w, r, to_unix_ns,
			    r->action == MEM_DESTROY || r->action == MEM_INCREMENT_VERSION,
			    r->category);
		if (r->action == MEM_INCREMENT_VERSION)
			put_raw_row(w, r, to_unix_ns, false, r->next_category);
	}
	jsonw__end_arr(w);
}

static int write_json(const struct mem_timeline *mt, const struct timeline *tl, bool raw)
{
	int64_t to_unix_ns = mt->info->mono_to_unix_ns;
	struct jsonw w;
	int err;

	jsonw__init(&w, out_file__write, mt->of, TEXT_BUF_SZ);
	if (raw)
		put_raw(&w, tl, to_unix_ns);
	else
		put_json(&w, tl, to_unix_ns);
	err = out_file__end_json(mt->of, &w);
	jsonw__free(&w);
	return err;
}

/* ---- devices ---- */

static void device_name(struct timeline_device *d)
{
	const char *name = device__type_name((uint32_t)d->type);

	if (d->index < 0)
		snprintf(d->name, sizeof(d->name), "%s", name ? name : "?");
	else
		snprintf(d->name, sizeof(d->name), "%s:%d", name ? name : "?", d->index);
}

static struct timeline_device *find_device(struct mem_timeline *mt, int16_t type, int16_t index)
{
	const uint64_t *at = hashmap__get(&mt->device_ids, (uint16_t)type, (uint16_t)index);

	return at ? &mt->devices[*at] : NULL;
}

static struct timeline_device *add_device(struct mem_timeline *mt, int16_t type, int16_t index)
{
	struct timeline_device *d =
		list__keyed(KEYED_LIST(mt, devices, device), (uint16_t)type, (uint16_t)index);

	if (!d->name[0]) {
		d->type = type;
		d->index = index;
		device_name(d);
	}
	return d;
}

/* "cpu", "cuda" (its first), "cuda:1". 0 or -EINVAL, logged. */
static int parse_device(struct mem_timeline *mt, const char *text)
{
	size_t len = strcspn(text, ":");
	char *end = NULL;
	const char *name;
	long index = 0;
	uint32_t type;

	if (text[len])
		index = strtol(text + len + 1, &end, 10);
	for (type = 0; type < DEVICE_TYPES; type++) {
		name = device__type_name(type);
		if (name && strlen(name) == len && !strncmp(name, text, len))
			break;
	}
	if (type == DEVICE_TYPES || (end && (*end || end == text + len + 1)) || index < 0 ||
	    index > 127) {
		pr_error("cannot write '%s': '%s' is not a device; valid ones are \"cpu\" and "
			 "\"cuda:0\"",
			 mt->path, text);
		return -EINVAL;
	}
	mt->chosen = true;
	mt->wanted_type = (int16_t)type;
	mt->wanted_index = type == DEVICE_CPU ? -1 : (int16_t)index;
	return 0;
}

/* NULL: nothing was allocated there; logged. */
static const struct timeline_device *choose_device(struct mem_timeline *mt)
{
	struct timeline_device wanted = { .type = mt->wanted_type, .index = mt->wanted_index };
	const struct timeline_device *d;

	if (!mt->chosen) {
		d = find_device(mt, DEVICE_CUDA, 0);
		wanted = (struct timeline_device){ .type = DEVICE_CPU, .index = -1 };
		if (d)
			return d;
	}
	d = find_device(mt, wanted.type, wanted.index);
	if (!d) {
		device_name(&wanted);
		pr_error("cannot write '%s': nothing was allocated on %s in the window", mt->path,
			 wanted.name);
	}
	return d;
}

/* ---- sink ---- */

static uint32_t block_owner(struct mem_timeline *mt, const struct memory_event *ev)
{
	const char *op = ev->block ? ev->block->op : ev->at.op;
	const char *annotation = ev->block ? ev->block->annotation : ev->at.annotation;
	uint32_t op_id = text_ids__get(&mt->texts, op),
		 annotation_id = text_ids__get(&mt->texts, annotation);
	uint32_t stack = ev->block ? ev->block->stack : ev->at.stack,
		 line_id = py_lines__id(&mt->lines, mt->s, &mt->texts, stack);
	struct timeline_owner *o = list__keyed(KEYED_LIST(mt, owners, owner),
					       (uint64_t)line_id << 32 | op_id, annotation_id);

	*o = (struct timeline_owner){ text_ids__text(&mt->texts, op_id),
				      text_ids__text(&mt->texts, annotation_id),
				      text_ids__text(&mt->texts, line_id) };
	return (uint32_t)(o - mt->owners);
}

static void follow_block(struct mem_timeline *mt, const struct memory_event *ev)
{
	struct timeline_device *d;

	if (ev->what != MEMORY_ALLOC && ev->what != MEMORY_FREE && ev->what != MEMORY_FREE_UNKNOWN)
		return;
	d = add_device(mt, (int16_t)ev->device_type,
		       (int16_t)(ev->device_type ? ev->device_index : -1));
	if (d->type != DEVICE_CPU) {
		d->max_allocated = d->max_allocated > ev->allocated ? d->max_allocated :
								      ev->allocated;
		d->max_reserved = d->max_reserved > ev->reserved ? d->max_reserved : ev->reserved;
	}
	mem_flow__memory(mt->flow, ev, ev->what == MEMORY_ALLOC ? block_owner(mt, ev) : 0);
}

static void follow_memory(void *arg, const struct memory_event *ev)
{
	struct mem_timeline *mt = arg;

	if (ev->at.tgid == mt->tgid)
		follow_block(mt, ev);
	if (mt->headline)
		mt->headline->sink(mt->headline_out).memory(mt->headline_out, ev);
}

static void follow_slice(void *arg, const struct slice *sl)
{
	struct mem_timeline *mt = arg;

	if (sl->tgid == mt->tgid)
		mem_flow__slice(mt->flow, sl);
	if (mt->headline)
		mt->headline->sink(mt->headline_out).slice(mt->headline_out, sl);
}

static void follow_kernel(void *arg, const struct kernel_event *ev)
{
	struct mem_timeline *mt = arg;

	if (mt->headline)
		mt->headline->sink(mt->headline_out).kernel(mt->headline_out, ev);
}

static struct session_sink timeline_sink(void *o)
{
	return (struct session_sink){
		.arg = o, .slice = follow_slice, .memory = follow_memory, .kernel = follow_kernel
	};
}

/* ---- open, finish ---- */

static int begin_timeline(struct mem_timeline *mt, const struct output_args *args)
{
	const struct timeline_owner before_window = { "", "", "" };
	int err;

	mt->s = args->s;
	mt->info = session__info(args->s);
	mt->path = args->path;
	mt->flow = mem_flow__new(mt->info->has_results);
	text_ids__init(&mt->texts);
	py_lines__init(&mt->lines, mt->s);
	vec_push(mt->owners, mt->owner_cnt, mt->owner_cap, before_window);
	err = output__choose_process(args, &mt->tgid);
	if (!err && args->device)
		err = parse_device(mt, args->device);
	if (!err && args->output == &timeline_html_output && args->headline) {
		mt->headline_args = *args;
		mt->headline_args.tgid = mt->tgid;
		err = args->headline->open(&mt->headline_args, &mt->headline_out);
		mt->headline = err ? NULL : args->headline;
	}
	if (!err)
		out_file__open(args, &mt->of);
	return err;
}

static int write_page(struct mem_timeline *mt, struct timeline *tl, const struct output_args *args)
{
	struct output_args *ha = &mt->headline_args;
	char *text = NULL;
	size_t len = 0;
	int err = 0;

	if (mt->headline) {
		ha->s = NULL; /* the page says itself what the capture lacks */
		ha->columns = HEADLINE_CHARS;
		ha->out = xmemstream(&text, &len);
		err = mt->headline->finish(mt->headline_out, ha);
		fclose(ha->out);
	}
	tl->headline = text ? text : "";
	if (!err)
		err = timeline__write_html(tl, args->totals, mt->of);
	free(text);
	return err;
}

static void log_missing(const struct mem_timeline *mt, const struct mem_flow_account *a)
{
	if (a->too_many)
		pr_warn("'%s' has no categories: more than %u tensors were arguments of operators",
			mt->path, MEM_FLOW_TENSORS_MAX);
	else if (a->cut_ops)
		pr_warn("'%s': arguments of %" PRIu64
			" operators were cut: some categories may be wrong",
			mt->path, a->cut_ops);
	if (a->leftovers)
		pr_warn("'%s': %" PRIu64 " block%s from before the window may be inputs or belong "
			"to a training step that had begun: their category is "
			"unknown",
			mt->path, a->leftovers, plural(a->leftovers, "s"));
	if (a->undecided)
		pr_warn("'%s': %" PRIu64 " block%s may be gradients, parameters or optimizer "
			"state, which only Python knows: their category is unknown",
			mt->path, a->undecided, plural(a->undecided, "s"));
	if (!mt->info->has_results)
		pr_hint("'%s' has no categories: they follow from tensors that operators take; record with "
			"--execution-trace as well",
			mt->path);
}

static int finish_timeline(void *o, const struct output_args *args)
{
	struct mem_timeline *mt = o;
	const struct timeline_device *device = choose_device(mt);
	struct timeline tl = {
		.s = mt->s, .tgid = mt->tgid, .owners = mt->owners, .owner_cnt = mt->owner_cnt
	};

	if (!device)
		return -ENODATA;
	mem_flow__finish(mt->flow);
	tl.device = *device;
	tl.rows = mem_flow__rows(mt->flow, &tl.row_cnt);
	tl.account = mem_flow__account(mt->flow);
	log_missing(mt, &tl.account);
	if (args->output == &timeline_html_output)
		return write_page(mt, &tl, args);
	return write_json(mt, &tl, args->output == &timeline_raw_output);
}

static void free_timeline(void *o)
{
	struct mem_timeline *mt = o;

	if (!mt)
		return;
	out_file__free(mt->of);
	if (mt->headline)
		mt->headline->free(mt->headline_out);
	py_lines__free(&mt->lines);
	mem_flow__free(mt->flow);
	hashmap__clear(&mt->owner_ids);
	hashmap__clear(&mt->device_ids);
	text_ids__free(&mt->texts);
	free(mt->owners);
	free(mt->devices);
	free(mt);
}

static int open_timeline(const struct output_args *args, void **out)
{
	struct mem_timeline *mt = xcalloc(1, sizeof(*mt));
	int err = begin_timeline(mt, args);

	if (err)
		free_timeline(mt);
	else
		*out = mt;
	return err;
}

#define TIMELINE                                                                                   \
	.title = "memory timeline", .needs = NEEDS_ALLOCATIONS, .open = open_timeline,             \
	.sink = timeline_sink, .finish = finish_timeline, .free = free_timeline

const struct output timeline_output = {
	TIMELINE,
};

const struct output timeline_raw_output = {
	TIMELINE,
};

const struct output timeline_html_output = {
	TIMELINE,
};
