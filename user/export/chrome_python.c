/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python functions as slices: what the stacks recorded at the begin of operators and annotations
 * show of them. Owns which calls there were and when they begin and end, so that all slices of a
 * thread nest; never changes one of the model's.
 *
 * A frame goes on from one stack to the next while the frames around it do, each at the same
 * instruction: another instruction in the caller is another call. A function is drawn from shortly
 * before the first slice in whose stack it is to shortly after the last one's end; calls from one
 * instruction with nothing of their caller in between cannot be separated and become one.
 *
 * An operator lies in all frames of its stack. An annotation may end in another function than it
 * began in: it lies in those frames of its stack that are also in all stacks inside it, and not in
 * __enter__(). A slice without a stack lies in the frames that are in all stacks inside it and in
 * the one before or after it. A frame that crosses the begin or end of an annotation is drawn in
 * two pieces.
 *
 * A thread is processed in order of time, after the last slice of the session. `spans` is a
 * thread's slices, `points` those stacks. What is open now, slices and frames, is one array,
 * innermost last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "export/chrome_priv.h"
#include "export/texts.h"

/* between any two times of a thread, as in the model: some readers keep microseconds in doubles */
#define GAP_NS 3
#define TEXTS_MAX (64ULL << 20) /* bytes of frames' texts that are kept */
#define NO_POINT UINT32_MAX
#define EV_IDX (1ULL << 41) /* "Ev Idx" of these: behind those of slices and of memory */

struct span {
	uint64_t begin, end;
	uint32_t stack;       /* 0: none was recorded */
	uint32_t first, last; /* points inside, itself included; NO_POINT: none */
	uint8_t lasting;      /* frames that go on through all of them */
	bool annotation;
};

struct point {
	uint32_t stack;
	uint8_t lasting; /* frames that go on from the point before */
};

struct py_thread {
	uint32_t tgid, tid;
	struct span *spans;
	uint32_t span_cnt, span_cap;
};

struct open {                            /* a slice, or a frame: id */
	uint64_t begin, end, id, parent; /* parent: the innermost frame around it, 0: none */
	uint32_t frame, caller;          /* PY_FRAME_NATIVE may be or-ed to frame; caller 0: none */
};

struct chrome_python {
	struct jsonw *w;
	const struct session *s;
	const struct session_info *info;
	const struct chrome_clock *clock;
	struct chrome_gpu *gpu;
	struct py_paths paths;
	struct strtab *texts; /* of frames */
	uint32_t *text_ids;   /* by frame; 0: not made yet */
	uint32_t text_cap;
	uint64_t text_bytes;
	struct py_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
	struct chrome_python_totals totals;
	uint64_t next_id;
	bool done;

	/* of the current thread */
	struct py_thread *t;
	struct point *points;
	uint32_t point_cnt, point_cap;
	struct open *open;
	uint32_t open_cnt, open_cap;
	uint32_t frame_cnt; /* of those open */
	uint32_t base;      /* of them, those around the innermost open slice */
	uint32_t alive;     /* of them, those that the stacks since say to go on */
	uint64_t now;       /* latest begin or end so far */
	char text[PY_TEXT_MAX];
};

struct chrome_python *chrome_python__new(struct jsonw *w, const struct session *s,
					 const struct chrome_clock *clock, struct chrome_gpu *gpu)
{
	struct chrome_python *cp = xcalloc(1, sizeof(*cp));

	cp->w = w;
	cp->s = s;
	cp->info = session__info(s);
	cp->clock = clock;
	cp->gpu = gpu;
	if (cp->info->has_py_stacks)
		py_paths__find(&cp->paths, s);
	cp->texts = strtab__new();
	return cp;
}

void chrome_python__free(struct chrome_python *cp)
{
	if (!cp)
		return;
	for (uint32_t i = 0; i < cp->thread_cnt; i++)
		free(cp->threads[i].spans);
	free(cp->threads);
	hashmap__clear(&cp->thread_ids);
	strtab__free(cp->texts);
	free(cp->text_ids);
	free(cp->points);
	free(cp->open);
	free(cp);
}

const struct chrome_python_totals *chrome_python__totals(const struct chrome_python *cp)
{
	return &cp->totals;
}

/* ---- stacks as texts and frames ---- */

/* Until the next call. A frame is in many stacks, so its text is kept. */
static const char *frame_text(struct chrome_python *cp, uint32_t frame)
{
	uint32_t nr = frame & ~PY_FRAME_NATIVE, id;
	struct py_frame f;

	if (nr < cp->text_cap && cp->text_ids[nr])
		return strtab__text(cp->texts, cp->text_ids[nr]);
	f = session__py_frame(cp->s, nr);
	py_text__torch(&cp->paths, &f, cp->text, sizeof(cp->text));
	if (cp->text_bytes > TEXTS_MAX)
		return cp->text;
	vec_reserve((void **)&cp->text_ids, &cp->text_cap, nr + 1ULL, sizeof(id));
	id = strtab__add(cp->texts, cp->text, strlen(cp->text));
	cp->text_ids[nr] = id;
	cp->text_bytes += strlen(cp->text);
	return strtab__text(cp->texts, id);
}

void chrome_python__call_stack(struct chrome_python *cp, uint32_t stack)
{
	struct py_stack ps = session__py_stack(cp->s, stack);

	if (!ps.frame_cnt)
		return;
	JSONW_KEY(cp->w, "Call stack");
	jsonw__str_begin(cp->w);
	for (uint32_t i = 0; i < ps.frame_cnt; i++) {
		const char *text = frame_text(cp, ps.frames[i]);

		jsonw__str_put(cp->w, text, strlen(text));
		jsonw__str_put(cp->w, ";", 1);
	}
	jsonw__str_end(cp->w);
	if (ps.flags)
		JSONW_BOOL(cp->w, "ptbpf.stack_cut", true);
}

/* A moment, on the thread's track: nothing says how long its functions ran. */
void chrome_python__sample(struct chrome_python *cp, const struct py_sample *sample)
{
	struct py_stack ps = session__py_stack(cp->s, sample->stack);
	const char *state = py_sample__state_name(py_sample__state(sample));

	chrome_event__head(cp->w, "i");
	JSONW_STR(cp->w, "s", "t");
	JSONW_STR(cp->w, "cat", "python_sample");
	JSONW_STR(cp->w, "name",
		  ps.frame_cnt                        ? frame_text(cp, ps.frames[0]) :
		  sample->flags & PTB_SAMPLE_NO_STACK ? "(stack not read)" :
							"(no Python frames)");
	JSONW_U64(cp->w, "pid", sample->tgid);
	JSONW_U64(cp->w, "tid", sample->tid);
	JSONW_US(cp->w, "ts", chrome_clock__rel(cp->clock, sample->ts_ns));
	JSONW_OBJ(cp->w, "args");
	JSONW_STR(cp->w, "ptbpf.state", state);
	JSONW_US(cp->w, "ptbpf.stands_for_us", sample->ns);
	if (sample->flags & (PTB_SAMPLE_GC | PTB_SAMPLE_MEMORY))
		JSONW_STR(cp->w, "ptbpf.doing",
			  sample->flags & PTB_SAMPLE_GC ? "garbage collection" : "memory");
	if (sample->flags & PTB_SAMPLE_OPS)
		JSONW_STR(cp->w, "ptbpf.operator", *sample->op ? sample->op : "(none)");
	chrome_python__call_stack(cp, sample->stack);
	chrome_event__end(cp->w);
}

/* In the form that torch has for TorchScript:
 * "Block_0(Block)::forward.Linear_3(Linear)::forward.". */
void chrome_python__modules(struct chrome_python *cp, uint32_t stack)
{
	struct py_stack ps = session__py_stack(cp->s, stack);
	bool any = false;

	for (uint32_t i = cp->info->has_modules ? ps.frame_cnt : 0; i--;) {
		struct py_frame f = session__py_frame(cp->s, ps.frames[i] & ~PY_FRAME_NATIVE);

		if (!f.module)
			continue;
		if (!any) {
			JSONW_KEY(cp->w, "Module Hierarchy");
			jsonw__str_begin(cp->w);
		}
		any = true;
		snprintf(cp->text, sizeof(cp->text), "%s_%u(%s)::forward.", f.module, f.module_nr,
			 f.module);
		jsonw__str_put(cp->w, cp->text, strlen(cp->text));
	}
	if (any)
		jsonw__str_end(cp->w);
}

/* Counted from the outermost. */
static uint32_t frame_at(const struct py_stack *ps, uint32_t depth)
{
	return ps->frames[ps->frame_cnt - 1 - depth];
}

static bool same_code(const struct chrome_python *cp, uint32_t a, uint32_t b)
{
	struct py_frame x = session__py_frame(cp->s, a & ~PY_FRAME_NATIVE);
	struct py_frame y = session__py_frame(cp->s, b & ~PY_FRAME_NATIVE);

	return x.code == y.code && x.func == y.func && x.first == y.first &&
	       x.module_id == y.module_id;
}

/* How many frames go on from one stack to the other. */
static uint8_t lasting_frames(const struct chrome_python *cp, uint32_t from, uint32_t to)
{
	struct py_stack a = session__py_stack(cp->s, from), b = session__py_stack(cp->s, to);
	uint32_t n = 0;

	if (from == to)
		return (uint8_t)b.frame_cnt;
	while (n < a.frame_cnt && n < b.frame_cnt && frame_at(&a, n) == frame_at(&b, n))
		n++;
	if (n < a.frame_cnt && n < b.frame_cnt && same_code(cp, frame_at(&a, n), frame_at(&b, n)))
		n++;
	return (uint8_t)n;
}

/* ---- which frames a slice lies in ---- */

/* What a span inside has, its parent has too. */
static void fold_points(struct chrome_python *cp, struct span *up, const struct span *inner)
{
	uint8_t on;

	if (inner->first == NO_POINT)
		return;
	if (up->first == NO_POINT) {
		up->first = inner->first;
		up->lasting = inner->lasting;
	} else {
		on = cp->points[inner->first].lasting;
		up->lasting = on < up->lasting ? on : up->lasting;
		up->lasting = inner->lasting < up->lasting ? inner->lasting : up->lasting;
	}
	up->last = inner->last;
}

static void add_point(struct chrome_python *cp, struct span *sp)
{
	struct point p = { .stack = sp->stack };

	if (!sp->stack)
		return;
	if (cp->point_cnt)
		p.lasting = lasting_frames(cp, cp->points[cp->point_cnt - 1].stack, sp->stack);
	sp->first = sp->last = cp->point_cnt;
	sp->lasting = (uint8_t)session__py_stack(cp->s, sp->stack).frame_cnt;
	vec_push(cp->points, cp->point_cnt, cp->point_cap, p);
}

/* Points of all spans, and which lie inside each. */
static void find_points(struct chrome_python *cp)
{
	struct span *v = cp->t->spans;
	uint32_t *up = NULL, cnt = 0, cap = 0;

	cp->point_cnt = 0;
	for (uint32_t i = 0; i <= cp->t->span_cnt; i++) {
		while (cnt && (i == cp->t->span_cnt || v[up[cnt - 1]].end <= v[i].begin)) {
			cnt--;
			if (cnt)
				fold_points(cp, &v[up[cnt - 1]], &v[up[cnt]]);
		}
		if (i == cp->t->span_cnt)
			break;
		v[i].first = v[i].last = NO_POINT;
		add_point(cp, &v[i]);
		vec_push(up, cnt, cap, i);
	}
	free(up);
}

static uint32_t lasting_at(const struct chrome_python *cp, uint32_t point)
{
	return point < cp->point_cnt ? cp->points[point].lasting : 0;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* __enter__() has returned before what it began does. */
static uint32_t without_enter(const struct chrome_python *cp, const struct py_stack *ps,
			      uint32_t cnt)
{
	static const char *const names[] = { "__enter__", "__aenter__" };

	for (uint32_t d = 0; d < cnt; d++) {
		const char *func =
			session__py_frame(cp->s, frame_at(ps, d) & ~PY_FRAME_NATIVE).func;
		const char *dot = strrchr(func, '.');

		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			if (!strcmp(dot ? dot + 1 : func, names[i]))
				return d;
	}
	return cnt;
}

/* How many of the frames at the span's first point are around it. */
static uint32_t frames_around(const struct chrome_python *cp, const struct span *sp,
			      const struct py_stack *ps)
{
	uint32_t next = lasting_at(cp, sp->last + 1), prev = lasting_at(cp, sp->first),
		 n = sp->lasting;

	if (sp->stack && !sp->annotation)
		return ps->frame_cnt;
	if (!sp->stack)
		n = smaller(n, prev > next ? prev : next);
	return without_enter(cp, ps, smaller(n, ps->frame_cnt));
}

/* ---- drawing ---- */

static bool is_frame(const struct open *o)
{
	return o->id != 0;
}

static void write_call_from(struct chrome_python *cp, uint32_t caller)
{
	struct py_frame f = session__py_frame(cp->s, caller & ~PY_FRAME_NATIVE);

	snprintf(cp->text, sizeof(cp->text), "%s:%d", py_text__file(&cp->paths, f.file), f.line);
	JSONW_STR(cp->w, "CallFrom", cp->text);
}

static void write_frame(struct chrome_python *cp, const struct open *o)
{
	struct py_frame f = session__py_frame(cp->s, o->frame & ~PY_FRAME_NATIVE);
	struct chrome_slice cs = { .cat = "python_function",
				   .name = frame_text(cp, o->frame),
				   .pid = cp->t->tgid,
				   .tid = cp->t->tid,
				   .begin = chrome_clock__rel(cp->clock, o->begin),
				   .end = chrome_clock__rel(cp->clock, o->end) };

	cp->totals.functions++;
	chrome_event__begin_slice(cp->w, &cs);
	if (o->caller)
		write_call_from(cp, o->caller);
	if (o->parent)
		JSONW_U64(cp->w, "Python parent id", o->parent);
	JSONW_U64(cp->w, "Python id", o->id);
	if (f.module)
		JSONW_U64(cp->w, "Python module id", f.module_nr);
	JSONW_U64(cp->w, "Ev Idx", EV_IDX + o->id - 1);
	JSONW_BOOL(cp->w, "ptbpf.derived", true);
	if (o->frame & PY_FRAME_NATIVE)
		JSONW_BOOL(cp->w, "ptbpf.native_caller", true);
	chrome_event__end(cp->w);
	chrome_gpu__span(cp->gpu, cp->t->tgid, cp->t->tid, o->begin, o->end);
}

/* Ends the innermost frames down to `keep` of them, all of which are above every open slice, before
 * `limit`. */
static void close_frames(struct chrome_python *cp, uint32_t keep, uint64_t limit)
{
	uint32_t cnt = cp->frame_cnt - keep;
	uint64_t step = limit > cp->now ? (limit - cp->now) / (cnt + 1) : 0, end = cp->now;

	if (step > GAP_NS)
		step = GAP_NS;
	while (cp->frame_cnt > keep) {
		struct open *o = &cp->open[--cp->open_cnt];

		cp->frame_cnt--;
		end += step;
		o->end = end;
		write_frame(cp, o);
	}
	cp->alive = smaller(cp->alive, keep);
	cp->now = end;
}

/* Ends the open slices that are over at `at`, each with the frames inside it. */
static void close_spans(struct chrome_python *cp, uint64_t at)
{
	uint32_t i;

	while (true) {
		for (i = cp->open_cnt; i && is_frame(&cp->open[i - 1]); i--)
			;
		cp->base = cp->frame_cnt - (cp->open_cnt - i);
		if (!i || cp->open[i - 1].end > at)
			break;
		close_frames(cp, cp->base, cp->open[i - 1].end - GAP_NS);
		cp->now = cp->open[--cp->open_cnt].end;
	}
}

/* Id of the innermost open frame, 0: none. */
static uint64_t innermost_frame(const struct chrome_python *cp)
{
	const struct open *top = cp->open_cnt ? &cp->open[cp->open_cnt - 1] : NULL;

	return !top ? 0 : is_frame(top) ? top->id : top->parent;
}

/* Begins the stack's frames from the open ones on up to `cnt`, before `at`; as many as there is
 * room for. */
static void open_frames(struct chrome_python *cp, const struct py_stack *ps, uint32_t cnt,
			uint64_t at)
{
	uint64_t room = at > cp->now + GAP_NS ? (at - cp->now) / GAP_NS - 1 : 0;
	uint32_t first = cp->frame_cnt, last = cnt - first <= room ? cnt : first + (uint32_t)room;

	if (last < cnt)
		cp->totals.not_drawn += cnt - last;
	for (uint32_t d = first; d < last; d++) {
		struct open o = { .begin = at - (uint64_t)GAP_NS * (last - d),
				  .id = ++cp->next_id,
				  .parent = innermost_frame(cp),
				  .frame = frame_at(ps, d),
				  .caller = d ? frame_at(ps, d - 1) : 0 };

		cp->frame_cnt++;
		vec_push(cp->open, cp->open_cnt, cp->open_cap, o);
	}
	cp->alive = cp->frame_cnt;
}

static void draw_span(struct chrome_python *cp, const struct span *sp, uint32_t *passed)
{
	struct open now = { .begin = sp->begin, .end = sp->end };
	struct py_stack ps = { 0 };
	uint32_t keep, around;

	close_spans(cp, sp->begin);
	around = cp->base;
	if (sp->first != NO_POINT) {
		for (; *passed <= sp->first; ++*passed)
			cp->alive = smaller(cp->alive, cp->points[*passed].lasting);
		ps = session__py_stack(cp->s, cp->points[sp->first].stack);
		around = frames_around(cp, sp, &ps);
	} else if (lasting_at(cp, *passed) > cp->base) {
		around = lasting_at(cp, *passed);
	}
	keep = smaller(cp->alive, around);
	/* another stack, though a slice of this one is open: of a coroutine, say */
	if (keep < cp->base) {
		cp->totals.not_drawn += sp->first != NO_POINT ? around - keep : 0;
		cp->alive = 0;
		keep = around = cp->base;
	}
	if (cp->frame_cnt > keep)
		close_frames(cp, keep, sp->begin / 2 + cp->now / 2);
	if (sp->first != NO_POINT && around > cp->base)
		open_frames(cp, &ps, around, sp->begin);
	cp->now = sp->begin;
	now.parent = innermost_frame(cp);
	vec_push(cp->open, cp->open_cnt, cp->open_cap, now);
}

/* ---- threads ---- */

void chrome_python__slice(struct chrome_python *cp, const struct slice *sl)
{
	struct py_thread *t;

	if (!cp->info->has_py_stacks)
		return;
	t = list__keyed(KEYED_LIST(cp, threads, thread), sl->tgid, sl->tid);
	t->tgid = sl->tgid;
	t->tid = sl->tid;
	vec_push(t->spans, t->span_cnt, t->span_cap,
		 (struct span){ .begin = sl->begin_ns,
				.end = sl->end_ns,
				/* of this thread */
				.stack = sl->stack != sl->fwd_stack ? sl->stack : 0,
				.annotation = sl->cat == SLICE_USER_ANNOTATION });
}

/* Outer ones first. */
static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->begin != y->begin ? sort__cmp(x->begin, y->begin) : sort__cmp(y->end, x->end);
}

static void draw_thread(struct chrome_python *cp, struct py_thread *t)
{
	uint32_t passed = 0;

	sort__array(t->spans, t->span_cnt, sizeof(*t->spans), by_begin);
	cp->t = t;
	cp->open_cnt = cp->frame_cnt = cp->base = cp->alive = 0;
	cp->now = cp->info->begin_ns;
	find_points(cp);
	for (uint32_t i = 0; i < t->span_cnt && cp->point_cnt; i++)
		draw_span(cp, &t->spans[i], &passed);
	close_spans(cp, UINT64_MAX);
	close_frames(cp, 0, cp->info->end_ns);
	free(t->spans);
	t->spans = NULL;
	t->span_cnt = t->span_cap = 0;
}

void chrome_python__finish(struct chrome_python *cp)
{
	for (uint32_t i = 0; i < cp->thread_cnt && !cp->done; i++)
		draw_thread(cp, &cp->threads[i]);
	cp->done = true;
}
