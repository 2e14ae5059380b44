/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Instruction classes from prefixes and opcodes; lengths from capstone. See insn.h. */
#include "code/insn.h"

#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

struct insn_decoder {
	csh handle;
	cs_insn *insn;
};

struct insn_decoder *insn_decoder__new(void)
{
	struct insn_decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle) != CS_ERR_OK) {
		free(d);
		return NULL;
	}
	cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_OFF);
	d->insn = cs_malloc(d->handle);
	if (!d->insn) {
		cs_close(&d->handle);
		free(d);
		return NULL;
	}
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

bool insn__is_endbr64(const uint8_t *bytes, uint64_t len)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return len >= sizeof(endbr64) && !memcmp(bytes, endbr64, sizeof(endbr64));
}

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

const char *insn__op_name(uint8_t op)
{
	if (op >= 0x50 && op <= 0x57)
		return "push";
	switch (op) {
	case 0x70:
		return "jcc";
	case 0x90:
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

/* Prefixes of an instruction and where its opcode starts. */
struct prefixes {
	uint8_t at; /* index of the first opcode byte */
	uint8_t rex;
	bool opsize, rep, repne;
};

static bool scan_prefixes(const uint8_t *b, uint64_t len, struct prefixes *p)
{
	uint8_t i = 0;

	memset(p, 0, sizeof(*p));
	for (; i < len; i++) {
		if (b[i] == 0x66)
			p->opsize = true;
		else if (b[i] == 0xf3)
			p->rep = true;
		else if (b[i] == 0xf2)
			p->repne = true;
		else if (b[i] != 0x2e && b[i] != 0x36 && b[i] != 0x3e && b[i] != 0x26 &&
			 b[i] != 0x64 && b[i] != 0x65 && b[i] != 0x67 && b[i] != 0xf0)
			break;
	}
	if (i < len && b[i] >= 0x40 && b[i] <= 0x4f)
		p->rex = b[i++];
	p->at = i;
	return i < len;
}

static int64_t take_imm(const uint8_t *end, uint8_t sz)
{
	int64_t v64 = 0;
	int32_t v32;

	switch (sz) {
	case 1:
		return (int8_t)end[-1];
	case 2:
		return (int16_t)(end[-2] | end[-1] << 8);
	case 4:
		memcpy(&v32, end - 4, sizeof(v32));
		return v32;
	case 8:
		memcpy(&v64, end - 8, sizeof(v64));
		return v64;
	default:
		return 0;
	}
}

static void set_branch(struct insn *in, const uint8_t *b, uint8_t cls, uint8_t rel_sz)
{
	in->cls = cls;
	in->target = in->addr + in->len + (uint64_t)take_imm(b + in->len, rel_sz);
}

static void classify_0f(struct insn *in, const uint8_t *b, uint8_t at)
{
	uint8_t op = b[at + 1];

	if (op >= 0x80 && op <= 0x8f) {
		set_branch(in, b, INSN_JCC, 4);
		in->op = 0x70;
	} else if (op == 0x0b || op == 0xb9 || op == 0xff) {
		in->cls = INSN_STOP;
	} else if (op == 0x1f || op == 0x1e) {
		in->op = 0x90;
	}
}

static void classify_ff(struct insn *in, uint8_t modrm)
{
	switch (modrm >> 3 & 7) {
	case 2:
	case 3:
		in->cls = INSN_CALL_IND;
		break;
	case 4:
	case 5:
		in->cls = INSN_JMP_IND;
		break;
	default:
		break;
	}
}

static void classify(struct insn *in, const uint8_t *b, const struct prefixes *p)
{
	uint8_t op = b[p->at];

	in->op = op;
	if (op >= 0x70 && op <= 0x7f) {
		set_branch(in, b, INSN_JCC, 1);
		in->op = 0x70;
		return;
	}
	switch (op) {
	case 0x0f:
		if (p->at + 1 < in->len)
			classify_0f(in, b, p->at);
		break;
	case 0xe0: /* loopne, loope, loop, jrcxz */
	case 0xe1:
	case 0xe2:
	case 0xe3:
		set_branch(in, b, INSN_JCC, 1);
		break;
	case 0xe8:
		set_branch(in, b, INSN_CALL, 4);
		break;
	case 0xe9:
		set_branch(in, b, INSN_JMP, 4);
		break;
	case 0xeb:
		set_branch(in, b, INSN_JMP, 1);
		break;
	case 0xc7: /* xbegin: the other way is an abort handler */
		if (p->at + 1 < in->len && b[p->at + 1] == 0xf8)
			set_branch(in, b, INSN_JCC, 4);
		break;
	case 0xff:
		if (p->at + 1 < in->len)
			classify_ff(in, b[p->at + 1]);
		break;
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
		in->cls = INSN_RET;
		break;
	case 0xcc:
	case 0xf4:
		in->cls = INSN_STOP;
		break;
	default:
		break;
	}
}

bool insn_decoder__decode(struct insn_decoder *d, const uint8_t *bytes, uint64_t avail,
			  uint64_t addr, struct insn *out)
{
	const uint8_t *code = bytes;
	size_t left = avail < 16 ? avail : 16;
	uint64_t at = addr;
	struct prefixes p;

	if (!cs_disasm_iter(d->handle, &code, &left, &at, d->insn) || !d->insn->size ||
	    d->insn->size > 15 || d->insn->size > avail)
		return false;
	*out = (struct insn){ .addr = addr, .len = (uint8_t)d->insn->size };
	if (!scan_prefixes(bytes, out->len, &p))
		return false;
	/* With a 66 prefix and no REX.W, Intel and AMD disagree on the displacement's size. */
	if (p.opsize && !(p.rex & 8) && (bytes[p.at] == 0xe8 || bytes[p.at] == 0xe9))
		return false;
	classify(out, bytes, &p);
	out->emulated = insn__is_emulated(bytes, out->len);
	return true;
}

/* ---- operands ---- */

/* Size of the immediate of a one-byte opcode; 0xff: not understood. */
static uint8_t imm_size(uint8_t op, uint8_t modrm, bool opsize)
{
	uint8_t z = opsize ? 2 : 4;

	if (op < 0x40)
		return (op & 7) == 4 ? 1 : (op & 7) == 5 ? z : 0;
	switch (op) {
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xa8:
	case 0x6a:
		return 1;
	case 0x69:
	case 0x81:
	case 0xc7:
	case 0xa9:
	case 0x68:
		return z;
	case 0xf6:
		return (modrm >> 3 & 7) < 2 ? 1 : 0;
	case 0xf7:
		return (modrm >> 3 & 7) < 2 ? z : 0;
	default:
		return 0;
	}
}

static bool has_modrm(uint8_t map, uint8_t op)
{
	if (map == 1)
		return !(op >= 0x80 && op <= 0x8f) && op != 0x05 && op != 0x0b && op != 0x31 &&
		       op != 0xa2 && !(op >= 0xc8 && op <= 0xcf) && op != 0x77;
	if (op < 0x40)
		return (op & 7) < 4;
	return op == 0x63 || op == 0x69 || op == 0x6b || (op >= 0x80 && op <= 0x8f) || op == 0xc0 ||
	       op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) || op == 0xf6 ||
	       op == 0xf7 || op == 0xfe || op == 0xff;
}

/* The memory operand of ModRM and SIB. Returns the index behind it, 0 when bytes are missing. */
static uint8_t read_mem(const uint8_t *b, uint8_t i, const struct insn *in, uint8_t rex,
			struct insn_ops *o)
{
	uint8_t modrm = b[i], mod = modrm >> 6, rm = modrm & 7, sib, disp_sz;

	i++;
	disp_sz = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	o->base = (uint8_t)(rm | (rex & 1) << 3);
	if (rm == 4) {
		if (i >= in->len)
			return 0;
		sib = b[i++];
		o->base = (uint8_t)((sib & 7) | (rex & 1) << 3);
		o->index = (uint8_t)((sib >> 3 & 7) | (rex & 2) << 2);
		o->scale = (uint8_t)(1 << (sib >> 6));
		if (o->index == REG_RSP)
			o->index = REG_NONE;
		if ((sib & 7) == 5 && !mod) {
			o->base = REG_NONE;
			disp_sz = 4;
		}
	} else if (rm == 5 && !mod) {
		o->base = REG_RIP;
		disp_sz = 4;
	}
	if (i + disp_sz > in->len)
		return 0;
	o->disp = take_imm(b + i + disp_sz, disp_sz);
	if (o->base == REG_RIP)
		o->disp += (int64_t)(in->addr + in->len);
	return (uint8_t)(i + disp_sz);
}

static bool read_modrm(const uint8_t *b, uint8_t i, const struct insn *in, uint8_t rex,
		       struct insn_ops *o)
{
	uint8_t modrm;

	if (i >= in->len)
		return false;
	modrm = b[i];
	o->has_modrm = true;
	o->reg = (uint8_t)((modrm >> 3 & 7) | (rex & 4) << 1);
	if (modrm >> 6 == 3) {
		o->rm = (uint8_t)((modrm & 7) | (rex & 1) << 3);
		i++;
	} else {
		o->mem = true;
		i = read_mem(b, i, in, rex, o);
		if (!i)
			return false;
	}
	if (o->map)
		return true;
	o->imm_sz = imm_size(o->opcode, modrm, o->opsize);
	if (i + o->imm_sz != in->len)
		return false;
	o->imm = take_imm(b + in->len, o->imm_sz);
	return true;
}

bool insn__ops(const uint8_t *b, const struct insn *in, struct insn_ops *o)
{
	struct prefixes p;
	uint8_t i;

	*o = (struct insn_ops){ .rm = REG_NONE, .base = REG_NONE, .index = REG_NONE, .reg = REG_NONE };
	if (!scan_prefixes(b, in->len, &p))
		return false;
	i = p.at;
	o->rex_w = p.rex & 8;
	o->opsize = p.opsize;
	if (b[i] == 0xc4 || b[i] == 0xc5 || b[i] == 0x62) {
		o->map = 2;
		return true;
	}
	if (b[i] == 0x0f) {
		if (++i >= in->len)
			return false;
		o->map = b[i] == 0x38 || b[i] == 0x3a ? 2 : 1;
		o->opcode = b[i];
		if (o->map == 2)
			return true;
	} else {
		o->opcode = b[i];
	}
	if (!has_modrm(o->map, o->opcode)) {
		if (o->map == 0 && o->opcode >= 0xb8 && o->opcode <= 0xbf) {
			o->imm_sz = p.opsize ? 2 : o->rex_w ? 8 : 4;
			o->rm = (uint8_t)((o->opcode & 7) | (p.rex & 1) << 3);
			o->imm = take_imm(b + in->len, o->imm_sz);
		} else if (o->map == 0) {
			o->imm_sz = imm_size(o->opcode, 0, p.opsize);
			o->rm = (uint8_t)((o->opcode & 7) | (p.rex & 1) << 3);
			o->imm = take_imm(b + in->len, o->imm_sz);
		}
		return true;
	}
	return read_modrm(b, (uint8_t)(i + 1), in, p.rex, o);
}

bool insn_ops__is_lea(const struct insn_ops *o)
{
	return !o->map && o->opcode == 0x8d && o->mem;
}

bool insn_ops__is_load(const struct insn_ops *o)
{
	return !o->map && o->opcode == 0x8b && o->mem && !o->opsize;
}

bool insn_ops__is_store(const struct insn_ops *o)
{
	return !o->map && o->opcode == 0x89 && o->mem && !o->opsize;
}

bool insn_ops__mov_rr(const struct insn_ops *o, uint8_t *dst, uint8_t *src)
{
	if (o->map || !o->has_modrm || o->mem || o->opsize)
		return false;
	if (o->opcode == 0x89) {
		*dst = o->rm;
		*src = o->reg;
		return true;
	}
	if (o->opcode == 0x8b) {
		*dst = o->reg;
		*src = o->rm;
		return true;
	}
	return false;
}

bool insn_ops__is_const(const struct insn_ops *o, uint8_t *dst, int64_t *value)
{
	if (o->map || o->opsize)
		return false;
	if (o->opcode >= 0xb8 && o->opcode <= 0xbf) {
		*dst = o->rm;
		*value = o->rex_w ? o->imm : (int64_t)(uint32_t)o->imm;
		return true;
	}
	if (o->opcode == 0xc7 && !o->mem && o->has_modrm) {
		*dst = o->rm;
		*value = o->rex_w ? o->imm : (int64_t)(uint32_t)o->imm;
		return true;
	}
	if ((o->opcode == 0x31 || o->opcode == 0x33) && !o->mem && o->rm == o->reg) {
		*dst = o->rm;
		*value = 0;
		return true;
	}
	return false;
}

/* Opcodes of the one-byte map with a ModRM byte that only read their operands. */
static bool only_reads(const struct insn_ops *o)
{
	uint8_t ext = o->reg & 7;

	if (o->opcode < 0x40)
		return (o->opcode & 0x38) == 0x38; /* cmp */
	switch (o->opcode) {
	case 0x84:
	case 0x85:
		return true; /* test */
	case 0x80:
	case 0x81:
	case 0x83:
		return ext == 7; /* cmp */
	case 0xf6:
	case 0xf7:
		return ext < 2; /* test */
	case 0xff:
		return ext >= 2; /* call, jmp, push */
	default:
		return false;
	}
}

/* Registers that instructions without an operand for them write. */
static bool writes_implicitly(const struct insn_ops *o, uint8_t reg)
{
	uint8_t op = o->opcode;

	if (o->map == 1)
		return (op == 0x31 || op == 0xa2 || op == 0x05 || op == 0x01 || op == 0xb0 ||
			op == 0xb1 || op == 0xc7) &&
		       reg <= REG_RBX;
	if (op >= 0x50 && op <= 0x5f)
		return reg == REG_RSP || (op >= 0x58 && reg == o->rm);
	if (op >= 0x90 && op <= 0x97)
		return op != 0x90 && (reg == REG_RAX || reg == o->rm);
	if (op == 0xa8 || op == 0xa9)
		return false;
	if (op == 0x98 || (op >= 0xa0 && op <= 0xaf) || (op < 0x40 && (op & 7) >= 4))
		return reg == REG_RAX || reg == REG_RSI || reg == REG_RDI || reg == REG_RCX;
	if (op == 0x99)
		return reg == REG_RDX;
	if (op == 0xc8 || op == 0xc9)
		return reg == REG_RSP || reg == REG_RBP;
	if (op == 0x68 || op == 0x6a)
		return reg == REG_RSP;
	return op >= 0xb0 && op <= 0xbf && reg == o->rm;
}

/* Opcodes after 0f whose register operands are vector registers. */
static bool vector_only(uint8_t op)
{
	if (op == 0x2c || op == 0x2d || op == 0x50 || op == 0x7e || op == 0xd7)
		return false;
	return (op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) ||
	       (op >= 0x51 && op <= 0x7f) || op == 0xc6 || op >= 0xd0;
}

bool insn__may_write(const struct insn *in, const struct insn_ops *o, bool ops_known, uint8_t reg)
{
	if (in->cls == INSN_JCC || in->cls == INSN_JMP || in->cls == INSN_JMP_IND)
		return in->op >= 0xe0 && in->op <= 0xe3 && reg == REG_RCX;
	if (in->cls == INSN_CALL || in->cls == INSN_CALL_IND) /* System V: what a callee saves */
		return reg != REG_RBX && reg != REG_RSP && reg != REG_RBP && reg < 12;
	if (!ops_known || o->map == 2)
		return true;
	if (!o->has_modrm)
		return writes_implicitly(o, reg);
	if (o->map == 1) {
		if (writes_implicitly(o, reg))
			return true;
		if (o->opcode == 0x1f || o->opcode == 0x1e || vector_only(o->opcode))
			return false; /* no-ops, endbr64, vectors */
		return reg == o->reg || reg == o->rm;
	}
	if (only_reads(o))
		return o->opcode == 0xff && (o->reg & 7) == 6 && reg == REG_RSP;
	if ((o->opcode == 0xf6 || o->opcode == 0xf7) && (o->reg & 7) >= 4)
		return reg == REG_RAX || reg == REG_RDX;
	if (o->opcode == 0x88 || o->opcode == 0x89) /* mov reg, rm */
		return reg == o->rm;
	if (o->opcode >= 0x80 && (o->opcode <= 0x83 || o->opcode >= 0xc0))
		return reg == o->rm; /* immediate, shift and inc forms: ModRM.reg is an opcode */
	if (o->opcode == 0x8a || o->opcode == 0x8b || insn_ops__is_lea(o) || o->opcode == 0x63)
		return reg == o->reg;
	return reg == o->reg || reg == o->rm;
}
