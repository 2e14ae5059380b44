/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which steps a program makes, from events of its threads (step_events.h): while it is recorded, to
 * count them, and from the capture, to show them. Owns what ends a step; must not know what records
 * look like.
 *
 * A step of a thread ends with the annotation or function that marks it, once the annotations
 * around that have ended; in processes that announce ProfilerStep#N themselves, with each of these.
 * What marks a thread's steps is the first name on it that may: a second optimizer in the same
 * iteration ends no step of its own.
 */
#ifndef STEPS_STEP_COUNT_H
#define STEPS_STEP_COUNT_H

#include <stdbool.h>
#include <stdint.h>

struct step_count;

enum step_event_kind {
	STEP_NAME,  /* of the annotation that begins next on the thread */
	STEP_BEGIN, /* of an annotation, or of an operator that an agent records */
	STEP_END,
	STEP_ENTER, /* a function whose name marks steps */
	STEP_EXIT,
	STEP_AT, /* functions below the stack pointer are gone */
	STEP_THREAD_END,
	STEP_PROCESS_END, /* of its last thread */
};

enum step_what { STEP_OTHER, STEP_MARK, STEP_OWN };

struct step_event {
	uint64_t ts_ns;
	uint64_t id; /* BEGIN, END: the object; ENTER, EXIT: the function */
	uint64_t sp; /* 0: not known, as that of an agent's event */
	/* a hash of the name, without the number of a mark's; 0: it has none of its own */
	uint64_t text;
	uint64_t whole; /* a hash of all of its name */
	uint32_t tgid, tid;
	enum step_event_kind kind;
	enum step_what what;
	bool before; /* BEGIN: the object may exist already (RecordFunction::before()) */
};

struct step_end {
	uint32_t tgid, tid;
	uint64_t begin_ns, end_ns;
};

/* What somebody does at each of them, beside counting. All but `ended` may be NULL. */
struct step_hooks {
	void *arg;
	/* A step of a thread ended: an announced one in processes that have announced steps,
	 * else a derived one. begin_ns 0: it began before the count did. */
	void (*ended)(void *arg, const struct step_end *e);
	/* The thread has a name that marks steps. */
	void (*marked)(void *arg, uint32_t tgid, uint32_t tid);
	void (*lost)(void *arg); /* records were */
};

/*
 * hooks: the caller's, while the count is used; NULL: none. names_only: of annotations only the
 * names come from kernel probes (STEP_NAME), neither begins nor ends of objects: torch makes an
 * object for each backward node, too. Then a step ends when the next annotation that marks steps
 * begins, whatever is open around it, and nothing is kept of threads and processes that have ended.
 */
struct step_count *step_count__new(const struct step_hooks *hooks, bool names_only);
void step_count__free(struct step_count *sc); /* NULL is fine */

/* An event; those of one thread come in their order. */
void step_count__event(struct step_count *sc, const struct step_event *ev);
/* Events that come in any order within a round. */
void step_count__put(struct step_count *sc, const struct step_event *ev);
/* All those before until_ns have been put. */
void step_count__round(struct step_count *sc, uint64_t until_ns);
/* Records were lost: what is open now may have ended. */
void step_count__lost(struct step_count *sc);
/* Has the process announced steps itself? */
bool step_count__announces(const struct step_count *sc, uint32_t tgid);
/* The process is not followed any more. With names_only: else its steps are part of the count. */
void step_count__forget(struct step_count *sc, uint32_t tgid);

/*
 * Begins to count at now_ns. So many ends of steps are awaited in every process that ends a step at
 * all: where steps are derived, and where the process announces them. N whole steps are N + 1 ends
 * of derived ones: the first was under way.
 */
void step_count__await(struct step_count *sc, uint64_t now_ns, uint64_t derived, uint64_t own);

enum step_verdict {
	STEPS_AWAITED,
	STEPS_DONE,
	STEPS_STALLED, /* a process, or all, ended no step for timeout_ns */
};
enum step_verdict step_count__verdict(struct step_count *sc, uint64_t now_ns, uint64_t timeout_ns);

/* All events have been put: when the first step ended that was not awaited any more; UINT64_MAX:
 * none did. What is awaited ended before. */
uint64_t step_count__surplus_ns(struct step_count *sc);
/* Mean time of a step, of those that the last verdict was about; 0: not known. */
uint64_t step_count__step_ns(const struct step_count *sc);

#endif /* STEPS_STEP_COUNT_H */
