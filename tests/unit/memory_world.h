/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A made-up training process whose memory events go to a sink: blocks with their operators, totals as the model
 * would keep them, what is live at the end. For tests of readers of memory events.
 */
#ifndef TESTS_MEMORY_WORLD_H
#define TESTS_MEMORY_WORLD_H

#include "fake_session.h"

#define WORLD_BLOCKS 4096

struct world {
	struct session s;
	struct session_sink sink;
	struct memory_block live[WORLD_BLOCKS];
	uint32_t live_cnt;
	uint64_t now, next_addr, allocated;
	uint32_t tgid, tid;
	int64_t step;
	const char *op, *outer, *annotation, *shapes; /* of what comes next */
	uint64_t rss[PTB_RSS_KINDS];
};

void world__init(struct world *w, uint32_t tgid);
void world__place(struct world *w, const char *outer, const char *op, const char *annotation,
		  const char *shapes);
/* Each takes 1 us, reported to w->sink. */
uint64_t world__alloc(struct world *w, uint64_t bytes); /* address */
void world__free(struct world *w, uint64_t addr);
void world__free_unknown(struct world *w);
void world__oom(struct world *w, uint64_t bytes);
void world__api(struct world *w, const char *name, uint64_t bytes, uint64_t ns);
/* A KMEM record: rec's header, times and resident size are filled in from the world. */
void world__kmem(struct world *w, const struct ptb_kmem *rec);
void world__stall(struct world *w, uint64_t ns);
void world__oom_kill(struct world *w, uint64_t pages);
/* Blocks that are live are the session's from now on. */
void world__end(struct world *w);

/*
 * Steps of a loop of 20 ms each, from w->now on: forward, backward, a prefetch queue two deep, state made in the
 * first one. leak: bytes that an operator keeps in each step, 0: none.
 */
void world__train(struct world *w, uint32_t steps, uint64_t leak);

#endif /* TESTS_MEMORY_WORLD_H */
