/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See join.h: from the files' names to the reader of them all. */
#define LOG_DOMAIN "captures"
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "ranks/ranks_priv.h"

void join__close(struct join *j)
{
	if (!j)
		return;
	if (j->cnt > 1)
		capture_reader__close(j->whole);
	for (uint32_t i = 0; i < j->cnt; i++) {
		capture_reader__close(j->inputs[i].cr);
		remap__clear(&j->inputs[i].map);
		hashmap__clear(&j->inputs[i].proc_ids);
		free(j->inputs[i].procs);
	}
	collectives__clear(&j->calls);
	free(j->machines);
	free(j->inputs);
	free(j->readers);
	free(j);
}

static void say_what(const struct join *j)
{
	uint32_t procs = 0, ranks = 0;

	for (uint32_t i = 0; i < j->cnt; i++) {
		procs += j->inputs[i].proc_cnt;
		for (uint32_t k = 0; k < j->inputs[i].proc_cnt; k++)
			ranks += j->inputs[i].procs[k].has_rank;
	}
	pr_info("%u captures of %u machine%s, %u process%s, %u with a rank; %llu collectives matched between "
		"%u pairs of processes",
		j->cnt, j->machine_cnt, j->machine_cnt == 1 ? "" : "s", procs,
		procs == 1 ? "" : "es", ranks, (unsigned long long)j->collectives, j->matched);
	if (j->unmatched)
		pr_warn("%u process%s called no collective that another one called at that place of its order",
			j->unmatched, j->unmatched == 1 ? "" : "es");
}

/* A record of a ring of one of them. */
static const struct ptb_rec_hdr *map_record(void *arg, uint32_t part, const struct ptb_rec_hdr *rec,
					    bool *bad)
{
	struct join *j = arg;
	struct remap *map = &j->inputs[part].map;
	uint64_t before = map->left_out;

	if (remap__record(map, rec, j->buf))
		return (const void *)j->buf;
	*bad = map->left_out > before;
	return NULL;
}

static uint64_t map_time(void *arg, uint32_t part, uint64_t ns)
{
	const struct join *j = arg;

	return ns == UINT64_MAX ? ns : remap__time(&j->inputs[part].map, ns);
}

static int open_files(struct join *j)
{
	const struct join_opts *opts = j->opts;
	int err = 0;

	for (; j->cnt < opts->cnt && !err; j->cnt++) {
		struct join_input *in = &j->inputs[j->cnt];

		in->path = opts->paths[j->cnt];
		err = capture_reader__open(in->path, opts->fds[j->cnt], &in->cr);
		j->readers[j->cnt] = in->cr;
	}
	return err;
}

static int join_inputs(struct join *j)
{
	int err = join__read_inputs(j);

	if (err)
		return err;
	join__align(j);
	j->parts = (struct capture_join){ .parts = j->readers,
					  .cnt = j->cnt,
					  .arg = j,
					  .control = join__control,
					  .record = map_record,
					  .time = map_time };
	capture_reader__join(&j->parts, &j->whole);
	say_what(j);
	return 0;
}

int join__open(const struct join_opts *opts, struct join **out)
{
	struct join *j = xcalloc(1, sizeof(*j));
	int err;

	j->opts = opts;
	j->by_collectives = opts->by_collectives;
	j->inputs = xcalloc(opts->cnt, sizeof(*j->inputs));
	j->readers = xcalloc(opts->cnt, sizeof(*j->readers));
	collectives__init(&j->calls);
	err = open_files(j);
	if (!err && opts->cnt == 1)
		j->whole = j->inputs[0].cr;
	else if (!err)
		err = join_inputs(j);
	if (err)
		join__close(j);
	else
		*out = j;
	return err;
}

struct capture_reader *join__reader(const struct join *j)
{
	return j->whole;
}
