/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reading the values that a slice carries (inputs, results): a bounded walk over the words of
 * bpf/ptb_args.h, which come from a capture and are hostile. Decodes layout only: how a consumer
 * prints a value is the exporters' business.
 */
#ifndef ARGS_VALUES_H
#define ARGS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "ptb_args.h"

#define VALUES_PRESENT 0x1 /* recorded, though perhaps none: without it nothing is known */
#define VALUES_CUT 0x2     /* those that did not fit are missing */

/* A list of values; points into the model's memory, valid during the sink's call. */
struct slice_values {
	const uint64_t *words;
	uint32_t word_cnt;
	uint32_t flags; /* VALUES_* */
};

struct value {
	enum ptb_val_kind kind;
	uint8_t flags; /* PTB_VAL_F_* */
	union {
		int64_t i; /* INT; BOOL: 0 or 1; DEVICE: index, -1: none; OPAQUE: enum ptb_opaque */
		double d;  /* DOUBLE, COMPLEX: real part */
	};
	double imag;
	/* TENSOR, UNDEFINED with PTB_VAL_F_IDS: numbers, see model_priv.h */
	uint32_t tensor, storage_id;
	uint64_t storage; /* ... its data's address */
	int64_t offset, numel;
	uint64_t keys;
	uint8_t dtype, device_type; /* TENSOR; DEVICE: device_type */
	int16_t device_index;       /* TENSOR: -1: none */
	uint32_t ndim;              /* TENSOR: 0 with PTB_VAL_F_DIMS_CUT */
	const int64_t *sizes, *strides;
	uint32_t n, present; /* lists, texts: true count and what follows (BOOLS, STRING: bytes) */
	const void *data; /* INTS: int64_t[], DOUBLES: double[], BOOLS: uint8_t[], STRING: char[] */
	struct slice_values elems; /* LIST, TUPLE, TENSORS, OPT_TENSORS: `present` values */
};

struct value_iter {
	const uint64_t *at, *end;
};

struct value_iter values__begin(const struct slice_values *sv);
/* False at the end, and where the words make no sense (what was read before stands). STATE is
 * skipped. */
bool values__next(struct value_iter *it, struct value *v);
/* Element i < present of INTS, which may be SymInts: a number, or OPAQUE where it is symbolic
 * (pytorch c10/core/SymInt.h: what is below -2^62 is a pointer with a tag). */
struct value value__int_elem(const struct value *list, uint32_t i);

/* What a payload as a whole says; for the model, in the one walk that checks it. */
struct value_survey {
	uint32_t words; /* that make whole values, nested PTB_NEST_MAX deep at most */
	uint8_t flags;  /* of all values and elements together */
	uint64_t keys;  /* key sets of all tensors together */
	bool unknown;   /* some could not be read */
	bool has_state; /* PTB_VAL_STATE: */
	bool grad_mode, grad_unmade;
	uint64_t next_seq, included, excluded;
};

struct value_survey values__survey(const uint64_t *words, uint32_t cnt);
/* Replaces the address of every TensorImpl by what fn makes of it and of its storage's data (NULL:
 * an undefined tensor, which has none). The payload was checked. */
void values__name_tensors(uint64_t *words, uint32_t cnt,
			  uint64_t (*fn)(void *arg, uint64_t impl, const uint64_t *data),
			  void *arg);
/* Gives the PENDING doubles among the values the numbers of the doubles in `late`, by DOUBLE.n. */
void values__fill_pending(uint64_t *words, uint32_t cnt, const struct slice_values *late);
/* Words of the first value, 0 if there is none. */
uint32_t values__first_words(const uint64_t *words, uint32_t cnt);

/* "float", "c10::BFloat16", "long int": C++ names of torch's scalar types (pytorch
 * c10/util/typeid.h); NULL: not a scalar type that torch can name. */
const char *dtype__cxx_name(uint32_t dtype);
const char *dtype__name(uint32_t dtype);             /* "Float", "BFloat16"; NULL: not known */
uint32_t dtype__itemsize(uint32_t dtype);            /* 0: not known */
const char *device__type_name(uint32_t device_type); /* "cpu", "cuda"; NULL: not known */

#endif /* ARGS_VALUES_H */
