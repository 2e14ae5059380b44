/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See merge.h: from the files' names to the new capture. */
#define LOG_DOMAIN "merge"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "ranks/merge_priv.h"

static void merge_free(struct merge *m)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		capture_reader__close(m->inputs[i].cr);
		remap__clear(&m->inputs[i].map);
		hashmap__clear(&m->inputs[i].proc_ids);
		free(m->inputs[i].procs);
	}
	collectives__clear(&m->calls);
	free(m->machines);
	free(m->inputs);
	free(m);
}

static void say_what(const struct merge *m)
{
	uint32_t procs = 0, ranks = 0;

	for (uint32_t i = 0; i < m->cnt; i++) {
		procs += m->inputs[i].proc_cnt;
		for (uint32_t k = 0; k < m->inputs[i].proc_cnt; k++)
			ranks += m->inputs[i].procs[k].has_rank;
	}
	pr_info("%s: %u captures of %u machine%s, %u process%s, %u with a rank; %llu collectives matched between "
		"%u pairs of processes",
		m->opts->output, m->cnt, m->machine_cnt, m->machine_cnt == 1 ? "" : "s", procs,
		procs == 1 ? "" : "es", ranks, (unsigned long long)m->collectives, m->matched);
	if (m->unmatched)
		pr_warn("%u process%s called no collective that another one called at that place of its order",
			m->unmatched, m->unmatched == 1 ? "" : "es");
}

int merge__run(const struct merge_opts *opts, uint64_t *left_out)
{
	struct merge *m = calloc(1, sizeof(*m));
	int err = -ENOMEM;

	*left_out = 0;
	if (!m)
		goto out;
	m->opts = opts;
	m->inputs = calloc(opts->path_cnt, sizeof(*m->inputs));
	if (!m->inputs || collectives__init(&m->calls))
		goto out;
	m->cnt = opts->path_cnt;
	err = merge__open_inputs(m);
	if (!err)
		err = merge__align(m);
	if (!err)
		err = merge__write(m);
	if (!err)
		say_what(m);
	for (uint32_t i = 0; i < m->cnt && !err; i++)
		*left_out += m->inputs[i].map.left_out;
out:
	if (err == -ENOMEM && !log__has_error())
		pr_error("cannot merge: %s", errstr(err));
	if (m)
		merge_free(m);
	return err;
}
