/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The analysis in a process of its own; see plan_child.h. */
#define LOG_DOMAIN "plan_child"
#include "plan/plan_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vec.h"
#include "plan/plan_cache.h"

/* In the child: makes the plan and writes its image to fd. */
static int make_into(int fd, const struct torch_proc *tp, plan_make_fn make)
{
	struct torch_plan *plan = calloc(1, sizeof(*plan));
	uint8_t *image = NULL;
	size_t len = 0, done = 0;
	int err = plan ? make(tp, plan) : -ENOMEM;

	if (!err)
		err = plan_cache__encode(plan, &image, &len);
	while (!err && done < len) {
		ssize_t n = write(fd, image + done, len - done);

		if (n < 0 && errno != EINTR)
			err = -errno;
		else if (n > 0)
			done += (size_t)n;
	}
	free(image);
	torch_plan__free(plan);
	return err;
}

static int read_image(int fd, uint8_t **image, size_t *len)
{
	uint32_t cap = 0;
	ssize_t n;

	*image = NULL;
	*len = 0;
	do {
		if (*len >= PLAN_IMAGE_MAX)
			return -E2BIG;
		if (vec_reserve((void **)image, &cap, *len + 65536, 1))
			return -ENOMEM;
		do
			n = read(fd, *image + *len, 65536);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return -errno;
		*len += (size_t)n;
	} while (n);
	return 0;
}

static int wait_child(pid_t child, pid_t target)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	pr_error("process %d: the analysis of its torch libraries was ended by signal %d: they are damaged, "
		 "or were cut while they were read",
		 target, WTERMSIG(status));
	return -EIO;
}

int plan_child__make(const struct torch_proc *tp, plan_make_fn make, uint8_t **image, size_t *len)
{
	int fds[2], err, child_err;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	child = fork();
	if (child < 0) {
		err = -errno;
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		err = make_into(fds[1], tp, make);
		_exit(err < 0 ? (-err > 255 ? EIO : -err) : 0);
	}
	close(fds[1]);
	err = read_image(fds[0], image, len);
	close(fds[0]);
	child_err = wait_child(child, tp->pid);
	return child_err ? child_err : err;
}
