/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* window_dir: names, the log, the quota, and directories and files that someone has prepared. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static void test_open(void)
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

static void test_log(void)
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

static void test_quota(void)
{
	open_dir("quota");
	for (uint64_t ns = 100; ns <= 500; ns += 100) {
		put_window(ns, ".ptb", 8192);
		put_window(ns, ".pt.trace.json.gz", 8192);
	}
	put_file(at("quota/other.ptb"), 100000);
	put_file(at("quota/windows.jsonl"), 100000);
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 5 * 16384, UINT64_MAX), 0);
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 4 * 16384 + 8192, UINT64_MAX), 1); /* a window goes whole */
	CU_ASSERT(!has_window(100, ".ptb") && !has_window(100, ".pt.trace.json.gz") &&
		  has_window(200, ".ptb"));
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 0, 300), 1); /* those from 300 on are in progress */
	CU_ASSERT(!has_window(200, ".ptb") && has_window(300, ".ptb"));
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 0, UINT64_MAX), 2); /* never the newest */
	CU_ASSERT(has_window(500, ".ptb") && has_window(500, ".pt.trace.json.gz") &&
		  !has_window(400, ".ptb"));
	CU_ASSERT(!access(at("quota/other.ptb"), F_OK) && !access(at("quota/windows.jsonl"), F_OK));
	window_dir__close(&dir);
}

/* What a killed process leaves counts, and goes, like its window. */
static void test_partial(void)
{
	char path[PATH_MAX + 64], name[PATH_MAX];

	open_dir("partial");
	put_window(100, ".ptb", 8192);
	CU_ASSERT_EQUAL_FATAL(window_dir__name(&dir, 42, 100, ".ptb", name, sizeof(name)), 0);
	snprintf(path, sizeof(path), "%s/.%s.0123456789abcdef.partial", dir.path, strrchr(name, '/') + 1);
	put_file(path, 8192);
	put_window(200, ".ptb", 8192);
	CU_ASSERT_EQUAL(window_dir__trim(&dir, 16384, UINT64_MAX), 1);
	CU_ASSERT(access(path, F_OK) && !has_window(100, ".ptb") && has_window(200, ".ptb"));
	window_dir__close(&dir);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "open", test_open },   { "log", test_log },
		{ "quota", test_quota }, { "partial files", test_partial },
		CU_TEST_INFO_NULL,
	};

	return run_suite_in_scratch("window_dir", tests);
}
