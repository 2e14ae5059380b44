/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The mock device; see mock_state.h. One lock for all: no test measures the mocks. */
#include "mock_state.h"

#include <pthread.h>
#include <string.h>

#define MAX_CALLS 128
#define MAX_RANGES 4096

struct call_state {
	char name[48];
	uint64_t cnt;
	int error, left; /* the next `left` calls return `error` */
};

struct range {
	uint64_t addr;
	size_t bytes; /* 0: free entry */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call_state calls[MAX_CALLS];
static struct range ranges[MAX_RANGES];
static uint64_t in_use, next_addr = MOCK_DEVICE_BASE, next_handle = 1;

static struct call_state *call_state(const char *name)
{
	for (size_t i = 0; i < MAX_CALLS; i++) {
		if (!calls[i].name[0])
			strncpy(calls[i].name, name, sizeof(calls[i].name) - 1);
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	}
	return NULL;
}

bool mock_cuda_must_fail(const char *call, int *error)
{
	struct call_state *c;
	bool fail = false;

	pthread_mutex_lock(&lock);
	c = call_state(call);
	if (c) {
		c->cnt++;
		fail = c->left > 0;
		c->left -= fail;
		*error = c->error;
	}
	pthread_mutex_unlock(&lock);
	return fail;
}

void mock_cuda_fail(const char *call, int error, int times)
{
	struct call_state *c;

	pthread_mutex_lock(&lock);
	c = call_state(call);
	if (c) {
		c->error = error;
		c->left = times;
	}
	pthread_mutex_unlock(&lock);
}

uint64_t mock_cuda_calls(const char *call)
{
	struct call_state *c;
	uint64_t cnt;

	pthread_mutex_lock(&lock);
	c = call_state(call);
	cnt = c ? c->cnt : 0;
	pthread_mutex_unlock(&lock);
	return cnt;
}

/* ---- ranges, under the lock ---- */

static struct range *find(uint64_t addr, bool unused)
{
	for (size_t i = 0; i < MAX_RANGES; i++)
		if (unused ? !ranges[i].bytes : ranges[i].bytes && ranges[i].addr == addr)
			return &ranges[i];
	return NULL;
}

static uint64_t advance(size_t bytes)
{
	uint64_t addr = next_addr;

	next_addr += (bytes + 511) & ~511ULL;
	return addr;
}

static bool remember(uint64_t addr, size_t bytes)
{
	struct range *r = in_use + bytes <= MOCK_DEVICE_BYTES ? find(0, true) : NULL;

	if (!r || !bytes)
		return false;
	*r = (struct range){ .addr = addr, .bytes = bytes };
	in_use += bytes;
	return true;
}

uint64_t mock__take(size_t bytes)
{
	uint64_t addr;

	pthread_mutex_lock(&lock);
	addr = advance(bytes);
	if (!remember(addr, bytes))
		addr = 0;
	pthread_mutex_unlock(&lock);
	return addr;
}

size_t mock__give_back(uint64_t addr)
{
	struct range *r;
	size_t bytes = 0;

	pthread_mutex_lock(&lock);
	r = find(addr, false);
	if (r) {
		bytes = r->bytes;
		in_use -= bytes;
		r->bytes = 0;
	}
	pthread_mutex_unlock(&lock);
	return bytes;
}

uint64_t mock__reserve(size_t bytes)
{
	uint64_t addr;

	pthread_mutex_lock(&lock);
	next_addr = (next_addr + MOCK_GRANULARITY - 1) & ~(MOCK_GRANULARITY - 1);
	addr = advance(bytes);
	pthread_mutex_unlock(&lock);
	return addr;
}

uint64_t mock__new_handle(size_t bytes)
{
	uint64_t handle;

	pthread_mutex_lock(&lock);
	handle = next_handle++;
	if (!remember(handle, bytes))
		handle = 0;
	pthread_mutex_unlock(&lock);
	return handle;
}

bool mock__drop_handle(uint64_t handle)
{
	return mock__give_back(handle) > 0;
}
