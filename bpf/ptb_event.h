/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Wire records: what BPF programs and the agent put into a ring buffer, and what user space adds to
 * the same stream. Compiles alone, as BPF and as C. Owns the layout of every record kind; must not
 * know who produces or consumes them.
 *
 * Rules: a record is a multiple of 8 bytes; the header is 24 bytes and frozen; numbers are
 * explicit, append-only, never reused; no pointers, no enum members, no implicit padding. A tail
 * (text) follows the fixed part of kinds marked so: `text_len` bytes, no terminator, padded with
 * zeroes to 8. A reader checks `len` against the row's fixed size before it touches a field and
 * skips kinds that it does not know.
 *
 * 1..63 come from the target's threads (BPF programs or the agent), 64.. from user space.
 *
 * Longer than 600 lines because it is the one description of the format.
 */
#ifndef PTB_EVENT_H
#define PTB_EVENT_H

#ifdef __bpf__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef long long __s64;
#else
#include <linux/types.h>
#endif

#define PTB_TEXT_MAX 256 /* most text bytes BPF copies; longer is cut and flagged */

struct ptb_rec_hdr {
	__u16 len;   /* whole record, multiple of 8 */
	__u8 kind;   /* enum ptb_rec_kind */
	__u8 flags;  /* PTB_F_* */
	__u32 site;  /* site id of the plan; 0: none (user-space records, calibration) */
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u32 tgid;  /* process, in ptbpf's pid namespace */
	__u32 tid;
};
_Static_assert(sizeof(struct ptb_rec_hdr) == 24, "wire header is frozen");

#define PTB_F_TEXT_CUT 0x01   /* the text was longer than PTB_TEXT_MAX */
#define PTB_F_READ_FAULT 0x02 /* a read of the target's memory failed; fields that need it are 0 */
#define PTB_F_AGENT 0x04      /* came from the agent, not from a kernel probe */
#define PTB_F_ARGS 0x08       /* values (ptb_args.h) follow the fixed part and the padded text */
#define PTB_F_OPEN 0x20       /* RF_BEGIN: began before the window, whose begin h.ts_ns is */
#define PTB_F_ARGS_CUT 0x10   /* of them, those that did not fit are missing */

/* An operator's (or any framed function's) entry: the frame is identified by its stack pointer. */
struct ptb_op_enter {
	struct ptb_rec_hdr h;
	__u64 sp; /* rsp at the entry site (points at the return address) */
};

/*
 * OP_EXIT: exit site reached: closes the innermost open frame of the site's function with entry sp
 * > sp. CATCH: __cxa_begin_catch() was entered from the function that caught: frames with entry sp
 * < sp are what the exception has unwound.
 */
struct ptb_op_exit {
	struct ptb_rec_hdr h;
	__u64 sp; /* rsp at the exit site (inside the frame, so below the entry sp) */
};

/* Entry of a callBoxed copy: the operator is known by address (see PTB_REC_OPDEF). */
struct ptb_boxed_enter {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 opdef; /* OperatorDef* */
};

/* Engine::evaluate_function: a backward node is about to run. text: class name of a PyNode. */
struct ptb_node_enter {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 node;
	__u64 vptr;       /* names the class, see PTB_REC_NODE_TYPE */
	__u64 seq;        /* sequence_nr_; ~0 on AccumulateGrad */
	__u64 fwd_thread; /* logical id of the forward thread, from 1 */
	__u32 text_len;
	__u32 pad;
};

/* A framed function whose name is read at entry (custom autograd.Function forward, TorchScript). */
struct ptb_named_enter {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u32 text_len;
	__u32 pad;
};

/* The text of a scope that is about to begin on this thread (record_function and friends): within
 * PTB_NAME_VALID_NS, or its constructor was missed. */
#define PTB_NAME_VALID_NS 100000000
struct ptb_scope_name {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u32 text_len;
	__u32 pad;
};

/*
 * A RecordFunction object starts to live: handle = its address. With text: RecordFunction::before()
 * named it here. Without: the name is the thread's last PTB_REC_SCOPE_NAME (entry sp > this sp), or
 * the literal that the caller's RECORD_FUNCTION macro would give it (PTB_REC_CALLER), or there is
 * none, and then it is no scope of ours.
 */
struct ptb_scope_begin {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 handle;
	__u64 caller; /* return address of the constructor, see PTB_REC_CALLER; 0 for before() */
	__u32 scope;  /* at::RecordScope; 7 = USER_SCOPE; PTB_SCOPE_UNKNOWN */
	__u32 text_len;
};
#define PTB_SCOPE_UNKNOWN 0xff /* named by before(), its constructor was not seen */

struct ptb_scope_end {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 handle;
};

/* at::sequence_number::get_and_increment(): the innermost open operator makes an autograd node. */
struct ptb_seq {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 seq; /* the number that the new node gets */
};

/* ARGS_MORE: values (PTB_F_ARGS) of the innermost open frame of the site's function that its entry
 * could not read: doubles, which are in vector registers there; struct ptb_op_enter, sp inside the
 * frame. */

/* Process and thread life, from scheduler tracepoints; comm is zero-padded, may lack a
 * terminator. */
struct ptb_task {
	struct ptb_rec_hdr h; /* h.tgid, h.tid: the task (FORK: the parent) */
	__u32 child_tgid;     /* FORK: new process; THREAD_NEW: same as h.tgid */
	__u32 child_tid;
	__u32 group_dead; /* EXIT: 1 when the whole process is gone, */
	__u32 status;     /* ... and how, as wait() reports it */
	char comm[16];    /* of the task (THREAD_NEW, FORK: of the child) */
};

/* ---- memory ---- */

/* ProfiledCPUMemoryReporter::New: the default CPU allocator gives a block (0 bytes: addr 0). */
struct ptb_mem_alloc {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 addr, bytes;
};

/* ProfiledCPUMemoryReporter::Delete: it takes one back; the size is known from its allocation
 * only. */
struct ptb_mem_free {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 addr;
};

/*
 * A TensorImpl begins to end: its address may soon be another tensor's, and that of its data
 * another storage's, if nothing else holds the storage. Objects that it holds end within its own
 * end, such as the tensor that it is a view of: then both have counted each other's reference.
 */
struct ptb_tensor_end {
	struct ptb_rec_hdr h;
	__u64 impl; /* 0: it only gives its storage up */
	__u64 data; /* of its storage; 0: it has none */
	__u32 refs; /* of its storage, this tensor's included; 0: not read */
	__u32 pad;
};

/*
 * REPORT: c10::reportMemoryUsageToProfiler(): an allocator other than the CPU's says what it did;
 * from New and Delete too while torch's own profiler records memory. OOM: an allocator could not:
 * addr 0, bytes: the size asked for (the CPU's has no totals: 0).
 */
struct ptb_mem_report {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 addr;
	__s64 bytes;               /* negative: freed */
	__u64 allocated, reserved; /* totals of the allocator after it */
	__s32 device_type;         /* c10::DeviceType */
	__s32 device_index;        /* -1: none */
};

/* A memory call of libcudart or libcuda, emitted when it returns (h.ts_ns); the site's function
 * says which. */
struct ptb_mem_api {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 begin_ns;
	/* given back through the first argument, or given to the call; a handle for cuMemCreate,
	 * cuMemRelease; 0: none, or the call failed */
	__u64 addr;
	__u64 bytes; /* asked for; 0: none */
	__u32 flags; /* PTB_API_* */
	__u32 pad;
};
#define PTB_API_NO_RESULT 0x1 /* no exit was seen: duration and what was given back are not known */
#define PTB_API_SAME 0x2      /* what was given back was there before: the call may have failed */

#define PTB_RSS_KINDS 4 /* Linux include/linux/mm_types_task.h, MM_FILEPAGES ... MM_SHMEMPAGES */
enum ptb_rss_kind { PTB_RSS_FILE, PTB_RSS_ANON, PTB_RSS_SWAP, PTB_RSS_SHMEM };

/*
 * What the kernel did for a thread since its last record of this kind, while the same operator was
 * the innermost one: emitted before the next probe's record (same h.ts_ns), earlier where much came
 * together.
 */
struct ptb_kmem {
	struct ptb_rec_hdr h;
	__u64 begin_ns; /* of the first event in the sums; 0: there is only the process's state */
	__u32 minor, major; /* faults by the kernel's own counters of the thread */
	/* of user mode, by the tracepoint; reads includes instruction fetches */
	__u32 reads, writes;
	__u64 addr_min, addr_max; /* of those; 0: none */
	__u32 maps, unmaps, remaps, brks, advises,
		small_calls; /* calls; small_calls: without a KMEM_CALL record */
	__u64 map_bytes, unmap_bytes, advise_bytes;
	__s64 brk_bytes; /* growth of the heap */
	__u32 reclaims, compactions;
	__u64 reclaim_ns, compact_ns;
	__u64 rss[PTB_RSS_KINDS]; /* of the process at h.ts_ns, bytes */
	__s64 rss_delta;   /* file + anon + shmem, since any thread's last record of the process */
	__u64 fault_bytes; /* that part of it by which faults made it grow */
};

/* One call that changed the address space, of PTB_KMEM_CALL_MIN bytes or more; h.ts_ns: its
 * return. */
#define PTB_KMEM_CALL_MIN (1 << 20)
struct ptb_kmem_call {
	struct ptb_rec_hdr h;
	__u64 begin_ns;
	__u64 addr, bytes; /* mmap: the result; brk: the part that came or went */
	__u64 old_bytes;   /* mremap */
	__s64 result;      /* as the call returned it: negative errno */
	__u32 call;        /* enum ptb_kmem_calls */
	__u32 arg;         /* mmap: flags; madvise: advice */
};
enum ptb_kmem_calls {
	PTB_CALL_MMAP,
	PTB_CALL_MUNMAP,
	PTB_CALL_MREMAP,
	PTB_CALL_BRK,
	PTB_CALL_MADVISE
};

/* The thread stood still in the kernel until h.ts_ns; shorter ones are in the sums only. */
#define PTB_KMEM_STALL_MIN_NS 20000
struct ptb_kmem_stall {
	struct ptb_rec_hdr h;
	__u64 begin_ns;
	__u64 reclaimed; /* pages; compaction: 0 */
	__u32 what;      /* enum ptb_kmem_stalls */
	__u32 order;     /* of the allocation that needed it */
};
enum ptb_kmem_stalls { PTB_STALL_RECLAIM, PTB_STALL_MEMCG_RECLAIM, PTB_STALL_COMPACTION };

/* Rare things that happened to the process, on whatever thread. */
struct ptb_kmem_event {
	/* h.tgid: the process; h.tid: the thread that caused it, 0: none of the process */
	struct ptb_rec_hdr h;
	__u32 what;   /* enum ptb_kmem_events */
	__u32 reason; /* MIGRATE: enum migrate_reason */
	__u64 pages;  /* HUGE_PAGE, MIGRATE; OOM_KILL: resident pages of the victim */
	__u64 failed; /* MIGRATE: pages that stayed; HUGE_PAGE: the scan's status */
	/* OOM_KILL: who asked for the memory, 0: not a traced process's thread */
	__u32 by_tgid, by_tid;
};
enum ptb_kmem_events { PTB_KMEM_OOM_KILL, PTB_KMEM_HUGE_PAGE, PTB_KMEM_MIGRATE };

/* ---- scheduling (--sched) ---- */

/* What a thread that does not run waits for. */
/*     name     nr  text               group (enum wait_group, model/session.h) */
/* clang-format off */
#define PTB_WAITS(X)                          \
	X(CPU,     0, "CPU",            CPU)  \
	X(GIL,     1, "GIL",            GIL)  \
	X(LOCK,    2, "lock",           LOCK) \
	X(POLL,    3, "poll",           IO)   \
	X(PIPE,    4, "pipe or socket", IO)   \
	X(FILE,    5, "file I/O",       IO)   \
	X(SLEEP,   6, "sleep",          SLEEP)\
	X(MEMORY,  7, "memory",         OTHER)\
	X(GPU,     8, "GPU driver",     OTHER)\
	X(CHILD,   9, "child process",  OTHER)\
	X(STOP,   10, "stopped",        OTHER)\
	X(OTHER,  11, "other",          OTHER)
/* clang-format on */

enum ptb_wait {
#define X(name, nr, text, group) PTB_WAIT_##name = nr,
	PTB_WAITS(X)
#undef X
		PTB_WAIT_CNT
};
#define PTB_WAIT_SLOTS 16

/* What a thread waited for since its last such record, in intervals without a record of their own.
 * The first one says that its waits are recorded from now on, the last one that they end. */
struct ptb_sched {
	struct ptb_rec_hdr h;
	__u64 since_ns;             /* since when the thread's waits are recorded */
	__u64 begin_ns;             /* of the first interval; 0: there is none */
	__u64 ns[PTB_WAIT_SLOTS];   /* by enum ptb_wait */
	__u32 voluntary, preempted; /* intervals */
};

/* One interval in which the thread did not run; h.ts_ns: its end. */
#define PTB_SCHED_LONG_NS 50000 /* shorter ones are in the sums, and those beyond 10 a ms and CPU */
struct ptb_sched_wait {
	struct ptb_rec_hdr h;
	__u64 begin_ns;
	__u64 ready_ns;              /* it was woken; from then on it waited for a CPU */
	__u64 arg;                   /* first argument of the system call */
	__s32 nr;                    /* of the system call; -1: none */
	__u16 what;                  /* enum ptb_wait, until ready_ns */
	__u16 flags;                 /* PTB_SCHED_* */
	__u32 waker_tgid, waker_tid; /* who woke it; 0: an interrupt, or not known */
	__u32 holder; /* GIL: the thread that held it when the wait began; 0: not known */
	__u32 cpu;    /* on which it ran before */
};
#define PTB_SCHED_PREEMPTED 0x1
#define PTB_SCHED_IO 0x2 /* the kernel counts it as a wait for I/O */

/* An operator leaves the dispatcher, in rings only: its address may become another one's (OPDEF has
 * it then). */
struct ptb_opdef_gone {
	struct ptb_rec_hdr h;
	__u64 opdef;    /* OperatorDef* */
	__u32 text_len; /* of its name, which follows */
	__u32 over_len;
	char overload[64]; /* a longer one is cut */
};

/* ---- Python stacks ---- */

/* A frame of a Python function. */
struct ptb_py_frame {
	__u64 code; /* address of its code object; PTB_PY_NATIVE may be or-ed to it */
	__s32 at;   /* bytes into its bytecode; negative: not begun */
	/* over fields of the code object: another object at this address has another one */
	__u32 check;
};
#define PTB_PY_NATIVE 0x1u /* native frames lie between the frame and its caller */
/*
 * No frame: the next one of the stack calls a module of torch (nn.Module.__call__()), and this is
 * what module. code: or-ed to the address of its class, 0: not read; at: of the module's address
 * bits 4 to 35; check: over the class's name.
 */
#define PTB_PY_CLASS 0x2u

/*
 * PY_STACK_DEF: what stack `id` of process h.tgid is; frame_cnt frames follow, innermost first.
 * Emitted by each thread before its first PY_STACK of that id in a window, perhaps again later.
 * Without frames: not even the innermost one could be read (flags).
 */
struct ptb_py_stack_def {
	struct ptb_rec_hdr h;
	__u64 id;
	__u32 frame_cnt;
	__u32 flags; /* PTB_PY_* */
};
#define PTB_PY_FRAMES_MAX 128
#define PTB_PY_CUT 0x1   /* deeper than PTB_PY_FRAMES_MAX: the outermost frames are missing */
#define PTB_PY_FAULT 0x2 /* the next frame outwards could not be read: the rest is missing */

/*
 * The Python stack of the thread at the record of the same thread that follows with the same
 * h.ts_ns. A thread without Python frames has none; id 0: the thread's state could not be read
 * (counted).
 */
struct ptb_py_stack {
	struct ptb_rec_hdr h;
	__u64 id; /* hash of its frames, see PY_STACK_DEF */
};

/* PY_STACK of an operator that the process's agent records, in rings only: the recorder puts it
 * before the RF_BEGIN. */
struct ptb_agent_stack {
	struct ptb_rec_hdr h;
	__u64 id;
	__u64 number; /* which operator: its record has it, too (PTB_AREC_STACK) */
};

/*
 * PY_SAMPLE: what the thread did at one moment, without a probe. Nothing else is recorded of a
 * process of which there are samples, unless META says with_samples.
 */
struct ptb_py_sample {
	struct ptb_rec_hdr h;
	__u64 id;    /* as in PY_STACK_DEF; 0: see flags */
	__u64 ns;    /* the time that it stands for, which ends at h.ts_ns */
	__u32 flags; /* PTB_SAMPLE_* */
	__u32 pad;
	/* the innermost operator that is open, as an OPDEF names it; 0: none, or see flags; with
	 * with_samples other records say it */
	__u64 op;
};
#define PTB_SAMPLE_RAN 0x1      /* the thread ran on a processor; else ... */
#define PTB_SAMPLE_WAITED 0x2   /* ... it waited for one; else it was blocked */
#define PTB_SAMPLE_NO_STACK 0x4 /* id 0: Python frames could not be read; else it has none */
#define PTB_SAMPLE_OPS 0x8      /* the process's agent knew which operators were open */
#define PTB_SAMPLE_GC 0x10      /* it collected Python's garbage; known with --sched only */
#define PTB_SAMPLE_MEMORY 0x20  /* it ran in a page fault or in a system call for memory */

/* ---- from the agent, in the form that user space gives it (its own form: ptb_agent.h) ---- */

/* A chunk as it came, in rings only: a capture has the records that were in it. */
struct ptb_agent_data {
	struct ptb_rec_hdr h; /* h.ts_ns: when it was sent; h.tid: the thread that sent it */
	__u32 bytes; /* of struct ptb_chunk and its records, which follow; 0: could not be read */
	__u32 pad;
};

/* RecordFunction's start callback: what torch's own profiler would record. */
struct ptb_rf_begin {
	struct ptb_rec_hdr h;
	__u64 rf;         /* the object; with it RF_END, perhaps of another thread, is found */
	__u64 opdef;      /* OperatorDef* (see PTB_REC_OPDEF); 0: the text is the name */
	__s64 seq;        /* sequence number, -1: none */
	__u64 fwd_thread; /* logical id of the forward thread, 0: none */
	__u64 logical;    /* of this thread, 0: not known */
	__u32 scope;      /* at::RecordScope */
	__u32 text_len;
};

struct ptb_rf_end {
	struct ptb_rec_hdr h;
	__u64 rf;
};

#include "ptb_gpu.h"

/* ---- written by user space ---- */

/* META: "key\0value" as JSON text; JOB: container and job of process h.tgid, a JSON object ("job"
 * in schemas/formats/facts.schema.json); NATIVE_STACK: of thread h.tid, a line for each frame,
 * innermost first: "function (file)" or "file+0x1234"; a last line "..." stands for frames that are
 * missing; no text: the stack could not be read */
struct ptb_text {
	struct ptb_rec_hdr h;
	/* NAME: name id, from 1; NATIVE_STACK: how long before h.ts_ns it was read, us; others:
	 * 0 */
	__u32 id;
	__u32 text_len;
};

struct ptb_func { /* one function of the plan */
	struct ptb_rec_hdr h;
	__u32 func;   /* function id, from 1, unique in the capture */
	__u32 name;   /* name id: "aten::add.Tensor" for operators */
	__u32 kind;   /* enum ptb_func_kind */
	__u32 reason; /* enum ptb_refusal; 0: probed whole */
};

struct ptb_site {
	struct ptb_rec_hdr h;
	__u32 id;     /* site id = cookie, from 1, unique in the capture */
	__u32 func;   /* function id */
	__u32 role;   /* enum ptb_site_role */
	__u32 lib;    /* name id of the library's path */
	__u64 offset; /* file offset */
};

/* OPDEF, NODE_TYPE, CALLER, KERNEL_NAME (ptb_cuda_call.func): an address in process h.tgid and its
 * name */
struct ptb_addr_name {
	struct ptb_rec_hdr h;
	__u64 addr;
	__u32 name;
	__u32 flags; /* OPDEF: PTB_OPDEF_* */
};
#define PTB_OPDEF_UNOBSERVED 0x1 /* torch's own profiler never records it */
#define PTB_OPDEF_GONE 0x2       /* from h.ts_ns on the address is no longer that operator's */

struct ptb_schema { /* the schema of an operator as torch prints it */
	struct ptb_rec_hdr h;
	__u64 opdef; /* OperatorDef* in process h.tgid; 0: of function `func` */
	__u32 func;  /* function id; 0: of `opdef` */
	__u32 name;  /* name id of the text */
};

/* What the bits of TensorImpl::key_set_ mean in process h.tgid; 0: not known. */
struct ptb_keys {
	struct ptb_rec_hdr h;
	__u64 autograd;   /* any of them: an autograd kernel is dispatched to */
	__u64 nested;     /* NestedTensor */
	__u64 no_strides; /* any of them: the layout is not strided (sparse, mkldnn) */
	__u64 sparse_csr; /* compressed sparse */
};

struct ptb_process {          /* h.tgid: the process; comm also of its threads by THREAD records */
	struct ptb_rec_hdr h; /* h.ts_ns: when its probes became active */
	__u32 parent_tgid;
	__u32 source; /* 0 kernel probes, 1 agent */
	/* since its fork or exec until the probes were active; 0 for the first target */
	__u64 gap_ns;
	__u32 comm;    /* name id */
	__u32 cmdline; /* name id */
	__u32 exe;     /* name id: base name of the executable ("python3.11") */
	__u32 pad;
};

/* UNPROBED: since h.ts_ns process h.tgid, which lives, has no probed operators; ptb_rec_hdr. */

struct ptb_thread { /* h.tgid, h.tid */
	struct ptb_rec_hdr h;
	__u32 comm; /* name id */
	__u32 name; /* threading.Thread.name, a name id; 0: not read */
};

struct ptb_clock { /* one simultaneous reading: h.ts_ns is CLOCK_MONOTONIC */
	struct ptb_rec_hdr h;
	__u64 real_ns; /* CLOCK_REALTIME */
	__u64 err_ns;  /* half the width of the two-sided reading */
};

struct ptb_window { /* begin: all probes active from h.ts_ns on; end: until h.ts_ns */
	struct ptb_rec_hdr h;
	__u32 begin;  /* 1 or 0 */
	__u32 reason; /* END: enum ptb_stop_reason */
};

struct ptb_lost {             /* records that a ring buffer could not take */
	struct ptb_rec_hdr h; /* h.ts_ns: begin of the interval */
	__u64 end_ns;
	__u64 cnt;
	__u32 ring;
	__u32 pad;
};

struct ptb_counter { /* a count at the end of the window; later values replace earlier ones */
	struct ptb_rec_hdr h;
	__u32 id; /* enum ptb_counter_id */
	__u32 pad;
	__u64 value;
};

/* /proc/PID/status and stat of process h.tgid, as user space read them at h.ts_ns. */
struct ptb_rss_sample {
	struct ptb_rec_hdr h;
	__u64 rss[PTB_RSS_KINDS]; /* bytes */
	__u64 vm_bytes;           /* VmSize */
	__u64 minor, major;       /* faults of the process since it began */
};

/* What a frame of PY_STACK_DEFs of process h.tgid is, by the frame's three fields (without
 * PTB_PY_NATIVE). PTB_PY_CLASS: func is the class; first 1: file is the module's attribute path
 * from the outermost module on (0: it is that one). A later record has a better path. */
struct ptb_py_line {
	struct ptb_rec_hdr h;
	struct ptb_py_frame frame;
	/* name id: qualified name; 0: the code object was gone before it could be read (counted) */
	__u32 func;
	__u32 file;  /* name id: co_filename */
	__s32 line;  /* of the instruction; 0: it has none */
	__s32 first; /* line of the def */
};

/* Where process h.tgid comes from: what the reader of several captures emits (ranks/join.h); in
 * no file. */
struct ptb_origin {
	struct ptb_rec_hdr h;
	__u32 input; /* which of them, from 0 */
	__u32 pid;   /* the process's number there */
	__u32 host;  /* name id */
	__u32 pad;
	__u64 begin_ns, end_ns; /* the window of that one */
};

/*
 * Who reads the records of a kind, all of which have one reader. Those that are read by thread
 * count within the window alone, the others whenever they came.
 */
enum ptb_reader {
	PTB_READ_NOBODY,     /* kinds that are not known */
	PTB_READ_RECORDER,   /* in rings only: record/recorder.c makes other records of them */
	PTB_READ_THREADS,    /* by thread: model/session.c, what opens and closes slices */
	PTB_READ_TASKS,      /* by thread: model/threads.c */
	PTB_READ_MEMORY,     /* by thread: model/memory.c */
	PTB_READ_TENSORS,    /* by thread: model/tensor_ids.c */
	PTB_READ_STACKS,     /* by thread: model/session.c, the stack of the record that follows */
	PTB_READ_SAMPLES,    /* by thread: model/session.c */
	PTB_READ_SCHED,      /* by thread: model/sched.c */
	PTB_READ_STACK_DEFS, /* model/py_stacks.c, before all that is read by thread */
	PTB_READ_GPU,        /* model/gpu_read.c */
	PTB_READ_FACTS,      /* model/facts.c; written by user space */
};

/*     name            nr  struct     has a text tail, reader (PTB_READ_) */
/* clang-format off */
#define PTB_REC_KINDS(X)                                                 \
	X(OP_ENTER,        1, ptb_op_enter,      0, THREADS)            \
	X(OP_EXIT,         2, ptb_op_exit,       0, THREADS)            \
	X(BOXED_ENTER,     3, ptb_boxed_enter,   0, THREADS)            \
	X(NODE_ENTER,      4, ptb_node_enter,    1, THREADS)            \
	X(NAMED_ENTER,     5, ptb_named_enter,   1, THREADS)            \
	X(SCOPE_NAME,      6, ptb_scope_name,    1, THREADS)            \
	X(SCOPE_BEGIN,     7, ptb_scope_begin,   1, THREADS)            \
	X(SCOPE_END,       8, ptb_scope_end,     0, THREADS)            \
	X(SEQ,             9, ptb_seq,           0, THREADS)            \
	X(FORK,           10, ptb_task,          0, TASKS)              \
	X(EXEC,           11, ptb_task,          0, TASKS)              \
	X(THREAD_NEW,     12, ptb_task,          0, TASKS)              \
	X(EXIT,           13, ptb_task,          0, TASKS)              \
	X(CATCH,          14, ptb_op_exit,       0, THREADS)            \
	X(ARGS_MORE,      15, ptb_op_enter,      0, THREADS)            \
	X(MEM_ALLOC,      16, ptb_mem_alloc,     0, MEMORY)             \
	X(MEM_FREE,       17, ptb_mem_free,      0, MEMORY)             \
	X(MEM_REPORT,     18, ptb_mem_report,    0, MEMORY)             \
	X(MEM_OOM,        19, ptb_mem_report,    0, MEMORY)             \
	X(MEM_API,        20, ptb_mem_api,       0, MEMORY)             \
	X(KMEM,           21, ptb_kmem,          0, MEMORY)             \
	X(KMEM_CALL,      22, ptb_kmem_call,     0, MEMORY)             \
	X(KMEM_STALL,     23, ptb_kmem_stall,    0, MEMORY)             \
	X(KMEM_EVENT,     24, ptb_kmem_event,    0, MEMORY)             \
	X(AGENT_DATA,     25, ptb_agent_data,    0, RECORDER)           \
	X(RF_BEGIN,       26, ptb_rf_begin,      1, THREADS)            \
	X(RF_END,         27, ptb_rf_end,        0, THREADS)            \
	X(CUDA_CALL,      28, ptb_cuda_call,     0, GPU)                \
	X(OPDEF_GONE,     29, ptb_opdef_gone,    1, RECORDER)           \
	X(TENSOR_END,     30, ptb_tensor_end,    0, TENSORS)            \
	X(PY_STACK_DEF,   32, ptb_py_stack_def,  0, STACK_DEFS)         \
	X(PY_STACK,       33, ptb_py_stack,      0, STACKS)             \
	X(PY_SAMPLE,      34, ptb_py_sample,     0, SAMPLES)            \
	X(SCHED,          40, ptb_sched,         0, SCHED)              \
	X(SCHED_WAIT,     41, ptb_sched_wait,    0, SCHED)              \
	X(AGENT_STACK,    47, ptb_agent_stack,   0, RECORDER)           \
	X(GPU_KERNEL,     48, ptb_gpu_kernel,    0, GPU)                \
	X(GPU_MEMCPY,     49, ptb_gpu_memory,    0, GPU)                \
	X(GPU_MEMSET,     50, ptb_gpu_memory,    0, GPU)                \
	X(GPU_API,        51, ptb_gpu_api,       0, GPU)                \
	X(GPU_SYNC,       52, ptb_gpu_sync,      0, GPU)                \
	X(GPU_EVENT,      53, ptb_gpu_event,     0, GPU)                \
	X(GPU_OVERHEAD,   54, ptb_gpu_overhead,  0, GPU)                \
	X(GPU_DEVICE,     55, ptb_gpu_device,    0, GPU)                \
	X(GPU_CLOCK,      56, ptb_gpu_clock,     0, GPU)                \
	X(GPU_NOTE,       57, ptb_gpu_note,      0, GPU)                \
	X(GPU_GRAPH_NODE, 58, ptb_gpu_graph_node,0, GPU)                \
	X(META,           64, ptb_text,          1, FACTS)              \
	X(NAME,           66, ptb_text,          1, FACTS)              \
	X(FUNC,           67, ptb_func,          0, FACTS)              \
	X(SITE,           68, ptb_site,          0, FACTS)              \
	X(OPDEF,          69, ptb_addr_name,     0, FACTS)              \
	X(NODE_TYPE,      70, ptb_addr_name,     0, FACTS)              \
	X(PROCESS,        71, ptb_process,       0, FACTS)              \
	X(THREAD,         72, ptb_thread,        0, FACTS)              \
	X(CLOCK,          73, ptb_clock,         0, FACTS)              \
	X(WINDOW,         74, ptb_window,        0, FACTS)              \
	X(LOST,           75, ptb_lost,          0, FACTS)              \
	X(COUNTER,        76, ptb_counter,       0, FACTS)              \
	X(CALLER,         77, ptb_addr_name,     0, FACTS)              \
	X(SCHEMA,         78, ptb_schema,        0, FACTS)              \
	X(KEYS,           79, ptb_keys,          0, FACTS)              \
	X(RSS_SAMPLE,     80, ptb_rss_sample,    0, FACTS)              \
	X(KERNEL_NAME,    81, ptb_addr_name,     0, FACTS)              \
	X(PY_LINE,        82, ptb_py_line,       0, FACTS)              \
	X(JOB,            83, ptb_text,          1, FACTS)              \
	X(ORIGIN,         84, ptb_origin,        0, FACTS)              \
	X(NATIVE_STACK,   85, ptb_text,          1, FACTS)              \
	X(UNPROBED,       86, ptb_rec_hdr,       0, FACTS)

/*
 * What is not in the header: which fields of a kind's fixed part are ids of the capture (names,
 * functions, sites), times of CLOCK_MONOTONIC, or numbers of processes and threads. GPU activities
 * have CUPTI's times, which only GPU_CLOCK relates to others.
 */
#define PTB_REC_FIELDS(X)                                                \
	X(FORK,          ptb_task,          child_tgid,  PID)           \
	X(FORK,          ptb_task,          child_tid,   PID)           \
	X(EXEC,          ptb_task,          child_tgid,  PID)           \
	X(EXEC,          ptb_task,          child_tid,   PID)           \
	X(THREAD_NEW,    ptb_task,          child_tgid,  PID)           \
	X(THREAD_NEW,    ptb_task,          child_tid,   PID)           \
	X(EXIT,          ptb_task,          child_tgid,  PID)           \
	X(EXIT,          ptb_task,          child_tid,   PID)           \
	X(MEM_API,       ptb_mem_api,       begin_ns,    TIME)          \
	X(KMEM,          ptb_kmem,          begin_ns,    TIME)          \
	X(KMEM_CALL,     ptb_kmem_call,     begin_ns,    TIME)          \
	X(KMEM_STALL,    ptb_kmem_stall,    begin_ns,    TIME)          \
	X(KMEM_EVENT,    ptb_kmem_event,    by_tgid,     PID)           \
	X(KMEM_EVENT,    ptb_kmem_event,    by_tid,      PID)           \
	X(SCHED,         ptb_sched,         since_ns,    TIME)          \
	X(SCHED,         ptb_sched,         begin_ns,    TIME)          \
	X(SCHED_WAIT,    ptb_sched_wait,    begin_ns,    TIME)          \
	X(SCHED_WAIT,    ptb_sched_wait,    ready_ns,    TIME)          \
	X(SCHED_WAIT,    ptb_sched_wait,    waker_tgid,  PID)           \
	X(SCHED_WAIT,    ptb_sched_wait,    waker_tid,   PID)           \
	X(SCHED_WAIT,    ptb_sched_wait,    holder,      PID)           \
	X(CUDA_CALL,     ptb_cuda_call,     begin_ns,    TIME)          \
	X(GPU_KERNEL,    ptb_gpu_kernel,    name,        NAME)          \
	X(GPU_API,       ptb_gpu_api,       name,        NAME)          \
	X(GPU_DEVICE,    ptb_gpu_device,    name,        NAME)          \
	X(GPU_CLOCK,     ptb_gpu_clock,     mono_ns,     TIME)          \
	X(GPU_GRAPH_NODE,ptb_gpu_graph_node,at_ns,       TIME)          \
	X(NAME,          ptb_text,          id,          NAME)          \
	X(FUNC,          ptb_func,          func,        FUNC)          \
	X(FUNC,          ptb_func,          name,        NAME)          \
	X(SITE,          ptb_site,          id,          SITE)          \
	X(SITE,          ptb_site,          func,        FUNC)          \
	X(SITE,          ptb_site,          lib,         NAME)          \
	X(OPDEF,         ptb_addr_name,     name,        NAME)          \
	X(NODE_TYPE,     ptb_addr_name,     name,        NAME)          \
	X(CALLER,        ptb_addr_name,     name,        NAME)          \
	X(KERNEL_NAME,   ptb_addr_name,     name,        NAME)          \
	X(SCHEMA,        ptb_schema,        func,        FUNC)          \
	X(SCHEMA,        ptb_schema,        name,        NAME)          \
	X(PROCESS,       ptb_process,       parent_tgid, PID)           \
	X(PROCESS,       ptb_process,       comm,        NAME)          \
	X(PROCESS,       ptb_process,       cmdline,     NAME)          \
	X(PROCESS,       ptb_process,       exe,         NAME)          \
	X(THREAD,        ptb_thread,        comm,        NAME)          \
	X(THREAD,        ptb_thread,        name,        NAME)          \
	X(LOST,          ptb_lost,          end_ns,      TIME)          \
	X(PY_LINE,       ptb_py_line,       func,        NAME)          \
	X(PY_LINE,       ptb_py_line,       file,        NAME)
/* clang-format on */

enum ptb_rec_kind {
#define X(name, nr, type, tail, reader) PTB_REC_##name = nr,
	PTB_REC_KINDS(X)
#undef X
};
#define PTB_REC_USER_FIRST 64 /* kinds from here on are written by user space only */

#define X(name, nr, type, tail, reader)                                                            \
	_Static_assert(sizeof(struct type) % 8 == 0, #type " must be a multiple of 8 bytes");      \
	_Static_assert((PTB_READ_##reader == PTB_READ_FACTS) == (nr >= PTB_REC_USER_FIRST), #name);
PTB_REC_KINDS(X)
#undef X

/*     name             nr  text (trace categories follow torch: see export/chrome_trace.c) */
/* clang-format off */
#define PTB_FUNC_KINDS(X)                                                                        \
	X(OP,            1, "operator")                                                          \
	X(BOXED,         2, "boxed operator call")                                               \
	X(NODE,          3, "backward node, whole (autograd::engine::evaluate_function)")       \
	X(NODE_CALL,     4, "backward node, its own function")                                   \
	X(PYFUNC,        5, "custom autograd.Function, forward")                                 \
	X(SCRIPT,        6, "TorchScript function")                                              \
	X(SCOPE,         7, "annotation (record_function)")                                      \
	X(REGION,        8, "compiled region")                                                   \
	X(SEQ,           9, "autograd sequence number")                                         \
	X(CATCH,        10, "C++ exception caught")                                              \
	X(ALLOCATOR,    11, "allocator's report")                                                \
	X(CUDA_MEMORY,  12, "CUDA memory call")                                                  \
	X(CUDA_CALL,    13, "CUDA launch, copy or synchronisation")                              \
	X(FUNCTION,     14, "function that names itself (RECORD_FUNCTION)")                      \
	X(REGISTRY,     15, "operator that leaves the dispatcher")                              \
	X(TENSOR,       16, "end of a tensor")
/* clang-format on */

enum ptb_func_kind {
#define X(name, nr, text) PTB_FUNC_##name = nr,
	PTB_FUNC_KINDS(X)
#undef X
};

enum ptb_site_role { PTB_ROLE_ENTER = 1, PTB_ROLE_EXIT = 2, PTB_ROLE_POINT = 3 };

/*     name              nr  sentence */
/* clang-format off */
#define PTB_REFUSALS(X)                                                                         \
	X(NONE,           0, "")                                                                \
	X(NO_ENTRY,       1, "no instruction near the entry that the Linux kernel emulates")          \
	X(NO_EXIT,        2, "no set of emulated instructions that every return path crosses once") \
	X(COMPUTED_JUMP,  3, "a computed jump whose table could not be resolved")               \
	X(UNDECODED,      4, "bytes that could not be decoded as instructions")                 \
	X(NO_NAME,        5, "no operator name could be derived for it")                        \
	X(TOO_LARGE,      6, "larger than the analysis allows")                                 \
	X(KERNEL_REFUSED, 7, "the Linux kernel refused the probe")                                    \
	X(NO_SYMBOL,      8, "this build of torch has no such symbol")                          \
	X(LAYOUT_UNKNOWN, 9, "a structure offset could not be derived from this build")         \
	X(SIGNATURE,     10, "its arguments are not the expected ones")
/* clang-format on */

enum ptb_refusal {
#define X(name, nr, text) PTB_REFUSE_##name = nr,
	PTB_REFUSALS(X)
#undef X
};

/*     name                 nr  text */
/* clang-format off */
#define PTB_STOP_REASONS(X)                                     \
	X(DURATION,          1, "duration reached")             \
	X(SIGNAL,            2, "interrupted")                  \
	X(TARGET_EXIT,       3, "target exited")                \
	X(ERROR,             4, "error")                        \
	X(NOT_WRITTEN,       5, "the capture could not be written") \
	X(COST,              6, "limit on its cost reached")    \
	X(NEXT_WINDOW,       7, "the next window was due")      \
	X(STEPS,             8, "steps recorded")               \
	X(NO_STEP,           9, "no step ended in time")
/* clang-format on */

enum ptb_stop_reason {
#define X(name, nr, text) PTB_STOP_##name = nr,
	PTB_STOP_REASONS(X)
#undef X
};

/* Counters. BPF: in the BPF map `counters` (per CPU, summed); USER: kept by user space. "loss" 1: a
 * value > 0 makes the capture incomplete (exit code 3). A number is never reused: 15, 70 to 73 and
 * 80 are in older captures. */
/*     name               nr  where loss  text */
/* clang-format off */
#define PTB_COUNTERS(X) \
	X(HITS,              0, BPF,  0, "probe hits recorded") \
	X(RING_FULL,         1, BPF,  1, "records lost: ring buffer full") \
	X(READ_FAULT,        2, BPF,  0, "reads of the target's memory that failed") \
	X(TEXT_CUT,          3, BPF,  0, "names truncated at 256 bytes") \
	X(RECURSION,         4, BPF,  1, "records lost: scratch memory in use") \
	X(OUT_OF_WINDOW,     5, BPF,  0, "probe hits outside the window") \
	X(FOREIGN,           6, BPF,  0, "probe hits of processes that are not traced") \
	X(ARGS_CUT,          7, BPF,  1, "argument lists and strings truncated at their limits") \
	X(ARGS_FAULT,        8, BPF,  0, "argument values that could not be read") \
	X(RESULTS_NO_FRAME,  9, BPF,  0, "results not read: the entry was not seen, or calls were nested too deeply") \
	X(API_NO_RESULT,    10, BPF,  0, "CUDA memory calls whose return was not seen") \
	X(KMEM_NO_ROOM,     11, BPF,  1, "kernel memory events lost: no room for a thread's sums") \
	X(CHUNK_FAULT,      12, BPF,  1, "chunks of the agent that could not be copied") \
	X(CUDA_NESTED,      13, BPF,  0, "CUDA calls made by other CUDA calls, which are recorded instead") \
	X(CUDA_NO_END,      14, BPF,  0, "CUDA calls whose return was not seen") \
	X(MISSED,           16, USER, 1, "probe hits that the Linux kernel skipped (program recursion)") \
	X(CAPTURE_DROPPED,  17, USER, 1, "records lost: the capture file could not be written") \
	X(COST_PS,          18, USER, 0, "cost of one probe hit on this host, picoseconds") \
	X(ATTACH_NS,        19, USER, 0, "time to attach, ns") \
	X(DETACH_NS,        20, USER, 0, "time to detach, ns") \
	X(PLAN_NS,          21, USER, 0, "time to plan, ns") \
	X(PROBES,           22, USER, 0, "probes attached") \
	X(REFUSED,          23, USER, 0, "functions refused") \
	X(NAME_UNRESOLVED,  24, USER, 1, "addresses whose name could not be read from the target") \
	X(UNCOVERED_NS,     25, USER, 1, "time during which a followed process had no probes, ns") \
	X(COLLECTOR_CPU_NS, 26, USER, 0, "processor time of the collector, ns") \
	X(COLLECTOR_RSS,    27, USER, 0, "peak resident memory of the collector, bytes") \
	X(CHILDREN_MISSED,  28, USER, 1, "child processes that had no probes before they exited or the window ended") \
	X(NO_SHAPES,        29, USER, 1, "processes without shapes: the layout of their tensors failed its check") \
	X(ARGS_UNPLACED,    30, USER, 0, "arguments and results whose location in a call is not known") \
	X(NO_TRACEPOINT,    31, USER, 0, "kinds of kernel memory events that this Linux kernel does not report") \
	X(AGENT_LOST,       32, USER, 1, "chunks of the agent that did not arrive") \
	X(AGENT_DROPPED,    33, USER, 1, "records that the agent dropped because its buffers were full") \
	X(AGENT_LATE,       34, USER, 1, "records that arrived too late to be sorted") \
	X(AGENT_BAD,        35, USER, 1, "invalid records of an agent") \
	X(GPU_DROPPED,      36, USER, 1, "activity records that CUPTI dropped") \
	X(GPU_NO_TIMES,     44, USER, 1, "activity records of CUPTI that have no times") \
	X(CUDA_LATE_NS,     40, USER, 0, "time during which loaded CUDA libraries had no probes yet, ns") \
	X(AGENT_CUT,        39, USER, 1, "processes whose agent did not send its last 0.2 s: they exited, or another tracer uses it") \
	X(AGENT_GAVE_UP,    38, USER, 1, "agents that stopped in the window; probes replaced them") \
	X(AGENT_REFUSED,    37, USER, 1, "processes whose agent could not record their GPUs (the trace says why)") \
	X(OVER_MEMORY,      41, USER, 1, "records and facts dropped: the collector's memory is at its limit") \
	X(OVER_NAMES,       42, USER, 1, "names and strings dropped or truncated at the limits of a capture") \
	X(OVER_PROCESSES,   43, USER, 1, "processes without probes: beyond the limit of a recording") \
	X(OVER_AGENT,       45, USER, 1, "records of an agent dropped: beyond the limit of one agent") \
	X(OVER_OPERATORS,   46, USER, 1, "processes with more operators than the limit: their dispatcher's table is not read") \
	X(OVER_LIBS,        47, USER, 1, "processes with more CUDA libraries than the limit: the rest has no probes") \
	X(UNWRITTEN_NS,     48, USER, 1, "the window's end, which could not be written, ns") \
	X(FOREIGN_FILES,    49, USER, 1, "libraries without probes: a process of another user serves their file system (FUSE)") \
	X(REFUSED_PIDS,     50, USER, 1, "processes that could not be traced") \
	X(PY_NO_STATE,      51, BPF,  1, "Python stacks not read: the thread's state was not where it should be") \
	X(PY_CUT,           52, BPF,  1, "Python stacks truncated at 128 frames") \
	X(PY_FAULT,         53, BPF,  1, "Python stacks with a frame that could not be read") \
	X(PY_NO_ROOM,       54, BPF,  1, "Python stacks lost: no memory for the thread's stacks") \
	X(NO_STACKS,        55, USER, 1, "processes whose Python stacks cannot be read (the trace says why)") \
	X(PY_CODE_GONE,     56, USER, 1, "Python code objects that were freed before they could be read") \
	X(SAMPLES_LATE,     57, BPF,  0, "samples missed: the machine was too busy to take them") \
	X(SAMPLES_RAN,      58, BPF,  0, "samples without a stack: the thread began to run while it was read") \
	X(SAMPLES_NS,       59, BPF,  0, "time for which samples interrupted the target's threads, ns") \
	X(PY_CLASS_GONE,    60, USER, 1, "modules whose class could not be read") \
	X(OPEN_UNREAD,      61, BPF,  0, "samples of which it is not known which operator was open: the agent had just begun or stopped, or more than 127 were") \
	X(CHANGES_NS,       62, USER, 0, "processor time of placing and removing probes, ns") \
	X(AGENT_RESTARTED,  63, USER, 1, "times that an agent began anew for another tracer, or without inputs: what ran then is missing") \
	X(SCOPES_FULL,      74, BPF,  1, "ends of annotations lost: more than 16384 are open at a time") \
	X(AGENT_EDGES,      75, BPF,  0, "probe hits at which operators of an agent began or ended, for kernel memory") \
	X(OVER_THREADS,     76, BPF,  1, "samples of threads that did not run, not taken: beyond the limit of threads") \
	X(SCHED_NO_ROOM,    78, BPF,  1, "threads whose waits are not recorded: no room for their sums") \
	X(SCHED_UNSEEN,     81, BPF,  0, "switches of threads that the Linux kernel did not report: how long they ran is by its own count") \
	X(THROTTLED_NS,     79, USER, 0, "time for which CPU quotas of control groups stopped a process, on all CPUs together, ns") \
	X(NEW_OPS,          82, USER, 1, "operators without probes: their process called them for the first time in the window") \
	X(OVER_COST,        77, USER, 1, "processes that lost their probes in the window: they had cost what --max-overhead allows")
/* clang-format on */

enum ptb_counted_by { PTB_COUNTED_BY_USER, PTB_COUNTED_BY_BPF };

enum ptb_counter_id {
#define X(name, nr, where, loss, text) PTB_CNT_##name = nr,
	PTB_COUNTERS(X)
#undef X
};
#define PTB_CNT_MAP 96 /* entries of the BPF map */

#endif /* PTB_EVENT_H */
