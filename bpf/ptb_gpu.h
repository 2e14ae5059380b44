/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Wire records of GPUs: CUDA calls as the host's probes see them, activities as CUPTI reports them.
 * A part of ptb_event.h, whose rules hold here and which includes it.
 */
#ifndef PTB_GPU_H
#define PTB_GPU_H

/* ---- CUDA calls seen from the host, by kernel probes: no agent is needed ---- */

/* A call of libcudart or libcuda, emitted when it returns (h.ts_ns), or with PTB_API_NO_RESULT at
 * any time after it began; the site's function says which. */
struct ptb_cuda_call {
	struct ptb_rec_hdr h;
	__u64 sp;
	__u64 begin_ns;
	/* launches: what is launched (cudaLaunchKernel: the host stub's address), 0: none */
	__u64 func;
	__u64 stream;            /* handle, 0: the default one; ~0: the call has none */
	__u64 bytes;             /* copies, fills */
	__u32 grid[3], block[3]; /* launches */
	__u32 shared;            /* launches: dynamic shared memory, bytes */
	__u32 copy_kind;         /* copies: cudaMemcpyKind, 0xff: the call has none */
	__s32 result; /* with PTB_CUDA_HAS_RESULT: what the driver returned, 0: success */
	__u32 flags;  /* PTB_API_NO_RESULT: when it returned is not known; PTB_CUDA_HAS_RESULT */
};
#define PTB_CUDA_HAS_RESULT 0x4

/* ---- GPU, from CUPTI's records (cupti_activity.h), which the agent sends. Times are CUPTI's own;
 * GPU_CLOCK relates them to CLOCK_MONOTONIC. h.ts_ns: when the record arrived; names: name ids.
 * ---- */

struct ptb_gpu_kernel {
	struct ptb_rec_hdr h;
	__u64 begin, end, queued, submitted; /* 0: not known */
	__u64 graph_node;
	__u32 correlation, device, context, stream, name, graph;
	__u32 grid[3], block[3];
	__u32 registers, static_shared, dynamic_shared, local_per_thread;
	__u32 channel, channel_type;
	__s32 priority;
	__u32 flags; /* PTB_GPU_* */
};
#define PTB_GPU_HAS_CHANNEL 0x1
#define PTB_GPU_HAS_PRIORITY 0x2
#define PTB_GPU_HAS_GRAPH 0x4

struct ptb_gpu_memory { /* GPU_MEMCPY, GPU_MEMSET */
	struct ptb_rec_hdr h;
	__u64 begin, end, bytes, graph_node;
	__u32 correlation, device, context, stream, graph;
	__u32 copy_kind;          /* MEMCPY: CUpti_ActivityMemcpyKind; MEMSET: the value */
	__u32 src_kind, dst_kind; /* CUpti_ActivityMemoryKind; MEMSET: dst */
	__u32 src_device, dst_device, src_context, dst_context; /* peer copies (PTB_GPU_PEER) */
	__u32 channel, channel_type;
	__u32 flags; /* PTB_GPU_* */
	__u32 pad;
};
#define PTB_GPU_PEER 0x8

struct ptb_gpu_api { /* h.tid: the thread that called, 0: not known */
	struct ptb_rec_hdr h;
	__u64 begin, end;
	__u32 correlation, cbid, name, result;
	__u32 driver; /* 0: runtime API, 1: driver API */
	__u32 pad;
};

struct ptb_gpu_sync {
	struct ptb_rec_hdr h;
	__u64 begin, end;
	__u32 what;                                        /* CUpti_ActivitySynchronizationType */
	__u32 correlation, device, context, stream, event; /* ~0: none */
	__u32 event_correlation; /* of the cudaEventRecord that is waited for, 0: not known */
	__u32 event_stream;
};

struct ptb_gpu_event { /* cudaEventRecord as the device passed it */
	struct ptb_rec_hdr h;
	__u64 at; /* 0: CUPTI reports no times of events here */
	__u32 correlation, device, context, stream, event, pad;
};

struct ptb_gpu_overhead {
	struct ptb_rec_hdr h; /* h.tid: the thread, 0: not known */
	__u64 begin, end;
	__u32 what; /* CUpti_ActivityOverheadKind */
	__u32 pad;
};

struct ptb_gpu_device {
	struct ptb_rec_hdr h;
	__u64 memory_bytes, memory_bandwidth; /* bandwidth: kBytes/s */
	__u32 id, name, major, minor, sm_cnt, warp_size, clock_khz;
	__u32 max_threads_per_block, max_warps_per_sm, max_blocks_per_sm;
	__u32 shared_per_block, shared_per_sm, regs_per_block, regs_per_sm;
};

struct ptb_gpu_clock {
	struct ptb_rec_hdr h;
	__u64 gpu_ns, mono_ns, err_ns; /* CUPTI's time lies within err_ns of mono_ns */
};

/* What CUPTI lost or refused: what it counts is in enum ptb_gpu_notes. */
struct ptb_gpu_note {
	struct ptb_rec_hdr h;
	__u64 value;
	__u32 what; /* enum ptb_gpu_notes */
	__u32 pad;
};
enum ptb_gpu_notes {
	PTB_GPU_DROPPED, /* value: records that CUPTI dropped */
	PTB_GPU_BUFFERS, /* value: buffers it could not have */
	PTB_GPU_ERROR,   /* value: CUptiResult of a call that should have worked */
	PTB_GPU_UNKNOWN, /* value: records of kinds that were not asked for */
};

/* A node of a CUDA graph was made, on thread h.tid: kernels, copies and fills with this graph_node
 * are replays of it. A copy of another node (original; cudaGraphInstantiate() copies all of a
 * graph) belongs to what made that one. */
struct ptb_gpu_graph_node {
	struct ptb_rec_hdr h;
	__u64 at_ns;          /* CLOCK_MONOTONIC */
	__u64 node, original; /* original 0: it is no copy */
};

/* What is recorded of a CUDA call or a GPU activity: any of the records above that the header's
 * kind names. */
union ptb_gpu_record {
	struct ptb_rec_hdr h;
	struct ptb_cuda_call host;
	struct ptb_gpu_kernel kernel;
	struct ptb_gpu_memory memory;
	struct ptb_gpu_api api;
	struct ptb_gpu_sync sync;
	struct ptb_gpu_event event;
	struct ptb_gpu_overhead overhead;
};

#endif /* PTB_GPU_H */
