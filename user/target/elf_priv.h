/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inside of struct elf_file, shared by elf_*.c only: tables that were checked against the
 * file's size when it was opened. Nothing here may be trusted beyond those bounds. */
#ifndef TARGET_ELF_PRIV_H
#define TARGET_ELF_PRIV_H

#include <gelf.h>
#include <string.h>

#include "target/elf.h"

#define ELF_SEG_MAX 64

struct elf_symtab {
	const Elf64_Sym *syms;
	uint64_t cnt;
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
	Elf *elf;        /* of the map */
	Elf64_Ehdr ehdr; /* as the file has it */
	const Elf64_Phdr *phdrs;
	size_t phdr_cnt;
	struct elf_seg segs[ELF_SEG_MAX]; /* PT_LOAD */
	uint32_t seg_cnt;
	struct elf_symtab dynsym, symtab;
	const Elf64_Rela *rela, *jmprel;
	uint64_t rela_cnt, jmprel_cnt;
	struct got_slot *got; /* sorted by address */
	uint32_t got_cnt;
	uint64_t eh_hdr; /* vaddr of .eh_frame_hdr, 0: none */
};

/* The build-id inside the map, NULL: none. */
const uint8_t *elf_priv__build_id(const struct elf_file *ef, uint32_t *sz);

/* Calls fn for every named symbol of one table; false when fn stopped it. */
bool elf_symtab__walk(const struct elf_symtab *st, bool (*fn)(const struct elf_sym *sym, void *arg),
		      void *arg);

#endif /* TARGET_ELF_PRIV_H */
