/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The interval of a difference of means. Step times are skewed, so the interval comes from
 * resampling, and near ones are alike (a garbage collection every so many steps, a machine that is
 * busy for a second), so that blocks of neighbours are drawn, not steps: Politis and Romano's
 * circular block bootstrap. Few blocks make percentiles too narrow; they are widened as Hesterberg
 * (What Teachers Should Know about the Bootstrap, 2014) does.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "diff/diff_priv.h"

void diff_series__add(struct diff_series *s, uint32_t step, double v, uint32_t calls)
{
	s->calls += calls;
	if (s->cnt && s->list[s->cnt - 1].step == step)
		s->list[s->cnt - 1].v += v;
	else
		vec_push(s->list, s->cnt, s->cap, (struct diff_amount){ step, v });
}

struct blocks {
	double *sums; /* sums[i]: of the first i amounts, which are there twice */
	uint32_t cnt, len, blocks;
};

static struct blocks blocks_of(const struct diff_sample *of)
{
	struct blocks b = { .sums = xcalloc(2ULL * of->cnt + 1, sizeof(*b.sums)), .cnt = of->cnt };
	double blocks = fmin(DIFF_BLOCKS, of->cnt * of->step_ns / DIFF_BLOCK_NS);

	b.len = (uint32_t)ceil(of->cnt / fmax(blocks, DIFF_BLOCKS_MIN));
	b.blocks = (of->cnt + b.len - 1) / b.len;
	for (uint32_t i = 0; i < 2 * of->cnt; i++)
		b.sums[i + 1] = b.sums[i] + of->v[i % of->cnt];
	return b;
}

static double mean_of(const struct blocks *b)
{
	return b->sums[b->cnt] / b->cnt;
}

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators. */
static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)(((*state * 0x2545f4914f6cdd1dULL) >> 32) * below >> 32);
}

static double resampled_mean(const struct blocks *b, uint64_t *state)
{
	double sum = 0;

	for (uint32_t i = 0; i < b->blocks; i++) {
		uint32_t at = draw(state, b->cnt);

		sum += b->sums[at + b->len] - b->sums[at];
	}
	return sum / ((double)b->blocks * b->len);
}

/* The share of resampled means that is left out on either side, of so many blocks. */
static double tail(uint32_t blocks)
{
	const double z = 1.959964, f = blocks > 1 ? blocks - 1 : 1;
	/* of Student's distribution: Fisher and Cornish's expansion */
	double t = z + (pow(z, 3) + z) / (4 * f) +
		   (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * f * f);

	return 0.5 * erfc(t * sqrt((f + 1) / f) / sqrt(2));
}

struct diff_interval diff_stats__interval(const struct diff_sample sides[DIFF_SIDES])
{
	struct diff_interval in = { .low = -INFINITY, .high = INFINITY };
	struct blocks of[DIFF_SIDES];
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	double means[DIFF_RESAMPLES];
	uint32_t out;

	if (!sides[DIFF_A].cnt || !sides[DIFF_B].cnt)
		return in;
	of[DIFF_A] = blocks_of(&sides[DIFF_A]);
	of[DIFF_B] = blocks_of(&sides[DIFF_B]);
	in.a = mean_of(&of[DIFF_A]);
	in.b = mean_of(&of[DIFF_B]);
	in.diff = in.b - in.a;
	for (uint32_t i = 0; i < DIFF_RESAMPLES; i++) {
		double before = resampled_mean(&of[DIFF_A], &state);

		means[i] = resampled_mean(&of[DIFF_B], &state) - before;
	}
	sort__doubles(means, DIFF_RESAMPLES);
	out = (uint32_t)(DIFF_RESAMPLES * tail(of[DIFF_A].blocks < of[DIFF_B].blocks ?
						       of[DIFF_A].blocks :
						       of[DIFF_B].blocks));
	in.low = means[out];
	in.high = means[DIFF_RESAMPLES - 1 - out];
	free(of[DIFF_A].sums);
	free(of[DIFF_B].sums);
	return in;
}
