/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The cost of one chunk of an agent for the thread that sends it, by its size, by the kind of no-operation at the
 * site and by the method of attaching; compared with a copy of as many bytes in user space. Prints, asserts nothing.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "agent_target.h"
#include "base/clock.h"
#include "quantile.h"

#define SENDS 300 /* at once: so many full ones fit into the ring */
#define ROUNDS 31

static void count_bytes(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	(void)ring;
	(void)rec;
	*(uint64_t *)arg += len;
}

/* Median over rounds, ns a chunk; ps NULL: no tracer. */
static double send_ns(struct agent_target *at, struct probe_set *ps, uint32_t len)
{
	double ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t sum = 0, bytes = 0;

		target__send(&at->t, "cost %d %u", SENDS, len);
		if (!target__answer(&at->t, &sum))
			exit(1);
		ns[i] = (double)sum / SENDS;
		for (uint32_t r = 0; ps && r < probe_set__ring_cnt(ps); r++)
			probe_set__drain(ps, r, count_bytes, &bytes);
		if (ps && bytes < (uint64_t)SENDS * len)
			exit(1);
	}
	return quantile(ns, ROUNDS, 50);
}

static double copy_ns(uint32_t len)
{
	static char to[1 << 24], from[PTB_CHUNK_MAX];
	double ns[ROUNDS];

	memset(to, 1, sizeof(to));
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = clock__cpu_ns();

		for (uint32_t k = 0; k < SENDS; k++)
			memcpy(to + (k * PTB_CHUNK_MAX) % sizeof(to), from, len);
		ns[i] = (double)(clock__cpu_ns() - begin) / SENDS;
	}
	return quantile(ns, ROUNDS, 50);
}

static double listened_ns(const char *path, enum links links, uint32_t len)
{
	struct probe_set *ps = open_agent_set(1 << 25, links);
	struct agent_target at;
	double ns;

	agent_target__start(&at, path);
	if (probe_set__agent_listen(ps, add_agent_process(ps, &at), &at.pa))
		exit(1);
	ns = send_ns(&at, ps, len);
	probe_set__free(ps);
	agent_target__stop(&at);
	return ns;
}

/* One thread sends so many full chunks without a pause, as CUPTI's buffers come; how many are lost. */
static void burst(uint64_t ring_bytes, uint32_t cnt)
{
	struct probe_set *ps = open_agent_set(ring_bytes, LINKS_MULTI);
	struct pollfd polls[2] = { { .fd = probe_set__poll_fd(ps), .events = POLLIN },
				   { .events = POLLIN } };
	uint64_t lost = 0, bytes = 0, sum;
	struct agent_target at;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	polls[1].fd = at.t.from;
	if (probe_set__agent_listen(ps, add_agent_process(ps, &at), &at.pa))
		exit(1);
	for (int i = 0; i < ROUNDS; i++) {
		target__send(&at.t, "cost %u %u", cnt, PTB_CHUNK_FULL);
		do {
			poll(polls, 2, -1);
			for (uint32_t r = 0; r < probe_set__ring_cnt(ps); r++)
				probe_set__drain(ps, r, count_bytes, &bytes);
		} while (!polls[1].revents);
		target__answer(&at.t, &sum);
	}
	lost = probe_set__counter(ps, PTB_CNT_RING_FULL);
	printf("%8lu %10u %10lu\n", (unsigned long)(ring_bytes >> 10), cnt * ROUNDS, (unsigned long)lost);
	probe_set__free(ps);
	agent_target__stop(&at);
}

int main(void)
{
	static const uint32_t lens[] = { 64, 512, 4096, PTB_CHUNK_FULL, PTB_CHUNK_MAX };
	struct agent_target at;

	if (must_skip())
		return 77;
	agent_target__start(&at, TARGET_AGENT_NOP1);
	printf("%8s %10s %10s %12s %12s %12s   ns a chunk\n", "bytes", "memcpy", "no tracer", "nop",
	       "5-byte nop", "tracefs");
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++)
		printf("%8u %10.0f %10.0f %12.0f %12.0f %12.0f\n", lens[i], copy_ns(lens[i]),
		       send_ns(&at, NULL, lens[i]),
		       listened_ns(TARGET_AGENT_NOP1, LINKS_MULTI, lens[i]),
		       listened_ns(TARGET_AGENT_NOP5, LINKS_MULTI, lens[i]),
		       listened_ns(TARGET_AGENT_NOP1, LINKS_TRACE, lens[i]));
	printf("\n%8s %10s %10s   full chunks, %u at once\n", "ring KiB", "sent", "lost", 640);
	for (uint64_t bytes = 1 << 20; bytes <= 1 << 24; bytes *= 2)
		burst(bytes, 640);
	return agent_target__stop(&at) ? 1 : 0;
}
