/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of this part share; not for other parts. */
#ifndef PROBE_PROBE_IMPL_H
#define PROBE_PROBE_IMPL_H

#include "probe/probe_set.h"

struct bpf_program;
struct bpf_link;
struct ptbpf_bpf;

/* ---- shielded.c: what a SIGKILL of ptbpf does not interrupt ---- */

/* fn(arg) in a process that shares memory and descriptors: it takes no lock, so it allocates and
 * logs nothing. */
void shielded__run(void (*fn)(void *arg), void *arg);
void shielded__close(int fd);
uint64_t shielded__cpu_ns(void); /* processor time that all calls have taken */

/* ---- links.c: lists of links; refused sites ---- */

/* Something attached: a link of libbpf's, or a descriptor alone (lib NULL), which is always closed
 * by shielded__close(). */
struct probe_link {
	struct bpf_link *lib;
	int fd;
	/* where its event is defined, which goes after the link; NULL: it has none */
	struct trace_fs *trace;
	uint32_t event;
};

struct link_list {
	struct probe_link *items;
	uint32_t cnt, cap;
};
void link_list__add(struct link_list *l, struct probe_link link); /* takes it */
void link_list__move(struct link_list *to, struct link_list *from);
void link_list__clear(struct link_list *l); /* detaches all, frees */

/* All sites of one program in one file of one process, or of all that map it. */
struct attach_req {
	const struct bpf_program *prog;
	uint32_t prog_nr; /* enum ptb_prog */
	pid_t tgid;       /* 0: all, with uprobe_multi only */
	uint32_t proc;    /* high half of the cookies */
	const char *path;
	struct probe_site **sites;
	uint32_t cnt;
	struct link_list *links; /* out: appended */
	uint32_t attached;       /* out */
	struct trace_fs *trace;  /* attach_trace.c only */
};

/* Attaches req->sites[from..from + cnt) at once; negative errno. Called from several threads. */
typedef int (*link_fn)(struct attach_req *req, uint32_t from, uint32_t cnt, struct probe_link *out);
/* 0, or a negative errno that no choice of sites would cure; single refused sites are marked. */
int attach__bisect(struct attach_req *req, link_fn link, uint32_t range_max);

/* ---- the two kinds of links, each as attach__bisect() ---- */

bool attach_multi__known(void);     /* Linux 6.6 and later */
bool attach_multi__supported(void); /* and they serve all threads of a process */
/* links to ptbpf itself; 0; -ESRCH: a link serves one thread; another negative errno */
int attach_multi__try(void);
int attach_multi__sites(struct attach_req *req);

struct trace_fs;
struct trace_fs *trace_fs__open(uint32_t ns_inum); /* NULL: not to be had here */
/* of addresses, before the first attach */
void trace_fs__set_map(struct trace_fs *tf, int site_map_fd);
void trace_fs__free(struct trace_fs *tf);
/* defines two probes of ptbpf itself as one event and removes it; 0 or negative errno */
int trace_fs__try(void);
/* Probes of groups whose ptbpf was killed, in this pid namespace; negative errno. The next open()
 * removes them. */
int64_t trace_fs__stale(uint32_t ns_inum);
int attach_trace__sites(struct attach_req *req);
int trace_fs__mount(void); /* its root, invisible to other processes; negative: not available */
/* The number of an event of tracefs ("syscalls/sys_enter_brk"), which perf knows it by; negative
 * errno. */
int trace_fs__event_id(int dir, const char *event);
/* after its link is closed */
void trace_fs__remove_event(const struct trace_fs *tf, uint32_t event);
void trace_fs__forget_process(struct trace_fs *tf, uint32_t proc);

/* ---- mapped.c ---- */

struct code_map {
	uint64_t start, end, off; /* executable memory [start, end) shows the file from off */
	uint64_t ino;
};
struct code_maps {
	struct code_map *items;
	uint32_t cnt, cap;
};
/* Of all files; of this one among them; both: each then free, also on error. */
int code_maps__read_all(struct code_maps *m, pid_t tgid);
int code_maps__pick(const struct code_maps *all, pid_t tgid, const char *path, struct code_maps *m);
int code_maps__read(struct code_maps *m, pid_t tgid, const char *path);
void code_maps__free(struct code_maps *m);

/* ---- site_check.c ---- */

/* all: the process's code; armed: NULL, or by enum ptb_prog what is linked: its sites, unless
 * refused, must have a breakpoint. 0; -ESTALE: one differs or has none (logged); -EINVAL: a site
 * without bytes; another negative errno (logged unless -ESRCH). Breakpoints, our own and other
 * tracers', are not differences. */
int site_check__lib(pid_t tgid, const struct code_maps *all, const struct probe_lib *lib,
		    struct bpf_program *const *armed);
/* The process's memory alone, in these mappings of the library; nothing is logged. -ENOENT: a site
 * without a breakpoint. */
int site_check__memory(pid_t tgid, const struct code_maps *maps, const struct probe_lib *lib,
		       struct bpf_program *const *armed);

/* ---- rings.c ---- */

struct rings;

#define RINGS_MAX 64

uint32_t rings__choose_cnt(void);         /* power of two, at most RINGS_MAX */
uint64_t rings__choose_bytes(bool agent); /* per ring */
/* Begins to make them, on other threads: their pages are zeroed, which takes as long as to load all
 * programs. */
void rings__make(uint32_t cnt, uint64_t bytes, struct rings **out);
/* Waits until they are made, and hands them to the programs. 0 or negative errno (reported). */
int rings__connect(struct rings *r, int outer_map_fd, const uint32_t *at);
void rings__free(struct rings *r);
uint32_t rings__cnt(const struct rings *r);
uint32_t rings__piece_cnt(const struct rings *r); /* of each */
uint64_t rings__piece_bytes(const struct rings *r);
int64_t rings__drain(struct rings *r, uint32_t ring, ring_fn fn, void *arg);
double rings__fill(const struct rings *r);
int rings__wake_fd(const struct rings *r);
uint64_t rings__delivered(const struct rings *r); /* probe records handed out since open */
/* Waits until no BPF program runs that began before this call. */
void rings__wait_programs(const struct rings *r);

/* ---- probe_cost.c ---- */

/* Sites of the function that measures, as file offsets of the own executable. */
int probe_cost__sites(const char **path, uint64_t *push_off, uint64_t *jcc_off);
/* attach() places probes at both sites for this pid, which is dead afterwards; drain() empties the
 * rings. */
struct probe_cost_ops {
	int (*attach)(void *arg, pid_t pid);
	void (*drain)(void *arg);
	void *arg;
};
int64_t probe_cost__measure(const struct probe_cost_ops *ops);

/* ---- kmem_links.c ---- */

/* Number of kinds of kernel memory events that this kernel does not report, their names; negative
 * errno. */
int kmem__find_missing(char *buf, size_t cap);

/* ---- kern_features.c ---- */

/* Loads the smallest program of the type that uprobes run: its descriptor, negative and errno. */
int load_smallest(const char *name, uint32_t attach_type);

/* ---- iter.c ---- */

/* Loads this program of the object and no other, without the maps that others share. 0 or negative
 * errno. */
int load_alone(struct ptbpf_bpf *skel, const struct bpf_program *only);
/* The next bytes of an iterator, 0 at its end, or negative errno; the kernel may interrupt it in
 * between. */
ssize_t iter__read(int fd, void *buf, size_t len);
/* Runs an iterator that writes nothing to its end. 0 or negative errno. */
int iter__run(const struct bpf_link *link);

/* ---- pidns.c, bpf_log.c ---- */

/* Depth of this process's pid namespace (0: initial) and its inode number. */
int pidns__self(uint32_t *level, uint32_t *inum);

void bpf_log__init(void);

#endif /* PROBE_PROBE_IMPL_H */
