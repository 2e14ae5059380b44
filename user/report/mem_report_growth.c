/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How a value grows from period to period: a bounded sample of its values at their ends, and the
 * median slope of that. Knows no memory.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "report/report_priv.h"

void mr_growth__init(struct mr_growths *g)
{
	const struct mr_growth none = { .period = -1, .stride = 1 };

	*g = (struct mr_growths){ none, none };
}

static void hold(struct mr_growth *g, int64_t period, uint64_t value)
{
	if (g->ended++ % g->stride)
		return;
	if (g->cnt == MR_GROWTH_HELD) {
		for (uint32_t i = 0; i < MR_GROWTH_HELD / 2; i++)
			g->held[i] = g->held[2 * i];
		g->cnt = MR_GROWTH_HELD / 2;
		g->stride *= 2;
	}
	g->held[g->cnt].period = period;
	g->held[g->cnt++].value = value;
}

/* The value that held until now was that of the end of the period before. Threads may lag a step
 * behind. */
static void value_until(struct mr_growth *g, int64_t period, uint64_t value)
{
	if (period >= 0 ? period <= g->period : g->over)
		return;
	if (g->period >= 0 && !g->over)
		hold(g, g->period, value);
	g->over = period < 0; /* the step ended and no other began */
	if (period >= 0)
		g->period = period;
}

void mr_growth__at(struct mr_growths *g, int64_t step, int64_t time_period, uint64_t value)
{
	value_until(&g->by_step, step, value);
	value_until(&g->by_time, time_period, value);
}

/* Of the line through the values at the ends of the periods: the median over all pairs. */
static double median_slope(const struct mr_growth *g, const double *values)
{
	double *all = xcalloc((size_t)g->cnt * (g->cnt - 1) / 2, sizeof(*all));
	double slope;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->cnt; i++)
		for (uint32_t j = i + 1; j < g->cnt; j++)
			all[n++] = (values[j] - values[i]) /
				   (double)(g->held[j].period - g->held[i].period);
	sort__doubles(all, n);
	slope = all[(n - 1) / 2];
	free(all);
	return slope;
}

/*
 * What goes up and down has not grown, wherever the window cuts it: growth is what is never given
 * back. So each value becomes the lowest from there on. What rises once then is a block that was
 * live at the end, or was made once: growth rises in some periods, and does so without its highest
 * rise too.
 */
static double lasting_slope(const struct mr_growth *g, double *values)
{
	double slope, highest = 0, total,
		      span = (double)(g->held[g->cnt - 1].period - g->held[0].period);
	uint32_t rises = 0;

	for (uint32_t i = g->cnt - 1; i-- > 0;) {
		double rise;

		if (values[i] > values[i + 1])
			values[i] = values[i + 1];
		rise = values[i + 1] - values[i];
		rises += rise > 0;
		highest = rise > highest ? rise : highest;
	}
	slope = median_slope(g, values);
	total = values[g->cnt - 1] - values[0];
	return rises < MR_LEAK_PERIODS_MIN || (total - highest) * 2 < slope * span ? 0 : slope;
}

bool mr_growth__slope(const struct mr_growths *growths, bool by_step, double *slope)
{
	const struct mr_growth *g = by_step ? &growths->by_step : &growths->by_time;
	double values[MR_GROWTH_HELD];
	bool falls;

	for (uint32_t i = 0; i < g->cnt; i++)
		values[i] = (double)g->held[i].value;
	if (g->cnt < MR_GROWTH_MIN)
		return false;
	falls = median_slope(g, values) < 0; /* mirrored: a fall is a rise of the negative value */
	for (uint32_t i = 0; falls && i < g->cnt; i++)
		values[i] = -values[i];
	*slope = lasting_slope(g, values);
	*slope = falls ? -*slope : *slope;
	return true;
}

/* Sizes of processes go up and down by what malloc gives back. */
#define NOISE_BYTES (1 << 20)
#define NOISE_SHARE 0.01

bool mr_growth__noisy_slope(const struct mr_growths *growths, bool by_step, double *slope)
{
	const struct mr_growth *g = by_step ? &growths->by_step : &growths->by_time;
	double all, change, last;

	if (!mr_growth__slope(growths, by_step, slope))
		return false;
	last = (double)g->held[g->cnt - 1].value;
	change = last - (double)g->held[0].value;
	all = *slope * (double)(g->held[g->cnt - 1].period - g->held[0].period);
	if (all < 0) {
		all = -all;
		change = -change;
	}
	return all > NOISE_BYTES && all > last * NOISE_SHARE && change > all / 2;
}
