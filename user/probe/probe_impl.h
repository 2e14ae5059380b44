/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of this part share; not for other parts. */
#ifndef PROBE_PROBE_IMPL_H
#define PROBE_PROBE_IMPL_H

#include "probe/probe_set.h"

struct bpf_program;
struct bpf_link;

/* ---- links: attach_multi.c, attach_perf.c ---- */

struct link_list {
	struct bpf_link **items;
	uint32_t cnt, cap;
};
int link_list__add(struct link_list *l, struct bpf_link *link); /* takes it, also on -ENOMEM */
int link_list__move(struct link_list *to, struct link_list *from); /* -ENOMEM: unchanged */
void link_list__clear(struct link_list *l);                     /* detaches all, frees */

/* All sites of one program in one file of one process. */
struct attach_req {
	const struct bpf_program *prog;
	pid_t tgid;
	uint32_t proc; /* high half of the cookies */
	const char *path;
	struct probe_site **sites;
	uint32_t cnt;
	struct link_list *links; /* out: appended */
	uint32_t attached;       /* out */
};

/* 0, or a negative errno that no choice of sites would cure; single refused sites are marked. */
int attach_multi__sites(struct attach_req *req);
int attach_perf__sites(struct attach_req *req);
bool attach_multi__supported(void);
/* File descriptors for `sites` perf-event probes. */
int attach_perf__raise_limit(uint64_t sites);
/* True for errors that concern the file, the process or the machine, not one offset. */
bool attach__is_hard_error(int err);
bool attach__file_is_mapped(pid_t tgid, const char *path);

/* fn(arg, i) for every i below cnt, on a few threads; returns when all are done. */
void parallel__run(void (*fn)(void *arg, uint32_t i), void *arg, uint32_t cnt);

/* ---- rings.c ---- */

struct rings;

#define RINGS_MAX 64

uint32_t rings__choose_cnt(void);                          /* power of two, at most RINGS_MAX */
uint64_t rings__choose_bytes(void);                        /* per ring */
int rings__open(uint32_t cnt, uint64_t bytes, int outer_map_fd, struct rings **out);
void rings__free(struct rings *r);
uint32_t rings__cnt(const struct rings *r);
int64_t rings__drain(struct rings *r, uint32_t ring, ring_fn fn, void *arg);
double rings__fill(const struct rings *r);
int rings__wake_fd(const struct rings *r);
uint64_t rings__delivered(const struct rings *r);          /* records handed out since open */
/* Waits until no BPF program runs that began before this call. */
void rings__wait_programs(const struct rings *r);

/* ---- probe_cost.c ---- */

/* Sites of the function that measures, as file offsets of the own executable. */
int probe_cost__sites(const char **path, uint64_t *push_off, uint64_t *jcc_off);
/* attach() places probes at both sites for this pid, which is dead afterwards; drain() empties the rings. */
struct probe_cost_ops {
	int (*attach)(void *arg, pid_t pid);
	void (*drain)(void *arg);
	void *arg;
};
int64_t probe_cost__measure(const struct probe_cost_ops *ops);

/* ---- pidns.c, bpf_log.c ---- */

/* Depth of this process's pid namespace (0: initial) and its inode number. */
int pidns__self(uint32_t *level, uint32_t *inum);

void bpf_log__init(void);
void bpf_log__set_loud(bool loud); /* libbpf's warnings are ours to report: while loading */

#endif /* PROBE_PROBE_IMPL_H */
