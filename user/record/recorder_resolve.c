/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads what cannot be read after the target's end: names of addresses that appear in records
 * (operators registered after the attach, node classes of extension libraries) and names of new
 * threads. Each address is resolved once, soon after its first record.
 */
#define LOG_DOMAIN "recorder"
#include "record/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "record/recorder_priv.h"
#include "target/proc.h"
#include "target/proc_info.h"
#include "target/torch.h"

enum { UNKNOWN_OPDEF, UNKNOWN_CLASS, UNKNOWN_KERNEL };

#define TABLE_EVERY_NS 2000000000ULL /* shortest interval between readings of the whole table */
#define TAIL_EVERY_NS 20000000ULL    /* interval between polls for new operators */
#define ROUND_NS 100000000ULL        /* longest search for kernels' names in one round */
#define TABLE_SHARE 20 /* reading the whole table takes at most one part in so many of the time */

struct recorder_proc *recorder__find_proc(struct recorder *r, uint32_t tgid)
{
	struct recorder_proc *gone = NULL;

	for (uint32_t i = 0; i < r->proc_cnt; i++) { /* after an exec a tgid has two entries */
		if (r->procs[i].tgid == tgid && !r->procs[i].gone)
			return &r->procs[i];
		if (r->procs[i].tgid == tgid)
			gone = &r->procs[i];
	}
	return gone;
}

bool recorder__is_there(const struct recorder_proc *p)
{
	return pid_hold__alive(p->pidfd);
}

/* Reuses the entry of a process that has ended, so that there are never more entries than processes
 * alive at one time. */
static struct recorder_proc *find_gone(struct recorder *r)
{
	for (uint32_t i = 0; i < r->proc_cnt; i++) {
		struct recorder_proc *p = &r->procs[i];

		if (!p->gone)
			continue;
		r->over_unknown += p->unknown.live; /* cannot be read any more */
		hashmap__clear(&p->unknown);
		hashmap__clear(&p->no_schema);
		free(p->groups);
		recorder__py_forget(r, p);
		if (p->pidfd >= 0)
			close(p->pidfd);
		memset(p, 0, sizeof(*p));
		return p;
	}
	return NULL;
}

static void remember_process(struct recorder *r, const struct torch_proc *tp,
			     const struct torch_plan *plan, struct recorder_proc **out)
{
	struct recorder_proc *p = find_gone(r);

	if (!p) {
		vec_push(r->procs, r->proc_cnt, r->proc_cap, (struct recorder_proc){ 0 });
		p = &r->procs[r->proc_cnt - 1];
	}
	*out = p;
	p->tgid = (uint32_t)tp->pid;
	p->pidfd = pid_hold__open(tp->pid); /* opened before the target's own pidfd is checked */
	p->old_string_abi = plan->layout.old_string_abi;
	if (plan->layout.variable_class && tp->libs[TORCH_LIB_PYTHON].present)
		p->tensor_class =
			plan->layout.variable_class + tp->libs[TORCH_LIB_PYTHON].load_bias;
	p->groups_wait_ns = GROUPS_WAIT_NS;
	p->next_groups_ns = clock__mono_ns() + GROUPS_WAIT_NS;
	p->nested_keys = plan->layout.keys.nested;
	p->singleton_cnt = proc_ops__singletons(tp, plan, p->singletons);
}

static void take_ops(struct recorder *r, struct recorder_proc *p, const struct live_ops *lo)
{
	for (uint32_t i = 0; i < lo->cnt; i++) {
		if (hashmap__get(&r->opdefs, p->tgid, lo->ops[i].opdef))
			continue;
		recorder__opdef(r, p->tgid, lo->ops[i].opdef, lo->ops[i].name,
				lo->ops[i].unobserved ? PTB_OPDEF_UNOBSERVED : 0);
		hashmap__del(&p->unknown, lo->ops[i].opdef, UNKNOWN_OPDEF);
	}
}

/* Takes the result of reading the whole table. 0 or negative errno. */
static int take_table(struct recorder *r, struct recorder_proc *p, const struct live_ops *lo,
		      int err)
{
	if (err == -E2BIG && !p->table_too_large) {
		p->table_too_large = true;
		r->over_operators++;
	}
	if (!err && !recorder__is_there(p))
		err = -ESRCH;
	if (err)
		return err;
	if (lo->observed_known)
		p->observed_off = lo->observed_off;
	take_ops(r, p, lo);
	return 0;
}

static int read_table(struct recorder *r, struct recorder_proc *p)
{
	struct live_ops lo;
	int err;

	p->last_table_ns = clock__mono_ns();
	err = live_ops__read((pid_t)p->tgid, p->singletons, p->singleton_cnt, p->old_string_abi,
			     p->observed_off, &lo);
	p->table_cost_ns = clock__mono_ns() - p->last_table_ns;
	err = take_table(r, p, &lo, err);
	live_ops__free(&lo);
	return err;
}

struct known_ops {
	const struct recorder *r;
	uint32_t tgid;
};

static bool is_known_op(void *arg, uint64_t opdef)
{
	const struct known_ops *k = arg;

	return hashmap__get(&k->r->opdefs, k->tgid, opdef);
}

static int read_newest(struct recorder *r, struct recorder_proc *p)
{
	struct known_ops known = { .r = r, .tgid = p->tgid };
	struct live_ops_seen seen = { .known = is_known_op,
				      .arg = &known,
				      .observed_off = p->observed_off,
				      .old_string_abi = p->old_string_abi };
	struct live_ops lo;
	int err = live_ops__newest((pid_t)p->tgid, p->singletons, p->singleton_cnt, &seen, &lo);

	if (err)
		return err;
	if (recorder__is_there(p))
		take_ops(r, p, &lo);
	live_ops__free(&lo);
	return 0;
}

/*
 * Names of operators that are registered in the window are read before their calls where possible:
 * an operator that is deregistered soon after its call (as torch.library's are, with their Library)
 * has no name to read later. The whole table is read only while nothing is being registered.
 */
static void watch_table(struct recorder *r, struct recorder_proc *p)
{
	uint64_t now = clock__mono_ns(), tail, last = p->tail;
	int err;

	if (p->by_agent || now < p->next_poll_ns)
		return;
	p->next_poll_ns = now + TAIL_EVERY_NS;
	if (live_ops__tail((pid_t)p->tgid, p->singletons, p->singleton_cnt, &tail) ||
	    (p->tail_known && tail == last))
		return;
	p->tail = tail;
	p->tail_known = false;
	err = p->observed_off ? read_newest(r, p) : -E2BIG;
	if (err == -E2BIG && tail == last &&
	    now - p->last_table_ns > TABLE_SHARE * p->table_cost_ns)
		err = read_table(r, p);
	p->tail_known = err != -EAGAIN && err != -E2BIG; /* other errors would occur again */
}

void recorder__opdef_gone(struct recorder *r, const struct ptb_opdef_gone *g)
{
	struct recorder_proc *p = recorder__find_proc(r, g->h.tgid);
	struct ptb_addr_name a = { .h = { .ts_ns = g->h.ts_ns, .tgid = g->h.tgid },
				   .addr = g->opdef,
				   .flags = PTB_OPDEF_GONE };
	const uint64_t *known = hashmap__get(&r->opdefs, g->h.tgid, g->opdef);
	char name[PTB_TEXT_MAX + sizeof(g->overload) + 2];
	int over = (int)(g->over_len < sizeof(g->overload) ? g->over_len : 0);

	if (!p || !g->opdef || g->text_len > PTB_TEXT_MAX || g->h.len < sizeof(*g) + g->text_len)
		return;
	snprintf(name, sizeof(name), "%.*s%s%.*s", (int)g->text_len, (const char *)(g + 1),
		 over ? "." : "", over, g->overload);
	a.name = g->text_len ? recorder__name(r, g->h.tgid, name) : known ? (uint32_t)*known : 0;
	recorder__put(r, PTB_REC_OPDEF, &a.h, sizeof(a));
	r->op_left = true;
	recorder__forget(r, &r->opdefs, g->h.tgid, g->opdef);
	recorder__forget(r, &r->schemas, g->h.tgid, g->opdef);
	hashmap__del(&p->unknown, g->opdef, UNKNOWN_OPDEF);
	hashmap__del(&p->no_schema, g->opdef, 0);
}

void recorder__learn(struct recorder *r, struct proc_ops *po)
{
	const struct live_ops *lo;
	struct recorder_proc *p;
	int err;

	remember_process(r, po->tp, po->plan, &p);

	err = proc_ops__table(po, &lo);
	err = take_table(r, p, lo, err);
	p->last_table_ns = clock__mono_ns();
	p->table_cost_ns = po->cost_ns;
	if (err < 0) /* record: the table is still empty; names are read at the first calls */
		pr_debug("pid %d: dispatcher table: %s", po->tp->pid, errstr(err));
	recorder__schema_layout(r, po);
}

static void note_unknown(struct recorder *r, uint32_t tgid, uint64_t addr, uint64_t type)
{
	struct recorder_proc *p = recorder__find_proc(r, tgid);

	if (!p || !addr || hashmap__get(&p->unknown, addr, type))
		return;
	if (p->unknown.live < LIMIT_UNKNOWN)
		hashmap__try_put(&p->unknown, addr, type, 0);
	else
		r->over_unknown++;
}

static void peek_thread(struct recorder *r, const struct ptb_rec_hdr *h)
{
	uint64_t key = (uint64_t)h->tgid << 32 | h->tid;
	char comm[16];

	if (key == r->last_tgid_tid)
		return;
	r->last_tgid_tid = key;
	if (hashmap__get(&r->threads, h->tgid, h->tid))
		return;
	if (proc__comm((pid_t)h->tgid, (pid_t)h->tid, comm))
		/* ended already: its EXIT record has the name */
		recorder__know_thread(r, h->tgid, h->tid, 0);
	else
		recorder__thread(r, h->tgid, h->tid, comm);
}

void recorder__read_at_end(struct recorder *r)
{
	struct hashmap_slot *s;
	uint64_t pos = 0;

	for (uint32_t i = 0; i < r->proc_cnt && !cancel__pending(); i++)
		if (!r->procs[i].gone)
			recorder__watch_groups(r, &r->procs[i], true);
	while (!cancel__pending() && (s = hashmap__next(&r->threads, &pos))) {
		struct ptb_thread t = { .h.tgid = (uint32_t)s->k0, .h.tid = (uint32_t)s->k1 };
		struct recorder_proc *p = recorder__find_proc(r, t.h.tgid);
		char comm[16];

		if (!p || p->gone || proc__comm((pid_t)t.h.tgid, (pid_t)t.h.tid, comm) ||
		    !pid_hold__alive(p->pidfd))
			continue;
		t.comm = recorder__name(r, t.h.tgid, comm);
		if (t.comm != s->val)
			recorder__put(r, PTB_REC_THREAD, &t.h, sizeof(t));
	}
}

static void peek_task(struct recorder *r, const struct ptb_task *t)
{
	char comm[17] = { 0 };

	memcpy(comm, t->comm, sizeof(t->comm));
	if (t->h.kind == PTB_REC_EXIT) {
		struct recorder_proc *p = t->group_dead ? recorder__find_proc(r, t->h.tgid) : NULL;

		/* the last name of a thread, also of one too short-lived to be read */
		if (!proc__is_loader(comm) || !hashmap__get(&r->threads, t->h.tgid, t->h.tid))
			recorder__thread(r, t->h.tgid, t->h.tid, comm);
		/* another thread may get its number */
		hashmap__del(&r->threads, t->h.tgid, t->h.tid);
		hashmap__del(&r->thread_names, t->h.tgid, t->h.tid);
		if (p)
			p->gone = true;
	}
	if (t->h.kind == PTB_REC_EXEC) {
		struct recorder_proc *p = recorder__find_proc(r, t->h.tgid);

		if (p)
			p->gone = true;
	}
	if (r->task_fn)
		r->task_fn(r->task_arg, t);
}

/* Returns true if no further request is needed: the name is known, or no library has one. */
static bool ask_kernel(struct recorder *r, const struct recorder_proc *p, uint64_t func)
{
	char name[4096];
	int err;

	if (!r->host_funcs)
		r->host_funcs = host_funcs__new();
	err = host_funcs__kernel(r->host_funcs, (pid_t)p->tgid, p->gone ? -1 : p->pidfd, func, name,
				 sizeof(name));
	if (!err)
		recorder__addr_name(r, PTB_REC_KERNEL_NAME, p->tgid, func, name, 0);
	/* a signal ends the window and the child that reads a library, but the name still belongs
	 * to the window */
	else if (err == -ESRCH || err == -ETIMEDOUT || err == -E2BIG || cancel__pending())
		return false;
	recorder__remember(r, &r->kernels, p->tgid, func, 1);
	return true;
}

/* Reading a library may take long, so the name of a launched kernel is read after the rings are
 * drained. */
static void peek_kernel(struct recorder *r, const struct ptb_cuda_call *c)
{
	struct recorder_proc *p = recorder__find_proc(r, c->h.tgid);

	if (!c->func || hashmap__get(&r->kernels, c->h.tgid, c->func) ||
	    (p && hashmap__get(&p->unknown, c->func, UNKNOWN_KERNEL)))
		return;
	if (recorder__has_room(r, &r->kernels, c->h.tgid))
		note_unknown(r, c->h.tgid, c->func, UNKNOWN_KERNEL);
}

void recorder__peek(struct recorder *r, const struct ptb_rec_hdr *h)
{
	switch (h->kind) {
	case PTB_REC_BOXED_ENTER: {
		const struct ptb_boxed_enter *b = (const void *)h;

		if (!hashmap__get(&r->opdefs, h->tgid, b->opdef))
			note_unknown(r, h->tgid, b->opdef, UNKNOWN_OPDEF);
		if (r->args)
			recorder__boxed_call(r, h->tgid, b->opdef);
		break;
	}
	case PTB_REC_RF_BEGIN: {
		const struct ptb_rf_begin *b = (const void *)h;

		if (r->op_left && b->opdef && !hashmap__get(&r->opdefs, h->tgid, b->opdef))
			/* an agent sends each name once */
			note_unknown(r, h->tgid, b->opdef, UNKNOWN_OPDEF);
		if (r->args && b->opdef)
			recorder__boxed_call(r, h->tgid, b->opdef);
		break;
	}
	case PTB_REC_CUDA_CALL:
		peek_kernel(r, (const void *)h);
		break;
	case PTB_REC_NODE_ENTER: {
		const struct ptb_node_enter *n = (const void *)h;

		if (!n->text_len && !hashmap__get(&r->classes, h->tgid, n->vptr))
			note_unknown(r, h->tgid, n->vptr, UNKNOWN_CLASS);
		break;
	}
	case PTB_REC_FORK:
	case PTB_REC_EXEC:
	case PTB_REC_EXIT:
	case PTB_REC_THREAD_NEW:
		peek_task(r, (const void *)h);
		return;
	default:
		break;
	}
	peek_thread(r, h);
}

static bool ask_one(struct recorder *r, struct recorder_proc *p, struct hashmap_slot *s)
{
	char name[512];
	int err;

	if (s->k1 == UNKNOWN_CLASS) {
		err = remote__class_name((pid_t)p->tgid, s->k0, &p->demangle_ns, name,
					 sizeof(name));
		if (!err && recorder__is_there(p))
			recorder__class(r, p->tgid, s->k0, name);
	} else {
		err = live_ops__name_at((pid_t)p->tgid, s->k0, p->old_string_abi, name,
					sizeof(name));
		if (!err && recorder__is_there(p))
			recorder__opdef(r, p->tgid, s->k0, name, 0);
	}
	return !err;
}

/* Returns a copy, from malloc: the rings are drained while a file is read, which adds addresses. */
static uint64_t *take_kernels(struct recorder_proc *p, uint32_t *cnt)
{
	uint64_t *funcs = NULL, pos = 0;
	struct hashmap_slot *s;
	uint32_t cap = 0;

	*cnt = 0;
	while ((s = hashmap__next(&p->unknown, &pos))) {
		if (s->k1 != UNKNOWN_KERNEL || s->val >= ASK_TIMES_MAX)
			continue;
		vec_push(funcs, *cnt, cap, s->k0);
	}
	return funcs;
}

static void resolve_kernels(struct recorder *r, struct recorder_proc *p)
{
	uint32_t cnt;
	uint64_t *funcs = take_kernels(p, &cnt), *times, begin = clock__mono_ns();

	for (uint32_t i = 0; i < cnt && !cancel__pending(); i++) {
		if (!r->end_ns && clock__mono_ns() - begin > ROUND_NS)
			break; /* the rings fill up in the meantime */
		times = hashmap__get(&p->unknown, funcs[i], UNKNOWN_KERNEL);
		if (times)
			++*times;
		if (ask_kernel(r, p, funcs[i]))
			hashmap__del(&p->unknown, funcs[i], UNKNOWN_KERNEL);
	}
	free(funcs);
}

static void resolve_proc(struct recorder *r, struct recorder_proc *p)
{
	struct hashmap_slot *s;
	uint64_t pos = 0;
	bool need_table = false;

	while ((s = hashmap__next(&p->unknown, &pos)))
		need_table |= s->k1 == UNKNOWN_OPDEF && s->val < ASK_TIMES_MAX;
	/* the table also marks operators that torch never shows, so it is read first */
	if (need_table && clock__mono_ns() - p->last_table_ns > TABLE_EVERY_NS)
		read_table(r, p);
	pos = 0;
	while (!cancel__pending() && (s = hashmap__next(&p->unknown, &pos))) {
		if (s->k1 == UNKNOWN_KERNEL || s->val >= ASK_TIMES_MAX)
			continue;
		s->val++;
		if (ask_one(r, p, s))
			hashmap__del(&p->unknown, s->k0, s->k1);
	}
}

void recorder__resolve(struct recorder *r)
{
	for (uint32_t i = 0; i < r->proc_cnt; i++) {
		if (!r->procs[i].gone) {
			watch_table(r, &r->procs[i]);
			recorder__watch_groups(r, &r->procs[i], false);
			recorder__modules_go_on(r, &r->procs[i]);
		}
		if (r->procs[i].unknown.live && !r->procs[i].gone)
			resolve_proc(r, &r->procs[i]);
		if (r->procs[i].unknown.live)
			/* also of an ended process: its libraries are known */
			resolve_kernels(r, &r->procs[i]);
		if (r->procs[i].no_schema.live && !r->procs[i].gone)
			recorder__resolve_schemas(r, &r->procs[i]);
	}
}

uint64_t recorder__unresolved(const struct recorder *r)
{
	uint64_t n = r->over_unknown;

	for (uint32_t i = 0; i < r->proc_cnt; i++)
		n += r->procs[i].unknown.live;
	return n;
}
