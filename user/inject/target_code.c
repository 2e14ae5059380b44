/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds the loader, the C library and the allocator of a live process; see inject_priv.h. */
#define LOG_DOMAIN "inject"
#include "inject/inject_priv.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/proc_read.h"
#include "target/elf.h"
#include "target/proc.h"

#define RTLD_NOW_FLAG 2u
#define AUXV_MAX 64 /* entries; the kernel has some 24 (mm_types.h, AT_VECTOR_SIZE) */
/* clang-format off */
/* __RTLD_DLOPEN (glibc include/dlfcn.h), for __libc_dlopen_mode */
#define OLD_DLOPEN_FLAG 0x80000000u
/* clang-format on */

/* `mov $SYS_rt_sigreturn, %rax; syscall`: unwinders know a signal frame by these very bytes. */
static const uint8_t restore_rt_code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/*
 * Of libc: they hold a lock of the loader or the allocator, or work on the list of threads. The
 * first few call functions that others gave them while they do.
 */
#define CALLS_OUT_CNT 9
static const char *const busy_names[] = {
	"dl_iterate_phdr",
	"fork",
	"_Fork",
	"exit",
	"__cxa_finalize",
	"dlclose",
	"__libc_dlclose",
	"__call_tls_dtors",
	"__libc_freeres",
	"malloc",
	"free",
	"calloc",
	"realloc",
	"reallocarray",
	"memalign",
	"aligned_alloc",
	"posix_memalign",
	"valloc",
	"pvalloc",
	"malloc_trim",
	"malloc_info",
	"mallinfo",
	"mallinfo2",
	"mallopt",
	"malloc_stats",
	"dlopen",
	"dlmopen",
	"dlsym",
	"dlvsym",
	"dladdr",
	"dladdr1",
	"dlinfo",
	"dlerror",
	"__libc_dlopen_mode",
	"__libc_dlsym",
	"vfork",
	"pthread_create",
	"pthread_exit",
	"__cxa_atexit",
	"__cxa_thread_atexit_impl",
	"__register_atfork",
	"posix_spawn",
	"posix_spawnp",
	"pthread_atfork",
};

#define BUSY_CNT (sizeof(busy_names) / sizeof(busy_names[0]))

/* What a file of the C library answers, in ELF vaddrs; 0: it does not have it. */
struct libc_facts {
	uint64_t busy[BUSY_CNT], busy_end[BUSY_CNT];
	uint64_t dlopen, old_dlopen, swab, restore_rt;
	uint64_t errno_slot;     /* holds errno's place in the thread's static TLS block */
	uint64_t errno_location; /* the function */
	uint64_t libc;           /* 1: libc itself, not libdl or libpthread */
};

static void take_address(uint64_t *to, const struct elf_sym *sym, const char *name)
{
	if (sym->type == STT_FUNC && !strcmp(sym->name, name))
		*to = sym->addr;
}

static bool take_libc_symbol(const struct elf_sym *sym, void *arg)
{
	struct libc_facts *f = arg;

	if (!sym->defined || !sym->name[0] || sym->type != STT_FUNC)
		return true;
	for (size_t i = 0; i < BUSY_CNT; i++)
		take_address(&f->busy[i], sym, busy_names[i]);
	take_address(&f->dlopen, sym, "dlopen");
	take_address(&f->old_dlopen, sym, "__libc_dlopen_mode");
	take_address(&f->swab, sym, "swab");
	take_address(&f->errno_location, sym, "__errno_location");
	if (!strcmp(sym->name, "gnu_get_libc_version"))
		f->libc = 1;
	return true;
}

#define HAS_MALLOC 1
#define HAS_FREE 2

static bool take_malloc(const struct elf_sym *sym, void *arg)
{
	uint8_t *has = arg;

	if (sym->defined && sym->type == STT_FUNC)
		*has |= !strcmp(sym->name, "malloc") ? HAS_MALLOC :
			!strcmp(sym->name, "free")   ? HAS_FREE :
						       0;
	return *has != (HAS_MALLOC | HAS_FREE);
}

/* ---- single facts; they are found in a child (elf.h) ---- */

static uint64_t find_restore_rt(const struct elf_file *ef)
{
	const uint8_t *p, *at;
	uint64_t addr, len, avail;
	bool exec;

	for (uint32_t i = 0; elf_file__segment(ef, i, &addr, &len, &exec); i++) {
		p = exec && len ? elf_file__bytes(ef, addr, len, &avail) : NULL;
		at = p ? memmem(p, len, restore_rt_code, sizeof(restore_rt_code)) : NULL;
		if (at)
			return addr + (uint64_t)(at - p);
	}
	return 0;
}

/* __errno_location() is `mov slot(%rip), %rax; add %fs:0, %rax; ret`. Address of the slot; 0: it is
 * something else. */
static uint64_t find_errno_slot(const struct elf_file *ef, uint64_t func)
{
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t add_fs[] = { 0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3 };
	const uint8_t *p = func ? elf_file__bytes(ef, func, 32, NULL) : NULL;
	int32_t disp;

	if (p && !memcmp(p, endbr, sizeof(endbr))) {
		p += sizeof(endbr);
		func += sizeof(endbr);
	}
	if (!p || p[0] != 0x48 || p[1] != 0x8b || p[2] != 0x05 ||
	    memcmp(p + 7, add_fs, sizeof(add_fs)) != 0)
		return 0;
	memcpy(&disp, p + 3, sizeof(disp));
	return func + 7 + (uint64_t)(int64_t)disp;
}

static int learn_libc(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct libc_facts f = { .libc = 0 };

	(void)arg;
	elf_file__for_each_sym(ef, take_libc_symbol, &f);
	for (size_t i = 0; i < BUSY_CNT; i++)
		if (f.busy[i] && !elf_file__func_range(ef, f.busy[i], &f.busy[i], &f.busy_end[i]))
			f.busy[i] = 0;
	f.restore_rt = f.libc ? find_restore_rt(ef) : 0;
	f.errno_slot = f.libc ? find_errno_slot(ef, f.errno_location) : 0;
	elf_answer__give(&f, sizeof(f), out, len);
	return 0;
}

static int learn_allocator(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	uint8_t has = 0;

	(void)arg;
	elf_file__for_each_sym(ef, take_malloc, &has);
	elf_answer__give(&has, sizeof(has), out, len);
	return 0;
}

/* Base address of the program's interpreter, from the kernel (AT_BASE). Without one that of the
 * program, which is static or is the loader itself (ld-linux-x86-64.so.2 python ...). */
static uint64_t loader_base(pid_t pid, bool *is_program)
{
	uint64_t pairs[AUXV_MAX][2] = { 0 }, base = 0, headers = 0;

	if (proc_file__read_some(pid, "auxv", pairs, sizeof(pairs)) <= 0)
		pairs[0][0] = AT_NULL;
	for (size_t i = 0; i < AUXV_MAX && pairs[i][0] != AT_NULL; i++) {
		if (pairs[i][0] == AT_BASE)
			base = pairs[i][1];
		else if (pairs[i][0] == AT_PHDR)
			headers = pairs[i][1];
	}
	*is_program = !base;
	return base ? base : headers & ~0xfffULL;
}

/* ---- objects ---- */

static bool is_base(const struct proc_map *map, const char *stem)
{
	const char *base = proc_map__base(map);
	size_t n = strlen(stem);

	return !strncmp(base, stem, n) && (base[n] == '-' || base[n] == '.');
}

/* The mapping at the loader's base; NULL: it is no file's. */
static const struct proc_map *find_loader(const struct proc_maps *maps, uint64_t base)
{
	for (uint32_t i = 0; i < maps->cnt; i++)
		if (maps->items[i].start == base)
			return &maps->items[i];
	return NULL;
}

/* What the file of a mapping may be. */
static enum code_kind object_kind(const struct proc_map *loader, const struct proc_map *map)
{
	if (loader && proc_map__same_file(loader, map))
		return CODE_LOADER;
	if (is_base(map, "libc") || is_base(map, "libpthread") || is_base(map, "libdl"))
		return CODE_LIBC;
	return CODE_ALLOCATOR;
}

static void take_busy(struct target_code *cp, const struct code_object *o,
		      const struct libc_facts *f)
{
	for (size_t i = 0; i < BUSY_CNT; i++) {
		if (!f->busy[i] || cp->busy_cnt == CODE_RANGES_MAX)
			continue;
		cp->busy[cp->busy_cnt].start = o->load_bias + f->busy[i];
		cp->busy[cp->busy_cnt].end = o->load_bias + f->busy_end[i];
		cp->busy[cp->busy_cnt++].calls_out = i < CALLS_OUT_CNT;
	}
}

static void take_libc(pid_t pid, struct target_code *cp, const struct code_object *o,
		      const struct elf_answer *a)
{
	struct libc_facts f;

	if (!elf_answer__get(a, &f, sizeof(f)))
		return;
	take_busy(cp, o, &f);
	if (f.dlopen) {
		/* one of them is not the C library's, whatever its name; libc's own is for where
		 * libdl is not loaded */
		cp->two_dlopens |= cp->dlopen && !(cp->dlopen_flags & OLD_DLOPEN_FLAG);
		cp->dlopen = o->load_bias + f.dlopen;
		cp->dlopen_flags = RTLD_NOW_FLAG;
	}
	if (!f.libc)
		return; /* libdl, libpthread */
	if (!cp->dlopen && f.old_dlopen) {
		cp->dlopen = o->load_bias + f.old_dlopen;
		cp->dlopen_flags = RTLD_NOW_FLAG | OLD_DLOPEN_FLAG;
	}
	cp->restore_rt = f.restore_rt ? o->load_bias + f.restore_rt : 0;
	cp->swab = f.swab ? o->load_bias + f.swab : 0;
	if (f.errno_slot && remote__read(pid, o->load_bias + f.errno_slot, &cp->errno_tpoff,
					 sizeof(cp->errno_tpoff)))
		cp->errno_tpoff = 0;
}

/* Another file that defines malloc and free was loaded to be asked before libc. */
static bool is_allocator(const struct elf_answer *a)
{
	uint8_t has;

	return elf_answer__get(a, &has, sizeof(has)) && has == (HAS_MALLOC | HAS_FREE);
}

/* Adds the file of an executable mapping, unless it cannot be read or is nothing of interest. */
static void add_object(pid_t pid, const struct proc_maps *maps, uint32_t idx, enum code_kind kind,
		       const struct elf_question *q, struct target_code *out)
{
	const struct proc_map *map = &maps->items[idx];
	struct code_object *o = &out->objs[out->obj_cnt];
	struct mapped_file mf;

	if (out->obj_cnt == CODE_OBJECTS_MAX || mapped_file__ask(pid, map, q, &mf))
		return;
	if (kind == CODE_ALLOCATOR && !is_allocator(&mf.answer)) {
		mapped_file__clear(&mf);
		return;
	}
	*o = (struct code_object){ .kind = kind,
				   .start = map->start,
				   .end = map->end,
				   .load_bias = mf.load_bias,
				   .fd = mf.fd,
				   .outline = mf.answer.outline };
	for (uint32_t i = idx + 1; i < maps->cnt; i++)
		if (maps->items[i].exec && maps->items[i].first == idx)
			o->end = maps->items[i].end;
	out->obj_cnt++;
	if (kind == CODE_LIBC)
		take_libc(pid, out, o, &mf.answer);
	elf_answer__clear(&mf.answer); /* the descriptor is the object's now */
}

static void find_in_maps(pid_t pid, const struct proc_maps *maps, uint64_t base,
			 struct target_code *out)
{
	const struct proc_map *loader = find_loader(maps, base);
	uint64_t spent_ns = 0;
	const struct elf_question questions[] = {
		/* no more than where it is */
		[CODE_LOADER] = { .fn = elf_answer__nothing, .spent_ns = &spent_ns },
		[CODE_LIBC] = { .fn = learn_libc, .spent_ns = &spent_ns },
		[CODE_ALLOCATOR] = { .fn = learn_allocator, .spent_ns = &spent_ns },
	};
	enum code_kind kind;

	for (uint32_t pass = 0; pass < 2; pass++) /* allocators come last, since there is a limit */
		for (uint32_t i = 0; i < maps->cnt; i++) {
			kind = object_kind(loader, &maps->items[i]);
			if (proc_maps__is_first(maps, i) && (kind == CODE_ALLOCATOR) == (pass == 1))
				add_object(pid, maps, i, kind, &questions[kind], out);
		}
}

static bool has_libc(const struct target_code *cp)
{
	for (uint32_t i = 0; i < cp->obj_cnt; i++)
		if (cp->objs[i].kind == CODE_LIBC)
			return true;
	return false;
}

static const char *missing_part(const struct target_code *cp, bool is_program)
{
	if (is_program && !has_libc(cp))
		return "it is a static program, which has no loader";
	if (cp->two_dlopens)
		return "it has two C libraries (libc), one of which cannot be the real one";
	if (!cp->restore_rt || !cp->errno_tpoff)
		return "its C library is not a supported glibc";
	if (!cp->dlopen || !cp->swab)
		return "its C library has no dlopen";
	return NULL;
}

int target_code__find(pid_t pid, struct target_code *out, char *why, size_t cap)
{
	bool is_program;
	uint64_t base = loader_base(pid, &is_program);
	struct proc_maps maps;
	int err;

	memset(out, 0, sizeof(*out));
	err = proc_maps__read(pid, &maps);
	if (err) {
		snprintf(why, cap, "its memory map cannot be read: %s", errstr(err));
		return err;
	}
	find_in_maps(pid, &maps, base, out);
	proc_maps__free(&maps);
	if (!missing_part(out, is_program))
		return 0;
	snprintf(why, cap, "%s", missing_part(out, is_program));
	target_code__clear(out);
	return -ENOTSUP;
}

void target_code__clear(struct target_code *cp)
{
	for (uint32_t i = 0; i < cp->obj_cnt; i++)
		if (cp->objs[i].fd > 0)
			close(cp->objs[i].fd);
	memset(cp, 0, sizeof(*cp));
}

const struct code_object *target_code__object(const struct target_code *cp, uint64_t addr)
{
	for (uint32_t i = 0; i < cp->obj_cnt; i++)
		if (addr >= cp->objs[i].start && addr < cp->objs[i].end)
			return &cp->objs[i];
	return NULL;
}

const struct code_range *target_code__busy(const struct target_code *cp, uint64_t addr)
{
	for (uint32_t i = 0; i < cp->busy_cnt; i++)
		if (addr >= cp->busy[i].start && addr < cp->busy[i].end)
			return &cp->busy[i];
	return NULL;
}

/* Read, not mapped: the file may be cut at any time. */
bool code_object__before(const struct code_object *o, uint64_t addr, uint8_t bytes[8])
{
	uint64_t at = addr - o->load_bias - 8;

	for (uint32_t i = 0; i < o->outline.seg_cnt; i++) {
		const struct elf_exec_seg *seg = &o->outline.segs[i];

		if (at >= seg->addr && at - seg->addr < seg->file_sz &&
		    seg->file_sz - (at - seg->addr) >= 8)
			return pread(o->fd, bytes, 8, (off_t)(seg->off + (at - seg->addr))) == 8;
	}
	return false;
}
