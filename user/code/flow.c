/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Builds the graph by following the code from the entry: straight runs are decoded until something
 * ends them, branch targets wait on a work list, indirect jumps are resolved when nothing else is
 * left, because their bound is often known from another block only.
 */
#include "code/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

void flow__init(struct flow *f)
{
	memset(f, 0, sizeof(*f));
	f->dec = insn_decoder__new();
}

void flow__free(struct flow *f)
{
	insn_decoder__free(f->dec);
	free(f->nodes);
	free(f->targets);
	free(f->pred_at);
	free(f->preds);
	free(f->work);
	free(f->idx_mem);
	memset(f, 0, sizeof(*f));
}

static void push_work(struct flow *f, uint32_t node)
{
	vec_push(f->work, f->work_cnt, f->work_cap, node);
}

static void add_part(struct flow *f, uint64_t start, uint64_t end, bool own, enum ptb_refusal *why)
{
	struct flow_part *p;

	if (f->part_cnt == FLOW_PARTS_MAX || end <= start ||
	    end - start > FLOW_SIZE_MAX - f->idx_used) {
		*why = PTB_REFUSE_TOO_LARGE;
		return;
	}
	vec_reserve((void **)&f->idx_mem, &f->idx_cap, f->idx_used + (end - start),
		    sizeof(*f->idx_mem));
	p = &f->parts[f->part_cnt++];
	p->start = start;
	p->end = end;
	p->own = own;
	p->idx_at = f->idx_used;
	memset(f->idx_mem + f->idx_used, 0, (end - start) * sizeof(*f->idx_mem));
	f->idx_used += (uint32_t)(end - start);
}

static const struct flow_part *part_of(const struct flow *f, uint64_t addr)
{
	for (uint32_t i = 0; i < f->part_cnt; i++)
		if (addr >= f->parts[i].start && addr < f->parts[i].end)
			return &f->parts[i];
	return NULL;
}

uint32_t flow__at(const struct flow *f, uint64_t addr)
{
	const struct flow_part *p = part_of(f, addr);

	return p ? f->idx_mem[p->idx_at + (addr - p->start)] - 1 : FLOW_NONE;
}

/* A new node for the instruction at addr. FLOW_NONE with *why set. */
static uint32_t add_node(struct flow *f, const struct flow_part *p, uint64_t addr,
			 enum ptb_refusal *why)
{
	struct flow_node *n;
	uint64_t avail;
	const uint8_t *bytes = f->src->text(f->src->arg, addr, &avail);

	vec_reserve((void **)&f->nodes, &f->cap, f->cnt + 1ULL, sizeof(*f->nodes));
	n = &f->nodes[f->cnt];
	*n = (struct flow_node){ .fall = FLOW_NONE,
				 .jump = FLOW_NONE,
				 .table = FLOW_NONE,
				 .prev = FLOW_NONE,
				 .own = p->own };
	if (bytes && avail > p->end - addr)
		avail = p->end - addr;
	if (!bytes || !insn_decoder__decode(f->dec, bytes, avail, addr, &n->in)) {
		*why = PTB_REFUSE_UNDECODED;
		return FLOW_NONE;
	}
	f->idx_mem[p->idx_at + (addr - p->start)] = f->cnt + 1;
	return f->cnt++;
}

/* Does the instruction end a straight run? Queues what must be inspected later. */
static void after_node(struct flow *f, uint32_t at, bool *ends)
{
	const struct insn *in = &f->nodes[at].in;

	switch (in->cls) {
	case INSN_RET:
	case INSN_STOP:
		*ends = true;
		break;
	case INSN_JMP:
	case INSN_JMP_IND:
		*ends = true;
		push_work(f, at);
		break;
	case INSN_JCC:
		push_work(f, at);
		break;
	case INSN_CALL:
		*ends = !f->src->returns(f->src->arg, in->target);
		break;
	default:
		break;
	}
}

/* Decodes from addr until the run ends or meets known code. Returns the first node. */
static uint32_t decode_run(struct flow *f, uint64_t addr, enum ptb_refusal *why)
{
	uint32_t first = FLOW_NONE, prev = FLOW_NONE, at;
	bool ends = false;

	while (!ends) {
		const struct flow_part *p = part_of(f, addr);

		if (!p) { /* off the end: only a call that does not return may stand there */
			if (prev == FLOW_NONE || (!insn__is_call(&f->nodes[prev].in)))
				*why = PTB_REFUSE_UNDECODED;
			return first;
		}
		at = f->idx_mem[p->idx_at + (addr - p->start)] - 1;
		if (at == FLOW_NONE) {
			at = add_node(f, p, addr, why);
			if (at == FLOW_NONE)
				return FLOW_NONE;
			after_node(f, at, &ends);
		} else {
			ends = true;
		}
		if (first == FLOW_NONE)
			first = at;
		if (prev != FLOW_NONE) {
			f->nodes[prev].fall = at;
			if (f->nodes[at].prev == FLOW_NONE)
				f->nodes[at].prev = prev;
		}
		prev = at;
		addr += f->nodes[at].in.len;
	}
	return first;
}

/* The largest piece of code that a stripped file's jump is followed into. */
#define UNKNOWN_PART_MAX 4096

/* Makes sure that addr lies in a part of the graph. false: it belongs to another function. */
static bool adopt(struct flow *f, const struct insn *in, uint64_t addr, enum ptb_refusal *why)
{
	uint64_t start = 0, end = 0;
	bool own;

	if (part_of(f, addr))
		return true;
	switch (f->src->range(f->src->arg, addr, &start, &end)) {
	case CODE_COLD:
		own = true;
		break;
	case CODE_UNKNOWN:
		/* Compilers do not jump into the middle of another function, and gcc does not make
		 * tail calls conditional. The rest is followed, but never probed. */
		own = addr != start || in->cls == INSN_JCC;
		if (!own && end - start > UNKNOWN_PART_MAX)
			return false;
		break;
	default:
		return false;
	}
	add_part(f, start, end, own, why);
	return *why == PTB_REFUSE_NONE;
}

/* The node at addr, decoded if it is new; FLOW_NONE: in another function, or *why is set. */
static uint32_t branch_target(struct flow *f, uint32_t from, uint64_t addr, enum ptb_refusal *why)
{
	struct insn in = f->nodes[from].in;
	uint32_t at;

	if (!adopt(f, &in, addr, why))
		return FLOW_NONE;
	at = flow__at(f, addr);
	return at != FLOW_NONE ? at : decode_run(f, addr, why);
}

static void resolve_direct(struct flow *f, uint32_t from, enum ptb_refusal *why)
{
	uint32_t at = branch_target(f, from, f->nodes[from].in.target, why);

	f->nodes[from].jump = at;
	if (at == FLOW_NONE)
		f->nodes[from].leaves = true;
}

/* ---- indirect jumps ---- */

/*
 * A switch of position-independent code looks like this (gcc and clang):
 *
 *	cmp    $0x5,%eax		bound: 6 entries
 *	ja     default
 *	lea    table(%rip),%rdx
 *	movslq (%rdx,%rax,4),%rax	entry: distance from the table
 *	add    %rdx,%rax
 *	notrack jmp *%rax
 *
 * with other instructions in between. What does not fit is a tail call if the frame was left before
 * it; everything else is refused, because a graph that misses edges gives wrong exit sites.
 */
#define BACK_MAX 64 /* instructions inspected before the jump */

struct table_jump {
	uint64_t table; /* address, 0: not found */
	uint64_t cnt;   /* entries, 0: no bound found */
	bool load, add, epilogue;
};

/* The node before `at`: the one that falls into it, else one that jumps to it. */
static uint32_t step_back(const struct flow *f, uint32_t at, bool *jumped)
{
	*jumped = false;
	if (f->nodes[at].prev != FLOW_NONE)
		return f->nodes[at].prev;
	*jumped = true;
	for (uint32_t i = 0; i < f->cnt; i++)
		if (f->nodes[i].jump == at)
			return i;
	return FLOW_NONE;
}

/* "If above" falls into the switch, "if not above" jumps to it. */
static bool guards(const struct insn *in, bool jumped)
{
	return in->cls == INSN_JCC && in->cond == (jumped ? arch.not_above : arch.above);
}

/* Takes what one instruction shows of the table. *base: register that holds its address. */
static void inspect(const struct insn *in, struct table_jump *tj, uint8_t *target, uint8_t *base)
{
	const struct insn_operand *to = &in->ops[0], *from = &in->ops[1];

	if (!tj->add && in->form == FORM_ADD && from->kind == OPERAND_GPR && to->reg == *target) {
		tj->add = true;
		*base = from->reg;
	} else if (tj->add && !tj->load && in->form == FORM_MOVE && from->kind == OPERAND_MEM &&
		   from->size == 4 && to->size == 8 && from->scale == 4 &&
		   (to->reg == *target || to->reg == *base)) {
		/* the sum is commutative: the entry may be in either register */
		tj->load = !from->value;
		*base = from->reg;
	} else if (tj->load && !tj->table && in->form == FORM_ADDRESS && operand__is_fixed(from) &&
		   to->reg == *base) {
		tj->table = (uint64_t)from->value;
	} else if (tj->load && !tj->table && insn__is_copy(in) && to->reg == *base) {
		*base = from->reg;
	} else if (!tj->add && insn__is_copy(in) && to->reg == *target) {
		*target = from->reg;
	}
}

/* Leaving the frame: pop, leave, add or lea to the stack pointer. */
static bool is_epilogue(const struct insn *in)
{
	if (in->form == FORM_POP || in->form == FORM_LEAVE)
		return true;
	if (in->form == FORM_ADD ? in->ops[1].kind != OPERAND_IMM : in->form != FORM_ADDRESS)
		return false;
	return in->ops[0].kind == OPERAND_GPR && in->ops[0].reg == arch.sp;
}

static void scan_back(const struct flow *f, uint32_t at, uint8_t target, struct table_jump *tj)
{
	uint8_t base = REG_NONE;
	uint32_t n = at;
	bool guarded = false, jumped;

	for (uint32_t i = 0; i < BACK_MAX && !(tj->table && tj->cnt); i++) {
		const struct insn *in;
		int64_t bound;

		n = step_back(f, n, &jumped);
		if (n == FLOW_NONE)
			return;
		in = &f->nodes[n].in;
		if (guards(in, jumped)) {
			guarded = true;
			continue;
		}
		if (in->cls == INSN_JCC)
			guarded = false;
		if (i < 16 && is_epilogue(in))
			tj->epilogue = true;
		if (guarded && !tj->cnt && in->form == FORM_COMPARE &&
		    in->ops[1].kind == OPERAND_IMM) {
			bound = in->ops[1].value;
			tj->cnt = bound >= 0 && bound < FLOW_TABLE_MAX ? (uint64_t)bound + 1 :
									 FLOW_TABLE_MAX + 1;
			guarded = false;
			continue;
		}
		inspect(in, tj, &target, &base);
	}
}

static bool table_entry(const struct flow *f, uint64_t table, uint64_t i, uint64_t *addr)
{
	const uint8_t *p = f->src->data(f->src->arg, table + 4 * i, 4);
	int32_t rel;

	if (!p)
		return false;
	memcpy(&rel, p, sizeof(rel));
	*addr = table + (uint64_t)(int64_t)rel;
	return true;
}

/* Without a bound (the compiler knew the values) the table ends where its entries leave the
 * function: anything else there would have to lie within a few KiB of it by chance. */
static uint64_t count_entries(const struct flow *f, uint64_t table)
{
	uint64_t i, addr;

	for (i = 0; i < FLOW_TABLE_MAX; i++)
		if (!table_entry(f, table, i, &addr) || !part_of(f, addr))
			break;
	return i;
}

static void add_targets(struct flow *f, uint32_t at, const struct table_jump *tj,
			enum ptb_refusal *why)
{
	uint32_t first = f->target_cnt, to;
	uint64_t addr;

	vec_reserve((void **)&f->targets, &f->target_cap, f->target_cnt + tj->cnt,
		    sizeof(*f->targets));
	f->target_cnt += (uint32_t)tj->cnt;
	for (uint64_t i = 0; i < tj->cnt; i++)
		f->targets[first + i] = FLOW_NONE;
	for (uint64_t i = 0; i < tj->cnt; i++) {
		if (!table_entry(f, tj->table, i, &addr)) {
			*why = PTB_REFUSE_COMPUTED_JUMP;
			return;
		}
		to = branch_target(f, at, addr, why);
		if (*why != PTB_REFUSE_NONE)
			return;
		if (to == FLOW_NONE) {
			*why = PTB_REFUSE_COMPUTED_JUMP;
			return;
		}
		f->targets[first + i] = to;
	}
	f->nodes[at].table = first;
	f->nodes[at].table_cnt = (uint32_t)tj->cnt;
}

static void resolve_indirect(struct flow *f, uint32_t at, enum ptb_refusal *why)
{
	struct table_jump tj = { 0 };
	const struct insn_operand *to = &f->nodes[at].in.ops[0];

	/* a table of addresses, or a call through a vtable or the GOT */
	if (to->kind == OPERAND_MEM) {
		if (to->index != REG_NONE)
			*why = PTB_REFUSE_COMPUTED_JUMP;
		f->nodes[at].leaves = true;
		return;
	}
	scan_back(f, at, to->reg, &tj);
	if (!tj.add && tj.epilogue) {
		f->nodes[at].leaves = true;
		return;
	}
	if (tj.table && !tj.cnt)
		tj.cnt = count_entries(f, tj.table);
	if (!tj.table || !tj.cnt || tj.cnt > FLOW_TABLE_MAX) {
		*why = PTB_REFUSE_COMPUTED_JUMP;
		return;
	}
	add_targets(f, at, &tj, why);
}

/* ---- the whole graph ---- */

/* Direct branches first: they may show where an indirect jump's bound is checked. */
static int drain(struct flow *f, enum ptb_refusal *why)
{
	uint32_t i, node;

	while (f->work_cnt && *why == PTB_REFUSE_NONE) {
		for (i = f->work_cnt; i && f->nodes[f->work[i - 1]].in.cls == INSN_JMP_IND; i--)
			;
		if (!i)
			i = f->work_cnt;
		node = f->work[i - 1];
		f->work[i - 1] = f->work[--f->work_cnt];
		if (f->nodes[node].in.cls == INSN_JMP_IND)
			resolve_indirect(f, node, why);
		else
			resolve_direct(f, node, why);
	}
	return 0;
}

static void build_preds(struct flow *f)
{
	uint32_t to, total = 0;

	vec_reserve((void **)&f->pred_at, &f->pred_at_cap, f->cnt + 2ULL, sizeof(uint32_t));
	memset(f->pred_at, 0, (f->cnt + 2ULL) * sizeof(uint32_t));
	for (uint32_t i = 0; i < f->cnt; i++)
		for (uint32_t j = 0; j < FLOW_SUCC_MAX(&f->nodes[i]); j++) {
			to = flow__succ(f, &f->nodes[i], j);
			if (to != FLOW_NONE) {
				f->pred_at[to + 2]++;
				total++;
			}
		}
	vec_reserve((void **)&f->preds, &f->preds_cap, total + 1ULL, sizeof(uint32_t));
	for (uint32_t i = 2; i < f->cnt + 2; i++)
		f->pred_at[i] += f->pred_at[i - 1];
	for (uint32_t i = 0; i < f->cnt; i++) /* pred_at[to + 1] is where to's next one goes */
		for (uint32_t j = 0; j < FLOW_SUCC_MAX(&f->nodes[i]); j++) {
			to = flow__succ(f, &f->nodes[i], j);
			if (to != FLOW_NONE)
				f->preds[f->pred_at[to + 1]++] = i;
		}
}

void flow__build(struct flow *f, const struct code_src *src, uint64_t entry, enum ptb_refusal *why)
{
	uint64_t start, end;

	f->src = src;
	f->cnt = f->target_cnt = f->part_cnt = f->work_cnt = f->idx_used = 0;
	*why = PTB_REFUSE_NONE;
	if (src->range(src->arg, entry, &start, &end) == CODE_NONE || entry < start ||
	    entry >= end) {
		*why = PTB_REFUSE_UNDECODED;
		return;
	}
	add_part(f, start, end, true, why);
	if (*why)
		return;
	decode_run(f, entry, why);
	if (*why == PTB_REFUSE_NONE)
		drain(f, why);
	if (*why == PTB_REFUSE_NONE)
		build_preds(f);
}

static void reach_node(struct flow *f, uint32_t node, uint8_t *seen)
{
	if (node == FLOW_NONE || seen[node])
		return;
	seen[node] = FLOW_SEEN;
	push_work(f, node);
}

static void reach_from(struct flow *f, uint32_t at, uint8_t *seen, bool backward)
{
	for (uint32_t i = f->pred_at[at]; backward && i < f->pred_at[at + 1]; i++)
		reach_node(f, f->preds[i], seen);
	for (uint32_t i = 0; !backward && i < FLOW_SUCC_MAX(&f->nodes[at]); i++)
		reach_node(f, flow__succ(f, &f->nodes[at], i), seen);
}

bool flow__leads_to(const struct flow *f, uint32_t node, const uint8_t *marks)
{
	uint32_t to;

	for (uint32_t i = 0; i < FLOW_SUCC_MAX(&f->nodes[node]); i++) {
		to = flow__succ(f, &f->nodes[node], i);
		if (to != FLOW_NONE && marks[to])
			return true;
	}
	return false;
}

void flow__reach(struct flow *f, uint8_t *seen, bool backward)
{
	f->work_cnt = 0;
	for (uint32_t i = 0; i < f->cnt; i++) {
		if (seen[i] == FLOW_SEEN)
			push_work(f, i);
	}
	while (f->work_cnt)
		reach_from(f, f->work[--f->work_cnt], seen, backward);
}

/* ---- values of registers ---- */

#define TRACK_MAX 128 /* instructions inspected */

static uint32_t last_before(const struct flow *f, uint32_t at)
{
	const struct flow_node *n = &f->nodes[at];

	if (n->prev != FLOW_NONE)
		return n->prev;
	return f->pred_at[at] < f->pred_at[at + 1] ? f->preds[f->pred_at[at]] : FLOW_NONE;
}

enum reg_value flow__value_before(const struct flow *f, uint32_t node, uint8_t reg, int64_t *value)
{
	uint32_t at = node;

	for (uint32_t i = 0; i < TRACK_MAX; i++) {
		const struct insn *in;

		at = last_before(f, at);
		if (at == FLOW_NONE)
			return VALUE_UNKNOWN;
		in = &f->nodes[at].in;
		if (!insn__may_write(in, reg))
			continue;
		if (in->form == FORM_ADDRESS && operand__is_fixed(&in->ops[1])) {
			*value = in->ops[1].value;
			return VALUE_ADDR;
		}
		if (in->form == FORM_CONST) {
			*value = in->value;
			return VALUE_CONST;
		}
		if (!insn__is_copy(in))
			return VALUE_UNKNOWN;
		reg = in->ops[1].reg;
	}
	return VALUE_UNKNOWN;
}
