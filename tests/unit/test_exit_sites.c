/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Exit sites of functions in assembly, each with one difficulty; the expected sites are labels in it.
 * "Work" is any indirect call. Every result is also checked by brute force (path_check.h), and random
 * bytes must end in an answer.
 */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "path_check.h"
#include "suite.h"

/* CASE(name, code): symbols name, name_end around it. Sites are labels name_s1, name_s2. */
#define CASE(name, code)                                                                           \
	__asm__(".pushsection .text\n.p2align 4\n" #name ":\n" code "\n" #name                     \
		"_end: int3\n.popsection\n");                                                      \
	extern const uint8_t name[], name##_end[]

/* what an operator looks like: step callbacks tested after the kernel */
CASE(plain, "push %rbx; sub $64,%rsp; call *%rax; cmpb $0,(%rsp); plain_s1: je 1f; call helper;"
	    "1: add $64,%rsp; pop %rbx; ret");
extern const uint8_t plain_s1[];

/* a jump that dominates the return but precedes the kernel call */
CASE(early, "push %rbx; test %rdi,%rdi; jne 1f; 1: call *%rax; mov %rax,%rbx; pop %rbx; ret");

/* two epilogues with a jump each */
CASE(two, "push %rbx; test %rdi,%rdi; je 2f; call *%rax; test %rax,%rax; two_s1: je 1f; nop; 1: pop %rbx; ret;"
	  "2: call *%rcx; test %rax,%rax; two_s2: jne 3f; mov %eax,%ebx; 3: pop %rbx; ret");
extern const uint8_t two_s1[], two_s2[];

/* two epilogues, one of them without an emulated instruction */
CASE(half, "push %rbx; test %rdi,%rdi; je 2f; call *%rax; test %rax,%rax; je 1f; mov %eax,%ebx; 1: pop %rbx; ret;"
	   "2: call *%rcx; pop %rbx; ret");

/* the only emulated instructions behind the work are on a loop */
CASE(loop, "push %rbx; mov $3,%ebx; call *%rax; 1: dec %ebx; jne 1b; pop %rbx; ret");

/* behind the loop there is one that is not */
CASE(after_loop,
     "push %rbx; mov $3,%ebx; call *%rax; 1: dec %ebx; jne 1b; after_loop_s1: call helper; pop %rbx; ret");
extern const uint8_t after_loop_s1[];

/* work in a loop: the jump back is before more work */
CASE(work_loop,
     "push %rbx; 1: call *%rax; dec %ebx; jne 1b; test %eax,%eax; work_loop_s1: je 2f; mov %eax,%ebx; 2: pop %rbx; ret");
extern const uint8_t work_loop_s1[];

/* a path that does no work must cross the site too */
CASE(bypass,
     "push %rbx; test %rdi,%rdi; je 1f; call *%rax; 1: test %eax,%eax; bypass_s1: je 2f; mov %eax,%ebx; 2: pop %rbx; ret");
extern const uint8_t bypass_s1[];

/* one path crosses the first candidate and the second: a cut may hold only one of them */
CASE(once, "push %rbx; call *%rax; test %eax,%eax; je 1f; test %ebx,%ebx; jne 1f; mov %eax,%ebx; 1: once_s1: call helper; pop %rbx; ret");
extern const uint8_t once_s1[];

/* a call that never returns on the path that would reach the return without a site */
CASE(noreturn,
     "push %rbx; call *%rax; test %eax,%eax; noreturn_s1: je 1f; pop %rbx; ret; 1: call fatal; pop %rbx; ret");
extern const uint8_t noreturn_s1[];

/* a switch behind the work; all cases meet at one call */
CASE(table,
     "push %rbx; call *%rcx; cmp $2,%eax; ja 9f; lea table_t(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; notrack jmp *%rax;"
     "table_a: mov $1,%ebx; jmp 9f; table_b: mov $2,%ebx; jmp 9f; table_c: mov $3,%ebx;"
     "9: table_s1: call helper; pop %rbx; ret; .p2align 2; table_t: .long table_a-table_t, table_b-table_t, table_c-table_t");
extern const uint8_t table_s1[];

/* the same switch, with a case that returns by itself: only the check of the bound is on all paths */
CASE(table_ret,
     "push %rbx; call *%rcx; cmp $1,%eax; table_ret_s1: ja 9f; lea table_ret_t(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax;"
     "table_ret_a: pop %rbx; ret; table_ret_b: mov $2,%ebx;"
     "9: call helper; pop %rbx; ret; .p2align 2; table_ret_t: .long table_ret_a-table_ret_t, table_ret_b-table_ret_t");
extern const uint8_t table_ret_s1[];

/* a computed jump that nothing explains */
CASE(computed, "push %rbx; call *%rcx; lea (%rdi,%rsi,8),%rax; jmp *%rax; pop %rbx; ret");

/* the work is a tail call through a vtable: nothing is late */
CASE(tail, "push %rbx; call *%rcx; pop %rbx; mov (%rdi),%rax; jmp *0x10(%rax)");

/* a tail call that only frees */
CASE(tail_free, "push %rbx; call *%rcx; pop %rbx; tail_free_s1: jmp cheap");
extern const uint8_t tail_free_s1[];

/* work and nothing emulated behind it */
CASE(bare, "push %rbx; call *%rcx; mov %rax,%rbx; pop %rbx; ret");

/* the return lies in the .cold part, whose jumps count as the function's own */
CASE(hot, "push %rbx; call *%rcx; test %eax,%eax; hot_s1: je hot_cold; call helper; pop %rbx; ret");
CASE(hot_cold, "mov $1,%eax; pop %rbx; ret");
extern const uint8_t hot_s1[];

/* a path without work avoids the site */
CASE(skip, "push %rbx; test %rdi,%rdi; je 3f; call *%rax; test %eax,%eax; skip_s1: jne 2f; 1: pop %rbx; ret;"
	   "3: mov $1,%eax; 2: mov %eax,%ebx; jmp 1b");
extern const uint8_t skip_s1[];

/* bytes that are no instruction, on a path and not on a path */
CASE(garbage, "push %rbx; call *%rcx; test %eax,%eax; je 1f; .byte 0x06; 1: pop %rbx; ret");
CASE(unreached, "push %rbx; call *%rcx; unreached_s1: jmp 1f; .byte 0x06; 1: pop %rbx; ret");
extern const uint8_t unreached_s1[];

/* it never returns */
CASE(forever, "1: call *%rcx; jmp 1b");

CASE(helper, "mov %rdi,%rax; ret");
CASE(cheap, "ret");
CASE(fatal, "ud2");

/* ---- entries ---- */
CASE(e_push, "e_push_s1: push %rbp; mov %rdi,%rbx; ret");
CASE(e_endbr, "endbr64; e_endbr_s1: push %rbp; ret");
CASE(e_cmp, "cmpb $0,0x68(%rdi); e_cmp_s1: je 1f; nop; 1: ret");
CASE(e_clobber, "mov $1,%edi; push %rbp; ret");
CASE(e_moved, "sub $8,%rsp; push %rbp; ret");
CASE(e_none, "mov (%rdi),%rax; ret");
CASE(e_loop, "1: push %rbp; dec %eax; jne 1b; ret");
extern const uint8_t e_push_s1[], e_endbr_s1[], e_cmp_s1[];

struct func_case {
	const char *name;
	const uint8_t *start, *end;
	uint8_t why;
	const uint8_t *sites[2];
};

#define ROW(name, why, ...)                                                                        \
	{                                                                                          \
#name, name, name##_end, PTB_REFUSE_##why,                                         \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
static const struct func_case cases[] = {
	ROW(plain, NONE, plain_s1, NULL),
	ROW(early, NO_EXIT, NULL, NULL),
	ROW(two, NONE, two_s1, two_s2),
	ROW(half, NO_EXIT, NULL, NULL),
	ROW(loop, NO_EXIT, NULL, NULL),
	ROW(after_loop, NONE, after_loop_s1, NULL),
	ROW(work_loop, NONE, work_loop_s1, NULL),
	ROW(bypass, NONE, bypass_s1, NULL),
	ROW(once, NONE, once_s1, NULL),
	ROW(noreturn, NONE, noreturn_s1, NULL),
	ROW(table, NONE, table_s1, NULL),
	ROW(table_ret, NONE, table_ret_s1, NULL),
	ROW(computed, COMPUTED_JUMP, NULL, NULL),
	ROW(tail, NO_EXIT, NULL, NULL),
	ROW(tail_free, NONE, tail_free_s1, NULL),
	ROW(bare, NO_EXIT, NULL, NULL),
	ROW(hot, NONE, hot_s1, NULL),
	ROW(garbage, UNDECODED, NULL, NULL),
	ROW(unreached, NONE, unreached_s1, NULL),
	ROW(skip, NO_EXIT, NULL, NULL),
	ROW(forever, NO_EXIT, NULL, NULL),
};
static const struct func_case others[] = {
	ROW(hot_cold, NONE, NULL),
	ROW(helper, NONE, NULL),
	ROW(cheap, NONE, NULL),
	ROW(fatal, NONE, NULL),
};
static const struct func_case entries[] = {
	ROW(e_push, NONE, e_push_s1, NULL), ROW(e_endbr, NONE, e_endbr_s1, NULL),
	ROW(e_cmp, NONE, e_cmp_s1, NULL),   ROW(e_clobber, NO_ENTRY, NULL, NULL),
	ROW(e_moved, NO_ENTRY, NULL, NULL), ROW(e_none, NO_ENTRY, NULL, NULL),
	ROW(e_loop, NO_ENTRY, NULL, NULL),
};

/* ---- this program's own code as the source ---- */

#define CNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct func_case *find_case(uint64_t addr)
{
	static const struct {
		const struct func_case *rows;
		size_t cnt;
	} all[] = { { cases, CNT(cases) }, { others, CNT(others) }, { entries, CNT(entries) } };

	for (size_t k = 0; k < CNT(all); k++)
		for (size_t i = 0; i < all[k].cnt; i++)
			if (addr >= (uintptr_t)all[k].rows[i].start &&
			    addr < (uintptr_t)all[k].rows[i].end)
				return &all[k].rows[i];
	return NULL;
}

static const uint8_t *text(void *arg, uint64_t addr, uint64_t *avail)
{
	const struct func_case *c = find_case(addr);

	(void)arg;
	*avail = c ? (uintptr_t)c->end - addr : 0;
	return c ? (const uint8_t *)(uintptr_t)addr : NULL;
}

static const uint8_t *data(void *arg, uint64_t addr, uint64_t len)
{
	uint64_t avail;
	const uint8_t *p = text(arg, addr, &avail);

	return avail >= len ? p : NULL;
}

static enum code_range range(void *arg, uint64_t addr, uint64_t *start, uint64_t *end)
{
	const struct func_case *c = find_case(addr);

	(void)arg;
	if (!c)
		return CODE_NONE;
	*start = (uintptr_t)c->start;
	*end = (uintptr_t)c->end;
	return c->start == hot_cold ? CODE_COLD : CODE_FUNC;
}

static bool returns(void *arg, uint64_t callee)
{
	(void)arg;
	return callee != (uintptr_t)fatal;
}

static bool is_cheap(void *arg, uint64_t target)
{
	(void)arg;
	return target == (uintptr_t)cheap;
}

static const struct code_src src = { NULL, text, data, range, returns };

/* ---- tests ---- */

static void mark_indirect_calls(struct exit_finder *x, const struct flow *f)
{
	for (uint32_t i = 0; i < f->cnt; i++)
		if (f->nodes[i].in.cls == INSN_CALL_IND)
			x->work[i] = 1;
}

static void expect_sites(const struct func_case *c, const struct flow *f, const struct exit_sites *ex)
{
	uint32_t want = (uint32_t)(c->sites[0] != NULL) + (c->sites[1] != NULL), hit = 0;

	for (uint32_t i = 0; i < ex->cnt; i++)
		for (uint32_t k = 0; k < 2; k++)
			hit += c->sites[k] && f->nodes[ex->nodes[i]].in.addr == (uintptr_t)c->sites[k];
	if (hit != want || ex->cnt != want)
		printf(" %s: %u sites, %u as expected, reason %u;", c->name, ex->cnt, hit, ex->why);
	CU_ASSERT_EQUAL(ex->cnt, want);
	CU_ASSERT_EQUAL(hit, want);
}

static void run_case(struct flow *f, struct exit_finder *x, const struct func_case *c)
{
	struct exit_sites ex = { 0 };
	struct path_faults bad;
	enum ptb_refusal why;
	uint8_t *work;

	flow__build(f, &src, (uintptr_t)c->start, &why);
	if (why == PTB_REFUSE_NONE) {
		exit_finder__prepare(x, f);
		mark_indirect_calls(x, f);
		work = malloc(f->cnt);
		CU_ASSERT_FATAL(work != NULL);
		memcpy(work, x->work, f->cnt);
		exit_sites__find(x, f, is_cheap, NULL, &ex);
		why = ex.why;
		if (why == PTB_REFUSE_NONE) {
			bad = path_check(f, work, ex.nodes, ex.cnt);
			CU_ASSERT(!bad.avoided && !bad.work_after && !bad.twice);
		}
		free(work);
	}
	if (why != (enum ptb_refusal)c->why)
		printf(" %s: reason %u instead of %u;", c->name, why, c->why);
	CU_ASSERT_EQUAL(why, (enum ptb_refusal)c->why);
	if (why == PTB_REFUSE_NONE && c->why == PTB_REFUSE_NONE)
		expect_sites(c, f, &ex);
}

TEST("exit sites")
{
	struct exit_finder x = { 0 };
	struct flow f;

	flow__init(&f);
	for (size_t i = 0; i < CNT(cases); i++)
		run_case(&f, &x, &cases[i]);
	exit_finder__free(&x);
	flow__free(&f);
}

/* Paths without work may have no site; this rule may find sites where the rule for all paths finds none. */
TEST("only paths with work")
{
	static const struct {
		const struct func_case row;
	} rows[] = {
		{ ROW(skip, NONE, skip_s1, NULL) },      { ROW(plain, NONE, plain_s1, NULL) },
		{ ROW(two, NONE, two_s1, two_s2) },      { ROW(half, NO_EXIT, NULL, NULL) },
		{ ROW(tail, NO_EXIT, NULL, NULL) },      { ROW(bare, NO_EXIT, NULL, NULL) },
		{ ROW(work_loop, NO_EXIT, NULL, NULL) }, { ROW(helper, NO_EXIT, NULL, NULL) },
	};
	struct exit_finder x = { 0 };
	struct exit_sites ex;
	enum ptb_refusal why;
	struct flow f;

	flow__init(&f);
	for (size_t i = 0; i < CNT(rows); i++) {
		flow__build(&f, &src, (uintptr_t)rows[i].row.start, &why);
		CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
		exit_finder__prepare(&x, &f);
		mark_indirect_calls(&x, &f);
		for (uint32_t k = 0; k < f.cnt; k++)
			x.work[k] |= f.nodes[k].leaves;
		exit_sites__after_work(&x, &f, &ex);
		CU_ASSERT_EQUAL(ex.why, (enum ptb_refusal)rows[i].row.why);
		expect_sites(&rows[i].row, &f, &ex);
	}
	exit_finder__free(&x);
	flow__free(&f);
}

TEST("entry sites")
{
	enum ptb_refusal why;
	struct flow f;
	uint32_t at;

	flow__init(&f);
	for (size_t i = 0; i < CNT(entries); i++) {
		const struct func_case *c = &entries[i];

		flow__build(&f, &src, (uintptr_t)c->start, &why);
		CU_ASSERT_EQUAL_FATAL(why, PTB_REFUSE_NONE);
		at = entry_site__find(&f, (uintptr_t)c->start, ENTRY_ALL_ARGS);
		if (!c->sites[0]) {
			CU_ASSERT_EQUAL(at, FLOW_NONE);
			continue;
		}
		CU_ASSERT_NOT_EQUAL_FATAL(at, FLOW_NONE);
		CU_ASSERT_EQUAL(f.nodes[at].in.addr, (uintptr_t)c->sites[0]);
	}
	flow__free(&f);
}

/* The checker itself must find fault where there is one. */
TEST("the checker finds faults")
{
	struct flow f;
	struct path_faults bad;
	enum ptb_refusal why;
	uint8_t work[64] = { 0 };
	uint32_t sites[1];

	flow__init(&f);
	flow__build(&f, &src, (uintptr_t)early, &why);
	CU_ASSERT_FATAL(f.cnt < sizeof(work));
	for (uint32_t i = 0; i < f.cnt; i++) {
		work[i] = f.nodes[i].in.cls == INSN_CALL_IND;
		if (f.nodes[i].in.cls == INSN_JCC)
			sites[0] = i;
	}
	bad = path_check(&f, work, sites, 1);
	CU_ASSERT(bad.work_after > 0 && !bad.avoided);
	bad = path_check(&f, work, sites, 0);
	CU_ASSERT(bad.avoided > 0);
	flow__free(&f);
}

/* ---- rubbish as code ---- */

#define RUBBISH_SZ 512
static uint8_t rubbish[RUBBISH_SZ];

static const uint8_t *rubbish_text(void *arg, uint64_t addr, uint64_t *avail)
{
	(void)arg;
	*avail = addr < RUBBISH_SZ ? RUBBISH_SZ - addr : 0;
	return addr < RUBBISH_SZ ? rubbish + addr : NULL;
}

static const uint8_t *rubbish_data(void *arg, uint64_t addr, uint64_t len)
{
	(void)arg;
	return addr < RUBBISH_SZ && len <= RUBBISH_SZ - addr ? rubbish + addr : NULL;
}

/* Four "functions" in it, of every kind. */
static enum code_range rubbish_range(void *arg, uint64_t addr, uint64_t *start, uint64_t *end)
{
	static const enum code_range kinds[] = { CODE_FUNC, CODE_COLD, CODE_UNKNOWN, CODE_NONE };

	(void)arg;
	if (addr >= RUBBISH_SZ)
		return CODE_NONE;
	*start = addr & ~127ULL;
	*end = *start + 128;
	return kinds[addr / 128];
}

static bool rubbish_returns(void *arg, uint64_t callee)
{
	(void)arg;
	return callee & 1;
}

/* Bytes that make branches, tables and calls likely. */
static uint8_t likely_byte(void)
{
	static const uint8_t bytes[] = { 0x74, 0xeb, 0xe8, 0xe9, 0x0f, 0x85, 0xff, 0xe0, 0xd0, 0xc3,
					 0x48, 0x63, 0x04, 0x82, 0x8d, 0x15, 0x01, 0xd0, 0x77, 0x83,
					 0xf8, 0x05, 0x3e, 0x55, 0x90, 0x00, 0x00, 0x00, 0x10, 0xf0 };

	return rand() & 3 ? bytes[(size_t)rand() % sizeof(bytes)] : (uint8_t)(rand() >> 7);
}

/* The sites for paths with work only. Returns whether there are any. */
static bool check_after_work(struct exit_finder *x, struct flow *f)
{
	uint8_t work[4 * RUBBISH_SZ];
	struct path_faults bad;
	struct exit_sites ex;
	bool any;

	exit_finder__prepare(x, f);
	mark_indirect_calls(x, f);
	for (uint32_t i = 0; i < f->cnt; i++)
		x->work[i] |= f->nodes[i].leaves && f->nodes[i].in.cls == INSN_JMP_IND;
	memcpy(work, x->work, f->cnt);
	exit_sites__after_work(x, f, &ex);
	if (ex.why != PTB_REFUSE_NONE)
		return false;
	bad = path_check_after(f, work, ex.nodes, ex.cnt, &any);
	if (!any || bad.avoided || bad.work_after || bad.twice)
		CU_FAIL("sites behind the work of random code are wrong");
	return true;
}

TEST("random code")
{
	static const struct code_src bad_src = { NULL, rubbish_text, rubbish_data, rubbish_range,
						 rubbish_returns };
	struct exit_finder x = { 0 };
	struct arg_flow af = { 0 };
	uint32_t found = 0, after = 0;
	struct exit_sites ex;
	struct path_faults bad;
	enum ptb_refusal why;
	uint8_t work[4 * RUBBISH_SZ];
	struct flow f;

	srand(7);
	flow__init(&f);
	for (uint32_t round = 0; round < 20000; round++) {
		for (uint32_t i = 0; i < RUBBISH_SZ; i++)
			rubbish[i] = likely_byte();
		flow__build(&f, &bad_src, 0, &why);
		if (why != PTB_REFUSE_NONE)
			continue;
		exit_finder__prepare(&x, &f);
		mark_indirect_calls(&x, &f);
		CU_ASSERT_FATAL(f.cnt <= sizeof(work));
		memcpy(work, x.work, f.cnt);
		exit_sites__find(&x, &f, is_cheap, NULL, &ex);
		entry_site__find(&f, 0, ENTRY_ALL_ARGS);
		after += check_after_work(&x, &f);
		arg_flow__follow(&af, &f);
		if (ex.why != PTB_REFUSE_NONE)
			continue;
		found++;
		bad = path_check(&f, work, ex.nodes, ex.cnt);
		if (bad.avoided || bad.work_after || bad.twice)
			CU_FAIL("sites of random code are wrong");
	}
	CU_ASSERT(found > 50);
	CU_ASSERT(after > 50);
	arg_flow__free(&af);
	exit_finder__free(&x);
	flow__free(&f);
}

SUITE("exit_sites")
