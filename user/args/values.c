/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Decoding the words of argument payloads; see values.h. Every length is checked against the words
 * that are there before anything behind it is touched; must not know how a value is printed.
 */
#include "args/values.h"

#include <stddef.h>
#include <string.h>

#define WORD sizeof(uint64_t)

static bool is_list(uint8_t kind)
{
	return kind == PTB_VAL_LIST || kind == PTB_VAL_TUPLE || kind == PTB_VAL_TENSORS ||
	       kind == PTB_VAL_OPT_TENSORS;
}

static uint32_t tensor_words(const struct ptb_val *h)
{
	uint32_t ndim = h->n & 0xff, n = sizeof(struct ptb_val_tensor) / WORD;

	if (h->flags & PTB_VAL_F_IDS)
		n += sizeof(struct ptb_val_ids) / WORD;
	if (!(h->flags & PTB_VAL_F_DIMS_CUT))
		n += h->n >> 16 & 1 ? 2 * ndim : ndim;
	return n;
}

/* Words of the body, without the elements of lists; false: not a kind of value. */
static bool body_words(const struct ptb_val *h, uint32_t *n)
{
	switch (h->kind) {
	case PTB_VAL_UNKNOWN:
	case PTB_VAL_NONE:
	case PTB_VAL_BOOL:
	case PTB_VAL_DEVICE:
	case PTB_VAL_OPAQUE:
	case PTB_VAL_LIST:
	case PTB_VAL_TUPLE:
	case PTB_VAL_TENSORS:
	case PTB_VAL_OPT_TENSORS:
		*n = 0;
		return true;
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
		*n = 1;
		return true;
	case PTB_VAL_COMPLEX:
		*n = 2;
		return true;
	case PTB_VAL_STATE:
		*n = 3;
		return true;
	case PTB_VAL_TENSOR:
		*n = tensor_words(h);
		return true;
	case PTB_VAL_UNDEFINED:
		*n = h->flags & PTB_VAL_F_IDS ? 1 : 0;
		return true;
	case PTB_VAL_STRING:
	case PTB_VAL_BOOLS:
		*n = (uint32_t)((h->aux + WORD - 1) / WORD);
		return true;
	case PTB_VAL_INTS:
	case PTB_VAL_DOUBLES:
		*n = h->aux;
		return true;
	}
	return false;
}

static void survey_value(struct value_survey *s, const struct ptb_val *h, const uint64_t *body)
{
	s->flags |= h->flags;
	if (h->kind == PTB_VAL_UNKNOWN) {
		s->unknown = true;
	} else if (h->kind == PTB_VAL_TENSOR) {
		s->keys |= body[offsetof(struct ptb_val_tensor, keys) / WORD];
	} else if (h->kind == PTB_VAL_STATE && !(h->flags & PTB_VAL_F_FAULT)) {
		s->has_state = true;
		s->grad_mode = h->n & PTB_STATE_GRAD;
		s->grad_unmade = h->n & PTB_STATE_UNMADE;
		s->next_seq = body[0];
		s->included = body[1];
		s->excluded = body[2];
	}
}

/* End of the value at `at`, which is `nest` lists deep; NULL if it is not whole. */
static const uint64_t *skip_value(const uint64_t *at, const uint64_t *end, uint32_t nest,
				  struct value_survey *s)
{
	struct ptb_val h;
	uint32_t n;

	if (at >= end)
		return NULL;
	memcpy(&h, at, sizeof(h));
	if (!body_words(&h, &n) || n > (size_t)(end - at) - 1)
		return NULL;
	if (s)
		survey_value(s, &h, at + 1);
	at += 1 + n;
	if (!is_list(h.kind))
		return h.kind == PTB_VAL_STATE && nest ? NULL : at;
	if (h.aux && nest >= PTB_NEST_MAX)
		return NULL;
	for (uint32_t i = 0; i < h.aux && at; i++)
		at = skip_value(at, end, nest + 1, s);
	return at;
}

struct value_iter values__begin(const struct slice_values *sv)
{
	return (struct value_iter){ .at = sv->words, .end = sv->words + sv->word_cnt };
}

static double as_double(uint64_t word)
{
	double d;

	memcpy(&d, &word, sizeof(d));
	return d;
}

static void read_tensor(struct value *v, const struct ptb_val *h, const uint64_t *at)
{
	struct ptb_val_tensor t;
	struct ptb_val_ids ids;
	uint32_t index = h->n >> 8 & 0xff;

	v->dtype = (uint8_t)h->aux;
	v->device_type = (uint8_t)(h->aux >> 8);
	v->device_index = (int16_t)(index == 0xff ? -1 : (int)index);
	memcpy(&t, at, sizeof(t));
	v->keys = t.keys;
	v->numel = t.numel;
	at += sizeof(t) / WORD;
	if (h->flags & PTB_VAL_F_IDS) {
		memcpy(&ids, at, sizeof(ids));
		v->tensor = (uint32_t)ids.impl;
		v->storage_id = (uint32_t)(ids.impl >> 32);
		v->storage = ids.storage;
		v->offset = ids.offset;
		at += sizeof(ids) / WORD;
	}
	if (h->flags & PTB_VAL_F_DIMS_CUT)
		return;
	v->ndim = h->n & 0xff;
	v->sizes = (const int64_t *)at;
	if (h->n >> 16 & 1)
		v->strides = (const int64_t *)at + v->ndim;
}

/* The value whose header is h and whose body begins at `at`, known to be whole and to end at
 * next. */
static void read_value(struct value *v, const struct ptb_val *h, const uint64_t *at,
		       const uint64_t *next)
{
	v->kind = (enum ptb_val_kind)h->kind;
	v->flags = h->flags;
	switch (h->kind) {
	case PTB_VAL_INT:
		v->i = (int64_t)*at;
		break;
	case PTB_VAL_DOUBLE:
		if (h->flags & PTB_VAL_F_PENDING) /* its record never came */
			v->kind = PTB_VAL_UNKNOWN;
		else
			v->d = as_double(*at);
		break;
	case PTB_VAL_COMPLEX:
		v->d = as_double(at[0]);
		v->imag = as_double(at[1]);
		break;
	case PTB_VAL_BOOL:
		v->i = h->n != 0;
		break;
	case PTB_VAL_OPAQUE:
		v->i = h->n;
		break;
	case PTB_VAL_DEVICE:
		v->i = h->n > INT16_MAX ? -1 : (int64_t)h->n;
		v->device_type = (uint8_t)h->aux;
		v->device_index = (int16_t)v->i;
		break;
	case PTB_VAL_TENSOR:
		read_tensor(v, h, at);
		break;
	case PTB_VAL_UNDEFINED:
		v->tensor = h->flags & PTB_VAL_F_IDS ? (uint32_t)*at : 0;
		v->storage_id = h->flags & PTB_VAL_F_IDS ? (uint32_t)(*at >> 32) : 0;
		break;
	case PTB_VAL_STRING:
	case PTB_VAL_BOOLS:
	case PTB_VAL_INTS:
	case PTB_VAL_DOUBLES:
		v->n = h->n;
		v->present = h->aux;
		v->data = at;
		break;
	default:
		if (!is_list(h->kind))
			break;
		v->n = h->n;
		v->present = h->aux;
		v->elems = (struct slice_values){ .words = at,
						  .word_cnt = (uint32_t)(next - at),
						  .flags = VALUES_PRESENT };
		if (h->flags & PTB_VAL_F_CUT)
			v->elems.flags |= VALUES_CUT;
		break;
	}
}

bool values__next(struct value_iter *it, struct value *v)
{
	struct ptb_val h;
	const uint64_t *at, *next;

	do {
		at = it->at;
		next = skip_value(at, it->end, 0, NULL);
		if (!next) {
			it->at = it->end;
			return false;
		}
		it->at = next;
		memcpy(&h, at, sizeof(h));
	} while (h.kind == PTB_VAL_STATE);
	*v = (struct value){ .device_index = -1 };
	read_value(v, &h, at + 1, next);
	return true;
}

struct value_survey values__survey(const uint64_t *words, uint32_t cnt)
{
	struct value_survey s = { 0 };
	const uint64_t *at = words, *next;

	while ((next = skip_value(at, words + cnt, 0, &s)))
		at = next;
	s.words = (uint32_t)(at - words);
	return s;
}

uint32_t values__first_words(const uint64_t *words, uint32_t cnt)
{
	const uint64_t *next = skip_value(words, words + cnt, 0, NULL);

	return next ? (uint32_t)(next - words) : 0;
}

/* ---- doubles that come later ---- */

static bool find_double(const struct slice_values *late, uint32_t nr, uint64_t *word)
{
	const uint64_t *at = late->words, *end = at + late->word_cnt, *next;
	struct ptb_val h;

	for (; (next = skip_value(at, end, 0, NULL)); at = next) {
		memcpy(&h, at, sizeof(h));
		if (h.kind != PTB_VAL_DOUBLE || h.n != nr || h.flags & PTB_VAL_F_PENDING)
			continue;
		*word = at[1];
		return true;
	}
	return false;
}

void values__fill_pending(uint64_t *words, uint32_t cnt, const struct slice_values *late)
{
	uint64_t *at = words, *end = words + cnt;
	const uint64_t *next;
	struct ptb_val h;

	for (; (next = skip_value(at, end, 0, NULL)); at = words + (next - words)) {
		memcpy(&h, at, sizeof(h));
		if (h.kind != PTB_VAL_DOUBLE || !(h.flags & PTB_VAL_F_PENDING) ||
		    !find_double(late, h.n, &at[1]))
			continue;
		h.flags &= (uint8_t)~PTB_VAL_F_PENDING;
		memcpy(at, &h, sizeof(h));
	}
}

void values__name_tensors(uint64_t *words, uint32_t cnt,
			  uint64_t (*fn)(void *arg, uint64_t impl, const uint64_t *data), void *arg)
{
	const uint32_t ids = 1 + sizeof(struct ptb_val_tensor) / WORD;
	uint32_t n;
	struct ptb_val h;

	/* a list's elements follow it as other values do */
	for (uint32_t i = 0; i < cnt; i += 1 + n) {
		memcpy(&h, &words[i], sizeof(h));
		if (!body_words(&h, &n) || n > cnt - i - 1)
			return;
		if (!(h.flags & PTB_VAL_F_IDS))
			continue;
		if (h.kind == PTB_VAL_TENSOR)
			words[i + ids] = fn(arg, words[i + ids], &words[i + ids + 1]);
		else if (h.kind == PTB_VAL_UNDEFINED)
			words[i + 1] = fn(arg, words[i + 1], NULL);
	}
}

/* ---- names ---- */

/*
 * By number of c10::ScalarType, which only grows (pytorch torch/headeronly/core/ScalarType.h: the
 * order is that of the serialization format). The first name is as GCC spells the type, which is
 * what TypeMeta::name() holds; the second is c10::toString()'s.
 */
static const struct {
	const char *cxx, *name;
	uint32_t size;
} dtypes[] = {
	{ "unsigned char", "Byte", 1 },
	{ "signed char", "Char", 1 },
	{ "short int", "Short", 2 },
	{ "int", "Int", 4 },
	{ "long int", "Long", 8 },
	{ "c10::Half", "Half", 2 },
	{ "float", "Float", 4 },
	{ "double", "Double", 8 },
	{ "c10::complex<c10::Half>", "ComplexHalf", 4 },
	{ "c10::complex<float>", "ComplexFloat", 8 },
	{ "c10::complex<double>", "ComplexDouble", 16 },
	{ "bool", "Bool", 1 },
	{ "c10::qint8", "QInt8", 1 },
	{ "c10::quint8", "QUInt8", 1 },
	{ "c10::qint32", "QInt32", 4 },
	{ "c10::BFloat16", "BFloat16", 2 },
	{ "c10::quint4x2", "QUInt4x2", 1 },
	{ "c10::quint2x4", "QUInt2x4", 1 },
	{ "c10::bits1x8", "Bits1x8", 1 },
	{ "c10::bits2x4", "Bits2x4", 1 },
	{ "c10::bits4x2", "Bits4x2", 1 },
	{ "c10::bits8", "Bits8", 1 },
	{ "c10::bits16", "Bits16", 2 },
	{ "c10::Float8_e5m2", "Float8_e5m2", 1 },
	{ "c10::Float8_e4m3fn", "Float8_e4m3fn", 1 },
	{ "c10::Float8_e5m2fnuz", "Float8_e5m2fnuz", 1 },
	{ "c10::Float8_e4m3fnuz", "Float8_e4m3fnuz", 1 },
	{ "short unsigned int", "UInt16", 2 },
	{ "unsigned int", "UInt32", 4 },
	{ "long unsigned int", "UInt64", 8 },
	{ "c10::dummy_uint1_7_t<1>", "UInt1", 1 },
	{ "c10::dummy_uint1_7_t<2>", "UInt2", 1 },
	{ "c10::dummy_uint1_7_t<3>", "UInt3", 1 },
	{ "c10::dummy_uint1_7_t<4>", "UInt4", 1 },
	{ "c10::dummy_uint1_7_t<5>", "UInt5", 1 },
	{ "c10::dummy_uint1_7_t<6>", "UInt6", 1 },
	{ "c10::dummy_uint1_7_t<7>", "UInt7", 1 },
	{ "c10::dummy_int1_7_t<1>", "Int1", 1 },
	{ "c10::dummy_int1_7_t<2>", "Int2", 1 },
	{ "c10::dummy_int1_7_t<3>", "Int3", 1 },
	{ "c10::dummy_int1_7_t<4>", "Int4", 1 },
	{ "c10::dummy_int1_7_t<5>", "Int5", 1 },
	{ "c10::dummy_int1_7_t<6>", "Int6", 1 },
	{ "c10::dummy_int1_7_t<7>", "Int7", 1 },
	{ "c10::Float8_e8m0fnu", "Float8_e8m0fnu", 1 },
	{ "c10::Float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1 },
	{ "c10::complex<c10::BFloat16>", "BComplex32", 4 },
};

#define DTYPE_CNT (sizeof(dtypes) / sizeof(dtypes[0]))

const char *dtype__cxx_name(uint32_t dtype)
{
	return dtype < DTYPE_CNT ? dtypes[dtype].cxx : NULL;
}

const char *dtype__name(uint32_t dtype)
{
	return dtype < DTYPE_CNT ? dtypes[dtype].name : NULL;
}

uint32_t dtype__itemsize(uint32_t dtype)
{
	return dtype < DTYPE_CNT ? dtypes[dtype].size : 0;
}

/* c10::DeviceType by number (pytorch torch/headeronly/core/DeviceType.h,
 * c10/core/DeviceType.cpp). */
const char *device__type_name(uint32_t device_type)
{
	static const char *const names[] = { "cpu",          "cuda",  "mkldnn", "opengl", "opencl",
					     "ideep",        "hip",   "fpga",   "maia",   "xla",
					     "vulkan",       "metal", "xpu",    "mps",    "meta",
					     "hpu",          "ve",    "lazy",   "ipu",    "mtia",
					     "privateuseone" };

	return device_type < sizeof(names) / sizeof(names[0]) ? names[device_type] : NULL;
}

struct value value__int_elem(const struct value *list, uint32_t i)
{
	struct value v = { .kind = PTB_VAL_INT };

	memcpy(&v.i, (const char *)list->data + 8 * (size_t)i, sizeof(v.i));
	if (v.i < -(1LL << 62))
		v = (struct value){ .kind = PTB_VAL_OPAQUE, .i = PTB_OPAQUE_SymInt };
	return v;
}
