/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Folded stacks, as EventList.export_stacks() in pytorch torch/autograd/profiler_util.py writes
 * them: of torch's metrics one line for each event with a stack and at least 1 us, in order of
 * begin; of the others, which are ptbpf's, one for each stack with its sum.
 */
#define LOG_DOMAIN "stacks"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "export/output.h"
#include "export/stack_tree.h"
#include "export/texts.h"
#include "model/key_averages.h"

struct stacks_event {
	uint64_t begin_ns, end_ns;
	uint64_t us; /* 0: taken back */
	uint32_t stack;
};

struct stacks {
	const struct session *s;
	struct out_file *of;
	FILE *f;
	bool device; /* of torch's metrics: the time of devices */
	struct py_paths paths;
	struct strtab *texts;    /* of frames, as they are written */
	struct hashmap text_ids; /* number of a frame -> its text, 0: left out */
	struct key_averages *ka; /* a metric of torch's: its events */
	struct stacks_event *events;
	uint32_t event_cnt, event_cap;
	struct stack_tree *tree; /* any other metric */
	enum stack_metric metric;
};

/* ---- torch's metrics ---- */

static void keep_event(void *arg, const struct ka_event *ev, uint64_t *nr)
{
	struct stacks *st = arg;
	const struct stacks_event e = { .begin_ns = ev->sl->begin_ns,
					.end_ns = ev->sl->end_ns,
					.us = (st->device ? ev->self_device_ns : ev->self_cpu_ns) /
					      1000,
					.stack = slice__torch_stack(ev->sl) };

	*nr = 0;
	if (!e.stack || !e.us)
		return;
	*nr = (uint64_t)st->event_cnt + 1;
	vec_push(st->events, st->event_cnt, st->event_cap, e);
}

static void take_event_back(void *arg, uint64_t nr)
{
	struct stacks *st = arg;

	if (nr)
		st->events[nr - 1].us = 0;
}

static int cmp_events(const void *pa, const void *pb)
{
	const struct stacks_event *a = pa, *b = pb;

	return a->begin_ns != b->begin_ns ? sort__cmp(a->begin_ns, b->begin_ns) :
					    sort__cmp(b->end_ns, a->end_ns);
}

/* ---- lines ---- */

/* As torch names it: by its number in the session, or of a tree its index. */
static void name_frame(const struct stacks *st, uint32_t number, char text[PY_TEXT_MAX])
{
	const struct stack_frame *frames = NULL;
	struct py_frame frame;
	uint32_t cnt;

	if (!st->tree) {
		frame = session__py_frame(st->s, number);
	} else {
		frames = stack_tree__frames(st->tree, &cnt);
		frame = (struct py_frame){ .func = stack_tree__text(st->tree, frames[number].name),
					   .file = stack_tree__text(st->tree, frames[number].file),
					   .first = frames[number].first };
	}
	if (frames && frames[number].kind == STACK_OPERATOR)
		snprintf(text, PY_TEXT_MAX, "%s", stack_tree__text(st->tree, frames[number].name));
	else if (frames && frames[number].module)
		snprintf(text, PY_TEXT_MAX, "%s",
			 stack_tree__text(st->tree, frames[number].module));
	else
		py_text__torch(&st->paths, &frame, text, PY_TEXT_MAX);
}

/* Blanks and what separates frames, as torch does; also what could steer a terminal, and bytes that
 * are no UTF-8. */
static void fold_text(char *text)
{
	const char *p = text, *end = text + strlen(text);
	char *to = text;
	uint32_t c;

	while (p < end) {
		size_t len = utf8__decode(p, end, &c);

		if (!len || !term_char__plain(c) || c == ' ' || c == ';') {
			*to++ = '_';
			p += len ? len : 1;
			continue;
		}
		memmove(to, p, len);
		to += len;
		p += len;
	}
	*to = '\0';
}

/* The frame's text as export_stacks() writes it; NULL: torch leaves such frames out. */
static const char *folded_frame(struct stacks *st, uint32_t number)
{
	uint64_t *known = hashmap__get(&st->text_ids, number, 0);
	char text[PY_TEXT_MAX];
	uint32_t id = 0;

	if (known)
		return *known ? strtab__text(st->texts, (uint32_t)*known) : NULL;
	name_frame(st, number, text);
	if (!py_text__is_dropped(text)) {
		fold_text(text);
		id = strtab__add(st->texts, text, strlen(text));
	}
	hashmap__put(&st->text_ids, number, 0, id);
	return id ? strtab__text(st->texts, id) : NULL;
}

/* Innermost first. */
static void put_line(struct stacks *st, const uint32_t *frames, uint32_t cnt, uint64_t value)
{
	const char *text;
	bool any = false;

	while (cnt--) {
		text = folded_frame(st, frames[cnt] & ~PY_FRAME_NATIVE);
		if (!text)
			continue;
		fprintf(st->f, "%s%s", any ? ";" : "", text);
		any = true;
	}
	if (any)
		fprintf(st->f, " %" PRIu64 "\n", value);
}

static void put_events(struct stacks *st)
{
	sort__array(st->events, st->event_cnt, sizeof(*st->events), cmp_events);
	for (uint32_t i = 0; i < st->event_cnt; i++) {
		struct py_stack stack = session__py_stack(st->s, st->events[i].stack);

		if (st->events[i].us)
			put_line(st, stack.frames, stack.frame_cnt, st->events[i].us);
	}
}

/* What a node's sum is written as: the innermost Python frame above it; of samples the operator
 * that was open. */
static uint32_t leaf_of(const struct stacks *st, const struct stack_node *nodes, uint32_t i)
{
	uint32_t cnt;
	const struct stack_frame *frames = stack_tree__frames(st->tree, &cnt);

	return st->metric >= STACK_RUNNING && frames[nodes[i].frame].kind == STACK_OPERATOR ?
		       i :
		       nodes[i].python;
}

/* The sums of a tree's nodes. */
static void put_sums(struct stacks *st)
{
	uint32_t cnt, frames[PTB_PY_FRAMES_MAX + 1];
	const struct stack_node *nodes = stack_tree__nodes(st->tree, &cnt);
	int64_t *sums = xcalloc(cnt, sizeof(*sums));
	/* us, as torch */
	uint64_t unit = st->metric == STACK_RUNNING || st->metric == STACK_WAITING ? 1000 : 1;

	for (uint32_t i = 0; i < cnt; i++)
		stack_sum__add(&sums[leaf_of(st, nodes, i)], nodes[i].self[0][st->metric]);
	for (uint32_t i = 1; i < cnt; i++) {
		uint32_t depth = 0;

		for (uint32_t n = i; sums[i] > 0 && nodes[n].python && depth <= PTB_PY_FRAMES_MAX;
		     n = nodes[n].parent)
			frames[depth++] = nodes[n].frame;
		if (depth)
			put_line(st, frames, depth, (uint64_t)sums[i] / unit);
	}
	free(sums);
}

/* ---- open, finish ---- */

static bool tree_metric(const char *name, enum stack_metric *metric)
{
	static const char *const keys[] = {
#define X(id, key, name, unit) #key,
		STACK_METRICS(X)
#undef X
	};

	for (uint32_t i = 0; i < STACK_METRIC_CNT; i++) {
		if (strcmp(keys[i], name) != 0)
			continue;
		*metric = (enum stack_metric)i;
		return true;
	}
	return false;
}

static int choose_metric(struct stacks *st, const struct output_args *args)
{
	struct ka_opts opts = { .event = keep_event,
				.take_back = take_event_back,
				.event_arg = st };
	const char *metric = args->metric                    ? args->metric :
			     session__info(st->s)->sample_hz ? "sampled_cpu_time" :
							       "self_cpu_time_total";

	if (tree_metric(metric, &st->metric)) {
		if (!stack_metric__recorded(session__info(st->s), st->metric)) {
			pr_error("cannot write '%s': %s was not recorded", args->path, metric);
			return -ENODATA;
		}
		st->tree = stack_tree__new();
		stack_tree__begin(st->tree, st->s);
		return 0;
	}
	st->device = strcmp(metric, "self_cpu_time_total") != 0;
	st->ka = key_averages__new(&opts);
	return 0;
}

static struct session_sink stacks_sink(void *o)
{
	struct stacks *st = o;

	return st->tree ? stack_tree__sink(st->tree) : key_averages__sink(st->ka);
}

static int finish_stacks(void *o, const struct output_args *args)
{
	struct stacks *st = o;

	(void)args;
	st->f = out_file__stream(st->of);
	if (st->tree)
		put_sums(st);
	else
		put_events(st);
	return out_file__end_stream(st->of, st->f);
}

static void free_stacks(void *o)
{
	struct stacks *st = o;

	if (!st)
		return;
	out_file__free(st->of);
	key_averages__free(st->ka);
	stack_tree__free(st->tree);
	strtab__free(st->texts);
	hashmap__clear(&st->text_ids);
	free(st->events);
	free(st);
}

static int open_stacks(const struct output_args *args, void **out)
{
	struct stacks *st = xcalloc(1, sizeof(*st));
	int err;

	st->s = args->s;
	st->texts = strtab__new();
	py_paths__find(&st->paths, args->s);
	err = choose_metric(st, args);
	if (!err)
		out_file__open(args, &st->of);
	if (err)
		free_stacks(st);
	else
		*out = st;
	return err;
}

const struct output stacks_output = {
	.title = "stacks",
	.viewer = "flamegraph.pl, speedscope",
	.needs = NEEDS_STACKS,
	.open = open_stacks,
	.sink = stacks_sink,
	.finish = finish_stacks,
	.free = free_stacks,
};
