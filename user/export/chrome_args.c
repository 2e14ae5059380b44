/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments of a slice in a Chrome trace: what torch's InputOutputEncoder takes of each input, and how it
 * is printed (pytorch torch/csrc/profiler/collection.cpp, util.cpp, autograd/profiler_kineto.cpp). Says
 * what of it is not known; must not say anything of results, torch does not.
 */
#include "export/chrome_priv.h"

#include <string.h>

#include "export/arg_text.h"

#define LIST_SHOWN_MAX 30 /* SCALAR_LIST_LENGTH_LIMIT, TENSOR_LIST_DISPLAY_LENGTH_LIMIT */

enum shown { SHOWN_OTHER, SHOWN_TENSOR, SHOWN_TENSORS, SHOWN_SCALAR, SHOWN_SCALARS };

struct writer {
	struct jsonw *w;
	const struct session_keys *keys;
	const struct chrome_args_opts *opts;
	struct arg_list args;
	enum shown shown[ARGS_DECODED];
	uint32_t missing; /* CHROME_ARGS_* */
};

#define put_lit(w, text) jsonw__raw_n(w, text, sizeof(text) - 1)

static bool is_scalar(const struct value *v)
{
	switch (v->kind) {
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
	case PTB_VAL_BOOL:
	case PTB_VAL_COMPLEX:
		return true;
	case PTB_VAL_OPAQUE: /* one by its tag, whose number is not known */
		return v->i == PTB_OPAQUE_SymInt || v->i == PTB_OPAQUE_SymFloat ||
		       v->i == PTB_OPAQUE_SymBool || v->i == PTB_OPAQUE_Int ||
		       v->i == PTB_OPAQUE_Double || v->i == PTB_OPAQUE_UInt;
	default:
		return false;
	}
}

/* A tensor whose shape the encoder takes; the others it takes for undefined. */
static bool is_plain(const struct writer *cw, const struct value *v)
{
	return v->kind == PTB_VAL_TENSOR && !(v->flags & PTB_VAL_F_SYMBOLIC) &&
	       !tensor__is_nested(v, cw->keys);
}

static void note_tensor(struct writer *cw, const struct value *v)
{
	if ((v->flags & PTB_VAL_F_DIMS_CUT) || v->ndim > PTB_DIMS_MAX)
		cw->missing |= CHROME_ARGS_CUT;
	if (!dtype__cxx_name(v->dtype))
		cw->missing |= CHROME_ARGS_UNKNOWN;
}

/* Undefined, nested or symbolic tensors among them make the whole list nothing. */
static enum shown classify_tensors(struct writer *cw, const struct value *list)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	while (values__next(&it, &v)) {
		if (v.kind == PTB_VAL_UNKNOWN)
			cw->missing |= CHROME_ARGS_UNKNOWN;
		if (!is_plain(cw, &v))
			return SHOWN_OTHER;
		if (list->n <= LIST_SHOWN_MAX)
			note_tensor(cw, &v);
	}
	if (list->n <= LIST_SHOWN_MAX && list->present < list->n)
		cw->missing |= CHROME_ARGS_CUT;
	return SHOWN_TENSORS;
}

/* The first element says what a list is. */
static enum shown classify_list(struct writer *cw, const struct value *list)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	if (!list->n)
		return cw->opts->no_concrete ? SHOWN_OTHER : SHOWN_SCALARS;
	if (!values__next(&it, &v) || v.kind == PTB_VAL_UNKNOWN) {
		cw->missing |= CHROME_ARGS_UNKNOWN;
		return SHOWN_OTHER;
	}
	if (list->kind == PTB_VAL_LIST && (v.kind == PTB_VAL_TENSOR || v.kind == PTB_VAL_UNDEFINED))
		return classify_tensors(cw, list);
	if (cw->opts->no_concrete || list->n > LIST_SHOWN_MAX || !is_scalar(&v))
		return SHOWN_OTHER;
	if (list->present < list->n)
		cw->missing |= CHROME_ARGS_CUT;
	return SHOWN_SCALARS;
}

static enum shown classify(struct writer *cw, const struct value *v)
{
	if (is_scalar(v)) {
		if (v->kind == PTB_VAL_OPAQUE)
			cw->missing |= CHROME_ARGS_UNKNOWN;
		return SHOWN_SCALAR;
	}
	switch (v->kind) {
	case PTB_VAL_TENSOR:
		if (!is_plain(cw, v))
			return SHOWN_OTHER;
		note_tensor(cw, v);
		return SHOWN_TENSOR;
	case PTB_VAL_TENSORS:
		return classify_tensors(cw, v);
	case PTB_VAL_LIST:
	case PTB_VAL_OPT_TENSORS:
		return classify_list(cw, v);
	case PTB_VAL_INTS:
	case PTB_VAL_DOUBLES:
	case PTB_VAL_BOOLS:
		if (cw->opts->no_concrete || v->n > LIST_SHOWN_MAX)
			return SHOWN_OTHER;
		if (v->present < v->n)
			cw->missing |= CHROME_ARGS_CUT;
		return SHOWN_SCALARS;
	case PTB_VAL_UNKNOWN:
		cw->missing |= CHROME_ARGS_UNKNOWN;
		return SHOWN_OTHER;
	default:
		return SHOWN_OTHER;
	}
}

/*
 * A list of a boxed call does not tell what it would be a list of when it holds nothing, or tensors only
 * (Tensor[] and Tensor?[]); the operator's schema does.
 */
static enum shown classify_input(struct writer *cw, const struct slice *sl, uint32_t nr)
{
	const struct value *v = &cw->args.v[nr];
	bool unclear = v->kind == PTB_VAL_TENSORS || (v->kind == PTB_VAL_LIST && !v->n);

	if (!unclear || sl->kind != PTB_FUNC_BOXED || !sl->schema)
		return classify(cw, v);
	switch (schema__list(sl->schema, nr)) {
	case SCHEMA_TENSORS:
		return classify_tensors(cw, v);
	case SCHEMA_OPT_TENSORS:
		return v->n ? SHOWN_OTHER : classify_list(cw, v);
	default:
		return classify(cw, v);
	}
}

static enum shown shown_as(struct writer *cw, const struct arg_walk *aw, const struct value *v)
{
	return v == &aw->tmp ? classify(cw, v) : cw->shown[aw->at - 1];
}

/* ---- Concrete Inputs ---- */

static void put_scalars(struct jsonw *w, const struct value *list)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v = { 0 };
	uint32_t i, cnt = list->present < LIST_SHOWN_MAX ? list->present : LIST_SHOWN_MAX;
	char buf[TEXT_SCALAR_MAX];
	size_t n;

	jsonw__str_begin(w);
	jsonw__str_put(w, "[", 1);
	for (i = 0; i < cnt; i++) {
		if (list->kind == PTB_VAL_INTS)
			v = (struct value){ .kind = PTB_VAL_INT, .i = ((const int64_t *)list->data)[i] };
		else if (list->kind == PTB_VAL_DOUBLES)
			v = (struct value){ .kind = PTB_VAL_DOUBLE, .d = ((const double *)list->data)[i] };
		else if (list->kind == PTB_VAL_BOOLS)
			v = (struct value){ .kind = PTB_VAL_BOOL, .i = ((const uint8_t *)list->data)[i] };
		else if (!values__next(&it, &v))
			break;
		n = text__scalar(buf, &v);
		if (i)
			jsonw__str_put(w, ", ", 2);
		jsonw__str_put(w, buf, n);
	}
	jsonw__str_put(w, "]", 1);
	jsonw__str_end(w);
}

static void put_scalar(struct jsonw *w, const struct value *v)
{
	char buf[TEXT_SCALAR_MAX + 2];
	size_t n;

	buf[0] = '"';
	n = 1 + text__scalar(buf + 1, v);
	buf[n++] = '"';
	jsonw__raw_n(w, buf, n); /* nothing to escape in it */
}

static void put_concrete(struct writer *cw)
{
	struct arg_walk aw = arg_walk__begin(&cw->args);
	const struct value *v;

	JSONW_KEY(cw->w, "Concrete Inputs");
	jsonw__begin_arr(cw->w);
	while ((v = arg_walk__next(&aw))) {
		enum shown shown = shown_as(cw, &aw, v);

		if (shown == SHOWN_SCALAR)
			put_scalar(cw->w, v);
		else if (shown == SHOWN_SCALARS)
			put_scalars(cw->w, v);
		else
			put_lit(cw->w, "\"\"");
	}
	jsonw__end_arr(cw->w);
}

/* ---- Input type ---- */

static void put_types(struct writer *cw)
{
	struct arg_walk aw = arg_walk__begin(&cw->args);
	const struct value *v;
	const char *name;

	JSONW_KEY(cw->w, "Input type");
	jsonw__begin_arr(cw->w);
	while ((v = arg_walk__next(&aw))) {
		switch (shown_as(cw, &aw, v)) {
		case SHOWN_TENSOR:
			name = dtype__cxx_name(v->dtype);
			jsonw__str(cw->w, name ? name : "");
			break;
		case SHOWN_TENSORS:
			put_lit(cw->w, "\"TensorList\"");
			break;
		case SHOWN_SCALAR:
			put_lit(cw->w, "\"Scalar\"");
			break;
		case SHOWN_SCALARS:
			put_lit(cw->w, "\"ScalarList\"");
			break;
		default:
			put_lit(cw->w, "\"\"");
			break;
		}
	}
	jsonw__end_arr(cw->w);
}

/* ---- Input Dims, Input Strides ---- */

static void put_dims(struct writer *cw, const struct value *v, bool strides)
{
	const int64_t *dims = strides ? v->strides : v->sizes;
	char buf[PTB_DIMS_MAX * (TEXT_I64_MAX + 2) + 2];
	uint32_t ndim = v->ndim < PTB_DIMS_MAX ? v->ndim : PTB_DIMS_MAX;
	size_t n = 1;

	if (strides && !tensor__is_strided(v, cw->keys))
		dims = NULL; /* other layouts have numbers there that mean nothing */
	buf[0] = '[';
	if (dims)
		n += text__i64s(buf + 1, dims, ndim, ", ");
	buf[n++] = ']';
	jsonw__raw_n(cw->w, buf, n);
}

static void put_list_dims(struct writer *cw, const struct value *list, bool strides)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	if (list->n > LIST_SHOWN_MAX || (cw->opts->no_concrete && !strides)) {
		put_lit(cw->w, "[]");
		return;
	}
	jsonw__begin_arr(cw->w);
	while (values__next(&it, &v))
		put_dims(cw, &v, strides);
	jsonw__end_arr(cw->w);
}

static void put_shapes(struct writer *cw, bool strides)
{
	struct arg_walk aw = arg_walk__begin(&cw->args);
	const struct value *v;

	if (strides)
		JSONW_KEY(cw->w, "Input Strides");
	else
		JSONW_KEY(cw->w, "Input Dims");
	jsonw__begin_arr(cw->w);
	while ((v = arg_walk__next(&aw))) {
		enum shown shown = shown_as(cw, &aw, v);

		if (shown == SHOWN_TENSOR)
			put_dims(cw, v, strides);
		else if (shown == SHOWN_TENSORS)
			put_list_dims(cw, v, strides);
		else
			put_lit(cw->w, "[]");
	}
	jsonw__end_arr(cw->w);
}

uint32_t chrome_args__write(struct jsonw *w, const struct slice *sl, const struct chrome_args_opts *opts)
{
	struct writer cw; /* not cleared: it is large, and a trace has millions of slices */
	uint32_t i;

	if (!(sl->in.flags & VALUES_PRESENT))
		return 0;
	cw.w = w;
	cw.keys = sl->keys;
	cw.opts = opts;
	cw.missing = sl->in.flags & VALUES_CUT ? CHROME_ARGS_CUT : 0;
	arg_list__read(&cw.args, &sl->in);
	if (!cw.args.cnt) /* torch omits what is empty */
		return cw.missing;
	for (i = 0; i < cw.args.cnt; i++)
		cw.shown[i] = classify_input(&cw, sl, i);
	put_concrete(&cw);
	put_types(&cw);
	put_shapes(&cw, true);
	put_shapes(&cw, false);
	return cw.missing;
}
