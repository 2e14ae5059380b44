/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A memory snapshot as torch.cuda.memory._dump_snapshot() writes it (pytorch
 * torch/csrc/cuda/memory_snapshot.cpp), for torch.cuda._memory_viz and the page memory_viz. Those
 * know the whole state of the allocator; here is what happened in the window. A segment is a range
 * of addresses that blocks of the window had. What was allocated before it and never freed in it is
 * one block at address 0.
 */
#define LOG_DOMAIN "memory"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/facts_json.h"
#include "export/output.h"
#include "export/pickle.h"
#include "export/texts.h"

#define DEVICE_INDEX_MAX 127

struct snapshot_event {
	uint64_t ts_ns, addr, bytes;
	uint32_t device; /* index in devices */
	uint32_t what;   /* enum memory_what */
	uint32_t frames; /* index in stacks */
};

/* What happened: Python's stack, and the operators that were open; texts of the pickle. */
struct snapshot_stack {
	uint32_t stack, op, outer_op;
	bool inferred;
};

struct snapshot_range {
	uint64_t begin, end;
};

struct snapshot_device {
	int32_t type, index;
	uint32_t trace; /* index of its list of events, at the end */
	bool has_base;
	/* allocated before the window: all, and what of it was freed in the window */
	uint64_t base, base_freed;
	uint64_t reserved; /* at the last event */
};

struct mem_snapshot {
	const struct session *s;
	const struct session_info *info;
	const char *path;
	uint32_t tgid;
	struct out_file *of;
	struct pickle p;
	struct snapshot_event *events;
	struct snapshot_stack *stacks;
	struct snapshot_device *devices;
	uint32_t event_cnt, event_cap, stack_cnt, stack_cap, device_cnt, device_cap;
	struct hashmap stack_ids, device_ids;
	uint32_t trace_cnt;
	uint64_t unknown; /* frees of blocks whose sizes are not known */
	uint64_t crossing;
};

/* ---- during the run ---- */

static uint32_t stack_of(struct mem_snapshot *ms, const struct memory_event *ev)
{
	struct snapshot_stack st = { .stack = ev->at.stack,
				     .op = pickle__text_id(&ms->p, ev->at.op),
				     .outer_op = pickle__text_id(&ms->p, ev->at.outer_op),
				     .inferred = ev->inferred };
	struct snapshot_stack *known = list__keyed(KEYED_LIST(ms, stacks, stack),
						   (uint64_t)st.stack << 1 | st.inferred,
						   (uint64_t)st.outer_op << 32 | st.op);

	*known = st;
	return (uint32_t)(known - ms->stacks);
}

static struct snapshot_device *device_of(struct mem_snapshot *ms, const struct memory_event *ev)
{
	enum device_class class = memory__device_class(ev->device_type);
	int32_t index = class == DEVICE_CPU ? -1 : ev->device_index;
	struct snapshot_device *d;

	if (class == DEVICE_OTHER || index < -1 || index > DEVICE_INDEX_MAX ||
	    (index < 0 && class != DEVICE_CPU))
		return NULL;
	d = list__keyed(KEYED_LIST(ms, devices, device), (uint32_t)ev->device_type,
			(uint32_t)index);
	d->type = ev->device_type;
	d->index = index;
	if (!ev->inferred)
		d->reserved = ev->reserved;
	if (!d->has_base && class != DEVICE_CPU) {
		d->has_base = true;
		d->base = ev->allocated - (ev->what == MEMORY_OOM ? 0 : (uint64_t)ev->bytes);
	}
	return d;
}

static void keep_memory(void *arg, const struct memory_event *ev)
{
	struct mem_snapshot *ms = arg;
	struct snapshot_device *d;
	struct snapshot_event e = { .ts_ns = ev->ts_ns, .addr = ev->addr, .what = ev->what };

	if (ev->at.tgid != ms->tgid || ev->what == MEMORY_API)
		return;
	if (ev->what == MEMORY_FREE_UNKNOWN) {
		ms->unknown++;
		return;
	}
	d = device_of(ms, ev);
	if (!d)
		return;
	e.device = (uint32_t)(d - ms->devices);
	e.bytes = ev->bytes < 0 ? 0 - (uint64_t)ev->bytes : (uint64_t)ev->bytes;
	if (ev->what == MEMORY_FREE && !ev->block)
		d->base_freed += e.bytes;
	e.frames = stack_of(ms, ev);
	vec_push(ms->events, ms->event_cnt, ms->event_cap, e);
}

/* ---- frames ---- */

static void put_frame(struct pickle *p, const char *file, int32_t line, const char *name)
{
	pickle__begin_dict(p);
	pickle__literal(p, "filename");
	pickle__text(p, file);
	pickle__literal(p, "line");
	pickle__int(p, line);
	pickle__literal(p, "name");
	pickle__text(p, name);
	pickle__end_dict(p);
}

enum { SHARED_FRAME = 2, SHARED_STACK };

static void put_py_frame(struct mem_snapshot *ms, uint32_t number)
{
	struct py_frame frame = session__py_frame(ms->s, number);

	if (pickle__recall(&ms->p, SHARED_FRAME, number))
		return;
	put_frame(&ms->p, frame.file, frame.line, frame.func);
	pickle__remember(&ms->p, SHARED_FRAME, number);
}

/* Innermost first; operators are where torch has the frames of C++. Never empty: readers would say
 * that the block is from before the recording. */
static void put_frames(struct mem_snapshot *ms, uint32_t index)
{
	const struct snapshot_stack *st = &ms->stacks[index];
	struct py_stack stack = session__py_stack(ms->s, st->stack);
	struct pickle_list list;

	if (pickle__recall(&ms->p, SHARED_STACK, index))
		return;
	list = pickle__begin_list(&ms->p);
	if (st->inferred) {
		pickle__item(&ms->p, &list);
		put_frame(&ms->p, "[ptbpf]", 0, "(not seen: the address was given out again)");
	}
	if (st->op) {
		pickle__item(&ms->p, &list);
		put_frame(&ms->p, "[operator]", 0, pickle__known_text(&ms->p, st->op));
	}
	if (st->outer_op && st->outer_op != st->op) {
		pickle__item(&ms->p, &list);
		put_frame(&ms->p, "[operator]", 0, pickle__known_text(&ms->p, st->outer_op));
	}
	for (uint32_t i = 0; i < stack.frame_cnt; i++) {
		pickle__item(&ms->p, &list);
		put_py_frame(ms, stack.frames[i] & ~PY_FRAME_NATIVE);
	}
	if (!list.cnt) {
		pickle__item(&ms->p, &list);
		put_frame(&ms->p, "[ptbpf]", 0, "(no operator, no Python frames)");
	}
	pickle__end_list(&ms->p, &list);
	pickle__remember(&ms->p, SHARED_STACK, index);
}

/* ---- segments ---- */

static int by_address(const void *a, const void *b)
{
	const struct snapshot_range *x = a, *y = b;

	return sort__cmp(x->begin, y->begin);
}

static int by_block_address(const void *a, const void *b)
{
	const struct memory_block *x = a, *y = b;

	return sort__cmp(x->addr, y->addr);
}

/* Ranges of addresses that blocks of the device had, in order, none touching another one; the
 * caller's to free. */
static struct snapshot_range *find_ranges(const struct mem_snapshot *ms, uint32_t device,
					  uint32_t *cnt)
{
	struct snapshot_range *v = NULL;
	uint32_t n = 0, cap = 0, to = 0;

	for (uint32_t i = 0; i < ms->event_cnt; i++) {
		const struct snapshot_event *e = &ms->events[i];
		struct snapshot_range r = { e->addr, e->addr + e->bytes };

		if (e->device == device && e->what != MEMORY_OOM && r.end > r.begin)
			vec_push(v, n, cap, r);
	}
	sort__array(v, n, sizeof(*v), by_address);
	for (uint32_t i = 0; i < n; i++) {
		if (to && v[i].begin <= v[to - 1].end)
			v[to - 1].end = v[i].end > v[to - 1].end ? v[i].end : v[to - 1].end;
		else
			v[to++] = v[i];
	}
	*cnt = to;
	return v;
}

static struct memory_block *find_live(const struct mem_snapshot *ms,
				      const struct snapshot_device *d, uint32_t *cnt)
{
	uint32_t all, cap = 0;
	const struct memory_block *live = session__live_blocks(ms->s, &all);
	struct memory_block *v = NULL;

	*cnt = 0;
	for (uint32_t i = 0; i < all; i++)
		if (live[i].tgid == ms->tgid && live[i].device_type == d->type &&
		    (d->index < 0 || live[i].device_index == d->index))
			vec_push(v, *cnt, cap, live[i]);
	sort__array(v, *cnt, sizeof(*v), by_block_address);
	return v;
}

static void put_int_key(struct pickle *p, const char *key, uint64_t v)
{
	pickle__literal(p, key);
	pickle__u64(p, v);
}

static void put_no_items(struct pickle *p)
{
	struct pickle_list none = pickle__begin_list(p);

	pickle__end_list(p, &none);
}

/* Ends with its key "blocks", whose list follows. */
static void begin_segment(struct mem_snapshot *ms, uint32_t trace, uint64_t addr, uint64_t bytes,
			  uint64_t active)
{
	struct pickle *p = &ms->p;

	pickle__begin_dict(p);
	put_int_key(p, "device", trace);
	put_int_key(p, "address", addr);
	put_int_key(p, "total_size", bytes);
	put_int_key(p, "allocated_size", active);
	put_int_key(p, "active_size", active);
	put_int_key(p, "requested_size", active);
	put_int_key(p, "stream", 0);
	pickle__literal(p, "segment_type");
	pickle__literal(p, "unknown");
	pickle__literal(p, "segment_pool_id");
	pickle__int(p, 0);
	pickle__int(p, 0);
	pickle__pair(p);
	pickle__literal(p, "is_expandable");
	pickle__bool(p, false);
	pickle__literal(p, "frames");
	put_no_items(p);
	pickle__literal(p, "blocks");
}

/* Ends with its key "frames", whose list follows. */
static void begin_block(struct pickle *p, uint64_t addr, uint64_t bytes, bool active)
{
	pickle__begin_dict(p);
	put_int_key(p, "address", addr);
	put_int_key(p, "size", bytes);
	put_int_key(p, "requested_size", active ? bytes : 0);
	pickle__literal(p, "state");
	pickle__literal(p, active ? "active_allocated" : "inactive");
	pickle__literal(p, "frames");
}

static void put_gap(struct pickle *p, struct pickle_list *blocks, uint64_t from, uint64_t to)
{
	if (from == to)
		return;
	pickle__item(p, blocks);
	begin_block(p, from, to - from, false);
	put_no_items(p);
	pickle__end_dict(p);
}

static void put_live(struct mem_snapshot *ms, struct pickle_list *blocks,
		     const struct memory_block *b)
{
	const struct memory_event ev = {
		.at = { .stack = b->stack, .op = b->op, .outer_op = b->outer_op }
	};

	pickle__item(&ms->p, blocks);
	begin_block(&ms->p, b->addr, b->bytes, true);
	put_frames(ms, stack_of(ms, &ev));
	pickle__end_dict(&ms->p);
}

/* Blocks tile their segment; of two that cross, which only damaged captures have, the second is
 * left out. Returns the first block behind it. */
static uint32_t put_segment(struct mem_snapshot *ms, uint32_t trace, const struct snapshot_range *r,
			    const struct memory_block *live, uint32_t at, uint32_t cnt)
{
	uint64_t end = r->begin, active = 0;
	struct pickle_list blocks;
	uint32_t next = at;

	for (; next < cnt && live[next].addr < r->end; next++)
		active += live[next].bytes;
	begin_segment(ms, trace, r->begin, r->end - r->begin, active);
	blocks = pickle__begin_list(&ms->p);
	for (; at < next; at++) {
		if (live[at].addr < end || live[at].bytes > r->end - live[at].addr) {
			ms->crossing++;
			continue;
		}
		put_gap(&ms->p, &blocks, end, live[at].addr);
		put_live(ms, &blocks, &live[at]);
		end = live[at].addr + live[at].bytes;
	}
	put_gap(&ms->p, &blocks, end, r->end);
	pickle__end_list(&ms->p, &blocks);
	pickle__end_dict(&ms->p);
	return next;
}

/* What was there before the window and at its end, of which only the sum is known. */
static uint64_t unknown_of(const struct snapshot_device *d)
{
	return d->base > d->base_freed && d->base < INT64_MAX ? d->base - d->base_freed : 0;
}

static void put_unknown(struct mem_snapshot *ms, uint32_t trace, uint64_t bytes)
{
	struct pickle *p = &ms->p;
	struct pickle_list blocks, frames;

	begin_segment(ms, trace, 0, bytes, bytes);
	blocks = pickle__begin_list(p);
	pickle__item(p, &blocks);
	begin_block(p, 0, bytes, true);
	frames = pickle__begin_list(p);
	pickle__item(p, &frames);
	put_frame(p, "[ptbpf]", 0, "(allocated before the recording, addresses not known)");
	pickle__end_list(p, &frames);
	pickle__end_dict(p);
	pickle__end_list(p, &blocks);
	pickle__end_dict(p);
}

/* ---- the file ---- */

/* The places of the devices' traces: accelerators by their index, the CPU behind them as in torch's
 * own snapshots of a profile. */
static void number_traces(struct mem_snapshot *ms)
{
	int32_t last = -1;

	for (uint32_t d = 0; d < ms->device_cnt; d++)
		last = ms->devices[d].index > last ? ms->devices[d].index : last;
	for (uint32_t d = 0; d < ms->device_cnt; d++) {
		struct snapshot_device *dev = &ms->devices[d];

		dev->trace = (uint32_t)(dev->index < 0 ? last + 1 : dev->index);
		ms->trace_cnt = dev->trace >= ms->trace_cnt ? dev->trace + 1 : ms->trace_cnt;
	}
}

static void put_segments(struct mem_snapshot *ms)
{
	struct pickle_list list = pickle__begin_list(&ms->p);

	for (uint32_t d = 0; d < ms->device_cnt; d++) {
		uint32_t range_cnt, live_cnt, at = 0, trace = ms->devices[d].trace;
		struct snapshot_range *ranges = find_ranges(ms, d, &range_cnt);
		struct memory_block *live = find_live(ms, &ms->devices[d], &live_cnt);

		if (unknown_of(&ms->devices[d])) {
			pickle__item(&ms->p, &list);
			put_unknown(ms, trace, unknown_of(&ms->devices[d]));
		}
		for (uint32_t i = 0; i < range_cnt; i++) {
			pickle__item(&ms->p, &list);
			at = put_segment(ms, trace, &ranges[i], live, at, live_cnt);
		}
		free(ranges);
		free(live);
	}
	pickle__end_list(&ms->p, &list);
}

static void put_event(struct mem_snapshot *ms, const struct snapshot_event *e, const char *action)
{
	struct pickle *p = &ms->p;

	pickle__begin_dict(p);
	pickle__literal(p, "action");
	pickle__literal(p, action);
	if (e->what == MEMORY_OOM) {
		pickle__literal(p, "device_free");
		pickle__int(p, -1); /* not known */
	} else {
		put_int_key(p, "addr", e->addr);
	}
	put_int_key(p, "size", e->bytes);
	put_int_key(p, "stream", 0);
	put_int_key(p, "time_us", (e->ts_ns + (uint64_t)ms->info->mono_to_unix_ns) / 1000);
	pickle__literal(p, "frames");
	put_frames(ms, e->frames);
	pickle__end_dict(p);
}

static void put_trace(struct mem_snapshot *ms, uint32_t trace)
{
	static const char *const actions[][2] = { [MEMORY_ALLOC] = { "alloc" },
						  [MEMORY_FREE] = { "free_requested",
								    "free_completed" },
						  [MEMORY_OOM] = { "oom" } };
	struct pickle_list list = pickle__begin_list(&ms->p);

	for (uint32_t i = 0; i < ms->event_cnt; i++) {
		const struct snapshot_event *e = &ms->events[i];

		if (ms->devices[e->device].trace != trace)
			continue;
		for (uint32_t k = 0; k < 2 && actions[e->what][k]; k++) {
			pickle__item(&ms->p, &list);
			put_event(ms, e, actions[e->what][k]);
		}
	}
	pickle__end_list(&ms->p, &list);
}

static void put_traces(struct mem_snapshot *ms)
{
	struct pickle_list list = pickle__begin_list(&ms->p);

	for (uint32_t trace = 0; trace < ms->trace_cnt; trace++) {
		pickle__item(&ms->p, &list);
		put_trace(ms, trace);
	}
	pickle__end_list(&ms->p, &list);
}

/* Beside torch's keys, which readers leave alone. */
static void put_facts(struct mem_snapshot *ms, const struct output_args *args)
{
	char account[1024];
	struct pickle_list list;

	loss_account__incomplete(ms->info, args->totals, account, sizeof(account));
	pickle__begin_dict(&ms->p);
	pickle__literal(&ms->p, "version");
	pickle__text(&ms->p, PTBPF_VERSION);
	put_int_key(&ms->p, "pid", ms->tgid);
	pickle__literal(&ms->p, "account");
	pickle__text(&ms->p, account);
	put_int_key(&ms->p, "frees_of_unknown_size", ms->unknown);
	put_int_key(&ms->p, "crossing_blocks", ms->crossing);
	pickle__literal(&ms->p, "devices");
	list = pickle__begin_list(&ms->p);
	for (uint32_t d = 0; d < ms->device_cnt; d++) {
		pickle__item(&ms->p, &list);
		pickle__begin_dict(&ms->p);
		pickle__literal(&ms->p, "name");
		pickle__text(&ms->p,
			     mem_name__device(ms->devices[d].type, ms->devices[d].index).text);
		put_int_key(&ms->p, "trace", ms->devices[d].trace);
		put_int_key(&ms->p, "bytes_from_before", unknown_of(&ms->devices[d]));
		put_int_key(&ms->p, "reserved", ms->devices[d].reserved);
		pickle__end_dict(&ms->p);
	}
	pickle__end_list(&ms->p, &list);
	pickle__end_dict(&ms->p);
}

static void put_snapshot(struct mem_snapshot *ms, const struct output_args *args)
{
	struct pickle *p = &ms->p;

	pickle__begin(p);
	pickle__begin_dict(p);
	pickle__literal(p, "segments");
	put_segments(ms);
	pickle__literal(p, "device_traces");
	put_traces(ms);
	pickle__literal(p, "allocator_settings");
	pickle__begin_dict(p);
	pickle__end_dict(p);
	pickle__literal(p, "external_annotations");
	put_no_items(p);
	pickle__literal(p, "ptbpf");
	put_facts(ms, args);
	pickle__end_dict(p);
	pickle__end(p);
}

/* ---- interface ---- */

static struct session_sink snapshot_sink(void *o)
{
	return (struct session_sink){ .arg = o, .memory = keep_memory };
}

static int finish_snapshot(void *o, const struct output_args *args)
{
	struct mem_snapshot *ms = o;

	if (ms->unknown)
		pr_warn("'%s' lacks %" PRIu64
			" free%s of CPU memory that was allocated before the window: of what size is not known",
			ms->path, ms->unknown, plural(ms->unknown, "s"));
	number_traces(ms);
	ms->p.f = out_file__stream(ms->of);
	put_snapshot(ms, args);
	return out_file__end_stream(ms->of, ms->p.f);
}

static void free_snapshot(void *o)
{
	struct mem_snapshot *ms = o;

	if (!ms)
		return;
	out_file__free(ms->of);
	pickle__free(&ms->p);
	hashmap__clear(&ms->stack_ids);
	hashmap__clear(&ms->device_ids);
	free(ms->events);
	free(ms->stacks);
	free(ms->devices);
	free(ms);
}

static int open_snapshot(const struct output_args *args, void **out)
{
	struct mem_snapshot *ms = xcalloc(1, sizeof(*ms));
	int err = output__choose_process(args, &ms->tgid);

	ms->s = args->s;
	ms->info = session__info(args->s);
	ms->path = args->path;
	pickle__init(&ms->p);
	if (!err)
		out_file__open(args, &ms->of);
	if (err)
		free_snapshot(ms);
	else
		*out = ms;
	return err;
}

const struct output memory_snapshot_output = {
	.title = "memory snapshot",
	.viewer = "pytorch.org/memory_viz",
	.needs = NEEDS_ALLOCATIONS,
	.open = open_snapshot,
	.sink = snapshot_sink,
	.finish = finish_snapshot,
	.free = free_snapshot,
};
