/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Counts steps while they are recorded, as model/steps.c derives them from the capture later: a step of a thread ends with
 * the annotation or operator that marks it, once the annotations around that have ended; in processes that announce
 * ProfilerStep#N themselves, with each of these. Owns the counts and how long a step takes; must not know what records look
 * like (recorder_steps.c).
 */
#ifndef RECORD_STEP_COUNT_H
#define RECORD_STEP_COUNT_H

#include <stdbool.h>
#include <stdint.h>

struct ptb_mem_report;
struct step_count;

enum step_event_kind {
	STEP_NAME,  /* of the annotation that begins next on the thread */
	STEP_BEGIN, /* of an annotation, or of an operator that an agent records */
	STEP_END,
	STEP_ENTER, /* a function whose name marks steps */
	STEP_EXIT,
	STEP_THREAD_END,
	STEP_PROCESS_END, /* of its last thread */
};

enum step_what { STEP_OTHER, STEP_MARK, STEP_OWN };

struct step_event {
	uint64_t ts_ns;
	uint64_t id; /* BEGIN, END: the object; ENTER, EXIT: the function */
	uint64_t sp; /* 0: of an agent */
	uint64_t text; /* a hash of the name, without the number of a mark's; 0: it has none of its own */
	uint64_t whole; /* a hash of all of its name */
	uint32_t tgid, tid;
	enum step_event_kind kind;
	enum step_what what;
};

struct step_end {
	uint32_t tgid, tid;
	uint64_t begin_ns, end_ns;
};

/* What somebody does at each of them, beside counting. */
struct step_hooks {
	void *arg;
	/* A step of a thread ended: an announced one in processes that announce steps
	 * themselves, else a derived one. begin_ns 0: it began before the count did. */
	void (*ended)(void *arg, const struct step_end *e);
	/* The next three may be NULL. */
	/* An annotation begins; named: it is called as step_opts.event is. */
	void (*annotation)(void *arg, uint32_t tgid, bool named, uint64_t ts_ns);
	void (*lost)(void *arg); /* records were */
	/* With step_opts.oom: an allocator reports that it is out of memory. */
	void (*oom)(void *arg, uint32_t tgid, const struct ptb_mem_report *report);
};

struct step_count *step_count__new(void); /* NULL: no memory */
void step_count__free(struct step_count *sc);
/* hooks: the caller's, while sc is used; NULL: none. */
void step_count__set_hooks(struct step_count *sc, const struct step_hooks *hooks);

/*
 * Only names of annotations come from kernel probes (STEP_NAME), neither begins nor ends of objects: torch makes an object for each backward
 * node, too. Then a step ends when the next annotation that marks steps begins, whatever is open around it.
 */
void step_count__names_only(struct step_count *sc);

/* Events of kernel probes, in any order within a round. */
void step_count__put(struct step_count *sc, const struct step_event *ev);
/* All those before until_ns have been put. */
void step_count__round(struct step_count *sc, uint64_t until_ns);
/* An agent's event: those of one thread in their order. */
void step_count__agent(struct step_count *sc, const struct step_event *ev);
/* Records were lost, ends of annotations perhaps among them. */
void step_count__lost(struct step_count *sc);
void step_count__process_ended(struct step_count *sc, uint32_t tgid);
/* The process is not followed any more. Only with step_count__names_only(): else its steps are part of the count. */
void step_count__forget(struct step_count *sc, uint32_t tgid);

/*
 * Begins to count at now_ns. ends: so many ends of steps are awaited in every process that ends a step at all; whole: so
 * many whole steps, which are one end more where steps are derived, since the first one was under way.
 */
void step_count__await_ends(struct step_count *sc, uint64_t now_ns, uint32_t ends);
void step_count__await_whole(struct step_count *sc, uint64_t now_ns, uint32_t whole);

enum step_verdict {
	STEPS_AWAITED,
	STEPS_DONE,
	STEPS_STALLED, /* a process, or all, ended no step for timeout_ns */
};
enum step_verdict step_count__verdict(struct step_count *sc, uint64_t now_ns, uint64_t timeout_ns);

/* All events have been put: when the first step ended that was not awaited any more; UINT64_MAX: none did. What is awaited ended before. */
uint64_t step_count__surplus_ns(struct step_count *sc);
/* Mean time of a step, of those that the last verdict was about; 0: not known. */
uint64_t step_count__step_ns(const struct step_count *sc);

#endif /* RECORD_STEP_COUNT_H */
