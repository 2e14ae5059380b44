/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One target's agent; see targets.h. */
#define LOG_DOMAIN "agent"
#include "record/targets.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "inject/inject.h"
#include "record/recorder_agent.h"
#include "target/proc_info.h"

#define BIT(site) (1u << PTB_AGENT_SITE_##site)
/* The agent of a program that is being loaded waits for the loader, as operators do. */
#define PATIENCE_NS 60000000000ULL
/* Interval of reading the GPUs' state from the control block, which takes a few microseconds. */
#define GPU_POLL_NS 20000000ULL
#define PEEK_EVERY_NS 500000000ULL /* interval of searches for torch in a process that has none */
#define PEEKS_SLOWER 4             /* intervals double so many times */

int target_agent__file(char *buf, size_t cap)
{
	static const char *const folders[] = { "", "../lib/ptbpf/" };
	char exe[PATH_MAX], path[PATH_MAX + 64], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n <= 0)
		return -ENOENT;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return -ENOENT;
	slash[1] = '\0';
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(path, sizeof(path), "%s%s" PTB_AGENT_FILE, exe, folders[i]);
		if (realpath(path, real) && strlen(real) < cap) {
			strcpy(buf, real);
			return 0;
		}
	}
	return -ENOENT;
}

/* Loads the agent into a process that was not prepared for it. 0 or negative errno (why). */
static int inject(pid_t pid, struct remote_mem *mem, char *why, size_t cap)
{
	struct inject_opts opts = { .mem = mem };
	struct inject_result res = { .method = INJECT_NONE };
	char path[PATH_MAX];
	int err;

	if (target_agent__file(path, sizeof(path))) {
		snprintf(why, cap, "the agent's file " PTB_AGENT_FILE " was not found");
		return -ENOENT;
	}
	opts.lib_path = path;
	pr_warn("--agent=inject: loading '%s' into process %d; it remains loaded, inactive, when "
		"the trace has ended",
		path, pid);
	err = inject__load(pid, &opts, &res);
	if (err)
		snprintf(why, cap, "%s", res.why);
	else if (res.method == INJECT_PTRACE)
		pr_info("loaded by ptrace at attempt %u; a thread was diverted for %.1f ms",
			res.tries, (double)res.stopped_ns / 1e6);
	else
		pr_info("loaded by %s", inject__method_text(res.method));
	return err;
}

static struct target_agent *agent_new(struct agent_lib *lib)
{
	struct target_agent *ta = xcalloc(1, sizeof(*ta));

	ta->lib = *lib;
	ta->proc_idx = UINT32_MAX;
	ta->sites.access_path = lib->access_path;
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++) {
		ta->sites.site[i] = lib->site[i];
		ta->sites.semaphore[i] = lib->semaphore[i];
	}
	return ta;
}

struct target_agent *target_agent__find(pid_t pid, struct remote_mem *mem,
					const struct record_opts *opts, char *why, size_t cap)
{
	struct ptb_agent_ctl ctl;
	struct agent_lib lib = { 0 };
	struct target_agent *ta;
	bool injected = false;
	int err;

	why[0] = '\0';
	if (opts->agent == AGENT_OFF)
		return NULL;
	err = agent_lib__find(pid, &lib, why, cap);
	if ((err != -ENOENT || opts->agent == AGENT_INJECT) && !proc__same_timens(pid)) {
		agent_lib__clear(&lib);
		snprintf(why, cap,
			 "the process is in another time namespace, and its clock is not ptbpf's");
		return NULL;
	}
	if (err == -ENOENT && opts->agent == AGENT_INJECT) {
		if (inject(pid, mem, why, cap))
			return NULL;
		injected = true;
		err = agent_lib__find(pid, &lib, why, cap);
	}
	if (err == -EAGAIN && opts->gpu) {
		ta = agent_new(&lib);
		ta->late = true;
		return ta;
	}
	if (err) {
		if (err == -ENOENT && !injected)
			why[0] = '\0';
		else if (!why[0])
			snprintf(why, cap, "%s", errstr(err));
		agent_lib__clear(&lib);
		return NULL;
	}
	err = agent_lib__read(pid, &lib, &ctl);
	if (err || !(ctl.state & PTB_AGENT_ALIVE)) {
		if (err)
			snprintf(why, cap, "its control block cannot be read: %s", errstr(err));
		else
			snprintf(why, cap, "%s",
				 agent__why_text(ctl.ops_why ? ctl.ops_why : PTB_AGENT_WHY_FORKED));
		agent_lib__clear(&lib);
		return NULL;
	}
	ta = agent_new(&lib);
	ta->injected = injected;
	return ta;
}

bool target_agent__is_there(pid_t pid)
{
	struct agent_lib lib = { 0 };
	char why[200];
	int err = agent_lib__find(pid, &lib, why, sizeof(why));

	agent_lib__clear(&lib);
	return err != -ENOENT && err != -ESRCH;
}

bool target_agent__is_awake(pid_t pid)
{
	struct ptb_agent_ctl ctl;
	struct agent_lib lib = { 0 };
	char why[200];
	bool awake = !agent_lib__find(pid, &lib, why, sizeof(why)) &&
		     !agent_lib__read(pid, &lib, &ctl) && ctl.state & PTB_AGENT_ALIVE;

	agent_lib__clear(&lib);
	return awake;
}

void target_agent__free(struct target_agent *ta)
{
	if (!ta)
		return;
	agent_lib__clear(&ta->lib);
	free(ta);
}

/* Samples need only the open operators. */
static uint32_t choose_open(struct target_agent *ta, const struct torch_plan *plan)
{
	if (!ta->sites.site[PTB_AGENT_SITE_OPEN] || !ta->sites.semaphore[PTB_AGENT_SITE_OPEN] ||
	    !ta->lib.open)
		snprintf(ta->why, sizeof(ta->why),
			 "its library is an older one, without open operators");
	else if (!plan->layout.rf.size)
		snprintf(ta->why, sizeof(ta->why), "%s", plan->layout.no_rf_why);
	else
		return BIT(OPEN);
	return 0;
}

/* Chooses what the agent has sites for and the plan has layouts for. */
static uint32_t choose_requests(struct target_agent *ta, const struct record_opts *opts,
				bool stacks, const struct torch_plan *plan)
{
	bool no_ops = !opts->ops || opts->names_only || ta->late;
	uint32_t w = 0;

	if (opts->sample_hz)
		return choose_open(ta, plan);
	if (!no_ops && stacks && !ta->sites.site[PTB_AGENT_SITE_STACKS]) {
		snprintf(ta->why, sizeof(ta->why),
			 "its library is an older one, without Python stacks");
	} else if (!no_ops && opts->kernel_memory && !ta->sites.site[PTB_AGENT_SITE_EDGES]) {
		snprintf(
			ta->why, sizeof(ta->why),
			"its library is an older one, without the edges of operators that --kernel-memory needs");
	} else if (plan->layout.rf.size && !no_ops) {
		w |= BIT(OPS) | (stacks ? BIT(STACKS) : 0) | (opts->kernel_memory ? BIT(EDGES) : 0);
		if (opts->args != PROBE_ARGS_NONE && plan->layout.tensor.shapes_on)
			w |= BIT(INPUTS);
		if (opts->args == PROBE_ARGS_FULL && plan->layout.tensor.shapes_on)
			w |= BIT(OUTPUTS);
	} else if (!no_ops) {
		snprintf(ta->why, sizeof(ta->why), "%s", plan->layout.no_rf_why);
	}
	ta->graphs_requested = opts->graphs;
	if (opts->gpu)
		w |= BIT(GPU) | (opts->sync ? BIT(SYNC) : 0) | (opts->graphs ? BIT(GRAPHS) : 0);
	for (uint32_t i = 0; i < PTB_AGENT_SITE_CNT; i++)
		if (!ta->sites.site[i] || !ta->sites.semaphore[i])
			w &= ~(1u << i);
	return w;
}

/*
 * Reads the control block once no other tracer has different requests. With more requests the agent
 * begins anew, and both tracers miss what runs at that moment. 0; -EBUSY (ta->why); another
 * negative errno.
 */
static int wait_for_others(struct target_agent *ta, pid_t pid, struct ptb_agent_ctl *ctl)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	uint64_t until = clock__mono_ns() + PTB_AGENT_ANSWER_NS;
	uint32_t others;
	int err;

	while (!(err = agent_lib__read(pid, &ta->lib, ctl))) {
		others = ctl->requests & ~BIT(CHUNK);
		if (!others || others == ta->requests || cancel__pending())
			return 0;
		if (clock__mono_ns() > until) {
			snprintf(ta->why, sizeof(ta->why),
				 "another tracer uses it with other options");
			return -EBUSY;
		}
		nanosleep(&nap, NULL);
	}
	return err;
}

int target_agent__request(struct target_agent *ta, pid_t pid, const struct record_opts *opts,
			  bool stacks, struct proc_ops *po, struct probe_set *ps,
			  struct recorder *rec)
{
	struct ptb_proc_cfg pc = { .tgid = (uint32_t)pid };
	struct agent_facts facts = { .pid = pid,
				     .schema_off = proc_ops__schema_offset(po),
				     .old_string_abi = po->plan->layout.old_string_abi };
	struct ptb_agent_cfg cfg;
	/* the default is for an agent that sleeps: its pairs fit either clock */
	struct ptb_agent_ctl ctl = { .state = PTB_AGENT_TSC };
	int err;

	ta->requests = choose_requests(ta, opts, stacks, po->plan);
	if (!ta->requests) {
		if (!ta->why[0])
			snprintf(ta->why, sizeof(ta->why), "its library lacks required sites");
		return -ENOTSUP;
	}
	err = ta->late ? 0 : wait_for_others(ta, pid, &ctl);
	facts.tsc = ctl.state & PTB_AGENT_TSC;
	ta->cupti_version = ctl.cupti_version;
	proc_cfg__agent(po, &cfg);
	if (!err && ta->requests & (BIT(OPS) | BIT(OPEN)))
		err = agent_lib__configure(pid, &ta->lib, &cfg);
	if (!err)
		err = probe_set__add_process(ps, &pc, NULL, 0, &ta->proc_idx);
	if (!err)
		recorder__agent(rec, &facts);
	if (!err)
		err = probe_set__agent_listen(ps, ta->proc_idx, &ta->sites);
	if (!err)
		err = probe_set__agent_request(ps, ta->proc_idx, &ta->sites, ta->requests);
	if (err && !ta->why[0])
		snprintf(ta->why, sizeof(ta->why), "it cannot be reached: %s", errstr(err));
	ta->requested_ns = clock__mono_ns();
	return err;
}

/* A process that does not use CUDA yet lacks nothing. */
static bool gpu_answered(const struct target_agent *ta, const struct ptb_agent_ctl *ctl)
{
	return !(ta->requests & BIT(GPU)) || (ctl->state & PTB_AGENT_GPU_ON) || ctl->gpu_why;
}

/* Its state alone may result from another tracer's requests, or from only some of these. After a
 * fork an agent never acts. */
static bool has_acted(const struct target_agent *ta, const struct ptb_agent_ctl *ctl)
{
	return !(ta->requests & ~ctl->requests) || !(ctl->state & PTB_AGENT_ALIVE);
}

static void take_gpu_state(struct target_agent *ta, const struct ptb_agent_ctl *ctl)
{
	ta->graphs |= (ctl->state & PTB_AGENT_GRAPHS_ON) != 0;
	ta->gpu |= (ctl->state & PTB_AGENT_GPU_ON) != 0;
	ta->gpu_why = ctl->gpu_why;
	ta->cupti_version = ctl->cupti_version;
}

void target_agent__note_gpu(struct target_agent *ta, pid_t pid)
{
	uint64_t now = clock__mono_ns();
	struct ptb_agent_ctl ctl;

	if (!(ta->requests & BIT(GPU)) || now - ta->gpu_polled_ns < GPU_POLL_NS)
		return;
	ta->gpu_polled_ns = now;
	if (agent_lib__read(pid, &ta->lib, &ctl) || !(ctl.state & PTB_AGENT_ALIVE))
		return; /* ended: its state stays */
	take_gpu_state(ta, &ctl);
}

/* The bit that reports the requested kind of operators. */
static uint32_t on_bit(const struct target_agent *ta)
{
	return ta->requests & BIT(OPEN) ? PTB_AGENT_OPEN_ON : PTB_AGENT_OPS_ON;
}

bool target_agent__gave_up(struct target_agent *ta, const struct recorder *rec, pid_t pid)
{
	struct agent_reported w = recorder__agent_reported(rec, pid);
	struct ptb_agent_ctl ctl;

	if (ta->answer != AGENT_DONE || !ta->ops || !(w.ever & on_bit(ta)))
		return false;
	if (!(w.state & on_bit(ta))) {
		/* also reported by a process that ends, and while requests change */
		if (agent_lib__read(pid, &ta->lib, &ctl) || !(ctl.state & PTB_AGENT_ALIVE) ||
		    ctl.state & on_bit(ta))
			return false;
		ta->ops = false;
		ta->ops_why = w.ops_why;
		snprintf(ta->why, sizeof(ta->why), "%s",
			 w.ops_why ? agent__why_text(w.ops_why) : "it stopped by itself");
		return true;
	}
	if (w.ever & ~w.state & PTB_AGENT_INPUTS_ON &&
	    ta->requests & (BIT(INPUTS) | BIT(OUTPUTS)) && !ta->no_values) {
		ta->no_values = true;
		pr_warn("pid %d: its agent stopped recording shapes: %s", pid,
			agent__why_text(w.ops_why));
	}
	return false;
}

enum agent_answer target_agent__poll(struct target_agent *ta, pid_t pid)
{
	struct ptb_agent_ctl ctl;
	bool ops_requested = ta->requests & (BIT(OPS) | BIT(OPEN)), late;
	int err = agent_lib__read(pid, &ta->lib, &ctl);

	if (err && ta->late) /* the agent still sleeps, or the process ends */
		return ta->answer;
	if (err) {
		snprintf(ta->why, sizeof(ta->why), "its control block cannot be read: %s",
			 errstr(err));
		return ta->answer = AGENT_SILENT;
	}
	late = clock__mono_ns() - ta->requested_ns >
	       (ta->patient ? PATIENCE_NS : PTB_AGENT_ANSWER_NS);
	ta->ops = ops_requested && (ctl.state & on_bit(ta)) &&
		  (!(ta->requests & BIT(STACKS)) || ctl.state & PTB_AGENT_STACKS_ON);
	ta->ops_why = ops_requested ? ctl.ops_why : PTB_AGENT_WHY_NONE;
	take_gpu_state(ta, &ctl);
	if ((!ops_requested || ta->ops || (ta->ops_why && ta->ops_why != PTB_AGENT_WHY_NO_TORCH)) &&
	    gpu_answered(ta, &ctl) && has_acted(ta, &ctl))
		ta->answer = AGENT_DONE;
	else if (late)
		ta->answer = ta->ops || ta->gpu ? AGENT_DONE : AGENT_SILENT;
	else
		return ta->answer = AGENT_PENDING;
	if (ops_requested && !ta->ops)
		snprintf(ta->why, sizeof(ta->why), "%s",
			 ta->ops_why ? agent__why_text(ta->ops_why) : "it does not respond");
	return ta->answer;
}

bool target_agent__gpu_refused(const struct target_agent *ta)
{
	switch (ta->gpu_why) {
	case PTB_AGENT_WHY_OLD_CUPTI:
	case PTB_AGENT_WHY_NEW_CUPTI:
	case PTB_AGENT_WHY_CUPTI_IN_USE:
	case PTB_AGENT_WHY_CUPTI_ERROR:
	case PTB_AGENT_WHY_NO_MEMORY:
		return true;
	default:
		return false;
	}
}

bool target_agent__has_ops(const struct target_agent *ta)
{
	return ta && !ta->late &&
	       (ta->ops || (ta->answer == AGENT_PENDING && ta->requests & BIT(OPS)));
}

bool target_agent__has_gpu(const struct target_agent *ta)
{
	return ta && ta->requests & BIT(GPU) && (ta->gpu || !ta->late) &&
	       ta->answer != AGENT_SILENT && !target_agent__gpu_refused(ta) &&
	       ta->gpu_why != PTB_AGENT_WHY_NO_CUPTI;
}

void target_agent__dismiss(struct target_agent *ta, struct probe_set *ps)
{
	if (ta->proc_idx != UINT32_MAX)
		probe_set__agent_withdraw(ps, ta->proc_idx);
}

bool target_agent__is_quiet(const struct target_agent *ta, pid_t pid)
{
	struct ptb_agent_ctl ctl;

	return agent_lib__read(pid, &ta->lib, &ctl) || !(ctl.state & PTB_AGENT_SENDS) ||
	       !(ctl.state & PTB_AGENT_ALIVE);
}

/* ---- samples with the open operator ---- */

/* Reads open operators with each sample from now on, after the agent has answered. */
static void read_open_ops(struct targets *ts, struct target *t)
{
	const struct agent_lib *lib = &t->agent->lib;
	struct ptb_py_layout layout = t->python.layout;
	struct ptb_agent_open open = { .tls = 0 };
	int err = agent_lib__read_open(t->pid, lib, &open);

	layout.open_tls = open.tls;
	layout.open_on = 0; /* a sample may be taken during the update */
	if (!err)
		err = probe_set__python(ts->ps, t->proc_idx, &layout);
	layout.open_on = lib->open + offsetof(struct ptb_agent_open, on);
	if (!err)
		err = probe_set__python(ts->ps, t->proc_idx, &layout);
	if (err)
		pr_warn("pid %d: samples do not say which operator was open: %s", t->pid,
			errstr(err));
	t->open_known = !err;
	t->agent->ops = !err;
}

void target_open__begin(struct targets *ts, struct target *t, const struct torch_proc *tp)
{
	struct target_agent *found;
	struct shared_plan *sp;
	struct proc_ops po;

	if (ts->opts->agent == AGENT_OFF || !torch_proc__ready(tp))
		return;
	t->open_tried = true;
	found = target_agent__find(t->pid, t->mem, ts->opts, t->agent_why, sizeof(t->agent_why));
	if (!found) {
		if (t->agent_why[0])
			targets__say_agent(ts, t, t->agent_why);
		return;
	}
	target_agent__free(found); /* making a plan takes long, and only an agent needs it */
	sp = targets__plan(ts, tp->libs, ts->opts->no_cache);
	if (!sp || targets__verify_plan(tp, sp))
		return;
	proc_ops__init(&po, tp, sp->plan);
	targets__request_agent(ts, t, &po);
	proc_ops__free(&po);
	if (t->agent && t->agent->ops)
		read_open_ops(ts, t);
}

/* A process may load torch at any time. */
static void search_torch(struct targets *ts, struct target *t)
{
	uint64_t now = clock__mono_ns();
	struct torch_proc *tp = NULL;
	enum torch_proc_why why;

	if (now < t->next_facts_ns)
		return;
	t->next_facts_ns = now + (PEEK_EVERY_NS << t->tries);
	t->tries += t->tries < PEEKS_SLOWER;
	if (torch_proc__peek(t->pid) <= 0 || torch_proc__open_any(t->pid, &tp, &why))
		return;
	target_open__begin(ts, t, tp);
	torch_proc__free(tp);
}

void target_open__follow(struct targets *ts, struct target *t)
{
	if (ts->opts->agent != AGENT_OFF && !t->open_tried)
		search_torch(ts, t);
	if (!t->agent)
		return;
	if (t->agent->answer == AGENT_PENDING &&
	    target_agent__poll(t->agent, t->pid) != AGENT_PENDING) {
		if (t->agent->ops)
			read_open_ops(ts, t);
		else
			targets__say_agent(ts, t, t->agent->why);
	}
	if (t->open_known && target_agent__gave_up(t->agent, ts->rec, t->pid)) {
		t->open_known = false;
		ts->agents_gave_up++;
		pr_warn("pid %d: samples no longer say which operator was open: its agent: %s",
			t->pid, t->agent->why);
	}
}
