/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Protocol buffers' wire format (protobuf.dev/programming-guides/encoding), written into a buffer
 * that grows. A message is open from pb__begin() to pb__end(), which makes room for its length when
 * that takes more than the byte that was left for it.
 */
#ifndef EXPORT_PB_H
#define EXPORT_PB_H

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

struct pb {
	uint8_t *p;
	size_t len, cap;
};

enum pb_type { PB_VARINT, PB_FIXED64, PB_LEN };

#define PB_VARINT_MAX 10

static inline void pb__room(struct pb *b, size_t need)
{
	if (b->cap - b->len >= need)
		return;
	b->cap = 2 * b->cap + need + 256;
	b->p = xrealloc(b->p, b->cap);
}

static inline void pb__varint(struct pb *b, uint64_t v)
{
	uint8_t *p;

	pb__room(b, PB_VARINT_MAX);
	p = b->p + b->len;
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	b->len = (size_t)(p - b->p);
}

static inline void pb__tag(struct pb *b, uint32_t field, enum pb_type type)
{
	pb__varint(b, (uint64_t)field << 3 | type);
}

static inline void pb__u64(struct pb *b, uint32_t field, uint64_t v)
{
	pb__tag(b, field, PB_VARINT);
	pb__varint(b, v);
}

static inline void pb__double(struct pb *b, uint32_t field, double v)
{
	pb__tag(b, field, PB_FIXED64);
	pb__room(b, sizeof(v));
	memcpy(b->p + b->len, &v, sizeof(v)); /* little endian, as all machines that it runs on */
	b->len += sizeof(v);
}

static inline void pb__raw(struct pb *b, const void *data, size_t len)
{
	pb__room(b, len);
	if (len)
		memcpy(b->p + b->len, data, len);
	b->len += len;
}

static inline void pb__bytes(struct pb *b, uint32_t field, const void *data, size_t len)
{
	pb__tag(b, field, PB_LEN);
	pb__varint(b, len);
	pb__raw(b, data, len);
}

/* What pb__end() wants. */
static inline size_t pb__begin(struct pb *b, uint32_t field)
{
	pb__tag(b, field, PB_LEN);
	pb__room(b, 1);
	return ++b->len;
}

static inline void pb__end(struct pb *b, size_t begin)
{
	size_t len = b->len - begin, more = 0;

	for (size_t rest = len; rest >= 0x80; rest >>= 7)
		more++;
	if (more) {
		pb__room(b, more);
		memmove(b->p + begin + more, b->p + begin, len);
	}
	b->len = begin - 1;
	pb__varint(b, len);
	b->len += len;
}

#endif /* EXPORT_PB_H */
