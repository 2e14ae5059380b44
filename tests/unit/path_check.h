/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checks chosen exit sites by brute force, with nothing of the algorithm that chose them: plain
 * reachability over the graph with the sites taken out.
 */
#ifndef TESTS_PATH_CHECK_H
#define TESTS_PATH_CHECK_H

#include "code/flow.h"

struct path_faults {
	uint32_t avoided;    /* a return can be reached without crossing a site */
	uint32_t work_after; /* from a site the work can still be reached */
	uint32_t twice;      /* from a site another one, or itself, can be reached */
};

/* work: by node, the calls that are measured. */
struct path_faults path_check(const struct flow *f, const uint8_t *work, const uint32_t *sites,
			      uint32_t site_cnt);

/*
 * The same for sites that only paths with work must cross: `avoided` counts returns that can be reached from
 * the last work on a path; *any: there is such work.
 */
struct path_faults path_check_after(const struct flow *f, const uint8_t *work,
				    const uint32_t *sites, uint32_t site_cnt, bool *any);

#endif /* TESTS_PATH_CHECK_H */
