/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The text of a slice's input shapes; see facts.h. A tensor is its sizes, everything else "[]",
 * lists of tensors too. What was not recorded is "?", not "[]": torch would have known.
 */
#include "model/facts.h"

#include <string.h>

#include "base/containers.h"
#include "base/text.h"

static void reserve_text(struct shapes_text *st, uint32_t more)
{
	vec_reserve((void **)&st->text, &st->cap, (uint64_t)st->len + more + 1, 1);
}

static void put_text(struct shapes_text *st, const char *text)
{
	uint32_t n = (uint32_t)strlen(text);

	reserve_text(st, n);
	memcpy(st->text + st->len, text, n + 1);
	st->len += n;
}

static void put_sizes(struct shapes_text *st, const int64_t *sizes, uint32_t ndim)
{
	reserve_text(st, 2 + ndim * (DECIMAL_MAX + 2));
	st->text[st->len++] = '[';
	st->len += (uint32_t)decimal__i64s(st->text + st->len, sizes, ndim);
	st->text[st->len++] = ']';
	st->text[st->len] = '\0';
}

static void put_value(struct shapes_text *st, const struct value *v,
		      const struct session_keys *keys)
{
	if (v->kind == PTB_VAL_UNKNOWN)
		put_text(st, "?");
	else if (v->kind != PTB_VAL_TENSOR || v->flags & PTB_VAL_F_SYMBOLIC ||
		 v->keys & keys->nested)
		put_text(st, "[]");
	else if (v->flags & PTB_VAL_F_DIMS_CUT)
		put_text(st, "[...]");
	else
		put_sizes(st, v->sizes, v->ndim);
}

void input_shapes__text(const struct slice *sl, struct shapes_text *st)
{
	struct value_iter it = values__begin(&sl->in);
	const char *sep = "";
	struct value v;

	st->len = 0;
	if (!(sl->in.flags & VALUES_PRESENT)) {
		bool inputs =
			sl->kind == PTB_FUNC_OP || sl->kind == PTB_FUNC_BOXED ||
			sl->kind == PTB_FUNC_NODE_CALL; /* torch records those of no other slice */

		put_text(st, inputs ? "?" : "[]");
		return;
	}
	put_text(st, "[");
	while (values__next(&it, &v)) {
		put_text(st, sep);
		put_value(st, &v, sl->keys);
		sep = ", ";
	}
	if (sl->in.flags & VALUES_CUT) {
		put_text(st, sep);
		put_text(st, "...");
	}
	put_text(st, "]");
}
