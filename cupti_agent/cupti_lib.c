/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds CUPTI and the driver among what the process has; see cupti_lib.h. Only the agent's thread comes here. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cupti_lib.h"
#include "cupti_records.h"

struct found {
	char cupti[PATH_MAX], cudart[PATH_MAX], cuda[PATH_MAX], torch[PATH_MAX]; /* "": not in the process */
};

static void keep(char *to, const char *path, const char *file, const char *name)
{
	if (!to[0] && !strncmp(file, name, strlen(name)) && strlen(path) < PATH_MAX)
		strcpy(to, path);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
	struct found *f = arg;

	(void)size;
	keep(f->cupti, info->dlpi_name, file, "libcupti.so");
	keep(f->cudart, info->dlpi_name, file, "libcudart.so");
	keep(f->cudart, info->dlpi_name, file, "libcudart-"); /* a wheel's own copy */
	keep(f->cuda, info->dlpi_name, file, "libcuda.so");
	keep(f->torch, info->dlpi_name, file, "libtorch_c");
	return 0;
}

static struct found *look(void)
{
	static struct found f; /* the agent's stack is small */

	memset(&f, 0, sizeof(f));
	dl_iterate_phdr(look_at, &f);
	return &f;
}

/* ---- the driver ---- */

/* X(member, name, arguments), from cuda.h */
#define DRIVER_FUNCTIONS(X)                                   \
	X(count, "cuDeviceGetCount", (int *))                 \
	X(device, "cuDeviceGet", (int *, int))                \
	X(name, "cuDeviceGetName", (char *, int, int))        \
	X(memory, "cuDeviceTotalMem_v2", (size_t *, int))     \
	X(attribute, "cuDeviceGetAttribute", (int *, int, int))

static struct {
#define X(member, name, args) int(*member) args;
	DRIVER_FUNCTIONS(X)
#undef X
	bool whole;
} driver;

static bool resolve(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	memcpy(to, &at, sizeof(at));
	return at != NULL;
}

static void open_driver(void)
{
	const struct found *f = look();
	void *lib = f->cuda[0] ? dlopen(f->cuda, RTLD_NOW | RTLD_NOLOAD) : NULL;

	if (!lib)
		return;
#define X(member, name, args) &&resolve(lib, name, &driver.member)
	driver.whole = true DRIVER_FUNCTIONS(X);
#undef X
}

bool cuda__in_use(void)
{
	int cnt = 0;

	if (!driver.whole)
		open_driver();
	return driver.whole && !driver.count(&cnt) && cnt > 0; /* CUDA_ERROR_NOT_INITIALIZED before cuInit() */
}

static uint32_t attribute(int device, int what)
{
	int value = 0;

	return driver.attribute(&value, what, device) || value < 0 ? 0 : (uint32_t)value;
}

/* CUdevice_attribute */
static void tell_device(int nr)
{
	struct ptb_gpu_device d = { .id = (uint32_t)nr };
	char name[256] = "";
	size_t bytes = 0;
	int dev;

	if (driver.device(&dev, nr))
		return;
	if (!driver.name(name, sizeof(name), dev))
		d.name = cupti_name__id(name);
	if (!driver.memory(&bytes, dev))
		d.memory_bytes = bytes;
	d.memory_bandwidth = 2ULL * attribute(dev, 36) * attribute(dev, 37) / 8;
	d.major = attribute(dev, 75);
	d.minor = attribute(dev, 76);
	d.sm_cnt = attribute(dev, 16);
	d.warp_size = attribute(dev, 10);
	d.clock_khz = attribute(dev, 13);
	d.max_threads_per_block = attribute(dev, 1);
	d.max_warps_per_sm = d.warp_size ? attribute(dev, 39) / d.warp_size : 0;
	d.max_blocks_per_sm = attribute(dev, 106);
	d.shared_per_block = attribute(dev, 8);
	d.shared_per_sm = attribute(dev, 81);
	d.regs_per_block = attribute(dev, 12);
	d.regs_per_sm = attribute(dev, 82);
	cupti_record__put(PTB_REC_GPU_DEVICE, 0, &d, sizeof(d));
}

void cuda__tell_devices(void)
{
	int cnt = 0, i;

	if (driver.count(&cnt))
		return;
	for (i = 0; i < cnt; i++)
		tell_device(i);
}

/* ---- CUPTI ---- */

static void *open_file(const char *path)
{
	return path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* The newest of what matches "<folder of path><pattern>". */
static void *open_beside(const char *path, const char *pattern)
{
	char text[PATH_MAX + 64];
	void *lib = NULL;
	glob_t g;
	size_t i;
	int n;

	n = snprintf(text, sizeof(text), "%.*s%s", (int)(path ? strrchr(path, '/') + 1 - path : 0),
		     path ? path : "", pattern);
	if (n < 0 || (size_t)n >= sizeof(text) || glob(text, 0, NULL, &g))
		return NULL;
	for (i = g.gl_pathc; i-- > 0 && !lib;)
		lib = open_file(g.gl_pathv[i]);
	globfree(&g);
	return lib;
}

/*
 * The copy that the process has; else the one that belongs to the process's CUDA runtime, which is of the same
 * version; else what the loader's path or the usual folders have.
 */
static void *find_cupti(const struct found *f)
{
	static const char *const beside[] = {
		"libcupti.so.[0-9]*",				 /* nvidia/cu13/lib */
		"../../cuda_cupti/lib/libcupti.so.[0-9]*",	 /* from nvidia/cuda_runtime/lib */
		"../../nvidia/cuda_cupti/lib/libcupti.so.[0-9]*", /* from torch/lib */
		"../../nvidia/cu[0-9]*/lib/libcupti.so.[0-9]*",
		"../extras/CUPTI/lib64/libcupti.so.[0-9]*",
	};
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8" };
	static const char *const folders[] = { "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.[0-9]*",
					       "/usr/local/cuda/lib64/libcupti.so.[0-9]*",
					       "/usr/local/cuda-1[1-3]*/extras/CUPTI/lib64/libcupti.so.[0-9]*" };
	void *lib = f->cupti[0] ? dlopen(f->cupti, RTLD_NOW | RTLD_NOLOAD) : NULL;
	size_t i;

	for (i = 0; i < sizeof(beside) / sizeof(*beside) && !lib; i++) {
		if (strchr(f->cudart, '/'))
			lib = open_beside(f->cudart, beside[i]);
		if (!lib && strchr(f->torch, '/'))
			lib = open_beside(f->torch, beside[i]);
	}
	for (i = 0; i < sizeof(names) / sizeof(*names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	for (i = 0; i < sizeof(folders) / sizeof(*folders) && !lib; i++)
		lib = open_beside(NULL, folders[i]);
	return lib;
}

int cupti_lib__open(struct cupti_api *api, uint32_t *version)
{
	void *lib;

	if (!cuda__in_use())
		return PTB_AGENT_WHY_NO_CUDA;
	lib = find_cupti(look());
	if (!lib || !resolve(lib, "cuptiGetVersion", &api->get_version) || api->get_version(version))
		return PTB_AGENT_WHY_NO_CUPTI;
	if (*version < CUPTI_OLDEST)
		return PTB_AGENT_WHY_OLD_CUPTI;
	if (*version > CUPTI_NEWEST)
		return PTB_AGENT_WHY_NEW_CUPTI;
#define X(member, name, args, needed)                          \
	if (!resolve(lib, name, &api->member) && (needed))     \
		return PTB_AGENT_WHY_NO_CUPTI;
	CUPTI_FUNCTIONS(X)
#undef X
	return 0;
}

/* ---- whose buffers ---- */

struct walk {
	uintptr_t code; /* of the library that is meant */
	uint8_t *copy;
	size_t bytes, done;
	const uintptr_t *pair;
	struct cupti_slot *slot;
};

static void look_for_pair(struct walk *w, const uintptr_t *words, size_t cnt)
{
	size_t i;

	for (i = 0; i + 1 < cnt && !w->slot->words; i++) {
		if (words[i] != w->pair[0] || words[i + 1] != w->pair[1])
			continue;
		w->slot->words = &words[i];
		if (w->done + (i + 2) * sizeof(*words) <= w->bytes)
			memcpy(w->slot->before, w->copy + w->done + i * sizeof(*words), sizeof(w->slot->before));
	}
}

static bool has_code(const struct dl_phdr_info *info, uintptr_t code)
{
	size_t i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && code - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			return true;
	}
	return false;
}

/* 13.2 and later may hand their work on to a part of the driver. */
static bool may_have_pair(const struct dl_phdr_info *info, uintptr_t code)
{
	return strstr(info->dlpi_name, "/libcuda.so") || strstr(info->dlpi_name, "/libnvidia-") ||
	       has_code(info, code);
}

/* Copies (no pair yet) or searches the writable segments of CUPTI and of the driver. */
static int walk_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *w = arg;
	size_t i;

	(void)size;
	if (!may_have_pair(info, w->code))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr, start = (at + 7) & ~(uintptr_t)7;
		size_t len = at + p->p_memsz > start ? (at + p->p_memsz - start) & ~(size_t)7 : 0;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
			continue;
		if (w->pair)
			look_for_pair(w, (const uintptr_t *)start, len / sizeof(uintptr_t));
		else if (w->copy && w->done + len <= w->bytes)
			memcpy(w->copy + w->done, (const void *)start, len);
		w->done += len;
	}
	return 0;
}

void *cupti_slot__snapshot(const struct cupti_api *api, size_t *bytes)
{
	struct walk w = { .code = (uintptr_t)api->register_callbacks };
	void *copy;

	dl_iterate_phdr(walk_data, &w);
	*bytes = w.done;
	copy = w.done ? mmap(NULL, w.done, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
			MAP_FAILED;
	if (copy == MAP_FAILED)
		return NULL;
	w.copy = copy;
	w.bytes = w.done;
	w.done = 0;
	dl_iterate_phdr(walk_data, &w);
	return copy;
}

void cupti_slot__find(struct cupti_slot *slot, const struct cupti_api *api, const uintptr_t pair[2],
		      void *snapshot, size_t bytes)
{
	struct walk w = { .code = (uintptr_t)api->register_callbacks, .copy = snapshot, .bytes = bytes,
			  .pair = pair, .slot = slot };

	memset(slot, 0, sizeof(*slot));
	dl_iterate_phdr(walk_data, &w);
	munmap(snapshot, bytes);
}
