/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An operator's schema is the text that fits its C++ parameters. Some have a text with int, one
 * with SymInt, and another one without defaults. Doubles in vector registers are read at the call
 * of getStepCallbacksUnlessEmpty, which every call of the operator runs once. A result in a
 * register is read at the exit sites.
 */
#define LOG_DOMAIN "op_args"
#include "plan/args_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

void op_args__init(struct op_args *a, const struct lib_code *lc, const struct op_texts *texts)
{
	const struct sym_list *ops = &lc->topics[TOPIC_OPS];
	uint32_t c10 = 0, std = 0;

	memset(a, 0, sizeof(*a));
	a->texts = texts;
	for (uint32_t i = 0; i < ops->cnt; i++) {
		c10 += strstr(ops->syms[i].name, "3c108optionalI") != NULL;
		std += strstr(ops->syms[i].name, "St8optionalI") != NULL;
	}
	a->optional = std > c10 ? OPTIONAL_STD : c10 ? OPTIONAL_C10 : OPTIONAL_NONE;
}

void op_args__free(struct op_args *a)
{
	pr_debug(
		"%u operators without a schema that fits; %u late doubles, %u lost; %u results in registers lost",
		a->no_schema, a->late, a->late_lost, a->results_lost);
	value_locations__free(&a->locations);
}

/* ---- schema ---- */

/* Orders the texts that fit: by the differences, then whole texts, then those of m.def (no
 * namespace), then those with the most defaults. */
static int32_t rank(const struct op_text_args *t, const struct schema *s, int differ)
{
	return (SCHEMA_ARGS_MAX - differ) * 16384 + t->whole * 4096 + !t->name_space * 1024 +
	       s->default_cnt;
}

static bool choose_schema(const struct op_args *a, const char *name, const struct arg_type *types,
			  uint32_t cnt, struct schema *best, char *printed)
{
	static char text[SCHEMA_TEXT_MAX];
	struct op_text_args all[OP_TEXT_ARGS_MAX];
	const char *plain = strstr(name, "::");
	int32_t best_rank = -1;
	struct schema s;
	uint32_t n;
	int differ;

	n = op_texts__args(a->texts, plain ? plain + 2 : name, all);
	for (uint32_t i = 0; i < n; i++) {
		if (!schema_text__parse(all[i].text, all[i].len, name, &s, text, sizeof(text)))
			continue;
		differ = arg_prog__fits(&s, types, cnt);
		if (differ < 0 || rank(&all[i], &s, differ) <= best_rank)
			continue;
		best_rank = rank(&all[i], &s, differ);
		*best = s;
		strcpy(printed, text);
	}
	return best_rank >= 0;
}

/* ---- locations in the function ---- */

static uint32_t late_node(struct plan_build *b)
{
	uint32_t at = FLOW_NONE;

	for (uint32_t i = 0; i < b->flow.cnt; i++) {
		const struct insn *in = &b->flow.nodes[i].in;

		if (!lib_code__calls(b->lc, in, CALLEE_GET_CALLBACKS))
			continue;
		if (at != FLOW_NONE || !in->emulated || !b->flow.nodes[i].own)
			return FLOW_NONE;
		at = i;
	}
	return at;
}

/* Converts to the register's number in argument programs. False: it has none. */
static bool prog_reg(uint8_t reg, uint8_t *out)
{
	for (*out = 0; *out < PTB_REG_CNT; (*out)++)
		if (arch.prog_reg[*out] == reg)
			return true;
	return false;
}

static int add_late(struct op_args *a, struct plan_build *b, uint32_t func, struct arg_compiled *c)
{
	struct value_seeds seeds = { .bp = VALUE_NO_FRAME, .cnt = c->late_cnt, .size = 8 };
	struct arg_late_location at[ARG_LATE_MAX] = { 0 };
	uint32_t node = late_node(b), args;
	struct ptb_arg_prog late;
	struct value_location pl;
	int err = 0;

	for (uint32_t i = 0; i < c->late_cnt; i++)
		seeds.location[i] = (uint8_t)VALUE_XMM(i);
	if (node != FLOW_NONE)
		err = value_locations__run(&a->locations, &b->flow, &seeds);
	if (err)
		return err;
	for (uint32_t i = 0; i < c->late_cnt; i++) {
		if (node != FLOW_NONE && value_locations__find(&a->locations, node, i, &pl) &&
		    prog_reg(pl.reg, &at[i].reg)) {
			at[i].found = true;
			at[i].in_memory = pl.in_memory;
			at[i].disp = pl.disp;
		}
		a->late_lost += !at[i].found;
	}
	a->late += c->late_cnt;
	arg_prog__late(c, at, &late);
	if (!late.in_cnt)
		return 0;
	plan_build__prog(b, &late, &args);
	return plan_build__site(b, func, &b->flow.nodes[node].in, PTB_PROG_OP_LATE, PTB_ROLE_POINT,
				args);
}

/* Possible locations of a result at an exit site: registers with their words (ptb_args.h). */

#define RESULT_REGS (1 + ARCH_KEPT)

static uint8_t result_reg(uint32_t which)
{
	return which ? arch.kept[which - 1] : arch.result;
}

static uint8_t result_loc(uint32_t which)
{
	uint8_t reg;

	if (!which)
		return 1;
	return prog_reg(result_reg(which), &reg) ? (uint8_t)(PTB_LOC_KEPT + reg) : PTB_LOC_NONE;
}

/* Which values does the function return at the end of every path? */
static uint32_t returned(const struct op_args *a, const struct flow *f, uint32_t cnt,
			 uint8_t result)
{
	uint8_t at_ret = result == ARG_RESULT_XMM ? VALUE_XMM(0) : VALUE_GPR(arch.result);
	uint32_t kept = (1u << cnt) - 1;

	for (uint32_t i = 0; i < f->cnt; i++) {
		if (!a->locations.in[i].seen)
			continue;
		if (f->nodes[i].leaves)
			return 0;
		for (uint32_t k = 0; f->nodes[i].in.cls == INSN_RET && k < cnt; k++)
			if (!value_locations__is_at(&a->locations, i, k, at_ret))
				kept &= ~(1u << k);
	}
	return kept;
}

/* Values to follow from a node on, with the frame at that node. */
static int seeds_at(struct op_args *a, const struct plan_build *b, uint32_t node, uint8_t result,
		    struct value_seeds *seeds)
{
	int err;

	*seeds = (struct value_seeds){ .bp = VALUE_NO_FRAME };
	err = value_locations__run(&a->locations, &b->flow, seeds);
	*seeds = (struct value_seeds){ .start = node,
				       .sp = a->locations.in[node].sp,
				       .bp = a->locations.in[node].bp,
				       .size = result == ARG_RESULT_BYTE ? 1 : 8 };
	return err;
}

/* Which registers before `node` hold the function's result on every path from there? */
static int kept_results(struct op_args *a, const struct plan_build *b, uint32_t node,
			uint8_t result, uint32_t *kept)
{
	struct value_seeds seeds;
	int err = seeds_at(a, b, node, result, &seeds);

	seeds.cnt = RESULT_REGS;
	for (uint32_t k = 0; k < seeds.cnt; k++)
		seeds.location[k] = (uint8_t)VALUE_GPR(result_reg(k));
	if (!err)
		err = value_locations__run(&a->locations, &b->flow, &seeds);
	*kept &= err ? 0 : returned(a, &b->flow, seeds.cnt, result);
	return err;
}

/* Likewise for the slot of the frame that the result is loaded from after the node. */
static int kept_slot(struct op_args *a, const struct plan_build *b, uint32_t node, uint8_t result,
		     int32_t *disp, bool *found)
{
	uint8_t location = result == ARG_RESULT_XMM ? VALUE_XMM(0) : VALUE_GPR(arch.result);
	struct value_seeds seeds;
	int err = seeds_at(a, b, node, result, &seeds);
	uint32_t i;

	*found = false;
	if (!err)
		err = value_locations__run(&a->locations, &b->flow, &seeds);
	for (i = 0; i < b->flow.cnt && !err; i++)
		if (value_locations__loads(&a->locations, &b->flow, i, location, &seeds.slot))
			break;
	if (err || i == b->flow.cnt || seeds.sp == VALUE_NO_FRAME)
		return err;
	seeds.cnt = 1;
	seeds.location[0] = VALUE_SLOT;
	err = value_locations__run(&a->locations, &b->flow, &seeds);
	*disp = seeds.slot - seeds.sp;
	*found = !err && returned(a, &b->flow, 1, result) && *disp >= 0 && *disp <= UINT16_MAX;
	return err;
}

/* Finds a location that holds the result at all exits of the function. Without one it cannot be
 * read. */
static int locate_result(struct op_args *a, struct plan_build *b, uint32_t func,
			 struct arg_compiled *c)
{
	const struct torch_plan *p = b->plan;
	uint32_t i, node = FLOW_NONE, kept = (1u << RESULT_REGS) - 1, exits = 0;
	bool in_slot = false;
	int32_t disp = 0;
	int err = 0;

	for (i = p->site_cnt; i && p->sites[i - 1].func == func && !err; i--) {
		if (p->sites[i - 1].role != PTB_ROLE_EXIT)
			continue;
		exits++;
		node = flow__at(&b->flow, elf_file__off_to_addr(b->lc->ef, p->sites[i - 1].offset));
		if (node == FLOW_NONE)
			kept = 0;
		else
			err = kept_results(a, b, node, c->result, &kept);
	}
	for (i = 0; i < RESULT_REGS && !(exits && kept & 1u << i); i++)
		;
	if (!err && i == RESULT_REGS && exits == 1 && node != FLOW_NONE)
		err = kept_slot(a, b, node, c->result, &disp, &in_slot);
	if (err)
		return err;
	if (i < RESULT_REGS)
		c->prog.ops[c->prog.in_cnt].loc[0] = result_loc(i);
	else if (in_slot)
		arg_prog__result_slot(c, (uint16_t)disp);
	else
		arg_prog__no_result(c);
	a->results_lost += i == RESULT_REGS && !in_slot;
	return 0;
}

/* ---- one operator ---- */

static bool has_entry(const struct plan_build *b, uint32_t func)
{
	const struct torch_plan *p = b->plan;

	return p->site_cnt && p->sites[p->site_cnt - 1].func == func;
}

static int add_program(struct op_args *a, struct plan_build *b, uint32_t func,
		       struct arg_compiled *c)
{
	uint32_t args;
	int err = 0;

	if (c->result != ARG_RESULT_NONE)
		err = locate_result(a, b, func, c);
	if (!err && c->late_cnt)
		err = add_late(a, b, func, c);
	if (!err)
		plan_build__prog(b, &c->prog, &args);
	if (err)
		return err;
	b->plan->funcs[func].unplaced = c->unplaced;
	for (uint32_t i = b->plan->site_cnt; i && b->plan->sites[i - 1].func == func; i--)
		if (b->plan->sites[i - 1].role != PTB_ROLE_POINT)
			b->plan->sites[i - 1].args = args;
	return 0;
}

int op_args__add(struct op_args *a, struct plan_build *b, const char *mangled, uint32_t func)
{
	static char printed[SCHEMA_TEXT_MAX];
	struct arg_type types[ARG_TYPES_MAX];
	struct arg_compiled c;
	struct schema schema;
	struct plan_func *f = &b->plan->funcs[func];
	char *demangled = demangle(mangled, NULL);
	int cnt = demangled ? arg_types__parse(demangled, a->optional, types) : -1;
	bool known;

	free(demangled);
	known = cnt >= 0 && choose_schema(a, f->name, types, (uint32_t)cnt, &schema, printed);
	a->no_schema += !known;
	if (known) {
		f->schema = xstrdup(printed);
	}
	if (!has_entry(b, func))
		return 0;
	if (!arg_prog__compile(known ? &schema : NULL, types, cnt < 0 ? 0 : (uint32_t)cnt, &c)) {
		f->unplaced = c.unplaced;
		return 0;
	}
	return add_program(a, b, func, &c);
}
