/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Long operators run on one CPU, although threads of a pool could work for them on idle ones. */
#include <string.h>

#include "export/facts_json.h"
#include "why/why_priv.h"

struct state {
	struct why_amount time;
	struct why_lines lines;
	const char *op;         /* of the longest one, */
	uint64_t op_ns;         /* which took so much */
	uint64_t sampled_slice; /* what was open at the last sample, */
	uint32_t sampled_stack; /* and where */
	uint64_t waits_slice;   /* the operator that waited last, */
	uint64_t waits_ns;      /* and how long in all */
};

/* What ATen, MKL and oneDNN split among threads, whatever its shape. Recurrent layers do one step
 * after the other, and much else has no parallel kernel. */
static bool is_parallel(const char *op)
{
	/* clang-format off */
	static const char *const names[] = {
		"mm", "addmm", "bmm", "baddbmm", "_addmm_activation", "mkldnn_linear",
		"mkldnn_convolution", "convolution_backward",
		"_slow_conv2d_forward", "slow_conv3d_forward",
		"_scaled_dot_product_flash_attention_for_cpu",
		"_scaled_dot_product_flash_attention_for_cpu_backward",
		"_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data",
		"native_layer_norm", "native_layer_norm_backward",
		"native_batch_norm", "native_batch_norm_backward",
		"exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "pow", "sqrt",
		"gelu", "gelu_backward", "silu",
	};
	/* clang-format on */
	static const char space[] = "aten::";

	if (strncmp(op, space, sizeof(space) - 1) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(op + sizeof(space) - 1, names[i]))
			return true;
	return false;
}

static bool takes(const struct slice *sl)
{
	return sl->cat == SLICE_CPU_OP && is_parallel(sl->name);
}

static void take_slice(const struct why_seen *seen, void *state)
{
	const struct slice *sl = seen->sl;
	uint64_t ns = sl->end_ns - sl->begin_ns - sl->child_ns;
	struct state *st = state;
	uint64_t waits = st->waits_slice == sl->id ? st->waits_ns : 0;
	uint32_t stack = sl->stack;

	if (sl->child_ns > sl->end_ns - sl->begin_ns || ns < WHY_ONE_CORE_OP_NS + waits)
		return;
	why_amount__add(seen, &st->time, ns, 1);
	if (!stack && st->sampled_slice == sl->id)
		stack = st->sampled_stack;
	if (stack)
		why_lines__add(seen, &st->lines, stack, ns, 1);
	if (ns <= st->op_ns)
		return;
	st->op_ns = ns;
	st->op = sl->name;
}

static void take_sample(const struct why_seen *seen, const struct py_sample *ps, void *state)
{
	struct state *st = state;

	(void)seen;
	if (!ps->stack || !ps->at.op_slice)
		return;
	st->sampled_slice = ps->at.op_slice;
	st->sampled_stack = ps->stack;
}

static void take_wait(const struct why_seen *seen, const struct sched_event *ev, void *state)
{
	struct state *st = state;

	(void)seen;
	if (st->waits_slice != ev->at.op_slice)
		st->waits_ns = 0;
	st->waits_slice = ev->at.op_slice;
	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++)
		st->waits_ns += ev->ns[k];
}

/* How many CPUs such operators used while their thread had one. */
static double used(const struct why_case *c, struct pool_work *work)
{
	double cpu_ns = 0, pool_ns = 0;
	uint32_t cnt;
	const struct pool_row *rows = pool_work__rows(work, &cnt);

	for (uint32_t i = 0; i < cnt; i++) {
		if (rows[i].tgid != c->t.tgid || rows[i].tid != c->t.tid ||
		    !is_parallel(rows[i].op))
			continue;
		cpu_ns += pool_row__cpu_ns(&rows[i]);
		pool_ns += rows[i].pool_ns;
	}
	return cpu_ns > pool_ns ? cpu_ns / (cpu_ns - pool_ns) : 0;
}

static void judge(const struct why_case *c, void *state, void *report, struct why_cause *out)
{
	struct state *st = state;
	const struct why_line *line;
	double cpus_used = used(c, report), idle, may, more;
	struct job_cpus cpus;
	char at[PY_TEXT_MAX + 8];
	uint64_t ns, cnt;
	uint32_t threads;
	bool bound;

	if (cpus_used > WHY_ONE_CORE_USED || session__info(c->args->s)->has_gpu || !st->op ||
	    !job_json__cpus(c->args->s, c->proc, &cpus) || cpus.gpus)
		return;
	bound = cpus.allowed == 1;
	idle = bound ? cpus.others : cpus.idle;
	may = bound ? UINT32_MAX : cpus.allowed;
	if (cpus.quota > 0 && cpus.quota < may)
		may = cpus.quota;
	more = idle / cpus.ranks < may - 1 ? idle / cpus.ranks : may - 1;
	if (more < WHY_ONE_CORE_IDLE)
		return;
	threads = 1 + (uint32_t)(more + 0.5);
	line = why_lines__most(c->thread, &st->lines, &ns, &cnt);
	why_cause__costs(c, out, why_amount__ns(c->thread, &st->time));
	out->op = st->op;
	out->line = line ? line->line : 0;
	why_cause__evidence(
		out, "%s and the like%s: %s%s on %.1f CPUs of %u that it may use%s%s; %.1f %s idle",
		st->op, why__at(c, out->line, at), unit__ns((double)out->step_ns).text, why__per(c),
		cpus_used, bound ? 1 : (uint32_t)may, bound ? " (affinity)" : "",
		cpus.omp_threads == 1 ? ", with OMP_NUM_THREADS=1" : "", idle,
		bound ? "others were" : "were");
	why_cause__change(out, "%storch.set_num_threads(%u) or OMP_NUM_THREADS=%u",
			  bound ? "more CPUs for the process (taskset, numactl), and " : "",
			  threads, threads);
	why_cause__next(out, "ptbpf report %s --sched", c->args->capture);
}

static void free_state(void *state)
{
	why_lines__free(&((struct state *)state)->lines);
}

const struct why_rule rule_one_core = {
	.name = "one_core",
	.title = "operators on one CPU",
	.needs = WHY_OPERATORS | WHY_SCHED,
	.state = sizeof(struct state),
	.takes = takes,
	.slice = take_slice,
	.all_samples = take_sample,
	.sched = take_wait,
	.report = &pool_work,
	.judge = judge,
	.free = free_state,
};
