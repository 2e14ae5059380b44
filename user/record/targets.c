/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The processes of one recording. Longer than 600 lines because a target's plan, probes and agent
 * are decided together, each by what the others can do.
 */
#define LOG_DOMAIN "targets"
#include "record/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/jsonw.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc_read.h"
#include "plan/plan.h"
#include "record/recorder_agent.h"
#include "steps/step_events.h"
#include "target/proc.h"
#include "target/proc_info.h"

#define FACTS_EVERY_NS 500000000ULL /* interval of polls of a young process's dispatcher */

void targets__free(struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++) {
		if (ts->items[i].pidfd >= 0)
			close(ts->items[i].pidfd);
		target_agent__free(ts->items[i].agent);
		target_calls__clear(&ts->items[i].calls);
		target_cuda__free(&ts->items[i].cuda);
	}
	for (uint32_t i = 0; i < ts->plan_cnt; i++)
		torch_plan__free(ts->plans[i].plan);
	free(ts->items);
	free(ts->plans);
}

struct target *targets__find(struct targets *ts, pid_t pid)
{
	uint32_t i = ts->cnt;

	while (i--)
		if (ts->items[i].pid == pid && ts->items[i].state != TARGET_GONE)
			return &ts->items[i];
	return NULL;
}

struct target *targets__find_any(struct targets *ts, pid_t pid)
{
	struct target *t = targets__find(ts, pid);

	for (uint32_t i = ts->cnt; !t && i--;)
		t = ts->items[i].pid == pid ? &ts->items[i] : NULL;
	return t;
}

void targets__charge(struct targets *ts, struct target *t, uint64_t share_ns)
{
	t->changes_ns += probe_set__share_ns(ts->ps) - share_ns;
}

void targets__remove_probes(struct targets *ts, struct target *t)
{
	static const uint64_t names = 1u << PTB_PROG_SCOPE_STRING | 1u << PTB_PROG_SCOPE_CSTR |
				      1u << PTB_PROG_SCOPE_PYARGS;
	uint64_t share_ns = probe_set__share_ns(ts->ps);

	ts->new_ops += target_calls__new(t);
	target_calls__clear(&t->calls);
	probe_set__remove_probes(ts->ps, t->proc_idx, t->unprobed ? 0 : names);
	target_cuda__clear(&t->cuda, ts->ps);
	t->unprobed = true;
	targets__charge(ts, t, share_ns);
}

/* Is there a report on its agent, or a reason why it has none? */
static bool has_agent_news(const struct target *t)
{
	return t->agent || t->agent_why[0];
}

struct target *targets__add(struct targets *ts, pid_t pid, uint32_t parent, uint64_t born_ns)
{
	const struct target *of = parent ? targets__find_any(ts, (pid_t)parent) : NULL;
	uint64_t max_cost = of ? of->max_cost_ns : 0;
	struct target *t = NULL;
	uint32_t alive = 0;

	for (uint32_t i = 0; i < ts->cnt; i++) {
		struct target *old = &ts->items[i];

		if (old->state != TARGET_GONE)
			alive++;
		else if (old->pidfd < 0 && (!has_agent_news(old) || ts->cnt >= LIMIT_PROCESSES))
			/* nothing more is reported about it */
			t = old;
	}
	if (alive >= LIMIT_PROCESSES) {
		if (!ts->over_processes++)
			pr_warn("more than %d processes: process %d and others are not traced",
				LIMIT_PROCESSES, pid);
		return NULL;
	}
	if (t) {
		target_calls__clear(&t->calls);
		target_cuda__free(&t->cuda);
		target_agent__free(t->agent);
	} else {
		vec_reserve((void **)&ts->items, &ts->cap, (uint64_t)ts->cnt + 1,
			    sizeof(*ts->items));
		t = &ts->items[ts->cnt++];
	}
	*t = (struct target){
		.pid = pid, .parent = parent, .born_ns = born_ns, .max_cost_ns = max_cost
	};
	t->pidfd = pid_hold__open(pid);
	if ((born_ns && !pid_hold__began_by(pid, born_ns)) ||
	    (parent && !born_ns && !pid_hold__has_parent(pid, (pid_t)parent))) {
		if (t->pidfd >= 0)
			close(t->pidfd);
		t->pidfd = -ESRCH; /* ended: its pid may belong to another process */
	}
	return t;
}

uint32_t targets__count(const struct targets *ts, enum target_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ts->cnt; i++)
		n += ts->items[i].state == state;
	return n;
}

struct shared_plan *targets__plan(struct targets *ts, const struct torch_lib *libs, bool no_cache)
{
	struct plan_key key;
	uint64_t t0 = clock__mono_ns();
	struct shared_plan *sp;
	int err;

	if (plan_key__get(libs, !no_cache, NULL, &key))
		return NULL;
	err = plan_failures__find(&key, t0);
	if (err) {
		pr_error(
			"%s: its analysis failed less than an hour ago (%s), and is not tried again",
			libs[TORCH_LIB_CPU].present ? libs[TORCH_LIB_CPU].path :
						      "a library of CUDA",
			errstr(err));
		return NULL;
	}
	for (uint32_t i = 0; i < ts->plan_cnt; i++)
		if (plan_key__same(&ts->plans[i].plan->key, &key))
			return &ts->plans[i];
	vec_reserve((void **)&ts->plans, &ts->plan_cap, (uint64_t)ts->plan_cnt + 1,
		    sizeof(*ts->plans));
	sp = &ts->plans[ts->plan_cnt];
	*sp = (struct shared_plan){ .plan = NULL };
	err = torch_plan__new(libs, &key, !no_cache, &sp->plan);
	if (err) {
		plan_failures__note(&key, err, clock__mono_ns() - t0, clock__mono_ns());
		return NULL;
	}
	ts->plan_cnt++;
	ts->plan_ns += clock__mono_ns() - t0;
	return sp;
}

/*
 * Loads the argument programs of a plan, once a session, if this process's layout allows arguments.
 * 0 or negative errno (reported).
 */
static int load_args(struct targets *ts, const struct target *t, struct shared_plan *sp)
{
	const struct torch_plan *plan = sp->plan;

	if (ts->opts->args == PROBE_ARGS_NONE)
		return 0;
	if (ts->kernel_args == PROBE_ARGS_NONE) {
		if (!target_agent__has_ops(t->agent)) {
			pr_warn("pid %d: its operators are traced without shapes: it has no agent",
				t->pid);
			ts->no_shapes++;
		}
		return 0;
	}
	if (!plan->layout.tensor.shapes_on) {
		pr_warn("pid %d: its operators are traced without shapes: %s", t->pid,
			plan->layout.no_shapes_why);
		ts->no_shapes++;
	}
	if (sp->args_base || !plan->prog_cnt)
		return 0;
	for (uint32_t i = 0; i < plan->func_cnt; i++)
		ts->unplaced += plan->funcs[i].unplaced;
	return probe_set__add_arg_progs(ts->ps, plan->progs, plan->prog_cnt, &sp->args_base);
}

struct probe_site targets__site(const struct shared_plan *sp, uint32_t i)
{
	const struct plan_site *s = &sp->plan->sites[i];
	struct probe_site p = { .id = sp->recorded.site_base + i,
				.offset = s->offset,
				.prog = s->prog,
				.insn_len = s->len };

	memcpy(p.insn, s->bytes, s->len);
	return p;
}

/* A site of torch's libraries, with its argument program. */
static struct probe_site site_with_args(const struct shared_plan *sp, uint32_t i,
					enum probe_args args)
{
	const struct plan_site *s = &sp->plan->sites[i];
	struct probe_site p = targets__site(sp, i);

	if (args == PROBE_ARGS_NONE || !sp->plan->layout.tensor.shapes_on)
		return p;
	if (s->args && sp->args_base)
		p.args = sp->args_base + s->args - 1;
	/* the results of a boxed call replace its arguments */
	if (args == PROBE_ARGS_FULL && s->role == PTB_ROLE_EXIT &&
	    sp->plan->funcs[s->func].kind == PTB_FUNC_BOXED)
		p.prog = PTB_PROG_BOXED_EXIT;
	return p;
}

/* Does the function need a probe in addition to what the process's agent records? */
static bool needs_probe(const struct plan_func *pf, const struct target *t,
			const struct targets *ts)
{
	/* the program may run an operator a million times between two steps */
	if (ts->opts->steps.only)
		return pf->kind == PTB_FUNC_SCOPE ||
		       (pf->kind == PTB_FUNC_ALLOCATOR &&
			ts->opts->steps.oom) || /* of these only sites with a program */
		       (ts->opts->steps.ops && pf->kind == PTB_FUNC_OP &&
			step_rule__is_op(ts->opts->steps.name, pf->name));
	if (plan_func__is_memory(pf))
		return true;
	if (!ts->opts->ops || (ts->opts->names_only && pf->kind != PTB_FUNC_SCOPE))
		return false;
	if (plan_func__is_tensor(pf)) /* also the tensors of an agent */
		return ts->opts->args == PROBE_ARGS_FULL && !t->no_args;
	return pf->kind == PTB_FUNC_REGISTRY || !target_agent__has_ops(t->agent);
}

/* Selects the sites of one library that are probed. */
static void fill_torch_lib(const struct torch_proc *tp, const struct shared_plan *sp, uint8_t role,
			   struct target *t, const struct targets *ts, struct probe_lib *lib)
{
	lib->name = tp->libs[role].path;
	lib->access_path = tp->libs[role].access_path;
	lib->sites = xcalloc(sp->plan->site_cnt ? sp->plan->site_cnt : 1, sizeof(*lib->sites));
	for (uint32_t i = 0; i < sp->plan->site_cnt; i++) {
		const struct plan_site *s = &sp->plan->sites[i];
		struct probe_site p = site_with_args(sp, i, ts->kernel_args);

		/* following steps needs only the names of annotations */
		if ((ts->opts->steps.only || ts->opts->names_only) &&
		    (s->prog == PTB_PROG_SCOPE_CTOR || s->prog == PTB_PROG_SCOPE_END))
			continue;
		if (s->lib == role && (s->prog != PTB_PROG_OP_LATE || p.args) &&
		    needs_probe(&sp->plan->funcs[s->func], t, ts) &&
		    !(ts->opts->called_ops && target_calls__skip(t, tp, &sp->plan->funcs[s->func])))
			lib->sites[lib->cnt++] = p;
	}
}

void targets__report_refusals(struct targets *ts, const struct shared_plan *sp,
			      const struct probe_lib *libs, uint32_t lib_cnt)
{
	uint32_t n = 0;

	for (uint32_t l = 0; l < lib_cnt; l++)
		for (uint32_t i = 0; i < libs[l].cnt; i++)
			if (libs[l].sites[i].refused) {
				recorder__refused_site(ts->rec, sp->plan, &sp->recorded,
						       libs[l].sites[i].id);
				n++;
			}
	if (n)
		pr_warn("the Linux kernel refused %u probes; the trace lists the functions", n);
	ts->refused += n;
}

/* Sets the facts for the programs, and notes whether the dispatcher's table lacks some of them. */
static void fill_facts(struct target *t, const struct targets *ts, struct proc_ops *po,
		       struct ptb_proc_cfg *cfg)
{
	const struct plan_layout *l = &po->plan->layout;

	proc_cfg__fill(po, ts->kernel_args != PROBE_ARGS_NONE, cfg);
	cfg->tgid = (uint32_t)t->pid;
	if (!ts->opts->memory)
		/* only a memory timeline needs it, and it costs a read */
		cfg->tensor.parameter_type = 0;
	if (t->no_args)
		cfg->tensor.shapes_on = 0;
	t->facts_missing = (l->scope_from_boxed && !cfg->scope_enter_opdef) ||
			   (ts->kernel_args != PROBE_ARGS_NONE && !cfg->tensor.argument_size) ||
			   (ts->kernel_args == PROBE_ARGS_FULL && ts->opts->memory &&
			    l->parameter_class && !cfg->tensor.parameter_type);
	t->next_facts_ns = clock__mono_ns() + FACTS_EVERY_NS;
}

/* Records stacks at the probes and for the agent's operators, and samples. */
static void use_stacks(struct targets *ts, struct target *t)
{
	target_python__use(ts, t, t->proc_idx);
	if (t->agent && target_agent__has_ops(t->agent))
		target_python__use(ts, t, t->agent->proc_idx);
}

static int attach_probes(struct targets *ts, struct target *t, struct proc_ops *po,
			 struct shared_plan *sp)
{
	const struct torch_proc *tp = po->tp;
	struct probe_lib libs[TORCH_LIB_ROLES] = { 0 };
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid };
	uint64_t t0 = clock__mono_ns();
	int n = 0, err = load_args(ts, t, sp);

	target_calls__clear(&t->calls);
	for (int i = 0; i < TORCH_LIB_ROLES && !err; i++)
		if (tp->libs[i].present)
			fill_torch_lib(tp, sp, (uint8_t)i, t, ts, &libs[i]);
	if (!err) {
		fill_facts(t, ts, po, &cfg);
		err = probe_set__add_process(ts->ps, &cfg, NULL, 0, &t->proc_idx);
	}
	if (!err) {
		use_stacks(ts, t); /* complete from a fork's first probe on */
		n = probe_set__add_libs(ts->ps, t->proc_idx, libs, TORCH_LIB_ROLES);
		err = n < 0 ? n : 0;
		if (err)
			probe_set__remove_process(ts->ps, t->proc_idx);
	}
	if (!err) {
		ts->probes += (uint64_t)n;
		if (!ts->active)
			ts->attach_ns += clock__mono_ns() - t0;
		targets__report_refusals(ts, sp, libs, TORCH_LIB_ROLES);
	} else if (err != -ESRCH && err != -ESTALE && err != -EUSERS && err != -ECANCELED) {
		pr_error("cannot attach to pid %d: %s", t->pid, errstr(err));
	}
	for (int i = 0; i < TORCH_LIB_ROLES; i++)
		free(libs[i].sites);
	return err;
}

static bool is_op(const struct plan_func *pf)
{
	return !plan_func__is_memory(pf) && !plan_func__is_tensor(pf);
}

void targets__record_refusals(struct targets *ts, struct shared_plan *sp, enum refusals kind)
{
	static bool (*const concerns[REFUSALS_CNT])(const struct plan_func *pf) = {
		[REFUSALS_OPS] = is_op,
		[REFUSALS_TENSORS] = plan_func__is_tensor,
		[REFUSALS_MEMORY] = plan_func__is_memory,
		[REFUSALS_CUDA_CALLS] = plan_func__is_cuda_call,
	};

	if (sp->refusals_recorded[kind])
		return;
	sp->refusals_recorded[kind] = true;
	ts->refused += recorder__refusals(ts->rec, sp->plan, &sp->recorded, concerns[kind]);
}

static void record_refusals(struct targets *ts, const struct target *t, struct shared_plan *sp)
{
	if (ts->opts->ops && !target_agent__has_ops(t->agent))
		targets__record_refusals(ts, sp, REFUSALS_OPS);
	if (ts->opts->args == PROBE_ARGS_FULL && ts->opts->ops)
		targets__record_refusals(ts, sp, REFUSALS_TENSORS);
	if (ts->opts->memory)
		targets__record_refusals(ts, sp, REFUSALS_MEMORY);
}

static void record_process(const struct targets *ts, const struct target *t,
			   const struct torch_proc *tp, const struct torch_plan *plan, uint64_t now,
			   uint64_t gap)
{
	struct recorder_process rp = { .parent = t->parent,
				       .by_agent = target_agent__has_ops(t->agent),
				       .start_ns = now,
				       .gap_ns = gap };

	recorder__process(ts->rec, tp, plan, &rp);
}

/* ---- agents ---- */

void targets__say_agent(const struct targets *ts, struct target *t, const char *why)
{
	if (why != t->agent_why)
		snprintf(t->agent_why, sizeof(t->agent_why), "%s", why);
	if (!t->inherits) /* a fork has the library and not its thread, which cannot be changed */
		pr_warn(ts->opts->sample_hz ?
				"pid %d: samples do not say which operator was open: its agent: %s" :
				"pid %d: uprobes, not its agent, record operators: %s",
			t->pid, why);
}

static void drop_agent(struct targets *ts, struct target *t)
{
	if (t->agent && t->agent->proc_idx != UINT32_MAX)
		probe_set__remove_process(ts->ps, t->agent->proc_idx);
	target_agent__free(t->agent);
	t->agent = NULL;
}

/* Probes record what the agent does not. */
void targets__request_agent(struct targets *ts, struct target *t, struct proc_ops *po)
{
	const struct timespec nap = { .tv_nsec = 2000000 };
	bool stacks;

	target_agent__free(t->agent); /* of the program before an exec */
	t->agent = target_agent__find(t->pid, t->mem, ts->opts, t->agent_why, sizeof(t->agent_why));
	if (!t->agent) {
		if (t->agent_why[0])
			targets__say_agent(ts, t, t->agent_why);
		return;
	}
	stacks = ts->opts->stacks &&
		 (t->python.state == PYTHON_UNKNOWN || t->python.state == PYTHON_READ);
	if (target_agent__request(t->agent, t->pid, ts->opts, stacks, po, ts->ps, ts->rec)) {
		targets__say_agent(ts, t, t->agent->why);
		drop_agent(ts, t);
		return;
	}
	if (t->agent->late) {
		if (!ts->opts->ops)
			t->agent_why[0] = '\0';
		else
			targets__say_agent(ts, t, t->agent_why);
		return;
	}
	t->agent->patient = ts->active || ts->stopped;
	while (!t->agent->patient && !cancel__pending() &&
	       target_agent__poll(t->agent, t->pid) == AGENT_PENDING)
		nanosleep(&nap, NULL);
	if (t->agent->answer != AGENT_PENDING && !t->agent->ops && !ts->opts->names_only &&
	    (ts->opts->ops || ts->opts->sample_hz))
		targets__say_agent(ts, t, t->agent->why);
}

/* Places probes for operators that the agent was expected to record and does not. */
static void replace_agent(struct targets *ts, struct target *t, uint64_t since)
{
	struct torch_proc *tp = NULL;
	struct shared_plan *sp;
	struct proc_ops po;
	enum torch_proc_why why;
	uint64_t share_ns = probe_set__share_ns(ts->ps);

	targets__say_agent(ts, t, t->agent->why);
	if (torch_proc__open_any(t->pid, &tp, &why))
		return; /* ended */
	sp = targets__plan(ts, tp->libs, ts->opts->no_cache);
	probe_set__remove_process(ts->ps, t->proc_idx);
	if (sp) {
		record_refusals(ts, t, sp);
		proc_ops__init(&po, tp, sp->plan);
		if (!attach_probes(ts, t, &po, sp)) {
			ts->uncovered_ns += ts->active ? clock__mono_ns() - since : 0;
			record_process(ts, t, tp, sp->plan, clock__mono_ns(), 0);
		}
		proc_ops__free(&po);
	}
	targets__charge(ts, t, share_ns);
	torch_proc__free(tp);
}

void targets__settle_agents(struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++) {
		struct target *t = &ts->items[i];

		if (t->state == TARGET_TRACED && ts->opts->sample_hz)
			target_open__follow(ts, t);
		if (t->state != TARGET_TRACED || !t->agent)
			continue;
		target_agent__note_gpu(t->agent, t->pid);
		if (!ts->opts->ops || ts->opts->names_only || t->agent->late)
			continue;
		if (target_agent__gave_up(t->agent, ts->rec, t->pid)) {
			ts->agents_gave_up++;
			replace_agent(ts, t, clock__mono_ns());
		}
		if (t->agent->no_values && !t->no_args) {
			t->no_args = true;
			ts->no_shapes++;
		}
		if (t->agent->answer != AGENT_PENDING)
			continue;
		if (target_agent__poll(t->agent, t->pid) != AGENT_PENDING && !t->agent->ops)
			replace_agent(ts, t, t->agent->requested_ns);
	}
}

void targets__follow_cuda(struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++) {
		uint64_t share_ns = probe_set__share_ns(ts->ps);

		if (ts->items[i].state != TARGET_TRACED || ts->items[i].unprobed)
			continue;
		target_cuda__follow(ts, &ts->items[i]);
		targets__charge(ts, &ts->items[i], share_ns);
	}
}

void targets__dismiss_agents(struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent && ts->items[i].state == TARGET_TRACED) {
			/* the final state */
			target_agent__poll(ts->items[i].agent, ts->items[i].pid);
			target_agent__dismiss(ts->items[i].agent, ts->ps);
		}
}

bool targets__agents_quiet(const struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent && ts->items[i].state == TARGET_TRACED &&
		    !(target_agent__is_quiet(ts->items[i].agent, ts->items[i].pid) &&
		      recorder__agent_idle(ts->rec, ts->items[i].pid)))
			return false;
	return true;
}

int targets__verify_plan(const struct torch_proc *tp, const struct shared_plan *sp)
{
	const struct torch_plan *plan = sp->plan;
	struct probe_lib libs[TORCH_LIB_ROLES] = { 0 };
	struct probe_site *sites = xcalloc(plan->site_cnt + 1ULL, sizeof(*sites)), *next = sites;
	int err = 0;

	for (uint32_t role = 0; role < TORCH_LIB_ROLES; role++) {
		if (!tp->libs[role].present)
			continue;
		libs[role] = (struct probe_lib){ .name = tp->libs[role].path,
						 .access_path = tp->libs[role].access_path,
						 .sites = next };
		for (uint32_t i = 0; i < plan->site_cnt; i++)
			if (plan->sites[i].lib == role)
				*next++ = targets__site(sp, i);
		libs[role].cnt = (uint32_t)(next - libs[role].sites);
	}
	err = probe_set__verify(tp->pid, libs, TORCH_LIB_ROLES);
	free(sites);
	return err;
}

/* Records stacks and samples from now on and makes them readable for the recorder. In the window
 * a process gets its probes first, because finding its interpreter takes longer. */
static void read_stacks(struct targets *ts, struct target *t)
{
	bool used = t->python.state == PYTHON_READ;

	target_python__find(ts, t);
	if (t->python.state != PYTHON_READ)
		return;
	recorder__python(ts->rec, (uint32_t)t->pid, t->inherits ? t->parent : 0, &t->python.layout);
	if (!used)
		use_stacks(ts, t);
}

/* After the probes have been placed. */
static void begin_target(struct targets *ts, struct target *t, struct proc_ops *po)
{
	uint64_t now = clock__mono_ns(), gap = t->born_ns && ts->active ? now - t->born_ns : 0;

	ts->uncovered_ns += gap;
	t->state = TARGET_TRACED;
	if (ts->active)
		recorder__learn(ts->rec, po);
	read_stacks(ts, t);
	target_python__use_gil(ts, t);
	t->throttled_ns = ts->opts->sched ? proc__throttled_ns(t->pid) : 0;
	record_process(ts, t, po->tp, po->plan, now, gap);
	t->unprobed = ts->opts->names_only;
	if (t->unprobed)
		recorder__unprobed(ts->rec, (uint32_t)t->pid);
	target_cuda__attach(ts, t, po->tp); /* last: it may move the plans */
	pr_debug("pid %d: its probes are in place", t->pid);
}

/* Samples the process's Python stacks, without a plan and without probes. */
static int begin_samples(struct targets *ts, struct target *t, const struct torch_proc *tp)
{
	static struct torch_plan none;
	struct proc_ops po;
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid };
	uint64_t now, gap;
	int err = probe_set__add_process(ts->ps, &cfg, NULL, 0, &t->proc_idx);

	if (err)
		return err;
	target_agent__free(t->agent); /* of the program before an exec */
	t->agent = NULL;
	t->open_tried = t->open_known = false;
	t->tries = 0;
	err = probe_set__python(ts->ps, t->proc_idx, &t->python.layout);
	proc_ops__init(&po, tp, &none); /* operators need no names */
	recorder__learn(ts->rec, &po);
	proc_ops__free(&po);
	recorder__python(ts->rec, (uint32_t)t->pid, t->inherits ? t->parent : 0, &t->python.layout);
	now = clock__mono_ns();
	gap = t->born_ns && ts->active ? now - t->born_ns : 0;
	record_process(ts, t, tp, &none, now, gap);
	if (!err)
		err = probe_set__sample(ts->ps, t->proc_idx);
	if (!err && !pid_hold__alive(t->pidfd))
		err = -ESRCH;
	if (err) {
		probe_set__remove_process(ts->ps, t->proc_idx);
		return err;
	}
	/* a process without a traced parent had no Python before */
	ts->uncovered_ns += t->inherits ? gap : 0;
	t->state = TARGET_TRACED;
	t->sampled = true;
	target_open__begin(ts, t, tp);
	return 0;
}

static int attach_samples(struct targets *ts, struct target *t)
{
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;
	int err = target_python__await(ts, t);

	if (err)
		return err;
	err = torch_proc__open_any(t->pid, &tp, &why);
	if (err) {
		if (!t->born_ns)
			targets__say_why(t->pid, why, err);
		return err;
	}
	err = begin_samples(ts, t, tp);
	torch_proc__free(tp);
	return err;
}

/* Attaches to all of PyTorch's libraries in the process by a verified plan. 0 or negative errno
 * (reported). */
static int attach_torch(struct targets *ts, struct target *t, struct proc_ops *po,
			struct shared_plan *sp)
{
	int err;

	if (!sp->recorded.site_base)
		recorder__plan(ts->rec, sp->plan, po->tp->libs, &sp->recorded);
	/* probes cost the process something even outside the window, so they come later, except in
	 * the window: a young process is probed first */
	if (!ts->active && !ts->opts->steps.only) {
		recorder__learn(ts->rec, po);
		target_python__find(ts, t);
	}
	targets__request_agent(ts, t, po);
	record_refusals(ts, t, sp);
	err = attach_probes(ts, t, po, sp);
	if (!err && !pid_hold__alive(t->pidfd)) { /* another process may have its pid now */
		probe_set__remove_process(ts->ps, t->proc_idx);
		drop_agent(ts, t);
		err = -ESRCH;
	}
	if (!err)
		begin_target(ts, t, po);
	return err;
}

/* Opens a process with PyTorch or another source of GPU activities. 0; -EAGAIN: not yet; another
 * negative errno (reported). */
static int open_target(const struct targets *ts, const struct target *t, struct torch_proc **tp)
{
	enum torch_proc_why why;
	int err = ts->opts->ops ? torch_proc__open(t->pid, tp, &why) :
				  torch_proc__open_any(t->pid, tp, &why);

	if (err) {
		if (why == TORCH_PROC_NO_TORCH)
			return -EAGAIN;
		/* a short-lived child may have ended, which its EXIT record shows */
		if (!t->born_ns)
			targets__say_why(t->pid, why, err);
		return err;
	}
	/* A process without PyTorch needs a CUDA library to probe or an agent that listens. Agents
	 * that sleep are in any program, such as a shell that will execute another one. */
	if (torch_proc__has_torch(*tp) ? torch_proc__ready(*tp) :
					 (*tp)->cuda_cnt || (ts->opts->agent == AGENT_AUTO &&
							     target_agent__is_awake((*tp)->pid)))
		return 0;
	torch_proc__free(*tp);
	return -EAGAIN;
}

/* Explains an empty window of a stopped process. */
static void say_if_stopped(const struct targets *ts, const struct target *t)
{
	const char *by = ts->stopped || t->born_ns ? NULL : proc__stopped(t->pid);

	if (by)
		pr_warn("pid %d is stopped by %s: nothing runs in it until it is continued", t->pid,
			by);
}

static int attach(struct targets *ts, struct target *t)
{
	struct torch_proc *tp;
	struct shared_plan *sp;
	struct proc_ops po;
	int err;

	if (!pid_hold__alive(t->pidfd)) {
		if (!t->parent)
			targets__say_why(t->pid, TORCH_PROC_NO_SUCH_PID, -ESRCH);
		return -ESRCH;
	}
	say_if_stopped(ts, t);
	if (ts->opts->sample_hz)
		return attach_samples(ts, t);
	err = open_target(ts, t, &tp);
	if (err)
		return err;
	if (!ts->active && (ts->opts->gpu || ts->opts->memory)) /* may take long */
		target_cuda__plan(ts, tp, ts->opts->no_cache);
	sp = targets__plan(ts, tp->libs, ts->opts->no_cache);
	err = sp ? targets__verify_plan(tp, sp) : -ENOEXEC;
	if (!err) {
		proc_ops__init(&po, tp, sp->plan);
		err = attach_torch(ts, t, &po, sp);
		proc_ops__free(&po);
	}
	torch_proc__free(tp);
	return err;
}

int targets__attach(struct targets *ts, struct target *t)
{
	struct remote_mem *mem = NULL;
	uint32_t at = (uint32_t)(t - ts->items);
	uint64_t share_ns = probe_set__share_ns(ts->ps);
	int err;

	if (ts->opts->agent == AGENT_INJECT)
		/* its users report why it is missing */
		remote_mem__open(t->pid, true, &mem);
	t->mem = mem;
	err = attach(ts, t);
	ts->items[at].mem = NULL; /* the array may have moved */
	targets__charge(ts, &ts->items[at], share_ns);
	remote_mem__close(mem);
	return err;
}

static void renew_facts_of(struct targets *ts, struct target *t)
{
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid };
	struct torch_proc *tp = NULL;
	struct shared_plan *sp;
	struct proc_ops po;
	enum torch_proc_why why;

	if (t->state != TARGET_TRACED || !t->facts_missing || clock__mono_ns() < t->next_facts_ns)
		return;
	t->facts_missing = false;
	if (torch_proc__open(t->pid, &tp, &why))
		return; /* ended */
	sp = targets__plan(ts, tp->libs, ts->opts->no_cache);
	if (sp) {
		proc_ops__init(&po, tp, sp->plan);
		fill_facts(t, ts, &po, &cfg);
		if (!t->facts_missing) {
			probe_set__update_process(ts->ps, t->proc_idx, &cfg);
			recorder__schema_layout(ts->rec, &po);
		}
		proc_ops__free(&po);
	}
	torch_proc__free(tp);
}

void targets__renew_facts(struct targets *ts)
{
	for (uint32_t i = 0; i < ts->cnt; i++)
		renew_facts_of(ts, &ts->items[i]);
}

void targets__sample_memory(const struct targets *ts)
{
	struct proc_memory mem;

	for (uint32_t i = 0; i < ts->cnt; i++)
		if (ts->items[i].state == TARGET_TRACED &&
		    !proc_memory__read(ts->items[i].pid, &mem))
			recorder__rss(ts->rec, (uint32_t)ts->items[i].pid, &mem);
}

/* ---- facts about each target's sources in the capture ---- */

static void agent_json(struct jsonw *w, const struct target *t)
{
	const struct target_agent *ta = t->agent;

	jsonw__begin_obj(w);
	JSONW_I64(w, "pid", t->pid);
	JSONW_STR(w, "source", ta && ta->ops ? "agent" : t->sampled ? "none" : "probes");
	JSONW_STR(w, "why", t->agent_why);
	JSONW_BOOL(w, "gpu", ta && ta->gpu);
	if (ta && ta->graphs_requested)
		JSONW_BOOL(w, "graphs", ta->graphs);
	JSONW_BOOL(w, "host_calls", t->cuda.called);
	JSONW_STR(w, "gpu_why", ta ? agent__why_text(ta->gpu_why) : "");
	JSONW_BOOL(w, "injected", ta && ta->injected);
	JSONW_U64(w, "cupti_version", ta ? ta->cupti_version : 0);
	jsonw__end_obj(w);
}

uint64_t targets__gpu_refused(const struct targets *ts)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < ts->cnt; i++)
		n += ts->items[i].agent && target_agent__gpu_refused(ts->items[i].agent);
	return n;
}

static void agents_json(struct jsonw *w, const void *arg)
{
	const struct targets *ts = arg;

	jsonw__begin_arr(w);
	for (uint32_t i = 0; i < ts->cnt; i++)
		if (has_agent_news(&ts->items[i]))
			agent_json(w, &ts->items[i]);
	jsonw__end_arr(w);
}

void targets__agents_meta(const struct targets *ts)
{
	bool any = false;

	for (uint32_t i = 0; i < ts->cnt; i++) {
		const struct target_agent *ta = ts->items[i].agent;

		any |= has_agent_news(&ts->items[i]);
		if (ta && ta->gpu && ta->graphs_requested && !ta->graphs)
			pr_warn("pid %d: its agent could not record which operators CUDA graphs captured",
				ts->items[i].pid);
	}
	if (any)
		recorder__meta_json(ts->rec, "agent", agents_json, ts);
}
