/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Links to the USDT sites of the agent inside a target: one that copies its chunks, and those whose only
 * purpose is that the kernel raises the sites' semaphores while they stand, and lowers them however they go
 * (kernel kernel/events/uprobes.c, update_ref_ctr()). Never writes to the target itself.
 */
#define LOG_DOMAIN "agent"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "probe/probe_state.h"

static const char *const site_names[PTB_AGENT_SITE_CNT] = {
#define X(name, nr, text, what) [nr] = text,
	PTB_AGENT_SITES(X)
#undef X
};

/* Kernel 6.0 and later: a program at a uprobe may wait for a page of the process. */
static bool may_sleep(void)
{
	struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .prog_flags = BPF_F_SLEEPABLE);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "ptb_try_sleep", "GPL", insns, 2, &load);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void agent_links__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts)
{
	if (!opts->agent || !may_sleep())
		return;
	s->rodata->agent_sleeps = 1;
	bpf_program__set_flags(s->progs.agent_chunk,
			       bpf_program__flags(s->progs.agent_chunk) | BPF_F_SLEEPABLE);
}

/* Sites of the agent that are to be attached together: bits 1 << enum ptb_agent_site. */
struct agent_req {
	const struct probe_agent *pa;
	uint32_t wanted;
	enum ptb_prog prog;
	struct link_list *links;
	struct trace_events *events;
};

static int check(const struct probe_set *ps, uint32_t proc_idx, const struct agent_req *ar)
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

static void drop(struct probe_set *ps, struct link_list *links, struct trace_events *events)
{
	link_list__clear(links);
	if (ps->trace)
		trace_fs__remove_events(ps->trace, events);
}

static int keep(const struct agent_req *ar, struct link_list *links, struct trace_events *events)
{
	int err = trace_events__move(ar->events, events);

	return err ? err : link_list__move(ar->links, links);
}

/* All of them or none. Their site id is 0: they are not of the plan. */
static int attach(struct probe_set *ps, uint32_t proc_idx, const struct agent_req *ar)
{
	struct probe_site sites[PTB_AGENT_SITE_CNT] = {}, *list[PTB_AGENT_SITE_CNT];
	struct link_list links = {};
	struct trace_events events = {};
	uint32_t cnt = 0;
	struct attach_req req = {
		.prog = ps->progs[ar->prog],
		.prog_nr = ar->prog,
		.tgid = ps->procs[proc_idx].tgid,
		.proc = proc_idx,
		.path = ar->pa->access_path,
		.sites = list,
		.links = &links,
		.events = &events,
	};
	int err;

	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		if (!(ar->wanted >> i & 1))
			continue;
		sites[i].prog = (uint8_t)ar->prog;
		sites[i].offset = ar->pa->site[i];
		sites[i].semaphore = ar->pa->semaphore[i];
		list[cnt++] = &sites[i];
	}
	req.cnt = cnt;
	err = probe_set__attach_sites(ps, &req);
	if (!err && req.attached != cnt)
		err = -EOPNOTSUPP;
	if (!err)
		err = keep(ar, &links, &events);
	if (err && err != -ESRCH)
		pr_error("cannot attach to the agent of process %d: %s", (int)req.tgid, errstr(err));
	drop(ps, &links, &events); /* what was not kept */
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
		.events = &proc->events,
	};
	int err = check(ps, proc_idx, &ar);

	return err ? err : attach(ps, proc_idx, &ar);
}

int probe_set__agent_wish(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa,
			  uint32_t wishes)
{
	struct proc *proc = &ps->procs[proc_idx < PTB_PROC_MAX ? proc_idx : 0];
	const struct agent_req ar = {
		.pa = pa,
		.wanted = wishes,
		.prog = PTB_PROG_AGENT_WISH,
		.links = &proc->wish_links,
		.events = &proc->wish_events,
	};
	int err = wishes & 1u << PTB_AGENT_SITE_CHUNK ? -EINVAL : check(ps, proc_idx, &ar);

	return err ? err : attach(ps, proc_idx, &ar);
}

void probe_set__agent_unwish(struct probe_set *ps, uint32_t proc_idx)
{
	if (proc_idx < PTB_PROC_MAX)
		drop(ps, &ps->procs[proc_idx].wish_links, &ps->procs[proc_idx].wish_events);
}
