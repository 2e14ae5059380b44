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

int link_list__move(struct link_list *to, struct link_list *from)
{
	if (vec_reserve((void **)&to->items, &to->cap, (uint64_t)to->cnt + from->cnt,
			sizeof(struct bpf_link *)))
		return -ENOMEM;
	for (uint32_t i = 0; i < from->cnt; i++)
		to->items[to->cnt++] = from->items[i];
	from->cnt = 0;
	return 0;
}

static void destroy_link(void *arg, uint32_t i)
{
	bpf_link__destroy(((struct link_list *)arg)->items[i]);
}

void link_list__clear(struct link_list *l)
{
	parallel__run(destroy_link, l, l->cnt);
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

/* Sites [from, from + cnt) of the request: to be tried as one link. */
struct range {
	uint32_t from, cnt;
	struct bpf_link *link;
	int err;
};

struct trial {
	struct attach_req *req;
	unsigned long *offsets;
	uint64_t *cookies;
	struct range *ranges;
	uint32_t cnt, cap;
};

static void try_range(void *arg, uint32_t i)
{
	struct trial *t = arg;
	struct range *r = &t->ranges[i];
	LIBBPF_OPTS(bpf_uprobe_multi_opts, opts, .offsets = t->offsets + r->from,
		    .cookies = (const __u64 *)t->cookies + r->from, .cnt = r->cnt);

	for (int n = 0; n < RETRIES; n++) {
		r->link = bpf_program__attach_uprobe_multi(t->req->prog, t->req->tgid, t->req->path, NULL,
							   &opts);
		r->err = r->link ? 0 : -errno;
		if (r->err != -EINTR && r->err != -EAGAIN)
			break;
	}
}

static int trial__add(struct trial *t, uint32_t from, uint32_t cnt)
{
	if (vec_reserve((void **)&t->ranges, &t->cap, (uint64_t)t->cnt + 1, sizeof(*t->ranges)))
		return -ENOMEM;
	t->ranges[t->cnt++] = (struct range){ .from = from, .cnt = cnt };
	return 0;
}

/* Takes what worked, refuses single sites, halves what failed; `next` is the following round. */
static int settle(struct trial *t, struct trial *next)
{
	struct attach_req *req = t->req;
	int err = 0;

	for (uint32_t i = 0; i < t->cnt; i++) {
		struct range *r = &t->ranges[i];
		struct probe_site *site = req->sites[r->from];

		if (r->link) {
			int e = link_list__add(req->links, r->link);

			req->attached += e ? 0 : r->cnt;
			err = err ? err : e;
		} else if (attach__is_hard_error(r->err)) {
			err = err ? err : r->err;
		} else if (r->cnt == 1) {
			pr_debug("kernel refused site %u at 0x%" PRIx64 " of '%s': %s", site->id,
				 site->offset, req->path, errstr(r->err));
			site->refused = true;
		} else if (!err) {
			err = trial__add(next, r->from, r->cnt / 2);
			if (!err)
				err = trial__add(next, r->from + r->cnt / 2, r->cnt - r->cnt / 2);
		}
	}
	return err;
}

/* A failing link waits for the kernel, so the ranges of a round are tried together. */
static int run_trials(struct trial *t)
{
	int err = 0;

	while (!err && t->cnt) {
		struct trial next = { .req = t->req, .offsets = t->offsets, .cookies = t->cookies };

		parallel__run(try_range, t, t->cnt);
		err = settle(t, &next);
		free(t->ranges);
		t->ranges = next.ranges;
		t->cnt = next.cnt;
		t->cap = next.cap;
	}
	free(t->ranges);
	return err;
}

int attach_multi__sites(struct attach_req *req)
{
	struct trial t = {
		.req = req,
		.offsets = calloc((size_t)req->cnt + 1, sizeof(*t.offsets)),
		.cookies = calloc((size_t)req->cnt + 1, sizeof(*t.cookies)),
	};
	int err = t.offsets && t.cookies ? 0 : -ENOMEM;
	uint32_t i, n;

	for (i = 0; !err && i < req->cnt; i++) {
		t.offsets[i] = req->sites[i]->offset;
		t.cookies[i] = PTB_COOKIE(req->proc, req->sites[i]->id);
	}
	for (i = 0; !err && i < req->cnt; i += n) {
		n = req->cnt - i < UPROBE_MULTI_MAX ? req->cnt - i : UPROBE_MULTI_MAX;
		err = trial__add(&t, i, n);
	}
	if (!err)
		err = run_trials(&t);
	free(t.offsets);
	free(t.cookies);
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
