/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Probes of allocators: on libraries in assembly with one difficulty per function, on the PyTorch builds and
 * CUDA runtimes that are installed (ends checked by brute force), and on damaged copies of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "code/code.h"
#include "path_check.h"
#include "planned_lib.h"
#include "suite.h"
#include "torch_env.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* ---- marks in the synthetic libraries ---- */

/* File offset of a mark, 0: there is none. */
static uint64_t mark_at(const struct planned *p, const char *name, const char *what)
{
	char text[128];
	uint64_t addr;

	snprintf(text, sizeof(text), "%s_%s", name, what);
	addr = planned__mark(p, text);
	return addr ? elf_file__addr_to_off(p->ef, addr) : 0;
}

static const struct plan_func *func_named(const struct planned *p, const char *name, uint32_t *idx)
{
	for (*idx = 0; *idx < p->plan->func_cnt; ++*idx)
		if (!strcmp(p->plan->funcs[*idx].name, name))
			return &p->plan->funcs[*idx];
	return NULL;
}

/* ---- reports ---- */

static void expect_report(const struct planned *p, const char *name, const char *mark, uint8_t prog,
			  enum ptb_refusal why)
{
	const struct plan_site *s;
	const struct plan_func *f;
	uint32_t idx;

	f = func_named(p, name, &idx);
	CU_ASSERT_FATAL(f != NULL);
	CU_ASSERT_EQUAL(f->reason, why);
	CU_ASSERT_EQUAL(f->kind, PTB_FUNC_ALLOCATOR);
	s = planned__site(p, idx, PTB_ROLE_POINT);
	CU_ASSERT_EQUAL(s != NULL, why == PTB_REFUSE_NONE);
	if (!s)
		return;
	CU_ASSERT_EQUAL(s->prog, prog);
	CU_ASSERT_EQUAL(s->offset, mark_at(p, mark, "site"));
}

TEST("reports of allocators")
{
	struct planned p;

	CU_ASSERT_FATAL(planned__open(&p, (char[]){ FAKE_ALLOC_LIB }, TORCH_LIB_C10));
	expect_report(&p, "ProfiledCPUMemoryReporter::New", "MEM_NEW", PTB_PROG_MEM_NEW, PTB_REFUSE_NONE);
	expect_report(&p, "ProfiledCPUMemoryReporter::OutOfMemory", "MEM_CPU_OOM",
		      PTB_PROG_MEM_CPU_OOM, PTB_REFUSE_NONE);
	expect_report(&p, "ProfiledCPUMemoryReporter::Delete", "", 0, PTB_REFUSE_NO_ENTRY);
	expect_report(&p, "reportMemoryUsageToProfiler", "", 0, PTB_REFUSE_SIGNATURE);
	expect_report(&p, "reportOutOfMemoryToProfiler", "", 0, PTB_REFUSE_NO_SYMBOL);
	CU_ASSERT_EQUAL(p.plan->site_cnt, 2);
	planned__close(&p);
}

/* ---- CUDA memory calls ---- */

static void expect_call(const struct planned *p, const char *name, uint8_t out, uint8_t addr, uint8_t size)
{
	const struct plan_site *enter, *end;
	const struct plan_func *f;
	uint64_t end_at = mark_at(p, name, "exit"), enter_at = mark_at(p, name, "enter");
	uint32_t idx;

	f = func_named(p, name, &idx);
	CU_ASSERT_FATAL(f != NULL);
	CU_ASSERT_EQUAL(f->kind, PTB_FUNC_CUDA_MEMORY);
	CU_ASSERT_EQUAL(f->reason, !enter_at ? PTB_REFUSE_NO_ENTRY :
				   !end_at   ? PTB_REFUSE_NO_EXIT :
					       PTB_REFUSE_NONE);
	enter = planned__site(p, idx, PTB_ROLE_ENTER);
	end = planned__site(p, idx, PTB_ROLE_EXIT);
	CU_ASSERT_EQUAL(enter ? enter->offset : 0, enter_at);
	CU_ASSERT_EQUAL(end ? end->offset : 0, end_at);
	if (f->reason != (enter_at && end_at ? PTB_REFUSE_NONE : f->reason) ||
	    (enter ? enter->offset : 0) != enter_at || (end ? end->offset : 0) != end_at)
		printf(" %s: reason %u, enter %llx instead of %llx, exit %llx instead of %llx;",
		       name, f->reason, enter ? (unsigned long long)enter->offset : 0,
		       (unsigned long long)enter_at, end ? (unsigned long long)end->offset : 0,
		       (unsigned long long)end_at);
	if (!enter)
		return;
	CU_ASSERT_EQUAL(enter->prog, PTB_PROG_API_ENTER);
	CU_ASSERT_EQUAL(PTB_API_OUT(enter->args), out);
	CU_ASSERT_EQUAL(PTB_API_ADDR(enter->args), addr);
	CU_ASSERT_EQUAL(PTB_API_SIZE(enter->args), size);
	CU_ASSERT(!end || (end->args == enter->args && end->prog == PTB_PROG_API_EXIT));
}

#define NO PTB_API_NONE

TEST("CUDA memory calls")
{
	struct planned p;
	uint32_t functions = 0;

	CU_ASSERT_FATAL(planned__open(&p, (char[]){ FAKE_CUDART_LIB }, TORCH_LIB_CUDART));
	expect_call(&p, "cudaMalloc", 0, NO, 1);
	expect_call(&p, "cudaFree", NO, 0, NO);
	expect_call(&p, "cudaMallocHost", 0, NO, 1);
	expect_call(&p, "cudaHostAlloc", 0, NO, 1);
	expect_call(&p, "cudaFreeHost", NO, 0, NO);
	expect_call(&p, "cudaHostRegister", NO, 0, 1);
	expect_call(&p, "cudaHostUnregister", NO, 0, NO);
	expect_call(&p, "cudaMallocManaged", 0, NO, 1);
	expect_call(&p, "cudaMallocAsync", 0, NO, 1);
	expect_call(&p, "cudaMallocFromPoolAsync", 0, NO, 1);
	expect_call(&p, "cudaFreeAsync", NO, 0, NO);
	for (uint32_t i = 0; i < p.plan->func_cnt; i++)
		functions += !strncmp(p.plan->funcs[i].name, "cudaMallocAsync", 15);
	CU_ASSERT_EQUAL(functions, 1); /* two names, one address */
	/* different calls have different tags, so no end is taken for another call's */
	for (uint32_t i = 0; i < p.plan->site_cnt; i++)
		for (uint32_t k = 0; k < i; k++)
			CU_ASSERT_EQUAL(p.plan->sites[i].args == p.plan->sites[k].args,
					!strcmp(p.plan->funcs[p.plan->sites[i].func].name,
						p.plan->funcs[p.plan->sites[k].func].name));
	planned__close(&p);
}

/* ---- ends by brute force ---- */

static uint32_t check_all_ends(const struct planned *p)
{
	struct torch_plan scratch = { 0 };
	struct arg_flow af = { 0 };
	struct plan_build b;
	struct lib_code lc;
	uint32_t nodes[EXIT_SITES_MAX], cnt, checked = 0;
	struct path_faults bad;
	uint8_t *work;
	bool any;

	lib_code__init(&lc, p->ef, &torch_names);
	plan_build__init(&b, &scratch);
	b.lc = &lc;
	b.role = p->role;
	for (uint32_t i = 0; i < p->plan->func_cnt; i++) {
		cnt = plan_func__is_memory(&p->plan->funcs[i]) ?
			      planned__build_around(&b, p, i, nodes) :
			      0;
		if (!cnt)
			continue;
		arg_flow__follow(&af, &b.flow);
		work = calloc(b.flow.cnt + 1, 1);
		CU_ASSERT_FATAL(work != NULL);
		for (uint32_t k = 0; k < b.flow.cnt;
		     k++) /* all of them take the result's address, or the block, first */
			work[k] = arg_flow__uses(&af, &b.flow, k, 1);
		bad = path_check_after(&b.flow, work, nodes, cnt, &any);
		CU_ASSERT(any && !bad.avoided && !bad.work_after && !bad.twice);
		free(work);
		checked++;
	}
	arg_flow__free(&af);
	plan_build__free(&b);
	lib_code__free(&lc);
	return checked;
}

/* ---- installed libraries ---- */

static void check_libc10(const char *name, char *path)
{
	struct planned p;
	uint32_t tensors = 0;

	CU_ASSERT_FATAL(planned__open(&p, path, TORCH_LIB_C10));
	printf("\n    %s:", name);
	CU_ASSERT_EQUAL(p.plan->func_cnt, 7);
	CU_ASSERT_EQUAL(p.plan->site_cnt, 7);
	for (uint32_t i = 0; i < p.plan->site_cnt; i++) {
		const struct plan_func *f = &p.plan->funcs[p.plan->sites[i].func];
		uint64_t addr = elf_file__off_to_addr(p.ef, p.plan->sites[i].offset);

		CU_ASSERT_EQUAL(f->reason, PTB_REFUSE_NONE);
		CU_ASSERT(f->kind == PTB_FUNC_ALLOCATOR || f->kind == PTB_FUNC_TENSOR);
		tensors += f->kind == PTB_FUNC_TENSOR;
		CU_ASSERT(addr >= f->addr && addr < f->addr + 64);
		printf(" %s+%u", strrchr(f->name, ':') ? strrchr(f->name, ':') + 1 : f->name,
		       (uint32_t)(addr - f->addr));
	}
	CU_ASSERT_EQUAL(tensors, 2);
	planned__close(&p);
}

static void check_cudart(const char *name, char *path)
{
	struct planned p;
	uint32_t ends = 0, functions = 0, checked;

	CU_ASSERT_FATAL(planned__open(&p, path, TORCH_LIB_CUDART));
	for (uint32_t i = 0; i < p.plan->func_cnt; i++) {
		if (!plan_func__is_memory(&p.plan->funcs[i]))
			continue;
		functions++;
		CU_ASSERT(p.plan->funcs[i].reason == PTB_REFUSE_NONE ||
			  p.plan->funcs[i].reason == PTB_REFUSE_NO_EXIT);
		ends += p.plan->funcs[i].reason == PTB_REFUSE_NONE;
	}
	checked = check_all_ends(&p);
	printf("\n    %s: %u functions, the end of %u", name, functions, ends);
	CU_ASSERT(functions >= 11); /* all rows; the newer ones twice */
	CU_ASSERT(ends + 2 >= functions);
	CU_ASSERT_EQUAL(checked, ends);
	planned__close(&p);
}

static uint32_t for_each(const char *pattern, void (*fn)(const char *name, char *path))
{
	uint32_t cnt = 0;
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++, cnt++)
		fn(strrchr(g.gl_pathv[i], '/') + 1, g.gl_pathv[i]);
	globfree(&g);
	return cnt;
}

/* The wheels' libraries, and a distribution's where there is one. */
TEST("installed libraries")
{
	char pattern[700];
	uint32_t c10 = 0, cudart = 0;

	for (size_t i = 0; i < env_cnt; i++) {
		snprintf(pattern, sizeof(pattern), "%s/libc10.so", envs[i].libs);
		check_libc10(envs[i].name, pattern);
		c10++;
		snprintf(pattern, sizeof(pattern), "%s/../../nvidia/*/lib/libcudart.so.*", envs[i].libs);
		cudart += for_each(pattern, check_cudart);
	}
	c10 += for_each("/usr/lib/*/libc10.so.*.*.*", check_libc10);
	if (!c10)
		printf("SKIP: no libc10; ");
	if (!cudart)
		printf("SKIP: no libcudart; ");
	printf("\n    ");
}

/* ---- damage ---- */

static bool read_all(const char *path, uint8_t **data, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st))
		return false;
	*len = (size_t)st.st_size;
	map = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	*data = map == MAP_FAILED ? NULL : map;
	return *data != NULL;
}

/* Any answer will do but a crash of the child process that plans (-EIO), or an endless search. */
static void damage_one(const char *source, enum torch_lib_role role, uint32_t rounds)
{
	struct torch_proc tp = { .pid = getpid() };
	struct torch_plan *plan;
	char path[64];
	uint8_t *good = NULL, *bad;
	size_t len = 0, lo, hi;
	int fd;

	CU_ASSERT_FATAL(read_all(source, &good, &len));
	for (uint32_t round = 0; round < rounds; round++) {
		fd = memfd_create("damaged", MFD_CLOEXEC);
		CU_ASSERT_FATAL(fd >= 0 && !ftruncate(fd, (off_t)len));
		bad = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CU_ASSERT_FATAL(bad != MAP_FAILED);
		memcpy(bad, good, len);
		lo = round % 3 == 2 ? len / 2 : 0;
		hi = round % 3 == 1 ? (len < 4096 ? len : 4096) : len;
		for (uint32_t i = 0; i < 1u << round % 14; i++)
			bad[lo + ((size_t)rand() << 15 ^ (size_t)rand()) % (hi - lo)] = (uint8_t)rand();
		munmap(bad, len);
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
		tp.libs[role].present = true;
		tp.libs[role].path = tp.libs[role].access_path = path;
		CU_ASSERT_NOT_EQUAL(torch_plan__new(tp.libs, NULL, false, &plan), -EIO);
		torch_plan__free(plan);
		close(fd);
	}
	munmap(good, len);
}

static void damage_cudart(const char *name, char *path)
{
	(void)name;
	damage_one(path, TORCH_LIB_CUDART, 28);
}

TEST("damaged libraries")
{
	char pattern[700];

	srand(5);
	log__set_quiet(true);
	damage_one(FAKE_CUDART_LIB, TORCH_LIB_CUDART, 60);
	damage_one(FAKE_ALLOC_LIB, TORCH_LIB_C10, 60);
	for (size_t i = 0; i < env_cnt; i++) {
		snprintf(pattern, sizeof(pattern), "%s/../../nvidia/*/lib/libcudart.so.*", envs[i].libs);
		for_each(pattern, damage_cudart);
	}
}

/* An optional library that cannot be analysed takes nothing else with it. */
TEST("a library that cannot be read")
{
	struct torch_proc tp = { .pid = getpid() };
	struct torch_plan *plan = NULL;

	tp.libs[TORCH_LIB_C10].present = tp.libs[TORCH_LIB_CUDA].present = true;
	tp.libs[TORCH_LIB_C10].path = tp.libs[TORCH_LIB_C10].access_path = (char[]){ FAKE_ALLOC_LIB };
	tp.libs[TORCH_LIB_CUDA].path = tp.libs[TORCH_LIB_CUDA].access_path = (char[]){ "/dev/null" };
	CU_ASSERT_EQUAL_FATAL(torch_plan__new(tp.libs, NULL, false, &plan), 0);
	CU_ASSERT_EQUAL(plan->site_cnt, 2);
	torch_plan__free(plan);
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	log__set_quiet(true);
	return run_suite("memory_sites");
}
