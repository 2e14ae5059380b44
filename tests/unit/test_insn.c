/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Single instructions: length, class, target, what the kernel emulates, operands; and rubbish. */
#include <stdlib.h>
#include <string.h>

#include "code/arch.h"
#include "code/x86_64.h"
#include "suite.h"

#define ADDR 0x100000u

struct sample {
	const char *bytes;
	uint8_t len, cls, op;
	bool emulated;
	int64_t target; /* distance from ADDR; 0: none */
};

#define B(s) s
static const struct sample samples[] = {
	{ B("\x55"), 1, INSN_OTHER, 0x55, true, 0 },                       /* push %rbp */
	{ B("\x41\x57"), 2, INSN_OTHER, 0x57, true, 0 },                   /* push %r15 */
	{ B("\x48\x55"), 2, INSN_OTHER, 0x55, false, 0 },                  /* rex.W push */
	{ B("\x66\x55"), 2, INSN_OTHER, 0x55, false, 0 },                  /* push %bp */
	{ B("\x5d"), 1, INSN_OTHER, 0x5d, false, 0 },                      /* pop */
	{ B("\x74\x10"), 2, INSN_JCC, 0x70, true, 0x12 },                  /* je */
	{ B("\x7f\xfe"), 2, INSN_JCC, 0x70, true, 0 },                     /* jg to itself */
	{ B("\x2e\x74\x10"), 3, INSN_JCC, 0x70, false, 0x13 },             /* je,pn */
	{ B("\x0f\x85\x00\x01\x00\x00"), 6, INSN_JCC, 0x70, true, 0x106 }, /* jne */
	{ B("\xe3\x05"), 2, INSN_JCC, 0xe3, false, 7 },                    /* jrcxz */
	{ B("\xeb\x80"), 2, INSN_JMP, 0xeb, true, -0x7e },                 /* jmp */
	{ B("\xe9\xfb\xff\xff\xff"), 5, INSN_JMP, 0xe9, true, 0 },
	{ B("\xe8\x10\x00\x00\x00"), 5, INSN_CALL, 0xe8, true, 0x15 },
	/* data16 data16 rex.W call, as before __tls_get_addr */
	{ B("\x66\x66\x48\xe8\x10\x00\x00\x00"), 8, INSN_CALL, 0xe8, false, 0x18 },
	{ B("\xf2\xe9\x10\x00\x00\x00"), 6, INSN_JMP, 0xe9, false, 0x16 }, /* bnd jmp */
	{ B("\xff\xd0"), 2, INSN_CALL_IND, 0xff, false, 0 },               /* call *%rax */
	{ B("\x41\xff\x52\x08"), 4, INSN_CALL_IND, 0xff, false, 0 },       /* call *8(%r10) */
	{ B("\x3e\xff\xe0"), 3, INSN_JMP_IND, 0xff, false, 0 },            /* notrack jmp *%rax */
	{ B("\xff\x25\x00\x00\x00\x00"), 6, INSN_JMP_IND, 0xff, false, 0 },
	{ B("\xff\x75\x08"), 3, INSN_OTHER, 0xff, false, 0 }, /* push 8(%rbp) */
	{ B("\xc3"), 1, INSN_RET, 0xc3, false, 0 },
	{ B("\xf3\xc3"), 2, INSN_RET, 0xc3, false, 0 }, /* rep ret */
	{ B("\xc2\x08\x00"), 3, INSN_RET, 0xc2, false, 0 },
	{ B("\x0f\x0b"), 2, INSN_STOP, 0x0f, false, 0 }, /* ud2 */
	{ B("\xcc"), 1, INSN_STOP, 0xcc, false, 0 },
	{ B("\xf4"), 1, INSN_STOP, 0xf4, false, 0 },
	{ B("\x90"), 1, INSN_OTHER, 0x90, true, 0 },
	{ B("\x66\x90"), 2, INSN_OTHER, 0x90, false, 0 },
	{ B("\xf3\x90"), 2, INSN_OTHER, 0x90, false, 0 }, /* pause */
	{ B("\x0f\x1f\x44\x00\x00"), 5, INSN_OTHER, 0x90, true, 0 },
	{ B("\x0f\x1f\x40\x00"), 4, INSN_OTHER, 0x90, false, 0 },
	{ B("\xf3\x0f\x1e\xfa"), 4, INSN_OTHER, 0x90, false, 0 },          /* endbr64 */
	{ B("\x48\x8b\x07"), 3, INSN_OTHER, 0x8b, false, 0 },              /* mov (%rdi),%rax */
	{ B("\xc7\xf8\x10\x00\x00\x00"), 6, INSN_JCC, 0xc7, false, 0x16 }, /* xbegin */
};

TEST("classes and emulation")
{
	struct insn_decoder *d = insn_decoder__new();
	uint8_t buf[16];
	struct insn in;

	CU_ASSERT_FATAL(d != NULL);
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *s = &samples[i];

		memset(buf, 0x90, sizeof(buf));
		memcpy(buf, s->bytes, s->len);
		CU_ASSERT_FATAL(insn_decoder__decode(d, buf, sizeof(buf), ADDR, &in));
		if (in.len != s->len || in.cls != s->cls || in.op != s->op || in.emulated != s->emulated)
			printf(" sample %zu: len %u class %u op %#x emulated %d ", i, in.len,
			       in.cls, in.op, in.emulated);
		CU_ASSERT_EQUAL(in.len, s->len);
		CU_ASSERT_EQUAL(in.cls, s->cls);
		CU_ASSERT_EQUAL(in.op, s->op);
		CU_ASSERT_EQUAL(in.emulated, s->emulated);
		if (in.cls == INSN_JCC || in.cls == INSN_JMP || in.cls == INSN_CALL)
			CU_ASSERT_EQUAL(in.target, ADDR + (uint64_t)s->target);
		/* cut short it is nothing, not something else that starts alike */
		if (insn_decoder__decode(d, buf, s->len - 1U, ADDR, &in))
			CU_ASSERT(in.len < s->len);
	}
	insn_decoder__free(d);
}

/* A 66 prefix on a near branch means different things on different processors. */
TEST("ambiguous prefixes")
{
	static const uint8_t call66[] = { 0x66, 0xe8, 1, 0, 0, 0, 0x90, 0x90 };
	struct insn_decoder *d = insn_decoder__new();
	struct insn in;

	CU_ASSERT_FATAL(d != NULL);
	CU_ASSERT_FALSE(insn_decoder__decode(d, call66, sizeof(call66), ADDR, &in));
	CU_ASSERT_FALSE(insn_decoder__decode(d, (const uint8_t *)"\x06", 1, ADDR, &in));
	CU_ASSERT_FALSE(insn_decoder__decode(d, call66, 0, ADDR, &in));
	insn_decoder__free(d);
}

static struct insn insn_of(const char *bytes, size_t len)
{
	struct insn_decoder *d = insn_decoder__new();
	struct insn in;

	CU_ASSERT_FATAL(d != NULL);
	CU_ASSERT_FATAL(insn_decoder__decode(d, (const uint8_t *)bytes, len, ADDR, &in));
	CU_ASSERT_EQUAL(in.len, len);
	insn_decoder__free(d);
	return in;
}
#define INSN(s) insn_of(s, sizeof(s) - 1)

TEST("operands")
{
	struct insn in;

	in = INSN("\x48\x8d\x15\x10\x00\x00\x00"); /* lea 0x10(%rip),%rdx */
	CU_ASSERT(in.form == FORM_ADDRESS && in.ops[0].reg == REG_RDX && operand__is_fixed(&in.ops[1]));
	CU_ASSERT_EQUAL(in.ops[1].value, ADDR + 7 + 0x10);
	in = INSN("\x48\x8b\x83\xd8\x01\x00\x00"); /* mov 0x1d8(%rbx),%rax */
	CU_ASSERT(insn__is_load(&in) && operand__is_member(&in.ops[1]) && in.ops[1].reg == REG_RBX);
	CU_ASSERT(in.ops[1].value == 0x1d8 && in.ops[0].size == 8 && !in.ops[1].writes);
	in = INSN("\x49\x8b\x44\x24\xf8"); /* mov -8(%r12),%rax: needs a SIB byte */
	CU_ASSERT(insn__is_load(&in) && operand__is_member(&in.ops[1]) && in.ops[1].reg == REG_R12);
	CU_ASSERT_EQUAL(in.ops[1].value, -8);
	in = INSN("\x48\x63\x04\x82"); /* movslq (%rdx,%rax,4),%rax */
	CU_ASSERT(in.form == FORM_MOVE && in.copied == 4 && !insn__is_load(&in));
	CU_ASSERT(in.ops[1].reg == REG_RDX && in.ops[1].index == REG_RAX && in.ops[1].scale == 4);
	in = INSN("\x4c\x89\xff"); /* mov %r15,%rdi */
	CU_ASSERT(insn__is_copy(&in) && in.ops[0].reg == REG_RDI && in.ops[1].reg == REG_R15);
	in = INSN("\x31\xf6"); /* xor %esi,%esi */
	CU_ASSERT(in.form == FORM_CONST && in.ops[0].reg == REG_RSI && in.value == 0);
	in = INSN("\xbe\x01\x00\x00\x00"); /* mov $1,%esi */
	CU_ASSERT(in.form == FORM_CONST && in.ops[0].reg == REG_RSI && in.value == 1);
	in = INSN("\x41\xb8\xff\xff\xff\xff"); /* mov $-1,%r8d: the upper half is zero */
	CU_ASSERT(in.form == FORM_CONST && in.ops[0].reg == REG_R8 && in.value == 0xffffffff);
	in = INSN("\x49\xc7\xc0\xff\xff\xff\xff"); /* mov $-1,%r8 */
	CU_ASSERT(in.form == FORM_CONST && in.ops[0].reg == REG_R8 && in.value == -1);
	in = INSN("\x83\xf8\x05"); /* cmp $5,%eax */
	CU_ASSERT(in.form == FORM_COMPARE && in.ops[0].reg == REG_RAX && in.ops[1].value == 5);
	in = INSN("\x83\xf8\xff"); /* cmp $-1,%eax */
	CU_ASSERT(in.form == FORM_COMPARE && in.ops[1].value == -1);
	in = INSN("\x88\x67\x01"); /* mov %ah,1(%rdi): not the low byte of a register */
	CU_ASSERT(in.form == FORM_OTHER && in.ops[1].high && in.ops[1].reg == REG_RAX);
	in = INSN("\x64\x48\x8b\x04\x25\x28\x00\x00\x00"); /* mov %fs:0x28,%rax */
	CU_ASSERT(in.form == FORM_MOVE && in.ops[1].tls);
}

/* Which instructions write the memory that they name, and how much of it. */
static const struct store {
	const char *bytes;
	uint8_t len;
	uint8_t size; /* 0: reads only */
} stores[] = {
	{ B("\x48\x89\x3e"), 3, 8 },             /* mov %rdi,(%rsi) */
	{ B("\xc6\x07\x00"), 3, 1 },             /* movb $0,(%rdi) */
	{ B("\x48\x83\x07\x01"), 4, 8 },         /* add $1,(%rdi) */
	{ B("\xf0\x0f\xc1\x07"), 4, 4 },         /* lock xadd %eax,(%rdi) */
	{ B("\xf0\x48\x0f\xb1\x0f"), 5, 8 },     /* lock cmpxchg %rcx,(%rdi) */
	{ B("\x48\x87\x07"), 3, 8 },             /* xchg %rax,(%rdi) */
	{ B("\x0f\x94\x07"), 3, 1 },             /* sete (%rdi) */
	{ B("\x0f\x9f\x07"), 3, 1 },             /* setg (%rdi) */
	{ B("\x48\xff\x07"), 3, 8 },             /* inc (%rdi) */
	{ B("\x48\xf7\x1f"), 3, 8 },             /* neg (%rdi) */
	{ B("\x48\xd1\x27"), 3, 8 },             /* shl (%rdi) */
	{ B("\x8f\x07"), 2, 8 },                 /* pop (%rdi) */
	{ B("\x0f\x11\x07"), 3, 16 },            /* movups %xmm0,(%rdi) */
	{ B("\x0f\x29\x07"), 3, 16 },            /* movaps */
	{ B("\xf3\x0f\x7f\x07"), 4, 16 },        /* movdqu */
	{ B("\x66\x0f\x7f\x07"), 4, 16 },        /* movdqa */
	{ B("\x0f\x17\x07"), 3, 8 },             /* movhps */
	{ B("\x66\x0f\x17\x07"), 4, 8 },         /* movhpd */
	{ B("\x0f\x13\x07"), 3, 8 },             /* movlps */
	{ B("\xf2\x0f\x11\x07"), 4, 8 },         /* movsd */
	{ B("\xf3\x0f\x11\x07"), 4, 4 },         /* movss */
	{ B("\x66\x0f\xd6\x07"), 4, 8 },         /* movq */
	{ B("\x66\x0f\x7e\x07"), 4, 4 },         /* movd */
	{ B("\x0f\x2b\x07"), 3, 16 },            /* movntps */
	{ B("\x66\x0f\xe7\x07"), 4, 16 },        /* movntdq */
	{ B("\x48\x0f\xc3\x07"), 4, 8 },         /* movnti %rax,(%rdi) */
	{ B("\x48\x0f\xab\x07"), 4, 8 },         /* bts %rax,(%rdi) */
	{ B("\x48\xab"), 2, 8 },                 /* stos */
	{ B("\xd9\x1f"), 2, 4 },                 /* fstps (%rdi) */
	{ B("\xdd\x1f"), 2, 8 },                 /* fstpl */
	{ B("\xdb\x3f"), 2, 10 },                /* fstpt */
	{ B("\xd9\x3f"), 2, 2 },                 /* fnstcw */
	{ B("\xdf\x3f"), 2, 8 },                 /* fistpll */
	{ B("\x0f\xae\x1f"), 3, 4 },             /* stmxcsr */
	{ B("\x48\x39\x07"), 3, 0 },             /* cmp %rax,(%rdi) */
	{ B("\x80\x3f\x00"), 3, 0 },             /* cmpb $0,(%rdi) */
	{ B("\xf6\x07\x01"), 3, 0 },             /* testb $1,(%rdi) */
	{ B("\x48\x85\x07"), 3, 0 },             /* test %rax,(%rdi) */
	{ B("\x48\x0f\xa3\x07"), 4, 0 },         /* bt %rax,(%rdi) */
	{ B("\x66\x0f\x2e\x07"), 4, 0 },         /* ucomisd (%rdi),%xmm0 */
	{ B("\x66\x0f\x1f\x44\x00\x00"), 6, 0 }, /* nop 0(%rax,%rax) */
	{ B("\x48\xf7\x37"), 3, 0 },             /* div (%rdi) */
	{ B("\xff\x37"), 2, 0 },                 /* push (%rdi) */
	{ B("\x0f\x10\x07"), 3, 0 },             /* movups (%rdi),%xmm0 */
	{ B("\x48\x8d\x07"), 3, 0 },             /* lea (%rdi),%rax */
};

TEST("written memory")
{
	uint32_t stored;

	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		struct insn in = insn_of(stores[i].bytes, stores[i].len);

		for (uint32_t k = stored = 0; k < INSN_OPS; k++)
			if (in.ops[k].kind == OPERAND_MEM && in.ops[k].writes)
				stored = in.ops[k].size;
		if (stored != stores[i].size)
			printf(" sample %zu: %u bytes stored ", i, stored);
		CU_ASSERT_EQUAL(stored, stores[i].size);
	}
}

static bool writes(const char *bytes, size_t len, uint8_t reg)
{
	struct insn in = insn_of(bytes, len);

	return insn__may_write(&in, reg);
}
#define WRITES(s, reg) writes(s, sizeof(s) - 1, reg)

TEST("written registers")
{
	CU_ASSERT_FALSE(WRITES("\x80\x7f\x68\x00", REG_RDI)); /* cmpb $0,0x68(%rdi) */
	CU_ASSERT_FALSE(WRITES("\x48\x89\xfb", REG_RDI));     /* mov %rdi,%rbx */
	CU_ASSERT(WRITES("\x48\x89\xfb", REG_RBX));
	CU_ASSERT(WRITES("\x48\x8b\x3f", REG_RDI));       /* mov (%rdi),%rdi */
	CU_ASSERT_FALSE(WRITES("\x48\x89\x3e", REG_RDI)); /* mov %rdi,(%rsi) */
	CU_ASSERT_FALSE(WRITES("\x48\x89\x3e", REG_RSI));
	CU_ASSERT(WRITES("\x48\x83\xec\x08", REG_RSP)); /* sub $8,%rsp */
	CU_ASSERT_FALSE(WRITES("\x48\x83\xec\x08", REG_RDI));
	CU_ASSERT(WRITES("\x55", REG_RSP)); /* push */
	CU_ASSERT(WRITES("\x5f", REG_RDI)); /* pop %rdi */
	CU_ASSERT_FALSE(WRITES("\x5f", REG_RSI));
	CU_ASSERT(WRITES("\xf3\x48\xab", REG_RDI));           /* rep stos */
	CU_ASSERT(WRITES("\x48\x87\xfe", REG_RSI));           /* xchg %rdi,%rsi */
	CU_ASSERT(WRITES("\x48\x0f\x44\xc7", REG_RAX));       /* cmove %rdi,%rax */
	CU_ASSERT_FALSE(WRITES("\x0f\x29\x3c\x24", REG_RDI)); /* movaps %xmm7,(%rsp) */
	CU_ASSERT(WRITES("\xe8\x00\x00\x00\x00", REG_RDI));   /* call: caller-saved */
	CU_ASSERT_FALSE(WRITES("\xe8\x00\x00\x00\x00", REG_RBX));
	CU_ASSERT_FALSE(WRITES("\xf3\x0f\x1e\xfa", REG_RDI)); /* endbr64 */
	CU_ASSERT(WRITES("\xf7\xe1", REG_RDX));               /* mul %ecx */
	CU_ASSERT(WRITES("\xff\xc7", REG_RDI));               /* inc %edi */
	CU_ASSERT(WRITES("\xc5\xf8\x77", REG_RDI));           /* VEX: not understood */
	CU_ASSERT_FALSE(WRITES("\xa8\x10", REG_RAX));         /* test $0x10,%al */
	CU_ASSERT(WRITES("\xb4\x01", REG_RAX));               /* mov $1,%ah */
	CU_ASSERT_FALSE(WRITES("\xb4\x01", REG_RSP));
	CU_ASSERT(WRITES("\xe2\xfe", REG_RCX)); /* loop */
}

/* Nothing that decodes may claim more bytes than there are, and operands stay inside. */
TEST("random bytes")
{
	struct insn_decoder *d = insn_decoder__new();
	uint8_t buf[16];
	struct insn in;
	size_t len;

	CU_ASSERT_FATAL(d != NULL);
	srand(1);
	for (uint32_t i = 0; i < 200000; i++) {
		len = 1 + (size_t)(rand() & 15);
		for (uint32_t k = 0; k < len; k++)
			buf[k] = (uint8_t)(rand() >> 7);
		if (!insn_decoder__decode(d, buf, len, ADDR, &in))
			continue;
		if (in.len == 0 || in.len > len)
			CU_FAIL("length out of the buffer");
		for (uint32_t k = 0; k < INSN_OPS; k++)
			if (in.ops[k].kind == OPERAND_MEM ?
				    in.ops[k].reg > REG_PC || in.ops[k].index > REG_NONE :
				    in.ops[k].kind == OPERAND_GPR && in.ops[k].reg >= REG_CNT)
				CU_FAIL("operand out of range");
	}
	insn_decoder__free(d);
}

SUITE("insn")
