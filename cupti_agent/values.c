/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Values of operators; see values.h. The layouts are those of bpf/arg_objects.h and bpf/arg_put.h.
 *
 * A second implementation beside the interpreter of the BPF programs (bpf/arg_interp.h), because
 * that one, compiled for the host, takes two to three times as long per operator: here lists in
 * lists are recursion, objects are read where they are, and the result goes straight into the
 * stream. The other way round, a verifier would not take this one. unit_agent_values holds both to
 * the same bytes over random objects.
 */
#include "values.h"

#include "arg_rules.h"
#include "read.h"

#define TENSOR_ROOM                                                                                \
	(8 + sizeof(struct ptb_val_tensor) + sizeof(struct ptb_val_ids) + 16 * PTB_DIMS_MAX)
#define DTYPES_MAX 64
#define DEVICES_MAX 64

static bool put_ivalue(struct values *v, const uint64_t *iv, uint32_t level);

static inline bool fetch(const struct values *v, void *dst, uint64_t addr, uint32_t len)
{
	return read__mem(v->careful, dst, addr, len);
}

static inline bool room(const struct values *v, uint64_t bytes)
{
	return bytes <= (uint64_t)(v->end - v->at);
}

static inline void put_word(unsigned char *at, uint64_t word)
{
	memcpy(at, &word, sizeof(word));
}

/* A struct ptb_val. */
static inline void put_head(unsigned char *at, uint8_t kind, uint8_t flags, uint16_t aux,
			    uint32_t n)
{
	put_word(at, kind | (uint64_t)flags << 8 | (uint64_t)aux << 16 | (uint64_t)n << 32);
}

/* A head and so many words of a body, two at most. */
static bool put_small(struct values *v, uint8_t kind, uint16_t aux, uint32_t n, uint32_t cnt,
		      const uint64_t *body)
{
	if (!room(v, 8 + 8 * cnt))
		return false;
	put_head(v->at, kind, 0, aux, n);
	memcpy(v->at + 8, body, 8 * cnt);
	v->at += 8 + 8 * cnt;
	return true;
}

static bool put_unknown(struct values *v)
{
	if (!room(v, 8))
		return false;
	put_head(v->at, PTB_VAL_UNKNOWN, PTB_VAL_F_FAULT, 0, 0);
	v->at += 8;
	return true;
}

static bool put_string(struct values *v, uint64_t addr)
{
	struct text t;
	uint32_t n, padded;

	if (!read__string(v->careful, v->cfg->rf.old_string_abi, addr, &t))
		return put_unknown(v);
	n = t.len > PTB_STRING_MAX ? PTB_STRING_MAX : (uint32_t)t.len;
	padded = (n + 7) & ~7u;
	if (!room(v, 8 + padded))
		return false;
	if (!read__padded(v->careful, v->at + 8, t.at, n))
		return put_unknown(v);
	put_head(v->at, PTB_VAL_STRING, n < t.len ? PTB_VAL_F_CUT : 0, (uint16_t)n,
		 t.len > ~0u ? ~0u : (uint32_t)t.len);
	v->at += 8 + padded;
	return true;
}

/* ---- tensors ---- */

/* Inline up to 5 dimensions, else behind a pointer that another thread may be changing. */
static inline bool put_dims(const unsigned char *dims, unsigned char *dst, uint32_t ndim)
{
	if (ndim > 5)
		return read__safe(dst, read__word(dims), 16 * ndim);
	memcpy(dst, dims, 40);
	memcpy(dst + 8 * ndim, dims + 40, 40);
	return true;
}

static bool put_ids(struct values *v, const unsigned char *impl, uint64_t addr, unsigned char *dst,
		    uint8_t *flags)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	uint64_t storage = read__word(impl + t->storage_off),
		 obj = read__word(impl + t->sizes_off - 8) & ~7ull, type;
	struct ptb_val_ids ids = { .impl = addr,
				   .offset = (int64_t)read__word(impl + t->storage_offset_off) };

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
static void check_numel(struct values *v, const unsigned char *sizes, uint32_t ndim, uint64_t numel)
{
	uint64_t product = 1;

	for (uint32_t i = 0; i < ndim; i++)
		product *= read__word(sizes + 8 * i);
	if (product == numel)
		v->matches++;
	else
		v->differs++;
}

/* Of a TensorImpl at addr, in memory at impl. */
static inline bool put_impl(struct values *v, const unsigned char *impl, uint64_t addr,
			    uint32_t ndim)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	uint64_t extra = read__word(impl + t->extra_meta_off),
		 numel = read__word(impl + t->numel_off), symbolic = 0;
	uint32_t has, dev = arg_tensor_device((uint32_t)read__word(impl + t->device_off),
					      t->device_has_first, &has);
	uint32_t dtype = impl[t->dtype_off], strides = 0;
	unsigned char *dst = v->at + 8 + sizeof(struct ptb_val_tensor);
	uint8_t flags = 0;

	if (v->careful && (has > 1 || (dev & 0xff) >= DEVICES_MAX || dtype >= DTYPES_MAX))
		v->bad = true;
	put_word(v->at + 8, read__word(impl + t->key_set_off));
	put_word(v->at + 16, numel);
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
		if (!put_dims(impl + t->sizes_off + 8, dst, ndim))
			return false;
		if (v->careful && !symbolic)
			check_numel(v, dst, ndim, numel);
		dst += 16 * ndim;
		strides = 1u << 16;
	}
	put_head(v->at, PTB_VAL_TENSOR, flags, (uint16_t)(dtype | (dev & 0xff) << 8),
		 ndim | (dev & 0xff00) | strides);
	v->at = dst;
	return true;
}

static bool put_tensor(struct values *v, uint64_t addr)
{
	const struct ptb_tensor_cfg *t = &v->cfg->tensor;
	const unsigned char *impl = (const unsigned char *)(uintptr_t)addr;
	unsigned char copy[VALUES_IMPL_MAX];
	bool ok = addr >= 4096;
	uint64_t ndim;

	if (addr && addr == t->undefined_impl) {
		if (!room(v, 16))
			return false;
		put_head(v->at, PTB_VAL_UNDEFINED, v->full ? PTB_VAL_F_IDS : 0, 0, 0);
		put_word(v->at + 8, addr);
		v->at += v->full ? 16 : 8;
		return true;
	}
	if (!room(v, TENSOR_ROOM))
		return false;
	if (v->careful) {
		ok = read__safe(copy + t->storage_off, addr + t->storage_off,
				t->key_set_off + 8u - t->storage_off);
		impl = copy;
	}
	ndim = ok ? read__word(impl + t->sizes_off) : ~0ull;
	v->bad |= v->careful && ndim > ARG_NDIM_MAX;
	return (ndim <= ARG_NDIM_MAX && put_impl(v, impl, addr, (uint32_t)ndim)) || put_unknown(v);
}

/* ---- lists ---- */

/* ATen/core/ivalue.h: {payload, tag u32} */
static inline uint32_t ivalue_kind(const struct values *v, const uint64_t *iv)
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
	put_word(v->at, word);
	v->at += 8;
	return true;
}

/* Elements from addr on, of `*cnt` at most; leaves how many there are. */
static uint8_t put_elements(struct values *v, uint8_t kind, uint64_t addr, uint32_t *cnt,
			    uint32_t level)
{
	unsigned char *first = v->at;
	uint32_t i, n = *cnt;

	for (i = 0; i < n; i++) {
		uint64_t iv[2] = { 0, PTB_IVALUE_TAGS };
		uint8_t was = kind;

		if (!fetch(v, iv, addr + 16 * (uint64_t)i, 16))
			n = i + 1; /* is UNKNOWN, and the last */
		kind = arg_list_mixed(kind, arg_list_kind((uint8_t)ivalue_kind(v, iv)));
		if (arg_is_packed(was) && kind != was) {
			v->at = first; /* begins again */
			i = ~0u;
		} else if (!(arg_is_packed(kind) ? put_packed(v, kind, i, iv[0]) :
						   put_ivalue(v, iv, level))) {
			break;
		}
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
	put_head(head, kind ? kind : PTB_VAL_LIST, n > present ? PTB_VAL_F_CUT : 0,
		 (uint16_t)present, n);
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

/* What an intrusive_ptr_target at obj has behind its header. */
static bool put_object(struct values *v, uint8_t kind, uint64_t obj, uint32_t level)
{
	uint64_t header = v->cfg->tensor.object_header, mem[3] = { 0 };

	if (kind == PTB_VAL_STRING)
		return put_string(v, obj + header);
	if (kind == PTB_VAL_COMPLEX)
		header = (header + 15) & ~15ull;
	if (!fetch(v, mem, obj + header, kind == PTB_VAL_TUPLE ? 24 : 16))
		return put_unknown(v);
	if (kind == PTB_VAL_COMPLEX)
		return put_small(v, kind, 0, 0, 2, mem);
	if (kind == PTB_VAL_LIST) /* its first element decides which */
		return put_vector(v, 0, mem, level);
	if (!mem[0]) /* TupleElements: {size of those in line, or 0 and a vector} */
		return put_vector(v, kind, mem + 1, level);
	return mem[0] <= 3 ? put_list(v, kind, obj + header + 8, mem[0], level) : put_unknown(v);
}

/* False: no room. */
static bool put_ivalue(struct values *v, const uint64_t *iv, uint32_t level)
{
	uint32_t what = ivalue_kind(v, iv);
	uint8_t kind = (uint8_t)what;

	switch (kind) {
	case PTB_VAL_NONE:
		return put_small(v, kind, 0, 0, 0, iv);
	case PTB_VAL_INT:
	case PTB_VAL_DOUBLE:
		return put_small(v, kind, 0, 0, 1, iv);
	case PTB_VAL_BOOL:
		return put_small(v, kind, 0, (iv[0] & 0xff) != 0, 0, iv);
	case PTB_VAL_TENSOR:
		return put_tensor(v, iv[0]);
	case PTB_VAL_DEVICE:
		return put_small(v, kind, (uint16_t)(iv[0] & 0xff), arg_device_index(iv[0]), 0, iv);
	case PTB_VAL_STRING:
	case PTB_VAL_LIST:
	case PTB_VAL_TUPLE:
	case PTB_VAL_COMPLEX:
		return put_object(v, kind, iv[0], level + 1);
	case PTB_VAL_OPAQUE:
		return put_small(v, kind, 0, what >> 8, 0, iv);
	}
	if ((uint32_t)iv[1] < PTB_IVALUE_TAGS)
		return put_small(v, PTB_VAL_UNKNOWN, 0, 0, 0, iv);
	v->bad |= v->careful;
	return put_unknown(v);
}

void values__put(struct values *v, uint64_t addr, uint64_t cnt)
{
	if (v->end - v->at > PTB_ARGS_BYTES_MAX)
		v->end = v->at + PTB_ARGS_BYTES_MAX;
	if (cnt > PTB_LIST_FULL_MAX) {
		cnt = PTB_LIST_FULL_MAX;
		v->cut = true;
	}
	for (uint64_t i = 0; i < cnt; i++) {
		uint64_t iv[2] = { 0, PTB_IVALUE_TAGS };
		bool last = !fetch(v, iv, addr + 16 * i, 16);

		if (!put_ivalue(v, iv, 0) || (last && i + 1 < cnt)) {
			v->cut = true;
			return;
		}
	}
}
