/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a probe set holds; only for the files that implement probe_set.h. */
#ifndef PROBE_PROBE_STATE_H
#define PROBE_PROBE_STATE_H

#include "probe/kmem_links.h"
#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

struct proc {
	bool used;
	pid_t tgid;
	struct link_list links;
	struct link_list request_links; /* to the agent; they come and go while it is listened to */
};

struct probe_set {
	struct ptbpf_bpf *skel;
	struct rings *rings;
	struct bpf_program *progs[PTB_PROG_CNT];
	struct probe_set_opts opts;
	uint32_t arg_prog_cnt; /* entries of the map in use, with entry 0: none */
	uint32_t window;       /* number of the last one */
	bool multi;
	struct trace_fs *trace; /* without multi: groups of probes; NULL: one perf event per probe */
	struct proc procs[PTB_PROC_MAX];
	struct link_list cost_links; /* to a child that is gone: closed with the others, it takes time */
	struct kmem kmem;
	uint64_t loss_seen_ns[RINGS_MAX]; /* end of the last interval taken */
};

/* ---- probe_set.c ---- */

/* With the kind of links that this set uses; as attach__bisect(). */
int probe_set__attach_sites(struct probe_set *ps, struct attach_req *req);

/* ---- agent_links.c ---- */

/* Before load: what its program may do on this kernel. */
void agent_links__configure(struct ptbpf_bpf *s, const struct probe_set_opts *opts);

#endif /* PROBE_PROBE_STATE_H */
