/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See outputs.h. Some traces are written in each pass over the capture. */
#define LOG_DOMAIN "export"
#include "cli/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "export/facts_json.h"

#define RANKS_MAX 4096

/* In the child: which processes are ranks. */
static int find_ranks(struct reader *r, uint8_t **answer, size_t *len)
{
	struct job_rank_of *ranks = xcalloc(RANKS_MAX, sizeof(*ranks));
	uint32_t cnt = job_json__ranks(r->s, ranks, RANKS_MAX);
	const char *capture = r->o.args.capture;

	if (!cnt) {
		pr_error(
			"'%s' has no process with a rank: RANK and WORLD_SIZE, or a step of SLURM, were not in its "
			"environment",
			capture);
		return -ENODATA;
	}
	if (cnt > RANKS_MAX) {
		pr_error("'%s' has more than %d ranks", capture, RANKS_MAX);
		return -E2BIG;
	}
	for (uint32_t i = 1; i < cnt; i++)
		if (ranks[i].rank.rank == ranks[i - 1].rank.rank) {
			pr_error(
				"'%s' has two processes with rank %u: %u and %u; --pid exports one",
				capture, ranks[i].rank.rank, ranks[i - 1].tgid, ranks[i].tgid);
			return -EEXIST;
		}
	*answer = (uint8_t *)ranks;
	*len = cnt * sizeof(*ranks);
	return 0;
}

/* As many of the ranks as go into a pass. Exit code. */
static int write_some(const struct outputs *asked, const char *dir, const struct job_rank_of *ranks,
		      uint32_t cnt)
{
	char paths[OUTPUTS_FILES][PATH_MAX];
	struct outputs o = *asked;

	for (uint32_t i = 0; i < OUTPUTS_FILES && i < cnt; i++) {
		o.files[i] = (struct output_file){ &chrome_output, paths[i], ranks[i].tgid };
		if (snprintf(paths[i], sizeof(paths[i]), "%s/rank%u.pt.trace.json.gz", dir,
			     ranks[i].rank.rank) >= (int)sizeof(paths[i])) {
			pr_error("cannot create a file in %s: %s", dir, errstr(ENAMETOOLONG));
			return EXIT_FAILED;
		}
	}
	return outputs__write(&o);
}

int split_ranks__write(const struct outputs *asked, const char *dir)
{
	struct outputs_result result = { .incomplete = "" };
	struct outputs o = *asked;
	struct job_rank_of *ranks = NULL;
	size_t len = 0, cnt;
	int code = EXIT_DONE;

	if (outputs__ask(&o, find_ranks, RANKS_MAX * sizeof(*ranks), (uint8_t **)&ranks, &len))
		return EXIT_FAILED;
	cnt = len / sizeof(*ranks);
	if (mkdir(dir, 0777) && errno != EEXIST) {
		pr_error("cannot make the directory %s: %s", dir, errstr(errno));
		code = EXIT_FAILED;
	}
	o.summary = OUTPUTS_QUIET;
	o.result = &result;
	for (size_t i = 0; i < cnt && code != EXIT_FAILED; i += OUTPUTS_FILES)
		code = write_some(&o, dir, ranks + i, (uint32_t)(cnt - i));
	free(ranks);
	if (code == EXIT_FAILED)
		return code;
	pr_info("traces: %s/rank*.pt.trace.json.gz, of %zu rank%s", dir, cnt, cnt == 1 ? "" : "s");
	if (code == EXIT_INCOMPLETE)
		outputs__say_incomplete(&result);
	return code;
}
