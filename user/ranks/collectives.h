/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The collectives that each process called, as torch's dispatcher shows them (c10d::allreduce_), of one session or of several. A
 * sink of the session. Must not know which calls belong together: ranks/match.h.
 */
#ifndef RANKS_COLLECTIVES_H
#define RANKS_COLLECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"
#include "base/strtab.h"
#include "model/session.h"

struct collective {
	uint64_t begin_ns, end_ns; /* of the call, which starts the work */
	uint64_t until_ns; /* what the thread did next: if it waited for the work, the work was done then. UINT64_MAX: nothing */
	uint32_t name; /* in texts: of the operator, and the shapes of its inputs where they were recorded */
	uint32_t tid;
	uint32_t depth;
	uint32_t nr; /* of the process's calls, in the order in which they ended, inner ones included */
	bool waits; /* no rank's work ends before all have called */
	bool backward; /* the call is a part of a backward pass, which goes on while the work is done */
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

/* Before a run of the session, which is the `input`th; after it. 0 or negative errno. */
void collectives__begin(struct collectives *c, const struct session *s, uint32_t input);
struct session_sink collectives__sink(struct collectives *c);
int collectives__end(struct collectives *c);

/* Is it one of torch's operators of a collective? waits: as in struct collective. */
bool collectives__is_call(const char *op, bool *waits);
/* Of a process; NULL: it called none. */
const struct rank_calls *collectives__of(const struct collectives *c, uint32_t input, uint32_t tgid);

#endif /* RANKS_COLLECTIVES_H */
