/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The agent's values.c against the interpreter of the BPF programs compiled for the host, over the same operators: is
 * it worth having both? Prints, asserts nothing: not a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../cupti_agent/values.h"
#include "arg_arena.h"
#include "quantile.h"

/* Layouts are known to be right, as in values.c after its first calls. */
static inline int arg_host_read(void *dst, uint32_t len, uint64_t addr)
{
	if (addr < 4096)
		return -1;
	memcpy(dst, (const void *)(uintptr_t)addr, len);
	return 0;
}

static inline void arg_host_count(uint32_t id)
{
	(void)id;
}

#include "arg_interp.h"

#define ROUNDS 201
#define CALLS 20000

enum { TAG_NONE, TAG_TENSOR, TAG_DOUBLE = 3, TAG_INT = 5, TAG_BOOL = 10, TAG_LIST = 14 };

static struct ptb_proc_cfg facts;
static struct ptb_agent_cfg cfg;

/* Values of a stack: t a tensor, i a number, d a double, b a boolean, n none, l a list of three numbers. */
static const struct op {
	const char *name, *args;
} ops[] = {
	{ "neg", "t" },  { "add", "tti" },           { "addmm", "tttii" },
	{ "cat", "Ti" }, { "layer_norm", "tlttdb" }, { "convolution", "tttlllbli" },
};
#define OPS (sizeof(ops) / sizeof(ops[0]))

static uint64_t new_tensor(void)
{
	unsigned char *impl = calloc(1, 256);
	uint64_t storage = (uintptr_t)calloc(1, 64), ndim = 4,
		 sizes[10] = { 8, 16, 32, 32, 0, 16384, 1024, 32, 1, 0 };

	memcpy(impl + 16, &storage, 8);
	memcpy(impl + 56, &ndim, 8);
	memcpy(impl + 64, sizes, sizeof(sizes));
	return (uintptr_t)impl;
}

static uint64_t new_list(uint64_t tag, uint32_t cnt)
{
	uint64_t *obj = calloc(8, 8), *items = calloc(cnt, 16);

	for (uint32_t i = 0; i < cnt; i++) {
		items[2 * i] = tag == TAG_TENSOR ? new_tensor() : i;
		items[2 * i + 1] = tag;
	}
	obj[2] = (uintptr_t)items;
	obj[3] = (uintptr_t)(items + 2 * cnt);
	return (uintptr_t)obj;
}

static void fill(const char *args, uint64_t *iv)
{
	for (; *args; args++, iv += 2)
		switch (*args) {
		case 't':
			iv[0] = new_tensor();
			iv[1] = TAG_TENSOR;
			break;
		case 'T':
		case 'l':
			iv[0] = new_list(*args == 'T' ? TAG_TENSOR : TAG_INT, 3);
			iv[1] = TAG_LIST;
			break;
		default:
			iv[0] = 1;
			iv[1] = *args == 'i' ? TAG_INT : *args == 'd' ? TAG_DOUBLE : TAG_BOOL;
		}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static unsigned char out[PTB_ARGS_BYTES_MAX + 4096];
static struct arg_scratch scratch;

__attribute__((noinline)) static uint32_t by_agent(uint64_t items, uint64_t cnt, bool full)
{
	struct values v = { .cfg = &cfg, .at = out, .end = out + sizeof(out), .full = full };

	values__put(&v, items, cnt);
	return (uint32_t)(v.at - out);
}

__attribute__((noinline)) static uint32_t by_interpreter(uint64_t items, uint64_t cnt, bool full)
{
	uint64_t vec[2] = { items, items + 16 * cnt };
	struct arg_run r = { .s = &scratch, .cfg = &facts };

	args_begin(&scratch, 0, full);
	args_stack(&r, (uintptr_t)vec, cnt, false);
	return scratch.pos;
}

static void measure(const struct op *op, bool full)
{
	uint64_t iv[32] = { 0 }, cnt = strlen(op->args);
	double ns[2][ROUNDS];
	uint32_t bytes = 0;

	fill(op->args, iv);
	if (by_agent((uintptr_t)iv, cnt, full) != by_interpreter((uintptr_t)iv, cnt, full) ||
	    memcmp(out, scratch.rec, scratch.pos))
		printf("they differ: ");
	for (uint32_t r = 0; r < 2 * ROUNDS; r++) {
		double begin = now();

		for (uint32_t i = 0; i < CALLS; i++)
			bytes += r & 1 ? by_interpreter((uintptr_t)iv, cnt, full) :
					 by_agent((uintptr_t)iv, cnt, full);
		ns[r & 1][r / 2] = (now() - begin) / CALLS;
	}
	printf("%-14s %-7s %8u bytes  agent %7.1f ns  interpreter %7.1f ns\n", op->name,
	       full ? "full" : "shapes", bytes / (2 * ROUNDS * CALLS), quantile(ns[0], ROUNDS, 50),
	       quantile(ns[1], ROUNDS, 50));
}

int main(void)
{
	arena__facts(&facts, false);
	cfg.tensor = facts.tensor;
	for (uint32_t full = 0; full < 2; full++)
		for (uint32_t i = 0; i < OPS; i++)
			measure(&ops[i], full);
	return 0;
}
