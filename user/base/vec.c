/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Growable arrays; see containers.h. */
#include "base/containers.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

#define LARGE (32u << 20)

static uint64_t next_cap(uint32_t cap, uint64_t need, size_t elem_sz)
{
	uint64_t want = cap ? (uint64_t)cap * 2 : 16;

	/* what twice as much would leave unused is what others need */
	if ((uint64_t)cap * elem_sz >= LARGE)
		want = cap + cap / 4;
	return want < need ? need : want;
}

static void grow(void **items, uint32_t *cap, uint64_t want, size_t elem_sz)
{
	if (want > UINT32_MAX || want > SIZE_MAX / elem_sz)
		mem__end(SIZE_MAX);
	*items = xrealloc(*items, want * elem_sz);
	memset((char *)*items + (size_t)*cap * elem_sz, 0, (want - *cap) * elem_sz);
	*cap = (uint32_t)want;
}

void vec_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz)
{
	if (need > *cap)
		grow(items, cap, next_cap(*cap, need, elem_sz), elem_sz);
}

bool vec_try_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz)
{
	uint64_t want;

	if (need <= *cap)
		return true;
	want = next_cap(*cap, need, elem_sz);
	if (!mem_limit__fits((want - *cap) * elem_sz)) {
		want = need + need / 8 < want ? need + need / 8 : need;
		if (!mem_limit__allows((want - *cap) * elem_sz))
			return false;
	}
	grow(items, cap, want, elem_sz);
	return true;
}

void *vec_dup(const void *data, size_t cnt, size_t elem_sz)
{
	void *p = xcalloc(cnt, elem_sz);

	if (cnt)
		memcpy(p, data, cnt * elem_sz);
	return p;
}
