/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See recorder_priv.h. */
#include "record/recorder_priv.h"

#include <stddef.h>

void cost_meter__clear(struct cost_meter *m)
{
	hashmap__clear(&m->hits);
	*m = (struct cost_meter){ .cnt = 0 };
}

void cost_meter__settle(struct cost_meter *m)
{
	uint64_t *known = m->run ? hashmap__get(&m->hits, m->tgid, 0) : NULL;

	if (known)
		*known += m->run;
	else {
		if (m->run)
			hashmap__put(&m->hits, m->tgid, 0, m->run);
	} /* without memory they count for each, which can only be too much */
	m->cnt += m->run;
	m->run = 0;
}

uint64_t cost_meter__of(struct cost_meter *m, uint32_t tgid)
{
	const uint64_t *own;

	cost_meter__settle(m);
	own = hashmap__get(&m->hits, tgid, 0);
	return m->nobodys + (own ? *own : 0);
}
