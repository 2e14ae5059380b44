/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sums over slices by name; see key_averages.h. Owns the rows and torch's rules for them; must not
 * print.
 *
 * Slices come when they close, children first. What the closed children of a still open slice add
 * up to is kept under the id of that slice, so a name that torch drops from its table, or an
 * annotation that ended on another thread (torch calls it async: no children, no self time), can
 * hand its children on to the slice around it. A slice whose only child has its own name swallows
 * that child: the child's share of the row is taken back, and the child's children become its own.
 * That goes by names: shapes only say which row a slice is added to.
 */
#include "model/key_averages.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/facts.h"

/* Bytes, allocations less frees. */
struct ka_memory {
	int64_t cpu, device;
};

/* A closed child, as much as its parent needs to swallow it. */
struct ka_child {
	uint32_t row, key;
	uint64_t dur_ns, self_ns, child_ns, flops;
	uint64_t device_ns, own_device_ns;
	uint64_t event; /* its number */
	struct ka_memory mem, self_mem, child_mem;
	uint64_t wait_ns[WAITS_CNT];
};

/* The closed children of one open slice, and what its thread waited for in none of them. */
struct ka_open {
	uint64_t parent; /* id of the open slice, 0: the thread */
	uint64_t wait_ns[WAITS_CNT];
	uint64_t ns, device_ns;
	struct ka_memory mem;
	uint32_t cnt;
	struct ka_child last;
};

struct ka_call { /* of CUDA's API, open when the newest one began */
	uint64_t end_ns;
	uint32_t row;
};

struct ka_thread {
	struct ka_open *open; /* in the order in which a first child closed */
	uint32_t cnt, cap;
	struct ka_call *calls;
	uint32_t call_cnt, call_cap;
};

struct row {
	struct ka_row r;
	uint32_t key, shapes, stack; /* ids in keys */
};

struct key_averages {
	struct ka_opts opts;
	struct strtab *keys;
	/* (name pointer: the session interns) -> key, 0: not in the table */
	struct hashmap key_by_name;
	/* (stack << 32 | key, shapes << 2 | is_device << 1 | is_annotation) -> index */
	struct hashmap row_ids;
	struct shapes_text shapes; /* of the current slice */
	uint32_t alone[2];         /* rows of [memory] and [OutOfMemory] + 1, 0: none yet */
	struct row *rows;
	uint32_t row_cnt, row_cap;
	struct ka_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids; /* (tgid, tid) -> index */
	struct ka_row *sorted;
};

struct key_averages *key_averages__new(const struct ka_opts *opts)
{
	struct key_averages *ka = xcalloc(1, sizeof(*ka));

	if (opts)
		ka->opts = *opts;
	ka->keys = strtab__new();
	return ka;
}

void key_averages__free(struct key_averages *ka)
{
	if (!ka)
		return;
	for (uint32_t i = 0; i < ka->thread_cnt; i++) {
		free(ka->threads[i].open);
		free(ka->threads[i].calls);
	}
	free(ka->threads);
	free(ka->rows);
	free(ka->sorted);
	free(ka->shapes.text);
	hashmap__clear(&ka->key_by_name);
	hashmap__clear(&ka->row_ids);
	hashmap__clear(&ka->thread_ids);
	strtab__free(ka->keys);
	free(ka);
}

/* ---- names ---- */

/* torch/autograd/profiler_util.py: _filter_name() */
static bool is_dropped(const char *name)
{
	static const char *const dropped[] = { "[memory]",
					       "[OutOfMemory]",
					       "profiler::_record_function_enter",
					       "profiler::_record_function_enter_new",
					       "profiler::_record_function_exit",
					       "aten::is_leaf",
					       "aten::output_nr",
					       "aten::_version" };

	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (!strcmp(name, dropped[i]))
			return true;
	return false;
}

/* _rewrite_name() there: names longer than one character go through the C++ demangler, whatever
 * they are, and steps are one row. */
static uint32_t make_key(struct key_averages *ka, const char *name)
{
	char *demangled = strlen(name) > 1 ? demangle(name, NULL) : NULL;
	const char *text = demangled ? demangled : name;
	uint32_t key;

	if (step_name__is(text))
		text = "ProfilerStep*";
	key = strtab__add(ka->keys, text, strlen(text));
	free(demangled);
	return key;
}

/* Key 0: not in the table. */
static void key_of(struct key_averages *ka, const char *name, uint32_t *key)
{
	const uint64_t *known = hashmap__get(&ka->key_by_name, (uintptr_t)name, 0);

	if (known) {
		*key = (uint32_t)*known;
		return;
	}
	*key = is_dropped(name) ? 0 : make_key(ka, name);
	hashmap__put(&ka->key_by_name, (uintptr_t)name, 0, *key);
}

/* Shapes as an id in keys; 0 when rows are not grouped by them. */
static void shapes_of(struct key_averages *ka, const struct slice *sl, uint32_t *shapes)
{
	*shapes = 0;
	if (!ka->opts.by_shape)
		return;
	input_shapes__text(sl, &ka->shapes);
	*shapes = strtab__add(ka->keys, ka->shapes.text, ka->shapes.len);
}

enum row_kind { ROW_CPU, ROW_ANNOTATION = 1, ROW_DEVICE = 2 }; /* bits */

static void find_stack_row(struct key_averages *ka, uint32_t key, uint32_t shapes, uint32_t stack,
			   uint32_t kind, uint32_t *row)
{
	uint64_t k0 = (uint64_t)stack << 32 | key, k1 = (uint64_t)shapes << 2 | kind;
	uint32_t before = ka->row_cnt;
	struct row *r = list__keyed(KEYED_LIST(ka, rows, row), k0, k1);

	*row = (uint32_t)(r - ka->rows);
	if (ka->row_cnt > before)
		*r = (struct row){ .key = key,
				   .shapes = shapes,
				   .stack = stack,
				   .r.is_annotation = kind & ROW_ANNOTATION,
				   .r.is_device = kind & ROW_DEVICE,
				   .r.first_begin_ns = UINT64_MAX };
}

static void find_row(struct key_averages *ka, uint32_t key, uint32_t shapes, uint32_t kind,
		     uint32_t *row)
{
	find_stack_row(ka, key, shapes, 0, kind, row);
}

static void row_of(struct key_averages *ka, const struct slice *sl, uint32_t key, uint32_t *row)
{
	const char *stack = ka->opts.stack_text ? ka->opts.stack_text(ka->opts.stack_arg, sl) : "";
	uint32_t shapes;

	shapes_of(ka, sl, &shapes);
	find_stack_row(ka, key, shapes, *stack ? strtab__add(ka->keys, stack, strlen(stack)) : 0,
		       sl->cat == SLICE_USER_ANNOTATION ? ROW_ANNOTATION : ROW_CPU, row);
	if (!ka->rows[*row].r.category)
		ka->rows[*row].r.category = sl->cat == SLICE_USER_ANNOTATION ? "user_annotation" :
									       "cpu_op";
}

/* ---- memory ---- */

#define ADD 1ULL
#define TAKE_BACK (~0ULL) /* -1: unsigned sums wrap around */

/* Sums of what damaged records say wrap around. */
static int64_t wrapping_sum(int64_t a, int64_t b, uint64_t sign)
{
	return (int64_t)((uint64_t)a + sign * (uint64_t)b);
}

static void add_memory(struct ka_memory *to, const struct ka_memory *more, uint64_t sign)
{
	to->cpu = wrapping_sum(to->cpu, more->cpu, sign);
	to->device = wrapping_sum(to->device, more->device, sign);
}

static struct ka_memory memory_of(const struct key_averages *ka, const struct slice *sl)
{
	if (!sl->mem)
		return (struct ka_memory){ 0, 0 };
	return ka->opts.exact_memory ? (struct ka_memory){ sl->mem->cpu_own, sl->mem->device_own } :
				       (struct ka_memory){ sl->mem->cpu_all, sl->mem->device_all };
}

static void add_waits(uint64_t to[WAITS_CNT], const uint64_t more[WAITS_CNT], uint64_t sign)
{
	for (uint32_t g = 0; g < WAITS_CNT; g++)
		to[g] += sign * more[g];
}

/* ---- the children of open slices ---- */

static struct ka_thread *thread_of(struct key_averages *ka, uint32_t tgid, uint32_t tid)
{
	return list__keyed(KEYED_LIST(ka, threads, thread), tgid, tid);
}

/* The newest first; NULL: none has closed. */
static struct ka_open *children_of(struct ka_thread *t, uint64_t parent)
{
	for (uint32_t i = t->cnt; i--;)
		if (t->open[i].parent == parent)
			return &t->open[i];
	return NULL;
}

/* What has closed inside the slice so far; taken out. */
static struct ka_open take_children(struct ka_thread *t, uint64_t parent)
{
	struct ka_open *at = children_of(t, parent), found = { .parent = parent };

	if (at) {
		found = *at;
		memmove(at, at + 1, (size_t)(t->open + --t->cnt - at) * sizeof(*at));
	}
	return found;
}

/* As yet nothing, if there is none. */
static struct ka_open *open_of(struct ka_thread *t, uint64_t parent)
{
	struct ka_open *at = children_of(t, parent);

	if (at)
		return at;
	vec_push(t->open, t->cnt, t->cap, (struct ka_open){ .parent = parent });
	return &t->open[t->cnt - 1];
}

static void add_children(struct ka_thread *t, uint64_t parent, const struct ka_open *more)
{
	struct ka_open *at = open_of(t, parent);

	add_waits(at->wait_ns, more->wait_ns, ADD);
	if (!more->cnt)
		return;
	at->cnt += more->cnt;
	at->ns += more->ns;
	at->device_ns += more->device_ns;
	add_memory(&at->mem, &more->mem, ADD);
	at->last = more->last;
}

/* ---- slices ---- */

static void add_row_memory(struct ka_row *r, const struct ka_memory *mem,
			   const struct ka_memory *self, uint64_t sign)
{
	r->cpu_mem = wrapping_sum(r->cpu_mem, mem->cpu, sign);
	r->device_mem = wrapping_sum(r->device_mem, mem->device, sign);
	r->self_cpu_mem = wrapping_sum(r->self_cpu_mem, self->cpu, sign);
	r->self_device_mem = wrapping_sum(r->self_device_mem, self->device, sign);
}

static void add_to_row(struct ka_row *r, const struct ka_child *c, uint64_t sign)
{
	r->count += sign;
	r->cpu_total_ns += sign * c->dur_ns;
	r->self_cpu_ns += sign * c->self_ns;
	r->flops += sign * c->flops;
	r->device_total_ns += sign * c->device_ns;
	r->self_device_ns += sign * c->own_device_ns;
	add_waits(r->wait_ns, c->wait_ns, sign);
	add_row_memory(r, &c->mem, &c->self_mem, sign);
}

static void add_slice(struct key_averages *ka, const struct slice *sl, struct ka_child *c)
{
	struct ka_row *r = &ka->rows[c->row].r;
	const struct ka_event ev = { .sl = sl,
				     .self_cpu_ns = c->self_ns,
				     .self_device_ns = c->own_device_ns };

	add_to_row(r, c, ADD);
	if (sl->begin_ns < r->first_begin_ns)
		r->first_begin_ns = sl->begin_ns;
	if (ka->opts.event)
		ka->opts.event(ka->opts.event_arg, &ev, &c->event);
}

/* The only child, of the same name: it is as if it had not been. */
static void swallow(struct key_averages *ka, const struct ka_child *only, struct ka_child *into)
{
	add_to_row(&ka->rows[only->row].r, only, TAKE_BACK);
	if (ka->opts.event)
		ka->opts.take_back(ka->opts.event_arg, only->event);
	into->child_ns = only->child_ns;
	into->child_mem = only->child_mem;
	into->own_device_ns += only->own_device_ns;
	add_waits(into->wait_ns, only->wait_ns, ADD);
}

static void on_slice(void *arg, const struct slice *sl)
{
	struct key_averages *ka = arg;
	struct ka_thread *t = thread_of(ka, sl->tgid, sl->tid);
	uint64_t dur = sl->end_ns - sl->begin_ns;
	struct ka_open kids, self;
	uint32_t key;

	key_of(ka, sl->name, &key);
	kids = take_children(t, sl->id);
	/* open from the beginning and seen by its exit only: it holds all of its thread so far */
	if (sl->flags & SLICE_OPEN_AT_BEGIN && !kids.cnt)
		kids = take_children(t, sl->parent);
	kids.cnt += sl->call_cnt; /* if one of them is the only child, kids.last has no key */
	kids.ns += sl->call_ns;
	if (!key || sl->flags & SLICE_PARTIAL) { /* part of a step is none */
		add_children(t, sl->parent, &kids);
		return;
	}
	self = (struct ka_open){ .ns = dur, .mem = memory_of(ka, sl), .cnt = 1 };
	self.last = (struct ka_child){ .key = key,
				       .dur_ns = dur,
				       .child_ns = kids.ns,
				       .mem = self.mem,
				       .child_mem = kids.mem };
	row_of(ka, sl, key, &self.last.row);
	if (ka->opts.with_flops)
		self.last.flops = input_shapes__flops(sl);
	if (sl->flags & SLICE_OTHER_THREAD_END) {
		add_slice(ka, sl, &self.last);
		add_children(t, sl->parent, &kids);
		return;
	}
	add_waits(self.last.wait_ns, kids.wait_ns, ADD);
	self.last.own_device_ns = sl->device_ns;
	self.last.device_ns = self.device_ns = self.last.own_device_ns + kids.device_ns;
	if (kids.cnt == 1 && kids.last.key == key)
		swallow(ka, &kids.last, &self.last);
	self.last.self_mem = self.mem;
	add_memory(&self.last.self_mem, &self.last.child_mem, TAKE_BACK);
	self.last.self_ns = dur > self.last.child_ns ? dur - self.last.child_ns : 0;
	add_slice(ka, sl, &self.last);
	add_children(t, sl->parent, &self);
}

/*
 * What torch lists by itself, as an event without length: what was allocated or freed while nothing
 * was open (_parse_kineto_results() in pytorch torch/autograd/profiler.py), and every failure to
 * allocate, which it counts as no bytes. What is inferred, or of no known size, torch does not
 * know.
 */
static void on_memory(void *arg, const struct memory_event *ev)
{
	static const char *const names[] = { "[memory]", "[OutOfMemory]" };
	struct key_averages *ka = arg;
	bool oom = ev->what == MEMORY_OOM;
	bool enclosed = ka->opts.exact_memory ? ev->at.slice != 0 : ev->at.enclosed;
	struct ka_memory mem = { 0, 0 };
	struct row *row;

	if (!oom &&
	    (enclosed || ev->inferred || (ev->what != MEMORY_ALLOC && ev->what != MEMORY_FREE)))
		return;
	if (!ka->alone[oom]) {
		uint32_t key = strtab__add(ka->keys, names[oom], strlen(names[oom])), i;
		uint32_t shapes = ka->opts.by_shape ? strtab__add(ka->keys, "[]", 2) : 0;

		find_row(ka, key, shapes, ROW_CPU, &i);
		ka->rows[i].r.is_instant = true;
		ka->rows[i].r.category = "cpu_instant_event";
		ka->alone[oom] = i + 1;
	}
	row = &ka->rows[ka->alone[oom] - 1];
	if (!oom && memory__device_class(ev->device_type) == DEVICE_CPU)
		mem.cpu = ev->bytes;
	else if (!oom && memory__device_class(ev->device_type) == DEVICE_ACCELERATOR)
		mem.device = ev->bytes;
	add_row_memory(&row->r, &mem, &mem, ADD);
	row->r.count++;
	if (ev->ts_ns < row->r.first_begin_ns)
		row->r.first_begin_ns = ev->ts_ns;
}

/* ---- GPU ---- */

/* A call inside another one of its thread is that one's child. Calls come in order of begin, outer
 * ones first. */
static void add_gpu_call(struct key_averages *ka, uint32_t row, const struct gpu_slice *g)
{
	struct ka_thread *t = thread_of(ka, g->at.tgid, g->at.tid);
	uint64_t dur = g->end_ns - g->begin_ns;

	while (t->call_cnt && (g->begin_ns >= t->calls[t->call_cnt - 1].end_ns ||
			       g->end_ns > t->calls[t->call_cnt - 1].end_ns))
		t->call_cnt--;
	if (t->call_cnt)
		ka->rows[t->calls[t->call_cnt - 1].row].r.self_cpu_ns -= dur;
	vec_push(t->calls, t->call_cnt, t->call_cap,
		 (struct ka_call){ .end_ns = g->end_ns, .row = row });
}

static const char *gpu_category(const struct gpu_slice *g)
{
	switch (g->what) {
	case GPU_KERNEL:
		return "kernel";
	case GPU_MEMCPY:
		return "gpu_memcpy";
	case GPU_MEMSET:
		return "gpu_memset";
	case GPU_ANNOTATION:
		return "gpu_user_annotation";
	case GPU_API:
		return g->driver ? "cuda_driver" : "cuda_runtime";
	case GPU_OVERHEAD:
		return "overhead";
	default:
		return NULL; /* no row */
	}
}

static void on_gpu(void *arg, const struct gpu_slice *g)
{
	struct key_averages *ka = arg;
	bool on_host = g->what == GPU_API || g->what == GPU_OVERHEAD;
	uint32_t kind = (on_host ? ROW_CPU : ROW_DEVICE) |
			(g->what == GPU_ANNOTATION ? ROW_ANNOTATION : 0);
	uint64_t wider = g->what == GPU_ANNOTATION; /* on either side, as torch records it */
	uint64_t begin_ns = g->begin_ns - wider, dur = g->end_ns + wider - begin_ns;
	uint32_t key, shapes = 0, i;
	struct ka_row *r;

	if (!gpu_category(g))
		return;
	key_of(ka, g->name, &key);
	if (!key) /* a name that torch drops */
		return;
	if (ka->opts.by_shape)
		shapes = strtab__add(ka->keys, "[]", 2);
	find_row(ka, key, shapes, kind, &i);
	r = &ka->rows[i].r;
	r->category = r->category ? r->category : gpu_category(g);
	r->count++;
	if (begin_ns < r->first_begin_ns)
		r->first_begin_ns = begin_ns;
	if (on_host) {
		r->cpu_total_ns += dur;
		r->self_cpu_ns += dur;
	} else {
		r->device_total_ns += dur;
		r->self_device_ns += dur;
	}
	if (g->what == GPU_API)
		add_gpu_call(ka, i, g);
}

static void on_sched(void *arg, const struct sched_event *ev)
{
	struct ka_open *at;

	if (!ev->at.slice)
		return;
	at = open_of(thread_of(arg, ev->at.tgid, ev->at.tid), ev->at.slice);
	for (uint32_t what = 0; what < PTB_WAIT_CNT; what++)
		at->wait_ns[wait__group(what)] += ev->ns[what];
}

struct session_sink key_averages__sink(struct key_averages *ka)
{
	return (struct session_sink){
		.arg = ka, .slice = on_slice, .memory = on_memory, .gpu = on_gpu, .sched = on_sched
	};
}

static int cmp_first(const void *a, const void *b)
{
	const struct ka_row *x = a, *y = b;

	if (x->first_begin_ns != y->first_begin_ns)
		return sort__cmp(x->first_begin_ns, y->first_begin_ns);
	return sort__cmp(y->cpu_total_ns, x->cpu_total_ns);
}

const struct ka_row *key_averages__rows(struct key_averages *ka, uint32_t *cnt)
{
	uint32_t n = 0;

	*cnt = 0;
	free(ka->sorted);
	ka->sorted = xcalloc(ka->row_cnt + 1, sizeof(*ka->sorted));
	for (uint32_t i = 0; i < ka->row_cnt; i++) {
		if (!ka->rows[i].r.count) /* all of them were swallowed */
			continue;
		ka->sorted[n] = ka->rows[i].r;
		ka->sorted[n].shapes = strtab__text(ka->keys, ka->rows[i].shapes);
		ka->sorted[n].stack = strtab__text(ka->keys, ka->rows[i].stack);
		ka->sorted[n++].key = strtab__text(ka->keys, ka->rows[i].key);
	}
	sort__array(ka->sorted, n, sizeof(*ka->sorted), cmp_first);
	*cnt = n;
	return ka->sorted;
}
