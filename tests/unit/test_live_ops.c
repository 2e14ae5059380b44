/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The dispatcher's table: a synthetic one in this process, whole and damaged in many forms, in both
 * string layouts; then real torch processes, whose own list is the truth.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"
#include "target/elf.h"
#include "target/torch.h"
#include "torch_env.h"

/* ---- a synthetic dispatcher ---- */

#define OP_SZ 7000u
#define FLAG 6040u
#define OP_CNT 400u
#define NAME_SZ 64u

/* One list node; which layout of `words` it has depends on the string ABI. */
struct fake_node {
	uint64_t next, prev;
	union {
		uint64_t words[8];
		uint8_t bytes[OP_SZ];
	} op;
};

struct cow_rep {
	uint64_t len, cap, refs;
	char text[NAME_SZ];
};

static struct fake {
	uint64_t head[3]; /* {next, prev, size} */
	uint64_t singleton, empty;
	struct fake_node nodes[OP_CNT];
	struct cow_rep reps[OP_CNT][2];
} fake;

static const char *const unobserved[] = {
	"aten::is_leaf",
	"aten::_version",
	"aten::output_nr",
	"aten::size.int",
	"profiler::_record_function_exit._RecordFunction",
	"profiler::_record_function_enter_new",
};
#define UNOBSERVED_CNT (sizeof(unobserved) / sizeof(unobserved[0]))

static uint64_t addr_of(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* The i-th operator's full name; base and overload in two texts. */
static void fake_name(uint32_t i, char base[NAME_SZ], char over[NAME_SZ])
{
	static const char *const tails[] = { "", "_with_a_rather_long_name.Tensor", ".o" };
	char *dot;

	*over = 0;
	if (i % 50 == 7 && i / 50 < UNOBSERVED_CNT)
		strcpy(base, unobserved[i / 50]);
	else
		snprintf(base, NAME_SZ, "mylib::op_%u%s", i, tails[i % 3]);
	dot = strchr(base, '.');
	if (dot) {
		strcpy(over, dot + 1);
		*dot = 0;
	}
}

static void fake_set_string(uint32_t i, uint32_t which, const char *text, bool old_abi)
{
	struct fake_node *node = &fake.nodes[i];
	struct cow_rep *rep = &fake.reps[i][which];

	rep->len = rep->cap = strlen(text);
	strcpy(rep->text, text);
	if (old_abi) {
		node->op.words[which] = addr_of(rep->text);
		return;
	}
	node->op.words[which * 4] = addr_of(rep->text);
	node->op.words[which * 4 + 1] = rep->len;
	if (rep->len < 16) { /* texts of up to 15 bytes are inside */
		strcpy((char *)&node->op.words[which * 4 + 2], text);
		node->op.words[which * 4] = addr_of(&node->op.words[which * 4 + 2]);
	}
}

static void fake_build(bool old_abi)
{
	char base[NAME_SZ], over[NAME_SZ];
	unsigned int seed = 7;

	fake.singleton = addr_of(fake.head);
	for (uint32_t i = 0; i < OP_CNT; i++) {
		struct fake_node *node = &fake.nodes[i];

		node->next = i + 1 < OP_CNT ? addr_of(&fake.nodes[i + 1]) : addr_of(fake.head);
		node->prev = i ? addr_of(&fake.nodes[i - 1]) : addr_of(fake.head);
		for (uint32_t j = 0; j < OP_SZ; j++) /* much of an operator is zeros, ones, and pointers */
			node->op.bytes[j] = j % 97 == 5 ? 1 : j % 3 ? 0 : (uint8_t)rand_r(&seed);
		fake_name(i, base, over);
		fake_set_string(i, 0, base, old_abi);
		fake_set_string(i, 1, over, old_abi);
		node->op.bytes[FLAG] = 1;
		for (uint32_t j = 0; j < UNOBSERVED_CNT; j++)
			if (!strncmp(unobserved[j], base, strlen(base)) &&
			    strchr("._", unobserved[j][strlen(base)]) && strncmp(base, "mylib", 5))
				node->op.bytes[FLAG] = 0;
	}
	fake.head[0] = addr_of(&fake.nodes[0]);
	fake.head[1] = addr_of(&fake.nodes[OP_CNT - 1]);
	fake.head[2] = OP_CNT;
}

static int fake_read_at(bool old_abi, uint32_t observed_off, struct live_ops *lo)
{
	const uint64_t singletons[] = { 0, addr_of(&fake.empty), addr_of(&fake.singleton) };

	return live_ops__read(getpid(), singletons, 3, old_abi, observed_off, lo);
}

static int fake_read(bool old_abi, struct live_ops *lo)
{
	return fake_read_at(old_abi, 0, lo);
}

static bool is_unobserved(const char *name)
{
	for (size_t i = 0; i < UNOBSERVED_CNT; i++)
		if (!strcmp(name, unobserved[i]))
			return true;
	return false;
}

static void check_whole(bool old_abi)
{
	char base[NAME_SZ], over[NAME_SZ], full[2 * NAME_SZ + 1], at[2 * NAME_SZ + 1];
	struct live_ops lo;
	uint32_t found = 0;

	fake_build(old_abi);
	CU_ASSERT_EQUAL_FATAL(fake_read(old_abi, &lo), 0);
	CU_ASSERT_EQUAL_FATAL(lo.cnt, OP_CNT);
	CU_ASSERT(lo.observed_known);
	for (uint32_t i = 0; i < OP_CNT; i++) {
		fake_name(i, base, over);
		snprintf(full, sizeof(full), "%s%s%s", base, *over ? "." : "", over);
		CU_ASSERT_STRING_EQUAL(lo.ops[i].name, full);
		CU_ASSERT_EQUAL(lo.ops[i].opdef, addr_of(&fake.nodes[i].op));
		CU_ASSERT_EQUAL(lo.ops[i].unobserved, is_unobserved(full));
		found += lo.ops[i].unobserved;
		CU_ASSERT_EQUAL(live_ops__name_at(getpid(), lo.ops[i].opdef, old_abi, at, sizeof(at)), 0);
		CU_ASSERT_STRING_EQUAL(at, full);
	}
	CU_ASSERT_EQUAL(found, UNOBSERVED_CNT);
	live_ops__free(&lo);
	CU_ASSERT_PTR_NULL(lo.ops);
}

TEST("new strings")
{
	check_whole(false);
}

TEST("old strings")
{
	check_whole(true);
}

/* ---- what was registered since ---- */

static bool is_before(void *arg, uint64_t opdef)
{
	return opdef < addr_of(&fake.nodes[*(uint32_t *)arg]);
}

static int fake_newest(uint32_t known, bool old_abi, struct live_ops *lo)
{
	const uint64_t singletons[] = { 0, addr_of(&fake.singleton) };
	struct live_ops_seen seen = {
		.known = is_before, .arg = &known, .observed_off = FLAG, .old_string_abi = old_abi
	};

	return live_ops__newest(getpid(), singletons, 2, &seen, lo);
}

static void check_newest(bool old_abi)
{
	const uint64_t singletons[] = { addr_of(&fake.singleton) };
	struct live_ops lo;
	uint64_t tail;

	fake_build(old_abi);
	fake.nodes[OP_CNT - 2].op.bytes[FLAG] = 0;
	CU_ASSERT_EQUAL(live_ops__tail(getpid(), singletons, 1, &tail), 0);
	CU_ASSERT_EQUAL(tail, addr_of(&fake.nodes[OP_CNT - 1]));
	CU_ASSERT_EQUAL_FATAL(fake_newest(OP_CNT, old_abi, &lo), 0);
	CU_ASSERT_EQUAL(lo.cnt, 0);
	CU_ASSERT_EQUAL_FATAL(fake_newest(OP_CNT - 5, old_abi, &lo), 0);
	CU_ASSERT_EQUAL_FATAL(lo.cnt, 5);
	for (uint32_t i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL(lo.ops[i].opdef, addr_of(&fake.nodes[OP_CNT - 1 - i].op));
		CU_ASSERT_EQUAL(lo.ops[i].unobserved, i == 1);
		CU_ASSERT_PTR_NOT_NULL(strstr(lo.ops[i].name, "mylib::op_39"));
	}
	live_ops__free(&lo);
	CU_ASSERT_EQUAL(fake_newest(OP_CNT - 100, old_abi, &lo), -E2BIG); /* all of it is read then */
	fake.nodes[OP_CNT - 2].next = addr_of(fake.head);
	CU_ASSERT_EQUAL(fake_newest(OP_CNT - 5, old_abi, &lo), -EAGAIN);
	CU_ASSERT_EQUAL(fake_newest(OP_CNT - 1, old_abi, &lo), 0); /* not come to that one */
	live_ops__free(&lo);
	fake.nodes[OP_CNT - 1].prev = (uint64_t)-4096; /* leads nowhere */
	CU_ASSERT_EQUAL(fake_newest(0, old_abi, &lo), -EAGAIN);
	fake.singleton = 0;
	CU_ASSERT_EQUAL(fake_newest(OP_CNT - 1, old_abi, &lo), -ENOENT);
	CU_ASSERT_EQUAL(live_ops__tail(getpid(), singletons, 1, &tail), -ENOENT);
}

TEST("the newest")
{
	check_newest(false);
	check_newest(true);
}

static bool flag_known(void)
{
	struct live_ops lo;
	bool known;

	CU_ASSERT_EQUAL_FATAL(fake_read(false, &lo), 0);
	CU_ASSERT_EQUAL(lo.cnt, OP_CNT);
	known = lo.observed_known;
	for (uint32_t i = 0; i < lo.cnt && !known; i++)
		CU_ASSERT_FALSE(lo.ops[i].unobserved); /* nothing is claimed */
	live_ops__free(&lo);
	return known;
}

/* Where the flag was in another process: used when it can be right, else found anew. */
TEST("the flag of another process")
{
	static const uint32_t offs[] = { FLAG, FLAG + 8, FLAG + 1, 0, 1u << 20, UINT32_MAX };
	struct live_ops lo;

	fake_build(false);
	for (uint32_t i = 0; i < OP_CNT; i++) /* agrees in what is known, and contradicts */
		fake.nodes[i].op.bytes[FLAG + 8] = fake.nodes[i].op.bytes[FLAG];
	fake.nodes[3].op.bytes[FLAG + 8] = 0;
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(fake_read_at(false, offs[i], &lo), 0);
		CU_ASSERT_EQUAL(lo.observed_known, i < 2);
		CU_ASSERT_EQUAL(lo.observed_off, i < 2 ? offs[i] : 0);
		CU_ASSERT_EQUAL(lo.ops[3].unobserved, i == 1);
		CU_ASSERT_EQUAL(lo.ops[7].unobserved, i < 2); /* aten::is_leaf */
		live_ops__free(&lo);
	}
	for (uint32_t i = 0; i < OP_CNT; i += 8) /* too many have 0 there; it is found elsewhere */
		fake.nodes[i].op.bytes[FLAG + 8] = 0;
	CU_ASSERT_EQUAL_FATAL(fake_read_at(false, FLAG + 8, &lo), 0);
	CU_ASSERT(lo.observed_known);
	CU_ASSERT_EQUAL(lo.observed_off, FLAG);
	CU_ASSERT_FALSE(lo.ops[8].unobserved);
	live_ops__free(&lo);
}

TEST("the flag")
{
	fake_build(false); /* a second byte with the same value is no contradiction */
	for (uint32_t i = 0; i < OP_CNT; i++)
		fake.nodes[i].op.bytes[FLAG + 8] = fake.nodes[i].op.bytes[FLAG];
	CU_ASSERT(flag_known());
	fake.nodes[3].op.bytes[FLAG + 8] = 0; /* one that differs is */
	CU_ASSERT_FALSE(flag_known());
	fake.nodes[4].op.bytes[FLAG + 8] = 2; /* unless it is no truth value */
	CU_ASSERT(flag_known());
	fake.nodes[5].op.bytes[FLAG] = 2;
	CU_ASSERT_FALSE(flag_known());
	fake_build(false); /* an operator that was never observed has 1 */
	fake.nodes[7].op.bytes[FLAG] = 1;
	CU_ASSERT_FALSE(flag_known());
	fake_build(false); /* too many have 0 */
	for (uint32_t i = 0; i < OP_CNT; i += 8)
		fake.nodes[i].op.bytes[FLAG] = 0;
	CU_ASSERT_FALSE(flag_known());
}

TEST("broken lists")
{
	struct live_ops lo;

	fake_build(false);
	fake.nodes[100].prev = addr_of(&fake.nodes[98]);
	CU_ASSERT_EQUAL(fake_read(false, &lo), -EAGAIN);
	fake_build(false); /* a loop that never comes back to the head */
	fake.nodes[100].next = addr_of(&fake.nodes[50]);
	CU_ASSERT_EQUAL(fake_read(false, &lo), -EAGAIN);
	fake_build(false);
	fake.nodes[100].next = 0x10;
	CU_ASSERT_EQUAL(fake_read(false, &lo), -EAGAIN);
	CU_ASSERT_PTR_NULL(lo.ops);
	fake_build(false); /* nothing registered, nothing there, no dispatcher, no process */
	fake.head[0] = fake.head[1] = addr_of(fake.head);
	CU_ASSERT_EQUAL(fake_read(false, &lo), -ENOENT);
	fake.singleton = 0x10;
	CU_ASSERT_EQUAL(fake_read(false, &lo), -EFAULT);
	fake.singleton = 0;
	CU_ASSERT_EQUAL(fake_read(false, &lo), -ENOENT);
	CU_ASSERT_EQUAL(live_ops__read(1 << 30, &fake.head[0], 1, false, 0, &lo), -ENOENT);
}

/* Twice as many nodes as the limit, linked correctly. */
TEST("endless list")
{
	struct small {
		uint64_t next, prev, words[8];
	} *nodes = calloc(200000, sizeof(*nodes));
	uint64_t singleton = addr_of(&nodes[0]), at = addr_of(&singleton);
	struct live_ops lo;

	CU_ASSERT_PTR_NOT_NULL_FATAL(nodes);
	for (uint32_t i = 0; i < 200000; i++) {
		nodes[i].next = addr_of(&nodes[(i + 1) % 200000]);
		nodes[i].prev = addr_of(&nodes[(i + 199999) % 200000]);
	}
	CU_ASSERT_EQUAL(live_ops__read(getpid(), &at, 1, false, 0, &lo), -E2BIG);
	free(nodes);
}

TEST("bad names")
{
	struct live_ops lo;
	char buf[NAME_SZ];

	fake_build(false);
	fake.nodes[10].op.words[0] = 8;                          /* unreadable */
	fake.nodes[20].op.words[1] = UINT64_MAX;                 /* endless */
	strcpy(fake.reps[31][0].text, "no name\033[2J::at all"); /* not printable */
	strcpy((char *)&fake.nodes[45].op.words[2], "nocolons");
	CU_ASSERT_EQUAL_FATAL(fake_read(false, &lo), 0);
	CU_ASSERT_EQUAL(lo.cnt, OP_CNT - 4);
	for (uint32_t i = 0; i < lo.cnt; i++)
		CU_ASSERT(lo.ops[i].opdef != addr_of(&fake.nodes[10].op) &&
			  lo.ops[i].opdef != addr_of(&fake.nodes[20].op) &&
			  lo.ops[i].opdef != addr_of(&fake.nodes[31].op) &&
			  lo.ops[i].opdef != addr_of(&fake.nodes[45].op));
	live_ops__free(&lo);
	CU_ASSERT_EQUAL(live_ops__name_at(getpid(), addr_of(&fake.nodes[10].op), false, buf, sizeof(buf)),
			-EFAULT);
	CU_ASSERT_EQUAL(live_ops__name_at(getpid(), addr_of(&fake.nodes[45].op), false, buf, sizeof(buf)),
			-EBADMSG);
	CU_ASSERT_EQUAL(live_ops__name_at(getpid(), addr_of(&fake.nodes[1].op), false, buf, 20),
			-ENAMETOOLONG);
	/* the other string layout: nothing readable at all must not pass for an empty table */
	fake_build(false);
	CU_ASSERT_EQUAL(fake_read(true, &lo), -EBADMSG);
	fake_build(true);
	CU_ASSERT_EQUAL(fake_read(false, &lo), -EBADMSG);
}

/* ---- real torch ---- */

/*
 * Prints of some operators whether the profiler recorded their calls; then every operator's name,
 * last, because importing the profiler registers more.
 */
static const char program[] =
	"import torch\n"
	"from torch.profiler import profile\n"
	"lib = torch.library.Library('ptbpf_test', 'DEF')\n"
	"lib.define('my_operator.with_an_overload(Tensor x) -> Tensor')\n"
	"x, a = torch.ones(2, 2), torch.ops.aten\n"
	"calls = {'aten::neg': lambda: a.neg(x),\n"
	"         'aten::is_complex': lambda: a.is_complex(x),\n"
	"         'aten::size.int': lambda: a.size.int(x, 0),\n"
	"         'aten::is_leaf': lambda: a.is_leaf(x),\n"
	"         'aten::output_nr': lambda: a.output_nr(x),\n"
	"         'aten::_version': lambda: a._version(x),\n"
	"         'aten::stride.int': lambda: a.stride.int(x, 0), 'aten::mm': lambda: a.mm(x, x)}\n"
	"with profile() as p:\n"
	"    for f in calls.values(): f()\n"
	"seen = {e.name for e in p.events()}\n"
	"for name in calls:\n"
	"    print('RECORDED' if name.split('.')[0] in seen else 'SILENT', name)\n"
	"for name in torch._C._dispatch_get_all_op_names(): print(name)\n";

static bool find_singleton(const struct elf_sym *sym, void *arg)
{
	if (!sym->defined || strcmp(sym->name, "_ZZN3c1010Dispatcher9singletonEvE1s"))
		return true;
	*(uint64_t *)arg = sym->addr;
	return false;
}

/* A function of torch's own with a std::string: libraries linked into it may differ. */
static bool find_old_string(const struct elf_sym *sym, void *arg)
{
	if (!sym->defined || strncmp(sym->name, "_ZN5torch8autograd8profiler", 27))
		return true;
	*(bool *)arg = strstr(sym->name, "RKSs");
	return !*(bool *)arg;
}

static int read_live(pid_t pid, struct live_ops *lo)
{
	uint64_t singletons[TORCH_LIB_ROLES] = { 0 }, addr;
	enum torch_proc_why why;
	struct torch_proc *tp;
	bool old_abi = false;
	struct elf_file *ef;
	int err;

	CU_ASSERT_EQUAL_FATAL(torch_proc__open(pid, &tp, &why), 0);
	CU_ASSERT(torch_proc__ready(tp));
	for (int role = 0; role < TORCH_LIB_ROLES; role++) {
		if (!tp->libs[role].present)
			continue; /* CUDA's */
		CU_ASSERT_EQUAL_FATAL(elf_file__open(tp->libs[role].access_path, &ef), 0);
		addr = 0;
		elf_file__for_each_sym(ef, find_singleton, &addr);
		singletons[role] = addr ? addr + tp->libs[role].load_bias : 0;
		if (role == TORCH_LIB_CPU)
			elf_file__for_each_sym(ef, find_old_string, &old_abi);
		elf_file__close(ef);
	}
	torch_proc__free(tp);
	err = live_ops__read(pid, singletons, TORCH_LIB_ROLES, old_abi, 0, lo);
	return err;
}

static int cmp_op(const void *a, const void *b)
{
	return strcmp(((const struct live_op *)a)->name, ((const struct live_op *)b)->name);
}

static const struct live_op *find_op(const struct live_ops *lo, const char *name)
{
	struct live_op key = { .name = (char *)(uintptr_t)name };

	return bsearch(&key, lo->ops, lo->cnt, sizeof(key), cmp_op);
}

/* Compares with what the process itself printed. */
static void check_against_torch(struct live_ops *lo, char *out)
{
	uint32_t names = 0, missing = 0, wrong = 0, asked = 0;
	const struct live_op *op;
	char *line, *save = NULL;

	qsort(lo->ops, lo->cnt, sizeof(*lo->ops), cmp_op);
	for (line = strtok_r(out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');

		op = find_op(lo, space ? space + 1 : line);
		missing += !op;
		names += !space;
		asked += !!space;
		if (op && space)
			wrong += op->unobserved != !strncmp(line, "SILENT", 6);
	}
	CU_ASSERT(names > 3000);
	CU_ASSERT_EQUAL(names, lo->cnt);
	CU_ASSERT_EQUAL(missing, 0);
	CU_ASSERT_EQUAL(asked, 8);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_PTR_NOT_NULL(find_op(lo, "ptbpf_test::my_operator.with_an_overload"));
}

TEST("torch itself")
{
	struct torch_env envs[TORCH_ENV_MAX];
	size_t cnt = torch_env__find(envs);
	struct torch_child child;
	struct live_ops lo;

	for (size_t i = 0; i < cnt; i++) {
		CU_ASSERT_FATAL(torch_child__start(&envs[i], program, &child));
		CU_ASSERT_EQUAL(read_live(child.pid, &lo), 0);
		CU_ASSERT(lo.observed_known);
		printf("%s: %u operators ", envs[i].name, lo.cnt);
		check_against_torch(&lo, child.out);
		live_ops__free(&lo);
		torch_child__stop(&child);
	}
}

int main(void)
{
	struct torch_env envs[TORCH_ENV_MAX];

	if (run_suite("live_ops"))
		return 1;
	return torch_env__find(envs) ? 0 : torch_env__skip();
}
