/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One set of links to a library for several processes. With links per process the kernel visits
 * every process that maps the library for every site of every one of them, and at each hit asks
 * each link whether the process is its own. Links without a process put breakpoints into all
 * processes that map the library. They are made only if these processes are known and all of them
 * are traced. BPF finds the process of a hit by its pid. Hits of other processes, which mapped the
 * library later or are forks, are counted and dropped.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/containers.h"
#include "probe/probe_state.h"

#define SHARE_MIN 4 /* with fewer processes that map the library each has its own links */

/* ---- processes that map a library ---- */

static bool is_expected(const struct shared *sh, pid_t pid)
{
	for (uint32_t i = 0; i < sh->expected_cnt; i++)
		if (sh->expected[i] == pid)
			return true;
	return false;
}

void shared__forget(struct shared *sh)
{
	free(sh->expected);
	sh->expected = NULL;
	sh->expected_cnt = 0;
}

/* Outside the machine's pid namespace there may be processes that ptbpf does not see. */
bool probe_set__can_share(void)
{
	uint32_t level, inum;

	return attach_multi__supported() && !pidns__self(&level, &inum) && !level;
}

void probe_set__expect(struct probe_set *ps, const pid_t *pids, uint32_t cnt)
{
	struct shared *sh = &ps->shared;
	int err;

	shared__forget(sh);
	if (!ps->skel->rodata->by_tgid || cnt < SHARE_MIN)
		return;
	sh->expected = vec_dup(pids, cnt, sizeof(*pids));
	sh->expected_cnt = cnt;
	err = mappings__read(ps);
	if (!err)
		return;
	/* the processes that map the libraries are unknown */
	pr_debug("each process has its own probes: %s", errstr(err));
	shared__forget(sh);
}

/* Number of expected processes that map the file; 0: another process maps it, too. */
static uint32_t count_mappers(const struct probe_set *ps, uint64_t inode,
			      const struct probe_lib *lib)
{
	const struct shared *sh = &ps->shared;
	uint32_t n = 0, i = 0;
	pid_t pid;

	while ((pid = mappings__next(&ps->mappings, inode, &i))) {
		if (!is_expected(sh, pid)) {
			pr_debug("each process has its own probes of '%s': process %d maps it, too",
				 lib->name, (int)pid);
			return 0;
		}
		n++;
	}
	return n;
}

/* Has each process the analysed instructions? Checked before any of them gets a breakpoint. */
static bool all_match(const struct mappings *all, uint64_t inode, const struct probe_lib *lib)
{
	for (uint32_t i = 0; i < all->cnt; i++) {
		const struct ptb_mapping *m = &all->items[i];
		struct code_map map = { .start = m->start, .end = m->end, .off = m->off };
		const struct code_maps maps = { .items = &map, .cnt = 1 };
		int err;

		if (m->inode != inode || !m->exec)
			continue;
		err = site_check__memory((pid_t)m->tgid, &maps, lib, NULL);
		if (err && err != -ESRCH) {
			pr_debug("each process has its own probes of '%s': process %u: %s",
				 lib->name, m->tgid, errstr(err));
			return false;
		}
	}
	return true;
}

/* ---- members ---- */

/* Writes what the programs know of the process. 0 or negative errno. */
static int publish(struct probe_set *ps, pid_t tgid)
{
	int fd = bpf_map__fd(ps->skel->maps.shared_procs);
	struct ptb_shared_proc value = { { 0 } };
	uint32_t key = (uint32_t)tgid;
	bool any = false;

	for (uint32_t i = 0; i < PTB_PROC_MAX; i++) {
		const struct proc *p = &ps->procs[i];

		if (!p->used || p->tgid != tgid || !p->shares)
			continue;
		any = true;
		for (uint32_t l = 0; l < PTB_SHARED_MAX; l++)
			if (p->shares >> l & 1)
				value.proc[l] = (uint16_t)(i + 1);
	}
	if (!any) {
		/* missing: the process has ended or executes another program */
		bpf_map_delete_elem(fd, &key);
		return 0;
	}
	return bpf_map_update_elem(fd, &key, &value, BPF_ANY) ? -errno : 0;
}

static int enter(struct probe_set *ps, uint32_t proc_idx, uint32_t l)
{
	struct proc *p = &ps->procs[proc_idx];
	int err;

	p->shares |= 1u << l;
	err = publish(ps, p->tgid);
	if (err)
		p->shares &= ~(1u << l);
	else
		ps->shared.libs[l].members++;
	return err;
}

static void clear_lib(struct shared_lib *sl)
{
	link_list__clear(&sl->links);
	free(sl->sites);
	*sl = (struct shared_lib){ .cnt = 0 };
}

void shared__leave(struct probe_set *ps, uint32_t proc_idx, uint32_t libs)
{
	struct proc *p = &ps->procs[proc_idx];

	libs &= p->shares;
	if (!libs)
		return;
	p->shares &= ~libs;
	publish(ps, p->tgid);
	for (uint32_t l = 0; l < PTB_SHARED_MAX; l++)
		if (libs >> l & 1 && !--ps->shared.libs[l].members)
			clear_lib(&ps->shared.libs[l]);
}

/* ---- libraries ---- */

static bool same_sites(const struct shared_lib *sl, const struct probe_lib *lib)
{
	if (sl->cnt != lib->cnt)
		return false;
	for (uint32_t i = 0; i < lib->cnt; i++) {
		const struct probe_site *a = &sl->sites[i], *b = &lib->sites[i];

		if (a->id != b->id || a->offset != b->offset || a->prog != b->prog ||
		    a->args != b->args || b->semaphore)
			return false;
	}
	return true;
}

/* The links of this library, or a free entry, or PTB_SHARED_MAX. */
static uint32_t find_lib(const struct shared *sh, const struct stat *st,
			 const struct probe_lib *lib)
{
	uint32_t room = PTB_SHARED_MAX;

	for (uint32_t l = 0; l < PTB_SHARED_MAX; l++) {
		const struct shared_lib *sl = &sh->libs[l];

		if (!sl->members)
			room = room < l ? room : l;
		else if (sl->dev == st->st_dev && sl->ino == st->st_ino)
			return same_sites(sl, lib) ? l : PTB_SHARED_MAX;
	}
	return room;
}

/* Finds links that serve this library, by its file. */
static uint32_t find_shared(const struct probe_set *ps, const struct probe_lib *lib,
			    struct stat *st)
{
	if (!ps->skel->rodata->by_tgid || !lib->cnt || stat(lib->access_path, st))
		return PTB_SHARED_MAX;
	for (uint32_t i = 0; i < lib->cnt; i++)
		/* every process with a probe has it raised */
		if (lib->sites[i].semaphore ||
		    lib->sites[i].prog ==
			    PTB_PROG_CODE_END) /* the site depends on one process's memory */
			return PTB_SHARED_MAX;
	return find_lib(&ps->shared, st, lib);
}

/* The process has the breakpoints already, unless it maps the library differently. */
int shared__join(struct probe_set *ps, uint32_t proc_idx, const struct code_maps *all,
		 struct probe_lib *lib)
{
	pid_t tgid = ps->procs[proc_idx].tgid;
	const struct shared_lib *sl;
	struct code_maps maps;
	struct stat st;
	uint32_t l = find_shared(ps, lib, &st);
	int err;

	if (l == PTB_SHARED_MAX || !ps->shared.libs[l].members)
		return 0;
	sl = &ps->shared.libs[l];
	for (uint32_t i = 0; i < lib->cnt; i++)
		lib->sites[i].refused = sl->sites[i].refused;
	err = code_maps__pick(all, tgid, lib->access_path, &maps);
	if (!err)
		err = site_check__memory(tgid, &maps, lib, ps->progs);
	code_maps__free(&maps);
	if (!err)
		err = enter(ps, proc_idx, l);
	if (!err) {
		ps->shared.others_ns -= sl->share_ns;
		return sl->attached;
	}
	pr_debug("process %d has its own probes of '%s': %s", (int)tgid, lib->name, errstr(err));
	for (uint32_t i = 0; i < lib->cnt; i++)
		lib->sites[i].refused = false;
	return 0;
}

/* The programs know the processes from the first hit on, and record hits after they are added. */
static void announce(const struct probe_set *ps, uint64_t inode)
{
	static const struct ptb_shared_proc none;
	uint32_t key, i = 0;

	while ((key = (uint32_t)mappings__next(&ps->mappings, inode, &i))) {
		/* on failure hits count after the process is added */
		(void)hit_counts__add(ps, key);
		bpf_map_update_elem(bpf_map__fd(ps->skel->maps.shared_procs), &key, &none,
				    BPF_NOEXIST); /* may exist for another library */
	}
}

int shared__create(struct probe_set *ps, uint32_t proc_idx, struct probe_lib *lib)
{
	struct stat st;
	uint32_t l = ps->shared.expected_cnt ? find_shared(ps, lib, &st) : PTB_SHARED_MAX,
		 mappers = 0;
	uint64_t ns = shielded__cpu_ns(), inode = 0;
	struct shared_lib *sl;
	int n;

	if (l != PTB_SHARED_MAX && !ps->shared.libs[l].members)
		inode = mappings__inode(&ps->mappings, ps->procs[proc_idx].tgid, lib);
	if (inode)
		mappers = count_mappers(ps, inode, lib);
	if (mappers < SHARE_MIN || !all_match(&ps->mappings, inode, lib))
		return 0;
	announce(ps, inode);
	sl = &ps->shared.libs[l];
	*sl = (struct shared_lib){ .dev = st.st_dev, .ino = st.st_ino, .cnt = lib->cnt };
	n = probe_set__attach_progs(ps, PTB_PROC_SHARED + l, 0, lib, &sl->links);
	sl->attached = n;
	if (n > 0)
		sl->sites = vec_dup(lib->sites, lib->cnt, sizeof(*lib->sites));
	if (n > 0 && enter(ps, proc_idx, l))
		n = 0;
	ns = shielded__cpu_ns() - ns;
	sl->share_ns = ns / mappers;
	ps->shared.others_ns += ns - sl->share_ns;
	if (n > 0)
		return n;
	clear_lib(sl);
	for (uint32_t i = 0; i < lib->cnt; i++)
		lib->sites[i].refused = false;
	return n == -ECANCELED ? n : 0;
}

void shared__take_links(struct shared *sh, struct link_list *to)
{
	for (uint32_t l = 0; l < PTB_SHARED_MAX; l++)
		link_list__move(to, &sh->libs[l].links);
}

uint64_t probe_set__share_ns(const struct probe_set *ps)
{
	return probe_set__changes_ns() - ps->shared.others_ns;
}

bool probe_set__shares(const struct probe_set *ps, uint32_t proc_idx)
{
	return proc_idx < PTB_PROC_MAX && ps->procs[proc_idx].shares;
}

void probe_set__remove_probes(struct probe_set *ps, uint32_t proc_idx, uint64_t keep)
{
	shared__leave(ps, proc_idx, ~0u);
	link_list__keep(&ps->procs[proc_idx].links, keep);
	if (ps->trace && !keep)
		trace_fs__forget_process(ps->trace, proc_idx);
}
