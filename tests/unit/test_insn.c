/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Single instructions: length, class, target, what the kernel emulates, operands; and rubbish. */
#include <stdlib.h>
#include <string.h>

#include "code/insn.h"
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

static void test_classes(void)
{
	struct insn_decoder *d = insn_decoder__new();
	uint8_t buf[16];
	struct insn in;
	size_t i;

	CU_ASSERT_FATAL(d != NULL);
	for (i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
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
static void test_ambiguous(void)
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

static struct insn_ops ops_of(const char *bytes, size_t len, struct insn *in)
{
	struct insn_decoder *d = insn_decoder__new();
	struct insn_ops o = { 0 };

	CU_ASSERT_FATAL(d != NULL);
	CU_ASSERT_FATAL(insn_decoder__decode(d, (const uint8_t *)bytes, len, ADDR, in));
	CU_ASSERT_EQUAL(in->len, len);
	CU_ASSERT(insn__ops((const uint8_t *)bytes, in, &o));
	insn_decoder__free(d);
	return o;
}
#define OPS(s, in) ops_of(s, sizeof(s) - 1, in)

static void test_operands(void)
{
	struct insn_ops o;
	struct insn in;
	uint8_t dst, src;
	int64_t v;

	o = OPS("\x48\x8d\x15\x10\x00\x00\x00", &in); /* lea 0x10(%rip),%rdx */
	CU_ASSERT(insn_ops__is_lea(&o) && o.reg == REG_RDX && o.base == REG_RIP);
	CU_ASSERT_EQUAL(o.disp, ADDR + 7 + 0x10);
	o = OPS("\x48\x8b\x83\xd8\x01\x00\x00", &in); /* mov 0x1d8(%rbx),%rax */
	CU_ASSERT(insn_ops__is_load(&o) && o.base == REG_RBX && o.disp == 0x1d8 && o.rex_w);
	o = OPS("\x49\x8b\x44\x24\xf8", &in); /* mov -8(%r12),%rax: needs a SIB byte */
	CU_ASSERT(insn_ops__is_load(&o) && o.base == 12 && o.disp == -8 && o.index == REG_NONE);
	o = OPS("\x48\x63\x04\x82", &in); /* movslq (%rdx,%rax,4),%rax */
	CU_ASSERT(o.opcode == 0x63 && o.base == REG_RDX && o.index == REG_RAX && o.scale == 4);
	o = OPS("\x4c\x89\xff", &in); /* mov %r15,%rdi */
	CU_ASSERT(insn_ops__mov_rr(&o, &dst, &src) && dst == REG_RDI && src == 15);
	o = OPS("\x31\xf6", &in); /* xor %esi,%esi */
	CU_ASSERT(insn_ops__is_const(&o, &dst, &v) && dst == REG_RSI && v == 0);
	o = OPS("\xbe\x01\x00\x00\x00", &in); /* mov $1,%esi */
	CU_ASSERT(insn_ops__is_const(&o, &dst, &v) && dst == REG_RSI && v == 1);
	o = OPS("\x41\xb8\xff\xff\xff\xff", &in); /* mov $-1,%r8d: the upper half is zero */
	CU_ASSERT(insn_ops__is_const(&o, &dst, &v) && dst == REG_R8 && v == 0xffffffff);
	o = OPS("\x83\xf8\x05", &in); /* cmp $5,%eax */
	CU_ASSERT(o.opcode == 0x83 && (o.reg & 7) == 7 && o.rm == REG_RAX && o.imm == 5);
}

static bool writes(const char *bytes, size_t len, uint8_t reg)
{
	struct insn in;
	struct insn_ops o = ops_of(bytes, len, &in);

	return insn__may_write(&in, &o, true, reg);
}
#define WRITES(s, reg) writes(s, sizeof(s) - 1, reg)

static void test_writes(void)
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
}

/* Nothing that decodes may claim more bytes than there are, and operands stay inside. */
static void test_rubbish(void)
{
	struct insn_decoder *d = insn_decoder__new();
	uint8_t buf[16];
	struct insn_ops o;
	struct insn in;
	uint32_t i, k;
	size_t len;

	CU_ASSERT_FATAL(d != NULL);
	srand(1);
	for (i = 0; i < 200000; i++) {
		len = 1 + (size_t)(rand() & 15);
		for (k = 0; k < len; k++)
			buf[k] = (uint8_t)(rand() >> 7);
		if (!insn_decoder__decode(d, buf, len, ADDR, &in))
			continue;
		if (in.len == 0 || in.len > len)
			CU_FAIL("length out of the buffer");
		if (insn__ops(buf, &in, &o) &&
		    (o.rm > REG_NONE || o.base > REG_RIP || o.index > REG_NONE || o.imm_sz > 8))
			CU_FAIL("operand out of range");
	}
	insn_decoder__free(d);
}

int main(void)
{
	static const CU_TestInfo tests[] = { { "classes and emulation", test_classes },
					     { "ambiguous prefixes", test_ambiguous },
					     { "operands", test_operands },
					     { "written registers", test_writes },
					     { "random bytes", test_rubbish },
					     CU_TEST_INFO_NULL };

	return run_suite("insn", tests);
}
