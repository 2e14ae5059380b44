/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names from the code: the cold path of X::call runs an unexported function that creates the typed
 * handle:
 *
 *	lea  handle(%rip),%rdi; call create_X_typed_handle
 *	create...: lea name(%rip),%rdx; lea overload(%rip),%rcx; call findSchemaOrThrow@plt
 *
 * or has that call inlined.
 *
 * Names from schema texts: every text of the form `name[.overload](arguments) -> result` in
 * read-only data is a reading of the class name with '.' written as '_'. The linker merges a text
 * into the tail of a longer one ("erfinv.out(" into "special_erfinv.out("), so the tails are
 * searched for classes without a whole text.
 */
#include "plan/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

/* ---- the code ---- */

static bool literal(const struct lib_code *lc, const struct flow *f, uint32_t at, uint8_t reg,
		    const char **out)
{
	int64_t addr;

	if (flow__value_before(f, at, reg, &addr) != VALUE_ADDR)
		return false;
	*out = lib_code__text(lc, (uint64_t)addr, OP_NAME_MAX);
	return *out;
}

/* Is it a namespace and a name, as in "aten::add"? */
static bool plausible(const char *name)
{
	const char *p;

	for (p = name; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		      (*p >= '0' && *p <= '9') || *p == '_' || *p == ':' || *p == '.'))
			return false;
	return p != name;
}

/* Takes the name from the first call of findSchemaOrThrow in the graph. */
static bool name_from(struct lib_code *lc, const struct flow *f, struct op_name_a *out)
{
	uint32_t call = lib_code__find_call(lc, f, CALLEE_FIND_SCHEMA);
	const char *name, *overload;

	if (call == FLOW_NONE || !literal(lc, f, call, arch.arg[2], &name) ||
	    !literal(lc, f, call, arch.arg[3], &overload) || !plausible(name) ||
	    (*overload && !plausible(overload)))
		return false;
	snprintf(out->name, sizeof(out->name), *overload ? "%s.%s" : "%s", name, overload);
	return true;
}

void op_names__from_code(struct lib_code *lc, const struct flow *f, struct flow *aux,
			 struct op_name_a *out)
{
	enum ptb_refusal why;
	int64_t handle;

	out->name[0] = 0;
	out->handle = 0;
	for (uint32_t i = 0; i < f->cnt; i++) {
		const struct insn *in = &f->nodes[i].in;

		if (!lib_code__calls(lc, in, CALLEE_IN(CALLEE_FIND_SCHEMA)))
			continue;
		flow__build(aux, &lc->src, in->target, &why);
		if (why != PTB_REFUSE_NONE || !name_from(lc, aux, out))
			continue;
		if (flow__value_before(f, i, arch.arg[0], &handle) == VALUE_ADDR)
			out->handle = (uint64_t)handle;
		return;
	}
	name_from(lc, f, out);
}

/* ---- schema texts ---- */

struct op_text {
	const char *head; /* in the file's map, up to the '(' */
	uint16_t len;
	uint16_t size; /* of the whole text */
	bool name_space;
	uint32_t next; /* 1 + index of the next one with this class hash */
};

struct op_texts {
	struct op_text *texts;
	uint32_t cnt, cap, names;
	struct hashmap by_class; /* hash of the class name -> 1 + index of the first */
};

/* Hash of the class name: of the text with '_' for '.'. */
static uint64_t hash_class(const char *s, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)(s[i] == '.' ? '_' : s[i])) * 0x100000001b3ULL;
	return h;
}

static bool same_class(const char *head, const char *cls, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((head[i] == '.' ? '_' : head[i]) != cls[i])
			return false;
	return true;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* Adds one schema text: its name and its whole size. */
static void add_text(struct op_texts *t, const char *head, size_t len, size_t size, bool name_space)
{
	uint64_t h = hash_class(head, len), *first;
	struct op_text x = {
		.head = head, .len = (uint16_t)len, .size = (uint16_t)size, .name_space = name_space
	};
	uint32_t i;

	first = hashmap__get(&t->by_class, h, len);
	for (i = first ? (uint32_t)*first : 0; i; i = t->texts[i - 1].next)
		if (t->texts[i - 1].len == len && !memcmp(t->texts[i - 1].head, head, len))
			break;
	t->names += !i;
	x.next = first ? (uint32_t)*first : 0;
	vec_push(t->texts, t->cnt, t->cap, x);
	hashmap__put(&t->by_class, h, len, t->cnt);
}

#define TEXT_MAX 8192 /* longest schema text */

/* Adds the text around an occurrence of ") -> ": [start, arrow), and its results up to `end` at
 * most. */
static void take_text(struct op_texts *t, const char *start, const char *arrow, const char *end)
{
	const char *p, *ns;
	uint32_t dots = 0;
	size_t rest;

	for (p = start; p < arrow && (is_name_char(*p) || *p == '.' || *p == ':'); p++)
		dots += *p == '.';
	if (p == arrow || *p != '(' || p == start || p - start >= OP_NAME_MAX || dots > 1)
		return;
	ns = memmem(start, (size_t)(p - start), "::", 2);
	if (ns)
		start = ns + 2; /* a text with a namespace names the same operator */
	if (start == p || !is_name_char(*start) || memchr(start, ':', (size_t)(p - start)))
		return;
	rest = strnlen(arrow, (size_t)(end - arrow));
	if (rest == (size_t)(end - arrow) || rest > TEXT_MAX)
		return;
	add_text(t, start, (size_t)(p - start), (size_t)(arrow - start) + rest, ns != NULL);
}

static void scan_data(struct op_texts *t, const char *data, uint64_t len)
{
	static const char arrow[] = ") -> ";
	const char *p = data, *end = data + len, *start, *last = NULL;

	while ((p = memmem(p, (size_t)(end - p), arrow, sizeof(arrow) - 1))) {
		start = p;
		while (start > data && start[-1] && p - start < TEXT_MAX)
			start--;
		if (start != last)
			take_text(t, start, p, end);
		last = start; /* a text has one arrow; with more it is no schema */
		p += sizeof(arrow) - 1;
	}
}

void op_texts__new(const struct lib_code *lc, struct op_texts **out)
{
	struct op_texts *t = xcalloc(1, sizeof(*t));
	uint64_t addr, len;
	bool exec;

	*out = NULL;
	for (uint32_t i = 0; elf_file__segment(lc->ef, i, &addr, &len, &exec); i++)
		if (!exec && len)
			scan_data(t, (const char *)elf_file__bytes(lc->ef, addr, len, NULL), len);
	*out = t;
}

void op_texts__free(struct op_texts *t)
{
	if (!t)
		return;
	free(t->texts);
	hashmap__clear(&t->by_class);
	free(t);
}

uint32_t op_texts__cnt(const struct op_texts *t)
{
	return t->names;
}

struct search {
	const char *cls, *want;
	size_t cls_len;
	bool agrees;
	char *name;
	enum op_text_match found;
};

/* want has a namespace ("aten::add.Tensor"), the text has none. */
static bool equals_want(const char *want, const char *text, size_t len)
{
	const char *colon = want ? strstr(want, "::") : NULL;

	if (!want)
		return false;
	if (colon)
		want = colon + 2;
	return strlen(want) == len && !memcmp(want, text, len);
}

static void take_reading(struct search *s, const char *text, size_t len)
{
	if (equals_want(s->want, text, len))
		s->agrees = true;
	if (s->found != OP_TEXT_NONE) {
		if (strlen(s->name) != len || memcmp(s->name, text, len))
			s->found = OP_TEXT_MORE;
		return;
	}
	s->found = OP_TEXT_ONE;
	memcpy(s->name, text, len);
	s->name[len] = 0;
}

static void find_tails(const struct op_texts *t, struct search *s)
{
	for (uint32_t i = 0; i < t->cnt; i++) {
		const struct op_text *x = &t->texts[i];
		size_t skip = x->len > s->cls_len ? x->len - s->cls_len : 0;

		if (skip && same_class(x->head + skip, s->cls, s->cls_len))
			take_reading(s, x->head + skip, s->cls_len);
	}
}

enum op_text_match op_texts__find(const struct op_texts *t, const char *cls, size_t cls_len,
				  const char *want, bool *agrees, char *name)
{
	struct search s = { .cls = cls, .cls_len = cls_len, .want = want, .name = name };
	uint64_t *first;

	name[0] = 0;
	if (cls_len && cls_len < OP_NAME_MAX) {
		first = hashmap__get(&t->by_class, hash_class(cls, cls_len), cls_len);
		for (uint32_t i = first ? (uint32_t)*first : 0; i; i = t->texts[i - 1].next)
			if (t->texts[i - 1].len == cls_len &&
			    same_class(t->texts[i - 1].head, cls, cls_len))
				take_reading(&s, t->texts[i - 1].head, cls_len);
		if (s.found == OP_TEXT_NONE)
			find_tails(t, &s);
	}
	*agrees = s.agrees;
	return s.found;
}

/* ---- arguments ---- */

static uint32_t append_args(const struct op_text *x, size_t skip, struct op_text_args *args,
			    uint32_t n)
{
	if (n < OP_TEXT_ARGS_MAX)
		args[n++] = (struct op_text_args){ .text = x->head + x->len,
						   .len = (size_t)x->size - x->len,
						   .whole = !skip,
						   .name_space = !skip && x->name_space };
	return n;
}

uint32_t op_texts__args(const struct op_texts *t, const char *name,
			struct op_text_args args[OP_TEXT_ARGS_MAX])
{
	size_t len = strlen(name);
	uint64_t *first = hashmap__get(&t->by_class, hash_class(name, len), len);
	uint32_t n = 0;
	bool whole;

	for (uint32_t i = first ? (uint32_t)*first : 0; i; i = t->texts[i - 1].next)
		if (t->texts[i - 1].len == len && !memcmp(t->texts[i - 1].head, name, len))
			n = append_args(&t->texts[i - 1], 0, args, n);
	whole = n > 0;
	for (uint32_t i = 0; !whole && i < t->cnt; i++) { /* longer texts with this tail */
		const struct op_text *x = &t->texts[i];

		if (x->len > len && !memcmp(x->head + x->len - len, name, len))
			n = append_args(x, x->len - len, args, n);
	}
	return n;
}
