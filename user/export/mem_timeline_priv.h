/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the formats of the memory timeline share; private to mem_timeline*.c. */
#ifndef EXPORT_MEM_TIMELINE_PRIV_H
#define EXPORT_MEM_TIMELINE_PRIV_H

#include "export/output.h"
#include "model/mem_flow.h"

struct timeline_owner {                     /* where blocks came from; texts of the session */
	const char *op, *annotation, *line; /* line: "": not known */
};

/* The rows of one device. */
struct timeline_device {
	int16_t type, index;
	char name[32];
	uint64_t max_allocated, max_reserved; /* as its allocator reported; 0: it does not */
};

struct timeline {
	const struct session *s;
	uint32_t tgid;
	const char *headline; /* lines; "": none */
	const struct mem_row *rows;
	uint32_t row_cnt;
	struct timeline_device device;
	const struct timeline_owner *owners; /* by mem_row.owner; [0]: from before the window */
	uint32_t owner_cnt;
	struct mem_flow_account account;
};

/* The sizes of all categories from a time on, one for each time at which they change. */
struct timeline_walk {
	const struct timeline *tl;
	uint32_t at;
	uint64_t unit_ns; /* of times */
	uint64_t t;       /* in units, CLOCK_MONOTONIC; 0: before all */
	int64_t sizes[MEM_CATEGORY_CNT], total;
};

void timeline_walk__begin(struct timeline_walk *w, const struct timeline *tl, uint64_t unit_ns);
bool timeline_walk__next(struct timeline_walk *w);
bool timeline__is_row(const struct timeline *tl, const struct mem_row *r);
/* Time of the first thing that happened on the device, ns; 0: nothing but what was there before. */
uint64_t timeline__first_ns(const struct timeline *tl);

/* mem_timeline_html.c: 0 or negative errno. */
int timeline__write_html(const struct timeline *tl, const struct session_totals *totals,
			 struct out_file *of);

#endif /* EXPORT_MEM_TIMELINE_PRIV_H */
