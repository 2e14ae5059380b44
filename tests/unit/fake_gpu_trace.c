/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes TRACE and GPU_REPORT of a made-up training loop on two GPUs (--host: of one that only kernel probes saw),
 * with every kind of activity in it. For tests of what reads them.
 */
#include <stdio.h>
#include <string.h>

#include "export/output.h"
#include "report/report.h"
#include "gpu_world.h"

#define STEPS 6

static int host_calls(struct gpu_world *w)
{
	uint64_t t = GW_BEGIN + 10000000;
	int err = 0;

	for (uint64_t i = 0; i < 100 && !err; i++, t += 200000) {
		struct gw_item *c;

		gw__context(w, 100, 10 + i, "aten::add", NULL);
		c = gw__call(w, "cudaLaunchKernel", t + 3000, t + 9000);
		c->g.kernel_name = i % 2 ? "void add<float>(float*)" : "";
		c->rec.host.grid[0] = c->rec.host.grid[1] = c->rec.host.grid[2] = 1;
		c->rec.host.block[0] = 32;
		c->rec.host.block[1] = c->rec.host.block[2] = 1;
		err = gw__slice(w, 10 + i, "aten::add", t, t + 12000);
		gw__context(w, 100, 0, NULL, NULL);
		c = gw__call(w, "cudaMemcpyAsync", t + 20000, t + 24000);
		c->rec.host.bytes = 4096;
		c->rec.host.copy_kind = 2;
		gw__call(w, "cudaStreamSynchronize", t + 25000, t + 125000);
		c = gw__driver(w, "cuLaunchKernel", t + 130000, t + 133000, 0);
		c->rec.host.flags = PTB_API_NO_RESULT;
	}
	gw__context(w, 100, 0, NULL, NULL);
	err = err ? err : gw__annotation(w, 1000, "ProfilerStep#0", t, t + 1000, SLICE_DERIVED);
	return err ? err : gw__emit(w);
}

static int fill(struct gpu_world *w, bool host)
{
	struct gw_item *c;

	if (host)
		return host_calls(w);
	/* what began before the window, what no launch is known of, what began before its launch */
	gw__call(w, "cudaStreamSynchronize", GW_BEGIN - 1000000, GW_BEGIN + 1000000);
	gw__kernel(w, "early", 0, 7, GW_BEGIN + 500000, GW_BEGIN + 900000, NULL);
	c = gw__call(w, "cudaLaunchKernel", GW_BEGIN + 2000000, GW_BEGIN + 2010000);
	gw__kernel(w, "kernel", 0, 7, GW_BEGIN + 1900000, GW_BEGIN + 1950000, c);
	c = gw__copy(w, 10, 1 << 24, 1, 21, GW_BEGIN + 3000000, GW_BEGIN + 4000000,
		     gw__call(w, "cudaMemcpyPeerAsync", GW_BEGIN + 2900000, GW_BEGIN + 2910000));
	c->rec.memory.flags = PTB_GPU_PEER;
	c->rec.memory.dst_device = 1;
	return gw__train(w, STEPS);
}

int main(int argc, char **argv)
{
	static struct gpu_world w;
	bool host = argc > 1 && !strcmp(argv[1], "--host");
	struct output_args args = { .s = &w.s, .row_limit = -1, .json = true };
	void *ct, *gr;
	int err;

	if (argc != 3 + host)
		return 2;
	gw__init(&w);
	if (host) {
		w.s.info.has_gpu = false;
		w.s.info.has_cuda_calls = w.host_only = true;
		w.s.info.device_cnt = w.s.info.gpu_clock_cnt = 0;
		w.s.info.gpu_clock_err_ns = 0;
		w.s.meta[0].key = NULL;
	}
	args.path = argv[1 + host];
	if (chrome_output.open(&args, &ct))
		return 1;
	w.sink = chrome_output.sink(ct);
	w.sink.thread(w.sink.arg, 100, 100);
	err = fill(&w, host);
	err = err ? err : chrome_output.finish(ct, &args, &w.totals);
	chrome_output.free(ct);
	args.out = fopen(argv[2 + host], "w");
	if (err || !args.out || gpus_report.open(&args, &gr))
		return 1;
	w.totals = (struct session_totals){ 0 };
	w.sink = gpus_report.sink(gr);
	err = fill(&w, host);
	err = err ? err : gpus_report.finish(gr, &args, &w.totals);
	err = fclose(args.out) || err;
	args = (struct output_args){ .s = &w.s, .row_limit = 8 };
	if (!err && !host)
		err = gpus_report.finish(gr, &args, &w.totals);
	gpus_report.free(gr);
	return err ? 1 : 0;
}
