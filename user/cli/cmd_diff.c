/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf diff: what two captures differ by. Needs neither root nor the targets. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "capture/capture.h"
#include "cli/cmd.h"
#include "cli/outputs.h"
#include "diff/diff.h"

#define ROWS_DEFAULT 10

struct diff_cfg {
	struct outputs out;
	const char *fail_above, *format;
	bool quiet;
	double limit; /* of fail_above, a share; negative: none */
};

static const struct opt_def diff_opts[] = {
	{ OPT_STR, 0, "fail-above", offsetof(struct diff_cfg, fail_above), "PERCENT",
	  "exit with 4 if a step is slower by more than this, at 95% confidence; with 3 if that is not known",
	  OPT_BASIC },
	{ OPT_CHOICE, 'f', "format", offsetof(struct diff_cfg, format),
	  "FORMAT=text, json, markdown", "markdown: a table for a pull request (default: text)",
	  OPT_BASIC },
	{ OPT_FLAG, 0, "json", offsetof(struct diff_cfg, out.args.json), NULL,
	  "the same as --format json", OPT_BASIC },
	{ OPT_INT, 0, "row-limit", offsetof(struct diff_cfg, out.args.row_limit), "N",
	  "rows of each list, -1: all (default: 10)", OPT_BASIC },
	{ OPT_STR, 0, "step-on", offsetof(struct diff_cfg, out.step_on), "NAME",
	  "end a ProfilerStep after each annotation or operator NAME (default: as recorded)",
	  OPT_BASIC },
	{ OPT_CHOICE, 0, "table", offsetof(struct diff_cfg, out.table), "FORM=" OUTPUTS_TABLES,
	  OUTPUTS_TABLE_HELP },
	QUIET_OPT(diff_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage diff_usage = {
	.name = "diff",
	.synopsis = "BEFORE AFTER [options]",
	.summary =
		"Compares two captures of a program that steps: before and after a change, a fast and a slow rank, two versions\n"
		"of PyTorch. Says how much longer a step of the second one takes and how sure that is, which operators, waits or\n"
		"Python account for it, and what else differs. Inconclusive and not comparable are answers.",
	.examples = "  ptbpf diff before.ptb after.ptb\n"
		    "  ptbpf diff rank0.ptb rank3.ptb --row-limit 30\n"
		    "  ptbpf diff main.ptb pr.ptb --fail-above 5% --format markdown\n"
		    "  ptbpf diff before.ptb after.ptb --json | jq .verdict\n",
	.opts = diff_opts,
};

/* ---- the child ---- */

static int open_second(const struct reader *r, struct session **out)
{
	const struct session_opts opts = { .step_on = r->o.step_on };
	struct capture_reader *cr;
	int err = capture_reader__open(r->o.args.diff, r->files->diff, &cr);

	if (!err)
		err = session__open(cr, &opts, out);
	if (err && !log__has_error())
		pr_error("'%s' cannot be read: %s", r->o.args.diff, errstr(err));
	return err; /* what it has goes with the process */
}

/* Without their directories, unless the names are the same then. */
static void put_names(const char *const paths[2], const char *names[2])
{
	for (int i = 0; i < 2; i++)
		names[i] = path__base(paths[i]);
	for (int i = 0; i < 2 && !strcmp(path__base(paths[0]), path__base(paths[1])); i++)
		names[i] = paths[i];
}

static int compare(struct reader *r, uint8_t **bytes, size_t *len)
{
	const struct diff_cfg *cfg = r->o.arg;
	struct diff_answer *answer = xcalloc(1, sizeof(*answer));
	struct diff_args args = { .out = &r->o.args,
				  .s = { r->s },
				  .markdown = cfg->format && !strcmp(cfg->format, "markdown"),
				  .fail_above = cfg->limit };
	int err = open_second(r, &args.s[1]);

	put_names(r->o.captures, args.names); /* both, one after the other */
	if (!err)
		err = diff__print(&args, answer);
	*bytes = (void *)answer;
	*len = sizeof(*answer);
	return err;
}

/* ---- the parent ---- */

/* "5%", "5"; negative: it is something else. */
static double parse_percent(const char *text)
{
	char *end;
	double v = strtod(text, &end);

	return end == text || (*end && strcmp(end, "%") != 0) || !(v >= 0) || v > 1e6 ? -1 :
											v / 100;
}

static int check(struct diff_cfg *cfg, const struct opt_words *words)
{
	cfg->limit = cfg->fail_above ? parse_percent(cfg->fail_above) : -1;
	if (words->cnt != 2)
		pr_error("diff: two captures are required; see 'ptbpf diff --help'");
	else if (cfg->fail_above && cfg->limit < 0)
		pr_error("diff: --fail-above '%s' is no percentage, such as 5%%", cfg->fail_above);
	else if (cfg->out.args.json && cfg->format && strcmp(cfg->format, "json") != 0)
		pr_error("diff: --json and --format %s exclude each other", cfg->format);
	else
		return 0;
	return -EINVAL;
}

static int say(const char *what, struct diff_answer *answer, int code)
{
	answer->said[sizeof(answer->said) - 1] = '\0';
	fprintf(stderr, "ptbpf: %s: ", what);
	term_text__put(stderr, answer->said, SIZE_MAX);
	fputc('\n', stderr);
	return code;
}

int cmd_diff(int argc, char **argv)
{
	struct diff_cfg cfg = { .out.args.row_limit = ROWS_DEFAULT };
	const char *paths[LIMIT_CAPTURES];
	struct opt_words words = { .list = paths, .max = LIMIT_CAPTURES };
	struct diff_answer *answer;
	size_t len;
	int n = opts__parse(&diff_usage, &cfg, argc, argv, &words), code = EXIT_DONE;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	log__set_quiet(cfg.quiet);
	if (check(&cfg, &words))
		return EXIT_USAGE;
	cfg.out.args.json |= cfg.format && !strcmp(cfg.format, "json");
	cfg.out.captures = words.list;
	cfg.out.capture_cnt = 1;
	cfg.out.args.diff = words.list[1];
	cfg.out.arg = &cfg;
	if (outputs__ask(&cfg.out, compare, sizeof(*answer), (uint8_t **)&answer, &len))
		return EXIT_FAILED;
	if (len != sizeof(*answer)) {
		pr_error("a capture has taken over the process that read it");
		code = EXIT_FAILED;
	} else if (answer->fails) {
		code = say("failed", answer, EXIT_ABOVE);
	} else if (answer->undecided) {
		code = say("cannot tell", answer, EXIT_INCOMPLETE);
	} else if (answer->incomplete) {
		code = say("incomplete", answer, EXIT_INCOMPLETE);
	}
	free(answer);
	return code;
}
