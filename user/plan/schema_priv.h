/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What schema_text.c and schema_value.c share. */
#ifndef PLAN_SCHEMA_PRIV_H
#define PLAN_SCHEMA_PRIV_H

#include "plan/schema_text.h"

#define SCHEMA_DEPTH_MAX 8

struct schema_parser {
	const char *at, *end;
	char *out;
	size_t cap, len;
	int32_t list_n; /* of the last type: N of "int[N]", -1 if none */
	uint32_t depth;
	bool bad;
};

void schema_out(struct schema_parser *p, const char *s, size_t len);
void schema_puts(struct schema_parser *p, const char *s);
void schema_skip_blanks(struct schema_parser *p);
bool schema_peek(struct schema_parser *p, const char *tok);
bool schema_take(struct schema_parser *p, const char *tok);
size_t schema_word(struct schema_parser *p, const char **word); /* 0: none there */

/* Reads the default value of an argument and prints it. */
void schema_value(struct schema_parser *p, const struct schema_arg *a);

#endif /* PLAN_SCHEMA_PRIV_H */
