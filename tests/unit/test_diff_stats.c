/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * diff_stats__interval(): of two runs that do not differ it has zero in it as often as it says, also
 * where steps are skewed, or alike to those before them; a difference it finds.
 */
#include <math.h>
#include <stdio.h>

#include "diff/diff_priv.h"
#include "random.h"
#include "suite.h"

#define TRIALS 400
#define STEPS_MAX 400

static double uniform(void)
{
	return ((double)(next_random() >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * acos(-1) * uniform());
}

/* Steps about 100 long: each depends on the one before by `memory`, and `skew` makes some long. */
static void make_steps(double *v, uint32_t cnt, double mean, double memory, double skew)
{
	double x = normal();

	for (uint32_t i = 0; i < cnt; i++) {
		x = memory * x + sqrt(1 - memory * memory) * normal();
		v[i] = mean * (1 + 0.1 * (skew > 0 ? (exp(skew * x) - exp(skew * skew / 2)) : x));
	}
}

static struct diff_interval interval(const double *a, const double *b, uint32_t cnt, double ns)
{
	const struct diff_sample of[DIFF_SIDES] = { { a, cnt, ns }, { b, cnt, ns } };

	return diff_stats__interval(of);
}

/* The share of trials whose interval has no zero in it. */
static double found_in(uint32_t cnt, double ns, double other, double memory, double skew)
{
	static double a[STEPS_MAX], b[STEPS_MAX];
	uint32_t sum = 0;

	for (int i = 0; i < TRIALS; i++) {
		struct diff_interval in;

		make_steps(a, cnt, 100, memory, skew);
		make_steps(b, cnt, other, memory, skew);
		in = interval(a, b, cnt, ns);
		sum += diff_interval__is_certain(&in);
	}
	return (double)sum / TRIALS;
}

/* Of steps that take so long that the number of blocks is the largest one. */
static double found(uint32_t cnt, double other, double memory, double skew)
{
	return found_in(cnt, 1e9, other, memory, skew);
}

/* 5 % of 400 trials are 20, and by chance no more than 33 in 999 of 1,000 cases. */
#define OFTEN 0.085

TEST("silent where there is no difference")
{
	static const struct {
		uint32_t steps;
		double memory, skew, most;
	} rows[] = {
		{ 8, 0, 0, OFTEN },
		{ 20, 0, 0, OFTEN },
		{ 100, 0, 0, OFTEN },
		{ 20, 0, 1, OFTEN },
		{ 100, 0, 1, OFTEN },
		{ 100, 0.5, 0, OFTEN },
		{ 400, 0.5, 0, OFTEN },
		{ 400, 0.8, 0.5, OFTEN },
		/* blocks of two steps know little of what lasts for ten: */
		{ 20, 0.5, 0, 0.25 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		double share = found(rows[i].steps, 100, rows[i].memory, rows[i].skew);

		printf("%u steps, memory %.1f, skew %.1f: %.1f%%\n", rows[i].steps, rows[i].memory,
		       rows[i].skew, 100 * share);
		CU_ASSERT(share <= rows[i].most);
	}
}

TEST("what lasts for a second is no difference of short steps")
{
	double many = found(400, 100, 0.95, 0), few = found_in(400, 15e6, 100, 0.95, 0);

	printf("blocks of 25 steps: %.1f%%, of a second: %.1f%%\n", 100 * many, 100 * few);
	CU_ASSERT(many > 0.15 && few < 0.12);
	CU_ASSERT(found_in(400, 15e6, 105, 0.5, 0) > 0.9);
	CU_ASSERT(found_in(20, 1e6, 120, 0, 0) > 0.9); /* four blocks */
}

TEST("finds a difference")
{
	CU_ASSERT(found(20, 120, 0, 0) > 0.97);
	CU_ASSERT(found(100, 110, 0.5, 0) > 0.9);
	CU_ASSERT(found(400, 105, 0, 1) > 0.75);
}

TEST("means are exact, and the same input has the same interval")
{
	double a[10], b[10];
	struct diff_interval one, two;

	for (int i = 0; i < 10; i++) {
		a[i] = i;
		b[i] = 2 * i + 1;
	}
	one = interval(a, b, 10, 1e9);
	two = interval(a, b, 10, 1e9);
	CU_ASSERT_DOUBLE_EQUAL(one.a, 4.5, 1e-9);
	CU_ASSERT_DOUBLE_EQUAL(one.diff, 5.5, 1e-9);
	CU_ASSERT(one.low < one.diff && one.diff < one.high);
	CU_ASSERT(!(one.low < two.low) && !(one.low > two.low) && !(one.high < two.high));
}

SUITE("diff_stats")
