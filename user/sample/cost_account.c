/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What windows have cost each process, as long as it lives (--max-overhead): so a process that
 * costs much has shorter windows, or none, and no other has.
 */
#include "sample/daemon.h"

#include <stdlib.h>

#include "base/containers.h"

static struct cost_row *find(const struct cost_account *a, pid_t pid, uint64_t start)
{
	for (uint32_t i = 0; i < a->cnt; i++)
		if (a->rows[i].pid == pid && a->rows[i].start == start)
			return &a->rows[i];
	return NULL;
}

struct cost_row cost_account__of(const struct cost_account *a, pid_t pid, uint64_t start)
{
	const struct cost_row *row = find(a, pid, start);

	return row ? *row : (struct cost_row){ .pid = pid, .start = start };
}

static struct cost_row *add(struct cost_account *a, pid_t pid, uint64_t start)
{
	const struct cost_row fresh = { .pid = pid, .start = start };
	struct cost_row *oldest = a->rows;

	if (a->cnt < COST_ACCOUNT_MAX) {
		vec_push(a->rows, a->cnt, a->cap, fresh);
		return &a->rows[a->cnt - 1];
	}
	for (uint32_t i = 0; i < a->cnt; i++)
		if (a->rows[i].used < oldest->used)
			oldest = &a->rows[i];
	*oldest = fresh;
	return oldest;
}

void cost_account__charge(struct cost_account *a, pid_t pid, uint64_t start, double ns, bool over)
{
	struct cost_row *row = find(a, pid, start);

	if (!row)
		row = add(a, pid, start);
	row->spent_ns += ns;
	row->over |= over;
	row->used = ++a->charges;
}

double cost_account__max_ns(const struct cost_account *a)
{
	double max = 0;

	for (uint32_t i = 0; i < a->cnt; i++)
		if (a->rows[i].spent_ns > max)
			max = a->rows[i].spent_ns;
	return max;
}

void cost_account__clear(struct cost_account *a)
{
	free(a->rows);
	*a = (struct cost_account){ .cnt = 0 };
}
