/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ELF files: this program itself (whose truth is in memory), damaged copies of it, and the wheels'
 * libraries with their half million symbols.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"
#include "target/elf.h"
#include "torch_env.h"

int elf_test_marker(int v);
__attribute__((noinline)) int elf_test_marker(int v)
{
	return v * 3 + getpid();
}

static __attribute__((noinline, used)) int local_marker(int v)
{
	return v * 5 - getppid();
}

/* ---- a copy of this program in memory, to damage ---- */

struct image {
	int fd;
	uint8_t *bytes; /* as it was */
	size_t size;
	char path[64];
};

static void image__load(struct image *img)
{
	struct stat st;
	int fd = open("/proc/self/exe", O_RDONLY);

	CU_ASSERT_FATAL(fd >= 0 && !fstat(fd, &st));
	img->size = (size_t)st.st_size;
	img->bytes = malloc(img->size);
	CU_ASSERT_FATAL(img->bytes && read(fd, img->bytes, img->size) == (ssize_t)img->size);
	close(fd);
	img->fd = memfd_create("image", 0);
	CU_ASSERT_FATAL(img->fd >= 0);
	CU_ASSERT_FATAL(pwrite(img->fd, img->bytes, img->size, 0) == (ssize_t)img->size);
	snprintf(img->path, sizeof(img->path), "/proc/self/fd/%d", img->fd);
}

static void image__free(struct image *img)
{
	close(img->fd);
	free(img->bytes);
}

/* Damage is expected here and its messages would hide the others. */
static int stderr_off(void)
{
	int saved = dup(2), null = open("/dev/null", O_WRONLY);

	fflush(stderr);
	dup2(null, 2);
	close(null);
	return saved;
}

static void stderr_on(int saved)
{
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
}

/* ---- this program ---- */

struct find {
	const char *name;
	struct elf_sym sym;
	uint32_t cnt;
};

static bool find_cb(const struct elf_sym *sym, void *arg)
{
	struct find *f = arg;

	f->cnt++;
	if (!sym->defined || strcmp(sym->name, f->name))
		return true;
	f->sym = *sym;
	return false;
}

static int bias_cb(struct dl_phdr_info *info, size_t sz, void *arg)
{
	(void)sz;
	*(uint64_t *)arg = info->dlpi_addr;
	return 1; /* the first is the program */
}

static uint64_t own_bias(void)
{
	uint64_t bias = 0;

	dl_iterate_phdr(bias_cb, &bias);
	return bias;
}

TEST("symbols of this program")
{
	struct find f = { .name = "elf_test_marker" };
	uint64_t off, avail, bias = own_bias();
	const uint8_t *bytes;
	struct elf_file *ef;

	CU_ASSERT_EQUAL_FATAL(elf_file__open("/proc/self/exe", &ef), 0);
	elf_file__for_each_sym(ef, find_cb, &f);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f.sym.name);
	CU_ASSERT_EQUAL(f.sym.type, STT_FUNC);
	CU_ASSERT_EQUAL(f.sym.bind, STB_GLOBAL);
	CU_ASSERT_EQUAL(f.sym.addr + bias, (uint64_t)(uintptr_t)elf_test_marker);

	CU_ASSERT(elf_file__is_text(ef, f.sym.addr));
	bytes = elf_file__bytes(ef, f.sym.addr, f.sym.size, &avail);
	CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
	CU_ASSERT(avail >= f.sym.size);
	CU_ASSERT(!memcmp(bytes, (const void *)(uintptr_t)elf_test_marker, f.sym.size));
	CU_ASSERT_PTR_NULL(elf_file__bytes(ef, f.sym.addr, avail + 1, NULL));
	CU_ASSERT_PTR_NULL(elf_file__bytes(ef, f.sym.addr, UINT64_MAX, NULL));
	CU_ASSERT_PTR_NULL(elf_file__bytes(ef, UINT64_MAX, 1, NULL));

	off = elf_file__addr_to_off(ef, f.sym.addr);
	CU_ASSERT_NOT_EQUAL(off, UINT64_MAX);
	CU_ASSERT_EQUAL(elf_file__off_to_addr(ef, off), f.sym.addr);
	CU_ASSERT_EQUAL(elf_file__addr_to_off(ef, 1ULL << 46), UINT64_MAX);
	CU_ASSERT_EQUAL(elf_file__off_to_addr(ef, 1ULL << 46), UINT64_MAX);
	CU_ASSERT_FALSE(elf_file__is_text(ef, 1ULL << 46));
	elf_file__close(ef);
}

TEST("function ranges of this program")
{
	uint64_t start, end, addr = (uint64_t)(uintptr_t)local_marker - own_bias();
	struct find f = { .name = "elf_test_marker" };
	struct elf_file *ef;

	CU_ASSERT_EQUAL_FATAL(elf_file__open("/proc/self/exe", &ef), 0);
	elf_file__for_each_sym(ef, find_cb, &f);
	CU_ASSERT_FATAL(elf_file__func_range(ef, f.sym.addr, &start, &end));
	CU_ASSERT_EQUAL(start, f.sym.addr);
	CU_ASSERT_EQUAL(end, f.sym.addr + f.sym.size);
	CU_ASSERT(elf_file__func_range(ef, f.sym.addr + f.sym.size - 1, &start, &end));
	CU_ASSERT_EQUAL(start, f.sym.addr);
	CU_ASSERT(elf_file__func_range(ef, addr, &start, &end));
	CU_ASSERT_EQUAL(start, addr);
	CU_ASSERT_FALSE(elf_file__func_range(ef, 0, &start, &end));
	CU_ASSERT_FALSE(elf_file__func_range(ef, UINT64_MAX, &start, &end));
	elf_file__close(ef);
}

/* Every call in the marker's code is followed; one of them must be getpid's. */
TEST("PLT of this program")
{
	struct find f = { .name = "elf_test_marker" };
	const char *name = NULL;
	const uint8_t *code;
	uint64_t i, to = 0;
	struct elf_file *ef;
	int32_t rel;

	CU_ASSERT_EQUAL_FATAL(elf_file__open("/proc/self/exe", &ef), 0);
	elf_file__for_each_sym(ef, find_cb, &f);
	code = elf_file__bytes(ef, f.sym.addr, f.sym.size, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(code);
	for (i = 0; i + 5 <= f.sym.size && !name; i++) {
		memcpy(&rel, code + i + 1, sizeof(rel));
		if (code[i] != 0xe8)
			continue;
		to = f.sym.addr + i + 5 + (uint64_t)(int64_t)rel;
		name = elf_file__plt_name(ef, to);
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(name);
	CU_ASSERT_STRING_EQUAL(name, "getpid");
	/* the stub's own slot: its displacement is the last four bytes of the jump */
	code = elf_file__bytes(ef, to, 16, NULL);
	for (i = 0; code && !(code[i] == 0xff && code[i + 1] == 0x25) && i < 8; i++)
		;
	memcpy(&rel, code + i + 2, sizeof(rel));
	name = elf_file__plt_name(ef, to + i + 6 + (uint64_t)(int64_t)rel);
	CU_ASSERT_PTR_NOT_NULL_FATAL(name);
	CU_ASSERT_STRING_EQUAL(name, "getpid");
	CU_ASSERT_PTR_NULL(elf_file__plt_name(ef, f.sym.addr));
	CU_ASSERT_PTR_NULL(elf_file__plt_name(ef, 0));
	CU_ASSERT_PTR_NULL(elf_file__plt_name(ef, UINT64_MAX));
	elf_file__close(ef);
}

static int build_id_cb(struct dl_phdr_info *info, size_t sz, void *arg)
{
	uint8_t *out = arg;
	const ElfW(Nhdr) * nh;

	(void)sz;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_NOTE)
			continue;
		nh = (const void *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		if (nh->n_type == NT_GNU_BUILD_ID && nh->n_descsz == 20)
			memcpy(out, (const uint8_t *)nh + sizeof(*nh) + 4, 20);
	}
	return 1;
}

TEST("build-id of this program")
{
	uint8_t id[20] = { 0 }, truth[20] = { 0 };
	struct elf_file *ef;

	dl_iterate_phdr(build_id_cb, truth);
	CU_ASSERT_EQUAL_FATAL(elf_file__open("/proc/self/exe", &ef), 0);
	CU_ASSERT_EQUAL(elf_file__build_id(ef, id, sizeof(id)), sizeof(id));
	CU_ASSERT(!memcmp(id, truth, sizeof(id)));
	memset(id, 0, sizeof(id));
	CU_ASSERT_EQUAL(elf_file__build_id(ef, id, 4), 4);
	CU_ASSERT(!memcmp(id, truth, 4) && !id[4]);
	elf_file__close(ef);
}

/* Without section headers .symtab is gone, .dynsym is counted by the hash table, the rest works. */
TEST("no section headers")
{
	struct find all = { .name = "no such symbol" }, dyn = all, cut = all,
		    marker = { .name = "elf_test_marker" };
	uint64_t start, end;
	struct elf_file *ef;
	struct image img;
	Elf64_Ehdr eh;

	image__load(&img);
	memcpy(&eh, img.bytes, sizeof(eh));
	CU_ASSERT_EQUAL_FATAL(elf_file__open(img.path, &ef), 0);
	elf_file__for_each_sym(ef, find_cb, &all);
	elf_file__for_each_sym(ef, find_cb, &marker);
	elf_file__close(ef);
	eh.e_shoff = 0;
	eh.e_shnum = eh.e_shstrndx = 0;
	CU_ASSERT(pwrite(img.fd, &eh, sizeof(eh), 0) == sizeof(eh));
	CU_ASSERT_EQUAL_FATAL(elf_file__open(img.path, &ef), 0);
	elf_file__for_each_sym(ef, find_cb, &dyn);
	CU_ASSERT(dyn.cnt > 10 && dyn.cnt < all.cnt);
	CU_ASSERT(elf_file__func_range(ef, marker.sym.addr, &start, &end));
	elf_file__close(ef);
	/* beyond the file's end, and more than it can have: the same as none */
	for (uint32_t i = 0; i < 2; i++) {
		eh.e_shoff = img.size;
		eh.e_shnum = i ? 0xfe00 : 30;
		cut.cnt = 0;
		CU_ASSERT(pwrite(img.fd, &eh, sizeof(eh), 0) == sizeof(eh));
		CU_ASSERT_EQUAL_FATAL(elf_file__open(img.path, &ef), 0);
		elf_file__for_each_sym(ef, find_cb, &cut);
		CU_ASSERT_EQUAL(cut.cnt, dyn.cnt);
		elf_file__close(ef);
	}
	image__free(&img);
}

/* ---- damage ---- */

static bool touch_sym(const struct elf_sym *sym, void *arg)
{
	*(size_t *)arg += strlen(sym->name) + sym->type;
	return true;
}

/* Calls everything, with addresses that the file itself provides. */
static void touch(const struct elf_file *ef)
{
	static size_t sum;
	uint64_t start, end, avail;
	const uint8_t *p;
	const char *name;
	uint8_t id[20];

	elf_file__for_each_sym(ef, touch_sym, &sum);
	sum += elf_file__build_id(ef, id, sizeof(id));
	for (uint64_t addr = 0; addr < 1 << 18; addr += 61) {
		p = elf_file__bytes(ef, addr, 1, &avail);
		if (p)
			sum += p[0] + p[avail - 1];
		name = elf_file__plt_name(ef, addr);
		sum += name ? strlen(name) : 0;
		sum += elf_file__func_range(ef, addr, &start, &end);
		sum += elf_file__addr_to_off(ef, addr) + elf_file__off_to_addr(ef, addr);
	}
}

TEST("truncated files")
{
	int saved = stderr_off();
	uint32_t refused = 0, opened = 0;
	struct elf_file *ef;
	struct image img;

	image__load(&img);
	for (size_t size = img.size; size > 4096; size -= 997) {
		CU_ASSERT(!ftruncate(img.fd, (off_t)size));
		if (elf_file__open(img.path, &ef)) {
			refused++;
			continue;
		}
		opened++;
		touch(ef);
		elf_file__close(ef);
	}
	for (size_t size = 0; size < 1024; size += 3) {
		CU_ASSERT(!ftruncate(img.fd, (off_t)size));
		if (!elf_file__open(img.path, &ef)) {
			touch(ef);
			elf_file__close(ef);
		}
		refused += !ef;
	}
	stderr_on(saved);
	image__free(&img);
	CU_ASSERT(refused > 20 && opened > 20);
}

/* Where a flipped bit matters: headers, tables and what they lead to, not the bulk of the text. */
static size_t pick_place(const struct image *img, unsigned int *seed)
{
	Elf64_Ehdr eh;
	size_t at = (size_t)rand_r(seed);

	memcpy(&eh, img->bytes, sizeof(eh));
	switch (rand_r(seed) % 4) {
	case 0:
		return at % (sizeof(eh) + eh.e_phnum * sizeof(Elf64_Phdr));
	case 1:
		return (eh.e_shoff + at % (eh.e_shnum * sizeof(Elf64_Shdr))) % img->size;
	case 2:
		return at % (img->size < 16384 ? img->size : 16384);
	default:
		return at % img->size;
	}
}

TEST("flipped bits")
{
	int saved = stderr_off();
	uint32_t n, opened = 0;
	unsigned int seed = 20240501;
	struct elf_file *ef;
	struct image img;
	size_t at[8];
	uint8_t v, bit;

	image__load(&img);
	for (uint32_t i = 0; i < 4000; i++) {
		n = 1 + (uint32_t)rand_r(&seed) % 8;
		for (uint32_t j = 0; j < n; j++) {
			at[j] = pick_place(&img, &seed);
			bit = (uint8_t)(1 << rand_r(&seed) % 8);
			v = (uint8_t)(rand_r(&seed) % 3 ? img.bytes[at[j]] ^ bit : rand_r(&seed));
			CU_ASSERT_FATAL(pwrite(img.fd, &v, 1, (off_t)at[j]) == 1);
		}
		if (!elf_file__open(img.path, &ef)) {
			opened++;
			touch(ef);
			elf_file__close(ef);
		}
		for (uint32_t j = 0; j < n; j++)
			CU_ASSERT_FATAL(pwrite(img.fd, &img.bytes[at[j]], 1, (off_t)at[j]) == 1);
	}
	stderr_on(saved);
	image__free(&img);
	CU_ASSERT(opened > 1000 && opened < 4000);
}

TEST("not an ELF x86-64 file")
{
	int saved = stderr_off();
	struct elf_file *ef;
	struct image img;
	Elf64_Ehdr eh;

	CU_ASSERT_EQUAL(elf_file__open("/no/such/file", &ef), -ENOENT);
	CU_ASSERT_PTR_NULL(ef);
	CU_ASSERT_EQUAL(elf_file__open("/proc", &ef), -ENOEXEC);
	CU_ASSERT_EQUAL(elf_file__open("/dev/zero", &ef), -ENOEXEC);
	CU_ASSERT_EQUAL(elf_file__open("/etc/passwd", &ef), -ENOEXEC);
	image__load(&img);
	memcpy(&eh, img.bytes, sizeof(eh));
	eh.e_machine = EM_AARCH64;
	CU_ASSERT(pwrite(img.fd, &eh, sizeof(eh), 0) == sizeof(eh));
	CU_ASSERT_EQUAL(elf_file__open(img.path, &ef), -ENOEXEC);
	memcpy(&eh, img.bytes, sizeof(eh));
	eh.e_ident[EI_CLASS] = ELFCLASS32;
	CU_ASSERT(pwrite(img.fd, &eh, sizeof(eh), 0) == sizeof(eh));
	CU_ASSERT_EQUAL(elf_file__open(img.path, &ef), -ENOEXEC);
	image__free(&img);
	stderr_on(saved);
}

/* ---- the wheels ---- */

struct ops {
	const struct elf_file *ef;
	uint32_t calls, wrong;
};

static bool check_call(const struct elf_sym *sym, void *arg)
{
	struct ops *ops = arg;
	uint64_t start, end;

	if (!sym->defined || sym->type != STT_FUNC || strncmp(sym->name, "_ZN2at4_ops", 11) ||
	    !strstr(sym->name, "4callE"))
		return true;
	ops->calls++;
	if (!elf_file__func_range(ops->ef, sym->addr, &start, &end) || start != sym->addr ||
	    end != sym->addr + sym->size || !elf_file__is_text(ops->ef, sym->addr))
		ops->wrong++;
	return true;
}

/* The unwind tables and the symbol table must agree on every operator. */
TEST("operators of the wheels")
{
	struct torch_env envs[TORCH_ENV_MAX];
	size_t cnt = torch_env__find(envs);
	struct ops ops = { 0 };
	struct elf_file *ef;
	uint8_t id[20];
	char path[600];

	for (size_t i = 0; i < cnt; i++) {
		snprintf(path, sizeof(path), "%s/libtorch_cpu.so", envs[i].libs);
		CU_ASSERT_EQUAL_FATAL(elf_file__open(path, &ef), 0);
		memset(&ops, 0, sizeof(ops));
		ops.ef = ef;
		elf_file__for_each_sym(ef, check_call, &ops);
		CU_ASSERT(ops.calls > 2500);
		CU_ASSERT_EQUAL(ops.wrong, 0);
		CU_ASSERT_EQUAL(elf_file__build_id(ef, id, sizeof(id)), 20);
		elf_file__close(ef);
	}
}

int main(void)
{
	struct torch_env envs[TORCH_ENV_MAX];

	if (run_suite("elf_file"))
		return 1;
	return torch_env__find(envs) ? 0 : torch_env__skip();
}
