/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The session model: what happened, as threads with nested slices, emitted to a sink in one
 * streaming pass over a capture. Everything an exporter may ask is in the structs below; nothing
 * here knows an output format. Memory is bounded by open frames and by tables of distinct names,
 * threads, processes.
 */
#ifndef MODEL_SESSION_H
#define MODEL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "args/values.h"
#include "ptb_event.h"
#include "steps/step_events.h"

struct capture_reader;
struct session;

/* ---- facts known before the first slice (from the control records) ---- */

struct session_process {
	uint32_t tgid, parent_tgid;
	const char *comm, *cmdline, *exe;
	uint64_t start_ns; /* probes active from here on, CLOCK_MONOTONIC */
	uint64_t gap_ns;
	uint32_t source; /* 0 kernel probes, 1 agent */
	/* of its JOB record: a JSON object, or what a damaged file has; "": none */
	const char *job;
	/* annotation that ends its steps, by PTBPF_STEP_ON of its environment; NULL: the
	 * session's */
	const char *step_on;
	/* Of several captures: else host is "", pid is tgid, and the window is the session's. */
	const char *host;
	uint32_t pid, input;       /* its number there; which of the captures, from 0 */
	uint64_t begin_ns, end_ns; /* the window of that one */
	uint64_t unprobed_ns;      /* when it lost its probes; 0: it did not */
	/* after a run: it ended in the window, with this status of wait() */
	bool ended;
	uint32_t status;
};

struct session_lost {
	uint64_t begin_ns, end_ns, cnt;
	uint32_t ring;
};

struct session_refusal {
	const char *name; /* function */
	uint32_t kind;    /* enum ptb_func_kind */
	uint32_t reason;  /* enum ptb_refusal */
};

struct session_rss { /* a process's memory according to /proc */
	uint64_t ts_ns;
	uint32_t tgid;
	uint64_t rss[PTB_RSS_KINDS];     /* bytes, by enum ptb_rss_kind */
	uint64_t vm_bytes, minor, major; /* address space; faults since the process began */
};

struct session_info {
	/* the window, CLOCK_MONOTONIC; end = last record when not sealed */
	uint64_t begin_ns, end_ns;
	int64_t mono_to_unix_ns; /* add to a CLOCK_MONOTONIC time to get Unix ns */
	uint64_t clock_err_ns;
	uint32_t stop_reason; /* enum ptb_stop_reason, 0: not known */
	bool sealed;
	const struct session_process *processes;
	uint32_t process_cnt;
	const struct session_lost *lost;
	uint32_t lost_cnt;
	const struct session_refusal *refusals;
	uint32_t refusal_cnt;
	uint32_t func_cnt, site_cnt;
	bool has_shapes;        /* inputs were recorded */
	bool has_results;       /* and results, with identities: what an Execution Trace needs */
	bool has_memory;        /* --profile-memory */
	bool has_kernel_memory; /* --kernel-memory */
	bool has_sched;         /* --sched */
	bool has_gpu;           /* activities of GPUs, by the agent */
	bool has_cuda_calls;    /* CUDA calls, seen from the host's side without an agent */
	bool has_py_stacks;     /* --with-stack, --sample-stacks: of whatever is recorded */
	/* --sample-stacks: there are samples of stacks, and nothing else; 0: not */
	uint32_t sample_hz;
	/* --with-samples: there are samples beside all else, so many a second; 0: not */
	uint32_t with_samples;
	bool has_modules; /* --with-modules */
	bool merged;      /* several captures are read as one: see struct session_process */
	/* ptbpf came later than the program: what began before the window and does not end in it is
	 * not seen */
	bool open_unknown;
	const struct ptb_gpu_device *const *devices; /* by their id; NULL: not known */
	uint32_t device_cnt;
	/* bound of GPU times against CLOCK_MONOTONIC; 0 without has_gpu */
	uint64_t gpu_clock_err_ns;
	uint32_t gpu_clock_cnt; /* pairs it was fitted from */
	/* in order of time; also without has_kernel_memory: begin and end */
	const struct session_rss *rss;
	uint32_t rss_cnt;
	const uint64_t *counters; /* indexed by enum ptb_counter_id */
	uint32_t counter_cnt;
};

/* Value of a counter, 0 when the capture does not have it. */
static inline uint64_t session_info__counter(const struct session_info *info, uint32_t id)
{
	return id < info->counter_cnt ? info->counters[id] : 0;
}

/* Hits of probes in the window: also those of which there is no record. */
static inline uint64_t session_info__hits(const struct session_info *info)
{
	return session_info__counter(info, PTB_CNT_HITS) +
	       session_info__counter(info, PTB_CNT_RING_FULL) +
	       session_info__counter(info, PTB_CNT_AGENT_EDGES);
}

/* What the probes cost the target, ns: hits times the cost of one that was measured at attach, and
 * the time of the samples beside them. */
static inline double session_info__cost_ns(const struct session_info *info)
{
	return (double)session_info__hits(info) *
		       (double)session_info__counter(info, PTB_CNT_COST_PS) / 1000.0 +
	       (info->with_samples ? (double)session_info__counter(info, PTB_CNT_SAMPLES_NS) : 0);
}

/* The process with this number; NULL: the capture has none. */
const struct session_process *session__process(const struct session *s, uint32_t tgid);
/* Until when a process's operators were recorded by probes: the window's end, or the end of its
 * probes. */
uint64_t session__probed_until(const struct session *s, uint32_t tgid);
/* How long the steps of a thread took that ended after that, in order; *cnt 0: it is not known. */
const uint64_t *session__later_steps(const struct session *s, uint32_t tgid, uint32_t tid,
				     uint32_t *cnt);
/* JSON text of a META record by key ("version", "host", "options", ...), NULL if absent. */
const char *session__meta(const struct session *s, const char *key);
const char *session__torch_lib(const struct session *s); /* its path; "": not known */
/* Where a thread stood in C++ when the window began (NATIVE_STACK, bpf/ptb_event.h); "": its stack
 * could not be read; NULL: it was not read. */
const char *session__native_stack(const struct session *s, uint32_t tgid, uint32_t tid);
/* When it was read: the sample that follows is of the same moment, unless there is no such stack.
 * 0: it was not read. */
uint64_t session__native_ns(const struct session *s, uint32_t tgid, uint32_t tid);
/* Name of a thread ("python", "pt_autograd_0"), "" if not known. */
const char *session__thread_comm(const struct session *s, uint32_t tgid, uint32_t tid);
/* The name that Python gives to it (threading.Thread.name), "" if not known; that or else the
 * other one. */
const char *session__thread_name(const struct session *s, uint32_t tgid, uint32_t tid);
const char *session__thread_label(const struct session *s, uint32_t tgid, uint32_t tid);
/* Text of a name id in a record (struct ptb_gpu_device.name), "" if not known. */
const char *session__name(const struct session *s, uint32_t name_id);

/* ---- Python stacks ---- */

/*
 * Frames and stacks are numbered from 1, the same in every pass; 0: none. Two frames may have equal
 * texts: of two places of a line, of two code objects, of two processes.
 */
struct py_frame {
	/* qualified name and co_filename, or PY_UNKNOWN; valid until the session is freed */
	const char *func, *file;
	int32_t line;  /* of the instruction, 0: none, not known */
	int32_t first; /* of the def, 0: not known */
	uint64_t code; /* which code object of the process */
	int32_t at;    /* where in it: two calls of one function have two places in their caller */
	/* it is the call of one (nn.Module.__call__()): its class; NULL: it is not, or the class is
	 * not known */
	const char *module;
	uint32_t module_nr; /* which of that class's modules, from 0 in order of appearance */
	uint32_t module_id; /* which module of all; 0: none */
	/* its attribute path from the outermost module on, of that ""; NULL: not known */
	const char *module_path;
};
#define PY_UNKNOWN "unknown"
/* In py_stack.frames: native frames lie between this frame and its caller. */
#define PY_FRAME_NATIVE (1u << 31)

struct py_stack {
	/* innermost first: number of the frame, PY_FRAME_NATIVE may be or-ed to it */
	const uint32_t *frames;
	uint32_t frame_cnt;
	uint32_t flags; /* PTB_PY_CUT, PTB_PY_FAULT: outer frames are missing */
};

/* Of a number without PY_FRAME_NATIVE. */
struct py_frame session__py_frame(const struct session *s, uint32_t frame);
/* no frames: there is no such */
struct py_stack session__py_stack(const struct session *s, uint32_t stack);

/* ---- slices ---- */

struct session_keys { /* dispatch key sets; 0: not known */
	uint64_t autograd, nested, no_strides, sparse_csr;
};

/* at::RecordScope (pytorch ATen/record_function.h) */
enum { SCOPE_FUNCTION, SCOPE_BACKWARD, SCOPE_TORCHSCRIPT, SCOPE_USER = 7 };

enum slice_cat { SLICE_CPU_OP, SLICE_USER_ANNOTATION };

/* clang-format off */
/* was open when the window began: start is the window's begin. Probes show only its exit, so it is
 * emitted after the slices inside it, whose parent is not this one. The agent knows it from the
 * begin */
#define SLICE_OPEN_AT_BEGIN 0x01
#define SLICE_UNFINISHED 0x02    /* was open when the window ended: torch's `finished: false` */
/* left by an exception: no exit was seen; end is where it was caught, or the next event of the
 * thread that proves the frame gone (an upper bound) */
#define SLICE_UNWOUND 0x04
/* as UNWOUND, but records were lost meanwhile: the exit may be lost */
#define SLICE_END_LOST 0x08
/* the function has no exit probe (TorchScript): end as for UNWOUND */
#define SLICE_END_INFERRED 0x10
#define SLICE_DERIVED 0x20       /* a ProfilerStep made by ptbpf */
#define SLICE_NAME_CUT 0x40
#define SLICE_THREAD_EXIT 0x80   /* its thread or process ended while it was open */
#define SLICE_OTHER_THREAD_END 0x100 /* an annotation that ended on another thread than it began */
/* some of its arguments or results were too many or too long to be recorded */
#define SLICE_ARGS_CUT 0x400
#define SLICE_TRUNCATED 0x200    /* cut short because its true end would cross an annotation */
/* with DERIVED: a step of which the window has only a part; not named ProfilerStep#N, which readers
 * take for whole ones */
#define SLICE_PARTIAL 0x800
/* clang-format on */

/* Memory while a slice was open. "all" is torch's rule: whatever the process's threads allocated
 * between its begin and end. "own" is exact: what its own thread did in it. Both include its
 * children. */
struct slice_memory {
	int64_t cpu_all, device_all; /* bytes, allocations less frees */
	int64_t cpu_own, device_own;
	uint64_t allocs, frees; /* own */
	/* --kernel-memory; own, but rss_delta, which is the process's */
	uint64_t faults, major_faults, fault_bytes;
	uint64_t reclaim_ns, compact_ns;
	int64_t rss_delta;
};

struct slice {
	/* External id = Record function id, unique: of the record that began it, whatever the
	 * session's options; from 1 in order of start. Derived steps: SESSION_STEP_ID and below */
	uint64_t id;
	uint64_t parent; /* id of the innermost slice open on the thread at its start, 0: none */
	uint32_t tgid, tid;
	uint32_t depth; /* number of open ancestors */
	/* CLOCK_MONOTONIC; strictly nested per (tgid, tid), end > begin */
	uint64_t begin_ns, end_ns;
	const char *name;     /* as torch prints it, without overload: "aten::add" */
	const char *overload; /* "Tensor", "" if none or not known */
	uint32_t cat;         /* enum slice_cat */
	uint32_t kind;        /* enum ptb_func_kind */
	uint32_t scope;       /* SCOPE_* or another at::RecordScope */
	uint32_t flags;       /* SLICE_* */
	int64_t seq;          /* autograd sequence number, -1: none */
	/* logical forward thread id of a backward slice, 0 on forward slices */
	uint64_t fwd_thread;
	struct slice_values in, out; /* arguments and results, where recorded */
	const char *schema; /* of the operator, as torch prints it; "" if none or not known */
	/* backward: slice on top of the forward thread's stack at its begin, 0: none. Only where
	 * results are recorded: an Execution Trace needs it */
	uint64_t fw_parent;
	uint32_t fwd_tid; /* with it: the OS thread that fwd_thread means, 0: not known */
	/* what TensorImpl::key_set_ means in its process; never NULL */
	const struct session_keys *keys;
	const struct slice_memory *mem; /* NULL: memory was not recorded */
	/* Python's at its begin; of what a backward node does on a thread without any, as torch has
	 * it, that of the forward operator. 0: none, or not known */
	uint32_t stack;
	/* what a backward node does: Python's stack at the forward operator, 0: not known */
	uint32_t fwd_stack;
	bool backward;     /* it is what a backward node does, or a part of that */
	uint64_t child_ns; /* time of the slices directly in it */
	/* GPU work (kernels, copies, fills) as torch charges it: of an operator what was launched
	 * in it with no other operator inside */
	uint64_t device_ns;
	/* calls to CUDA's API directly in it, under an operator: torch counts them ... */
	uint64_t call_ns;
	uint32_t call_cnt; /* ... as its children */
};

/* One of the slices that are open on a thread. */
struct open_slice {
	uint64_t id;
	const char *name;
	uint32_t cat, stack, fwd_stack; /* as in struct slice */
	bool is_step;
};

/* A forward operator and the backward node that it made; both slices have been delivered. */
struct fwdbwd {
	uint64_t id; /* from 1 */
	uint32_t fwd_tgid, fwd_tid, bwd_tid;
	uint64_t fwd_begin_ns, bwd_begin_ns; /* begin of the two slices */
};

/* ---- memory ---- */

/* Stands for the operator while nothing of a thread was recorded yet: it may be inside one that
 * began before. */
#define SESSION_OP_UNSEEN "(begun before the window)"

/* What was open on a thread; valid during the sink's call, texts until the session is freed. */
struct op_context {
	uint32_t tgid, tid;
	uint64_t slice;    /* innermost open slice, 0: none */
	uint64_t op_slice; /* innermost open operator (no annotation), 0: none */
	const char *op;    /* its name; "" if none */
	/* outermost operator around it (or itself) inside that annotation; "" if none */
	const char *outer_op;
	const char *annotation; /* innermost open annotation, not a step; "" if none */
	int64_t step;           /* number of the process's current ProfilerStep, -1: none */
	const struct slice_values *op_in; /* its arguments; NULL: none */
	/* Python's: the event's own where it was recorded, else as op_slice has it; 0: none */
	uint32_t stack;
	/* an annotation of session_opts.when: it, or the operators that it made backward */
	bool within;
	bool enclosed; /* torch's rule: some slice was open on some thread of the process */
};

enum memory_what {
	MEMORY_ALLOC,
	MEMORY_FREE,
	MEMORY_FREE_UNKNOWN, /* of a CPU block that was allocated before the window: bytes 0 */
	MEMORY_OOM,          /* bytes: the size asked for */
	MEMORY_API,          /* a call of libcudart or libcuda: name, begin_ns */
};

struct memory_block { /* where a block came from; kept from its allocation to its free */
	uint64_t addr, bytes, ts_ns;
	uint64_t op_slice;
	const char *op, *outer_op, *annotation; /* as in struct op_context */
	const char *shapes; /* of the operator's inputs: "[[2, 3], []]"; "" if not recorded */
	int64_t step;
	uint32_t tgid, tid;
	int32_t device_type, device_index;
	uint32_t stack;
	bool within; /* as in struct op_context */
};

struct memory_event {
	uint64_t ts_ns;
	struct op_context at;
	enum memory_what what;
	uint64_t addr;
	int64_t bytes;                     /* negative: freed */
	uint64_t allocated, reserved;      /* after it; CPU: since the window began, reserved 0 */
	int32_t device_type, device_index; /* c10::DeviceType; CPU: 0, -1 */
	/* ALLOC: the new one; FREE: the one that ends, NULL: from before the window; valid during
	 * the call */
	const struct memory_block *block;
	const char *name;  /* API: "cudaMalloc" */
	uint64_t begin_ns; /* API */
	bool no_result;    /* API: its return was not seen */
	bool maybe_failed; /* API: what was given back was there before */
	/* FREE: not seen, but the address was given out again; emitted just before that, its
	 * context is the process only, and no slice is charged */
	bool inferred;
};

/* What the kernel did; rec by its kind: KMEM, KMEM_CALL, KMEM_STALL, KMEM_EVENT (ptb_event.h). */
struct kernel_event {
	struct op_context at;
	const struct ptb_rec_hdr *rec;
};

/* How torch's table sorts a c10::DeviceType: into the columns of the CPU, of the accelerator, or
 * none. */
enum device_class { DEVICE_OTHER, DEVICE_CPU, DEVICE_ACCELERATOR };
enum device_class memory__device_class(int32_t device_type);

/* ---- samples of Python stacks ---- */

struct py_sample {
	uint64_t ts_ns, ns; /* ns: the time that it stands for */
	uint32_t tgid, tid;
	uint32_t stack; /* 0: it has none, or NO_STACK */
	uint32_t flags; /* PTB_SAMPLE_* */
	/* the innermost operator that was open, "": none, or not OPS in the flags */
	const char *op;
	/* what was open by the records of session_info.with_samples; without those nothing is
	 * known of it */
	struct op_context at;
};

enum py_sample_state { SAMPLE_RUNNING, SAMPLE_QUEUED, SAMPLE_BLOCKED, SAMPLE_STATES };

static inline enum py_sample_state py_sample__state(const struct py_sample *ps)
{
	return ps->flags & PTB_SAMPLE_RAN    ? SAMPLE_RUNNING :
	       ps->flags & PTB_SAMPLE_WAITED ? SAMPLE_QUEUED :
					       SAMPLE_BLOCKED;
}

const char *py_sample__state_name(enum py_sample_state state); /* "waiting for a CPU" */

/* ---- scheduling (--sched) ---- */

/* What is shown as one: each adds up some of PTB_WAITS. */
enum wait_group { WAITS_CPU, WAITS_GIL, WAITS_LOCK, WAITS_IO, WAITS_SLEEP, WAITS_OTHER, WAITS_CNT };
enum wait_group wait__group(uint32_t what); /* of enum ptb_wait */
const char *wait__name(uint32_t what);      /* "GIL" */

/* What a thread waited for between two times: an interval in which it did not run, or the sums of
 * several short ones. */
struct sched_event {
	uint64_t begin_ns, end_ns;
	struct op_context at; /* at the end */
	uint64_t ns[PTB_WAIT_CNT];
	uint32_t voluntary, preempted; /* intervals */
	/* sums: since when the thread's waits are known, all of them up to end_ns; else 0 */
	uint64_t since_ns;
	/* the interval; NULL: sums. Its own begin may be before the window's */
	const struct ptb_sched_wait *wait;
};

/* ---- GPU ---- */

enum gpu_what {
	GPU_KERNEL,
	GPU_MEMCPY,
	GPU_MEMSET,
	GPU_SYNC,
	GPU_EVENT,
	GPU_OVERHEAD,
	GPU_API, /* a call of the runtime or driver API, on its thread */
	/* derived: from the first to the last GPU work on a stream launched in an annotation */
	GPU_ANNOTATION,
};

/* Work that torch counts as such. */
static inline bool gpu_what__is_work(enum gpu_what what)
{
	return what == GPU_KERNEL || what == GPU_MEMCPY || what == GPU_MEMSET;
}

struct gpu_origin {        /* what was open when a node of a CUDA graph was captured */
	const char *op;    /* the innermost operator, "" */
	uint64_t op_slice; /* and its id */
	uint32_t stack;    /* Python's, as the operator has it; 0: none */
	/* operators and annotations, outermost first: "forward > aten::linear > aten::addmm", "" */
	const char *within;
};

struct gpu_slice {
	enum gpu_what what;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	const char *name; /* KERNEL: demangled; API: "cudaLaunchKernel"; ANNOTATION: its label; else
			       * Kineto's: "Memcpy HtoD (Pageable -> Device)", "Stream Sync", "Buffer Flush" */
	uint32_t device, context, stream;
	uint32_t correlation; /* 0: none */
	bool driver;          /* API: of the driver */
	bool host_only; /* API: seen by a kernel probe (rec: struct ptb_cuda_call), no CUPTI */
	/* when it was launched or called; tid 0: not known. at.op_slice: External id; ANNOTATION:
	 * at.slice is the annotation's slice */
	struct op_context at;
	/* GPU work: the call that launched it, 0: not recorded */
	uint64_t launch_begin_ns, launch_end_ns;
	const char *launch_name; /* ""  */
	const char *kernel_name; /* API, host_only: what it launches, "" if not known */
	/* began before its launch, by more than the clocks' error: shown as recorded */
	bool before_launch;
	/* PTB_REC_GPU_* or CUDA_CALL; NULL: ANNOTATION. Its times, its correlation and its stack
	 * pointer are 0: records that differ in nothing else share it */
	const struct ptb_rec_hdr *rec;
	const struct ptb_gpu_device *props; /* NULL: not known */
	/* GPU work: CUPTI's id of the node of a CUDA graph that ran, 0: of none */
	uint64_t graph_node;
	uint32_t graph;
	const struct gpu_origin *origin; /* of that node; NULL: it was not recorded */
};

struct session_sink {
	void *arg;
	/* Slices come when they close: children before parents, threads interleaved. Each function
	 * may be NULL. */
	void (*slice)(void *arg, const struct slice *sl);
	void (*flow)(void *arg, const struct fwdbwd *fl);
	/* A thread that appeared in the stream, once, when first seen. */
	void (*thread)(void *arg, uint32_t tgid, uint32_t tid);
	/* In order of time, before the slices that enclose them are emitted. */
	void (*memory)(void *arg, const struct memory_event *ev);
	void (*kernel)(void *arg, const struct kernel_event *ev);
	void (*sample)(void *arg, const struct py_sample *ps);  /* in order of time */
	void (*sched)(void *arg, const struct sched_event *ev); /* in order of end */
	/* After the last slice: calls in order of time, then by device, stream and time. */
	void (*gpu)(void *arg, const struct gpu_slice *g);
};

/*
 * What ends a step. With neither set it is as the recording was asked for, and with nothing asked
 * for either it is SESSION_STEP_ON: torch's optimizers call themselves Optimizer.step#SGD.step.
 */
struct session_opts {
	/* name of an operator or an annotation, or what an annotation has before its first '#' */
	const char *step_on;
	bool no_steps; /* derive no steps */
	/* Only what belongs to annotations of this name is delivered, or with a '#' and more
	 * behind it: what their threads did in them, what nodes did backward whose operators ran
	 * in them, what was launched by either, and blocks allocated there. NULL: all. */
	const char *when;
};
#define SESSION_STEP_ON "Optimizer.step"
/* The annotation in which a program waits for its data loader, before a '#': pytorch
 * torch/utils/data/dataloader.py. */
#define SESSION_LOADER "enumerate(DataLoader)"
/* With the node's name behind it, what the autograd engine does for a node, hooks included: pytorch
 * torch/csrc/autograd/engine.cpp. */
#define SESSION_NODE "autograd::engine::evaluate_function: "

/*
 * Id of the first derived step; further ones count down. No operator has such an id, a double holds
 * it exactly, and the first step has the highest id of all: HolisticTraceAnalysis leaves out the
 * last step and what follows it, and joins an Execution Trace only if the highest id of what is
 * left is not below the highest in there.
 */
#define SESSION_STEP_ID ((1ULL << 40) - 1)

struct session_totals {      /* after a run */
	const char *when;    /* of the options; with it: */
	uint64_t when_found; /* annotations of that name, */
	/* slices and events that belong to none of them, and are not delivered */
	uint64_t when_left_out;
	uint64_t slices, ops, annotations, unwound, end_lost, open_at_begin, unfinished;
	uint64_t unmatched_exits; /* exits without an open frame inside the window's known part */
	/* calls open when the window began that only their entries name: no slices */
	uint64_t open_unnamed;
	uint64_t unresolved_names; /* slices whose name is an address */
	uint64_t bad_records;      /* malformed records that were skipped */
	uint64_t late_records;     /* emitted after later ones */
	uint64_t tensors_over;     /* tensors and storages beyond LIMIT_TENSORS */
	uint64_t steps;            /* derived; partial ones are among them */
	uint64_t partial_steps, partial_ns;
	uint64_t own_steps;             /* whole ProfilerStep#N of the program's own */
	uint64_t truncated_annotations; /* cut where they cross one that began earlier */
	/* operators and scopes of torch cut where they cross an annotation */
	uint64_t truncated_ops;
	uint64_t silent_threads; /* there before ptbpf, and nothing began or ended on them; */
	uint64_t silent_mains;   /* of them, the main threads of their processes, */
	uint32_t silent_main;    /* such as this one */
	uint64_t flows;          /* forward-backward pairs */
	uint64_t freed_unknown;  /* CPU blocks freed that were allocated before the window */
	uint64_t live_blocks;    /* allocated in the window and not freed at its end */
	uint64_t frees_inferred; /* frees that were not seen: the address was given out again */
	uint64_t gpu_work;       /* kernels, copies, fills */
	uint64_t gpu_unlinked;   /* of them, without a launch in the capture */
	/* of them, that began before their launch by more than the clocks' error */
	uint64_t gpu_before_launch;
	uint64_t gpu_graph_work;    /* of them, by CUDA graphs */
	uint64_t gpu_graph_unknown; /* of these, of nodes whose capture was not recorded */
	uint64_t gpu_calls;         /* API calls */
	/* calls and GPU work not wholly inside the window: not emitted, as torch does */
	uint64_t gpu_outside;
	uint64_t gpu_no_clock;    /* records of processes without a pair of clocks: not emitted */
	uint64_t gpu_wrong_times; /* records with times that they cannot have had: not emitted */
	/* host-side calls of processes whose calls CUPTI reported as well */
	uint64_t gpu_host_dropped;
	/* operators given up as partners of a backward node, too many waited */
	uint64_t forgotten_forwards;
	uint64_t samples;         /* of Python stacks; */
	uint64_t samples_running; /* of them, of threads that ran; */
	uint64_t samples_ops;     /* of which it is known which operator was open; */
	uint64_t samples_unread;  /* and whose stack could not be read (a counter says why) */
	uint64_t stacks;          /* Python stacks recorded */
	/* of them, that could not be read in the target (which it counts) */
	uint64_t stacks_unread;
	/* and whose frames are not in the capture, or of two different stacks */
	uint64_t stacks_unknown;
};

/* Reads the facts. The reader must outlive the session. 0 or negative errno. */
int session__open(struct capture_reader *cr, const struct session_opts *opts, struct session **out);
void session__free(struct session *s);
const struct session_info *session__info(const struct session *s);

/* Blocks that were live at the end of the last run, in order of allocation; until the next run. */
const struct memory_block *session__live_blocks(const struct session *s, uint32_t *cnt);

/*
 * During the call of a sink: the slices that are open on the thread, innermost first, at most max;
 * of a slice that is delivered those around it are among them, from its parent on. Returns how
 * many.
 */
uint32_t session__open_slices(const struct session *s, uint32_t tgid, uint32_t tid,
			      struct open_slice *list, uint32_t max);

/* Where the slice with this id stands in the order of start of all slices, steps included: unique,
 * ascending. Of the current run or the last one, for ids that it delivered as `id` or `parent`. */
uint64_t session__order(const struct session *s, uint64_t id);

/* One pass: emits every slice, flow and thread to the sinks, in this order of sinks. May be called
 * again (same ids, same order). 0 or negative errno; -ENODATA, logged: no annotation has the name
 * in the options. */
int session__run(struct session *s, const struct session_sink *sinks, uint32_t cnt,
		 struct session_totals *totals);

#endif /* MODEL_SESSION_H */
