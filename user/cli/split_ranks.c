/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See split_ranks.h. Some traces are written in each pass over the capture. */
#define LOG_DOMAIN "export"
#include "cli/split_ranks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "export/job_json.h"
#include "export/loss_account.h"
#include "ranks/join.h"

#define TRACES 8 /* in a pass */
#define RANKS_MAX 4096

struct split {
	const char *dir;
	struct session *s;
	struct job_rank_of ranks[RANKS_MAX];
	uint32_t cnt;
	struct session_totals totals;
};

static int find_ranks(struct split *sp, const char *capture)
{
	sp->cnt = job_json__ranks(sp->s, sp->ranks, RANKS_MAX);
	if (!sp->cnt) {
		pr_error("'%s' has no process with a rank: RANK and WORLD_SIZE, or a step of SLURM, were not in its "
			 "environment",
			 capture);
		return -ENODATA;
	}
	if (sp->cnt > RANKS_MAX) {
		pr_error("'%s' has more than %d ranks", capture, RANKS_MAX);
		return -E2BIG;
	}
	for (uint32_t i = 1; i < sp->cnt; i++)
		if (sp->ranks[i].rank.rank == sp->ranks[i - 1].rank.rank) {
			pr_error("'%s' has two processes with rank %u: %u and %u; --pid exports one",
				 capture, sp->ranks[i].rank.rank, sp->ranks[i - 1].tgid,
				 sp->ranks[i].tgid);
			return -EEXIST;
		}
	return 0;
}

/* The ranks from `first` on, as many as go into a pass. */
static int write_some(struct split *sp, uint32_t first, uint32_t cnt)
{
	struct output_args args[TRACES];
	struct session_sink sinks[TRACES];
	void *traces[TRACES] = { NULL };
	char paths[TRACES][PATH_MAX];
	int err = 0;

	for (uint32_t i = 0; i < cnt && !err; i++) {
		const struct job_rank_of *r = &sp->ranks[first + i];

		args[i] = (struct output_args){
			.output = &chrome_output, .s = sp->s, .path = paths[i], .tgid = r->tgid
		};
		if (snprintf(paths[i], sizeof(paths[i]), "%s/rank%u.pt.trace.json.gz", sp->dir,
			     r->rank.rank) >= (int)sizeof(paths[i]))
			err = -ENAMETOOLONG;
		if (!err)
			err = chrome_output.open(&args[i], &traces[i]);
		if (!err)
			sinks[i] = chrome_output.sink(traces[i]);
	}
	if (!err)
		err = session__run(sp->s, sinks, cnt, &sp->totals);
	for (uint32_t i = 0; i < cnt; i++) {
		if (!err)
			err = chrome_output.finish(traces[i], &args[i], &sp->totals);
		chrome_output.free(traces[i]);
	}
	return err;
}

static int write_all(struct split *sp, const char *capture)
{
	int err = find_ranks(sp, capture);

	if (!err && mkdir(sp->dir, 0777) && errno != EEXIST) {
		err = -errno;
		pr_error("cannot make the directory %s: %s", sp->dir, errstr(err));
	}
	for (uint32_t i = 0; i < sp->cnt && !err; i += TRACES)
		err = write_some(sp, i, sp->cnt - i < TRACES ? sp->cnt - i : TRACES);
	if (err && err != -ECANCELED && !log__has_error())
		pr_error("'%s' cannot be read or exported: %s", capture, errstr(err));
	if (!err)
		pr_info("traces: %s/rank*.pt.trace.json.gz, of %u rank%s", sp->dir, sp->cnt,
			sp->cnt == 1 ? "" : "s");
	return err;
}

int split_ranks__write(const struct outputs *o, const char *dir)
{
	static struct split sp;
	struct join *j = NULL;
	char text[OUTPUTS_INCOMPLETE_MAX], name[PATH_MAX + 32];
	int err, code = EXIT_FAILED;

	sp = (struct split){ .dir = dir };
	outputs__name(o, name, sizeof(name));
	err = outputs__open(o, &j, &sp.s);
	if (!err)
		err = write_all(&sp, name);
	if (!err)
		code = EXIT_DONE;
	if (!err && loss_account__incomplete(session__info(sp.s), &sp.totals, text, sizeof(text))) {
		fprintf(stderr, "ptbpf: incomplete: %s\n", text);
		code = EXIT_INCOMPLETE;
	}
	session__free(sp.s);
	join__close(j);
	return code;
}
