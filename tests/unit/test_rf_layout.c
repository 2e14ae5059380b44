/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * at::RecordFunction: what the code of the installed builds gives, against what a C++ compiler makes of the
 * headers that came with them; damaged libraries; a live process's agent settings.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "damaged_lib.h"
#include "learn_layout.h"
#include "plan/plan.h"
#include "plan/plan_priv.h"
#include "suite.h"
#include "torch_env.h"

#define FIELDS 9
#ifdef __SANITIZE_ADDRESS__ /* the other build has compared the same values */
#define ASK_COMPILER false
#else
#define ASK_COMPILER true
#endif

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

static void fields_of(const struct ptb_rf_cfg *rf, unsigned int out[FIELDS])
{
	const unsigned int list[FIELDS] = { rf->size,        rf->thread_off,     rf->scope_off,
					    rf->fn_off,      rf->seq_off,        rf->inputs_off,
					    rf->outputs_off, rf->fwd_thread_off, rf->handle_off };

	memcpy(out, list, sizeof(list));
}

/* ---- against the headers ---- */

static const char truth[] =
	"#include <ATen/record_function.h>\n#include <cstddef>\n#include <cstdio>\n"
	"int main() { using R = at::RecordFunction; using S = at::StepCallbacks;\n"
	"printf(\"%zu %zu %zu %zu %zu %zu %zu %zu %zu\", sizeof(R),\n"
	"offsetof(R, step_callbacks_) + offsetof(S, thread_id_),\n"
	"offsetof(R, step_callbacks_) + offsetof(S, scope_), offsetof(R, fn_),\n"
	"offsetof(R, sequence_nr_), offsetof(R, inputs_), offsetof(R, outputs_),\n"
	"offsetof(R, fwd_thread_id_), offsetof(R, handle_)); }\n";

/* The compiler's offsets; false: there are no headers, or it does not accept them. */
static bool compile_truth(const struct torch_env *env, bool old_abi, unsigned int out[FIELDS])
{
	char dir[] = "/tmp/ptbpf-rf.XXXXXX", cmd[1600], line[200] = "";
	FILE *f;
	int n = 0;

	if (!mkdtemp(dir))
		return false;
	snprintf(cmd, sizeof(cmd), "%s/truth.cc", dir);
	f = fopen(cmd, "w");
	if (f) {
		fputs(truth, f);
		fclose(f);
		snprintf(cmd, sizeof(cmd),
			 "cd %s && for std in 20 17 14; do c++ -std=c++$std -w -O1 -fno-access-control "
			 "-D_GLIBCXX_USE_CXX11_ABI=%d -I'%s/../include' truth.cc -o truth 2>/dev/null && "
			 "./truth && break; done",
			 dir, !old_abi, env->libs);
		f = popen(cmd, "r");
	}
	if (f) {
		if (fgets(line, sizeof(line), f))
			n = sscanf(line, "%u %u %u %u %u %u %u %u %u", &out[0], &out[1], &out[2],
				   &out[3], &out[4], &out[5], &out[6], &out[7], &out[8]);
		pclose(f);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CU_ASSERT_EQUAL(system(cmd), 0);
	return n == FIELDS;
}

TEST("against the headers")
{
	unsigned int want[FIELDS], got[FIELDS];
	struct torch_plan plan;
	size_t compared = 0;

	for (size_t i = 0; i < env_cnt; i++) {
		const struct ptb_rf_cfg *rf = &plan.layout.rf;

		learn_layout__env(&plan, &envs[i]);
		printf("\n    %s: ", envs[i].name);
		rf_layout__print(&plan.layout, stdout);
		CU_ASSERT(rf->size > 0);
		CU_ASSERT_STRING_EQUAL(plan.layout.no_rf_why, "");
		CU_ASSERT_EQUAL(rf->old_string_abi, plan.layout.old_string_abi);
		CU_ASSERT_EQUAL(rf->fn_index_off, rf->fn_off + (rf->old_string_abi ? 8 : 32));
		CU_ASSERT_EQUAL(rf->inputs_off, rf->old_string_abi ? 184 : 208);
		if (!ASK_COMPILER)
			continue;
		if (!compile_truth(&envs[i], rf->old_string_abi, want)) {
			printf("    SKIP: its headers could not be compiled\n");
			continue;
		}
		fields_of(rf, got);
		CU_ASSERT_EQUAL(memcmp(got, want, sizeof(got)), 0);
		compared++;
	}
	CU_ASSERT(compared > 0 || !ASK_COMPILER);
}

/* The distribution's package, another compiler; it has no headers. */
TEST("the distribution's build")
{
	static const char cpu[] = "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so";
	static const unsigned int torch_1_13[FIELDS] = { 288, 88, 96, 160, 200, 208, 224, 248, 256 };
	const char *list[TORCH_LIB_ROLES] = { 0 };
	unsigned int got[FIELDS];
	struct torch_plan plan;

	if (access(cpu, R_OK)) {
		printf("SKIP: no python3-torch; ");
		return;
	}
	list[TORCH_LIB_CPU] = cpu;
	learn_layout__files(&plan, list);
	CU_ASSERT_STRING_EQUAL(plan.layout.no_rf_why, "");
	CU_ASSERT(plan.layout.rf.size > 0);
	fields_of(&plan.layout.rf, got);
	if (!plan.layout.old_string_abi && got[0] == torch_1_13[0]) /* Debian 12's */
		CU_ASSERT_EQUAL(memcmp(got, torch_1_13, sizeof(got)), 0);
}

/* Without libtorch_cpu nothing is guessed. */
TEST("without libtorch_cpu")
{
	const char *list[TORCH_LIB_ROLES] = { 0 };
	struct torch_plan plan;
	char path[600];

	snprintf(path, sizeof(path), "%s/libc10.so", envs[0].libs);
	list[TORCH_LIB_C10] = path;
	learn_layout__files(&plan, list);
	CU_ASSERT_EQUAL(plan.layout.rf.size, 0);
	CU_ASSERT(plan.layout.no_rf_why[0] != 0);
}

/* If one field contradicts the order of the members, no field is reported. */
TEST("disagreement")
{
	struct torch_plan plan;
	struct plan_layout l;

	learn_layout__env(&plan, &envs[0]);
	CU_ASSERT_FATAL(plan.layout.rf.size > 0);
	CU_ASSERT(rf_layout__plausible(&plan.layout.rf));
	for (uint32_t i = 0; i < 10; i++) {
		uint16_t *field = (uint16_t *)&l.rf + i;

		l = plan.layout;
		*field = PTB_OFF_UNKNOWN;
		if (field == &l.rf.size || field == &l.rf.inputs_off || field == &l.rf.fwd_thread_off)
			*field = 4; /* found by none is no error for what follows from another */
		rf_layout__finish(&l);
		CU_ASSERT_EQUAL(l.rf.size, 0);
		CU_ASSERT(l.no_rf_why[0] != 0);
		l = plan.layout;
		*field = (uint16_t)(*field + 8);
		if (field == &l.rf.size)
			continue; /* its constructor is its witness */
		rf_layout__finish(&l);
		CU_ASSERT_EQUAL(l.rf.size, 0);
	}
}

/* ---- a damaged libtorch_cpu ---- */

#define DAMAGES 200

static bool add_func(const struct elf_sym *sym, void *arg)
{
	if (sym->defined && sym->type == STT_FUNC && sym->size && sym->bind != STB_LOCAL &&
	    strstr(sym->name, "N2at14RecordFunction"))
		damaged_lib__add(arg, sym, 512);
	return true;
}

static void learn_damaged(struct damaged_lib *d, uint32_t flips, const struct plan_layout *base,
			  struct plan_layout *out, struct plan_build *b)
{
	struct leaf_run *r = calloc(1, sizeof(*r));

	CU_ASSERT_FATAL(r != NULL);
	damaged_lib__flip(d, flips);
	b->plan->layout = *base;
	rf_layout__init(&b->plan->layout);
	r->lc = b->lc;
	r->dec = b->flow.dec;
	rf_layout__learn(b, r);
	rf_layout__finish(&b->plan->layout);
	*out = b->plan->layout;
	damaged_lib__repair(d);
	free(r);
}

/* Random bits in the code: no crash, no endless run, and no other layout than the true one. */
TEST("damage")
{
	struct damaged_lib d;
	struct plan_layout base, out;
	struct torch_plan plan;
	struct plan_build b;
	struct elf_file *ef;
	struct lib_code lc;
	char cpu[600];
	uint32_t on = 0;

	snprintf(cpu, sizeof(cpu), "%s/libtorch_cpu.so", envs[0].libs);
	learn_layout__env(&plan, &envs[0]);
	base = plan.layout;
	damaged_lib__open(&d, cpu);
	CU_ASSERT_EQUAL_FATAL(elf_file__open(d.path, &ef), 0);
	d.ef = ef;
	elf_file__for_each_sym(ef, add_func, &d);
	CU_ASSERT_FATAL(d.func_cnt >= 10);
	memset(&plan, 0, sizeof(plan));
	plan_build__init(&b, &plan);
	lib_code__init(&lc, ef, &torch_names);
	b.lc = &lc;
	b.role = TORCH_LIB_CPU;
	for (uint32_t i = 0; i < DAMAGES; i++) {
		learn_damaged(&d, i % 8, &base, &out, &b);
		on += out.rf.size != 0;
		CU_ASSERT(!out.rf.size || !memcmp(&out.rf, &base.rf, sizeof(out.rf)));
		CU_ASSERT(out.rf.size || out.no_rf_why[0]);
		CU_ASSERT(i % 8 || out.rf.size);
	}
	printf("%u of %u damaged libraries still give a layout, the true one; ", on, DAMAGES);
	lib_code__free(&lc);
	plan_build__free(&b);
	elf_file__close(ef);
	damaged_lib__close(&d);
}

/* ---- a live process ---- */

static void check_live(const struct torch_env *env)
{
	static const char idle[] = "import torch\ntorch.ones(1)\n";
	struct ptb_agent_cfg agent;
	struct ptb_proc_cfg probes;
	struct torch_child child;
	enum torch_proc_why why;
	struct torch_proc *tp;
	struct torch_plan *plan;
	struct proc_ops po;
	int64_t off, name;

	CU_ASSERT_FATAL(torch_child__start(env, idle, &child));
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(child.pid, &tp, &why), 0);
	CU_ASSERT_EQUAL_FATAL(torch_plan__new(tp->libs, NULL, false, &plan), 0);
	proc_ops__init(&po, tp, plan);
	proc_cfg__fill(&po, true, &probes);
	proc_cfg__agent(&po, &agent);
	CU_ASSERT_EQUAL(memcmp(&agent.rf, &plan->layout.rf, sizeof(agent.rf)), 0);
	CU_ASSERT(agent.rf.size > 0);
	CU_ASSERT_EQUAL(memcmp(&agent.tensor, &probes.tensor, sizeof(agent.tensor)), 0);
	CU_ASSERT(agent.tensor.shapes_on && agent.tensor.undefined_impl);
	off = proc_ops__schema_offset(&po);
	name = agent.rf.old_string_abi ? 16 : 64; /* two strings */
	printf("\n    %s: a schema is at +%d of its operator", env->name, (int)off);
	CU_ASSERT(off == name || off == name + 8);
	CU_ASSERT_EQUAL(off + name, agent.tensor.schema_args_off);
	proc_ops__free(&po);
	torch_plan__free(plan);
	torch_proc__free(tp);
	torch_child__stop(&child);
}

TEST("live processes")
{
	for (size_t i = 0; i < env_cnt; i++)
		check_live(&envs[i]);
	printf("\n    ");
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	return env_cnt ? run_suite("rf_layout") : torch_env__skip();
}
