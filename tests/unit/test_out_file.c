/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* export/out_file: what is written arrives, compressed or not, and so does the first error. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "export/output.h"
#include "scratch_dir.h"

static struct out_file *open_at(const char *path)
{
	struct output_args args = { .path = path,
				    .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) };
	struct out_file *of;

	CU_ASSERT_TRUE_FATAL(args.fd >= 0);
	out_file__open(&args, &of);
	return of;
}

TEST("plain")
{
	const char *path = at("plain");
	struct out_file *of = open_at(path);

	CU_ASSERT_EQUAL(out_file__write(of, "new ", 4), 0);
	CU_ASSERT_EQUAL(out_file__write(of, "text", 4), 0);
	CU_ASSERT_EQUAL(out_file__end(of), 0);
	out_file__free(of);
	CU_ASSERT_STRING_EQUAL(get_text(path), "new text");
	out_file__free(NULL);
}

TEST("gzip")
{
	const char *path = at("text.json.gz");
	static char line[70000], back[70000];
	struct out_file *of = open_at(path);
	size_t total = 0;
	gzFile gz;

	for (size_t i = 0; i < sizeof(line); i++)
		line[i] = (char)(i * 7919 >> 5);
	for (size_t i = 0; i < 50; i++)
		CU_ASSERT_EQUAL(out_file__write(of, line, sizeof(line) - i), 0);
	CU_ASSERT_EQUAL(out_file__write(of, line, 0), 0);
	CU_ASSERT_EQUAL(out_file__end(of), 0);
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

TEST("empty gzip")
{
	const char *path = at("empty.gz");
	struct out_file *of = open_at(path);
	gzFile gz;
	char c;

	CU_ASSERT_EQUAL(out_file__end(of), 0);
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
	struct out_file *of = open_at(path);
	char block[4096];
	int err = 0;

	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ .rlim_cur = 64 * 1024, .rlim_max = old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &small);
	srand(1);
	for (int i = 0; i < 1000 && !err; i++) {
		for (size_t k = 0; k < sizeof(block); k++)
			block[k] = (char)rand(); /* does not compress */
		err = out_file__write(of, block, sizeof(block));
	}
	CU_ASSERT_EQUAL(err, -EFBIG);
	CU_ASSERT_EQUAL(out_file__write(of, "x", 1), -EFBIG); /* the first error stays */
	CU_ASSERT_EQUAL(out_file__end(of), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	out_file__free(of);
}

TEST("full disk")
{
	check_full("full");
	check_full("full.gz");
}

int main(void)
{
	signal(SIGXFSZ, SIG_IGN);
	return run_suite_in_scratch("out_file");
}
