/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inside of struct elf_file, shared by elf_*.c only: tables that were checked against the
 * file's size when it was opened. Nothing here may be trusted beyond those bounds. */
#ifndef TARGET_ELF_PRIV_H
#define TARGET_ELF_PRIV_H

#include <elf.h>
#include <string.h>

#include "target/elf_file.h"

#define ELF_SEG_MAX 64

/* A table of fixed-size records somewhere in the map; the start may be unaligned. */
struct elf_table {
	const uint8_t *data;
	uint64_t cnt;
};

struct elf_symtab {
	struct elf_table syms; /* Elf64_Sym */
	const char *str;
	uint64_t str_sz; /* str[str_sz - 1] is NUL; 0: no names */
};

struct elf_seg {
	uint64_t addr, off, file_sz; /* file_sz is cut to the file's end */
	bool exec;
};

struct got_slot {
	uint64_t addr;
	uint32_t sym; /* index into .dynsym */
};

struct elf_file {
	const uint8_t *map;
	uint64_t size;
	struct elf_seg segs[ELF_SEG_MAX]; /* PT_LOAD */
	uint32_t seg_cnt;
	struct elf_symtab dynsym, symtab;
	struct elf_table rela, jmprel; /* Elf64_Rela */
	struct got_slot *got;          /* sorted by address */
	uint32_t got_cnt;
	uint64_t eh_hdr; /* vaddr of .eh_frame_hdr, 0: none */
	Elf64_Ehdr ehdr;
};

/* A record of a table, copied because the file promises no alignment. i must be < cnt. */
#define ELF_TABLE_GET(table, i, rec)                                                               \
	memcpy((rec), (table)->data + (i) * sizeof(*(rec)), sizeof(*(rec)))

/* [off, off + len) of the file, NULL if it is not wholly inside. */
static inline const uint8_t *elf_priv__at(const struct elf_file *ef, uint64_t off, uint64_t len)
{
	if (off > ef->size || len > ef->size - off)
		return NULL;
	return ef->map + off;
}

const char *elf_priv__sym_name(const struct elf_symtab *st, uint32_t idx); /* NULL: out of bounds */

/* The build-id inside the map, NULL: none. */
const uint8_t *elf_priv__build_id(const struct elf_file *ef, uint32_t *sz);

void elf_priv__sections(const struct elf_file *ef, struct elf_table *tab); /* Elf64_Shdr */
void elf_dyn__init(struct elf_file *ef); /* .dynsym, relocation tables; leaves what is absent empty */
void elf_symtab__init(struct elf_file *ef); /* .symtab by the section headers */
int elf_plt__init(struct elf_file *ef);     /* 0 or -ENOMEM */
/* Calls fn for every named symbol of one table; false when fn stopped it. */
bool elf_symtab__walk(const struct elf_symtab *st, bool (*fn)(const struct elf_sym *sym, void *arg),
		      void *arg);
/* Bounds of a string table made safe: ends at its last NUL. */
void elf_symtab__set_str(struct elf_symtab *st, const uint8_t *str, uint64_t sz);

#endif /* TARGET_ELF_PRIV_H */
