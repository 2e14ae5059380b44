/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* --open-on: windows that are opened by what happens in the targets. */
#ifndef CLI_SAMPLE_EVENTS_H
#define CLI_SAMPLE_EVENTS_H

#include "cli/sample_watch.h"

struct sampler;

#define EVENT_SOURCES_MAX 512 /* kinds of processes that are remembered; the oldest is forgotten */

/* The events of one kind in one process. */
struct event_source {
	pid_t pid;
	enum event_kind kind;
	uint64_t last_ns; /* CLOCK_MONOTONIC: when one opened a window; 0: none has */
	uint64_t said_ns; /* likewise, when the log said that one opens none; 0: not since last_ns */
};

struct sample_events {
	struct sample_watch watch;
	struct event_source sources[EVENT_SOURCES_MAX];
	uint32_t source_cnt;
	uint64_t ignored; /* events that opened none, since one did */
};

void sample_events__init(struct sample_events *e);
/* Keeps the watch running, and requests a window for an event. Returns ns until it is to be called again, UINT64_MAX: only when the watch
 * reports something. */
uint64_t sample_events__follow(struct sampler *s);
/* To be polled: it is readable when the watch has reported something; -1: nothing. */
int sample_events__fd(const struct sample_events *e);
/* Ends the watch: there will be another one, if need be, with the settings of then. */
void sample_events__stop(struct sampler *s);

#endif /* CLI_SAMPLE_EVENTS_H */
