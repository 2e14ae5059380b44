/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * USDT notes. A note holds three addresses as they were when the file was linked: of the site, of
 * the empty section .stapsdt.base, of the semaphore; then provider, name and arguments as texts.
 * The section with the notes is not loaded, so a tool that moves the loaded part (prelink) does not
 * correct them: the base shows by how much all three are off.
 */
#include "target/elf.h"

#include <string.h>

#include "target/elf_priv.h"

#define NT_STAPSDT 3

static uint64_t note_word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* A terminated text at *p, which moves past it; NULL: it does not end before `end`. */
static const char *take_text(const uint8_t **p, const uint8_t *end)
{
	const char *text = (const char *)*p;
	const uint8_t *nul = *p < end ? memchr(*p, 0, (size_t)(end - *p)) : NULL;

	if (!nul)
		return NULL;
	*p = nul + 1;
	return text;
}

static bool parse_site(const uint8_t *desc, uint64_t sz, uint64_t base, struct usdt_site *site)
{
	const uint8_t *p = desc + 3 * sizeof(uint64_t), *end = desc + sz;
	uint64_t moved;

	if (sz < 3 * sizeof(uint64_t))
		return false;
	moved = base ? base - note_word(desc + 8) : 0;
	site->addr = note_word(desc) + moved;
	site->semaphore = note_word(desc + 16);
	if (site->semaphore)
		site->semaphore += moved;
	site->provider = take_text(&p, end);
	site->name = site->provider ? take_text(&p, end) : NULL;
	return site->name;
}

bool usdt_notes__walk(Elf_Data *notes, uint64_t base, usdt_fn fn, void *arg)
{
	static const char owner[] = "stapsdt";
	const uint8_t *p = notes->d_buf;
	struct usdt_site site;
	size_t next, name, desc;
	GElf_Nhdr nh;

	for (size_t at = 0; (next = gelf_getnote(notes, at, &nh, &name, &desc)) > 0; at = next)
		if (nh.n_type == NT_STAPSDT && nh.n_namesz == sizeof(owner) &&
		    !memcmp(p + name, owner, sizeof(owner)) &&
		    parse_site(p + desc, nh.n_descsz, base, &site) && !fn(&site, arg))
			return false;
	return true;
}

/* The next section after *scn of this type and name. */
static bool next_named(const struct elf_file *ef, Elf_Scn **scn, uint32_t type, const char *name,
		       GElf_Shdr *sh)
{
	const char *text;
	size_t names;

	if (elf_getshdrstrndx(ef->elf, &names))
		return false;
	while ((*scn = elf_nextscn(ef->elf, *scn))) {
		text = gelf_getshdr(*scn, sh) ? elf_strptr(ef->elf, names, sh->sh_name) : NULL;
		if (text && sh->sh_type == type && !strcmp(text, name))
			return true;
	}
	return false;
}

void elf_file__for_each_usdt(const struct elf_file *ef, usdt_fn fn, void *arg)
{
	/* sections may repeat the same notes as often as they like */
	uint64_t base = 0, left = ef->size;
	Elf_Scn *scn = NULL;
	Elf_Data *notes;
	GElf_Shdr sh;

	if (next_named(ef, &scn, SHT_PROGBITS, ".stapsdt.base", &sh))
		base = sh.sh_addr;
	scn = NULL;
	while (next_named(ef, &scn, SHT_NOTE, ".note.stapsdt", &sh)) {
		if ((sh.sh_flags & SHF_COMPRESSED) || sh.sh_size > left)
			continue;
		left -= sh.sh_size;
		notes = elf_getdata_rawchunk(ef->elf, (int64_t)sh.sh_offset, sh.sh_size,
					     ELF_T_NHDR);
		if (notes && !usdt_notes__walk(notes, base, fn, arg))
			return;
	}
}
