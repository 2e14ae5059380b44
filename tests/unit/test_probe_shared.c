/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Links that several processes share: who is recorded, who is not, and that nobody is harmed. A process that is not traced and runs into the
 * probes all the same (PTB_CNT_FOREIGN) shows that links are shared, and one that does not that they are not.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "probe/probe_impl.h"
#include "probe_target.h"
#include "suite.h"
#include "target/proc.h"

#define CNT 5 /* one more than the processes that share links at least */

static uint64_t foreign(struct probe_set *ps)
{
	return probe_set__counter(ps, PTB_CNT_FOREIGN);
}

static void start_all(struct target *t, const char *path)
{
	for (int i = 0; i < CNT; i++)
		target__start(&t[i], path);
}

static void stop_all(struct target *t)
{
	for (int i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(target__stop(&t[i]), 0);
}

static void expect(struct probe_set *ps, const struct target *t, uint32_t cnt)
{
	pid_t pids[CNT];

	for (uint32_t i = 0; i < cnt; i++)
		pids[i] = t[i].pid;
	probe_set__expect(ps, pids, cnt);
}

static void attach_all(struct probe_set *ps, struct target *t, uint32_t cnt, uint32_t *procs)
{
	expect(ps, t, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]), 2);
}

/* Records of one process since the last call. */
static uint32_t take(struct probe_set *ps, const struct target *t, uint32_t *others)
{
	struct records r = {};
	uint32_t n = 0;

	records__collect(&r, ps);
	for (uint32_t i = 0; i < r.cnt; i++)
		n += r.items[i]->tgid == (uint32_t)t->pid;
	*others = r.cnt - n;
	records__clear(&r);
	return n;
}

/* Runs `calls` calls in it: all of them are recorded, or none. */
static void check_calls(struct probe_set *ps, struct target *t, uint32_t calls, bool recorded)
{
	uint32_t n, others;
	char command[32];

	snprintf(command, sizeof(command), "calls %u 0", calls);
	CU_ASSERT_NOT_EQUAL(target__run(t, command), ~0ull);
	n = take(ps, t, &others);
	CU_ASSERT_EQUAL(n, recorded ? 2 * calls : 0);
	CU_ASSERT_EQUAL(others, 0);
}

TEST("each process is recorded, others are not")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT], late;
	uint32_t procs[CNT], others;
	uint64_t sum;

	start_all(t, TARGET_CALLS);
	sum = target__run(&t[0], "calls 500 3");
	expect(ps, t, CNT);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[0], NULL, op_sites, 2, &procs[0]), 2);
	CU_ASSERT_EQUAL(target__run(&t[1], "calls 500 3"), sum); /* it has breakpoints, which cost it something */
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_OUT_OF_WINDOW), 4000);
	for (uint32_t i = 1; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]), 2);
	probe_set__activate(ps);
	for (uint32_t i = 0; i < CNT; i++)
		check_calls(ps, &t[i], 100 + i, true);
	CU_ASSERT_EQUAL(foreign(ps), 0);
	target__start(&late, TARGET_CALLS); /* maps the file when the links are there */
	CU_ASSERT_EQUAL(target__run(&late, "calls 500 3"), sum);
	check_calls(ps, &late, 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 4200);
	CU_ASSERT_NOT_EQUAL(target__run(&t[2], "fork 100"), ~0ull);
	CU_ASSERT_NOT_EQUAL(target__run(&late, "fork 100"), ~0ull);
	CU_ASSERT_EQUAL(foreign(ps), 4200 + 2 * 400); /* the forks of both */
	take(ps, &late, &others);                     /* FORK of t[2] */
	probe_set__deactivate(ps);
	check_calls(ps, &late, 10, false);
	check_calls(ps, &t[3], 10, false);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_OUT_OF_WINDOW), 4020);
	CU_ASSERT_EQUAL(probe_set__bare_hits(ps, (uint32_t)t[1].pid), 4000);
	CU_ASSERT_EQUAL(probe_set__bare_hits(ps, (uint32_t)t[3].pid), 20);
	CU_ASSERT_EQUAL(probe_set__bare_hits(ps, (uint32_t)t[2].pid), 0);
	CU_ASSERT_EQUAL(foreign(ps), 5000);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__run(&late, "calls 500 3"), sum);
	CU_ASSERT_EQUAL(target__run(&t[4], "calls 500 3"), sum);
	CU_ASSERT_EQUAL(target__stop(&late), 0);
	stop_all(t);
}

/* Links of their own: the last process maps the file, too, and does not run into them. */
static void run_not_shared(uint32_t cnt, bool expected)
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	uint32_t procs[CNT];

	start_all(t, TARGET_CALLS);
	expect(ps, t, expected ? cnt : 0);
	for (uint32_t i = 0; i < cnt; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]), 2);
	probe_set__activate(ps);
	for (uint32_t i = 0; i < cnt; i++)
		check_calls(ps, &t[i], 100 + i, true);
	check_calls(ps, &t[CNT - 1], 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 0);
	probe_set__free(ps);
	stop_all(t);
}

TEST("another process maps the file: not shared")
{
	run_not_shared(CNT - 1, true);
}

TEST("other processes are not expected: not shared")
{
	run_not_shared(CNT - 1, false);
}

TEST("few processes: not shared")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[3], late;
	uint32_t procs[3];

	for (int i = 0; i < 3; i++)
		target__start(&t[i], TARGET_CALLS);
	attach_all(ps, t, 3, procs);
	target__start(&late, TARGET_CALLS);
	probe_set__activate(ps);
	check_calls(ps, &late, 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 0);
	check_calls(ps, &t[2], 100, true);
	probe_set__free(ps);
	for (int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(target__stop(&t[i]), 0);
	CU_ASSERT_EQUAL(target__stop(&late), 0);
}

/* What becomes known of a window's processes when it has begun is not known of all others. */
TEST("the window is open: not shared")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT], late;
	uint32_t procs[CNT];

	start_all(t, TARGET_CALLS);
	expect(ps, t, CNT);
	probe_set__activate(ps);
	target__start(&late, TARGET_CALLS);
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]), 2);
	check_calls(ps, &late, 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 0);
	check_calls(ps, &t[CNT - 1], 100, true);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&late), 0);
	stop_all(t);
}

TEST("processes are removed")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	uint32_t procs[CNT], again;
	uint64_t before;

	start_all(t, TARGET_CALLS);
	attach_all(ps, t, CNT, procs);
	probe_set__activate(ps);
	probe_set__remove_process(ps, procs[0]); /* the one whose attach made the links */
	check_calls(ps, &t[0], 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 200);
	for (uint32_t i = 1; i < CNT; i++)
		check_calls(ps, &t[i], 100, true);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[0], NULL, op_sites, 2, &again), 2);
	check_calls(ps, &t[0], 100, true);
	probe_set__remove_process(ps, again);
	for (uint32_t i = 1; i < CNT; i++)
		probe_set__remove_process(ps, procs[i]);
	before = foreign(ps);
	for (uint32_t i = 0; i < CNT; i++)
		check_calls(ps, &t[i], 100, false);
	CU_ASSERT_EQUAL(foreign(ps), before); /* the last one took the links with it */
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[0], NULL, op_sites, 2, &again), 2);
	check_calls(ps, &t[0], 100, true);
	probe_set__free(ps);
	stop_all(t);
}

/* An exec and the end of a process are known to the programs before user space learns of them. */
TEST("a process executes another program, one is killed")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	uint32_t procs[CNT], others;

	start_all(t, TARGET_CALLS);
	attach_all(ps, t, CNT, procs);
	probe_set__activate(ps);
	target__send(&t[1], "exec");
	target__read_sites(&t[1]);
	take(ps, &t[1], &others); /* EXEC */
	check_calls(ps, &t[1], 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 200);
	kill(t[2].pid, SIGKILL);
	CU_ASSERT_EQUAL(target__stop(&t[2]), SIGKILL);
	take(ps, &t[2], &others);
	check_calls(ps, &t[0], 100, true);
	check_calls(ps, &t[3], 100, true);
	probe_set__remove_process(ps, procs[2]);
	probe_set__remove_process(ps, procs[1]);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[1], NULL, op_sites, 2, &procs[1]), 2);
	check_calls(ps, &t[1], 100, true);
	check_calls(ps, &t[4], 100, true);
	CU_ASSERT_EQUAL(foreign(ps), 200);
	probe_set__free(ps);
	target__start(&t[2], TARGET_CALLS);
	stop_all(t);
}

/* One process has another instruction: it is refused, and none of them shares links with it. */
TEST("a process has another instruction")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	uint32_t procs[CNT];
	uint64_t addr;
	uint8_t was;

	start_all(t, TARGET_CALLS);
	addr = target__code_addr(&t[3], target__value(&t[3], "site_op_exit"));
	was = target__swap_code(&t[3], addr, 0x90);
	expect(ps, t, CNT);
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]),
				i == 3 ? -ESTALE : 2);
	CU_ASSERT_EQUAL(target__swap_code(&t[3], addr, was), 0x90); /* there has been no breakpoint */
	probe_set__activate(ps);
	check_calls(ps, &t[3], 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 0);
	check_calls(ps, &t[4], 100, true);
	probe_set__free(ps);
	stop_all(t);
}

/* One has lost a breakpoint before it is added: it has links of its own, and each hit is recorded once. */
TEST("a process has lost a breakpoint")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	struct probe_site site = { .id = 1 };
	struct probe_lib lib = { .access_path = TARGET_CALLS, .sites = &site, .cnt = 1 };
	uint32_t procs[CNT];

	start_all(t, TARGET_CALLS);
	expect(ps, t, CNT);
	for (uint32_t i = 0; i < CNT - 1; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 2, &procs[i]), 2);
	site.offset = target__value(&t[4], "site_op_exit");
	take_insns(&lib);
	CU_ASSERT_EQUAL(target__swap_code(&t[4], target__code_addr(&t[4], site.offset), site.insn[0]),
			0xcc);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[4], NULL, op_sites, 2, &procs[4]), 2);
	probe_set__activate(ps);
	for (uint32_t i = 0; i < CNT; i++)
		check_calls(ps, &t[i], 100, true);
	probe_set__remove_process(ps, procs[4]);
	check_calls(ps, &t[4], 100, false);
	check_calls(ps, &t[0], 100, true);
	probe_set__free(ps);
	stop_all(t);
}

/* What the kernel refuses is refused for all. */
TEST("refused offsets")
{
	static const struct named_site sites[] = {
		{ "site_op_enter", PTB_PROG_OP_ENTER, 0 },
		{ "refused_site", PTB_PROG_OP_ENTER, 0 },
		{ "site_op_exit", PTB_PROG_OP_EXIT, 0 },
	};
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT], late;

	start_all(t, TARGET_CALLS);
	expect(ps, t, CNT);
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, sites, 3, NULL), 2);
	probe_set__activate(ps);
	for (uint32_t i = 0; i < CNT; i++)
		check_calls(ps, &t[i], 100, true);
	target__start(&late, TARGET_CALLS);
	check_calls(ps, &late, 100, false);
	CU_ASSERT_EQUAL(foreign(ps), 200);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&late), 0);
	stop_all(t);
}

/* A process is in the set twice: its other sites have links of their own, and each hit is recorded by both. */
TEST("a process is there twice, with other sites")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT];
	uint32_t procs[CNT], more[CNT];

	start_all(t, TARGET_CALLS);
	attach_all(ps, t, CNT, procs);
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, op_sites, 1, &more[i]), 1);
	probe_set__activate(ps);
	for (uint32_t i = 0; i < CNT; i++) {
		uint32_t n, others;

		target__run(&t[i], "calls 100 0");
		n = take(ps, &t[i], &others);
		CU_ASSERT_EQUAL(n, 300);
		CU_ASSERT_EQUAL(others, 0);
		probe_set__remove_process(ps, more[i]);
		check_calls(ps, &t[i], 100, true);
	}
	CU_ASSERT_EQUAL(foreign(ps), 0);
	probe_set__free(ps);
	stop_all(t);
}

/* Where code objects end is what the memory of one process says: no other one has a breakpoint there. */
TEST("where code objects end: not shared")
{
	static const struct named_site site = { "site_op_enter", PTB_PROG_CODE_END, 0 };
	const struct probe_set_opts opts = { .follow_tasks = true, .stacks = true };
	struct probe_set *ps = NULL;
	struct target t[CNT];

	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &ps), 0);
	start_all(t, TARGET_CALLS);
	expect(ps, t, CNT);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t[0], NULL, &site, 1, NULL), 1);
	for (int i = 0; i < CNT; i++) {
		uint64_t addr = target__code_addr(&t[i], target__value(&t[i], site.name));
		uint8_t byte = 0;

		CU_ASSERT_EQUAL(remote__read(t[i].pid, addr, &byte, 1), 0);
		CU_ASSERT_EQUAL(byte == 0xcc, !i);
	}
	probe_set__free(ps);
	stop_all(t);
}

/* Exceptions through two probed frames in all of them at a time, and in one that is not traced. */
TEST("exceptions")
{
	struct probe_set *ps = open_set(1 << 25, LINKS_MULTI, true);
	struct target t[CNT], late;
	struct records r = {};
	uint64_t sum, got = 0;

	start_all(t, TARGET_THROWS);
	sum = target__run(&t[0], "throws 20000");
	expect(ps, t, CNT);
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t[i], NULL, throw_sites, 4, NULL), 4);
	target__start(&late, TARGET_THROWS);
	probe_set__activate(ps);
	target__send(&late, "throws 20000");
	for (uint32_t i = 0; i < CNT; i++)
		target__send(&t[i], "throws 20000");
	for (uint32_t i = 0; i < CNT; i++)
		CU_ASSERT(target__answer(&t[i], &got) && got == sum);
	CU_ASSERT(target__answer(&late, &got) && got == sum);
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_ENTER, 1), CNT * 20000);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_EXIT, 2), CNT * 5000);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	CU_ASSERT_EQUAL(foreign(ps), 50000);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__run(&late, "throws 20000"), sum);
	CU_ASSERT_EQUAL(target__stop(&late), 0);
	stop_all(t);
}

/* Links come and go while all of them run, and processes begin and end. */
TEST("links come and go")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct target t[CNT], late;
	uint64_t sum, got = 0;
	uint32_t procs[CNT];

	start_all(t, TARGET_CALLS);
	sum = target__run(&t[0], "threads 4 50000");
	for (int i = 0; i < repetitions(5, 100); i++) {
		struct records r = {};

		for (uint32_t k = 0; k < CNT; k++)
			target__send(&t[k], "threads 4 50000");
		attach_all(ps, t, CNT, procs);
		probe_set__activate(ps);
		target__start(&late, TARGET_CALLS);
		target__send(&late, "threads 4 50000");
		for (uint32_t k = 0; k < CNT; k++)
			probe_set__remove_process(ps, procs[(k + (uint32_t)i) % CNT]);
		probe_set__deactivate(ps);
		for (uint32_t k = 0; k < CNT; k++)
			CU_ASSERT_FATAL(target__answer(&t[k], &got) && got == sum);
		CU_ASSERT_FATAL(target__answer(&late, &got) && got == sum);
		CU_ASSERT_EQUAL(target__stop(&late), 0);
		records__collect(&r, ps);
		records__clear(&r);
	}
	probe_set__free(ps);
	stop_all(t);
}

int main(void)
{
	if (must_skip())
		return 77;
	if (!attach_multi__supported()) {
		printf("SKIP: this kernel has no uprobe_multi links\n");
		return 77;
	}
	return run_suite("probe_shared");
}
