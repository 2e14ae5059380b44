/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What user space tells the BPF programs: which program serves a site, how a cookie is packed, and the
 * per-process facts (struct offsets, flags) that some programs need. Compiles alone, as BPF and as C.
 */
#ifndef PTB_PROBE_H
#define PTB_PROBE_H

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
	X(NODE_CALL,   16, "rsi = Node*")

enum ptb_prog {
#define X(name, nr, text) PTB_PROG_##name = nr,
	PTB_PROGS(X)
#undef X
	PTB_PROG_CNT
};

/* Cookie: low half the site id, high half the index of the process in the `proc_cfg` array. */
#define PTB_COOKIE(proc, site) (((__u64)(proc) << 32) | (__u32)(site))
#define PTB_COOKIE_SITE(c) ((__u32)(c))
#define PTB_COOKIE_PROC(c) ((__u32)((c) >> 32))

/* Kernels without a cookie per site: its address in the process names the cookie (map site_of_ip). */
struct ptb_ip_key {
	__u64 ip;
	__u32 tgid;
	__u32 prog; /* enum ptb_prog: several programs may share a site */
};

#define PTB_PROC_MAX 1024 /* processes in one session */

/* Facts of one process (one build of torch at one load address). Offsets of 0xffff: not known. */
#define PTB_OFF_UNKNOWN 0xffff
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
};

#endif /* PTB_PROBE_H */
