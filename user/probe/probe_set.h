/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loads the BPF programs and attaches them: the only part that includes the skeleton. Phases: open,
 * (cost), add processes, activate, deactivate, free. One set serves a whole session with many
 * processes. Never touches the target's memory itself.
 */
#ifndef PROBE_PROBE_SET_H
#define PROBE_PROBE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ptb_agent.h"
#include "ptb_probe.h"
#include "ptb_python.h"

/*
 * What this kernel and this process may do, each by trying it (not by version). Rows for `doctor`
 * and for the sentence that `attach` prints when it cannot start.
 */

enum feature_state { FEATURE_YES, FEATURE_NO, FEATURE_UNKNOWN };

struct feature {
	const char *title; /* "uprobe_multi links" */
	bool needed;       /* without it attach cannot work (else: slower, or less) */
	enum feature_state (*check)(char *detail, size_t cap); /* detail: one line for the user */
	const char *hint;                                      /* the one action that fixes a NO */
	bool privileged;   /* without the capabilities it says nothing */
	const char *gives; /* what can be recorded then; NULL: nothing of its own */
};

extern const struct feature kern_features[];
extern const size_t kern_feature_cnt;
#define KERN_CAPABILITIES "capabilities" /* a title */

/* First needed feature that is missing, or NULL; detail as above. */
const struct feature *kern_features__blocker(char *detail, size_t cap);
/* The same for what arguments of operators and Python stacks need beside. */
const struct feature *kern_features__args_blocker(char *detail, size_t cap);

/* The registers of a process's threads, read without stopping them. */

struct thread_regs; /* a loaded program, for one process */

/* 0 or negative errno (the kernel's: before Linux 6.1 there is no iterator over one process). */
int thread_regs__open(pid_t pid, struct thread_regs **out);
/* Of all threads as they are now. 0 and *rows (the caller's to free), *cnt; or negative errno. */
int thread_regs__read(const struct thread_regs *tr, struct ptb_thread_regs **rows, uint32_t *cnt);
void thread_regs__close(struct thread_regs *tr); /* NULL is fine */

struct probe_set;

enum probe_args {
	PROBE_ARGS_NONE,   /* names only: sites with an argument program are probed without it */
	PROBE_ARGS_SHAPES, /* inputs, without identities */
	PROBE_ARGS_FULL,   /* inputs and results, with identities and the thread's state */
};

struct probe_set_opts {
	uint64_t ring_bytes; /* per ring; power of two, 0: chosen from the number of CPUs */
	bool force_perf;     /* perf-event uprobes even where uprobe_multi exists */
	bool follow_tasks;   /* fork/exec/exit/new-thread tracepoints */
	/* with follow_tasks: a watched task's children are watched from birth */
	bool watch_children;
	enum probe_args args; /* what operators' probes read beside their stack pointer */
	bool identities;      /* ends of tensors are probed, whichever source reads the arguments */
	bool memory;          /* allocators are probed */
	bool oom;             /* without memory: reports that memory is exhausted are probed */
	bool kernel_memory;   /* the kernel's tracepoints for memory are attached */
	bool sched;           /* the scheduler's tracepoints are attached */
	bool cuda_calls;      /* CUDA launches, copies and synchronisation of the host are probed */
	bool agent;           /* chunks of agents are copied */
	/* Python stacks of processes whose layout is given (probe_set__python()) are read at
	 * probes. Not if there are samples only. */
	bool stacks;
	uint32_t sample_hz;  /* they are sampled so often a second; 0: not */
	bool samples_beside; /* with sample_hz: not samples only, but all else, too */
};

/* Loads programs and maps. 0 or negative errno (logged with what, why, what to do). */
int probe_set__open(const struct probe_set_opts *opts, struct probe_set **out);
/* Tries on this machine to load and attach all that these options need before there is a process. 0
 * or negative errno. */
int probe_set__try(const struct probe_set_opts *opts);
/* The two halves of probe_set__open(): load() takes time and attaches nothing, start() attaches
 * what belongs to no process. */
int probe_set__load(const struct probe_set_opts *opts, struct probe_set **out);
int probe_set__start(struct probe_set *ps);
void probe_set__free(struct probe_set *ps); /* detaches whatever is attached; NULL is fine */

bool probe_set__uses_multi(const struct probe_set *ps);

/* Cost of one probe hit on this host in picoseconds: median of a few rounds, in a child that runs a
 * function with a site of the same kind. Negative errno: it cannot be measured. */
int64_t probe_set__measure_cost(struct probe_set *ps);

#define PROBE_INSN_MAX 15

/* One probe of one process, as the caller lists them. */
struct probe_site {
	uint32_t id;     /* site id = low half of the cookie; > 0 */
	uint64_t offset; /* file offset */
	uint8_t prog;    /* enum ptb_prog */
	uint32_t args;   /* argument program: index from probe_set__add_arg_progs(), 0: none */
	/* file offset of the counter that the kernel raises while it is probed; 0: none */
	uint64_t semaphore;
	/* the analysed instruction; a site with another one is not probed */
	uint8_t insn[PROBE_INSN_MAX];
	uint8_t insn_len;
	bool refused; /* out: the kernel refused the probe */
};

/* All probes of one library of one process. */
struct probe_lib {
	const char *name; /* as the target names it, for messages */
	/* names the same file as long as the list is used: /proc/self/fd/... */
	const char *access_path;
	struct probe_site *sites;
	uint32_t cnt;
};

/* Loads the argument programs of one plan; *base: index of the first (from 1). 0, -ENOSPC, negative
 * errno. */
int probe_set__add_arg_progs(struct probe_set *ps, const struct ptb_arg_prog *progs, uint32_t cnt,
			     uint32_t *base);
/* Replaces the facts of a process when more is known of it. */
void probe_set__update_process(struct probe_set *ps, uint32_t proc_idx,
			       const struct ptb_proc_cfg *cfg);
/* From now on the process's Python stacks are read. 0; -EINVAL: the layout is none that the
 * programs can read, or stacks are off; another negative errno. */
int probe_set__python(struct probe_set *ps, uint32_t proc_idx, const struct ptb_py_layout *layout);
/* Can `sched` be? Not with PREEMPT_RT before Linux 6.12 (8b62645b09f8), where the lock of a ring
 * may sleep, which must not be in a context switch. */
bool probe_set__can_sched(void);
/* With sched: the GIL of a process, until its next exec. 0 or negative errno. */
int probe_set__gil(const struct probe_set *ps, uint32_t tgid, const struct ptb_py_gil *gil);
/* With sample_hz: samples the process's threads in windows from now on. After probe_set__python().
 * 0 or negative errno (reported). */
int probe_set__sample(struct probe_set *ps, uint32_t proc_idx);
/* Polls readable when threads that do not run are to be sampled; -1: there is nothing to wait
 * for. */
int probe_set__sample_fd(const struct probe_set *ps);
void probe_set__sample_now(struct probe_set *ps); /* samples them if it is time */
/* In a window: takes one sample of each thread that does not run. It stands for no time. */
void probe_set__sample_once(struct probe_set *ps);
/* From now on no arguments are read in the process: its layout failed the check. */
void probe_set__stop_args(struct probe_set *ps, uint32_t proc_idx);

/*
 * Compares the instructions of all sites with the file and with every executable mapping of it in
 * process tgid. 0; -ESTALE: one differs (logged); another negative errno.
 */
int probe_set__verify(pid_t tgid, const struct probe_lib *libs, uint32_t lib_cnt);

/*
 * Attaches all sites in process cfg->tgid, with links of its own or with those that it shares
 * (probe_set__expect()). A link that fails is bisected until the offending sites are alone; these
 * get refused = true, the rest is attached. Instructions are compared before and after. Returns the
 * number of attached sites; *proc_idx is the index of the process. Negative errno: nothing is
 * attached (-ESTALE: another instruction is at a site; logged).
 */
int probe_set__add_process(struct probe_set *ps, const struct ptb_proc_cfg *cfg,
			   struct probe_lib *libs, uint32_t lib_cnt, uint32_t *proc_idx);
/* Can processes share links on this machine? */
bool probe_set__can_share(void);
/*
 * Says which processes will be added before the window begins. A library that several of them map,
 * and no other process, has one set of links for all. These links put breakpoints into processes
 * that map it later, too, whose hits are dropped (PTB_CNT_FOREIGN). In all other cases each process
 * has its own links.
 */
void probe_set__expect(struct probe_set *ps, const pid_t *pids, uint32_t cnt);
/* Attaches sites of more libraries of a process, as probe_set__add_process() does. */
int probe_set__add_libs(struct probe_set *ps, uint32_t proc_idx, struct probe_lib *libs,
			uint32_t lib_cnt);
/* Detaches the sites in a process, but those of its own of some programs (bits of enum ptb_prog).
 * It is still sampled, and its threads are still watched. */
void probe_set__remove_probes(struct probe_set *ps, uint32_t proc_idx, uint64_t keep);
/* Detaches from a process. */
void probe_set__remove_process(struct probe_set *ps, uint32_t proc_idx);

/* ---- the agent inside a target (ptb_agent.h) ---- */

struct probe_agent { /* its USDT sites, by enum ptb_agent_site: file offsets, 0: it has none */
	const char *access_path;
	uint64_t site[PTB_AGENT_SITE_CNT];
	uint64_t semaphore[PTB_AGENT_SITE_CNT];
};

/* From now on the agent's chunks come as AGENT_DATA records, in the window or not, until
 * probe_set__remove_process() or probe_set__detach(). 0 or negative errno (reported). */
int probe_set__agent_listen(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa);
/* Raises the semaphores of these requests (bits 1 << enum ptb_agent_site, without CHUNK), all or
 * none; that of operators last. */
int probe_set__agent_request(struct probe_set *ps, uint32_t proc_idx, const struct probe_agent *pa,
			     uint32_t requests);
/* Takes all requests back, that of operators first. Chunks with what the agent still has go on to
 * come. */
void probe_set__agent_withdraw(struct probe_set *ps, uint32_t proc_idx);

/* Delivers fork, exec, exit and thread records of a process that is not added. */
int probe_set__watch_task(struct probe_set *ps, uint32_t tgid);

/* The window: from activate() to deactivate() records are produced, on all processors. */
void probe_set__activate(struct probe_set *ps);
void probe_set__deactivate(struct probe_set *ps);
/* Processor time that placing and removing probes has taken so far. For each of them the kernel
 * changes a page of the target and interrupts the processors that run it. */
uint64_t probe_set__changes_ns(void);
/* The same, of a shared link only one process's share: what this grows by while a process is
 * attached to or removed is that process's. */
uint64_t probe_set__share_ns(const struct probe_set *ps);
/* Does the process share links with others, which stay when it is removed? */
bool probe_set__shares(const struct probe_set *ps, uint32_t proc_idx);
/* Closes all links; may take 0.1 s and more. Counters stay readable. */
void probe_set__detach(struct probe_set *ps);

/* Writes the kinds of memory events that this kernel has no tracepoint for, separated by ", ", to
 * buf. Returns their number. */
uint32_t probe_set__missing_kmem(const struct probe_set *ps, char *buf, size_t cap);
/* With kernel_memory or sched: puts the sums of all watched threads into the rings. Called before
 * probe_set__deactivate() and the last drain. 0 or negative errno. */
int probe_set__flush_sums(struct probe_set *ps);
/* Begins them again. */
void probe_set__renew_sums(struct probe_set *ps);

/* Hits in a process, also a removed one, that gave no record. */
uint64_t probe_set__bare_hits(const struct probe_set *ps, uint32_t tgid);
/* Sum of a BPF counter over all processors; MISSED includes the hits that the kernel missed. */
uint64_t probe_set__counter(struct probe_set *ps, uint32_t id);

/* ---- ring buffers ---- */

typedef void (*ring_fn)(void *arg, uint32_t ring, const void *rec, uint32_t len);

uint32_t probe_set__ring_cnt(const struct probe_set *ps);
/* Calls fn for all records that are in the ring now, in order, but for those of the calibration
 * (site 0). len is h.len, also where less was written than reserved (AGENT_DATA). Returns bytes or
 * negative errno. */
int64_t probe_set__drain(struct probe_set *ps, uint32_t ring, ring_fn fn, void *arg);
/* Fill of the fullest ring, 0..1, to pace the reader. */
double probe_set__fill(const struct probe_set *ps);
/* Polls readable when a piece of a ring is more than half full, until ring 0 is drained. */
int probe_set__poll_fd(const struct probe_set *ps);

/* Losses of a ring since the last call; cnt 0: none. */
struct ring_loss {
	uint64_t begin_ns, end_ns, cnt;
};
void probe_set__take_loss(struct probe_set *ps, uint32_t ring, struct ring_loss *out);

#endif /* PROBE_PROBE_SET_H */
