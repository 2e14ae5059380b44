/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loads a library by a script that CPython runs at a safe point of its own
 * (Doc/howto/remote_debugging.rst). The script is a file of root's in the target's /tmp; it runs in
 * a name space that the interpreter makes for it and throws away, and writes how it went into a
 * second file, of the target's user. Both are removed. When it is not run in time, it is withdrawn.
 */
#define LOG_DOMAIN "inject"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/proc_read.h"
#include "inject/inject_priv.h"
#include "target/proc.h"
#include "target/proc_info.h"

/* clang-format off */
/* with several threads the interpreter checks by itself before that */
#define EVAL_REQUEST_NS 50000000ULL
#define NAP_NS 1000000ULL
#define GRACE_NS 1000000000ULL  /* for a script that was taken but has not answered */
/* clang-format on */

/*
 * Bits of PyThreadState.eval_breaker (Include/internal/pycore_ceval.h, the same up to version 3.15;
 * a later one is not requested to check, but may do so by itself). Our change is not atomic: what
 * another thread sets or clears at that very moment is lost. So everything that others set is set:
 * signals, calls, exceptions, merges of reference counts where there is no GIL; the interpreter
 * checks and finds nothing to do. Only the request to drop the GIL is cleared: a thread that waits
 * for the GIL repeats it every 5 ms, while a false one would make this thread wait until another
 * takes the GIL (Python/ceval_gil.c, FORCE_SWITCHING).
 */
#define BITS_KNOWN_MINOR 15
#define GIL_DROP_REQUEST 0x01u
#define OTHERS_BITS 0x0eu
#define STOP_REQUESTED 0x20u
#define OTHERS_BITS_FREE_THREADED 0x40u

/* ---- the script ---- */

static void write_bytes(FILE *f, const char *text)
{
	fputs("b'", f);
	for (; *text; text++)
		fprintf(f, "\\x%02x", (unsigned char)*text);
	fputc('\'', f);
}

/* An interrupt from the keyboard that hits the script is passed on to the program. */
static void write_script(FILE *f, const char *lib, const char *answer)
{
	fputs("try:\n import posix as p\n try:\n  import _ctypes as c\n  c.dlopen(", f);
	write_bytes(f, lib);
	fputs(",2)\n  r='ok'\n except KeyboardInterrupt:raise\n"
	      " except BaseException as e:r='no '+type(e).__name__+': '+str(e)[:160]\n f=p.open(",
	      f);
	write_bytes(f, answer);
	fputs(",p.O_WRONLY|p.O_TRUNC|p.O_CLOEXEC|p.O_NOFOLLOW)\n"
	      " p.write(f,r.encode('utf-8','replace'))\n p.close(f)\n"
	      "except KeyboardInterrupt:\n import _thread as t\n t.interrupt_main()\n"
	      "except BaseException:pass\n",
	      f);
}

struct script {
	const char *lib; /* path of the library */
	struct root_temp text, answer;
};

static int script__write(void *arg, int to)
{
	struct script *s = arg;
	int err, fd = dup(to);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return -EMFILE;
	}
	write_script(f, s->lib, s->answer.path);
	err = ferror(f) ? -EIO : 0;
	if (fclose(f))
		err = -errno;
	return err ? err : fchmod(to, 0444) ? -errno : 0;
}

static int script__create(struct inject_job *job, struct script *s)
{
	int err;

	*s = (struct script){ .lib = job->path, .text = ROOT_TEMP_NONE, .answer = ROOT_TEMP_NONE };
	err = root_temp__create(job->pid, "ptbpf", ".txt", ROOT_TEMP_ANSWER, NULL, NULL,
				&s->answer);
	return err ? err :
		     root_temp__create(job->pid, "ptbpf", ".py", ROOT_TEMP_SCRIPT, script__write, s,
				       &s->text);
}

/* What the script said: false: nothing yet. */
static bool script__answer(const struct script *s, char *buf, size_t cap)
{
	ssize_t n = pread(s->answer.fd, buf, cap - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	return !strncmp(buf, "ok", 2) || !strncmp(buf, "no ", 3);
}

/* ---- the interpreter ---- */

static uint64_t pending_addr(const struct py_remote *pr)
{
	return pr->tstate + pr->off.support + pr->off.pending;
}

static uint64_t path_addr(const struct py_remote *pr)
{
	return pr->tstate + pr->off.support + pr->off.path;
}

static bool is_pending(pid_t pid, const struct py_remote *pr)
{
	int32_t v;

	return !remote__read(pid, pending_addr(pr), &v, sizeof(v)) && v == 1;
}

static int write_request(struct inject_job *job, const struct py_remote *pr, const struct script *s)
{
	int32_t one = 1;
	int err;

	if (strlen(s->text.path) + 1 > pr->off.path_size)
		return -ENAMETOOLONG;
	err = remote_mem__write(job->mem, path_addr(pr), s->text.path, strlen(s->text.path) + 1);
	return err ? err : remote_mem__write(job->mem, pending_addr(pr), &one, sizeof(one));
}

/* Makes the interpreter check for a script. Only the low byte: the rest is not about events. */
static void request_eval(struct inject_job *job, const struct py_remote *pr)
{
	uint64_t addr = pr->tstate + pr->off.eval_breaker;
	uint8_t bits;

	if (pr->off.minor > BITS_KNOWN_MINOR || remote__read(job->pid, addr, &bits, sizeof(bits)))
		return;
	bits &= (uint8_t)~GIL_DROP_REQUEST;
	bits |= (uint8_t)(STOP_REQUESTED | OTHERS_BITS |
			  (pr->off.free_threaded ? OTHERS_BITS_FREE_THREADED : 0));
	remote_mem__write(job->mem, addr, &bits, sizeof(bits));
}

/* True: it will not run. False: the interpreter has it already. */
static bool withdraw_request(struct inject_job *job, const struct py_remote *pr)
{
	int32_t none = 0;
	char empty = '\0';

	if (!is_pending(job->pid, pr))
		return false;
	/* a name first: with an empty one the interpreter does nothing, should it check right
	 * now */
	remote_mem__write(job->mem, path_addr(pr), &empty, sizeof(empty));
	if (!is_pending(job->pid, pr))
		return false;
	remote_mem__write(job->mem, pending_addr(pr), &none, sizeof(none));
	return true;
}

static int check_answer(struct inject_job *job, const char *answer)
{
	if (!strncmp(answer, "ok", 2) && inject__is_mapped(job))
		return 0;
	refuse(job, "its Python could not load the library: %.200s",
	       *answer ? answer + 3 :
			 "no "
			 "reason given");
	return strncmp(answer, "no OSError", 10) ? -EAGAIN : -ELIBACC;
}

/* Until the script has answered, or was taken back. `end`: of the time for it to be taken. */
static int wait_answer(struct inject_job *job, const struct py_remote *pr, const struct script *s,
		       uint64_t end)
{
	uint64_t begin = clock__mono_ns(), now = begin, taken = 0;
	bool eval_requested = false;
	char answer[256];

	for (;;) {
		inject__nap(NAP_NS);
		if (script__answer(s, answer, sizeof(answer)))
			return check_answer(job, answer);
		now = clock__mono_ns();
		if (!taken && !is_pending(job->pid, pr))
			taken = now;
		if (!taken && !eval_requested && now - begin > EVAL_REQUEST_NS) {
			request_eval(job, pr);
			eval_requested = true;
		}
		if (!taken && now > end && withdraw_request(job, pr)) {
			refuse(job,
			       "its Python did not reach a point where it runs remote scripts");
			return -EAGAIN;
		}
		if (taken && !inject__is_alive(job))
			return -ESRCH;
		if (taken && now - taken > GRACE_NS && now > end)
			break;
	}
	if (inject__is_mapped(job))
		return 0; /* it could not write its answer */
	refuse(job, "its Python took the script, but did not run it (an audit hook?)");
	return -EAGAIN;
}

int remote_exec__load(struct inject_job *job)
{
	uint64_t now = clock__mono_ns(), end = now + (job->deadline_ns - now) / 2;
	struct script script;
	struct thread_status st;
	struct py_remote pr;
	const char *why;
	int err = py_remote__find(job->pid, &pr, &why);

	job->res->method = INJECT_REMOTE_EXEC;
	if (err) {
		refuse(job, "%s", why);
		return -EAGAIN;
	}
	if (thread_status__read(job->pid, 0, &st) || st.seccomp)
		err = ptrace_load__check_filters(job, end);
	if (err)
		return err;
	err = script__create(job, &script);
	if (!err)
		err = write_request(job, &pr, &script);
	if (err) {
		refuse(job, "cannot pass a script to its Python: %s", errstr(err));
		err = -EAGAIN;
	} else {
		err = wait_answer(job, &pr, &script, end);
	}
	root_temp__remove(&script.text);
	root_temp__remove(&script.answer);
	return err;
}
