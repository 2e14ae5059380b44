/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The control-flow graph of one function, instruction by instruction: everything that normal
 * execution can reach from its entry, through its `.cold` part and its jump tables. Exception
 * handlers are reached by unwinding only and are therefore not in it. Chooses nothing.
 */
#ifndef CODE_FLOW_H
#define CODE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "code/arch.h"
#include "ptb_event.h"

/* What a range of code is to the function that jumps into it. */
enum code_range {
	CODE_NONE,    /* no code there, or no bounds known */
	CODE_COLD,    /* the `.cold` part of a function */
	CODE_FUNC,    /* another function */
	CODE_UNKNOWN, /* one of the two (stripped file) */
};

/* Where the analysis gets bytes and its knowledge of other functions. */
struct code_src {
	void *arg;
	/* Bytes at addr if it is executable; *avail: how many. NULL: none. */
	const uint8_t *(*text)(void *arg, uint64_t addr, uint64_t *avail);
	/* Bytes of constant data (jump tables). */
	const uint8_t *(*data)(void *arg, uint64_t addr, uint64_t len);
	enum code_range (*range)(void *arg, uint64_t addr, uint64_t *start, uint64_t *end);
	/* Can a call of this address come back? */
	bool (*returns)(void *arg, uint64_t callee);
};

#define FLOW_NONE UINT32_MAX
#define FLOW_PARTS_MAX 8
#define FLOW_SIZE_MAX (256 * 1024) /* bytes of code of one function */
#define FLOW_TABLE_MAX 1024        /* entries of one jump table */

struct flow_node {
	struct insn in;
	uint32_t fall;  /* node that follows, FLOW_NONE */
	uint32_t jump;  /* node of the branch's target, FLOW_NONE */
	uint32_t table; /* first index into flow.targets; FLOW_NONE */
	uint32_t table_cnt;
	uint32_t prev; /* node from which this one is reached by falling through, FLOW_NONE */
	bool own;      /* in the function or its .cold part: nobody else runs it */
	bool leaves;   /* a jump to another function (in.target) */
};

struct flow_part {
	uint64_t start, end;
	uint32_t idx_at; /* into flow.idx_mem, by offset: node + 1, 0 none */
	bool own;
};

struct flow {
	struct flow_node *nodes;
	uint32_t cnt, cap;
	uint32_t *targets; /* nodes, of jump tables */
	uint32_t target_cnt, target_cap;
	uint32_t *pred_at, *preds; /* preds[pred_at[n] .. pred_at[n + 1]): predecessors of n */
	struct flow_part parts[FLOW_PARTS_MAX];
	uint32_t part_cnt;
	/* scratch, kept between functions */
	uint32_t *work;
	uint32_t work_cnt, work_cap, preds_cap, pred_at_cap;
	uint32_t *idx_mem;
	uint32_t idx_cap, idx_used;
	struct insn_decoder *dec;
	const struct code_src *src;
};

void flow__init(struct flow *f);
void flow__free(struct flow *f);

/*
 * Builds the graph of the function at entry; the previous one is gone. *why: PTB_REFUSE_NONE, or
 * why the function cannot be analysed (COMPUTED_JUMP, UNDECODED, TOO_LARGE).
 */
void flow__build(struct flow *f, const struct code_src *src, uint64_t entry, enum ptb_refusal *why);

/* Node at an address, FLOW_NONE. */
uint32_t flow__at(const struct flow *f, uint64_t addr);

/*
 * Marks as FLOW_SEEN in seen[0..cnt) all nodes reachable from those marked so (forward or
 * backward). A path ends at a node that the caller marked as FLOW_STOP, which keeps that mark.
 */
enum { FLOW_SEEN = 1, FLOW_STOP = 2 };
void flow__reach(struct flow *f, uint8_t *seen, bool backward);

/* Can a marked node follow at once? */
bool flow__leads_to(const struct flow *f, uint32_t node, const uint8_t *marks);

/* Successors of n are flow__succ(f, n, 0 .. FLOW_SUCC_MAX(n) - 1), some of them FLOW_NONE. */
#define FLOW_SUCC_MAX(n) (2 + (n)->table_cnt)
static inline uint32_t flow__succ(const struct flow *f, const struct flow_node *n, uint32_t i)
{
	if (i == 0)
		return n->fall;
	if (i == 1)
		return n->jump;
	return f->targets[n->table + i - 2];
}

/*
 * What a register holds before an instruction, as far as the code just before it says: an address
 * (fixed, of code or data), a constant, or unknown. Follows one path backwards, so the caller must
 * treat the answer as evidence, not proof.
 */
enum reg_value { VALUE_UNKNOWN, VALUE_CONST, VALUE_ADDR };

enum reg_value flow__value_before(const struct flow *f, uint32_t node, uint8_t reg, int64_t *value);

#endif /* CODE_FLOW_H */
