/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Instructions of x86-64: capstone says what they are, which operands they have, and what they read
 * and write. Own are three facts: what the kernel emulates under a uprobe (from the bytes, as the
 * kernel does), which moves leave a value as it was, and what is not relied on: VEX, EVEX and the
 * opcode maps 0f38 and 0f3a, since what capstone 4 says of their operands has gaps.
 */
#include "code/arch.h"

#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/mem.h"
#include "code/x86_64.h"
#include "ptb_args.h"

#define BIT(reg) (1u << (reg))
#define REGS_ALL 0xffffu

/* The System V calling convention. */
const struct arch arch = {
	.arg = { REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9 },
	.result = REG_RAX,
	.result2 = REG_RDX,
	.sp = REG_RSP,
	.fp = REG_RBP,
	.kept = { REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15 },
	.lost = BIT(REG_RAX) | BIT(REG_RCX) | BIT(REG_RDX) | BIT(REG_RSI) | BIT(REG_RDI) |
		BIT(REG_R8) | BIT(REG_R9) | BIT(REG_R10) | BIT(REG_R11),
	.above = 7,
	.not_above = 6,
	.prog_reg = { [PTB_REG_RSP] = REG_RSP,
		      [PTB_REG_RBP] = REG_RBP,
		      [PTB_REG_RBX] = REG_RBX,
		      [PTB_REG_R12] = REG_R12,
		      [PTB_REG_R13] = REG_R13,
		      [PTB_REG_R14] = REG_R14,
		      [PTB_REG_R15] = REG_R15 },
};

struct insn_decoder {
	csh handle;
	cs_insn *insn;
};

struct insn_decoder *insn_decoder__new(void)
{
	struct insn_decoder *d = xcalloc(1, sizeof(*d));

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle) != CS_ERR_OK)
		mem__end(0);
	cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = mem__check(cs_malloc(d->handle));
	return d;
}

void insn_decoder__free(struct insn_decoder *d)
{
	if (!d)
		return;
	cs_free(d->insn, 1);
	cs_close(&d->handle);
	free(d);
}

/*
 * Up to 6.12: eb, e9, e8, 70-7f, 0f 80-8f, 90, 50-57 and 41 50-57, all without another prefix;
 * later kernels also the five-byte no-op 0f 1f 44 00 00 (arch/x86/kernel/uprobes.c,
 * branch_setup_xol_ops, push_setup_xol_ops).
 */
bool insn__is_emulated(const uint8_t *b, uint64_t len)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	if (!len)
		return false;
	if (b[0] >= 0x50 && b[0] <= 0x57)
		return len == 1;
	if (b[0] == 0x41)
		return len == 2 && b[1] >= 0x50 && b[1] <= 0x57;
	if ((b[0] >= 0x70 && b[0] <= 0x7f) || b[0] == 0xeb)
		return len == 2;
	if (b[0] == 0xe8 || b[0] == 0xe9)
		return len == 5;
	if (b[0] == 0x90)
		return len == 1;
	if (b[0] == 0x0f && len == 6)
		return b[1] >= 0x80 && b[1] <= 0x8f;
	return len == sizeof(nop5) && !memcmp(b, nop5, sizeof(nop5));
}

/* insn.op is the first byte of the opcode, but one number for all no-ops and one for all
 * conditional jumps. */
#define OP_JCC 0x70
#define OP_NOP 0x90

const char *insn__op_name(uint8_t op)
{
	if (op >= 0x50 && op <= 0x57)
		return "push";
	switch (op) {
	case OP_JCC:
		return "jcc";
	case OP_NOP:
		return "nop";
	case 0xe8:
		return "call";
	case 0xe9:
	case 0xeb:
		return "jmp";
	default:
		return "?";
	}
}

/* ---- operands ---- */

/* 1 + the number of a general register. */
#define GPR_NAMES(nr, q, d, w, b)                                                                  \
	[X86_REG_##q] = (nr) + 1, [X86_REG_##d] = (nr) + 1, [X86_REG_##w] = (nr) + 1,              \
	[X86_REG_##b] = (nr) + 1
static const uint8_t gpr[X86_REG_ENDING] = {
	GPR_NAMES(REG_RAX, RAX, EAX, AX, AL),
	GPR_NAMES(REG_RCX, RCX, ECX, CX, CL),
	GPR_NAMES(REG_RDX, RDX, EDX, DX, DL),
	GPR_NAMES(REG_RBX, RBX, EBX, BX, BL),
	GPR_NAMES(REG_RSP, RSP, ESP, SP, SPL),
	GPR_NAMES(REG_RBP, RBP, EBP, BP, BPL),
	GPR_NAMES(REG_RSI, RSI, ESI, SI, SIL),
	GPR_NAMES(REG_RDI, RDI, EDI, DI, DIL),
	GPR_NAMES(REG_R8, R8, R8D, R8W, R8B),
	GPR_NAMES(REG_R9, R9, R9D, R9W, R9B),
	GPR_NAMES(REG_R10, R10, R10D, R10W, R10B),
	GPR_NAMES(REG_R11, R11, R11D, R11W, R11B),
	GPR_NAMES(REG_R12, R12, R12D, R12W, R12B),
	GPR_NAMES(REG_R13, R13, R13D, R13W, R13B),
	GPR_NAMES(REG_R14, R14, R14D, R14W, R14B),
	GPR_NAMES(REG_R15, R15, R15D, R15W, R15B),
	[X86_REG_AH] = REG_RAX + 1,
	[X86_REG_CH] = REG_RCX + 1,
	[X86_REG_DH] = REG_RDX + 1,
	[X86_REG_BH] = REG_RBX + 1,
};

static uint8_t gpr_number(unsigned int reg)
{
	return reg < X86_REG_ENDING && gpr[reg] ? gpr[reg] - 1 : REG_NONE;
}

static void take_register(const cs_x86_op *o, struct insn_operand *out)
{
	static const struct {
		x86_reg first, last;
	} vectors[] = { { X86_REG_XMM0, X86_REG_XMM31 },
			{ X86_REG_YMM0, X86_REG_YMM31 },
			{ X86_REG_ZMM0, X86_REG_ZMM31 } };

	out->kind = OPERAND_OTHER;
	out->reg = gpr_number(o->reg);
	if (out->reg != REG_NONE)
		out->kind = OPERAND_GPR;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		if (o->reg >= vectors[i].first && o->reg <= vectors[i].last) {
			out->kind = OPERAND_VECTOR;
			out->reg = (uint8_t)(o->reg - vectors[i].first);
		}
	out->high = o->reg == X86_REG_AH || o->reg == X86_REG_CH || o->reg == X86_REG_DH ||
		    o->reg == X86_REG_BH;
}

static void take_memory(const cs_x86_op *o, const struct insn *in, struct insn_operand *out)
{
	out->kind = OPERAND_MEM;
	out->reg = gpr_number(o->mem.base);
	out->index = gpr_number(o->mem.index);
	out->scale = (uint8_t)o->mem.scale;
	out->tls = o->mem.segment == X86_REG_FS || o->mem.segment == X86_REG_GS;
	out->value = o->mem.disp;
	if (o->mem.base == X86_REG_RIP) {
		out->reg = REG_PC;
		out->value += (int64_t)(in->addr + in->len);
	}
}

static int64_t sign_extended(int64_t v, uint32_t size)
{
	uint32_t shift = size < 8 ? 64 - size * 8 : 0;

	return (int64_t)((uint64_t)v << shift) >> shift;
}

static void take_operand(const cs_x86_op *o, const struct insn *in, struct insn_operand *out)
{
	*out = (struct insn_operand){ .reg = REG_NONE,
				      .index = REG_NONE,
				      .size = o->size,
				      .reads = !o->access || o->access & CS_AC_READ,
				      .writes = !o->access || o->access & CS_AC_WRITE };
	if (o->type == X86_OP_REG) {
		take_register(o, out);
	} else if (o->type == X86_OP_MEM) {
		take_memory(o, in, out);
	} else {
		out->kind = OPERAND_IMM;
		out->reads = out->writes = false;
		out->value = in->ops[0].kind && in->ops[0].size ?
				     sign_extended(o->imm, in->ops[0].size) :
				     o->imm;
	}
}

/* Capstone 4 says of some stores (movups, movhps, setcc) that they write nothing, and of those of
 * the x87 that they write flags only: then it is the memory operand. */
static void set_stored(struct insn *in)
{
	for (uint8_t i = 0; i < INSN_OPS; i++)
		in->ops[i].writes |= in->ops[i].kind == OPERAND_MEM;
}

static void take_operands(struct insn_decoder *d, struct insn *in)
{
	const cs_x86 *x = &d->insn->detail->x86;
	bool stores = false;
	cs_regs read, written;
	uint8_t n, m;

	for (uint8_t i = 0; i < x->op_count; i++) {
		struct insn_operand o;

		take_operand(&x->operands[i], in, &o);
		if (o.writes && o.kind == OPERAND_GPR)
			in->writes |= (uint16_t)BIT(o.reg);
		if (o.writes && o.kind == OPERAND_VECTOR)
			in->vectors |= BIT(o.reg);
		stores |= o.writes;
		if (i < INSN_OPS)
			in->ops[i] = o;
	}
	if (cs_regs_access(d->handle, d->insn, read, &n, written, &m) != CS_ERR_OK) {
		in->writes = REGS_ALL;
		return;
	}
	if (!stores && (!m || (x->opcode[0] & 0xf8) == 0xd8))
		set_stored(in);
	for (uint8_t i = 0; i < m; i++)
		if (gpr_number(written[i]) != REG_NONE)
			in->writes |= (uint16_t)BIT(gpr_number(written[i]));
}

/* ---- what it does ---- */

/* Moves: the bytes that arrive unchanged; 0: it is none. Register forms of some move less than
 * their operands have. */
static uint32_t moved_bytes(unsigned int id, const struct insn *in)
{
	uint32_t least = in->ops[0].size < in->ops[1].size ? in->ops[0].size : in->ops[1].size,
		 most = 16;

	switch (id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
	case X86_INS_MOVAPS:
	case X86_INS_MOVAPD:
	case X86_INS_MOVUPS:
	case X86_INS_MOVUPD:
	case X86_INS_MOVDQA:
	case X86_INS_MOVDQU:
		break;
	case X86_INS_MOVSD:
		if (in->ops[0].kind != OPERAND_VECTOR && in->ops[1].kind != OPERAND_VECTOR)
			return 0; /* the string instruction */
		most = 8;
		break;
	case X86_INS_MOVQ:
	case X86_INS_MOVLPS:
	case X86_INS_MOVLPD:
		most = 8;
		break;
	case X86_INS_MOVSS:
	case X86_INS_MOVD:
		most = 4;
		break;
	default:
		return 0;
	}
	if (in->ops[0].kind == OPERAND_OTHER || in->ops[1].kind == OPERAND_OTHER ||
	    in->ops[0].high || in->ops[1].high)
		return 0;
	return least < most ? least : most;
}

static bool sets_constant(unsigned int id, const struct insn *in, int64_t *value)
{
	const struct insn_operand *to = &in->ops[0], *from = &in->ops[1];

	if (to->kind != OPERAND_GPR || to->size < 4)
		return false;
	if (id == X86_INS_XOR && from->kind == OPERAND_GPR && from->reg == to->reg) {
		*value = 0;
		return true;
	}
	*value = to->size == 4 ? (int64_t)(uint32_t)from->value : from->value;
	return (id == X86_INS_MOV || id == X86_INS_MOVABS) && from->kind == OPERAND_IMM;
}

static uint8_t form_of(unsigned int id, const struct insn *in)
{
	switch (id) {
	case X86_INS_LEA:
		return FORM_ADDRESS;
	case X86_INS_ADD:
		return FORM_ADD;
	case X86_INS_SUB:
		return FORM_SUB;
	case X86_INS_CMP:
		return FORM_COMPARE;
	case X86_INS_TEST:
		return FORM_TEST;
	case X86_INS_PUSH:
		return FORM_PUSH;
	case X86_INS_POP:
		return FORM_POP;
	case X86_INS_LEAVE:
		return FORM_LEAVE;
	case X86_INS_NOP:
	case X86_INS_ENDBR64:
		return FORM_NOP;
	default:
		return in->copied ? FORM_MOVE : FORM_OTHER;
	}
}

static void set_form(struct insn_decoder *d, struct insn *in)
{
	const cs_x86 *x = &d->insn->detail->x86;
	unsigned int id = d->insn->id;

	in->copied = (uint8_t)moved_bytes(id, in);
	in->cond = x->opcode[1] & 0xf;
	in->form = sets_constant(id, in, &in->value) ? FORM_CONST : form_of(id, in);
	if (in->form == FORM_OTHER && x->opcode[0] == 0x0f && (x->opcode[1] & 0xf0) == 0x90)
		in->form = FORM_IF_SET;
	else if (in->form == FORM_OTHER && x->opcode[0] == 0x0f && (x->opcode[1] & 0xf0) == 0x40)
		in->form = FORM_IF_MOVE;
	if (in->form == FORM_NOP)
		in->op = OP_NOP;
	if (in->form == FORM_NOP || in->form == FORM_COMPARE || in->form == FORM_TEST) {
		in->writes = 0;
		in->ops[0].writes = in->ops[1].writes = false;
	}
	in->low_stays = id == X86_INS_UNPCKLPD || id == X86_INS_PUNPCKLQDQ ||
			id == X86_INS_MOVHPS || id == X86_INS_MOVHPD || id == X86_INS_MOVLHPS;
}

/* ---- the flow of control ---- */

static uint8_t branch_class(unsigned int id, bool direct, const cs_insn *insn)
{
	const uint8_t *op = insn->detail->x86.opcode;

	switch (id) {
	case X86_INS_JMP:
	case X86_INS_LJMP:
		return direct ? INSN_JMP : INSN_JMP_IND;
	case X86_INS_CALL:
	case X86_INS_LCALL:
		return direct ? INSN_CALL : INSN_CALL_IND;
	case X86_INS_RET:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
		return INSN_RET;
	case X86_INS_HLT:
	case X86_INS_INT3:
		return INSN_STOP;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
	case X86_INS_XBEGIN: /* the other way is an abort handler */
		return INSN_JCC;
	default:
		break;
	}
	for (size_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == X86_GRP_JUMP)
			return INSN_JCC;
	/* ud2, ud1, ud0, whose names differ between versions of capstone */
	if (op[0] == 0x0f && (op[1] == 0x0b || op[1] == 0xb9 || op[1] == 0xff))
		return INSN_STOP;
	return INSN_OTHER;
}

static void classify(const cs_insn *insn, struct insn *in)
{
	const cs_x86 *x = &insn->detail->x86;
	bool two = x->opcode[0] == 0x0f, direct = x->op_count && x->operands[0].type == X86_OP_IMM;
	uint8_t last = two ? x->opcode[1] : x->opcode[0];

	in->op = x->opcode[0];
	in->cls = branch_class(insn->id, direct, insn);
	if (in->cls == INSN_JCC || in->cls == INSN_JMP || in->cls == INSN_CALL)
		in->target = (uint64_t)x->operands[0].imm;
	in->cond = last & 0xf;
	if (in->cls == INSN_JCC && (last & 0xf0) == (two ? 0x80 : 0x70))
		in->op = OP_JCC;
	else if (in->cls == INSN_JCC)
		in->cond = COND_NONE;
}

/* VEX, EVEX, 0f38, 0f3a. */
static bool is_opaque(const uint8_t *b, uint8_t len, const cs_x86 *x)
{
	uint8_t i = 0;

	while (i + 1 < len && (b[i] == 0x26 || b[i] == 0x2e || b[i] == 0x36 || b[i] == 0x3e ||
			       (b[i] >= 0x64 && b[i] <= 0x67) || b[i] >= 0xf0))
		i++;
	return b[i] == 0xc4 || b[i] == 0xc5 || b[i] == 0x62 ||
	       (x->opcode[0] == 0x0f && (x->opcode[1] == 0x38 || x->opcode[1] == 0x3a));
}

bool insn_decoder__decode(struct insn_decoder *d, const uint8_t *bytes, uint64_t avail,
			  uint64_t addr, struct insn *out)
{
	const uint8_t *code = bytes;
	size_t left = avail < 16 ? avail : 16;
	const cs_x86 *x = &d->insn->detail->x86;
	uint64_t at = addr;

	if (!cs_disasm_iter(d->handle, &code, &left, &at, d->insn) || !d->insn->size ||
	    d->insn->size > 15 || d->insn->size > avail)
		return false;
	*out = (struct insn){ .addr = addr,
			      .len = (uint8_t)d->insn->size,
			      .id = (uint16_t)d->insn->id };
	classify(d->insn, out);
	/* With a 66 prefix and no REX.W, Intel and AMD disagree on the displacement's size. */
	if (x->prefix[2] == X86_PREFIX_OPSIZE && !(x->rex & 8) &&
	    (out->cls == INSN_CALL || out->cls == INSN_JMP))
		return false;
	out->emulated = insn__is_emulated(bytes, out->len);
	take_operands(d, out);
	if (insn__is_call(out)) {
		out->writes = arch.lost;
	} else if (is_opaque(bytes, out->len, x)) {
		out->opaque = true;
		out->writes = REGS_ALL;
	} else if (out->cls == INSN_OTHER) {
		set_form(d, out);
	}
	return true;
}

/* ---- code that is searched byte by byte ---- */

static void set_ref(struct code_ref *ref, uint64_t at, const uint8_t *bytes, uint32_t len)
{
	int32_t rel;

	memcpy(&rel, bytes + len - sizeof(rel), sizeof(rel));
	*ref = (struct code_ref){ .at = at, .next = at + len };
	ref->target = ref->next + (uint64_t)(int64_t)rel;
}

const uint8_t *arch__next_call(const uint8_t *p, const uint8_t *end, uint64_t addr,
			       struct code_ref *ref)
{
	const uint8_t *hit = end - p < 5 ? NULL : memchr(p, 0xe8, (size_t)(end - p) - 4);

	if (hit)
		set_ref(ref, addr + (uint64_t)(hit - p), hit, 5);
	return hit;
}

/* lea disp32(%rip),%reg: REX.W 8d, mod 0, rm 5. */
const uint8_t *arch__next_address(const uint8_t *p, const uint8_t *end, uint64_t addr,
				  struct code_ref *ref)
{
	const uint8_t *hit = p;

	while (end - hit >= 7 && (hit = memchr(hit + 1, 0x8d, (size_t)(end - hit) - 6))) {
		if ((hit[1] & 0xc7) != 0x05 || (hit[-1] & 0xfb) != 0x48)
			continue;
		set_ref(ref, addr + (uint64_t)(hit - 1 - p), hit - 1, 7);
		return hit - 1;
	}
	return NULL;
}

bool arch__has_return(const uint8_t *code, uint64_t len)
{
	for (uint64_t i = 1; i < len; i++) {
		if (code[i] != 0xc3)
			continue;
		/* pop, leave */
		if ((code[i - 1] >= 0x58 && code[i - 1] <= 0x5f) || code[i - 1] == 0xc9)
			return true;
		/* add to rsp */
		if (i >= 4 && code[i - 4] == 0x48 && code[i - 3] == 0x83 && code[i - 2] == 0xc4)
			return true;
	}
	return false;
}
