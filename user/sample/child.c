/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Another ptbpf, started by exec; see child.h. */
#define LOG_DOMAIN "sample"
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/containers.h"
#include "base/log.h"
#include "base/mem.h"
#include "sample/daemon.h"
#include "target/proc.h"

#define LINE_MAX_BYTES (16u << 20) /* a longer line is no line of ptbpf */
#define PROGRESS_FD 3              /* as the child has them */
#define NOTES_FD 4
#define END_POLL_MS 5

void words__add(struct words *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vec_push(w->list, w->cnt, w->cap, xvasprintf(fmt, ap));
	va_end(ap);
	vec_push(w->list, w->cnt, w->cap, NULL);
	w->cnt--;
}

void words__copy(struct words *w, const struct words *from)
{
	for (uint32_t i = 0; i < from->cnt; i++)
		words__add(w, "%s", from->list[i]);
}

void words__free(struct words *w)
{
	for (uint32_t i = 0; i < w->cnt; i++)
		free(w->list[i]);
	free(w->list);
	*w = (struct words){ .cnt = 0 };
}

/* ---- the start ---- */

/* [0] is the end of this process, [1] that of the child. */
struct pipes {
	int progress[2], messages[2], notes[2];
};

static void close_ends(const struct pipes *p, int end)
{
	const int fds[] = { p->progress[end], p->messages[end], p->notes[end] };

	for (size_t i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int open_pipes(struct pipes *p)
{
	int notes[2];

	*p = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (pipe2(p->progress, O_CLOEXEC) || pipe2(p->messages, O_CLOEXEC) ||
	    pipe2(notes, O_CLOEXEC))
		return -errno;
	p->notes[0] = notes[1];
	p->notes[1] = notes[0];
	return fcntl(p->progress[0], F_SETFL, O_NONBLOCK) ||
			       fcntl(p->messages[0], F_SETFL, O_NONBLOCK) ||
			       fcntl(p->notes[0], F_SETFL, O_NONBLOCK) ?
		       -errno :
		       0;
}

/* Own process group: Ctrl-C goes to ptbpf sample alone, which lets a window end. */
static _Noreturn void run_child(const struct pipes *p, char **argv, int keep, pid_t parent)
{
	/* above those that they become */
	int progress = fcntl(p->progress[1], F_DUPFD, 10), notes = fcntl(p->notes[1], F_DUPFD, 10),
	    kept = keep >= 0 ? fcntl(keep, F_DUPFD, 10) : -1;

	cancel__child();
	setpgid(0, 0);
	if (progress >= 0 && notes >= 0 && dup2(p->messages[1], STDERR_FILENO) >= 0 &&
	    dup2(progress, PROGRESS_FD) >= 0 && dup2(notes, NOTES_FD) >= 0 &&
	    (kept < 0 || dup2(kept, CHILD_KEPT_FD) >= 0) &&
	    !syscall(SYS_close_range, kept < 0 ? CHILD_KEPT_FD : CHILD_KEPT_FD + 1, ~0U,
		     CLOSE_RANGE_CLOEXEC) &&
	    !prctl(PR_SET_PDEATHSIG, SIGTERM) && getppid() == parent)
		execv("/proc/self/exe", argv);
	pr_error("cannot start another ptbpf: %s", errstr(errno));
	_exit(1);
}

int child__start(struct child *c, struct words *words, int keep)
{
	pid_t parent = getpid(), pid = -1;
	struct pipes p;
	int err = open_pipes(&p);

	words__add(words, "--progress-fd=%d", PROGRESS_FD);
	words__add(words, "--notes-fd=%d", NOTES_FD);
	if (!err) {
		fflush(NULL);
		pid = fork();
		err = pid < 0 ? -errno : 0;
	}
	if (!pid)
		run_child(&p, words->list, keep, parent);
	words__free(words);
	close_ends(&p, 1);
	if (err) {
		close_ends(&p, 0);
		return err;
	}
	*c = (struct child){ .pid = pid,
			     .pidfd = pid_hold__open(pid),
			     .notes = p.notes[0],
			     .progress = { .fd = p.progress[0] },
			     .messages = { .fd = p.messages[0] } };
	return 0;
}

bool child__note(struct child *c, const char *text)
{
	ssize_t len = (ssize_t)strlen(text);

	return c->notes >= 0 && write(c->notes, text, (size_t)len) == len;
}

void child__end_notes(struct child *c)
{
	if (c->notes >= 0)
		close(c->notes);
	c->notes = -1;
}

/* ---- a line ---- */

static double number(const cJSON *line, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);

	return cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : 0;
}

static uint64_t whole(double v)
{
	return v <= 0 ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

uint64_t line__number(const cJSON *n)
{
	return cJSON_IsNumber(n) ? whole(n->valuedouble) : 0;
}

uint64_t line__u64(const cJSON *line, const char *key)
{
	return whole(number(line, key));
}

uint64_t line__ns(const cJSON *line, const char *key)
{
	return whole(number(line, key) * 1e9 + 0.5);
}

bool line__bool(const cJSON *line, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, key));
}

void line__text(const cJSON *line, const char *key, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s",
		 cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key)) ?: "");
}

/* ---- what comes from it ---- */

/* Reads what is there, as far as a line may be long. */
static void fill(struct child_pipe *p)
{
	ssize_t n = 1;

	if (p->at) {
		memmove(p->buf, p->buf + p->at, p->len - p->at);
		p->len -= p->at;
		p->at = 0;
	}
	while (p->fd >= 0 && n > 0) {
		if (p->cap - p->len < 4096 && p->cap >= LINE_MAX_BYTES)
			break;
		if (p->cap - p->len < 4096)
			vec_reserve((void **)&p->buf, &p->cap, p->cap + 8192, 1);
		n = read(p->fd, p->buf + p->len, p->cap - p->len - 1);
		if (n > 0)
			p->len += (uint32_t)n;
	}
	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		close(p->fd);
		p->fd = -1;
	}
}

/* The next line, without its end; NULL: there is none. */
static char *next_line(struct child_pipe *p)
{
	char *line = p->buf ? p->buf + p->at : NULL, *end;

	end = line ? memchr(line, '\n', p->len - p->at) : NULL;
	if (!end)
		return NULL;
	*end = '\0';
	p->at += (uint32_t)(end - line) + 1;
	return line;
}

static void print_messages(struct child *c)
{
	char *line;

	if (c->messages.fd >= 0)
		fill(&c->messages);
	while ((line = next_line(&c->messages)))
		log__forward(line);
}

cJSON *child__read(struct child *c, const char **event)
{
	cJSON *json = NULL;
	char *line;

	if (!c->pid)
		return NULL;
	print_messages(c);
	if (!(line = next_line(&c->progress)) && c->progress.fd >= 0) {
		fill(&c->progress);
		line = next_line(&c->progress);
	}
	for (; line && !(json = cJSON_Parse(line)); line = next_line(&c->progress))
		pr_debug("a line of another ptbpf is not valid: %.100s", line);
	*event = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "event")) ?: "";
	if (!strcmp(*event, "stuck"))
		c->stuck = (pid_t)number(json, "pid");
	return json;
}

bool child__ended(const struct child *c)
{
	return !c->pid || c->stuck || !pid_hold__alive(c->pidfd);
}

int child__end(struct child *c)
{
	int status = 0, code = CHILD_STUCK;
	const char *event;
	cJSON *line;
	pid_t got;

	/* what it still reports has to be read, or it could wait for that */
	while (!(got = waitpid(c->pid, &status, WNOHANG)) && !c->stuck) {
		while ((line = child__read(c, &event)))
			cJSON_Delete(line);
		poll(NULL, 0, END_POLL_MS);
	}
	if (got == c->pid)
		code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	print_messages(c);
	child__end_notes(c);
	if (c->progress.fd >= 0)
		close(c->progress.fd);
	if (c->messages.fd >= 0)
		close(c->messages.fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c->progress.buf);
	free(c->messages.buf);
	*c = (struct child){ .stuck = c->stuck };
	return code;
}
