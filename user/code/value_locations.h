/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a value is, for certain: a forward must-analysis of one function. BPF sees no vector registers,
 * so a double that came in one is read where the function keeps it across a call; and a result that
 * was returned in a register is read where it is at the exit site. Follows moves between registers
 * and slots of the frame; what is overwritten, or differs between two paths, is lost.
 */
#ifndef CODE_VALUE_LOCATIONS_H
#define CODE_VALUE_LOCATIONS_H

#include "code/flow.h"

#define VALUE_NO_FRAME INT32_MIN

#define VALUES_MAX 8
#define VALUE_SLOTS 32

struct value_state {
	uint64_t at[VALUES_MAX]; /* locations: 16 vector, 16 general registers, 32 slots */
	int32_t sp, bp;          /* rsp and rbp less rsp at the entry; VALUE_NO_FRAME: not known */
	bool seen;
};

struct value_locations {
	struct value_state *in; /* by node: before its instruction */
	uint32_t cap;
	uint32_t *queue, queue_cap;
	uint8_t *queued;
	int32_t slots[VALUE_SLOTS];
	uint32_t slot_cnt;
	int32_t size;    /* of the values that are followed */
	uint64_t pushed; /* slots that a push wrote: a callee may change its arguments */
};

/* What to follow from where: value i is in location[i] before node `start`. */
struct value_seeds {
	uint32_t start;
	int32_t sp, bp; /* there */
	uint32_t cnt;
	uint8_t location[VALUES_MAX]; /* VALUE_XMM(r), VALUE_GPR(r), VALUE_SLOT */
	uint8_t size;                 /* bytes of each that count */
	int32_t slot;                 /* VALUE_SLOT: less rsp at the entry */
};
#define VALUE_XMM(r) (r)
#define VALUE_GPR(r) (16 + (r))
#define VALUE_SLOT 32

void value_locations__free(struct value_locations *v);
/* Analyses the part of the function that can be reached from there. */
int value_locations__run(struct value_locations *v, const struct flow *f, const struct value_seeds *seeds);

struct value_location {
	bool in_memory;
	uint8_t reg; /* encoding number: the register, or the base of the slot (RSP, RBP) */
	int32_t disp;
};

/* A location that the kernel lets a probe on that node read: a slot, else a register that calls keep. */
bool value_locations__find(const struct value_locations *v, uint32_t node, uint32_t value,
			   struct value_location *out);
/* Is the value in this location there? */
bool value_locations__is_at(const struct value_locations *v, uint32_t node, uint32_t value,
			    uint8_t location);

/* Is the value in the stack word so far above rsp there? */
bool value_locations__is_on_stack(const struct value_locations *v, uint32_t node, uint32_t value,
				  int32_t above);

/* Does the instruction load this location from a slot of the frame? *slot: as in value_seeds. */
bool value_locations__loads(const struct value_locations *v, const struct flow *f, uint32_t node,
			    uint8_t location, int32_t *slot);

#endif /* CODE_VALUE_LOCATIONS_H */
