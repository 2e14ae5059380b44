/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What user space and the BPF programs agree on: which program serves a site, how a cookie is
 * packed, and the per-process facts (struct offsets, flags) that some programs need. Compiles
 * alone, as BPF and as C.
 */
#ifndef PTB_PROBE_H
#define PTB_PROBE_H

#include "ptb_args.h"
#include "ptb_event.h"

/*
 * The BPF programs that serve sites, one a row; a site names its program. All that the rest of
 * ptbpf knows of a program comes from its row: its number (enum ptb_prog), its function
 * (bpf/ptbpf.bpf.c makes it of PROBE(function)), whether it is loaded (user/probe/probe_set.c), its
 * name in messages and in --dry-run. A site has the same program in every mode: constants that are
 * set before loading say what it reads (bpf/maps.bpf.h), and the verifier removes the rest.
 *
 * loaded: ALL, or with which options (probe_set.h): VALUES (any arguments), RESULTS (arguments in
 * full), MEMORY, OOM, CUDA, AGENT, IDENTITIES, STACKS, AGENT_STACKS (both), AGENT_EDGES (agent and
 * kernel memory). stack: where Python stacks are recorded, the thread's comes before the program's
 * record (PY_STACK). YES; ENTRY: if the cookie says that the program makes the record itself,
 * because no exit is seen; NO.
 */
/*        name            function         loaded      stack  what it reads at the site */
/* clang-format off */
#define PTB_PROGS_IN_WINDOW(X)                                                                     \
	X(OP_ENTER,       op_enter,        ALL,        YES,   "the cookie's argument program")             \
	X(OP_EXIT,        op_exit,         ALL,        NO,    "the same program's results")                \
	X(OP_LATE,        op_late,         VALUES,     NO,    "the program's doubles")                     \
	X(CATCH,          catch_enter,     ALL,        NO,    "nothing but the stack pointer")             \
	X(BOXED_ENTER,    boxed_enter,     ALL,        YES,   "rdi or rsi: OperatorHandle&, then Stack*")  \
	X(BOXED_EXIT,     boxed_exit,      RESULTS,    NO,    "what the call left on the stack")           \
	X(OPDEF_GONE,     opdef_gone,      ALL,        NO,    "rsi: OperatorHandle&, rdx: OperatorName&")  \
	X(NODE_ENTER,     node_enter,      ALL,        YES,   "rdx: Node*, rcx: InputBuffer&")             \
	X(NODE_CALL,      node_call,       ALL,        YES,   "rsi: Node*, rdx: variable_list&")           \
	X(SEQ,            seq_probe,       ALL,        NO,    "thread-local sequence number")              \
	X(PYFUNC_ENTER,   pyfunc_enter,    ALL,        YES,   "rdi: PyTypeObject*, rsi: tuple")            \
	X(SCRIPT_ENTER,   script_enter,    ALL,        YES,   "rdi: GraphExecutorImplBase*, rsi: Stack&")  \
	X(SCOPE_STRING,   scope_string,    ALL,        NO,    "rsi: std::string&, rdx: optional")          \
	X(SCOPE_CSTR,     scope_cstr,      ALL,        NO,    "rdi: char const*")                          \
	X(SCOPE_PYARGS,   scope_pyargs,    ALL,        NO,    "rdi: pybind11's function_call*")            \
	X(SCOPE_CTOR,     scope_ctor,      ALL,        YES,   "rdi: RecordFunction*, esi: scope")          \
	X(BEFORE_CSTR,    before_cstr,     ALL,        YES,   "rdi: RecordFunction*, rsi: char const*")    \
	X(BEFORE_STR,     before_str,      ALL,        YES,   "rdi: RecordFunction*, rsi: std::string*")   \
	X(BEFORE_VAR,     before_var,      ALL,        YES,   "rdi: RecordFunction*, rsp+8: variant")      \
	X(SCOPE_END,      scope_end,       ALL,        NO,    "rdi: RecordFunction*")                      \
	X(TENSOR_END,     tensor_end,      IDENTITIES, NO,    "rdi: TensorImpl*: it ends")                 \
	X(TENSOR_RELEASE, tensor_release,  IDENTITIES, NO,    "rdi: TensorImpl*: only weak ones left")     \
	X(MEM_NEW,        mem_new,         MEMORY,     YES,   "rsi: block, rdx: bytes")                    \
	X(MEM_DELETE,     mem_delete,      MEMORY,     NO,    "rsi: block")                                \
	X(MEM_REPORT,     mem_report,      MEMORY,     YES,   "rdi: block, rsi: bytes, rdx, rcx, r8")      \
	X(MEM_OOM,        mem_oom,         OOM,        YES,   "rdi: bytes, rsi, rdx, rcx")                 \
	X(MEM_CPU_OOM,    mem_cpu_oom,     OOM,        YES,   "rsi: bytes")                                \
	X(API_ENTER,      api_enter,       MEMORY,     ENTRY, "what the cookie names (PTB_API_ARGS)")      \
	X(API_EXIT,       api_exit,        MEMORY,     YES,   "the same call's result")                    \
	X(CUDA_ENTER,     cuda_enter,      CUDA,       ENTRY, "what the cookie names (PTB_CUDA_ARGS)")     \
	X(CUDA_EXIT,      cuda_exit,       CUDA,       YES,   "eax: the same call's result")               \
	X(AGENT_STACK,    agent_stack,     AGENT_STACKS, NO,  "rdi: which operator; reads its Python stack") \
	X(AGENT_EDGE,     agent_edge,      AGENT_EDGES, NO,   "nothing: an operator begins or ends")
/* clang-format on */

/* They run while no window is open, too. */
/* clang-format off */
#define PTB_PROGS_ALWAYS(X)                                                                        \
	X(AGENT_CHUNK,    agent_chunk,     AGENT,      NO,    "rdi: struct ptb_chunk*, rsi: its length")   \
	X(AGENT_REQUEST,  agent_request,   AGENT,      NO,    "nothing: only its semaphore counts")         \
	X(CODE_END,       code_end,        STACKS,     NO,    "nothing: a Python code object ends") \
	X(CALIB,          calib,           ALL,        NO,    "nothing: measures the cost of a hit")

#define PTB_PROGS(X)                                                                            \
	PTB_PROGS_IN_WINDOW(X)                                                                  \
	PTB_PROGS_ALWAYS(X)
/* clang-format on */

enum ptb_prog {
#define X(name, func, loaded, stack, text) PTB_PROG_##name,
	PTB_PROGS(X)
#undef X
		PTB_PROG_CNT
};

/* Cookie: the site id, the index of the process in `proc_cfg`, that of the program in `arg_progs`
 * (0: none). */
#define PTB_COOKIE(proc, site, args) (((__u64)(args) << 44) | ((__u64)(proc) << 32) | (__u32)(site))
#define PTB_COOKIE_SITE(c) ((__u32)(c))
#define PTB_COOKIE_PROC(c) ((__u32)((c) >> 32) & 0xfff)
#define PTB_COOKIE_ARGS(c) ((__u32)((c) >> 44))

/*
 * Links to a library for several processes (user/probe/shared_links.c) name none of them: their
 * cookies have this number and that of the library in place of the process, which is found by its
 * pid (map shared_procs).
 */
#define PTB_PROC_SHARED 0xf00
#define PTB_SHARED_MAX 16 /* libraries; a power of 2 */
struct ptb_shared_proc {
	/* by library: index in `proc_cfg` + 1; 0: the process is not traced there (yet) */
	__u16 proc[PTB_SHARED_MAX];
};

/* A mapping of a file, as the program `mappings` writes it: one into which the kernel would put
 * breakpoints, or one of FUSE. */
struct ptb_mapping {
	/* any number; the same one for the same file; 0: there would be no breakpoints */
	__u64 inode;
	__u64 start, end, off;
	__u32 tgid;
	__u32 exec;
	__u64 fuse; /* number of the connection; 0: another file system */
};

/*
 * API_ENTER, API_EXIT: instead of an argument program the cookie says which arguments (0: rdi, 1:
 * rsi, ... 5: r9) are the pointer to what is given back, the address that is given, and the size;
 * PTB_API_NONE: none.
 */
#define PTB_API_NONE 0xf
#define PTB_API_ARGS(out, addr, size) (((__u32)(out) << 8) | ((__u32)(addr) << 4) | (__u32)(size))
#define PTB_API_OUT(args) (((args) >> 8) & 0xf)
#define PTB_API_ADDR(args) (((args) >> 4) & 0xf)
#define PTB_API_SIZE(args) ((args)&0xf)
#define PTB_API_NO_EXIT (1u << 12) /* or-ed to it: no exit site, emitted at the entry */
#define PTB_API_TAG(n)                                                                             \
	((__u32)(n) << 13) /* or-ed to it: which API, 0 ... 127, so that exits find their entry */

/*
 * CUDA_ENTER, CUDA_EXIT: the cookie says in which shape the call's arguments are. Handles, pointers
 * and sizes are 8 bytes; "kind" is a cudaMemcpyKind; dim3 is three words in two registers.
 */
/*     name              nr  arguments */
/* clang-format off */
#define PTB_CUDA_SHAPES(X)                                                                        \
	X(OTHER,             0, "no arguments are read")                                        \
	X(LAUNCH,            1, "func, dim3 grid, dim3 block, args, shared, stream")              \
	X(LAUNCH_CONFIG,     2, "struct {grid, block, shared, stream} *, func")                   \
	X(CU_LAUNCH,         3, "func, grid x, y, z, block x, y, z, shared, stream")              \
	X(COPY,              4, "dst, src, bytes, kind")                                          \
	X(COPY_ASYNC,        5, "dst, src, bytes, kind, stream")                                  \
	X(COPY_SYMBOL,       6, "dst or symbol, symbol or src, bytes, offset, kind")              \
	X(COPY_SYMBOL_ASYNC, 7, "the same, stream")                                               \
	X(COPY_2D,           8, "dst, pitch, src, pitch, width, height, kind")                    \
	X(COPY_2D_ASYNC,     9, "the same, stream")                                               \
	X(COPY_PEER,        10, "dst, device, src, device, bytes")                                \
	X(COPY_PEER_ASYNC,  11, "the same, stream")                                               \
	X(COPY_3D,          12, "cudaMemcpy3DParms *")                                            \
	X(COPY_3D_ASYNC,    13, "the same, stream")                                               \
	X(CU_COPY,          14, "dst, src, bytes")                                                \
	X(CU_COPY_ASYNC,    15, "dst, src, bytes, stream")                                        \
	X(CU_COPY_2D,       16, "CUDA_MEMCPY2D *")                                                \
	X(CU_COPY_2D_ASYNC, 17, "the same, stream")                                               \
	X(CU_COPY_3D,       18, "CUDA_MEMCPY3D *")                                                \
	X(CU_COPY_3D_ASYNC, 19, "the same, stream")                                               \
	X(SET,              20, "dst, value, elements")                                           \
	X(SET_ASYNC,        21, "dst, value, elements, stream")                                   \
	X(SET_2D,           22, "dst, pitch, value, width, height")                               \
	X(SET_2D_ASYNC,     23, "the same, stream")                                               \
	X(SET_3D,           24, "struct {dst, pitch, width, height}, value, struct {width, height, depth}") \
	X(SET_3D_ASYNC,     25, "the same, stream")                                               \
	X(STREAM,           26, "stream")                                                         \
	X(EVENT_RECORD,     27, "event, stream")                                                  \
	X(GRAPH,            28, "graph, stream")
/* clang-format on */

enum ptb_cuda_shape {
#define X(name, nr, text) PTB_CUDA_##name = nr,
	PTB_CUDA_SHAPES(X)
#undef X
		PTB_CUDA_SHAPE_CNT
};

/* kind: of a copy whose function alone says it, 0 ... 4; PTB_CUDA_NO_KIND. unit: of a fill, log2 of
 * the bytes of an element. PTB_API_NO_EXIT and PTB_API_TAG are or-ed to it, and PTB_CUDA_RESULT: at
 * the exit, eax is the result. */
#define PTB_CUDA_NO_KIND 7
#define PTB_CUDA_ARGS(shape, kind, unit)                                                           \
	(((__u32)(kind) << 8) | ((__u32)(unit) << 6) | (__u32)(shape))
#define PTB_CUDA_SHAPE(args) ((args)&0x3f)
#define PTB_CUDA_UNIT(args) (((args) >> 6) & 0x3)
#define PTB_CUDA_KIND(args) (((args) >> 8) & 0x7)
#define PTB_CUDA_RESULT (1u << 11)

/* Kernels without a cookie per site: its address in the process names the cookie (map
 * site_of_ip). */
struct ptb_ip_key {
	__u64 ip;
	__u32 tgid;
	__u32 prog; /* enum ptb_prog: several programs may share a site */
};

#define PTB_PROC_MAX 1024  /* processes in one session; 12 bits of the cookie */
#define PTB_RING_PIECES 16 /* of one ring, at most: probe/rings.c */

/* RecordFunction objects that have begun and not ended, of all processes */
#define PTB_SCOPES_MAX 16384

struct ptb_scope_key {
	__u64 handle; /* the object's address */
	__u32 tgid;
	__u32 pad;
};

/* CPython objects that may be arguments of scopes and custom functions; 0 types: not known. */
struct ptb_python_cfg {
	__u64 type_int, type_float, type_complex, type_bool, type_str, type_tuple, type_list,
		none;                         /* addresses */
	__u64 type_tensor;                    /* torch.Tensor (THPVariableClass) or its C base */
	__u16 variable_off;                   /* THPVariable: TensorImpl* of its tensor */
	__u16 type_base_off;                  /* PyTypeObject::tp_base */
	__u16 long_size_off, long_digits_off; /* PyLongObject */
	__u8 long_size_shift; /* 0: ob_size is signed (up to 3.11); 3: lv_tag (from 3.12) */
	__u8 pad;
	__u16 ascii_off;       /* compact ASCII text of a str */
	__u16 str_state_off;   /* bits: compact and ascii */
	__u16 tuple_items_off; /* PyTupleObject::ob_item */
	__u32 pad2;
};

/* Facts of one process (one build of torch at one load address). Offsets of 0xffff: not known. */
#define PTB_OFF_UNKNOWN 0xffff
#define PTB_CUDART_MAX 6
struct ptb_proc_cfg {
	__u32 tgid;
	__u16 node_seq_off;    /* Node::sequence_nr_ */
	__u16 node_thread_off; /* Node::thread_id_ */
	__u16 pynode_obj_off;  /* PyNode::obj: PyObject* */
	__u16 script_name_off; /* GraphExecutorImplBase: std::string of its name */
	__u8 old_string_abi;   /* std::string is one pointer, length at text-24 */
	/* OperatorHandle* in 0: rdi, 1: rsi; the stack in the next register */
	__u8 boxed_handle_reg;
	__u16 string_ivalue_off; /* ConstantString: std::string after the object header; 24 or 16 */
	__u64 pynode_vptr;       /* vptr of PyNode objects, 0 if not known */
	/* OperatorDef* of profiler::_record_function_enter when its text must be read from the
	 * boxed stack, else 0 */
	__u64 scope_enter_opdef;
	__u64 seq_tls_module; /* dtv index of libtorch_cpu's thread-local block; 0: not known */
	__u64 seq_tls_offset; /* of sequence_nr_ inside it */
	struct ptb_tensor_cfg tensor;
	struct ptb_python_cfg python;
	/* code of the libcudarts: what they call of the driver is their own work; end 0: no more
	 * are known */
	struct {
		__u64 start, end;
	} cudart[PTB_CUDART_MAX];
};

/* A system call's number, and in PTB_WAITS' place: by the file that its first argument names. */
#define PTB_SYSCALLS 512
#define PTB_WAIT_BY_FILE 0xff

/* By their thread pointers, what Python calls threads. */
struct ptb_thread_key {
	__u64 fsbase;
	__u32 tgid;
	__u32 pad;
};

/*
 * A thread's registers in user space as bpf/regs.bpf.c reads them, by their DWARF numbers (System V
 * ABI, AMD64 supplement, figure 3.36). They belong to its stack for as long as it has not run,
 * which is when `switches` is the same.
 */
#define PTB_DWARF_SP 7
#define PTB_DWARF_IP 16
#define PTB_DWARF_REGS 17
struct ptb_thread_regs {
	__u32 tid;
	__u32 running;  /* on a processor: it has no registers here */
	__u64 switches; /* times that it was switched out */
	__u64 regs[PTB_DWARF_REGS];
};

#endif /* PTB_PROBE_H */
