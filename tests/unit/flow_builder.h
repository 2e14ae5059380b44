/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Builds what a session reports of memory and operators, for tests of the data flow, and writes its rows as a
 * text. A block is a letter: 'a' lives at 0x1000 and has 4 bytes, 'b' at 0x2000 and has 8, ... Time goes on by
 * one with each call.
 */
#ifndef TESTS_FLOW_BUILDER_H
#define TESTS_FLOW_BUILDER_H

#include "model/mem_flow.h"

#define FLOW_MUL "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
#define FLOW_MUL_ "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
#define FLOW_ADD_                                                                                  \
	"aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
#define FLOW_SUM "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"
#define FLOW_DETACH "aten::detach(Tensor(a) self) -> Tensor(a)"

#define FLOW_ANNOTATION_NS 50
#define FLOW_BACKWARD 1 /* scopes */
#define FLOW_FUNCTION 0

void flow__begin(void);
/* An operator within `parent` (0: none) that does nothing more by itself; its id. args: "x y* [a b] -": tensors,
 * y is an nn.Parameter, a list, None. schema: "" for none. */
uint64_t flow__op(uint64_t parent, const char *name, const char *schema, const char *args);
uint64_t flow__backward(uint64_t parent, const char *name, const char *args);
/* One of FLOW_ANNOTATION_NS, which flow__wait() waits for. flags: SLICE_* */
uint64_t flow__annotation(uint64_t parent, const char *name, uint32_t flags);
void flow__wait(void);
/* An operator given `before` that returns the same tensor with the block `after`, allocated within. */
void flow__resize(char before, char after);
void flow__alloc(uint64_t within, char block);
void flow__free(uint64_t within, char block);
/* A free whose size is not reported. */
void flow__free_unknown(char block);

/*
 * "pre x INPUT; new z ACTIVATION; inc w PARAMETER>PARAMETER; end z ACTIVATION": at one time in order of bytes.
 * Until the next call. Ends the flow.
 */
const char *flow__rows(void);
/* The category of a block's only row of this kind ("pre", "new", "end"). */
const char *flow__category(const char *rows, const char *what, char block);
struct mem_flow_account flow__account(void); /* of the last one */

#endif /* TESTS_FLOW_BUILDER_H */
