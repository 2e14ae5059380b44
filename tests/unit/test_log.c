/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* log: errors about one process that come again and again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "suite.h"

static char printed[65536];

static unsigned int lines_of(void (*print)(void))
{
	int err_fd = dup(STDERR_FILENO);
	unsigned int lines = 0;
	FILE *f = tmpfile();
	size_t n;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fflush(NULL);
	dup2(fileno(f), STDERR_FILENO);
	print();
	dup2(err_fd, STDERR_FILENO);
	close(err_fd);
	rewind(f);
	n = fread(printed, 1, sizeof(printed) - 1, f);
	printed[n] = '\0';
	for (size_t i = 0; i < n; i++)
		lines += printed[i] == '\n';
	fclose(f);
	return lines;
}

static void print_attach(void)
{
	pr_error("pid %d: cannot attach: %s", 77, errstr(1));
	pr_hint("try again");
}

static void print_other(void)
{
	pr_error("pid %d: cannot attach: %s", 78, errstr(1));
	pr_warn("pid %d: no Python stacks: %s", 77, "why");
}

/* Names of processes say nothing about a line that is about something else. */
static void print_windows(void)
{
	for (int i = 0; i < 3; i++)
		pr_warn("window %d: %s", i, "a read of the memory of pid 77 is not answered");
}

/* Of another process: what differs in numbers is the same, a hint belongs to the line before it,
 * the rest is no error. */
static void forward_lines(void)
{
	log__forward("ptbpf: warning: pid 88: not recorded: it has been ended by signal 9");
	log__forward("ptbpf: hint: try again");
	log__forward("ptbpf: warning: pid 88: not recorded: it has been ended by signal 15");
	log__forward("ptbpf: hint: try again");
	log__forward("ptbpf: pid 88: it cannot be read");
	log__forward("pid 88");
}

TEST("repeated lines about a process")
{
	CU_ASSERT_EQUAL(lines_of(print_attach), 2);
	CU_ASSERT_EQUAL(lines_of(print_attach), 2);
	log__limit_repeats();
	CU_ASSERT_EQUAL(lines_of(print_attach), 2);
	for (int i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(lines_of(print_attach), 0);
	CU_ASSERT_EQUAL(lines_of(print_other), 2);
	CU_ASSERT_EQUAL(lines_of(print_windows), 3);
	CU_ASSERT_EQUAL(lines_of(forward_lines), 4);
	CU_ASSERT_EQUAL(lines_of(forward_lines), 1);
	CU_ASSERT(log__has_error());
}

SUITE("log")
