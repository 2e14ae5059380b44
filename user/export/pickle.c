/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A writer of pickles; see pickle.h. Opcodes: CPython Lib/pickletools.py. */
#include "export/pickle.h"

#include <string.h>

#include "base/text.h"

/* clang-format off */
enum {
	OP_PROTO = 0x80, OP_STOP = '.', OP_MARK = '(', OP_EMPTY_DICT = '}', OP_SETITEMS = 'u',
	OP_EMPTY_LIST = ']', OP_APPENDS = 'e', OP_TUPLE2 = 0x86, OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89, OP_BININT = 'J', OP_BININT1 = 'K', OP_BININT2 = 'M', OP_LONG1 = 0x8a,
	OP_BINUNICODE = 'X', OP_BINPUT = 'q', OP_LONG_BINPUT = 'r', OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
};
/* clang-format on */

#define KIND_TEXT 0
#define KIND_LITERAL 1
#define TEXT_MAX 4096
/* Items that are appended at once, as CPython does: JavaScript's readers pass them as arguments. */
#define BATCH 1000

static void put_op(struct pickle *p, int op)
{
	putc_unlocked(op, p->f);
}

/* Little endian. */
static void put_bytes(struct pickle *p, uint64_t v, int cnt)
{
	for (int i = 0; i < cnt; i++, v >>= 8)
		putc_unlocked((int)(v & 0xff), p->f);
}

void pickle__init(struct pickle *p)
{
	p->texts = strtab__new();
}

void pickle__free(struct pickle *p)
{
	strtab__free(p->texts);
	hashmap__clear(&p->memo);
}

void pickle__begin(struct pickle *p)
{
	put_op(p, OP_PROTO);
	put_bytes(p, 2, 1);
}

void pickle__end(struct pickle *p)
{
	put_op(p, OP_STOP);
}

/* ---- values ---- */

void pickle__int(struct pickle *p, int64_t v)
{
	if (v >= 0 && v <= UINT8_MAX) {
		put_op(p, OP_BININT1);
		put_bytes(p, (uint64_t)v, 1);
	} else if (v >= 0 && v <= UINT16_MAX) {
		put_op(p, OP_BININT2);
		put_bytes(p, (uint64_t)v, 2);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		put_op(p, OP_BININT);
		put_bytes(p, (uint64_t)v, 4);
	} else {
		put_op(p, OP_LONG1);
		put_bytes(p, 8, 1);
		put_bytes(p, (uint64_t)v, 8);
	}
}

void pickle__u64(struct pickle *p, uint64_t v)
{
	if (v <= INT64_MAX) {
		pickle__int(p, (int64_t)v);
		return;
	}
	put_op(p, OP_LONG1);
	put_bytes(p, 9, 1);
	put_bytes(p, v, 8);
	put_bytes(p, 0, 1);
}

void pickle__bool(struct pickle *p, bool v)
{
	put_op(p, v ? OP_NEWTRUE : OP_NEWFALSE);
}

void pickle__pair(struct pickle *p)
{
	put_op(p, OP_TUPLE2);
}

static void put_place(struct pickle *p, int short_op, int long_op, uint64_t place)
{
	put_op(p, place <= UINT8_MAX ? short_op : long_op);
	put_bytes(p, place, place <= UINT8_MAX ? 1 : 4);
}

/* ---- texts ---- */

uint32_t pickle__text_id(struct pickle *p, const char *text)
{
	char plain[TEXT_MAX];

	term_text__copy(plain, sizeof(plain), text);
	return *plain ? strtab__add(p->texts, plain, strlen(plain)) : 0;
}

const char *pickle__known_text(const struct pickle *p, uint32_t id)
{
	return strtab__text(p->texts, id);
}

void pickle__text(struct pickle *p, const char *text)
{
	uint32_t id = pickle__text_id(p, text);
	size_t len;

	if (pickle__recall(p, KIND_TEXT, id))
		return;
	text = pickle__known_text(p, id);
	len = strlen(text);
	put_op(p, OP_BINUNICODE);
	put_bytes(p, len, 4);
	fwrite(text, 1, len, p->f);
	pickle__remember(p, KIND_TEXT, id);
}

void pickle__literal(struct pickle *p, const char *text)
{
	const uint64_t *place = hashmap__get(&p->memo, KIND_LITERAL, (uintptr_t)text);

	if (place) {
		put_place(p, OP_BINGET, OP_LONG_BINGET, *place);
		return;
	}
	pickle__text(p, text);
	place = hashmap__get(&p->memo, KIND_TEXT, pickle__text_id(p, text));
	hashmap__put(&p->memo, KIND_LITERAL, (uintptr_t)text, *place);
}

/* ---- dicts and lists ---- */

void pickle__begin_dict(struct pickle *p)
{
	put_op(p, OP_EMPTY_DICT);
	put_op(p, OP_MARK);
}

void pickle__end_dict(struct pickle *p)
{
	put_op(p, OP_SETITEMS);
}

struct pickle_list pickle__begin_list(struct pickle *p)
{
	put_op(p, OP_EMPTY_LIST);
	return (struct pickle_list){ 0 };
}

void pickle__item(struct pickle *p, struct pickle_list *l)
{
	if (l->cnt && l->cnt % BATCH == 0)
		put_op(p, OP_APPENDS);
	if (l->cnt++ % BATCH == 0)
		put_op(p, OP_MARK);
}

void pickle__end_list(struct pickle *p, const struct pickle_list *l)
{
	if (l->cnt)
		put_op(p, OP_APPENDS);
}

/* ---- the memo ---- */

void pickle__remember(struct pickle *p, uint32_t kind, uint32_t number)
{
	uint32_t place = p->memo_cnt++;

	hashmap__put(&p->memo, kind, number, place);
	put_place(p, OP_BINPUT, OP_LONG_BINPUT, place);
}

bool pickle__recall(struct pickle *p, uint32_t kind, uint32_t number)
{
	const uint64_t *place = hashmap__get(&p->memo, kind, number);

	if (place)
		put_place(p, OP_BINGET, OP_LONG_BINGET, *place);
	return place;
}
