/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Allocators' and CUDA calls' records, from functions that are called as torch's and libcudart's are. */
#include "probe_target.h"
#include "suite.h"

#define OUT0_SIZE1 PTB_API_ARGS(0, PTB_API_NONE, 1)
#define ADDR0 PTB_API_ARGS(PTB_API_NONE, 0, PTB_API_NONE)

static const struct named_site alloc_sites[] = {
	{ "site_new_enter", PTB_PROG_MEM_NEW, 0 },
	{ "site_delete_enter", PTB_PROG_MEM_DELETE, 0 },
	{ "site_report_enter", PTB_PROG_MEM_REPORT, 0 },
	{ "site_oom_enter", PTB_PROG_MEM_OOM, 0 },
	{ "site_cpu_oom_enter", PTB_PROG_MEM_CPU_OOM, 0 },
};

enum { INNER = 1, INNER_EXIT, OUTER, OUTER_EXIT, FREE, FREE_EXIT, LOST, LOST_EXIT };
static const struct named_site api_sites[] = {
	{ "site_api_inner_enter", PTB_PROG_API_ENTER, OUT0_SIZE1 },
	{ "site_api_inner_exit", PTB_PROG_API_EXIT, OUT0_SIZE1 },
	{ "site_api_outer_enter", PTB_PROG_API_ENTER, OUT0_SIZE1 },
	{ "site_api_outer_exit", PTB_PROG_API_EXIT, OUT0_SIZE1 },
	{ "site_api_free_enter", PTB_PROG_API_ENTER, ADDR0 },
	{ "site_api_free_exit", PTB_PROG_API_EXIT, ADDR0 },
	{ "site_api_lost_enter", PTB_PROG_API_ENTER, OUT0_SIZE1 },
	{ "site_api_lost_exit", PTB_PROG_API_EXIT, OUT0_SIZE1 },
};

static struct probe_set *open_memory(enum links links)
{
	const struct probe_set_opts opts = { .force_perf = links != LINKS_MULTI, .memory = true };
	struct probe_set *ps = NULL;

	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &ps), 0);
	return ps;
}

static void check_report(const struct ptb_mem_report *m, int64_t bytes, uint64_t allocated,
			 uint64_t reserved, int type, int index)
{
	CU_ASSERT_FATAL(m != NULL);
	CU_ASSERT_EQUAL(m->h.len, sizeof(*m));
	CU_ASSERT_EQUAL(m->bytes, bytes);
	CU_ASSERT_EQUAL(m->allocated, allocated);
	CU_ASSERT_EQUAL(m->reserved, reserved);
	CU_ASSERT_EQUAL(m->device_type, type);
	CU_ASSERT_EQUAL(m->device_index, index);
	CU_ASSERT(m->sp != 0);
}

TEST_LINKS("allocations, frees, reports")
{
	struct probe_set *ps = open_memory(links);
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, alloc_sites, 5, NULL), 5);
	target__run(&t, "alloc 10");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "alloc 100"), 100);
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 302);
	for (uint32_t i = 0; i < 100; i++) {
		const struct ptb_mem_alloc *a = records__find(&r, PTB_REC_MEM_ALLOC, i);
		const struct ptb_mem_free *f = records__find(&r, PTB_REC_MEM_FREE, i);
		const struct ptb_mem_report *m = records__find(&r, PTB_REC_MEM_REPORT, i);

		CU_ASSERT_FATAL(a && f && m);
		CU_ASSERT(a->h.len == sizeof(*a) && f->h.len == sizeof(*f));
		CU_ASSERT(a->h.tgid == (uint32_t)t.pid && a->h.tid == (uint32_t)t.pid);
		CU_ASSERT_EQUAL(a->bytes, 64 + (a->addr - 0x10000) / 64);
		CU_ASSERT(a->sp && f->sp && (f->addr - 0x10000) / 64 < 100);
		check_report(m, -(int64_t)(64 + (m->addr - 0x10000) / 64),
			     1000 + (m->addr - 0x10000) / 64, 2000, 1, 3);
	}
	check_report(records__find(&r, PTB_REC_MEM_OOM, 0), 1l << 40, 5, 6, 20, -1);
	check_report(records__find(&r, PTB_REC_MEM_OOM, 1), 1l << 50, 0, 0, 0, -1);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Without the option nothing of it is loaded, and its sites are left alone. */
TEST("nothing when off")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, alloc_sites, 5, NULL), 0);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, api_sites, 8, NULL), 0);
	probe_set__activate(ps);
	target__run(&t, "alloc 10");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* ---- calls with results ---- */

struct expected {
	uint32_t site;
	uint64_t addr, bytes;
	uint32_t flags;
};

static void sort_by_end(struct records *r)
{
	for (uint32_t i = 1; i < r->cnt; i++)
		for (uint32_t j = i; j && r->items[j - 1]->ts_ns > r->items[j]->ts_ns; j--) {
			struct ptb_rec_hdr *x = r->items[j];

			r->items[j] = r->items[j - 1];
			r->items[j - 1] = x;
		}
}

static void check_calls(struct records *r, const struct expected *e, uint32_t cnt)
{
	sort_by_end(r);
	CU_ASSERT_EQUAL(r->cnt, cnt);
	for (uint32_t i = 0; i < r->cnt && i < cnt; i++) {
		const struct ptb_mem_api *a = (const void *)r->items[i];

		CU_ASSERT_EQUAL(a->h.kind, PTB_REC_MEM_API);
		CU_ASSERT_EQUAL(a->h.len, sizeof(*a));
		CU_ASSERT_EQUAL(a->h.site, e[i].site);
		CU_ASSERT_EQUAL(a->addr, e[i].addr);
		CU_ASSERT_EQUAL(a->bytes, e[i].bytes);
		CU_ASSERT_EQUAL(a->flags, e[i].flags);
		CU_ASSERT_EQUAL(a->h.flags, 0);
		CU_ASSERT(a->begin_ns && a->begin_ns <= a->h.ts_ns);
	}
}

#define ADDR(bytes) (0x7000000000 + (bytes))

TEST_LINKS("calls with results")
{
	const struct expected calls[] = {
		{ INNER, ADDR(102), 102, 0 },
		{ OUTER, ADDR(102), 101, 0 },
		{ OUTER, ADDR(102), 100, 0 },
		{ FREE, ADDR(102), 0, 0 },
		{ INNER, 0, 0, 0 },
		{ INNER, ADDR(500), 500, 0 },
		{ INNER, ADDR(500), 500, PTB_API_SAME },
		{ LOST, 0, 77, PTB_API_NO_RESULT }, /* found out at the next entry */
		{ INNER, ADDR(600), 600, 0 },
		{ INNER, ADDR(700), 700, 0 },
	};
	struct probe_set *ps = open_memory(links);
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, api_sites, 8, NULL), 8);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "api 1"), ADDR(700));
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	check_calls(&r, calls, sizeof(calls) / sizeof(calls[0]));
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_API_NO_RESULT), 1);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Seven calls inside one another: the outermost are reported without results, no exit is assigned to another call. */
TEST("calls nested too deep")
{
	struct probe_set *ps = open_memory(LINKS_MULTI);
	struct records r = {};
	struct target t;
	uint32_t lost = 0;

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, api_sites, 4, NULL), 4);
	probe_set__activate(ps);
	target__run(&t, "api 5");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 7 + 5);
	for (uint32_t i = 0; i < r.cnt; i++) {
		const struct ptb_mem_api *a = (const void *)r.items[i];

		if (a->h.site != OUTER)
			continue;
		lost += a->flags == PTB_API_NO_RESULT;
		CU_ASSERT(a->flags ? a->bytes < 103 && !a->addr :
				     a->bytes >= 103 && a->addr == ADDR(106));
	}
	CU_ASSERT_EQUAL(lost, 3);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_API_NO_RESULT), 3);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Functions without an exit are reported at their entry. */
TEST("calls without an exit")
{
	static const struct named_site sites[] = {
		{ "site_api_inner_enter", PTB_PROG_API_ENTER, OUT0_SIZE1 | PTB_API_NO_EXIT },
		{ "site_api_free_enter", PTB_PROG_API_ENTER, ADDR0 | PTB_API_NO_EXIT },
	};
	static const struct expected calls[] = {
		{ 1, 0, 102, PTB_API_NO_RESULT }, { 2, ADDR(102), 0, PTB_API_NO_RESULT },
		{ 1, 0, 0, PTB_API_NO_RESULT },   { 1, 0, 500, PTB_API_NO_RESULT },
		{ 1, 0, 500, PTB_API_NO_RESULT }, { 1, 0, 600, PTB_API_NO_RESULT },
		{ 1, 0, 700, PTB_API_NO_RESULT },
	};
	struct probe_set *ps = open_memory(LINKS_MULTI);
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, sites, 2, NULL), 2);
	probe_set__activate(ps);
	target__run(&t, "api 1");
	records__collect(&r, ps);
	check_calls(&r, calls, 7);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_API_NO_RESULT), 7);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

PROBE_SUITE("probe_memory")
