/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See event_watch.h. */
#include "sample/event_watch.h"

#include <string.h>

#include "base/containers.h"

uint64_t step_history__median(const struct step_history *h)
{
	uint64_t sorted[STEP_HISTORY_MAX];
	uint32_t mid = h->cnt / 2;

	if (!h->cnt)
		return 0;
	memcpy(sorted, h->ns, h->cnt * sizeof(*sorted));
	sort__u64(sorted, h->cnt);
	if (h->cnt % 2)
		return sorted[mid];
	return sorted[mid - 1] + (sorted[mid] - sorted[mid - 1]) / 2;
}

bool step_history__is_slow(const struct step_history *h, uint64_t ns, double factor)
{
	uint64_t median = step_history__median(h);

	if (h->cnt < STEP_HISTORY_MIN || (double)ns <= factor * (double)median ||
	    ns < median + STEP_SLOW_NS)
		return false;
	for (uint32_t i = 0; i < h->cnt; i++)
		if (h->ns[i] >= ns)
			return false;
	return true;
}

void step_history__add(struct step_history *h, uint64_t ns)
{
	h->ns[h->next] = ns;
	h->next = (h->next + 1) % STEP_HISTORY_MAX;
	h->cnt += h->cnt < STEP_HISTORY_MAX;
}
