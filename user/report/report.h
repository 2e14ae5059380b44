/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What people read: documents, their renderers, and the reports that are documents. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "export/output.h"
#include "model/key_averages.h"
#include "model/session.h"

/* Rows of a list that are shown. */
static inline uint32_t report__shown(uint32_t cnt, int row_limit)
{
	return row_limit >= 0 && (uint32_t)row_limit < cnt ? (uint32_t)row_limit : cnt;
}

/* ---- cells ---- */

/* A short text by value: cell__bytes(v).text may be used until the end of the expression. */
struct cell {
	char text[48];
};
__attribute__((format(printf, 1, 2))) struct cell cell__format(const char *fmt, ...);
struct cell cell__bytes(double v);       /* "1.5 GiB" */
struct cell cell__count(uint64_t v);     /* "140.5 k" */
struct cell cell__change(double v);      /* "+1.5 GiB" */
struct cell cell__duration(uint64_t ns); /* "1.23 ms" */

/*
 * The target's text, escaped (base/text.h), in at most `max` columns, "..." in its midst
 * where it is cut; returns how many.
 */
size_t cell__put_text(FILE *out, const char *text, size_t max);

/* Units of columns, beside cell__bytes() and cell__change(). */
struct cell unit__ns(double v); /* "1.23 ms" */
/* of 0: "-" */
struct cell unit__ns_or_dash(double v);
struct cell unit__count_or_dash(double v);
struct cell unit__bytes_or_dash(double v);
struct cell unit__count(double v); /* "140.5 k" */
struct cell unit__share(double v); /* 0.125: "12.5 %" */

/*
 * ---- documents ----
 *
 * A document has facts, which have a key, lists of rows, and sentences. It is written once, by
 * the calls below, and rendered as it is written, so that its length takes no memory. JSON has
 * the facts and the lists that have a key; text has the sentences, and of lists the columns. A
 * fact or list whose key is NULL or begins with '.' is of the text only.
 */

/* A column of a list in text, without `drop` where it stays. The list ends with a row of zeroes. */
struct doc_column {
	const char *key;     /* of a row's fact; "self.ns": of one in its object "self" */
	const char *heading; /* NULL in all columns: they have none */
	/* < 0: to the left; 0: the rest of the line, as the last column; there -1: the same on a
	 * terminal, else as long as it is */
	int width;
	struct cell (*unit)(double v); /* how a number is shown; NULL: as a whole number */
	double whole;                  /* what the number is shown as a share of; 0: as it is */
	/* on a terminal that has no room for all: the columns with the highest number go first, and
	 * texts are cut. 0: it stays */
	int drop;
};

#define DOC_DEPTH 8
#define DOC_COLUMNS_MAX 40

/* Of a line, by colours where the terminal has some. */
enum doc_style {
	DOC_PLAIN,
	DOC_HEADING,
	DOC_TOP,   /* the row that matters most */
	DOC_ALERT, /* something is wrong, or lost */
};

struct doc {
	FILE *out;
	const struct output_args *args;
	bool torch; /* the text's lists are laid out as torch lays out its table; set before them */
	bool no_losses; /* the text does not say at its end what the capture lacks */
	struct jsonw w;
	struct doc_list { /* those that are open; the first one stands for the document */
		const struct doc_column *columns;
		const char *object; /* of its row, that is open */
		uint32_t cnt, shown, next;
		int indent;
		bool row, headed, of_json;
		int widths[DOC_COLUMNS_MAX]; /* of its columns; INT_MIN: it is left out */
	} lists[DOC_DEPTH], *list;
	char *cells[DOC_COLUMNS_MAX]; /* of the row, until it is written */
	char *tail, *below[2];
	char title[256]; /* "": none that waits for its list */
	FILE *line;      /* of text: the open line, */
	char *line_text;
	size_t line_len;
	size_t used; /* of which so many columns are taken, */
	enum doc_style style;
};

/*
 * As JSON or text, by args, whose session is NULL where the document is of no capture.
 * doc__finish() frees what it needs. 0 or negative errno.
 */
void doc__begin(struct doc *d, const struct output_args *args);
/* Says what the capture lacks. 0 or negative errno, logged. */
int doc__finish(struct doc *d);

/* Facts: members of the innermost object; without a key elements of an array. */

struct doc_fact {
	const char *key;
	enum { DOC_NULL, DOC_U64, DOC_I64, DOC_DOUBLE, DOC_BOOL, DOC_TEXT, DOC_NONE } kind;
	union {
		uint64_t u;
		int64_t i;
		double d;
		const char *text;
	};
};

struct doc_fact fact__u64(const char *key, uint64_t v);
struct doc_fact fact__i64(const char *key, int64_t v);
struct doc_fact fact__double(const char *key, double v); /* NaN: null */
struct doc_fact fact__bool(const char *key, bool v);
struct doc_fact fact__text(const char *key, const char *text);
struct doc_fact fact__null(const char *key);
#define FACT(key, v)                                                                               \
	_Generic((v),                                                                              \
		bool: fact__bool,                                                                  \
		uint32_t: fact__u64,                                                               \
		uint64_t: fact__u64,                                                               \
		int32_t: fact__i64,                                                                \
		int64_t: fact__i64,                                                                \
		double: fact__double,                                                              \
		char *: fact__text,                                                                \
		const char *: fact__text)(key, v)
#define NO_FACT ((struct doc_fact){ .kind = DOC_NONE })

void doc__facts(struct doc *d, const struct doc_fact *facts, size_t cnt);
/* DOC(d, FACT("count", n), FACT("ns", ns)); */
#define DOC(d, ...)                                                                                \
	doc__facts(d, (const struct doc_fact[]){ __VA_ARGS__ },                                    \
		   sizeof((const struct doc_fact[]){ __VA_ARGS__ }) / sizeof(struct doc_fact))
/* A fact of the text. */
__attribute__((format(printf, 3, 4))) void doc__cell(struct doc *d, const char *key,
						     const char *fmt, ...);
/* Behind the text of the last column; up to half of the room is kept for it. */
void doc__tail(struct doc *d, const char *tail);
/* Behind both, or on a line below where they leave no room. */
void doc__below(struct doc *d, const char *text, const char *tail);

void doc__object(struct doc *d, const char *key);
void doc__end(struct doc *d);
void doc__array(struct doc *d, const char *key); /* of values */
void doc__end_array(struct doc *d);
void doc__break(struct doc *d); /* JSON: the next key begins a line */

/*
 * Rows are objects: for (uint32_t i; doc__next(d, &i);) { facts of row i }. A row's cells come
 * before its own lists and sentences. columns: NULL: none in text. doc__list() has as many rows
 * as the user wants of each list, doc__all() all.
 */
void doc__list(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns);
void doc__all(struct doc *d, const char *key, uint32_t cnt, const struct doc_column *columns);
bool doc__next(struct doc *d, uint32_t *i);
void doc__next_line(struct doc *d); /* the row's cells from here on stand in a further line of it */

/* Above what follows, with an empty line before it; a list without rows has none. */
__attribute__((format(printf, 2, 3))) void doc__title(struct doc *d, const char *fmt, ...);
/* A piece of a line, a whole line. Texts of others are escaped. */
__attribute__((format(printf, 2, 3))) void doc__say(struct doc *d, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void doc__line(struct doc *d, const char *fmt, ...);
void doc__end_line(struct doc *d);
void doc__style(struct doc *d, enum doc_style style); /* of the open line */
void doc__gap(struct doc *d);                         /* an empty line */
/*
 * A text with its tail in at most `max` characters, 0: in the rest of the line; cut as in a last
 * column.
 */
void doc__cut(struct doc *d, const char *text, const char *tail, size_t max);

/* ---- reports: a row each, of the kind of export/output.h ---- */

extern const struct output operators_report, memory_report, gpus_report, skew_report, sched_report,
	lines_report, modules_report, sampled_operators_report;
/* What grows in one process, the memory report's first sentences: for a page, see output.h. */
extern const struct output memory_headline;

/*
 * The last sentences of a command, by args, whose `out` has them. requested_ns: how long the window
 * should have been, 0: not known. 0 or negative errno.
 */
int summary__put(const struct output_args *args, uint64_t threads, uint64_t requested_ns);

/*
 * ---- where the time of each process's main thread went ----
 *
 * A sink of the session. Of nested classes the outermost one counts, but for operators, in which
 * the others keep theirs. What autograd's threads run counts for the thread that waits for them.
 */

enum time_class { TIME_OPERATORS, TIME_LOADER, TIME_OPTIMIZER, TIME_COLLECTIVES, TIME_CLASSES };

/* TIME_CLASSES: it is of none, and what is in it counts as it does without it. NULL: there is no
 * annotation. */
enum time_class time_class__of_annotation(const char *name);

/* Of what lies in a slice: the times of classes, and what Python called and did between. */
struct time_within {
	uint64_t ns[TIME_CLASSES];
	uint64_t ops;     /* operators in no other one, and outside of the other classes */
	uint64_t gaps_ns; /* between these, of those below TIME_GAP_MAX_NS */
	uint64_t first_ns, last_ns;
};
/* What Python does between two operators takes less; a longer time may be a wait. */
#define TIME_GAP_MAX_NS 100000

struct step_times { /* of a thread's whole steps together */
	uint32_t cnt;
	uint64_t all_ns, begin_ns, end_ns;
	struct time_within in;
};

struct thread_time {
	uint32_t tgid, tid;
	struct step_times steps;
	const uint64_t *step_ns; /* how long each took, ascending */
	struct time_within in;   /* of the window */
	uint64_t window_ns;      /* in which operators were recorded */
	uint64_t ns[TIME_CLASSES];
	uint64_t python_ns; /* the rest of the window */
	uint64_t sampled_ns[SAMPLE_STATES];
	const char *loader;    /* the longest wait for a data loader: its annotation, NULL: none */
	uint32_t loader_stack; /* ... and Python's stack there, 0: not recorded */
};

/* Waits for a CPU and the GIL are parts of a step wherever they are. Other ones within a class are
 * its own: a loader waits for its workers, a collective for other ranks. */
static inline bool wait__everywhere(uint32_t what)
{
	return what == PTB_WAIT_CPU || what == PTB_WAIT_GIL;
}

struct thread_times;
/* Of each slice, with what lies in it. False: another one has it. */
typedef void (*time_hook_fn)(void *arg, const struct slice *sl, const struct time_within *in);
bool thread_times__set_hook(struct thread_times *tt, time_hook_fn fn, void *arg);
struct thread_times *thread_times__new(const struct session *s);
void thread_times__free(struct thread_times *tt); /* NULL is fine */
struct session_sink thread_times__sink(struct thread_times *tt);
/* After the run: of the process the main thread, or the busiest one where nothing is known of
 * that. False: nothing is known of the process. */
bool thread_times__main(struct thread_times *tt, uint32_t tgid, struct thread_time *out);
/* The parts of a thread's python_ns by Python stack, as samples beside operators have it; stack 0:
 * none, or what no sample stands for. Returns how many; the caller frees *list. */
struct outside_time {
	uint32_t tgid, tid, stack;
	uint64_t ns;
};
uint32_t thread_times__outside(const struct thread_times *tt, const struct thread_time *t,
			       struct outside_time **list);
/* That of the process which has most of it; NULL: nothing is known of any. */
const struct session_process *thread_times__busiest(struct thread_times *tt,
						    struct thread_time *out);

/* ---- what threads of pools do for operators, with --sched: pool_work.c ---- */

#define POOL_OP_NS 100000 /* operators of less self time have no time worth to be shared */

/* Operators of one name on one thread. */
struct pool_row {
	uint32_t tgid, tid;
	const char *op;
	uint64_t cnt, ns; /* self time, */
	uint64_t wait_ns; /* in which the thread waited so long */
	double pool_ns;   /* what other threads did meanwhile, on CPUs */
};
/* No report of its own: given to those that ask after the run. */
extern const struct output pool_work;
struct pool_work;
const struct pool_row *pool_work__rows(struct pool_work *pw, uint32_t *cnt);
static inline double pool_row__cpu_ns(const struct pool_row *r)
{
	return r->pool_ns + (double)(r->ns > r->wait_ns ? r->ns - r->wait_ns : 0);
}

/* A step of a program's own or a derived one, or what the window has of one. */
static inline bool slice__is_step(const struct slice *sl)
{
	return sl->cat == SLICE_USER_ANNOTATION &&
	       (sl->flags & SLICE_PARTIAL || step_name__is(sl->name));
}

static inline bool slice__is_whole_step(const struct slice *sl)
{
	return slice__is_step(sl) &&
	       !(sl->flags & (SLICE_PARTIAL | SLICE_OPEN_AT_BEGIN | SLICE_UNFINISHED |
			      SLICE_TRUNCATED | SLICE_END_LOST));
}

static inline double time__share(uint64_t ns, uint64_t whole_ns)
{
	return whole_ns ? (double)ns / (double)whole_ns : 0;
}

static inline uint64_t thread_time__samples(const struct thread_time *t)
{
	return t->sampled_ns[SAMPLE_RUNNING] + t->sampled_ns[SAMPLE_QUEUED] +
	       t->sampled_ns[SAMPLE_BLOCKED];
}

/* ---- the parts of a time: a row each ---- */

struct time_part {
	const char *key, *name; /* of JSON, of people */
	uint64_t ns;
};
#define TIME_PARTS_MAX 32
/* "Main thread of python3 train.py (4242)", into the open line. */
void time_thread__say(struct doc *d, const struct thread_time *t, const struct session_process *p);
/* Into parts; return how many. */
uint32_t time_parts__of(struct time_part *parts, const uint64_t ns[TIME_CLASSES],
			uint64_t python_ns);
uint32_t time_parts__of_samples(struct time_part *parts, const uint64_t ns[SAMPLE_STATES]);
void time_parts__sort(struct time_part *parts, uint32_t cnt); /* most first */
/* "operators 8.1%, data loader 91.0%", into the open line; sorts them. */
void time_parts__say(struct doc *d, struct time_part *parts, uint32_t cnt, uint64_t whole_ns);

/* ---- what the reports about memory, GPUs and ranks conclude, as sentences ---- */

#define FINDINGS_MAX 16

struct finding {
	double weight; /* the highest come first */
	char text[512], next[256];
};

struct findings {
	struct finding list[FINDINGS_MAX];
	uint32_t cnt;
};

/* NULL: there are enough. */
struct finding *findings__add(struct findings *found, double weight, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The command that shows more; f may be NULL. */
void finding__next(struct finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void findings__sort(struct findings *found);

/* After the run, of what memory_report, gpus_report and skew_report opened: memory that grows, a
 * GPU that is idle, a rank that is late. */
struct rank_times;
void mem_report__find(void *o, const struct output_args *args, struct findings *found);
void gpu_report__find(void *o, const struct output_args *args, struct findings *found);
void rank_times__find(struct rank_times *rt, const struct output_args *args,
		      struct findings *found);

/*
 * What stands above a table of operators, lines or modules: where the time went, what stands out,
 * and the commands that show more. new: args has the `times`; NULL: it is JSON, or a report that
 * has none. put: after the run.
 */
struct overview;
bool overview__has(const struct output *report);
#define OVERVIEW_SINKS 4
struct overview *overview__new(const struct output_args *args);
void overview__free(struct overview *ov);
uint32_t overview__sinks(struct overview *ov, struct session_sink sinks[OVERVIEW_SINKS]);
int overview__put(struct overview *ov, const struct output_args *args);

/* Can its rows be sorted by that? */
bool report__is_sort_key(const struct output *report, const char *key);

/* The time in the window in which a GPU ran a kernel, copy or fill. */
struct gpu_busy {
	uint32_t id;
	uint64_t ns;
};
/*
 * After the run, of what gpus_report opened: of GPUs that are known or had work, at most max of
 * them, by id. 0 or negative errno.
 */
uint32_t gpu_report__busy(void *o, struct gpu_busy *list, uint32_t max);

/* ---- one window of `ptbpf top`: top_frame.c ---- */

#define TOP_ROWS 200 /* of a list; of those that are more, the ones with most of the first value */
#define TOP_NAME 160
#define TOP_PROCS 64
#define TOP_GPUS 16

enum top_list { TOP_OPERATORS, TOP_LINES, TOP_THREADS, TOP_LISTS };

/* Of an operator, a line, a thread: ns, but calls. */
enum { TOP_SELF, TOP_TOTAL, TOP_CALLS, TOP_DEVICE };
enum { TOP_RAN, TOP_QUEUED, TOP_BLOCKED };
enum { TOP_ON_CPU, TOP_WAITS, TOP_VALUES = TOP_WAITS + WAITS_CNT }; /* by enum wait_group */

struct top_row {
	char name[TOP_NAME]; /* foreign */
	uint32_t pid, tid;
	uint64_t values[TOP_VALUES];
};

struct top_process {
	uint32_t pid;
	char name[TOP_NAME];
	uint64_t main[TOP_VALUES]; /* of its main thread */
	uint64_t operators_ns;     /* in which operators were recorded */
	bool agent;                /* by its agent */
	/* what is not from the capture */
	uint64_t cpu_ns, resident, step_ns, cost_ns;
	uint32_t steps;    /* that ended, */
	uint64_t steps_ns; /* in this time */
};

/* Its numbers are bounded, and texts end, after top_frame__check(). */
struct top_frame {
	uint64_t window_ns, operators, samples, lost;
	uint32_t process_cnt, gpu_cnt, cnt[TOP_LISTS], all[TOP_LISTS]; /* all: also without a row */
	bool has_waits;
	struct gpu_busy gpus[TOP_GPUS];
	struct top_process processes[TOP_PROCS];
	struct top_row rows[TOP_LISTS][TOP_ROWS];
	/* what is not from the capture: since the last frame; ptbpf's own time */
	uint64_t wall_ns, own_ns;
};

/* One pass over the session. 0 or negative errno. */
int top_frame__fill(struct top_frame *f, struct session *s);
/* Of one that another process has filled. False: it is none. */
bool top_frame__check(struct top_frame *f, size_t len);

/* Of the table of operators. */
struct table_opts {
	bool profile_memory; /* the columns of memory */
	bool device_time;    /* the columns of GPU time */
	bool by_stack;       /* rows are by Python's frames, too */
	bool waits;          /* on a terminal and in JSON: what the threads waited for */
};
/* Attributes of torch's FunctionEventAvg. */
#define TABLE_SORT_KEYS                                                                            \
	"self_cpu_time_total, cpu_time_total, cpu_time, self_cuda_time_total, cuda_time_total, "   \
	"cuda_time, self_device_time_total, device_time_total, device_time, count, key, flops, "   \
	"cpu_memory_usage, self_cpu_memory_usage, cuda_memory_usage, self_cuda_memory_usage, "     \
	"device_memory_usage, self_device_memory_usage"
bool table__is_sort_key(const char *key);
/* The table, as torch.profiler's key_averages().table() prints it. 0 or negative errno, logged. */
int table__print(const struct ka_row *rows, uint32_t cnt, const struct table_opts *opts,
		 const struct output_args *args);

#endif /* REPORT_REPORT_H */
