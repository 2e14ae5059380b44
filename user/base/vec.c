/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Checked growable arrays; see vec.h. */
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/effort.h"
#include "base/mem_limit.h"

#define LARGE (32u << 20)

int vec_reserve(void **items, uint32_t *cap, uint64_t need, size_t elem_sz)
{
	uint64_t want;
	void *p;

	if (need <= *cap)
		return 0;
	want = *cap ? (uint64_t)*cap * 2 : 16;
	if ((uint64_t)*cap * elem_sz >= LARGE) /* what twice as much would leave unused is what others need */
		want = *cap + *cap / 4;
	if (want < need)
		want = need;
	if (want > UINT32_MAX || want > SIZE_MAX / elem_sz)
		return -ENOMEM;
	if (!mem_limit__fits((want - *cap) * elem_sz)) {
		want = need + need / 8 < want ? need + need / 8 : need;
		if (!mem_limit__allows((want - *cap) * elem_sz))
			return -ENOMEM;
	}
	p = realloc(*items, want * elem_sz);
	if (!p)
		return -ENOMEM;
	effort__allocated((want - *cap) * elem_sz);
	memset((char *)p + (size_t)*cap * elem_sz, 0, (want - *cap) * elem_sz);
	*items = p;
	*cap = (uint32_t)want;
	return 0;
}

void *vec_dup(const void *data, size_t cnt, size_t elem_sz)
{
	void *p;

	if (elem_sz && cnt > SIZE_MAX / elem_sz)
		return NULL;
	p = mem_limit__allows(cnt * elem_sz) ? malloc(cnt && elem_sz ? cnt * elem_sz : 1) : NULL;
	if (p && cnt)
		memcpy(p, data, cnt * elem_sz);
	return p;
}
