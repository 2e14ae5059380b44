/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Collects what a pass reports of memory, and writes the records of it; for tests of the model. */
#ifndef TESTS_MEM_LOG_H
#define TESTS_MEM_LOG_H

#include "capture_builder.h"
#include "model/session.h"

enum { P = 10 }; /* the process */

struct told_event {
	struct memory_event ev;
	struct memory_block block; /* when ev.block was not NULL */
	uint32_t in_words;         /* of the operator's inputs */
	uint32_t kmem;             /* kind of a kernel event, 0: memory */
};

struct mem_log {
	struct told_event *v;
	uint32_t cnt, cap;
	uint32_t threads, bogus_threads;
	struct session_totals totals;
};

struct live_log {
	struct memory_block v[16];
	uint32_t cnt;
};

/* A pass; owned by the caller. */
struct mem_log *mem_log__run(struct session *s);
void mem_log__free(struct mem_log *log);
/* A capture of process P with allocations, kernel memory and shapes. */
struct builder *mem_log__recorded(void);
struct live_log mem_log__live(struct session *s);

void mem_log__report(struct builder *b, uint8_t kind, uint64_t ts, uint64_t addr, int64_t bytes,
		     int32_t type, int32_t index);
void mem_log__kmem(struct builder *b, uint64_t ts, uint32_t minor, uint32_t major, int64_t rss_delta);

#endif /* TESTS_MEM_LOG_H */
