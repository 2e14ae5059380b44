/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Windows that begin with a step whose number is a multiple of another: which one, and when, by the numbers of the steps that have ended. Several
 * ptbpf that follow the ranks of one job choose the same step, without a word between them. Times are CLOCK_MONOTONIC, in ns;
 * knows no clock and no process.
 */
#ifndef SAMPLE_STEP_MULTIPLE_H
#define SAMPLE_STEP_MULTIPLE_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_MULTIPLE_MAX 1000000000ULL

/*    name          what a client reads */
#define STEP_MULTIPLE_FAILURES(X)                                                                            \
	X(NONE, "")                                                                                          \
	X(NO_STEP, "no step ended within 60 s")                                                              \
	X(STALLED, "no step with a higher number ended within 60 s")                                         \
	X(NO_NUMBER,                                                                                         \
	  "steps end in it, but have no numbers: annotations ProfilerStep#N, or NAME#N with --step-on NAME") \
	X(TOO_FAR, "the next multiple is more than an hour ahead")

enum step_multiple_failure {
#define X(name, text) STEP_MULTIPLE_##name,
	STEP_MULTIPLE_FAILURES(X)
#undef X
		STEP_MULTIPLE_FAILURE_CNT
};
const char *step_multiple__text(enum step_multiple_failure why);

struct step_multiple {     /* zeroed, but for these */
	uint64_t multiple; /* > 0 */
	uint64_t since_ns; /* steps are followed from then on */
	/* read by the caller */
	uint64_t target;   /* the step to begin with; 0: not known */
	uint64_t begin_ns; /* of the window: the end of a step; 0: it has not come */
	uint64_t began;    /* the first whole step from then on */
	/* private */
	uint64_t partial; /* steps that a window has a part of before its first whole one can be known: 1 where steps are derived */
	uint64_t first, last, first_ns, last_ns, keep_ns;
	uint64_t numbered, others; /* steps that ended, with a number and without */
};

/*
 * A step ended; own: its annotation is the step, else it ends it, and the next one begins with the end of an annotation that is in the window;
 * number NUMBERED_NONE: it has none. In the order of time.
 */
void step_multiple__ended(struct step_multiple *sm, bool own, uint64_t number, uint64_t end_ns);
/* Nothing can come of it any more. */
enum step_multiple_failure step_multiple__failed(const struct step_multiple *sm, uint64_t now_ns);
/*
 * The step to begin with is chosen, once its time is known: the first that cannot begin within lead_ns. True: it may begin within lead_ns
 * from now on.
 */
bool step_multiple__is_near(struct step_multiple *sm, uint64_t lead_ns, uint64_t now_ns);
/*
 * It begins so soon that records are to be kept from now on; when it is too late for that, the next multiple is chosen. Called
 * before each round of ended steps' records is read, until it is true.
 */
bool step_multiple__keep(struct step_multiple *sm, uint64_t now_ns);

#endif /* SAMPLE_STEP_MULTIPLE_H */
