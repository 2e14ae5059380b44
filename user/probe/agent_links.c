/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Links to the USDT sites of the agent inside a target. One copies its chunks. The others only make
 * the kernel raise the sites' semaphores while they exist, and lower them however they end (kernel
 * kernel/events/uprobes.c, update_ref_ctr()). Never writes to the target itself.
 */
#define LOG_DOMAIN "agent"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "probe/probe_state.h"

static const char *const site_names[PTB_AGENT_SITE_CNT] = {
#define X(name, nr, text, what) [nr] = text,
	PTB_AGENT_SITES(X)
#undef X
};

/* Sites of the agent that are attached together: bits 1 << enum ptb_agent_site. */
struct agent_req {
	const struct probe_agent *pa;
	uint32_t wanted;
	enum ptb_prog prog;
	struct link_list *links; /* out: appended */
};

static int check_request(const struct probe_set *ps, uint32_t proc_idx, const struct agent_req *ar)
{
	if (!ps->opts.agent || proc_idx >= PTB_PROC_MAX || !ps->procs[proc_idx].used)
		return -EINVAL;
	if (!ar->wanted || ar->wanted >> PTB_AGENT_SITE_CNT)
		return -EINVAL;
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		if (!(ar->wanted >> i & 1) || (ar->pa->site[i] && ar->pa->semaphore[i]))
			continue;
		pr_error("the agent of process %d has no site \"%s\"",
			 (int)ps->procs[proc_idx].tgid, site_names[i]);
		return -ENOENT;
	}
	return 0;
}

/* An agent's sites are no-ops. Its notes are not trusted: no other instruction gets a
 * breakpoint. */
static int take_nops(pid_t tgid, struct probe_lib *lib)
{
	static const uint8_t nop1[] = { 0x90 }, nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	int fd = open(lib->access_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;

	if (fd < 0)
		return -errno;
	for (uint32_t i = 0; i < lib->cnt && !err; i++) {
		struct probe_site *s = &lib->sites[i];
		ssize_t n = pread(fd, s->insn, sizeof(nop5), (off_t)s->offset);

		if (n >= 1 && !memcmp(s->insn, nop1, sizeof(nop1)))
			s->insn_len = sizeof(nop1);
		else if (n == sizeof(nop5) && !memcmp(s->insn, nop5, sizeof(nop5)))
			s->insn_len = sizeof(nop5);
		else
			err = -ESTALE;
	}
	close(fd);
	if (err)
		pr_error("the agent of process %d is not probed: one of its sites is not a no-op",
			 (int)tgid);
	return err;
}

/* Attaches all of them or none. Their site id is 0, because they are not in the plan. */
static int attach_agent(struct probe_set *ps, uint32_t proc_idx, const struct agent_req *ar)
{
	struct probe_site sites[PTB_AGENT_SITE_CNT] = {}, *list[PTB_AGENT_SITE_CNT];
	struct link_list links = {};
	struct probe_lib lib = { .name = PTB_AGENT_FILE,
				 .access_path = ar->pa->access_path,
				 .sites = sites };
	uint32_t cnt = 0;
	struct attach_req req = {
		.prog = ps->progs[ar->prog],
		.prog_nr = ar->prog,
		.tgid = ps->procs[proc_idx].tgid,
		.proc = proc_idx,
		.path = ar->pa->access_path,
		.sites = list,
		.links = &links,
	};
	int err;

	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		if (!(ar->wanted >> i & 1))
			continue;
		sites[cnt].prog = (uint8_t)ar->prog;
		sites[cnt].offset = ar->pa->site[i];
		sites[cnt].semaphore = ar->pa->semaphore[i];
		list[cnt] = &sites[cnt];
		cnt++;
	}
	lib.cnt = req.cnt = cnt;
	err = take_nops(req.tgid, &lib);
	if (!err)
		err = mappings__check(ps, req.tgid, &lib, 1);
	if (!err)
		err = probe_set__verify(req.tgid, &lib, 1);
	if (!err)
		err = probe_set__attach_sites(ps, &req);
	if (!err && req.attached != cnt)
		err = -EOPNOTSUPP;
	if (!err)
		err = probe_set__verify_armed(ps, req.tgid, &lib, 1);
	if (!err)
		link_list__move(ar->links, &links);
	if (err && err != -ESRCH && err != -ESTALE && err != -EUSERS)
		pr_error("cannot attach to the agent of process %d: %s", (int)req.tgid,
			 errstr(err));
	link_list__clear(&links);
	return err;
}

int probe_set__agent_listen(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa)
{
	struct proc *proc = &ps->procs[proc_idx < PTB_PROC_MAX ? proc_idx : 0];
	const struct agent_req ar = {
		.pa = pa,
		.wanted = 1u << PTB_AGENT_SITE_CHUNK,
		.prog = PTB_PROG_AGENT_CHUNK,
		.links = &proc->links,
	};
	int err = check_request(ps, proc_idx, &ar);

	return err ? err : attach_agent(ps, proc_idx, &ar);
}

int probe_set__agent_request(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa,
			     uint32_t requests)
{
	const uint32_t stacks = requests & 1u << PTB_AGENT_SITE_STACKS;
	const uint32_t edges = requests & 1u << PTB_AGENT_SITE_EDGES;
	const uint32_t ops = requests & 1u << PTB_AGENT_SITE_OPS;
	struct proc *proc = &ps->procs[proc_idx < PTB_PROC_MAX ? proc_idx : 0];
	struct link_list links = {}, ops_links = {};
	struct agent_req ar[] = {
		{ pa, stacks, PTB_PROG_AGENT_STACK, &links },
		{ pa, edges, PTB_PROG_AGENT_EDGE, &links },
		{ pa, requests & ~(stacks | edges | ops), PTB_PROG_AGENT_REQUEST, &links },
		/* last: the agent would begin anew with each of the others */
		{ pa, ops, PTB_PROG_AGENT_REQUEST, &ops_links },
	};
	const struct agent_req whole = { .pa = pa, .wanted = requests };
	int err = requests & 1u << PTB_AGENT_SITE_CHUNK ? -EINVAL :
							  check_request(ps, proc_idx, &whole);

	if (!err && ((stacks && !ps->progs[PTB_PROG_AGENT_STACK]) ||
		     (edges && !ps->progs[PTB_PROG_AGENT_EDGE])))
		err = -EINVAL;
	for (uint32_t i = 0; i < sizeof(ar) / sizeof(*ar) && !err; i++)
		err = ar[i].wanted ? attach_agent(ps, proc_idx, &ar[i]) : 0;
	if (!err)
		link_list__move(&proc->request_links, &links);
	if (!err)
		link_list__move(&proc->ops_links, &ops_links);
	link_list__clear(&ops_links);
	link_list__clear(&links);
	return err;
}

void probe_set__agent_withdraw(struct probe_set *ps, uint32_t proc_idx)
{
	if (proc_idx >= PTB_PROC_MAX)
		return;
	link_list__clear(&ps->procs[proc_idx].ops_links); /* first: they were attached last */
	link_list__clear(&ps->procs[proc_idx].request_links);
}
