/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What of values is the same wherever they are read, in the kernel's programs (arg_interp.h) and in
 * the agent: pure functions of what was read. Compiles alone, as BPF and as C.
 */
#ifndef PTB_ARG_RULES_H
#define PTB_ARG_RULES_H

#include "ptb_args.h"

#define ARG_RULE static inline __attribute__((always_inline, unused))

#define ARG_NDIM_MAX 64 /* torch allows no more */

/* What list a first element of this kind begins. */
ARG_RULE __u8 arg_list_kind(__u8 kind)
{
	switch (kind) {
	case PTB_VAL_INT:
		return PTB_VAL_INTS;
	case PTB_VAL_DOUBLE:
		return PTB_VAL_DOUBLES;
	case PTB_VAL_BOOL:
		return PTB_VAL_BOOLS;
	case PTB_VAL_TENSOR:
		return PTB_VAL_TENSORS;
	case PTB_VAL_NONE:
		return PTB_VAL_OPT_TENSORS;
	default:
		return PTB_VAL_LIST;
	}
}

/* Lists of numbers have no heads; one that turns out to be mixed begins again as a list of
 * anything. */
ARG_RULE __u8 arg_is_packed(__u8 kind)
{
	return kind == PTB_VAL_INTS || kind == PTB_VAL_DOUBLES || kind == PTB_VAL_BOOLS;
}

/* The kind of a list so far of kind `kind` (0: nothing yet), after an element that would begin one
 * of kind `want`. */
ARG_RULE __u8 arg_list_mixed(__u8 kind, __u8 want)
{
	if (!kind || want == kind)
		return want;
	if (kind == PTB_VAL_LIST || kind == PTB_VAL_TUPLE)
		return kind;
	if (!arg_is_packed(kind) && (want == PTB_VAL_TENSORS || want == PTB_VAL_OPT_TENSORS))
		return PTB_VAL_OPT_TENSORS;
	return PTB_VAL_LIST;
}

/* optional<Device> in a TensorImpl, three bytes: device type | index << 8, as the head of a TENSOR
 * has them; *has: its flag. */
ARG_RULE __u32 arg_tensor_device(__u32 bytes, __u8 has_first, __u32 *has)
{
	*has = has_first ? bytes & 0xff : bytes >> 16 & 0xff;
	if (!*has)
		return 0xff00;
	return has_first ? bytes >> 8 & 0xffff : bytes & 0xffff;
}

/* c10::Device, a byte each: type and index; index -1: none */
ARG_RULE __u32 arg_device_index(__u64 bytes)
{
	__u32 index = (__u32)(bytes >> 8) & 0xff;

	return index == 0xff ? ~0u : index;
}

#endif /* PTB_ARG_RULES_H */
