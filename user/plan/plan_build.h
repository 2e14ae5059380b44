/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A plan while it is made: grows its tables, and analyses one function at a time with scratch memory
 * that is kept between functions. Knows what a site is, not which functions deserve one.
 */
#ifndef PLAN_PLAN_BUILD_H
#define PLAN_PLAN_BUILD_H

#include "code/exit_sites.h"
#include "plan/lib_plan.h"
#include "plan/torch_names.h"

struct plan_build {
	struct torch_plan *plan;
	uint32_t func_cap, site_cap, class_cap, prog_cap;
	struct hashmap progs; /* hashes of an argument program -> index + 1 */
	struct flow flow, aux;
	struct exit_finder finder;
	struct lib_code *lc;      /* library that is being analysed */
	enum torch_lib_role role; /* of it */
	uint32_t seq_func; /* index + 1 of the function whose calls are probed instead (seq_sites.c) */
};

void plan_build__init(struct plan_build *b, struct torch_plan *plan);
void plan_build__free(struct plan_build *b);

/* Appends a function; the name is copied. addr 0: this build lacks it, and the user learns of that. */
void plan_build__func(struct plan_build *b, const char *name, uint64_t addr,
		      enum ptb_func_kind kind, enum ptb_refusal reason);
/* Index of the function that was appended last. */
static inline uint32_t plan_build__last(const struct plan_build *b)
{
	return b->plan->func_cnt - 1;
}
/* Appends a site at an instruction; args: as of struct plan_site. */
int plan_build__site(struct plan_build *b, uint32_t func, const struct insn *in, enum ptb_prog prog,
		     enum ptb_site_role role, uint32_t args);
/* Appends the exits, if there are any, of the last function. */
int plan_build__exits(struct plan_build *b, const struct exit_sites *ex, enum ptb_prog prog,
		      uint32_t args);
void plan_build__class(struct plan_build *b, uint64_t addr, const char *name);
void plan_build__caller(struct plan_build *b, uint64_t addr, const char *name);
/* Keeps an argument program once; *args: what its sites say. */
void plan_build__prog(struct plan_build *b, const struct ptb_arg_prog *prog, uint32_t *args);
/* Sorts the sites; of two at the same place the first function keeps it. */
void plan_build__sort_sites(struct torch_plan *plan);

/* Builds the graph in b->flow and finds the entry's site (entry_site__find). *why: NONE, or why there is none. */
void plan_build__entry(struct plan_build *b, uint64_t addr, uint32_t args, uint32_t *node,
		       enum ptb_refusal *why);

/* Marks in b->finder.work the calls of b->flow whose end is the function's end. */
typedef void (*mark_work_fn)(struct plan_build *b);

/* How one function is to be probed. */
struct func_probe {
	const char *name;
	uint64_t entry;
	enum ptb_func_kind kind;
	enum ptb_prog enter;
	mark_work_fn mark; /* NULL: entry only (role POINT) */
};

/* Analyses the function and adds it with its sites, or with the reason why it has none. Leaves its graph in b->flow
 * when the reason is NONE or NO_EXIT. */
int plan_build__probe(struct plan_build *b, const struct func_probe *fp);
/* The same with b->flow built already; why: what building it said. */
int plan_build__probe_built(struct plan_build *b, const struct func_probe *fp, enum ptb_refusal why);

/* The rule for dispatched functions: after getStepCallbacksUnlessEmpty, indirect calls and calls of
 * functions that construct a RecordFunction from its result (the slow path). */
void plan_build__mark_kernel_calls(struct plan_build *b);
/* Marks what is reachable from calls with one of the flags and is itself a call with `work`. */
void plan_build__mark_after(struct plan_build *b, uint32_t anchors, uint32_t work, bool indirect);

#endif /* PLAN_PLAN_BUILD_H */
