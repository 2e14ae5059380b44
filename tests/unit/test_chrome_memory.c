/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory in a Chrome trace: torch's instants key by key, the kernel's, counters that lose no extreme. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chrome_doc.h"
#include "memory_world.h"
#include "suite.h"

#define BEGIN_NS 5000000000ULL
#define BEGIN_US 42979000000.0 /* of the window, since the base time */

static char path[] = "/tmp/test_chrome_memory.XXXXXX";
static struct world w;
static void *ct;
static cJSON *doc;
static char raw[8 << 20];

static void open_trace(void)
{
	ct = open_chrome(path, &w.s, &w.sink);
}

static void start(void)
{
	world__init(&w, 100);
	open_trace();
}

static void finish(void)
{
	struct session_totals totals = { 0 };

	doc = finish_chrome(ct, &totals, path, raw, sizeof(raw));
}

/* nr-th event of a name; NULL: none */
static const cJSON *event(const char *name, int nr)
{
	const cJSON *e;

	cJSON_ArrayForEach(e, get(doc, "traceEvents")) if (!strcmp(str(e, "name"), name) && !nr--) return e;
	return NULL;
}

static const cJSON *must(const char *name, int nr)
{
	const cJSON *e = event(name, nr);

	CU_ASSERT_PTR_NOT_NULL_FATAL(e);
	return e;
}

/* The text of the file, as torch 2.15 writes it but for white space. */
static void test_torch(void)
{
	uint64_t a;

	start();
	a = world__alloc(&w, 40000);
	world__free(&w, a);
	world__free_unknown(&w);
	world__oom(&w, 1ULL << 52);
	finish();
	CU_ASSERT_PTR_NOT_NULL(
		strstr(raw, "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 100, "
			    "\"tid\": 100, \"ts\": 42979000002.000, \"args\": {\"Total Reserved\": 0, \"Total Allocated\": 40000, "
			    "\"Bytes\": 40000, \"Device Id\": -1, \"Device Type\": 0, \"Addr\": 139637976727552, "
			    "\"finished\": false, \"Ev Idx\": 1099511627776}}"));
	CU_ASSERT_PTR_NOT_NULL(strstr(raw, "\"Total Allocated\": 0, \"Bytes\": -40000, "));
	CU_ASSERT_PTR_NULL(event("[memory]", 2));
	CU_ASSERT_STRING_EQUAL(keys(get(must("[OutOfMemory]", 0), "args")),
			       "Total Reserved,Total Allocated,Bytes,Device Id,Device Type,finished,Ev Idx");
	CU_ASSERT_EQUAL(num(get(must("[OutOfMemory]", 0), "args"), "Bytes"), 4503599627370496.0);
	CU_ASSERT_EQUAL(num(doc, "profile_memory"), 1);
	cJSON_Delete(doc);
}

static void test_marks(void)
{
	struct memory_event ev = { .ts_ns = BEGIN_NS + 9000,
				   .at = { .tgid = 100, .tid = 100 },
				   .what = MEMORY_FREE,
				   .addr = 1,
				   .bytes = -8,
				   .device_index = -1,
				   .inferred = true };

	start();
	CU_ASSERT_EQUAL(w.sink.memory(w.sink.arg, &ev), 0);
	ev = (struct memory_event){ .ts_ns = BEGIN_NS + 9000,
				    .begin_ns = BEGIN_NS + 4000,
				    .what = MEMORY_API,
				    .at = ev.at,
				    .name = "cudaMallocAsync",
				    .addr = 5,
				    .bytes = 64,
				    .maybe_failed = true };
	CU_ASSERT_EQUAL(w.sink.memory(w.sink.arg, &ev), 0);
	ev.no_result = true;
	ev.maybe_failed = false;
	ev.addr = 0;
	CU_ASSERT_EQUAL(w.sink.memory(w.sink.arg, &ev), 0);
	finish();
	CU_ASSERT(cJSON_IsTrue(get(get(must("[memory]", 0), "args"), "ptbpf.inferred")));
	CU_ASSERT_STRING_EQUAL(str(must("cudaMallocAsync", 0), "cat"), "memory_api");
	CU_ASSERT_EQUAL(num(must("cudaMallocAsync", 0), "ts"), BEGIN_US + 4);
	CU_ASSERT_STRING_EQUAL(keys(get(must("cudaMallocAsync", 0), "args")),
			       "Addr,Bytes,Duration us,ptbpf.maybe_failed");
	CU_ASSERT_EQUAL(num(get(must("cudaMallocAsync", 0), "args"), "Duration us"), 5);
	CU_ASSERT_STRING_EQUAL(keys(get(must("cudaMallocAsync", 1), "args")), "Bytes,ptbpf.no_result");
	cJSON_Delete(doc);
}

/* A random walk: lowest, highest and last value of every 100 us are in the track, and no value that never was. */
static void test_extremes(void)
{
	static uint64_t low[64], high[64], last[64];
	static double written[64]; /* last value in the track */
	uint32_t seed = 1, i;
	const cJSON *e;

	memset(low, 0xff, sizeof(low));
	memset(high, 0, sizeof(high));
	start();
	w.now = BEGIN_NS;
	for (i = 0; i < 6000; i++) { /* 1 us each: 60 pieces that begin at 1 us, 101 us, ... */
		uint32_t piece = i / 100;

		seed = seed * 1664525 + 1013904223;
		if (w.live_cnt < 2 || (w.live_cnt < 50 && seed >> 31))
			world__alloc(&w, (seed >> 8) % 100000 + 1);
		else
			world__free(&w, w.live[(seed >> 8) % w.live_cnt].addr);
		low[piece] = w.allocated < low[piece] ? w.allocated : low[piece];
		high[piece] = w.allocated > high[piece] ? w.allocated : high[piece];
		last[piece] = w.allocated;
	}
	finish();
	for (i = 0; (e = event("torch allocated, CPU", (int)i)); i++) {
		uint32_t piece = (uint32_t)((num(e, "ts") - BEGIN_US - 1) / 100);
		double v = num(get(e, "args"), "bytes");

		CU_ASSERT_STRING_EQUAL(str(e, "ph"), "C");
		CU_ASSERT_FATAL(piece < 60);
		written[piece] = v;
		if (v == (double)low[piece])
			low[piece] = 0;
		else if (v == (double)high[piece])
			high[piece] = UINT64_MAX;
		else
			CU_ASSERT_EQUAL(v, (double)last[piece]);
	}
	CU_ASSERT(i <= 180); /* thinned from 6000 */
	for (i = 0; i < 60; i++) {
		CU_ASSERT(!low[i] && high[i] == UINT64_MAX);
		CU_ASSERT_EQUAL(written[i], (double)last[i]);
	}
	cJSON_Delete(doc);
}

static void test_rss(void)
{
	const struct session_rss rss[] = {
		{ .ts_ns = BEGIN_NS - 5000, .tgid = 100, .rss = { 1, 2, 3, 4 } },
		{ .ts_ns = BEGIN_NS + 500000000, .tgid = 100, .rss = { 5, 6, 7, 8 } },
		{ .ts_ns = BEGIN_NS + 600000000, .tgid = 100, .rss = { 0, 0, 9, 0 } },
		{ .ts_ns = BEGIN_NS + 1000000001, .tgid = 100, .rss = { 5, 7, 7, 8 } },
	};

	world__init(&w, 100);
	w.s.info.rss = rss;
	w.s.info.rss_cnt = 4;
	open_trace();
	world__kmem(&w, &(struct ptb_kmem){ .minor = 1 });
	finish();
	CU_ASSERT_EQUAL(num(must("RSS", 0), "ts"), BEGIN_US); /* from before it */
	CU_ASSERT_STRING_EQUAL(keys(get(must("RSS", 0), "args")), "file,anonymous,shared,swap");
	CU_ASSERT_EQUAL(num(get(must("RSS", 0), "args"), "swap"), 3);
	CU_ASSERT_EQUAL(num(get(must("RSS", 0), "args"), "shared"), 4);
	CU_ASSERT_EQUAL(num(get(must("RSS", 1), "args"), "file"), 100.0 * (1 << 20));
	CU_ASSERT_EQUAL(num(must("RSS", 2), "ts"), BEGIN_US + 500000);
	CU_ASSERT_EQUAL(num(must("RSS", 3), "ts"), BEGIN_US + 1000000); /* no pages: no process any more */
	CU_ASSERT_PTR_NULL(event("RSS", 4));
	cJSON_Delete(doc);
}

static void fault(uint64_t begin_ms, uint64_t end_ms, uint32_t minor, uint32_t major)
{
	struct ptb_kmem k = { .h = { .len = sizeof(k), .kind = PTB_REC_KMEM, .tgid = 100, .tid = 100 },
			      .minor = minor,
			      .major = major };
	struct kernel_event ev = { .rec = &k.h };

	k.begin_ns = BEGIN_NS + begin_ms * 1000000;
	k.h.ts_ns = BEGIN_NS + end_ms * 1000000;
	CU_ASSERT_EQUAL(w.sink.kernel(w.sink.arg, &ev), 0);
}

/* Faults are counted once each, where they were; a record of a second is spread over as much as is held. */
static void test_fault_rate(void)
{
	const char *name = "page faults per second";
	double sum = 0, major = 0, last = 0, at = BEGIN_US;
	const cJSON *e;

	start();
	fault(101, 102, 7, 0);
	fault(115, 135, 20, 4);
	fault(133, 134, 1, 0); /* another thread's, reported later, of a time before */
	fault(900, 900, 3, 0);
	fault(0, 1000, 640, 0);
	finish();
	CU_ASSERT_EQUAL(num(must(name, 0), "ts"), BEGIN_US);
	CU_ASSERT_EQUAL(num(get(must(name, 0), "args"), "minor"), 0);
	CU_ASSERT_EQUAL(num(must(name, 1), "ts"), BEGIN_US + 100000);
	CU_ASSERT_EQUAL(num(get(must(name, 1), "args"), "minor"), 700);
	CU_ASSERT_EQUAL(num(get(must(name, 2), "args"), "minor"), 500);
	CU_ASSERT_EQUAL(num(get(must(name, 3), "args"), "minor"), 1000);
	CU_ASSERT_EQUAL(num(get(must(name, 3), "args"), "major"), 200);
	CU_ASSERT_EQUAL(num(get(must(name, 4), "args"), "minor"), 600);
	CU_ASSERT_EQUAL(num(get(must(name, 5), "args"), "minor"), 0);
	for (int i = 0; (e = event(name, i)); i++) { /* rates times their lengths are the faults */
		double ts = num(e, "ts");

		CU_ASSERT(ts > at || !i);
		sum += last * (ts - at) / 1e6;
		last = num(get(e, "args"), "minor");
		major += num(get(e, "args"), "major") / 100;
		at = ts;
	}
	sum += last * (BEGIN_US + 1000000 - at) / 1e6;
	/* the last piece, which begins where the window ends, has at most its share */
	CU_ASSERT(sum <= 671.5 && sum >= 671 - 11);
	CU_ASSERT_EQUAL(major, 4);
	cJSON_Delete(doc);
}

static void emit_record(const struct ptb_rec_hdr *rec)
{
	struct kernel_event ev = {
		.at = { .tgid = 100, .tid = 100, .op = "aten::mm", .annotation = "loss" }, .rec = rec
	};

	CU_ASSERT_EQUAL(w.sink.kernel(w.sink.arg, &ev), 0);
}

static void test_kernel(void)
{
	struct ptb_kmem_call call = {
		.h = { .kind = PTB_REC_KMEM_CALL, .ts_ns = BEGIN_NS + 9000, .tgid = 100, .tid = 101 },
		.begin_ns = BEGIN_NS - 1000,
		.addr = 4096,
		.bytes = 1 << 21,
		.old_bytes = 1 << 20,
		.call = PTB_CALL_MREMAP
	};
	struct ptb_kmem_stall st = {
		.h = { .kind = PTB_REC_KMEM_STALL, .ts_ns = BEGIN_NS + 9000, .tgid = 100, .tid = 101 },
		.begin_ns = BEGIN_NS + 2000,
		.reclaimed = 32,
		.order = 9
	};
	struct ptb_kmem_event hap = {
		.h = { .kind = PTB_REC_KMEM_EVENT, .ts_ns = BEGIN_NS + 9000, .tgid = 100 },
		.pages = 77,
		.by_tgid = 100,
		.by_tid = 101
	};

	start();
	emit_record(&call.h);
	call.call = PTB_CALL_MADVISE;
	call.arg = 4;
	call.result = -22;
	emit_record(&call.h);
	emit_record(&st.h);
	emit_record(&hap.h);
	hap.what = PTB_KMEM_MIGRATE;
	hap.reason = 5;
	hap.failed = 1;
	emit_record(&hap.h);
	finish();
	CU_ASSERT_STRING_EQUAL(str(must("mremap", 0), "cat"), "kernel_memory");
	CU_ASSERT_STRING_EQUAL(str(must("mremap", 0), "ph"), "i");
	CU_ASSERT_STRING_EQUAL(keys(get(must("mremap", 0), "args")), "Addr,Bytes,Old Bytes,Duration us");
	CU_ASSERT_EQUAL(num(must("mremap", 0), "ts"), BEGIN_US); /* it began before */
	CU_ASSERT_EQUAL(num(get(must("mremap", 0), "args"), "Duration us"), 10);
	CU_ASSERT_STRING_EQUAL(str(get(must("madvise", 0), "args"), "Advice"), "MADV_DONTNEED");
	CU_ASSERT_EQUAL(num(get(must("madvise", 0), "args"), "Error"), 22);
	CU_ASSERT_EQUAL(num(get(must("reclaim stall", 0), "args"), "Duration us"), 7);
	CU_ASSERT_EQUAL(num(get(must("reclaim stall", 0), "args"), "Order"), 9);
	CU_ASSERT_EQUAL(num(get(must("reclaim stall", 0), "args"), "Pages Reclaimed"), 32);
	CU_ASSERT_STRING_EQUAL(str(must("OOM kill", 0), "s"), "p");
	CU_ASSERT_STRING_EQUAL(str(get(must("OOM kill", 0), "args"), "Operator"), "aten::mm");
	CU_ASSERT_EQUAL(num(get(must("OOM kill", 0), "args"), "By Thread"), 101);
	CU_ASSERT_STRING_EQUAL(str(get(must("page migration", 0), "args"), "Reason"), "numa_misplaced");
	CU_ASSERT_EQUAL(num(get(must("page migration", 0), "args"), "Failed"), 1);
	cJSON_Delete(doc);
}

/* An operator's args: only those that are not 0, and only when kernel memory was recorded. */
static void test_slices(void)
{
	const struct slice_memory some = {
		.faults = 5, .fault_bytes = 20480, .rss_delta = -4096, .reclaim_ns = 1500, .cpu_own = 7
	};
	const struct slice_memory none = { .cpu_own = 7 };
	struct slice sl = fake_slice(1, "aten::mm", BEGIN_NS + 1000, BEGIN_NS + 2000);
	const cJSON *args;

	for (int i = 0; i < 2; i++) {
		world__init(&w, 100);
		w.s.info.has_kernel_memory = i;
		open_trace();
		sl.mem = &some;
		CU_ASSERT_EQUAL(w.sink.slice(w.sink.arg, &sl), 0);
		sl.mem = &none;
		CU_ASSERT_EQUAL(w.sink.slice(w.sink.arg, &sl), 0);
		sl.mem = NULL;
		CU_ASSERT_EQUAL(w.sink.slice(w.sink.arg, &sl), 0);
		finish();
		args = get(must("aten::mm", 0), "args");
		CU_ASSERT_EQUAL(has(args, "Page Faults"), i);
		if (i) {
			CU_ASSERT_STRING_EQUAL(keys(args), "External id,Record function id,Page Faults,Fault Bytes,"
							   "RSS Delta,Reclaim us,Ev Idx");
			CU_ASSERT_EQUAL(num(args, "RSS Delta"), -4096);
			CU_ASSERT_EQUAL(num(args, "Reclaim us"), 1.5);
		}
		CU_ASSERT_STRING_EQUAL(keys(get(must("aten::mm", 1), "args")),
				       "External id,Record function id,Ev Idx");
		CU_ASSERT_STRING_EQUAL(keys(get(must("aten::mm", 2), "args")),
				       "External id,Record function id,Ev Idx");
		cJSON_Delete(doc);
	}
}

/* Devices have tracks of their own; the accelerator's have the values of its allocator. */
static void test_devices(void)
{
	struct memory_event ev = { .ts_ns = BEGIN_NS + 9000,
				   .at = { .tgid = 100, .tid = 100 },
				   .bytes = 512,
				   .addr = 1,
				   .allocated = 1 << 20,
				   .reserved = 2 << 20,
				   .device_type = 1 };

	start();
	for (int i = 0; i < 2; i++) {
		ev.device_index = i;
		CU_ASSERT_EQUAL(w.sink.memory(w.sink.arg, &ev), 0);
	}
	finish();
	CU_ASSERT_EQUAL(num(get(must("torch allocated, cuda:0", 0), "args"), "bytes"), 1 << 20);
	CU_ASSERT_EQUAL(num(get(must("torch reserved, cuda:1", 0), "args"), "bytes"), 2 << 20);
	CU_ASSERT_EQUAL(num(get(must("[memory]", 1), "args"), "Device Id"), 1);
	CU_ASSERT_EQUAL(num(get(must("[memory]", 1), "args"), "Device Type"), 1);
	cJSON_Delete(doc);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "torch's", test_torch },
		{ "marks", test_marks },
		{ "extremes", test_extremes },
		{ "rss", test_rss },
		{ "fault rate", test_fault_rate },
		{ "kernel", test_kernel },
		{ "slices", test_slices },
		{ "devices", test_devices },
		CU_TEST_INFO_NULL,
	};
	int fd = mkstemp(path), rc;

	if (fd < 0)
		return 1;
	close(fd);
	rc = run_suite("chrome_memory", tests);
	unlink(path);
	return rc;
}
