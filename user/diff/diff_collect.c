/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What one capture has in each step. Slices, waits and allocations come before the step in which
 * they are ends: they wait until then, and are dropped where that is no whole one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "diff/diff_priv.h"
#include "export/facts_json.h"
#include "model/facts.h"

#define OPEN_MAX 64

enum target { TO_NODE = DIFF_VIEWS }; /* of a pending amount, or a view */

struct pending {
	uint64_t ts_ns;
	double v;
	uint32_t to, row; /* of the view, or of the nodes */
	bool backward;    /* of one of autograd's threads, for which the step's own waits */
};

struct thread_run { /* of --sched: how much a thread waits */
	uint64_t since_ns, until_ns, ns;
};

struct collect {
	struct diff *d;
	struct diff_side *side;
	uint32_t nr;
	struct pending *list;
	uint32_t cnt, cap;
	struct hashmap waits;    /* of an open slice: ns of waits for a CPU or the GIL in it */
	struct hashmap backward; /* threads that do what autograd's engine gives to them */
	struct hashmap lines, modules; /* of a stack: index of its row + 1 */
	struct py_paths paths;
	struct thread_run *runs;
	uint32_t run_cnt, run_cap;
	struct hashmap run_ids;
	uint64_t order;
	struct shapes_text shapes;
};

/* ---- the step ---- */

static uint32_t row_nr(struct collect *c, enum diff_view view, const struct diff_row *r)
{
	return (uint32_t)(r - c->d->views[view].rows);
}

/* A row of a view that has this label in both captures. */
static uint32_t named_row(struct collect *c, enum diff_view view, uint64_t key, const char *label)
{
	struct diff_row *r = diff__row(c->d, view, key, 1);

	r->label[c->nr] = diff__text_id(c->d, label);
	return row_nr(c, view, r);
}

static struct diff_series *series_of(struct collect *c, const struct pending *p)
{
	if (p->to == TO_NODE)
		return &c->side->nodes[p->row].self;
	return &c->d->views[p->to].rows[p->row].of[c->nr];
}

static void add_part(struct collect *c, uint32_t part, uint32_t step, double v)
{
	diff_series__add(&c->d->views[DIFF_PARTS].rows[part].of[c->nr], step, v, 0);
}

/* What autograd's threads do meanwhile takes no more than the time in which the step does nothing
 * else. */
static double fit_backward(const struct collect *c, double dur)
{
	double own = 0, backward = 0;

	for (uint32_t i = 0; i < c->cnt; i++)
		if (c->list[i].to == TO_NODE || c->list[i].to == DIFF_PARTS)
			*(c->list[i].backward ? &backward : &own) += c->list[i].v;
	own = own < dur ? dur - own : 0;
	return backward > own ? own / backward : 1;
}

static double commit_all(struct collect *c, const struct slice *step, uint32_t nr)
{
	double scale = fit_backward(c, (double)(step->end_ns - step->begin_ns)), sum = 0,
	       states = 0;

	for (uint32_t i = 0; i < c->cnt; i++) {
		const struct pending *p = &c->list[i];
		double v = p->backward ? p->v * scale : p->v;

		if (p->ts_ns < step->begin_ns)
			continue;
		diff_series__add(series_of(c, p), nr, v, 1);
		if (p->to == TO_NODE && c->side->nodes[p->row].class != TIME_CLASSES)
			add_part(c, c->side->nodes[p->row].class, nr, v);
		if (p->to == TO_NODE ? c->side->nodes[p->row].class != TIME_CLASSES :
				       p->to == DIFF_PARTS)
			sum += v;
		states += p->to == DIFF_STATES ? v : 0;
	}
	if (session__info(c->side->s)->has_sched) {
		uint32_t row = named_row(c, DIFF_STATES, PTB_WAIT_CNT, "running");

		diff_series__add(&c->d->views[DIFF_STATES].rows[row].of[c->nr], nr,
				 (double)(step->end_ns - step->begin_ns) - states, 0);
	}
	return sum;
}

static void end_step(struct collect *c, const struct slice *step)
{
	struct diff_side *side = c->side;
	double dur = (double)(step->end_ns - step->begin_ns);

	if (slice__is_whole_step(step)) {
		uint32_t nr = side->cnt;

		add_part(c, DIFF_PART_PYTHON, nr, dur - commit_all(c, step, nr));
		side->derived |= step->flags & SLICE_DERIVED;
		vec_push(side->steps, side->cnt, side->cap, dur);
		vec_reserve((void **)&side->begins, &side->begin_cap, side->cnt,
			    sizeof(*side->begins));
		side->begins[nr] = step->begin_ns;
	}
	c->cnt = 0;
}

static void put(struct collect *c, uint32_t to, uint32_t row, uint64_t ts_ns, double v,
		bool backward)
{
	vec_push(c->list, c->cnt, c->cap,
		 (struct pending){
			 .ts_ns = ts_ns, .v = v, .to = to, .row = row, .backward = backward });
}

/* ---- nodes ---- */

static enum time_class class_of(const char *name, bool is_op, enum time_class around)
{
	enum time_class own =
		is_op ? (!strncmp(name, "c10d::", 6) ? TIME_COLLECTIVES : TIME_OPERATORS) :
			time_class__of_annotation(name);

	return around == TIME_CLASSES || (around == TIME_OPERATORS && own != TIME_CLASSES) ? own :
											     around;
}

static uint32_t child_of(struct collect *c, uint32_t parent, const char *name, uint32_t cat)
{
	struct diff_side *side = c->side;
	uint32_t before = side->node_cnt, text = diff__text_id(c->d, name);
	bool is_op = cat == SLICE_CPU_OP;
	struct diff_node *n =
		list__keyed(KEYED_LIST(side, nodes, node), (uint64_t)parent << 32 | text, is_op);

	if (side->node_cnt > before) {
		n->parent = parent;
		n->name = text;
		n->is_op = is_op;
		n->class = class_of(name, is_op, side->nodes[parent].class);
		n->order = c->order++;
	}
	return (uint32_t)(n - side->nodes);
}

/* Of a slice, below those that are open around it. */
static uint32_t node_of(struct collect *c, const struct slice *sl)
{
	struct open_slice list[OPEN_MAX];
	uint32_t cnt = session__open_slices(c->side->s, sl->tgid, sl->tid, list, OPEN_MAX),
		 from = 0, node = 0;

	while (from < cnt && list[from].id != sl->parent)
		from++;
	while (cnt-- > from)
		if (!list[cnt].is_step)
			node = child_of(c, node, list[cnt].name, list[cnt].cat);
	return child_of(c, node, sl->name, sl->cat);
}

static void count_shapes(struct collect *c, uint32_t node, const struct slice *sl)
{
	uint64_t *known;
	uint32_t text;

	if (!session__info(c->side->s)->has_shapes || sl->cat != SLICE_CPU_OP)
		return;
	input_shapes__text(sl, &c->shapes);
	text = diff__text_id(c->d, c->shapes.text);
	known = hashmap__get(&c->side->nodes[node].shapes, text, 0);
	hashmap__put(&c->side->nodes[node].shapes, text, 0, known ? *known + 1 : 1);
}

/* ---- lines and modules ---- */

/* Where its line is counted from the def on: what is inserted above a function moves no line. */
static uint32_t line_row(struct collect *c, uint32_t stack)
{
	struct py_stack st = session__py_stack(c->side->s, stack);
	struct py_frame own = { 0 };
	char text[PY_TEXT_MAX];
	struct diff_row *r;

	for (uint32_t i = 0; i < st.frame_cnt; i++) {
		struct py_frame f = session__py_frame(c->side->s, st.frames[i] & ~PY_FRAME_NATIVE);
		bool library = py_text__is_library(f.file);

		if (!i || !library)
			own = f;
		if (!library)
			break;
	}
	if (!own.func)
		return named_row(c, DIFF_LINES, 0, "(no line)");
	snprintf(text, sizeof(text), "%s:%s", py_text__file(&c->paths, own.file), own.func);
	r = diff__row(c->d, DIFF_LINES,
		      (uint64_t)diff__text_id(c->d, text) << 32 |
			      (uint32_t)(own.first && own.line ? own.line - own.first : own.line),
		      2);
	snprintf(text, sizeof(text), "%s:%d %s", py_text__file(&c->paths, own.file), own.line,
		 own.func);
	r->label[c->nr] = diff__text_id(c->d, text);
	return row_nr(c, DIFF_LINES, r);
}

static uint32_t module_row(struct collect *c, uint32_t stack)
{
	struct py_stack st = session__py_stack(c->side->s, stack);
	char text[PY_TEXT_MAX] = "(in no module)";

	for (uint32_t i = 0; i < st.frame_cnt; i++) {
		struct py_frame f = session__py_frame(c->side->s, st.frames[i] & ~PY_FRAME_NATIVE);

		if (!f.module)
			continue;
		if (f.module_path && *f.module_path)
			snprintf(text, sizeof(text), "%s (%s)", f.module_path, f.module);
		else
			snprintf(text, sizeof(text), "%s_%u", f.module, f.module_nr);
		break;
	}
	return named_row(c, DIFF_MODULES, diff__text_id(c->d, text), text);
}

static uint32_t known_row(struct collect *c, struct hashmap *known, uint32_t stack,
			  uint32_t (*find)(struct collect *c, uint32_t stack))
{
	uint64_t *at = hashmap__get(known, stack, 0);
	uint32_t row;

	if (at)
		return (uint32_t)*at;
	row = find(c, stack);
	hashmap__put(known, stack, 0, row);
	return row;
}

static void put_frames(struct collect *c, const struct slice *sl, double v, bool backward)
{
	const struct session_info *info = session__info(c->side->s);
	uint32_t stack = sl->fwd_stack ? sl->fwd_stack : sl->stack;

	if (info->has_py_stacks)
		put(c, DIFF_LINES, known_row(c, &c->lines, stack, line_row), sl->begin_ns, v,
		    backward);
	if (info->has_modules)
		put(c, DIFF_MODULES, known_row(c, &c->modules, stack, module_row), sl->begin_ns, v,
		    backward);
}

/* ---- what is seen ---- */

static bool is_own(const struct collect *c, uint32_t tgid, uint32_t tid)
{
	return tgid == c->side->t.tgid && tid == c->side->t.tid;
}

static void take_slice(void *arg, const struct slice *sl)
{
	struct collect *c = arg;
	bool own = is_own(c, sl->tgid, sl->tid);
	uint64_t *waited, ns = sl->end_ns - sl->begin_ns;
	uint32_t node;

	if (sl->tgid != c->side->t.tgid)
		return;
	if (slice__is_step(sl)) {
		if (own)
			end_step(c, sl);
		return;
	}
	if (!own && sl->backward && !sl->depth)
		hashmap__put(&c->backward, sl->tid, 0, 1);
	if (!own && !sl->backward && !hashmap__get(&c->backward, sl->tid, 0))
		return;
	ns -= sl->child_ns < ns ? sl->child_ns : ns;
	waited = hashmap__get(&c->waits, sl->id, 0);
	if (waited) {
		ns -= *waited < ns ? *waited : ns;
		hashmap__del(&c->waits, sl->id, 0);
	}
	node = node_of(c, sl);
	count_shapes(c, node, sl);
	put(c, TO_NODE, node, sl->begin_ns, (double)ns, !own);
	put_frames(c, sl, (double)ns, !own);
}

static void note_run(struct collect *c, const struct sched_event *ev)
{
	struct thread_run *r = list__keyed(KEYED_LIST(c, runs, run), ev->at.tid, 0);

	r->since_ns = r->since_ns ? r->since_ns : ev->since_ns ? ev->since_ns : ev->begin_ns;
	r->until_ns = ev->end_ns;
	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++)
		r->ns += ev->ns[k];
}

/* A wait for a CPU or the GIL is no operator's; others within a class are its own. */
static void take_wait(void *arg, const struct sched_event *ev)
{
	struct collect *c = arg;
	enum time_class class;

	if (ev->at.tgid != c->side->t.tgid ||
	    ev->end_ns > session__probed_until(c->side->s, ev->at.tgid))
		return;
	note_run(c, ev);
	if (!is_own(c, ev->at.tgid, ev->at.tid))
		return;
	class = time_class__of_annotation(ev->at.annotation);
	class = class == TIME_CLASSES && ev->at.op_slice ? TIME_OPERATORS : class;
	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++) {
		uint64_t *in;

		if (!ev->ns[k])
			continue;
		put(c, DIFF_STATES,
		    named_row(c, DIFF_STATES, k, diff_part__name(DIFF_PART_WAIT + k)), ev->end_ns,
		    (double)ev->ns[k], false);
		if (!wait__everywhere(k) && class != TIME_CLASSES)
			continue;
		put(c, DIFF_PARTS, DIFF_PART_WAIT + k, ev->end_ns, (double)ev->ns[k], false);
		if (!ev->at.slice)
			continue;
		in = hashmap__get(&c->waits, ev->at.slice, 0);
		hashmap__put(&c->waits, ev->at.slice, 0, (in ? *in : 0) + ev->ns[k]);
	}
}

static void take_memory(void *arg, const struct memory_event *ev)
{
	static const char *const names[] = {
		[DIFF_MEM_CPU] = "allocated on the CPU", [DIFF_MEM_GPU] = "allocated on GPUs"
	};
	struct collect *c = arg;
	enum device_class class = memory__device_class(ev->device_type);
	uint32_t what = class == DEVICE_CPU ? DIFF_MEM_CPU : DIFF_MEM_GPU;

	if (ev->what != MEMORY_ALLOC || class == DEVICE_OTHER || ev->at.tgid != c->side->t.tgid)
		return;
	put(c, DIFF_MEMORY, named_row(c, DIFF_MEMORY, what, names[what]), ev->ts_ns,
	    (double)ev->bytes, false);
}

static void take_kernel(void *arg, const struct kernel_event *ev)
{
	struct collect *c = arg;
	const struct ptb_kmem *r = (const void *)ev->rec;

	if (ev->rec->kind == PTB_REC_KMEM && ev->at.tgid == c->side->t.tgid)
		put(c, DIFF_MEMORY,
		    named_row(c, DIFF_MEMORY, DIFF_MEM_FAULTS, "brought in by page faults"),
		    ev->rec->ts_ns, (double)r->fault_bytes, false);
}

/* After all slices: in the step in which it was launched. */
static void take_gpu(void *arg, const struct gpu_slice *g)
{
	struct collect *c = arg;
	struct diff_side *side = c->side;
	uint64_t at = g->launch_begin_ns ? g->launch_begin_ns : g->begin_ns;
	uint32_t lo = 0, hi = side->cnt, row;

	if (!gpu_what__is_work(g->what) || (g->at.tid && g->at.tgid != side->t.tgid))
		return;
	BISECT(lo, hi, mid, side->begins[mid] <= at);
	if (!lo || (double)(at - side->begins[lo - 1]) >= side->steps[lo - 1])
		return;
	row = named_row(c, DIFF_KERNELS, diff__text_id(c->d, g->name), g->name);
	diff_series__add(&c->d->views[DIFF_KERNELS].rows[row].of[c->nr], lo - 1,
			 (double)(g->end_ns - g->begin_ns), 1);
}

/* ---- the passes ---- */

/* The thread that makes steps, of the process that does most. */
static void choose(struct collect *c, struct thread_times *times)
{
	struct diff_side *side = c->side;
	const struct session_info *info = session__info(side->s);
	struct thread_time t;

	side->proc = thread_times__busiest(times, &side->t);
	for (uint32_t i = 0; i < info->process_cnt && !side->t.steps.cnt; i++)
		if (thread_times__main(times, info->processes[i].tgid, &t) && t.steps.cnt) {
			side->t = t;
			side->proc = &info->processes[i];
		}
}

static int find_thread(struct collect *c)
{
	struct diff_side *side = c->side;
	struct thread_times *times = thread_times__new(side->s);
	struct session_sink sink = thread_times__sink(times);
	int err = session__run(side->s, &sink, 1, &side->totals);

	if (!err)
		choose(c, times);
	thread_times__free(times);
	return err;
}

/* The first steps of a program compile, allocate and fill caches. */
static void find_warm(struct diff_side *side)
{
	double *sorted = vec_dup(side->steps, side->cnt, sizeof(*sorted));
	uint32_t most = (uint32_t)(DIFF_WARM_SHARE * side->cnt);

	sort__doubles(sorted, side->cnt);
	while (side->warm < most &&
	       side->steps[side->warm] > DIFF_WARM_FACTOR * sorted[side->cnt / 2])
		side->warm++;
	free(sorted);
}

static void finish(struct collect *c)
{
	struct diff_side *side = c->side;
	const struct session_info *info = session__info(side->s);
	const uint64_t *later;
	uint64_t window = session__probed_until(side->s, side->t.tgid) - info->begin_ns;

	find_warm(side);
	side->cost = time__share((uint64_t)session_info__cost_ns(info), window);
	later = session__later_steps(side->s, side->t.tgid, side->t.tid, &side->later_cnt);
	side->later = xcalloc(side->later_cnt + 1, sizeof(*side->later));
	for (uint32_t i = 0; i < side->later_cnt; i++)
		side->later[i] = (double)later[i];
	for (uint32_t i = 0; i < c->run_cnt; i++) {
		const struct thread_run *r = &c->runs[i];
		uint64_t known = r->until_ns - r->since_ns;

		side->threads += known > r->ns && known - r->ns > known / 20;
	}
	if (!loss_account__incomplete(info, &side->totals, side->lacks, sizeof(side->lacks)))
		side->lacks[0] = '\0';
}

static int sum_up(struct collect *c)
{
	struct diff_side *side = c->side;
	const struct session_info *info = session__info(side->s);
	struct session_sink sink = { .arg = c,
				     .slice = take_slice,
				     .sched = info->has_sched ? take_wait : NULL,
				     .memory = info->has_memory ? take_memory : NULL,
				     .kernel = info->has_kernel_memory ? take_kernel : NULL,
				     .gpu = info->has_gpu ? take_gpu : NULL };

	list__keyed(KEYED_LIST(side, nodes, node), UINT64_MAX, 0);
	side->nodes[0].class = TIME_CLASSES;
	return session__run(side->s, &sink, 1, &side->totals);
}

int diff_collect__run(struct diff *d, uint32_t nr)
{
	struct collect c = { .d = d, .side = &d->side[nr], .nr = nr };
	int err = find_thread(&c);

	if (err || !c.side->proc)
		return err;
	py_paths__find(&c.paths, c.side->s);
	err = sum_up(&c);
	finish(&c);
	free(c.list);
	free(c.runs);
	hashmap__clear(&c.run_ids);
	hashmap__clear(&c.waits);
	hashmap__clear(&c.backward);
	hashmap__clear(&c.lines);
	hashmap__clear(&c.modules);
	free(c.shapes.text);
	return err;
}
