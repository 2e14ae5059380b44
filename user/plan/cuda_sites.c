/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory calls of libcudart and libcuda, found by their names; their arguments are those of the
 * public prototypes (cuda_runtime_api.h, cuda.h). Each is probed at its entry. Where the call ends
 * depends on what the code shows:
 *
 * libcudart: `cudaMalloc` checks whether a tool has subscribed. In either case it passes its
 *   arguments on to a local function, without an emulated instruction between the tool's end
 *   callback and the return. So the end is searched for in the function that does the work, if
 *   there is a single one and it gets all arguments that are recorded.
 * libcuda: `cmpl $dead,state; je 1f; jmp *table(%rip)`. The entry is the `je`. Tools may change the
 *   table, and its functions write their results after their last emulated instruction: no end.
 *
 * Work are the calls that get the pointer to the result (or the first argument, without a result)
 * and the stores through it. All sites are after the work. Code without the pointer handles errors.
 * A path without work (a refused argument) may have no site, which the programs notice and report.
 */
#include "plan/plan_priv.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "code/code.h"

#define NO PTB_API_NONE

static const struct api_row {
	uint8_t lib, out, addr, size; /* numbers of the arguments */
	const char *name, *symbol;    /* public name; exported name, with or without "_ptsz" */
} rows[] = {
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaMalloc", "cudaMalloc" },
	{ TORCH_LIB_CUDART, NO, 0, NO, "cudaFree", "cudaFree" },
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaMallocAsync", "cudaMallocAsync" },
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaMallocFromPoolAsync", "cudaMallocFromPoolAsync" },
	{ TORCH_LIB_CUDART, NO, 0, NO, "cudaFreeAsync", "cudaFreeAsync" },
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaMallocManaged", "cudaMallocManaged" },
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaHostAlloc", "cudaHostAlloc" },
	{ TORCH_LIB_CUDART, 0, NO, 1, "cudaMallocHost", "cudaMallocHost" },
	{ TORCH_LIB_CUDART, NO, 0, NO, "cudaFreeHost", "cudaFreeHost" },
	{ TORCH_LIB_CUDART, NO, 0, 1, "cudaHostRegister", "cudaHostRegister" },
	{ TORCH_LIB_CUDART, NO, 0, NO, "cudaHostUnregister", "cudaHostUnregister" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAlloc", "cuMemAlloc_v2" },
	{ TORCH_LIB_CUDA, NO, 0, NO, "cuMemFree", "cuMemFree_v2" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAllocAsync", "cuMemAllocAsync" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync" },
	{ TORCH_LIB_CUDA, NO, 0, NO, "cuMemFreeAsync", "cuMemFreeAsync" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAllocManaged", "cuMemAllocManaged" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAllocHost", "cuMemAllocHost_v2" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemHostAlloc", "cuMemHostAlloc" },
	{ TORCH_LIB_CUDA, NO, 0, NO, "cuMemFreeHost", "cuMemFreeHost" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemCreate", "cuMemCreate" },
	{ TORCH_LIB_CUDA, NO, 0, NO, "cuMemRelease", "cuMemRelease" },
	{ TORCH_LIB_CUDA, NO, 0, 1, "cuMemMap", "cuMemMap" },
	{ TORCH_LIB_CUDA, NO, 0, 1, "cuMemUnmap", "cuMemUnmap" },
	{ TORCH_LIB_CUDA, NO, 0, 1, "cuMemSetAccess", "cuMemSetAccess" },
	{ TORCH_LIB_CUDA, 0, NO, 1, "cuMemAddressReserve", "cuMemAddressReserve" },
	{ TORCH_LIB_CUDA, NO, 0, 1, "cuMemAddressFree", "cuMemAddressFree" },
};

#define ROW_CNT (sizeof(rows) / sizeof(rows[0]))
#define FOLLOW_MAX 3 /* functions that pass the arguments on */

_Static_assert(ROW_CNT < 128, "the tag of a call has seven bits");

/* ---- which functions ---- */

bool cuda_syms__has(const struct cuda_syms *cs, uint64_t addr)
{
	for (uint32_t i = 0; i < cs->cnt; i++)
		if (cs->items[i].addr == addr)
			return true;
	return false;
}

static bool on_cuda_sym(const struct elf_sym *sym, void *arg)
{
	struct cuda_syms *cs = arg;

	if (!sym->defined || !sym->addr || sym->type != STT_FUNC ||
	    strncmp(sym->name + 2 * (sym->name[0] == '_'), "cu", 2) != 0)
		return true;
	for (uint32_t i = 0; i < cs->row_cnt; i++) {
		if (cs->names(cs->role, sym->name, i) && !cuda_syms__has(cs, sym->addr))
			vec_push(cs->items, cs->cnt, cs->cap,
				 (struct cuda_sym){ .addr = sym->addr, .row = i });
	}
	return true;
}

void cuda_syms__find(struct cuda_syms *cs, const struct plan_build *b, cuda_row_fn names,
		     uint32_t row_cnt)
{
	*cs = (struct cuda_syms){ .role = b->role, .names = names, .row_cnt = row_cnt };
	elf_file__for_each_sym(b->lc->ef, on_cuda_sym, cs);
}

static bool is_memory_call(enum torch_lib_role role, const char *symbol, uint32_t row)
{
	size_t len = strlen(rows[row].symbol);

	return rows[row].lib == role && !strncmp(symbol, rows[row].symbol, len) &&
	       (!symbol[len] || !strcmp(symbol + len, "_ptsz"));
}

/* ---- where a call ends ---- */

static uint8_t arg_bit(uint8_t nr)
{
	return (uint8_t)(nr < ARG_FLOW_ARGS ? 1u << nr : 0);
}

/* One function during its analysis. */
struct api_call {
	const struct api_row *row;
	uint8_t result; /* bit of the argument that identifies the work */
	/* bits of the arguments that the working function must get in their places */
	uint8_t all;
	struct arg_flow af;
};

/* Marks calls, jumps and stores that may concern the result. */
static void mark_work(struct plan_build *b, struct api_call *c)
{
	exit_finder__prepare(&b->finder, &b->flow);

	arg_flow__follow(&c->af, &b->flow);
	for (uint32_t i = 0; i < b->flow.cnt; i++)
		b->finder.work[i] = arg_flow__uses(&c->af, &b->flow, i, c->result);
}

/* Does the node call or jump to another function with all arguments in their places? */
static bool hands_on(const struct plan_build *b, const struct api_call *c, uint32_t node)
{
	const struct flow_node *n = &b->flow.nodes[node];

	return (n->in.cls == INSN_CALL || (n->leaves && n->in.cls != INSN_JMP_IND)) &&
	       arg_flow__forwards(&c->af, node, c->all);
}

/*
 * The only function that gets all arguments unchanged. A function that is called before it and gets
 * them too only prepares the call. 0: there is none or several, it may be called twice (so that its
 * first end would look like the last), or the result is stored here.
 */
static void find_receiver(struct plan_build *b, const struct api_call *c, uint64_t *target)
{
	uint8_t *before = b->finder.late; /* unused at this time */
	struct flow *f = &b->flow;
	bool last;

	*target = 0;
	for (uint32_t i = 0; i < f->cnt; i++) {
		before[i] = hands_on(b, c, i);
		if (arg_flow__stores(&c->af, f, i, c->result))
			return;
	}
	flow__reach(f, before, true);
	for (uint32_t i = 0; i < f->cnt; i++) {
		if (!hands_on(b, c, i))
			continue;
		last = !flow__leads_to(f, i, before);
		if (last && *target && *target != f->nodes[i].in.target) {
			*target = 0;
			return;
		}
		if (last)
			*target = f->nodes[i].in.target;
	}
	for (uint32_t i = 0; i < f->cnt && *target; i++) /* none before the last call */
		if (hands_on(b, c, i) && f->nodes[i].in.target == *target &&
		    flow__leads_to(f, i, before))
			*target = 0;
}

/* The exits of the function in b->flow, or of the function that works for it, which then is in
 * b->flow. */
static void find_memory_exits(struct plan_build *b, struct api_call *c, struct exit_sites *ex)
{
	enum ptb_refusal why = PTB_REFUSE_NONE;
	uint64_t target;

	for (uint32_t depth = 0; depth <= FOLLOW_MAX; depth++) {
		mark_work(b, c);
		exit_sites__after_work(&b->finder, &b->flow, ex);
		if (ex->why == PTB_REFUSE_NONE)
			return;
		find_receiver(b, c, &target);
		if (!target)
			return;
		flow__build(&b->flow, &b->lc->src, target, &why);
		if (why != PTB_REFUSE_NONE)
			return;
	}
}

/* ---- sites ---- */

static int add_probed(struct plan_build *b, struct api_call *c, uint64_t addr, uint32_t entry,
		      uint32_t args)
{
	struct exit_sites ex = { .why = PTB_REFUSE_NO_EXIT };
	int err;

	plan_build__func(b, c->row->name, addr, PTB_FUNC_CUDA_MEMORY, PTB_REFUSE_NONE);

	err = plan_build__site(b, plan_build__last(b), &b->flow.nodes[entry].in, PTB_PROG_API_ENTER,
			       PTB_ROLE_ENTER, args);
	if (!err)
		find_memory_exits(b, c, &ex);
	if (err)
		return err;
	b->plan->funcs[plan_build__last(b)].reason = (uint8_t)ex.why;
	return plan_build__exits(b, &ex, PTB_PROG_API_EXIT, args);
}

static int add_memory_call(struct plan_build *b, const struct cuda_sym *sym)
{
	const struct api_row *row = &rows[sym->row];
	uint32_t args = PTB_API_ARGS(row->out, row->addr, row->size) | PTB_API_TAG(sym->row);
	struct api_call c = { .row = row };
	enum ptb_refusal why;
	uint32_t entry;
	int err;

	plan_build__entry(b, sym->addr, ENTRY_ALL_ARGS, &entry, &why);

	if (why != PTB_REFUSE_NONE) {
		plan_build__func(b, row->name, sym->addr, PTB_FUNC_CUDA_MEMORY, why);
		return 0;
	}
	c.result = row->out != NO ? arg_bit(row->out) : arg_bit(row->addr);
	c.all = arg_bit(row->out) | arg_bit(row->addr) | arg_bit(row->size);
	err = add_probed(b, &c, sym->addr, entry, args);
	arg_flow__free(&c.af);
	return err;
}

int cuda_sites__add(struct plan_build *b)
{
	struct cuda_syms cs;
	int err = 0;

	cuda_syms__find(&cs, b, is_memory_call, ROW_CNT);
	for (uint32_t i = 0; i < cs.cnt && !err; i++)
		err = add_memory_call(b, &cs.items[i]);
	free(cs.items);
	return err;
}
