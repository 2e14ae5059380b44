/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel memory: what the records add up to against the kernel's own counters of the target and against
 * what the target did.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "kmem_sums.h"
#include "suite.h"

/* ---- one thread ---- */

/* The target does one thing inside a probed call: what was recorded of that call. */
static struct sums work(struct probe_set *ps, struct target *t, int what, long n, struct records *r,
			uint64_t *faults)
{
	const struct ptb_rec_hdr *enter, *leave;
	char line[64];

	snprintf(line, sizeof(line), "work %d %ld", what, n);
	records__collect(r, ps); /* of what was before */
	records__clear(r);
	*faults = target__run(t, line);
	records__collect(r, ps);
	enter = records__find(r, PTB_REC_OP_ENTER, 0);
	leave = records__find(r, PTB_REC_OP_EXIT, 0);
	CU_ASSERT_FATAL(enter && leave);
	return sum_between(r, t, enter->ts_ns, leave->ts_ns);
}

#define PAGES 3000 /* many slices and a rest */

TEST("faults of a call")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults;
	struct sums s;

	ps = open_traced(&t);
	target__run(&t, "region 3000");
	target__run(&t, "work 0 1");
	probe_set__activate(ps);
	target__run(&t, "work 0 1"); /* its own code is in memory now */
	s = work(ps, &t, DO_DISCARD, PAGES, &r, &faults);
	CU_ASSERT_EQUAL(s.advises, 1);
	CU_ASSERT_EQUAL(s.advise_bytes, PAGES * PAGE);
	s = work(ps, &t, DO_WRITE, PAGES, &r, &faults);
	CU_ASSERT_EQUAL(s.minor, faults);
	CU_ASSERT(faults >= PAGES && faults < PAGES + 30);
	CU_ASSERT(s.writes >= PAGES && s.reads + s.writes <= faults);
	CU_ASSERT_EQUAL(s.major, 0);
	CU_ASSERT(s.addr_max - s.addr_min >= (PAGES - 1) * PAGE);
	CU_ASSERT(near(s.fault_bytes, PAGES * PAGE, 8 * PAGE));
	CU_ASSERT(near(s.rss_delta, PAGES * PAGE, 8 * PAGE));
	CU_ASSERT(s.cnt >= PAGES / 256 && s.cnt <= PAGES / 256 + 20); /* slices */
	s = work(ps, &t, DO_WRITE, PAGES, &r, &faults);
	CU_ASSERT_EQUAL(faults, 0);
	CU_ASSERT_EQUAL(s.cnt, 0);
	s = work(ps, &t, DO_DISCARD, PAGES, &r, &faults);
	CU_ASSERT(near(s.rss_delta, -PAGES * PAGE, 8 * PAGE));
	CU_ASSERT_EQUAL(s.fault_bytes, 0);
	s = work(ps, &t, DO_READ, PAGES, &r, &faults); /* the page of zeroes is not charged */
	CU_ASSERT_EQUAL(s.minor, faults);
	CU_ASSERT(s.reads >= PAGES && faults >= PAGES);
	CU_ASSERT(near(s.rss_delta, 0, 8 * PAGE));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static const struct ptb_kmem_call *find_call(const struct records *r, uint32_t call)
{
	const struct ptb_kmem_call *c;

	for (uint32_t i = 0; (c = records__find(r, PTB_REC_KMEM_CALL, i)); i++)
		if (c->call == call)
			return c;
	return NULL;
}

static void check_call(const struct ptb_kmem_call *c, int64_t bytes)
{
	CU_ASSERT_FATAL(c != NULL);
	CU_ASSERT_EQUAL(c->h.len, sizeof(*c));
	CU_ASSERT_EQUAL(c->bytes, (uint64_t)bytes);
	CU_ASSERT(c->begin_ns < c->h.ts_ns);
	CU_ASSERT(c->addr != 0);
}

TEST("mmap, mremap, munmap, brk")
{
	const struct ptb_kmem_call *c;
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults, addr;
	struct sums s;

	ps = open_traced(&t);
	probe_set__activate(ps);
	target__run(&t, "work 7 1");
	s = work(ps, &t, DO_MAP, 1000, &r, &faults);
	CU_ASSERT_EQUAL(s.maps, 1);
	CU_ASSERT_EQUAL(s.map_bytes, 1000 * PAGE);
	c = find_call(&r, PTB_CALL_MMAP);
	check_call(c, 1000 * PAGE);
	CU_ASSERT_EQUAL((uint64_t)c->result, c->addr);
	CU_ASSERT_EQUAL(c->arg, MAP_PRIVATE | MAP_ANONYMOUS);
	s = work(ps, &t, DO_WRITE, 1000, &r, &faults);
	s = work(ps, &t, DO_REMAP, 2000, &r, &faults);
	CU_ASSERT_EQUAL(s.remaps, 1);
	CU_ASSERT_EQUAL(s.map_bytes, 1000 * PAGE);
	c = find_call(&r, PTB_CALL_MREMAP);
	check_call(c, 2000 * PAGE);
	CU_ASSERT_EQUAL(c->old_bytes, 1000 * PAGE);
	addr = c->addr;
	s = work(ps, &t, DO_UNMAP, 2000, &r, &faults);
	CU_ASSERT_EQUAL(s.unmaps, 1);
	CU_ASSERT_EQUAL(s.unmap_bytes, 2000 * PAGE);
	CU_ASSERT(near(s.rss_delta, -1000 * PAGE, 8 * PAGE));
	CU_ASSERT_EQUAL(s.fault_bytes, 0);
	c = find_call(&r, PTB_CALL_MUNMAP);
	check_call(c, 2000 * PAGE);
	CU_ASSERT(c->addr == addr && c->result == 0);
	s = work(ps, &t, DO_BRK, 1000, &r, &faults);
	CU_ASSERT(s.brks >= 2);
	CU_ASSERT_EQUAL(s.brk_bytes, 500 * PAGE);
	check_call(find_call(&r, PTB_CALL_BRK), 1000 * PAGE);
	s = work(ps, &t, DO_SMALL, 100, &r, &faults);
	CU_ASSERT(s.maps == 100 && s.unmaps == 100 && s.small_calls == 200);
	CU_ASSERT_EQUAL(s.map_bytes, 100 * PAGE);
	CU_ASSERT_PTR_NULL(find_call(&r, PTB_CALL_MMAP));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* A call counts by what it changes: munmap() of nothing changes nothing, MAP_FIXED replaces, mremap() grows or shrinks. */
TEST("address space that changes")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults;
	struct sums s;

	ps = open_traced(&t);
	probe_set__activate(ps);
	target__run(&t, "work 7 1");
	s = work(ps, &t, DO_HOLE, 4l << 30, &r, &faults);
	CU_ASSERT(s.unmaps == 1 && s.map_bytes == 0 && s.unmap_bytes == 0);
	work(ps, &t, DO_MAP, 3000, &r, &faults);
	s = work(ps, &t, DO_REPLACE, 2000, &r, &faults);
	CU_ASSERT(s.maps == 1 && s.map_bytes == 0 && s.unmap_bytes == 0);
	s = work(ps, &t, DO_UNMAP, 1000, &r, &faults);
	CU_ASSERT_EQUAL(s.unmap_bytes, 1000 * PAGE);
	s = work(ps, &t, DO_REPLACE, 2000, &r, &faults); /* of which 1000 are still there */
	CU_ASSERT(s.map_bytes == 1000 * PAGE && s.unmap_bytes == 0);
	s = work(ps, &t, DO_REMAP, 500, &r, &faults);
	CU_ASSERT(s.remaps == 1 && s.map_bytes == 0 && s.unmap_bytes == 2500 * PAGE);
	s = work(ps, &t, DO_REMAP, 4000, &r, &faults);
	CU_ASSERT(s.remaps == 1 && s.map_bytes == 3500 * PAGE && s.unmap_bytes == 0);
	s = work(ps, &t, DO_UNMAP, 4000, &r, &faults);
	CU_ASSERT(s.map_bytes == 0 && s.unmap_bytes == 4000 * PAGE);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* A failed call is reported with its error, and adds no bytes. */
TEST("a call that fails")
{
	const struct ptb_kmem_call *c;
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults;
	struct sums s;

	ps = open_traced(&t);
	probe_set__activate(ps);
	s = work(ps, &t, DO_MAP, 1l << 40, &r, &faults);
	CU_ASSERT_EQUAL(s.maps, 1);
	CU_ASSERT_EQUAL(s.map_bytes, 0);
	c = find_call(&r, PTB_CALL_MMAP);
	CU_ASSERT_FATAL(c != NULL);
	CU_ASSERT_EQUAL(c->result, -ENOMEM);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* ---- windows, threads, processes ---- */

TEST("windows")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults;
	struct sums s;

	ps = open_traced(&t);
	target__run(&t, "loop 3 500");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0); /* before */
	for (int i = 0; i < 3; i++) {
		probe_set__activate(ps);
		faults = target__run(&t, "loop 3 500");
		CU_ASSERT_EQUAL(probe_set__flush_sums(ps), 0);
		probe_set__deactivate(ps);
		target__run(&t, "loop 5 500");
		records__collect(&r, ps);
		s = sum_between(&r, &t, 0, ~0ull);
		/* reading the command, answering */
		CU_ASSERT(near((int64_t)s.minor, (int64_t)faults, 12));
		CU_ASSERT(faults >= 1500);
		records__clear(&r);
	}
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Nothing is reported twice between two probes; without a flush only the last part is missing. */
TEST("flush")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	struct sums s;

	ps = open_traced(&t);
	target__run(&t, "region 2000");
	target__run(&t, "usage");
	probe_set__activate(ps);
	target__run(&t, "fault 8"); /* no probe, and too few for a slice, however long they take */
	records__collect(&r, ps);
	s = sum_between(&r, &t, 0, ~0ull);
	CU_ASSERT_EQUAL(s.cnt, 0);
	CU_ASSERT_EQUAL(probe_set__flush_sums(ps), 0);
	records__collect(&r, ps);
	s = sum_between(&r, &t, 0, ~0ull);
	CU_ASSERT_EQUAL(s.cnt, 1);
	CU_ASSERT(near((int64_t)s.minor, 8, 6));
	CU_ASSERT(near(s.fault_bytes, 8 * PAGE, 6 * PAGE));
	records__clear(&r);
	target__run(&t, "fault 8");
	CU_ASSERT_EQUAL(probe_set__flush_sums(ps), 0); /* does nothing the second time */
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(sum_between(&r, &t, 0, ~0ull).cnt, 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/*
 * Pages that a kernel before Linux 6.2 keeps with a thread, outside the process's sum. When a busy machine preempts the
 * thread that moves them there, they are counted twice, or hidden by what another thread frees meanwhile.
 */
static int64_t kept_pages(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	CU_ASSERT_FATAL(!uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2);
	return major < 6 || (major == 6 && minor < 2) ? 64 : 0;
}

/* Sixteen threads that begin and end inside the window: each has its own counts. */
TEST("threads")
{
	struct records r = {};
	uint32_t tids[64], tid_cnt = 0, n;
	struct probe_set *ps;
	struct target t;
	uint64_t faults, before, after, missed;
	struct sums s;

	ps = open_traced(&t);
	target__run(&t, "threads 16 1 1");
	probe_set__activate(ps);
	before = target__run(&t, "usage");
	faults = target__run(&t, "threads 16 20 100");
	after = target__run(&t, "usage");
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	s = sum_between(&r, &t, 0, ~0ull);
	/* the kernel's own count, which is compared with ptbpf's; an emulated guest has had 31,968 */
	CU_ASSERT(near((int64_t)faults, 16 * 20 * 100, 16 * 20));
	CU_ASSERT(near((int64_t)s.minor, (int64_t)(after - before), 16));
	missed = probe_set__counter(ps, PTB_CNT_MISSED);
	CU_ASSERT(missed == 0 || kernel_may_skip());
	CU_ASSERT(s.advises + missed >= 16 * 20);
	CU_ASSERT(near((int64_t)(s.reads + s.writes), (int64_t)s.minor, 16));
	/* what one thread gives back may hide the fault of another at the same moment */
	CU_ASSERT(near(s.fault_bytes, 16 * 20 * 100 * PAGE, 16 * (20 * 2 + kept_pages()) * PAGE));
	for (uint32_t i = 0; i < r.cnt; i++) {
		if (r.items[i]->kind != PTB_REC_KMEM)
			continue;
		for (n = 0; n < tid_cnt && tids[n] != r.items[i]->tid; n++)
			;
		if (n == tid_cnt && tid_cnt < 64)
			tids[tid_cnt++] = r.items[i]->tid;
	}
	CU_ASSERT_EQUAL(tid_cnt, 17);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_KMEM_NO_ROOM), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* What each thread's records add up to, in the order of their first record; how many there are. */
static uint32_t sum_by_thread(const struct records *r, uint32_t *tids, struct sums *sums, uint32_t max)
{
	uint32_t cnt = 0, n;

	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->items[i]->kind != PTB_REC_KMEM)
			continue;
		for (n = 0; n < cnt && tids[n] != r->items[i]->tid; n++)
			;
		if (n == max)
			continue;
		if (n == cnt) {
			tids[cnt++] = r->items[i]->tid;
			sums[n] = (struct sums){};
		}
		add_sums(&sums[n], (const void *)r->items[i]);
	}
	return cnt;
}

/* Runs the command: fault bytes of all threads, and of those with from <= faults < upto; how many these are. */
static uint32_t fault_bytes_of(const char *command, int64_t *all, int64_t *theirs, uint64_t from,
			       uint64_t upto)
{
	struct sums sums[64];
	struct records r = {};
	uint32_t tids[64], cnt, n = 0;
	struct probe_set *ps;
	struct target t;

	ps = open_traced(&t);
	target__run(&t, "threads 4 1 1");
	probe_set__activate(ps);
	target__run(&t, command);
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	cnt = sum_by_thread(&r, tids, sums, 64);
	*all = *theirs = 0;
	for (uint32_t i = 0; i < cnt; i++) {
		*all += sums[i].fault_bytes;
		if (sums[i].minor < from || sums[i].minor >= upto)
			continue;
		*theirs += sums[i].fault_bytes;
		n++;
	}
	CU_ASSERT(probe_set__counter(ps, PTB_CNT_MISSED) == 0 || kernel_may_skip());
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	return n;
}

/* kept_pages() are neither set off against another thread's growth nor counted twice, but once a thread at most. */
TEST("threads in turn")
{
	int64_t all, theirs;

	CU_ASSERT_EQUAL(fault_bytes_of("turns 4 8 40", &all, &theirs, 8 * 40, 8 * 40 + 64), 4);
	CU_ASSERT(near(theirs, 4 * 8 * 40 * PAGE, 4 * (16 + kept_pages()) * PAGE));
	CU_ASSERT(near(all, 4 * 8 * 40 * PAGE, 4 * (20 + kept_pages()) * PAGE));
}

/* What a thread gets while another gives back sixteen times as much is not set off against it. */
TEST("a thread gives back while another gets")
{
	int64_t all, theirs;

	CU_ASSERT_EQUAL(fault_bytes_of("keepers 2 30 200", &all, &theirs, 30 * 200, 30 * 200 + 64), 1);
	CU_ASSERT(near(theirs, 30 * 200 * PAGE, 30 * (10 + kept_pages()) * PAGE));
	CU_ASSERT(near(all, (30 * 200 + 30 * 16 * 200) * PAGE, 30 * (20 + kept_pages()) * PAGE));
}

/* clang-format off */
#define SLICE_NS 10000000 /* bpf/kmem.bpf.c: what an operator of this length has done so far is reported within it */
/* clang-format on */

/* Each operator's record is in its ring before the probe's own, with the same time. */
TEST("reported before the probe's record")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint32_t reported = 0, earlier = 0;

	ps = open_traced(&t);
	target__run(&t, "loop 2 10");
	probe_set__activate(ps);
	target__run(&t, "loop 100 10");
	records__collect(&r, ps);
	for (uint32_t i = 0; i < r.cnt; i++) {
		const struct ptb_kmem *k = (const void *)r.items[i];

		CU_ASSERT(i == 0 || r.items[i]->ts_ns >= r.items[i - 1]->ts_ns ||
			  r.items[i]->kind != PTB_REC_KMEM || probe_set__ring_cnt(ps) > 1);
		if (r.items[i]->kind != PTB_REC_KMEM || i + 1 == r.cnt)
			continue;
		if (k->h.ts_ns - k->begin_ns > SLICE_NS && r.items[i + 1]->ts_ns != k->h.ts_ns) {
			earlier++; /* in the midst of an operator: the machine is slow, and nothing may be left for its end */
			continue;
		}
		CU_ASSERT_EQUAL(r.items[i + 1]->ts_ns, r.items[i]->ts_ns);
		CU_ASSERT_EQUAL(r.items[i + 1]->site, MARK);
		reported++;
	}
	CU_ASSERT(reported + earlier >= 200); /* faults, then the discarding call */
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Another process, and a child that is not followed: not ours. */
TEST("foreign processes")
{
	struct records r = {};
	struct target t, other;
	struct probe_set *ps;
	struct sums s;

	ps = open_traced(&t);
	target__start(&other, TARGET_MEMORY);
	probe_set__activate(ps);
	target__run(&other, "loop 10 1000");
	target__run(&t, "fork 1000");
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	s = sum_between(&r, &t, 0, ~0ull);
	CU_ASSERT(s.minor < 500);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	CU_ASSERT_EQUAL(target__stop(&other), 0);
}

/* A process that joins an open window counts from then on. */
TEST("a process joins")
{
	struct probe_set *ps = open_memory_set(LINKS_MULTI);
	struct records r = {};
	struct target t;
	uint64_t faults;
	struct sums s;

	target__start(&t, TARGET_MEMORY);
	target__run(&t, "loop 10 1000");
	probe_set__activate(ps);
	target__run(&t, "loop 10 1000");
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, work_sites, 3, NULL), 3);
	faults = target__run(&t, "loop 1 1000");
	probe_set__flush_sums(ps);
	records__collect(&r, ps);
	s = sum_between(&r, &t, 0, ~0ull);
	CU_ASSERT(near((int64_t)s.minor, (int64_t)faults, 16));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* All links gone and made anew: threads that are born then are seen like the first ones. */
TEST("detached and attached again")
{
	struct records r = {};
	struct probe_set *ps;
	struct target t;
	uint64_t faults;
	struct sums s;

	ps = open_traced(&t);
	target__run(&t, "threads 4 1 1");
	for (int i = 0; i < 3; i++) {
		probe_set__activate(ps);
		faults = target__run(&t, "threads 4 2 200");
		probe_set__deactivate(ps);
		records__collect(&r, ps);
		s = sum_between(&r, &t, 0, ~0ull);
		CU_ASSERT(faults >= 4 * 2 * 200 && s.minor >= faults);
		CU_ASSERT(near((int64_t)s.minor, (int64_t)faults, 80)); /* births: stacks */
		records__clear(&r);
		probe_set__detach(ps);
		target__run(&t, "threads 4 2 200");
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, work_sites, 3, NULL), 3);
	}
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Off: no record, nothing loaded for it. */
TEST("nothing when off")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct records r = {};
	struct target t;
	char missing[64] = "x";

	target__start(&t, TARGET_MEMORY);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, work_sites, 3, NULL), 3);
	probe_set__activate(ps);
	target__run(&t, "loop 1 1000");
	CU_ASSERT_EQUAL(probe_set__flush_sums(ps), 0);
	CU_ASSERT_EQUAL(probe_set__missing_kmem(ps, missing, sizeof(missing)), 0);
	CU_ASSERT_STRING_EQUAL(missing, "");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_KMEM, 0), 0);
	CU_ASSERT(r.cnt > 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

PROBE_SUITE("probe_kmem")
