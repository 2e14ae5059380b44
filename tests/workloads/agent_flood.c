/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A program with an agent that sends records that fill a tracer's memory, as fast as it can, while a tracer is
 * attached: names, clocks, streams, operators that wait for a clock. Its argument
 * is a list of these, separated by commas, or "all". Prints "ready", then "sent N" now and then.
 *
 * "slow": sends nothing, and acts on requests half a second after they were raised; then it prints "acted".
 *
 * "forks N": at a line of its input it has N children, one after the other, and prints "forked".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_agent.h"
#include "ptb_agent.h"

extern struct ptb_agent_ctl ptbpf_agent_ctl;

static struct {
	struct ptb_chunk c;
	char room[PTB_CHUNK_MAX - sizeof(struct ptb_chunk)];
} u;
static uint32_t next_stream = 10, next_name, seqs[8];
static uint64_t next_rf;

static void chunk(uint32_t kind, uint32_t stream)
{
	u.c = (struct ptb_chunk){ .magic = PTB_CHUNK_MAGIC,
				  .abi = PTB_AGENT_ABI,
				  .kind = (uint16_t)kind,
				  .len = sizeof(u.c),
				  .tid = (uint32_t)getpid(),
				  .stream = stream };
	u.c.seq = stream < 8 ? ++seqs[stream] : 1;
}

static void *add(uint32_t kind, uint32_t len, uint32_t aux)
{
	struct ptb_arec *a = (void *)((char *)&u.c + u.c.len);

	if (u.c.len + len > PTB_CHUNK_FULL)
		return NULL;
	memset(a, 0, len);
	*a = (struct ptb_arec){ .len = (uint16_t)len, .kind = (uint8_t)kind, .aux = aux, .ticks = next_rf };
	u.c.len += len;
	return a;
}

static void names(void)
{
	struct ptb_arec_gpu_name *n;

	chunk(PTB_CHUNK_GPU, 1);
	while ((n = add(PTB_AREC_GPU_NAME, (uint32_t)sizeof(*n) + 1000, ++next_name))) {
		n->bytes = 1000;
		memset(n + 1, 'x', 1000);
		memcpy(n + 1, &next_name, sizeof(next_name));
	}
}

static void clocks(void)
{
	struct ptb_arec_gpu_clock *k;

	chunk(PTB_CHUNK_STATE, 2);
	while ((k = add(PTB_AREC_GPU_CLOCK, sizeof(*k), 0)))
		k->mono_ns = ++next_rf;
}

static void streams(void)
{
	chunk(PTB_CHUNK_STATE, ++next_stream);
}

/* There is no clock, so they wait. */
static void held(void)
{
	struct ptb_arec_begin *b;
	struct ptb_arec_end *e;

	chunk(PTB_CHUNK_OPS, 3);
	while ((b = add(PTB_AREC_BEGIN, sizeof(*b), 0))) {
		b->rf = ++next_rf;
		e = add(PTB_AREC_END, sizeof(*e), 0);
		if (e)
			e->rf = next_rf;
	}
}

static const struct {
	const char *name;
	void (*make)(void);
} kinds[] = { { "names", names }, { "clocks", clocks }, { "streams", streams }, { "held", held } };

static __attribute__((noinline)) void have_child(void)
{
	pid_t child = vfork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static int fork_at_lines(long n)
{
	while (getchar() == '\n') {
		while (n-- > 0)
			have_child();
		printf("forked\n");
		fflush(stdout);
	}
	return 0;
}

static int act_slowly(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 }, slow = { .tv_nsec = 500000000 };
	uint32_t requests;

	while (!((requests = fake_agent__semaphores()) & 1u << PTB_AGENT_SITE_GPU))
		nanosleep(&nap, NULL);
	nanosleep(&slow, NULL);
	printf("acted\n");
	fflush(stdout);
	ptbpf_agent_ctl.requests = requests;
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	const char *what = argc > 1 ? argv[1] : "all";
	unsigned long sent = 0;

	ptbpf_agent_ctl.state = PTB_AGENT_ALIVE | PTB_AGENT_CUPTI | PTB_AGENT_GPU_ON | PTB_AGENT_TSC;
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(what, "slow"))
		return act_slowly();
	ptbpf_agent_ctl.requests = 1u << PTB_AGENT_SITE_GPU;
	if (!strcmp(what, "forks"))
		return fork_at_lines(argc > 2 ? atol(argv[2]) : 1);
	for (;;) {
		if (!(fake_agent__semaphores() & 1u << PTB_AGENT_SITE_CHUNK)) {
			nanosleep(&nap, NULL);
			continue;
		}
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (!strcmp(what, "all") || strstr(what, kinds[i].name)) {
				kinds[i].make();
				fake_agent__send(&u.c, u.c.len);
				sent++;
			}
		if (sent % 4096 < 4)
			printf("sent %lu\n", sent);
		fflush(stdout);
	}
}
