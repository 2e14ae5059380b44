/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See read_child.h. */
#define LOG_DOMAIN "captures"
#include "cli/read_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/sandbox.h"
#include "capture/capture.h"
#include "export/output.h"

struct reading {
	const struct read_job *job;
	struct read_files files;
	int *fds; /* of the captures, and that of diff */
	uint32_t fd_cnt;
	uint64_t bytes; /* of all of them */
	struct new_file *outputs[READ_CHILD_FILES];
	uint32_t output_cnt;
};

static int add_capture(struct reading *r, const char *path, int fd)
{
	struct stat st;

	if (fd <= 0)
		fd = capture__open(path);
	if (fd < 0)
		return fd;
	r->fds[r->fd_cnt++] = fd;
	if (!fstat(fd, &st) && st.st_size > 0)
		r->bytes += (uint64_t)st.st_size;
	return 0;
}

static int open_captures(struct reading *r)
{
	const struct read_job *job = r->job;
	int err = 0;

	r->fds = xcalloc(job->capture_cnt + 1, sizeof(*r->fds));
	for (uint32_t i = 0; i < job->capture_cnt && !err; i++)
		err = add_capture(r, job->captures[i], job->capture_fd);
	if (!err && job->diff)
		err = add_capture(r, job->diff, 0);
	r->files.captures = r->fds;
	r->files.diff = r->fds[job->capture_cnt];
	return err;
}

static int open_outputs(struct reading *r)
{
	int err = 0;

	for (uint32_t i = 0; i < READ_CHILD_FILES && r->job->outputs[i] && !err; i++) {
		const char *path = r->job->outputs[i];

		r->files.outputs[i] = STDOUT_FILENO;
		if (!strcmp(path, OUTPUT_STDOUT)) {
			r->output_cnt++;
			continue;
		}
		err = new_file__open(path, NEW_FILE_ANY, &r->outputs[i]);
		if (err)
			return err;
		r->output_cnt++;
		r->files.outputs[i] = new_file__fd(r->outputs[i]);
		if (capture__old(r->outputs[i]) == CAPTURE_OLD_CAPTURE) {
			pr_error("%s is a capture of ptbpf and is not replaced; name another file",
				 path);
			err = -EEXIST;
		}
	}
	return err;
}

/* In the child. */
static int read_them(void *arg, uint8_t **answer, size_t *len)
{
	struct reading *r = arg;
	int err = r->job->fn(r->job->arg, &r->files, answer, len);

	if (err && !log__has_error())
		pr_error("'%s' cannot be read or exported: %s", r->job->name, errstr(err));
	return err;
}

/* Standard output may be a file that has something already. */
static uint64_t printed_before(void)
{
	struct stat st;

	return !fstat(STDOUT_FILENO, &st) && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static int run_child(struct reading *r, uint8_t **answer, size_t *len)
{
	int files[READ_CHILD_FILES + 1] = { STDOUT_FILENO };
	char *what = xasprintf("'%s'", r->job->name);
	struct sandbox_job job = {
		.what = what,
		.fn = read_them,
		.arg = r,
		.fds = r->fds,
		.fd_cnt = r->fd_cnt,
		.files = files,
		.file_cnt = r->output_cnt + 1,
		.limits = { .mem_bytes = LIMIT_READ_MEMORY + r->bytes * LIMIT_READ_MEMORY_PER_BYTE,
			    .cpu_s = LIMIT_READ_CPU_S +
				     (uint32_t)(r->bytes / LIMIT_READ_BYTES_PER_CPU_S),
			    .out_bytes = r->job->answer_max,
			    .file_bytes = printed_before() + LIMIT_READ_OUTPUT +
					  r->bytes * LIMIT_READ_OUTPUT_PER_BYTE },
	};
	int err;

	for (uint32_t i = 0; i < r->output_cnt; i++)
		files[1 + i] = r->files.outputs[i];
	tzset(); /* the child cannot read the time zone */
	err = sandbox__run(&job, answer, len);
	if (err == -E2BIG || err == -ETIMEDOUT)
		pr_hint("no recording of its size needs as much: it is damaged, or was made to harm its readers");
	free(what);
	return err;
}

int read_child__run(const struct read_job *job, uint8_t **answer, size_t *len)
{
	struct reading r = { .job = job };
	int err = open_captures(&r);

	*answer = NULL;
	if (!err)
		err = open_outputs(&r);
	if (!err)
		err = run_child(&r, answer, len);
	for (uint32_t i = 0; i < r.output_cnt && !err; i++)
		err = r.outputs[i] ? new_file__commit(r.outputs[i]) : 0;
	for (uint32_t i = 0; i < READ_CHILD_FILES; i++)
		new_file__free(r.outputs[i]);
	while (r.fd_cnt--)
		close(r.fds[r.fd_cnt]);
	free(r.fds);
	return err;
}
