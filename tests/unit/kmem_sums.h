/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Records of kernel memory added up, and a target that makes known ones; for tests of user/probe. */
#ifndef TESTS_KMEM_SUMS_H
#define TESTS_KMEM_SUMS_H

#include <stdio.h>
#include <CUnit/CUnit.h>

#include "probe_target.h"

#define PAGE 4096ll

static const struct named_site work_sites[] = {
	{ "site_work_enter", PTB_PROG_OP_ENTER, 0 },
	{ "site_work_exit", PTB_PROG_OP_EXIT, 0 },
	{ "site_mark_enter", PTB_PROG_OP_ENTER, 0 },
};
enum { WORK_ENTER = 1, WORK_EXIT, MARK };

enum {
	DO_WRITE,
	DO_READ,
	DO_DISCARD,
	DO_MAP,
	DO_UNMAP,
	DO_BRK,
	DO_REMAP,
	DO_SMALL,
	DO_FILE,
	DO_COLLAPSE,
	DO_COMPACT,
	DO_HOLE,
	DO_REPLACE,
};

static inline struct probe_set *open_traced(struct target *t)
{
	struct probe_set *ps = open_memory_set(LINKS_MULTI);

	target__start(t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, t, NULL, work_sites, 3, NULL), 3);
	return ps;
}

/* ---- sums ---- */

struct sums {
	uint64_t cnt, minor, major, reads, writes, addr_min, addr_max;
	uint64_t maps, unmaps, remaps, brks, advises, small_calls;
	uint64_t reclaims, compactions, reclaim_ns, compact_ns;
	int64_t map_bytes, unmap_bytes, advise_bytes, brk_bytes, rss_delta, fault_bytes;
};

static inline void add_sums(struct sums *s, const struct ptb_kmem *k)
{
	s->cnt++;
	s->minor += k->minor;
	s->major += k->major;
	s->reads += k->reads;
	s->writes += k->writes;
	if (k->addr_max && (!s->addr_min || k->addr_min < s->addr_min))
		s->addr_min = k->addr_min;
	if (k->addr_max > s->addr_max)
		s->addr_max = k->addr_max;
	s->maps += k->maps;
	s->unmaps += k->unmaps;
	s->remaps += k->remaps;
	s->brks += k->brks;
	s->advises += k->advises;
	s->small_calls += k->small_calls;
	s->reclaims += k->reclaims;
	s->compactions += k->compactions;
	s->reclaim_ns += k->reclaim_ns;
	s->compact_ns += k->compact_ns;
	s->map_bytes += (int64_t)k->map_bytes;
	s->unmap_bytes += (int64_t)k->unmap_bytes;
	s->advise_bytes += (int64_t)k->advise_bytes;
	s->brk_bytes += k->brk_bytes;
	s->rss_delta += k->rss_delta;
	s->fault_bytes += (int64_t)k->fault_bytes;
}

/* Records of (begin_ns, end_ns]; those of other processes are an error. */
static inline struct sums sum_between(const struct records *r, const struct target *t,
				      uint64_t begin_ns, uint64_t end_ns)
{
	struct sums s = {};

	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct ptb_kmem *k = (const void *)r->items[i];

		if (k->h.kind != PTB_REC_KMEM)
			continue;
		CU_ASSERT_EQUAL(k->h.tgid, (uint32_t)t->pid);
		CU_ASSERT_EQUAL(k->h.len, sizeof(*k));
		CU_ASSERT(k->begin_ns && k->begin_ns <= k->h.ts_ns);
		if (k->h.ts_ns > begin_ns && k->h.ts_ns <= end_ns)
			add_sums(&s, k);
	}
	return s;
}

static inline bool near(int64_t got, int64_t want, int64_t slack)
{
	if (got >= want - slack && got <= want + slack)
		return true;
	printf("got %ld, want %ld\n", (long)got, (long)want);
	return false;
}

#endif /* TESTS_KMEM_SUMS_H */
