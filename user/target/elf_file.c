/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An ELF file, mapped and read through libelf: section headers, program headers, notes and tables
 * come from libelf, which checks them against the size of the mapping. Tables are had by
 * elf_getdata_rawchunk(), which copies what is not aligned; other functions of libelf return
 * pointers that are not aligned on x86.
 *
 * What libelf does not do is here: addresses by PT_LOAD; the dynamic symbols and relocations by
 * PT_DYNAMIC, as the loader finds them (patchelf moves sections about, and a file may have no
 * section headers); and the function that a stub of the PLT reaches. A file whose section headers
 * are damaged or cut off is read without them. What remains: a file that is truncated while it is
 * mapped raises SIGBUS here as it does in the process that runs it.
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

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- addresses ---- */

static const struct elf_seg *segment_at(const struct elf_file *ef, uint64_t addr)
{
	for (uint32_t i = 0; i < ef->seg_cnt; i++)
		if (addr >= ef->segs[i].addr && addr - ef->segs[i].addr < ef->segs[i].file_sz)
			return &ef->segs[i];
	return NULL;
}

uint64_t elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr)
{
	const struct elf_seg *seg = segment_at(ef, addr);

	return seg ? seg->off + (addr - seg->addr) : UINT64_MAX;
}

uint64_t elf_file__off_to_addr(const struct elf_file *ef, uint64_t off)
{
	for (uint32_t i = 0; i < ef->seg_cnt; i++)
		if (off >= ef->segs[i].off && off - ef->segs[i].off < ef->segs[i].file_sz)
			return ef->segs[i].addr + (off - ef->segs[i].off);
	return UINT64_MAX;
}

const uint8_t *elf_file__bytes(const struct elf_file *ef, uint64_t addr, uint64_t len,
			       uint64_t *avail)
{
	const struct elf_seg *seg = segment_at(ef, addr);
	uint64_t rest = seg ? seg->file_sz - (addr - seg->addr) : 0;

	if (avail)
		*avail = len <= rest ? rest : 0;
	return seg && len <= rest ? ef->map + seg->off + (addr - seg->addr) : NULL;
}

bool elf_file__segment(const struct elf_file *ef, uint32_t i, uint64_t *addr, uint64_t *len,
		       bool *exec)
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
	const struct elf_seg *seg = segment_at(ef, addr);

	return seg && seg->exec;
}

bool elf_file__section(const struct elf_file *ef, const char *name, uint64_t *addr, uint64_t *size)
{
	Elf_Scn *scn = NULL;
	const char *text;
	size_t names;
	GElf_Shdr sh;

	if (elf_getshdrstrndx(ef->elf, &names))
		return false;
	while ((scn = elf_nextscn(ef->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_ALLOC))
			continue;
		text = elf_strptr(ef->elf, names, sh.sh_name);
		if (!text || strcmp(text, name) != 0)
			continue;
		*addr = sh.sh_addr;
		*size = sh.sh_size;
		return true;
	}
	return false;
}

/* ---- notes ---- */

/* Program headers may repeat the same notes as often as they like: no more bytes are walked than
 * the file has. */
const uint8_t *elf_priv__build_id(const struct elf_file *ef, uint32_t *sz)
{
	uint64_t left = ef->size;
	size_t next, name, desc;
	Elf_Data *notes;
	GElf_Nhdr nh;

	for (size_t i = 0; i < ef->phdr_cnt; i++) {
		const Elf64_Phdr *ph = &ef->phdrs[i];

		if (ph->p_type != PT_NOTE || ph->p_filesz > left)
			continue;
		notes = elf_getdata_rawchunk(ef->elf, (int64_t)ph->p_offset, ph->p_filesz,
					     ph->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (!notes)
			continue;
		left -= ph->p_filesz;
		for (size_t at = 0; (next = gelf_getnote(notes, at, &nh, &name, &desc)) > 0;
		     at = next) {
			if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 || !nh.n_descsz ||
			    memcmp((const char *)notes->d_buf + name, "GNU", 4) != 0)
				continue;
			*sz = nh.n_descsz;
			return ef->map + ph->p_offset + desc;
		}
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

/* ---- symbols ---- */

static void set_names(struct elf_symtab *st, const uint8_t *str, uint64_t sz)
{
	const uint8_t *nul = sz ? memrchr(str, 0, sz) : NULL;

	st->str = (const char *)str;
	st->str_sz = nul ? (uint64_t)(nul - str) + 1 : 0;
}

static void find_symtab(struct elf_file *ef)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh, str_sh;
	Elf_Data *syms, *str;

	while ((scn = elf_nextscn(ef->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_SYMTAB ||
		    (sh.sh_flags & SHF_COMPRESSED) ||
		    !gelf_getshdr(elf_getscn(ef->elf, sh.sh_link), &str_sh) ||
		    str_sh.sh_type != SHT_STRTAB)
			continue;
		syms = elf_getdata_rawchunk(ef->elf, (int64_t)sh.sh_offset, sh.sh_size, ELF_T_SYM);
		str = elf_getdata_rawchunk(ef->elf, (int64_t)str_sh.sh_offset, str_sh.sh_size,
					   ELF_T_BYTE);
		if (!syms || !str)
			continue;
		ef->symtab.syms = syms->d_buf;
		ef->symtab.cnt = syms->d_size / sizeof(Elf64_Sym);
		set_names(&ef->symtab, str->d_buf, str->d_size);
		return;
	}
}

/* What PT_DYNAMIC has; 0: nothing of this. */
struct dynamic {
	uint64_t value[DT_NUM]; /* by tag */
	uint64_t gnu_hash;
};

static bool read_tags(const struct elf_file *ef, struct dynamic *d)
{
	Elf_Data *data = NULL;
	const Elf64_Dyn *dyn;
	size_t i;

	memset(d, 0, sizeof(*d));
	for (i = 0; i < ef->phdr_cnt && ef->phdrs[i].p_type != PT_DYNAMIC; i++)
		;
	if (i < ef->phdr_cnt)
		data = elf_getdata_rawchunk(ef->elf, (int64_t)ef->phdrs[i].p_offset,
					    ef->phdrs[i].p_filesz, ELF_T_DYN);
	dyn = data ? data->d_buf : NULL;
	for (i = 0; dyn && i < data->d_size / sizeof(*dyn) && dyn[i].d_tag != DT_NULL; i++) {
		if (dyn[i].d_tag > 0 && dyn[i].d_tag < DT_NUM)
			d->value[dyn[i].d_tag] = dyn[i].d_un.d_val;
		else if (dyn[i].d_tag == DT_GNU_HASH)
			d->gnu_hash = dyn[i].d_un.d_ptr;
	}
	return dyn;
}

static uint32_t word_at(const uint8_t *p, uint64_t idx)
{
	uint32_t v;

	memcpy(&v, p + idx * sizeof(v), sizeof(v));
	return v;
}

/* The symbol count is nowhere in PT_DYNAMIC; DT_GNU_HASH's last chain ends with the last symbol. */
static uint64_t gnu_hash_cnt(const struct elf_file *ef, uint64_t addr)
{
	uint64_t avail, words, nbuckets, symoff, bloom, chains, last = 0;
	const uint8_t *p = elf_file__bytes(ef, addr, 16, &avail);

	if (!p)
		return 0;
	words = avail / 4;
	nbuckets = word_at(p, 0);
	symoff = word_at(p, 1);
	bloom = word_at(p, 2);
	chains = 4 + bloom * 2 + nbuckets;
	if (chains > words)
		return 0;
	for (uint64_t i = 4 + bloom * 2; i < chains; i++)
		if (word_at(p, i) > last)
			last = word_at(p, i);
	if (last < symoff)
		return symoff;
	while (chains + (last - symoff) < words && !(word_at(p, chains + (last - symoff)) & 1))
		last++;
	return last + 1;
}

static uint64_t dynsym_cnt(const struct elf_file *ef, const struct dynamic *d)
{
	Elf_Scn *scn = NULL;
	const uint8_t *hash;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(ef->elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_DYNSYM &&
		    sh.sh_addr == d->value[DT_SYMTAB])
			return sh.sh_size / sizeof(Elf64_Sym);
	if (d->gnu_hash)
		return gnu_hash_cnt(ef, d->gnu_hash);
	hash = elf_file__bytes(ef, d->value[DT_HASH], 8, NULL);
	return hash ? word_at(hash, 1) : 0;
}

/* The table of at most *cnt records at addr; *cnt becomes what the file has of it. */
static const void *table_at(const struct elf_file *ef, uint64_t addr, Elf_Type type, uint64_t *cnt)
{
	uint64_t avail, elem = elf64_fsize(type, 1, EV_CURRENT);
	const uint8_t *p = elf_file__bytes(ef, addr, 0, &avail);
	Elf_Data *data = NULL;

	if (*cnt > avail / elem)
		*cnt = avail / elem;
	if (p && *cnt)
		data = elf_getdata_rawchunk(ef->elf, p - ef->map, *cnt * elem, type);
	if (!data)
		*cnt = 0;
	return data ? data->d_buf : NULL;
}

static void read_dynamic(struct elf_file *ef)
{
	struct dynamic d;
	const uint8_t *str;

	if (!read_tags(ef, &d))
		return;
	ef->rela_cnt = d.value[DT_RELASZ] / sizeof(Elf64_Rela);
	ef->rela = table_at(ef, d.value[DT_RELA], ELF_T_RELA, &ef->rela_cnt);
	ef->jmprel_cnt = d.value[DT_PLTRELSZ] / sizeof(Elf64_Rela);
	ef->jmprel = table_at(ef, d.value[DT_JMPREL], ELF_T_RELA, &ef->jmprel_cnt);
	str = elf_file__bytes(ef, d.value[DT_STRTAB], d.value[DT_STRSZ], NULL);
	if (!str || !d.value[DT_SYMTAB])
		return;
	ef->dynsym.cnt = dynsym_cnt(ef, &d);
	ef->dynsym.syms = table_at(ef, d.value[DT_SYMTAB], ELF_T_SYM, &ef->dynsym.cnt);
	set_names(&ef->dynsym, str, d.value[DT_STRSZ]);
}

bool elf_symtab__walk(const struct elf_symtab *st, bool (*fn)(const struct elf_sym *sym, void *arg),
		      void *arg)
{
	struct elf_sym sym;

	for (uint64_t i = 1; i < st->cnt; i++) { /* entry 0 is reserved */
		const Elf64_Sym *raw = &st->syms[i];

		if (raw->st_name >= st->str_sz)
			continue;
		sym.name = st->str + raw->st_name;
		sym.addr = raw->st_value;
		sym.size = raw->st_size;
		sym.type = ELF64_ST_TYPE(raw->st_info);
		sym.bind = ELF64_ST_BIND(raw->st_info);
		sym.defined = raw->st_shndx != SHN_UNDEF;
		if (!fn(&sym, arg))
			return false;
	}
	return true;
}

void elf_file__for_each_sym(const struct elf_file *ef,
			    bool (*fn)(const struct elf_sym *sym, void *arg), void *arg)
{
	if (elf_symtab__walk(&ef->dynsym, fn, arg))
		elf_symtab__walk(&ef->symtab, fn, arg);
}

/*
 * ---- stubs of the PLT ----
 *
 * Which imported (or exported and interposable) function a call through the PLT or the GOT reaches:
 * the relocation of the GOT slot names it. Stubs of .plt, .plt.sec and .plt.got all are one jump
 * through a slot, so no section is needed.
 */

static bool names_slot(uint64_t type)
{
	switch (type) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_DTPMOD64: /* thread-local variables: the slot pair for __tls_get_addr */
	case R_X86_64_TPOFF64:
		return true;
	default:
		return false;
	}
}

static void add_slots(struct elf_file *ef, const Elf64_Rela *rela, uint64_t cnt, uint32_t *cap)
{
	for (uint64_t i = 0; i < cnt; i++) {
		if (!names_slot(ELF64_R_TYPE(rela[i].r_info)) || !ELF64_R_SYM(rela[i].r_info))
			continue;
		vec_push(ef->got, ef->got_cnt, *cap,
			 (struct got_slot){ rela[i].r_offset,
					    (uint32_t)ELF64_R_SYM(rela[i].r_info) });
	}
}

static int cmp_slot(const void *a, const void *b)
{
	const struct got_slot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void collect_slots(struct elf_file *ef)
{
	uint32_t cap = 0;
	bool sorted = true;

	add_slots(ef, ef->jmprel, ef->jmprel_cnt, &cap);
	add_slots(ef, ef->rela, ef->rela_cnt, &cap);
	for (uint32_t i = 1; i < ef->got_cnt && sorted; i++)
		sorted = ef->got[i - 1].addr <= ef->got[i].addr;
	if (!sorted)
		qsort(ef->got, ef->got_cnt, sizeof(*ef->got), cmp_slot);
}

static const char *slot_name(const struct elf_file *ef, uint64_t addr)
{
	struct got_slot key = { .addr = addr };
	const struct got_slot *slot =
		ef->got_cnt ? bsearch(&key, ef->got, ef->got_cnt, sizeof(key), cmp_slot) : NULL;
	const struct elf_symtab *st = &ef->dynsym;
	const char *name;

	if (!slot || slot->sym >= st->cnt || st->syms[slot->sym].st_name >= st->str_sz)
		return NULL;
	name = st->str + st->syms[slot->sym].st_name;
	return *name ? name : NULL;
}

/* [endbr64] [bnd] jmp *disp32(%rip): the address of the slot, 0 if the bytes are something else. */
static uint64_t stub_slot(const struct elf_file *ef, uint64_t addr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint64_t avail, i = 0;
	const uint8_t *p = elf_file__bytes(ef, addr, 6, &avail);
	int32_t disp;

	if (!p || !elf_file__is_text(ef, addr))
		return 0;
	if (!memcmp(p, endbr64, sizeof(endbr64)))
		i = sizeof(endbr64);
	if (p[i] == 0xf2)
		i++;
	if (avail < i + 6 || p[i] != 0xff || p[i + 1] != 0x25)
		return 0;
	memcpy(&disp, p + i + 2, sizeof(disp));
	return addr + i + 6 + (uint64_t)(int64_t)disp;
}

const char *elf_file__plt_name(const struct elf_file *ef, uint64_t addr)
{
	const char *name = slot_name(ef, addr);
	uint64_t slot;

	if (name)
		return name;
	slot = stub_slot(ef, addr);
	return slot ? slot_name(ef, slot) : NULL;
}

/* ---- opening ---- */

static int map_file(struct elf_file *ef, int fd)
{
	struct stat st;
	void *map;

	/* not fstat(): libc makes newfstatat() of it, which takes paths, so that base/sandbox.h
	 * does not allow it */
	if (syscall(SYS_fstat, fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	if (st.st_size > (off_t)LIMIT_ELF_FILE_MIB << 20)
		return -EFBIG;
	/* MAP_SHARED: into private mappings the kernel puts the breakpoints of those who probe the
	 * file in all processes */
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ef->map = map;
	ef->size = (uint64_t)st.st_size;
	return 0;
}

static bool is_supported(const Elf64_Ehdr *eh)
{
	return eh->e_ident[EI_CLASS] == ELFCLASS64 && eh->e_ident[EI_DATA] == ELFDATA2LSB &&
	       eh->e_machine == EM_X86_64 && (eh->e_type == ET_DYN || eh->e_type == ET_EXEC) &&
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
	Elf_Data *data;

	if (elf_getphdrnum(ef->elf, &ef->phdr_cnt))
		return -ENOEXEC;
	/* not elf64_getphdr(), which takes them for aligned on x86 */
	data = elf_getdata_rawchunk(ef->elf, (int64_t)ef->ehdr.e_phoff,
				    ef->phdr_cnt * sizeof(Elf64_Phdr), ELF_T_PHDR);
	if (!data)
		return -ENOEXEC;
	ef->phdrs = data->d_buf;
	for (size_t i = 0; i < ef->phdr_cnt; i++) {
		if (ef->phdrs[i].p_type == PT_LOAD)
			add_segment(ef, &ef->phdrs[i]);
		else if (ef->phdrs[i].p_type == PT_GNU_EH_FRAME)
			ef->eh_hdr = ef->phdrs[i].p_vaddr;
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
	struct elf_file *ef = xcalloc(1, sizeof(*ef));
	int err;

	*out = NULL;
	err = map_file(ef, fd);
	if (!err) {
		memcpy(&ef->ehdr, ef->map, sizeof(ef->ehdr));
		elf_version(EV_CURRENT);
		ef->elf = elf_memory((char *)(uintptr_t)ef->map, ef->size);
		err = ef->elf && is_supported(&ef->ehdr) ? read_segments(ef) : -ENOEXEC;
	}
	if (!err) {
		read_dynamic(ef);
		find_symtab(ef);
		collect_slots(ef);
	}
	if (err) {
		log_failure(name, err);
		elf_file__close(ef);
		return err;
	}
	*out = ef;
	return 0;
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
	elf_end(ef->elf);
	if (ef->map)
		munmap((void *)(uintptr_t)ef->map, ef->size);
	free(ef->got);
	free(ef);
}
