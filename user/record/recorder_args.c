/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records what makes arguments readable: the operators' schemas, and the meaning of bits in
 * dispatch key sets. Checks the tensor layout on the first live tensors of each process: the
 * offsets come from code, and what the probes read confirms them.
 */
#define LOG_DOMAIN "recorder"
#include <errno.h>
#include <string.h>

#include "args/values.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "plan/args_priv.h"
#include "record/recorder_priv.h"

#define CHECK_TENSORS 64 /* tensors to check before a process's layout is trusted */
#define SCHEMA_MAX 8192
#define BAD_MAX 8 /* a tensor's fields may not describe its shape, so some may be implausible */

static void put_schema(struct recorder *r, uint32_t tgid, uint64_t opdef, uint32_t func,
		       const char *text)
{
	struct ptb_schema s = { .h.tgid = tgid, .opdef = opdef, .func = func };

	s.name = recorder__text(r, tgid, text);
	recorder__put(r, PTB_REC_SCHEMA, &s.h, sizeof(s));
}

void recorder__plan_schemas(struct recorder *r, const struct torch_plan *plan, uint32_t func_base)
{
	if (!r->args)
		return;
	for (uint32_t i = 0; i < plan->func_cnt; i++) {
		const struct plan_func *pf = &plan->funcs[i];

		if (!pf->schema)
			continue;
		put_schema(r, 0, 0, func_base + i + 1, pf->schema);
		/* also for boxed calls of operators of the plan */
		hashmap__put(&r->planned, recorder__name(r, 0, pf->name), 0, 1);
	}
}

void recorder__keys(struct recorder *r, const struct torch_plan *plan, uint32_t tgid)
{
	struct ptb_keys k = plan->layout.keys;

	if (!r->args)
		return;
	memset(&k.h, 0, sizeof(k.h));
	k.h.tgid = tgid;
	recorder__put(r, PTB_REC_KEYS, &k.h, sizeof(k));
}

/* ---- schemas of operators that are called boxed ---- */

void recorder__boxed_call(struct recorder *r, uint32_t tgid, uint64_t opdef)
{
	struct recorder_proc *p;

	if (hashmap__get(&r->schemas, tgid, opdef))
		return;
	p = recorder__find_proc(r, tgid);
	if (p && opdef && p->no_schema.live < LIMIT_UNKNOWN &&
	    !hashmap__get(&p->no_schema, opdef, 0))
		hashmap__try_put(&p->no_schema, opdef, 0, 0);
}

/* Limits the processor time: in a hostile process every schema takes as many reads as are
 * allowed. */
static int read_schema(struct recorder_proc *p, uint64_t opdef, char *buf, size_t cap)
{
	uint64_t begin = clock__cpu_ns();
	int err;

	if (p->schemas_ns >= LIMIT_SCHEMAS_MS * 1000000ull)
		return -ETIMEDOUT;
	err = live_schema__read((pid_t)p->tgid, opdef, &p->schema_layout, buf, cap);
	p->schemas_ns += clock__cpu_ns() - begin;
	return !err && !recorder__is_there(p) ? -ESRCH : err;
}

/* Returns true if no further request is needed. */
static bool ask_schema(struct recorder *r, struct recorder_proc *p, uint64_t opdef)
{
	const uint64_t *name = hashmap__get(&r->opdefs, p->tgid, opdef);
	char text[SCHEMA_MAX];
	int err;

	if (!name)
		return false; /* its name is read first */
	if (!hashmap__get(&r->planned, *name, 0)) {
		if (!p->schemas_readable)
			return false;
		err = read_schema(p, opdef, text, sizeof(text));
		if (err && err != -ETIMEDOUT) {
			pr_debug(
				"process %u: the schema of the operator at 0x%llx cannot be read: %s",
				p->tgid, (unsigned long long)opdef, errstr(err));
			return false;
		}
		if (err)
			r->over_names++;
		else
			put_schema(r, p->tgid, opdef, 0, text);
	}
	recorder__remember(r, &r->schemas, p->tgid, opdef, 1);
	return true;
}

void recorder__resolve_schemas(struct recorder *r, struct recorder_proc *p)
{
	struct hashmap_slot *s;
	uint64_t pos = 0;

	while (!cancel__pending() && (s = hashmap__next(&p->no_schema, &pos))) {
		if (s->val >= ASK_TIMES_MAX)
			continue;
		s->val++;
		if (ask_schema(r, p, s->k0))
			hashmap__del(&p->no_schema, s->k0, s->k1);
	}
}

/* A forked process has its parent's dispatcher at the same addresses, so its layout is known. */
static bool same_dispatcher(const struct recorder *r, struct recorder_proc *p)
{
	for (uint32_t i = 0; i < r->proc_cnt; i++) {
		const struct recorder_proc *q = &r->procs[i];

		if (q == p || !q->schemas_readable || q->singleton_cnt != p->singleton_cnt ||
		    memcmp(q->singletons, p->singletons, sizeof(p->singletons)) != 0)
			continue;
		p->schema_layout = q->schema_layout;
		p->schemas_readable = true;
		return true;
	}
	return false;
}

/* Reads schemas that are not in the plan at once: a library's operators disappear with it, and
 * their schemas cannot be read afterwards. */
void recorder__schema_layout(struct recorder *r, struct proc_ops *po)
{
	struct recorder_proc *p = recorder__find_proc(r, (uint32_t)po->tp->pid);
	const struct live_schema_layout *layout;
	uint64_t pos = 0, t0 = clock__mono_ns();
	struct hashmap_slot *s;
	uint32_t n = 0;

	if (!r->args || !p || p->schemas_readable || same_dispatcher(r, p))
		return;
	p->schemas_readable = !proc_ops__schemas(po, &layout);
	p->schema_layout = *layout;
	while (p->schemas_readable && !cancel__pending() && (s = hashmap__next(&r->opdefs, &pos)))
		if (s->k0 == p->tgid && !hashmap__get(&r->planned, s->val, 0))
			n += ask_schema(r, p, s->k1);
	pr_debug("process %u: %u schemas from its dispatcher in %llu us", p->tgid, n,
		 (unsigned long long)(clock__mono_ns() - t0) / 1000);
}

/* ---- check of the tensor layout ---- */

static void check_values(struct recorder_proc *p, const struct slice_values *sv, uint32_t depth)
{
	struct value_iter it = values__begin(sv);
	struct value v;

	while (values__next(&it, &v)) {
		if (depth < PTB_NEST_MAX && v.elems.word_cnt)
			check_values(p, &v.elems, depth + 1);
		if (v.kind != PTB_VAL_TENSOR || v.flags & PTB_VAL_F_SYMBOLIC ||
		    v.keys & p->nested_keys)
			continue;
		p->checked++;
		if (v.flags & PTB_VAL_F_DIMS_CUT ||
		    !tensor_layout__plausible(v.dtype, v.ndim, v.sizes, v.numel, v.offset,
					      v.storage))
			p->bad++;
	}
}

void recorder__check_layout(struct recorder *r, const struct ptb_rec_hdr *h)
{
	struct recorder_proc *p;
	struct slice_values sv = { .flags = VALUES_PRESENT };

	if (h->kind != PTB_REC_OP_ENTER || h->len <= sizeof(struct ptb_op_enter))
		return;
	p = recorder__find_proc(r, h->tgid);
	if (!p || p->checked >= CHECK_TENSORS)
		return;
	sv.words = (const void *)((const char *)h + sizeof(struct ptb_op_enter));
	sv.word_cnt = (h->len - (uint32_t)sizeof(struct ptb_op_enter)) / 8;
	check_values(p, &sv, 0);
	if (p->checked >= CHECK_TENSORS && p->bad > BAD_MAX)
		p->bad_layout = true;
}

uint32_t recorder__next_bad_layout(struct recorder *r)
{
	struct ptb_counter c = { .id = PTB_CNT_NO_SHAPES, .value = 1 };

	for (uint32_t i = 0; i < r->proc_cnt; i++) {
		struct recorder_proc *p = &r->procs[i];

		if (!p->bad_layout || p->bad_reported)
			continue;
		p->bad_reported = true;
		/* for this process only: its recorded arguments are meaningless */
		c.h.tgid = p->tgid;
		c.h.ts_ns = 0;
		recorder__put(r, PTB_REC_COUNTER, &c.h, sizeof(c));
		return p->tgid;
	}
	return 0;
}
