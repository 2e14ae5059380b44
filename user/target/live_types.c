/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Types of a live process as text (pytorch aten/src/ATen/core/jit_type.h, Type::str()). A type is a
 * polymorphic object, so its class names it; where a class keeps its element types is found by
 * searching for members that are type objects themselves:
 *
 *	struct Type { vptr; TypeKind kind_; };
 *	struct SharedType : Type, std::enable_shared_from_this {};	its own members follow at 32
 *
 * A pointer to a type has 16 bytes (SingletonOrSharedTypePtr), the object's address first.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/live_schema_priv.h"
#include "target/proc.h"

#define MEMBERS_OFF 32
#define MEMBERS_LEN 24 /* where the first of them begins */
#define ELEMENTS_MAX 32

static const struct type_row {
	const char *class; /* without "c10::" */
	const char *text;
	enum type_shape shape;
} rows[] = {
	{ "", "", TYPE_NONE },
	{ "TensorType", "Tensor", TYPE_PLAIN },
	{ "IntType", "int", TYPE_PLAIN },
	{ "FloatType", "float", TYPE_PLAIN },
	{ "ComplexType", "complex", TYPE_PLAIN },
	{ "BoolType", "bool", TYPE_PLAIN },
	{ "NumberType", "Scalar", TYPE_PLAIN },
	{ "StringType", "str", TYPE_PLAIN },
	{ "SymIntType", "SymInt", TYPE_PLAIN },
	{ "SymFloatType", "SymFloat", TYPE_PLAIN },
	{ "SymBoolType", "SymBool", TYPE_PLAIN },
	{ "ScalarTypeType", "ScalarType", TYPE_PLAIN },
	{ "LayoutType", "Layout", TYPE_PLAIN },
	{ "MemoryFormatType", "MemoryFormat", TYPE_PLAIN },
	{ "DeviceObjType", "Device", TYPE_PLAIN },
	{ "StreamObjType", "Stream", TYPE_PLAIN },
	{ "GeneratorType", "Generator", TYPE_PLAIN },
	{ "StorageType", "Storage", TYPE_PLAIN },
	{ "QuantizerType", "Quantizer", TYPE_PLAIN },
	{ "QSchemeType", "QScheme", TYPE_PLAIN },
	{ "NoneType", "NoneType", TYPE_PLAIN },
	{ "AnyType", "Any", TYPE_PLAIN },
	{ "AnyListType", "list", TYPE_PLAIN },
	{ "AnyTupleType", "tuple", TYPE_PLAIN },
	{ "AnyClassType", "AnyClassType", TYPE_PLAIN },
	{ "AnyEnumType", "AnyEnumType", TYPE_PLAIN },
	{ "CapsuleType", "Capsule", TYPE_PLAIN },
	{ "PyObjectType", "PyObject", TYPE_PLAIN },
	{ "ListType", "", TYPE_LIST },
	{ "OptionalType", "", TYPE_OPTIONAL },
	{ "FutureType", "Future", TYPE_ONE },
	{ "AwaitType", "Await", TYPE_ONE },
	{ "RRefType", "RRef", TYPE_ONE },
	{ "DictType", "Dict", TYPE_DICT },
	{ "TupleType", "", TYPE_TUPLE },
	{ "VarType", "", TYPE_VAR },
	{ "ClassType", "", TYPE_NAMED },
	{ "InterfaceType", "", TYPE_NAMED },
	{ "UnionType", "", TYPE_OTHER },
	{ "EnumType", "", TYPE_OTHER },
	{ "FunctionType", "", TYPE_OTHER },
	{ "DynamicType", "", TYPE_OTHER },
};
#define ROW_CNT (sizeof(rows) / sizeof(rows[0]))

/* Row of a class; 0: no type. */
static uint8_t row_of_class(const char *name)
{
	if (strncmp(name, "c10::", 5) != 0)
		return 0;
	for (uint8_t i = 1; i < ROW_CNT; i++)
		if (!strcmp(rows[i].class, name + 5))
			return i;
	return 0;
}

/* Row of the object at `type`. That it is none is no error: members are tried. */
static const struct type_row *row_at(struct schema_ctx *c, uint64_t type)
{
	char name[SCHEMA_TEXT_MAX];
	uint64_t vptr;
	uint8_t row;

	if (type & 7 || c->err || ++c->reads > SCHEMA_READS_MAX ||
	    remote__read(c->pid, type, &vptr, sizeof(vptr)) || vptr & 7 || vptr < 4096)
		return &rows[0];
	for (uint32_t i = 0; i < c->l->type_cnt; i++)
		if (c->l->types[i].vptr == vptr)
			return &rows[c->l->types[i].row];
	c->reads += 3;
	row = remote__class_name(c->pid, vptr, &c->l->names_ns, name, sizeof(name)) ?
		      0 :
		      row_of_class(name);
	if (row && c->l->type_cnt < LIVE_TYPES_MAX) {
		c->l->types[c->l->type_cnt].vptr = vptr;
		c->l->types[c->l->type_cnt++].row = row;
	}
	return &rows[row];
}

enum type_shape schema__type_shape(struct schema_ctx *c, uint64_t type)
{
	return row_at(c, type)->shape;
}

bool schema__type_is(struct schema_ctx *c, uint64_t type, const char *text)
{
	return !strcmp(row_at(c, type)->text, text);
}

/* The types that the vector at addr points to; 0 if it is none of types. */
static uint32_t vector_types(struct schema_ctx *c, uint64_t addr, uint64_t out[ELEMENTS_MAX])
{
	uint64_t v[3];
	uint32_t cnt;

	if (remote__read(c->pid, addr, v, sizeof(v)) || !v[0] || v[0] & 7 || v[1] <= v[0] ||
	    v[2] < v[1] || (v[1] - v[0]) % 16 || (v[1] - v[0]) / 16 > ELEMENTS_MAX)
		return 0;
	cnt = (uint32_t)((v[1] - v[0]) / 16);
	for (uint32_t n = 0; n < cnt; n++)
		if (remote__read(c->pid, v[0] + 16 * n, &out[n], 8) ||
		    row_at(c, out[n])->shape == TYPE_NONE)
			return 0;
	return cnt;
}

/*
 * An object's first vector of types among its members; *end: what follows it. 0: it has none. A
 * vector is no accident, unlike a pointer: beside a bool there may be what was left of one.
 */
static uint32_t find_vector(struct schema_ctx *c, uint64_t type, uint64_t out[ELEMENTS_MAX],
			    uint64_t *end)
{
	uint32_t n;

	*end = type + MEMBERS_OFF;
	for (uint32_t off = MEMBERS_OFF; off < MEMBERS_OFF + MEMBERS_LEN && !c->err; off += 8) {
		n = vector_types(c, type + off, out);
		c->reads++;
		if (!n)
			continue;
		*end = type + off + 24;
		return n;
	}
	return 0;
}

/* `want` pointers to types, one after the other, from `at` on. */
static bool find_pointers(struct schema_ctx *c, uint64_t at, uint32_t want,
			  uint64_t out[ELEMENTS_MAX])
{
	uint64_t end = at + MEMBERS_LEN;
	uint32_t n;

	for (; at < end && !c->err; at += 8) {
		for (n = 0; n < want; n++)
			if (remote__read(c->pid, at + 16 * n, &out[n], 8) ||
			    row_at(c, out[n])->shape == TYPE_NONE)
				break;
		c->reads += n + 1;
		if (n == want)
			return true;
	}
	return false;
}

/* An optional is also a union, whose vector {element, None} comes first. */
uint64_t schema__type_element(struct schema_ctx *c, uint64_t type)
{
	uint64_t elems[ELEMENTS_MAX], at = type + MEMBERS_OFF;

	if (schema__type_shape(c, type) == TYPE_OPTIONAL)
		find_vector(c, type, elems, &at);
	if (find_pointers(c, at, 1, elems))
		return elems[0];
	schema__fail(c, -ENOTSUP);
	return 0;
}

static bool is_identifier(const char *s, bool dots)
{
	const char *p;

	for (p = s; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
		      (*p >= '0' && *p <= '9') || (dots && (*p == '.' || *p == '<' || *p == '>'))))
			return false;
	return p != s;
}

/* The identifier in the std::string at addr. */
static void put_identifier(struct schema_ctx *c, uint64_t addr, bool dots)
{
	char name[SCHEMA_TEXT_MAX];

	if (!schema__string(c, addr, name, sizeof(name)))
		return;
	if (is_identifier(name, dots))
		schema__put(c, name);
	else
		schema__fail(c, -ENOTSUP);
}

/* want: so many, 0: any number, which only a tuple has; its elements follow its name, which is
 * an optional<QualifiedName {vector; 3 strings}> and perhaps not initialised. */
static void put_elements(struct schema_ctx *c, uint64_t type, uint32_t want, uint32_t depth)
{
	uint32_t string = c->l->old_string_abi ? 8 : 32, n;
	uint64_t elems[ELEMENTS_MAX], end;

	n = want ? find_vector(c, type, elems, &end) :
		   vector_types(c, type + MEMBERS_OFF + 24 + 3 * string + 8, elems);
	if (!n && want && find_pointers(c, type + MEMBERS_OFF, want, elems))
		n = want;
	if (want && n != want) {
		schema__fail(c, -ENOTSUP);
		return;
	}
	schema__put(c, "(");
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			schema__put(c, ", ");
		schema__put_type(c, elems[i], depth + 1);
	}
	schema__put(c, ")");
}

void schema__put_type(struct schema_ctx *c, uint64_t type, uint32_t depth)
{
	const struct type_row *row = row_at(c, type);

	if (c->err)
		return;
	if (depth > SCHEMA_NEST_MAX || row->shape == TYPE_NONE || row->shape == TYPE_OTHER) {
		schema__fail(c, -ENOTSUP);
		return;
	}
	schema__put(c, row->text);
	switch (row->shape) {
	case TYPE_LIST:
	case TYPE_OPTIONAL:
		schema__put_type(c, schema__type_element(c, type), depth + 1);
		schema__put(c, row->shape == TYPE_LIST ? "[]" : "?");
		break;
	case TYPE_ONE:
		put_elements(c, type, 1, depth);
		break;
	case TYPE_DICT:
		put_elements(c, type, 2, depth);
		break;
	case TYPE_TUPLE:
		put_elements(c, type, 0, depth);
		break;
	case TYPE_VAR:
		put_identifier(c, type + MEMBERS_OFF, false);
		break;
	case TYPE_NAMED:
		/* NamedType::name_ is an optional<QualifiedName {vector atoms; string
		 * qualifiedName; ...}> */
		put_identifier(c, type + MEMBERS_OFF + (c->l->has_first ? 8 : 0) + 24, true);
		break;
	default:
		break;
	}
}
