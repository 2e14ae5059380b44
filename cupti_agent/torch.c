/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding libtorch: Python loads its libraries privately, so each that may have the functions is asked. */
#include "torch.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "read.h"

#define ADD_CALLBACK "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define PATHS_MAX 16

static struct torch_funcs funcs;
static pthread_mutex_t *lock; /* of torch's callbacks; NULL: not known */

struct candidates {
	char path[PATHS_MAX][512];
	unsigned int cnt;
	unsigned long long adds; /* objects ever loaded */
};

static int candidate(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct candidates *c = ctx;
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	c->adds = info->dlpi_adds;
	if (!name || !strstr(name, "torch") || c->cnt == PATHS_MAX ||
	    strlen(info->dlpi_name) >= sizeof(c->path[0]))
		return 0;
	strcpy(c->path[c->cnt++], info->dlpi_name);
	return 0;
}

static bool look(void *lib)
{
	/* POSIX wants function pointers from dlsym() converted so */
	*(void **)&funcs.add_global_callback = dlsym(lib, ADD_CALLBACK);
	*(void **)&funcs.remove_callback = dlsym(lib, "_ZN2at14removeCallbackEm");
	*(void **)&funcs.name = dlsym(lib, "_ZNK2at14RecordFunction4nameEv");
	*(void **)&funcs.num_inputs = dlsym(lib, "_ZNK2at14RecordFunction10num_inputsEv");
	*(void **)&funcs.num_outputs = dlsym(lib, "_ZNK2at14RecordFunction11num_outputsEv");
	*(void **)&funcs.current_thread_id = dlsym(lib, "_ZN2at14RecordFunction15currentThreadIdEv");
	/* before there was this one, callbacks could not be changed while others used them */
	return dlsym(lib, "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE") && funcs.add_global_callback && funcs.remove_callback && funcs.name && funcs.num_inputs &&
	       funcs.num_outputs && funcs.current_thread_id;
}

const struct torch_funcs *torch__find(void)
{
	static unsigned long long seen;
	static bool found;
	static struct candidates c;
	unsigned int i;
	void *lib;

	if (found)
		return &funcs;
	c.cnt = 0;
	dl_iterate_phdr(candidate, &c);
	if (c.adds == seen)
		return NULL;
	found = look(RTLD_DEFAULT);
	for (i = 0; i < c.cnt && !found; i++) {
		/* once it is there with all it needs; it stays loaded for as long as the agent */
		lib = dlopen(c.path[i], RTLD_LAZY | RTLD_NOLOAD);
		if (!lib)
			continue;
		found = look(lib);
		if (!found)
			dlclose(lib);
	}
	seen = c.adds;
	return found ? &funcs : NULL;
}

/* ---- the lock ---- */

#define CALLBACKS_BYTES 4096 /* of all global callbacks */

/* Are these three words the std::vector that has the callback? */
static bool is_vector_of(const uint64_t *vec, const void *start)
{
	uint64_t items[CALLBACKS_BYTES / 8], len = vec[1] - vec[0], i;

	if (!vec[0] || vec[1] <= vec[0] || vec[2] < vec[1] || len > CALLBACKS_BYTES || vec[0] % 8 || len % 8 ||
	    !read__safe(items, vec[0], len))
		return false;
	for (i = 0; i < len / 8; i++)
		if (items[i] == (uint64_t)(uintptr_t)start)
			return true;
	return false;
}

/* GlobalCallbackManager: {version, std::vector of callbacks, std::mutex}, in a static object. */
static void look_for_lock(uint64_t from, uint64_t end, const void *start)
{
	const uint64_t *at = (const uint64_t *)(uintptr_t)((from + 7) & ~7ull);

	for (; !lock && (uint64_t)(uintptr_t)(at + 3) + sizeof(*lock) <= end; at++)
		if (is_vector_of(at, start))
			lock = (pthread_mutex_t *)(uintptr_t)(at + 3);
}

/* All that libtorch can write to, but what only the loader has written. */
static int look_in_libtorch(struct dl_phdr_info *info, size_t size, void *start)
{
	uint64_t bias = info->dlpi_addr, inside = (uint64_t)(uintptr_t)funcs.add_global_callback - bias;
	uint64_t fixed = 0, fixed_end = 0;
	const ElfW(Phdr) *ph = info->dlpi_phdr, *end = ph + info->dlpi_phnum;
	bool is_it = false;

	(void)size;
	for (; ph < end; ph++) {
		is_it |= ph->p_type == PT_LOAD && inside - ph->p_vaddr < ph->p_memsz;
		if (ph->p_type == PT_GNU_RELRO) {
			fixed = ph->p_vaddr;
			fixed_end = ph->p_vaddr + ph->p_memsz;
		}
	}
	for (ph = info->dlpi_phdr; is_it && ph < end; ph++) {
		uint64_t from = ph->p_vaddr;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W))
			continue;
		if (from <= fixed && fixed < from + ph->p_memsz)
			from = fixed_end;
		look_for_lock(bias + from, bias + ph->p_vaddr + ph->p_memsz, start);
	}
	return is_it;
}

void torch__find_lock(void *start)
{
	static bool looked;

	if (!looked)
		dl_iterate_phdr(look_in_libtorch, start);
	looked = true;
}

/* Whoever has it is not in this process, and was reading: changes are made by the agent's thread alone, not
 * during a fork, or by a profiler's start or stop. */
void torch__forked(void)
{
	if (lock && (lock->__data.__lock == 1 || lock->__data.__lock == 2) && !lock->__data.__kind &&
	    !lock->__data.__count)
		*lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
