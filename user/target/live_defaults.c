/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Default values of arguments as torch prints them (pytorch aten/src/ATen/core/ivalue.cpp, operator<<). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "target/live_schema_priv.h"

#define LIST_MAX 64

/* c10::printQuotedString (aten/src/ATen/core/... alias for escapes of C) */
static void put_quoted(struct schema_ctx *c, const char *text)
{
	static const char codes[] = "abtnvfr"; /* 7 to 13 */
	char out[8];

	schema__put(c, "\"");
	for (; *text; text++) {
		uint8_t ch = (uint8_t)*text;

		if (ch == '\\' || ch == '\'' || ch == '"')
			snprintf(out, sizeof(out), "\\%c", ch);
		else if (ch >= 7 && ch <= 13)
			snprintf(out, sizeof(out), "\\%c", codes[ch - 7]);
		else if (ch < 0x20 || ch > 0x7e)
			snprintf(out, sizeof(out), "\\%03o", ch);
		else
			snprintf(out, sizeof(out), "%c", ch);
		schema__put(c, out);
	}
	schema__put(c, "\"");
}

static void put_double(struct schema_ctx *c, double d)
{
	int class = fpclassify(d);
	char out[40];

	if ((class == FP_NORMAL || class == FP_ZERO) && fabs(d) < 1e10 && d == trunc(d))
		snprintf(out, sizeof(out), "%s%" PRId64 ".", signbit(d) && d == 0 ? "-" : "",
			 (int64_t)d);
	else
		snprintf(out, sizeof(out), "%.17g", d);
	schema__put(c, out);
}

static void put_list(struct schema_ctx *c, uint64_t list, bool quote, uint32_t depth)
{
	uint8_t value[16];
	uint64_t first;
	uint32_t i, cnt;

	if (!schema__vector(c, list + c->l->object_header, 16, LIST_MAX, &first, &cnt))
		return;
	schema__put(c, "[");
	for (i = 0; i < cnt && !c->err; i++) {
		if (i)
			schema__put(c, ", ");
		if (schema__read(c, first + 16 * i, value, sizeof(value)))
			schema__put_value(c, value, quote, depth + 1);
	}
	schema__put(c, "]");
}

/* "int[2] stride=1" for [1, 1]: as native_functions.yaml spells it (function_schema.h). */
void schema__put_ints(struct schema_ctx *c, const uint8_t value[16])
{
	uint8_t values[LIST_MAX][16];
	uint64_t list, first;
	uint32_t i, cnt, tag;

	memcpy(&list, value, sizeof(list));
	memcpy(&tag, value + 8, sizeof(tag));
	if (tag < PTB_IVALUE_TAGS && c->l->ivalue_kind[tag] == PTB_VAL_LIST &&
	    schema__vector(c, list + c->l->object_header, 16, LIST_MAX, &first, &cnt) && cnt > 1 &&
	    schema__read(c, first, values, 16 * cnt)) {
		for (i = 1; i < cnt && !memcmp(values[i], values[0], 12); i++)
			;
		if (i == cnt) {
			schema__put_value(c, values[0], false, 1);
			return;
		}
	}
	schema__put_value(c, value, false, 0);
}

void schema__put_value(struct schema_ctx *c, const uint8_t value[16], bool quote, uint32_t depth)
{
	char text[SCHEMA_TEXT_MAX];
	uint64_t payload;
	uint32_t tag;
	double d;

	memcpy(&payload, value, sizeof(payload));
	memcpy(&tag, value + 8, sizeof(tag));
	if (tag >= PTB_IVALUE_TAGS || depth > SCHEMA_NEST_MAX) {
		schema__fail(c, -ENOTSUP);
		return;
	}
	switch (c->l->ivalue_kind[tag]) {
	case PTB_VAL_NONE:
		schema__put(c, "None");
		break;
	case PTB_VAL_INT:
		snprintf(text, sizeof(text), "%" PRId64, (int64_t)payload);
		schema__put(c, text);
		break;
	case PTB_VAL_BOOL:
		schema__put(c, payload & 0xff ? "True" : "False");
		break;
	case PTB_VAL_DOUBLE:
		memcpy(&d, &payload, sizeof(d));
		put_double(c, d);
		break;
	case PTB_VAL_STRING:
		if (!schema__string(c, payload + c->l->object_header, text, sizeof(text)))
			break;
		if (quote)
			put_quoted(c, text);
		else
			schema__put(c, text);
		break;
	case PTB_VAL_LIST:
		put_list(c, payload, quote, depth);
		break;
	default:
		schema__fail(c, -ENOTSUP);
		break;
	}
}
