/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A directory of a test of its own: paths in it, files with a text. */
#ifndef TESTS_SCRATCH_DIR_H
#define TESTS_SCRATCH_DIR_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "suite.h"

static char scratch_dir[] = "/tmp/ptbpf-test-XXXXXX";

/* The path of a name in the directory; the last eight are valid. */
static inline const char *at(const char *name)
{
	static char paths[8][400];
	static unsigned int next;
	char *p = paths[next++ % 8];

	snprintf(p, sizeof(paths[0]), "%s/%s", scratch_dir, name);
	return p;
}

static inline void put_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

/* The text of a file, of which the last one read is valid; "(none)": it cannot be opened. */
static inline const char *get_text(const char *path)
{
	static char buf[4096];
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		return "(none)";
	n = fread(buf, 1, sizeof(buf) - 1, f);
	buf[n] = '\0';
	fclose(f);
	return buf;
}

/* run_suite() with the directory, which is removed with all that is in it. */
static inline int run_suite_in_scratch(const char *name)
{
	char cmd[64];
	int rc;

	if (!mkdtemp(scratch_dir) || chmod(scratch_dir, 0755)) /* tests of another user's files enter it */
		return 1;
	rc = run_suite(name);
	snprintf(cmd, sizeof(cmd), "rm -r '%s'", scratch_dir);
	return system(cmd) || rc;
}

#endif /* TESTS_SCRATCH_DIR_H */
