/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Private to `why`. What is seen of each thread is given to rules, one file each, which keep what
 * they need of it. At the end one thread is judged: the rules say what their cause costs it.
 */
#ifndef WHY_WHY_PRIV_H
#define WHY_WHY_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "export/texts.h"
#include "ptb_event.h"
#include "report/report.h"
#include "why/why.h"

/* ---- thresholds; docs/why.md has them for users ---- */

/* Shares are of all whole steps, or of the window where there are none. A cause that costs less is
 * not worth a change of a program. */
#define WHY_SHARE_MIN 0.05
#define WHY_CAUSES_SHOWN 3 /* after the third one the next measurement is worth more */
/* What makes a step half as long again without it; what a step is a sixth longer by. */
#define WHY_SEVERE 0.3
#define WHY_MEDIUM 0.15
/* What is not known is said from here on. */
#define WHY_UNEXPLAINED 0.1
/* A loader in the main thread takes some time of every step: below this, workers gain little. */
#define WHY_LOADER_SHARE 0.1
/* A wait so much longer than the median is no wait for a worker that is a little late, */
#define WHY_FIRST_BATCH 10
/* and such waits are the cause where they are this share of all waiting. */
#define WHY_FIRST_SHARE 0.5
/* As torch.profiler's pattern of loops: the same operators so often, one after the other. */
#define WHY_LOOP_REPEATS 10
/* Operators of a loop that take longer on average do work, and the loop costs little. */
#define WHY_LOOP_OP_NS 20000
/* Every thread waits for a CPU now and then. */
#define WHY_CPU_QUEUE_SHARE 0.15
/* Operators that take so long are worth several threads, on one of them there is some work of
 * pools, and so much of a CPU was idle all the time. */
#define WHY_ONE_CORE_OP_NS 5000000
#define WHY_ONE_CORE_USED 1.2
#define WHY_ONE_CORE_IDLE 0.5
/* A loop over layers is no loop of many small operators. */
#define WHY_DISPATCH_REPEATS 50
/* Python between operators takes so much of a healthy step of a small model, */
#define WHY_PYTHON_SHARE 0.4
/* and dispatch is not what a step with longer operators, or with fewer, waits for. */
#define WHY_PYTHON_OP_NS 30000
#define WHY_PYTHON_OPS 100
/* Checkpoints leave operators of the backward pass without a graph; create_graph=True does not. */
#define WHY_PLAIN_BACKWARD 0.5
/* An optimizer for each parameter: so many operators a step, that take so little. */
#define WHY_OPTIMIZER_SHARE 0.1
#define WHY_OPTIMIZER_OPS 50
#define WHY_OPTIMIZER_OP_NS 30000
/* Memory that grows costs no time until it is gone; it stands as if it had this share. */
#define WHY_GROWTH_WEIGHT 0.3

/* ---- what is seen ---- */

struct why;
struct why_loop;
struct why_thread;
struct why_seen;

/*
 * A time and a number, of a thread's whole steps: what is added in a step that turns out to be a
 * part of one is left out. Without any step all of the window counts, as it does for what is known
 * throughout the window where operators are not: then this is what steps have on average.
 */
struct why_amount {
	uint64_t ns, cnt, all_ns, all_cnt, now_ns, now_cnt;
	uint32_t step;   /* to which now_* belongs */
	bool throughout; /* of the window, with the part in which operators were not recorded */
};
void why_amount__add(const struct why_seen *seen, struct why_amount *a, uint64_t ns, uint64_t cnt);
/* Of what was added; at the end. */
uint64_t why_amount__ns(const struct why_thread *t, struct why_amount *a);
uint64_t why_amount__cnt(const struct why_thread *t, struct why_amount *a);

/* What it waited for, by the class that it was in; the last one: in none. */
struct why_waits {
	struct why_amount of[TIME_CLASSES + 1][PTB_WAIT_CNT];
};

struct why_thread {
	uint32_t tgid, tid;
	uint64_t probed_until; /* after that it has no operators */
	double steps_share;    /* of the window, that whole steps have */
	uint8_t *whole;        /* of each step that has ended: was it whole? */
	uint32_t step_cnt, step_cap, whole_cnt;
	void *states[32]; /* by rule; NULL: none yet */
	struct loop_level *levels;
	uint32_t level_cnt, level_cap;
	struct why_later *later;                /* NULL: operators are recorded all the time */
	struct why_waits *waits;                /* --sched; NULL: none */
	uint64_t gpu_wait_ns[TIME_CLASSES + 1]; /* by what waited; last: nothing that has a class */
};

struct why_seen {
	struct why *w;
	struct why_thread *t;
	const struct slice *sl;       /* NULL: it is something else */
	const struct time_within *in; /* what lies in it */
	bool throughout;              /* as that of amounts */
	uint32_t rule;                /* the number of the one that takes it */
	uint64_t begin_ns, end_ns;    /* of a slice or a loop; else end_ns is 0 */
};

/* Of slices that may lie in one another the outermost count. */
struct why_outer {
	struct why_span {
		uint64_t begin_ns, ns;
	} * list; /* of this step */
	uint32_t cnt, cap, step;
};
/* Those that lie in the slice do not count. */
void why_outer__drop(const struct why_seen *seen, struct why_outer *o, struct why_amount *a);
void why_outer__add(const struct why_seen *seen, struct why_outer *o, struct why_amount *a);

/* ---- the time in which operators are not recorded any more: why_later.c ---- */

/* The parts of a step: classes, nothing that has one, waits. */
enum { WHY_PART_PYTHON = TIME_CLASSES, WHY_PART_WAIT, WHY_PARTS = WHY_PART_WAIT + PTB_WAIT_CNT };

struct why_later;
void why_later__sample(const struct why_seen *seen, const struct py_sample *ps);
/* A rule takes what is seen: so it does the samples in it. */
void why_later__take(const struct why_seen *seen);
void why_later__wait(const struct why_seen *seen, const struct sched_event *ev); /* of that time */
/* At the end: shares of that time, which lasts later_ns. known: the share before. Where there are
 * too few samples, the share of a rule is that, and there are no parts. */
double why_later__share(struct why_later *l, uint32_t rule, double known);
bool why_later__parts(const struct why_thread *t, uint64_t later_ns, const double *known,
		      double shares[WHY_PARTS]);
/* Of waits (bits of enum ptb_wait) of which a rule has taken so much before. */
double why_later__waits(const struct why_thread *t, uint64_t later_ns, uint32_t kinds,
			uint64_t taken_ns);
void why_later__free(struct why_later *l); /* NULL is fine */

/* By line of the program; line 0: not known. */
struct why_line {
	uint32_t line;
	struct why_amount amount;
};
struct why_lines {
	struct why_line *lines;
	uint32_t line_cnt, line_cap;
	struct hashmap line_ids;
};
void why_lines__add(const struct why_seen *seen, struct why_lines *l, uint32_t stack, uint64_t ns,
		    uint64_t cnt);
/* The line with most time, NULL: none; *ns, *cnt: of all lines. */
struct why_line *why_lines__most(const struct why_thread *t, struct why_lines *l, uint64_t *ns,
				 uint64_t *cnt);
void why_lines__free(struct why_lines *l);

/* Threads that a thread waited for, each with the time of it. */
struct why_peer {
	uint32_t tgid, tid;
	uint64_t ns;
};
struct why_peers {
	struct why_peer *peers;
	uint32_t peer_cnt, peer_cap;
	struct hashmap peer_ids;
};
void why_peers__add(struct why_peers *p, uint32_t tgid, uint32_t tid, uint64_t ns);
const struct why_peer *why_peers__most(const struct why_peers *p); /* NULL: none */
void why_peers__free(struct why_peers *p);

/* ---- loops: operators that Python calls over and over, why_loops.c ---- */

#define LOOP_BODY_MAX 16

struct why_loop {
	const char *const *body; /* names of its operators, from any of them on */
	uint32_t body_cnt;
	uint64_t repeats;
	uint64_t begin_ns, ns; /* from its first operator to its last one, */
	uint64_t op_ns;        /* of which operators have so much */
	uint32_t stack;        /* of the first operator */
};
bool why_loop__has(const struct why_loop *l, const char *const *names); /* NULL ends them */
/* Do its operators take so little that the loop is what costs? */
bool why_loop__is_tiny(const struct why_loop *l);

/* What a rule about loops keeps, by line. */
struct why_loop_state {
	struct why_lines lines;
	const char *op; /* of the longest one, */
	uint64_t op_ns; /* which took so much */
};
void why_loop_state__add(const struct why_seen *seen, struct why_loop_state *st,
			 const struct why_loop *l, const char *op);
void why_loop_state__free(void *state);

struct loop_level { /* what a thread called at one depth */
	const char *names[LOOP_BODY_MAX];
	uint64_t begins[LOOP_BODY_MAX];
	uint32_t stacks[LOOP_BODY_MAX];
	uint64_t seen;
	uint32_t period;  /* 0: nothing repeats */
	uint64_t matched; /* operators that were the one `period` before */
	uint64_t begin_ns, end_ns, op_ns;
	uint32_t stack;
	const char *before; /* the operator before the loop; NULL: none */
	uint64_t before_ns; /* when that began */
};

/* Of every slice; loops that end are given to the rules. */
void why_loops__slice(const struct why_seen *seen);
void why_loops__end(const struct why_seen *seen); /* after the last slice, which seen has not */
void why__take_loop(const struct why_seen *seen, const struct why_loop *l);

/* ---- rules ---- */

enum why_needs {
	WHY_OPERATORS = 1,
	WHY_MEMORY = 2,
	WHY_GPU = 4,
	WHY_RANKS = 8,
	WHY_SAMPLES = 16,
	WHY_SCHED = 32,
};
#define WHY_NEEDS_CNT 6

struct why_cause {
	double share;     /* 0: it is none */
	double weight;    /* for the order, where that is not the share */
	uint64_t step_ns; /* what it costs a step; 0: no time */
	char evidence[512], change[256], next[256];
	const char *op; /* NULL: none */
	uint32_t line;  /* a text of why__text(); 0: not known */
	uint32_t lacks; /* enum why_needs: it turned out that the rule cannot judge without */
};

struct why_case { /* the thread that is judged */
	struct why *w;
	const struct output_args *args;
	struct thread_time t;
	struct why_thread *thread;          /* NULL: it has no slice */
	const struct session_process *proc; /* NULL: nothing is known of any thread */
	uint64_t steps;    /* whole ones; 1 where there are none, and the window is the whole */
	bool by_step;      /* else the window is */
	bool sampled;      /* there are samples, and no operators */
	uint64_t whole_ns; /* all of them */
	struct time_within in;
	uint32_t rule; /* that judges */
	/* Where operators end before the window: shares of the time without them; NULL: the steps'
	 * own. */
	const double *later_parts;
	uint64_t later_ns; /* how long that is */
	/* Steps as they are shown: those of that time, if they are known. */
	const uint64_t *step_ns; /* ascending */
	uint32_t step_cnt;
	uint64_t mean_ns;
	double probes; /* what they cost, as a share of the window */
};

struct why_rule {
	const char *name, *title; /* of JSON; of people: "data loader" */
	uint32_t needs;           /* enum why_needs */
	size_t state;             /* bytes, of each thread */
	/* waits and samples mean the same to it where the operators around them are not known */
	bool throughout;
	/* of the name of a slice: does the rule want those? */
	bool (*takes)(const struct slice *sl);
	void (*slice)(const struct why_seen *seen, void *state);
	/* samples of stacks with such a frame */
	bool (*takes_frame)(const struct py_frame *f);
	void (*sample)(const struct why_seen *seen, const struct py_sample *ps, void *state);
	void (*all_samples)(const struct why_seen *seen, const struct py_sample *ps, void *state);
	void (*sched)(const struct why_seen *seen, const struct sched_event *ev, void *state);
	/* true: it is this rule's, and no other one's */
	bool (*loop)(const struct why_seen *seen, const struct why_loop *l, void *state);
	/* of GPU work and calls, t: the calling or launching thread */
	void (*gpu)(const struct why_thread *t, const struct gpu_slice *g, void *state);
	/* a report that is made beside; its object is given to judge */
	const struct output *report;
	void (*judge)(const struct why_case *c, void *state, void *report, struct why_cause *out);
	void (*free)(void *state); /* what it points to; NULL: nothing */
};

/* In the order in which they are listed. */
/* clang-format off */
#define WHY_RULES(X) \
	X(loader) \
	X(gil) \
	X(cpu_queue) \
	X(one_core) \
	X(sleep) \
	X(lock) \
	X(file_io) \
	X(other_process) \
	X(memory_wait) \
	X(fresh_memory) \
	X(garbage_collection) \
	X(sync) \
	X(indexing) \
	X(dispatch) \
	X(optimizer) \
	X(zero_grad) \
	X(compile) \
	X(recompute) \
	X(copies) \
	X(fp32_matmul) \
	X(memory) \
	X(gpu_idle) \
	X(late_rank)
/* clang-format on */

#define X(name) extern const struct why_rule rule_##name;
WHY_RULES(X)
#undef X

/* ---- for rules ---- */

struct why_thread *why__thread(struct why *w, uint32_t tgid, uint32_t tid);
/* The class that the time of a wait would else belong to; TIME_CLASSES: none. */
enum time_class why__class_at(const struct op_context *at);
struct why_thread *why__thread_nr(struct why *w, uint32_t nr); /* from 0; NULL: no more */
/* What the rule keeps of that thread; NULL: nothing. */
void *why__state(struct why *w, uint32_t tgid, uint32_t tid, const struct why_rule *rule);
const struct session *why__session(const struct why *w);
/* The number of a text, of the line of a stack; 0: none. */
uint32_t why__line(struct why *w, uint32_t stack);
const char *why__text(const struct why *w, uint32_t text);
/* " at train.py:31", "" for 0. */
const char *why__at(const struct why_case *c, uint32_t line, char buf[PY_TEXT_MAX + 8]);
/* " a step", " in the window" */
const char *why__per(const struct why_case *c);
void why_cause__evidence(struct why_cause *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void why_cause__change(struct why_cause *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void why_cause__next(struct why_cause *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Costs that share of a step. */
void why_cause__takes(const struct why_case *c, struct why_cause *out, double share);
/* Costs that much of all steps, or what is known of the time without operators. */
void why_cause__costs(const struct why_case *c, struct why_cause *out, uint64_t ns);
/* What a report found that weighs most; at least 'weight' where that is not 0. */
void why_cause__of_finding(struct why_cause *out, struct findings *found, double weight);
/* More is seen with stacks where there are none, else in the report of lines. */
void why_cause__next_line(const struct why_case *c, struct why_cause *out);

/* ---- the document, why_doc.c ---- */

struct why_verdict {
	const struct why_rule *rule;
	uint32_t lacks; /* of its needs; 0: it was judged */
	struct why_cause cause;
};
int why_doc__put(const struct why_case *c, struct why_verdict *verdicts, uint32_t cnt,
		 const struct output_args *args);

#endif /* WHY_WHY_PRIV_H */
