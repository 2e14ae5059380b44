/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Semaphores are lowered however a tracer ends, in every process that has them; the target survives and computes the same. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_target.h"
#include "suite.h"

#define BIT(site) (1u << PTB_AGENT_SITE_##site)
#define RAISED (BIT(CHUNK) | BIT(OPS) | BIT(GPU))

static uint32_t listen_and_request(struct probe_set *ps, const struct agent_target *at)
{
	uint32_t proc = add_agent_process(ps, at);

	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at->pa), 0);
	CU_ASSERT_EQUAL(probe_set__agent_request(ps, proc, &at->pa, BIT(OPS) | BIT(GPU)), 0);
	return proc;
}

static uint32_t chunks_in(struct probe_set *ps)
{
	struct records r = { 0 };
	uint32_t n;

	records__collect(&r, ps);
	n = records__count(&r, PTB_REC_AGENT_DATA, 0);
	records__clear(&r);
	return n;
}

/* Another tracer, in a process of its own, that receives chunks until it ends or is killed. */
struct tracer {
	pid_t pid;
	int to, from;
};

static void tracer__main(int in, int out, enum links links, const struct agent_target *at)
{
	struct probe_set *ps;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ps = open_agent_set(0, links);
	listen_and_request(ps, at);
	if (write(out, "", 1) == 1 && read(in, &byte, 1) == 1) {
		uint32_t n = chunks_in(ps);

		if (write(out, &n, sizeof(n)) == sizeof(n) && read(in, &byte, 1) == 1)
			probe_set__free(ps);
	}
	_exit(0);
}

static void tracer__start(struct tracer *t, enum links links, const struct agent_target *at)
{
	int down[2], up[2];
	char byte;

	CU_ASSERT_FATAL(!pipe(down) && !pipe(up));
	t->pid = fork();
	CU_ASSERT_FATAL(t->pid >= 0);
	if (t->pid == 0) {
		close(down[1]);
		close(up[0]);
		tracer__main(down[0], up[1], links, at);
	}
	close(down[0]);
	close(up[1]);
	t->to = down[1];
	t->from = up[0];
	CU_ASSERT_EQUAL_FATAL(read(t->from, &byte, 1), 1);
}

static uint32_t tracer__chunks(struct tracer *t)
{
	uint32_t n = 0;

	CU_ASSERT(write(t->to, "", 1) == 1 && read(t->from, &n, sizeof(n)) == sizeof(n));
	return n;
}

static void tracer__end(struct tracer *t, int sig)
{
	int status;

	if (sig)
		kill(t->pid, sig);
	else
		CU_ASSERT_EQUAL(write(t->to, "", 1), 1);
	waitpid(t->pid, &status, 0);
	CU_ASSERT(sig ? WIFSIGNALED(status) : status == 0);
	close(t->to);
	close(t->from);
}

/* kill -9, while the target sends on. */
static void run_killed(enum links links)
{
	struct agent_target at;
	struct tracer t;
	uint64_t n = 0;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	tracer__start(&t, links, &at);
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), RAISED);
	target__send(&at.t, "chunks 5000 4096 4");
	usleep(10000);
	tracer__end(&t, SIGKILL);
	CU_ASSERT(target__answer(&at.t, &n));
	CU_ASSERT_EQUAL(n, 20000);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 10 16384 1"), 10);
	/* definitions in tracefs, which stand in for uprobe_multi where the kernel has none, go with the next ptbpf */
	if (trace_events_of(t.pid))
		probe_set__free(open_agent_set(4096, LINKS_TRACE));
	CU_ASSERT_EQUAL(trace_events_of(t.pid), 0);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("kill -9 of the tracer")
{
	run_killed(LINKS_MULTI);
	run_killed(LINKS_TRACE);
}

/* Both get everything; the semaphores stay raised until the last one detaches, whichever method each uses. */
static void run_two(enum links ours, enum links theirs, bool killed)
{
	struct probe_set *ps = open_agent_set(0, ours);
	struct agent_target at;
	struct tracer t;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	listen_and_request(ps, &at);
	tracer__start(&t, theirs, &at);
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), RAISED);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 20 4096 2"), 40);
	CU_ASSERT_EQUAL(chunks_in(ps), 40);
	CU_ASSERT_EQUAL(tracer__chunks(&t), 40);
	tracer__end(&t, killed ? SIGKILL : 0);
	usleep(300000); /* a killed one's links go when the kernel comes to it */
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), RAISED);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 20 4096 2"), 40);
	CU_ASSERT_EQUAL(chunks_in(ps), 40);
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("two tracers")
{
	run_two(LINKS_MULTI, LINKS_MULTI, false);
	run_two(LINKS_MULTI, LINKS_MULTI, true);
	run_two(LINKS_MULTI, LINKS_TRACE, true);
	run_two(LINKS_TRACE, LINKS_MULTI, true);
	run_two(LINKS_TRACE, LINKS_TRACE, false);
}

/*
 * A fork has its parent's memory, so its semaphores are raised, too; its chunks are not received, and they are lowered in it
 * when they fall in the parent, or at its own first chunk.
 */
static void run_fork(enum links links, const char *path)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct agent_target at;
	uint64_t quiet, sends;
	uint32_t proc;

	agent_target__start(&at, path);
	proc = listen_and_request(ps, &at);
	quiet = target__run(&at.t, "stay 0");
	sends = target__run(&at.t, "stay 50");
	CU_ASSERT_EQUAL(semaphore_bits(&at, (pid_t)quiet), RAISED);
	CU_ASSERT_EQUAL(semaphore_bits(&at, (pid_t)sends) | BIT(CHUNK), RAISED);
	CU_ASSERT_EQUAL(chunks_in(ps), 0);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 10 1000 1"), 10);
	CU_ASSERT_EQUAL(chunks_in(ps), 10);
	probe_set__agent_withdraw(ps, proc);
	CU_ASSERT(semaphores_become(&at, at.t.pid, BIT(CHUNK)));
	CU_ASSERT(semaphores_become(&at, (pid_t)quiet, BIT(CHUNK)));
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT(semaphores_become(&at, (pid_t)quiet, 0));
	CU_ASSERT(semaphores_become(&at, (pid_t)sends, 0));
	CU_ASSERT_EQUAL(target__run(&at.t, "reap"), 2);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("fork")
{
	run_fork(LINKS_MULTI, TARGET_AGENT_NOP1);
	run_fork(LINKS_MULTI, TARGET_AGENT_NOP5);
	run_fork(LINKS_TRACE, TARGET_AGENT_NOP1);
}

/* The tracer is killed while a fork lives: it falls there too. */
TEST("kill -9 of the tracer after a fork")
{
	struct agent_target at;
	struct tracer t;
	pid_t child;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	tracer__start(&t, LINKS_MULTI, &at);
	child = (pid_t)target__run(&at.t, "stay 0");
	CU_ASSERT_EQUAL(semaphore_bits(&at, child), RAISED);
	tracer__end(&t, SIGKILL);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT(semaphores_become(&at, child, 0));
	CU_ASSERT_EQUAL(target__run(&at.t, "reap"), 1);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

/* The new program has semaphores of its own; when the process is removed, none of them is up. */
static void run_exec(enum links links)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct records r = { 0 };
	struct agent_target at;
	uint32_t proc;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	proc = listen_and_request(ps, &at);
	target__send(&at.t, "exec");
	target__read_sites(&at.t);
	agent_target__find(&at);
	records__collect(&r, ps);
	CU_ASSERT_EQUAL(records__count(&r, PTB_REC_EXEC, 0), 1);
	records__clear(&r);
	probe_set__remove_process(ps, proc);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 10 1000 1"), 10);
	CU_ASSERT_EQUAL(chunks_in(ps), 0);
	listen_and_request(ps, &at); /* and it can be traced as any other */
	CU_ASSERT_EQUAL(semaphore_bits(&at, at.t.pid), RAISED);
	CU_ASSERT_EQUAL(target__run(&at.t, "chunks 10 1000 1"), 10);
	CU_ASSERT_EQUAL(chunks_in(ps), 10);
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("exec")
{
	run_exec(LINKS_MULTI);
	run_exec(LINKS_TRACE);
}

/* Requests come and go while eight threads send; not a chunk is missing. */
static void run_raised(enum links links, const char *path, int times)
{
	struct probe_set *ps = open_agent_set(0, links);
	uint32_t proc, got = 0, sent = 0, wrong = 0;
	struct agent_target at;
	uint64_t n = 0;

	agent_target__start(&at, path);
	proc = add_agent_process(ps, &at);
	CU_ASSERT_EQUAL(probe_set__agent_listen(ps, proc, &at.pa), 0);
	for (int i = 0; i < times; i++) {
		if (i % 10 == 0)
			target__send(&at.t, "chunks 50 1000 8");
		wrong += probe_set__agent_request(ps, proc, &at.pa, 0x3e) != 0;
		wrong += semaphore_bits(&at, at.t.pid) != 0x3f;
		probe_set__agent_withdraw(ps, proc);
		wrong += !semaphores_become(&at, at.t.pid, BIT(CHUNK));
		got += chunks_in(ps);
		if (i % 10 == 9) {
			CU_ASSERT_FATAL(target__answer(&at.t, &n));
			CU_ASSERT_EQUAL(n, 400);
			sent += 400;
			got += chunks_in(ps);
			CU_ASSERT_EQUAL(got, sent);
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_RING_FULL), 0);
	CU_ASSERT_EQUAL(probe_set__counter(ps, PTB_CNT_CHUNK_FAULT), 0);
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("raised and lowered, 8 threads (uprobe_multi)")
{
	run_raised(LINKS_MULTI, TARGET_AGENT_NOP1, repetitions(100, 1000));
	run_raised(LINKS_MULTI, TARGET_AGENT_NOP5, repetitions(30, 100));
}

TEST("raised and lowered, 8 threads (tracefs)")
{
	run_raised(LINKS_TRACE, TARGET_AGENT_NOP1, repetitions(20, 50));
}

/* The listener itself comes and goes under threads that send without a pause. */
static void run_listeners(enum links links, const char *path)
{
	struct probe_set *ps = open_agent_set(0, links);
	struct agent_target at;
	uint32_t got = 0;
	uint64_t n = 0;

	agent_target__start(&at, path);
	for (int i = 0; i < repetitions(20, 50); i++) {
		uint32_t proc = listen_and_request(ps, &at), before = got, left = 10000;

		if (i % 10 == 0)
			target__send(&at.t, "chunks 20000 512 8");
		do { /* the first listener of ten finds them sending */
			usleep(1000);
			got += chunks_in(ps);
		} while (i % 10 == 0 && got == before && --left);
		CU_ASSERT(left > 0);
		probe_set__remove_process(ps, proc);
		CU_ASSERT(semaphores_become(&at, at.t.pid, 0));
		got += chunks_in(ps);
		if (i % 10 == 9) {
			CU_ASSERT_FATAL(target__answer(&at.t, &n));
			CU_ASSERT_EQUAL(n, 160000);
		}
	}
	probe_set__free(ps);
	CU_ASSERT_EQUAL(agent_target__stop(&at), 0);
}

TEST("listeners that come and go, 8 threads")
{
	run_listeners(LINKS_MULTI, TARGET_AGENT_NOP1);
	run_listeners(LINKS_MULTI, TARGET_AGENT_NOP5);
	run_listeners(LINKS_TRACE, TARGET_AGENT_NOP1);
}

/* The target dies in the middle of it; the set goes on with another. */
TEST("kill -9 of the target")
{
	struct probe_set *ps = open_agent_set(0, LINKS_MULTI);
	struct agent_target at, next;
	uint32_t proc;

	agent_target__start(&at, TARGET_AGENT_NOP1);
	agent_target__start(&next, TARGET_AGENT_NOP1);
	proc = listen_and_request(ps, &at);
	listen_and_request(ps, &next);
	target__send(&at.t, "chunks 10000000 512 4");
	usleep(20000);
	kill(at.t.pid, SIGKILL);
	CU_ASSERT(WIFSIGNALED(agent_target__stop(&at)));
	CU_ASSERT(chunks_in(ps) > 0);
	probe_set__agent_withdraw(ps, proc);
	probe_set__remove_process(ps, proc);
	CU_ASSERT_EQUAL(semaphore_bits(&next, next.t.pid), RAISED);
	chunks_in(ps);
	CU_ASSERT_EQUAL(target__run(&next.t, "chunks 10 512 1"), 10);
	CU_ASSERT_EQUAL(chunks_in(ps), 10);
	probe_set__free(ps);
	CU_ASSERT(semaphores_become(&next, next.t.pid, 0));
	CU_ASSERT_EQUAL(agent_target__stop(&next), 0);
}

PROBE_SUITE("probe_agent_harm")
