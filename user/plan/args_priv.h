/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How arguments of operators are read. */
#ifndef PLAN_ARGS_PRIV_H
#define PLAN_ARGS_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "args/schema.h"
#include "code/code.h"
#include "plan/plan_priv.h"
#include "ptb_args.h"

/*
 * The facts that BPF programs need about tensors, values and thread-local state (struct
 * ptb_tensor_cfg, struct ptb_keys). They are derived from the code of one build, never from its
 * version. The file that derives a fact names the function that proves it. Without such a function
 * the fact is unknown, and tensors with an uncertain layout are not read at all.
 */

void tensor_layout__init(struct plan_layout *l);
/* Derives facts from b->lc (libc10, libtorch_cpu). */
void tensor_layout__learn(struct plan_build *b);
/* After all libraries: checks the facts and decides shapes_on. */
void tensor_layout__finish(struct plan_layout *l);

/* Can this be a tensor, as the programs read it? Checks the first live tensors. */
bool tensor_layout__plausible(uint32_t dtype, uint32_t ndim, const int64_t *sizes, int64_t numel,
			      int64_t storage_offset, uint64_t storage);

void tensor_layout__print(const struct plan_layout *l, FILE *out);

/* ---- private to the files below ---- */

/* Derives the bits of key_set_. */
void dispatch_keys__learn(struct leaf_run *r, struct plan_layout *l);
/* Bit of a functionality key in key_set_, by name; -1: none. */
int dispatch_keys__bit(struct leaf_run *r, const char *name);
/* Derives the grad mode and the local dispatch key set. After dispatch_keys__learn(). */
void local_state__learn(struct leaf_run *r, struct plan_layout *l);
/* Derives the tags of IValue (libtorch_cpu) and of Scalar (libc10). */
void ivalue_tags__learn(struct plan_build *b, struct leaf_run *r);
void scalar_tags__learn(struct leaf_run *r, struct plan_layout *l);
/* Derives torch.Tensor as a Python object (libtorch_python). */
void python_layout__learn(struct plan_build *b, struct leaf_run *r);
/* Address of a data symbol of b->lc; 0: none. */
uint64_t tensor_layout__object(const struct plan_build *b, const char *name);
/* The text that a register points to; NULL: none. */
const char *leaf_run__text(const struct leaf_run *r, uint8_t reg, uint64_t max);

/*
 * Parses the parameters of at::_ops::X::call as C++ types and assigns their locations by the System
 * V x86-64 rules: integer registers, a vector register, stack words. Only the types of torchgen's
 * cpp dispatcher API exist there; behind any other type nothing is known.
 */

enum arg_kind {
	ARG_UNKNOWN,   /* passed by value, of unknown size: all later locations are unknown */
	ARG_REFERENCE, /* an unknown type behind one pointer */
	ARG_TENSOR,    /* Tensor const&, Tensor& */
	ARG_SCALAR,    /* Scalar const& */
	ARG_INT,       /* long */
	ARG_INT8,      /* signed char: its upper bits are not defined */
	ARG_BOOL,
	ARG_ENUM, /* ScalarType, Layout, MemoryFormat: one byte */
	ARG_DEVICE,
	ARG_DOUBLE,
	ARG_SYMINT,      /* not trivial to copy: passed by invisible reference */
	ARG_GENERATOR,   /* likewise */
	ARG_STORAGE,     /* likewise */
	ARG_STREAM,      /* 16 bytes */
	ARG_DIMNAME,     /* 8 bytes */
	ARG_STRING,      /* string_view */
	ARG_BOOLS,       /* array<bool, n> */
	ARG_ILIST,       /* IListRef<Tensor> const& */
	ARG_OPT_TENSORS, /* List<optional<Tensor>> const& */
	/* intrusive_ptr<T> const&: an object of a class that is registered with torch */
	ARG_OBJECT,
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

/* Location of an argument. loc: words as in ptb_args.h, in the order of the value's own words. */
struct arg_location {
	uint8_t loc[3]; /* PTB_LOC_NONE: unused */
	uint8_t xmm;    /* register of the first eightbyte; PTB_LOC_NONE: none */
	bool known;
};

#define ARG_TYPES_MAX 64

/*
 * Splits "at::_ops::X::call(...)" at its arguments. optional: the kind of optional in this
 * library's OptionalArrayRef, whose name does not show it. Returns the count; -1: not understood.
 */
int arg_types__parse(const char *demangled, enum optional_abi optional,
		     struct arg_type types[ARG_TYPES_MAX]);
/* Likewise for any list of parameters, which begins behind its '('. */
int arg_types__list(const char *params, enum optional_abi optional,
		    struct arg_type types[ARG_TYPES_MAX]);

/* Assigns all locations. hidden: rdi has the result's address. */
void arg_types__locate(const struct arg_type *types, uint32_t cnt, bool hidden,
		       struct arg_location *locations);

/* Arguments of an operator that a C++ function with another signature calls through an inlined
 * typed handle. */

/* Adds the known arguments of function `func`, which has sites and whose graph is in b->flow.
 * mangled: its name; NULL: none. 0 or negative errno. */
int typed_args__add(struct plan_build *b, uint32_t func, const char *mangled);

/*
 * Compiles the argument program (ptb_args.h) of one operator from its schema and the locations of
 * its C++ parameters. A value is read as the type that torch would box it into. A value without a
 * known location becomes UNKNOWN and is counted; nothing is guessed.
 */

#define ARG_LATE_MAX 8 /* vector registers that carry arguments */

/* How a result is returned in a register. It has to be read at the exit. */
enum arg_result {
	ARG_RESULT_NONE,
	ARG_RESULT_BYTE, /* al */
	ARG_RESULT_WORD, /* rax */
	ARG_RESULT_XMM,  /* xmm0 */
};

struct arg_compiled {
	struct ptb_arg_prog prog;
	uint16_t unplaced;
	uint8_t result;    /* enum arg_result; if set, it is the program's first result */
	uint32_t late_cnt; /* number of doubles in vector registers */
	uint8_t late_op[ARG_LATE_MAX]; /* by vector register: index into prog.ops */
};

/* Compares the parameters with the schema. An operator may have an overload with int and one with
 * SymInt. Returns the number of small differences; -1: the schema belongs to another function. */
int arg_prog__fits(const struct schema *s, const struct arg_type *types, uint32_t cnt);

/* Returns false if there are too many arguments, or no schema (s NULL). out->unplaced then has
 * their number. */
bool arg_prog__compile(const struct schema *s, const struct arg_type *types, uint32_t cnt,
		       struct arg_compiled *out);

/* Location of a double at the late site: a register, or register + disp (in_memory). */
struct arg_late_location {
	bool found, in_memory;
	uint8_t reg; /* enum ptb_arg_reg */
	int32_t disp;
};

/*
 * Compiles the late site's program from the locations of all late doubles. Doubles that were not
 * found become UNKNOWN at the entry; the rest are numbered in the order of the entry's program.
 */
void arg_prog__late(struct arg_compiled *c, const struct arg_late_location *locations,
		    struct ptb_arg_prog *late);
/* Reads the result from the frame at the exit, disp bytes above rsp. */
void arg_prog__result_slot(struct arg_compiled *c, uint16_t disp);
/* Drops the result in a register. */
void arg_prog__no_result(struct arg_compiled *c);

/* Arguments of operators: schemas, argument programs and late sites of one function after
 * another. */

struct op_args {
	const struct op_texts *texts;
	enum optional_abi optional; /* of this library */
	struct value_locations locations;
	uint32_t no_schema, late, late_lost, results_lost; /* counts for the log */
};

void op_args__init(struct op_args *a, const struct lib_code *lc, const struct op_texts *texts);
void op_args__free(struct op_args *a);

/* Adds the known arguments of function `func`, whose graph is in b->flow if it has sites. */
int op_args__add(struct op_args *a, struct plan_build *b, const char *mangled, uint32_t func);

#endif /* PLAN_ARGS_PRIV_H */
