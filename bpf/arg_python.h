/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Python objects that are arguments of annotations and custom functions: what torch turns into
 * values of its own (torch/csrc/jit/python/pybind_utils.h, tryToInferType). Part of arg_interp.h.
 * Types are compared by address (struct ptb_python_cfg); an object of any other type is opaque.
 */
#ifndef PTB_ARG_PYTHON_H
#define PTB_ARG_PYTHON_H

#include "arg_state.h"

/* CPython's ABI: PyObject {ob_refcnt, ob_type}; ob_size of tuples and lists, ob_fval, length of
 * str */
#define PY_TYPE_WORD 1
#define PY_VALUE_WORD 2
#define PY_HEAD_SZ 24             /* of a tuple, before its hash (from 3.14) and items */
#define PY_FLAGS_OFF 168          /* PyTypeObject.tp_flags */
#define PY_FLAG_LIST (1ull << 25) /* Py_TPFLAGS_LIST_SUBCLASS, ..._TUPLE_SUBCLASS */
#define PY_FLAG_TUPLE (1ull << 26)
#define PY_BASES_MAX 6
#define PY_STR_ASCII 0x60 /* PyASCIIObject.state: compact and ascii */

/* 30-bit digits, at most three for 64 bits. Longer ones are no int64 either. */
ARG_FN void py_int(struct arg_scratch *s, const struct ptb_python_cfg *py, __u64 obj, bool is_bool)
{
	__u64 value = 0, cnt;
	__u32 *digits = (__u32 *)s->tmp;
	bool negative;

	if (ARG_READ(s->tmp, 8, obj + py->long_size_off)) {
		cell_fault(s);
		return;
	}
	cnt = s->tmp[0];
	if (py->long_size_shift) {
		negative = (cnt & 3) == 2;
		cnt >>= py->long_size_shift & 63;
	} else {
		negative = (__s64)cnt < 0;
		cnt = negative ? -cnt : cnt;
	}
	s->tmp[0] = s->tmp[1] = 0;
	if (cnt > 3 || (cnt && ARG_READ(digits, 4 * (cnt & 3), obj + py->long_digits_off))) {
		cell_fault(s);
		return;
	}
	value = digits[0] | (__u64)digits[1] << 30 | (__u64)digits[2] << 60;
	if (digits[2] > 8 || (digits[2] == 8 && !(negative && value == 1ull << 63))) {
		cell_head(s, PTB_VAL_UNKNOWN, 0, 0);
		return;
	}
	if (is_bool)
		cell_bool(s, value);
	else
		cell_word(s, PTB_VAL_INT, 0, negative ? -value : value);
}

/* Compact ASCII only: other texts would have to be encoded. */
ARG_FN void py_str(struct arg_scratch *s, const struct ptb_python_cfg *py, __u64 obj, __u64 len)
{
	__u32 state = 0;

	if (ARG_READ(&state, sizeof(state), obj + py->str_state_off))
		cell_fault(s);
	else if ((state & PY_STR_ASCII) != PY_STR_ASCII)
		cell_head(s, PTB_VAL_UNKNOWN, 0, 0);
	else
		cell_text(s, obj + py->ascii_off, len);
}

/* Is `type` torch.Tensor or derived from it along tp_base? */
ARG_FN bool py_is_tensor(const struct ptb_python_cfg *py, __u64 type)
{
	for (__u32 i = 0; i < PY_BASES_MAX; i++) {
		if (type == py->type_tensor)
			return true;
		if (!type || ARG_READ(&type, 8, type + py->type_base_off))
			return false;
	}
	return false;
}

ARG_FN void py_other(struct arg_scratch *s, const struct ptb_python_cfg *py, __u64 obj, __u64 type)
{
	__u64 flags = 0, size = s->tmp[PY_VALUE_WORD], items = s->tmp[3];

	if (py->type_tensor && py_is_tensor(py, type)) {
		if (ARG_READ(s->tmp, 8, obj + py->variable_off))
			cell_fault(s);
		else
			cell_tensor(s, s->tmp[0]);
		return;
	}
	if (ARG_READ(&flags, 8, type + PY_FLAGS_OFF))
		flags = 0;
	if (flags & PY_FLAG_TUPLE) { /* torch.Size, named tuples */
		cell_list(s, PTB_VAL_TUPLE, ARG_E_PYTHON, obj + py->tuple_items_off, size);
	} else if (flags & PY_FLAG_LIST) {
		cell_list(s, 0, ARG_E_PYTHON, items, size);
	} else {
		cell_opaque(s, PTB_OPAQUE_PyObject);
	}
}

ARG_FN void py_cell(struct arg_scratch *s, const struct ptb_python_cfg *py, __u64 obj)
{
	__u64 type;

	if (obj == py->none) {
		cell_none(s);
		return;
	}
	if (ARG_READ(s->tmp, 32, obj)) {
		cell_fault(s);
		return;
	}
	type = s->tmp[PY_TYPE_WORD];
	if (!type)
		cell_fault(s);
	else if (type == py->type_bool)
		py_int(s, py, obj, true);
	else if (type == py->type_int)
		py_int(s, py, obj, false);
	else if (type == py->type_float)
		cell_word(s, PTB_VAL_DOUBLE, 0, s->tmp[PY_VALUE_WORD]);
	else if (type == py->type_complex)
		cell_pair(s, PTB_VAL_COMPLEX, s->tmp[PY_VALUE_WORD], s->tmp[3]);
	else if (type == py->type_str)
		py_str(s, py, obj, s->tmp[PY_VALUE_WORD]);
	else if (type == py->type_tuple)
		cell_list(s, PTB_VAL_TUPLE, ARG_E_PYTHON, obj + py->tuple_items_off,
			  s->tmp[PY_VALUE_WORD]);
	else if (type == py->type_list)
		cell_list(s, 0, ARG_E_PYTHON, s->tmp[3], s->tmp[PY_VALUE_WORD]);
	else
		py_other(s, py, obj, type);
}

/*
 * The arguments of a custom function: torch records tensors and values of primitive types, alone or
 * in lists and tuples, and leaves everything else out (torch/csrc/autograd/python_function.cpp,
 * unpack_input; tryToInferPrimitiveType).
 */
ARG_FN void py_only_recorded(struct arg_scratch *s)
{
	__u8 kind = s->cell.kind;

	if (s->cell.what == ARG_C_LIST || kind == PTB_VAL_NONE || kind == PTB_VAL_INT ||
	    kind == PTB_VAL_DOUBLE || kind == PTB_VAL_BOOL || kind == PTB_VAL_UNKNOWN ||
	    (kind == PTB_VAL_TENSOR && !s->level))
		return;
	if (s->level) { /* the whole argument */
		s->pos = s->frames[1].hdr;
		s->level = 0;
	}
	s->cell.what = ARG_C_SKIP;
}

#endif /* PTB_ARG_PYTHON_H */
