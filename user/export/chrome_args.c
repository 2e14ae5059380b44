/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arguments of a slice in a Chrome trace: what torch's InputOutputEncoder takes of each input, and
 * how it is printed (pytorch torch/csrc/profiler/collection.cpp, util.cpp,
 * autograd/profiler_kineto.cpp). Reports what of it is not known; writes no results, as torch does
 * not.
 */
#include "export/chrome_priv.h"

#include <string.h>

#include "base/text.h"
#include "export/texts.h"

#define LIST_SHOWN_MAX 30 /* SCALAR_LIST_LENGTH_LIMIT, TENSOR_LIST_DISPLAY_LENGTH_LIMIT */

enum shown { SHOWN_OTHER, SHOWN_TENSOR, SHOWN_TENSORS, SHOWN_SCALAR, SHOWN_SCALARS };

struct writer {
	struct jsonw *w;
	const struct session_keys *keys;
	const struct chrome_args_opts *opts;
	struct arg_list args;
	enum shown shown[ARGS_DECODED];
	uint32_t missing; /* CHROME_ARGS_* */
	size_t len;
	char text[2048];
};

static bool is_scalar(const struct value *v)
{
	switch (v->kind) {
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
	case PTB_VAL_BOOL:
	case PTB_VAL_COMPLEX:
		return true;
	case PTB_VAL_OPAQUE: /* a scalar by its tag, of unknown value */
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

/* torch shows nothing of a list with undefined, nested or symbolic tensors. */
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
		return SHOWN_SCALARS;
	if (!values__next(&it, &v) || v.kind == PTB_VAL_UNKNOWN) {
		cw->missing |= CHROME_ARGS_UNKNOWN;
		return SHOWN_OTHER;
	}
	if (list->kind == PTB_VAL_LIST && (v.kind == PTB_VAL_TENSOR || v.kind == PTB_VAL_UNDEFINED))
		return classify_tensors(cw, list);
	if (list->n > LIST_SHOWN_MAX || !is_scalar(&v))
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
		if (v->n > LIST_SHOWN_MAX)
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
 * A list of a boxed call, or of an operator that the agent records, does not say what it would be a
 * list of when it holds nothing, or tensors only (Tensor[] and Tensor?[]); the operator's schema
 * does.
 */
static enum shown classify_input(struct writer *cw, const struct slice *sl, uint32_t nr)
{
	const struct value *v = &cw->args.v[nr];
	bool unclear = v->kind == PTB_VAL_TENSORS || (v->kind == PTB_VAL_LIST && !v->n);
	struct op_schema schema;

	if (!unclear || (sl->kind != PTB_FUNC_BOXED && sl->kind != PTB_FUNC_OP))
		return classify(cw, v);
	op_schemas__get(cw->opts->schemas, sl->schema, &schema);
	if (nr >= schema.cnt)
		return classify(cw, v);
	if (schema.args[nr] & OP_ARG_TENSORS)
		return classify_tensors(cw, v);
	if (schema.args[nr] & OP_ARG_OPT_TENSORS)
		return v->n ? SHOWN_OTHER : classify_list(cw, v);
	return classify(cw, v);
}

static enum shown shown_as(struct writer *cw, const struct arg_walk *aw, const struct value *v)
{
	return v == &aw->tmp ? classify(cw, v) : cw->shown[aw->at - 1];
}

/*
 * The arrays are built as text, of which nothing needs escaping, and written at once: one call of
 * the writer for each element would cost more than the elements.
 */
#define put_lit(cw, lit)                                                                           \
	(memcpy((cw)->text + (cw)->len, lit, sizeof(lit) - 1), (cw)->len += sizeof(lit) - 1)

/* Makes room for `need` bytes, at most the size of the buffer. */
static void room(struct writer *cw, size_t need)
{
	if (cw->len + need <= sizeof(cw->text))
		return;
	jsonw__more(cw->w, cw->text, cw->len);
	cw->len = 0;
}

#define ITEM_ROOM (TEXT_SCALAR_MAX + 32) /* the longest scalar or name, quotes, separator */

/* Before each element of an array: nr counts them. */
static void next_item(struct writer *cw, uint32_t nr, size_t need)
{
	room(cw, need);
	if (nr)
		put_lit(cw, ", ");
}

/* ---- Concrete Inputs ---- */

static void put_scalars(struct writer *cw, const struct value *list)
{
	struct elem_walk e = elem_walk__begin(list, LIST_SHOWN_MAX);
	const struct value *v;

	put_lit(cw, "\"[");
	for (uint32_t i = 0; (v = elem_walk__next(&e)); i++) {
		next_item(cw, i, ITEM_ROOM);
		/* symbolic: torch prints an expression of Python's */
		if (v->kind == PTB_VAL_OPAQUE)
			put_lit(cw, "<SymInt>");
		else
			cw->len += text__scalar(cw->text + cw->len, v);
	}
	put_lit(cw, "]\"");
}

static void put_concrete(struct writer *cw)
{
	const struct value *v;
	struct arg_walk aw;

	arg_walk__begin(&aw, &cw->args);
	for (uint32_t nr = 0; (v = arg_walk__next(&aw)); nr++) {
		enum shown shown = shown_as(cw, &aw, v);

		next_item(cw, nr, ITEM_ROOM);
		if (shown == SHOWN_SCALARS) {
			put_scalars(cw, v);
			continue;
		}
		put_lit(cw, "\"");
		if (shown == SHOWN_SCALAR)
			cw->len += text__scalar(cw->text + cw->len, v);
		put_lit(cw, "\"");
	}
}

/* ---- Input type ---- */

static void put_dtype(struct writer *cw, uint32_t dtype)
{
	const char *name = dtype__cxx_name(dtype);

	if (!name)
		return; /* noted as not known */
	memcpy(cw->text + cw->len, name, strlen(name));
	cw->len += strlen(name);
}

static void put_types(struct writer *cw)
{
	const struct value *v;
	struct arg_walk aw;

	arg_walk__begin(&aw, &cw->args);
	for (uint32_t nr = 0; (v = arg_walk__next(&aw)); nr++) {
		next_item(cw, nr, ITEM_ROOM);
		put_lit(cw, "\"");
		switch (shown_as(cw, &aw, v)) {
		case SHOWN_TENSOR:
			put_dtype(cw, v->dtype);
			break;
		case SHOWN_TENSORS:
			put_lit(cw, "TensorList");
			break;
		case SHOWN_SCALAR:
			put_lit(cw, "Scalar");
			break;
		case SHOWN_SCALARS:
			put_lit(cw, "ScalarList");
			break;
		default:
			break;
		}
		put_lit(cw, "\"");
	}
}

/* ---- Input Dims, Input Strides ---- */

#define DIMS_ROOM (PTB_DIMS_MAX * (DECIMAL_MAX + 2) + 16)

static void put_input_dims(struct writer *cw, const struct value *v, bool strides)
{
	const int64_t *dims = strides ? v->strides : v->sizes;
	uint32_t ndim = v->ndim < PTB_DIMS_MAX ? v->ndim : PTB_DIMS_MAX;

	if (strides && !tensor__is_strided(v, cw->keys))
		dims = NULL; /* other layouts have numbers there that mean nothing */
	put_lit(cw, "[");
	if (dims)
		cw->len += decimal__i64s(cw->text + cw->len, dims, ndim);
	put_lit(cw, "]");
}

static void put_list_dims(struct writer *cw, const struct value *list, bool strides)
{
	struct value_iter it = values__begin(&list->elems);
	struct value v;

	put_lit(cw, "[");
	if (list->n <= LIST_SHOWN_MAX) {
		for (uint32_t nr = 0; values__next(&it, &v); nr++) {
			next_item(cw, nr, DIMS_ROOM);
			put_input_dims(cw, &v, strides);
		}
	}
	put_lit(cw, "]");
}

static void put_shapes(struct writer *cw, bool strides)
{
	const struct value *v;
	struct arg_walk aw;

	arg_walk__begin(&aw, &cw->args);
	for (uint32_t nr = 0; (v = arg_walk__next(&aw)); nr++) {
		enum shown shown = shown_as(cw, &aw, v);

		next_item(cw, nr, DIMS_ROOM);
		if (shown == SHOWN_TENSOR)
			put_input_dims(cw, v, strides);
		else if (shown == SHOWN_TENSORS)
			put_list_dims(cw, v, strides);
		else
			put_lit(cw, "[]");
	}
}

static void end_array(struct writer *cw)
{
	room(cw, ITEM_ROOM);
	put_lit(cw, "]");
	jsonw__more(cw->w, cw->text, cw->len);
	cw->len = 0;
}

static void begin_array(struct writer *cw)
{
	jsonw__raw_n(cw->w, "[", 1);
}

/* As text the next array goes on with the one before it; a token is one value. */
#define next_array(cw, key)                                                                        \
	do {                                                                                       \
		if ((cw)->w->take) {                                                               \
			end_array(cw);                                                             \
			JSONW_KEY((cw)->w, key);                                                   \
			begin_array(cw);                                                           \
		} else {                                                                           \
			room(cw, ITEM_ROOM);                                                       \
			put_lit(cw, "], \"" key "\": [");                                          \
		}                                                                                  \
	} while (0)

static void put_arrays(struct writer *cw)
{
	cw->len = 0;
	JSONW_KEY(cw->w, "Concrete Inputs");
	begin_array(cw);
	put_concrete(cw);
	next_array(cw, "Input type");
	put_types(cw);
	next_array(cw, "Input Strides");
	put_shapes(cw, true);
	next_array(cw, "Input Dims");
	put_shapes(cw, false);
	end_array(cw);
}

uint32_t chrome_args__write(struct jsonw *w, const struct slice *sl,
			    const struct chrome_args_opts *opts)
{
	struct writer cw; /* not cleared: it is large, and a trace has millions of slices */

	if (!(sl->in.flags & VALUES_PRESENT))
		return opts->inputs && slice__lacks_inputs(sl) ? CHROME_ARGS_UNKNOWN : 0;
	cw.w = w;
	cw.keys = sl->keys;
	cw.opts = opts;
	cw.missing = sl->in.flags & VALUES_CUT ? CHROME_ARGS_CUT : 0;
	arg_list__read(&cw.args, &sl->in);
	if (!cw.args.cnt) /* torch omits what is empty */
		return cw.missing;
	for (uint32_t i = 0; i < cw.args.cnt; i++)
		cw.shown[i] = classify_input(&cw, sl, i);
	put_arrays(&cw);
	chrome_comms__write(w, sl, &cw.args);
	return cw.missing;
}
