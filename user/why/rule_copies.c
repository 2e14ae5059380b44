/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies to a GPU from pageable memory: the program waits until CUDA has copied it once more. */
#include <string.h>

#include "why/why_priv.h"

struct state {
	uint64_t cnt, ns;
};

static void take_gpu(const struct why_thread *t, const struct gpu_slice *g, void *state)
{
	struct state *st = state;

	if (g->what != GPU_MEMCPY || strncmp(g->name, "Memcpy HtoD (Pageable", 21) != 0 ||
	    (t->whole_cnt && g->at.step < 0))
		return;
	st->cnt++;
	st->ns += g->launch_end_ns - g->launch_begin_ns;
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	const struct state *st = state;

	(void)report;
	why_cause__costs(c, out, st->ns);
	why_cause__evidence(
		out, "%s copies to the GPU%s are from memory that is not pinned: %s in their calls",
		cell__count(st->cnt / c->steps).text, why__per(c),
		unit__ns((double)out->step_ns).text);
	why_cause__change(out, "DataLoader(pin_memory=True) and to(device, non_blocking=True)");
	why_cause__next(out, "ptbpf report %s --gpu", c->args->capture);
}

const struct why_rule rule_copies = {
	.name = "pageable_copies",
	.title = "copies to the GPU from pageable memory",
	.needs = WHY_GPU,
	.state = sizeof(struct state),
	.gpu = take_gpu,
	.judge = judge,
};
