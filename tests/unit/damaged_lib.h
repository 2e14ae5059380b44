/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A copy of a library in memory, in which a test damages the code of some functions. */
#ifndef TESTS_DAMAGED_LIB_H
#define TESTS_DAMAGED_LIB_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "random.h"
#include "suite.h"
#include "target/elf.h"

#define DAMAGED_FUNCS 64
#define DAMAGED_BITS 8

struct damaged_lib {
	char path[64]; /* of the copy */
	uint8_t *map;
	size_t len;
	int fd;
	const struct elf_file *ef; /* set by the test, for damaged_lib__add() */
	uint64_t off[DAMAGED_FUNCS], size[DAMAGED_FUNCS]; /* the code to be damaged */
	uint32_t func_cnt;
	uint64_t flipped[DAMAGED_BITS];
	uint8_t bits[DAMAGED_BITS];
	uint32_t flip_cnt;
};

static inline void damaged_lib__open(struct damaged_lib *d, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	*d = (struct damaged_lib){ .fd = memfd_create("damaged", MFD_CLOEXEC) };
	CU_ASSERT_FATAL(fd >= 0 && d->fd >= 0 && !fstat(fd, &st) && !ftruncate(d->fd, st.st_size));
	d->len = (size_t)st.st_size;
	d->map = mmap(NULL, d->len, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	CU_ASSERT_FATAL(d->map != MAP_FAILED);
	for (size_t at = 0; at < d->len; at += (size_t)n) {
		n = pread(fd, d->map + at, d->len - at, (off_t)at);
		CU_ASSERT_FATAL(n > 0);
	}
	close(fd);
	snprintf(d->path, sizeof(d->path), "/proc/%d/fd/%d", getpid(), d->fd);
}

static inline void damaged_lib__close(struct damaged_lib *d)
{
	munmap(d->map, d->len);
	close(d->fd);
}

/* Adds a function, at most so many bytes of it. */
static inline void damaged_lib__add(struct damaged_lib *d, const struct elf_sym *sym, uint64_t most)
{
	if (d->func_cnt == DAMAGED_FUNCS)
		return;
	d->off[d->func_cnt] = elf_file__addr_to_off(d->ef, sym->addr);
	d->size[d->func_cnt++] = sym->size < most ? sym->size : most;
}

/* Flips random bits of these functions. */
static inline void damaged_lib__flip(struct damaged_lib *d, uint32_t cnt)
{
	for (d->flip_cnt = 0; d->flip_cnt < cnt; d->flip_cnt++) {
		uint32_t n = (uint32_t)(next_random() % d->func_cnt);
		uint64_t at = d->off[n] + next_random() % d->size[n];

		d->flipped[d->flip_cnt] = at;
		d->bits[d->flip_cnt] = (uint8_t)(1u << next_random() % 8);
		d->map[at] ^= d->bits[d->flip_cnt];
	}
}

static inline void damaged_lib__repair(struct damaged_lib *d)
{
	while (d->flip_cnt--)
		d->map[d->flipped[d->flip_cnt]] ^= d->bits[d->flip_cnt];
}

#endif /* TESTS_DAMAGED_LIB_H */
