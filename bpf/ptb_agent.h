/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the agent inside a target and ptbpf exchange. Compiles alone, as BPF and as C. Owns the
 * layout of chunks, of the records in them and of the control block; knows neither side's code.
 *
 * Four channels, none of which anybody but root can use:
 *  - Requests: USDT sites (provider "ptbpf") that never run. A tracer's probe on one raises its
 *    semaphore, which the agent reads; the kernel lowers it when the tracer goes, however it goes.
 *    Two of them run while they are requested, on the operator's thread: "stacks" before its BEGIN,
 *    with the number in rdi that the BEGIN has; "edges" before the clock is read for a BEGIN or an
 *    END, so that what the tracer has summed up until then belongs to what was open until then.
 *  - Settings and state: the control block, the agent's exported object `ptbpf_agent_ctl`. The
 *    tracer writes `cfg` (through /proc/PID/mem) before it raises a request and reads the rest.
 *  - Open operators: the agent's exported object `ptbpf_agent_open` and what it leads to, which the
 *    tracer reads.
 *  - Records: the USDT site "chunk" runs once per chunk with its address in rdi and its length in
 *    rsi; the tracer's program copies it. Without a tracer on that site nothing is ever made.
 *
 * All integers are little endian; everything is a multiple of 8 bytes. Versions: a reader refuses a
 * control block or chunk of another PTB_AGENT_ABI and says so.
 */
#ifndef PTB_AGENT_H
#define PTB_AGENT_H

#include "ptb_args.h"

#define PTB_AGENT_ABI 3
#define PTB_AGENT_PROVIDER "ptbpf"
#define PTB_AGENT_CTL_SYMBOL "ptbpf_agent_ctl"
#define PTB_AGENT_FILE "libptbpf_agent.so"

/*
 * USDT sites: note name = the text; the semaphore of "chunk" says that a tracer listens, those of
 * the others what it requests. The agent acts on a change within PTB_AGENT_POLL_NS.
 */
/*     name       nr  text       what a probe on it requests */
/* clang-format off */
#define PTB_AGENT_SITES(X)                                                                      \
	X(CHUNK,   0, "chunk",   "transport of records")                                        \
	X(OPS,     1, "ops",     "operators, by a RecordFunction callback")                     \
	X(INPUTS,  2, "inputs",  "with them their inputs (the callback needs inputs)")           \
	X(OUTPUTS, 3, "outputs", "with them their results, and identities in both")              \
	X(GPU,     4, "gpu",     "activities of GPUs and the calls that caused them, by CUPTI")  \
	X(SYNC,    5, "sync",    "with them synchronisation and events")                         \
	X(GRAPHS,  6, "graphs",  "with them the nodes of CUDA graphs, as they are captured")     \
	X(STACKS,  7, "stacks",  "with operators the moment at which their Python stack can be read") \
	X(OPEN,    8, "open",    "which operators are open on each thread, without a record of each") \
	X(EDGES,   9, "edges",   "with operators the moments at which they begin and end")
/* clang-format on */

enum ptb_agent_site {
#define X(name, nr, text, what) PTB_AGENT_SITE_##name = nr,
	PTB_AGENT_SITES(X)
#undef X
		PTB_AGENT_SITE_CNT
};

#define PTB_AGENT_POLL_NS 50000000   /* the agent's thread polls the semaphores this often, ... */
#define PTB_AGENT_FLUSH_NS 100000000 /* ... and sends its chunks and a pair of clocks this often */
#define PTB_AGENT_ANSWER_NS 2000000000 /* a request that is not answered by then is refused */

/* ---- control block ---- */

/* Where things are in at::RecordFunction of this build (pytorch ATen/record_function.h). */
struct ptb_rf_cfg {
	__u16 size;           /* bytes that may be read of one; 0: the layout is not known */
	__u16 fn_off;         /* variant of std::string and FunctionSchema const&: the value */
	__u16 fn_index_off;   /* its index byte: 0 text, 1 schema */
	__u16 seq_off;        /* sequence_nr_ */
	__u16 inputs_off;     /* ArrayRef<IValue const>: pointer, count */
	__u16 outputs_off;    /* std::vector<IValue>: begin, end, capacity */
	__u16 fwd_thread_off; /* fwd_thread_id_ */
	__u16 thread_off;     /* logical thread id, step_callbacks_.thread_id_ */
	__u16 scope_off;      /* at::RecordScope, one byte */
	__u16 handle_off;
	__u8 old_string_abi; /* the text is one pointer, its length at text - 24 */
	__u8 pad[3];
};

struct ptb_agent_cfg {
	struct ptb_rf_cfg rf;
	struct ptb_tensor_cfg tensor; /* shapes_on 0: no inputs, no outputs */
};

/* Bits of ptb_agent_ctl.state */
#define PTB_AGENT_ALIVE 0x1   /* its thread runs in this process (not after a fork) */
#define PTB_AGENT_TORCH 0x2   /* at::addGlobalCallback was found */
#define PTB_AGENT_OPS_ON 0x4  /* the callback is registered */
#define PTB_AGENT_CUPTI 0x8   /* a CUPTI that it understands was found */
#define PTB_AGENT_GPU_ON 0x10 /* activities are enabled */
#define PTB_AGENT_TSC 0x20    /* ticks are of the time stamp counter, else ns of CLOCK_MONOTONIC */
#define PTB_AGENT_INJECTED 0x40 /* loaded into a running process */
#define PTB_AGENT_INPUTS_ON 0x80
#define PTB_AGENT_OUTPUTS_ON 0x100
#define PTB_AGENT_SYNC_ON 0x200
#define PTB_AGENT_GRAPHS_ON 0x400
#define PTB_AGENT_STACKS_ON 0x800
#define PTB_AGENT_OPEN_ON 0x1000
/* It has something to send. */
#define PTB_AGENT_SENDS (PTB_AGENT_OPS_ON | PTB_AGENT_GPU_ON | PTB_AGENT_OPEN_ON)

/* Why the agent does not do what is requested, or only a part of it. */
/*     name             nr  sentence */
/* clang-format off */
#define PTB_AGENT_WHYS(X)                                                                        \
	X(NONE,          0, "")                                                                  \
	X(NO_TORCH,      1, "libtorch_cpu is not loaded, or has no at::addGlobalCallback")        \
	X(NO_LAYOUT,     2, "the layout of RecordFunction in this build is not known")            \
	X(BAD_LAYOUT,    3, "RecordFunction does not match the derived layout")            \
	X(BAD_TENSORS,   4, "tensors do not match the derived layout: no inputs")        \
	X(NO_CUPTI,      5, "no CUPTI library was found")                                         \
	X(OLD_CUPTI,     6, "the CUPTI library is older than 11.8")                               \
	X(NEW_CUPTI,     7, "the CUPTI library is newer than the versions that ptbpf supports") \
	X(NO_CUDA,       8, "the process does not use CUDA yet")                                  \
	X(CUPTI_IN_USE,  9, "another tool uses CUPTI in this process")                            \
	X(CUPTI_ERROR,  10, "CUPTI returned an error")                                            \
	X(FORKED,       11, "the process was forked: the agent's thread is not in it") \
	X(NO_MEMORY,    12, "no memory for its buffers")                                          \
	X(BAD_CFG,      13, "the tracer's request in the control block is not valid")
/* clang-format on */

enum ptb_agent_why {
#define X(name, nr, text) PTB_AGENT_WHY_##name = nr,
	PTB_AGENT_WHYS(X)
#undef X
};

struct ptb_agent_ctl {
	char magic[8]; /* "PTBAGENT" */
	__u32 abi;     /* PTB_AGENT_ABI */
	__u32 size;    /* of this struct */
	/* written by the agent */
	__u32 requests;         /* those that it has acted on: 1 << PTB_AGENT_SITE_* */
	__u32 state;            /* PTB_AGENT_* */
	__u32 ops_why, gpu_why; /* enum ptb_agent_why */
	__u32 cupti_error;      /* CUptiResult of CUPTI_ERROR */
	__u32 cupti_version;    /* cuptiGetVersion() */
	__u32 tid;              /* of its thread, in its own pid namespace */
	__u32 pad;
	__u64 chunks;  /* sent since it was loaded */
	__u64 dropped; /* records dropped since then */
	/* written by the tracer */
	__u32 cfg_abi;  /* PTB_AGENT_ABI when cfg is whole; written last */
	__u32 cfg_size; /* sizeof(struct ptb_agent_cfg) */
	struct ptb_agent_cfg cfg;
};

/* ---- open operators ---- */

#define PTB_AGENT_OPEN_SYMBOL "ptbpf_agent_open"

struct ptb_agent_open {
	__u32 size; /* of this struct */
	__u32 on;   /* 0: what threads have says nothing */
	/* from a thread's pointer to where it has the address of its struct ptb_open_ops; 0 there:
	 * none has begun on it */
	__s64 tls;
};

/*
 * Operators that have begun on a thread since `on` was set and have not ended, the innermost one
 * last. Annotations are none. Only the thread itself adds and removes, so whoever reads it in the
 * thread's own context, or while the thread does not run, finds nothing half written: an operator
 * is whole before cnt includes it.
 */
#define PTB_OPEN_MAX 127
struct ptb_open_op {
	__u64 rf; /* 0: it has ended, on another thread perhaps */
	/* what a NAME record has in place of a schema pointer; 0: it could not be read */
	__u64 name;
};
struct ptb_open_ops {
	struct ptb_open_head {
		__u32 cnt;
		/* more are open than there is room for: the innermost one is not known */
		__u32 over;
	} h;
	struct ptb_open_op ops[PTB_OPEN_MAX];
};

/* ---- chunks ---- */

#define PTB_CHUNK_MAGIC 0x43425450u /* "PTBC" */
#define PTB_CHUNK_FULL 16384 /* bytes, header included: a chunk is sent when it has so many */
#define PTB_CHUNK_MAX 49152  /* for a record of PTB_ARGS_BYTES_MAX: a chunk's largest size */

struct ptb_chunk {
	__u32 magic;
	__u16 abi;
	__u16 kind;    /* enum ptb_chunk_kind */
	__u32 len;     /* whole, header included */
	__u32 tid;     /* whose records: OPS: the thread, in its own pid namespace; else 0 */
	__u32 stream;  /* one sender's chunks of this process have the same number, from 1 */
	__u32 seq;     /* within the stream, from 1, in the order sent: a gap is a lost chunk */
	__u64 dropped; /* records that the sender could not keep, so far */
	__u64 logical; /* OPS: at::RecordFunction::currentThreadId() of the thread, 0: not known */
};
_Static_assert(sizeof(struct ptb_chunk) == 40, "chunks are shared with running agents");

enum ptb_chunk_kind {
	PTB_CHUNK_STATE = 1, /* of the agent: STATE, CLOCK, GPU_CLOCK; to be read at once */
	PTB_CHUNK_OPS = 2,
	PTB_CHUNK_GPU = 3,
};

/* A record in a chunk; ticks as PTB_AGENT_TSC says; GPU chunks: 0. */
struct ptb_arec {
	__u16 len; /* whole, multiple of 8 */
	__u8 kind; /* enum ptb_arec_kind */
	__u8 flags;
	__u32 aux;
	__u64 ticks;
};

#define PTB_AREC_FWD 0x1  /* BEGIN: forward thread id follows seq */
#define PTB_AREC_ARGS 0x2 /* values (ptb_args.h) follow to the end */
#define PTB_AREC_ARGS_CUT 0x4
#define PTB_AREC_TEXT_CUT 0x8
#define PTB_AREC_STACK 0x10 /* BEGIN: its number at the site "stacks" follows that */

/* BEGIN: aux: at::RecordScope | text length << 8. Then __u64 fwd_thread (FWD), __u64 number (STACK;
 * not 0), the text padded to 8, values. */
struct ptb_arec_begin {
	struct ptb_arec r;
	__u64 rf;     /* RecordFunction* */
	__u64 schema; /* FunctionSchema const*; 0: the text names it */
	__s64 seq;    /* -1: none */
};

/* END, perhaps on another thread: then values. */
struct ptb_arec_end {
	struct ptb_arec r;
	__u64 rf;
};

/* NAME: what a schema pointer means, at least once before its first BEGIN of a stream; aux: bytes
 * of its name | of its overload's << 16, which follow, each padded to 8. What could not be read has
 * none. Of open operators: what a number with PTB_OPEN_NAME means, a hash of the name, so that it
 * is the same in all threads and never another operator's. */
struct ptb_arec_name {
	struct ptb_arec r;
	__u64 schema;
};
#define PTB_OPEN_NAME (1ULL << 63)

/* CLOCK: both clocks at once, two-sided: mono_ns is between two readings of ticks, r.ticks their
 * middle. */
struct ptb_arec_clock {
	struct ptb_arec r;
	__u64 mono_ns;
	__u64 err_ticks; /* half the width */
};

/* GPU_CLOCK: cuptiGetTimestamp() between two readings of CLOCK_MONOTONIC. */
struct ptb_arec_gpu_clock {
	struct ptb_arec r;
	__u64 gpu_ns, mono_ns, err_ns;
};

/* STATE: after each change: the control block's words. Answers to requests are seen in it. */
struct ptb_arec_state {
	struct ptb_arec r;
	__u32 state, ops_why, gpu_why, cupti_error;
};

/* Of GPU chunks. Names are the agent's own ids: a GPU_NAME record defines each once, before it is
 * used. */

/* GPU_NAME: aux: the id; the text follows. */
struct ptb_arec_gpu_name {
	struct ptb_arec r;
	__u64 bytes; /* of text */
};

/* CUPTI: behind the head follows one activity record as CUPTI made it, from its kind on; aux: the
 * id of the kernel's or the call's name, 0: none. Its thread ids are numbers of threads where
 * PTB_AREC_TIDS says so. */
#define PTB_AREC_TIDS 0x20
#define PTB_CUPTI_RECORD_MAX 1024 /* bytes; what a record has beyond them is cut off */
/* X(kind, CUpti_ActivityKind, bytes that the record of every version has, what it becomes) */
/* clang-format off */
#define PTB_CUPTI_KINDS(X)                            \
	X(MEMCPY,             1, 84,  GPU_MEMCPY)     \
	X(MEMSET,             2, 84,  GPU_MEMSET)     \
	X(DRIVER,             4, 40,  GPU_API)        \
	X(RUNTIME,            5, 40,  GPU_API)        \
	X(CONCURRENT_KERNEL, 10, 176, GPU_KERNEL)     \
	X(OVERHEAD,          17, 40,  GPU_OVERHEAD)   \
	X(MEMCPY2,           22, 92,  GPU_MEMCPY)     \
	X(CUDA_EVENT,        36, 20,  GPU_EVENT)      \
	X(SYNCHRONIZATION,   38, 40,  GPU_SYNC)
/* clang-format on */

enum ptb_cupti_kind {
#define X(name, nr, bytes, record) PTB_CUPTI_##name = nr,
	PTB_CUPTI_KINDS(X)
#undef X
};

/* GPU_DEVICE: aux: the id of its name. Behind it cnt __u32: the attributes of PTB_GPU_ATTRS, 0: not
 * known. */
struct ptb_arec_gpu_device {
	struct ptb_arec r;
	__u64 memory_bytes;
	__u32 id, cnt;
};
/* X(attribute, CUdevice_attribute) */
/* clang-format off */
#define PTB_GPU_ATTRS(X)                                                                    \
	X(THREADS_PER_BLOCK, 1) X(SHARED_PER_BLOCK, 8) X(WARP_SIZE, 10) X(REGS_PER_BLOCK, 12) \
	X(CLOCK_KHZ, 13) X(SM_CNT, 16) X(MEMORY_KHZ, 36) X(MEMORY_BITS, 37)                 \
	X(THREADS_PER_SM, 39) X(MAJOR, 75) X(MINOR, 76) X(SHARED_PER_SM, 81)                \
	X(REGS_PER_SM, 82) X(BLOCKS_PER_SM, 106)
/* clang-format on */

enum ptb_gpu_attr {
#define X(name, nr) PTB_GPU_ATTR_##name,
	PTB_GPU_ATTRS(X)
#undef X
		PTB_GPU_ATTR_CNT
};

/* GPU_NOTE: aux: enum ptb_gpu_notes */
struct ptb_arec_gpu_note {
	struct ptb_arec r;
	__u64 value;
};

/* GRAPH_NODE: a kernel's, copy's or fill's node of a CUDA graph, as CUPTI reports its creation. */
struct ptb_arec_graph_node {
	struct ptb_arec r;
	__u64 mono_ns;
	__u64 node;     /* CUPTI's id, as records of what it runs have it */
	__u64 original; /* it is a copy of that node (cudaGraphInstantiate()); 0: of none */
	__u32 tid;      /* in its own pid namespace */
	__u32 pad;
};

/*     name       nr  struct */
/* clang-format off */
#define PTB_AREC_KINDS(X)                          \
	X(BEGIN,     1, ptb_arec_begin)            \
	X(END,       2, ptb_arec_end)              \
	X(NAME,      3, ptb_arec_name)             \
	X(CLOCK,     4, ptb_arec_clock)            \
	X(GPU_CLOCK, 5, ptb_arec_gpu_clock)        \
	X(STATE,     6, ptb_arec_state)            \
	X(GPU_NAME,  7, ptb_arec_gpu_name)         \
	X(CUPTI,     8, ptb_arec)                  \
	X(GPU_DEVICE, 9, ptb_arec_gpu_device)      \
	X(GPU_NOTE, 10, ptb_arec_gpu_note)         \
	X(GRAPH_NODE, 11, ptb_arec_graph_node)
/* clang-format on */

enum ptb_arec_kind {
#define X(name, nr, type) PTB_AREC_##name = nr,
	PTB_AREC_KINDS(X)
#undef X
};

#endif /* PTB_AGENT_H */
