/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Layout and text of a FunctionSchema (pytorch aten/src/ATen/core/function_schema.h). OperatorDef
 * begins with OperatorEntry {OperatorName name_; optional<AnnotatedSchema> schema_; ...}, whose
 * schema begins
 *
 *	FunctionSchema { OperatorName name_; vector<Argument> arguments_, returns_; bool is_vararg_,
 *			 is_varret_; ... }
 *	Argument { string name_; TypePtr type_, real_type_; optional<int32_t> N_; optional<IValue>
 *		   default_value_; unique_ptr<AliasInfo> alias_info_; bool kwarg_only_; ... }
 *	AliasInfo { unordered_set<Symbol> beforeSets_, afterSets_; vector<AliasInfo>
 *		    containedTypes_; bool isWrite_; }	(alias_info.h)
 *
 * Two things differ between builds, the size of std::string and on which side of an optional its
 * flag is; both follow from where the operator's own name comes a second time.
 */
#include "target/torch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "target/live_schema_priv.h"
#include "target/proc.h"

#define ARGS_MAX 128
#define SETS_MAX 8
#define SET_SZ 56 /* libstdc++'s unordered_set */
#define ALIAS_SZ (2 * SET_SZ + 24 + 8)
#define NAME_CAP 1024
#define SAMPLES 64u
#define LIST_MAX 64
/* clang-format off */
/* InternedStrings: unordered_map, vector<SymbolInfo> (interned_strings_class.h) */
#define SYMBOL_VEC    56
/* clang-format on */

/* ---- reading and printing ---- */

int schema__fail(struct schema_ctx *c, int err)
{
	if (!c->err)
		c->err = err;
	return c->err;
}

static bool schema_read(struct schema_ctx *c, uint64_t addr, void *buf, size_t len)
{
	int err;

	memset(buf, 0, len);
	if (c->err)
		return false;
	err = ++c->reads > SCHEMA_READS_MAX ? -E2BIG : remote__read(c->pid, addr, buf, len);
	return !err || schema__fail(c, err) == 0;
}

bool schema__string(struct schema_ctx *c, uint64_t addr, char *buf, size_t cap)
{
	int err;

	buf[0] = 0;
	if (c->err)
		return false;
	c->reads += 2;
	err = remote__read_string(c->pid, addr, c->l->old_string_abi, buf, cap);
	return !err || schema__fail(c, err) == 0;
}

void schema__put(struct schema_ctx *c, const char *text)
{
	size_t len = strlen(text);

	if (c->err)
		return;
	if (len >= c->cap - c->len) {
		schema__fail(c, -ENAMETOOLONG);
		return;
	}
	memcpy(c->buf + c->len, text, len + 1);
	c->len += len;
}

/* A std::vector at addr: its elements' address and count; more than max is an error. */
static bool schema_vector(struct schema_ctx *c, uint64_t addr, uint32_t elem, uint32_t max,
			  uint64_t *first, uint32_t *cnt)
{
	uint64_t v[3];

	*cnt = 0;
	if (!schema_read(c, addr, v, sizeof(v)))
		return false;
	*first = v[0];
	if (v[1] < v[0] || v[2] < v[1] || (v[1] - v[0]) % elem || (v[1] - v[0]) / elem > max)
		return schema__fail(c, -EBADMSG) == 0;
	*cnt = (uint32_t)((v[1] - v[0]) / elem);
	return true;
}

/* ---- the layout ---- */

static uint16_t string_size(const struct live_schema_layout *l)
{
	return l->old_string_abi ? 8 : 32;
}

static void set_offsets(struct live_schema_layout *l, bool has_first)
{
	uint16_t name = (uint16_t)(2 * string_size(l));

	l->has_first = has_first;
	l->schema_off = (uint16_t)(name + (has_first ? 8 : 0));
	l->args_off = (uint16_t)(l->schema_off + name);
	l->returns_off = (uint16_t)(l->args_off + 24);
	/* name, two types, optional<int>, optional<IValue>, alias, flags */
	l->argument_size = (uint16_t)(string_size(l) + 2 * 16 + 8 + 24 + 8 + 8);
}

/* Has the operator a schema under this layout? Its name is there again, and its arguments are
 * some. */
static bool fits(pid_t pid, const struct live_op *op, struct live_schema_layout *l)
{
	struct schema_ctx c = { .pid = pid, .l = l };
	char name[NAME_CAP];
	uint64_t first, type;
	uint32_t cnt;

	if (live_ops__name_at(pid, op->opdef + l->schema_off, l->old_string_abi, name,
			      sizeof(name)) ||
	    strcmp(name, op->name) != 0)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		if (!schema_vector(&c, op->opdef + (i ? l->returns_off : l->args_off),
				   l->argument_size, ARGS_MAX, &first, &cnt))
			return false;
		if (cnt && (!schema_read(&c, first + string_size(l), &type, sizeof(type)) ||
			    schema__type_shape(&c, type) == TYPE_NONE))
			return false;
	}
	return true;
}

int live_schema__derive(pid_t pid, const struct live_ops *ops, struct live_schema_layout *l)
{
	uint32_t step = ops->cnt / SAMPLES + 1, tried = 0, good[2] = { 0 };
	bool has_first;

	for (uint32_t i = 0; i < ops->cnt; i += step) {
		tried++;
		for (uint32_t first = 0; first < 2; first++) {
			set_offsets(l, first);
			good[first] += fits(pid, &ops->ops[i], l);
		}
	}
	/* a few operators have kernels only, and no schema */
	has_first = good[1] > good[0];
	set_offsets(l, has_first);
	if (tried && good[has_first] * 10 >= tried * 9 && !good[!has_first])
		return 0;
	l->args_off = l->returns_off = PTB_OFF_UNKNOWN;
	l->argument_size = 0;
	return -ENOTSUP;
}

/* ---- alias annotations ---- */

/* Symbol "alias::a" as "a". */
static bool symbol_text(struct schema_ctx *c, uint32_t symbol, char *buf, size_t cap)
{
	uint32_t size = 8 + 2u * string_size(c->l), cnt;
	char qual[SCHEMA_TEXT_MAX];
	uint64_t first;

	if (!c->l->interned)
		return schema__fail(c, -ENOTSUP) == 0;
	if (!schema_vector(c, c->l->interned + SYMBOL_VEC, size, 1 << 24, &first, &cnt))
		return false;
	if (symbol >= cnt)
		return schema__fail(c, -EBADMSG) == 0;
	first += (uint64_t)symbol * size + 8;
	if (!schema__string(c, first, qual, sizeof(qual)) ||
	    !schema__string(c, first + string_size(c->l), buf, cap))
		return false;
	if (strncmp(qual, "alias::", 7) != 0 || strcmp(qual + 7, buf) != 0)
		return schema__fail(c, -ENOTSUP) == 0;
	return true;
}

/* {buckets, bucket count, first node, count, ...}; a node is {next, symbol}. */
static bool read_set(struct schema_ctx *c, const uint8_t *set, uint32_t symbols[SETS_MAX],
		     uint32_t *cnt)
{
	uint64_t words[4], node[2];

	memcpy(words, set, sizeof(words));
	*cnt = 0;
	if (words[3] > SETS_MAX)
		return schema__fail(c, -ENOTSUP) == 0;
	for (uint32_t i = 0; i < words[3]; i++) {
		if (!schema_read(c, i ? node[0] : words[2], node, sizeof(node)))
			return false;
		symbols[(*cnt)++] = (uint32_t)node[1];
	}
	return true;
}

static void put_set(struct schema_ctx *c, const uint32_t *symbols, uint32_t cnt)
{
	char text[SCHEMA_TEXT_MAX];

	for (uint32_t i = 0; i < cnt; i++) {
		if (i)
			schema__put(c, "|");
		if (symbol_text(c, symbols[i], text, sizeof(text)))
			schema__put(c, text);
	}
}

/* Sets are equal whatever their order. */
static bool same_set(const uint32_t *a, uint32_t a_cnt, const uint32_t *b, uint32_t b_cnt)
{
	uint32_t k;

	for (uint32_t i = 0; i < a_cnt; i++) {
		for (k = 0; k < b_cnt && b[k] != a[i]; k++)
			;
		if (k == b_cnt)
			return false;
	}
	return a_cnt == b_cnt;
}

static void put_alias(struct schema_ctx *c, const uint8_t *alias, bool even_empty)
{
	uint32_t before[SETS_MAX], after[SETS_MAX], before_cnt, after_cnt;

	if (!read_set(c, alias, before, &before_cnt) || (!before_cnt && !even_empty) ||
	    !read_set(c, alias + SET_SZ, after, &after_cnt))
		return;
	schema__put(c, "(");
	put_set(c, before, before_cnt);
	if (alias[2 * SET_SZ + 24])
		schema__put(c, "!");
	if (!same_set(before, before_cnt, after, after_cnt)) {
		schema__put(c, " -> ");
		put_set(c, after, after_cnt);
	}
	schema__put(c, ")");
}

/* ---- default values, as torch prints them (aten/src/ATen/core/ivalue.cpp, operator<<) ---- */

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

static void put_value(struct schema_ctx *c, const uint8_t value[16], bool quote, uint32_t depth);

static void put_ivalue_list(struct schema_ctx *c, uint64_t list, bool quote, uint32_t depth)
{
	uint8_t value[16];
	uint64_t first;
	uint32_t cnt;

	if (!schema_vector(c, list + c->l->object_header, 16, LIST_MAX, &first, &cnt))
		return;
	schema__put(c, "[");
	for (uint32_t i = 0; i < cnt && !c->err; i++) {
		if (i)
			schema__put(c, ", ");
		if (schema_read(c, first + 16 * i, value, sizeof(value)))
			put_value(c, value, quote, depth + 1);
	}
	schema__put(c, "]");
}

/* "int[2] stride=1" for [1, 1]: as native_functions.yaml spells it (function_schema.h). */
static void put_ints(struct schema_ctx *c, const uint8_t value[16])
{
	uint8_t values[LIST_MAX][16];
	uint64_t list, first;
	uint32_t i, cnt, tag;

	memcpy(&list, value, sizeof(list));
	memcpy(&tag, value + 8, sizeof(tag));
	if (tag < PTB_IVALUE_TAGS && c->l->ivalue_kind[tag] == PTB_VAL_LIST &&
	    schema_vector(c, list + c->l->object_header, 16, LIST_MAX, &first, &cnt) && cnt > 1 &&
	    schema_read(c, first, values, 16 * cnt)) {
		for (i = 1; i < cnt && !memcmp(values[i], values[0], 12); i++)
			;
		if (i == cnt) {
			put_value(c, values[0], false, 1);
			return;
		}
	}
	put_value(c, value, false, 0);
}

static void put_value(struct schema_ctx *c, const uint8_t value[16], bool quote, uint32_t depth)
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
		put_ivalue_list(c, payload, quote, depth);
		break;
	default:
		schema__fail(c, -ENOTSUP);
		break;
	}
}

/* ---- arguments ---- */

struct raw_arg {
	uint64_t addr;
	uint64_t type; /* real_type_: "ScalarType" where type_ says "int" */
	bool has_n, has_default, has_alias, kwarg_only;
	int32_t n;
	uint8_t value[16];
	uint8_t alias[ALIAS_SZ];
};

static bool read_arg(struct schema_ctx *c, uint64_t addr, struct raw_arg *a)
{
	uint8_t bytes[16 + 16 + 8 + 24 + 8 + 8]; /* after the name */
	const uint8_t *n = bytes + 32, *def = bytes + 40;
	bool hf = c->l->has_first;
	uint64_t alias;

	memset(a, 0, sizeof(*a));
	a->addr = addr;
	if (!schema_read(c, addr + string_size(c->l), bytes, sizeof(bytes)))
		return false;
	memcpy(&a->type, bytes + 16, sizeof(a->type));
	a->has_n = n[hf ? 0 : 4];
	memcpy(&a->n, n + (hf ? 4 : 0), sizeof(a->n));
	a->has_default = def[hf ? 0 : 16];
	memcpy(a->value, def + (hf ? 8 : 0), sizeof(a->value));
	memcpy(&alias, bytes + 64, sizeof(alias));
	a->kwarg_only = bytes[72];
	a->has_alias = alias;
	return !alias || schema_read(c, alias, a->alias, sizeof(a->alias));
}

/* "Tensor(a)[]": the element's alias, of the first of containedTypes_. */
static void put_contained_alias(struct schema_ctx *c, const struct raw_arg *a)
{
	uint8_t alias[ALIAS_SZ];
	uint64_t range[2];

	memcpy(range, a->alias + 2 * SET_SZ, sizeof(range));
	if (!a->has_alias || range[0] == range[1])
		return;
	if (range[1] < range[0] || (range[1] - range[0]) % ALIAS_SZ)
		schema__fail(c, -EBADMSG);
	else if (schema_read(c, range[0], alias, sizeof(alias)))
		put_alias(c, alias, true);
}

/* Strings are quoted for the types str, str? and str[]. */
static bool quotes(struct schema_ctx *c, uint64_t type)
{
	enum type_shape shape = schema__type_shape(c, type);

	if (shape == TYPE_OPTIONAL || shape == TYPE_LIST)
		type = schema__type_element(c, type);
	return schema__type_is(c, type, "str");
}

static void put_arg(struct schema_ctx *c, const struct raw_arg *a)
{
	bool opt = schema__type_shape(c, a->type) == TYPE_OPTIONAL;
	uint64_t type = opt ? schema__type_element(c, a->type) : a->type;
	char text[SCHEMA_TEXT_MAX];

	if (schema__type_shape(c, type) == TYPE_LIST) {
		schema__put_type(c, schema__type_element(c, type), 0);
		put_contained_alias(c, a);
		snprintf(text, sizeof(text), "%d", a->n);
		schema__put(c, "[");
		schema__put(c, a->has_n ? text : "");
		schema__put(c, "]");
	} else {
		schema__put_type(c, type, 0);
	}
	if (a->has_alias)
		put_alias(c, a->alias, false);
	schema__put(c, opt ? "?" : "");
	if (!schema__string(c, a->addr, text, sizeof(text)))
		return;
	if (*text) {
		schema__put(c, " ");
		schema__put(c, text);
	}
	if (!a->has_default)
		return;
	schema__put(c, "=");
	if (!opt && schema__type_shape(c, type) == TYPE_LIST &&
	    schema__type_is(c, schema__type_element(c, type), "int"))
		put_ints(c, a->value);
	else
		put_value(c, a->value, quotes(c, a->type), 0);
}

static void put_args(struct schema_ctx *c, uint64_t first, uint32_t cnt, bool more)
{
	bool kwarg_only = false;
	struct raw_arg a;

	for (uint32_t i = 0; i < cnt && !c->err; i++) {
		if (!read_arg(c, first + (uint64_t)i * c->l->argument_size, &a))
			return;
		if (i)
			schema__put(c, ", ");
		if (a.kwarg_only && !kwarg_only) {
			schema__put(c, "*, ");
			kwarg_only = true;
		}
		put_arg(c, &a);
	}
	if (more)
		schema__put(c, cnt ? ", ..." : "...");
}

/* One value has no parentheses, unless it begins with one: "-> Tensor", "-> ((int, int))". */
static void put_returns(struct schema_ctx *c, uint64_t first, uint32_t cnt, bool more)
{
	size_t at = c->len;
	bool paren = cnt + more != 1;

	schema__put(c, paren ? "(" : "");
	put_args(c, first, cnt, more);
	schema__put(c, paren ? ")" : "");
	if (c->err || paren || !cnt || c->buf[at] != '(')
		return;
	schema__put(c, ") "); /* the blank makes room */
	if (c->err)
		return;
	memmove(c->buf + at + 1, c->buf + at, c->len - at - 1);
	c->buf[at] = '(';
}

/* A schema's text is a line of ASCII; anything else is no schema. */
static bool is_line(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

int live_schema__read(pid_t pid, uint64_t opdef, struct live_schema_layout *l, char *buf,
		      size_t cap)
{
	struct schema_ctx c = { .pid = pid, .l = l, .buf = buf, .cap = cap };
	char name[NAME_CAP], again[NAME_CAP];
	uint64_t args, returns;
	uint32_t arg_cnt, return_cnt;
	uint8_t more[2];
	int err;

	if (!cap || l->args_off == PTB_OFF_UNKNOWN || !l->argument_size)
		return -ENOTSUP;
	buf[0] = 0;
	err = live_ops__name_at(pid, opdef, l->old_string_abi, name, sizeof(name));
	if (err)
		return err;
	/* without a schema the memory is not even initialised */
	if (live_ops__name_at(pid, opdef + l->schema_off, l->old_string_abi, again,
			      sizeof(again)) ||
	    strcmp(name, again) != 0)
		return -ENOENT;
	if (!schema_vector(&c, opdef + l->args_off, l->argument_size, ARGS_MAX, &args, &arg_cnt) ||
	    !schema_vector(&c, opdef + l->returns_off, l->argument_size, ARGS_MAX, &returns,
			   &return_cnt) ||
	    !schema_read(&c, opdef + l->returns_off + 24u, more, sizeof(more)))
		return c.err;
	schema__put(&c, name);
	schema__put(&c, "(");
	put_args(&c, args, arg_cnt, more[0]);
	schema__put(&c, ") -> ");
	put_returns(&c, returns, return_cnt, more[1]);
	if (!c.err && !is_line(buf))
		schema__fail(&c, -EBADMSG);
	if (c.err)
		buf[0] = 0;
	return c.err;
}
