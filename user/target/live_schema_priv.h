/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between live_schema.c and live_types.c. */
#ifndef TARGET_LIVE_SCHEMA_PRIV_H
#define TARGET_LIVE_SCHEMA_PRIV_H

#include "target/torch.h"

#define SCHEMA_TEXT_MAX 256 /* bytes of a name or of a default's text */
#define SCHEMA_READS_MAX 20000
#define SCHEMA_NEST_MAX 6

struct schema_ctx {
	pid_t pid;
	struct live_schema_layout *l;
	char *buf; /* what is printed so far */
	size_t len, cap;
	uint32_t reads;
	int err; /* first error; then nothing is read or printed any more */
};

/* Sets the first error; returns it. */
int schema__fail(struct schema_ctx *c, int err);
bool schema__string(struct schema_ctx *c, uint64_t addr, char *buf, size_t cap);
void schema__put(struct schema_ctx *c, const char *text);

/* What kind of type an object is. */
enum type_shape {
	TYPE_NONE,  /* no type object */
	TYPE_PLAIN, /* has a fixed text */
	TYPE_LIST,
	TYPE_OPTIONAL,
	TYPE_ONE, /* one element in parentheses: Future, RRef, Await */
	TYPE_DICT,
	TYPE_TUPLE,
	TYPE_VAR,   /* a type variable with a name */
	TYPE_NAMED, /* a class with a qualified name */
	TYPE_OTHER, /* known, and not understood */
};
enum type_shape schema__type_shape(struct schema_ctx *c, uint64_t type);
/* The element of a list, an optional or the like; 0 and an error if there is none. */
uint64_t schema__type_element(struct schema_ctx *c, uint64_t type);
/* Is this the text of the type, which has a fixed one? */
bool schema__type_is(struct schema_ctx *c, uint64_t type, const char *text);
void schema__put_type(struct schema_ctx *c, uint64_t type, uint32_t depth);

#endif /* TARGET_LIVE_SCHEMA_PRIV_H */
