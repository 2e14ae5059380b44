/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where to probe a function so that every normal return is seen exactly once, without a return probe:
 * a smallest set of emulated instructions that every path from the work to a return crosses once.
 * Pure analysis of a graph; places nothing.
 */
#ifndef CODE_EXIT_SITES_H
#define CODE_EXIT_SITES_H

#include "code/flow.h"

#define EXIT_SITES_MAX 4 /* more sites than this are refused: the function has no common end */

struct exit_sites {
	uint32_t nodes[EXIT_SITES_MAX]; /* of the graph */
	uint32_t cnt;
	enum ptb_refusal why; /* NONE: cnt >= 1 */
};

struct exit_finder {
	uint8_t *work; /* by node, set by the caller: this call or jump is what is to be measured */
	uint8_t *late;
	uint8_t *last;                     /* work behind which there is no more */
	uint32_t *cls, *low, *num, *stack; /* classes of program points; Tarjan's numbers */
	int32_t *net;
	uint32_t cap;
};

void exit_finder__free(struct exit_finder *x);

/* Room for the graph; clears `work`. Call before marking. */
void exit_finder__prepare(struct exit_finder *x, const struct flow *f);

/*
 * Finds the sites of the graph's function. x->work must mark the calls whose end is to be measured;
 * jumps into other functions count as such calls unless `cheap_tail` says that what they run does
 * not matter (it frees memory). The result, or why there is none, in *out.
 */
void exit_sites__find(struct exit_finder *x, struct flow *f,
		      bool (*cheap_tail)(void *arg, uint64_t target), void *arg, struct exit_sites *out);

/*
 * The same for a function in which some paths do no work: they may cross one site or none. Every path from the last
 * work to a return crosses one, and no work follows a site. Only what x->work marks is work: the caller decides about
 * jumps into other functions, and stores, too.
 */
void exit_sites__after_work(struct exit_finder *x, struct flow *f, struct exit_sites *out);

/*
 * The first emulated instruction after the entry with the arguments of the mask (1 << number) in their registers, and
 * the stack pointer if it is all of them, as the caller left them, on every path. Its node, FLOW_NONE if there is none.
 */
#define ENTRY_ALL_ARGS ((1u << ARCH_ARGS) - 1)
uint32_t entry_site__find(const struct flow *f, uint64_t entry, uint32_t args);

#endif /* CODE_EXIT_SITES_H */
