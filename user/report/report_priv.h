/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Private to the reports: the text of documents, the states of the reports about memory and GPUs.
 */
#ifndef REPORT_REPORT_PRIV_H
#define REPORT_REPORT_PRIV_H

#include "base/containers.h"
#include "export/gpu_text.h"
#include "export/texts.h"
#include "report/report.h"

/* Rows of their lists, unless the user says how many. */
#define ROWS_OF_LISTS 10
#define ROWS_OF_LINES 25

/* ---- doc_text.c, for doc.c ---- */

/* The fact in all columns that show it: a text, or a number. */
void doc_text__set(struct doc *d, const char *key, const char *text, double v);
void doc_text__open_list(struct doc *d);
void doc_text__head(struct doc *d); /* the list's title and headings, once */
void doc_text__row(struct doc *d);  /* the open row, if it has cells that are not written */
void doc_text__close_list(struct doc *d);

/*
 * ---- `report --memory` ----
 *
 * In four steps: mem_report.c sums up the stream, mem_report_rank.c draws conclusions at its end,
 * mem_report_doc.c and _say.c write them.
 */

/* Without steps the window is cut into this many equal periods. */
#define MR_TIME_PERIODS 10

/*
 * What a leak is here: blocks that are still there at the end, from at least MR_LEAK_PERIODS_MIN
 * periods and from more than half of those before the last one. What only the last period left is
 * in use; what a single one left (a cache, the optimizer's state) was made once.
 */
#define MR_LEAK_PERIODS_MIN 3

#define MR_NO_OPS                                                                                  \
	"(threads without operators)" /* stands for the operator: pools of threads, data loaders' */

#define MR_OOM_MAX 1000 /* kept; more are only counted */

/* Who: ids in mem_report.texts. */
struct mr_who {
	uint32_t op, outer, annotation;
	uint32_t line; /* of Python, 0: not known */
};

#define MR_GROWTH_HELD 128
#define MR_GROWTH_MIN 4 /* with fewer periods growth is unknown */

/*
 * A value at the end of each period; of many periods every second is forgotten when there is no
 * more room.
 */
struct mr_growth {
	int64_t period; /* the current one, -1: none yet */
	bool over;      /* it has ended, and no other has begun */
	uint64_t ended, stride;
	uint32_t cnt;
	struct {
		int64_t period;
		uint64_t value;
	} held[MR_GROWTH_HELD];
};

/* One of both counts: which one is known at the end. */
struct mr_growths {
	struct mr_growth by_step, by_time;
};

/*
 * Blocks that the same operator, in the same annotation, with inputs of the same shapes, asks
 * for.
 */
struct mr_group {
	uint32_t proc, device;
	struct mr_who who;
	uint32_t shapes;
	uint64_t allocs, alloc_bytes;
	uint64_t live, live_cnt;
	/* live when the device's total was highest; good if peak_seen is its peak_nr */
	uint64_t peak, peak_cnt;
	uint64_t peak_seen;
	/* at the end, by mem_report_rank.c */
	uint64_t kept, kept_cnt;
	uint64_t kept_before;              /* of kept, from before the last period */
	int64_t first_period, last_period; /* that anything kept is from */
	/* how many that were, and without the last of the process */
	uint32_t periods, periods_before;
	uint32_t shape_cnt; /* of a group that stands for all shapes; else 1 */
};

struct mr_device {
	uint32_t proc;
	int32_t type, index;
	uint64_t begin, now, peak; /* allocated */
	uint64_t reserved, reserved_peak;
	uint64_t peak_ts, peak_nr;
	int64_t peak_step;
	struct mr_who peak_who;
	uint64_t rss_at_peak[PTB_RSS_KINDS];
	bool has_rss_at_peak;
	uint64_t allocs, frees, alloc_bytes, free_bytes;
	struct mr_growths growth;
};

/* What the kernel did below one operator and annotation. */
struct mr_kernel {
	uint32_t proc;
	/* this thread before its first operator, if it has any; 0: of all threads */
	uint32_t unseen_tid;
	struct mr_who who;
	uint64_t faults, major, fault_bytes;
	uint64_t reclaims, compactions, reclaim_ns, compact_ns, longest_ns;
	uint64_t map_bytes, unmap_bytes, advise_bytes;
	int64_t brk_bytes;
};

struct mr_api {
	uint32_t proc, name;
	uint64_t calls, bytes, ns, no_result;
};

struct mr_oom {
	uint32_t proc;
	bool kill; /* by the kernel; else a request that torch's allocator refused */
	uint64_t ts, bytes, allocated;
	int32_t device_type, device_index;
	int64_t step;
	struct mr_who who;
	uint32_t by_tgid, by_tid;
};

struct mr_proc {
	uint32_t tgid;
	int64_t first_step, last_step; /* -1: none */
	uint32_t steps;
	bool has_rss;
	uint64_t rss_begin[PTB_RSS_KINDS], rss[PTB_RSS_KINDS], rss_peak[PTB_RSS_KINDS];
	uint64_t rss_peak_ts;
	int64_t rss_peak_step;
	bool runs;                          /* an operator or annotation of it was recorded */
	uint64_t rss_before[PTB_RSS_KINDS]; /* and the heap's sum: until it runs */
	int64_t brk_before;
	/* of the resident size, from then on: what a program imports before is no leak */
	struct mr_growths growth;
	uint64_t freed_unknown;
	uint64_t ooms, oom_kills, huge_pages, migrated;
	struct mr_kernel sum; /* of its operators */
	/* by mem_report_rank.c */
	uint64_t weight;
};

struct mem_report {
	const struct session *s;
	const struct session_info *info;
	struct text_ids texts;
	struct mr_proc *procs;
	struct mr_device *devices;
	struct mr_group *groups;
	struct mr_kernel *kernels;
	struct mr_api *apis;
	struct mr_oom *ooms;
	uint32_t proc_cnt, proc_cap, device_cnt, device_cap, group_cnt, group_cap, kernel_cnt,
		kernel_cap;
	uint32_t api_cnt, api_cap, oom_cnt, oom_cap;
	struct py_lines lines;
	/* (op, outer), (line, annotation) -> small number, so that two words name a group */
	struct hashmap who_ids;
	struct hashmap group_ids, kernel_ids;
	/* process; its number, device; its number, name */
	struct hashmap proc_ids, device_ids, api_ids;
	struct hashmap op_threads; /* (process, thread) that had an operator or annotation */
	uint32_t who_cnt;
	uint32_t rss_next; /* sample of info->rss that is not counted yet */
};

#define MR_TEXT(mr, id) text_ids__text(&(mr)->texts, id)

static inline uint64_t mr__resident(const uint64_t rss[PTB_RSS_KINDS])
{
	return rss[PTB_RSS_FILE] + rss[PTB_RSS_ANON] + rss[PTB_RSS_SHMEM];
}

/* ---- mem_report_growth.c ---- */

void mr_growth__init(struct mr_growths *g);
/* The value that held until now, used when a period begins or goes on. */
void mr_growth__at(struct mr_growths *g, int64_t step, int64_t time_period, uint64_t value);
/*
 * Bytes per period, the median over all pairs of periods. Not 0 only if most of the change came
 * in several steps that were not undone: neither what was made once counts nor what goes up and
 * down. False: too few periods.
 */
bool mr_growth__slope(const struct mr_growths *g, bool by_step, double *slope);
/*
 * As above, but false when that is less than the value's noise: it must have changed so much over
 * all periods too.
 */
bool mr_growth__noisy_slope(const struct mr_growths *g, bool by_step, double *slope);

/* mem_report.c, for the others */
struct mr_group *mr__group_of(struct mem_report *mr, const struct memory_block *b);
void mr__count_samples(struct mem_report *mr, uint64_t until); /* of /proc, up to a time */
void mr__merge_threads(struct mem_report *mr); /* rows of single threads into those of all */
uint32_t mr__time_period(const struct mem_report *mr, uint64_t ts);

/* ---- conclusions: lists of one process, in the order in which they are to be read ---- */

/* How the process grows beside torch's blocks. per_period 0: it does not, or it is not known. */
struct mr_other {
	double per_period, torch; /* of the resident size, of torch's CPU blocks */
	/* since it runs; with --kernel-memory anonymous is without the heap */
	double heap, anonymous, shared, file;
};

struct mr_view {
	struct mr_proc *proc;
	struct mr_other other;
	uint32_t nr;             /* its number in procs */
	bool by_step;            /* periods are steps, else parts of the window */
	uint32_t periods_before; /* that the window saw, the last one not counted */
	const struct mr_device **devices;
	struct mr_group *leaks; /* copies: some stand for all shapes of an operator */
	const struct mr_group **live;
	const struct mr_kernel **faults, **stalls; /* by bytes brought in, by time stood still */
	const struct mr_api **apis;
	const struct mr_oom **ooms;
	uint32_t device_cnt, leak_cnt, leak_cap, live_cnt, fault_cnt, stall_cnt, api_cnt, oom_cnt;
};

/* Once, after the run: a view of each process. */
struct mr_view *mr_rank__new(struct mem_report *mr);
void mr_rank__free(struct mr_view *views, uint32_t cnt);
/*
 * The `top` groups with the most bytes live at the device's peak, or sums over all shapes of an
 * operator; out has room for them. Returns how many.
 */
uint32_t mr_rank__at_peak(const struct mem_report *mr, const struct mr_device *d, bool by_shapes,
			  struct mr_group *out, uint32_t top);
/* ---- the document ---- */

struct mr_printer {
	struct doc *d;
	const struct mem_report *mr;
	const struct mr_view *v;
};

int mr_doc__finish(void *o, const struct output_args *args);
int mr_doc__headline(void *o, const struct output_args *args); /* what grows, of one process */

/* ---- its sentences: mem_report_say.c ---- */

struct mr_who_text { /* "aten::clone > aten::empty_like in "loss"", " at train.py:31" */
	char text[512], line[PY_TEXT_MAX + 8];
};
struct mr_who_text mr_say__who(const struct mr_printer *p, const struct mr_who *who);
/* Shapes of an operator without tensors among its inputs say nothing: "". */
const char *mr_say__shapes(const struct mr_printer *p, uint32_t id);
void mr_say__head(struct mr_printer *p); /* of a process: what matters most */
void mr_say__growth(struct mr_printer *p);
void mr_say__device(struct mr_printer *p, const struct mr_device *d);
void mr_say__rss(struct mr_printer *p);
/*
 * torch's blocks against the size of the process: what of the difference the kernel's events
 * explain.
 */
void mr_say__balance(struct mr_printer *p);

static inline uint64_t mr__since_begin(const struct mem_report *mr, uint64_t ts)
{
	return ts > mr->info->begin_ns ? ts - mr->info->begin_ns : 0;
}

/*
 * ---- `report --gpu` ----
 *
 * In three steps: gpu_report.c keeps and sums up what it receives, gpu_report_rank.c (busy
 * shares, latencies) and gpu_report_gaps.c (why a device was idle) draw conclusions at the end,
 * gpu_report_graphs.c does both for CUDA graphs, gpu_report_doc.c writes them.
 */

/* A shorter time between two kernels is not a gap: the GPU needs it to start the next one. */
#define GR_GAP_MIN_NS 2000

/*
 * If the host launches within this time after it waited for the GPU, the wait is the cause of the
 * gap.
 */
#define GR_AFTER_SYNC_NS 200000

enum gr_kind { GR_KERNEL, GR_COPY, GR_FILL };

struct gr_work {
	uint64_t begin, end;
	uint64_t launch_begin, launch_end; /* 0: not recorded */
	uint32_t device, stream;
	uint32_t thread; /* that launched it: index, UINT32_MAX: not known */
	enum gr_kind kind;
};

struct gr_span { /* an outermost operator, or an annotation */
	uint64_t begin, end;
	uint32_t name;
};

struct gr_call {
	uint64_t begin, end;
	uint32_t name, op, annotation;
	bool waits; /* for the GPU */
};

struct gr_thread {
	uint32_t tgid, tid;
	struct gr_span *ops, *annotations; /* in order of their ends; operators do not overlap */
	struct gr_call *calls;             /* in order of their begins */
	uint32_t op_cnt, op_cap, annotation_cnt, annotation_cap, call_cnt, call_cap;
};

struct gr_kernel { /* kernels of one name */
	uint32_t name;
	uint64_t cnt, ns, min_ns, max_ns;
	uint32_t op; /* that launches most of its time; computed at the end */
	uint64_t op_ns;
};

struct gr_kernel_op {
	uint32_t kernel, op; /* kernel: index */
	uint64_t cnt, ns;
};

struct gr_copy { /* one direction */
	bool fill;
	uint32_t name, device, to_device;
	uint64_t cnt, bytes, ns, max_ns;
};

struct gr_api { /* calls of one name; waits: by operator and annotation too */
	uint32_t name, op, annotation;
	bool driver, host_only, waits;
	enum gpu_api_kind kind;
	uint64_t cnt, ns, max_ns, bytes, errors, no_result;
};

struct gr_overhead {
	uint32_t name;
	uint64_t cnt, ns;
};

struct gr_stream {
	uint32_t device, stream;
	uint64_t kernels, copies, kernel_ns, work_ns; /* unions, inside the window */
};

struct gr_latency { /* from the end of the launching call to the begin of the work; ns */
	uint64_t cnt, median, p90, p99;
};

/* clang-format off */
#define GR_CAUSES(X)                                                                      \
	X(NO_LAUNCH, "no launch", "the host launched nothing in time")               \
	X(SYNC, "synchronisation", "the host waited for the GPU and launched late")  \
	X(COPY, "copy", "only copies or fills ran")                                       \
	X(LATENCY, "launch latency", "launched, but not started yet")                           \
	X(QUEUED, "queued", "launched before the gap: it waited for other work on the GPU") \
	X(UNKNOWN, "not known", "what ended the gap has no launch in the capture")
/* clang-format on */

enum gr_cause {
#define X(name, text, sentence) GR_BY_##name,
	GR_CAUSES(X)
#undef X
		GR_CAUSE_CNT
};

enum gr_where { GR_IN_PYTHON, GR_IN_OP, GR_IN_CALL, GR_NOWHERE };

struct gr_reason { /* why, and what ran on the launching thread meanwhile */
	enum gr_cause cause;
	enum gr_where where;
	/* what: operator, or call (then op: the operator it was made in) */
	uint32_t what, op, annotation;
};

struct gr_gap {
	uint64_t begin, end;
	uint32_t device;
	struct gr_reason why;
};

struct gr_why { /* gaps of one reason on one device */
	uint32_t device;
	struct gr_reason why;
	uint64_t cnt, ns, max_ns;
};

struct gr_device {
	uint32_t id;
	const struct ptb_gpu_device *props; /* NULL: not known */
	uint64_t kernels, copies, fills;
	uint64_t kernel_ns, work_ns; /* unions, inside the window */
	uint64_t idle_ns, short_ns; /* no kernel ran: in gaps, and in what is too short to be one */
	uint64_t gap_cnt, short_cnt;
	uint64_t cause_ns[GR_CAUSE_CNT], cause_cnt[GR_CAUSE_CNT];
	uint64_t host_ns[GR_NOWHERE + 1];   /* of NO_LAUNCH, by where the host was */
	struct gr_latency idle_stream, all; /* work on a stream that had nothing to do; all work */
	double depth_mean;                  /* work launched and not begun, over time */
	uint64_t depth_max;
	uint64_t first_work, last_work; /* indices of its part of the sorted work */
};

struct gpu_report;
#define GR_UNKNOWN UINT32_MAX

/* work of a graph's nodes that were captured within the same operators and annotations */
struct gr_origin {
	uint32_t graph;      /* gr_graph.nr */
	uint32_t op, within; /* within GR_UNKNOWN: what captured them is not known */
	uint64_t cnt, ns;
};

struct gr_graph { /* executable graph of a process */
	uint32_t nr, tgid, graph;
	uint64_t launches, cnt, ns;
	uint32_t first_origin, origin_cnt; /* in gr_graphs.origins, most time first */
};

struct gr_graphs {
	struct gr_graph *graphs;
	struct gr_origin *origins;
	uint32_t graph_cnt, graph_cap, origin_cnt, origin_cap;
	struct hashmap graph_ids, origin_ids, launches; /* launches: (nr, correlation) */
	uint64_t cnt, ns, unknown;
};

/* A kernel, copy or fill of a graph. */
void gr_graphs__take(struct gpu_report *gr, const struct gpu_slice *g, uint64_t ns);
void gr_graphs__rank(struct gr_graphs *gs);
void gr_graphs__free(struct gr_graphs *gs);

struct gpu_report {
	const struct session *s;
	const struct session_info *info;
	struct text_ids texts;
	struct gr_work *work;
	struct gr_thread *threads;
	struct gr_kernel *kernels;
	struct gr_kernel_op *kernel_ops;
	struct gr_copy *copies;
	struct gr_api *apis;
	struct gr_overhead *overheads;
	uint32_t work_cnt, work_cap, thread_cnt, thread_cap, kernel_cnt, kernel_cap, kernel_op_cnt,
		kernel_op_cap;
	uint32_t copy_cnt, copy_cap, api_cnt, api_cap, overhead_cnt, overhead_cap;
	struct hashmap thread_ids, kernel_ids, kernel_op_ids, copy_ids, api_ids, overhead_ids;
	struct gr_graphs graphs;
	uint64_t kernel_ns; /* sum over all kernels */
	uint64_t unlinked, before_launch;
	uint64_t launches, launch_ns; /* calls that put work on a GPU */
	/* computed by rank and gaps */
	struct gr_device *devices;
	struct gr_stream *streams;
	struct gr_gap *gaps; /* longest first */
	struct gr_why *whys; /* most time first, of all devices */
	uint32_t device_cnt, device_cap, stream_cnt, stream_cap, gap_cnt, gap_cap, why_cnt, why_cap;
	struct hashmap why_ids;
};

#define GR_TEXT(gr, id) text_ids__text(&(gr)->texts, id)

/* Once, after the run: sorts the lists and fills in what rank and gaps compute. */
void gr_rank__all(struct gpu_report *gr);
/* Gaps of one device, whose work is sorted by begin. */
void gr_gaps__find(struct gpu_report *gr, struct gr_device *d);
void gr_gaps__sort(struct gpu_report *gr);

extern const struct gr_cause_row {
	const char *text, *sentence;
} gr_causes[]; /* by enum gr_cause */
/* "CPU work in Python", "aten::add", "cudaMalloc in aten::empty"; into buf, which is returned. */
const char *gr__where_text(const struct gpu_report *gr, char *buf, size_t cap,
			   const struct gr_reason *why);
/*
 * "Memcpy HtoD (Pageable -> Device)", with devices where it is between two; into buf of
 * GR_COPY_MAX bytes.
 */
#define GR_COPY_MAX 160
const char *gr__copy_text(const struct gpu_report *gr, char *buf, const struct gr_copy *c);

int gr_doc__finish(void *o, const struct output_args *args);

static inline uint64_t gr__window_ns(const struct gpu_report *gr)
{
	return gr->info->end_ns > gr->info->begin_ns ? gr->info->end_ns - gr->info->begin_ns : 1;
}

#endif /* REPORT_REPORT_PRIV_H */
