/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Values that carry their own type: c10::Scalar, c10::IValue and what is behind one. Part of
 * arg_interp.h. Each function turns what is in memory into the next cell; writes nothing.
 */
#ifndef PTB_ARG_OBJECTS_H
#define PTB_ARG_OBJECTS_H

#include "arg_state.h"

#define ARG_SCALAR_BYTES 32 /* c10/core/Scalar.h: tag, alignment, a complex<double> */
#define ARG_VECTOR_BYTES 24 /* libstdc++'s std::vector: begin, end, end of the storage */

/*
 * c10/core/Scalar.h: Tag {HAS_d, HAS_i, HAS_u, HAS_z, HAS_b, HAS_sd, HAS_si, HAS_sb}: the symbolic
 * ones follow the boolean; HAS_u, where there is one, follows HAS_i.
 */
ARG_FN void scalar_cell(struct arg_scratch *s, const struct ptb_tensor_cfg *t, const __u64 *mem)
{
	__u32 tag = (__u32)mem[0];

	if (tag == t->scalar_int) {
		cell_word(s, PTB_VAL_INT, 0, mem[2]);
	} else if (tag == t->scalar_double) {
		cell_word(s, PTB_VAL_DOUBLE, 0, mem[2]);
	} else if (tag == t->scalar_bool) {
		cell_bool(s, mem[2]);
	} else if (tag == t->scalar_complex) {
		cell_pair(s, PTB_VAL_COMPLEX, mem[2], mem[3]);
	} else if (tag == t->scalar_int + 1u) {
		cell_opaque(s, PTB_OPAQUE_UInt);
	} else if (tag == t->scalar_bool + 1u) {
		cell_opaque(s, PTB_OPAQUE_SymFloat);
	} else if (tag == t->scalar_bool + 2u) {
		cell_opaque(s, PTB_OPAQUE_SymInt);
	} else if (tag == t->scalar_bool + 3u) {
		cell_opaque(s, PTB_OPAQUE_SymBool);
	} else {
		cell_fault(s);
	}
}

/* libstdc++'s std::string at addr, see text_read_string() */
ARG_FN void string_cell(struct arg_scratch *s, const struct ptb_proc_cfg *cfg, __u64 addr)
{
	__u32 len = cfg->old_string_abi ? 8 : 16;

	if (ARG_READ(s->tmp, len, addr) ||
	    (cfg->old_string_abi && ARG_READ(s->tmp + 1, 8, s->tmp[0] - 24)))
		cell_fault(s);
	else
		cell_text(s, s->tmp[0], s->tmp[1]);
}

/*
 * ivalue::Tuple: TupleElements {size_t inlineSize_; union {vector<IValue>; IValue inline_[3]}}
 * (aten/src/ATen/core/ivalue_inl.h, since 1.11)
 */
ARG_FN void tuple_cell(struct arg_scratch *s, __u64 elements)
{
	if (ARG_READ(s->tmp, 24, elements))
		cell_fault(s);
	else if (!s->tmp[0])
		cell_vector(s, PTB_VAL_TUPLE, ARG_E_IVALUE, s->tmp + 1, 4);
	else if (s->tmp[0] <= 3)
		cell_list(s, PTB_VAL_TUPLE, ARG_E_IVALUE, elements + 8, s->tmp[0]);
	else
		cell_fault(s);
}

/* c10::detail::ListImpl: std::vector<IValue> behind the header (ATen/core/List.h) */
ARG_FN void list_cell(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u8 kind, __u64 impl)
{
	if (ARG_READ(s->tmp, 16, impl + t->object_header))
		cell_fault(s);
	else
		cell_vector(s, kind, ARG_E_IVALUE, s->tmp, 4);
}

/* ComplexHolder: alignas(16) complex<double> behind the header */
ARG_FN void complex_cell(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u64 holder)
{
	if (ARG_READ(s->tmp, 16, holder + ((t->object_header + 15u) & ~15u))) {
		cell_fault(s);
		return;
	}
	cell_pair(s, PTB_VAL_COMPLEX, s->tmp[0], s->tmp[1]);
}

/* {payload, tag u32} (ATen/core/ivalue.h); what a tag means is in the configuration */
ARG_FN void ivalue_cell(struct arg_scratch *s, const struct ptb_proc_cfg *cfg, __u64 payload,
			__u32 tag)
{
	const struct ptb_tensor_cfg *t = &cfg->tensor;
	__u32 kind;

	if (tag >= PTB_IVALUE_TAGS) {
		cell_fault(s);
		return;
	}
	ARG_PIN(tag);
	kind = tag < PTB_IVALUE_TAGS ? t->ivalue_kind[tag] : 0;
	switch (kind & 0xff) {
	case PTB_VAL_NONE:
		cell_none(s);
		break;
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
		cell_word(s, (__u8)kind, 0, payload);
		break;
	case PTB_VAL_BOOL:
		cell_bool(s, payload);
		break;
	case PTB_VAL_TENSOR:
		cell_tensor(s, payload);
		break;
	case PTB_VAL_DEVICE:
		cell_device(s, payload);
		break;
	case PTB_VAL_STRING:
		string_cell(s, cfg, payload + t->object_header);
		break;
	case PTB_VAL_LIST:
		list_cell(s, t, 0, payload);
		break;
	case PTB_VAL_TUPLE:
		tuple_cell(s, payload + t->object_header);
		break;
	case PTB_VAL_COMPLEX:
		complex_cell(s, t, payload);
		break;
	case PTB_VAL_OPAQUE:
		cell_opaque(s, kind >> 8);
		break;
	default:
		cell_head(s, PTB_VAL_UNKNOWN, 0, 0);
	}
}

/* IListRef<Tensor>: {union of 16 bytes, tag}: ArrayRef, List const*, vector<reference_wrapper>
 * const* (ATen/core/IListRef.h) */
ARG_FN void ilist_cell(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u64 addr)
{
	if (!read_small(s, s->tmp, 24, addr)) {
		cell_fault(s);
		return;
	}
	switch ((__u32)s->tmp[2]) {
	case 0:
		cell_list(s, PTB_VAL_TENSORS, ARG_E_TENSOR, s->tmp[0], s->tmp[1]);
		break;
	case 1: /* List<Tensor>: a pointer to its ListImpl */
		if (!read_small(s, s->tmp, 8, s->tmp[0]))
			cell_fault(s);
		else
			list_cell(s, t, PTB_VAL_TENSORS, s->tmp[0]);
		break;
	case 2:
		if (!read_small(s, s->tmp, 16, s->tmp[0]))
			cell_fault(s);
		else
			cell_vector(s, PTB_VAL_TENSORS, ARG_E_REF, s->tmp, 3);
		break;
	default:
		cell_fault(s);
	}
}

#endif /* PTB_ARG_OBJECTS_H */
