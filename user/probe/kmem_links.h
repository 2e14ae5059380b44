/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The tracepoints of kernel memory; inside user/probe only. */
#ifndef PROBE_KMEM_LINKS_H
#define PROBE_KMEM_LINKS_H

#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

enum kmem_kind {
	KMEM_FAULTS,
	KMEM_CALLS,
	KMEM_RECLAIM,
	KMEM_CGROUP_RECLAIM,
	KMEM_COMPACTION,
	KMEM_HUGE_PAGES,
	KMEM_MIGRATION,
	KMEM_OOM,
	KMEM_LIFE,
	KMEM_RSS,
	KMEM_KINDS
};

struct kmem {
	bool on, attached;
	bool life;        /* births and ends of threads, attached from the beginning */
	uint32_t missing; /* bits of enum kmem_kind */
	int tracefs;
	struct link_list links;
	struct bpf_link *iter;
};

/* Before load: what is loaded. 0 or negative errno. */
int kmem__configure(struct kmem *k, struct ptbpf_bpf *s, bool on);
/*
 * After load, before the scheduler's tracepoints are attached for others: so a thread's sums are emitted before
 * its end is.
 */
int kmem__open(struct kmem *k, struct ptbpf_bpf *s);
int kmem__attach(struct kmem *k, struct ptbpf_bpf *s); /* all others; does nothing the second time */
void kmem__detach(struct kmem *k);
void kmem__free(struct kmem *k);

/* A window begins, ends; another process is watched. */
void kmem__begin(const struct kmem *k, struct ptbpf_bpf *s, uint32_t window);
void kmem__join(const struct kmem *k, const struct ptbpf_bpf *s);
int kmem__end(const struct kmem *k, struct ptbpf_bpf *s, const struct rings *r);

uint32_t kmem__missing(const struct kmem *k, char *buf, size_t cap);

#endif /* PROBE_KMEM_LINKS_H */
