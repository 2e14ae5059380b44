/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Schemas of live processes, all of them, against what torch prints in the same process; then a process
 * whose memory lies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "learn_layout.h"
#include "plan/plan.h"
#include "suite.h"
#include "target/torch.h"

static struct torch_env envs[TORCH_ENV_MAX];
static size_t env_cnt;

/* Custom operators of every kind of type and default, then "name TAB schema" of all that torch lists. */
static const char program[] =
	"import torch, warnings\n"
	"warnings.simplefilter('ignore')\n"
	"lib = torch.library.Library('mylib', 'DEF')\n"
	"for s in ['foo(Tensor x, int n=3) -> Tensor', 'alias(Tensor(a!) self, *, Tensor(b!)[] out) -> ()',\n"
	"  'text(str s=\"a\\\\\\\\b\", str? t=None, float f=1e-05, float g=2, bool b=True) -> (Tensor, int[])',\n"
	"  'lists(int[2] a=[1, 2], float[]? b=None, Tensor?[] c, int[] z=[], bool[3] d, float[2] e=[1.5, 2.0]) -> Tensor[]',\n"
	"  'deep(Dict(str, Tensor) d, (int, Tensor) t, Tensor[][] n) -> ((int, str))',\n"
	"  'types(ScalarType? a=None, Layout? b=None, Device? c=None, MemoryFormat? d=None, Scalar e=1, Generator? g=None) -> Scalar',\n"
	"  'over.load(Tensor self, Tensor(a -> *) y) -> Tensor(a)', 'none() -> ()']:\n"
	"  lib.define(s)\n"
	"for s in torch._C._jit_get_all_schemas():\n"
	"  name = s.name + ('.' + s.overload_name if s.overload_name else '')\n"
	"  print(name, str(s), sep='\\t')\n";

struct truth {
	char *name, *schema;
};

static int cmp_truth(const void *a, const void *b)
{
	const struct truth *x = a, *y = b;
	int d = strcmp(x->name, y->name);

	return d ? d : strcmp(x->schema, y->schema);
}

static size_t parse(char *out, struct truth **list)
{
	size_t n = 0, cap = 8192;
	char *line, *save = NULL, *tab;

	*list = calloc(cap, sizeof(**list));
	CU_ASSERT_FATAL(*list != NULL);
	for (line = strtok_r(out, "\n", &save); line && n < cap; line = strtok_r(NULL, "\n", &save)) {
		tab = strchr(line, '\t');
		if (!tab)
			continue;
		*tab = 0;
		(*list)[n++] = (struct truth){ .name = line, .schema = tab + 1 };
	}
	qsort(*list, n, sizeof(**list), cmp_truth);
	return n;
}

/* torch lists some names twice (the dispatcher's operator and one of TorchScript's own). */
static const struct truth *find(const struct truth *list, size_t cnt, const char *name,
				const char *text, bool *same)
{
	const struct truth *any = NULL;
	size_t i, lo = 0, hi = cnt;

	*same = false;
	while (lo < hi) {
		i = (lo + hi) / 2;
		if (strcmp(list[i].name, name) < 0)
			lo = i + 1;
		else
			hi = i;
	}
	for (i = lo; i < cnt && !strcmp(list[i].name, name); i++) {
		any = &list[i];
		*same |= !strcmp(list[i].schema, text);
	}
	return any;
}

static void compare(pid_t pid, const struct live_ops *ops, struct live_schema_layout *l,
		    const struct truth *list, size_t cnt)
{
	uint32_t same = 0, differ = 0, unlisted = 0, none = 0, failed = 0, custom = 0;
	uint64_t begin = clock__mono_ns();
	char text[8192];
	bool equal;
	int err;

	for (uint32_t i = 0; i < ops->cnt; i++) {
		err = live_schema__read(pid, ops->ops[i].opdef, l, text, sizeof(text));
		if (err == -ENOENT) {
			none++;
			continue;
		}
		if (err) {
			if (failed++ < 10)
				printf("\n      %s: %s", ops->ops[i].name, strerror(-err));
			continue;
		}
		if (!find(list, cnt, ops->ops[i].name, text, &equal)) {
			unlisted++;
			continue;
		}
		same += equal;
		custom += equal && !strncmp(ops->ops[i].name, "mylib::", 7);
		if (!equal && differ++ < 10)
			printf("\n      ours   %s\n      torch's %s", text,
			       find(list, cnt, ops->ops[i].name, text, &equal)->schema);
	}
	printf("%u schemas as torch prints them, %u differ, %u not listed, %u operators without one, %u not readable; %llu ms; ",
	       same, differ, unlisted, none, failed,
	       (unsigned long long)((clock__mono_ns() - begin) / 1000000));
	CU_ASSERT(same > 3000);
	CU_ASSERT_EQUAL(differ, 0);
	CU_ASSERT_EQUAL(failed, 0);
	CU_ASSERT_EQUAL(custom, 8);
}

/* A buffer that is too small, an address that is none, a layout that is wrong. */
static void check_errors(pid_t pid, const struct live_ops *ops, const struct live_schema_layout *l)
{
	struct live_schema_layout bad = *l;
	char text[64];
	uint32_t got = 0;

	for (uint32_t i = 0; i < ops->cnt; i++)
		if (!strcmp(ops->ops[i].name, "aten::add.Tensor")) {
			CU_ASSERT_EQUAL(live_schema__read(pid, ops->ops[i].opdef, &bad, text, 20),
					-ENAMETOOLONG);
			CU_ASSERT_STRING_EQUAL(text, "");
			got++;
		}
	CU_ASSERT_EQUAL(got, 1);
	CU_ASSERT(live_schema__read(pid, 4096, &bad, text, sizeof(text)) < 0);
	bad.old_string_abi = !bad.old_string_abi;
	CU_ASSERT(live_schema__derive(pid, ops, &bad) < 0);
	CU_ASSERT_EQUAL(bad.args_off, PTB_OFF_UNKNOWN);
	CU_ASSERT_EQUAL(live_schema__read(pid, ops->ops[0].opdef, &bad, text, sizeof(text)), -ENOTSUP);
}

static void check_env(const struct torch_env *env)
{
	struct torch_child child;
	struct torch_proc *tp;
	struct torch_plan plan;
	const struct live_schema_layout *schemas;
	struct live_schema_layout l;
	const struct live_ops *ops;
	struct proc_ops po;
	enum torch_proc_why why;
	struct truth *list;
	size_t cnt;

	learn_layout__env(&plan, env);
	CU_ASSERT_FATAL(torch_child__start(env, program, &child));
	CU_ASSERT_EQUAL_FATAL(torch_proc__open(child.pid, &tp, &why), 0);
	cnt = parse(child.out, &list);
	printf("\n    %s: ", env->name);
	proc_ops__init(&po, tp, &plan);
	CU_ASSERT_EQUAL_FATAL(proc_ops__schemas(&po, &schemas), 0);
	CU_ASSERT_EQUAL_FATAL(proc_ops__table(&po, &ops), 0);
	l = *schemas;
	compare(child.pid, ops, &l, list, cnt);
	check_errors(child.pid, ops, &l);
	proc_ops__free(&po);
	free(list);
	torch_proc__free(tp);
	torch_child__stop(&child);
}

/* ---- memory that lies ---- */

/* Type information as the C++ ABI lays it out: vptr - 8 -> {., name}. */
struct fake_class {
	uint64_t info; /* at vptr - 8 */
	uint64_t vtable[2];
	uint64_t type_info[2];
};

struct fake_type {
	uint64_t vptr, kind, weak[2];
	uint64_t elem[2];
};

struct fake_text { /* std::string of the new ABI */
	uint64_t ptr, len;
	char inside[16];
};

struct fake_arg {
	struct fake_text name;
	uint64_t type[2], real_type[2];
	int32_t n, has_n;
	uint64_t value[2], has_value, alias, flags;
};

/* The memory that live_schema__read() reads, in one piece so that any byte of it can be changed. */
static struct arena {
	struct fake_class tensor, list;
	struct fake_type a_tensor, a_list;
	struct fake_arg args[2], ret;
	struct {
		struct fake_text name, overload, name2, overload2;
		uint64_t args[3], returns[3], more;
	} def;
	uint64_t interned[10];
} arena, whole;

static uint64_t addr_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void set_text(struct fake_text *t, const char *text)
{
	t->len = strlen(text);
	CU_ASSERT_FATAL(t->len < sizeof(t->inside));
	strcpy(t->inside, text);
	t->ptr = addr_of(t->inside);
}

static void set_class(struct fake_class *c, const char *mangled)
{
	c->type_info[1] = addr_of(mangled);
	c->info = addr_of(c->type_info);
}

static void set_arg(struct fake_arg *a, const char *name, const struct fake_type *type)
{
	set_text(&a->name, name);
	a->type[0] = a->real_type[0] = addr_of(type);
}

/* mylib::f(Tensor x, Tensor[2] y) -> Tensor */
static void build(struct live_schema_layout *l)
{
	memset(&arena, 0, sizeof(arena));
	memset(l, 0, sizeof(*l));
	set_class(&arena.tensor, "N3c1010TensorTypeE");
	set_class(&arena.list, "N3c108ListTypeE");
	arena.a_tensor.vptr = addr_of(arena.tensor.vtable);
	arena.a_list.vptr = addr_of(arena.list.vtable);
	arena.a_list.elem[0] = addr_of(&arena.a_tensor);
	set_arg(&arena.args[0], "x", &arena.a_tensor);
	set_arg(&arena.args[1], "y", &arena.a_list);
	arena.args[1].n = 2;
	arena.args[1].has_n = 1;
	set_arg(&arena.ret, "", &arena.a_tensor);
	set_text(&arena.def.name, "mylib::f");
	set_text(&arena.def.name2, "mylib::f");
	set_text(&arena.def.overload, "");
	set_text(&arena.def.overload2, "");
	arena.def.args[0] = addr_of(&arena.args[0]);
	arena.def.args[1] = arena.def.args[2] = addr_of(&arena.args[2]);
	arena.def.returns[0] = addr_of(&arena.ret);
	arena.def.returns[1] = arena.def.returns[2] = addr_of(&arena.ret + 1);
	l->object_header = 16;
	l->schema_off = 64;
	l->args_off = 128;
	l->returns_off = 152;
	l->argument_size = sizeof(struct fake_arg);
	l->ivalue_kind[5] = PTB_VAL_INT;
	l->ivalue_kind[14] = PTB_VAL_LIST;
	whole = arena;
}

static int read_fake(struct live_schema_layout *l, char *buf, size_t cap)
{
	l->type_cnt = 0;
	return live_schema__read(getpid(), addr_of(&arena.def), l, buf, cap);
}

TEST("a schema in this process")
{
	struct live_schema_layout l;
	char text[512];

	build(&l);
	CU_ASSERT_EQUAL_FATAL(l.argument_size, 112);
	CU_ASSERT_EQUAL(read_fake(&l, text, sizeof(text)), 0);
	CU_ASSERT_STRING_EQUAL(text, "mylib::f(Tensor x, Tensor[2] y) -> Tensor");
	/* a list of itself, for ever */
	arena.a_list.elem[0] = addr_of(&arena.a_list);
	CU_ASSERT(read_fake(&l, text, sizeof(text)) < 0);
	CU_ASSERT_STRING_EQUAL(text, "");
	/* a default that is a list of itself */
	arena = whole;
	arena.args[0].has_value = 1;
	arena.args[0].value[0] = addr_of(arena.interned);
	arena.args[0].value[1] = 14;
	arena.interned[2] = addr_of(arena.args[0].value);
	arena.interned[3] = arena.interned[4] = addr_of(&arena.args[0].has_value);
	CU_ASSERT(read_fake(&l, text, sizeof(text)) < 0);
	/* more arguments than there can be; arguments that end before they begin */
	arena = whole;
	arena.def.args[1] = arena.def.args[2] = arena.def.args[0] + 112 * 1000;
	CU_ASSERT(read_fake(&l, text, sizeof(text)) < 0);
	arena.def.args[1] = arena.def.args[0] - 112;
	CU_ASSERT(read_fake(&l, text, sizeof(text)) < 0);
	/* no schema, another name, a tag that is none */
	arena = whole;
	set_text(&arena.def.name2, "mylib::g");
	CU_ASSERT_EQUAL(read_fake(&l, text, sizeof(text)), -ENOENT);
	arena = whole;
	arena.args[0].has_value = 1;
	arena.args[0].value[1] = 7;
	CU_ASSERT_EQUAL(read_fake(&l, text, sizeof(text)), -ENOTSUP);
	arena.args[0].value[1] = 5;
	CU_ASSERT_EQUAL(read_fake(&l, text, sizeof(text)), 0);
	CU_ASSERT_STRING_EQUAL(text, "mylib::f(Tensor x=0, Tensor[2] y) -> Tensor");
	/* an alias without the table of names */
	arena = whole;
	arena.ret.alias = addr_of(arena.interned);
	arena.interned[3] = 1;
	CU_ASSERT(read_fake(&l, text, sizeof(text)) < 0);
}

/* Words replaced by pointers into it, by small numbers, by random ones. */
TEST("memory that lies")
{
	uint64_t seed = 0x5eed0002, *words = (uint64_t *)(void *)&arena, value;
	struct live_schema_layout l;
	uint32_t i, read = 0;
	char text[512];

	build(&l);
	l.interned = addr_of(arena.interned);
	for (i = 0; i < 20000; i++) {
		arena = whole;
		for (uint32_t k = 0; k <= i % 4; k++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			value = seed >> 60 < 6 ?
					addr_of(&arena) + (seed >> 20) % sizeof(arena) / 8 * 8 :
				seed >> 60 < 11 ? (seed >> 30) % 64 :
						  seed ^ seed << 17;
			words[(seed >> 33) % (sizeof(arena) / 8)] = value;
		}
		text[sizeof(text) - 1] = 'z';
		if (read_fake(&l, text, sizeof(text) - 1))
			CU_ASSERT_STRING_EQUAL(text, "");
		read += *text != 0;
		CU_ASSERT_EQUAL(text[sizeof(text) - 1], 'z');
	}
	printf("%u of %u damaged ones give a text; ", read, i);
	CU_ASSERT(read > 0 && read < i);
}

TEST("schemas of live processes")
{
	for (size_t i = 0; i < env_cnt; i++)
		check_env(&envs[i]);
}

int main(void)
{
	env_cnt = torch_env__find(envs);
	if (!env_cnt)
		return torch_env__skip();
	return run_suite("live_schema");
}
