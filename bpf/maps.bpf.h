/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Maps, switches and the variables that user space reads or writes through mapped memory. Owns
 * their sizes; knows no record kind.
 */
#ifndef PTB_MAPS_BPF_H
#define PTB_MAPS_BPF_H

#define PTB_RING_MAX 64         /* ring buffers; CPU n uses ring n & ring_mask */
#define PTB_SCRATCH_CNT 4       /* programs that may build a text at once on one CPU */
#define PTB_ARG_PROGS_MAX 16384 /* argument programs of all builds of torch in a session */
#define PTB_FRAMES_MAX 32       /* open calls of a thread whose results are awaited */

/* Set before load. */
const volatile __u32 ring_mask = 0;
const volatile __u32 ring_pieces = 1;    /* of each ring, a power of 2 */
const volatile __u64 ring_half = 0;      /* bytes; a piece fuller than this wakes the reader */
const volatile __u32 ns_level = 0;       /* depth of ptbpf's pid namespace; 0: the initial one */
const volatile __u32 ns_inum = 0;        /* its inode, used when ns_level > 0 */
const volatile __u32 site_by_ip = 0;     /* no cookies: the site is found by its address */
const volatile __u32 by_tgid = 0;        /* links may serve several processes */
const volatile __u32 watch_children = 0; /* a watched task's children are watched from birth */

const volatile __u32 args_on = 0;   /* arguments are recorded */
const volatile __u32 args_full = 0; /* with identities, and results */

const volatile __u32 never = 0; /* see ptbpf.bpf.c */

const volatile __u64 sample_ns = 0;              /* between two samples of a thread that runs */
const volatile __u64 wait_sample_ns = 0;         /* of one that does not */
const volatile __u64 sample_hz = 1, tick_hz = 1; /* samples and ticks a second */
const volatile __u64 tick_ns = 1;
const volatile __u64 tick_function = 0; /* of the timers that are the processors' ticks */
/* the code that handles page faults; 0: not known */
const volatile __u64 page_fault_function = 0, page_fault_bytes = 0;
const volatile __u32 sample_cpus = 0; /* possible ones */
__u64 sample_ticks = 0; /* periods of wait_sample_ns that the run of the iterator stands for */
__u64 sample_room = 0;  /* threads of the process that the run may sample, and how many it has */
__u64 sample_looked = 0;
__u64 sample_late_ns = 0; /* since the moment that it is for */

#define PTB_CPUS_MAX 1024

const volatile __u32 kernel_memory = 0;  /* what the kernel does for a thread is recorded */
const volatile __u32 nr_cpus = 0;        /* of cpu_off; 0: too many, resident memory is not read */
const volatile __u32 compact_has_cc = 0; /* compaction's tracepoints begin with a compact_control */
const volatile __u32 migrate_reason_arg = 0; /* of the tracepoint: which argument */

/*
 * Written by user space at any time: the window's number, 0: none is open. On its own cache line,
 * every hit reads it. */
__u32 active __attribute__((aligned(64))) = 0;
/* The same for kernel memory: it is closed first, so that what is left can be emitted while nothing
 * is added to it. */
__u32 kmem_active = 0;
__u32 kmem_window = 0; /* the window that is open or about to be */
/* a thread's sums could not be made at its birth: its first fault makes them */
__u32 kmem_lazy = 0;
__u32 kmem_closing = 0; /* what the iterator does */
__u64 kmem_since = 0;   /* when the window began */
__u32 rss_wrong = 0;    /* what was read of the own process was wrong: nothing is read */
__u32 rss_packed = 0;   /* the four counters of a processor lie side by side */
/* Counts what came to a thread's sums without a fault: on a line of its own, every hit reads it. */
__u32 kmem_gen __attribute__((aligned(64))) = 0;
/* Pages that calls under way may free: read by every fault, written by these calls. */
__s64 kmem_shrinking __attribute__((aligned(64))) = 0;
__u64 cpu_off[PTB_CPUS_MAX]
	/* where each processor's own memory is; before kmem_setup: its number */
	__attribute__((aligned(64))) = {};

const volatile __u32 sched_state_arg = 0;            /* sched_switch hands the state on */
const volatile __u8 wait_of_call[PTB_SYSCALLS] = {}; /* enum ptb_wait, or PTB_WAIT_BY_FILE */
const volatile __u32 gpu_majors[2] = {};             /* device numbers of NVIDIA's driver */
/* The same as for kernel memory. */
__u32 sched_active __attribute__((aligned(64))) = 0;
__u32 sched_window = 0, sched_closing = 0;
__u64 sched_end_ns = 0; /* when it was closed */

/*
 * Losses per ring since user space took them last: it exchanges count and first time with 0. Each
 * on a line of its own: touched only when a ring is full.
 */
__u64 loss_cnt[PTB_RING_MAX] __attribute__((aligned(64))) = {};
__u64 loss_first_ns[PTB_RING_MAX] = {};
__u64 loss_last_ns[PTB_RING_MAX] = {};

/* The piece of each ring that records go into. Written when it is full; read at every hit. */
__u32 ring_at[PTB_RING_MAX] __attribute__((aligned(64))) = {};

struct ring_template {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PTB_RING_MAX *PTB_RING_PIECES);
	__type(key, __u32);
	__array(values, struct ring_template);
} rings SEC(".maps");

/* Empty: see ptbpf.bpf.c. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} no_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32);
	__type(value, struct ptb_proc_cfg);
} proc_cfg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 17);
	__type(key, struct ptb_ip_key);
	__type(value, __u64); /* cookie */
} site_of_ip SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PTB_CNT_MAP);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* A text record under construction; kept off the stack and out of the ring until its length is
 * known. */
struct scratch {
	__u32 busy;
	__u32 pad;
	__u64 rec[128];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PTB_SCRATCH_CNT);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_mem SEC(".maps");

/* Live RecordFunction objects. What has no end within the window is removed by user space. Not
 * LRU: one process would push out what others need. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PTB_SCOPES_MAX);
	__type(key, struct ptb_scope_key);
	__type(value, __u32); /* at::RecordScope */
} scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16 * PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, __u32);
} watched SEC(".maps");

/* Processes whose threads are sampled: their number in py_layouts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, __u32);
} sampled SEC(".maps");

/* Hits that have no record, by process. Entries are made by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 2 * PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, __u64);
} bare_hits SEC(".maps");

/* Processes that share links. Entries are made by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PTB_PROC_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* tgid */
	__type(value, struct ptb_shared_proc);
} shared_procs SEC(".maps");

/* ---- arguments; made only where they are recorded ---- */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_ARG_PROGS_MAX);
	__type(key, __u32);
	__type(value, struct ptb_arg_prog);
} arg_progs SEC(".maps");

/* PTB_SCRATCH_CNT for each CPU: a per-CPU map has no values as large as these. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_SCRATCH_CNT);
	__type(key, __u32);
	__type(value, struct arg_scratch);
} arg_scratch_mem SEC(".maps");

/* ---- open calls of a thread (calls.bpf.h) ---- */

/* A frame begins with it. */
struct call_head {
	__u64 sp;   /* at the entry */
	__u32 args; /* what the cookies of the call's sites have in common */
	__u32 pad;
};

/* A ring of frames follows it. */
struct call_stack {
	__u32 window;
	__u32 top; /* number of calls ever put on it, less those taken off */
	__u32 cnt; /* of these, still here */
	__u32 pad;
};

/* An operator whose results are awaited. */
struct call_frame {
	struct call_head head; /* args: the argument program, or PTB_FRAME_BOXED */
	__u64 result;          /* where the result will be, or the stack of a boxed call */
	__u64 cnt;             /* boxed: number of results */
};
#define PTB_FRAME_BOXED ~0u

/*
 * Where a thread's own variables are; 0: not known yet. A module's block stays where it is as long
 * as the thread lives in the program image that made it.
 */
struct tls_addrs {
	__u64 fsbase;
	__u32 exec_id; /* of the image */
	__u32 proc;
	__u64 seq, grad, keys;
};

struct call_frames {
	struct call_stack calls;
	struct call_frame ring[PTB_FRAMES_MAX];
	struct tls_addrs tls;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_frames);
} call_frames SEC(".maps");

/* ---- memory; made only where it is recorded ---- */

#define PTB_API_DEPTH 4 /* memory calls inside one another: libcudart's call libcuda's */

/* A memory call of libcudart or libcuda that has not returned. */
struct api_call {
	struct call_head head;
	__u64 begin_ns;
	__u64 out, before; /* pointer to the result, and what is there at the entry */
	__u64 addr, bytes;
	__u64 site;
};

struct api_calls {
	struct call_stack calls;
	struct api_call ring[PTB_API_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct api_calls);
} api_calls SEC(".maps");

/* ---- CUDA calls; made only where they are seen from the host's side ---- */

#define PTB_CUDA_DEPTH 4

enum cuda_frame_state {
	CUDA_OPEN,    /* emitted when it ends */
	CUDA_EMITTED, /* at its entry: its end is not seen */
	CUDA_NESTED,  /* another one's work: not emitted */
};

struct cuda_frame {
	struct call_head head;
	struct ptb_cuda_call call;
	__u64 state;
};

struct cuda_frames {
	struct call_stack calls;
	struct cuda_frame ring[PTB_CUDA_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cuda_frames);
} cuda_frames SEC(".maps");

/* A process's resident pages at the last reading by one of its threads. */
struct kmem_rss {
	__u32 window;
	__u32 pad;
	/* file, anonymous and shared ones, but for what the kernel keeps with its threads */
	__s64 last;
	__s64 growth; /* by faults, not recorded yet; below 0: counted twice */
	__s64 change; /* by what its threads did, not recorded yet */
	__s64 kinds[PTB_RSS_KINDS];
};

/* A reading of a process's resident pages: the result is in `sum`. */
struct rss_reading {
	__u64 own[PTB_RSS_KINDS]; /* offsets in every processor's memory */
	__s64 count[PTB_RSS_KINDS];
	__s64 sum[PTB_RSS_KINDS];
	/* part of the sum that the kernel keeps with this thread (before Linux 6.2) */
	__s64 cached;
};

/* What the kernel did for a thread and is in no record yet. Written by the thread, between windows
 * by the iterator. */
struct kmem_acc {
	__u32 window; /* 0: not ready */
	__u32 dirty;
	__u64 min_flt, maj_flt; /* the thread's counters at its last record */
	__u64 begin_ns;
	__u32 reads, writes;
	__u64 addr_min, addr_max;
	__u32 calls[5]; /* enum ptb_kmem_calls */
	__u32 small_calls;
	__u64 map_bytes, unmap_bytes, advise_bytes;
	__s64 brk_bytes;
	__u32 reclaims, compactions;
	__u64 reclaim_ns, compact_ns;
	__s64 rss_cached; /* rss_reading.cached when it was read last */
	/* under way */
	__u64 call_ns; /* 0: no call */
	__u64 call_args[4];
	__u64 call_brk, call_vm; /* mm->brk, mm->total_vm when it began */
	__u64 stall_ns[3];       /* enum ptb_kmem_stalls */
	__u32 stall_order[3];
	__s64 shrinks; /* what the call has in kmem_shrinking */
	/* room to work in: the programs' stacks are small where they are called from others */
	struct rss_reading reading;
	struct kmem_rss fresh;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct kmem_acc);
} kmem_accs SEC(".maps");

/* What a processor saw at its last probe: whose it was, and how far the counters were
 * (kmem_key()). */
struct kmem_seen {
	__u64 key;
	__u64 pad[7]; /* a cache line */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PTB_CPUS_MAX);
	__type(key, __u32);
	__type(value, struct kmem_seen);
} kmem_seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16 * PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, struct kmem_rss);
} kmem_rss SEC(".maps");

/* ---- scheduling; made only where it is recorded ---- */

struct sched_acc {
	__u32 window; /* 0: not ready */
	__u32 tgid, tid;
	__u32 pad;
	__u64 fsbase; /* by which thread_of_fsbase has it */
	__u64 since_ns;
	__u64 begin_ns; /* of the first interval in them; 0: there is none */
	__u64 ns[PTB_WAIT_SLOTS];
	__u32 voluntary, preempted;
	__u64 in_ns;  /* it began to run last; 0: not yet */
	__u64 ran_ns; /* on processors until the last switch, by the kernel's count */
	__u64 nvcsw;  /* of the kernel, when it began to run last */
	/* since it ran last */
	__u64 out_ns; /* 0: it runs */
	__u64 waking_ns;
	__u64 arg;
	__s32 nr;
	__u32 what, holder, io, cpu;
	__u32 preempted_now;
	__u32 out_cut; /* the window ends in it */
	__u32 waker_tgid, waker_tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sched_acc);
} sched_accs SEC(".maps");

struct sched_period {
	__u64 nr;
	__u64 records;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sched_period);
} sched_periods SEC(".maps");

/* Entries are made by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PTB_PROC_MAX);
	__type(key, __u32); /* tgid */
	__type(value, struct ptb_py_gil);
} py_gils SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct ptb_thread_key);
	__type(value, __u32); /* tid */
} thread_of_fsbase SEC(".maps");

static __always_inline void count(__u32 id)
{
	__u64 *v = bpf_map_lookup_elem(&counters, &id);

	if (v) /* a probed thread can be preempted by another one: per-CPU alone is not enough */
		__sync_fetch_and_add(v, 1);
}

/* A hit of this process that has no record. */
static __always_inline void count_bare(__u32 id, __u32 tgid)
{
	__u64 *v = bpf_map_lookup_elem(&bare_hits, &tgid);

	if (v)
		__sync_fetch_and_add(v, 1);
	count(id);
}

#endif /* PTB_MAPS_BPF_H */
