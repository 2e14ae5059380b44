/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Many uprobes under one perf event, for kernels without uprobe_multi (Debian 12's 6.1). Sites are
 * defined as one event of tracefs, which is opened once for the process. With a perf event per site
 * the kernel would wait for a grace period at each close: minutes for thousands of sites, in which
 * the target goes on paying, even after ptbpf is killed.
 *
 * There is one cookie per event, so BPF finds the site by its address (map site_of_ip). tracefs is
 * mounted for this process alone, invisible to others. Definitions survive a kill -9, disabled, and
 * the next ptbpf that uses tracefs removes them. Therefore no link may survive ptbpf (shielded.c):
 * its event would be removed while it is in use.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/containers.h"
#include "base/guards.h"
#include "base/mem.h"
#include "probe/probe_impl.h"

#define WRITE_MAX 4000 /* the kernel parses at most 4,095 bytes of a write */
#define EVENT_MAX 4096 /* sites per event: the search for duplicates is quadratic */

struct trace_fs {
	int dir;       /* root of tracefs */
	int events_fd; /* uprobe_events, for writing */
	int map_fd;    /* site_of_ip */
	char group[48];
	uint32_t next_event;
};

int trace_fs__mount(void)
{
	int fs = fsopen("tracefs", FSOPEN_CLOEXEC);
	int dir = -1;

	if (fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		dir = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	if (fs >= 0)
		close(fs);
	if (dir < 0)
		dir = open("/sys/kernel/tracing", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir;
}

static void remove_named(int events_fd, const char *group_event)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "-:%s\n", group_event);

	if (write(events_fd, line, (size_t)n) != n)
		pr_debug("cannot remove '%s' from uprobe_events: %s", group_event, errstr(errno));
}

void trace_fs__remove_event(const struct trace_fs *tf, uint32_t event)
{
	char name[80];

	snprintf(name, sizeof(name), "%s/s%u", tf->group, event);
	remove_named(tf->events_fd, name);
}

static uint32_t open_cnt; /* of this process */

/*
 * Did a ptbpf make the event that has ended, or had our pid, in our pid namespace? The kernel
 * refuses to remove an event in use only if it has a single probe. For a group it frees what its
 * breakpoints still call (seen to crash Linux 6.1), so no event that may be in use is removed.
 */
static bool is_stale(const char *name, uint32_t ns_inum)
{
	unsigned int inum;
	int pid;

	if (sscanf(name, "ptbpf_%u_%d/", &inum, &pid) != 2 || inum != ns_inum || pid <= 0)
		return false;
	return pid == getpid() ? !open_cnt : kill(pid, 0) && errno == ESRCH;
}

struct stale {
	struct strtab *names; /* of the events */
	uint32_t sites;       /* of the events together */
};

/* Reads the whole file before anything is removed, because it is read by position and later lines
 * move up. */
static int find_stale(int dir, uint32_t ns_inum, struct stale *st)
{
	int fd = openat(dir, "uprobe_events", O_RDONLY | O_CLOEXEC), err = 0;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
	char *line = NULL, name[128];
	size_t cap = 0;

	*st = (struct stale){ .names = strtab__new() };
	if (!f)
		err = -errno;
	while (!err && getline(&line, &cap, f) > 0) {
		if (sscanf(line, "p:%127s", name) != 1 || !is_stale(name, ns_inum))
			continue;
		st->sites++;
		strtab__add(st->names, name, strlen(name));
	}
	free(line);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return err;
}

/* Repeats until there are none: another ptbpf may have changed the file between two reads. */
static void remove_stale(const struct trace_fs *tf, uint32_t ns_inum)
{
	struct stale st;
	uint32_t n, left = UINT32_MAX;

	do {
		n = find_stale(tf->dir, ns_inum, &st) ? 0 : strtab__cnt(st.names);
		if (n >= left)
			n = 0; /* the rest cannot be removed */
		left = n;
		for (uint32_t i = 1; i <= n; i++) {
			const char *name = strtab__text(st.names, i);

			/* checked again, because numbers of processes are reused */
			if (is_stale(name, ns_inum))
				remove_named(tf->events_fd, name);
		}
		strtab__free(st.names);
	} while (n);
}

int64_t trace_fs__stale(uint32_t ns_inum)
{
	int dir = trace_fs__mount(), err;
	struct stale st;

	if (dir < 0)
		return -errno;
	err = find_stale(dir, ns_inum, &st);
	close(dir);
	strtab__free(st.names);
	return err ? err : (int64_t)st.sites;
}

struct trace_fs *trace_fs__open(uint32_t ns_inum)
{
	struct trace_fs *tf = xcalloc(1, sizeof(*tf));

	tf->dir = trace_fs__mount();
	tf->events_fd = tf->dir < 0 ?
				-1 :
				openat(tf->dir, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (tf->events_fd < 0) {
		int err = errno;

		pr_debug("tracefs: %s", errstr(err));
		trace_fs__free(tf);
		errno = err;
		return NULL;
	}
	snprintf(tf->group, sizeof(tf->group), "ptbpf_%u_%d", ns_inum, (int)getpid());
	remove_stale(tf, ns_inum);
	open_cnt++;
	return tf;
}

void trace_fs__set_map(struct trace_fs *tf, int site_map_fd)
{
	tf->map_fd = site_map_fd;
}

void trace_fs__free(struct trace_fs *tf)
{
	if (!tf)
		return;
	if (tf->events_fd >= 0) {
		close(tf->events_fd);
		open_cnt--;
	}
	if (tf->dir >= 0)
		close(tf->dir);
	free(tf);
}

/* ---- one event ---- */

/* Writes a line per site. The path is that of ptbpf's own descriptor, because paths with blanks are
 * not allowed. */
static int define(struct trace_fs *tf, uint32_t event, int file, struct attach_req *req,
		  uint32_t from, uint32_t cnt)
{
	char buf[WRITE_MAX + 128];
	size_t len = 0;
	int err = 0;

	for (uint32_t i = from; !err && i < from + cnt; i++) {
		const struct probe_site *site = req->sites[i];

		len += (size_t)snprintf(buf + len, sizeof(buf) - len,
					"p:%s/s%u /proc/self/fd/%d:0x%" PRIx64, tf->group, event,
					file, site->offset);
		if (site->semaphore)
			len += (size_t)snprintf(buf + len, sizeof(buf) - len, "(0x%" PRIx64 ")",
						site->semaphore);
		buf[len++] = '\n';
		if (len >= WRITE_MAX || i + 1 == from + cnt) {
			err = write(tf->events_fd, buf, len) == (ssize_t)len ? 0 : -errno;
			len = 0;
		}
	}
	return err;
}

int trace_fs__event_id(int dir, const char *event)
{
	char path[128], text[32] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "events/%s/id", event);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && atoi(text) > 0 ? atoi(text) : -EIO;
}

static int own_event_id(const struct trace_fs *tf, uint32_t event)
{
	char name[80];

	snprintf(name, sizeof(name), "%s/s%u", tf->group, event);
	return trace_fs__event_id(tf->dir, name);
}

int trace_fs__try(void)
{
	struct probe_site sites[2] = {};
	struct probe_site *list[2] = { &sites[0], &sites[1] };
	struct attach_req req = { .sites = list, .cnt = 2 };
	uint32_t level, inum;
	struct trace_fs *tf;
	int file = -1, err = pidns__self(&level, &inum);

	if (!err)
		err = probe_cost__sites(&req.path, &sites[0].offset, &sites[1].offset);
	if (err)
		return err;
	tf = trace_fs__open(0); /* for no namespace, so that nothing stale is removed */
	if (!tf)
		return -errno;
	snprintf(tf->group, sizeof(tf->group), "ptbpf_%u_%d", inum, (int)getpid());
	file = open(req.path, O_RDONLY | O_CLOEXEC);
	err = file < 0 ? -errno : define(tf, UINT32_MAX, file, &req, 0, 2);
	if (!err)
		err = own_event_id(tf, UINT32_MAX);
	trace_fs__remove_event(tf, UINT32_MAX);
	if (file >= 0)
		close(file);
	trace_fs__free(tf);
	return err < 0 ? err : 0;
}

static int link_event(const struct attach_req *req, int id, struct probe_link *out)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = (__u64)id,
		.sample_period = 1,
		.wakeup_events = 1,
	};
	int slot = link_guard__begin();
	int fd = (int)syscall(SYS_perf_event_open, &attr, req->tgid, -1, -1, PERF_FLAG_FD_CLOEXEC),
	    err = -errno;

	link_guard__end(slot);
	if (fd < 0)
		return err;
	/* owns fd from here */
	*out = (struct probe_link){ .lib = bpf_program__attach_perf_event(req->prog, fd) };
	if (out->lib)
		return 0;
	err = -errno;
	close(fd);
	return err;
}

static int link_trace(struct attach_req *req, uint32_t from, uint32_t cnt, struct probe_link *out)
{
	struct trace_fs *tf = req->trace;
	uint32_t event = __atomic_fetch_add(&tf->next_event, 1, __ATOMIC_RELAXED);
	int file = open(req->path, O_RDONLY | O_CLOEXEC), id, err;

	if (file < 0)
		return -errno;
	err = define(tf, event, file, req, from, cnt);
	if (!err) {
		id = own_event_id(tf, event);
		err = id < 0 ? id : link_event(req, id, out);
	}
	close(file);
	if (err) {
		trace_fs__remove_event(tf, event);
		return err;
	}
	out->trace = tf;
	out->event = event;
	return 0;
}

/* ---- all sites of a request ---- */

/* Adds the addresses of each site, wherever the file's code is mapped. */
static int describe_to_bpf(const struct attach_req *req, const struct code_maps *maps,
			   const struct probe_site *site, bool *twice)
{
	__u64 cookie = PTB_COOKIE(req->proc, site->id, site->args);

	for (uint32_t i = 0; i < maps->cnt; i++) {
		const struct code_map *m = &maps->items[i];
		struct ptb_ip_key key = {
			.ip = m->start + site->offset - m->off,
			.tgid = (uint32_t)req->tgid,
			.prog = req->prog_nr,
		};

		if (site->offset < m->off || key.ip >= m->end)
			continue;
		if (bpf_map_update_elem(req->trace->map_fd, &key, &cookie, BPF_NOEXIST)) {
			__u64 other = cookie;

			if (errno != EEXIST)
				return -errno;
			if (!bpf_map_lookup_elem(req->trace->map_fd, &key, &other) &&
			    other != cookie) /* a later round tries again */
				*twice = true;
		}
	}
	return 0;
}

/* Keeps the sites that BPF can distinguish: no two of one program at one address. */
static int number_sites(struct attach_req *req)
{
	struct code_maps maps;
	uint32_t kept = 0;
	int err = code_maps__read(&maps, req->tgid, req->path);

	for (uint32_t i = 0; !err && i < req->cnt; i++) {
		bool twice = false;

		err = describe_to_bpf(req, &maps, req->sites[i], &twice);
		if (twice)
			req->sites[i]->refused = true;
		else
			req->sites[kept++] = req->sites[i];
	}
	if (!err)
		req->cnt = kept;
	if (err == -E2BIG)
		pr_error("more probes than the map of addresses holds");
	code_maps__free(&maps);
	return err;
}

int attach_trace__sites(struct attach_req *req)
{
	/* no program searches for the sites of requests */
	int err = req->prog_nr == PTB_PROG_AGENT_REQUEST ? 0 : number_sites(req);

	return err ? err : attach__bisect(req, link_trace, EVENT_MAX);
}

void trace_fs__forget_process(struct trace_fs *tf, uint32_t proc)
{
	struct ptb_ip_key key, next;
	__u64 cookie;
	int err = bpf_map_get_next_key(tf->map_fd, NULL, &next);

	while (!err) {
		key = next;
		err = bpf_map_get_next_key(tf->map_fd, &key, &next); /* before the key is deleted */
		if (!bpf_map_lookup_elem(tf->map_fd, &key, &cookie) &&
		    PTB_COOKIE_PROC(cookie) == proc)
			bpf_map_delete_elem(tf->map_fd, &key);
	}
}
