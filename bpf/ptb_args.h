/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments: the programs that user space compiles for each operator (what to read, from where),
 * and the payload that executing one leaves behind a record. Compiles alone, as BPF and as C. Owns
 * both layouts; knows neither operators nor versions: all that depends on a build of torch is in a
 * program or in struct ptb_tensor_cfg.
 *
 * Payload: values, one after another, in the order of the operator's schema. Every value begins
 * with a struct ptb_val and has a body that is a multiple of 8 bytes, so a reader can walk and skip
 * without the program. A value that could not be read is a PTB_VAL_UNKNOWN, never a guess.
 */
#ifndef PTB_ARGS_H
#define PTB_ARGS_H

#include "ptb_event.h"

/* ---- payload ---- */

struct ptb_val {
	__u8 kind;  /* enum ptb_val_kind */
	__u8 flags; /* PTB_VAL_F_* */
	__u16 aux;
	__u32 n;
};
_Static_assert(sizeof(struct ptb_val) == 8, "values are made of 8-byte words");

/*     name          nr  aux; n; body */
/* clang-format off */
#define PTB_VAL_KINDS(X)                                                                              \
	X(UNKNOWN,     0, "could not be read; no body")                                               \
	X(NONE,        1, "no body")                                                                  \
	X(INT,         2, "body: the number (also enumerations: dtype, layout, memory format)")       \
	X(DOUBLE,      3, "n: which of the operator's late doubles (PENDING); body: the number")      \
	X(BOOL,        4, "n: 0 or 1; no body")                                                       \
	X(TENSOR,      5, "aux: dtype | device type << 8; n: ndim | device index << 8 (0xff: none) | strides present << 16; body: struct ptb_val_tensor, sizes, strides") \
	X(UNDEFINED,   6, "an undefined tensor; body: its address (IDS only, else no body)")          \
	X(STRING,      7, "n: true length; aux: bytes present; body: them, padded with zeroes")       \
	X(DEVICE,      8, "aux: device type; n: index (0xffffffff: none); no body")                   \
	X(INTS,        9, "list of int; n: true count; aux: present; body: them")                     \
	X(DOUBLES,    10, "list of float; as INTS")                                                   \
	X(BOOLS,      11, "list of bool; as INTS, one byte each, padded")                              \
	X(LIST,       12, "list of anything; n: true count; aux: values that follow as elements")     \
	X(TUPLE,      13, "as LIST")                                                                  \
	X(TENSORS,    14, "list of tensors; as LIST, elements are TENSOR or UNDEFINED")               \
	X(OPT_TENSORS, 15, "list of optional tensors; as LIST, elements may also be NONE")             \
	X(COMPLEX,    16, "body: real, imaginary part")                                               \
	X(OPAQUE,     17, "n: enum ptb_opaque; a value that torch prints only by its type; no body")  \
	X(STATE,      18, "not a value: the thread's state at entry; n: PTB_STATE_*; body: next sequence number, included and excluded dispatch keys")
/* clang-format on */

enum ptb_val_kind {
#define X(name, nr, text) PTB_VAL_##name = nr,
	PTB_VAL_KINDS(X)
#undef X
};

/* clang-format off */
#define PTB_VAL_F_CUT 0x01     /* a list or text is longer than what follows */
#define PTB_VAL_F_FAULT 0x02   /* the target's memory could not be read here */
#define PTB_VAL_F_IDS 0x04     /* TENSOR: struct ptb_val_ids follows struct ptb_val_tensor */
/* DOUBLE: its value comes in a later ARGS_MORE record of this frame */
#define PTB_VAL_F_PENDING 0x08
#define PTB_VAL_F_SYMBOLIC 0x10 /* TENSOR: symbolic sizes: what is in the fields is not its shape */
/* TENSOR: more than PTB_DIMS_MAX dimensions; sizes and strides are absent */
#define PTB_VAL_F_DIMS_CUT 0x20
/* TENSOR with IDS: it has a storage, though perhaps one without data */
#define PTB_VAL_F_STORAGE 0x40
#define PTB_VAL_F_PARAMETER 0x80 /* TENSOR with IDS: its Python object is an nn.Parameter */
/* clang-format on */

/* clang-format off */
#define PTB_STATE_GRAD 0x1   /* grad mode is on */
/* no flag at all is set: on, if the thread has not made its flags yet; a build whose flags may all
 * be off is known from what it had before */
#define PTB_STATE_UNMADE 0x2
/* clang-format on */

/* then, if IDS, ptb_val_ids; then ndim sizes; then ndim strides if present */
struct ptb_val_tensor {
	__u64 keys; /* TensorImpl::key_set_ */
	__s64 numel;
};
struct ptb_val_ids {
	__u64 impl;    /* TensorImpl*: the tensor's identity */
	__u64 storage; /* data pointer of its storage, 0: none */
	__s64 offset;  /* in elements */
};

/* Values that torch prints by the name of their IValue tag ("<Generator>"). */
/* clang-format off */
#define PTB_OPAQUES(X)                                                                                \
	X(Storage, 1) X(SymInt, 2) X(SymFloat, 3) X(SymBool, 4) X(Blob, 5) X(GenericDict, 6) X(Future, 7) \
	X(Await, 8) X(Stream, 9) X(Object, 10) X(PyObject, 11) X(Uninitialized, 12) X(Capsule, 13)      \
	X(RRef, 14) X(Quantizer, 15) X(Generator, 16) X(Enum, 17) X(UInt, 18) X(Int, 19) X(Double, 20) \
	X(Other, 31)
/* clang-format on */

enum ptb_opaque {
#define X(name, nr) PTB_OPAQUE_##name = nr,
	PTB_OPAQUES(X)
#undef X
};

/* Limits of what is copied; more is cut and marked. */
#define PTB_DIMS_MAX 16
#define PTB_LIST_SHAPES_MAX 31   /* elements where only shapes are recorded: torch prints 30 */
#define PTB_LIST_FULL_MAX 512    /* with identities (Execution Trace) */
#define PTB_STRING_MAX 12288     /* bytes of a text */
#define PTB_ARGS_BYTES_MAX 28672 /* of one payload; what follows is cut, PTB_F_ARGS_CUT */
#define PTB_NEST_MAX 3           /* lists in lists, tuples */

/* ---- programs ---- */

/*
 * One instruction makes one value. loc[] index the words of the call: at an entry 0..5 are rdi,
 * rsi, rdx, rcx, r8, r9 and 6 + k is the word at rsp + 8 + 8 * k (below k < 26); at an exit 0 is
 * the result pointer that the entry's program named (result_loc), 1 is rax, PTB_LOC_KEPT + enum
 * ptb_arg_reg the registers that calls keep; at a late site (OP_LATE) see SLOT. Memory optionals:
 * the flag byte is at pointer + has_off, the value at pointer + val_off.
 */
/*     name         nr  */
/* clang-format off */
#define PTB_ARG_OPS(X)                                                                                \
	X(WORD,        1, "the word loc[0] as `as`: INT, BOOL (low byte), DEVICE (bytes type, index)")    \
	X(BYTE,        2, "the low byte of loc[0] as INT (enumerations)")                                 \
	X(OPT_WORD,    3, "flag: low byte of loc[1]; value loc[0] as `as`")                               \
	X(OPT_BYTES,   4, "one word loc[0]: byte has_off is the flag, val_off the value: as INT, BOOL, DEVICE") \
	X(PTR_SYMINT,  5, "c10::SymInt at *loc[0]; optional if has_off != NONE")                          \
	X(PTR_SCALAR,  6, "c10::Scalar at *loc[0]; optional likewise")                                    \
	X(PTR_TENSOR,  7, "at::Tensor at *loc[0] + val_off; optional likewise; DEREF: a reference to one is there") \
	X(WORDS,       8, "list of 8-byte numbers {pointer loc[0], count loc[1]} as INTS or DOUBLES; flag: low byte of loc[2] if != NONE; NULL_NONE: pointer 0 with a count is None") \
	X(TENSORS,     9, "ArrayRef<Tensor> {loc[0], loc[1]}")                                            \
	X(SCALARS,    10, "ArrayRef<Scalar> {loc[0], loc[1]} as LIST")                                    \
	X(ILIST,      11, "IListRef<Tensor> at *loc[0]")                                                  \
	X(PTR_OPT_TENSORS, 12, "List<optional<Tensor>> at *loc[0]")                                       \
	X(STRING,     13, "{pointer loc[0], length loc[1]}; flag: low byte of loc[2] if != NONE")          \
	X(PTR_STRING, 14, "optional<string_view> at *loc[0]: flag has_off, pointer val_off, length val_off + 8") \
	X(BOOL_ARRAY, 15, "array<bool, n>: n = aux bytes of the word loc[0], as BOOLS")                   \
	X(OPAQUE,     16, "aux: enum ptb_opaque; *loc[0] if has_off != NONE is optional; loc[0] NONE: always there") \
	X(LATE,       17, "a double in XMM: value number aux of the late site; flag: low byte of loc[0] if != NONE") \
	X(SLOT,       18, "late sites: 8 bytes at register loc[0] (enum ptb_arg_reg) + disp: DOUBLE number aux") \
	X(SLOT_REG,   19, "late sites: register loc[0] itself: DOUBLE number aux")                        \
	X(VECTOR,     20, "std::vector at *loc[0] + val_off: TENSORS, INTS, or a LIST of std::vector<Tensor>") \
	X(UNKNOWN,    21, "a value that cannot be read: PTB_VAL_UNKNOWN")                                 \
	X(IVALUES,    22, "the last aux IValues of the std::vector at *loc[0] (boxed results)")           \
	X(PTR_INT,    23, "8 bytes at *loc[0] + val_off as `as`: INT or DOUBLE (elements of a returned tuple); BOOL: one byte")
/* clang-format on */

enum ptb_arg_opcode {
#define X(name, nr, text) PTB_ARG_##name = nr,
	PTB_ARG_OPS(X)
#undef X
};

#define PTB_LOC_NONE 0xff
#define PTB_LOC_STACK 6 /* first stack word */
#define PTB_LOC_KEPT 2  /* at an exit */
#define PTB_LOC_CNT 32
#define PTB_ARG_F_DEREF 0x1
#define PTB_ARG_F_NULL_NONE 0x2
#define PTB_ARG_F_DOUBLE 0x4 /* WORDS: DOUBLES */
#define PTB_ARG_F_INT32 0x8  /* WORD: an int, whose upper half is not defined */

enum ptb_arg_reg { /* bases of SLOT */
		   PTB_REG_RSP,
		   PTB_REG_RBP,
		   PTB_REG_RBX,
		   PTB_REG_R12,
		   PTB_REG_R13,
		   PTB_REG_R14,
		   PTB_REG_R15,
		   PTB_REG_CNT
};

struct ptb_arg_op {
	__u8 op;    /* enum ptb_arg_opcode */
	__u8 as;    /* enum ptb_val_kind */
	__u8 flags; /* PTB_ARG_F_* */
	__u8 aux;
	__u8 loc[3];
	__u8 has_off; /* PTB_LOC_NONE: not optional */
	__u16 val_off;
	__u16 pad;
	__s32 disp;
};
_Static_assert(sizeof(struct ptb_arg_op) == 16, "the programs are shared with BPF");

#define PTB_ARG_OPS_MAX 40 /* arguments and results of one operator; at most 30 + 8 seen */

struct ptb_arg_prog {
	__u8 in_cnt;      /* ops[0..in_cnt): at the entry (or the late site) */
	__u8 out_cnt;     /* ops[in_cnt..in_cnt + out_cnt): at the exit */
	__u8 stack_words; /* words to copy from rsp + 8 at the entry */
	__u8 result_loc;  /* word that points to the result, kept until the exit; PTB_LOC_NONE */
	__u8 by_ref; /* inputs behind a pointer; user/probe counts them when it loads the program */
	__u8 pad[3];
	struct ptb_arg_op ops[PTB_ARG_OPS_MAX];
};

/* ---- layouts of one build of torch; part of struct ptb_proc_cfg ---- */

#define PTB_IVALUE_TAGS 40
/* What an IValue tag means: low byte enum ptb_val_kind; OPAQUE with its number << 8; 0: not known.
 * String, list and tuple kinds: behind the object header. */

struct ptb_tensor_cfg {
	__u8 shapes_on; /* 0: this process's layout failed its check: no arguments are read */
	/* optional<Device> in TensorImpl: flag, type, index (else type, index, flag) */
	__u8 device_has_first;
	/* bytes before the first member of an intrusive_ptr_target object: 24, 16 */
	__u8 object_header;
	__u8 scalar_int, scalar_double, scalar_bool, scalar_complex; /* Scalar's tags */
	/* no NODE_CALL probes: a node's inputs are read at NODE_ENTER */
	__u8 node_inputs_from_buffer;
	/* TensorImpl */
	__u16 storage_off, extra_meta_off, sizes_off, storage_offset_off, numel_off, dtype_off,
		device_off, key_set_off;
	__u16 storage_data_off; /* StorageImpl: data pointer */
	/* OperatorDef */
	__u16 schema_args_off, schema_returns_off; /* std::vector<Argument> */
	__u16 argument_size;
	__u64 undefined_impl; /* address of UndefinedTensorImpl's singleton */
	__u64 parameter_type; /* of Python objects: nn.Parameter; 0: not known */
	/* thread-local state: dtv module and offset, 0: not known */
	__u64 grad_tls_module, grad_tls_off; /* AutogradState's byte of flags */
	__u64 keys_tls_module, keys_tls_off; /* PODLocalDispatchKeySet: included, excluded */
	/* the stored words are XORed with these */
	__u64 keys_default_included, keys_default_excluded;
	__u8 grad_mask;      /* bit of grad mode in it */
	__u8 grad_made_late; /* the flags are made when first asked for: before, they are 0 */
	__u8 pad1[6];
	__u16 ivalue_kind[PTB_IVALUE_TAGS];
};

#endif /* PTB_ARGS_H */
