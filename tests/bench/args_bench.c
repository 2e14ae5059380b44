/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What reading arguments adds to a pair of probes: two tensors and a scalar at the entry, one tensor at the
 * exit, in a loop that does nothing else. All figures of one run; prints, asserts nothing: not a test.
 */
#include <stdlib.h>

#include "arg_arena.h"
#include "probe_target.h"
#include "quantile.h"

#define CALLS 20000
#define ROUNDS 15

#define OP(code, ...)                                                                              \
	{                                                                                          \
		.op = PTB_ARG_##code, .has_off = PTB_LOC_NONE, __VA_ARGS__                         \
	}

static const struct ptb_arg_prog add = {
	.in_cnt = 3,
	.out_cnt = 1,
	.result_loc = 0,
	.ops = { OP(PTR_TENSOR, .loc = { 1 }), OP(PTR_TENSOR, .loc = { 2 }),
		 OP(PTR_SCALAR, .loc = { 3 }), OP(PTR_TENSOR, .loc = { 0 }) }
};
static const struct ptb_arg_prog nothing = { .result_loc = PTB_LOC_NONE };

static void facts(struct ptb_proc_cfg *cfg, struct target *t)
{
	struct ptb_tensor_cfg *c = &cfg->tensor;

	arena__facts(cfg, false);
	cfg->seq_tls_module = c->grad_tls_module = c->keys_tls_module = target__value(t, "tls_module");
	cfg->seq_tls_offset = target__value(t, "tls_offset");
	c->keys_tls_off = cfg->seq_tls_offset + 8;
	c->grad_tls_off = cfg->seq_tls_offset + 24;
}

static void drop(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	(void)ring;
	(void)rec;
	*(uint64_t *)arg += len;
}

struct leg {
	const char *name;
	enum probe_args args;
	uint32_t enter, exit; /* argument program of each site */
	struct probe_set *ps;
	double ns[ROUNDS];
};

static struct leg legs[] = {
	{ "no probes", PROBE_ARGS_NONE, 0, 0, NULL, {} },
	{ "names", PROBE_ARGS_NONE, 0, 0, NULL, {} },
	{ "shapes, no argument", PROBE_ARGS_SHAPES, 2, 0, NULL, {} },
	{ "shapes", PROBE_ARGS_SHAPES, 1, 0, NULL, {} },
	{ "full, no argument", PROBE_ARGS_FULL, 2, 0, NULL, {} },
	{ "full, no results", PROBE_ARGS_FULL, 1, 0, NULL, {} },
	{ "full", PROBE_ARGS_FULL, 1, 1, NULL, {} },
};
#define LEGS (sizeof(legs) / sizeof(legs[0]))

static double measure(struct leg *leg, struct target *t, const struct ptb_proc_cfg *cfg)
{
	struct named_site sites[] = { { "site_add_enter", PTB_PROG_OP_ENTER, leg->enter },
				      { "site_add_exit", PTB_PROG_OP_EXIT, leg->exit } };
	uint64_t ns = 0, bytes = 0;
	uint32_t proc;

	if (leg->ps && attach_sites_to(leg->ps, t, cfg, sites, 2, &proc) != 2)
		exit(1);
	if (leg->ps)
		probe_set__activate(leg->ps);
	target__send(t, "cost %d", CALLS);
	if (!target__answer(t, &ns))
		exit(1);
	if (leg->ps) {
		probe_set__deactivate(leg->ps);
		probe_set__remove_process(leg->ps, proc);
		for (uint32_t i = 0; i < probe_set__ring_cnt(leg->ps); i++)
			probe_set__drain(leg->ps, i, drop, &bytes);
	}
	return (double)ns / CALLS;
}

int main(void)
{
	struct ptb_proc_cfg cfg = {};
	struct target t;
	uint32_t base;

	if (must_skip())
		return 77;
	target__start(&t, TARGET_TENSORS);
	facts(&cfg, &t);
	for (uint32_t i = 1; i < LEGS; i++) {
		struct probe_set_opts opts = { .ring_bytes = 16 << 20, .args = legs[i].args };

		if (probe_set__open(&opts, &legs[i].ps))
			return 1;
		if (legs[i].args != PROBE_ARGS_NONE &&
		    (probe_set__add_arg_progs(legs[i].ps, &add, 1, &base) ||
		     probe_set__add_arg_progs(legs[i].ps, &nothing, 1, &base)))
			return 1;
	}
	for (uint32_t r = 0; r < ROUNDS; r++)
		for (uint32_t i = 0; i < LEGS; i++)
			legs[i].ns[r] = measure(&legs[i], &t, &cfg);
	for (uint32_t i = 0; i < LEGS; i++) {
		double median = quantile(legs[i].ns, ROUNDS, 50);

		printf("%-22s %8.1f ns", legs[i].name, median);
		if (i > 1)
			printf("  %+7.1f over names", median - legs[1].ns[ROUNDS / 2]);
		printf("  (least %.1f)\n", legs[i].ns[0]);
		probe_set__free(legs[i].ps);
	}
	return target__stop(&t) ? 1 : 0;
}
