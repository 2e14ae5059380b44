/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/mem_report: a made-up training loop with a planted leak, and without; the text and the JSON of it. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "json_keys.h"
#include "memory_world.h"
#include "suite.h"

#define MIB (1ULL << 20)

static struct world w;
static void *mr;
static struct session_totals totals;
static char text[1 << 18];

static void start(void)
{
	totals = (struct session_totals){ 0 };
	world__init(&w, 100);
	CU_ASSERT_EQUAL_FATAL(memory_report.open(&(struct output_args){ .s = &w.s }, &mr), 0);
	w.sink = memory_report.sink(mr);
}

static const char *print_as(bool json, int row_limit)
{
	FILE *out = tmpfile();
	const struct output_args args = { .s = &w.s, .out = out, .row_limit = row_limit, .json = json };
	size_t n;

	CU_ASSERT_PTR_NOT_NULL_FATAL(out);
	world__end(&w);
	CU_ASSERT_EQUAL(memory_report.finish(mr, &args, &totals), 0);
	rewind(out);
	n = fread(text, 1, sizeof(text) - 1, out);
	text[n] = '\0';
	fclose(out);
	if (getenv("SHOW"))
		fputs(text, stdout);
	return text;
}

static const char *finish(void)
{
	const char *t = print_as(false, 10);

	memory_report.free(mr);
	return t;
}

static cJSON *finish_json(void)
{
	cJSON *doc = cJSON_Parse(print_as(true, 10));

	memory_report.free(mr);
	CU_ASSERT_PTR_NOT_NULL_FATAL(doc);
	return doc;
}

static bool says(const char *part)
{
	if (strstr(text, part))
		return true;
	fprintf(stderr, "\"%s\" is not in:\n%s\n", part, text);
	return false;
}

static const cJSON *at(const cJSON *o, const char *key, int nr)
{
	const cJSON *v = cJSON_GetArrayItem(get(o, key), nr);

	CU_ASSERT_PTR_NOT_NULL_FATAL(v);
	return v;
}

/* The planted leak is named first, with its bytes per step; memory in constant use is not listed as growing. */
static void test_leak(void)
{
	const char *where;

	start();
	world__train(&w, 20, 4 * MIB);
	finish();
	where = strstr(text, "GROWS");
	CU_ASSERT_PTR_NOT_NULL_FATAL(where);
	CU_ASSERT(strstr(where, "aten::clone > aten::empty_like in \"loss \"kept\"\"") == where + 15);
	CU_ASSERT(says("+4.0 MiB a step: 80.0 MiB kept from 20 of 20, inputs [[1024, 1024]]\n"));
	CU_ASSERT(says("process 100 (python), 1.000 s, 20 steps (0 to 19)"));
	CU_ASSERT(says("\n     4.0 MiB   80.0 MiB       20   20/20    aten::clone > aten::empty_like"));
	/* 20 leaks, state 8, queue 1, activations 3, gradient 2 */
	CU_ASSERT(says("peak 94.0 MiB at +0.380 s, step 19; 91.0 MiB at the end; +4.0 MiB a step"));
	CU_ASSERT(says("; +4.0 MiB a step\n"));
}

static void test_leak_json(void)
{
	const cJSON *p, *leak, *d;
	cJSON *doc;

	start();
	world__train(&w, 20, 4 * MIB);
	doc = finish_json();
	p = at(doc, "processes", 0);
	CU_ASSERT_EQUAL(num(p, "pid"), 100);
	CU_ASSERT_STRING_EQUAL(str(p, "period"), "step");
	CU_ASSERT_EQUAL(num(p, "period_count"), 20);
	CU_ASSERT_EQUAL(num(p, "growing_count"), 1);
	leak = at(p, "growing", 0);
	CU_ASSERT_STRING_EQUAL(str(leak, "operator"), "aten::empty_like");
	CU_ASSERT_STRING_EQUAL(str(leak, "outer_operator"), "aten::clone");
	CU_ASSERT_STRING_EQUAL(str(leak, "annotation"), "loss \"kept\"");
	CU_ASSERT_STRING_EQUAL(str(leak, "shapes"), "[[1024, 1024]]");
	CU_ASSERT_EQUAL(num(leak, "bytes"), 80.0 * MIB);
	CU_ASSERT_EQUAL(num(leak, "blocks"), 20);
	CU_ASSERT_EQUAL(num(leak, "bytes_per_period"), 4.0 * MIB);
	d = at(p, "devices", 0);
	CU_ASSERT_STRING_EQUAL(str(d, "device"), "CPU");
	CU_ASSERT_EQUAL(num(d, "begin"), 0);
	CU_ASSERT_EQUAL(num(d, "end"), 91.0 * MIB);
	CU_ASSERT_DOUBLE_EQUAL(num(d, "growth_per_period"), 4.0 * MIB, 1e3);
	CU_ASSERT_EQUAL(num(get(d, "peak"), "bytes"), 94.0 * MIB);
	CU_ASSERT_EQUAL(num(get(d, "peak"), "step"), 19);
	/* what was live then adds up to the peak: all groups are among the ten */
	{
		double sum = 0;
		const cJSON *row;

		cJSON_ArrayForEach(row, get(get(d, "peak"), "live")) sum += num(row, "bytes");
		CU_ASSERT_EQUAL(sum, 94.0 * MIB);
		CU_ASSERT_EQUAL(num(at(get(d, "peak"), "live", 0), "bytes"), 80.0 * MIB);
		CU_ASSERT_STRING_EQUAL(str(at(get(d, "peak"), "live", 1), "outer_operator"),
				       "aten::zeros_like");
	}
	CU_ASSERT_EQUAL(num(p, "live_bytes"), 91.0 * MIB);
	CU_ASSERT_EQUAL(num(p, "live_blocks"), 25);
	cJSON_Delete(doc);
}

/* State from the first step, a queue, gradients, activations: none of them grows. */
static void test_healthy(void)
{
	static const uint32_t steps[] = { 4, 5, 6, 7, 20, 45 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		start();
		world__train(&w, steps[i], 0);
		finish();
		CU_ASSERT(says("GROWS          no torch memory"));
		CU_ASSERT_PTR_NULL(strstr(text, "Growing:"));
		CU_ASSERT(says("Live at the end, allocated in the window: 11.0 MiB in 5 blocks"));
		CU_ASSERT(steps[i] <= 4 || says("11.0 MiB at the end; 0 B a step\n"));
		CU_ASSERT(says("8.0 MiB        2            0  aten::zeros_like > aten::empty_like in "));
	}
}

static void test_few_steps(void)
{
	start();
	world__train(&w, 3, 4 * MIB);
	finish();
	CU_ASSERT(says("GROWS          unknown: 3 steps are too few"));
}

/* Each time with another shape: no group grows, their operator does. Half of it is another operator's cache. */
static void test_other_shapes(void)
{
	static char shapes[40][32];
	const cJSON *leak;
	cJSON *doc;

	start();
	for (int i = 0; i < 40; i++) {
		w.now += 1000000;
		w.step = i;
		snprintf(shapes[i], sizeof(shapes[i]), "[[%d]]", 100 + i);
		world__place(&w, "aten::cat", "aten::cat", "", shapes[i]);
		world__alloc(&w, 1024);
		world__place(&w, "aten::arange", "aten::arange", "", shapes[i]);
		if (i < 10)
			world__alloc(&w, 1 << 20);
	}
	doc = finish_json();
	CU_ASSERT_EQUAL(num(at(doc, "processes", 0), "growing_count"), 1);
	leak = at(at(doc, "processes", 0), "growing", 0);
	CU_ASSERT_STRING_EQUAL(str(leak, "operator"), "aten::cat");
	CU_ASSERT_EQUAL(num(leak, "shape_count"), 40);
	CU_ASSERT_EQUAL(num(leak, "bytes_per_period"), 1024);
	CU_ASSERT_EQUAL(num(leak, "blocks"), 40);
	cJSON_Delete(doc);
	start();
	for (int i = 0; i < 40; i++) {
		w.step = i;
		world__place(&w, "aten::cat", "aten::cat", "", shapes[i]);
		world__alloc(&w, 1024);
	}
	finish();
	CU_ASSERT(says("aten::cat [[100]] and 39 other shapes\n"));
}

/* Without steps in equal parts of the window. */
static void test_no_steps(void)
{
	start();
	for (int i = 0; i < 99; i++) {
		w.now = w.s.info.begin_ns + (uint64_t)i * 10000000;
		world__place(&w, "aten::mm", "aten::mm", "", "");
		world__alloc(&w, 1 << 20);
		world__place(&w, "aten::add", "aten::add", "", "");
		world__free(&w, world__alloc(&w, 1 << 20));
	}
	finish();
	CU_ASSERT(says("no steps known"));
	CU_ASSERT(says("+10.0 MiB a tenth of the window: 99.0 MiB kept from 10 of 10\n"));
	CU_ASSERT(says("GROWS          aten::mm\n"));
}

/* Blocks of both threads of one process count once; another process has its own part, the larger first. */
static void test_processes(void)
{
	const cJSON *p;
	cJSON *doc;

	start();
	world__train(&w, 5, 0);
	w.tgid = 200;
	w.step = -1;
	w.allocated = 0;
	w.rss[PTB_RSS_ANON] = 2048 * MIB;
	world__train(&w, 6, 4 * MIB);
	doc = finish_json();
	CU_ASSERT_EQUAL(cJSON_GetArraySize(get(doc, "processes")), 2);
	p = at(doc, "processes", 0);
	CU_ASSERT_EQUAL(num(p, "pid"), 200);
	CU_ASSERT_EQUAL(num(p, "growing_count"), 1);
	CU_ASSERT_EQUAL(num(p, "period_count"), 6);
	p = at(doc, "processes", 1);
	CU_ASSERT_EQUAL(num(p, "pid"), 100);
	CU_ASSERT_EQUAL(num(p, "growing_count"), 0);
	CU_ASSERT_EQUAL(num(p, "live_bytes"), 11.0 * MIB);
	cJSON_Delete(doc);
}

static void test_out_of_memory(void)
{
	start();
	world__train(&w, 5, 0);
	world__place(&w, "aten::zeros", "aten::empty", "cache", "");
	world__oom(&w, 1ULL << 40);
	world__oom_kill(&w, 262144);
	finish();
	CU_ASSERT(says("OUT OF MEMORY  +0.080 s, step 4: 1.0 TiB refused on CPU, which had 11.0 MiB\n"
		       "                 asked by aten::zeros > aten::empty in \"cache\"\n"));
	CU_ASSERT(says(
		"OUT OF MEMORY  +0.080 s, step 4: the kernel killed process 100 (1.0 GiB resident)\n"
		"                 when thread 100 asked for memory: aten::zeros > aten::empty in \"cache\"\n"));
	CU_ASSERT(strstr(text, "OUT OF MEMORY") < strstr(text, "GROWS"));
}

static void test_kernel(void)
{
	const struct ptb_kmem reclaim = { .minor = 90,
					  .major = 10,
					  .fault_bytes = 300 * 4096,
					  .reclaims = 2,
					  .reclaim_ns = 30000000,
					  .compactions = 1,
					  .compact_ns = 500000 };
	const struct ptb_kmem maps = { .minor = 100,
				       .map_bytes = 64 * MIB,
				       .unmap_bytes = 16 * MIB,
				       .brk_bytes = 1 << 20,
				       .advise_bytes = 4096,
				       .fault_bytes = 32 * MIB };
	const cJSON *k;
	cJSON *doc;

	start();
	w.step = 7;
	world__kmem(&w, &reclaim);
	world__place(&w, "aten::mm", "aten::mm", "", "");
	world__stall(&w, 20000000);
	world__kmem(&w, &maps);
	w.rss[PTB_RSS_ANON] += 50 * MIB;
	w.rss[PTB_RSS_SWAP] = 3 * MIB;
	world__kmem(&w, &reclaim);
	world__api(&w, "cudaMalloc", 2 << 20, 1500000);
	world__api(&w, "cudaFree", 0, 500000);
	world__api(&w, "cudaMalloc", 2 << 20, 1500000);
	print_as(false, 10);
	CU_ASSERT(says("Threads stalled for memory: 4 times 60.000 ms in reclaim, 2 times 1.000 "
		       "ms in compaction"));
	CU_ASSERT(says("    30.000 ms    500.0 us        3   20.000 ms  aten::mm\n"));
	CU_ASSERT(says("Page faults: 300, 20 of them major, brought in 34.3 MiB"));
	CU_ASSERT(says("    33.2 MiB       200      10   +49.0 MiB  aten::mm\n"));
	CU_ASSERT(says("outside of operators\n"));
	CU_ASSERT(says("mapped 64.0 MiB, unmapped 16.0 MiB; heap (brk) +1.0 MiB; madvise on 4.0 KiB"));
	CU_ASSERT(says("    swap                          0 B      3.0 MiB     +3.0 MiB\n"));
	CU_ASSERT(says("  cudaMalloc                      2     4.0 MiB    3.000 ms\n"));
	doc = finish_json();
	k = get(at(doc, "processes", 0), "kernel");
	CU_ASSERT_EQUAL(num(k, "minor_faults"), 280);
	CU_ASSERT_EQUAL(num(k, "major_faults"), 20);
	CU_ASSERT_EQUAL(num(k, "reclaim_ns"), 60000000);
	CU_ASSERT_EQUAL(num(at(k, "by_stalls", 0), "longest_stall_ns"), 20000000);
	CU_ASSERT_EQUAL(num(at(at(doc, "processes", 0), "calls", 0), "calls"), 2);
	cJSON_Delete(doc);
}

/* The begin and the end read from /proc count, whether or not the kernel's events were recorded. */
static void test_balance(void)
{
	struct session_rss rss[] = {
		{ .ts_ns = 4999999000ULL, .tgid = 100, .rss = { 10 * MIB, 90 * MIB, 0, 0 } },
		{ .ts_ns = 5999999999ULL, .tgid = 100, .rss = { 40 * MIB, 170 * MIB, 0, 0 } },
	};

	start();
	w.s.info.rss = rss;
	w.s.info.rss_cnt = 2;
	w.s.info.has_kernel_memory = false;
	world__place(&w, "aten::mm", "aten::mm", "", "");
	world__alloc(&w, 50 * MIB);
	world__free_unknown(&w);
	finish();
	CU_ASSERT(says("  torch, of the window            0 B     50.0 MiB     50.0 MiB    +50.0 MiB\n"));
	CU_ASSERT(says("  RSS                       100.0 MiB    100.0 MiB    210.0 MiB   +110.0 MiB\n"));
	CU_ASSERT(says("    file                     10.0 MiB     10.0 MiB     40.0 MiB    +30.0 MiB\n"));
	CU_ASSERT(says("RSS grew by 60.0 MiB more than torch's blocks, 30.0 MiB of it pages of files: "));
	CU_ASSERT(says("1 block from before the window was freed in it, of unknown size"));
	CU_ASSERT(says("attach with --kernel-memory"));
	CU_ASSERT_PTR_NULL(strstr(text, "The kernel: "));
}

/* A name of the target's cannot steer the terminal, nor break a row. */
static void test_hostile_name(void)
{
	static char name[600];

	memset(name, 'x', sizeof(name) - 1);
	memcpy(name, "a\x1b[2J\nb\xc2\x9b", 9);
	start();
	world__place(&w, name, name, "", "");
	world__alloc(&w, 1 << 20);
	finish();
	CU_ASSERT_PTR_NULL(strchr(text, '\x1b'));
	CU_ASSERT(says("a?[2J?b?xxx"));
	CU_ASSERT(says("xx...\n"));
}

/* Memory that is not torch's: the operator in which pages came in is named. */
static void test_foreign_growth(void)
{
	start();
	for (int i = 0; i < 10; i++) {
		const struct ptb_kmem k = { .minor = 256, .fault_bytes = MIB };

		w.now += 20000000;
		w.step = i;
		world__place(&w, "aten::mkldnn", "aten::mkldnn", "", "");
		w.rss[PTB_RSS_ANON] += MIB;
		world__kmem(&w, &k);
		world__free(&w, world__alloc(&w, 1 << 20));
	}
	finish();
	CU_ASSERT(says("GROWS          no torch memory"));
	CU_ASSERT(says("GROWS          RSS by +1.0 MiB a step, outside of torch's blocks;\n"
		       "                 most pages came in by aten::mkldnn\n"));
	start();
	world__train(&w, 20, 4 * MIB);
	finish();
	CU_ASSERT_PTR_NULL(strstr(text, "outside of torch's"));
}

/* The size goes up and down and ends where it began: nothing grows. */
static void test_noisy_size(void)
{
	static const uint64_t sizes[] = { 200, 205, 206, 207, 209, 210, 211, 212, 213, 203, 202, 202 };

	start();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		w.step = (int64_t)i;
		w.rss[PTB_RSS_ANON] = sizes[i] * MIB;
		world__kmem(&w, &(struct ptb_kmem){ .minor = 1 });
	}
	finish();
	CU_ASSERT_PTR_NULL(strstr(text, "GROWS"));
	CU_ASSERT(says("peak 313.0 MiB at +0.000 s, step 8; 302.0 MiB at the end\n"));
}

/* A value in each step, and what the process has besides. */
static void sizes_in_steps(const uint64_t *mib, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		w.now += 20000000;
		w.step = i;
		w.rss[PTB_RSS_ANON] = mib[i] * MIB;
		world__kmem(&w, &(struct ptb_kmem){ .minor = 1 });
	}
	w.step = -1; /* a part of a step ends the last one */
	world__kmem(&w, &(struct ptb_kmem){ .minor = 1 });
}

/* A block of 256 MiB comes and goes: wherever in that the window begins and ends, nothing grows. */
static void test_oscillation(void)
{
	uint64_t mib[40];

	for (uint32_t period = 2; period <= 40; period += 3) {
		for (uint32_t live = 1; live < period; live += 1 + period / 6) {
			for (uint32_t phase = 0; phase < period; phase += 1 + period / 8) {
				for (uint32_t cnt = 8; cnt <= 40; cnt += 16) {
					for (uint32_t i = 0; i < cnt; i++) /* with a little noise of malloc's */
						mib[i] = 200 + i * 7 % 3 +
							 ((i + phase) % period < live ? 256 : 0);
					start();
					sizes_in_steps(mib, cnt);
					finish();
					CU_ASSERT_PTR_NULL(strstr(text, "GROWS"));
					CU_ASSERT_PTR_NULL(strstr(text, "MiB a step"));
				}
			}
		}
	}
}

/* ... and with a leak below it that is found all the same. */
static void test_oscillation_with_leak(void)
{
	uint64_t mib[40];

	for (uint32_t i = 0; i < 40; i++)
		mib[i] = 200 + 4 * i + (i % 5 > 2 ? 256 : 0);
	start();
	sizes_in_steps(mib, 40);
	finish();
	CU_ASSERT(says("RSS by +4.0 MiB a step"));
}

static void run_slice(uint32_t tid)
{
	struct slice sl = fake_slice(1, "aten::mm", w.now, w.now + 1000);

	sl.tid = tid;
	CU_ASSERT_EQUAL(w.sink.slice(w.sink.arg, &sl), 0);
}

/* A thread that never has an operator, such as one of a pool, has begun none before the window. */
static void test_threads_without_operators(void)
{
	start();
	world__place(&w, "", SESSION_OP_UNSEEN, "", "");
	w.tid = 101;
	world__kmem(&w, &(struct ptb_kmem){ .minor = 500, .fault_bytes = 2 * MIB });
	w.tid = 102;
	world__kmem(&w, &(struct ptb_kmem){ .minor = 30 });
	run_slice(102);
	finish();
	CU_ASSERT(says("     2.0 MiB       500       0         0 B  (threads without operators)\n"));
	CU_ASSERT(says("         0 B        30       0         0 B  (begun before the window)\n"));
}

/* 4 MiB more in each fiftieth of the window until the given one, operators from the other one on. */
static void grow_until(uint32_t until, uint32_t runs)
{
	start();
	for (uint32_t i = 0; i < 50; i++) {
		w.now = w.s.info.begin_ns + (w.s.info.end_ns - w.s.info.begin_ns) / 50 * i + 1;
		w.rss[PTB_RSS_ANON] += i < until ? 4 * MIB : 0;
		world__kmem(&w, &(struct ptb_kmem){ .minor = 1 });
		if (i >= runs)
			run_slice(w.tid);
	}
	finish();
}

/* What a program brings in before its first operator, by importing, is no leak; what it does after it can be one. */
static void test_imports(void)
{
	grow_until(25, 26);
	CU_ASSERT_PTR_NULL(strstr(text, "GROWS"));
	CU_ASSERT(says("RSS            peak 400.0 MiB"));
	grow_until(50, 50);
	CU_ASSERT_PTR_NULL(strstr(text, "GROWS"));
	grow_until(50, 0);
	CU_ASSERT(says("RSS by +20.0 MiB a tenth"));
	grow_until(50, 10);
	CU_ASSERT(says("RSS by +20.0 MiB a tenth"));
}

/* Of more steps than are held the growth is still that of a step. */
static void test_many_steps(void)
{
	start();
	for (int i = 0; i < 1000; i++) {
		w.step = i;
		world__place(&w, "aten::mm", "aten::mm", "", "");
		world__alloc(&w, 4096);
	}
	finish();
	CU_ASSERT(says("3.9 MiB at the end; +4.0 KiB a step\n"));
	CU_ASSERT(says("+4.0 KiB a step: 3.9 MiB kept from 1000 of 1000\n"));
}

/* Shared memory and mapped files: another allocator, which reports 0; their blocks count like the others. */
static void test_mapped(void)
{
	struct memory_event ev = {
		.what = MEMORY_FREE,
		.addr = 1,
		.bytes = -(int64_t)MIB,
		.device_index = -1,
		.at = { .tgid = 100, .tid = 100, .op = "", .outer_op = "", .annotation = "" }
	};
	const cJSON *d;
	cJSON *doc;

	start();
	world__place(&w, "aten::mm", "aten::mm", "", "");
	world__alloc(&w, 3 * MIB);
	w.allocated = 0 - 5 * MIB; /* so that what is reported after the next one is 0 */
	world__alloc(&w, 5 * MIB);
	ev.ts_ns = w.now; /* one from before the window */
	CU_ASSERT_EQUAL(w.sink.memory(w.sink.arg, &ev), 0);
	w.allocated = 3 * MIB;
	world__alloc(&w, MIB);
	doc = finish_json();
	d = at(at(doc, "processes", 0), "devices", 0);
	CU_ASSERT_EQUAL(num(d, "end"), 9.0 * MIB);
	CU_ASSERT_EQUAL(num(d, "begin"), 0);
	CU_ASSERT_EQUAL(num(d, "freed_bytes"), 0);
	CU_ASSERT_EQUAL(num(get(d, "peak"), "bytes"), 9.0 * MIB);
	cJSON_Delete(doc);
}

static void test_losses(void)
{
	start();
	w.s.counters[PTB_CNT_RING_FULL] = 17;
	world__train(&w, 5, 0);
	finish();
	CU_ASSERT(says("The capture is incomplete and the figures are bounds: 17 records lost"));
}

static void test_row_limit(void)
{
	start();
	world__train(&w, 5, 0);
	print_as(false, 1);
	CU_ASSERT(says("  ... 2 more (--row-limit)\n"));
	print_as(false, -1);
	CU_ASSERT_PTR_NULL(strstr(text, "more (--row-limit)"));
	memory_report.free(mr);
}

static void test_nothing(void)
{
	start();
	w.s.info.has_memory = w.s.info.has_kernel_memory = false;
	finish();
	CU_ASSERT(says("attach with --profile-memory"));
	CU_ASSERT_PTR_NULL(strstr(text, "Memory of"));
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "leak", test_leak },
		{ "leak, json", test_leak_json },
		{ "healthy", test_healthy },
		{ "few steps", test_few_steps },
		{ "other shapes", test_other_shapes },
		{ "no steps", test_no_steps },
		{ "processes", test_processes },
		{ "out of memory", test_out_of_memory },
		{ "kernel", test_kernel },
		{ "balance", test_balance },
		{ "hostile name", test_hostile_name },
		{ "foreign growth", test_foreign_growth },
		{ "what goes up and down does not grow", test_oscillation },
		{ "what goes up and down, and a leak", test_oscillation_with_leak },
		{ "threads without operators", test_threads_without_operators },
		{ "a program that imports does not grow", test_imports },
		{ "noisy size", test_noisy_size },
		{ "many steps", test_many_steps },
		{ "mapped", test_mapped },
		{ "losses", test_losses },
		{ "row limit", test_row_limit },
		{ "nothing", test_nothing },
		CU_TEST_INFO_NULL,
	};

	return run_suite("mem_report", tests);
}
