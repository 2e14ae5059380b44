/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The tree of calls; see stack_tree.h. A node is found by its parent and its frame. An operator
 * lies below the operators around it that have the same Python stack: one that Python code in
 * another operator calls lies below that code.
 */
#define LOG_DOMAIN "stacks"
#include "export/stack_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"

#define OPEN_MAX 64          /* operators in one another; deeper ones lie beside the last of them */
#define LINE_MASK 0x3fffffff /* of a line, so that a key holds two */

struct stack_tree {
	const struct session *s;
	const struct session_info *info;
	struct py_paths paths;
	bool by_operator; /* samples without an operator say so */
	bool kernels;
	stack_watch watch; /* NULL: none */
	void *watch_arg;
	uint32_t run; /* of session.self; UINT32_MAX: none yet */
	struct strtab *texts;
	struct stack_frame *frames;
	struct stack_node *nodes;
	uint32_t frame_cnt, frame_cap, node_cnt, node_cap;
	struct hashmap frame_ids, node_ids;
	/* of the current session */
	struct hashmap py_frames; /* number -> index in frames */
	struct hashmap py_stacks; /* process, number -> node */
	struct hashmap names;     /* address of a name, kind -> index in frames */
	struct hashmap blocks;    /* address; process, device -> node that allocated it */
	struct hashmap launchers; /* with kernels: id of a slice that launched work -> its node */
};

static void forget_session(struct stack_tree *st)
{
	hashmap__clear(&st->py_frames);
	hashmap__clear(&st->py_stacks);
	hashmap__clear(&st->names);
	hashmap__clear(&st->blocks);
	hashmap__clear(&st->launchers);
}

void stack_tree__free(struct stack_tree *st)
{
	if (!st)
		return;
	forget_session(st);
	hashmap__clear(&st->frame_ids);
	hashmap__clear(&st->node_ids);
	strtab__free(st->texts);
	free(st->frames);
	free(st->nodes);
	free(st);
}

/* ---- frames and nodes ---- */

static uint32_t find_frame(struct stack_tree *st, const struct stack_frame *f)
{
	uint64_t k0 = f->module ? (uint64_t)f->module << 32 | f->path :
				  (uint64_t)f->name << 32 | f->file;
	uint64_t k1 = (uint64_t)f->kind << 60 | (uint64_t)(uint32_t)f->line << 30 |
		      (uint32_t)f->first;
	struct stack_frame *at = list__keyed(KEYED_LIST(st, frames, frame), k0, k1);

	*at = *f;
	return (uint32_t)(at - st->frames);
}

static uint32_t text_id(struct stack_tree *st, const char *text)
{
	return *text ? strtab__add(st->texts, text, strlen(text)) : 0;
}

/* The node's child with this frame; the node itself where there are too many. */
static uint32_t child_of(struct stack_tree *st, uint32_t parent, uint32_t frame)
{
	struct stack_node *n;
	uint32_t before = st->node_cnt;

	if (st->node_cnt >= LIMIT_STACK_NODES && !hashmap__get(&st->node_ids, parent, frame))
		return parent;
	n = list__keyed(KEYED_LIST(st, nodes, node), parent, frame);
	if (st->node_cnt > before) {
		n->parent = parent;
		n->frame = frame;
		n->python = stack_frame__is_python(&st->frames[frame]) ? before :
									 st->nodes[parent].python;
	}
	return (uint32_t)(n - st->nodes);
}

static uint32_t named_frame(struct stack_tree *st, const char *name, enum stack_kind kind)
{
	struct stack_frame f = { .kind = kind, .name = text_id(st, name) };

	return find_frame(st, &f);
}

/* Of a name that the session keeps. */
static uint32_t kept_name(struct stack_tree *st, const char *name, enum stack_kind kind)
{
	uint64_t *known = hashmap__get(&st->names, (uintptr_t)name, kind);
	uint32_t frame;

	if (known)
		return (uint32_t)*known;
	frame = named_frame(st, name, kind);
	hashmap__put(&st->names, (uintptr_t)name, kind, frame);
	return frame;
}

static uint32_t python_frame(struct stack_tree *st, uint32_t number)
{
	uint64_t *known = hashmap__get(&st->py_frames, number, 0);
	struct stack_frame f = { .kind = STACK_PYTHON };
	char text[PY_TEXT_MAX];
	struct py_frame pf;
	uint32_t frame;

	if (known)
		return (uint32_t)*known;
	pf = session__py_frame(st->s, number);
	if (py_text__is_library(pf.file))
		f.kind = STACK_LIBRARY;
	f.line = pf.line & LINE_MASK;
	f.first = pf.first & LINE_MASK;
	f.name = text_id(st, pf.func);
	f.file = text_id(st, py_text__file(&st->paths, pf.file));
	if (pf.module) {
		py_text__torch(&st->paths, &pf, text, sizeof(text));
		f.module = text_id(st, text);
	}
	f.has_path = pf.module && pf.module_path;
	if (f.has_path && *pf.module_path) {
		snprintf(text, sizeof(text), "%s (%s)", pf.module_path, pf.module);
		f.shown = text_id(st, text);
		f.path = text_id(st, pf.module_path);
	}
	frame = find_frame(st, &f);
	hashmap__put(&st->py_frames, number, 0, frame);
	return frame;
}

/* The root, or the process's node where there are several. */
static uint32_t process_node(struct stack_tree *st, uint32_t tgid)
{
	const struct session_process *p;
	char name[64];

	if (st->info->process_cnt < 2)
		return 0;
	p = session__process(st->s, tgid);
	snprintf(name, sizeof(name), "process %u (%s)", tgid, p && p->comm ? p->comm : "");
	return child_of(st, 0, named_frame(st, name, STACK_GROUP));
}

/* The innermost frame of a stack. */
static uint32_t stack_node(struct stack_tree *st, uint32_t tgid, uint32_t number)
{
	uint64_t *known = hashmap__get(&st->py_stacks, tgid, number);
	struct py_stack stack = session__py_stack(st->s, number);
	uint32_t node;

	if (known)
		return (uint32_t)*known;
	node = process_node(st, tgid);
	if (!stack.frame_cnt && st->info->has_py_stacks)
		node = child_of(st, node, named_frame(st, "(no Python frames)", STACK_GROUP));
	else if (stack.flags)
		node = child_of(st, node, named_frame(st, "(outer frames missing)", STACK_GROUP));
	for (uint32_t i = stack.frame_cnt; i--;)
		node = child_of(st, node, python_frame(st, stack.frames[i] & ~PY_FRAME_NATIVE));
	hashmap__put(&st->py_stacks, tgid, number, node);
	return node;
}

/* ---- sums ---- */

static void charge(struct stack_tree *st, uint32_t node, const struct op_context *at,
		   enum stack_metric metric, int64_t v)
{
	const struct stack_charge c = { node, at->tgid, at->tid, metric, v };

	stack_sum__add(&st->nodes[node].self[st->run][metric], v);
	if (st->watch && v)
		st->watch(st->watch_arg, &c);
}

/* ---- where an event belongs ---- */

/* Of what a backward node does that of its forward operator, if that is known. */
static uint32_t best_stack(uint32_t stack, uint32_t fwd_stack)
{
	return fwd_stack ? fwd_stack : stack;
}

static enum stack_kind kind_of(uint32_t cat)
{
	return cat == SLICE_USER_ANNOTATION ? STACK_ANNOTATION : STACK_OPERATOR;
}

/* Below the Python stack: those of the open slices from list[from] on that have it, outermost
 * first. */
static uint32_t open_node(struct stack_tree *st, uint32_t tgid, uint32_t stack,
			  const struct open_slice *list, uint32_t from, uint32_t cnt)
{
	uint32_t node = stack_node(st, tgid, stack), end = from;

	while (end < cnt &&
	       (list[end].is_step || best_stack(list[end].stack, list[end].fwd_stack) == stack))
		end++;
	while (end-- > from)
		if (!list[end].is_step)
			node = child_of(st, node,
					kept_name(st, list[end].name, kind_of(list[end].cat)));
	return node;
}

/* Where something belongs that happens in what is open now. */
static uint32_t event_node(struct stack_tree *st, const struct op_context *at)
{
	struct open_slice list[OPEN_MAX];
	uint32_t cnt = session__open_slices(st->s, at->tgid, at->tid, list, OPEN_MAX);
	uint32_t stack = cnt ? best_stack(at->stack, list[0].fwd_stack) : at->stack;

	return open_node(st, at->tgid, stack, list, 0, cnt);
}

static bool is_step(const struct slice *sl)
{
	return sl->flags & SLICE_DERIVED ||
	       (sl->cat == SLICE_USER_ANNOTATION && step_name__is(sl->name));
}

static void sum_slice(void *arg, const struct slice *sl)
{
	struct stack_tree *st = arg;
	struct open_slice list[OPEN_MAX];
	uint32_t cnt, from = 0, node, stack = best_stack(sl->stack, sl->fwd_stack);
	uint64_t ns = sl->end_ns - sl->begin_ns;
	const struct op_context at = { .tgid = sl->tgid, .tid = sl->tid };

	if (is_step(sl))
		return;
	cnt = session__open_slices(st->s, sl->tgid, sl->tid, list, OPEN_MAX);
	while (from < cnt && list[from].id != sl->parent)
		from++;
	node = child_of(st, open_node(st, sl->tgid, stack, list, from, cnt),
			kept_name(st, sl->name, kind_of(sl->cat)));
	charge(st, node, &at, STACK_CPU, ns > sl->child_ns ? (int64_t)(ns - sl->child_ns) : 0);
	charge(st, node, &at, STACK_CALLS, 1);
	if (!st->kernels)
		charge(st, node, &at, STACK_GPU, (int64_t)sl->device_ns);
	else if (sl->device_ns)
		hashmap__put(&st->launchers, sl->id, 0, node);
}

/* ---- memory ---- */

static uint64_t block_key(const struct memory_event *ev)
{
	return (uint64_t)ev->at.tgid << 32 | (uint64_t)(uint8_t)ev->device_type << 16 |
	       (uint16_t)ev->device_index;
}

static void sum_memory(void *arg, const struct memory_event *ev)
{
	struct stack_tree *st = arg;
	enum device_class class = memory__device_class(ev->device_type);
	enum stack_metric live = class == DEVICE_CPU ? STACK_CPU_LIVE : STACK_GPU_LIVE;
	const uint64_t *from;
	uint32_t node;

	if (class == DEVICE_OTHER)
		return;
	if (ev->what == MEMORY_FREE) {
		from = hashmap__get(&st->blocks, ev->addr, block_key(ev));
		if (from && ev->block) {
			charge(st, (uint32_t)*from,
			       &(struct op_context){ .tgid = ev->block->tgid,
						     .tid = ev->block->tid },
			       live, (int64_t)(0 - ev->block->bytes));
			hashmap__del(&st->blocks, ev->addr, block_key(ev));
		}
		return;
	}
	if (ev->what != MEMORY_ALLOC || !ev->block)
		return;
	node = event_node(st, &ev->at);
	hashmap__put(&st->blocks, ev->addr, block_key(ev), node);
	charge(st, node, &ev->at, live, (int64_t)ev->block->bytes);
	charge(st, node, &ev->at, class == DEVICE_CPU ? STACK_CPU_ALLOC : STACK_GPU_ALLOC,
	       (int64_t)ev->block->bytes);
}

static void sum_kernel_memory(void *arg, const struct kernel_event *ev)
{
	struct stack_tree *st = arg;
	const struct ptb_kmem *r = (const void *)ev->rec;
	uint32_t node;

	if (ev->rec->kind != PTB_REC_KMEM || !((uint64_t)r->minor + r->major))
		return;
	node = event_node(st, &ev->at);
	charge(st, node, &ev->at, STACK_FAULTS, (int64_t)((uint64_t)r->minor + r->major));
	charge(st, node, &ev->at, STACK_FAULT_BYTES, (int64_t)r->fault_bytes);
}

static const uint8_t wait_metric[WAITS_CNT] = {
	[WAITS_CPU] = STACK_WAIT_CPU,     [WAITS_GIL] = STACK_WAIT_GIL,
	[WAITS_LOCK] = STACK_WAIT_LOCK,   [WAITS_IO] = STACK_WAIT_IO,
	[WAITS_SLEEP] = STACK_WAIT_OTHER, [WAITS_OTHER] = STACK_WAIT_OTHER,
};

/* Of waits in operators and annotations: elsewhere a thread has no stack here. */
static void sum_waits(void *arg, const struct sched_event *ev)
{
	struct stack_tree *st = arg;
	uint32_t node;

	if (!*ev->at.op && !*ev->at.annotation)
		return;
	node = event_node(st, &ev->at);
	for (uint32_t i = 0; i < PTB_WAIT_CNT; i++)
		charge(st, node, &ev->at, wait_metric[wait__group(i)], (int64_t)ev->ns[i]);
}

/*
 * GPU work that no operator launched (Triton's kernels, CUDA graphs): operators have the sums of
 * theirs, or these are below them. That of a graph belongs to what captured it.
 */
static void sum_gpu(void *arg, const struct gpu_slice *g)
{
	struct stack_tree *st = arg;
	const struct gpu_origin *o = g->origin;
	const uint64_t *launcher = hashmap__get(&st->launchers, g->at.op_slice, 0);
	uint32_t node;

	if (!gpu_what__is_work(g->what) || (g->at.op_slice && !launcher))
		return;
	node = launcher ? (uint32_t)*launcher :
			  stack_node(st, g->at.tgid, o && o->stack ? o->stack : g->at.stack);
	if (!launcher && o && *o->op)
		node = child_of(st, node, kept_name(st, o->op, STACK_OPERATOR));
	node = child_of(st, node,
			kept_name(st, g->name, st->kernels ? STACK_KERNEL : STACK_OPERATOR));
	charge(st, node, &g->at, STACK_GPU, (int64_t)(g->end_ns - g->begin_ns));
}

static void sum_sample(void *arg, const struct py_sample *ps)
{
	struct stack_tree *st = arg;
	uint32_t node;

	if (ps->flags & PTB_SAMPLE_NO_STACK)
		node = child_of(st, process_node(st, ps->tgid),
				named_frame(st, "(stack not read)", STACK_GROUP));
	else
		node = stack_node(st, ps->tgid, ps->stack);
	if (*ps->op)
		node = child_of(st, node, kept_name(st, ps->op, STACK_OPERATOR));
	else if (st->by_operator)
		node = child_of(st, node,
				named_frame(st,
					    ps->flags & PTB_SAMPLE_OPS ? STACK_OP_NONE :
									 STACK_OP_UNKNOWN,
					    STACK_GROUP));
	charge(st, node, &(struct op_context){ .tgid = ps->tgid, .tid = ps->tid },
	       ps->flags & PTB_SAMPLE_RAN ? STACK_RUNNING : STACK_WAITING, (int64_t)ps->ns);
}

/* ---- interface ---- */

struct stack_tree *stack_tree__new(void)
{
	struct stack_tree *st = xcalloc(1, sizeof(*st));

	st->run = UINT32_MAX;
	st->texts = strtab__new();
	find_frame(st, &(struct stack_frame){ .kind = STACK_GROUP });
	list__keyed(KEYED_LIST(st, nodes, node), UINT64_MAX, 0);
	return st;
}

void stack_tree__begin(struct stack_tree *st, const struct session *s)
{
	forget_session(st);
	st->s = s;
	st->info = session__info(s);
	st->run++;
	py_paths__find(&st->paths, s);
}

void stack_tree__group_by_operator(struct stack_tree *st)
{
	st->by_operator = true;
}

void stack_tree__add_kernels(struct stack_tree *st)
{
	st->kernels = true;
}

void stack_tree__watch(struct stack_tree *st, stack_watch watch, void *arg)
{
	st->watch = watch;
	st->watch_arg = arg;
}

const char *stack_kind__name(enum stack_kind kind)
{
	static const char *const names[STACK_KIND_CNT] = {
		[STACK_PYTHON] = "[python]",     [STACK_LIBRARY] = "[python library]",
		[STACK_OPERATOR] = "[operator]", [STACK_ANNOTATION] = "[annotation]",
		[STACK_GROUP] = "[ptbpf]",       [STACK_KERNEL] = "[gpu]",
	};

	return names[kind];
}

struct session_sink stack_tree__sink(struct stack_tree *st)
{
	return (struct session_sink){
		.arg = st,
		.slice = sum_slice,
		.memory = sum_memory,
		.kernel = sum_kernel_memory,
		.sample = st->info->sample_hz ? sum_sample : NULL, /* else operators are in it */
		.sched = sum_waits,
		.gpu = sum_gpu,
	};
}

uint32_t stack_tree__node(struct stack_tree *st, uint32_t tgid, uint32_t stack)
{
	return stack_node(st, tgid, stack);
}

const struct stack_node *stack_tree__nodes(const struct stack_tree *st, uint32_t *cnt)
{
	*cnt = st->node_cnt;
	return st->nodes;
}

const struct stack_frame *stack_tree__frames(const struct stack_tree *st, uint32_t *cnt)
{
	*cnt = st->frame_cnt;
	return st->frames;
}

const char *stack_tree__text(const struct stack_tree *st, uint32_t id)
{
	return strtab__text(st->texts, id);
}

uint32_t stack_tree__text_cnt(const struct stack_tree *st)
{
	return strtab__cnt(st->texts);
}

bool stack_tree__is_cut(const struct stack_tree *st)
{
	return st->node_cnt >= LIMIT_STACK_NODES;
}

bool stack_metric__recorded(const struct session_info *info, enum stack_metric metric)
{
	switch (metric) {
	case STACK_CPU:
	case STACK_CALLS:
		return true;
	case STACK_RUNNING:
	case STACK_WAITING:
		return info->sample_hz;
	case STACK_WAIT_CPU:
	case STACK_WAIT_GIL:
	case STACK_WAIT_LOCK:
	case STACK_WAIT_IO:
	case STACK_WAIT_OTHER:
		return info->has_sched;
	case STACK_GPU:
		return info->has_gpu;
	case STACK_CPU_ALLOC:
	case STACK_CPU_LIVE:
	case STACK_GPU_ALLOC:
	case STACK_GPU_LIVE:
		return info->has_memory;
	default:
		return info->has_kernel_memory;
	}
}
