/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CUDA calls as the host makes them: their arguments in every shape, ends, results, and calls inside calls. */
#include "probe_target.h"
#include "suite.h"

#define P(n) (0x7000000000ull + (n))
#define NONE PTB_CUDA_NO_KIND
#define ENTER PTB_PROG_CUDA_ENTER
#define EXIT PTB_PROG_CUDA_EXIT
#define NO_STREAM ~0ull

/* Two sites of one function; tags are the numbers of the rows. */
/* clang-format off */
#define BOTH(name, nr, args)                                                    \
	{"site_" name "_enter", ENTER, (args) | PTB_CUDA_RESULT | PTB_API_TAG(nr)}, \
	{"site_" name "_exit", EXIT, (args) | PTB_CUDA_RESULT | PTB_API_TAG(nr)}
/* clang-format on */

static const struct named_site first_half[] = {
	BOTH("launch", 1, PTB_CUDA_ARGS(PTB_CUDA_LAUNCH, NONE, 0)),
	BOTH("config", 2, PTB_CUDA_ARGS(PTB_CUDA_LAUNCH_CONFIG, NONE, 0)),
	BOTH("cu_launch", 3, PTB_CUDA_ARGS(PTB_CUDA_CU_LAUNCH, NONE, 0)),
	BOTH("copy", 4, PTB_CUDA_ARGS(PTB_CUDA_COPY_ASYNC, NONE, 0)),
	BOTH("symbol", 5, PTB_CUDA_ARGS(PTB_CUDA_COPY_SYMBOL_ASYNC, NONE, 0)),
	BOTH("copy_2d", 6, PTB_CUDA_ARGS(PTB_CUDA_COPY_2D_ASYNC, NONE, 0)),
	BOTH("peer", 7, PTB_CUDA_ARGS(PTB_CUDA_COPY_PEER_ASYNC, NONE, 0)),
	BOTH("copy_3d", 8, PTB_CUDA_ARGS(PTB_CUDA_COPY_3D_ASYNC, NONE, 0)),
	BOTH("cu_copy", 9, PTB_CUDA_ARGS(PTB_CUDA_CU_COPY_ASYNC, 1, 0)),
	BOTH("cu_copy_2d", 10, PTB_CUDA_ARGS(PTB_CUDA_CU_COPY_2D_ASYNC, NONE, 0)),
	BOTH("cu_copy_3d", 11, PTB_CUDA_ARGS(PTB_CUDA_CU_COPY_3D_ASYNC, NONE, 0)),
};

static const struct named_site second_half[] = {
	BOTH("set", 12, PTB_CUDA_ARGS(PTB_CUDA_SET_ASYNC, NONE, 2)),
	BOTH("set_2d", 13, PTB_CUDA_ARGS(PTB_CUDA_SET_2D_ASYNC, NONE, 1)),
	BOTH("set_3d", 14, PTB_CUDA_ARGS(PTB_CUDA_SET_3D_ASYNC, NONE, 0)),
	BOTH("stream", 15, PTB_CUDA_ARGS(PTB_CUDA_STREAM, NONE, 0)),
	BOTH("record", 16, PTB_CUDA_ARGS(PTB_CUDA_EVENT_RECORD, NONE, 0)),
	BOTH("graph", 17, PTB_CUDA_ARGS(PTB_CUDA_GRAPH, NONE, 0)),
	BOTH("other", 18, PTB_CUDA_ARGS(PTB_CUDA_OTHER, NONE, 0)),
	BOTH("launch", 19, PTB_CUDA_ARGS(PTB_CUDA_OTHER, NONE, 0)),
	BOTH("copy", 20, PTB_CUDA_ARGS(PTB_CUDA_COPY, NONE, 0)),
	BOTH("cu_copy", 21, PTB_CUDA_ARGS(PTB_CUDA_CU_COPY, 3, 0)),
};

#define CNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

static struct probe_set *open_cuda(enum links links)
{
	const struct probe_set_opts opts = { .force_perf = links != LINKS_MULTI, .cuda_calls = true };
	struct probe_set *ps = NULL;

	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &ps), 0);
	return ps;
}

struct expected {
	int call; /* "one N" */
	uint32_t site;
	uint64_t func, stream, bytes;
	uint32_t grid[3], block[3], shared, kind;
	uint8_t flags;
};

static const struct expected first_calls[] = {
	{ 0, 1, P(1), P(8), 0, { 1, 2, 3 }, { 4, 5, 6 }, 7, 0xff, 0 },
	{ 1, 3, P(2), P(17), 0, { 10, 11, 12 }, { 13, 14, 15 }, 16, 0xff, 0 },
	{ 2, 5, P(3), P(28), 0, { 21, 22, 23 }, { 24, 25, 26 }, 27, 0xff, 0 },
	{ 3, 7, 0, P(9), 300, { 0 }, { 0 }, 0, 2, 0 },
	{ 4, 9, 0, P(10), 400, { 0 }, { 0 }, 0, 1, 0 },
	{ 5, 11, 0, P(11), 300, { 0 }, { 0 }, 0, 3, 0 },
	{ 6, 13, 0, P(12), 600, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 7, 15, 0, P(13), 120, { 0 }, { 0 }, 0, 3, 0 },
	{ 8, 15, 0, 0, 0, { 0 }, { 0 }, 0, 3, 0 }, /* an array's elements are not bytes */
	{ 9, 17, 0, P(14), 900, { 0 }, { 0 }, 0, 1, 0 },
	{ 10, 19, 0, P(15), 120, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 11, 21, 0, P(16), 300, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 18, 3, P(2), NO_STREAM, 0, { 0 }, { 0 }, 0, 0xff, PTB_F_READ_FAULT },
};

static const struct expected second_calls[] = {
	{ 12, 1, 0, P(18), 4800, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 13, 3, 0, P(19), 240, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 14, 5, 0, P(20), 600, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 15, 7, 0, P(21), 0, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 16, 9, 0, P(22), 0, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 17, 11, P(4), P(23), 0, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 19, 13, 0, NO_STREAM, 0, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 0, 15, 0, NO_STREAM, 0, { 0 }, { 0 }, 0, 0xff, 0 },
	{ 3, 17, 0, NO_STREAM, 300, { 0 }, { 0 }, 0, 2, 0 },
	{ 9, 19, 0, NO_STREAM, 900, { 0 }, { 0 }, 0, 3, 0 },
};

static void check_call(const struct ptb_cuda_call *c, const struct expected *e, int32_t result)
{
	CU_ASSERT_FATAL(c != NULL);
	CU_ASSERT_EQUAL(c->h.len, sizeof(*c));
	CU_ASSERT_EQUAL(c->h.site, e->site);
	CU_ASSERT_EQUAL(c->h.flags, e->flags);
	CU_ASSERT_EQUAL(c->func, e->func);
	CU_ASSERT_EQUAL(c->stream, e->stream);
	CU_ASSERT_EQUAL(c->bytes, e->bytes);
	CU_ASSERT_EQUAL(c->shared, e->shared);
	CU_ASSERT_EQUAL(c->copy_kind, e->kind);
	CU_ASSERT(!memcmp(c->grid, e->grid, sizeof(c->grid)) &&
		  !memcmp(c->block, e->block, sizeof(c->block)));
	CU_ASSERT_EQUAL(c->flags, PTB_CUDA_HAS_RESULT);
	CU_ASSERT_EQUAL(c->result, result);
	CU_ASSERT(c->sp && c->begin_ns && c->begin_ns < c->h.ts_ns);
}

static void run_shapes(enum links links, const struct named_site *sites, uint32_t site_cnt,
		       const struct expected *calls, uint32_t call_cnt)
{
	struct probe_set *ps = open_cuda(links);
	struct records r = {};
	char command[32];
	struct target t;

	target__start(&t, TARGET_CUDA_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, sites, site_cnt, NULL), (int)site_cnt);
	target__run(&t, "one 0");
	probe_set__activate(ps);
	for (uint32_t i = 0; i < call_cnt; i++) {
		snprintf(command, sizeof(command), "result %d", i % 3 ? 0 : 700 + (int)i);
		target__run(&t, command);
		snprintf(command, sizeof(command), "one %d", calls[i].call);
		target__run(&t, command);
		records__collect(&r, ps);
		CU_ASSERT_EQUAL(r.cnt, 1);
		check_call(records__find(&r, PTB_REC_CUDA_CALL, 0), &calls[i], i % 3 ? 0 : 700 + (int)i);
		records__clear(&r);
	}
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CUDA_NO_END), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CUDA_NESTED), 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("launches and copies (uprobe_multi)")
{
	run_shapes(LINKS_MULTI, first_half, CNT(first_half), first_calls, CNT(first_calls));
}

TEST("fills and the rest (uprobe_multi)")
{
	run_shapes(LINKS_MULTI, second_half, 14, second_calls, 7);
	/* the same functions, read in another shape */
	run_shapes(LINKS_MULTI, second_half, CNT(second_half), second_calls, CNT(second_calls));
}

TEST("launches and copies (tracefs)")
{
	run_shapes(LINKS_TRACE, first_half, CNT(first_half), first_calls, CNT(first_calls));
}

/* Without the option nothing of it is loaded, and its sites are left alone. */
TEST("nothing when off")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, false);
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CUDA_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, first_half, CNT(first_half), NULL), 0);
	probe_set__activate(ps);
	target__run(&t, "one 0");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 0);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* ---- calls inside calls ---- */

#define OUTER_ARGS (PTB_CUDA_ARGS(PTB_CUDA_OTHER, NONE, 0) | PTB_API_TAG(1))
#define INNER_ARGS (PTB_CUDA_ARGS(PTB_CUDA_CU_COPY, NONE, 0) | PTB_API_TAG(2))
enum { OUTER = 1, INNER = 2 };

static const struct named_site with_ends[] = {
	{ "site_outer_enter", ENTER, OUTER_ARGS },
	{ "site_cu_copy_enter", ENTER, INNER_ARGS | PTB_API_NO_EXIT },
	{ "site_outer_exit", EXIT, OUTER_ARGS },
};

static const struct named_site without_ends[] = {
	{ "site_outer_enter", ENTER, OUTER_ARGS | PTB_API_NO_EXIT },
	{ "site_cu_copy_enter", ENTER, INNER_ARGS | PTB_API_NO_EXIT },
};

struct nest {
	struct probe_set *ps;
	struct target t;
	struct records r;
};

/* known: which code is libcudart's is, namely the outer function's body. */
static void nest__start(struct nest *n, const struct named_site *sites, uint32_t cnt, bool known)
{
	struct ptb_proc_cfg facts = {};

	*n = (struct nest){ .ps = open_cuda(LINKS_MULTI) };
	target__start(&n->t, TARGET_CUDA_CALLS);
	if (known) {
		facts.cudart[1].start = target__value(&n->t, "body"); /* the second: all are checked */
		facts.cudart[1].end = facts.cudart[1].start + 256;
		facts.cudart[0].end = 1;
	}
	CU_ASSERT_EQUAL(attach_sites_to(n->ps, &n->t, &facts, sites, cnt, NULL), (int)cnt);
	probe_set__activate(n->ps);
}

/* Runs it: how many records of the outer and of the inner function are there, and of these without an end? */
static void nest__run(struct nest *n, const char *command, uint32_t outer, uint32_t inner, uint32_t open)
{
	uint32_t opens = 0;

	target__run(&n->t, command);
	records__collect(&n->r, n->ps);
	CU_ASSERT_EQUAL(records__count(&n->r, PTB_REC_CUDA_CALL, OUTER), outer);
	CU_ASSERT_EQUAL(records__count(&n->r, PTB_REC_CUDA_CALL, INNER), inner);
	for (uint32_t i = 0; i < n->r.cnt; i++) {
		const struct ptb_cuda_call *c = (const void *)n->r.items[i];

		opens += !!(c->flags & PTB_API_NO_RESULT);
		CU_ASSERT(!(c->flags & PTB_CUDA_HAS_RESULT)); /* its sites have no result in eax */
	}
	CU_ASSERT_EQUAL(opens, open);
	records__clear(&n->r);
}

static void nest__stop(struct nest *n, uint64_t nested, uint64_t no_end)
{
	CU_ASSERT_EQUAL(probe_set__counter(n->ps, PTB_CNT_CUDA_NESTED), nested);
	CU_ASSERT_EQUAL(probe_set__counter(n->ps, PTB_CNT_CUDA_NO_END), no_end);
	probe_set__free(n->ps);
	CU_ASSERT_EQUAL(target__stop(&n->t), 0);
}

TEST("calls inside calls")
{
	struct nest n;

	for (int known = 0; known < 2; known++) {
		nest__start(&n, with_ends, CNT(with_ends), known);
		nest__run(&n, "outer 0", 1, 0, 0);
		nest__run(&n, "outer 1", 1, 0, 0);
		nest__run(&n, "deeper 0", 0, 1, 1);
		nest__run(&n, "outer 1", 1, 0, 0);
		nest__stop(&n, 2, 1);
	}
}

/* The outer one's end is not seen: what it calls is known by where it is called from. */
TEST("calls inside calls without an end")
{
	struct nest n;

	nest__start(&n, without_ends, CNT(without_ends), true);
	nest__run(&n, "outer 1", 1, 0, 1);
	nest__run(&n, "deeper 20", 0, 1, 1);
	nest__run(&n, "outer 1", 1, 0, 1);
	nest__stop(&n, 2, 3);
	nest__start(&n, without_ends, CNT(without_ends), false);
	nest__run(&n, "outer 1", 1, 1, 2); /* not known: reported twice rather than not at all */
	nest__stop(&n, 0, 2);
}

/* A call that is left by a jump, and one that comes by no site: what follows deeper in the stack is its own. */
TEST("calls that are left")
{
	struct nest n;

	nest__start(&n, with_ends, CNT(with_ends), true);
	nest__run(&n, "outer 2", 0, 0, 0); /* reported when its slot is reused */
	nest__run(&n, "deeper 20", 0, 1, 1);
	nest__run(&n, "outer 0", 2, 0, 1);
	nest__run(&n, "outer 1", 1, 0, 0);
	nest__stop(&n, 1, 2);
}

/* How long it took, as the program itself measured it. */
TEST("how long it takes")
{
	const struct ptb_cuda_call *c;
	struct nest n;
	uint64_t took;

	nest__start(&n, with_ends, CNT(with_ends), true);
	took = target__run(&n.t, "outer 3");
	records__collect(&n.r, n.ps);
	c = records__find(&n.r, PTB_REC_CUDA_CALL, 0);
	CU_ASSERT_FATAL(c != NULL && n.r.cnt == 1);
	CU_ASSERT(c->h.ts_ns - c->begin_ns >= 3000000);
	CU_ASSERT(c->h.ts_ns - c->begin_ns <= took);
	records__clear(&n.r);
	nest__stop(&n, 0, 0);
}

PROBE_SUITE("probe_cuda")
