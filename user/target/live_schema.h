/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The schema of an operator of a live process, as torch prints it ("mylib::foo(Tensor x, int n=3) ->
 * Tensor"). The only source for operators that no library has a text for: custom ones. Everything read is
 * hostile: counts, depth and the number of reads are bounded, and what is not understood gives an error
 * instead of half a schema.
 */
#ifndef TARGET_LIVE_SCHEMA_H
#define TARGET_LIVE_SCHEMA_H

#include "ptb_probe.h"
#include "target/live_ops.h"

#define LIVE_TYPES_MAX 64 /* classes of types that are remembered */

struct live_schema_layout {
	/* Set before live_schema__derive(). */
	bool old_string_abi;
	uint8_t object_header; /* of strings and lists: 24 or 16 */
	uint16_t ivalue_kind[PTB_IVALUE_TAGS];
	uint64_t interned; /* runtime address of c10::InternedStrings, for alias letters; 0: none */
	/* Found by it. */
	bool has_first; /* std::optional would be {value, flag}, c10::optional is {flag, value} */
	uint16_t schema_off;            /* OperatorDef: FunctionSchema */
	uint16_t args_off, returns_off; /* OperatorDef: std::vector<Argument> */
	uint16_t argument_size;
	/* Remembered: what class a vptr is. */
	struct {
		uint64_t vptr;
		uint8_t row;
	} types[LIVE_TYPES_MAX];
	uint32_t type_cnt;
	uint64_t names_ns; /* processor time to demangle their names */
};

/* Finds the offsets from operators whose names are known. 0, -ENOTSUP: they do not have the
 * layout that is understood, or another negative errno. */
int live_schema__derive(pid_t pid, const struct live_ops *ops, struct live_schema_layout *l);

/* The schema of one operator. 0; -ENOENT: it has none; -ENOTSUP: something in it is not understood;
 * -ENAMETOOLONG; another negative errno. */
int live_schema__read(pid_t pid, uint64_t opdef, struct live_schema_layout *l, char *buf, size_t cap);

#endif /* TARGET_LIVE_SCHEMA_H */
