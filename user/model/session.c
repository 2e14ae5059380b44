/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The session: facts of a capture and the passes over it. Owns the dispatch of records to the files
 * that understand them, the frames that probes show, and the delivery to sinks; must not know an
 * output format.
 *
 * Longer than 600 lines because a pass is one subject: from records to frames, from slices to
 * sinks.
 */
#include "model/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "capture/capture.h"
#include "model/gpu_priv.h"

struct session {
	struct capture_reader *cr;
	struct session_opts opts;
	char *step_on;
	struct facts facts;
	struct session_info info;
	struct step_ends step_ends;
	struct step_ids step_ids;  /* of the last run */
	struct gpu *gpu;           /* NULL: nothing recorded */
	struct memory_block *live; /* at the end of the last run */
	uint32_t live_cnt;
	struct model *run; /* the current one; NULL: none */
};

/* ---- facts ---- */

static bool is_true(const char *json)
{
	return json && !strcmp(json, "true");
}

/* A capture is a foreign file: what is none counts as 0. */
static uint32_t small_number(const char *json)
{
	unsigned long v = json ? strtoul(json, NULL, 10) : 0;

	return v <= 1000000 ? (uint32_t)v : 0;
}

static void fill_info(struct session *s, uint64_t first_ns, uint64_t last_ns)
{
	struct facts *f = &s->facts;
	struct session_info *i = &s->info;
	const char *args;

	i->begin_ns = f->begin_ns ? f->begin_ns : first_ns;
	i->end_ns = f->end_ns ? f->end_ns : last_ns;
	if (i->end_ns <= i->begin_ns)
		i->end_ns = i->begin_ns + 1;
	i->mono_to_unix_ns = f->mono_to_unix_ns;
	i->clock_err_ns = f->clock_err_ns;
	i->stop_reason = f->stop_reason;
	i->sealed = capture_reader__sealed(s->cr);
	i->processes = f->processes;
	i->process_cnt = f->process_cnt;
	i->lost = f->lost;
	i->lost_cnt = f->lost_cnt;
	i->refusals = f->refusals;
	i->refusal_cnt = f->refusal_cnt;
	i->func_cnt = f->probed_funcs;
	i->site_cnt = f->probed_sites;
	args = facts__meta(f, "args");
	i->has_results = args && !strcmp(args, "\"full\"");
	i->has_shapes = i->has_results || (args && !strcmp(args, "\"shapes\""));
	i->has_memory = is_true(facts__meta(f, "profile_memory"));
	i->sample_hz = small_number(facts__meta(f, "sample_hz"));
	i->with_samples = small_number(facts__meta(f, "with_samples"));
	i->has_py_stacks = (f->py.seen && !i->with_samples) || i->sample_hz ||
			   is_true(facts__meta(f, "with_stack"));
	i->has_modules = is_true(facts__meta(f, "with_modules"));
	i->merged = capture_reader__is_joined(s->cr);
	i->open_unknown = facts__has_func(f, PTB_FUNC_SCOPE, NULL) && !i->sample_hz && !i->merged &&
			  (!is_true(facts__meta(f, "started")) || facts__meta(f, "flight"));
	i->has_sched = is_true(facts__meta(f, "sched"));
	i->has_kernel_memory = is_true(facts__meta(f, "kernel_memory"));
	i->rss = f->rss;
	i->rss_cnt = f->rss_cnt;
	i->counters = f->counters;
	i->counter_cnt = sizeof(f->counters) / sizeof(f->counters[0]);
}

static bool agent_lost(const uint64_t *counters)
{
	return counters[PTB_CNT_AGENT_LOST] || counters[PTB_CNT_AGENT_DROPPED] ||
	       counters[PTB_CNT_AGENT_LATE] || counters[PTB_CNT_AGENT_BAD] ||
	       counters[PTB_CNT_AGENT_GAVE_UP] || counters[PTB_CNT_CHUNK_FAULT];
}

/* A walk over the capture of its own, only where its options say that there is something. */
static int read_gpu(struct session *s)
{
	struct session_info *i = &s->info;
	int err;

	i->has_gpu = is_true(facts__meta(&s->facts, "gpu"));
	i->has_cuda_calls = is_true(facts__meta(&s->facts, "cuda_calls"));
	if (!i->has_gpu && !i->has_cuda_calls)
		return 0;
	err = gpu__read(s->cr, &s->facts, i->begin_ns, i->end_ns, &s->gpu);
	if (err || !s->gpu)
		return err;
	i->devices = s->gpu->devices;
	i->device_cnt = s->gpu->device_cnt;
	i->gpu_clock_err_ns = s->gpu->clock_err_ns;
	i->gpu_clock_cnt = s->gpu->clock_cnt;
	return 0;
}

/* Those that were given, else the recording's. */
static void take_opts(struct session *s, const struct session_opts *opts)
{
	s->opts.when = opts ? opts->when : NULL;
	if (opts && opts->no_steps) {
		s->opts.no_steps = true;
		return;
	}
	if (opts && opts->step_on) {
		s->step_on = xstrdup(opts->step_on);
	} else {
		s->opts.no_steps = is_true(facts__meta(&s->facts, "no_steps"));
		s->step_on = facts__meta_dup(&s->facts, "step_on");
	}
	s->opts.step_on = s->step_on;
}

int session__open(struct capture_reader *cr, const struct session_opts *opts, struct session **out)
{
	struct session *s = xcalloc(1, sizeof(*s));
	uint64_t first_ns, last_ns;
	int err;

	s->cr = cr;
	err = facts__read(&s->facts, cr);
	if (!err && !capture_reader__is_joined(cr) && facts__meta(&s->facts, "merged")) {
		pr_error(
			"this is a capture that an earlier version merged: report and export take those that it was made of");
		err = -EINVAL;
	}
	if (!err)
		take_opts(s, opts);
	if (!err)
		err = steps__find(cr, &s->facts, &s->opts, agent_lost(s->facts.counters),
				  &s->step_ends, &first_ns, &last_ns);
	if (err)
		goto fail;
	fill_info(s, first_ns, last_ns);
	err = read_gpu(s);
	if (err)
		goto fail;
	*out = s;
	return 0;
fail:
	session__free(s);
	return err;
}

void session__free(struct session *s)
{
	if (!s)
		return;
	gpu__free(s->gpu);
	facts__clear(&s->facts);
	steps__clear(&s->step_ends);
	free(s->step_ids.orders);
	free(s->live);
	free(s->step_on);
	free(s);
}

const struct session_info *session__info(const struct session *s)
{
	return &s->info;
}

const struct session_process *session__process(const struct session *s, uint32_t tgid)
{
	const uint64_t *at = hashmap__get(&s->facts.process_by_tgid, tgid, 0);

	return at ? &s->info.processes[*at] : NULL;
}

uint64_t session__probed_until(const struct session *s, uint32_t tgid)
{
	uint64_t ns = facts__unprobed(&s->facts, tgid);

	if (ns < s->info.begin_ns)
		return s->info.begin_ns;
	return ns < s->info.end_ns ? ns : s->info.end_ns;
}

const uint64_t *session__later_steps(const struct session *s, uint32_t tgid, uint32_t tid,
				     uint32_t *cnt)
{
	const uint64_t *at = hashmap__get(&s->step_ends.later_ids, tgid, tid);
	const struct later_steps *later = at ? &s->step_ends.later[*at] : NULL;

	*cnt = later ? later->cnt : 0;
	return later ? later->ns : NULL;
}

/* Of the library that has most of the probed functions. */
const char *session__torch_lib(const struct session *s)
{
	const struct facts *f = &s->facts;
	struct hashmap cnts = { 0 };
	uint64_t *n, most = 0;
	uint32_t lib = 0;

	for (uint32_t i = 0; i < f->func_cnt; i++) {
		n = hashmap__get(&cnts, f->funcs[i].lib, 0);
		hashmap__put(&cnts, f->funcs[i].lib, 0, n ? *n + 1 : 1);
		n = hashmap__get(&cnts, f->funcs[i].lib, 0);
		if (f->funcs[i].lib && *n > most) {
			most = *n;
			lib = f->funcs[i].lib;
		}
	}
	hashmap__clear(&cnts);
	return strtab__text(f->texts, lib);
}

const char *session__meta(const struct session *s, const char *key)
{
	return facts__meta(&s->facts, key);
}

const char *session__thread_comm(const struct session *s, uint32_t tgid, uint32_t tid)
{
	const uint64_t *id = hashmap__get(&s->facts.thread_comm, tgid, tid);

	return id ? strtab__text(s->facts.texts, (uint32_t)*id) : "";
}

const char *session__thread_name(const struct session *s, uint32_t tgid, uint32_t tid)
{
	const uint64_t *id = hashmap__get(&s->facts.thread_name, tgid, tid);

	return id ? strtab__text(s->facts.texts, (uint32_t)*id) : "";
}

const char *session__thread_label(const struct session *s, uint32_t tgid, uint32_t tid)
{
	const char *name = session__thread_name(s, tgid, tid);

	return *name ? name : session__thread_comm(s, tgid, tid);
}

const char *session__native_stack(const struct session *s, uint32_t tgid, uint32_t tid)
{
	const uint64_t *id = hashmap__get(&s->facts.native_stacks, tgid, tid);

	return id ? strtab__text(s->facts.texts, (uint32_t)*id) : NULL;
}

uint64_t session__native_ns(const struct session *s, uint32_t tgid, uint32_t tid)
{
	const uint64_t *ns = hashmap__get(&s->facts.native_ns, tgid, tid);

	return ns ? *ns : 0;
}

const char *session__name(const struct session *s, uint32_t name_id)
{
	const struct facts *f = &s->facts;

	return name_id < f->name_cnt ? strtab__text(f->texts, f->names[name_id]) : "";
}

struct py_frame session__py_frame(const struct session *s, uint32_t frame)
{
	return py_stacks__frame(&s->facts.py, &s->facts, frame);
}

struct py_stack session__py_stack(const struct session *s, uint32_t stack)
{
	return py_stacks__stack(&s->facts.py, stack);
}

uint64_t session__order(const struct session *s, uint64_t id)
{
	uint64_t nr = SESSION_STEP_ID - id;

	return id <= SESSION_STEP_ID && nr < s->step_ids.cnt ? s->step_ids.orders[nr] : id;
}

uint32_t session__open_slices(const struct session *s, uint32_t tgid, uint32_t tid,
			      struct open_slice *list, uint32_t max)
{
	const struct thread *t = s->run ? model__known_thread(s->run, tgid, tid) : NULL;
	uint32_t n = 0, i = t ? t->cnt : 0;

	while (i && n < max) {
		const struct entry *e = &t->stack[--i];

		if (!e->hidden && s->run->when && !e->within)
			break;
		if (!e->hidden)
			list[n++] = (struct open_slice){ .id = e->id,
							 .name = e->name,
							 .cat = e->cat,
							 .stack = e->stack,
							 .fwd_stack = e->fwd_stack,
							 .is_step = e->is_step };
	}
	return n;
}

/* ---- slices and flows on their way to the sinks ---- */

static void count_slice(struct session_totals *n, const struct slice *sl, const struct entry *e)
{
	n->slices++;
	if (sl->flags & SLICE_PARTIAL) {
		n->partial_steps++;
		n->partial_ns += sl->end_ns - sl->begin_ns;
	}
	n->own_steps += e->is_step &&
			!(sl->flags & (SLICE_DERIVED | SLICE_OPEN_AT_BEGIN | SLICE_UNFINISHED |
				       SLICE_TRUNCATED | SLICE_END_LOST));
	if (sl->flags & SLICE_DERIVED)
		n->steps++;
	else if (sl->cat == SLICE_USER_ANNOTATION)
		n->annotations++;
	else
		n->ops++;
	if (sl->flags & SLICE_TRUNCATED)
		++*(sl->cat == SLICE_USER_ANNOTATION ? &n->truncated_annotations :
						       &n->truncated_ops);
	n->unwound += !!(sl->flags & SLICE_UNWOUND);
	n->end_lost += !!(sl->flags & SLICE_END_LOST);
	n->open_at_begin += !!(sl->flags & SLICE_OPEN_AT_BEGIN);
	n->unfinished += !!(sl->flags & SLICE_UNFINISHED);
	n->unresolved_names += e->is_address;
}

void model__deliver(struct model *m, struct thread *t, const struct entry *e, uint64_t end_ns)
{
	struct slice sl = {
		.id = e->id,
		.parent = m->when && e->within < 2 ? 0 : e->parent,
		.tgid = t->tgid,
		.tid = t->tid,
		.depth = m->when && e->within ? e->within - 1 : e->depth,
		.begin_ns = e->begin_ns,
		.end_ns = end_ns,
		.name = e->name,
		.overload = e->overload,
		.cat = e->cat,
		.kind = e->kind,
		.scope = e->scope,
		.flags = e->flags,
		.seq = e->seq,
		.fwd_thread = e->fwd_thread,
		.stack = entry__py_stack(e),
		.fwd_stack = e->fwd_stack,
		.backward = e->backward,
		.child_ns = e->child_ns,
		.device_ns = e->device_ns,
		.call_ns = e->call_ns,
		.call_cnt = e->call_cnt,
		.schema = e->schema ? e->schema : "",
		.keys = t->keys,
	};

	if (model__leaves_out(m, e->within))
		return;
	if (e->args)
		args__put_into(e, &sl);
	if (e->mem)
		memory__put_into(e, &sl);
	count_slice(m->totals, &sl, e);
	MODEL_EMIT(m, slice, &sl);
}

void model__flow(struct model *m, const struct fwdbwd *fl)
{
	m->totals->flows++;
	MODEL_EMIT(m, flow, fl);
}

/* ---- frames ---- */

/* The record's values are the frame's, unless h is only its time. */
static struct entry *push_frame(struct model *m, struct thread *t, struct entry *proto,
				const struct ptb_rec_hdr *h, bool values)
{
	struct entry *e;

	proto->stack = thread__py_stack(t, h->ts_ns);
	e = stack__push_frame(m, t, proto, h->ts_ns);
	if (e && e->kind == PTB_FUNC_NODE_CALL)
		autograd__take_stack(m, t, e);
	if (e && values && h->flags & PTB_F_ARGS)
		args__enter(m, t, e, h);
	if (e && m->full && e->kind == PTB_FUNC_NODE_CALL && !e->hidden)
		args__backward(m, t, e);
	return e;
}

static void set_op_name(struct entry *e, const struct op_name *op)
{
	e->name = op->name;
	e->overload = op->overload;
	e->schema = op->schema;
	e->hidden = op->hidden;
	e->hides_children = op->hides_children;
	e->is_address = op->is_address;
}

/* A call of a node has the name and the number of the innermost node that is open. */
static void take_node(const struct thread *t, struct entry *e)
{
	uint32_t i = t->cnt;

	while (i) {
		const struct entry *node = &t->stack[--i];

		if (!node->inner || node->kind != PTB_FUNC_NODE)
			continue;
		e->name = node->inner;
		e->is_address = node->is_address;
		e->flags = node->flags & SLICE_NAME_CUT;
		e->seq = node->seq;
		e->fwd_thread = node->fwd_thread;
		break;
	}
}

static void on_op_enter(struct model *m, struct thread *t, struct entry *e,
			const struct func_fact *ff, const struct ptb_rec_hdr *h)
{
	set_op_name(e, &ff->op);
	/* its record does not say which node: the one around it */
	if (ff->kind == PTB_FUNC_NODE_CALL) {
		e->scope = 1;         /* at::RecordScope::BACKWARD_FUNCTION */
		e->is_address = true; /* until its node is found */
		take_node(t, e);
	}
	push_frame(m, t, e, h, true);
}

static void on_boxed(struct model *m, struct thread *t, struct entry *e,
		     const struct ptb_boxed_enter *r)
{
	const struct addr_fact *a = facts__opdef(m->f, t->tgid, r->opdef, r->h.ts_ns);

	if (a) {
		set_op_name(e, &a->op);
	} else {
		e->name = facts__address_name(m->f, "operator", r->opdef);
		e->is_address = true;
	}
	push_frame(m, t, e, &r->h, true);
}

static void on_named(struct model *m, struct thread *t, struct entry *e, const struct func_fact *ff,
		     const struct ptb_named_enter *r)
{
	e->name = ff->op.name;
	e->is_address = !r->text_len;
	if (r->text_len)
		e->name = facts__intern(m->f, (const char *)(r + 1), r->text_len);
	if (r->h.flags & PTB_F_TEXT_CUT)
		e->flags |= SLICE_NAME_CUT;
	e->scope = ff->kind == PTB_FUNC_SCRIPT ? 2 : 0; /* TORCHSCRIPT_FUNCTION */
	push_frame(m, t, e, &r->h, true);
}

static void on_node(struct model *m, struct thread *t, struct entry *e, const struct func_fact *ff,
		    const struct ptb_node_enter *r)
{
	const struct addr_fact *a = facts__node_type(m->f, t->tgid, r->vptr);

	if (r->text_len) {
		facts__node_names(m->f, (const char *)(r + 1), r->text_len, &e->name, &e->inner);
	} else if (a) {
		e->name = a->outer;
		e->inner = a->inner;
	} else {
		const char *cls = facts__address_name(m->f, "node", r->vptr);

		facts__node_names(m->f, cls, strlen(cls), &e->name, &e->inner);
		e->is_address = true;
	}
	if (r->h.flags & PTB_F_TEXT_CUT)
		e->flags |= SLICE_NAME_CUT;
	e->seq = r->seq > INT64_MAX ? -1 : (int64_t)r->seq;
	if (r->h.flags & PTB_F_READ_FAULT && !r->fwd_thread)
		e->seq = -1; /* not read; the flag alone may mean the name */
	e->fwd_thread = r->fwd_thread;
	if (ff->kind == PTB_FUNC_NODE) {
		/* torch records no inputs of evaluate_function(): those are of the node's own
		 * call */
		if (!push_frame(m, t, e, &r->h, false) || ff->has_node_call)
			return;
		e->synthetic = true;
	}
	e->name = e->inner;
	e->kind = PTB_FUNC_NODE_CALL;
	e->scope = 1; /* at::RecordScope::BACKWARD_FUNCTION */
	push_frame(m, t, e, &r->h, true);
}

/* All kinds of entry. Every one has the stack pointer directly behind the header. */
static void on_enter(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	const struct site_fact *site = facts__site(m->f, h->site);
	const struct ptb_op_enter *op = (const void *)h;
	const struct func_fact *ff;
	struct entry e = { .overload = "", .cat = SLICE_CPU_OP, .seq = -1, .sp = op->sp };

	stack__at(m, t, op->sp, h->ts_ns);
	if (!site) {
		m->totals->bad_records++;
		return;
	}
	ff = &m->f->funcs[site->func];
	e.func = site->func;
	e.kind = ff->kind;
	e.no_exit = !ff->has_exit || ff->reason == PTB_REFUSE_KERNEL_REFUSED;
	switch (h->kind) {
	case PTB_REC_OP_ENTER:
		on_op_enter(m, t, &e, ff, h);
		break;
	case PTB_REC_BOXED_ENTER:
		on_boxed(m, t, &e, (const void *)h);
		break;
	case PTB_REC_NODE_ENTER:
		on_node(m, t, &e, ff, (const void *)h);
		break;
	case PTB_REC_NAMED_ENTER:
		on_named(m, t, &e, ff, (const void *)h);
		break;
	}
}

static void on_exit_site(struct model *m, struct thread *t, const struct ptb_op_exit *r)
{
	const struct site_fact *site = facts__site(m->f, r->h.site);

	if (site)
		stack__exit(m, t, site->func, r);
	else
		m->totals->bad_records++;
}

static void on_args_more(struct model *m, struct thread *t, const struct ptb_op_enter *r)
{
	const struct site_fact *site = facts__site(m->f, r->h.site);

	stack__at(m, t, r->sp, r->h.ts_ns);
	if (site)
		args__more(m, t, r, site);
	else
		m->totals->bad_records++;
}

/* ---- the pass ---- */

static void pass_losses(struct model *m, uint64_t ts)
{
	while (m->lost_pos < m->f->lost_cnt && m->f->lost[m->lost_pos].begin_ns <= ts) {
		if (m->f->lost[m->lost_pos].end_ns > m->lost_until)
			m->lost_until = m->f->lost[m->lost_pos].end_ns;
		m->lost_pos++;
	}
}

/* Closes what is open in processes that have lost their probes by now. */
static void pass_unprobed(struct model *m, uint64_t ts)
{
	for (; m->unprobed_pos < m->unprobed_cnt && m->unprobed[m->unprobed_pos].ns < ts;
	     m->unprobed_pos++)
		model__unprobed(m, m->unprobed[m->unprobed_pos].tgid,
				m->unprobed[m->unprobed_pos].ns);
}

static int by_time(const void *a, const void *b)
{
	const struct unprobed *x = a, *y = b;

	return sort__cmp(x->ns, y->ns);
}

static void find_unprobed(struct model *m)
{
	uint32_t cap = 0;

	for (uint32_t i = 0; i < m->f->process_cnt; i++)
		if (m->f->processes[i].unprobed_ns > m->begin_ns)
			vec_push(m->unprobed, m->unprobed_cnt, cap,
				 (struct unprobed){ m->f->processes[i].unprobed_ns,
						    m->f->processes[i].tgid });
	sort__array(m->unprobed, m->unprobed_cnt, sizeof(*m->unprobed), by_time);
}

static void on_thread_record(struct model *m, struct thread *t, const struct ptb_rec_hdr *h)
{
	t->seen = true;
	if (h->ts_ns > t->unprobed_ns) /* while its probes were removed: some had gone */
		return;
	switch (h->kind) {
	case PTB_REC_OP_EXIT:
		on_exit_site(m, t, (const void *)h);
		break;
	case PTB_REC_CATCH: /* what the exception has unwound lies below its catcher */
		stack__at(m, t, ((const struct ptb_op_exit *)(const void *)h)->sp, h->ts_ns);
		break;
	case PTB_REC_ARGS_MORE:
		on_args_more(m, t, (const void *)h);
		break;
	case PTB_REC_SCOPE_NAME:
		scopes__name(m, t, (const void *)h);
		break;
	case PTB_REC_SCOPE_BEGIN:
		scopes__begin(m, t, (const void *)h);
		break;
	case PTB_REC_SCOPE_END:
		scopes__end(m, t, (const void *)h);
		break;
	case PTB_REC_RF_BEGIN:
		rf__begin(m, t, (const void *)h);
		break;
	case PTB_REC_RF_END:
		rf__end(m, t, (const void *)h);
		break;
	case PTB_REC_SEQ:
		autograd__seq(m, t, (const void *)h);
		break;
	default:
		on_enter(m, t, h);
		break;
	}
	steps__advance(m, t, h->ts_ns);
}

static void on_py_stack(struct model *m, struct thread *t, const struct ptb_py_stack *r)
{
	t->stack_ns = r->h.ts_ns;
	t->stack_nr = py_stacks__find(&m->f->py, t->tgid, r->id);
	m->totals->stacks++;
	if (t->stack_nr)
		return;
	if (!r->id || py_stacks__is_unread(&m->f->py, t->tgid, r->id))
		m->totals->stacks_unread++;
	else
		m->totals->stacks_unknown++;
}

#define SAMPLE_NS_MAX (1ULL << 50) /* so that sums have room */

static void on_py_sample(struct model *m, const struct thread *t, const struct ptb_py_sample *r)
{
	struct py_sample ps = { .ts_ns = r->h.ts_ns,
				.ns = r->ns,
				.tgid = r->h.tgid,
				.tid = r->h.tid,
				.stack = py_stacks__find(&m->f->py, r->h.tgid, r->id),
				.flags = r->flags,
				.op = "" };
	const struct addr_fact *op;

	if (r->ns > SAMPLE_NS_MAX) {
		m->totals->bad_records++;
		return;
	}
	stack__whole_context(m, t, r->h.tgid, r->h.tid, &ps.at);
	if (model__leaves_out(m, ps.at.within))
		return;
	m->totals->samples++;
	m->totals->samples_running += (r->flags & PTB_SAMPLE_RAN) != 0;
	if (!ps.stack && py_stacks__is_unread(&m->f->py, r->h.tgid, r->id))
		ps.flags |= PTB_SAMPLE_NO_STACK;
	if (ps.flags & PTB_SAMPLE_NO_STACK) {
		m->totals->samples_unread++;
	} else if (r->id && !ps.stack) {
		m->totals->stacks_unknown++;
		ps.flags |= PTB_SAMPLE_NO_STACK;
	}
	if (r->flags & PTB_SAMPLE_OPS && r->op) {
		op = facts__opdef(m->f, r->h.tgid, r->op, r->h.ts_ns);
		if (op && !op->op.is_address)
			ps.op = op->op.full;
		else
			/* the chunk with its name is lost, which is counted */
			ps.flags &= ~(uint32_t)PTB_SAMPLE_OPS;
	}
	m->totals->samples_ops += (ps.flags & PTB_SAMPLE_OPS) != 0;
	MODEL_EMIT(m, sample, &ps);
}

/* Where there is nothing but samples, the sinks know it first. */
static struct thread *sampled_thread(struct model *m, const struct ptb_rec_hdr *h)
{
	return m->s->info.with_samples ? model__known_thread(m, h->tgid, h->tid) :
					 model__thread(m, h->tgid, h->tid);
}

static int on_record(void *arg, const struct ptb_rec_hdr *h)
{
	struct model *m = arg;

	if (h->ts_ns >= TS_MAX) {
		m->totals->bad_records++;
		return 0;
	}
	if (h->ts_ns < m->begin_ns || h->ts_ns > m->end_ns || !record__is_by_thread(h->kind)) {
		model__task_outside(m, h);
		return 0;
	}
	pass_losses(m, h->ts_ns);
	pass_unprobed(m, h->ts_ns);
	if (m->gpu)
		gpu__until(m, h->ts_ns);
	switch (record__reader(h->kind)) {
	case PTB_READ_TASKS:
		model__task(m, (const void *)h);
		break;
	case PTB_READ_TENSORS:
		tensor_ids__end(&m->tensors, (const void *)h);
		break;
	case PTB_READ_MEMORY:
		memory__record(m, h);
		break;
	case PTB_READ_STACKS:
		on_py_stack(m, model__thread(m, h->tgid, h->tid), (const void *)h);
		break;
	case PTB_READ_SAMPLES:
		on_py_sample(m, sampled_thread(m, h), (const void *)h);
		break;
	case PTB_READ_THREADS:
		on_thread_record(m, model__thread(m, h->tgid, h->tid), h);
		break;
	case PTB_READ_SCHED:
		sched__record(m, model__thread(m, h->tgid, h->tid), h);
		break;
	case PTB_READ_NOBODY: /* not by thread */
	case PTB_READ_RECORDER:
	case PTB_READ_STACK_DEFS:
	case PTB_READ_GPU:
	case PTB_READ_FACTS:
		break;
	}
	return 0;
}

static void model_clear(struct model *m)
{
	args__clear(m);
	memory__clear(m);
	for (uint32_t i = 0; i < m->thread_cnt; i++) {
		free(m->threads[i]->stack);
		free(m->threads[i]->fwd);
		free(m->threads[i]);
	}
	free(m->threads);
	free(m->unprobed);
	autograd__clear(m);
	hashmap__clear(&m->thread_by_id);
	hashmap__clear(&m->living);
	hashmap__clear(&m->handles);
	hashmap__clear(&m->deep);
	hashmap__clear(&m->current_step);
}

static void start_pass(struct session *s, struct model *m)
{
	m->s = s;
	m->f = &s->facts;
	m->when = s->opts.when;
	m->begin_ns = s->info.begin_ns;
	m->end_ns = s->info.end_ns;
	find_unprobed(m);
	m->step_ends = &s->step_ends;
	m->step_ids = &s->step_ids;
	s->step_ids.cnt = 0;
	m->full = s->info.has_results;
	m->tensors.ends = facts__has_func(m->f, PTB_FUNC_TENSOR, "TensorImpl::~TensorImpl");
	m->gpu = s->gpu;
	if (m->gpu) {
		m->gpu->call_context_cnt = 0;
		gpu_graph__begin(&m->gpu->graphs);
	}
	m->agent_lost = agent_lost(s->facts.counters);
	free(s->live);
	*m->totals = (struct session_totals){
		.when = s->opts.when, .bad_records = s->facts.bad_records + s->facts.py.bad_records
	};
	if (s->info.has_memory || s->info.has_kernel_memory)
		memory__open(m);
}

const struct memory_block *session__live_blocks(const struct session *s, uint32_t *cnt)
{
	*cnt = s->live_cnt;
	return s->live;
}

/* Of live blocks those that were allocated in annotations of the options. */
static void keep_within(struct session *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->live_cnt; i++)
		if (s->live[i].within)
			s->live[n++] = s->live[i];
	s->live_cnt = n;
}

int session__run(struct session *s, const struct session_sink *sinks, uint32_t cnt,
		 struct session_totals *totals)
{
	struct model m = { .sinks = sinks, .sink_cnt = cnt, .totals = totals };
	int err;

	start_pass(s, &m);

	s->run = &m;
	err = capture_reader__stream(s->cr, on_record, &m);
	m.totals->bad_records += capture_reader__bad_records(s->cr);
	m.totals->late_records = capture_reader__late(s->cr);
	if (m.gpu)
		gpu__until(&m, UINT64_MAX);
	for (uint32_t i = 0; i < m.thread_cnt; i++)
		stack__close_all(&m, m.threads[i], facts__end_of(m.f, m.threads[i]->tgid, m.end_ns),
				 SLICE_UNFINISHED);
	if (m.gpu)
		gpu__emit(&m);
	memory__live(&m, &s->live, &s->live_cnt);
	if (m.when)
		keep_within(s);
	if (m.when && !err && !m.totals->when_found) {
		pr_error("no annotation of the capture is named '%s'", m.when);
		err = -ENODATA;
	}
	m.totals->live_blocks = s->live_cnt;
	m.totals->tensors_over = m.tensors.over;
	if (s->info.open_unknown)
		model__count_silent(&m);
	s->run = NULL;
	model_clear(&m);
	return err;
}
