/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Links, window, rings and losses of user/probe, on a program whose every hit is known. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/probe_impl.h"
#include "probe_target.h"
#include "suite.h"

static uint64_t hits_outside(struct probe_set *ps)
{
	return probe_set__counter(ps, PTB_CNT_OUT_OF_WINDOW);
}

/* Entries and exits of one thread pair up by stack pointer, in time order; returns the pairs. */
static uint32_t check_pairs(const struct records *r)
{
	uint64_t sp[16], last_ns = 0;
	uint32_t open = 0, pairs = 0;

	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct ptb_op_enter *e = (const void *)r->items[i];

		CU_ASSERT(e->h.ts_ns >= last_ns);
		last_ns = e->h.ts_ns;
		if (e->h.kind == PTB_REC_OP_ENTER) {
			CU_ASSERT_EQUAL(e->h.site, 1);
			CU_ASSERT_FATAL(open < 16);
			CU_ASSERT(!open || e->sp < sp[open - 1]);
			sp[open++] = e->sp;
		} else {
			CU_ASSERT_EQUAL(e->h.kind, PTB_REC_OP_EXIT);
			CU_ASSERT_EQUAL(e->h.site, 2);
			CU_ASSERT_FATAL(open > 0);
			CU_ASSERT(e->sp < sp[open - 1]);
			open--;
			pairs++;
		}
	}
	CU_ASSERT_EQUAL(open, 0);
	return pairs;
}

/* Sorts by time: the target may have run on several processors. */
TEST_LINKS("pairs are exact, window sharp")
{
	struct probe_set *ps = open_set(0, links, false);
	struct records r = {};
	struct target t;
	uint64_t begin, end, sum;

	target__start(&t, TARGET_CALLS);
	sum = target__run(&t, "calls 500 3");
	CU_ASSERT_EQUAL(probe_set__uses_multi(ps), links == LINKS_MULTI && attach_multi__supported());
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	CU_ASSERT_EQUAL(target__run(&t, "calls 500 3"), sum);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0); /* not active yet */
	CU_ASSERT_EQUAL(hits_outside(ps), 4000);
	begin = clock__mono_ns();
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "calls 500 3"), sum);
	probe_set__deactivate(ps);
	end = clock__mono_ns();
	CU_ASSERT_EQUAL(target__run(&t, "calls 10 3"), target__run(&t, "calls 10 3"));
	records__collect(&r, ps);
	records__sort_by_time(&r);
	CU_ASSERT_EQUAL(r.cnt, 4000);
	CU_ASSERT_EQUAL(check_pairs(&r), 2000);
	CU_ASSERT_EQUAL(hits_outside(ps), 4000 + 160);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_HITS), 4000);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	for (uint32_t i = 0; i < r.cnt; i++) {
		CU_ASSERT_EQUAL(r.items[i]->tgid, (uint32_t)t.pid);
		CU_ASSERT_EQUAL(r.items[i]->tid, (uint32_t)t.pid);
		CU_ASSERT(r.items[i]->ts_ns >= begin && r.items[i]->ts_ns <= end);
		CU_ASSERT_EQUAL(r.items[i]->flags, 0);
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__run(&t, "calls 500 3"), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static void run_threads(enum links links)
{
	struct probe_set *ps = open_set(0, links, false);
	struct records r = {};
	struct target t;
	uint64_t sum;

	target__start(&t, TARGET_CALLS);
	sum = target__run(&t, "threads 8 1000");
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "threads 8 1000"), sum);
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 8 * 1000 * 4);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_ENTER, 1), 8 * 1000 * 2);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_EXIT, 2), 8 * 1000 * 2);
	for (uint32_t i = 0; i < r.cnt; i++) {
		CU_ASSERT_EQUAL(r.items[i]->tgid, (uint32_t)t.pid);
		CU_ASSERT_NOT_EQUAL(r.items[i]->tid, (uint32_t)t.pid);
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("many threads")
{
	for (enum links links = LINKS_MULTI; links <= LINKS_TRACE; links++)
		run_threads(links);
}

/* Everything that does not fit is counted, with the interval in which it happened. */
TEST("losses are counted")
{
	struct probe_set *ps = open_set(4096, LINKS_MULTI, false);
	uint64_t begin, end, lost = 0;
	struct ring_loss loss;
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	probe_set__activate(ps);
	begin = clock__mono_ns();
	target__run(&t, "calls 500 1");
	end = clock__mono_ns();
	CU_ASSERT(probe_set__fill(ps) > 0.9);
	records__collect(&r, ps);
	CU_ASSERT(r.cnt >= 4096 / 40 - 1);
	CU_ASSERT(probe_set__fill(ps) == 0.0);
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++) {
		probe_set__take_loss(ps, i, &loss);
		lost += loss.cnt;
		if (loss.cnt) {
			CU_ASSERT(loss.begin_ns >= begin && loss.begin_ns <= loss.end_ns);
			CU_ASSERT(loss.end_ns <= end);
		}
	}
	CU_ASSERT(lost > 0);
	CU_ASSERT_EQUAL(r.cnt + lost, 2000);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), lost);
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++) {
		probe_set__take_loss(ps, i, &loss);
		CU_ASSERT_EQUAL(loss.cnt, 0); /* reported once */
	}
	probe_set__take_loss(ps, 1000, &loss);
	CU_ASSERT_EQUAL(loss.cnt, 0);
	CU_ASSERT_EQUAL(probe_set__drain(ps, 1000, NULL, NULL), -EINVAL);
	records__clear(&r);
	target__run(&t, "calls 10 1"); /* room again */
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 40);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

struct ordered {
	uint64_t last_ns[64]; /* of each ring */
	uint32_t cnt;
};

static void keep_order(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	const struct ptb_rec_hdr *h = rec;
	struct ordered *o = arg;

	CU_ASSERT_EQUAL(h->len, len);
	CU_ASSERT(h->ts_ns >= o->last_ns[ring]);
	o->last_ns[ring] = h->ts_ns;
	o->cnt++;
}

/* A large ring consists of two pieces, which are filled and read in turn: it holds all that has
 * room in both, in order. */
TEST("pieces of a ring")
{
	struct probe_set *ps = open_set(16 << 20, LINKS_MULTI, false);
	struct ordered o = { .cnt = 0 };
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	probe_set__activate(ps);
	for (uint32_t round = 1; round <= 3; round++) {
		target__run(&t, "calls 100000 1");
		CU_ASSERT(probe_set__fill(ps) > 0.4);
		for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
			CU_ASSERT(probe_set__drain(ps, i, keep_order, &o) >= 0);
		CU_ASSERT(probe_set__fill(ps) == 0.0);
		CU_ASSERT_EQUAL(o.cnt, round * 400000);
	}
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* The reader is woken when a ring is more than half full, and not before. */
TEST("wake-up at half full")
{
	struct probe_set *ps = open_set(1 << 20, LINKS_MULTI, false);
	struct pollfd pfd = { .fd = probe_set__poll_fd(ps), .events = POLLIN };
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	probe_set__activate(ps);
	target__run(&t, "calls 1000 1");
	CU_ASSERT(probe_set__fill(ps) > 0.0);
	CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
	target__run(&t, "calls 12000 1"); /* 52,000 records of 40 bytes in two rings or one */
	CU_ASSERT_EQUAL(poll(&pfd, 1, 60000), 1);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(poll(&pfd, 1, 0), 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* Offsets that the kernel will not take are found one by one; all others are attached. */
TEST_LINKS("refused offsets are bisected")
{
	struct probe_set *ps = open_set(0, links, false);
	struct probe_site list[40] = {};
	struct probe_lib lib = { .sites = list, .cnt = 40 };
	struct ptb_proc_cfg cfg = {};
	struct records r = {};
	struct target t;
	uint32_t proc;

	target__start(&t, TARGET_CALLS);
	cfg.tgid = (uint32_t)t.pid;
	lib.access_path = t.path;
	for (uint32_t i = 0; i < 40; i++) {
		bool bad = i == 0 || i == 17 || i == 18 || i == 39;

		list[i].id = i + 1;
		list[i].prog = i % 2 ? PTB_PROG_OP_EXIT : PTB_PROG_OP_ENTER;
		list[i].offset =
			bad ? target__value(&t, "refused_site") + (i == 18 || i == 39) :
			      target__value(&t, "many_sites") + i * target__value(&t, "many_stride");
	}
	take_insns(&lib);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), 36);
	for (uint32_t i = 0; i < 40; i++)
		CU_ASSERT_EQUAL(list[i].refused, i == 0 || i == 17 || i == 18 || i == 39);
	probe_set__activate(ps);
	target__run(&t, "many 100");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 3600);
	for (uint32_t i = 0; i < 40; i++)
		CU_ASSERT_EQUAL(records__count(&r, i % 2 ? PTB_REC_OP_EXIT : PTB_REC_OP_ENTER, i + 1),
				list[i].refused ? 0 : 100);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("a process is removed")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	struct target one, two;
	struct records r = {};
	uint32_t p1, p2, p3;

	target__start(&one, TARGET_CALLS);
	target__start(&two, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &one, NULL, op_sites, 2, &p1), 2);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &two, NULL, op_sites, 2, &p2), 2);
	CU_ASSERT_NOT_EQUAL(p1, p2);
	probe_set__activate(ps);
	probe_set__remove_process(ps, p1);
	target__run(&one, "calls 100 0");
	target__run(&two, "calls 70 0");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 140);
	for (uint32_t i = 0; i < r.cnt; i++)
		CU_ASSERT_EQUAL(r.items[i]->tgid, (uint32_t)two.pid);
	records__clear(&r);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &one, NULL, op_sites, 2, &p3), 2);
	CU_ASSERT_EQUAL(p3, p1); /* its slot is free again */
	target__run(&one, "calls 5 0");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 10);
	records__clear(&r);
	probe_set__detach(ps);
	target__run(&two, "calls 5 0");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0);
	CU_ASSERT_EQUAL(hits_outside(ps), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_HITS), 150);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&one), 0);
	CU_ASSERT_EQUAL(target__stop(&two), 0);
}

/* Calibration leaves no probe, and is refused once a process is attached. */
TEST_LINKS("cost of a hit")
{
	struct probe_set *ps = open_set(4096, links, false);
	struct records r = {};
	struct ring_loss loss;
	struct target t;

	CU_ASSERT(probe_set__measure_cost(ps) > 0);
	CU_ASSERT(probe_set__measure_cost(ps) > 0);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_HITS), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	probe_set__take_loss(ps, 0, &loss);
	CU_ASSERT_EQUAL(loss.cnt, 0);
	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	CU_ASSERT_EQUAL(probe_set__measure_cost(ps), -EBUSY);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* One library with a site on each of the target's probed instructions. */
static void one_lib(struct target *t, struct probe_lib *lib, struct probe_site *list, uint32_t cnt)
{
	target__start(t, TARGET_CALLS);
	*lib = (struct probe_lib){ .access_path = t->path, .sites = list, .cnt = cnt };
	for (uint32_t i = 0; i < cnt; i++)
		list[i] = (struct probe_site){ .id = i + 1,
					       .prog = PTB_PROG_OP_ENTER,
					       .offset = target__value(t, "many_sites") +
							 i * target__value(t, "many_stride") };
	take_insns(lib);
}

/* A library is probed only where the instructions are the ones that were analysed: in the file and in memory. */
TEST_LINKS("another instruction is not probed")
{
	struct probe_set *ps = open_set(0, links, false);
	struct probe_site list[30];
	struct probe_lib lib;
	struct ptb_proc_cfg cfg = {};
	struct target t;
	uint32_t proc;
	uint64_t sum, addr;
	uint8_t was;

	one_lib(&t, &lib, list, 30);
	cfg.tgid = (uint32_t)t.pid;
	sum = target__run(&t, "calls 100 1");
	list[29].insn[0] ^= 2;
	CU_ASSERT_EQUAL(probe_set__verify(t.pid, &lib, 1), -ESTALE);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -ESTALE);
	list[29].insn[0] ^= 2;
	list[29].insn_len = 0; /* nothing was analysed */
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -EINVAL);
	list[29].insn_len = 1;
	addr = target__code_addr(&t, list[7].offset);
	was = target__swap_code(&t, addr, 0x90);
	CU_ASSERT_EQUAL(was, list[7].insn[0]);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -ESTALE);
	CU_ASSERT_EQUAL(target__swap_code(&t, addr, was), 0x90);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), 30);
	CU_ASSERT_EQUAL(probe_set__verify(t.pid, &lib, 1), 0); /* breakpoints are no difference */
	CU_ASSERT_EQUAL(target__run(&t, "calls 100 1"), sum);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	CU_ASSERT_EQUAL(trace_events_of(getpid()), 0);
}

/* Sees the first breakpoint, and then makes the last instruction another one. */
struct late_change {
	atomic_bool stop;
	int mem;
	uint64_t addr;
	struct probe_site *site;
};

static uint8_t code_byte(const struct late_change *lc)
{
	uint8_t byte = 0;

	CU_ASSERT_EQUAL(pread(lc->mem, &byte, 1, (off_t)lc->addr), 1);
	return byte;
}

static void *change_late(void *arg)
{
	struct late_change *lc = arg;

	while (!atomic_load(&lc->stop))
		if (code_byte(lc) == 0xcc) {
			lc->site->insn[0] ^= 2;
			break;
		}
	return NULL;
}

/* The comparison before linking has passed when a breakpoint is there: what changes after that is found by the one
 * after linking, and nothing stays attached. */
TEST("an instruction that changes while it is linked")
{
	struct probe_set *ps = open_set(0, LINKS_TRACE, false);
	struct probe_site list[30];
	struct ptb_proc_cfg cfg = {};
	struct late_change lc = { .site = &list[29] };
	struct probe_lib lib;
	struct target t;
	pthread_t thread;
	int n = 0;
	char path[32];
	uint32_t proc;

	one_lib(&t, &lib, list, 30);
	cfg.tgid = (uint32_t)t.pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t.pid);
	lc.mem = open(path, O_RDONLY | O_CLOEXEC);
	lc.addr = target__code_addr(&t, list[0].offset);
	CU_ASSERT_FATAL(lc.mem >= 0 && code_byte(&lc) == list[0].insn[0]);
	for (int tries = 0; tries < 50 && n != -ESTALE; tries++) { /* the thread may come too late */
		take_insns(&lib);
		atomic_store(&lc.stop, false);
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, change_late, &lc), 0);
		n = probe_set__add_process(ps, &cfg, &lib, 1, &proc);
		atomic_store(&lc.stop, true);
		pthread_join(thread, NULL);
		CU_ASSERT(n == 30 || n == -ESTALE);
		if (n == 30)
			probe_set__remove_process(ps, proc);
	}
	CU_ASSERT_EQUAL(n, -ESTALE);
	CU_ASSERT_EQUAL(code_byte(&lc), list[0].insn[0]);
	close(lc.mem);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("what cannot work is refused")
{
	struct probe_set *ps = NULL;
	struct probe_set_opts odd = { .ring_bytes = 5000 };
	struct probe_site site = { .id = 1, .prog = PTB_PROG_OP_ENTER };
	struct probe_lib lib = {
		.name = "libtorch.so", .access_path = "/nowhere/libtorch.so", .sites = &site, .cnt = 1
	};
	struct ptb_proc_cfg cfg = {};
	struct target t;
	uint32_t proc;

	CU_ASSERT_EQUAL(probe_set__open(&odd, &ps), -EINVAL);
	CU_ASSERT_PTR_NULL(ps);
	probe_set__free(NULL);
	ps = open_set(4096, LINKS_MULTI, false);
	target__start(&t, TARGET_CALLS);
	cfg.tgid = (uint32_t)t.pid;
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -ENOENT);
	lib.access_path = t.path;
	site.prog = PTB_PROG_CNT;
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -EINVAL);
	site.prog = PTB_PROG_OP_ENTER;
	site.id = 0;
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -EINVAL);
	site.id = 1;
	site.offset = target__value(&t, "site_op_enter");
	take_insns(&lib);
	target__stop(&t);
	CU_ASSERT_EQUAL(probe_set__add_process(ps, &cfg, &lib, 1, &proc), -ESRCH);
	probe_set__free(ps);
}

PROBE_SUITE("probe_set")
