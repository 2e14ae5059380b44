/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writing values: a cell becomes a struct ptb_val and its body at the end of the record in scratch.
 * Part of arg_interp.h. Each put_*() writes a whole value and moves the position, or finds no room,
 * says false and leaves the position; memory that cannot be read becomes PTB_VAL_UNKNOWN.
 */
#ifndef PTB_ARG_PUT_H
#define PTB_ARG_PUT_H

#include "arg_objects.h"

/* Room for so many more bytes? They are not taken yet. */
ARG_FN bool arg_room(const struct arg_scratch *s, __u32 bytes)
{
	return s->pos + bytes <= s->limit;
}

ARG_FN void put_head(struct arg_scratch *s, __u32 pos, __u8 kind, __u8 flags, __u16 aux, __u32 n)
{
	struct ptb_val *v = arg_at(s, pos);

	v->kind = kind;
	v->flags = flags;
	v->aux = aux;
	v->n = n;
}

/* A value of a head and up to two words. */
ARG_FN bool put_small(struct arg_scratch *s, __u32 words)
{
	const struct arg_cell *c = &s->cell;
	__u64 *body = arg_at(s, s->pos);

	if (!arg_room(s, 8 + 8 * words))
		return false;
	put_head(s, s->pos, c->kind, c->flags, c->aux, c->n);
	body[1] = c->a;
	body[2] = c->b;
	s->pos += 8 + 8 * words;
	return true;
}

ARG_FN bool put_unknown(struct arg_scratch *s)
{
	cell_fault(s);
	return put_small(s, 0);
}

/* Number of elements to copy of `cnt`; the head's n and the flag. */
ARG_FN __u32 list_present(struct arg_scratch *s, __u64 cnt)
{
	s->cell.n = cnt > ~0u ? ~0u : (__u32)cnt;
	if (cnt <= s->list_max)
		return (__u32)cnt;
	s->cell.flags |= PTB_VAL_F_CUT;
	if (s->full) /* where only shapes are recorded, torch prints no list that is as long */
		ARG_COUNT(PTB_CNT_ARGS_CUT);
	return s->list_max;
}

ARG_FN bool put_mem(struct arg_scratch *s)
{
	__u32 n = list_present(s, s->cell.b);

	if (n > PTB_LIST_FULL_MAX || !arg_room(s, 8 + 8 * n))
		return false;
	ARG_PIN(n);
	if (n > PTB_LIST_FULL_MAX)
		return false;
	if (n && ARG_READ((__u8 *)arg_at(s, s->pos) + 8, 8 * n, s->cell.a))
		return put_unknown(s);
	put_head(s, s->pos, s->cell.kind, s->cell.flags, (__u16)n, s->cell.n);
	s->pos += 8 + 8 * n;
	return true;
}

ARG_FN bool put_text(struct arg_scratch *s)
{
	__u64 len = s->cell.b;
	__u32 n = len > PTB_STRING_MAX ? PTB_STRING_MAX : (__u32)len;
	__u8 *text = (__u8 *)arg_at(s, s->pos) + 8;

	if (!arg_room(s, 8 + ((n + 7) & ~7u)))
		return false;
	ARG_PIN(n);
	if (n > PTB_STRING_MAX)
		return false;
	*(__u64 *)(text + (n & ~7u)) = 0; /* the padding */
	if (n && ARG_READ(text, n, s->cell.a))
		return put_unknown(s);
	if (n < len) {
		s->cell.flags |= PTB_VAL_F_CUT;
		if (s->full) /* nor texts */
			ARG_COUNT(PTB_CNT_ARGS_CUT);
	}
	put_head(s, s->pos, PTB_VAL_STRING, s->cell.flags, (__u16)n, len > ~0u ? ~0u : (__u32)len);
	s->pos += 8 + ((n + 7) & ~7u);
	return true;
}

/* ---- tensors ---- */

/* A field of the TensorImpl in tmp, which begins at storage_off. */
ARG_FN const void *impl_field(const struct arg_scratch *s, const struct ptb_tensor_cfg *t,
			      __u16 off)
{
	return (const __u8 *)s->tmp + ((__u32)(off - t->storage_off) & (ARG_IMPL_MAX - 1));
}
#define IMPL_WORD(s, t, field) load_word(impl_field(s, t, (t)->field))

/*
 * c10/core/impl/SizesAndStrides.h: up to 5 dimensions in line, sizes at +8 and strides at +48; else
 * +8 points to the sizes, the strides behind them. dst has room for PTB_DIMS_MAX of both.
 */
ARG_FN bool put_dims(const __u8 *inline_dims, __u64 *dst, __u32 ndim)
{
	if (ndim > 5) {
		ARG_PIN(ndim);
		if (ndim > PTB_DIMS_MAX)
			return false;
		return !ARG_READ(dst, 16 * ndim, load_word(inline_dims + 8));
	}
	for (__u32 i = 0; i < 5; i++)
		dst[i] = load_word(inline_dims + 8 + 8 * i);
	dst += ndim & 7;
	for (__u32 i = 0; i < 5; i++)
		dst[i] = load_word(inline_dims + 48 + 8 * i);
	return true;
}

/* The head's fields that are bytes of TensorImpl. */
ARG_FN void tensor_head(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u32 ndim)
{
	__u32 has, dev = arg_tensor_device((__u32)load_word(impl_field(s, t, t->device_off)),
					   t->device_has_first, &has);

	s->cell.kind = PTB_VAL_TENSOR;
	s->cell.aux = (__u16)((*(const __u8 *)impl_field(s, t, t->dtype_off)) | (dev & 0xff) << 8);
	s->cell.n = ndim | (dev & 0xff00);
}

/* storage_ of the TensorImpl: its data pointer; no storage: 0 */
ARG_FN bool put_ids(struct arg_scratch *s, const struct ptb_tensor_cfg *t, struct ptb_val_ids *ids,
		    __u64 impl)
{
	__u64 storage = s->tmp[0];

	ids->impl = impl;
	ids->offset = (__s64)IMPL_WORD(s, t, storage_offset_off);
	ids->storage = 0;
	return !storage || !ARG_READ(&ids->storage, 8, storage + t->storage_data_off);
}

/*
 * The tensor's Python object, whose address is TensorImpl's last word before the sizes
 * (PyObjSlot::pyobj_; its low bits are flags in some versions): is its type nn.Parameter itself?
 */
ARG_FN bool is_parameter(const struct arg_scratch *s, const struct ptb_tensor_cfg *t)
{
	__u64 obj = load_word(impl_field(s, t, (__u16)(t->sizes_off - 8))) & ~7ull, type;

	return t->parameter_type && obj && !ARG_READ(&type, 8, obj + 8) &&
	       type == t->parameter_type;
}

/* extra_meta_ begins with the pointer to symbolic sizes (c10/core/TensorImpl.h, ExtraMeta) */
ARG_FN bool check_symbolic(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u8 *flags)
{
	__u64 extra = IMPL_WORD(s, t, extra_meta_off), meta = 0;

	if (extra && ARG_READ(&meta, 8, extra))
		return false;
	if (meta)
		*flags |= PTB_VAL_F_SYMBOLIC;
	return true;
}

ARG_FN bool put_undefined(struct arg_scratch *s)
{
	__u64 *body = arg_at(s, s->pos);

	if (!arg_room(s, 16))
		return false;
	put_head(s, s->pos, PTB_VAL_UNDEFINED, s->full ? PTB_VAL_F_IDS : 0, 0, 0);
	body[1] = s->cell.a;
	s->pos += s->full ? 16 : 8;
	return true;
}

ARG_FN bool put_tensor_body(struct arg_scratch *s, const struct ptb_tensor_cfg *t, __u64 impl,
			    __u32 ndim)
{
	struct ptb_val_tensor *body = (void *)((__u8 *)arg_at(s, s->pos) + 8);
	__u64 *dims = (void *)(body + 1);
	__u32 len = 8 + sizeof(*body);
	__u8 flags = 0;

	body->keys = IMPL_WORD(s, t, key_set_off);
	body->numel = (__s64)IMPL_WORD(s, t, numel_off);
	if (s->full) {
		if (!put_ids(s, t, (void *)(body + 1), impl))
			return false;
		dims = (void *)((struct ptb_val_ids *)(body + 1) + 1);
		len += sizeof(struct ptb_val_ids);
		flags |= PTB_VAL_F_IDS | (s->tmp[0] ? PTB_VAL_F_STORAGE : 0);
		flags |= is_parameter(s, t) ? PTB_VAL_F_PARAMETER : 0;
	}
	if (!check_symbolic(s, t, &flags))
		return false;
	if (ndim > PTB_DIMS_MAX) {
		flags |= PTB_VAL_F_DIMS_CUT;
		ARG_COUNT(PTB_CNT_ARGS_CUT);
	} else {
		if (!put_dims(impl_field(s, t, t->sizes_off), dims, ndim))
			return false;
		len += 16 * ndim;
		s->cell.n |= 1u << 16;
	}
	put_head(s, s->pos, PTB_VAL_TENSOR, flags, s->cell.aux, s->cell.n);
	s->pos += len;
	return true;
}

#define ARG_TENSOR_MAX                                                                             \
	(8 + sizeof(struct ptb_val_tensor) + sizeof(struct ptb_val_ids) + 16 * PTB_DIMS_MAX)

/* One read of all from storage_ to key_set_, which are the first and last of what is needed. */
ARG_FN bool put_tensor(struct arg_scratch *s, const struct ptb_tensor_cfg *t)
{
	__u32 len = t->key_set_off + 8u - t->storage_off;
	__u64 impl = s->cell.a, ndim;

	if (impl && impl == t->undefined_impl)
		return put_undefined(s);
	if (!arg_room(s, ARG_TENSOR_MAX))
		return false;
	if (len > ARG_IMPL_MAX)
		return put_unknown(s);
	ARG_PIN(len);
	if (len > ARG_IMPL_MAX || ARG_READ(s->tmp, len, impl + t->storage_off))
		return put_unknown(s);
	ndim = IMPL_WORD(s, t, sizes_off);
	if (ndim > ARG_NDIM_MAX)
		return put_unknown(s);
	tensor_head(s, t, (__u32)ndim);
	return put_tensor_body(s, t, impl, (__u32)ndim) || put_unknown(s);
}

#endif /* PTB_ARG_PUT_H */
