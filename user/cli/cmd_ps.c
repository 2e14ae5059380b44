/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf ps: the processes with PyTorch. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/which.h"

struct ps_cfg {
	bool json, brief;
};

static const struct opt_def ps_opts[] = {
	{ OPT_FLAG, 0, "json", offsetof(struct ps_cfg, json), NULL, "print JSON instead of text" },
	{ OPT_FLAG, 0, "brief", offsetof(struct ps_cfg, brief), NULL,
	  "print pid and script alone, with a tab between them, at once" },
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage ps_usage = {
	.name = "ps",
	.synopsis = "[options]",
	.summary =
		"Lists the processes that have loaded PyTorch: the processors that each keeps busy now, the GPUs whose devices it has open,\n"
		"its rank, threads and child processes, whether it has ptbpf's agent, its container, and the script with its arguments.\n"
		"Without root these are your own processes.",
	.examples = "  ptbpf ps\n"
		    "  sudo ptbpf ps --json | jq '.processes[].pid'\n",
	.opts = ps_opts,
};

static int print_brief(const struct proc_view *views, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		printf("%d\t", views[i].facts.id.pid);
		term_text__put(stdout, views[i].facts.script, SIZE_MAX);
		putchar('\n');
	}
	return std_out__end("the list", 0);
}

int cmd_ps(int argc, char **argv)
{
	struct ps_cfg cfg = { .json = false };
	int n = opts__parse(&ps_usage, &cfg, argc, argv, NULL), err;
	struct output_args args = { .row_limit = -1, .columns = terminal__columns(STDOUT_FILENO) };
	struct proc_view *views;
	uint32_t cnt, unseen;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	args.json = cfg.json;
	err = proc_scout__list(cfg.brief ? SCOUT_BRIEF : SCOUT_WHOLE, &views, &cnt, &unseen);
	if (err)
		pr_error("cannot list the processes: %s", errstr(err));
	else if (cfg.brief)
		err = print_brief(views, cnt);
	else
		err = which__print(&args, views, cnt, unseen);
	free(views);
	return err ? EXIT_FAILED : EXIT_DONE;
}
