/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What --kernel-memory costs: a probe between whose hits nothing happens, a page fault of a traced process
 * and one of any other, each against the same without, in turns. Prints, asserts nothing: not a test.
 */
#include <stdlib.h>

#include "probe_target.h"
#include "quantile.h"

#define ROUNDS 61
#define CALLS 40000
#define LOOPS 1
#define PAGES 16384 /* 64 MiB */

static const struct named_site sites[] = {
	{ "site_mark_enter", PTB_PROG_OP_ENTER, 0 },
};

enum { PLAIN, WITHOUT, WITH, VARIANTS };

struct series {
	double v[VARIANTS][ROUNDS];
};

static struct probe_set *open_one(bool kernel_memory)
{
	const struct probe_set_opts opts = { .follow_tasks = true,
					     .ring_bytes = 1 << 24,
					     .kernel_memory = kernel_memory };
	struct probe_set *ps = NULL;

	return probe_set__open(&opts, &ps) ? NULL : ps;
}

static void ignore(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	(void)arg;
	(void)ring;
	(void)rec;
	(void)len;
}

static double run(struct target *t, const char *command, double unit)
{
	return (double)target__run(t, command) / unit;
}

/* The command in a window of `ps` (NULL: without a tracer); `other` is the process that is traced. */
static double traced(struct probe_set *ps, struct target *other, struct target *t,
		     const char *command, double unit)
{
	uint32_t proc;
	double v;

	if (!ps)
		return run(t, command, unit);
	if (attach_sites_to(ps, other, NULL, sites, 1, &proc) != 1)
		exit(1);
	probe_set__activate(ps);
	v = run(t, command, unit);
	probe_set__deactivate(ps);
	probe_set__detach(ps);
	for (uint32_t i = 0; i < probe_set__ring_cnt(ps); i++)
		probe_set__drain(ps, i, ignore, NULL);
	return v;
}

static void measure(struct series *s, struct target *other, struct target *t, const char *command,
		    double unit)
{
	struct probe_set *ps[VARIANTS] = { NULL, open_one(false), open_one(true) };

	for (int i = 0; i < ROUNDS; i++)
		for (int k = 0; k < VARIANTS; k++)
			s->v[k][i] = traced(ps[k], other, t, command, unit);
	probe_set__free(ps[WITHOUT]);
	probe_set__free(ps[WITH]);
}

static void print(const char *what, struct series *s)
{
	double ratio[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		ratio[i] = s->v[WITH][i] / s->v[WITHOUT][i];
	printf("%-28s untraced %7.1f  traced %7.1f  with kernel memory %7.1f ns\n"
	       "%-28s %+.1f ns (%+.1f between the best), ratio %.3f (quartiles %.3f-%.3f)\n",
	       what, quantile(s->v[PLAIN], ROUNDS, 50), quantile(s->v[WITHOUT], ROUNDS, 50),
	       quantile(s->v[WITH], ROUNDS, 50), "",
	       quantile(s->v[WITH], ROUNDS, 50) - quantile(s->v[WITHOUT], ROUNDS, 50),
	       quantile(s->v[WITH], ROUNDS, 0) - quantile(s->v[WITHOUT], ROUNDS, 0),
	       quantile(ratio, ROUNDS, 50), quantile(ratio, ROUNDS, 25), quantile(ratio, ROUNDS, 75));
}

int main(void)
{
	char faults[64], marks[64];
	struct target t, foreign;
	struct series s;

	if (must_skip())
		return 77;
	target__start(&t, TARGET_MEMORY);
	target__start(&foreign, TARGET_MEMORY);
	snprintf(faults, sizeof(faults), "faultcost %d %d", LOOPS, PAGES);
	snprintf(marks, sizeof(marks), "markcost %d", CALLS);
	measure(&s, &t, &t, marks, CALLS);
	print("probe hit, nothing happened", &s);
	measure(&s, &t, &t, faults, (double)LOOPS * PAGES);
	print("page fault, traced", &s);
	measure(&s, &t, &foreign, faults, (double)LOOPS * PAGES);
	print("page fault, another process", &s);
	target__stop(&t);
	target__stop(&foreign);
	return 0;
}
