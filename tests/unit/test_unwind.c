/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Native stacks of a child's threads: registers by the iterator, copies of stacks, libdwfl; and what a hostile process may have in their place.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "code/code.h"
#include "probe/probe_set.h"
#include "random.h"
#include "suite.h"
#include "target/elf.h"
#include "target/proc.h"

#define STACK_MAX (256u << 10)
#define DEEP 1000
#define BLOCK "--block" /* as the argument: it only waits */

/* ---- the child ---- */

static int ready[2];
static volatile int calls; /* counted after each call, so that none is a tail call */

__attribute__((noinline)) static void wait_for_ever(void)
{
	if (write(ready[1], "", 1) == 1)
		pause();
	calls++;
}

__attribute__((noinline)) static void middle(int depth)
{
	if (depth)
		middle(depth - 1);
	else
		wait_for_ever();
	calls++;
}

__attribute__((noinline)) static void outermost(int depth)
{
	middle(depth);
	calls++;
}

static void stay_on(size_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* of the calling thread */
}

static void *spin(void *arg)
{
	(void)arg;
	stay_on(1);
	for (;;)
		calls++;
	return NULL;
}

static pid_t start(int depth, bool with_spinner)
{
	pthread_t thread;
	pid_t pid;
	char byte;

	CU_ASSERT_FATAL(!pipe(ready));
	pid = fork();
	CU_ASSERT_FATAL(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (with_spinner && pthread_create(&thread, NULL, spin, NULL))
			_exit(1);
		outermost(depth);
		_exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(read(ready[0], &byte, 1), 1);
	usleep(20000); /* until it waits */
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The thread's registers and its stack; false: it runs. */
static bool take(pid_t pid, uint32_t tid, struct unwind_thread *t)
{
	struct ptb_thread_regs *rows = NULL;
	struct thread_regs *tr;
	uint32_t cnt = 0;
	ssize_t n = 0;

	memset(t, 0, sizeof(*t));
	CU_ASSERT_FATAL(!thread_regs__open(pid, &tr) && !thread_regs__read(tr, &rows, &cnt));
	thread_regs__close(tr);
	for (uint32_t i = 0; i < cnt; i++)
		if (rows[i].tid == tid && !rows[i].running) {
			t->at = rows[i];
			t->stack = malloc(STACK_MAX);
			CU_ASSERT_FATAL(t->stack != NULL);
			n = remote__read_some(pid, t->at.regs[PTB_DWARF_SP], t->stack, STACK_MAX);
			CU_ASSERT(n > 0);
		}
	free(rows);
	t->stack_len = n > 0 ? (uint32_t)n : 0;
	return t->stack_len;
}

static void forget(struct unwind_thread *t)
{
	free(t->stack);
	free(t->text);
}

/* Lines that begin with the name. */
static uint32_t lines_of(const char *text, const char *name)
{
	uint32_t cnt = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		cnt += !strncmp(line, name, strlen(name));
	return cnt;
}

/* ---- tests ---- */

static void start_as(const char *path)
{
	dup2(ready[1], STDOUT_FILENO);
	execl(path, path, BLOCK, (char *)NULL);
	_exit(1);
}

/* A copy of this program whose unwind information is damaged: `changes` bytes of the section. */
static void copy_damaged(const char *path, const char *section, uint64_t changes)
{
	uint64_t addr, size;
	struct elf_file *ef;
	char cmd[256];
	int fd;

	snprintf(cmd, sizeof(cmd), "cp /proc/%d/exe %s", (int)getpid(), path);
	CU_ASSERT_EQUAL_FATAL(system(cmd), 0);
	CU_ASSERT_FATAL(!elf_file__open(path, &ef));
	CU_ASSERT_FATAL(elf_file__section(ef, section, &addr, &size) && size);
	addr = elf_file__addr_to_off(ef, addr);
	elf_file__close(ef);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CU_ASSERT_FATAL(fd >= 0);
	for (uint64_t i = 0; i < changes; i++) {
		uint8_t byte = (uint8_t)next_random();

		CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, (off_t)(addr + next_random() % size)), 1);
	}
	close(fd);
}

TEST("a chain of calls")
{
	static const char chain[] =
		"wait_for_ever (test_unwind)\nmiddle (test_unwind)\nmiddle (test_unwind)\n"
		"middle (test_unwind)\nmiddle (test_unwind)\noutermost (test_unwind)\n";
	pid_t pid = start(3, false);
	struct unwind_thread t;
	const char *at;

	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t));
	CU_ASSERT_FATAL(!unwind__threads(pid, &t, 1) && t.text);
	at = strstr(t.text, "wait_for_ever (test_unwind)\n");
	CU_ASSERT_FATAL(at != NULL && at > t.text); /* the C library is further inside */
	CU_ASSERT(!strncmp(at, chain, sizeof(chain) - 1));
	CU_ASSERT_EQUAL(lines_of(t.text, "main (test_unwind)"), 1);
	CU_ASSERT_EQUAL(lines_of(t.text, "..."), 0);
	CU_ASSERT_EQUAL(kill(pid, 0), 0);
	forget(&t);
	stop(pid);
}

TEST("deeper than the limit")
{
	pid_t pid = start(DEEP, false);
	struct unwind_thread t;

	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t));
	CU_ASSERT_FATAL(!unwind__threads(pid, &t, 1) && t.text);
	CU_ASSERT(lines_of(t.text, "middle") > LIMIT_NATIVE_FRAMES - 10);
	CU_ASSERT(lines_of(t.text, "middle") < LIMIT_NATIVE_FRAMES);
	CU_ASSERT(!strcmp(t.text + strlen(t.text) - 4, "...\n"));
	forget(&t);
	stop(pid);
}

/* A stack that was cut has its inner frames, and says so. */
TEST("a stack that was cut")
{
	pid_t pid = start(50, false);
	struct unwind_thread t;

	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t));
	t.stack_len = 512;
	CU_ASSERT_FATAL(!unwind__threads(pid, &t, 1) && t.text);
	CU_ASSERT(lines_of(t.text, "middle") > 2 && lines_of(t.text, "middle") < 40);
	CU_ASSERT(!strcmp(t.text + strlen(t.text) - 4, "...\n"));
	forget(&t);
	stop(pid);
}

/* A thread on a processor has no registers; one that was left out has no text, and does no harm to the others. */
TEST("a thread that runs")
{
	struct unwind_thread t[2] = { 0 };
	struct ptb_thread_regs *rows;
	pid_t pid = start(1, true);
	bool alone = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	uint32_t cnt, ran = 0;
	struct thread_regs *tr;
	cpu_set_t before;

	sched_getaffinity(0, sizeof(before), &before);
	if (alone)
		stay_on(0);
	CU_ASSERT_FATAL(!thread_regs__open(pid, &tr));
	for (int i = 0; i < 50 || (alone && !ran && i < 5000); i++) { /* others may have its processor for a while */
		CU_ASSERT_FATAL(!thread_regs__read(tr, &rows, &cnt));
		CU_ASSERT_EQUAL_FATAL(cnt, 2);
		for (uint32_t k = 0; k < cnt; k++) {
			CU_ASSERT(rows[k].tid == (uint32_t)pid ? !rows[k].running : true);
			CU_ASSERT_EQUAL(!rows[k].running, rows[k].regs[PTB_DWARF_IP] != 0);
			ran += rows[k].running;
		}
		free(rows);
		usleep(1000);
	}
	CU_ASSERT(ran > 0 || !alone);
	sched_setaffinity(0, sizeof(before), &before);
	thread_regs__close(tr);
	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t[1]));
	CU_ASSERT_FATAL(!unwind__threads(pid, t, 2));
	CU_ASSERT_PTR_NULL(t[0].text);
	CU_ASSERT(t[1].text && lines_of(t[1].text, "outermost") == 1);
	forget(&t[1]);
	stop(pid);
}

/* Words of a stack, and registers, that point anywhere: text of some kind, within its limits. */
TEST("hostile stacks and registers")
{
	pid_t pid = start(20, false);
	struct unwind_thread whole, t;

	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &whole));
	for (int i = 0; i < repetitions(60, 2000); i++) {
		t = whole;
		t.stack = malloc(whole.stack_len);
		CU_ASSERT_FATAL(t.stack != NULL);
		memcpy(t.stack, whole.stack, whole.stack_len);
		for (uint64_t k = next_random() % 200; k; k--)
			t.stack[next_random() % whole.stack_len] = (uint8_t)next_random();
		if (i % 3 == 0)
			t.at.regs[next_random() % PTB_DWARF_REGS] = next_random();
		if (i % 7 == 0)
			t.stack_len = (uint32_t)(next_random() % whole.stack_len);
		CU_ASSERT(!unwind__threads(pid, &t, 1));
		CU_ASSERT(!t.text || lines_of(t.text, "") <= LIMIT_NATIVE_FRAMES + 1);
		forget(&t);
	}
	forget(&whole);
	stop(pid);
}

/* Files that attack libdwfl: whatever it does with them happens in its child. */
TEST("hostile files")
{
	static const char *const sections[] = { ".eh_frame", ".eh_frame_hdr" };
	char path[] = "/tmp/test_unwind-XXXXXX", byte;
	struct unwind_thread t;
	pid_t pid;

	CU_ASSERT_FATAL(mkdtemp(path) != NULL);
	for (int i = 0; i < repetitions(40, 1000); i++) {
		char file[64];

		snprintf(file, sizeof(file), "%s/t", path);
		copy_damaged(file, sections[i % 2], 1 + next_random() % 400);
		CU_ASSERT_FATAL(!pipe(ready));
		pid = fork();
		if (!pid)
			start_as(file);
		close(ready[1]);
		if (read(ready[0], &byte, 1) == 1) { /* else it could not even start */
			usleep(5000);
			CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t));
			if (!unwind__threads(pid, &t, 1))
				CU_ASSERT(!t.text || lines_of(t.text, "") <= LIMIT_NATIVE_FRAMES + 1);
			CU_ASSERT_EQUAL(kill(pid, 0), 0);
			forget(&t);
		}
		close(ready[0]);
		stop(pid);
		unlink(file);
	}
	rmdir(path);
}

/* The process has ended, or there is none. */
TEST("a process that has ended")
{
	pid_t pid = start(1, false);
	struct ptb_thread_regs *rows;
	struct unwind_thread t;
	struct thread_regs *tr;
	uint32_t cnt;

	CU_ASSERT_FATAL(take(pid, (uint32_t)pid, &t));
	CU_ASSERT_FATAL(!thread_regs__open(pid, &tr));
	stop(pid);
	CU_ASSERT_FATAL(!thread_regs__read(tr, &rows, &cnt));
	CU_ASSERT_EQUAL(cnt, 0);
	free(rows);
	thread_regs__close(tr);
	CU_ASSERT(unwind__threads(pid, &t, 1) < 0);
	CU_ASSERT_PTR_NULL(t.text);
	forget(&t);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], BLOCK)) {
		ready[1] = STDOUT_FILENO;
		outermost(5);
	}
	return run_suite("unwind");
}
