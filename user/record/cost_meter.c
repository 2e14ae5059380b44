/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See cost_meter.h. */
#include "record/cost_meter.h"

void cost_meter__clear(struct cost_meter *m)
{
	hashmap__clear(&m->hits);
	*m = (struct cost_meter){ .cnt = 0 };
}

void cost_meter__settle(struct cost_meter *m)
{
	uint64_t *known = hashmap__get(&m->hits, m->tgid, 0), sum = m->run + (known ? *known : 0);

	if (!m->run)
		return;
	/* without memory the hits count as those of the process with the most, which can only end a window too early */
	if (known)
		*known = sum;
	else if (hashmap__put(&m->hits, m->tgid, 0, sum))
		sum = m->max + m->run;
	m->cnt += m->run;
	m->run = 0;
	if (sum > m->max)
		m->max = sum;
}

uint64_t cost_meter__of_busiest(struct cost_meter *m, uint64_t hits)
{
	cost_meter__settle(m);
	if (!m->cnt)
		return hits;
	return (uint64_t)((double)hits * (double)m->max / (double)m->cnt);
}

uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid, uint64_t hits)
{
	const uint64_t *own;

	cost_meter__settle(m);
	own = hashmap__get(&m->hits, tgid, 0);
	if (!own)
		return 0;
	return *own + (*own == m->max && hits > m->cnt ? hits - m->cnt : 0);
}
