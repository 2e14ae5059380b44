/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fake_rank_captures DIR [RANKS STEPS]: writes DIR/rankN.ptb of a job, by default of four ranks, two on each machine, of which rank 2
 * loads slowly from step 10 on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rank_world.h"

int main(int argc, char **argv)
{
	struct rank_job job = {
		.ranks = 4, .steps = RW_STEPS, .slow = 2, .since = 10, .loading_ns = 4 * RW_MS
	};

	if (argc != 2 && argc != 4)
		return 2;
	if (argc == 4) {
		job.ranks = (uint32_t)atoi(argv[2]);
		job.steps = (uint32_t)atoi(argv[3]);
	}
	for (uint32_t r = 0; r < job.ranks; r++) {
		struct rank_machine m = { "alpha", "boot-1", 7000 * RW_MS, 0, 100 + r % 2 };
		struct builder *b;
		char cmd[512], host[32];
		int rc;

		if (r >= 2) {
			snprintf(host, sizeof(host), r < 4 ? "beta" : "host-%u", r / 2);
			m = (struct rank_machine){ host, host, 300 * RW_MS, 0, 100 + r % 2 };
		}
		b = rank_world__capture(&job, &m, r, r);
		snprintf(cmd, sizeof(cmd), "cp '%s' '%s/rank%u.ptb'", builder__path(b), argv[1], r);
		rc = system(cmd);
		builder__free(b);
		if (rc)
			return 1;
	}
	return 0;
}
