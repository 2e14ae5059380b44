/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tables of a plan under construction and the analysis of one function; see plan_priv.h. */
#include "plan/plan_priv.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/mem.h"

void plan_build__init(struct plan_build *b, struct torch_plan *plan)
{
	memset(b, 0, sizeof(*b));
	b->plan = plan;
	flow__init(&b->flow);
	flow__init(&b->aux);
}

void plan_build__free(struct plan_build *b)
{
	flow__free(&b->flow);
	flow__free(&b->aux);
	exit_finder__free(&b->finder);
	hashmap__clear(&b->progs);
}

void plan_build__func(struct plan_build *b, const char *name, uint64_t addr,
		      enum ptb_func_kind kind, enum ptb_refusal reason)
{
	struct torch_plan *p = b->plan;
	struct plan_func *f;

	vec_reserve((void **)&p->funcs, &b->func_cap, p->func_cnt + 1ULL, sizeof(*p->funcs));
	f = &p->funcs[p->func_cnt];
	*f = (struct plan_func){ .addr = addr,
				 .lib = (uint8_t)b->role,
				 .kind = (uint8_t)kind,
				 .reason = (uint8_t)reason };
	f->name = xstrdup(name);
	p->func_cnt++;
}

int plan_build__site(struct plan_build *b, uint32_t func, const struct insn *in, enum ptb_prog prog,
		     enum ptb_site_role role, uint32_t args)
{
	struct torch_plan *p = b->plan;
	uint64_t off = elf_file__addr_to_off(b->lc->ef, in->addr);
	const uint8_t *bytes = elf_file__bytes(b->lc->ef, in->addr, in->len, NULL);
	struct plan_site s = {
		.offset = off,
		.func = func,
		.lib = (uint8_t)b->role,
		.prog = (uint8_t)prog,
		.role = (uint8_t)role,
		.insn = in->op,
		.len = in->len,
		.args = args,
	};

	if (off == UINT64_MAX || !bytes || !in->emulated || in->len > PLAN_INSN_MAX)
		return -EINVAL;
	memcpy(s.bytes, bytes, in->len);
	vec_push(p->sites, p->site_cnt, b->site_cap, s);
	return 0;
}

static void add_addr_name(struct plan_build *b, uint64_t addr, const char *name, uint8_t what)
{
	struct torch_plan *p = b->plan;
	struct plan_addr_name *c;

	vec_reserve((void **)&p->classes, &b->class_cap, p->class_cnt + 1ULL, sizeof(*p->classes));
	c = &p->classes[p->class_cnt];
	c->addr = addr;
	c->lib = (uint8_t)b->role;
	c->what = what;
	c->name = xstrdup(name);
	p->class_cnt++;
}

void plan_build__class(struct plan_build *b, uint64_t addr, const char *name)
{
	add_addr_name(b, addr, name, PLAN_ADDR_CLASS);
}

void plan_build__caller(struct plan_build *b, uint64_t addr, const char *name)
{
	add_addr_name(b, addr, name, PLAN_ADDR_CALLER);
}

/* FNV-1a with two starts makes the two halves of the map's key. */
static uint64_t hash_prog(const struct ptb_arg_prog *prog, uint64_t h)
{
	const uint8_t *p = (const uint8_t *)prog;
	size_t len = offsetof(struct ptb_arg_prog, ops) +
		     (prog->in_cnt + (size_t)prog->out_cnt) * sizeof(prog->ops[0]);

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}

void plan_build__prog(struct plan_build *b, const struct ptb_arg_prog *prog, uint32_t *args)
{
	uint64_t h0 = hash_prog(prog, 0xcbf29ce484222325ULL),
		 h1 = hash_prog(prog, 0x9e3779b97f4a7c15ULL);
	uint64_t *known = hashmap__get(&b->progs, h0, h1);
	struct torch_plan *p = b->plan;

	if (known && !memcmp(&p->progs[*known - 1], prog, sizeof(*prog))) {
		*args = (uint32_t)*known;
		return;
	}
	vec_push(p->progs, p->prog_cnt, b->prog_cap, *prog);
	*args = p->prog_cnt;
	hashmap__put(&b->progs, h0, h1, p->prog_cnt);
}

static int cmp_site(const void *a, const void *b)
{
	const struct plan_site *x = a, *y = b;

	if (x->lib != y->lib)
		return x->lib < y->lib ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->func < y->func ? -1 : x->func > y->func;
}

void plan_build__sort_sites(struct torch_plan *p)
{
	uint32_t n = 0;

	if (!p->site_cnt)
		return;
	qsort(p->sites, p->site_cnt, sizeof(*p->sites), cmp_site);
	for (uint32_t i = 0; i < p->site_cnt; i++)
		if (!n || p->sites[n - 1].lib != p->sites[i].lib ||
		    p->sites[n - 1].offset != p->sites[i].offset)
			p->sites[n++] = p->sites[i];
	p->site_cnt = n;
}

/* ---- the work of a function ---- */

void plan_build__mark_after(struct plan_build *b, uint32_t anchors, uint32_t work, bool indirect)
{
	struct flow *f = &b->flow;
	uint8_t *after = b->finder.late; /* unused until the search begins */
	bool any = false;

	for (uint32_t i = 0; i < f->cnt; i++) {
		after[i] = lib_code__calls(b->lc, &f->nodes[i].in, anchors);
		any |= after[i];
	}
	if (!any)
		return;
	flow__reach(f, after, false);
	for (uint32_t i = 0; i < f->cnt; i++)
		if (after[i] && ((indirect && f->nodes[i].in.cls == INSN_CALL_IND) ||
				 lib_code__calls(b->lc, &f->nodes[i].in, work)))
			b->finder.work[i] = 1;
}

void plan_build__mark_kernel_calls(struct plan_build *b)
{
	plan_build__mark_after(b, CALLEE_GET_CALLBACKS, CALLEE_IN(CALLEE_RF_CALLBACKS), true);
}

static bool cheap_tail(void *arg, uint64_t target)
{
	struct plan_build *b = arg;

	return lib_code__callee(b->lc, target) & CALLEE_CHEAP;
}

/* ---- one function ---- */

static void find_exits(struct plan_build *b, struct exit_sites *ex)
{
	bool any = false;

	ex->cnt = 0;
	ex->why = PTB_REFUSE_NO_EXIT;
	for (uint32_t i = 0; i < b->flow.cnt && !any; i++)
		any = b->finder.work[i];
	if (any)
		exit_sites__find(&b->finder, &b->flow, cheap_tail, b, ex);
}

int plan_build__exits(struct plan_build *b, const struct exit_sites *ex, enum ptb_prog prog,
		      uint32_t args)
{
	int err = 0;

	for (uint32_t i = 0; ex->why == PTB_REFUSE_NONE && i < ex->cnt && !err; i++)
		err = plan_build__site(b, plan_build__last(b), &b->flow.nodes[ex->nodes[i]].in,
				       prog, PTB_ROLE_EXIT, args);
	return err;
}

static void exits_of(struct plan_build *b, const struct func_probe *fp, struct exit_sites *ex)
{
	ex->cnt = 0;
	ex->why = PTB_REFUSE_NO_EXIT;
	exit_finder__prepare(&b->finder, &b->flow);
	fp->mark(b);
	find_exits(b, ex);
}

void plan_build__entry(struct plan_build *b, uint64_t addr, uint32_t args, uint32_t *node,
		       enum ptb_refusal *why)
{
	flow__build(&b->flow, &b->lc->src, addr, why);

	*node = *why != PTB_REFUSE_NONE ? FLOW_NONE : entry_site__find(&b->flow, addr, args);
	if (*why == PTB_REFUSE_NONE && *node == FLOW_NONE)
		*why = PTB_REFUSE_NO_ENTRY;
}

int plan_build__probe_built(struct plan_build *b, const struct func_probe *fp, enum ptb_refusal why)
{
	bool point = !fp->mark;
	uint32_t entry = FLOW_NONE;
	struct exit_sites ex;
	int err;

	if (why == PTB_REFUSE_NONE) {
		entry = entry_site__find(&b->flow, fp->entry, ENTRY_ALL_ARGS);
		if (entry == FLOW_NONE)
			why = PTB_REFUSE_NO_ENTRY;
	}
	if (why != PTB_REFUSE_NONE) {
		plan_build__func(b, fp->name, fp->entry, fp->kind, why);
		return 0;
	}
	if (!point) {
		exits_of(b, fp, &ex);
		why = ex.why;
	}
	plan_build__func(b, fp->name, fp->entry, fp->kind, why);
	err = plan_build__site(b, plan_build__last(b), &b->flow.nodes[entry].in, fp->enter,
			       point ? PTB_ROLE_POINT : PTB_ROLE_ENTER, 0);
	if (!err && !point)
		err = plan_build__exits(b, &ex, PTB_PROG_OP_EXIT, 0);
	return err;
}

int plan_build__probe(struct plan_build *b, const struct func_probe *fp)
{
	enum ptb_refusal why;
	flow__build(&b->flow, &b->lc->src, fp->entry, &why);

	return plan_build__probe_built(b, fp, why);
}
