/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What operators did, as a tree of calls: Python's frames from the outermost on, then the operators
 * in one another. A sink of one session after another, whose sums stand side by side. Knows no
 * output.
 */
#ifndef EXPORT_STACK_TREE_H
#define EXPORT_STACK_TREE_H

#include <stddef.h>
#include <stdio.h>

#include "export/texts.h"
#include "model/session.h"

/* What is summed up: an id for options, a name for people, a unit. */
/* clang-format off */
#define STACK_METRICS(X)                                                             \
	X(CPU,         cpu_time,              "CPU time",              "ns")         \
	X(GPU,         gpu_time,              "GPU time",              "ns")         \
	X(CALLS,       calls,                 "calls",                 "")           \
	X(CPU_ALLOC,   cpu_memory_allocated,  "CPU memory allocated",  "bytes")      \
	X(CPU_LIVE,    cpu_memory_live,       "CPU memory never freed", "bytes")     \
	X(GPU_ALLOC,   cuda_memory_allocated, "GPU memory allocated",  "bytes")      \
	X(GPU_LIVE,    cuda_memory_live,      "GPU memory never freed", "bytes")     \
	X(FAULTS,      page_faults,           "page faults",           "")           \
	X(FAULT_BYTES, page_fault_bytes,      "memory brought in by page faults", "bytes") \
	X(RUNNING,     sampled_cpu_time,      "sampled time on a CPU", "ns")         \
	X(WAITING,     sampled_wait_time,     "sampled time not running", "ns")       \
	X(WAIT_CPU,    cpu_wait_time,         "time waiting for a CPU", "ns")        \
	X(WAIT_GIL,    gil_wait_time,         "time waiting for the GIL", "ns")      \
	X(WAIT_LOCK,   lock_wait_time,        "time waiting for locks", "ns")        \
	X(WAIT_IO,     io_wait_time,          "time waiting for I/O",  "ns")         \
	X(WAIT_OTHER,  other_wait_time,       "time of other waits",   "ns")
/* clang-format on */

enum stack_metric {
#define X(id, key, name, unit) STACK_##id,
	STACK_METRICS(X)
#undef X
		STACK_METRIC_CNT
};

enum stack_kind {
	STACK_PYTHON,
	STACK_LIBRARY,  /* Python's own code, and installed one: py_text__is_library() */
	STACK_OPERATOR, /* or a kernel that no operator launched */
	STACK_ANNOTATION,
	STACK_GROUP,  /* a process, or those without Python's frames */
	STACK_KERNEL, /* GPU work, with stack_tree__add_kernels() */
	STACK_KIND_CNT
};

/* Ids of texts: stack_tree__text(). Those of two sessions are the same where the texts are. */
struct stack_frame {
	/* of Python: the qualified name, and the file as py_text__file() has it */
	uint32_t kind, name, file;
	uint32_t module; /* the call of a module: "nn.Module: Linear_0"; 0: it is none */
	/* of a module whose attribute path is known: that, and for people with its class */
	uint32_t path, shown; /* both 0: of the outermost one */
	bool has_path;
	int32_t line, first; /* of the instruction, of the def; 0: none */
};
static inline bool stack_frame__is_python(const struct stack_frame *f)
{
	return f->kind <= STACK_LIBRARY;
}

struct stack_node {
	uint32_t parent, frame; /* indices; a parent is before its children. [0]: the root */
	uint32_t python; /* the innermost Python frame up from here, itself included; 0: none */
	int64_t self[2][STACK_METRIC_CNT]; /* of each session, without what is below */
};

/* Times and sizes are those of a file, which need not fit: the sum ends at the largest number. */
static inline void stack_sum__add(int64_t *sum, int64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = v < 0 ? INT64_MIN : INT64_MAX;
}

struct stack_tree;
struct stack_tree *stack_tree__new(void);
void stack_tree__free(struct stack_tree *st);
/* The next session's (of two) sink. */
void stack_tree__begin(struct stack_tree *st, const struct session *s);
/* Every sample is below an operator: one that is in none, or not known to be, below a group that
 * says so. Before the sink is used. */
#define STACK_OP_NONE "(none)"
#define STACK_OP_UNKNOWN "(not known)"
void stack_tree__group_by_operator(struct stack_tree *st);
/* What GPU work launched by an operator takes is in a node of its own below the operator's. Before
 * the sink is used. */
void stack_tree__add_kernels(struct stack_tree *st);
/* One addition to a node's self, as it is made. */
struct stack_charge {
	uint32_t node, tgid, tid; /* tid 0: not known */
	enum stack_metric metric;
	int64_t v;
};
typedef void (*stack_watch)(void *arg, const struct stack_charge *c);
void stack_tree__watch(struct stack_tree *st, stack_watch watch, void *arg);
struct session_sink stack_tree__sink(struct stack_tree *st);

/* The node of a Python stack of the session: its innermost frame. */
uint32_t stack_tree__node(struct stack_tree *st, uint32_t tgid, uint32_t stack);
const struct stack_node *stack_tree__nodes(const struct stack_tree *st, uint32_t *cnt);
const struct stack_frame *stack_tree__frames(const struct stack_tree *st, uint32_t *cnt);
const char *stack_tree__text(const struct stack_tree *st, uint32_t id);
uint32_t stack_tree__text_cnt(const struct stack_tree *st);
/* The text's id, of what people call the frame. */
static inline uint32_t stack_frame__shown(const struct stack_frame *f)
{
	return f->shown ? f->shown : f->module ? f->module : f->name;
}
/* "[operator]": in the place of a file, of what has none, and as the library of a frame. */
const char *stack_kind__name(enum stack_kind kind);
/* Were there more than LIMIT_STACK_NODES? Then nodes have sums of what is missing below them. */
bool stack_tree__is_cut(const struct stack_tree *st);
/* Was anything of the kind recorded? */
bool stack_metric__recorded(const struct session_info *info, enum stack_metric metric);

/*
 * Members of an object: the data of html/flamegraph.js. least: nodes with a smaller share of every
 * metric are a part of their caller; it is raised until there are at most `max` nodes; 0: all are
 * written. Returns what it was.
 */
struct jsonw;
double flame_data__put(struct jsonw *w, const struct stack_tree *st, uint32_t sessions,
		       double least, uint32_t max);

/* Pages that load nothing: templates of export/html, whose {{fields}} C fills in, and the escaping
 * of foreign texts. */

/* Writes the field with this name (not terminated). */
typedef void (*html_field)(void *arg, FILE *f, const char *name, size_t len);

/* Writes a template: {{name}} stands for a field. */
void html__put_template(FILE *f, const char *text, html_field put, void *arg);
/*
 * A text of the capture: nothing in it is markup, a byte that is no UTF-8 is shown as the character
 * of its number, and what is not plain text as U+FFFD.
 */
void html__put_text(FILE *f, const char *text);
/* Whose page it is: "python train.py (4242)", "... and 2 more"; where and when: "on HOST, DATE,
 * 4.01 s". tgid: of this process; 0: of all. */
void html__put_process(FILE *f, const struct session *s, uint32_t tgid);
void html__put_when(FILE *f, const struct session *s, uint32_t tgid);
/* The style that all pages share. */
extern const char html_style[];
/* A jsonw_out into the stream (arg) for JSON inside <script>: nothing in it ends that. */
int html__put_json(void *arg, const void *data, size_t len);

#endif /* EXPORT_STACK_TREE_H */
