/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Values of an Execution Trace as pytorch
 * torch/csrc/profiler/standalone/execution_trace_observer.cpp writes them. The four arrays of a
 * side are made from one walk order, so they have equal lengths also where values are missing: what
 * is not known is "<Unknown>" and what was cut ends in "<Cut>", both of type "Unknown". Knows
 * nothing of nodes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/et_priv.h"

#include "base/text.h"

#define LIST_MAX 4097 /* kMaxNumElements + 1: torch checks after it wrote an element */

struct side {
	struct jsonw *w;
	const struct session_keys *keys;
	struct et_ids *ids;
	struct et_missing *missing;
};

enum part { VALUES, SHAPES, TYPES, STRIDES };

static void put_part(const struct side *s, const struct value *v, enum part part);

#define put_lit(w, text) jsonw__raw_n(w, text, sizeof(text) - 1)
#define put_type(w, text) jsonw__str_put(w, text, sizeof(text) - 1)

uint64_t et_id__object(struct et_ids *ids, uint64_t key, enum et_object what)
{
	if (!hashmap__get(&ids->seen, key, what)) {
		hashmap__put(&ids->seen, key, what, 1);
		ids->cnt[what]++;
	}
	return 2 * (what == ET_THREAD ? key : ET_TIDS_END + key) + 1;
}

/* What stands for elements or values that are not here. */
static const struct value cut_mark = { .kind = PTB_VAL_UNKNOWN, .flags = PTB_VAL_F_CUT };

static bool is_list(const struct value *v)
{
	switch (v->kind) {
	case PTB_VAL_INTS:
	case PTB_VAL_DOUBLES:
	case PTB_VAL_BOOLS:
	case PTB_VAL_LIST:
	case PTB_VAL_TUPLE:
	case PTB_VAL_TENSORS:
	case PTB_VAL_OPT_TENSORS:
		return true;
	default:
		return false;
	}
}

static void put_elems(const struct side *s, const struct value *list, enum part part)
{
	uint32_t most = list->n < LIST_MAX ? list->n : LIST_MAX;
	struct elem_walk e = elem_walk__begin(list, most);
	const struct value *v;
	bool first = true, cut = e.cnt < most;

	if (part != TYPES)
		jsonw__begin_arr(s->w);
	while ((v = elem_walk__next(&e)) || cut) {
		cut = cut && v;
		v = v ? v : &cut_mark;
		if (part == TYPES && !first)
			put_type(s->w, ",");
		first = false;
		put_part(s, v, part);
	}
	if (part != TYPES)
		jsonw__end_arr(s->w);
}

/* ---- values ---- */

/* Tensors of some layouts have no storage; then torch writes neither device nor sizes. */
static bool has_storage(const struct value *v)
{
	return v->storage || (v->flags & PTB_VAL_F_STORAGE) || !(v->flags & PTB_VAL_F_IDS);
}

static size_t device_text(char *buf, size_t cap, uint32_t type, int index)
{
	const char *name = device__type_name(type);

	if (!name)
		return (size_t)snprintf(buf, cap, "Unknown");
	return (size_t)(index < 0 ? snprintf(buf, cap, "%s", name) :
				    snprintf(buf, cap, "%s:%d", name, index));
}

static void put_device_value(const struct side *s, uint32_t type, int index)
{
	char buf[32];

	if (!type && index < 0) {
		put_lit(s->w, "\"cpu\"");
		return;
	}
	if (!device__type_name(type))
		s->missing->unknown++;
	jsonw__str_begin(s->w);
	jsonw__str_put(s->w, buf, device_text(buf, sizeof(buf), type, index));
	jsonw__str_end(s->w);
}

static void put_tensor(const struct side *s, const struct value *v)
{
	bool ids = v->flags & PTB_VAL_F_IDS;

	if ((v->flags & PTB_VAL_F_DIMS_CUT) || v->ndim > PTB_DIMS_MAX)
		s->missing->cut++;
	/* of a nested tensor the field is not its number of elements */
	if (!ids || !dtype__cxx_name(v->dtype) ||
	    (tensor__is_nested(v, s->keys) && !(v->flags & PTB_VAL_F_SYMBOLIC)))
		s->missing->unknown++;
	jsonw__begin_arr(s->w);
	jsonw__u64(s->w, ids ? et_id__object(s->ids, v->tensor, ET_TENSOR) : 0);
	if ((v->flags & PTB_VAL_F_SYMBOLIC) || !has_storage(v)) {
		put_lit(s->w, "0, 0, 0, 0, \"\"");
	} else {
		/* a storage without data has an id, too: that of address 0 */
		jsonw__u64(s->w, ids ? et_id__object(s->ids, v->storage_id, ET_STORAGE) : 0);
		jsonw__i64(s->w, v->offset);
		jsonw__i64(s->w, v->numel);
		jsonw__u64(s->w, dtype__itemsize(v->dtype));
		put_device_value(s, v->device_type, v->device_index);
	}
	jsonw__end_arr(s->w);
}

static void put_undefined(const struct side *s, const struct value *v)
{
	jsonw__begin_arr(s->w);
	jsonw__u64(s->w, et_id__object(s->ids, v->tensor, ET_TENSOR));
	put_lit(s->w, "0, 0, 0, 0, \"\"");
	jsonw__end_arr(s->w);
}

static void put_double(const struct side *s, double d)
{
	char buf[TEXT_FIXED_MAX + 2];
	size_t n;

	if (isfinite(d)) {
		jsonw__raw_n(s->w, buf, text__fixed(buf, d));
		return;
	}
	buf[0] = '"';
	n = 1 + text__fixed(buf + 1, d);
	buf[n++] = '"';
	jsonw__raw_n(s->w, buf, n);
}

static void put_string(const struct side *s, const struct value *v)
{
	uint32_t n = v->present < v->n ? v->present : v->n;

	jsonw__str_begin(s->w);
	jsonw__str_put(s->w, v->data, n);
	if (n < v->n) {
		s->missing->cut++;
		jsonw__str_put(s->w, "<Cut>", 5);
	}
	jsonw__str_end(s->w);
}

/* Name of the tag of a value that torch does not print; NULL: torch would print what is not known
 * here. */
static const char *opaque_name(const struct value *v)
{
	static const char *const names[] = {
#define X(name, nr) [nr] = #name,
		PTB_OPAQUES(X)
#undef X
	};

	if (v->i == PTB_OPAQUE_Int || v->i == PTB_OPAQUE_Double || v->i == PTB_OPAQUE_Other)
		return NULL;
	return v->i >= 0 && v->i < (int64_t)(sizeof(names) / sizeof(names[0])) ? names[v->i] : NULL;
}

static void put_opaque(const struct side *s, const struct value *v)
{
	const char *name = opaque_name(v);

	if (!name) {
		s->missing->unknown++;
		put_lit(s->w, "\"<Unknown>\"");
		return;
	}
	jsonw__str_begin(s->w);
	jsonw__str_put(s->w, "<", 1);
	jsonw__str_put(s->w, name, strlen(name));
	jsonw__str_put(s->w, ">", 1);
	jsonw__str_end(s->w);
}

static void put_value(const struct side *s, const struct value *v)
{
	switch (v->kind) {
	case PTB_VAL_TENSOR:
		put_tensor(s, v);
		break;
	case PTB_VAL_UNDEFINED:
		put_undefined(s, v);
		break;
	case PTB_VAL_INT:
		jsonw__i64(s->w, v->i);
		break;
	case PTB_VAL_BOOL:
		jsonw__bool(s->w, v->i);
		break;
	case PTB_VAL_DOUBLE:
		put_double(s, v->d);
		break;
	case PTB_VAL_STRING:
		put_string(s, v);
		break;
	case PTB_VAL_DEVICE:
		put_device_value(s, v->device_type, v->device_index);
		break;
	case PTB_VAL_NONE:
		put_lit(s->w, "\"<None>\"");
		break;
	case PTB_VAL_COMPLEX:
		put_lit(s->w, "\"<ComplexDouble>\"");
		break;
	case PTB_VAL_OPAQUE:
		put_opaque(s, v);
		break;
	default:
		if (v->flags & PTB_VAL_F_CUT) {
			s->missing->cut++;
			put_lit(s->w, "\"<Cut>\"");
		} else {
			s->missing->unknown++;
			put_lit(s->w, "\"<Unknown>\"");
		}
		break;
	}
}

/* ---- shapes, strides ---- */

static void put_value_dims(const struct side *s, const struct value *v, bool strides)
{
	const int64_t *dims = strides ? v->strides : v->sizes;
	uint32_t ndim = v->ndim < PTB_DIMS_MAX ? v->ndim : PTB_DIMS_MAX;
	char buf[PTB_DIMS_MAX * (DECIMAL_MAX + 2) + 2];
	size_t n = 1;

	if (v->kind != PTB_VAL_TENSOR || (v->flags & PTB_VAL_F_SYMBOLIC) ||
	    tensor__is_nested(v, s->keys) || (strides && (v->keys & s->keys->sparse_csr)))
		dims = NULL; /* torch writes none */
	buf[0] = '[';
	if (dims)
		n += decimal__i64s(buf + 1, dims, ndim);
	buf[n++] = ']';
	jsonw__raw_n(s->w, buf, n);
}

/* ---- types ---- */

static void put_type_name(const struct side *s, const struct value *v)
{
	static const char *const names[] = {
		[PTB_VAL_UNDEFINED] = "Tensor(nullptr (uninitialized))",
		[PTB_VAL_INT] = "Int",
		[PTB_VAL_BOOL] = "Bool",
		[PTB_VAL_DOUBLE] = "Double",
		[PTB_VAL_STRING] = "String",
		[PTB_VAL_DEVICE] = "Device",
		[PTB_VAL_NONE] = "None",
		[PTB_VAL_COMPLEX] = "ComplexDouble",
	};
	bool tensor = v->kind == PTB_VAL_TENSOR;
	const char *name = tensor                                     ? dtype__cxx_name(v->dtype) :
			   v->kind == PTB_VAL_OPAQUE                  ? opaque_name(v) :
			   v->kind < sizeof(names) / sizeof(names[0]) ? names[v->kind] :
									NULL;

	if (!name)
		name = "Unknown";
	if (tensor)
		put_type(s->w, "Tensor(");
	jsonw__str_put(s->w, name, strlen(name));
	if (tensor)
		put_type(s->w, ")");
}

static void put_list_type(const struct side *s, const struct value *v)
{
	if (v->kind == PTB_VAL_TUPLE)
		put_type(s->w, "Tuple[");
	else
		put_type(s->w, "GenericList[");
	put_elems(s, v, TYPES);
	put_type(s->w, "]");
}

static void put_part(const struct side *s, const struct value *v, enum part part)
{
	bool list = is_list(v);

	if (part == TYPES && list)
		put_list_type(s, v);
	else if (list)
		put_elems(s, v, part);
	else if (part == TYPES)
		put_type_name(s, v);
	else if (part == VALUES)
		put_value(s, v);
	else
		put_value_dims(s, v, part == STRIDES);
}

static void put_top(const struct side *s, const struct value *v, enum part part)
{
	if (part == TYPES)
		jsonw__str_begin(s->w);
	put_part(s, v, part);
	if (part == TYPES)
		jsonw__str_end(s->w);
}

static void put_array(const struct side *s, const struct arg_list *args, bool cut, enum part part)
{
	const struct value *v;
	struct arg_walk aw;

	arg_walk__begin(&aw, args);
	jsonw__begin_arr(s->w);
	while ((v = arg_walk__next(&aw)))
		put_top(s, v, part);
	if (cut)
		put_top(s, &cut_mark, part);
	jsonw__end_arr(s->w);
}

void et_values__write(struct jsonw *w, const struct slice_values *sv,
		      const struct session_keys *keys, struct et_ids *ids,
		      struct et_missing *missing)
{
	struct side s = { .w = w, .keys = keys, .ids = ids, .missing = missing };
	bool present = sv->flags & VALUES_PRESENT, cut = present && (sv->flags & VALUES_CUT);
	struct arg_list args;

	args.cnt = 0;
	args.rest = (struct value_iter){ NULL, NULL };
	if (present)
		arg_list__read(&args, sv);
	jsonw__begin_obj(w);
	JSONW_KEY(w, "values");
	put_array(&s, &args, cut, VALUES);
	JSONW_KEY(w, "shapes");
	put_array(&s, &args, cut, SHAPES);
	JSONW_KEY(w, "types");
	put_array(&s, &args, cut, TYPES);
	JSONW_KEY(w, "strides");
	put_array(&s, &args, cut, STRIDES);
	jsonw__end_obj(w);
}
