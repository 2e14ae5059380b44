/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_window.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_window.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/stall.h"
#include "cli/cmd.h"
#include "cli/sample_learn.h"
#include "cli/sample_opts.h"
#include "cli/sample_steps.h"
#include "record/recorder.h"
#include "sample/http_server.h"
#include "sample/window_dir.h"
#include "target/elf_child.h"
#include "target/pid_hold.h"

#define EXPORT_NICE 10
#define LAST_ORDER_MS 3000 /* of a process that holds what happened, after the end of the targets */
#define ADD_MAX_NS 600000000000ULL /* to attach to all processes */
#define MEASURED_ENDS 3            /* of steps; what a step takes is known from the second on */

/* ---- in the process of the window ---- */

struct window_run {
	const struct sample_window_spec *spec;
	int fd; /* for reports */
	struct sample_report report;
	struct live live;
	bool learned[OPT_PIDS_MAX]; /* by sample_learn__targets() */
};

/* False: a signal came first. */
static bool wait_until(uint64_t ns)
{
	struct pollfd p = { .fd = cancel__fd(), .events = POLLIN };
	uint64_t now;

	while (!cancel__pending() && (now = clock__mono_ns()) < ns)
		poll(&p, 1, (int)((ns - now) / 1000000) + 1);
	return !cancel__pending();
}

static void send_report(const struct window_run *wr)
{
	if (write(wr->fd, &wr->report, sizeof(wr->report)) < 0)
		pr_debug("a report of the window is lost: %s", errstr(errno));
}

static void report_begin(struct window_run *wr, struct run *run, uint64_t begin_ns)
{
	wr->report.late_ns = begin_ns - wr->spec->begin_ns;
	wr->report.traced = run__traced(run);
	wr->report.fixed_ns = run__fixed_cost_ns(run);
	send_report(wr);
}

/* The end of the warm-up. */
static void begin_in_time(void *arg, struct run *run)
{
	struct window_run *wr = arg;
	const struct step_opts *so = &wr->live.cfg->rec.steps;

	if (wr->live.announced ||
	    (so->name ? so->warmup && !run__warmed_up(run) : clock__mono_ns() < wr->spec->begin_ns))
		return;
	live__announce(&wr->live);
	report_begin(wr, run, clock__mono_ns());
}

/* False: the next window is due already (reported). */
static bool is_in_time(const struct window_run *wr)
{
	if (!wr->spec->end_ns || clock__mono_ns() < wr->spec->end_ns)
		return true;
	pr_warn("window %llu: the probes were attached when the next window was due",
		(unsigned long long)wr->spec->nr);
	return false;
}

/* One process after the other is attached to, and one may take minutes: there is an end to it. */
static bool may_add(const struct window_run *wr, uint64_t begin_ns, uint32_t left)
{
	uint64_t now = clock__mono_ns();

	if (cancel__pending() || (wr->spec->end_ns && now >= wr->spec->end_ns))
		return false; /* reported later */
	if (now < begin_ns + ADD_MAX_NS)
		return true;
	pr_warn("window %llu: %u of its processes are not recorded: the others have taken %llu s",
		(unsigned long long)wr->spec->nr, left, ADD_MAX_NS / 1000000000);
	return false;
}

/* True: it has been added. */
static bool add_process(struct window_run *wr, uint32_t i)
{
	struct learn_times since = sample_learn__begin(wr->spec, wr->spec->pids[i]);
	int err = run__add_chosen(wr->live.run, wr->spec->pids[i], wr->spec->chosen_ns);

	sample_learn__note(&wr->report.slow, wr->spec->pids[i], &since, err);
	if (err == -EAGAIN) {
		wr->report.no_torch++;
		pr_warn("pid %d: not recorded: it has not loaded PyTorch", wr->spec->pids[i]);
	}
	if (err) { /* reported */
		wr->report.ended += pid_hold__ended(wr->spec->pids[i], wr->spec->chosen_ns);
		return false;
	}
	run__limit_cost(wr->live.run, wr->spec->pids[i], wr->spec->max_cost_ns[i]);
	if (wr->spec->cfg->rec.children)
		run__add_descendants(wr->live.run, wr->spec->pids[i]);
	return true;
}

/* Those whose libraries are not read yet come last; after a slow one they wait for the next window,
 * when this one is due for others. */
static bool is_turn(const struct window_run *wr, uint32_t i, bool learned, uint32_t added)
{
	const struct slow_process *slow = &wr->report.slow;

	if (wr->learned[i] != learned || (slow->failed && slow->pid == wr->spec->pids[i]))
		return false;
	return learned || !slow->pid || !added || clock__mono_ns() < wr->spec->begin_ns;
}

/* False: none of the processes can be traced. */
static bool add_processes(struct window_run *wr)
{
	uint64_t t0 = clock__mono_ns();
	uint32_t added = 0, cnt = wr->spec->pid_cnt;

	if (!wr->spec->apart)
		run__expect(wr->live.run, wr->spec->pids, cnt);
	for (uint32_t i = 0; i < 2 * cnt && may_add(wr, t0, cnt - added); i++)
		if (is_turn(wr, i % cnt, i < cnt, added))
			added += add_process(wr, i % cnt);
	wr->report.attach_ns = clock__mono_ns() - t0;
	wr->report.failure_cnt = plan_failures__own(wr->report.failures, WINDOW_FAILURES_MAX);
	run__refused(wr->live.run, cnt - added - wr->report.ended);
	return added > 0;
}

/* Until the window's end, or as far as it came. Exit code. */
static int run_window(struct window_run *wr)
{
	struct run *run = wr->live.run;
	bool in_steps = wr->live.cfg->rec.steps.name;
	int code;

	wr->report.steps.attached_ns = clock__mono_ns();
	if (in_steps && wr->live.cfg->rec.steps.warmup)
		run__warm_up(run);
	run__wake_at(run, wr->spec->begin_ns);
	begin_in_time(wr, run);
	if (wr->spec->measure)
		code = run__loop(run, NULL, NULL) || !run__step_ns(run) ? EXIT_FAILED : EXIT_DONE;
	else
		code = live__run(&wr->live, begin_in_time, wr);
	if (in_steps) {
		wr->report.steps.ended_ns = clock__mono_ns();
		wr->report.steps.step_ns = run__step_ns(run);
		wr->report.steps.none = run__stop_reason(run) == PTB_STOP_NO_STEP;
		send_report(wr);
	}
	return code;
}

static void write_meta(const struct sample_window_spec *spec, struct recorder *rec)
{
	char event[EVENT_TEXT_MAX + 32];

	recorder__meta_text(rec, "trigger", spec->trigger.kind);
	if (spec->off)
		recorder__meta_text(rec, "switched_off", spec->off);
	snprintf(event, sizeof(event), "pid %d: %s", spec->trigger.event_pid, spec->trigger.event);
	if (spec->trigger.event[0])
		recorder__meta_text(rec, "event", event);
}

/* What becomes of a window that has been recorded, code EXIT_DONE, or not. Exit code. */
static int end_window(struct window_run *wr, int code)
{
	if (wr->live.run)
		sample_window__note_costs(&wr->report, wr->spec, wr->live.run);
	if (code) { /* perhaps because they have ended since they were attached to */
		wr->report.ended = 0;
		for (uint32_t i = 0; i < wr->spec->pid_cnt; i++)
			wr->report.ended += pid_hold__ended(wr->spec->pids[i], wr->spec->chosen_ns);
		send_report(wr);
	}
	if (!code && !wr->spec->measure) {
		wr->report.sealed = true;
		send_report(wr);
		setpriority(PRIO_PROCESS, 0, EXPORT_NICE);
		wr->live.no_summary = true;
		wr->live.result = &wr->report.result;
		code = sample_steps__code(&wr->live.cfg->rec.steps, &wr->report.result,
					  live__export(&wr->live));
		wr->report.has_result = code == EXIT_DONE || code == EXIT_INCOMPLETE;
		send_report(wr);
	}
	live__free(&wr->live);
	return code;
}

static int record_window(const struct sample_window_spec *spec, int fd)
{
	struct window_run wr = { .spec = spec, .fd = fd };
	struct run_cfg cfg = *spec->cfg;
	char threads[PATH_MAX];
	int code;

	cfg.output = spec->capture;
	cfg.rec.flight_ns = 0;
	if (spec->duration_ns) {
		cfg.rec.duration_ns = spec->duration_ns;
		cfg.rec.steps.name = NULL;
	}
	cfg.rec.end_ns = spec->end_ns;
	if (spec->samples && sample_settings__only_samples(&cfg))
		return EXIT_FAILED;
	cfg.rec.native_stacks = spec->samples;
	cfg.trace = spec->trace[0] ? spec->trace : NULL;
	cfg.no_table = true;
	if (spec->measure) {
		cfg.rec.steps.active = 0;
		cfg.rec.steps.warmup = MEASURED_ENDS;
	}
	sample_window__threads(spec, threads, sizeof(threads));
	wr.live.threads = threads[0] ? threads : NULL;
	log__set_quiet(true); /* ptbpf reports the window when it has ended */
	wr.live.known_metrics = spec->metrics;
	wr.live.metrics = spec->metrics ? &wr.report.metrics : NULL;
	code = live__open(&wr.live, &cfg, spec->pids[0]);
	if (!code)
		write_meta(spec, run__recorder(wr.live.run));
	if (!code) {
		sample_learn__targets(spec, &wr.report.slow, wr.learned);
		send_report(&wr); /* so that what has been learned is heard now */
	}
	if (!code && (!wait_until(spec->warmup_ns) || !add_processes(&wr) || !is_in_time(&wr)))
		code = EXIT_FAILED;
	if (!code)
		code = run_window(&wr);
	return end_window(&wr, code);
}

/* Own process group: Ctrl-C goes to ptbpf alone, which lets the window end. */
static bool enter_child(const struct sample_window_spec *spec, pid_t parent)
{
	setpgid(0, 0);
	if (spec->server)
		http_server__child(spec->server);
	stall__watch(EXIT_FAILED);
	return !cancel__install() && !prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent;
}

static int child_main(const struct sample_window_spec *spec, int fd, int answers, pid_t parent)
{
	elf_child__send_to(answers);
	return enter_child(spec, parent) ? record_window(spec, fd) : EXIT_FAILED;
}

struct held_run {
	struct window_run wr;
	struct sample_window_spec spec; /* of the window */
	int orders;
	bool wanted;
};

/* Takes the order that makes it a window, if it has come. */
static void take_order(void *arg, struct run *run)
{
	struct held_run *hr = arg;
	char why[48];

	if (hr->wanted || recv(hr->orders, &hr->spec, sizeof(hr->spec), MSG_DONTWAIT) != sizeof(hr->spec))
		return;
	hr->wanted = true;
	hr->wr.spec = &hr->spec; /* its pointers are to what was there before the fork */
	hr->wr.live.known_metrics = hr->spec.metrics;
	hr->wr.live.metrics = hr->spec.metrics ? &hr->wr.report.metrics : NULL;
	write_meta(&hr->spec, run__recorder(run));
	snprintf(why, sizeof(why), "the event '%s'", hr->spec.trigger.kind);
	run__release(run, why);
	hr->wr.report.traced = hr->spec.pid_cnt;
	send_report(&hr->wr);
}

/* The processes have ended; what they ended of may be an event that comes only now. */
static void await_order(struct held_run *hr)
{
	struct pollfd p[] = { { .fd = hr->orders, .events = POLLIN },
			      { .fd = cancel__fd(), .events = POLLIN } };

	if (!hr->wanted && run__stop_reason(hr->wr.live.run) == PTB_STOP_TARGET_EXIT)
		poll(p, 2, LAST_ORDER_MS);
	take_order(hr, hr->wr.live.run);
}

/* Seals the capture, and gives it the name of the window. Exit code. */
static int seal_held(struct held_run *hr)
{
	struct live *live = &hr->wr.live;
	int code = live__seal(live);

	if (code)
		return code;
	if (rename(live->capture, hr->spec.capture)) {
		pr_error("'%s' cannot be renamed to '%s': %s", live->capture, hr->spec.capture,
			 errstr(errno));
		return EXIT_FAILED;
	}
	memcpy(live->capture, hr->spec.capture, sizeof(live->capture));
	memcpy(live->trace, hr->spec.trace, sizeof(live->trace));
	return EXIT_DONE;
}

static int hold_main(const struct sample_window_spec *first, int fd, int orders, pid_t parent)
{
	static struct held_run hr;
	struct run_cfg cfg = *first->cfg;
	struct live *live = &hr.wr.live;
	int code;

	if (!enter_child(first, parent))
		return EXIT_FAILED;
	hr = (struct held_run){ .wr = { .spec = first, .fd = fd }, .orders = orders };
	cfg.output = first->capture;
	cfg.no_table = true;
	cfg.rec.duration_ns = first->duration_ns;
	cfg.rec.steps.name = NULL;
	log__set_quiet(true);
	code = live__open(live, &cfg, first->pids[0]);
	if (!code && !add_processes(&hr.wr))
		code = EXIT_FAILED;
	if (!code) {
		live__announce(live);
		send_report(&hr.wr);
		code = live->run_err || run__loop(live->run, take_order, &hr) ? EXIT_FAILED : EXIT_DONE;
	}
	if (!code)
		await_order(&hr);
	if (!hr.wanted) {
		live__free(live); /* nobody wants it: it is removed */
		return EXIT_FAILED;
	}
	return end_window(&hr.wr, seal_held(&hr));
}

/* ---- in ptbpf sample ---- */

static void close_answers(const int *fds)
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int sample_window__start(struct sample_window *w)
{
	pid_t parent = getpid();
	int fds[2], answers[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answers))
		answers[0] = answers[1] = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds)) {
		err = -errno;
		close_answers(answers);
		pr_error("cannot start window %llu: %s", (unsigned long long)w->spec.nr, errstr(err));
		return err;
	}
	fflush(NULL);
	w->pid = fork();
	if (!w->pid) {
		close(fds[0]);
		_exit(child_main(&w->spec, fds[1], answers[1], parent));
	}
	err = -errno;
	close(fds[1]);
	close(answers[1]);
	w->answers = answers[0];
	if (w->pid < 0) {
		close(fds[0]);
		close(answers[0]);
		pr_error("cannot start window %llu: %s", (unsigned long long)w->spec.nr, errstr(err));
		return err;
	}
	w->pipe = fds[0];
	w->pidfd = pid_hold__open(w->pid);
	return 0;
}

int sample_hold__start(struct sample_held *sp, const struct sample_window_spec *first)
{
	int fds[2] = { -1, -1 }, orders[2] = { -1, -1 }, err;
	pid_t parent = getpid(), pid = -1;

	if (!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) &&
	    !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, orders)) {
		fflush(NULL);
		pid = fork();
	}
	if (!pid) {
		close(fds[0]);
		close(orders[0]);
		_exit(hold_main(first, fds[1], orders[1], parent));
	}
	err = -errno;
	close(fds[1]);
	close(orders[1]);
	if (pid < 0) {
		close(fds[0]);
		close(orders[0]);
		pr_error("cannot hold what happens: %s", errstr(err));
		return err;
	}
	sp->pid = pid;
	sp->pidfd = pid_hold__open(pid);
	sp->pipe = fds[0];
	sp->orders = orders[0];
	return 0;
}

bool sample_held__lives(const struct sample_held *sp)
{
	return sp->pid && pid_hold__alive(sp->pidfd) && !stall__stuck_on(sp->pid);
}

bool sample_held__use(struct sample_held *sp, struct sample_window *w)
{
	if (!sample_held__lives(sp) || send(sp->orders, &w->spec, sizeof(w->spec),
					    MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(w->spec))
		return false;
	close(sp->orders);
	w->pid = sp->pid;
	w->pipe = sp->pipe;
	w->answers = -1;
	w->pidfd = sp->pidfd;
	sp->pid = 0;
	return true;
}

void sample_held__end(struct sample_held *sp)
{
	if (!sp->pid)
		return;
	close(sp->orders);
	kill(sp->pid, SIGTERM);
	stall__wait(sp->pid, NULL);
	close(sp->pipe);
	if (sp->pidfd >= 0)
		close(sp->pidfd);
	sp->pid = 0;
}

void sample_window__read(struct sample_window *w)
{
	struct sample_report r;

	while (read(w->pipe, &r, sizeof(r)) == sizeof(r))
		w->report = r;
	elf_child__receive_from(w->answers);
	for (uint32_t i = 0; i < w->report.failure_cnt && i < WINDOW_FAILURES_MAX; i++)
		plan_failures__add(&w->report.failures[i]); /* the next windows inherit them */
}

int sample_window__end(struct sample_window *w)
{
	int status = 0, err;

	sample_window__read(w);
	err = stall__wait(w->pid, &status);
	close(w->pipe);
	if (w->answers >= 0)
		close(w->answers);
	if (w->pidfd >= 0)
		close(w->pidfd);
	if (err == -EAGAIN)
		return EXIT_FAILED; /* reported */
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	pr_error("window %llu: its process was ended by signal %d", (unsigned long long)w->spec.nr,
		 WTERMSIG(status));
	return EXIT_FAILED;
}

const char *sample_window__threads(const struct sample_window_spec *spec, char *buf, size_t cap)
{
	size_t len = strlen(spec->capture), ptb = sizeof(".ptb") - 1;

	buf[0] = '\0';
	if (spec->samples && len > ptb)
		snprintf(buf, cap, "%.*s" WINDOW_THREADS, (int)(len - ptb), spec->capture);
	return buf;
}
