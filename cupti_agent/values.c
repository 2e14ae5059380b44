/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Values of operators; see values.h. The layouts are those of bpf/arg_objects.h and bpf/arg_put.h. */
#include "values.h"

#include <string.h>

#include "read.h"

#define NDIM_MAX 64 /* torch allows no more */
#define TENSOR_ROOM (8 + sizeof(struct ptb_val_tensor) + sizeof(struct ptb_val_ids) + 16 * PTB_DIMS_MAX)
#define IMPL_MAX 256 /* of a TensorImpl, what is looked at */
#define DTYPES_MAX 64
#define DEVICES_MAX 64

/* A value of a head and up to two words. */
struct cell {
	uint8_t kind; /* enum ptb_val_kind */
	uint8_t flags;
	uint16_t aux;
	uint32_t n;
	uint32_t words; /* of the body: a, b */
	uint64_t a, b;
};

static bool put_ivalue(struct values *v, const uint64_t *iv, uint32_t level);

/* memcpy() where the layout has proven right. */
static inline bool fetch(const struct values *v, void *dst, uint64_t addr, uint32_t len)
{
	if (v->careful)
		return read__safe(dst, addr, len);
	if (addr < 4096)
		return false;
	memcpy(dst, (const void *)(uintptr_t)addr, len);
	return true;
}

static inline uint64_t word_at(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline bool room(const struct values *v, uint64_t bytes)
{
	return bytes <= (uint64_t)(v->end - v->at);
}

static inline void put_head(unsigned char *at, uint8_t kind, uint8_t flags, uint16_t aux, uint32_t n)
{
	struct ptb_val h = { .kind = kind, .flags = flags, .aux = aux, .n = n };

	memcpy(at, &h, sizeof(h));
}

static bool put_small(struct values *v, const struct cell *c)
{
	if (!room(v, 8 + 8 * c->words))
		return false;
	put_head(v->at, c->kind, c->flags, c->aux, c->n);
	if (c->words)
		memcpy(v->at + 8, &c->a, 8);
	if (c->words > 1)
		memcpy(v->at + 16, &c->b, 8);
	v->at += 8 + 8 * c->words;
	return true;
}

static bool put_unknown(struct values *v)
{
	const struct cell c = { .kind = PTB_VAL_UNKNOWN, .flags = PTB_VAL_F_FAULT };

	return put_small(v, &c);
}

/* ---- texts ---- */

static bool put_text(struct values *v, uint64_t addr, uint64_t len)
{
	uint32_t n = len > PTB_STRING_MAX ? PTB_STRING_MAX : (uint32_t)len, padded = (n + 7) & ~7u;

	if (!room(v, 8 + padded))
		return false;
	if (n) {
		memset(v->at + padded, 0, 8);
		if (!fetch(v, v->at + 8, addr, n))
			return put_unknown(v);
	}
	put_head(v->at, PTB_VAL_STRING, n < len ? PTB_VAL_F_CUT : 0, (uint16_t)n,
		 len > ~0u ? ~0u : (uint32_t)len);
	v->at += 8 + padded;
	return true;
}

/* libstdc++'s std::string: {pointer, length}, or with the old ABI a pointer behind the length. */
static bool put_string(struct values *v, uint64_t addr)
{
	bool old = v->cfg->rf.old_string_abi;
	uint64_t str[2];

	if (!fetch(v, str, addr, old ? 8 : 16) || (old && !fetch(v, &str[1], str[0] - 24, 8)))
		return put_unknown(v);
	return put_text(v, str[0], str[1]);
}

/* ---- tensors ---- */

static inline uint64_t field(const struct values *v, const unsigned char *impl, uint16_t off)
{
	return word_at(impl + (off - v->cfg->tensor.storage_off));
}

static void tensor_head(struct values *v, const unsigned char *impl, struct cell *c, uint32_t ndim)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	uint32_t dev = (uint32_t)field(v, impl, t->device_off);
	uint32_t dtype = (uint32_t)field(v, impl, t->dtype_off) & 0xff;
	uint32_t has, type, index;

	if (t->device_has_first) {
		has = dev & 0xff;
		type = dev >> 8 & 0xff;
		index = dev >> 16 & 0xff;
	} else {
		type = dev & 0xff;
		index = dev >> 8 & 0xff;
		has = dev >> 16 & 0xff;
	}
	if (!has) {
		type = 0;
		index = 0xff;
	}
	if (v->careful && (has > 1 || type >= DEVICES_MAX || dtype >= DTYPES_MAX))
		v->bad = true;
	c->aux = (uint16_t)(dtype | type << 8);
	c->n = ndim | index << 8;
}

/* Inline up to 5 dimensions, else behind a pointer that another thread may be changing. */
static bool put_dims(const unsigned char *dims, unsigned char *dst, uint32_t ndim)
{
	if (ndim > 5)
		return read__safe(dst, word_at(dims + 8), 16 * ndim);
	memcpy(dst, dims + 8, 40);
	memcpy(dst + 8 * ndim, dims + 48, 40);
	return true;
}

static bool put_ids(struct values *v, const unsigned char *impl, uint64_t addr, unsigned char *dst,
		    uint8_t *flags)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	uint64_t storage = word_at(impl), obj = field(v, impl, (uint16_t)(t->sizes_off - 8)) & ~7ull, type;
	struct ptb_val_ids ids = { .impl = addr,
				   .offset = (int64_t)field(v, impl, t->storage_offset_off) };

	*flags |= PTB_VAL_F_IDS;
	if (storage) {
		*flags |= PTB_VAL_F_STORAGE;
		if (!fetch(v, &ids.storage, storage + t->storage_data_off, 8))
			return false;
	}
	/* the tensor's Python object lives as long as Python wants */
	if (t->parameter_type && obj && read__safe(&type, obj + 8, 8) && type == t->parameter_type)
		*flags |= PTB_VAL_F_PARAMETER;
	memcpy(dst, &ids, sizeof(ids));
	return true;
}

/* Where all dimensions and the number of elements are the tensor's own, they must agree. */
static void check_numel(struct values *v, const unsigned char *sizes, uint32_t ndim, int64_t numel)
{
	uint64_t product = 1;
	uint32_t i;

	for (i = 0; i < ndim; i++)
		product *= word_at(sizes + 8 * i);
	if (product == (uint64_t)numel)
		v->matches++;
	else
		v->differs++;
}

static bool put_tensor_body(struct values *v, const unsigned char *impl, uint64_t addr, struct cell *c)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	struct ptb_val_tensor body = { .keys = field(v, impl, t->key_set_off),
				       .numel = (int64_t)field(v, impl, t->numel_off) };
	uint64_t extra = field(v, impl, t->extra_meta_off), symbolic = 0;
	unsigned char *dst = v->at + 8 + sizeof(body);
	uint32_t ndim = c->n & 0xff;
	uint8_t flags = 0;

	memcpy(v->at + 8, &body, sizeof(body));
	if (v->full) {
		if (!put_ids(v, impl, addr, dst, &flags))
			return false;
		dst += sizeof(struct ptb_val_ids);
	}
	if (extra && !fetch(v, &symbolic, extra, 8))
		return false;
	if (symbolic)
		flags |= PTB_VAL_F_SYMBOLIC;
	if (ndim > PTB_DIMS_MAX) {
		flags |= PTB_VAL_F_DIMS_CUT;
	} else {
		if (!put_dims(impl + (t->sizes_off - t->storage_off), dst, ndim))
			return false;
		if (v->careful && !symbolic)
			check_numel(v, dst, ndim, body.numel);
		dst += 16 * ndim;
		c->n |= 1u << 16;
	}
	put_head(v->at, PTB_VAL_TENSOR, flags, c->aux, c->n);
	v->at = dst;
	return true;
}

static bool put_tensor(struct values *v, uint64_t addr)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	struct cell c = { .kind = PTB_VAL_UNDEFINED, .words = v->full, .a = addr,
			  .flags = v->full ? PTB_VAL_F_IDS : 0 };
	uint32_t len = t->key_set_off + 8u - t->storage_off;
	unsigned char copy[IMPL_MAX];
	const unsigned char *impl = copy;
	uint64_t ndim;

	if (addr && addr == t->undefined_impl)
		return room(v, 16) && put_small(v, &c);
	if (!room(v, TENSOR_ROOM))
		return false;
	if (v->careful ? !read__safe(copy, addr + t->storage_off, len) : addr < 4096) {
		v->bad |= v->careful;
		return put_unknown(v);
	}
	if (!v->careful)
		impl = (const unsigned char *)(uintptr_t)addr + t->storage_off;
	ndim = field(v, impl, t->sizes_off);
	if (ndim > NDIM_MAX) {
		v->bad |= v->careful;
		return put_unknown(v);
	}
	tensor_head(v, impl, &c, (uint32_t)ndim);
	return put_tensor_body(v, impl, addr, &c) || put_unknown(v);
}

/* ---- lists ---- */

/* What list a first element of this kind begins. */
static uint8_t list_kind(uint8_t kind)
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

static bool is_packed(uint8_t kind)
{
	return kind == PTB_VAL_INTS || kind == PTB_VAL_DOUBLES || kind == PTB_VAL_BOOLS;
}

/* ATen/core/ivalue.h: {payload, tag u32} */
static uint32_t ivalue_kind(const struct values *v, const uint64_t *iv)
{
	uint32_t tag = (uint32_t)iv[1];

	return tag < PTB_IVALUE_TAGS ? v->cfg->tensor.ivalue_kind[tag] : PTB_VAL_UNKNOWN;
}

/* Lists of numbers have no heads; BOOLS are a byte each. */
static bool put_packed(struct values *v, uint8_t kind, uint32_t idx, uint64_t word)
{
	if (kind == PTB_VAL_BOOLS)
		word = (word & 0xff) != 0;
	if (kind == PTB_VAL_BOOLS && idx & 7) {
		v->at[-8 + (int)(idx & 7)] = (unsigned char)word;
		return true;
	}
	if (!room(v, 8))
		return false;
	memcpy(v->at, &word, 8);
	v->at += 8;
	return true;
}

/* The kind of a list so far of kind `kind`, after an element that would begin one of kind `want`. */
static uint8_t mixed_kind(uint8_t kind, uint8_t want)
{
	if (!kind || want == kind)
		return want;
	if (kind == PTB_VAL_LIST || kind == PTB_VAL_TUPLE)
		return kind;
	if (is_packed(kind))
		return PTB_VAL_LIST;
	return want == PTB_VAL_TENSORS || want == PTB_VAL_OPT_TENSORS ? PTB_VAL_OPT_TENSORS : PTB_VAL_LIST;
}

/* Elements from addr on, of `*cnt` at most; leaves how many there are. Numbers are packed until one is not of
 * their kind: then it begins again. */
static uint8_t put_elements(struct values *v, uint8_t kind, uint64_t addr, uint32_t *cnt, uint32_t level)
{
	unsigned char *first = v->at;
	uint32_t i, n = *cnt;

	for (i = 0; i < n; i++) {
		uint64_t iv[2] = { 0, PTB_IVALUE_TAGS };
		uint8_t want, was = kind;

		if (!fetch(v, iv, addr + 16 * (uint64_t)i, 16))
			n = i + 1; /* is UNKNOWN, and the last */
		want = list_kind((uint8_t)ivalue_kind(v, iv));
		kind = mixed_kind(kind, want);
		if (is_packed(was) && kind != was) {
			v->at = first;
			i = ~0u;
			continue;
		}
		if (!(is_packed(kind) ? put_packed(v, kind, i, iv[0]) : put_ivalue(v, iv, level)))
			break;
	}
	*cnt = i;
	return kind;
}

static bool put_list(struct values *v, uint8_t kind, uint64_t addr, uint64_t cnt, uint32_t level)
{
	uint32_t most = v->full ? PTB_LIST_FULL_MAX : PTB_LIST_SHAPES_MAX;
	uint32_t n = cnt > ~0u ? ~0u : (uint32_t)cnt, present = n > most ? most : n;
	unsigned char *head = v->at;

	if (!room(v, 8))
		return false;
	v->at += 8;
	if (level > PTB_NEST_MAX)
		present = 0;
	else
		kind = put_elements(v, kind, addr, &present, level);
	put_head(head, kind ? kind : PTB_VAL_LIST, n > present ? PTB_VAL_F_CUT : 0, (uint16_t)present, n);
	return true;
}

/* {begin, end} of a std::vector<IValue> */
static bool put_vector(struct values *v, uint8_t kind, const uint64_t *vec, uint32_t level)
{
	uint64_t bytes = vec[1] - vec[0];

	if (vec[1] < vec[0] || bytes & 15)
		return put_unknown(v);
	return put_list(v, kind, vec[0], bytes / 16, level);
}

/* TupleElements: {size of those in line, or 0 and a vector} */
static bool put_tuple(struct values *v, uint64_t elements, uint32_t level)
{
	uint64_t mem[3];

	if (!fetch(v, mem, elements, 24))
		return put_unknown(v);
	if (!mem[0])
		return put_vector(v, PTB_VAL_TUPLE, mem + 1, level);
	if (mem[0] <= 3)
		return put_list(v, PTB_VAL_TUPLE, elements + 8, mem[0], level);
	return put_unknown(v);
}

static bool put_object(struct values *v, uint8_t kind, uint64_t obj, uint32_t level)
{
	uint64_t header = v->cfg->tensor.object_header, mem[2];
	struct cell c = { .kind = kind, .words = 2 };

	switch (kind) {
	case PTB_VAL_STRING:
		return put_string(v, obj + header);
	case PTB_VAL_TUPLE:
		return put_tuple(v, obj + header, level);
	case PTB_VAL_LIST: /* its first element tells which */
		return fetch(v, mem, obj + header, 16) ? put_vector(v, 0, mem, level) : put_unknown(v);
	default: /* COMPLEX, aligned to 16 */
		if (!fetch(v, mem, obj + ((header + 15) & ~15ull), 16))
			return put_unknown(v);
		c.a = mem[0];
		c.b = mem[1];
		return put_small(v, &c);
	}
}

/* False: no room. */
static bool put_ivalue(struct values *v, const uint64_t *iv, uint32_t level)
{
	uint32_t what = ivalue_kind(v, iv), index = (uint32_t)(iv[0] >> 8) & 0xff;
	struct cell c = { .kind = (uint8_t)what, .a = iv[0] };

	switch (c.kind) {
	case PTB_VAL_NONE:
		break;
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
		c.words = 1;
		break;
	case PTB_VAL_BOOL:
		c.n = (iv[0] & 0xff) != 0;
		break;
	case PTB_VAL_TENSOR:
		return put_tensor(v, iv[0]);
	case PTB_VAL_DEVICE: /* c10::Device: type, index, a byte each */
		c.aux = (uint16_t)(iv[0] & 0xff);
		c.n = index == 0xff ? ~0u : index;
		break;
	case PTB_VAL_STRING:
	case PTB_VAL_LIST:
	case PTB_VAL_TUPLE:
	case PTB_VAL_COMPLEX:
		return put_object(v, c.kind, iv[0], level + 1);
	case PTB_VAL_OPAQUE:
		c.n = what >> 8;
		break;
	default:
		c.kind = PTB_VAL_UNKNOWN;
		c.flags = (uint32_t)iv[1] >= PTB_IVALUE_TAGS ? PTB_VAL_F_FAULT : 0;
		v->bad |= v->careful && (uint32_t)iv[1] >= PTB_IVALUE_TAGS;
	}
	return put_small(v, &c);
}

void values__put(struct values *v, uint64_t addr, uint64_t cnt)
{
	uint64_t i;

	if (v->end - v->at > PTB_ARGS_BYTES_MAX)
		v->end = v->at + PTB_ARGS_BYTES_MAX;
	if (cnt > PTB_LIST_FULL_MAX) {
		cnt = PTB_LIST_FULL_MAX;
		v->cut = true;
	}
	for (i = 0; i < cnt; i++) {
		uint64_t iv[2] = { 0, PTB_IVALUE_TAGS };
		bool last = !fetch(v, iv, addr + 16 * i, 16);

		if (!put_ivalue(v, iv, 0) || (last && i + 1 < cnt)) {
			v->cut = true;
			return;
		}
	}
}
