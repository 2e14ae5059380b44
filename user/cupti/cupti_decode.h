/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CUPTI's activity records, as an agent copied them, made into records of a capture. Trusts no byte
 * of them; knows nothing of chunks, names or clocks.
 */
#ifndef CUPTI_CUPTI_DECODE_H
#define CUPTI_CUPTI_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers.h"
#include "ptb_event.h"

/* What earlier records of a process say of later ones. A zeroed struct is a new one. */
struct cupti_decoder {
	struct hashmap devices; /* of contexts */
	/* (context, event): correlation and stream of its last cudaEventRecord */
	struct hashmap events;
};

enum cupti_answer {
	CUPTI_TAKEN,
	CUPTI_UNKNOWN,    /* no record of a kind that is known, or shorter than any version's */
	CUPTI_INCOMPLETE, /* it has no times: a forced flush delivered what was not over */
};

/* len bytes of a record, all that there is of it, into *to: kind, and tid as the process numbers
 * it; the rest of the header is the caller's. name: of the kernel or call; tids: its thread ids are
 * numbers of threads. */
enum cupti_answer cupti_decoder__take(struct cupti_decoder *d, const void *record, size_t len,
				      uint32_t name, bool tids, union ptb_gpu_record *to);
void cupti_decoder__clear(struct cupti_decoder *d);

#endif /* CUPTI_CUPTI_DECODE_H */
