/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `sample --metrics` says: sums over windows, and their text in the formats of OpenMetrics 1.0
 * (prometheus/OpenMetrics specification/OpenMetrics.md) and of Prometheus (text 0.0.4). Counters
 * never decrease.
 */
#ifndef SAMPLE_METRICS_H
#define SAMPLE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/jsonw.h"
#include "ptb_event.h"

struct cJSON;

#define METRICS_OPS 50 /* operators that have a name at one time; the others are METRICS_OTHER */
#define METRICS_OP_NAME 76 /* longer names are cut */
#define METRICS_IDLE 100   /* windows, after which a name without time goes first, of any user */
#define METRICS_OTHER "other"
#define METRICS_NO_USER UINT32_MAX /* of a name: it is not known, or several use it */
#define METRICS_GPUS 16

/* Upper bounds of the histogram of steps: ns, and as they are written. */
/* clang-format off */
#define METRICS_STEP_BOUNDS(X)                                                              \
	X(1000000, "0.001") X(2500000, "0.0025") X(5000000, "0.005")                        \
	X(10000000, "0.01") X(25000000, "0.025") X(50000000, "0.05")                        \
	X(100000000, "0.1") X(250000000, "0.25") X(500000000, "0.5")                        \
	X(1000000000, "1.0") X(2500000000, "2.5") X(5000000000, "5.0")                      \
	X(10000000000, "10.0") X(30000000000, "30.0") X(60000000000, "60.0")
/* clang-format on */
#define METRICS_STEP_BUCKETS 16 /* the last one has no bound */

struct metrics_op {
	char name[METRICS_OP_NAME];
	uint32_t uid;
	uint64_t self_ns;
};

struct metrics_label {
	struct metrics_op op; /* its uid: of the processes that have it; its time: the sum */
	uint64_t used;        /* the window in which it had time last, by metrics.turn */
};

struct metrics_gpu {
	uint32_t id;
	uint64_t busy_ns;
};

/* One window. */
struct metrics_window {
	uint64_t window_ns, operators, cost_ns;
	bool has_cost;          /* it was measured */
	struct metrics_op *ops; /* those with most time first, from malloc */
	uint32_t op_cnt, op_cap;
	uint64_t rest_ns; /* self time of others */
	uint64_t steps[METRICS_STEP_BUCKETS], step_ns, partial_steps;
	uint64_t rss[PTB_RSS_KINDS]; /* of the processes that lived at its end */
	bool has_memory;             /* --profile-memory; by device class: CPU, accelerators */
	uint64_t alloc_bytes[2];
	bool has_device_memory; /* at its end, by PyTorch's allocator */
	uint64_t device_bytes, device_reserved_bytes;
	bool has_faults; /* --kernel-memory */
	uint64_t minor_faults, major_faults;
	bool has_waits;                 /* --sched */
	uint64_t wait_ns[PTB_WAIT_CNT]; /* of main threads */
	uint32_t gpu_cnt;
	struct metrics_gpu gpus[METRICS_GPUS];
	uint64_t losses[PTB_CNT_MAP]; /* by enum ptb_counter_id */
};

enum metrics_result {
	METRICS_COMPLETE,
	METRICS_INCOMPLETE,
	METRICS_SKIPPED,
	METRICS_FAILED,
	METRICS_RESULTS
};

/* Starts zeroed. */
struct metrics {
	const char *version;
	uint64_t start_unix_ns; /* of the process */
	uint64_t cpu_ns;        /* that it and its windows took */
	uint64_t windows[METRICS_RESULTS];
	uint32_t targets;                /* processes of the last window that was due */
	uint64_t begin_unix_ns, late_ns; /* of the last one that was exported; 0: none was */
	struct metrics_window last;      /* but its operators */
	struct metrics_window sum;       /* counters only */
	uint64_t turn;                   /* windows that were added */
	uint32_t op_cnt;
	struct metrics_label ops[METRICS_OPS];
};

/* Bytes are what the program says: their sum must not wrap, which would look like a restart. */
static inline uint64_t metrics__sum(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

void metrics_window__step(struct metrics_window *w, uint64_t ns);
/* Adds the self time of an operator of processes of that user. */
void metrics_window__op(struct metrics_window *w, const char *name, uint32_t uid, uint64_t self_ns);
/*
 * Operators that have no name yet get one. Where there are too many names, that goes which has had
 * no time for longest, of the user who has most.
 */
void metrics__add(struct metrics *m, const struct metrics_window *w);
/* From malloc. */
char *metrics__text(const struct metrics *m, bool openmetrics, size_t *len);

/* ---- metrics_json.c: a window as the key "metrics" of its last line ---- */

void metrics_json__put(struct jsonw *j, const struct metrics_window *w);
void metrics__add_line(struct metrics *m, const struct cJSON *line);

/* ---- window_metrics.c: a window from its session ---- */

#define WINDOW_METRICS_SINKS 3
#define METRICS_WINDOW_OPS 4096 /* most time first; the others have no name */

struct hashmap;
struct session;
struct session_sink;
struct session_totals;
struct window_metrics;
/* Whose processes there are: process id -> user id. */
void window_metrics__read_users(struct hashmap *users);
struct window_metrics *window_metrics__new(const struct session *s, const struct hashmap *users);
/* Fills at most WINDOW_METRICS_SINKS; returns how many. */
uint32_t window_metrics__sinks(struct window_metrics *wm, struct session_sink *sinks);
/* After the run; out->ops becomes the caller's. */
void window_metrics__finish(struct window_metrics *wm, const struct session_totals *totals,
			    struct metrics_window *out);
void window_metrics__free(struct window_metrics *wm); /* NULL is fine */

#endif /* SAMPLE_METRICS_H */
