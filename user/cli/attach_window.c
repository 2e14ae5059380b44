/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See attach_window.h. */
#define LOG_DOMAIN "attach"
#include "cli/attach_window.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "model/session.h"
#include "record/run.h"
#include "sample/proc_select.h"
#include "target/elf.h"
#include "target/proc.h"
#include "target/torch.h"

#define ADD_MAX_NS 600000000000ULL /* to attach to all processes */
#define MEASURED_ENDS 3            /* of steps; what a step takes is known from the second on */

/* ---- options ---- */

static const struct {
	const char *key;
	size_t offset;
} keys[] = {
	{ "chosen", offsetof(struct window_opts, chosen) },
	{ "attach", offsetof(struct window_opts, attach) },
	{ "begin", offsetof(struct window_opts, begin) },
	{ "end", offsetof(struct window_opts, end) },
	{ "own_probes", offsetof(struct window_opts, own_probes) },
	{ "warmup", offsetof(struct window_opts, warmup) },
	{ "active", offsetof(struct window_opts, active) },
	{ "step_timeout", offsetof(struct window_opts, step_timeout) },
};

/* Takes one of "KEY=NUMBER,...". Returns the rest; NULL: it is not valid. */
static const char *parse_one(const char *text, struct window_opts *wo)
{
	size_t len = strcspn(text, "=");
	char *end;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strlen(keys[i].key) != len || strncmp(keys[i].key, text, len) != 0 ||
		    !text[len])
			continue;
		errno = 0;
		*(uint64_t *)((char *)wo + keys[i].offset) = strtoull(text + len + 1, &end, 10);
		return end == text + len + 1 || errno || (*end && *end != ',') ? NULL :
										 end + !!*end;
	}
	return NULL;
}

int window_opts__parse(const char *text, struct window_opts *wo)
{
	const char *at = text;

	*wo = (struct window_opts){ .chosen = clock__mono_ns() };
	while (at && *at)
		at = parse_one(at, wo);
	if (at)
		return 0;
	pr_error("attach: '%s' is not a valid value for --window", text);
	return -EINVAL;
}

void window_opts__apply(const struct window_opts *wo, struct run_cfg *cfg)
{
	struct step_opts *so = &cfg->rec.steps;

	cfg->rec.end_ns = wo->end;
	if (!wo->step_timeout)
		return;
	so->name = cfg->step_on ? cfg->step_on : SESSION_STEP_ON;
	so->ops = cfg->step_on != NULL;
	so->warmup = wo->active ? (uint32_t)wo->warmup : MEASURED_ENDS;
	so->active = (uint32_t)wo->active;
	so->timeout_ns = wo->step_timeout;
}

/* ---- the processes ---- */

struct window {
	const struct run_cfg *cfg;
	const struct window_opts *wo;
	struct live *live;
	bool learned[OPT_PIDS_MAX];
	pid_t slow; /* it took more than others can wait for; 0: none */
	bool slow_failed;
	uint32_t no_torch;
	struct progress_steps steps;
};

struct times {
	uint64_t cpu_ns, mono_ns;
};

/* The time of this process and of the children that read files for it. */
static struct times now_times(void)
{
	return (struct times){ clock__cpu_ns_with_children(), clock__mono_ns() };
}

static void note_read(struct window *w, pid_t pid, const struct times *since, bool failed)
{
	struct times now = now_times();
	uint64_t cpu_ns = now.cpu_ns - since->cpu_ns, ns = now.mono_ns - since->mono_ns;

	progress__read(&w->live->progress, pid, ns, cpu_ns, failed);
	if (cpu_ns < LEFT_OUT_CPU_NS && ns < LEFT_OUT_WALL_NS)
		return;
	w->slow = pid;
	w->slow_failed = failed;
}

/* Reads the libraries of the processes while there is time: what it learns is known when they
 * are attached to. */
static void learn_targets(struct window *w)
{
	const struct pid_list *pids = &w->cfg->pids;

	for (uint32_t i = 0;
	     i < pids->cnt && !cancel__pending() && clock__mono_ns() < w->wo->attach; i++) {
		struct times since = now_times();
		struct torch_proc *tp = NULL;
		enum torch_proc_why why;
		bool failed;

		progress__reading(&w->live->progress, pids->pids[i]);
		failed = torch_proc__open_any(pids->pids[i], &tp, &why); /* it comes again */
		if (!failed) {
			failed = !torch_proc__has_torch(tp);
			torch_proc__free(tp);
		}
		note_read(w, pids->pids[i], &since, failed);
		w->learned[i] = w->slow != pids->pids[i];
	}
}

/* False: a signal came first. */
static bool wait_until(uint64_t ns)
{
	struct pollfd p = { .fd = cancel__fd(), .events = POLLIN };
	uint64_t now;

	while (!cancel__pending() && (now = clock__mono_ns()) < ns)
		poll(&p, 1, (int)((ns - now) / 1000000) + 1);
	return !cancel__pending();
}

/* One process after the other is attached to, and one may take minutes: there is an end to it. */
static bool may_add(const struct window *w, uint64_t begin_ns, uint32_t left)
{
	uint64_t now = clock__mono_ns();

	if (cancel__pending() || (w->wo->end && now >= w->wo->end))
		return false; /* reported later */
	if (now < begin_ns + ADD_MAX_NS)
		return true;
	pr_warn("%u process%s not recorded: the others have taken %llu s", left,
		left == 1 ? " is" : "es are", ADD_MAX_NS / 1000000000);
	return false;
}

/* The limit that --max-cost sets for a process; 0: none. */
static uint64_t max_cost_of(const char *list, pid_t pid)
{
	char *end = NULL;

	for (const char *at = list; at && *at; at = *end ? end + 1 : NULL) {
		long of = strtol(at, &end, 10);
		uint64_t ns = *end == '=' ? strtoull(end + 1, &end, 10) : 0;

		if (of == pid)
			return ns;
	}
	return 0;
}

/* True: it has been added. */
static bool add_process(struct window *w, pid_t pid)
{
	struct times since = now_times();
	int err;

	progress__reading(&w->live->progress, pid);
	err = run__add_chosen(w->live->run, pid, w->wo->chosen);
	note_read(w, pid, &since, err != 0);
	if (err == -EAGAIN) {
		w->no_torch++;
		pr_warn("pid %d: not recorded: it has not loaded PyTorch", pid);
	}
	if (err)
		return false; /* reported */
	run__limit_cost(w->live->run, pid, max_cost_of(w->cfg->max_cost, pid));
	if (w->cfg->rec.children)
		run__add_descendants(w->live->run, pid);
	return true;
}

/* Those whose libraries are not read yet come last; after a slow one they wait for the next
 * window, when this one is due for others. */
static bool is_turn(const struct window *w, uint32_t i, bool learned, uint32_t added)
{
	if (w->learned[i] != learned || (w->slow_failed && w->slow == w->cfg->pids.pids[i]))
		return false;
	return learned || !w->slow || !added || clock__mono_ns() < w->wo->begin;
}

/* Counts the processes that have ended since they were chosen. */
static uint32_t count_ended(const struct window *w)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < w->cfg->pids.cnt; i++)
		cnt += pid_hold__ended(w->cfg->pids.pids[i], w->wo->chosen);
	return cnt;
}

/* False: none of the processes can be traced. */
static bool add_processes(struct window *w)
{
	uint32_t added = 0, cnt = w->cfg->pids.cnt, ended;
	uint64_t t0 = clock__mono_ns();

	if (!w->wo->own_probes)
		run__expect(w->live->run, w->cfg->pids.pids, cnt);
	for (uint32_t i = 0; i < 2 * cnt && may_add(w, t0, cnt - added); i++)
		if (is_turn(w, i % cnt, i < cnt, added))
			added += add_process(w, w->cfg->pids.pids[i % cnt]);
	ended = added < cnt ? count_ended(w) : 0;
	progress__attached(&w->live->progress, added, clock__mono_ns() - t0, ended, w->no_torch);
	run__refused(w->live->run, cnt - added > ended ? cnt - added - ended : 0);
	return added > 0;
}

/* ---- the window ---- */

/* False: the next window is due already (reported). */
static bool is_in_time(const struct window *w)
{
	if (!w->wo->end || clock__mono_ns() < w->wo->end)
		return true;
	pr_warn("the probes were attached when the next window was due");
	return false;
}

static void tick(void *arg, struct run *run)
{
	struct window *w = arg;
	const struct step_opts *so = &w->cfg->rec.steps;

	attach_flight__tick(w->cfg, run);
	if (w->live->announced ||
	    (so->name ? so->warmup && !run__warmed_up(run) : clock__mono_ns() < w->wo->begin))
		return;
	live__announce(w->live);
}

/* Until the window's end, or as far as it came. Exit code. */
static int run_window(struct window *w)
{
	const struct step_opts *so = &w->cfg->rec.steps;
	struct run *run = w->live->run;
	int code;

	w->steps.attached_ns = clock__mono_ns();
	if (so->name && so->warmup)
		run__warm_up(run);
	run__wake_at(run, w->wo->begin);
	tick(w, run);
	if (so->name && !so->active)
		code = run__loop(run, NULL, NULL) || !run__step_ns(run) ? EXIT_FAILED : EXIT_DONE;
	else
		code = live__loop(w->live, tick, w);
	if (!so->name)
		return code;
	w->steps.ended_ns = clock__mono_ns();
	w->steps.step_ns = run__step_ns(run);
	w->steps.none = run__stop_reason(run) == PTB_STOP_NO_STEP;
	return code;
}

/* Exit code of a window that has been recorded; has it the steps that were counted? */
static int check_steps(const struct step_opts *so, struct outputs_result *r, int code)
{
	if (code != EXIT_DONE || r->stop_reason != PTB_STOP_STEPS || r->steps >= so->active)
		return code;
	snprintf(r->incomplete, sizeof(r->incomplete), "it has %llu whole steps, not %u",
		 (unsigned long long)r->steps, so->active);
	return EXIT_INCOMPLETE;
}

/* Makes a capture of the recording. Exit code. */
static int seal(struct window *w, int code)
{
	bool measured = w->cfg->rec.steps.name && !w->cfg->rec.steps.active;

	if (!code && !measured && w->cfg->rec.flight_ns &&
	    !attach_flight__wanted(w->cfg, w->live->run))
		code = EXIT_FAILED; /* nobody wants it: it is removed */
	if (!code && !measured)
		code = live__seal(w->live);
	progress__sealed(&w->live->progress, w->live->run, &w->cfg->pids,
			 code || measured ? NULL : w->live->capture,
			 w->cfg->rec.steps.name ? &w->steps : NULL, code ? count_ended(w) : 0);
	return code;
}

int attach_window__run(const struct run_cfg *cfg, const struct window_opts *wo, struct live *live)
{
	struct window w = { .cfg = cfg, .wo = wo, .live = live };
	char trigger[32];
	int code = live__open(live, cfg, cfg->pids.pids[0]);

	if (!cfg->rec.no_cache)
		elf_child__use_cache(NULL); /* each window is another process */
	if (!code && cfg->notes_fd && !cfg->rec.flight_ns)
		attach_notes__read(cfg->notes_fd, run__recorder(live->run), -1, trigger,
				   sizeof(trigger));
	if (!code)
		learn_targets(&w);
	if (!code && (!wait_until(wo->attach) || !add_processes(&w) || !is_in_time(&w)))
		code = EXIT_FAILED;
	if (!code)
		code = run_window(&w);
	if (live->run)
		code = seal(&w, code);
	if (!code && !(cfg->rec.steps.name && !cfg->rec.steps.active))
		code = check_steps(&cfg->rec.steps, live->result, live__export(live));
	live__free(live);
	return code;
}
