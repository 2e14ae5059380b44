/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What each hostile capture consists of; see hostile_capture.h.
 *
 * Longer than 600 lines because it is one list of cases.
 */
#include "hostile_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "value_words.h"

#define K 1000ULL
#define for_times(i, n) for (i = 0; i < (n)*hostile_scale; i++)

static const uint64_t far = (1ULL << 61) - 1;

/* ---- ranks ---- */

/* Two processes whose collectives contradict each other wherever their lists are laid upon each other. */
static void collectives(void)
{
	struct ptb_op_enter in = { .h.site = 2 * FIRST_FREE, .sp = 0x7000 };
	struct ptb_op_exit out = { .h.site = 2 * FIRST_FREE + 1, .sp = 0x6f00 };
	uint64_t i;

	put_func(FIRST_FREE, "c10d::allreduce_", PTB_FUNC_OP);
	put_process(1);
	put_process(2);
	for_times (i, 150 * K) {
		in.h.tgid = in.h.tid = out.h.tgid = out.h.tid = 1 + i % 2;
		put_ring(&in, PTB_REC_OP_ENTER, sizeof(in), 2000 + i * 100 + i % 2 * 40);
		put_ring(&out, PTB_REC_OP_EXIT, sizeof(out), 2010 + i * 100 + i % 2 * 40);
		if (i % 1000 == 0)
			put_round(1000 + i * 100);
	}
}

/* Each of very many processes takes part in each of a few collectives. */
static void many_ranks(void)
{
	struct ptb_op_enter in = { .h.site = 2 * FIRST_FREE, .sp = 0x7000 };
	struct ptb_op_exit out = { .h.site = 2 * FIRST_FREE + 1, .sp = 0x6f00 };
	const uint64_t ranks = 8 * K;
	uint64_t i;

	put_func(FIRST_FREE, "c10d::allreduce_", PTB_FUNC_OP);
	for (i = 1; i <= ranks; i++)
		put_process((uint32_t)i);
	for_times (i, ranks * 20) {
		in.h.tgid = in.h.tid = out.h.tgid = out.h.tid = 1 + (uint32_t)(i % ranks);
		put_ring(&in, PTB_REC_OP_ENTER, sizeof(in), 10000 + i / ranks * 1000000 + i % ranks);
		put_ring(&out, PTB_REC_OP_EXIT, sizeof(out), 510000 + i / ranks * 1000000 + i % ranks);
		if (i % ranks == ranks - 1)
			put_round(600000 + i / ranks * 1000000);
	}
}

/* Clock pairs that are as far apart as the reader takes them, and between them collectives. */
static void clock_pairs(void)
{
	const uint64_t last = (1ULL << 62) - 1;
	uint64_t i;

	for_times (i, 300 * K)
		put_clock(i % 2 ? last - i : i, i % 3 ? last - i : i, i % 5 ? 0 : last - i);
	collectives();
}

/* ---- time ---- */

static void timestamps_near_2_64(void)
{
	struct ptb_op_enter r = { .h.site = 2 * OP, .sp = 0x7000 };
	struct ptb_lost l = { .h.ts_ns = UINT64_MAX - 1, .end_ns = UINT64_MAX, .cnt = UINT64_MAX };
	struct ptb_clock c = { .h.ts_ns = 1, .real_ns = UINT64_MAX };
	struct ptb_kmem k = { .minor = UINT32_MAX, .major = UINT32_MAX, .rss = { UINT64_MAX, 1, 1, 1 } };
	uint64_t i;

	put_meta("kernel_memory", "true");
	put_control(&l, PTB_REC_LOST, sizeof(l));
	put_control(&c, PTB_REC_CLOCK, sizeof(c));
	put_enter(OP, 2000, 0x7000);
	for_times (i, 300 * K) {
		put_ring(&r, PTB_REC_OP_ENTER, sizeof(r), UINT64_MAX);
		if (i % 100 == 0) {
			put_ring(&k, PTB_REC_KMEM, sizeof(k), i % 200 ? far : 2000);
			put_round(UINT64_MAX);
		}
	}
}

/* Each round brings a record or two, and everything else is of later. */
static void rounds(void)
{
	uint64_t i;

	for_times (i, 500 * K)
		put_enter(OP, far - i % 1000, 0x7000);
	for_times (i, 8 * K) {
		put_exit(OP, 5000 + i, 0x7000);
		put_round(10000000 + i);
	}
}

/* ---- tables ---- */

static void threads_1_5m(void)
{
	struct ptb_op_exit r = { .h.site = 2 * OP + 1, .sp = 0x7000 };
	struct ptb_task t = { .h.tgid = TGID, .h.tid = TGID, .group_dead = 1 };
	uint64_t i;

	put_meta("profile_memory", "true");
	for_times (i, 1500 * K) {
		r.h.tid = (uint32_t)i + 1;
		put_ring(&r, PTB_REC_OP_EXIT, sizeof(r), 2000 + i);
	}
	for_times (i, 20 * K)
		put_ring(&t, i % 2 ? PTB_REC_EXEC : PTB_REC_EXIT, sizeof(t), 3000000 + i);
}

static void processes(void)
{
	struct ptb_process p = { .h.ts_ns = BEGIN_NS };
	struct ptb_kmem k = { .minor = 1, .rss = { 4096, 4096, 0, 0 } };
	struct ptb_mem_alloc a = { .sp = 0x7000, .bytes = 64 };
	uint64_t i;

	put_meta("kernel_memory", "true");
	put_meta("profile_memory", "true");
	p.comm = p.cmdline = p.exe = put_name("python");
	for_times (i, 60 * K) {
		p.h.tgid = p.h.tid = (uint32_t)i + 1000;
		put_control(&p, PTB_REC_PROCESS, sizeof(p));
		k.h.tgid = k.h.tid = a.h.tgid = a.h.tid = (uint32_t)i + 1000;
		a.addr = i * 64 + 64;
		put_ring(&k, PTB_REC_KMEM, sizeof(k), 2000 + i);
		put_ring(&a, PTB_REC_MEM_ALLOC, sizeof(a), 2000 + i);
	}
}

/* Each with a command line of a name that is in the file once. */
static void process_names(void)
{
	static char name[65000];
	struct ptb_process p = { .h.ts_ns = BEGIN_NS };
	uint64_t i;

	memset(name, 'x', sizeof(name) - 1);
	p.comm = p.cmdline = p.exe = put_name(name);
	for_times (i, 60 * K) {
		p.h.tgid = p.h.tid = (uint32_t)i + 1000;
		put_control(&p, PTB_REC_PROCESS, sizeof(p));
	}
	put_enter(OP, 2000, 0x7000);
	put_exit(OP, 2010, 0x6f00);
}

/* A schema that agrees with the operator's name nearly to its end, compared for each time that the operator left. */
static void equal_schemas(void)
{
	struct ptb_addr_name d = { .h.tgid = TGID, .addr = 0x1000, .flags = PTB_OPDEF_GONE };
	struct ptb_schema s = { .h.tgid = TGID, .opdef = 0x1000 };
	static char name[65000];
	uint64_t i;

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 2] = '(';
	s.name = put_name(name);
	name[sizeof(name) - 2] = '\0';
	d.name = put_name(name);
	put_control(&s, PTB_REC_SCHEMA, sizeof(s));
	for_times (i, 1500 * K) {
		d.h.ts_ns = 1000 + i;
		put_control(&d, PTB_REC_OPDEF, sizeof(d));
	}
}

/* An object with so many members that to compare each with all is work. */
static void metadata(void)
{
	static char json[64000];
	uint64_t i;
	int n = 1;

	json[0] = '{';
	for (i = 0; i < 4080; i++)
		n += snprintf(json + n, sizeof(json) - (size_t)n, "%s\"%04d\":1", i ? "," : "", (int)i);
	json[n] = '}';
	put_meta("agent", json);
	for_times (i, 1000 * K)
		put_meta("x", "y");
	put_enter(OP, 2000, 0x7000);
	put_exit(OP, 2010, 0x6f00);
}

static void operator_definitions(void)
{
	struct ptb_addr_name d = { .h.tgid = TGID, .addr = 0x1000 };
	struct ptb_boxed_enter r = { .h.site = 2 * BOXED, .sp = 0x7000, .opdef = 0x1000 };
	static char name[60000];
	uint64_t i;

	memset(name, 'x', sizeof(name) - 1);
	memcpy(name, "aten::", 6);
	name[9000] = '.';
	d.name = put_name(name);
	for_times (i, 300 * K) {
		d.h.ts_ns = 1000 + i;
		d.flags = i % 2 ? PTB_OPDEF_GONE : 0;
		d.addr = i % 3 ? 0x1000 : 0x2000 + i;
		put_control(&d, PTB_REC_OPDEF, sizeof(d));
	}
	for_times (i, 300 * K)
		put_ring(&r, PTB_REC_BOXED_ENTER, sizeof(r), 2000 + i);
}

static void lost_intervals(void)
{
	struct ptb_lost l = { .cnt = 1 };
	uint64_t i;

	for_times (i, 600 * K) {
		l.h.ts_ns = next_random() >> 4;
		l.end_ns = l.h.ts_ns + (i & 7);
		put_control(&l, PTB_REC_LOST, sizeof(l));
	}
	for_times (i, 20 * K)
		put_scope(2000 + i, 0x7000, 0x5000 + i, "open");
}

static uint64_t inverse(uint64_t a)
{
	uint64_t x = a;

	for (int i = 0; i < 6; i++)
		x *= 2 - a * x;
	return x;
}

/* Handles of annotations whose slots are the same under the function that was used before it had a key. */
static void colliding_keys(void)
{
	uint64_t c1 = 0x9e3779b97f4a7c15ULL, c2 = 0xc2b2ae3d27d4eb4fULL, d = 0xd6e8feb86659fd93ULL, i, h;
	struct ptb_rf_begin r = { .scope = 7, .text_len = 1 };
	struct {
		struct ptb_rf_begin r;
		char text[8];
	} rec = { .r = r, .text = "a" };

	for_times (i, 100 * K) {
		h = i << 32;  /* the hash that is wanted: its low half is 0 */
		h ^= h >> 32; /* undone: h ^ h >> 32, h * d, h ^ h >> 32, the sum */
		h *= inverse(d);
		h ^= h >> 32;
		rec.r.rf = (h ^ TGID * c1) * inverse(c2) - 0x7f4a7c15ULL;
		rec.r.h.tid = (uint32_t)(i / 200) + 1000;
		put_ring(&rec, PTB_REC_RF_BEGIN, sizeof(rec), 2000 + i * 10);
	}
}

static void zstd_expansion(void)
{
	struct ptb_op_exit r = { .sp = 0x7000 };

	put_round(0);
	for (uint64_t i = 0; i < 256 * 1024 / sizeof(r); i++)
		put_ring(&r, PTB_REC_OP_EXIT, sizeof(r), 2000);
	put_round(3000);
}

/* ---- stacks ---- */

static void deep_nesting(void)
{
	uint64_t i;

	for (i = 0; i < 99 * K; i++)
		put_enter(OP, 2000 + i, (1ULL << 40) - i * 16);
	for_times (i, 150 * K) /* the end of a function of which no frame is there */
		put_exit(BOXED, 200000 + 10 * i, 0x1000);
}

/* Operators that are open and not shown. */
static void put_hidden_stack(void)
{
	put_func(FIRST_FREE, "profiler::_record_function_enter", PTB_FUNC_OP);
	for (uint64_t i = 0; i < 99 * K; i++)
		put_enter(FIRST_FREE, 2000 + i, (1ULL << 40) - i * 16);
}

static void hidden_nesting(void)
{
	struct ptb_rf_begin r = { .scope = 0, .opdef = 0x99, .seq = 1 };
	struct ptb_seq s = { .sp = 1 };
	uint64_t i;

	put_hidden_stack();
	for_times (i, 300 * K) {
		r.rf = i + 1;
		s.seq = i;
		put_ring(&s, PTB_REC_SEQ, sizeof(s), 200000 + 10 * i);
		put_ring(&r, PTB_REC_RF_BEGIN, sizeof(r), 200000 + 10 * i);
	}
}

/* Numbers, and calls of nodes, for each of which all that is open is searched. */
static void sequence_numbers(void)
{
	struct ptb_seq s = { .sp = 1 };
	uint64_t i;

	put_hidden_stack();
	for_times (i, 900 * K) {
		put_ring(&s, PTB_REC_SEQ, sizeof(s), 200000 + 10 * i);
		put_enter(NODE, 200000 + 10 * i, 8);
	}
}

static void forward_threads(void)
{
	struct ptb_node_enter n = { .h.site = 2 * NODE, .sp = 0x7000, .fwd_thread = 1 };
	struct ptb_seq s = { .sp = 0x6000 };
	struct ptb_op_enter e = { .h.site = 2 * OP, .sp = 0x7000 };
	struct ptb_op_exit x = { .h.site = 2 * OP + 1, .sp = 0x6f00 };
	uint64_t i;

	for_times (i, 60 * K) {
		e.h.tid = s.h.tid = x.h.tid = (uint32_t)i + 1000;
		put_ring(&e, PTB_REC_OP_ENTER, sizeof(e), 2000 + i);
		put_ring(&s, PTB_REC_SEQ, sizeof(s), 2000 + i);
		put_ring(&x, PTB_REC_OP_EXIT, sizeof(x), 2000 + i);
	}
	for_times (i, 100 * K) {
		n.seq = 7;
		n.fwd_thread = i + 1;
		put_ring(&n, PTB_REC_NODE_ENTER, sizeof(n), 200000 + 10 * i);
		put_exit(NODE, 200005 + 10 * i, 0x6f00);
	}
}

static void derived_steps(void)
{
	uint64_t i;

	put_meta("profile_memory", "true");
	for_times (i, 500 * K) {
		put_scope(2000 + 100 * i, 0x7000, 0x1000, "Optimizer.step#SGD.step");
		put_scope_end(2050 + 100 * i, 0x7000, 0x1000);
	}
}

/* ---- counters, memory ---- */

static void counters_series(void)
{
	struct ptb_kmem k = { .minor = 1, .rss = { 1, 1, 1, 1 } };
	struct ptb_mem_report m = { .sp = 0x7000, .bytes = 64, .allocated = 64, .reserved = 64 };
	struct ptb_rss_sample s = { .rss = { 1, 1, 1, 1 } };
	uint64_t i;

	put_meta("kernel_memory", "true");
	put_meta("profile_memory", "true");
	for_times (i, 60 * K) {
		k.h.tgid = k.h.tid = (uint32_t)i + 1000;
		k.begin_ns = i % 2 ? 2000 : 0;
		put_ring(&k, PTB_REC_KMEM, sizeof(k), i % 2 ? far : 2000 + i);
		m.addr = i + 1;
		m.device_type = (int32_t)i;
		m.device_index = -(int32_t)i;
		put_ring(&m, PTB_REC_MEM_REPORT, sizeof(m), 2000 + i);
		s.h.tgid = (uint32_t)i + 1000;
		s.h.ts_ns = (uint64_t)i * 1000;
		put_control(&s, PTB_REC_RSS_SAMPLE, sizeof(s));
	}
}

static void blocks_of_programs(void)
{
	struct ptb_task t = { .h.tgid = TGID };
	struct ptb_mem_alloc a = { .sp = 0x7000, .bytes = 64, .h.tgid = 7 };
	uint64_t i;

	put_meta("profile_memory", "true");
	for_times (i, 500 * K) {
		a.addr = 64 * i + 64;
		put_ring(&a, PTB_REC_MEM_ALLOC, sizeof(a), 2000 + i);
	}
	for_times (i, 100 * K)
		put_ring(&t, PTB_REC_EXEC, sizeof(t), 600000 + i);
}

/* On each of as many devices as two numbers can name. */
static void memory_devices(void)
{
	struct ptb_mem_report m = { .sp = 0x7000, .bytes = 64, .allocated = 64, .reserved = 64 };
	uint64_t i;

	put_meta("profile_memory", "true");
	for_times (i, 800 * K) {
		m.addr = i + 1;
		m.device_type = 1 + (int32_t)(i >> 15);
		m.device_index = (int32_t)(i & 32767);
		put_ring(&m, PTB_REC_MEM_REPORT, sizeof(m), 2000 + i);
	}
}

static const struct vw_tensor tensor = {
	.dtype = 6, .ndim = 1, .sizes = { 8 }, .flags = PTB_VAL_F_IDS, .impl = 1, .storage = 0x1000, .keys = 1
};

static void put_op_values(uint64_t ts, const struct value_words *in, const struct value_words *out)
{
	struct {
		struct ptb_op_enter r;
		uint64_t words[VALUE_WORDS_MAX];
	} rec = { .r = { .h.site = 2 * OP, .h.flags = PTB_F_ARGS, .sp = 0x7000 } };

	memcpy(rec.words, in->words, in->cnt * sizeof(uint64_t));
	put_ring(&rec, PTB_REC_OP_ENTER, sizeof(rec.r) + in->cnt * sizeof(uint64_t), ts);
	if (!out)
		return;
	rec.r.h.site = 2 * OP + 1;
	rec.r.sp = 0x6f00;
	memcpy(rec.words, out->words, out->cnt * sizeof(uint64_t));
	put_ring(&rec, PTB_REC_OP_EXIT, sizeof(rec.r) + out->cnt * sizeof(uint64_t), ts + 5);
}

/* The last operator reads a gradient, each one before makes what the next reads: seen from the front, one more is
 * known to depend on it in each pass. */
static void memory_timeline(void)
{
	static struct value_words in, out;
	struct vw_tensor t = tensor;
	uint64_t n = 60 * K * hostile_scale;

	put_meta("profile_memory", "true");
	put_meta("args", "\"full\"");
	{
		struct ptb_schema s = { .func = OP };

		s.name = put_name("aten::add.Tensor(Tensor(a!) self, Tensor other) -> Tensor");
		put_control(&s, PTB_REC_SCHEMA, sizeof(s));
	}
	for (uint64_t i = 0; i < n; i++) {
		struct ptb_mem_alloc a = { .sp = 0x6000, .addr = 0x1000 * (n - i), .bytes = 64 };

		in.cnt = out.cnt = 0;
		t.storage = 0x1000 * (n - i);
		t.impl = n - i;
		vw__tensor(&in, &t);
		t.storage = 0x1000 * (n - i + 1);
		t.impl = n - i + 1;
		t.flags = (uint8_t)(PTB_VAL_F_IDS | (i == 0 ? PTB_VAL_F_PARAMETER : 0));
		vw__tensor(&in, &t);
		t.flags = PTB_VAL_F_IDS;
		put_op_values(2000 + 20 * i, &in, &out);
		if (i % 3 == 0)
			put_ring(&a, PTB_REC_MEM_ALLOC, sizeof(a), 2000 + 20 * i + 10);
	}
	for (uint64_t i = 0; i < n; i++) {
		in.cnt = 0;
		t.storage = 0x1000 * (i + 1);
		vw__tensor(&in, &t);
		t.storage = 0x1000 * (i + 2);
		vw__tensor(&in, &t);
		put_op_values(2000 + 20 * (n + i), &in, &out);
	}
}

static void moved_tensors(void)
{
	static struct value_words in, out;
	struct vw_tensor t = tensor;
	uint64_t i;

	put_meta("profile_memory", "true");
	put_meta("args", "\"full\"");
	for (i = 0; i < 600; i++) {
		t.impl = 2 * i;
		vw__tensor(&in, &t);
		t.impl = 2 * i + 1;
		t.storage = 0x100000;
		vw__tensor(&out, &t);
		t.storage = 0x1000;
	}
	for_times (i, 600)
		put_op_values(2000 + 20 * i, &in, &out);
}

/* ---- arguments ---- */

/* A block for each of many allocations, made by an operator with many inputs of many dimensions. */
static void shape_lists(void)
{
	static struct value_words in;
	struct ptb_mem_alloc a = { .sp = 0x6000, .bytes = 64 };
	struct vw_tensor t = tensor;
	uint64_t i;

	put_meta("profile_memory", "true");
	put_meta("args", "\"full\"");
	t.ndim = 16;
	for (i = 0; i < 16; i++)
		t.sizes[i] = -(1LL << 62);
	while (in.cnt < 3400)
		vw__tensor(&in, &t);
	for_times (i, 60)
		put_op_values(2000 + 20 * i, &in, NULL);
	for_times (i, 300 * K) {
		a.addr = 64 * (i + 1);
		put_ring(&a, PTB_REC_MEM_ALLOC, sizeof(a), 200000 + i);
	}
}

/* Dimensions by the largest number that their field holds, of operators that are all different to a table. */
static void huge_ndim(void)
{
	static struct value_words in;
	uint64_t i, body[4 + 2 * 255];

	put_meta("args", "\"shapes\"");
	for_times (i, 4 * K) {
		in.cnt = 0;
		for (uint64_t k = 0; k < 4 + 2 * 255; k++)
			body[k] = next_random();
		for (uint64_t k = 0; k < 12; k++)
			vw__raw(&in, PTB_VAL_TENSOR, 0, 6, 255 | 1 << 16, body, (2 + 2 * 255) * 8);
		put_op_values(2000 + 20 * i, &in, &in);
	}
}

/* Later duplicates, which are searched for among as many earlier ones. */
static void argument_lists(void)
{
	static struct value_words pending, late;
	struct {
		struct ptb_op_enter r;
		uint64_t words[VALUE_WORDS_MAX];
	} rec = { .r = { .h.site = 2 * OP, .h.flags = PTB_F_ARGS, .sp = 0x6000 } };
	uint64_t i;

	put_meta("args", "\"full\"");
	for (i = 0; i < 1700; i++) {
		vw__pending(&pending, 1);
		vw__late(&late, 2, 1.0);
	}
	memcpy(rec.words, late.words, late.cnt * 8);
	put_op_values(2000, &pending, NULL);
	for_times (i, 2 * K)
		put_ring(&rec, PTB_REC_ARGS_MORE, sizeof(rec.r) + late.cnt * 8, 3000 + i);
}

/* Records of a few bytes, for each of which the arguments of an older one are gone through. */
static void old_arguments(void)
{
	static struct value_words many;
	struct ptb_op_enter more = { .h.site = 2 * OP, .h.flags = PTB_F_ARGS, .sp = 0x6000 };
	struct {
		struct ptb_op_enter r;
		uint64_t words[VALUE_WORDS_MAX];
	} helper = { .r = { .h.site = 2 * FIRST_FREE, .h.flags = PTB_F_ARGS, .sp = 0x5f00 } };
	struct ptb_scope_name name = { .sp = 0x5e00 };
	uint64_t i;

	put_meta("args", "\"full\"");
	put_func(FIRST_FREE, "profiler::_record_function_enter_new", PTB_FUNC_OP);
	while (many.cnt < 7000)
		vw__none(&many);
	put_op_values(2000, &many, NULL);
	for_times (i, 800 * K)
		put_ring(&more, PTB_REC_ARGS_MORE, sizeof(more), 3000 + i);
	memcpy(helper.words, many.words, many.cnt * 8);
	put_ring(&helper, PTB_REC_OP_ENTER, sizeof(helper.r) + many.cnt * 8, far - 10000000);
	for_times (i, 600 * K)
		put_ring(&name, PTB_REC_SCOPE_NAME, sizeof(name), far - 9000000 + i);
}

/* ---- GPU ---- */

static void put_api(uint64_t begin, uint64_t end, uint32_t correlation, uint32_t name)
{
	struct ptb_gpu_api a = { .begin = begin, .end = end, .correlation = correlation, .name = name };

	put_ring(&a, PTB_REC_GPU_API, sizeof(a), 3000);
}

/* Pairs of clocks within a second, and times before them: each searches for a slope. */
static void gpu_records(void)
{
	struct ptb_gpu_clock c = { .err_ns = 1 };
	struct ptb_gpu_kernel k = { .begin = 5000, .end = 6000 };
	uint32_t launch = put_name("cudaLaunchKernel"), sync = put_name("cudaDeviceSynchronize");
	uint64_t i;

	put_meta("gpu", "true");
	k.name = put_name("_Z6kernelPfi");
	for_times (i, 100 * K) {
		c.gpu_ns = c.mono_ns = 1000000 + 10 * i;
		put_ring(&c, PTB_REC_GPU_CLOCK, sizeof(c), 2000);
	}
	for_times (i, 100 * K) {
		k.correlation = (uint32_t)i + 1;
		k.device = (uint32_t)i;
		k.stream = (uint32_t)i * 7;
		k.begin = 5000 + i;
		k.end = k.begin + 1;
		put_ring(&k, PTB_REC_GPU_KERNEL, sizeof(k), 3000);
		put_api(4000 + i, 2000000 + i, (uint32_t)i + 1, i % 2 ? launch : sync);
	}
}

/* Calls that all cross one another, and slices that they cross. */
static void crossing_calls(void)
{
	struct ptb_gpu_clock c = { .err_ns = 1, .gpu_ns = 2000, .mono_ns = 2000 };
	uint32_t launch = put_name("cudaLaunchKernel");
	uint64_t i;

	put_meta("gpu", "true");
	put_ring(&c, PTB_REC_GPU_CLOCK, sizeof(c), 2000);
	for_times (i, 60 * K)
		put_api(10000 + 20 * i, 10000000 + 20 * i, (uint32_t)i + 1, launch);
	for_times (i, 60 * K) {
		put_enter(OP, 10000 + 20 * i, 0x7000);
		put_exit(OP, 10010 + 20 * i, 0x6f00);
	}
}

/* Nodes of graphs within very many operators and annotations, each within other ones, and copies of copies. */
static void graph_nodes(void)
{
	struct ptb_gpu_clock c = { .err_ns = 1, .gpu_ns = 2000, .mono_ns = 2000 };
	struct ptb_gpu_graph_node n = { .original = 0 };
	struct ptb_gpu_kernel k = { .graph = 1 };
	uint64_t i;

	put_meta("gpu", "true");
	put_ring(&c, PTB_REC_GPU_CLOCK, sizeof(c), 2000);
	for (i = 0; i < 400; i++)
		put_enter(OP, 2001 + i, 0x70000 - 0x100 * i);
	for_times (i, 60 * K) {
		put_scope(10000 + 20 * i, 0x100, 0x1000 + 64 * i, i % 2 ? "one" : "another");
		n.node = 3 * i + 1;
		n.original = 0;
		n.at_ns = 10010 + 20 * i;
		put_ring(&n, PTB_REC_GPU_GRAPH_NODE, sizeof(n), 3000);
		n.node = 3 * i + 2;
		n.original = i ? 3 * i - 1 : 3 * 60 * K;
		put_ring(&n, PTB_REC_GPU_GRAPH_NODE, sizeof(n), 3000);
		k.begin = 4000 + i;
		k.end = k.begin + 1;
		k.correlation = (uint32_t)i;
		k.graph = (uint32_t)i;
		k.graph_node = 3 * i + 1 + i % 2;
		put_ring(&k, PTB_REC_GPU_KERNEL, sizeof(k), 3000);
	}
}

/* ---- names ---- */

/* Each demangles to twice as much as the one before would. */
static void mangled_names(void)
{
	struct ptb_gpu_kernel k = { .begin = 5000, .end = 6000 };
	struct ptb_gpu_clock c = { .err_ns = 1, .gpu_ns = 2000, .mono_ns = 2000 };
	char name[512] = "St4pairI";
	char kernel[520];
	uint64_t i;
	int n = 8;

	put_meta("gpu", "true");
	put_ring(&c, PTB_REC_GPU_CLOCK, sizeof(c), 2000);
	n = snprintf(name, sizeof(name), "_Z1fSt4pairIiiE");
	for (i = 0; n < 237; i++) /* S0_, S1_, ...: the last one was a pair of the one before it */
		n += snprintf(name + n, sizeof(name) - (size_t)n, i < 36 ? "S_IS%c_S%c_E" : "S_I%c%cE",
			      (int)(i < 10 ? '0' + i : 'A' + i - 10),
			      (int)(i < 10 ? '0' + i : 'A' + i - 10));
	for_times (i, 200) {
		put_scope(2000 + 100 * i, 0x7000, 0x1000, name + 2);
		put_scope_end(2050 + 100 * i, 0x7000, 0x1000);
		put_scope(2060 + 100 * i, 0x7000, 0x1000, name);
		put_scope_end(2070 + 100 * i, 0x7000, 0x1000);
		snprintf(kernel, sizeof(kernel), "%s%d", name, (int)i);
		k.name = put_name(kernel);
		put_ring(&k, PTB_REC_GPU_KERNEL, sizeof(k), 2000 + 100 * i);
	}
}

/* Few bytes that represent a name of 60 KB in each of very many slices, blocks and calls. */
static void long_names(void)
{
	static char name[60000];
	struct ptb_mem_alloc a = { .sp = 0x6000, .bytes = 64 };
	uint64_t i;

	put_meta("profile_memory", "true");
	memset(name, 'x', sizeof(name) - 1);
	put_func(FIRST_FREE, name, PTB_FUNC_OP);
	for_times (i, 200 * K) {
		a.addr = 64 * (i + 1);
		put_enter(FIRST_FREE, 2000 + 100 * i, 0x7000);
		put_ring(&a, PTB_REC_MEM_ALLOC, sizeof(a), 2020 + 100 * i);
		put_exit(FIRST_FREE, 2050 + 100 * i, 0x6f00);
	}
}

static void many_names(void)
{
	char text[32];
	uint64_t i;

	put_meta("profile_memory", "true");
	for_times (i, 800 * K) {
		snprintf(text, sizeof(text), "%llx", (unsigned long long)i);
		put_scope(2000 + 100 * i, 0x7000, 0x1000, text);
		put_scope_end(2050 + 100 * i, 0x7000, 0x1000);
	}
}

/* ---- no attack: a loop of launches, of which nothing may be left out ---- */

static void honest_launches(void)
{
	struct ptb_gpu_clock c = { .err_ns = 1 };
	struct ptb_gpu_api a = { 0 };
	struct ptb_gpu_kernel k = {
		.grid = { 7, 2, 1 }, .block = { 64, 1, 1 }, .registers = 32, .stream = 7
	};
	uint64_t i, at = 2000;
	char name[64];

	put_meta("gpu", "true");
	a.name = put_name("cudaLaunchKernel_v7000");
	k.name = a.name + 1;
	for (i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "_ZN2at6native13reduce_kernelILi%dELi1EEEvPKfPf", (int)i);
		put_name(name);
	}
	for_times (i, 600 * K) {
		if (i % 4096 == 0) {
			c.gpu_ns = c.mono_ns = at;
			put_ring(&c, PTB_REC_GPU_CLOCK, sizeof(c), at);
			put_round(at);
		}
		at += 4000 + next_random() % 500;
		a.begin = at;
		a.end = at + 2000 + next_random() % 500;
		a.correlation = k.correlation = (uint32_t)i + 1;
		k.begin = a.end + 2000;
		k.end = k.begin + 1500;
		k.name = a.name + 1 + (uint32_t)(i % 60);
		put_ring(&a, PTB_REC_GPU_API, sizeof(a), at + 100000);
		put_ring(&k, PTB_REC_GPU_KERNEL, sizeof(k), at + 100000);
	}
}

/* Every frame of every stack is another one, each has a line, and every operator another stack. */
static void python_stacks(void)
{
	struct {
		struct ptb_py_stack_def def;
		struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
	} d = { .def = { .frame_cnt = PTB_PY_FRAMES_MAX } };
	struct ptb_py_line line = { .h.tgid = TGID };
	struct ptb_py_stack s = { .id = 0 };
	struct ptb_py_sample sample = { .ns = 1ULL << 50 };
	uint64_t i, k, code = 0;

	line.func = put_name("f");
	line.file = put_name("/a/b.py");
	for_times (i, 8 * K) {
		for (k = 0; k < PTB_PY_FRAMES_MAX; k++) {
			d.frames[k].code = code += 16;
			line.frame = d.frames[k];
			line.line = (__s32)next_random();
			if (k % 4 == 0)
				put_control(&line, PTB_REC_PY_LINE, sizeof(line));
		}
		d.def.id = s.id = i + 1;
		put_ring(&d, PTB_REC_PY_STACK_DEF, sizeof(d), 2000 + i * 100);
		put_ring(&s, PTB_REC_PY_STACK, sizeof(s), 2010 + i * 100);
		put_enter(OP, 2010 + i * 100, 0x7000);
		put_exit(OP, 2050 + i * 100, 0x6f00);
		sample.id = s.id;
		sample.flags = (__u32)i;
		sample.op = next_random();
		put_ring(&sample, PTB_REC_PY_SAMPLE, sizeof(sample), 2060 + i * 100);
	}
	/* few bytes each: deep stacks with nothing in common, one after the other; one of many ids */
	for_times (i, 80 * K) {
		s.id = i % 2 + 1;
		d.def.id = 1000000 + i;
		d.def.frame_cnt = 1;
		put_ring(&d, PTB_REC_PY_STACK_DEF, sizeof(d.def) + sizeof(d.frames[0]),
			 5000000 + i * 2000);
		put_ring(&s, PTB_REC_PY_STACK, sizeof(s), 5000010 + i * 2000);
		put_enter(OP, 5000010 + i * 2000, 0x7000);
		put_exit(OP, 5000050 + i * 2000, 0x6f00);
	}
}

/* Of each thread a sample with the deepest stack, whose names are as long as names may be; of each process one without a stack. */
static void samples(void)
{
	struct {
		struct ptb_py_stack_def def;
		struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
	} d = { .def = { .id = 1, .frame_cnt = PTB_PY_FRAMES_MAX } };
	struct ptb_py_line line = { .h.tgid = TGID, .line = 1 };
	struct ptb_py_sample deep = { .id = 1, .ns = 10000000 };
	struct ptb_py_sample none = { .ns = 10000000, .flags = PTB_SAMPLE_NO_STACK };
	static char name[65000];
	uint64_t i, k;

	put_meta("sample_hz", "100");
	memset(name, 'x', sizeof(name) - 1);
	line.func = line.file = put_name(name);
	for (k = 0; k < PTB_PY_FRAMES_MAX; k++) {
		d.frames[k].code = 16 * (k + 1);
		line.frame = d.frames[k];
		put_control(&line, PTB_REC_PY_LINE, sizeof(line));
	}
	put_ring(&d, PTB_REC_PY_STACK_DEF, sizeof(d), 2000);
	for_times (i, 60 * K) {
		deep.h.tid = none.h.tgid = (uint32_t)i + 1000;
		none.h.tid = 0;
		put_process(none.h.tgid);
		put_ring(&deep, PTB_REC_PY_SAMPLE, sizeof(deep), 3000 + i);
		put_ring(&none, PTB_REC_PY_SAMPLE, sizeof(none), 3000 + i);
	}
}

const struct hostile_case hostile_cases[] = {
	{ "honest_launches", honest_launches, "G", 0 },
	{ "timestamps_near_2_64", timestamps_near_2_64, "tmcx", 0 },
	{ "rounds", rounds, "t", 0 },
	{ "threads_1_5m", threads_1_5m, "tc", 0 },
	{ "processes", processes, "mjcfx", 0 },
	{ "process_names", process_names, "jcx", 0 },
	{ "equal_schemas", equal_schemas, "t", 0 },
	{ "metadata", metadata, "j", 0 },
	{ "operator_definitions", operator_definitions, "tc", 0 },
	{ "lost_intervals", lost_intervals, "jcx", 0 },
	{ "colliding_keys", colliding_keys, "t", 0 },
	{ "zstd_expansion", zstd_expansion, "t", 20000 },
	{ "deep_nesting", deep_nesting, "tf", 0 },
	{ "hidden_nesting", hidden_nesting, "tf", 0 },
	{ "sequence_numbers", sequence_numbers, "t", 0 },
	{ "forward_threads", forward_threads, "t", 0 },
	{ "derived_steps", derived_steps, "tc", 0 },
	{ "counters_series", counters_series, "mc", 0 },
	{ "blocks_of_programs", blocks_of_programs, "trf", 0 },
	{ "memory_devices", memory_devices, "r", 0 },
	{ "memory_timeline", memory_timeline, "rh", 0 },
	{ "moved_tensors", moved_tensors, "r", 0 },
	{ "shape_lists", shape_lists, "mce", 0 },
	{ "huge_ndim", huge_ndim, "sc", 0 },
	{ "argument_lists", argument_lists, "t", 0 },
	{ "old_arguments", old_arguments, "t", 0 },
	{ "gpu_records", gpu_records, "gc", 0 },
	{ "graph_nodes", graph_nodes, "gc", 0 },
	{ "crossing_calls", crossing_calls, "gc", 0 },
	{ "mangled_names", mangled_names, "tgc", 0 },
	{ "long_names", long_names, "tmcrf", 0 },
	{ "many_names", many_names, "jcx", 0 },
	{ "collectives", collectives, "Rx", 0 },
	{ "many_ranks", many_ranks, "Rx", 0 },
	{ "clock_pairs", clock_pairs, "Rcx", 0 },
	{ "python_stacks", python_stacks, "tclLkpf", 0 },
	{ "samples", samples, "Tf", 0 },
	{ NULL, NULL, NULL, 0 },
};
