/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Loads and reads the iterator of bpf/regs.bpf.c. */
#define LOG_DOMAIN "thread_regs"
#include "probe/probe_set.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/containers.h"
#include "base/mem.h"
#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

struct thread_regs {
	struct ptbpf_bpf *skel;
	struct bpf_link *link;
};

static int load(struct thread_regs *tr, pid_t pid)
{
	struct ptbpf_bpf *s = tr->skel = ptbpf_bpf__open();
	union bpf_iter_link_info info = { .task.pid = (uint32_t)pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	uint32_t level, inum;
	int err;

	if (!s)
		return -errno;
	err = pidns__self(&level, &inum);
	if (err)
		return err;
	s->rodata->ns_level = level;
	s->rodata->ns_inum = inum;
	err = load_alone(s, s->progs.thread_regs);
	if (err)
		return err;
	tr->link = bpf_program__attach_iter(s->progs.thread_regs, &opts);
	return tr->link ? 0 : -errno;
}

int thread_regs__open(pid_t pid, struct thread_regs **out)
{
	struct thread_regs *tr = xcalloc(1, sizeof(*tr));
	int err = load(tr, pid);

	if (err)
		thread_regs__close(tr);
	else
		*out = tr;
	return err;
}

int thread_regs__read(const struct thread_regs *tr, struct ptb_thread_regs **rows, uint32_t *cnt)
{
	int fd = bpf_iter_create(bpf_link__fd(tr->link)), err = fd < 0 ? -errno : 0;
	uint8_t *data = NULL;
	uint32_t cap = 0;
	size_t len = 0;
	ssize_t n = 1;

	while (!err && n) {
		vec_reserve((void **)&data, &cap, len + 65536, 1);
		n = iter__read(fd, data + len, 65536);
		if (n < 0)
			err = (int)n;
		else
			len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (!err && len % sizeof(**rows))
		err = -EPROTO;
	if (err) {
		free(data);
		return err;
	}
	*rows = (struct ptb_thread_regs *)(void *)data;
	*cnt = (uint32_t)(len / sizeof(**rows));
	return 0;
}

void thread_regs__close(struct thread_regs *tr)
{
	if (!tr)
		return;
	bpf_link__destroy(tr->link);
	ptbpf_bpf__destroy(tr->skel);
	free(tr);
}
