/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The memory timeline (torch's export_memory_timeline): a pure function of the session model. */
#ifndef EXPORT_MEM_TIMELINE_H
#define EXPORT_MEM_TIMELINE_H

#include <stdint.h>

#include "model/session.h"

enum timeline_format { TIMELINE_JSON, TIMELINE_RAW, TIMELINE_HTML };

struct timeline_opts {
	enum timeline_format format;
	uint32_t tgid;      /* the process, 0: the first */
	const char *device; /* "cpu", "cuda:0"; NULL: cuda:0 if it allocated there, else cpu */
};

/* As the Chrome trace: a sink, then finish; temporary file, rename, gzip by name. Finish fails with -ENODATA,
 * logged, when nothing was allocated on the device. */
struct mem_timeline;
int mem_timeline__open(const char *path, const struct session *s, const struct timeline_opts *opts,
		       struct mem_timeline **out);
struct session_sink mem_timeline__sink(struct mem_timeline *mt);
int mem_timeline__finish(struct mem_timeline *mt, const struct session_totals *totals);
void mem_timeline__free(struct mem_timeline *mt);

#endif /* EXPORT_MEM_TIMELINE_H */
