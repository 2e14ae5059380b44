/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Types from the demangled text, locations by the System V psABI 3.2.3. Sources of the classes:
 * - c10::optional keeps its value in a union with an unsigned char, so that an optional<double> is
 *   two INTEGER eightbytes; in std::optional the double keeps its class SSE.
 * - c10::optional<ArrayRef> is specialised to the 16 bytes of an ArrayRef; std::optional's has 24
 *   and therefore goes to the stack, as does every value of more than 16 bytes.
 * - what is not trivial to copy (SymInt, Generator, Storage, c10::optional<string_view>) is passed
 *   by the address of a copy.
 */
#include "plan/args_priv.h"

#include <string.h>

/* ---- types ---- */

struct text {
	const char *p;
	size_t len;
};

static bool strip_front(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->len < n || memcmp(t->p, s, n))
		return false;
	t->p += n;
	t->len -= n;
	return true;
}

static bool strip_back(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->len < n || memcmp(t->p + t->len - n, s, n))
		return false;
	t->len -= n;
	return true;
}

static bool equals(struct text t, const char *s)
{
	return strip_front(&t, s) && !t.len;
}

/* "std::optional<...>" */
static uint8_t strip_optional(struct text *t)
{
	struct text in = *t;
	uint8_t abi = strip_front(&in, "std::optional<") ? OPTIONAL_STD :
		      strip_front(&in, "c10::optional<") ? OPTIONAL_C10 :
							   OPTIONAL_NONE;

	if (abi == OPTIONAL_NONE || !strip_back(&in, ">"))
		return OPTIONAL_NONE;
	*t = in;
	return abi;
}

static uint8_t element_kind(struct text t)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} rows[] = {
		{ "long", ARG_INTS },           { "c10::SymInt", ARG_SYMINTS },
		{ "double", ARG_DOUBLES },      { "at::Tensor", ARG_TENSORS },
		{ "c10::Scalar", ARG_SCALARS }, { "at::Dimname", ARG_DIMNAMES },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (equals(t, rows[i].name))
			return rows[i].kind;
	return ARG_UNKNOWN;
}

/* Types that are passed by value, alone or in an optional. */
static uint8_t value_kind(struct text t, struct arg_type *out)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} rows[] = {
		{ "long", ARG_INT },
		{ "bool", ARG_BOOL },
		{ "double", ARG_DOUBLE },
		{ "signedchar", ARG_INT8 },
		{ "c10::ScalarType", ARG_ENUM },
		{ "c10::Layout", ARG_ENUM },
		{ "c10::MemoryFormat", ARG_ENUM },
		{ "c10::Device", ARG_DEVICE },
		{ "c10::SymInt", ARG_SYMINT },
		{ "at::Generator", ARG_GENERATOR },
		{ "c10::Storage", ARG_STORAGE },
		{ "c10::Stream", ARG_STREAM },
		{ "at::Dimname", ARG_DIMNAME },
		{ "c10::basic_string_view<char>", ARG_STRING },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (equals(t, rows[i].name))
			return rows[i].kind;
	if (equals(t, "std::basic_string_view<char,std::char_traits<char>>")) {
		out->std_view = true;
		return ARG_STRING;
	}
	if (strip_front(&t, "c10::ArrayRef<") && strip_back(&t, ">"))
		return element_kind(t);
	if (strip_front(&t, "std::array<bool,") && strip_back(&t, "ul>") && t.len == 1 &&
	    t.p[0] >= '1' && t.p[0] <= '8') {
		out->cnt = (uint8_t)(t.p[0] - '0');
		return ARG_BOOLS;
	}
	return ARG_UNKNOWN;
}

#define TENSOR_VECTOR "std::vector<at::Tensor,std::allocator<at::Tensor>>"
#define TENSOR_LISTS "std::vector<" TENSOR_VECTOR ",std::allocator<" TENSOR_VECTOR ">>"

/* Types that are passed by reference: "at::Tensor const&". */
static uint8_t reference_kind(struct text t, struct arg_type *out)
{
	bool is_const = strip_back(&t, "const");

	out->written = !is_const;
	if (equals(t, "at::Tensor"))
		return ARG_TENSOR;
	if (!is_const)
		return ARG_REFERENCE;
	if (equals(t, "c10::IListRef<at::Tensor>"))
		return ARG_ILIST;
	if (equals(t, "c10::List<std::optional<at::Tensor>>") ||
	    equals(t, "c10::List<c10::optional<at::Tensor>>"))
		return ARG_OPT_TENSORS;
	if (strip_front(&t, "c10::intrusive_ptr<"))
		return ARG_OBJECT;
	if (equals(t, "c10::ArrayRef<at::Tensor>"))
		return ARG_TENSORS_REF;
	if (equals(t, TENSOR_LISTS))
		return ARG_TENSOR_LISTS;
	if (equals(t, "std::vector<long,std::allocator<long>>"))
		return ARG_INT_VECTOR;
	out->optional = strip_optional(&t);
	if (equals(t, "at::Tensor"))
		return ARG_TENSOR;
	if (equals(t, "c10::Scalar"))
		return ARG_SCALAR;
	out->optional = OPTIONAL_NONE;
	return ARG_REFERENCE;
}

/* The text has no blanks. */
static struct arg_type one_type(struct text t, enum optional_abi optional)
{
	struct arg_type out = { .kind = ARG_UNKNOWN };

	if (strip_back(&t, "&")) {
		out.kind = strip_back(&t, "&") ? ARG_REFERENCE : reference_kind(t, &out);
		return out;
	}
	if (strip_back(&t, "*")) {
		out.kind = ARG_REFERENCE;
		return out;
	}
	if (strip_front(&t, "c10::OptionalArrayRef<") && strip_back(&t, ">")) {
		out.kind = element_kind(t);
		out.optional = (uint8_t)optional;
		if (optional == OPTIONAL_NONE)
			out.kind = ARG_UNKNOWN;
		return out;
	}
	/* passed by the address of a copy */
	if (strip_front(&t, "std::vector<") || equals(t, "at::Tensor")) {
		out.kind = ARG_REFERENCE;
		return out;
	}
	out.optional = strip_optional(&t);
	out.kind = value_kind(t, &out);
	return out;
}

#define TYPE_TEXT_MAX 256

/* One type's text. */
static struct arg_type type_of(const char *text, size_t len, enum optional_abi optional)
{
	char buf[TYPE_TEXT_MAX];
	size_t i, n = 0;

	for (i = 0; i < len && n < sizeof(buf); i++)
		if (text[i] != ' ')
			buf[n++] = text[i];
	if (i < len)
		return (struct arg_type){ .kind = ARG_UNKNOWN };
	return one_type((struct text){ buf, n }, optional);
}

int arg_types__parse(const char *demangled, enum optional_abi optional,
		     struct arg_type types[ARG_TYPES_MAX])
{
	static const char call[] = "::call(";
	const char *p = strstr(demangled, call);

	return p ? arg_types__list(p + sizeof(call) - 1, optional, types) : -1;
}

int arg_types__list(const char *params, enum optional_abi optional,
		    struct arg_type types[ARG_TYPES_MAX])
{
	const char *p = params, *start = p;
	int cnt = 0, depth = 0;

	if (!strcmp(p, ")"))
		return 0;
	for (; *p; p++) {
		depth += *p == '<' || *p == '(';
		if ((*p == ',' && !depth) || (*p == ')' && !depth)) {
			if (cnt == ARG_TYPES_MAX)
				return -1;
			types[cnt++] = type_of(start, (size_t)(p - start), optional);
			start = p + 1;
			if (*p == ')')
				return p[1] ? -1 : cnt;
		}
		depth -= *p == '>' || *p == ')';
	}
	return -1;
}

/* ---- locations ---- */

struct cursor {
	uint32_t gpr, xmm, stack;
	bool lost; /* an argument has an unknown size, so all later locations are unknown */
};

#define GPR_ARGS 6
#define XMM_ARGS 8

static void put_stack(struct cursor *c, uint32_t words, struct arg_location *pl)
{
	for (uint32_t i = 0; i < words; i++, c->stack++) {
		if (PTB_LOC_STACK + c->stack >= PTB_LOC_CNT)
			pl->known = false;
		else
			pl->loc[i] = (uint8_t)(PTB_LOC_STACK + c->stack);
	}
}

/* Places `words` INTEGER eightbytes behind one SSE eightbyte (if sse): all in registers or all on
 * the stack. */
static void put_words(struct cursor *c, uint32_t words, bool sse, struct arg_location *pl)
{
	uint32_t ints = words - sse;

	if (words > 2 || c->gpr + ints > GPR_ARGS || (sse && c->xmm == XMM_ARGS)) {
		put_stack(c, words, pl);
		return;
	}
	if (sse)
		pl->xmm = (uint8_t)c->xmm++;
	for (uint32_t i = sse; i < words; i++)
		pl->loc[i] = (uint8_t)c->gpr++;
}

/* The type's size in eightbytes and whether the first one is SSE; 0: unknown. */
static uint32_t size_of(const struct arg_type *t, bool *sse)
{
	bool opt = t->optional != OPTIONAL_NONE;

	*sse = false;
	switch (t->kind) {
	case ARG_UNKNOWN:
		return 0;
	case ARG_INT:
		return opt ? 2 : 1;
	case ARG_DOUBLE:
		*sse = t->optional != OPTIONAL_C10;
		return opt ? 2 : 1;
	case ARG_STREAM:
		return opt ? 3 : 2;
	case ARG_STRING: /* c10's in c10's optional: by reference */
		return t->optional == OPTIONAL_STD ? 3 : t->optional == OPTIONAL_C10 ? 1 : 2;
	case ARG_DIMNAME:
		return opt ? 2 : 1;
	case ARG_BOOLS:
		return opt ? 0 : 1;
	case ARG_INTS:
	case ARG_SYMINTS:
	case ARG_DOUBLES:
	case ARG_TENSORS:
	case ARG_SCALARS:
	case ARG_DIMNAMES:
		return t->optional == OPTIONAL_STD ? 3 : 2;
	default: /* pointers, and types of one or two bytes with their flag */
		return 1;
	}
}

void arg_types__locate(const struct arg_type *types, uint32_t cnt, bool hidden,
		       struct arg_location *locations)
{
	struct cursor c = { .gpr = hidden };
	uint32_t words;
	bool sse;

	for (uint32_t i = 0; i < cnt; i++) {
		struct arg_location *pl = &locations[i];

		memset(pl->loc, PTB_LOC_NONE, sizeof(pl->loc));
		pl->xmm = PTB_LOC_NONE;
		words = size_of(&types[i], &sse);
		c.lost |= !words;
		pl->known = !c.lost;
		if (!c.lost)
			put_words(&c, words, sse, pl);
	}
}
