/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The first law: whatever happens to the tracer, the target survives and computes the same. Also
 * what the scheduler's tracepoints report about it meanwhile.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe_target.h"
#include "suite.h"

/* Three of four calls throw through two probed frames. */
TEST_LINKS("100,000 calls, exceptions through probed frames")
{
	struct probe_set *ps = open_set(1 << 25, links, false);
	struct records r = {};
	struct target t;
	uint64_t sum;

	target__start(&t, TARGET_THROWS);
	sum = target__run(&t, "throws 100000");
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, throw_sites, 4, NULL), 4);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "throws 100000"), sum);
	probe_set__deactivate(ps);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_ENTER, 1), 100000);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_EXIT, 2), 25000);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_ENTER, 3), 100000);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_EXIT, 4), 25000);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__run(&t, "throws 100000"), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

static const struct named_site memory_sites[] = {
	{ "site_new_enter", PTB_PROG_MEM_NEW, 0 },
	{ "site_delete_enter", PTB_PROG_MEM_DELETE, 0 },
	{ "site_report_enter", PTB_PROG_MEM_REPORT, 0 },
	{ "site_api_inner_enter", PTB_PROG_API_ENTER, PTB_API_ARGS(0, PTB_API_NONE, 1) },
	{ "site_api_inner_exit", PTB_PROG_API_EXIT, PTB_API_ARGS(0, PTB_API_NONE, 1) },
	{ "site_mark_enter", PTB_PROG_OP_ENTER, 0 },
};

/* An attach may take longer than the target's work, so this one waits until the target is at its work. */
static void await_record(struct probe_set *ps, struct records *r)
{
	for (int i = 0; i < 10000 && !r->cnt; i++) {
		usleep(1000);
		records__collect(r, ps);
	}
	CU_ASSERT(r->cnt > 0);
}

/* Attaches and detaches while the target runs; its answer does not change. */
static void run_churn(const char *path, const char *command, const struct named_site *sites,
		      uint32_t cnt, enum links links)
{
	struct probe_set *ps = sites == memory_sites ? open_memory_set(links) : open_set(0, links, true);
	struct records r = {};
	struct target t;
	uint64_t sum, got = 0;
	uint32_t proc;

	target__start(&t, path);
	sum = target__run(&t, command);
	CU_ASSERT_NOT_EQUAL(sum, ~0ull);
	probe_set__activate(ps);
	for (int i = 0; i < repetitions(30, 100); i++) {
		CU_ASSERT_EQUAL_FATAL(attach_sites_to(ps, &t, NULL, sites, cnt, &proc), (int)cnt);
		if (i % 10 == 0) {
			target__send(&t, "%s", command);
			await_record(ps, &r);
		}
		usleep(2000);
		probe_set__remove_process(ps, proc);
		records__collect(&r, ps);
		records__clear(&r);
		if (i % 10 == 9) {
			CU_ASSERT_FATAL(target__answer(&t, &got));
			CU_ASSERT_EQUAL(got, sum);
		}
	}
	probe_set__free(ps);
	CU_ASSERT(links != LINKS_TRACE || trace_events_of(getpid()) == 0);
	CU_ASSERT_EQUAL(target__run(&t, command), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("attached and detached again and again, 16 threads")
{
	run_churn(TARGET_CALLS, "threads 16 200000", op_sites, 2, LINKS_MULTI);
}

TEST("attached and detached again and again, exceptions")
{
	run_churn(TARGET_THROWS, "throws 20000", throw_sites, 4, LINKS_MULTI);
}

TEST("attached and detached again and again, 16 threads (tracefs)")
{
	run_churn(TARGET_CALLS, "threads 16 200000", op_sites, 2, LINKS_TRACE);
}

/* Threads that allocate, fault and give back, while probes and tracepoints are attached and detached. */
TEST("attached and detached again and again, memory")
{
	run_churn(TARGET_MEMORY, "alloc 5000000", memory_sites, 6, LINKS_MULTI);
	run_churn(TARGET_MEMORY, "churn 8 100 200", memory_sites, 6, LINKS_MULTI);
}

/* The same with the window that opens and closes, and the kernel's tracepoints that go with each detach. */
TEST("windows of kernel memory on 8 threads")
{
	struct records r = {};
	struct target t;
	uint64_t sum, got;

	target__start(&t, TARGET_MEMORY);
	sum = target__run(&t, "churn 8 200 200");
	for (int i = 0; i < 5; i++) {
		struct probe_set *ps = open_memory_set(LINKS_MULTI);

		target__send(&t, "churn 8 200 200");
		CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, memory_sites, 6, NULL), 6);
		for (int k = 0; k < 10; k++) {
			probe_set__activate(ps);
			usleep(3000);
			if (k & 1)
				probe_set__flush_sums(ps);
			probe_set__deactivate(ps);
			records__collect(&r, ps);
			records__clear(&r);
		}
		CU_ASSERT_FATAL(target__answer(&t, &got));
		CU_ASSERT_EQUAL(got, sum);
		/* of 320,000; the kernel refuses new storage while a thread is preempted in such a request */
		CU_ASSERT(probe_set__counter(ps, PTB_CNT_KMEM_NO_ROOM) <= 3200);
		probe_set__free(ps);
	}
	CU_ASSERT_EQUAL(target__run(&t, "churn 8 200 200"), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* A child inherits the breakpoints; it computes the same, and reports nothing for its parent. */
TEST_LINKS("fork")
{
	struct probe_set *ps = open_set(0, links, true);
	const struct ptb_task *f;
	struct records r = {};
	struct target t;
	uint64_t sum;

	target__start(&t, TARGET_CALLS);
	sum = target__run(&t, "fork 5000");
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	probe_set__activate(ps);
	CU_ASSERT_EQUAL(target__run(&t, "fork 5000"), sum);
	CU_ASSERT_EQUAL(target__run(&t, "fork 5000"), sum);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 2);
	for (uint32_t i = 0; i < 2; i++) {
		f = records__find(&r, PTB_REC_FORK, i);
		CU_ASSERT_FATAL(f != NULL);
		CU_ASSERT_EQUAL(f->h.tgid, (uint32_t)t.pid);
		CU_ASSERT_EQUAL(f->h.tid, (uint32_t)t.pid);
		CU_ASSERT(f->child_tgid != f->h.tgid && f->child_tgid == f->child_tid);
		CU_ASSERT(!strncmp(f->comm, "target_calls", sizeof(f->comm)));
	}
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

/* With watch_children the child's own end is reported too. */
TEST("children watched from birth")
{
	struct probe_set_opts opts = { .follow_tasks = true, .watch_children = true };
	const struct ptb_task *f, *e;
	struct probe_set *ps = NULL;
	struct records r = {};
	struct target t;

	CU_ASSERT_EQUAL_FATAL(probe_set__open(&opts, &ps), 0);
	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(probe_set__watch_task(ps, (uint32_t)t.pid), 0);
	target__run(&t, "fork 10");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(r.cnt, 2);
	f = records__find(&r, PTB_REC_FORK, 0);
	e = records__find(&r, PTB_REC_EXIT, 0);
	CU_ASSERT_FATAL(f && e);
	CU_ASSERT_EQUAL(e->h.tgid, f->child_tgid);
	CU_ASSERT_EQUAL(e->group_dead, 1);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
}

TEST("threads, exec, exit")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	const struct ptb_task *e;
	struct records r = {};
	struct target t;

	target__start(&t, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, NULL), 2);
	target__run(&t, "threads 5 10"); /* outside the window: tasks are recorded nevertheless */
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_THREAD_NEW, 0), 5);
	for (uint32_t i = 0; i < 5; i++) {
		e = records__find(&r, PTB_REC_THREAD_NEW, i);
		CU_ASSERT_FATAL(e != NULL);
		CU_ASSERT_EQUAL(e->child_tgid, (uint32_t)t.pid);
		CU_ASSERT_NOT_EQUAL(e->child_tid, (uint32_t)t.pid);
		e = records__find(&r, PTB_REC_EXIT, i);
		CU_ASSERT_FATAL(e != NULL);
		CU_ASSERT_EQUAL(e->group_dead, 0);
	}
	records__clear(&r);
	target__send(&t, "exec");
	target__read_sites(&t);
	records__collect(&r, ps);
	e = records__find(&r, PTB_REC_EXEC, 0);
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->h.tgid, (uint32_t)t.pid);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_EXEC, 0), 1);
	CU_ASSERT_EQUAL(target__run(&t, "calls 1000 2"), target__run(&t, "calls 1000 2"));
	records__clear(&r);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	records__collect(&r, ps);
	e = records__find(&r, PTB_REC_EXIT, 0);
	CU_ASSERT_FATAL(e != NULL);
	CU_ASSERT_EQUAL(e->group_dead, 1);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_EXIT, 0), 1);
	records__clear(&r);
	probe_set__free(ps);
}

/* kill -9 of the tracer, probes attached and active: the kernel cleans up, the target goes on. */
TEST_LINKS("kill -9 of the tracer")
{
	struct target t;
	uint64_t sum, got = 0;
	int ready[2], status;
	char byte;
	pid_t tracer;

	target__start(&t, TARGET_CALLS);
	sum = target__run(&t, "threads 4 100000");
	CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
	tracer = fork();
	CU_ASSERT_FATAL(tracer >= 0);
	if (tracer == 0) {
		struct probe_set *ps = open_set(0, links, true);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (attach_sites_to(ps, &t, NULL, op_sites, 2, NULL) == 2) {
			probe_set__activate(ps);
			if (write(ready[1], "", 1) == 1)
				for (;;)
					pause();
		}
		_exit(1);
	}
	CU_ASSERT_EQUAL_FATAL(read(ready[0], &byte, 1), 1);
	target__send(&t, "threads 4 100000");
	usleep(20000);
	kill(tracer, SIGKILL);
	waitpid(tracer, &status, 0);
	CU_ASSERT(WIFSIGNALED(status));
	CU_ASSERT(target__answer(&t, &got));
	CU_ASSERT_EQUAL(got, sum);
	CU_ASSERT_EQUAL(target__run(&t, "threads 4 100000"), sum);
	CU_ASSERT_EQUAL(target__stop(&t), 0);
	if (links == LINKS_TRACE) { /* its definitions are still there, until the next ptbpf */
		CU_ASSERT_EQUAL(trace_events_of(tracer), 2);
		probe_set__free(open_set(4096, links, false));
		CU_ASSERT_EQUAL(trace_events_of(tracer), 0);
	}
	close(ready[0]);
	close(ready[1]);
}

/* The target dies while it is traced: the set stays usable. */
TEST("kill -9 of the target")
{
	struct probe_set *ps = open_set(0, LINKS_MULTI, true);
	struct records r = {};
	struct target t, next;
	uint32_t proc;
	int status;

	target__start(&t, TARGET_CALLS);
	target__start(&next, TARGET_CALLS);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &t, NULL, op_sites, 2, &proc), 2);
	probe_set__activate(ps);
	target__send(&t, "threads 4 10000000");
	usleep(20000);
	kill(t.pid, SIGKILL);
	status = target__stop(&t);
	CU_ASSERT(WIFSIGNALED(status));
	probe_set__remove_process(ps, proc);
	records__collect(&r, ps);
	CU_ASSERT(records__count(&r, PTB_REC_OP_ENTER, 1) > 0);
	records__clear(&r);
	CU_ASSERT_EQUAL(attach_sites_to(ps, &next, NULL, op_sites, 2, NULL), 2);
	target__run(&next, "calls 10 0");
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_OP_ENTER, 1), 10);
	records__clear(&r);
	probe_set__free(ps);
	CU_ASSERT_EQUAL(target__stop(&next), 0);
}

/* In a pid namespace of its own the tracer sees the numbers that it knows the target by. */
static int inside_namespace(void)
{
	struct probe_set *ps;
	struct records r = {};
	const struct ptb_task *f;
	struct target t;
	bool good;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", 0, NULL))
		return 2;
	ps = open_set(0, LINKS_MULTI, true);
	target__start(&t, TARGET_CALLS);
	if (attach_sites_to(ps, &t, NULL, op_sites, 2, NULL) != 2)
		return 3;
	probe_set__activate(ps);
	target__run(&t, "calls 10 0");
	target__run(&t, "fork 1");
	records__collect(&r, ps);
	f = records__find(&r, PTB_REC_FORK, 0);
	/* the next numbers of this namespace: what sets the probes (shielded.c) takes some */
	good = r.cnt == 21 && f && f->child_tgid > (uint32_t)t.pid && f->child_tgid < 100;
	for (uint32_t i = 0; i < r.cnt; i++)
		good = good && r.items[i]->tgid == (uint32_t)t.pid && r.items[i]->tid == (uint32_t)t.pid;
	good = good && t.pid < 100; /* a number of this namespace */
	records__clear(&r);
	probe_set__free(ps);
	return target__stop(&t) || !good;
}

TEST("inside a pid namespace")
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			_exit(4);
		pid = fork();
		if (pid == 0)
			_exit(inside_namespace());
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
	}
	waitpid(pid, &status, 0);
	CU_ASSERT_EQUAL(status, 0);
}

PROBE_SUITE("probe_harm")
