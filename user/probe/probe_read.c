/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What user space reads of a probe set: counters, rings, losses. Changes nothing but what it takes out.
 */
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/probe_state.h"

static uint64_t sum_counter(struct probe_set *ps, uint32_t id)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *v, sum = 0;

	if (cpus <= 0)
		return 0;
	v = calloc((size_t)cpus, sizeof(*v));
	if (v && !bpf_map_lookup_elem(bpf_map__fd(ps->skel->maps.counters), &id, v))
		for (int i = 0; i < cpus; i++)
			sum += v[i];
	free(v);
	return sum;
}

static uint64_t sum_missed(struct probe_set *ps)
{
	struct bpf_program *prog;
	uint64_t sum = 0;

	bpf_object__for_each_program(prog, ps->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);
		int fd = bpf_program__fd(prog);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len))
			sum += info.recursion_misses;
	}
	return sum;
}

uint64_t probe_set__counter(struct probe_set *ps, uint32_t id)
{
	if (id == PTB_CNT_HITS)
		return rings__delivered(ps->rings);
	if (id == PTB_CNT_MISSED)
		return sum_missed(ps);
	return id < PTB_CNT_BPF_MAX ? sum_counter(ps, id) : 0;
}

uint32_t probe_set__ring_cnt(const struct probe_set *ps)
{
	return rings__cnt(ps->rings);
}

int64_t probe_set__drain(struct probe_set *ps, uint32_t ring, ring_fn fn, void *arg)
{
	return rings__drain(ps->rings, ring, fn, arg);
}

double probe_set__fill(const struct probe_set *ps)
{
	return rings__fill(ps->rings);
}

int probe_set__poll_fd(const struct probe_set *ps)
{
	return rings__wake_fd(ps->rings);
}

/*
 * The programs set the first time if it is 0, then the last, then count; a loss that falls between
 * the two exchanges here is counted next time with no first time of its own, and begins where this
 * ended.
 */
void probe_set__take_loss(struct probe_set *ps, uint32_t ring, struct ring_loss *out)
{
	struct ptbpf_bpf__bss *b = ps->skel->bss;
	uint64_t first;

	memset(out, 0, sizeof(*out));
	if (ring >= rings__cnt(ps->rings))
		return;
	out->cnt = __atomic_exchange_n(&b->loss_cnt[ring], 0, __ATOMIC_SEQ_CST);
	if (!out->cnt)
		return;
	first = __atomic_exchange_n(&b->loss_first_ns[ring], 0, __ATOMIC_SEQ_CST);
	out->begin_ns = first ? first : ps->loss_seen_ns[ring];
	out->end_ns = __atomic_load_n(&b->loss_last_ns[ring], __ATOMIC_SEQ_CST);
	if (out->end_ns < out->begin_ns)
		out->end_ns = out->begin_ns;
	ps->loss_seen_ns[ring] = out->end_ns;
}
