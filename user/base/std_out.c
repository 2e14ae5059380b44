/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* See log.h. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* stdio keeps no errno, so the pipe is asked. */
static bool reader_left(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO };

	return poll(&fd, 1, 0) == 1 && fd.revents & POLLERR;
}

int std_out__end(const char *what, int err)
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout)) {
		if (reader_left()) {
			clearerr(stdout);
			return 0;
		}
		if (!err)
			err = errno ? -errno : -EIO;
		clearerr(stdout);
	}
	if (err == -EBADF && what)
		pr_error("cannot write %s: standard output is closed", what);
	else if (err && err != -ECANCELED && what)
		pr_error("cannot write %s to standard output: %s", what, errstr(err));
	return err;
}
