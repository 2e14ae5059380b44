/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What user space tells the BPF programs: which program serves a site, how a cookie is packed, and the
 * per-process facts (struct offsets, flags) that some programs need. Compiles alone, as BPF and as C.
 */
#ifndef PTB_PROBE_H
#define PTB_PROBE_H

#include "ptb_args.h"
#include "ptb_event.h"

/*
 * One BPF program per row; a site names its program. PTB_PROG_x is also the index in the skeleton
 * table of user/probe.
 */
/*     name           nr  what it reads at the site */
#define PTB_PROGS(X)                                                                              \
	X(OP_ENTER,     0, "nothing but the stack pointer")                                       \
	X(OP_EXIT,      1, "nothing but the stack pointer")                                       \
	X(BOXED_ENTER,  2, "OperatorDef* through rdi or rsi (cfg.boxed_handle_reg)")              \
	X(NODE_ENTER,   3, "rdx = Node*")                                                         \
	X(PYFUNC_ENTER, 4, "rdi = PyTypeObject*: tp_name")                                        \
	X(SCRIPT_ENTER, 5, "rdi = GraphExecutorImplBase*: its name")                             \
	X(SCOPE_STRING, 6, "rsi = std::string const&: name of the next scope")                    \
	X(SCOPE_CSTR,   7, "rdi = char const*: name of the next scope")                             \
	X(SCOPE_CTOR,   8, "rdi = RecordFunction*, esi = scope")                                  \
	X(BEFORE_CSTR,  9, "rdi = RecordFunction*, rsi = char const*")                            \
	X(BEFORE_STR,  10, "rdi = RecordFunction*, rsi = std::string*")                           \
	X(BEFORE_VAR,  11, "rdi = RecordFunction*, variant<string_view, ...> at rsp+8")           \
	X(SCOPE_END,   12, "rdi = RecordFunction*")                                               \
	X(SEQ,         13, "thread-local sequence number (cfg.seq_tls_*)")                        \
	X(CALIB,       14, "nothing: the cost of a hit is measured with it")                      \
	X(CATCH,       15, "nothing but the stack pointer")                                       \
	X(NODE_CALL,   16, "rsi = Node*")                                                         \
	X(SCOPE_PYARGS, 17, "rdi = pybind11 function_call*: name and arguments of the next scope") \
	/* only where arguments are recorded */                                                  \
	X(OP_LATE,     18, "doubles: the cookie's argument program")                             \
	/* the same sites as above, when arguments are recorded: user/probe chooses */            \
	X(OP_ENTER_ARGS,    19, "the cookie's argument program")                                 \
	X(OP_EXIT_RESULTS,  20, "the same program's results")                                    \
	X(BOXED_ENTER_ARGS, 21, "as BOXED_ENTER, and the IValues on the stack")                  \
	X(BOXED_EXIT_RESULTS, 22, "the IValues that the call left on the stack")                 \
	X(NODE_ENTER_ARGS,  23, "as NODE_ENTER; rcx = InputBuffer&")                             \
	X(NODE_CALL_ARGS,   24, "as NODE_CALL; rdx = variable_list&")                            \
	X(PYFUNC_ENTER_ARGS, 25, "as PYFUNC_ENTER; rsi = tuple of arguments")                    \
	X(SCRIPT_ENTER_ARGS, 26, "as SCRIPT_ENTER; rsi = Stack&")                                \
	X(SCOPE_STRING_ARGS, 27, "as SCOPE_STRING; rdx = optional<std::string> const&")          \
	/* only where memory is recorded */                                                      \
	X(MEM_NEW,     28, "rsi = block, rdx = bytes")                                            \
	X(MEM_DELETE,  29, "rsi = block")                                                        \
	X(MEM_REPORT,  30, "rdi = block, rsi = bytes, rdx, rcx = totals, r8 = device")            \
	X(MEM_OOM,     31, "rdi = bytes, rsi, rdx = totals, rcx = device")                        \
	X(MEM_CPU_OOM, 32, "rsi = bytes")                                                        \
	X(API_ENTER,   33, "the arguments that the cookie names (PTB_API_ARGS)")                  \
	X(API_EXIT,    34, "the same call's result")                                              \
	/* only where GPUs are recorded */                                                       \
	X(CUDA_ENTER,  35, "a CUDA call's arguments, in the shape that the cookie names (PTB_CUDA_ARGS)") \
	X(CUDA_EXIT,   36, "eax: the same call's result")                                        \
	/* only where an agent is used */                                                        \
	X(AGENT_CHUNK, 37, "rdi = struct ptb_chunk*, rsi = its length")                          \
	X(AGENT_WISH,  38, "nothing: the site never runs, its semaphore is what counts")         \
	/* operators */                                                                          \
	X(OPDEF_GONE,  39, "rsi = OperatorHandle const&, rdx = OperatorName const&")              \
	/* only where identities are recorded */                                                 \
	X(TENSOR_END,  40, "rdi = TensorImpl*: the object ends")                                  \
	X(TENSOR_RELEASE, 41, "rdi = TensorImpl*: only weak references are left")

enum ptb_prog {
#define X(name, nr, text) PTB_PROG_##name = nr,
	PTB_PROGS(X)
#undef X
	PTB_PROG_CNT
};

/* Cookie: the site id, the index of the process in `proc_cfg`, that of the program in `arg_progs` (0: none). */
#define PTB_COOKIE(proc, site, args) (((__u64)(args) << 44) | ((__u64)(proc) << 32) | (__u32)(site))
#define PTB_COOKIE_SITE(c) ((__u32)(c))
#define PTB_COOKIE_PROC(c) ((__u32)((c) >> 32) & 0xfff)
#define PTB_COOKIE_ARGS(c) ((__u32)((c) >> 44))

/*
 * API_ENTER, API_EXIT: instead of an argument program the cookie says which arguments (0: rdi, 1: rsi, ... 5: r9)
 * are the pointer to what is given back, the address that is given, and the size; PTB_API_NONE: none.
 */
#define PTB_API_NONE 0xf
#define PTB_API_ARGS(out, addr, size) (((__u32)(out) << 8) | ((__u32)(addr) << 4) | (__u32)(size))
#define PTB_API_OUT(args) (((args) >> 8) & 0xf)
#define PTB_API_ADDR(args) (((args) >> 4) & 0xf)
#define PTB_API_SIZE(args) ((args) & 0xf)
#define PTB_API_NO_EXIT (1u << 12) /* or-ed to it: the function has no exit site, its entry is told at once */
#define PTB_API_TAG(n) ((__u32)(n) << 13) /* or-ed to it: which API, 0 ... 127, so that exits find their entry */

/*
 * CUDA_ENTER, CUDA_EXIT: the cookie says in which shape the call's arguments are. Handles, pointers and sizes
 * are 8 bytes; "kind" is a cudaMemcpyKind; dim3 is three words in two registers.
 */
/*     name              nr  arguments */
#define PTB_CUDA_SHAPES(X)                                                                        \
	X(OTHER,             0, "nothing of them is told")                                        \
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

enum ptb_cuda_shape {
#define X(name, nr, text) PTB_CUDA_##name = nr,
	PTB_CUDA_SHAPES(X)
#undef X
	PTB_CUDA_SHAPE_CNT
};

/* kind: of a copy whose function alone says it, 0 ... 4; PTB_CUDA_NO_KIND. unit: of a fill, log2 of the bytes of an
 * element. PTB_API_NO_EXIT and PTB_API_TAG are or-ed to it, and PTB_CUDA_RESULT: at the exit, eax is the result. */
#define PTB_CUDA_NO_KIND 7
#define PTB_CUDA_ARGS(shape, kind, unit) (((__u32)(kind) << 8) | ((__u32)(unit) << 6) | (__u32)(shape))
#define PTB_CUDA_SHAPE(args) ((args) & 0x3f)
#define PTB_CUDA_UNIT(args) (((args) >> 6) & 0x3)
#define PTB_CUDA_KIND(args) (((args) >> 8) & 0x7)
#define PTB_CUDA_RESULT (1u << 11)

/* Kernels without a cookie per site: its address in the process names the cookie (map site_of_ip). */
struct ptb_ip_key {
	__u64 ip;
	__u32 tgid;
	__u32 prog; /* enum ptb_prog: several programs may share a site */
};

#define PTB_PROC_MAX 1024 /* processes in one session; 12 bits of the cookie */

/* CPython objects that may be arguments of scopes and custom functions; 0 types: not known. */
struct ptb_python_cfg {
	__u64 type_int, type_float, type_complex, type_bool, type_str, type_tuple, type_list, none; /* addresses */
	__u64 type_tensor;   /* torch.Tensor (THPVariableClass) or its C base */
	__u16 variable_off;  /* THPVariable: TensorImpl* of its tensor */
	__u16 type_base_off; /* PyTypeObject::tp_base */
	__u16 long_size_off, long_digits_off; /* PyLongObject */
	__u8 long_size_shift; /* 0: ob_size is signed (up to 3.11); 3: lv_tag (from 3.12) */
	__u8 pad;
	__u16 ascii_off;     /* compact ASCII text of a str */
	__u16 str_state_off; /* bits: compact and ascii */
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
	__u8 boxed_handle_reg; /* OperatorHandle* in 0: rdi, 1: rsi; the stack in the next register */
	__u16 string_ivalue_off; /* ConstantString: std::string after the object header; 24 or 16 */
	__u64 pynode_vptr; /* vptr of PyNode objects, 0 if not known */
	__u64 scope_enter_opdef; /* OperatorDef* of profiler::_record_function_enter when its text must be
				    read from the boxed stack, else 0 */
	__u64 seq_tls_module; /* dtv index of libtorch_cpu's thread-local block; 0: not known */
	__u64 seq_tls_offset; /* of sequence_nr_ inside it */
	struct ptb_tensor_cfg tensor;
	struct ptb_python_cfg python;
	struct { /* code of the libcudarts: what they call of the driver is their own work; end 0: no more are known */
		__u64 start, end;
	} cudart[PTB_CUDART_MAX];
};

#endif /* PTB_PROBE_H */
