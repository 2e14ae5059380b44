/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How captures of several ranks become one session. */
#ifndef RANKS_RANKS_PRIV_H
#define RANKS_RANKS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "base/job_vars.h"
#include "base/limits.h"
#include "capture/capture.h"
#include "export/texts.h"
#include "model/session.h"
#include "ptb_event.h"
#include "ranks/join.h"
#include "ranks/rank_times.h"

/*
 * The collectives that each process called, as torch's dispatcher shows them (c10d::allreduce_), of
 * one session or of several. A sink of the session. Must not know which calls belong together:
 * ranks/ranks_priv.h.
 */

struct collective {
	uint64_t begin_ns, end_ns; /* of the call, which starts the work */
	/* what the thread did next, or after the backward pass: if it waited for the work, the work
	 * was done then. UINT64_MAX: nothing */
	uint64_t until_ns;
	/* in texts: of the operator, and the shapes of its inputs where they were recorded */
	uint32_t name;
	uint32_t tid;
	uint32_t depth;
	/* of the process's calls, in the order in which they ended, inner ones included */
	uint32_t nr;
	bool waits; /* no rank's work ends before all have called */
	/* the call is a part of a backward pass, which goes on while the work is done */
	bool backward;
	bool inner; /* of another call */
};

struct rank_calls { /* of one process */
	uint32_t input, tgid;
	struct collective *calls; /* after collectives__end() in order of begin */
	uint32_t cnt, cap;
};

struct collectives {
	const struct session *s;
	bool shapes;
	uint32_t input;
	struct strtab *texts;
	struct rank_calls *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids; /* (input, tgid) */
	struct call_thread *threads;
	uint32_t thread_cnt, thread_cap;
	struct hashmap thread_ids; /* (tgid, tid) */
	uint64_t over;             /* calls beyond the limit */
};

void collectives__init(struct collectives *c);
void collectives__clear(struct collectives *c);

/* Before a run of the session, which is the `input`th; after it. */
void collectives__begin(struct collectives *c, const struct session *s, uint32_t input);
struct session_sink collectives__sink(struct collectives *c);
void collectives__end(struct collectives *c);

/* During the call of a sink: is one of the slices around it of this kind, its name begun so? */
bool slice__is_within(const struct session *s, const struct slice *sl, enum slice_cat cat,
		      const char *prefix);

/* Of a process; NULL: it called none. */
const struct rank_calls *collectives__of(const struct collectives *c, uint32_t input,
					 uint32_t tgid);

/*
 * Which calls of two ranks are the same collective, and how far their clocks may be apart by these.
 * All ranks of a process group call its collectives in the same order, so the two lists are one, of
 * which each window has another part: the lag.
 */

struct calls_match {
	int64_t lag;    /* b's call i is a's call i + lag */
	uint32_t pairs; /* calls that both have; 0: none match */
	/*
	 * What may be added to b's times: no rank is done with a collective before every rank has
	 * called it. INT64_MIN, INT64_MAX: no bound. lo > hi: the calls contradict each other by so
	 * much, as when a rank does not wait.
	 */
	int64_t lo_ns, hi_ns;
	uint32_t bounds; /* pairs that gave one */
};

/* shift_ns: added to b's times before they are compared; bound_ns: they are right within this, as
 * far as is known. */
struct calls_match calls_match__find(const struct rank_calls *a, const struct rank_calls *b,
				     int64_t shift_ns, uint64_t bound_ns);

static inline bool calls_match__consistent(const struct calls_match *m)
{
	return m->pairs && m->lo_ns <= m->hi_ns;
}

/*
 * Records of one capture as records of another, which contains several: ids of names, functions and
 * sites, numbers of processes and threads, and times become those of the new one. Owns the list of
 * the fields that are any of these; must not know when which record is written.
 */

/* More than any kernel gives a process (PID_MAX_LIMIT): what the numbers of a capture are moved by,
 * so that those of two machines stay distinct. */
#define REMAP_PIDS 4194304u
_Static_assert((uint64_t)REMAP_PIDS *LIMIT_CAPTURES <= 1ULL << 31, "moved numbers fit a pid_t");

enum remap_ids { REMAP_NAME, REMAP_FUNC, REMAP_SITE, REMAP_ID_KINDS };

/* Ids that the new capture has so far. */
struct remap_space {
	uint32_t last[REMAP_ID_KINDS];
};

struct remap {
	struct remap_space *space;
	int64_t shift_ns;          /* what is added to times */
	uint32_t pid_shift;        /* and to numbers of processes and threads */
	uint64_t begin_ns, end_ns; /* the window of the old capture, in its time */
	uint32_t *ids[REMAP_ID_KINDS];
	uint32_t caps[REMAP_ID_KINDS];
	uint64_t left_out; /* damaged records, and those of unknown kinds */
};

void remap__clear(struct remap *m);

/* A time; 0: for 0, and for what cannot be one. */
uint64_t remap__time(const struct remap *m, uint64_t ns);
/* The number of a process or thread; 0: for 0, and for what cannot be one. */
uint32_t remap__pid(const struct remap *m, uint32_t pid);

/*
 * A well-formed record (capture_reader) as one of the new capture, in buf, which has room for any
 * (64 KiB). False: it has no place there, because it lies outside the window or, which is counted,
 * is damaged or of an unknown kind.
 */
bool remap__record(struct remap *m, const struct ptb_rec_hdr *rec, uint64_t *buf);

/* What the files of a join share: the captures, their machines, and what is known of their
 * clocks. */

#define JOIN_TEXT_MAX 256

/* Clock pairs: CLOCK_MONOTONIC against Unix time. */
struct join_clock {
	uint32_t pairs;
	int64_t unix_ns;        /* to be added, by the pair that was read most narrowly */
	uint64_t err_ns;        /* half the width of that reading */
	int64_t min_ns, max_ns; /* what all of them say */
};

/* How far a time may be from the machine's Unix time: the reading, and how far other pairs are from
 * it. How far that is from the Unix time of other machines no pair says. */
uint64_t join_clock__bound(const struct join_clock *c);
/* The pairs of another capture of the same boot. */
void join_clock__join(struct join_clock *c, const struct join_clock *other);

struct join_process {
	uint32_t tgid;
	bool has_rank;
	struct job_rank rank;
};

/* A machine since its boot. */
struct join_machine {
	struct join_clock clock;
	uint32_t first; /* input */
	/* what collectives with processes of the first machine that has some allow to be added to
	 * its times */
	int64_t lo_ns, hi_ns;
	uint32_t pairs, bounds;
	bool contradicts; /* its clock, by more than the bounds of both */
	int64_t correction_ns;
};

struct join_input {
	const char *path;
	struct capture_reader *cr;
	char host[JOIN_TEXT_MAX], boot[64], pid_ns[32];
	uint64_t begin_ns, end_ns; /* its window, in its time */
	bool sealed;
	uint32_t stop_reason;
	struct join_clock clock;
	struct join_process *procs;
	uint32_t proc_cnt, proc_cap;
	struct hashmap proc_ids; /* tgid -> index in procs */
	uint32_t machine;
	uint32_t host_name; /* its id in the whole */
	uint64_t counters[256];
	bool has_counter[256];
	struct remap map;
};

struct join {
	const struct join_opts *opts; /* while it is opened */
	bool by_collectives;
	struct join_input *inputs;
	uint32_t cnt;
	struct join_machine *machines;
	uint32_t machine_cnt, machine_cap;
	struct collectives calls;
	/* pairs of processes that share collectives, and that share none */
	uint32_t matched, unmatched;
	uint64_t collectives; /* that were matched */
	struct remap_space space;
	struct capture_join parts;
	struct capture_reader **readers; /* of parts */
	struct capture_reader *whole;
	/* while control records are emitted */
	rec_fn emit;
	void *emit_arg;
	uint64_t bad_records;
	uint64_t buf[8192]; /* a record: its length has 16 bits */
};

/* join_input.c: reads what is decided by. 0 or negative errno, logged. */
int join__read_inputs(struct join *j);
/* join_align.c: what is added to the times of each, and to its numbers. */
void join__align(struct join *j);
/* join_control.c: the control records of the whole; see struct capture_join. */
int join__control(void *arg, rec_fn fn, void *fn_arg, uint64_t *bad_records);

/* What the sink keeps, and the tables over ranks and collectives that conclusions are drawn
 * from. */

struct rt_step {
	uint32_t tgid;
	int64_t nr;
	uint64_t begin_ns, end_ns;
};

struct rt_piece {          /* time of one operator before a collective of its process */
	uint32_t tgid, nr; /* struct collective.nr */
	uint32_t name;
	uint64_t ns;
};

struct rank_times {
	const struct session *s;
	struct collectives calls;
	struct session_sink calls_sink;
	struct text_ids texts;
	uint32_t loading, outside; /* texts */
	struct rt_step *steps;
	uint32_t step_cnt, step_cap;
	struct rt_piece *pieces;
	uint32_t piece_cnt, piece_cap;
	struct hashmap piece_ids; /* (tgid and nr, name) */

	/* after the run */
	struct rank_times_result out;
	const struct rank_calls **lists; /* of ranks */
	int64_t *lags;
	int64_t from, to;  /* collectives of the first rank that all have */
	uint64_t *last_ns; /* by collective - from: when the last rank called it */
	int32_t *step_of;  /* by collective - from: index of its step, -1: none */
	int64_t *step_nrs;
	double *step_ns;
	double *own; /* [rank * steps + step] */
};

/* Of the collective c of the first rank: the rank's call. */
static inline const struct collective *rt__call(const struct rank_times *rt, uint32_t rank,
						int64_t c)
{
	return &rt->lists[rank]->calls[c - rt->lags[rank]];
}

/* Own time of the rank before the collective, which is not the first one. */
double rt__own_before(const struct rank_times *rt, uint32_t rank, int64_t c);

/* rank_causes.c: what the excess of the slow ranks is made of. */
void rt__find_causes(struct rank_times *rt);

#endif /* RANKS_RANKS_PRIV_H */
