/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared by the files of user/probe only. */
#ifndef PROBE_PROBE_IMPL_H
#define PROBE_PROBE_IMPL_H

#include "probe/probe_set.h"

struct bpf_program;
struct bpf_link;
struct ptbpf_bpf;

/* ---- shielded.c: calls that a SIGKILL of ptbpf does not interrupt ---- */

/* Calls fn(arg) in a process that shares memory and descriptors. fn takes no lock, so it neither
 * allocates nor logs. */
void shielded__run(void (*fn)(void *arg), void *arg);
void shielded__close(int fd);
uint64_t shielded__cpu_ns(void); /* processor time of all calls */

/* ---- links.c ---- */

/* A link of libbpf's, or a descriptor alone (lib NULL), which shielded__close() closes. */
struct probe_link {
	struct bpf_link *lib;
	int fd;
	/* where its event is defined, to be removed after the link; NULL: it has none */
	struct trace_fs *trace;
	uint32_t event;
	uint32_t prog; /* enum ptb_prog */
};

struct link_list {
	struct probe_link *items;
	uint32_t cnt, cap;
};
void link_list__add(struct link_list *l, struct probe_link link); /* takes ownership */
void link_list__move(struct link_list *to, struct link_list *from);
void link_list__clear(struct link_list *l); /* detaches and frees all */
/* Detaches all but those of some programs: bits of enum ptb_prog. */
void link_list__keep(struct link_list *l, uint64_t progs);

/* All sites of one program in a file of one process, or of all processes that map it. */
struct attach_req {
	const struct bpf_program *prog;
	uint32_t prog_nr; /* enum ptb_prog */
	pid_t tgid;       /* 0: all, only with uprobe_multi */
	uint32_t proc;    /* high half of the cookies */
	const char *path;
	struct probe_site **sites;
	uint32_t cnt;
	struct link_list *links; /* out: appended */
	uint32_t attached;       /* out */
	struct trace_fs *trace;  /* only with attach_trace.c */
};

/* Attaches req->sites[from..from + cnt) together. Negative errno. Called from several threads. */
typedef int (*link_fn)(struct attach_req *req, uint32_t from, uint32_t cnt, struct probe_link *out);
/* Attaches all sites that the kernel accepts and marks refused ones. 0, or a negative errno that
 * does not depend on sites. */
int attach__bisect(struct attach_req *req, link_fn link, uint32_t range_max);

/* ---- the two kinds of links, each as attach__bisect() ---- */

bool attach_multi__known(void);     /* Linux 6.6 and later */
bool attach_multi__supported(void); /* ... and links serve all threads of a process */
/* Links to ptbpf itself. 0; -ESRCH: a link serves one thread; another negative errno. */
int attach_multi__try(void);
int attach_multi__sites(struct attach_req *req);

struct trace_fs;
struct trace_fs *trace_fs__open(uint32_t ns_inum); /* NULL: not available */
/* Map of addresses; before the first attach. */
void trace_fs__set_map(struct trace_fs *tf, int site_map_fd);
void trace_fs__free(struct trace_fs *tf);
/* Defines two probes of ptbpf itself as one event and removes it. 0 or negative errno. */
int trace_fs__try(void);
/* Number of probes in groups of killed ptbpfs of this pid namespace; negative errno. The next
 * open() removes them. */
int64_t trace_fs__stale(uint32_t ns_inum);
int attach_trace__sites(struct attach_req *req);
int trace_fs__mount(void); /* its root, which other processes do not see; negative: not available */
/* The event's number in perf ("syscalls/sys_enter_brk"); negative errno. */
int trace_fs__event_id(int dir, const char *event);
/* After its link is closed. */
void trace_fs__remove_event(const struct trace_fs *tf, uint32_t event);
void trace_fs__forget_process(struct trace_fs *tf, uint32_t proc);

/* ---- mapped.c ---- */

struct code_map {
	/* executable memory [start, end), which shows the file from off on */
	uint64_t start, end, off;
	uint64_t ino;
};
struct code_maps {
	struct code_map *items;
	uint32_t cnt, cap;
};
/* Of all files, and of this one; the caller frees both, also after an error. */
int code_maps__read_all(struct code_maps *m, pid_t tgid);
int code_maps__pick(const struct code_maps *all, pid_t tgid, const char *path, struct code_maps *m);
int code_maps__read(struct code_maps *m, pid_t tgid, const char *path);
void code_maps__free(struct code_maps *m);

/* ---- site_check.c ---- */

/* Compares the sites with the file and with the process's code (all). armed: NULL, or the linked
 * programs by enum ptb_prog, whose sites must have breakpoints unless refused. Breakpoints of any
 * tracer are no differences. 0; -ESTALE: a site differs or has no breakpoint (logged); -EINVAL: a
 * site has no bytes; another negative errno (logged unless -ESRCH). */
int site_check__lib(pid_t tgid, const struct code_maps *all, const struct probe_lib *lib,
		    struct bpf_program *const *armed);
/* Compares only these mappings in the process's memory, and logs nothing. -ENOENT: a site without a
 * breakpoint. */
int site_check__memory(pid_t tgid, const struct code_maps *maps, const struct probe_lib *lib,
		       struct bpf_program *const *armed);

/* ---- rings.c ---- */

struct rings;

#define RINGS_MAX 64

uint32_t rings__choose_cnt(void);         /* a power of two, at most RINGS_MAX */
uint64_t rings__choose_bytes(bool agent); /* per ring */
/* Begins to make the rings on other threads: zeroing their pages takes as long as loading all
 * programs. */
void rings__make(uint32_t cnt, uint64_t bytes, struct rings **out);
/* Waits until the rings are made and gives them to the programs. 0 or negative errno (reported). */
int rings__connect(struct rings *r, int outer_map_fd, const uint32_t *at);
void rings__free(struct rings *r);
uint32_t rings__cnt(const struct rings *r);
uint32_t rings__piece_cnt(const struct rings *r); /* of each ring */
uint64_t rings__piece_bytes(const struct rings *r);
int64_t rings__drain(struct rings *r, uint32_t ring, ring_fn fn, void *arg);
double rings__fill(const struct rings *r);
int rings__wake_fd(const struct rings *r);
uint64_t rings__delivered(const struct rings *r); /* probe records delivered since open */
/* Waits for the end of all BPF programs that began before this call. */
void rings__wait_programs(const struct rings *r);

/* ---- probe_cost.c ---- */

/* Sites of the measured function, as file offsets of ptbpf's executable. */
int probe_cost__sites(const char **path, uint64_t *push_off, uint64_t *jcc_off);
/* attach() places probes at both sites for a pid that ends afterwards; drain() empties the
 * rings. */
struct probe_cost_ops {
	int (*attach)(void *arg, pid_t pid);
	void (*drain)(void *arg);
	void *arg;
};
int64_t probe_cost__measure(const struct probe_cost_ops *ops);

/* ---- kmem_links.c ---- */

/* Number of kinds of kernel memory events that this kernel does not report, and their names;
 * negative errno. */
int kmem__find_missing(char *buf, size_t cap);

/* ---- kern_features.c ---- */

/* Loads the smallest program of the type of uprobes. A descriptor; negative and errno. */
int load_smallest(const char *name, uint32_t attach_type);

/* ---- iter.c ---- */

/* Loads only this program of the object, without shared maps. 0 or negative errno. */
int load_alone(struct ptbpf_bpf *skel, const struct bpf_program *only);
/* The next bytes of an iterator; 0 at its end; negative errno. The kernel may interrupt the
 * iteration in between. */
ssize_t iter__read(int fd, void *buf, size_t len);
/* Runs an iterator without output to its end. 0 or negative errno. */
int iter__run(const struct bpf_link *link);
/* Over all tasks of this machine; warns of an error. */
int iter__run_tasks(const struct bpf_link *link);

/* ---- pidns.c, bpf_log.c ---- */

/* Depth (0: initial) and inode number of this process's pid namespace. */
int pidns__self(uint32_t *level, uint32_t *inum);

void bpf_log__init(void);

#endif /* PROBE_PROBE_IMPL_H */
