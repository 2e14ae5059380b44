/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `report --memory` in four steps: mem_report.c sums up the stream, mem_report_rank.c draws conclusions at its
 * end, mem_report_doc.c and _say.c write them. Private to these.
 */
#ifndef REPORT_MEM_REPORT_PRIV_H
#define REPORT_MEM_REPORT_PRIV_H

#include "base/hashmap.h"
#include "export/py_text.h"
#include "export/text_ids.h"
#include "report/doc.h"
#include "report/mem_report.h"

/* Without steps the window is cut into this many equal periods. */
#define MR_TIME_PERIODS 10

/*
 * What a leak is here: blocks that are still there at the end, from at least MR_LEAK_PERIODS_MIN periods and
 * from more than half of those before the last one. What only the last period left is in use; what a single
 * one left (a cache, the optimizer's state) was made once.
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

/* A value at the end of each period; of many periods every second is forgotten when there is no more room. */
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

/* Blocks that the same operator, in the same annotation, with inputs of the same shapes, asks for. */
struct mr_group {
	uint32_t proc, device;
	struct mr_who who;
	uint32_t shapes;
	uint64_t allocs, alloc_bytes;
	uint64_t live, live_cnt;
	uint64_t peak, peak_cnt; /* live when the device's total was highest; good if peak_seen is its peak_nr */
	uint64_t peak_seen;
	/* at the end, by mem_report_rank.c */
	uint64_t kept, kept_cnt;
	uint64_t kept_before;              /* of kept, from before the last period */
	int64_t first_period, last_period; /* that anything kept is from */
	uint32_t periods, periods_before; /* how many that were, and without the last of the process */
	uint32_t shape_cnt;               /* of a group that stands for all shapes; else 1 */
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
	uint32_t unseen_tid; /* this thread before its first operator, if it has any; 0: of all threads */
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
	bool runs; /* an operator or annotation of it was recorded */
	struct mr_growths growth; /* of the resident size, from then on: what a program imports before is no leak */
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
	uint32_t proc_cnt, proc_cap, device_cnt, device_cap, group_cnt, group_cap, kernel_cnt, kernel_cap;
	uint32_t api_cnt, api_cap, oom_cnt, oom_cap;
	struct py_paths paths;
	struct hashmap line_ids; /* number of a Python stack -> text of its line */
	struct hashmap who_ids; /* (op, outer), (line, annotation) -> small number, so that two words name a group */
	struct hashmap group_ids, kernel_ids;
	struct hashmap proc_ids, device_ids, api_ids; /* process; its number, device; its number, name */
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
 * Bytes per period, the median over all pairs of periods. Not 0 only if most of the change came in several steps that were not
 * undone: neither what was made once counts nor what goes up and down. False: too few periods.
 */
bool mr_growth__slope(const struct mr_growths *g, bool by_step, double *slope);
/* As above, but false when that is less than the value's noise: it must have changed so much over all periods too. */
bool mr_growth__noisy_slope(const struct mr_growths *g, bool by_step, double *slope);

/* mem_report.c, for the others */
/* Is the process, and its device, among those that the report has room for? */
bool mr__has_room(const struct mem_report *mr, uint32_t tgid);
bool mr__has_device_room(const struct mem_report *mr, uint32_t tgid, int32_t type, int32_t index);
struct mr_group *mr__group_of(struct mem_report *mr, const struct memory_block *b); /* NULL: out of memory */
int mr__count_samples(struct mem_report *mr, uint64_t until); /* of /proc, up to a time */
int mr__merge_threads(struct mem_report *mr); /* rows of single threads into those of all; 0 or -ENOMEM */
uint32_t mr__time_period(const struct mem_report *mr, uint64_t ts);

/* ---- conclusions: lists of one process, in the order in which they are to be read ---- */

struct mr_view {
	struct mr_proc *proc;
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

/* Once, after the run. Views are freed with mr_rank__free. 0 or negative errno. */
int mr_rank__new(struct mem_report *mr, struct mr_view **views, uint32_t *cnt);
void mr_rank__free(struct mr_view *views, uint32_t cnt);
/*
 * The `top` groups with the most bytes live at the device's peak, or sums over all shapes of an operator; out
 * has room for them. Returns how many, 0 also when out of memory.
 */
uint32_t mr_rank__at_peak(const struct mem_report *mr, const struct mr_device *d, bool by_shapes,
			  struct mr_group *out, uint32_t top);
/* ---- the document ---- */

struct mr_printer {
	struct doc *d;
	const struct mem_report *mr;
	const struct mr_view *v;
};

/* 0 or negative errno. */
int mr_doc__print(struct mem_report *mr, const struct mr_view *views, uint32_t cnt,
		  struct session_totals *totals, const struct report_opts *opts, FILE *out);

/* ---- its sentences: mem_report_say.c ---- */

struct mr_who_text { /* "aten::clone > aten::empty_like in "loss"", " at train.py:31" */
	char text[512], line[PY_TEXT_MAX + 8];
};
struct mr_who_text mr_say__who(const struct mr_printer *p, const struct mr_who *who);
/* Shapes of an operator without tensors among its inputs say nothing: "". */
const char *mr_say__shapes(const struct mr_printer *p, uint32_t id);
void mr_say__head(struct mr_printer *p); /* of a process: what matters most */
void mr_say__device(struct mr_printer *p, const struct mr_device *d);
void mr_say__rss(struct mr_printer *p);
/* torch's blocks against the size of the process: what of the difference the kernel's events explain. */
void mr_say__balance(struct mr_printer *p);

static inline uint64_t mr__since_begin(const struct mem_report *mr, uint64_t ts)
{
	return ts > mr->info->begin_ns ? ts - mr->info->begin_ns : 0;
}

#endif /* REPORT_MEM_REPORT_PRIV_H */
