/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See agent_target.h. */
#include "agent_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/elf.h"

#define DEADLINE_NS 60000000000ull

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "test set-up failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

void agent_target__find(struct agent_target *at)
{
	struct elf_file *ef = NULL;
	char why[160];

	agent_lib__clear(&at->al);
	if (agent_lib__find(at->t.pid, &at->al, why, sizeof(why)))
		must(false, why);
	must(!elf_file__open(at->al.access_path, &ef), at->al.access_path);
	at->pa.access_path = at->al.access_path;
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		must(at->al.site[i] && at->al.semaphore[i], "a site");
		at->pa.site[i] = at->al.site[i];
		at->pa.semaphore[i] = at->al.semaphore[i];
		at->semaphore[i] = elf_file__off_to_addr(ef, at->al.semaphore[i]) + at->al.load_bias;
	}
	elf_file__close(ef);
}

void agent_target__start(struct agent_target *at, const char *path)
{
	memset(at, 0, sizeof(*at));
	target__start(&at->t, path);
	agent_target__find(at);
}

int agent_target__stop(struct agent_target *at)
{
	agent_lib__clear(&at->al);
	return target__stop(&at->t);
}

static int open_memory(pid_t pid, int flags)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, flags | O_CLOEXEC);
	must(fd >= 0, path);
	return fd;
}

uint32_t semaphore_bits(const struct agent_target *at, pid_t pid)
{
	int fd = open_memory(pid, O_RDONLY);
	uint32_t bits = 0;

	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		uint16_t v = 0;

		must(pread(fd, &v, sizeof(v), (off_t)at->semaphore[i]) == sizeof(v), "semaphore");
		bits |= (v ? 1u : 0u) << i;
	}
	close(fd);
	return bits;
}

bool semaphores_become(const struct agent_target *at, pid_t pid, uint32_t bits)
{
	uint64_t end = clock__mono_ns() + DEADLINE_NS;

	while (semaphore_bits(at, pid) != bits) {
		if (clock__mono_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

void semaphore_set(const struct agent_target *at, uint32_t site, uint16_t value)
{
	int fd = open_memory(at->t.pid, O_RDWR);

	must(pwrite(fd, &value, sizeof(value), (off_t)at->semaphore[site]) == sizeof(value), "semaphore");
	close(fd);
}

struct probe_set *open_agent_set(uint64_t ring_bytes, enum links links)
{
	const struct probe_set_opts opts = { .ring_bytes = ring_bytes,
					     .follow_tasks = true,
					     .force_perf = links != LINKS_MULTI,
					     .agent = true };
	struct probe_set *ps = NULL;

	must(!probe_set__open(&opts, &ps), "probe_set__open");
	return ps;
}

uint32_t add_agent_process(struct probe_set *ps, const struct agent_target *at)
{
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)at->t.pid };
	uint32_t proc = 0;

	must(probe_set__add_process(ps, &cfg, NULL, 0, &proc) == 0, "probe_set__add_process");
	return proc;
}

bool chunk_is(const struct ptb_agent_data *d, uint32_t stream, uint32_t seq)
{
	const struct ptb_chunk *c = (const void *)(d + 1);
	const uint8_t *body = (const uint8_t *)(c + 1);

	if (d->h.len != sizeof(*d) + d->bytes || d->bytes < sizeof(*c) || c->len != d->bytes ||
	    c->magic != PTB_CHUNK_MAGIC || c->stream != stream || c->seq != seq || c->tid != d->h.tid)
		return false;
	for (uint32_t i = 0; i < c->len - sizeof(*c); i++)
		if (body[i] != (uint8_t)(stream * 31 + seq * 7 + i + (i >> 8)))
			return false;
	return true;
}
