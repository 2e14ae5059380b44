/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which imported (or exported and interposable) function a call through the PLT or the GOT reaches:
 * the relocation of the GOT slot names it. Stubs of .plt, .plt.sec and .plt.got all are one jump
 * through a slot, so no section is needed.
 */
#include "target/elf_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"

static bool names_slot(uint64_t type)
{
	switch (type) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_DTPMOD64: /* thread-local variables: the slot pair for __tls_get_addr */
	case R_X86_64_TPOFF64:
		return true;
	default:
		return false;
	}
}

static int add_slots(struct elf_file *ef, const struct elf_table *tab, uint32_t *cap)
{
	struct got_slot *slot;
	Elf64_Rela r;
	uint64_t i;

	for (i = 0; i < tab->cnt; i++) {
		ELF_TABLE_GET(tab, i, &r);
		if (!names_slot(ELF64_R_TYPE(r.r_info)) || !ELF64_R_SYM(r.r_info))
			continue;
		if (vec_reserve((void **)&ef->got, cap, ef->got_cnt + 1ULL, sizeof(*ef->got)))
			return -ENOMEM;
		slot = &ef->got[ef->got_cnt++];
		slot->addr = r.r_offset;
		slot->sym = (uint32_t)ELF64_R_SYM(r.r_info);
	}
	return 0;
}

static int cmp_slot(const void *a, const void *b)
{
	const struct got_slot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

int elf_plt__init(struct elf_file *ef)
{
	uint32_t i, cap = 0;
	bool sorted = true;

	if (add_slots(ef, &ef->jmprel, &cap) || add_slots(ef, &ef->rela, &cap))
		return -ENOMEM;
	for (i = 1; i < ef->got_cnt && sorted; i++)
		sorted = ef->got[i - 1].addr <= ef->got[i].addr;
	if (!sorted)
		qsort(ef->got, ef->got_cnt, sizeof(*ef->got), cmp_slot);
	return 0;
}

static const char *slot_name(const struct elf_file *ef, uint64_t addr)
{
	struct got_slot key = { .addr = addr };
	const struct got_slot *slot;
	const char *name;

	if (!ef->got_cnt)
		return NULL;
	slot = bsearch(&key, ef->got, ef->got_cnt, sizeof(key), cmp_slot);
	if (!slot)
		return NULL;
	name = elf_priv__sym_name(&ef->dynsym, slot->sym);
	return name && *name ? name : NULL;
}

/* [endbr64] [bnd] jmp *disp32(%rip): the address of the slot, 0 if the bytes are something else. */
static uint64_t stub_slot(const struct elf_file *ef, uint64_t addr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint64_t avail, i = 0;
	const uint8_t *p = elf_file__bytes(ef, addr, 6, &avail);
	int32_t disp;

	if (!p || !elf_file__is_text(ef, addr))
		return 0;
	if (!memcmp(p, endbr64, sizeof(endbr64)))
		i = sizeof(endbr64);
	if (p[i] == 0xf2)
		i++;
	if (avail < i + 6 || p[i] != 0xff || p[i + 1] != 0x25)
		return 0;
	memcpy(&disp, p + i + 2, sizeof(disp));
	return addr + i + 6 + (uint64_t)(int64_t)disp;
}

const char *elf_file__plt_name(const struct elf_file *ef, uint64_t addr)
{
	const char *name = slot_name(ef, addr);
	uint64_t slot;

	if (name)
		return name;
	slot = stub_slot(ef, addr);
	return slot ? slot_name(ef, slot) : NULL;
}
