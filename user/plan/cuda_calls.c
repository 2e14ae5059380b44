/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUDA's launches, copies, fills and synchronisation in libcudart and libcuda, found by their names
 * (local names if libcudart is linked into a library of torch's). Their arguments are those of the
 * public prototypes (cuda_runtime_api.h, cuda.h). Each is probed at its entry, and those of
 * libcudart at their ends, too, if the code shows them (plan_priv.h). libcuda's functions jump into
 * a table that tools may change, so they have no ends. They are attached only when CUDA calls are
 * recorded without the agent.
 */
#include "plan/plan_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RT TORCH_LIB_CUDART
#define DRV TORCH_LIB_CUDA
#define ANY PTB_CUDA_NO_KIND
#define H2D 1 /* cudaMemcpyKind */
#define D2H 2
#define D2D 3

static const struct call_row {
	uint8_t lib, shape, kind, unit;
	/* exported name; recorded without "__" and without "_v2", which marks a version with other
	 * arguments */
	const char *name;
} rows[] = {
	{ RT, PTB_CUDA_LAUNCH, ANY, 0, "cudaLaunchKernel" },
	/* called by nvcc's stubs from CUDA 13 on */
	{ RT, PTB_CUDA_LAUNCH, ANY, 0, "__cudaLaunchKernel" },
	{ RT, PTB_CUDA_LAUNCH_CONFIG, ANY, 0, "cudaLaunchKernelExC" },
	{ RT, PTB_CUDA_LAUNCH, ANY, 0, "cudaLaunchCooperativeKernel" },
	{ RT, PTB_CUDA_STREAM, ANY, 0, "cudaLaunchHostFunc" },
	{ RT, PTB_CUDA_GRAPH, ANY, 0, "cudaGraphLaunch" },
	{ RT, PTB_CUDA_COPY, ANY, 0, "cudaMemcpy" },
	{ RT, PTB_CUDA_COPY_ASYNC, ANY, 0, "cudaMemcpyAsync" },
	{ RT, PTB_CUDA_COPY_SYMBOL, ANY, 0, "cudaMemcpyToSymbol" },
	{ RT, PTB_CUDA_COPY_SYMBOL_ASYNC, ANY, 0, "cudaMemcpyToSymbolAsync" },
	{ RT, PTB_CUDA_COPY_SYMBOL, ANY, 0, "cudaMemcpyFromSymbol" },
	{ RT, PTB_CUDA_COPY_SYMBOL_ASYNC, ANY, 0, "cudaMemcpyFromSymbolAsync" },
	{ RT, PTB_CUDA_COPY_2D, ANY, 0, "cudaMemcpy2D" },
	{ RT, PTB_CUDA_COPY_2D_ASYNC, ANY, 0, "cudaMemcpy2DAsync" },
	{ RT, PTB_CUDA_COPY_3D, ANY, 0, "cudaMemcpy3D" },
	{ RT, PTB_CUDA_COPY_3D_ASYNC, ANY, 0, "cudaMemcpy3DAsync" },
	{ RT, PTB_CUDA_COPY_PEER, ANY, 0, "cudaMemcpyPeer" },
	{ RT, PTB_CUDA_COPY_PEER_ASYNC, ANY, 0, "cudaMemcpyPeerAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy3DPeer" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy3DPeerAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyBatchAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy3DBatchAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyToArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyToArrayAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyFromArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyFromArrayAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyArrayToArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy2DToArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy2DToArrayAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy2DFromArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy2DFromArrayAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy2DArrayToArray" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpyWithAttributesAsync" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaMemcpy3DWithAttributesAsync" },
	{ RT, PTB_CUDA_SET, ANY, 0, "cudaMemset" },
	{ RT, PTB_CUDA_SET_ASYNC, ANY, 0, "cudaMemsetAsync" },
	{ RT, PTB_CUDA_SET_2D, ANY, 0, "cudaMemset2D" },
	{ RT, PTB_CUDA_SET_2D_ASYNC, ANY, 0, "cudaMemset2DAsync" },
	{ RT, PTB_CUDA_SET_3D, ANY, 0, "cudaMemset3D" },
	{ RT, PTB_CUDA_SET_3D_ASYNC, ANY, 0, "cudaMemset3DAsync" },
	{ RT, PTB_CUDA_STREAM, ANY, 0, "cudaStreamSynchronize" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaDeviceSynchronize" },
	{ RT, PTB_CUDA_OTHER, ANY, 0, "cudaEventSynchronize" },
	{ RT, PTB_CUDA_STREAM, ANY, 0, "cudaStreamWaitEvent" },
	{ RT, PTB_CUDA_EVENT_RECORD, ANY, 0, "cudaEventRecord" },
	{ RT, PTB_CUDA_EVENT_RECORD, ANY, 0, "cudaEventRecordWithFlags" },
	{ DRV, PTB_CUDA_CU_LAUNCH, ANY, 0, "cuLaunchKernel" },
	{ DRV, PTB_CUDA_LAUNCH_CONFIG, ANY, 0, "cuLaunchKernelEx" },
	{ DRV, PTB_CUDA_CU_LAUNCH, ANY, 0, "cuLaunchCooperativeKernel" },
	{ DRV, PTB_CUDA_STREAM, ANY, 0, "cuLaunchHostFunc" },
	{ DRV, PTB_CUDA_GRAPH, ANY, 0, "cuGraphLaunch" },
	{ DRV, PTB_CUDA_CU_COPY, ANY, 0, "cuMemcpy" },
	{ DRV, PTB_CUDA_CU_COPY_ASYNC, ANY, 0, "cuMemcpyAsync" },
	{ DRV, PTB_CUDA_CU_COPY, H2D, 0, "cuMemcpyHtoD_v2" },
	{ DRV, PTB_CUDA_CU_COPY_ASYNC, H2D, 0, "cuMemcpyHtoDAsync_v2" },
	{ DRV, PTB_CUDA_CU_COPY, D2H, 0, "cuMemcpyDtoH_v2" },
	{ DRV, PTB_CUDA_CU_COPY_ASYNC, D2H, 0, "cuMemcpyDtoHAsync_v2" },
	{ DRV, PTB_CUDA_CU_COPY, D2D, 0, "cuMemcpyDtoD_v2" },
	{ DRV, PTB_CUDA_CU_COPY_ASYNC, D2D, 0, "cuMemcpyDtoDAsync_v2" },
	{ DRV, PTB_CUDA_COPY_PEER, ANY, 0, "cuMemcpyPeer" },
	{ DRV, PTB_CUDA_COPY_PEER_ASYNC, ANY, 0, "cuMemcpyPeerAsync" },
	{ DRV, PTB_CUDA_CU_COPY_2D, ANY, 0, "cuMemcpy2D_v2" },
	{ DRV, PTB_CUDA_CU_COPY_2D, ANY, 0, "cuMemcpy2DUnaligned_v2" },
	{ DRV, PTB_CUDA_CU_COPY_2D_ASYNC, ANY, 0, "cuMemcpy2DAsync_v2" },
	{ DRV, PTB_CUDA_CU_COPY_3D, ANY, 0, "cuMemcpy3D_v2" },
	{ DRV, PTB_CUDA_CU_COPY_3D_ASYNC, ANY, 0, "cuMemcpy3DAsync_v2" },
	{ DRV, PTB_CUDA_SET, ANY, 0, "cuMemsetD8_v2" },
	{ DRV, PTB_CUDA_SET, ANY, 1, "cuMemsetD16_v2" },
	{ DRV, PTB_CUDA_SET, ANY, 2, "cuMemsetD32_v2" },
	{ DRV, PTB_CUDA_SET_ASYNC, ANY, 0, "cuMemsetD8Async" },
	{ DRV, PTB_CUDA_SET_ASYNC, ANY, 1, "cuMemsetD16Async" },
	{ DRV, PTB_CUDA_SET_ASYNC, ANY, 2, "cuMemsetD32Async" },
	{ DRV, PTB_CUDA_SET_2D, ANY, 0, "cuMemsetD2D8_v2" },
	{ DRV, PTB_CUDA_SET_2D, ANY, 1, "cuMemsetD2D16_v2" },
	{ DRV, PTB_CUDA_SET_2D, ANY, 2, "cuMemsetD2D32_v2" },
	{ DRV, PTB_CUDA_SET_2D_ASYNC, ANY, 0, "cuMemsetD2D8Async" },
	{ DRV, PTB_CUDA_SET_2D_ASYNC, ANY, 1, "cuMemsetD2D16Async" },
	{ DRV, PTB_CUDA_SET_2D_ASYNC, ANY, 2, "cuMemsetD2D32Async" },
	{ DRV, PTB_CUDA_STREAM, ANY, 0, "cuStreamSynchronize" },
	{ DRV, PTB_CUDA_OTHER, ANY, 0, "cuCtxSynchronize" },
	{ DRV, PTB_CUDA_OTHER, ANY, 0, "cuEventSynchronize" },
	{ DRV, PTB_CUDA_STREAM, ANY, 0, "cuStreamWaitEvent" },
	{ DRV, PTB_CUDA_EVENT_RECORD, ANY, 0, "cuEventRecord" },
	{ DRV, PTB_CUDA_EVENT_RECORD, ANY, 0, "cuEventRecordWithFlags" },
};

#define ROW_CNT (sizeof(rows) / sizeof(rows[0]))

_Static_assert(ROW_CNT < 128, "the tag of a call has seven bits");

/* ---- which functions ---- */

/* Suffixes of variants with the same arguments: versions, and per-thread default streams. */
static bool is_variant(const char *rest)
{
	static const char *const ends[] = { "", "_v2", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds" };

	for (uint32_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(rest, ends[i]))
			return true;
	return false;
}

static bool is_work_call(enum torch_lib_role role, const char *symbol, uint32_t row)
{
	size_t len = strlen(rows[row].name);

	return rows[row].lib == role && !strncmp(symbol, rows[row].name, len) &&
	       is_variant(symbol + len);
}

/* ---- sites ---- */

/* The site of another function at this node, which runs the same code. */
static const struct plan_site *site_at(const struct plan_build *b, const struct flow_node *n)
{
	uint64_t off = elf_file__addr_to_off(b->lc->ef, n->in.addr);

	for (uint32_t i = b->plan->site_cnt; i-- && b->plan->sites[i].lib == b->role;)
		if (b->plan->sites[i].offset == off)
			return &b->plan->sites[i];
	return NULL;
}

/* An exit that is also another call's would end both calls. */
static bool can_share(const struct plan_build *b, const struct exit_sites *ex, uint32_t args)
{
	const struct plan_site *s;

	for (uint32_t i = 0; i < ex->cnt; i++) {
		s = site_at(b, &b->flow.nodes[ex->nodes[i]]);
		if (s && (s->prog != PTB_PROG_CUDA_EXIT || s->args != args))
			return false;
	}
	return true;
}

static int add_call_exits(struct cuda_ends *ce, uint32_t args)
{
	struct plan_build *b = ce->b;
	struct exit_sites ex = { .why = PTB_REFUSE_NO_EXIT };
	uint32_t func = plan_build__last(b), enter = b->plan->site_cnt - 1;
	bool result = false;
	int err = 0;

	if (b->role == RT)
		cuda_ends__find(ce, &ex, &result);
	args |= result ? PTB_CUDA_RESULT : 0;
	if (ex.why == PTB_REFUSE_NONE && !can_share(b, &ex, args))
		ex.why = PTB_REFUSE_NO_EXIT;
	b->plan->funcs[func].reason = (uint8_t)ex.why;
	if (ex.why != PTB_REFUSE_NONE)
		return 0;
	b->plan->sites[enter].args = args;
	for (uint32_t i = 0; i < ex.cnt && !err; i++)
		if (!site_at(b, &b->flow.nodes[ex.nodes[i]]))
			err = plan_build__site(b, func, &b->flow.nodes[ex.nodes[i]].in,
					       PTB_PROG_CUDA_EXIT, PTB_ROLE_EXIT, args);
	return err;
}

/* Does the function in b->flow end in another one of the list? Its calls are seen there then. */
static bool hands_over(const struct plan_build *b, const struct cuda_syms *cs, uint64_t self)
{
	const char *import;
	uint64_t target;

	/* functions of a stripped file may look like parts of each other */
	for (uint32_t i = 0; i < cs->cnt; i++)
		if (cs->items[i].addr != self && flow__at(&b->flow, cs->items[i].addr) != FLOW_NONE)
			return true;
	for (uint32_t i = 0; i < b->flow.cnt; i++) {
		if (!b->flow.nodes[i].leaves || b->flow.nodes[i].in.cls != INSN_JMP)
			continue;
		target = b->flow.nodes[i].in.target;
		import = elf_file__plt_name(b->lc->ef, target);
		if (cuda_syms__has(cs, import ? lib_code__function(b->lc, import) : target))
			return true;
	}
	return false;
}

/* The name in other tools, which see the function behind the exported one. */
static void public_name(const struct call_row *row, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", row->name + 2 * (row->name[0] == '_'));
	if (strstr(buf, "_v2"))
		*strstr(buf, "_v2") = '\0';
}

static int add_call(struct cuda_ends *ce, const struct cuda_syms *cs, const struct cuda_sym *sym)
{
	const struct call_row *row = &rows[sym->row];
	uint32_t args = PTB_CUDA_ARGS(row->shape, row->kind, row->unit) | PTB_API_TAG(sym->row);
	struct plan_build *b = ce->b;
	uint32_t entry;
	enum ptb_refusal why;
	char name[64];
	int err;

	plan_build__entry(b, sym->addr, ENTRY_ALL_ARGS, &entry, &why);

	if (why == PTB_REFUSE_NONE && row->name[0] == '_' && hands_over(b, cs, sym->addr))
		return 0;
	public_name(row, name, sizeof(name));
	plan_build__func(b, name, sym->addr, PTB_FUNC_CUDA_CALL, why);
	if (why != PTB_REFUSE_NONE)
		return 0;
	err = plan_build__site(b, plan_build__last(b), &b->flow.nodes[entry].in,
			       PTB_PROG_CUDA_ENTER, PTB_ROLE_ENTER, args);
	return err ? err : add_call_exits(ce, args);
}

int cuda_calls__add(struct plan_build *b)
{
	struct cuda_syms cs;
	struct cuda_ends ce;
	int err = 0;

	cuda_syms__find(&cs, b, is_work_call, ROW_CNT);
	cuda_ends__init(&ce, b);
	for (uint32_t i = 0; i < cs.cnt && !err; i++)
		err = add_call(&ce, &cs, &cs.items[i]);
	cuda_ends__free(&ce);
	free(cs.items);
	return err;
}
