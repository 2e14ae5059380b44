/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * at::_ops::X::call, where X is the operator's class name. Its name in torch's reports comes from
 * the code, and the schema texts confirm it (plan_priv.h). A function whose name cannot be found is
 * listed and not probed.
 */
#define LOG_DOMAIN "op_sites"
#include "plan/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "plan/args_priv.h"

struct op_class {
	const char *name;
	size_t len;
};

/* _ZN2at4_ops <len> <X> 4call E <arguments>, and no suffix of a compiler's clone. */
static bool parse_symbol(const char *mangled, struct op_class *cls)
{
	const char *p = mangled + strlen("_ZN2at4_ops");
	char *end;
	unsigned long len;

	if (*p < '1' || *p > '9' || strchr(p, '.'))
		return false;
	len = strtoul(p, &end, 10);
	if (!len || len >= OP_NAME_MAX || strnlen(end, len + 6) < len + 6 ||
	    memcmp(end + len, "4callE", 6))
		return false;
	cls->name = end;
	cls->len = len;
	return true;
}

struct name_stats {
	uint32_t both, one_only_a, readings; /* counts: both agree; no text; several readings */
};

/* Chooses the name from the code if the schema texts confirm it, or the name from the texts if it
 * is the only one. "": none. */
static void choose_name(struct plan_build *b, const struct op_texts *texts,
			const struct op_class *cls, struct op_name_a *a, struct name_stats *st)
{
	char text[OP_NAME_MAX];
	bool agrees;
	enum op_text_match m = op_texts__find(texts, cls->name, cls->len,
					      a->name[0] ? a->name : NULL, &agrees, text);

	st->readings += m == OP_TEXT_MORE;
	if (a->name[0]) {
		b->plan->names_a++;
		if (agrees) {
			st->both++;
		} else if (m == OP_TEXT_NONE) {
			st->one_only_a++;
		} else {
			b->plan->names_disagree++;
			pr_debug("class %.*s: the code says %s, the schema text %s", (int)cls->len,
				 cls->name, a->name, text);
		}
		return;
	}
	if (m != OP_TEXT_ONE)
		return;
	snprintf(a->name, sizeof(a->name), "aten::%.*s", (int)sizeof(a->name) - 7, text);
	b->plan->names_b_only++;
}

static int add_op(struct plan_build *b, struct op_args *args, const struct addr_name *sym,
		  const struct op_class *cls, struct name_stats *st)
{
	struct func_probe fp = { .entry = sym->addr,
				 .kind = PTB_FUNC_OP,
				 .enter = PTB_PROG_OP_ENTER,
				 .mark = plan_build__mark_kernel_calls };
	struct op_name_a a = { .name = "" };
	char plain[OP_NAME_MAX + 16];
	enum ptb_refusal why;
	int err;

	flow__build(&b->flow, &b->lc->src, sym->addr, &why);
	if (why == PTB_REFUSE_NONE)
		op_names__from_code(b->lc, &b->flow, &b->aux, &a);
	choose_name(b, args->texts, cls, &a, st);
	fp.name = a.name;
	if (!a.name[0]) {
		snprintf(plain, sizeof(plain), "at::_ops::%.*s", (int)cls->len, cls->name);
		fp.name = plain;
		if (why == PTB_REFUSE_NONE)
			why = PTB_REFUSE_NO_NAME;
	}
	err = plan_build__probe_built(b, &fp, why);
	if (err)
		return err;
	b->plan->funcs[plan_build__last(b)].handle = a.handle;
	return a.name[0] ? op_args__add(args, b, sym->name, plan_build__last(b)) : 0;
}

int op_sites__add(struct plan_build *b)
{
	const struct sym_list *ops = &b->lc->topics[TOPIC_OPS];
	struct name_stats st = { 0 };
	struct op_texts *texts;
	struct op_args args;
	struct op_class cls;
	int err;

	if (!ops->cnt)
		return 0;
	op_texts__new(b->lc, &texts);
	err = 0;
	op_args__init(&args, b->lc, texts);
	for (uint32_t i = 0; i < ops->cnt && !err; i++)
		if (parse_symbol(ops->syms[i].name, &cls))
			err = add_op(b, &args, &ops->syms[i], &cls, &st);
	op_args__free(&args);
	pr_debug(
		"%u names from code, %u confirmed by a schema text, %u without a text, %u with two readings, %u disagree, %u from a text only; %u texts",
		b->plan->names_a, st.both, st.one_only_a, st.readings, b->plan->names_disagree,
		b->plan->names_b_only, op_texts__cnt(texts));
	op_texts__free(texts);
	return err;
}
