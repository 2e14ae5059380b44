/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Exit sites. A return probe on a function that can throw kills the process, so the end of an
 * operator is probed inside it. The typical end of at::_ops::X::call, official wheel:
 *
 *	call   *%r10			the kernel
 *	cmpb   $0x0,-0x40(%rbp)		step callbacks?
 *	je     L			<- the site: emulated, and each return passes it once
 *	...    call free@plt
 *   L:	pop %rbx ... ret
 *
 * 1. The caller marks the work K (the kernel calls).
 * 2. Late set: instructions from which a return can be reached but no K any more. A jump that
 *    dominates the return but stands before the kernel is therefore never chosen.
 * 3. Candidates: late, emulated, not on a cycle, in code that no other function runs.
 * 4. Minimum vertex cut of the late set by the candidates, with infinite capacity backwards, so
 *    that no path crosses the cut twice; of all minimum cuts the one nearest to the return.
 *
 * Infinite capacity in both directions means: everything but a candidate keeps the program points
 * before and behind it on the same side. So those points are merged first (union-find), and the cut
 * is searched in the small graph that is left, whose arcs are the candidates.
 */
#include "code/code.h"

#include <stdlib.h>
#include <string.h>

#include "base/containers.h"

void exit_finder__free(struct exit_finder *x)
{
	free(x->work);
	free(x->late);
	free(x->last);
	free(x->cls);
	free(x->low);
	free(x->num);
	free(x->stack);
	free(x->net);
	memset(x, 0, sizeof(*x));
}

static void grow(void **p, uint32_t cap, uint64_t need, size_t sz)
{
	vec_reserve(p, &cap, need, sz);
}

void exit_finder__prepare(struct exit_finder *x, const struct flow *f)
{
	uint64_t need = f->cnt + 1ULL;
	uint32_t want = 1024;

	while (want < need)
		want *= 2;
	if (need > x->cap) {
		grow((void **)&x->work, x->cap, want, sizeof(*x->work));
		grow((void **)&x->late, x->cap, want, sizeof(*x->late));
		grow((void **)&x->last, x->cap, want, sizeof(*x->last));
		grow((void **)&x->cls, 2 * x->cap, 2ULL * want + 2, sizeof(*x->cls));
		grow((void **)&x->low, 2 * x->cap, 2ULL * want + 2, sizeof(*x->low));
		grow((void **)&x->num, 2 * x->cap, 2ULL * want + 2, sizeof(*x->num));
		grow((void **)&x->stack, 2 * x->cap, 2ULL * want + 2, sizeof(*x->stack));
		grow((void **)&x->net, x->cap, want, sizeof(*x->net));
		x->cap = want;
	}
	memset(x->work, 0, need);
}

/* late[n]: no work can follow, a return can. */
enum { LATE_NO, LATE_YES, LATE_CANDIDATE };

static bool is_sink(const struct flow_node *n)
{
	return n->in.cls == INSN_RET || n->leaves;
}

static void mark_late(struct exit_finder *x, struct flow *f)
{
	uint8_t *before_work = x->work, *to_ret = x->late;

	flow__reach(f, before_work, true);
	for (uint32_t i = 0; i < f->cnt; i++)
		to_ret[i] = is_sink(&f->nodes[i]);
	flow__reach(f, to_ret, true);
	for (uint32_t i = 0; i < f->cnt; i++)
		x->late[i] = to_ret[i] && !before_work[i] ? LATE_YES : LATE_NO;
}

/* ---- cycles: Tarjan's strongly connected components, without recursion ---- */

struct tarjan {
	uint32_t next_num;
	/* both stacks share x->stack: path from the front, open from the end */
	uint32_t path_cnt, open_cnt;
};

static bool self_loop(const struct flow *f, uint32_t n)
{
	for (uint32_t i = 0; i < FLOW_SUCC_MAX(&f->nodes[n]); i++)
		if (flow__succ(f, &f->nodes[n], i) == n)
			return true;
	return false;
}

/* Pops a finished component; its members are candidates no longer if it is a cycle. */
static void close_component(struct exit_finder *x, const struct flow *f, struct tarjan *t,
			    uint32_t root, uint32_t *open)
{
	bool cycle = open[-(int64_t)t->open_cnt + 1] != root || self_loop(f, root);
	uint32_t n;

	do {
		n = open[-(int64_t)t->open_cnt + 1];
		t->open_cnt--;
		x->num[n] = UINT32_MAX; /* done */
		if (cycle && x->late[n] == LATE_CANDIDATE)
			x->late[n] = LATE_YES;
	} while (n != root);
}

static void enter_node(struct exit_finder *x, struct tarjan *t, uint32_t n, uint32_t *open)
{
	x->num[n] = x->low[n] = ++t->next_num;
	x->cls[n] = 0; /* next successor to visit */
	x->stack[t->path_cnt++] = n;
	t->open_cnt++;
	open[-(int64_t)t->open_cnt + 1] = n;
}

static void visit_component(struct exit_finder *x, const struct flow *f, struct tarjan *t,
			    uint32_t first, uint32_t *open)
{
	uint32_t n, to;

	enter_node(x, t, first, open);
	while (t->path_cnt) {
		n = x->stack[t->path_cnt - 1];
		if (x->cls[n] < FLOW_SUCC_MAX(&f->nodes[n])) {
			to = flow__succ(f, &f->nodes[n], x->cls[n]++);
			if (to == FLOW_NONE || !x->late[to] || x->num[to] == UINT32_MAX)
				continue;
			if (!x->num[to])
				enter_node(x, t, to, open);
			else if (x->num[to] < x->low[n])
				x->low[n] = x->num[to];
			continue;
		}
		t->path_cnt--;
		if (t->path_cnt && x->low[n] < x->low[x->stack[t->path_cnt - 1]])
			x->low[x->stack[t->path_cnt - 1]] = x->low[n];
		if (x->low[n] == x->num[n])
			close_component(x, f, t, n, open);
	}
}

static void drop_cycles(struct exit_finder *x, const struct flow *f)
{
	struct tarjan t = { 0 };
	uint32_t *open = x->stack + 2 * (uint64_t)f->cnt + 1;

	memset(x->num, 0, f->cnt * sizeof(*x->num));
	for (uint32_t i = 0; i < f->cnt; i++)
		if (x->late[i] && !x->num[i])
			visit_component(x, f, &t, i, open);
}

/* ---- the merged graph ---- */

/* Program points: node n has point n before it and point cnt + n behind it; then source and
 * sink. */
#define POINT_IN(f, n) (n)
#define POINT_OUT(f, n) ((f)->cnt + (n))

static uint32_t class_of(uint32_t *cls, uint32_t i)
{
	while (cls[i] != i) {
		cls[i] = cls[cls[i]];
		i = cls[i];
	}
	return i;
}

static void unite(uint32_t *cls, uint32_t a, uint32_t b)
{
	a = class_of(cls, a);
	b = class_of(cls, b);
	if (a != b)
		cls[b] = a;
}

/* What stands before the late set: all that leads into it, or only the last of the work
 * (`last`). */
static bool is_source(const struct exit_finder *x, uint32_t node, const uint8_t *last)
{
	return !x->late[node] && (!last || last[node]);
}

static void merge_points(struct exit_finder *x, const struct flow *f, const uint8_t *last)
{
	uint32_t source = 2 * f->cnt, sink = 2 * f->cnt + 1, to;

	for (uint32_t i = 0; i <= sink; i++)
		x->cls[i] = i;
	for (uint32_t i = 0; i < f->cnt; i++) {
		const struct flow_node *n = &f->nodes[i];

		if (x->late[i] == LATE_YES)
			unite(x->cls, POINT_IN(f, i), POINT_OUT(f, i));
		if (!x->late[i] && !is_source(x, i, last))
			continue;
		if (is_sink(n))
			unite(x->cls, x->late[i] ? POINT_OUT(f, i) : source, sink);
		for (uint32_t j = 0; j < FLOW_SUCC_MAX(n); j++) {
			to = flow__succ(f, n, j);
			if (to == FLOW_NONE || !x->late[to])
				continue;
			unite(x->cls, x->late[i] ? POINT_OUT(f, i) : source, POINT_IN(f, to));
		}
	}
	if (x->late[0] && !last) /* node 0 is the entry */
		unite(x->cls, source, POINT_IN(f, 0));
	for (uint32_t i = 0; i <= sink; i++)
		x->cls[i] = class_of(x->cls, i);
}

/* ---- maximum flow over the candidates ---- */

/* Arcs: list of candidate nodes in x->stack[0..arc_cnt). */
struct cut {
	struct exit_finder *x;
	const struct flow *f;
	uint32_t *arcs, arc_cnt;
	uint32_t source, sink;
};

static uint32_t arc_tail(const struct cut *c, uint32_t a)
{
	return c->x->cls[POINT_IN(c->f, c->arcs[a])];
}

static uint32_t arc_head(const struct cut *c, uint32_t a)
{
	return c->x->cls[POINT_OUT(c->f, c->arcs[a])];
}

/*
 * One augmenting path from source to sink. low[class]: arc by which it was reached + 1, num[class]:
 * class it was reached from. The arcs are few, so rounds over all of them do.
 */
static bool augment(struct cut *c)
{
	uint32_t *via = c->x->low, *from = c->x->num, a;
	bool more = true;

	memset(via, 0, (2ULL * c->f->cnt + 2) * sizeof(*via));
	via[c->source] = UINT32_MAX;
	while (more && !via[c->sink]) {
		more = false;
		for (a = 0; a < c->arc_cnt; a++) {
			uint32_t tail = arc_tail(c, a), head = arc_head(c, a);

			if (via[tail] && !via[head] && c->x->net[a] < 1) {
				via[head] = a + 1;
				from[head] = tail;
				more = true;
			} else if (via[head] && !via[tail]) {
				via[tail] = a + 1;
				from[tail] = head;
				more = true;
			}
		}
	}
	if (!via[c->sink])
		return false;
	for (uint32_t p = c->sink; p != c->source; p = from[p]) {
		a = via[p] - 1;
		c->x->net[a] += p == arc_head(c, a) ? 1 : -1;
	}
	return true;
}

/* Of all minimum cuts the one nearest to the sink: what can still reach it is behind the cut. */
static void take_cut(struct cut *c, struct exit_sites *out)
{
	uint32_t *behind = c->x->low;
	bool more = true;

	memset(behind, 0, (2ULL * c->f->cnt + 2) * sizeof(*behind));
	behind[c->sink] = 1;
	while (more) {
		more = false;
		for (uint32_t a = 0; a < c->arc_cnt; a++) {
			uint32_t tail = arc_tail(c, a), head = arc_head(c, a);

			if (behind[head] && !behind[tail] && c->x->net[a] < 1) {
				behind[tail] = 1;
				more = true;
			} else if (behind[tail] && !behind[head]) {
				behind[head] = 1;
				more = true;
			}
		}
	}
	for (uint32_t a = 0; a < c->arc_cnt && out->cnt < EXIT_SITES_MAX; a++)
		if (!behind[arc_tail(c, a)] && behind[arc_head(c, a)])
			out->nodes[out->cnt++] = c->arcs[a];
}

static void find_cut(struct exit_finder *x, const struct flow *f, const uint8_t *last,
		     struct exit_sites *out)
{
	struct cut c = { .x = x, .f = f, .arcs = x->stack };
	uint32_t flow = 0;

	merge_points(x, f, last);
	c.source = x->cls[2 * f->cnt];
	c.sink = x->cls[2 * f->cnt + 1];
	out->why = PTB_REFUSE_NO_EXIT;
	if (c.source == c.sink)
		return;
	for (uint32_t i = 0; i < f->cnt; i++)
		if (x->late[i] == LATE_CANDIDATE &&
		    x->cls[POINT_IN(f, i)] != x->cls[POINT_OUT(f, i)])
			c.arcs[c.arc_cnt++] = i;
	memset(x->net, 0, c.arc_cnt * sizeof(*x->net));
	while (augment(&c))
		if (++flow > EXIT_SITES_MAX)
			return;
	if (!flow)
		return; /* it never returns */
	take_cut(&c, out);
	if (out->cnt)
		out->why = PTB_REFUSE_NONE;
}

static void choose(struct exit_finder *x, const struct flow *f, const uint8_t *last,
		   struct exit_sites *out)
{
	for (uint32_t i = 0; i < f->cnt; i++)
		if (x->late[i] && f->nodes[i].in.emulated && f->nodes[i].own)
			x->late[i] = LATE_CANDIDATE;
	drop_cycles(x, f);
	find_cut(x, f, last, out);
}

void exit_sites__find(struct exit_finder *x, struct flow *f,
		      bool (*cheap_tail)(void *arg, uint64_t target), void *arg,
		      struct exit_sites *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < f->cnt; i++) {
		const struct flow_node *n = &f->nodes[i];

		if (n->leaves && (n->in.cls == INSN_JMP_IND || !cheap_tail(arg, n->in.target)))
			x->work[i] = 1;
	}
	mark_late(x, f);
	choose(x, f, NULL, out);
}

void exit_sites__after_work(struct exit_finder *x, struct flow *f, struct exit_sites *out)
{
	bool any = false;

	memset(out, 0, sizeof(*out));
	out->why = PTB_REFUSE_NO_EXIT;
	memcpy(x->last, x->work, f->cnt);
	mark_late(x, f);
	for (uint32_t i = 0; i < f->cnt; i++) {
		x->last[i] =
			x->last[i] &&
			!flow__leads_to(f, i, x->work); /* work marks by now what leads to work */
		any |= x->last[i];
	}
	if (any) /* else all work is in a loop */
		choose(x, f, x->last, out);
}

/* ---- entry ---- */

uint32_t entry_site__find(const struct flow *f, uint64_t entry, uint32_t args)
{
	uint32_t at = flow__at(f, entry), regs = 0;

	if (args == ENTRY_ALL_ARGS)
		regs = 1u << arch.sp;
	for (uint32_t i = 0; i < ARCH_ARGS; i++)
		if (args & 1u << i)
			regs |= 1u << arch.arg[i];

	/* Straight from the entry: what is met before the first branch is on every path. */
	for (uint32_t i = 0; i < 16 && at != FLOW_NONE; i++) {
		const struct flow_node *n = &f->nodes[at];

		/* A target of a jump from below would be hit more than once per call. */
		if (f->pred_at[at + 1] - f->pred_at[at] > (at == 0 ? 0 : 1))
			return FLOW_NONE;
		if (n->in.emulated)
			return at;
		if (n->in.cls != INSN_OTHER || (n->in.writes & regs))
			return FLOW_NONE;
		at = n->fall;
	}
	return FLOW_NONE;
}
