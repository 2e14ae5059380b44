/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds libtorch: checks each library that may have the functions. */
#include "torch.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "libs.h"
#include "read.h"

static struct torch_funcs funcs;
static pthread_mutex_t *lock; /* of torch's callbacks; NULL: not known */

static bool find_funcs(void *lib)
{
	const struct {
		void *to;
		const char *name;
	} all[] = {
		{ &funcs.add_global_callback,
		  "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE" },
		{ &funcs.remove_callback, "_ZN2at14removeCallbackEm" },
		{ &funcs.name, "_ZNK2at14RecordFunction4nameEv" },
		{ &funcs.num_inputs, "_ZNK2at14RecordFunction10num_inputsEv" },
		{ &funcs.num_outputs, "_ZNK2at14RecordFunction11num_outputsEv" },
		{ &funcs.current_thread_id, "_ZN2at14RecordFunction15currentThreadIdEv" },
		/* before there was this one, callbacks could not be changed while others used
		 * them */
		{ &(void *){ NULL }, "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE" },
	};
	void *at = lib;

	for (unsigned int i = 0; at && i < sizeof(all) / sizeof(*all); i++) {
		at = dlsym(lib, all[i].name);
		memcpy(all[i].to, &at, sizeof(at)); /* which is a function */
	}
	return at != NULL;
}

/* Once it is there with all it needs; it stays loaded for as long as the agent. */
const struct torch_funcs *torch__find(void)
{
	static unsigned long long seen;
	static bool found;
	unsigned long long now;

	if (found)
		return &funcs;
	now = libs__count();
	if (now == seen)
		return NULL;
	found = find_funcs(RTLD_DEFAULT) || libs__find("torch", find_funcs);
	seen = now;
	return found ? &funcs : NULL;
}

/* ---- the lock ---- */

#define CALLBACKS_BYTES 4096 /* of all global callbacks */

/* Are these three words the std::vector that has the callback? */
static bool is_vector_of(const uint64_t *vec, const void *start)
{
	uint64_t items[CALLBACKS_BYTES / 8], len = vec[1] - vec[0];

	if (!vec[0] || vec[1] <= vec[0] || vec[2] < vec[1] || len > CALLBACKS_BYTES || vec[0] % 8 ||
	    len % 8 || !read__safe(items, vec[0], len))
		return false;
	for (uint64_t i = 0; i < len / 8; i++)
		if (items[i] == (uint64_t)(uintptr_t)start)
			return true;
	return false;
}

/* GlobalCallbackManager: {version, std::vector of callbacks, std::mutex}, in a static object. */
static void search_lock(uint64_t from, uint64_t end, const void *start)
{
	const uint64_t *at = (const uint64_t *)(uintptr_t)((from + 7) & ~7ull);

	for (; !lock && (uint64_t)(uintptr_t)(at + 3) + sizeof(*lock) <= end; at++)
		if (is_vector_of(at, start))
			lock = (pthread_mutex_t *)(uintptr_t)(at + 3);
}

/* All that libtorch can write to, but what only the loader has written. */
static int scan_libtorch(struct dl_phdr_info *info, size_t size, void *start)
{
	uint64_t bias = info->dlpi_addr,
		 inside = (uint64_t)(uintptr_t)funcs.add_global_callback - bias;
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
		search_lock(bias + from, bias + ph->p_vaddr + ph->p_memsz, start);
	}
	return is_it;
}

void torch__find_lock(void *start)
{
	static bool done;

	if (!done)
		dl_iterate_phdr(scan_libtorch, start);
	done = true;
}

/* The thread that holds it is not in this process, and was reading: changes are made by the agent's
 * thread alone, not during a fork, or by a profiler's start or stop. */
void torch__forked(void)
{
	if (lock && (lock->__data.__lock == 1 || lock->__data.__lock == 2) &&
	    !lock->__data.__kind && !lock->__data.__count)
		*lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
