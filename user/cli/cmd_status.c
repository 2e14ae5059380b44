/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf status: what running `ptbpf sample` do, as text or JSON, once or again and again. */
#define LOG_DOMAIN "status"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/control_client.h"

#define ANSWER_MS 10000 /* of one ptbpf sample: another's is shown all the same */
#define WATCH_MS 1000

struct status_cfg {
	const char *dir, *control;
	bool json, watch;
};

static const struct opt_def status_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "output" },
	{ OPT_FLAG, 0, "json", offsetof(struct status_cfg, json), NULL, "print JSON, in one line" },
	{ OPT_FLAG, 'w', "watch", offsetof(struct status_cfg, watch), NULL,
	  "again each second, until Ctrl-C" },
	CONTROL_OPTS(struct status_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage status_usage = {
	.name = "status",
	.synopsis = "[options]",
	.summary =
		"Prints what each running ptbpf sample does: its processes, its windows (the last ones, those in hand, the next ones),\n"
		"what they cost and lack, and the disk space that they take.",
	.examples = "  sudo ptbpf status --watch\n"
		    "  sudo ptbpf status --json | jq '.daemons[0].status.windows'\n",
	.opts = status_opts,
};

/* ---- what is asked ---- */

struct asked {
	const char *path;
	int err; /* no answer, because of that */
	struct control_answer answer;
};

/*
 * Asks all that listen, or the named one. Returns how many or negative errno (reported); the caller
 * frees the answers.
 */
static int ask_all(const struct status_cfg *cfg, struct asked *asked)
{
	static char paths[CONTROL_SOCKETS_MAX][CONTROL_PATH_MAX];
	int n = control_client__named(cfg->dir, cfg->control, paths[0]), cnt = 0;
	bool named = !n;

	if (n && n != -ENOENT)
		return n;
	n = named ? 1 : control_socket__list(paths);
	if (n < 0) {
		pr_error("cannot read " CONTROL_DIR ": %s", errstr(n));
		return n;
	}
	for (int i = 0; i < n && !cancel__pending(); i++) {
		asked[cnt] = (struct asked){ .path = paths[i] };
		asked[cnt].err = control_client__ask(paths[i], "GET /status", "", ANSWER_MS,
						     &asked[cnt].answer);
		if (named || asked[cnt].err != -ECONNREFUSED) /* of one that was killed */
			cnt++;
	}
	return cnt;
}

/* ---- output ---- */

static bool is_good(const struct asked *a)
{
	return a->answer.tree && control_client__ok(a->answer.tree);
}

static const char *why_not(const struct asked *a)
{
	return a->answer.tree ? control_client__error(a->answer.tree) : control_client__why(a->err);
}

static void put_json(const struct asked *a, struct jsonw *w)
{
	jsonw__begin_obj(w);
	JSONW_STR(w, "control", a->path);
	if (is_good(a)) {
		JSONW_KEY(w, "status");
		jsonw__raw(w, a->answer.text);
	} else {
		JSONW_STR(w, "error", why_not(a));
	}
	jsonw__end_obj(w);
}

static int print_json(const struct asked *asked, int cnt)
{
	struct jsonw w;
	int err;

	jsonw__init(&w, jsonw__to_stream, stdout, 65536);
	jsonw__begin_obj(&w);
	JSONW_U64(&w, "version", CONTROL_VERSION);
	JSONW_ARR(&w, "daemons");
	for (int i = 0; i < cnt; i++)
		put_json(&asked[i], &w);
	jsonw__end_arr(&w);
	jsonw__end_obj(&w);
	jsonw__newline(&w);
	err = jsonw__flush(&w);
	jsonw__free(&w);
	return err;
}

static void print_text(const struct asked *asked, int cnt)
{
	for (int i = 0; i < cnt; i++) {
		const struct asked *a = &asked[i];

		if (i)
			putchar('\n');
		if (is_good(a))
			status_text__put(stdout, a->answer.tree);
		else
			pr_warn("'%s': %s", a->path, why_not(a));
	}
	if (!cnt)
		printf("no ptbpf sample is running\n");
}

/* Exit code. */
static int show(const struct status_cfg *cfg, bool clear)
{
	struct asked asked[CONTROL_SOCKETS_MAX];
	int cnt = ask_all(cfg, asked), err = 0, good = 0;

	if (cnt < 0)
		return EXIT_FAILED;
	if (clear)
		fputs("\033[H\033[2J", stdout);
	if (cfg->json)
		err = print_json(asked, cnt);
	else
		print_text(asked, cnt);
	for (int i = 0; i < cnt; i++) {
		good += is_good(&asked[i]);
		control_answer__free(&asked[i].answer);
	}
	if (std_out__end("the status", err))
		return EXIT_FAILED;
	return good == cnt ? EXIT_DONE : EXIT_FAILED;
}

int cmd_status(int argc, char **argv)
{
	struct status_cfg cfg = { .dir = NULL };
	struct pollfd p;
	int n = opts__parse(&status_usage, &cfg, argc, argv, NULL), code;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	p = (struct pollfd){ .fd = cancel__fd(), .events = POLLIN };
	do {
		code = show(&cfg, cfg.watch && !cfg.json && isatty(STDOUT_FILENO));
	} while (cfg.watch && !cancel__pending() && !ferror(stdout) && poll(&p, 1, WATCH_MS) <= 0);
	if (cfg.watch && cancel__take())
		return EXIT_DONE;
	return code;
}
