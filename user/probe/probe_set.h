/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loads the BPF programs and attaches them: the only part that includes the skeleton. Phases: open,
 * (cost), add processes, activate, deactivate, free. One set serves a whole session with many
 * processes. Never touches the target's memory itself.
 */
#ifndef PROBE_PROBE_SET_H
#define PROBE_PROBE_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_agent.h"
#include "ptb_probe.h"
#include "ptb_python.h"

struct probe_set;

enum probe_args {
	PROBE_ARGS_NONE,   /* names only: sites with an argument program are probed without it */
	PROBE_ARGS_SHAPES, /* inputs, without identities */
	PROBE_ARGS_FULL,   /* inputs and results, with identities and the thread's state */
};

struct probe_set_opts {
	uint64_t ring_bytes; /* per ring; power of two, 0: chosen from the number of CPUs */
	bool force_perf;     /* perf-event uprobes, in groups, even where uprobe_multi exists */
	bool follow_tasks;   /* fork/exec/exit/new-thread tracepoints */
	bool watch_children; /* with follow_tasks: a watched task's children are watched from birth */
	enum probe_args args; /* what operators' probes read beside their stack pointer */
	bool identities;      /* ends of tensors are probed, whichever source reads the arguments */
	bool memory;          /* allocators' sites are probed */
	bool oom;             /* of these at least those that report that there is no memory */
	bool kernel_memory;   /* kernel tracepoints of memory */
	bool cuda_calls; /* CUDA launches, copies and synchronisation from the host's side are probed */
	bool agent;      /* processes with an agent may come: its chunks are copied */
	bool stacks; /* Python stacks of processes whose layout is given (probe_set__python()) */
	uint32_t sample_hz; /* with stacks: at so many moments a second, and at no probe; 0: at probes */
};

/* Loads programs and maps. 0 or negative errno (logged with what, why, what to do). */
int probe_set__open(const struct probe_set_opts *opts, struct probe_set **out);
/* Whether what these options ask for loads and attaches here, but for the probes in processes. 0 or negative errno. */
int probe_set__try(const struct probe_set_opts *opts);
/* The two halves of it: what takes time and attaches nothing, and what is attached before there is a process. */
int probe_set__load(const struct probe_set_opts *opts, struct probe_set **out);
int probe_set__start(struct probe_set *ps);
void probe_set__free(struct probe_set *ps); /* detaches whatever is attached; NULL is fine */

bool probe_set__uses_multi(const struct probe_set *ps);

/* Cost of one probe hit on this host in picoseconds: median over a few rounds in a child of ours that
 * runs a function with a site of the same kind. Negative errno if it could not be measured. */
int64_t probe_set__measure_cost(struct probe_set *ps);

#define PROBE_INSN_MAX 15

/* One probe of one process, as the caller lists them. */
struct probe_site {
	uint32_t id;     /* site id = low half of the cookie; > 0 */
	uint64_t offset; /* file offset */
	uint8_t prog;    /* enum ptb_prog */
	uint32_t args;   /* argument program: index from probe_set__add_arg_progs(), 0: none */
	uint64_t semaphore; /* file offset of the counter that the kernel raises while it is probed; 0: none */
	uint8_t insn[PROBE_INSN_MAX]; /* the instruction that was analysed: any other there is not probed */
	uint8_t insn_len;
	bool refused; /* out: the kernel would not take it */
};

/* All probes of one library of one process. */
struct probe_lib {
	const char *name;        /* as the target names it, for messages */
	const char *access_path; /* stands for one file as long as the list is used: /proc/self/fd/... */
	struct probe_site *sites;
	uint32_t cnt;
};

/* Loads the argument programs of one plan; *base: index of the first (from 1). 0, -ENOSPC, negative errno. */
int probe_set__add_arg_progs(struct probe_set *ps, const struct ptb_arg_prog *progs, uint32_t cnt,
			     uint32_t *base);
/* More has become known of a process: replaces its facts. */
void probe_set__update_process(struct probe_set *ps, uint32_t proc_idx, const struct ptb_proc_cfg *cfg);
/* From now on its Python stacks are read. 0; -EINVAL: not such a layout, or stacks are off; another negative errno. */
int probe_set__python(struct probe_set *ps, uint32_t proc_idx, const struct ptb_py_layout *layout);
/* With sample_hz: samples its threads from now on, in windows. After probe_set__python(). 0 or negative errno (reported). */
int probe_set__sample(struct probe_set *ps, uint32_t proc_idx);
/* Polls readable when threads that do not run are to be sampled; -1: never. sample_now() does it if it is time. */
int probe_set__sample_fd(const struct probe_set *ps);
void probe_set__sample_now(struct probe_set *ps);
/* In a window: a sample of each thread that does not run, for where it is at this moment only: it stands for no time. */
void probe_set__sample_once(struct probe_set *ps);
/* A process's layout failed its check: from now on no arguments are read in it. */
void probe_set__stop_args(struct probe_set *ps, uint32_t proc_idx);

/*
 * Are the instructions of all sites in the file, and in every executable mapping of it in process tgid? 0; -ESTALE:
 * not (logged); another negative errno.
 */
int probe_set__verify(pid_t tgid, const struct probe_lib *libs, uint32_t lib_cnt);

/*
 * Attaches all sites for process cfg->tgid with pid-filtered links, or those of probe_set__expect(). A link that fails is bisected
 * until the offending sites are alone; these get refused = true, the rest is attached. The instructions
 * are compared before and after. Returns the number of attached sites or negative errno, then nothing stays
 * attached (-ESTALE: another instruction is there; logged); the process index through *proc_idx.
 */
int probe_set__add_process(struct probe_set *ps, const struct ptb_proc_cfg *cfg,
			   struct probe_lib *libs, uint32_t lib_cnt, uint32_t *proc_idx);
/*
 * These processes are about to be added, before the window begins. A library that is mapped by several of them, and by no other
 * process, has one set of links for all, which also puts breakpoints into processes that map it later: their hits are dropped
 * (PTB_CNT_FOREIGN). Otherwise, and if this is not called, each process has its own.
 */
bool probe_set__can_share(void); /* on this machine */
void probe_set__expect(struct probe_set *ps, const pid_t *pids, uint32_t cnt);
/* More libraries of a process that was added: as add_process(), the links go with it. */
int probe_set__add_libs(struct probe_set *ps, uint32_t proc_idx, struct probe_lib *libs, uint32_t lib_cnt);
/* Detaches one process (it exited or exec'd). */
void probe_set__remove_process(struct probe_set *ps, uint32_t proc_idx);

/* ---- the agent inside a target (ptb_agent.h) ---- */

struct probe_agent { /* its USDT sites, by enum ptb_agent_site: file offsets, 0: it has none */
	const char *access_path;
	uint64_t site[PTB_AGENT_SITE_CNT];
	uint64_t semaphore[PTB_AGENT_SITE_CNT];
};

/* Listens: from now on its chunks come as AGENT_DATA records, in the window or not; they end with
 * remove_process() or detach(). 0 or negative errno (reported). */
int probe_set__agent_listen(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa);
/* Raises the semaphores of these requests (bits 1 << enum ptb_agent_site, CHUNK not among them), that of operators last; all or none. */
int probe_set__agent_request(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa,
			     uint32_t requests);
/* Takes all requests of the process back, that of operators first; listening goes on, so that what it still has can come. */
void probe_set__agent_withdraw(struct probe_set *ps, uint32_t proc_idx);

/* Also deliver fork/exec/exit/new-thread records of this tgid (add_process does it for its own). */
int probe_set__watch_task(struct probe_set *ps, uint32_t tgid);

/* The window: records are produced only while active. Sharp on all CPUs. */
void probe_set__activate(struct probe_set *ps);
void probe_set__deactivate(struct probe_set *ps);
/* Processor time that placing and removing probes has taken so far. For each of them the kernel changes a page of the target, and interrupts the
 * processors that run it. */
uint64_t probe_set__changes_ns(void);
/* The same without what is other processes' share of links that several have: what is added to it
 * while a process is attached to or removed is that process's. */
uint64_t probe_set__share_ns(const struct probe_set *ps);
/* Has it links in common with others, which stay when it is removed? */
bool probe_set__shares(const struct probe_set *ps, uint32_t proc_idx);
/* Closes all links; may take 0.1 s and more. Counters stay readable. */
void probe_set__detach(struct probe_set *ps);

/* Kinds of kernel memory events that this kernel has no tracepoint for, as names separated by ", "; returns
 * their number. */
uint32_t probe_set__missing_kmem(const struct probe_set *ps, char *buf, size_t cap);
/* kernel_memory: every watched thread's sums are put into the rings; before deactivate(), and before the
 * last drain. 0 or negative errno. */
int probe_set__flush_kmem(struct probe_set *ps);

/* Hits of a process that was added once, and that have no record: of all the kinds that counters have. */
uint64_t probe_set__bare_hits(const struct probe_set *ps, uint32_t tgid);
/* Sum over CPUs of a counter that lives in BPF; also the kernel's own "missed" counts for MISSED. */
uint64_t probe_set__counter(struct probe_set *ps, uint32_t id);

/* ---- ring buffers ---- */

typedef void (*ring_fn)(void *arg, uint32_t ring, const void *rec, uint32_t len);

uint32_t probe_set__ring_cnt(const struct probe_set *ps);
/* Delivers everything that is in ring `ring` now, in order; returns bytes or negative errno. A record
 * with site 0 (calibration) is dropped here; every other byte is passed on unread. len is h.len, also
 * where less was written than reserved (AGENT_DATA). */
int64_t probe_set__drain(struct probe_set *ps, uint32_t ring, ring_fn fn, void *arg);
/* Highest fill of the rings, 0..1, to pace the reader; and an fd that polls readable when a
 * piece of a ring is more than half full, until ring 0 is drained. */
double probe_set__fill(const struct probe_set *ps);
int probe_set__poll_fd(const struct probe_set *ps);

/* Losses since the last call: interval [begin, end] and count per ring; cnt 0: none. */
struct ring_loss {
	uint64_t begin_ns, end_ns, cnt;
};
void probe_set__take_loss(struct probe_set *ps, uint32_t ring, struct ring_loss *out);

#endif /* PROBE_PROBE_SET_H */
