/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a launch names is one of two things. Up to CUDA 12 it is the address of a function which
 * nvcc writes on the host for each kernel, under the kernel's own name or "__device_stub_" before
 * it: a symbol of the library that has the address mapped. From CUDA 13 it is a handle that the
 * stub asked for at its first launch (__cudaGetKernel, crt/host_runtime.h) and keeps in a static
 * variable "__handle": the symbol of the variable that holds the handle names the stub, and so the
 * kernel.
 *
 * Symbols are of .symtab, where the library kept it, else of .dynsym. A child without privileges
 * makes a sorted list of them (elf.h), once per file, which has the names' offsets; the names are
 * read from the open file. Mappings are read once per process and again where nothing is found in
 * them.
 */
#include "target/torch.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "target/elf.h"
#include "target/elf_priv.h"
#include "target/proc.h"

#define NAME_MAX_LEN 4096
#define STUB "__device_stub_"
#define HANDLE "E8__handle"
#define READ_AT_ONCE 65536     /* bytes of the process's memory */
#define MAPS_AGAIN_NS 50000000 /* mappings are read again this often at most */
#define MS 1000000ull

struct named_addr {
	uint64_t addr;
	uint64_t name; /* file offset */
};

struct named_addrs { /* sorted, each address once */
	struct named_addr *items;
	uint32_t cnt;
	int fd; /* of the file that has the names; 0: none is needed */
	bool known;
};

/* One file, for all processes that have it mapped. */
struct host_lib {
	struct elf_outline *outline; /* NULL: nothing in it has a name */
	struct named_addrs funcs, handles;
};

struct host_proc {
	pid_t pid;
	uint64_t read_ns;   /* when its mappings were read; 0: not yet */
	uint64_t spent_ns;  /* in the children that read its files */
	uint64_t files_ns;  /* with its files in all */
	uint64_t search_ns; /* for names, without that */
	uint64_t until_ns;  /* when to give up the one that is searched for, by search_clock() */
	uint64_t demangle_ns;
	uint32_t name_cnt, list_cnt; /* that were read for it, and are kept */
	bool cut;                    /* some were not read */
	struct proc_maps maps;
};

struct host_funcs {
	struct host_lib *libs;
	uint32_t lib_cnt, lib_cap;
	struct hashmap lib_of; /* (inode, device) -> index */
	struct host_proc *procs;
	uint32_t proc_cnt, proc_cap;
};

struct host_funcs *host_funcs__new(void)
{
	return xcalloc(1, sizeof(struct host_funcs));
}

static void named_addrs__clear(struct named_addrs *list)
{
	free(list->items);
	if (list->fd > 0)
		close(list->fd);
}

void host_funcs__free(struct host_funcs *hf)
{
	if (!hf)
		return;
	for (uint32_t i = 0; i < hf->lib_cnt; i++) {
		free(hf->libs[i].outline);
		named_addrs__clear(&hf->libs[i].funcs);
		named_addrs__clear(&hf->libs[i].handles);
	}
	for (uint32_t i = 0; i < hf->proc_cnt; i++)
		proc_maps__free(&hf->procs[i].maps);
	hashmap__clear(&hf->lib_of);
	free(hf->libs);
	free(hf->procs);
	free(hf);
}

/* ---- symbols of a file: in the child ---- */

struct found_name {
	uint64_t addr;
	const char *name; /* in the file's map */
};

struct found_names {
	struct found_name *items;
	uint32_t cnt, cap;
};

static void add_name(struct found_names *list, const struct elf_sym *sym)
{
	vec_push(list->items, list->cnt, list->cap,
		 (struct found_name){ .addr = sym->addr, .name = sym->name });
}

static bool add_func_name(const struct elf_sym *sym, void *arg)
{
	if (sym->defined && sym->type == STT_FUNC && sym->addr && sym->name[0])
		add_name(arg, sym);
	return true;
}

static bool add_handle_name(const struct elf_sym *sym, void *arg)
{
	size_t len = strlen(sym->name);

	if (sym->defined && sym->type == STT_OBJECT && sym->addr && len >= sizeof(HANDLE) &&
	    !strcmp(sym->name + len - (sizeof(HANDLE) - 1), HANDLE) && strstr(sym->name, STUB))
		add_name(arg, sym);
	return true;
}

/* Does it ask for handles? Found by its import, which is sooner than by all its symbols. */
static bool is_handle_import(const struct elf_sym *sym, void *arg)
{
	bool *found = arg;

	*found = !sym->defined && !strcmp(sym->name, "__cudaGetKernel");
	return !*found;
}

static int cmp_name(const void *a, const void *b)
{
	const struct found_name *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void answer_names(const struct elf_file *ef, struct found_names *found, uint8_t **out,
			 size_t *len)
{
	struct named_addr *list = xcalloc(found->cnt + 1ULL, sizeof(*list));
	uint32_t n = 0;

	if (found->cnt)
		qsort(found->items, found->cnt, sizeof(*found->items), cmp_name);
	for (uint32_t i = 0; i < found->cnt; i++)
		if (!i || found->items[i].addr != found->items[i - 1].addr)
			list[n++] = (struct named_addr){
				found->items[i].addr,
				(uint64_t)((const uint8_t *)found->items[i].name - ef->map)
			};
	free(found->items);
	*out = (uint8_t *)list;
	*len = n * sizeof(*list);
}

static int learn_funcs(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct found_names found = { .cnt = 0 };

	(void)arg;
	elf_file__for_each_sym(ef, add_func_name, &found);
	answer_names(ef, &found, out, len);
	return 0;
}

static int learn_handles(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	struct found_names found = { .cnt = 0 };
	bool asks = false;

	(void)arg;
	elf_symtab__walk(&ef->dynsym, is_handle_import, &asks);
	if (asks)
		elf_symtab__walk(&ef->symtab, add_handle_name, &found);
	answer_names(ef, &found, out, len);
	return 0;
}

/* ---- symbols of a file ---- */

static bool is_sorted(const struct named_addrs *list)
{
	for (uint32_t i = 1; i < list->cnt; i++)
		if (list->items[i].addr <= list->items[i - 1].addr)
			return false;
	return true;
}

typedef int (*learn_fn)(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len);

/* What one process may no longer read is not marked as known: others may. */
static bool may_read(struct host_proc *hp)
{
	if (hp->name_cnt < LIMIT_KERNEL_SYMBOLS && hp->list_cnt < LIMIT_KERNEL_LISTS &&
	    hp->spent_ns <= LIMIT_ELF_SPENT_MS * MS)
		return true;
	hp->cut = true;
	return false;
}

/* In most files there is nothing. */
static void keep_names(struct host_lib *lib, struct named_addrs *list, struct host_proc *hp,
		       struct mapped_file *mf)
{
	list->items = (struct named_addr *)(void *)mf->answer.data;
	list->cnt = (uint32_t)(mf->answer.len / sizeof(*list->items));
	mf->answer.data = NULL;
	if (list->cnt && !lib->outline)
		lib->outline = vec_dup(&mf->answer.outline, 1, sizeof(*lib->outline));
	if (!list->cnt || !mem_limit__allows(0) || !is_sorted(list)) {
		free(list->items);
		list->items = NULL;
		list->cnt = 0;
		return;
	}
	list->fd = mf->fd;
	mf->fd = 0;
	hp->name_cnt += list->cnt;
	hp->list_cnt++;
}

static const struct named_addrs *read_names_of(struct host_lib *lib, struct named_addrs *list,
					       learn_fn fn, struct host_proc *hp,
					       const struct proc_map *map)
{
	const struct elf_question q = { .fn = fn, .spent_ns = &hp->spent_ns };
	struct mapped_file mf;
	uint64_t begin;
	int err;

	if (list->known || !may_read(hp))
		return list;
	begin = clock__cpu_ns();
	err = mapped_file__ask(hp->pid, map, &q, &mf);
	hp->files_ns += clock__cpu_ns() - begin;
	list->known = err != -ECANCELED;
	if (err)
		return list;
	keep_names(lib, list, hp, &mf);
	mapped_file__clear(&mf);
	return list;
}

static bool read_name(const struct named_addrs *list, uint64_t off, char *buf, size_t cap)
{
	ssize_t n = off > INT64_MAX ? -1 : pread(list->fd, buf, cap, (off_t)off);

	return n > 0 && strnlen(buf, (size_t)n) < (size_t)n;
}

/* The file of a mapping, to be opened. NULL: out of memory. */
static struct host_lib *find_lib(struct host_funcs *hf, const struct proc_map *map)
{
	uint64_t dev = (uint64_t)map->dev_major << 32 | map->dev_minor;
	const uint64_t *known = hashmap__get(&hf->lib_of, map->ino, dev);

	if (known)
		return &hf->libs[*known];
	vec_push(hf->libs, hf->lib_cnt, hf->lib_cap, (struct host_lib){ .outline = NULL });
	hashmap__put(&hf->lib_of, map->ino, dev, hf->lib_cnt - 1);
	return &hf->libs[hf->lib_cnt - 1];
}

/* Run-time address - ELF vaddr, of one that has names. */
static bool load_bias_of(const struct host_lib *lib, const struct proc_map *map, uint64_t *bias)
{
	uint64_t linked = mapped_file__linked_addr(lib->outline, map);

	*bias = map->start - linked;
	return linked != UINT64_MAX;
}

static int cmp_addr(const void *a, const void *b)
{
	const struct named_addr *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* ---- where a launch's name is ---- */

static uint64_t time_left(const struct host_proc *hp)
{
	const uint64_t all = LIMIT_KERNEL_SEARCH_MS * MS, one = LIMIT_KERNEL_NAME_MS * MS;
	uint64_t left = hp->search_ns < all ? all - hp->search_ns : 0;

	return left < one ? left : one;
}

/* A clock that stands while a file is read. */
static uint64_t search_clock(const struct host_proc *hp)
{
	return clock__cpu_ns() - hp->files_ns;
}

static bool is_over(const struct host_proc *hp)
{
	return cancel__pending() || search_clock(hp) >= hp->until_ns;
}

/* The symbol of the function that begins at addr. */
static bool by_function(struct host_funcs *hf, struct host_proc *hp, uint64_t addr, char *name,
			size_t cap)
{
	const struct named_addrs *list;
	const struct named_addr *found;
	struct named_addr key;
	struct host_lib *lib;
	uint64_t bias;

	for (uint32_t i = 0; i < hp->maps.cnt; i++) {
		const struct proc_map *map = &hp->maps.items[i];

		if (!map->exec || addr < map->start || addr >= map->end)
			continue;
		lib = find_lib(hf, map);
		list = read_names_of(lib, &lib->funcs, learn_funcs, hp, map);
		if (!list->cnt || !load_bias_of(lib, map, &bias))
			return false;
		key.addr = addr - bias;
		found = bsearch(&key, list->items, list->cnt, sizeof(key), cmp_addr);
		return found && read_name(list, found->name, name, cap);
	}
	return false;
}

/* The variable of one library that holds the handle; variables that lie together are read at
 * once. */
static bool holder_in(const struct host_proc *hp, const struct named_addrs *list, uint64_t bias,
		      uint64_t handle, uint8_t *buf, char *name, size_t cap)
{
	uint32_t i = 0, end;
	uint64_t word, start;

	for (; i < list->cnt && !is_over(hp); i = end) {
		start = list->items[i].addr;
		for (end = i; end < list->cnt && list->items[end].addr - start <= READ_AT_ONCE - 8;
		     end++)
			;
		if (remote__read(hp->pid, start + bias, buf,
				 (size_t)(list->items[end - 1].addr - start) + 8))
			continue;
		for (uint32_t k = i; k < end; k++) {
			memcpy(&word, buf + (list->items[k].addr - start), sizeof(word));
			if (word == handle)
				return read_name(list, list->items[k].name, name, cap);
		}
	}
	return false;
}

static bool by_handle(struct host_funcs *hf, struct host_proc *hp, uint64_t handle, char *name,
		      size_t cap)
{
	uint8_t *buf = xmalloc(READ_AT_ONCE);
	const struct named_addrs *list;
	struct host_lib *lib;
	bool found = false;
	uint64_t bias;

	for (uint32_t i = 0; !found && i < hp->maps.cnt && !is_over(hp); i++) {
		const struct proc_map *map = &hp->maps.items[i];

		lib = map->exec ? find_lib(hf, map) : NULL;
		if (!lib)
			continue;
		list = read_names_of(lib, &lib->handles, learn_handles, hp, map);
		found = list->cnt && load_bias_of(lib, map, &bias) &&
			holder_in(hp, list, bias, handle, buf, name, cap);
	}
	free(buf);
	return found;
}

/* ---- mappings of a process ---- */

static struct host_proc *find_proc(struct host_funcs *hf, pid_t pid)
{
	for (uint32_t i = 0; i < hf->proc_cnt; i++)
		if (hf->procs[i].pid == pid)
			return &hf->procs[i];
	vec_push(hf->procs, hf->proc_cnt, hf->proc_cap, (struct host_proc){ .pid = pid });
	return &hf->procs[hf->proc_cnt - 1];
}

/* A library that was mapped since then is found by reading them again. 0 or negative errno. */
static int read_maps_again(struct host_proc *hp, int hold)
{
	uint64_t now = clock__mono_ns();
	struct proc_maps fresh;
	int err;

	if (hp->read_ns && now - hp->read_ns < MAPS_AGAIN_NS)
		return -ENOENT;
	err = proc_maps__read(hp->pid, &fresh);
	if (err)
		return pid_hold__alive(hold) ? err : -ESRCH;
	if (!pid_hold__alive(hold)) { /* none are left, or they are another process's */
		proc_maps__free(&fresh);
		return -ESRCH;
	}
	proc_maps__free(&hp->maps);
	hp->maps = fresh;
	hp->read_ns = now;
	return 0;
}

static bool find_name(struct host_funcs *hf, struct host_proc *hp, int hold, uint64_t addr,
		      char *name, size_t cap)
{
	return by_function(hf, hp, addr, name, cap) ||
	       (by_handle(hf, hp, addr, name, cap) && pid_hold__alive(hold));
}

/* 0; why there is none, as host_funcs__kernel(). */
static int search(struct host_funcs *hf, struct host_proc *hp, int hold, uint64_t addr, char *name,
		  size_t cap)
{
	int err = -ENOENT;

	if (!is_over(hp) && find_name(hf, hp, hold, addr, name, cap))
		return 0;
	if (!is_over(hp))
		err = read_maps_again(hp, hold);
	if (!err && find_name(hf, hp, hold, addr, name, cap))
		return 0;
	if (!err && !pid_hold__alive(hold))
		return -ESRCH;
	if (err && err != -ENOENT)
		return err;
	if (is_over(hp))
		return cancel__pending() ? -ECANCELED : -ETIMEDOUT;
	return hp->cut ? -E2BIG : -ENOENT;
}

/* ---- names ---- */

/*
 * A symbol that is made from a stub's name has "<length>__device_stub_" in it, and then the
 * kernel's mangled name, or "_" and its plain one; any other is the kernel's own.
 */
static void kernel_symbol(const char *symbol, char *buf, size_t cap)
{
	const char *stub = strstr(symbol, STUB), *digits = stub;
	unsigned long len;

	snprintf(buf, cap, "%s", symbol);
	if (!stub || strncmp(symbol, "_Z", 2) != 0)
		return;
	while (digits > symbol && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	len = digits < stub ? strtoul(digits, NULL, 10) : 0;
	if (len < sizeof(STUB) || strnlen(stub, len) < len)
		return;
	stub += sizeof(STUB) - 1;
	len -= sizeof(STUB) - 1;
	if (len > 1 && *stub == '_' && stub[1] != 'Z') {
		stub++;
		len--;
	}
	snprintf(buf, cap, "%.*s", (int)len, stub);
}

int host_funcs__kernel(struct host_funcs *hf, pid_t pid, int hold, uint64_t addr, char *buf,
		       size_t cap)
{
	struct host_proc *hp = find_proc(hf, pid);
	char name[NAME_MAX_LEN], symbol[NAME_MAX_LEN], *plain;
	uint64_t begin;
	int err, n;

	if (!cap)
		return -EINVAL;
	buf[0] = 0;
	if (!addr)
		return -ENOENT;
	begin = search_clock(hp);
	hp->until_ns = begin + time_left(hp);
	err = search(hf, hp, hold, addr, name, sizeof(name));
	hp->search_ns += search_clock(hp) - begin;
	if (err)
		return err;
	kernel_symbol(name, symbol, sizeof(symbol));
	plain = demangle(symbol, &hp->demangle_ns);
	n = snprintf(buf, cap, "%s", plain ? plain : symbol);
	free(plain);
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}
