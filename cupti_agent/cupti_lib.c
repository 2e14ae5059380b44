/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds CUPTI and the driver among what the process has; see cupti_lib.h. */
#include "cupti_lib.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cupti.h"
#include "cupti_records.h"
#include "libs.h"

static bool resolve(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	memcpy(to, &at, sizeof(at));
	return at != NULL;
}

/* ---- the driver ---- */

/* X(member, name, arguments), from cuda.h */
/* clang-format off */
#define DRIVER_FUNCTIONS(X)                                   \
	X(count, "cuDeviceGetCount", (int *))                 \
	X(device, "cuDeviceGet", (int *, int))                \
	X(name, "cuDeviceGetName", (char *, int, int))        \
	X(memory, "cuDeviceTotalMem_v2", (size_t *, int))     \
	X(attribute, "cuDeviceGetAttribute", (int *, int, int))
/* clang-format on */

struct driver {
#define X(member, name, args) int(*member) args;
	DRIVER_FUNCTIONS(X)
#undef X
};

static atomic_bool in_use;

/* How many devices; CUDA_ERROR_NOT_INITIALIZED before cuInit() */
static int open_driver(struct driver *d)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int cnt = 0;

#define X(member, name, args) || !resolve(lib, name, &d->member)
	if (!lib DRIVER_FUNCTIONS(X) || d->count(&cnt))
		cnt = 0;
#undef X
	if (lib)
		dlclose(lib);
	return cnt;
}

void cuda__check_in_use(void)
{
	struct driver d;

	if (!in_use)
		in_use = open_driver(&d) > 0;
}

bool cuda__in_use(void)
{
	return in_use;
}

static void report_device(const struct driver *d, int nr)
{
	static const int attributes[] = {
#define X(name, nr) nr,
		PTB_GPU_ATTRS(X)
#undef X
	};
	struct ptb_arec_gpu_device r = { .r.kind = PTB_AREC_GPU_DEVICE,
					 .id = (uint32_t)nr,
					 .cnt = PTB_GPU_ATTR_CNT };
	int values[PTB_GPU_ATTR_CNT] = { 0 }, dev;
	char name[256] = "";
	size_t bytes = 0;

	if (d->device(&dev, nr))
		return;
	if (!d->name(name, sizeof(name), dev))
		r.r.aux = cupti_name__id(name);
	if (!d->memory(&bytes, dev))
		r.memory_bytes = bytes;
	for (int i = 0; i < PTB_GPU_ATTR_CNT; i++)
		if (d->attribute(&values[i], attributes[i], dev))
			values[i] = 0;
	cupti_record__put(&r.r, sizeof(r), values, sizeof(values));
}

void cuda__report_devices(void)
{
	struct driver d;
	int cnt = open_driver(&d);

	for (int i = 0; i < cnt; i++)
		report_device(&d, i);
}

/* ---- CUPTI ---- */

/* The newest of what matches the pattern in that folder. */
static void *open_newest(const char *folder, const char *pattern)
{
	char text[PATH_MAX + 64];
	void *lib = NULL;
	glob_t g;

	snprintf(text, sizeof(text), "%s/%s", folder, pattern);
	if (glob(text, 0, NULL, &g))
		return NULL;
	for (size_t i = g.gl_pathc; i-- > 0 && !lib;)
		lib = dlopen(g.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
	globfree(&g);
	return lib;
}

/* One that was installed with a library that is here. */
static void *open_beside(const char *part)
{
	static const char *const patterns[] = {
		"libcupti.so.[0-9]*",                             /* nvidia/cu13/lib */
		"../../cuda_cupti/lib/libcupti.so.[0-9]*",        /* from nvidia/cuda_runtime/lib */
		"../../nvidia/cuda_cupti/lib/libcupti.so.[0-9]*", /* from torch/lib */
		"../../nvidia/cu[0-9]*/lib/libcupti.so.[0-9]*",
		"../extras/CUPTI/lib64/libcupti.so.[0-9]*",
	};
	void *here = libs__find(part, NULL), *lib = NULL;
	char folder[PATH_MAX];

	if (!here)
		return NULL;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns) && !lib &&
			   !dlinfo(here, RTLD_DI_ORIGIN, folder);
	     i++)
		lib = open_newest(folder, patterns[i]);
	dlclose(here);
	return lib;
}

/*
 * The copy that the process has; else the one that belongs to the process's CUDA runtime, which is
 * of the same version; else what the loader's path or the usual folders have.
 */
static void *find_cupti(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12",
					     "libcupti.so.11.8" };
	static const char *const toolkits[] = {
		"cuda/extras/CUPTI/lib64/libcupti.so.[0-9]*", "cuda/lib64/libcupti.so.[0-9]*",
		"cuda-1[1-3]*/extras/CUPTI/lib64/libcupti.so.[0-9]*"
	};
	void *lib = libs__find("/libcupti.so", NULL);

	if (!lib)
		lib = open_beside("/libcudart");
	if (!lib)
		lib = open_beside("/libtorch_c");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < sizeof(toolkits) / sizeof(*toolkits) && !lib; i++)
		lib = open_newest("/usr/local", toolkits[i]);
	return lib;
}

int cupti_lib__open(struct cupti_api *api, uint32_t *version)
{
	void *lib = find_cupti();

	if (!lib || !resolve(lib, "cuptiGetVersion", &api->get_version) ||
	    api->get_version(version))
		return PTB_AGENT_WHY_NO_CUPTI;
	if (*version < CUPTI_OLDEST)
		return PTB_AGENT_WHY_OLD_CUPTI;
	if (*version > CUPTI_NEWEST)
		return PTB_AGENT_WHY_NEW_CUPTI;
/* clang-format off */
#define X(member, name, args, needed)                          \
	if (!resolve(lib, name, &api->member) && (needed))     \
		return PTB_AGENT_WHY_NO_CUPTI;
	/* clang-format on */
	CUPTI_FUNCTIONS(X)
#undef X
	return 0;
}

/* ---- whose buffers ---- */

struct walk {
	uintptr_t base;  /* of CUPTI */
	uintptr_t *copy; /* of its data as it was before; NULL: its size is asked for */
	size_t words, done;
	const struct cupti_pair *pair; /* to find; NULL: the copy is to be made */
	struct cupti_slot *slot;
};

/* Quick: until the pair that was there is back, its owner gets no buffers. */
static void search_pair(struct walk *w, const uintptr_t *data, size_t cnt)
{
	size_t i = w->slot->at ? cnt : 0;
	uintptr_t want[2];

	memcpy(want, w->pair, sizeof(want));
	while (i + 1 < cnt && (data[i] != want[0] || data[i + 1] != want[1]))
		i++;
	if (i + 1 >= cnt)
		return;
	w->slot->at = (const void *)&data[i];
	if (w->done + i + 2 <= w->words)
		memcpy(&w->slot->before, w->copy + w->done + i, sizeof(w->slot->before));
}

/* The writable segments of CUPTI and of the driver, to parts of which 13.2 and later may hand their
 * work on. */
static int walk_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *w = arg;

	(void)size;
	if (!strstr(info->dlpi_name, "/libcuda.so") && !strstr(info->dlpi_name, "/libnvidia-") &&
	    info->dlpi_addr != w->base)
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr, start = (at + 7) & ~(uintptr_t)7;
		size_t cnt =
			at + p->p_memsz > start ? (at + p->p_memsz - start) / sizeof(uintptr_t) : 0;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
			continue;
		if (w->pair)
			search_pair(w, (const uintptr_t *)start, cnt);
		else if (w->copy && w->done + cnt <= w->words)
			memcpy(w->copy + w->done, (const void *)start, cnt * sizeof(uintptr_t));
		w->done += cnt;
	}
	return 0;
}

static size_t walk(struct walk *w)
{
	w->done = 0;
	dl_iterate_phdr(walk_data, w);
	return w->done;
}

int cupti_slot__register(struct cupti_slot *slot, const struct cupti_api *api,
			 const struct cupti_pair *pair)
{
	struct walk w = { .slot = slot };
	Dl_info cupti;
	size_t bytes;
	int err;

	memset(slot, 0, sizeof(*slot));
	if (dladdr((void *)(uintptr_t)api->register_callbacks, &cupti))
		w.base = (uintptr_t)cupti.dli_fbase;
	bytes = walk(&w) * sizeof(*w.copy);
	w.copy = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0) :
			 MAP_FAILED;
	if (w.copy == MAP_FAILED)
		/* as where the address is not found */
		return api->register_callbacks(pair->request, pair->complete);
	w.words = bytes / sizeof(*w.copy);
	walk(&w);
	err = api->register_callbacks(pair->request, pair->complete);
	w.pair = pair;
	walk(&w);
	munmap(w.copy, bytes);
	return err;
}
