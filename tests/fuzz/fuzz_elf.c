/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as an ELF file: every query runs on it, with addresses from the file itself. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/elf.h"

#define ADDRS_MAX 4096u

struct walk {
	const struct elf_file *ef;
	uint32_t cnt;
	size_t sum;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_addr(struct walk *w, uint64_t addr)
{
	uint64_t start, end, avail;
	const uint8_t *p = elf_file__bytes(w->ef, addr, 1, &avail);
	const char *name = elf_file__plt_name(w->ef, addr);

	if (p)
		w->sum += (size_t)p[0] + p[avail - 1];
	if (name)
		w->sum += strlen(name);
	w->sum += elf_file__func_range(w->ef, addr, &start, &end);
	w->sum += elf_file__is_text(w->ef, addr);
	w->sum += elf_file__off_to_addr(w->ef, elf_file__addr_to_off(w->ef, addr));
}

static bool touch_sym(const struct elf_sym *sym, void *arg)
{
	struct walk *w = arg;

	w->sum += strlen(sym->name);
	touch_addr(w, sym->addr);
	return ++w->cnt < ADDRS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz_elf", 0);
	struct walk w = { 0 };
	struct elf_file *ef;
	uint64_t addr, len;
	char path[64];
	uint8_t id[20];
	bool exec;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return close(fd), 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!elf_file__open(path, &ef)) {
		w.ef = ef;
		elf_file__for_each_sym(ef, touch_sym, &w);
		elf_file__build_id(ef, id, sizeof(id));
		for (uint32_t i = 0; elf_file__segment(ef, i, &addr, &len, &exec); i++) {
			touch_addr(&w, addr);
			touch_addr(&w, addr + len - 1);
			touch_addr(&w, addr + len);
		}
		for (addr = 0; addr < 2 * size && addr < 1 << 16; addr += 13)
			touch_addr(&w, addr);
		elf_file__close(ef);
	}
	close(fd);
	return 0;
}
