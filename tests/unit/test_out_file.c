/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/out_file: a file is whole or absent, on a full disk too; special files are written in place. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "export/out_file.h"
#include "scratch_dir.h"

/* Files in the directory that are not complete. */
static int partials(void)
{
	glob_t g;
	int n = glob(at(".*.partial"), 0, NULL, &g) ? 0 : (int)g.gl_pathc;

	if (n)
		globfree(&g);
	return n;
}

static void test_plain(void)
{
	const char *path = at("plain"), *other = at("plain.tmp");
	struct out_file *of;

	put_text(path, "old");
	put_text(other, "somebody's");
	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "new ", 4), 0);
	CU_ASSERT_STRING_EQUAL(get_text(path), "old"); /* until the commit */
	CU_ASSERT_EQUAL(partials(), 1);
	CU_ASSERT_EQUAL(out_file__write(of, "text", 4), 0);
	CU_ASSERT_EQUAL(out_file__commit(of), 0);
	CU_ASSERT_STRING_EQUAL(get_text(path), "new text");
	CU_ASSERT_STRING_EQUAL(get_text(other), "somebody's");
	CU_ASSERT_EQUAL(partials(), 0);
	out_file__free(of);
	CU_ASSERT_STRING_EQUAL(get_text(path), "new text");
}

static void test_dropped(void)
{
	const char *path = at("dropped");
	struct out_file *of;

	put_text(path, "old");
	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "new", 3), 0);
	out_file__free(of);
	CU_ASSERT_STRING_EQUAL(get_text(path), "old");
	CU_ASSERT_EQUAL(partials(), 0);
	out_file__free(NULL);
}

static void test_gzip(void)
{
	const char *path = at("text.json.gz");
	static char line[70000], back[70000];
	struct out_file *of;
	size_t total = 0;
	gzFile gz;

	for (size_t i = 0; i < sizeof(line); i++)
		line[i] = (char)(i * 7919 >> 5);
	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	for (size_t i = 0; i < 50; i++)
		CU_ASSERT_EQUAL(out_file__write(of, line, sizeof(line) - i), 0);
	CU_ASSERT_EQUAL(out_file__write(of, line, 0), 0);
	CU_ASSERT_EQUAL(out_file__commit(of), 0);
	out_file__free(of);
	gz = gzopen(path, "rb");
	CU_ASSERT_PTR_NOT_NULL_FATAL(gz);
	for (size_t i = 0; i < 50; i++) {
		CU_ASSERT_EQUAL(gzread(gz, back, (unsigned int)(sizeof(line) - i)),
				(int)(sizeof(line) - i));
		CU_ASSERT_EQUAL_FATAL(memcmp(back, line, sizeof(line) - i), 0);
		total += sizeof(line) - i;
	}
	CU_ASSERT_EQUAL(gzread(gz, back, 1), 0);
	CU_ASSERT_TRUE(gzeof(gz));
	CU_ASSERT_EQUAL(gzclose(gz), Z_OK); /* checks length and checksum */
	CU_ASSERT_EQUAL(total, 50 * sizeof(line) - 49 * 50 / 2);
}

static void test_empty_gzip(void)
{
	const char *path = at("empty.gz");
	struct out_file *of;
	gzFile gz;
	char c;

	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	CU_ASSERT_EQUAL(out_file__commit(of), 0);
	out_file__free(of);
	gz = gzopen(path, "rb");
	CU_ASSERT_EQUAL(gzread(gz, &c, 1), 0);
	CU_ASSERT_FALSE(gzdirect(gz));
	CU_ASSERT_EQUAL(gzclose(gz), Z_OK);
}

/* A file size limit behaves like a full disk. */
static void check_full(const char *name)
{
	const char *path = at(name);
	struct rlimit old, small;
	struct out_file *of;
	char block[4096];
	int err = 0;

	put_text(path, "old");
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ .rlim_cur = 64 * 1024, .rlim_max = old.rlim_max };
	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	setrlimit(RLIMIT_FSIZE, &small);
	srand(1);
	for (int i = 0; i < 1000 && !err; i++) {
		for (size_t k = 0; k < sizeof(block); k++)
			block[k] = (char)rand(); /* does not compress */
		err = out_file__write(of, block, sizeof(block));
	}
	CU_ASSERT_EQUAL(err, -EFBIG);
	CU_ASSERT_EQUAL(out_file__write(of, "x", 1), -EFBIG); /* the first error stays */
	CU_ASSERT_EQUAL(out_file__commit(of), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	CU_ASSERT_EQUAL(partials(), 0);
	CU_ASSERT_STRING_EQUAL(get_text(path), "old");
	out_file__free(of);
	CU_ASSERT_STRING_EQUAL(get_text(path), "old");
}

static void test_full_disk(void)
{
	check_full("full");
	check_full("full.gz");
}

/* A device must stay a device, and its error must arrive. */
static void test_dev_full(void)
{
	struct out_file *of;
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(out_file__open("/dev/full", &of), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "x", 1), -ENOSPC);
	CU_ASSERT_EQUAL(out_file__commit(of), -ENOSPC);
	out_file__free(of);
	CU_ASSERT_EQUAL(stat("/dev/full", &st), 0);
	CU_ASSERT_TRUE(S_ISCHR(st.st_mode));
}

static void test_pipe(void)
{
	char path[64], back[8] = "";
	struct out_file *of;
	int fds[2];

	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	CU_ASSERT_EQUAL_FATAL(out_file__open(path, &of), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "abc", 3), 0);
	CU_ASSERT_EQUAL(out_file__commit(of), 0);
	out_file__free(of);
	CU_ASSERT_EQUAL(read(fds[0], back, sizeof(back)), 3);
	CU_ASSERT_STRING_EQUAL(back, "abc");
	close(fds[0]);
	close(fds[1]);
}

/* A link to a result stays a link. */
static void test_symlink(void)
{
	const char *path = at("real"), *link = at("link");
	struct out_file *of;
	struct stat st;

	put_text(path, "old");
	CU_ASSERT_EQUAL_FATAL(symlink(path, link), 0);
	CU_ASSERT_EQUAL_FATAL(out_file__open(link, &of), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "new", 3), 0);
	CU_ASSERT_EQUAL(out_file__commit(of), 0);
	out_file__free(of);
	CU_ASSERT_STRING_EQUAL(get_text(path), "new");
	CU_ASSERT_EQUAL(lstat(link, &st), 0);
	CU_ASSERT_TRUE(S_ISLNK(st.st_mode));
}

static void test_bad_paths(void)
{
	struct out_file *of = NULL;

	CU_ASSERT_EQUAL(out_file__open(scratch_dir, &of), -EISDIR);
	CU_ASSERT_EQUAL(out_file__open(at("none/trace"), &of), -ENOENT);
	CU_ASSERT_EQUAL(out_file__open("", &of), -ENOENT);
	CU_ASSERT_PTR_NULL(of);
}

int main(void)
{
	static const CU_TestInfo tests[] = {
		{ "plain", test_plain },         { "dropped", test_dropped },
		{ "gzip", test_gzip },           { "empty gzip", test_empty_gzip },
		{ "full disk", test_full_disk }, { "/dev/full", test_dev_full },
		{ "pipe", test_pipe },           { "symlink", test_symlink },
		{ "bad paths", test_bad_paths }, CU_TEST_INFO_NULL,
	};

	signal(SIGXFSZ, SIG_IGN);
	return run_suite_in_scratch("out_file", tests);
}
