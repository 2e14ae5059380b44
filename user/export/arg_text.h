/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What both writers of arguments need: values decoded once although four arrays are made of them, and
 * numbers as torch writes them. Private to user/export; knows no file format.
 */
#ifndef EXPORT_ARG_TEXT_H
#define EXPORT_ARG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/session.h"

#define ARGS_DECODED 32 /* values kept decoded; those behind them are decoded again by each walk */

struct arg_list {
	struct value v[ARGS_DECODED];
	uint32_t cnt;
	struct value_iter rest;
};

void arg_list__read(struct arg_list *al, const struct slice_values *sv);

struct arg_walk {
	const struct arg_list *al;
	uint32_t at;
	struct value_iter rest;
	struct value tmp;
};

void arg_walk__begin(struct arg_walk *aw, const struct arg_list *al);
const struct value *arg_walk__next(struct arg_walk *aw); /* NULL at the end */

/* The elements of a list that are recorded, at most so many of them. */
struct elem_walk {
	const struct value *list;
	struct value_iter it;
	uint32_t at, cnt;
	struct value v;
};

struct elem_walk elem_walk__begin(const struct value *list, uint32_t most);
const struct value *elem_walk__next(struct elem_walk *e); /* NULL at the end */

/* What a tensor is to torch's profilers, by the meaning of its keys. */
bool tensor__is_nested(const struct value *v, const struct session_keys *keys);
bool tensor__is_strided(const struct value *v, const struct session_keys *keys);

static inline bool slice__is_operator(const struct slice *sl)
{
	return sl->kind == PTB_FUNC_OP || sl->kind == PTB_FUNC_BOXED;
}

/* Has it inputs that were not recorded? Annotations may have arguments, evaluate_function has none. */
static inline bool slice__lacks_inputs(const struct slice *sl)
{
	return !(sl->in.flags & VALUES_PRESENT) &&
	       (slice__is_operator(sl) || sl->kind == PTB_FUNC_NODE_CALL ||
		sl->kind == PTB_FUNC_PYFUNC || sl->kind == PTB_FUNC_SCRIPT);
}

/* As std::to_string(): "0.500000", "inf", "-nan". */
#define TEXT_FIXED_MAX 328
size_t text__fixed(char *buf, double d);
/* A scalar as IValue's operator<< prints it: "6", "True", "0.", "1e-08", "1.+2.j"; 0: not a scalar. */
#define TEXT_SCALAR_MAX 96
size_t text__scalar(char *buf, const struct value *v);

#endif /* EXPORT_ARG_TEXT_H */
