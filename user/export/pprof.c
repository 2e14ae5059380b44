/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Profiles of pprof: github.com/google/pprof proto/profile.proto, gzip. The tree of calls with a
 * value for each figure that was recorded, apart for each thread. What a frame is stands in the
 * place of its library ("[operator]"), which pprof calls a mapping.
 */
#define LOG_DOMAIN "pprof"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"
#include "base/text.h"
#include "capture/capture.h"
#include "export/facts_json.h"
#include "export/output.h"
#include "export/pb.h"
#include "export/stack_tree.h"

/* Adds the part as a message of its own, and empties it. */
static void put_part(struct pb *m, uint32_t field, struct pb *part)
{
	pb__bytes(m, field, part->p, part->len);
	part->len = 0;
}

/* ---- the profile ---- */

/* clang-format off */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION,
       PROFILE_STRING, PROFILE_TIME = 9, PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD,
       PROFILE_COMMENT, PROFILE_DEFAULT_TYPE };
enum { TYPE_NAME = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_TEXT, LABEL_NUMBER };
enum { MAPPING_ID = 1, MAPPING_FILE = 5, MAPPING_HAS_FUNCTIONS = 7, MAPPING_HAS_FILES,
       MAPPING_HAS_LINES };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_NUMBER };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_FILE = 4, FUNCTION_LINE };
/* clang-format on */

struct pprof_row { /* what a thread did in a node */
	uint32_t node, tgid, tid;
	int64_t sums[STACK_METRIC_CNT];
};

struct pprof_function {
	uint32_t name, file;
	int32_t line;
};

struct pprof {
	const struct session *s;
	const struct session_info *info;
	struct out_file *of;
	uint32_t tgid; /* of this process; 0: of all */
	struct stack_tree *tree;
	struct pprof_row *rows;
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids;
	bool metrics[STACK_METRIC_CNT]; /* that anything has */
	uint32_t default_type;          /* name of the first of them: readers would take the last */
	struct strtab *strings;
	struct pprof_function *functions;
	uint32_t function_cnt, function_cap;
	struct hashmap function_ids;
};

static const struct {
	const char *key, *unit;
} metrics[] = {
#define X(id, key, name, unit) { #key, unit },
	STACK_METRICS(X)
#undef X
};

static void keep_charge(void *arg, const struct stack_charge *c)
{
	struct pprof *pp = arg;
	struct pprof_row *r;

	if (pp->tgid && c->tgid != pp->tgid)
		return;
	r = list__keyed(KEYED_LIST(pp, rows, row), (uint64_t)c->tgid << 32 | c->tid, c->node);
	r->node = c->node;
	r->tgid = c->tgid;
	r->tid = c->tid;
	stack_sum__add(&r->sums[c->metric], c->v);
	pp->metrics[c->metric] = true;
}

/* A text of the capture, whose index in the string table is its id: readers print it as it is. */
static uint32_t string_id(struct pprof *pp, const char *text)
{
	char plain[PY_TEXT_MAX];

	term_text__copy(plain, sizeof(plain), text);
	return *plain ? strtab__add(pp->strings, plain, strlen(plain)) : 0;
}

/* The parts of the file are written as they are made. */
static void write_part(struct pprof *pp, uint32_t field, struct pb *part)
{
	struct pb m = { 0 };

	put_part(&m, field, part);
	out_file__write(pp->of, m.p, m.len);
	free(m.p);
}

static void fill_type(struct pprof *pp, struct pb *m, const char *name, const char *unit)
{
	pb__u64(m, TYPE_NAME, string_id(pp, name));
	pb__u64(m, TYPE_UNIT,
		string_id(pp, !strcmp(unit, "ns") ? "nanoseconds" :
			      *unit               ? unit :
						    "count"));
}

static void write_types(struct pprof *pp, struct pb *m)
{
	bool any = false;

	for (uint32_t i = 0; i < STACK_METRIC_CNT; i++)
		any |= pp->metrics[i];
	pp->metrics[pp->info->sample_hz ? STACK_RUNNING : STACK_CPU] |= !any;
	for (uint32_t i = 0; i < STACK_METRIC_CNT; i++) {
		if (!pp->metrics[i])
			continue;
		if (!pp->default_type)
			pp->default_type = string_id(pp, metrics[i].key);
		fill_type(pp, m, metrics[i].key, metrics[i].unit);
		write_part(pp, PROFILE_SAMPLE_TYPE, m);
	}
	if (pp->info->sample_hz) {
		fill_type(pp, m, metrics[STACK_RUNNING].key, "ns");
		write_part(pp, PROFILE_PERIOD_TYPE, m);
	}
}

static void put_label(struct pprof *pp, struct pb *m, const char *key, const char *text,
		      uint64_t number)
{
	struct pb label = { 0 };

	pb__u64(&label, LABEL_KEY, string_id(pp, key));
	pb__u64(&label, text ? LABEL_TEXT : LABEL_NUMBER, text ? string_id(pp, text) : number);
	put_part(m, SAMPLE_LABEL, &label);
	free(label.p);
}

static bool is_nothing(const struct pprof_row *r)
{
	for (uint32_t i = 0; i < STACK_METRIC_CNT; i++)
		if (r->sums[i])
			return false; /* memory that was freed adds up to nothing */
	return true;
}

/* Locations are the frames of the tree, innermost first. */
static void write_row(struct pprof *pp, struct pb *m, const struct pprof_row *r)
{
	uint32_t cnt;
	const struct stack_node *nodes = stack_tree__nodes(pp->tree, &cnt);

	for (uint32_t n = r->node; n; n = nodes[n].parent)
		pb__u64(m, SAMPLE_LOCATIONS, nodes[n].frame);
	for (uint32_t i = 0; i < STACK_METRIC_CNT; i++)
		if (pp->metrics[i])
			pb__u64(m, SAMPLE_VALUES, (uint64_t)r->sums[i]);
	put_label(pp, m, "pid", NULL, r->tgid);
	if (r->tid) {
		put_label(pp, m, "tid", NULL, r->tid);
		put_label(pp, m, "thread", session__thread_label(pp->s, r->tgid, r->tid), 0);
	}
	write_part(pp, PROFILE_SAMPLE, m);
}

static uint64_t function_id(struct pprof *pp, const struct stack_frame *f)
{
	const char *file = stack_tree__text(pp->tree, f->file);
	struct pprof_function fn = {
		.name = string_id(pp, stack_tree__text(pp->tree, stack_frame__shown(f))),
		.file = string_id(pp, *file ? file : stack_kind__name(f->kind)),
		.line = f->first,
	};
	struct pprof_function *known = list__keyed(KEYED_LIST(pp, functions, function),
						   (uint64_t)fn.name << 32 | fn.file,
						   (uint64_t)f->kind << 32 | (uint32_t)fn.line);

	*known = fn;
	return (uint64_t)(known - pp->functions) + 1;
}

static void write_locations(struct pprof *pp, struct pb *m)
{
	uint32_t cnt;
	const struct stack_frame *frames = stack_tree__frames(pp->tree, &cnt);
	struct pb line = { 0 };

	for (uint32_t i = 1; i < cnt; i++) { /* 0: that of the root */
		pb__u64(&line, LINE_FUNCTION, function_id(pp, &frames[i]));
		pb__u64(&line, LINE_NUMBER, (uint64_t)frames[i].line);
		pb__u64(m, LOCATION_ID, i);
		pb__u64(m, LOCATION_MAPPING, frames[i].kind + 1);
		put_part(m, LOCATION_LINE, &line);
		write_part(pp, PROFILE_LOCATION, m);
	}
	free(line.p);
}

/* Without a system_name: one that is equal to the name makes pprof cut "<module>" and the arguments
 * of templates off. */
static void write_functions(struct pprof *pp, struct pb *m)
{
	for (uint32_t i = 0; i < pp->function_cnt; i++) {
		pb__u64(m, FUNCTION_ID, i + 1);
		pb__u64(m, FUNCTION_NAME, pp->functions[i].name);
		pb__u64(m, FUNCTION_FILE, pp->functions[i].file);
		pb__u64(m, FUNCTION_LINE, (uint64_t)pp->functions[i].line);
		write_part(pp, PROFILE_FUNCTION, m);
	}
}

static void write_mappings(struct pprof *pp, struct pb *m)
{
	for (uint32_t kind = 0; kind < STACK_KIND_CNT; kind++) {
		pb__u64(m, MAPPING_ID, kind + 1);
		pb__u64(m, MAPPING_FILE, string_id(pp, stack_kind__name(kind)));
		for (uint32_t has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_LINES; has++)
			pb__u64(m, has, 1);
		write_part(pp, PROFILE_MAPPING, m);
	}
}

static void write_facts(struct pprof *pp, struct pb *m, const struct output_args *args)
{
	char lacks[1024], text[1200];

	pb__u64(m, PROFILE_TIME, pp->info->begin_ns + (uint64_t)pp->info->mono_to_unix_ns);
	pb__u64(m, PROFILE_DURATION, pp->info->end_ns - pp->info->begin_ns);
	if (pp->info->sample_hz)
		pb__u64(m, PROFILE_PERIOD, 1000000000 / pp->info->sample_hz);
	pb__u64(m, PROFILE_DEFAULT_TYPE, pp->default_type);
	pb__u64(m, PROFILE_COMMENT, string_id(pp, "ptbpf " PTBPF_VERSION));
	if (loss_account__incomplete(pp->info, args->totals, lacks, sizeof(lacks))) {
		snprintf(text, sizeof(text), "incomplete: %s", lacks);
		pb__u64(m, PROFILE_COMMENT, string_id(pp, text));
	}
	if (stack_tree__is_cut(pp->tree))
		pb__u64(m, PROFILE_COMMENT,
			string_id(pp, "too large: callers have what is missing below them"));
	out_file__write(pp->of, m->p, m->len);
	m->len = 0;
}

static void write_strings(struct pprof *pp, struct pb *m)
{
	for (uint32_t i = 0; i <= strtab__cnt(pp->strings); i++) {
		const char *text = strtab__text(pp->strings, i);

		pb__bytes(m, PROFILE_STRING, text, strlen(text));
		out_file__write(pp->of, m->p, m->len);
		m->len = 0;
	}
}

/* ---- interface ---- */

static struct session_sink pprof_sink(void *o)
{
	return stack_tree__sink(((struct pprof *)o)->tree);
}

static int finish_pprof(void *o, const struct output_args *args)
{
	struct pprof *pp = o;
	struct pb m = { 0 };

	write_types(pp, &m);
	for (uint32_t i = 0; i < pp->row_cnt; i++)
		if (!is_nothing(&pp->rows[i]))
			write_row(pp, &m, &pp->rows[i]);
	write_mappings(pp, &m);
	write_locations(pp, &m);
	write_functions(pp, &m);
	write_facts(pp, &m, args);
	write_strings(pp, &m);
	free(m.p);
	return out_file__end(pp->of);
}

static void free_pprof(void *o)
{
	struct pprof *pp = o;

	if (!pp)
		return;
	out_file__free(pp->of);
	stack_tree__free(pp->tree);
	strtab__free(pp->strings);
	hashmap__clear(&pp->row_ids);
	hashmap__clear(&pp->function_ids);
	free(pp->rows);
	free(pp->functions);
	free(pp);
}

static int open_pprof(const struct output_args *args, void **out)
{
	struct pprof *pp = xcalloc(1, sizeof(*pp));
	int err = args->tgid ? output__choose_process(args, &pp->tgid) : 0;

	pp->s = args->s;
	pp->info = session__info(args->s);
	pp->strings = strtab__new();
	pp->tree = stack_tree__new();
	stack_tree__begin(pp->tree, args->s);
	stack_tree__add_kernels(pp->tree);
	stack_tree__watch(pp->tree, keep_charge, pp);
	if (!err)
		out_file__open(args, &pp->of);
	if (err)
		free_pprof(pp);
	else
		*out = pp;
	return err;
}

const struct output pprof_output = {
	.title = "profile",
	.viewer = "go tool pprof, Pyroscope, speedscope",
	.open = open_pprof,
	.sink = pprof_sink,
	.finish = finish_pprof,
	.free = free_pprof,
};
