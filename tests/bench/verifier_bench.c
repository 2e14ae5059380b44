/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs cost this kernel's verifier: instructions that it walked through, and those that are left of
 * each program, with the configuration of each mode. Prints, asserts nothing: not a test.
 */
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/probe_state.h"
#include "probe_target.h"

#define PROGS_MAX 96

static const struct {
	const char *name;
	struct probe_set_opts opts;
} modes[] = {
	{ "names", { .args = PROBE_ARGS_NONE } },
	{ "shapes", { .args = PROBE_ARGS_SHAPES } },
	{ "full", { .args = PROBE_ARGS_FULL } },
	{ "stacks", { .stacks = true } },
	{ "all",
	  { .args = PROBE_ARGS_FULL,
	    .follow_tasks = true,
	    .watch_children = true,
	    .identities = true,
	    .memory = true,
	    .kernel_memory = true,
	    .cuda_calls = true,
	    .agent = true,
	    .stacks = true,
	    .sample_hz = 99,
	    .samples_beside = true,
	    .sched = true } },
};
#define MODES (sizeof(modes) / sizeof(modes[0]))

static struct row {
	const char *name;
	uint32_t walked[MODES], left[MODES];
} rows[PROGS_MAX];

static void take(const struct probe_set *ps, uint32_t mode)
{
	struct bpf_program *prog;
	uint32_t i = 0;

	bpf_object__for_each_program(prog, ps->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);
		int fd = bpf_program__fd(prog);

		if (i == PROGS_MAX)
			break;
		if (!rows[i].name)
			rows[i].name = strdup(bpf_program__name(prog));
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len)) {
			rows[i].walked[mode] = info.verified_insns;
			rows[i].left[mode] = info.xlated_prog_len / 8;
		}
		i++;
	}
}

static void print_row(const struct row *r)
{
	printf("%-24s", r->name);
	for (uint32_t m = 0; m < MODES; m++) {
		if (r->left[m])
			printf("  %8u %6u", r->walked[m], r->left[m]);
		else
			printf("  %8s %6s", "-", "-");
	}
	printf("\n");
}

int main(void)
{
	if (must_skip())
		return 77;
	printf("%-24s", "walked, left");
	for (uint32_t m = 0; m < MODES; m++) {
		struct probe_set_opts opts = modes[m].opts;
		struct probe_set *ps;

		opts.ring_bytes = 1 << 20;
		if (probe_set__open(&opts, &ps))
			return 1;
		take(ps, m);
		probe_set__free(ps);
		printf("  %15s", modes[m].name);
	}
	printf("\n");
	for (uint32_t i = 0; i < PROGS_MAX && rows[i].name; i++)
		print_row(&rows[i]);
	return 0;
}
