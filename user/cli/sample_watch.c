/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See sample_watch.h. */
#define LOG_DOMAIN "sample"
#include "cli/sample_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define SELECT_EVERY_NS 5000000000ULL
/* A watch that ends sooner is tried again after a pause twice as long, at most this. */
#define STEADY_NS 60000000000ULL
#define RETRY_MAX_NS 600000000000ULL
#define END_POLL_MS 5

void sample_watch__init(struct sample_watch *w)
{
	*w = (struct sample_watch){ .pause_ns = SELECT_EVERY_NS };
}

bool sample_watch__due(const struct sample_watch *w, uint64_t now_ns, uint64_t *in_ns)
{
	*in_ns = w->next_ns > now_ns ? w->next_ns - now_ns : 0;
	return !*in_ns;
}

static void start(struct sample_watch *w, const struct words *args)
{
	struct words cmd = { .cnt = 0 };
	int err;

	words__add(&cmd, "ptbpf");
	words__add(&cmd, "follow");
	words__copy(&cmd, args);
	err = sample_child__start(&w->child, &cmd, -1);
	words__free(&cmd);
	if (err) {
		pr_error("cannot follow steps: %s", errstr(err));
		return;
	}
	w->cost_ns = 0;
	w->start_ns = clock__mono_ns();
}

/* False: it ends, or is busy. */
static bool send_pid(struct sample_watch *w, const char *order, pid_t pid, uint64_t ns)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %d %" PRIu64 "\n", order, pid, ns);
	return !sample_child__note(&w->child, text);
}

static bool send_pause(struct sample_watch *w)
{
	return !sample_child__note(&w->child, w->paused ? "pause\n" : "resume\n");
}

void sample_watch__postpone(struct sample_watch *w, uint64_t now_ns)
{
	w->next_ns = now_ns + SELECT_EVERY_NS;
}

void sample_watch__follow(struct sample_watch *w, const struct words *args, struct proc_list *procs,
			  uint64_t now_ns)
{
	uint32_t cnt = 0;
	bool any;

	sample_watch__postpone(w, now_ns);
	proc_list__replace(&w->targets, procs);
	w->chosen_ns = clock__mono_ns();
	for (uint32_t i = 0; i < w->targets.cnt; i++)
		cnt += !w->targets.items[i].turn;
	any = cnt > 0;
	/* those that the last one did not follow, too: it may have ended before it read the order */
	if (!w->child.pid && w->targets.cnt && (any || now_ns >= w->retry_ns)) {
		start(w, args);
		for (uint32_t i = 0; i < w->targets.cnt; i++)
			w->targets.items[i].turn = 0;
		if (w->child.pid && w->paused)
			send_pause(w);
	}
	for (uint32_t i = 0; i < w->targets.cnt && w->child.pid; i++) {
		struct proc_item *p = &w->targets.items[i];

		if (!p->turn && send_pid(w, "follow", p->pid, w->chosen_ns))
			p->turn = 1; /* else next time */
	}
}

void sample_watch__pause(struct sample_watch *w, bool paused)
{
	if (w->paused == paused)
		return;
	w->paused = paused;
	if (w->child.pid && !send_pause(w))
		w->paused = !paused; /* next time */
}

void sample_watch__again(struct sample_watch *w, pid_t pid, uint64_t ns)
{
	if (w->child.pid && !send_pid(w, "again", pid, ns))
		pr_debug("the hang of pid %d is not reported again", pid);
}

static void take_end(struct sample_watch *w)
{
	uint64_t now = clock__mono_ns();
	int code = sample_child__end(&w->child);

	if (code < 0 && code != SAMPLE_CHILD_STUCK)
		pr_error("the process that follows steps was ended by signal %d", -code);
	if (now > w->start_ns + STEADY_NS)
		w->pause_ns = SELECT_EVERY_NS;
	w->retry_ns = now + w->pause_ns;
	w->pause_ns = w->pause_ns * 2 < RETRY_MAX_NS ? w->pause_ns * 2 : RETRY_MAX_NS;
	w->spent_ns += w->cost_ns;
	w->cost_ns = 0;
	w->followed = 0;
}

static void take_line(struct sample_watch *w, const char *event, const cJSON *line)
{
	uint32_t followed = (uint32_t)child_line__u64(line, "processes");
	char kind[32];

	if (!strcmp(event, "following")) {
		w->cost_ns = child_line__ns(line, "charged_seconds");
		if (followed > w->followed)
			pr_info("following the steps of %u process%s", followed,
				followed == 1 ? "" : "es");
		w->followed = followed;
	}
	if (strcmp(event, "happened") != 0)
		return;
	child_line__text(line, "kind", kind, sizeof(kind));
	for (int k = 0; k < EVENT_KIND_CNT; k++)
		if (!strcmp(kind, event__name((enum event_kind)k))) {
			w->event.kind = (enum event_kind)k;
			w->has_event = true;
		}
	w->event.pid = (uint32_t)child_line__u64(line, "pid");
	w->event.more = child_line__u64(line, "more");
	child_line__text(line, "text", w->event.text, sizeof(w->event.text));
}

void sample_watch__read(struct sample_watch *w)
{
	cJSON *line = NULL;

	if (!w->child.pid)
		return;
	while (!w->has_event && (line = sample_child__read(&w->child))) {
		const char *event =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "event"));

		take_line(w, event ? event : "", line);
		cJSON_Delete(line);
	}
	if (!w->has_event && (w->child.progress.fd < 0 || w->child.stuck))
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
	if (!w->child.pid)
		return;
	kill(w->child.pid, SIGTERM);
	while (w->child.pid) {
		w->has_event = false;
		sample_watch__read(w);
		if (w->child.pid)
			poll(NULL, 0, END_POLL_MS);
	}
	proc_list__free(&w->targets);
	w->next_ns = w->retry_ns = 0;
}
