/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Probes of CUDA's launches, copies and synchronisation: on a library in assembly with one difficulty per
 * function, on the mocks, on the CUDA runtimes that are installed (ends checked by brute force), and the
 * layouts of structures against CUDA's own headers where there are some.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "path_check.h"
#include "plan/plan_priv.h"
#include "planned_lib.h"
#include "suite.h"
#include "torch_env.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* ---- one difficulty per function ---- */

static uint64_t mark_at(const struct planned *p, const char *name, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s%s", name, what);
	return planned__mark(p, text);
}

static uint64_t addr_of(const struct planned *p, const struct plan_site *s)
{
	return s ? elf_file__off_to_addr(p->ef, s->offset) : 0;
}

/* The function at a symbol; its number. */
static const struct plan_func *func_at(const struct planned *p, const char *symbol, uint32_t *idx)
{
	uint64_t addr = mark_at(p, symbol, "");

	for (*idx = 0; addr && *idx < p->plan->func_cnt; ++*idx)
		if (p->plan->funcs[*idx].addr == addr && p->plan->funcs[*idx].kind == PTB_FUNC_CUDA_CALL)
			return &p->plan->funcs[*idx];
	return NULL;
}

static void expect(const struct planned *p, const char *name, uint8_t shape, bool result)
{
	uint64_t enter_at = mark_at(p, name, "_enter"), end_at = mark_at(p, name, "_exit");
	const struct plan_site *enter, *end;
	const struct plan_func *f;
	uint32_t idx;

	f = func_at(p, name, &idx);
	CU_ASSERT_FATAL(f != NULL);
	enter = planned__site(p, idx, PTB_ROLE_ENTER);
	end = planned__site(p, idx, PTB_ROLE_EXIT);
	CU_ASSERT_STRING_EQUAL(f->name, name);
	CU_ASSERT_EQUAL(f->reason, end_at ? PTB_REFUSE_NONE : PTB_REFUSE_NO_EXIT);
	CU_ASSERT_EQUAL(addr_of(p, enter), enter_at ? enter_at : f->addr);
	CU_ASSERT_EQUAL(addr_of(p, end), end_at);
	if (addr_of(p, end) != end_at)
		printf(" %s: exit %#lx instead of %#lx;", name, (unsigned long)addr_of(p, end),
		       (unsigned long)end_at);
	CU_ASSERT_FATAL(enter != NULL);
	CU_ASSERT_EQUAL(enter->prog, PTB_PROG_CUDA_ENTER);
	CU_ASSERT_EQUAL(PTB_CUDA_SHAPE(enter->args), shape);
	CU_ASSERT_EQUAL(!!(enter->args & PTB_CUDA_RESULT), result);
	CU_ASSERT(!(enter->args & PTB_API_NO_EXIT));
	CU_ASSERT(!end || (end->args == enter->args && end->prog == PTB_PROG_CUDA_EXIT));
}

TEST("one difficulty per function")
{
	const struct plan_func *f;
	struct planned p;
	uint32_t idx, other, ends, i;

	CU_ASSERT_FATAL(planned__open(&p, (char[]){ FAKE_CUDA_CALLS_LIB }, TORCH_LIB_CUDART));
	expect(&p, "cudaLaunchKernel", PTB_CUDA_LAUNCH, true);
	CU_ASSERT(func_at(&p, "__cudaLaunchKernel", &idx) == NULL);
	expect(&p, "cudaMemcpy", PTB_CUDA_COPY, false);
	expect(&p, "cudaMemcpyAsync", PTB_CUDA_COPY_ASYNC, false);
	expect(&p, "cudaMemcpyPeer", PTB_CUDA_COPY_PEER, false);
	expect(&p, "cudaMemcpyPeerAsync", PTB_CUDA_COPY_PEER_ASYNC, true);
	expect(&p, "cudaMemset", PTB_CUDA_SET, false);
	expect(&p, "cudaMemsetAsync", PTB_CUDA_SET_ASYNC, false);
	expect(&p, "cudaEventRecord", PTB_CUDA_EVENT_RECORD, false);
	expect(&p, "cudaGraphLaunch", PTB_CUDA_GRAPH, false);
	f = func_at(&p, "cudaDeviceSynchronize", &idx);
	CU_ASSERT(f && f->reason == PTB_REFUSE_NO_ENTRY && !planned__site(&p, idx, PTB_ROLE_ENTER));
	/* one code for two calls: one of them has its end */
	CU_ASSERT_FATAL(func_at(&p, "cudaStreamSynchronize", &idx) &&
			func_at(&p, "cudaEventSynchronize", &other));
	CU_ASSERT_EQUAL(!planned__site(&p, idx, PTB_ROLE_EXIT),
			!!planned__site(&p, other, PTB_ROLE_EXIT));
	CU_ASSERT_EQUAL(p.plan->funcs[idx].reason + p.plan->funcs[other].reason, PTB_REFUSE_NO_EXIT);
	/* two names of one call: both have it, by one site */
	CU_ASSERT_FATAL(func_at(&p, "cudaStreamWaitEvent", &idx) &&
			func_at(&p, "cudaStreamWaitEvent_ptsz", &other));
	CU_ASSERT(!p.plan->funcs[idx].reason && !p.plan->funcs[other].reason);
	CU_ASSERT_EQUAL(planned__site(&p, idx, PTB_ROLE_ENTER)->args,
			planned__site(&p, other, PTB_ROLE_ENTER)->args);
	for (i = 0, ends = 0; i < p.plan->site_cnt; i++)
		ends += addr_of(&p, &p.plan->sites[i]) == mark_at(&p, "cudaStreamWaitEvent", "_exit");
	CU_ASSERT_EQUAL(ends, 1);
	planned__close(&p);
}

/* Linked into another library, by names that it does not export: all of it is found, memory calls too. */
TEST("linked into another library")
{
	struct planned p, own;
	uint32_t memory = 0, calls = 0;

	CU_ASSERT_FATAL(planned__open(&p, (char[]){ FAKE_LINKED_LIB }, TORCH_LIB_CUDART));
	CU_ASSERT_FATAL(planned__open(&own, (char[]){ FAKE_CUDA_CALLS_LIB }, TORCH_LIB_CUDART));
	expect(&p, "cudaLaunchKernel", PTB_CUDA_LAUNCH, true);
	expect(&p, "cudaMemcpyPeerAsync", PTB_CUDA_COPY_PEER_ASYNC, true);
	for (uint32_t i = 0; i < p.plan->func_cnt; i++) {
		memory += plan_func__is_memory(&p.plan->funcs[i]);
		calls += plan_func__is_cuda_call(&p.plan->funcs[i]);
	}
	CU_ASSERT_EQUAL(calls, own.plan->func_cnt);
	CU_ASSERT(memory >= 10);
	planned__close(&own);
	planned__close(&p);
}

/* ---- ends by brute force ---- */

/* The driver is not called after an end, and every path from its last call crosses exactly one end. */
static uint32_t check_ends(const struct planned *p)
{
	uint32_t nodes[EXIT_SITES_MAX], cnt, checked = 0;
	struct torch_plan scratch = { 0 };
	struct path_faults bad;
	struct plan_build b;
	struct cuda_ends ce;
	struct lib_code lc;
	uint8_t *work;
	bool any;

	lib_code__init(&lc, p->ef, &torch_names);
	plan_build__init(&b, &scratch);
	b.lc = &lc;
	b.role = p->role;
	cuda_ends__init(&ce, &b);
	for (uint32_t i = 0; i < p->plan->func_cnt; i++) {
		cnt = plan_func__is_cuda_call(&p->plan->funcs[i]) ?
			      planned__build_around(&b, p, i, nodes) :
			      0;
		if (!cnt)
			continue;
		cuda_ends__mark(&ce);
		work = malloc(b.flow.cnt);
		CU_ASSERT_FATAL(work != NULL);
		memcpy(work, b.finder.work, b.flow.cnt);
		bad = path_check_after(&b.flow, work, nodes, cnt, &any);
		CU_ASSERT(any && !bad.avoided && !bad.work_after && !bad.twice);
		free(work);
		checked++;
	}
	cuda_ends__free(&ce);
	plan_build__free(&b);
	lib_code__free(&lc);
	return checked;
}

static const char *const launches[] = { "cudaLaunchKernel",      "cudaLaunchKernelExC",
					"cudaStreamSynchronize", "cudaDeviceSynchronize",
					"cudaGraphLaunch",       "cudaEventRecord" };

static uint32_t check_runtime(const char *name, char *path, uint32_t refused_max, bool results)
{
	struct planned p;
	uint32_t cnt = 0, ends = 0, sites = 0, idx;

	CU_ASSERT_FATAL(planned__open(&p, path, TORCH_LIB_CUDART));
	for (uint32_t i = 0; i < p.plan->func_cnt; i++) {
		const struct plan_func *f = &p.plan->funcs[i];

		if (!plan_func__is_cuda_call(f))
			continue;
		cnt++;
		ends += f->reason == PTB_REFUSE_NONE;
		CU_ASSERT(f->reason == PTB_REFUSE_NONE || f->reason == PTB_REFUSE_NO_EXIT);
		CU_ASSERT(!strncmp(f->name, "cuda", 4) && !strstr(f->name, "_pts") &&
			  !strstr(f->name, "_ptd"));
	}
	for (uint32_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		CU_ASSERT_FATAL(func_at(&p, launches[i], &idx) != NULL);
		CU_ASSERT_EQUAL(p.plan->funcs[idx].reason, PTB_REFUSE_NONE);
		CU_ASSERT_EQUAL(!!(planned__site(&p, idx, PTB_ROLE_ENTER)->args & PTB_CUDA_RESULT),
				results);
	}
	for (uint32_t i = 0; i < p.plan->site_cnt; i++) /* no end is taken for another call's */
		for (uint32_t k = 0; k < i && p.plan->sites[i].prog == PTB_PROG_CUDA_EXIT; k++)
			CU_ASSERT(p.plan->sites[k].prog != PTB_PROG_CUDA_EXIT ||
				  (p.plan->sites[i].args == p.plan->sites[k].args) ==
					  !strcmp(p.plan->funcs[p.plan->sites[i].func].name,
						  p.plan->funcs[p.plan->sites[k].func].name));
	sites = check_ends(&p);
	printf("\n    %s: %u functions, the end of %u", name, cnt, ends);
	CU_ASSERT(ends + refused_max >= cnt);
	CU_ASSERT_EQUAL(sites, ends);
	planned__close(&p);
	return cnt;
}

TEST("mocks")
{
	struct planned p;
	uint32_t cnt = 0;

	CU_ASSERT(check_runtime("mock", (char[]){ MOCK_CUDART_LIB }, 0, false) >= 10);
	CU_ASSERT_FATAL(planned__open(&p, (char[]){ MOCK_CUDA_LIB }, TORCH_LIB_CUDA));
	for (uint32_t i = 0; i < p.plan->func_cnt; i++) {
		const struct plan_func *f = &p.plan->funcs[i];

		if (!plan_func__is_cuda_call(f))
			continue;
		cnt++;
		CU_ASSERT_EQUAL(f->reason, PTB_REFUSE_NO_EXIT); /* entries only */
		CU_ASSERT(planned__site(&p, i, PTB_ROLE_ENTER) && !planned__site(&p, i, PTB_ROLE_EXIT));
		CU_ASSERT(!strncmp(f->name, "cu", 2) && f->name[2] != 'd' && !strstr(f->name, "_v2"));
	}
	CU_ASSERT(cnt >= 10);
	planned__close(&p);
	printf("\n    ");
}

TEST("installed libraries")
{
	char pattern[700];
	uint32_t cnt = 0;
	glob_t g;

	for (size_t i = 0; i < env_cnt; i++) {
		snprintf(pattern, sizeof(pattern), "%s/../../nvidia/*/lib/libcudart.so.*", envs[i].libs);
		if (glob(pattern, 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++, cnt++)
			CU_ASSERT(check_runtime(strrchr(g.gl_pathv[k], '/') + 1, g.gl_pathv[k], 4,
						true) >= 60);
		globfree(&g);
	}
	if (!cnt)
		printf("SKIP: no libcudart; ");
	printf("\n    ");
}

/* ---- structures ---- */

static const char layouts[] =
	"#include <cuda_runtime_api.h>\n#include <cuda.h>\n#include <stddef.h>\n"
	"_Static_assert(offsetof(cudaLaunchConfig_t, gridDim) == 0 && offsetof(cudaLaunchConfig_t, blockDim) == 12 &&\n"
	"offsetof(cudaLaunchConfig_t, dynamicSmemBytes) == 24 && offsetof(cudaLaunchConfig_t, stream) == 32, \"\");\n"
	"_Static_assert(offsetof(CUlaunchConfig, gridDimX) == 0 && offsetof(CUlaunchConfig, blockDimX) == 12 &&\n"
	"offsetof(CUlaunchConfig, sharedMemBytes) == 24 && offsetof(CUlaunchConfig, hStream) == 32, \"\");\n"
	"_Static_assert(offsetof(struct cudaMemcpy3DParms, srcArray) == 0 &&\n"
	"offsetof(struct cudaMemcpy3DParms, dstArray) == 64 && offsetof(struct cudaMemcpy3DParms, extent) == 128 &&\n"
	"offsetof(struct cudaMemcpy3DParms, kind) == 152 && sizeof(struct cudaPitchedPtr) == 32, \"\");\n"
	"_Static_assert(offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112 && offsetof(CUDA_MEMCPY2D, Height) == 120 &&\n"
	"offsetof(CUDA_MEMCPY3D, WidthInBytes) == 176 && offsetof(CUDA_MEMCPY3D, Depth) == 192, \"\");\n";

/* What bpf/cuda.bpf.c reads of structures, as CUDA declares them. */
TEST("structures")
{
	static const char dir[] = "/usr/local/cuda/include";
	char cmd[300];
	FILE *f;

	snprintf(cmd, sizeof(cmd), "%s/cuda_runtime_api.h", dir);
	if (access(cmd, R_OK)) {
		printf("SKIP: no CUDA headers in %s; ", dir);
		return;
	}
	snprintf(cmd, sizeof(cmd), "cc -xc -fsyntax-only -w -I%s - 2>&1", dir);
	f = popen(cmd, "w");
	CU_ASSERT_FATAL(f != NULL);
	fputs(layouts, f);
	CU_ASSERT_EQUAL(pclose(f), 0);
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	log__set_quiet(true);
	return run_suite("cuda_calls");
}
