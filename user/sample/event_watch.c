/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See event_watch.h. */
#include "sample/event_watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define THREADS_MAX 4 /* of a process, that make steps; those of more are not judged */
#define FIRST_STEPS 3 /* of a thread, that are not judged: ptbpf has just attached */
/* of a process, until its memory has the level that growth is measured from */
#define LEVEL_STEPS 10
#define MEMORY_EVERY_NS 1000000000ULL
#define SILENT_NS 60000000000ULL
#define EVENTS_MAX EVENT_PROCS_MAX /* that wait to be taken */

struct thread {
	uint32_t tid;
	uint32_t steps; /* those that are not judged included */
	struct step_history history;
};

struct proc {
	uint32_t pid;
	struct thread threads[THREADS_MAX];
	uint32_t thread_cnt;
	uint64_t added_ns, last_ns; /* last_ns: of its last step or annotation, 0: none yet */
	uint64_t steps;
	uint64_t level, memory_ns; /* level 0: not known yet */
	bool stepped;              /* since its memory was read */
	bool hangs, silent;        /* said */
	uint64_t again_ns;         /* a hang is no event before */
};

struct event_watch {
	struct event_rules rules;
	struct proc *procs;
	uint32_t cnt;
	uint64_t since_ns; /* steps that began before do not count */
	bool paused;
	uint64_t dropped; /* events for which there was no room */
	uint32_t event_cnt;
	/* to be taken, also of processes that have ended; of each one of a kind */
	struct event events[EVENTS_MAX];
};

const char *event__name(enum event_kind kind)
{
	static const char *const names[] = {
#define X(name, text) text,
		EVENT_KINDS(X)
#undef X
	};

	return names[kind];
}

struct event_watch *event_watch__new(const struct event_rules *rules)
{
	struct event_watch *w = xcalloc(1, sizeof(*w));

	w->rules = *rules;
	w->procs = xcalloc(EVENT_PROCS_MAX, sizeof(*w->procs));
	return w;
}

void event_watch__free(struct event_watch *w)
{
	if (!w)
		return;
	free(w->procs);
	free(w);
}

static struct proc *find(struct event_watch *w, uint32_t pid)
{
	for (uint32_t i = 0; i < w->cnt; i++)
		if (w->procs[i].pid == pid)
			return &w->procs[i];
	return NULL;
}

bool event_watch__add(struct event_watch *w, uint32_t pid, uint64_t now_ns)
{
	if (find(w, pid))
		return true;
	if (w->cnt == EVENT_PROCS_MAX)
		return false;
	w->procs[w->cnt++] = (struct proc){ .pid = pid, .added_ns = now_ns };
	return true;
}

void event_watch__remove(struct event_watch *w, uint32_t pid)
{
	struct proc *p = find(w, pid);

	if (p)
		*p = w->procs[--w->cnt];
}

bool event_watch__idle(const struct event_watch *w, uint64_t now_ns, uint32_t *pid)
{
	const struct proc *oldest = NULL;

	for (uint32_t i = 0; i < w->cnt; i++)
		if (!w->procs[i].last_ns && (!oldest || w->procs[i].added_ns < oldest->added_ns))
			oldest = &w->procs[i];
	if (!oldest || now_ns < oldest->added_ns + SILENT_NS)
		return false;
	*pid = oldest->pid;
	return true;
}

/* Where the text of the event belongs; NULL: events are not wanted now, or there is one of this
 * kind and process. */
static struct event *put(struct event_watch *w, enum event_kind kind, uint32_t pid, uint64_t ts_ns)
{
	struct event *ev = w->events;

	if (w->paused)
		return NULL;
	for (; ev < w->events + w->event_cnt; ev++)
		if (ev->kind == kind && ev->pid == pid) {
			ev->more++;
			return NULL;
		}
	if (w->event_cnt == EVENTS_MAX) {
		w->dropped++;
		return NULL;
	}
	w->event_cnt++;
	*ev = (struct event){ .kind = kind, .pid = pid, .ts_ns = ts_ns };
	return ev;
}

bool event_watch__any(const struct event_watch *w)
{
	return w->event_cnt > 0;
}

bool event_watch__take(struct event_watch *w, struct event *ev)
{
	uint32_t next = 0;

	for (uint32_t i = 1; i < w->event_cnt; i++)
		if (w->events[i].kind > w->events[next].kind)
			next = i;
	if (!w->event_cnt)
		return false;
	*ev = w->events[next];
	ev->more += w->dropped;
	w->dropped = 0;
	w->events[next] = w->events[--w->event_cnt];
	return true;
}

static struct thread *find_thread(struct proc *p, uint32_t tid)
{
	for (uint32_t i = 0; i < p->thread_cnt; i++)
		if (p->threads[i].tid == tid)
			return &p->threads[i];
	if (p->thread_cnt == THREADS_MAX)
		return NULL;
	p->threads[p->thread_cnt] = (struct thread){ .tid = tid };
	return &p->threads[p->thread_cnt++];
}

/* With two more digits than its unit, as people say it: 0.61 s, 31.5 ms. */
static void time_text(uint64_t ns, char *buf, size_t cap)
{
	if (ns >= 100000000)
		snprintf(buf, cap, "%.2f s", (double)ns / 1e9);
	else
		snprintf(buf, cap, "%.3g ms", (double)ns / 1e6);
}

static void judge(struct event_watch *w, const struct proc *p, struct thread *t, uint64_t ns,
		  uint64_t end_ns)
{
	char took[32], median[32];
	struct event *ev;

	if (w->rules.slow > 0 && step_history__is_slow(&t->history, ns, w->rules.slow) &&
	    (ev = put(w, EVENT_SLOW, p->pid, end_ns))) {
		time_text(ns, took, sizeof(took));
		time_text(step_history__median(&t->history), median, sizeof(median));
		snprintf(ev->text, sizeof(ev->text), "step of %s against a median of %s", took,
			 median);
	}
	step_history__add(&t->history, ns);
}

static void goes_on(struct proc *p, uint64_t ts_ns)
{
	p->last_ns = ts_ns;
	p->hangs = false;
	p->again_ns = 0;
}

void event_watch__step(struct event_watch *w, uint32_t pid, uint32_t tid, uint64_t begin_ns,
		       uint64_t end_ns)
{
	struct proc *p = find(w, pid);
	struct thread *t;

	if (!p || w->paused)
		return;
	goes_on(p, end_ns);
	p->steps++;
	p->stepped = true;
	t = find_thread(p, tid);
	if (t && t->steps++ >= FIRST_STEPS && begin_ns && begin_ns >= w->since_ns &&
	    begin_ns >= p->added_ns && end_ns > begin_ns)
		judge(w, p, t, end_ns - begin_ns, end_ns);
}

void event_watch__annotation(struct event_watch *w, uint32_t pid, bool named, uint64_t ts_ns)
{
	struct proc *p = find(w, pid);
	struct event *ev;

	if (!p || w->paused)
		return;
	goes_on(p, ts_ns);
	if (named && (ev = put(w, EVENT_ANNOTATION, pid, ts_ns)))
		snprintf(ev->text, sizeof(ev->text), "'%s' began", w->rules.annotation);
}

/* As PyTorch's own message says it: 2.50 GiB. */
static void bytes_text(uint64_t bytes, char *buf, size_t cap)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t unit = 0;

	while (v >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		v /= 1024;
		unit++;
	}
	snprintf(buf, cap, "%.*f %s", unit ? 2 : 0, v, units[unit]);
}

void event_watch__oom(struct event_watch *w, uint32_t pid, const char *device, uint64_t bytes,
		      uint64_t allocated, uint64_t reserved, uint64_t ts_ns)
{
	char want[32], used[32], held[32];
	struct event *ev = find(w, pid) && w->rules.oom ? put(w, EVENT_OOM, pid, ts_ns) : NULL;
	int n;

	if (!ev)
		return;
	bytes_text(bytes, want, sizeof(want));
	n = snprintf(ev->text, sizeof(ev->text), "%s: %s could not be allocated", device, want);
	if (!allocated && !reserved)
		return;
	bytes_text(allocated, used, sizeof(used));
	bytes_text(reserved, held, sizeof(held));
	snprintf(ev->text + n, sizeof(ev->text) - (size_t)n,
		 "; PyTorch has %s in use of %s reserved there", used, held);
}

void event_watch__disturbed(struct event_watch *w, uint64_t now_ns)
{
	w->since_ns = now_ns;
}

void event_watch__pause(struct event_watch *w, bool paused, uint64_t now_ns)
{
	if (w->paused && !paused) { /* what happened meanwhile was not seen */
		w->since_ns = now_ns;
		for (uint32_t i = 0; i < w->cnt; i++)
			if (w->procs[i].last_ns)
				w->procs[i].last_ns = now_ns;
	}
	w->paused = paused;
}

bool event_watch__wants_memory(struct event_watch *w, uint64_t now_ns, uint32_t *pid)
{
	for (uint32_t i = 0; i < w->cnt && w->rules.grows && !w->paused; i++) {
		struct proc *p = &w->procs[i];

		if (p->stepped && p->steps >= LEVEL_STEPS &&
		    now_ns >= p->memory_ns + MEMORY_EVERY_NS) {
			p->stepped = false;
			p->memory_ns = now_ns;
			*pid = p->pid;
			return true;
		}
	}
	return false;
}

void event_watch__memory(struct event_watch *w, uint32_t pid, uint64_t resident, uint64_t now_ns)
{
	struct proc *p = find(w, pid);
	struct event *ev;

	if (!p || !resident)
		return;
	if (!p->level) {
		p->level = resident;
	} else if (resident >= p->level + w->rules.grows) {
		ev = put(w, EVENT_GROWS, pid, now_ns);
		if (!ev)
			return;
		snprintf(ev->text, sizeof(ev->text), "resident memory of %.1f MiB against %.1f MiB",
			 (double)resident / 1048576, (double)p->level / 1048576);
		p->level = resident; /* the next one when it has grown as much again */
	}
}

void event_watch__tick(struct event_watch *w, uint64_t now_ns)
{
	for (uint32_t i = 0; i < w->cnt && w->rules.hang_ns && !w->paused; i++) {
		struct proc *p = &w->procs[i];
		struct event *ev;

		if (p->hangs || p->steps < FIRST_STEPS || now_ns < p->last_ns + w->rules.hang_ns ||
		    now_ns < p->again_ns)
			continue;
		ev = put(w, EVENT_HANG, p->pid, now_ns);
		if (!ev)
			continue;
		p->hangs = true;
		snprintf(ev->text, sizeof(ev->text),
			 "no step ended and no annotation began for %.1f s",
			 (double)(now_ns - p->last_ns) / 1e9);
	}
}

void event_watch__again(struct event_watch *w, uint32_t pid, uint64_t ns)
{
	struct proc *p = find(w, pid);

	if (!p)
		return;
	p->hangs = false;
	p->again_ns = ns;
}

bool event_watch__silent(struct event_watch *w, uint64_t now_ns, uint32_t *pid)
{
	bool of_steps = w->rules.slow > 0 || w->rules.grows || w->rules.hang_ns;

	for (uint32_t i = 0; i < w->cnt && of_steps && !w->paused; i++) {
		struct proc *p = &w->procs[i];

		if (p->silent || p->steps || now_ns < p->added_ns + SILENT_NS)
			continue;
		p->silent = true;
		*pid = p->pid;
		return true;
	}
	return false;
}
