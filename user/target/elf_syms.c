/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Symbol and relocation tables of an ELF file. The dynamic ones are taken from PT_DYNAMIC, as the
 * loader does (patchelf moves sections about), .symtab from the section headers. No copies: half a
 * million symbols are walked in place.
 */
#include "target/elf_priv.h"

#include <stdlib.h>

void elf_symtab__set_str(struct elf_symtab *st, const uint8_t *str, uint64_t sz)
{
	const uint8_t *nul = sz ? memrchr(str, 0, sz) : NULL;

	st->str = (const char *)str;
	st->str_sz = nul ? (uint64_t)(nul - str) + 1 : 0;
}

const char *elf_priv__sym_name(const struct elf_symtab *st, uint32_t idx)
{
	Elf64_Sym sym;

	if (idx >= st->syms.cnt)
		return NULL;
	ELF_TABLE_GET(&st->syms, idx, &sym);
	return sym.st_name < st->str_sz ? st->str + sym.st_name : NULL;
}

/* Elf64_Shdr; empty: there are none, or not all of them in the file. */
void elf_priv__sections(const struct elf_file *ef, struct elf_table *tab)
{
	const uint8_t *data;
	uint64_t cnt = ef->ehdr.e_shnum;
	Elf64_Shdr first;

	tab->cnt = 0;
	if (!ef->ehdr.e_shoff || ef->ehdr.e_shentsize != sizeof(Elf64_Shdr))
		return;
	data = elf_priv__at(ef, ef->ehdr.e_shoff, sizeof(first));
	if (!data)
		return;
	if (!cnt) { /* more than 65,279 sections: the first one's size is their number */
		memcpy(&first, data, sizeof(first));
		cnt = first.sh_size;
	}
	if (cnt > ef->size / sizeof(Elf64_Shdr) ||
	    !elf_priv__at(ef, ef->ehdr.e_shoff, cnt * sizeof(Elf64_Shdr)))
		return;
	tab->data = data;
	tab->cnt = cnt;
}

void elf_symtab__init(struct elf_file *ef)
{
	struct elf_table s;
	const uint8_t *syms, *str;
	Elf64_Shdr sh, strsh;
	uint64_t i;

	elf_priv__sections(ef, &s);
	for (i = 0; i < s.cnt; i++) {
		ELF_TABLE_GET(&s, i, &sh);
		if (sh.sh_type != SHT_SYMTAB || sh.sh_link >= s.cnt || (sh.sh_flags & SHF_COMPRESSED))
			continue;
		ELF_TABLE_GET(&s, sh.sh_link, &strsh);
		syms = elf_priv__at(ef, sh.sh_offset, sh.sh_size);
		str = elf_priv__at(ef, strsh.sh_offset, strsh.sh_size);
		if (!syms || !str || strsh.sh_type != SHT_STRTAB)
			continue;
		ef->symtab.syms.data = syms;
		ef->symtab.syms.cnt = sh.sh_size / sizeof(Elf64_Sym);
		elf_symtab__set_str(&ef->symtab, str, strsh.sh_size);
		return;
	}
}

/* ---- PT_DYNAMIC ---- */

struct dyn_facts {
	uint64_t symtab, strtab, str_sz, hash, gnu_hash;
	uint64_t rela, rela_sz, jmprel, jmprel_sz;
};

static void dyn_facts__set(struct dyn_facts *d, const Elf64_Dyn *dyn)
{
	switch (dyn->d_tag) {
	case DT_SYMTAB:
		d->symtab = dyn->d_un.d_ptr;
		break;
	case DT_STRTAB:
		d->strtab = dyn->d_un.d_ptr;
		break;
	case DT_STRSZ:
		d->str_sz = dyn->d_un.d_val;
		break;
	case DT_HASH:
		d->hash = dyn->d_un.d_ptr;
		break;
	case DT_GNU_HASH:
		d->gnu_hash = dyn->d_un.d_ptr;
		break;
	case DT_RELA:
		d->rela = dyn->d_un.d_ptr;
		break;
	case DT_RELASZ:
		d->rela_sz = dyn->d_un.d_val;
		break;
	case DT_JMPREL:
		d->jmprel = dyn->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		d->jmprel_sz = dyn->d_un.d_val;
		break;
	default:
		break;
	}
}

static bool dyn_facts__read(struct dyn_facts *d, const struct elf_file *ef)
{
	struct elf_table phdrs = { ef->map + ef->ehdr.e_phoff, ef->ehdr.e_phnum };
	struct elf_table dyns;
	Elf64_Phdr ph;
	Elf64_Dyn dyn;
	uint64_t i;

	memset(d, 0, sizeof(*d));
	for (i = 0; i < phdrs.cnt; i++) {
		ELF_TABLE_GET(&phdrs, i, &ph);
		if (ph.p_type == PT_DYNAMIC)
			break;
	}
	if (i == phdrs.cnt)
		return false;
	dyns.data = elf_priv__at(ef, ph.p_offset, ph.p_filesz);
	dyns.cnt = ph.p_filesz / sizeof(dyn);
	if (!dyns.data)
		return false;
	for (i = 0; i < dyns.cnt; i++) {
		ELF_TABLE_GET(&dyns, i, &dyn);
		if (dyn.d_tag == DT_NULL)
			break;
		dyn_facts__set(d, &dyn);
	}
	return true;
}

static uint32_t word_at(const uint8_t *p, uint64_t idx)
{
	uint32_t v;

	memcpy(&v, p + idx * sizeof(v), sizeof(v));
	return v;
}

/* The symbol count is nowhere in PT_DYNAMIC; DT_GNU_HASH's last chain ends with the last symbol. */
static uint64_t gnu_hash_cnt(const struct elf_file *ef, uint64_t addr)
{
	uint64_t avail, words, i, nbuckets, symoff, bloom, chains, last = 0;
	const uint8_t *p = elf_file__bytes(ef, addr, 16, &avail);

	if (!p)
		return 0;
	words = avail / 4;
	nbuckets = word_at(p, 0);
	symoff = word_at(p, 1);
	bloom = word_at(p, 2);
	chains = 4 + bloom * 2 + nbuckets;
	if (chains > words)
		return 0;
	for (i = 4 + bloom * 2; i < chains; i++)
		if (word_at(p, i) > last)
			last = word_at(p, i);
	if (last < symoff)
		return symoff;
	while (chains + (last - symoff) < words && !(word_at(p, chains + (last - symoff)) & 1))
		last++;
	return last + 1;
}

static uint64_t dynsym_cnt(const struct elf_file *ef, const struct dyn_facts *d)
{
	const uint8_t *hash;
	struct elf_table s;
	Elf64_Shdr sh;
	uint64_t i;

	elf_priv__sections(ef, &s);
	for (i = 0; i < s.cnt; i++) {
		ELF_TABLE_GET(&s, i, &sh);
		if (sh.sh_type == SHT_DYNSYM && sh.sh_addr == d->symtab)
			return sh.sh_size / sizeof(Elf64_Sym);
	}
	if (d->gnu_hash)
		return gnu_hash_cnt(ef, d->gnu_hash);
	hash = elf_file__bytes(ef, d->hash, 8, NULL);
	return hash ? word_at(hash, 1) : 0;
}

static void set_table(const struct elf_file *ef, struct elf_table *tab, uint64_t addr, uint64_t cnt,
		      uint64_t elem_sz)
{
	uint64_t avail;
	const uint8_t *p = elf_file__bytes(ef, addr, 0, &avail);

	if (!p)
		return;
	tab->data = p;
	tab->cnt = cnt < avail / elem_sz ? cnt : avail / elem_sz;
}

void elf_dyn__init(struct elf_file *ef)
{
	struct dyn_facts d;
	const uint8_t *str;

	if (!dyn_facts__read(&d, ef))
		return;
	set_table(ef, &ef->rela, d.rela, d.rela_sz / sizeof(Elf64_Rela), sizeof(Elf64_Rela));
	set_table(ef, &ef->jmprel, d.jmprel, d.jmprel_sz / sizeof(Elf64_Rela), sizeof(Elf64_Rela));
	str = elf_file__bytes(ef, d.strtab, d.str_sz, NULL);
	if (!str || !d.symtab)
		return;
	set_table(ef, &ef->dynsym.syms, d.symtab, dynsym_cnt(ef, &d), sizeof(Elf64_Sym));
	elf_symtab__set_str(&ef->dynsym, str, d.str_sz);
}

bool elf_symtab__walk(const struct elf_symtab *st, bool (*fn)(const struct elf_sym *sym, void *arg),
		      void *arg)
{
	struct elf_sym sym;
	Elf64_Sym raw;
	uint64_t i;

	for (i = 1; i < st->syms.cnt; i++) { /* entry 0 is reserved */
		ELF_TABLE_GET(&st->syms, i, &raw);
		if (raw.st_name >= st->str_sz)
			continue;
		sym.name = st->str + raw.st_name;
		sym.addr = raw.st_value;
		sym.size = raw.st_size;
		sym.type = ELF64_ST_TYPE(raw.st_info);
		sym.bind = ELF64_ST_BIND(raw.st_info);
		sym.defined = raw.st_shndx != SHN_UNDEF;
		if (!fn(&sym, arg))
			return false;
	}
	return true;
}

void elf_file__for_each_sym(const struct elf_file *ef,
			    bool (*fn)(const struct elf_sym *sym, void *arg), void *arg)
{
	if (elf_symtab__walk(&ef->dynsym, fn, arg))
		elf_symtab__walk(&ef->symtab, fn, arg);
}
