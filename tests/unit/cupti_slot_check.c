/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Does a real CUPTI store its pair of buffer functions where the agent searches for it? Run by test_cupti_layout.py
 * with a library's path. Needs no GPU, but 13.2 and later end in a crash without a driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cupti_lib.h"
#include "cupti_records.h"

uint32_t cupti_name__id(const char *text)
{
	(void)text;
	return 0;
}

bool cupti_record__put(struct ptb_arec *r, size_t fixed, const void *tail, size_t len)
{
	(void)r;
	(void)fixed;
	(void)tail;
	(void)len;
	return false;
}

static void request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = NULL;
	*size = *records = 0;
}

static void request2(uint8_t **buffer, size_t *size, size_t *records)
{
	request(buffer, size, records);
	*records = 1;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)buffer;
	(void)size;
	(void)valid;
}

static int find(struct cupti_slot *slot, const struct cupti_api *api, cupti_request_fn first,
		cupti_complete_fn last)
{
	const struct cupti_pair pair = { first, last };

	if (cupti_slot__register(slot, api, &pair))
		return 1;
	printf("%p: before %d %d\n", (const void *)slot->at, slot->before.request == request,
	       slot->before.complete == complete);
	return !slot->at;
}

int main(int argc, char **argv)
{
	struct cupti_api api = { 0 };
	struct cupti_slot first, second;
	void *lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL,
	     *fn = lib ? dlsym(lib, "cuptiActivityRegisterCallbacks") : NULL;

	if (!fn)
		return 2;
	memcpy(&api.register_callbacks, &fn, sizeof(fn));
	if (find(&first, &api, request, complete) || first.before.request || first.before.complete)
		return 1;
	if (find(&second, &api, request2, complete) || second.before.request != request ||
	    second.before.complete != complete)
		return 1;
	return first.at != second.at || first.at->request != request2;
}
