/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a pair of probes costs, against the same two sites with programs that do nothing, and what
 * the reader costs per record. All figures of one run on one machine; only their ratios mean
 * something elsewhere. Prints, asserts nothing: not a test.
 */
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "probe_target.h"
#include "quantile.h"

#define CALLS 50000
#define ROUNDS 15
#define TRACE_UPROBE_MULTI 48

static uint64_t target_ns(struct target *t)
{
	uint64_t ns;

	target__send(t, "cost %d", CALLS);
	return target__answer(t, &ns) ? ns : 0;
}

static void count_record(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	(void)ring;
	(void)rec;
	*(uint64_t *)arg += len;
}

static void drain_all(struct probe_set *ps, uint64_t *bytes)
{
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
		probe_set__drain(ps, i, count_record, bytes);
}

/* Links to both sites of site_op with a program that returns 0 at once; fds through out. */
static bool link_empty(struct target *t, int out[3])
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = TRACE_UPROBE_MULTI);
	const char *const names[2] = { "site_op_enter", "site_op_exit" };

	out[0] = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", insns, 2, &load);
	for (int i = 0; out[0] >= 0 && i < 2; i++) {
		unsigned long offset = target__value(t, names[i]);
		LIBBPF_OPTS(bpf_link_create_opts, opts);

		opts.uprobe_multi.path = t->path;
		opts.uprobe_multi.offsets = &offset;
		opts.uprobe_multi.cnt = 1;
		opts.uprobe_multi.pid = (__u32)t->pid;
		out[i + 1] = bpf_link_create(out[0], 0, (enum bpf_attach_type)TRACE_UPROBE_MULTI, &opts);
		if (out[i + 1] < 0)
			return false;
	}
	return out[0] >= 0;
}

int main(void)
{
	static const struct named_site sites[] = {
		{ "site_op_enter", PTB_PROG_OP_ENTER, 0 },
		{ "site_op_exit", PTB_PROG_OP_EXIT, 0 },
	};
	double bare[ROUNDS], empty[ROUNDS], closed[ROUNDS], full[ROUNDS], drain[ROUNDS];
	double b, e, c, f, d;
	struct probe_set *ps;
	struct target t;

	if (must_skip())
		return 77;
	ps = open_set(4 << 20, LINKS_MULTI, false);
	target__start(&t, TARGET_CALLS);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t bytes = 0, start;
		uint32_t proc;
		int fds[3];

		bare[i] = (double)target_ns(&t) / CALLS;
		if (!link_empty(&t, fds))
			return 1;
		empty[i] = (double)target_ns(&t) / CALLS;
		for (int k = 0; k < 3; k++)
			close(fds[k]);
		if (attach_sites_to(ps, &t, NULL, sites, 2, &proc) != 2)
			return 1;
		closed[i] = (double)target_ns(&t) / CALLS;
		probe_set__activate(ps);
		full[i] = (double)target_ns(&t) / CALLS;
		probe_set__deactivate(ps);
		probe_set__remove_process(ps, proc);
		start = clock__cpu_ns();
		drain_all(ps, &bytes);
		drain[i] = (double)(clock__cpu_ns() - start) /
			   ((double)bytes / sizeof(struct ptb_op_enter));
	}
	b = quantile(bare, ROUNDS, 50);
	e = quantile(empty, ROUNDS, 50);
	c = quantile(closed, ROUNDS, 50);
	f = quantile(full, ROUNDS, 50);
	d = quantile(drain, ROUNDS, 50);
	printf("call without probes          %8.1f ns\n", b);
	printf("pair of empty programs       %8.1f ns\n", e - b);
	printf("pair, outside the window     %8.1f ns  %.2f of empty\n", c - b, (c - b) / (e - b));
	printf("pair, recording              %8.1f ns  %.2f of empty\n", f - b, (f - b) / (e - b));
	printf("reader                       %8.1f ns a record, %.1f million records/s on one "
	       "core\n",
	       d, 1000 / d);
	printf("lost                         %8lu\n",
	       (unsigned long)probe_set__counter(ps, PTB_CNT_RING_FULL));
	probe_set__free(ps);
	return target__stop(&t) ? 1 : 0;
}
