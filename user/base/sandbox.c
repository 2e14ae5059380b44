/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parent's side: starts the child, collects its answer and its messages, ends it. See sandbox.h. */
#define LOG_DOMAIN "sandbox"
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sandbox_priv.h"
#include "base/term_text.h"
#include "base/vec.h"

#define SAID_MAX 65536 /* bytes of messages from one child */
#define READ_SZ 65536
#define EXIT_REFUSED 255      /* errno values are smaller: the child could not lock itself in */
#define IDLE_MS 5             /* how often other work goes on meanwhile */
#define REAP_NS 2000000000ULL /* for the end of a child that was killed or closed its pipes */

static void (*idle_fn)(void *arg);
static void *idle_arg;

void sandbox__set_idle(void (*fn)(void *arg), void *arg)
{
	idle_fn = fn;
	idle_arg = arg;
}

struct stream {
	int fd; /* -1: at its end */
	uint8_t *data;
	uint32_t cap;
	size_t len, max;
};

struct running {
	const struct sandbox_job *job;
	pid_t pid;
	struct stream out, said;
};

/* ---- in the child ---- */

static int write_all(int fd, const uint8_t *data, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static void default_signals(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGPIPE };
	sigset_t none;
	size_t i;

	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		signal(faults[i], SIG_DFL);
	cancel__child();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child(const struct sandbox_job *job, int out_fd, int said_fd, pid_t parent)
{
	uint8_t *out = NULL;
	size_t len = 0;
	int err;

	default_signals();
	if (dup2(said_fd, STDERR_FILENO) < 0)
		_exit(EXIT_REFUSED);
	err = sandbox_enter(job, out_fd, parent);
	if (err) {
		pr_error("cannot drop privileges to analyse %s: %s", job->what, errstr(err));
		_exit(EXIT_REFUSED);
	}
	err = job->fn(job->arg, &out, &len);
	if (!err)
		err = write_all(out_fd, out, len);
	_exit(-err >= 0 && -err < EXIT_REFUSED ? -err : EIO);
}

/* ---- in the parent ---- */

static void stream__close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Takes what is there. 0; -E2BIG; another negative errno. */
static int stream__read(struct stream *s)
{
	ssize_t n;

	if (s->len > s->max)
		return -E2BIG;
	if (vec_reserve((void **)&s->data, &s->cap, s->len + READ_SZ + 1, 1)) /* and an end, for print_said() */
		return -ENOMEM;
	n = read(s->fd, s->data + s->len, READ_SZ);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (!n)
		stream__close(s);
	s->len += (size_t)n;
	return s->len > s->max ? -E2BIG : 0;
}

static int start(struct running *r)
{
	pid_t parent = getpid();
	int out[2], said[2], err;

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	if (pipe2(said, O_CLOEXEC)) {
		err = -errno;
		close(out[0]);
		close(out[1]);
		return err;
	}
	fflush(NULL);
	r->pid = fork();
	if (!r->pid)
		child(r->job, out[1], said[1], parent);
	err = r->pid < 0 ? -errno : 0;
	close(out[1]);
	close(said[1]);
	r->out = (struct stream){ .fd = out[0], .max = r->job->limits.out_bytes };
	r->said = (struct stream){ .fd = said[0], .max = SAID_MAX };
	return err;
}

/* Until both pipes are at their ends, which is when the child ends. 0 or negative errno: it must be killed. */
static int collect(struct running *r)
{
	uint64_t end = clock__mono_ns() + r->job->limits.wall_ms * 1000000ull, now;
	struct pollfd p[3] = { [2] = { .fd = cancel__fd(), .events = POLLIN } };
	int err = 0, n;

	while (!err && (r->out.fd >= 0 || r->said.fd >= 0)) {
		now = clock__mono_ns();
		if (now >= end)
			return -ETIMEDOUT;
		p[0] = (struct pollfd){ .fd = r->out.fd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = r->said.fd, .events = POLLIN };
		n = poll(p, 3, idle_fn ? IDLE_MS : (int)((end - now) / 1000000) + 1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (idle_fn)
			idle_fn(idle_arg);
		if (cancel__pending())
			return -ECANCELED;
		if (n > 0 && p[0].revents)
			err = stream__read(&r->out);
		if (n > 0 && p[1].revents && !err)
			err = stream__read(&r->said);
	}
	return err;
}

/* The child's own messages, which the input may have written. */
static void print_said(struct stream *s)
{
	char line[2048], *p = (char *)s->data, *end;

	if (!s->len)
		return;
	p[s->len < SAID_MAX ? s->len : SAID_MAX] = '\0';
	for (; p && *p; p = end) {
		end = strchr(p, '\n');
		if (end)
			*end++ = '\0';
		fprintf(stderr, "%s\n", term_text__copy(line, sizeof(line), p));
	}
}

static int stopped(const struct running *r, int err)
{
	const struct sandbox_limits *l = &r->job->limits;

	if (err == -ETIMEDOUT)
		pr_error("the analysis of %s took longer than %u s and was "
			 "stopped",
			 r->job->what, l->wall_ms / 1000);
	else if (err == -E2BIG)
		pr_error("the analysis of %s returned more than %zu bytes and was "
			 "stopped",
			 r->job->what, l->out_bytes);
	return err;
}

/* How the child ended by itself. */
static int verdict(const struct running *r, int status)
{
	const char *what = r->job->what;
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED)
		return -EPERM;
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	if (sig == SIGXCPU) {
		pr_error("the analysis of %s took more than %u s of processor time and was stopped",
			 what, r->job->limits.cpu_s);
		return -ETIMEDOUT;
	}
	pr_error("the analysis of %s was ended by signal %d: a file is damaged, or was truncated "
		 "while it was read",
		 what, sig);
	return -EIO;
}

/* One that waits for a file system that does not answer does not even end by SIGKILL, before that does. */
static int reap(const struct running *r, int *status)
{
	const struct timespec nap = { .tv_nsec = 500000 };
	uint64_t end = clock__mono_ns() + REAP_NS;
	pid_t pid;

	while ((pid = waitpid(r->pid, status, WNOHANG)) != r->pid) {
		if (pid < 0 && errno != EINTR)
			return -errno;
		if (clock__mono_ns() > end) {
			pr_error("the process that analyses %s does not exit: a file system does "
				 "not respond",
				 r->job->what);
			return -ETIMEDOUT;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

int sandbox__run(const struct sandbox_job *job, uint8_t **out, size_t *len)
{
	struct running r = { .job = job };
	int err, reaped, status = 0;

	*out = NULL;
	*len = 0;
	if (cancel__pending())
		return -ECANCELED;
	err = start(&r);
	if (!err) {
		err = collect(&r);
		if (err)
			kill(r.pid, SIGKILL);
		reaped = reap(&r, &status);
		print_said(&r.said);
		err = err ? stopped(&r, err) : reaped ? reaped : verdict(&r, status);
	}
	stream__close(&r.out);
	stream__close(&r.said);
	free(r.said.data);
	if (err) {
		free(r.out.data);
		return err;
	}
	*out = r.out.data;
	*len = r.out.len;
	return 0;
}
