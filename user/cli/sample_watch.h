/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * --open-on: a process that follows the steps of the targets while no window is open, and reports what is to open one. It probes annotations,
 * what ends a step and what reports that there is no memory, and nothing else.
 */
#ifndef CLI_SAMPLE_WATCH_H
#define CLI_SAMPLE_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sample/child.h"
#include "sample/event_watch.h"
#include "sample/proc_select.h"

struct sample_watch { /* sample_watch__init() */
	struct sample_child child;
	struct proc_list targets; /* that are selected; turn 1: the watch knows of it */
	uint64_t chosen_ns;       /* CLOCK_MONOTONIC: they began before */
	uint64_t next_ns;         /* CLOCK_MONOTONIC: when the processes are selected again */
	uint64_t start_ns;        /* of the last watch */
	uint64_t retry_ns, pause_ns; /* when another one tries them after it, and so long after its end */
	uint64_t spent_ns, cost_ns; /* what watches that have ended, and this one, have cost a process */
	uint32_t followed;          /* processes whose steps are */
	bool paused;
	bool has_event;
	struct event event;
};

void sample_watch__init(struct sample_watch *w);
/* Whether the processes are to be selected now; *in_ns: else when. */
bool sample_watch__due(const struct sample_watch *w, uint64_t now_ns, uint64_t *in_ns);
/* These are the processes, which are taken: starts a watch when there is none and a new one is among them; a running one has the new ones added. */
void sample_watch__follow(struct sample_watch *w, const struct words *args, struct proc_list *procs,
			  uint64_t now_ns);
/* They are not known. */
void sample_watch__postpone(struct sample_watch *w, uint64_t now_ns);
/* While a window is open: nothing is reported, and steps do not count. */
void sample_watch__pause(struct sample_watch *w, bool paused);
/* Takes what the watch has reported, up to the next event, and its end. */
void sample_watch__read(struct sample_watch *w);
/* That event. False: there was none. */
bool sample_watch__take(struct sample_watch *w, struct event *ev);
/* Nothing was done about the hang of a process: it is reported again then, if it lasts. */
void sample_watch__again(struct sample_watch *w, pid_t pid, uint64_t ns);
void sample_watch__stop(struct sample_watch *w); /* and waits for its end */

#endif /* CLI_SAMPLE_WATCH_H */
