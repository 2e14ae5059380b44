/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Private to `diff`. Each capture is read twice: first to find the thread that steps, then to sum
 * up what happens in each of its steps. A series has the sums of one thing by step; all else
 * (parts, places, lines) is rows of two series, which differ by an amount with an interval.
 */
#ifndef DIFF_DIFF_PRIV_H
#define DIFF_DIFF_PRIV_H

#include "base/containers.h"
#include "diff/diff.h"
#include "export/texts.h"
#include "report/report.h"

/* ---- what is decided by; docs/diff.md has them for users ---- */

/* Of fewer steps no interval says anything. */
#define DIFF_STEPS_MIN 8
/* Two runs of one program differ by so much, for reasons that no step shows. */
#define DIFF_SAME_SHARE 0.05
/* A part that accounts for less of the difference is no cause. */
#define DIFF_CAUSE_SHARE 0.2
/* What is no wait for a CPU may differ by less for what such waits do to caches. */
#define DIFF_OWN_SHARE 0.2
/* Where steps do not differ: parts that change by so much of one, as in ranks that wait for each
 * other. */
#define DIFF_SHIFT_SHARE 0.1
#define DIFF_CAUSES_SHOWN 5
/* A child that has so much of its caller's difference stands for it. */
#define DIFF_CHILD_SHARE 0.6
/* Recordings of different kinds can be compared where none costs more of a step. */
#define DIFF_COST_SHARE 0.05
/* Programs of which less is in both are different ones; steps whose operators have other shapes, in
 * more than that part of their calls, do different work. */
#define DIFF_MATCHED_SHARE 0.6
#define DIFF_SHAPES_SHARE 0.2
/* A step in the beginning that is so much longer than the median belongs to the warm-up. */
#define DIFF_WARM_FACTOR 1.5
#define DIFF_WARM_SHARE 0.2 /* of all steps, at most */

enum { DIFF_A, DIFF_B, DIFF_SIDES };

/* ---- series: amounts by step ---- */

struct diff_amount {
	uint32_t step;
	double v;
};

struct diff_series {
	struct diff_amount *list;
	uint32_t cnt, cap;
	uint64_t calls; /* in all steps */
};
void diff_series__add(struct diff_series *s, uint32_t step, double v, uint32_t calls);

/* ---- statistics: diff_stats.c ---- */

struct diff_interval { /* of the difference of two means */
	double a, b;   /* the means */
	double diff, low, high;
};
struct diff_sample { /* an amount of each step that counts, in order of time */
	const double *v;
	uint32_t cnt;
	double step_ns; /* a step, on average */
};
/*
 * The difference of means, with a 95 % interval: a circular block bootstrap, widened for few
 * blocks. A block is a sixteenth of the steps, or more where that is less than a second: what else
 * a machine does lasts about as long. Four blocks at least. The same input has the same output.
 */
#define DIFF_RESAMPLES 2000
#define DIFF_BLOCKS 16
#define DIFF_BLOCKS_MIN 4
#define DIFF_BLOCK_NS 1000000000
#define DIFF_CONFIDENCE 0.95
struct diff_interval diff_stats__interval(const struct diff_sample sides[DIFF_SIDES]);
static inline bool diff_interval__is_certain(const struct diff_interval *i)
{
	return i->low > 0 || i->high < 0;
}

/* ---- rows of two series ---- */

struct diff_row {
	uint32_t key;
	uint32_t label[DIFF_SIDES]; /* texts; they differ where a line has moved. 0: not there */
	struct diff_series of[DIFF_SIDES];
	struct diff_interval in; /* at the end, a step */
};

enum diff_view { DIFF_PARTS, DIFF_LINES, DIFF_MODULES, DIFF_KERNELS, DIFF_STATES, DIFF_MEMORY };
#define DIFF_VIEWS (DIFF_MEMORY + 1)

struct diff_rows {
	struct diff_row *rows; /* at the end in order of their differences, the largest first */
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids;
};

/* Parts of a step: classes of time, waits, and the rest, which is Python's. They sum to it. */
enum {
	DIFF_PART_PYTHON = TIME_CLASSES,
	DIFF_PART_WAIT,
	DIFF_PART_CNT = DIFF_PART_WAIT + PTB_WAIT_CNT
};
#define DIFF_PART_UNPROBED DIFF_PART_CNT /* what steps without probes differ by otherwise */
const char *diff_part__key(uint32_t part);
const char *diff_part__name(uint32_t part);
enum { DIFF_MEM_CPU, DIFF_MEM_GPU, DIFF_MEM_FAULTS };

/* ---- the tree of calls ---- */

/* Operators and annotations in one another, by their names; [0]: the step. */
struct diff_node {
	uint32_t parent, name, is_op;
	enum time_class class;
	struct diff_series self; /* but for waits for a CPU or the GIL */
	struct hashmap shapes;   /* text -> calls; where they are recorded */
	uint64_t order;          /* of its first call */
};

/* ---- one capture ---- */

struct diff_side {
	struct session *s;
	const char *name;
	struct session_totals totals;
	const struct session_process *proc; /* NULL: nothing is known of any thread */
	struct thread_time t;
	double *steps; /* ns of each that counts, in order of time, */
	uint32_t cnt, cap;
	uint64_t *begins; /* and when it began; those of the warm-up are not among them */
	uint32_t begin_cap, warm;
	double *later; /* of the part of the window without probes */
	uint32_t later_cnt;
	bool derived; /* steps are ptbpf's own */
	struct diff_node *nodes;
	uint32_t node_cnt, node_cap;
	struct hashmap node_ids;
	double cost;      /* of the recording, as a share of a step */
	uint32_t threads; /* with --sched: that ran much, */
	char lacks[1024]; /* "": complete */
};

/* A place of the tree in both: nodes of each that stand for the same. */
struct diff_place {
	uint32_t parent, depth;
	uint32_t *nodes[DIFF_SIDES], node_cnt[DIFF_SIDES], node_cap[DIFF_SIDES];
	uint32_t name[DIFF_SIDES]; /* texts; 0: not there */
	struct diff_interval self, total;
	bool leaf_only; /* a level of one alone: what is in it lies beside it */
};

struct diff_cause {
	uint32_t place, part; /* either; place 0: a part */
	bool total;           /* of all that lies in the place, too */
	struct diff_interval in;
};

struct diff_config {
	char what[64], value[DIFF_SIDES][256];
};

struct diff {
	const struct diff_args *args;
	struct diff_side side[DIFF_SIDES];
	struct strtab *texts;
	struct diff_rows views[DIFF_VIEWS];
	struct diff_place *places; /* [0]: the step; a caller is before what it calls */
	uint32_t place_cnt, place_cap;
	uint32_t *by_self; /* those but the first, the largest difference of their own first */
	struct diff_config *configs; /* those that differ */
	uint32_t config_cnt, config_cap;
	struct diff_interval step; /* of what was recorded, */
	/* of later steps where both have some, else the same; `answer` is that, or `own` where only
	 * that decides */
	struct diff_interval answer;
	/* of whole steps; of what was recorded without waits for a CPU, all 0: not known */
	struct diff_interval whole, own;
	bool has_own;                  /* it says something of the answer's steps */
	bool by_later, by_own, judged; /* judged: comparable, of enough steps */
	enum diff_verdict verdict;
	char reason[1024]; /* why not comparable, or inconclusive */
	struct diff_cause causes[DIFF_CAUSES_SHOWN];
	uint32_t cause_cnt;
	double to_explain; /* of which a cause is a large share */
	bool shifts;       /* causes are none: parts change, and steps do not */
	bool waits_grow;   /* or shrink, those for a CPU, in proportion to the time on it */
};

/* Runs both passes over the capture. 0 or negative errno, logged. */
int diff_collect__run(struct diff *d, uint32_t side);
uint32_t diff__text_id(struct diff *d, const char *text); /* 0: "" */
/* Of the steps that count, or of those without probes, what each took. */
struct diff_sample diff_side__steps(const struct diff_side *s, bool later);
struct diff_row *diff__row(struct diff *d, enum diff_view view, uint64_t k0, uint64_t k1);

/* Places of both trees. */
void diff_match__places(struct diff *d);
/* Of calls the share that both have; the larger one of the two sides'. */
double diff_match__share(const struct diff *d);
/* In the interval of what lies in the place itself, or below it, too. */
struct diff_interval diff_place__interval(const struct diff *d, uint32_t place, bool total);
double diff_place__calls(const struct diff *d, uint32_t place, uint32_t side); /* a step */
/* "forward > aten::linear > aten::addmm"; where names differ both. Returns buf. */
char *diff_place__path(const struct diff *d, uint32_t place, char *buf, size_t cap);
char *diff_place__name(const struct diff *d, uint32_t place, char *buf, size_t cap);

/* What differs of how they ran and were recorded; and what makes them incomparable into d->reason:
 * true: they are. */
void diff_config__find(struct diff *d);
bool diff_config__is_comparable(struct diff *d);

enum diff_verdict diff__verdict_of(const struct diff *d, const struct diff_interval *in);

/* Intervals of all rows and places that are shown; and causes. */
void diff_judge__measure(struct diff *d);
void diff_judge__explain(struct diff *d);
/* Of a step without its waits for a CPU, which others of the machine cause. */
struct diff_interval diff_judge__own(const struct diff *d);
/* The part's row, after measure(). */
const struct diff_row *diff_judge__part(const struct diff *d, uint32_t part);

int diff_doc__put(struct diff *d); /* text or JSON */
int diff_markdown__put(struct diff *d);
/* "+12.3 % (95 %: +10.9 to +13.8 %)" of the first capture's step; "+1.20 ms" */
struct cell diff__effect(const struct diff *d, const struct diff_interval *in);
struct cell diff__signed_ns(double ns);
struct cell diff__heading(enum diff_verdict v);

#endif /* DIFF_DIFF_PRIV_H */
