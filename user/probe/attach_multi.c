/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * uprobe_multi links: many offsets of one file in one link (kernel 6.6). A file that the process
 * has not mapped attaches "successfully" and never hits; the caller warns of that.
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/guards.h"
#include "base/mem.h"
#include "probe/probe_impl.h"

#define UPROBE_MULTI_MAX (1u << 20) /* kernel: MAX_UPROBE_MULTI_CNT */

#define UAPI_BPF_TRACE_UPROBE_MULTI 48 /* not in the headers of older distributions */

struct linking {
	int prog, fd;
	const struct bpf_link_create_opts *opts;
};

static void create_link(void *arg)
{
	struct linking *l = arg;

	l->fd = bpf_link_create(l->prog, 0, (enum bpf_attach_type)UAPI_BPF_TRACE_UPROBE_MULTI,
				l->opts);
}

static int link_multi(struct attach_req *req, uint32_t from, uint32_t cnt, struct probe_link *out)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	struct linking l = { .prog = bpf_program__fd(req->prog), .fd = -1, .opts = &opts };
	unsigned long *offsets = xcalloc(cnt, sizeof(*offsets));
	unsigned long *semaphores = xcalloc(cnt, sizeof(*semaphores));
	__u64 *cookies = xcalloc(cnt, sizeof(*cookies));

	for (uint32_t i = 0; i < cnt; i++) {
		offsets[i] = req->sites[from + i]->offset;
		semaphores[i] = req->sites[from + i]->semaphore;
		if (semaphores[i])
			opts.uprobe_multi.ref_ctr_offsets = semaphores;
		cookies[i] =
			PTB_COOKIE(req->proc, req->sites[from + i]->id, req->sites[from + i]->args);
	}
	opts.uprobe_multi.path = req->path;
	opts.uprobe_multi.offsets = offsets;
	opts.uprobe_multi.cookies = cookies;
	opts.uprobe_multi.cnt = cnt;
	opts.uprobe_multi.pid = (__u32)req->tgid;
	shielded__run(create_link, &l);
	free(offsets);
	free(semaphores);
	free(cookies);
	*out = (struct probe_link){ .fd = l.fd };
	return l.fd < 0 ? l.fd : 0;
}

int attach_multi__sites(struct attach_req *req)
{
	return attach__bisect(req, link_multi, UPROBE_MULTI_MAX);
}

/* Links the smallest program to an instruction of this process or, with another path, to nothing. A
 * descriptor or negative errno. */
static int link_smallest(const char *path, unsigned long offset, pid_t pid)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int prog = load_smallest("ptb_try_multi", UAPI_BPF_TRACE_UPROBE_MULTI), link, err;

	if (prog < 0)
		return -errno;
	opts.uprobe_multi.path = path;
	opts.uprobe_multi.offsets = &offset;
	opts.uprobe_multi.cnt = 1;
	opts.uprobe_multi.pid = (__u32)pid;
	link = bpf_link_create(prog, 0, (enum bpf_attach_type)UAPI_BPF_TRACE_UPROBE_MULTI, &opts);
	err = -errno;
	close(prog);
	return link < 0 ? err : link;
}

int attach_multi__try(void)
{
	uint64_t push_off, jcc_off;
	const char *path;
	int link = probe_cost__sites(&path, &push_off, &jcc_off), slot = link_guard__begin();

	if (!link)
		link = link_smallest(path, push_off, getpid());
	if (link >= 0)
		close(link);
	link_guard__end(slot);
	if (link < 0)
		return link;
	return attach_multi__supported() ? 0 : -ESRCH;
}

/* A kernel with these links refuses a directory with its own errno (kernel/trace/bpf_trace.c,
 * bpf_uprobe_multi_link_attach()). Making and removing a real link waits for tens of
 * milliseconds. */
bool attach_multi__known(void)
{
	return link_smallest("/", 1, getpid()) == -EBADF;
}

/* Before commit 46ba0e49b642 (Linux 6.10) a link with a pid served only that thread and not the
 * process. The same commit refuses negative pids before it resolves the path. */
bool attach_multi__supported(void)
{
	return attach_multi__known() && link_smallest("/", 1, -1) == -EINVAL;
}
