/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Counts of BPF programs per processor: by kind for all processes, and the hits without a record of
 * each process. */
#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"

#include "probe/probe_state.h"

uint64_t hit_counts__sum(const struct bpf_map *map, uint32_t key)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *v, sum = 0;

	if (cpus <= 0)
		return 0;
	v = xcalloc((size_t)cpus, sizeof(*v));
	if (!bpf_map_lookup_elem(bpf_map__fd(map), &key, v))
		for (int i = 0; i < cpus; i++)
			sum += v[i];
	free(v);
	return sum;
}

int hit_counts__add(const struct probe_set *ps, uint32_t tgid)
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(ps->skel->maps.bare_hits), err = 0;
	uint64_t *none = xcalloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*none));

	if (bpf_map_update_elem(fd, &tgid, none, BPF_NOEXIST) && errno != EEXIST)
		err = -errno;
	free(none);
	return err;
}

uint64_t probe_set__bare_hits(const struct probe_set *ps, uint32_t tgid)
{
	return hit_counts__sum(ps->skel->maps.bare_hits, tgid);
}
