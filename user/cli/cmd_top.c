/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ptbpf top: a live view. It records nothing itself: it shows what `ptbpf frames` makes, which is
 * started by exec, and ends when this process ends, in whatever way.
 */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/top.h"
#include "cli/top_term.h"
#include "cli/which.h"
#include "record/targets.h"
#include "sample/child.h"
#include "sample/sample.h"
#include "target/proc_info.h"

#define MESSAGE_NS 10000000000ULL /* it is shown for that long */
#define MESSAGES 4                /* that are printed at the end */

struct top_opts_cfg {
	struct top_cfg top; /* first: its rows have offsets in it */
	bool once, json;
};

/* clang-format off */
static const struct opt_def shared_opts[] = {
	TOP_OPTS,
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};

static const struct opt_def top_opts[] = {
	TOP_OPTS,
	{ OPT_FLAG, 0, "once", offsetof(struct top_opts_cfg, once), NULL,
	  "print one interval as text, and end" },
	{ OPT_FLAG, 0, "json", offsetof(struct top_opts_cfg, json), NULL,
	  "with --once: print JSON instead of text" },
	EXPERT_OPTS,
	{ OPT_GROUP, 0, NULL, 0, NULL, NULL },
};
/* clang-format on */

const struct cmd_usage top_usage = {
	.name = "top",
	.synopsis = "[PID] [options]",
	.summary =
		"Shows what a process does now: operators, lines of Python and threads by their time, steps a second, what threads\n"
		"wait for, the GIL, memory, GPUs, and what ptbpf itself costs. It samples stacks and uses the agent where there is one.\n"
		"Operators are recorded for an interval on request, without one if the process has an agent. h shows the keys. Where\n"
		"standard output is no terminal it prints each interval as lines of text.",
	.examples = "  sudo ptbpf top\n"
		    "  sudo ptbpf top 4242 --interval 5s\n"
		    "  sudo ptbpf top 4242 --once --json | jq '.threads[0]'\n",
	.opts = top_opts,
	.pids = true,
};

struct top {
	struct top_opts_cfg cfg;
	struct top_view view;
	bool screen; /* standard output is a terminal */
	struct child child;
	int messages;                               /* where its messages come from; -1: closed */
	char partial[512];                          /* of a message, what has come of its line */
	char last[MESSAGES][256];                   /* messages, */
	uint32_t message_cnt;                       /* of so many in all, */
	uint64_t message_ns;                        /* when the last one came */
	int memory;                                 /* that the child writes frames to */
	struct top_frame *frame, *operators, *next; /* operators: the last with any */
	bool any, any_operators, ended, restart, quit;
	bool unlimited; /* --max-overhead off */
	bool restarted; /* since the last frame */
	bool stopping;  /* the child was sent SIGTERM: its messages about that are not shown */
	uint64_t operators_ns, last_ns, own_ns; /* last_ns: when a frame came */
};

/* ---- the child ---- */

static int start(struct top *t)
{
	const struct pid_list *pids = &t->cfg.top.run.pids;
	struct words words = { .cnt = 0 };
	int err;

	words__add(&words, "ptbpf");
	words__add(&words, "frames");
	for (uint32_t i = 0; i < pids->cnt; i++)
		words__add(&words, "--pid=%d", pids->pids[i]);
	words__add(&words, "--interval=%.9fs", (double)t->cfg.top.interval_ns / 1e9);
	opts__words(shared_opts, NULL, &t->cfg, &words);
	err = child__start(&t->child, &words, t->memory);
	if (err) {
		pr_error("cannot start the recording: %s", errstr(err));
		return err;
	}
	if (t->screen) { /* they are shown on it */
		t->messages = t->child.messages.fd;
		t->child.messages.fd = -1;
	}
	t->partial[0] = '\0';
	t->restarted = t->any;
	t->restart = t->stopping = false;
	return 0;
}

/* After its SIGTERM, or its end. Its exit code, or minus a signal. */
static void read_messages(struct top *t);
static int end(struct top *t)
{
	int code;

	if (!t->child.pid)
		return EXIT_DONE;
	code = child__end(&t->child);
	read_messages(t);
	if (t->messages >= 0)
		close(t->messages);
	t->messages = -1;
	return code;
}

static void stop_child(struct top *t)
{
	t->stopping = true;
	if (t->child.pid)
		kill(t->child.pid, SIGTERM);
}

/* "ptbpf: pid 12: ...": without the name. */
static void take_message(struct top *t, const char *line)
{
	static const char name[] = "ptbpf: ";

	if (t->stopping)
		return;
	if (!strncmp(line, name, sizeof(name) - 1))
		line += sizeof(name) - 1;
	snprintf(t->last[t->message_cnt++ % MESSAGES], sizeof(t->last[0]), "%.*s",
		 (int)sizeof(t->last[0]) - 1, line);
	t->message_ns = clock__mono_ns();
}

static void read_messages(struct top *t)
{
	size_t len = strlen(t->partial);
	char *end;
	ssize_t n;

	while (t->messages >= 0 &&
	       (n = read(t->messages, t->partial + len, sizeof(t->partial) - 1 - len)) > 0) {
		t->partial[len + (size_t)n] = '\0';
		while ((end = strchr(t->partial, '\n'))) {
			*end = '\0';
			take_message(t, t->partial);
			memmove(t->partial, end + 1, strlen(end + 1) + 1);
		}
		len = strlen(t->partial);
		if (len == sizeof(t->partial) - 1) /* of a longer one the begin is enough */
			len = 0;
	}
}

/*
 * Their probes have cost what they may, or the agent, whose cost is not known, has recorded them
 * for an interval: a recording without them goes on.
 */
static void end_operators(struct top *t, const struct top_frame *f)
{
	for (uint32_t i = 0; i < f->process_cnt; i++)
		if (!f->processes[i].agent && f->processes[i].operators_ns >= f->window_ns)
			return;
	if (!t->cfg.top.operators || t->restart || t->unlimited)
		return;
	t->cfg.top.operators = false;
	t->restart = true;
	stop_child(t);
}

/* What the child does not know: the time of this process, and what went by without one. */
static void add_own(struct top *t, struct top_frame *f)
{
	uint64_t now = clock__mono_ns(), cpu = clock__cpu_ns();
	uint64_t since = now - t->last_ns;

	f->own_ns += cpu - t->own_ns;
	t->own_ns = cpu;
	t->view.missed_ns = t->restarted && since > f->wall_ns ? since - f->wall_ns : 0;
	t->restarted = false;
	t->last_ns = now;
}

/* False: nothing new has come. */
static bool take_frame(struct top *t, uint32_t slot)
{
	struct top_frame *f = t->next;
	ssize_t n = pread(t->memory, f, sizeof(*f), (off_t)(slot % 2 * sizeof(*f)));

	if (n < 0 || !top_frame__check(f, (size_t)n))
		return false;
	add_own(t, f);
	if (top__operators_ns(f)) {
		*t->operators = *f;
		t->any_operators = true;
		t->view.recording = false;
		t->operators_ns = clock__mono_ns();
	}
	end_operators(t, f);
	if (t->view.paused)
		return false;
	if (!t->any && !top__operators_ns(f) && !t->cfg.top.operators)
		t->view.kind = TOP_LINES;
	t->next = t->frame;
	t->frame = f;
	t->any = true;
	return true;
}

/* True: a new frame is to be shown. */
static bool read_child(struct top *t)
{
	const char *event;
	bool fresh = false;
	cJSON *line;

	while ((line = child__read(&t->child, &event))) {
		if (!strcmp(event, "frame"))
			fresh = take_frame(t, (uint32_t)line__u64(line, "slot")) || fresh;
		else if (!strcmp(event, "ended"))
			t->ended = true;
		cJSON_Delete(line);
	}
	read_messages(t);
	return fresh;
}

/* ---- what is shown ---- */

static void set_view(struct top *t)
{
	struct top_view *v = &t->view;
	uint64_t now = clock__mono_ns();
	time_t wall = time(NULL);
	struct tm tm;

	strftime(v->clock, sizeof(v->clock), "%H:%M:%S", localtime_r(&wall, &tm));
	v->interval_ns = t->cfg.top.interval_ns;
	v->message[0] = '\0';
	if (t->message_cnt && now - t->message_ns < MESSAGE_NS)
		memcpy(v->message, t->last[(t->message_cnt - 1) % MESSAGES], sizeof(v->message));
	v->operators = t->any_operators ? t->operators : NULL;
	v->operators_age_ns = t->any && top__operators_ns(t->frame) ? 0 : now - t->operators_ns;
}

static void draw(struct top *t)
{
	size_t len = 0;
	char *text = NULL;
	FILE *f;

	set_view(t);
	top_term__size(&t->view.width, &t->view.height);
	f = xmemstream(&text, &len);
	top__draw(f, &t->view, t->any ? t->frame : NULL);
	fclose(f);
	top_term__show(text, len);
	free(text);
}

static int print(struct top *t)
{
	set_view(t);
	if (t->cfg.json)
		return top__json(&t->view, t->frame);
	t->view.width = terminal__columns(STDOUT_FILENO) ?: terminal__assumed();
	top__draw(stdout, &t->view, t->frame);
	if (!t->cfg.once)
		putchar('\n');
	t->quit |= fflush(stdout) && errno == EPIPE; /* nobody reads it any more */
	return std_out__end("the screen", 0);
}

/* ---- keys ---- */

static void press(struct top *t, int key)
{
	const struct top_frame *f =
		t->view.kind == TOP_OPERATORS && t->any_operators ? t->operators : t->frame;
	uint32_t rows = t->any ? top__rows(&t->view, f) : 0;
	char note[64];

	switch (top_keys__press(&t->view, rows, key)) {
	case TOP_QUIT:
		t->quit = true;
		break;
	case TOP_INTERVAL:
		t->cfg.top.interval_ns = t->view.interval_ns;
		snprintf(note, sizeof(note), "interval %" PRIu64 "\n", t->view.interval_ns);
		child__note(&t->child, note);
		break;
	case TOP_RECORD_OPERATORS:
		t->cfg.top.operators = t->restart = true;
		stop_child(t);
		break;
	case TOP_NOTHING:
		break;
	}
}

static bool read_keys(struct top *t)
{
	int keys[64];
	uint32_t cnt = top_term__keys(keys, 64);

	for (uint32_t i = 0; i < cnt; i++)
		press(t, keys[i]);
	return cnt > 0;
}

/* ---- the loop ---- */

/* SIGTSTP: nothing is attached while it is stopped. SIGSTOP is not announced, and the recording has
 * noticed. */
static int begin_again(struct top *t, bool stop)
{
	top_term__close();
	stop_child(t);
	end(t);
	if (stop)
		top_term__stop();
	top_term__open();
	return start(t);
}

static void wait_events(const struct top *t)
{
	struct pollfd p[] = { { .fd = cancel__fd(), .events = POLLIN },
			      { .fd = t->child.progress.fd, .events = POLLIN },
			      { .fd = t->messages, .events = POLLIN },
			      { .fd = t->screen && top_term__has_keys() ? STDIN_FILENO : -1,
				.events = POLLIN } };

	poll(p, 4, 1000);
}

/* A round. True: it goes on. */
static bool step(struct top *t, int *code)
{
	bool fresh, ended = child__ended(&t->child), pressed;

	fresh = read_child(t);
	pressed = t->screen && read_keys(t);
	if (fresh && !t->screen) {
		*code = print(t) ? EXIT_FAILED : EXIT_DONE;
		t->quit |= t->cfg.once || *code;
	}
	if (t->screen && (fresh || pressed || top_term__resized() || !t->view.paused))
		draw(t);
	if (t->quit || cancel__pending())
		return false;
	if (t->screen && (top_term__wants_stop() || top_term__continued()))
		return !begin_again(t, top_term__wants_stop());
	if (!ended)
		return true;
	if (t->restart) {
		end(t);
		return !start(t);
	}
	return false;
}

/* Without a recording that would have said so. */
static bool have_gone(const struct pid_list *pids)
{
	for (uint32_t i = 0; i < pids->cnt; i++) {
		char state = proc__state(pids->pids[i]);

		if (state && state != 'Z')
			return false;
	}
	return true;
}

/* Why it ended, after the terminal is as it was. Exit code. */
static int conclude(struct top *t, int code)
{
	uint32_t first = t->message_cnt > MESSAGES ? t->message_cnt - MESSAGES : 0;
	int child;

	top_term__close();
	stop_child(t);
	child = end(t);
	if (t->quit)
		return code;
	if (cancel__pending())
		return t->any ? EXIT_DONE : EXIT_FAILED;
	for (uint32_t i = first; i < t->message_cnt; i++)
		pr_info("%s", t->last[i % MESSAGES]);
	if (t->ended || (t->restarted && have_gone(&t->cfg.top.run.pids))) {
		pr_info("%s ended",
			t->cfg.top.run.pids.cnt == 1 ? "the process has" : "the processes have");
		return t->any || !t->cfg.once ? EXIT_DONE : EXIT_FAILED;
	}
	if (child < 0)
		pr_error("the recording was ended by signal %d", -child);
	return child ? EXIT_FAILED : EXIT_DONE;
}

static int run(struct top *t)
{
	int code = EXIT_DONE;

	t->memory = memfd_create("frames", MFD_CLOEXEC);
	if (t->memory < 0) {
		pr_error("no memory for what is shown: %s", errstr(errno));
		return EXIT_FAILED;
	}
	t->frame = xcalloc(1, sizeof(*t->frame));
	t->operators = xcalloc(1, sizeof(*t->operators));
	t->next = xcalloc(1, sizeof(*t->next));
	if (start(t))
		return EXIT_FAILED;
	if (t->screen)
		top_term__open();
	while (step(t, &code))
		wait_events(t);
	code = conclude(t, code);
	free(t->frame);
	free(t->operators);
	free(t->next);
	close(t->memory);
	return code;
}

/* A terminal whose screen can be replaced. */
static bool has_screen(void)
{
	const char *term = getenv("TERM");

	return terminal__columns(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

int cmd_top(int argc, char **argv)
{
	static struct top t = { .cfg.top.interval_ns = TOP_INTERVAL_NS, .messages = -1 };
	struct top_cfg *cfg = &t.cfg.top;
	int n = opts__parse(&top_usage, &t.cfg, argc, argv, NULL), code;
	double share;

	if (n < 0)
		return n == OPTS_HELP ? EXIT_DONE : EXIT_USAGE;
	if (t.cfg.json && !t.cfg.once) {
		pr_error("top: --json needs --once");
		return EXIT_USAGE;
	}
	if (cfg->interval_ns < TOP_INTERVAL_MIN_NS || cfg->interval_ns > TOP_INTERVAL_MAX_NS) {
		pr_error("top: --interval: valid values are 200ms to 60s");
		return EXIT_USAGE;
	}
	if (live__parse_overhead("top", cfg->max_overhead ? cfg->max_overhead : MAX_OVERHEAD,
				 &share) ||
	    live__check(&cfg->run))
		return EXIT_USAGE;
	if (run__check())
		return EXIT_FAILED;
	if (!cfg->run.pids.cnt) {
		cfg->run.pids.cnt = 1;
		code = which__only("top", cfg->run.pids.pids);
		if (code)
			return code;
	}
	t.unlimited = share <= 0;
	for (uint32_t i = 0; i < cfg->run.pids.cnt;
	     i++) /* to begin with, since no probe is needed */
		cfg->operators |= target_agent__is_awake(cfg->run.pids.pids[i]);
	t.screen = !t.cfg.once && has_screen();
	t.view.colour = t.screen && terminal__colour(STDOUT_FILENO);
	return run(&t);
}
