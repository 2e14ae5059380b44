/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The processes of one recording; see targets.h. */
#define LOG_DOMAIN "targets"
#include "record/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/vec.h"
#include "record/recorder_agent.h"
#include "record/target_verify.h"
#include "target/pid_hold.h"

#define FACTS_EVERY_NS 500000000ULL /* how often a young process's dispatcher is polled */

void targets__free(struct targets *ts)
{
	uint32_t i;

	for (i = 0; i < ts->cnt; i++) {
		if (ts->items[i].pidfd >= 0)
			close(ts->items[i].pidfd);
		target_agent__free(ts->items[i].agent);
		target_cuda__free(&ts->items[i].cuda);
	}
	for (i = 0; i < ts->plan_cnt; i++)
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

struct target *targets__add(struct targets *ts, pid_t pid, uint32_t parent, uint64_t born_ns)
{
	struct target *t = NULL;
	uint32_t i, alive = 0;

	for (i = 0; i < ts->cnt; i++) {
		struct target *old = &ts->items[i];

		if (old->state != TARGET_GONE)
			alive++;
		else if (old->pidfd < 0 &&
			 ((!old->agent && !old->agent_why[0]) || ts->cnt >= LIMIT_PROCESSES))
			t = old; /* nothing is left to be said of it, or there is no room for that */
	}
	if (alive >= LIMIT_PROCESSES) {
		ts->over_processes++;
		return NULL;
	}
	if (t) {
		target_cuda__free(&t->cuda);
		target_agent__free(t->agent);
	}
	if (!t && vec_reserve((void **)&ts->items, &ts->cap, (uint64_t)ts->cnt + 1, sizeof(*ts->items)))
		return NULL;
	if (!t)
		t = &ts->items[ts->cnt++];
	*t = (struct target){ .pid = pid, .parent = parent, .born_ns = born_ns };
	t->pidfd = pid_hold__open(pid);
	if ((born_ns && !pid_hold__began_by(pid, born_ns)) ||
	    (parent && !born_ns && !pid_hold__has_parent(pid, (pid_t)parent))) {
		if (t->pidfd >= 0)
			close(t->pidfd);
		t->pidfd = -ESRCH; /* it has ended, and its pid may be another's */
	}
	return t;
}

uint32_t targets__count(const struct targets *ts, enum target_state state)
{
	uint32_t n = 0, i;

	for (i = 0; i < ts->cnt; i++)
		n += ts->items[i].state == state;
	return n;
}

void targets__say_why(pid_t pid, enum torch_proc_why why, int err)
{
	switch (why) {
	case TORCH_PROC_NO_SUCH_PID:
		pr_error("cannot attach to pid %d: there is no such process", pid);
		break;
	case TORCH_PROC_NO_ACCESS:
		pr_error("cannot attach to pid %d: its memory map cannot be read (%s)", pid, errstr(err));
		pr_hint("run as root, or with CAP_SYS_PTRACE; for details see 'ptbpf doctor --pid %d'",
			pid);
		break;
	case TORCH_PROC_NO_TORCH:
		pr_error("cannot attach to pid %d: it has not loaded PyTorch (no libtorch_cpu in its "
			 "memory map)",
			 pid);
		pr_hint("use --wait to attach once it does; to trace its workers, give their pids "
			"or use --children");
		break;
	case TORCH_PROC_BAD_LIB:
		if (err == -EXDEV) {
			pr_error("cannot attach to pid %d: its PyTorch library is on a file "
				 "system served by a process of another user (FUSE)",
				 pid);
			break;
		}
		pr_error("cannot attach to pid %d: its PyTorch library cannot be read as an x86-64 ELF "
			 "file (%s)",
			 pid, errstr(err));
		break;
	case TORCH_PROC_IS_KTHREAD:
		pr_error("cannot attach to pid %d: it is a kernel thread or has no address space", pid);
		break;
	case TORCH_PROC_OK:
		if (err != -ECANCELED) /* main() says that it was interrupted */
			pr_error("cannot attach to pid %d: %s", pid, errstr(err));
		break;
	}
}

struct shared_plan *targets__plan(struct targets *ts, const struct torch_lib *libs, bool no_cache)
{
	struct plan_opts opts = { .use_cache = !no_cache };
	uint64_t t0 = clock__mono_ns();
	struct shared_plan *sp;
	struct plan_key key;
	uint32_t i;

	if (plan_key__get(libs, !no_cache, NULL, &key))
		return NULL;
	for (i = 0; i < ts->plan_cnt; i++)
		if (plan_key__same(&ts->plans[i].plan->key, &key))
			return &ts->plans[i];
	if (vec_reserve((void **)&ts->plans, &ts->plan_cap, (uint64_t)ts->plan_cnt + 1,
			sizeof(*ts->plans))) {
		pr_error("cannot plan the probes: %s", errstr(-ENOMEM));
		return NULL;
	}
	sp = &ts->plans[ts->plan_cnt];
	*sp = (struct shared_plan){ .plan = NULL };
	if (torch_plan__new(libs, &opts, &sp->plan))
		return NULL;
	ts->plan_cnt++;
	ts->plan_ns += clock__mono_ns() - t0;
	return sp;
}

/*
 * The argument programs of a plan, once a session, and whether this process's layout is good enough for
 * them. 0 or negative errno (said).
 */
static int load_args(struct targets *ts, const struct target *t, const struct target_ctx *ctx,
		     struct shared_plan *sp)
{
	const struct torch_plan *plan = sp->plan;
	uint32_t i;

	if (ctx->opts->args == PROBE_ARGS_NONE)
		return 0;
	if (ctx->kernel_args == PROBE_ARGS_NONE) {
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
	for (i = 0; i < plan->func_cnt; i++)
		ts->unplaced += plan->funcs[i].unplaced;
	return probe_set__add_arg_progs(ctx->ps, plan->progs, plan->prog_cnt, &sp->args_base);
}

static struct probe_site probe_site(const struct shared_plan *sp, uint32_t i, enum probe_args args)
{
	const struct plan_site *s = &sp->plan->sites[i];
	struct probe_site p = { .id = sp->recorded.site_base + i,
				.offset = s->offset,
				.prog = s->prog,
				.insn_len = s->len };

	memcpy(p.insn, s->bytes, s->len);
	if (args == PROBE_ARGS_NONE || !sp->plan->layout.tensor.shapes_on)
		return p;
	if (s->args && sp->args_base)
		p.args = sp->args_base + s->args - 1;
	/* the results of a boxed call are where its arguments were */
	if (args == PROBE_ARGS_FULL && s->role == PTB_ROLE_EXIT &&
	    sp->plan->funcs[s->func].kind == PTB_FUNC_BOXED)
		p.prog = PTB_PROG_BOXED_EXIT;
	return p;
}

/* Is the function's probe needed, when the process's agent does its part? */
static bool is_wanted(const struct plan_func *pf, const struct target *t, const struct target_ctx *ctx)
{
	if (plan_func__is_memory(pf))
		return true;
	if (!ctx->opts->ops)
		return false;
	if (plan_func__is_tensor(pf)) /* of an agent's tensors, too */
		return ctx->opts->args == PROBE_ARGS_FULL && !t->no_args;
	return pf->kind == PTB_FUNC_REGISTRY || !target_agent__has_ops(t->agent);
}

/* The sites of one library, as probe_set wants them. */
static int fill_lib(const struct torch_proc *tp, const struct shared_plan *sp, uint8_t role,
		    const struct target *t, const struct target_ctx *ctx, struct probe_lib *lib)
{
	uint32_t i;

	lib->name = tp->libs[role].path;
	lib->access_path = tp->libs[role].access_path;
	lib->sites = calloc(sp->plan->site_cnt ? sp->plan->site_cnt : 1, sizeof(*lib->sites));
	if (!lib->sites)
		return -ENOMEM;
	for (i = 0; i < sp->plan->site_cnt; i++) {
		const struct plan_site *s = &sp->plan->sites[i];
		struct probe_site p = probe_site(sp, i, ctx->kernel_args);

		if (s->lib == role && (s->prog != PTB_PROG_OP_LATE || p.args) &&
		    is_wanted(&sp->plan->funcs[s->func], t, ctx))
			lib->sites[lib->cnt++] = p;
	}
	return 0;
}

void targets__report_refusals(struct targets *ts, const struct target_ctx *ctx,
			      const struct shared_plan *sp, const struct probe_lib *libs, uint32_t lib_cnt)
{
	uint32_t l, i, n = 0;

	for (l = 0; l < lib_cnt; l++)
		for (i = 0; i < libs[l].cnt; i++)
			if (libs[l].sites[i].refused) {
				recorder__refused_site(ctx->rec, sp->plan, &sp->recorded,
						       libs[l].sites[i].id);
				n++;
			}
	if (n)
		pr_warn("the kernel refused %u probes; the trace lists the functions", n);
	ts->refused += n;
}

/* What the programs must know of the process, and whether some are not in the dispatcher's table yet. */
static void fill_facts(struct target *t, const struct target_ctx *ctx, const struct torch_proc *tp,
		       const struct shared_plan *sp, struct ptb_proc_cfg *cfg)
{
	const struct plan_layout *l = &sp->plan->layout;

	proc_cfg__fill(tp, sp->plan, cfg);
	cfg->tgid = (uint32_t)t->pid;
	if (!ctx->opts->memory)
		cfg->tensor.parameter_type = 0; /* only a memory timeline asks, and it costs a read */
	if (t->no_args)
		cfg->tensor.shapes_on = 0;
	t->facts_missing = (l->scope_from_boxed && !cfg->scope_enter_opdef) ||
			   (ctx->kernel_args != PROBE_ARGS_NONE && !cfg->tensor.argument_size) ||
			   (ctx->kernel_args == PROBE_ARGS_FULL && ctx->opts->memory &&
			    l->parameter_class && !cfg->tensor.parameter_type);
	t->next_facts_ns = clock__mono_ns() + FACTS_EVERY_NS;
}

static int attach_probes(struct targets *ts, struct target *t, const struct target_ctx *ctx,
			 const struct torch_proc *tp, struct shared_plan *sp)
{
	struct probe_lib libs[TORCH_LIB_ROLES] = { 0 };
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid };
	uint64_t t0 = clock__mono_ns();
	int n = 0, i, err = load_args(ts, t, ctx, sp);

	for (i = 0; i < TORCH_LIB_ROLES && !err; i++)
		if (tp->libs[i].present)
			err = fill_lib(tp, sp, (uint8_t)i, t, ctx, &libs[i]);
	if (!err) {
		fill_facts(t, ctx, tp, sp, &cfg);
		n = probe_set__add_process(ctx->ps, &cfg, libs, TORCH_LIB_ROLES, &t->proc_idx);
		err = n < 0 ? n : 0;
	}
	if (!err) {
		ts->probes += (uint64_t)n;
		if (!ctx->active)
			ts->attach_ns += clock__mono_ns() - t0;
		targets__report_refusals(ts, ctx, sp, libs, TORCH_LIB_ROLES);
	} else if (err != -ESRCH && err != -ESTALE && err != -ECANCELED) {
		pr_error("cannot attach to pid %d: %s", t->pid, errstr(err));
	}
	for (i = 0; i < TORCH_LIB_ROLES; i++)
		free(libs[i].sites);
	return err;
}

static bool is_op(const struct plan_func *pf)
{
	return !plan_func__is_memory(pf) && !plan_func__is_tensor(pf);
}

void targets__record_refusals(struct targets *ts, const struct target_ctx *ctx,
			      struct shared_plan *sp, enum refusals kind)
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
	ts->refused += recorder__refusals(ctx->rec, sp->plan, &sp->recorded, concerns[kind]);
}

static void record_refusals(struct targets *ts, const struct target *t,
			    const struct target_ctx *ctx, struct shared_plan *sp)
{
	if (ctx->opts->ops && !target_agent__has_ops(t->agent))
		targets__record_refusals(ts, ctx, sp, REFUSALS_OPS);
	if (ctx->opts->args == PROBE_ARGS_FULL && ctx->opts->ops)
		targets__record_refusals(ts, ctx, sp, REFUSALS_TENSORS);
	if (ctx->opts->memory)
		targets__record_refusals(ts, ctx, sp, REFUSALS_MEMORY);
}

static void put_process(const struct target *t, const struct target_ctx *ctx,
			const struct torch_proc *tp, const struct torch_plan *plan, uint64_t now,
			uint64_t gap)
{
	struct recorder_process rp = { .parent = t->parent,
				       .by_agent = target_agent__has_ops(t->agent),
				       .start_ns = now,
				       .gap_ns = gap };

	recorder__process(ctx->rec, tp, plan, &rp);
}

/* ---- agents ---- */

static void say_agent(struct target *t, const char *why)
{
	if (why != t->agent_why)
		snprintf(t->agent_why, sizeof(t->agent_why), "%s", why);
	if (!t->inherits) /* a fork has the library and not its thread: nothing to do about it */
		pr_warn("pid %d: kernel probes, not its agent, record operators: %s", t->pid, why);
}

static void drop_agent(struct target *t, struct probe_set *ps)
{
	if (t->agent && t->agent->proc_idx != UINT32_MAX)
		probe_set__remove_process(ps, t->agent->proc_idx);
	target_agent__free(t->agent);
	t->agent = NULL;
}

/*
 * Asks the process's agent, if it has one, and waits for its answer where nothing is missed meanwhile. What it
 * does not do is probed.
 */
static void ask_agent(struct target *t, const struct target_ctx *ctx, const struct torch_proc *tp,
		      const struct shared_plan *sp)
{
	const struct timespec nap = { .tv_nsec = 2000000 };

	target_agent__free(t->agent); /* of the program that it was before an exec */
	t->agent = target_agent__find(t->pid, ctx->opts, t->agent_why, sizeof(t->agent_why));
	if (!t->agent) {
		if (t->agent_why[0])
			say_agent(t, t->agent_why);
		return;
	}
	if (target_agent__ask(t->agent, t->pid, ctx->opts, tp, sp->plan, ctx->ps, ctx->rec)) {
		say_agent(t, t->agent->why);
		drop_agent(t, ctx->ps);
		return;
	}
	if (t->agent->late) {
		if (!ctx->opts->ops)
			t->agent_why[0] = '\0';
		else
			say_agent(t, t->agent_why);
		return;
	}
	t->agent->patient = ctx->active || ctx->stopped;
	while (!t->agent->patient && !cancel__pending() &&
	       target_agent__look(t->agent, t->pid) == AGENT_PENDING)
		nanosleep(&nap, NULL);
	if (t->agent->answer != AGENT_PENDING && !t->agent->ops && ctx->opts->ops)
		say_agent(t, t->agent->why);
}

/* It was expected to record the operators since then and does not: probes do, from now on. */
static void replace_agent(struct targets *ts, struct target *t, const struct target_ctx *ctx,
			  uint64_t since)
{
	struct torch_proc *tp = NULL;
	struct shared_plan *sp;
	enum torch_proc_why why;
	uint32_t idx = t->proc_idx;

	say_agent(t, t->agent->why);
	if (torch_proc__open_any(t->pid, &tp, &why))
		return; /* it ended */
	sp = targets__plan(ts, tp->libs, ctx->opts->no_cache);
	probe_set__remove_process(ctx->ps, idx);
	if (sp)
		record_refusals(ts, t, ctx, sp);
	if (sp && !attach_probes(ts, t, ctx, tp, sp)) {
		ts->uncovered_ns += ctx->active ? clock__mono_ns() - since : 0;
		put_process(t, ctx, tp, sp->plan, clock__mono_ns(), 0);
	}
	torch_proc__free(tp);
}

void targets__settle_agents(struct targets *ts, const struct target_ctx *ctx)
{
	uint32_t i;

	for (i = 0; i < ts->cnt; i++) {
		struct target *t = &ts->items[i];

		if (t->state != TARGET_TRACED || !t->agent)
			continue;
		target_agent__note_gpu(t->agent, t->pid);
		if (!ctx->opts->ops || t->agent->late)
			continue;
		if (target_agent__gave_up(t->agent, ctx->rec, t->pid)) {
			ts->agents_gave_up++;
			replace_agent(ts, t, ctx, clock__mono_ns());
		}
		if (t->agent->no_values && !t->no_args) {
			t->no_args = true;
			ts->no_shapes++;
		}
		if (t->agent->answer != AGENT_PENDING)
			continue;
		if (target_agent__look(t->agent, t->pid) != AGENT_PENDING && !t->agent->ops)
			replace_agent(ts, t, ctx, t->agent->asked_ns);
	}
}

void targets__follow_cuda(struct targets *ts, const struct target_ctx *ctx)
{
	uint32_t i;

	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].state == TARGET_TRACED)
			target_cuda__follow(ts, &ts->items[i], ctx);
}

void targets__dismiss_agents(struct targets *ts, struct probe_set *ps)
{
	uint32_t i;

	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent && ts->items[i].state == TARGET_TRACED) {
			target_agent__look(ts->items[i].agent, ts->items[i].pid); /* how it is at the end */
			target_agent__dismiss(ts->items[i].agent, ps);
		}
}

bool targets__agents_quiet(const struct targets *ts, const struct recorder *rec)
{
	uint32_t i;

	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].agent && ts->items[i].state == TARGET_TRACED &&
		    !(target_agent__is_quiet(ts->items[i].agent, ts->items[i].pid) &&
		      recorder__agent_idle(rec, ts->items[i].pid)))
			return false;
	return true;
}

/* Without PyTorch: is there an agent that listens, or a CUDA library to be probed? One that sleeps is in any program, a
 * shell perhaps that will be another one. */
static bool has_gpu_source(const struct torch_proc *tp, const struct target_ctx *ctx)
{
	return tp->cuda_cnt || (ctx->opts->agent == AGENT_AUTO && target_agent__is_awake(tp->pid));
}

int targets__attach(struct targets *ts, struct target *t, const struct target_ctx *ctx)
{
	struct torch_proc *tp = NULL;
	struct shared_plan *sp;
	enum torch_proc_why why;
	uint64_t now, gap = 0;
	int err;

	if (!pid_hold__alive(t->pidfd)) {
		if (!t->parent)
			targets__say_why(t->pid, TORCH_PROC_NO_SUCH_PID, -ESRCH);
		return -ESRCH;
	}
	err = !ctx->opts->ops ? torch_proc__open_any(t->pid, &tp, &why) :
				torch_proc__open(t->pid, &tp, &why);
	if (err) {
		if (why == TORCH_PROC_NO_TORCH)
			return -EAGAIN;
		if (!t->born_ns) /* a short-lived child may be gone: its EXIT record shows it */
			targets__say_why(t->pid, why, err);
		return err;
	}
	if (torch_proc__has_torch(tp) ? !torch_proc__ready(tp) : !has_gpu_source(tp, ctx)) {
		torch_proc__free(tp);
		return -EAGAIN;
	}
	sp = targets__plan(ts, tp->libs, ctx->opts->no_cache);
	err = sp ? target_verify(tp, sp->plan) : -ENOEXEC;
	if (err) {
		torch_proc__free(tp);
		return err;
	}
	if (!sp->recorded.site_base)
		recorder__plan(ctx->rec, sp->plan, tp->libs, &sp->recorded);
	/* before its probes, which cost the process something even outside the window; a young process
	 * must be probed first */
	if (!ctx->active)
		recorder__learn(ctx->rec, tp, sp->plan);
	ask_agent(t, ctx, tp, sp);
	record_refusals(ts, t, ctx, sp);
	err = attach_probes(ts, t, ctx, tp, sp);
	if (!err && !pid_hold__alive(t->pidfd)) { /* what has its pid now may be another process */
		probe_set__remove_process(ctx->ps, t->proc_idx);
		drop_agent(t, ctx->ps);
		err = -ESRCH;
	}
	if (!err) {
		now = clock__mono_ns();
		if (t->born_ns && ctx->active)
			gap = now - t->born_ns;
		ts->uncovered_ns += gap;
		t->state = TARGET_TRACED;
		if (ctx->active)
			recorder__learn(ctx->rec, tp, sp->plan);
		put_process(t, ctx, tp, sp->plan, now, gap);
		target_cuda__attach(ts, t, ctx, tp); /* last: it may move the plans */
	}
	torch_proc__free(tp);
	return err;
}

void targets__renew_facts(struct targets *ts, struct target *t, const struct target_ctx *ctx)
{
	struct ptb_proc_cfg cfg = { .tgid = (uint32_t)t->pid };
	struct torch_proc *tp = NULL;
	struct shared_plan *sp;
	enum torch_proc_why why;

	if (t->state != TARGET_TRACED || !t->facts_missing || clock__mono_ns() < t->next_facts_ns)
		return;
	t->facts_missing = false;
	if (torch_proc__open(t->pid, &tp, &why))
		return; /* it ended */
	sp = targets__plan(ts, tp->libs, ctx->opts->no_cache);
	if (sp) {
		fill_facts(t, ctx, tp, sp, &cfg);
		if (!t->facts_missing) {
			probe_set__update_process(ctx->ps, t->proc_idx, &cfg);
			recorder__schema_layout(ctx->rec, tp, sp->plan);
		}
	}
	torch_proc__free(tp);
}

void targets__sample_memory(const struct targets *ts, struct recorder *rec)
{
	struct proc_memory mem;
	uint32_t i;

	for (i = 0; i < ts->cnt; i++)
		if (ts->items[i].state == TARGET_TRACED && !proc_memory__read(ts->items[i].pid, &mem))
			recorder__rss(rec, (uint32_t)ts->items[i].pid, &mem);
}
