/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What threads of pools (OpenMP's, MKL's, torch's) do for operators; see report.h. A thread that
 * runs neither an operator nor Python in the window is one of a pool. While it is on a CPU, it
 * works for what is open on the thread that woke it last and runs operators.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "report/report_priv.h"

struct long_op {
	uint64_t begin_ns, end_ns;
	uint32_t row;
};

struct pool_thread {
	uint32_t tgid, tid;
	bool python, operators;
	uint64_t since_ns; /* on a CPU since then, 0: not known */
	uint64_t short_ns; /* of waits without a record, which may lie in that time */
	uint32_t waker;    /* the last one of its process that is known; 0: none */
	uint32_t master;   /* at the end: the last one with operators; UINT32_MAX: there is none */
	struct long_op *ops; /* in order of their ends */
	uint32_t op_cnt, op_cap;
};

struct pool_run { /* of a thread on a CPU */
	uint64_t begin_ns, end_ns, ns;
	uint32_t thread, waker;
};

struct pool_edge { /* from here on so many threads work for that one */
	uint64_t at_ns;
	double threads, done_ns; /* until here they have done so much */
	uint32_t master;
};

struct pool_work {
	const struct session *s;
	struct pool_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids;
	struct pool_row *rows;
	uint32_t row_cnt, row_cap;
	struct hashmap row_ids;
	struct pool_run *runs;
	uint32_t run_cnt, run_cap;
	struct pool_edge *edges;
	uint32_t edge_cnt, edge_cap;
	bool done;
};

static struct pool_thread *thread_of(struct pool_work *pw, uint32_t tgid, uint32_t tid)
{
	struct pool_thread *t = list__keyed(KEYED_LIST(pw, threads, thread), tgid, tid);

	t->tgid = tgid;
	t->tid = tid;
	return t;
}

static struct pool_row *row_of(struct pool_work *pw, const struct pool_thread *t, const char *op)
{
	struct pool_row *r = list__keyed(KEYED_LIST(pw, rows, row), (uintptr_t)op,
					 (uint64_t)t->tgid << 32 | t->tid);

	r->tgid = t->tgid;
	r->tid = t->tid;
	r->op = op;
	return r;
}

static void take_slice(void *arg, const struct slice *sl)
{
	struct pool_work *pw = arg;
	struct pool_thread *t = thread_of(pw, sl->tgid, sl->tid);
	uint64_t dur = sl->end_ns - sl->begin_ns, own = dur > sl->child_ns ? dur - sl->child_ns : 0;
	struct pool_row *r;

	t->operators = true;
	if (sl->cat != SLICE_CPU_OP || own < POOL_OP_NS)
		return;
	r = row_of(pw, t, sl->name);
	r->cnt++;
	r->ns += own;
	vec_push(t->ops, t->op_cnt, t->op_cap,
		 (struct long_op){ sl->begin_ns, sl->end_ns, (uint32_t)(r - pw->rows) });
}

/* The thread was on a CPU until now, but for short waits. */
static void end_run(struct pool_work *pw, struct pool_thread *t, uint64_t now)
{
	struct pool_run run = { t->since_ns, now, 0, (uint32_t)(t - pw->threads), t->waker };
	uint64_t gone;

	if (t->python || t->operators || !t->since_ns || now <= t->since_ns)
		return;
	run.ns = now - t->since_ns;
	gone = t->short_ns < run.ns ? t->short_ns : run.ns;
	t->short_ns -= gone;
	run.ns -= gone;
	if (run.ns)
		vec_push(pw->runs, pw->run_cnt, pw->run_cap, run);
}

static void take_wait(void *arg, const struct sched_event *ev)
{
	struct pool_work *pw = arg;
	struct pool_thread *t = thread_of(pw, ev->at.tgid, ev->at.tid);
	uint64_t ns = 0;

	for (uint32_t k = 0; k < PTB_WAIT_CNT; k++)
		ns += ev->ns[k];
	if (ev->ns[PTB_WAIT_GIL])
		t->python = true;
	if (ev->at.op_slice)
		row_of(pw, t, ev->at.op)->wait_ns += ns;
	if (ev->wait) {
		end_run(pw, t, ev->begin_ns);
		if (ev->wait->waker_tgid == t->tgid && ev->wait->waker_tid)
			t->waker = ev->wait->waker_tid;
	} else {
		t->short_ns += ns;
		if (!t->since_ns)
			t->since_ns = ev->since_ns;
		end_run(pw, t, ev->end_ns);
	}
	t->since_ns = ev->end_ns;
}

static void take_sample(void *arg, const struct py_sample *ps)
{
	if (ps->stack)
		thread_of(arg, ps->tgid, ps->tid)->python = true;
}

/* ---- at the end ---- */

static bool is_pool(const struct pool_work *pw, const struct pool_thread *t)
{
	return !t->python && !t->operators && !*session__thread_name(pw->s, t->tgid, t->tid);
}

/* For whom the thread works; NULL: nobody is known. */
static const struct pool_thread *master_of(struct pool_work *pw, const struct pool_run *run)
{
	struct pool_thread *t = &pw->threads[run->thread], *best = NULL;
	const uint64_t *nr = hashmap__get(&pw->thread_ids, t->tgid, run->waker);

	if (nr && pw->threads[*nr].operators)
		t->master = pw->threads[*nr].tid;
	if (!t->master) { /* it has worked since before the window: for the one with most */
		for (uint32_t i = 0; i < pw->thread_cnt; i++)
			if (pw->threads[i].tgid == t->tgid &&
			    pw->threads[i].op_cnt > (best ? best->op_cnt : 0))
				best = &pw->threads[i];
		t->master = best ? best->tid : UINT32_MAX;
	}
	nr = hashmap__get(&pw->thread_ids, t->tgid, t->master);
	return nr ? &pw->threads[*nr] : NULL;
}

static int by_master(const void *a, const void *b)
{
	const struct pool_edge *x = a, *y = b;

	return x->master != y->master ? sort__cmp(x->master, y->master) :
					sort__cmp(x->at_ns, y->at_ns);
}

static void make_edges(struct pool_work *pw)
{
	for (uint32_t i = 0; i < pw->run_cnt; i++) {
		const struct pool_run *run = &pw->runs[i];
		double threads = (double)run->ns / (double)(run->end_ns - run->begin_ns);
		const struct pool_thread *m =
			is_pool(pw, &pw->threads[run->thread]) ? master_of(pw, run) : NULL;
		uint32_t nr = m ? (uint32_t)(m - pw->threads) : 0;

		if (!m)
			continue;
		vec_push(pw->edges, pw->edge_cnt, pw->edge_cap,
			 (struct pool_edge){ run->begin_ns, threads, 0, nr });
		vec_push(pw->edges, pw->edge_cnt, pw->edge_cap,
			 (struct pool_edge){ run->end_ns, -threads, 0, nr });
	}
	sort__array(pw->edges, pw->edge_cnt, sizeof(*pw->edges), by_master);
	for (uint32_t i = 1; i < pw->edge_cnt; i++) {
		struct pool_edge *e = &pw->edges[i];

		if (e[-1].master != e->master)
			continue;
		e->done_ns = e[-1].done_ns + e[-1].threads * (double)(e->at_ns - e[-1].at_ns);
		e->threads += e[-1].threads;
	}
}

/* What was done for it until then. */
static double done_until(const struct pool_work *pw, uint32_t master, uint64_t at_ns)
{
	const struct pool_edge key = { .at_ns = at_ns, .master = master }, *e;
	uint32_t from = 0, to = pw->edge_cnt;

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;

		if (by_master(&pw->edges[mid], &key) > 0)
			to = mid;
		else
			from = mid + 1;
	}
	e = from ? &pw->edges[from - 1] : NULL;
	if (!e || e->master != master)
		return 0;
	return e->done_ns + e->threads * (double)(at_ns - e->at_ns);
}

/* What lies in an operator has come before it. */
static void charge(struct pool_work *pw, uint32_t master)
{
	struct pool_thread *t = &pw->threads[master];
	struct pool_charge {
		uint64_t begin_ns;
		double ns;
	} *open = xcalloc(t->op_cnt + 1ULL, sizeof(*open));
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < t->op_cnt; i++) {
		const struct long_op *op = &t->ops[i];
		double all = done_until(pw, master, op->end_ns) -
			     done_until(pw, master, op->begin_ns),
		       own = all;

		for (; cnt && open[cnt - 1].begin_ns >= op->begin_ns; cnt--)
			own -= open[cnt - 1].ns;
		open[cnt++] = (struct pool_charge){ op->begin_ns, all };
		pw->rows[op->row].pool_ns += own > 0 ? own : 0;
	}
	free(open);
}

const struct pool_row *pool_work__rows(struct pool_work *pw, uint32_t *cnt)
{
	if (!pw->done) {
		make_edges(pw);
		for (uint32_t i = 0; i < pw->thread_cnt; i++)
			charge(pw, i);
	}
	pw->done = true;
	*cnt = pw->row_cnt;
	return pw->rows;
}

static int open_work(const struct output_args *args, void **out)
{
	struct pool_work *pw = xcalloc(1, sizeof(*pw));

	pw->s = args->s;
	*out = pw;
	return 0;
}

static struct session_sink work_sink(void *o)
{
	return (struct session_sink){
		.arg = o, .slice = take_slice, .sched = take_wait, .sample = take_sample
	};
}

static void free_work(void *o)
{
	struct pool_work *pw = o;

	if (!pw)
		return;
	for (uint32_t i = 0; i < pw->thread_cnt; i++)
		free(pw->threads[i].ops);
	free(pw->threads);
	free(pw->rows);
	free(pw->runs);
	free(pw->edges);
	hashmap__clear(&pw->thread_ids);
	hashmap__clear(&pw->row_ids);
	free(pw);
}

const struct output pool_work = { .open = open_work, .sink = work_sink, .free = free_work };
