/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument interpreter on the host, over a fake address space: objects are laid out at addresses
 * that mean nothing here, and any read can be made to fail. For tests and the fuzzer.
 */
#ifndef TESTS_ARG_ARENA_H
#define TESTS_ARG_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptb_args.h"
#include "ptb_probe.h"

#define ARENA_BASE 0x7f5500000000ull
#define ARENA_BYTES (1u << 20)

struct arena {
	uint8_t mem[ARENA_BYTES];
	uint32_t used;
	/* injected faults */
	int64_t fail_at; /* this read fails, counted from 0; -1: none */
	bool fail_after; /* and all after it */
	uint32_t reads;  /* so far */
	uint64_t bytes;  /* read so far */
	uint32_t counters[PTB_CNT_MAP];
	bool wild;     /* a read outside the arena was tried: it failed */
	uint64_t near; /* the stack pointer of the call, 0: none */
};
extern struct arena arena;

void arena__reset(void);
/* As bpf_probe_read_user(): all or nothing, and zeroes where it fails. */
int arena__read(void *dst, uint32_t len, uint64_t addr);
/* The address of a copy of these bytes, 16-byte aligned. */
uint64_t arena__put(const void *data, size_t len);
void *arena__at(uint64_t addr);

/* What one run left behind. */
struct payload {
	uint64_t words[(PTB_ARGS_BYTES_MAX + 4096) / 8];
	uint32_t cnt;
	bool cut;
};

enum arena_run {
	ARENA_INPUTS,
	ARENA_RESULTS,
	ARENA_STACK,
	ARENA_STACK_BARE,
	ARENA_TENSORS,
	ARENA_TUPLE,
	ARENA_TUPLE_BARE,
	ARENA_OPT_STRING,
	ARENA_RUN_CNT
};

/* words: PTB_LOC_CNT; the runs that need no program take an address and a count from words[0], [1]. */
void arena__run(enum arena_run what, const struct ptb_proc_cfg *cfg, const struct ptb_arg_prog *prog,
		const uint64_t *words, bool full, struct payload *out);

/* Facts of a build of torch 2.x as pytorch-abi's tables have them; old: those of 1.13. */
void arena__facts(struct ptb_proc_cfg *cfg, bool old);

#endif /* TESTS_ARG_ARENA_H */
