/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes TRACE, REPORT and MEMORY_REPORT from a fake session that has everything in it once: two processes, threads,
 * steps, forward and backward, every mark, a lost interval, refusals. For tests of what reads them.
 */
#include <stdio.h>
#include <string.h>

#include "export/output.h"
#include "report/report.h"
#include "fake_session.h"
#include "memory_world.h"
#include "value_words.h"

#define STEPS 4
#define T0 5000000000ULL

static void *ct;
static struct session_sink sink;
static struct session_totals totals;

static int put(struct slice sl)
{
	totals.slices++;
	totals.ops += sl.cat == SLICE_CPU_OP;
	totals.annotations += sl.cat == SLICE_USER_ANNOTATION && !(sl.flags & SLICE_DERIVED);
	totals.steps += !!(sl.flags & SLICE_DERIVED);
	totals.unwound += !!(sl.flags & SLICE_UNWOUND);
	totals.end_lost += !!(sl.flags & SLICE_END_LOST);
	totals.open_at_begin += !!(sl.flags & SLICE_OPEN_AT_BEGIN);
	if (sl.flags & SLICE_TRUNCATED)
		++*(sl.cat == SLICE_USER_ANNOTATION ? &totals.truncated_annotations :
						      &totals.truncated_ops);
	totals.unfinished += !!(sl.flags & SLICE_UNFINISHED);
	return sink.slice(sink.arg, &sl);
}

static struct slice with(struct slice sl, uint32_t tid, int64_t seq, uint64_t fwd_thread, uint32_t flags)
{
	sl.tid = tid;
	sl.seq = seq;
	sl.fwd_thread = fwd_thread;
	sl.flags = flags;
	return sl;
}

/* A tensor, a list of two, None, a scalar, a list of scalars. */
static struct slice with_inputs(struct slice sl)
{
	static struct value_words words;
	static const int64_t sizes[] = { 8, 32 };

	words.cnt = 0;
	vw__shape(&words, 2, sizes);
	vw__list(&words, PTB_VAL_TENSORS, 2, 2);
	vw__shape(&words, 1, sizes);
	vw__shape(&words, 0, sizes);
	vw__none(&words);
	vw__double(&words, 0.5);
	vw__ints(&words, 2, sizes);
	sl.in = vw__values(&words);
	return sl;
}

/* <module> and forward() of a script. */
static const struct py_frame py_frames[] = {
	{ .func = "<module>", .file = "/home/me/train.py", .line = 30, .first = 1, .code = 0x1000, .at = 8 },
	{ .func = "Net.forward", .file = "/home/me/train.py", .line = 12, .first = 10, .code = 0x2000, .at = 20 },
	{ .func = "Net.forward", .file = "/home/me/train.py", .line = 13, .first = 10, .code = 0x2000, .at = 40 },
	{ .func = "<module>", .file = "/home/me/train.py", .line = 31, .first = 1, .code = 0x1000, .at = 16 },
};
static const uint32_t at_linear[] = { 2 | PY_FRAME_NATIVE, 1 }, at_loss[] = { 3, 4 };
static const struct py_stack py_stacks[] = {
	{ .frames = at_linear, .frame_cnt = 2 },
	{ .frames = at_loss, .frame_cnt = 2, .flags = PTB_PY_CUT },
};

static struct slice with_stack(struct slice sl, uint32_t stack, uint32_t fwd_stack)
{
	sl.stack = stack;
	sl.fwd_stack = fwd_stack;
	return sl;
}

/* One step of 10 ms: linear > addmm forward, AddmmBackward0 on the autograd thread. */
static int put_step(uint64_t nr)
{
	uint64_t t = T0 + 10000000 + nr * 10000000, id = 10 + nr * 10;
	int64_t seq = (int64_t)nr;
	struct slice step = fake_slice(id, "", t, t + 9999999);
	struct fwdbwd fl = { .id = nr + 1,
			     .fwd_tgid = 100,
			     .fwd_tid = 100,
			     .bwd_tid = 101,
			     .fwd_begin_ns = t + 1500,
			     .bwd_begin_ns = t + 5000500 };
	static const struct slice_memory memory = { .faults = 300,
						    .major_faults = 1,
						    .fault_bytes = 1228800,
						    .rss_delta = -4096,
						    .reclaim_ns = 1500,
						    .compact_ns = 7 };
	struct slice addmm;
	char name[32];
	int err;

	snprintf(name, sizeof(name), "ProfilerStep#%llu", (unsigned long long)nr);
	step.name = name;
	step.cat = SLICE_USER_ANNOTATION;
	step.flags = SLICE_DERIVED;
	addmm = with(with_inputs(fake_slice(id + 2, "aten::addmm", t + 1500, t + 900000)), 100, seq,
		     0, 0);
	addmm.mem = &memory;
	err = put(addmm);
	err = err ? err :
		    put(with_stack(with(fake_slice(id + 1, "aten::linear", t + 1000, t + 1000000),
					100, -1, 0, 0),
				   1, 0));
	err = err ? err :
		    put(with_stack(with(fake_slice(id + 5, "aten::sum", t + 7000000, t + 7010000),
					100, -1, 0, 0),
				   2, 0));
	err = err ? err :
		    put(with_stack(with(fake_slice(id + 4, "AddmmBackward0", t + 5000500, t + 5900001),
					101, seq, 1, 0),
				   1, 1));
	err = err ? err :
		    put(with(fake_slice(id + 3, "autograd::engine::evaluate_function: AddmmBackward0",
					t + 5000000, t + 6000000),
			     101, seq, 1, 0));
	err = err ? err : sink.flow(sink.arg, &fl);
	totals.flows++;
	err = err ? err : put(step);
	return err;
}

static int put_marked(void)
{
	static const uint32_t flags[] = { SLICE_UNWOUND,  SLICE_END_LOST,    SLICE_END_INFERRED,
					  SLICE_NAME_CUT, SLICE_THREAD_EXIT, SLICE_OTHER_THREAD_END,
					  SLICE_TRUNCATED };
	uint64_t t = T0 + 500000000;
	struct slice child;
	int err = 0;

	for (uint64_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && !err; i++)
		err = put(with(fake_slice(100 + i, "aten::\"odd\"\n", t + i * 1000, t + i * 1000 + 999),
			       102, -1, 0, flags[i]));
	child = with(fake_slice(110, "aten::copy_", T0 + 900000000, T0 + 1000000000), 200, -1, 0,
		     SLICE_UNFINISHED);
	child.tgid = 200;
	err = err ? err : put(child);
	return err ? err :
		     put(with(fake_slice(1, "train", T0, T0 + 1000000000), 100, -1, 0,
			      SLICE_OPEN_AT_BEGIN | SLICE_UNFINISHED));
}

/* A tensor that every step keeps, one that it frees; what came before the window; a request that fails. */
static int put_memory(uint64_t nr)
{
	uint64_t t = T0 + 10000000 + nr * 10000000;
	struct memory_event ev = { .ts_ns = t + 2000,
				   .at = { .tgid = 100, .tid = 100 },
				   .what = MEMORY_ALLOC,
				   .addr = 0x7f0000000000 + nr * 4096,
				   .bytes = 4096,
				   .device_index = -1,
				   .allocated = (nr + 1) * 4096 };
	struct memory_block block = { 0 };
	int err = sink.memory(sink.arg, &ev);

	ev.block = &block;
	ev.ts_ns++;
	ev.addr = 0x7e0000000000;
	ev.bytes = 1 << 20;
	ev.allocated += 1 << 20;
	err = err ? err : sink.memory(sink.arg, &ev);
	ev.ts_ns++;
	ev.what = MEMORY_FREE;
	ev.bytes = -ev.bytes;
	ev.allocated -= 1 << 20;
	err = err ? err : sink.memory(sink.arg, &ev);
	ev.ts_ns += 1000;
	if (nr == 1) { /* a mapped file: its allocator has no total */
		ev.what = MEMORY_ALLOC;
		ev.addr = 0x7a0000000000;
		ev.bytes = 1 << 24;
		ev.allocated = 0;
		ev.reserved = 1 << 24;
		err = err ? err : sink.memory(sink.arg, &ev);
		ev.reserved = 0;
		ev.what = MEMORY_FREE;
		ev.bytes = -ev.bytes;
		err = err ? err : sink.memory(sink.arg, &ev);
		ev.block = NULL;
		ev.addr++;
		err = err ? err : sink.memory(sink.arg, &ev);
	}
	ev.block = NULL;
	ev.what = MEMORY_FREE_UNKNOWN;
	ev.addr = 0x7d0000000000;
	ev.bytes = 0;
	totals.freed_unknown++;
	totals.live_blocks++;
	err = err ? err : sink.memory(sink.arg, &ev);
	ev.what = MEMORY_OOM;
	ev.addr = 0;
	ev.bytes = 1LL << 50;
	return err ? err : sink.memory(sink.arg, &ev);
}

static int put_cuda(void)
{
	struct memory_event ev = { .ts_ns = T0 + 1000000,
				   .at = { .tgid = 100, .tid = 102 },
				   .what = MEMORY_API,
				   .addr = 0x7c0000000000,
				   .bytes = 2 << 20,
				   .name = "cudaMalloc",
				   .begin_ns = T0 + 900000,
				   .device_type = 1 };
	int err = sink.memory(sink.arg, &ev);

	ev.no_result = true;
	ev.addr = 0;
	err = err ? err : sink.memory(sink.arg, &ev);
	ev.what = MEMORY_ALLOC;
	ev.addr = 0x7c0000000000;
	ev.bytes = 512;
	ev.allocated = 512;
	ev.reserved = 2 << 20;
	return err ? err : sink.memory(sink.arg, &ev);
}

#define HEAD(type, tid_, ts)                                                                       \
	{                                                                                          \
		.len = sizeof(struct type), .ts_ns = (ts), .tgid = 100, .tid = (tid_)              \
	}

static int put_kernel(void)
{
	const uint64_t t = T0 + 200000000;
	struct ptb_kmem kmem = { .h = HEAD(ptb_kmem, 100, t),
				 .begin_ns = t - 25000000,
				 .minor = 1000,
				 .major = 3,
				 .rss = { 50 << 20, 100 << 20, 0, 1 << 20 } };
	struct ptb_kmem_call call = { .h = HEAD(ptb_kmem_call, 100, t),
				      .begin_ns = t - 5000,
				      .addr = 0x7b0000000000,
				      .bytes = 8 << 20 };
	struct ptb_kmem_stall stall = { .h = HEAD(ptb_kmem_stall, 100, t), .begin_ns = t - 3000000 };
	struct ptb_kmem_event happened = { .h = HEAD(ptb_kmem_event, 100, t), .pages = 512 };
	struct kernel_event ev = { .at = { .tgid = 100, .tid = 100, .op = "aten::mm", .annotation = "loss" } };
	int err;

	kmem.h.kind = PTB_REC_KMEM;
	ev.rec = &kmem.h;
	err = sink.kernel(sink.arg, &ev);
	call.h.kind = PTB_REC_KMEM_CALL;
	ev.rec = &call.h;
	for (call.call = 0; call.call <= PTB_CALL_MADVISE; call.call++)
		err = err ? err : sink.kernel(sink.arg, &ev);
	call.result = -12;
	call.call = PTB_CALL_MMAP;
	err = err ? err : sink.kernel(sink.arg, &ev);
	stall.h.kind = PTB_REC_KMEM_STALL;
	ev.rec = &stall.h;
	for (stall.what = 0; stall.what <= PTB_STALL_COMPACTION; stall.what++)
		err = err ? err : sink.kernel(sink.arg, &ev);
	happened.h.kind = PTB_REC_KMEM_EVENT;
	happened.by_tgid = happened.by_tid = 100;
	ev.rec = &happened.h;
	for (; happened.what <= PTB_KMEM_MIGRATE; happened.what++, happened.h.tid = 0)
		err = err ? err : sink.kernel(sink.arg, &ev);
	return err;
}

static int write_trace(const char *path, const struct session *s)
{
	static const uint32_t threads[][2] = { { 100, 100 }, { 100, 101 }, { 100, 102 }, { 200, 200 } };
	const struct output_args args = { .s = s, .path = path };
	int err = chrome_output.open(&args, &ct);

	if (err)
		return err;
	sink = chrome_output.sink(ct);
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		err = err ? err : sink.thread(sink.arg, threads[i][0], threads[i][1]);
	err = err ? err : put_cuda();
	for (uint64_t nr = 0; nr < STEPS && !err; nr++) {
		err = put_memory(nr);
		err = err ? err : put_step(nr);
	}
	err = err ? err : put_kernel();
	err = err ? err : put_marked();
	err = err ? err : chrome_output.finish(ct, &args, &totals);
	chrome_output.free(ct);
	return err;
}

static int write_report(const char *path, const struct session *s)
{
	static const struct ka_row rows[] = {
		{ .key = "aten::linear",
		  .count = 4,
		  .cpu_total_ns = 3996000,
		  .self_cpu_ns = 402000,
		  .first_begin_ns = T0 + 10001000 },
		{ .key = "ProfilerStep*",
		  .count = 4,
		  .cpu_total_ns = 39999996,
		  .self_cpu_ns = 36003996,
		  .first_begin_ns = T0 + 10000000,
		  .is_annotation = true },
	};
	const struct table_opts opts = { false };
	FILE *out = fopen(path, "w");
	const struct output_args args = {
		.s = s, .out = out, .json = true, .row_limit = -1, .sort_by = "cpu_time_total"
	};
	int err = out ? table__print(rows, 2, &opts, &args, &totals) : -1;

	if (out)
		fclose(out);
	return err;
}

/* Of a loop that leaks, and ends in an OOM kill. */
static int write_memory_report(const char *path)
{
	static struct world w;
	FILE *out = fopen(path, "w");
	const struct output_args args = { .s = &w.s, .out = out, .json = true, .row_limit = -1 };
	void *mr = NULL;
	int err = -1;

	world__init(&w, 100);
	if (out && !memory_report.open(&args, &mr)) {
		w.sink = memory_report.sink(mr);
		world__train(&w, 20, 1 << 20);
		world__free_unknown(&w);
		world__api(&w, "cudaMalloc", 2 << 20, 1000000);
		world__stall(&w, 5000000);
		world__kmem(&w, &(struct ptb_kmem){ .reclaims = 1, .reclaim_ns = 5000000 });
		world__oom(&w, 1ULL << 40);
		world__oom_kill(&w, 100000);
		world__end(&w);
		err = memory_report.finish(mr, &args, &totals);
	}
	if (out)
		fclose(out);
	memory_report.free(mr);
	return err;
}

int main(int argc, char **argv)
{
	static const struct session_process processes[] = {
		{ .tgid = 100,
		  .parent_tgid = 1,
		  .comm = "python",
		  .cmdline = "python train.py --lr 0.1",
		  .exe = "python3.11",
		  .start_ns = T0 },
		{ .tgid = 200,
		  .parent_tgid = 100,
		  .comm = "pt_data_worker",
		  .cmdline = "python train.py --lr 0.1",
		  .exe = "python3.11",
		  .start_ns = T0 + 100000000,
		  .gap_ns = 250000 },
	};
	static const struct session_lost lost = { .begin_ns = T0 + 510000000,
						  .end_ns = T0 + 510100000,
						  .cnt = 17 };
	static const struct session_refusal refused = { .name = "at::_ops::item::call",
							.kind = PTB_FUNC_OP,
							.reason = PTB_REFUSE_COMPUTED_JUMP };
	static const struct session_rss rss[] = {
		{ .ts_ns = T0 - 1000, .tgid = 100, .rss = { 50 << 20, 90 << 20, 0, 0 } },
		{ .ts_ns = T0 + 1000000500, .tgid = 100, .rss = { 50 << 20, 95 << 20, 0, 0 } },
	};
	struct session s = fake_session();

	if (argc != 4)
		return 2;
	s.info.processes = processes;
	s.info.process_cnt = 2;
	s.info.lost = &lost;
	s.info.lost_cnt = 1;
	s.info.refusals = &refused;
	s.info.rss = rss;
	s.info.rss_cnt = 2;
	s.info.has_py_stacks = true;
	s.py_frames = py_frames;
	s.py_frame_cnt = 4;
	s.py_stacks = py_stacks;
	s.py_stack_cnt = 2;
	s.info.has_memory = s.info.has_kernel_memory = true;
	s.info.refusal_cnt = 1;
	s.counters[PTB_CNT_RING_FULL] = 17;
	s.counters[PTB_CNT_HITS] = 70;
	s.counters[PTB_CNT_COST_PS] = 780000;
	s.meta[0].key = "step_on";
	s.meta[0].json = "\"Optimizer.step\"";
	s.meta[1].key = "with_flops";
	s.meta[1].json = "true";
	if (write_trace(argv[1], &s) || write_report(argv[2], &s))
		return 1;
	totals = (struct session_totals){ 0 };
	return !!write_memory_report(argv[3]);
}
