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
#include "base/proc_read.h"
#include "base/log.h"
#include "base/stall.h"
#include "base/vec.h"
#include "cli/cmd.h"
#include "export/mem_names.h"
#include "model/session.h"
#include "ptb_event.h"
#include "record/step_count.h"
#include "target/pid_hold.h"
#include "target/proc_info.h"

#define SELECT_EVERY_NS 5000000000ULL
/* A watch that ends sooner is tried again after a pause twice as long, at most this. */
#define STEADY_NS 60000000000ULL
#define RETRY_MAX_NS 600000000000ULL
#define STATE_EVERY_NS 1000000000ULL
#define REPORT_EVERY_NS 10000000000ULL
#define ADD_NS 100000000ULL     /* of a round, for processes that are added */
#define COST_FREE_NS 20000000.0 /* of a process, whatever the limit */
#define RING_BYTES (128u << 10) /* of each processor: some thousand annotations in 0.2 s */
#define NEVER_NS (1ULL << 62)   /* no step is awaited */

struct watch_order {        /* to the watch */
	pid_t pid;          /* 0: none */
	uint64_t chosen_ns; /* it began before */
	uint64_t again_ns;  /* its hang is an event again then; 0: it is to be followed */
	bool paused;
};

struct watch_report {      /* from it */
	uint64_t cost_ns;  /* run__cost_ns() so far */
	uint32_t followed; /* run__traced() */
	bool has_event;
	struct event event;
};

/* ---- in the process of the watch ---- */

struct waiting {
	pid_t pid;
	uint64_t chosen_ns;
};

struct watch_run {
	const struct sample_watch_cfg *cfg;
	int fd;
	struct run *run;
	struct event_watch *events;
	struct followed {
		pid_t pid;
		uint64_t added_ns, cost_ns; /* cost_ns: of hits, by an earlier process with its pid */
	} procs[EVENT_PROCS_MAX];
	uint32_t cnt, followed; /* followed: as last reported */
	struct waiting *queue;  /* those that are to be followed, too */
	uint32_t queue_cnt, queue_cap;
	bool full; /* reported */
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

static void add_target(struct watch_run *wr, pid_t pid, uint64_t chosen_ns)
{
	uint64_t cost = run__hits_cost_ns(wr->run, pid), now;
	int err = run__add_chosen(wr->run, pid, chosen_ns);

	if (err == -EAGAIN)
		pr_info("pid %d: steps are followed when it has loaded PyTorch", pid);
	else if (err)
		return; /* reported */
	now = clock__mono_ns();
	if (event_watch__add(wr->events, (uint32_t)pid, now))
		wr->procs[wr->cnt++] = (struct followed){ pid, now, cost };
	event_watch__disturbed(wr->events, now); /* attaching to one holds up the others */
}

static void enqueue(struct watch_run *wr, pid_t pid, uint64_t chosen_ns)
{
	if (vec_push(wr->queue, wr->queue_cnt, wr->queue_cap, (struct waiting){ pid, chosen_ns }))
		pr_warn("pid %d: its steps are not followed: %s", pid, errstr(-ENOMEM));
}

static void forget(struct watch_run *wr, uint32_t i)
{
	event_watch__remove(wr->events, (uint32_t)wr->procs[i].pid);
	wr->procs[i] = wr->procs[--wr->cnt];
}

/* One that has shown nothing to follow yields its place, and waits again. */
static bool make_room(struct watch_run *wr)
{
	uint64_t now = clock__mono_ns();
	uint32_t pid, i = 0;

	if (wr->cnt < EVENT_PROCS_MAX)
		return true;
	if (!wr->full)
		pr_warn("no more than %d processes are followed at the same time: others wait until one has ended, or nothing has come of it for a minute",
			EVENT_PROCS_MAX);
	wr->full = true;
	if (!event_watch__idle(wr->events, now, &pid))
		return false;
	while (wr->procs[i].pid != (pid_t)pid)
		i++;
	run__remove(wr->run, (pid_t)pid);
	forget(wr, i);
	enqueue(wr, (pid_t)pid, now);
	return true;
}

/* Those that wait, as far as there is room and the time allows: meanwhile the rings fill, and nothing is an event. */
static void add_waiting(struct watch_run *wr, uint64_t for_ns)
{
	uint64_t begin = clock__mono_ns();
	uint32_t taken = 0, cnt = wr->queue_cnt;

	while (taken < cnt && !cancel__pending() && make_room(wr)) {
		struct waiting next = wr->queue[taken++];

		if (!run__has(wr->run, next.pid))
			add_target(wr, next.pid, next.chosen_ns);
		if (clock__mono_ns() - begin >= for_ns)
			break;
	}
	wr->queue_cnt -= taken;
	if (taken)
		memmove(wr->queue, wr->queue + taken, wr->queue_cnt * sizeof(*wr->queue));
}

static void read_orders(struct watch_run *wr)
{
	struct watch_order order;

	while (recv(wr->fd, &order, sizeof(order), MSG_DONTWAIT) == sizeof(order)) {
		event_watch__pause(wr->events, order.paused, clock__mono_ns());
		if (order.again_ns)
			event_watch__again(wr->events, (uint32_t)order.pid, order.again_ns);
		else if (order.pid)
			enqueue(wr, order.pid, order.chosen_ns);
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
		if (run__has(wr->run, wr->procs[i].pid)) {
			i++;
			continue;
		}
		forget(wr, i);
	}
	while (event_watch__wants_memory(wr->events, now, &pid))
		event_watch__memory(wr->events, pid, resident((pid_t)pid), now);
	event_watch__tick(wr->events, now);
	while (event_watch__silent(wr->events, now, &pid))
		pr_warn("pid %u: no step has ended in it so far (--step-on, PTBPF_STEP_ON): what --open-on says of steps, memory and hangs is not evaluated",
			pid);
}

/*
 * What the watch costs the process that it costs most leaves less to the windows of all of them. So none may cost more than half of the limit: a loop of
 * annotations that would is not followed any more.
 */
static void drop_costly(struct watch_run *wr, uint64_t now)
{
	double share = wr->cfg->max_overhead / 2;

	for (uint32_t i = 0; i < wr->cnt && share > 0;) {
		const struct followed *f = &wr->procs[i];
		pid_t pid = f->pid;
		double cost = (double)run__hits_cost_ns(wr->run, pid) - (double)f->cost_ns;

		if (cost <= share * (double)(now - f->added_ns) + COST_FREE_NS) {
			i++;
			continue;
		}
		pr_warn("pid %d: --open-on does not follow it any more: its annotations are so many that this costs more than half of --max-overhead",
			pid);
		run__remove(wr->run, pid);
		forget(wr, i);
	}
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
	drop_costly(wr, now);
	add_waiting(wr, ADD_NS);
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

/* Of a recording that follows steps and probes nothing else. */
static struct record_opts watch_opts(const struct run_cfg *run, const struct step_hooks *hooks)
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

static int follow_steps(struct watch_run *wr, const struct proc_list *procs, uint64_t chosen_ns)
{
	const struct step_hooks hooks = {
		.arg = wr, .ended = on_step, .annotation = on_annotation, .lost = on_loss, .oom = on_oom
	};
	const struct event_rules *rules = wr->cfg->rules;
	struct record_opts opts = watch_opts(wr->cfg->run, &hooks);
	int err;

	opts.steps.event = rules->annotation[0] ? rules->annotation : NULL;
	opts.steps.oom = rules->oom;
	err = run__open(&opts, NULL, &wr->run);
	if (err)
		return err;
	for (uint32_t i = 0; i < procs->cnt; i++)
		enqueue(wr, procs->items[i].pid, chosen_ns);
	while (wr->queue_cnt && !wr->cnt && !cancel__pending())
		add_waiting(wr, 0);
	if (wr->cnt) {
		run__warm_up(wr->run);
		err = run__loop(wr->run, tick, wr);
		report(wr); /* what it has cost */
	}
	run__free(wr->run);
	free(wr->queue);
	return err;
}

/* Own process group: Ctrl-C goes to ptbpf alone. */
static int child_main(const struct sample_watch_cfg *cfg, const struct sample_watch *w, int fd, pid_t parent)
{
	struct watch_run wr = { .cfg = cfg, .fd = fd };
	int err;

	setpgid(0, 0);
	cfg->in_child(cfg->arg);
	stall__watch(EXIT_FAILED);
	if (cancel__install() || prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
		return EXIT_FAILED;
	log__set_quiet(true);
	wr.events = event_watch__new(cfg->rules);
	err = wr.events ? follow_steps(&wr, &w->targets, w->chosen_ns) : -ENOMEM;
	event_watch__free(wr.events);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* ---- in ptbpf sample ---- */

void sample_watch__init(struct sample_watch *w)
{
	*w = (struct sample_watch){ .fd = -1, .pidfd = -1, .pause_ns = SELECT_EVERY_NS };
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
		_exit(child_main(cfg, w, fds[1], parent));
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
	w->start_ns = clock__mono_ns();
}

/* False: it ends, or is busy. */
static bool send_order(const struct sample_watch *w, pid_t pid, uint64_t again_ns)
{
	struct watch_order order;

	memset(&order, 0, sizeof(order));
	order.pid = pid;
	order.chosen_ns = w->chosen_ns;
	order.again_ns = again_ns;
	order.paused = w->paused;
	return send(w->fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(order);
}

void sample_watch__postpone(struct sample_watch *w, uint64_t now_ns)
{
	w->next_ns = now_ns + SELECT_EVERY_NS;
}

void sample_watch__follow(struct sample_watch *w, const struct sample_watch_cfg *cfg,
			  struct proc_list *procs, uint64_t now_ns)
{
	bool any = false;

	sample_watch__postpone(w, now_ns);
	proc_list__replace(&w->targets, procs);
	w->chosen_ns = clock__mono_ns();
	for (uint32_t i = 0; i < w->targets.cnt; i++) {
		struct proc_item *p = &w->targets.items[i];

		if (p->turn || (w->pid && !send_order(w, p->pid, 0)))
			continue; /* known, or next time */
		p->turn = 1;
		any = true;
	}
	/* those that the last one did not follow, too: it may have ended before it read the order */
	if (w->pid || !w->targets.cnt || (!any && now_ns < w->retry_ns))
		return;
	start(w, cfg);
	if (w->pid && w->paused)
		send_order(w, 0, 0);
}

void sample_watch__pause(struct sample_watch *w, bool paused)
{
	if (w->paused == paused)
		return;
	w->paused = paused;
	if (w->pid && !send_order(w, 0, 0))
		w->paused = !paused; /* next time */
}

void sample_watch__again(const struct sample_watch *w, pid_t pid, uint64_t ns)
{
	if (w->pid && !send_order(w, pid, ns))
		pr_debug("the hang of pid %d is not reported again", pid);
}

static void take_end(struct sample_watch *w)
{
	uint64_t now = clock__mono_ns();
	int status = 0;

	stall__wait(w->pid, &status);
	if (WIFSIGNALED(status))
		pr_error("the process that follows steps was ended by signal %d", WTERMSIG(status));
	if (now > w->start_ns + STEADY_NS)
		w->pause_ns = SELECT_EVERY_NS;
	w->retry_ns = now + w->pause_ns;
	w->pause_ns = w->pause_ns * 2 < RETRY_MAX_NS ? w->pause_ns * 2 : RETRY_MAX_NS;
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
	ssize_t n = 1;

	if (!w->pid)
		return;
	while (!w->has_event && (n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT)) == sizeof(r)) {
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
	do {
		w->has_event = false;
		sample_watch__read(w);
	} while (w->has_event);
	if (w->pid)
		take_end(w);
	proc_list__free(&w->targets);
	w->next_ns = w->retry_ns = 0;
}
