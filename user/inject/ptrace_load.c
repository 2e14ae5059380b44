/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Loads a library by a thread's detour: inspects one thread after the other until one is at a safe
 * point, and waits until it is back.
 *
 * Signals wait until then. For a thread that runs this is all. One that was taken out of a waiting
 * call makes the call again, so a signal of those few milliseconds is handled but does not end the
 * call. The signals of a process go to its main thread, so this one is taken out of a call only
 * when no other thread would do for half of the time.
 */
#define LOG_DOMAIN "inject"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "inject/inject_priv.h"
#include "target/proc_info.h"

#define ROUND_NS 1000000ULL      /* between rounds over all threads, at first, ... */
#define ROUND_MAX_NS 16000000ULL /* ... and at last */
#define DETOUR_NAP_NS 200000ULL
#define DETOUR_MAX_NS 30000000000ULL /* a detour that lasts longer is reported, not waited for */
#define TRIES_PER_ROUND 8

/* A thread that sleeps where a stop would be seen, or of which nothing can be had, is not even
 * stopped. */
static const char *why_not_stopped(pid_t pid, pid_t tid, bool asleep_too)
{
	struct thread_status st;
	struct blocked_call call;

	if (thread_status__read(pid, tid, &st))
		return "it has exited";
	if (st.state != 'R' && st.state != 'S')
		return "it is neither running nor sleeping";
	if (!thread_facts__call(pid, tid, &call))
		return "its system call cannot be read";
	if (call.nr >= 0 && !asleep_too)
		return "it is blocked in a system call, where it receives the process's signals";
	return safe_point__may_stop(&call) ? NULL :
					     "it is in a system call that must not be interrupted";
}

static int wait_back(struct inject_job *job, const struct divert_req *req)
{
	uint64_t begin = clock__mono_ns();
	int over = 0;

	while (over < 2) { /* twice: a constructor may block all signals for a moment */
		inject__nap(DETOUR_NAP_NS);
		over = divert__is_over(req->pid, req->tid, req->own_mask) ? over + 1 : 0;
		if ((clock__mono_ns() - begin > DETOUR_MAX_NS || cancel__pending()) && !over) {
			refuse(job, "thread %d is still blocked in dlopen; it continues by itself",
			       req->tid);
			return -ETIMEDOUT;
		}
	}
	job->res->stopped_ns = req->stopped_ns + (clock__mono_ns() - begin);
	if (inject__is_mapped(job))
		return 0;
	if (!inject__is_alive(job))
		return -ESRCH;
	refuse(job, "its loader could not load %s", job->path);
	return -ELIBACC;
}

/* Inspects some of the threads, the main thread first. 1: not now; 0: loaded; negative errno. */
static int try_threads(struct inject_job *job, const struct target_code *cp, uint32_t round,
		       bool late)
{
	pid_t *tids;
	int n = proc__threads(job->pid, &tids), tries = 0, rc = 1;
	struct divert_req req = {
		.pid = job->pid, .pidfd = job->pidfd, .mem = job->mem, .cp = cp, .path = job->path
	};
	const char *why;

	if (n < 0) {
		refuse(job, "the process has exited");
		return n;
	}
	for (int i = 0; i < n && rc == 1 && tries < TRIES_PER_ROUND; i++) {
		/* the main thread, then others from another one each time */
		req.tid = i ? tids[1 + ((uint32_t)i - 1 + round * TRIES_PER_ROUND) %
					       ((uint32_t)n - 1)] :
			      job->pid;
		req.asleep_too = i || late;
		why = why_not_stopped(job->pid, req.tid, req.asleep_too);
		if (why) {
			refuse(job, "no thread at a safe point; the last, %d: %s", req.tid, why);
			continue;
		}
		tries++;
		job->res->tries++;
		divert__try(&req);
		if (req.end == DIVERT_DONE)
			rc = wait_back(job, &req);
		else if (req.end == DIVERT_REFUSED)
			rc = req.err ? req.err : -EPERM;
		if (req.end == DIVERT_REFUSED)
			refuse(job, "%s", req.why);
		else if (req.end != DIVERT_DONE)
			refuse(job, "no thread at a safe point; the last, %d: %s", req.tid,
			       req.end == DIVERT_GONE ? "it has exited" : req.why);
		pr_debug("thread %d of %d: %s, stopped for %lu us", req.tid, job->pid,
			 req.end == DIVERT_DONE ? "diverted" : job->res->why,
			 req.stopped_ns / 1000);
	}
	free(tids);
	return rc;
}

int ptrace_load__check_filters(struct inject_job *job, uint64_t end_ns)
{
	struct divert_req req = { .pid = job->pid,
				  .tid = job->pid,
				  .pidfd = job->pidfd,
				  .mem = job->mem,
				  .asleep_too = true,
				  .only_filters = true };
	const char *why;

	do {
		why = why_not_stopped(job->pid, job->pid, true);
		if (!why) {
			divert__try(&req);
			job->res->stopped_ns += req.stopped_ns;
			if (req.end == DIVERT_DONE)
				return 0;
			why = req.end == DIVERT_GONE ? "it has exited" : req.why;
			if (req.end == DIVERT_REFUSED) {
				refuse(job, "%s", why);
				return -EPERM;
			}
		}
		refuse(job, "the seccomp filters of its main thread could not be read: %s", why);
		inject__nap(ROUND_NS);
	} while (clock__mono_ns() < end_ns && inject__is_time(job) && inject__is_alive(job));
	return -EAGAIN;
}

int ptrace_load__library(struct inject_job *job)
{
	uint64_t nap = ROUND_NS, now = clock__mono_ns();
	uint64_t half = now < job->deadline_ns ? now + (job->deadline_ns - now) / 2 : now;
	struct target_code cp;
	uint32_t round = (uint32_t)(clock__mono_ns() / 1000); /* not always the same threads */
	int rc;

	job->res->method = INJECT_PTRACE;
	rc = target_code__find(job->pid, &cp, job->res->why, sizeof(job->res->why));
	if (rc)
		return rc;
	do {
		rc = try_threads(job, &cp, round++, clock__mono_ns() >= half);
		if (rc == 1)
			inject__nap(nap);
		if (nap < ROUND_MAX_NS)
			nap += nap / 4;
	} while (rc == 1 && inject__is_time(job));
	target_code__clear(&cp);
	return rc == 1 ? -EBUSY : rc;
}
