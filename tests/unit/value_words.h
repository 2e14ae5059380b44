/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Builds argument payloads (bpf/ptb_args.h) for tests, as the BPF programs would leave them.
 *
 *	struct value_words w = { 0 };
 *	vw__tensor(&w, &(struct vw_tensor){ .dtype = 6, .ndim = 2, .sizes = { 2, 3 } });
 *	vw__list(&w, PTB_VAL_LIST, 2, 2);       two elements follow, of two
 *	vw__int(&w, 1);
 *	vw__none(&w);
 */
#ifndef TESTS_VALUE_WORDS_H
#define TESTS_VALUE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "args/values.h"

#define VALUE_WORDS_MAX 8000

struct value_words {
	uint64_t words[VALUE_WORDS_MAX];
	uint32_t cnt;
};

struct vw_tensor {
	uint8_t dtype, device_type;
	bool has_index; /* device index is `index`, else none */
	uint8_t index, ndim;
	uint8_t flags; /* PTB_VAL_F_*; IDS: impl, storage, offset are written */
	bool no_strides;
	bool own_strides; /* strides[] as given, else those of a contiguous tensor */
	int64_t sizes[20], strides[20];
	uint64_t keys;
	uint64_t impl, storage;
	int64_t offset;
};

/* What a sink gets: VALUES_PRESENT and these words. */
struct slice_values vw__values(const struct value_words *w);

/* A header and its body, of any kind: what the others are made of, and for malformed ones. */
void vw__raw(struct value_words *w, uint8_t kind, uint8_t flags, uint16_t aux, uint32_t n,
	     const void *body, uint32_t bytes);
void vw__unknown(struct value_words *w);
void vw__none(struct value_words *w);
void vw__int(struct value_words *w, int64_t v);
void vw__double(struct value_words *w, double v);
void vw__pending(struct value_words *w, uint32_t nr);        /* a double that comes later */
void vw__late(struct value_words *w, uint32_t nr, double v); /* as an ARGS_MORE record has it */
void vw__bool(struct value_words *w, bool v);
void vw__device(struct value_words *w, uint8_t type, int index); /* -1: none */
void vw__string(struct value_words *w, const char *text);
void vw__ints(struct value_words *w, uint32_t cnt, const int64_t *v);
void vw__bools(struct value_words *w, uint32_t cnt, const uint8_t *v);
void vw__complex(struct value_words *w, double re, double im);
void vw__opaque(struct value_words *w, uint32_t opaque);
void vw__undefined(struct value_words *w, uint64_t impl);          /* 0: without identity */
void vw__tensor(struct value_words *w, const struct vw_tensor *t); /* numel follows from sizes */
/* Head of a list; `present` of its `n` elements must be added next. CUT is set when fewer. */
void vw__list(struct value_words *w, uint8_t kind, uint32_t n, uint16_t present);
/* mode: PTB_STATE_* */
void vw__state(struct value_words *w, uint32_t mode, uint64_t next_seq, uint64_t included,
	       uint64_t excluded);

#endif /* TESTS_VALUE_WORDS_H */
