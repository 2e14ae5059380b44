/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Records of one capture as records of another, which contains several: ids of names, functions and sites, numbers of processes
 * and threads, and times become those of the new one. Owns the list of the fields that are any of these; must not know when
 * which record is written.
 */
#ifndef RANKS_REMAP_H
#define RANKS_REMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "ptb_event.h"

/* More than any kernel gives a process (PID_MAX_LIMIT): what the numbers of a capture are moved by, so that those of two
 * machines stay distinct. */
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

/* The id in the new capture, the same for the same old one; 0: for 0, for what no capture of ours has, and without memory. */
uint32_t remap__id(struct remap *m, enum remap_ids kind, uint32_t id);
/* A time; 0: for 0, and for what cannot be one. */
uint64_t remap__time(const struct remap *m, uint64_t ns);
/* The number of a process or thread; 0: for 0, and for what cannot be one. */
uint32_t remap__pid(const struct remap *m, uint32_t pid);

/*
 * A well-formed record (capture_reader) as one of the new capture, in buf, which has room for any (64 KiB). False: it has no place
 * there, because it lies outside the window or, which is counted, is damaged or of an unknown kind.
 */
bool remap__record(struct remap *m, const struct ptb_rec_hdr *rec, uint64_t *buf);

#endif /* RANKS_REMAP_H */
