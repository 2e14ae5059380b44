/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * USDT notes. A note holds three addresses as they were when the file was linked: of the site, of the empty
 * section .stapsdt.base, of the semaphore; then provider, name and arguments as texts. The section with the
 * notes is not loaded, so whoever moves the loaded part (prelink) does not correct them: the base shows by how
 * much all three are off.
 */
#include "target/elf_notes.h"

#include <string.h>

#include "target/elf_priv.h"

#define NT_STAPSDT 3

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* A terminated text at *p, which moves behind it; NULL: it does not end before `end`. */
static const char *take_text(const uint8_t **p, const uint8_t *end)
{
	const char *text = (const char *)*p;
	const uint8_t *nul = *p < end ? memchr(*p, 0, (size_t)(end - *p)) : NULL;

	if (!nul)
		return NULL;
	*p = nul + 1;
	return text;
}

static bool take_site(const uint8_t *desc, uint64_t sz, uint64_t base, struct usdt_site *site)
{
	const uint8_t *p = desc + 3 * sizeof(uint64_t), *end = desc + sz;
	uint64_t moved;

	if (sz < 3 * sizeof(uint64_t))
		return false;
	moved = base ? base - word(desc + 8) : 0;
	site->addr = word(desc) + moved;
	site->semaphore = word(desc + 16);
	if (site->semaphore)
		site->semaphore += moved;
	site->provider = take_text(&p, end);
	site->name = site->provider ? take_text(&p, end) : NULL;
	return site->name;
}

static uint64_t align4(uint64_t v)
{
	return (v + 3) & ~3ull;
}

bool usdt_notes__walk(const uint8_t *notes, uint64_t sz, uint64_t base, usdt_fn fn, void *arg)
{
	static const char owner[] = "stapsdt";
	struct usdt_site site;
	Elf64_Nhdr nh;

	while (sz >= sizeof(nh)) {
		uint64_t desc, next;

		memcpy(&nh, notes, sizeof(nh));
		desc = align4(sizeof(nh) + (uint64_t)nh.n_namesz);
		next = align4(desc + nh.n_descsz);
		if (desc + nh.n_descsz > sz)
			break;
		if (nh.n_type == NT_STAPSDT && nh.n_namesz == sizeof(owner) &&
		    !memcmp(notes + sizeof(nh), owner, sizeof(owner)) &&
		    take_site(notes + desc, nh.n_descsz, base, &site) && !fn(&site, arg))
			return false;
		if (next >= sz)
			break;
		notes += next;
		sz -= next;
	}
	return true;
}

struct named_sections {
	struct elf_table tab; /* Elf64_Shdr */
	const char *str;
	uint64_t str_sz; /* str[str_sz - 1] is NUL; 0: no names */
};

static bool named_sections__init(struct named_sections *ns, const struct elf_file *ef)
{
	struct elf_symtab names = { 0 };
	uint64_t idx = ef->ehdr.e_shstrndx;
	const uint8_t *str;
	Elf64_Shdr sh;

	elf_priv__sections(ef, &ns->tab);
	if (idx == SHN_XINDEX && ns->tab.cnt) {
		ELF_TABLE_GET(&ns->tab, 0, &sh);
		idx = sh.sh_link;
	}
	if (idx >= ns->tab.cnt)
		return false;
	ELF_TABLE_GET(&ns->tab, idx, &sh);
	str = elf_priv__at(ef, sh.sh_offset, sh.sh_size);
	if (!str || sh.sh_type != SHT_STRTAB)
		return false;
	elf_symtab__set_str(&names, str, sh.sh_size);
	ns->str = names.str;
	ns->str_sz = names.str_sz;
	return ns->str_sz;
}

static bool is_named(const struct named_sections *ns, const Elf64_Shdr *sh, const char *name)
{
	return sh->sh_name < ns->str_sz && !strcmp(ns->str + sh->sh_name, name);
}

void elf_file__for_each_usdt(const struct elf_file *ef, usdt_fn fn, void *arg)
{
	struct named_sections ns;
	uint64_t i, base = 0, left = ef->size; /* sections may repeat the same notes as often as they like */
	const uint8_t *notes;
	Elf64_Shdr sh;

	if (!named_sections__init(&ns, ef))
		return;
	for (i = 0; i < ns.tab.cnt && !base; i++) {
		ELF_TABLE_GET(&ns.tab, i, &sh);
		if (sh.sh_type == SHT_PROGBITS && is_named(&ns, &sh, ".stapsdt.base"))
			base = sh.sh_addr;
	}
	for (i = 0; i < ns.tab.cnt; i++) {
		ELF_TABLE_GET(&ns.tab, i, &sh);
		if (sh.sh_type != SHT_NOTE || (sh.sh_flags & SHF_COMPRESSED) ||
		    !is_named(&ns, &sh, ".note.stapsdt"))
			continue;
		notes = elf_priv__at(ef, sh.sh_offset, sh.sh_size);
		if (!notes || sh.sh_size > left)
			continue;
		left -= sh.sh_size;
		if (!usdt_notes__walk(notes, sh.sh_size, base, fn, arg))
			return;
	}
}
