/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Operators by their address, which may be one operator's after the other: who was there when. */
#include <errno.h>
#include <stdlib.h>

#include "model/facts.h"

/* Of several that left at one time, the one that was read last comes first. */
static int by_time(const void *a, const void *b, void *arg)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct addr_fact *v = arg;

	if (v[i].ts_ns != v[k].ts_ns)
		return v[i].ts_ns < v[k].ts_ns ? -1 : 1;
	return i > k ? -1 : i < k;
}

/* newest: index of what was read last at the address. Returns how many of gone are used now. */
static uint32_t fill_place(struct facts *f, struct opdef_place *p, uint32_t newest, uint32_t used)
{
	uint32_t next;

	p->first = used;
	for (next = newest + 1; next; next = f->opdefs[next - 1].older) {
		if (f->opdefs[next - 1].flags & PTB_OPDEF_GONE)
			f->opdefs_gone[used++] = next - 1;
		else if (!p->last)
			p->last = next;
	}
	p->cnt = used - p->first;
	if (p->cnt > 1)
		qsort_r(f->opdefs_gone + p->first, p->cnt, sizeof(*f->opdefs_gone), by_time, f->opdefs);
	return used;
}

int facts__place_opdefs(struct facts *f)
{
	struct hashmap_slot *slot;
	uint32_t n = 0, used = 0;
	uint64_t pos = 0;

	f->opdef_places = calloc(f->opdef_by_addr.live + 1, sizeof(*f->opdef_places));
	f->opdefs_gone = calloc((size_t)f->opdef_cnt + 1, sizeof(*f->opdefs_gone));
	if (!f->opdef_places || !f->opdefs_gone)
		return -ENOMEM;
	while ((slot = hashmap__next(&f->opdef_by_addr, &pos))) {
		used = fill_place(f, &f->opdef_places[n], (uint32_t)slot->val, used);
		slot->val = n++;
	}
	return 0;
}

/* The one that left next after that time, else what was read at the address since the last one left. */
const struct addr_fact *facts__opdef(const struct facts *f, uint32_t tgid, uint64_t addr, uint64_t ts_ns)
{
	const uint64_t *i = hashmap__get(&f->opdef_by_addr, tgid, addr);
	const struct opdef_place *p = i ? &f->opdef_places[*i] : NULL;
	const struct addr_fact *last;
	uint32_t lo, hi, end;

	if (!p)
		return NULL;
	lo = p->first;
	hi = end = p->first + p->cnt;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (f->opdefs[f->opdefs_gone[mid]].ts_ns < ts_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < end)
		return &f->opdefs[f->opdefs_gone[lo]];
	last = p->last ? &f->opdefs[p->last - 1] : NULL;
	if (last && p->cnt && last->ts_ns <= f->opdefs[f->opdefs_gone[end - 1]].ts_ns)
		return NULL;
	return last;
}
