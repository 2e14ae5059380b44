/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* USDT sites that an ELF file names in .note.stapsdt (systemtap sys/sdt.h). Bounded: any bytes may be there. */
#ifndef TARGET_ELF_NOTES_H
#define TARGET_ELF_NOTES_H

#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/elf_file.h"

struct usdt_site {
	const char *provider, *name; /* terminated; they point into the note */
	uint64_t addr;               /* ELF vaddr of the instruction */
	uint64_t semaphore;          /* ELF vaddr of a 16-bit counter; 0: it has none */
};
/* False: enough. */
typedef bool (*usdt_fn)(const struct usdt_site *site, void *arg);

void elf_file__for_each_usdt(const struct elf_file *ef, usdt_fn fn, void *arg);

/* The notes of a section; base: where .stapsdt.base is now, 0: not known. False: fn said enough. */
bool usdt_notes__walk(Elf_Data *notes, uint64_t base, usdt_fn fn, void *arg);

#endif /* TARGET_ELF_NOTES_H */
