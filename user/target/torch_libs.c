/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which mapped file is which torch library, recognised by what it defines and not by its name:
 * wheels carry renamed copies, distributions split differently, a static build has all roles in one
 * file.
 */
#define LOG_DOMAIN "torch_libs"
#include "target/torch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "target/elf.h"
#include "target/elf_priv.h"

/* ---- what a file defines ---- */

struct optional_lib;

struct role_score {
	uint32_t cnt[TORCH_LIB_ROLES];
	const struct optional_lib *optional; /* of the file that is inspected; NULL: it is none */
};

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* Libraries that a process may do without: one that cannot be read costs no more than its own
 * probes. */
static const struct optional_lib {
	enum torch_lib_role role;
	const char *file; /* in the file's name: others may export functions of the same names */
	const char *names[4]; /* what it defines */
} optional_libs[] = {
	{ TORCH_LIB_CUDART,
	  "libcudart",
	  { "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost" } },
	{ TORCH_LIB_CUDA,
	  "libcuda.so",
	  { "cuMemAlloc_v2", "cuMemFree_v2", "cuMemCreate", "cuMemMap" } },
};

/* libcudart where it is linked into a library of torch's: its functions have names there, if only
 * local ones. */
static const struct optional_lib linked_cudart = { TORCH_LIB_CUDART,
						   "cuda",
						   { "cudaMalloc", "cudaFree", "cudaLaunchKernel",
						     "cudaMemcpyAsync" } };

static const struct optional_lib *optional_lib(const struct proc_map *map)
{
	for (size_t i = 0; i < sizeof(optional_libs) / sizeof(optional_libs[0]); i++)
		if (map->exec && strstr(proc_map__base(map), optional_libs[i].file))
			return &optional_libs[i];
	return NULL;
}

/* "THPVariableClass", "_Z16THPVariable_WrapN2at10TensorBaseE" */
static bool is_thp_name(const char *s)
{
	if (has_prefix(s, "_Z"))
		for (s += 2; isdigit((unsigned char)*s); s++)
			;
	return has_prefix(s, "THP");
}

static void score_optional(const struct elf_sym *sym, struct role_score *score)
{
	const struct optional_lib *o = score->optional;

	for (size_t i = 0; i < sizeof(o->names) / sizeof(o->names[0]); i++)
		if (sym->type == STT_FUNC && !strcmp(sym->name, o->names[i]))
			score->cnt[o->role]++;
}

static bool score_sym(const struct elf_sym *sym, void *arg)
{
	struct role_score *score = arg;

	if (!sym->defined || !sym->name[0])
		return true;
	if (score->optional) {
		score_optional(sym, score);
		return true;
	}
	/* the functions: the classes' constants are weak in every extension that names them */
	if (has_prefix(sym->name, "_ZN2at4_ops"))
		score->cnt[TORCH_LIB_CPU] += sym->type == STT_FUNC && strstr(sym->name, "4callE");
	else if (has_prefix(sym->name, "_ZN3c1027reportMemoryUsageToProfilerE"))
		score->cnt[TORCH_LIB_C10]++;
	else if (!strcmp(sym->name, "__cxa_begin_catch"))
		score->cnt[TORCH_LIB_CXX] += sym->type == STT_FUNC;
	else if (is_thp_name(sym->name) || !strcmp(sym->name, "PyInit__C"))
		score->cnt[TORCH_LIB_PYTHON]++;
	return true;
}

/* ---- describing the file ---- */

static uint64_t fnv1a(uint64_t h, const uint8_t *p, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}

/* Stands in for a build-id: what any rebuild changes. */
static void digest_file(const struct elf_file *ef, uint8_t out[BUILD_ID_MAX])
{
	uint64_t h[2], avail;
	const uint8_t *eh;
	uint32_t low;

	eh = elf_file__bytes(ef, ef->eh_hdr, 0, &avail);
	for (uint32_t i = 0; i < 2; i++) {
		h[i] = fnv1a(0xcbf29ce484222325ULL + i, (const uint8_t *)&ef->ehdr,
			     sizeof(ef->ehdr));
		h[i] = fnv1a(h[i], (const uint8_t *)ef->phdrs, ef->phdr_cnt * sizeof(Elf64_Phdr));
		h[i] = fnv1a(h[i], (const uint8_t *)ef->dynsym.syms,
			     ef->dynsym.cnt * sizeof(Elf64_Sym));
		if (eh)
			h[i] = fnv1a(h[i], eh, avail < 1 << 20 ? avail : 1 << 20);
	}
	low = (uint32_t)(ef->size ^ ef->size >> 32);
	memcpy(out, h, sizeof(h));
	memcpy(out + sizeof(h), &low, sizeof(low));
}

/* What is asked of a file. */
enum scan_scope {
	SCAN_EXPORTED, /* by the exported symbols: a few milliseconds for all libraries */
	SCAN_ALL,      /* by local symbols too: hundreds */
	SCAN_EXE,      /* the executable, whatever its name */
	SCAN_OPTIONAL, /* CUDA's libraries, by the exported symbols */
	SCAN_LINKED,   /* torch's libraries for CUDA, for what is linked into them */
};

struct lib_query {      /* without padding: compared as bytes */
	uint64_t scope; /* enum scan_scope */
	const struct optional_lib *optional;
};

/* What the file answers. */
struct lib_facts {
	uint32_t cnt[TORCH_LIB_ROLES];
	uint32_t build_id_sz; /* 0: a digest stands in */
	uint8_t build_id[BUILD_ID_MAX];
};

static int learn_facts(const struct elf_file *ef, const void *arg, uint8_t **out, size_t *len)
{
	const struct lib_query *q = arg;
	struct role_score score = { .optional = q->optional };
	struct lib_facts f = { .build_id_sz = 0 };

	f.build_id_sz = elf_file__build_id(ef, f.build_id, BUILD_ID_MAX);
	if (!f.build_id_sz)
		digest_file(ef, f.build_id);
	if (q->scope == SCAN_EXPORTED || q->scope == SCAN_OPTIONAL)
		elf_symtab__walk(&ef->dynsym, score_sym, &score);
	else if (q->scope == SCAN_LINKED) /* each function once */
		elf_symtab__walk(ef->symtab.cnt ? &ef->symtab : &ef->dynsym, score_sym, &score);
	else
		elf_file__for_each_sym(ef, score_sym, &score);
	memcpy(f.cnt, score.cnt, sizeof(f.cnt));
	elf_answer__give(&f, sizeof(f), out, len);
	return 0;
}

/* ---- assembling ---- */

void torch_lib__clear(struct torch_lib *lib)
{
	free(lib->path);
	free(lib->access_path);
	if (lib->fd > 0)
		close(lib->fd);
	memset(lib, 0, sizeof(*lib));
}

int torch_lib__copy(struct torch_lib *to, const struct torch_lib *from)
{
	struct torch_lib lib = *from;

	lib.fd = from->fd > 0 ? fcntl(from->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : 0;
	if (lib.fd < 0)
		return -errno;
	lib.path = xstrdup(from->path);
	lib.access_path = lib.fd ? mapped_file__fd_path(lib.fd) : xstrdup(from->access_path);
	torch_lib__clear(to);
	*to = lib;
	return 0;
}

/* The range of all executable mappings of the file that share the bias. */
static void set_text(struct torch_lib *lib, const struct elf_outline *o,
		     const struct proc_maps *maps, const struct proc_map *first)
{
	const struct proc_map *map;

	lib->text_start = first->start;
	lib->text_end = first->end;
	for (map = first + 1; map < maps->items + maps->cnt; map++) {
		if (!map->exec || map->first != first->first)
			continue;
		if (map->start - mapped_file__linked_addr(o, map) == lib->load_bias)
			lib->text_end = map->end; /* maps are sorted */
		else
			pr_debug("%s is mapped twice, at %lx and %lx", map->path, first->start,
				 map->start);
	}
}

/* Describes the file of an executable mapping. 0; -ECANCELED; else it is not to be used. */
static int describe_lib(const struct torch_proc *tp, const struct proc_maps *maps,
			const struct proc_map *map, const struct elf_question *q,
			struct torch_lib *lib, struct lib_facts *facts)
{
	struct mapped_file mf;
	int err = mapped_file__ask(tp->pid, map, q, &mf);

	if (err)
		return err;
	if (!elf_answer__get(&mf.answer, facts, sizeof(*facts)) ||
	    facts->build_id_sz > BUILD_ID_MAX) {
		mapped_file__clear(&mf);
		return -ENOEXEC;
	}
	lib->id = mf.answer.id;
	lib->load_bias = mf.load_bias;
	set_text(lib, &mf.answer.outline, maps, map);
	lib->build_id_sz = facts->build_id_sz;
	memcpy(lib->build_id, facts->build_id, sizeof(lib->build_id));
	lib->fd = mf.fd;
	mf.fd = 0;
	mapped_file__clear(&mf);
	lib->path = xstrdup(map->path);
	lib->access_path = mapped_file__fd_path(lib->fd);
	lib->present = true;
	return 0;
}

/* Gives the file those roles in which it defines more than the best one before. */
static int take_roles(struct torch_proc *tp, const struct torch_lib *lib,
		      const struct lib_facts *score, struct lib_facts *best)
{
	int err;

	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++) {
		if (score->cnt[role] <= best->cnt[role])
			continue;
		err = torch_lib__copy(&tp->libs[role], lib);
		if (err)
			return err;
		best->cnt[role] = score->cnt[role];
	}
	return 0;
}

/* The file is a library of CUDA's if it defines something of it; one into which it is linked
 * defines all of it, else it calls them somewhere else. */
static int take_cuda(struct torch_proc *tp, const struct torch_lib *lib,
		     const struct optional_lib *optional, const struct lib_facts *score)
{
	enum torch_lib_role role = optional->role;
	struct torch_cuda_lib *c;
	int err;

	if (score->cnt[role] < (optional == &linked_cudart ? 4 : 1))
		return 0;
	vec_reserve((void **)&tp->cuda, &tp->cuda_cap, tp->cuda_cnt + 1ULL, sizeof(*tp->cuda));
	c = &tp->cuda[tp->cuda_cnt];
	*c = (struct torch_cuda_lib){ .role = role };
	err = torch_lib__copy(&c->lib, lib);
	if (err)
		return err;
	tp->cuda_cnt++;
	return 0;
}

bool torch_libs__may_be(const struct proc_map *map)
{
	const char *base = proc_map__base(map);

	return map->exec && (strstr(base, "torch") || strstr(base, "c10"));
}

/* No sign of torch, but of interest where torch is. */
static bool may_be_runtime(const struct proc_map *map)
{
	const char *base = proc_map__base(map);

	return map->exec && (strstr(base, "stdc++") || strstr(base, "c++abi"));
}

static bool is_candidate(const struct proc_map *map)
{
	return !optional_lib(map) && (torch_libs__may_be(map) || may_be_runtime(map));
}

static bool may_have_cudart(const struct proc_map *map)
{
	return torch_libs__may_be(map) && strstr(proc_map__base(map), linked_cudart.file);
}

bool torch_libs__may_be_cuda(const struct proc_map *map)
{
	return optional_lib(map) || may_have_cudart(map);
}

static bool is_wanted(const struct torch_proc *tp, const struct proc_map *map,
		      enum scan_scope scope)
{
	if (scope == SCAN_EXE)
		return map->exec && !strcmp(proc_map__base(map), tp->exe);
	if (scope == SCAN_OPTIONAL)
		return optional_lib(map);
	return scope == SCAN_LINKED ? may_have_cudart(map) : is_candidate(map);
}

/* What goes on from one scan of a process's files to the next. */
struct scan {
	struct lib_facts best; /* for torch's own */
	/* per mapping: why its file could not be used, 0: it could; it is neither tried nor
	 * reported again */
	int *bad;
	uint64_t spent_ns;
};

static int scan_file(struct torch_proc *tp, const struct proc_maps *maps,
		     const struct proc_map *map, enum scan_scope scope, struct scan *s)
{
	struct lib_query query = { .scope = scope };
	struct elf_question q = { learn_facts, &query, sizeof(query), &s->spent_ns };
	struct torch_lib lib = { 0 };
	struct lib_facts facts;
	int err;

	if (scope == SCAN_LINKED || scope == SCAN_OPTIONAL)
		query.optional = scope == SCAN_LINKED ? &linked_cudart : optional_lib(map);
	err = describe_lib(tp, maps, map, &q, &lib, &facts);
	if (err)
		return err;
	err = query.optional ? take_cuda(tp, &lib, query.optional, &facts) :
			       take_roles(tp, &lib, &facts, &s->best);
	torch_lib__clear(&lib);
	return err;
}

static int scan_files(struct torch_proc *tp, const struct proc_maps *maps, enum scan_scope scope,
		      struct scan *s)
{
	int err;

	for (uint32_t i = 0; i < maps->cnt; i++) {
		if (!is_wanted(tp, &maps->items[i], scope) || s->bad[i] ||
		    !proc_maps__is_first(maps, i))
			continue;
		err = scan_file(tp, maps, &maps->items[i], scope, s);
		if (err == -EMFILE || err == -ECANCELED)
			return err;
		s->bad[i] = err;
	}
	return 0;
}

static int find_cuda(struct torch_proc *tp, const struct proc_maps *maps, struct scan *s)
{
	int err = scan_files(tp, maps, SCAN_OPTIONAL, s);

	return err ? err : scan_files(tp, maps, SCAN_LINKED, s);
}

int torch_libs__find_cuda(struct torch_proc *tp, const struct proc_maps *maps)
{
	struct scan s = { .bad = xcalloc(maps->cnt + 1ULL, sizeof(*s.bad)) };
	int err = find_cuda(tp, maps, &s);

	free(s.bad);
	return err;
}

int torch_libs__find(struct torch_proc *tp, const struct proc_maps *maps, int *bad)
{
	struct scan s = { .bad = xcalloc(maps->cnt + 1ULL, sizeof(*s.bad)) };
	int err;

	*bad = 0;
	err = scan_files(tp, maps, SCAN_EXPORTED, &s);
	if (!err && !torch_proc__ready(tp))
		err = scan_files(tp, maps, SCAN_ALL, &s);
	for (uint32_t i = 0; i < maps->cnt; i++)
		if (s.bad[i] && *bad != -EXDEV)
			*bad = s.bad[i];
	/* a program into which torch is linked statically may have any name */
	if (!err && !s.best.cnt[TORCH_LIB_CPU])
		err = scan_files(tp, maps, SCAN_EXE, &s);
	/* another question, another answer */
	memset(s.bad, 0, (maps->cnt + 1ULL) * sizeof(*s.bad));
	if (!err)
		err = find_cuda(tp, maps, &s);
	free(s.bad);
	return err;
}
