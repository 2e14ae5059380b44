/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Argument payloads for tests; see value_words.h. */
#include "value_words.h"

#include <assert.h>
#include <string.h>

#ifdef NDEBUG
#error "the builder reports failures through assert"
#endif

struct slice_values vw__values(const struct value_words *w)
{
	return (struct slice_values){ .words = w->words, .word_cnt = w->cnt, .flags = VALUES_PRESENT };
}

void vw__raw(struct value_words *w, uint8_t kind, uint8_t flags, uint16_t aux, uint32_t n,
	     const void *body, uint32_t bytes)
{
	struct ptb_val h = { .kind = kind, .flags = flags, .aux = aux, .n = n };
	uint32_t words = (bytes + 7) / 8;

	assert(w->cnt + 1 + words <= VALUE_WORDS_MAX);
	memcpy(&w->words[w->cnt++], &h, sizeof(h));
	memset(&w->words[w->cnt], 0, words * 8);
	if (bytes)
		memcpy(&w->words[w->cnt], body, bytes);
	w->cnt += words;
}

void vw__unknown(struct value_words *w)
{
	vw__raw(w, PTB_VAL_UNKNOWN, 0, 0, 0, NULL, 0);
}

void vw__none(struct value_words *w)
{
	vw__raw(w, PTB_VAL_NONE, 0, 0, 0, NULL, 0);
}

void vw__int(struct value_words *w, int64_t v)
{
	vw__raw(w, PTB_VAL_INT, 0, 0, 0, &v, 8);
}

void vw__double(struct value_words *w, double v)
{
	vw__raw(w, PTB_VAL_DOUBLE, 0, 0, 0, &v, 8);
}

void vw__pending(struct value_words *w, uint32_t nr)
{
	uint64_t zero = 0;

	vw__raw(w, PTB_VAL_DOUBLE, PTB_VAL_F_PENDING, 0, nr, &zero, 8);
}

void vw__late(struct value_words *w, uint32_t nr, double v)
{
	vw__raw(w, PTB_VAL_DOUBLE, 0, 0, nr, &v, 8);
}

void vw__bool(struct value_words *w, bool v)
{
	vw__raw(w, PTB_VAL_BOOL, 0, 0, v, NULL, 0);
}

void vw__device(struct value_words *w, uint8_t type, int index)
{
	vw__raw(w, PTB_VAL_DEVICE, 0, type, (uint32_t)index, NULL, 0);
}

void vw__string(struct value_words *w, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);

	vw__raw(w, PTB_VAL_STRING, 0, (uint16_t)len, len, text, len);
}

void vw__ints(struct value_words *w, uint32_t cnt, const int64_t *v)
{
	vw__raw(w, PTB_VAL_INTS, 0, (uint16_t)cnt, cnt, v, cnt * 8);
}

void vw__bools(struct value_words *w, uint32_t cnt, const uint8_t *v)
{
	vw__raw(w, PTB_VAL_BOOLS, 0, (uint16_t)cnt, cnt, v, cnt);
}

void vw__complex(struct value_words *w, double re, double im)
{
	double both[2] = { re, im };

	vw__raw(w, PTB_VAL_COMPLEX, 0, 0, 0, both, sizeof(both));
}

void vw__opaque(struct value_words *w, uint32_t opaque)
{
	vw__raw(w, PTB_VAL_OPAQUE, 0, 0, opaque, NULL, 0);
}

void vw__undefined(struct value_words *w, uint64_t impl)
{
	vw__raw(w, PTB_VAL_UNDEFINED, impl ? PTB_VAL_F_IDS : 0, 0, 0, &impl, impl ? 8 : 0);
}

void vw__tensor(struct value_words *w, const struct vw_tensor *t)
{
	uint64_t body[64];
	uint32_t n = 0;
	int64_t numel = 1, stride = 1, strides[20];

	assert(t->ndim <= 20);
	for (uint32_t i = t->ndim; i--;) {
		strides[i] = t->own_strides ? t->strides[i] : stride;
		stride *= t->sizes[i] > 1 ? t->sizes[i] : 1;
		numel *= t->sizes[i];
	}
	body[n++] = t->keys;
	body[n++] = (uint64_t)numel;
	if (t->flags & PTB_VAL_F_IDS) {
		body[n++] = t->impl;
		body[n++] = t->storage;
		body[n++] = (uint64_t)t->offset;
	}
	if (!(t->flags & PTB_VAL_F_DIMS_CUT)) {
		for (uint32_t i = 0; i < t->ndim; i++)
			body[n++] = (uint64_t)t->sizes[i];
		for (uint32_t i = 0; i < t->ndim && !t->no_strides; i++)
			body[n++] = (uint64_t)strides[i];
	}
	vw__raw(w, PTB_VAL_TENSOR, t->flags, (uint16_t)(t->dtype | t->device_type << 8),
		t->ndim | (t->has_index ? (uint32_t)t->index << 8 : 0xff00U) |
			(t->no_strides ? 0 : 1U << 16),
		body, n * 8);
}

void vw__list(struct value_words *w, uint8_t kind, uint32_t n, uint16_t present)
{
	vw__raw(w, kind, present < n ? PTB_VAL_F_CUT : 0, present, n, NULL, 0);
}

void vw__state(struct value_words *w, uint32_t mode, uint64_t next_seq, uint64_t included, uint64_t excluded)
{
	uint64_t body[3] = { next_seq, included, excluded };

	vw__raw(w, PTB_VAL_STATE, 0, 0, mode, body, sizeof(body));
}
