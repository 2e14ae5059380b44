/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Runs a small function of an analysed library on paper: registers and stack are known, its arguments
 * are made-up objects whose contents the caller invents, and every read and write of them is noted. What a
 * function returns for each argument, or where in an object it looks, is then known whatever form the
 * compiler gave it. Executes nothing; stops at what it does not understand.
 */
#ifndef CODE_LEAF_RUN_H
#define CODE_LEAF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "code/lib_code.h"

enum leaf_end {
	LEAF_RETURNED,
	LEAF_STOPPED,  /* the call hook wanted it */
	LEAF_NORETURN, /* called what does not come back */
	LEAF_LOST,     /* an instruction, address or condition that is not known */
};

enum leaf_call {
	CALL_FOLLOW, /* or, where it leads out of the file, an unknown result */
	CALL_ZERO,   /* it returns 0, and is not emulated */
	CALL_STOP,
};

/* Objects: addresses that a function may be given; far from everything a file has. */
#define LEAF_OBJ_SIZE 0x100000000ULL
#define LEAF_OBJ(i) (0x7f0000000000ULL + (uint64_t)(i)*LEAF_OBJ_SIZE)
#define LEAF_OBJ_MAX 8
#define LEAF_TLS_MAX 4 /* thread-local blocks, objects of their own from LEAF_OBJ_MAX on */
#define LEAF_READS 64
#define LEAF_STACK 8192
#define LEAF_DEPTH 4

struct leaf_read {
	uint32_t obj;  /* index of LEAF_OBJ; LEAF_OBJ_MAX + n: thread-local block n */
	uint32_t size; /* bytes; 16 for any vector */
	uint64_t off;
};

struct leaf_write {
	uint32_t obj, size; /* as of leaf_read */
	uint64_t off, v;
	bool known; /* v is what was written */
};

struct leaf_run {
	/* Of the caller. */
	struct lib_code *lc;
	struct insn_decoder *dec;
	/* Contents of an object at off; NULL: all zero. */
	uint64_t (*mem)(void *arg, uint32_t obj, uint64_t off, uint32_t size);
	/* Called before each call; name: of an imported or exported function, "" if it has none. */
	enum leaf_call (*on_call)(void *arg, struct leaf_run *r, const char *name);
	void *arg;
	bool guards_made; /* bytes that the file does not have read as 1: guards of static objects */
	bool lenient; /* goes on behind what is not known: straight on at conditions, past calls; reads unknown values */
	uint64_t reg[REG_CNT]; /* set the arguments, read the result */
	/* Results. */
	uint8_t unknown[REG_CNT]; /* masks of bytes of registers that have no known value */
	struct leaf_read reads[LEAF_READS];
	uint32_t read_cnt;
	struct leaf_write writes[LEAF_READS];
	uint32_t write_cnt;
	uint64_t tls_got[LEAF_TLS_MAX]; /* pairs that were passed to __tls_get_addr */
	uint32_t tls_cnt;
	bool int_to_double; /* a conversion was seen */
	/* Scratch. */
	uint64_t at;
	uint32_t depth, steps;
	bool cf, zf, sf, of, flags_known;
	uint8_t stack[LEAF_STACK], stack_known[LEAF_STACK / 8];
};

/* Prepares for a run: all registers 0, nothing read. Keeps what is the caller's. Then runs the function. */
void leaf_run__reset(struct leaf_run *r);
enum leaf_end leaf_run__go(struct leaf_run *r, uint64_t entry);
/* Both, with up to three arguments; entry 0: LEAF_LOST. */
enum leaf_end leaf_run__call(struct leaf_run *r, uint64_t entry, uint64_t arg0, uint64_t arg1,
			     uint64_t arg2);

/* Of the architecture: one instruction that is no branch; false: it is not understood. */
bool leaf_insn__step(struct leaf_run *r, const struct insn *in);
bool leaf_insn__addr(const struct leaf_run *r, const struct insn_operand *o, uint64_t *addr);
bool leaf_run__condition(const struct leaf_run *r, uint8_t cond);

/* For the architecture. */
bool leaf_run__push(struct leaf_run *r, uint64_t v, bool known);
bool leaf_run__pop(struct leaf_run *r, uint64_t *v, bool *known);
/* false: not readable at all; *known: with a known value. */
bool leaf_run__load(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v, bool *known);
/* Contents of the stack, which belongs to the run; false: out of it, or not known. */
bool leaf_run__stack(const struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t *v);
bool leaf_run__store(struct leaf_run *r, uint64_t addr, uint32_t size, uint64_t v, bool known);

#endif /* CODE_LEAF_RUN_H */
