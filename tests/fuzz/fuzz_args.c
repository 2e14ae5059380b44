/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any program over any memory: the argument interpreter must stay in its scratch area, end, and leave a
 * payload that the model's walk accepts, for any pointers, counts, tags and offsets, and any failing reads.
 * Built in two forms, as fuzz_capture.c: with libFuzzer, or with a main() of its own
 * that makes N random inputs:  fuzz_args [iterations [seed]]
 *
 * The memory is made of words that mean something: addresses inside it, small numbers, flags, huge counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arg_arena.h"
#include "args/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define WORDS 2048u /* of the arena that are filled */

struct input {
	const uint8_t *data;
	size_t len, pos;
	uint64_t rest; /* after the input: the same every time */
};

static uint32_t byte(struct input *in)
{
	if (in->pos < in->len)
		return in->data[in->pos++];
	in->rest = in->rest * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(in->rest >> 56);
}

static uint64_t word(struct input *in)
{
	uint64_t v = 0;

	switch (byte(in) % 8) {
	case 0:
	case 1:
	case 2:
		return ARENA_BASE + 8 * ((byte(in) | byte(in) << 8) % (WORDS + 64));
	case 3:
		return byte(in) % 8;
	case 4:
		return byte(in) | (uint64_t)byte(in) << 32;
	case 5:
		return 1ull << (byte(in) & 63);
	case 6:
		return -(uint64_t)byte(in);
	default:
		for (int i = 0; i < 8; i++)
			v = v << 8 | byte(in);
		return v;
	}
}

static void make_facts(struct input *in, struct ptb_proc_cfg *cfg)
{
	uint8_t *raw = (uint8_t *)&cfg->tensor;

	arena__facts(cfg, byte(in) & 1);
	cfg->tensor.undefined_impl = ARENA_BASE + 8 * byte(in);
	for (uint32_t i = 0; i < 5; i++)
		((uint64_t *)&cfg->python)[i] = byte(in) % 8; /* types that the memory has */
	if (byte(in) % 4 == 0)                                /* a wrong layout */
		for (uint32_t n = byte(in) % 8; n; n--)
			raw[byte(in) % sizeof(cfg->tensor)] = (uint8_t)byte(in);
}

static void make_prog(struct input *in, struct ptb_arg_prog *prog)
{
	prog->in_cnt = (uint8_t)(byte(in) % 16);
	prog->out_cnt = (uint8_t)(byte(in) % 4);
	for (uint32_t i = 0; i < PTB_ARG_OPS_MAX; i++) {
		struct ptb_arg_op *op = &prog->ops[i];

		op->op = (uint8_t)(byte(in) % 26);
		op->as = (uint8_t)(byte(in) % 20);
		op->flags = (uint8_t)byte(in);
		op->aux = (uint8_t)byte(in);
		for (uint32_t k = 0; k < 3; k++)
			op->loc[k] = byte(in) % 8 ? (uint8_t)(byte(in) % 40) : PTB_LOC_NONE;
		op->has_off = byte(in) % 2 ? PTB_LOC_NONE : (uint8_t)byte(in);
		op->val_off = (uint16_t)(byte(in) % 4 ? byte(in) % 64 : byte(in) << 8);
		op->disp = (int32_t)(8 * byte(in)) - 1024;
	}
	if (byte(in) == 0)
		prog->in_cnt = prog->out_cnt = 255;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct input in = { data, len, 0, len };
	static struct ptb_arg_prog prog;
	static struct ptb_proc_cfg cfg;
	static struct payload out;
	uint64_t w[PTB_LOC_CNT];

	arena__reset();
	make_facts(&in, &cfg);
	make_prog(&in, &prog);
	for (uint32_t i = 0; i < WORDS; i++)
		((uint64_t *)arena.mem)[i] = word(&in);
	for (uint32_t i = 0; i < PTB_LOC_CNT; i++)
		w[i] = word(&in);
	if (byte(&in) % 2)
		arena.near = ARENA_BASE + 8 * byte(&in);
	for (uint32_t what = 0; what < ARENA_RUN_CNT; what++) {
		bool full = byte(&in) & 1;

		arena.reads = 0;
		arena.fail_at = byte(&in) % 2 ? (int64_t)byte(&in) : -1;
		arena.fail_after = byte(&in) % 4 == 0;
		arena__run(what, &cfg, &prog, w, full, &out);
		if (values__survey(out.words, out.cnt).words != out.cnt || arena.reads > 32768)
			abort();
	}
	return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER
int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 2000;
	uint8_t data[4096];

	srandom(argc > 2 ? (unsigned int)atol(argv[2]) : 1);
	for (long i = 0; i < n; i++) {
		size_t len = (size_t)random() % sizeof(data);

		for (size_t k = 0; k < len; k++)
			data[k] = (uint8_t)random();
		LLVMFuzzerTestOneInput(data, len);
	}
	printf("%ld programs run\n", n);
	return 0;
}
#endif
