/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * record/recorder_agent, agent_ops, agent_gpu: what agents send becomes records of a capture, in
 * the order of time, at the window's edges, and with any bytes.
 *
 * Longer than 600 lines because all cases use the one agent that is simulated here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "capture/capture.h"
#include "record/recorder_agent.h"
#include "suite.h"

#define SCHEMA_OFF 24

static struct recorder *rec;
static char path[64];
static const uint32_t me_tid = 77;

/* A chunk under construction, as the BPF program would send it. */
static struct {
	struct ptb_agent_data d;
	struct ptb_chunk c;
	char room[65536];
} u;
static uint32_t seqs[8];

static void chunk(uint32_t kind, uint32_t stream)
{
	memset(&u.d, 0, sizeof(u.d) + sizeof(u.c));
	u.c = (struct ptb_chunk){ .magic = PTB_CHUNK_MAGIC,
				  .abi = PTB_AGENT_ABI,
				  .kind = (uint16_t)kind,
				  .len = sizeof(u.c),
				  .tid = me_tid,
				  .stream = stream,
				  .seq = ++seqs[stream],
				  .logical = 3 };
}

static void *add(uint32_t kind, uint64_t ticks, uint32_t len, uint32_t aux)
{
	struct ptb_arec *a = (void *)((char *)&u.c + u.c.len);

	memset(a, 0, len);
	*a = (struct ptb_arec){ .len = (uint16_t)len, .kind = (uint8_t)kind, .aux = aux, .ticks = ticks };
	u.c.len += len;
	return a;
}

static void begin(uint64_t ticks, uint64_t rf, const char *text)
{
	uint32_t n = text ? (uint32_t)strlen(text) : 0;
	struct ptb_arec_begin *b =
		add(PTB_AREC_BEGIN, ticks, (uint32_t)sizeof(*b) + ((n + 7) & ~7u), n << 8);

	b->rf = rf;
	b->seq = -1;
	b->schema = text ? 0 : 0x1000 + SCHEMA_OFF;
	memcpy(b + 1, text ? text : "", n);
}

static void end(uint64_t ticks, uint64_t rf)
{
	((struct ptb_arec_end *)add(PTB_AREC_END, ticks, sizeof(struct ptb_arec_end), 0))->rf = rf;
}

/* bytes: of the chunk, independent of its header. */
static void queue_bytes(uint64_t ts, uint32_t bytes)
{
	u.d.h = (struct ptb_rec_hdr){ .len = (uint16_t)(sizeof(u.d) + bytes),
				      .kind = PTB_REC_AGENT_DATA,
				      .ts_ns = ts,
				      .tgid = (uint32_t)getpid(),
				      .tid = me_tid };
	u.d.bytes = bytes;
	recorder__agent_data(rec, &u.d);
}

static void send_bytes(uint64_t ts, uint32_t bytes)
{
	queue_bytes(ts, bytes);
	recorder__agent_round(rec, ~0ull);
}

static void send(uint64_t ts)
{
	send_bytes(ts, u.c.len);
}

/* Ticks are two for a nanosecond, and begin at 1,000,000. */
static uint64_t ticks_of(uint64_t ns)
{
	return 1000000 + 2 * ns;
}

static void clock_pair(uint64_t ns)
{
	chunk(PTB_CHUNK_STATE, 1);
	((struct ptb_arec_clock *)add(PTB_AREC_CLOCK, ticks_of(ns), sizeof(struct ptb_arec_clock), 0))
		->mono_ns = ns;
	send(ns);
}

static void open_recording(void)
{
	const struct record_opts opts = { .args = PROBE_ARGS_NONE };
	const struct agent_facts facts = { .pid = getpid(), .tsc = true, .schema_off = SCHEMA_OFF };

	memset(seqs, 0, sizeof(seqs));
	snprintf(path, sizeof(path), "/tmp/ptbpf-agent-%d.ptb", (int)getpid());
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(recorder__open(path, NULL, NULL, &opts, &rec), 0);
	recorder__agent(rec, &facts);
}

struct seen {
	uint64_t ts[64], rf[64], stack[64];
	uint32_t kind[64], flags[64], cnt;
	struct ptb_gpu_kernel kernel;
	struct ptb_gpu_device device;
	struct ptb_gpu_graph_node node;
	uint64_t notes[8]; /* enum ptb_gpu_notes */
	char text[64];
};

static int see(void *arg, const struct ptb_rec_hdr *h)
{
	struct seen *s = arg;
	const struct ptb_rf_begin *b = (const void *)h;
	const struct ptb_gpu_note *n = (const void *)h;

	if (h->kind == PTB_REC_GPU_KERNEL)
		memcpy(&s->kernel, h, sizeof(s->kernel));
	if (h->kind == PTB_REC_GPU_DEVICE)
		memcpy(&s->device, h, sizeof(s->device));
	if (h->kind == PTB_REC_GPU_GRAPH_NODE)
		memcpy(&s->node, h, sizeof(s->node));
	if (h->kind == PTB_REC_GPU_NOTE && n->what < 8)
		s->notes[n->what] += n->value;
	if (h->kind == PTB_REC_RF_BEGIN && b->text_len < sizeof(s->text))
		memcpy(s->text, b + 1, b->text_len);
	if (s->cnt < 64) {
		s->ts[s->cnt] = h->ts_ns;
		s->kind[s->cnt] = h->kind;
		s->flags[s->cnt] = h->flags;
		s->stack[s->cnt] = h->kind == PTB_REC_PY_STACK ? ((const struct ptb_py_stack *)h)->id : 0;
		s->rf[s->cnt] = h->kind == PTB_REC_RF_BEGIN ? b->rf : ((const struct ptb_rf_end *)h)->rf;
		s->cnt++;
	}
	return 0;
}

static void close_recording(struct seen *s)
{
	struct capture_reader *cr = NULL;

	memset(s, 0, sizeof(*s));
	recorder__agent_end(rec, getpid());
	recorder__round(rec, 1000000000);
	CU_ASSERT_EQUAL(recorder__close(rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__stream(cr, see, s), 0);
	CU_ASSERT_EQUAL(capture_reader__bad_records(cr), 0);
	capture_reader__close(cr);
	unlink(path);
}

TEST("ticks to nanoseconds")
{
	struct agent_clock c = { .ns = false };

	CU_ASSERT_FALSE(agent_clock__covers(&c, 0));
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 5), 0);
	CU_ASSERT_EQUAL(agent_clock__add(&c, 1000, 500), 0);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 1000), 0);
	CU_ASSERT_EQUAL(agent_clock__add(&c, 2000, 1000), 0);
	CU_ASSERT_EQUAL(agent_clock__add(&c, 4000, 3000), 0); /* twice as fast */
	CU_ASSERT_EQUAL(agent_clock__add(&c, 3000, 9000), -22);
	CU_ASSERT_EQUAL(agent_clock__add(&c, 5000, 3000), -22);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 1500), 750);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 3000), 2000);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 2000), 1000);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 5000), 4000);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, 500), 250);
	CU_ASSERT_EQUAL(agent_clock__mono(&c, ~0ull), 0); /* no time of this machine */
	CU_ASSERT(agent_clock__covers(&c, 4000) && !agent_clock__covers(&c, 4001));
	agent_clock__free(&c);
}

/* Records wait for a later clock pair; their times are exact. */
TEST("records wait for their clock")
{
	struct seen s;

	open_recording();
	recorder__window(rec, true, 1000, 0);
	clock_pair(1500);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(2000), 0xa0, NULL);
	begin(ticks_of(2100), 0xb0, "my label");
	end(ticks_of(2200), 0xb0);
	end(ticks_of(2300), 0xa0);
	send(2400);
	CU_ASSERT_EQUAL(recorder__stats(rec).records, 0);
	clock_pair(2250);
	CU_ASSERT_EQUAL(recorder__stats(rec).records, 0);
	clock_pair(3000);
	CU_ASSERT_EQUAL(recorder__stats(rec).records, 4);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 4);
	CU_ASSERT(s.ts[0] == 2000 && s.ts[1] == 2100 && s.ts[2] == 2200 && s.ts[3] == 2300);
	CU_ASSERT(s.rf[0] == 0xa0 && s.rf[1] == 0xb0 && s.rf[2] == 0xb0 && s.rf[3] == 0xa0);
	CU_ASSERT(s.kind[1] == PTB_REC_RF_BEGIN && s.kind[2] == PTB_REC_RF_END);
	CU_ASSERT_STRING_EQUAL(s.text, "my label");
}

/* What the kernel sends where the operator begins. */
static void stack(uint64_t number, uint64_t id)
{
	struct ptb_agent_stack s = {
		.h = { .len = sizeof(s),
		       .kind = PTB_REC_AGENT_STACK,
		       .ts_ns = 1,
		       .tgid = (uint32_t)getpid(),
		       .tid = me_tid },
		.id = id,
		.number = number,
	};

	recorder__ring_record(rec, 0, &s, sizeof(s));
}

static void begin_numbered(uint64_t ticks, uint64_t rf, uint64_t number, uint64_t fwd, const char *text)
{
	uint32_t more = fwd ? 16 : 8, n = (uint32_t)strlen(text);
	struct ptb_arec_begin *b =
		add(PTB_AREC_BEGIN, ticks, (uint32_t)sizeof(*b) + more + ((n + 7) & ~7u), n << 8);
	char *rest = u.room + u.c.len - sizeof(u.c) - more - ((n + 7) & ~7u);

	b->rf = rf;
	b->seq = -1;
	b->r.flags = PTB_AREC_STACK | (fwd ? PTB_AREC_FWD : 0);
	if (fwd)
		memcpy(rest, &fwd, 8);
	memcpy(rest + more - 8, &number, 8);
	memcpy(rest + more, text, n);
}

/* Each operator gets the stack with its own number, whatever the order; 0: it could not be read. One that has none gets none. */
TEST("Python stacks")
{
	struct seen s;

	open_recording();
	recorder__window(rec, true, 1000, 0);
	clock_pair(1500);
	stack(0x200000003, 33);
	stack(0x200000001, 0);
	stack(0x200000002, 22);
	stack(0x200000009, 99); /* whose operator never comes */
	chunk(PTB_CHUNK_OPS, 2);
	begin_numbered(ticks_of(2000), 0xa0, 0x200000001, 0, "a");
	begin_numbered(ticks_of(2100), 0xb0, 0x200000002, 7, "my label");
	begin_numbered(ticks_of(2200), 0xc0, 0x200000004, 0, "c");
	begin_numbered(ticks_of(2300), 0xd0, 0x200000003, 0, "d");
	begin(ticks_of(2400), 0xe0, "e");
	send(2500);
	clock_pair(3000);
	CU_ASSERT_EQUAL(rec->agents[0]->stacks.live, 1);
	chunk(PTB_CHUNK_OPS, 2); /* no room for the number */
	((struct ptb_arec_begin *)add(PTB_AREC_BEGIN, ticks_of(2600), sizeof(struct ptb_arec_begin), 0))
		->r.flags = PTB_AREC_STACK;
	send(2700);
	clock_pair(3500);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_BAD), 1);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 8);
	for (uint32_t i = 0, op = 0; i < s.cnt; i++) {
		static const uint64_t stacks[] = { 0, 22, 1, 33, 1 }; /* 1: none */

		if (stacks[op] != 1) {
			CU_ASSERT(s.kind[i] == PTB_REC_PY_STACK && s.stack[i] == stacks[op]);
			CU_ASSERT_EQUAL(s.ts[i], s.ts[i + 1]);
			i++;
		}
		CU_ASSERT_EQUAL(s.kind[i], PTB_REC_RF_BEGIN);
		CU_ASSERT(s.rf[i] == 0xa0 + 0x10 * op && s.ts[i] == 2000 + 100 * op);
		op++;
	}
}

/* The window began between the probe and the agent's reading of its clock: the operator was open then. */
TEST("a stack from before the window")
{
	struct seen s;

	open_recording();
	recorder__window(rec, true, 1000, 0);
	clock_pair(1500);
	stack(0x200000005, 55);
	stack(0x300000008, 88);
	stack(0x300000007, 77);
	chunk(PTB_CHUNK_OPS, 2);
	begin_numbered(ticks_of(2000), 0xa0, 0x200000004, 0, "a");
	begin_numbered(ticks_of(2100), 0xb0, 0x200000005, 0, "b");
	begin_numbered(ticks_of(2200), 0xc0, 0x200000006, 0, "c"); /* called without a frame */
	begin_numbered(ticks_of(2300), 0xd0, 0x400000001, 0, "d"); /* a thread that has none */
	begin_numbered(ticks_of(2400), 0xe0, 0x300000007, 0, "e");
	send(2500);
	clock_pair(3000);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 7);
	CU_ASSERT(s.rf[0] == 0xa0 && s.ts[0] == 1000 && (s.flags[0] & PTB_F_OPEN));
	CU_ASSERT(s.stack[1] == 55 && s.rf[2] == 0xb0 && s.ts[2] == 2100 && !(s.flags[2] & PTB_F_OPEN));
	CU_ASSERT(s.rf[3] == 0xc0 && s.ts[3] == 2200 && !(s.flags[3] & PTB_F_OPEN));
	CU_ASSERT(s.rf[4] == 0xd0 && s.ts[4] == 2300 && !(s.flags[4] & PTB_F_OPEN));
	CU_ASSERT(s.stack[5] == 77 && s.rf[6] == 0xe0 && !(s.flags[6] & PTB_F_OPEN));
}

/* Ended before: not reported. Open at the begin: reported with its time. Begun after the end: not reported. */
TEST("the window's edges")
{
	struct seen s;

	open_recording();
	clock_pair(100);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(200), 0x10, NULL);
	end(ticks_of(300), 0x10);
	begin(ticks_of(400), 0x20, NULL);
	begin(ticks_of(500), 0x30, NULL);
	send(600);
	clock_pair(700);
	recorder__window(rec, true, 1000, 0);
	chunk(PTB_CHUNK_OPS, 2);
	end(ticks_of(900), 0x30);
	begin(ticks_of(950), 0x40, NULL);
	end(ticks_of(1500), 0x40);
	begin(ticks_of(1600), 0x50, NULL);
	end(ticks_of(2500), 0x50);
	send(2600);
	recorder__window_ends(rec, 2000);
	clock_pair(3000);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 4);
	CU_ASSERT(s.rf[0] == 0x20 && s.ts[0] == 1000 && (s.flags[0] & PTB_F_OPEN));
	CU_ASSERT(s.rf[1] == 0x40 && s.ts[1] == 1000 && (s.flags[1] & PTB_F_OPEN));
	CU_ASSERT(s.rf[2] == 0x40 && s.ts[2] == 1500 && s.kind[2] == PTB_REC_RF_END);
	CU_ASSERT(s.rf[3] == 0x50 && s.ts[3] == 1600 && !(s.flags[3] & PTB_F_OPEN));
}

/* A thread without records in the whole window was inside the operator that it had begun before. */
TEST("open in the whole window")
{
	struct seen s;

	open_recording();
	clock_pair(100);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(400), 0x20, NULL);
	send(500);
	clock_pair(600);
	recorder__window(rec, true, 1000, 0);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 1);
	CU_ASSERT(s.rf[0] == 0x20 && s.ts[0] == 1000 && (s.flags[0] & PTB_F_OPEN));
}

/* What is open is found by its stream and by its object, whose next begin says that it ended. */
TEST("open in several streams")
{
	struct seen s;

	open_recording();
	clock_pair(100);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(200), 0x10, NULL);
	begin(ticks_of(210), 0x20, NULL);
	begin(ticks_of(220), 0x30, NULL);
	begin(ticks_of(230), 0x20, NULL);
	send(300);
	chunk(PTB_CHUNK_OPS, 3);
	begin(ticks_of(310), 0x40, NULL);
	end(ticks_of(320), 0x10); /* on another thread than it began */
	end(ticks_of(330), 0x99);
	send(400);
	clock_pair(700);
	recorder__window(rec, true, 1000, 0);
	chunk(PTB_CHUNK_OPS, 3);
	end(ticks_of(1100), 0x40);
	send(1200);
	clock_pair(1300);
	CU_ASSERT_EQUAL(rec->agents[0]->open.cnt, 2);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 4);
	CU_ASSERT(s.rf[0] == 0x40 && s.rf[1] == 0x30 && s.rf[2] == 0x20 && s.rf[3] == 0x40);
	CU_ASSERT(s.ts[0] == 1000 && s.ts[1] == 1000 && s.ts[2] == 1000 && s.ts[3] == 1100);
}

/*
 * A slow machine: the agent's thread and its streams come seconds late. Everything is put in order, and what ended
 * before the window is not reported as open, however late its record is.
 */
TEST("a slow machine")
{
	const uint64_t s1 = 1000000000ull, w = 10 * s1;
	struct seen s;

	open_recording();
	clock_pair(w - s1);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(w - 500), 0x20, NULL);
	begin(ticks_of(w - 400), 0x30, NULL);
	send(w - 300);
	clock_pair(w - 200);
	recorder__window(rec, true, w, 0);
	recorder__round(rec, w + s1);
	recorder__round(rec, w + 2 * s1);
	chunk(PTB_CHUNK_OPS, 3); /* another thread runs on */
	begin(ticks_of(w + 2 * s1 + 100), 0xa0, NULL);
	end(ticks_of(w + 2 * s1 + 200), 0xa0);
	send(w + 2 * s1 + 300);
	clock_pair(w + 3 * s1);
	recorder__round(rec, w + 3 * s1);
	chunk(PTB_CHUNK_OPS, 2); /* this one was starved while it sent */
	end(ticks_of(w - 100), 0x30);
	begin(ticks_of(w + 100), 0x40, NULL);
	end(ticks_of(w + 200), 0x40);
	send(w + 3 * s1 + 100);
	clock_pair(w + 4 * s1);
	recorder__round(rec, w + 4 * s1);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_LATE), 0);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 5);
	CU_ASSERT(s.rf[0] == 0x20 && s.ts[0] == w && (s.flags[0] & PTB_F_OPEN));
	CU_ASSERT(s.rf[1] == 0x40 && s.ts[1] == w + 100 && !(s.flags[1] & PTB_F_OPEN));
	CU_ASSERT(s.rf[2] == 0x40 && s.ts[2] == w + 200);
	CU_ASSERT(s.rf[3] == 0xa0 && s.rf[4] == 0xa0);
}

TEST("gaps and drops")
{
	struct seen s;

	open_recording();
	recorder__window(rec, true, 1, 0);
	chunk(PTB_CHUNK_OPS, 2);
	u.c.dropped = 5; /* before this recording */
	u.c.seq = 10;
	send(100);
	chunk(PTB_CHUNK_OPS, 2);
	u.c.dropped = 7;
	u.c.seq = 13;
	send(200);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_LOST), 2);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_DROPPED), 2);
	chunk(PTB_CHUNK_OPS, 3);
	u.c.dropped = 4; /* the first of a stream that began with it */
	u.c.seq = 1;
	send(300);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_DROPPED), 6);
	close_recording(&s);
}

static void add_name(uint32_t id, const char *text, uint64_t len)
{
	struct ptb_arec_gpu_name *n =
		add(PTB_AREC_GPU_NAME, 0, (uint32_t)(sizeof(*n) + ((strlen(text) + 7) & ~7u)), id);

	n->bytes = len;
	memcpy(n + 1, text, strlen(text));
}

/* As CUPTI lays them out (user/cupti/cupti_layout.h): what is not 0. */
static void add_kernel(uint32_t name, uint64_t end)
{
	struct ptb_arec *r = add(PTB_AREC_CUPTI, 0, sizeof(*r) + 208, name);
	uint64_t k[26] = { PTB_CUPTI_CONCURRENT_KERNEL, 0, 5, end };

	k[92 / 8] = 3ull << 32; /* correlation */
	memcpy(r + 1, k, sizeof(k));
}

static void add_device(uint32_t cnt)
{
	struct ptb_arec_gpu_device *d =
		add(PTB_AREC_GPU_DEVICE, 0, sizeof(*d) + PTB_GPU_ATTR_CNT * 4, 41);
	uint32_t *v = (uint32_t *)(d + 1);

	d->memory_bytes = 1 << 30;
	d->id = 1;
	d->cnt = cnt;
	for (uint32_t i = 0; i < PTB_GPU_ATTR_CNT; i++)
		v[i] = 1000 + i;
	v[PTB_GPU_ATTR_WARP_SIZE] = 32;
}

static void check_device(const struct ptb_gpu_device *d)
{
	CU_ASSERT(d->id == 1 && d->name && d->memory_bytes == 1 << 30 && d->warp_size == 32);
	CU_ASSERT_EQUAL(d->memory_bandwidth, 2ULL * (1000 + PTB_GPU_ATTR_MEMORY_KHZ) *
						     (1000 + PTB_GPU_ATTR_MEMORY_BITS) / 8);
	CU_ASSERT_EQUAL(d->max_warps_per_sm, (1000 + PTB_GPU_ATTR_THREADS_PER_SM) / 32);
	CU_ASSERT_EQUAL(d->regs_per_sm, 1000 + PTB_GPU_ATTR_REGS_PER_SM);
}

TEST("records of GPUs and their names")
{
	struct ptb_arec_graph_node *node;
	struct ptb_arec_gpu_note *note;
	struct seen s;

	open_recording();
	chunk(PTB_CHUNK_GPU, 3);
	add_name(40, "gemm", 4);
	add_name(41, "device", 6);
	add_name(42, "too long", 9);
	add_kernel(40, 9);
	add_kernel(40, 0); /* did not end */
	add_device(PTB_GPU_ATTR_CNT);
	add_device(PTB_GPU_ATTR_CNT - 1);
	note = add(PTB_AREC_GPU_NOTE, 0, sizeof(*note), PTB_GPU_DROPPED);
	note->value = 7;
	node = add(PTB_AREC_GRAPH_NODE, 0, sizeof(*node), 0);
	node->mono_ns = 450;
	node->node = 0x200000001;
	node->original = 0x100000001;
	node->tid = (uint32_t)getpid();
	add(PTB_AREC_CUPTI, 0, sizeof(struct ptb_arec) + 8, 0);   /* too short */
	add(PTB_AREC_BEGIN, 0, sizeof(struct ptb_arec_begin), 0); /* not here */
	send(500);
	CU_ASSERT(recorder__agent_gpu(rec));
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_BAD), 3);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_GPU_DROPPED), 7);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_GPU_NO_TIMES), 1);
	close_recording(&s);
	CU_ASSERT_EQUAL(s.kernel.correlation, 3);
	CU_ASSERT_EQUAL(s.kernel.h.tgid, (uint32_t)getpid());
	CU_ASSERT(s.kernel.name != 0 && s.kernel.begin == 5);
	check_device(&s.device);
	CU_ASSERT_EQUAL(s.notes[PTB_GPU_DROPPED], 7);
	CU_ASSERT_EQUAL(s.notes[PTB_GPU_UNKNOWN], 1);
	CU_ASSERT(s.node.at_ns == 450 && s.node.node == 0x200000001 && s.node.original == 0x100000001);
	CU_ASSERT(s.node.h.tid == (uint32_t)getpid() && s.node.h.tgid == (uint32_t)getpid());
}

/* Any bytes: nothing is read beyond them, what cannot be understood is counted. */
TEST("any bytes")
{
	uint64_t x = 88172645463325252ull, bad;
	uint32_t len;
	struct seen s;

	open_recording();
	recorder__window(rec, true, 1, 0);
	clock_pair(10);
	clock_pair(20);
	for (int i = 0; i < 20000; i++) {
		chunk(1 + (uint32_t)i % 3, 2 + (uint32_t)i % 4);
		begin(ticks_of(30 + (uint64_t)i), (uint64_t)i, i % 2 ? "text" : NULL);
		end(ticks_of(31 + (uint64_t)i), (uint64_t)i);
		len = u.c.len;
		for (int k = 0; k < 4; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			((uint8_t *)&u.c)[x % len] ^= (uint8_t)(x >> 32);
		}
		send_bytes(40, len);
	}
	bad = recorder__agent_counter(rec, PTB_CNT_AGENT_BAD);
	CU_ASSERT(bad > 1000);
	memset(seqs, 0, sizeof(seqs));
	close_recording(&s);
}

/* ---- limits ---- */

static int count_kind(void *arg, const struct ptb_rec_hdr *h)
{
	uint32_t *cnt = arg;

	cnt[h->kind]++;
	return 0;
}

static void close_and_count(uint32_t *cnt)
{
	struct capture_reader *cr = NULL;

	memset(cnt, 0, 256 * sizeof(*cnt));
	recorder__agent_end(rec, getpid());
	recorder__round(rec, 1000000000);
	CU_ASSERT_EQUAL(recorder__close(rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__scan(cr, count_kind, cnt), 0);
	CU_ASSERT_EQUAL(capture_reader__control(cr, count_kind, cnt), 0);
	capture_reader__close(cr);
	unlink(path);
}

static uint64_t over(void)
{
	return recorder__agent_counter(rec, PTB_CNT_OVER_AGENT);
}

/* Clocks as fast as an agent can send them: so many a second are taken. */
TEST("clocks as fast as can be")
{
	const uint32_t per_chunk = 500;
	uint32_t cnt[256];

	open_recording();
	for (uint32_t i = 0; i < 40; i++) { /* 20,000 in two seconds */
		chunk(PTB_CHUNK_STATE, 1);
		for (uint32_t k = 0; k < per_chunk; k++)
			add(PTB_AREC_GPU_CLOCK, 0, sizeof(struct ptb_arec_gpu_clock), 0);
		send(5000000000ull + i * 50000000ull);
	}
	CU_ASSERT_EQUAL(over(), 40 * per_chunk - 2 * LIMIT_AGENT_FACTS);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_GPU_CLOCK], 2 * LIMIT_AGENT_FACTS);
}

TEST("names without end")
{
	uint32_t cnt[256], i;

	open_recording();
	for (i = 0; i < LIMIT_AGENT_NAMES + 100; i++) {
		struct ptb_arec_gpu_name *n;

		if (i % 100 == 0)
			chunk(PTB_CHUNK_GPU, 2);
		n = add(PTB_AREC_GPU_NAME, 0, sizeof(*n) + 16, i + 1);
		n->bytes = 16;
		snprintf((char *)(n + 1), 16, "kernel%u", i);
		if (i % 100 == 99)
			send(1000 + i);
	}
	send(1000 + i);
	CU_ASSERT_EQUAL(over(), 100);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_NAME], LIMIT_AGENT_NAMES);
}

/* Times that have not come when they are sent, in operators, pairs of clocks and nodes of graphs: nothing waits for them. */
TEST("times that have not come")
{
	const uint64_t s1 = 1000000000ull;
	struct ptb_arec_graph_node *node;
	struct seen s;

	open_recording();
	rec->agents[0]->clock.ns = true;
	recorder__window(rec, true, 1000, 0);
	chunk(PTB_CHUNK_OPS, 2);
	begin(INT64_MAX, 0x10, NULL);
	begin(s1 + 50000000, 0x20, NULL); /* as far as a clock may be off */
	begin(2 * s1, 0x30, NULL);
	send(s1);
	chunk(PTB_CHUNK_STATE, 1);
	((struct ptb_arec_clock *)add(PTB_AREC_CLOCK, 5, sizeof(struct ptb_arec_clock), 0))->mono_ns =
		INT64_MAX;
	((struct ptb_arec_gpu_clock *)add(PTB_AREC_GPU_CLOCK, 5, sizeof(struct ptb_arec_gpu_clock), 0))
		->mono_ns = INT64_MAX;
	send(s1 + 1000);
	chunk(PTB_CHUNK_GPU, 3);
	node = add(PTB_AREC_GRAPH_NODE, 0, sizeof(*node), 0);
	node->mono_ns = INT64_MAX;
	send(s1 + 2000);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_BAD), 5);
	CU_ASSERT_EQUAL(rec->agents[0]->clock.cnt, 0);
	close_recording(&s);
	CU_ASSERT_EQUAL_FATAL(s.cnt, 1);
	CU_ASSERT_EQUAL(s.rf[0], 0x20);
}

static int see_opdef(void *arg, const struct ptb_rec_hdr *h)
{
	uint64_t *addrs = arg;

	if (h->kind == PTB_REC_OPDEF && addrs[0] < 3)
		addrs[++addrs[0]] = ((const struct ptb_addr_name *)h)->addr;
	return 0;
}

/* Of open operators: numbers, not addresses, and nothing is read of the process for them. */
TEST("names of open operators")
{
	const char *const names[] = { "aten::mm", "aten::add", "aten::mm" };
	struct capture_reader *cr = NULL;
	uint64_t addrs[4] = { 0 };

	open_recording();
	chunk(PTB_CHUNK_OPS, 2);
	for (uint32_t i = 0; i < 3; i++) {
		struct ptb_arec_name *n =
			add(PTB_AREC_NAME, 0, sizeof(*n) + 16, (uint32_t)strlen(names[i]));

		n->schema = PTB_OPEN_NAME | (0x1000 + SCHEMA_OFF + i % 2);
		memcpy(n + 1, names[i], strlen(names[i]));
	}
	send(1000);
	recorder__agent_end(rec, getpid());
	recorder__round(rec, 1000000000);
	CU_ASSERT_EQUAL(recorder__close(rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(path, capture__open(path), &cr), 0);
	CU_ASSERT_EQUAL(capture_reader__control(cr, see_opdef, addrs), 0);
	capture_reader__close(cr);
	unlink(path);
	CU_ASSERT_EQUAL(addrs[0], 2);
	CU_ASSERT_EQUAL(addrs[1], PTB_OPEN_NAME | (0x1000 + SCHEMA_OFF));
	CU_ASSERT_EQUAL(addrs[2], addrs[1] + 1);
}

/* A name longer than any name is cut and marked in the capture. */
TEST("a long name")
{
	const uint32_t len = LIMIT_NAME_BYTES + 800;
	struct ptb_arec_gpu_name *n;
	struct seen s;

	open_recording();
	chunk(PTB_CHUNK_GPU, 2);
	n = add(PTB_AREC_GPU_NAME, 0, (uint32_t)sizeof(*n) + len, 1);
	n->bytes = len;
	memset(n + 1, 'x', len);
	send(1000);
	CU_ASSERT_EQUAL(recorder__stats(rec).over_names, 1);
	close_recording(&s);
}

TEST("streams without end")
{
	struct seen s;

	open_recording();
	for (uint32_t i = 0; i < 3 * LIMIT_AGENT_STREAMS; i++) {
		chunk(PTB_CHUNK_STATE, 3);
		u.c.stream = 100 + i;
		u.c.seq = 1;
		send(1000 + i);
	}
	CU_ASSERT(over() >= 1 && over() <= 3);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_LOST), 0);
	close_recording(&s);
}

TEST("open operators without end")
{
	uint32_t cnt[256];

	open_recording();
	clock_pair(1000);
	for (uint32_t i = 0; i < LIMIT_AGENT_OPEN + 500; i++) {
		if (i % 200 == 0)
			chunk(PTB_CHUNK_OPS, 2);
		begin(ticks_of(2000 + i), i + 1, "x");
		if (i % 200 == 199 || i == LIMIT_AGENT_OPEN + 499)
			send(2000 + i);
	}
	clock_pair(100000);
	CU_ASSERT_EQUAL(over(), 500);
	recorder__window(rec, true, 200000, 0);
	close_and_count(cnt);
	CU_ASSERT_EQUAL(cnt[PTB_REC_RF_BEGIN], LIMIT_AGENT_OPEN);
}

/* As long as can be: their bytes are limited, too. */
TEST("long open operators")
{
	const uint32_t text = 40000, fit = LIMIT_AGENT_OPEN_BYTES / text;
	char *name = calloc(1, text + 1);
	uint32_t cnt[256];

	CU_ASSERT_FATAL(name != NULL);
	memset(name, 'x', text);
	open_recording();
	clock_pair(1000);
	for (uint32_t i = 0; i < fit + 100; i++) {
		chunk(PTB_CHUNK_OPS, 2);
		begin(ticks_of(2000 + i), i + 1, name);
		send(2000 + i);
	}
	clock_pair(100000);
	CU_ASSERT(over() >= 100 && over() <= 105);
	CU_ASSERT(rec->agents[0]->open.bytes <= LIMIT_AGENT_OPEN_BYTES);
	recorder__window(rec, true, 200000, 0);
	close_and_count(cnt);
	CU_ASSERT(cnt[PTB_REC_RF_BEGIN] <= fit && cnt[PTB_REC_RF_BEGIN] >= fit - 5);
	free(name);
}

static uint32_t drains;

static void on_drain(void *arg)
{
	(void)arg;
	drains++;
	recorder__agent_data(rec, &u.d); /* the agent goes on sending */
}

/* While chunks are taken, others come out of the rings: as long as there is room, and the round still ends. */
TEST("chunks while chunks are taken")
{
	struct seen s;
	uint32_t cnt;

	open_recording();
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(2000), 1, "x");
	send(2000);
	recorder__set_drain(rec, on_drain);
	drains = 0;
	recorder__agent_data(rec, &u.d);
	rec->rings_read_ns = 0;
	recorder__agent_end(rec, getpid());
	CU_ASSERT(drains > 0);
	CU_ASSERT_EQUAL(rec->agent_queue_cnt, drains);
	recorder__set_drain(rec, NULL);
	close_recording(&s);

	open_recording();
	chunk(PTB_CHUNK_GPU, 2);
	add(PTB_AREC_GPU_NAME, 0, 40000, 1);
	for (cnt = 0; !over() && cnt < 10000; cnt++)
		queue_bytes(1000, u.c.len);
	CU_ASSERT(cnt > LIMIT_AGENT_QUEUED / 50000 && cnt < LIMIT_AGENT_QUEUED / 40000);
	recorder__agent_round(rec, ~0ull);
	CU_ASSERT_EQUAL(rec->agents[0]->queued, 0);
	recorder__agent_data(rec, &u.d);
	CU_ASSERT_EQUAL(over(), 1);
	close_recording(&s);
}

/* A record whose length is no multiple of 8: the next one would be read where no record may be. */
TEST("a length that is no multiple of 8")
{
	struct seen s;
	const char *first = (const char *)(&u.c + 1);
	uint32_t len;

	open_recording();
	recorder__window(rec, true, 500, 0);
	clock_pair(1000);
	chunk(PTB_CHUNK_OPS, 2);
	begin(ticks_of(1100), 5, "whole");
	len = u.c.len - (uint32_t)sizeof(u.c);
	CU_ASSERT_EQUAL(((struct ptb_arec *)add(PTB_AREC_END, ticks_of(1200), 20, 0))->len, 20);
	memcpy((char *)&u.c + u.c.len, first, len); /* a second begin, where none may be */
	u.c.len = (u.c.len + len + 7) & ~7u;
	send(1400);
	clock_pair(2000);
	CU_ASSERT_EQUAL(recorder__agent_counter(rec, PTB_CNT_AGENT_BAD), 1);
	close_recording(&s);
	CU_ASSERT_STRING_EQUAL(s.text, "whole");
}

SUITE("recorder_agent")
