/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cli/recorder: what a target makes it remember has limits (base/limits.h); what lies beyond is counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "capture/capture.h"
#include "record/recorder_agent.h"
#include "record/recorder_priv.h"
#include "suite.h"

static struct recorder *rec;
static char path[64];
static uint32_t me;

static void open_recording(void)
{
	static struct torch_plan plan;
	static struct torch_proc proc = { .comm = "t", .exe = "t", .cmdline = "t" };
	const struct record_opts opts = { .args = PROBE_ARGS_SHAPES };
	struct recorder_plan rp;
	struct proc_ops po;

	me = (uint32_t)getpid();
	snprintf(path, sizeof(path), "/tmp/ptbpf-limits-%u.ptb", me);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(recorder__open(path, NULL, NULL, &opts, &rec), 0);
	proc.pid = getpid();
	recorder__plan(rec, &plan, proc.libs, &rp);
	proc_ops__init(&po, &proc, &plan);
	recorder__learn(rec, &po);
	proc_ops__free(&po);
	recorder__process(rec, &proc, &plan, &(struct recorder_process){ .start_ns = 1000 });
}

static int count_kind(void *arg, const struct ptb_rec_hdr *h)
{
	uint64_t *cnt = arg;

	cnt[h->kind]++;
	return 0;
}

/* Seals the capture and counts its control records by kind. */
static void close_and_count(uint64_t cnt[256])
{
	struct capture_reader *cr;

	memset(cnt, 0, 256 * sizeof(*cnt));
	CU_ASSERT_EQUAL(recorder__close(rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__control(cr, count_kind, cnt), 0);
	capture_reader__close(cr);
	unlink(path);
}

TEST("names")
{
	uint64_t cnt[256], before;
	char text[32];

	open_recording();
	before = rec->over_names;
	for (uint32_t i = 0; i < LIMIT_NAMES + 100; i++) {
		snprintf(text, sizeof(text), "name %u", i);
		recorder__name(rec, 0, text);
	}
	CU_ASSERT(rec->over_names >= before + 100);
	CU_ASSERT_NOT_EQUAL(recorder__name(rec, 0, "name 7"), 0); /* known ones stay known */
	CU_ASSERT_EQUAL(recorder__name(rec, 0, "one more"), 0);
	CU_ASSERT_EQUAL(recorder__stats(rec).over_names, rec->over_names);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_NAME], LIMIT_NAMES);
}

/* Of a process half of what is left, so that another one has room, too; what it forgets is free again. */
TEST("addresses")
{
	const uint32_t half = LIMIT_ADDRESSES / 2;
	uint64_t cnt[256];

	open_recording();
	for (uint32_t i = 0; i < half + 50; i++)
		recorder__class(rec, me, 0x1000 + i, "Class");
	CU_ASSERT_EQUAL(rec->over_names, 50);
	CU_ASSERT_EQUAL(rec->classes.live, half);
	for (uint32_t i = 0; i < half; i++)
		recorder__class(rec, me + 1, 0x1000 + i, "Class");
	CU_ASSERT_EQUAL(rec->classes.live, half + half / 2);
	recorder__forget(rec, &rec->classes, me + 1, 0x1000);
	recorder__class(rec, me + 1, 0x1000, "Class");
	CU_ASSERT_EQUAL(rec->classes.live, half + half / 2);
	CU_ASSERT_EQUAL(rec->over_names, 50 + half / 2);
	close_and_count(cnt);
}

/* Likewise, and of long ones fewer: their bytes are shared, too. */
TEST("names of one process")
{
	uint64_t cnt[256], over;
	char text[1100];
	uint32_t i;

	open_recording();
	for (i = 0; !rec->over_names; i++) {
		snprintf(text, sizeof(text), "%1024u", i);
		recorder__name(rec, me, text);
	}
	CU_ASSERT(i > LIMIT_NAMES / 11 && i < LIMIT_NAMES / 8);
	over = rec->over_names;
	for (i = 0; i < LIMIT_NAMES / 4; i++) {
		snprintf(text, sizeof(text), "other %u", i);
		recorder__name(rec, me + 1, text);
	}
	CU_ASSERT_EQUAL(rec->over_names, over);
	close_and_count(cnt);
}

static void boxed_call(uint64_t opdef)
{
	struct ptb_boxed_enter r = {
		.h = { .kind = PTB_REC_BOXED_ENTER, .len = sizeof(r), .ts_ns = 2000, .tgid = me, .tid = me },
		.sp = 0x7000,
		.opdef = opdef
	};

	recorder__ring_record(rec, 0, &r, sizeof(r));
}

/* Operators that are called and have no name: each name is requested, up to a limit. */
TEST("unknown addresses")
{
	uint64_t cnt[256];

	open_recording();
	for (uint32_t i = 0; i < LIMIT_UNKNOWN + 30; i++)
		boxed_call(0x100000 + 8 * i);
	CU_ASSERT_EQUAL(recorder__find_proc(rec, me)->unknown.live, LIMIT_UNKNOWN);
	CU_ASSERT_EQUAL(recorder__find_proc(rec, me)->no_schema.live, LIMIT_UNKNOWN);
	CU_ASSERT_EQUAL(rec->over_unknown, 30);
	CU_ASSERT_EQUAL(recorder__unresolved(rec), LIMIT_UNKNOWN + 30);
	close_and_count(cnt);
}

/* A process whose schemas have taken long: the others are counted, once each, and are not asked for again. */
TEST("schemas")
{
	struct recorder_proc *p;
	uint64_t cnt[256];

	open_recording();
	p = recorder__find_proc(rec, me);
	p->schemas_readable = true;
	for (uint32_t i = 0; i < 4; i++)
		recorder__opdef(rec, me, 0x1000 + 8 * i, "lib::op", 0);
	boxed_call(0x1000);
	recorder__resolve_schemas(rec, p);
	CU_ASSERT_EQUAL(p->no_schema.live, 1); /* it cannot be read now */
	CU_ASSERT(p->schemas_ns > 0);
	CU_ASSERT_EQUAL(rec->over_names, 0);
	p->schemas_ns = LIMIT_SCHEMAS_MS * 1000000ull;
	for (uint32_t i = 0; i < 4; i++)
		boxed_call(0x1000 + 8 * i);
	recorder__resolve_schemas(rec, p);
	CU_ASSERT_EQUAL(p->no_schema.live, 0);
	CU_ASSERT_EQUAL(rec->over_names, 4);
	boxed_call(0x1008);
	CU_ASSERT_EQUAL(p->no_schema.live, 0);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_SCHEMA], 0);
}

/* Beyond the limit all threads are forgotten, and recorded again: none is without its name. */
TEST("threads")
{
	uint64_t cnt[256], own;

	open_recording();
	own = rec->threads.live;
	for (uint32_t i = 0; i < LIMIT_THREADS + 20; i++)
		recorder__thread(rec, me, 1000000 + i, "worker");
	CU_ASSERT_EQUAL(rec->threads.live, own + 20);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_THREAD], own + LIMIT_THREADS + 20);
}

/* Sends one chunk of the agent of this process. */
static void agent_chunk(struct ptb_chunk c, const void *body, uint32_t bytes)
{
	static struct {
		struct ptb_agent_data d;
		char chunk[PTB_CHUNK_MAX];
	} rec_data;

	c.magic = PTB_CHUNK_MAGIC;
	c.abi = PTB_AGENT_ABI;
	c.len = sizeof(c) + bytes;
	c.tid = me;
	memcpy(rec_data.chunk, &c, sizeof(c));
	memcpy(rec_data.chunk + sizeof(c), body, bytes);
	rec_data.d.bytes = c.len;
	rec_data.d.h = (struct ptb_rec_hdr){ .len = (uint16_t)(sizeof(rec_data.d) + c.len),
					     .kind = PTB_REC_AGENT_DATA,
					     .ts_ns = 1000 + c.seq,
					     .tgid = me,
					     .tid = me };
	recorder__agent_data(rec, &rec_data.d);
	recorder__agent_round(rec, UINT64_MAX);
}

/* No clock ever comes: what an agent's operators wait for one with is bounded. */
TEST("held without a clock")
{
	const struct agent_facts facts = { .pid = getpid(), .tsc = true };
	static struct ptb_arec_end ends[1000];
	uint64_t cnt[256];
	uint32_t most = 0;

	open_recording();
	recorder__agent(rec, &facts);
	for (uint32_t i = 0; i < 1000; i++)
		ends[i].r = (struct ptb_arec){ .len = sizeof(ends[0]), .kind = PTB_AREC_END, .ticks = 1 };
	for (uint32_t i = 1; i <= LIMIT_AGENT_HELD / sizeof(ends) + 20; i++) {
		agent_chunk((struct ptb_chunk){ .kind = PTB_CHUNK_OPS, .stream = 2, .seq = i },
			    ends, sizeof(ends));
		most = rec->agents[0]->held_len > most ? rec->agents[0]->held_len : most;
	}
	CU_ASSERT(most <= LIMIT_AGENT_HELD);
	CU_ASSERT(most > LIMIT_AGENT_HELD / 10 * 9);
	CU_ASSERT(rec->agents[0]->held_len < LIMIT_AGENT_HELD / 10);
	close_and_count(cnt);
}

/* An agent that is switched off and on again in the window, for another tracer: counted. Its first begin, its end, and what it did before the window are none. */
TEST("begun anew")
{
	const struct agent_facts facts = { .pid = getpid(), .tsc = true };
	const uint32_t on = PTB_AGENT_OPS_ON;
	const uint32_t states[] = { 0, on, 0, on, 0, on, on | PTB_AGENT_GPU_ON, 0 };
	const uint64_t expected[] = { 0, 0, 0, 0, 0, 1, 1, 1 };
	uint64_t cnt[256];

	open_recording();
	recorder__agent(rec, &facts);
	rec->begin_ns = 1004; /* agent_chunk() counts from 1001 */
	for (uint32_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		const struct ptb_arec_state state = {
			.r = { .len = sizeof(state), .kind = PTB_AREC_STATE }, .state = states[i]
		};

		agent_chunk((struct ptb_chunk){ .kind = PTB_CHUNK_STATE, .stream = 1, .seq = i + 1 },
			    &state, sizeof(state));
		CU_ASSERT_EQUAL(rec->agents[0]->reported.state, states[i]);
		CU_ASSERT_EQUAL(rec->agents[0]->reported.restarts, expected[i]);
	}
	close_and_count(cnt);
}

/* Pairs of clocks within the rate, for hours. */
TEST("clocks for hours")
{
	struct agent_clock c = { .ns = false };
	uint64_t i;

	for (i = 1; i <= 3 * LIMIT_AGENT_CLOCKS; i++)
		CU_ASSERT_EQUAL_FATAL(agent_clock__add(&c, 2 * i, i), 0);
	CU_ASSERT(c.cnt <= LIMIT_AGENT_CLOCKS && c.cap <= 2 * LIMIT_AGENT_CLOCKS);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 2 * i - 10), i - 5);
	agent_clock__free(&c);
}

/* Stacks whose operators never come: beyond the limit they are forgotten, and counted. */
TEST("stacks without operators")
{
	const struct agent_facts facts = { .pid = getpid(), .tsc = true };
	struct ptb_agent_stack s = { .h = { .len = sizeof(s), .kind = PTB_REC_AGENT_STACK, .tgid = me },
				     .id = 1 };
	uint64_t cnt[256];

	open_recording();
	recorder__agent(rec, &facts);
	for (s.number = 1; s.number <= LIMIT_AGENT_STACKS + 20; s.number++)
		recorder__ring_record(rec, 0, &s, sizeof(s));
	CU_ASSERT_EQUAL(rec->agents[0]->stacks.live, 20);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_OVER_AGENT), LIMIT_AGENT_STACKS);
	close_and_count(cnt);
}

/* An agent of this process, as if it were in another pid namespace. */
static struct agent_proc *foreign_agent(void)
{
	const struct agent_facts facts = { .pid = getpid(), .tsc = true };

	open_recording();
	recorder__agent(rec, &facts);
	rec->agents[0]->same_ns = false;
	return rec->agents[0];
}

/* Threads in another pid namespace: beyond the limit all are forgotten, and asked for again. */
TEST("threads of another namespace")
{
	struct agent_proc *p = foreign_agent();
	uint64_t cnt[256];

	for (uint32_t i = 0; i < LIMIT_AGENT_THREADS - 1; i++)
		hashmap__put(&p->tids, 0x10000000 + i, 0, 0x20000000 + i);
	CU_ASSERT_EQUAL(agent__tid(rec, p, 0x10000000), 0x20000000);
	CU_ASSERT_EQUAL(agent__tid(rec, p, me), me);
	CU_ASSERT_EQUAL(p->tids.live, LIMIT_AGENT_THREADS);
	hashmap__del(&p->tids, me, 0);
	hashmap__put(&p->tids, 0x30000000, 0, 1);
	CU_ASSERT_EQUAL(agent__tid(rec, p, me), me);
	CU_ASSERT_EQUAL(p->tids.live, 1);
	close_and_count(cnt);
}

/* Threads that do not exist, each of which would be searched for among all: once, and as long as there is time for it. */
TEST("threads that do not exist")
{
	struct agent_proc *p = foreign_agent();
	uint64_t cnt[256];

	CU_ASSERT_EQUAL(agent__tid(rec, p, 0x10000000), 0x10000000);
	CU_ASSERT_EQUAL(p->tids.live, 2); /* it and the one that there is */
	CU_ASSERT_EQUAL(agent__tid(rec, p, me), me);
	p->tids_debt_ns = UINT64_MAX / 2;
	CU_ASSERT_EQUAL(agent__tid(rec, p, 0x10000001), 0x10000001);
	CU_ASSERT_EQUAL(p->tids.live, 2);
	p->tids_debt_ns = 0;
	CU_ASSERT_EQUAL(agent__tid(rec, p, 0x10000001), 0x10000001);
	CU_ASSERT_EQUAL(p->tids.live, 3);
	CU_ASSERT(p->tids_debt_ns > 0);
	close_and_count(cnt);
}

SUITE("recorder_limits")
