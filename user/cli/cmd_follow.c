/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf follow: started by `ptbpf sample --open-on`, follows the steps of the targets while no
 * window is open, and reports what is to open one. It probes annotations, what ends a step and what
 * reports that there is no memory, and nothing else.
 *
 * Lines that it reads (--notes-fd): "follow PID NS" (a process that began before that), "again PID
 * NS" (its hang is an event again then), "pause" and "resume". Lines that it writes
 * (--progress-fd): "following" and "happened".
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/guards.h"
#include "base/log.h"
#include "base/proc_read.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/live.h"
#include "cli/progress.h"
#include "export/texts.h"
#include "model/session.h"
#include "ptb_event.h"
#include "sample/event_watch.h"
#include "steps/step_count.h"

#define STATE_EVERY_NS 1000000000ULL
#define REPORT_EVERY_NS 10000000000ULL
#define ADD_NS 100000000ULL     /* of a round, for processes that are added */
#define COST_FREE_NS 20000000.0 /* of a process, whatever the limit */
#define RING_BYTES (128u << 10) /* of each processor: some thousand annotations in 0.2 s */
#define NEVER_NS (1ULL << 62)   /* no step is awaited */

struct follow_cfg {
	struct run_cfg run; /* first: rows of options that commands share have offsets in it */
	const char *open_on, *max_overhead;
};

static const struct opt_def follow_opts[] = {
	{ OPT_STR, 0, "open-on", offsetof(struct follow_cfg, open_on), "LIST",
	  "events, as of ptbpf sample" },
	{ OPT_STR, 0, "max-overhead", offsetof(struct follow_cfg, max_overhead), "PERCENT",
	  "likewise" },
	{ OPT_INT, 0, "progress-fd", offsetof(struct run_cfg, progress_fd), "N",
	  "lines of JSON go there" },
	{ OPT_INT, 0, "notes-fd", offsetof(struct run_cfg, notes_fd), "N",
	  "lines of what is to be done" },
	STEP_OPTS,
	SOURCE_OPTS,
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage follow_usage = {
	.name = "follow",
	.synopsis = "--open-on LIST --progress-fd N --notes-fd N",
	.summary = "Started by ptbpf sample.",
	.opts = follow_opts,
};

struct orders { /* what has been read of them */
	char buf[4096];
	size_t len;
};

struct waiting {
	pid_t pid;
	uint64_t chosen_ns;
};

struct watch_run {
	const struct follow_cfg *cfg;
	struct progress progress;
	struct orders orders;
	double max_overhead; /* a share of the time; 0: no limit */
	struct run *run;
	struct event_rules rules;
	struct event_watch *events;
	struct followed {
		pid_t pid;
		/* cost_ns: of hits, by an earlier process with its pid */
		uint64_t added_ns, cost_ns;
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
			 r->bytes > 0 ? (uint64_t)r->bytes : 0, r->allocated, r->reserved,
			 r->h.ts_ns);
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
	vec_push(wr->queue, wr->queue_cnt, wr->queue_cap, (struct waiting){ pid, chosen_ns });
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

/* Those that wait, as far as there is room and the time allows: meanwhile the rings fill, and
 * nothing is an event. */
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

static void take_order(struct watch_run *wr, const char *line)
{
	uint64_t ns;
	pid_t pid;

	if (sscanf(line, "follow %d %" SCNu64, &pid, &ns) == 2)
		enqueue(wr, pid, ns);
	else if (sscanf(line, "again %d %" SCNu64, &pid, &ns) == 2)
		event_watch__again(wr->events, (uint32_t)pid, ns);
	else
		event_watch__pause(wr->events, !strcmp(line, "pause"), clock__mono_ns());
}

static void read_orders(struct watch_run *wr)
{
	struct orders *o = &wr->orders;
	ssize_t n;
	char *end;

	while ((n = read(wr->cfg->run.notes_fd, o->buf + o->len, sizeof(o->buf) - o->len - 1)) >
	       0) {
		o->len += (size_t)n;
		o->buf[o->len] = '\0';
		while ((end = strchr(o->buf, '\n'))) {
			*end = '\0';
			take_order(wr, o->buf);
			o->len -= (size_t)(end + 1 - o->buf);
			memmove(o->buf, end + 1, o->len + 1);
		}
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
 * What the watch costs the process that it costs most leaves less to the windows of all of them. So
 * none may cost more than half of the limit: a loop of annotations that would is not followed any
 * more.
 */
static void drop_costly(struct watch_run *wr, uint64_t now)
{
	double share = wr->max_overhead / 2;

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
	struct event ev;

	wr->followed = run__traced(wr->run);
	progress__following(&wr->progress, wr->followed, run__cost_ns(wr->run));
	while (event_watch__take(wr->events, &ev))
		progress__event(&wr->progress, &ev);
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

static int follow_steps(struct watch_run *wr)
{
	const struct step_hooks hooks = { .arg = wr, .ended = on_step, .lost = on_loss };
	const struct run_cfg *run = &wr->cfg->run;
	const struct record_opts opts = {
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
			   .event = wr->rules.annotation[0] ? wr->rules.annotation : NULL,
			   .hooks = &hooks,
			   .annotation = on_annotation,
			   .oom = wr->rules.oom ? on_oom : NULL,
			   .arg = wr },
	};
	struct pollfd p[] = { { .fd = run->notes_fd, .events = POLLIN },
			      { .fd = cancel__fd(), .events = POLLIN } };
	int err = run__open(&opts, NULL, &wr->run);

	if (err)
		return err;
	while (!cancel__pending() && poll(p, 2, -1) < 0 && errno == EINTR)
		;
	read_orders(wr);
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

int cmd_follow(int argc, char **argv)
{
	struct follow_cfg cfg = { .run = { .quiet = true } };
	struct watch_run wr = { .cfg = &cfg };
	int n = opts__parse(&follow_usage, &cfg, argc, argv, NULL), err;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (!cfg.open_on || !cfg.run.notes_fd || live__check(&cfg.run) ||
	    event_rules__parse(cfg.open_on, &wr.rules) ||
	    (cfg.max_overhead && quantity__percent(cfg.max_overhead, &wr.max_overhead)) ||
	    progress__open(&wr.progress, cfg.run.progress_fd) ||
	    fcntl(cfg.run.notes_fd, F_SETFL, O_NONBLOCK))
		return EXIT_USAGE;
	if (cfg.run.progress_fd)
		stall__tell(cfg.run.progress_fd);
	stall__watch(EXIT_FAILED);
	wr.events = event_watch__new(&wr.rules);
	err = follow_steps(&wr);
	event_watch__free(wr.events);
	return err ? EXIT_FAILED : EXIT_DONE;
}
