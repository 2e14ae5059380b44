/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the tests of the argument interpreter share: one program, one run, objects, expected words. */
#ifndef TESTS_ARG_EXPECT_H
#define TESTS_ARG_EXPECT_H

#include "arg_arena.h"

extern struct ptb_proc_cfg cfg;
extern struct ptb_arg_prog prog;
extern uint64_t w[PTB_LOC_CNT]; /* words of the call */
extern struct payload out;
extern uint32_t at; /* word of `out` that is checked next */

void begin(bool old);
struct ptb_arg_op *add_op(uint8_t op);
void run(bool full);
void run_as(enum arena_run what, uint64_t a, uint64_t b, bool full);

uint64_t head(uint8_t kind, uint8_t flags, uint16_t aux, uint32_t n);
struct ptb_val first_val(void);
void expect(uint64_t word);
void expect_val(uint8_t kind, uint16_t aux, uint32_t n);
void expect_int(uint64_t v);
void expect_end(void); /* nothing more, nothing cut, and the model's walk agrees */

struct shape {
	uint32_t ndim;
	int64_t sizes[20], strides[20];
	int64_t offset, numel;
	uint8_t dtype, device, index;
};
extern const struct shape matrix;

uint64_t put_impl(const struct shape *s); /* a TensorImpl; its address */
uint64_t put_word(uint64_t word);
void expect_tensor(const struct shape *s, uint64_t impl, bool full);

#endif /* TESTS_ARG_EXPECT_H */
