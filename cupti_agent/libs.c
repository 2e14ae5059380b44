/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See libs.h. Not opened while the loader lists them: that would be against its own order of
 * locks. */
#include "libs.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct nth {
	const char *part;
	unsigned int skip;
	char path[512];
};

static int match_name(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char *file = strrchr(info->dlpi_name, '/');
	struct nth *n = ctx;

	(void)size;
	if (!file || !strstr(file, n->part) || strlen(info->dlpi_name) >= sizeof(n->path) ||
	    n->skip--)
		return 0;
	strcpy(n->path, info->dlpi_name);
	return 1;
}

void *libs__find(const char *part, bool (*is_it)(void *lib))
{
	struct nth n = { .part = part };
	void *lib;

	for (unsigned int i = 0; n.skip = i, dl_iterate_phdr(match_name, &n); i++) {
		lib = dlopen(n.path, RTLD_LAZY | RTLD_NOLOAD);
		if (lib && (!is_it || is_it(lib)))
			return lib;
		if (lib)
			dlclose(lib);
	}
	return NULL;
}

static int take_count(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	*(unsigned long long *)ctx = info->dlpi_adds;
	return 1;
}

unsigned long long libs__count(void)
{
	unsigned long long adds = 0;

	dl_iterate_phdr(take_count, &adds);
	return adds;
}
