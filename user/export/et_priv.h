/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parts of the Execution Trace writer; private to exec_trace.c and et_*.c. */
#ifndef EXPORT_ET_PRIV_H
#define EXPORT_ET_PRIV_H

#include "base/containers.h"
#include "base/jsonw.h"
#include "export/output.h"
#include "export/texts.h"

/* Numbers of nodes and objects; see the head of exec_trace.c. */
enum et_object { ET_TENSOR, ET_STORAGE, ET_THREAD };

struct et_ids {
	struct hashmap seen; /* (number or tid, enum et_object) -> 1 */
	uint64_t cnt[3];     /* by enum et_object */
};

#define ET_ROOT 1
#define ET_TIDS_END (1u << 22) /* Linux include/linux/threads.h, PID_MAX_LIMIT */

/* order: session__order() of the slice. */
static inline uint64_t et_id__slice(uint64_t order)
{
	return 2 * order + 2;
}

/* Id of the object with this number of the session (thread: its tid); counted. */
uint64_t et_id__object(struct et_ids *ids, uint64_t key, enum et_object what);

/* What of the values is missing. */
struct et_missing {
	uint64_t unknown, cut;
};

/* et_values.c: the object {"values", "shapes", "types", "strides"} of one side of a node. */
void et_values__write(struct jsonw *w, const struct slice_values *sv,
		      const struct session_keys *keys, struct et_ids *ids,
		      struct et_missing *missing);

#endif /* EXPORT_ET_PRIV_H */
