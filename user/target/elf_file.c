/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Opening and mapping an ELF file, its segments and build-id. The headers are parsed here and not
 * by libelf because every byte may be hostile and the file is half a gigabyte: nothing is copied,
 * every table is checked once against the size of fstat(). What remains: a file that is
 * truncated while it is mapped raises SIGBUS here as it does in the process that runs it.
 */
#define LOG_DOMAIN "elf_file"
#include "target/elf_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"

static int map_file(struct elf_file *ef, int fd)
{
	struct stat st;
	void *map;

	/* not fstat(): libc makes newfstatat() of it, which takes paths, so that base/sandbox.h does not allow it */
	if (syscall(SYS_fstat, fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	if (st.st_size > (off_t)LIMIT_ELF_FILE_MIB << 20)
		return -EFBIG;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ef->map = map;
	ef->size = (uint64_t)st.st_size;
	return 0;
}

static bool header_ok(const Elf64_Ehdr *eh)
{
	return !memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ELFDATA2LSB && eh->e_machine == EM_X86_64 &&
	       (eh->e_type == ET_DYN || eh->e_type == ET_EXEC) &&
	       eh->e_phentsize == sizeof(Elf64_Phdr);
}

static void add_segment(struct elf_file *ef, const Elf64_Phdr *ph)
{
	struct elf_seg *seg = &ef->segs[ef->seg_cnt];

	if (ef->seg_cnt == ELF_SEG_MAX || ph->p_offset >= ef->size || !ph->p_filesz)
		return;
	seg->addr = ph->p_vaddr;
	seg->off = ph->p_offset;
	seg->file_sz = ph->p_filesz;
	if (seg->file_sz > ef->size - seg->off)
		seg->file_sz = ef->size - seg->off;
	/* no segment may wrap around: then addr + file_sz is safe everywhere */
	if (seg->file_sz > UINT64_MAX - seg->addr)
		return;
	seg->exec = ph->p_flags & PF_X;
	ef->seg_cnt++;
}

static int read_segments(struct elf_file *ef)
{
	uint64_t i, cnt = ef->ehdr.e_phnum;
	const uint8_t *data = elf_priv__at(ef, ef->ehdr.e_phoff, cnt * sizeof(Elf64_Phdr));
	struct elf_table phdrs = { data, cnt };
	Elf64_Phdr ph;

	if (!data)
		return -ENOEXEC;
	for (i = 0; i < cnt; i++) {
		ELF_TABLE_GET(&phdrs, i, &ph);
		if (ph.p_type == PT_LOAD)
			add_segment(ef, &ph);
		else if (ph.p_type == PT_GNU_EH_FRAME)
			ef->eh_hdr = ph.p_vaddr;
	}
	return ef->seg_cnt ? 0 : -ENOEXEC;
}

static void log_failure(const char *name, int err)
{
	if (err == -ENOEXEC)
		pr_error("%s: not an ELF x86-64 program or library, or damaged", name);
	else if (err == -EFBIG)
		pr_error("%s: larger than %d MiB, the limit for a program or library", name,
			 LIMIT_ELF_FILE_MIB);
	else
		pr_error("cannot read %s: %s", name, errstr(err));
}

int elf_file__open_fd(int fd, const char *name, struct elf_file **out)
{
	struct elf_file *ef = calloc(1, sizeof(*ef));
	int err;

	*out = NULL;
	if (!ef)
		return -ENOMEM;
	err = map_file(ef, fd);
	if (err)
		goto fail;
	memcpy(&ef->ehdr, ef->map, sizeof(ef->ehdr));
	err = header_ok(&ef->ehdr) ? read_segments(ef) : -ENOEXEC;
	if (err)
		goto fail;
	elf_dyn__init(ef);
	elf_symtab__init(ef);
	err = elf_plt__init(ef);
	if (err)
		goto fail;
	*out = ef;
	return 0;
fail:
	log_failure(name, err);
	elf_file__close(ef);
	return err;
}

int elf_file__open(const char *path, struct elf_file **out)
{
	/* O_NONBLOCK: the path is the target's, a FIFO there must not stop us */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;

	*out = NULL;
	if (fd < 0) {
		err = -errno;
		log_failure(path, err);
		return err;
	}
	err = elf_file__open_fd(fd, path, out);
	close(fd);
	return err;
}

void elf_file__close(struct elf_file *ef)
{
	if (!ef)
		return;
	if (ef->map)
		munmap((void *)(uintptr_t)ef->map, ef->size);
	free(ef->got);
	free(ef);
}

uint64_t elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < ef->seg_cnt; i++)
		if (addr >= ef->segs[i].addr && addr - ef->segs[i].addr < ef->segs[i].file_sz)
			return ef->segs[i].off + (addr - ef->segs[i].addr);
	return UINT64_MAX;
}

uint64_t elf_file__off_to_addr(const struct elf_file *ef, uint64_t off)
{
	uint32_t i;

	for (i = 0; i < ef->seg_cnt; i++)
		if (off >= ef->segs[i].off && off - ef->segs[i].off < ef->segs[i].file_sz)
			return ef->segs[i].addr + (off - ef->segs[i].off);
	return UINT64_MAX;
}

const uint8_t *elf_file__bytes(const struct elf_file *ef, uint64_t addr, uint64_t len, uint64_t *avail)
{
	uint32_t i;

	if (avail)
		*avail = 0;
	for (i = 0; i < ef->seg_cnt; i++) {
		const struct elf_seg *seg = &ef->segs[i];
		uint64_t rest;

		if (addr < seg->addr || addr - seg->addr >= seg->file_sz)
			continue;
		rest = seg->file_sz - (addr - seg->addr);
		if (len > rest)
			return NULL;
		if (avail)
			*avail = rest;
		return ef->map + seg->off + (addr - seg->addr);
	}
	return NULL;
}

bool elf_file__segment(const struct elf_file *ef, uint32_t i, uint64_t *addr, uint64_t *len, bool *exec)
{
	if (i >= ef->seg_cnt)
		return false;
	*addr = ef->segs[i].addr;
	*len = ef->segs[i].file_sz;
	*exec = ef->segs[i].exec;
	return true;
}

bool elf_file__is_text(const struct elf_file *ef, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < ef->seg_cnt; i++)
		if (addr >= ef->segs[i].addr && addr - ef->segs[i].addr < ef->segs[i].file_sz)
			return ef->segs[i].exec;
	return false;
}

static uint64_t align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

/* Walks the notes in [p, p + sz); the build-id's bytes or NULL. */
static const uint8_t *find_build_id(const uint8_t *p, uint64_t sz, uint64_t align, uint32_t *id_sz)
{
	Elf64_Nhdr nh;
	uint64_t name, desc, next;

	while (sz >= sizeof(nh)) {
		memcpy(&nh, p, sizeof(nh));
		name = sizeof(nh);
		desc = align_up(name + nh.n_namesz, align);
		next = align_up(desc + nh.n_descsz, align);
		if (desc + nh.n_descsz > sz)
			return NULL;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 &&
		    !memcmp(p + name, "GNU", 4) && nh.n_descsz) {
			*id_sz = nh.n_descsz;
			return p + desc;
		}
		if (next >= sz)
			return NULL;
		p += next;
		sz -= next;
	}
	return NULL;
}

/* Program headers may repeat the same notes as often as they like: no more bytes are walked than the file has. */
const uint8_t *elf_priv__build_id(const struct elf_file *ef, uint32_t *sz)
{
	struct elf_table phdrs = { ef->map + ef->ehdr.e_phoff, ef->ehdr.e_phnum };
	uint64_t i, left = ef->size;
	const uint8_t *notes, *id;
	Elf64_Phdr ph;

	for (i = 0; i < phdrs.cnt; i++) {
		ELF_TABLE_GET(&phdrs, i, &ph);
		if (ph.p_type != PT_NOTE)
			continue;
		notes = elf_priv__at(ef, ph.p_offset, ph.p_filesz);
		if (!notes || ph.p_filesz > left)
			continue;
		left -= ph.p_filesz;
		id = find_build_id(notes, ph.p_filesz, ph.p_align == 8 ? 8 : 4, sz);
		if (id)
			return id;
	}
	return NULL;
}

uint32_t elf_file__build_id(const struct elf_file *ef, uint8_t *buf, uint32_t cap)
{
	uint32_t sz = 0;
	const uint8_t *id = elf_priv__build_id(ef, &sz);

	if (!id)
		return 0;
	if (sz > cap)
		sz = cap;
	memcpy(buf, id, sz);
	return sz;
}
