/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* record/recorder_args.c: the layout's check on the first live tensors of a process, and what a
 * capture keeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/capture.h"
#include "model/session.h"
#include "record/recorder.h"
#include "suite.h"
#include "value_words.h"

#define NESTED 0x40ULL

static struct plan_func func = { .name = "aten::neg",
				 .kind = PTB_FUNC_OP,
				 .schema = "aten::neg(Tensor self) -> Tensor" };
static struct plan_site sites[] = {
	{ .prog = PTB_PROG_OP_ENTER, .role = PTB_ROLE_ENTER, .lib = TORCH_LIB_CPU },
	{ .offset = 8, .prog = PTB_PROG_OP_EXIT, .role = PTB_ROLE_EXIT, .lib = TORCH_LIB_CPU }
};
static struct torch_plan plan = {
	.funcs = &func, .func_cnt = 1, .sites = sites, .site_cnt = 2, .layout.keys.nested = NESTED
};
static struct torch_proc proc = { .comm = "t",
				  .exe = "t",
				  .cmdline = "t",
				  .libs[TORCH_LIB_CPU] = { .path = "/lib/libtorch_cpu.so" } };

struct scene {
	struct recorder *rec;
	uint32_t base, nr;
	char path[64];
};

static void open_scene(struct scene *sc)
{
	const struct record_opts opts = { .args = PROBE_ARGS_SHAPES };
	struct recorder_plan rp;
	struct proc_ops po;

	snprintf(sc->path, sizeof(sc->path), "/tmp/ptbpf-recorder-%d.ptb", (int)getpid());
	unlink(sc->path);
	proc.pid = getpid();
	CU_ASSERT_EQUAL_FATAL(recorder__open(sc->path, NULL, NULL, &opts, &sc->rec), 0);
	recorder__meta_text(sc->rec, "args", "shapes");
	recorder__plan(sc->rec, &plan, proc.libs, &rp);
	sc->base = rp.site_base;
	proc_ops__init(&po, &proc, &plan);
	recorder__learn(sc->rec, &po);
	proc_ops__free(&po);
	recorder__process(sc->rec, &proc, &plan, &(struct recorder_process){ .start_ns = 1000 });
	recorder__window(sc->rec, true, 1000, 0);
	sc->nr = 0;
}

/* A call with one tensor of 2x3 elements that claims to have `numel`. */
static void call(struct scene *sc, int64_t numel, uint64_t keys)
{
	struct {
		struct ptb_op_enter r;
		uint64_t words[32];
	} e = { .r.h = { .kind = PTB_REC_OP_ENTER,
			 .flags = PTB_F_ARGS,
			 .site = sc->base,
			 .tgid = (uint32_t)proc.pid,
			 .tid = (uint32_t)proc.pid } };
	struct ptb_op_exit x = { .h = { .kind = PTB_REC_OP_EXIT,
					.len = sizeof(x),
					.site = sc->base + 1,
					.tgid = (uint32_t)proc.pid,
					.tid = (uint32_t)proc.pid } };
	struct value_words w = { .cnt = 0 };

	vw__tensor(&w, &(struct vw_tensor){ .dtype = 6, .ndim = 2, .sizes = { 2, 3 }, .keys = keys });
	w.words[2] = (uint64_t)numel;
	memcpy(e.words, w.words, w.cnt * 8);
	e.r.h.len = (uint16_t)(sizeof(e.r) + w.cnt * 8);
	e.r.h.ts_ns = 10000 + 100 * sc->nr;
	e.r.sp = 0x7000;
	x.h.ts_ns = e.r.h.ts_ns + 50;
	x.sp = 0x6f00;
	recorder__ring_record(sc->rec, 0, &e, e.r.h.len);
	recorder__ring_record(sc->rec, 0, &x, x.h.len);
	sc->nr++;
}

static void see(void *arg, const struct slice *sl)
{
	*(uint32_t *)arg += (sl->in.flags & VALUES_PRESENT) != 0;
	CU_ASSERT_STRING_EQUAL(sl->schema, func.schema);
}

/* Closes the capture and reads it: how many of its slices have arguments. */
static uint32_t with_args(struct scene *sc)
{
	struct capture_reader *cr;
	struct session *s;
	struct session_totals totals;
	uint32_t n = 0;
	struct session_sink sink = { .arg = &n, .slice = see };

	recorder__round(sc->rec, 1u << 30);
	recorder__window(sc->rec, false, 1u << 30, PTB_STOP_DURATION);
	CU_ASSERT_EQUAL(recorder__close(sc->rec), 0);
	CU_ASSERT_EQUAL_FATAL(capture_reader__open(sc->path, capture__open(sc->path), &cr), 0);
	CU_ASSERT_EQUAL_FATAL(session__open(cr, NULL, &s), 0);
	CU_ASSERT_EQUAL(session__run(s, &sink, 1, &totals), 0);
	CU_ASSERT_EQUAL(totals.slices, sc->nr);
	session__free(s);
	capture_reader__close(cr);
	unlink(sc->path);
	return n;
}

TEST("good tensors")
{
	struct scene sc;

	open_scene(&sc);
	for (uint32_t i = 0; i < 200; i++)
		call(&sc, 6, 0);
	CU_ASSERT_EQUAL(recorder__next_bad_layout(sc.rec), 0);
	CU_ASSERT_EQUAL(with_args(&sc), 200);
}

TEST("wrong layout")
{
	struct scene sc;

	open_scene(&sc);
	for (uint32_t i = 0; i < 200; i++)
		call(&sc, 0x7f0012345678, 0);
	CU_ASSERT_EQUAL(recorder__next_bad_layout(sc.rec), (uint32_t)proc.pid);
	CU_ASSERT_EQUAL(recorder__next_bad_layout(sc.rec), 0); /* reported once */
	CU_ASSERT_EQUAL(with_args(&sc), 0);                    /* nothing of it is reported */
}

/* A few odd tensors, and any number of nested ones, are no reason. */
TEST("odd tensors")
{
	struct scene sc;

	open_scene(&sc);
	for (uint32_t i = 0; i < 200; i++)
		call(&sc, i % 16 ? 6 : 5, 0);
	CU_ASSERT_EQUAL(recorder__next_bad_layout(sc.rec), 0);
	CU_ASSERT_EQUAL(with_args(&sc), 200);
	open_scene(&sc);
	for (uint32_t i = 0; i < 200; i++)
		call(&sc, 5, NESTED);
	CU_ASSERT_EQUAL(recorder__next_bad_layout(sc.rec), 0);
	CU_ASSERT_EQUAL(with_args(&sc), 200);
}

SUITE("recorder_args")
