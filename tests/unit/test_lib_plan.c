/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whole plans of the PyTorch wheels that are installed: every operator named twice and alike, every
 * function with exits checked by brute force over its graph, every fact about structures found.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "damaged_lib.h"
#include "path_check.h"
#include "plan/plan.h"
#include "plan/plan_priv.h"
#include "suite.h"
#include "torch_env.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* What the analysis of these wheels is known to give (operators, with one exit site, with two). */
static const struct known {
	const char *name;
	uint32_t ops, one, two;
	uint16_t seq_off, thread_off, pynode_off;
	uint8_t handle_reg;
	bool old_abi;
} known[] = {
	{ "torch-1.13.1", 2952, 2952, 0, 24, 48, 392, 1, true },
	{ "torch-2.1.2", 3039, 3039, 0, 24, 48, 472, 1, true },
	{ "torch-2.5.1", 3130, 3130, 0, 24, 48, 472, 1, true },
	{ "torch-2.7.1", 3148, 3148, 0, 24, 48, 472, 0, false },
	{ "torch-2.15.0", 3110, 3105, 5, 16, 40, 112, 0, false },
};

static const struct known *find_known(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name))
			return &known[i];
	return NULL;
}

/* A process that has the wheel's libraries mapped, as far as planning is concerned. */
static bool fake_proc(const struct torch_env *env, struct torch_proc *tp)
{
	static const char *const names[] = { "libc10.so", "libtorch_cpu.so", "libtorch_python.so" };
	struct elf_file *ef;

	memset(tp, 0, sizeof(*tp));
	for (uint32_t role = 0; role < sizeof(names) / sizeof(names[0]); role++) {
		struct torch_lib *lib = &tp->libs[role];

		if (asprintf(&lib->path, "%s/%s", env->libs, names[role]) < 0)
			return false;
		lib->access_path = strdup(lib->path);
		if (elf_file__open(lib->path, &ef))
			return false;
		lib->present = true;
		lib->build_id_sz = elf_file__build_id(ef, lib->build_id, BUILD_ID_MAX);
		elf_file__close(ef);
	}
	return true;
}

static void free_proc(struct torch_proc *tp)
{
	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++) {
		free(tp->libs[role].path);
		free(tp->libs[role].access_path);
	}
}

/* ---- one plan ---- */

static bool is_aten(const struct plan_func *f)
{
	return f->kind == PTB_FUNC_OP && !strncmp(f->name, "aten::", 6) && f->handle;
}

static void check_table(const struct torch_plan *p)
{
	for (uint32_t i = 0; i < p->site_cnt; i++) {
		const struct plan_site *s = &p->sites[i];

		CU_ASSERT_FATAL(s->func < p->func_cnt && s->prog < PTB_PROG_CNT);
		if (i && !(p->sites[i - 1].lib < s->lib ||
			   (p->sites[i - 1].lib == s->lib && p->sites[i - 1].offset < s->offset)))
			CU_FAIL("sites are not sorted and unique");
		/* a function that was refused has no site, but for one whose end was */
		if (p->funcs[s->func].reason != PTB_REFUSE_NONE)
			CU_ASSERT(p->funcs[s->func].reason == PTB_REFUSE_NO_EXIT &&
				  s->role != PTB_ROLE_EXIT);
	}
	for (uint32_t i = 0; i < p->func_cnt; i++)
		CU_ASSERT(p->funcs[i].name[0] != 0);
}

static void count_ops(const struct torch_plan *p, const struct known *k, const char *name)
{
	uint32_t *exits = calloc(p->func_cnt, sizeof(*exits)),
		 *enters = calloc(p->func_cnt, sizeof(*enters));
	uint32_t ops = 0, by_exits[5] = { 0 };

	CU_ASSERT_FATAL(exits != NULL && enters != NULL);
	for (uint32_t i = 0; i < p->site_cnt; i++) {
		exits[p->sites[i].func] += p->sites[i].role == PTB_ROLE_EXIT;
		enters[p->sites[i].func] += p->sites[i].role == PTB_ROLE_ENTER;
	}
	for (uint32_t i = 0; i < p->func_cnt; i++) {
		if (is_aten(&p->funcs[i])) {
			ops++;
			by_exits[exits[i] < 4 ? exits[i] : 4]++;
			CU_ASSERT_EQUAL(enters[i], 1);
		}
		if (p->funcs[i].kind == PTB_FUNC_BOXED && p->funcs[i].addr)
			CU_ASSERT(exits[i] == 2 && enters[i] == 1); /* fast and observed path */
		if (p->funcs[i].kind == PTB_FUNC_NODE)
			CU_ASSERT(exits[i] == 1 && enters[i] == 1);
	}
	printf("\n    %s: %u operators, %u with one exit site, %u with two, %u with more, %u with none; names: %u from code, %u from a text only, %u disagree; ",
	       name, ops, by_exits[1], by_exits[2], by_exits[3] + by_exits[4], by_exits[0],
	       p->names_a, p->names_b_only, p->names_disagree);
	CU_ASSERT(ops > 2000);
	CU_ASSERT_EQUAL(p->names_disagree, 0);
	CU_ASSERT_EQUAL(p->names_a, ops);
	CU_ASSERT(by_exits[0] * 1000 <= ops); /* one in a thousand may be refused */
	CU_ASSERT_EQUAL(by_exits[3] + by_exits[4], 0);
	if (k) {
		CU_ASSERT_EQUAL(ops, k->ops);
		CU_ASSERT_EQUAL(by_exits[1], k->one);
		CU_ASSERT_EQUAL(by_exits[2], k->two);
	}
	free(exits);
	free(enters);
}

static void check_layout(const struct torch_plan *p, const struct known *k)
{
	const struct plan_layout *l = &p->layout;
	uint32_t nodes = 0;

	CU_ASSERT(l->string_ivalue_off == 16 || l->string_ivalue_off == 24);
	CU_ASSERT(l->singletons[TORCH_LIB_CPU] && l->singletons[TORCH_LIB_PYTHON]);
	CU_ASSERT(l->pynode_vptr != 0 && l->seq_tls_got != 0);
	for (uint32_t i = 0; i < p->class_cnt; i++)
		nodes += !strncmp(p->classes[i].name, "torch::autograd::generated::", 28);
	CU_ASSERT(nodes > 500);
	if (!k)
		return;
	CU_ASSERT_EQUAL(l->node_seq_off, k->seq_off);
	CU_ASSERT_EQUAL(l->node_thread_off, k->thread_off);
	CU_ASSERT_EQUAL(l->pynode_obj_off, k->pynode_off);
	CU_ASSERT_EQUAL(l->boxed_handle_reg, k->handle_reg);
	CU_ASSERT_EQUAL(l->old_string_abi, k->old_abi);
}

/* ---- exits by brute force ---- */

static uint32_t sites_of(const struct torch_plan *p, const struct plan_build *b, uint32_t func,
			 uint32_t *nodes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (p->sites[i].func == func && p->sites[i].role == PTB_ROLE_EXIT && n < 8)
			nodes[n++] = flow__at(&b->flow,
					      elf_file__off_to_addr(b->lc->ef, p->sites[i].offset));
	return n;
}

static void check_function(struct plan_build *b, const struct torch_plan *p, uint32_t func,
			   struct path_faults *sum)
{
	enum ptb_refusal why;
	uint32_t nodes[8], n;
	struct path_faults bad;

	flow__build(&b->flow, &b->lc->src, p->funcs[func].addr, &why);
	CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
	exit_finder__prepare(&b->finder, &b->flow);
	if (p->funcs[func].kind != PTB_FUNC_NODE && p->funcs[func].kind != PTB_FUNC_PYFUNC)
		plan_build__mark_kernel_calls(b);
	n = sites_of(p, b, func, nodes);
	for (uint32_t i = 0; i < n; i++)
		CU_ASSERT_NOT_EQUAL_FATAL(nodes[i], FLOW_NONE);
	bad = path_check(&b->flow, b->finder.work, nodes, n);
	sum->avoided += bad.avoided;
	sum->work_after += bad.work_after;
	sum->twice += bad.twice;
}

static void check_paths(const struct torch_proc *tp, const struct torch_plan *p, enum torch_lib_role role)
{
	struct path_faults sum = { 0 };
	struct torch_plan scratch = { 0 };
	struct plan_build b;
	struct elf_file *ef;
	struct lib_code lc;
	uint32_t checked = 0;

	CU_ASSERT_EQUAL_FATAL(elf_file__open(tp->libs[role].path, &ef), 0);
	lib_code__init(&lc, ef, &torch_names);
	plan_build__init(&b, &scratch);
	b.lc = &lc;
	b.role = role;
	for (uint32_t i = 0; i < p->func_cnt; i++) {
		if (p->funcs[i].lib != role || p->funcs[i].reason != PTB_REFUSE_NONE ||
		    (p->funcs[i].kind != PTB_FUNC_OP && p->funcs[i].kind != PTB_FUNC_BOXED &&
		     p->funcs[i].kind != PTB_FUNC_NODE && p->funcs[i].kind != PTB_FUNC_NODE_CALL &&
		     p->funcs[i].kind != PTB_FUNC_PYFUNC))
			continue;
		check_function(&b, p, i, &sum);
		checked++;
	}
	printf("%u functions checked: %u paths avoid the sites, %u work after, %u twice; ", checked,
	       sum.avoided, sum.work_after, sum.twice);
	CU_ASSERT(checked > 0);
	CU_ASSERT(!sum.avoided && !sum.work_after && !sum.twice);
	plan_build__free(&b);
	lib_code__free(&lc);
	elf_file__close(ef);
}

static void check_env(const struct torch_env *env)
{
	const struct known *k = find_known(env->name);
	struct torch_plan *p = NULL;
	struct torch_proc tp;
	uint64_t begin;
	FILE *out;

	CU_ASSERT_FATAL(fake_proc(env, &tp));
	begin = clock__mono_ns();
	CU_ASSERT_EQUAL_FATAL(torch_plan__new(tp.libs, NULL, false, &p), 0);
	begin = clock__mono_ns() - begin;
	check_table(p);
	count_ops(p, k, env->name);
	check_layout(p, k);
	check_paths(&tp, p, TORCH_LIB_CPU);
	check_paths(&tp, p, TORCH_LIB_PYTHON);
	printf("planned in %llu ms\n    ", (unsigned long long)(begin / 1000000));
	out = fopen("/dev/null", "w");
	CU_ASSERT_FATAL(out != NULL);
	torch_plan__print(p, tp.libs, out);
	fclose(out);
	torch_plan__free(p);
	free_proc(&tp);
}

TEST("wheels")
{
	for (size_t i = 0; i < env_cnt; i++)
		check_env(&envs[i]);
}

/* A library that is no torch must be refused, not planned. */
TEST("a library that is no torch")
{
	struct torch_proc tp = { .pid = getpid() };
	struct torch_plan *p = NULL;

	tp.libs[TORCH_LIB_CPU].present = true;
	tp.libs[TORCH_LIB_CPU].path = tp.libs[TORCH_LIB_CPU].access_path = (char[]){ "/proc/self/exe" };
	CU_ASSERT(torch_plan__new(tp.libs, NULL, false, &p) < 0);
	CU_ASSERT(p == NULL);
}

/* ---- a damaged library ---- */

/* Bytes anywhere, in the headers, in the unwind tables and symbols at the end, or in the code. */
static void damage(uint8_t *map, size_t len, uint32_t round)
{
	static const uint32_t amounts[] = { 1, 30, 1000, 50000 };
	size_t lo = 0, hi = len;

	if (round % 4 == 1)
		hi = 4096;
	else if (round % 4 == 2)
		lo = len - len / 8;
	else if (round % 4 == 3)
		hi = len / 2;
	for (size_t i = 0; i < amounts[(round / 4) % 4]; i++)
		map[lo + ((size_t)rand() << 15 ^ (size_t)rand()) % (hi - lo)] = (uint8_t)rand();
}

/* Any answer will do but a crash, which the child process turns into -EIO. */
TEST("damaged libraries")
{
	struct torch_proc tp = { .pid = getpid() };
	char source[600];
	struct damaged_lib d;
	struct torch_plan *p;

	snprintf(source, sizeof(source), "%s/libtorch_python.so", envs[0].libs);
	srand(11);
	for (uint32_t round = 0; round < 16; round++) {
		damaged_lib__open(&d, source);
		damage(d.map, d.len, round);
		tp.libs[TORCH_LIB_CPU].present = true;
		tp.libs[TORCH_LIB_CPU].path = tp.libs[TORCH_LIB_CPU].access_path = d.path;
		CU_ASSERT_NOT_EQUAL(torch_plan__new(tp.libs, NULL, false, &p), -EIO);
		torch_plan__free(p);
		damaged_lib__close(&d);
	}
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	if (!env_cnt)
		return torch_env__skip();
	log__set_quiet(true);
	return run_suite("lib_plan");
}
