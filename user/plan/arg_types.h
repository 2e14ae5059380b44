/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The parameters of at::_ops::X::call as C++ types, and where the System V x86-64 rules put each: which
 * integer registers, which vector register, which stack words. The vocabulary of types is closed
 * (torchgen's cpp dispatcher API); a type outside of it ends what can be known. Knows no schemas.
 */
#ifndef PLAN_ARG_TYPES_H
#define PLAN_ARG_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptb_args.h"

enum arg_kind {
	ARG_UNKNOWN,   /* by value, of unknown size: nothing behind it can be known */
	ARG_REFERENCE, /* unknown, but one pointer */
	ARG_TENSOR,    /* Tensor const&, Tensor& */
	ARG_SCALAR,    /* Scalar const& */
	ARG_INT,       /* long */
	ARG_INT8,      /* signed char: its upper bits are not defined */
	ARG_BOOL,
	ARG_ENUM, /* ScalarType, Layout, MemoryFormat: one byte */
	ARG_DEVICE,
	ARG_DOUBLE,
	ARG_SYMINT,      /* not trivial to copy: by invisible reference */
	ARG_GENERATOR,   /* likewise */
	ARG_STORAGE,     /* likewise */
	ARG_STREAM,      /* 16 bytes */
	ARG_DIMNAME,     /* 8 bytes */
	ARG_STRING,      /* string_view */
	ARG_BOOLS,       /* array<bool, n> */
	ARG_ILIST,       /* IListRef<Tensor> const& */
	ARG_OPT_TENSORS, /* List<optional<Tensor>> const& */
	ARG_OBJECT, /* intrusive_ptr<T> const&: an object of a class that is registered with torch */
	ARG_TENSORS_REF,  /* ArrayRef<Tensor> const& */
	ARG_TENSOR_LISTS, /* vector<vector<Tensor>> const& */
	ARG_INT_VECTOR,   /* vector<long> const& */
	/* ArrayRef of */
	ARG_INTS,
	ARG_SYMINTS,
	ARG_DOUBLES,
	ARG_TENSORS,
	ARG_SCALARS,
	ARG_DIMNAMES,
};

enum optional_abi {
	OPTIONAL_NONE, /* not optional */
	OPTIONAL_STD,  /* value, then flag */
	OPTIONAL_C10,  /* flag, then value */
};

struct arg_type {
	uint8_t kind;     /* enum arg_kind */
	uint8_t optional; /* enum optional_abi */
	uint8_t cnt;      /* BOOLS: n */
	bool written;     /* TENSOR: Tensor& */
	bool std_view; /* STRING: std::string_view {length, pointer}, not c10's {pointer, length} */
};

/* Where an argument is. loc: words as in ptb_args.h, in the order of the value's own words. */
struct arg_location {
	uint8_t loc[3]; /* PTB_LOC_NONE: not used */
	uint8_t xmm;    /* register of the first eightbyte, PTB_LOC_NONE: none */
	bool known;
};

#define ARG_TYPES_MAX 64

/*
 * Splits "at::_ops::X::call(...)" at its arguments. optional: what OptionalArrayRef is made of in this
 * library, which its name does not say. Returns the count; -1: not understood.
 */
int arg_types__parse(const char *demangled, enum optional_abi optional,
		     struct arg_type types[ARG_TYPES_MAX]);
/* The same of any list of parameters: what is behind its '('. */
int arg_types__list(const char *params, enum optional_abi optional, struct arg_type types[ARG_TYPES_MAX]);
/* One type's text; exposed for tests. */
struct arg_type arg_types__one(const char *text, size_t len, enum optional_abi optional);

/* Places all of them. hidden: rdi is the result's address. */
void arg_types__locate(const struct arg_type *types, uint32_t cnt, bool hidden,
		       struct arg_location *locations);

#endif /* PLAN_ARG_TYPES_H */
