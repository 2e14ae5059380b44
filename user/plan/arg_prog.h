/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Compiles the argument program (ptb_args.h) of one operator from its schema and the locations of its C++
 * parameters. What torch would box an argument into decides what a value is read as. What has no known
 * location becomes UNKNOWN and is counted; nothing is guessed.
 */
#ifndef PLAN_ARG_PROG_H
#define PLAN_ARG_PROG_H

#include "plan/arg_types.h"
#include "args/schema_text.h"

#define ARG_LATE_MAX 8 /* vector registers that carry arguments */

/* A result that is returned in a register: it must be read at the exit. */
enum arg_result {
	ARG_RESULT_NONE,
	ARG_RESULT_BYTE, /* al */
	ARG_RESULT_WORD, /* rax */
	ARG_RESULT_XMM,  /* xmm0 */
};

struct arg_compiled {
	struct ptb_arg_prog prog;
	uint16_t unplaced;
	uint8_t result;                /* enum arg_result; the program's first result then */
	uint32_t late_cnt;             /* doubles in vector registers */
	uint8_t late_op[ARG_LATE_MAX]; /* by vector register: index into prog.ops */
};

/* Do the parameters fit the schema? The same operator may be written down with int and with SymInt.
 * Returns in how many small things they differ; -1: it is another function's. */
int arg_prog__fits(const struct schema *s, const struct arg_type *types, uint32_t cnt);

/* Compiles. false: too many arguments, or no schema (s NULL): out->unplaced says how many it has. */
bool arg_prog__compile(const struct schema *s, const struct arg_type *types, uint32_t cnt,
		       struct arg_compiled *out);

/* Where a double is at the late site: in a register (in_memory false) or at register + disp. */
struct arg_late_location {
	bool found, in_memory;
	uint8_t reg; /* enum ptb_arg_reg */
	int32_t disp;
};

/*
 * Makes the late site's program from the locations of all late doubles. Those that were not found become
 * UNKNOWN at the entry; the rest are numbered in the order of the entry's program.
 */
void arg_prog__late(struct arg_compiled *c, const struct arg_late_location *locations,
		    struct ptb_arg_prog *late);
/* The result is in the frame at the exit, so far above rsp. */
void arg_prog__result_slot(struct arg_compiled *c, uint16_t disp);
/* Gives up the result that is returned in a register. */
void arg_prog__no_result(struct arg_compiled *c);

#endif /* PLAN_ARG_PROG_H */
