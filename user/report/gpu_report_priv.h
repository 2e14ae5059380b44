/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --gpu` in three steps: gpu_report.c keeps and sums up what it receives, gpu_report_rank.c (busy shares, latencies)
 * and gpu_report_gaps.c (why a device was idle) draw conclusions at the end, gpu_report_graphs.c does both for CUDA
 * graphs, gpu_report_doc.c writes them. Private to these.
 */
#ifndef REPORT_GPU_REPORT_PRIV_H
#define REPORT_GPU_REPORT_PRIV_H

#include "base/hashmap.h"
#include "export/gpu_api.h"
#include "export/text_ids.h"
#include "report/gpu_report.h"

/* A shorter time between two kernels is not a gap: the GPU needs it to start the next one. */
#define GR_GAP_MIN_NS 2000

/* If the host launches within this time after it waited for the GPU, the wait is the cause of the gap. */
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
	uint32_t what, op, annotation; /* what: operator, or call (then op: the operator it was made in) */
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

struct gr_origin { /* work of a graph's nodes that were captured within the same operators and annotations */
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

/* A kernel, copy or fill of a graph. 0 or -ENOMEM. */
int gr_graphs__take(struct gpu_report *gr, const struct gpu_slice *g, uint64_t ns);
int gr_graphs__rank(struct gr_graphs *gs);
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
	struct hashmap device_ids; /* those with work */
	bool ranked;
};

#define GR_TEXT(gr, id) text_ids__text(&(gr)->texts, id)

/* After the run: sorts the lists and fills in what rank and gaps compute. 0 or negative errno. */
int gr_rank__all(struct gpu_report *gr);
/* Gaps of one device, whose work is sorted by begin. */
int gr_gaps__find(struct gpu_report *gr, struct gr_device *d);
int gr_gaps__sort(struct gpu_report *gr);

extern const struct gr_cause_row {
	const char *text, *sentence;
} gr_causes[]; /* by enum gr_cause */
/* "CPU work in Python", "aten::add", "cudaMalloc in aten::empty"; into buf, which is returned. */
const char *gr__where_text(const struct gpu_report *gr, char *buf, size_t cap,
			   const struct gr_reason *why);
/* "Memcpy HtoD (Pageable -> Device)", with devices where it is between two; into buf of GR_COPY_MAX bytes. */
#define GR_COPY_MAX 160
const char *gr__copy_text(const struct gpu_report *gr, char *buf, const struct gr_copy *c);

/* 0 or negative errno. */
int gr_doc__print(struct gpu_report *gr, struct session_totals *totals,
		  const struct report_opts *opts, FILE *out);

static inline uint64_t gr__window_ns(const struct gpu_report *gr)
{
	return gr->info->end_ns > gr->info->begin_ns ? gr->info->end_ns - gr->info->begin_ns : 1;
}

#endif /* REPORT_GPU_REPORT_PRIV_H */
