/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ptbpf trigger: requests a window of a running `ptbpf sample`. */
#define LOG_DOMAIN "trigger"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cmd.h"
#include "cli/control_client.h"
#include "report/report.h"

#define PATH_CHARS 4096

struct trigger_cfg {
	struct pid_list pids;
	uint64_t duration_ns;
	const char *start_at, *toggle, *dir, *control;
	bool wait, json;
};

static const struct opt_def trigger_opts[] = {
	{ OPT_GROUP, 0, "", 0, NULL, "window" },
	{ OPT_PIDS, 'p', "pid", offsetof(struct trigger_cfg, pids), "PID[,PID...]",
	  "of these processes (default: those that ptbpf sample selects now)" },
	{ OPT_DURATION, 'd', "duration", offsetof(struct trigger_cfg, duration_ns), "TIME",
	  "its length (default: active of the schedule; 5s if that has no time)" },
	{ OPT_STR, 0, "start-at", offsetof(struct trigger_cfg, start_at), "UNIX_MS",
	  "begin at this Unix time in milliseconds, at most an hour ahead (default: now)" },
	{ OPT_FLAG, 0, "wait", offsetof(struct trigger_cfg, wait), NULL,
	  "wait for its end; print its files, and end with its exit code" },
	{ OPT_FLAG, 0, "json", offsetof(struct trigger_cfg, json), NULL,
	  "print the answer as JSON, in one line" },
	{ OPT_GROUP, 0, "", 0, NULL, "instead of a window" },
	{ OPT_STR, 0, "toggle", offsetof(struct trigger_cfg, toggle), "LIST",
	  "switch activities on or off, as in cpu=off or cpu=on,cuda=off, in all windows that are started from now on, not in the one in hand" },
	CONTROL_OPTS(struct trigger_cfg),
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

const struct cmd_usage trigger_usage = {
	.name = "trigger",
	.synopsis = "[PID[,PID...] | --toggle LIST] [options]",
	.summary =
		"Requests a window of a running ptbpf sample, beside those of its schedule, and prints its number. Windows do\n"
		"not overlap: while one is recorded, the request is refused. With --toggle changes what its windows record.",
	.examples = "  sudo ptbpf trigger --wait\n"
		    "  sudo ptbpf trigger 4242 --dir /var/lib/ptbpf -d 2s\n"
		    "  sudo ptbpf trigger --start-at $(date -d '+10 seconds' +%s000)\n"
		    "  sudo ptbpf trigger --toggle cuda=off\n",
	.opts = trigger_opts,
	.pids = true,
};

/* The only one that runs. 0 or negative errno (reported). */
static int find_socket(char path[CONTROL_PATH_MAX])
{
	static char paths[CONTROL_SOCKETS_MAX][CONTROL_PATH_MAX];
	int n = control_socket__list(paths), live = 0, last = -ENOENT;

	for (int i = 0; i < n; i++) {
		int fd = control_socket__connect(paths[i]);

		if (fd < 0) {
			last = fd == -ECONNREFUSED ? last : fd;
			continue;
		}
		close(fd);
		if (!live++)
			memcpy(path, paths[i], CONTROL_PATH_MAX);
	}
	if (live == 1)
		return 0;
	if (live) {
		pr_error(
			"%d ptbpf sample run: name one with --dir or --control; 'ptbpf status' lists them",
			live);
		return -EINVAL;
	}
	pr_error("no ptbpf sample can be reached in " CONTROL_DIR ": %s",
		 control_client__why(n < 0 ? n : last));
	return last;
}

static void print_path(const cJSON *line, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key));

	if (!text)
		return;
	cell__put_text(stdout, text, PATH_CHARS);
	putchar('\n');
}

static double number(const cJSON *line, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);

	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

/* Of the window's line in the log. Exit code. */
static int print_ended(const cJSON *line)
{
	const char *why =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "incomplete"));
	int code = (int)number(line, "exit");

	printf("window %.0f: ", number(line, "window"));
	if (cJSON_GetObjectItemCaseSensitive(line, "slices"))
		printf("%.2f s, %s slices, lost %.0f", number(line, "seconds"),
		       cell__count((uint64_t)number(line, "slices")).text, number(line, "lost"));
	else
		printf("not recorded");
	if (why) {
		printf("; incomplete: ");
		cell__put_text(stdout, why, 256);
	}
	putchar('\n');
	print_path(line, "capture");
	print_path(line, "trace");
	return code == EXIT_DONE || code == EXIT_INCOMPLETE ? code : EXIT_FAILED;
}

static void print_toggled(const cJSON *answer)
{
	const char *off = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "off"));

	printf("from window %.0f on: ", number(answer, "from_window"));
	fputs(off ? "without " : "all activities", stdout);
	if (off)
		cell__put_text(stdout, off, 8);
	putchar('\n');
}

/* Exit code. */
static int print_answer(const struct trigger_cfg *cfg, const struct control_answer *a)
{
	const cJSON *ended = cJSON_GetObjectItemCaseSensitive(a->tree, "ended");

	if (cfg->json)
		puts(a->text);
	if (!control_client__ok(a->tree)) {
		pr_error("%s", control_client__error(a->tree));
		return EXIT_FAILED;
	}
	if (cfg->json)
		return ended ? (int)number(ended, "exit") : EXIT_DONE;
	if (cfg->toggle) {
		print_toggled(a->tree);
		return EXIT_DONE;
	}
	printf("window %.0f\n", number(a->tree, "window"));
	return ended ? print_ended(ended) : EXIT_DONE;
}

/* Exit code. */
static int ask(const struct trigger_cfg *cfg, const struct control_request *rq, const char *path)
{
	struct control_answer a;
	struct jsonw_text body;
	int err, code;

	control_request__write(rq, &body);
	err = control_client__ask(path, cfg->toggle ? "POST /toggle" : "POST /trigger", body.text,
				  -1, &a);
	if (err == -ECANCELED && cfg->wait)
		pr_info("the window goes on");
	else if (err)
		pr_error("'%s': %s", path, control_client__why(err));
	if (err)
		return EXIT_FAILED;
	code = print_answer(cfg, &a);
	control_answer__free(&a);
	return code;
}

/* "cpu=off,cuda=on", each at most once. */
static bool parse_toggle(const char *list, struct control_request *rq)
{
	static const struct {
		const char *text;
		bool cuda;
		enum control_switch to;
	} items[] = { { "cpu=on", false, SWITCH_ON },
		      { "cpu=off", false, SWITCH_OFF },
		      { "cuda=on", true, SWITCH_ON },
		      { "cuda=off", true, SWITCH_OFF } };
	size_t len, i;

	for (const char *at = list; *at; at += len + (at[len] == ',')) {
		enum control_switch *to;

		len = strcspn(at, ",");
		for (i = 0;
		     i < 4 && (strlen(items[i].text) != len || memcmp(items[i].text, at, len)); i++)
			;
		if (i == 4)
			return false;
		to = items[i].cuda ? &rq->cuda : &rq->cpu;
		if (*to)
			return false;
		*to = items[i].to;
	}
	return rq->cpu || rq->cuda;
}

/* Unix time in ms. */
static bool parse_time(const char *text, uint64_t *ns)
{
	size_t len = strspn(text, "0123456789");

	if (!len || len > 13 || text[len])
		return false;
	*ns = strtoull(text, NULL, 10) * 1000000;
	return *ns > 0;
}

/* What does not go together, or has no such value, is reported. False: so it is. */
static bool make_request(const struct trigger_cfg *cfg, struct control_request *rq)
{
	if (cfg->start_at && !parse_time(cfg->start_at, &rq->start_real_ns)) {
		pr_error("trigger: '%s' is not a valid value for --start-at (1767225600000)",
			 cfg->start_at);
		return false;
	}
	if (cfg->toggle && !parse_toggle(cfg->toggle, rq)) {
		pr_error("trigger: '%s' is not a valid value for --toggle (cpu=off,cuda=on)",
			 cfg->toggle);
		return false;
	}
	if (cfg->toggle && (cfg->pids.cnt || cfg->duration_ns || cfg->start_at || cfg->wait)) {
		pr_error(
			"trigger: --toggle opens no window: it excludes --pid, --duration, --start-at and --wait");
		return false;
	}
	rq->what = cfg->toggle ? CONTROL_TOGGLE : CONTROL_TRIGGER;
	rq->duration_ns = cfg->duration_ns;
	rq->wait = cfg->wait;
	rq->pid_cnt = cfg->pids.cnt;
	memcpy(rq->pids, cfg->pids.pids, sizeof(*rq->pids) * cfg->pids.cnt);
	return true;
}

int cmd_trigger(int argc, char **argv)
{
	struct trigger_cfg cfg = { .start_at = NULL };
	struct control_request rq = { .what = CONTROL_TRIGGER };
	char path[CONTROL_PATH_MAX];
	int n = opts__parse(&trigger_usage, &cfg, argc, argv, NULL), err, code;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (!make_request(&cfg, &rq))
		return EXIT_USAGE;
	err = control_client__named(cfg.dir, cfg.control, path);
	if (err == -ENOENT)
		err = find_socket(path);
	if (err)
		return err == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	code = ask(&cfg, &rq, path);
	return std_out__end("the answer", 0) ? EXIT_FAILED : code;
}
