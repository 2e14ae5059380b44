/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A mapped ELF x86-64 shared object or executable: symbols, sections, program headers, relocations
 * that the analysis needs, function starts. Read-only and bounded: a truncated or hostile file gives
 * an error, never a fault (but for SIGBUS when the file is truncated while open). Knows nothing of torch.
 */
#ifndef TARGET_ELF_FILE_H
#define TARGET_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

int elf_file__open(const char *path, struct elf_file **out); /* 0 or negative errno, logged once */
/* The same of an open file, which stays the caller's; name: for messages. */
int elf_file__open_fd(int fd, const char *name, struct elf_file **out);
void elf_file__close(struct elf_file *ef);

/* Build-id bytes; returns the size, 0 if none. */
uint32_t elf_file__build_id(const struct elf_file *ef, uint8_t *buf, uint32_t cap);

struct elf_sym {
	const char *name; /* mangled; points into the file's map */
	uint64_t addr;    /* ELF vaddr */
	uint64_t size;
	uint8_t type; /* STT_* */
	uint8_t bind;
	bool defined;
};

/* Calls fn for every symbol of .dynsym, then of .symtab (duplicates happen). fn returns false to stop. */
void elf_file__for_each_sym(const struct elf_file *ef,
			    bool (*fn)(const struct elf_sym *sym, void *arg), void *arg);

/* vaddr <-> file offset by PT_LOAD; UINT64_MAX when not mapped by the file. */
uint64_t elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr);
uint64_t elf_file__off_to_addr(const struct elf_file *ef, uint64_t off);

/* Bytes at vaddr; NULL if [addr, addr+len) is not file-backed. *avail: bytes up to the segment's end. */
const uint8_t *elf_file__bytes(const struct elf_file *ef, uint64_t addr, uint64_t len, uint64_t *avail);

/* The i-th loaded segment's file-backed part; false when there is none. */
bool elf_file__segment(const struct elf_file *ef, uint32_t i, uint64_t *addr, uint64_t *len, bool *exec);

/* Address and size of a section of this name; false: there is none. */
bool elf_file__section(const struct elf_file *ef, const char *name, uint64_t *addr, uint64_t *size);

/* Is addr in an executable segment? */
bool elf_file__is_text(const struct elf_file *ef, uint64_t addr);

/* The name that a PLT stub or GOT slot at addr resolves to (mangled), NULL if it is none. */
const char *elf_file__plt_name(const struct elf_file *ef, uint64_t addr);

/* Start and end (from .eh_frame_hdr / .eh_frame) of the function that covers addr; covers local
 * functions of stripped files and `.cold` parts as separate ranges. */
bool elf_file__func_range(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end);

#endif /* TARGET_ELF_FILE_H */
