/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * All processes of the machine that map a library. The kernel visits each of them and takes the
 * lock of its memory for every site of every link, whichever process the link is for
 * (kernel/events/uprobes.c, register_for_each_vma()). Nothing on the machine can fork in the
 * meantime. So there must be few of them, and none may hold its lock for long: a page of a FUSE
 * file does that if a user's server does not answer. guards.h handles a process that does so later.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/guards.h"
#include "base/limits.h"
#include "probe/probe_state.h"

#define AT_ONCE 512
#define FRESH_NS 1000000000ULL

static int read_all(struct mappings *all, int fd)
{
	ssize_t n = 1;

	while (n > 0) {
		char *at;

		vec_reserve((void **)&all->items, &all->cap, (uint64_t)all->cnt + AT_ONCE,
			    sizeof(*all->items));
		at = (char *)&all->items[all->cnt];
		n = iter__read(fd, at, AT_ONCE * sizeof(*all->items));
		if (n < 0)
			return (int)n;
		if (n % (ssize_t)sizeof(*all->items))
			return -EIO;
		all->cnt += (uint32_t)((size_t)n / sizeof(*all->items));
	}
	return 0;
}

int mappings__read(struct probe_set *ps)
{
	struct bpf_link *link = bpf_program__attach_iter(ps->skel->progs.mappings, NULL);
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
	int slot, err = fd < 0 ? -errno : 0;

	ps->mappings.cnt = 0;
	slot = link_guard__begin(); /* takes the lock of each process */
	if (!err)
		err = read_all(&ps->mappings, fd);
	link_guard__end(slot);
	ps->mappings.read_ns = clock__mono_ns();
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

uint64_t mappings__inode(const struct mappings *all, pid_t tgid, const struct probe_lib *lib)
{
	struct code_maps maps;
	uint64_t inode = 0;
	int err = code_maps__read(&maps, tgid, lib->access_path);

	for (uint32_t i = 0; i < all->cnt && !err && maps.cnt && !inode; i++)
		if (all->items[i].tgid == (uint32_t)tgid &&
		    all->items[i].start == maps.items[0].start)
			inode = all->items[i].inode;
	code_maps__free(&maps);
	return inode;
}

pid_t mappings__next(const struct mappings *all, uint64_t inode, uint32_t *i)
{
	uint32_t last = 0;

	for (uint32_t k = *i; k-- && !last;)
		last = all->items[k].inode == inode ? all->items[k].tgid : 0;
	for (; *i < all->cnt; ++*i)
		if (all->items[*i].inode == inode && all->items[*i].tgid != last)
			return (pid_t)all->items[(*i)++].tgid;
	return 0;
}

/* ---- processes that could make it take long ---- */

/* Does the process whose mappings begin at *i map the file, and a FUSE file whose requests wait?
 * Moves *i behind its mappings. */
static bool may_hold(const struct mappings *all, uint64_t inode, uint32_t *i)
{
	const uint32_t tgid = all->items[*i].tgid;
	uint64_t last = 0;
	bool maps = false, waits = false;

	for (; *i < all->cnt && all->items[*i].tgid == tgid; ++*i) {
		const struct ptb_mapping *m = &all->items[*i];

		maps |= m->inode == inode;
		if (m->fuse && m->fuse != last && !waits)
			waits = link_guard__waits((uint32_t)m->fuse);
		last = m->fuse ? m->fuse : last;
	}
	return maps && waits;
}

/* 0: there is none. */
static pid_t find_holder(const struct mappings *all, uint64_t inode)
{
	for (uint32_t i = 0; i < all->cnt;) {
		pid_t pid = (pid_t)all->items[i].tgid;

		if (may_hold(all, inode, &i))
			return pid;
	}
	return 0;
}

static int check_lib(const struct mappings *all, pid_t tgid, const struct probe_lib *lib)
{
	uint64_t inode = mappings__inode(all, tgid, lib);
	uint32_t cnt = 0, i = 0;
	pid_t pid;

	while (inode && mappings__next(all, inode, &i))
		cnt++;
	if (cnt > LIMIT_MAPPERS) {
		pr_error(
			"'%s' of process %d is not probed: %u processes map it, and each makes placing and removing probes "
			"slower, for which every fork on this machine waits (limit: %d)",
			lib->name, (int)tgid, cnt, LIMIT_MAPPERS);
		return -EUSERS;
	}
	pid = inode ? find_holder(all, inode) : 0;
	if (!pid)
		return 0;
	pr_error(
		"'%s' of process %d is not probed: process %d maps it, and a file of FUSE that a user other than root has "
		"mounted and that answers no requests, so every fork on this machine might wait for it",
		lib->name, (int)tgid, (int)pid);
	return -EUSERS;
}

int mappings__check(struct probe_set *ps, pid_t tgid, const struct probe_lib *libs,
		    uint32_t lib_cnt)
{
	int err = 0;

	if (!bpf_program__autoload(ps->skel->progs.mappings))
		return 0; /* other processes are not visible here */
	if (!ps->mappings.read_ns || clock__mono_ns() - ps->mappings.read_ns > FRESH_NS)
		err = mappings__read(ps);
	if (err) {
		pr_debug("who maps the libraries of process %d is not known: %s", (int)tgid,
			 errstr(err));
		return 0; /* a process that holds its lock is found when it does (guards.h) */
	}
	for (uint32_t l = 0; l < lib_cnt && !err; l++)
		if (libs[l].cnt)
			err = check_lib(&ps->mappings, tgid, &libs[l]);
	return err;
}
