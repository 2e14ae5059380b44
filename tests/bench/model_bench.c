/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How fast a capture is written, read, and processed by the model:  model_bench [operators [path]]
 * Prints records per second and peak memory as JSON; asserts nothing. The capture looks like training:
 * composite operators three deep, annotations, sequence numbers, backward nodes on a second thread. It
 * is made three times: names only, with memory (every innermost operator allocates a block and an older one
 * is freed), and with the arguments and results that an Execution Trace needs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/capture.h"
#include "model/key_averages.h"
#include "model/session.h"
#include "value_words.h"

enum mode { NAMES, MEMORY, FULL };
static const char *const mode_names[] = { "names", "memory", "full" };

#define LIVE_BLOCKS 10000
enum { OPS = 40, SITE_NODE = 100, SITE_CALL = 102, NAME_OPT = 60 };

struct gen {
	struct capture_writer *cw;
	uint64_t ts, recs, seq, blocks;
	uint32_t tid, ring;
	enum mode mode;
	struct value_words in, out; /* of every operator */
};

static void die(const char *what)
{
	fprintf(stderr, "model_bench: %s\n", what);
	exit(1);
}

static void emit(struct gen *g, struct ptb_rec_hdr *h, uint8_t kind, size_t len, uint32_t site)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	h->site = site;
	h->ts_ns = g->ts += 400 + g->recs % 7;
	h->tgid = 1;
	h->tid = g->tid;
	if (capture_writer__ring(g->cw, g->ring, h, h->len))
		die("cannot write");
	if (++g->recs % 4096 == 0 && capture_writer__round(g->cw, g->ts))
		die("cannot write a round");
}

/* Both kinds have the same layout. */
static void emit_op(struct gen *g, uint8_t kind, uint64_t sp, uint32_t site, const struct value_words *w)
{
	struct {
		struct ptb_op_enter r;
		uint64_t values[256];
	} rec = { .r.sp = sp };
	size_t len = sizeof(rec.r);

	if (g->mode == FULL) {
		memcpy(rec.values, w->words, w->cnt * sizeof(w->words[0]));
		len += w->cnt * sizeof(w->words[0]);
		rec.r.h.flags = PTB_F_ARGS;
	}
	emit(g, &rec.r.h, kind, len, site);
}

static void enter(struct gen *g, uint32_t func, uint64_t sp)
{
	emit_op(g, PTB_REC_OP_ENTER, sp, 2 * func, &g->in);
}

static void leave(struct gen *g, uint32_t func, uint64_t sp)
{
	emit_op(g, PTB_REC_OP_EXIT, sp - 128, 2 * func + 1, &g->out);
}

/* Two tensors of two dimensions, two numbers, a list; one tensor as the result. */
static void make_values(struct gen *g)
{
	struct vw_tensor t = { .dtype = 6,
			       .ndim = 2,
			       .sizes = { 64, 128 },
			       .flags = PTB_VAL_F_IDS,
			       .keys = 0x8001,
			       .impl = 0x7f0012340000,
			       .storage = 0x7f0056780000 };
	static const int64_t list[] = { 0, 1 };

	vw__state(&g->in, true, 77, 0, 0);
	vw__tensor(&g->in, &t);
	vw__tensor(&g->in, &t);
	vw__int(&g->in, 1);
	vw__none(&g->in);
	vw__ints(&g->in, 2, list);
	vw__tensor(&g->out, &t);
}

static void memory(struct gen *g, uint64_t sp)
{
	struct ptb_mem_alloc a = { .sp = sp, .addr = g->blocks * 4096, .bytes = 4096 };
	struct ptb_mem_free f = { .sp = sp, .addr = (g->blocks - LIVE_BLOCKS) * 4096 };

	if (g->mode != MEMORY)
		return;
	emit(g, &a.h, PTB_REC_MEM_ALLOC, sizeof(a), 0);
	if (g->blocks++ >= LIVE_BLOCKS)
		emit(g, &f.h, PTB_REC_MEM_FREE, sizeof(f), 0);
}

static void forward(struct gen *g, uint32_t i)
{
	struct ptb_seq seq = { .sp = 0x7000, .seq = g->seq++ };
	uint32_t f = 1 + i * 7 % OPS, k = 1 + i * 3 % OPS;

	enter(g, f, 0xa000);
	emit(g, &seq.h, PTB_REC_SEQ, sizeof(seq), 0);
	enter(g, k, 0x9000);
	enter(g, 1 + k % OPS, 0x8000);
	memory(g, 0x7000);
	leave(g, 1 + k % OPS, 0x8000);
	leave(g, k, 0x9000);
	leave(g, f, 0xa000);
}

static void backward(struct gen *g, uint64_t seq)
{
	struct ptb_node_enter n = { .sp = 0xb000, .vptr = 0x70, .seq = seq, .fwd_thread = 1 };

	emit(g, &n.h, PTB_REC_NODE_ENTER, sizeof(n), SITE_NODE);
	enter(g, SITE_CALL / 2, 0xa000);
	enter(g, 1 + (uint32_t)seq % OPS, 0x9000);
	leave(g, 1 + (uint32_t)seq % OPS, 0x9000);
	leave(g, SITE_CALL / 2, 0xa000);
	leave(g, SITE_NODE / 2, 0xb000);
}

static void optimizer(struct gen *g)
{
	struct {
		struct ptb_scope_name n;
		char text[24];
	} name = { .n = { .sp = 0x9000, .text_len = 23 }, .text = "Optimizer.step#SGD.step" };
	struct ptb_scope_begin b = { .sp = 0x8f00, .handle = 0x5000, .scope = 7 };
	struct ptb_scope_end e = { .sp = 0x8f00, .handle = 0x5000 };

	emit(g, &name.n.h, PTB_REC_SCOPE_NAME, sizeof(name), 0);
	emit(g, &b.h, PTB_REC_SCOPE_BEGIN, sizeof(b), 0);
	emit(g, &e.h, PTB_REC_SCOPE_END, sizeof(e), 0);
}

static void control(struct capture_writer *cw, struct ptb_rec_hdr *h, uint8_t kind, size_t len)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	if (capture_writer__control(cw, h))
		die("cannot write a control record");
}

static void func(struct capture_writer *cw, uint32_t id, uint32_t kind)
{
	struct {
		struct ptb_text t;
		char text[32];
	} name = { .t = { .id = id } };
	struct ptb_func f = { .func = id, .name = id, .kind = kind };
	struct ptb_site s = { .id = 2 * id, .func = id, .role = PTB_ROLE_ENTER };

	name.t.text_len = (uint32_t)snprintf(name.text, sizeof(name.text), "aten::op%u.Tensor", id);
	control(cw, &name.t.h, PTB_REC_NAME, sizeof(name));
	control(cw, &f.h, PTB_REC_FUNC, sizeof(f));
	control(cw, &s.h, PTB_REC_SITE, sizeof(s));
	s.id++;
	s.role = PTB_ROLE_EXIT;
	control(cw, &s.h, PTB_REC_SITE, sizeof(s));
}

static void meta(struct capture_writer *cw, const char *text, uint32_t len)
{
	struct {
		struct ptb_text t;
		char text[32];
	} rec = { .t = { .text_len = len } };

	memcpy(rec.text, text, len);
	control(cw, &rec.t.h, PTB_REC_META, sizeof(rec));
}

static uint64_t generate(const char *path, uint64_t ops, enum mode mode, uint64_t *bytes)
{
	struct ptb_window w = { .h.ts_ns = 1000, .begin = 1 };
	struct ptb_addr_name node = { .h.tgid = 1, .addr = 0x70, .name = 1 };
	struct ptb_keys keys = { .h.tgid = 1, .autograd = 0x8000 };
	static const char args[] = "args\0\"full\"", mem[] = "profile_memory\0true";
	static struct gen g;

	memset(&g, 0, sizeof(g));
	g.ts = 1000;
	g.mode = mode;
	make_values(&g);

	if (capture_writer__open(path, &g.cw))
		die("cannot create the capture");
	control(g.cw, &w.h, PTB_REC_WINDOW, sizeof(w));
	for (uint32_t i = 1; i <= OPS; i++)
		func(g.cw, i, PTB_FUNC_OP);
	func(g.cw, SITE_NODE / 2, PTB_FUNC_NODE);
	func(g.cw, SITE_CALL / 2, PTB_FUNC_NODE_CALL);
	control(g.cw, &node.h, PTB_REC_NODE_TYPE, sizeof(node));
	if (mode == MEMORY)
		meta(g.cw, mem, sizeof(mem) - 1);
	if (mode == FULL) {
		meta(g.cw, args, sizeof(args) - 1);
		control(g.cw, &keys.h, PTB_REC_KEYS, sizeof(keys));
	}
	while (g.recs < ops * 2) {
		uint64_t first = g.seq;

		g.tid = 1;
		g.ring = 0;
		for (uint32_t i = 0; i < 200; i++)
			forward(&g, i);
		g.tid = 2;
		g.ring = 1;
		for (uint32_t i = 200; i--;)
			backward(&g, first + i);
		g.tid = 1;
		g.ring = 0;
		optimizer(&g);
	}
	w.begin = 0;
	w.h.ts_ns = g.ts + 1;
	control(g.cw, &w.h, PTB_REC_WINDOW, sizeof(w));
	capture_writer__flush(g.cw);
	*bytes = capture_writer__bytes(g.cw);
	if (capture_writer__close(g.cw))
		die("cannot close the capture");
	return g.recs;
}

static int null_record(void *arg, const struct ptb_rec_hdr *rec)
{
	*(uint64_t *)arg += rec->len;
	return 0;
}

static int null_slice(void *arg, const struct slice *sl)
{
	*(uint64_t *)arg += sl->end_ns;
	return 0;
}

static int null_memory(void *arg, const struct memory_event *ev)
{
	*(uint64_t *)arg += ev->allocated;
	return 0;
}

/* What an exporter of arguments does at least. */
static int walk_slice(void *arg, const struct slice *sl)
{
	*(uint64_t *)arg += values__count(&sl->in) + values__count(&sl->out);
	return 0;
}

static long peak_kib(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ru.ru_maxrss;
}

static void report(const char *what, uint64_t recs, uint64_t ns)
{
	printf("  \"%s\": {\"ns_per_record\": %.1f, \"records_per_s\": %.0f},\n", what,
	       (double)ns / (double)recs, (double)recs * 1e9 / (double)ns);
}

static void run(struct session *s, const struct session_sink *sinks, uint32_t cnt, const char *what,
		uint64_t recs, struct session_totals *totals)
{
	uint64_t t = clock__cpu_ns();

	if (session__run(s, sinks, cnt, totals))
		die("cannot run");
	report(what, recs, clock__cpu_ns() - t);
}

static void bench(const char *path, uint64_t ops, enum mode mode)
{
	struct ka_opts opts = { .by_shape = mode == FULL, .with_flops = mode == FULL };
	struct key_averages *ka = key_averages__new(&opts);
	struct session_totals totals;
	struct capture_reader *cr;
	struct session *s;
	uint64_t recs, bytes, t, sum = 0;
	struct session_sink null = { .arg = &sum, .slice = null_slice, .memory = null_memory };
	struct session_sink walk = { .arg = &sum, .slice = walk_slice }, sums;

	t = clock__cpu_ns();
	recs = generate(path, ops, mode, &bytes);
	printf("\"%s\": {\n  \"records\": %" PRIu64 ", \"file_bytes\": %" PRIu64 ",\n",
	       mode_names[mode], recs, bytes);
	report("write", recs, clock__cpu_ns() - t);
	t = clock__cpu_ns();
	if (!ka || capture_reader__open(path, capture__open(path), &cr))
		die("cannot open the capture");
	report("open", recs, clock__cpu_ns() - t);
	t = clock__cpu_ns();
	if (capture_reader__stream(cr, null_record, &sum))
		die("cannot read");
	report("stream", recs, clock__cpu_ns() - t);
	t = clock__cpu_ns();
	if (session__open(cr, NULL, &s))
		die("no session");
	report("session_open", recs, clock__cpu_ns() - t);
	run(s, &null, 1, "session_run", recs, &totals);
	if (mode == FULL)
		run(s, &walk, 1, "session_run_values", recs, &totals);
	sums = key_averages__sink(ka);
	run(s, &sums, 1, "session_run_key_averages", recs, &totals);
	printf("  \"slices\": %" PRIu64 ", \"flows\": %" PRIu64 ", \"steps\": %" PRIu64
	       ", \"peak_kib\": %ld\n}",
	       totals.slices, totals.flows, totals.steps, peak_kib());
	session__free(s);
	key_averages__free(ka);
	capture_reader__close(cr);
}

int main(int argc, char **argv)
{
	const char *path = argc > 2 ? argv[2] : "/tmp/model_bench.ptb";
	uint64_t ops = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;

	printf("{\n");
	bench(path, ops, NAMES);
	printf(",\n");
	bench(path, ops, MEMORY);
	printf(",\n");
	bench(path, ops / 4, FULL);
	printf("\n}\n");
	if (argc <= 2)
		unlink(path);
	return 0;
}
