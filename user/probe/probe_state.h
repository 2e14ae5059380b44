/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a probe set holds; only for the files that implement probe_set.h. */
#ifndef PROBE_PROBE_STATE_H
#define PROBE_PROBE_STATE_H

#include "probe/probe_impl.h"
#include "ptbpf.skel.h"

/* ---- kmem_links.c: the tracepoints of kernel memory ---- */

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
 * After load, before the scheduler's tracepoints are attached for others: so a thread's sums are
 * emitted before its end is.
 */
int kmem__open(struct kmem *k, struct ptbpf_bpf *s);
/* all others; does nothing the second time */
int kmem__attach(struct kmem *k, struct ptbpf_bpf *s);
void kmem__detach(struct kmem *k);
void kmem__free(struct kmem *k);

/* A window begins, ends; another process is watched. */
void kmem__begin(const struct kmem *k, struct ptbpf_bpf *s, uint32_t window);
void kmem__join(const struct kmem *k, const struct ptbpf_bpf *s);
int kmem__end(const struct kmem *k, struct ptbpf_bpf *s, const struct rings *r);

/* Arguments of a tracepoint; the first one is the tracer's own. NULL: there is no such
 * tracepoint. */
struct btf;
struct btf_type;
const struct btf_type *tracepoint__proto(const struct btf *btf, const char *name);

/* ---- sched_links.c: the tracepoints of context switches and wake-ups ---- */

struct sched {
	bool on, attached;
	struct link_list links;
	struct bpf_link *iter;
};

/* As those of kmem. */
int sched__configure(struct sched *sc, struct ptbpf_bpf *s, bool on);
int sched__open(struct sched *sc, struct ptbpf_bpf *s);
int sched__attach(struct sched *sc, struct ptbpf_bpf *s);
void sched__detach(struct sched *sc);
void sched__free(struct sched *sc);
void sched__begin(const struct sched *sc, struct ptbpf_bpf *s, uint32_t window);
void sched__join(const struct sched *sc, const struct ptbpf_bpf *s);
int sched__end(const struct sched *sc, struct ptbpf_bpf *s, const struct rings *r);

/* ---- sampler.c: the processors' timers, and the iterators over threads that do not run ---- */

struct sampler {
	uint32_t hz;      /* of threads that run; 0: nothing is sampled */
	uint64_t wait_ns; /* between two runs of the iterators */
	bool ticks;       /* by the processors' ticks, not by timers */
	int timer;        /* of the iterators */
	int nice;         /* of ptbpf outside of windows */
	uint64_t random;  /* state */
	uint64_t due_ns;  /* the next run */
	/* of the time since the epoch in such periods: the last one that has had its run */
	uint64_t slot;
	struct link_list links;
};

struct proc;

/* Before load; after it; both 0 or negative errno (the latter reported). */
int sampler__configure(struct sampler *sa, struct ptbpf_bpf *s, uint32_t hz);
int sampler__open(struct sampler *sa, struct ptbpf_bpf *s);
void sampler__free(struct sampler *sa);
/* A window begins: from here on the timer runs, until it ends. */
void sampler__begin(struct sampler *sa);
void sampler__end(struct sampler *sa);
int sampler__add(const struct sampler *sa, struct ptbpf_bpf *s, uint32_t idx, struct proc *p);
void sampler__remove(const struct ptbpf_bpf *s, struct proc *p);
/* One run at once, whose samples stand for no time. */
void sampler__run_once(const struct sampler *sa, struct ptbpf_bpf *s, const struct proc *procs,
		       uint32_t cnt);
/* If it is time. */
void sampler__run(struct sampler *sa, struct ptbpf_bpf *s, const struct proc *procs, uint32_t cnt);

/* ---- mappings.c: who else has mapped a library ---- */

struct mappings {
	struct ptb_mapping *items; /* of all processes of the machine */
	uint32_t cnt, cap;
	uint64_t read_ns;
};

int mappings__read(struct probe_set *ps); /* 0 or negative errno */
/* The library's file, by one of the process's mappings of it; 0: not known. */
uint64_t mappings__inode(const struct mappings *all, pid_t tgid, const struct probe_lib *lib);
/* The next process that maps the file, once each, as they come one after the other; *i: begins with
 * 0. 0: no more. */
pid_t mappings__next(const struct mappings *all, uint64_t inode, uint32_t *i);
/* Before probes of this process are placed: nobody who maps these libraries as well makes that take
 * long. 0 or -EUSERS (reported). */
int mappings__check(struct probe_set *ps, pid_t tgid, const struct probe_lib *libs,
		    uint32_t lib_cnt);

/* ---- shared_links.c: one set of links to a library for several processes ---- */

struct shared_lib {
	dev_t dev;
	ino_t ino;
	struct probe_site *sites;
	uint32_t cnt;
	uint32_t members;  /* processes; 0: there are no links */
	int attached;      /* sites */
	uint64_t share_ns; /* of the processor time of placing them, for each process */
	struct link_list links;
};

struct shared {
	pid_t *expected; /* probe_set__expect(); none: no more such links are made */
	uint32_t expected_cnt;
	struct shared_lib libs[PTB_SHARED_MAX];
	/* of probe_set__changes_ns(), the shares of processes that are not added yet */
	uint64_t others_ns;
};

/*
 * The process has a part in links that are there. The number of sites, whose instructions are
 * compared; 0: there are none for it.
 */
int shared__join(struct probe_set *ps, uint32_t proc_idx, const struct code_maps *all,
		 struct probe_lib *lib);
/* Attaches all sites of the library for all processes that map it. Their number; 0: the process
 * needs links of its own; negative errno. */
int shared__create(struct probe_set *ps, uint32_t proc_idx, struct probe_lib *lib);
/* The process has no part in these libraries any more (bits); their links go with the last one. */
void shared__leave(struct probe_set *ps, uint32_t proc_idx, uint32_t libs);
/* From now on there are other processes than those that were seen. */
void shared__forget(struct shared *sh);
void shared__take_links(struct shared *sh, struct link_list *to);

/* ---- hit_counts.c ---- */

uint64_t hit_counts__sum(const struct bpf_map *map, uint32_t key); /* over the processors */
/* Its hits without a record are counted from now on, also when it is removed: what it has cost is
 * asked for later. 0 or negative errno. */
int hit_counts__add(const struct probe_set *ps, uint32_t tgid);

/* ---- the set ---- */

struct proc {
	bool used;
	uint32_t shares;          /* bits: libraries whose links it shares with others */
	struct bpf_link *threads; /* iterator over them; NULL: they are not sampled */
	pid_t tgid;
	struct link_list links;
	/* to the agent's sites: that of operators, and all others; they come and go while it is
	 * listened to */
	struct link_list ops_links, request_links;
};

struct probe_set {
	struct ptbpf_bpf *skel;
	struct rings *rings;
	struct bpf_program *progs[PTB_PROG_CNT];
	struct probe_set_opts opts;
	uint32_t arg_prog_cnt; /* entries of the map in use, with entry 0: none */
	uint32_t window;       /* number of the last one */
	bool multi;
	struct trace_fs *trace; /* without multi: groups of probes */
	struct proc procs[PTB_PROC_MAX];
	/* to a child that is gone: closed with the others, it takes time */
	struct link_list cost_links;
	struct kmem kmem;
	struct sched sched;
	struct sampler sampler;
	struct mappings mappings;
	struct shared shared;
	uint64_t loss_seen_ns[RINGS_MAX]; /* end of the last interval taken */
};

/* ---- probe_set.c ---- */

/* As probe_set__verify(), of links that have been made: the process must have their breakpoints. */
int probe_set__verify_armed(const struct probe_set *ps, pid_t tgid, const struct probe_lib *libs,
			    uint32_t lib_cnt);
/* With the kind of links that this set uses; as attach__bisect(). */
int probe_set__attach_sites(struct probe_set *ps, struct attach_req *req);
/* All sites of a library; proc: for the cookies; tgid 0: in all processes. Their number or negative
 * errno (reported, if it is one process). */
int probe_set__attach_progs(struct probe_set *ps, uint32_t proc, pid_t tgid, struct probe_lib *lib,
			    struct link_list *links);

#endif /* PROBE_PROBE_STATE_H */
