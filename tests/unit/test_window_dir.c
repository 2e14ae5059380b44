/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* window_dir: names, the log, the quota, and directories and files that someone has prepared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample/window_dir.h"
#include "scratch_dir.h"

static struct window_dir dir;

static void open_dir(const char *name)
{
	CU_ASSERT_EQUAL_FATAL(window_dir__open(at(name), &dir), 0);
}

/* A file of that many bytes. */
static void put_file(const char *path, size_t bytes)
{
	char *text = calloc(1, bytes + 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	memset(text, 'x', bytes);
	put_text(path, text);
	free(text);
}

static void put_window(uint64_t ns, const char *suffix, size_t bytes)
{
	char path[PATH_MAX];

	CU_ASSERT_EQUAL_FATAL(window_dir__name(&dir, 42, ns, suffix, path, sizeof(path)), 0);
	put_file(path, bytes);
}

static bool has_window(uint64_t ns, const char *suffix)
{
	char path[PATH_MAX];

	CU_ASSERT_EQUAL_FATAL(window_dir__name(&dir, 42, ns, suffix, path, sizeof(path)), 0);
	return !access(path, F_OK);
}

TEST("open")
{
	struct stat st;
	char deep[PATH_MAX + 10];

	open_dir("new/");
	CU_ASSERT(!stat(at("new"), &st) && (st.st_mode & 0777) == 0700);
	CU_ASSERT_NOT_EQUAL(dir.path[strlen(dir.path) - 1], '/');
	window_dir__close(&dir);
	CU_ASSERT_EQUAL(window_dir__open(at("no/such"), &dir), -ENOENT);
	put_text(at("file"), "");
	CU_ASSERT_EQUAL(window_dir__open(at("file"), &dir), -ENOTDIR);
	CU_ASSERT(!mkdir(at("open"), 0700) && !chmod(at("open"), 0777));
	CU_ASSERT_EQUAL(window_dir__open(at("open"), &dir), -EPERM);
	memset(deep, 'a', sizeof(deep));
	deep[sizeof(deep) - 1] = '\0';
	CU_ASSERT_EQUAL(window_dir__open(deep, &dir), -ENAMETOOLONG);
}

static void log_text(const char *text)
{
	struct jsonw_text line = { .len = strlen(text) };

	memcpy(line.text, text, line.len + 1);
	CU_ASSERT_EQUAL(window_dir__log(&dir, &line), 0);
}

TEST("log")
{
	struct jsonw_text line = { .text = "{}", .len = 2 };
	struct stat st;

	open_dir("log");
	log_text("{\"window\": 0}");
	log_text("{\"window\": 1}");
	CU_ASSERT_STRING_EQUAL(get_text(at("log/windows.jsonl")), "{\"window\": 0}\n{\"window\": 1}\n");
	CU_ASSERT(!truncate(at("log/windows.jsonl"), 16 << 20));
	log_text("{\"window\": 2}");
	CU_ASSERT_STRING_EQUAL(get_text(at("log/windows.jsonl")), "{\"window\": 2}\n");
	CU_ASSERT(!stat(at("log/windows.jsonl.1"), &st) && st.st_size == 16 << 20);
	/* not through links, nor into what is no file of its own */
	put_text(at("victim"), "v");
	CU_ASSERT(!unlink(at("log/windows.jsonl")) && !symlink(at("victim"), at("log/windows.jsonl")));
	CU_ASSERT_EQUAL(window_dir__log(&dir, &line), -ELOOP);
	CU_ASSERT(!unlink(at("log/windows.jsonl")) && !link(at("victim"), at("log/windows.jsonl")));
	CU_ASSERT_EQUAL(window_dir__log(&dir, &line), -EPERM);
	CU_ASSERT(!unlink(at("log/windows.jsonl")) && !mkfifo(at("log/windows.jsonl"), 0600));
	CU_ASSERT(window_dir__log(&dir, &line) < 0);
	CU_ASSERT_STRING_EQUAL(get_text(at("victim")), "v");
	window_dir__close(&dir);
}

static int trim(uint64_t max_bytes, uint64_t now_ns)
{
	return window_dir__trim(&dir, max_bytes, now_ns, NULL, 0);
}

TEST("quota")
{
	open_dir("quota");
	for (uint64_t ns = 100; ns <= 500; ns += 100) {
		put_window(ns, ".ptb", 8192);
		put_window(ns, ".pt.trace.json.gz", 8192);
	}
	put_file(at("quota/other.ptb"), 100000);
	put_file(at("quota/windows.jsonl"), 100000);
	CU_ASSERT_EQUAL(trim(5 * 16384, 600), 0);
	CU_ASSERT_EQUAL(trim(4 * 16384 + 8192, 600), 1); /* a window goes whole */
	CU_ASSERT(!has_window(100, ".ptb") && !has_window(100, ".pt.trace.json.gz") &&
		  has_window(200, ".ptb"));
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 0, 600, (uint64_t[]){ 400, 200 }, 2), 1); /* in progress */
	CU_ASSERT(has_window(200, ".ptb") && !has_window(300, ".ptb") && has_window(400, ".ptb"));
	CU_ASSERT_EQUAL(trim(0, 600), 2); /* never the newest */
	CU_ASSERT(has_window(500, ".ptb") && has_window(500, ".pt.trace.json.gz") &&
		  !has_window(400, ".ptb"));
	CU_ASSERT(!access(at("quota/other.ptb"), F_OK) && !access(at("quota/windows.jsonl"), F_OK));
	window_dir__close(&dir);
}

/* What a killed process leaves counts, and goes, like its window. */
TEST("partial files")
{
	char path[PATH_MAX + 64], name[PATH_MAX];

	open_dir("partial");
	put_window(100, ".ptb", 8192);
	CU_ASSERT_EQUAL_FATAL(window_dir__name(&dir, 42, 100, ".ptb", name, sizeof(name)), 0);
	snprintf(path, sizeof(path), "%s/.%s.0123456789abcdef.partial", dir.path, strrchr(name, '/') + 1);
	put_file(path, 8192);
	put_window(200, ".ptb", 8192);
	CU_ASSERT_EQUAL(trim(16384, 300), 1);
	CU_ASSERT(access(path, F_OK) && !has_window(100, ".ptb") && has_window(200, ".ptb"));
	window_dir__close(&dir);
}

/* Those of a killed ptbpf go when another one begins; those of one window, when its process has been killed. */
TEST("removal of partial files")
{
	static const char *const others[] = { "left/.other.ptb.0123456789abcdef.partial", "left/.x",
					      "left/x.partial" };
	char path[2][PATH_MAX + 64], name[PATH_MAX];

	open_dir("left");
	for (uint64_t ns = 100; ns <= 200; ns += 100) {
		put_window(ns, ".ptb", 1);
		CU_ASSERT_EQUAL_FATAL(window_dir__name(&dir, 42, ns, ".pt.trace.json", name, sizeof(name)),
				      0);
		snprintf(path[ns / 200], sizeof(path[0]), "%s/.%s.0123456789abcdef.partial",
			 dir.path, strrchr(name, '/') + 1);
		put_file(path[ns / 200], 10);
	}
	for (size_t i = 0; i < 3; i++)
		put_text(at(others[i]), "x");
	window_dir__remove_partial(&dir, 100);
	CU_ASSERT(access(path[0], F_OK) && !access(path[1], F_OK));
	window_dir__close(&dir);
	open_dir("left");
	CU_ASSERT(access(path[1], F_OK) && has_window(100, ".ptb") && has_window(200, ".ptb"));
	for (size_t i = 0; i < 3; i++)
		CU_ASSERT(!access(at(others[i]), F_OK));
	window_dir__close(&dir);
}

/* The number after those in a log with this text, and what is left of the text. */
static uint64_t resumed(const char *text, const char *left)
{
	put_text(at("resume/windows.jsonl"), text);
	open_dir("resume");
	window_dir__close(&dir);
	CU_ASSERT_STRING_EQUAL(get_text(at("resume/windows.jsonl")), left);
	return dir.next_nr;
}

TEST("resume")
{
	static const char two[] = "{\"window\": 7, \"exit\": 0}\n{\"window\": 5, \"exit\": 0}\n";
	static const char noise[] =
		"\n{\"window\": 99\n{\"window\": -3,}\n{\"window\": x,\n [\"window\": 98,\n"
		"{\"window\": 99999999999999999999,}\n{\"window\": 3, \"exit\": 0}\n\377\n";
	char text[200], *huge;

	open_dir("resume");
	CU_ASSERT_EQUAL(dir.next_nr, 0);
	window_dir__close(&dir);
	CU_ASSERT_EQUAL(resumed(two, two), 8);
	CU_ASSERT_EQUAL(resumed("", ""), 0);
	CU_ASSERT_EQUAL(resumed(noise, noise), 4);
	snprintf(text, sizeof(text), "%s{\"window\": 9, \"pi", two); /* written by a process that was killed */
	CU_ASSERT_EQUAL(resumed(text, two), 8);
	CU_ASSERT_EQUAL(resumed("{\"window\": 9, \"pi", ""), 0);
	/* after the log has been renamed */
	put_text(at("resume/windows.jsonl.1"), two);
	CU_ASSERT_EQUAL(resumed("", ""), 8);
	/* a line without an end, and one of ours after it */
	huge = calloc(1, 200001);
	CU_ASSERT_PTR_NOT_NULL_FATAL(huge);
	put_text(at("resume/windows.jsonl"), memset(huge, 'x', 200000));
	open_dir("resume");
	CU_ASSERT_EQUAL(dir.next_nr, 8);
	log_text("{\"window\": 20, \"exit\": 0}");
	window_dir__close(&dir);
	open_dir("resume");
	CU_ASSERT_EQUAL(dir.next_nr, 21);
	window_dir__close(&dir);
	free(huge);
	/* not through links */
	put_text(at("victim"), "{\"window\": 50, half");
	CU_ASSERT(!unlink(at("resume/windows.jsonl")) &&
		  !symlink(at("victim"), at("resume/windows.jsonl")));
	open_dir("resume");
	CU_ASSERT_EQUAL(dir.next_nr, 8);
	window_dir__close(&dir);
	CU_ASSERT_STRING_EQUAL(get_text(at("victim")), "{\"window\": 50, half");
}

/* Cycles of the schedule "s" of process 42 that a log with this text says are done. */
static uint64_t cycles(const char *text)
{
	const pid_t pids[] = { 41, 42 };
	uint64_t n;

	put_text(at("cycles/windows.jsonl"), text);
	open_dir("cycles");
	n = window_dir__cycles(&dir, "s", pids, 2);
	window_dir__close(&dir);
	return n;
}

#define LINE(nr, schedule, cycle, pids)                                                            \
	"{\"window\": " nr ", \"trigger\": \"schedule\", \"schedule\": \"" schedule                \
	"\", \"cycle\": " cycle ", \"pids\": [" pids "]}\n"
#define REQUEST(nr) "{\"window\": " nr ", \"trigger\": \"request\", \"pids\": [42]}\n"

TEST("cycles")
{
	CU_ASSERT(!mkdir(at("cycles"), 0700));
	CU_ASSERT_EQUAL(cycles(""), 0);
	CU_ASSERT_EQUAL(cycles(LINE("0", "s", "0", "42")), 1);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "4", "42") LINE("6", "s", "3", "41, 42") REQUEST("8")), 5);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "9", "42") LINE("8", "s", "0", "42")), 1);
	/* the last one is of another schedule, or of another process */
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "4", "42") LINE("8", "t", "0", "42")), 0);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "4", "42, 43")), 0);
	/* of an earlier version, and no lines of ours */
	CU_ASSERT_EQUAL(cycles("{\"window\": 7, \"trigger\": \"schedule\", \"pids\": [42]}\n"), 0);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "-1", "42")), 0);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "1e300", "42")), 0);
	CU_ASSERT_EQUAL(cycles(LINE("7", "s", "\"1\"", "42")), 0);
	CU_ASSERT_EQUAL(cycles(LINE("-7", "s", "1", "42")), 0);
	CU_ASSERT_EQUAL(cycles("{\"window\": 7, \"schedule\": [1], \"cycle\": 1}\n"), 0);
	CU_ASSERT_EQUAL(cycles("[[[[\n\377{\n" LINE("7", "s", "4", "42") "{\"window\": 9, \"sche"), 5);
	open_dir("cycles");
	CU_ASSERT_EQUAL(window_dir__cycles(&dir, "s", NULL, 0), 5);
	window_dir__close(&dir);
}

/* The clock is set back from HOUR * 10 to HOUR * 2: names stay unique, and the quota takes what was recorded before. */
TEST("clock")
{
	const uint64_t hour = 3600000000000ULL;

	open_dir("clock");
	put_window(9 * hour, ".ptb", 8192);
	put_window(10 * hour, ".ptb", 8192);
	put_window(2 * hour, ".ptb", 8192);
	CU_ASSERT_EQUAL(window_dir__free_ns(&dir, 42, 2 * hour), 2 * hour + 1);
	put_window(2 * hour + 1, ".pt.trace.json", 8192);
	CU_ASSERT_EQUAL(window_dir__free_ns(&dir, 42, 2 * hour), 2 * hour + 2);
	CU_ASSERT_EQUAL(window_dir__free_ns(&dir, 43, 2 * hour), 2 * hour);
	CU_ASSERT_EQUAL(trim(3 * 8192, 3 * hour), 1);
	CU_ASSERT(!has_window(9 * hour, ".ptb") && has_window(10 * hour, ".ptb") &&
		  has_window(2 * hour, ".ptb"));
	CU_ASSERT_EQUAL(trim(2 * 8192, 3 * hour), 1);
	CU_ASSERT(!has_window(10 * hour, ".ptb") && has_window(2 * hour, ".ptb"));
	/* set back by less than an hour: the window that ended last is kept, though it seems to be older */
	put_window(3 * hour, ".ptb", 8192);
	put_window(3 * hour - 5, ".ptb", 8192);
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 0, 3 * hour - 4, (uint64_t[]){ 3 * hour - 5 }, 1), 2);
	CU_ASSERT(has_window(3 * hour - 5, ".ptb") && has_window(3 * hour, ".ptb"));
	window_dir__close(&dir);
}

/* A directory has one writer: the lock passes to its children, and ends with the last one. */
TEST("lock")
{
	struct window_dir other;
	int hold[2], status;
	pid_t pid;

	open_dir("lock");
	CU_ASSERT_EQUAL_FATAL(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		char c;

		close(hold[1]);
		_exit(read(hold[0], &c, 1) != 0);
	}
	window_dir__close(&dir);
	CU_ASSERT_EQUAL(window_dir__open(at("lock"), &other), -EBUSY);
	close(hold[1]);
	CU_ASSERT_EQUAL(window_dir__open(at("lock"), &other), 0); /* waits for the child */
	window_dir__close(&other);
	close(hold[0]);
	CU_ASSERT(waitpid(pid, &status, 0) == pid && !status);
}

int main(void)
{
	return run_suite_in_scratch("window_dir");
}
