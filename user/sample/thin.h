/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What windows record when they may not cost enough for all that was requested: a state machine over what windows have cost and
 * what the next one may cost. Knows no clock and no process.
 */
#ifndef SAMPLE_THIN_H
#define SAMPLE_THIN_H

#include <stdbool.h>
#include <stdint.h>

/*    name     text */
#define THIN_LEVELS(X)                                                                             \
	X(FULL, "")                                                                                \
	X(NAMES, "names only")                                                                     \
	X(SAMPLES, "samples of Python stacks only")

enum thin_level {
#define X(name, text) THIN_##name,
	THIN_LEVELS(X)
#undef X
		THIN_LEVEL_CNT
};

struct thin_cost {
	bool known;
	double fixed_ns; /* placing and removing the probes */
	double share;    /* of the window's time */
};

struct thin { /* zeroed, then thin__allow() */
	enum thin_level level;
	bool allowed[THIN_LEVEL_CNT];
	uint32_t short_cnt;  /* windows in a row that could not be of use */
	uint32_t failed_cnt; /* windows in a row that were not recorded */
	struct thin_cost cost[THIN_LEVEL_CNT];
};

/* Nothing is known yet; names, samples: whether they are less than what was requested. */
void thin__allow(struct thin *t, bool names, bool samples);
/* Will a window of the present level cost no more than this before it begins? */
bool thin__may_begin(const struct thin *t, double allowed_ns);
/* The level of the next window, which may cost so much and is to last so long. */
enum thin_level thin__next(struct thin *t, double allowed_ns, uint64_t window_ns);
/* A window of that level lasted window_ns and has cost before_ns until it began, and cost_ns until its probes were gone. */
void thin__learn(struct thin *t, enum thin_level level, double window_ns, double before_ns,
		 double cost_ns);
/* A window of that level could not be recorded at all: after some of them in a row it is not chosen again. */
void thin__failed(struct thin *t, enum thin_level level);

const char *thin__text(enum thin_level level);

#endif /* SAMPLE_THIN_H */
