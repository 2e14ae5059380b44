/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where values are: small functions in assembler with one thing each that keeps or destroys a double.
 * Every one has a nop (the query is for the state before it) and the expected locations of xmm0 and xmm1 there.
 */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "code/x86_64.h"
#include "suite.h"

__asm__(".pushsection .text\n"
	"code_begin:\n"
	/* 0: spilled, over a call, by rsp and by rbp */
	"f0: push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; movsd %xmm0,0x8(%rsp); movsd %xmm1,-0x8(%rbp);"
	"call callee; nop; leave; ret\n"
	/* 1: the slot of xmm0 is overwritten, in part */
	"f1: sub $0x18,%rsp; movsd %xmm0,(%rsp); movsd %xmm1,8(%rsp); movb $0,7(%rsp); nop; ret\n"
	/* 2: lost on one of two paths */
	"f2: sub $0x18,%rsp; movsd %xmm0,(%rsp); movsd %xmm1,8(%rsp); test %edi,%edi; je 1f;"
	"movq $0,(%rsp); 1: call callee; nop; ret\n"
	/* 3: through general registers that calls keep, and that they do not */
	"f3: movq %xmm0,%rbx; movq %xmm1,%rcx; mov %rbx,%r12; call callee; xor %ebx,%ebx; nop; ret\n"
	/* 4: unpcklpd keeps the low half; sqrtsd does not */
	"f4: sub $0x18,%rsp; unpcklpd %xmm1,%xmm0; sqrtsd %xmm1,%xmm1; movaps %xmm0,(%rsp);"
	"movsd %xmm1,16(%rsp); nop; ret\n"
	/* 5: a move of four bytes is none of a double */
	"f5: sub $0x18,%rsp; movss %xmm0,(%rsp); movd %xmm0,%ebx; movsd %xmm1,8(%rsp); nop; ret\n"
	/* 6: memory below the stack pointer may be overwritten */
	"f6: sub $0x18,%rsp; movsd %xmm0,(%rsp); movsd %xmm1,0x10(%rsp); add $0x10,%rsp; push %rax;"
	"sub $8,%rsp; nop; ret\n"
	/* 7: an indexed store into the frame may hit anything; one elsewhere does not */
	"f7: sub $0x18,%rsp; movsd %xmm0,(%rsp); mov %rax,(%rdi,%rcx,8); movsd %xmm1,%xmm2;"
	"mov %rax,(%rsp,%rcx,8); movsd %xmm2,8(%rsp); nop; ret\n"
	/* 8: a loop that swaps the two has no location for either */
	"f8: sub $0x18,%rsp; movsd %xmm0,(%rsp); movsd %xmm1,8(%rsp); 1: mov (%rsp),%rax;"
	"mov 8(%rsp),%rcx; mov %rcx,(%rsp); mov %rax,8(%rsp); dec %edi; jne 1b; nop; ret\n"
	/* 9: behind an alignment of rsp a store by it may hit anything; one by rbp does not */
	"f9: push %rbp; mov %rsp,%rbp; sub $0x20,%rsp; movsd %xmm0,-0x8(%rbp); and $-32,%rsp;"
	"movsd %xmm2,(%rsp); movsd %xmm1,-0x10(%rbp); movsd %xmm3,-0x20(%rbp); nop; leave; ret\n"
	/* 10: AVX is not followed, and destroys */
	"f10: sub $0x18,%rsp; movsd %xmm0,(%rsp); movq %xmm1,%rbx; vaddpd %ymm1,%ymm2,%ymm3; nop; ret\n"
	/* 11: one path comes from code that is never reached with the values */
	"f11: sub $0x18,%rsp; movsd %xmm0,8(%rsp); movsd %xmm1,(%rsp); test %edi,%edi; jne 2f;"
	"1: nop; ret; 2: movsd 8(%rsp),%xmm0; call callee; movsd (%rsp),%xmm0; jmp 1b\n"
	/* 12: what is pushed is on the stack until the next call, whose argument it may be */
	"f12: movq %xmm0,%rbx; movq %xmm1,%r12; push %r12; call callee; push %rbx; nop; ret\n"
	"tracked: lea tracked_text(%rip),%rbx; xor %esi,%esi; mov $7,%ecx; mov %rbx,%rdx;"
	"test %eax,%eax; je 1f; nop; 1: cmpb $0,(%rdi); tracked_call: call callee; mov (%rsp),%rdi;"
	"tracked_call2: call callee; ret\n"
	"callee: ret\n"
	"code_end: ret\n"
	".popsection\n"
	".pushsection .rodata\ntracked_text: .asciz \"aten::x\"\n.popsection\n");
extern const uint8_t code_begin[], code_end[];
extern const uint8_t f0[], f1[], f2[], f3[], f4[], f5[], f6[], f7[], f8[], f9[], f10[], f11[],
	f12[], callee[];
extern const uint8_t tracked[], tracked_call[], tracked_call2[], tracked_text[];

static const uint8_t *const funcs[] = { f0, f1, f2,  f3,  f4,  f5,      f6,     f7,
					f8, f9, f10, f11, f12, tracked, callee, code_end };

static const uint8_t *text(void *arg, uint64_t addr, uint64_t *avail)
{
	(void)arg;
	if (addr < (uintptr_t)code_begin || addr >= (uintptr_t)code_end)
		return NULL;
	*avail = (uintptr_t)code_end - addr;
	return (const uint8_t *)(uintptr_t)addr;
}

static const uint8_t *data(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	(void)addr;
	(void)len;
	return NULL;
}

static enum code_range range(void *arg, uint64_t addr, uint64_t *start, uint64_t *end)
{
	(void)arg;
	for (size_t i = 0; i + 1 < sizeof(funcs) / sizeof(funcs[0]); i++)
		if (addr >= (uintptr_t)funcs[i] && addr < (uintptr_t)funcs[i + 1]) {
			*start = (uintptr_t)funcs[i];
			*end = (uintptr_t)funcs[i + 1];
			return CODE_FUNC;
		}
	return CODE_NONE;
}

static bool returns(void *arg, uint64_t to)
{
	(void)arg;
	(void)to;
	return true;
}

static const struct code_src src = { NULL, text, data, range, returns };

static uint32_t nop_of(const struct flow *f)
{
	for (uint32_t i = 0; i < f->cnt; i++)
		if (f->nodes[i].in.op == 0x90)
			return i;
	return FLOW_NONE;
}

#define LOST                                                                                       \
	{                                                                                          \
		.reg = REG_NONE                                                                    \
	}
#define REGISTER(r)                                                                                \
	{                                                                                          \
		.reg = (r)                                                                         \
	}
#define SLOT(base, off)                                                                            \
	{                                                                                          \
		.in_memory = true, .reg = (base), .disp = (off)                                    \
	}

static const struct value_location expected[][2] = {
	{ SLOT(REG_RSP, 8), SLOT(REG_RSP, 24) },
	{ LOST, SLOT(REG_RSP, 8) },
	{ LOST, SLOT(REG_RSP, 8) },
	{ REGISTER(12), LOST },
	{ SLOT(REG_RSP, 0), LOST },
	{ LOST, SLOT(REG_RSP, 8) },
	{ LOST, SLOT(REG_RSP, 16) },
	{ LOST, SLOT(REG_RSP, 8) },
	{ LOST, LOST },
	{ LOST, SLOT(REG_RBP, -16) },
	{ LOST, LOST },
	{ SLOT(REG_RSP, 8), SLOT(REG_RSP, 0) },
	{ SLOT(REG_RSP, 0), REGISTER(12) },
};

TEST("doubles")
{
	const struct value_seeds seeds = {
		.bp = VALUE_NO_FRAME, .cnt = 2, .location = { VALUE_XMM(0), VALUE_XMM(1) }, .size = 8
	};
	struct value_locations v = { 0 };
	enum ptb_refusal why;
	struct flow f;
	uint32_t at;

	flow__init(&f);
	for (uint32_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		flow__build(&f, &src, (uintptr_t)funcs[i], &why);
		CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
		at = nop_of(&f);
		CU_ASSERT_NOT_EQUAL_FATAL(at, FLOW_NONE);
		CU_ASSERT_EQUAL_FATAL(value_locations__run(&v, &f, &seeds), 0);
		for (uint32_t k = 0; k < 2; k++) {
			struct value_location pl = LOST;
			const struct value_location *want = &expected[i][k];
			bool found = value_locations__find(&v, at, k, &pl);

			if (found != (want->reg != REG_NONE) || pl.in_memory != want->in_memory ||
			    pl.reg != want->reg || pl.disp != want->disp) {
				printf(" f%u xmm%u: %d %d reg %u disp %d;", i, k, found,
				       pl.in_memory, pl.reg, pl.disp);
				CU_FAIL("elsewhere");
			}
		}
	}
	value_locations__free(&v);
	flow__free(&f);
}

/* From the middle on: what a register holds there is what rax is at the end. */
TEST("from the middle")
{
	struct value_seeds seeds = { .bp = VALUE_NO_FRAME,
				     .cnt = 2,
				     .size = 8,
				     .location = { VALUE_GPR(REG_RBX), VALUE_GPR(12) } };
	struct value_locations v = { 0 };
	enum ptb_refusal why;
	struct flow f;
	uint32_t i;

	flow__init(&f);
	flow__build(&f, &src, (uintptr_t)f3, &why);
	for (i = 0; i < f.cnt && f.nodes[i].in.cls != INSN_CALL; i++)
		;
	seeds.start = i;
	CU_ASSERT_EQUAL_FATAL(value_locations__run(&v, &f, &seeds), 0);
	CU_ASSERT(!value_locations__is_at(&v, 0, 0, VALUE_GPR(REG_RBX))); /* not reached from there */
	CU_ASSERT(!value_locations__is_at(&v, f.cnt - 1, 0, VALUE_GPR(REG_RBX)));
	CU_ASSERT(value_locations__is_at(&v, f.cnt - 1, 1, VALUE_GPR(12)));
	seeds.start = f.cnt;
	CU_ASSERT(value_locations__run(&v, &f, &seeds) < 0);
	value_locations__free(&v);
	flow__free(&f);
}

/* What a register holds before a call, as flow__value_before() finds it. */
TEST("before a call")
{
	enum ptb_refusal why;
	struct flow f;
	uint32_t call;
	int64_t v = -1;

	flow__init(&f);
	flow__build(&f, &src, (uintptr_t)tracked, &why);
	CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
	call = flow__at(&f, (uintptr_t)tracked_call);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RDX, &v), VALUE_ADDR);
	CU_ASSERT_EQUAL(v, (int64_t)(uintptr_t)tracked_text);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RSI, &v), VALUE_CONST);
	CU_ASSERT_EQUAL(v, 0);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RCX, &v), VALUE_CONST);
	CU_ASSERT_EQUAL(v, 7);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RDI, &v), VALUE_UNKNOWN);
	/* a call overwrites the argument registers, but not rbx */
	call = flow__at(&f, (uintptr_t)tracked_call2);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RSI, &v), VALUE_UNKNOWN);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RDI, &v), VALUE_UNKNOWN);
	CU_ASSERT_EQUAL(flow__value_before(&f, call, REG_RBX, &v), VALUE_ADDR);
	flow__free(&f);
}

SUITE("value_locations")
