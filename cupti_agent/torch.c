/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding libtorch: Python loads its libraries privately, so each that may have the functions is asked. */
#include "torch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define ADD_CALLBACK "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define PATHS_MAX 16

static struct torch_funcs funcs;

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
	return funcs.add_global_callback && funcs.remove_callback && funcs.name && funcs.num_inputs &&
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
