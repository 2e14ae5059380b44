/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python stacks of a capture: distinct frames and distinct stacks, numbered from 1. Read once, before the first
 * slice; session.h has what sinks see of them. Must not know which slice has which stack.
 */
#ifndef MODEL_PY_STACKS_H
#define MODEL_PY_STACKS_H

#include "base/hashmap.h"
#include "model/session.h"

struct facts;
struct strtab;

struct py_stacks {
	struct strtab *frames;       /* struct raw_frame -> number */
	struct py_frame_fact *facts; /* by number - 1; NAME ids */
	uint32_t fact_cap;
	struct strtab *stacks;     /* struct raw_stack -> number */
	struct py_module *modules; /* those whose calls are frames */
	uint32_t module_cnt, module_cap;
	struct hashmap module_ids; /* frame of PTB_PY_CLASS -> index */
	struct hashmap by_id;      /* (tgid, id) -> number; 0: of two different ones */
	uint64_t bad_records;
	bool seen; /* some thread's stack was recorded */
};

/* The records that say what there is. */
void py_stacks__line(struct py_stacks *ps, const struct ptb_py_line *r);
void py_stacks__define(struct py_stacks *ps, const struct ptb_py_stack_def *r);
/* After the last definition, which come in no order: numbers the modules of each class. */
int py_stacks__number_modules(struct py_stacks *ps);
void py_stacks__clear(struct py_stacks *ps);

/* Number of the process's stack; 0: it is not defined, or not clear which one it is. */
uint32_t py_stacks__find(const struct py_stacks *ps, uint32_t tgid, uint64_t id);
/* The id of a stack of which not even the innermost frame could be read. */
bool py_stacks__is_unread(const struct py_stacks *ps, uint32_t tgid, uint64_t id);
struct py_frame py_stacks__frame(const struct py_stacks *ps, const struct facts *f, uint32_t frame);
struct py_stack py_stacks__stack(const struct py_stacks *ps, uint32_t stack);

#endif /* MODEL_PY_STACKS_H */
