/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * torch's estimate of an operator's floating point operations, formula by formula, in the
 * arithmetic in which torch computes it (pytorch torch/csrc/profiler/util.cpp: saveExtraArgs(),
 * computeFlops()). Owns which operators have one; must not know where shapes come from.
 */
#include <string.h>

#include "model/facts.h"

#define INPUTS_MAX 7 /* aten::conv2d has most */

enum { CONV_INPUT, CONV_WEIGHT, CONV_BIAS, CONV_STRIDE, CONV_PADDING, CONV_DILATION, CONV_GROUPS };

struct inputs {
	struct value v[INPUTS_MAX];
	uint32_t cnt;
};

/* An undefined tensor has one dimension of no size (pytorch c10/core/UndefinedTensorImpl.cpp). */
static bool sizes_of(const struct inputs *in, uint32_t i, const struct session_keys *keys,
		     const int64_t **sizes, uint32_t *ndim)
{
	static const int64_t none[1] = { 0 };
	const struct value *v = &in->v[i];

	if (i >= in->cnt)
		return false;
	if (v->kind == PTB_VAL_UNDEFINED) {
		*sizes = none;
		*ndim = 1;
		return true;
	}
	if (v->kind != PTB_VAL_TENSOR || v->flags & (PTB_VAL_F_SYMBOLIC | PTB_VAL_F_DIMS_CUT) ||
	    v->keys & keys->nested)
		return false;
	*sizes = v->sizes;
	*ndim = v->ndim;
	return true;
}

static uint64_t product(const int64_t *sizes, uint32_t ndim, uint64_t n)
{
	for (uint32_t i = 0; i < ndim; i++)
		n *= (uint64_t)sizes[i];
	return n;
}

/* The first input's elements; broadcasting is ignored. */
static uint64_t elementwise(const struct inputs *in, const struct session_keys *keys)
{
	const int64_t *sizes;
	uint32_t ndim;

	return sizes_of(in, 0, keys, &sizes, &ndim) ? product(sizes, ndim, 1) : 0;
}

/* Matrices at `first` and behind it; all inputs up to them must be tensors. */
static uint64_t matmul(const struct inputs *in, const struct session_keys *keys, uint32_t first,
		       bool batched)
{
	const int64_t *left, *right;
	uint32_t left_ndim, right_ndim;
	uint64_t n;

	if (first && !sizes_of(in, 0, keys, &left, &left_ndim))
		return 0;
	if (!sizes_of(in, first, keys, &left, &left_ndim) ||
	    !sizes_of(in, first + 1, keys, &right, &right_ndim) || !left_ndim)
		return 0;
	if (!left[left_ndim - 1] || (batched && !left[0]))
		return 0;
	n = product(left, left_ndim, 1) / (uint64_t)left[left_ndim - 1];
	if (batched)
		n /= (uint64_t)left[0];
	return product(right, right_ndim, n) * 2;
}

static bool pair_of(const struct inputs *in, uint32_t i, uint64_t pair[2])
{
	const struct value *v = &in->v[i];

	if (v->kind != PTB_VAL_INTS || v->n != 2 || v->present != 2)
		return false;
	memcpy(pair, v->data, 2 * sizeof(*pair));
	return true;
}

static uint64_t conv_out(uint64_t in, uint64_t kernel, uint64_t stride, uint64_t padding,
			 uint64_t dilation)
{
	return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

static uint64_t conv2d(const struct inputs *in, const struct session_keys *keys)
{
	uint64_t stride[2], padding[2], dilation[2], groups, out_h, out_w;
	const int64_t *x, *w;
	uint32_t x_ndim, w_ndim;

	if (in->cnt <= CONV_GROUPS || !sizes_of(in, CONV_INPUT, keys, &x, &x_ndim) ||
	    !sizes_of(in, CONV_WEIGHT, keys, &w, &w_ndim) || x_ndim != 4 || w_ndim != 4)
		return 0;
	if (!pair_of(in, CONV_STRIDE, stride) || !pair_of(in, CONV_PADDING, padding) ||
	    !pair_of(in, CONV_DILATION, dilation) || in->v[CONV_GROUPS].kind != PTB_VAL_INT)
		return 0;
	groups = (uint64_t)in->v[CONV_GROUPS].i;
	if (!groups || !stride[0] || !stride[1] || stride[0] * stride[1] == 0)
		return 0;
	out_h = conv_out((uint64_t)x[2], (uint64_t)w[2], stride[0], padding[0], dilation[0]);
	out_w = conv_out((uint64_t)x[3], (uint64_t)w[3], stride[1], padding[1], dilation[1]);
	return 2 * (uint64_t)x[0] * out_h * out_w * (uint64_t)w[2] * (uint64_t)w[3] *
	       (uint64_t)x[1] * (uint64_t)w[0] / groups;
}

enum formula { CONV2D, MM, ADDMM, BMM, BADDBMM, ELEMENTWISE };

static const struct {
	const char *name;
	enum formula formula;
} ops[] = {
	{ "aten::conv2d", CONV2D },   { "aten::mm", MM },           { "aten::addmm", ADDMM },
	{ "aten::bmm", BMM },         { "aten::baddbmm", BADDBMM }, { "aten::mul", ELEMENTWISE },
	{ "aten::add", ELEMENTWISE },
};

uint64_t input_shapes__flops(const struct slice *sl)
{
	struct value_iter it = values__begin(&sl->in);
	struct inputs in = { .cnt = 0 };
	size_t i;

	if (!(sl->in.flags & VALUES_PRESENT))
		return 0;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, sl->name))
			break;
	if (i == sizeof(ops) / sizeof(ops[0]))
		return 0;
	while (in.cnt < INPUTS_MAX && values__next(&it, &in.v[in.cnt]))
		in.cnt++;
	switch (ops[i].formula) {
	case CONV2D:
		return conv2d(&in, sl->keys);
	case MM:
		return matmul(&in, sl->keys, 0, false);
	case ADDMM:
		return matmul(&in, sl->keys, 1, false);
	case BMM:
		return matmul(&in, sl->keys, 0, true);
	case BADDBMM:
		return matmul(&in, sl->keys, 1, true);
	case ELEMENTWISE:
		return elementwise(&in, sl->keys);
	}
	return 0;
}
