/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_watch.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "export/mem_names.h"
#include "model/session.h"
#include "ptb_event.h"
#include "record/step_count.h"
#include "target/pid_hold.h"
#include "target/proc_info.h"

#define SELECT_EVERY_NS 5000000000ULL
#define STATE_EVERY_NS 1000000000ULL
#define REPORT_EVERY_NS 10000000000ULL
#define RING_BYTES (128u << 10) /* of each processor: some thousand annotations in 0.2 s */
#define NEVER_NS (1ULL << 62)   /* no step is awaited */

struct watch_order { /* to the watch */
	pid_t add;   /* 0: none */
	bool paused;
};

struct watch_report {      /* from it */
	uint64_t cost_ns;  /* run__cost_ns() so far */
	uint32_t followed; /* run__traced() */
	bool has_event;
	struct event event;
};

/* ---- in the process of the watch ---- */

struct watch_run {
	const struct sample_watch_cfg *cfg;
	int fd;
	struct run *run;
	struct event_watch *events;
	pid_t pids[EVENT_PROCS_MAX];
	uint32_t cnt, followed; /* followed: as last reported */
	uint64_t next_state_ns, next_report_ns;
};

static void on_step(void *arg, const struct step_end *e)
{
	struct watch_run *wr = arg;

	event_watch__step(wr->events, e->tgid, e->tid, e->begin_ns, e->end_ns);
}

static void on_annotation(void *arg, uint32_t tgid, bool named, uint64_t ts_ns)
{
	struct watch_run *wr = arg;

	event_watch__annotation(wr->events, tgid, named, ts_ns);
}

static void on_loss(void *arg)
{
	struct watch_run *wr = arg;

	event_watch__disturbed(wr->events, clock__mono_ns());
}

static void on_oom(void *arg, uint32_t tgid, const struct ptb_mem_report *r)
{
	struct watch_run *wr = arg;

	event_watch__oom(wr->events, tgid, mem_name__device(r->device_type, r->device_index).text,
			 r->bytes > 0 ? (uint64_t)r->bytes : 0, r->allocated, r->reserved, r->h.ts_ns);
}

static void add_target(struct watch_run *wr, pid_t pid)
{
	int err;

	event_watch__disturbed(wr->events, clock__mono_ns()); /* attaching to one holds up the others */
	err = run__add(wr->run, pid);
	if (err == -EAGAIN)
		pr_info("pid %d: steps are followed when it has loaded PyTorch", pid);
	else if (err)
		return; /* reported */
	if (wr->cnt == EVENT_PROCS_MAX || !event_watch__add(wr->events, (uint32_t)pid, clock__mono_ns()))
		pr_warn("pid %d: its steps are not followed: no more than %d processes are", pid,
			EVENT_PROCS_MAX);
	else
		wr->pids[wr->cnt++] = pid;
	event_watch__disturbed(wr->events, clock__mono_ns());
}

static void read_orders(struct watch_run *wr)
{
	struct watch_order order;

	while (recv(wr->fd, &order, sizeof(order), MSG_DONTWAIT) == sizeof(order)) {
		event_watch__pause(wr->events, order.paused, clock__mono_ns());
		if (order.add)
			add_target(wr, order.add);
	}
}

/* Resident bytes; 0: not known. */
static uint64_t resident(pid_t pid)
{
	char *text = NULL, *end;
	uint64_t pages = 0;
	size_t len;

	if (proc_file__read(pid, 0, "statm", &text, &len))
		return 0;
	strtoull(text, &end, 10);
	pages = strtoull(end, NULL, 10);
	free(text);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void look_at_processes(struct watch_run *wr, uint64_t now)
{
	uint32_t pid;

	for (uint32_t i = 0; i < wr->cnt;) {
		if (run__has(wr->run, wr->pids[i])) {
			i++;
			continue;
		}
		event_watch__remove(wr->events, (uint32_t)wr->pids[i]);
		wr->pids[i] = wr->pids[--wr->cnt];
	}
	while (event_watch__wants_memory(wr->events, now, &pid))
		event_watch__memory(wr->events, pid, resident((pid_t)pid), now);
	event_watch__tick(wr->events, now);
	while (event_watch__silent(wr->events, now, &pid))
		pr_warn("pid %u: no step has ended in it so far (--step-on, PTBPF_STEP_ON): what --open-on says of steps, memory and hangs is not evaluated",
			pid);
}

static void report(struct watch_run *wr)
{
	struct watch_report r;

	memset(&r, 0, sizeof(r));
	r.cost_ns = run__cost_ns(wr->run);
	r.followed = wr->followed = run__traced(wr->run);
	r.has_event = event_watch__take(wr->events, &r.event);
	do
		if (send(wr->fd, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			pr_debug("a report of the watch is lost: %s", errstr(errno));
	while ((r.has_event = event_watch__take(wr->events, &r.event)));
}

static void tick(void *arg, struct run *run)
{
	struct watch_run *wr = arg;
	uint64_t now = clock__mono_ns();

	(void)run;
	read_orders(wr);
	if (now >= wr->next_state_ns) {
		look_at_processes(wr, now);
		wr->next_state_ns = now + STATE_EVERY_NS;
	}
	if (event_watch__any(wr->events) || now >= wr->next_report_ns ||
	    wr->followed != run__traced(wr->run)) {
		report(wr);
		wr->next_report_ns = now + REPORT_EVERY_NS;
	}
}

struct record_opts sample_watch__opts(const struct run_cfg *run, const struct step_hooks *hooks)
{
	return (struct record_opts){
		.ops = true,
		.agent = AGENT_OFF,
		.ring_bytes = RING_BYTES,
		.max_memory = run->rec.max_memory,
		.perf_uprobes = run->rec.perf_uprobes,
		.no_cache = run->rec.no_cache,
		.steps = { .name = run->step_on ? run->step_on : SESSION_STEP_ON,
			   .ops = run->step_on != NULL,
			   .only = true,
			   .warmup = UINT32_MAX,
			   .active = 1,
			   .timeout_ns = NEVER_NS,
			   .hooks = hooks },
	};
}

static int follow_steps(struct watch_run *wr, const pid_t *pids, uint32_t cnt)
{
	const struct step_hooks hooks = {
		.arg = wr, .ended = on_step, .annotation = on_annotation, .lost = on_loss, .oom = on_oom
	};
	const struct event_rules *rules = wr->cfg->rules;
	struct record_opts opts = sample_watch__opts(wr->cfg->run, &hooks);
	int err;

	opts.steps.event = rules->annotation[0] ? rules->annotation : NULL;
	opts.steps.oom = rules->oom;
	err = run__open(&opts, NULL, &wr->run);
	if (err)
		return err;
	for (uint32_t i = 0; i < cnt && !cancel__pending(); i++)
		add_target(wr, pids[i]);
	if (wr->cnt) {
		run__warm_up(wr->run);
		err = run__loop(wr->run, tick, wr);
		report(wr); /* what it has cost */
	}
	run__free(wr->run);
	return err;
}

/* Own process group: Ctrl-C goes to ptbpf alone. */
static int child_main(const struct sample_watch_cfg *cfg, const pid_t *pids, uint32_t cnt, int fd,
		      pid_t parent)
{
	struct watch_run wr = { .cfg = cfg, .fd = fd };
	int err;

	setpgid(0, 0);
	cfg->in_child(cfg->arg);
	if (cancel__install() || prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
		return EXIT_FAILED;
	log__set_quiet(true);
	wr.events = event_watch__new(cfg->rules);
	err = wr.events ? follow_steps(&wr, pids, cnt) : -ENOMEM;
	event_watch__free(wr.events);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* ---- in ptbpf sample ---- */

void sample_watch__init(struct sample_watch *w)
{
	*w = (struct sample_watch){ .fd = -1, .pidfd = -1 };
}

bool sample_watch__due(const struct sample_watch *w, uint64_t now_ns, uint64_t *in_ns)
{
	*in_ns = w->next_ns > now_ns ? w->next_ns - now_ns : 0;
	return !*in_ns;
}

static void start(struct sample_watch *w, const struct sample_watch_cfg *cfg)
{
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		pr_error("cannot follow steps: %s", errstr(errno));
		return;
	}
	fflush(NULL);
	w->pid = fork();
	if (!w->pid) {
		close(fds[0]);
		_exit(child_main(cfg, w->targets, w->target_cnt, fds[1], parent));
	}
	close(fds[1]);
	if (w->pid < 0) {
		pr_error("cannot follow steps: %s", errstr(errno));
		close(fds[0]);
		w->pid = 0;
		return;
	}
	w->fd = fds[0];
	w->pidfd = pid_hold__open(w->pid);
	w->cost_ns = 0;
}

/* False: it ends, or is busy. */
static bool send_order(const struct sample_watch *w, pid_t add)
{
	struct watch_order order;

	memset(&order, 0, sizeof(order));
	order.add = add;
	order.paused = w->paused;
	return send(w->fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(order);
}

static bool is_among(pid_t pid, const pid_t *pids, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

void sample_watch__follow(struct sample_watch *w, const struct sample_watch_cfg *cfg,
			  const pid_t *pids, uint32_t cnt, uint64_t now_ns)
{
	bool any = false;

	w->next_ns = now_ns + SELECT_EVERY_NS;
	for (uint32_t i = 0; i < w->target_cnt;)
		if (is_among(w->targets[i], pids, cnt))
			i++;
		else
			w->targets[i] = w->targets[--w->target_cnt];
	for (uint32_t i = 0; i < cnt && w->target_cnt < PROC_SELECT_MAX; i++) {
		if (is_among(pids[i], w->targets, w->target_cnt))
			continue;
		if (w->pid && !send_order(w, pids[i]))
			continue; /* next time */
		w->targets[w->target_cnt++] = pids[i];
		any = true;
	}
	if (!any || w->pid)
		return;
	start(w, cfg);
	if (w->pid && w->paused)
		send_order(w, 0);
}

void sample_watch__pause(struct sample_watch *w, bool paused)
{
	if (w->paused == paused)
		return;
	w->paused = paused;
	if (w->pid && !send_order(w, 0))
		w->paused = !paused; /* next time */
}

static void take_end(struct sample_watch *w)
{
	int status = 0;

	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status)) {
		pr_error("the process that follows steps was ended by signal %d", WTERMSIG(status));
		w->target_cnt = 0; /* another one begins anew */
	}
	close(w->fd);
	if (w->pidfd >= 0)
		close(w->pidfd);
	w->spent_ns += w->cost_ns;
	w->cost_ns = 0;
	w->pid = 0;
	w->followed = 0;
	w->fd = w->pidfd = -1;
}

void sample_watch__read(struct sample_watch *w)
{
	struct watch_report r;
	ssize_t n;

	if (!w->pid)
		return;
	while ((n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT)) == sizeof(r)) {
		w->cost_ns = r.cost_ns;
		if (r.followed > w->followed)
			pr_info("following the steps of %u process%s", r.followed,
				r.followed == 1 ? "" : "es");
		w->followed = r.followed;
		if (r.has_event) {
			w->event = r.event;
			w->has_event = true;
		}
	}
	if (!n)
		take_end(w);
}

bool sample_watch__take(struct sample_watch *w, struct event *ev)
{
	bool any = w->has_event;

	*ev = w->event;
	w->has_event = false;
	return any;
}

void sample_watch__stop(struct sample_watch *w)
{
	if (!w->pid)
		return;
	kill(w->pid, SIGTERM);
	sample_watch__read(w);
	if (w->pid)
		take_end(w);
	w->target_cnt = 0;
	w->next_ns = 0;
	w->has_event = false;
}
