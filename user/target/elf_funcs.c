/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Function boundaries from the unwind tables, which no build of torch can do without (exceptions),
 * so they are there for local functions of stripped files too. .eh_frame_hdr's sorted table gives
 * the FDE, the FDE the range. libelf does not read these tables. Layout: LSB 5.0, "Exception
 * Frames"; DWARF 5 section 6.4.
 */
#include "target/elf_priv.h"

/* DW_EH_PE: low nibble is the form, bits 4-6 what it is relative to */
#define PE_ABSPTR 0x00
#define PE_UDATA2 0x02
#define PE_UDATA4 0x03
#define PE_UDATA8 0x04
#define PE_SDATA2 0x0a
#define PE_SDATA4 0x0b
#define PE_SDATA8 0x0c
#define PE_FORM 0x0f
#define PE_REL 0x70
#define PE_PCREL 0x10
#define PE_DATAREL 0x30
#define PE_INDIRECT 0x80
#define PE_OMIT 0xff

/* A reader over bytes of the file that also knows their vaddr. err sticks. */
struct cursor {
	const uint8_t *p;
	uint64_t left, addr;
	bool err;
};

static bool cursor__init(struct cursor *c, const struct elf_file *ef, uint64_t addr)
{
	c->p = elf_file__bytes(ef, addr, 1, &c->left);
	c->addr = addr;
	c->err = !c->p;
	return c->p;
}

static void take_bytes(struct cursor *c, void *buf, uint64_t n)
{
	if (c->err || c->left < n) {
		c->err = true;
		memset(buf, 0, n);
		return;
	}
	memcpy(buf, c->p, n);
	c->p += n;
	c->addr += n;
	c->left -= n;
}

static void skip_bytes(struct cursor *c, uint64_t n)
{
	if (c->err || c->left < n) {
		c->err = true;
		return;
	}
	c->p += n;
	c->addr += n;
	c->left -= n;
}

static uint8_t take_u8(struct cursor *c)
{
	uint8_t v;

	take_bytes(c, &v, sizeof(v));
	return v;
}

static uint32_t take_u32(struct cursor *c)
{
	uint32_t v;

	take_bytes(c, &v, sizeof(v));
	return v;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = take_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while ((b & 0x80) && !c->err);
	return v;
}

static uint64_t form_sz(uint8_t enc)
{
	switch (enc & PE_FORM) {
	case PE_UDATA2:
	case PE_SDATA2:
		return 2;
	case PE_UDATA4:
	case PE_SDATA4:
		return 4;
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return 8;
	default:
		return 0; /* variable length or unknown */
	}
}

/* An encoded value, base: what DATAREL refers to. */
static uint64_t take_enc(struct cursor *c, uint8_t enc, uint64_t base)
{
	uint64_t at = c->addr, v = 0;

	if (!form_sz(enc) || (enc & PE_INDIRECT)) {
		c->err = true;
		return 0;
	}
	take_bytes(c, &v, form_sz(enc)); /* little-endian: the low bytes come first */
	if ((enc & PE_FORM) == PE_SDATA2)
		v = (uint64_t)(int64_t)(int16_t)v;
	else if ((enc & PE_FORM) == PE_SDATA4)
		v = (uint64_t)(int64_t)(int32_t)v;
	switch (enc & PE_REL) {
	case 0:
		return v;
	case PE_PCREL:
		return v + at;
	case PE_DATAREL:
		return v + base;
	default:
		c->err = true;
		return 0;
	}
}

/* Length field of a CIE or FDE; narrows the cursor to the entry's body. */
static void enter_entry(struct cursor *c)
{
	uint64_t len = take_u32(c);

	if (len == UINT32_MAX)
		take_bytes(c, &len, sizeof(len));
	if (!len || len > c->left)
		c->err = true;
	else
		c->left = len;
}

/* How the FDEs of the CIE at addr write pc_begin; PE_OMIT when it cannot be read. */
static uint8_t cie_pc_enc(const struct elf_file *ef, uint64_t addr)
{
	char aug[8];
	struct cursor c;
	uint8_t version, enc = PE_ABSPTR;
	uint32_t n = 0;

	if (!cursor__init(&c, ef, addr))
		return PE_OMIT;
	enter_entry(&c);
	if (take_u32(&c) != 0)
		return PE_OMIT; /* not a CIE */
	version = take_u8(&c);
	do {
		if (n == sizeof(aug))
			return PE_OMIT;
		aug[n] = (char)take_u8(&c);
	} while (aug[n++] && !c.err);
	take_uleb(&c); /* code alignment */
	take_uleb(&c); /* data alignment */
	if (version == 1)
		take_u8(&c);
	else
		take_uleb(&c);
	if (c.err || (version != 1 && version != 3))
		return PE_OMIT;
	if (!aug[0])
		return enc;
	if (aug[0] != 'z')
		return PE_OMIT;
	take_uleb(&c);
	for (uint32_t i = 1; aug[i]; i++) {
		if (aug[i] == 'R')
			enc = take_u8(&c);
		else if (aug[i] == 'L')
			take_u8(&c);
		else if (aug[i] == 'P')
			skip_bytes(&c, form_sz(take_u8(&c)));
	}
	return c.err ? PE_OMIT : enc;
}

static bool fde_range(const struct elf_file *ef, uint64_t fde, uint64_t *start, uint64_t *end)
{
	struct cursor c;
	uint64_t id_at, range;
	uint32_t cie;
	uint8_t enc;

	if (!cursor__init(&c, ef, fde))
		return false;
	enter_entry(&c);
	id_at = c.addr;
	cie = take_u32(&c);
	if (c.err || !cie)
		return false;
	enc = cie_pc_enc(ef, id_at - cie);
	if (enc == PE_OMIT)
		return false;
	*start = take_enc(&c, enc, 0);
	range = take_enc(&c, enc & PE_FORM, 0);
	if (c.err || !range || range > UINT64_MAX - *start)
		return false;
	*end = *start + range;
	return true;
}

/* The table of .eh_frame_hdr: pairs of start address and FDE address, sorted by the former. */
struct eh_table {
	struct cursor at;
	uint64_t cnt, base;
	uint8_t enc;
};

static bool eh_table__init(struct eh_table *t, const struct elf_file *ef)
{
	struct cursor *c = &t->at;
	uint8_t version, ptr_enc, cnt_enc;

	if (!ef->eh_hdr || !cursor__init(c, ef, ef->eh_hdr))
		return false;
	t->base = ef->eh_hdr;
	version = take_u8(c);
	ptr_enc = take_u8(c);
	cnt_enc = take_u8(c);
	t->enc = take_u8(c);
	if (version != 1 || cnt_enc == PE_OMIT || t->enc == PE_OMIT || !form_sz(t->enc))
		return false;
	take_enc(c, ptr_enc, t->base);
	t->cnt = take_enc(c, cnt_enc, t->base);
	if (c->err)
		return false;
	if (t->cnt > c->left / (2 * form_sz(t->enc)))
		t->cnt = c->left / (2 * form_sz(t->enc));
	return true;
}

static uint64_t eh_table__get(const struct eh_table *t, uint64_t idx, uint64_t *fde)
{
	struct cursor c = t->at;
	uint64_t start;

	skip_bytes(&c, idx * 2 * form_sz(t->enc));
	start = take_enc(&c, t->enc, t->base);
	*fde = take_enc(&c, t->enc, t->base);
	return start;
}

bool elf_file__func_range(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct eh_table t;
	uint64_t lo = 0, hi, mid, fde, s, e;

	if (!eh_table__init(&t, ef))
		return false;
	hi = t.cnt;
	while (lo < hi) { /* first entry that starts above addr */
		mid = lo + (hi - lo) / 2;
		if (eh_table__get(&t, mid, &fde) <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	eh_table__get(&t, lo - 1, &fde);
	if (!fde_range(ef, fde, &s, &e) || addr < s || addr >= e)
		return false;
	*start = s;
	*end = e;
	return true;
}
