/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * uprobe_multi links: many offsets of one file in one link (kernel 6.6). One refused offset fails the
 * whole link, so a failing range is halved until the offenders are alone. A file that the process has
 * not mapped attaches "successfully" and never hits: see attach__file_is_mapped().
 */
#define LOG_DOMAIN "attach"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/vec.h"
#include "probe/probe_impl.h"

#define UPROBE_MULTI_MAX (1u << 20) /* kernel: MAX_UPROBE_MULTI_CNT */
#define RETRIES 5

#define UAPI_BPF_TRACE_UPROBE_MULTI 48 /* not in the headers of older distributions */

int link_list__add(struct link_list *l, struct bpf_link *link)
{
	if (vec_reserve((void **)&l->items, &l->cap, (uint64_t)l->cnt + 1, sizeof(struct bpf_link *))) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	l->items[l->cnt++] = link;
	return 0;
}

void link_list__clear(struct link_list *l)
{
	for (uint32_t i = 0; i < l->cnt; i++)
		bpf_link__destroy(l->items[i]);
	free(l->items);
	memset(l, 0, sizeof(*l));
}

bool attach__is_hard_error(int err)
{
	switch (err < 0 ? -err : err) {
	case EPERM:
	case EACCES:
	case ENOENT:
	case ESRCH:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EBADF:
	case EINTR:
	case EAGAIN:
		return true;
	default:
		return false;
	}
}

bool attach__file_is_mapped(pid_t tgid, const char *path)
{
	char maps[64], line[1024];
	struct stat st;
	bool found = false;
	uint64_t inode;
	FILE *f;

	snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)tgid);
	f = fopen(maps, "re");
	if (!f || stat(path, &st)) {
		if (f)
			fclose(f);
		return true; /* cannot tell */
	}
	while (!found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %*s %" SCNu64, &inode) == 1)
			found = inode == st.st_ino;
		while (!strchr(line, '\n') && fgets(line, sizeof(line), f))
			; /* rest of a long path */
	}
	fclose(f);
	return found;
}

static int attach_range(struct attach_req *req, uint32_t from, uint32_t cnt, unsigned long *offsets,
			uint64_t *cookies)
{
	LIBBPF_OPTS(bpf_uprobe_multi_opts, opts, .offsets = offsets + from,
		    .cookies = (const __u64 *)cookies + from, .cnt = cnt);
	struct bpf_link *link;
	int err = 0;

	for (int i = 0; i < RETRIES; i++) {
		link = bpf_program__attach_uprobe_multi(req->prog, req->tgid, req->path, NULL, &opts);
		if (link) {
			err = link_list__add(req->links, link);
			if (!err)
				req->attached += cnt;
			return err;
		}
		err = -errno;
		if (err != -EINTR && err != -EAGAIN)
			break;
	}
	if (attach__is_hard_error(err))
		return err;
	if (cnt == 1) {
		pr_debug("kernel refused site %u at 0x%" PRIx64 " of '%s': %s", req->sites[from]->id,
			 req->sites[from]->offset, req->path, errstr(err));
		req->sites[from]->refused = true;
		return 0;
	}
	err = attach_range(req, from, cnt / 2, offsets, cookies);
	if (err)
		return err;
	return attach_range(req, from + cnt / 2, cnt - cnt / 2, offsets, cookies);
}

int attach_multi__sites(struct attach_req *req)
{
	unsigned long *offsets = calloc(req->cnt + 1, sizeof(*offsets));
	uint64_t *cookies = calloc(req->cnt + 1, sizeof(*cookies));
	int err = offsets && cookies ? 0 : -ENOMEM;
	uint32_t i, n;

	for (i = 0; !err && i < req->cnt; i++) {
		offsets[i] = req->sites[i]->offset;
		cookies[i] = PTB_COOKIE(req->proc, req->sites[i]->id);
	}
	for (i = 0; !err && i < req->cnt; i += n) {
		n = req->cnt - i < UPROBE_MULTI_MAX ? req->cnt - i : UPROBE_MULTI_MAX;
		err = attach_range(req, i, n, offsets, cookies);
	}
	free(offsets);
	free(cookies);
	return err;
}

/* The smallest program, linked to one of our own instructions. */
bool attach_multi__supported(void)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = UAPI_BPF_TRACE_UPROBE_MULTI);
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	unsigned long offset;
	uint64_t push_off, jcc_off;
	const char *path;
	int prog, link = -1;

	if (probe_cost__sites(&path, &push_off, &jcc_off))
		return false;
	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ptb_try_multi", "GPL", insns, 2, &load);
	if (prog < 0)
		return false;
	offset = push_off;
	opts.uprobe_multi.path = path;
	opts.uprobe_multi.offsets = &offset;
	opts.uprobe_multi.cnt = 1;
	opts.uprobe_multi.pid = (__u32)getpid();
	link = bpf_link_create(prog, 0, (enum bpf_attach_type)UAPI_BPF_TRACE_UPROBE_MULTI, &opts);
	close(prog);
	if (link < 0)
		return false;
	close(link);
	return true;
}
