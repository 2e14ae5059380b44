/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Writes a capture; see recorder.h. recorder_resolve.c resolves unknown addresses. */
#include "record/recorder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "capture/capture.h"
#include "record/recorder_agent.h"
#include "record/recorder_priv.h"
#include "target/proc_info.h"

#define CONTROL_MAX 16384
#define NAME_UNIT 128 /* a name counts as one entry per NAME_UNIT bytes */

static void keep_first_error(struct recorder *r, int err)
{
	if (err && !r->error)
		r->error = err;
}

void recorder__put(struct recorder *r, uint8_t kind, struct ptb_rec_hdr *h, uint32_t len)
{
	h->kind = kind;
	h->len = (uint16_t)len;
	if (!h->ts_ns)
		h->ts_ns = clock__mono_ns();
	if (!r->cw)
		return;
	switch (kind) {
	case PTB_REC_CLOCK: /* mean nothing without the records of their time */
	case PTB_REC_LOST:
	case PTB_REC_RSS_SAMPLE:
		keep_first_error(r, capture_writer__passing(r->cw, h));
		return;
	}
	keep_first_error(r, capture_writer__control(r->cw, h));
}

void recorder__put_ring(struct recorder *r, uint32_t ring, const struct ptb_rec_hdr *h)
{
	if (!r->cw)
		return;
	r->records++;
	if (r->holding) {
		switch (h->kind) {
		case PTB_REC_PY_STACK_DEF:
		case PTB_REC_GPU_DEVICE:
		case PTB_REC_GPU_CLOCK:
		case PTB_REC_GPU_NOTE:
		case PTB_REC_GPU_GRAPH_NODE:
			keep_first_error(r, capture_writer__lasting(r->cw, h));
			return;
		}
	}
	keep_first_error(r, capture_writer__ring(r->cw, ring, h, h->len));
}

void recorder__put_text(struct recorder *r, uint8_t kind, const struct ptb_text *head,
			const char *text, size_t len)
{
	union {
		struct ptb_text rec;
		char room[UINT16_MAX & ~7];
	} u;

	if (len > sizeof(u) - sizeof(u.rec) - 8)
		len = sizeof(u) - sizeof(u.rec) - 8;
	memset(&u, 0, sizeof(u.rec) + len + 8);
	u.rec = *head;
	u.rec.text_len = (uint32_t)len;
	memcpy(u.room + sizeof(u.rec), text, len);
	recorder__put(r, kind, &u.rec.h, (uint32_t)((sizeof(u.rec) + len + 7) & ~(size_t)7));
}

static void put_text(struct recorder *r, uint8_t kind, uint32_t id, const char *text, size_t len)
{
	const struct ptb_text head = { .id = id };
	size_t max = CONTROL_MAX - sizeof(head) - 8;

	recorder__put_text(r, kind, &head, text, len < max ? len : max);
}

static bool share_fits(const struct recorder *r, const void *table, uint32_t tgid, uint64_t left)
{
	const uint64_t *has = tgid ? hashmap__get(&r->shares, tgid, (uintptr_t)table) : NULL;

	return (has ? *has : 0) < left;
}

static void add_share(struct recorder *r, const void *table, uint32_t tgid, uint64_t cnt)
{
	uint64_t *has = hashmap__get(&r->shares, tgid, (uintptr_t)table);

	if (has)
		*has += cnt;
	else
		/* refused for want of memory: so are the entries that it counts */
		hashmap__try_put(&r->shares, tgid, (uintptr_t)table, cnt);
}

static uint32_t intern(struct recorder *r, uint32_t tgid, const char *text, size_t len)
{
	uint32_t known = strtab__cnt(r->names), id = strtab__find(r->names, text, len);

	if (id)
		return id;
	if (!share_fits(r, r->names, tgid, known < LIMIT_NAMES ? LIMIT_NAMES - known : 0)) {
		r->over_names++;
		return 0;
	}
	id = strtab__try_add(r->names, text, len);
	if (!id)
		return 0;
	add_share(r, r->names, tgid, 1 + len / NAME_UNIT);
	put_text(r, PTB_REC_NAME, id, text, len);
	return id;
}

uint32_t recorder__name(struct recorder *r, uint32_t tgid, const char *text)
{
	size_t len = strnlen(text, LIMIT_NAME_BYTES + 1);

	if (len > LIMIT_NAME_BYTES) {
		r->over_names++;
		len = LIMIT_NAME_BYTES;
	}
	return intern(r, tgid, text, len);
}

uint32_t recorder__text(struct recorder *r, uint32_t tgid, const char *text)
{
	return intern(r, tgid, text, strlen(text));
}

bool recorder__has_room(struct recorder *r, const struct hashmap *m, uint32_t tgid)
{
	if (share_fits(r, m, tgid, m->live < LIMIT_ADDRESSES ? LIMIT_ADDRESSES - m->live : 0))
		return true;
	r->over_names++;
	return false;
}

void recorder__remember(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key,
			uint64_t val)
{
	uint64_t *known = hashmap__get(m, tgid, key);

	if (known)
		*known = val;
	else if (recorder__has_room(r, m, tgid) && hashmap__try_put(m, tgid, key, val))
		/* refused for want of memory: counted there, and tried again */
		add_share(r, m, tgid, 1);
}

void recorder__forget(struct recorder *r, struct hashmap *m, uint32_t tgid, uint64_t key)
{
	if (hashmap__del(m, tgid, key))
		add_share(r, m, tgid, (uint64_t)-1);
}

int recorder__open(const char *path, recorder_task_fn fn, void *arg, const struct record_opts *opts,
		   struct recorder **out)
{
	struct recorder *r = xcalloc(1, sizeof(*r));
	int err;

	r->task_fn = fn;
	r->task_arg = arg;
	r->args = opts->args != PROBE_ARGS_NONE;
	r->memory = opts->memory;
	r->identities = opts->args == PROBE_ARGS_FULL;
	r->cuda_calls = opts->gpu;
	r->names = strtab__new();
	recorder__steps_open(r, opts);
	err = path ? capture_writer__open(path, &r->cw) : 0;
	if (err)
		goto fail;
	*out = r;
	return 0;
fail:
	recorder__discard(r);
	return err;
}

void recorder__set_drain(struct recorder *r, recorder_drain_fn fn)
{
	r->drain_fn = fn;
}

static void recorder_free(struct recorder *r)
{
	strtab__free(r->names);
	hashmap__clear(&r->threads);
	hashmap__clear(&r->thread_names);
	hashmap__clear(&r->opdefs);
	hashmap__clear(&r->classes);
	hashmap__clear(&r->shares);
	hashmap__clear(&r->schemas);
	hashmap__clear(&r->planned);
	for (int i = 0; i < (int)r->proc_cnt; i++) {
		hashmap__clear(&r->procs[i].unknown);
		hashmap__clear(&r->procs[i].no_schema);
		free(r->procs[i].groups);
		recorder__py_forget(r, &r->procs[i]);
		if (r->procs[i].pidfd >= 0)
			close(r->procs[i].pidfd);
	}
	free(r->procs);
	hashmap__clear(&r->kernels);
	host_funcs__free(r->host_funcs);
	recorder__agents_free(r);
	recorder__steps_free(r);
	free(r);
}

int recorder__dup_capture(const struct recorder *r)
{
	return capture_writer__dup(r->cw);
}

int recorder__close(struct recorder *r)
{
	int err = capture_writer__close(r->cw);

	if (!err)
		err = r->error;
	recorder_free(r);
	return err;
}

void recorder__discard(struct recorder *r)
{
	if (!r)
		return;
	capture_writer__discard(r->cw);
	recorder_free(r);
}

void recorder__meta(struct recorder *r, const char *key, const char *json)
{
	char buf[CONTROL_MAX];
	size_t k = strlen(key), j = strlen(json);

	if (k + 1 + j > sizeof(buf))
		return; /* ptbpf's own texts are short, and command lines are cut by their reader */
	memcpy(buf, key, k + 1);
	memcpy(buf + k + 1, json, j);
	put_text(r, PTB_REC_META, 0, buf, k + 1 + j);
}

void recorder__meta_json(struct recorder *r, const char *key,
			 void (*write_value)(struct jsonw *w, const void *arg), const void *arg)
{
	struct jsonw_text json = { .len = 0 };
	struct jsonw w;

	jsonw__init(&w, jsonw__to_text, &json, 1024);
	write_value(&w, arg);
	if (!jsonw__flush(&w))
		recorder__meta(r, key, json.text);
	jsonw__free(&w);
}

static void write_text(struct jsonw *w, const void *text)
{
	jsonw__str(w, text);
}

void recorder__meta_text(struct recorder *r, const char *key, const char *text)
{
	recorder__meta_json(r, key, write_text, text);
}

void recorder__clock(struct recorder *r)
{
	struct clock_pair p = clock__pair();
	struct ptb_clock c = { .h.ts_ns = p.mono_ns, .real_ns = p.real_ns, .err_ns = p.err_ns };

	recorder__put(r, PTB_REC_CLOCK, &c.h, sizeof(c));
}

void recorder__window(struct recorder *r, bool begin, uint64_t ts_ns, uint32_t reason)
{
	struct ptb_window w = { .h.ts_ns = ts_ns, .begin = begin, .reason = reason };

	if (begin)
		r->begin_ns = ts_ns;
	recorder__put(r, PTB_REC_WINDOW, &w.h, sizeof(w));
}

int recorder__hold(struct recorder *r, uint64_t ts_ns, uint64_t keep_ns, uint64_t max_bytes)
{
	int err = capture_writer__hold(r->cw, keep_ns, max_bytes);

	r->holding = !err;
	r->begin_ns = ts_ns;
	return err;
}

void recorder__expire(struct recorder *r, uint64_t now_ns)
{
	capture_writer__expire(r->cw, now_ns);
}

void recorder__release(struct recorder *r, uint64_t *since_ns)
{
	r->holding = false;
	keep_first_error(r, capture_writer__release(r->cw, since_ns, recorder__agents_open, r));
}

void recorder__counter(struct recorder *r, uint32_t id, uint64_t value)
{
	struct ptb_counter c = { .id = id, .value = value };

	recorder__put(r, PTB_REC_COUNTER, &c.h, sizeof(c));
}

void recorder__lost(struct recorder *r, uint32_t ring, uint64_t begin_ns, uint64_t end_ns,
		    uint64_t cnt)
{
	struct ptb_lost l = { .h.ts_ns = begin_ns, .end_ns = end_ns, .cnt = cnt, .ring = ring };

	recorder__put(r, PTB_REC_LOST, &l.h, sizeof(l));
}

void recorder__rss(struct recorder *r, uint32_t tgid, const struct proc_memory *mem)
{
	struct ptb_rss_sample s = {
		.h.tgid = tgid, .vm_bytes = mem->vm_bytes, .minor = mem->minor, .major = mem->major
	};

	memcpy(s.rss, mem->rss, sizeof(s.rss));
	recorder__put(r, PTB_REC_RSS_SAMPLE, &s.h, sizeof(s));
}

void recorder__window_ends(struct recorder *r, uint64_t ts_ns)
{
	r->end_ns = ts_ns;
}

/* These functions are not probed in this mode. Their numbers stay unused. */
static bool is_left_out(const struct recorder *r, const struct plan_func *pf)
{
	return (plan_func__is_memory(pf) && !r->memory) ||
	       (plan_func__is_tensor(pf) && !r->identities) ||
	       (plan_func__is_cuda_call(pf) && !r->cuda_calls);
}

static void put_func(struct recorder *r, const struct recorder_plan *rp,
		     const struct torch_plan *plan, uint32_t i, uint32_t reason)
{
	const struct plan_func *pf = &plan->funcs[i];
	struct ptb_func f = { .func = rp->func_base + i + 1,
			      .name = recorder__name(r, 0, pf->name),
			      .kind = pf->kind,
			      .reason = reason };

	recorder__put(r, PTB_REC_FUNC, &f.h, sizeof(f));
}

void recorder__plan(struct recorder *r, const struct torch_plan *plan, const struct torch_lib *libs,
		    struct recorder_plan *rp)
{
	rp->func_base = r->next_func;
	rp->site_base = r->next_site + 1;
	for (uint32_t i = 0; i < plan->func_cnt; i++)
		if (!is_left_out(r, &plan->funcs[i]) && plan->funcs[i].reason == PTB_REFUSE_NONE)
			put_func(r, rp, plan, i, PTB_REFUSE_NONE);
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct plan_site *ps = &plan->sites[i];
		struct ptb_site s = { .id = rp->site_base + i,
				      .func = rp->func_base + ps->func + 1,
				      .role = ps->role,
				      .lib = recorder__name(r, 0, libs[ps->lib].path),
				      .offset = ps->offset };

		if (is_left_out(r, &plan->funcs[ps->func]))
			continue;
		recorder__put(r, PTB_REC_SITE, &s.h, sizeof(s));
	}
	recorder__plan_schemas(r, plan, rp->func_base);
	recorder__steps_plan(r, plan, rp);
	r->next_func += plan->func_cnt;
	r->next_site += plan->site_cnt;
}

uint32_t recorder__refusals(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp,
			    bool (*wanted)(const struct plan_func *pf))
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->func_cnt; i++)
		if (plan->funcs[i].reason != PTB_REFUSE_NONE && wanted(&plan->funcs[i])) {
			put_func(r, rp, plan, i, plan->funcs[i].reason);
			n++;
		}
	return n;
}

void recorder__refused_site(struct recorder *r, const struct torch_plan *plan,
			    const struct recorder_plan *rp, uint32_t site)
{
	uint32_t idx = site - rp->site_base;

	if (idx < plan->site_cnt)
		put_func(r, rp, plan, plan->sites[idx].func, PTB_REFUSE_KERNEL_REFUSED);
}

void recorder__know_thread(struct recorder *r, uint32_t tgid, uint32_t tid, uint32_t name)
{
	if (r->threads.live >= LIMIT_THREADS) {
		hashmap__clear(&r->threads);
		hashmap__clear(&r->thread_names);
	}
	hashmap__try_put(&r->threads, tgid, tid, name);
}

void recorder__thread(struct recorder *r, uint32_t tgid, uint32_t tid, const char *comm)
{
	struct ptb_thread t = { .h.tgid = tgid, .h.tid = tid };

	t.comm = recorder__name(r, tgid, comm);
	recorder__put(r, PTB_REC_THREAD, &t.h, sizeof(t));
	recorder__know_thread(r, tgid, tid, t.comm);
}

static void record_threads(struct recorder *r, pid_t pid)
{
	pid_t *tids = NULL;
	int n = proc__threads(pid, &tids);

	for (int i = 0; i < n; i++) {
		char comm[16];

		if (!proc__comm(pid, tids[i], comm))
			recorder__thread(r, (uint32_t)pid, (uint32_t)tids[i], comm);
	}
	free(tids);
}

void recorder__addr_name(struct recorder *r, uint8_t kind, uint32_t tgid, uint64_t addr,
			 const char *name, uint32_t flags)
{
	struct ptb_addr_name a = { .h.tgid = tgid, .addr = addr, .flags = flags };

	a.name = recorder__name(r, tgid, name);
	recorder__put(r, kind, &a.h, sizeof(a));
}

void recorder__class(struct recorder *r, uint32_t tgid, uint64_t vptr, const char *name)
{
	recorder__addr_name(r, PTB_REC_NODE_TYPE, tgid, vptr, name, 0);
	recorder__remember(r, &r->classes, tgid, vptr, 1);
}

void recorder__opdef(struct recorder *r, uint32_t tgid, uint64_t addr, const char *name,
		     uint32_t flags)
{
	recorder__addr_name(r, PTB_REC_OPDEF, tgid, addr, name, flags);
	recorder__remember(r, &r->opdefs, tgid, addr, recorder__name(r, tgid, name));
}

void recorder__process(struct recorder *r, const struct torch_proc *tp,
		       const struct torch_plan *plan, const struct recorder_process *rp)
{
	uint32_t tgid = (uint32_t)tp->pid;
	struct recorder_proc *known = recorder__find_proc(r, tgid);
	struct ptb_process p = { .h.tgid = tgid,
				 .h.ts_ns = rp->start_ns,
				 .parent_tgid = rp->parent,
				 .source = rp->by_agent,
				 .gap_ns = rp->gap_ns,
				 .comm = recorder__name(r, tgid, tp->comm),
				 .cmdline = recorder__name(r, tgid, tp->cmdline),
				 .exe = recorder__name(r, tgid, tp->exe) };

	if (known)
		known->by_agent = rp->by_agent;
	recorder__put(r, PTB_REC_PROCESS, &p.h, sizeof(p));
	for (uint32_t i = 0; i < plan->class_cnt; i++) {
		const struct plan_addr_name *c = &plan->classes[i];

		uint64_t addr = c->addr + tp->libs[c->lib].load_bias;

		if (c->what == PLAN_ADDR_CALLER)
			recorder__addr_name(r, PTB_REC_CALLER, tgid, addr, c->name, 0);
		else
			recorder__class(r, tgid, addr, c->name);
	}
	recorder__keys(r, plan, tgid);
	recorder__job(r, tgid);
	recorder__torch_version(r, tp);
	record_threads(r, tp->pid);
}

void recorder__unprobed(struct recorder *r, uint32_t tgid)
{
	struct ptb_rec_hdr h = { .tgid = tgid };

	recorder__put(r, PTB_REC_UNPROBED, &h, sizeof(h));
}

static void put_stack(struct recorder *r, uint32_t ring, const struct ptb_rec_hdr *h)
{
	struct {
		struct ptb_py_stack_def def;
		struct ptb_py_frame frames[PTB_PY_FRAMES_MAX];
	} stack;

	if (h->len > sizeof(stack))
		return;
	memcpy(&stack, h, h->len);
	if (recorder__py_stack(r, &stack.def))
		return;
	recorder__peek(r, h);
	recorder__put_ring(r, ring, &stack.def.h);
}

void recorder__ring_record(void *arg, uint32_t ring, const void *rec, uint32_t len)
{
	struct recorder *r = arg;
	const struct ptb_rec_hdr *h = rec;

	if (len < sizeof(*h) || h->len > len)
		return; /* ptbpf's programs never emit such a record */
	if (h->kind == PTB_REC_AGENT_DATA) {
		recorder__agent_data(r, rec);
		return;
	}
	if (h->kind == PTB_REC_AGENT_STACK) {
		recorder__agent_stack(r, rec);
		return;
	}
	if (h->kind == PTB_REC_OPDEF_GONE) {
		recorder__opdef_gone(r, rec);
		return;
	}
	if (r->steps)
		recorder__steps_record(r, h);
	if (r->warming_up && record__reader(h->kind) != PTB_READ_TASKS) {
		recorder__peek(r, h); /* names must be read now */
		return;
	}
	if (h->kind == PTB_REC_PY_STACK_DEF) {
		put_stack(r, ring, h);
		return;
	}
	recorder__peek(r, h);
	if (h->flags & PTB_F_ARGS)
		recorder__check_layout(r, h);
	recorder__put_ring(r, ring, h);
}

void recorder__round(struct recorder *r, uint64_t watermark_ns)
{
	recorder__agent_round(r, watermark_ns);
	if (r->steps)
		step_count__round(r->steps, watermark_ns);
	if (r->cw)
		keep_first_error(r, capture_writer__round(r->cw, watermark_ns));
}

void recorder__flush(struct recorder *r)
{
	capture_writer__flush(r->cw); /* failures are counted */
}

struct recorder_stats recorder__stats(const struct recorder *r)
{
	uint64_t covered_ns = 0;
	bool cut = r->cw && capture_writer__cut(r->cw, &covered_ns);

	return (struct recorder_stats){
		.records = r->records,
		.bytes = r->cw ? capture_writer__bytes(r->cw) : 0,
		.write_dropped = r->cw ? capture_writer__dropped(r->cw) : 0,
		.unresolved = recorder__unresolved(r),
		.over_names = r->over_names,
		.over_operators = r->over_operators,
		.py_codes_gone = r->py_codes_gone,
		.py_classes_gone = r->py_classes_gone,
		.cut = cut,
		.covered_ns = covered_ns,
		.error = r->error,
	};
}
