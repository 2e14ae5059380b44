/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Listening to an agent, requests, and its chunks: whole, in order, and every loss counted. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_target.h"
#include "base/clock.h"
#include "suite.h"

#define BIT(site) (1u << PTB_AGENT_SITE_##site)

static uint64_t losses(struct probe_set *ps)
{
	struct ring_loss loss;
	uint64_t n = 0;

	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++) {
		probe_set__take_loss(ps, i, &loss);
		n += loss.cnt;
	}
	return n;
}

/* A semaphore is raised exactly while its link exists. */
static void run_requests(enum links links, const char *path)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct agent_target at;
	uint32_t proc;

	agent_target__start(&at, path);
	proc = add_agent_process(ps, &at);
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), 0);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), BIT(CHUNK));
	for (int i = 0; i < 3; i++) {
		uint32_t requests = i == 0 ? BIT(OPS) :
				    i == 1 ? BIT(OPS) | BIT(GPU) | BIT(SYNC) :
					     0x3e;

		CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, requests), 0);
		CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), BIT(CHUNK) | requests);
		CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), BIT(CHUNK) | requests);
		probe_set__agent_withdraw(ps, proc);
		CU_ASSERT(semaphores_become(&at, at.t.pid, BIT(CHUNK)));
	}
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS)), 0);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(INPUTS)), 0); /* one more, later */
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), BIT(CHUNK) | BIT(OPS) | BIT(INPUTS));
	probe_set__remove_process(ps, proc);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(add_agent_process(ps, &at), proc);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(GPU)), 0);
	CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), BIT(CHUNK) | BIT(GPU));
	probe_set__detach(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT(links != LINKS_TRACE || trace_events_of(getpid()) == 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__run(&at.t, "semaphores"), 0);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("semaphores rise and fall (uprobe_multi)")
{
	run_requests(LINKS_MULTI, TARGET_AGENT_NOP1);
	run_requests(LINKS_MULTI, TARGET_AGENT_NOP5);
}

TEST("semaphores rise and fall (tracefs)")
{
	run_requests(LINKS_TRACE, TARGET_AGENT_NOP1);
	run_requests(LINKS_TRACE, TARGET_AGENT_NOP5);
}

struct order {
	const struct agent_target *at;
	uint32_t others; /* requested with operators */
	atomic_bool end;
	atomic_uint ops; /* rounds in which operators were requested */
	uint32_t early;  /* and not all others */
};

/* What one round reads of the others lies between two reads of the semaphore of operators, which is raised once. */
static void *watch_order(void *arg)
{
	struct order *o = arg;
	uint32_t last = 0, bits;

	while (!atomic_load(&o->end)) {
		bits = semaphore_bits(o->at, o->at->t.pid);
		if (last & bits & BIT(OPS)) {
			atomic_fetch_add(&o->ops, 1);
			o->early += (last & o->others) != o->others;
		}
		last = bits;
	}
	return NULL;
}

/* An agent that finds operators requested finds everything else that was requested with them. */
static void run_order(enum links links)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct agent_target at;
	struct order o = { .at = &at, .others = BIT(INPUTS) | BIT(OUTPUTS) | BIT(SYNC) };
	pthread_t thread;
	uint32_t proc;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	proc = add_agent_process(ps, &at);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	for (int i = 0; i < 20; i++) {
		atomic_store(&o.end, false);
		atomic_store(&o.ops, 0);
		CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, watch_order, &o), 0);
		CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS) | o.others), 0);
		while (!atomic_load(&o.ops))
			usleep(100);
		probe_set__agent_withdraw(ps, proc);
		atomic_store(&o.end, true);
		pthread_join(thread, NULL);
	}
	CU_ASSERT_EQUAL(o.early, 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("operators are requested last")
{
	run_order(LINKS_MULTI);
	run_order(LINKS_TRACE);
}

/* ---- chunks ---- */

static struct agent_target *attached(struct agent_target *at, struct probe_set *ps, const char *path)
{
	agent_target__start(at, path);
	CU_ASSERT_EQUAL_FATAL(probe_set__agent_listen(ps, add_agent_process(ps, at), &at->pa), 0);
	return at;
}

struct streams {
	uint32_t seq[65], tid[65]; /* seen last, by stream from 1 */
	uint32_t chunks, wrong, missing;
};

static int by_stream_and_time(const void *a, const void *b)
{
	const struct ptb_agent_data *x = *(void *const *)a, *y = *(void *const *)b;

	return x->h.ts_ns < y->h.ts_ns ? -1 : x->h.ts_ns > y->h.ts_ns;
}

/* Every chunk is byte for byte what its thread made; gaps are counted. */
static void follow(struct streams *s, struct records *r, const struct agent_target *at)
{
	qsort(r->items, r->cnt, sizeof(r->items[0]), by_stream_and_time);
	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct ptb_agent_data *d = (const void *)r->items[i];
		const struct ptb_chunk *c = (const void *)(d + 1);

		if (d->h.kind != PTB_REC_AGENT_DATA)
			continue; /* threads come and go */
		s->chunks++;
		if (d->h.site || d->h.flags || d->h.tgid != (uint32_t)at->t.pid || !d->bytes ||
		    c->stream > 64 || c->seq <= s->seq[c->stream] || !chunk_is(d, c->stream, c->seq)) {
			s->wrong++;
			continue;
		}
		s->missing += c->seq - s->seq[c->stream] - 1;
		s->seq[c->stream] = c->seq;
		if (!s->tid[c->stream])
			s->tid[c->stream] = d->h.tid;
		s->wrong += d->h.tid != s->tid[c->stream];
	}
}

/* Sizes from 40 bytes to the largest, five threads; no window is open. */
static void run_chunks(enum links links, const char *path)
{
	struct probe_set *ps = open_agent_set(1 << 25, links);
	struct streams s = { 0 };
	struct records r = { 0 };
	struct agent_target at;

	attached(&at, ps, path);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 200 0 5"), 1000);
	records__collect(&r, ps);
	follow(&s, &r, &at);
	CU_ASSERT_EQUAL(s.chunks, 1000);
	CU_ASSERT_EQUAL(s.wrong, 0);
	CU_ASSERT_EQUAL(s.missing, 0);
	CU_ASSERT_EQUAL(losses(ps), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_HITS), 0); /* no operators */
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_OUT_OF_WINDOW), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CHUNK_FAULT), 0);
	CU_ASSERT(probe_set__counter(ps, PTB_CNT_MISSED) == 0 || kernel_may_skip());
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_FOREIGN), 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("chunks of all sizes, five threads (uprobe_multi)")
{
	run_chunks(LINKS_MULTI, TARGET_AGENT_NOP1);
	run_chunks(LINKS_MULTI, TARGET_AGENT_NOP5);
}

TEST("chunks of all sizes, five threads (tracefs)")
{
	run_chunks(LINKS_TRACE, TARGET_AGENT_NOP1);
}

/* At and around every size of reservation. */
TEST("sizes of reservations")
{
	struct probe_set *ps = open_agent_set(0, LINKS_MULTI);
	struct agent_target at;
	char command[32];

	attached(&at, ps, TARGET_AGENT_NOP1);
	for (uint32_t size = 64; size <= PTB_CHUNK_MAX; size *= 2)
		for (uint32_t len = size - 8; len <= size + 8 && len <= PTB_CHUNK_MAX; len += 8) {
			const struct ptb_agent_data *d;
			struct records r = { 0 };

			snprintf(command, sizeof(command), "chunks 1 %u 1", len);
			CU_ASSERT_EQUAL(target__run(&at.t, command), 1);
			records__collect(&r, ps);
			d = records__find(&r, PTB_REC_AGENT_DATA, 0);
			CU_ASSERT_FATAL(d != NULL);
			CU_ASSERT_EQUAL(d->bytes, len);
			CU_ASSERT(chunk_is(d, 1, 1));
			CU_ASSERT_EQUAL(records__count(&r, PTB_REC_AGENT_DATA, 0), 1);
			records__clear(&r);
		}
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

/* Invalid pointers and lengths do no harm; each is reported by a record without bytes, and counted. */
TEST_LINKS("invalid pointers and lengths")
{
	struct probe_set *ps = open_agent_set(0, links);
	struct records r = { 0 };
	struct agent_target at;
	uint64_t n;

	attached(&at, ps, TARGET_AGENT_NOP1);
	n = target__run(&at.t, "hostile");
	CU_ASSERT(n > 20 && n < 1000);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, n);
	for (uint32_t i = 0; i < r.cnt; i++) {
		const struct ptb_agent_data *d = (const void *)r.items[i];

		CU_ASSERT_EQUAL(d->h.kind, PTB_REC_AGENT_DATA);
		CU_ASSERT_EQUAL(d->h.len, sizeof(*d));
		CU_ASSERT_EQUAL(d->h.flags, PTB_F_READ_FAULT);
		CU_ASSERT_EQUAL(d->h.tid, (uint32_t)at.t.pid);
		CU_ASSERT_EQUAL(d->bytes, 0);
	}
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CHUNK_FAULT), n);
	records__clear(&r);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 1 32768 1"), 1); /* as well as before */
	records__collect(&r, ps);
	CU_ASSERT(records__count(&r, PTB_REC_AGENT_DATA, 0) == 1);
	CU_ASSERT(chunk_is(records__find(&r, PTB_REC_AGENT_DATA, 0), 1, 1));
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

/* A page that is not in the process is not waited for: whoever serves it could hold the program, and the removal of probes. */
static void run_fresh(enum links links)
{
	struct probe_set *ps = open_agent_set(0, links);
	static const uint32_t lens[] = { 512, 5000, PTB_CHUNK_MAX };
	struct records r = { 0 };
	struct agent_target at;
	char command[32];

	attached(&at, ps, TARGET_AGENT_NOP1);
	for (int i = 0; i < 3; i++) {
		const struct ptb_agent_data *d;

		snprintf(command, sizeof(command), "fresh %u", lens[i]);
		CU_ASSERT_EQUAL(target__run(&at.t, command), 0);
		records__collect(&r, ps);
		CU_ASSERT_EQUAL_FATAL(r.cnt, 1);
		d = (const void *)r.items[0];
		CU_ASSERT_EQUAL(d->bytes, 0);
		records__clear(&r);
	}
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CHUNK_FAULT), 3);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("pages that are not there")
{
	run_fresh(LINKS_MULTI);
	run_fresh(LINKS_TRACE);
}

/* A ring that holds three full chunks of those that are usual, or not even one. */
static void run_losses(uint64_t ring_bytes, bool some)
{
	struct probe_set *ps = open_agent_set(ring_bytes, LINKS_MULTI);
	struct streams s = { 0 };
	struct records r = { 0 };
	struct agent_target at;
	uint64_t begin, end, lost = 0;
	struct ring_loss loss;

	attached(&at, ps, TARGET_AGENT_NOP1);
	begin = clock__mono_ns();
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 100 16384 2"), 200);
	end = clock__mono_ns();
	records__collect(&r, ps);
	follow(&s, &r, &at);
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++) {
		probe_set__take_loss(ps, i, &loss);
		lost += loss.cnt;
		if (loss.cnt)
			CU_ASSERT(begin <= loss.begin_ns && loss.begin_ns <= loss.end_ns &&
				  loss.end_ns <= end);
	}
	CU_ASSERT(some ? s.chunks >= 3 && s.chunks < 20 : s.chunks == 0);
	CU_ASSERT_EQUAL(s.wrong, 0);
	lost -= 4 - records__count(&r, PTB_REC_THREAD_NEW, 0) - records__count(&r, PTB_REC_EXIT, 0);
	CU_ASSERT_EQUAL(s.chunks + lost, 200); /* exactly the missing chunks are counted */
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CHUNK_FAULT), 0);
	records__clear(&r);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 1 1000 1"), 1); /* room again */
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_AGENT_DATA, 0), 1);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("losses are counted")
{
	run_losses(1 << 16, true);
	run_losses(4096, false);
}

/* What cannot be is refused, and nothing is raised. */
static void run_refusals(enum links links)
{
	struct probe_set *ps = open_agent_set(0, links), *deaf = open_set(0, links, false);
	struct probe_agent pa;
	struct agent_target at;
	uint32_t proc;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	proc = add_agent_process(deaf, &at);
	CU_ASSERT_EQUAL(probe_set__agent_listen(deaf, proc, &at.pa), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_request(deaf, proc, &at.pa, BIT(OPS)), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, 0, &at.pa), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, PTB_PROC_MAX, &at.pa), -EINVAL);
	proc = add_agent_process(ps, &at);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, 0), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(CHUNK) | BIT(OPS)), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, 1u << PTB_AGENT_SITE_CNT), -EINVAL);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS) | BIT(STACKS)),
			-EINVAL); /* of a set without stacks */
	pa = at.pa;
	pa.semaphore[PTB_AGENT_SITE_GPU] = 0;
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &pa, BIT(OPS) | BIT(GPU)), -ENOENT);
	pa.access_path = "/nowhere/" PTB_AGENT_FILE;
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &pa, BIT(OPS)), -ENOENT);
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), 0);
	/* another tracer probes a site with another semaphore: the kernel allows one only */
	pa = at.pa;
	pa.semaphore[PTB_AGENT_SITE_GPU] = at.pa.semaphore[PTB_AGENT_SITE_SYNC];
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(GPU)), 0);
	CU_ASSERT(probe_set__agent_request(ps, proc, &pa, BIT(OPS) | BIT(GPU)) < 0);
	CU_ASSERT(semaphores_become(&at, at.t.pid, BIT(GPU)));
	probe_set__agent_withdraw(ps, proc);
	probe_set__agent_withdraw(ps, proc); /* nothing to take back */
	probe_set__agent_withdraw(ps, PTB_PROC_MAX);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	probe_set__free(deaf);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	CU_ASSERT_EQUAL(target__stop(&at.t), 0);
	CU_ASSERT(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS)) < 0); /* it is gone */
	agent_lib__clear(&at.al);
	probe_set__free(ps);
}

/* Notes that name other instructions than no-ops: no breakpoint is placed there. */
TEST("no no-op is no site")
{
	struct probe_set *ps = open_agent_set(0, LINKS_MULTI);
	struct agent_target at;
	uint64_t good;
	uint32_t proc;

	agent_target__start(&at, TARGET_AGENT_NOP5);
	proc = add_agent_process(ps, &at);
	good = at.pa.site[PTB_AGENT_SITE_OPS];
	for (int i = 1; i < 5; i++) {
		at.pa.site[PTB_AGENT_SITE_OPS] = good + (uint64_t)i;
		CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS) | BIT(GPU)), -ESTALE);
		CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), 0);
	}
	at.pa.site[PTB_AGENT_SITE_OPS] = good;
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS) | BIT(GPU)), 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("what cannot be is refused")
{
	run_refusals(LINKS_MULTI);
	run_refusals(LINKS_TRACE);
}

/* ---- the agent itself ---- */

/* The last STATE record among the chunks; false: none came. */
static bool last_state(struct probe_set *ps, struct ptb_arec_state *out)
{
	struct records r = { 0 };
	bool found = false;

	records__collect(&r, ps);
	for (uint32_t i = 0; i < r.cnt; i++) {
		const struct ptb_agent_data *d = (const void *)r.items[i];
		const struct ptb_chunk *c = (const void *)(d + 1);
		const struct ptb_arec *a = (const void *)(c + 1);

		if (d->h.kind != PTB_REC_AGENT_DATA)
			continue;
		CU_ASSERT_FATAL(d->bytes >= sizeof(*c) && c->magic == PTB_CHUNK_MAGIC &&
				c->abi == PTB_AGENT_ABI && c->len == d->bytes);
		for (uint32_t at = sizeof(*c); at < c->len; at += a->len) {
			a = (const void *)((const uint8_t *)c + at);
			CU_ASSERT_FATAL(a->len >= sizeof(*a) && a->len % 8 == 0 && a->len <= c->len - at);
			if (a->kind == PTB_AREC_STATE) {
				memcpy(out, a, sizeof(*out));
				found = true;
			}
		}
	}
	records__clear(&r);
	return found;
}

/* In a program without torch it reports the reason why it cannot do what is requested. */
static void run_agent(enum links links)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct ptb_arec_state st = { 0 };
	struct ptb_agent_ctl ctl;
	struct agent_target at;
	uint64_t end;
	uint32_t proc;

	setenv("LD_PRELOAD", AGENT_LIBS, 1);
	agent_target__start(&at, TARGET_CALLS);
	unsetenv("LD_PRELOAD");
	end = clock__mono_ns() + 30ull * PTB_AGENT_ANSWER_NS; /* of a busy machine */
	do {
		CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
	} while (!(ctl.state & PTB_AGENT_ALIVE) && clock__mono_ns() < end && !usleep(1000));
	proc = add_agent_process(ps, &at);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at.pa, BIT(OPS)), 0);
	while (!st.ops_why && clock__mono_ns() < end) {
		usleep(10000);
		last_state(ps, &st);
	}
	CU_ASSERT_STRING_NOT_EQUAL(agent__why_text(st.ops_why), "");
	CU_ASSERT_EQUAL(agent_lib__read(at.t.pid, &at.al, &ctl), 0);
	CU_ASSERT_EQUAL(ctl.ops_why, st.ops_why);
	CU_ASSERT(st.state & PTB_AGENT_ALIVE && !(st.state & (PTB_AGENT_OPS_ON | PTB_AGENT_GPU_ON)));
	CU_ASSERT_EQUAL(target__run(&at.t, "calls 100 1"), target__run(&at.t, "calls 100 1"));
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("the agent itself answers")
{
	run_agent(LINKS_MULTI);
	run_agent(LINKS_TRACE);
}

PROBE_SUITE("probe_agent")
