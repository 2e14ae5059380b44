/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The argument programs of the PyTorch wheels that are installed: those of operators whose calls were
 * decoded in live processes, the totals, and what must hold for every one.
 */
#include <stdlib.h>
#include <string.h>

#include "arg_locations.h"
#include "plan/args_priv.h"
#include "plan/plan.h"
#include "suite.h"
#include "target/elf.h"
#include "torch_env.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* Totals: late sites, doubles at them, arguments and results without a location. */
static const struct known {
	const char *name;
	uint32_t late, doubles, unplaced;
	enum optional_abi optional;
	bool old_view; /* string_view is c10's */
} known[] = {
	{ "torch-2.15.0", 308, 467, 5, OPTIONAL_STD, false }, /* 4 device indices of one byte, a SymBool */
	{ "torch-2.7.1", 292, 438, 126, OPTIONAL_STD, false }, /* the names of dimensions, too */
	{ "torch-2.5.1", 291, 437, 125, OPTIONAL_STD, true },
	{ "torch-2.1.2", 214, 305, 125, OPTIONAL_C10, true },
	{ "torch-1.13.1", 194, 248, 122, OPTIONAL_C10, true },
};

/* Locations of arguments where optional is std's. old: string_view is c10's {pointer, length}; NULL: as new. */
static const struct {
	const char *name, *locations, *old;
	uint8_t result_loc;
} ops[] = {
	{ "aten::add.Tensor", "rsi rdx rcx", NULL, 0 },
	{ "aten::add_.Tensor", "rdi rsi rdx", NULL, 0 },
	{ "aten::add.out", "rdi rsi rdx rcx", NULL, 3 },
	{ "aten::sum.dim_IntList", "rsi [8]+[16]+[24] rdx rcx", NULL, 0 },
	{ "aten::empty.memory_format", "rsi+rdx rcx r8 r9 [8] [16]", NULL, 0 },
	{ "aten::zeros", "rsi+rdx rcx r8 r9 [8]", NULL, 0 },
	{ "aten::conv2d", "rsi rdx rcx r8+r9 [8]+[16] [24]+[32] [40]", NULL, 0 },
	{ "aten::convolution", "rsi rdx rcx r8+r9 [8]+[16] [24]+[32] [40] [48]+[56] [64]", NULL, 0 },
	{ "aten::cat", "rsi rdx", NULL, 0 },
	{ "aten::view", "rsi rdx+rcx", NULL, 0 },
	{ "aten::native_layer_norm", "rsi rdx+rcx r8 r9 xmm0", NULL, 0 },
	{ "aten::gelu", "rsi rcx+rdx", "rsi rdx+rcx", 0 },
	{ "aten::clamp", "rsi rdx rcx", NULL, 0 },
	{ "aten::max.dim", "rsi rdx rcx", NULL, 0 },
	{ "aten::max.dim_max", "rsi rdx rcx r8 r9", NULL, 0 },
	{ "aten::split.Tensor", "rsi rdx rcx", NULL, 0 },
	{ "aten::dropout", "rsi xmm0 rdx", NULL, 0 },
	{ "aten::to.dtype", "rsi rdx rcx r8 r9", NULL, 0 },
	{ "aten::slice.Tensor", "rsi rdx rcx r8 r9", NULL, 0 },
	{ "aten::bernoulli.p", "rsi xmm0 rdx", NULL, 0 },
	{ "aten::std.correction", "rsi [8]+[16]+[24] rdx rcx", NULL, 0 },
	{ "aten::index.Tensor", "rsi rdx", NULL, 0 },
	{ "aten::native_batch_norm", "rsi rdx rcx r8 r9 [8] xmm0 xmm1", NULL, 0 },
	{ "aten::normal_", "rdi xmm0 xmm1 rsi", NULL, 0 },
	{ "aten::_local_scalar_dense", "rsi", NULL, 0 },
	{ "aten::equal", "rdi rsi", NULL, PTB_LOC_NONE },
	{ "aten::scaled_dot_product_attention", "rsi rdx rcx r8 xmm0 r9 [8]+[16] [24]", NULL, 0 },
};

static const struct known *find_known(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name))
			return &known[i];
	return NULL;
}

static bool plan_of(const struct torch_env *env, struct torch_plan **p)
{
	static const char *const names[] = { "libc10.so", "libtorch_cpu.so", "libtorch_python.so" };
	static char paths[3][640];
	struct torch_proc tp = { 0 };
	struct elf_file *ef;

	for (uint32_t role = 0; role < 3; role++) {
		snprintf(paths[role], sizeof(paths[role]), "%s/%s", env->libs, names[role]);
		tp.libs[role].path = tp.libs[role].access_path = paths[role];
		if (elf_file__open(paths[role], &ef))
			return false;
		tp.libs[role].present = true;
		tp.libs[role].build_id_sz = elf_file__build_id(ef, tp.libs[role].build_id, BUILD_ID_MAX);
		elf_file__close(ef);
	}
	return !torch_plan__new(tp.libs, NULL, false, p);
}

/* ---- what must hold ---- */

static uint32_t late_ops(const struct ptb_arg_prog *prog, uint32_t *highest)
{
	uint32_t n = 0;

	*highest = 0;
	for (uint32_t i = 0; i < prog->in_cnt; i++)
		if (prog->ops[i].op == PTB_ARG_LATE) {
			n++;
			if (prog->ops[i].aux + 1u > *highest)
				*highest = prog->ops[i].aux + 1u;
		}
	return n;
}

static uint32_t unknown_ops(const struct ptb_arg_prog *prog)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < (uint32_t)prog->in_cnt + prog->out_cnt; i++)
		n += prog->ops[i].op == PTB_ARG_UNKNOWN;
	return n;
}

static void count_schema(const char *text, struct schema *s)
{
	const char *args = strchr(text, '(');

	CU_ASSERT_FATAL(args != NULL);
	CU_ASSERT_FATAL(schema_text__parse(args, strlen(args), "", s, NULL, 0));
}

struct op_sites {
	uint32_t enter, late;      /* programs, 1 + index */
	uint32_t exits, bad_exits; /* with another program than the entry's */
};

static void check_op(const struct torch_plan *p, const struct plan_func *f,
		     const struct op_sites *s, const struct known *k)
{
	const struct ptb_arg_prog *prog;
	struct schema schema;
	uint32_t highest, late;

	CU_ASSERT_FATAL(f->schema != NULL);
	CU_ASSERT(!strncmp(f->schema, f->name, strlen(f->name)) && f->schema[strlen(f->name)] == '(');
	count_schema(f->schema, &schema);
	CU_ASSERT_FATAL(s->enter != 0);
	CU_ASSERT_EQUAL(s->bad_exits, 0);
	prog = &p->progs[s->enter - 1];
	CU_ASSERT(prog->in_cnt == schema.arg_cnt && prog->out_cnt == schema.ret_cnt);
	CU_ASSERT_EQUAL(unknown_ops(prog), f->unplaced);
	late = late_ops(prog, &highest);
	CU_ASSERT_EQUAL(late, highest); /* numbered without a gap */
	CU_ASSERT_EQUAL(late, s->late ? p->progs[s->late - 1].in_cnt : 0);
	if (k && strchr(f->schema, '*') && !strncmp(f->schema, "aten::add", 9))
		CU_ASSERT_EQUAL(f->unplaced, 0);
}

static void check_all(const struct torch_plan *p, const struct known *k, const char *name)
{
	struct op_sites *sites = calloc(p->func_cnt, sizeof(*sites));
	uint32_t late = 0, doubles = 0, unplaced = 0, funcs = 0;

	CU_ASSERT_FATAL(sites != NULL);
	for (uint32_t i = 0; i < p->site_cnt; i++) { /* sorted by offset: the entry comes first or not */
		const struct plan_site *s = &p->sites[i];

		CU_ASSERT_FATAL(s->args <= p->prog_cnt);
		if (s->prog == PTB_PROG_OP_LATE) {
			CU_ASSERT(s->role == PTB_ROLE_POINT && s->insn == 0xe8 && s->args);
			CU_ASSERT_EQUAL(sites[s->func].late, 0);
			sites[s->func].late = s->args;
			late++;
			doubles += p->progs[s->args - 1].in_cnt;
		} else if (s->role == PTB_ROLE_ENTER) {
			sites[s->func].enter = s->args;
		}
	}
	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (p->sites[i].role == PTB_ROLE_EXIT && p->funcs[p->sites[i].func].kind == PTB_FUNC_OP) {
			sites[p->sites[i].func].exits++;
			if (p->sites[i].args != sites[p->sites[i].func].enter)
				sites[p->sites[i].func].bad_exits++;
		}
	for (uint32_t i = 0; i < p->func_cnt; i++)
		if (p->funcs[i].kind == PTB_FUNC_OP && p->funcs[i].handle) {
			check_op(p, &p->funcs[i], &sites[i], k);
			unplaced += p->funcs[i].unplaced;
			funcs += p->funcs[i].unplaced > 0;
		}
	printf("\n    %s: %u programs, %u late sites for %u doubles, %u arguments or results of %u operators without a location; ",
	       name, p->prog_cnt, late, doubles, unplaced, funcs);
	if (k) {
		CU_ASSERT_EQUAL(late, k->late);
		CU_ASSERT_EQUAL(doubles, k->doubles);
		CU_ASSERT_EQUAL(unplaced, k->unplaced);
	}
	CU_ASSERT(late > 100 && unplaced < 200);
	free(sites);
}

/* ---- known operators ---- */

static const struct ptb_arg_prog *prog_of(const struct torch_plan *p, const char *name)
{
	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (p->sites[i].role == PTB_ROLE_ENTER && p->sites[i].args &&
		    !strcmp(p->funcs[p->sites[i].func].name, name))
			return &p->progs[p->sites[i].args - 1];
	return NULL;
}

static void check_known(const struct torch_plan *p, bool old_view)
{
	char locations[512];

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		const char *want = old_view && ops[i].old ? ops[i].old : ops[i].locations;
		const struct ptb_arg_prog *prog = prog_of(p, ops[i].name);

		if (!prog) {
			printf(" %s;", ops[i].name);
			CU_FAIL("no program");
			continue;
		}
		arg_locations(prog, locations, sizeof(locations));
		if (strcmp(locations, want) || prog->result_loc != ops[i].result_loc) {
			printf("\n%s: %s result %u\n", ops[i].name, locations, prog->result_loc);
			CU_FAIL("other locations");
		}
	}
}

static void check_results(const struct torch_plan *p)
{
	const struct ptb_arg_prog *max = prog_of(p, "aten::max.dim"),
				  *out = prog_of(p, "aten::max.dim_max"),
				  *split = prog_of(p, "aten::split.Tensor"),
				  *item = prog_of(p, "aten::_local_scalar_dense"),
				  *equal = prog_of(p, "aten::equal"),
				  *size = prog_of(p, "aten::size.int");
	const struct ptb_arg_op *op;

	CU_ASSERT_FATAL(max && out && split && item && equal && size);
	op = max->ops + max->in_cnt;
	CU_ASSERT(op[0].op == PTB_ARG_PTR_TENSOR && op[0].val_off == 8 && op[1].val_off == 0);
	op = out->ops + out->in_cnt;
	CU_ASSERT(op[0].flags == PTB_ARG_F_DEREF && op[0].val_off == 8 && op[1].val_off == 0);
	CU_ASSERT_EQUAL(split->ops[split->in_cnt].op, PTB_ARG_VECTOR);
	CU_ASSERT_EQUAL(item->ops[item->in_cnt].op, PTB_ARG_PTR_SCALAR);
	op = equal->ops + equal->in_cnt;
	CU_ASSERT(op->op == PTB_ARG_WORD && op->as == PTB_VAL_BOOL);
	CU_ASSERT(op->loc[0] >= 1 && op->loc[0] < PTB_LOC_KEPT + PTB_REG_CNT);
	op = size->ops + size->in_cnt;
	CU_ASSERT(op->op == PTB_ARG_WORD && op->as == PTB_VAL_INT);
	CU_ASSERT(op->loc[0] >= 1 && op->loc[0] < PTB_LOC_KEPT + PTB_REG_CNT);
}

TEST("wheels")
{
	struct torch_plan *p;

	for (size_t i = 0; i < env_cnt; i++) {
		const struct known *k = find_known(envs[i].name);

		p = NULL;
		CU_ASSERT_FATAL(plan_of(&envs[i], &p));
		check_all(p, k, envs[i].name);
		if (k && k->optional == OPTIONAL_STD)
			check_known(p, k->old_view);
		check_results(p);
		torch_plan__free(p);
	}
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	if (!env_cnt)
		return torch_env__skip();
	return run_suite("op_args");
}
