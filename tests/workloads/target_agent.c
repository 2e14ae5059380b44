/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A program with an agent in it that sends on commands from stdin, and answers "done <number>". */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_agent.h"
#include "ptb_agent.h"

#define PAGE 4096

static void must(int ok)
{
	if (!ok)
		abort();
}

/* A chunk in which every byte depends on its position; the test makes the same (fill_chunk there). */
static void fill(struct ptb_chunk *c, uint32_t len, uint32_t stream, uint32_t seq)
{
	uint8_t *body = (uint8_t *)(c + 1);

	memset(c, 0, sizeof(*c));
	c->magic = PTB_CHUNK_MAGIC;
	c->abi = PTB_AGENT_ABI;
	c->kind = PTB_CHUNK_OPS;
	c->len = len;
	c->tid = (uint32_t)syscall(SYS_gettid);
	c->stream = stream;
	c->seq = seq;
	for (uint32_t i = 0; i < len - sizeof(*c); i++)
		body[i] = (uint8_t)(stream * 31 + seq * 7 + i + (i >> 8));
}

struct sender {
	pthread_t thread;
	uint32_t cnt, len, stream;
};

/* len 0: sizes that change from chunk to chunk, the largest among them */
static void *send_many(void *arg)
{
	uint64_t room[PTB_CHUNK_MAX / 8];
	const struct sender *s = arg;

	for (uint32_t i = 1; i <= s->cnt; i++) {
		uint32_t len = s->len;

		if (!len)
			len = PTB_CHUNK_MAX - (i * 1048 + s->stream * 8) % (PTB_CHUNK_MAX - 32);
		fill((void *)room, len, s->stream, i);
		fake_agent__send(room, len);
	}
	return NULL;
}

static uint64_t chunks(uint32_t cnt, uint32_t len, uint32_t threads)
{
	struct sender s[64] = {};

	for (uint32_t i = 0; i < threads && i < 64; i++) {
		s[i].cnt = cnt;
		s[i].len = len;
		s[i].stream = i + 1;
		must(!pthread_create(&s[i].thread, NULL, send_many, &s[i]));
	}
	for (uint32_t i = 0; i < threads && i < 64; i++)
		pthread_join(s[i].thread, NULL);
	return cnt * threads;
}

static uint64_t now_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t cost(uint32_t cnt, uint32_t len)
{
	uint64_t room[PTB_CHUNK_MAX / 8], begin;

	fill((void *)room, len, 1, 1);
	begin = now_cpu();
	for (uint32_t i = 0; i < cnt; i++)
		fake_agent__send(room, len);
	return now_cpu() - begin;
}

/* A file with a chunk in it, mapped anew: none of its pages is there yet. */
static uint8_t *fresh_file(uint32_t len)
{
	int fd = memfd_create("chunk", 0);
	uint8_t *p, *page = calloc(1, PTB_CHUNK_MAX);

	must(fd >= 0 && page);
	fill((void *)page, len, 1, 1);
	must(pwrite(fd, page, len, 0) == (ssize_t)len && !ftruncate(fd, PTB_CHUNK_MAX + PAGE));
	p = mmap(NULL, PTB_CHUNK_MAX + PAGE, PROT_READ, MAP_SHARED, fd, 0);
	must(p != MAP_FAILED);
	close(fd);
	free(page);
	return p;
}

/* Pointers and lengths that are no chunk's. The kernel's half has its top bit set. */
static uint64_t hostile(void)
{
	static uint64_t good[PTB_CHUNK_MAX / 8 + 16];
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const uint64_t lengths[] = { 0,
					    8,
					    39,
					    41,
					    1001,
					    PTB_CHUNK_MAX + 8,
					    1 << 20,
					    ~0ull,
					    ~7ull,
					    1ull << 32,
					    (1ull << 32) + 512 };
	uint64_t n = 0;

	must(p != MAP_FAILED);
	memset(p, 1, 4 * PAGE);
	must(!munmap(p + 2 * PAGE, PAGE) && !mprotect(p + 3 * PAGE, PAGE, PROT_NONE));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++, n++)
		fake_agent__send(good, lengths[i]);
	for (int k = 0; k < 2; k++) { /* a small one and a large one */
		uint64_t len = k ? PTB_CHUNK_MAX : 512;
		const uint64_t addrs[] = { 0,
					   8,
					   (uint64_t)(uintptr_t)p + 2 * PAGE - 256,
					   (uint64_t)(uintptr_t)p + 2 * PAGE,
					   (uint64_t)(uintptr_t)p + 3 * PAGE,
					   0x7ffffffff000,
					   1ull << 47,
					   1ull << 63,
					   0xffffffff81000000,
					   ~0ull - 4095,
					   ~0ull - 7 };

		for (size_t i = 0; i < sizeof(addrs) / sizeof(*addrs); i++, n++)
			fake_agent__send((const void *)(uintptr_t)addrs[i], len);
	}
	munmap(p, 4 * PAGE);
	return n;
}

/* A child that sends on and waits to be killed; its pid. */
static pid_t children[16];
static uint32_t child_cnt;

static uint64_t stay(uint32_t cnt)
{
	struct sender s = { .cnt = cnt, .len = 1000, .stream = 99 };
	int ready[2];
	char byte;
	pid_t pid;

	must(!pipe(ready) && child_cnt < 16);
	pid = fork();
	if (pid == 0) {
		send_many(&s);
		must(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	must(pid > 0 && read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	children[child_cnt++] = pid;
	return (uint64_t)pid;
}

static uint64_t reap(void)
{
	uint64_t n = child_cnt;

	while (child_cnt) {
		kill(children[--child_cnt], SIGKILL);
		waitpid(children[child_cnt], NULL, 0);
	}
	return n;
}

int main(int argc, char **argv)
{
	char line[256];
	uint32_t a, b, c;

	(void)argc;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t answer = 0;

		if (sscanf(line, "chunks %u %u %u", &a, &b, &c) == 3) {
			answer = chunks(a, b, c);
		} else if (sscanf(line, "cost %u %u", &a, &b) == 2) {
			answer = cost(a, b);
		} else if (sscanf(line, "fresh %u", &a) == 1) {
			fake_agent__send(fresh_file(a), a);
		} else if (sscanf(line, "stay %u", &a) == 1) {
			answer = stay(a);
		} else if (!strcmp(line, "hostile\n")) {
			answer = hostile();
		} else if (!strcmp(line, "semaphores\n")) {
			answer = fake_agent__semaphores();
		} else if (!strcmp(line, "reap\n")) {
			answer = reap();
		} else if (!strcmp(line, "exec\n")) {
			execv("/proc/self/exe", argv);
			return 1;
		} else {
			return 2;
		}
		printf("done %lu\n", (unsigned long)answer);
		fflush(stdout);
	}
	reap();
	return 0;
}
