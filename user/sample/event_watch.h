/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whether something has happened in processes that a window is to be opened for: a state machine
 * over the ends of their steps, their annotations and their memory. Knows no clock (times are
 * CLOCK_MONOTONIC, in ns) and reads no process.
 */
#ifndef SAMPLE_EVENT_WATCH_H
#define SAMPLE_EVENT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* ---- event_rules.c: which events open a window ---- */

#define EVENT_NAME_MAX 256

struct event_rules {    /* zeroed: none */
	double slow;    /* a step takes so many times the median; 0: no rule, as below */
	uint64_t grows; /* resident bytes */
	uint64_t hang_ns;
	char annotation[EVENT_NAME_MAX]; /* its whole name */
	bool oom; /* an allocator of torch reports that it is out of memory */
};

/* "slow=1.5x,grows=1GiB,annotation=NAME,hang=60s,oom", each at most once. 0 or -EINVAL
 * (reported). */
int event_rules__parse(const char *text, struct event_rules *rules);

/* ---- step_history.c: the last steps of one thread ---- */

#define STEP_HISTORY_MAX 50 /* steps that are kept */
#define STEP_HISTORY_MIN 10 /* of them, before a step can be slow */
/* A slow step takes so much more than the median: less is what any machine's scheduler does. */
#define STEP_SLOW_NS 100000000ULL

struct step_history { /* zeroed: empty */
	uint64_t ns[STEP_HISTORY_MAX];
	uint32_t cnt, next;
};

/* The median of the steps that are kept; 0: there is none. */
uint64_t step_history__median(const struct step_history *h);
/*
 * Did this step, which is not in the history yet, take more than `factor` times the median,
 * STEP_SLOW_NS more than that, and longer than each step that is kept? The last, because steps of
 * many jobs differ by more than that as a rule: some evaluate, some write a checkpoint.
 */
bool step_history__is_slow(const struct step_history *h, uint64_t ns, double factor);
void step_history__add(struct step_history *h, uint64_t ns);

/* ---- event_watch.c ---- */

#define EVENT_PROCS_MAX 256
#define EVENT_TEXT_MAX (EVENT_NAME_MAX + 64)

/*    name        text */
#define EVENT_KINDS(X)                                                                             \
	X(SLOW, "slow")                                                                            \
	X(GROWS, "grows")                                                                          \
	X(HANG, "hang")                                                                            \
	X(ANNOTATION, "annotation")                                                                \
	X(OOM, "oom")

enum event_kind {
#define X(name, text) EVENT_##name,
	EVENT_KINDS(X)
#undef X
		EVENT_KIND_CNT
};
const char *event__name(enum event_kind kind);

struct event {
	enum event_kind kind;
	uint32_t pid;
	uint64_t ts_ns;
	uint64_t more; /* further ones that are not reported: mostly of this kind and process */
	char text[EVENT_TEXT_MAX]; /* what happened, with figures */
};

struct event_watch;

struct event_watch *event_watch__new(const struct event_rules *rules);
void event_watch__free(struct event_watch *w);

/* The process is watched from now on. False: no more than EVENT_PROCS_MAX can be. */
bool event_watch__add(struct event_watch *w, uint32_t pid, uint64_t now_ns);
void event_watch__remove(struct event_watch *w, uint32_t pid);

/*
 * A step ended. Steps that began before the process was added, before the watch went on, or before
 * records were lost, do not count, nor does a step whose begin is not known (0).
 */
void event_watch__step(struct event_watch *w, uint32_t pid, uint32_t tid, uint64_t begin_ns,
		       uint64_t end_ns);
/* An annotation began; named: it is the one of the rules. */
void event_watch__annotation(struct event_watch *w, uint32_t pid, bool named, uint64_t ts_ns);
/*
 * An allocator was refused so many bytes; device: "CPU", "cuda:0"; allocated, reserved: what it has
 * there, 0: it does not say.
 */
void event_watch__oom(struct event_watch *w, uint32_t pid, const char *device, uint64_t bytes,
		      uint64_t allocated, uint64_t reserved, uint64_t ts_ns);
/* Records of some threads were lost, or the job was disturbed, until now_ns. */
void event_watch__disturbed(struct event_watch *w, uint64_t now_ns);
/* The oldest process of which nothing has come for a minute since it was added. False: none. */
bool event_watch__idle(const struct event_watch *w, uint64_t now_ns, uint32_t *pid);
/* While it is paused, nothing is an event. */
void event_watch__pause(struct event_watch *w, bool paused, uint64_t now_ns);

/*
 * The next process whose memory is to be read: it has ended a step, and a second has passed since
 * the last time. False: none.
 */
bool event_watch__wants_memory(struct event_watch *w, uint64_t now_ns, uint32_t *pid);
void event_watch__memory(struct event_watch *w, uint32_t pid, uint64_t resident, uint64_t now_ns);
/* Time passes: that something has not happened is an event, too. */
void event_watch__tick(struct event_watch *w, uint64_t now_ns);
/* Nobody has acted on the hang of a process: it is an event again from then on, if it lasts. */
void event_watch__again(struct event_watch *w, uint32_t pid, uint64_t ns);

/*
 * A process in which no step has ended for a minute, each once: rules about steps cannot be applied
 * to it. False: none.
 */
bool event_watch__silent(struct event_watch *w, uint64_t now_ns, uint32_t *pid);
bool event_watch__any(const struct event_watch *w); /* is there an event to be taken? */
/*
 * The next event, the last kind first: a process that is out of memory may end. Of each process one
 * of a kind waits. False: there is none.
 */
bool event_watch__take(struct event_watch *w, struct event *ev);

#endif /* SAMPLE_EVENT_WATCH_H */
