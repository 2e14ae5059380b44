/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probes on one target's CUDA libraries; see targets.h. */
#define LOG_DOMAIN "cuda"
#include "record/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "target/proc_info.h"
#include "target/torch.h"

#define POLL_EVERY_NS 20000000ULL /* a poll reads a file of /proc, which takes some 30 us */
#define POLLS_SHARED 16           /* with more processes than these, each is polled less often */

static bool is_purpose_active(enum cuda_purpose p, const struct target *t, const struct targets *ts)
{
	if (p == CUDA_MEMORY)
		return ts->opts->memory;
	return ts->opts->gpu && !target_agent__has_gpu(t->agent);
}

/* ---- which libraries ---- */

static bool is_known(const struct target_cuda *tc, const struct torch_cuda_lib *c)
{
	for (uint32_t i = 0; i < tc->cnt; i++) {
		const struct cuda_lib *cl = &tc->libs[i];

		if (cl->role == c->role && cl->lib.id.dev == c->lib.id.dev &&
		    cl->lib.id.ino == c->lib.id.ino)
			return true;
	}
	return false;
}

static int add_lib(struct targets *ts, struct target_cuda *tc, const struct torch_cuda_lib *c)
{
	struct torch_lib libs[TORCH_LIB_ROLES];
	struct shared_plan *sp;
	struct cuda_lib *cl;

	torch_cuda_lib__alone(c, libs);
	sp = targets__plan(ts, libs, ts->opts->no_cache);
	if (!sp)
		return -ENOEXEC;
	if (!sp->recorded.site_base)
		recorder__plan(ts->rec, sp->plan, libs, &sp->recorded);
	vec_reserve((void **)&tc->libs, &tc->cap, tc->cnt + 1ULL, sizeof(*tc->libs));
	cl = &tc->libs[tc->cnt];
	*cl = (struct cuda_lib){ .role = c->role, .plan = (uint32_t)(sp - ts->plans) };
	if (torch_lib__copy(&cl->lib, &c->lib))
		return -EMFILE;
	tc->cnt++;
	return 0;
}

static void add_libs(struct targets *ts, struct target_cuda *tc, const struct torch_proc *tp)
{
	for (uint32_t i = 0; i < tp->cuda_cnt; i++) {
		if (is_known(tc, &tp->cuda[i]))
			continue;
		if (tc->cnt >= LIMIT_CUDA_LIBS) {
			if (!tc->over)
				pr_warn("pid %d: more than %d CUDA libraries: no probes on '%s' and others",
					tp->pid, LIMIT_CUDA_LIBS, tp->cuda[i].lib.path);
			ts->over_libs += !tc->over;
			tc->over = true;
			return;
		}
		if (!add_lib(ts, tc, &tp->cuda[i]))
			pr_debug("pid %d: %s", tp->pid, tp->cuda[i].lib.path);
	}
}

void target_cuda__plan(struct targets *ts, const struct torch_proc *tp, bool no_cache)
{
	struct torch_lib libs[TORCH_LIB_ROLES];

	for (uint32_t i = 0; i < tp->cuda_cnt; i++) {
		torch_cuda_lib__alone(&tp->cuda[i], libs);
		targets__plan(ts, libs, no_cache);
	}
}

/* ---- their probes ---- */

static void fill_cuda_lib(enum cuda_purpose p, const struct cuda_lib *cl,
			  const struct shared_plan *sp, struct probe_lib *lib)
{
	const struct torch_plan *plan = sp->plan;

	lib->name = cl->lib.path;
	lib->access_path = cl->lib.access_path;
	lib->sites = xcalloc(plan->site_cnt ? plan->site_cnt : 1, sizeof(*lib->sites));
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct plan_site *s = &plan->sites[i];
		const struct plan_func *pf = &plan->funcs[s->func];
		struct probe_site *site;

		if (!(p == CUDA_MEMORY ? plan_func__is_memory(pf) : plan_func__is_cuda_call(pf)))
			continue;
		site = &lib->sites[lib->cnt++];
		*site = targets__site(sp, i);
		/* PTB_API_ARGS(), PTB_CUDA_ARGS() */
		site->args = s->args | (pf->reason != PTB_REFUSE_NONE ? PTB_API_NO_EXIT : 0);
	}
}

static void fill_cfg(const struct target *t, struct ptb_proc_cfg *cfg)
{
	*cfg = (struct ptb_proc_cfg){ .tgid = (uint32_t)t->pid };
	for (uint32_t i = 0; i < t->cuda.cnt; i++)
		if (t->cuda.libs[i].role == TORCH_LIB_CUDART)
			proc_cfg__cudart(&t->cuda.libs[i].lib, cfg);
}

static int attach_lib(struct targets *ts, enum cuda_purpose p, struct target *t,
		      const struct cuda_lib *cl)
{
	struct cuda_probes *cp = &t->cuda.probes[p];
	struct shared_plan *sp = &ts->plans[cl->plan];
	struct probe_lib lib = { 0 };
	struct ptb_proc_cfg cfg;
	int n = 0;

	fill_cuda_lib(p, cl, sp, &lib);
	fill_cfg(t, &cfg);
	if (lib.cnt) {
		n = cp->on ? probe_set__add_libs(ts->ps, cp->idx, &lib, 1) :
			     probe_set__add_process(ts->ps, &cfg, &lib, 1, &cp->idx);
		cp->on |= n >= 0;
		if (cp->on)
			target_python__use(ts, t, cp->idx);
	}
	if (n >= 0) {
		ts->probes += (uint64_t)n;
		targets__record_refusals(ts, sp,
					 p == CUDA_MEMORY ? REFUSALS_MEMORY : REFUSALS_CUDA_CALLS);
		targets__report_refusals(ts, sp, &lib, 1);
	} else if (n != -ESRCH && n != -ESTALE && n != -EUSERS && n != -ECANCELED) {
		pr_warn("pid %d: no probes on '%s': %s", t->pid, cl->lib.path, errstr(n));
	}
	free(lib.sites);
	return n;
}

static void remove_probes(struct cuda_probes *cp, struct probe_set *ps)
{
	if (cp->on)
		probe_set__remove_process(ps, cp->idx);
	*cp = (struct cuda_probes){ 0 };
}

/* Attaches and detaches as needed now. True: something was attached. */
static bool settle(struct targets *ts, struct target *t)
{
	uint64_t t0 = clock__mono_ns();
	struct ptb_proc_cfg cfg;
	bool more = false;

	for (uint32_t i = 0; i < CUDA_PURPOSES; i++) {
		struct cuda_probes *cp = &t->cuda.probes[i];

		if (!is_purpose_active(i, t, ts)) {
			remove_probes(cp, ts->ps);
			continue;
		}
		if (cp->done == t->cuda.cnt)
			continue;
		fill_cfg(t, &cfg);
		if (cp->on) /* perhaps another libcudart */
			probe_set__update_process(ts->ps, cp->idx, &cfg);
		for (; cp->done < t->cuda.cnt; cp->done++)
			more |= attach_lib(ts, i, t, &t->cuda.libs[cp->done]) > 0;
	}
	t->cuda.called |= t->cuda.probes[CUDA_CALLS].on;
	if (!ts->active)
		ts->attach_ns += clock__mono_ns() - t0;
	return more;
}

void target_cuda__attach(struct targets *ts, struct target *t, const struct torch_proc *tp)
{
	if (!ts->opts->gpu && !ts->opts->memory)
		return;
	/* without a digest: the next poll finds what was loaded since tp was made */
	t->cuda.polled_ns = clock__mono_ns();
	add_libs(ts, &t->cuda, tp);
	settle(ts, t);
}

/* ---- libraries that are loaded later ---- */

/* Has the process mapped files that may be CUDA's since the last call? */
static bool has_news(struct target_cuda *tc, pid_t pid)
{
	uint64_t code, digest;

	if (proc_memory__code(pid, &code) || code == tc->code_bytes)
		return false;
	if (torch_proc__peek_cuda(pid, &digest))
		return false;
	tc->code_bytes = code;
	if (digest == tc->digest)
		return false;
	tc->digest = digest;
	return true;
}

static void say_refused(struct target *t)
{
	if (t->cuda.probes[CUDA_CALLS].on || t->cuda.warned || !t->agent ||
	    !target_agent__gpu_refused(t->agent))
		return;
	t->cuda.warned = true;
	pr_warn("pid %d: its agent does not record GPU activities: %s; CUDA calls are recorded by "
		"uprobes",
		t->pid, agent__why_text(t->agent->gpu_why));
}

void target_cuda__follow(struct targets *ts, struct target *t)
{
	uint64_t now = clock__mono_ns(), last = t->cuda.polled_ns;
	uint64_t pace = POLL_EVERY_NS * (1 + ts->cnt / POLLS_SHARED);
	struct torch_proc *tp = NULL;

	if ((!ts->opts->gpu && !ts->opts->memory) || now - last < pace)
		return;
	t->cuda.polled_ns = now;
	if (has_news(&t->cuda, t->pid) && !torch_proc__open_cuda(t->pid, &tp)) {
		add_libs(ts, &t->cuda, tp);
		torch_proc__free(tp);
	}
	if (is_purpose_active(CUDA_CALLS, t, ts))
		say_refused(t);
	if (settle(ts, t) && ts->active)
		ts->cuda_late_ns += clock__mono_ns() - last;
}

void target_cuda__clear(struct target_cuda *tc, struct probe_set *ps)
{
	for (uint32_t i = 0; i < CUDA_PURPOSES; i++)
		remove_probes(&tc->probes[i], ps);
	target_cuda__free(tc);
}

void target_cuda__free(struct target_cuda *tc)
{
	bool called = tc->called, warned = tc->warned;

	for (uint32_t i = 0; i < tc->cnt; i++)
		torch_lib__clear(&tc->libs[i].lib);
	free(tc->libs);
	*tc = (struct target_cuda){ .called = called, .warned = warned };
}
