/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See flow_builder.h. */
#include "flow_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value_words.h"

static struct mem_flow *mf;
static struct mem_flow_account account;
static uint64_t now, ids;
static const struct session_keys no_keys;
static char tensor_of['z' - 'a' + 1]; /* the block that a block's tensor had first */

static uint64_t addr_of(char block)
{
	return 0x1000u * (uint64_t)(block - 'a' + 1);
}

static uint64_t bytes_of(char block)
{
	return 4u * (uint64_t)(block - 'a' + 1);
}

static void must(int err)
{
	if (err) {
		fprintf(stderr, "flow: error %d\n", err);
		abort();
	}
}

void flow__begin(void)
{
	mem_flow__free(mf);
	mf = mem_flow__new(true);
	must(!mf);
	now = 1000;
	ids = 0;
	memset(tensor_of, 0, sizeof(tensor_of));
}

static void tensor(struct value_words *w, char block, bool parameter)
{
	char first = tensor_of[block - 'a'] ? tensor_of[block - 'a'] : block;
	struct vw_tensor t = { .dtype = 6, /* float */
			       .ndim = 1,
			       .flags = PTB_VAL_F_IDS | PTB_VAL_F_STORAGE,
			       .sizes = { block - 'a' + 1 },
			       .impl = 0x100000 + addr_of(first),
			       .storage = addr_of(block) };

	if (parameter)
		t.flags |= PTB_VAL_F_PARAMETER;
	vw__tensor(w, &t);
}

static void args_words(struct value_words *w, const char *args)
{
	const char *end;
	uint32_t n;

	for (; *args; args++) {
		if (*args == '-') {
			vw__none(w);
		} else if (*args == '[') {
			for (n = 0, end = args; *end && *end != ']'; end++)
				n += *end >= 'a' && *end <= 'z';
			vw__list(w, PTB_VAL_TENSORS, n, (uint16_t)n);
		} else if (*args >= 'a' && *args <= 'z') {
			tensor(w, *args, args[1] == '*');
		}
	}
}

static uint64_t emit_slice(struct slice *sl)
{
	sl->id = ++ids;
	sl->begin_ns = now++;
	sl->keys = &no_keys;
	sl->tgid = sl->tid = 100;
	mem_flow__slice(mf, sl);
	return sl->id;
}

uint64_t flow__op(uint64_t parent, const char *name, const char *schema, const char *args)
{
	static struct value_words w;
	struct slice sl = { .parent = parent, .name = name, .schema = schema, .cat = SLICE_CPU_OP };

	w.cnt = 0;
	args_words(&w, args);
	sl.in = vw__values(&w);
	sl.end_ns = now + 1;
	return emit_slice(&sl);
}

uint64_t flow__backward(uint64_t parent, const char *name, const char *args)
{
	static struct value_words w;
	struct slice sl = { .parent = parent, .name = name, .schema = "", .scope = FLOW_BACKWARD };

	w.cnt = 0;
	args_words(&w, args);
	sl.in = vw__values(&w);
	sl.end_ns = now + 1;
	return emit_slice(&sl);
}

void flow__wait(void)
{
	now += FLOW_ANNOTATION_NS;
}

uint64_t flow__annotation(uint64_t parent, const char *name, uint32_t flags)
{
	struct slice sl = { .parent = parent,
			    .name = name,
			    .schema = "",
			    .cat = SLICE_USER_ANNOTATION,
			    .scope = 7,
			    .flags = flags };

	sl.end_ns = now + FLOW_ANNOTATION_NS;
	return emit_slice(&sl);
}

void flow__resize(char before, char after)
{
	static struct value_words in, out;
	struct slice sl = { .name = "aten::resize_",
			    .schema = "aten::resize_(Tensor(a!) self, SymInt[] size) -> Tensor(a!)" };
	uint64_t id;

	in.cnt = out.cnt = 0;
	tensor_of[after - 'a'] = tensor_of[before - 'a'] ? tensor_of[before - 'a'] : before;
	tensor(&in, before, false);
	vw__ints(&in, 0, NULL);
	tensor(&out, after, false);
	sl.in = vw__values(&in);
	sl.out = vw__values(&out);
	sl.end_ns = now + 2;
	id = emit_slice(&sl);
	flow__alloc(id, after);
	now++;
}

static void memory(uint64_t within, char block, enum memory_what what, int64_t bytes)
{
	struct memory_event ev = {
		.ts_ns = now++, .what = what, .addr = addr_of(block), .bytes = bytes, .device_index = -1
	};

	ev.at.slice = within;
	ev.at.tgid = ev.at.tid = 100;
	mem_flow__memory(mf, &ev, (uint32_t)(block - 'a' + 1));
}

void flow__alloc(uint64_t within, char block)
{
	memory(within, block, MEMORY_ALLOC, (int64_t)bytes_of(block));
}

void flow__free(uint64_t within, char block)
{
	memory(within, block, MEMORY_FREE, -(int64_t)bytes_of(block));
}

void flow__free_unknown(char block)
{
	memory(0, block, MEMORY_FREE_UNKNOWN, 0);
}

static const char *category(uint8_t c)
{
	static const char *const names[] = { "PARAMETER",       "OPTIMIZER_STATE",
					     "INPUT",           "TEMPORARY",
					     "ACTIVATION",      "GRADIENT",
					     "AUTOGRAD_DETAIL", "?" };

	return c < 8 ? names[c] : "bad";
}

const char *flow__rows(void)
{
	static const char *const actions[] = { "", "pre", "new", "inc", "end" };
	static char text[16384];
	const struct mem_row *r;
	size_t len = 0;
	uint32_t cnt;

	must(mem_flow__finish(mf));
	r = mem_flow__rows(mf, &cnt);
	text[0] = '\0';
	for (uint32_t i = 0; i < cnt; i++, r++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %c %s", i ? "; " : "",
					r->action < 5 ? actions[r->action] : "bad",
					(int)('a' + r->bytes / 4 - 1), category(r->category));
		if (r->action == MEM_INCREMENT_VERSION)
			len += (size_t)snprintf(text + len, sizeof(text) - len, ">%s",
						category(r->next_category));
		must(len >= sizeof(text));
	}
	account = mem_flow__account(mf);
	mem_flow__free(mf);
	mf = NULL;
	return text;
}

struct mem_flow_account flow__account(void)
{
	return account;
}

const char *flow__category(const char *rows, const char *what, char block)
{
	static char found[32];
	char key[16];
	const char *p;

	snprintf(key, sizeof(key), "%s %c ", what, block);
	p = strstr(rows, key);
	if (!p)
		return "no row";
	p += strlen(key);
	snprintf(found, sizeof(found), "%.*s", (int)strcspn(p, ";>"), p);
	return found;
}
