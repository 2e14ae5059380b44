/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* --when: which hits of a script of annotations, operators, nodes and threads have records (tests/workloads/target_calls.c). */
#include <stdio.h>
#include <string.h>

#include "probe_target.h"
#include "suite.h"

/* A record is one character: its site's, and of operators in lower case. */
static const struct {
	const char *name;
	uint8_t prog;
	uint8_t func;
	char mark;
} sites[] = {
	{ "site_op_enter", PTB_PROG_OP_ENTER, 1, 'o' },
	{ "site_op_exit", PTB_PROG_OP_EXIT, 1, 'x' },
	{ "site_outer_enter", PTB_PROG_OP_ENTER, 2, '(' },
	{ "site_outer_exit", PTB_PROG_OP_EXIT, 2, ')' },
	{ "site_node_enter", PTB_PROG_NODE_ENTER, 3, '[' },
	{ "site_node_exit", PTB_PROG_OP_EXIT, 3, ']' },
	{ "site_announce_enter", PTB_PROG_SCOPE_STRING, 4, 'N' },
	{ "site_ctor_enter", PTB_PROG_SCOPE_CTOR, 5, 'B' },
	{ "site_end_enter", PTB_PROG_SCOPE_END, 6, 'E' },
};
#define SITES (sizeof(sites) / sizeof(sites[0]))

static struct probe_set *open_when_set(enum links links, const char *when, uint32_t every)
{
	struct probe_set_opts opts = { .follow_tasks = true,
				       .force_perf = links != LINKS_MULTI,
				       .perf_single = links == LINKS_SINGLE,
				       .when = when,
				       .every = every };
	struct probe_set *ps = NULL;

	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &ps), 0);
	return ps;
}

static void attach(struct probe_set *ps, struct target *t)
{
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid,
				    .node_seq_off = PTB_OFF_UNKNOWN,
				    .node_thread_off = PTB_OFF_UNKNOWN,
				    .pynode_obj_off = PTB_OFF_UNKNOWN };
	struct probe_site list[SITES] = {};
	struct probe_lib lib = { .access_path = t->path, .sites = list, .cnt = SITES };
	uint32_t idx;

	for (uint32_t i = 0; i < SITES; i++) {
		list[i].id = i + 1;
		list[i].func = sites[i].func;
		list[i].prog = sites[i].prog;
		list[i].offset = target__value(t, sites[i].name);
	}
	take_insns(&lib);
	CU_ASSERT_EQUAL_FATAL(probe_set__add_process(ps, &cfg, &lib, 1, &idx), SITES);
}

/* The records of a script, in a window of its own. */
static void run_script(struct probe_set *ps, struct target *t, const char *script, char *got, size_t cap)
{
	struct records r = {};
	char cmd[256];
	size_t n = 0;

	snprintf(cmd, sizeof(cmd), "script %s", script);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(t, cmd), 0);
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	records__sort_by_time(&r);
	for (uint32_t i = 0; i < r.cnt && n + 1 < cap; i++)
		if (r.items[i]->site)
			got[n++] = sites[r.items[i]->site - 1].mark;
	got[n] = '\0';
	records__clear(&r);
}

struct row {
	const char *script, *want;
};

static void run_rows(enum links links, const char *when, uint32_t every, const struct row *rows)
{
	struct probe_set *ps = open_when_set(links, when, every);
	struct target t;
	char got[1024];

	target__start(&t, TARGET_CALLS);
	attach(ps, &t);
	for (; rows->script; rows++) {
		run_script(ps, &t, rows->script, got, sizeof(got));
		if (strcmp(got, rows->want) != 0)
			printf("\n'%s' %s: '%s' instead of '%s'\n", when, rows->script, got, rows->want);
		CU_ASSERT_STRING_EQUAL(got, rows->want);
	}
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_WHEN_NO_ROOM), 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static const struct row nesting[] = {
	{ "opoeo", "NBoxE" },
	{ "doepdoeoedoe", "NBNBoxEoxE" },
	{ "ppoeoeo", "NBNBoxEoxE" },
	{ "qoepoe", "NBoxE" },
	/* operators are recorded whole or not at all */
	{ "(poeo)o", "NBoxE" },
	{ "p(oeo)o", "NB(oxE)" },
	{ "p(oe(o)o)o", "NB(oxE)" },
	{ "p((oe(o)o)o)(o)", "NB((oxE))" },
	{ "(p(e(pe)))", "NB(ENBE)" },
	{ "fo", "" }, /* an end without a begin */
	{ NULL, NULL },
};

static const struct row threads[] = {
	{ "p{o}eo", "NBoxE" },
	{ "p{doeo}oe", "NBoxE" },
	{ "d{poeo}oeo", "NBoxE" },
	{ "p{of}oe", "NBoxE" },
	/* the thread ends in its annotation */
	{ "{po}o{o}", "NBox" },
	/* annotations inside a backward node are hooks' */
	{ "p{[doeo]o}e", "NB[NBoxEox]oxE" },
	{ "p{[oe]o}e", "NB[ox]oxE" },
	{ "{[doeo]o}", "" },
	{ "d[poeo]oe", "NBoxE" },
	{ "[o]p{[o]}e[o]", "NB[ox]E" },
	{ NULL, NULL },
};

static const struct row thirds[] = {
	{ "poepoepoepoeo", "NBoxENBoxE" },
	{ "ppoeepoepdpoeeepoe", "NBNBoxEENBoxE" },
	{ NULL, NULL },
};

static const struct row prefix[] = {
	{ "qoepoedoe", "NBoxENBoxE" },
	{ NULL, NULL },
};

static const struct row any[] = {
	{ "opoedoeo", "NBoxENBoxE" },
	{ NULL, NULL },
};

static const struct row none[] = {
	{ "qoepoe", "" },
	{ NULL, NULL },
};

static void test_nesting(void)
{
	run_rows(LINKS_MULTI, "prefill", 0, nesting);
	run_rows(LINKS_TRACE, "prefill", 0, nesting);
}

static void test_threads(void)
{
	run_rows(LINKS_MULTI, "prefill", 1, threads);
}

static void test_names(void)
{
	run_rows(LINKS_MULTI, "prefill*", 0, prefix);
	run_rows(LINKS_MULTI, "*", 0, any);
	run_rows(LINKS_MULTI, "prefill 2 and more than the name has", 0, none);
}

static void test_every(void)
{
	run_rows(LINKS_MULTI, "prefill", 3, thirds);
}

/* More functions inside one another than a thread has room for: the outermost ones' ends are missing, and counted. */
static void test_room(void)
{
	struct probe_set *ps = open_when_set(LINKS_MULTI, "prefill", 0);
	char script[180] = "p", got[1024];
	uint32_t ends = 0;
	struct target t;

	memset(script + 1, '(', 130);
	target__start(&t, TARGET_CALLS);
	attach(ps, &t);
	run_script(ps, &t, script, got, sizeof(got));
	for (const char *p = got; *p; p++)
		ends += *p == ')';
	CU_ASSERT_EQUAL(ends, 128);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_WHEN_NO_ROOM), 2);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_WHEN_RECORDED), 1);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_WHEN_OUTSIDE), 2);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "nesting", test_nesting }, { "threads", test_threads }, { "names", test_names },
		{ "every", test_every },     { "room", test_room },       CU_TEST_INFO_NULL,
	};

	if (must_skip())
		return 77;
	return run_suite("probe_when", tests);
}
