/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Decoded arguments and numbers as torch writes them; see texts.h. */
#include "export/texts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void arg_list__read(struct arg_list *al, const struct slice_values *sv)
{
	al->rest = values__begin(sv);
	al->cnt = 0;
	while (al->cnt < ARGS_DECODED && values__next(&al->rest, &al->v[al->cnt]))
		al->cnt++;
}

void arg_walk__begin(struct arg_walk *aw, const struct arg_list *al)
{
	aw->al = al;
	aw->at = 0;
	aw->rest = al->rest;
}

const struct value *arg_walk__next(struct arg_walk *aw)
{
	if (aw->at < aw->al->cnt)
		return &aw->al->v[aw->at++];
	return aw->al->cnt == ARGS_DECODED && values__next(&aw->rest, &aw->tmp) ? &aw->tmp : NULL;
}

struct elem_walk elem_walk__begin(const struct value *list, uint32_t most)
{
	return (struct elem_walk){ .list = list,
				   .it = values__begin(&list->elems),
				   .cnt = list->present < most ? list->present : most };
}

const struct value *elem_walk__next(struct elem_walk *e)
{
	uint32_t i = e->at++;

	if (i >= e->cnt)
		return NULL;
	switch (e->list->kind) {
	case PTB_VAL_INTS:
		e->v = value__int_elem(e->list, i);
		return &e->v;
	case PTB_VAL_DOUBLES:
		e->v = (struct value){ .kind = PTB_VAL_DOUBLE,
				       .d = ((const double *)e->list->data)[i] };
		return &e->v;
	case PTB_VAL_BOOLS:
		e->v = (struct value){ .kind = PTB_VAL_BOOL,
				       .i = ((const uint8_t *)e->list->data)[i] };
		return &e->v;
	default:
		return values__next(&e->it, &e->v) ? &e->v : NULL;
	}
}

bool tensor__is_nested(const struct value *v, const struct session_keys *keys)
{
	return v->keys & keys->nested;
}

bool tensor__is_strided(const struct value *v, const struct session_keys *keys)
{
	return !(v->keys & (keys->no_strides | keys->sparse_csr));
}

/* Is d an integer that int64_t holds? */
static bool as_integer(double d, int64_t *i)
{
	if (!(d >= -0x1p63 && d < 0x1p63))
		return false;
	*i = (int64_t)d;
	return !((double)*i < d || (double)*i > d);
}

size_t text__fixed(char *buf, double d)
{
	int64_t i;
	size_t n;

	if (as_integer(d, &i) && (i || !signbit(d))) { /* most are, and printf() is slow */
		n = decimal__i64(buf, i);
		memcpy(buf + n, ".000000", 7);
		return n + 7;
	}
	return (size_t)snprintf(buf, TEXT_FIXED_MAX, "%f", d);
}

/* pytorch aten/src/ATen/core/ivalue.cpp, operator<<: integers end in a point, the rest has 17
 * digits. */
static size_t text_double(char *buf, double d)
{
	int cls = fpclassify(d);
	int64_t i;
	size_t n;

	if ((cls == FP_NORMAL || cls == FP_ZERO) && as_integer(d, &i)) {
		n = decimal__i64(buf, i);
		buf[n] = '.';
		return n + 1;
	}
	return (size_t)snprintf(buf, 32, "%.17g", d);
}

size_t text__scalar(char *buf, const struct value *v)
{
	size_t n;

	switch (v->kind) {
	case PTB_VAL_INT:
		return decimal__i64(buf, v->i);
	case PTB_VAL_DOUBLE:
		return text_double(buf, v->d);
	case PTB_VAL_BOOL:
		n = v->i ? 4 : 5;
		memcpy(buf, v->i ? "True" : "False", n);
		return n;
	case PTB_VAL_COMPLEX: /* the sign of zero and of nan is that of a comparison with 0 */
		n = text_double(buf, v->d);
		buf[n++] = v->imag >= 0 ? '+' : '-';
		n += text_double(buf + n, fabs(v->imag));
		buf[n++] = 'j';
		return n;
	default:
		return 0;
	}
}
