/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * State of the argument interpreter (arg_interp.h): one scratch area, in which a record is built,
 * and the few things that differ between BPF and the host. Everything that lives longer than a line
 * is in the scratch area, not on the stack: the verifier then sees one state per step.
 *
 * Host: the includer defines arg_host_read() and arg_host_count() first.
 */
#ifndef PTB_ARG_STATE_H
#define PTB_ARG_STATE_H

#include "arg_rules.h"
#include "ptb_args.h"
#include "ptb_probe.h"

#ifdef __bpf__
static __always_inline void count(__u32 id);
#define ARG_FN static __always_inline
#define ARG_READ(dst, len, addr) bpf_probe_read_user(dst, len, (void *)(addr))
#define ARG_COUNT(id) count(id)
/* keeps a bound that was just checked on the register that is used: else clang tests a copy */
#define ARG_PIN(v) barrier_var(v)
#else
#define ARG_FN static inline
#define ARG_READ(dst, len, addr) arg_host_read(dst, len, addr)
#define ARG_COUNT(id) arg_host_count(id)
#define ARG_PIN(v) ((void)0)
#endif

#define ARG_REC_MASK 0x7ff8u /* positions in a record */
#define ARG_IMPL_MAX 256u    /* of a TensorImpl, what is read at once */
#define ARG_STEPS_MAX 6144   /* values and ends of lists of one record */
#define ARG_NEAR_BYTES 1024u /* of the caller's stack, read at once */
#define ARG_SMALL_BYTES 64u  /* what read_small() reads at most */
_Static_assert(PTB_ARGS_BYTES_MAX + 1024 < ARG_REC_MASK, "a record with all its text fits");

_Static_assert(PTB_STRING_MAX >= 8 * PTB_LIST_FULL_MAX, "no body is longer than a text");

/* What a frame's elements are. */
enum arg_elem {
	ARG_E_OPS,    /* instructions of the program */
	ARG_E_TENSOR, /* ptrs[]: TensorImpl* */
	ARG_E_REF,    /* ptrs[]: at::Tensor* */
	ARG_E_SCALAR, /* c10::Scalar */
	ARG_E_IVALUE, /* c10::IValue */
	ARG_E_PYTHON, /* PyObject* */
	ARG_E_VECTOR, /* std::vector<Tensor> */
};

/* What is to be written next. */
enum arg_what {
	ARG_C_SKIP,   /* nothing */
	ARG_C_HEAD,   /* a value without body */
	ARG_C_WORD,   /* body: a */
	ARG_C_PAIR,   /* body: a, b */
	ARG_C_TENSOR, /* a: TensorImpl* */
	ARG_C_MEM,    /* b numbers at a */
	ARG_C_TEXT,   /* b bytes at a */
	ARG_C_LIST,   /* b elements `elem` at a */
	ARG_C_PACKED, /* a, the next element of a list of numbers */
};

struct arg_cell {
	__u64 a, b;
	__u32 n;
	__u16 aux;
	__u8 what; /* enum arg_what */
	__u8 kind; /* enum ptb_val_kind */
	__u8 flags;
	__u8 elem; /* enum arg_elem */
	__u16 pad0;
	__u32 pad1;
};

/* The program (level 0) or a list under way. */
struct arg_frame {
	__u64 base;
	__u32 idx, cnt;
	__u32 hdr; /* position of the list's struct ptb_val */
	__u8 elem; /* enum arg_elem */
	__u8 kind; /* of the list; 0: its first element decides */
	__u8 bare; /* level 0: values that torch would not record are skipped */
	__u8 pad;
};

struct arg_scratch {
	__u32 busy;
	__u32 pos;   /* end of what is written */
	__u32 limit; /* it must not pass this */
	__u32 level;
	__u32 list_max;
	__u8 full; /* identities */
	__u8 cut;  /* values are missing at the end */
	__u8 stop;
	__u8 pad;
	struct arg_cell cell;
	struct arg_frame frames[PTB_NEST_MAX + 1];
	__u64 words[PTB_LOC_CNT];
	__u64 near; /* stack pointer of the call: window[] may show what is above it; 0: never */
	__u32 near_state;
	__u32 pad1;
	__u64 window[ARG_NEAR_BYTES / 8];
	__u64 tmp[(ARG_IMPL_MAX + 128) / 8];
	__u64 ptrs[PTB_LIST_FULL_MAX]; /* elements of the innermost list of tensors */
	/* the longest body may begin at the end */
	__u8 rec[ARG_REC_MASK + 8 + PTB_STRING_MAX + 64];
};

struct arg_run {
	struct arg_scratch *s;
	const struct ptb_proc_cfg *cfg;
	const struct ptb_arg_prog *prog;
};

ARG_FN void *arg_at(struct arg_scratch *s, __u32 pos)
{
	return s->rec + (pos & ARG_REC_MASK);
}

/* A word at any address in scratch. */
ARG_FN __u64 load_word(const void *at)
{
#ifdef __bpf__
	return *(const __u64 *)at;
#else
	__u64 word;

	__builtin_memcpy(&word, at, sizeof(word));
	return word;
#endif
}

/* ---- reading ---- */

enum { ARG_NEAR_UNREAD, ARG_NEAR_READ, ARG_NEAR_FAULT };

/*
 * `size` bytes, at most ARG_SMALL_BYTES, at addr into dst, which has room for that many. What
 * callers pass by reference are mostly their temporaries: a read costs far more than a copy, so the
 * first such argument brings the whole window, and the others are there already.
 */
ARG_FN bool read_small(struct arg_scratch *s, __u64 *dst, __u32 size, __u64 addr)
{
	__u64 off = addr - s->near;
	const __u8 *from;

	if (!s->near || off > ARG_NEAR_BYTES - ARG_SMALL_BYTES || s->near_state == ARG_NEAR_FAULT)
		return !ARG_READ(dst, size, addr);
	if (s->near_state == ARG_NEAR_UNREAD) {
		if (ARG_READ(s->window, ARG_NEAR_BYTES, s->near)) {
			s->near_state = ARG_NEAR_FAULT; /* the stack ends before */
			return !ARG_READ(dst, size, addr);
		}
		s->near_state = ARG_NEAR_READ;
	}
	ARG_PIN(off);
	if (off > ARG_NEAR_BYTES - ARG_SMALL_BYTES)
		return false;
	from = (const __u8 *)s->window + off;
	for (__u32 i = 0; i < 4; i++)
		dst[i] = load_word(from + 8 * i);
	if (size > 32)
		for (__u32 i = 4; i < ARG_SMALL_BYTES / 8; i++)
			dst[i] = load_word(from + 8 * i);
	return true;
}

/* ---- cells ---- */

ARG_FN void cell_head(struct arg_scratch *s, __u8 kind, __u16 aux, __u32 n)
{
	s->cell.what = ARG_C_HEAD;
	s->cell.kind = kind;
	s->cell.flags = 0;
	s->cell.aux = aux;
	s->cell.n = n;
}

ARG_FN void cell_none(struct arg_scratch *s)
{
	cell_head(s, PTB_VAL_NONE, 0, 0);
}

ARG_FN void cell_fault(struct arg_scratch *s)
{
	cell_head(s, PTB_VAL_UNKNOWN, 0, 0);
	s->cell.flags = PTB_VAL_F_FAULT;
	ARG_COUNT(PTB_CNT_ARGS_FAULT);
}

ARG_FN void cell_opaque(struct arg_scratch *s, __u32 nr)
{
	cell_head(s, PTB_VAL_OPAQUE, 0, nr);
}

ARG_FN void cell_word(struct arg_scratch *s, __u8 kind, __u32 n, __u64 word)
{
	cell_head(s, kind, 0, n);
	s->cell.what = ARG_C_WORD;
	s->cell.a = word;
}

ARG_FN void cell_pair(struct arg_scratch *s, __u8 kind, __u64 first, __u64 second)
{
	cell_word(s, kind, 0, first);
	s->cell.what = ARG_C_PAIR;
	s->cell.b = second;
}

ARG_FN void cell_bool(struct arg_scratch *s, __u64 byte)
{
	cell_head(s, PTB_VAL_BOOL, 0, (byte & 0xff) != 0);
}

ARG_FN void cell_device(struct arg_scratch *s, __u64 bytes)
{
	cell_head(s, PTB_VAL_DEVICE, (__u16)(bytes & 0xff), arg_device_index(bytes));
}

ARG_FN void cell_symint(struct arg_scratch *s, __u64 word)
{
	if ((__s64)word < -(1ll << 62)) /* c10/core/SymInt.h: a heap node */
		cell_opaque(s, PTB_OPAQUE_SymInt);
	else
		cell_word(s, PTB_VAL_INT, 0, word);
}

ARG_FN void cell_tensor(struct arg_scratch *s, __u64 impl)
{
	s->cell.what = ARG_C_TENSOR;
	s->cell.kind = PTB_VAL_TENSOR;
	s->cell.a = impl;
}

ARG_FN void cell_mem(struct arg_scratch *s, __u8 kind, __u64 addr, __u64 cnt)
{
	cell_head(s, kind, 0, 0);
	s->cell.what = ARG_C_MEM;
	s->cell.a = addr;
	s->cell.b = cnt;
}

ARG_FN void cell_text(struct arg_scratch *s, __u64 addr, __u64 len)
{
	cell_head(s, PTB_VAL_STRING, 0, 0);
	s->cell.what = ARG_C_TEXT;
	s->cell.a = addr;
	s->cell.b = len;
}

/* kind 0: by the first element */
ARG_FN void cell_list(struct arg_scratch *s, __u8 kind, __u8 elem, __u64 addr, __u64 cnt)
{
	cell_head(s, kind, 0, 0);
	s->cell.what = ARG_C_LIST;
	s->cell.elem = elem;
	s->cell.a = addr;
	s->cell.b = cnt;
}

/* {begin, end} of a std::vector of elements of 1 << shift bytes */
ARG_FN void cell_vector(struct arg_scratch *s, __u8 kind, __u8 elem, const __u64 *vec, __u32 shift)
{
	__u64 bytes = vec[1] - vec[0];

	if (vec[1] < vec[0] || bytes & ((1u << shift) - 1))
		cell_fault(s);
	else
		cell_list(s, kind, elem, vec[0], bytes >> shift);
}

#endif /* PTB_ARG_STATE_H */
